"""The worst-case cost of each secret for any sequence of noise scales: the arithmetic of certificates.

x_t = 1/λ_t of Laplace noise, 1/σ_t² of Gaussian noise, 0 where nothing is published and ∞ where the exact value is. A secret's
*cost* is linear in x: for Laplace noise the pure loss Σ |change_t| / λ_t, for Gaussian noise μ² = Σ change_t² / σ_t².

    one-event    max over placements W of T_s steps in J_s of Σ_{t ∈ W} p_s x_t
    one-window   max over such W of Σ_{t ∈ W} Δ_t x_t, with the household's own Δ_t
    all-events   Σ over the household's secrets s′ of max over placements W′ in J_s′ of Σ_{t ∈ W′ ∩ J_s} p_s′ x_t

(corrected, S1: the paper's definitions ask for the last, its proofs show the second.) For Gaussian noise p and Δ are squared.
Under all-events that leaves the worst of all joint placements, which is bounded in two ways (ours), and the smaller one is
taken: μ is at most the sum of the events' own μ (the triangle inequality), and μ² at most Σ over s′ of max over W′ of Σ p_s′
Δ_t x_t, as all events together never move a step by more than Δ_t: exact if no two hiding intervals overlap.

Sums are running sums of whole numbers, coarse and fine ones, each term rounded up: nothing is lost to cancellation, and a small
term keeps its digits beside terms 10²⁰ times as large.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from halflife.numerics.arrays import Floats, Integers
from halflife.release import Noise
from halflife.specifications.base import Specifications
from halflife.specifications.neighbours import Interpretation
from halflife.specifications.sweep import overlapping_pairs, to_float_up, whole_unit

LONGEST_GAP = 5_000
MOST_PLACES = 8_000_000
"""How many placements are looked at in one go."""
MOST_NOISE = 1e250
"""An x above this counts as infinite: so little noise is none."""


class Running:
    """Running sums of non-negative terms about steps first, first + 1, …; terms are whole units and parts of one, rounded up.

    >>> Running(np.array([1.0, 2.0, 4.0]), 5).between(np.array([5, 6]), np.array([6, 9])).tolist()
    [3.0, 6.0]
    """

    def __init__(self, terms: Floats, first: int) -> None:
        self.first, self.size = first, len(terms)
        self.unit = whole_unit(float(terms.sum()) * 1.001)
        self.part = 2.0 ** (len(terms).bit_length() - 62)
        units = terms / self.unit
        whole = np.floor(units)
        self.sums: Integers = np.zeros(len(terms) + 1, dtype=np.int64)
        self.parts: Integers = np.zeros(len(terms) + 1, dtype=np.int64)
        np.cumsum(whole.astype(np.int64), out=self.sums[1:])
        np.cumsum(np.ceil((units - whole) / self.part).astype(np.int64), out=self.parts[1:])

    def between(self, low: Integers, high: Integers) -> Floats:
        """Return the sums over steps low … high; steps without a term count 0, and so does low > high."""
        a = np.clip(low - self.first, 0, self.size)
        b = np.clip(high - self.first + 1, 0, self.size)
        b = np.maximum(a, b)
        rest = to_float_up(self.parts[b] - self.parts[a], self.unit * self.part)
        total = to_float_up(self.sums[b] - self.sums[a], self.unit) + rest
        result: Floats = np.where(rest > 0, np.nextafter(total, np.inf), total)
        return result


def worst_costs(
    s: Specifications, x: Floats, first: int, interpretation: Interpretation, noise: Noise = "laplace"
) -> Floats:
    """Return each secret's worst cost by the noise x of steps first, first + 1, …, rounded up; ∞ where it is exposed.

    >>> from halflife.specifications import Secret, Specification
    >>> s = Specifications([Specification([Secret(3.0, 2, 1, 4, 1.0)], "a")])     # Example 1
    >>> worst_costs(s, np.full(4, 1 / 6), 1, "one-window").round(12).tolist()
    [1.0]
    """
    exact = x > MOST_NOISE
    exposed = Running(exact.astype(np.float64), first).between(s.start, s.end) > 0
    finite = np.where(exact, 0.0, x)
    if interpretation == "one-event":
        weight = s.power if noise == "laplace" else np.nextafter(s.power**2, np.inf)
        costs = np.nextafter(weight * _most_of_windows(s, Running(finite, first)), np.inf)
    elif interpretation == "one-window":
        parts = (_most_of_windows(*weighted_sums(s, rows, finite, first, noise)) for rows in stretches(s))
        costs = np.concatenate([np.zeros(0), *parts])
    else:
        costs = _all_events(s, finite, first, noise)
    result: Floats = np.where(exposed, np.inf, costs)
    return result


def stretches(s: Specifications) -> list[tuple[int, int]]:
    """Return rows (first, and behind the last) of one household each, whose hiding intervals lie within `LONGEST_GAP` steps.

    What is worked out step by step is worked out for a stretch, so that secrets years apart do not cost the steps between them.
    """
    if not len(s):
        return []
    low = int(s.start.min())
    base = s.household.astype(np.int64) * (s.last_step - low + 3 + LONGEST_GAP) - low
    reached = np.maximum.accumulate(base + s.end)
    cut = np.flatnonzero(base[1:] + s.start[1:] - reached[:-1] > LONGEST_GAP) + 1
    cut = np.union1d(cut, np.flatnonzero(np.diff(s.household)) + 1)
    edges = np.concatenate([[0], cut, [len(s)]]).tolist()
    return list(pairwise(edges))


def windows(s: Specifications) -> Iterator[tuple[Integers, Integers, Integers]]:
    """Give, in parts, each secret's windows as (row, low, high): those that end at high ∈ J with at most T steps of J.

    Beside all placements these are the beginnings of the first one: what has been published of it so far.
    """
    count, begin = s.end - s.start + 1, 0
    done = np.cumsum(count)
    while begin < len(s):
        before = int(done[begin - 1]) if begin else 0
        stop = max(begin + 1, int(np.searchsorted(done, before + MOST_PLACES, side="right")))
        row = np.repeat(np.arange(begin, stop), count[begin:stop])
        high = s.start[row] + np.arange(len(row)) - (done[row] - count[row] - before)
        yield row, np.maximum(s.start[row], high - s.duration[row] + 1), high
        begin = stop


def _most_of_windows(s: Specifications, sums: Running) -> Floats:
    """The largest window sum of each secret."""
    most = np.zeros(len(s))
    for part, low, high in windows(_cut_to_noise(s, sums)):
        found = sums.between(low, high)
        starts = np.flatnonzero(np.append(True, part[1:] != part[:-1]))
        most[part[starts]] = np.maximum.reduceat(found, starts)
    return most


def _cut_to_noise(s: Specifications, sums: Running) -> Specifications:
    """Return the secrets with hiding intervals cut to the steps that have noise: no window beyond them costs more.

    One that has none of them becomes the step after them, which costs nothing.
    """
    low, high = sums.first, sums.first + sums.size - 1
    start = np.where(s.end < low, high + 1, np.clip(s.start, low, high + 1))
    return s._with({"start": start, "end": np.maximum(start, np.clip(s.end, low - 1, high))})


def temporal_sensitivity_of(s: Specifications, first: int, last: int) -> Floats:
    """Return Δ_t of one household's secrets at steps first … last, rounded up."""
    unit = whole_unit(float(s.power.sum()))
    change, whole = np.zeros(last - first + 2, dtype=np.int64), np.ceil(s.power / unit).astype(np.int64)
    np.add.at(change, np.clip(s.start - first, 0, last - first + 1), whole)
    np.add.at(change, np.clip(s.end + 1 - first, 0, last - first + 1), -whole)
    return to_float_up(np.cumsum(change[:-1]), unit)


