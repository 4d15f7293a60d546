"""Equal losses: the largest loss of which a given number of releases keep (ε, δ) together."""

from __future__ import annotations

from halflife.notions.base import Notion
from halflife.notions.calibration import equal_split
from halflife.notions.request import PlanRequest
from halflife.numerics.rounding import divide_down
from halflife.plans.base import STD_OF_UNIT_SCALE, Plan, repeat_loss
from halflife.release import Noise


def equal_loss(notion: Notion, request: PlanRequest, epsilon: float, delta: float, together: int, what: str) -> Plan:
    """Plan equal losses such that any `together` of them keep (ε, δ); `what` bounds that number.

    δ = 0: ρ = ε / together. δ > 0: the largest Laplace loss, or Gaussian μ, whose `together`-fold composition is (ε, δ) by
    exact accounting (known; T6), whichever family has the smaller standard deviation unless one is asked for.
    """
    noise, loss = _best(epsilon, delta, together, request.noise)
    how = "the pure sum" if delta == 0 else "exact accounting"
    tail = (
        f"{what[0].upper()}{what[1:]} holds at most {together} releases, and {together} releases of loss {loss:.6g} "
        f"({noise}) are within ε = {epsilon:g}, δ = {delta:g} by {how}; nothing else about the future matters."
    )
    source = "equal split (paper)" if delta == 0 else "equal split, calibrated exactly (known: loss distributions)"
    return Plan(notion, request, noise, repeat_loss(loss), source, tail, {"together": together})


def _best(epsilon: float, delta: float, together: int, noise: Noise | None) -> tuple[Noise, float]:
    if delta == 0:
        return "laplace", divide_down(epsilon, float(together))
    families: tuple[Noise, ...] = ("laplace", "gaussian") if noise is None else (noise,)
    options = {family: equal_split(epsilon, delta, together, family) for family in families}
    best = min(options, key=lambda family: STD_OF_UNIT_SCALE[family] / options[family])
    return best, options[best]
