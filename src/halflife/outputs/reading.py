"""Reading published values back, from files of every kind that outputs are."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from halflife.errors import InvalidInput, unknown
from halflife.outputs.noise_facts import KEY, NoiseFacts
from halflife.outputs.parquet import check_folder, list_parts
from halflife.outputs.pinned import find_place

if TYPE_CHECKING:
    import pyarrow as pa

NEEDED = ("step", "start", "end", "value", "error_band")
OTHERS = ("group", "bin_low", "bin_high", "quantile", "stream")
SAYS_NOTHING = "this file does not say what noise it carries (a Parquet output does; or give the policy)"


class Rows(NamedTuple):
    """The rows of one stream in a file, and what the file says about them; `why_unknown` if it says nothing of its noise."""

    frame: pa.Table
    stream: str = ""
    unit: str = ""
    zone: str | None = None
    facts: NoiseFacts | None = None
    why_unknown: str = SAYS_NOTHING


def read_rows_of(file: str | Path, stream: str | None = None) -> Rows:
    """Return the rows of an output: a .csv, .jsonl or .parquet file, or a folder of Parquet parts.

    stream  whose rows are meant, where a file of JSON lines holds those of several
    """
    name = str(file)
    path, ending = find_place(name + "/" if Path(name).is_dir() and not name.endswith("/") else name)
    if not path.exists():
        raise InvalidInput(f"{name} is not there: give the path of an output that was published")
    with _readable(name):
        if ending in (".csv", ".jsonl"):
            return _read_text(name, path, ending, stream)
        return _read_parquet(name, path, ending)


@contextmanager
def _readable(name: str) -> Iterator[None]:
    """Turn what Arrow says about a file into an error that names it; nothing of the file is quoted beyond that."""
    import pyarrow as pa

    try:
        yield
    except InvalidInput:
        raise
    except (pa.ArrowException, ValueError, OSError) as problem:
        raise InvalidInput(f"{name} cannot be read as an output of halflife: {problem}") from problem


def _read_parquet(name: str, path: Path, ending: str) -> Rows:
    """Of a folder, the newest part says what holds of all: the record of post-processing only grows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if ending == "/":
        check_folder(path)
    files = [part for _, _, part in list_parts(path)] if ending == "/" else [path]
    tables = [pq.ParquetFile(part).read() for part in files]
    if not tables:
        raise InvalidInput(f"{name} holds no part yet: publish first")
    said = {key.decode(): text.decode() for key, text in (tables[-1].schema.metadata or {}).items()}
    frame = _arrange(name, pa.concat_tables([table.replace_schema_metadata(None) for table in tables]))
    facts, why = None, SAYS_NOTHING
    if KEY in said:
        try:
            facts = NoiseFacts.from_json(said[KEY])
        except InvalidInput as error:
            why = str(error)
    return Rows(frame, said.get("stream", ""), said.get("unit", ""), frame["start"].type.tz, facts, why)


def _read_text(name: str, path: Path, ending: str, stream: str | None) -> Rows:
    """A text file names neither its zone nor its unit; a zone that is UTC shows in its times."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.csv
    import pyarrow.json

    if not path.stat().st_size:
        raise InvalidInput(f"{name} is empty: publish first")
    if ending == ".csv":
        as_text = pyarrow.csv.ConvertOptions(column_types=dict.fromkeys((*NEEDED, *OTHERS), pa.string()))
        table = pyarrow.csv.read_csv(path, convert_options=as_text)
    else:
        table = pyarrow.json.read_json(
            path, parse_options=pyarrow.json.ParseOptions(explicit_schema=_json_schema(path))
        )
    found = ""
    if "stream" in table.column_names:
        names = sorted(set(table["stream"].to_pylist()), key=str)
        if stream is None and len(names) > 1:
            raise InvalidInput(
                f"{name} holds rows of {len(names)} streams: say which is meant ({', '.join(map(str, names))})"
            )
        found = stream or str(names[0])
        if found not in names:
            raise unknown("stream", found, map(str, names))
        table = table.filter(pc.equal(table["stream"], found))
    in_utc = pc.all(pc.ends_with(table["start"], "+00:00")).as_py() if "start" in table.column_names else False
    return Rows(_arrange(name, table), found, zone="UTC" if in_utc else None)


def _json_schema(path: Path) -> pa.Schema:
    """The types of the columns that the first line has: nothing is guessed from values."""
    import pyarrow as pa

    with path.open(encoding="utf-8") as file:
        first = json.loads(file.readline())
    types = {"step": pa.int64(), **dict.fromkeys(("start", "end", "group", "stream"), pa.string())}
    return pa.schema([(key, types.get(key, pa.float64())) for key in first if key in (*NEEDED, *OTHERS)])


def _arrange(name: str, table: pa.Table) -> pa.Table:
    """Return the columns of an output with their types; refuse a table that lacks one or has a hole."""
    import pyarrow as pa
    import pyarrow.compute as pc

    lacking = [key for key in NEEDED if key not in table.column_names]
    if lacking:
        raise InvalidInput(
            f"{name} is no output of halflife: it has no column {lacking[0]!r}, but {', '.join(table.column_names)}"
        )
    moment = table["start"].type if pa.types.is_timestamp(table["start"].type) else pa.timestamp("us", "UTC")
    types = {"step": pa.int64(), "start": moment, "end": moment, "group": pa.string()}
    kept = [key for key in ("step", "start", "end", *OTHERS[:-1], "value", "error_band") if key in table.column_names]
    columns = {key: table[key].cast(types.get(key, pa.float64())) for key in kept}
    for key, low in (("value", -math.inf), ("error_band", 0.0)):
        if key == "error_band":  # JSON has no infinity
            columns[key] = pc.fill_null(columns[key], math.inf)
        sound = pc.and_(pc.is_finite(columns[key]), pc.greater_equal(columns[key], low))
        sound = pc.or_(sound, pc.equal(columns[key], math.inf)) if key == "error_band" else sound
        if not pc.all(sound).as_py() and len(table):
            raise InvalidInput(
                f"{name} holds what no output does: in {key} there is a number that is not finite, or below 0"
            )
    for key, edge in (("bin_low", -math.inf), ("bin_high", math.inf)):
        if key in columns:
            columns[key] = pc.fill_null(columns[key], edge)
    for key, column in columns.items():
        if column.null_count:
            raise InvalidInput(f"{name}: {column.null_count} of its rows have no {key}: it is not as halflife wrote it")
    return pa.table(columns)
