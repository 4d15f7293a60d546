"""Composition by data time that tells pairs of states apart (T4b), for chains with few states."""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from halflife.errors import InvalidInput
from halflife.notions.age_dependent.fading import add_up
from halflife.numerics.arrays import Floats
from halflife.numerics.parameters import real, whole
from halflife.processes import MarkovChain
from halflife.processes.contraction import ROUND_UP

LARGEST_LAG = 10**6
MOST_STATES = 16
"""More pairs than this allows would take seconds a release: one linear program a pair."""


LEAPS = (1, 2, 3, 4, 6, 8, 12, 16)
"""How many releases back a leap may land; each costs the losses in between in full, and a linear program a pair."""


Matrix = tuple[tuple[float, ...], ...]


class PairLosses(NamedTuple):
    """A data time, the loss about it, and the loss of earlier releases about each pair of states at that time."""

    time: int
    loss: float
    before: Matrix


class Pairwise:
    """R_n(x, x′), the loss about the pair of states x, x′ at data time τ_n from releases before it (T4b with leaps; ours): the
    least over j of

        Σ_{j<i<n} ε_i + max over f of  ln Σ_z P̂(x, z) f(z) / Σ_z P̂(x′, z) f(z)   with   ln f(z) − ln f(z′) ≤ ε_j + R_j(z, z′)

    and P̂ the kernel from τ_n back to τ_j: a linear program for each pair, of which any dual solution gives an upper bound, so
    the solver's accuracy does not matter. A data time older than the newest adds its loss in full to every pair.
    """

    def __init__(self, chain: MarkovChain) -> None:
        if chain.states > MOST_STATES:
            raise InvalidInput(
                f"bound='pairwise' is for up to {MOST_STATES} states, not {chain.states}: use bound='tight'"
            )
        self._chain = chain

    def start(self) -> tuple[PairLosses, ...]:
        """Nothing published."""
        return ()

    def add(self, state: tuple[PairLosses, ...], time: int, loss: float) -> tuple[PairLosses, ...]:
        """Put a loss to its data time."""
        if state and time <= state[-1].time:
            return (*state[:-1], state[-1]._replace(loss=add_up(state[-1].loss, loss)))
        return (*state, PairLosses(time, loss, self._compose(state, time)))[-LEAPS[-1] :]

    def _compose(self, state: tuple[PairLosses, ...], step: int) -> Matrix:
        """Return the loss of all releases about each pair of states at `step`."""
        n = self._chain.states
        best, over = np.full((n, n), math.inf), 0.0
        for back, landing in enumerate(reversed(state), start=1):
            if over >= best.max():
                break
            if back in LEAPS:
                best = np.minimum(best, over * ROUND_UP + np.array(self._fade(landing, step - landing.time)))
            over += landing.loss
        return tuple(tuple(row) for row in (best if state else np.zeros((n, n))).tolist())

    def _fade(self, pairs: PairLosses, gap: int) -> Matrix:
        n = self._chain.states
        own = tuple(
            tuple(0.0 if i == j else add_up(pairs.before[i][j], pairs.loss) for j in range(n)) for i in range(n)
        )
        return own if gap == 0 else _worst_pairs(self._chain, gap, own)

    def risk(self, state: tuple[PairLosses, ...], step: int) -> float:
        """The worst pair's loss about X_step, a step not before any data time."""
        return max(max(row) for row in self._compose(state, step))

    def dump(self, state: tuple[PairLosses, ...]) -> object:
        """As lists."""
        return [[t.time, t.loss, [list(row) for row in t.before]] for t in state]

    def load(self, data: object) -> tuple[PairLosses, ...]:
        """Read what `dump` gave."""
        if (
            not isinstance(data, list)
            or len(data) > LEAPS[-1]
            or not all(isinstance(x, list) and len(x) == 3 for x in data)
        ):
            raise InvalidInput(f"a pairwise account must hold what it told about each pair, not {data!r}")
        told = tuple(PairLosses(whole("data time", t), real("loss", x), self._matrix(rows)) for t, x, rows in data)
        if any(b.time <= a.time for a, b in pairwise(told)):
            raise InvalidInput("the data times of a pairwise account must ascend")
        return told

    def _matrix(self, rows: object) -> Matrix:
        n = self._chain.states
        if (
            not isinstance(rows, list)
            or len(rows) != n
            or not all(isinstance(row, list) and len(row) == n for row in rows)
        ):
            raise InvalidInput(f"a pairwise account of {n} states must hold as many rows and columns")
        return tuple(tuple(real("told", x) for x in row) for row in rows)


