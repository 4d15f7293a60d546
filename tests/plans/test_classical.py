"""Classical plans against the paper's corollaries and an exact sum."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from halflife import Accountant, BudgetExceeded, Classical, Release
from halflife.notions.gaussian_dp import gaussian_mu
from halflife.plans.classical import telescoping_shares


def test_corollary_8():
    plan = Classical(0.5).plan(sensitivity=2.0, method="paper")
    k = np.arange(1, 1001)
    assert plan.scales(1000) == pytest.approx(2.0 * math.pi**2 * k**2 / (6 * 0.5), rel=1e-12)


def test_corollary_7_a_bounded_scale_breaks_the_promise_in_the_end():
    account = Accountant(Classical(1.0))
    with pytest.raises(BudgetExceeded) as error:
        for step in range(1, 10**4):
            account.admit(Release(step, 1 / 100, scale=100.0))
    assert error.value.step == 101


def test_telescoping_shares_sum_to_1_minus_g_and_grow_slower_than_k_squared():
    shares = telescoping_shares(1, 200_000)
    assert np.all(shares > 0)
    assert np.all(np.diff(shares) < 0)
    for n in (1, 10, 1000, 200_000):
        assert math.fsum(shares[:n]) == pytest.approx(1 - 1 / (1 + math.log(1 + n)), rel=1e-12)
    ratio = (1 / shares) / np.arange(1, 200_001) ** 2
    assert ratio[-1] < ratio[1000] / 50
    assert ratio[1000] < ratio[10] / 10


@pytest.mark.parametrize("method", ["tight", "paper"])
def test_an_endless_plan_never_adds_up_to_more_than_epsilon_exactly(method):
    losses = Classical(0.3).plan(method=method).losses(20_000)
    assert sum(map(Fraction, losses.tolist())) < Fraction(0.3)


def test_the_endless_plan_spends_its_telescoping_shares():
    assert Classical(0.3).plan().losses(500) == pytest.approx(0.3 * telescoping_shares(1, 500), rel=1e-12)
    gaussian = Classical(0.3, 1e-6).plan().losses(500)
    assert gaussian**2 == pytest.approx(gaussian_mu(0.3, 1e-6) ** 2 * telescoping_shares(1, 500), rel=1e-9)


def test_equal_split_is_optimal_for_a_known_horizon():
    """Any other split of ε over n releases has a larger Σb² and a larger maximum."""
    n, rng = 30, np.random.default_rng(1)
    best = (Classical(1.0).plan(horizon=n).scales(n) ** 2).sum()
    for _ in range(200):
        losses = rng.dirichlet(np.full(n, 5.0))
        assert (losses**-2.0).sum() > best * (1 - 1e-12)
        assert 1 / losses.min() >= n


def test_delta_makes_growth_slower_and_the_noise_gaussian():
    plan = Classical(1.0, 1e-6).plan()
    assert plan.noise == "gaussian"
    assert np.sum(plan.losses(10_000) ** 2) <= gaussian_mu(1.0, 1e-6) ** 2
    assert plan.std(17_520) < Classical(1.0).plan().std(17_520) / 100
    assert Classical(1.0, 1e-6).plan(noise="laplace").noise == "laplace"


def test_known_horizon_with_delta_needs_far_less_noise():
    pure, exact = Classical(1.0).plan(horizon=17_520), Classical(1.0, 1e-6).plan(horizon=17_520)
    assert exact.noise == "gaussian"
    assert exact.std(1) == pytest.approx(math.sqrt(17_520) / gaussian_mu(1.0, 1e-6), rel=1e-9)
    assert exact.std(1) < pure.std(1) / 30
