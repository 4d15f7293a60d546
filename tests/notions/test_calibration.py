"""The least noise per number of releases: T6's figures, an accounting of our own, and tables that never promise too much."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, gamma

from halflife import InvalidInput
from halflife.notions import calibration, composition
from halflife.notions.calibration import composed_epsilon, equal_split, quieter, unit_scales
from halflife.notions.composition import Exact, gaussian_losses, laplace_losses
from halflife.notions.gaussian_dp import gaussian_delta
from halflife.numerics.search import largest
from thinning import keep

DELTA = 1 / 117_716_237
LENGTHS = [3, 14, 20, 65]
POWERS = st.floats(-4.0, 0.0)  # of two: ε in [1/16, 1], one table per length


def tables(lengths, limits, noise="laplace"):
    """The answer from tables, whatever the number of pairs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(calibration, "FEW_PAIRS", 0)
        return unit_scales(lengths, limits, DELTA, noise)


def deltas(loss, count, epsilon, steps=1500):
    """δ(ε) of `count` Laplace releases from below and above, by moving the law of one loss to a grid both ways.

    U = L/ρ has P(U ≤ v) = ½ e^{−ρ(1−v)/2} on [−1, 1) and P(U = 1) = ½; δ(ε) = E max(0, 1 − e^{ε−L}) grows with L.
    """
    grid = np.linspace(-1, 1, 2 * steps + 1)
    law = np.append(np.exp(-loss * (1 - grid[:-1]) / 2) / 2, 1.0)
    mass = np.diff(law, prepend=0.0)
    above, below = mass.copy(), np.append(mass[1:], 0.0)
    below[0] += mass[0]
    below[-2] -= 0.5  # the atom at 1 lies on the grid
    below[-1] = 0.5
    size = 1 << math.ceil(math.log2(2 * steps * count + 1))
    total = loss * (np.arange(2 * steps * count + 1) / steps - count)
    weight = -np.expm1(np.minimum(0.0, epsilon - total))
    return [
        float(np.fft.irfft(np.fft.rfft(part, size) ** count, size)[: len(total)] @ weight) for part in (below, above)
    ]


@pytest.mark.parametrize(
    ("T", "noise", "printed"),
    [(65, "laplace", 363.45), (672, "laplace", 1195.8), (65, "gaussian", 372.88), (672, "gaussian", 1198.94)],
)
def test_t6_scales_and_what_theorem_10_asks_for(T, noise, printed):
    scale = unit_scales([T], [0.1], DELTA, noise)[0]
    assert scale == pytest.approx(printed, rel=3e-5)
    assert scale == pytest.approx(1 / equal_split(0.1, DELTA, T, noise), rel=1e-15)
    theorem_10 = 2 * math.sqrt(T * math.log(math.e + 0.1 / DELTA)) / 0.1
    assert theorem_10 == pytest.approx({65: 650.6, 672: 2092.0}[T], abs=0.05)


def test_t6_laplace_is_quieter_up_to_10_and_gaussian_from_11():
    assert [quieter(T, 0.1, DELTA)[0] for T in range(1, 14)] == ["laplace"] * 10 + ["gaussian"] * 3
    noise, scale = quieter(65, 0.1, DELTA)
    assert (noise, round(scale, 2)) == ("gaussian", 372.88)
    assert quieter(65, 0.1, 0.0) == ("laplace", 650.0)


@pytest.mark.parametrize(("T", "epsilon"), [(20, 0.1), (65, 0.1), (30, 1.0)])
def test_an_accounting_of_our_own_agrees_on_the_laplace_scale(T, epsilon):
    loss = equal_split(epsilon, DELTA, T, "laplace")
    low, high = deltas(loss * 0.997, T, epsilon)
    assert 0 < low < high < DELTA
    assert deltas(loss * 1.003, T, epsilon)[0] > DELTA


