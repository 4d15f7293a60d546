"""The ledger: one transaction a batch, every step once, nothing lost to a crash, and writers that queue."""

import os
import sqlite3
import stat
import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import halflife as hl
from halflife import LedgerError, Release
from halflife.ledger import Entry, ledgers_beside, open_ledger
from halflife.ledger.sqlite import SqliteLedger
from halflife.publisher.second_ledger import find_second_ledgers
from publisher.town import make, policy_dict, write_readings

FACTS = {"format": "halflife.ledger", "policy": '{"promise": {"epsilon": "1"}}'}


def entry(step, *, stream="s", loss=0.1, values=(1.5,), **release):
    return Entry(
        stream, step, step, 10 * step, 10 * step + 10, (Release(step, loss, **release),), np.array(values), None, 2.0
    )


@pytest.fixture
def ledger(tmp_path):
    with SqliteLedger(tmp_path / "a.ledger") as book, book.hold():
        book.begin(FACTS)
        yield book


def tables(db):
    return db.execute("SELECT name, sql FROM sqlite_master ORDER BY name").fetchall()


# The tables ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_ledger_from_before_the_release_is_refused(ledger, version):
    ledger._db.execute(f"PRAGMA user_version = {version}")
    with pytest.raises(LedgerError, match=r"written by halflife 0.1.0, before the form was frozen: begin a new ledger"):
        ledger.begin(FACTS)


def test_statistics_of_sqlite_do_no_harm(ledger):
    ledger._db.execute("ANALYZE")
    ledger.begin(FACTS)


def test_what_is_no_ledger_is_left_alone(tmp_path):
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE mine (x)")
    with SqliteLedger(path) as book, pytest.raises(LedgerError, match="no ledger"):
        book.begin(FACTS)
    assert [name for name, _ in tables(sqlite3.connect(path))] == ["mine"]
    (tmp_path / "text").write_text("not a database, though it is long enough to be taken for one" * 20)
    with pytest.raises(LedgerError, match="not a database"):
        SqliteLedger(tmp_path / "text")


def test_a_newer_ledger_is_refused(ledger):
    ledger._db.execute("PRAGMA user_version = 99")
    with pytest.raises(LedgerError, match="newer halflife"):
        ledger.begin(FACTS)


def test_a_commit_is_on_disk_when_it_returns(ledger):
    """Write-ahead log, synchronous FULL: a power cut cannot take back what readers have seen."""
    assert ledger._db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert ledger._db.execute("PRAGMA synchronous").fetchone() == (2,)


def test_a_link_to_a_ledger_has_the_same_lock(tmp_path):
    with SqliteLedger(tmp_path / "a") as book, book.hold():
        (tmp_path / "link").symlink_to(tmp_path / "a")
        with SqliteLedger(tmp_path / "link") as other, pytest.raises(LedgerError, match="held by"), other.hold(wait=0):
            pass


def test_waiting_can_be_stopped(tmp_path):
    said = pytest.raises(LedgerError, match="stopped while waiting")
    with SqliteLedger(tmp_path / "a") as book, book.hold(), SqliteLedger(tmp_path / "a") as other, said:
        other.hold(wait=60, stop=lambda: True).__enter__()


def test_only_its_owner_can_read_it(ledger):
    ledger.commit([entry(1)], {"account": "secret"}, 1)
    for name in os.listdir(ledger.path.parent):
        assert stat.S_IMODE(os.stat(ledger.path.parent / name).st_mode) == 0o600, name


# What is written ----------------------------------------------------------------------------------------------------


@given(
    loss=st.floats(0, allow_nan=False, allow_infinity=False, allow_subnormal=False),
    values=st.lists(st.floats(allow_nan=False), min_size=1, max_size=5),
    age=st.integers(0, 2**40),
)
def test_everything_comes_back_bit_by_bit(tmp_path_factory, loss, values, age):
    with SqliteLedger(tmp_path_factory.mktemp("l") / "a") as book, book.hold():
        book.begin(FACTS)
        before = entry(3, loss=loss, values=values, age=age, sensitivity=0.1)
        book.commit([before], {}, 7)
        (number, after, link), *_ = book.chained()
        assert after.releases == before.releases
        assert after.releases[0].loss.hex() == float(loss).hex()
        assert after.noisy.tobytes() == before.noisy.tobytes()
        assert (number, after.step, after.start_us, after.end_us, after.spread) == (1, 3, 30, 40, 2.0)
        assert link == before.link(book_start(book))


def book_start(book):
    from halflife.ledger.entry import first_link

    return first_link(book.facts())


def test_several_draws_of_one_step_are_kept_apart(ledger):
    shared = (Release(1, 0.1, draw="phase"), Release(1, 0.2, atop="phase"), Release(1, 0.3), Release(1, 0.1, draw="#0"))
    ledger.commit([Entry("s", 1, 1, 0, 1, shared, np.array([1.0]), np.array([2.0]), 1.0)], {}, 1)
    (back,) = ledger.entries("s")
    assert back.releases == shared
    assert back.value.tolist() == [2.0]


