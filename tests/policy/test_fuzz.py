"""Whatever a policy holds, it loads or is refused in words: no other error ever comes out."""

from __future__ import annotations

import copy
import json
import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from halflife.parsing.documents import parse_document
from halflife.policy import Policy, PolicyError, channels, explain, ledger_facts
from policy.towns import GOOD, moving, write_tables

ODD = [
    None, "", " ", "0", "-1", "1", "1e6", "1e-400", "1e400", "nan", "inf", "no", "yes", "~", "null", "12:30", "007", "\0",
    "\n", "é", "💡", "30 min", "1 day", "0 s", "99999999 weeks", "1 µs", "Europe/London", "2026-01-01", "9999-12-31",
    "1900-01-01", "2026-03-29T01:30", "kWh", "5 kWh", "1/3", "a.csv", "homes.csv", "/", "..", "~x", "-", "x" * 501,
    "optimal", "paper", "constant", "w-event", "classical", "count", "mean", "histogram", "quantile", "weighted sum", "sum",
    "add-remove", "gaussian", [], {}, [None], [[]], {"a": None}, {"": ""}, [0, 1], ["0", "5 kWh", "1"], True, False,
    0, -1, 2, 0.5, 10**30, math.nan, math.inf,
]  # fmt: skip


def places(data, where=()):
    """Every key and index of plain data."""
    if isinstance(data, dict | list):
        for key in data if isinstance(data, dict) else range(len(data)):
            yield (*where, key)
            yield from places(data[key], (*where, key))


def parent(data, where):
    for key in where[:-1]:
        data = data[key]
    return data


@st.composite
def broken(draw):
    """A good policy with one to three of its parts dropped, renamed, doubled or replaced."""
    data = copy.deepcopy(parse_document(draw(st.sampled_from([GOOD, moving()]))).data)
    for _ in range(draw(st.integers(1, 3))):
        where = draw(st.sampled_from(list(places(data))))
        home, key = parent(data, where), where[-1]
        what = draw(st.sampled_from(["replace", "replace", "replace", "drop", "rename", "double", "add"]))
        if what == "replace":
            home[key] = copy.deepcopy(draw(st.sampled_from(ODD)))
        elif what == "drop":
            del home[key]
        elif what == "rename" and isinstance(home, dict):
            home[draw(st.sampled_from([key[:-1], key + "s", key.upper(), 7, ""])) if isinstance(key, str) else "x"] = (
                home.pop(key)
            )
        elif what == "double" and isinstance(home, list):
            home.append(copy.deepcopy(home[key]))
        elif isinstance(home, dict):
            extra = draw(
                st.sampled_from(
                    ["step", "share", "start", "end", "cap", "noise", "plan", "delta", "edges", "weights", "sizes"]
                )
            )
            home[extra] = copy.deepcopy(draw(st.sampled_from(ODD)))
        if not list(places(data)):
            break
    return data


def load_or_refuse(load):
    try:
        policy = load()
    except PolicyError:
        return
    for c in channels(policy):
        assert list(explain(c))
        assert c.sensitivity.l1 >= 1
        assert c.losses(1, 1)[0] > 0
        c.smoothers()
        if c.part.source is not None:
            c.question(1, 1)
    assert ledger_facts(policy)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_tables(tmp_path_factory.mktemp("town"))


@settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck))
@given(broken())
def test_a_broken_policy_is_refused_in_words(folder, data):
    load_or_refuse(lambda: Policy.from_dict(data, folder))


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(broken())
def test_a_broken_policy_is_refused_in_words_as_text_too(folder, data):
    load_or_refuse(lambda: Policy.parse(json.dumps(data), folder))


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_cut_and_garbled_text_is_refused_in_words(folder, data):
    start = data.draw(st.integers(0, len(GOOD)))
    end = data.draw(st.integers(start, min(len(GOOD), start + 40)))
    rubbish = data.draw(st.text(st.sampled_from("abz019:-[]{}&*!|>'\"%@`#?,~\t\n \\\0\ufeff\x85é"), max_size=6))
    load_or_refuse(lambda: Policy.parse(GOOD[:start] + rubbish + GOOD[end:], folder))


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text):
    load_or_refuse(lambda: Policy.parse(text))


TABLES = st.one_of(st.binary(max_size=80), st.text("who,where\nab\"'\r\0;1", max_size=60).map(str.encode))


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(TABLES, st.booleans(), st.sampled_from(["csv", "parquet"]))
def test_any_table_is_read_or_refused(folder, content, header, ending):
    (folder / f"any.{ending}").write_bytes((b"who,where\n" if header else b"") + content)
    load_or_refuse(lambda: Policy.parse(GOOD.replace("homes.csv", f"any.{ending}"), folder))