@pytest.mark.parametrize(("T", "epsilon"), [(7, 0.3), (65, 0.1), (672, 1.0)])
def test_the_gaussian_scale_is_the_closed_form(T, epsilon):
    scale = unit_scales([T], [epsilon], DELTA, "gaussian")[0]
    assert gaussian_delta(math.sqrt(T) / scale, epsilon) == pytest.approx(DELTA, rel=1e-4)


def test_one_laplace_release_is_the_closed_form():
    """δ of one release is 1 − e^{(ε−ρ)/2}."""
    assert equal_split(0.1, 0.01, 1, "laplace") == pytest.approx(0.1 - 2 * math.log1p(-0.01), rel=3e-7)


@pytest.mark.parametrize("delta", [1e-10, DELTA, 1e-3])
def test_the_risk_per_loss_only_grows_with_the_loss(delta):
    """What the tables rest on, and not only by the proof: ε(ρ)/ρ is nondecreasing."""
    for T in (1, 12, 65):
        slopes = [composed_epsilon(T, loss, delta, "laplace") / loss for loss in 0.004 * 1.7 ** np.arange(8)]
        assert all(a <= b * (1 + 1e-6) for a, b in itertools.pairwise(slopes))
        slopes = [composed_epsilon(T, mu, delta, "gaussian") / mu for mu in 0.001 * 1.7 ** np.arange(12)]
        assert all(a <= b * (1 + 1e-8) for a, b in itertools.pairwise(slopes))


@settings(max_examples=15)
@given(st.sampled_from(LENGTHS), POWERS)
def test_a_table_is_never_below_the_exact_scale_and_at_most_a_hundredth_above(T, power):
    limits = np.array([1 / 16, 2.0**power, 1.0])
    scale = tables([T] * 3, limits)[1]
    exact = 1 / equal_split(limits[1], DELTA, T, "laplace")
    assert exact * (1 - 2e-7) <= scale <= exact * 1.01
    assert composed_epsilon(T, 1 / scale, DELTA, "laplace") <= limits[1] * (1 + 1e-12)
    gaussian = tables([T] * 3, limits, "gaussian")[1]
    assert 1 <= gaussian * equal_split(limits[1], DELTA, T, "gaussian") <= 1.001
    assert composed_epsilon(T, 1 / gaussian, DELTA, "gaussian") <= limits[1] * (1 + 1e-12)


@given(
    st.lists(st.tuples(st.sampled_from(LENGTHS), POWERS), min_size=2, max_size=40), st.sampled_from(calibration.NOISES)
)
def test_a_longer_or_stricter_secret_never_gets_less_noise(secrets, noise):
    lengths = [*(T for T, _ in secrets), *LENGTHS, *LENGTHS]
    limits = np.array([*(2.0**p for _, p in secrets), *[1 / 16] * 4, *[1.0] * 4])
    scales = tables(lengths, limits, noise)
    for i, j in itertools.permutations(range(len(secrets)), 2):
        if lengths[i] <= lengths[j] and limits[i] >= limits[j]:
            assert scales[i] <= scales[j]
    if noise == "laplace":
        assert np.all(scales <= np.nextafter(np.array(lengths) / limits, math.inf))


def test_lengths_with_tables_of_their_own_stay_in_order():
    limits = np.geomspace(1 / 16, 1, 400)
    lengths = [200, 201, 202]
    scales = tables(np.repeat(lengths, 400), np.tile(limits, 3)).reshape(3, 400)
    assert np.all(np.diff(scales, axis=0) >= 0)
    assert np.all(np.diff(scales, axis=1) <= 0)
    assert np.any(scales[0] < scales[2] * 0.998)


def test_a_length_close_below_another_is_answered_by_it():
    near, far = tables([670, 672], [0.25, 0.25])
    assert near == far
    assert 1 <= near * equal_split(0.25, DELTA, 670, "laplace") <= 1.01


def test_a_single_tiny_or_huge_epsilon_costs_the_others_nothing():
    limits = np.array([1e-200, 0.25, 1e5])
    tiny, middle, huge = tables([20] * 3, limits)
    exact = 1 / equal_split(0.25, DELTA, 20, "laplace")
    assert exact <= middle * (1 + 2e-7) <= exact * 1.01
    assert tiny <= 20 / 1e-200
    assert huge == pytest.approx(20 / 1e5, rel=1e-15)
    assert composed_epsilon(20, 1e4, DELTA, "laplace") == 2e5


