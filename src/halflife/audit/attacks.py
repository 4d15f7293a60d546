"""What an observer can do with published values that is no fault: averaging, and filtering.

An audit shows these beside its findings, because a promise says nothing about them: they are what it allows. Differences of
groups or of overlapping streams need no attack of their own: the black box sees the numbers of all streams at once.
"""

from __future__ import annotations

import math

import numpy as np

from halflife.errors import InvalidInput
from halflife.numerics.arrays import Floats
from halflife.plans.base import STD_OF_UNIT_SCALE


def averaging_success(moves: Floats, scales: Floats, noise: str) -> float:
    """Return how often an observer guesses right which of two streams is true, who weighs and averages all steps.

    Guessing is right half the time. With noise of standard deviation s_k and streams m_k apart, the weighted mean tells them
    apart by d = √Σ(m_k/s_k)² standard deviations, and the better guess is right with probability Φ(d/2) (many steps; ours).

    >>> [round(averaging_success(np.ones(4), np.full(4, s), "gaussian"), 4) for s in (1.0, 1e9)]
    [0.8413, 0.5]
    """
    d = math.sqrt(float(np.sum((moves / (scales * STD_OF_UNIT_SCALE[noise])) ** 2)))
    return 0.5 * math.erfc(-d / 2 / math.sqrt(2))


def kalman_filter(values: Floats, noise_std: Floats, drift_std: float) -> tuple[Floats, Floats]:
    """Return the best running estimate of a value that drifts, from noisy ones, and its standard deviation (Kalman 1960).

    x_k = x_{k−1} + drift, y_k = x_k + noise. With the gain K = P/(P + R): x ← x + K(y − x), P ← (1 − K)P + Q.

    >>> estimate, std = kalman_filter(np.array([1.0, 3.0]), np.ones(2), 0.0)
    >>> estimate.tolist(), round(float(std[1]), 4)
    ([1.0, 2.0], 0.7071)
    """
    if len(values) != len(noise_std) or not (noise_std > 0).all():
        raise InvalidInput("a filter needs the noise's standard deviation, above 0, for each value")
    estimates, deviations = np.zeros(len(values)), np.zeros(len(values))
    x, p = float(values[0]), float(noise_std[0]) ** 2
    for k, (y, s) in enumerate(zip(values.tolist(), noise_std.tolist(), strict=True)):
        if k:
            p += drift_std**2
            gain = p / (p + s * s)
            x, p = x + gain * (y - x), (1 - gain) * p
        estimates[k], deviations[k] = x, math.sqrt(p)
    return estimates, deviations


def filtered_share(scales: Floats, noise: str, drift_std: float) -> float:
    """Return how much of the noise is left after a Kalman filter, as a part of it, at the end of a stream with such a drift."""
    std = scales * STD_OF_UNIT_SCALE[noise]
    _, left = kalman_filter(np.zeros(len(std)), std, drift_std)
    return float(left[-1] / std[-1])
