"""Age-dependent privacy in policies: hides a person's current state, not whether they take part.

The process is written out, read from a file or fitted (`process`). Streams share losses rather than ε.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import Field, replace
from typing import Any

from halflife.errors import InvalidInput
from halflife.notions import AgeDependent, Notion
from halflife.notions.meaning import meaning_of
from halflife.numerics.arrays import Floats
from halflife.numerics.forms import JsonObject
from halflife.parsing.quantities import parse_quantity
from halflife.plans import Plan
from halflife.policy.measure import Measure
from halflife.policy.model import Statistic
from halflife.policy.outline import Outline
from halflife.policy.promises.age_dependent.process import process_schema, read_process
from halflife.policy.promises.base import Adapter, register_adapter
from halflife.policy.promises.table import ADD, COMPLETE, FIXED, GROUPS, REPLACE, STATISTICS, SUMS, Rule, accept, refuse
from halflife.processes import AutoRegressive
from halflife.release import Noise

BELOW_ONE = 1 - 1e-12
"""So that the shares of a loss, rounded and added up again, never come to more than the loss."""

DOUBLES = 1e-3
"""How far doubles may put two readings further apart than they are, in resolutions: each by 4·2⁻⁵³ of 2⁴⁰ of them at the most."""

PRESENT = refuse(
    "neighbours",
    "an age-dependent promise compares two states of somebody who is present, and add-remove neighbours would halve the "
    "noise that this needs (two bins, p = q = 0.1, ε = 1: 1.68 is attained): write replace-one, or leave it out",
    neighbours=(ADD,),
)

RULES: Mapping[str, tuple[Rule, ...]] = {
    "age-dependent": (
        PRESENT,
        COMPLETE,
        accept(
            "what one person counts as in a step is a function of their state then, their group and whether they have a "
            "reading among it; the state may be any other",
            statistics=STATISTICS, neighbours=(REPLACE,), groups=GROUPS,
        ),
    ),
    "age-dependent, autoregressive": (
        PRESENT,
        COMPLETE,
        refuse(
            "statistics",
            "an autoregressive process promises a loss in proportion to how far a person's value moved, which only sums, "
            "means and weighted sums have: use one of them, or another process",
            statistics=("count", "events", "histogram", "quantile"),
        ),
        refuse(
            "groups",
            "an autoregressive process says nothing about a person's group: fix it with a public table, or use another process",
            groups=("column",),
        ),
        refuse(
            "clip_readings",
            "an autoregressive process says how far a person's value moves, which is what a step's readings come to; clipped "
            "singly, readings of one value may come to different numbers, and of two near ones to far ones: write `clip`",
            clips=("of readings",),
        ),
        accept(
            "what one person counts as is their value, clipped; the noise is in proportion to how far it may have moved",
            statistics=SUMS, neighbours=(REPLACE,), groups=FIXED, clips=("none", "may bind"),
        ),
    ),
}  # fmt: skip


@register_adapter
class AgeDependentAdapter(Adapter):
    """Reads the process, and plans all streams together."""

    names = ("age-dependent",)
    rules = RULES
    template = """\
  # process: {file: home.json}    # age-dependent: how one person's data moves; `halflife process fit` writes it, from readings
                              # of other people; or {name: markov-chain, matrix: [[0.9, 0.1], [0.1, 0.9]]}
