"""A source of readings behind one DuckDB connection: opening it, its columns, and how each kind of file is read.

Parquet, DuckDB and Arrow are scanned where they lie. CSV, SQLite and Arrow streams are parsed once, into a scratch database on
disk, which is unlinked while it is open.

**Nothing that DuckDB says while it reads cells is passed on**: it quotes them. Its reader of Parquet stops at text that is no
UTF-8, so a file at which it stops is read once more, through Arrow, where such a cell is a bad one.

**Files may differ in their types.** DuckDB would cast all to the types of the first, which splits and merges people; so the files
are grouped by the types of the columns that are asked for, each group is read as its types say, and people are compared as text.

**A column is the one of exactly that name.** DuckDB takes `kwh` and `KWH` for one; so every part says under which identifier of
its own DuckDB finds a column: its place in the source decides, and names are compared here.

**Files of a wide table may differ in their people**: each is read by its own columns, and who has none has no reading there.

**CSV lines are independent.** A quote that never closes would swallow the rows of other people, which no sensitivity allows for;
so a line is a record, always, and a line that does not split into the header's columns is one bad row.
"""

from __future__ import annotations

import contextlib
import glob
import os
import sqlite3
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote as percent

from halflife.engines.arrow import column_names, convert_for_duckdb, folders, parquet_stream
from halflife.engines.duckdb.files import (
    Delimiter,
    Unreadable,
    check_gzip,
    check_stored,
    csv_header,
    csv_sql,
    decode,
    find_table,
    headerless_form,
    only,
    quote_files,
    sqlite_batches,
)
from halflife.engines.duckdb.scratch import NO_ROOM, NoRoom, Scratch
from halflife.engines.duckdb.sql import literal, name
from halflife.errors import HalflifeError, Interrupted, InvalidInput, SourceUnreachable

__all__ = ["DuckSource", "NoRoom", "NotEnoughMemory", "Part", "label_of"]

T = TypeVar("T")
MEMORY = "500MB"
"""How much DuckDB may hold before it writes to its scratch folder."""
LOCKED = "IO Error: Could not set lock on file"
"""How DuckDB begins to say that another process has its file open to write to it."""


class NotEnoughMemory(InvalidInput):
    """DuckDB needs more memory than it may have."""


@dataclass(frozen=True)
class Part:
    """Rows of one schema: their name, what stands after FROM to get them, and each column's type and identifier there.

    names  its columns in order; one that stands there twice does so here
    """

    label: str
    source: str
    names: Sequence[str]
    types: Mapping[str, str]
    identifiers: Mapping[str, str]


Columned = Callable[[Sequence[str] | None], list[Part]]
"""Returns the parts of a source with some columns, that each must have; or, of None, with all that each has."""


