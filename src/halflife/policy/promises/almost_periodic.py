"""Almost-periodic privacy in policies: the declarations that a weak promise needs, and phases by the wall clock."""

from __future__ import annotations

import datetime
from dataclasses import Field as Parameter
from dataclasses import fields, replace
from itertools import pairwise
from typing import Any, Literal

from pydantic import Field

from halflife import registry
from halflife.errors import InvalidInput, unknown
from halflife.local_time import DAY, find_zone
from halflife.notions import AlmostPeriodic, Notion
from halflife.notions.meaning import meaning_of
from halflife.policy.model import Part, Statistic
from halflife.policy.promises.base import Adapter, read_plain, register_adapter
from halflife.policy.promises.table import ADD, COMPLETE, FIXED, REPLACE, SUMS, accept, refuse
from halflife.steps import Steps

PRESENT = refuse(
    "neighbours",
    "an almost-periodic promise compares two habits of somebody who is present, and add-remove neighbours would halve the "
    "noise that this needs: write replace-one, or leave it out",
    neighbours=(ADD,),
)
NOT_LINEAR = refuse(
    "statistics",
    "a histogram is not linear, nor are the counts under a quantile: what a habit adds to a bin depends on that day's "
    "variation (edges 0, 1, 2, z = 0.9 or 0.5, "
    "w = (0, 0.3): the two days differ by (−1, 1) or (0, 0)), so a change of habit is told in every period anew. Publish a "
    "sum or a mean, or take w-event",
    statistics=("histogram", "quantile"),
)

RULES = {
    "almost-periodic, weak": (
        PRESENT,
        NOT_LINEAR,
        refuse(
            "statistics",
            "a count is not linear in a habit: of somebody who was away once, the difference of two periods tells it "
            "exactly. Publish a sum, or write `strong: yes`",
            statistics=("count",),
        ),
        refuse(
            "statistics",
            "a count of events is cut off at `most_events`, and a bound that binds once makes the weak loss infinite. Publish a "
            "sum, or write `strong: yes`",
            statistics=("events",),
        ),
        refuse(
            "groups",
            "people who change their group join one and leave another, which makes the weak loss infinite: fix everybody's "
            "group by a table",
            groups=("column",),
        ),
        refuse(
            "folds",
            "only a sum of a step's readings is linear in them, and differences between periods carry no noise: write `fold: "
            "sum` (the same where there is one reading a step), or `strong: yes`",
            folds=("mean", "first", "last", "min", "max"),
        ),
        refuse("clips", "a clip that binds once makes the weak loss infinite", clips=("may bind", "of readings")),
        accept(
            "one person's habit may be any other: what it adds is the same in every period, as readings are declared to be "
            "whole multiples of the resolution, never clipped and never missing",
            statistics=SUMS, neighbours=(REPLACE,), groups=FIXED, clips=("never binds",), folds=("sum",),
        ),
    ),
    "almost-periodic, strong": (
        PRESENT,
        COMPLETE,
        NOT_LINEAR,
        refuse(
            "groups",
            "in a period in which a person is in another group than usual, their whole habit counts as variations, which "
            "costs up to 2 ε more: fix everybody's group by a table",
            groups=("column",),
        ),
        refuse(
            "folds",
            "the least or largest of a step's readings is not linear in them: a habit shows in some periods and not in "
            "others. Write `fold: sum`, mean, first or last",
            folds=("min", "max"),
        ),
        accept(
            "one person's habit, or what they did within one period, may be anything else; wherever a clip, a missing "
            "reading, rounding or a fold other than sum makes a habit count differently in one period than in another, the "
            "difference counts as variations: up to ε more for each such period, and up to 2 ε where a step has several readings "
            "of which some are missing, are clipped singly (`clip_readings`), or are rounded to units that are not far "
            "finer than the clip",
            statistics=("count", "events", *SUMS), neighbours=(REPLACE,), groups=FIXED,
            folds=("none", "sum", "mean", "first", "last"),
        ),
    ),
}  # fmt: skip


class Declarations(Part):
    """The keys that a weak promise must have, and a strong one must not."""

    variations: Literal["public"] | None = Field(
        None, description="Almost-periodic, weak: that changes from period to period are published exactly."
    )
    readings: Literal["complete"] | None = Field(
        None,
        description="Almost-periodic, weak: that no clip ever binds, neither on a reading nor on a step's sum, that no reading "
        "is missing, that each person has the same moments read in every period, each once, and that members are fixed.",
    )
    rounding: Literal["none"] | None = Field(
        None,
        description="Almost-periodic, weak: that readings are whole multiples of the resolution, so that none is rounded.",
    )


MISSING = {
    "variations": "missing: the weak notion publishes every change from one period to the next exactly; in a group of one home "
    "that is the raw data. Write `variations: public` if that is meant, or `strong: yes` to hide one period's changes",
    "readings": "missing: one reading that is clipped or absent, or one person who joins or leaves, makes the weak loss "
    "infinite. Write `readings: complete` if no clip can ever bind, neither on a reading nor on a step's sum, everybody has "
    "the same moments read in every period, each once, and members are fixed; else `strong: yes`, which counts all "
    "of this as variations",
    "rounding": "missing: one reading that is rounded makes the weak loss infinite. Write `rounding: none` if every reading is a "
    "whole multiple of the resolution as it is recorded (else choose the meter's own resolution); or `strong: yes`, "
    "which counts it as variations",
}
"""What is said of a weak promise that leaves a declaration out."""


