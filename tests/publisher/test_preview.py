"""What `publish` would do, said before anything is read: what is due, the noise that it carries, and what to mind."""

from __future__ import annotations

import contextlib
import math
import shutil
import sqlite3

import pytest

import halflife as hl
from halflife import InvalidInput, LedgerError
from halflife.ledger import open_ledger
from halflife.mechanisms import Turn
from halflife.policy import Channel, channels
from halflife.publisher import session
from halflife.publisher.backfill import check_sources
from halflife.publisher.drawing import find_newest_turns, find_turns
from halflife.publisher.due import find_due
from halflife.publisher.preview import _session, preview, rehearse
from halflife.publisher.second_ledger import find_second_ledgers
from publisher.town import HOMES, STEPS, make, policy_dict, write_readings

NOON = 1_767_225_600 + 12 * 3600 + 60
"""A minute after noon of 2026-01-01."""


def at(seconds):
    return lambda: float(seconds)


@pytest.mark.diagonal
@pytest.mark.parametrize(
    "promise",
    [
        {"notion": "w-event", "epsilon": 1.0, "w": 6},
        {"notion": "exponential", "epsilon": 1.0, "half_life": "6 h"},
        {"notion": "hyperbolic", "epsilon": 1.0, "beta": 0.5},
        {"notion": "classical", "epsilon": 1.0},
    ],
    ids=lambda promise: promise["notion"],
)
@pytest.mark.parametrize("began", [0, 5])
def test_it_says_what_publish_then_does(tmp_path, promise, began):
    """Steps, passed-over steps and scales of a dry run are those of the run after it, with a ledger and without."""
    write_readings(tmp_path)
    data = policy_dict()
    data["promise"] = promise
    policy = hl.Policy.from_dict(data, tmp_path)
    if began:
        hl.publish(policy, clock=at(NOON - 3600 * (12 - began)))
    (said,) = preview(policy, clock=at(NOON)).streams
    done = hl.publish(policy, clock=at(NOON))
    assert (said.due, said.passed_over) == (done.published["mean"], done.passed_over)
    with open_ledger(policy.ledger_url, read_only=True) as book:
        released = {entry.step: entry.releases[0] for entry in book.entries("mean")}
    worth = 0.001 / HOMES
    for noise in said.noise:
        if noise.step <= STEPS // 2:
            kind = math.sqrt(2) if released[noise.step].noise == "laplace" else 1.0
            assert noise.std == pytest.approx(released[noise.step].scale * kind * worth, rel=1e-9)
    assert said.noise[0].step == max(began + 1, STEPS // 2 + 1 - said.due)
    assert (said.low, said.high) == (0, 5)


def test_nothing_is_read_drawn_or_written(tmp_path):
    policy = make(tmp_path)  # there are no readings at all
    assert preview(policy, clock=at(NOON)).streams[0].due == STEPS // 2
    assert sorted(p.name for p in tmp_path.iterdir()) == ["policy.yaml"]
    write_readings(tmp_path)
    hl.publish(policy, clock=at(NOON))
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    preview(policy, clock=at(NOON + 7200))
    after = {p.name: p.read_bytes() for p in tmp_path.iterdir() if not p.name.endswith(("-shm", "-wal"))}
    assert after == {name: content for name, content in before.items() if name in after}


def test_a_ledger_that_somebody_is_about_to_begin_is_none(tmp_path):
    policy = make(tmp_path)
    open_ledger(policy.ledger_url).close()  # an empty file
    assert preview(policy, clock=at(NOON)).streams[0].due == STEPS // 2


def test_what_is_not_protected_comes_first_and_times_are_on_the_clock_of_the_zone(tmp_path):
    policy = make(tmp_path, clock={"zone": "Europe/London"})
    lines = list(preview(policy, clock=at(NOON)).lines())
    assert lines[0] == "NOT protected:"
    assert lines[1] == f"  - {policy.notion.not_protected[0]}"
    assert any("due now: 12 steps, up to 2026-01-01 01:00+00:00 … 2026-01-01 12:00+00:00" in line for line in lines)
    assert any("noise of the last step of all (step 24" in line for line in lines)


def test_a_stream_that_has_ended_or_has_nothing_due_says_so(tmp_path):
    write_readings(tmp_path)
    policy = make(tmp_path)
    early = "\n".join(preview(policy, clock=at(NOON - 13 * 3600)).lines())
    assert "due now: nothing; the next step is due at 2026-01-01 01:00+00:00" in early
    late = make(tmp_path, stream={"delay": "2 h"})
    waiting = "\n".join(preview(late, clock=at(NOON - 11 * 3600)).lines())
    assert "due now: nothing; the next step is due at 2026-01-01 03:00+00:00" in waiting
    policy = make(tmp_path)
    hl.publish(policy)
    assert "due now: nothing; it has ended" in "\n".join(preview(policy).lines())


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"epsilon": 11.0}, "ε is 11"),
        ({"epsilon": 0.01}, "times the width"),
        ({"promise": {"w": 24}, "population": {"size": 5000}}, None),
    ],
)
def test_what_to_think_about_first(tmp_path, changes, words):
    warnings = preview(make(tmp_path, **changes), clock=at(NOON)).warnings
    assert any(words in line for line in warnings) if words else warnings == ()