class DuckSource:
    """One source behind one DuckDB connection. See `halflife.engines.base.Engine`."""

    def __init__(self, label: str, scratch: Path | None = None, threads: int | None = None) -> None:
        import duckdb

        self._label = label
        self._folder = Scratch(scratch, label)
        options: dict[str, Any] = {
            "memory_limit": MEMORY,
            "temp_directory": str(self._folder.path / "spill"),
            "preserve_insertion_order": False,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        }
        try:
            self._duck = duckdb.connect(config=options if threads is None else {**options, "threads": threads})
        except duckdb.Error as error:
            self._folder.close()
            raise InvalidInput(f"DuckDB refuses threads={threads!r}: {error}") from None
        self._run("SET TimeZone = 'UTC'")
        self._run("SET enable_progress_bar_print = false")
        self._run("SET enable_progress_bar = true")  # for `progress`: nothing is printed
        self._stage = "reading", 0, 1
        self._types: dict[str, str] = {}
        self._names: list[str] = []
        self._parts: Columned = lambda columns: []
        self._patient: Columned | None = None
        self._parse_once = False
        self._keeps_rejects = False
        self._parsed: dict[tuple[str | None, ...], tuple[str, int]] = {}

    def columns(self) -> Mapping[str, str]:
        """Return the source's columns and their types."""
        return dict(self._types)

    def progress(self) -> tuple[str, float]:
        """Return what another thread has asked for, and how much of it is done: whole stages, and of one what DuckDB guesses."""
        what, stage, stages = self._stage
        return what, (stage + max(0.0, self._duck.query_progress()) / 100) / stages

    def interrupt(self) -> None:
        """Break off what another thread has asked for: that raises `Interrupted`."""
        self._duck.interrupt()

    def close(self) -> None:
        """Close the connection and remove the scratch folder."""
        self._duck.close()
        self._folder.close()

    def _read(self, work: Callable[[], T]) -> T:
        """Return what some work on the readings gives; if DuckDB's own reader stops, do it with the one that does not."""
        try:
            return work()
        except Unreadable:
            if self._patient is None:
                raise
        self._parts, self._patient, self._parse_once = self._patient, None, True
        return work()

    def _run(self, sql: str, *, arrays: bool = False) -> Any:
        """Run a statement to its end, for rows or for arrays by column. DuckDB's words may quote a cell: none are passed on.

        Refusals are raised after the `except`, so that not even their context holds DuckDB's.
        """
        import duckdb

        refusal: HalflifeError
        try:
            return self._duck.execute(sql).fetchnumpy() if arrays else self._duck.execute(sql).fetchall()
        except duckdb.InterruptException:
            refusal = Interrupted(f"{self._label}: reading was broken off")
        except duckdb.Error as error:
            if _lacks_room(error):
                refusal = NoRoom(self._label, self._folder.place)
            elif isinstance(error, duckdb.OutOfMemoryException):
                refusal = NotEnoughMemory(
                    f"{self._label}: DuckDB needs more memory: raise its limit, or ask for fewer steps"
                )
            else:
                refusal = self._unreadable()
        raise refusal

    def _locked(self) -> SourceUnreachable:
        return SourceUnreachable(f"{self._label} cannot be opened: a process that writes to it keeps it locked")

    def _unreadable(self) -> Unreadable:
        return Unreadable(
            f"{self._label} cannot be read to its end: a file may be damaged, or its disk fails; "
            "check both, or write the readings anew"
        )

    def _open(self, sql: str) -> Any:
        """Run a statement that opens a source and reads no cell: what DuckDB refuses is said with the source's name."""
        import duckdb

        try:
            return self._duck.execute(sql).fetchall()
        except duckdb.InterruptException:
            raise Interrupted(f"{self._label}: reading was broken off") from None
        except duckdb.IOException as error:
            if _lacks_room(error):
                raise NoRoom(self._label, self._folder.place) from None
            if str(error).startswith(LOCKED):
                raise self._locked() from None
            raise Unreadable(f"{self._label} cannot be read: {str(error).splitlines()[0]}") from None
        except duckdb.Error as error:
            raise InvalidInput(f"{self._label} cannot be read: {str(error).splitlines()[0]}") from None

    def _register(self, table: str, stream: object) -> None:
        """Make Arrow data known by a name; it says so if it has types that DuckDB does not know."""
        import duckdb

        try:
            self._duck.register(table, stream)
        except duckdb.Error as error:
            raise InvalidInput(f"{self._label} has a column of a type that DuckDB cannot read: {error}") from None

    # -- opening

    def _described(self, source: str) -> list[tuple[str, str]]:
        """The columns of what may stand after FROM, each with its identifier, which is DuckDB's alone, and its type."""
        return [(row[0], row[1]) for row in self._open(f"DESCRIBE SELECT * FROM {source}")]

    def _part(self, label: str, source: str, names: Sequence[str], types: Mapping[int, str] | None = None) -> Part:
        """What may stand after FROM, whose columns have these names place by place, and other types where DuckDB errs."""
        found = self._described(source)
        kinds = [(types or {}).get(i, kind) for i, (_, kind) in enumerate(found)]
        identifiers = [identifier for identifier, _ in found]
        return Part(
            label, source, names, dict(zip(names, kinds, strict=True)), dict(zip(names, identifiers, strict=True))
        )

    def _look(self, source: str, names: Sequence[str] | None = None, types: Mapping[int, str] | None = None) -> None:
        """Take a source as it lies: what may stand after FROM; with its names and types where DuckDB has others."""
        self._names = [name for name, _ in self._described(source)] if names is None else list(names)
        part = self._part(self._label, source, self._names, types)
        self._types = dict(part.types)
        self._parts = lambda columns: [part]

    def _scratch(self, table: str, sql: str, *more: str) -> str:
        """Write the rows of queries of the same columns to the scratch database, one after the other, compressed and on disk.

        Its file loses its name at once, where the system allows, and its log is empty after each table: then a process that is
        killed leaves none of it.
        """
        file = self._folder.path / "scratch.duckdb"
        self._open(f"ATTACH IF NOT EXISTS {literal(str(file))} AS scratch")
        with contextlib.suppress(OSError):
            file.unlink()
        self._run(f"CREATE OR REPLACE TABLE scratch.{table} AS {sql}")
        for other in more:
            self._run(f"INSERT INTO scratch.{table} BY NAME {other}")
        self._run("CHECKPOINT scratch")
        return f"scratch.{table}"

    def open_arrow(self, table: object) -> None:
        """Read an Arrow table where it lies; any other stream of Arrow batches is first written to disk."""
        import pyarrow as pa

        stream, zoned = convert_for_duckdb(
            table if isinstance(table, pa.Table) else pa.RecordBatchReader.from_stream(table)
        )
        self._register("source", stream)
        source = "source" if isinstance(table, pa.Table) else self._scratch("source", "SELECT * FROM source")
        self._look(source, stream.schema.names, zoned)

    def open_parquet(self, files: Sequence[Path]) -> None:
        """Read Parquet files, each as its own types say; files of one schema in one scan."""
        schemas = {path: self._parquet_columns(path) for path in files}
        for found in schemas.values():
            known_names, counts = set(self._names), Counter(found.names)
            self._names += [name for name in found.names if name not in known_names or counts[name] > 1]
            for column, kind in found.types.items():
                known = self._types.setdefault(column, kind)
                self._types[column] = known if kind in known.split(" or ") else f"{known} or {kind}"

        def parts(columns: Sequence[str] | None) -> list[Part]:
            alike: dict[Any, list[Path]] = {}
            for path, found in schemas.items():
                self._check_schema(columns, path, found)
                form = [(c, found.types[c]) for c in (found.names if columns is None else columns)]
                alike.setdefault((*form, *folders(path), path if found.renamed else None), []).append(path)
            found_of = [(paths, schemas[paths[0]]) for paths in alike.values()]
            return [Part(label_of(p), _parquet(p), f.names, f.types, f.identifiers) for p, f in found_of]

        self._parts = parts
        self._patient = lambda columns: [
            self._streamed(i, path, schemas[path].names if columns is None else columns) for i, path in enumerate(files)
        ]

    def _parquet_columns(self, path: Path) -> _Columns:
        """A Parquet file's own names, in their order, and those that its folders state; each with DuckDB's identifier."""
        rows = self._open(f"SELECT name, num_children FROM parquet_schema({literal(glob.escape(str(path)))})")
        found, names = self._described(_parquet([path])), column_names(rows)
        names += [identifier for identifier, _ in found[len(names) :]]
        if len(names) > len(found):
            raise InvalidInput(f"{path} has columns that DuckDB does not show: write it anew")
        return _Columns(names, [identifier for identifier, _ in found], [kind for _, kind in found])

    def _check_schema(self, columns: Sequence[str] | None, path: Path, found: _Columns) -> None:
        """Refuse a file that lacks a column, or has one that a folder hides; where all are asked for, they are people's."""
        stated = {key.lower(): key for key in folders(path)}
        for column in found.names if columns is None else columns:
            if column not in found.types:
                raise _lacks_column(path, column)
            if stated.get(column.lower(), column) != column:
                if columns is None:
                    raise InvalidInput(f"{path}: a column is hidden by a folder that states one: rename the folder")
                raise InvalidInput(
                    f"{path}: the column {column!r} is hidden by a folder that states {stated[column.lower()]!r}: rename one"
                )

    def _streamed(self, i: int, path: Path, columns: Sequence[str]) -> Part:
        """A Parquet file read through Arrow; what Arrow says of it is not passed on either."""
        import pyarrow as pa

        stream = None
        with contextlib.suppress(pa.ArrowException, OSError, KeyError):
            stream, zoned = convert_for_duckdb(parquet_stream(path, columns))
        if stream is None:
            raise self._unreadable()
        self._register(f"source_{i}", stream)
        return self._part(str(path), f"source_{i}", columns, zoned)

    def open_duckdb(self, files: Sequence[Path], table: str | None) -> None:
        """Read a table of a DuckDB file."""
        self._open(f"ATTACH {literal(str(only(files)))} AS base (READ_ONLY)")
        found = {
            (t if schema == "main" else f"{schema}.{t}"): (f"base.{name(schema)}.{name(t)}", is_stored)
            for schema, t, is_stored in self._open(
                "SELECT schema_name, table_name, NOT contains(sql, 'GENERATED ALWAYS AS') FROM duckdb_tables() "
                "WHERE database_name = 'base' UNION ALL "
                "SELECT schema_name, view_name, false FROM duckdb_views() WHERE database_name = 'base' AND NOT internal"
            )
        }
        check_stored(self._label, table, [t for t, (_, is_stored) in found.items() if not is_stored])
        known = {t: place for t, (place, is_stored) in found.items() if is_stored}
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
            found = base.execute(
                "SELECT name, rootpage > 0 FROM sqlite_master WHERE type IN ('table', 'view')"
            ).fetchall()
            check_stored(self._label, table, [t for t, is_stored in found if not is_stored])
            chosen = find_table(table, [t for t, is_stored in found if is_stored], self._label)
            rows = base.execute(f"PRAGMA table_info({name(chosen)})").fetchall()
            base.close()
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY:  # whatever kind of it
                raise self._locked() from None
            raise InvalidInput(f"{self._label} cannot be read as SQLite: {error}") from None
        self._types = {row[1]: row[2] or "ANY" for row in rows}
        self._names = [row[1] for row in rows]

        def parts(columns: Sequence[str] | None) -> list[Part]:
            try:
                base = connect()
            except sqlite3.Error:  # taken away since
                raise self._unreadable() from None
            asked = self._names if columns is None else columns
            self._register("source", sqlite_batches(base, chosen, asked))
            return [self._part(self._label, "source", asked)]

        self._parts, self._parse_once = parts, True

    def open_csv(
        self, files: Sequence[Path], columns: Sequence[str] | None = None, delimiter: Delimiter | None = None
    ) -> None:
        """Read CSV files, each line a record: those of one header in one scan; or all with these columns and no header."""
        alike: dict[tuple[tuple[str, ...], str], list[Path]] = {}
        for path in files:
            header, between = csv_header(path) if columns is None else headerless_form(columns, delimiter)
            alike.setdefault((tuple(header), between), []).append(path)
        self._names = list(dict.fromkeys(column for header, _ in alike for column in header))
        self._types = dict.fromkeys(self._names, "VARCHAR")
        self._parse_once = self._keeps_rejects = True

        def parts(asked: Sequence[str] | None) -> list[Part]:
            check_gzip(files)
            return [self._csv_part(paths, *form, asked, columns is None) for form, paths in alike.items()]

        self._parts = parts

    def _csv_part(
        self, files: Sequence[Path], header: Sequence[str], delimiter: str, asked: Sequence[str] | None, named: bool
    ) -> Part:
        columns = header if asked is None else asked
        for column in columns:
            if column not in header:
                raise _lacks_column(files[0], column)
        source = csv_sql(files, header, delimiter, columns, named=named)
        types, identifiers = dict.fromkeys(header, "VARCHAR"), {column: f"c{i}" for i, column in enumerate(columns)}
        return Part(label_of(files), source, header, types, identifiers)


