"""Upper bounds of what all events of a household cost each relevant secret, kept up from step to step.

The cost of a secret s is Σ over s′ of p_s′ M(s, s′), with M the largest sum of x over W′ ∩ J_s, over the placements W′ of the
event of s′ (all-events of `losses`). Let s be relevant at t, and t the newest step that has noise. Then (ours)

    M_t(s, s′) = max(M_{t−1}(s, s′), Σ x_h over max(start_s, start_s′, t − T_s′ + 1) ≤ h ≤ t)    if s′ is relevant at t
    M_t(s, s′) = M_{t−1}(s, s′)                                                                   else

as a placement without t sums up to what it did, and of those with t, whose sums are over [max(start_s, a), t] by their first step
a ≥ max(start_s′, t − T_s′ + 1), none comes to more than that of the least a, x being ≥ 0; it is a placement, as t lies in J_s′.
So a new step costs one sum for each pair that is relevant at it, however many secrets there are, and s′ that are over are one
number for each s. Gaussian noise: (Σ p_s′ √M)² is one of the two bounds whose smaller one is the cost, and so never less.

The bounds exceed these sums by a part SLACK, far more than sums of doubles can lose. They say which secrets may be the worst;
costs themselves are those of `losses`, to the last digit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from halflife.notions.swellfish.losses import MOST_NOISE, Running, largest_within
from halflife.numerics.arrays import Floats, Integers
from halflife.release import Noise
from halflife.specifications.base import Specifications
from halflife.specifications.sweep import overlapping_pairs

SLACK = 1e-9
MOST_PAIRS = 4_000_000
"""Of more pairs at one step nothing is kept: their bounds are infinite."""


class Kept(NamedTuple):
    """What all steps before `step` come to, for the secrets that are relevant at it.

    first, x    the noise of steps first … step − 1, from the first step of any of their hiding intervals on
    rows, past  these secrets, ascending, and for each of them Σ p_s′ M (Gaussian: Σ p_s′ √M) over the s′ that are over
    row, other  the pairs (s, s′) of one household that are both relevant, ascending;  most  M of each
    """

    step: int
    first: int
    x: Floats
    rows: Integers
    past: Floats
    row: Integers
    other: Integers
    most: Floats


class Bounds:
    """Bounds for one account after another: what is kept is used for histories that begin with it alone, and else worked out."""

    def __init__(self, specifications: Specifications, noise: Noise) -> None:
        self.specifications, self.noise = specifications, noise
        self._kept: Kept | None = None

    def at(self, step: int, x: Floats, first: int, rows: Integers, near: Integers) -> Floats:
        """Return a bound of the cost of each secret relevant at `step`, the newest with noise x of steps first, first + 1, …

        rows  the secrets relevant then;  near  at least all whose hiding intervals overlap theirs
        """
        if (np.unique(self.specifications.household[rows], return_counts=True)[1] ** 2).sum() > MOST_PAIRS:
            return np.full(len(rows), np.inf)
        low = int(self.specifications.start[rows].min())
        noise = np.zeros(step - low + 1)
        noise[max(first, low) - low :] = x[max(first, low) - first :]
        sums = Running(noise, low)
        kept = self._kept
        if kept is None or not _begins(kept, noise, low, step):
            kept = self._begin(step, noise[:-1], low, rows, near)
        elif kept.step < step:
            kept = self._enter(kept._replace(most=self._widen(kept, sums)), step, noise[:-1], low, rows)
        self._kept = kept
        total = kept.past + _add_up(rows, kept.row, self._weigh(kept.other, self._widen(kept, sums)))
        costs = (total if self.noise == "laplace" else total**2) * (1 + SLACK) + 1e-300
        return np.where(noise[-1] > MOST_NOISE, np.inf, costs)

    def _widen(self, kept: Kept, sums: Running) -> Floats:
        """M of the pairs once the noise of their step counts."""
        s, step = self.specifications, kept.step
        low = np.maximum(step + 1 - s.duration[kept.other], np.maximum(s.start[kept.row], s.start[kept.other]))
        return np.maximum(kept.most, sums.between(low, np.full(len(low), step)))

    def _weigh(self, other: Integers, most: Floats) -> Floats:
        """What one event adds: p M, or with Gaussian noise p √M."""
        return self.specifications.power[other] * (most if self.noise == "laplace" else np.sqrt(most))

    def _enter(self, kept: Kept, step: int, x: Floats, low: int, rows: Integers) -> Kept:
        """Go on to a later step: secrets that are over leave, and count in `past` of the others; those that have begun enter."""
        s = self.specifications
        row, other = (rows[side] for side in _pairs(s.household[rows]))
        most = _look_up(kept.row * len(s) + kept.other, kept.most, row * len(s) + other)
        over = np.flatnonzero((s.end[kept.other] < step) & (s.end[kept.row] >= step))
        past = _look_up(kept.rows, kept.past, rows)
        past += _add_up(rows, kept.row[over], self._weigh(kept.other[over], kept.most[over]))
        return Kept(step, low, x, rows, past, row, other, most)

    def _begin(self, step: int, x: Floats, low: int, rows: Integers, near: Integers) -> Kept:
        """The same from all placements, for a history that is new here."""
        s, none = self.specifications, np.zeros(0, dtype=np.int64)
        mine = near[(s.start[near] <= step) & (s.end[near] >= low)]
        mine = mine[np.isin(s.household[mine], s.household[rows])]
        few, sums = s.only(mine), Running(x, low)
        kept = Kept(step, low, x, none, np.zeros(0), none, none, np.zeros(0))
        parts = [(none, none, np.zeros(0))]
        for pairs in overlapping_pairs(few):
            left, right = (side[few.end[pairs[0]] >= step] for side in pairs)
            parts.append((mine[left], mine[right], largest_within(few, left, right, sums)))
        row, other, most = (np.concatenate(side) for side in zip(*parts, strict=True))
        order = np.argsort(row * len(s) + other)
        return self._enter(kept._replace(row=row[order], other=other[order], most=most[order]), step, x, low, rows)


def _begins(kept: Kept, noise: Floats, low: int, step: int) -> bool:
    """Whether the noise of steps low … step is what is kept, and then that of the step it is kept for and of `step` alone."""
    same, after = max(0, kept.step - low), max(0, kept.step + 1 - low)
    known = kept.first <= low and kept.step <= step and np.array_equal(kept.x[low - kept.first :], noise[:same])
    return known and not noise[after:-1].any()


def _pairs(group: Integers) -> tuple[Integers, Integers]:
    """Return all ordered pairs of places of the same value, ascending; equal values stand together.

    >>> [side.tolist() for side in _pairs(np.array([4, 4, 7]))]
    [[0, 0, 1, 1, 2], [0, 1, 0, 1, 2]]
    """
    begin = np.searchsorted(group, group, side="left")
    count = np.searchsorted(group, group, side="right") - begin
    left = np.repeat(np.arange(len(group)), count)
    return left, np.arange(len(left)) + np.repeat(begin - np.cumsum(count) + count, count)


def _look_up(keys: Integers, values: Floats, wanted: Integers) -> Floats:
    """Return the value of each wanted key, 0 where there is none; keys ascend."""
    if not len(keys):
        return np.zeros(len(wanted))
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    result: Floats = np.where(keys[at] == wanted, values[at], 0.0)
    return result


def _add_up(rows: Integers, row: Integers, values: Floats) -> Floats:
    """Return Σ of the values of each of `rows`, which ascend and hold every row."""
    return np.bincount(np.searchsorted(rows, row), values, len(rows)).astype(np.float64)
