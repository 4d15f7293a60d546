"""The London report in a real browser, light and dark, wide and narrow, without a network."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from browser import opened
from thinning import keep

LONDON = Path(__file__).resolve().parents[2] / "examples" / "london"


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    spec = importlib.util.spec_from_file_location("london_page", LONDON / "run.py")
    example = importlib.util.module_from_spec(spec)
    sys.modules["london_page"] = example
    spec.loader.exec_module(example)
    out = tmp_path_factory.mktemp("london")
    example.run(out, example.generated_town(out, homes=5, days=35), lambda what, done, total: None)
    return out / "report.html"


@pytest.mark.parametrize(
    ("scheme", "width"), keep([("light", 1280), ("dark", 420)], lambda scheme, width: width == 420)
)
def test_the_report_is_drawn_and_fits(chromium, report, scheme, width):
    with opened(chromium, report, width, scheme) as page:
        assert page.locator(".plot").count() == 8
        views = page.locator("section[aria-labelledby='notion-0'] .views button").all_inner_texts()
        assert views == ["Everything", "First month", "Last month"]
