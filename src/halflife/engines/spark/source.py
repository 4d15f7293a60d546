"""Opening what a cluster reads: Parquet and CSV on any of its file systems, and tables of its catalog.

Nothing is looked for on this machine: Spark finds the files, also where their names begin with `file:`. A CSV line is a record,
always, and a line that does not split into the header's columns is one bad row, by the grammar that DuckDB goes by. All files of
CSV must have the same columns in the same order; a line that is the header once more is passed over.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from halflife.engines.duckdb.files import LONGEST_HEADER, Delimiter, guess_format, headerless_form, split_header
from halflife.engines.spark.engine import SparkEngine
from halflife.engines.spark.session import connect, name_failure
from halflife.engines.spark.sql import literal
from halflife.errors import InvalidInput, SourceUnreachable, unknown

FORMATS = ("parquet", "csv")
WHOLE = {"ignoreCorruptFiles": "false", "ignoreMissingFiles": "false"}
"""Files that cannot be read are an error, whatever the session says."""
ANCIENT = {"datetimeRebaseMode": "CORRECTED", "int96RebaseMode": "CORRECTED"}
"""Times before 1900 as they are written."""
SHORT = {"mapreduce.input.linerecordreader.line.maxlength": str(2**21)}
"""A line of more bytes is passed over as it is read: one without an end would fill an executor's memory."""


def open_frame(frame: Any) -> SparkEngine:
    """Open a data frame of a running session."""
    if not hasattr(frame, "sparkSession"):
        raise InvalidInput("this is no Spark data frame: give one of `pyspark.sql`, such as `frame.to_spark()`")
    return SparkEngine("the Spark data frame", frame)


def open_spark(
    paths: Sequence[str],
    format: str | None = None,
    table: str | None = None,
    *,
    columns: Sequence[str] | None = None,
    delimiter: Delimiter | None = None,
    master: str | None = None,
) -> SparkEngine:
    """Open files of one format, or a table of the catalog.

    paths    as Spark reads them, such as s3a://town/2026-*/*.parquet; none for a table
    columns  the names of the columns of CSV files without a header;  delimiter  what stands between their fields
    master   the cluster; else SPARK_MASTER, else as spark-defaults says
    """
    if table is not None:
        return SparkEngine(f"table {table}", _open_table(connect(master), table))
    kind = guess_format(paths, format)  # type: ignore[arg-type]
    label = paths[0] if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"
    if kind is None:
        raise InvalidInput(f"the format of {paths[0]} is unclear: say `format: parquet` or `format: csv`")
    if kind not in FORMATS:
        raise unknown("format that Spark reads", kind, FORMATS)
    reader = connect(master).read.options(**WHOLE)
    if kind == "parquet":
        frame = _try(label, lambda: reader.options(**ANCIENT).parquet(*paths))
    else:
        lines = _try(label, lambda: reader.options(**SHORT).text([*paths]))
        frame = (
            _headed_lines(label, lines) if columns is None else _columns(lines, *headerless_form(columns, delimiter))
        )
    return SparkEngine(label, frame)


def _try(label: str, work: Any) -> Any:
    """Return what opening gives; of what Spark says, only the kind of failure is told."""
    try:
        return work()
    except Exception as error:
        kind = name_failure(error)
    if kind == "PATH_NOT_FOUND":
        raise SourceUnreachable(f"no such file: {label}: check the path, as the cluster sees it")
    raise SourceUnreachable(
        f"{label} cannot be opened ({kind}): check the path, the cluster's access to it, and that all of it is of the format "
        "that the policy says, with types that Spark reads (docs/cluster.md)"
    )


def _open_table(session: Any, table: str) -> Any:
    if not _try(f"table {table}", lambda: session.catalog.tableExists(table)):
        known = [found.name for found in _try("the catalog", session.catalog.listTables)]
        raise unknown("table of the catalog", table, known)
    if _try(f"table {table}", lambda: session.catalog.getTable(table).tableType) in ("VIEW", "TEMPORARY"):
        raise InvalidInput(f"{table} is a view, whose own expressions may fail on somebody's cell: write it as a table")
    return _try(f"table {table}", lambda: session.table(table))


# --------------------------------------------------------------------------------------------------------- lines of CSV


def _headed_lines(label: str, lines: Any) -> Any:
    """Columns of lines of files that each begin with a header."""
    headers: dict[bytes, tuple[list[str], str]] = {}
    for file, line in _try(label, lambda: _first_lines(lines)):
        headers.setdefault(line, split_header(file, line))
    (names, delimiter), *others = headers.values()
    if any(other != (names, delimiter) for other in others):
        raise InvalidInput(
            f"{label}: these files of CSV differ in their columns, or the order of them: make a stream of each kind"
        )
    own = ", ".join(literal(header.decode("utf-8-sig")) for header in headers)
    return _columns(lines.where(f"value NOT IN ({own})"), names, delimiter)


def _first_lines(lines: Any) -> list[tuple[str, bytes]]:
    """The first line of each file, as bytes, as the cluster's file system gives it to this machine."""
    session = lines.sparkSession
    java, conf = session._jvm, session._jsparkSession.sessionState().newHadoopConf()
    found = []
    for file in lines.inputFiles():
        path = java.org.apache.hadoop.fs.Path(java.java.net.URI(file))
        stream = path.getFileSystem(conf).open(path)
        try:
            codec = java.org.apache.hadoop.io.compress.CompressionCodecFactory(conf).getCodec(path)
            text = java.org.apache.hadoop.io.Text()
            read = java.org.apache.hadoop.util.LineReader(stream if codec is None else codec.createInputStream(stream))
            read.readLine(text, LONGEST_HEADER, LONGEST_HEADER)
            found.append((file, bytes(text.copyBytes())))
        finally:
            stream.close()
    return found


def _fields(delimiter: str) -> str:
    """SQL of a line's fields, quotes and all; NULL where it is no record.

    Fields are cut off one by one; that together they are the line says that nothing between them was passed over.
    """
    field = f'{_escape(delimiter)}("[^"]*+(?:""[^"]*+)*+"|[^"{_escape(delimiter)}]*+)'
    apart = f"regexp_extract_all(concat({literal(delimiter)}, value), {literal(field)}, 1)"
    plain = f"split(value, {literal(_escape(delimiter))})"
    return (
        f"CASE WHEN NOT is_valid_utf8(value) THEN NULL WHEN NOT contains(value, '\"') THEN {plain} "
        f"WHEN array_join({apart}, {literal(delimiter)}) = value THEN {apart} END"
    )


def _escape(delimiter: str) -> str:
    return "\\" + delimiter if delimiter == "|" else delimiter


def _columns(lines: Any, names: Sequence[str], delimiter: str) -> Any:
    """A frame of text columns with these names; NULL throughout where a line has other columns."""
    cut = lines.where("value <> ''").selectExpr(f"{_fields(delimiter)} AS cells")
    cells = [f"CASE WHEN size(cells) = {len(names)} THEN cells[{i}] END" for i in range(len(names))]
    bare = [
        f"CASE WHEN {cell} LIKE '\"%' THEN replace(substr({cell}, 2, length({cell}) - 2), '\"\"', '\"') ELSE {cell} END AS c{i}"
        for i, cell in enumerate(cells)
    ]
    return cut.selectExpr(*bare).toDF(*names)