def test_many_secrets_take_the_table_and_few_are_exact():
    rng = np.random.default_rng(8)
    lengths, limits = rng.choice([3, 20], 100_000), rng.uniform(0.1, 1, 100_000)
    many = unit_scales(lengths, limits, DELTA, "laplace")
    few = unit_scales(lengths[:40], limits[:40], DELTA, "laplace")
    assert np.all(many[:40] >= few * (1 - 2e-7))
    assert np.all(many[:40] <= few * 1.01)
    assert np.any(many[:40] > few * (1 + 1e-5))
    again = unit_scales(np.repeat(lengths[:40], 500), np.repeat(limits[:40], 500), DELTA, "laplace")
    assert np.array_equal(again, np.repeat(few, 500))


def test_without_a_delta_the_scale_is_the_pure_sum():
    lengths, limits = np.array([1, 3, 65, 672]), np.array([0.25, 0.1, 0.7, 1.0])
    scales = unit_scales(lengths, limits, 0.0, "laplace")
    assert scales[0] == 4.0
    assert scales[3] == 672.0
    for T, epsilon, scale in zip(lengths.tolist(), limits.tolist(), scales.tolist(), strict=True):
        (p, q), (r, s) = epsilon.as_integer_ratio(), scale.as_integer_ratio()
        assert p * r >= T * q * s
        assert scale == pytest.approx(T / epsilon, rel=4e-16)


def test_a_smaller_delta_needs_more_noise_and_ends_at_the_pure_sum():
    scales = [unit_scales([12], [0.1], delta, "laplace")[0] for delta in (1e-2, 1e-4, 1e-6, 1e-10)]
    assert scales == sorted(scales)
    assert scales[0] < 0.3 * 120
    assert 0.999 * 120 <= scales[-1] <= 120
    assert unit_scales([8], [0.1], 1e-10, "laplace")[0] == pytest.approx(80, rel=1e-4)


@settings(max_examples=8)
@given(st.integers(1, 80), st.floats(-4, 2).map(lambda p: 2.0**p), st.sampled_from([1e-8, 1e-3, 0.3]))
def test_a_calibrated_loss_keeps_its_promise_and_a_thousandth_more_does_not(T, epsilon, delta):
    for noise in calibration.NOISES:
        loss = equal_split(epsilon, delta, T, noise)
        assert composed_epsilon(T, loss, delta, noise) <= epsilon
        if noise == "gaussian" or loss * T > epsilon * 1.0001:
            assert composed_epsilon(T, loss * 1.001, delta, noise) > epsilon


def test_composed_epsilon_of_nothing_and_of_the_pure_sum():
    assert composed_epsilon(9, 0.0, DELTA, "gaussian") == composed_epsilon(9, 0.0, 0.0, "laplace") == 0.0
    assert composed_epsilon(3, 0.1, 0.0, "laplace") == 0.30000000000000004
    assert composed_epsilon(65, 1 / 650.6, DELTA, "laplace") == pytest.approx(0.0542, abs=1e-4)


def loud_epsilon(count, loss, delta):
    """ε at δ of Laplace releases with next to no noise: each loses ρ, or with probability ½ ρ − X, X exponential of mean 2."""
    chances = binom.pmf(np.arange(count + 1), count, 0.5)
    less = np.linspace(0, 4 * count + 100, 100_001)
    density = sum(chances[k] * gamma.pdf(less, k, scale=2) for k in range(1, count + 1))

    def holds(spared):
        hidden = np.where(less <= spared, density * -np.expm1(np.minimum(less - spared, 0.0)), 0.0)
        return -chances[0] * math.expm1(-spared) + np.trapezoid(hidden, less) <= delta

    return count * loss - largest(holds, 0.0, 4.0 * count + 100, 1e-9)


