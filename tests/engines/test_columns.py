"""A column is the one of exactly that name, in every kind of source; and names that may be readings are not shown."""

from __future__ import annotations

import csv
import gzip
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engines.test_engines import BASE, COUNT
from halflife import InvalidInput
from halflife.engines import Engine, open_source
from halflife.engines.columns import is_header
from halflife.engines.duckdb.source import _Columns
from halflife.engines.frames import open_frame
from halflife.engines.samples import read_sample
from halflife.steps import Buckets

Table = dict[str, list[str]]
DAY = "2013-03-30"


def _csv(table: Table, path: Path, opened: Any = open) -> Path:
    with opened(path, "wt", encoding="utf-8", newline="") as file:
        out = csv.writer(file)
        out.writerow(table)
        out.writerows(zip(*table.values(), strict=True))
    return path


def _two_parquet(table: Table, folder: Path) -> Engine:
    """One row a file, the columns of the second the other way round."""
    pq.write_table(pa.table(table).slice(0, 1), folder / "0.parquet")
    turned = dict(reversed(table.items()))
    pq.write_table(pa.table(turned).slice(1), folder / "1.parquet")
    return open_source(str(folder / "*.parquet"))


def _parquet(table: Table, folder: Path) -> Engine:
    pq.write_table(pa.table(table), folder / "a.parquet")
    return open_source(folder / "a.parquet")


def _patient_parquet(table: Table, folder: Path) -> Engine:
    """Read through Arrow, as DuckDB stops at a person who is no text."""
    people = [*table["ID"], "bad"]
    raw = pa.array([p.encode() if p != "bad" else b"\xff" for p in people], pa.binary())
    columns = {name: pa.array([*cells, cells[0]]) for name, cells in table.items()}
    columns["ID"] = pa.Array.from_buffers(pa.string(), len(raw), raw.buffers())
    pq.write_table(pa.table(columns), folder / "a.parquet")
    return open_source(folder / "a.parquet")


KINDS: dict[str, Callable[[Table, Path], Engine]] = {
    "csv": lambda table, folder: open_source(_csv(table, folder / "a.csv")),
    "gzipped": lambda table, folder: open_source(_csv(table, folder / "a.csv.gz", gzip.open)),
    "parquet": _parquet,
    "two Parquet files": _two_parquet,
    "Parquet through Arrow": _patient_parquet,
    "Arrow": lambda table, folder: open_source(pa.table(table)),
    "Arrow stream": lambda table, folder: open_source(pa.table(table).to_reader()),
    "Narwhals": lambda table, folder: open_frame(pa.table(table)),
    "pandas": lambda table, folder: open_source(pd.DataFrame(table)),
    "Polars": lambda table, folder: open_source(pl.DataFrame(table)),
}
"""Sources that can hold two columns whose names differ in case alone."""

ALIKE: Table = {
    "id": ["3.0", "0.5"],
    "ID": ["8", "9"],
    "Time": ["1999-01-01", "1999-01-01"],
    "time": [DAY, DAY],
    "ID_1": ["7.0", "7.0"],
    "Id": ["6.0", "1.0"],
    "c0": ["2.0", "2.5"],
    "C1": ["1.25", "1.0"],
    "cell2": ["0.25", "0.5"],
    "line": ["1.0", "4.0"],
    "quoted": ["4.0", "4.5"],
    'a"b;--\n'.strip(): ["5.0", "5.5"],
    "é": ["0.125", "0.25"],
    "e\u0301": ["6.0", "6.5"],
    " kwh ": ["9.0", "0.75"],
}
ASKED = replace(BASE, person="ID", time="time", value="id", multiply=1000, high=10**6)


@pytest.mark.parametrize("kind", KINDS)
def test_names_that_differ_in_case_are_two_columns(kind: str, tmp_path: Path) -> None:
    """Person 8 reads 3.0 in `id`; a CSV gave 8.0, which is who they are in `ID`."""
    engine = KINDS[kind](ALIKE, tmp_path)
    values = [value for value in ALIKE if value not in ("ID", "Time", "time")]
    for value in {"id", *values[[*KINDS].index(kind) % 3 :: 3]}:
        answer = engine.aggregate(replace(ASKED, value=value))
        assert answer.sums.sum() == 1000 * sum(map(float, ALIKE[value])), value
    assert engine.aggregate(replace(ASKED, time="Time")).sums.sum() == 0
    one_each = replace(COUNT, person="ID", time="time", group="id", groups=("3.0", "0.5", "8"))
    assert engine.aggregate(one_each).sums.sum(axis=0).ravel().tolist() == [1, 1, 0]
    engine.close()


