"""The exact contraction of a kernel, as a few points: how much of a privacy loss about old data is left about newer data.

Let an ε-differentially private mechanism look at a person's state z, drawn from row x of a kernel R. All that is known of the
likelihood f(z) of an output is max f / min f ≤ e^ε (Lemma 1; paper), so what the output tells about x is at most

    K(ε) = max over x, x′ and sets B of  ln [1 + (e^ε − 1) R(x, B)] / [1 + (e^ε − 1) R(x′, B)]

(T3; known: the loss function of temporal-correlation privacy, Cao, Yoshikawa, Xiao, Xiong 2017; applying it to aging is ours).
For a pair of rows the best B is a prefix of the states sorted by R(x, z)/R(x′, z), and for a given ε the objective is a ratio of
linear functions of the point (q, p) = (R(x′, B), R(x, B)), which is largest at a corner of the upper left hull of all points. So
a kernel's *frontier*, the corners of that hull, answers every ε: Theorem 1 is its largest p − q, Theorem 2 its largest p / q.

Few pairs of rows own a corner. All points of a pair with total variation v and largest ratio r obey p ≤ r q and p ≤ q + v, so in
the plane of q and d = p − q they lie below and right of (v/(r − 1), v). Once that point lies under the frontier found so far, the
pair cannot win for any ε, and its states need not be sorted.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from halflife.numerics.arrays import Floats

UNIT_ROUNDOFF = 2.0**-53
STEEP = 700.0
"""Losses above this are treated as this much plus the rest: K grows at most as fast as ε does, and e^ε still is a double."""
ROUND_UP = 1 + 2.0**-48
ENTRIES_AT_ONCE = 2_000_000
TINY = 1e-290
"""Products of probabilities below this may have lost digits, or vanished: they count as impossible where that is worse."""
BLURRED = 64.0
"""Rows that are apart by less than this many times the rounding error are described by an outer corner."""
FIRST_KERNELS, SEEDS, TANGENTS = 32, 4, 12
PROMISES = np.array([10.0**k for k in (-1, 0, 1, 2, 3, 4, 6, 8, 12, 20, 40)])
"""Values of e^ε − 1 for which the most promising pairs are looked at first."""


class Frontier(NamedTuple):
    """Corners (q, q + d) of a kernel's hull, q ascending, with q rounded down and d rounded up."""

    q: Floats
    d: Floats

    @property
    def variation(self) -> float:
        """Δ: the largest total variation distance between two rows, rounded up."""
        return min(1.0, float(self.d.max(initial=0.0)))

    @property
    def log_ratio(self) -> float:
        """max ln p/q, the loss of publishing the exact state (Theorem 2); infinite where one row has a zero and another none."""
        moving = self.d > 0
        if not moving.any():
            return 0.0
        if (self.q[moving] <= 0).any():
            return math.inf
        with np.errstate(over="ignore"):
            return float(np.log1p(self.d[moving] / self.q[moving]).max()) * ROUND_UP


NOTHING = Frontier(np.zeros(1), np.zeros(1))
"""The frontier of a kernel whose rows are equal: nothing survives."""
EVERYTHING = Frontier(np.zeros(1), np.ones(1))
"""The frontier of a kernel that tells the state for certain: everything survives."""


def contract(frontier: Frontier, epsilon: float) -> float:
    """Return K(ε) ≤ ε, rounded up.

    >>> lazy = frontier_of(np.array([[0.9, 0.1], [0.1, 0.9]]))
    >>> round(contract(lazy, 1.0), 9) == round(2 * math.atanh(0.8 * math.tanh(0.5)), 9)
    True
    """
    return float(contract_rows(frontier.q[None, :], frontier.d[None, :], np.array([epsilon]))[0])


