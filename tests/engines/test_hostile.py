"""Sources that were written to break a run, to learn from its errors, or to count a person twice."""

from __future__ import annotations

import datetime
import decimal
import itertools
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engines import reference
from engines.test_engines import BASE, COUNT, GROUPS, LOCAL, SPRING, check, compare
from halflife import InvalidInput
from halflife.engines import Question, open_source
from halflife.engines.duckdb.engine import DuckEngine, open_arrow
from halflife.engines.duckdb.scratch import OURS, PREFIX
from halflife.engines.frames import open_frame
from halflife.engines.time_format import check_time_format
from halflife.steps import Steps
from thinning import keep

BAD = b"secret-patient-\xff\xfe"
Rows = list[dict[str, Any]]

# ------------------------------------------------------------------------------------------------ text that is no text


def bytes_as_text(cells: Sequence[Any], kind: Any) -> Any:
    """An Arrow column of text that claims to be UTF-8."""
    raw = [cell.encode() if isinstance(cell, str) else cell for cell in cells]
    if pa.types.is_dictionary(kind):
        return bytes_as_text(cells, kind.value_type).dictionary_encode()
    as_bytes = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary(), pa.string_view(): pa.binary_view()}
    column = pa.array(raw, as_bytes[kind])
    return pa.Array.from_buffers(kind, len(column), column.buffers())


def bad_texts() -> Rows:
    """Rows of text, some cells of which are no UTF-8."""
    rows = [{"p": f"p{i % 7}", "ts": "2013-03-30", "kwh": "1.5", "room": GROUPS[i % 3]} for i in range(700)]
    for i, column in enumerate(("p", "ts", "kwh", "room", "p", "room")):
        rows[i * 11][column] = BAD  # type: ignore[assignment]
    return rows


TEXTS = [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]


@pytest.mark.diagonal
@pytest.mark.parametrize("kind", TEXTS, ids=str)
@pytest.mark.parametrize("source", ["parquet", "arrow", "stream", "frame", "pandas"])
def test_a_cell_that_is_no_text_is_a_bad_row(source: str, kind: Any, tmp_path: Path) -> None:
    rows = bad_texts()
    table = pa.table({column: bytes_as_text([row[column] for row in rows], kind) for column in rows[0]})
    expected: Rows = [{c: None if cell == BAD else cell for c, cell in row.items()} for row in rows]
    if source == "parquet":
        pq.write_table(table, tmp_path / "a.parquet", row_group_size=100)
        pq.write_table(table.slice(0, 30), tmp_path / "b.parquet")
        engine, expected = open_source(str(tmp_path / "*.parquet")), expected + expected[:30]
    elif source == "pandas":
        engine = open_source(pd.DataFrame({c: pd.Series(pd.arrays.ArrowExtensionArray(table[c])) for c in rows[0]}))
    else:
        engine = {"arrow": open_arrow, "stream": lambda t: open_arrow(t.to_reader()), "frame": open_frame}[source](
            table
        )
    for question in (replace(BASE, fold="sum", once=False, high=10**9), replace(COUNT, group="room", groups=GROUPS)):
        check(engine, expected, question)
    engine.close()


