"""One test body for every engine and source: the answers and tallies of the plain-Python reference, bit for bit."""

from __future__ import annotations

import datetime
import math
import random
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines import reference
from engines.sources import SOURCES
from halflife import InvalidInput
from halflife.engines import Engine, Question, open_source
from halflife.engines.duckdb.engine import open_arrow, open_files
from halflife.local_time import naive_to_utc, parse_time, to_us
from halflife.steps import Buckets, Steps

LONDON = "Europe/London"
SPRING, AUTUMN = datetime.datetime(2013, 3, 31), datetime.datetime(2013, 10, 27)
YEAR = to_us(parse_time("2013-01-01")), to_us(parse_time("2014-01-01"))
LOCAL = naive_to_utc(LONDON, *YEAR)
DAYS = Steps.of("1 day", "2013-03-30", LONDON).buckets(*YEAR)
HOURS = Steps.of("2 h", "2013-03-30").buckets(*YEAR)
MONTHS = Steps.of("1 month", "2013-03-01", LONDON).buckets(*YEAR)
AUTUMN_STEP = HOURS.step(to_us(AUTUMN.replace(tzinfo=datetime.UTC)))
NAN, INF = float("nan"), math.inf

NUMBERS = [
    0.0,
    0.1,
    -0.3,
    0.5,
    1.5,
    2.5,
    -2.5,
    7.25,
    3.0,
    99.0,
    1e300,
    -1e300,
    1e308,
    NAN,
    INF,
    -INF,
    None,
    0.0005,
    1e-320,
]
NUMBER_TEXTS = [
    *(
        "1",
        "-.5",
        "+2.",
        " 3\t",
        "1e1",
        "2E-1",
        "007",
        "1e400",
        "1e-400",
        "nan",
        "inf",
        "-Infinity",
        "1_000",
        "0x10",
        "1,5",
    ),
    *("", " ", None, "--1", "1e", ".", "1 2", "½", "٣", "12.5", '4"2', "true", "5\u00a0"),
]
TIME_TEXTS = [
    *("2013-03-31", "2013-03-31T00:30", "2013-03-31 01:30:00", "2013-03-31T02:30:00.5", "2013-03-31T01:30Z"),
    *("2013-03-31T02:30+01:00", "2013-03-30T20:00-05:30", "2013-03-31T02:30+01", "2013-03-31 02:30:00.1234569-0030"),
    *(
        "2013-10-27T01:30",
        "2013-10-27 01:30:00+00:00",
        "2013-10-27T01:30:00.000000000",
        " 2013-03-31 ",
        "  2013-03-31T01:30+01  ",
        "\t2013-03-31",
        "2013-02-30",
    ),
    *(
        "0001-01-01T00:00+14:00",
        "9999-12-31T23:59:59.999999-14:00",
        "0000-01-01",
        "2013-3-1",
        "2013-03-31T24:00",
        "now",
    ),
    *("2013-03-31T10:60", "2013-03-31T10", "2013-03-31Z", "31/03/2013", "1364691600", "", None, "infinity", "epoch"),
    *(
        "2013-03-31T10:00+24:00",
        "2013-03-31T10:00:00.",
        "2013-03-31t10:00",
        "2013-03-31T10:00.5",
        "1969-12-31T23:59:59.5",
    ),
]