def contract_rows(q: Floats, d: Floats, epsilon: Floats) -> Floats:
    """Return K of each row's frontier at that row's ε; rows are padded with points of d = 0."""
    steep = np.minimum(epsilon, STEEP)
    growth = np.expm1(steep)[:, None]
    risen = np.log1p((growth * d / (1 + growth * q)).max(axis=1)) * ROUND_UP
    result: Floats = np.minimum(risen + (epsilon - steep), epsilon)
    return result


def theorem_1(variation: float, epsilon: float) -> float:
    """ln(1 + Δ (e^ε − 1)), rounded up (Theorem 1; paper): what K comes to if nothing but Δ is known.

    >>> round(theorem_1(0.5, 2.0), 6)
    1.433781
    """
    return contract(Frontier(np.zeros(1), np.array([variation])), epsilon)


def affordable_loss(frontier: Frontier, risk: float) -> float:
    """Return the largest ε with K(ε) ≤ risk, within rounding; infinite if every mechanism keeps it: the inverse of T3 (ours).

    With E = e^risk − 1 each corner (q, d) says (e^ε − 1)(d − E q) ≤ E. Of Δ alone it is ln(1 + E/Δ), Theorem 1 solved for ε.

    >>> lazy = frontier_of(np.array([[0.9, 0.1], [0.1, 0.9]]))
    >>> round(contract(lazy, affordable_loss(lazy, 0.4)), 9), affordable_loss(lazy, 2.2)
    (0.4, inf)
    """
    growth = math.expm1(risk)
    worst = float((frontier.d - growth * frontier.q).max())
    return math.inf if worst <= 0 else math.log1p(growth / worst)


def frontier_of(kernel: Floats, slack: float = 0.0) -> Frontier:
    """Return the frontier of a kernel whose entries are known up to this relative error.

    >>> frontier_of(np.array([[0.9, 0.1], [0.2, 0.8]])).variation  # doctest: +ELLIPSIS
    0.7...
    """
    return frontier_of_all(kernel[None, :, :], slack)


