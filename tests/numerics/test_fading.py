"""Fading sums against exact ones: never below, and above by less than a millionth."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from halflife import InvalidInput
from halflife.numerics.fading import Geometric, Hyperbolic, fading, trapezoid_error

gaps = st.one_of(st.integers(0, 3), st.integers(0, 1000), st.integers(0, 10**6))
histories = st.lists(st.tuples(gaps, st.floats(1e-9, 10)), min_size=1, max_size=40)


@given(st.floats(0.01, 1), histories)
def test_a_geometric_sum_is_never_below_the_exact_one(alpha, history):
    sums, state, exact = Geometric(alpha), 0, Fraction(0)
    for gap, x in ((min(gap, 60), x) for gap, x in history[:12]):
        state = sums.add(sums.fade(state, gap), x)
        exact = exact * Fraction(alpha) ** gap + Fraction(x)
    found = Fraction(sums.total(state))
    assert exact <= found <= exact * (1 + Fraction(1, 2**40)) + Fraction(1, 2**110)


@given(st.floats(1e-3, 13), st.integers(1, 10**6))
def test_a_squared_geometric_kernel_is_never_below_either(nearness, gap):
    alpha = 1 - 10**-nearness
    kind = fading(alpha, None, 2)
    with mp.workdps(60):
        assert mp.mpf(kind.total(kind.fade(kind.add(kind.zero, 1.0), gap))) >= mp.mpf(alpha) ** (2 * gap)


@given(st.floats(1e-9, 1e6), st.sampled_from([1, 2]), histories)
def test_a_hyperbolic_sum_is_never_below_the_plain_one(beta, power, history):
    """T2. Random irregular histories, gaps up to a million steps, against the plain sum in 40 digits."""
    kind = Hyperbolic(beta, power)
    state, step, past = kind.zero, 0, []
    for gap, x in history:
        step += gap
        state = kind.add(kind.fade(state, gap), x)
        past.append((step, x))
    with mp.workdps(40):
        for later in (0, 1, 17, 10**6):
            exact = sum(mp.mpf(x) / (1 + mp.mpf(beta) * (step + later - s)) ** power for s, x in past)
            found = mp.mpf(kind.total(kind.fade(state, later)))
            assert exact <= found <= exact * (1 + mp.mpf("1e-6"))


@pytest.mark.parametrize("beta", [1e-9, 1e-3, 0.1, 1.0, 10.0, 1e6])
@pytest.mark.parametrize("power", [1, 2])
def test_beyond_the_certified_range_it_stays_an_upper_bound(beta, power):
    fading = Hyperbolic(beta, power)
    state = fading.add(fading.zero, 1.0)
    with mp.workdps(40):
        for j in [2**k for k in range(0, 130, 3)]:
            exact = 1 / (1 + mp.mpf(beta) * j) ** power
            found = mp.mpf(fading.total(fading.fade(state, j)))
            assert found >= exact
            if j <= 2**40:
                assert found <= exact * (1 + mp.mpf("1e-6"))


def test_fading_step_by_step_adds_hardly_anything():
    """Twenty thousand roundings up leave the sum within 10⁻¹⁰, and not below."""
    fading = Hyperbolic(0.1)
    state = fading.add(fading.zero, 1.0)
    for _ in range(20_000):
        state = fading.fade(state, 1)
    exact = 1 / (1 + 0.1 * 20_000)
    assert exact <= fading.total(state) <= exact * (1 + 1e-10)


def test_the_trapezoid_error_is_what_the_rule_really_makes():
    """Independent: the rule at step 0.5, summed in 40 digits, is off by at most η and by more than η/20 somewhere."""
    with mp.workdps(40):
        eta, h, worst = mp.mpf(trapezoid_error(0.5, 1)), mp.mpf("0.5"), mp.mpf(0)
        for x in np.linspace(1, 1.7, 15):
            terms = (h * mp.e ** (h * n) * mp.e ** (-(mp.e ** (h * n)) * mp.mpf(float(x))) for n in range(-200, 20))
            worst = max(worst, abs(sum(terms) * mp.mpf(float(x)) - 1))
        assert eta / 20 < worst <= eta * (1 + mp.mpf("1e-6"))


def test_weights_ten_per_cent_low_would_be_noticed():
    fading = Hyperbolic(0.1)
    fading._weights = fading._weights * 0.9
    assert fading.total(fading.add(fading.zero, 1.0)) < 1


@pytest.mark.parametrize("data", [None, [], [1.0], "0x1", [float("nan")] * 171, [-1.0] * 171])
def test_what_is_no_state_is_refused(data):
    with pytest.raises(InvalidInput):
        Hyperbolic(0.1).load(data)


def test_the_smallest_losses_do_not_vanish():
    kind = Hyperbolic(1e6, 2)
    assert kind.total(kind.fade(kind.add(kind.zero, 1e-300), 2**20)) > 0


def test_states_survive_the_disk_bit_for_bit():
    fading = Hyperbolic(3.0)
    state = fading.fade(fading.add(fading.zero, 0.3), 12345)
    assert np.array_equal(fading.load(fading.dump(state)), state)
    assert math.isclose(fading.total(state), 0.3 / (1 + 3 * 12345), rel_tol=1e-9)
