"""Validity checks of secrets, one or millions: each fault with its row and field."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halflife.errors import InvalidInput
from halflife.numerics.rounding import SMALLEST_NORMAL

Columns = Mapping[str, Any]
"""Arrays by the name of their column."""
NUMBERS = ("power", "duration", "start", "end", "epsilon")
WHOLE = ("duration", "start", "end")
FARTHEST = 10**12
"""No step of a secret lies further from step 0."""

MOST_POWER, MOST_EPSILON = 1e15, 1e6
KEEP_ONE = "keep one; if both events may happen, write one with their powers added"
MOST_FAULTS = 20
"""So many faults of one file are told at once."""

_UNWRITABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with one field of one row, counted from 0."""

    row: int
    field: str
    says: str

    def text(self, household: str | None = None, row: Any = None) -> str:
        """Return it as one line; `row` holds the rows' numbers as people count, by default from 1."""
        whose = "" if household is None else f" (household {household!r})"
        return f"row {self.row + 1 if row is None else row[self.row]}{whose}: {self.field} {self.says}"


def too_short(start: int, end: int, duration: int) -> str:
    """Say that a hiding interval is shorter than its event."""
    return (
        f"the hiding interval [{start}, {end}] has {end - start + 1} steps, fewer than its event lasts "
        f"(duration {duration}): widen it, or shorten the event"
    )


def check_name(name: object) -> str:
    """Return a household's name, or refuse it.

    >>> check_name("Elm 7")
    'Elm 7'
    """
    if not isinstance(name, str) or not 0 < len(name) <= 500:
        raise InvalidInput(f"a household must be a text of 1 to 500 characters, not {str(name)[:80]!r}")
    if _UNWRITABLE.search(name):
        raise InvalidInput(f"a household's name must not hold control characters or half characters: {name[:80]!r}")
    if name != name.strip(" ") or "  " in name:
        raise InvalidInput(
            f"a household's name must not begin or end with a blank, or have two in a row, as {name[:80]!r} does: it would be "
            "another household"
        )
    return name


def check_names(names: Sequence[object]) -> None:
    """Refuse names that no household can have, and one that stands twice."""
    for name in names:
        check_name(name)
    if len(set(names)) < len(names):
        raise InvalidInput("a household stands twice in the list of names")


def column(name: str, values: Any) -> tuple[NDArray[Any], NDArray[np.bool_], list[Fault]]:
    """Return a column as numbers, whole ones where it counts steps; which rows are invalid (they hold 1); the first faults.

    It is a copy: what is held is never changed from outside.
    """
    kind = np.float64 if name in ("power", "epsilon") else np.int64
    array, faults = _numbers(name, values)
    bad = (array < -FARTHEST) | (array > FARTHEST) if kind is np.int64 else np.zeros(len(array), dtype=bool)
    if array.dtype.kind == "f":
        bad |= ~np.isfinite(array)
        bad |= kind is np.int64 and array != np.floor(array)
    if bad.any():
        wanted = "a finite number" if kind is np.float64 else f"a whole number within {FARTHEST:,} of 0"
        held = {fault.row for fault in faults}
        some = [int(i) for i in np.flatnonzero(bad)[: MOST_FAULTS + len(held)] if i not in held]
        faults += [Fault(i, name, f"must be {wanted}, not {array[i].item()!r}") for i in some]
        array = np.where(bad, 1, array)
    return array.astype(kind, copy=False), bad, sorted(faults, key=lambda fault: fault.row)


def _numbers(name: str, values: Any) -> tuple[NDArray[Any], list[Fault]]:
    """Return the values as an array of numbers; NaN where a value is no number."""
    listed = isinstance(values, list | tuple)
    array = None if listed and any(type(v) is bool for v in values) else np.array(values)
    if array is not None and array.ndim == 1 and (array.dtype.kind in "iuf" or not array.size):
        return (array if array.size else np.zeros(0)), []
    if array is not None and array.ndim != 1:
        raise InvalidInput(f"the column {name!r} must be one list of numbers")
    result = np.zeros(len(values))
    faults: list[Fault] = []
    for i, value in enumerate(values):
        number = not isinstance(value, bool) and isinstance(value, int | float | np.integer | np.floating)
        try:
            result[i] = float(value) if number else np.nan
        except OverflowError:
            result[i], number = np.nan, False
        if not number and len(faults) < MOST_FAULTS:
            faults.append(Fault(i, name, f"must be a number, not {str(value)[:80]!r}"))
    return result, faults


def _rules(columns: Columns) -> Iterator[tuple[str, NDArray[np.bool_], str]]:
    """Yield each rule: the field, which rows satisfy it, and what it requires."""
    power, duration, start, end, epsilon = (columns[name] for name in NUMBERS)
    yield "power", (power >= SMALLEST_NORMAL) & (power <= MOST_POWER), f"must be above 0 and at most {MOST_POWER:g}"
    yield "duration", duration >= 1, "must be at least 1"
    yield "epsilon", (epsilon >= SMALLEST_NORMAL) & (epsilon <= MOST_EPSILON), "must be above 0 and at most 1e6"
    yield "end", end >= start, "must not lie before the start"
    yield "duration", (end < start) | (end - start + 1 >= duration), ""


def faults_of(columns: Columns) -> tuple[NDArray[np.bool_], list[Fault]]:
    """Return which rows are no secrets, and why: the first `MOST_FAULTS` of each kind."""
    faults, bad = [], np.zeros(len(columns["power"]), dtype=bool)
    for field, good, says in _rules(columns):
        if good.all():
            continue
        bad |= ~good
        for i in np.flatnonzero(~good)[:MOST_FAULTS].tolist():
            held = {name: columns[name][i].item() for name in NUMBERS}
            short = f"is too long: {too_short(held['start'], held['end'], held['duration'])}"
            faults.append(Fault(i, field, f"{says}, not {held[field]!r}" if says else short))
    return bad, sorted(faults, key=lambda fault: fault.row)


def check_secrets(names: Sequence[str], household: object, columns: Columns, row: object = None) -> Columns:
    """Return the columns (with `household`) as numbers, or refuse the first row that is no secret."""
    check_names(names)
    given = {}
    for name, values in {**{n: columns[n] for n in NUMBERS}, "household": household}.items():
        given[name], _, faults = column(name, values)
        if faults:
            raise InvalidInput(faults[0].text(row=row))
    if any(len(values) != len(given["household"]) for values in given.values()):
        raise InvalidInput("the columns of secrets are of different lengths")
    codes = given["household"]
    if len(codes) and not (codes.min() >= 0 and codes.max() < len(names)):
        raise InvalidInput("a secret names a household that is not in the list")
    for fault in faults_of(given)[1]:
        raise InvalidInput(fault.text(names[int(codes[fault.row])], row))
    return given
