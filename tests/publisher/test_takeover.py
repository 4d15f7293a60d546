"""Several publishers on one ledger: one works, another takes over within the lease's time, and no step gets two values."""

import os
import signal
import threading
import time
from pathlib import Path

import pytest

import halflife as hl
from cutting_proxy import run_proxy
from forked import finish, start
from halflife import LedgerError
from halflife.ledger import marks, open_ledger
from halflife.publisher import backfill, checkpoints
from halflife.testing.ledgers import FACTS, make_entry
from ledger.test_contract import make_postgresql
from postgres_server import run_server
from publisher.children import publish_and_stop
from publisher.test_crash import check_whole, stored
from publisher.test_restore import at
from publisher.town import KILLED, STEPS, make, run_and_die, write_readings

LEASE = 1.0


@pytest.fixture
def town(tmp_path, postgresql, schema):
    """A policy whose ledger is on the server, with the shortest lease."""
    write_readings(tmp_path)
    return make(tmp_path, ledger=postgresql.url(schema, lease=LEASE))


def wait_until_stopped(process):
    deadline = time.monotonic() + 60
    while Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
        assert time.monotonic() < deadline, "it was never stopped"
        time.sleep(0.01)


@pytest.mark.parametrize("point", ["noise drawn", "entries committed"])
def test_a_killed_publisher_is_taken_over_from_at_once(tmp_path, town, point):
    """Its session ends with it, so the lease need not run out: that would take longer than is waited for here."""
    patient = make(tmp_path, ledger=town.ledger.replace("lease=1", "lease=600"))
    assert run_and_die(tmp_path, point, 2) == KILLED
    before = stored(patient)
    hl.publish(patient, wait=10)
    check_whole(patient)
    assert before.items() <= stored(patient).items()


@pytest.mark.parametrize("point", ["noise drawn", "in the transaction", "entries committed"])
def test_a_stopped_publisher_is_taken_over_from_and_publishes_nothing_when_it_goes_on(tmp_path, town, point):
    """Stopped for longer than its lease: before its commit, in the middle of it, or before it shows what it committed."""
    said = tmp_path / "said"
    stopped = start(publish_and_stop, str(tmp_path / "policy.yaml"), point, 2, 5, said=said)
    try:
        wait_until_stopped(stopped)
        before = stored(town)
        hl.publish(town, wait=20 * LEASE)
        check_whole(town)
        after, output = stored(town), town.path("mean.csv").read_bytes()
        assert before.items() <= after.items()
        assert len(before) == (10 if point == "entries committed" else 5)
    finally:
        os.kill(stopped.pid, signal.SIGCONT)
    assert finish(stopped) == 1
    assert "another one has taken over" in said.read_text()
    assert stored(town) == after, "a late commit was written"
    assert town.path("mean.csv").read_bytes() == output, "a late value was shown"
    check_whole(town)


def test_a_publisher_that_was_stopped_while_it_writes_outputs_is_not_written_over(tmp_path, town):
    """Who takes over cannot know what a stopped process will still write: it says so, and goes on once that has ended."""
    stopped = start(publish_and_stop, str(tmp_path / "policy.yaml"), "marks written", 3, 5, said=tmp_path / "said")
    try:
        wait_until_stopped(stopped)
        with pytest.raises(LedgerError, match=f"held by process {stopped.pid} since .* after waiting 1 s"):
            hl.publish(town, wait=20 * LEASE)
    finally:
        os.kill(stopped.pid, signal.SIGCONT)
    assert finish(stopped) == 1
    hl.publish(town)
    check_whole(town)


def test_a_dump_put_back_under_a_stopped_publisher_brings_no_token_back_to_life(postgresql, schema, tmp_path):
    """The dump was made while it held the ledger, so token and hash are what it knows; the guard says that more was shown."""
    subject = make_postgresql(postgresql, schema, tmp_path)
    with subject.open("put back") as mine, mine.hold():
        mine.begin(FACTS)
        mine.mark_shown()
        mine.commit([make_entry(1)], {}, 1)
        put_back = subject.back_up("put back")
        own = mine.name.rpartition("=")[2]
        postgresql.execute(f"UPDATE {own}.lease SET until = '-infinity'")
        with subject.open("put back") as other, other.hold(10):
            other.begin(FACTS)
            other.commit([make_entry(2)], {}, 2)
            other.mark_shown()
        put_back()
        with pytest.raises(LedgerError, match="another process has shown what this one does not know of"):
            mine.commit([make_entry(2, 7.0)], {}, 3)


