"""One loss for every release, as large as a given number of them may have together."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from halflife.notions.base import Notion, PlanRequest
from halflife.notions.composition import Exact, laplace_losses
from halflife.notions.gaussian_dp import gaussian_mu
from halflife.numerics import divide_down, largest, to_units
from halflife.plans.base import STD_OF_UNIT_SCALE, Plan
from halflife.release import Noise


def equal_loss(
    notion: Notion[Any], request: PlanRequest, epsilon: float, delta: float, together: int, what: str
) -> Plan:
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
    return Plan(notion, request, noise, lambda n: np.full(n, loss), source, tail, {"together": together})


def _best(epsilon: float, delta: float, together: int, noise: Noise | None) -> tuple[Noise, float]:
    if delta == 0:
        return "laplace", divide_down(epsilon, float(together))
    families: tuple[Noise, ...] = ("laplace", "gaussian") if noise is None else (noise,)
    options = {family: equal_split(epsilon, delta, together, family) for family in families}
    best = min(options, key=lambda family: STD_OF_UNIT_SCALE[family] / options[family])
    return best, options[best]


@lru_cache(maxsize=256)
def equal_split(epsilon: float, delta: float, together: int, noise: Noise) -> float:
    """Return the largest loss of which `together` releases are (ε, δ)-DP in all, rounded down.

    The Swellfish paper's setting (T6), δ = 1/117,716,237 and ε = 0.1: scales 363.45 (Laplace) and 372.88 (Gaussian) for
    65 releases, where Theorem 10 asks for 650.6.

    >>> round(1 / equal_split(0.1, 1 / 117_716_237, 65, "gaussian"), 2)
    372.88
    """
    if noise == "gaussian":
        mu = gaussian_mu(epsilon, delta) * (1 - 1e-12)
        loss = math.sqrt(mu * mu / together)
        while to_units(math.nextafter(loss * loss, math.inf)) * together > to_units(mu * mu):
            loss = math.nextafter(loss, 0.0)
        return loss
    exact = Exact(delta)

    def holds(loss: float) -> bool:
        return exact.epsilon(laplace_losses(loss, together)) <= epsilon

    low = divide_down(epsilon, float(together))
    high = min(epsilon - 2 * math.log1p(-delta), 2 * (epsilon + 10) / math.sqrt(together) + low) * (1 + 1e-9)
    return largest(holds, low, max(high, low * (1 + 1e-9)), 1e-7) if holds(low) else low * (1 - 1e-12)
