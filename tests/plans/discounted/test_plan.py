"""Discounted plans against the paper's corollaries, the erratum's witnesses, a plain loop and a general solver."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from halflife import (
    Accountant,
    ExponentialDiscount,
    GaussianDiscount,
    HyperbolicDiscount,
    InvalidInput,
    Release,
    mean_sensitivity,
)
from halflife.numerics.power_series import saturating_shares
from halflife.plans.discounted.least_squares import least_squares
from halflife.plans.discounted.plan import paper_constant, true_constant


def risks(d, losses):
    """Σ_{k≤t} d(t−k) ρ_k, plainly."""
    kernel = d(np.arange(len(losses)))
    return np.array([np.dot(kernel[: t + 1][::-1], losses[: t + 1]) for t in range(len(losses))])


def hyperbolic(beta):
    return lambda j: 1 / (1 + beta * j)


def test_corollary_12():
    plan = ExponentialDiscount(0.5, alpha=0.98).plan(sensitivity=3.0, method="paper")
    assert plan.scales(50) == pytest.approx(np.full(50, 3.0 / (0.5 * 0.02)), rel=1e-12)


def test_corollary_16():
    for beta in (0.01, 0.1, 1.0, 3.6):
        plan = HyperbolicDiscount(0.5, beta).plan(sensitivity=3.0, method="paper")
        c = 2 * (math.atanh(1 / math.sqrt(3)) + math.atanh(math.sqrt(beta / (1 + beta)))) / math.sqrt(beta * (beta + 1))
        assert plan.scales(50) == pytest.approx(c * 3.0 * np.sqrt(np.arange(1, 51)) / 0.5, rel=1e-9)


@pytest.mark.parametrize(("beta", "factor"), [(10.0, 2.075), (100.0, 13.74)])
def test_d1_corollary_16_is_false_for_large_beta(beta, factor):
    """The witness is the first step alone: the loss there is ε / c_paper."""
    assert 1 / paper_constant(beta) == pytest.approx(factor, rel=1e-3)
    with pytest.raises(InvalidInput, match=rf"{factor:g}.* times epsilon.*method='tight'"):
        HyperbolicDiscount(1.0, beta).plan(method="paper")
    unchecked = 1 / (paper_constant(beta) * np.sqrt(np.arange(1, 200)))
    assert risks(hyperbolic(beta), unchecked).max() == pytest.approx(factor, rel=1e-3)
    assert Accountant.replay(HyperbolicDiscount(1.0, beta), [Release(1, unchecked[0])]).used() > 2


def test_d1_corollary_16_is_false_for_tiny_beta_too():
    """Ours: at β = 10⁻⁵ the paper's scales give 1.0006 ε at step 227,670, by a plain sum; it holds from 1.22·10⁻⁵ on."""
    beta, t = 1e-5, 227_670
    k = np.arange(1, t + 1)
    risk = math.fsum((1 / ((1 + beta * (t - k)) * np.sqrt(k))).tolist()) / paper_constant(beta)
    assert risk == pytest.approx(1.0006, abs=1e-4)
    for b in (1e-9, 1e-6, 1e-5, 1.21e-5):
        with pytest.raises(InvalidInput, match="erratum D1"):
            HyperbolicDiscount(1.0, b).plan(method="paper")
    HyperbolicDiscount(1.0, 1.23e-5).plan(method="paper")


def test_the_true_constant_looks_beyond_the_first_thousand_steps():
    beta, t = 1e-4, 22_767
    k = np.arange(1, t + 1)
    there = math.fsum((1 / ((1 + beta * (t - k)) * np.sqrt(k))).tolist())
    assert there <= true_constant(beta) <= there * 1.001


def test_d1_begins_at_3_654():
    HyperbolicDiscount(1.0, 3.653).plan(method="paper")
    with pytest.raises(InvalidInput, match="erratum D1"):
        HyperbolicDiscount(1.0, 3.655).plan(method="paper")


def test_the_true_constant():
    for beta, printed in ((0.1, 3.8916), (1.0, 1.2744), (1 + math.sqrt(2), 1.0), (10.0, 1.0)):
        assert true_constant(beta) == pytest.approx(printed, abs=5e-5)
    for beta in (0.003, 0.1, 1.0):
        n = 4000
        brute = max(
            sum(1 / ((1 + beta * (t - k)) * math.sqrt(k)) for k in range(1, t + 1))
            for t in [*range(1, 60), *range(60, n, 37)]
        )
        assert brute <= true_constant(beta) <= brute * 1.01
        assert true_constant(beta) < paper_constant(beta)


@given(st.floats(1e-3, 20), st.integers(1, 200))
def test_tight_equals_the_plain_loop(beta, n):
    """ρ_t = what is left of ε, step by step, against the power series."""
    d, losses = hyperbolic(beta), []
    for t in range(n):
        losses.append(1 - sum(d(t - k) * x for k, x in enumerate(losses)))
    assert saturating_shares(d, n) == pytest.approx(losses, rel=1e-9)
    assert np.all(np.diff(saturating_shares(d, n)) <= 1e-15)