@lru_cache(maxsize=4096)
def _worst_pairs(chain: MarkovChain, gap: int, allowed: Matrix) -> Matrix:
    gap = min(gap, LARGEST_LAG)  # kernels only lose
    limits, slack = np.array(allowed), chain.slack(gap)
    crude = chain.contract(float(limits.max()), gap)
    found = worst_pairs(chain.kernel(gap) * (1 + slack), chain.kernel(gap) * (1 - slack), limits)
    return tuple(tuple(row) for row in np.minimum(found, crude).tolist())


def worst_pairs(upper: Floats, lower: Floats, allowed: Floats) -> Floats:
    """Return upper bounds on max ln (a_x·f / b_y·f), x ≠ y, over f > 0 with ln f(z) − ln f(z′) ≤ allowed(z, z′); a, b rows of
    both kernels.

    All pairs are one program whose blocks do not touch. For every y ≥ 0 the value λ = max_z (a − Aᵀy)_z / b_z is a bound (weak
    duality, A f ≤ 0 the constraints), infinite if the solver's y is of no use.

    >>> lazy = np.array([[0.9, 0.1], [0.1, 0.9]])
    >>> worst_pairs(lazy, lazy, np.array([[0.0, 1.0], [1.0, 0.0]])).round(6)
    array([[0.      , 0.776137],
           [0.776137, 0.      ]])
    """
    from scipy.optimize import linprog
    from scipy.sparse import block_diag

    n = len(allowed)
    result = np.where(np.eye(n, dtype=bool), 0.0, math.inf)
    pairs = [(x, y) for x in range(n) for y in range(n) if x != y]
    rules = _rules(allowed)
    if not pairs or not len(rules):
        return result
    found: Any = linprog(  # type: ignore[call-overload]
        -np.concatenate([upper[x] for x, _ in pairs]),
        A_ub=block_diag([rules] * len(pairs), format="csr"),
        b_ub=np.zeros(len(rules) * len(pairs)),
        A_eq=block_diag([lower[y][None, :] for _, y in pairs], format="csr"),
        b_eq=np.ones(len(pairs)),
        method="highs-ds",
    )
    if found.status != 0:
        return result
    duals = np.maximum(-found.ineqlin.marginals, 0.0).reshape(len(pairs), len(rules))
    for (x, y), dual in zip(pairs, duals, strict=True):
        result[x, y] = _dual_bound(upper[x], lower[y], rules, dual)
    return result


def _rules(allowed: Floats) -> Floats:
    """One row a pair z, z′: f(z) e^{−c} − f(z′) ≤ 0, scaled so that no entry is above 1."""
    n = len(allowed)
    pairs = [(i, j) for i in range(n) for j in range(n) if i != j and allowed[i, j] < 600]
    rows = np.zeros((len(pairs), n))
    for k, (i, j) in enumerate(pairs):
        rows[k, i], rows[k, j] = math.exp(-allowed[i, j]), -1.0
    return rows


def _dual_bound(a: Floats, b: Floats, rules: Floats, dual: Floats) -> float:
    left = a - rules.T @ dual
    with np.errstate(divide="ignore", invalid="ignore"):
        value = float(np.where(left > 0, left * (1 + 1e-12) / b, 0.0).max())
    return max(0.0, math.log(value)) * ROUND_UP + 1e-13 if 0 < value < math.inf else math.inf
