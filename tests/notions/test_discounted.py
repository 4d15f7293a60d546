"""Discounted accounts against plain sums, the paper's definitions, and the classical corner."""

from __future__ import annotations

import math
from decimal import Context, Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from halflife import (
    Accountant,
    BudgetExceeded,
    Classical,
    ExponentialDiscount,
    GaussianDiscount,
    HyperbolicDiscount,
    InvalidInput,
    Release,
)
from halflife.notions.gaussian_dp import gaussian_delta, gaussian_epsilon

moves = st.lists(st.tuples(st.integers(0, 50), st.floats(0.001, 0.9)), min_size=1, max_size=30)


@pytest.mark.parametrize(
    ("notion", "d"),
    [
        (ExponentialDiscount(1.0, alpha=0.9), lambda j: 0.9**j),
        (ExponentialDiscount(1.0, half_life=10), lambda j: 2 ** (-j / 10)),
        (HyperbolicDiscount(1.0, beta=0.1), lambda j: 1 / (1 + 0.1 * j)),
        (HyperbolicDiscount(1.0, beta=10.0), lambda j: 1 / (1 + 10 * j)),
    ],
    ids=["alpha", "half-life", "beta 0.1", "beta 10"],
)
@given(moves=moves)
def test_the_account_is_the_discounted_sum(notion, d, moves):
    """Definitions 9, 10, 13, 14: irregular steps, several releases a step, losses chosen on the go.

    Holds Theorems 11 and 15.
    """
    account, past, step = Accountant(notion), [], 1
    for gap, share in moves:
        step += gap
        plain = sum(d(step - s) * x for s, x in past)
        room = account.headroom(step)
        assert room == pytest.approx(1 - plain, abs=1e-9)
        assert room <= 1 - plain + 1e-12
        account.admit(Release(step, room * share))
        past.append((step, room * share))
        for later in (0, 1, 7, 1000):
            exact = math.fsum(d(step + later - s) * x for s, x in past)
            assert exact * (1 - 1e-14) <= account.risk(step + later) <= exact * (1 + 1e-9) + 1e-15


@pytest.mark.parametrize("notion", [ExponentialDiscount(1.0, alpha=1.0), HyperbolicDiscount(1.0, beta=0.0)])
def test_without_forgetting_it_is_classical(notion):
    account, classical = Accountant(notion), Accountant(Classical(1.0))
    for step, loss in ((1, 0.1), (5, 0.2), (5, 0.3), (900, 0.1)):
        for a in (account, classical):
            a.admit(Release(step, loss))
        assert account.risk(10**6) == classical.risk(10**6)
        assert account.headroom(10**6) == pytest.approx(classical.headroom(10**6), abs=1e-15)
    for method in ("paper", "tight"):
        assert notion.plan(method=method).scales(50) == pytest.approx(Classical(1.0).plan(method=method).scales(50))
    assert notion.plan(horizon=9, method="constant").scale(1) == pytest.approx(9)


def test_exactly_all_of_it_can_be_spent_over_and_over():
    account = Accountant(ExponentialDiscount(0.3, alpha=0.75))
    account.admit(Release(1, 0.1), Release(1, 0.2))
    for step in range(2, 2000):
        account.admit(Release(step, 0.3 * 0.25))
    with pytest.raises(BudgetExceeded):
        account.admit(Release(1999, 1e-9))


@pytest.mark.parametrize("half_life", [2.0**-5, 1.0, 24.0, 48.0, 532.0, 1761 / 7, 2071.0, 2758.0, 2.0**40])
def test_alpha_is_the_nearest_number_on_every_machine(half_life):
    """Of 532, 2071 and 2758 steps other ways of working it out round otherwise; here by exp and ln in decimals, to 80 digits."""
    with localcontext(Context(prec=80)):
        exact = (Decimal(2).ln() * (-1 / Decimal(half_life))).exp()
        found = ExponentialDiscount(1.0, half_life=half_life).alpha
        away = [abs(Decimal(x) - exact) for x in (found, math.nextafter(found, 0), math.nextafter(found, 1))]
    assert away[0] == min(away)


def test_the_half_life_is_one():
    notion = ExponentialDiscount(1.0, half_life=48)
    assert notion.alpha == 2 ** (-1 / 48)
    assert notion.half_life_steps() == pytest.approx(48)
    assert HyperbolicDiscount(1.0, beta=0.1).half_life_steps() == 10
    assert ExponentialDiscount(1.0, alpha=notion.alpha) == notion


