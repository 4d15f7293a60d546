"""A Markov chain: the state of now is all that tells about the state of the next step."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from halflife.errors import InvalidInput
from halflife.numerics import whole
from halflife.processes.base import Direction, Process, nothing_yet, register_process, rows_of
from halflife.processes.contraction import ROUND_UP, UNIT_ROUNDOFF, Floats, Frontier, frontier_of

MOST_STATES = 200
ROW_TOLERANCE = 1e-9
REVERSIBLE = 1e-9
LARGEST_LAG = 10**6


@register_process
class MarkovChain(Process):
    """A stationary Markov chain with transition matrix P (rows: from, columns: to), for up to 200 states.

    P̂_t(x, y) = π(y) P_t(y, x) / π(x) is the kernel t steps back (eq. 1; paper). π comes from the subtraction-free elimination of
    Grassmann, Taksar and Heyman (known), kernels from products of non-negative numbers, so every entry is right up to the relative
    error `slack(t)`, by which frontiers are widened. A reducible chain has no single stationary law, and is refused with its
    classes; states that are left for ever are refused by name. A periodic chain never forgets its phase: Δ(t) = 1 for all t, so
    it is allowed and never amplifies.

    >>> chain = MarkovChain([[0.9, 0.1], [0.2, 0.8]])
    >>> chain.stationary.round(4).tolist(), round(chain.total_variation(3), 6)
    ([0.6667, 0.3333], 0.343)
    """

    name: ClassVar[str] = "markov-chain"

    def __init__(self, matrix: Any) -> None:
        self.matrix = _stochastic(matrix)
        self.matrix.flags.writeable = False
        self.stationary = stationary(self.matrix)
        self._powers: dict[Direction, list[Floats]] = {
            "ahead": [self.matrix],
            "back": [_normalised(self.stationary[None, :] * self.matrix.T / self.stationary[:, None])],
        }
        self._frontiers: dict[tuple[int, Direction], Frontier] = {}

    def __repr__(self) -> str:
        return f"MarkovChain({self.matrix.tolist()!r})"

    @property
    def states(self) -> int:
        """How many states there are."""
        return len(self.matrix)

    @property
    def reversible(self) -> bool:
        """Whether π(x) P(x, y) = π(y) P(y, x), within rounding."""
        flow = self.stationary[:, None] * self.matrix
        return bool(np.all(np.abs(flow - flow.T) <= REVERSIBLE * (flow + flow.T)))

    def slack(self, t: int) -> float:
        """How far off, relatively, any entry of a computed kernel over t steps can be."""
        return UNIT_ROUNDOFF * (2 * self.states**3 + t * (self.states + 4))

    def kernel(self, t: int, direction: Direction = "back") -> Floats:
        """Return the kernel over t steps, by repeated squaring."""
        t = whole("t", t, least=0)
        if t > LARGEST_LAG:
            raise InvalidInput(f"kernels are computed up to t = {LARGEST_LAG:,}, not {t:,}")
        result, powers = np.eye(self.states), self._powers[direction]
        for i, bit in enumerate(reversed(f"{t:b}")):
            while len(powers) <= i:
                powers.append(_normalised(powers[-1] @ powers[-1]))
            if bit == "1":
                result = _normalised(result @ powers[i])
        return result

    def frontier(self, t: int, direction: Direction = "back") -> Frontier:
        """Return the frontier of the kernel; beyond 10⁶ steps that of 10⁶ steps, as K only falls."""
        t = min(t, LARGEST_LAG)
        known = self._frontiers.get((t, direction)) or nothing_yet(t)
        if known is None:
            known = self._frontiers[t, direction] = frontier_of(self.kernel(t, direction), self.slack(t))
        return known

    def spread(self, t: int) -> float:
        """D_t = max ln [P_t(z,x) P_t(z′,x′) / (P_t(z′,x) P_t(z,x′))], infinite if a state cannot be reached in t steps."""
        kernel = self.kernel(t, "ahead")
        if not (kernel > 0).all():
            return math.inf
        logs = np.log(kernel)
        widest = max(float(np.ptp(logs[i] - logs, axis=1).max()) for i in range(self.states))
        return widest * ROUND_UP + 4 * self.slack(t)

    def _other_variations(self) -> Mapping[str, Callable[[int], float]]:
        return {"spectral": self._spectral}

    @property
    def second_eigenvalue(self) -> float:
        """λ*, the largest absolute value of an eigenvalue beside 1; of reversible chains only."""
        if not self.reversible:
            raise InvalidInput(
                "the spectral bound (eq. 55) is about reversible chains, and this one is not (erratum A8: it can be wrong "
                "outright): use method='exact'"
            )
        root = np.sqrt(self.stationary)
        values = np.linalg.eigvalsh(_symmetrised(root[:, None] * self.matrix / root[None, :]))
        return float(np.sort(np.abs(values))[-2]) if len(values) > 1 else 0.0

    def _spectral(self, t: int) -> float:
        """min{1, max √((1 − π)/π) λ*^t} (Proposition 5, eq. 55; paper), for reversible chains only."""
        least = float(self.stationary.min())
        return min(1.0, math.sqrt((1 - least) / least) * (self.second_eigenvalue + 1e-12) ** t) if t else 1.0

    def theorem_2_spectral(self, t: int) -> float:
        """max ln (1 + λ*^t/√(π(x)π(z))) / (1 − λ*^t/√(π(x′)π(z))) (eq. 61; corrected, A5), for reversible chains; infinite early on.

        |P_t(x, z) − π(z)| ≤ √(π(z)/π(x)) λ*^t; the paper drops π(x′)/π(x) in (b) and has π(z) for π(x) in (c).
        """
        least = float(self.stationary.min())
        off = (self.second_eigenvalue + 1e-12) ** whole("t", t, least=0) / least
        return math.inf if off >= 1 else (math.log1p(off) - math.log1p(-off)) * ROUND_UP

    def age(self, states: Any, t: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return states t steps older, each drawn from its row of P̂_t (Definition 5, eq. 10; paper)."""
        now = _states("states", states, self.states)
        rows = np.cumsum(self.kernel(t), axis=1)[now]
        drawn: NDArray[np.int64] = (rng.random((*now.shape, 1)) > rows).sum(axis=-1).clip(max=self.states - 1)
        return drawn

    def sample(self, steps: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return one person's states at steps 1 … n, the first from the stationary law."""
        ahead, result = np.cumsum(self.matrix, axis=1), np.empty(whole("steps", steps, least=1), dtype=np.int64)
        chances = rng.random(steps)
        state = int(np.searchsorted(np.cumsum(self.stationary), chances[0], side="right"))
        for i in range(steps):
            if i:
                state = int(np.searchsorted(ahead[state], chances[i], side="right"))
            state = min(state, self.states - 1)
            result[i] = state
        return result

    def parameters(self) -> dict[str, Any]:
        """The matrix."""
        return {"matrix": self.matrix.tolist()}


def _states(name: str, values: Any, states: int) -> NDArray[np.int64]:
    found = np.asarray(values)
    if found.size and (found.dtype.kind not in "iu" or found.min() < 0 or found.max() >= states):
        raise InvalidInput(f"{name} must be whole numbers from 0 to {states - 1}")
    return found.astype(np.int64)


def _normalised(kernel: Floats) -> Floats:
    result: Floats = kernel / kernel.sum(axis=1, keepdims=True)
    return result


def _symmetrised(matrix: Floats) -> Floats:
    result: Floats = (matrix + matrix.T) / 2
    return result


def _stochastic(matrix: Any) -> Floats:
    """Read a transition matrix, naming the row or entry that is wrong."""
    rows = rows_of("a transition matrix", matrix)
    if len(rows) > MOST_STATES:
        raise InvalidInput(f"a chain may have up to {MOST_STATES} states, not {len(rows)}: use fewer, wider ones")
    for i, row in enumerate(rows):
        if len(row) != len(rows):
            raise InvalidInput(
                f"row {i} of the transition matrix has {len(row)} entries, not {len(rows)}: it must be square"
            )
        for j, entry in enumerate(row):
            if isinstance(entry, bool) or not isinstance(entry, int | float | np.floating) or not math.isfinite(entry):
                raise InvalidInput(f"row {i}, column {j} of the transition matrix must be a number, not {entry!r}")
            if entry < 0:
                raise InvalidInput(f"row {i}, column {j} of the transition matrix is negative: {entry!r}")
        total = math.fsum(row)
        if abs(total - 1) > ROW_TOLERANCE:
            raise InvalidInput(f"row {i} of the transition matrix sums to {total:.12g}, not to 1")
    return _normalised(np.array(rows, dtype=np.float64))


def stationary(matrix: Floats) -> Floats:
    """Return π with πP = π, by elimination without subtractions (Grassmann, Taksar, Heyman 1985; known)."""
    from scipy.sparse.csgraph import connected_components

    count, labels = connected_components(matrix > 0, directed=True, connection="strong")
    if count > 1:
        classes = [np.flatnonzero(labels == c).tolist() for c in range(count)]
        closed = [
            c for c in classes if not (matrix[np.ix_(c, [s for s in range(len(matrix)) if s not in c])] > 0).any()
        ]
        if len(closed) > 1:
            raise InvalidInput(
                f"the chain is reducible: whoever is in one of the classes {closed} stays there for ever, so there is no one stationary "
                "law: describe each class as a process of its own, and people by a Population of them"
            )
        transient = sorted(s for c in classes if c not in closed for s in c)
        raise InvalidInput(
            f"states {transient} are left for ever sooner or later, so nobody is in them: drop these rows and columns"
        )
    work, n = matrix.copy(), len(matrix)
    for k in range(n - 1, 0, -1):
        work[:k, k] /= work[k, :k].sum()
        work[:k, :k] += np.outer(work[:k, k], work[k, :k])
    law = np.ones(n)
    for k in range(1, n):
        law[k] = law[:k] @ work[:k, k]
    result: Floats = law / law.sum()
    return result
