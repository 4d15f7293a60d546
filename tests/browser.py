"""Pages in Debian's chromium, driven by Playwright; without it the tests that look at pages skip, saying so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = [
    "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--disable-background-networking",
    "--disable-component-update", "--no-first-run",
]  # fmt: skip

DRAWN = "() => [...document.querySelectorAll('.plot')].every(p => p.querySelector('.trace, .heatmaplayer image'))"
COLOURS = """() => [...document.querySelectorAll('.js-line')].map(e => getComputedStyle(e))
  .filter(style => style.strokeWidth !== '0px').map(style => style.stroke)"""
TOO_WIDE = """() => {
  document.querySelectorAll('details').forEach(d => { d.open = true; });
  const width = document.documentElement.scrollWidth;
  return width <= innerWidth ? [] : [width, ...[...document.querySelectorAll('main *')]
    .filter(e => !e.closest('.scroll, pre') && e.getBoundingClientRect().right > innerWidth).map(e => e.outerHTML.slice(0, 200))];
}"""

CROWDED = """() => [...document.querySelectorAll('.plot')].filter(p => {
  const size = p._fullLayout._size, top = p.getBoundingClientRect().top + size.t;
  const covered = [...p.querySelectorAll('.modebar-btn')].some(b => b.getBoundingClientRect().bottom > top + 1);
  const legend = p.parentElement.querySelector('.keys');
  const over = legend && legend.getBoundingClientRect().bottom > p.getBoundingClientRect().top + 1;
  return size.w < 0.5 * p.clientWidth || size.h < 0.5 * p.clientHeight || covered || over || p.querySelector('.legend');
}).map(p => [p.id, p._fullLayout._size.w, p._fullLayout._size.h, p.clientWidth, p.clientHeight])"""
"""Plots whose lines have less room than what stands around them, or lie under buttons or a legend."""


@contextmanager
def start() -> Iterator[Any]:
    """Run the browser; skips where there is none. Tests take it from the fixture `chromium`, which starts it once."""
    if not CHROMIUM.exists():
        pytest.skip(f"{CHROMIUM} is not installed: apt-get install chromium")
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
        yield browser
        browser.close()


@contextmanager
def opened(chromium: Any, path: Path, width: int = 420, scheme: str = "light") -> Iterator[Any]:
    """Open a page: every plot is drawn, none is crowded, nothing is too wide, complains or asks for another address."""
    complaints: list[str] = []
    requests: list[str] = []
    context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    page.on("console", lambda m: complaints.append(m.text) if m.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda r: requests.append(r.url) if not r.url.startswith("data:") else None)
    try:
        page.goto(path.as_uri())
        page.wait_for_function(DRAWN)
        yield page
        assert page.evaluate(TOO_WIDE) == []
        crowded = page.evaluate(CROWDED)
        assert not crowded, crowded
        assert complaints == []
        assert set(requests) == {path.as_uri()}
    finally:
        context.close()


def turn_over(page: Any, scheme: str = "dark", least: int = 1) -> None:
    """Change the reader's setting between light and dark: every line of every plot must change its colour."""
    before = page.evaluate(COLOURS)
    assert len(before) >= least
    page.emulate_media(color_scheme=scheme)
    page.wait_for_function(f"before => ({COLOURS})().every((c, i) => c !== before[i])", arg=before)
