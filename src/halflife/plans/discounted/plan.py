"""Plans under discounted privacy: the paper's, the saturating one, and with a horizon the constant and the optimal one."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

import numpy as np

from halflife.errors import HalflifeError, InvalidInput
from halflife.notions import Classical, ExponentialDiscount, GaussianDiscount, HyperbolicDiscount, PlanRequest
from halflife.notions.discounted import Discounted
from halflife.numerics.arrays import Floats
from halflife.numerics.fading import Geometric, Hyperbolic
from halflife.numerics.parameters import real
from halflife.numerics.power_series import Kernel, convolution
from halflife.numerics.rounding import down
from halflife.plans import classical
from halflife.plans.base import Plan, list_losses, refuse_extra, release_numbers, repeat_loss
from halflife.plans.discounted.saturating import saturating_losses
from halflife.registry import register_plan

MARGIN = 1e-8
"""What a plan leaves of ε: room for FFT rounding (about 10⁻¹³) and for an account's own rounding up over 10⁷ steps."""


def _never_forgets(notion: Discounted) -> bool:
    return bool(notion.alpha == 1 or notion.beta == 0)


def _as_classical(notion: Discounted, request: PlanRequest, planner: Callable[..., Plan]) -> Plan:
    """Plan as under classical privacy, which α = 1 and β = 0 are."""
    plan = planner(Classical(notion.epsilon), request)
    tail = f"Without forgetting this is classical privacy. {plan.tail}"
    return Plan(notion, request, plan.noise, plan.series, plan.source, tail, plan.facts)


def _kernel(notion: Discounted, request: PlanRequest, power: int = 1) -> Kernel:
    """Return the kernel between one release and the next: d(every · j)ᵖ."""
    return lambda j: notion.discount(j * request.every) ** power


@register_plan("exponential", "paper")
def corollary_12(notion: ExponentialDiscount, request: PlanRequest) -> Plan:
    """b_k = Δf / (ε(1−α)) for ever (Corollary 12; paper); α = 1 is Corollary 8.

    >>> round(ExponentialDiscount(1.0, alpha=0.99).plan(method="paper").scale(7), 6)
    100.0
    """
    refuse_extra(request)
    if _never_forgets(notion):
        return _as_classical(notion, request, classical.corollary_8)
    loss = down(notion.epsilon * (1 - notion.alpha))
    tail = f"Σ_j αʲ · ε(1−α) = ε = {notion.epsilon:g} over all j, so the risk stays below ε for ever."
    return Plan(notion, request, "laplace", repeat_loss(loss), "discounted, Corollary 12 (paper)", tail)


def paper_constant(beta: float) -> float:
    """Return c_paper(β) = 2(atanh(1/√3) + atanh √(β/(1+β))) / √(β(β+1)) of Corollary 16.

    >>> round(paper_constant(0.1), 3), round(paper_constant(10), 4)
    (5.847, 0.4819)
    """
    return 2 * (math.atanh(3**-0.5) + math.atanh(math.sqrt(beta / (1 + beta)))) / math.sqrt(beta * (beta + 1))


@lru_cache(maxsize=64)
def true_constant(beta: float) -> float:
    """Return c*(β) = sup_t S_t, S_t = Σ_{k≤t} 1/((1+β(t−k))√k), which b_k = cΔf√k/ε really needs (D1; corrected).

    The summand falls and then rises with k, so S_t ≤ ∫₀ᵗ + its last term = 2z/(√β cosh z) + 1/√t with sinh²z = βt (the paper
    leaves the last term out). 2z/cosh z is largest, 1.32549, at βt = 2.2767, and falls after it: once the bound is below
    what was found, nothing larger comes. For β < 10⁻⁵ the value at t = 2.2767/β is returned (by its integral below 10⁻⁷):
    already that is above the paper's constant, and so only serves to refuse.

    >>> [round(true_constant(b), 4) for b in (0.1, 1.0, 10.0)]
    [3.8916, 1.2744, 1.0]
    """
    if beta < 1e-7:
        return 1.32549 / math.sqrt(beta)
    if beta < 1e-5:
        k = np.arange(1, round(2.2767 / beta) + 1, dtype=np.float64)
        return float(np.sum(1 / ((1 + beta * (k[-1] - k)) * np.sqrt(k))))
    n = 1024
    while True:
        t = np.arange(n, dtype=np.float64)
        found = float(convolution(1 / (1 + beta * t), 1 / np.sqrt(t + 1)).max()) * (1 + 1e-12)
        z = math.asinh(math.sqrt(beta * n))
        if beta * n > 2.28 and 2 * z / (math.sqrt(beta) * math.cosh(z)) + 1 / math.sqrt(n) <= found:
            return max(1.0, found)
        n *= 2


