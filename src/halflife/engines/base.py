"""What every engine is asked: the bounded aggregate of a stretch of steps, as whole numbers.

For each step, group and person the readings become one whole number of units, and people are added up:

    u(x)   = ⌊x · multiply / divide + ½⌋, clipped to [least, most]     a reading x in units, in doubles until the ⌊⌋
    v_p    = fold of u over the person's readings in the step, clipped to [low, high]
    v_p    = min(n_p, high)                                           fold `count`: of n_p readings, whatever they are; low is 0
    Σ_p w_p · (v_p − baseline)                                        sums: `baseline` is what a missing reading counts as
    Σ_p 1                                                             counts: people with a reading
    Σ_p 1[edge_b ≤ v_p < edge_{b+1}]                                  histograms: the last bin includes its upper edge

A mean is rounded to the nearest whole number, a half up: ⌊Σu/n + ½⌋, exactly. [least, most] is a policy's `clip_readings`, and
±2⁴⁰ units where it has none: a reading of 1e300 counts as 2⁴⁰. A fold is exact, however many readings there are, and only what it
comes to is clipped to [low, high]: the bounds of a partial sum would depend on the order of readings.

A person without a good reading in a step adds nothing. All of it is integer arithmetic after u, so no order of rows,
number of threads or engine changes a result. Whatever a person's readings are, v_p lies in [low, high]: that alone bounds
how far one person moves a total, and [least, most] does not enter the sensitivity.

A total is clipped to ±2⁶². Clipping brings no two totals further apart (it is 1-Lipschitz), so the sensitivity holds; and nothing
is ever refused, or said, for how much data there is.

**Bad content never stops a run and never counts**: a null, NaN, infinite or non-numeric value, a null person, a time that is
no time, a group that is not on the list, a person that is not in the public table. Each is tallied. The tallies depend on the
data, so they are private: for the operator alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from halflife.engines.inspection import Inspection
from halflife.local_time import Piece
from halflife.steps import Buckets

Fold = Literal["sum", "mean", "first", "last", "min", "max", "count"]
Kind = Literal["sum", "count", "histogram"]

ONCE_MATTERS = ("sum", "mean", "min", "count")
"""Folds that see more than the largest reading of each moment; to first, last and max the others change nothing."""

LARGEST_UNITS = 2**40
"""No bound, reading, baseline or weight lies further from 0 than this, in units: sums of readings and of people fit 128 bits."""

LARGEST_TOTAL = 2**62
"""A total beyond this is clipped to it: 64 bits hold it, whatever the number of people."""

LATEST = 2**62
"""No moment lies further from 1970 than this, in µs (146,000 years), so that adding an offset stays within 64 bits."""

TALLIES = (
    "rows",                 # every row of the source that lies in the asked steps, or whose time is unreadable
    "bad_time",             # null, not a time, infinite, beyond ±2⁶² µs; or a line that cannot be split into columns
    "bad_person",           # null or empty
    "bad_value",            # null, NaN, infinite, not a number
    "unknown_person",       # not in the public table of units, groups or weights
    "unknown_group",        # not on the list of groups
    "duplicates",           # good readings beyond the first of an id, moment and group; 0 unless `once`
    "clipped_readings",     # good readings (duplicates too) that lie outside [least, most]
    "clipped",              # (person, step, group) entries whose fold lies outside [low, high]
    "too_many_groups",      # (person, step, group) entries beyond what one person may count in
)  # fmt: skip
"""A row is tallied under the first of the bad_… and unknown_… reasons that applies, in this order."""

REASONS = ("good", "bad_time", "bad_person", "bad_value", "unknown_person", "unknown_group")
"""Why a row is bad, by numbers that queries use."""


@dataclass(frozen=True)
class Question:
    """One bounded aggregation, stated in whole numbers and public names.

    units                        the person whom each id in the column `person` belongs to (a household has several meters); None
                                 if the ids are people. An id that is not in it is unknown
    person, time, value, group   column names; `value` None where people or rows count, `group` unless a column says it
    wide                         whether every column but `time` is a person's readings, and its name the person; `person` and
                                 `value` then say nothing, and an empty cell is a bad value
    epoch                        "s", "ms" or "us" if the time column holds such numbers since 1970; None for timestamps
    time_format                  how times are written, if the time column holds text in another form than the one grammar's
    local                        pieces that turn a timestamp without a zone into UTC
    buckets, first, last         which step a moment lies in; the steps that are asked for, both included
    multiply, divide             how a reading becomes a whole number of units
    least, most                  the bounds of a single reading, before the fold
    low, high                    the bounds of what a person counts as in a step, after the fold
    fold, once                   how several readings of one person in a step become one; whether readings of one id at one
                                 moment (and group) count once (the largest of them does)
    edges                        of a histogram's bins, in units, increasing
    groups                       the public list; empty for no groups
    table                        each person's group, as an index into `groups`, fixed for ever; None if `group` says
    most_groups                  how many groups a person may count in within a step (without `table`); those first on
                                 the list are kept
    weights                      each person's public weight; a person without one is unknown
    """

    kind: Kind
    person: str
    time: str
    buckets: Buckets
    first: int
    last: int
    value: str | None = None
    group: str | None = None
    epoch: Literal["s", "ms", "us"] | None = None
    time_format: str | None = None
    local: tuple[Piece, ...] = ((-(2**62), 0),)
    multiply: int = 1
    divide: int = 1
    least: int = -LARGEST_UNITS
    most: int = LARGEST_UNITS
    low: int = 0
    high: int = 1
    fold: Fold = "last"
    once: bool = True
    baseline: int = 0
    edges: tuple[int, ...] = ()
    groups: tuple[str, ...] = ()
    table: Mapping[str, int] | None = field(default=None, repr=False)
    most_groups: int = 1
    weights: Mapping[str, int] | None = field(default=None, repr=False)
    units: Mapping[str, str] | None = field(default=None, repr=False)
    wide: bool = False

    @property
    def lists_people(self) -> bool:
        """Whether a public table says who counts: others are unknown."""
        return self.table is not None or self.weights is not None or self.units is not None

    @property
    def shape(self) -> tuple[int, int, int]:
        """(steps, groups, bins) of the answer."""
        return self.last - self.first + 1, max(1, len(self.groups)), max(1, len(self.edges) - 1)


@dataclass(frozen=True)
class Answer:
    """The exact aggregate, whole numbers of shape (steps, groups, bins); and the tallies, for the operator alone."""

    sums: NDArray[np.int64]
    tallies: Mapping[str, int] = field(repr=False)


class Engine(Protocol):
    """One source of readings, opened: what it holds is asked for a stretch of steps at a time."""

    def columns(self) -> Mapping[str, str]:
        """Return the source's columns and their types: its schema, never its values."""
        ...

    def check(self, question: Question) -> None:
        """Refuse columns that are missing, or of a type that cannot be read, as `aggregate` would; no cell is looked at."""
        ...

    def aggregate(self, question: Question) -> Answer:
        """Answer a question."""
        ...

    def progress(self) -> tuple[str, float]:
        """Return what is being done for another thread, and how much of all that was asked for is done, from 0 to 1."""
        ...

    def interrupt(self) -> None:
        """Break off what another thread has asked for, if it can be: that raises `Interrupted`."""
        ...

    def inspect(self, question: Question) -> Inspection:
        """Return what the whole source holds beside what a question says of it: for the operator alone."""
        ...

    def bad_cells(self, question: Question, which: Literal["time", "value"]) -> list[str | None]:
        """Return some cells of text that are no time or no value, as they stand; whoever asks shows their shapes at most."""
        ...

    def typical_number(self, column: str) -> float | None:
        """Return about the middle of a column of numbers; None if it is of another type, or empty."""
        ...

    def close(self) -> None:
        """Let go of the source."""
        ...


