"""Arrow columns as the engines can take them: text that is UTF-8 throughout, and types that DuckDB knows.

Arrow and Parquet only claim that their text is UTF-8. A cell that is not is a bad cell, as it is in every other source; DuckDB
would stop at it, and quote it. So cells are looked at here, many at once: only batches with a bad one are decoded one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np

from halflife.engines.duckdb.files import CHUNK, decode


def make_table(names: Sequence[str], numbers: Mapping[str, Sequence[int]]) -> Any:
    """Return an Arrow table of a column `name` and of columns of whole numbers.

    Made of buffers: pyarrow loads pandas, where that is installed, before it looks at a list, which takes a second.
    """
    import pyarrow as pa

    texts = [name.encode() for name in names]
    ends = np.cumsum([0, *map(len, texts)], dtype=np.int64)
    columns = {"name": pa.LargeStringArray.from_buffers(len(texts), pa.py_buffer(ends), pa.py_buffer(b"".join(texts)))}
    for column, cells in numbers.items():
        buffer = pa.py_buffer(np.array(cells, dtype=np.int64))
        columns[column] = pa.Array.from_buffers(pa.int64(), len(cells), [None, buffer])
    return pa.table(columns)


def is_text(kind: object) -> bool:
    """Whether an Arrow type is one of the three of text."""
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def drop_bad_text(column: Any) -> Any:
    """Return a column in which text that is no UTF-8 is null."""
    import pyarrow as pa

    kind = column.type
    if isinstance(column, pa.ChunkedArray):
        return pa.chunked_array([drop_bad_text(chunk) for chunk in column.chunks], kind)
    if pa.types.is_dictionary(kind) and is_text(kind.value_type):
        return pa.DictionaryArray.from_arrays(column.indices, drop_bad_text(column.dictionary), ordered=kind.ordered)
    if not is_text(kind):
        return column
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        raw = column.cast(pa.large_binary()).to_pylist()
        return pa.array([None if cell is None else decode(cell) for cell in raw], kind)
    return column


def column_names(rows: Sequence[tuple[str, int | None]]) -> list[str]:
    """Return the names of a Parquet file's columns, from its schema in order: each part's name and how many parts it has itself.

    >>> column_names([("schema", 2), ("a", 1), ("b", None), ("A", None)])
    ['a', 'A']
    """
    names, left = [], [rows[0][1] or 0]
    for name, children in rows[1:]:
        while not left[-1]:
            left.pop()
        left[-1] -= 1
        if len(left) == 1:
            names.append(name)
        left += [children] if children else []
    return names


def convert_for_duckdb(stream: Any) -> tuple[Any, dict[int, str]]:
    """Return a table or stream of batches with UTF-8 text and types that DuckDB takes; and types, by place, that it has wrong.

    DuckDB stops at far moments of s and ms with a zone: it gets them without, and we remember that they are UTC. Decimals of
    256 bits and floats of 16 it does not know: they become doubles and floats, which is what its Parquet reader makes of them.
    """
    import pyarrow as pa

    zoned, fields = {}, []
    for i, field in enumerate(stream.schema):
        kind = field.type
        if getattr(kind, "tz", None) and kind.unit in ("s", "ms"):
            zoned[i] = f"TIMESTAMP_{kind.unit.upper()} WITH TIME ZONE"
            kind = pa.timestamp(kind.unit)
        kind = pa.float64() if pa.types.is_decimal256(kind) else pa.float32() if pa.types.is_float16(kind) else kind
        fields.append(field.with_type(kind))
    schema = pa.schema(fields)
    stream = stream if schema == stream.schema else stream.cast(schema)
    if isinstance(stream, pa.Table):
        return pa.Table.from_arrays([drop_bad_text(column) for column in stream.columns], schema=schema), zoned
    batches = (pa.record_batch([drop_bad_text(column) for column in batch.columns], schema=schema) for batch in stream)
    return pa.RecordBatchReader.from_batches(schema, batches), zoned


def folders(path: Path) -> dict[str, str]:
    """Columns that the names of a file's folders state, such as `region=north/a.parquet`; as DuckDB reads them."""
    pairs = (part.split("=", 1) for part in path.parts[:-1] if part.count("=") == 1)
    return {unquote(key): unquote(cell) for key, cell in pairs}


def parquet_stream(path: Path, columns: Sequence[str]) -> Any:
    """A Parquet file's columns as a stream of Arrow batches: slower than DuckDB's own reader, which stops at bad text."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    def opened() -> Any:
        return pq.ParquetFile(path, coerce_int96_timestamp_unit="us")

    stated = folders(path)
    own = [column for column in columns if column not in stated]
    with opened() as file:
        kinds = {column: file.schema_arrow.field(column).type for column in own}
    plain = {c: pa.int64() if pa.types.is_duration(k) else k for c, k in kinds.items()}  # DuckDB reads durations so
    schema = pa.schema([(column, plain.get(column, pa.string())) for column in columns])

    def batches() -> Iterator[Any]:
        with opened() as file:
            for batch in file.iter_batches(CHUNK, columns=own):
                cells = {column: batch.column(column).cast(plain[column]) for column in own}
                cells |= {c: pa.repeat(pa.scalar(cell, pa.string()), len(batch)) for c, cell in stated.items()}
                yield pa.record_batch([cells[column] for column in columns], schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())
