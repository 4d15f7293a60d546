"""The London report in a real browser, light and dark, wide and narrow, without a network."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from browser import ARGUMENTS, CHROMIUM, playwright

LONDON = Path(__file__).resolve().parents[2] / "examples" / "london"
DRAWN = "() => [...document.querySelectorAll('.plot')].every(p => p.querySelector('.scatterlayer .trace'))"


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    spec = importlib.util.spec_from_file_location("london_page", LONDON / "run.py")
    example = importlib.util.module_from_spec(spec)
    sys.modules["london_page"] = example
    spec.loader.exec_module(example)
    out = tmp_path_factory.mktemp("london")
    example.run(out, example.generated_town(out, homes=5, days=35), lambda what, done, total: None)
    return out / "report.html"


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 420)])
def test_the_report_is_drawn_and_fits(report, scheme, width):
    complaints, requests = [], []
    with playwright.sync_playwright() as p:
        browser = p.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        page.on("console", lambda m: complaints.append(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda r: requests.append(r.url) if not r.url.startswith("data:") else None)
        page.goto(report.as_uri())
        page.wait_for_function(DRAWN)
        assert page.locator(".plot").count() == 8
        assert page.evaluate("() => document.documentElement.scrollWidth") <= width
        views = page.locator("section[aria-labelledby='notion-0'] .views button").all_inner_texts()
        assert views == ["Everything", "First month", "Last month"]
        browser.close()
    assert complaints == []
    assert requests == [report.as_uri()]