@pytest.mark.parametrize("good", [None, True, False])
def test_a_process_that_failed_or_lacks_its_check_is_a_warning(tmp_path, good):
    process = {"name": "markov-chain", "matrix": [[0.9, 0.1], [0.1, 0.9]]}
    if good is not None:
        process["checked"] = {"good": good, "verdict": "It forgets too fast."}
    data = policy_dict()
    data["promise"] = {"notion": "age-dependent", "epsilon": 1.0, "process": process}
    warnings = "\n".join(preview(hl.Policy.from_dict(data, tmp_path), clock=at(NOON)).warnings)
    assert ("never held against data" in warnings) == (good is None)
    assert ("FAILED its check" in warnings and "It forgets too fast." in warnings) == (good is False)


def test_files_and_columns_are_checked_without_a_look_at_a_reading(tmp_path):
    policy = make(tmp_path)
    with pytest.raises(InvalidInput, match=r"readings\.csv"):
        check_sources(policy)
    path = write_readings(tmp_path)
    check_sources(policy)
    with pytest.raises(InvalidInput, match="kwh"):
        path.write_text(path.read_text().replace("kwh", "watt", 1))
        check_sources(policy)


# A second ledger ------------------------------------------------------------------------------------------------------------


def test_a_second_ledger_for_the_same_population_is_refused_unless_told(tmp_path):
    write_readings(tmp_path)
    hl.publish(make(tmp_path))
    other = hl.Policy.from_dict({**policy_dict(output="other.csv"), "ledger": "other.ledger"}, tmp_path)
    assert find_second_ledgers(other).same == [str(tmp_path / "town.ledger")]
    with pytest.raises(LedgerError, match=r"town\.ledger is about the same population, 'town'.*--second-ledger"):
        hl.publish(other)
    with pytest.raises(LedgerError, match="same population"), hl.Stream(other) as stream:
        stream.publish(1.0, at=1)
    assert hl.publish(other, second_ledger=True).published == {"mean": STEPS}
    assert hl.publish(other).published == {"mean": 0}, "once begun, it goes on"
    assert any("the risks of both add up" in line for line in preview(other).warnings)
    assert any("other.ledger" in line for line in preview(make(tmp_path)).warnings)


def test_backups_other_people_and_other_files_are_no_second_ledger(tmp_path):
    write_readings(tmp_path)
    policy = make(tmp_path)
    hl.publish(policy)
    shutil.copy(tmp_path / "town.ledger", tmp_path / "town.ledger.backup")
    (tmp_path / "notes.ledger").write_bytes(b"SQLite format 3\0" + bytes(84))
    (tmp_path / "broken.ledger").write_bytes((tmp_path / "town.ledger").read_bytes()[:4096])
    assert find_second_ledgers(policy).same == []
    village = {**policy_dict(output="v.csv"), "ledger": "village.ledger"}
    village["population"] = {**village["population"], "id": "village"}
    assert hl.publish(hl.Policy.from_dict(village, tmp_path)).published == {"mean": STEPS}