def typed_rows() -> list[dict[str, Any]]:
    """Readings around both clock changes, with a bit of everything that is wrong."""
    r = random.Random(7)
    rows = []
    for _ in range(420):
        near = r.choice([SPRING, AUTUMN])
        ts: Any = near + datetime.timedelta(minutes=30 * r.randrange(-30, 60))
        ts = r.choice([ts] * 8 + [ts + datetime.timedelta(microseconds=r.choice([-1, 1]))])
        if r.random() < 0.08:
            far = datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31, 23, 59, 59, 999999)
            ts = r.choice([None, *far, datetime.datetime(1969, 12, 31, 23, 59, 59, 999999)])
        person = r.choice(["ann", "bob", "cy, jr", 'd"d', "eve", "fay", "ann", "bob", "", None, "ghost"])
        room = r.choice(["hall", "attic", "cellar", "hall", "shed", None])
        rows.append({"p": person, "ts": ts, "kwh": r.choice(NUMBERS), "room": room})
    for edge in (SPRING - datetime.timedelta(days=1), SPRING + datetime.timedelta(hours=36)):  # of the asked steps
        for us in (-1, 0):
            ts = edge + datetime.timedelta(microseconds=us)
            rows.append({"p": "eve", "ts": ts, "kwh": 2.0 - us, "room": "hall"})
    return [*rows, *r.sample(rows, 60)]


def text_rows() -> list[dict[str, Any]]:
    r = random.Random(8)
    return [
        {
            "p": r.choice(["ann", "bob", "ann "]),
            "ts": r.choice(TIME_TEXTS),
            "kwh": r.choice(NUMBER_TEXTS),
            "room": "hall",
        }
        for _ in range(600)
    ] + [{"p": "ann", "ts": "2013-03-31", "kwh": x, "room": "hall"} for x in NUMBER_TEXTS]


FORMS = ("%d/%m/%y %H:%M", "%a %b %d %H:%M:%S %z %Y", "%d %B %Y %I:%M:%S.%f %p", "%Y%m%d%H%M", "%m-%d-%Y")
WRITTEN = [
    *("30/03/13 00:30", "3/4/13 1:5", "31/03/13 02:30", "27/10/13 01:30", "30/02/13 00:00", "30/03/13 24:00"),
    *("30/03/2013 00:30", "3/4/13 23:30"),
    *("30/03/13  00:30", " 30/03/13 00:30", "30/03/13 00:30 ", "30/03/13 00:60", "30-03-13 00:30", "030/03/13 00:30"),
    "٣/03/13 00:30",
    *("Sat Mar 30 18:00:09 +0000 2013", "sun MAR 31 02:00:09 +01:00 2013", "Sat Mar 30 18:00:09 Z 2013"),
    "Mon Mar 30 1:0:9 -0530 2013",
    *("Sat Mar 30 18:00:09 +24:00 2013", "Sat Mar 30 18:00:09 +01 2013", "Sat Mar 30 18:00:60 +0000 2013"),
    "Sat Mrz 30 18:00:09 +0000 2013",
    *("30 March 2013 12:30:00.5 AM", "30 march 2013 12:30:00.500000 pm", "30 Mar 2013 12:30:00.5 AM"),
    "30 March 2013 13:30:00.5 AM",
    *("30 March 2013 0:30:00.5 AM", "30 March 2013 11:59:59.999999 PM", "30 March 2013 1:30:00. PM"),
    "30 March 2013 1:30:00.1234567 PM",
    *("201303300030", "20130330003", "2013033000300", "201303310130", "201313300030", "03-30-2013", "3-30-2013"),
    *("30-03-2013", "", None),
    *("2013-03-30", "2013-03-30T00:30", "1364691600", "o'clock", "%d/%m/%y %H:%M", "30/03/13 00:30\n", "infinity"),
    "03-30-0000",
]  # fmt: skip


def written_rows() -> list[dict[str, Any]]:
    """Times as people write them, in several forms, and what only looks like it."""
    r = random.Random(10)
    return [
        {"p": r.choice(["ann", "bob", "eve"]), "ts": ts, "kwh": r.choice(["1", "2.5", "x"]), "room": "hall"}
        for ts in [*WRITTEN, *r.choices(WRITTEN, k=200)]
        if ts is None or not ts.endswith("\n")
    ]


def integer_rows() -> list[dict[str, Any]]:
    """Persons, groups and times as whole numbers: seconds since 1970."""
    r = random.Random(9)
    times = [0, -1, -1800, 1799, 1800, 3600, -3601, 2**62, -(2**63), 2**63 - 1, None, 7200, 4611686018427]
    return [
        {
            "p": r.choice([1, 2, -3, None, 2**52]),
            "ts": r.choice(times),
            "kwh": r.choice([0, 1, -2, 9, None]),
            "room": r.choice([1, 2]),
        }
        for _ in range(300)
    ]


