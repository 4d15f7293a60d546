"""One file of specifications as columns: YAML, JSON, CSV or Parquet, with the place of every secret and every problem."""

from __future__ import annotations

import csv
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from halflife.errors import InvalidInput, unknown
from halflife.local_time import find_zone
from halflife.parsing.documents import LARGEST, Document, PolicyError, Where, dotted, parse_document
from halflife.specifications.checks import MOST_FAULTS, NUMBERS, WHOLE, Columns, check_name
from halflife.specifications.entries import FIELDS, EntryError, Frame, read_entry
from halflife.specifications.tables import COLUMNS, check_columns

SUFFIXES = (".yaml", ".yml", ".json", ".csv", ".parquet")


@dataclass
class Part:
    """The content of one file: household names, each secret's household as an index into them, and the columns.

    place     where a secret stands: file and line, or row
    problems  what cannot be read, a line each; `count` may be more
    spoiled   the households that have a problem
    about     the parameters that problems are about, among them `steps` and `last` that secrets by the clock need
    """

    names: list[str]
    codes: Any
    columns: Columns
    place: Callable[[int], str]
    problems: list[str] = field(default_factory=list)
    count: int = 0
    spoiled: set[str] = field(default_factory=set)
    about: set[str | None] = field(default_factory=set)

    def lines(self, path: Path | str) -> list[str]:
        """Return the problems, and how many more there are in the file."""
        more = self.count - len(self.problems)
        return self.problems + ([f"{path}: … and {more:,} more"] if more else [])