"""
    notion: AgeDependent

    def read_parameter(self, parameter: Field[Any], value: object) -> Any:
        """Return the process that is named, or a plain parameter."""
        if meaning_of(parameter) == "process":
            return read_process(self.policy, value, self.account)
        return super().read_parameter(parameter, value)

    def public_files(self) -> Sequence[str]:
        """Return the file of the process, if it is in one."""
        given = (self.policy.promise.model_extra or {}).get("process")
        return [given["file"]] if isinstance(given, dict) and isinstance(given.get("file"), str) else ()

    def read_notion(self) -> Notion:
        """Return the promise, by the rules of the ledger if there is one, else by the newest.

        The newest charge how far the span moves a value once it is rounded (`_widen`). With weights a value moves by as much
        more as a person weighs, and the sensitivity does not say by how much: there the first rules hold.
        """
        made = super().read_notion()
        assert isinstance(made, AgeDependent)
        weighted = any(s.statistic.weights is not None for s in self.policy.streams)
        if isinstance(made.process, AutoRegressive) and (weighted or self._begun_rules(made.rules) == 1):
            return replace(made, rules=1)
        if isinstance(made.process, AutoRegressive):
            return replace(
                made, process=_widen(made.process, max(_clip_width(s.statistic) for s in self.policy.streams))
            )
        return replace(made, rules=self._begun_rules(made.rules))

    def _begun_rules(self, newest: int) -> int:
        """The rules that the ledger was begun under: the first if it says none, the newest if there is no ledger."""
        begun = self.policy.begun
        if begun is None:
            return newest
        notion = begun.get("notion")
        rules = notion.get("rules", 1) if isinstance(notion, dict) else 1
        return rules if rules in range(1, newest + 1) else newest

    @classmethod
    def variant(cls, notion: Notion) -> str:
        """Return the rules for an autoregressive process, which is about a number, or those for all others, about states."""
        process = notion.process  # type: ignore[attr-defined]
        return f"{notion.name}, autoregressive" if isinstance(process, AutoRegressive) else notion.name

    def check_streams(self, streams: Sequence[Outline]) -> None:
        """Refuse streams that publish after the last step that is promised about, or that an AR(1) process cannot answer for."""
        for stream in streams:
            if isinstance(self.notion.process, AutoRegressive):
                with self.policy.about("streams", stream.index, "statistic"):
                    check_proportion(self.notion.process, stream.measure)
            if self.notion.horizon is not None:
                self._check_horizon(stream, self.notion.horizon)

    def _check_horizon(self, stream: Outline, horizon: int) -> None:
        if stream.last is None:
            raise self.policy.error((
                ("promise", "horizon"),
                f"nothing is promised after step {horizon}, and stream {stream.name!r} has no end: set clock.end",
            ))  # fmt: skip
        at = int(stream.release_steps(stream.last, stream.last)[0])
        if at > horizon:
            raise self.policy.error((
                ("streams", stream.index),
                f"{stream.name!r} publishes its last step at step {at} of the clock, and nothing is promised after step "
                f"{horizon}: end it earlier",
            ))  # fmt: skip

    def make_plans(self, streams: Sequence[Outline]) -> list[Plan]:
        """Return the plan of each stream: its share of each loss of one plan for all of them, on data of its own age."""
        return self.choose_plans(lambda noise: self._plan_all(streams, noise))

    def _plan_all(self, streams: Sequence[Outline], noise: Noise | None) -> list[Plan]:
        whole = self._shared_plan(streams, noise)
        return [_take_share(whole, stream) for stream in streams]

    def _shared_plan(self, streams: Sequence[Outline], noise: Noise | None) -> Plan:
        """Return the plan of all streams together, as one: its losses are then shared out.

        Risks do not add up as losses about one data time do (Theorem 1's bound grows faster than the loss), so parts of ε would
        not keep the promise. If the losses about each data time come to at most L, the history is at most that of one stream
        which publishes L about each of them, as soon as the first of the streams does: and more loss is never less risk. So L is
        planned for the smallest age and for the stretch of all streams, and a stream with share s publishes s·L (ours). A step
        that is wider than the clock's counts at the newest step that it covers: streams of one width, begun together, publish
        about the same data times, `every` apart; otherwise every step may be one. On an AR(1) process the plan is for the least
        of the streams' sensitivities, of which the span is the largest part.
        """
        if len(streams) > 1 and self.notion.delta:
            with self.policy.about("promise", "delta"):
                raise InvalidInput("above 0 is worked out for one stream alone: leave it 0, or publish one stream")
        ends = [s.last_data_time for s in streams if s.last_data_time is not None]
        horizon = max(ends) - min(s.first for s in streams) + 1 if len(ends) == len(streams) else None
        made: Plan = self.notion.plan(
            sensitivity=self._planned_sensitivity(streams), method=self.policy.promise.plan, noise=noise,
            age=min(s.age for s in streams), horizon=horizon, span=max(s.widest for s in streams),
            every=streams[0].every if len({s.steps for s in streams}) == 1 else 1, **self.plan_options(),
        )  # fmt: skip
        return made

    def _planned_sensitivity(self, streams: Sequence[Outline]) -> float:
        by_the_span = isinstance(self.notion.process, AutoRegressive) and self.notion.rules > 1
        return float(min(s.sensitivity.l1 for s in streams)) if by_the_span else self.notion.least_sensitivity or 1.0

    @classmethod
    def schema(cls) -> dict[str, JsonObject]:
        """Return the schema with what a process may be."""
        found = super().schema()
        found["process"] |= process_schema()
        return found


def _widen(process: AutoRegressive, widest: float) -> AutoRegressive:
    """The process with a span of how many whole resolutions two values that differ by the span can differ by once rounded (ours).

    Exactly it would be ⌈D⌉, as ⌊x + k⌋ = ⌊x⌋ + k. But a reading is a double, and one halfway between two multiples of the
    resolution may come to lie on either side: of 0.145 and 0.155, at a resolution of 0.01, one is 14 and the other 16. So it is
    ⌊D⌋ + 1, with a margin for what doubles round; and no more than D where no clip is wider.

    >>> [_widen(AutoRegressive(0.9, 8.0, span), 40.0).span for span in (3.2, 4.0, 40.0)]
    [4.0, 5.0, 40.0]
    """
    span = math.ceil(process.span) if process.span >= widest else math.floor(process.span + DOUBLES) + 1
    made = AutoRegressive(process.rho, process.sigma, float(span))
    return made if process.checked is None else made.with_check(process.checked)


def _clip_width(statistic: Statistic) -> float:
    """How wide a statistic's clip is, in resolutions; infinite if it has none that can be read, which is refused later."""
    if statistic.clip is None or statistic.resolution is None:
        return math.inf
    try:
        low, high, one = (parse_quantity(x, statistic.unit) for x in (*statistic.clip, statistic.resolution))
        return float((high - low) / one)
    except (InvalidInput, ArithmeticError):
        return math.inf


def _take_share(whole: Plan, stream: Outline) -> Plan:
    """Return one stream's plan: its share of every loss, which are all alike, on data of its own age and width."""
    share = stream.share
    part = share if share == 1 else share * BELOW_ONE
    request = replace(
        whole.request, sensitivity=stream.sensitivity.of(whole.noise), age=stream.age, every=stream.every, span=stream.widest,
        horizon=None if stream.last is None else 1 + (stream.last - 1) * stream.every,
    )  # fmt: skip
    facts: Mapping[str, Any] = (
        whole.facts if share == 1 else {**whole.facts, "loss": whole.facts["loss"] * part, "share": share}
    )

    def series(first: int, last: int) -> Floats:
        losses: Floats = whole.series(first, last) * part
        return losses

    tail = (
        whole.tail if share == 1 else f"{whole.tail} That is all streams together; this one has {share:g} of each loss."
    )
    return replace(whole, request=request, series=series, facts=facts, tail=tail, _newest={})


def check_proportion(process: AutoRegressive, measure: Measure) -> None:
    """Refuse a statistic whose loss is not in proportion to how far a value moved, which an AR(1) process needs.

    On an AR(1) process two people who differ by the span now differed by ρ^t of it t steps ago, and Laplace noise on a clipped
    value then loses ρ^t of ε. That holds if the value itself is added up (`RULES`), if the span is no wider than the clip, and if
    the resolution is fine beside how far a value moves by itself (`notions.age_dependent.autoregressive`). The process is in
    resolutions, as the account is.
    """
    why = "an autoregressive process promises a loss in proportion to how far a person's value moved"
    resolution, width = float(measure.resolution), measure.high - measure.low
    if process.span > width:
        raise InvalidInput(
            f"{why}, but its span of {process.span * resolution:g} is wider than the clip, {width * resolution:g}: the noise "
            "covers the clip alone; widen the clip, or give a narrower span (rounding adds a resolution to it, unless all clips "
            "are as wide as the span)"
        )
    if process.coarsest < 1:
        raise InvalidInput(
            f"{why}, and a resolution of {resolution:g} is too coarse for that beside how far a value moves by itself: it is "
            f"proved up to half of σ/√(1 + ρ²): choose a resolution of at most {0.995 * process.coarsest * resolution:.3g}, "
            "which costs nothing"
        )