def test_the_patient_reader_gives_the_same_answers(tmp_path: Path) -> None:
    moments = [SPRING, None, datetime.datetime(1, 1, 1), SPRING + datetime.timedelta(microseconds=1)]
    columns = {
        "us": pa.array(moments, pa.timestamp("us")),
        "utc": pa.array(moments, pa.timestamp("us", "UTC")),
        "ms": pa.array([m and m.replace(microsecond=0) for m in moments], pa.timestamp("ms", "Europe/Berlin")),
        "day": pa.array(moments, pa.date32()),
        "whole": pa.array([1, None, 3, 2**40], pa.int64()),
        "half": pa.array(np.array([1, 2, 3, 4], np.float16)),
        "long": pa.array([decimal.Decimal("1.5"), None, decimal.Decimal(3), decimal.Decimal(-1)], pa.decimal256(50, 2)),
        "took": pa.array([1, 2, None, 4], pa.duration("s")),
        "yes": pa.array([True, False, None, True]),
    }
    folder = tmp_path / "region=north%20sea"
    folder.mkdir()
    table = pa.table({**columns, "p": ["a", "b", "c", "d"]})
    pq.write_table(table, folder / "good.parquet")
    pq.write_table(table.set_column(9, "p", bytes_as_text(["a", BAD, "c", "d"], pa.string())), folder / "bad.parquet")
    good, bad = open_source(folder / "good.parquet"), open_source(folder / "bad.parquet")
    common = {
        "local": LOCAL,
        "weights": {"a": 1, "c": 3, "d": 7},
        "group": "region",
        "groups": ("north sea",),
        "low": -5,
    }
    for time in ("us", "utc", "ms", "day"):
        for value in ("whole", "half", "long", "took", "yes"):
            question = replace(BASE, time=time, value=value, **common)
            wanted, found = good.aggregate(question), bad.aggregate(question)
            assert wanted.sums.any()
            assert np.array_equal(found.sums, wanted.sums), (time, value)
    good.close()
    bad.close()


@pytest.mark.parametrize("kind", [object, "string[python]", "category"])
def test_half_a_character_is_a_bad_cell(kind: Any) -> None:
    rows = [{"p": p, "ts": SPRING, "kwh": 1.0} for p in ("ann", "a\udc80", "bob", None, "é")]
    people = pd.Series([row["p"] for row in rows], dtype=object)
    if kind == "category":
        people = pd.Series(pd.Categorical(people, pd.Index(["ann", "a\udc80", "bob", "é"], dtype=object)))
    frame = pd.DataFrame({"p": people.astype(kind), "ts": [SPRING] * 5, "kwh": [1.0] * 5})
    expected = [row if row["p"] != "a\udc80" else {**row, "p": None} for row in rows]
    check(open_source(frame), expected, BASE)


# ------------------------------------------------------------------------------------------------ times as people write them


def test_a_time_format_is_about_text() -> None:
    for column in (pa.array([SPRING]), pa.array([20130330]), pa.array([1.5])):
        table = pa.table({"p": ["ann"], "ts": column, "kwh": [1.0]})
        for engine in (
            open_arrow(table),
            open_frame(table),
            open_source(table.to_pandas()),
            open_source(pl.from_arrow(table)),
        ):
            with pytest.raises(InvalidInput, match=r"column 'ts' is .*, but time_format is about text: leave it out"):
                engine.aggregate(replace(BASE, time_format="%Y%m%d"))
            engine.close()
    empty = pa.table({"p": ["ann"], "ts": pa.nulls(1), "kwh": [1.0]})
    for engine in (open_arrow(empty), open_frame(empty)):
        assert engine.aggregate(replace(BASE, time_format="%Y%m%d")).tallies["bad_time"] == 1


@pytest.mark.parametrize("text", [
    "%c", "%x", "%d/%m/%Y %X", "%Y", "%d/%m", "%m/%Y", "%d/%Y", "%Y-%m-%d %I:%M", "%Y-%m-%d %H:%M %p", "%Y-%m-%d %M",
    "%Y-%m-%d %H:%S",
    "%Y-%m-%d %H:%M.%f", "%Y%m%d%d", "%Y %y-%m-%d", "%b %B %d %Y", "%Y-%m-%d %H:%M:%S.%f5", "%z%Y-%m-%d",
    "%Y-%m-%d %Z", "%Y-%j", "%s",
    "%Y-%m-%d %-H", "%Y-%m-%d %", "%G-%V-%u", "YYYY-MM-DD",
])  # fmt: skip
def test_a_format_that_does_not_say_when_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"%|has no"):
        check_time_format(text)


