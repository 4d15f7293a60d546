"""Files of readings: which ones are meant, their format, and how CSV lines and SQLite tables become columns of text."""

from __future__ import annotations

import csv
import glob
import gzip
import re
import sqlite3
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from halflife.engines.duckdb.sql import literal, name
from halflife.engines.grammar import as_text
from halflife.errors import InvalidInput, SourceUnreachable, unknown

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
Delimiter = Literal[",", ";", "tab", "|"]
DELIMITERS: Mapping[str, str] = {",": ",", ";": ";", "tab": "\t", "|": "|"}
"""What may stand between the fields of a line, as a policy says it."""
DATABASES: tuple[Format, ...] = ("duckdb", "sqlite")
"""Formats of files that hold tables."""
CHUNK = 4_096
"""Rows of SQLite in one batch: of the longest cells, 40 MB a column."""
LONGEST_HEADER = 1_000_000
LONGEST = 10_000
"""Bytes of a cell of SQLite, as on a server; a longer one is a bad cell: one of a gigabyte would be more than memory holds."""
SIZE = "octet_length({})" if sqlite3.sqlite_version_info >= (3, 43) else "length(CAST({} AS BLOB))"
"""SQLite's SQL of how many bytes a cell has; the first reads no more than that, the second holds one cell at a time."""


class Unreadable(InvalidInput):
    """A file whose reading stopped: it may be damaged, or the disk failed; what is read again may be whole."""


def quote_files(files: Sequence[Path]) -> str:
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


def check_stored(label: str, table: str | None, computed: Sequence[str]) -> None:
    """Refuse a view, and a table with parts like it: one cell on which it fails would make everybody's readings unreadable."""
    if table in computed:
        raise InvalidInput(
            f"{label}: {table!r} is computed when it is read, as a view or virtual table or by columns of it, and may fail on "
            "somebody's cell: make a table of it (CREATE TABLE … AS SELECT …)"
        )


def decode(raw: bytes) -> str | None:
    """Return bytes as text, None if they are no UTF-8: then the cell is bad, and nothing stops."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None


def sqlite_batches(base: sqlite3.Connection, table: str, columns: Sequence[str]) -> Any:
    """A SQLite table's columns as a stream of Arrow batches of text; a cell that is too long is none."""
    import pyarrow as pa

    cells = [f"CASE WHEN {SIZE.format(name(c))} <= {LONGEST} THEN {name(c)} END" for c in columns]

    schema = pa.schema([(column, pa.string()) for column in columns])

    def batches() -> Iterator[Any]:
        cursor = base.execute(f"SELECT {', '.join(cells)} FROM {name(table)}")
        while rows := cursor.fetchmany(CHUNK):
            found = zip(*rows, strict=True)
            yield pa.record_batch([pa.array([as_text(c) for c in column], pa.string()) for column in found], schema)
        base.close()

    return pa.RecordBatchReader.from_batches(schema, batches())


def is_gzip(path: Path) -> bool:
    """Whether a file's ending says that it is compressed; DuckDB goes by the same."""
    return path.suffix.lower() == ".gz"


def check_gzip(files: Sequence[Path]) -> None:
    """Refuse a compressed file that is cut off or whose checksum is wrong, which DuckDB does not look at.

    Nothing of it is kept: 2 s of processor time for 100 MB, beside the 8 s that parsing them takes.
    """
    for path in filter(is_gzip, files):
        try:
            with gzip.open(path, "rb") as file:
                while file.read(1 << 20):
                    pass
        except (EOFError, zlib.error, gzip.BadGzipFile):  # what they say may hold a sum of the content
            refusal = Unreadable(f"{path} is damaged: it is no whole gzip file with a right checksum: write it anew")
        except OSError as error:
            refusal = Unreadable(f"{path} cannot be read: {error.strerror or 'the disk fails'}")
        else:
            continue
        raise refusal


def csv_header(path: Path) -> tuple[list[str], str]:
    """A CSV file's column names, and the delimiter."""
    try:
        with (gzip.open if is_gzip(path) else open)(path, "rb") as file:
            line = file.readline(LONGEST_HEADER)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        refusal = Unreadable(f"{path} is damaged: it is no whole gzip file: write it anew")
    except OSError as error:
        refusal = Unreadable(f"{path} cannot be read: {error.strerror or error}")
    else:
        return split_header(path, line)
    raise refusal


def split_header(path: str | Path, raw: bytes) -> tuple[list[str], str]:
    """The column names in a file's first line, and the delimiter: which of , ; tab | the line has most of.

    A line ends with LF, CR LF or CR. What is wrong with it is said without quoting it: it may be somebody's reading.
    """
    try:
        line = re.split(b"[\r\n]", raw, maxsplit=1)[0].decode("utf-8-sig")
        if len(line) >= LONGEST_HEADER // 4:
            raise InvalidInput(
                f"{path} has a first line beyond {LONGEST_HEADER // 4:,} characters: is it CSV? Of a table with so many columns "
                "write a line for each person and time"
            )
        delimiter = max(",;\t|", key=line.count)
        names = next(csv.reader([line], delimiter=delimiter), [])
    except UnicodeDecodeError:
        refusal = InvalidInput(f"{path} cannot be read as CSV: its first line is no UTF-8 text: save it as UTF-8")
    except csv.Error:
        refusal = InvalidInput(f"{path} cannot be read as CSV: a name in its first line is too long, or broken")
    else:
        if line.strip() and len(set(names)) == len(names):
            return names, delimiter
        refusal = InvalidInput(f"{path} needs a first line with the names of its columns, each once")
    raise refusal


