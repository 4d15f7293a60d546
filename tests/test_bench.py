"""The bench runs its jobs as programs of their own: nothing of ours stands in their way."""

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def publish(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    from bench import publish

    return publish


def test_a_job_finds_no_module_of_the_bench_in_place_of_pythons_own(tmp_path, monkeypatch, publish):
    """`bench/secrets.py` stood in for `secrets` of Python, so a peer without our dependencies failed: no module named 'rich'."""
    assert (ROOT / "bench" / "secrets.py").exists()
    (tmp_path / "secrets.py").write_text("raise ModuleNotFoundError('this one is not meant')")
    (tmp_path / "jobs.py").write_text(
        "import json, secrets\nprint(json.dumps({'bits': len(secrets.token_bytes(2)) * 8}))"
    )
    (tmp_path / "about.json").write_text(json.dumps({}))
    monkeypatch.setattr(publish, "JOBS", tmp_path / "jobs.py")
    assert publish.run("any", tmp_path / "data", tmp_path) == {"bits": 16}
