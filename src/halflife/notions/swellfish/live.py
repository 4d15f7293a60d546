"""Costs so far of the secrets relevant at a step: the arithmetic of Swellfish accounts, one step at a time.

Only secrets near the step matter, so they are picked once for a block of steps; a household's Δ_t is constant on the pieces
between the steps at which its secrets change, so a window's Σ Δ_t x_t is a difference of running sums over pieces.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from halflife.notions.swellfish.bounds import Bounds
from halflife.notions.swellfish.losses import Running, worst_costs
from halflife.numerics.arrays import Floats, Integers
from halflife.release import Noise
from halflife.specifications.base import Specifications
from halflife.specifications.neighbours import Interpretation
from halflife.specifications.sweep import Timeline

BLOCK = 512


class Nearby:
    """The secrets that windows ending in one block of steps can touch; `beyond` says how far after it they may begin."""

    def __init__(self, specifications: Specifications, first: int, last: int, reach: int, beyond: int = 0) -> None:
        near = (specifications.start <= last + beyond) & (specifications.end > first - reach)
        self.rows: Integers = np.flatnonzero(near)
        self.specifications = specifications.only(self.rows)
        self.line = Timeline(self.specifications) if len(self.rows) else None

    def relevant(self, step: int) -> Integers:
        """Which of them are relevant at a step."""
        s = self.specifications
        return np.flatnonzero((s.start <= step) & (step <= s.end))


class Live:
    """Costs of the secrets relevant at a step, by what was published up to it."""

    def __init__(self, specifications: Specifications, interpretation: Interpretation, noise: Noise) -> None:
        self.specifications, self.interpretation, self.noise = specifications, interpretation, noise
        lengths = (
            specifications.end - specifications.start + 1 if interpretation == "all-events" else specifications.duration
        )
        self.reach = int(lengths.max())
        self.nearby = lru_cache(maxsize=4)(self._nearby)
        self._bounds = Bounds(specifications, noise)

    def _nearby(self, block: int) -> Nearby:
        beyond = (
            self.reach if self.interpretation == "all-events" else 0
        )  # old data: what follows it may have been published
        return Nearby(self.specifications, block * BLOCK, (block + 1) * BLOCK - 1, self.reach, beyond)

    def lowest(self, step: int) -> int:
        """Return the first step of any window that reaches `step`, of the secrets relevant then; the step itself if none is."""
        near = self.nearby(step // BLOCK)
        at, s = near.relevant(step), near.specifications
        if not len(at):
            return step
        begins = (
            s.start[at] if self.interpretation == "all-events" else np.maximum(s.start[at], step - s.duration[at] + 1)
        )
        return int(begins.min())

    def bounds(self, step: int, x: Floats, first: int) -> tuple[Integers, Floats]:
        """Return the rows of the secrets relevant at `step`, and under all-events an upper bound of the cost of each, which is
        quick where `step` is the newest with noise, and infinite where it is not."""
        near = self.nearby(step // BLOCK)
        rows = near.rows[near.relevant(step)]
        if not len(rows) or step != first + len(x) - 1:
            return rows, np.full(len(rows), np.inf)
        return rows, self._bounds.at(step, x, first, rows, near.rows)

    def costs(self, step: int, x: Floats, first: int, only: Integers | None = None) -> tuple[Integers, Floats]:
        """Return the rows of the secrets relevant at `step`, and the cost of their windows that end there, rounded up.

        x, first  the noise of steps first, first + 1, … as in `losses.worst_costs`. Under all-events a secret's whole cost so far
        only      households, if not all
        """
        near = self.nearby(step // BLOCK)
        at, s = near.relevant(step), near.specifications
        if only is not None:
            at = at[np.isin(s.household[at], only)]
        if not len(at):
            return at, np.zeros(0)
        if self.interpretation == "all-events":
            mine = np.isin(s.household, s.household[at])
            return near.rows[at], worst_costs(s.only(mine), x, first, self.interpretation, self.noise)[
                np.isin(np.flatnonzero(mine), at)
            ]
        sums = Running(x, first)
        low = np.maximum(s.start[at], step - s.duration[at] + 1)
        if self.interpretation == "one-event":
            weight = s.power[at] if self.noise == "laplace" else np.nextafter(s.power[at] ** 2, np.inf)
            return near.rows[at], np.nextafter(weight * sums.between(low, np.full(len(at), step)), np.inf)
        assert near.line is not None
        return near.rows[at], self._window_costs(near.line, at, low, step, sums)

    def required_scales(self, step: int, unit_scales: Floats) -> tuple[Integers, Floats, Floats]:
        """Return the rows of the secrets relevant at `step`, the scale that each requires, and how far it moves the value."""
        near = self.nearby(step // BLOCK)
        at, s = near.relevant(step), near.specifications
        rows, moved = near.rows[at], s.power[at]
        if self.interpretation == "all-events" or not len(at):
            return rows, unit_scales[rows], moved
        if self.interpretation == "one-window":
            assert near.line is not None
            moved = near.line.sensitivity[near.line.place(at, np.full(len(at), step))]
        return rows, np.nextafter(moved * unit_scales[rows], np.inf), moved

    def _window_costs(self, line: Timeline, at: Integers, low: Integers, step: int, sums: Running) -> Floats:
        """Σ over the pieces between low and step of Δ x, the first piece in part."""
        weight = line.sensitivity if self.noise == "laplace" else np.nextafter(line.sensitivity**2, np.inf)
        upto = np.minimum(line.end, step)
        pieces = np.nextafter(weight * sums.between(line.begin, upto), np.inf) * (weight > 0)
        whole = Running(pieces, 0)
        begin, end = line.place(at, low), line.place(at, np.full(len(at), step))
        partly = np.nextafter(weight[begin] * sums.between(low, upto[begin]), np.inf)
        result: Floats = np.nextafter(whole.between(begin + 1, end) + partly, np.inf)
        return result
