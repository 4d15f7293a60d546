"""The report of the discounted paper and the page of a plan in a real browser, without a network."""

from __future__ import annotations

import pytest

from browser import opened, turn_over
from halflife import HyperbolicDiscount
from halflife.lab.views.plan import plan_view, write_plan_page
from halflife.papers.discounted import reproduction as paper
from halflife.papers.discounted.report import write_all


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Both pages, and how many plots each has."""
    folder = tmp_path_factory.mktemp("pages")
    found = paper.reproduce(paper.generated_source(seed=1, homes=5, days=40), steps=300)
    report = write_all(found, folder)[0]
    write_plan_page([plan_view(HyperbolicDiscount(1.0, beta=0.1), horizon=100, error=5.0)], folder / "plan.html")
    return {report: 9, folder / "plan.html": 2}


@pytest.mark.soak
def test_the_pages_are_drawn_fit_and_turn_over(chromium, pages):
    for path, plots in pages.items():
        with opened(chromium, path) as page:
            assert page.locator(".plot").count() == plots
            turn_over(page)
            labels = page.locator(".modebar-btn").evaluate_all("bs => bs.map(b => b.dataset.title || b.ariaLabel)")
            assert not [text for text in labels if any(w in text.lower() for w in ("share", "cloud", "edit", "upload"))]
