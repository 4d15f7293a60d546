"""Many people and steps are added up slice by slice: stretches of steps and shares of the people, to the same answers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engines import reference
from engines.duckdb.test_repeaters import PEOPLE, SUM, check_answers, make_rows, open_rows
from engines.test_engines import GROUPS, QUESTIONS, compare
from halflife.engines.duckdb import slices
from halflife.engines.duckdb.engine import DuckEngine
from halflife.engines.duckdb.slices import Slice

STEPS = 30
LARGE = 2**30


def limit(monkeypatch, people=LARGE, bits=LARGE, pairs=LARGE):
    for name, value in (("PEOPLE", people), ("BITS", bits), ("PAIRS", pairs)):
        monkeypatch.setattr(slices, f"MOST_{name}", value)


@pytest.mark.parametrize(("people", "bits", "pairs"), [(1, 20, 12), (2, LARGE, LARGE), (3, 40, 20), (LARGE, 42, LARGE)])
@pytest.mark.parametrize("repeaters", [0, 3, 6])
def test_answers_and_tallies_are_those_of_the_whole(repeaters, people, bits, pairs, monkeypatch):
    """Of the questions a quarter each: with other limits, others."""
    limit(monkeypatch, people, bits, pairs)
    part = (repeaters + people % 5) % 4
    check_answers(make_rows(repeaters), dict(list(QUESTIONS["typed"].items())[part::8]))


@pytest.mark.parametrize("people", [1, 3, 4, 100])
@pytest.mark.parametrize("steps", [0, 1, 10, 29, 10**6])
def test_every_person_and_step_is_in_one_slice(people, steps):
    whole = Slice(replace(SUM, first=5, last=34), 10, 1, 2)
    found = [part for share in whole.shares(people) for part in share.stretches(steps)]
    for step in range(5, 35):
        mine = [s for s in found if s.question.first <= step <= s.question.last]
        held = sorted(h for h in range(120) for s in mine if h % s.of == s.rest)
        assert held == [h for h in range(120) if h % 2 == 1]
    assert all(s.people <= people and s.steps <= max(1, steps) for s in found)


@pytest.fixture
def asked(monkeypatch):
    """The statements that an engine asks of DuckDB."""
    statements, real = [], DuckEngine._run

    def run(self, sql, **options):
        statements.append(sql)
        return real(self, sql, **options)

    monkeypatch.setattr(DuckEngine, "_run", run)
    return statements


def ask(rows, question=SUM):
    engine = open_rows(rows)
    compare(engine, question, reference.aggregate(rows, question))
    engine.close()


def test_stretches_are_as_long_as_there_are_bits_for(asked, monkeypatch):
    limit(monkeypatch, bits=len(PEOPLE) * 7)
    ask(make_rows(0))
    assert len([sql for sql in asked if "AS total" in sql]) == 5
    bits = [
        sql.partition("bitstring_agg(k, 0::BIGINT, ")[2].partition("::")[0] for sql in asked if "bitstring_agg" in sql
    ]
    assert bits == ["6", "6", "6", "6", "1"]


def test_people_are_looked_at_share_by_share_and_added_up_at_once_where_few_repeat(asked, monkeypatch):
    limit(monkeypatch, people=2)
    for repeaters in (0, 2):
        asked.clear()
        ask(make_rows(repeaters))
        looking = [sql for sql in asked if "bitstring_agg" in sql]
        assert [f"hash(r.p) % 3 = {i}" in sql for i, sql in enumerate(looking)] == [True] * 3
        assert ["hash" in sql for sql in asked if "AS total" in sql] == [False]


def test_people_of_whom_many_repeat_are_grouped_share_by_share(asked, monkeypatch):
    limit(monkeypatch, people=2, pairs=STEPS)
    ask(make_rows(3))
    adding = [sql for sql in asked if "AS total" in sql]
    assert all("JOIN repeaters" not in sql for sql in adding), "more than two, so all are grouped"
    assert {sql.partition("hash(r.p) % 3 = ")[2][:1] for sql in adding} == {"0", "1", "2"}


def test_what_is_grouped_is_cut_smaller_than_what_needs_bits_alone(asked, monkeypatch):
    limit(monkeypatch, pairs=len(PEOPLE) * 10)
    ask(make_rows(0))
    assert len([sql for sql in asked if "AS total" in sql]) == 1, "nobody repeats: nothing is grouped"
    asked.clear()
    ask(make_rows(6))
    assert len([sql for sql in asked if "AS total" in sql]) == 3, "most people repeat"
    asked.clear()
    ask(make_rows(0) * 2)
    assert len([sql for sql in asked if "AS total" in sql]) == 3, "far more readings than people and steps"


def test_groups_are_chosen_where_somebody_has_two_readings_in_a_step_alone(asked, monkeypatch):
    """To order a person's groups takes as much room as to group readings: it is done share by share, or not at all."""
    limit(monkeypatch, people=2, pairs=2 * STEPS)
    question = replace(SUM, group="room", groups=GROUPS, most_groups=1)
    ask(make_rows(0), question)
    assert not any("row_number" in sql or "hash" in sql for sql in asked if "AS total" in sql)
    asked.clear()
    ask(make_rows(1), question)
    adding = [sql for sql in asked if "AS total" in sql]
    assert len(adding) == 3
    assert all("row_number" in sql and "hash" in sql for sql in adding)


def test_totals_that_might_be_clipped_are_added_up_over_all_people_at_once(asked, monkeypatch):
    """A total beyond 2⁶² is clipped to it: that of shares of the people would be clipped one by one."""
    limit(monkeypatch, people=2, pairs=STEPS)
    most = 2**40
    rows = [{**row, "kwh": 1e12} for row in make_rows(3)]
    weights = dict.fromkeys(PEOPLE, most)
    ask(rows, replace(SUM, low=-most, high=most, least=-most, most=most, weights=weights))
    assert not any("hash(" in sql for sql in asked if "AS total" in sql)
