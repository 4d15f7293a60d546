"""What a source holds, counted: as brute force counts it, whatever the source, on rows with a bit of everything that is wrong."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines import reference
from engines.sources import SOURCES
from engines.test_engines import BASE, COUNT, DATA, QUESTIONS, SPRING, cells, questions
from halflife import InvalidInput
from halflife.engines import Engine, Question, open_source
from halflife.engines.base import TALLIES
from halflife.engines.inspection import TOO_LARGE, TOO_SMALL, Inspection
from thinning import keep

COUNTED = (
    "rows", "before", "after", "low_readings", "high_readings", "vanished", "people", "entries", "low", "high", "grown", "zeros",
    "steps", "first", "last",
)  # fmt: skip


def brute_force(rows: list[dict[str, Any]], q: Question) -> dict[str, Any]:
    """Count in loops what `Inspection` has; no engine's code is used."""
    found: dict[str, Any] = dict.fromkeys(COUNTED, 0) | {"rows": len(rows), "shrunk": dict.fromkeys(TOO_LARGE, 0)}
    entries: dict[tuple[str, int, int], list[tuple[int, int, str]]] = defaultdict(list)
    moments = []
    for row in rows:
        us = reference.moment(row[q.time], q)
        if us is None:
            continue
        moments.append(us)
        step = q.buckets.step(us)
        if not q.first <= step <= q.last:
            found["before" if step < q.first else "after"] += 1
            continue
        person, x = reference.label(row[q.person]), 0.0 if q.value is None else reference.number(row[q.value])
        id_, person = person, person if q.units is None or person is None else q.units.get(person)
        group = _group(row, person, q)
        if person is None or x is None or group is None or (q.weights is not None and person not in q.weights):
            continue
        scaled = x * q.multiply / q.divide + 0.5
        u = math.floor(scaled) if math.isfinite(scaled) else int(math.copysign(10**30, scaled))
        if q.value is not None:
            found["low_readings"] += u < q.least
            found["high_readings"] += u > q.most
            found["vanished"] += x != 0 and u == 0
        entries[person, step, group].append((us, min(max(u, q.least), q.most), id_))
    _count_entries(found, entries, q)
    return found | {"earliest": min(moments, default=None), "latest": max(moments, default=None)}


def _group(row: dict[str, Any], person: str | None, q: Question) -> int | None:
    if q.table is not None:
        return q.table.get(person or "")
    name = None if q.group is None else reference.label(row[q.group])
    return 0 if q.group is None else q.groups.index(name) if name in q.groups else None


def _count_entries(found: dict[str, Any], entries: Any, q: Question) -> None:
    found["people"] = len({person for person, _, _ in entries})
    steps = {step for _, step, _ in entries}
    found |= {"steps": len(steps), "first": min(steps, default=0), "last": max(steps, default=0)}
    seen: dict[tuple[str, int], int] = defaultdict(int)
    for person, step, group in sorted(entries, key=lambda entry: entry[2]):
        seen[person, step] += 1
        if q.table is None and q.group is not None and seen[person, step] > q.most_groups:
            continue
        readings = [(us, u) for us, u, _ in entries[person, step, group]]
        if q.once:
            each: dict[tuple[int, str], int] = {}
            for us, u, id_ in entries[person, step, group]:
                each[us, id_] = max(u, each.get((us, id_), u))
            readings = [(us, u) for (us, _), u in each.items()]
        f = reference.fold(readings, q)
        found["entries"] += 1
        if q.kind != "count":
            found["low"] += f < q.low
            found["high"] += f > q.high
            found["zeros"] += f == 0
            found["grown"] += f != 0 and q.low <= TOO_SMALL * f <= q.high
            for n in TOO_LARGE:
                found["shrunk"][n] += n * q.low <= f <= n * q.high


def check(engine: Engine, rows: list[dict[str, Any]], q: Question) -> Inspection:
    found, expected = engine.inspect(q), brute_force(rows, q)
    assert {name: getattr(found, name) for name in expected} == expected
    sums, tallies = reference.aggregate(rows, q)
    assert dict(found.tallies) == tallies
    totals = np.zeros(q.shape[1:])
    for (_, group, b), total in sums.items():
        totals[group, b] += total
    assert found.totals == pytest.approx(totals)
    return found