def test_a_span_comes_back_and_one_of_one_step_takes_no_room(ledger):
    """The chain says the span as its cell does: a span of 1 is said by nothing, and no cell can be changed unseen."""
    wide = Release(7, 0.1, span=7, step_sensitivity=0.25)
    ledger.commit([entry(1), Entry("s", 2, 7, 0, 1, (wide,), np.array([1.0]), None, 1.0)], {}, 1)
    plain, back = ledger.entries("s")
    assert back.releases == (wide,)
    assert plain.releases[0].span == 1
    assert ledger._db.execute("SELECT span, step_sensitivity FROM release").fetchall() == [(None, None), (7, 0.25)]
    assert plain.say()[0].endswith(b'"laplace", null]]]')
    assert back.say()[0].endswith(b'"laplace", null, 7, 0.25]]]')
    links = [link for *_, link in ledger.chained()]
    for cell, value in (("span", 8), ("span", None), ("step_sensitivity", 0.5), ("step_sensitivity", None)):
        ledger._db.execute(f"UPDATE release SET {cell} = ? WHERE entry = 2", (value,))
        try:
            (*_, changed) = ledger.chained()
            assert changed[1].link(links[0]) != links[1]
        except LedgerError:
            assert value is None  # seven steps' data moved by a quarter each, and now one step's
        ledger._db.execute("UPDATE release SET span = 7, step_sensitivity = 0.25 WHERE entry = 2")


def test_a_step_is_written_once(ledger):
    ledger.commit([entry(1), entry(2)], {"account": "a"}, 1)
    with pytest.raises(LedgerError, match="twice"):
        ledger.commit([entry(3), entry(2)], {"account": "b"}, 2)
    assert [e.step for e in ledger.entries("s")] == [1, 2]
    assert ledger.states() == {"account": "a"}
    ledger.commit([entry(3)], {"account": "c"}, 3)
    assert ledger.last_step("s") == 3
    assert ledger.newest().at_us == 3


def test_writing_without_holding_is_refused(tmp_path):
    with SqliteLedger(tmp_path / "a") as book:
        book.begin(FACTS)
        with pytest.raises(LedgerError, match="hold"):
            book.commit([entry(1)], {}, 1)


def test_a_ledger_that_somebody_else_wrote_to_is_not_written_over(tmp_path):
    with SqliteLedger(tmp_path / "a") as mine, SqliteLedger(tmp_path / "a") as other:
        for book in (mine, other):
            with book.hold():
                book.begin(FACTS)
        with other.hold():
            other.commit([entry(1)], {}, 1)
            other.mark_shown()
        with mine.hold():
            with pytest.raises(LedgerError, match="another process has written"):
                mine.commit([entry(1, values=(9.0,))], {}, 1)
            mine.begin(FACTS)
            mine.commit([entry(2)], {}, 2)
        assert [e.noisy[0] for e in mine.entries("s")] == [1.5, 1.5]


def test_a_ledger_keeps_the_facts_that_it_published_under(ledger):
    slip = {**FACTS, "policy": "a slip that was mended before anything was published"}
    assert ledger.begin(slip) == slip
    assert ledger.begin(FACTS) == FACTS
    ledger.mark_shown()
    ledger.commit([entry(1)], {}, 1)
    assert ledger.begin({**FACTS, "policy": '{"promise": {"epsilon": "2"}}'}) == FACTS == ledger.facts()


# When the disk or the file fails ------------------------------------------------------------------------------------


def test_a_full_disk_spends_nothing(ledger):
    ledger.commit([entry(1)], {"account": "a"}, 1)
    (pages,) = ledger._db.execute("PRAGMA page_count").fetchone()
    ledger._db.execute(f"PRAGMA max_page_count = {pages + 1}")
    with pytest.raises(LedgerError, match="make room on the disk"):
        ledger.commit([entry(k, values=[1.0] * 1000) for k in range(2, 200)], {"account": "b"}, 2)
    assert ledger.states() == {"account": "a"}
    ledger._db.execute("PRAGMA max_page_count = 1000000")
    ledger.commit([entry(2)], {"account": "b"}, 2)
    assert ledger.last_step("s") == 2


def test_a_read_only_ledger_spends_nothing(ledger):
    ledger._db.execute("PRAGMA query_only = ON")
    with pytest.raises(LedgerError, match="writable"):
        ledger.commit([entry(1)], {}, 1)
    assert ledger.last_step("s") == 0


