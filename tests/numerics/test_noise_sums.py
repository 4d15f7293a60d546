"""The 95 % band of sums of noises, against closed forms, quadrature and simulation: never too narrow, and not wide either."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import integrate, stats

from halflife.errors import InvalidInput
from halflife.numerics.noise_sums import GAUSSIAN_BAND, LAPLACE_BAND, band_of_noises


def beyond(h, scales):
    """P(|Σ b_j X_j| > h) = Σ_j e^{−h/b_j} Π_{k≠j} b_j²/(b_j² − b_k²), by partial fractions: for scales that all differ."""
    squares = [Fraction(b) ** 2 for b in scales]
    parts = (
        float(math.prod((s / (s - r) for r in squares if r != s), start=Fraction(1))) * math.exp(-h / b)
        for s, b in zip(squares, scales, strict=True)
    )
    return math.fsum(parts)


def test_single_noises_have_their_own_bands():
    assert band_of_noises(np.array([2.0])) == 2 * LAPLACE_BAND
    assert band_of_noises(np.array([]), 2.0) == 2 * GAUSSIAN_BAND
    assert band_of_noises(np.array([])) == band_of_noises(np.array([0.0, 0.0])) == 0.0
    assert pytest.approx(stats.laplace.ppf(0.975)) == LAPLACE_BAND
    assert pytest.approx(stats.norm.ppf(0.975)) == GAUSSIAN_BAND


@pytest.mark.parametrize("seed", range(60))
def test_different_scales_against_partial_fractions(seed):
    r = np.random.default_rng(seed)
    scales = np.sort(10.0 ** r.uniform(-3, 3, int(r.integers(2, 7))))[::-1] * np.where(r.random() < 0.5, 1.0, 1e9)
    if (scales[:-1] / scales[1:]).min() < 1.02:  # where the closed form loses its digits
        scales = np.cumprod(np.full(len(scales), 1.3))
    h = band_of_noises(scales)
    assert beyond(h, scales) <= 0.05 < beyond(h * (1 - 1e-5), scales)


@pytest.mark.parametrize("count", [2, 3, 10, 100, 5000])
def test_equal_scales_against_the_gamma_distribution(count):
    """A sum of n Laplace noises is √(2G) Z with G of the gamma distribution with shape n: P(|S| > h) = E erfc(h/(2√G))."""
    h = band_of_noises(np.ones(count))

    def outside(x):
        low, high = stats.gamma.ppf([1e-13, 1 - 1e-13], count)
        return integrate.quad(
            lambda g: math.erfc(x / (2 * math.sqrt(g))) * stats.gamma.pdf(g, count), low, high, epsabs=1e-11, limit=200
        )[0]

    assert outside(h) <= 0.05 + 1e-9
    assert outside(h * (1 - 1e-5)) > 0.05
    assert (count < 100) == (h > 1.9622 * math.sqrt(2 * count))


@pytest.mark.parametrize("deviation", [0.01, 0.3, 1.0, 3.0, 100.0])
def test_a_laplace_and_a_gaussian_noise_against_quadrature(deviation):
    h = band_of_noises(np.array([1.0]), deviation)

    def outside(x):
        def density(y):
            return stats.norm.pdf(y, scale=deviation) * (stats.laplace.sf(x - y) + stats.laplace.cdf(-x - y))

        return integrate.quad(density, -12 * deviation, 12 * deviation, points=[-x, x], limit=500, epsabs=1e-10)[0]

    assert outside(h) == pytest.approx(0.05, abs=3e-7)
    assert outside(h) <= 0.05 + 1e-9


def test_a_scale_that_is_ten_per_cent_off_is_noticed():
    """In 400,000 simulated sums, 95 % lie within the band to 0.2 %, six deviations; a band 10 % off holds 93 % or 97 %."""
    r = np.random.default_rng(5)
    scales = np.array([3.0, 2.0, 2.0, 0.5])
    sums = np.abs(r.laplace(size=(400_000, 4)) @ scales)
    h = band_of_noises(scales)
    assert abs((sums <= h).mean() - 0.95) < 0.002
    assert abs((sums <= 0.9 * h).mean() - 0.95) > 0.01 < abs((sums <= 1.1 * h).mean() - 0.95)


def test_of_all_sums_of_one_variance_a_single_laplace_noise_has_the_widest_band():
    """What adding up bands of correlated rows rests on; tried for sums of two of every ratio, and for many random ones."""
    r = np.random.default_rng(3)
    tried = [np.array([1.0, q]) for q in np.linspace(0.01, 1, 100)]
    tried += [r.random(int(r.integers(2, 30))) ** int(r.integers(1, 6)) for _ in range(200)]
    widest = max(band_of_noises(b) / math.sqrt(float(b @ b)) for b in tried)
    assert widest <= LAPLACE_BAND * (1 + 2e-6)
    assert min(band_of_noises(b) / math.sqrt(2 * float(b @ b)) for b in tried) >= GAUSSIAN_BAND


def test_the_order_sign_and_unit_of_scales_do_not_matter():
    scales = np.array([1.0, 0.5, 0.5, 0.1])
    h = band_of_noises(scales)
    assert band_of_noises(-scales[::-1]) == pytest.approx(h, rel=1e-12)
    assert band_of_noises(1e-200 * scales) == pytest.approx(1e-200 * h, rel=1e-9)
    assert band_of_noises(np.append(scales, 1e-14)) == pytest.approx(h, rel=1e-6)
    for wrong in (np.array([math.nan]), np.array([math.inf])):
        with pytest.raises(InvalidInput, match="finite"):
            band_of_noises(wrong)
