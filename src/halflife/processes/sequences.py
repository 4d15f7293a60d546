"""People's readings as sequences of states, and how often one state is followed by another some steps later."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from halflife.errors import InvalidInput
from halflife.numerics.arrays import Floats
from halflife.numerics.parameters import whole

States = NDArray[np.int64]
MISSING = -1
LARGEST_STATES = 200


class Quantised(NamedTuple):
    """One person's states (−1 where a reading is missing), the inner edges between them, and how many were merged into others."""

    states: States
    edges: Floats
    merged: int

    @property
    def state_count(self) -> int:
        """How many states there are."""
        return len(self.edges) + 1


class InvalidSequence(InvalidInput):
    """A sequence of readings that cannot be used: number `number`, from 0, of those that were given, one a person.

    >>> error = InvalidSequence(1, " has no reading at all")
    >>> print(error, error.without_number(), sep="; ")
    sequence 1 has no reading at all; somebody has no reading at all
    """

    def __init__(self, number: int, says: str, kind: str = "sequence") -> None:
        super().__init__(f"{kind} {number}{says}")
        self.number, self.says, self.kind = number, says, kind

    def without_number(self) -> InvalidInput:
        """Return the error without saying whose sequence it is, for readings of people who have names."""
        return InvalidInput(f"somebody{self.says}")


def read_sequences(sequences: object) -> list[Floats]:
    """Read one sequence of numbers, or a list of them: NaN, None and infinities are missing.

    >>> [s.tolist() for s in read_sequences([[1, None, 2], [3.5]])]
    [[1.0, nan, 2.0], [3.5]]
    """
    if isinstance(sequences, np.ndarray):
        found = list(sequences) if sequences.ndim == 2 else [sequences]
    elif isinstance(sequences, Sequence) and not isinstance(sequences, str) and len(sequences):
        nested = isinstance(sequences[0], Sequence | np.ndarray) and not isinstance(sequences[0], str)
        found = list(sequences) if nested else [sequences]
    else:
        raise InvalidInput(f"sequences must be a list of lists of numbers, one a person, not {sequences!r}")
    return [_read_one(i, s) for i, s in enumerate(found)]


def _read_one(i: int, sequence: object) -> Floats:
    try:
        values = np.array(sequence, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidSequence(i, f" holds something that is no number: {error}") from None
    if values.ndim != 1 or not len(values):
        raise InvalidSequence(i, " must be a list of at least one number")
    return np.where(np.isfinite(values), values, np.nan)


def quantise(values: Floats, states: int | Sequence[float] | Floats | None) -> Quantised:
    """Turn readings into states.

    states  a number k: k states with equally many readings each, where tied ones (a meter that stands at 0 most of the time) are
            merged, down to two if readings differ at all;  a list of edges: states between them, the first and the last without
            end;  None: the numbers are states

    >>> quantise(np.array([0.0, 0, 0, 0, 1, 2, 3, 4]), 4)
    Quantised(states=array([0, 0, 0, 0, 1, 1, 2, 2]), edges=array([0.5 , 2.25]), merged=1)
    """
    known = np.isfinite(values)
    if not known.any():
        raise InvalidInput("a sequence without a single reading has no states")
    if states is None:
        return _take_states(values, known)
    if isinstance(states, Sequence | np.ndarray):
        edges = np.array(states, dtype=np.float64)
        if edges.ndim != 1 or not np.all(np.isfinite(edges)) or np.any(np.diff(edges) <= 0):
            raise InvalidInput(f"the edges between states must be numbers that ascend, not {list(states)!r}")
        asked = len(edges) + 1
    else:
        asked = whole("states", states, least=2)
        edges = np.unique(np.quantile(values[known], np.arange(1, asked) / asked))
    if asked > LARGEST_STATES:
        raise InvalidInput(f"a chain may have up to {LARGEST_STATES} states, not {asked}")
    found = np.where(known, np.searchsorted(edges, np.where(known, values, 0.0), side="right"), MISSING)
    if isinstance(states, Sequence | np.ndarray):
        return Quantised(found, edges, 0)
    edges = edges[np.unique(found[known])[1:] - 1]  # a quantile at the smallest value leaves the state below it empty
    if not len(edges):  # nearly all readings are the smallest: what lies above it still is another state
        edges = np.unique(values[known])[1:2]
    found = np.where(known, np.searchsorted(edges, np.where(known, values, 0.0), side="right"), MISSING)
    return Quantised(found, edges, asked - len(edges) - 1)


def _take_states(values: Floats, known: NDArray[np.bool_]) -> Quantised:
    held = values[known]
    if np.any(held != np.floor(held)) or held.min() < 0 or held.max() >= LARGEST_STATES:
        raise InvalidInput(
            f"states must be whole numbers from 0 to {LARGEST_STATES - 1}: give a number of states or edges otherwise"
        )
    found = np.where(known, values, MISSING).astype(np.int64)
    return Quantised(found, np.arange(1, int(held.max()) + 1, dtype=np.float64) - 0.5, 0)


def pair_counts(
    states: States, count: int, lag: int, slots: NDArray[np.int64] | None = None, slot_count: int = 1
) -> NDArray[np.int64]:
    """Return how often state x is followed by y after `lag` steps, as counts[x, y]; pairs with a missing end do not count.

    With `slots`, the time of day of each reading, as counts[slot of x, x, y].

    >>> pair_counts(np.array([0, 1, -1, 1, 0]), 2, 1).tolist()
    [[0, 1], [1, 0]]
    """
    if lag >= len(states):
        raise InvalidInput(f"a sequence of {len(states)} readings is too short for a lag of {lag}")
    before, after = states[:-lag] if lag else states, states[lag:]
    both = (before >= 0) & (after >= 0)
    cells = before[both] * count + after[both]
    if slots is None:
        return np.bincount(cells, minlength=count * count).reshape(count, count)
    cells = cells + count * count * slots[: len(before)][both]
    return np.bincount(cells, minlength=slot_count * count * count).reshape(slot_count, count, count)