@dataclass(frozen=True)
class _Columns:
    """The columns of a Parquet file, place by place: its own names, DuckDB's identifiers and types."""

    names: list[str]
    found: list[str]
    kinds: list[str]

    @property
    def renamed(self) -> bool:
        """Whether DuckDB calls some otherwise, as their names differ in case alone: then it mixes them up between files."""
        return self.names != self.found

    @cached_property
    def types(self) -> dict[str, str]:
        return dict(zip(self.names, self.kinds, strict=True))

    @cached_property
    def identifiers(self) -> dict[str, str]:
        return dict(zip(self.names, self.found, strict=True))


def _lacks_room(error: Exception) -> bool:
    """Whether DuckDB stopped because a disk is full: it could not write to a file, or not put memory aside.

    It says so in words alone. They end with the system's, so that no file that is called like them is taken for a full disk; and
    of memory it names the limit of the folder that it puts it aside in, which is the room that the disk had.
    """
    import duckdb

    if isinstance(error, duckdb.OutOfMemoryException):
        return "'max_temp_directory_size'" in str(error)
    said = str(error)
    return isinstance(error, duckdb.IOException) and any(said.endswith(f": {os.strerror(code)}") for code in NO_ROOM)


def _lacks_column(path: Path, column: str) -> InvalidInput:
    return InvalidInput(f"{path} has no column {column!r}, which other files have: give files with the same columns")


def label_of(files: Sequence[Path]) -> str:
    """Return what files are called in an error."""
    return str(files[0]) if len(files) == 1 else f"{files[0]} and {len(files) - 1} more"


def _parquet(files: Sequence[Path]) -> str:
    """Parquet files after FROM; what their folders' names state is text, whichever files there are."""
    return f"read_parquet([{quote_files(files)}], hive_types_autocast = false)"