def test_a_ledger_whose_writer_was_killed_while_making_it_can_be_read(tmp_path):
    """Such a file has a journal that SQLite must roll back before anyone reads: a reader alone could not."""
    with sqlite3.connect(tmp_path / "being-made", isolation_level=None) as db:
        db.execute("PRAGMA cache_size = 1")
        db.execute("CREATE TABLE entry (value)")
        db.execute("BEGIN")
        db.executemany("INSERT INTO entry VALUES (?)", [("x" * 3000,)] * 50)
        for end in ("", "-journal"):
            (tmp_path / f"killed{end}").write_bytes((tmp_path / f"being-made{end}").read_bytes())
    db.close()
    with SqliteLedger(tmp_path / "killed", read_only=True) as book:
        assert book._db.execute("SELECT count(*) FROM entry").fetchone() == (0,)
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            book._db.execute("DELETE FROM entry")


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(LedgerError, match=r"file/x\.ledger: cannot be opened"):
        SqliteLedger(tmp_path / "file" / "x.ledger")


# Taking turns -------------------------------------------------------------------------------------------------------

HOLDER = """
import sys, time
from pathlib import Path
from halflife.ledger.sqlite import SqliteLedger
with SqliteLedger(Path(sys.argv[1])) as book, book.hold():
    print("held", flush=True)
    time.sleep(float(sys.argv[2]))
"""


def holder(path, seconds):
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path), str(seconds)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "held\n"
    return process


def test_a_second_process_is_refused_with_the_first_ones_number(tmp_path):
    process = holder(tmp_path / "a", 60)
    try:
        said = pytest.raises(LedgerError, match=f"process {process.pid} since")
        with SqliteLedger(tmp_path / "a") as book, said, book.hold(wait=0.05):
            pass
    finally:
        process.kill()
        process.wait()
    with SqliteLedger(tmp_path / "a") as book, book.hold(wait=0):
        pass  # the killed process let go


def test_a_second_process_waits_for_the_first(tmp_path):
    process = holder(tmp_path / "a", 0.5)
    start = time.monotonic()
    with SqliteLedger(tmp_path / "a") as book, book.hold(wait=30):
        assert time.monotonic() - start > 0.1
    process.wait()


def test_a_zero_that_changed_its_sign_is_another_cell():
    """What an entry says is kept as it was read: facts that were read before are looked up only if none is 0."""
    from halflife.ledger.entry import read_entry

    def said(loss, age=0):
        row = ("s", "*", 1, 1, 0, 1, bytes(8), None, 1.0)
        return read_entry(
            row,
            [("#0", loss, age, 1.0, 5.0, "laplace", None)] if loss else [("#0", loss, age, 1.0, None, "laplace", None)],
        ).say()

    assert said(0.25) == said(0.25)
    assert said(0.0) != said(-0.0)
    with pytest.raises(TypeError):
        said(0.25, age=0.0)


def test_a_damaged_release_is_named_by_its_own_step(ledger):
    """Before: by step 1, whatever step it was of."""
    ledger.commit([entry(1), entry(7, scale=20.0)], {}, 1)
    ledger._db.execute("UPDATE release SET loss = 0.001 WHERE entry = 2")
    with pytest.raises(LedgerError, match=r"entry 2 .*was changed: release at step 7: loss 0.001 is less than"):
        list(ledger.entries("s"))


# Locks of SQLite ----------------------------------------------------------------------------------------------------

IS_ANYBODY_THERE = """
import fcntl, sys
for ending, byte in (("-shm", 128), ("", 0x40000002)):
    with open(sys.argv[1] + ending, "r+b") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)
            sys.exit("free" + ending)
        except OSError:
            pass
"""
"""SQLite's own questions before it truncates the shared memory of a write-ahead log, and removes the log: does anybody use it?"""


def test_looking_for_neighbours_lets_go_of_no_lock(tmp_path):
    """To open and close a database's file anywhere in a process drops all its POSIX locks on it: another program would truncate
    what is mapped, and the process dies of SIGBUS."""
    write_readings(tmp_path)
    policy = make(tmp_path, stream={"source": None})
    beside = make_other(tmp_path)
    with hl.Stream(policy) as stream, hl.Stream(beside) as other:
        stream.publish(1.0, at=1)
        other.publish(1.0, at=1)
        assert is_held(policy)
        assert is_held(beside)
        assert len(ledgers_beside(policy.ledger_url)) == 1
        find_second_ledgers(policy)
        open_ledger(policy.ledger_url).close()
        open_ledger(policy.ledger_url, read_only=True).close()
        assert is_held(policy)
        assert is_held(beside)


def make_other(folder):
    data = policy_dict(stream={"source": None}, output="other.csv") | {"ledger": "other.ledger"}
    data["population"] = {**data["population"], "id": "another town"}
    return hl.Policy.from_dict(data, folder)


def is_held(policy):
    asked = [sys.executable, "-c", IS_ANYBODY_THERE, policy.ledger_url]
    return subprocess.run(asked, check=False).returncode == 0
