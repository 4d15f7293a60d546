"""Whatever a released version wrote, this one reads, goes on with and verifies."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import halflife as hl
from golden.body import ACCOUNTS, HERE, LEDGERS, continue_ledger, read_account, read_forms
from golden.variants import VARIANTS
from halflife import registry

SOURCE = Path(next(iter(importlib.util.find_spec("halflife").submodule_search_locations)))
CHANGES = {
    "an optional key of a policy's source": {
        "policy/model.py": (
            '    epoch: Literal["s", "ms", "us"] | None = Field(None, description="If times are numbers since 1970.")\n',
            '    epoch: Literal["s", "ms", "us"] | None = Field(None, description="If times are numbers since 1970.")\n'
            '    encoding: Text = Field("utf-8", description="Of the text.")\n',
        ),
    },
    "an optional parameter of WEvent": {
        "notions/w_event.py": ("    delta: float = 0.0\n", "    delta: float = 0.0\n    margin: float = 0.0\n"),
    },
    "a renamed attribute of a post-processor": {
        "postprocessing/moving_average.py": ("self.width", "self.length"),
        "postprocessing/kalman.py": ("self.drift", "self.step_deviation"),
    },
}


def name(path):
    return f"{path.relative_to(HERE)}"


def test_every_kind_of_promise_has_its_golden_files():
    version = HERE / hl.__version__
    assert sorted(VARIANTS) == sorted(path.name for path in LEDGERS if path.parent == version)
    promised = {data["promise"]["notion"] for data in VARIANTS.values()}
    assert promised == set(registry.NOTIONS)
    assert all(sum(f.stat().st_size for f in path.iterdir()) < 40_000 for path in LEDGERS)


@pytest.mark.parametrize("golden", LEDGERS, ids=name)
def test_a_golden_ledger_is_continued_and_verified(golden, tmp_path):
    continue_ledger(golden, tmp_path)


@pytest.mark.parametrize("golden", LEDGERS, ids=name)
def test_golden_accounts_histories_and_states_answer_as_they_did(golden):
    read_forms(golden)


@pytest.mark.parametrize("golden", ACCOUNTS, ids=name)
def test_golden_accounts_of_every_notion_answer_as_they_did(golden):
    read_account(golden)


def test_a_version_that_adds_or_renames_reads_them_all_the_same(tmp_path):
    source = tmp_path / "src" / "halflife"
    shutil.copytree(SOURCE, source, ignore=shutil.ignore_patterns("__pycache__"))
    for file, (old, new) in [edit for change in CHANGES.values() for edit in change.items()]:
        text = (source / file).read_text()
        assert old in text, f"{file} has changed: make the change anew"
        (source / file).write_text(text.replace(old, new))
    environment = {**os.environ, "PYTHONPATH": str(source.parent), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, str(HERE / "body.py"), str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout == f"{len(LEDGERS)} ledgers and {len(ACCOUNTS)} accounts\n"
