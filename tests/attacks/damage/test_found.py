"""What random damage found first, in a few lines each."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
from pathlib import Path

import pytest

import halflife as hl
from halflife.publisher import checkpoints
from publisher.town import make, write_readings

START = 1_767_225_600


def town(folder, output="mean.csv"):
    """A town that was published for six hours."""
    write_readings(folder)
    policy = make(folder, output=output)
    hl.publish(policy, clock=lambda: START + 3600 * 6)
    return policy


def go_on(policy):
    return hl.publish(policy, clock=lambda: START + 3600 * 8)


def target(policy, output):
    return {"mean": f"{policy.path(output)}{'/' if output.endswith('/') else ''}"}


@pytest.fixture
def no_waiting():
    """End the process that waits for a pipe: nothing else wakes it."""
    if not hasattr(signal, "alarm"):
        pytest.skip("no alarms here")
    before = signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(30)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("output", ["mean.csv", "mean.jsonl"])
@pytest.mark.parametrize("appended", [False, True])
def test_readings_where_an_output_should_be_are_not_repeated(tmp_path, output, appended):
    policy = town(tmp_path, output)
    rows = (tmp_path / "readings.csv").read_bytes()
    (tmp_path / output).write_bytes((tmp_path / output).read_bytes() * appended + rows)
    with pytest.raises(hl.HalflifeError) as refused:
        go_on(policy)
    told = [str(refused.value), *hl.verify(policy.ledger_url, target(policy, output)).problems]
    assert len(told) > 1
    assert not [text for text in told if "T00:30" in text or "T23:30" in text or "h4" in text]


def test_a_ledger_where_an_output_should_be_is_not_repeated(tmp_path):
    policy = town(tmp_path, "mean.jsonl")
    shutil.copy(policy.ledger_url, tmp_path / "mean.jsonl")
    with pytest.raises(hl.HalflifeError) as refused:
        go_on(policy)
    assert "\\x" not in str(refused.value)
    assert not [p for p in hl.verify(policy.ledger_url, target(policy, "mean.jsonl")).problems if "\\x" in p]


def test_a_pipe_where_a_part_should_be_is_not_waited_for(tmp_path, no_waiting):
    policy = town(tmp_path, "parts/")
    (part,) = (tmp_path / "parts").iterdir()
    part.unlink()
    os.mkfifo(part)
    with pytest.raises(hl.HalflifeError, match="not a regular file"):
        go_on(policy)
    assert not hl.verify(policy.ledger_url, target(policy, "parts/")).good


def test_a_pipe_where_the_operators_file_should_be_is_not_waited_for(tmp_path, no_waiting):
    policy = town(tmp_path)
    operator = tmp_path / "town.ledger.operator.jsonl"
    operator.unlink()
    os.mkfifo(operator)
    with pytest.raises(hl.HalflifeError, match="cannot be written"):
        go_on(policy)


def test_a_pipe_that_takes_an_outputs_place_is_not_waited_for(tmp_path, no_waiting, monkeypatch):
    policy = town(tmp_path)

    def swap(point):
        if point == "noise drawn":
            (tmp_path / "mean.csv").unlink()
            os.mkfifo(tmp_path / "mean.csv")

    monkeypatch.setattr(checkpoints, "reach", swap)
    with pytest.raises(hl.HalflifeError, match="cannot be written"):
        go_on(policy)
    monkeypatch.undo()
    (tmp_path / "mean.csv").unlink()
    assert go_on(policy).emitted_again == {"mean": 8}, "nothing is lost: the ledger held the two steps"


@pytest.mark.parametrize("seconds", [3.6e11, -3.6e12, 1e300, float("nan"), float("inf")])
def test_a_clock_that_no_calendar_holds_is_refused(tmp_path, seconds):
    policy = town(tmp_path)
    with pytest.raises(hl.HalflifeError, match="set the clock"):
        hl.publish(policy, clock=lambda: seconds)
    assert go_on(policy).published == {"mean": 2}


def test_an_entry_without_releases_is_refused_when_it_is_to_be_written_again(tmp_path):
    policy = town(tmp_path)
    with sqlite3.connect(policy.ledger_url) as db:
        db.execute("DELETE FROM release WHERE entry = 3")
    db.close()
    (tmp_path / "mean.csv").unlink()
    with pytest.raises(hl.HalflifeError, match="charged nothing"):
        go_on(policy)
    assert not hl.verify(policy.ledger_url).good


def test_a_number_that_became_a_text_is_refused(tmp_path):
    """What a damaged page may hold, and no statement could write: a text where the newest step stands in an index."""
    policy = town(tmp_path)
    with sqlite3.connect(policy.ledger_url) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (page,) = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'sqlite_autoindex_entry_1'").fetchone()
    db.close()
    data = bytearray(Path(policy.ledger_url).read_bytes())
    start = (page - 1) * 4096
    # the record of ('mean', 6, '*', 6): header of 5 bytes, types text(4), int8, text(1), int8
    at = data.index(b"mean\x06*", start, start + 4096)
    assert data[at - 5 : at] == bytes([5, 21, 1, 15, 1])
    data[at - 3], data[at - 2] = 15, 15  # both are texts of one byte now
    data[at + 4 : at + 6] = b"x*"
    Path(policy.ledger_url).write_bytes(data)
    with pytest.raises(hl.HalflifeError):
        go_on(policy)
    assert not hl.verify(policy.ledger_url).good
