"""Tables and page of `halflife accuracy`: they show the cases' own numbers, and the page fits every window."""

import json

import numpy as np
import pytest

import browser
from halflife.lab.accuracy.cases import LIVE, METHODS, RAW, REVISED, Case, Score
from halflife.lab.accuracy.series import Noise, Source, read_series
from halflife.lab.accuracy.view import QUANTITIES, curve_data, markdown, notes, table_data, write_all
from halflife.postprocessing.base import Estimate

SMALL = Source("small", "a <small> series", "kWh", "2026-01-05", 80, 4, (), ("absent.parquet",))


@pytest.fixture
def case():
    series = read_series(SMALL)
    scores = {m: Score(0.1 + i / 100, 0.9 + i / 1000, float(i)) for i, m in enumerate(METHODS)}
    first = {m: Estimate(series.truth + i, np.full((80, 1), 0.5)) for i, m in enumerate(METHODS)}
    return Case(series, Noise(0.37, "3,250 homes"), scores, first)


def test_a_row_has_the_scores_of_each_method_in_order(case):
    name = ("a <small> series (generated)", "0.37 (3,250 homes)")
    error, coverage, seconds = (table_data([case], quantity)[0] for quantity in QUANTITIES)
    assert error == (*name, "10.0", "11.0", "12.0", "13.0", "14.0")
    assert coverage == (*name, "90.0", "90.1", "90.2", "90.3", "90.4")
    assert seconds == (*name, "0.0", "1.0", "2.0", "3.0", "4.0")
    assert "| a <small> series (generated) | 0.37 (3,250 homes) | 10.0 |" in markdown([case], 1)


def test_notes_say_what_the_reader_has_to_know(case):
    said = " ".join(notes([case], 3))
    assert "Mean of 3 seeds" in said
    assert "ε = 1 a day" in said
    assert "files are not here" in said


def test_curves_are_the_newest_week_with_the_live_band(case):
    curves = curve_data(case)
    assert len(curves.times) == 28
    assert str(curves.times[-1]) == "2026-01-24T18:00:00"
    assert (curves.truth == case.series.truth[-28:, 0]).all()
    assert (curves.raw == case.first[RAW].values[-28:, 0]).all()
    assert (curves.low == case.first[LIVE].values[-28:, 0] - 0.5).all()
    assert (curves.high == case.first[LIVE].values[-28:, 0] + 0.5).all()
    assert (curves.revised == case.first[REVISED].values[-28:, 0]).all()
    assert curves.extent[0] < curves.truth.min()
    assert curves.extent[1] > curves.high.max()


def test_the_page_fits_and_follows_light_and_dark(case, tmp_path, chromium):
    page, tables, numbers = write_all([case, case], 1, tmp_path / "new")
    assert tables.read_text().startswith("## Error")
    assert json.loads(numbers.read_text())[1]["methods"]["raw"] == {"error": 0.1, "coverage": 0.9, "seconds": 0.0}
    colours = set()
    for width, scheme in ((1100, "light"), (420, "dark")):
        with browser.opened(chromium, page, width, scheme) as shown:
            assert "a <small> series (generated)" in shown.inner_text("h3 >> nth=4")
            colours.add(tuple(shown.evaluate(browser.COLOURS)))
    assert len(colours) == 2
