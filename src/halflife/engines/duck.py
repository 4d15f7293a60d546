"""The embedded engine: DuckDB over Parquet, CSV, DuckDB and SQLite files and Arrow tables.

A question becomes at most four statements over `readings`, whose columns are

    p, named     the person, and whether there is one            x, finite    the value, and whether it is a finite number
    t, absolute  µs since 1970, and whether of UTC's clock or a local one            g    the group's name

    tallies    why each row of the asked steps is bad, and how many good ones lie outside the bounds: cheap scans
    bounded    group by (person, step[, group]) → one whole number each, clipped; then add up: the costly part
    once       the same over the largest reading of each moment; only if some person has two readings in a step
    moments    how many moments there are, if only the tally of duplicates needs them

Parquet, DuckDB and Arrow are scanned where they lie. CSV, SQLite and Arrow streams are parsed once, into a scratch database on
disk. DuckDB spills beyond its memory limit; person and step stay the keys themselves, so no two people can ever be merged.

**Nothing that DuckDB says while it reads cells is passed on**: it quotes them. Its reader of Parquet stops at text that is no
UTF-8, so a file at which it stops is read once more, through Arrow, where such a cell is a bad one.

**Files may differ in their types.** DuckDB would cast all to the types of the first, which splits and merges people; so the files
are grouped by the types of the columns that are asked for, each group is read as its types say, and people are compared as text.

**CSV lines are independent.** A quote that never closes would swallow the rows of other people, which no sensitivity allows for;
so a line is a record, always, and a line that does not split into the header's columns is one bad row.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote as percent

from halflife.engines.arrow import folders, parquet_stream, readable
from halflife.engines.base import LATEST, ONCE_MATTERS, TALLIES, Answer, Question, empty_answer
from halflife.engines.files import (
    Format,
    csv_header,
    csv_sql,
    decode,
    find_files,
    find_format,
    find_table,
    listed,
    only,
    sqlite_batches,
)
from halflife.engines.scratch import Scratch
from halflife.engines.sql import (
    adds_sql,
    bin_sql,
    class_of,
    clip,
    fold_sql,
    literal,
    name,
    person_sql,
    shifted,
    time_sql,
    units,
    value_sql,
)
from halflife.errors import InvalidInput, unknown

REASONS = ("good", "bad_time", "bad_person", "bad_value", "unknown_person", "unknown_group")
TIMELESS = f"t IS NULL OR t NOT BETWEEN -{LATEST} AND {LATEST}"


class Unreadable(InvalidInput):
    """DuckDB stopped while it read cells."""


@dataclass(frozen=True)
class Part:
    """Rows of one schema: their name, what stands after FROM to get them, and the columns' types."""

    label: str
    source: str
    types: Mapping[str, str]


