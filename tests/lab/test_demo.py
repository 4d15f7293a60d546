"""The demo: what it publishes, what it writes, and that no notion is left out."""

from __future__ import annotations

import json
import math
import random
import sys
from dataclasses import dataclass, replace
from fractions import Fraction
from html.parser import HTMLParser

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from halflife import Accountant, Classical, HalflifeError, InvalidInput, MissingExtra, registry
from halflife.lab import demo, report
from halflife.lab import page as sheet
from halflife.lab.households import MAX_KWH, SLOTS_PER_DAY
from halflife.numerics import TOLERANCE

NOTIONS = {name: cls for name, cls in registry.NOTIONS.items() if cls.__module__.startswith("halflife.")}
"""The package's own: other tests register fakes."""

HOMES, DAYS = 20, 9
STEPS = DAYS * SLOTS_PER_DAY


@pytest.fixture
def notions(monkeypatch):
    """The registry that the demo sees, and that a test may add to."""
    mine = dict(NOTIONS)
    monkeypatch.setattr(registry, "NOTIONS", mine)
    return mine


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "NOTIONS", NOTIONS)
        yield demo.run_demo(tmp_path_factory.mktemp("demo") / "new" / "folder", HOMES, DAYS, seed=7)


# The exact mean -----------------------------------------------------------------------------------------------------


def test_the_mean_is_exact_and_knows_no_order():
    rng = np.random.default_rng(3)
    kwh = rng.gamma(0.5, 1.5, (37, 50))
    expected = [
        float(Fraction(sum(min(5000, max(0, round(float(x) * 1000))) for x in column), 37_000)) for column in kwh.T
    ]
    means = demo.mean_per_home(kwh)
    assert means.tolist() == expected
    assert (kwh > MAX_KWH).any(), "the clip was put to use"
    for _ in range(5):
        assert np.array_equal(demo.mean_per_home(rng.permutation(kwh)), means)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e300])
def test_a_bad_reading_is_refused(bad):
    with pytest.raises(InvalidInput, match="bad readings"):
        demo.mean_per_home(np.array([[0.1], [bad]]))


def test_the_sensitivity_holds_for_the_rounded_means():
    """One home moves the total by up to 5000 Wh; the plain quotient 5 / n is too small for some of the rounded means."""
    rng = random.Random(5)
    too_small = 0
    for _ in range(3000):
        homes = rng.randint(1, 2000)
        total = rng.randint(0, (homes - 1) * 5000)
        one, other = (np.float64(t) / (1000 * homes) for t in (total, total + 5000))
        moved = Fraction(float(other)) - Fraction(float(one))
        assert moved <= Fraction(demo.mean_sensitivity(homes))
        too_small += moved > Fraction(MAX_KWH / homes)
    assert too_small > 100
    assert demo.mean_sensitivity(300) == pytest.approx(5 / 300, rel=1e-12)


# What is published --------------------------------------------------------------------------------------------------

NOISE_STEPS = 16_000
MEAN_OF_UNIT_SCALE = {"laplace": 1.0, "gaussian": math.sqrt(2 / math.pi)}


@pytest.mark.parametrize("notion", [*(cls.examples()[0] for cls in NOTIONS.values()), Classical(1.0, 1e-6)], ids=repr)
def test_the_noise_is_what_the_plan_says(notion):
    """Mean |noise| / scale of 16,000 steps is within 5 %: 6.3 standard errors (false alarms: 1e-9).

    Where the scale is 10 % wrong either way it is not, which is looked at as well: 5.7 standard errors, 1e-8 each.
    """
    exact = np.full(NOISE_STEPS, 0.3)
    outcome = demo.publish_under(notion, exact, sensitivity=0.01)
    noise = np.abs(outcome.published - exact)
    unit = noise / (outcome.plan.scales(NOISE_STEPS) * MEAN_OF_UNIT_SCALE[outcome.plan.noise])

    def agrees(ratio):
        return abs(ratio.mean() - 1) < 0.05

    assert agrees(unit)
    assert not agrees(unit * 1.1)
    assert not agrees(unit / 1.1)
    assert abs(np.mean(noise <= outcome.error_band) - 0.95) < 0.011  # 6.4 standard errors
    assert outcome.scales == pytest.approx(outcome.plan.scales(NOISE_STEPS), rel=1e-9)