def bounds_before_fold(question: Question) -> tuple[int, int]:
    """The bounds that an engine may clip readings to before it folds them, with the same answer.

    A sum or a mean needs readings within [least, most], as they are. To take the first, last, least or largest of several, or
    the largest of a moment, is to choose one of them by comparing; so clipping all of them to an interval, before, gives what
    clipping the chosen one gives, after. That interval is [low − 1, high + 1], which still shows whether `low` or `high` bound;
    clipped to [least, most] first, it leaves [c(least), c(most)] with c the clip to [low − 1, high + 1], as c is increasing.

    >>> from halflife.steps import Buckets
    >>> asked = Question("sum", "p", "t", Buckets(1, ((0, 0),)), 1, 1, low=0, high=9, fold="max")
    >>> bounds_before_fold(asked)
    (-1, 10)
    """
    q = question
    if q.fold in ("sum", "mean"):
        return q.least, q.most
    return min(max(q.least, q.low - 1), q.high + 1), min(max(q.most, q.low - 1), q.high + 1)


def bounds_of_times(question: Question) -> tuple[int, int]:
    """The earliest and the latest time, in µs by whatever clock, that a reading of the asked steps can have; others have it too.

    >>> from halflife.steps import Buckets
    >>> bounds_of_times(Question("count", "p", "t", Buckets(10, ((0, 5),)), 2, 3, local=((0, -2),)))
    (3, 26)
    """
    q = question
    width, adds, most = q.buckets.width, [add for _, add in q.buckets.pieces], max(abs(add) for _, add in q.local)
    earliest = max((q.first - 1) * width - max(adds) - most, -LATEST)
    return earliest, min(q.last * width - min(adds) + most - 1, LATEST)


def most_added(question: Question) -> int:
    """The most that one person adds to a sum, either way: public, it depends on no reading."""
    q = question
    heaviest = max(map(abs, (q.weights or {}).values()), default=1)
    return max(abs(q.low - q.baseline), abs(q.high - q.baseline)) * heaviest


def empty_answer(question: Question) -> Any:
    """Return zeros of the answer's shape."""
    return np.zeros(question.shape, dtype=np.int64)
