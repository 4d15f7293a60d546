"""A Markov chain whose kernel depends on the time of day."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from halflife.errors import InvalidInput, errors_about
from halflife.numerics.arrays import Floats
from halflife.numerics.forms import JsonObject
from halflife.numerics.parameters import whole
from halflife.processes.base import Direction, Process, frontier_at_zero, register_process
from halflife.processes.contraction import NOTHING, TINY, Frontier, frontier_of_all
from halflife.processes.fitting import NO_SMOOTHING, fit_cycle, read_fit
from halflife.processes.kernels import (
    LARGEST_LAG,
    classes,
    elimination,
    lag,
    normalise,
    reverse,
    rounding_of,
    shorter,
    spread_of,
    stochastic,
)
from halflife.processes.markov import draw, read_states
from halflife.processes.sequences import read_sequences

MOST_SLOTS = 1_000


@register_process
class PeriodicMarkovChain(Process):
    """A Markov chain with one kernel per slot of a cycle: kernel s moves the state of slot s to slot s + 1 (ours).

    The time of day is public: everybody knows which slot it is, and only what a state tells beyond the clock counts. The laws π_s
    of the slots repeat from cycle to cycle (π_{s+1} = π_s P_s), and the kernel t steps back from slot s is
    P̂(x, y) = π_{s−t}(y) [P_{s−t} ⋯ P_{s−1}](y, x) / π_s(x). A frontier is that of all slots together: the worst time of day, so
    that it holds whenever something is published.

    A state may be impossible at some times of day; its rows there are left out. A cycle with two classes of states, of which
    neither leads to the other, has no one law, and is refused.

    >>> night, day = [[0.9, 0.1], [0.5, 0.5]], [[0.6, 0.4], [0.4, 0.6]]
    >>> chain = PeriodicMarkovChain([night, day])
    >>> chain.laws.round(4).tolist(), [round(chain.total_variation(t), 4) for t in (1, 2)]
    ([[0.5435, 0.4565], [0.7174, 0.2826]], [0.4895, 0.08])
    """

    name: ClassVar[str] = "periodic-markov-chain"

    def __init__(self, kernels: object, fitted: Mapping[str, object] | None = None) -> None:
        with errors_about("kernels"):
            self.kernels = _cycle(kernels)
            self.laws = _laws(self.kernels)
            """π_s, one row a slot."""
        self.kernels.flags.writeable = False
        self.fitted = read_fit(fitted)
        """How `fit` came to the kernels, as JSON can hold it; None if they were given."""
        self._powers = [self.kernels]
        self._frontiers: dict[tuple[int, Direction], Frontier] = {}

    @classmethod
    def fit(cls, sequences: object, states: object, slots: int, smoothing: float = NO_SMOOTHING) -> PeriodicMarkovChain:
        """Fit one chain to people's readings, of which the first is in slot 0, the next in slot 1, and so on round the cycle.

        Sequences, states and smoothing are those of `MarkovChain.fit`; states are the same at all times of day. Without smoothing
        a state that never occurs in a slot is impossible there (`fitted` counts them), and one that occurs there without ever
        being followed by a reading is refused.

        >>> chain = PeriodicMarkovChain.fit([[0, 0, 1, 1, 0, 1, 1, 0, 0, 0, 1]], states=None, slots=2)
        >>> chain.kernels.round(3).tolist()
        [[[0.667, 0.333], [0.5, 0.5]], [[0.333, 0.667], [0.5, 0.5]]]
        """
        slots = whole("slots", slots, least=1)
        if slots > MOST_SLOTS:
            raise InvalidInput(f"a cycle may have up to {MOST_SLOTS:,} slots, not {slots:,}")
        kernels, about = fit_cycle(read_sequences(sequences), states, slots, smoothing)
        try:
            return cls(kernels, about)
        except InvalidInput as error:
            raise InvalidInput(f"the sequences: {error}; or give a smoothing above 0") from None

    def __repr__(self) -> str:
        return f"PeriodicMarkovChain of {self.slots} slots and {self.states} states"

    @property
    def slots(self) -> int:
        """How many steps a cycle has."""
        return len(self.kernels)

    @property
    def states(self) -> int:
        """How many states there are."""
        return len(self.kernels[0])

    def slack(self, t: int) -> float:
        """How far off, relatively, any entry of a computed kernel over t steps can be."""
        return rounding_of(self.states, t, self.slots + 1)

    def kernel(self, t: int, direction: Direction = "back", slot: int = 0) -> Floats:
        """Return the kernel over t steps from X_now, where now is in this slot; rows of impossible states are zero."""
        found: Floats = self._all_kernels(lag("t", t), direction)[whole("slot", slot, least=0) % self.slots]
        return found

    def _all_kernels(self, t: int, direction: Direction) -> Floats:
        """The kernels over t steps from every slot."""
        ahead = self._ahead(t)
        if direction == "ahead":
            return np.where(self.laws[:, :, None] > 0, ahead, 0.0)
        before = np.roll(self.laws, t, axis=0)  # of slot s − t, at place s
        with np.errstate(divide="ignore", invalid="ignore"):
            back = reverse(np.roll(ahead, t, axis=0), before, self.laws)
        return np.where(self.laws[:, :, None] > 0, back, 0.0)

    def _ahead(self, t: int) -> Floats:
        """P_s ⋯ P_{s+t−1} for every s, from products over 1, 2, 4, … steps."""
        result, done = np.broadcast_to(np.eye(self.states), self.kernels.shape), 0
        for i, bit in enumerate(reversed(f"{t:b}")):
            while len(self._powers) <= i:
                last = self._powers[-1]
                self._powers.append(normalise(last @ np.roll(last, -(2 ** (len(self._powers) - 1)), axis=0)))
            if bit == "1":
                result = normalise(result @ np.roll(self._powers[i], -done, axis=0))
                done += 2**i
        return result

    def frontier(self, t: int, direction: Direction = "back") -> Frontier:
        """Return the frontier of the kernels from all slots together; beyond 10⁶ steps that of 10⁶ steps, as K only falls, and
        see `shorter`."""
        t = min(t, LARGEST_LAG)
        known = self._frontiers.get((t, direction)) or (NOTHING if self.states == 1 else frontier_at_zero(t))
        if known is None:
            kernels = self._all_kernels(t, direction)
            likeliest = np.take_along_axis(kernels, self.laws.argmax(axis=1)[:, None, None], axis=1)
            kernels = np.where(self.laws[:, :, None] > 0, kernels, likeliest)  # no new pair of rows
            known = frontier_of_all(kernels, self.slack(t))
            if (less := shorter(t)) and (left := self.frontier(less, direction)).variation <= known.variation:
                known = left
            self._frontiers[t, direction] = known
        return known

    def spread(self, t: int) -> float:
        """The largest D_t from any slot, over states that are possible there; infinite if one cannot be reached in t steps."""
        t = lag("t", min(t, LARGEST_LAG))
        possible, later = self.laws > 0, np.roll(self.laws, -t, axis=0) > 0
        ahead = self._ahead(t)
        own = max(spread_of(ahead[s][np.ix_(possible[s], later[s])], self.slack(t)) for s in range(self.slots))
        return min(own, self.spread(less)) if (less := shorter(t)) else own

    def age(self, states: Any, t: int, rng: np.random.Generator, slot: int = 0) -> NDArray[np.int64]:
        """Return states t steps older than now, which is in this slot, each drawn from its row of the kernel back."""
        now, slot = read_states(states, self.states), whole("slot", slot, least=0) % self.slots
        impossible = np.unique(now[self.laws[slot][now] == 0])
        if len(impossible):
            which = ", ".join(map(str, impossible))
            raise InvalidInput(f"state {which} is impossible in slot {slot}, so it has no past")
        return draw(self.kernel(t, slot=slot), now, rng)

    def sample(self, steps: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return one person's states at steps 1 … n, the first in slot 0 from its law."""
        result, chances = np.empty(whole("steps", steps, least=1), dtype=np.int64), rng.random(steps)
        rows, ahead = np.cumsum(self.laws[0]), np.cumsum(self.kernels, axis=2)
        for i in range(steps):
            result[i] = min(int(np.searchsorted(rows / rows[-1], chances[i], side="right")), self.states - 1)
            rows = ahead[i % self.slots, result[i]]
        return result

    def parameters(self) -> JsonObject:
        """The kernels, and how they were fitted."""
        return {"kernels": self.kernels.tolist()} | ({} if self.fitted is None else {"fitted": self.fitted})