def headerless_form(columns: Sequence[str], delimiter: Delimiter | None) -> tuple[list[str], str]:
    """The names of the columns of CSV files without a header, and what stands between their fields: both are public.

    Every line is somebody's reading: none is looked at here, and one that does not split so is a bad row.
    """
    if len(set(columns)) < len(columns):
        raise InvalidInput("a name in `columns` stands twice: give each column its own name")
    if delimiter not in (None, *DELIMITERS):
        raise unknown("delimiter", delimiter, DELIMITERS)
    return list(columns), DELIMITERS[delimiter or ","]


def csv_sql(
    files: Sequence[Path], header: Sequence[str], delimiter: str, columns: Sequence[str], *, named: bool = True
) -> str:
    """SQL of some columns of CSV lines, as text c0, c1, …; NULL throughout where a line has other columns than the header.

    named  whether each file begins with the header; if not, its first line is a reading as any other

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
    cells: list[str] = []
    bare: list[str] = []
    for column in columns:
        i = header.index(column)
        cells.append(f"CASE WHEN len(cells) = {size} THEN cells[{i + 1}] END AS cell{i}")
        inner = f"""replace(cell{i}[2:-2], '""', '"')"""
        bare.append(f"""CASE WHEN quoted AND cell{i}[1] = '"' THEN {inner} ELSE cell{i} END AS c{len(bare)}""")
    lines = (
        f"read_csv([{quote_files(files)}], columns = {{'line': 'VARCHAR'}}, auto_detect = false, header = {str(named).lower()}, "
        "delim = '\x1e\x1f', quote = '', escape = '', strict_mode = false, store_rejects = true)"
    )
    return (
        f"(SELECT {', '.join(bare)} FROM (SELECT quoted, {', '.join(cells)} FROM (SELECT quoted, {cut} AS cells FROM "
        f"(SELECT ltrim(line, chr(10)) AS line, contains(line, '\"') AS quoted FROM {lines} WHERE line IS NOT NULL))))"
    )


def find_files(paths: Sequence[str | Path]) -> list[Path]:
    """Return the files that paths and patterns name, sorted; or refuse what names none, or what is no regular file."""
    files: dict[Path, None] = {}
    for path in paths:
        try:
            found = _expand(path)
        except (
            OSError,
            ValueError,
        ) as error:  # a name that is too long, a folder that may not be read, a null character
            raise SourceUnreachable(
                f"{str(path)!r} cannot be looked for: {getattr(error, 'strerror', None) or error}"
            ) from None
        if not found and glob.has_magic(str(path)):
            raise InvalidInput(f"no file matches {str(path)!r}: check the pattern, from folder {Path.cwd()}")
        if not found:
            raise SourceUnreachable(f"no such file: {str(path)!r}: check the path, from folder {Path.cwd()}")
        for file in found:
            check_name(file)
            if file.is_dir():
                raise InvalidInput(f"{file} is a folder: give its files, such as {file / '*.parquet'}")
            if not file.is_file():
                raise InvalidInput(f"{file} is a pipe, a device or a socket, which cannot be read twice: give a file")
            files[file] = None
    if not files:
        raise InvalidInput("no file to read: give at least one path")
    return list(files)


def check_name(path: Path) -> None:
    """Refuse a path that is no text: DuckDB and SQLite take none of other bytes."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise InvalidInput(f"{str(path)!r} has a name that is not UTF-8, and cannot be opened: rename it") from None


def _expand(path: str | Path) -> list[Path]:
    """A path that is there, else what it finds as a pattern."""
    here = Path(path)
    return [here] if here.exists() else [Path(p) for p in sorted(glob.glob(str(path), recursive=True))]


def find_format(files: Sequence[Path]) -> Format:
    """The format that all files' endings tell."""
    kind = guess_format(files)
    if kind is None:
        raise InvalidInput(f"the format of {files[0]} is unclear: say which of parquet, csv, duckdb, sqlite")
    return kind


def guess_format(files: Sequence[str | Path], given: Format | None = None) -> Format | None:
    """The format that was given, else the one that the endings of all files or patterns tell; None if they tell none.

    >>> guess_format(["2026/*.csv.gz"]), guess_format(["meters.db", "meters.csv"])
    ('csv', None)
    """
    if given is not None:
        return given
    kinds = {next((k for end, k in SUFFIXES.items() if str(f).lower().endswith(end)), None) for f in files}
    return kinds.pop() if len(kinds) == 1 else None


def check_table(kind: str, table: str | None) -> None:
    """Refuse a table of files that hold none."""
    if table is not None and kind not in DATABASES:
        raise InvalidInput(f"a {kind} file has no tables: leave out table {table!r}, or give a DuckDB or SQLite file")


def check_headerless(kind: str, columns: Sequence[str] | None, delimiter: Delimiter | None) -> None:
    """Refuse names for the columns of files that have names of their own, and a delimiter that a header says."""
    if columns is not None and kind != "csv":
        raise InvalidInput(
            f"a {kind} file names its columns itself: leave out columns, which are for CSV without a header"
        )
    if delimiter is not None and columns is None:
        raise InvalidInput("a file with a header says its delimiter by it: leave out delimiter, or give columns")
