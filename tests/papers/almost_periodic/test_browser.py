"""The report of the almost-periodic paper in a real browser, without a network."""

from __future__ import annotations

import pytest

from browser import opened, turn_over
from halflife.papers.almost_periodic import reproduction as paper
from halflife.papers.almost_periodic.homes import generated_source
from halflife.papers.almost_periodic.report import write_all

IDS = "() => [...document.querySelectorAll('main [id]')].map(e => e.id).filter(id => !id.startsWith('clip'))"


@pytest.mark.soak
def test_the_report_is_drawn_fits_and_turns_over(chromium, tmp_path):
    report = write_all(paper.reproduce(generated_source(1, 4, 70), runs=2, copies=2), tmp_path)[0]
    with opened(chromium, report) as page:
        assert page.locator(".plot").count() == 2 + 4 + 2 + 4 + 2 + 1 + 2
        assert len(page.evaluate(IDS)) == len(set(page.evaluate(IDS))), "two parts of the page share a name"
        turn_over(page, least=31)