@pytest.mark.parametrize("there", ["the ledger", "the other one"])
def test_a_link_hides_no_second_ledger(tmp_path, there):
    """The folder of a link is searched as well as that of the file it leads to, and a link is not another ledger."""
    write_readings(tmp_path)
    away = tmp_path / "away"
    away.mkdir()
    (tmp_path / "town.ledger").symlink_to(away / "real.ledger")
    hl.publish(make(tmp_path))
    assert find_second_ledgers(make(tmp_path)).same == []
    (tmp_path / "loop.ledger").symlink_to("loop.ledger")
    (tmp_path / "gone.ledger").symlink_to("nowhere")
    ledger = "other.ledger" if there == "the other one" else "away/other.ledger"
    other = hl.Policy.from_dict({**policy_dict(output="other.csv"), "ledger": ledger}, tmp_path)
    assert find_second_ledgers(other).same == [str(away / "real.ledger")]


def test_facts_that_nobody_can_read_are_about_no_population(tmp_path):
    write_readings(tmp_path)
    hl.publish(make(tmp_path))
    with contextlib.closing(sqlite3.connect(tmp_path / "town.ledger")) as db, db:
        db.execute("UPDATE fact SET value = ? WHERE key = 'population'", ("[" * 100_000,))
    other = hl.Policy.from_dict({**policy_dict(output="other.csv"), "ledger": "other.ledger"}, tmp_path)
    assert find_second_ledgers(other).same == []


def test_what_was_refused_for_a_second_ledger_leaves_nothing_that_stands_in_the_way(tmp_path):
    """The dry run says that it will be refused; a run that was can be mended as the error says, by another id."""
    write_readings(tmp_path)
    hl.publish(make(tmp_path))
    data = {**policy_dict(output="other.csv"), "ledger": "other.ledger"}
    other = hl.Policy.from_dict(data, tmp_path)
    assert any("is refused without --second-ledger" in line for line in preview(other).warnings)
    assert not any("is refused" in line for line in preview(make(tmp_path)).warnings)
    with pytest.raises(LedgerError, match="same population"):
        hl.publish(other)
    assert not (tmp_path / "other.csv").exists()
    data["population"] = {**data["population"], "id": "village"}
    mended = hl.Policy.from_dict(data, tmp_path)
    assert preview(mended).streams[0].due == STEPS
    assert hl.publish(mended).published == {"mean": STEPS}


def test_an_older_copy_of_the_ledger_is_refused_as_publish_refuses_it(tmp_path):
    write_readings(tmp_path)
    policy = make(tmp_path)
    hl.publish(policy, clock=at(NOON - 3600))
    shutil.copy(tmp_path / "town.ledger", tmp_path / "copy")
    hl.publish(policy, clock=at(NOON))
    shutil.copy(tmp_path / "copy", tmp_path / "town.ledger")
    for run in (preview, hl.publish):
        with pytest.raises(LedgerError, match="12 were published from it"):
            run(policy, clock=at(NOON))


# A rehearsal ----------------------------------------------------------------------------------------------------------------