@pytest.fixture(scope="module", params=["parquet", "csv_file", "sqlite_file", "pandas_object", "polars"])
def opened(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    engines = {d: SOURCES[request.param](*DATA[d], tmp_path_factory.mktemp(request.param)) for d in ("typed", "text")}
    yield engines
    for engine in engines.values():
        engine.close()


@pytest.mark.parametrize("third", keep(range(3), lambda third: third == 0))
def test_every_question_is_counted_as_by_brute_force(third: int) -> None:
    for data, asked in QUESTIONS.items():
        engine = SOURCES["arrow"](*DATA[data], Path())
        for name, question in [*asked.items()][third::3]:
            if name.endswith(("-again", "-apart")):  # the same ways through the engine
                continue
            try:
                check(engine, DATA[data][0], question)
            except AssertionError as error:
                raise AssertionError(f"{data}, question {name}: {error}") from error
        engine.close()


@pytest.mark.parametrize("name", ["sum", "last-days"])
def test_every_kind_of_source_is_counted_alike(opened: dict[str, Engine], name: str) -> None:
    for data, engine in opened.items():
        check(engine, DATA[data][0], QUESTIONS[data][name])


def test_the_rows_show_every_count() -> None:
    seen: dict[str, int] = dict.fromkeys(COUNTED, 0)
    for data, asked in QUESTIONS.items():
        for question in asked.values():
            for name, n in brute_force(DATA[data][0], question).items():
                if name in seen:
                    seen[name] += bool(n)
    assert all(seen.values()), seen
    assert set(TALLIES) >= {"rows", "bad_time"}


def test_cells_that_cannot_be_read_come_from_all_over_the_source(opened: dict[str, Engine]) -> None:
    rows, _ = DATA["text"]
    question = QUESTIONS["text"]["sum"]
    bad = {row["ts"] for row in rows if reference.moment(row["ts"], question) is None}
    times = opened["text"].bad_cells(question, "time")
    assert {cell or None for cell in times} == {cell or None for cell in bad}
    numbers = {row["kwh"] for row in rows if reference.number(row["kwh"]) is None}
    assert {cell or None for cell in opened["text"].bad_cells(question, "value")} == {cell or None for cell in numbers}
    assert opened["text"].inspect(question).rows == len(rows)  # lines that were broken are not counted twice
    assert opened["typed"].bad_cells(COUNT, "value") == []


def test_spacing_gap_and_typical_readings() -> None:
    hours = pl.datetime_range(SPRING, SPRING.replace(day=31, hour=23), "1h", eager=True)
    frame = pl.concat(
        pl.DataFrame({"p": p, "ts": hours, "kwh": [float(x) for x in range(24)]}) for p in ("a", "b", "c")
    )
    for source in (frame, frame.to_arrow()):
        engine = open_source(source)
        quarter = replace(BASE, buckets=replace(BASE.buckets, width=900_000_000), first=1, last=400)
        found = engine.inspect(quarter)
        assert (found.spacing, found.gap, found.people, found.steps) == (3_600_000_000, 4, 3, 24)
        assert found.typical == pytest.approx((1150, 11_500, 21_850), abs=600)
        engine.close()


@given(rows=st.lists(cells, max_size=30), question=questions)
@settings(max_examples=15)
def test_any_rows_are_counted_as_by_brute_force(rows: list[dict[str, Any]], question: Question) -> None:
    if question.kind != "histogram":
        question = replace(question, edges=())
    if question.group is None and question.table is None:
        question = replace(question, groups=())
    engine = open_source(pa.Table.from_pylist(rows, schema=DATA["typed"][1]))
    check(engine, rows, question)
    engine.close()


@pytest.mark.parametrize("fold", ["sum", "last"])
def test_no_reading_weight_or_bound_is_too_large_to_be_counted(fold: Any) -> None:
    """A look that failed for what is in the data would tell of them by its status."""
    rows, schema = DATA["typed"]
    most = 2**40
    question = replace(BASE, fold=fold, low=-most, high=most, multiply=most, weights={"ann": most, "bob": -most})
    engine = open_source(pa.Table.from_pylist(rows, schema=schema))
    found, expected = engine.inspect(question), brute_force(rows, question)
    assert {name: getattr(found, name) for name in COUNTED} == {name: expected[name] for name in COUNTED}
    assert abs(found.totals.sum()) > 2.0**70
    engine.close()


def test_the_middle_of_a_column_of_numbers() -> None:
    table = pa.table({"n": [1, 2, 1000], "x": [0.5, float("nan"), None], "t": ["1", "2", "3"]})
    for engine in (open_source(table), open_source(table.to_pandas())):
        assert (engine.typical_number("n"), engine.typical_number("x"), engine.typical_number("t")) == (2, 0.5, None)
        with pytest.raises(InvalidInput, match="nn"):
            engine.typical_number("nn")
        engine.close()


def test_a_frame_whose_column_is_missing_or_of_another_type_is_refused() -> None:
    frame = pl.DataFrame({"p": ["a"], "ts": [SPRING], "kwh": [[1.0]]})
    engine = open_source(frame)
    with pytest.raises(InvalidInput, match="a value is a number or text"):
        engine.inspect(BASE)
    with pytest.raises(InvalidInput, match="'day'"):
        engine.inspect(replace(BASE, time="day"))
    engine.close()
