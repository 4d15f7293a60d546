"""A design sample: people's readings from files, as one sequence a person on a regular grid.

What a process is fitted on or checked against. It is read as the publisher reads: hostile content never stops a run, a bad
reading counts as missing, times without a zone are local. It must not be of the people who are protected: a kernel that was
fitted on private data is itself a release of that data.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from halflife.engines.base import LATEST, Question
from halflife.engines.duckdb.engine import DuckEngine
from halflife.engines.duckdb.files import DATABASES, check_headerless, check_table, find_files, find_format
from halflife.engines.duckdb.source import label_of
from halflife.engines.time_format import check_time_format
from halflife.errors import InvalidInput, unknown
from halflife.numerics.arrays import Floats
from halflife.steps import DAY, Buckets, find_zone, microseconds, naive_to_utc, parse_width

MOST_CELLS = 100_000_000
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

    def side_by_side(self) -> Floats:
        """Return people × slots from the first to the last slot of anybody, NaN where there is no good reading.

        >>> Sample(("ann", "bob"), (np.array([1.0, 2.0]), np.array([3.0])), 1, (4, 5)).side_by_side().tolist()
        [[1.0, 2.0], [nan, 3.0]]
        """
        first = min(self.starts)
        last = max(start + len(s) for start, s in zip(self.starts, self.sequences, strict=True))
        if (last - first) * len(self.people) > MOST_CELLS:
            raise InvalidInput(
                f"{len(self.people):,} people over {last - first:,} slots are too many numbers side by side: the most is "
                f"{MOST_CELLS:,}"
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
) -> Sample:
    """Read files, or a table of a database file, into sequences; several readings of a slot become their mean.

    person, time, value  columns;  step  how wide a slot is, such as 30 min;  zone  of times that carry none
    time_format  how times are written as text, such as %d/%m/%y %H:%M, if not as 2026-01-31 13:30
    columns  the names of the columns of a CSV file without a header, in order
    """
    if time_format is not None:
        check_time_format(time_format)
        if epoch is not None:
            raise InvalidInput("a time is a number since 1970 (epoch) or text in a time_format: leave one of them out")
    width = microseconds(parse_width(step))
    find_zone(zone)
    found = find_files(files)
    kind = find_format(found) if format is None else format
    if kind not in FORMATS:
        raise unknown("format", kind, FORMATS)
    check_table(kind, table)
    check_headerless(kind, columns)
    reader = _Reader(label_of(found))
    try:
        opened = getattr(reader, f"open_{kind}")
        opened(found, *([table] if kind in DATABASES else [columns] if kind == "csv" else []))
        return reader.sample(_Asked(person, time, value, width, zone, epoch, time_format))
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


class _Reader(DuckEngine):
    """The publisher's engine, asked for single readings instead of totals."""

    def sample(self, asked: _Asked) -> Sample:
        """Return all readings by person."""
        return self._read(lambda: self._sample(asked))

    def _sample(self, asked: _Asked) -> Sample:
        first, last = self._extent(asked)
        question = _question(asked, first, last)
        rows = f"(SELECT p::VARCHAR AS p, k, x FROM {self._rows(question)} WHERE named AND finite)"
        people = [str(p) for (p,) in self._run(f"SELECT DISTINCT p FROM {rows} ORDER BY p")]
        self._number(people)
        joined = f"FROM {rows} r JOIN numbered ON r.p = numbered.name GROUP BY i, k"
        cells = self._run(f"SELECT i, k, min(x) AS x, count(*) AS c {joined} ORDER BY i, k", arrays=True)
        several = cells["c"] > 1
        if (
            several.any()
        ):  # added up in the order of their size, so that no number of threads changes the last bit of a mean
            mean = "list_sum(list_sort(list(x))) / count(*)"
            found = self._run(f"SELECT i, k, {mean} AS x {joined} HAVING count(*) > 1 ORDER BY i, k", arrays=True)
            cells["x"][several] = found["x"]
        cuts = np.searchsorted(cells["i"], np.arange(1, len(people)))
        each = zip(people, np.split(cells["k"], cuts), np.split(cells["x"], cuts), strict=True)
        made = [_sequence(name, k, x, asked.width) for name, k, x in each]
        return Sample(tuple(people), tuple(s for s, _ in made), asked.width, tuple(start for _, start in made))

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
    return Question(
        kind="sum", person=asked.person, time=asked.time, value=asked.value, epoch=asked.epoch, time_format=asked.time_format,
        local=naive_to_utc(asked.zone, *_within_calendar(first, last)),
        buckets=Buckets(asked.width, ((-(2**62), -start),)), first=1, last=slots,
    )  # fmt: skip


def _within_calendar(first: int, last: int) -> tuple[int, int]:
    """Offsets of a zone are looked up day by day: not for more than three centuries."""
    earliest, latest = -100 * 366 * DAY, 200 * 366 * DAY
    return max(min(first, latest), earliest), min(max(last, earliest), latest)


def _sequence(name: str, k: Any, x: Any, width: int) -> tuple[Floats, int]:
    """One person's slots, from midnight of the first day on where slots divide a day, and where they begin."""
    a_day = DAY // width if DAY % width == 0 else 1
    first = int(k[0]) // a_day * a_day
    size = int(k[-1]) - first + 1
    if size > MOST_CELLS:
        raise InvalidInput(
            f"{name!r} has readings {size:,} slots apart: a time is wrong, or the step too narrow: the most is {MOST_CELLS:,}"
        )
    result = np.full(size, np.nan)
    result[np.asarray(k, dtype=np.int64) - first] = x
    return result, first
