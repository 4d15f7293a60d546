"""The picture of a check: it shows the rows of the check, and the page says the verdict first."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from browser import opened, turn_over
from halflife import InvalidInput, MarkovChain, MissingExtra
from halflife.lab.age_dependent.check_view import check_data, plot_check, write_check

QUICK, SLOW = MarkovChain([[0.7, 0.3], [0.3, 0.7]]), MarkovChain([[0.9, 0.1], [0.1, 0.9]])


@pytest.fixture(scope="module")
def drawn():
    rng = np.random.default_rng(0)
    return [SLOW.sample(1200, rng) for _ in range(16)]


@pytest.fixture(scope="module")
def warned(drawn):
    return QUICK.check(drawn, lags=[1, 2, 12, 48, 595])


def test_the_data_is_that_of_the_rows(warned):
    data = check_data(warned)
    assert list(data) == ["any time", "same time of day"]
    for kind, curves in data.items():
        rows = [row for row in warned.rows if row.kind == kind and row.units >= 8]
        assert curves.hours == [row.lag / 2 for row in rows]
        assert curves.direct == [row.direct for row in rows]
        assert curves.model == [row.model for row in rows]
        assert (curves.low, curves.high) == ([row.low for row in rows], [row.high for row in rows])
        assert curves.contradicted == [row.outcome == "under-reports" for row in rows]
    assert data["any time"].contradicted[:2] == [True, True]


def test_the_figure_draws_the_interval_and_both_curves_on_a_log_axis(warned):
    figure, curves = plot_check(warned), check_data(warned)["any time"]
    band, direct, model = figure.data
    assert figure.layout.xaxis.type == "log"
    assert list(figure.layout.xaxis.ticktext)[:1] == ["30 min"]
    assert (list(direct.y), list(model.y)) == (curves.direct, curves.model)
    assert list(band.y) == [*curves.high, *curves.low[::-1]]
    assert list(band.x) == [*curves.hours, *curves.hours[::-1]]
    assert band.fill == "toself"
    assert all(trace.meta["colours"] for trace in figure.data)


def test_the_page_says_the_verdict_first(warned, drawn, tmp_path):
    page = tmp_path / "new" / "check.html"
    write_check(warned, page)
    text = page.read_text(encoding="utf-8")
    assert f'<p class="lede open">{warned.verdict}</p>' in text
    assert text.index(warned.verdict) < text.index("At any time") < text.index("With the time of day held fixed")
    assert "99.9 %" in text
    assert "<td>too little data</td>" in text
    good = SLOW.check(drawn, lags=[1, 2, 12], slots=None)
    write_check(good, page)
    text = page.read_text(encoding="utf-8")
    assert f'<p class="lede">{good.verdict}</p>' in text
    assert "With the time of day held fixed" not in text


def test_nothing_to_draw_is_said(drawn, tmp_path):
    poor = SLOW.check(drawn[0][:50])
    with pytest.raises(InvalidInput, match="nothing to draw"):
        plot_check(poor)
    with pytest.raises(InvalidInput, match="same time of day"):
        plot_check(poor, "same time")
    write_check(poor, tmp_path / "poor.html")
    assert "Too little data" in (tmp_path / "poor.html").read_text(encoding="utf-8")


def test_a_place_that_cannot_be_written_to_is_refused(warned, tmp_path):
    (tmp_path / "check.html").mkdir()
    with pytest.raises(InvalidInput, match="cannot write"):
        write_check(warned, tmp_path / "check.html")
    with pytest.raises(InvalidInput, match=r"ends in \.html"):
        write_check(warned, tmp_path)


def test_without_plotly_the_extra_is_named(warned, monkeypatch):
    monkeypatch.setitem(sys.modules, "plotly.graph_objects", None)
    with pytest.raises(MissingExtra, match="report"):
        plot_check(warned)


def test_the_page_is_drawn_in_a_browser_and_fits(chromium, warned, tmp_path):
    write_check(warned, tmp_path / "check.html")
    with opened(chromium, tmp_path / "check.html") as page:
        assert page.locator(".plot").count() == 2
        turn_over(page)
