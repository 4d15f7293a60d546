"""Families of processes: people whose data moves differently, bounded by the worst of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from halflife.errors import InvalidInput, errors_about
from halflife.numerics.arrays import Floats
from halflife.numerics.forms import JsonObject
from halflife.processes.base import Direction, Process, frontier_at_zero, register_process
from halflife.processes.contraction import ENTRIES_AT_ONCE, NOTHING, Frontier, frontier_of_all, merge
from halflife.processes.fitting import NO_SMOOTHING, read_fit
from halflife.processes.kernels import LARGEST_LAG, power, reverse, rounding_of, shorter
from halflife.processes.markov import MarkovChain
from halflife.processes.sequences import read_sequences


@register_process
class ProcessFamily(Process):
    """People with different processes, independent of each other: what holds for all of them is what holds for the worst.

    K_t(ε) is the largest of all people's, so the frontier is that of all kernels together (T4: with different chains take the
    maximum over users). A sequence of releases adds up step by step if every member is Markov; if one is not, at most one release
    of a sequence is amplified, which holds for any stationary process.

    >>> quick, slow = MarkovChain([[0.6, 0.4], [0.4, 0.6]]), MarkovChain([[0.9, 0.1], [0.1, 0.9]])
    >>> people = ProcessFamily([quick, slow])
    >>> people.amplify(1.0, 2) == slow.amplify(1.0, 2), len(people.processes)
    (True, 2)
    """

    name: ClassVar[str] = "process-family"

    def __init__(self, processes: object, fitted: Mapping[str, object] | None = None) -> None:
        with errors_about("processes"):
            if not isinstance(processes, Sequence) or isinstance(processes, str) or not processes:
                raise InvalidInput(f"a process family must be a list of at least one process, not {processes!r}")
            self.processes: tuple[Process, ...] = tuple(_member(i, one) for i, one in enumerate(processes))
        self.fitted = read_fit(fitted)
        """How `fit` came to the processes, as JSON can hold it; None if they were given."""
        self.composes = (  # type: ignore[misc]
            "markov" if all(one.composes == "markov" for one in self.processes) else "once"
        )
        chains = [one for one in self.processes if isinstance(one, MarkovChain)]
        self._groups = list(_groups(chains))
        self._others = [one for one in self.processes if not isinstance(one, MarkovChain)]
        self._frontiers: dict[tuple[int, Direction], Frontier] = {}

    @classmethod
    def fit(cls, sequences: object, states: object, smoothing: float = NO_SMOOTHING) -> ProcessFamily:
        """Fit one chain to each person's readings, with the person's own quantiles; see `MarkovChain.fit`.

        Tied quantiles are merged person by person, and `fitted` says for how many. A person whose readings are all in one state
        is kept as a chain of one state, which tells nothing; `fitted` counts them too.

        >>> people = ProcessFamily.fit([[0, 1, 2, 1, 0, 2], [5, 5, 5]], states=3)
        >>> people.fitted["merged"], people.fitted["constant"]
        (1, 1)
        """
        found = read_sequences(sequences)
        chains = [MarkovChain._fit([one], states, smoothing, i) for i, one in enumerate(found)]
        of = [chain.fitted or {} for chain in chains]
        fitted = {
            "people": len(chains),
            "readings": sum(f["readings"] for f in of),
            "transitions": sum(f["transitions"] for f in of),
            "states": of[0]["states"],
            "merged": sum(f["merged"] > 0 for f in of),
            "constant": sum(chain.states == 1 for chain in chains),
            "smoothing": of[0]["smoothing"],
        }
        return cls(chains, fitted)

    def __repr__(self) -> str:
        return f"ProcessFamily of {len(self.processes)}: {', '.join(sorted({one.name for one in self.processes}))}"

    @property
    def last_lag(self) -> int | None:
        """The largest t that something is known about for everybody."""
        return min((one.last_lag for one in self.processes if one.last_lag is not None), default=None)

    def frontier(self, t: int, direction: Direction = "back") -> Frontier:
        """Return the frontier of all kernels together; see `shorter`, unless somebody is known up to a last lag only."""
        known = self._frontiers.get((t, direction))
        if known is None:
            known = frontier_at_zero(t) or self._frontier(t, direction)
            less = shorter(t) if self.last_lag is None else 0
            if less and (left := self.frontier(less, direction)).variation <= known.variation:
                known = left
            self._frontiers[t, direction] = known
        return known

    def _frontier(self, t: int, direction: Direction) -> Frontier:
        found = merge([NOTHING, *(one.frontier(t, direction) for one in self._others)])
        for group in self._groups:
            found = group.worst(min(t, LARGEST_LAG), direction, found)
        return found

    def spread(self, t: int) -> float:
        """Return the largest D_t of any member."""
        return max(one.spread(t) for one in self.processes)

    def _other_variations(self) -> Mapping[str, Callable[[int], float]]:
        shared = set.intersection(*(set(one._other_variations()) for one in self.processes))
        return {name: self._largest(name) for name in shared}

    def _largest(self, method: str) -> Callable[[int], float]:
        return lambda t: max(one.total_variation(t, method) for one in self.processes)

    def age(self, states: Any, t: int, rng: np.random.Generator) -> NDArray[Any]:
        """Return states t steps older; row i of `states` is about person i, and is drawn from that person's process."""
        found = np.asarray(states)
        if found.ndim < 1 or len(found) != len(self.processes):
            raise InvalidInput(f"give one state, or one row of states, for each of {len(self.processes)} people")
        return np.array([one.age(row, t, rng) for one, row in zip(self.processes, found, strict=True)])

    def to_facts(self) -> JsonObject:
        """Return the kernels."""
        return {"name": self.name, "processes": [one.to_facts() for one in self.processes]}

    def parameters(self) -> JsonObject:
        """The processes, and how they were fitted."""
        return {"processes": [one.to_dict() for one in self.processes]} | (
            {} if self.fitted is None else {"fitted": self.fitted}
        )


class _Group:
    """Chains with equally many states, as one stack of matrices."""

    def __init__(self, chains: list[MarkovChain]) -> None:
        self._laws = np.array([chain.stationary for chain in chains])
        self._powers: list[Floats] = [np.array([chain.matrix for chain in chains])]

    def worst(self, t: int, direction: Direction, found: Frontier) -> Frontier:
        """Return what was found with the frontiers of these chains added."""
        kernels = power(self._powers, t)
        if direction == "back":
            kernels = reverse(kernels, self._laws, self._laws)
        return frontier_of_all(kernels, rounding_of(kernels.shape[-1], t), found)


def _groups(chains: list[MarkovChain]) -> Iterator[_Group]:
    for states in sorted({chain.states for chain in chains} - {1}):
        equal = [chain for chain in chains if chain.states == states]
        at_once = max(1, ENTRIES_AT_ONCE // states**2)
        for first in range(0, len(equal), at_once):
            yield _Group(equal[first : first + at_once])


def _member(i: int, one: object) -> Process:
    try:
        return Process.from_dict(one)
    except InvalidInput as error:
        raise InvalidInput(f"person {i}: {error}") from None
