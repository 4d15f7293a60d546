"""Losses term by term, far out: against the plain loop, long doubles, the power series, and the account itself."""

from __future__ import annotations

import math
import tracemalloc
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import fft

from halflife import Accountant, Classical, ExponentialDiscount, GaussianDiscount, HyperbolicDiscount, Release, WEvent
from halflife.numerics.fading import Geometric, Hyperbolic
from halflife.plans.discounted.saturating import FOR_EVER, hyperbolic_terms, saturating_losses

FAR = 5_000_000


def exact_shares(beta, n):
    """u by Newton's iteration on power series, in long doubles (64 bits): far more digits than are compared."""

    def product(a, b):
        size = 1 << (2 * len(b) - 2).bit_length() if len(b) > 1 else 1
        return fft.irfft(fft.rfft(a[: len(b)], size) * fft.rfft(b, size), size)[: len(b)] if size > 1 else a[:1] * b

    j, b = np.arange(1, n, dtype=np.longdouble), np.longdouble(beta)
    drops = np.concatenate(([np.longdouble(0)], b / ((1 + b * j) * (1 + b * (j - 1)))))
    sizes = [n]
    while sizes[-1] > 1:
        sizes.append((sizes[-1] + 1) // 2)
    v = np.zeros(n, dtype=np.longdouble)
    for low, high in pairwise(reversed(sizes)):
        known = np.concatenate((v[:low], np.zeros(high - low, dtype=np.longdouble)))
        c = drops[low:high] + product(drops, known)[low:high]
        v[low:high] = c + product(v[:low], c)
    v[0] = 1
    return v


@pytest.mark.parametrize("beta", [1e-8, 1e-6, 1e-4, 0.003, 0.1, 1.0, 3.0, 1e3, 1e6])
def test_hyperbolic_terms_are_the_power_series(beta):
    n = 1 << 15
    ours = saturating_losses(Hyperbolic(beta), 1.0, 1.0).between(1, n)
    assert np.abs(ours / exact_shares(beta, n) - 1).max() < 1e-12


@pytest.mark.parametrize("beta", [0.01, 1.0])
def test_far_losses_take_the_headroom_that_a_plain_sum_leaves(beta):
    """ρ_t = 1 − Σ d(j) ρ_{t−j} at a few far t, one long sum each: 300,000 steps on it is still 1 to nine digits."""
    n = 300_000
    losses = saturating_losses(Hyperbolic(beta), 1.0, 1.0).between(1, n)
    for t in (n - 1, n // 3):
        risk = math.fsum((losses[: t + 1][::-1] / (1 + beta * np.arange(t + 1))).tolist())
        assert risk == pytest.approx(1.0, abs=1e-11)


@given(st.floats(1e-6, 500), st.floats(0.05, 1.2), st.booleans())
def test_a_cap_of_any_length_is_the_plain_loop(rate, cap, exponential):
    kernel = Geometric(math.exp(-rate)) if exponential else Hyperbolic(rate)
    n, losses = 80, []
    d = np.exp(-rate * np.arange(n)) if exponential else 1 / (1 + rate * np.arange(n))
    for t in range(n):
        losses.append(min(cap, max(0.0, 1 - float(np.dot(d[1 : t + 1], losses[::-1])))))
    assert saturating_losses(kernel, 1.0, cap).between(1, n) == pytest.approx(losses, rel=1e-7, abs=1e-11)


def test_a_cap_that_binds_for_a_million_steps_turns_into_the_headroom():
    """ε/15.05 at β = 1: the cap holds for 1.9 million steps, which nothing is computed for one by one."""
    kernel, cap = Hyperbolic(1.0), 1 / 15.05
    made = saturating_losses(kernel, 1.0, cap)
    harmonic = np.cumsum(1 / np.arange(1.0, 3e6))
    assert made.capped == int(np.searchsorted(harmonic, 15.05))
    d = 1 / np.arange(1.0, made.capped + 102.0)
    losses = made.between(1, made.capped + 100)
    for t in (made.capped - 1, made.capped, made.capped + 1, made.capped + 99):
        risk = math.fsum((losses[: t + 1][::-1] * d[: t + 1]).tolist())
        assert risk == pytest.approx(min(1.0, cap * harmonic[t]), abs=1e-9)


def test_a_cap_below_what_is_forgotten_holds_for_ever():
    assert saturating_losses(Geometric(0.5), 1.0, 0.4).capped == FOR_EVER
    assert saturating_losses(Geometric(0.5), 1.0, 0.4).between(FAR, FAR + 1).tolist() == [0.4, 0.4]


PLANS = {
    "exponential": ExponentialDiscount(1.0, alpha=0.999),
    "hyperbolic": HyperbolicDiscount(1.0, 0.1),
    "gaussian-discount": GaussianDiscount(1.0, 1e-6, beta=0.1),
    "classical": Classical(1.0),
    "w-event": WEvent(1.0, 48),
}
SHAPES = {name: (notion, {}) for name, notion in PLANS.items()} | {
    "hyperbolic, capped": (PLANS["hyperbolic"], {"cap": 0.02}),
    "exponential, capped, every 7": (PLANS["exponential"], {"cap": 0.05, "every": 7}),
    "hyperbolic, paper": (PLANS["hyperbolic"], {"method": "paper"}),
    "classical, paper": (PLANS["classical"], {"method": "paper"}),
    "classical, δ": (Classical(1.0, 1e-6), {}),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_loss_depends_on_its_step_alone_to_the_last_bit(shape):
    """Restarts, batches and single steps cut the series in other places: they must agree exactly, near and far."""
    notion, options = SHAPES[shape]
    plan, every = notion.plan(**options), options.get("every", 1)
    for begin in (1, 17_000, FAR):
        whole = plan.losses_of_releases(begin, begin + 1500)
        for low, high in ((0, 1), (1, 700), (255, 257), (700, 1500), (1500, 1501)):
            again = notion.plan(**options)
            assert (again.losses_of_releases(begin + low, begin + high - 1) == whole[low:high]).all()
            assert again.loss(1 + (begin + low - 1) * every) == whole[low]


@pytest.mark.parametrize("shape", SHAPES)
def test_one_loss_costs_the_same_wherever_it_stands(shape):
    """Counted, not timed: the memory that is taken at release 5,000,000 and at 1,000; a series up to there takes 40 MB."""
    notion, options = SHAPES[shape]

    def most_taken(number):
        plan = notion.plan(**options)
        tracemalloc.start()
        plan.losses_of_releases(number, number)
        plan.sensitivities_of_releases(number, number)
        plan.scale(1 + (number - 1) * options.get("every", 1))
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    assert most_taken(FAR) <= 2 * most_taken(1_000) + 4e6


def test_an_account_admits_far_losses():
    """The plan fills the promise and never breaks it, by the account's own sum."""
    notion = HyperbolicDiscount(1.0, 0.5)
    plan, n = notion.plan(), 200_000
    account = Accountant(notion)
    for k, loss in enumerate(plan.losses_of_releases(1, n).tolist(), start=1):
        account._charge(k, (Release(k, loss),))
    assert account.risk() <= 1.0
    for k, loss in enumerate(plan.losses_of_releases(n + 1, n + 50).tolist(), start=n + 1):
        account.admit(Release(k, loss))
    assert account.used() > 1 - 1e-7


def test_terms_do_not_break_at_the_edges_of_floats():
    for beta in (1e-280, 1e-12, 1e12, 1e200):
        losses = saturating_losses(Hyperbolic(beta), 1.0, 1.0).between(1, 300)
        assert np.isfinite(losses).all()
        assert (losses >= 0).all()
        assert losses[1] == pytest.approx(beta / (1 + beta), rel=1e-9)
    assert ExponentialDiscount(1.0, alpha=1e-200).plan(every=3).loss(4) == pytest.approx(1.0, rel=1e-7)
    assert hyperbolic_terms(1.0)[1].min() > 0
