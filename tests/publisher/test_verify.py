"""`verify` finds what was changed, and names it."""

import os
import random
import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import halflife as hl
from halflife import Accountant, Release
from halflife.ledger import Entry, open_ledger
from publisher.town import STEPS, make, write_readings


@pytest.fixture(scope="module")
def town(tmp_path_factory):
    """A published town whose ledger is one file, without a write-ahead log beside it."""
    folder = tmp_path_factory.mktemp("town")
    write_readings(folder)
    policy = make(folder, stream={"post": [{"moving_average": 3}]})
    hl.publish(policy)
    with sqlite3.connect(policy.ledger_url) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        db.execute("PRAGMA journal_mode = DELETE")
    return policy


@pytest.fixture
def copy(town, tmp_path):
    for ending in ("", ".shown"):
        shutil.copy(f"{town.ledger_url}{ending}", tmp_path / f"copy.ledger{ending}")
    return tmp_path / "copy.ledger"


def change(ledger, statement, *arguments):
    with sqlite3.connect(ledger) as db:
        assert db.execute(statement, arguments).rowcount == 1


def test_a_ledger_as_it_was_written_is_good(town):
    verdict = hl.verify(town.ledger_url, {"mean": str(town.path("mean.csv"))})
    assert verdict.good
    assert verdict.steps == {"mean": STEPS}
    assert (verdict.risk, verdict.limit, verdict.step) == (pytest.approx(1.0), 1.0, STEPS)


def test_risks_are_worked_out_from_the_losses_alone(town):
    """A second derivation: the sum of the last w = 6 losses, by hand."""
    with open_ledger(town.ledger_url, read_only=True) as book:
        losses = [e.releases[0].loss for e in book.entries()]
    assert hl.verify(town.ledger_url).risk == pytest.approx(sum(losses[-6:]), rel=1e-12)


@pytest.mark.parametrize(
    ("statement", "names"),
    [
        ("UPDATE entry SET noisy = zeroblob(8) WHERE step = 7", "entry 7 (mean, step 7): was changed"),
        ("UPDATE entry SET value = zeroblob(8) WHERE step = 7", "entry 7 (mean, step 7): was changed"),
        ("UPDATE entry SET spread = spread * 0.9 WHERE step = 9", "entry 9 (mean, step 9): was changed"),
        ("UPDATE entry SET release_step = 3 WHERE step = 2", "entry 2 (mean, step 2): was changed"),
        ("UPDATE entry SET start_us = start_us + 1 WHERE step = 3", "entry 3 (mean, step 3): was changed"),
        ("UPDATE entry SET step = 99 WHERE step = 24", "entry 24 (mean, step 99): was changed"),
        ("UPDATE release SET loss = loss * 0.9 WHERE entry = 5", "entry 5 (mean, step 5): was changed"),
        ("UPDATE release SET loss = loss * 0.9 WHERE entry = 5", "is less than sensitivity / scale"),
        ("UPDATE release SET loss = loss * 1.1 WHERE entry = 5", "breaks the promise"),
        ("UPDATE release SET age = 1 WHERE entry = 5", "entry 5 (mean, step 5): was changed"),
        ("UPDATE release SET draw = '=x' WHERE entry = 5", "entry 5 (mean, step 5): was changed"),
        ("DELETE FROM release WHERE entry = 5", "was charged nothing"),
        ("DELETE FROM entry WHERE step = 5", "entry 6 (mean, step 6): was changed"),
        ("DELETE FROM entry WHERE step = 24", "entries are missing"),
        ("UPDATE batch SET at_us = at_us + 1", "the batch that ends with entry 24 was changed"),
        ("UPDATE fact SET value = 'x' WHERE key = 'population'", "entry 1 (mean, step 1): was changed"),
        ("UPDATE state SET value = replace(value, '\"step\": 24', '\"step\": 23') WHERE name = 'account'", "account"),
        ("UPDATE state SET value = 'null' WHERE name = 'stream:mean'", "a saved state was changed"),
    ],
)
def test_a_change_is_found_and_named(copy, statement, names):
    with sqlite3.connect(copy) as db:
        db.execute("PRAGMA foreign_keys = OFF")
    change(copy, statement)
    problems = hl.verify(copy).problems
    assert any(names in problem for problem in problems), problems


