"""The report of the discounted paper and the page of a plan in a real browser, without a network."""

from __future__ import annotations

import pytest

from browser import ARGUMENTS, CHROMIUM, playwright
from halflife import HyperbolicDiscount
from halflife.lab.views.plan import plan_view, write_plan_page
from halflife.papers.discounted import reproduction as paper
from halflife.papers.discounted.report import write_all

DRAWN = "() => [...document.querySelectorAll('.plot')].every(p => p.querySelector('.scatterlayer .trace, .barlayer .trace'))"
COLOURS = "() => [...document.querySelectorAll('.js-line')].map(e => getComputedStyle(e).stroke)"


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Both pages, and how many plots each has."""
    folder = tmp_path_factory.mktemp("pages")
    found = paper.reproduce(paper.generated_source(seed=1, homes=5, days=40), steps=300)
    report = write_all(found, folder)[0]
    write_plan_page(plan_view(HyperbolicDiscount(1.0, beta=0.1), horizon=100, error=5.0), folder / "plan.html")
    return {report: 7, folder / "plan.html": 3}


def test_the_pages_are_drawn_fit_and_turn_over(pages):
    complaints, requests = [], []
    with playwright.sync_playwright() as p:
        browser = p.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
        for path, plots in pages.items():
            page = browser.new_context(viewport={"width": 420, "height": 900}, color_scheme="light").new_page()
            page.on("console", lambda m: complaints.append(m.text) if m.type in ("error", "warning") else None)
            page.on("pageerror", lambda error: complaints.append(str(error)))
            page.on("request", lambda r: requests.append(r.url) if not r.url.startswith("data:") else None)
            page.goto(path.as_uri())
            page.wait_for_function(DRAWN)
            assert page.locator(".plot").count() == plots
            assert page.evaluate("() => document.documentElement.scrollWidth") <= 420
            light = page.evaluate(COLOURS)
            page.emulate_media(color_scheme="dark")
            page.wait_for_function(f"light => ({COLOURS})().every((c, i) => c !== light[i])", arg=light)
            labels = page.locator(".modebar-btn").evaluate_all("bs => bs.map(b => b.dataset.title || b.ariaLabel)")
            assert not [text for text in labels if any(w in text.lower() for w in ("share", "cloud", "edit", "upload"))]
        browser.close()
    assert complaints == []
    assert set(requests) == {path.as_uri() for path in pages}