@register_plan("hyperbolic", "paper")
def corollary_16(notion: HyperbolicDiscount, request: PlanRequest) -> Plan:
    """b_k = c_paper(β) Δf √k / ε (Corollary 16; paper, refused where it is false: D1).

    It holds for 1.22·10⁻⁵ ≤ β ≤ 3.653 only. Its proof bounds a sum over an increasing function by an integral that leaves out
    the last term, and takes z/cosh z, sinh²z = βt, to fall from t = 1 on, which it does only once βt > 2.28. β = 0 is
    Corollary 8.

    >>> HyperbolicDiscount(1.0, beta=10.0).plan(method="paper")
    Traceback (most recent call last):
    ...
    halflife.errors.InvalidInput: Corollary 16 does not hold at beta = 10 (erratum D1): its constant 0.4819 would give a \
risk of 2.075 times epsilon, as 1 is needed; use method='tight', whose noise grows like log k instead of √k
    """
    refuse_extra(request)
    if _never_forgets(notion):
        return _as_classical(notion, request, classical.corollary_8)
    stated, needed = paper_constant(notion.beta), true_constant(notion.beta)
    if stated < needed:
        raise InvalidInput(
            f"Corollary 16 does not hold at beta = {notion.beta:g} (erratum D1): its constant {stated:.4g} would give a risk "
            f"of {needed / stated:.4g} times epsilon, as {needed:.4g} is needed; use method='tight', whose noise grows like "
            "log k instead of √k"
        )

    def series(first: int, last: int) -> Floats:
        return notion.epsilon / (stated * np.sqrt(release_numbers(first, last))) * (1 - 1e-12)

    tail = (
        f"With losses ε/(c√k) the risk is at most ε·c*/c for ever, and c* = {needed:.4f} ≤ c = {stated:.4f} (c* computed "
        "with a bound for all later steps; Corollary 16's own proof does not show it)."
    )
    facts = {"constant": stated, "needed": needed}
    return Plan(notion, request, "laplace", series, "discounted, Corollary 16 (paper, checked)", tail, facts)


@register_plan("exponential", "tight")
@register_plan("hyperbolic", "tight")
def tight(notion: Discounted, request: PlanRequest) -> Plan:
    """ρ_t = min(cap, headroom): take what there is at every step (T1; ours).

    Without a cap the risk is ε from the first step on; exponential: ρ_1 = ε, then ε(1−α) for ever; hyperbolic: the scale grows
    like ln(1+βt)/β. With a `cap` the first release need not take all of ε. `saturating` has the losses term by term.
    `every`: the kernel between releases is d(every·j).

    >>> [round(HyperbolicDiscount(1.0, beta=0.1).plan(method=m).scale(17_520), 2) for m in ("tight", "paper")]
    [77.79, 773.96]
    >>> ExponentialDiscount(1.0, alpha=0.75).plan(cap=0.5).losses(5).round(6)
    array([0.5    , 0.5    , 0.34375, 0.25   , 0.25   ])
    """
    refuse_extra(request, "cap")
    if _never_forgets(notion):
        refuse_extra(request)
        return _as_classical(notion, request, classical.tight)
    cap = real("cap", request.extra.get("cap", notion.epsilon), positive=True)
    between = (
        Hyperbolic(notion.beta * request.every) if notion.beta else Geometric(max(notion.alpha**request.every, 1e-290))
    )
    losses = saturating_losses(between, notion.epsilon * (1 - MARGIN), cap * (1 - MARGIN))
    tail = (
        "Every loss is at most what the risk of all earlier ones leaves of ε, and risks only fall until the next release: the "
        f"promise holds at every step by construction, for ever. It leaves {MARGIN:g} of ε for rounding."
    )
    facts = {"cap": min(cap, notion.epsilon)}
    return Plan(notion, request, "laplace", losses.between, "saturating, T1 (ours)", tail, facts)


@register_plan("exponential", "constant")
@register_plan("hyperbolic", "constant")
def constant(notion: Discounted, request: PlanRequest) -> Plan:
    """b = max_{t≤T} Σ_{k≤t} d(t−k) Δf_k / ε: the least of the largest scale, up to a horizon T (T1; ours).

    >>> round(HyperbolicDiscount(1.0, beta=0.1).plan(horizon=17_520, method="constant").scale(1), 1)
    75.2
    """
    n = _needs_horizon(request)
    if _never_forgets(notion):
        return _as_classical(notion, request, classical.tight)
    kernel = _kernel(notion, request)(np.arange(n, dtype=np.float64))
    weights = request.sensitivities_of(n)
    scale = float(convolution(kernel, weights).max()) / notion.epsilon * (1 + MARGIN)
    losses = weights / scale
    tail = (
        f"The horizon of {request.horizon} steps ends it: the largest risk up to there is ε, by computing all of them."
    )
    return Plan(notion, request, "laplace", list_losses(losses), "minimax constant scale (ours)", tail)