@pytest.mark.parametrize(("form", "text", "hour"), [
    ("o'clock [%H] %d.%m.%Y (x)", "o'clock [7] 1.2.2013 (x)", 7), ("100%% %Y-%m-%d", "100% 2013-02-01", 0),
    ("%Y年%m月%d日 %H時", "2013年2月1日 9時", 9),
    ("  %Y-%m-%d %H", "  2013-02-01 3", 3), ("%d%b%Y:%H:%M:%S %z", "01Feb2013:07:30:00 -0530", 13),
    ("1%d 2%m %y3", "101 202 133", 0),
    ("%y%m%d %I%p", "130201 12am", 0), ("%H h %M, %A %d %B %y", "23 h 05, friday 01 FEBRUARY 13", 23),
])  # fmt: skip
def test_formats_with_signs_of_their_own(form: str, text: str, hour: int) -> None:
    table = pa.table({"p": ["ann"] * 2, "ts": [text, text + "."], "kwh": [1.0, 1.0]})
    hours = Steps.of("1 h", "2013-02-01").buckets(0, 2**60)
    for engine in (open_arrow(table), open_frame(table), open_source(table.to_pandas())):
        answer = engine.aggregate(replace(COUNT, buckets=hours, last=24, time_format=check_time_format(form)))
        assert np.flatnonzero(answer.sums).tolist() == [hour]
        assert answer.tallies["bad_time"] == 1
        engine.close()


# ---------------------------------------------------------------------------------------------- errors that quote nothing


def _said(error: BaseException | None) -> str:
    said = ""
    while error is not None:
        said, error = said + str(error), error.__cause__ or error.__context__
    return said


def test_errors_while_reading_quote_no_cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = pa.table({"p": ["secret"] * 3, "ts": ["2013-03-30"] * 3, "kwh": [1.0] * 3})
    pq.write_table(table, tmp_path / "a.parquet", compression="none", use_dictionary=False)
    raw = bytearray((tmp_path / "a.parquet").read_bytes())
    raw[4:24] = b"\xff" * 20
    (tmp_path / "a.parquet").write_bytes(raw)
    engine = open_source(tmp_path / "a.parquet")
    with pytest.raises(InvalidInput, match=r"a\.parquet cannot be read to its end.*anew") as caught:
        engine.aggregate(BASE)
    assert _said(caught.value) == str(caught.value)
    engine.close()

    import duckdb

    engine = open_arrow(table)

    class Talkative:
        failure: type[Exception] = duckdb.Error

        def execute(self, sql: str) -> Any:
            raise self.failure(f"the value 'secret' of {sql}")

        def close(self) -> None: ...

        def register(self, *_: Any) -> None: ...

    monkeypatch.setattr(engine, "_duck", Talkative())
    for failure in (duckdb.InvalidInputException, duckdb.OutOfMemoryException, duckdb.ConversionException):
        monkeypatch.setattr(Talkative, "failure", failure)
        with pytest.raises(InvalidInput) as caught:
            engine.aggregate(BASE)
        assert "secret" not in _said(caught.value)


def test_errors_of_a_frame_quote_no_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    from halflife.engines import frames

    def talks(*_: Any) -> Any:
        raise pa.ArrowInvalid("the value 'secret'")

    monkeypatch.setattr(frames, "_people", talks)
    with pytest.raises(InvalidInput, match="data frame cannot be read") as caught:
        open_source(pl.DataFrame({"p": ["secret"], "ts": [SPRING], "kwh": [1.0]})).aggregate(BASE)
    assert "secret" not in _said(caught.value)


# --------------------------------------------------------------------------------------- files that differ in their types

DAY = datetime.date(2013, 3, 30)
AWARE = SPRING.replace(tzinfo=datetime.UTC)
UTC, NAIVE = pa.timestamp("us", "UTC"), pa.timestamp("us")


def _row(p: Any = "a", ts: Any = SPRING, kwh: Any = 1.0, room: Any = "hall") -> dict[str, Any]:
    return {"p": p, "ts": ts, "kwh": kwh, "room": room}


