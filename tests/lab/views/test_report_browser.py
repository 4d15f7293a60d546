"""The report in a real browser: Debian's chromium, driven by Playwright, without a network."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from browser import opened
from halflife.cli.demo import run_demo


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    return run_demo(tmp_path_factory.mktemp("report"), households=10, days=20)


@pytest.fixture
def open_report(chromium, result):
    """Open the report at this width, by default a wide one, in light or dark."""
    with ExitStack() as stack:
        yield lambda width=1280, scheme="light": stack.enter_context(opened(chromium, result.report, width, scheme))


def x_range(page, plot):
    return page.evaluate("id => document.getElementById(id)._fullLayout.xaxis.range.map(t => t.slice(0, 10))", plot)


def test_the_report_is_drawn(open_report, result):
    page = open_report()
    assert page.locator("h1").count() == 1
    assert page.get_by_role("heading", name="What is not protected").count() == len(result.outcomes)
    assert page.get_by_role("table").first.locator("tbody tr").count() == len(result.outcomes)
    assert page.locator(".plot").count() == 2 + len(result.outcomes)
    assert page.locator("#scales .scatterlayer .trace").count() == len(result.outcomes)
    assert page.locator("#risks .scatterlayer .trace").count() == len(result.outcomes)
    points = page.evaluate("() => document.getElementById('series-0')._fullData.map(t => t._length)")
    assert points == [len(result.exact)] * 4
    title = page.evaluate("() => document.querySelector('#series-0 .ytitle').textContent")
    assert "kWh" in title


def test_the_browser_shows_the_published_numbers(open_report, result):
    page = open_report()
    for i, outcome in enumerate(result.outcomes):
        shown = page.evaluate("id => document.getElementById(id)._fullData.map(t => Array.from(t.y))", f"series-{i}")
        assert outcome.published.tolist() in shown


def test_views_can_be_chosen_with_the_keyboard(open_report):
    page = open_report()
    group = page.locator("section[aria-labelledby='notion-0'] .views")
    assert group.get_by_role("button", pressed=True).inner_text() == "Last week"
    assert x_range(page, "series-0") == ["2024-01-21", "2024-01-28"]
    group.get_by_role("button", name="Everything").focus()
    page.keyboard.press("Enter")
    page.wait_for_function(
        "() => document.querySelector('.views button[aria-pressed=true]').textContent === 'Everything'"
    )
    assert x_range(page, "series-0") == ["2024-01-08", "2024-01-28"]
    assert x_range(page, "series-1") == ["2024-01-21", "2024-01-28"], "the other plots stay"
    page.evaluate("() => Plotly.relayout('series-0', {'xaxis.range': ['2024-01-10', '2024-01-11']})")
    page.wait_for_function(
        "() => !document.querySelector('#series-0').parentElement.querySelector('.views [aria-pressed=true]')"
    )


def test_nothing_offers_to_send_the_chart_anywhere(open_report):
    page = open_report()
    labels = page.locator(".modebar-btn").evaluate_all("bs => bs.map(b => b.dataset.title || b.ariaLabel)")
    assert "Zoom" in labels
    assert not [text for text in labels if any(w in text.lower() for w in ("share", "cloud", "send", "edit", "upload"))]


@pytest.mark.parametrize("width", [420, 1280])
def test_the_page_fits_its_window(open_report, width):
    page = open_report(width)
    for plot in page.locator(".plot").all():
        assert plot.locator(".main-svg").first.bounding_box()["width"] <= width
        assert plot.locator(".modebar-btn").count() == (6 if width > 640 else 0), (
            "a narrow plot has no room for buttons"
        )


CONTRAST = """() => {
  const light = c => c.match(/[\\d.]+/g).slice(0, 3).map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4).reduce((s, v, i) => s + v * [.2126, .7152, .0722][i], 0);
  const paper = light(getComputedStyle(document.body).backgroundColor);
  const ratio = c => { const l = light(c); return (Math.max(l, paper) + .05) / (Math.min(l, paper) + .05); };
  const text = [...document.querySelectorAll('h1, p, td, figcaption, .parameters, a, .keys button')]
    .map(e => getComputedStyle(e).color);
  const ticks = [...document.querySelectorAll('.xtick text')].map(e => getComputedStyle(e).fill);
  const lines = [...document.querySelectorAll('#scales .js-line, .keys line')].map(e => getComputedStyle(e).stroke);
  return [Math.min(...[...text, ...ticks].map(ratio)), Math.min(...lines.map(ratio))];
}"""


def test_text_and_lines_stand_out(open_report):
    """WCAG 2.2: 4.5 for text, 3 for what a plot draws; the page turns over when the reader's setting does, and back."""
    page = open_report(scheme="light")
    for scheme, paper in (("dark", "rgb(18, 22, 28)"), ("light", "rgb(255, 255, 255)")):
        page.emulate_media(color_scheme=scheme)
        page.wait_for_function("c => getComputedStyle(document.body).backgroundColor === c", arg=paper)
        page.wait_for_function(f"() => ({CONTRAST})()[0] >= 4.5")
        text, lines = page.evaluate(CONTRAST)
        assert text >= 4.5
        assert lines >= 3


@pytest.mark.parametrize("width", [420, 1100])
def test_eight_lines_leave_the_plot_its_room(open_report, result, width):
    """The legend is a list above the plot, in the lines' colours and dashes; its entries hide lines and bring them back."""
    page = open_report(width)
    keys = page.locator("figure:has(#scales) .keys button")
    assert keys.all_inner_texts() == [outcome.notion.name for outcome in result.outcomes]
    drawn = page.locator("#scales .scatterlayer .trace")
    assert drawn.count() == len(result.outcomes) == 8
    strokes = page.locator("#scales .js-line").evaluate_all("es => es.map(e => getComputedStyle(e).stroke)")
    samples = page.locator("figure:has(#scales) .keys line").evaluate_all(
        "es => es.map(e => getComputedStyle(e).stroke)"
    )
    assert sorted(strokes) == sorted(samples)
    keys.nth(1).click()
    page.wait_for_function("() => document.querySelectorAll('#scales .scatterlayer .trace').length === 7")
    assert keys.nth(1).get_attribute("aria-pressed") == "false"
    keys.nth(1).click()
    page.wait_for_function("() => document.querySelectorAll('#scales .scatterlayer .trace').length === 8")
