"""Every deliberate break still fits the source: its text stands there exactly once, and its tests exist."""

from __future__ import annotations

from pathlib import Path

import pytest

from breaks.table import BREAKS

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("b", BREAKS, ids=lambda b: f"{b.file}: {b.note}")
def test_a_break_fits_the_source(b):
    assert (ROOT / "src" / "halflife" / b.file).read_text().count(b.old) == 1
    assert b.new != b.old
    assert all((ROOT / t.split("::")[0]).exists() for t in b.tests)
