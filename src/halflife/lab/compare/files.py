"""A series from a file: one value a line, or a named column of a CSV or Parquet file.

What is no finite number is refused with the file, the line and what to do. What stands there is never shown: it may be private.
"""

from __future__ import annotations

import csv
import datetime
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from halflife.errors import InvalidInput, unknown
from halflife.numerics.arrays import Floats

MOST_BYTES, MOST_VALUES = 1 << 30, 10_000_000
"""A larger file, or more values, would need many gigabytes for their repetitions."""
LARGEST = 1e100
"""A larger value has errors whose squares are beyond doubles."""
LONGEST_FIELD = 1 << 16

_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*", re.ASCII)
_ENDS = "give a file with one finite number a line, or name a column of numbers"


class FileSeries(NamedTuple):
    """The values of a file in its order, and when each begins if it has a column of times."""

    values: Floats
    times: list[datetime.datetime] | None


def read_series_file(path: Path, column: str | None = None, time: str | None = None) -> FileSeries:
    """Return the values of a file, and their times if a column of times is named.

    path    Parquet by its name (.parquet, .pq), else text, with commas between columns if it has any
    column  the name of the values' column; None: the only one, in text without a header
    """
    _check_file(path)
    if time is not None and column is None:
        raise InvalidInput(f"{path}: a column of times needs a column of values beside it: name that one too (column)")
    if path.suffix.lower() in (".parquet", ".pq"):
        values, times = _read_parquet(path, column, time)
    else:
        values, times = _read_text(path, column, time)
    if len(values) < 2:
        what = "no value" if not len(values) else "one value alone"
        raise InvalidInput(f"{path} holds {what}: a stream to compare on needs two values or more")
    return FileSeries(values, times)


def _check_file(path: Path) -> None:
    """Refuse what is no file, or too large a one, before it is opened: a pipe would wait for ever."""
    try:
        found = os.stat(path)
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror or error}: check the path") from None
    except ValueError:
        raise InvalidInput(f"{str(path)!r} is no path of a file: check the path") from None
    if not stat.S_ISREG(found.st_mode):
        raise InvalidInput(f"{path} is no file: {_ENDS}")
    if found.st_size > MOST_BYTES:
        raise InvalidInput(
            f"{path} has {found.st_size:,} bytes, more than {MOST_BYTES:,}: cut it to the stretch to compare on"
        )


# Text ---------------------------------------------------------------------------------------------------------------


def _read_text(path: Path, column: str | None, time: str | None) -> tuple[Floats, list[datetime.datetime] | None]:
    values, moments = [], []
    for line, cells in _rows(path, column, time):
        values.append(_number(path, line, cells[0], column))
        if time is not None:
            moments.append(_moment(path, line, cells[1]))
        if len(values) > MOST_VALUES:
            raise InvalidInput(
                f"{path}, line {line}: more than {MOST_VALUES:,} values: cut it to the stretch to compare on"
            )
    return np.array(values, dtype=np.float64), moments if time is not None else None


