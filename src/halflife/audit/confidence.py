"""How sure a count makes us: exact binomial bounds, and the least ε that two counts leave possible."""

from __future__ import annotations

import math


def binomial_bounds(hits: int, runs: int, alpha: float) -> tuple[float, float]:
    """Return bounds on a probability, each missed with probability at most alpha (Clopper and Pearson 1934).

    They are quantiles of Beta(k, n − k + 1) and Beta(k + 1, n − k).

    >>> low, high = binomial_bounds(0, 100, 0.05)
    >>> low, round(high, 4)
    (0.0, 0.0295)
    """
    from scipy.special import betaincinv

    low = float(betaincinv(hits, runs - hits + 1, alpha)) if hits > 0 else 0.0
    high = float(betaincinv(hits + 1, runs - hits, 1 - alpha)) if hits < runs else 1.0
    return low, high


def least_epsilon(hits: int, runs: int, other_hits: int, other_runs: int, delta: float, alpha: float) -> float:
    """Return a lower bound on ε that is wrong with probability at most alpha: P(E) ≤ e^ε P′(E) + δ for every event E.

        ε ≥ ln((P(E) − δ) / P′(E)),  with P(E) bounded from below and P′(E) from above, each at alpha/2

    An event that never happened in so many runs still may happen, so the bound is always finite.

    >>> round(least_epsilon(5000, 10_000, 1000, 10_000, 0.0, 1e-6), 2)  # ln 5 = 1.61
    1.42
    """
    low, _ = binomial_bounds(hits, runs, alpha / 2)
    _, high = binomial_bounds(other_hits, other_runs, alpha / 2)
    return max(0.0, math.log((low - delta) / high)) if low > delta else 0.0
