"""Bounded aggregation of readings: the same question on every engine, the same whole numbers as answer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from halflife.engines.base import Answer, Engine, Question
from halflife.libpq import is_server

__all__ = ["Answer", "Engine", "Question", "open_source"]


def open_source(
    source: Any,
    format: Any = None,
    table: str | None = None,
    *,
    columns: Sequence[str] | None = None,
    delimiter: Any = None,
    scratch: Path | None = None,
    engine: Literal["spark"] | None = None,
    master: str | None = None,
) -> Engine:
    """Open readings: a path, pattern or list of them (with a format and table, if need be), or a data frame.

    `columns` names the columns of CSV files without a header, in order, and `delimiter` (`,` `;` `tab` or `|`) says what stands
    between the fields of a line, a comma if not given.
    Files and Arrow tables and streams go to DuckDB; pandas and Polars to Narwhals; frames of Spark, and with `engine` paths and
    tables of a cluster, to Spark. A table on a PostgreSQL server is `postgresql://HOST/DATABASE` with its name.
    What DuckDB must write goes to a private folder within `scratch` (by default the system's temporary folder), which is removed
    on closing; what a killed process left there is removed on opening. It holds people's readings: choose a disk you trust.
    """
    if engine == "spark":
        from halflife.engines.spark.source import open_spark

        return open_spark(source, format, table, columns=columns, delimiter=delimiter, master=master)
    if is_server(source):
        from halflife.engines.postgresql.engine import PostgresEngine

        return PostgresEngine(source, table, scratch)
    if isinstance(source, str | Path):
        source = [source]
    if isinstance(source, Sequence) and all(isinstance(path, str | Path) for path in source):
        from halflife.engines.duckdb.engine import open_files

        return open_files(source, format, table, columns=columns, delimiter=delimiter, scratch=scratch)
    if type(source).__module__.split(".")[0] == "pyspark":
        from halflife.engines.spark.source import open_frame as open_spark_frame

        return open_spark_frame(source)
    if type(source).__module__.split(".")[0] == "pyarrow":
        from halflife.engines.duckdb.engine import open_arrow

        return open_arrow(source, scratch=scratch)
    from halflife.engines.frames import open_frame

    return open_frame(source)