def test_an_account_that_forgets_a_release_is_found(copy):
    """Even if whoever changes it knows the chain: the saved account must be what the releases come to."""
    from halflife.ledger.entry import batch_link, digest

    account = Accountant(hl.WEvent(1.0, 6))
    account.admit(Release(STEPS, 0.01))
    with sqlite3.connect(copy) as db:
        db.execute("UPDATE state SET value = ? WHERE name = 'account'", (account.to_json(),))
        states = digest(db.execute("SELECT name, value FROM state"))
        (last,) = db.execute("SELECT chain FROM entry ORDER BY id DESC LIMIT 1").fetchone()
        (when,) = db.execute("SELECT at_us FROM batch").fetchone()
        db.execute("UPDATE batch SET states = ?, chain = ?", (states, batch_link(last, when, states)))
    guard, problem = hl.verify(copy).problems
    assert "not what its releases come to" in problem
    assert "their hash is another one" in guard  # which whoever knows the chain may write anew, too


def contents(path):
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as db:
        return [
            db.execute(f"SELECT * FROM {t} ORDER BY 1").fetchall()
            for t in ("fact", "entry", "release", "batch", "state")
        ]


def test_any_changed_byte_is_found_or_changes_nothing(copy, town):
    """Bytes between SQLite's records may change without any effect; every other one is found."""
    whole, want = copy.read_bytes(), contents(Path(town.ledger_url))
    draw, found = random.Random(1), 0
    for _ in range(150):
        at = draw.randrange(len(whole))
        changed = bytearray(whole)
        changed[at] ^= 1 << draw.randrange(8)
        copy.write_bytes(changed)
        try:
            good = hl.verify(copy).good
        except hl.HalflifeError:
            good = False
        found += not good
        assert not good or contents(copy) == want, f"byte {at}"
    assert found > 20


def test_an_output_is_compared_to_the_byte(town, tmp_path):
    text = town.path("mean.csv").read_bytes()
    for at in range(0, len(text), 37):
        changed = bytearray(text)
        changed[at] ^= 1
        (tmp_path / "mean.csv").write_bytes(changed)
        problems = hl.verify(town.ledger_url, {"mean": str(tmp_path / "mean.csv")}).problems
        assert problems, f"byte {at}"
        assert "mean.csv" in problems[0]


def test_a_parquet_output_is_compared_to_the_byte(tmp_path):
    write_readings(tmp_path)
    policy = make(tmp_path, output="mean.parquet")
    hl.publish(policy)
    path = policy.path("mean.parquet")
    whole = path.read_bytes()
    assert hl.verify(policy.ledger_url, {"mean": str(path)}).good
    for at in range(3, len(whole), 211):
        changed = bytearray(whole)
        changed[at] ^= 4
        path.write_bytes(changed)
        assert not hl.verify(policy.ledger_url, {"mean": str(path)}).good, f"byte {at}"


def test_an_emptied_ledger_is_found(copy):
    with sqlite3.connect(copy) as db:
        db.execute("DELETE FROM release")
        db.execute("DELETE FROM entry")
    assert any("entries are missing" in problem for problem in hl.verify(copy).problems)
    with sqlite3.connect(copy) as db:
        db.execute("DELETE FROM batch")
    assert any("batches are missing" in problem for problem in hl.verify(copy).problems)


def test_entries_out_of_order_or_of_an_unknown_stream_are_found(tmp_path):
    """With a chain that is whole: whoever wrote them knew how."""
    facts = {"format": "x", "stream:s": "{}"}

    def entry(stream, step, at):
        return Entry(stream, step, at, 0, 1, (Release(at, 0.01),), np.array([1.0]), None, 1.0)

    with open_ledger(tmp_path / "a") as book, book.hold():
        book.begin(facts)
        book.mark_shown()
        account = Accountant(hl.WEvent(1.0, 6))
        account.admit(*(Release(k, 0.01) for k in (1, 2, 3)))
        book.commit([entry("s", 2, 1), entry("s", 1, 2), entry("t", 1, 3)], {"account": account.to_json()}, 1)
    problems = hl.verify(tmp_path / "a").problems
    assert len(problems) == 2
    assert "comes after step 2" in problems[0]
    assert "does not know" in problems[1]


def test_a_ledger_of_another_policy_is_found(town, tmp_path):
    other = hl.Policy.from_dict(
        {**town.model_dump(mode="json"), "promise": {"notion": "w-event", "epsilon": 0.1, "w": 6}}, tmp_path
    )
    (problem,) = hl.verify(town.ledger_url, policy=other).problems
    assert "epsilon of the promise was 1.0 and is now 0.1" in problem
    assert hl.verify(town.ledger_url, policy=town).good


def test_an_output_of_no_stream_is_refused(town):
    with pytest.raises(hl.InvalidInput, match="did you mean 'mean'"):
        hl.verify(town.ledger_url, {"maen": "x.csv"})


