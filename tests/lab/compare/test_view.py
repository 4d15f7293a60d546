"""Tables, CSV, Markdown and the page of a comparison."""

from __future__ import annotations

import csv
import io
import json
import math
import re

import numpy as np
import pytest

import halflife as hl
from halflife.lab.compare.tables import format_csv, lens_heads, lens_lines, markdown, show
from halflife.lab.compare.view import page_body, plot_curve, plot_day, plot_errors, write_all


@pytest.fixture(scope="module")
def result():
    return hl.compare(
        ["uniform", "bd"], "taxis", notions=["almost-periodic,period=6", "hyperbolic,beta=0.1"], w=12, repetitions=3,
        post=["moving-average=3"],
    )  # fmt: skip


def test_it_prints_as_a_table_and_says_that_looking_is_not_free(result):
    text = str(result)
    for row in result.rows:
        assert row["mechanism"] in text
    assert "is itself a query on it, and not free" in text
    assert "Simulation noise only" in text
    assert "1 % of the sum of the whole stream" in text
    assert repr(result) == "<Compared: 8 rows on San Francisco 2008, taxis downtown, 10 minutes>"


def test_json_is_strict_and_has_every_row(result):
    found = json.loads(result.to_json(), parse_constant=pytest.fail)
    assert [row["mechanism"] for row in found["rows"]] == [row["mechanism"] for row in result.rows]
    assert found["rows"][4]["epsilon_classical"] == "inf"
    assert found["settings"]["sensitivity"] == 1.0
    assert found["series"]["name"] == "taxis"


def test_csv_has_the_same_numbers(result):
    rows = list(csv.DictReader(io.StringIO(format_csv(result.rows))))
    assert len(rows) == len(result.rows)
    for made, row in zip(rows, result.rows, strict=True):
        assert float(made["mae"]) == row["mae"]
        assert made["expected_mae"] == ("" if row["expected_mae"] is None else str(row["expected_mae"]))
        assert float(made["epsilon_classical"]) == row["epsilon_classical"]
        assert int(made["worst_step"]) == row["worst_step"]["step"]


def test_lenses_of_one_repetition_have_a_star(result):
    heads, lines = lens_heads(result.rows), {line[0]: line[1:] for line in lens_lines(result.rows)}
    place = heads.index("hyperbolic (β = 0.1)")
    assert lines["bd"][place].endswith("*")
    assert not lines["uniform"][place].endswith("*")
    assert lines["almost-periodic,period=6"][heads.index("classical")] == "∞"


def test_plots_have_the_numbers(result):
    bars = plot_errors(result)
    assert list(bars.data[0].x)[::-1] == [row["mae"] for row in result.rows]
    assert list(bars.data[1].x)[::-1] == [row["expected_mae"] for row in result.rows if row["expected_mae"] is not None]
    curve = plot_curve(result, 2)
    assert np.array_equal(curve.data[0].y, result.outputs[2][-300:])
    assert np.array_equal(curve.data[1].y, result.truth[-300:])
    day = plot_day(result)
    assert list(day.data[0].y) == list(result.rows[0]["by_time_of_day"].values())
    assert plot_day(hl.compare(["uniform"], [1.0, 2.0], repetitions=1)) is None


def test_the_page_and_its_files(result, tmp_path):
    written = write_all(result, tmp_path / "new")
    assert [path.name for path in written] == ["report.html", "rows.json", "rows.csv", "tables.md"]
    page = written[0].read_text()
    assert len(re.findall(r'data-plot="curve-\d+"', page)) == 8
    assert json.loads(written[1].read_text())["rows"]
    assert written[3].read_text() == markdown(result.rows)
    assert not re.search(r"https?://(?!www\.w3\.org)[^\"' ]*\.js", page_body(result)), "it needs no network"


def test_names_are_text_on_the_page():

    from halflife.registry import MECHANISMS

    kind = type("Named", (MECHANISMS["uniform"],), {"name": "<script>alert(1)</script>"})
    body = page_body(hl.compare([kind], [5.0, 6.0, 7.0], w=2, repetitions=1))
    assert "<script>alert" not in body
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in body


def test_numbers_are_short():
    assert [show(x) for x in (None, math.inf, 0.0, 3859.1, 1.5e9, 2e-6)] == [
        "–",
        "∞",
        "0",
        "3,860",
        "1.50e9",
        "2.00e-6",
    ]