class DuckEngine:
    """One source behind one DuckDB connection. See `halflife.engines.base.Engine`."""

    def __init__(
        self, label: str, threads: int | None = None, memory: str = "500MB", scratch: Path | None = None
    ) -> None:
        import duckdb

        self._label = label
        self._folder = Scratch(scratch)
        options: dict[str, Any] = {
            "memory_limit": memory,
            "temp_directory": str(self._folder.path / "spill"),
            "preserve_insertion_order": False,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        }
        try:
            self._duck = duckdb.connect(config=options if threads is None else {**options, "threads": threads})
        except duckdb.Error as error:
            self._folder.close()
            raise InvalidInput(f"DuckDB refuses memory={memory!r}, threads={threads!r}: {error}") from None
        self._run("SET TimeZone = 'UTC'")
        self._run("SET enable_progress_bar = false")
        self._types: dict[str, str] = {}
        self._parts: Callable[[Sequence[str]], list[Part]] = lambda columns: []
        self._patient: Callable[[Sequence[str]], list[Part]] | None = None
        self._parse_once = False
        self._parsed: dict[tuple[str | None, ...], tuple[str, int]] = {}

    def columns(self) -> Mapping[str, str]:
        """Return the source's columns and their types."""
        return dict(self._types)

    def close(self) -> None:
        """Close the connection and remove the scratch folder."""
        self._duck.close()
        self._folder.close()

    def _run(self, sql: str, *, arrays: bool = False) -> Any:
        """Run a statement to its end, for rows or for arrays by column. DuckDB's words may quote a cell: none are passed on.

        Refusals are raised after the `except`, so that not even their context holds DuckDB's.
        """
        import duckdb

        try:
            return self._duck.execute(sql).fetchnumpy() if arrays else self._duck.execute(sql).fetchall()
        except duckdb.OutOfMemoryException:
            refusal = InvalidInput(f"{self._label}: DuckDB needs more memory: raise its limit, or ask for fewer steps")
        except duckdb.Error:
            refusal = self._unreadable()
        raise refusal

    def _unreadable(self) -> Unreadable:
        return Unreadable(
            f"{self._label} cannot be read to its end: a file may be damaged or the disk full; "
            "check both, or write the readings anew"
        )

    def _open(self, sql: str) -> Any:
        """Run a statement that opens a source and reads no cell: what DuckDB refuses is said with the source's name."""
        import duckdb

        try:
            return self._duck.execute(sql).fetchall()
        except duckdb.Error as error:
            raise InvalidInput(f"{self._label} cannot be read: {str(error).splitlines()[0]}") from None

    def _register(self, table: str, stream: Any) -> None:
        """Make Arrow data known by a name; it says so if it has types that DuckDB does not know."""
        import duckdb

        try:
            self._duck.register(table, stream)
        except duckdb.Error as error:
            raise InvalidInput(f"{self._label} has a column of a type that DuckDB cannot read: {error}") from None

    # -- opening

    def _described(self, source: str) -> dict[str, str]:
        """The columns and types of what may stand after FROM."""
        return {row[0]: row[1] for row in self._open(f"DESCRIBE SELECT * FROM {source}")}

    def _look(self, source: str, types: Mapping[str, str] | None = None) -> None:
        """Take a source as it lies: what may stand after FROM."""
        self._types = self._described(source) | dict(types or {})
        part = Part(self._label, source, self._types)
        self._parts = lambda columns: [part]

    def _scratch(self, table: str, sql: str) -> str:
        """Write a query's rows to the scratch database, compressed and on disk.

        Its file loses its name at once, where the system allows, and its log is empty after each table: then a process that is
        killed leaves none of it.
        """
        file = self._folder.path / "scratch.duckdb"
        self._open(f"ATTACH IF NOT EXISTS {literal(str(file))} AS scratch")
        with contextlib.suppress(OSError):
            file.unlink()
        self._run(f"CREATE TABLE scratch.{table} AS {sql}")
        self._run("CHECKPOINT scratch")
        return f"scratch.{table}"

    def open_arrow(self, table: Any) -> None:
        """Read an Arrow table where it lies; any other stream of Arrow batches is first written to disk."""
        import pyarrow as pa

        stream, zoned = readable(table if isinstance(table, pa.Table) else pa.RecordBatchReader.from_stream(table))
        self._register("source", stream)
        source = "source" if isinstance(table, pa.Table) else self._scratch("source", "SELECT * FROM source")
        self._look(source, zoned)

    def open_parquet(self, files: Sequence[Path]) -> None:
        """Read Parquet files, each as its own types say; files of one schema in one scan."""
        types = {path: self._described(_parquet([path])) for path in files}
        for found in types.values():
            for column, kind in found.items():
                known = self._types.setdefault(column, kind)
                self._types[column] = known if kind in known.split(" or ") else f"{known} or {kind}"

        def parts(columns: Sequence[str]) -> list[Part]:
            alike: dict[Any, list[Path]] = {}
            for path, found in types.items():
                self._same_columns(columns, path, found)
                alike.setdefault((*(found[c] for c in columns), *folders(path)), []).append(path)
            return [Part(_label(paths), _parquet(paths), types[paths[0]]) for paths in alike.values()]

        self._parts = parts
        self._patient = lambda columns: [self._streamed(i, path, columns) for i, path in enumerate(files)]

    def _same_columns(self, columns: Sequence[str], path: Path, found: Mapping[str, str]) -> None:
        for column in columns:
            if column not in found:
                raise InvalidInput(
                    f"{path} has no column {column!r}, which other files have: give files with the same columns"
                )

    def _streamed(self, i: int, path: Path, columns: Sequence[str]) -> Part:
        """A Parquet file read through Arrow; what Arrow says of it is not passed on either."""
        import pyarrow as pa

        stream = None
        with contextlib.suppress(pa.ArrowException, OSError, KeyError):
            stream, zoned = readable(parquet_stream(path, columns))
        if stream is None:
            raise self._unreadable()
        self._register(f"source_{i}", stream)
        return Part(str(path), f"source_{i}", self._described(f"source_{i}") | zoned)

    def open_duckdb(self, files: Sequence[Path], table: str | None) -> None:
        """Read a table or view of a DuckDB file."""
        self._open(f"ATTACH {literal(str(only(files)))} AS base (READ_ONLY)")
        known = {
            (t if schema == "main" else f"{schema}.{t}"): f"base.{name(schema)}.{name(t)}"
            for schema, t in self._open(
                "SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = 'base' UNION ALL "
                "SELECT schema_name, view_name FROM duckdb_views() WHERE database_name = 'base' AND NOT internal"
            )
        }
        self._look(known[find_table(table, known, self._label)])

    def open_sqlite(self, files: Sequence[Path], table: str | None) -> None:
        """Read a table of a SQLite file, as text: its cells have types of their own."""
        path = only(files)

        def connect() -> sqlite3.Connection:
            base = sqlite3.connect(f"file:{percent(str(path.resolve()))}?mode=ro", uri=True, check_same_thread=False)
            base.text_factory = decode
            return base

        try:
            base = connect()
            known = [r[0] for r in base.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")]
            chosen = find_table(table, known, self._label)
            rows = base.execute(f"PRAGMA table_info({name(chosen)})").fetchall()
            base.close()
        except sqlite3.Error as error:
            raise InvalidInput(f"{self._label} cannot be read as SQLite: {error}") from None
        self._types = {row[1]: row[2] or "ANY" for row in rows}

        def parts(columns: Sequence[str]) -> list[Part]:
            self._register("source", sqlite_batches(connect(), chosen, columns))
            return [Part(self._label, "source", dict.fromkeys(columns, "VARCHAR"))]

        self._parts, self._parse_once = parts, True

    def open_csv(self, files: Sequence[Path]) -> None:
        """Read CSV files with one header, each line a record."""
        header, delimiter = csv_header(files[0])
        for path in files[1:]:
            if csv_header(path) != (header, delimiter):
                raise InvalidInput(f"{path} has another header than {files[0]}: give files with the same columns")
        self._types = dict.fromkeys(header, "VARCHAR")
        self._parse_once = True
        self._parts = lambda columns: [Part(self._label, csv_sql(files, header, delimiter, columns), self._types)]

    # -- answering

    def aggregate(self, question: Question) -> Answer:
        """Answer a question; if DuckDB's own reader stops, with the one that does not."""
        try:
            return self._answer(question)
        except Unreadable:
            if self._patient is None:
                raise
        self._parts, self._patient, self._parse_once = self._patient, None, True
        return self._answer(question)

    def _answer(self, question: Question) -> Answer:
        self._register_lists(question)
        tallies, people = self._tally(question)
        good = tallies["rows"] - sum(tallies[reason] for reason in REASONS[1:])
        every = question.fold in ONCE_MATTERS and question.kind != "count"
        once = question.once and good > 0
        crowded = good > 1.2 * people * question.shape[0]  # far more readings than (person, step) pairs, by an estimate
        if once and every and crowded:
            sums, entries, beyond, moments = self._bounded(question, good, once=True)
        else:
            sums, entries, beyond, moments = self._bounded(question, good, once=False)
            if once and entries < good:  # some person has two readings in a step, perhaps at one moment
                if every:
                    sums, entries, beyond, moments = self._bounded(question, good, once=True)
                else:
                    moments = self._run(f"SELECT count(*) FROM ({self._moments(question)})")[0][0]
            elif once:
                moments = good
        if once:
            tallies["duplicates"] = good - moments
        tallies["too_many_groups"] = beyond
        return Answer(sums, {tally: tallies[tally] for tally in TALLIES})

    def _register_lists(self, question: Question) -> None:
        """Make the public lists joinable: `people` (name, number i, group g, weight w) and `names` of groups."""
        import pyarrow as pa

        q = question
        if q.table is not None or q.weights is not None:
            first: Mapping[str, int] = q.table if q.table is not None else q.weights or {}
            known = [p for p in first if q.weights is None or p in q.weights]
            columns: dict[str, Any] = {"name": pa.array(known, pa.string()), "i": range(len(known))}
            columns["g"] = pa.array([0 if q.table is None else q.table[p] for p in known], pa.int64())
            columns["w"] = pa.array([1 if q.weights is None else q.weights[p] for p in known], pa.int64())
            self._register("people", pa.table(columns))
        if q.group is not None:
            names = pa.array(q.groups, pa.string())
            self._register("names", pa.table({"name": names, "g": range(len(q.groups))}))

    def _readings(self, question: Question) -> tuple[str, int]:
        """What stands after FROM to get the readings; and how many rows were too broken to get there."""
        q = question
        key = (q.person, q.time, q.epoch, q.value, q.group)
        if key in self._parsed:
            return self._parsed[key]
        columns = [c for c in dict.fromkeys((q.person, q.time, q.value, q.group)) if c is not None]
        for column in columns:
            if column not in self._types:
                raise unknown(f"column of {self._label}", column, self._types)
        parts = self._parts(columns)
        sql = " UNION ALL BY NAME ".join(_read_sql(q, part, as_text=len(parts) > 1) for part in parts)
        if not self._parse_once:
            return f"({sql})", 0
        table = self._scratch(f"readings_{len(self._parsed)}", sql)
        self._parsed[key] = table, self._rejected()
        return self._parsed[key]

    def _rejected(self) -> int:
        """Count the lines that DuckDB could not even take as text, and forget them."""
        if not self._run("SELECT 1 FROM duckdb_tables() WHERE table_name = 'reject_errors'"):
            return 0
        lines = self._run("SELECT count(*) FROM (SELECT DISTINCT scan_id, file_id, line FROM reject_errors)")
        count = int(lines[0][0])
        self._run("DELETE FROM reject_errors")
        return count

    def _rows(self, question: Question) -> str:
        """Rows of the asked steps: the moment us, and the step k counted from 0, beside p, named, x, finite and g.

        A first filter on t keeps what may lie in the steps, so that no later sum can leave 64 bits.
        """
        q = question
        readings, _ = self._readings(q)
        width, adds, moves = q.buckets.width, [a for _, a in q.buckets.pieces], [abs(a) for _, a in q.local]
        earliest = max((q.first - 1) * width - max(adds) - max(moves), -LATEST)
        latest = min(q.last * width - min(adds) + max(moves), LATEST)
        us = f"CASE WHEN absolute THEN t ELSE {shifted('t', q.local)} END" if any(moves) else "t"
        since = shifted("us", q.buckets.pieces, (q.first - 1) * width)
        return (
            f"(SELECT *, since // {width} AS k FROM (SELECT *, {since} AS since FROM (SELECT *, {us} AS us "
            f"FROM {readings} WHERE t BETWEEN {earliest} AND {latest})) WHERE since >= 0 AND since < {q.shape[0] * width})"
        )

    def _tally(self, question: Question) -> tuple[dict[str, int], int]:
        """The tallies of rows, and how many people there are at least."""
        q = question
        rows = self._rows(q)
        readings, broken = self._readings(q)
        reasons, joins = ["WHEN named IS NOT TRUE THEN 2"], ""
        if q.value is not None:
            reasons.append("WHEN finite IS NOT TRUE THEN 3")
        if q.table is not None or q.weights is not None:
            joins += " LEFT JOIN people ON r.p::VARCHAR = people.name"
            reasons.append("WHEN people.i IS NULL THEN 4")
        if q.table is None and q.group is not None:
            joins += " LEFT JOIN names ON r.g = names.name"
            reasons.append("WHEN names.g IS NULL THEN 5")
        clipped = "false" if q.value is None else f"{units(q)} NOT BETWEEN {q.low}::DOUBLE AND {q.high}::DOUBLE"
        counts = self._run(
            f"SELECT why, count(*), count_if(clipped), approx_count_distinct(p) FROM (SELECT p, {clipped} AS clipped, "
            f"CASE {' '.join(reasons)} ELSE 0 END::TINYINT AS why FROM {rows} r{joins}) GROUP BY why"
        )
        timeless = broken + self._run(f"SELECT count(*) FROM {readings} WHERE {TIMELESS}")[0][0]
        tallies = dict.fromkeys(TALLIES, 0) | {REASONS[why]: n for why, n, _, _ in counts if why}
        tallies |= {"rows": timeless + sum(n for _, n, _, _ in counts), "bad_time": timeless}
        tallies["clipped"] = sum(n for why, _, n, _ in counts if why == 0)
        return tallies, sum(people for why, _, _, people in counts if why == 0)

    def _good(self, question: Question) -> str:
        """Good readings: person p (its number if there is a public table), step k, moment us, units u, group g."""
        q = question
        p, g, joins = "r.p", "", ""
        if q.table is not None or q.weights is not None:
            p, joins = "people.i", " JOIN people ON r.p::VARCHAR = people.name"
        if q.table is None and q.group is not None:
            g, joins = ", names.g", joins + " JOIN names ON r.g = names.name"
        u = "" if q.value is None else f", {clip(units(q), q, 'DOUBLE')} AS u"
        return f"SELECT {p} AS p, k, us{u}{g} FROM {self._rows(q)} r{joins} WHERE named AND finite"

    def _moments(self, question: Question) -> str:
        """Good readings, the largest of each person, moment and group."""
        g = ", g" if question.table is None and question.group is not None else ""
        u = "" if question.value is None else ", max(u) AS u"
        return f"SELECT p, us, any_value(k) AS k{g}{u}, count(*) AS c FROM ({self._good(question)}) GROUP BY p, us{g}"

    def _bounded(self, question: Question, readings: int, *, once: bool) -> tuple[Any, int, int, int]:
        """The answer; how many (person, step, group) entries there were, how many of them too many, and of how many moments."""
        q = question
        g = ", g" if q.table is None and q.group is not None else ""
        fold, v = fold_sql(q, readings)
        rows, c = (self._moments(q), ", count(*) AS c") if once else (self._good(q), "")
        sql = f"SELECT *, {v} AS v FROM (SELECT p, k{g}{fold}{c} FROM ({rows}) GROUP BY p, k{g})"
        kept = ""
        if g and q.most_groups < len(q.groups):
            sql = f"SELECT *, row_number() OVER (PARTITION BY p, k ORDER BY g) AS place FROM ({sql})"
            kept = f" FILTER (place <= {q.most_groups})"
        if q.table is not None or q.weights is not None:
            sql = f"SELECT e.*, w{'' if g else ', people.g'} FROM ({sql}) e JOIN people ON e.p = people.i"
        columns = {
            "k": "k",
            "total": adds_sql(q, kept),
            "entries": "count(*)",
            **({"g": "g"} if g or q.table is not None else {}),
            **({"b": f"coalesce({bin_sql(q)}, -1)"} if q.kind == "histogram" else {}),
            **({"kept": f"count(*){kept}"} if kept else {}),
            **({"moments": "sum(c)::BIGINT"} if once else {}),
        }
        keys = ", ".join(key for key in ("k", "g", "b") if key in columns)
        listed = ", ".join(f"{sql_} AS {column}" for column, sql_ in columns.items())
        found = self._run(f"SELECT {listed} FROM ({sql}) GROUP BY {keys}", arrays=True)
        sums, everywhere = empty_answer(q), found["k"] >= 0
        inside = found["b"] >= 0 if "b" in columns else everywhere
        place = tuple(found[key][inside] if key in columns else 0 for key in ("k", "g", "b"))
        sums[place] = found["total"][inside]
        entries = int(found["entries"].sum())
        beyond = entries - int(found["kept"].sum()) if kept else 0
        return sums, entries, beyond, int(found["moments"].sum()) if once else 0


def _read_sql(question: Question, part: Part, *, as_text: bool) -> str:
    """SQL of a part's readings; persons as text where there are parts of other types, so that 7, 7.0 and '7' are one."""
    q, kind = question, {column: class_of(found) for column, found in part.types.items()}

    def wrong(column: str, rule: str) -> InvalidInput:
        return InvalidInput(f"{part.label}: column {column!r} is {part.types[column]}, but {rule}")

    person = person_sql(name(q.person), kind[q.person])
    time = time_sql(name(q.time), kind[q.time], q.epoch)
    value = "NULL" if q.value is None else value_sql(name(q.value), kind[q.value])
    group = "NULL" if q.group is None else person_sql(name(q.group), kind[q.group])
    if person is None:
        raise wrong(q.person, "a person is text or a whole number")
    if time is None and q.epoch is None:
        raise wrong(q.time, "a time is a timestamp, a date or text; for numbers say epoch: s, ms or us")
    if time is None:
        raise wrong(q.time, f"epoch {q.epoch} needs numbers: leave it out for timestamps")
    if value is None:
        raise wrong(str(q.value), "a value is a number or text")
    if group is None:
        raise wrong(str(q.group), "a group is text or a whole number")
    person = f"({person})::VARCHAR" if as_text else person
    named = "p <> ''" if as_text or kind[q.person] == "text" else "p IS NOT NULL"
    finite = "true" if q.value is None else "isfinite(x)"
    return (
        f"SELECT *, {named} AS named, {finite} AS finite FROM (SELECT {person} AS p, {time[0]} AS t, "
        f"{time[1]} AS absolute, {value} AS x, {group}::VARCHAR AS g FROM {part.source})"
    )


def _label(files: Sequence[Path]) -> str:
    return str(files[0]) if len(files) == 1 else f"{files[0]} and {len(files) - 1} more"


def _parquet(files: Sequence[Path]) -> str:
    """Parquet files after FROM; what their folders' names state is text, whichever files there are."""
    return f"read_parquet([{listed(files)}], hive_types_autocast = false)"


def open_files(
    paths: Sequence[str | Path],
    format: Format | None = None,
    table: str | None = None,
    *,
    threads: int | None = None,
    memory: str = "500MB",
    scratch: Path | None = None,
) -> DuckEngine:
    """Open files, or a table of a database file; patterns such as `2013/*.parquet` are expanded."""
    files = find_files(paths)
    kind = find_format(files) if format is None else format
    openers = {
        "parquet": lambda engine: engine.open_parquet(files),
        "csv": lambda engine: engine.open_csv(files),
        "duckdb": lambda engine: engine.open_duckdb(files, table),
        "sqlite": lambda engine: engine.open_sqlite(files, table),
    }
    if kind not in openers:
        raise unknown("format", kind, openers)
    return _opened(DuckEngine(_label(files), threads, memory, scratch), openers[kind])


def open_arrow(
    table: Any, *, threads: int | None = None, memory: str = "500MB", scratch: Path | None = None
) -> DuckEngine:
    """Open an Arrow table, or anything that streams Arrow batches (`__arrow_c_stream__`)."""
    return _opened(DuckEngine("the Arrow table", threads, memory, scratch), lambda engine: engine.open_arrow(table))


def _opened(engine: DuckEngine, how: Callable[[DuckEngine], None]) -> DuckEngine:
    try:
        how(engine)
    except BaseException:
        engine.close()
        raise
    return engine
