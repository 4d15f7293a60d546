"""Sufficient noise scales for every step, by the sufficient condition of each interpretation.

With g_s the noise that one event of power 1 needs (`notions.calibration.unit_scales`: T_s/ε_s if δ = 0, exact accounting else):

    one-event    λ_t = max over relevant s of p_s g_s
    one-window   λ_t = Δ_t · max over relevant s of g_s
    all-events   λ_t = max over relevant s of c_s, where c_s covers all that the household's events can move within J_s

and the maximum over households (Theorem 9). The first two are S1's (corrected; Theorem 8 has Δ_t · max T / min ε for the second).
The third is ours. Let N_s = Σ over s′ of p_s′ · m, with m = min(T_s′, |J_s ∩ J_s′|): power times steps that all events can move
within J_s; and D_s the largest Δ_t in J_s. Pure: c_s = N_s/ε_s, as the loss is at most N_s / min λ over J_s. Gaussian: the
smaller of Σ p_s′ √m / μ_s and √(D_s N_s) / μ_s, by the two bounds of `losses`. Laplace with δ > 0: the events touch at most n_s
= min(|J_s|, Σ m) steps, and none of them by more than D_s, so D_s · g(n_s, ε_s, δ) suffices, and so does the pure c_s: the
smaller of the two.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from halflife.notions.calibration import unit_scales
from halflife.numerics.arrays import Floats
from halflife.release import Noise
from halflife.specifications.base import Specifications
from halflife.specifications.neighbours import Interpretation
from halflife.specifications.sweep import StepFunction, Timeline, overlapping_pairs

ROUNDING = 1e-12
FEW_KINDS = 24
FAMILIES: tuple[Noise, Noise] = ("laplace", "gaussian")


def sufficient_scales(line: Timeline, interpretation: Interpretation, required: Floats) -> StepFunction:
    """Return λ_t (σ_t) of the interpretation's sufficient condition, rounded up; 0 where no secret is relevant.

    required  g_s of each secret; under all-events c_s

    >>> from halflife.specifications import Secret, Specification
    >>> s = Specifications([Specification([Secret(1.0, 65, 1, 65, 1.0), Secret(1.0, 1, 1, 65, 0.1)], "a")])
    >>> round(sufficient_scales(Timeline(s), "one-window", s.duration / s.epsilon).at(1), 9)      # 2 · 65, not 2 · 650
    130.0
    """
    if interpretation == "one-window":
        values = line.sensitivity * line.most(required)
    else:
        values = line.most(required * line.specifications.power if interpretation == "one-event" else required)
    return line.over_households(values * (1 + ROUNDING))


def required_scales(s: Specifications, interpretation: Interpretation, delta: float, noise: Noise) -> Floats:
    """Return the noise scale that each secret requires: g_s per unit of power, under all-events c_s in total."""
    if interpretation == "all-events":
        return cover_all_events(s, delta, noise)
    return unit_scales(s.duration, s.epsilon, delta, noise)


def quieter_noise(line: Timeline, interpretation: Interpretation, delta: float) -> Noise:
    """Return the family whose standard deviation is smaller in all: Laplace for short events, Gaussian for long ones (T6; known).

    All scales of both are worked out if the secrets have few kinds (T, ε). Else so many are looked at, spread over the secrets by
    the power and the time that they hide.

    >>> from halflife.specifications import Secret, Specification
    >>> long = Timeline(Specifications(Specification([Secret(1.0, 65, 1, 96, 0.1)])))
    >>> quieter_noise(long, "one-window", 1 / 117_716_237), quieter_noise(long, "one-window", 0.0)
    ('gaussian', 'laplace')
    """
    s = line.specifications
    if delta == 0:
        return "laplace"
    if len(np.unique(np.stack([s.duration.astype(np.float64), s.epsilon]), axis=1).T) <= FEW_KINDS:
        totals = {noise: _total(line, interpretation, delta, noise) for noise in FAMILIES}
    else:
        weight = s.power * (s.end - s.start + 1)
        spread = np.searchsorted(np.cumsum(weight), (np.arange(FEW_KINDS) + 0.5) / FEW_KINDS * weight.sum())
        some = s.only(np.unique(np.minimum(spread, len(s) - 1)))
        totals = {noise: float(unit_scales(some.duration, some.epsilon, delta, noise).sum()) for noise in FAMILIES}
    return "laplace" if totals["laplace"] * math.sqrt(2) <= totals["gaussian"] else "gaussian"


def _total(line: Timeline, interpretation: Interpretation, delta: float, noise: Noise) -> float:
    """Σ of the scales over all steps."""
    scales = sufficient_scales(line, interpretation, required_scales(line.specifications, interpretation, delta, noise))
    return float((scales.values[:-1] * np.diff(scales.starts)).sum())


def cover_all_events(s: Specifications, delta: float, noise: Noise) -> Floats:
    """Return c_s for each secret: the scale within J_s that covers all of its household's events at once (ours)."""
    moved, most = _sum_together(s, lambda steps: steps), _largest_within(s)
    if noise == "gaussian":
        one = unit_scales(np.ones(len(s), dtype=np.int64), s.epsilon, delta, noise)
        return np.minimum(_sum_together(s, np.sqrt), np.sqrt(most * moved) * (1 + ROUNDING)) * one
    pure: Floats = moved / s.epsilon
    if delta == 0:
        return pure
    steps = np.minimum(s.end - s.start + 1, _sum_together(s._with({"power": np.ones(len(s))}), lambda n: n))
    return np.minimum(pure, most * unit_scales(np.rint(steps).astype(np.int64), s.epsilon, delta, noise))


def _largest_within(s: Specifications) -> Floats:
    """D_s: the largest Δ_t of the household at any step of J_s."""
    line = Timeline(s)
    ends = np.stack([line.first, line.last + 1], axis=1).ravel()
    result: Floats = np.maximum.reduceat(np.append(line.sensitivity, 0.0), ends)[::2]
    return result


def _sum_together(s: Specifications, how: Callable[[Floats], Floats]) -> Floats:
    """Σ over the household's s′ of p_s′ · how(min(T_s′, |J_s ∩ J_s′|)), rounded up."""
    total = np.zeros(len(s))
    for row, other in overlapping_pairs(s):
        shared = np.minimum(s.end[row], s.end[other]) - np.maximum(s.start[row], s.start[other]) + 1
        steps = np.minimum(shared, s.duration[other]).astype(np.float64)
        total += np.bincount(row, s.power[other] * how(steps), len(s))
    return total * (1 + ROUNDING)
