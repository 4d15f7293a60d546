"""Spark's answers are those of every engine; what it reads, what leaves the cluster, and what it says when it fails."""

from __future__ import annotations

import csv
import datetime
import json
import logging
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import halflife as hl
from engines.sources import SOURCES
from engines.test_engines import (
    BASE,
    COUNT,
    DATA,
    GROUPS,
    LOCAL,
    QUESTIONS,
    SPRING,
    check,
    compare,
    wanted,
)
from engines.test_hostile import LARGE, MIXED, TYPES, _row, _said, bad_texts, bytes_as_text
from engines.test_inspection import check as check_inspection
from halflife import InvalidInput
from halflife.cli import main
from halflife.engines import open_source
from halflife.engines.spark.engine import SparkEngine
from halflife.engines.spark.session import connect
from halflife.errors import Interrupted, SourceUnreachable
from halflife.steps import Steps

ASKED = ("mean-units-weights", "sum-units-groups", "events-good-once", "last-groups-1")
"""Questions of shapes that are not asked of every source."""


def opened(spark: Any, rows: list[dict[str, Any]], folder: Path, types: dict[str, Any] | None = None) -> SparkEngine:
    """Rows behind Spark, by way of a file: what it makes of a frame of this machine depends on the session's zone."""
    pq.write_table(pa.Table.from_pylist(rows, schema=pa.schema({**TYPES, **(types or {})})), folder / "rows.parquet")
    engine = open_source(spark.read.parquet(str(folder / "rows.parquet")))
    assert isinstance(engine, SparkEngine)
    return engine


# ------------------------------------------------------------------------------------------------- the same whole numbers


