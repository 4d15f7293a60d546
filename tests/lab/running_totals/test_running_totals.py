"""Running totals by factorisation: published sizes, the worst window by brute force, norms in two ways, and simulated noise."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from halflife import InvalidInput, WEvent
from halflife.lab.running_totals import toeplitz_unbounded
from halflife.lab.running_totals.base import inverse_root, round_down, window_sums
from halflife.lab.running_totals.toeplitz import Toeplitz
from halflife.lab.running_totals.toeplitz_unbounded import UnboundedToeplitz
from halflife.notions.gaussian_dp import gaussian_delta

DELTA = 1e-6


@pytest.mark.parametrize(
    ("steps", "w", "told"), [(17_520, 1, 4.18), (2**20, 1, 5.48), (17_520, 48, 164), (17_520, 336, 1013)]
)
def test_known_sizes(steps, w, told):
    """Per noise multiplier: the largest standard deviation of a total, beside independent noise at every step."""
    largest = Toeplitz(WEvent(1.0, w, DELTA), horizon=steps).multipliers(steps).max()
    assert largest == pytest.approx(told, rel=2e-3)
    independent = {(17_520, 1): 132.4, (2**20, 1): 1024, (17_520, 48): 917}
    if (steps, w) in independent:
        assert math.sqrt(w * steps) == pytest.approx(independent[steps, w], rel=1e-3)


@pytest.mark.parametrize("w", [1, 2, 4])
@pytest.mark.parametrize("kind", ["bounded", "unbounded"])
def test_no_window_moves_the_measurements_by_more_than_the_norm(kind, w):
    """All positions and all signs of a window in 9 steps, by the matrix itself; with a horizon the first one attains it."""
    notion, steps = WEvent(1.0, w, DELTA), 9
    totals = Toeplitz(notion, horizon=steps) if kind == "bounded" else UnboundedToeplitz(notion)
    c, worst = totals.factor(steps), 0.0
    matrix = np.array([[c[i - j] if i >= j else 0.0 for j in range(steps)] for i in range(steps)])
    for begin in range(steps - w + 1):
        for signs in itertools.product((-1.0, 0.3, 1.0), repeat=w):
            moved = np.zeros(steps)
            moved[begin : begin + w] = signs
            worst = max(worst, float(np.linalg.norm(matrix @ moved)))
    assert worst <= totals.window_norm()
    if kind == "bounded":
        assert worst == pytest.approx(totals.window_norm(), rel=1e-9)


@pytest.mark.parametrize("w", [1, 7, 48])
def test_the_norm_for_ever_is_the_limit_of_sums(w):
    """Sums over 2¹³ and 2¹⁸ rows, closed by what c_n falls as: its shift is the one for which the two agree."""
    c = toeplitz_unbounded._perturb(2**18)
    assert c.min() > 0
    sums = np.cumsum(window_sums(c, w) ** 2)
    beta, told = toeplitz_unbounded.WEIGHT, toeplitz_unbounded._norm_squared(w)

    def close(n, shift):
        y = np.log(n) + shift + np.geomspace(1e-6, 1e7, 20_000)
        return sums[n - 1] + w**2 / math.pi * np.trapezoid((1 + beta * y**2) ** -2.0, y)

    shifts = np.linspace(-3, 3, 121)
    gaps = [abs(close(2**13, k) - close(2**18, k)) for k in shifts]
    assert close(2**18, shifts[int(np.argmin(gaps))]) == pytest.approx(told, rel=0.01)
    assert sums[-1] < told


def test_having_no_horizon_costs_less_than_half_as_much_again():
    """Variance against a horizon of 2¹⁷: at every step below it, and for itself at the end."""
    notion, steps = WEvent(1.0, 1, DELTA), 2**17
    with_one, without = Toeplitz(notion, horizon=steps).stds(steps), UnboundedToeplitz(notion).stds(steps)
    ratio = (without / with_one) ** 2
    assert ratio.max() < 1.5
    assert ratio[-1] == pytest.approx(1.48, abs=0.01)


@pytest.mark.parametrize("w", [1, 5])
def test_simulated_totals_have_the_noise_that_is_told(w):
    notion, lanes, steps = WEvent(1.0, w, DELTA), 3000, 64
    for totals in (Toeplitz(notion, 2.0, horizon=steps), UnboundedToeplitz(notion, 2.0)):
        off = totals.simulate(np.full(steps, 3.0), seed=5, lanes=lanes) - 3.0 * np.arange(1, steps + 1)[:, None]
        assert (off.std(axis=1) / totals.stds(steps)).mean() == pytest.approx(1, abs=0.02)
        mu = totals.sensitivity * totals.window_norm() / totals.scale
        assert gaussian_delta(mu, 1.0) == pytest.approx(DELTA, rel=1e-5)
        assert gaussian_delta(mu, 1.0) <= DELTA * (1 + 1e-6)


def test_what_is_measured_explains_the_totals():
    """L C = A with the rounded C, by plain matrices; its entries are whole multiples of 2⁻⁴⁰ that are never above the root's."""
    totals, n = Toeplitz(WEvent(1.0, 1, DELTA), horizon=50), 50
    c, second = totals.factor(n), totals._second(n)
    lower = [[[s[i - j] if i >= j else 0.0 for j in range(n)] for i in range(n)] for s in (second, c)]
    assert np.array(lower[0]) @ np.array(lower[1]) == pytest.approx(np.tril(np.ones((n, n))), abs=1e-12)
    assert (np.ldexp(c, 40) % 1 == 0).all()
    assert (c <= inverse_root(n)).all()
    assert round_down(np.array([-1e-18, 0.5])).tolist() == [0.0, 0.5]


def test_what_it_is_not_for():
    with pytest.raises(InvalidInput, match="with a delta"):
        Toeplitz(WEvent(1.0, 1), horizon=5)
    with pytest.raises(InvalidInput, match="after the horizon, 5"):
        Toeplitz(WEvent(1.0, 1, DELTA), horizon=5).stds(6)
    with pytest.raises(InvalidInput, match="row of finite numbers"):
        UnboundedToeplitz(WEvent(1.0, 1, DELTA)).simulate(np.array([1.0, math.nan]), seed=1)
