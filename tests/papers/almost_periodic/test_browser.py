"""The report of the almost-periodic paper in a real browser, without a network."""

from __future__ import annotations

import pytest

from browser import ARGUMENTS, CHROMIUM, playwright
from halflife.papers.almost_periodic import reproduction as paper
from halflife.papers.almost_periodic.homes import generated_source
from halflife.papers.almost_periodic.report import write_all

DRAWN = "() => [...document.querySelectorAll('.plot')].every(p => p.querySelector('.scatterlayer .trace, .heatmaplayer image'))"
COLOURS = """() => [...document.querySelectorAll('.js-line')].map(e => getComputedStyle(e))
  .filter(style => style.strokeWidth !== '0px').map(style => style.stroke)"""
IDS = "() => [...document.querySelectorAll('main [id]')].map(e => e.id).filter(id => !id.startsWith('clip'))"
CUT = """() => [...document.querySelectorAll('.plot')].filter(p => {
  const legend = p.querySelector('.legend');
  return legend && legend.getBoundingClientRect().right > p.getBoundingClientRect().right + 2;
}).map(p => p.id)"""


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    found = paper.reproduce(generated_source(1, 4, 70), runs=2, copies=2)
    return write_all(found, tmp_path_factory.mktemp("periodic"))[0]


def test_the_report_is_drawn_fits_and_turns_over(report):
    complaints, requests = [], []
    with playwright.sync_playwright() as p:
        browser = p.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
        page = browser.new_context(viewport={"width": 420, "height": 900}, color_scheme="light").new_page()
        page.on("console", lambda m: complaints.append(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda r: requests.append(r.url) if not r.url.startswith("data:") else None)
        page.goto(report.as_uri())
        page.wait_for_function(DRAWN)
        assert page.locator(".plot").count() == 2 + 4 + 2 + 4 + 2 + 1 + 2
        assert len(page.evaluate(IDS)) == len(set(page.evaluate(IDS))), "two parts of the page share a name"
        assert page.evaluate("() => document.documentElement.scrollWidth") <= 420
        assert page.evaluate(CUT) == [], "a legend runs out of its plot"
        light = page.evaluate(COLOURS)
        assert len(light) > 30
        page.emulate_media(color_scheme="dark")
        page.wait_for_function(f"light => ({COLOURS})().every((c, i) => c !== light[i])", arg=light)
        browser.close()
    assert complaints == []
    assert set(requests) == {report.as_uri()}