def everything(folder):
    """All that lies in a folder, but for what SQLite keeps beside a file that is read: names, contents, times of change."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and not path.name.endswith(("-shm", "-wal"))]
    return [(str(path), path.read_bytes(), path.stat().st_mtime_ns) for path in files]


def refusal(work):
    with pytest.raises(hl.HalflifeError) as caught:
        work()
    return type(caught.value), str(caught.value)


def someone_s_text(folder, policy):
    (folder / "mean.csv").write_text("dear diary\n")


def a_row_of_theirs(folder, policy):
    (folder / "mean.csv").write_text((folder / "mean.csv").read_text() + "a line of mine\n")


def a_folder(folder, policy):
    (folder / "mean.csv").unlink(missing_ok=True)
    (folder / "mean.csv").mkdir()


def emptied(folder, policy):
    (folder / "town.ledger").write_bytes(b"")
    for name in ("town.ledger-wal", "town.ledger-shm"):
        (folder / name).unlink(missing_ok=True)


def lost(folder, policy):
    (folder / "town.ledger").unlink()


def restored(folder, policy):
    """A copy from before the last twelve steps."""
    (folder / "backup").replace(folder / "town.ledger")


def without_its_guard(folder, policy):
    (folder / "town.ledger.shown").unlink()


@pytest.mark.parametrize(
    "harm", [someone_s_text, a_row_of_theirs, a_folder, emptied, lost, restored, without_its_guard]
)
def test_a_dry_run_refuses_what_a_run_refuses_and_leaves_no_trace(tmp_path, harm):
    write_readings(tmp_path)
    policy = make(tmp_path)
    hl.publish(policy, clock=at(NOON))
    shutil.copy(tmp_path / "town.ledger", tmp_path / "backup")
    hl.publish(policy)
    rehearse(policy)
    harm(tmp_path, policy)
    before = everything(tmp_path)
    said = refusal(lambda: rehearse(policy))
    assert everything(tmp_path) == before
    assert said == refusal(lambda: hl.publish(policy))


@pytest.mark.parametrize("output", ["mean.csv", "mean.jsonl", "mean.parquet", "mean/"])
def test_before_the_first_run_nothing_of_somebody_else_s_is_taken(tmp_path, output):
    """A rehearsal makes neither folder nor file; afterwards the run does, and its own output is gone on with."""
    write_readings(tmp_path)
    policy = make(tmp_path, output=f"new/{output}")
    before = everything(tmp_path)
    rehearse(policy)
    assert everything(tmp_path) == before
    assert not (tmp_path / "new").exists()
    (tmp_path / "new").mkdir()
    path = tmp_path / "new" / output
    path.mkdir() if output.endswith("/") else path.write_text("not yours")
    theirs = path / "part-000000001-000000024.parquet" if output.endswith("/") else path
    theirs.write_text("not yours")
    before = everything(tmp_path)
    said = refusal(lambda: rehearse(policy))
    assert everything(tmp_path) == before
    assert said == refusal(lambda: hl.publish(policy))
    theirs.unlink()
    hl.publish(policy, clock=at(NOON))
    rehearse(policy)
    hl.publish(policy)


def test_a_folder_in_which_nothing_can_be_made_is_refused_alike(tmp_path):
    write_readings(tmp_path)
    policy = make(tmp_path, output="readings.csv/mean.csv")
    said = refusal(lambda: rehearse(policy))
    assert "Not a directory" in said[1]
    assert said == refusal(lambda: hl.publish(policy))


def test_a_held_ledger_is_refused_with_who_holds_it_and_an_old_signature_is_not_believed(tmp_path):
    write_readings(tmp_path)
    policy = make(tmp_path)
    hl.publish(policy, clock=at(NOON))
    with open_ledger(policy.ledger_url) as book, book.hold(0.0):
        said = refusal(lambda: rehearse(policy, wait=0.0))
        assert "held by process" in said[1]
        assert said == refusal(lambda: hl.publish(policy, wait=0.0))
        signature = (tmp_path / "town.ledger.lock").read_bytes()
    (tmp_path / "town.ledger.lock").write_bytes(
        signature
    )  # of a process that was killed, and whose number another one has
    rehearse(policy, wait=0.0)


def test_a_second_ledger_is_refused_in_a_rehearsal_too(tmp_path):
    write_readings(tmp_path)
    hl.publish(make(tmp_path))
    other = hl.Policy.from_dict({**policy_dict(output="other.csv"), "ledger": "other.ledger"}, tmp_path)
    said = refusal(lambda: rehearse(other))
    rehearse(other, second_ledger=True)
    assert not (tmp_path / "other.ledger").exists()
    assert said == refusal(lambda: hl.publish(other))


def test_a_neighbour_that_is_locked_is_not_waited_for_and_named(tmp_path, monkeypatch):
    """Waiting would show as a call of SQLite's with a time: the connection is asked for none."""
    write_readings(tmp_path)
    hl.publish(make(tmp_path))
    other = hl.Policy.from_dict({**policy_dict(output="other.csv"), "ledger": "other.ledger"}, tmp_path)
    with contextlib.closing(sqlite3.connect(tmp_path / "town.ledger", isolation_level=None)) as db:
        db.execute("PRAGMA locking_mode = EXCLUSIVE")
        db.execute("PRAGMA journal_mode = DELETE")
        db.execute("BEGIN EXCLUSIVE")
        waits = []
        monkeypatch.setattr("halflife.ledger.sqlite.connect._set_up", spy(waits))
        found = find_second_ledgers(other)
        assert found.same == []
        (why,) = found.busy
        assert "town.ledger" in why
        assert "another program holds it" in why
        assert waits == [0.0]
        assert any(why in line for line in preview(other, clock=at(NOON)).warnings)
        with pytest.raises(LedgerError, match=r"cannot be looked at.*another program holds it.*Run again"):
            hl.publish(other)
    with pytest.raises(LedgerError, match="is about the same population"):
        hl.publish(other)