def aware_rows() -> list[dict[str, Any]]:
    return [{**row, "ts": row["ts"] and row["ts"].replace(tzinfo=datetime.UTC)} for row in typed_rows()[:200]]


def _schema(p: Any, ts: Any, kwh: Any, room: Any) -> pa.Schema:
    return pa.schema({"p": p, "ts": ts, "kwh": kwh, "room": room})


TEXT, WHOLE = pa.string(), pa.int64()
DATA = {
    "typed": (typed_rows(), _schema(TEXT, pa.timestamp("us"), pa.float64(), TEXT)),
    "text": (text_rows(), _schema(TEXT, TEXT, TEXT, TEXT)),
    "integer": (integer_rows(), _schema(WHOLE, WHOLE, WHOLE, WHOLE)),
    "written": (written_rows(), _schema(TEXT, TEXT, TEXT, TEXT)),
    "aware": (aware_rows(), _schema(TEXT, pa.timestamp("us", "Europe/Berlin"), pa.float64(), TEXT)),
}

BASE = Question("sum", "p", "ts", HOURS, 1, 30, value="kwh", multiply=1000, low=-2000, high=8000)
PEOPLE = {"ann": 2, "bob": 0, "cy, jr": 1, 'd"d': 1, "eve": 0}
UNITS = {"ann": "oak 1", "bob": "oak 1", "cy, jr": "oak 2", 'd"d': "oak 2", "eve": "ann", "nobody": "elm"}
WEIGHTS = {"ann": 3, "bob": -2, "cy, jr": 1, "fay": 10, "nobody": 5}
GROUPS = ("attic", "hall", "cellar")
FOLDS = ("sum", "mean", "first", "last", "min", "max")
WHOLE_YEAR = replace(BASE, buckets=DAYS, last=230, local=LOCAL)
MONTHLY = replace(BASE, buckets=MONTHS, last=9, local=LOCAL)
COUNT = replace(BASE, kind="count", value=None)
EVENTS = replace(BASE, value=None, fold="count", once=False, multiply=1, low=0, high=1)
WIDE = replace(WHOLE_YEAR, low=-(2**40), high=2**40)  # a moment and a reading need more than 64 bits

