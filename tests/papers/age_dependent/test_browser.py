"""The report of the age-dependent paper in a real browser, without a network."""

from __future__ import annotations

import pytest

from browser import ARGUMENTS, CHROMIUM, playwright
from halflife.papers.age_dependent import reproduction as paper
from halflife.papers.age_dependent.london import generated_source
from halflife.papers.age_dependent.report import write_all

DRAWN = "() => [...document.querySelectorAll('.plot')].every(p => p.querySelector('.scatterlayer .trace'))"
COLOURS = """() => [...document.querySelectorAll('.js-line')].map(e => getComputedStyle(e))
  .filter(style => style.strokeWidth !== '0px').map(style => style.stroke)"""
CUT = """() => [...document.querySelectorAll('.plot')].filter(p => {
  const legend = p.querySelector('.legend');
  return legend && legend.getBoundingClientRect().right > p.getBoundingClientRect().right + 2;
}).map(p => p.id)"""


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    found = paper.reproduce(generated_source(1, 4, 40))
    return write_all(found, tmp_path_factory.mktemp("aged"))[0]


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
        assert page.locator(".plot").count() >= 20
        assert page.evaluate("() => document.documentElement.scrollWidth") <= 420
        assert page.evaluate(CUT) == [], "a legend runs out of its plot"
        light = page.evaluate(COLOURS)
        assert len(light) > 60
        page.emulate_media(color_scheme="dark")
        page.wait_for_function(f"light => ({COLOURS})().every((c, i) => c !== light[i])", arg=light)
        browser.close()
    assert complaints == []
    assert set(requests) == {report.as_uri()}
