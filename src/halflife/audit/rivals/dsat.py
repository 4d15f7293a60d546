"""DSAT as a published program has it: more than its ε in the first window, and questions that nobody pays for in every other.

Li, Xiong, Jiang, Liu (CIKM 2015), for one number a step, as the benchmark of Schäler, Hütter, Schäler (PVLDB 16(8),
2023) coded it; `run_dsat` is held to that program's outputs draw by draw. With c = ⌈0.15 w⌉ samples a window and k = 1 − c/w:

- **The first window loses 1.1 ε by its own accounting.** 0.1 ε pays for a noisy first count. Questions then get ε₁ = 0.9 k ε, but
  samples ε − ε₁ instead of 0.9 (1 − k) ε: 0.1 ε + 0.9 k ε + (1 − 0.9 k) ε = 1.1 ε.
- **Every later window attains k w/(4c) ε.** A step is sampled if |x_t − last| + Laplace(b) ≥ T, b = 4c/(kε). The threshold T has
  noise, drawn once at the start; but it sinks by 1 with every question and stays at 0, so soon it is no secret. Sparse vectors
  pay for answers "at least T" alone *because* T is noisy. With T = 0 each answer "below" has probability e^{−|x_t − last|/b}/2,
  which a person moves by e^{1/b}. In a window without a sample there are w of them: w/b = k w ε/(4c), which is 1.4167 ε
  at w = 20 and at w = 100. Status: ours, R2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from halflife.notions import WEvent
from halflife.numerics.parameters import real, whole
from halflife.release import Release

UnitNoise = Callable[[], float]
"""Draws noise of scale 1."""

SAMPLED, COUNT, SKIPPED = 0.15, 0.1, 2
"""Which part of a window's steps is sampled; which part of ε the first count gets; steps after the first that ask nothing."""
DISTANCE = 2.0
"""How far a person moves a distance, as the program has it; it is 1 for one number a step."""
THRESHOLD, TOLERATED, GAIN = 0.025, 0.05, 0.5


def samples_a_window(w: int) -> int:
    """Return c."""
    return math.ceil(whole("w", w, least=1) * SAMPLED)


def attained_loss(epsilon: float, w: int) -> float:
    """Return what w answers "below" in one window tell of a person: w/b, b = 4c/(kε).

    >>> round(attained_loss(1.0, 20), 4), round(attained_loss(1.0, 100), 4)
    (1.4167, 1.4167)
    """
    c = samples_a_window(w)
    return w * (1 - c / w) * real("epsilon", epsilon, positive=True) / (2 * DISTANCE * c)


def first_window(epsilon: float, w: int) -> tuple[WEvent, list[Release], float]:
    """Return the notion, the releases of the first window by DSAT's own accounting, and what it claims.

    >>> import math
    >>> round(math.fsum(r.loss for r in first_window(1.0, 20)[1]), 12)
    1.1
    """
    c = samples_a_window(w)
    questions = (1 - COUNT) * epsilon * (1 - c / w)
    samples = [Release(k, (epsilon - questions) / c) for k in range(1, c + 1)]
    return WEvent(epsilon, w), [Release(1, COUNT * epsilon), Release(1, questions), *samples], epsilon


def run_dsat(values: Sequence[float], w: int, epsilon: float, unit_noise: UnitNoise) -> list[float]:
    """Return its outputs for one series: the first count's noise is drawn first, then the threshold's."""
    c, counted = samples_a_window(w), COUNT * epsilon
    people = values[0] + unit_noise() / counted
    rule = round((people**2 * DISTANCE**2 * (8 + 32 * c * c) / (c * c)) ** (1 / 3))
    k = min(rule, 1 - c / w)
    threshold = THRESHOLD + unit_noise() * 2 * DISTANCE * c / ((epsilon - counted) * k)
    last, outputs, spent = math.nan, [], [0.0] * len(values)
    for t, value in enumerate(values):
        asking = ((epsilon - counted) if t <= w else epsilon) * k
        each = (epsilon - asking) / c
        sample = t == 0
        if t > SKIPPED and _may_ask(spent, t, w, c, epsilon - asking):
            distance = abs(value - last) + unit_noise() * 2 * DISTANCE * c / asking
            threshold = _move_threshold(threshold, spent, t, w, c)
            sample = distance >= threshold
        if sample:
            last, spent[t] = value + unit_noise() / each, each
        outputs.append(last)
    return outputs


def _may_ask(spent: Sequence[float], t: int, w: int, c: int, samples: float) -> bool:
    """In the first window: fewer than c samples so far. Later: budget is left, where the newest step is not looked at."""
    if t <= w:
        return sum(loss > 0 for loss in spent[:t]) < c
    return samples - sum(spent[t - w : t - 1]) > 1e-5


def _move_threshold(threshold: float, spent: Sequence[float], t: int, w: int, c: int) -> float:
    """Down where fewer steps were sampled than should be, else up; as whole numbers are divided, it is down nearly always."""
    taken = spent[:t] if t <= w else spent[t - w : t - 1]
    off = sum(loss > 0 for loss in taken) // t - c / w
    move = GAIN * abs(abs(off) - TOLERATED) / TOLERATED
    return max(0.0, threshold - move) if off <= 0 else min(2.0, threshold + move)
