"""The same rows in every kind of source."""

from __future__ import annotations

import csv
import datetime
import gzip
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from halflife.engines import Engine, open_source
from halflife.engines.frames import open_frame

Rows = Sequence[dict[str, Any]]


def table(rows: Rows, schema: pa.Schema) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=schema)


def _text(cell: Any) -> Any:
    return cell.isoformat() if isinstance(cell, datetime.date) else cell


def _write_csv(file: Any, rows: Rows, quoting: Any = csv.QUOTE_MINIMAL) -> None:
    writer = csv.writer(file, quoting=quoting)
    writer.writerow(rows[0])
    writer.writerows([["" if c is None else _text(c) for c in row.values()] for row in rows])


def parquet(rows: Rows, schema: pa.Schema, folder: Path) -> Engine:
    pq.write_table(table(rows, schema), folder / "a'b.parquet", row_group_size=50)
    return open_source(folder / "a'b.parquet")


def many_parquet(rows: Rows, schema: pa.Schema, folder: Path) -> Engine:
    for i in range(3):
        pq.write_table(table(rows[i::3], schema), folder / f"part[{i}].parquet")
    return open_source([str(folder / "part[[]0].parquet"), str(folder / "part[1].parquet"), folder / "part[2].parquet"])


def csv_file(rows: Rows, schema: pa.Schema, folder: Path) -> Engine:
    with open(folder / "a.csv", "w", encoding="utf-8", newline="") as file:
        _write_csv(file, rows)
    return open_source(str(folder / "a.csv"))


def many_csv(rows: Rows, schema: pa.Schema, folder: Path) -> Engine:
    with gzip.open(folder / "a.csv.gz", "wt", encoding="utf-8", newline="") as file:
        _write_csv(file, rows[::2], csv.QUOTE_ALL)
    with gzip.open(folder / "b.csv.gz", "wt", encoding="utf-8-sig", newline="") as file:
        _write_csv(file, rows[1::2])
    return open_source(str(folder / "*.csv.gz"))


def headerless_csv(rows: Rows, schema: pa.Schema, folder: Path) -> Engine:
    """Semicolons, as every text of the rows may hold a comma; a file without a line is no error."""
    for name, part, encoding in (("a", rows[::2], "utf-8-sig"), ("b", rows[1::2], "utf-8"), ("c", [], "utf-8")):
        with open(folder / f"{name}.csv", "w", encoding=encoding, newline="") as file:
            writer = csv.writer(file, delimiter=";")
            writer.writerows([["" if c is None else _text(c) for c in row.values()] for row in part])
    return open_source(str(folder / "*.csv"), columns=list(rows[0]), delimiter=";")


def duckdb_file(rows: Rows, schema: pa.Schema, folder: Path) -> Engine:
    with duckdb.connect(str(folder / "a.duckdb")) as base:
        base.register("rows", table(rows, schema))
        base.execute(
            'CREATE SCHEMA s; CREATE TABLE s."re""adings" AS SELECT * FROM rows; CREATE TABLE other (x INTEGER)'
        )
    return open_source(folder / "a.duckdb", table='s.re"adings')


def sqlite_file(rows: Rows, schema: pa.Schema, folder: Path) -> Engine:
    base = sqlite3.connect(folder / "a b?.sqlite")
    base.execute(f"CREATE TABLE readings ({', '.join(rows[0])})")
    marks = ", ".join("?" for _ in rows[0])
    base.executemany(f"INSERT INTO readings VALUES ({marks})", [[_text(c) for c in r.values()] for r in rows])
    base.commit()
    base.close()
    return open_source(folder / "a b?.sqlite")


def arrow(rows: Rows, schema: pa.Schema, folder: Path) -> Engine:
    return open_source(table(rows, schema))


def arrow_stream(rows: Rows, schema: pa.Schema, folder: Path) -> Engine:
    return open_source(table(rows, schema).to_reader(max_chunksize=64))


def narwhals_arrow(rows: Rows, schema: pa.Schema, folder: Path) -> Engine:
    return open_frame(table(rows, schema))


