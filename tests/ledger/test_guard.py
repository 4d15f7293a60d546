"""What was shown is remembered through kills and failing calls; who holds a ledger is named; its files are private."""

import errno
import fcntl
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import halflife as hl
from halflife import HalflifeError, LedgerError, Release
from halflife.ledger import Entry, ledger_files, ledger_names
from halflife.ledger.sqlite import SqliteLedger
from publisher.town import make, write_readings

FACTS = {"format": "halflife.ledger", "stream:s": "{}"}
CALLS = ("ftruncate", "pwrite", "write", "fsync", "replace", "open", "close")
"""Calls of the system that write, or go with writing."""


class Killed(BaseException):
    """What a process does not survive."""


@pytest.fixture
def fail_at(monkeypatch):
    """A function that lets the n-th of those calls fail from then on, once, and counts them all."""

    def begin(number, error):
        counted = [0]

        def failing(call):
            def step(*args, **options):
                counted[0] += 1
                if counted[0] == number and call.__name__ == "close":
                    call(*args)  # which closes, whatever it says
                if counted[0] == number:
                    raise error()
                return call(*args, **options)

            return step

        monkeypatch.undo()
        for name in CALLS:
            monkeypatch.setattr(os, name, failing(getattr(os, name)))
        return counted

    return begin


def push(policy, *steps):
    with hl.Stream(policy) as stream:
        for step in steps:
            stream.publish(1.0, at=step)


def town(folder, **more):
    return make(folder, stream={"source": None}, clock={"end": "2026-01-05"}, **more)


def keep(policy, name):
    """Keep a copy of the ledger."""
    (Path(policy.ledger_url).parent / name).write_bytes(Path(policy.ledger_url).read_bytes())


def put_back(policy, name):
    """Put a kept ledger back, and lose the output and its mark: then nothing but the guard knows what was shown."""
    folder = Path(policy.ledger_url).parent
    for file in (*folder.glob("town.ledger-*"), folder / "mean.csv", folder / "mean.csv.mark"):
        file.unlink(missing_ok=True)
    shutil.copy(folder / name, Path(policy.ledger_url))


def is_good(policy):
    return hl.verify(policy.ledger_url, {"mean": str(policy.path("mean.csv"))}, policy=policy).problems == ()


# Kills and failing calls --------------------------------------------------------------------------------------------


def test_killed_at_any_call_it_still_knows_what_was_shown(tmp_path, fail_at, monkeypatch):
    """Before: erased first and written later, so that a kill in between let an older ledger through."""
    policy = town(tmp_path)
    push(policy, 1, 2, 3)
    keep(policy, "three")
    push(policy, 4, 5)
    keep(policy, "five")
    shown = (tmp_path / "town.ledger.shown").read_bytes()
    calls = fail_at(0, Killed)
    push(policy, 6)
    total = calls[0]
    assert total > 5
    monkeypatch.undo()
    for number in range(1, total + 1):
        put_back(policy, "five")
        (tmp_path / "town.ledger.shown").write_bytes(shown)
        fail_at(number, Killed)
        with pytest.raises(Killed):
            push(policy, 6)
        monkeypatch.undo()
        put_back(policy, "three")
        with pytest.raises(LedgerError, match=r"holds 3 entries, but [56] were published"):
            push(policy, 4)
        assert not hl.verify(policy.ledger_url).good


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EIO])
def test_any_call_that_fails_is_told_and_nothing_is_lost(tmp_path, fail_at, monkeypatch, number):
    """Before: a lock that could not be written ended in a traceback."""
    policy = town(tmp_path)
    push(policy, 1)
    step, refused = 2, 0
    calls = fail_at(0, Killed)
    push(policy, step)
    for at in range(1, calls[0] + 1):
        step += 1
        fail_at(at, lambda: OSError(number, os.strerror(number)))
        try:
            push(policy, step)
        except HalflifeError as refusal:
            refused += os.strerror(number) in str(refusal)
        monkeypatch.undo()
        push(policy, step)
    assert refused == calls[0] - 1, "one may fail unnoticed: it takes the holder's name out of the lock at the end"
    assert is_good(policy)


def test_it_is_written_beside_synced_and_renamed_before_anything_is_shown(tmp_path, monkeypatch):
    policy, done = town(tmp_path), []
    push(policy, 1)
    for name in ("fsync", "replace", "write"):
        call = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *a, name=name, call=call: (done.append((name, a)), call(*a))[1])
    push(policy, 2)
    names = [name for name, _ in done]
    line, renamed = names.index("write"), names.index("replace")
    assert done[line][1][1].tobytes().startswith(b"shown 2 ")
    assert names[line : renamed + 2] == ["write", "fsync", "replace", "fsync"]
    first_row = next(i for i, (name, a) in enumerate(done) if name == "write" and bytes(a[1]).startswith(b"2,"))
    assert renamed + 1 < first_row