@pytest.mark.parametrize("loss", keep([100.0, 300.0, 301.0, 745.0, 1e6], lambda loss: loss not in (100.0, 745.0)))
@pytest.mark.parametrize(("count", "delta"), [(1, 1e-6), (2, 1e-6), (48, 1e-10), (48, 0.9)])
def test_losses_too_large_for_a_distribution_count_as_their_sum(count, loss, delta):
    """From 745 on the loss distribution could not be computed (ValueError, OverflowError), after a release was committed."""
    found = composed_epsilon(count, loss, delta, "laplace")
    assert loud_epsilon(count, loss, delta) - 1e-3 <= found <= count * loss


def test_large_losses_beside_gaussian_noise_are_worked_out_on_a_grid_of_bounded_size(monkeypatch):
    """μ = 1000 and a Laplace loss of 0.001 took 3·10⁷ points and more than 5 GB."""
    monkeypatch.setattr("halflife.notions.composition.MOST_POINTS", 1e4)
    both = Exact(1e-6).epsilon(gaussian_losses(1000.0) + laplace_losses(0.001, 48))
    alone = Exact(1e-6).epsilon(gaussian_losses(1000.0))
    assert alone < both <= (alone + 0.048) * (1 + 2e-4)
    assert composition._distribution(gaussian_losses(1000.0) + laplace_losses(0.001))._pmf_remove.size < 2e4
    loud = Exact(1e-6).epsilon(gaussian_losses(1.0) + laplace_losses(1e6))
    assert loud == pytest.approx(1e6 + Exact(1e-6).epsilon(gaussian_losses(1.0)))


def test_no_secrets_need_no_scales():
    assert unit_scales([], [], DELTA, "laplace").shape == (0,)
    assert unit_scales(np.array([], dtype=int), np.array([]), 0.0, "laplace").shape == (0,)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (([1, 0], [0.1, 0.1], DELTA, "laplace"), "row 1: duration must be at least 1 step, not 0"),
        (([1, 2], [0.1, math.nan], DELTA, "laplace"), "row 1: epsilon must be above 0 and at most 1e.06, not nan"),
        (([1, 2], [0.0, 0.1], 0.0, "laplace"), "row 0: epsilon"),
        (([1], [math.inf], DELTA, "laplace"), "row 0: epsilon"),
        (([1], [-0.1], DELTA, "gaussian"), "row 0: epsilon"),
        (([1.5], [0.1], DELTA, "laplace"), "whole numbers"),
        (([1], ["a"], DELTA, "laplace"), "numbers"),
        (([True], [0.1], DELTA, "laplace"), "whole numbers"),
        (([1, 2], [0.1], DELTA, "laplace"), "one length"),
        ((3, 0.1, DELTA, "laplace"), "one length"),
        (([1], [0.1], 0.0, "gaussian"), "no bounded pure loss"),
        (([1], [0.1], 1e-12, "laplace"), "cannot be certified"),
        (([1], [0.1], math.nan, "laplace"), "delta is NaN"),
        (([1], [0.1], DELTA, "gausian"), "did you mean 'gaussian'"),
    ],
)
def test_bad_columns_are_refused(arguments, words):
    with pytest.raises(InvalidInput, match=words):
        unit_scales(*arguments)


def test_bad_numbers_are_refused():
    for call in (
        lambda: quieter(0, 0.1, DELTA),
        lambda: quieter(3, 0.0, DELTA),
        lambda: quieter(3, math.nan, DELTA),
        lambda: quieter(3, 0.1, 1.0),
        lambda: composed_epsilon(2.5, 0.1, DELTA, "laplace"),
        lambda: composed_epsilon(2, -0.1, DELTA, "laplace"),
        lambda: composed_epsilon(2, math.inf, DELTA, "laplace"),
        lambda: composed_epsilon(2, 0.1, 0.0, "gaussian"),
        lambda: composed_epsilon(2, 0.1, DELTA, "uniform"),
    ):
        with pytest.raises(InvalidInput):
            call()