def test_t8_what_a_window_may_lose():
    """α = 0.99: 4.35 ε over a week of half hours, 176 ε over a year; β = 1: 60.7 ε and 1860 ε. And it is attained."""
    exponential, hyperbolic = ExponentialDiscount(1.0, alpha=0.99), HyperbolicDiscount(1.0, beta=1.0)
    assert exponential.allowance(336) == pytest.approx(1 + 335 * 0.01, rel=1e-9)
    assert exponential.allowance(336) == pytest.approx(4.35, abs=0.005)
    assert exponential.allowance(17_520) == pytest.approx(176, abs=0.5)
    assert hyperbolic.allowance(336) == pytest.approx(60.7, abs=0.05)
    assert hyperbolic.allowance(17_520) == pytest.approx(1860, abs=5)
    account, spent = Accountant(hyperbolic), 0.0
    for step in range(1, 337):
        room = account.headroom(step)
        account.admit(Release(step, room))
        spent += room
    assert spent == pytest.approx(hyperbolic.allowance(336), rel=1e-6)


@given(st.lists(st.floats(1e-9, 1.0), min_size=1, max_size=20))
def test_t8_nothing_that_is_admitted_loses_more_within_a_window(shares):
    notion = HyperbolicDiscount(1.0, beta=0.5)
    account, losses = Accountant(notion), []
    for step, share in enumerate(shares, start=1):
        losses.append(account.headroom(step) * share)
        account.admit(Release(step, losses[-1]))
    for start in range(len(losses)):
        for end in range(start, len(losses)):
            assert sum(losses[start : end + 1]) <= notion.allowance(end - start + 1) * (1 + 1e-9)


def test_t8_for_gaussian_discounting_is_attained():
    notion = GaussianDiscount(1.0, 1e-6, beta=0.5)
    account, squares = Accountant(notion), 0.0
    for step in range(1, 101):
        room = account.headroom(step)
        account.admit(Release(step, room, noise="gaussian"))
        squares += room * room
    assert notion.allowance(100) == pytest.approx(gaussian_epsilon(math.sqrt(squares), 1e-6), rel=1e-6)


def test_allowances_of_very_many_steps_are_bounded_and_quick():
    assert ExponentialDiscount(1.0, alpha=0.99).allowance(10**9) == pytest.approx(1e7, rel=1e-6)
    exact, bound = (
        HyperbolicDiscount(1.0, beta=0.1).allowance(2**20),
        HyperbolicDiscount(1.0, beta=0.1).allowance(2**21),
    )
    assert exact < bound < 2 * exact
    words = HyperbolicDiscount(1.0, beta=0.1).in_other_words(step_minutes=60 * 24 * 30)
    assert not any("day (" in w or "week" in w for w in words)
    assert "year (13 steps)" in words[-1]
    assert "at δ = 1e-06" in GaussianDiscount(1.0, 1e-6, beta=0.1).in_other_words()[-1]


@pytest.mark.parametrize(
    "notion",
    [HyperbolicDiscount(1.0, beta=1e-4), ExponentialDiscount(1.0, alpha=0.999), GaussianDiscount(1.0, 1e-6, alpha=0.9)],
    ids=lambda n: n.name,
)
def test_risks_of_a_schedule_are_never_below_the_plain_sums(notion):
    """Growing losses are the hard case for an FFT: its error is that of the largest."""
    losses = np.r_[np.full(300, 1e-13), np.full(300, 1e-2)]
    kernel = notion.discount(np.arange(600.0))
    found = notion.risks(losses, 0, notion.noises[0])
    for t in (0, 5, 100, 299, 300, 599):
        weights = kernel[: t + 1][::-1]
        if notion.name == "gaussian-discount":
            exact = gaussian_epsilon(math.sqrt(math.fsum(((weights * losses[: t + 1]) ** 2).tolist())), 1e-6)
        else:
            exact = math.fsum((weights * losses[: t + 1]).tolist())
        assert found[t] >= exact * (1 - 1e-13)
        assert found[t] <= exact * 1.01 + 1e-10


def test_a_saved_sum_from_the_future_is_refused():
    account = Accountant(HyperbolicDiscount(1.0, beta=0.1))
    account.admit(Release(5, 0.1))
    text = account.to_json().replace('"step": 5, "sum"', '"step": 9, "sum"')
    with pytest.raises(InvalidInput, match="cannot go back by 4 steps"):
        Accountant.from_json(text).risk(5)


