"""Transition matrices from people's readings, with what was done to get them."""

from __future__ import annotations

from typing import Any

import numpy as np

from halflife.errors import InvalidInput, errors_about
from halflife.numerics.arrays import Floats
from halflife.numerics.forms import JsonObject
from halflife.numerics.parameters import real, whole
from halflife.processes.base import json_object
from halflife.processes.sequences import InvalidSequence, Quantised, pair_counts, quantise

COUNTS = ("sequences", "people", "readings", "transitions", "slots")
MOST_COUNTED = 10**15
NO_SMOOTHING = 0.0
"""The default: plain relative frequencies."""


def read_fit(fitted: object) -> JsonObject | None:
    """Return the facts of a fit after checking them, None if there are none."""
    if fitted is None:
        return None
    result = json_object("fitted", fitted)
    with errors_about("fitted"):
        for name in COUNTS:
            if whole(f"{name} of 'fitted'", result.get(name, 1), least=int(name == "slots")) > MOST_COUNTED:
                raise InvalidInput(f"{name} of 'fitted' must be at most {MOST_COUNTED:,}, not {result[name]}")
        if not isinstance(result.get("edges", []), list):
            raise InvalidInput(f"edges of 'fitted' must be a list of numbers, not {result['edges']!r}")
    return result


def fit_chain(
    sequences: list[Floats], states: object, smoothing: float, person: int | None = None
) -> tuple[Floats, JsonObject]:
    """Return the matrix of one chain for all sequences, and how it came about.

    person  whose one sequence it is, for errors
    """
    smoothing = real("smoothing", smoothing)
    each, found = as_states(sequences, states, person)
    counts = np.zeros((found.state_count, found.state_count), dtype=np.int64)
    for one in each:
        counts += pair_counts(one, found.state_count, 1)
    if found.state_count > 1 and not smoothing:
        visits = np.bincount(found.states[found.states >= 0], minlength=found.state_count)
        _refuse_unknown_rows(counts, visits, len(each), person)
    return _frequencies(counts, smoothing), describe(found, states, smoothing, len(each), int(counts.sum()))


def as_states(
    sequences: list[Floats], states: Any, person: int | None = None
) -> tuple[list[np.ndarray[Any, Any]], Quantised]:
    """Return each sequence as states, with the states of all of them together."""
    for i, one in enumerate(sequences):
        if len(one) < 2:
            raise wrong_sequence(i, f" has {len(one)} reading, too short for one step: leave it out", person)
        if not np.isfinite(one).any():
            raise wrong_sequence(i, " has no reading at all: leave it out", person)
    found = quantise(np.concatenate(sequences), states)
    ends = np.cumsum([len(one) for one in sequences])[:-1]
    return np.split(found.states, ends), found


def wrong_sequence(i: int, says: str, person: int | None) -> InvalidSequence:
    """Return the error for the i-th sequence, or for the person whose one sequence it is."""
    return InvalidSequence(i, says) if person is None else InvalidSequence(person, says, "person")


def wrong_sequences(count: int, says: str, person: int | None) -> InvalidInput:
    """Return the error for so many sequences together: of one, it names it."""
    return wrong_sequence(0, says, person) if count == 1 else InvalidInput(f"the sequences{says}")


def describe(found: Quantised, states: Any, smoothing: float, sequences: int, transitions: int) -> JsonObject:
    """Return the facts of a fit, for certificates."""
    asked = list(map(float, states)) if isinstance(states, list | tuple | np.ndarray) else states
    return {
        "sequences": sequences,
        "readings": int((found.states >= 0).sum()),
        "transitions": transitions,
        "states": None if asked is None else asked if isinstance(asked, list) else int(asked),
        "merged": found.merged,
        "smoothing": smoothing,
        "edges": found.edges.tolist(),
    }


def _refuse_unknown_rows(
    counts: np.ndarray[Any, Any], visits: np.ndarray[Any, Any], sequences: int, person: int | None
) -> None:
    for what, places in (
        ("visited", np.flatnonzero(visits == 0)),
        ("followed by a reading", np.flatnonzero(counts.sum(axis=1) == 0)),
    ):
        if len(places):
            raise wrong_sequences(
                sequences,
                f": state {', '.join(map(str, places))} is never {what}, so nothing is known about where it leads: use fewer "
                "states, leave it out, or give a smoothing above 0",
                person,
            )


def _frequencies(counts: np.ndarray[Any, Any], smoothing: float) -> Floats:
    """Rows of counts as frequencies; a single state stays where it is."""
    if counts.shape[-1] == 1:
        return np.ones(counts.shape)
    weights = counts + smoothing
    result: Floats = weights / weights.sum(axis=-1, keepdims=True)
    return result


def fit_cycle(sequences: list[Floats], states: object, slots: int, smoothing: float) -> tuple[Floats, JsonObject]:
    """Return one kernel a slot for all sequences together, and how they came about."""
    smoothing = real("smoothing", smoothing)
    each, found = as_states(sequences, states)
    n = found.state_count
    counts, visits = np.zeros((slots, n, n), dtype=np.int64), np.zeros((slots, n), dtype=np.int64)
    for one in each:
        slot = np.arange(len(one)) % slots
        counts += pair_counts(one, n, 1, slot, slots)
        visits += np.bincount(slot[one >= 0] * n + one[one >= 0], minlength=slots * n).reshape(slots, n)
    left = counts.sum(axis=2) > 0
    if n > 1 and not smoothing:
        stuck = np.argwhere((visits > 0) & ~left)
        if len(stuck):
            raise InvalidInput(
                f"state {stuck[0, 1]} in slot {stuck[0, 0]} is never followed by a reading, so nothing is known about where it "
                "leads: use fewer states or slots, or give a smoothing above 0"
            )
        counts = np.where(left[:, :, None], counts, 1)  # states without readings
    about = describe(found, states, smoothing, len(each), int(counts[left].sum()))
    return _frequencies(counts, smoothing), about | {"slots": slots, "impossible": int((visits == 0).sum())}
