"""Step functions of millions of secrets, such as the temporal sensitivity at every step, by sweeps in n log n.

Time is compressed to the steps at which something changes, household after household on one long line. Sums over the relevant
secrets are running sums of whole numbers, so that nothing drifts; maxima over them come from a table of powers of two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from halflife.numerics.arrays import Floats, Integers
from halflife.specifications.base import Specifications

PART = 2_000_000
"""So many pieces are worked on at once, which keeps memory small."""


@dataclass(frozen=True, eq=False)
class StepFunction:
    """A function of steps that is constant between changes: `values[i]` from `starts[i]` on, 0 before all of them.

    >>> f = StepFunction(np.array([3, 5]), np.array([2.0, 0.0]))
    >>> f.at(2), f.at(4), f.over(2, 6).tolist()
    (0.0, 2.0, [0.0, 2.0, 2.0, 0.0, 0.0])
    """

    starts: Integers
    values: Floats

    def at(self, step: int) -> float:
        """Return its value at a step."""
        i = int(np.searchsorted(self.starts, step, side="right")) - 1
        return float(self.values[i]) if i >= 0 else 0.0

    def over(self, first: int, last: int) -> Floats:
        """Return its values at steps first … last."""
        at = np.searchsorted(self.starts, np.arange(first, last + 1), side="right") - 1
        if not len(self.values):
            return np.zeros(len(at))
        result: Floats = np.where(at >= 0, self.values[at], 0.0)
        return result

    @property
    def largest(self) -> float:
        """The largest value, 0 at least."""
        return float(self.values.max(initial=0.0))


def covering_max(first: Integers, last: Integers, values: Floats, size: int) -> Floats:
    """Return for each place 0 … size − 1 the largest value whose interval [first, last] covers it; 0 if none does.

    An interval of length ℓ is two overlapping ones of length 2^k, k = ⌊log₂ ℓ⌋; from the longest down, each of length 2^k is two
    of half that. O(n + size · log of the longest) (known: a sparse table, upside down).

    >>> covering_max(np.array([0, 1]), np.array([2, 1]), np.array([5.0, 7.0]), 4).tolist()
    [5.0, 7.0, 5.0, 0.0]
    """
    result = np.zeros(size)
    if not len(first):
        return result
    power = np.frexp((last - first + 1).astype(np.float64))[1] - 1
    order = np.argsort(power, kind="stable")
    bounds = np.searchsorted(power[order], np.arange(int(power.max()) + 2))
    for k in range(int(power.max()), -1, -1):
        mine = order[bounds[k] : bounds[k + 1]]
        np.maximum.at(result, first[mine], values[mine])
        np.maximum.at(result, last[mine] - (1 << k) + 1, values[mine])
        if k:
            half = 1 << (k - 1)
            halves = result.copy()
            np.maximum(halves[half:], result[:-half], out=halves[half:])
            result = halves
    return result


def whole_unit(total: float) -> float:
    """Return the power of two in which numbers of this sum, each rounded up to whole ones, add up within 64 bits."""
    return float(2.0 ** (np.ceil(np.log2(max(total, 1e-280))) - 60))


def to_float_up(whole: Integers, unit: float) -> Floats:
    """Return whole · unit, rounded up."""
    near = whole.astype(np.float64)
    result: Floats = np.where(near.astype(np.int64) < whole, np.nextafter(near, np.inf), near) * unit
    return result


def _merge(ascending: Integers, others: Integers) -> Integers:
    """Return all values of both, each once, in order; a stable sort is quick with what is nearly in order."""
    others.sort(kind="stable")
    both = np.concatenate([ascending, others])
    both.sort(kind="stable")
    result: Integers = both[np.append(True, both[1:] != both[:-1])[: len(both)]]
    return result


class Timeline:
    """The time axes of all households end to end, cut into pieces within which the relevant secrets do not change.

    `begin`, `end` are the steps of each piece (both included), `household` whose it is; secret i is relevant on the pieces
    `first[i]` … `last[i]`.
    """

    def __init__(self, specifications: Specifications) -> None:
        self.specifications = s = specifications
        low = int(s.start.min()) if len(s) else 0
        span = (int(s.end.max()) - low + 3) if len(s) else 1
        self._base = base = s.household.astype(np.int64) * span - low
        points = _merge(base + s.start, base + s.end + 1)
        self._points = points
        self.first = np.searchsorted(points, base + s.start)
        self.last = np.searchsorted(points, base + s.end + 1) - 1
        self.household = points // span
        self.begin = points - self.household * span + low
        self.end = (
            np.append(self.begin[1:], 0) - 1
        )  # of a household's last piece, where nothing is relevant, it is no step

    def place(self, rows: Integers, steps: Integers) -> Integers:
        """Return on which piece of their households these steps lie, for some secrets and a step of each."""
        return np.searchsorted(self._points, self._base[rows] + steps, side="right") - 1

    @cached_property
    def sensitivity(self) -> Floats:
        """Δ_t of the household on each piece: Σ p over its relevant secrets, rounded up (Definition 14; paper)."""
        s = self.specifications
        unit = whole_unit(float(s.power.sum()))
        whole = np.ceil(s.power / unit).astype(np.int64)
        change = np.zeros(len(self.begin) + 1, dtype=np.int64)
        np.add.at(change, self.first, whole)
        np.add.at(change, self.last + 1, -whole)
        return to_float_up(np.cumsum(change[:-1]), unit)

    @cached_property
    def temporal_sensitivity(self) -> StepFunction:
        """Δ_t, the largest over the households: how far one of them can move a sum at step t (Definition 14; paper).

        >>> from halflife.specifications import Secret, Specification
        >>> s = Specifications([Specification([Secret(3.0, 2, 1, 4, 1.0), Secret(1.0, 1, 3, 6, 1.0)], "a")])
        >>> Timeline(s).temporal_sensitivity.over(1, 7).tolist()
        [3.0, 3.0, 4.0, 4.0, 1.0, 1.0, 0.0]
        """
        return self.over_households(self.sensitivity)

    def most(self, values: Floats) -> Floats:
        """Return the largest of the secrets' values on each piece, over those relevant there; 0 where none is."""
        return covering_max(self.first, self.last, values, len(self.begin))

    def over_households(self, values: Floats) -> StepFunction:
        """Return at each step the largest of the households' values; the pieces' values are given."""
        held = values > 0
        if not held.any():
            return StepFunction(np.zeros(0, dtype=np.int64), np.zeros(0))
        low, high = int(self.begin[held].min()), int(self.end[held].max()) + 1
        if high - low > 4 * len(values):
            starts = np.unique(np.concatenate([self.begin[held], self.end[held] + 1]))
            return self._best(values, starts, lambda steps: np.searchsorted(starts, steps))
        there = np.zeros(high - low + 1, dtype=bool)  # fewer steps than pieces: they are marked, not sorted
        there[self.begin[held] - low] = True
        there[self.end[held] + 1 - low] = True
        rank = np.cumsum(there) - 1
        return self._best(values, np.flatnonzero(there) + low, lambda steps: rank[steps - low])

    def _best(self, values: Floats, starts: Integers, place: Callable[[Integers], Integers]) -> StepFunction:
        """The largest value of any piece between `starts`, a part of the pieces after the other."""
        best = np.zeros(len(starts))
        for begin in range(0, len(values), PART):
            held = begin + np.flatnonzero(values[begin : begin + PART] > 0)
            first, last = place(self.begin[held]), place(self.end[held] + 1) - 1
            np.maximum(best, covering_max(first, last, values[held], len(starts)), out=best)
        changed = np.append(True, best[1:] != best[:-1])[: len(best)]
        return StepFunction(starts[changed], best[changed])


def overlapping_pairs(specifications: Specifications, most: int = 4_000_000) -> Iterator[tuple[Integers, Integers]]:
    """Yield all ordered pairs (s, s′) of one household whose hiding intervals share a step, s = s′ included, in parts.

    Secrets are sorted by start, so those that begin after s and before it ends follow it: O(n + pairs).

    most  about how many pairs a part has
    """
    s, n = specifications, len(specifications)
    if not n:
        return
    low = int(s.start.min())
    base = s.household.astype(np.int64) * (s.last_step - low + 3) - low
    follow = np.searchsorted(base + s.start, base + s.end, side="right") - np.arange(n) - 1
    done = np.cumsum(2 * follow + 1)
    begin = 0
    while begin < n:
        before = int(done[begin - 1]) if begin else 0
        stop = max(begin + 1, int(np.searchsorted(done, before + most, side="right")))
        own, count = np.arange(begin, stop), follow[begin:stop]
        left = np.repeat(own, count)
        right = left + 1 + (np.arange(len(left)) - np.repeat(np.cumsum(count) - count, count))
        yield np.concatenate([own, left, right]), np.concatenate([own, right, left])
        begin = stop