@pytest.mark.parametrize("kind", KINDS)
def test_a_name_in_another_case_is_refused_with_the_files_own(kind: str, tmp_path: Path) -> None:
    engine = KINDS[kind]({"ID": ["8", "9"], "time": [DAY, DAY], "Value ": ["3.0", "0.5"]}, tmp_path)
    with pytest.raises(InvalidInput, match=r"no column 'value': did you mean 'Value '.*exactly"):
        engine.aggregate(replace(ASKED, value="value"))
    with pytest.raises(InvalidInput, match=r"column of .*'Valua': did you mean 'Value '"):
        engine.aggregate(replace(ASKED, value="Valua"))
    engine.close()


def test_databases_have_one_column_of_a_name_and_it_is_named_exactly(tmp_path: Path) -> None:
    base = sqlite3.connect(tmp_path / "a.sqlite")
    base.execute("CREATE TABLE readings (ID, time, id_1, [Kwh])")
    base.execute("INSERT INTO readings VALUES ('8', ?, 7, 3.0)", (DAY,))
    base.commit()
    base.close()
    with duckdb.connect(str(tmp_path / "a.duckdb")) as duck:
        duck.execute(f"""CREATE TABLE readings AS SELECT '8' AS "ID", '{DAY}' AS time, 7.0 AS id_1, 3.0 AS "Kwh" """)
    for name in ("a.sqlite", "a.duckdb"):
        engine = open_source(tmp_path / name, table="readings")
        assert engine.aggregate(replace(ASKED, value="Kwh")).sums.sum() == 3000
        with pytest.raises(InvalidInput, match="no column 'kwh': did you mean 'Kwh'"):
            engine.aggregate(replace(ASKED, value="kwh"))
        engine.close()


@pytest.mark.parametrize("make", [
    lambda table, folder: open_source(table),
    lambda table, folder: open_source(table.to_reader()),
    lambda table, folder: open_frame(table),
    lambda table, folder: open_source(pd.DataFrame([["8", DAY, 1.0, 2.0]], columns=table.column_names)),
    lambda table, folder: (pq.write_table(table, folder / "a.parquet"), open_source(folder / "a.parquet"))[1],
    lambda table, folder: ((folder / "a.csv").write_text(f"ID,time,v,v\n8,{DAY},1,2\n"), open_source(folder / "a.csv"))[1],
])  # fmt: skip
def test_a_column_that_stands_twice_is_refused(make: Any, tmp_path: Path) -> None:
    table = pa.table([["8"], [DAY], [1.0], [2.0]], names=["ID", "time", "v", "v"])
    with pytest.raises(InvalidInput, match=r"2 columns 'v'|its own name|each once"):
        make(table, tmp_path).aggregate(replace(ASKED, value="v"))


@pytest.mark.parametrize("make", [
    lambda table, folder: open_source(table),
    lambda table, folder: open_source(table.to_reader()),
    lambda table, folder: (pq.write_table(table, folder / "a.parquet"), open_source(folder / "a.parquet"))[1],
])  # fmt: skip
def test_columns_that_stand_twice_and_are_not_asked_for_do_not_matter(make: Any, tmp_path: Path) -> None:
    columns = [["x"], ["8"], ["y"], [DAY], ["z"], [3.0], ["5"]]
    table = pa.table(columns, names=["v", "ID", "v", "time", "V", "id", "v_1"])
    engine = make(table, tmp_path)
    assert engine.aggregate(ASKED).sums.sum() == 3000
    assert engine.aggregate(replace(ASKED, value="v_1")).sums.sum() == 5000
    engine.close()


def test_a_folder_that_states_a_column_in_another_case_hides_none(tmp_path: Path) -> None:
    (tmp_path / "V=5").mkdir()
    pq.write_table(pa.table({"ID": ["8"], "time": [DAY], "v": [3.0], "w": [1.0]}), tmp_path / "V=5" / "a.parquet")
    engine = open_source(tmp_path / "V=5" / "a.parquet")
    with pytest.raises(InvalidInput, match="hidden by a folder that states 'V'"):
        engine.aggregate(replace(ASKED, value="v"))
    assert engine.aggregate(replace(ASKED, value="w")).sums.sum() == 1000
    engine.close()


