"""The demo's tables, plots and page; what it publishes is in tests/cli/test_demo.py."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from html.parser import HTMLParser

import numpy as np
import pyarrow.parquet as pq
import pytest

from halflife import Classical, registry
from halflife.cli.demo import run_demo
from halflife.lab.comparison import error_data, last_week_data, series_data
from halflife.lab.households.readings import SLOTS_PER_DAY
from halflife.lab.views import page as sheet
from halflife.lab.views import report
from halflife.lab.views.text import describe_parameters, three_figures
from halflife.policy.promises import RULES

HOMES, DAYS = 20, 9
STEPS = DAYS * SLOTS_PER_DAY


@pytest.fixture
def notions(monkeypatch):
    """The registry that the demo sees, and that a test may add to."""
    mine = dict(registry.NOTIONS)
    monkeypatch.setattr(registry, "NOTIONS", mine)
    return mine


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    return run_demo(tmp_path_factory.mktemp("demo") / "new" / "folder", HOMES, DAYS, seed=7)


def test_errors_are_measured_on_values_with_noise(result):
    for row, outcome in zip(error_data(result), result.outcomes, strict=True):
        noisy = outcome.published if outcome.noisy is None else outcome.noisy
        errors = [abs(y - f) for y, f in zip(noisy.tolist(), result.exact.tolist(), strict=True)]
        assert row.mean_absolute_error == pytest.approx(math.fsum(errors) / STEPS)
        assert row.relative_error == pytest.approx(math.fsum(errors) / math.fsum(result.exact.tolist()))
        assert row.last_scale == outcome.scales[-1]
        assert row.last_risk == outcome.risks[-1]
        assert row.largest_share == max(outcome.risks) / row.limit


def test_the_last_week_is_measured_with_noise_and_estimated(result):
    """Step by step, by hand; the first week, before any fit, is left out however long the run is."""
    (outcome,) = [o for o in result.outcomes if o.noisy is not None]
    (row,) = last_week_data(result)
    assert row.label == outcome.label == next(o.label for o in result.outcomes if o.notion.name == "w-event")
    week = range(max(336, STEPS - 336), STEPS)
    total = math.fsum(result.exact[k] for k in week)
    assert row.noisy == pytest.approx(math.fsum(abs(outcome.noisy[k] - result.exact[k]) for k in week) / total)
    assert row.estimate == pytest.approx(math.fsum(abs(outcome.published[k] - result.exact[k]) for k in week) / total)
    held = [abs(outcome.published[k] - result.exact[k]) <= outcome.error_band[k] for k in week]
    assert row.covered == pytest.approx(sum(held) / len(held))
    assert outcome.noisy[:336] == pytest.approx(outcome.published[:336], rel=1e-12)
    assert np.abs(outcome.noisy[336:] - outcome.published[336:]).max() > 0.1
    (line,) = report.estimate_lines(result)
    assert outcome.label in line


# Notions to come ----------------------------------------------------------------------------------------------------

NASTY = '<img src=x onerror="document.title=1">'


@dataclass(frozen=True)
class Nasty(Classical):
    """A notion whose <i>words</i> are not HTML."""

    name = NASTY
    not_protected = ("<b>Everything</b> & more",)


def test_a_new_notion_needs_its_rules_alone_and_its_words_are_escaped(notions, monkeypatch, tmp_path):
    notions[NASTY] = Nasty
    monkeypatch.setitem(registry.PLANS, (NASTY, "tight"), registry.find_plan("classical", "tight"))
    monkeypatch.setitem(RULES, NASTY, RULES["classical"])
    result = run_demo(tmp_path, 5, 1)
    assert set(pq.read_table(result.parquet)["notion"].to_pylist()) == set(notions)
    page = read_page(result.report)
    assert not {"img", "b", "i"} & set(page.tags)
    assert NASTY in page.text
    assert "<b>Everything</b> & more" in page.all("li")


def test_what_is_in_a_plot_cannot_leave_its_script():
    figure = report.load_plotly().Figure(layout={"title": {"text": "</script><img src=x>"}})
    page = Page()
    page.feed(sheet.figure_html("plot", figure, "label", "caption"))
    assert "img" not in page.tags
    spec = json.loads(next(text for tag, _, text in page.elements if tag == "script"))
    assert spec["layout"]["title"]["text"] == "</script><img src=x>"


def test_parameters_in_words():
    class Odd(Classical):
        def to_dict(self):
            parts = {"half_life": 48, "process": {"name": "two states"}, "secrets": [1, 2], "alpha": None}
            return {"name": "odd", "epsilon": 0.5, "delta": 1e-6, **parts}

    assert describe_parameters(Odd(0.5)) == "ε = 0.5, δ = 1e-6, half life = 48, process = two states, secrets = 2 items"


# What is written ----------------------------------------------------------------------------------------------------


class Page(HTMLParser):
    """What a test needs of a page: its tags, the addresses in it, its text, and the text of each kind of element."""

    VOID = ("meta", "link", "br", "img", "input", "hr")

    def __init__(self):
        super().__init__()
        self.tags, self.addresses, self.open = [], [], []
        self.elements = []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.addresses += [v for k, v in attrs if k in ("src", "href", "srcset", "action", "data")]
        if tag not in self.VOID:
            self.open.append((tag, dict(attrs), []))

    def handle_endtag(self, tag):
        opened, attributes, texts = self.open.pop()
        assert opened == tag, f"<{opened}> is closed by </{tag}>"
        self.elements.append((tag, attributes, "".join(texts)))

    def handle_data(self, data):
        for _, _, texts in self.open:
            texts.append(data)

    def all(self, tag):
        return [text for t, _, text in self.elements if t == tag]

    @property
    def text(self):
        return " ".join(t for tag in ("h1", "h2", "h3", "p", "li", "th", "td", "pre") for t in self.all(tag))


def read_page(path):
    page = Page()
    page.feed(path.read_text(encoding="utf-8"))
    page.close()
    assert not page.open, "every element is closed"
    return page


@pytest.fixture(scope="module")
def page(result):
    return read_page(result.report)


def test_the_report_stands_alone(page, result):
    assert all(a.startswith(("#", "data:")) for a in page.addresses), page.addresses
    text = result.report.read_text(encoding="utf-8")
    assert text.count("plotly.js v") == 1
    assert "@import" not in sheet.STYLE
    assert "url(" not in sheet.STYLE


def test_the_report_has_its_headings_table_and_labels(page, result):
    assert len(page.all("h1")) == 1
    assert page.all("caption")
    assert "generated" in page.all("p")[0]
    assert [h for h in page.all("h2") if any(name in h for name in registry.NOTIONS)]
    html = next(attributes for tag, attributes, _ in page.elements if tag == "html")
    assert html["lang"] == "en"
    plots = [a for tag, a, _ in page.elements if a.get("class") == "plot"]
    assert len(plots) == 2 + len(registry.NOTIONS)
    assert all(a["aria-label"] for a in plots)
    cells = page.all("td")
    for row in error_data(result):
        assert three_figures(row.mean_absolute_error) in cells
        assert three_figures(row.last_scale) in cells


def test_each_section_says_first_what_is_not_protected(page, result):
    for i, outcome in enumerate(result.outcomes):
        section = next(t for tag, a, t in page.elements if tag == "section" and a["aria-labelledby"] == f"notion-{i}")
        places = [section.index(text) for text in outcome.plan.not_protected()]
        assert section.index("What is not protected") < min(places)
        words = [*outcome.notion.in_other_words(), "Read classically, with nothing forgotten"]
        said = [section.index(text) for text in words]
        assert max(places) < section.index("In other words") < min(said)
        assert max(said) < section.index("What was published") < section.index("Certificate")
    certificates = [json.loads(text) for text in page.all("pre")]
    assert certificates == [json.loads(json.dumps(o.plan.certificate())) for o in result.outcomes]


def test_the_plots_show_the_data(result):
    for i, outcome in enumerate(result.outcomes):
        data = series_data(result, outcome)
        lines = {t.name: t for t in report.plot_series(result, outcome).data}
        middle, name = result.exact, "published"
        if outcome.noisy is not None:
            middle, name = outcome.published, "published estimate"
            assert np.array_equal(lines["with noise, before post-processing"].y, outcome.noisy)
        assert np.array_equal(lines[name].y, outcome.published)
        assert np.array_equal(lines["exact"].y, result.exact)
        assert data["high"] - middle == pytest.approx(outcome.error_band)
        assert middle - data["low"] == pytest.approx(outcome.error_band)
        assert np.array_equal(report.plot_scales(result).data[i].y, outcome.scales)
        assert np.array_equal(report.plot_risks(result).data[i].y, outcome.risks / outcome.limit)
        assert lines["exact"].x0 == str(result.times[0])
        assert np.timedelta64(lines["exact"].dx, "ms") == result.times[1] - result.times[0]


def test_views_hold_all_that_they_show(result):
    for outcome in result.outcomes:
        views = report.series_views(result, outcome)
        assert [v.label for v in views] == ["Everything", "First week", "Last week", "Last day"]
        for view in views:
            inside = (result.times >= np.datetime64(view.first)) & (result.times < np.datetime64(view.last))
            values = np.concatenate([y[inside] for y in series_data(result, outcome).values()])
            assert view.low < values.min() < values.max() < view.high
        spans = {v.label: np.datetime64(v.last) - np.datetime64(v.first) for v in views}
        assert spans["Last week"] == np.timedelta64(7, "D")
        assert spans["Last day"] == np.timedelta64(1, "D")
        assert report.default_view(views).label == "Last week"


def test_a_single_day_has_a_single_view(notions, tmp_path):
    result = run_demo(tmp_path, 2, 1)
    assert [v.label for v in report.series_views(result, result.outcomes[0])] == ["Everything"]


@pytest.mark.parametrize(
    ("x", "text"),
    [
        (0.0333, "0.0333"),
        (0.99951, "1.00"),
        (9.996, "10.0"),
        (1234567.0, "1,230,000"),
        (1e-9, "0.00000000100"),
        (0.0, "0"),
    ],
)
def test_three_figures(x, text):
    assert three_figures(x) == text
