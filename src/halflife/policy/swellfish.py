"""What a Swellfish promise asks of a policy: its households' secrets in files, the reading, and what happens outside them.

    promise:
      notion: swellfish
      specifications: {files: secrets/, readings: 1}    # unit: kW, zone: Europe/London, unreadable: skip; or {households: …}
      neighbours: one-window            # must be written: one-event, one-window or all-events
      outside: exact                    # must be written, or a floor: nothing is hidden outside hiding intervals
      # floor: 0.2 kW                   # noise at every step instead
      # block: 1 day                    # one noise for each day, so that single secrets do not show

A secret's power becomes whole units of the statistic: how far its event can move what one household counts as in a step.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import Field, ValidationError

from halflife.errors import InvalidInput
from halflife.notions import Swellfish
from halflife.notions.base import Notion
from halflife.numerics.arrays import Integers
from halflife.parsing.documents import Document, PolicyError, Where
from halflife.parsing.quantities import parse_quantity
from halflife.plans.swellfish.plan import SwellfishPlan
from halflife.policy.groups import read_groups
from halflife.policy.measure import read_measure
from halflife.policy.model import Part, Positive, Text, Texts, _in_words
from halflife.policy.promises.table import SUMS
from halflife.specifications import Specifications
from halflife.specifications.files import read_specifications
from halflife.steps import DAY, MOST_STEPS, Steps, from_us, microseconds, parse_time, parse_width, to_us

if TYPE_CHECKING:
    from halflife.policy.aged import Span
    from halflife.policy.channel import Channel
    from halflife.policy.model import Policy

AT: Where = ("promise", "specifications")
SAID = ("outside", "floor", "block")
"""What is said of these promises alone."""
HOUR = Fraction(3_600_000_000)


class Secrets(Part):
    """Where the specifications are: in files, whose paths are relative to the policy file, or here."""

    files: Texts | None = Field(
        None, description="A file, a folder, a pattern, or a list of them: YAML, JSON, CSV or Parquet."
    )
    households: dict[str, list[Any]] | None = Field(
        None, description="Instead of files: each household's name with the list of its secrets."
    )
    unit: Text = Field("kW", description="What powers are in, where they are bare numbers.")
    zone: Text | None = Field(
        None, description="The zone of times that carry none, in files that name none; the clock's."
    )
    unreadable: Literal["refuse", "skip"] = Field(
        "refuse",
        description="What to do if a household's specification cannot be read: refuse all, or leave it unprotected.",
    )
    readings: Positive | None = Field(
        None,
        description="How many readings one household has in a step at most, where they are added up: each is rounded.",
    )


def read_secrets(policy: Policy, given: Any, account: Steps) -> Specifications:
    """Return the secrets that a policy names, their powers in whole units of its streams."""
    wanted = _secrets(policy, given)
    with policy.about(*AT):
        try:
            found = read_specifications(
                _here(policy) if wanted.files is None else [policy.path(name) for name in wanted.files],
                steps=account,
                last=_last(policy, account),
                unit=wanted.unit,
                zone=wanted.zone or policy.clock.zone,
                skip=wanted.unreadable == "skip",
            )
        except PolicyError as error:
            if wanted.files is None:
                raise  # it names the policy's own lines
            raise policy.error(*((AT, line) for line in str(error).splitlines())) from error
        if not len(found.specifications):
            raise InvalidInput("hold no secret that could be read within the clock's steps: nothing would be hidden")
    policy._left_out = found.problems
    return in_units(policy, found.specifications, account, wanted)


def _secrets(policy: Policy, given: Any) -> Secrets:
    data = given if isinstance(given, Mapping) else {"files": given}
    try:
        wanted = Secrets.model_validate(data)
    except ValidationError as error:
        found = [_in_words(Secrets, e) for e in error.errors()]
        raise policy.error(*(((*AT, *where), text) for where, text in found)) from None
    if (wanted.files is None) == (wanted.households is None):
        raise policy.error((AT, "give either `files` with the specifications, or the `households` themselves"))
    return wanted


def _here(policy: Policy) -> Document:
    """The households that the policy itself lists, with the places where they stand."""
    whole = policy._document
    places = {where[2:]: place for where, place in whole.places.items() if where[:2] == AT}
    return Document(whole.name, {"households": whole.data["promise"]["specifications"]["households"]}, places)


def _last(policy: Policy, account: Steps) -> int | None:
    if policy.clock.end is None:
        return None
    with policy.about("clock", "end"):
        return max(1, min(MOST_STEPS, account.last_over(to_us(parse_time(policy.clock.end, policy.clock.zone)))))


# From power to units ------------------------------------------------------------------------------------------------------


def in_units(policy: Policy, found: Specifications, account: Steps, wanted: Secrets) -> Specifications:
    """Return the secrets with powers in whole units of the streams, which must agree on them, and events as long as they may
    show (ours).

    An event that begins within a step shows in T + 1 of them, in the first and last in part. Where readings are energies, that is
    a mixture of two events of T steps, and loses no more than the worse of them: pure and Gaussian losses are convex in the
    change. Readings of power may be of any moment of a step, and for Laplace noise with a δ nothing is known of mixtures: there
    the event is taken to be a step longer.

    Each reading is rounded to a unit, R of them in a step; a mean is rounded once more. So the events' T + 1 ≤ 2T steps move by
    up to R (2) units each beside their power, which 2R (4) units on each of T steps cover.
    """
    factors = {}
    for i in range(len(policy.streams)):
        factors[_factor(policy, i, account, wanted)] = i
    if len(factors) > 1:
        i = max(factors.values())
        raise policy.error((
            ("streams", i, "statistic", "resolution"),
            "an event must move every stream by as many units: give all streams of a swellfish promise the same kind of unit and "
            "the same resolution",
        ))  # fmt: skip
    ((factor, energy, rounded),) = factors
    powers = found.times_power(math.nextafter(float(factor), math.inf), float(rounded))
    extra = policy.promise.model_extra or {}
    pure = parse_quantity(extra.get("delta") or "0", None) == 0 or policy.promise.noise == "gaussian"
    return powers if energy and pure else powers.one_step_longer()


def _factor(policy: Policy, i: int, account: Steps, wanted: Secrets) -> tuple[Fraction, bool, int]:
    """How many units of a stream one unit of power moves it by in a step, whether a step's value is all of its energy, and how
    many units rounding may add."""
    statistic, at = policy.streams[i].statistic, ("streams", i, "statistic")
    if statistic.kind not in SUMS:
        raise policy.error(
            (
                (*at, "kind"),
                f"secrets bound what an event adds to a sum, not to a {statistic.kind}: use {', '.join(SUMS)}",
            )
        )
    if not read_groups(policy, i).fixed:
        raise policy.error(
            (("streams", i, "groups"), "secrets say nothing about a household's group: fix it with a public table")
        )
    measure, unit = read_measure(policy, i), statistic.unit or wanted.unit
    rounded = 4
    if statistic.fold == "sum":
        if wanted.readings is None:
            raise policy.error((
                (*AT, "readings"),
                "missing: each reading is rounded before they are added up, so what an event can move depends on how many there "
                "are: write how many readings one household has in a step at most, such as `readings: 1`",
            ))  # fmt: skip
        rounded = 2 * wanted.readings
    with policy.about(*at, "unit"):
        power = _ratio(wanted.unit, unit)
        if power is not None:
            if statistic.fold == "sum":
                raise InvalidInput(
                    f"readings of power ({unit}) that are added up within a step come to more than the event's power: "
                    "write `fold: mean`, or give energies"
                )
            return power / measure.resolution * measure.heaviest, False, rounded * measure.heaviest
        energy = _ratio(f"{wanted.unit}h", unit)
        if energy is None:
            raise InvalidInput(
                f"secrets have powers in {wanted.unit}, which move neither a value in {unit} nor its sum over time: give "
                f"specifications a `unit` that does"
            )
    hours = Fraction(account.width) / HOUR + (3 if account.days else 0)
    worth = energy * hours / measure.resolution * measure.heaviest
    return worth, statistic.fold in ("sum", "mean"), rounded * measure.heaviest


def _ratio(given: str, unit: str) -> Fraction | None:
    try:
        return parse_quantity(f"1 {given}", unit)
    except InvalidInput:
        return None


# What must be said ----------------------------------------------------------------------------------------------------------


def check_swellfish(policy: Policy, notion: Notion[Any]) -> None:
    """Refuse a policy that does not say how it is to be read, or what is published outside hiding intervals (S1, S4)."""
    promise = policy.promise
    if not isinstance(notion, Swellfish):
        for key in SAID:
            if getattr(promise, key) is not None:
                raise policy.error((("promise", key), f"is said of swellfish promises, not of {notion.name}"))
        return
    if "neighbours" not in (promise.model_extra or {}):
        raise policy.error((
            ("promise", "neighbours"),
            "missing: write how secrets are to be read: one-event (one occurrence of one event is hidden), one-window (all "
            "that a "
            "household's events can do within one event's time) or all-events (one occurrence of every event at once: the most "
            "noise)",
        ))  # fmt: skip
    if notion.delta > 0 and promise.noise is None:
        best = "laplace" if promise.plan == "paper" else "gaussian" if len(policy.streams) > 1 else notion.noise
        raise policy.error((
            ("promise", "noise"),
            f"missing: with a delta above 0 the promise is worked out for one family of noise, for good: write `noise: {best}`, "
            "which fits here, or the other of laplace and gaussian",
        ))  # fmt: skip
    if (promise.outside is None) == (promise.floor is None):
        raise policy.error((
            ("promise", "outside"),
            "missing: outside hiding intervals nothing is hidden, and the exact value is published. Write `outside: exact` "
            "if that "
            "is meant, or a `floor:` of noise for every step, such as 0.2 kW; not both",
        ))  # fmt: skip
    if policy.population.neighbours != "replace-one":
        raise policy.error((
            ("population", "neighbours"),
            "swellfish hides events, never whether a household is in the data: leave this out",
        ))  # fmt: skip


def plan_options(policy: Policy, i: int, account: Steps, span: Span, factor: Fraction) -> dict[str, Any]:
    """Return what a stream's plan is asked for beside the rest: its floor in units, its blocks, and where its steps begin.

    factor  what a unit is worth in the output
    """
    options: dict[str, Any] = {"begin": span.first}
    promise = policy.promise
    if promise.floor is not None:
        with policy.about("promise", "floor"):
            amount = parse_quantity(promise.floor, policy.streams[i].statistic.unit)
            if amount <= 0:
                raise InvalidInput(f"must be above 0, not {promise.floor!r}: write `outside: exact` for no floor")
            options["floor"] = math.nextafter(float(amount / factor), math.inf)
    if promise.block is not None:
        with policy.about("promise", "block"):
            options["block"] = block_edges(promise.block, account, _furthest(policy, account, span))
    return options


def _furthest(policy: Policy, account: Steps, span: Span) -> int:
    assert isinstance(policy._notion, Swellfish)
    return span.last or policy._notion.specifications.last_step


def block_edges(width: str, account: Steps, last: int) -> Integers:
    """Return the account's steps at which blocks of this width begin, the one after `last` too: local days follow the wall clock.

    >>> spring = Steps.of("1 h", "2013-03-30", "Europe/London")
    >>> block_edges("1 day", spring, 80).tolist()
    [1, 25, 48, 72, 96]
    """
    blocks = Steps.of(width, _midnight(account, microseconds(parse_width(width))), account.zone)
    if blocks.width < account.width:
        raise InvalidInput(f"{width} is shorter than a step: give a block of several steps")
    ends = blocks.edges(1, max(1, blocks.step(account.end(max(1, last)) - 1)))
    steps = np.array([account.step(int(us)) for us in ends], dtype=np.int64)
    return np.unique(np.maximum(steps, 1))


def _midnight(account: Steps, width: int) -> Any:
    """When the first block begins: at the local midnight before the first step if blocks are whole days, else with it."""
    start = from_us(account.start_us, account.zone)
    return start.replace(hour=0, minute=0, second=0, microsecond=0) if width % DAY == 0 else start


def warnings(policy: Policy, notion: Swellfish, span: Span, account: Steps) -> tuple[str, ...]:
    """Return what must be read first: a δ too large for the population, households left out, and when nobody hides anything."""
    said = []
    size, s = policy.population.size, notion.specifications
    if notion.delta * size >= 1:
        said.append(
            f"δ = {notion.delta:g} is too large for {size:,} households: a mechanism that publishes everything about "
            f"{notion.delta * size:.3g} of them keeps it. Choose a δ far below 1/{size:,} = {1 / size:.3g}."
        )
    if policy._left_out:
        said.append(
            f"{len(policy._left_out):,} specifications could not be read and are left out: their households are not protected: "
            + "; ".join(policy._left_out[:5])
        )
    if span.last is None:
        end = from_us(account.end(max(1, s.last_step)), account.zone)
        what = "exact values are published" if policy.promise.floor is None else "the floor of noise is left"
        said.append(
            f"The last hiding interval ends {end:%Y-%m-%d %H:%M} {account.zone}: from then on {what}, until secrets are added."
        )
    return tuple(said)


def explain_secrets(channel: Channel, plan: SwellfishPlan) -> Iterator[str]:
    """Say what is hidden, how far one household's secrets move the numbers, where exact values are published, and until when."""
    notion, steps, unit = plan.notion, channel.steps, channel.part.statistic.unit or ""
    assert isinstance(notion, Swellfish)
    s, worth = notion.specifications, float(max(channel.factors))
    yield (
        f"{len(s):,} secrets of {len(s.households):,} households, read as {notion.neighbours}: those of one household move a "
        "step "
        f"by at most {plan.sensitivity * worth:.6g} {unit}".rstrip()
    )
    n = channel.last or max(1, s.last_step - plan.begin + 1)
    scales = plan.scales(n)
    noisy = scales[scales > 0] * worth
    if len(noisy):
        yield f"noise from {noisy.min():.6g} to {noisy.max():.6g} {unit}, on average {scales.mean() * worth:.6g}".rstrip()
    exact = int(np.count_nonzero(scales == 0))
    if exact:
        yield f"EXACT values are published at {exact:,} of {n:,} steps, outside all hiding intervals"
    end = from_us(channel.account.end(max(1, s.last_step)), steps.zone)
    yield f"the last hiding interval ends {end:%Y-%m-%d %H:%M} {steps.zone}"
    yield "specifications are public: hide recurring windows, not what a household really did"
    yield from (f"WARNING: {text}" for text in plan.warnings)
