"""Series from files: what can be read, and what is refused with the file, the line and what to do."""

from __future__ import annotations

import datetime
import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from halflife import InvalidInput, compare
from halflife.lab.compare import files
from halflife.lab.compare.files import read_series_file
from halflife.lab.compare.streams import CATALOGUE, OPEN, find_stream, read_stream


def write(folder, text, name="x.csv"):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("1\n2.5\n-3e2\n", {}),
        ("1\r\n2.5\r\n-3e2", {}),
        ("\ufeff1\n 2.5 \n-300.0\n\n\n", {}),
        ("kwh\n1\n2.5\n-300\n", {"column": "kwh"}),
        ('time,"kwh, net",zone\n0,1,a\n1,2.5,"b\nc"\n2,"-300",d\n', {"column": "kwh, net"}),
    ],
)
def test_values_are_read(tmp_path, text, options):
    assert read_series_file(write(tmp_path, text), **options).values.tolist() == [1.0, 2.5, -300.0]


def test_parquet_is_read(tmp_path):
    table = pa.table({"n": pa.array([3, 4, 5], pa.int16()), "x": [0.5, 1.5, 2.5]})
    pq.write_table(table, tmp_path / "a.parquet")
    pq.write_table(table.select(["n"]), tmp_path / "b.parquet")
    assert read_series_file(tmp_path / "a.parquet", "x").values.tolist() == [0.5, 1.5, 2.5]
    assert read_series_file(tmp_path / "b.parquet").values.tolist() == [3.0, 4.0, 5.0]
    pq.write_table(pa.table({"n": [2**62 + 1, 1]}), tmp_path / "c.parquet")  # more than a double holds: rounded
    assert read_series_file(tmp_path / "c.parquet").values.tolist() == [2.0**62, 1.0]
    fine = pa.array([1, 60_000_000_001, 120_000_000_001], pa.timestamp("ns"))
    pq.write_table(pa.table({"x": [1.0, 2.0, 3.0], "at": fine}), tmp_path / "d.parquet")
    assert [moment.minute for moment in read_series_file(tmp_path / "d.parquet", "x", "at").times] == [0, 1, 2]


def test_times_give_the_day(tmp_path):
    start = datetime.datetime(2026, 1, 5, 23)
    lines = [f"{start + k * datetime.timedelta(minutes=30)},{k}" for k in range(6)]
    path = write(tmp_path, "at,kwh\n" + "\n".join(lines))
    stream = find_stream(path, column="kwh", time="at")
    assert stream.steps_per_day == 48
    assert stream.slots.tolist() == [1380, 1410, 0, 30, 60, 90]
    (row,) = compare(["uniform"], path, column="kwh", time="at", w=2, repetitions=2).rows
    assert list(row["by_time_of_day"]) == ["00:00", "00:30", "01:00", "01:30", "23:00", "23:30"]
    assert set(row["worst_step"]) == {"step", "error", "time"}
    arrow = pa.table({"at": [start + k * datetime.timedelta(hours=1) for k in range(3)], "x": [1.0, 2.0, 3.0]})
    pq.write_table(arrow, tmp_path / "t.parquet")
    assert find_stream(tmp_path / "t.parquet", column="x", time="at").slots.tolist() == [1380, 0, 60]


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        ("", {}, "holds no value: a stream to compare on needs two values or more"),
        ("\n\n\n", {}, "holds no value"),
        ("4\n", {}, "holds one value alone"),
        ("1\nNaN\n3\n", {}, r"line 2 is not a number \(NaN\): give a file with one finite number a line"),
        ("1\n2\ninf\n", {}, "line 3 is not a finite number"),
        ("1\n2\n1e999\n", {}, "line 3 is above 1e\\+100 in size: change the unit"),
        ("1\ntwo\n", {}, "line 2 is not a finite number"),
        ("1_000\n2\n", {}, "line 1 is not a finite number"),
        ("1\n0x10\n", {}, "line 2 is not a finite number"),
        ("1\n\u0661\n", {}, "line 2 is not a finite number"),
        ("1\n\n3\n", {}, "line 2 is empty: leave such lines out, or put the missing value in"),
        ("kwh\n1\n2\n", {}, r"line 1 is not a finite number.*If it is a header, name its column \(--column\)"),
        ("1,2\n3,4\n", {}, r"line 1 holds 2 columns: name the one to compare on \(--column, with a header\)"),
        ("kwh,zone\n1,a\n", {"column": "kwhs"}, r"line 1: unknown column 'kwhs': did you mean 'kwh'\? Known: kwh, zone"),
        ("kwh,kwh\n1,2\n", {"column": "kwh"}, "2 columns are called 'kwh': rename one"),
        ("zone,kwh\na,1\nb\n", {"column": "kwh"}, "line 3 has 1 columns, fewer than the header"),
        ("zone,kwh\na,1\nb,\n", {"column": "kwh"}, "line 3 is not a finite number"),
        ('1\n"2\n3\n', {}, "cannot be read as CSV"),
        (b"1\n\xff\xfe\n", {}, "this is no UTF-8 text"),
        (b"1\n2\x00\n", {}, r"line 2 (is not a finite number|cannot be read as CSV)"),
        ("1" * 70_000 + "\n2\n", {}, "cannot be read as CSV"),
        ("at,x\nnow,1\nlater,2\n", {"column": "x", "time": "at"}, "line 2: its time is not one such as 2026-01-31T13:30"),
        ("at,x\n2026-01-01,1\n2026-01-02,2\n2026-01-04,3\n", {"column": "x", "time": "at"}, "do not ascend by one width"),
        ("1\n2\n", {"time": "at"}, "needs a column of values beside it"),
    ],
)  # fmt: skip
def test_hostile_text_is_refused_with_its_line(tmp_path, text, options, said):
    with pytest.raises(InvalidInput, match=said) as refused:
        compare(["uniform"], write(tmp_path, text), repetitions=1, **options)
    assert "x.csv" in str(refused.value)


