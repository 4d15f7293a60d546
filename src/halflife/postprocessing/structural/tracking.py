"""How large the errors of predictions are, week after week: what `sizes` says of a whole series, without looking ahead.

A week is closed after a public number of values. Then w moves one step along its chain, of which the newest message is kept
(known: the forward recursion); what the week says of times of day and cells is added to what earlier weeks said, which fades.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Self

import numpy as np

from halflife.numerics.arrays import Floats, Integers
from halflife.postprocessing.structural.combining import CELL, Doubt
from halflife.postprocessing.structural.sizes import (
    ANEW_MOVES,
    BEFORE_DAY,
    BEFORE_WEEK,
    DAY,
    DAY_MOVES,
    KEPT,
    REACH,
    SHAPES,
    WEEK,
    WEEK_AND_DAY,
    WEEK_MOVES,
    average_chains,
    count_times,
    expect_cells,
    find_logs,
    fold,
    judge_cells,
    settle_cells,
    shape_up,
    shapes_together,
    smooth_circle,
    times_of_day,
    weigh,
)
from halflife.postprocessing.structural.windows import pool_of

ROUNDS = 2


@dataclass
class Tracker:
    """What is known of sizes before the present week, and sums of the week so far.

    line, likely  chances of w in the present week from all before it, for each shape and spread, and ln of how likely each is
    around        sums of ln density for each shape, time of day and g;  apart  for each cell and a
    week          sums of the present week, for each shape, cell of the pool, time of day and k
    table, cells  the chances that hold in the present week: of SIZES at each time of day, and of a in each cell
    """

    line: Floats
    likely: Floats
    around: Floats
    apart: Floats
    week: Floats
    table: Floats
    cells: Floats

    @classmethod
    def begin(cls, cells: int, pool: int, steps_per_day: float) -> Self:
        """Return what is known before anything is seen."""
        times, shapes = count_times(steps_per_day), len(SHAPES)
        line = np.tile(BEFORE_WEEK, (shapes, len(WEEK_MOVES), 1))
        day = np.tile(BEFORE_DAY, (shapes, times, 1))
        return cls(
            line, np.zeros(line.shape[:2]), np.zeros((shapes, times, len(DAY))), np.zeros((cells, len(CELL))),
            np.zeros((shapes, pool, times, len(REACH))), shapes_together(line[:, 0], day, np.full(shapes, 1 / shapes)),
            expect_cells(cells),
        )  # fmt: skip

    @property
    def times(self) -> int:
        """Into how many parts a day is cut."""
        return len(self.table)

    def doubt(self, days: Floats, steps_per_day: float) -> Doubt:
        """Return the chances of sizes at these local times."""
        return Doubt(times_of_day(days, steps_per_day), self.table, self.cells)

    def meet(
        self, surprise: Floats, variances: Floats, noise: Floats, days: Floats, steps_per_day: float, pool: Integers,
        laplace: bool,
    ) -> None:  # fmt: skip
        """Take in surprises (steps × cells) of the present week."""
        rows, cells = times_of_day(days, steps_per_day), surprise.shape[1]
        seen = np.arange(cells) if cells > 1 else pool
        logs = find_logs(surprise[:, seen], variances[:, seen], noise[:, None], laplace)
        sums = self.week.transpose(2, 0, 3, 1)
        np.add.at(sums, rows, np.moveaxis(shape_up(logs[:, :, pool]), 2, 0))
        if cells > 1:
            self.apart += judge_cells(logs, self.table, rows)

    def close_week(self) -> None:
        """Make chances for the next week of what the present one said."""
        pool = expect_cells(1) if len(self.apart) == 1 else settle_cells(self.apart)[pool_of(len(self.apart))]
        shared = fold(self.week, pool[:, None], CELL, REACH, WEEK_AND_DAY).sum(axis=1)
        found = [self._close(k, logs) for k, logs in enumerate(shared)]
        shares = weigh(np.array([one[2] for one in found]))
        self.table = shapes_together(np.stack([one[0] for one in found]), np.stack([one[1] for one in found]), shares)
        self.apart = KEPT * self.apart
        if len(self.apart) > 1:
            self.cells = settle_cells(self.apart)
        self.week = np.zeros_like(self.week)

    def _close(self, shape: int, logs: Floats) -> tuple[Floats, Floats, float]:
        """Move on under one shape; return the chances of w in the next week, those of g, and how likely the shape is, as ln."""
        line = self.line[shape]
        new = np.zeros_like(self.around[shape])
        for _ in range(ROUNDS):
            around = self.around[shape] + new
            day, evidence = average_chains([smooth_circle(around, BEFORE_DAY, move) for move in DAY_MOVES])
            lost = float((day * around).sum()) - evidence
            told = fold(logs, day, DAY, WEEK_AND_DAY, WEEK).sum(axis=0)
            after = line * np.exp(told - told.max())
            total = after.sum(axis=1)
            likely = self.likely[shape] + np.log(total) + told.max()
            week = weigh(likely) @ (after / total[:, None])
            new = fold(logs, week, WEEK, WEEK_AND_DAY, DAY)
        self.likely[shape] = KEPT * likely
        self.around[shape] = KEPT * (self.around[shape] + new)
        self.line[shape] = [row @ move for row, move in zip(after / total[:, None], WEEK_MOVES, strict=True)]
        ahead = weigh(likely) @ self.line[shape]
        return ahead, day, float(likely.max() + np.log(np.exp(likely - likely.max()).mean())) - lost

    def start_anew(self) -> None:
        """Be less sure of w: parameters were fitted anew."""
        self.line = self.line @ ANEW_MOVES

    def parts(self) -> list[Floats]:
        """Return all arrays, for `from_parts`."""
        return [getattr(self, field.name) for field in fields(self)]

    @classmethod
    def from_parts(cls, parts: list[Floats], cells: int, pool: int, steps_per_day: float) -> Self:
        """Return what `parts` gave, whose shapes follow from cells and steps."""
        like = cls.begin(cells, pool, steps_per_day).parts()
        return cls(*(part.reshape(one.shape) for part, one in zip(parts, like, strict=True)))