TYPED: dict[str, Question] = {
    **{f"{fold}": replace(BASE, fold=fold) for fold in FOLDS},
    **{f"{fold}-again": replace(BASE, fold=fold, once=False) for fold in FOLDS},
    **{f"{fold}-days": replace(WHOLE_YEAR, fold=fold) for fold in FOLDS},
    **{f"{fold}-months": replace(MONTHLY, fold=fold) for fold in FOLDS},
    "count-months": replace(MONTHLY, kind="count", value=None, first=2, last=8),
    "events-months": replace(EVENTS, buckets=MONTHS, last=9, local=LOCAL, high=2**40),
    **{f"{fold}-wide": replace(WIDE, fold=fold) for fold in ("first", "last", "sum")},
    **{f"{fold}-readings": replace(WHOLE_YEAR, fold=fold, least=-300, most=2000) for fold in FOLDS},
    **{f"{fold}-readings-again": replace(WHOLE_YEAR, fold=fold, least=100, most=99_000, once=False) for fold in FOLDS},
    **{f"{fold}-apart": replace(BASE, fold=fold, least=9000, most=9500) for fold in FOLDS},  # beyond [low, high]
    **{f"{fold}-narrow": replace(WHOLE_YEAR, fold=fold, low=100, high=101) for fold in FOLDS},
    "events": replace(EVENTS, low=0, high=3),
    "events-once": replace(EVENTS, high=3, once=True),
    "events-days": replace(EVENTS, buckets=DAYS, last=230, local=LOCAL, high=2**40),
    "events-good": replace(EVENTS, value="kwh", high=2),
    "events-good-once": replace(EVENTS, value="kwh", high=2, once=True, weights=WEIGHTS),
    "events-groups": replace(EVENTS, group="room", groups=GROUPS, most_groups=2, high=2, buckets=DAYS, last=230),
    "events-table": replace(EVENTS, table=PEOPLE, groups=GROUPS, high=2, buckets=DAYS, last=230),
    "count": COUNT,
    "count-days": replace(COUNT, buckets=DAYS, last=230, local=LOCAL),
    "count-good": replace(BASE, kind="count"),
    "autumn": replace(BASE, first=AUTUMN_STEP - 10, last=AUTUMN_STEP + 20, local=LOCAL),
    "before 1970": replace(BASE, buckets=Buckets(7_200_000_000, ((-(2**62), 0),)), first=-3, last=2),
    "year 1": replace(BASE, buckets=Buckets(86_400_000_000, ((-(2**62), 0),)), first=-719_162, last=-719_000),
    "baseline": replace(BASE, baseline=-700, fold="mean"),
    "divided": replace(BASE, multiply=1, divide=3, low=-5, high=5),
    "above 0": replace(BASE, low=3, high=8000, fold="sum"),
    "weights": replace(BASE, weights=WEIGHTS, baseline=5),
    "table": replace(BASE, groups=GROUPS, table=PEOPLE, fold="sum"),
    "table-weights": replace(BASE, groups=GROUPS, table=PEOPLE, weights=WEIGHTS, fold="mean"),
    "table-count": replace(COUNT, groups=GROUPS, table=PEOPLE, buckets=DAYS, last=20),
    **{f"{fold}-units": replace(WHOLE_YEAR, fold=fold, units=UNITS) for fold in FOLDS},
    "sum-units-each": replace(WHOLE_YEAR, fold="sum", units=UNITS, once=False),
    "sum-units-table": replace(BASE, fold="sum", units=UNITS, groups=GROUPS, table={"oak 1": 1, "oak 2": 0, "elm": 2}),
    "mean-units-weights": replace(BASE, fold="mean", units=UNITS, weights={"oak 1": 3, "nobody": 2}, baseline=5),
    "count-units": replace(COUNT, units=UNITS),
    "events-units": replace(EVENTS, units=UNITS, high=2, buckets=DAYS, last=230),
    "sum-units-groups": replace(WHOLE_YEAR, fold="sum", units=UNITS, group="room", groups=GROUPS, most_groups=2),
    **{
        f"{fold}-groups-{most}": replace(WHOLE_YEAR, group="room", groups=GROUPS, most_groups=most, fold=fold)
        for fold in ("last", "sum")
        for most in (1, 2, 3)
    },
    "count-groups": replace(COUNT, group="room", groups=GROUPS, most_groups=2, weights=WEIGHTS),
    "histogram": replace(BASE, kind="histogram", edges=(-2000, -300, 0, 1, 500, 8000)),
    "histogram-inner": replace(BASE, kind="histogram", edges=(0, 500, 2500), fold="mean"),
    "histogram-readings": replace(WHOLE_YEAR, kind="histogram", edges=(0, 500, 2500), fold="mean", least=0, most=600),
    "histogram-groups": replace(WHOLE_YEAR, kind="histogram", edges=(0, 10, 8000), group="room", groups=GROUPS),
}
ASKED_ALL = ("postgresql", "parquet", "polars")
"""One source of each engine but Spark: another one is read otherwise, and then asked alike."""
READ_IN_EACH_WAY = (
    *(
        "last",
        "mean-again",
        "sum-days",
        "first-wide",
        "max-readings",
        "min-apart",
        "count-good",
        "count-days",
        "autumn",
    ),
    *("before 1970", "year 1", "divided", "table-weights", "last-groups-2", "count-groups", "histogram-groups"),
)
EPOCH = replace(
    BASE, buckets=Buckets(3_600_000_000, ((-(2**62), 0),)), first=-2, last=3, epoch="s", multiply=1, high=5, low=-1
)
QUESTIONS: dict[str, dict[str, Question]] = {
    "typed": TYPED,
    "text": {name: TYPED[name] for name in ("sum", "last-days", "autumn", "count-days", "mean-again", "year 1")},
    "written": {
        **{form: replace(WHOLE_YEAR, fold="sum", time_format=form) for form in FORMS},
        **{f"{form} in UTC": replace(BASE, fold="last", time_format=form, last=400) for form in FORMS[:2]},
    },
    "aware": {name: TYPED[name] for name in ("last", "sum-days", "autumn")},
    "integer": {
        "seconds": EPOCH,
        "sum": replace(EPOCH, fold="sum"),
        "milliseconds": replace(EPOCH, epoch="ms", fold="mean"),
        "microseconds": replace(EPOCH, epoch="us", fold="max"),
        "groups": replace(EPOCH, group="room", groups=("2", "1"), weights={"1": 5, "-3": 1, str(2**52): 2}),
    },
}


