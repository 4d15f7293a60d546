"""PeGaSus with its deviation grouping: what its answers tell, worked out exactly for given deviations.

Chen, Machanavajjhala, Hay, Miklau (CCS 2017) publish x_t + Laplace(Δ/ε_p), smoothed by the median of a group that x_t joins if

    |D_t + Laplace(4S/ε_g)| < |θ + Laplace(2S/ε_g)|,    D_t = Σ |x_i − mean| over the group and t,   S = 2Δ,   θ = 5Δ/ε_g

with absolute values in a published program, which the sparse-vector proof does not cover. It holds all the same: a group's
answers lose at most ε_g if one reading of the group is moved by Δ (R1; proved, ours). Here their probabilities are worked out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from halflife.numerics.arrays import Floats

START, THRESHOLD, QUESTION = 5.0, 4.0, 8.0
"""θ and the scales of both noises, times Δ/ε_g."""
FAR, NODES = 400.0, 40_001
"""How far beyond all else thresholds are looked at, in the same unit, and at how many places: good for 1e-6."""


def log_probability(deviations: Sequence[float], epsilon: float, closes: bool) -> float:
    """Return ln P(these deviations join one by one, and the last one does not if the group closes), for ε_g and Δ = 1.

    An integral over m = |θ + noise|, by the rule of trapezes in logarithms: a probability of e⁻¹⁰⁰ is as exact as one of 1/2.

    >>> round(math.exp(log_probability([0.0], 1.0, False)) + math.exp(log_probability([0.0], 1.0, True)), 6)
    1.0
    """
    scaled = np.asarray(deviations, dtype=np.float64) * epsilon
    m = np.linspace(0.0, max(START, float(scaled.max())) + FAR, NODES)
    logs = np.logaddexp(-np.abs(m - START) / THRESHOLD, -np.abs(m + START) / THRESHOLD) - math.log(2 * THRESHOLD)
    logs[[0, -1]] -= math.log(2)
    levels, counts = np.unique(scaled[:-1] if closes else scaled, return_counts=True)
    for level, count in zip(levels.tolist(), counts.tolist(), strict=True):
        logs = logs + count * _log_joins(m, level, True)
    if closes:
        logs = logs + _log_joins(m, float(scaled[-1]), False)
    top = float(logs.max())
    return top + math.log(float(np.exp(logs - top).sum()) * float(m[1]))


def grouping_loss(first: Sequence[float], second: Sequence[float], epsilon: float, closes: bool) -> float:
    """Return |ln P/P′| of the same answers for the deviations of two neighbours; R1 says at most ε_g.

    >>> round(grouping_loss([0.0] * 20, [2.0] * 20, 1.0, False), 3)
    0.062
    >>> round(grouping_loss([100.0] * 200, [98.0] * 200, 1.0, False), 3)
    0.5
    """
    return abs(log_probability(first, epsilon, closes) - log_probability(second, epsilon, closes))


def largest_loss(epsilon: float) -> float:
    """Return the largest of such losses over some groups: deviations that all move by 2, the last one perhaps the other way.

    It comes as near to ε_g as one likes, so R1 cannot be bettered.

    >>> 0.99 < largest_loss(1.0) <= 1.0
    True
    """
    levels, counts = (0.0, 20.0 / epsilon, 100.0 / epsilon), (1, 20, 200)
    pairs = [pair for a in levels for pair in ((a, a + 2.0), (a + 2.0, a))]
    constant = [([a] * n, [b] * n, closes) for a, b in pairs for n in counts for closes in (False, True)]
    turned = [([a] * n + [b], [b] * n + [a], True) for a, b in pairs for n in counts]
    return max(grouping_loss(one, other, epsilon, closes) for one, other, closes in [*constant, *turned])


def _log_joins(m: Floats, deviation: float, joins: bool) -> Floats:
    """ln P(|d + u| < m), or of its contrary, for noise u of scale 8 and m ≥ 0; in units of 1/ε_g."""
    high, low = _below((m - deviation) / QUESTION), _below((-m - deviation) / QUESTION)
    with np.errstate(divide="ignore"):
        made: Floats = (
            np.log(high - low) if joins else np.logaddexp(np.log(low), np.log(_below((deviation - m) / QUESTION)))
        )
    return made


def _below(x: Floats) -> Floats:
    half = 0.5 * np.exp(-np.abs(x))
    made: Floats = np.where(x < 0, half, 1 - half)
    return made
