"""Heavy things load only when they are used."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

HEAVY = (
    "pandas", "opendp", "dp_accounting", "scipy.stats", "plotly", "matplotlib", "fastapi", "uvicorn", "pyspark", "duckdb",
    "pyarrow", "polars", "sqlalchemy", "psycopg",
)  # fmt: skip


@pytest.mark.parametrize(
    "program",
    ["import halflife", "from halflife.cli import main\ntry:\n    main(['--help'])\nexcept SystemExit:\n    pass"],
    ids=["import halflife", "halflife --help"],
)
def test_nothing_heavy_is_loaded(program):
    code = f"{program}\nimport json, sys\nsys.stderr.write(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(json.loads(done.stderr))
    assert not [name for name in HEAVY if name in loaded]
    assert "numpy" in loaded


def test_a_plan_needs_nothing_heavy_either():
    code = "import halflife as hl, sys; hl.WEvent(1.0, 48).plan().scales(100); print([m for m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not [name for name in HEAVY if f"'{name}'" in done.stdout]


def test_a_missing_extra_is_named(monkeypatch):
    from halflife import Accountant, Classical, MissingExtra, Release

    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    monkeypatch.setitem(sys.modules, "dp_accounting.pld", None)
    account = Accountant(Classical(0.0123, 1e-6))
    with pytest.raises(MissingExtra, match=r"pip install 'halflife\[exact\]'"):
        account.admit(Release(1, 0.02))
