"""A design sample: people's readings from files, as one sequence a person on a regular grid.

What a process is fitted on or checked against. It is read as the publisher reads: hostile content never stops a run, a bad
reading counts as missing, times without a zone are local. It must not be of the people who are protected: a kernel that was
fitted on private data is itself a release of that data. Even so nobody is named: who has too few readings is left out, and
counted.

**A step must hold a whole number of readings.** Hourly readings on half hours leave every other slot empty, and a process fitted
on them is about nothing; so where most gaps between one person's readings are alike, a step that is no multiple of them is
refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from halflife.engines.base import LATEST, Question
from halflife.engines.duckdb.engine import DuckEngine
from halflife.engines.duckdb.files import DATABASES, Delimiter, check_headerless, check_table, find_files, find_format
from halflife.engines.duckdb.source import label_of
from halflife.engines.time_format import check_time_format
from halflife.errors import InvalidInput, unknown
from halflife.local_time import DAY, SECOND, find_zone, naive_to_utc
from halflife.numerics.arrays import Floats
from halflife.processes.sequences import LARGEST_STATES
from halflife.steps import Buckets, microseconds, parse_width

MOST_CELLS = 100_000_000
MOST_EMPTY = 40_000_000
"""More slots than this are refused if hardly one in ten has a reading: they need gigabytes of memory, and say nothing."""
FEWEST = 2
"""In so many slots a person must have a reading: one alone tells nothing of how data moves."""
ALIKE = 0.05
"""Gaps between readings that differ by less, in parts of the usual one, are alike."""
FEWEST_GAPS = 10
"""Fewer gaps between readings do not tell what is usual."""
ENOUGH_ROWS = 1_000_000
"""The spacing is looked at on so many rows, of some people, at the most."""
FORMATS = ("parquet", "csv", "duckdb", "sqlite")


class Sample(NamedTuple):
    """Readings by person: names in order, and for each one number a slot, NaN where there is no good reading.

    `step` is how wide a slot is, in µs. Each sequence begins at 00:00 UTC of the person's first day, so that slot 0 is the same
    time of day for everybody, and ends with the person's last reading.
    """

    people: tuple[str, ...]
    sequences: tuple[Floats, ...]
    step: int
    starts: tuple[int, ...] = ()
    """The slot in which each sequence begins, counted from one moment for all."""
    left_out: int = 0
    """How many more people there are, with readings in fewer than two slots."""
    categories: tuple[str, ...] = ()
    """What the numbers stand for, 0, 1, …, where readings are text."""

    def side_by_side(self) -> Floats:
        """Return people × slots from the first to the last slot of anybody, NaN where there is no good reading.

        >>> Sample(("ann", "bob"), (np.array([1.0, 2.0]), np.array([3.0])), 1, (4, 5)).side_by_side().tolist()
        [[1.0, 2.0], [nan, 3.0]]
        """
        first = min(self.starts)
        last = max(start + len(s) for start, s in zip(self.starts, self.sequences, strict=True))
        cells, readings = (last - first) * len(self.people), sum(int(np.isfinite(s).sum()) for s in self.sequences)
        if cells > MOST_CELLS or (2 * cells > MOST_EMPTY and 10 * readings < cells):
            raise InvalidInput(
                f"{len(self.people):,} people over {last - first:,} slots are too many numbers side by side, with {readings:,} "
                f"readings: give a wider step, or fewer people; the most is {MOST_CELLS:,}"
            )
        result = np.full((len(self.people), last - first), np.nan)
        for i, (start, s) in enumerate(zip(self.starts, self.sequences, strict=True)):
            result[i, start - first : start - first + len(s)] = s
        return result

    @property
    def step_minutes(self) -> float:
        """How wide a slot is, in minutes."""
        return self.step / 60e6

    @property
    def slots(self) -> int | None:
        """How many slots a day has; None if they are no whole number, or one."""
        return DAY // self.step if DAY % self.step == 0 and self.step < DAY else None


def read_sample(
    files: Sequence[str | Path],
    *,
    person: str,
    time: str,
    value: str,
    step: str,
    format: str | None = None,
    table: str | None = None,
    zone: str = "UTC",
    epoch: Literal["s", "ms", "us"] | None = None,
    time_format: str | None = None,
    columns: Sequence[str] | None = None,
    delimiter: Delimiter | None = None,
    categories: Sequence[str] | bool = False,
) -> Sample:
    """Read files, or a table of a database file, into sequences; several readings of a slot become their mean.

    Refuses a step that is no multiple of the spacing of the readings, if they have one.

    person, time, value  columns;  step  how wide a slot is, such as 30 min;  zone  of times that carry none
    time_format  how times are written as text, such as %d/%m/%y %H:%M, if not as 2026-01-31 13:30
    columns, delimiter  the names of the columns of a CSV file without a header, in order; and what stands between fields:
                , ; tab or |, a comma if not given
    categories  what readings are if they are text, such as home, work: each becomes its place in this list, others are missing;
                True for all that there are, sorted. Of several in a slot the last counts, at one moment the one that stands later
    """
    if time_format is not None:
        check_time_format(time_format)
        if epoch is not None:
            raise InvalidInput("a time is a number since 1970 (epoch) or text in a time_format: leave one of them out")
    width = microseconds(parse_width(step))
    find_zone(zone)
    known = None if isinstance(categories, bool) else check_categories(categories)
    found = find_files(files)
    kind = find_format(found) if format is None else format
    if kind not in FORMATS:
        raise unknown("format", kind, FORMATS)
    check_table(kind, table)
    check_headerless(kind, columns, delimiter)
    reader = _Reader(label_of(found))
    try:
        opened = getattr(reader, f"open_{kind}")
        opened(found, *([table] if kind in DATABASES else [columns, delimiter] if kind == "csv" else []))
        return reader.sample(_Asked(person, time, value, width, zone, epoch, time_format, known or categories is True))
    finally:
        reader.close()


class _Asked(NamedTuple):
    person: str
    time: str
    value: str
    width: int
    zone: str
    epoch: Literal["s", "ms", "us"] | None
    time_format: str | None
    categories: tuple[str, ...] | bool


def check_categories(names: Sequence[str]) -> tuple[str, ...]:
    """Return the categories that are the states of a process, or refuse them."""
    if not 2 <= len(set(names)) == len(names) <= LARGEST_STATES or "" in names:
        raise InvalidInput(
            f"{len(names)} categories were given as states: there must be 2 to {LARGEST_STATES}, each with a name of its own"
        )
    return tuple(names)


class _Reader(DuckEngine):
    """The publisher's engine, asked for single readings instead of totals."""

    def sample(self, asked: _Asked) -> Sample:
        """Return all readings by person."""
        return self._read(lambda: self._sample(asked))

    def _sample(self, asked: _Asked) -> Sample:
        first, last = self._extent(asked)
        question = _question(asked, first, last)
        rows = f"(SELECT p::VARCHAR AS p, k, us, x, g FROM {self._rows(question)} WHERE named AND finite)"
        self._check_spacing(rows, asked.width)
        names = self._categories(rows, asked)
        rows = f"(SELECT * FROM {rows} r JOIN categories ON r.g = categories.category)" if names else rows
        enough = f"SELECT p FROM {rows} GROUP BY p HAVING count(DISTINCT k) >= {FEWEST} ORDER BY p"
        people = [str(p) for (p,) in self._run(enough)]
        everybody = int(self._run(f"SELECT count(DISTINCT p) FROM {rows}")[0][0])
        if not people:
            raise InvalidInput(f"{self._label}: nobody of {everybody:,} has readings in {FEWEST} steps: check the step")
        self._number(people)
        joined = f"FROM {rows} r JOIN numbered ON r.p = numbered.name GROUP BY i, k"
        cells = self._last_categories(joined, len(names)) if names else self._means(joined)
        cuts = np.searchsorted(cells["i"], np.arange(1, len(people)))
        each = list(zip(np.split(cells["k"], cuts), np.split(cells["x"], cuts), strict=True))
        _check_size([(int(k[0]), int(k[-1])) for k, _ in each], len(cells["i"]))
        made = [_sequence(k, x, asked.width) for k, x in each]
        sequences, starts = tuple(s for s, _ in made), tuple(start for _, start in made)
        return Sample(tuple(people), sequences, asked.width, starts, everybody - len(people), names)

    def _means(self, joined: str) -> Any:
        """One number for each person and slot: the mean of its readings."""
        cells = self._run(f"SELECT i, k, min(x) AS x, count(*) AS c {joined} ORDER BY i, k", arrays=True)
        several = cells["c"] > 1
        if (
            several.any()
        ):  # added up in the order of their size, so that no number of threads changes the last bit of a mean
            mean = "list_sum(list_sort(list(x))) / count(*)"
            found = self._run(f"SELECT i, k, {mean} AS x {joined} HAVING count(*) > 1 ORDER BY i, k", arrays=True)
            cells["x"][several] = found["x"]
        return cells

    def _last_categories(self, joined: str, count: int) -> Any:
        """One category for each person and slot, as its place: the last, and at one moment the one that stands later."""
        last = f"(max((us::HUGEINT + {LATEST}) * {count} + code) % {count})::DOUBLE"
        return self._run(f"SELECT i, k, {last} AS x {joined} ORDER BY i, k", arrays=True)

    def _categories(self, rows: str, asked: _Asked) -> tuple[str, ...]:
        """The categories that readings stand for, made joinable as `categories` (category, code); none for numbers."""
        import pyarrow as pa

        if asked.categories is False:
            return ()
        names = asked.categories if isinstance(asked.categories, tuple) else ()
        if not names:
            few = self._run(f"SELECT DISTINCT g FROM {rows} WHERE g <> '' ORDER BY g LIMIT {LARGEST_STATES + 1}")
            if not 2 <= len(few) <= LARGEST_STATES:
                how = "more than" if len(few) > 1 else "fewer than"
                raise InvalidInput(
                    f"{self._label}: the column {asked.value!r} has {how} {LARGEST_STATES if len(few) > 1 else 2} categories: "
                    "name those that are states, or give a number of states if they are numbers"
                )
            names = tuple(str(g) for (g,) in few)
        self._register("categories", pa.table({"category": pa.array(names, pa.string()), "code": range(len(names))}))
        return names

    def _check_spacing(self, rows: str, width: int) -> None:
        """Refuse a step that is no multiple of the usual gap between readings of one person, if most gaps are alike."""
        every = max(1, int(self._run(f"SELECT count(*) FROM {rows}")[0][0]) // ENOUGH_ROWS)
        gaps = (
            "SELECT us - lag(us) OVER (PARTITION BY p ORDER BY us) AS gap FROM "
            f"(SELECT DISTINCT p, us FROM {rows} WHERE hash(p) % {every} = 0)"
        )
        near = f"abs(gap - middle) <= {ALIKE} * middle"
        found = self._run(
            f"WITH gaps AS (SELECT gap FROM ({gaps}) WHERE gap > 0), usual AS (SELECT median(gap) AS middle FROM gaps) "
            f"SELECT count(*), count_if({near}), mode(gap) FILTER ({near}) FROM gaps, usual"
        )
        count, alike, gap = found[0]
        if count < FEWEST_GAPS or 2 * alike < count:
            return  # too few to tell, or events, at any time
        times = width / gap
        if round(times) < 1 or abs(times - round(times)) > ALIKE * times:
            raise InvalidInput(
                f"{self._label}: readings are {_say(gap)} apart, and a step of {_say(width)} holds no whole number of them, so "
                f"that steps would stand empty: give a step of {_say(gap)} (--step {_say(gap)!r}), or a multiple of it"
            )

    def _extent(self, asked: _Asked) -> tuple[int, int]:
        """When the first and the last good reading are, on whatever clock they carry, in µs."""
        readings, _ = self._readings(_question(asked, 0, 0))
        found = self._run(
            f"SELECT min(t), max(t) FROM {readings} WHERE named AND finite AND t BETWEEN -{LATEST // 32} AND {LATEST // 32}"
        )
        if found[0][0] is None:
            raise InvalidInput(
                f"{self._label} has no good reading: check that {asked.person!r} names a person, {asked.time!r} a time and "
                f"{asked.value!r} a number"
            )
        return int(found[0][0]), int(found[0][1])

    def _number(self, people: list[str]) -> None:
        import pyarrow as pa

        self._register("numbered", pa.table({"name": pa.array(people, pa.string()), "i": range(len(people))}))


def _question(asked: _Asked, first: int, last: int) -> Question:
    """The stretch of time from a day before the first reading to a day after the last, in slots from midnight UTC."""
    start = (first // DAY - 1) * DAY
    slots = (last + 2 * DAY - start) // asked.width + 1
    numbers = asked.categories is False
    return Question(
        kind="sum", person=asked.person, time=asked.time, epoch=asked.epoch, time_format=asked.time_format,
        value=asked.value if numbers else None, group=None if numbers else asked.value,
        local=naive_to_utc(asked.zone, *_within_calendar(first, last)),
        buckets=Buckets(asked.width, ((-(2**62), -start),)), first=1, last=slots,
    )  # fmt: skip


def _within_calendar(first: int, last: int) -> tuple[int, int]:
    """Offsets of a zone are looked up day by day: not for more than three centuries."""
    earliest, latest = -100 * 366 * DAY, 200 * 366 * DAY
    return max(min(first, latest), earliest), min(max(last, earliest), latest)


def _check_size(spans: list[tuple[int, int]], readings: int) -> None:
    """Refuse slots that need gigabytes and are nearly all empty, from everybody's first slot and last."""
    longest, slots = max(last - first for first, last in spans), sum(last - first for first, last in spans)
    if longest > MOST_CELLS:
        raise InvalidInput(
            f"somebody has readings {longest:,} slots apart: a time is wrong, or the step too narrow: the most is {MOST_CELLS:,}"
        )
    if slots > MOST_EMPTY and 10 * readings < slots:
        raise InvalidInput(f"{len(spans):,} people have readings in {readings:,} of {slots:,} slots: give a wider step")


def _say(us: int) -> str:
    """A width as people write it: the largest unit that it is whole in.

    >>> _say(3_600_000_000), _say(90_000_000), _say(1)
    ('1 h', '90 s', '1e-06 s')
    """
    for unit, size in (("day", DAY), ("h", 3_600 * SECOND), ("min", 60 * SECOND), ("s", SECOND)):
        if us % size == 0:
            return f"{us // size} {unit}{'s' if unit == 'day' and us > size else ''}"
    return f"{us / SECOND:g} s"


def _sequence(k: Any, x: Any, width: int) -> tuple[Floats, int]:
    """One person's slots, from midnight of the first day on where slots divide a day, and where they begin."""
    a_day = DAY // width if DAY % width == 0 else 1
    first = int(k[0]) // a_day * a_day
    result = np.full(int(k[-1]) - first + 1, np.nan)
    result[np.asarray(k, dtype=np.int64) - first] = x
    return result, first
