"""The band that holds 95 % of a sum of independent noises, Laplace ones of any scales and a Gaussian one.

For S = Σ b_j X_j + σZ, X_j Laplace of scale 1 and Z standard normal, the characteristic function is real:

    φ(t) = exp(−σ²t²/2) Π_j 1/(1 + b_j²t²)

and by the midpoint rule at t_k = (k + ½)Δ (known: Gil-Pelaez 1951; Davies 1973, whose error bound this is)

    P(|S| ≤ h) = (2/π) Σ_{k ≥ 0} φ(t_k) sin(h t_k)/(k + ½)      to within 2 P(|S| > 2π/Δ − h).

With Var S = 1 every b_j² ≤ ½, so that ln E exp(S) = σ²/2 − Σ ln(1 − b_j²) ≤ ln 2, as −ln(1 − u) ≤ 2 ln 2 · u up to u = ½, and
P(|S| > x) ≤ 4 e^{−x} (Chernoff). What is left out behind the last point, T, is at most (1/π) φ(T) (1 + 1/(b²T²)) with b the
largest scale, as φ(t) ≤ φ(T) (1 + b²T²)/(b²t²) for t > T. Both errors are subtracted from the probability, so the band is never
too narrow; and it is wider by about a part in 10⁶ at the most (ours).
"""

from __future__ import annotations

import math

import numpy as np

from halflife.errors import InvalidInput
from halflife.numerics.arrays import Floats, Integers
from halflife.numerics.search import largest

LAPLACE_BAND = 2.995732273553991
"""ln 20: 95 % of the Laplace noise of scale 1 lies within ± this."""
GAUSSIAN_BAND = 1.959963984540054
"""95 % of the Gaussian noise of standard deviation 1 lies within ± this."""

REACH = 40.0
"""2π/Δ in standard deviations: P(|S| > 37) ≤ 4 e⁻³⁷ < 10⁻¹⁵."""
ENOUGH = 1e-7
"""Below this much probability nothing more is added up."""
FEWEST, MOST = 64, 1 << 18
"""Points that are added up: at the most, T is 4·10⁴ over the standard deviation, where a single Laplace noise leaves 10⁻⁹."""


def band_of_noises(scales: Floats, deviation: float = 0.0) -> float:
    """Return h such that the sum of independent noises lies within ± h with probability 95 %.

    scales     of the Laplace noises;  deviation  σ, the standard deviation of the Gaussian one

    >>> round(band_of_noises(np.array([1.0])), 6), round(band_of_noises(np.array([]), 2.0), 6)
    (2.995732, 3.919928)
    >>> round(band_of_noises(np.array([1.0, 1.0])), 4)                # (1 + h/2) exp(−h) = 1/20
    4.113
    """
    b = np.abs(np.asarray(scales, dtype=np.float64))
    if not (np.isfinite(b).all() and 0 <= deviation < math.inf):
        raise InvalidInput("noises have finite scales")
    most = max(float(b.max(initial=0.0)), deviation)
    if most == 0:
        return 0.0
    b = (
        b[b > most * 1e-9 / (1 + len(b))] / most
    )  # of all others together the sum moves by less than 10⁻⁹ of the largest
    if len(b) == 0:
        return GAUSSIAN_BAND * deviation
    if len(b) == 1 and deviation == 0:
        return LAPLACE_BAND * most
    std = math.sqrt(2 * float(b @ b) + (deviation / most) ** 2)
    return most * std * _unit_band(b / std, deviation / most / std) * (1 + 1e-7)


def _unit_band(b: Floats, deviation: float) -> float:
    """The band of noises whose variances add up to 1."""
    kinds, counts = np.unique(b, return_counts=True)
    delta, points = 2 * math.pi / REACH, FEWEST
    while True:
        places = np.arange(points, dtype=np.float64) + 0.5
        times = places * delta
        phi = _characteristic(times, kinds, counts, deviation)
        left = float(phi[-1]) * (1 + 1 / (float(kinds[-1]) * float(times[-1])) ** 2) / math.pi
        if left < ENOUGH or points >= MOST:
            break
        points *= 2
    weights = 2 / math.pi * phi / places
    lost = left + 8 * math.exp(4.0 - REACH)

    def too_narrow(h: float) -> bool:
        return float((weights * np.sin(h * times)).sum()) - lost < 0.95

    return largest(too_narrow, 1.0, 4.0, 1e-8) * (1 + 2e-8)


def _characteristic(t: Floats, kinds: Floats, counts: Integers, deviation: float) -> Floats:
    """φ(t), kind by kind of scale, so that memory does not grow with the number of noises."""
    logarithm: Floats = -0.5 * (deviation * t) ** 2
    for scale, count in zip(kinds.tolist(), counts.tolist(), strict=True):
        logarithm -= count * np.log1p((scale * t) ** 2)
    phi: Floats = np.exp(logarithm)
    return phi
