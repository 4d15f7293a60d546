"""Public tables beside a policy: each person's group or weight, how many people there are."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any

from halflife.engines.grammar import as_text
from halflife.errors import InvalidInput


def read_public_table(path: Path, key: str, value: str) -> dict[str, str]:
    """Return the `value` column by the `key` column of a CSV or Parquet file, as text.

    A public table is part of the promise, so it is held to its word: a key that stands twice or is empty is refused. Cells
    become text as the engines read them, so that 7, 7.0 and "7" are one person here as there.
    """
    result: dict[str, str] = {}
    for row, (k, v) in enumerate(read_rows(path, key, value), start=1):
        if k in result:
            raise InvalidInput(f"{path.name}, row {row}: {key} {k!r} stands twice: a person has one {value}")
        result[k] = v
    return result


def read_rows(path: Path, key: str, value: str) -> list[tuple[str, str]]:
    """Return two columns of a CSV or Parquet file as text, row by row; refuse an empty cell, and a table without rows."""
    table = _read(path, key, value)
    keys, values = ([as_text(cell) for cell in table.column(name).to_pylist()] for name in (key, value))
    rows: list[tuple[str, str]] = []
    for row, (k, v) in enumerate(zip(keys, values, strict=True), start=1):
        if not k or not v:
            raise InvalidInput(f"{path.name}, row {row}: {key} or {value} is empty: a public table must be complete")
        rows.append((k, v))
    if not rows:
        raise InvalidInput(f"{path.name} has no rows: a public table must be complete")
    return rows


def _read(path: Path, *names: str) -> Any:
    """The file as Arrow columns; CSV columns stay text. Its names may be shown: all of it is public."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    try:
        if path.exists() and not path.is_file():
            raise InvalidInput(f"{path.name} is no regular file: give a CSV or Parquet file as the public table")
        if path.suffix == ".parquet":
            columns = pa.parquet.read_schema(path).names
        else:
            with path.open(encoding="utf-8-sig") as file:
                columns = pa.csv.read_csv(pa.BufferReader(file.readline().encode())).column_names
        for name in names:
            if name not in columns:
                near = difflib.get_close_matches(name, columns, n=1)
                hint = f" did you mean {near[0]!r}?" if near else ""
                raise InvalidInput(f"{path.name} has no column {name!r}:{hint} It has: {', '.join(columns)}")
            if columns.count(name) > 1:
                raise InvalidInput(f"{path.name} has {columns.count(name)} columns {name!r}: give each its own name")
        if path.suffix == ".parquet":
            return pa.parquet.read_table(path, columns=list(dict.fromkeys(names)))
        types = dict.fromkeys(names, pa.string())  # one column may be asked for twice: a group for each person
        options = pa.csv.ConvertOptions(column_types=types, include_columns=list(types))
        return pa.csv.read_csv(path, convert_options=options)
    except (OSError, UnicodeDecodeError, pa.ArrowException) as error:
        why = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise InvalidInput(f"{path.name} cannot be read as a public table: {why}") from None
