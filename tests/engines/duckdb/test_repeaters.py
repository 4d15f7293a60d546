"""People with one reading a step need no grouping, and those with two are found exactly: answers stay the reference's."""

from __future__ import annotations

import datetime
import random
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from engines import reference
from engines.test_engines import BASE, DATA, FOLDS, GROUPS, QUESTIONS, compare
from halflife.engines import Question
from halflife.engines.duckdb.engine import DuckEngine, open_arrow
from halflife.engines.duckdb.slices import Slice

PEOPLE = ("ann", "bob", "cy, jr", 'd"d', "eve", "fay")
SUM = replace(BASE, fold="sum", once=False)
Rows = list[dict[str, Any]]


def make_rows(repeaters: int, seed: int = 3) -> Rows:
    """One reading of each person in most of 30 steps, in any order, and more of some people in a few of them.

    Those are at the same moment, in the same room or in another, or at another moment of the step.
    """
    r = random.Random(seed)
    rows = []
    for person in PEOPLE:
        for step in r.sample(range(30), 27):
            ts = datetime.datetime(2013, 3, 30, 1) + datetime.timedelta(hours=2 * step)
            room = r.choice([*GROUPS, "shed"])
            rows.append({"p": person, "ts": ts, "kwh": r.choice([-0.5, 0.0005, 0.5, 2.5, 7.25, 99.0]), "room": room})
    for i, person in enumerate(r.sample(PEOPLE, repeaters)):
        own = [row for row in rows if row["p"] == person and row["room"] != "shed"]
        for row in r.sample(own, 1 if i else 5):
            rows.append({**row, "kwh": row["kwh"] + r.choice([-1, 0, 1])})
            rows.append({**row, "room": r.choice(GROUPS)})
            rows.append({**row, "ts": row["ts"] + datetime.timedelta(minutes=r.choice([-20, 20]))})
    r.shuffle(rows)
    return rows


def open_rows(rows: Rows, threads: int | None = None) -> DuckEngine:
    return open_arrow(pa.Table.from_pylist(rows, schema=DATA["typed"][1]), threads=threads)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The statements that engines ask of DuckDB."""
    statements: list[str] = []
    real = DuckEngine._run

    def run(self: DuckEngine, sql: str, **options: Any) -> Any:
        statements.append(sql)
        return real(self, sql, **options)

    monkeypatch.setattr(DuckEngine, "_run", run)
    return statements


@pytest.mark.parametrize("repeaters", [0, 1, 3, 6])
def test_some_people_with_two_readings_in_a_step_change_no_answer(repeaters: int) -> None:
    check_answers(make_rows(repeaters), QUESTIONS["typed"])


def check_answers(rows: Rows, questions: Mapping[str, Question]) -> None:
    engine = open_rows(rows)
    for name, question in questions.items():
        if question.person == "p" and question.time == "ts" and question.value in (None, "kwh"):
            try:
                compare(engine, question, reference.aggregate(rows, question))
            except AssertionError as error:
                raise AssertionError(f"question {name}: {error}") from error
    engine.close()


@pytest.mark.parametrize("once", [True, False])
@pytest.mark.parametrize("fold", FOLDS)
def test_a_repeater_among_others_is_folded_alone(fold: Any, once: bool, asked: list[str]) -> None:
    rows, question = make_rows(1), replace(BASE, fold=fold, once=once, group="room", groups=GROUPS)
    engine = open_rows(rows, threads=2)
    compare(engine, question, reference.aggregate(rows, question))
    assert any("ANTI JOIN repeaters" in sql for sql in asked)
    engine.close()


@pytest.mark.parametrize(("repeaters", "plan"), [(0, "alone"), (1, "both"), (3, "both"), (4, "grouped")])
def test_only_readings_of_repeaters_are_grouped(repeaters: int, plan: str, asked: list[str]) -> None:
    """Grouping by person and step is the costly part: none of it without repeaters, all of it where most repeat."""
    rows, question = make_rows(repeaters), SUM
    engine = open_rows(rows)
    compare(engine, question, reference.aggregate(rows, question))
    (adding,) = [sql for sql in asked if "AS total" in sql]
    grouped, alone = "GROUP BY p, k" in adding, "repeaters" in adding or "GROUP BY p, k" not in adding
    assert {"alone": (False, True), "both": (True, True), "grouped": (True, False)}[plan] == (grouped, alone)
    engine.close()


def test_whoever_has_more_readings_than_steps_with_one_is_a_repeater() -> None:
    for seed in range(5):
        for repeaters in range(4):
            rows, question = make_rows(repeaters, seed), SUM
            seen = [(row["p"], row["ts"].replace(hour=row["ts"].hour // 2, minute=0)) for row in rows]
            twice = {person for person, _ in (pair for pair in set(seen) if seen.count(pair) > 1)}
            engine = open_rows(rows)
            assert engine._find_repeaters(Slice(question, len(PEOPLE))) == len(twice)
            assert {p for (p,) in engine._run("SELECT p FROM repeaters")} == twice
            engine.close()


def test_public_lists_are_handed_over_without_pandas() -> None:
    """pyarrow's way from lists to columns loads pandas, where it is installed: a second before anything is read."""
    program = (
        "import sys\nimport pyarrow as pa\nfrom halflife.engines.arrow import make_table\n"
        "made = make_table(['é', '', 'b'], {'i': [2, -1, 0]})\n"
        "assert 'pandas' not in sys.modules\n"
        "assert made.to_pylist() == [{'name': 'é', 'i': 2}, {'name': '', 'i': -1}, {'name': 'b', 'i': 0}]\n"
        "assert make_table([], {'i': []}).schema.field('i').type == pa.int64()\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=100)
