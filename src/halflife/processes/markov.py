"""Markov chains: the next state depends on the current one alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from halflife.errors import InvalidInput, errors_about
from halflife.numerics.arrays import Floats
from halflife.numerics.forms import JsonObject
from halflife.numerics.parameters import whole
from halflife.processes.base import Direction, Process, frontier_at_zero, register_process
from halflife.processes.contraction import NOTHING, ROUND_UP, Frontier, frontier_of
from halflife.processes.fitting import NO_SMOOTHING, fit_chain, read_fit, wrong_sequences
from halflife.processes.kernels import (
    LARGEST_LAG,
    lag,
    power,
    reverse,
    rounding_of,
    shorter,
    spread_of,
    stationary,
    stochastic,
)
from halflife.processes.sequences import read_sequences

REVERSIBLE = 1e-11
MOST_REMEMBERED = 8192


@register_process
class MarkovChain(Process):
    """A stationary Markov chain with transition matrix P (rows: from, columns: to), for up to 200 states.

    P̂_t(x, y) = π(y) P_t(y, x) / π(x) is the kernel t steps back (eq. 1; paper). π comes from the elimination without
    subtractions of Grassmann, Taksar and Heyman (known), P_t from products of non-negative numbers, so every entry is right up
    to the relative error `slack(t)`, by which frontiers are widened. A reducible chain has no single stationary law, and is
    refused with its classes; states that are left for ever are refused by name. A periodic chain never forgets its phase: Δ(t)
    = 1 for all t, so it is allowed and never amplifies. A chain of one state has nothing to tell.

    >>> chain = MarkovChain([[0.9, 0.1], [0.2, 0.8]])
    >>> chain.stationary.round(4).tolist(), round(chain.total_variation(3), 6)
    ([0.6667, 0.3333], 0.343)
    """

    name: ClassVar[str] = "markov-chain"

    def __init__(self, matrix: object, fitted: Mapping[str, object] | None = None) -> None:
        with errors_about("matrix"):
            self.matrix = stochastic("the transition matrix", matrix)
            self.stationary = stationary(self.matrix)
        self.matrix.flags.writeable = False
        self.fitted = read_fit(fitted)
        """How `fit` came to the matrix, as JSON can hold it; None if the matrix was given."""
        self._powers = [self.matrix]
        self._frontiers: dict[tuple[int, Direction], Frontier] = {}

    @classmethod
    def fit(cls, sequences: object, states: object = None, smoothing: float = NO_SMOOTHING) -> MarkovChain:
        """Fit one chain to all people's readings: P(x, y) = (n(x, y) + s) / Σ_y′ (n(x, y′) + s), n counting pairs of readings.

        sequences  numbers, one list a person; NaN, None and infinities are missing, and no pair with a missing end counts
        states     how many quantile states (of all readings together; tied ones are merged and counted in `fitted`), or the inner
                   edges between states, or None if the numbers are states
        smoothing  s, what is added to each count. 0 (the default) gives the plain frequencies; then a state that is never left is
                   refused. Smoothing makes rows more alike, so the chain forgets faster than the counts say: keep it small.

        >>> chain = MarkovChain.fit([[0, 0, 1, None, 1, 1, 0]])
        >>> chain.matrix.tolist(), chain.fitted["transitions"]
        ([[0.5, 0.5], [0.5, 0.5]], 4)
        """
        return cls._fit(read_sequences(sequences), states, smoothing)

    @classmethod
    def _fit(cls, sequences: list[Floats], states: object, smoothing: float, person: int | None = None) -> MarkovChain:
        matrix, fitted = fit_chain(sequences, states, smoothing, person)
        try:
            return cls(matrix, fitted)
        except InvalidInput as error:
            raise wrong_sequences(len(sequences), f": {error}; or give a smoothing above 0", person) from None

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
        return rounding_of(self.states, t)

    def kernel(self, t: int, direction: Direction = "back") -> Floats:
        """Return the kernel over t steps, by repeated squaring."""
        ahead = power(self._powers, lag("t", t))
        return ahead if direction == "ahead" else reverse(ahead, self.stationary, self.stationary)

    def frontier(self, t: int, direction: Direction = "back") -> Frontier:
        """Return the frontier of the kernel; beyond 10⁶ steps that of 10⁶ steps, as K only falls, and see `shorter`."""
        t = min(t, LARGEST_LAG)
        if self.states == 1:
            return NOTHING
        known = self._frontiers.get((t, direction)) or frontier_at_zero(t)
        if known is None:
            known = frontier_of(self.kernel(t, direction), self.slack(t))
            if (less := shorter(t)) and (left := self.frontier(less, direction)).variation <= known.variation:
                known = left
            if len(self._frontiers) >= MOST_REMEMBERED:
                self._frontiers.clear()
            self._frontiers[t, direction] = known
        return known

    def spread(self, t: int) -> float:
        """D_t = max ln [P_t(z,x) P_t(z′,x′) / (P_t(z′,x) P_t(z,x′))], infinite if a state cannot be reached in t steps."""
        t = min(t, LARGEST_LAG)
        own = spread_of(self.kernel(t, "ahead"), self.slack(t))
        return min(own, self.spread(less)) if (less := shorter(t)) else own

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
        values = np.linalg.eigvalsh(_symmetrise(root[:, None] * self.matrix / root[None, :]))
        return float(np.sort(np.abs(values))[-2]) if len(values) > 1 else 0.0

    def _spectral(self, t: int) -> float:
        """min{1, max √((1 − π)/π) λ*^t} (Proposition 5, eq. 55; paper, for reversible chains only: A8)."""
        least = float(self.stationary.min())
        return min(1.0, math.sqrt((1 - least) / least) * (self.second_eigenvalue + 1e-12) ** t) if t else 1.0

    def theorem_2_spectral(self, t: int) -> float:
        """max ln (1 + λ*^t/√(π(x)π(z))) / (1 − λ*^t/√(π(x′)π(z))) (eq. 61; corrected, A5), for reversible chains.

        |P_t(x, z) − π(z)| ≤ √(π(z)/π(x)) λ*^t; the paper drops π(x′)/π(x) in (b) and has π(z) for π(x) in (c). Infinite early on.
        """
        least = float(self.stationary.min())
        off = (self.second_eigenvalue + 1e-12) ** whole("t", t, least=0) / least
        return math.inf if off >= 1 else (math.log1p(off) - math.log1p(-off)) * ROUND_UP

    def age(self, states: Any, t: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return states t steps older, each drawn from its row of P̂_t (Definition 5, eq. 10; paper)."""
        return draw(self.kernel(t), read_states(states, self.states), rng)

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

    def parameters(self) -> JsonObject:
        """The matrix, and how it was fitted."""
        return {"matrix": self.matrix.tolist()} | ({} if self.fitted is None else {"fitted": self.fitted})


def read_states(states: object, count: int) -> NDArray[np.int64]:
    """Read an array of states of a chain with this many."""
    found = np.asarray(states)
    if found.size and (found.dtype.kind not in "iu" or found.min() < 0 or found.max() >= count):
        raise InvalidInput(f"states must be whole numbers from 0 to {count - 1}")
    return found.astype(np.int64)


def draw(kernel: Floats, now: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Return one draw from the row of the kernel that belongs to each of these states."""
    rows = np.cumsum(kernel, axis=1)[now]
    rows /= rows[..., -1:]
    drawn: NDArray[np.int64] = (rng.random((*now.shape, 1)) >= rows).sum(axis=-1).clip(max=len(kernel) - 1)
    return drawn


def _symmetrise(matrix: Floats) -> Floats:
    result: Floats = (matrix + matrix.T) / 2
    return result