def test_every_registered_notion_is_there(result):
    assert [o.notion.name for o in result.outcomes] == list(NOTIONS)
    assert len(NOTIONS) >= 2
    for outcome in result.outcomes:
        assert outcome.notion == NOTIONS[outcome.notion.name].examples()[0]
        assert [r.step for r in outcome.releases] == list(range(1, STEPS + 1))
        assert outcome.plan.sensitivity == demo.mean_sensitivity(HOMES)


def test_the_promise_is_kept_and_the_risk_is_what_the_releases_cost(result):
    for outcome in result.outcomes:
        account = Accountant.replay(outcome.notion, outcome.releases)
        assert account.risk(STEPS) <= outcome.risks[-1] * (1 + TOLERANCE)
        assert account.risk(STEPS) == pytest.approx(outcome.risks[-1], rel=1e-6)
        assert outcome.limit == account.exposure(STEPS).limit
        assert (demo.risk_share(outcome) <= 1 + TOLERANCE).all()


def test_the_seed_makes_the_homes_and_never_the_noise(result, notions, tmp_path):
    again = demo.run_demo(tmp_path, HOMES, DAYS, seed=7)
    assert np.array_equal(again.exact, result.exact)
    for one, other in zip(result.outcomes, again.outcomes, strict=True):
        assert np.mean(one.published == other.published) < 0.01


def test_errors_are_measured_on_what_was_published(result):
    for row, outcome in zip(demo.error_data(result), result.outcomes, strict=True):
        errors = [abs(y - f) for y, f in zip(outcome.published.tolist(), result.exact.tolist(), strict=True)]
        assert row.mean_absolute_error == pytest.approx(math.fsum(errors) / STEPS)
        assert row.relative_error == pytest.approx(math.fsum(errors) / math.fsum(result.exact.tolist()))
        assert row.last_scale == outcome.releases[-1].scale
        assert row.last_risk == outcome.risks[-1]
        assert row.largest_share == max(outcome.risks) / row.limit


def test_progress_goes_from_nothing_to_all(notions, tmp_path):
    seen = []
    demo.run_demo(tmp_path, 2, 1, 1, lambda *call: seen.append(call))
    done = [d for _, d, _ in seen]
    assert done == list(range(len(NOTIONS) + 3))
    assert {total for *_, total in seen} == {len(NOTIONS) + 2}
    assert all(any(name in what for what, *_ in seen) for name in NOTIONS)


# Notions to come ----------------------------------------------------------------------------------------------------

NASTY = '<img src=x onerror="document.title=1">'


@dataclass(frozen=True)
class Nasty(Classical):
    """A notion whose <i>words</i> are not HTML."""

    name = NASTY
    not_protected = ("<b>Everything</b> & more",)


@dataclass(frozen=True)
class Needy(Classical):
    """A notion that the demo cannot serve."""

    name = "needy"

    def plan(self, **request):
        raise InvalidInput("it needs secrets")


@dataclass(frozen=True)
class Sparse(Classical):
    """A notion that publishes every other step."""

    name = "sparse"

    def plan(self, **request):
        return replace(Classical(1.0).plan(every=2, **request), notion=self)


def test_a_new_notion_needs_no_change_and_its_words_are_escaped(notions, monkeypatch, tmp_path):
    notions[NASTY] = Nasty
    monkeypatch.setitem(registry.PLANS, (NASTY, "tight"), registry.find_plan("classical", "tight"))
    result = demo.run_demo(tmp_path, 5, 1)
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


@pytest.mark.parametrize(("cls", "says"), [(Needy, "needy: it needs secrets"), (Sparse, "only 24 of 48")])
def test_a_notion_that_cannot_be_served_stops_the_demo(notions, tmp_path, cls, says):
    notions[cls.name] = cls
    with pytest.raises(HalflifeError, match=says):
        demo.run_demo(tmp_path / "out", 5, 1)
    assert not (tmp_path / "out").exists()


def test_parameters_in_words():
    class Odd(Classical):
        def to_dict(self):
            parts = {"half_life": 48, "process": {"name": "two states"}, "secrets": [1, 2], "alpha": None}
            return {"name": "odd", "epsilon": 0.5, "delta": 1e-6, **parts}

    assert demo.parameters(Odd(0.5)) == "ε = 0.5, δ = 1e-6, half life = 48, process = two states, secrets = 2 items"