def read_part(path: Path, frame: Frame) -> Part:
    """Read one file; raise `PolicyError` if nothing of it can be read."""
    suffix = path.suffix.lower()
    if not path.exists():
        raise PolicyError(f"{path}: cannot be read: No such file or folder: give the path of specifications")
    if suffix not in SUFFIXES:
        raise PolicyError(f"{path}: specifications are files that end in {', '.join(SUFFIXES)}")
    try:
        if path.stat().st_size == 0:
            raise PolicyError(f"{path}: is empty: delete it, or fill it in")
        if suffix == ".parquet":
            return _parquet(path)
        return _table(path, frame) if suffix == ".csv" else _document(path, frame)
    except OSError as error:
        raise PolicyError(f"{path}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise PolicyError(f"{path}: not UTF-8 text (byte {error.start}): save it as UTF-8") from None


class _Gatherer:
    """Collects secrets one entry after the other, with the place of each entry."""

    def __init__(self) -> None:
        self.columns = {name: array("q" if name in WHOLE else "d") for name in NUMBERS}
        self.names: dict[str, int] = {}
        self.codes, self.sizes = array("q"), array("q")
        self.places: list[Callable[[], str]] = []
        self.problems: list[str] = []
        self.count = 0
        self.spoiled: set[str] = set()
        self.about: set[str | None] = set()

    def add(self, household: str, columns: Columns, place: Callable[[], str]) -> None:
        """Take the secrets of one entry."""
        size = len(columns["power"])
        for name in NUMBERS:
            values = columns[name]
            self.columns[name].extend(values.tolist() if isinstance(values, np.ndarray) else values)
        self.codes.extend([self.names.setdefault(household, len(self.names))] * size if size else [])
        self.sizes.append(size)
        self.places.append(place)

    def refuse(self, line: str, household: str | None = None, about: str | None = None) -> None:
        """Take a problem of a household, about a parameter."""
        self.count += 1
        self.about |= {about} - {None}
        if len(self.problems) < MOST_FAULTS:
            self.problems.append(line)
        if household is not None:
            self.spoiled.add(household)

    def make_part(self) -> Part:
        """Return everything gathered."""
        ends = list(accumulate(self.sizes))
        columns = {
            name: np.frombuffer(held, dtype=np.int64 if name in WHOLE else np.float64) if held else np.zeros(0)
            for name, held in self.columns.items()
        }
        codes = np.frombuffer(self.codes, dtype=np.int64) if self.codes else np.zeros(0, dtype=np.int64)

        def place(row: int) -> str:
            return self.places[int(np.searchsorted(ends, row, side="right"))]()

        return Part(list(self.names), codes, columns, place, self.problems, self.count, self.spoiled, self.about)


# YAML and JSON ------------------------------------------------------------------------------------------------------


def _document(path: Path, frame: Frame) -> Part:
    raw = path.read_bytes()
    if len(raw) > LARGEST:
        raise PolicyError(f"{path}: larger than {LARGEST:,} bytes, too large for YAML or JSON: use Parquet or CSV")
    return document_part(parse_document(raw.decode("utf-8-sig"), str(path)), frame)


def document_part(document: Document, frame: Frame) -> Part:
    """Read a document with `households:`, and a `zone:` if its times need one."""
    data = document.data
    if data is None:
        raise PolicyError(f"{document.name}: is empty: delete it, or fill it in")
    if not isinstance(data, dict):
        raise document.error([((), "must be a mapping with `households:`, and a `zone:` if its times need one")])
    for key in data:
        if key not in ("zone", "households"):
            raise document.error([((key,), str(unknown("field", key, ("zone", "households"))))])
    if not isinstance(data.get("households"), dict):
        raise document.error([(("households",), "must map each household's name to the list of its secrets")])
    zone = data.get("zone")
    if zone is not None:
        try:
            find_zone(str(zone))
        except InvalidInput as error:
            raise document.error([(("zone",), str(error))]) from None
    gathered = _Gatherer()
    for household, entries in data["households"].items():
        _household(document, household, entries, frame.within(zone), gathered)
    return gathered.make_part()


def _household(document: Document, written: str, entries: object, frame: Frame, gathered: _Gatherer) -> None:
    name = _whole_text(written)
    try:
        check_name(name)
        if not isinstance(entries, list):
            raise InvalidInput("must be a list of secrets, each behind a dash; [] if there is none")
    except InvalidInput as error:
        gathered.refuse(str(document.error([(("households", written), str(error))])), name)
        return
    for i, entry in enumerate(entries):
        where: Where = ("households", written, i)
        try:
            gathered.add(name, read_entry(entry, frame), lambda where=where: _spot(document, where))  # type: ignore[misc]
        except EntryError as error:
            for wrong, says in error.problems:
                spot = where if wrong is None else (*where, wrong)
                gathered.refuse(str(document.error([(spot, says)])), name, error.about)


def _spot(document: Document, where: Where) -> str:
    """Return the place of a secret; data that a program passes has no lines."""
    place = document.places.get(where)
    at = document.name if place is None else f"{document.name}:{place[0]}:{place[1]}"
    return f"{at}: {dotted(where)}"


def _whole_text(text: str) -> str:
    """Join the two halves in which JSON may write one character."""
    try:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError:
        return text


# CSV ----------------------------------------------------------------------------------------------------------------


def _table(path: Path, frame: Frame) -> Part:
    """Read all columns at once if they hold numbers alone, else row by row: that way every problem has its line."""
    with path.open(encoding="utf-8-sig", newline="") as lines:
        header = next(csv.reader(lines), [])
    return _numbers_alone(path, header) or _rows(path, frame)


def _numbers_alone(path: Path, header: list[str]) -> Part | None:
    import pyarrow as pa
    import pyarrow.csv as pcsv

    if not set(COLUMNS) <= set(header) <= {*COLUMNS, "what"} or len(set(header)) < len(header):
        return None
    types = {"household": pa.string(), **{name: pa.int64() if name in WHOLE else pa.float64() for name in NUMBERS}}
    try:
        table = pcsv.read_csv(
            path,
            parse_options=pcsv.ParseOptions(newlines_in_values=True),
            convert_options=pcsv.ConvertOptions(column_types=types, null_values=[""], include_columns=list(COLUMNS)),
        )
        names, codes, columns, bad, _ = check_columns(table)
    except (pa.ArrowException, InvalidInput):
        return None
    return None if bad.any() else Part(names, codes, columns, lambda row: f"{path}:{_line_of(path, row)}")


def _records(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the line on which each record begins, and its fields; blank lines are no records."""
    with path.open(encoding="utf-8-sig", newline="") as lines:
        reader = csv.reader(lines, strict=True)
        begins = 1
        try:
            for record in reader:
                if record:
                    yield begins, record
                begins = reader.line_num + 1
        except csv.Error as error:
            raise PolicyError(f"{path}:{begins}: not CSV: {error}") from None


def _line_of(path: Path, row: int) -> int:
    """The line of a row, counted from 0 after the header."""
    return next(line for i, (line, _) in enumerate(_records(path)) if i == row + 1)


def _rows(path: Path, frame: Frame) -> Part:
    records = _records(path)
    line, header = next(records, (1, []))
    known = ("household", *FIELDS)
    for name in header:
        if name not in known:
            raise PolicyError(f"{path}:{line}: {unknown('column', name, known)}")
        if header.count(name) > 1:
            raise PolicyError(f"{path}:{line}: the column {name!r} stands twice: keep one")
    if "household" not in header:
        raise PolicyError(f"{path}:{line}: lacks a column 'household': the first line names the columns")
    gathered = _Gatherer()
    for line, record in records:
        _row(f"{path}:{line}", dict(zip(header, record, strict=False)), len(record) - len(header), frame, gathered)
    return gathered.make_part()


def _row(at: str, entry: dict[str, str], extra: int, frame: Frame, gathered: _Gatherer) -> None:
    name = entry.pop("household", "")
    try:
        check_name(name)
        if extra:
            raise InvalidInput(f"has {abs(extra)} {'more' if extra > 0 else 'fewer'} fields than the first line")
    except InvalidInput as error:
        gathered.refuse(f"{at}: {error}", name)
        return
    try:
        gathered.add(name, read_entry(entry, frame), lambda: at)
    except EntryError as error:
        for wrong, says in error.problems:
            gathered.refuse(f"{at}: {wrong}: {says}" if wrong else f"{at}: {says}", name, error.about)


# Parquet ------------------------------------------------------------------------------------------------------------


def _parquet(path: Path) -> Part:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as source:
            table = source.read()
        names, codes, columns, bad, faults = check_columns(table)
    except pa.ArrowException as error:
        raise PolicyError(f"{path}: cannot be read as Parquet: {str(error).splitlines()[0][:200]}") from None
    except InvalidInput as error:
        raise PolicyError(f"{path}: {error}") from None
    part = Part(names, codes, columns, lambda row: f"{path}: row {row + 1}")
    part.spoiled = {names[code] for code in np.unique(codes[bad])}
    part.problems = [f"{path}: row {f.row + 1}: {f.field}: {f.says}" for f in faults[:MOST_FAULTS]]
    part.count = len(part.problems) + int(bad.sum()) - len({f.row for f in faults[:MOST_FAULTS]})
    return part
