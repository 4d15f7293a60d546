"""Plans under Swellfish privacy: a scale for each step, from the secrets that are relevant then."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from halflife.errors import InvalidInput
from halflife.notions.calibration import composed_epsilon, unit_scales
from halflife.notions.request import PlanRequest
from halflife.notions.swellfish.certified import MOST_COMPOSED
from halflife.notions.swellfish.notion import Swellfish
from halflife.numerics.arrays import Floats
from halflife.numerics.forms import JsonObject
from halflife.numerics.parameters import real, whole
from halflife.numerics.rounding import TOLERANCE, divide_up
from halflife.plans.base import (
    MEAN_ABSOLUTE_OF_UNIT_SCALE,
    STD_OF_UNIT_SCALE,
    Plan,
    refuse_extra,
    refuse_gaussian,
    repeat_loss,
)
from halflife.registry import register_plan
from halflife.release import Release
from halflife.specifications import Specifications
from halflife.specifications.neighbours import INTERPRETATIONS, Interpretation
from halflife.specifications.sweep import StepFunction, covering_max

SLACK = 1e-9
"""By so much every scale is larger than its formula, for the rounding of long sums."""
MOST_STEPS = 20_000_000
OPTIONS = ("floor", "block", "begin")


@dataclass(frozen=True)
class SwellfishPlan(Plan):
    """A scale λ_t (σ_t) for the data of each step t; 0 publishes the exact value, where no secret is relevant.

    The loss of a release is Δ_t/λ_t, with Δ_t the temporal sensitivity (where that is 0, the largest there is).
    """

    hidden: StepFunction = field(default_factory=lambda: StepFunction(np.zeros(0, dtype=np.int64), np.zeros(0)))
    floor: float = 0.0
    begin: int = 1
    """The data time of step 1."""

    @property
    def _promise(self) -> Swellfish:
        assert isinstance(self.notion, Swellfish)
        return self.notion

    def _is_published(self, k: int) -> bool:
        return (self._check(k) - 1) % self.request.every == 0

    def sensitivity_at(self, k: int) -> float:
        """Δ_t of the data of step k; the largest of all steps if no secret is relevant then."""
        return self._promise.sensitivity.at(self.begin + self._check(k) - 1) or self.request.sensitivity

    def scale(self, k: int) -> float:
        """Return the noise scale of step k: 0 publishes the exact value; infinite if nothing is published then."""
        return max(self.floor, self.hidden.at(self.begin + k - 1)) if self._is_published(k) else math.inf

    def scales(self, n: int) -> Floats:
        """Return the noise scales of steps 1 … n."""
        result = np.full(self._check(n), np.inf)
        every = self.request.every
        result[::every] = np.maximum(self.floor, self.hidden.over(self.begin, self.begin + n - 1)[::every])
        return result

    def loss(self, k: int) -> float:
        """Return Δ_t/λ_t of step k: infinite if the exact value is published, 0 if nothing is."""
        scale = self.scale(k)
        if scale in (0.0, math.inf):
            return math.inf if scale == 0 else 0.0
        return math.nextafter(self.sensitivity_at(k) / scale, math.inf)

    def losses_of_releases(self, first: int, last: int) -> Floats:
        """Return Δ_t/λ_t of releases number first … last."""
        every = self.request.every
        low, high = (self.begin + (number - 1) * every for number in (first, last))
        self._check(high - self.begin + 1)
        scales = np.maximum(self.floor, self.hidden.over(low, high)[::every])
        with np.errstate(divide="ignore"):
            moved = self.sensitivities_of_releases(first, last)
            result: Floats = np.where(scales > 0, np.nextafter(moved / scales, np.inf), np.inf)
        return result

    def sensitivities_of_releases(self, first: int, last: int) -> Floats:
        """Return Δ_t of releases number first … last."""
        every = self.request.every
        low, high = (self.begin + (number - 1) * every for number in (first, last))
        delta = self._promise.sensitivity.over(low, high)[::every]
        result: Floats = np.where(delta > 0, delta, self.request.sensitivity)
        return result

    def releases_at(self, k: int) -> tuple[Release, ...]:
        """Return what step k records, about its data time; at step k if step 1 is about step 1 − age."""
        if not self._is_published(k):
            return ()
        age, sensitivity, scale = self.request.age, self.sensitivity_at(k), self.scale(k)
        at = self.begin + k - 1 + age
        return (Release(at, self.loss(k), age, sensitivity=sensitivity, scale=scale, noise=self.noise),)

    def risks(self, n: int) -> Floats:
        """Return the loss of the secret that is worst by its share so far, after each of steps 1 … n."""
        return self._promise.running_risks(self._finite_losses(n), 1 - self.begin)[0]

    def limits(self, n: int) -> Floats:
        """Return the ε of those secrets."""
        return self._promise.running_risks(self._finite_losses(n), 1 - self.begin)[1]

    def _finite_losses(self, n: int) -> Floats:
        losses = self.losses(n)
        return np.where(np.isinf(losses), 0.0, losses)

    @property
    def steps(self) -> int:
        """The number of steps up to the horizon, or to the last step of a secret."""
        return self.horizon or max(1, self._promise.specifications.last_step - self.begin + 1)

    def total(self, n: int | None = None) -> tuple[float, float]:
        """Return the total and the mean over steps 1 … n of the standard deviation of the noise, of the steps with a release."""
        scales = self.scales(n or self.steps)
        published = STD_OF_UNIT_SCALE[self.noise] * scales[np.isfinite(scales)]
        return float(published.sum()), float(published.mean())

    def verdict(self, neighbours: Interpretation | None = None) -> JsonObject:
        """Return whether each secret loses at most its ε under an interpretation, and which is worst: from the scales alone.

        >>> from halflife import Secret, Specification, Swellfish
        >>> ten = [Secret(3.0, 10, 10 * k + 1, 10 * k + 10, 1.0) for k in range(10)]
        >>> plan = Swellfish(Specification([Secret(0.1, 2, 1, 100, 1.0), *ten], "Elm 7")).plan(method="paper")
        >>> plan.verdict("one-window")["kept"], round(plan.verdict("all-events")["worst"]["loss"], 2)      # erratum S1
        (True, 9.68)
        """
        notion, n = self._promise, self.steps
        if n > MOST_STEPS:
            raise InvalidInput(f"{n:,} steps are more than {MOST_STEPS:,} to be certified at once: plan for a horizon")
        losses = notion.losses_of_secrets(self.scales(n), self.begin, neighbours)
        shares = losses / notion.specifications.epsilon
        worst = int(np.argmax(shares))
        secret = notion.specifications.secret(worst)
        broken = int(np.count_nonzero(shares > 1 + TOLERANCE))
        return {
            "neighbours": neighbours or notion.neighbours,
            "kept": broken == 0,
            "secrets": len(losses),
            "broken": broken,
            "worst": {
                "household": notion.specifications.name_of(worst),
                "power": secret.power,
                "duration": secret.duration,
                "start": secret.start,
                "end": secret.end,
                "epsilon": secret.epsilon,
                "loss": float(losses[worst]) if math.isfinite(losses[worst]) else "unbounded",
                "share": float(shares[worst]) if math.isfinite(shares[worst]) else "unbounded",
            },
        }

    @cached_property
    def verdicts(self) -> dict[str, JsonObject]:
        """The verdict under each of the three interpretations."""
        return {interpretation: self.verdict(interpretation) for interpretation in INTERPRETATIONS}

    def not_protected(self) -> list[str]:
        """Return what is not protected: first where its own interpretation is not kept, then where exact values are."""
        mine = self._promise
        said = list(self.warnings)
        for meaning, found in self.verdicts.items():
            worst = found["worst"]
            if not found["kept"]:
                said.append(
                    f"Read as {meaning!r}, {'the promise is broken' if meaning == mine.neighbours else 'nothing is promised'}: "
                    f"{found['broken']:,} of {found['secrets']:,} secrets lose more than their ε, worst that of "
                    f"{worst['household']!r} in steps {worst['start']} to {worst['end']} ({worst['power']:g} for "
                    f"{worst['duration']} steps): {_number(worst['loss'])} instead of {worst['epsilon']:g}."
                )
        rest = list(mine.not_protected)
        if self.floor > 0:
            rest[0] = (
                f"Outside hiding intervals noise of scale {self.floor:g} is added as a floor: it blurs what is smaller than "
                "that, and "
                "promises nothing."
            )
        else:
            exact = int(np.count_nonzero(self.scales(min(self.steps, MOST_STEPS)) == 0))
            rest[0] = f"{rest[0]} Exact here: {exact:,} of {self.steps:,} steps."
        return [*said, *rest]

    def certificate(self) -> JsonObject:
        """Return what is promised, with the worst loss of any secret under each interpretation."""
        made = super().certificate()
        total, mean = self.total(min(self.steps, MOST_STEPS))
        made["plan"] |= {"floor": self.floor, "total_noise": total, "mean_noise": mean, "steps": self.steps}
        made["secrets"] = self.verdicts
        return made

    def _classical_risk(self) -> JsonObject:
        """Return the sentence that there is no classical bound: outside hiding intervals nothing is bounded."""
        return {"steps": self.steps, "pure": None, "why": "what a household does beside its secrets is not bounded"}

    def mean_error(self, n: int | None = None) -> float:
        """Return the mean absolute error over steps 1 … n with a release."""
        scales = self.scales(n or self.steps)
        return float(MEAN_ABSOLUTE_OF_UNIT_SCALE[self.noise] * scales[np.isfinite(scales)].mean())


def _number(loss: object) -> str:
    return f"{loss:.4g}" if isinstance(loss, float) else str(loss)


# The methods ------------------------------------------------------------------------------------------------------------


@register_plan("swellfish", "tight")
def tight(notion: Swellfish, request: PlanRequest) -> SwellfishPlan:
    """The sufficient scale of the interpretation, T_s/ε_s taken secret by secret (corrected, S1), with δ exactly accounted (T6).

    >>> from halflife import Secret, Specification
    >>> both = Specification([Secret(1.0, 65, 1, 65, 1.0), Secret(1.0, 1, 1, 65, 0.1)])
    >>> round(Swellfish(both).plan().scale(1), 3), round(Swellfish(both).plan(method="paper").scale(1), 3)
    (130.0, 1300.0)
    """
    refuse_extra(request, *OPTIONS)
    source = {
        "one-event": "λ_t = max p·g over the relevant secrets (corrected, S1)",
        "one-window": "λ_t = Δ_t·max g over the relevant secrets (corrected, S1)",
        "all-events": "λ_t covers all events of the household within each relevant hiding interval (ours)",
    }[notion.neighbours]
    how = (
        "g = T/ε"
        if notion.delta == 0
        else f"g calibrated by exact accounting for each T, ε and δ = {notion.delta:g} (T6)"
    )
    return build(notion, request, notion.sufficient, f"{source}; {how}")


@register_plan("swellfish", "paper")
def paper(notion: Swellfish, request: PlanRequest) -> SwellfishPlan:
    """The paper's scales: λ_t = Δ_t · max T / min ε (Theorems 8 and 9; paper, for one window: S1).

    With δ > 0 λ_t = Δ_t · max (2/ε)√(T ln(e + ε/δ)) (Theorem 11; paper, refused where it fails: S3), which is for large ε. Under
    `all-events` the certificate says which secret loses how much.
    """
    refuse_extra(request, *OPTIONS)
    refuse_gaussian(request, "Theorems 8 to 11 are about Laplace noise")
    if notion.noise == "gaussian":
        raise InvalidInput("Theorems 8 to 11 are about Laplace noise: promise noise='laplace', or use method='tight'")
    s, line = notion.specifications, notion.timeline
    if notion.delta == 0:
        values = line.sensitivity * line.most(s.duration.astype(np.float64)) * line.most(1 / s.epsilon)
        return build(notion, request, line.over_households(values), "Swellfish, Theorems 8 and 9 (paper)")
    asked = 2 / s.epsilon * np.sqrt(s.duration * np.log(math.e + s.epsilon / notion.delta))
    _check_theorem_10(notion, asked)
    return build(
        notion, request, line.over_households(line.sensitivity * line.most(asked)), "Swellfish, Theorem 11 (paper)"
    )


def _check_theorem_10(notion: Swellfish, asked: Floats) -> None:
    """Refuse scales with which T releases lose more than ε, by exact accounting rounded up (T6).

    Calibrated scales are never too small, so they clear what is no less than they are; whatever is less is composed by itself.
    """
    s = notion.specifications
    least = unit_scales(s.duration, s.epsilon, notion.delta, "laplace")
    short = np.flatnonzero(least > asked)
    _, first = np.unique(np.stack([s.duration[short].astype(np.float64), s.epsilon[short]]), axis=1, return_index=True)
    worst_first = sorted(short[first].tolist(), key=lambda i: -least[i] / asked[i])
    for i in worst_first[:MOST_COMPOSED]:
        found = composed_epsilon(int(s.duration[i]), divide_up(1.0, float(asked[i])), notion.delta, "laplace")
        if found > s.epsilon[i]:
            raise InvalidInput(
                f"Theorem 11 of the Swellfish paper does not hold here (erratum S3): {s.secret(i)} of {s.name_of(i)!r} would "
                f"lose {found:.6g} at δ = {notion.delta:g}: use method='tight'"
            )
    if len(worst_first) > MOST_COMPOSED:
        raise InvalidInput(
            f"{len(worst_first):,} kinds of secrets lie where Theorem 11 of the Swellfish paper may fail (erratum S3), and "
            f"{MOST_COMPOSED} are worked out at most: use method='tight'"
        )


def build(
    notion: Swellfish, request: PlanRequest, scales: StepFunction, source: str, facts: JsonObject | None = None
) -> SwellfishPlan:
    """Return the plan with these scales, raised to the floor and to one value a block as far as the request asks for it."""
    if request.noise not in (None, notion.noise):
        raise InvalidInput(
            f"the promise is worked out for {notion.noise} noise: promise noise={request.noise!r} instead"
        )
    raised = StepFunction(scales.starts, scales.values * (1 + SLACK))
    block, floor = request.extra.get("block"), real("floor", request.extra.get("floor") or 0.0)
    if block is not None:
        raised = by_block(raised, _edges(block, notion.specifications))
    tail = (
        "Each secret's loss is a sum over its hiding interval alone, and is worked out for every one of them from the scales; "
        f"after step {notion.specifications.last_step:,} no secret is left."
    )
    blocks = block if block is None or isinstance(block, int) else "given"
    known = {"neighbours": notion.neighbours, "blocks": blocks, **(facts or {})}
    begin = whole("begin", request.extra.get("begin", 1 - request.age))
    return SwellfishPlan(
        notion, request, notion.noise, repeat_loss(0.0), source, tail, known, hidden=raised, floor=floor, begin=begin
    )


def _edges(block: object, s: Specifications) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The steps at which blocks begin: each of `block` steps, one of them at step 1, from the first secret to beyond the last; or
    as they are given, the first at step 1 or before."""
    if isinstance(block, Sequence | np.ndarray) and not isinstance(block, str):
        edges = np.array([whole("block", step) for step in list(block)], dtype=np.int64)
        if not len(edges) or edges[0] > 1 or (np.diff(edges) <= 0).any():
            raise InvalidInput("blocks begin at ascending steps, the first of them at step 1 or before")
        return edges
    width = whole("block", block, least=1)
    begin, last = int(s.start.min()), s.last_step
    if (last - begin) / width > MOST_STEPS:
        raise InvalidInput(
            f"{last - begin + 1:,} steps in blocks of {width} are more than {MOST_STEPS:,}: take wider blocks"
        )
    return np.arange(1 + (begin - 1) // width * width, last + width + 1, width, dtype=np.int64)


def by_block(scales: StepFunction, edges: Any) -> StepFunction:
    """Return the largest scale of each block at all of its steps: then a single secret does not show within its block (ours).

    Steps before the first edge are a block too.

    >>> by_block(StepFunction(np.array([3, 4]), np.array([2.0, 0.0])), np.array([1, 5])).over(1, 6).tolist()
    [2.0, 2.0, 2.0, 2.0, 0.0, 0.0]
    """
    if not len(scales.starts):
        return scales
    if scales.starts[0] < edges[0]:
        edges = np.append(scales.starts[0], edges)
    block = np.searchsorted(edges, scales.starts, side="right") - 1
    ends = np.append(scales.starts[1:] - 1, max(scales.starts[-1], edges[-1]))
    last = np.searchsorted(edges, ends, side="right") - 1
    best = covering_max(block, last, scales.values, len(edges))
    return StepFunction(np.asarray(edges, dtype=np.int64), best)