def test_it_waits_for_a_writer(tmp_path):
    """While programs push, ledger and output are compared as of one moment."""
    import threading

    policy = make(tmp_path, stream={"source": None})
    with hl.Stream(policy, wait=30) as stream:
        stream.publish(1.0, at=1)
        pushing = threading.Thread(target=lambda: [stream.publish(1.0, at=k) for k in range(2, STEPS + 1)])
        pushing.start()
        verdicts = [hl.verify(policy.ledger_url, {"mean": str(policy.path("mean.csv"))}, wait=30) for _ in range(5)]
        pushing.join()
    assert all(v.good for v in verdicts), [v.problems for v in verdicts]


def test_what_is_no_ledger_is_said_plainly(tmp_path):
    (tmp_path / "x").write_text("hello")
    with pytest.raises(hl.LedgerError, match="not a database"):
        hl.verify(tmp_path / "x")
    sqlite3.connect(tmp_path / "empty").close()
    (tmp_path / "empty").touch()
    assert not hl.verify(tmp_path / "empty").good


# The bytes of files that were written whole -------------------------------------------------------------------------


def pushed(folder, output, steps=(1, 2, 3)):
    policy = make(folder, output=output, stream={"source": None})
    push(policy, *steps)
    return policy, {"mean": f"{policy.path(output)}{'/' if output.endswith('/') else ''}"}


def push(policy, *steps):
    with hl.Stream(policy) as stream:
        for step in steps:
            stream.publish(1.0, at=step)


def test_any_changed_byte_of_a_part_is_found(tmp_path):
    """Before: those of the footer that say nothing of the rows went unnoticed."""
    policy, outputs = pushed(tmp_path, "parts/")
    assert hl.verify(policy.ledger_url, outputs).good
    first, *_ = sorted((tmp_path / "parts").iterdir())
    whole = first.read_bytes()
    for at in range(0, len(whole), 7):
        changed = bytearray(whole)
        changed[at] ^= 1
        first.write_bytes(changed)
        assert any("parts/" in problem for problem in hl.verify(policy.ledger_url, outputs).problems), at
    push(policy, 4)  # an older part is not read, so this goes on
    assert not hl.verify(policy.ledger_url, outputs).good, "nor does it forget"
    first.write_bytes(whole)
    assert hl.verify(policy.ledger_url, outputs).good


def test_a_changed_byte_of_a_file_is_found_before_anything_is_built_on_it(tmp_path):
    """Before: the next publish took the file's digest anew, or wrote it anew, and then everything agreed."""
    policy, outputs = pushed(tmp_path, "mean.parquet")
    path = tmp_path / "mean.parquet"
    whole = path.read_bytes()
    unnoticed = 0
    for at in range(4, len(whole), 61):
        changed = bytearray(whole)
        changed[at] ^= 1
        path.write_bytes(changed)
        with pytest.raises(hl.InvalidInput, match=r"mean\.parquet"):
            push(policy, 4)
        unnoticed += hl.verify(policy.ledger_url, outputs).good
    assert unnoticed == 0
    path.unlink()  # as the message says: it is written again
    push(policy, 4)
    assert hl.verify(policy.ledger_url, outputs).good


def test_a_part_of_somebody_else_is_found(tmp_path):
    policy, outputs = pushed(tmp_path, "parts/")
    part = sorted((tmp_path / "parts").iterdir())[1]
    table = pq.read_table(part)
    pq.write_table(table, part, compression="none")
    assert "its bytes are not those that were written" in hl.verify(policy.ledger_url, outputs).problems[0]


def test_files_that_were_moved_are_still_known(tmp_path):
    (tmp_path / "old").mkdir()
    (tmp_path / "new").mkdir()
    for output in ("mean.parquet", "parts/"):
        policy, _ = pushed(tmp_path / "old", output)
        (tmp_path / "old" / output).rename(tmp_path / "new" / f"other-{output}".rstrip("/"))
        moved = f"{tmp_path}/new/other-{output}"
        assert hl.verify(policy.ledger_url, {"mean": moved}).good
        for file in (tmp_path / "old").iterdir():
            file.unlink()


@pytest.mark.parametrize("output", ["mean.parquet", "parts/"])
@pytest.mark.parametrize("point", ["record", "replace"])
def test_a_crash_between_a_digest_and_its_file_is_no_damage(tmp_path, output, point, monkeypatch):
    """The digest of what is about to be put there is known, and that of what lies there is not forgotten."""

    class Killed(BaseException):
        pass

    policy, outputs = pushed(tmp_path, output)
    replace = os.replace

    def die(source, target):
        if str(target).endswith(".parquet"):
            if point == "replace":
                replace(source, target)
            raise Killed
        replace(source, target)

    monkeypatch.setattr(os, "replace", die)
    with pytest.raises(Killed):
        push(policy, 4)
    monkeypatch.undo()
    if point == "record":
        assert ["not yet written" in p for p in hl.verify(policy.ledger_url, outputs).problems] == [True]
    push(policy, 5)
    assert hl.verify(policy.ledger_url, outputs).good


