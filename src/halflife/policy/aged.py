"""What an age-dependent promise asks of a policy beyond others: which statistics, up to when, and how streams share it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from halflife.errors import InvalidInput
from halflife.notions import AgeDependent
from halflife.notions.base import Notion
from halflife.numerics.arrays import Floats
from halflife.plans import Plan
from halflife.policy.measure import Measure
from halflife.processes import AutoRegressive
from halflife.sensitivity import Sensitivity

if TYPE_CHECKING:
    from halflife.policy.channel import Channel
    from halflife.policy.model import Policy

BELOW_ONE = 1 - 1e-12
"""So that the shares of a loss, rounded and added up again, never come to more than the loss."""


class Span(NamedTuple):
    """A stream's data times, in steps of the account, and the age of its releases; `last` is None for ever."""

    first: int
    last: int | None
    age: int


def shared_plan(policy: Policy, notion: AgeDependent, spans: Sequence[Span]) -> Plan:
    """Return the plan of all streams together, as one: its losses are then shared out.

    Risks do not add up as losses about one data time do (Theorem 1's bound grows faster than the loss), so parts of ε would not
    keep the promise. All streams publish every step. If the losses about each data time come to at most L, the history is at most
    that of one stream which publishes L about each of them, as soon as the first of the streams does: and more loss is never less
    risk. So L is planned for the smallest age and for the stretch of all streams, and a stream with share s publishes s·L (ours).
    """
    promise = policy.promise
    if len(spans) > 1 and notion.delta:
        with policy.about("promise", "delta"):
            raise InvalidInput("above 0 is worked out for one stream alone: leave it 0, or publish one stream")
    extra: dict[str, Any] = {} if promise.cap is None else {"cap": promise.cap}
    ends = [span.last for span in spans if span.last is not None]
    horizon = max(ends) - min(span.first for span in spans) + 1 if len(ends) == len(spans) else None
    with policy.about("promise", "plan"):
        made: Plan = notion.plan(
            sensitivity=notion.least_sensitivity or 1.0, method=promise.plan, noise=promise.noise,
            age=min(span.age for span in spans), horizon=horizon, **extra,
        )  # fmt: skip
    return made


def plan_of_stream(whole: Plan, share: float, s: Sensitivity, span: Span) -> Plan:
    """Return one stream's plan: its share of every loss, on data of its own age."""
    part = share if share == 1 else share * BELOW_ONE
    horizon = None if span.last is None else span.last - span.first + 1
    request = replace(whole.request, sensitivity=s.of(whole.noise), age=span.age, horizon=horizon)
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


def check_statistic(notion: Notion[Any], measure: Measure) -> None:
    """Refuse a statistic whose loss is not in proportion to how far a value moved, where the process needs that.

    On an AR(1) process two people who differ by the span now differed by ρ^t of it t steps ago, and Laplace noise on a clipped
    value then loses ρ^t of ε. That holds if the value itself is added up (`promises/`), if the span is no wider than the clip,
    and if the resolution is fine beside how far a value moves by itself (`notions.aging.autoregressive`).
    """
    if not isinstance(notion, AgeDependent) or not isinstance(notion.process, AutoRegressive):
        return
    why = "an autoregressive process promises a loss in proportion to how far a person's value moved"
    process, units, fine = notion.process, measure.heaviest * (measure.high - measure.low), "which costs nothing"
    resolution, width = float(measure.resolution), float(measure.resolution * (measure.high - measure.low))
    if process.span > width:
        raise InvalidInput(
            f"{why}, but its span of {process.span:g} is wider than the clip, {width:g}: the noise covers the clip "
            "alone; widen the clip, or give a narrower span"
        )
    if resolution > process.coarsest:
        raise InvalidInput(
            f"{why}, and a resolution of {resolution:g} is too coarse for that beside how far a value moves by itself: it is "
            f"proved up to half of σ/√(1 + ρ²): choose a resolution of at most {0.995 * process.coarsest:.3g}, {fine}"
        )
    if process.span > units:
        raise InvalidInput(
            f"{why}, and the account counts in resolutions, of which a person moves {units:,}, fewer than the span of "
            f"{process.span:g}: choose a resolution of at most {0.995 * resolution * units / process.span:.3g}, {fine}"
        )


def check_horizon(policy: Policy, made: Sequence[Channel], notion: Notion[Any]) -> None:
    """Refuse streams that publish after the last step that is promised about."""
    horizon = getattr(notion, "horizon", None)
    if not isinstance(notion, AgeDependent) or horizon is None:
        return
    for i, c in enumerate(made):
        if c.last is None:
            raise policy.error((
                ("promise", "horizon"),
                f"nothing is promised after step {horizon}, and stream {c.name!r} has no end: set clock.end",
            ))  # fmt: skip
        at = int(c.release_steps(c.last, c.last)[0])
        if at > horizon:
            raise policy.error((
                ("streams", i),
                f"{c.name!r} publishes its last step at step {at} of the clock, and nothing is promised after step {horizon}: "
                "end it earlier",
            ))  # fmt: skip