def test_publishers_with_outputs_of_their_own_take_turns(tmp_path, postgresql, schema):
    """Two machines: the folders, outputs and marks of each are its own, and the second was given the first one's guard."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        write_readings(tmp_path / name)
    one, two = (make(tmp_path / name, ledger=postgresql.url(schema, lease=LEASE)) for name in ("one", "two"))
    assert run_and_die(tmp_path / "one", "entries committed", 2) == KILLED
    with pytest.raises(LedgerError, match=r"ledger\.shown is missing"):
        hl.publish(two)
    guard = f"{schema}.postgresql/ledger.shown"
    two.path(guard).write_bytes(one.path(guard).read_bytes())
    hl.publish(two)
    check_whole(two)
    assert hl.publish(one).published == {"mean": 0}
    check_whole(one)
    assert one.path("mean.csv").read_bytes() == two.path("mean.csv").read_bytes()


def test_who_was_taken_over_from_is_refused_before_the_other_has_written_anything(postgresql, schema, tmp_path):
    """So it is the token that tells, and not the chain of hashes, by which the other one would be the late writer."""
    url = postgresql.url(schema, tmp_path)
    with open_ledger(url) as mine, open_ledger(url) as other, mine.hold():
        mine.begin(FACTS)
        postgresql.execute(f"UPDATE {schema}.lease SET until = '-infinity'")
        with other.hold():
            other.begin(FACTS)
            for write in (lambda: mine.commit([make_entry(1)], {}, 1), lambda: mine.mark_written("s", "a", 1, b"one")):
                with pytest.raises(LedgerError, match="another one has taken over"):
                    write()
            with pytest.raises(LedgerError, match="another one has taken over"), mine.showing():
                pass
            other.commit([make_entry(1)], {}, 1)
    assert postgresql.execute(f"SELECT token FROM {schema}.fence UNION ALL SELECT token FROM {schema}.lease") == [
        (None,),
        (None,),
    ]


def test_a_mark_that_machines_share_does_not_go_back_when_a_stopped_publisher_goes_on(
    postgresql, schema, tmp_path, monkeypatch
):
    """It was stopped before it replaced the mark, and the other one has published more and marked it meanwhile."""
    places = [marks.Place(str(tmp_path / "shared.mark"), frozenset({"s"}), True)]
    replace, stopped = marks._replace, []

    def go_on_late(file, text):
        if not stopped:
            stopped.append(file)
            postgresql.execute(f"UPDATE {schema}.lease SET until = '-infinity'")
            with open_ledger(postgresql.url(schema, tmp_path / "one")) as other, other.hold():
                other.begin(FACTS)
                other.commit([make_entry(2)], {}, 2)
                marks.Marks(other, places).mark_shown()
            assert marks.read_mark(file).entries == 2
        replace(file, text)

    with open_ledger(postgresql.url(schema, tmp_path / "one")) as mine, mine.hold():
        mine.begin(FACTS)
        mine.commit([make_entry(1)], {}, 1)
        mine.mark_written(marks.NAMED, places[0].file, 1, b"mark")
        monkeypatch.setattr(marks, "_replace", go_on_late)
        marks.Marks(mine, places).mark_shown()
    assert stopped
    assert marks.read_mark(places[0].file).entries == 2


def test_the_lease_of_who_works_for_long_is_renewed(postgresql, schema, tmp_path):
    url = postgresql.url(schema, tmp_path, lease=LEASE)
    with open_ledger(url) as mine, open_ledger(url) as other, mine.hold():
        mine.begin(FACTS)
        with pytest.raises(LedgerError, match=r"held by process \d+ on .* after waiting 2.5 s: .* within 1 s"):
            other.hold(2.5 * LEASE).__enter__()
        mine.commit([make_entry(1)], {}, 1)


def test_a_commit_that_takes_longer_than_the_lease_is_not_taken_over_from(postgresql, schema, tmp_path, monkeypatch):
    """The thread that renews the lease is kept waiting by no row that the commit has locked."""
    url = postgresql.url(schema, tmp_path, lease=LEASE)
    with open_ledger(url) as mine, open_ledger(url) as other, mine.hold():
        mine.begin(FACTS)
        insert, failed = mine._insert, []

        def insert_slowly(entries, first):
            time.sleep(2.5 * LEASE)
            return insert(entries, first)

        def take():
            try:
                other.hold(2 * LEASE).__enter__()
            except LedgerError as error:
                failed.append(str(error))

        monkeypatch.setattr(mine, "_insert", insert_slowly)
        rival = threading.Thread(target=take)
        rival.start()
        mine.commit([make_entry(1)], {}, 1)
        rival.join()
        assert "held by process" in failed[0]
        assert mine.last_step("s") == 1


def test_no_clock_but_the_servers_decides_about_a_lease(postgresql, schema, tmp_path, monkeypatch):
    url = postgresql.url(schema, tmp_path)
    with open_ledger(url) as mine, open_ledger(url) as other:
        for seconds in (-1e6, 1e6):
            monkeypatch.setattr(time, "time", lambda seconds=seconds: 1.7e9 + seconds)
            with mine.hold():
                monkeypatch.setattr(time, "time", lambda seconds=seconds: 1.7e9 - seconds)
                assert other.writer() is not None
                with pytest.raises(LedgerError, match="held by"):
                    other.hold(0).__enter__()
            assert other.writer() is None


def test_a_stuck_reader_keeps_a_publisher_waiting_for_no_longer_than_the_lease(postgresql, schema, tmp_path):
    url = postgresql.url(schema, tmp_path, lease=LEASE)
    with open_ledger(url) as book, book.hold():
        book.begin(FACTS)
    with open_ledger(url, read_only=True) as reader, open_ledger(url) as book, reader.snapshot():
        with pytest.raises(LedgerError, match="held by a reader"):
            book.hold(0).__enter__()
        with book.hold(20 * LEASE):
            book.begin(FACTS)


def test_through_a_proxy_that_cuts_at_every_commit_each_step_is_published_once(
    tmp_path, postgresql, schema, monkeypatch
):
    write_readings(tmp_path)
    monkeypatch.setattr(backfill, "BATCH_STEPS", 4)
    with run_proxy(postgresql.port) as proxy:
        policy = make(tmp_path, ledger=postgresql.url(schema, port=proxy.port))
        cuts = [0]

        def cut_again(what, done, total):
            cuts[0] += 1
            proxy.cut_at(b"COMMIT", "before" if cuts[0] % 2 else "after")

        hl.publish(policy, progress=cut_again)
        assert proxy.cuts >= 4
    direct = make(tmp_path, ledger=postgresql.url(schema))
    check_whole(direct)


def test_a_server_that_crashes_and_comes_back_in_the_middle_of_a_run(tmp_path, schema):
    write_readings(tmp_path)
    with run_server() as server:
        policy = make(tmp_path, ledger=server.url(schema))
        done = []

        def crash(point):
            if point == "noise drawn" and not done:
                done.append(point)
                server.stop(signal.SIGQUIT)
                threading.Timer(0.3, server.start).start()

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(checkpoints, "reach", crash)
            hl.publish(policy)
        assert done
        check_whole(policy)
        assert len(stored(policy)) == STEPS


def test_of_two_parquet_files_the_older_is_refused_until_it_is_written_anew(tmp_path, postgresql, schema):
    """The ledger keeps one digest of a stream's file, so machines with outputs of their own had better write text."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        write_readings(tmp_path / name)
    one, two = (make(tmp_path / name, ledger=postgresql.url(schema), output="mean.parquet") for name in ("one", "two"))
    hl.publish(one, clock=at(12))
    guard = f"{schema}.postgresql/ledger.shown"
    two.path(f"{schema}.postgresql").mkdir()
    two.path(guard).write_bytes(one.path(guard).read_bytes())
    hl.publish(two)
    check_steps(two)
    with pytest.raises(hl.HalflifeError, match=r"one/mean\.parquet"):
        hl.publish(one)
    one.path("mean.parquet").unlink()
    hl.publish(one)
    check_steps(one)


def check_steps(policy):
    import pyarrow.parquet

    assert pyarrow.parquet.read_table(policy.path("mean.parquet"))["step"].to_pylist() == list(range(1, STEPS + 1))