MIXED: dict[str, list[tuple[dict[str, Any], Rows]]] = {
    "persons": [
        ({"p": pa.string()}, [_row("7"), _row("8"), _row(""), _row("007"), _row(None)]),
        ({"p": pa.float64()}, [_row(7.0), _row(7.4), _row(float("nan")), _row(-0.0), _row(None)]),
        ({"p": pa.int64()}, [_row(7), _row(0), _row(9), _row(None)]),
        ({"p": pa.string()}, [_row("9"), _row("7", kwh=0.25)]),
    ],
    "whole then broken persons": [
        ({"p": pa.int64()}, [_row(7), _row(8)]),
        ({"p": pa.float64()}, [_row(7.4), _row(7.6), _row(8.0)]),
    ],
    "values": [
        ({"kwh": pa.int32()}, [_row(kwh=1), _row("b", kwh=2)]),
        ({"kwh": pa.float64()}, [_row("c", kwh=0.4), _row("d", kwh=float("nan")), _row("e", kwh=float("inf"))]),
        ({"kwh": pa.string()}, [_row("f", kwh="0.4"), _row("g", kwh="x"), _row("h", kwh=None)]),
    ],
    "times": [
        ({"ts": pa.date32()}, [_row(ts=DAY), _row("b", ts=None)]),
        ({"ts": NAIVE}, [_row("c", ts=SPRING + datetime.timedelta(hours=3)), _row("a", ts=SPRING)]),
        ({"ts": UTC}, [_row("d", ts=AWARE + datetime.timedelta(hours=3)), _row("a", ts=AWARE)]),
        (
            {"ts": pa.string()},
            [_row("e", ts="2013-03-31T03:00+01"), _row("f", ts="2013-03-31 03:00"), _row("g", ts="no")],
        ),
    ],
    "groups": [
        ({"room": pa.string()}, [_row(room="1"), _row("b", room="hall")]),
        ({"room": pa.int64()}, [_row("c", room=1), _row("a", room=1)]),
        ({"room": pa.float64()}, [_row("d", room=1.0), _row("e", room=1.5)]),
    ],
}
TYPES = {"p": pa.string(), "ts": NAIVE, "kwh": pa.float64(), "room": pa.string()}
ASKED = (
    replace(BASE, local=LOCAL),
    replace(BASE, local=LOCAL, fold="sum", once=False),
    replace(COUNT, local=LOCAL),
    replace(BASE, local=LOCAL, fold="mean", weights={"7": 2, "a": 3, "9": 1, "0": 5, "c": 7}),
    replace(COUNT, local=LOCAL, group="room", groups=("hall", "1"), most_groups=2),
)


@pytest.mark.diagonal
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("what", MIXED)
def test_each_file_is_read_as_its_own_types_say(what: str, turned: bool, tmp_path: Path) -> None:
    files = MIXED[what][::-1] if turned else MIXED[what]
    for i, (types, part) in enumerate(files):
        schema = pa.schema({**TYPES, **types, f"only {i}": pa.int8()})  # what is not asked for may differ
        pq.write_table(pa.Table.from_pylist(part, schema=schema), tmp_path / f"{i}.parquet")
    engine = open_source(str(tmp_path / "*.parquet"))
    for question in ASKED:
        check(engine, [row for _, part in files for row in part], question)
    engine.close()


def test_files_of_one_schema_are_one_scan(tmp_path: Path) -> None:
    for i in range(4):
        kinds = TYPES if i < 3 else {**TYPES, "p": pa.int64()}
        pq.write_table(
            pa.Table.from_pylist([_row(i)] if i == 3 else [_row()], pa.schema(kinds)), tmp_path / f"{i}.parquet"
        )
    engine = open_source(str(tmp_path / "*.parquet"))
    assert isinstance(engine, DuckEngine)
    assert engine.columns()["p"] == "VARCHAR or BIGINT"
    assert len(engine._parts(["p", "ts"])) == 2
    assert len(engine._parts(["ts", "kwh"])) == 1
    engine.close()