@given(st.floats(0.01, 5), st.floats(0.02, 1.5), st.booleans(), st.integers(1, 5))
def test_capped_equals_the_plain_loop(rate, cap, exponential, every):
    notion = ExponentialDiscount(1.0, alpha=math.exp(-rate)) if exponential else HyperbolicDiscount(1.0, beta=rate)
    n, losses = 60, []
    for t in range(n):
        if t % every:
            losses.append(0.0)
            continue
        left = 1 - sum(float(notion.discount(np.float64(t - k))) * x for k, x in enumerate(losses))
        losses.append(min(cap, left))
    assert notion.plan(cap=cap, every=every).losses(n) == pytest.approx(losses, rel=1e-6, abs=1e-12)


PRINTED = [(0.1, 77.79, 774.0), (1.0, 10.53, 288.2), (0.01, 556.4, 1997.5)]


@pytest.mark.parametrize(("beta", "tight", "paper"), PRINTED)
def test_t1_last_scales(beta, tight, paper):
    notion = HyperbolicDiscount(1.0, beta)
    assert notion.plan().scale(17_520) == pytest.approx(tight, rel=2e-4)
    assert notion.plan(method="paper").scale(17_520) == pytest.approx(paper, rel=2e-4)


@pytest.mark.parametrize(("beta", "rms"), [(0.1, (68.97, 68.77, 75.2)), (0.01, (476.0, 469.2, 517.7))])
def test_t1_root_mean_squares(beta, rms):
    for method, printed in zip(("tight", "optimal", "constant"), rms, strict=True):
        plan = HyperbolicDiscount(1.0, beta).plan(horizon=17_520, method=method)
        assert math.sqrt((plan.scales(17_520) ** 2).mean()) == pytest.approx(printed, rel=2e-4)
        assert plan.facts.get("duality_gap", 0.0) < 1e-5
        assert plan.risks(17_520).max() <= 1.0


def test_exponential_tight_is_all_and_then_corollary_12():
    losses = ExponentialDiscount(2.0, alpha=0.99).plan().losses(1000)
    assert losses[0] == pytest.approx(2.0, rel=1e-7)
    assert losses[1:] == pytest.approx(np.full(999, 0.02), rel=1e-7)


@pytest.mark.parametrize("notion", [HyperbolicDiscount(1.0, 0.3), ExponentialDiscount(1.0, alpha=0.8)], ids=str)
@pytest.mark.parametrize("delta", ["equal", "varying"])
def test_optimal_agrees_with_a_general_solver(notion, delta):
    n = 14
    weights = np.ones(n) if delta == "equal" else np.random.default_rng(4).uniform(0.5, 2, n)
    plan = notion.plan(sensitivity=weights, method="optimal")
    d = notion.discount
    matrix = np.array([[float(d(np.float64(t - k))) if k <= t else 0.0 for k in range(n)] for t in range(n)])
    found = minimize(
        lambda r: np.sum((weights / r) ** 2),
        np.full(n, 0.1),
        jac=lambda r: -2 * weights**2 / r**3,
        constraints={"type": "ineq", "fun": lambda r: 1 - matrix @ r, "jac": lambda r: -matrix},
        bounds=[(1e-3, None)] * n,
        method="SLSQP",
        options={"maxiter": 2000, "ftol": 1e-12},
    )
    feasible = found.x / (matrix @ found.x).max()
    theirs = np.sum((weights / feasible) ** 2)
    ours = np.sum(plan.scales(n) ** 2)
    assert ours == pytest.approx(theirs, rel=1e-4)
    assert plan.facts["duality_gap"] >= (ours - theirs) / ours - 1e-7
    assert (matrix @ plan.losses(n)).max() <= 1
    for method in ("tight", "constant"):
        assert ours <= np.sum(notion.plan(sensitivity=weights, method=method).scales(n) ** 2) * (1 + 1e-6)


@given(st.lists(st.floats(0.1, 10), min_size=2, max_size=40))
def test_constant_is_minimax(weights):
    """Any plan whose largest scale is a tenth smaller breaks the promise somewhere."""
    notion = HyperbolicDiscount(1.0, 0.5)
    plan = notion.plan(sensitivity=weights, method="constant")
    scales = plan.scales(len(weights))
    assert scales.max() == pytest.approx(scales.min(), rel=1e-9)
    assert risks(hyperbolic(0.5), np.array(weights) / (scales[0] * 0.9)).max() > 1
    assert risks(hyperbolic(0.5), np.array(weights) / scales).max() <= 1