# What the guard says ------------------------------------------------------------------------------------------------

WRONG = [
    b"",
    b"\n",
    b"shown",
    b"shown 2",
    b"shown -1\n",
    b"shown 1e9\n",
    b"shown 0 x\n",
    b"\0" * 70,
    b"\xff\xfe",
    b"x" * 500,
]


@pytest.mark.parametrize("text", [*WRONG, None], ids=[*(repr(t)[2:14] for t in WRONG), "missing"])
def test_a_guard_that_does_not_say_is_refused_and_verify_says_what_to_do(tmp_path, text):
    policy = town(tmp_path)
    push(policy, 1, 2)
    guard = tmp_path / "town.ledger.shown"
    whole = guard.read_text()
    guard.unlink()
    if text is not None:
        guard.write_bytes(text)
    with pytest.raises(LedgerError, match=r"town\.ledger\.shown .*`halflife verify` says what to do"):
        push(policy, 3)
    (problem,) = hl.verify(policy.ledger_url, {"mean": str(policy.path("mean.csv"))}).problems
    line = problem.rsplit(": ", 1)[1]
    assert line == whole.strip()
    guard.write_text(line)  # as an operator does who knows that there is no newer copy
    push(policy, 3)
    assert is_good(policy)


@pytest.mark.parametrize("kind", ["folder", "pipe", "link", "loop"])
def test_a_guard_that_is_no_file_is_refused(tmp_path, kind):
    policy = town(tmp_path)
    push(policy, 1)
    guard = tmp_path / "town.ledger.shown"
    guard.rename(tmp_path / "kept")
    {
        "folder": guard.mkdir,
        "pipe": lambda: os.mkfifo(guard),
        "link": lambda: guard.symlink_to(tmp_path / "kept"),
        "loop": lambda: guard.symlink_to(guard),
    }[kind]()
    with pytest.raises(LedgerError, match=r"\.shown"):
        push(policy, 2)
    assert not hl.verify(policy.ledger_url).good


def test_a_ledger_moved_with_its_guard_goes_on(tmp_path):
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    push(town(tmp_path / "here"), 1, 2)
    for name in ("town.ledger", "town.ledger.shown"):
        shutil.copy(tmp_path / "here" / name, tmp_path / "there" / name)
    policy = town(tmp_path / "there")
    push(policy, 3)
    assert is_good(policy)


def test_another_ledger_with_as_many_entries_is_refused(tmp_path):
    """One that went on elsewhere from the same beginning: the guard knows its hash."""
    policy = town(tmp_path)
    push(policy, 1, 2)
    keep(policy, "two")
    guard = (tmp_path / "town.ledger.shown").read_bytes()
    push(policy, 3)
    newer = (tmp_path / "town.ledger.shown").read_bytes()
    put_back(policy, "two")
    (tmp_path / "town.ledger.shown").write_bytes(guard)
    push(policy, 3, 4)
    put_back(policy, "two")
    (tmp_path / "town.ledger.shown").write_bytes(guard)
    push(policy, 3)
    (tmp_path / "town.ledger.shown").write_bytes(newer)
    with pytest.raises(LedgerError, match="their hash is another one"):
        push(policy, 5)
    assert any("their hash is another one" in p for p in hl.verify(policy.ledger_url).problems)


def test_an_older_ledger_put_back_is_named_by_verify(tmp_path):
    """Before: everything agreed."""
    policy = town(tmp_path)
    push(policy, 1, 2)
    keep(policy, "two")
    push(policy, 3)
    assert is_good(policy)
    put_back(policy, "two")
    (problem,) = hl.verify(policy.ledger_url).problems
    assert "holds 2 entries, but 3 were published from it" in problem


# Who holds it -------------------------------------------------------------------------------------------------------


def hold(path):
    return SqliteLedger(path).hold(wait=0).__enter__()