@pytest.mark.parametrize("first", ["town", "other"])
def test_of_two_ledgers_begun_in_the_same_moment_one_is_refused(tmp_path, monkeypatch, first):
    """The second one runs as a whole after the first has begun, and before it looks at its neighbours."""
    write_readings(tmp_path)
    policies = {"town": make(tmp_path), "other": hl.Policy.from_dict(
        {**policy_dict(output="other.csv"), "ledger": "other.ledger"}, tmp_path)}  # fmt: skip
    second = policies.pop("town" if first == "other" else "other")
    refused = []

    def begin_the_second(policy):
        if policy.ledger_url == second.ledger_url:
            return real(policy)
        try:
            hl.publish(second)
        except LedgerError as error:
            refused.append(str(error))
        return real(policy)

    real = session.refuse_second_ledger
    monkeypatch.setattr(session, "refuse_second_ledger", begin_the_second)
    assert hl.publish(policies[first]).published == {"mean": STEPS}
    (said,) = refused
    assert "is about the same population" in said
    assert not second.path("other.csv" if first == "town" else "mean.csv").exists()


def spy(waits):
    from halflife.ledger.sqlite import connect

    real = connect._set_up

    def set_up(db, patience=connect.PATIENCE):
        if patience != connect.PATIENCE:
            waits.append(patience)
        return real(db, patience)

    return set_up


# Many late steps ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("late", [1, 7, 24])
def test_turns_from_the_newest_on_are_those_from_the_oldest_on_turned_round(tmp_path, monkeypatch, late):
    monkeypatch.setattr("halflife.publisher.drawing.AHEAD", 3)
    promise = {"notion": "hyperbolic", "epsilon": 1.0, "beta": 0.5}
    (channel,) = channels(hl.Policy.from_dict({**policy_dict(), "promise": promise}, tmp_path))
    due, mechanism = find_due(channel, 1, late, 0), channel.make_mechanism()
    forward = list(find_turns(due, mechanism))
    assert list(find_newest_turns(due, mechanism)) == forward[::-1]
    requests = channel.requests(mechanism, 1, late)
    assert forward == list(map(Turn, due.release_steps.tolist(), requests, due.late.tolist()))


def test_of_many_late_steps_the_newest_alone_are_worked_out(tmp_path, monkeypatch):
    """3 million late minutes: how many have room is told from the newest thousands."""
    promise = {"notion": "hyperbolic", "epsilon": 1.0, "beta": 0.1}
    data = policy_dict()
    data |= {"promise": promise, "clock": {"step": "1 min", "start": "2020-01-01"}}
    asked = []
    real = Channel.requests

    def count(channel, mechanism, first, last):
        asked.append(last - first + 1)
        return real(channel, mechanism, first, last)

    monkeypatch.setattr(Channel, "requests", count)
    (said,) = preview(hl.Policy.from_dict(data, tmp_path), clock=at(NOON)).streams
    assert said.due + said.passed_over == (NOON - 1_577_836_800) // 60 > 3_000_000
    assert 0 < said.due < 1_000
    assert sum(asked) <= 2_000


def test_two_streams_are_filled_in_turn_from_the_newest_on(tmp_path):
    """Beside a plain search: all steps of both, by how many are newer, the first stream first."""
    data = policy_dict()
    data["promise"] = {"notion": "exponential", "epsilon": 1.0, "half_life": "3 h"}
    first = {**data["streams"][0], "share": 0.3}
    data["streams"] = [first, {**first, "name": "slow", "step": "2 h", "share": 0.7, "output": "slow.csv"}]
    with _session(hl.Policy.from_dict(data, tmp_path), at(NOON)) as session:
        dues = session.all_due()
        kept = [len(d.steps) for d in session.select_fitting(dues)]
        trial, found, full = session.saved.draw.copy(), [0, 0], set()
        turns = [list(find_turns(d, d.channel.make_mechanism())) for d in dues]
        for _, i, k in sorted((len(t) - k, i, k) for i, t in enumerate(turns) for k in range(len(t))):
            if i not in full:
                try:
                    trial.batch([turns[i][k]])
                    found[i] += 1
                except hl.BudgetExceeded:
                    full.add(i)
    assert kept == found
    assert 0 < sum(kept) < sum(len(d.steps) for d in dues)
