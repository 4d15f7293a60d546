"""The contraction of a process for arrays: how much of each loss is left after each gap."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from halflife.numerics.arrays import Floats, Integers
from halflife.processes.base import Direction, Process
from halflife.processes.contraction import any_prior_rows, contract_rows

REMEMBERED, LONGEST = 256, 256
"""How many tables are kept, and of how many gaps: longer ones would fill the memory."""
LARGEST_LAG = 10**6
"""D_t only falls, so that of a longer gap is at most that of this one."""


class Fade(Protocol):
    """A function from gaps and losses to what is left of the losses, rounded up, none larger than before."""

    def __call__(self, gaps: Integers, losses: Floats) -> Floats:
        """Return what is left of each loss."""
        ...


class Frontiers:
    """K_t of a process for the gaps of a window: a table of frontiers, padded; with `bound="paper"` Theorem 1's single point.

    >>> from halflife.processes import MarkovChain
    >>> fade = Frontiers(MarkovChain([[0.9, 0.1], [0.1, 0.9]]), "tight")
    >>> fade(np.array([0, 1, 10]), np.ones(3)).round(6)
    array([1.      , 0.776137, 0.09932 ])
    """

    def __init__(self, process: Process, bound: str, direction: Direction = "back") -> None:
        self._process, self._bound, self._direction = process, bound, direction
        self._tables: dict[bytes, tuple[Floats, Floats]] = {}

    def __call__(self, gaps: Integers, losses: Floats) -> Floats:
        """Return K of each gap at its loss."""
        if len(gaps) > LONGEST:
            return contract_rows(*self._table(gaps), losses)
        key = gaps.tobytes()
        table = self._tables.get(key)
        if table is None:
            if len(self._tables) >= REMEMBERED:
                self._tables.clear()
            table = self._tables[key] = self._table(gaps)
        return contract_rows(*table, losses)

    def _table(self, gaps: Integers) -> tuple[Floats, Floats]:
        distinct, places = np.unique(gaps, return_inverse=True)
        frontiers = [self._process.frontier(gap, self._direction) for gap in distinct.tolist()]
        if self._bound == "paper":
            return np.zeros((len(gaps), 1)), np.array([[f.variation] for f in frontiers])[places]
        q = np.zeros((len(distinct), max(len(f.q) for f in frontiers)))
        d = np.zeros_like(q)
        for i, f in enumerate(frontiers):
            q[i, : len(f.q)], d[i, : len(f.d)] = f
        return q[places], d[places]


class AnyPrior:
    """4 atanh(tanh(D_t/4) tanh(ε/4)): what is left against an adversary who may believe anything; the same ahead as back.

    >>> from halflife.processes import MarkovChain
    >>> AnyPrior(MarkovChain([[0.9, 0.1], [0.1, 0.9]]))(np.array([0, 1]), np.ones(2)).round(6)
    array([1.      , 0.794007])
    """

    def __init__(self, process: Process) -> None:
        self._process = process
        self._spreads: dict[int, float] = {}

    def __call__(self, gaps: Integers, losses: Floats) -> Floats:
        """Return what is left of each loss after its gap."""
        return any_prior_rows(self.spreads(gaps), losses)

    def spreads(self, gaps: Integers) -> Floats:
        """Return D of each gap, infinite for none."""
        return np.array([np.inf if g == 0 else self._spread(min(g, LARGEST_LAG)) for g in gaps.tolist()])

    def _spread(self, gap: int) -> float:
        if gap not in self._spreads:
            self._spreads[gap] = self._process.spread(gap)
        return self._spreads[gap]


def add_up(a: float, b: float) -> float:
    """Return a + b, rounded up unless it is exact.

    >>> add_up(0.25, 0.5), add_up(0.1, 0.2) >= 0.3
    (0.75, True)
    """
    total = a + b
    return total if total - a == b and total - b == a else float(np.nextafter(total, np.inf))