def check(engine: Engine, rows: list[dict[str, Any]], question: Question) -> None:
    compare(engine, question, reference.aggregate(rows, question))


def compare(engine: Engine, question: Question, wanted: tuple[dict[tuple[int, int, int], int], dict[str, int]]) -> None:
    expected, tallies = wanted
    answer = engine.aggregate(question)
    assert answer.sums.shape == question.shape
    assert answer.sums.dtype == np.int64
    found = {tuple(int(i) for i in place): int(answer.sums[tuple(place)]) for place in np.argwhere(answer.sums)}
    assert found == expected
    assert dict(answer.tallies) == tallies


Opened = tuple[Engine, str, str]


@pytest.fixture(scope="module", params=[(s, d) for d in DATA for s in SOURCES], ids="-".join)
def opened(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    source, data = request.param
    engine = SOURCES[source](*DATA[data], tmp_path_factory.mktemp(source))
    yield engine, source, data
    engine.close()


@cache
def wanted(data: str, name: str) -> Any:
    """The reference's answer, which is the same for every source."""
    return reference.aggregate(DATA[data][0], QUESTIONS[data][name])


def ask(engine: Engine, data: str, names: Iterable[str]) -> None:
    assert list(engine.columns()) == ["p", "ts", "kwh", "room"]
    for name in names:
        try:
            compare(engine, QUESTIONS[data][name], wanted(data, name))
        except AssertionError as error:
            raise AssertionError(f"question {name}: {error}") from error


def test_every_question_has_the_reference_answer(opened: Opened) -> None:
    """All questions to one source of each engine; to the others, in turn, half of those that read each column in each way.

    To Spark, whose queries take a second each, a quarter of those: `engines/spark/` has more.
    """
    engine, source, data = opened
    names, every = [*(READ_IN_EACH_WAY if data == "typed" else QUESTIONS[data])], 4 if source.startswith("spark") else 2
    ask(engine, data, QUESTIONS[data] if source in ASKED_ALL else names[[*SOURCES].index(source) % every :: every])


@pytest.mark.soak
def test_every_source_has_the_reference_answer_to_every_question(opened: Opened) -> None:
    engine, source, data = opened
    if source.startswith("spark"):
        pytest.skip("a session of Spark with little memory ends after some hundred large queries: see the test above")
    ask(engine, data, QUESTIONS[data])


def wide_rows() -> list[dict[str, Any]]:
    """One column a person, with gaps, bad cells and repeated moments."""
    r = random.Random(11)
    times = [SPRING + datetime.timedelta(minutes=30 * r.randrange(-30, 60)) for _ in range(60)]
    return [
        {"p": r.choice(NUMBERS), "ts": ts, "it's, b": r.choice(NUMBERS), "kwh": r.choice([1.0, 2.5, None])}
        for ts in [*times, *times[:9], None]
    ]


PAIRS = {"p": "oak", "it's, b": "oak", "kwh": "elm"}
WIDE_QUESTIONS = {
    **{fold: replace(WHOLE_YEAR, wide=True, fold=fold) for fold in FOLDS},
    "count": replace(WHOLE_YEAR, kind="count", wide=True),
    "events": replace(EVENTS, wide=True, value="kwh", high=2),
    "table": replace(BASE, wide=True, fold="sum", groups=GROUPS, table={"p": 1, "kwh": 0}),
    "units": replace(BASE, wide=True, fold="sum", units=PAIRS, weights={"oak": 3}),
}


@pytest.mark.parametrize("source", [s for s in SOURCES if s not in ("pandas_nullable", "sqlite_file")])
def test_every_column_of_a_wide_table_is_a_person(source: str, tmp_path: Path) -> None:
    rows = wide_rows()
    number = pa.float64()
    schema = pa.schema({"p": number, "ts": pa.timestamp("us"), "it's, b": number, "kwh": number})
    engine = SOURCES[source](rows, schema, tmp_path)
    asked = [*WIDE_QUESTIONS.items()]
    for name, question in asked[2::3] if source.startswith("spark") else asked:
        try:
            check(engine, rows, question)
        except AssertionError as error:
            raise AssertionError(f"question {name}: {error}") from error
    with pytest.raises(InvalidInput, match="has no column 'when'") as caught:
        engine.aggregate(replace(BASE, wide=True, time="when"))
    assert "it's" not in str(caught.value)
    engine.close()


def test_the_rows_hold_every_kind_of_trouble() -> None:
    seen: dict[str, int] = {}
    for data, questions in QUESTIONS.items():
        for name in questions:
            expected, tallies = wanted(data, name)
            assert expected
            seen = {name: seen.get(name, 0) + n for name, n in tallies.items()}
    assert all(seen.values()), seen


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_order_and_threads_change_no_bit(threads: int) -> None:
    rows, schema = DATA["typed"]
    expected = open_arrow(pa.Table.from_pylist(rows, schema=schema), threads=1)
    shuffled = random.Random(threads).sample(rows, len(rows))
    engines = [open_arrow(pa.Table.from_pylist(shuffled, schema=schema), threads=threads)]
    engines += [open_source(pl.from_arrow(pa.Table.from_pylist(shuffled, schema=schema)))]  # type: ignore[list-item]
    for fold in FOLDS:
        question = replace(WHOLE_YEAR, fold=fold, group="room", groups=GROUPS)
        wanted = expected.aggregate(question)
        for engine in engines:
            found = engine.aggregate(question)
            assert np.array_equal(found.sums, wanted.sums)
            assert found.tallies == wanted.tallies
    for engine in (expected, *engines):
        engine.close()


cells = st.fixed_dictionaries(
    {
        "p": st.sampled_from(["a", "b", "c", "", None]),
        "ts": st.one_of(
            st.none(),
            st.integers(-30, 60).map(lambda i: SPRING + datetime.timedelta(minutes=20 * i)),
            st.datetimes(),
        ),
        "kwh": st.one_of(st.none(), st.floats(), st.floats(-3, 9), st.sampled_from([0.0005, 0.0015, -0.0005])),
        "room": st.sampled_from([*GROUPS, "shed", None]),
    }
)
questions = st.builds(
    replace,
    st.sampled_from([BASE, WHOLE_YEAR]),
    kind=st.sampled_from(["sum", "count", "histogram"]),
    fold=st.sampled_from((*FOLDS, "count")),
    once=st.booleans(),
    low=st.sampled_from([-2000, 0, 3]),
    high=st.sampled_from([8000, 2**40]),
    least=st.sampled_from([-(2**40), -(2**40), -2500, 1, 9000]),
    most=st.sampled_from([2**40, 2**40, 9500]),
    divide=st.sampled_from([1, 3]),
    baseline=st.integers(-5, 5),
    edges=st.just((-10, 0, 5, 8000)),
    group=st.sampled_from([None, "room"]),
    groups=st.just(GROUPS),
    most_groups=st.integers(1, 3),
    table=st.sampled_from([None, None, {"a": 0, "b": 2}]),
    weights=st.sampled_from([None, {"a": 3, "c": -1}]),
    units=st.sampled_from([None, None, {"a": "a", "b": "a", "c": "c"}, {"a": "b", "b": "b", "c": "nobody"}]),
)


@given(rows=st.lists(cells, max_size=40), question=questions)
def test_any_rows_have_the_reference_answer(rows: list[dict[str, Any]], question: Question) -> None:
    if question.kind != "histogram":
        question = replace(question, edges=())
    if question.group is None and question.table is None:
        question = replace(question, groups=())
    table = pa.Table.from_pylist(rows, schema=DATA["typed"][1])
    for engine in (open_arrow(table, threads=1), open_source(pl.from_arrow(table))):
        check(engine, rows, question)
        engine.close()


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC"])
def test_timestamps_of_any_precision_and_far_away(unit: Any, zone: str | None) -> None:
    scale = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    far = [290_000 * 31_556_952 * scale, -290_000 * 31_556_952 * scale, 2**63 - 3, -(2**63) + 3, 2**62]
    near = [0, -1, 1, -scale, 7200 * scale - 1]
    moments = [t for t in far if abs(t) < 2**63] + [*near, None]
    table = pa.table({"p": ["a"] * len(moments), "ts": pa.array(moments, pa.timestamp(unit, zone))})
    question = replace(COUNT, buckets=Buckets(3_600_000_000, ((-(2**62), 0),)), first=0, last=2, fold="max")

    def us(t: int) -> int:
        return t * 10**6 // scale

    outside = sum(t is None or abs(us(t)) > 2**62 for t in moments)
    inside = sum(t is not None and 0 <= us(t) // 3_600_000_000 + 1 <= 2 for t in moments)
    for engine in (
        open_arrow(table),
        open_source(pl.from_arrow(table)) if unit != "s" else None,
        open_source(table.to_pandas()),
    ):
        if engine is not None:
            answer = engine.aggregate(question)
            assert answer.sums.ravel().tolist() == [1, 1, 1]
            assert answer.tallies["bad_time"] == outside
            assert answer.tallies["rows"] == outside + inside
            engine.close()


def test_dates_and_infinite_times(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "a.duckdb")) as base:
        base.execute(
            "CREATE TABLE d AS SELECT unnest(['2013-03-30', 'infinity', '5000000-01-01', NULL]::DATE[]) ts, 'a' p"
        )
        base.execute(
            "CREATE TABLE t AS SELECT unnest(['2013-03-30', '-infinity', '290000-01-01']::TIMESTAMP[]) ts, 'a' p"
        )
        base.execute("CREATE TABLE z AS SELECT unnest(['2013-03-30', 'infinity', NULL]::TIMESTAMPTZ[]) ts, 'a' p")
    for table, bad in (("d", 3), ("t", 2), ("z", 2)):
        engine = open_files([tmp_path / "a.duckdb"], table=table)
        answer = engine.aggregate(COUNT)
        assert (answer.sums.sum(), answer.tallies["bad_time"], answer.tallies["rows"]) == (1, bad, bad + 1)
        engine.close()


def test_a_broken_csv_line_is_one_bad_row_and_touches_no_other(tmp_path: Path) -> None:
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
    engine = open_files([tmp_path / "a.csv"])
    weights = {"ann": 1, "zoe": 1, **{f'p{i}, "x"': 1 for i in range(len(broken))}}
    answer = engine.aggregate(replace(BASE, weights=weights))
    assert answer.sums[0, 0, 0] == 1000 + 3000 + 2000 * len(broken)
    assert answer.tallies["bad_time"] == len(broken)
    assert answer.tallies["rows"] == 2 + 2 * len(broken)
    assert engine.aggregate(replace(BASE, weights=weights)).tallies == answer.tallies
    engine.close()


def test_floats_as_persons_are_whole_numbers() -> None:
    table = pa.table({"p": [1.0, 2.5, NAN, INF, None, 1e300, -3.0], "ts": [SPRING] * 7, "kwh": [1] * 7})
    for engine in (open_arrow(table), open_source(pl.from_arrow(table)), open_source(table.to_pandas())):
        answer = engine.aggregate(replace(BASE, weights={"1": 1, "-3": 1}))
        assert (answer.sums.sum(), answer.tallies["bad_person"]) == (2000, 5)
        engine.close()


def test_what_cannot_be_read_is_refused_with_its_name(tmp_path: Path) -> None:
    pq.write_table(
        pa.table({"lclid": ["a"], "ts": [1], "kwh": [1.0], "when": [SPRING], "l": [[1]]}), tmp_path / "a.parquet"
    )
    (tmp_path / "bad.parquet").write_text("no")
    (tmp_path / "bad.sqlite").write_text("no" * 1000)
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "a.csv").write_text("a,b\n")
    (tmp_path / "b.csv").write_text("b,a\n")
    for paths, said in [
        ([tmp_path / "none.parquet"], "no such file.*none.parquet"),
        ([str(tmp_path / "*.pq")], "no file matches.*pq"),
        ([tmp_path], "is a folder"),
        ([], "at least one path"),
        ([tmp_path / "bad.parquet"], "bad.parquet cannot be read"),
        ([tmp_path / "bad.sqlite"], "bad.sqlite cannot be read"),
        ([tmp_path / "empty.csv"], "empty.csv needs a first line"),
        ([tmp_path / "a.csv", tmp_path / "a.parquet"], "unclear"),
    ]:
        with pytest.raises(InvalidInput, match=said):
            open_source(paths)
    frame = pl.read_parquet(tmp_path / "a.parquet")
    for engine in (open_source(tmp_path / "a.parquet"), open_source(frame)):
        good = replace(BASE, person="lclid", time="when")
        for change, said in [
            ({"value": "kw"}, "did you mean 'kwh'"),
            ({"time": "ts"}, "say epoch"),
            ({"epoch": "s"}, "'when' is"),
            ({"value": "when"}, "a value is"),
            ({"person": "l"}, "a person is"),
            ({"group": "when", "groups": ("x",)}, "a group is"),
        ]:
            with pytest.raises(InvalidInput, match=said):
                engine.aggregate(replace(good, **change))
        assert engine.aggregate(good).tallies["rows"] == 1
        engine.close()
    with pytest.raises(InvalidInput, match="no data frame"):
        open_source(7)


@pytest.mark.soak
def test_london_sums_do_not_depend_on_the_order_of_rows(data_folder: Path) -> None:
    path = data_folder / "lcl_2013_325_households.parquet"
    start, width, steps = to_us(parse_time("2013-01-01")), 1_800_000_000, 17_520
    table = pq.read_table(path)
    table = table.slice(0, len(table) // 3)
    shuffled = table.take(np.random.default_rng(1).permutation(len(table)))
    question = Question(
        "sum", "lclid", "ts", Buckets(width, ((-(2**62), -start),)), 1, steps, value="kwh", multiply=1000, high=10_000
    )
    answers, floats = [], []
    for rows in (table, shuffled):
        engine = open_arrow(rows, threads=2)
        answers.append(engine.aggregate(question))
        engine.close()
        k = (rows["ts"].cast(pa.timestamp("us")).cast(pa.int64()).to_numpy() - start) // width
        floats.append(np.bincount(k, weights=rows["kwh"].to_numpy(), minlength=steps))
    assert (floats[0] != floats[1]).sum() > 10_000
    assert np.array_equal(answers[0].sums, answers[1].sums)
    assert answers[0].tallies == answers[1].tallies
    assert answers[0].tallies["rows"] == len(table)