def test_what_stands_in_a_line_is_never_shown(tmp_path):
    with pytest.raises(InvalidInput) as refused:
        read_series_file(write(tmp_path, "1\npatient-zero 4.2424\n"))
    assert "patient" not in str(refused.value)


@pytest.mark.parametrize(
    ("columns", "options", "said"),
    [
        ({"x": [1.0, None, 2.0]}, {}, r"row 2 is not a finite number \(or missing\)"),
        ({"x": [1.0, float("nan")]}, {}, "row 2 is not a finite number"),
        ({"x": [1.0, 1e200]}, {}, r"row 2 is above 1e\+100"),
        ({"x": ["a", "b"]}, {}, "its column is of type string, not of numbers"),
        ({"x": [True, False]}, {}, "its column is of type bool"),
        ({"x": [1.0, 2.0], "y": [1.0, 2.0]}, {}, r"has 2 columns: name one \(--column\): x, y"),
        ({"load": [1.0, 2.0]}, {"column": "laod"}, "did you mean 'load'"),
        ({"x": [1.0, 2.0], "y": [1.0, 2.0]}, {"column": "x", "time": "y"}, "its times are of type double"),
    ],
)
def test_hostile_parquet_is_refused_with_its_row(tmp_path, columns, options, said):
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    with pytest.raises(InvalidInput, match=said):
        read_series_file(tmp_path / "a.parquet", **options)


def test_two_columns_of_one_name_in_parquet_are_refused(tmp_path):
    pq.write_table(pa.table([[1.0, 2.0], [3.0, 4.0]], names=["x", "x"]), tmp_path / "a.parquet")
    with pytest.raises(InvalidInput, match="2 columns are called 'x': rename one"):
        read_series_file(tmp_path / "a.parquet", "x")


def test_what_is_no_file_is_refused_and_nothing_waits(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "pipe.csv")
    for name, said in (("pipe.csv", "is no file"), (".", "is no file"), ("none.csv", "No such file")):
        with pytest.raises(InvalidInput, match=said):
            find_stream(tmp_path / name)
    with pytest.raises(InvalidInput, match="cannot be read as Parquet"):
        read_series_file(write(tmp_path, "1\n2\n", "a.parquet"))
    with pytest.raises(InvalidInput, match="no path of a file"):
        read_series_file(tmp_path / "a\0b")
    monkeypatch.setattr(files, "MOST_BYTES", 10)
    with pytest.raises(InvalidInput, match="has 12 bytes, more than 10: cut it"):
        read_series_file(write(tmp_path, "1\n2\n3\n4\n5\n6\n"))
    monkeypatch.setattr(files, "MOST_BYTES", 100)
    monkeypatch.setattr(files, "MOST_VALUES", 3)
    with pytest.raises(InvalidInput, match="line 4: more than 3 values"):
        read_series_file(write(tmp_path, "1\n2\n3\n4\n5\n6\n"))


