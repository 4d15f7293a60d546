"""Linear constraints on the noise so that no secret loses more than its limit: rows of a program, generated on demand.

A secret's cost is a maximum over placements of its event (`notions.swellfish.losses`), so "cost ≤ limit" is one linear row in x
for every placement (under all-events for every choice of placements): millions of them, of which a few thousand bind. They are
not written down. For given x the fullest are found with the exact kernels, one for each step at which they end and each power
of two of their length, so that one household or one long event does not crowd out all others.

x_t = 1/λ_t (Gaussian: 1/σ_t²) is written as z_v · unit_v, with the variable v of step t and with z = 1 for the scales of `tight`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array, vstack

from halflife.notions.swellfish.losses import MOST_PLACES, Running, stretches, weighted_sums, windows, worst_costs
from halflife.numerics.arrays import Floats, Integers
from halflife.release import Noise
from halflife.specifications.base import Specifications
from halflife.specifications.neighbours import Interpretation
from halflife.specifications.sweep import Timeline, covering_max, overlapping_pairs


class Rows(NamedTuple):
    """Rows a of the program: a·z ≤ 1; or, for parts of a sum over the events s′ that the secret s sees, Σ over s′ of max a·z ≤ 1.

    pair  s · (number of secrets) + s′ of each part, −1 of a row that is whole
    """

    matrix: csr_array
    pair: Integers

    def only(self, rows: Integers) -> Rows:
        """Return some of them."""
        return Rows(csr_array(self.matrix[rows]), self.pair[rows])


def whole_rows(matrix: csr_array) -> Rows:
    """Return rows that each stand alone, not as parts of a sum."""
    return Rows(matrix, np.full(matrix.shape[0], -1, dtype=np.int64))


def join_rows(parts: Sequence[Rows]) -> Rows:
    """Return the rows of all parts, stacked."""
    return Rows(csr_array(vstack([part.matrix for part in parts])), np.concatenate([part.pair for part in parts]))


class Fullest:
    """Of many rows, the one with the largest share of its limit for each last step and each power of two of its length."""

    def __init__(self, steps: int, longest: int) -> None:
        size = steps * longest.bit_length()
        self.steps, self.share = steps, np.zeros(size)
        self.secret, self.low = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)

    def put(self, secret: Integers, low: Integers, high: Integers, share: Floats) -> None:
        """Take in rows over steps low … high, counted from 0."""
        place = (np.frexp((high - low + 1).astype(np.float64))[1] - 1) * self.steps + high
        order = np.argsort(share)  # of several at one place, the last that is written stays
        order = order[share[order] > self.share[place[order]]]
        place = place[order]
        self.share[place], self.secret[place], self.low[place] = share[order], secret[order], low[order]

    def list_rows(self) -> tuple[Integers, Integers, Integers]:
        """Return secret, first and last step (low, high) of each row."""
        at = np.flatnonzero(self.share > 0)
        return self.secret[at], self.low[at], at % self.steps


@dataclass(frozen=True, eq=False)
class Constraints:
    """Each secret's cost is at most its limit, as rows a with a·z ≤ 1.

    first      the first step; arrays about steps begin with it
    variable   for each step its variable, −1 if it has none
    published  whether the step is published: only then it costs anything
    unit       x_t of z_v = 1, for each variable
    """

    secrets: Specifications
    limits: Floats
    delta: float
    interpretation: Interpretation
    noise: Noise
    first: int
    variable: Integers
    published: np.ndarray[tuple[int], np.dtype[np.bool_]]
    unit: Floats

    def x(self, z: Floats) -> Floats:
        """Return x of all steps."""
        result: Floats = np.where(self.published, (z * self.unit)[self.variable], 0.0)
        return result

    def shares(self, z: Floats) -> Floats:
        """Return the share of its limit that each secret loses at worst."""
        return worst_costs(self.secrets, self.x(z), self.first, self.interpretation, self.noise) / self.limits

    def shrink(self, z: Floats) -> Floats:
        """Return z lowered until every secret keeps its limit: over the steps of J_s by the share of s if that is above 1.

        A cost looks at steps of J_s alone and is homogeneous in x, so it falls by that share at least.
        """
        shares = self.shares(z)
        over = np.flatnonzero(shares > 1)
        by_step = covering_max(*self._inside(over), shares[over], len(self.variable))
        return z / np.maximum(1.0, self._most(by_step))

    def ceilings(self) -> Floats:
        """Return the largest z that any secret allows: a single step costs it p x (p² x), and no event costs less."""
        everyone = np.arange(len(self.secrets))
        by_step = covering_max(*self._inside(everyone), self._powers / self.limits, len(self.variable))
        return 1 / (self._most(by_step) * self.unit)

    def cuts(self, z: Floats, least: float, apart: bool = False) -> Rows:
        """Return the fullest rows at z of those with a share above `least`; under all-events they may be taken apart."""
        x = self.x(z)
        if self.interpretation != "all-events":
            return whole_rows(self._rows_of_windows(*self._fullest_windows(x, least)))
        shares = worst_costs(self.secrets, x, self.first, self.interpretation, self.noise) / self.limits
        rows = np.flatnonzero(shares > least)
        best = Fullest(len(x), len(x))
        best.put(rows, *self._inside(rows), shares[rows])
        return self._rows_of_events(best.list_rows()[0], x, apart)

    # One event, one window ----------------------------------------------------------------------------------------------

    def _fullest_windows(self, x: Floats, least: float) -> tuple[Integers, Integers, Integers]:
        s, together = self.secrets, self.interpretation == "one-window"
        best = Fullest(len(x), int(s.duration.max()))
        for begin, stop in stretches(s):
            mine, sums = weighted_sums(s, (begin, stop), x, self.first, self.noise, together)
            for row, low, high in windows(mine):
                secret = begin + row
                share = sums.between(low, high) * (1.0 if together else self._powers[secret]) / self.limits[secret]
                held = (share > least) & (high >= self.first) & (high < self.first + len(x))
                begins, ends = np.maximum(low[held], self.first) - self.first, high[held] - self.first
                best.put(secret[held], begins, ends, share[held])
        return best.list_rows()

    def _rows_of_windows(self, secret: Integers, low: Integers, high: Integers) -> csr_array:
        row, step = _spread(low, high)
        if self.interpretation == "one-event":
            weight = self._powers[secret[row]]
        else:
            delta = self._line.sensitivity[self._line.place(secret[row], step + self.first)]
            weight = delta if self.noise == "laplace" else delta**2
        return self._matrix(len(secret), row, step, weight / self.limits[secret[row]])

    # All events ---------------------------------------------------------------------------------------------------------

    def _rows_of_events(self, chosen: Integers, x: Floats, apart: bool) -> Rows:
        """For each chosen secret s the sum over s′ of its fullest placement within J_s; or its parts, a row for each s′.

        An event of s′ weighs p_s′ in the share that s loses. Gaussian noise: p_s′ Δ_t, by which μ² is bounded linearly
        (`notions.swellfish.losses`; ours).
        """
        number = np.full(len(self.secrets), -1, dtype=np.int64)
        number[chosen] = np.arange(len(chosen))
        parts, size = [whole_rows(csr_array((0 if apart else len(chosen), len(self.unit))))], len(self.secrets)
        for one, two, sums in self._pairs(chosen, x):
            held = number[one] >= 0
            row, other = one[held], two[held]
            low, high = fullest_placements(self.secrets, row, other, sums)
            low, high = np.maximum(low - self.first, 0), np.minimum(high - self.first, len(self.variable) - 1)
            pair, step = _spread(low, high)
            weight = (self.secrets.power[other] / self.limits[row])[pair]
            if self.noise == "gaussian":
                weight *= self._line.sensitivity[self._line.place(row[pair], step + self.first)]
            if apart:
                parts.append(Rows(self._matrix(len(row), pair, step, weight), row * size + other))
            else:
                matrix = parts[0].matrix + self._matrix(len(chosen), number[row[pair]], step, weight)
                parts = [whole_rows(matrix)]
        return join_rows(parts)

    def _pairs(self, chosen: Integers, x: Floats) -> Iterator[tuple[Integers, Integers, Running]]:
        """Pairs of secrets that meet, and the running sums by which their placements are compared: of x_t, or of Δ_t x_t."""
        s, most = self.secrets, MOST_PLACES // 16
        if self.noise == "laplace":
            sums = Running(x, self.first)
            yield from ((one, two, sums) for one, two in overlapping_pairs(s, most))
            return
        held = np.sort(chosen)
        for begin, stop in stretches(s):
            if np.searchsorted(held, begin) == np.searchsorted(held, stop):
                continue
            mine, sums = weighted_sums(s, (begin, stop), x, self.first, "laplace")
            yield from ((begin + one, begin + two, sums) for one, two in overlapping_pairs(mine, most))

    # What they share ----------------------------------------------------------------------------------------------------

    @cached_property
    def _line(self) -> Timeline:
        return Timeline(self.secrets)

    @cached_property
    def _powers(self) -> Floats:
        return self.secrets.power if self.noise == "laplace" else self.secrets.power**2

    def _inside(self, rows: Integers) -> tuple[Integers, Integers]:
        """The hiding intervals of some secrets, in steps counted from 0 and within those there are."""
        s, last = self.secrets, len(self.variable) - 1
        return np.clip(s.start[rows] - self.first, 0, last), np.clip(s.end[rows] - self.first, 0, last)

    def _most(self, by_step: Floats) -> Floats:
        """The largest value of a published step of each variable."""
        result = np.zeros(len(self.unit))
        np.maximum.at(result, self.variable[self.published], by_step[self.published])
        return result

    def _matrix(self, rows: int, row: Integers, step: Integers, weight: Floats) -> csr_array:
        """Σ of weight · x at these steps, in z; steps of one variable add up."""
        held = self.published[step]
        row, weight, column = row[held], weight[held], self.variable[step[held]]
        return csr_array((weight * self.unit[column], (row, column)), shape=(rows, len(self.unit)))


def _spread(low: Integers, high: Integers) -> tuple[Integers, Integers]:
    """Number and step of every step of every interval low … high; none if low > high.

    >>> [part.tolist() for part in _spread(np.array([3, 9]), np.array([5, 9]))]
    [[0, 0, 0, 1], [3, 4, 5, 9]]
    """
    count = np.maximum(high - low + 1, 0)
    number = np.repeat(np.arange(len(low)), count)
    return number, low[number] + np.arange(len(number)) - (np.cumsum(count) - count)[number]


def _parts(count: Integers) -> Iterator[slice]:
    """Stretches whose counts add up to about MOST_PLACES at most."""
    done, begin = np.cumsum(count), 0
    while begin < len(count):
        before = int(done[begin - 1]) if begin else 0
        stop = max(begin + 1, int(np.searchsorted(done, before + MOST_PLACES, side="right")))
        yield slice(begin, stop)
        begin = stop


def fullest_placements(s: Specifications, row: Integers, other: Integers, sums: Running) -> tuple[Integers, Integers]:
    """Return, for pairs (s, s′) whose hiding intervals meet, the W′ ∩ J_s of the placement W′ of s′ with the largest sum.

    >>> from halflife.specifications import Secret, Specification
    >>> s = Specifications([Specification([Secret(1.0, 2, 1, 4, 1.0), Secret(1.0, 2, 3, 6, 1.0)], "a")])
    >>> x = Running(np.array([0.0, 0.0, 1.0, 2.0, 9.0, 0.0]), 1)
    >>> [part.tolist() for part in fullest_placements(s, np.array([0, 1]), np.array([1, 1]), x)]
    [[3, 4], [4, 5]]
    """
    first = np.maximum(s.start[other], s.start[row] - s.duration[other] + 1)
    last = np.minimum(s.end[other] - s.duration[other] + 1, s.end[row])
    low, high = np.zeros_like(first), np.zeros_like(first)
    for part in _parts(last - first + 1):
        pair, at = _spread(first[part], last[part])
        inside, event = row[part][pair], other[part][pair]
        begin, end = np.maximum(at, s.start[inside]), np.minimum(at + s.duration[event] - 1, s.end[inside])
        order = np.lexsort((-sums.between(begin, end), pair))
        best = order[np.flatnonzero(np.append(True, pair[1:] != pair[:-1]))[: len(pair)]]
        low[part], high[part] = begin[best], end[best]
    return low, high
