"""Gaussian differential privacy in closed form (Dong, Roth, Su 2022): μ is how far apart two unit normals are."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray

from halflife.numerics.rounding import up
from halflife.numerics.search import largest


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Return δ(ε) = Φ(−ε/μ + μ/2) − e^ε Φ(−ε/μ − μ/2) of Gaussian DP (Balle and Wang 2018; Dong, Roth, Su 2022).

    The second term is taken in logarithms, so that a large ε does not overflow.

    >>> round(gaussian_delta(1.0, 1.0), 6)
    0.126937
    """
    if mu == 0:
        return 0.0
    ndtr, log_ndtr = _normal_tails()
    first = float(ndtr(-epsilon / mu + mu / 2))
    second = math.exp(min(0.0, epsilon + float(log_ndtr(-epsilon / mu - mu / 2))))
    return max(0.0, first - second)


@cache
def _normal_tails() -> tuple[Callable[[float], float], Callable[[float], float]]:
    """Φ and ln Φ, imported when they are first needed: a search asks for them very often."""
    from scipy.special import log_ndtr, ndtr

    return ndtr, log_ndtr


@lru_cache(maxsize=4096)
def gaussian_epsilon(mu: float, delta: float) -> float:
    """Return the smallest ε ≥ 0 with δ_μ(ε) ≤ δ, rounded up by a part in 10⁹ for the closed form's own rounding.

    >>> round(gaussian_epsilon(1.0, 1e-6), 4)
    4.8866
    """
    if mu == 0 or gaussian_delta(mu, 0.0) <= delta:
        return 0.0
    high = mu * mu / 2 + mu * math.sqrt(2 * math.log(1 / delta)) + 1e-300
    broken = largest(lambda e: gaussian_delta(mu, e) > delta, 0.0, high, 1e-12)
    return up(broken * (1 + 1e-9))


def gaussian_epsilons(squares: NDArray[np.float64], delta: float) -> NDArray[np.float64]:
    """Return ε(δ) of many μ², each rounded up to the next of a geometric table, by at most a part in 500.

    >>> gaussian_epsilons(np.array([0.0, 1.0, 0.25]), 1e-6).round(4)
    array([0.    , 4.8866, 2.2541])
    """
    positive = squares[squares > 0]
    if len(positive) == 0:
        return np.zeros(len(squares))
    low, high = float(positive.min()), float(positive.max())
    count = 2 + int(math.log(high / low) / 0.004)
    table = np.unique(np.append(np.geomspace(low, high, min(count, 10_000)), [low, high]))
    table[-1] = max(table[-1], high)
    values = np.array([gaussian_epsilon(up(math.sqrt(x)), delta) for x in table.tolist()])
    found: NDArray[np.float64] = values[np.minimum(np.searchsorted(table, squares), len(table) - 1)]
    return np.where(squares > 0, found, 0.0)


def pure_as_gaussian(loss: float) -> float:
    """Return the μ whose Gaussian DP every ρ-DP release has: −2Φ⁻¹(1/(1+e^ρ)), rounded up by a part in 10⁹.

    >>> round(pure_as_gaussian(1e-3) / 1e-3, 4)
    1.2533
    """
    from scipy.special import ndtri_exp

    if loss < 1e-6:
        return 1.2533142 * loss  # μ is concave in ρ, and √(2π)/2 is its slope at 0
    return -2 * float(ndtri_exp(-np.logaddexp(0.0, loss))) * (1 + 1e-9)


@lru_cache(maxsize=16_384)
def gaussian_mu(epsilon: float, delta: float) -> float:
    """Return the largest μ whose ε(δ) is at most ε, rounded down.

    >>> round(gaussian_mu(1.0, 1e-6), 5)
    0.2367
    """
    below, above = (epsilon / (1 + 1e-9) * (1 + hair) for hair in (-1e-11, 1e-11))

    def holds(mu: float) -> bool:
        """Whether `gaussian_epsilon` is at most ε: a search of its own, which is needed only where δ(ε) does not tell already."""
        if gaussian_delta(mu, above) > delta + 1e-15:
            return False
        return gaussian_delta(mu, below) <= delta - 1e-15 or gaussian_epsilon(mu, delta) <= epsilon

    return largest(holds, 0.0, 2 * (epsilon + 10) + 10, 1e-12)
