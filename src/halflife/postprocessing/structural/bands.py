"""The half-width of a 95 % band, in standard deviations, for an error that is part Laplace noise and part normal.

The error of an estimate mixes a value's own noise, weighted, with errors of the model and of many other noises, which
together are nearly normal (ours). A share w of its variance is the value's own noise: w = 1 is raw Laplace noise, ln 20/√2 =
2.118 standard deviations; w = 0 is normal, 1.960. For Laplace noise of scale b plus a normal error of standard deviation s,
with Φ the normal distribution,

    P(X + Z > x) = 1 − Φ(x/s) + e^{s²/2b²}·[e^{−x/b}·Φ(x/s − s/b) − e^{x/b}·Φ(−x/s − s/b)] / 2.
"""

from __future__ import annotations

import math
from functools import cache, partial

import numpy as np

from halflife.numerics.arrays import Floats
from halflife.numerics.search import largest

POINTS = 41
NORMAL_BAND = 1.959963984540054


def _is_too_narrow(x: float, b: float, s: float) -> bool:
    """Whether P(|X + Z| > x) is above 5 %."""
    from scipy.special import log_ndtr, ndtr

    terms = (log_ndtr(x / s - s / b) - x / b, log_ndtr(-x / s - s / b) + x / b)
    sides = [math.exp(s * s / (2 * b * b) + float(term)) for term in terms]
    return 2 * (1 - float(ndtr(x / s))) + sides[0] - sides[1] > 0.05


@cache
def _table() -> Floats:
    """The half-width for evenly spaced shares from 0 to 1."""
    found = [NORMAL_BAND]
    for share in np.linspace(0, 1, POINTS)[1:-1]:
        b, s = math.sqrt(share / 2), math.sqrt(1 - share)
        found.append(largest(partial(_is_too_narrow, b=b, s=s), 1.0, 4.0, 1e-9))
    return np.array([*found, math.log(20) / math.sqrt(2)])


def find_half_width(shares: Floats) -> Floats:
    """Return the half-width for errors of standard deviation 1 of which such shares of the variance are one Laplace noise.

    >>> find_half_width(np.array([0.0, 0.5, 1.0])).round(3).tolist()
    [1.96, 1.989, 2.118]
    """
    result: Floats = np.interp(shares, np.linspace(0, 1, POINTS), _table())
    return result