def test_a_column_that_a_file_lacks_is_refused_with_its_name(tmp_path: Path) -> None:
    table = pa.Table.from_pylist([_row()], pa.schema(TYPES))
    for i, found in enumerate((table, table.drop_columns(["kwh"]), table.append_column("more", [[1]]))):
        pq.write_table(found, tmp_path / f"{i}.parquet")
    engine = open_source(str(tmp_path / "*.parquet"))
    with pytest.raises(InvalidInput, match=r"1\.parquet has no column 'kwh'"):
        engine.aggregate(BASE)
    with pytest.raises(InvalidInput, match=r"0\.parquet has no column 'more'"):
        engine.aggregate(replace(BASE, value="more"))
    with pytest.raises(InvalidInput, match="did you mean"):
        engine.aggregate(replace(BASE, value="mor"))
    assert engine.aggregate(COUNT).tallies["rows"] == 3
    engine.close()


# ------------------------------------------------------------------------------------------------------ large numbers

LARGE = 2**40


def large(rows: Rows, questions: Iterable[Question]) -> None:
    """Ask both engines, and the reference; frames of three libraries, which are added up by the same lines, in turn."""
    table = pa.Table.from_pylist(rows, schema=pa.schema(TYPES))
    duck, frames = (
        open_arrow(table),
        (open_source(pl.from_arrow(table)), open_source(table.to_pandas()), open_frame(table)),
    )
    for question, frame in zip(questions, itertools.cycle(frames), strict=False):
        wanted = reference.aggregate(rows, question)
        compare(duck, question, wanted)
        compare(frame, question, wanted)
    for engine in (duck, *frames):
        engine.close()


@pytest.mark.diagonal
@pytest.mark.parametrize("fold", ["sum", "mean", "last", "max"])
@pytest.mark.parametrize("sign", [1, -1])
def test_totals_beyond_64_bits_are_clipped(fold: Any, sign: int) -> None:
    rows = [_row(f"p{i}", kwh=sign * 1e300) for i in range(9)] + [_row("q", kwh=-sign * 1e300), _row("r", kwh=3.25)]
    rows += [_row(f"p{i}", SPRING + datetime.timedelta(seconds=j), -3.0 * i) for i in range(9) for j in range(3)]
    wide = replace(BASE, fold=fold, low=-LARGE, high=LARGE, baseline=-LARGE)
    asked = [wide]
    for heaviest in (1, 2**20 + 1, 2**21, 2**39 + 5, 2**40):
        weights = {f"p{i}": heaviest - i for i in range(9)} | {"q": -heaviest, "r": 1}
        asked += [
            replace(wide, weights=weights),
            replace(wide, weights={p: -w for p, w in weights.items()}, baseline=0),
        ]
    large(rows, asked)


@pytest.mark.soak
@pytest.mark.parametrize("value", keep([1e300, -1e300], lambda value: value > 0))
def test_no_number_of_readings_overflows_a_sum(value: float) -> None:
    """Nor a mean, as the next test says: it adds up the same."""
    many = 2**23 + 5  # of 2⁴⁰ each: beyond 2⁶³
    columns = {"p": np.zeros(many, np.int64), "ts": np.zeros(many, np.int64), "kwh": np.full(many, value)}
    question = replace(BASE, time="ts", epoch="us", fold="sum", once=False, low=-LARGE, high=LARGE - 1)
    question = replace(question, first=question.buckets.step(0), last=question.buckets.step(0))
    wanted = question.high if value > 0 else question.low
    for engine in (open_source(pl.DataFrame(columns)), open_arrow(pa.table(columns))):
        answer = engine.aggregate(question)
        assert answer.sums.ravel().tolist() == [wanted]
        assert answer.tallies["clipped_readings"] == many
        assert answer.tallies["clipped"] == 1
        engine.close()


BLOCKS = {
    "duckdb": (2**23 + 5, lambda columns: open_arrow(pa.table(columns))),
    "frames": (2**22 + 5, lambda columns: open_source(pl.DataFrame(columns))),
}