def weighted_sums(
    s: Specifications, rows: tuple[int, int], x: Floats, first: int, noise: Noise, together: bool = True
) -> tuple[Specifications, Running]:
    """Return the secrets of a stretch, and the running sums of Δ_t x_t (Gaussian: Δ_t² x_t) over the steps that they cover.

    together  whether all its events count at once; else the sums are of x_t alone
    """
    mine = s.only(slice(*rows))
    low = min(max(int(mine.start.min()), first), first + len(x))
    high = max(low - 1, min(int(mine.end.max()), first + len(x) - 1))
    if not together:
        return mine, Running(x[low - first : high - first + 1], low)
    delta = temporal_sensitivity_of(mine, low, high) if high >= low else np.zeros(0)
    terms = (delta if noise == "laplace" else delta**2) * x[low - first : high - first + 1]
    return mine, Running(np.nextafter(terms, np.inf) * (terms > 0), low)


def _all_events(s: Specifications, x: Floats, first: int, noise: Noise) -> Floats:
    """What all events of a household cost within J_s; for Gaussian noise the smaller of two upper bounds."""
    if noise == "laplace":
        return _add_up(s, Running(x, first), s.power)
    triangle = _add_up(s, Running(x, first), np.nextafter(s.power**2, np.inf), roots=True) ** 2 * (1 + 4e-16)
    steps = []
    for rows in stretches(s):
        mine, sums = weighted_sums(s, rows, x, first, "laplace")  # Δ_t x_t, not squared
        steps.append(_add_up(mine, sums, mine.power))
    result: Floats = np.minimum(triangle, np.concatenate([np.zeros(0), *steps]))
    return result