def pandas_numpy(rows: Rows, schema: pa.Schema, folder: Path) -> Engine:
    return open_source(table(rows, schema).to_pandas())


def pandas_object(rows: Rows, schema: pa.Schema, folder: Path) -> Engine:
    return open_source(pd.DataFrame({c: pd.Series([r[c] for r in rows], dtype=object) for c in rows[0]}))


def pandas_nullable(rows: Rows, schema: pa.Schema, folder: Path) -> Engine:
    frame = table(rows, schema).to_pandas(types_mapper=pd.ArrowDtype)
    return open_source(frame.astype({"p": "category"}))


def polars(rows: Rows, schema: pa.Schema, folder: Path) -> Engine:
    return open_source(pl.from_arrow(table(rows, schema)))


def polars_lazy(rows: Rows, schema: pa.Schema, folder: Path) -> Engine:
    frame = pl.from_arrow(table(rows, schema))
    assert isinstance(frame, pl.DataFrame)
    return open_source(frame.lazy())


def postgresql(rows: Rows, schema: pa.Schema, folder: Path) -> Engine:
    """A table on the server of this run of the tests, each column of the type that is nearest to Arrow's."""
    found = SERVER["find"]()
    where = f"t{abs(hash(str(folder)))}"
    write_table(found, where, rows, schema)
    return open_source(found.url("x").split("?")[0], table=where)


def spark_frame(rows: Rows, schema: pa.Schema, folder: Path) -> Engine:
    """A data frame of a session whose zone is not UTC, in parts."""
    for i in range(2):
        pq.write_table(table(rows[i::2], schema), folder / f"part{i}.parquet")
    return open_source(SERVER["session"]().read.parquet(str(folder)))


def spark_csv(rows: Rows, schema: pa.Schema, folder: Path) -> Engine:
    """Files that Spark finds, one of them compressed, some with quotes around every field."""
    SERVER["session"]()
    with gzip.open(folder / "a.csv.gz", "wt", encoding="utf-8", newline="") as file:
        _write_csv(file, rows[::2], csv.QUOTE_ALL)
    with open(folder / "b.csv", "w", encoding="utf-8-sig", newline="") as file:
        _write_csv(file, rows[1::2])
    return open_source([f"file://{folder}/*.csv*"], "csv", engine="spark")


SERVER: dict[str, Callable[[], Any]] = {}
"""What gives the server, and Spark's session, where one can be had: `conftest.py` says so."""


def write_table(server: Any, where: str, rows: Rows, schema: pa.Schema) -> None:
    """Make a table of these rows."""
    kinds = {
        "string": "text",
        "large_string": "text",
        "double": "float8",
        "float": "float4",
        "int64": "int8",
        "bool": "bool",
    }
    named = [f'"{c.name}" {_kind_of(c.type, kinds)}' for c in schema]
    with server.connect() as db:
        db.execute(f'DROP TABLE IF EXISTS "{where}"')
        db.execute(f'CREATE TABLE "{where}" ({", ".join(named)})')
        with db.cursor() as cursor, cursor.copy(f'COPY "{where}" FROM STDIN') as copy:
            for row in rows:
                copy.write_row([row[c] for c in schema.names])


def _kind_of(kind: Any, kinds: dict[str, str]) -> str:
    if pa.types.is_timestamp(kind):
        return "timestamptz" if kind.tz else "timestamp"
    if pa.types.is_integer(kind):
        return "int8"
    if pa.types.is_date(kind):
        return "date"
    return "numeric" if pa.types.is_decimal(kind) else kinds.get(str(kind), "text")


SOURCES: dict[str, Callable[[Rows, pa.Schema, Path], Engine]] = {
    f.__name__: f
    for f in (
        parquet,
        many_parquet,
        csv_file,
        many_csv,
        headerless_csv,
        duckdb_file,
        sqlite_file,
        arrow,
        arrow_stream,
        narwhals_arrow,
        pandas_numpy,
        pandas_object,
        pandas_nullable,
        polars,
        polars_lazy,
        postgresql,
        spark_frame,
        spark_csv,
    )
}