@pytest.mark.parametrize(
    ("engine", "fold", "sign"),
    keep(
        itertools.product(BLOCKS, ("sum", "mean"), (1, -1)),
        lambda engine, fold, sign: (engine, fold, sign) in (("duckdb", "mean", -1), ("frames", "sum", 1)),
    ),
)
def test_a_fold_that_leaves_64_bits_on_the_way_is_exact(engine: str, fold: Any, sign: int) -> None:
    """Half of the readings 2⁴⁰ and half −2⁴⁰, in blocks, so that what is added of one block is beyond 2⁶³; and 7 more units.

    DuckDB adds readings as they are, so a block takes 2²³; frames add them less the least, up to 2⁴¹, so it takes 2²².
    """
    question = replace(BASE, time="ts", epoch="us", fold=fold, once=False, multiply=1, low=-9, high=9)
    question = replace(question, first=question.buckets.step(0), last=question.buckets.step(0))
    many, opened = BLOCKS[engine]
    kwh = np.r_[np.full(many, sign * 1e300), np.full(many, -sign * 1e300), [7.0]]
    source = opened({"p": np.zeros(len(kwh), np.int64), "ts": np.zeros(len(kwh), np.int64), "kwh": kwh})
    answer = source.aggregate(question)
    assert answer.sums.ravel().tolist() == [7 if fold == "sum" else 0]
    assert (answer.tallies["clipped_readings"], answer.tallies["clipped"]) == (2 * many, 0)
    source.close()


