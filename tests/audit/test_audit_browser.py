"""The audit's page in a real browser: drawn, without complaints and without a network."""

from pathlib import Path

import pytest

from halflife.audit import Finding, Verdict
from halflife.audit.report import write_audit

CHROMIUM = Path("/usr/bin/chromium")
if not CHROMIUM.exists():
    pytest.skip(f"{CHROMIUM} is not installed: apt-get install chromium", allow_module_level=True)
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")

FINDINGS = (
    Finding("kept <b>", "exact", 1.0, 0.9, False, "a & b", 0.1),
    Finding("broken", "black box", 1.0, 2.0, True, "seen", 0.2, 1000),
    Finding("allowed", "observer", float("nan"), 0.6, False, "no fault", 0.0),
)


@pytest.mark.parametrize("width", [1280, 420])
def test_the_page(tmp_path, width):
    write_audit(Verdict("town", FINDINGS), tmp_path / "audit.html")
    said, asked = [], []
    with playwright.sync_playwright() as p:
        browser = p.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme="dark")
        page.on("console", lambda m: said.append(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda r: asked.append(r.url) if not r.url.startswith("data:") else None)
        page.goto((tmp_path / "audit.html").as_uri())
        page.wait_for_selector(".plot .bars .point path", state="attached")
        assert page.locator(".plot .trace.bars").count() == 2, "what is kept, and what is accused"
        assert "The promise is broken" in page.inner_text("main")
        assert "kept <b>" in page.inner_text("table")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        browser.close()
    assert said == []
    assert asked == [(tmp_path / "audit.html").as_uri()]
