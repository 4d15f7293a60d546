"""Plans under almost-periodic privacy: T noise values, drawn once and reused, and fresh ones atop in the strong notion."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np

from halflife.errors import InvalidInput
from halflife.notions.almost_periodic.notion import AlmostPeriodic
from halflife.notions.discounted import ExponentialDiscount
from halflife.notions.request import PlanRequest
from halflife.notions.w_event import WEvent
from halflife.numerics.arrays import Floats
from halflife.numerics.forms import JsonObject
from halflife.numerics.parameters import real
from halflife.numerics.rounding import divide_down, divide_up, ratio_up
from halflife.plans.base import Plan, refuse_extra, refuse_gaussian, repeat_loss
from halflife.registry import register_plan
from halflife.release import Release
from halflife.steps import Steps


@dataclass(frozen=True)
class PeriodicPlan(Plan):
    """A plan whose noise repeats: `pattern_scale` is that of the reused noise; `scale` that of the noise which a step adds anew.

    In the weak notion nothing is added anew, and both are one.
    """

    pattern_sensitivity: float = 1.0

    @property
    def period(self) -> int:
        """T, in steps."""
        return self.notion.period  # type: ignore[attr-defined, no-any-return]

    def phase(self, k: int) -> int:
        """Return the phase of step k, 0 … T − 1: by the notion's clock, or else counted from 0 at the first step."""
        notion: AlmostPeriodic = self.notion  # type: ignore[assignment]
        return (self._check(k) - 1) % self.period if notion.clock is None else notion.phase(k - self.request.age)

    def follows_clock(self, steps: Steps) -> bool:
        """Whether phases are times of a day by these steps' wall clock, or of several days."""
        return self.notion.follows_clock(steps)  # type: ignore[attr-defined, no-any-return]

    def draw_name(self, k: int, phase: int) -> str:
        """Return the name of the reused noise of step k, whose phase this is."""
        renewal = int(self.notion.generation(k))  # type: ignore[attr-defined]
        return f"phase {phase}" + (f", renewal {renewal}" if renewal else "")

    def pattern_loss(self, k: int) -> float:
        """Return what the reused noise of step k costs, once."""
        return self.loss(k)

    def pattern_scale(self, k: int) -> float:
        """Return the scale of the reused noise of step k, rounded up; infinite if nothing is published then.

        >>> from halflife import AlmostPeriodic
        >>> plan = AlmostPeriodic(1.0, 48, strong=True).plan(sensitivity=2.0, variation_sensitivity=0.5)
        >>> round(plan.pattern_scale(1), 9), round(plan.scale(1), 9)
        (96.0, 24.0)
        """
        loss = self.pattern_loss(k)
        return divide_up(self.pattern_sensitivity, loss) if loss > 0 else math.inf

    def layers(self, k: int) -> tuple[float, ...]:
        """Return the scales of fresh and of reused noise, or of reused noise alone."""
        return (self.scale(k), self.pattern_scale(k)) if self.strong else (self.scale(k),)

    def stds(self, n: int) -> Floats:
        """Return the standard deviations of all noise at steps 1 … n: the same at every release."""
        return np.where(self.losses(n) > 0, self.std(1), np.inf)

    @property
    def strong(self) -> bool:
        """Whether fresh noise is added atop the pattern."""
        return self.notion.strong  # type: ignore[attr-defined, no-any-return]

    def releases_at(self, k: int) -> tuple[Release, ...]:
        """Return what step k records: the reused noise, by name, and fresh noise atop it if the notion is strong."""
        return self.layers_of(k, self.draw_name(k, self.phase(k)), drawn=self._was_drawn_before(k))

    def _was_drawn_before(self, k: int) -> bool:
        """Return whether the reused noise of step k was drawn at an earlier step."""
        if self.notion.clock is not None:  # type: ignore[attr-defined]
            return self._first_steps[self.phase(k)] < k
        before, name = k - math.lcm(self.period, self.request.every), self.draw_name(k, self.phase(k))
        return before >= 1 and self.draw_name(before, self.phase(before)) == name

    @cached_property
    def _first_steps(self) -> dict[int, int]:
        """The first step of each phase; by a clock, all of them come within two periods."""
        steps = range(2 * self.period, 0, -1)
        return {self.notion.phase(j - self.request.age): j for j in steps}  # type: ignore[attr-defined]

    def layers_of(self, k: int, name: str, drawn: bool) -> tuple[Release, ...]:
        """Return what step k records if its reused noise has this name; in the strong notion it is drawn only once."""
        loss, age = self.loss(k), self.request.age
        if loss == 0:
            return ()
        pattern = Release(k, loss, age, sensitivity=self.pattern_sensitivity, scale=self.pattern_scale(k), draw=name)
        if not self.strong:
            return (pattern,)
        fresh = Release(k, loss, age, sensitivity=self.sensitivity, scale=self.scale(k), atop=name)
        return (fresh,) if drawn else (pattern, fresh)

    def _classical_risk(self) -> JsonObject:
        """Say what the plan comes to if a person's whole series is another's (P2; corrected).

        Weak: differences of values with the same noise are exact, so there is no bound once noise is used again. Strong: both
        parts of the value may move, by Δf_z + Δf_w, and given the reused noise it is the fresh noise alone that hides it; with
        one phase and two periods that is attained, with moves in opposite directions.
        """
        steps = self.horizon or 17_520
        losses = self.losses(steps)
        if self.strong:
            both = self.sensitivity + self.pattern_sensitivity
            total = Fraction(math.fsum(losses.tolist())) * Fraction(both) / Fraction(self.sensitivity)
            return {"steps": steps, "pure": ratio_up(total.numerator, total.denominator)}
        again = self._find_reuse(losses)
        if again is None:
            return super()._classical_risk()
        why = f"noise is used again from step {again:,} on, and the differences of values that share it are exact"
        return {"steps": steps, "pure": None, "why": why}

    def _find_reuse(self, losses: Floats) -> int | None:
        """Return the first step whose reused noise was drawn at an earlier one, None if there is none."""
        used = np.flatnonzero(losses)
        if self.notion.clock is None:  # type: ignore[attr-defined]
            names = used % self.period + self.period * self.notion.generation(used + 1)  # type: ignore[attr-defined]
        else:
            used = used[: 2 * self.period]
            names = np.array([self.phase(int(k) + 1) for k in used])
        first = np.unique(names, return_index=True)[1]
        return None if len(first) == len(used) else int(np.delete(used, first)[0]) + 1


