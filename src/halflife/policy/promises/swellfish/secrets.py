"""The secrets of a Swellfish promise: read from files or from the policy itself, their powers in whole units of its streams.

    promise:
      specifications: {files: secrets/, readings: 1}    # unit: kW, zone: Europe/London, unreadable: skip; or {households: …}

A secret's power becomes whole units of the statistic: how far its event can move what one household counts as in a step.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Literal

from pydantic import Field

from halflife.errors import InvalidInput
from halflife.local_time import parse_time, to_us
from halflife.numerics.forms import JsonObject
from halflife.parsing.documents import PolicyError, Where
from halflife.parsing.quantities import parse_quantity
from halflife.policy.groups import read_groups
from halflife.policy.measure import read_measure
from halflife.policy.model import ONE_OR_MANY, Part, PolicyKeys, Positive, Text, Texts
from halflife.policy.promises.table import SUMS
from halflife.specifications import Specifications
from halflife.specifications.files import ParsedSpecifications, read_specifications
from halflife.steps import MOST_STEPS, Steps

AT: Where = ("promise", "specifications")
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


def read_secrets(policy: PolicyKeys, given: object, account: Steps) -> ParsedSpecifications:
    """Return the secrets that a policy names, their powers in whole units of its streams, and what could not be read."""
    wanted = _secrets(policy, given)
    with policy.about(*AT):
        try:
            found = read_specifications(
                policy.document_at(*AT, "households")
                if wanted.files is None
                else [policy.path(name) for name in wanted.files],
                steps=account,
                last=_last(policy, account),
                unit=wanted.unit,
                zone=wanted.zone or policy.clock.zone,
                skip=wanted.unreadable == "skip",
            )
        except PolicyError as error:
            if wanted.files is None:
                raise  # it names the policy's own lines
            raise policy.error(*((AT, problem) for problem in error.problems)) from error
        if not len(found.specifications):
            raise InvalidInput("hold no secret that could be read within the clock's steps: nothing would be hidden")
    return ParsedSpecifications(in_units(policy, found.specifications, account, wanted), found.problems)


def _secrets(policy: PolicyKeys, given: object) -> Secrets:
    data = given if isinstance(given, Mapping) else {"files": given}
    wanted = policy.read_part(Secrets, data, *AT)
    if (wanted.files is None) == (wanted.households is None):
        raise policy.error((AT, "give either `files` with the specifications, or the `households` themselves"))
    return wanted


def _last(policy: PolicyKeys, account: Steps) -> int | None:
    if policy.clock.end is None:
        return None
    with policy.about("clock", "end"):
        return max(1, min(MOST_STEPS, account.last_over(to_us(parse_time(policy.clock.end, policy.clock.zone)))))


# From power to units ------------------------------------------------------------------------------------------------------


def in_units(policy: PolicyKeys, found: Specifications, account: Steps, wanted: Secrets) -> Specifications:
    """Return the secrets with powers in whole units of the streams, which must agree on them, and events as long as they may
    show (ours).

    An event that begins within a step shows in T + 1 of them, in the first and last in part. Where readings are energies, that is
    a mixture of two events of T steps, and loses no more than the worse of them: pure and Gaussian losses are convex in the
    change. Readings of power may be of any moment of a step, and for Laplace noise with a δ nothing is known of mixtures: there
    the event is taken to be a step longer.

    Each reading is rounded to a unit, R of them in a step; a mean is rounded once more. So the events' T + 1 ≤ 2T steps move by
    up to R (2) units each beside their power, which 2R (4) units on each of T steps cover. Clips, of single readings or of what
    they come to, bring no two numbers further apart.
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


def _factor(policy: PolicyKeys, i: int, account: Steps, wanted: Secrets) -> tuple[Fraction, bool, int]:
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


def secrets_schema() -> JsonObject:
    """Return the JSON Schema of specifications: a file, a folder or a pattern; a list of them; or a mapping with more."""
    return {
        "description": "of swellfish: what each household wants hidden, and when; public, so never what households really did",
        "anyOf": [*ONE_OR_MANY["anyOf"], Secrets.model_json_schema()],
    }
