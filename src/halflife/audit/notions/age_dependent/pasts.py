"""The neighbours of age-dependent privacy: one person's state is x or x′ now, and the past is drawn from the reversed process."""

from __future__ import annotations

import itertools

import numpy as np

from halflife.numerics.arrays import Floats
from halflife.processes import AutoRegressive, MarkovChain, PeriodicMarkovChain, Process, ProcessFamily

PASTS = 2_000
"""How many pasts are averaged for what is expected of them."""


def person_to_attack(process: Process, gap: int) -> Process | None:
    """Return a process that pasts can be drawn from: of several people the slowest; None if there is none."""
    if isinstance(process, ProcessFamily):
        able = [one for one in process.processes if person_to_attack(one, gap) is not None]
        return max(able, key=lambda one: one.total_variation(max(1, gap)), default=None)
    if isinstance(process, MarkovChain | PeriodicMarkovChain) and process.states < 2:
        return None
    return process if isinstance(process, MarkovChain | PeriodicMarkovChain | AutoRegressive) else None


def worst_states(process: Process, gap: int, now: int) -> tuple[float, float]:
    """Return the two states of now whose laws `gap` steps back are furthest apart; of AR(1) the ends of the span.

    >>> worst_states(MarkovChain([[0.6, 0.3, 0.1], [0.3, 0.4, 0.3], [0.1, 0.3, 0.6]]), 1, now=9)
    (0.0, 2.0)
    """
    if isinstance(process, AutoRegressive):
        return 0.0, process.span
    assert isinstance(process, MarkovChain | PeriodicMarkovChain)
    slot = now % process.slots if isinstance(process, PeriodicMarkovChain) else 0
    possible = range(process.states)
    if isinstance(process, PeriodicMarkovChain):
        possible = np.flatnonzero(process.laws[slot] > 0).tolist()  # type: ignore[assignment]
        kernel = process.kernel(max(gap, 1), slot=slot)
    else:
        kernel = process.kernel(max(gap, 1))
    pairs = itertools.combinations(possible, 2)
    x, y = max(pairs, key=lambda pair: (float(np.abs(kernel[pair[0]] - kernel[pair[1]]).sum()), pair[1] - pair[0]))
    return float(x), float(y)


def draw_pasts(process: Process, state: float, now: int, first: int, runs: int, rng: np.random.Generator) -> Floats:
    """Return `runs` pasts of a person who is in this state now: states at steps first … now, drawn step by step backwards."""
    whole = not isinstance(process, AutoRegressive)
    states = np.full(runs, state).astype(np.int64) if whole else np.full(runs, state)
    rows = [states]
    for time in range(now, first, -1):
        if isinstance(process, PeriodicMarkovChain):
            states = process.age(states, 1, rng, slot=time % process.slots)
        else:
            states = process.age(states, 1, rng)
        rows.append(states)
    return np.array(rows[::-1], dtype=np.float64).T


def part_of_range(process: Process, states: Floats, low: float, high: float) -> Floats:
    """Return how far each state lies from the least to the largest that counts: states in order, AR(1) by its value, clipped.

    >>> part_of_range(MarkovChain([[0.9, 0.1], [0.1, 0.9]]), np.array([0.0, 1.0]), 0.0, 5.0).tolist()
    [0.0, 1.0]
    """
    if isinstance(process, AutoRegressive):
        result: Floats = np.clip((states - low) / (high - low), 0.0, 1.0)
        return result
    assert isinstance(process, MarkovChain | PeriodicMarkovChain)
    return states / (process.states - 1)
