"""Files of readings: which ones are meant, their format, and how CSV lines and SQLite tables become columns of text."""

from __future__ import annotations

import csv
import glob
import gzip
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from halflife.engines.grammar import as_text
from halflife.engines.sql import literal, name
from halflife.errors import InvalidInput, unknown

Format = Literal["parquet", "csv", "duckdb", "sqlite"]
SUFFIXES: Mapping[str, Format] = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".csv.gz": "csv",
    ".tsv": "csv",
    ".tsv.gz": "csv",
    ".duckdb": "duckdb",
    ".ddb": "duckdb",
    ".sqlite": "sqlite",
    ".sqlite3": "sqlite",
    ".db": "sqlite",
}
CHUNK = 65_536


def listed(files: Sequence[Path]) -> str:
    """Files as DuckDB's list of names, in which * ? [ mean themselves."""
    return ", ".join(literal(glob.escape(str(path))) for path in files)


def only(files: Sequence[Path]) -> Path:
    """Return the one file there is, or refuse several."""
    if len(files) != 1:
        raise InvalidInput(f"one database file at a time, not {len(files)}: {', '.join(map(str, files))}")
    return files[0]


def find_table(table: str | None, known: Any, label: str) -> str:
    """The table that is meant: by its name, or the only one."""
    if table is None and len(known) == 1:
        return str(next(iter(known)))
    if table is None:
        raise InvalidInput(f"{label} holds {len(known)} tables, say which: {', '.join(sorted(known)) or 'none'}")
    if table not in known:
        raise unknown(f"table of {label}", table, known)
    return table


def decode(raw: bytes) -> str | None:
    """Return bytes as text, None if they are no UTF-8: then the cell is bad, and nothing stops."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None


def sqlite_batches(base: sqlite3.Connection, table: str, columns: Sequence[str]) -> Any:
    """A SQLite table's columns as a stream of Arrow batches of text."""
    import pyarrow as pa

    schema = pa.schema([(column, pa.string()) for column in columns])

    def batches() -> Iterator[Any]:
        cursor = base.execute(f"SELECT {', '.join(map(name, columns))} FROM {name(table)}")
        while rows := cursor.fetchmany(CHUNK):
            cells = zip(*rows, strict=True)
            yield pa.record_batch([pa.array([as_text(c) for c in column], pa.string()) for column in cells], schema)
        base.close()

    return pa.RecordBatchReader.from_batches(schema, batches())


def csv_header(path: Path) -> tuple[list[str], str]:
    """A CSV file's column names, and the delimiter: which of , ; tab | the header has most of."""
    try:
        with (gzip.open if path.suffix == ".gz" else open)(path, "rb") as file:
            line = file.readline(1_000_000).decode("utf-8-sig").rstrip("\r\n")
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path} cannot be read as CSV: {error}") from None
    delimiter = max(",;\t|", key=line.count)
    names = next(csv.reader([line], delimiter=delimiter), [])
    if not line.strip() or len(set(names)) < len(names):
        raise InvalidInput(f"{path} needs a first line with the names of its columns, each once, not {line[:80]!r}")
    return names, delimiter


def csv_sql(files: Sequence[Path], header: Sequence[str], delimiter: str, columns: Sequence[str]) -> str:
    """SQL of some columns of CSV lines, as text; NULL throughout where a line has other columns than the header.

    A line without a quote splits at the delimiter. So does one in which no quoted field holds a delimiter. Any other must match
    the grammar of fields as a whole, and is cut field by field, which is slower. No pattern counts: RE2 counts to 1000 only.
    """
    size, sep = len(header), "\\" + delimiter
    plain, field = f'(?:"(?:[^"{sep}]|"")*"|[^"{sep}]*)', f'(?:"(?:[^"]|"")*"|[^"{sep}]*)'
    apart = f"regexp_extract_all({literal(delimiter)} || line, {literal(f'{sep}({field})')}, 1)"
    split = f"string_split(line, {literal(delimiter)})"
    cut = (
        f"CASE WHEN NOT quoted OR regexp_full_match(line, {literal(f'{plain}(?:{sep}{plain})*')}) THEN {split} "
        f"WHEN regexp_full_match(line, {literal(f'{field}(?:{sep}{field})*')}) THEN {apart} END"
    )
    cells, bare = [], []
    for column in columns:
        i = header.index(column)
        cells.append(f"CASE WHEN len(cells) = {size} THEN cells[{i + 1}] END AS c{i}")
        inner = f"""replace(c{i}[2:-2], '""', '"')"""
        bare.append(f"""CASE WHEN quoted AND c{i}[1] = '"' THEN {inner} ELSE c{i} END AS {name(column)}""")
    lines = (
        f"read_csv([{listed(files)}], columns = {{'line': 'VARCHAR'}}, auto_detect = false, header = true, "
        "delim = '\x1e\x1f', quote = '', escape = '', strict_mode = false, store_rejects = true)"
    )
    return (
        f"(SELECT {', '.join(bare)} FROM (SELECT quoted, {', '.join(cells)} FROM (SELECT quoted, {cut} AS cells FROM "
        f"(SELECT line, contains(line, '\"') AS quoted FROM {lines} WHERE line IS NOT NULL))))"
    )


def find_files(paths: Sequence[str | Path]) -> list[Path]:
    """Return the files that paths and patterns name, sorted; or refuse what names none."""
    files: dict[Path, None] = {}
    for path in paths:
        here = Path(path)
        found = [here] if here.exists() else [Path(p) for p in sorted(glob.glob(str(path), recursive=True))]
        if not found and glob.has_magic(str(path)):
            raise InvalidInput(f"no file matches {str(path)!r}: check the pattern, from folder {Path.cwd()}")
        if not found:
            raise InvalidInput(f"no such file: {str(path)!r}: check the path, from folder {Path.cwd()}")
        for file in found:
            if file.is_dir():
                raise InvalidInput(f"{file} is a folder: give its files, such as {file / '*.parquet'}")
            files[file] = None
    if not files:
        raise InvalidInput("no file to read: give at least one path")
    return list(files)


def find_format(files: Sequence[Path]) -> Format:
    """The format that all files' endings tell."""
    kinds = {next((k for end, k in SUFFIXES.items() if str(f).lower().endswith(end)), None) for f in files}
    kind = kinds.pop()
    if kinds or kind is None:
        raise InvalidInput(f"the format of {files[0]} is unclear: say which of parquet, csv, duckdb, sqlite")
    return kind
