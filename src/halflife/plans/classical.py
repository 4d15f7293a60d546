"""Plans under classical privacy: for ever with growing noise, up to a horizon with equal noise."""

from __future__ import annotations

import math

import numpy as np

from halflife.errors import InvalidInput
from halflife.notions import Classical, PlanRequest
from halflife.notions.gaussian_dp import gaussian_mu
from halflife.numerics.arrays import Floats
from halflife.plans.base import Plan, refuse_extra, refuse_gaussian, release_numbers
from halflife.plans.equal import equal_loss
from halflife.registry import register_plan

_GROWS = (
    "By Corollary 7 the noise of an endless stream must grow without bound under classical privacy; this is the price of "
    "never forgetting."
)


@register_plan("classical", "paper")
def corollary_8(notion: Classical, request: PlanRequest) -> Plan:
    """b_k = Δf π² k² / (6ε), for an unknown horizon (Corollary 8; paper). Pure, whatever δ.

    Σ_k 1/k² = π²/6, so Σ ρ_k = ε.

    >>> Classical(1.0).plan(sensitivity=2.0, method="paper").scale(3) / (2.0 * math.pi**2 * 9 / 6)
    1.0000000000...
    """
    refuse_extra(request)
    refuse_gaussian(request, "Corollary 8 is about Laplace noise")

    def series(first: int, last: int) -> Floats:
        k = release_numbers(first, last)
        return notion.epsilon * (6 / math.pi**2) * (1 - 1e-15) / (k * k)

    tail = f"Σ 6ε/(π²k²) over all k is ε = {notion.epsilon:g}. {_GROWS}"
    return Plan(notion, request, "laplace", series, "discounted, Corollary 8 (paper)", tail)


@register_plan("classical", "tight", "constant", "optimal")
def tight(notion: Classical, request: PlanRequest) -> Plan:
    """With a horizon, equal losses; without one, shares of ε that telescope (ours).

    **Known horizon**, n releases: ρ = ε/n. It is the least of the largest scale and also of Σ b_k² (by convexity of
    1/ρ² under Σρ ≤ ε), so `constant` and `optimal` are the same plan. With δ > 0 the loss of n equal releases is
    calibrated exactly, for Laplace and Gaussian noise, and the one of smaller standard deviation is taken.

    **Unknown horizon**, where noise must grow (Corollary 7; paper): shares s_k = g(k−1) − g(k) with g(k) = 1/(1 + ln(1+k)).
    Proof: g(0) = 1 and g falls to 0, so every s_k > 0 and Σ_{k≤n} s_k = 1 − g(n) < 1 for every n. In closed form
    s_k = ln(1 + 1/k) / ((1 + ln k)(1 + ln(1+k))), which is about 1/(k ln² k). Pure: ρ_k = ε s_k, so the scale grows like
    k ln² k, slower than k². With δ > 0 and Gaussian noise, μ_k² = μ* ² s_k with μ* the largest μ of (ε, δ), and Gaussian DP
    adds up μ_k²: the scale grows like √k ln k.

    >>> pure = Classical(1.0)
    >>> [round(pure.plan(method=m).scale(17_520) / 1e6, 1) for m in ("tight", "paper")]
    [2.0, 504.9]
    >>> pure.plan(horizon=4).scales(4)
    array([4., 4., 4., 4.])
    """
    refuse_extra(request)
    if notion.delta == 0:
        refuse_gaussian(request, "Gaussian noise has no bounded pure loss (delta = 0)")
    if request.releases is not None:
        return equal_loss(notion, request, notion.epsilon, notion.delta, request.releases, "the horizon")
    if request.method != "tight":
        raise InvalidInput(f"method={request.method!r} needs a horizon: give horizon=, or use method='tight'")
    if notion.delta > 0 and request.noise != "laplace":
        mu = gaussian_mu(notion.epsilon, notion.delta)
        tail = f"Σ μ_k² = μ*²(1 − g(n)) stays below μ*² = {mu * mu:.6g} for every n (telescoping). {_GROWS}"
        return Plan(
            notion, request, "gaussian", lambda first, last: mu * np.sqrt(telescoping_shares(first, last)) * (1 - 1e-14),
            "telescoping shares of μ² (ours)", tail, {"mu": mu},
        )  # fmt: skip
    tail = f"Σ ρ_k = ε(1 − g(n)) stays below ε = {notion.epsilon:g} for every n (telescoping). {_GROWS}"
    return Plan(
        notion, request, "laplace", lambda first, last: notion.epsilon * telescoping_shares(first, last) * (1 - 1e-14),
        "telescoping shares of ε (ours)", tail,
    )  # fmt: skip


def telescoping_shares(first: int, last: int) -> Floats:
    """Return s_k = ln(1 + 1/k) / ((1 + ln k)(1 + ln(1+k))) for k = first … last: positive, and all together below 1.

    >>> bool(telescoping_shares(1, 1000).sum() < 1 - 1 / (1 + math.log(1001)) + 1e-12)
    True
    """
    k = release_numbers(first, last)
    result: Floats = np.log1p(1 / k) / ((1 + np.log(k)) * (1 + np.log1p(k)))
    return result
