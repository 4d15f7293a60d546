"""Swellfish privacy in policies: what the declared events of a household add to its value.

promise:
  notion: swellfish
  specifications: {files: secrets/, readings: 1}
  neighbours: one-window            # must be written: one-event, one-window or all-events
  outside: exact                    # must be written, or a floor: nothing is hidden outside hiding intervals
  # floor: 0.2 kW                   # noise at every step instead
  # block: 1 day                    # one noise for each day, so that single secrets do not show
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import Field as Parameter
from dataclasses import replace
from fractions import Fraction
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from halflife.errors import InvalidInput
from halflife.local_time import DAY, from_us
from halflife.notions import Notion, Swellfish
from halflife.notions.meaning import meaning_of
from halflife.numerics.arrays import Integers
from halflife.numerics.forms import JsonObject, leave_out
from halflife.parsing.quantities import parse_quantity
from halflife.plans import Plan
from halflife.plans.swellfish.plan import SwellfishPlan
from halflife.policy.model import Part, Text
from halflife.policy.outline import Outline
from halflife.policy.promises.base import Adapter, register_adapter
from halflife.policy.promises.swellfish.secrets import read_secrets, secrets_schema
from halflife.policy.promises.table import ADD, COMPLETE, FIXED, REPLACE, SUMS, Case, Rule, accept, refuse
from halflife.release import Noise
from halflife.specifications.neighbours import INTERPRETATIONS
from halflife.steps import Steps, microseconds, parse_width

RULES: Mapping[str, tuple[Rule, ...]] = {
    "swellfish": (
        COMPLETE,
        refuse(
            "neighbours",
            "swellfish hides events, never whether a household is in the data: leave this out",
            neighbours=(ADD,),
        ),
        refuse(
            "statistics",
            "secrets bound what an event adds to a sum: use sum, mean or weighted sum",
            statistics=("count", "events", "histogram", "quantile"),
        ),
        refuse(
            "groups", "secrets say nothing about a household's group: fix it with a public table", groups=("column",)
        ),
        accept(
            "a household's events happen or not: its secrets' powers, in units, bound how far that moves a sum, and a clip "
            "only brings values closer",
            statistics=SUMS,
            neighbours=(REPLACE,),
            groups=FIXED,
        ),
    ),
}


class Outside(Part):
    """The key `outside`: what is published at steps where no secret is relevant."""

    outside: Literal["exact"] | None = Field(
        None, description="Swellfish: that exact values are published outside hiding intervals."
    )
    floor: Text | None = Field(None, description="Swellfish: the least noise at any step, such as 0.2 kW.")
    block: Text | None = Field(
        None, description="Swellfish: one noise for each day (or any block), so that single secrets do not show."
    )


@register_adapter
class SwellfishAdapter(Adapter):
    """Reads the secrets, and plans from them how far a household moves each step."""

    names = ("swellfish",)
    rules = RULES
    keys = Outside
    words: ClassVar[Mapping[str, str]] = {
        "outside": "what is published outside hiding intervals",
        "floor": "the floor of noise",
        "block_minutes": "the block of steps with one noise, in minutes,",
    }
    template = """\
  # specifications: {files: secrets/, readings: 1}    # swellfish: what each household wants hidden, and when; no epsilon here.
                              # They are public: hide recurring windows ("every weekday 18:00-21:00, oven, 3 kW, 30 min,
                              # epsilon 1"), never what households really did; `halflife secrets check` names their problems
  # neighbours: one-window    # swellfish: how secrets are read; or one-event, or all-events
  # outside: exact            # swellfish: nothing is hidden outside those windows; or noise at every step, floor: 0.2 kWh
  # block: 1 day              # swellfish: one noise for each day, so that a single window does not show