@register_adapter
class AlmostPeriodicAdapter(Adapter):
    """Follows the wall clock, and has weak promises declare that their statistic is linear in what people do."""

    names = ("almost-periodic",)
    rules = RULES
    keys = Declarations
    keys_of = "weak almost-periodic"
    notion: AlmostPeriodic
    own: Declarations

    def read_notion(self) -> Notion:
        """Return the notion, with the account's clock where phases follow one."""
        made = super().read_notion()
        assert isinstance(made, AlmostPeriodic)
        return follow_clock(made, self.account)

    def read_parameter(self, parameter: Parameter[Any], value: object) -> Any:
        """Return the notion that is laid over patterns, or a plain parameter."""
        if meaning_of(parameter) == "notion":
            return self._read_notion_inside(parameter.name, value)
        return super().read_parameter(parameter, value)

    def _read_notion_inside(self, key: str, value: object) -> Notion:
        """The notion of `over: {notion: exponential, half_life: 10 days}`, with the promise's ε if it has none of its own."""
        if not isinstance(value, dict) or "notion" not in value:
            raise InvalidInput(
                f"{key} must be a mapping with a notion, such as {{notion: exponential, half_life: 10 days}}"
            )
        cls = registry.find_notion(value["notion"])
        known = {f.name: f for f in fields(cls) if f.init}
        given = {"epsilon": (self.policy.promise.model_extra or {}).get("epsilon"), **value}
        given.pop("notion")
        for name in given:
            if name not in known:
                raise unknown(f"parameter of {cls.name}", name, known)
        step = self.policy.clock.step
        made: Notion = cls(
            **{n: read_plain(known[n], v, self.account, step) for n, v in given.items() if v is not None}
        )
        return made

    @classmethod
    def variant(cls, notion: Notion) -> str:
        """Return whether the promise is weak or strong."""
        return f"{notion.name}, {'strong' if notion.strong else 'weak'}"  # type: ignore[attr-defined]

    def describe_clip(self, statistic: Statistic) -> str:
        """Return what the policy declares of sums: that no clip ever binds."""
        declared = self.own.readings is not None and statistic.kind in SUMS
        return "never binds" if declared else super().describe_clip(statistic)

    def check(self) -> None:
        """Refuse a weak promise that does not say what it publishes, and that its statistic is linear in what people do (P4).

        In the weak notion a clip that binds, a missing reading, one that is rounded, and people who join, leave or change their
        group make the loss infinite (clip at 1, z = 0.9 or 0.5, w = (0, 0.3): the difference of two published values is exactly
        0.1 or 0.3; resolution 1 kWh, z = 3.0 or 3.4, w = (0, 0.2): 0 or 1). A program cannot see from a policy that they never
        happen, and must not look at the data: the operator declares it. Strong counts all of them as variations.
        """
        weak = not self.notion.strong
        for key in Declarations.model_fields:
            if getattr(self.own, key) is not None and not weak:
                raise self.policy.error((
                    ("promise", key), f"is said of {self.keys_of} promises, not of {self.notion.name}",
                ))  # fmt: skip
        self._check_period()
        if not weak:
            return
        for key, message in MISSING.items():
            if getattr(self.own, key) is None:
                raise self.policy.error((("promise", key), message))
        self._check_source_zones()

    def _check_source_zones(self) -> None:
        """Refuse times without a zone from a place whose clocks change: of the hour that comes twice, one has all readings."""
        for i, stream in enumerate(self.policy.streams):
            if stream.source is None:
                continue
            with self.policy.about("streams", i, "source", "zone"):
                changes = _clock_changes(stream.source.zone)
            if changes:
                raise self.policy.error((
                    ("streams", i, "source", "zone"),
                    f"when the clocks of {stream.source.zone} go back, an hour is written twice and cannot be told apart: one "
                    "step has no readings, which makes the weak loss infinite: give times with their offset, or write "
                    "`strong: yes`",
                ))  # fmt: skip

    def _check_period(self) -> None:
        """Refuse a period of days whose phases would not follow the wall clock that people live by: their noise would be used
        for another stretch of the day after a clock change, and the difference of the two values has no noise."""
        policy, account = self.policy, self.account
        if account.days or account.months or (self.notion.period * account.width) % DAY:
            return
        if DAY % account.width:
            raise policy.error(
                (("promise", "period"), f"steps of {policy.clock.step} do not fit into a day, so days have no phases")
            )
        changes = _clock_changes(policy.clock.zone)
        if any(change % account.width for change in changes):
            raise policy.error((
                ("clock", "step"),
                f"when the clocks of {policy.clock.zone} change, steps of {policy.clock.step} lie across others of the day "
                "before: take steps that divide the change, or a zone whose clocks do not change",
            ))  # fmt: skip
        if changes and self.notion.renew is not None:
            raise policy.error((
                ("promise", "renew"),
                f"noise that is renewed counts its phases in steps, and the clocks of {policy.clock.zone} change: take a zone "
                "whose clocks do not, such as UTC",
            ))  # fmt: skip


def follow_clock(notion: AlmostPeriodic, account: Steps) -> AlmostPeriodic:
    """Return the promise with the account's clock where phases follow one that may change.

    The clock stands in the policy and among the ledger's facts, so no step can claim another phase than its time of day.
    """
    if not notion.follows_clock(account) or account.zone.upper() == "UTC":
        return notion
    return replace(notion, clock=account)


def _clock_changes(zone: str) -> set[int]:
    """Return the sizes of a zone's clock changes, in µs, within the supported years."""
    place, offsets = find_zone(zone), []
    for year in range(1990, 2061):
        for month in range(1, 13):
            moment = datetime.datetime(year, month, 15, 12, tzinfo=datetime.UTC).astimezone(place)
            offsets.append(round((moment.utcoffset() or datetime.timedelta()).total_seconds() * 1_000_000))
    return {abs(b - a) for a, b in pairwise(offsets)} - {0}
