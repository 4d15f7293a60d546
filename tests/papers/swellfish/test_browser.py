"""The report of the Swellfish paper in a real browser, without a network."""

from __future__ import annotations

from dataclasses import replace

import pytest

from browser import opened, turn_over
from halflife.papers.swellfish.report import write_all
from halflife.papers.swellfish.reproduction import reproduce
from halflife.papers.swellfish.streams import generated_source


@pytest.mark.soak
def test_the_page_is_drawn_fits_and_turns_over(chromium, tmp_path):
    source = replace(generated_source(1, 2, 8), printed=True)
    report = write_all(reproduce(source, households=1, repetitions=2, exact=False), tmp_path)[0]
    with opened(chromium, report) as page:
        assert page.locator(".plot").count() == 4
        turn_over(page)
