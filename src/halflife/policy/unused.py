"""Keys that would have no effect are refused: whoever writes one expects something of it.

    population.units        where no stream has a source: a program that pushes totals knows whose each reading is
    source.table            of CSV and Parquet files, which have no tables
    source.columns          of files that name their columns themselves: all but CSV
    source.value, .group    of a wide table, whose columns are people: it has no column of values, nor of groups; nor of persons
    source.zone             where times are numbers since 1970, which are in UTC, or text that states its offset (%z)
    source.time_format      beside `epoch`: a time is a number or text
    absent                  of a stream without a source: a program that pushes nothing has skipped the step
    statistic.duplicates    of a count: a person with any reading counts once
    groups.sizes            of what is no mean and comes from a source, and of weighted sums: nothing is divided by them

`sizes` bound what a program pushes (`policy/ranges.py`), so a stream without a source may have them for sums and counts too. The
`unit` of a count names the bounds of its post-processing and stands in its output. Of `fold: max`, first and last, `duplicates`
changes no value, but what the operator's file tallies. Of a stream that a program pushes, `fold`, `duplicates` and
`clip_readings` say what the program has done. `late: as-planned` under a promise that does not forget stays too: what it says
holds, as a late step then counts alike from whenever, and the audit replays every promise so. Nor is `specifications.readings`
refused where no stream adds readings up: it says something of the data, which is as true there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, Protocol

from halflife.engines.duckdb.files import DATABASES, Delimiter, Format, guess_format
from halflife.engines.time_format import check_time_format, is_absolute
from halflife.errors import InvalidInput
from halflife.parsing.documents import Problem
from halflife.policy.model import PolicyKeys, StreamPart


def refuse_unused(policy: PolicyKeys) -> None:
    """Refuse all keys of a policy that would have no effect, each by its line."""
    problems: list[Problem] = [
        (("streams", i, *where), text) for i, s in enumerate(policy.streams) for where, text in _in_stream(s)
    ]
    if policy.population.units is not None and all(s.source is None for s in policy.streams):
        problems.append((("population", "units"), "no stream has a source whose ids these would be: leave this out"))
    if problems:
        raise policy.error(*problems)


def _in_stream(stream: StreamPart) -> Iterator[Problem]:
    """The keys of a stream without effect, and why."""
    s, source, groups = stream.statistic, stream.source, stream.groups
    if source is not None:
        yield from ((("source", *where), text) for where, text in find_unused_in_source(source))
        for key in ("person", "value", "group") if source.wide else ():
            if getattr(source, key) is not None:
                yield (
                    ("source", key),
                    f"every column of a wide table but {source.time!r} is one person's readings: leave this out",
                )
    if source is None and stream.absent == "skip":
        yield (
            ("absent",),
            "a program pushes this stream, and there is no source that could be out of reach: leave this out",
        )
    if s.kind == "count" and s.duplicates == "each":
        yield ("statistic", "duplicates"), "a person with any reading counts once in a count of people: leave this out"
    if groups is not None and groups.sizes is not None and not uses_sizes(s.kind, source is not None):
        yield ("groups", "sizes"), f"a {s.kind} is not divided by the sizes of groups: leave this out"


def uses_sizes(kind: str, from_source: bool) -> bool:
    """Return whether public sizes of groups matter: a mean is divided by them, and what a program pushes is held within the range
    that they allow."""
    return kind == "mean" or (kind != "weighted sum" and not from_source)


class Files(Protocol):
    """Files of readings as a policy names them: those of a stream, or of a sample that a process is fitted on."""

    files: list[str]
    format: Format | None
    table: str | None
    columns: list[str] | None
    delimiter: Delimiter | None
    zone: str
    epoch: Literal["s", "ms", "us"] | None
    time_format: str | None


def find_unused_in_source(source: Files) -> Iterator[Problem]:
    """The keys of files that would have no effect, and why; and a format of times that does not say when."""
    format = guess_format(source.files, source.format)
    if source.table is not None and format is not None and format not in DATABASES:
        yield ("table",), f"a {format} file has no tables: leave this out, or give a DuckDB or SQLite file"
    if source.columns is not None and format not in ("csv", None):
        yield ("columns",), f"a {format} file names its columns itself: leave this out, it is for CSV without a header"
    if source.delimiter is not None and source.columns is None:
        yield ("delimiter",), "a file with a header says its delimiter by it: leave this out, or give `columns`"
    elsewhere = source.zone.upper() not in ("UTC", "ETC/UTC")
    if source.epoch is not None and elsewhere:
        yield ("zone",), f"times that are numbers since 1970 (`epoch: {source.epoch}`) are in UTC: leave this out"
    if source.epoch is not None and source.time_format is not None:
        yield (
            ("time_format",),
            f"times are numbers since 1970 (`epoch: {source.epoch}`), not text: leave one of them out",
        )
    elif source.time_format is not None:
        try:
            check_time_format(source.time_format)
        except InvalidInput as error:
            yield ("time_format",), str(error)
        else:
            if is_absolute(source.time_format) and elsewhere:
                yield ("zone",), f"every time states its offset (%z in {source.time_format!r}): leave this out"