@pytest.mark.parametrize(
    ("series", "said"),
    [
        ("lundon", r"unknown series 'lundon': did you mean 'london'\? .*or give a file"),
        ([1.0], "a list of two numbers or more"),
        ([[1.0, 2.0]], "a list of two numbers or more"),
        ([1.0, float("nan")], "value 2 of the series is not a finite number"),
        ([1.0, 2.0, float("inf")], "value 3 of the series"),
        (["a", "b"], "a list of numbers, a file or a name"),
        ([[1.0, 2.0], [3.0]], "a list of numbers, a file or a name"),
        ({"a": 1.0}, "a list of numbers, a file or a name"),
    ],
)
def test_what_is_no_series_is_refused(series, said):
    with pytest.raises(InvalidInput, match=said):
        compare(["uniform"], series, repetitions=1)


def test_columns_are_about_files():
    with pytest.raises(InvalidInput, match="sine has no columns"):
        find_stream("sine", column="x")


# The catalogue ------------------------------------------------------------------------------------------------------


def test_generated_streams_are_the_oracles():
    assert read_stream("const").values.tolist() == [1000.0] * 1000
    t = np.arange(1000)
    assert read_stream("sine").values == pytest.approx(1000 + 500 * np.sin(2 * np.pi * t / 100), rel=1e-15)
    assert read_stream("random-walk", seed=1).values[5] != read_stream("random-walk", seed=2).values[5]


def test_a_stream_without_its_file_is_generated_and_says_so(tmp_path):
    for name in OPEN:
        stream = read_stream(name, tmp_path)
        assert not stream.real
        assert len(stream.values) == CATALOGUE[name].source.steps
    found = compare(["uniform"], "flu", data=tmp_path, repetitions=1)
    assert any("Generated: the open data is not here" in note for note in found.notes)


COUNTED = {"london": (17_520, 2.0), "gefcom-4": (8_760, 3.92), "gefcom-18": (8_760, 3.92), "ausgrid": (17_518, 2.0),
           "taxis": (3_155, 1.0), "check-ins": (5_136, 1.0), "flu": (1_250, 1.0), "heart-rates": (576, 1.0)}  # fmt: skip


@pytest.mark.parametrize("name", OPEN)
def test_open_streams_are_read(data_folder, name):
    stream = read_stream(name, data_folder)
    assert stream.real
    assert (len(stream.values), stream.sensitivity) == COUNTED[name]
    assert np.isfinite(stream.values).all()
    assert (stream.values >= 0).all()
    assert stream.unit


def test_counts_of_people_by_hand(data_folder):
    """A person once an hour, a stay by its newest reading, a taxi by its zone: counted again in plain Python."""
    import duckdb

    with duckdb.connect() as db:
        hour = db.execute(
            "SELECT DISTINCT \"user\" FROM read_parquet($1) WHERE ts >= TIMESTAMP '2010-06-01 20:00' AND ts < "
            "TIMESTAMP '2010-06-01 21:00'", [str(data_folder / "gowalla_nyc.parquet")]).fetchall()  # fmt: skip
        readings = db.execute(
            "SELECT stay, minute, hr FROM read_parquet($1) WHERE minute <= 600 ORDER BY stay, minute",
            [str(data_folder / "physionet2012_hourly.parquet")]).fetchall()  # fmt: skip
    place = int((np.datetime64("2010-06-01T20:00") - np.datetime64("2010-03-01T05:00")) / np.timedelta64(1, "h"))
    assert read_stream("check-ins", data_folder).values[place] == len(hour) > 0
    newest = {stay: (minute, hr) for stay, minute, hr in readings}
    fast = sum(hr > 100 and 600 - minute < 120 for minute, hr in newest.values())
    assert read_stream("heart-rates", data_folder).values[600 // 5 - 1] == fast > 0