@pytest.mark.diagonal
@pytest.mark.parametrize("fold", ["sum", "mean", "first", "last", "min", "max"])
@pytest.mark.parametrize("bounds", [(-LARGE, LARGE), (-LARGE, 5), (3, LARGE), (-2500, 2500)])
def test_readings_beyond_a_persons_bounds_are_folded_as_they_are(fold: Any, bounds: tuple[int, int]) -> None:
    """Peaks of either sign around a small mean, numbers that no double holds exactly once added, infinity and NaN among them."""
    least, most = bounds
    days = {
        "peaks": [9.0, -8.0, 0.2, 0.1], "large": [1e9, -1e9, 2.0], "huge": [1e300, -1e300, 1.0], "half": [0.0005, 0.001],
        "odd": [3e8 + 0.001, -3e8, 0.5], "bad": [float("inf"), None, float("nan"), 1.5], "one": [-1e300], "none": [None],
    }  # fmt: skip
    rows = [
        _row(p, SPRING + datetime.timedelta(seconds=j // 2), x) for p, day in days.items() for j, x in enumerate(day)
    ]
    for once in (True, False):
        question = replace(BASE, fold=fold, once=once, low=0, high=2000, least=least, most=most)
        weighted = replace(question, weights={"peaks": -3, "large": 2**39, "odd": 5}, baseline=17)
        large(rows, [question, weighted, replace(question, kind="histogram", edges=(0, 1, 300, 2000))])


# ----------------------------------------------------------------------------------------------------------- scratch files

KILLED = """
import os, signal, sys
sys.path[:0] = sys.argv[3:]
from pathlib import Path
from engines.test_engines import BASE
from halflife.engines import open_source
engine = open_source(sys.argv[1], scratch=Path(sys.argv[2]))
assert engine.aggregate(BASE).sums.any()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_process_leaves_no_readings_and_its_folder_is_swept(tmp_path: Path) -> None:
    rows = [f"patient-{i},2013-03-30 00:{i % 60:02}:00,{i}.5" for i in range(50_000)]
    (tmp_path / "a.csv").write_text("p,ts,kwh\n" + "\n".join(rows))
    place = tmp_path / "scratch"
    place.mkdir()
    others = [place / f"{PREFIX}1-alive", place / f"{PREFIX}x", place / f"{PREFIX}99999999-", place / "mine"]
    for other in others:
        other.mkdir()
    code = [sys.executable, "-c", KILLED, str(tmp_path / "a.csv"), str(place), *sys.path]
    assert subprocess.run(code, check=False, timeout=120).returncode == -signal.SIGKILL
    (left,) = set(place.iterdir()) - set(others)
    assert not any(b"patient" in file.read_bytes() for file in left.rglob("*") if file.is_file())
    assert sum(file.stat().st_size for file in left.rglob("*") if file.is_file() and file.name != "lock") == 0
    engine = open_source(tmp_path / "a.csv", scratch=place)
    assert not left.exists()
    (own,) = set(place.iterdir()) - set(others)
    assert own.name.startswith(f"{PREFIX}{os.getpid()}-")
    assert stat.S_IMODE(own.stat().st_mode) == 0o700
    second = open_source(tmp_path / "a.csv", scratch=place)  # does not sweep a living one
    assert engine.aggregate(BASE).sums.tolist() == second.aggregate(BASE).sums.tolist()
    engine.close()
    second.close()
    assert set(place.iterdir()) == set(others)


def test_a_folder_whose_lock_is_held_is_not_swept(tmp_path: Path) -> None:
    import fcntl

    elsewhere, dead = tmp_path / f"{PREFIX}99999999-a", tmp_path / f"{PREFIX}99999999-b"
    for folder in (elsewhere, dead):
        folder.mkdir()
        (folder / "lock").write_bytes(OURS)
    (tmp_path / f"{PREFIX}99999999-c").symlink_to(elsewhere)
    with open(elsewhere / "lock", "rb") as file:  # of a process of another container, whose number means nothing here
        fcntl.flock(file, fcntl.LOCK_EX)
        open_arrow(pa.table({"p": ["a"]}), scratch=tmp_path).close()
    assert elsewhere.exists()
    assert not dead.exists()
    assert (tmp_path / f"{PREFIX}99999999-c").is_symlink()
    with pytest.raises(InvalidInput, match="no folder"):
        open_arrow(pa.table({"p": ["a"]}), scratch=tmp_path / "none")


# ----------------------------------------------------------------------------------------------------- wide and odd columns


@pytest.mark.parametrize("extra", [0, 1, 998, 999, 1200])
def test_a_csv_of_many_columns(extra: int, tmp_path: Path) -> None:
    names = ["p", *(f"x{i}" for i in range(extra)), "ts", "kwh"]
    middle = [[""] * extra, ["1"] * extra, ['"q"'] * extra, ['"a,""b"""'] * extra]
    lines = [",".join((f'"p{i}"' if i % 2 else f"p{i}", *cells, "2013-03-30", "1")) for i, cells in enumerate(middle)]
    lines += [",".join(('"a,b"', *middle[1], "2013-03-30")), ",".join(('"a,b"', *middle[1], "2013-03-30", "1", "2"))]
    lines += [",".join(('"a,b"', *middle[0], "2013-03-30", '"2"'))]
    (tmp_path / "a.csv").write_text(",".join(names) + "\n" + "\n".join(lines) + "\n")
    engine = open_source(tmp_path / "a.csv")
    answer = engine.aggregate(replace(BASE, weights={"p0": 1, "p1": 10, "p2": 100, "p3": 1000, "a,b": 10_000}))
    assert answer.sums[0, 0, 0] == 1000 * (1 + 10 + 100 + 1000) + 2000 * 10_000
    assert (answer.tallies["rows"], answer.tallies["bad_time"], answer.tallies["unknown_person"]) == (7, 2, 0)
    engine.close()


def test_types_that_duckdb_does_not_know() -> None:
    cells = [decimal.Decimal("1.25"), None, decimal.Decimal("-3"), decimal.Decimal(10) ** 45]
    table = pa.table({"p": ["a", "b", "c", "d"], "ts": [SPRING] * 4, "kwh": pa.array(cells, pa.decimal256(60, 2))})
    rows = [_row(p, SPRING, None if x is None else float(x)) for p, x in zip("abcd", cells, strict=True)]
    for engine in (open_arrow(table), open_arrow(table.to_reader()), open_frame(table)):
        check(engine, rows, BASE)
        engine.close()
    halves = table.set_column(2, "kwh", pa.array(np.array([1.25, np.nan, -3, np.inf], np.float16)))
    check(open_arrow(halves), [_row(p, SPRING, x) for p, x in zip("abcd", (1.25, None, -3.0, None), strict=True)], BASE)
    nested = table.append_column("l", pa.nulls(4, pa.list_(pa.decimal256(60, 2))))
    with pytest.raises(InvalidInput, match="type that DuckDB cannot read"):
        open_arrow(nested)
