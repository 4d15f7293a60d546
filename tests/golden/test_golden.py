"""Whatever a released version wrote, this one reads, goes on with and verifies."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from dataclasses import MISSING, fields
from pathlib import Path

import pytest

import halflife as hl
from golden.body import ACCOUNTS, HERE, LEDGERS, continue_ledger, read_account, read_forms, read_ledger
from golden.variants import VARIANTS
from halflife import registry
from halflife.ledger import open_ledger
from halflife.policy import channels
from halflife.policy.facts import keys as facts
from halflife.policy.promises import ADAPTERS
from halflife.processes.base import PROCESSES
from halflife.publisher.holding import follow_own_ledger, hold_to_ledger
from halflife.specifications.neighbours import INTERPRETATIONS

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
    assert all(sum(f.stat().st_size for f in path.iterdir()) < 50_000 for path in LEDGERS)


FOLLOWING = {"clock", "half_life"}
"""Parameters of notions that no form holds: the clock is a part of its own, and a half-life is kept as alpha."""


@pytest.fixture(scope="module")
def stored():
    """The facts of all golden ledgers, part by part: ("promise", {…}), ("stream", {…}), …"""
    ledgers = [read_ledger(str(folder / "town.ledger"))[0] for folder in LEDGERS]
    return [(key.split(":")[0], json.loads(text)) for known in ledgers for key, text in known.items()]


def optional_keys(part, *where):
    """The keys of a part that have a default, and those of the parts in it."""
    for key, about in part.items():
        if about.default is not facts.MUST:
            yield (*where, key)
        yield from optional_keys(about.keys or {}, *where, key)


def find_value(form, *where):
    """What a form holds at a path of keys; None if it leaves it out."""
    for key in where:
        form = form.get(key) if isinstance(form, dict) else None
    return form


def test_every_optional_fact_is_in_a_golden_ledger(stored):
    """Whoever adds an optional key of a ledger's facts adds a golden ledger that holds it: facts leave defaults out."""
    own = {key: facts.Key(words, None) for adapter in ADAPTERS.values() for key, words in adapter.words.items()}
    parts = {**facts.PARTS, "promise": {**facts.PROMISE, **own}, "stream": facts.STREAM}
    known = [(part, *where) for part, keys in parts.items() for where in optional_keys(keys)]
    assert len(known) > 30
    held = {
        where
        for where in known
        for part, form in stored
        if part == where[0] and find_value(form, *where[1:]) is not None
    }
    assert [where for where in known if where not in held] == []


def test_every_optional_parameter_of_a_notion_is_in_a_golden_ledger(stored):
    held = {(form["notion"]["name"], key) for part, form in stored if part == "promise" for key in form["notion"]}
    known = {
        (name, f.name)
        for name, cls in registry.NOTIONS.items()
        for f in fields(cls)
        if f.init and f.default is not MISSING and f.name not in FOLLOWING
    }
    assert ("age-dependent", "horizon") in known
    assert known - held == set()


def test_every_process_and_interpretation_is_in_a_golden_ledger(stored):
    promised = [form["notion"] for part, form in stored if part == "promise"]
    assert {notion["process"]["name"] for notion in promised if "process" in notion} == set(PROCESSES)
    read_as = {notion.get("neighbours", "one-window") for notion in promised if notion["name"] == "swellfish"}
    assert read_as == set(INTERPRETATIONS)


@pytest.mark.parametrize("golden", LEDGERS, ids=name)
def test_a_golden_ledger_is_continued_and_verified(golden, tmp_path):
    continue_ledger(golden, tmp_path)


@pytest.mark.parametrize("golden", LEDGERS, ids=name)
def test_check_and_plan_show_the_noise_that_a_golden_ledger_goes_on_with(golden, tmp_path):
    """Not that of a new ledger, whose family of noise may be chosen by newer rules; the ledger is only read."""
    folder = shutil.copytree(golden, tmp_path / "golden")
    policy = hl.Policy.load(folder / "policy.yaml")
    found = [(c.plan.noise, c.plan.std(1)) for c in channels(follow_own_ledger(policy))]
    before = {file.name: file.read_bytes() for file in golden.iterdir()}
    assert {file.name: file.read_bytes() for file in folder.iterdir() if file.name in before} == before
    with open_ledger(policy.ledger_url, read_only=True) as book:
        goes_on = hold_to_ledger(book, policy)
    assert found == [(c.plan.noise, c.plan.std(1)) for c in channels(goes_on)]
    if golden.name == "w-event-delta-begun":
        assert found != [(c.plan.noise, c.plan.std(1)) for c in channels(policy)], "a new ledger would have other noise"


@pytest.mark.parametrize("golden", LEDGERS, ids=name)
def test_golden_accounts_histories_and_states_answer_as_they_did(golden):
    read_forms(golden)


@pytest.mark.parametrize("golden", ACCOUNTS, ids=name)
def test_golden_accounts_of_every_notion_answer_as_they_did(golden):
    read_account(golden)


TOUCHED = [*registry.NOTIONS, "almost-periodic-weak", "w-event-delta", "post-processing", "estimates"]
"""Folders in which each thing that is changed occurs, under every notion; `make soak` reads all of them."""


@pytest.mark.parametrize("chosen", [TOUCHED, pytest.param([], marks=pytest.mark.soak)], ids=["some", "all"])
def test_a_version_that_adds_or_renames_reads_them_all_the_same(tmp_path, chosen):
    source = tmp_path / "src" / "halflife"
    shutil.copytree(SOURCE, source)
    for file, (old, new) in [edit for change in CHANGES.values() for edit in change.items()]:
        text = (source / file).read_text()
        assert old in text, f"{file} has changed: make the change anew"
        (source / file).write_text(text.replace(old, new))
    environment = {**os.environ, "PYTHONPATH": str(source.parent), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, str(HERE / "body.py"), str(tmp_path), *chosen]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    read = [folder for folder in LEDGERS if not chosen or folder.name in chosen]
    assert done.stdout == f"{len(read)} ledgers and {len(ACCOUNTS)} accounts\n"