def test_nested_columns_do_not_count_as_places(tmp_path: Path) -> None:
    table = pa.table({
        "deep": pa.array([{"id": 9.0, "x": [{"y": 1}]}]), "ID": ["8"], "time": [DAY], "list": [[1.0]], "id": [3.0],
    })  # fmt: skip
    pq.write_table(table, tmp_path / "a.parquet")
    engine = open_source(tmp_path / "a.parquet")
    assert engine.aggregate(ASKED).sums.sum() == 3000
    engine.close()


@pytest.mark.diagonal
@pytest.mark.parametrize("mark", ["\ufeff", ""])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", "\r\r\n"])
@pytest.mark.parametrize("last", [True, False])
def test_marks_and_line_ends_of_any_system(mark: str, end: str, last: bool, tmp_path: Path) -> None:
    lines = ["ID,time,id", f"8,{DAY},3.0", f"9,{DAY},0.5", f"8,{DAY},1.0"]
    (tmp_path / "a.csv").write_bytes((mark + end.join(lines) + end * last).encode())
    engine = open_source(tmp_path / "a.csv")
    assert list(engine.columns()) == ["ID", "time", "id"]
    answer = engine.aggregate(ASKED)
    assert answer.sums.sum() == 3500, "the largest of person 8, and person 9"
    assert answer.tallies["rows"] == 3
    engine.close()


# Names that are none ------------------------------------------------------------------------------------------------

ROWS = [["mac-000246", "2024-01-01 00:30", "1.5"], ["mac-000247", "2024-01-01 01:00", "0.25"]]


def _headerless(kind: str, folder: Path) -> Engine:
    names = ROWS[0]
    if kind == "csv":
        (folder / "a.csv").write_text("".join(",".join(row) + "\n" for row in ROWS))
        return open_source(folder / "a.csv")
    table = pa.table([[cell] for cell in ROWS[1]], names=names)
    if kind == "parquet":
        pq.write_table(table, folder / "a.parquet")
        return open_source(folder / "a.parquet")
    if kind == "Arrow":
        return open_source(table)
    if kind == "numbered":
        return open_source(pd.DataFrame(ROWS))
    return open_source(pd.DataFrame([ROWS[1]], columns=names) if kind == "pandas" else pl.from_arrow(table))


@pytest.mark.parametrize("kind", ["csv", "parquet", "Arrow", "pandas", "Polars", "numbered"])
@pytest.mark.parametrize("asked", [("home", "time", "kwh"), ("mac", "2024", "1"), (ROWS[0][0], "time", "kwh")])
def test_a_file_without_a_header_shows_no_reading(kind: str, asked: tuple[str, str, str], tmp_path: Path) -> None:
    """It said "Known: 1.5, 2024-01-01 00:30, mac-000246"."""
    engine = _headerless(kind, tmp_path)
    person, time, value = asked
    with pytest.raises(InvalidInput, match=r"has no column .* without a header") as caught:
        engine.aggregate(replace(BASE, person=person, time=time, value=value))
    for reading in ("000246", "2024-01-01", "1.5"):
        assert reading not in str(caught.value).replace(repr(person), ""), "but for what was asked"
    engine.close()


COLUMNS = ["who", "when", "kwh"]
HEADERLESS = replace(
    BASE,
    person="who",
    time="when",
    value="kwh",
    buckets=Buckets(86_400_000_000, ((-(2**62), 0),)),
    first=19_724,
    last=19_724,
)


def test_columns_are_given_where_a_file_names_none(tmp_path: Path) -> None:
    """The first line is a reading as any other: 1.5 and 0.25 kWh, beside lines that do not split."""
    broken = "mac,broken\n" + "".join(",".join(row) + "\n" for row in ROWS) + '"mac-3,2024-01-01,9\n'
    for delimiter, between in {None: ",", ",": ",", ";": ";", "tab": "\t", "|": "|"}.items():
        (tmp_path / "a.csv").write_text(broken.replace(",", between))
        engine = open_source(tmp_path / "a.csv", columns=COLUMNS, delimiter=delimiter)
        assert list(engine.columns()) == COLUMNS
        answer = engine.aggregate(HEADERLESS)
        assert (answer.sums.sum(), answer.tallies["rows"], answer.tallies["bad_time"]) == (1750, 4, 2)
        with pytest.raises(InvalidInput, match=r"column of .*'whom': did you mean 'who'"):
            engine.aggregate(replace(HEADERLESS, person="whom"))
        engine.close()


