"""Two published values of a step, the first and one from corrected data, combined into one of less noise.

    y₁ = f₁ + noise of variance R₁,   y₂ = f₂ + noise of variance R₂,   correction f₂ − f₁ of variance τ²

    f₂ is estimated by w y₁ + (1 − w) y₂ with w = R₂/(R₁ + τ² + R₂), of variance R₂(R₁ + τ²)/(R₁ + τ² + R₂)

The first value is a second measurement of the corrected one, as far as corrections are small beside the noise. How large they are
is seen in y₂ − y₁ alone, whose variance is R₁ + R₂ + τ²: by moments over all steps and numbers that were published twice (known:
DerSimonian and Laird 1986, for trials that differ), plus two standard errors, as a correction that is taken for too small would
pull the estimate to what was wrong. Of few values little is known: then the later one counts alone.
"""

from __future__ import annotations

import math

import numpy as np

from halflife.numerics.arrays import Floats

FEWEST = 8
"""Of fewer differences the size of corrections is not estimated."""


def find_correction(differences: Floats, variances: Floats) -> float:
    """Return the variance of corrections, plus two standard errors, from differences whose noise has these variances.

    >>> rng = np.random.default_rng(1)
    >>> noisy = rng.normal(0.0, 1.0, 4000)
    >>> find_correction(noisy, np.ones(4000)) < 0.1, round(find_correction(2 * noisy, np.ones(4000)))
    (True, 3)
    >>> find_correction(np.array([0.1, 0.2]), np.ones(2))
    inf
    """
    beyond = differences**2 - variances
    if beyond.size < FEWEST:
        return math.inf
    return max(0.0, float(beyond.mean() + 2 * beyond.std(ddof=1) / math.sqrt(beyond.size)))


def combine_vintages(first: Floats, before: Floats, second: Floats, after: Floats) -> tuple[Floats, Floats]:
    """Return the estimates of corrected values (steps × numbers) and their variances, one for each step.

    first, before   the values that were published first, and the variance of the noise of each step
    second, after   the same of those that were published again

    >>> values, variances = combine_vintages(np.zeros((9, 1)), np.ones(9), np.full((9, 1), 0.5), np.ones(9))
    >>> bool((values == 0.25).all()), variances.tolist()[:2]
    (True, [0.5, 0.5])
    """
    noise = np.repeat((before + after)[:, None], first.shape[1], axis=1)
    spread = find_correction((second - first).ravel(), noise.ravel())
    if math.isinf(spread):
        return second, after
    total = before + spread + after
    share = np.divide(after, total, out=np.zeros_like(total), where=total > 0)
    return second + share[:, None] * (first - second), share * (before + spread)
