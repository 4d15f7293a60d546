"""The operator's file is put aside when it has grown large: nothing is lost, and all of it together stays small."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

import halflife as hl
from forked import finish, start
from halflife.errors import LedgerUnavailable
from halflife.ledger import ledger_files, open_ledger
from halflife.publisher import operator_log
from halflife.publisher.operator_log import RunRecord, read_last_run, read_tail, write_operator
from publisher.town import make, write_readings

LINES, START, HOUR = 400, 1_767_225_600, 3600


def numbers(path: Path) -> list[int]:
    files = [Path(f"{path}.{n}") for n in range(operator_log.KEPT, 0, -1)] + [path]
    return [json.loads(line)["n"] for file in files if file.exists() for line in file.read_text().splitlines()]


def test_a_large_file_is_put_aside_and_the_oldest_is_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(operator_log, "LARGEST", 2_000)
    path = tmp_path / "town.ledger.operator.jsonl"
    for n in range(LINES):
        write_operator(path, 0, {"n": n})
    found = numbers(path)
    assert found == list(range(LINES - len(found), LINES)), "lines are missing in the middle, or out of order"
    assert len(found) > 5 * 30
    files = sorted(tmp_path.iterdir())
    assert len(files) == 1 + operator_log.KEPT
    assert all(file.stat().st_size < 2_100 and stat.S_IMODE(file.stat().st_mode) == 0o600 for file in files)
    assert set(map(str, files)) <= set(ledger_files(tmp_path / "town.ledger")), "an output could be one of them"


def test_what_was_put_aside_last_is_read_too(tmp_path, monkeypatch):
    path = tmp_path / "operator.jsonl"
    record = RunRecord(path, lambda: 0.0)
    record.begin()
    monkeypatch.setattr(operator_log, "LARGEST", 10)
    write_operator(path, 0, {"n": 1})
    run = read_last_run(path)
    assert run is not None
    assert run.outcome == "begun"
    assert len(read_tail(path)) == 2


def write_many(path: str, first: int) -> None:
    operator_log.LARGEST = 20_000
    for n in range(first, first + LINES):
        write_operator(Path(path), 0, {"n": n})


@pytest.mark.parametrize("seed", range(2))
def test_two_processes_lose_no_line(tmp_path, seed):
    path = tmp_path / "operator.jsonl"
    running = [start(write_many, str(path), first) for first in (0, LINES)]
    assert [finish(process) for process in running] == [0, 0]
    assert sorted(numbers(path)) == list(range(2 * LINES))


def test_one_that_another_process_puts_aside_meanwhile_is_no_error(tmp_path, monkeypatch):
    """Between the look at the file and the lock another process put it aside, and has not begun a new one yet."""
    import fcntl

    path = tmp_path / "operator.jsonl"
    write_operator(path, 0, {"n": 0})
    monkeypatch.setattr(operator_log, "LARGEST", 10)
    monkeypatch.setattr(fcntl, "flock", lambda *_: path.rename(f"{path}.1"))
    write_operator(path, 0, {"n": 1})
    assert numbers(path) == [0, 1]


def test_a_run_that_never_got_hold_of_its_ledger_has_not_failed(tmp_path):
    """Before: who came second wrote `failed` behind the run that went well, and a monitor called that the last run."""
    write_readings(tmp_path)
    policy = make(tmp_path)
    hl.publish(policy, clock=lambda: START + 3 * HOUR + 1)
    with open_ledger(policy.ledger_url) as book:
        before = read_tail(book.operator_file)
        with book.hold(), pytest.raises(LedgerUnavailable):
            hl.publish(policy, wait=0)
        assert read_tail(book.operator_file) == before


def test_a_run_that_lost_its_ledger_has_failed(tmp_path, monkeypatch):
    write_readings(tmp_path)
    policy = make(tmp_path)

    def lose(self):
        raise LedgerUnavailable("the server does not answer")

    monkeypatch.setattr("halflife.publisher.backfill.PublishRun.run", lose)
    with pytest.raises(LedgerUnavailable):
        hl.publish(policy)
    with open_ledger(policy.ledger_url) as book:
        run = read_last_run(book.operator_file)
    assert run is not None
    assert (run.outcome, run.error) == ("failed", "the server does not answer")
