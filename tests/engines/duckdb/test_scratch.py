"""Scratch folders of dead processes are removed, and those of living ones are not, whatever their numbers say."""

import os
import subprocess
import sys

import pytest

import halflife as hl
from halflife.engines.duckdb import scratch
from halflife.engines.duckdb.scratch import Scratch, sweep
from publisher.town import make


def dead(place, process):
    """A folder as a killed process leaves it."""
    folder = place / f"{scratch.PREFIX}{process}-abc"
    folder.mkdir()
    (folder / "lock").write_bytes(scratch.OURS)
    (folder / "readings.duckdb").write_text("somebody's readings")
    return folder


def test_a_dead_process_is_told_though_another_has_its_number(tmp_path):
    """As in containers, where every run has the same number. Before: the folder stayed for ever."""
    folder = dead(tmp_path, os.getpid())
    sweep(tmp_path)
    assert not folder.exists()


@pytest.mark.parametrize("name", ["halflife-2026-backup", ".halflife-scratch-99999999-abc"])
@pytest.mark.parametrize("lock", [None, "", "mine"])
def test_folders_of_the_operator_are_left_alone(tmp_path, name, lock):
    """Before: `halflife-2026-backup` beside a ledger was removed by the next publish, without a word."""
    folder = tmp_path / name
    folder.mkdir()
    (folder / "town.ledger").write_text("precious")
    if lock is not None:
        (folder / "lock").write_text(lock)
    hl.publish(make(tmp_path, stream={"source": None}))
    assert (folder / "town.ledger").read_text() == "precious"


def test_publish_sweeps_though_nothing_is_due(tmp_path):
    """Before: only who opened a source did."""
    folder = dead(tmp_path, os.getpid())
    policy = make(tmp_path, stream={"source": None})
    hl.publish(policy)
    assert not folder.exists()


def test_a_living_folder_is_never_seen_without_its_lock_held(tmp_path, monkeypatch):
    """Whoever sweeps at any moment while it is made, or removed, leaves it alone."""
    seen, busy = [], []

    def swept(call):
        def around(*args, **options):
            if busy:
                return call(*args, **options)
            busy.append(1)
            sweep(tmp_path)
            result = call(*args, **options)
            sweep(tmp_path)
            seen.append([p.name for p in tmp_path.iterdir()])
            busy.clear()
            return result

        return around

    monkeypatch.setattr(scratch, "_locked", swept(scratch._locked))
    monkeypatch.setattr(os, "rename", swept(os.rename))
    monkeypatch.setattr(os, "open", swept(os.open))
    made = Scratch(tmp_path)
    monkeypatch.undo()
    assert len(seen) == 3
    assert seen == [[made.path.name]] * 3
    sweep(tmp_path)
    assert (made.path / "lock").exists()
    made.close()
    assert not list(tmp_path.iterdir())


def test_a_folder_of_a_living_process_elsewhere_stays(tmp_path):
    code = (
        "import sys; from pathlib import Path; from halflife.engines.duckdb.scratch import Scratch\n"
        "s = Scratch(Path(sys.argv[1])); print(flush=True); sys.stdin.read(); s.close()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    process.stdout.readline()
    (folder,) = tmp_path.iterdir()
    folder.rename(tmp_path / f"{scratch.PREFIX}99999999-other")  # as if it lived where numbers are others
    sweep(tmp_path)
    assert (tmp_path / f"{scratch.PREFIX}99999999-other").exists()
    process.kill()
    process.wait()
    sweep(tmp_path)
    assert not list(tmp_path.iterdir())
    process.stdin.close()
    process.stdout.close()