def test_columns_and_delimiters_that_do_not_fit_are_refused_without_a_reading(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("".join(",".join(row) + "\n" for row in ROWS))
    for columns, delimiter, said in (
        (["who", "when", "who"], None, "a name in `columns` stands twice"),
        (COLUMNS, "comma", "unknown delimiter 'comma'"),
        (None, ";", "a file with a header says its delimiter by it"),
    ):
        with pytest.raises(InvalidInput, match=said) as caught:
            open_source(tmp_path / "a.csv", columns=columns, delimiter=delimiter)
        for reading in ("000246", "2024-01-01", "1.5"):
            assert reading not in str(caught.value)
        assert caught.value.__context__ is None


def test_lines_of_one_person_do_not_decide_how_those_of_others_are_read(tmp_path: Path) -> None:
    """Most lines have other delimiters or fields, or are the names of columns: each is one bad row, and the others count."""
    good = "".join(",".join(row) + "\n" for row in ROWS)
    bad = ["mac-1;2024-01-01;9", "mac-1,2024-01-01,9,x", ",".join(COLUMNS), "mac-1\t2024-01-01\t9"]
    for first in bad:
        (tmp_path / "a.csv").write_text(f"{first}\n" * 200 + good)
        (tmp_path / "b.csv").write_text(f"{first}\n" * 300)
        engine = open_source(str(tmp_path / "*.csv"), columns=COLUMNS)
        answer = engine.aggregate(HEADERLESS)
        assert (answer.sums.sum(), answer.tallies["rows"], answer.tallies["bad_time"]) == (1750, 502, 500), first
        engine.close()


def test_the_types_of_many_columns_are_worked_out_once() -> None:
    """They are asked for column by column: worked out anew each time, 4,000 columns took 5 s, and 16,000 a minute and more."""
    columns = _Columns(["a", "b"], ["a", "b"], ["DOUBLE", "DOUBLE"])
    assert columns.types is columns.types
    assert columns.identifiers is columns.identifiers


def test_the_names_of_a_wide_table_are_in_no_error(tmp_path: Path) -> None:
    """Its columns are people: whatever is wrong with it, nobody is named."""
    wide = replace(BASE, wide=True, time="ts")
    first = pa.table({"ts": [DAY], "secret-ann": [1.0], "secret-bob": [2.0]})
    (tmp_path / "SECRET-ann=5").mkdir()
    pq.write_table(first, tmp_path / "SECRET-ann=5" / "1.parquet")
    text = pa.table({"ts": [DAY], "secret-ann": [[1.0]], "secret-bob": [2.0]})
    twice = pa.table([[DAY], [1.0], [2.0]], names=["ts", "secret-ann", "secret-ann"])
    for source, said in (
        (str(tmp_path / "*" / "1.parquet"), "a column is hidden by a folder that states one"),
        (text, "1 of 2 columns beside 'ts' hold no numbers"),
        (pl.from_arrow(text), "1 of 2 columns beside 'ts' hold no numbers"),
        (twice, "two columns of one name"),
        (pa.table({"ts": [DAY]}), "no column beside its times"),
        (first.rename_columns(["time", "secret-ann", "secret-bob"]), "no column 'ts' among its 3"),
    ):
        engine = open_source(source)
        with pytest.raises(InvalidInput, match=said) as caught:
            engine.aggregate(wide)
        assert "secret" not in str(caught.value)
        assert "secret" not in str(caught.value.__context__ or "")
        engine.close()


@pytest.mark.parametrize("kind", ["csv", "parquet", "text in parquet", "bad text in parquet"])
def test_each_file_of_a_wide_table_is_read_by_its_own_columns(kind: str, tmp_path: Path) -> None:
    """Who has no column in a file has no reading in it; the larger of two readings of one moment counts, as elsewhere."""
    files = [
        {"ts": [DAY], "ann": [1.0]},
        {"bob": [4.0], "ts": [DAY], "ann": [3.0], "cleo": [8.0]},
        {"ts": [DAY], "ann": [2.0], "dan": [None]},
    ]
    for i, columns in enumerate(files):
        if kind == "csv":
            _csv(columns, tmp_path / f"{i}.csv")
            continue
        numbers = {c: pa.array(cells, pa.float64()) for c, cells in columns.items() if c != "ts"}
        table = pa.table({c: numbers.get(c, columns[c]) for c in columns})
        if "text" in kind:
            table = pa.table([column.cast(pa.string()) for column in table.columns], table.column_names)
        if "bad" in kind and i == 1:
            no_utf8 = pa.Array.from_buffers(pa.string(), 1, pa.array([b"\xff"]).buffers())
            table = table.set_column(2, "ann", no_utf8)
        pq.write_table(table, tmp_path / f"{i}.parquet")
    engine = open_source(str(tmp_path / "*.*"))
    ann = 2 if kind == "bad text in parquet" else 3
    for _ in range(2):
        answer = engine.aggregate(replace(BASE, wide=True, time="ts", fold="sum", low=0, high=100_000))
        assert answer.sums.sum() == 1000 * (ann + 4 + 8), "ann, bob and cleo"
        bad = 1 + (kind == "bad text in parquet")
        assert (answer.tallies["rows"], answer.tallies["bad_value"], answer.tallies["duplicates"]) == (6, bad, 3 - bad)
    engine.close()


def test_columns_are_for_csv_alone(tmp_path: Path) -> None:
    pq.write_table(pa.table({"who": ["a"]}), tmp_path / "a.parquet")
    for reads in (
        lambda: open_source(tmp_path / "a.parquet", columns=COLUMNS),
        lambda: read_sample([tmp_path / "a.parquet"], person="a", time="b", value="c", step="1 h", columns=COLUMNS),
    ):
        with pytest.raises(InvalidInput, match="a parquet file names its columns itself: leave out columns"):
            reads()
    (tmp_path / "a.csv").write_text("a,2024-01-01,1\na,2024-01-02,2\n")
    sample = read_sample([tmp_path / "a.csv"], person="who", time="when", value="kwh", step="1 day", columns=COLUMNS)
    assert sample.sequences[0].tolist() == [1.0, 2.0]


def test_what_is_wrong_with_a_first_line_is_said_without_it(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    for line in (b"zoe,1.5,1.5", b"", b"  ", b"zoe\xff,1.5", b'"' + b"zoe" * 50_000 + b'",2', b"zoe," * 400_000):
        path.write_bytes(line + b"\nbob,2.5,3.5\n")
        with pytest.raises(InvalidInput, match=r"a\.csv") as caught:
            open_source(path)
        assert "zoe" not in str(caught.value)
        assert "1.5" not in str(caught.value)
        assert caught.value.__cause__ is None
        assert caught.value.__context__ is None


def test_what_a_header_looks_like() -> None:
    assert is_header(["LCLid", "stdorToU", "DateTime", "KWH/hh (per half hour) "])
    assert is_header(["_id", "é", "电表", "x1"])
    for cell in ("1.5", "-3", "+1", ".5", "2024-01-01", "12:30", "", " ", "1e3", "(x)", '"a"', 0, None, ("a", 1)):
        assert not is_header(["home", cell])


# Files that czoeot be read ------------------------------------------------------------------------------------------


def _compressed() -> bytes:
    return gzip.compress(b"ID,time,id\n" + f"8,{DAY},3.0\n9,{DAY},0.5\n".encode() * 500)


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "another checksum": lambda raw: raw[:-8] + bytes([raw[-8] ^ 1]) + raw[-7:],
    "another length": lambda raw: raw[:-1] + bytes([raw[-1] ^ 1]),
    "cut off in its checksum": lambda raw: raw[:-3],
    "cut off in the middle": lambda raw: raw[: len(raw) // 2],
    "cut off in its head": lambda raw: raw[:5],
    "empty": lambda raw: b"",
    "another method": lambda raw: raw[:2] + b"\x09" + raw[3:],
    "a byte within": lambda raw: raw[:40] + bytes([raw[40] ^ 0xFF]) + raw[41:],
    "not compressed": gzip.decompress,
    "followed by something else": lambda raw: raw + b"something else",
    "a second one that is cut off": lambda raw: raw + raw[:-1],
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_gzip_is_refused_as_a_file_and_nothing_of_it_is_said(damage: str, tmp_path: Path) -> None:
    path = tmp_path / "a.csv.gz"
    path.write_bytes(DAMAGE[damage](_compressed()))
    with pytest.raises(InvalidInput, match=r"a\.csv\.gz (is damaged|needs a first line)") as caught:
        open_source(path).aggregate(ASKED)
    assert caught.value.__context__ is None


@pytest.mark.parametrize("name", ["a.csv.gz", "A.CSV.GZ"])
def test_several_gzip_streams_are_one_file(name: str, tmp_path: Path) -> None:
    parts = [b"ID,time,id\n8," + DAY.encode(), b",3.0\n9,", DAY.encode() + b",0.5\n"]
    (tmp_path / name).write_bytes(b"".join(map(gzip.compress, parts)))
    engine = open_source(tmp_path / name)
    assert engine.aggregate(ASKED).sums.sum() == 3500
    engine.close()
