"""Plans under w-event privacy: Uniform, as the paper has it and as exact accounting allows."""

from __future__ import annotations

import math

from halflife.errors import InvalidInput
from halflife.notions import PlanRequest, WEvent
from halflife.notions.composition import Exact, laplace_losses
from halflife.numerics.rounding import divide_down
from halflife.plans.base import Plan, refuse_extra, refuse_gaussian, repeat_loss
from halflife.plans.equal import equal_loss
from halflife.registry import register_plan


@register_plan("w-event", "paper")
def uniform(notion: WEvent, request: PlanRequest) -> Plan:
    """Uniform(w, ε, δ, Δ): ρ = ε/w (Theorem 2; paper).

    With δ > 0 λ = Δ(2/ε)√(w ln(e + ε/δ)) (Theorem 10; paper, refused where it fails: S3). It fails for large ε (at (60, 0.1) and
    w = 2000 the true δ is about 0.62), so it is checked by exact accounting.

    >>> round(WEvent(0.1, 65, 1 / 117_716_237).plan(method="paper").scale(1), 1)
    650.6
    """
    refuse_extra(request)
    w = notion.widen(request.span).w
    refuse_gaussian(request, "Uniform is about Laplace noise")
    if notion.delta == 0:
        loss, source = divide_down(notion.epsilon, float(w)), "Swellfish, Theorem 2 (paper)"
        why = f"{w} equal losses of ε/{w} add up to ε in every window"
    else:
        log = math.log(math.e + notion.epsilon / notion.delta)
        loss, source = notion.epsilon / (2 * math.sqrt(w * log)), "Swellfish, Theorem 10 (paper)"
        found = Exact(notion.delta).epsilon(laplace_losses(loss, w))
        if found > notion.epsilon:
            raise InvalidInput(
                f"Theorem 10 of the Swellfish paper does not hold here (erratum S3): {w} releases of loss "
                f"{loss:.6g} have ε = {found:.6g} at δ = {notion.delta:g}, above {notion.epsilon:g}: use method='tight'"
            )
        why = f"every window of {w} such releases has ε = {found:.6g} at δ = {notion.delta:g} by exact accounting"
    tail = f"Every window of w = {notion.w} steps holds at most {w} releases, and {why}."
    return Plan(notion, request, "laplace", repeat_loss(loss), source, tail)


@register_plan("w-event", "tight", "constant")
def tight(notion: WEvent, request: PlanRequest) -> Plan:
    """Equal losses for the releases that a window really touches: ⌈(w + m − 1)/every⌉, each about m steps, or all of them if the
    horizon is shorter.

    A window touches a release whose newest data time lies in the window or in the m − 1 steps after it: w + m − 1 consecutive
    steps, in which at most so many newest data times lie `every` apart, and in some windows as many do (ours; m = 1: Theorem 2).

    With δ > 0 calibrated exactly, Laplace or Gaussian, whichever has the smaller standard deviation (T6; known).

    >>> WEvent(1.0, 48).plan(every=3).scale(1), WEvent(1.0, 48).plan(horizon=8).scale(1)
    (16.0, 8.0)
    >>> WEvent(1.0, 48).plan(every=48, span=48).scale(1), WEvent(1.0, 49).plan(every=48, span=48).scale(1)
    (2.0, 2.0)
    """
    refuse_extra(request)
    if notion.delta == 0:
        refuse_gaussian(request, "Gaussian noise has no bounded pure loss (delta = 0)")
    if request.method == "constant" and request.horizon is None:
        raise InvalidInput("method='constant' needs a horizon: give horizon=, or use method='tight'")
    together = -(-notion.widen(request.span).w // request.every)
    if request.releases is not None:
        together = min(together, request.releases)
    return equal_loss(notion, request, notion.epsilon, notion.delta, together, f"every window of {notion.w} steps")
