"""Kernels of Markov chains: reading, powers, reversal and stationary laws, with the rounding error of each."""

from __future__ import annotations

import math

import numpy as np

from halflife.errors import InvalidInput
from halflife.numerics.arrays import Floats
from halflife.numerics.parameters import whole
from halflife.processes.base import read_rows
from halflife.processes.contraction import ROUND_UP, TINY, UNIT_ROUNDOFF

MOST_STATES = 200
ROW_TOLERANCE = 1e-9
LARGEST_LAG = 10**6


def stochastic(name: str, matrix: object) -> Floats:
    """Read a transition matrix, naming the row or entry that is wrong."""
    rows = read_rows(name, matrix)
    if len(rows) > MOST_STATES:
        raise InvalidInput(f"a chain may have up to {MOST_STATES} states, not {len(rows)}: use fewer, wider ones")
    for i, row in enumerate(rows):
        if len(row) != len(rows):
            raise InvalidInput(f"row {i} of {name} has {len(row)} entries, not {len(rows)}: it must be square")
        for j, entry in enumerate(row):
            number = isinstance(entry, int | float | np.floating | np.integer) and not isinstance(entry, bool)
            if not number or not abs(entry) < 1e300:
                raise InvalidInput(f"row {i}, column {j} of {name} must be a number, not {entry!r}")
            if entry < 0:
                raise InvalidInput(f"row {i}, column {j} of {name} is negative: {entry!r}")
        total = math.fsum(row)
        if abs(total - 1) > ROW_TOLERANCE:
            raise InvalidInput(f"row {i} of {name} sums to {total:.12g}, not to 1")
    found = np.array(rows, dtype=np.float64)
    sums = found.sum(axis=1, keepdims=True)
    exact = np.abs(sums - 1) <= 4 * len(rows) * UNIT_ROUNDOFF  # what was normalised once stays as it is, bit by bit
    result: Floats = np.where(exact, found, found / sums)
    return result


def normalise(kernel: Floats) -> Floats:
    """Return the kernel with rows that sum to one."""
    result: Floats = kernel / kernel.sum(axis=-1, keepdims=True)
    return result


def lag(name: str, t: object) -> int:
    """Read a number of steps that kernels are computed for."""
    steps = whole(name, t, least=0)
    if steps > LARGEST_LAG:
        raise InvalidInput(f"kernels are computed up to {name} = {LARGEST_LAG:,}, not {steps:,}")
    return steps


def power(powers: list[Floats], t: int) -> Floats:
    """Return P_t from the list of P_1, P_2, P_4, …, which grows as needed; also of stacks of kernels."""
    result: Floats | None = None
    for i, bit in enumerate(reversed(f"{t:b}")):
        while len(powers) <= i:
            powers.append(normalise(powers[-1] @ powers[-1]))
        if bit == "1":
            result = powers[i] if result is None else normalise(result @ powers[i])
    return np.broadcast_to(np.eye(powers[0].shape[-1]), powers[0].shape) if result is None else result


def reverse(ahead: Floats, before: Floats, now: Floats) -> Floats:
    """Return π_before(y) P_t(y, x) / π_now(x) as a kernel from x to y; also of stacks of kernels."""
    result: Floats = before[..., None, :] * np.swapaxes(ahead, -1, -2) / now[..., :, None]
    return result


def rounding_of(states: int, t: int, cycle: int = 1) -> float:
    """Return how far off, relatively, an entry of a computed kernel over t steps can be, for a cycle of so many kernels.

    A product of kernels whose rows sum to one, normalised again, adds at most 5n + 8 roundings of 2⁻⁵³ to the errors of its
    factors, so P_t carries (5n + 8) t. π is off by 2n³ roundings, and by 2n for each one that its matrix is off (O'Cinneide 1993;
    known). π stands twice in the reversal.
    """
    of_a_product = 5 * states + 8
    return UNIT_ROUNDOFF * (4 * states**3 + t * of_a_product + 4 * states * (cycle - 1) * of_a_product)


def shorter(t: int) -> int:
    """Return the largest power of two below t, 0 if there is none: a lag to compare t with, as what is left only falls.

    Rounding errors grow with t, and outweigh what is left sooner or later. Then what is known of the shorter lag serves.

    >>> [shorter(t) for t in (1, 2, 3, 4, 5, 1000)]
    [0, 1, 2, 2, 4, 512]
    """
    return 1 << ((t - 1).bit_length() - 1) if t > 1 else 0


def spread_of(ahead: Floats, slack: float) -> float:
    """Return D = max ln [P(z, x) P(z′, x′) / (P(z′, x) P(z, x′))], rounded up; infinite where P has a zero.

    >>> round(spread_of(np.array([[0.9, 0.1], [0.1, 0.9]]), 0.0), 6) == round(4 * math.log(3), 6)
    True
    """
    if len(ahead) == 1:
        return 0.0
    if not (ahead > TINY).all():
        return math.inf
    logs = np.log(ahead)
    widest = max(float(np.ptp(row - logs, axis=1).max()) for row in logs)
    return widest * ROUND_UP + 4 * slack + 8 * UNIT_ROUNDOFF * float(-logs.min())


def stationary(matrix: Floats) -> Floats:
    """Return π with πP = π, by elimination without subtractions (Grassmann, Taksar, Heyman 1985; known)."""
    closed, transient = classes(matrix)
    if len(closed) > 1:
        raise InvalidInput(
            f"the chain is reducible: whoever is in one of the classes {closed} stays there for ever, so there is no one "
            "stationary law: describe each class as a process of its own, and people by a ProcessFamily of them"
        )
    if transient:
        raise InvalidInput(
            f"states {transient} are left for ever sooner or later, so nobody is in them: drop these rows and columns"
        )
    return elimination(matrix)


def classes(matrix: Floats) -> tuple[list[list[int]], list[int]]:
    """Return the classes of states that are never left, and the states that are left for ever.

    >>> classes(np.array([[0.5, 0.5, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]))
    ([[1], [2]], [0])
    """
    from scipy.sparse.csgraph import connected_components

    count, labels = connected_components(matrix > 0, directed=True, connection="strong")
    leaves = np.zeros(count, dtype=bool)
    start, end = np.nonzero(matrix > 0)
    leaves[labels[start[labels[start] != labels[end]]]] = True
    closed = sorted(np.flatnonzero(labels == c).tolist() for c in range(count) if not leaves[c])
    return closed, np.flatnonzero(leaves[labels]).tolist()


def elimination(matrix: Floats) -> Floats:
    """Return π of an irreducible matrix."""
    work, n = matrix.copy(), len(matrix)
    law = np.ones(n)
    with np.errstate(all="ignore"):
        for k in range(n - 1, 0, -1):
            work[:k, k] /= work[k, :k].sum()
            work[:k, :k] += np.outer(work[:k, k], work[k, :k])
        for k in range(1, n):
            law[k] = law[:k] @ work[:k, k]
        result: Floats = law / law.sum()
    if not (result > TINY).all():
        rare = np.flatnonzero(~(result > TINY)).tolist()
        raise InvalidInput(
            f"the chain is in states {rare} with a probability too small for a double: drop or merge them"
        )
    return result