def test_a_process_that_has_ended_is_not_blamed(tmp_path):
    """Its name stays in the lock if it was killed; then a reader holds the lock for a moment."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    (tmp_path / "a.lock").write_text(f"process {ended.pid} since 2026-01-01 00:00:00\n")
    with open(tmp_path / "a.lock", "rb") as reader:
        fcntl.flock(reader, fcntl.LOCK_SH)
        with pytest.raises(LedgerError, match="held by another process after"):
            hold(tmp_path / "a")


def test_a_process_that_let_go_is_not_blamed(tmp_path):
    with SqliteLedger(tmp_path / "a") as book, book.hold():
        assert f"process {os.getpid()} since" in (tmp_path / "a.lock").read_text()
    with open(tmp_path / "a.lock", "rb") as reader:
        fcntl.flock(reader, fcntl.LOCK_SH)
        with pytest.raises(LedgerError, match="held by another process after"):
            hold(tmp_path / "a")


# Private files ------------------------------------------------------------------------------------------------------


def test_a_ledger_that_others_could_read_becomes_private(tmp_path):
    policy = town(tmp_path)
    push(policy, 1)
    (tmp_path / "town.ledger.operator.jsonl").touch()
    for file in tmp_path.glob("town.ledger*"):
        file.chmod(0o644)
    push(policy, 2)
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in tmp_path.glob("town.ledger*")}
    assert len(modes) >= 4
    assert set(modes.values()) == {0o600}, modes


def test_somebody_elses_database_is_left_as_it_is(tmp_path):
    import sqlite3

    path = tmp_path / "other.db"
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE mine (x)")
    path.chmod(0o644)
    before = path.read_bytes()
    with SqliteLedger(path) as book, book.hold(), pytest.raises(LedgerError, match="no ledger"):
        book.begin(FACTS)
    assert path.read_bytes() == before
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_every_file_that_a_ledger_makes_is_known_to_be_its_own(tmp_path):
    """The policy refuses outputs and sources by this list, and the demo deletes by it."""
    ledger = tmp_path / "town.ledger"
    with SqliteLedger(ledger) as book, book.hold():
        book.begin(FACTS)
        book.mark_shown()
        book.operator_file.touch()
        made = {str(file) for file in tmp_path.iterdir()}
        assert str(ledger) + "-wal" in made, "while it is open"
    assert made <= set(ledger_files(ledger)) == {str(tmp_path / name) for name in ledger_names("town.ledger")}
    (tmp_path / "link").symlink_to(ledger)
    assert ledger_files(tmp_path / "link") == ledger_files(f"sqlite:///{ledger}") == ledger_files(ledger)


def test_what_is_marked_as_shown_is_written_once(tmp_path, monkeypatch):
    entry = Entry("s", 1, 1, 0, 1, (Release(1, 0.1),), np.array([1.0]), None, 1.0)
    with SqliteLedger(tmp_path / "a") as book, book.hold():
        book.begin(FACTS)
        book.commit([entry], {"account": "x"}, 1)
        book.mark_shown()
        monkeypatch.setattr(os, "replace", lambda *a: pytest.fail("nothing has changed"))
        book.mark_shown()


def test_a_start_that_is_refused_leaves_no_guard_that_lets_an_older_copy_pass(tmp_path):
    """The ledger is away for a moment and a timer runs: the output is ahead, and nothing may say that nothing was shown."""
    write_readings(tmp_path)
    policy = make(tmp_path)
    hl.publish(policy)
    (tmp_path / "away").mkdir()
    for name in ("", ".shown", ".lock"):
        (tmp_path / f"town.ledger{name}").rename(tmp_path / "away" / f"town.ledger{name}")
    (tmp_path / "mean.csv.mark").unlink()  # as with outputs of an earlier version
    with pytest.raises(hl.HalflifeError, match="ahead"):
        hl.publish(policy)
    assert not (tmp_path / "town.ledger.shown").exists()


def test_verify_of_an_emptied_ledger_says_what_was_published(tmp_path):
    write_readings(tmp_path)
    policy = make(tmp_path)
    hl.publish(policy)
    (tmp_path / "town.ledger").unlink()
    with pytest.raises(hl.HalflifeError, match="no such file, but 24 entries were published"):
        hl.publish(policy)
    assert not (tmp_path / "town.ledger").exists(), "no empty one is put in its place"
    (tmp_path / "town.ledger").touch()
    with pytest.raises(hl.HalflifeError, match="24 were published"):
        hl.publish(policy)
    (problem,) = hl.verify(policy.ledger_url, {"mean": str(policy.path("mean.csv"))}).problems
    assert "24 were published" in problem


def test_a_line_that_an_editor_ended_otherwise_is_understood(tmp_path):
    write_readings(tmp_path)
    policy = make(tmp_path)
    hl.publish(policy)
    guard = tmp_path / "town.ledger.shown"
    guard.write_bytes(b" " + guard.read_bytes().strip() + b"\r\n\n")
    assert hl.verify(policy.ledger_url).problems == ()