@pytest.mark.parametrize("setting", [
    {"spark.sql.ansi.enabled": "false"}, {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"},
    {"spark.sql.parser.escapedStringLiterals": "true", "spark.sql.caseSensitive": "true", "spark.sql.adaptive.enabled": "false"},
], ids=lambda setting: next(iter(setting)).split(".")[2])  # fmt: skip
def test_no_setting_of_a_session_changes_an_answer(spark: Any, setting: dict[str, str], tmp_path: Path) -> None:
    session = spark.newSession()
    for key, value in setting.items():
        session.conf.set(key, value)
    for data, names in (
        ("typed", ("sum-units-groups",)),
        ("text", ("last-days",)),
        ("written", ("%a %b %d %H:%M:%S %z %Y",)),
    ):
        pq.write_table(pa.Table.from_pylist(*DATA[data]), tmp_path / f"{data}.parquet")
        engine = open_source(session.read.parquet(str(tmp_path / f"{data}.parquet")))
        for name in names:
            compare(engine, QUESTIONS[data][name], wanted(data, name))


@pytest.mark.parametrize("name", ASKED)
def test_questions_of_every_shape(spark: Any, name: str, tmp_path: Path) -> None:
    engine = SOURCES["spark_frame"](*DATA["typed"], tmp_path)
    compare(engine, QUESTIONS["typed"][name], wanted("typed", name))


def test_totals_beyond_64_bits_are_clipped(spark: Any, tmp_path: Path) -> None:
    rows = [_row(f"p{i}", kwh=1e300) for i in range(9)] + [_row("q", kwh=-1e300), _row("r", kwh=3.25)]
    rows += [_row(f"p{i}", SPRING + datetime.timedelta(seconds=j), -3.0 * i) for i in range(9) for j in range(3)]
    engine = opened(spark, rows, tmp_path)
    for fold, heaviest, baseline in (
        ("max", 2**40, -LARGE),
        ("sum", 2**39 + 5, 0),
        ("last", 2**20 + 1, 17),
        ("mean", 1, -LARGE),
    ):
        weights = {f"p{i}": heaviest - i for i in range(9)} | {"q": -heaviest, "r": 1}
        question = replace(BASE, fold=fold, low=-LARGE, high=LARGE, baseline=baseline, weights=weights)
        check(engine, rows, question)
    check(engine, rows, replace(BASE, fold="max", low=-LARGE, high=LARGE, baseline=-LARGE))


@pytest.mark.soak
@pytest.mark.parametrize(("fold", "total"), [("sum", 7), ("mean", 0)])
def test_a_fold_that_leaves_64_bits_on_the_way_is_exact(spark: Any, fold: Any, total: int) -> None:
    """Half of 2²⁴ readings 2⁴⁰ and half −2⁴⁰, so that a sum of one half is beyond 2⁶³; and 7 more units."""
    many = 2**23 + 5
    kwh = f"CASE WHEN id < {many} THEN 1E300D WHEN id < {2 * many} THEN -1E300D ELSE 7D END AS kwh"
    frame = spark.range(2 * many + 1).selectExpr("0 AS p", "0L AS ts", kwh)
    question = replace(BASE, epoch="us", once=False, multiply=1, low=-9, high=9)
    question = replace(question, first=question.buckets.step(0), last=question.buckets.step(0))
    answer = open_source(frame).aggregate(replace(question, fold=fold))
    assert answer.sums.ravel().tolist() == [total]
    assert (answer.tallies["clipped_readings"], answer.tallies["clipped"]) == (2 * many, 0)


@pytest.mark.parametrize(("fold", "most"), [("sum", LARGE), ("last", 2500)])
def test_readings_beyond_a_persons_bounds_are_folded_as_they_are(
    spark: Any, fold: Any, most: int, tmp_path: Path
) -> None:
    days = {
        "peaks": [9.0, -8.0, 0.2, 0.1], "large": [1e9, -1e9, 2.0], "huge": [1e300, -1e300, 1.0], "half": [0.0005, 0.001],
        "odd": [3e8 + 0.001, -3e8, 0.5], "bad": [float("inf"), None, float("nan"), 1.5], "one": [-1e300], "none": [None],
    }  # fmt: skip
    rows = [
        _row(p, SPRING + datetime.timedelta(seconds=j // 2), x) for p, day in days.items() for j, x in enumerate(day)
    ]
    engine = opened(spark, rows, tmp_path)
    question = replace(BASE, fold=fold, low=0, high=2000, least=-most, most=most)
    check(engine, rows, replace(question, once=False))
    check(engine, rows, replace(question, kind="histogram", edges=(0, 1, 300, 2000)))


def test_a_cell_that_is_no_text_is_a_bad_row(spark: Any, tmp_path: Path) -> None:
    rows = bad_texts()
    pq.write_table(
        pa.table({c: bytes_as_text([row[c] for row in rows], pa.string()) for c in rows[0]}), tmp_path / "a.parquet"
    )
    expected = [{c: None if isinstance(cell, bytes) else cell for c, cell in row.items()} for row in rows]
    engine = open_source([str(tmp_path / "a.parquet")], engine="spark")
    check(engine, expected, replace(BASE, fold="sum", once=False, high=10**9))
    check(engine, expected, replace(COUNT, group="room", groups=GROUPS))


@pytest.mark.parametrize("what", ["persons", "groups"])
def test_whole_numbers_and_floats_name_people_and_groups(spark: Any, what: str, tmp_path: Path) -> None:
    types, rows = MIXED[what][1 if what == "persons" else 2]
    engine = opened(spark, rows, tmp_path, types)
    check(engine, rows, replace(BASE, local=LOCAL, weights={"7": 2, "a": 3, "0": 5, "d": 1, "e": 1}))
    check(engine, rows, replace(COUNT, group="room", groups=("hall", "1"), most_groups=2))


def test_columns_of_odd_types(spark: Any) -> None:
    """Decimals, numbers without a sign, booleans, dates and text of a collation that takes ann for ANN."""
    frame = spark.sql(
        "SELECT p COLLATE UTF8_LCASE AS p, DATE'2013-03-30' AS day, CAST(x AS DECIMAL(30,18)) AS x, x > 1 AS yes, "
        "CAST(i AS DECIMAL(20,0)) AS id, CAST(x AS FLOAT) AS f FROM VALUES ('ann', 1.5, 18446744073709551615), "
        "('ANN', 2.25, 18446744073709551614), ('bob', -3, 9007199254740993), (NULL, 1, NULL) AS t(p, x, i)"
    )
    engine = open_source(frame)
    people = {"ann": 1, "ANN": 10, "bob": 100}
    ids = {"18446744073709551615": 1, "18446744073709551614": 10, "9007199254740993": 100}
    for value, expected, person, weights in (
        ("x", 1500 + 22_500 - 200_000, "p", people),
        ("f", 1500 + 22_500 - 200_000, "id", ids),
        ("yes", 1000 + 10_000, "id", ids),
    ):
        answer = engine.aggregate(replace(BASE, person=person, time="day", value=value, weights=weights, high=9000))
        assert answer.sums[0].item() == expected, value
        assert answer.tallies["bad_person"] == 1


def test_a_cell_of_a_million_digits_holds_nobody_up(spark: Any) -> None:
    digits = "repeat('1', 1000000)"
    cells = f"concat({digits}, 'x'), {digits}, concat('0.', {digits}), concat({digits}, '.'), concat(repeat(' ', 1000000), '1')"
    frame = spark.sql(f"SELECT 'a' AS p, '2013-03-30' AS ts, explode(array({cells})) AS kwh")
    answer = open_source(frame).aggregate(replace(BASE, fold="sum", once=False))
    assert (answer.sums.sum(), answer.tallies["bad_value"]) == (111 + 1000, 3)


# ------------------------------------------------------------------------------------------------ what is read, and leaves


def write_days(folder: Path) -> Path:
    """Three days of readings, each in a file of its own, which says in its folder's name which region it is."""
    for day in range(3):
        rows = [
            {"p": f"secret-{i}", "ts": SPRING + datetime.timedelta(days=day, minutes=4 * i), "kwh": i / 7, "room": GROUPS[i % 3]}
            | {"other": "x"}
            for i in range(60)
        ]  # fmt: skip
        place = folder / f"region=0{day}"
        place.mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist(rows), place / "a.parquet")
    return folder


def test_spark_reads_asked_columns_of_asked_steps_and_sends_totals_alone(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyspark.sql.classic.dataframe import DataFrame

    engine = open_source([str(write_days(tmp_path))], "parquet", engine="spark")
    assert isinstance(engine, SparkEngine)
    hours = Steps.of("1 h", SPRING.isoformat()).buckets(0, 2**60)
    question = replace(BASE, buckets=hours, first=2, last=2, group="room", groups=GROUPS)
    made: list[Any] = []
    monkeypatch.setattr(DataFrame, "toArrow", lambda frame, _made=DataFrame.toArrow: made.append(frame) or _made(frame))
    assert engine.aggregate(question).sums.any()
    assert len(made) == 1
    plan = str(made[0]._jdf.queryExecution().toString())
    (schema,) = {line.split("ReadSchema: ")[1] for line in plan.splitlines() if "ReadSchema: " in line}
    assert schema == "struct<p:string,ts:timestamp_ntz,kwh:double,room:string>"
    assert "GreaterThanOrEqual(ts,2013-03-31T01:00)" in plan.split("PushedFilters: ")[1]
    assert "LessThanOrEqual(ts,2013-03-31T01:59:59.999999)" in plan.split("PushedFilters: ")[1]
    columns = plan.split("== Analyzed Logical Plan ==\n")[1].split("\n", maxsplit=1)[0]
    assert columns.startswith("level: bigint, k: bigint, g: bigint, b: int, total: bigint, rows: bigint, ")
    assert not {"p", "id", "us", "x", "u"} & {column.split(":")[0] for column in columns.split(", ")}


def test_a_folder_that_states_a_column_is_passed_over_where_it_cannot_count(spark: Any, tmp_path: Path) -> None:
    for day in ("2013-03-30", "2013-03-31", "none"):
        place = tmp_path / f"day={day}"
        place.mkdir()
        pq.write_table(pa.table({"p": ["a", "b"], "kwh": [1.0, 2.0]}), place / "a.parquet")
    engine = open_source([str(tmp_path)], "parquet", engine="spark")
    assert isinstance(engine, SparkEngine)
    days = Steps.of("1 day", "2013-03-30").buckets(0, 2**60)
    question = replace(BASE, time="day", buckets=days, first=2, last=2)
    answer = engine.aggregate(question)
    assert (answer.sums.item(), answer.tallies["rows"], answer.tallies["bad_time"]) == (3000, 4, 2)
    region = open_source([str(write_days(tmp_path / "more"))], "parquet", engine="spark")
    counts = region.aggregate(replace(COUNT, last=400, group="region", groups=("0", "00", "02")))
    assert counts.sums.sum(axis=(0, 2)).tolist() == [0, 60, 60]  # as text: 00 is not 0


@pytest.fixture
def collected(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """All that a driver is sent of frames, as text."""
    from pyspark.sql.classic.dataframe import DataFrame

    seen: list[str] = []

    def spy(how: str) -> None:
        made = getattr(DataFrame, how)

        def collect(frame: Any, *given: Any, **named: Any) -> Any:
            found = made(frame, *given, **named)
            seen.append(str(found.to_pylist() if hasattr(found, "to_pylist") else found))
            return found

        monkeypatch.setattr(DataFrame, how, collect)

    for how in ("toArrow", "collect", "toPandas", "toLocalIterator", "take", "head", "first", "tail"):
        spy(how)
    return seen


def test_nothing_about_one_person_reaches_the_driver(spark: Any, collected: list[str], tmp_path: Path) -> None:
    engine = open_source([str(write_days(tmp_path / "days"))], "parquet", engine="spark")
    question = replace(BASE, last=40, group="room", groups=GROUPS, weights={f"secret-{i}": 1 for i in range(0, 60, 2)})
    answer = engine.aggregate(question)
    assert answer.sums.any()
    assert collected[0].count("'level': 0") == np.count_nonzero(answer.sums)
    assert collected[0].count("'rows': None") == np.count_nonzero(answer.sums)
    assert collected[0].count("'level': 7") == 1
    engine.inspect(question)
    assert engine.typical_number("kwh") is not None
    rows = [{"p": f"secret-{i}", "ts": "31 März 13", "kwh": "12,5", "room": "x"} for i in range(9)]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "text.parquet")
    text = open_source([str(tmp_path / "text.parquet")], engine="spark")
    assert set(text.bad_cells(BASE, "value")) == {"99,9"}
    assert set(text.bad_cells(BASE, "time")) == {"99 aaaa 99"}
    lines = tmp_path / "lines.csv"
    lines.write_text("secret-1,2013-03-30,1\nsecret-2,2013-03-30,2\n")
    headless = open_source([f"file://{lines}"], "csv", columns=["p", "ts", "kwh"], engine="spark")
    assert headless.aggregate(BASE).sums.sum() == 3000
    assert len(collected) >= 9
    assert not any("secret" in found for found in collected)


@pytest.mark.parametrize("name", ["last-groups-2", "mean-units-weights"])
def test_every_count_of_a_look_is_that_of_brute_force(spark: Any, name: str, tmp_path: Path) -> None:
    rows, schema = DATA["typed"]
    check_inspection(SOURCES["spark_frame"](rows, schema, tmp_path), rows, QUESTIONS["typed"][name])


# --------------------------------------------------------------------------------------------------------- lines of CSV


def test_a_broken_line_is_one_bad_row_and_touches_no_other(spark: Any, tmp_path: Path) -> None:
    broken = [
        b'"eve,2013-03-30,1',
        b"bob,2013-03-30",
        b"bob,2013-03-30,1,1",
        b"bob\xff,2013-03-30,1",
        b'bob,"2013-03-30"x,1',
        b"\x00",
    ]
    lines = [b"p,ts,kwh", b"ann,2013-03-30,1"]
    for i, line in enumerate(broken):
        lines += [line, b'"p%d, ""x""",2013-03-30 00:30,2' % i, b""]
    (tmp_path / "a.csv").write_bytes(b"\xef\xbb\xbf" + b"\n".join(lines) + b"\r\nzoe,2013-03-30,3\r\n")
    weights = {"ann": 1, "zoe": 1, **{f'p{i}, "x"': 1 for i in range(len(broken))}}
    question = replace(BASE, weights=weights)
    engine = open_source([f"file://{tmp_path}/*.csv"], engine="spark")
    answer, expected = engine.aggregate(question), open_source(tmp_path / "a.csv").aggregate(question)
    assert np.array_equal(answer.sums, expected.sums)
    assert answer.tallies == expected.tallies
    (tmp_path / "a.csv").write_bytes(b"p,ts,kwh\nann,2013-03-30," + b" " * 2**22 + b"1\nzoe,2013-03-30,3\n")
    passed = open_source([f"file://{tmp_path}/a.csv"], engine="spark").aggregate(question)
    assert (passed.sums.sum(), passed.tallies["rows"]) == (3000, 1)


@pytest.mark.parametrize(("delimiter", "named"), [(";", False), ("|", True)])
def test_the_delimiter_is_the_headers_or_as_the_policy_says(
    spark: Any, delimiter: str, named: bool, tmp_path: Path
) -> None:
    lines = [delimiter.join(("p", "ts", "kwh"))] if named else []
    lines += [delimiter.join((f'"a,{delimiter}{i}"', "2013-03-30", "1,5" if i else "1.5")) for i in range(3)]
    (tmp_path / "a.csv").write_text("\n".join(lines))
    (tmp_path / "empty.csv").write_text("" if not named else lines[0])
    said: dict[str, Any] = {} if named else {"columns": ["p", "ts", "kwh"], "delimiter": delimiter}
    engine = open_source([f"file://{tmp_path}/*.csv"], engine="spark", **said)
    answer = engine.aggregate(replace(BASE, weights={f"a,{delimiter}{i}": 1 for i in range(3)}))
    assert (answer.sums.sum(), answer.tallies["bad_value"], answer.tallies["rows"]) == (1500, 2, 3)


def test_files_of_csv_that_do_not_go_together_are_refused(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("p,ts,kwh\na,2013-03-30,1\n")
    (tmp_path / "b.csv").write_text("p,kwh,ts\na,1,2013-03-30\n")
    with pytest.raises(InvalidInput, match="differ in their columns"):
        open_source([f"file://{tmp_path}/*.csv"], engine="spark")
    (tmp_path / "c.csv").write_text("")
    with pytest.raises(InvalidInput, match="first line with the names"):
        open_source([f"file://{tmp_path}/c.csv"], engine="spark")


# ----------------------------------------------------------------------------------------- tables, refusals and failures


def test_a_table_of_the_catalog(spark: Any, tmp_path: Path) -> None:
    rows, schema = DATA["aware"]
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), tmp_path / "a.parquet")
    spark.sql("CREATE DATABASE IF NOT EXISTS town")
    spark.read.parquet(str(tmp_path / "a.parquet")).write.mode("overwrite").saveAsTable("town.readings")
    engine = open_source([], table="town.readings", engine="spark")
    compare(engine, QUESTIONS["aware"]["last"], wanted("aware", "last"))
    with pytest.raises(InvalidInput, match=r"unknown table of the catalog 'readingz'"):
        open_source([], table="readingz", engine="spark")
    spark.sql("CREATE VIEW town.shown AS SELECT CAST(p AS INT) AS p, ts FROM town.readings")
    with pytest.raises(InvalidInput, match=r"town\.shown is a view"):
        open_source([], table="town.shown", engine="spark")
    spark.sql("DROP DATABASE town CASCADE")


def test_what_cannot_be_read_is_refused_with_its_name(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "bad.parquet").write_text("no")
    pq.write_table(pa.table({"ts": pa.array([1], pa.timestamp("ns"))}), tmp_path / "fine.parquet")
    for paths, said in (
        (["file:///none/*.parquet"], r"no such file: file:///none"), (["file:///x"], "format of file:///x is unclear"),
        (["hdfs://127.0.0.1:9/x.parquet"], r"hdfs.*cannot be opened \(ConnectException\)"),
        ([str(tmp_path / "bad.parquet")], r"bad\.parquet cannot be opened \("),
        ([str(tmp_path / "fine.parquet")], r"fine\.parquet cannot be opened \(PARQUET_TYPE_ILLEGAL\)"),
    ):  # fmt: skip
        with pytest.raises(InvalidInput, match=said):
            open_source(paths, engine="spark")
    engine = opened(spark, [_row()], tmp_path)
    for change, said in [
        ({"value": "kw"}, "did you mean 'kwh'"), ({"epoch": "s"}, "needs numbers"), ({"value": "ts"}, "a value is"),
        ({"person": "kwh", "time": "room", "time_format": "%Y-%m-%d", "value": "ts"}, "a value is"),
        ({"time": "kwh"}, "say epoch"), ({"time_format": "%Y-%m-%d"}, "about text"),
        ({"group": "ts", "groups": ("x",)}, "a group is"),
    ]:  # fmt: skip
        for ask in (engine.check, engine.aggregate):
            with pytest.raises(InvalidInput, match=said):
                ask(replace(BASE, **change))
    with pytest.raises(InvalidInput, match="no Spark data frame"):
        open_source(spark.sparkContext)


def test_a_failure_quotes_no_cell(
    spark: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    logged: list[logging.LogRecord] = []
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        monkeypatch.setattr(logging.getLogger(name), "handle", logged.append)
    frame = spark.sql(
        "SELECT 'a' AS p, TIMESTAMP_NTZ'2013-03-30' AS ts, CAST(concat('secret-', id) AS INT) AS kwh FROM range(3)"
    )
    with pytest.raises(
        InvalidInput, match=r"the Spark data frame cannot be read to its end \(CAST_INVALID_INPUT\)"
    ) as caught:
        open_source(frame).aggregate(BASE)
    assert "secret" not in _said(caught.value) + "".join(capfd.readouterr())
    assert not logged
    table = pa.table({"p": ["secret"] * 3, "ts": ["2013-03-30"] * 3, "kwh": [1.0] * 3})
    pq.write_table(table, tmp_path / "a.parquet", compression="none", use_dictionary=False)
    raw = bytearray((tmp_path / "a.parquet").read_bytes())
    raw[4:24] = b"\xff" * 20
    (tmp_path / "a.parquet").write_bytes(raw)
    with pytest.raises(InvalidInput, match=r"a\.parquet cannot be read to its end") as caught:
        open_source([str(tmp_path / "a.parquet")], engine="spark").aggregate(BASE)
    assert "secret" not in _said(caught.value) + "".join(capfd.readouterr())


def test_an_interrupt_cancels_the_job(spark: Any) -> None:
    frame = spark.range(0, 10**11, 1, 4).selectExpr("id AS p", "id AS ts", "id AS kwh")
    engine = open_source(frame)
    caught: list[BaseException] = []

    def ask() -> None:
        try:
            engine.aggregate(replace(BASE, epoch="us", last=10**6, fold="last", once=False))
        except Interrupted as error:
            caught.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    while not spark.sparkContext.statusTracker().getActiveStageIds():
        time.sleep(0.05)
    assert engine.progress()[0] == "reading"
    while asking.is_alive():
        engine.interrupt()
        asking.join(0.2)
    assert [str(error) for error in caught] == ["the Spark data frame: reading was broken off"]
    while spark.sparkContext.statusTracker().getActiveJobsIds():
        time.sleep(0.05)


def test_a_session_of_another_cluster_or_of_connect_is_refused(spark: Any) -> None:
    with pytest.raises(InvalidInput, match=r"has a Spark session on local\[1\] already"):
        connect("spark://127.0.0.1:9")
    connected = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    frame = type("DataFrame", (), {"__module__": "pyspark.sql.connect.dataframe", "sparkSession": connected})()
    with pytest.raises(InvalidInput, match="Spark Connect"):
        open_source(frame)


@pytest.mark.parametrize(
    ("given", "environment", "expected"),
    [("yarn", "k8s://x", "yarn"), (None, "k8s://x", "k8s://x"), (None, None, None)],
)
def test_the_master_is_the_policys_else_the_environments(
    monkeypatch: pytest.MonkeyPatch, given: str | None, environment: str | None, expected: str | None
) -> None:
    from pyspark import SparkContext

    from halflife.engines.spark import session

    class Started(Exception):
        pass

    def start(builder: Any, master: str | None) -> None:
        raise Started(master)

    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    monkeypatch.setattr(session, "_start", start)
    if environment is not None:
        monkeypatch.setenv("SPARK_MASTER", environment)
    with pytest.raises(Started) as caught:
        connect(given)
    assert caught.value.args == (expected,)


def test_without_java_or_pyspark_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark import SparkContext

    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(SourceUnreachable, match="openjdk-17-jre-headless"):
        connect(None)
    monkeypatch.setitem(__import__("sys").modules, "pyspark", None)
    with pytest.raises(hl.HalflifeError, match=r"halflife\[spark\]"):
        connect(None)


# ------------------------------------------------------------------------------------------------------------ publishing

POLICY: dict[str, Any] = {
    "population": {"id": "town", "size": 60, "person": "p"},
    "promise": {"notion": "w-event", "epsilon": 1e6, "w": 1},
    "clock": {"step": "1 h", "start": "2013-03-31", "end": "2013-04-03"},
    "streams": [
        {
            "name": "use",
            "source": {"time": "ts", "value": "kwh", "files": "days/*/*.parquet", "zone": "Europe/London"},
            "statistic": {"kind": "sum", "unit": "kWh", "resolution": "1 Wh", "clip": ["0", "5 kWh"], "fold": "sum"},
            "groups": {"names": list(GROUPS), "most_per_person": 1, "sizes": dict.fromkeys(GROUPS, 60)},
            "output": "use.csv",
        }
    ],
}


def make_policy(folder: Path, name: str, **source: Any) -> dict[str, Any]:
    """A policy whose noise is nothing, so that outputs can be compared."""
    stream = POLICY["streams"][0]
    found = {**stream["source"], **source, "files": [str(folder / "days/*/*.parquet")], "group": "room"}
    groups = {key: stream["groups"][key] for key in ("names", "most_per_person")}
    (folder / name).mkdir(exist_ok=True)
    made = {**stream, "source": found, "groups": groups, "output": str(folder / name / "use.csv")}
    return {**POLICY, "streams": [made], "ledger": str(folder / name / "town.ledger")}


def published(file: Path) -> list[tuple[str, str, int]]:
    """When each step begins, and each group's value in whole units: the noise is far below one."""
    rows = csv.DictReader(file.read_text().splitlines())
    return [(row["start"], row["group"], round(float(row["value"]) * 1000)) for row in rows]


def test_a_policy_is_published_by_spark_and_from_a_frame_of_it(spark: Any, tmp_path: Path) -> None:
    write_days(tmp_path / "days")
    policy = make_policy(tmp_path, "spark", engine="spark")
    hl.publish(policy)
    assert hl.verify(policy).problems == ()
    hl.publish(make_policy(tmp_path, "duckdb"))
    hl.publish(make_policy(tmp_path, "frame"), {"use": spark.read.parquet(str(tmp_path / "days"))})
    ours, theirs, framed = (published(tmp_path / name / "use.csv") for name in ("spark", "duckdb", "frame"))
    assert ours == theirs == framed
    assert any(value for _, _, value in ours)
    report = hl.check(policy)
    assert report.streams[0].found is not None
    assert report.streams[0].found.people == 60
    assert report.streams[0].files == ()


def test_a_dry_run_opens_the_source_and_to_follow_is_refused(spark: Any, tmp_path: Path) -> None:
    write_days(tmp_path / "days")
    file = tmp_path / "town.yaml"
    for value, status, said in (("kwh", 0, "use"), ("kw", 1, "did you mean 'kwh'")):
        file.write_text(json.dumps(make_policy(tmp_path, "spark", engine="spark", value=value)))
        done = CliRunner().invoke(main, ["publish", str(file), "--dry-run"])
        assert (done.exit_code, said in done.output) == (status, True), done.output
    done = CliRunner().invoke(main, ["publish", str(file), "--follow"])
    assert "read by a Spark cluster, which is not followed" in done.output
    assert not (tmp_path / "spark" / "town.ledger").exists()


@pytest.mark.parametrize(("source", "said"), [
    ({"files": "r.csv", "master": "yarn"}, "source.master: a master is a Spark cluster's"),
    ({"files": "hdfs://town/r.csv"}, "source.files.0: 'hdfs://town/r.csv' is not on this machine"),
    ({"engine": "spark"}, "source: where are the readings"),
    ({"engine": "spark", "files": "r.csv", "table": "r"}, "source: where are the readings"),
    ({"engine": "spark", "table": "r", "format": "csv"}, "source.format: a table of Spark's catalog"),
    ({"engine": "spark", "files": "s3a://town/readings"}, "source: Spark reads Parquet and CSV here: say `format"),
    ({"engine": "spark", "files": "r.db"}, "source: Spark reads Parquet and CSV here"),
    ({"engine": "spark", "files": "s3a://ann:secret@town/r.csv"}, "this address holds a password"),
    ({"engine": "spark", "table": "r", "database": "postgresql://h/d"}, "source.database: Spark reads"),
    ({"engine": "spark", "files": "out", "format": "csv"}, "the output of 'use': what was published would be read"),
    ({"engine": "spark", "files": "file:/tmp/{a,b}/*.csv"}, "the output of 'use': what was published would be read"),
])  # fmt: skip
def test_keys_that_do_not_fit_are_refused(source: dict[str, Any], said: str) -> None:
    output = "/tmp/b/use.csv" if "file:" in str(source) else "out/more/use.csv"
    stream = {**POLICY["streams"][0], "source": {"time": "ts", "value": "kwh", **source}, "output": output}
    stream.pop("groups")
    with pytest.raises(hl.HalflifeError) as caught:
        hl.Policy.from_dict({**POLICY, "streams": [stream]})
    assert said in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_path_of_the_cluster_is_never_looked_for_here() -> None:
    source = {"time": "ts", "value": "kwh", "engine": "spark", "files": ["abfss://town@acc.net/r.csv", "/data/*.csv"]}
    policy = hl.Policy.from_dict({**POLICY, "streams": [{**POLICY["streams"][0], "source": {**source, "group": "room"},
        "groups": {"names": ["a"], "most_per_person": 1}, "output": "x.csv"}]})  # fmt: skip
    found = policy.streams[0].source
    assert found is not None
    assert found.locate(policy.path) == ["abfss://town@acc.net/r.csv", "file:///data/*.csv"]
    assert [*found.list_local()] == [(1, "/data/*.csv"), (1, "/data/*.csv/**")]
