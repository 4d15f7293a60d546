"""The audit's page in a real browser: drawn, without complaints and without a network."""

import pytest

from browser import opened
from halflife.audit import Finding, Verdict
from halflife.audit.report import write_audit

FINDINGS = (
    Finding("kept <b>", "exact", 1.0, 0.9, False, "a & b", 0.1),
    Finding("broken", "black box", 1.0, 2.0, True, "seen", 0.2, 1000),
    Finding("allowed", "observer", float("nan"), 0.6, False, "no fault", 0.0),
)


@pytest.mark.parametrize("width", [1280, 420])
def test_the_page(chromium, tmp_path, width):
    """Its heading is the population's name, which may be long and without a place to break it."""
    write_audit(Verdict("homes_of_the_north_west_with_a_meter_since_2019", FINDINGS), tmp_path / "audit.html")
    with opened(chromium, tmp_path / "audit.html", width, "dark") as page:
        page.wait_for_selector(".plot .bars .point path", state="attached")
        assert page.locator(".plot .trace.bars").count() == 2, "what is kept, and what is accused"
        assert "The promise is broken" in page.inner_text("main")
        assert "kept <b>" in page.inner_text("table")