"""
    notion: Swellfish
    own: Outside
    unread: tuple[str, ...] = ()
    """Why specifications could not be read, of households that are left out."""

    def public_files(self) -> Sequence[str]:
        """Return the files and folders of specifications, if they are in files."""
        given = (self.policy.promise.model_extra or {}).get("specifications")
        files = given.get("files") if isinstance(given, Mapping) else given
        return [files] if isinstance(files, str) else list(files or ())

    def read_parameter(self, parameter: Parameter[Any], value: object) -> Any:
        """Return the secrets in units of the streams, or a plain parameter."""
        if meaning_of(parameter) != "specifications":
            return super().read_parameter(parameter, value)
        if self.account.months:
            raise self.policy.error((
                ("clock", "step"),
                "it is not worked out how far an event moves steps of months, whose lengths differ: take steps of days or weeks "
                "for swellfish promises",
            ))  # fmt: skip
        found = read_secrets(self.policy, value, self.account)
        self.unread = found.problems
        return found.specifications

    def check(self) -> None:
        """Refuse a policy that does not say how secrets are to be interpreted, or what is published outside hiding intervals
        (S1, S4)."""
        policy, promise = self.policy, self.policy.promise
        if "neighbours" not in (promise.model_extra or {}):
            raise policy.error((
                ("promise", "neighbours"),
                "missing: write how secrets are to be read: one-event (one occurrence of one event is hidden), one-window (all "
                "that a household's events can do within one event's time) or all-events (one occurrence of every event at once: "
                "the most noise)",
            ))  # fmt: skip
        if self.notion.delta > 0 and promise.noise is None:
            best = (
                "laplace" if promise.plan == "paper" else "gaussian" if len(policy.streams) > 1 else self.notion.noise
            )
            raise policy.error((
                ("promise", "noise"),
                f"missing: with a delta above 0 the promise is worked out for one family of noise, for good: write `noise: "
                f"{best}`, which fits here, or the other of laplace and gaussian",
            ))  # fmt: skip
        if (self.own.outside is None) == (self.own.floor is None):
            raise policy.error((
                ("promise", "outside"),
                "missing: outside hiding intervals nothing is hidden, and the exact value is published. Write `outside: exact` "
                "if that is meant, or a `floor:` of noise for every step, such as 0.2 kW; not both",
            ))  # fmt: skip

    def check_extension(self) -> None:
        """Refuse secrets that are added under a plan for all of them at once."""
        if self.policy.promise.plan == "optimal":
            raise InvalidInput(
                "the optimal plan is worked out for all secrets at once, so none can be added: undo the change; begin with "
                "`plan: tight` where secrets are to come"
            )

    def make_plan(self, stream: Outline, notion: Notion, noise: Noise | None = None) -> Plan:
        """Return the plan of a stream whose sensitivities come from secrets; one that does not keep the promise is refused."""
        promise = self.policy.promise
        if promise.cap is not None:
            raise InvalidInput("swellfish plans have no `cap`: leave it out")
        plan = notion.plan(
            method=promise.plan,
            age=stream.age,
            horizon=stream.last,
            noise=noise or promise.noise,
            **self._options(stream),
        )
        assert isinstance(plan, SwellfishPlan)
        if not plan.verdict()["kept"]:
            raise InvalidInput(plan.not_protected()[0])
        width = None if self.own.block is None else microseconds(parse_width(self.own.block))
        facts = {**plan.facts, "share": stream.share, "floor": plan.floor, "blocks": width}
        return replace(plan, warnings=self._warnings(stream), facts=facts)

    @property
    def plans_follow_size(self) -> bool:
        """Whether there is a floor of noise: of a mean it is in the unit of the mean."""
        return self.own.floor is not None

    def _options(self, stream: Outline) -> dict[str, Any]:
        """Return the options of this notion's plans: the noise floor in units, the blocks, and where steps begin."""
        options: dict[str, Any] = {"begin": stream.first}
        if self.own.floor is not None:
            with self.policy.about("promise", "floor"):
                amount = parse_quantity(self.own.floor, stream.part.statistic.unit)
                if amount <= 0:
                    raise InvalidInput(f"must be above 0, not {self.own.floor!r}: write `outside: exact` for no floor")
                if self.policy.members.by_date and stream.divides:
                    raise InvalidInput(
                        "the floor of a mean would follow the sizes by date, and the plan with it: publish a sum, or give "
                        "population.size as a number"
                    )
                options["floor"] = math.nextafter(float(amount / min(stream.factors)), math.inf)
        if self.own.block is not None:
            with self.policy.about("promise", "block"):
                last = stream.last_data_time or self.notion.specifications.last_step
                options["block"] = block_edges(self.own.block, self.account, last)
        return options

    def _warnings(self, stream: Outline) -> tuple[str, ...]:
        """Return warnings: a δ too large for the population, households left out, steps at which no secret is relevant."""
        said = []
        size, delta = self.policy.members.largest, self.notion.delta
        if delta * size >= 1:
            said.append(
                f"δ = {delta:g} is too large for {size:,} households: a mechanism that publishes everything about "
                f"{delta * size:.3g} of them keeps it. Choose a δ far below 1/{size:,} = {1 / size:.3g}."
            )
        if self.unread:
            said.append(
                f"{len(self.unread):,} specifications could not be read and are left out: their households are not protected: "
                + "; ".join(self.unread[:5])
            )
        if stream.last is None:
            end = from_us(self.account.end(max(1, self.notion.specifications.last_step)), self.account.zone)
            what = "exact values are published" if self.own.floor is None else "the floor of noise is left"
            said.append(
                f"The last hiding interval ends {end:%Y-%m-%d %H:%M} {self.account.zone}: from then on {what}, until secrets are "
                "added."
            )
        return tuple(said)

    def explain(self, stream: Outline, plan: Plan, why: str) -> Iterator[str]:
        """Say what is hidden, how far one household's secrets move the numbers, where exact values are published, until when."""
        assert isinstance(plan, SwellfishPlan)
        unit, worth, s = stream.part.statistic.unit or "", float(max(stream.factors)), self.notion.specifications
        yield (
            f"{len(s):,} secrets of {len(s.households):,} households, read as {self.notion.neighbours}: those of one household "
            f"move a step by at most {plan.sensitivity * worth:.6g} {unit}".rstrip()
        )
        n = stream.last or max(1, s.last_step - plan.begin + 1)
        scales = plan.scales(n)
        noisy = scales[scales > 0] * worth
        if len(noisy):
            yield f"noise from {noisy.min():.6g} to {noisy.max():.6g} {unit}, on average {scales.mean() * worth:.6g}".rstrip()
        exact = int(np.count_nonzero(scales == 0))
        if exact:
            yield f"EXACT values are published at {exact:,} of {n:,} steps, outside all hiding intervals"
        end = from_us(self.account.end(max(1, s.last_step)), stream.steps.zone)
        yield f"the last hiding interval ends {end:%Y-%m-%d %H:%M} {stream.steps.zone}"
        yield "specifications are public: hide recurring windows, not what a household really did"
        yield from (f"WARNING: {text}" for text in plan.warnings)

    @classmethod
    def describe_sensitivity(cls, case: Case) -> str:
        """Return where the sensitivity comes from: the secrets, whatever the statistic."""
        return "Σ of the secrets' powers"

    def to_facts(self) -> JsonObject:
        """Return the noise outside hiding intervals, in the unit of the first stream, and the blocks of one noise, in minutes."""
        own, unit = self.own, self.policy.streams[0].statistic.unit
        facts = {
            "outside": own.outside,
            "floor": None if own.floor is None else str(parse_quantity(own.floor, unit)),
            "block_minutes": None
            if own.block is None
            else str(Fraction(microseconds(parse_width(own.block)), 60_000_000)),
        }
        return leave_out(facts, outside=None, floor=None, block_minutes=None)

    @classmethod
    def schema(cls) -> dict[str, JsonObject]:
        """Return the schema with what specifications may be, and the interpretations of secrets."""
        interpretations = {
            "enum": list(INTERPRETATIONS),
            "description": "of swellfish: how secrets are read, which must be written",
        }
        return {**super().schema(), "specifications": secrets_schema(), "neighbours": interpretations}


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