# While others publish -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("output", ["mean.csv", "mean.jsonl", "mean.parquet", "parts/"])
def test_publish_goes_on_while_verify_takes_its_time(tmp_path, output):
    """Before: publish was refused, and a process was blamed that had ended."""
    policy, outputs = pushed(tmp_path, output)
    later = iter(range(4, 20))

    def publish(what, done, total):
        with hl.Stream(policy, wait=0) as stream:
            stream.publish(1.0, at=next(later))

    verdict = hl.verify(policy.ledger_url, outputs, publish, policy=policy)
    assert verdict.problems == ()
    assert verdict.steps == {"mean": 3}, "it is about the moment when it began"
    assert next(later) >= 6
    assert hl.verify(policy.ledger_url, outputs).good


# How much work it is ------------------------------------------------------------------------------------------------


def work(policy, outputs, monkeypatch):
    """Statements that SQLite is asked, and entries that are read, by one verify."""
    from halflife.ledger import rows
    from halflife.ledger.sqlite import ledger

    statements, read = [], []
    connect, read_entry = ledger.connect_to_read, rows.read_entry

    def traced(*arguments):
        db, stamp = connect(*arguments)
        db.set_trace_callback(statements.append)
        return db, stamp

    monkeypatch.setattr(ledger, "connect_to_read", traced)
    monkeypatch.setattr(rows, "read_entry", lambda *a: (read.append(1), read_entry(*a))[1])
    assert hl.verify(policy.ledger_url, outputs).problems == ()
    monkeypatch.undo()
    return len(statements), len(read)


@pytest.mark.parametrize("output", ["mean.csv", "mean.parquet"])
def test_every_entry_is_read_once_and_by_one_question(tmp_path, output, monkeypatch):
    """Before: one question for the releases of each entry, twice with an output; 213 s for a million."""
    rows = {24: None, 480: None}
    for steps in rows:
        folder = tmp_path / str(steps)
        folder.mkdir()
        write_readings(folder, [])
        policy = make(folder, output=output, clock={"end": f"2026-01-{1 + steps // 24:02d}"})
        hl.publish(policy)
        rows[steps] = work(policy, {"mean": str(policy.path(output))}, monkeypatch)
    (few, read_few), (many, read_many) = rows.values()
    assert few == many < 160
    assert (read_few, read_many) == (24, 480)


def test_opening_a_ledger_costs_the_same_however_long_it_is(tmp_path):
    """Counted in instructions of SQLite's machine."""
    counts = []
    for steps in (24, 720):
        folder = tmp_path / str(steps)
        folder.mkdir()
        write_readings(folder, [])
        policy = make(folder, clock={"end": f"2026-01-{1 + steps // 24:02d}"})
        hl.publish(policy)
        with open_ledger(policy.ledger_url) as book, book.hold():
            facts, done = book.facts(), []
            book._db.set_progress_handler(lambda done=done: done.append(1), 10)
            book.begin(facts)
            book._db.set_progress_handler(None, 0)
        counts.append(len(done))
    assert 10 < counts[1] < 1.2 * counts[0] + 5, counts


# Outputs that hold more, or less -------------------------------------------------------------------------------------


@pytest.mark.parametrize("output", ["mean.csv", "mean.jsonl", "mean.parquet", "parts/"])
def test_an_output_that_holds_more_or_less_than_its_ledger_is_found(tmp_path, output):
    """The ledger of one town beside the output of its twin, which went on, or did not."""
    outputs, books = {}, {}
    for name, steps in (("short", (1, 2)), ("long", (1, 2, 3))):
        (tmp_path / name).mkdir()
        policy, outputs[name] = pushed(tmp_path / name, output, steps)
        books[name] = Path(policy.ledger_url)
    assert hl.verify(books["short"], outputs["short"]).good
    assert not hl.verify(books["short"], outputs["long"]).good
    assert not hl.verify(books["long"], outputs["short"]).good


@pytest.mark.parametrize("output", ["mean.csv", "mean.jsonl"])
def test_a_line_behind_the_last_is_found(tmp_path, output):
    policy, outputs = pushed(tmp_path, output)
    path = tmp_path / output
    whole = path.read_bytes()
    last = whole.splitlines(True)[-1]
    for more in (last, last.replace(b"3", b"4", 1), b"\n", b"x", last[:10]):
        path.write_bytes(whole + more)
        problems = hl.verify(policy.ledger_url, outputs).problems
        assert any("behind the ledger's last" in p or "ahead of its ledger" in p for p in problems), more
    path.write_bytes(whole[:-1])
    assert not hl.verify(policy.ledger_url, outputs).good
