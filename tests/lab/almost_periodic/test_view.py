"""The test of almost-periodicity as pictures, text and page."""

from __future__ import annotations

import io
import json
import re

import numpy as np
import pytest
from rich.console import Console

from browser import opened
from halflife import InvalidInput
from halflife.lab.almost_periodic import view
from halflife.lab.almost_periodic.periodicity import best_period, check_period


@pytest.fixture(scope="module")
def readings():
    """Twelve homes, forty days of four steps, that drift; one day is missing everywhere."""
    rng = np.random.default_rng(0)
    x = rng.uniform(1, 3, (12, 1)) * np.tile([1.0, 2.0, 4.0, 3.0], 40) + rng.normal(size=(12, 160))
    x += np.repeat(np.linspace(-2, 2, 40), 4) * rng.choice([-1, 1], (12, 1))
    x[:, 40:44] = np.nan
    return x


@pytest.fixture(scope="module")
def check(readings):
    return check_period(readings, 4, step_minutes=360)


@pytest.fixture(scope="module")
def choice(readings):
    return best_period(readings, (4, 28), step_minutes=360, copies=5)


def text_of(result, width=120):
    out = io.StringIO()
    view.print_periodicity(result, Console(file=out, width=width, markup=False, highlight=False))
    return out.getvalue()


def test_the_heatmap_holds_the_matrix(check):
    data = view.heatmap_data(check)
    assert data.block == 1
    assert data.limit == check.maximum
    np.testing.assert_array_equal(data.cells, check.rho)
    assert np.isnan(data.cells[10]).all()


def test_a_large_heatmap_holds_means_of_blocks(check):
    data = view.heatmap_data(check, most=14)
    assert data.block == 3
    assert data.cells.shape == (14, 14)
    assert data.cells[1, 4] == pytest.approx(check.rho[3:6, 12:15].mean())
    assert data.cells[3, 0] == pytest.approx(np.nanmean(check.rho[9:12, 0:3]))
    assert data.cells[13, 13] == pytest.approx(1.0)


def test_the_histogram_counts_every_pair_once(check):
    edges, own, null = view.histogram_data(check, bins=10)
    assert own.sum() == pytest.approx(1.0)
    assert null.sum() == pytest.approx(1.0)
    pairs = check.coefficients()
    assert len(pairs) == 39 * 38 // 2
    assert own[3] == pytest.approx(np.mean((pairs >= edges[3]) & (pairs < edges[4])))


def test_lags_are_in_days_and_leave_out_the_last_few(check):
    days, mean, low, high = view.lag_data(check)
    assert (days[0], days[-1]) == (1.0, 32.0)
    assert mean[0] == check.at_lag(1).mean
    assert (low <= high).all()


def test_the_figures_show_these_numbers(check):
    heatmap = view.plot_heatmap(check)
    assert (heatmap.data[0].zmin, heatmap.data[0].zmax) == (-check.maximum, check.maximum)
    assert heatmap.data[0].x0 == 1
    assert [trace.name for trace in view.plot_histogram(check).data] == ["shuffled", "observed"]
    assert view.plot_lags(check).data[-1].y[0] == check.at_lag(1).mean


def test_the_text_has_the_verdict_the_numbers_and_what_it_does_not_say(choice):
    text = " ".join(text_of(choice).split())
    for check in choice.checks:
        assert f"{check.median:.3f}" in text
        assert check.outcome in text
        assert check.findings == () or check.findings[0].text in text
    assert choice.reason in text
    assert choice.best.tells.text in text
    assert "never uses independence" in text
    assert "without noise" in text


def test_bars_are_as_long_as_shares(check):
    lines = view.bars(check, bins=4, width=20)[1:]
    _, own, null = view.histogram_data(check, 4)
    for line, a in zip(lines, own, strict=True):
        assert line.count("█") == round(20 * a / max(own.max(), null.max()))
        assert f"{100 * a:5.1f} %" in line


def test_nothing_that_varies_can_be_shown_too(tmp_path):
    check = check_period(np.tile([1.0, 2.0], (3, 20)), 2)
    assert "nothing is left that varies" in text_of(check)
    view.write_periodicity_page(check, tmp_path / "page.html")


def test_the_page_has_it_all(choice, tmp_path):
    path = tmp_path / "deep" / "page.html"
    view.write_periodicity_page(choice, path)
    page = path.read_text(encoding="utf-8")
    assert "What this does not say" in page
    for text in (
        "0.1259",
        "0.0746",
        "0.33",
        "Ausgrid",
        "UMass",
        "A period of a day: contradicted",
        "A period of a week",
    ):
        assert text in page
    specs = re.findall(r'<script type="application/json" data-plot="([^"]+)">(.*?)</script>', page, flags=re.S)
    assert [name for name, _ in specs] == [f"{what}-{i}" for i in (0, 1) for what in ("histogram", "lags", "heatmap")]
    for _, spec in specs:
        assert all(trace["meta"]["colours"] for trace in json.loads(spec)["data"])


def test_a_page_that_cannot_be_written_is_refused(check, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match="cannot write"):
        view.write_periodicity_page(check, tmp_path / "file" / "page.html")


@pytest.mark.parametrize(("scheme", "width"), [("light", 1200), ("dark", 390)])
def test_the_page_is_drawn_in_a_browser(chromium, choice, tmp_path, scheme, width):
    view.write_periodicity_page(choice, tmp_path / "page.html")
    with opened(chromium, tmp_path / "page.html", width, scheme) as page:
        assert page.locator(".plot .main-svg").count() >= 12
        assert page.locator(".heatmaplayer image").count() == 2