# What is written ----------------------------------------------------------------------------------------------------


def test_the_parquet_file_holds_what_was_published_and_nothing_exact(result):
    table = pq.read_table(result.parquet)
    assert table.column_names == [
        "notion", "step", "step_start", "value", "scale", "loss", "sensitivity", "noise", "error_band",
    ]  # fmt: skip
    assert table.num_rows == STEPS * len(NOTIONS)
    assert table.schema.field("step_start").type == pa.timestamp("us", tz="UTC")
    assert table["value"].null_count == 0
    for outcome in result.outcomes:
        rows = table.filter(pa.compute.equal(table["notion"], outcome.notion.name))
        assert rows["value"].to_numpy().tolist() == outcome.published.tolist()
        assert rows["step"].to_pylist() == list(range(1, STEPS + 1))
        starts = rows["step_start"].cast(pa.timestamp("us")).to_numpy()
        assert np.array_equal(starts, result.times)
        for name in ("scale", "loss", "sensitivity", "noise"):
            assert rows[name].to_pylist() == [getattr(r, name) for r in outcome.releases]
        band = {"laplace": math.log(20), "gaussian": 1.959964}
        expected = [band[r.noise] * r.scale for r in outcome.releases]
        assert rows["error_band"].to_pylist() == pytest.approx(expected, rel=1e-6)
    assert not np.isin(table["value"].to_numpy(), result.exact).any()


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
    assert [h for h in page.all("h2") if any(name in h for name in NOTIONS)]
    html = next(attributes for tag, attributes, _ in page.elements if tag == "html")
    assert html["lang"] == "en"
    plots = [a for tag, a, _ in page.elements if a.get("class") == "plot"]
    assert len(plots) == 2 + len(NOTIONS)
    assert all(a["aria-label"] for a in plots)
    cells = page.all("td")
    for row in demo.error_data(result):
        assert demo.three_figures(row.mean_absolute_error) in cells
        assert demo.three_figures(row.last_scale) in cells


def test_each_section_says_first_what_is_not_protected(page, result):
    for i, outcome in enumerate(result.outcomes):
        section = next(t for tag, a, t in page.elements if tag == "section" and a["aria-labelledby"] == f"notion-{i}")
        places = [section.index(text) for text in outcome.notion.not_protected]
        assert section.index("What is not protected") < min(places)
        words = [*outcome.notion.in_other_words(), "Read classically, with nothing forgotten"]
        said = [section.index(text) for text in words]
        assert max(places) < section.index("In other words") < min(said)
        assert max(said) < section.index("What was published") < section.index("Certificate")
    certificates = [json.loads(text) for text in page.all("pre")]
    assert certificates == [json.loads(json.dumps(o.plan.certificate())) for o in result.outcomes]


def test_the_plots_show_the_data(result):
    for i, outcome in enumerate(result.outcomes):
        data = demo.series_data(result, outcome)
        lines = {t.name: t for t in report.plot_series(result, outcome).data}
        assert np.array_equal(lines["published"].y, outcome.published)
        assert np.array_equal(lines["exact"].y, result.exact)
        assert data["high"] - result.exact == pytest.approx(outcome.error_band)
        assert result.exact - data["low"] == pytest.approx(outcome.error_band)
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
            values = np.concatenate([y[inside] for y in demo.series_data(result, outcome).values()])
            assert view.low < values.min() < values.max() < view.high
        spans = {v.label: np.datetime64(v.last) - np.datetime64(v.first) for v in views}
        assert spans["Last week"] == np.timedelta64(7, "D")
        assert spans["Last day"] == np.timedelta64(1, "D")
        assert report.default_view(views).label == "Last week"


def test_a_single_day_has_a_single_view(notions, tmp_path):
    result = demo.run_demo(tmp_path, 2, 1)
    assert [v.label for v in report.series_views(result, result.outcomes[0])] == ["Everything"]


# What goes wrong ----------------------------------------------------------------------------------------------------


def test_without_plotly_it_says_what_to_install_before_any_work(notions, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "plotly.graph_objects", None)
    with pytest.raises(MissingExtra, match=r"pip install 'halflife\[report\]'"):
        demo.run_demo(tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_made_is_named(notions, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match=r"cannot write to .*file.*choose another folder"):
        demo.run_demo(tmp_path / "file" / "out", 2, 1)


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
    assert demo.three_figures(x) == text
