"""How a loss fades between two times, worked out again from kernels: plain matrix powers, in plain doubles.

K_t(ε) is what is left of a loss of ε about the state t steps ago, as a loss about the state of now. It is a maximum over all
pairs of rows of the reversed kernel and all prefixes of their sorted states; stationary laws come from linear equations.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from halflife.numerics.arrays import Floats
from halflife.processes import AutoRegressive, GeometricMixing, MarkovChain, PeriodicMarkovChain, Process

Points = tuple[Floats, Floats]


def faded_loss(q: Floats, p: Floats, loss: float) -> float:
    """Return max ln [1 + (e^ε − 1) p] / [1 + (e^ε − 1) q] over points (q, p) (T3), and never more than ε.

    >>> round(faded_loss(np.array([0.1]), np.array([0.9]), 1.0), 6)
    0.776137
    """
    growth = math.expm1(min(loss, 700.0))
    found = float(np.log((1 + growth * p) / (1 + growth * q)).max(initial=0.0))
    return min(loss, found + max(0.0, loss - 700.0))


def likelihood_points(process: Process, gap: int) -> Points:
    """Return (R(x′, B), R(x, B)) of all pairs of rows of the kernel `gap` steps back and all prefixes of their sorted states."""
    if isinstance(process, GeometricMixing):
        return np.zeros(1), np.array([min(1.0, process.c * process.rho**gap)])
    if isinstance(process, MarkovChain):
        return _prefixes([reversed_kernel(process, gap)])
    if isinstance(process, PeriodicMarkovChain):
        return _prefixes([reversed_kernel_of_slot(process, gap, slot) for slot in range(process.slots)])
    frontier = process.frontier(gap)  # of a process that is nothing but its frontier there is no other source
    return frontier.q, frontier.q + frontier.d


def _prefixes(kernels: Sequence[Floats]) -> Points:
    q, p = [np.zeros(1)], [np.zeros(1)]
    for kernel in kernels:
        for x, y in itertools.permutations(range(len(kernel)), 2):
            with np.errstate(divide="ignore", invalid="ignore"):
                order = np.argsort(-np.where(kernel[x] > 0, kernel[x] / kernel[y], 0.0), kind="stable")
            p.append(np.cumsum(kernel[x][order]))
            q.append(np.cumsum(kernel[y][order]))
    return np.concatenate(q), np.concatenate(p)


def reversed_kernel(chain: MarkovChain, gap: int) -> Floats:
    """Return P̂_t(x, y) = π(y) P_t(y, x) / π(x), by a plain matrix power and the law that solves πP = π.

    >>> reversed_kernel(MarkovChain([[0.9, 0.1], [0.1, 0.9]]), 2).round(4).tolist()
    [[0.82, 0.18], [0.18, 0.82]]
    """
    matrix = np.asarray(chain.matrix)
    n = len(matrix)
    rows = np.vstack([matrix.T - np.eye(n), np.ones(n)])
    law = np.linalg.lstsq(rows, np.append(np.zeros(n), 1.0), rcond=None)[0]
    result: Floats = law[None, :] * np.linalg.matrix_power(matrix, gap).T / law[:, None]
    return result


def reversed_kernel_of_slot(process: PeriodicMarkovChain, gap: int, slot: int) -> Floats:
    """Return the kernel back from a slot; rows of states that are impossible then are left out."""
    ahead = np.eye(process.states)
    for s in range(slot - gap, slot):
        ahead = ahead @ process.kernels[s % process.slots]
    now = process.laws[slot] > 0
    back: Floats = process.laws[(slot - gap) % process.slots][None, :] * ahead.T[now] / process.laws[slot][now][:, None]
    return back


def largest_log_odds(process: Process, gap: int) -> float:
    """Return D_t = max ln [P(z,x) P(z′,x′) / (P(z′,x) P(z,x′))]."""
    if isinstance(process, MarkovChain):
        ahead = np.linalg.matrix_power(process.matrix, gap)
        if not (ahead > 0).all():
            return math.inf
        logs = np.log(ahead)
        return max(float(np.ptp(a - b)) for a, b in itertools.combinations(logs, 2)) if len(logs) > 1 else 0.0
    return process.spread(gap)


def faded_loss_on_span(process: AutoRegressive, gap: int, loss: float) -> float:
    """Return K_t(ε) of AR(1) on its span: the best half-line, looked for on finer and finer grids.

    >>> round(faded_loss_on_span(AutoRegressive(0.9, 1.0, 1.0), 3, 1.0), 6)
    0.182867
    """
    from scipy.special import ndtr

    if gap == 0:
        return loss
    kept = process.rho**gap
    apart = abs(kept) * process.span / (process.sigma * math.sqrt((1 - kept**2) / (1 - process.rho**2)))
    growth, low, high, best = math.expm1(min(loss, 700.0)), -12.0, 12.0 + apart, 0.0
    for _ in range(8):
        a = np.linspace(low, high, 2001)
        found = np.log((1 + growth * ndtr(apart - a)) / (1 + growth * ndtr(-a)))
        at, step = int(found.argmax()), float(a[1] - a[0])
        best, low, high = max(best, float(found[at])), float(a[at]) - 2 * step, float(a[at]) + 2 * step
    return min(loss, best)
