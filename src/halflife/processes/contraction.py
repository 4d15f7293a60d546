"""How much of a loss survives a step back in time: the exact contraction of a kernel, as a handful of points.

Let an ε-differentially private mechanism look at a person's state z, drawn from row x of a kernel R. All that is known of the
likelihood f(z) of an output is max f / min f ≤ e^ε, so what the output tells about x is at most

    K(ε) = max over x, x′ and sets B of  ln [1 + (e^ε − 1) R(x, B)] / [1 + (e^ε − 1) R(x′, B)]

(T3; known: the loss function of temporal-correlation privacy, Cao, Yoshikawa, Xiao, Xiong 2017; applying it to aging is ours). For
a pair of rows the best B is a prefix of the states sorted by R(x, z)/R(x′, z), and for a given ε the objective is a ratio of
linear functions of the point (q, p) = (R(x′, B), R(x, B)), which is largest at a corner of the upper left hull of all points. So a
kernel's *frontier*, the corners of that hull, answers every ε: Theorem 1 is its largest p − q, Theorem 2 its largest p / q.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

UNIT_ROUNDOFF = 2.0**-53
STEEP = 700.0
"""Losses above this are treated as this much plus the rest: K grows at most as fast as ε does, and e^ε still is a double."""
ROUND_UP = 1 + 2.0**-48
PAIRS_AT_ONCE = 2_000_000


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
        """max ln p/q, the loss of publishing the exact state (Theorem 2); infinite where a row has a zero that another has not."""
        moving = self.d > 0
        if not moving.any():
            return 0.0
        if (self.q[moving] <= 0).any():
            return math.inf
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


def frontier_of(kernel: Floats, slack: float = 0.0) -> Frontier:
    """Return the frontier of a kernel whose entries are known up to this relative error.

    >>> frontier_of(np.array([[0.9, 0.1], [0.2, 0.8]])).variation  # doctest: +ELLIPSIS
    0.7...
    """
    states = len(kernel)
    at_once = max(1, PAIRS_AT_ONCE // (states * states))
    corners = [_prefixes(kernel, kernel[first : first + at_once]) for first in range(0, states, at_once)]
    points = np.concatenate(corners)
    return hull(points[:, 0] * (1 - slack), points[:, 1] * (1 + slack))


def _prefixes(kernel: Floats, others: Floats) -> Floats:
    """The points (R(x′, B), R(x, B)) of all prefixes B, for x′ in `others` and every x."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(kernel > 0, kernel / others[:, None, :], 0.0)  # (x′, x, z)
    order = np.argsort(-ratios, axis=2, kind="stable")
    upper = np.cumsum(np.take_along_axis(np.broadcast_to(kernel, ratios.shape), order, axis=2), axis=2)
    lower = np.cumsum(np.take_along_axis(np.broadcast_to(others[:, None, :], ratios.shape), order, axis=2), axis=2)
    return np.stack([lower.ravel(), upper.ravel()], axis=1)


def hull(q: Floats, p: Floats) -> Frontier:
    """Return the corners of the upper left hull of (0, 0) and these points that can be best for some ε: up to the largest p − q.

    Points beyond the largest p − q are never best: both their p − q and their q are worse.
    """
    rising = np.lexsort((-p, q))
    q, p = q[rising], p[rising]
    best = np.maximum.accumulate(p)
    record = np.concatenate([[True], best[1:] > best[:-1]]) & (p > q)
    q, p = q[record], p[record]
    if not len(q):
        return NOTHING
    widest = int(np.argmax(p - q)) + 1
    corners: list[tuple[float, float]] = [(0.0, 0.0)]
    for point in zip(q[:widest].tolist(), p[:widest].tolist(), strict=True):
        while len(corners) > 1 and _turns_left(corners[-2], corners[-1], point):
            corners.pop()
        corners.append(point)
    kept = np.array(corners[1:])
    return Frontier(kept[:, 0], kept[:, 1] - kept[:, 0])


def _turns_left(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> bool:
    """Whether b lies on or below the line from a to c."""
    return (b[1] - a[1]) * (c[0] - a[0]) <= (c[1] - a[1]) * (b[0] - a[0])


def merge(frontiers: list[Frontier]) -> Frontier:
    """Return the frontier of several kernels together: the worst of them, for every ε."""
    if len(frontiers) == 1:
        return frontiers[0]
    q = np.concatenate([f.q for f in frontiers])
    return hull(q, q + np.concatenate([f.d for f in frontiers]) * (1 + 4 * UNIT_ROUNDOFF))


def any_prior(spread: float, epsilon: float) -> float:
    """4 atanh(tanh(D/4) tanh(ε/4)), rounded up: what survives if the adversary may believe anything about the state (T4).

    D = max ln [P(z, x) P(z′, x′) / (P(z′, x) P(z, x′))] is the kernel's spread, infinite where P has a zero.

    >>> round(any_prior(math.inf, 0.5), 12), round(any_prior(2.0, 0.0), 12)
    (0.5, 0.0)
    """
    if spread == math.inf:
        return epsilon
    return min(epsilon, 4 * math.atanh(math.tanh(spread / 4) * math.tanh(epsilon / 4)) * ROUND_UP)