def test_people_who_join_and_leave_change_the_sensitivity():
    """Remark 1: a public n_k makes Δf_k = range / n_k; the losses stay, the scales follow."""
    members = [300, 290, 310, 280]
    weights = mean_sensitivity(0.0, 5.0, members)
    assert weights == pytest.approx([5.0 / n for n in members], rel=1e-15)
    plan = ExponentialDiscount(1.0, alpha=0.5).plan(sensitivity=weights)
    assert plan.horizon == 4
    assert plan.scales(4) / weights == pytest.approx(ExponentialDiscount(1.0, alpha=0.5).plan().scales(4), rel=1e-9)
    assert plan.sensitivity_at(2) == weights[1]
    assert plan.scale(4) > plan.scale(3) > plan.scale(1)  # fewer members, more noise; the first release takes all of ε


def test_the_sensitivity_of_a_mean_bounds_every_change_of_one_person():
    """Brute force over readings, presence and absence, at a public n."""
    for low, high in ((0.0, 5.0), (-2.0, 3.0), (1.0, 4.0), (-4.0, -1.0)):
        values = [*np.linspace(low, high, 7), None]
        worst = max(abs((a or 0.0) - (b or 0.0)) for a in values for b in values) / 10
        assert mean_sensitivity(low, high, [10]) == [pytest.approx(worst, rel=1e-12)]
    with pytest.raises(InvalidInput, match="members at release 2 must be at least 1"):
        mean_sensitivity(0.0, 1.0, [5, 0])
    with pytest.raises(InvalidInput, match="must lie below"):
        mean_sensitivity(1.0, 1.0, [5])


def test_slow_discounting_is_better_planned_with_a_horizon():
    """A finding: where β·T is small, tight spends too early: 15,855 in root mean square, constant 10,124."""
    notion = HyperbolicDiscount(1.0, beta=1e-4)
    rms = {
        m: math.sqrt((notion.plan(horizon=17_520, method=m).scales(17_520) ** 2).mean()) for m in ("tight", "constant")
    }
    assert rms["tight"] == pytest.approx(15_855, rel=1e-3)
    assert rms["constant"] == pytest.approx(10_124, rel=1e-3)


def test_optimal_is_found_where_sensitivities_have_a_daily_pattern():
    """The active set is then scattered over the days, which is the hard case."""
    daily = 1 + 0.5 * np.sin(np.arange(3000) * 2 * np.pi / 48)
    plan = HyperbolicDiscount(1.0, 0.1).plan(sensitivity=daily, method="optimal")
    assert plan.facts["duality_gap"] < 1e-4
    assert plan.risks(3000).max() <= 1


def test_a_gap_is_a_certificate():
    """Stopped early, the gap still bounds how far the plan is from the best."""
    n = 60
    weights = np.exp(np.random.default_rng(2).normal(size=n))
    best = least_squares(hyperbolic(0.2), weights, tolerance=1e-9)
    rough = least_squares(hyperbolic(0.2), weights, rounds=1)
    assert rough.gap > 1e-3 > best.gap
    costs = [float(np.sum((weights / found.losses) ** 2)) for found in (rough, best)]
    assert (costs[0] - costs[1]) / costs[0] <= rough.gap


@pytest.mark.parametrize("kernel", [{"beta": 0.2}, {"alpha": 0.9}], ids=str)
@pytest.mark.parametrize("horizon", [None, 31])
@pytest.mark.parametrize("every", [1, 3])
def test_gaussian_plans_against_a_plain_sum(kernel, horizon, every):
    notion = GaussianDiscount(1.0, 1e-6, **kernel)
    plan = notion.plan(horizon=horizon, every=every)
    steps = np.arange(0, horizon or 200_000, every, dtype=np.float64)
    squares = float(np.sum(notion.discount(steps) ** 2))
    assert plan.loss(1) == pytest.approx(notion.mu / math.sqrt(squares), rel=1e-4)
    assert plan.loss(1) <= notion.mu / math.sqrt(squares)
    if horizon:
        assert notion.plan(horizon=horizon, every=every, method="constant").loss(1) == pytest.approx(
            plan.loss(1), rel=1e-7
        )
    else:
        with pytest.raises(InvalidInput, match="needs a horizon"):
            notion.plan(method="constant")


def test_gaussian_constant_is_constant_where_sensitivities_differ():
    weights = [1.0, 3.0, 2.0, 0.5]
    notion = GaussianDiscount(1.0, 1e-6, beta=0.5)
    scales = notion.plan(sensitivity=weights, method="constant").scales(4)
    assert scales.max() == pytest.approx(scales.min(), rel=1e-12)
    worst = max(
        sum((float(notion.discount(np.float64(t - k))) * weights[k] / scales[0]) ** 2 for k in range(t + 1))
        for t in range(4)
    )
    assert worst == pytest.approx(notion.mu**2, rel=1e-6)
    assert worst <= notion.mu**2