@register_plan("almost-periodic", "tight", "constant")
def repeated(notion: AlmostPeriodic, request: PlanRequest) -> PeriodicPlan:
    """Reused noise Laplace(T Δf_z/ε) for each phase (Theorem 5; paper), and in the strong notion fresh noise Laplace(T Δf_w/ε)
    atop it at every step, the first period's included (C1; corrected). T is the number of phases that a period really has.

    >>> from halflife import AlmostPeriodic
    >>> round(AlmostPeriodic(1.0, 48).plan(sensitivity=0.02).scale(10_000), 9)
    0.96
    """
    refuse_extra(request, "variation_sensitivity")
    refuse_gaussian(request, "almost-periodic privacy is about Laplace noise")
    if request.varying is not None:
        raise InvalidInput("reused noise has one sensitivity for ever: give one number, not a list")
    if notion.clock is not None and request.every > 1:
        raise InvalidInput(
            "every: where phases follow a clock that changes, a period has as many phases as steps: publish every step"
        )
    if request.method == "constant" and request.horizon is None:
        raise InvalidInput("method='constant' needs a horizon: give horizon=, or use method='tight'")
    phases = notion.period // math.gcd(notion.period, request.every)
    used = phases if request.releases is None else min(phases, request.releases)
    loss = divide_down(notion.epsilon, max(float(used), patterns_at_once(notion, request)))
    tail = (
        f"The noise of each of the {used} phases is drawn once, at a loss of {loss:.6g}; used again it tells nothing new "
        "about what repeats, as the statistic is linear"
        + (
            f", and any {notion.period} consecutive steps hold at most {used} fresh noises of the same loss"
            if notion.strong
            else ""
        )
        + f": they add up to at most {notion.epsilon:g}, in the first period and in every later one"
        + (", renewals included." if notion.renew else ".")
    )
    source = "almost-periodic, C1 (corrected)" if notion.strong else "almost-periodic, Theorem 5 (paper)"
    return _plan(notion, request, loss, source, tail)