def _add_up(s: Specifications, sums: Running, weight: Floats, roots: bool = False) -> Floats:
    """Σ over s′ of weight_s′ · the largest sum over W′ ∩ J_s, or of the roots of these, rounded up."""
    own = _most_of_windows(s, sums)
    total, terms = np.zeros(len(s)), np.zeros(len(s))
    for row, other in overlapping_pairs(s):
        most = own[other].copy()
        partly = np.flatnonzero((s.start[other] < s.start[row]) | (s.end[other] > s.end[row]))
        most[partly] = largest_within(s, row[partly], other[partly], sums)
        cost = np.nextafter(weight[other] * most, np.inf)
        total += np.bincount(row, np.sqrt(cost) if roots else cost, len(s))
        terms += np.bincount(row, minlength=len(s))
    result: Floats = total * (1 + 2.3e-16 * (terms + 4))  # what the sums themselves may have rounded away
    return result


def largest_within(s: Specifications, row: Integers, other: Integers, sums: Running) -> Floats:
    """Return for pairs the largest sum over W′ ∩ J_s, for placements W′ of the other's event."""
    low = np.maximum(s.start[other], s.start[row] - s.duration[other] + 1)
    high = np.minimum(s.end[other] - s.duration[other] + 1, s.end[row])
    most = np.zeros(len(row))
    count = np.maximum(high - low + 1, 0)
    done, begin = np.cumsum(count), 0
    while begin < len(row):
        before = int(done[begin - 1]) if begin else 0
        stop = max(begin + 1, int(np.searchsorted(done, before + MOST_PLACES, side="right")))
        pair = np.repeat(np.arange(begin, stop), count[begin:stop])
        if len(pair):
            at = low[pair] + np.arange(len(pair)) - (done[pair] - count[pair] - before)
            last = np.minimum(at + s.duration[other[pair]] - 1, s.end[row[pair]])
            found = sums.between(np.maximum(at, s.start[row[pair]]), last)
            starts = np.flatnonzero(np.append(True, pair[1:] != pair[:-1]))
            most[pair[starts]] = np.maximum.reduceat(found, starts)
        begin = stop
    return most