def frontier_of_all(kernels: Floats, slack: float = 0.0, found: Frontier = NOTHING) -> Frontier:
    """Return the frontier of many kernels together with what was `found` before: the worst of them, for every ε.

    Kernels are looked at from the slowest down, and skipped if not even max_x R(x, z) against min_x R(x, z) could win.
    """
    states = kernels.shape[-1]
    slack += 4 * states * UNIT_ROUNDOFF  # of the sums over B
    low, high = kernels.min(axis=1), kernels.max(axis=1)
    if ((low < TINY) & (high > 0)).any():
        found = merge([found, Frontier(np.zeros(1), np.array([TINY]))])
    ratio = _ratios(high, low)
    left, at_once = np.argsort(low.sum(axis=1), kind="stable"), FIRST_KERNELS
    while len(left):
        found = _worst_pairs(kernels[left[:at_once]], slack, found)
        left, at_once = left[at_once:], max(1, ENTRIES_AT_ONCE // states**2)
        left = left[_polygons_above(found, high[left], low[left], ratio[left], slack)]
    return found


def _worst_pairs(kernels: Floats, slack: float, found: Frontier) -> Frontier:
    """Add the corners of all pairs of rows that can win, the most promising pairs first."""
    states = kernels.shape[-1]
    rows = kernels.reshape(-1, states)
    variation, ratio = _pair_bounds(kernels)
    q, d = _outer(variation, ratio, slack)
    blurred = d <= BLURRED * slack
    if blurred.any():
        found = merge([found, Frontier(q[blurred], d[blurred])])
    alive = np.flatnonzero(~blurred & _above(found, q, d))
    chosen, few = _most_promising(q[alive], d[alive]), max(1, ENTRIES_AT_ONCE // states)
    pairs, alive = alive[chosen], np.delete(alive, chosen)
    while len(pairs) and not (found.q[0] == 0 and found.d[0] >= 1):
        below, above = np.divmod(pairs, states)
        found = _add_prefixes(found, rows[below // states * states + above], rows[below], slack)
        alive = alive[_above(found, q[alive], d[alive])]
        pairs, alive = alive[:few], alive[few:]
        below, above = np.divmod(pairs, states)
        pairs = pairs[_polygons_above(found, rows[below // states * states + above], rows[below], ratio[pairs], slack)]
    return found


def _pair_bounds(kernels: Floats) -> tuple[Floats, Floats]:
    """v and r for every pair of rows x′, x of the same kernel, as flat arrays over (kernel, x′, x)."""
    twice = np.zeros(kernels.shape)
    ratio = np.zeros(kernels.shape)
    for column in np.ascontiguousarray(np.moveaxis(kernels, 2, 0)):
        upper, lower = column[:, None, :], column[:, :, None]
        twice += np.abs(upper - lower)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            np.fmax(ratio, upper / lower, out=ratio)  # 0/0 does not count
    return twice.ravel() / 2, ratio.ravel()


def _ratios(upper: Floats, lower: Floats) -> Floats:
    """The largest upper/lower along the last axis, with 0/0 = 0."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratios = upper / lower
    ratios[np.isnan(ratios)] = 0.0
    result: Floats = ratios.max(axis=-1)
    return result


def _outer(variation: Floats, ratio: Floats, slack: float) -> tuple[Floats, Floats]:
    """The points (v/(r − 1), v) that all others of a pair are worse than, rounding errors included."""
    d = variation + 4 * slack
    above_1 = ratio * (1 + 4 * slack) - 1
    with np.errstate(divide="ignore"):
        return np.where(above_1 > 0, d / above_1, np.inf) * (1 - 8 * UNIT_ROUNDOFF), d


def _above(found: Frontier, q: Floats, d: Floats) -> NDArray[np.bool_]:
    """Which points do not lie under the frontier."""
    start = [0.0] if found.q[0] > 0 else []
    under = np.interp(q, np.concatenate([start, found.q]), np.concatenate([start, found.d]))
    result: NDArray[np.bool_] = d * (1 + 8 * UNIT_ROUNDOFF) > under
    return result


def _most_promising(q: Floats, d: Floats) -> NDArray[np.int64]:
    """For each of some losses, the places of the points that would be best."""
    if len(q) <= SEEDS * len(PROMISES):
        return np.arange(len(q))
    return np.unique(np.argpartition(-d / (1 / PROMISES[:, None] + q), SEEDS, axis=1)[:, :SEEDS])


def _polygons_above(found: Frontier, upper: Floats, lower: Floats, ratio: Floats, slack: float) -> NDArray[np.bool_]:
    """Which pairs of rows can still win, by tangents: p ≤ s q + Σ_z max(R(x, z) − s R(x′, z), 0) for every slope s.

    The slopes are those of the frontier found so far, where a pair must beat it.
    """
    slopes = _slopes(found)
    heights = np.zeros((len(upper), len(slopes) + 1))
    for i, slope in enumerate(slopes):
        heights[:, i] = np.maximum(upper - slope * lower, 0.0) @ np.ones(upper.shape[1]) + 4 * slack
    steepest = ratio[:, None] * (1 + 4 * slack)
    heights[:, :-1][slopes >= steepest] = 0.0
    lines = np.concatenate([np.minimum(slopes, steepest), steepest], axis=1)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        q = np.maximum((heights[:, :-1] - heights[:, 1:]) / np.diff(lines, axis=1), 0.0) * (1 - 8 * UNIT_ROUNDOFF)
        d = heights[:, :-1] + (lines[:, :-1] - 1) * q
    crossing = np.isfinite(q)
    wins: NDArray[np.bool_] = crossing & _above(found, np.where(crossing, q, 0.0), np.where(crossing, d, 0.0))
    result: NDArray[np.bool_] = np.logical_or.reduce(wins, axis=1)
    return result


def _slopes(found: Frontier) -> Floats:
    """Some of the slopes of a frontier in the plane of (q, p), ascending from 1."""
    q, d = np.concatenate([[0.0], found.q]), np.concatenate([[0.0], found.d])
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        slopes = 1 + np.diff(d) / np.diff(q)
    slopes = np.unique(np.append(slopes[np.isfinite(slopes)], 1.0))
    return slopes[np.unique(np.linspace(0, len(slopes) - 1, TANGENTS).round().astype(np.int64))]


def _add_prefixes(found: Frontier, upper: Floats, lower: Floats, slack: float) -> Frontier:
    """Add the points (R(x′, B), R(x, B) − R(x′, B)) of all prefixes B, for pairs of rows R(x), R(x′)."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratios = np.where(upper > 0, upper / lower, 0.0)
    order = np.argsort(-ratios, axis=1)
    p = np.cumsum(np.take_along_axis(upper, order, axis=1), axis=1) * (1 + slack)
    q = np.cumsum(np.take_along_axis(lower, order, axis=1), axis=1) * (1 - slack)
    new = _above(found, q, p - q)
    return merge([found, Frontier(q[new], (p - q)[new])])


def merge(frontiers: list[Frontier]) -> Frontier:
    """Return the frontier of several kernels together: the worst of them, for every ε."""
    if len(frontiers) == 1:
        return frontiers[0]
    return _corners(np.concatenate([f.q for f in frontiers]), np.concatenate([f.d for f in frontiers]))


def hull(q: Floats, p: Floats) -> Frontier:
    """Return the corners of the upper left hull of (0, 0) and these points that can be best for some ε: up to the largest p − q.

    Points beyond the largest p − q are never best: both their p − q and their q are worse.
    """
    return _corners(q, p - q)


def _corners(q: Floats, d: Floats) -> Frontier:
    rising = np.lexsort((-d, q))
    q, d = q[rising], d[rising]
    best = np.maximum.accumulate(d)
    record = np.concatenate([[True], best[1:] > best[:-1]]) & (d > 0)
    corners: list[tuple[float, float]] = [(0.0, 0.0)]
    for point in zip(q[record].tolist(), d[record].tolist(), strict=True):
        while len(corners) > 1 and _turns_left(corners[-2], corners[-1], point):
            corners.pop()
        corners.append(point)
    if len(corners) == 1:
        return NOTHING
    kept = np.array(corners[1:])
    return Frontier(kept[:, 0], kept[:, 1])


def _turns_left(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> bool:
    """Whether b lies on or below the line from a to c."""
    return (b[1] - a[1]) * (c[0] - a[0]) <= (c[1] - a[1]) * (b[0] - a[0])


def any_prior(spread: float, epsilon: float) -> float:
    """4 atanh(tanh(D/4) tanh(ε/4)), rounded up: what survives if the adversary may believe anything about the state (T4).

    D = max ln [P(z, x) P(z′, x′) / (P(z′, x) P(z, x′))] is the kernel's spread, infinite where P has a zero. Computed as
    2 ln(1 + (e^{D/2} − 1)(e^{ε/2} − 1) / (e^{D/2} + e^{ε/2})), which loses no digits where tanh is nearly 1.

    >>> round(any_prior(math.inf, 0.5), 12), round(any_prior(2.0, 0.0), 12)
    (0.5, 0.0)
    """
    return float(any_prior_rows(np.array([spread]), np.array([epsilon]))[0])


def any_prior_rows(spread: Floats, epsilon: Floats) -> Floats:
    """Return what survives against any prior for each spread and its ε."""
    less, more = np.minimum(spread, epsilon) / 2, np.maximum(spread, epsilon) / 2
    with np.errstate(invalid="ignore", over="ignore"):
        left = 2 * np.log1p(np.expm1(less) * -np.expm1(-more) / (1 + np.exp(less - more))) * ROUND_UP
    result: Floats = np.where(less > STEEP, 2 * less, np.minimum(left, epsilon))
    return result