def _cycle(kernels: object) -> Floats:
    if isinstance(kernels, np.ndarray):
        kernels = kernels.tolist()
    if not isinstance(kernels, Sequence) or isinstance(kernels, str) or not kernels:
        raise InvalidInput(f"kernels must be a list of transition matrices, one a slot, not {kernels!r}")
    if len(kernels) > MOST_SLOTS:
        raise InvalidInput(f"a cycle may have up to {MOST_SLOTS:,} slots, not {len(kernels):,}")
    read = [stochastic(f"kernel {s}", kernel) for s, kernel in enumerate(kernels)]
    for s, kernel in enumerate(read):
        if len(kernel) != len(read[0]):
            raise InvalidInput(f"kernel {s} has {len(kernel)} states, and kernel 0 has {len(read[0])}: they must agree")
    return np.array(read)


def _refuse_tiny(kernels: Floats, first: list[int]) -> None:
    """Refuse states that can be reached, but so seldom that doubles cannot tell them from states that cannot."""
    law = np.zeros(len(kernels[0]))
    law[first] = 1 / len(first)
    possible = law > 0
    for s, kernel in enumerate(kernels):
        law, possible = law @ kernel, (possible @ (kernel > 0)) > 0
        tiny = np.flatnonzero(possible & (law < TINY))
        if len(tiny):
            raise InvalidInput(
                f"state {tiny[0]} in slot {(s + 1) % len(kernels)} is reached with a probability too small for a double: leave "
                "such transitions out, or use fewer states"
            )


def _laws(kernels: Floats) -> Floats:
    """π_s for every slot, from the chain over a whole cycle."""
    whole_cycle = kernels[0]
    for kernel in kernels[1:]:
        whole_cycle = normalise(whole_cycle @ kernel)
    closed, _ = classes(whole_cycle)
    if len(closed) > 1:
        raise InvalidInput(
            f"the cycle is reducible: whoever is in one of the classes {closed} in slot 0 is there in every later cycle, so "
            "there is no one law: describe each class as a process of its own, and people by a ProcessFamily of them"
        )
    _refuse_tiny(kernels, closed[0])
    laws = np.zeros(kernels.shape[:2])
    laws[0, closed[0]] = elimination(whole_cycle[np.ix_(closed[0], closed[0])])
    for s in range(1, len(kernels)):
        laws[s] = normalise(laws[s - 1] @ kernels[s - 1])
    return laws