@register_plan("exponential", "optimal")
@register_plan("hyperbolic", "optimal")
def optimal(notion: Discounted, request: PlanRequest) -> Plan:
    """Return the least Σ (Δf_k/ρ_k)² with every risk up to the horizon at most ε, with its duality gap (T1; ours).

    It is the measure of how good `tight` is: within 0.3 to 1.5 % in root mean square while the discount acts within the
    horizon. Where it hardly does, `tight` spends too early: 5 % above at β·T = 30, 12 % at 10, where `constant` is better too.

    >>> plan = HyperbolicDiscount(1.0, beta=0.1).plan(horizon=500, method="optimal")
    >>> plan.facts["duality_gap"] < 1e-4
    True
    """
    n = _needs_horizon(request)
    if _never_forgets(notion):
        return _as_classical(notion, request, classical.tight)
    from halflife.plans.discounted.kept import solve_once

    found = solve_once(_kernel(notion, request), request.sensitivities_of(n))
    if found.gap > 0.01:
        raise HalflifeError(
            f"method='optimal' came no nearer than {found.gap:.1%} to the best plan within {found.rounds} rounds: use "
            "method='tight' or 'constant'"
        )
    losses = notion.epsilon * found.losses * (1 - MARGIN)
    tail = f"The horizon of {request.horizon} steps ends it: every risk up to there was computed, and is at most ε."
    facts = {"duality_gap": found.gap, "rounds": found.rounds}
    return Plan(notion, request, "laplace", list_losses(losses), "least squares by its dual (ours)", tail, facts)


@register_plan("gaussian-discount", "tight")
def gaussian(notion: GaussianDiscount, request: PlanRequest) -> Plan:
    """σ = Δf √(Σ_j d(j)²) / μ with μ the largest of (ε, δ): one noise for ever, or up to a horizon (T7; ours).

    Σ_{j≥0} d(j)² is 1/(1−α²), or ψ₁(1/β)/β² (trigamma): finite for hyperbolic discounting too.

    >>> [round(GaussianDiscount(1.0, 1e-6, **k).plan().scale(9), 1) for k in ({"beta": 0.1}, {"alpha": 0.99})]
    [13.7, 29.9]
    """
    refuse_extra(request)
    if _never_forgets(notion):
        return _as_gaussian_classical(notion, request)
    if request.releases is None:
        squares = sum_of_squares(notion, request.every)
        why = f"Σ d(j)² over all j is {squares:.6g}, finite, so one σ serves for ever: bounded noise"
    else:
        squares = float(np.sum(_kernel(notion, request, 2)(np.arange(request.releases, dtype=np.float64))))
        why = f"Σ d(j)² over the {request.releases} releases of the horizon is {squares:.6g}"
    loss = notion.mu / math.sqrt(squares) * (1 - MARGIN)
    tail = f"{why}; then μ_t² ≤ μ² Σ d² / Σ d² = μ² = {notion.mu**2:.6g} at every step, which is (ε, δ) by Gaussian DP."
    source, facts = "Gaussian discounting, T7 (ours)", {"mu": notion.mu}
    return Plan(notion, request, "gaussian", repeat_loss(loss), source, tail, facts)


@register_plan("gaussian-discount", "constant")
def gaussian_constant(notion: GaussianDiscount, request: PlanRequest) -> Plan:
    """σ² = max_{t≤T} Σ_{k≤t} d(t−k)² Δf_k² / μ²: one σ up to a horizon, also where sensitivities differ (T7; ours).

    >>> plan = GaussianDiscount(1.0, 1e-6, beta=0.1).plan(sensitivity=[1.0, 2.0, 3.0], method="constant")
    >>> plan.scales(3).round(2)
    array([15.23, 15.23, 15.23])
    """
    n = _needs_horizon(request)
    if _never_forgets(notion):
        return _as_gaussian_classical(notion, request)
    kernel = _kernel(notion, request, 2)(np.arange(n, dtype=np.float64))
    weights = request.sensitivities_of(n)
    sigma = math.sqrt(float(convolution(kernel, weights * weights).max())) / notion.mu * (1 + MARGIN)
    losses = weights / sigma
    tail = f"The horizon of {request.horizon} steps ends it: the largest Σ d²μ² up to there is μ², by computing all of them."
    source, facts = "minimax constant σ (ours)", {"mu": notion.mu}
    return Plan(notion, request, "gaussian", list_losses(losses), source, tail, facts)


def _as_gaussian_classical(notion: GaussianDiscount, request: PlanRequest) -> Plan:
    plan = classical.tight(Classical(notion.epsilon, notion.delta), replace(request, noise="gaussian"))
    return Plan(notion, request, "gaussian", plan.series, plan.source, plan.tail, plan.facts)


def sum_of_squares(notion: GaussianDiscount, every: int) -> float:
    """Return Σ_{j≥0} d(every·j)², rounded up."""
    if notion.beta is None:
        assert notion.alpha is not None
        return 1 / -math.expm1(2 * every * math.log(notion.alpha)) * (1 + 1e-12)
    from scipy.special import zeta

    b = notion.beta * every
    return float(zeta(2, 1 / b)) / b**2 * (1 + 1e-12)


def _needs_horizon(request: PlanRequest) -> int:
    refuse_extra(request)
    if request.releases is None:
        raise InvalidInput(f"method={request.method!r} needs a horizon: give horizon=, or use method='tight'")
    return request.releases