def test_gaussian_discounting_is_the_exact_loss_of_its_neighbours():
    """Monte Carlo free: outputs are independent normals, so the neighbours d(t−k)Δ apart are μ_t = √Σ(dΔ/σ)² apart."""
    notion = GaussianDiscount(1.0, 1e-6, beta=0.5)
    account = Accountant(notion)
    sigmas = [(1, 9.0), (2, 12.0), (5, 8.0)]
    for step, sigma in sigmas:
        account.admit(Release(step, 1 / sigma, scale=sigma, noise="gaussian"))
    for t in (5, 9, 100):
        mu = math.sqrt(sum((1 / (1 + 0.5 * (t - k)) / s) ** 2 for k, s in sigmas))
        assert account.risk(t) == pytest.approx(gaussian_epsilon(mu, 1e-6), rel=1e-6)
        assert gaussian_delta(mu, account.risk(t)) <= 1e-6
    with pytest.raises(InvalidInput, match="speaks of Gaussian noise"):
        account.admit(Release(6, 0.01))


def test_t7_bounded_noise_for_ever():
    assert GaussianDiscount(1.0, 1e-6, beta=0.1).plan().scale(10**6) == pytest.approx(13.7, abs=0.05)
    assert GaussianDiscount(1.0, 1e-6, alpha=0.99).plan().scale(1) == pytest.approx(29.9, abs=0.05)
    assert HyperbolicDiscount(1.0, beta=0.1).plan().std(17_520) == pytest.approx(110, abs=0.5)
    assert ExponentialDiscount(1.0, alpha=0.99).plan().std(365) == pytest.approx(141.4, abs=0.1)
    plan = GaussianDiscount(1.0, 1e-6, beta=0.1).plan()
    assert np.all(np.diff(plan.scales(1000)) == 0)
    assert plan.risks(100_000)[-1] == pytest.approx(1.0, rel=1e-3)


BAD = [
    (lambda: ExponentialDiscount(1.0), "either alpha or half_life"),
    (lambda: ExponentialDiscount(1.0, alpha=0.5, half_life=1), "either alpha or half_life"),
    (lambda: ExponentialDiscount(1.0, alpha=1.5), "alpha must be at most 1"),
    (lambda: ExponentialDiscount(1.0, alpha=0.0), "alpha must be above 0"),
    (lambda: ExponentialDiscount(1.0, half_life=float("nan")), "half_life is NaN"),
    (lambda: ExponentialDiscount(1.0, half_life=1e20), "give alpha=1"),
    (lambda: HyperbolicDiscount(1.0, beta=-1), "beta must be at least 0"),
    (lambda: HyperbolicDiscount(1.0, beta=1e-20), "outside 1e-9"),
    (lambda: GaussianDiscount(1.0, 0.0, beta=1.0), "needs delta above 0"),
    (lambda: GaussianDiscount(1.0, 1e-6), "either alpha or half_life"),
    (lambda: GaussianDiscount(1.0, 1e-6, beta=1.0, alpha=0.5), "one of alpha, half_life and beta"),
    (lambda: ExponentialDiscount(1.0, alpha=0.5).plan(capp=1), "did you mean 'cap'"),
    (lambda: ExponentialDiscount(1.0, alpha=0.5).plan(cap=0), "cap must be above 0"),
    (lambda: ExponentialDiscount(1.0, alpha=0.5).plan(method="optimal"), "needs a horizon"),
    (lambda: HyperbolicDiscount(1.0, beta=0.5).plan(sensitivity=[1.0, 2.0], horizon=3), "for each release, not 2"),
    (lambda: HyperbolicDiscount(1.0, beta=0.5).plan(sensitivity=[]), "must not be empty"),
    (
        lambda: HyperbolicDiscount(1.0, beta=0.5).plan(sensitivity=[1.0, float("nan")]),
        "sensitivity of release 2 is NaN",
    ),
    (lambda: HyperbolicDiscount(1.0, beta=0.5).plan(noise="gaussian"), "unknown noise for hyperbolic"),
]


@pytest.mark.parametrize(("make", "message"), BAD, ids=[b[1] for b in BAD])
def test_bad_parameters_are_refused(make, message):
    with pytest.raises(InvalidInput) as error:
        make()
    assert message in str(error.value)