def patterns_at_once(notion: AlmostPeriodic, request: PlanRequest) -> float:
    """Return what patterns of loss 1 come to at worst, in units of our ε over that of the notion laid over them, rounded up.

    Never renewed: the number of phases T. Renewed every N periods: T in use, and one more while they are exchanged, beside
    those that were replaced: under w-event the most that a window holds; under an exponential discount at most T/(1 − α^{NT}).
    Classically, with a horizon, the plain sum.
    """
    phases, over = notion.period // math.gcd(notion.period, request.every), notion.over
    share = 1.0 if over is None else divide_up(notion.epsilon, over.epsilon)  # type: ignore[attr-defined]
    if notion.renew is None:
        return (phases if request.releases is None else min(phases, request.releases)) * share
    if request.every != 1:
        raise InvalidInput("noise that is renewed is planned for a release at every step: leave `every` out")
    between = notion.renew * notion.period
    if isinstance(over, WEvent):
        whole_ones, rest = divmod(over.w, between)
        return (phases + 1 + whole_ones * phases + min(rest, phases)) * share
    if isinstance(over, ExponentialDiscount) and over.alpha < 1:
        return (phases + 1 - phases / math.expm1(between * math.log(over.alpha)) * (1 + 1e-12)) * share
    if request.horizon is None:
        raise InvalidInput(
            "noise that is renewed for ever costs ε again each time, without bound: give a horizon, or lay an exponential "
            "discount or w-event privacy over it (over=)"
        )
    return -(-request.horizon // between) * phases * share


@register_plan("almost-periodic", "paper")
def as_printed(notion: AlmostPeriodic, request: PlanRequest) -> PeriodicPlan:
    """Weak: `repeated`. Strong: refused from the second period on, where it is false (Corollary 8; refused, P1).

    >>> from halflife import AlmostPeriodic
    >>> AlmostPeriodic(1.0, 1, strong=True).plan(method="paper", variation_sensitivity=1.0, horizon=10)
    Traceback (most recent call last):
    ...
    halflife.errors.InvalidInput: Corollary 8 ... is false from the second period on ... it loses 9.5 where 1 is promised: ...
    """
    if not notion.strong:
        return repeated(notion, request)
    z, w = _read_sensitivities(notion, request)
    periods = math.inf if request.horizon is None else math.ceil(request.horizon / notion.period)
    if periods > 1:
        lost = corollary_8_loss(notion.epsilon, z, w, periods)
        raise InvalidInput(
            "Corollary 8 of the almost-periodic paper is false from the second period on (erratum P1): after "
            f"{periods if periods < math.inf else 'endless'} periods it loses {lost:g} where {notion.epsilon:g} is promised: use "
            "method='tight'"
        )
    return repeated(notion, request)


def corollary_8_loss(epsilon: float, pattern_sensitivity: float, variation_sensitivity: float, periods: float) -> float:
    """ε[Δf_w/(Δf_z + Δf_w) + K − 1]: what Corollary 8 loses after K periods, attained (erratum P1).

    >>> corollary_8_loss(1.0, 1.0, 1.0, 2), corollary_8_loss(1.0, 1.0, 1.0, 10)
    (1.5, 9.5)
    """
    return epsilon * (variation_sensitivity / (pattern_sensitivity + variation_sensitivity) + periods - 1)


def _read_sensitivities(notion: AlmostPeriodic, request: PlanRequest) -> tuple[float, float]:
    """Δf_z and Δf_w."""
    given = request.extra.get("variation_sensitivity")
    if given is None:
        return request.sensitivity, request.sensitivity
    if not notion.strong:
        raise InvalidInput("variation_sensitivity is for the strong notion: the weak one publishes variations exactly")
    return request.sensitivity, real("variation_sensitivity", given, positive=True)


def _plan(notion: AlmostPeriodic, request: PlanRequest, loss: float, source: str, tail: str) -> PeriodicPlan:
    z, w = _read_sensitivities(notion, request)
    fresh = replace(request, sensitivity=w) if notion.strong else request
    facts: Mapping[str, object] = {"period": notion.period, "pattern_sensitivity": z, "pattern_loss": loss}
    return PeriodicPlan(notion, fresh, "laplace", repeat_loss(loss), source, tail, facts, pattern_sensitivity=z)
