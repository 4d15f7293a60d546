"""The report of the age-dependent paper in a real browser, without a network."""

from __future__ import annotations

import pytest

from browser import opened, turn_over
from halflife.papers.age_dependent import reproduction as paper
from halflife.papers.age_dependent.london import generated_source
from halflife.papers.age_dependent.report import write_all


@pytest.mark.soak
def test_the_report_is_drawn_fits_and_turns_over(chromium, tmp_path):
    report = write_all(paper.reproduce(generated_source(1, 4, 40)), tmp_path)[0]
    with opened(chromium, report) as page:
        assert page.locator(".plot").count() >= 20
        turn_over(page, least=61)