def _rows(path: Path, column: str | None, time: str | None) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of each line with its value, and its time if one is named; empty lines may only end the file."""
    line, places, empty = 0, [0], 0
    before = csv.field_size_limit(LONGEST_FIELD)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.reader(file, strict=True)
            for cells in rows:
                line = rows.line_num
                if not cells or all(not cell.strip() for cell in cells):
                    empty = empty or line
                    continue
                if empty:
                    raise InvalidInput(
                        f"{path}, line {empty} is empty: leave such lines out, or put the missing value in"
                    )
                if line == 1 and column is not None:
                    places = [_find(path, name, [cell.strip() for cell in cells]) for name in (column, time) if name]
                    continue
                if column is None and len(cells) > 1:
                    raise InvalidInput(
                        f"{path}, line {line} holds {len(cells)} columns: name the one to compare on (--column, with a header)"
                    )
                if len(cells) <= max(places):
                    raise InvalidInput(
                        f"{path}, line {line} has {len(cells)} columns, fewer than the header: mend or cut it"
                    )
                yield line, [cells[place] for place in places]
    except UnicodeDecodeError:
        raise InvalidInput(
            f"{path}, after line {line}: this is no UTF-8 text: {_ENDS} (Parquet files end in .parquet)"
        ) from None
    except csv.Error as error:
        raise InvalidInput(f"{path}, line {line + 1} cannot be read as CSV ({error}): {_ENDS}") from None
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror or error}: check its permissions") from None
    finally:
        csv.field_size_limit(before)


def _find(path: Path, name: str, names: list[str]) -> int:
    if name not in names:
        raise InvalidInput(f"{path}, line 1: {unknown('column', name, names)}", about="column")
    if names.count(name) > 1:
        raise InvalidInput(
            f"{path}, line 1: {names.count(name)} columns are called {name!r}: rename one", about="column"
        )
    return names.index(name)


def _number(path: Path, line: int, text: str, column: str | None) -> float:
    if not _NUMBER.fullmatch(text):
        header = " If it is a header, name its column (--column)." if line == 1 and column is None else ""
        what = "not a number (NaN)" if text.strip().lower() in ("nan", "na", "null", "none") else "not a finite number"
        raise InvalidInput(f"{path}, line {line} is {what}: {_ENDS}; a stream has no gaps here.{header}")
    return _check_size(f"{path}, line {line}", float(text))


def _check_size(where: str, value: float) -> float:
    if not abs(value) <= LARGEST:
        raise InvalidInput(f"{where} is above {LARGEST:g} in size: change the unit of the series")
    return value


def _moment(path: Path, line: int, text: str) -> datetime.datetime:
    try:
        return datetime.datetime.fromisoformat(text.strip())
    except ValueError:
        raise InvalidInput(
            f"{path}, line {line}: its time is not one such as 2026-01-31T13:30: mend it, or leave --time out"
        ) from None


# Parquet ------------------------------------------------------------------------------------------------------------


def _read_parquet(path: Path, column: str | None, time: str | None) -> tuple[Floats, list[datetime.datetime] | None]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(path)
        names, rows = file.schema_arrow.names, file.metadata.num_rows
        if rows > MOST_VALUES:
            raise InvalidInput(
                f"{path} has {rows:,} rows, more than {MOST_VALUES:,}: cut it to the stretch to compare on"
            )
        if column is None and len(names) != 1:
            raise InvalidInput(
                f"{path} has {len(names)} columns: name one (--column): {', '.join(names)}", about="column"
            )
        for name in (column, time):
            if name is not None and name not in names:
                raise InvalidInput(f"{path}: {unknown('column', name, names)}", about="column")
            if name is not None and names.count(name) > 1:
                raise InvalidInput(
                    f"{path}: {names.count(name)} columns are called {name!r}: rename one", about="column"
                )
        wanted = [column or names[0], *([time] if time else [])]
        table = file.read(columns=wanted)
    except (pa.ArrowException, OSError) as error:
        why = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InvalidInput(f"{path} cannot be read as Parquet ({why}): {_ENDS}") from None
    return _numbers(path, table.column(wanted[0])), _moments(path, table.column(time)) if time else None


def _numbers(path: Path, values: Any) -> Floats:
    import pyarrow as pa

    kind = values.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        raise InvalidInput(f"{path}: its column is of type {kind}, not of numbers: {_ENDS}", about="column")
    numbers: Floats = np.asarray(values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), dtype=np.float64)
    wrong = np.flatnonzero(~np.isfinite(numbers))
    if len(wrong):
        raise InvalidInput(
            f"{path}, row {wrong[0] + 1} is not a finite number (or missing): a stream has no gaps here: {_ENDS}"
        )
    large = np.flatnonzero(np.abs(numbers) > LARGEST)
    if len(large):
        _check_size(f"{path}, row {large[0] + 1}", float(numbers[large[0]]))
    return numbers


def _moments(path: Path, times: Any) -> list[datetime.datetime]:
    import pyarrow as pa

    if not pa.types.is_timestamp(times.type):
        raise InvalidInput(
            f"{path}: its times are of type {times.type}, not timestamps: name another column, or leave --time out"
        )
    if times.null_count:
        raise InvalidInput(f"{path}: {times.null_count} times are missing: mend them, or leave --time out")
    moments = times.cast(pa.timestamp("us", tz=times.type.tz), safe=False).to_numpy().astype("datetime64[us]").tolist()
    return list(moments)
