"""`restore`: noise is never drawn twice, whatever is put back; lost steps are passed over and charged, or it is refused."""

import cProfile
import json
import random
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import halflife as hl
from forked import finish, start
from halflife import HalflifeError, InvalidInput, LedgerError
from halflife.ledger import open_ledger
from halflife.policy import channels
from halflife.publisher.restores import Restore, Run, find_runs
from halflife.release import Release
from publisher.children import restore_and_die
from publisher.town import KILLED, policy_dict, read_csv

START = 1767225600


def at(hour):
    return lambda: START + 3600 * hour


def town(folder, output="mean.csv", **more):
    """A town whose aggregates are pushed."""
    data = policy_dict(output=output) | more
    data["clock"] = {"step": "1 h", "start": "2026-01-01"}
    data["streams"][0]["source"] = None
    (folder / "policy.yaml").write_text(json.dumps(data))
    return hl.Policy.load(folder / "policy.yaml")


def push(policy, *steps, value=1.0, stream=None, now=0):
    with hl.Stream(policy, stream, clock=at(max(now, *steps))) as opened:
        return {step: opened.publish(value, at=step).value for step in steps}


def lose_ledger(folder, *more):
    for file in [*folder.glob("town.ledger*"), *(folder / name for name in more)]:
        if not file.is_dir():
            file.unlink(missing_ok=True)


def steps_of(policy):
    return [int(row["step"]) for row in read_csv(policy.path("mean.csv"))]


# Put back, or refused -----------------------------------------------------------------------------------------------


def test_the_newest_backup_is_put_back_and_goes_on(tmp_path):
    policy = town(tmp_path)
    before = push(policy, 1, 2, 3)
    hl.backup(policy, tmp_path / "b")
    lose_ledger(tmp_path)
    made = hl.restore(tmp_path / "b", policy)
    assert (made.entries, made.passed, made.moved) == (3, {}, {})
    assert push(policy, 1, 2, 3) == before, "what was stored comes back, and is not drawn again"
    push(policy, 4)
    assert hl.verify(policy).good
    assert steps_of(policy) == [1, 2, 3, 4]


def test_an_older_backup_is_refused_by_each_thing_that_shows_more(tmp_path):
    """Marks, the guard and the output, each alone."""
    (tmp_path / "kept").mkdir()
    policy = town(tmp_path, mark="elsewhere.mark")
    push(policy, 1, 2)
    hl.backup(policy, tmp_path / "b")
    push(policy, 3)
    alone = {
        "mean.csv": "step 3",
        "mean.csv.mark": "3 entries",
        "elsewhere.mark": "3 entries",
        "town.ledger.shown": "3 entr",
    }
    for name in alone:
        shutil.copy(tmp_path / name, tmp_path / "kept" / name)
    for name, words in alone.items():
        lose_ledger(tmp_path, *alone)
        shutil.copy(tmp_path / "kept" / name, tmp_path / name)
        for newest in (False, True):
            with pytest.raises(LedgerError, match=rf"holds 2 entries, and more was published: .*{name}.* {words}"):
                hl.restore(tmp_path / "b", policy, newest=newest)
        assert not (tmp_path / "town.ledger").exists()


def test_where_nothing_is_left_to_say_so_it_must_be_declared(tmp_path):
    policy = town(tmp_path)
    push(policy, 1, 2)
    hl.backup(policy, tmp_path / "b")
    lose_ledger(tmp_path, "mean.csv", "mean.csv.mark")
    with pytest.raises(LedgerError, match="nothing is left to say whether more was published of mean"):
        hl.restore(tmp_path / "b", policy)
    assert hl.restore(tmp_path / "b", policy, newest=True).entries == 2
    push(policy, 3)
    assert steps_of(policy) == [1, 2, 3]


@pytest.mark.parametrize("name", ["town.ledger.shown", "elsewhere.mark"])
def test_marks_that_went_back_too_show_nothing(tmp_path, name):
    """A mark or guard that is older than the backup was itself put back: it does not say how far anything was published."""
    policy = town(tmp_path, output="-", mark="elsewhere.mark")
    push(policy, 1)
    shutil.copy(tmp_path / name, tmp_path / "old")
    push(policy, 2)
    hl.backup(policy, tmp_path / "b")
    lose_ledger(tmp_path, "elsewhere.mark")
    shutil.copy(tmp_path / "old", tmp_path / name)
    with pytest.raises(LedgerError, match="nothing is left to say"):
        hl.restore(tmp_path / "b", policy)


def test_an_output_that_went_back_too_shows_nothing(tmp_path):
    """It holds what the backup holds, and more was published: only a mark could say that nothing was."""
    policy = town(tmp_path)
    push(policy, 1, 2)
    hl.backup(policy, tmp_path / "b")
    lose_ledger(tmp_path, "mean.csv.mark")
    with pytest.raises(LedgerError, match="nothing is left to say"):
        hl.restore(tmp_path / "b", policy)


def test_a_clock_before_the_backup_bounds_nothing(tmp_path):
    policy = town(tmp_path)
    push(policy, 1, 2)
    hl.backup(policy, tmp_path / "b")
    lose_ledger(tmp_path, "mean.csv.mark")
    with pytest.raises(LedgerError, match="set the clock"):
        hl.restore(tmp_path / "b", policy, pass_over=True, unamended=True, clock=at(1))


def test_a_guard_that_shows_more_without_saying_what_brings_the_bound_by_the_clock(tmp_path):
    """The output went back too, and its mark is gone: the output's last step says nothing about what was published."""
    policy = town(tmp_path)
    push(policy, 1, 2)
    hl.backup(policy, tmp_path / "b")
    output = (tmp_path / "mean.csv").read_bytes()
    push(policy, 3)
    guard = (tmp_path / "town.ledger.shown").read_bytes()
    lose_ledger(tmp_path, "mean.csv.mark")
    (tmp_path / "mean.csv").write_bytes(output)
    (tmp_path / "town.ledger.shown").write_bytes(guard)
    made = hl.restore(tmp_path / "b", policy, pass_over=True, unamended=True, clock=at(6))
    assert made.passed == {"mean": (3, 6)}


def test_a_ledger_that_is_as_new_newer_or_another_is_not_replaced(tmp_path):
    policy = town(tmp_path)
    push(policy, 1)
    hl.backup(policy, tmp_path / "one")
    push(policy, 2)
    hl.backup(policy, tmp_path / "two")
    whole = Path(policy.ledger_url).read_bytes()
    with pytest.raises(LedgerError, match="there is nothing to restore"):
        hl.restore(tmp_path / "two", policy)
    with pytest.raises(LedgerError, match="2 entries, more than the backup, with 1: keep it"):
        hl.restore(tmp_path / "one", policy, pass_over=True)
    assert Path(policy.ledger_url).read_bytes() == whole
    lose_ledger(tmp_path, "mean.csv", "mean.csv.mark")
    push(policy, 1, 2)
    with pytest.raises(LedgerError, match="entries of another chain"):
        hl.restore(tmp_path / "two", policy, pass_over=True)
    (tmp_path / "town.ledger").write_bytes(b"x" * 5000)
    with pytest.raises(LedgerError, match=r"cannot be read: .* move it and its -wal away"):
        hl.restore(tmp_path / "two", policy)


def test_an_older_ledger_is_replaced_with_its_log(tmp_path):
    policy = town(tmp_path)
    push(policy, 1)
    hl.backup(policy, tmp_path / "one")
    push(policy, 2)
    hl.backup(policy, tmp_path / "two")
    shutil.copy(tmp_path / "one" / "ledger.sqlite", policy.ledger_url)
    for ending in ("-wal", "-shm"):
        Path(f"{policy.ledger_url}{ending}").unlink(missing_ok=True)
    assert hl.restore(tmp_path / "two", policy).entries == 2
    assert hl.verify(policy).good


def test_a_log_without_its_ledger_is_not_taken_for_the_copys_own(tmp_path):
    policy = town(tmp_path)
    push(policy, 1)
    hl.backup(policy, tmp_path / "b")
    (tmp_path / "town.ledger").unlink()
    (tmp_path / "town.ledger-wal").write_bytes(b"somebody's")
    with pytest.raises(LedgerError, match="-wal lies there and may belong to another file"):
        hl.restore(tmp_path / "b", policy)


def test_a_backup_of_another_policy_or_ledger_is_refused(tmp_path):
    (tmp_path / "other").mkdir()
    policy, other = town(tmp_path), town(tmp_path / "other", population={"id": "village", "size": 9, "person": "home"})
    push(policy, 1)
    push(other, 1)
    hl.backup(policy, tmp_path / "b")
    lose_ledger(tmp_path / "other")
    with pytest.raises(LedgerError, match="was begun under another policy"):
        hl.restore(tmp_path / "b", other)


def test_a_running_publisher_is_waited_for(tmp_path):
    policy = town(tmp_path)
    push(policy, 1)
    hl.backup(policy, tmp_path / "b")
    with open_ledger(policy.ledger_url) as book, book.hold(), pytest.raises(LedgerError, match="held by"):
        hl.restore(tmp_path / "b", policy, wait=0)


# Passed over --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "promise", [{"notion": "w-event", "epsilon": 1, "w": 6}, {"notion": "w-event", "epsilon": 1, "w": 6, "delta": 1e-6}]
)
@pytest.mark.parametrize("evidence", ["mark", "output", "guard", "nothing"])
def test_lost_steps_are_passed_over_and_charged(tmp_path, promise, evidence):
    """What the account says equals that of the ledger which was lost, where it is known which steps it had."""
    policy = town(tmp_path, promise=promise)
    seen = push(policy, *range(1, 9))
    hl.backup(policy, tmp_path / "b")
    seen |= push(policy, *range(9, 13))
    with open_ledger(policy.ledger_url, read_only=True) as book:
        lost = hl.Accountant.from_json(book.states()["account"], book.states().get("attachment"))
    gone = {"mark": "mean.csv", "output": "mean.csv.mark", "guard": "mean.csv", "nothing": "mean.csv"}[evidence]
    guard = (tmp_path / "town.ledger.shown").read_bytes()
    lose_ledger(tmp_path, gone, *(["mean.csv.mark"] if evidence in ("guard", "nothing") else []))
    if evidence == "guard":
        (tmp_path / "town.ledger.shown").write_bytes(guard)
    if evidence != "mark":
        with pytest.raises(LedgerError, match="no mark is left to say whether the ledger was amended"):
            hl.restore(tmp_path / "b", policy, pass_over=True, clock=at(14))
    made = hl.restore(tmp_path / "b", policy, pass_over=True, unamended=True, clock=at(14), reason="disk", by="me")
    last = 12 if evidence == "mark" else 14
    assert made.passed == {"mean": (9, last)}
    with open_ledger(policy.ledger_url, read_only=True) as book:
        now = hl.Accountant.from_json(book.states()["account"], book.states().get("attachment"))
    if last == 12:
        assert now.to_json() == lost.to_json(), "charged exactly as the lost ledger was"
    assert now.risk(14) >= lost.risk(14)
    for step in range(9, last + 1):
        with pytest.raises(InvalidInput, match="was passed over"):
            push(policy, step, now=14)
    push(policy, last + 1, now=20)
    assert steps_of(policy) == [*range(1, 9), last + 1]
    verdict = hl.verify(policy)
    assert verdict.problems == ()
    assert verdict.risk == now.risk(now.step) or verdict.risk <= verdict.limit
    assert len(made.moved) == (evidence == "output")
    for aside in made.moved.values():
        assert [int(row["step"]) for row in read_csv(Path(aside))] == list(range(1, 13))


def test_a_restored_ledger_notices_older_and_lost_copies(tmp_path):
    policy = town(tmp_path)
    push(policy, 1, 2)
    hl.backup(policy, tmp_path / "b")
    push(policy, 3)
    lost = Path(tmp_path / "lost")
    lost.mkdir()
    shutil.copy(tmp_path / "town.ledger", lost / "town.ledger")
    lose_ledger(tmp_path)
    hl.restore(tmp_path / "b", policy, pass_over=True, clock=at(3))
    for copy in (tmp_path / "b" / "ledger.sqlite", lost / "town.ledger"):
        kept = {f: f.read_bytes() for f in tmp_path.glob("town.ledger*")}
        for ending in ("-wal", "-shm"):
            Path(f"{policy.ledger_url}{ending}").unlink(missing_ok=True)
        shutil.copy(copy, policy.ledger_url)
        with pytest.raises(LedgerError, match="published from"):
            push(policy, 4)
        (tmp_path / "town.ledger.shown").unlink()
        with open_ledger(copy, read_only=True) as book:
            newest = book.newest()
        (tmp_path / "town.ledger.shown").write_text(f"shown {newest.last} {newest.link.hex()}\n")
        with pytest.raises(LedgerError, match=r"published from.* says .*mean\.csv\.mark"):
            push(policy, 4)
        for file in tmp_path.glob("town.ledger*"):
            file.unlink()
        for file, content in kept.items():
            file.write_bytes(content)
    push(policy, 4)
    assert hl.verify(policy).good


def test_the_ledger_in_place_can_be_gone_on_with_when_it_was_put_back_by_hand(tmp_path):
    """The folder was restored, the mark elsewhere refuses it, and there is no newer copy: its own file is the backup."""
    policy = town(tmp_path, mark="elsewhere/town.mark")
    push(policy, 1, 2)
    shutil.copy(tmp_path / "town.ledger", tmp_path / "copy")
    files = {name: (tmp_path / name).read_bytes() for name in ("town.ledger.shown", "mean.csv", "mean.csv.mark")}
    push(policy, 3, 4)
    lose_ledger(tmp_path)
    shutil.copy(tmp_path / "copy", tmp_path / "town.ledger")
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    with pytest.raises(LedgerError, match=r"4 entries were published"):
        push(policy, 3)
    made = hl.restore(tmp_path / "town.ledger", policy, pass_over=True, clock=at(5))
    assert made.passed == {"mean": (3, 4)}
    push(policy, 5)
    assert steps_of(policy) == [1, 2, 5]


def test_what_was_amended_or_rotated_since_is_refused(tmp_path):
    policy = town(tmp_path)
    push(policy, 1, 2)
    hl.backup(policy, tmp_path / "b")
    larger = town(tmp_path, population={"id": "town", "size": 6, "person": "home"})
    hl.amend(larger, "a home joined", clock=at(1000))
    lose_ledger(tmp_path)
    for policy in (larger, town(tmp_path)):
        with pytest.raises(
            LedgerError, match=r"/b: .*after the backup the ledger was amended, .* \(1 events, the backup has 0\)"
        ):
            hl.restore(tmp_path / "b", policy, pass_over=True)
    lose_ledger(tmp_path, "mean.csv.mark")
    with pytest.raises(LedgerError, match=r"/b is no backup under this policy: .*find a newer backup") as refused:
        hl.restore(tmp_path / "b", larger, pass_over=True)
    assert ".restoring" not in str(refused.value), "that path is gone when the message is read"
    assert "halflife amend" not in str(refused.value), "it is the backup that is old"


@pytest.mark.parametrize(
    "promise",
    [
        {"notion": "exponential", "epsilon": 1, "half_life": 6},
        {"notion": "almost-periodic", "epsilon": 1, "period": 6, "strong": True},
        {"notion": "w-event", "epsilon": 1, "w": 6},
    ],
)
def test_what_the_policy_alone_does_not_tell_is_refused_in_words(tmp_path, promise, monkeypatch):
    """When it was published, noise that is kept, and a mechanism that looks at what it publishes."""
    from halflife.publisher import restoring

    policy = town(tmp_path, promise=promise)
    with hl.Stream(policy, clock=at(2)) as stream:
        stream.publish(1.0, at=2)
    hl.backup(policy, tmp_path / "b")
    with hl.Stream(policy, clock=at(3)) as stream:
        stream.publish(1.0, at=3)
    lose_ledger(tmp_path)
    if promise["notion"] == "w-event":
        monkeypatch.setattr(restoring, "PlannedNoise", hl.ReusedNoise)
    with pytest.raises(LedgerError, match="no steps can be passed over"):
        hl.restore(tmp_path / "b", policy, pass_over=True, clock=at(4))
    assert not (tmp_path / "town.ledger").exists()


def test_certificates_reports_and_amendments_count_what_was_lost(tmp_path):
    from halflife.cli.policy_report import write_policy_report

    policy = town(tmp_path, promise={"notion": "w-event", "epsilon": 1, "w": 6})
    push(policy, *range(1, 5))
    hl.backup(policy, tmp_path / "b")
    push(policy, *range(5, 9))
    lose_ledger(tmp_path)
    hl.restore(tmp_path / "b", policy, pass_over=True, clock=at(8), reason="the disk died", by="ops")
    push(policy, 9)
    content = hl.certify(policy, clock=at(1000))["certificate"]
    (told,) = content["restores"]
    assert (told["reason"], told["by"], told["passed_over"]) == ("the disk died", "ops", {"mean": [5, 8]})
    assert content["promises"][0]["risk"]["risk"] == pytest.approx(1.0), "six steps of a window, four of them lost"
    assert write_policy_report(tmp_path / "policy.yaml", tmp_path / "report.html", lambda *a: None).good
    stronger = town(tmp_path, promise={"notion": "w-event", "epsilon": 1, "w": 7})
    with pytest.raises(HalflifeError, match="the risk under it was"):
        hl.amend(stronger, "a longer window", clock=at(1000))  # seven steps count, the lost ones among them


def test_what_was_lost_counts_for_whoever_left(tmp_path):
    """w = 6, ε = 1: of the window up to step 8 steps 3 to 6 are about a person who left after step 6; two of them are lost."""
    policy = town(tmp_path)
    push(policy, *range(1, 5))
    hl.backup(policy, tmp_path / "b")
    push(policy, 5, 6, 7)
    lose_ledger(tmp_path)
    hl.restore(tmp_path / "b", policy, pass_over=True, clock=at(8))
    push(policy, 8)
    left = hl.status(policy, left="2026-01-01T06:00", clock=at(8)).left
    assert left.releases == 6
    assert left.risk == pytest.approx(4 / 6, rel=1e-3)


def test_streams_of_which_nothing_tells_are_passed_over_up_to_now(tmp_path):
    data = policy_dict() | {"clock": {"step": "1 h", "start": "2026-01-01"}}
    data["streams"][0]["source"] = None
    data["streams"].append(data["streams"][0] | {"name": "b", "output": "b.csv"})
    policy = hl.Policy.from_dict(data, tmp_path)
    push(policy, 1, stream="mean")
    push(policy, 1, stream="b")
    hl.backup(policy, tmp_path / "b")
    push(policy, 2, stream="mean")
    push(policy, 2, 3, stream="b")
    lose_ledger(tmp_path, "b.csv", "b.csv.mark")
    made = hl.restore(tmp_path / "b", policy, pass_over=True, unamended=True, clock=at(6))
    assert made.passed == {"mean": (2, 2), "b": (2, 6)}
    assert hl.verify(policy.ledger_url).good


# What is lost, in runs ----------------------------------------------------------------------------------------------


@given(
    st.lists(
        st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 2), st.integers(0, 2), st.sampled_from([0.1, 0.2])),
        max_size=40,
    )
)
def test_runs_give_back_every_release_in_the_order_of_steps(drawn):
    made, step = {"a": [], "b": []}, 1
    for stream, more, age, loss in drawn:
        step += more
        made[stream].append(Release(step, loss, age, scale=1 / loss, span=2))
    event = Restore(7, 3, "why", "me", {"a": (4, 9)}, ((5, "0a"),), find_runs(made))
    form = json.loads(json.dumps(event.to_event()))
    assert list(event.releases) == sorted([*made["a"], *made["b"]], key=lambda release: release.step)
    assert tuple(map(Run.from_dict, form["runs"])) == event.runs


def test_late_steps_are_a_run_too():
    """Steps that come late share a step of the account, with ages that fall."""
    late = [Release(50, 0.5, age) for age in range(40, 9, -1)]
    assert [(run.length, run.every, run.older) for run in find_runs({"a": late})] == [(31, 0, -1)]
    with pytest.raises(InvalidInput, match="the last age of a run"):
        Run.from_dict(Run("a", late[0], 42, 0, -1).to_dict())


def count_work_after(folder, lost):
    """Lose so many steps of two streams; return the size of the event, and how many calls a publish makes from then on."""
    folder.mkdir()
    policy = two_streams(folder)
    push(policy, 1, stream="mean")
    push(policy, 1, stream="b")
    hl.backup(policy, folder / "backup")
    lose_ledger(folder, *(file.name for file in folder.glob("*.csv*")))
    made = hl.restore(folder / "backup", policy, pass_over=True, unamended=True, by="me", clock=at(lost + 1))
    assert made.passed == {"mean": (2, lost + 1), "b": (2, lost + 1)}
    push(policy, lost + 2, stream="b")
    push(policy, lost + 2, stream="mean")
    profile = cProfile.Profile()
    profile.runcall(push, policy, lost + 3, stream="mean")
    assert hl.verify(policy).good
    with open_ledger(policy.ledger_url, read_only=True) as book:
        (event,) = book.events()
    return len(event.event), sum(entry.callcount for entry in profile.getstats())


def test_a_publish_after_a_restore_does_the_same_work_however_many_steps_were_lost(tmp_path):
    few, many = count_work_after(tmp_path / "few", 20), count_work_after(tmp_path / "many", 2_000)
    assert many[0] <= few[0] + 50, "the event grows by digits alone"
    assert many[1] <= few[1] + 500, "each of 4,000 lost steps would need a call at least"


# Marks that went back, and outputs that did not ---------------------------------------------------------------------


def two_streams(folder, output="b.csv", **more):
    data = policy_dict() | {"clock": {"step": "1 h", "start": "2026-01-01"}} | more
    data["streams"][0]["source"] = None
    data["streams"].append(data["streams"][0] | {"name": "b", "output": output})
    return hl.Policy.from_dict(data, folder)


@pytest.mark.parametrize("output", ["mean.csv", "mean.jsonl", "mean.parquet", "parts/"])
@pytest.mark.parametrize("back", ["mark", "guard"])
def test_an_output_that_is_ahead_of_marks_shows_that_they_went_back(tmp_path, output, back):
    """Six steps were published, the backup and the mark or guard have three: all that are due by now are lost."""
    policy = town(tmp_path, output=output)
    push(policy, 1, 2, 3)
    hl.backup(policy, tmp_path / "b")
    old = {file: file.read_bytes() for file in (*tmp_path.glob("*.mark"), tmp_path / "town.ledger.shown")}
    push(policy, 4, 5, 6)
    lose_ledger(tmp_path, *(file.name for file in old))
    for file, content in old.items():
        if file.name.endswith(".mark" if back == "mark" else ".shown"):
            file.write_bytes(content)
    with pytest.raises(LedgerError, match="no mark is left to say whether the ledger was amended"):
        hl.restore(tmp_path / "b", policy, pass_over=True, clock=at(7))
    with pytest.raises(LedgerError, match="set the clock"):
        hl.restore(tmp_path / "b", policy, pass_over=True, unamended=True, clock=at(5))
    made = hl.restore(tmp_path / "b", policy, pass_over=True, unamended=True, clock=at(7))
    assert made.passed == {"mean": (4, 7)}
    for step in (4, 5, 6, 7):
        with pytest.raises(InvalidInput, match="was passed over"):
            push(policy, step, now=8)
    push(policy, 8)
    assert hl.verify(policy).good


def test_a_guard_that_is_ahead_of_marks_shows_that_they_went_back(tmp_path):
    policy = town(tmp_path)
    push(policy, 1, 2)
    hl.backup(policy, tmp_path / "b")
    old = {name: (tmp_path / name).read_bytes() for name in ("mean.csv", "mean.csv.mark")}
    push(policy, 3)
    guard = (tmp_path / "town.ledger.shown").read_bytes()
    lose_ledger(tmp_path)
    for name, content in (old | {"town.ledger.shown": guard}).items():
        (tmp_path / name).write_bytes(content)
    with pytest.raises(LedgerError, match="no mark is left to say whether the ledger was amended"):
        hl.restore(tmp_path / "b", policy, pass_over=True, clock=at(5))
    assert hl.restore(tmp_path / "b", policy, pass_over=True, unamended=True, clock=at(5)).passed == {"mean": (3, 5)}


def test_a_mark_that_went_back_says_nothing_of_other_streams(tmp_path):
    """The output of the one stream is ahead of its mark, so both marks went back; of the other nothing else is left."""
    policy = two_streams(tmp_path)
    push(policy, 1, stream="mean")
    push(policy, 1, stream="b")
    hl.backup(policy, tmp_path / "backup")
    old = {file: file.read_bytes() for file in tmp_path.glob("*.mark")}
    push(policy, 2, stream="mean")
    push(policy, 2, 3, stream="b")
    lose_ledger(tmp_path, "b.csv")
    for file, content in old.items():
        file.write_bytes(content)
    made = hl.restore(tmp_path / "backup", policy, pass_over=True, unamended=True, clock=at(5))
    assert made.passed == {"mean": (2, 5), "b": (2, 5)}


@pytest.mark.parametrize("back", ["elsewhere.mark", "town.ledger.shown"])
def test_what_one_mark_shows_another_must_have_seen(tmp_path, back):
    """A mark for all streams, or the guard, that is behind another mark went back; the output and mark of `b` are gone."""
    policy = two_streams(tmp_path, mark="elsewhere.mark")
    push(policy, 1, stream="mean")
    push(policy, 1, stream="b")
    hl.backup(policy, tmp_path / "backup")
    old = (tmp_path / back).read_bytes()
    push(policy, 2, stream="b")
    push(policy, 2, stream="mean")
    lose_ledger(tmp_path, "b.csv", "b.csv.mark", "elsewhere.mark")
    (tmp_path / back).write_bytes(old)
    made = hl.restore(tmp_path / "backup", policy, pass_over=True, unamended=True, clock=at(4))
    assert made.passed["b"] == (2, 4)


def test_an_output_that_a_killed_restore_moved_aside_still_counts(tmp_path):
    """It is all that shows what was published, as the mark went back, and it is not looked for in vain a second time."""
    policy = two_streams(tmp_path, output="-")
    push(policy, 1, stream="mean")
    hl.backup(policy, tmp_path / "backup")
    old = (tmp_path / "mean.csv.mark").read_bytes()
    push(policy, 2, 3, stream="mean")
    lose_ledger(tmp_path)
    (tmp_path / "mean.csv.mark").write_bytes(old)
    (tmp_path / "mean.csv").rename(tmp_path / "mean.before-restore-20260101T030000.csv")
    with pytest.raises(LedgerError, match=r"mean\.before-restore-20260101T030000\.csv holds step 3 of mean"):
        hl.restore(tmp_path / "backup", policy)
    made = hl.restore(tmp_path / "backup", policy, pass_over=True, unamended=True, clock=at(3))
    assert made.passed == {"mean": (2, 3), "b": (1, 3)}
    push(policy, 4, stream="mean")
    hl.backup(policy, tmp_path / "newer")
    lose_ledger(tmp_path)
    assert hl.restore(tmp_path / "newer", policy, clock=at(4)).passed == {}, "what is passed over already is not ahead"


def test_steps_published_again_count_also_where_the_output_is_no_file(tmp_path):
    policy = town(tmp_path, output="-")
    push(policy, 1, 2)
    hl.backup(policy, tmp_path / "b")
    lose_ledger(tmp_path)
    (tmp_path / "mean.vintage-2.csv").write_text("what somebody has revised\n")
    with pytest.raises(LedgerError, match=r"mean\.vintage-2\.csv holds steps that were published again"):
        hl.restore(tmp_path / "b", policy, newest=True)
    with pytest.raises(LedgerError, match="steps of mean were published again"):
        hl.restore(tmp_path / "b", policy, pass_over=True, unamended=True, clock=at(2))


# Kills --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pass_over", [False, True])
@pytest.mark.parametrize("point", ["restore worked out", "outputs moved aside", "restored ledger in place"])
def test_a_restore_that_is_killed_is_done_again_or_goes_on(tmp_path, point, pass_over):
    policy = town(tmp_path)
    push(policy, 1, 2)
    hl.backup(policy, tmp_path / "b")
    if pass_over:
        push(policy, 3)
    lose_ledger(tmp_path)
    args = (str(tmp_path / "b"), str(tmp_path / "policy.yaml"), point, pass_over, START + 3 * 3600)
    assert finish(start(restore_and_die, *args)) == KILLED
    if point != "restored ledger in place":
        with pytest.raises(HalflifeError):
            push(policy, 3)
        lose_ledger(tmp_path)
        hl.restore(tmp_path / "b", policy, pass_over=pass_over, unamended=True, clock=at(3))
    push(policy, 4)
    assert steps_of(policy) == ([1, 2, 4])
    assert hl.verify(policy).good


# Random orders ------------------------------------------------------------------------------------------------------


class Town:
    """A publication with everything that can happen to it, and the values that readers have ever seen of each step."""

    def __init__(self, folder, seed):
        self.folder, self.draw = folder, random.Random(seed)
        self.policy = town(folder, mark="elsewhere/town.mark")
        self.hour, self.size, self.backups, self.copies = 0, 5, 0, 0
        self.seen: dict[int, set[float]] = {}
        self.done: dict[str, int] = {}

    def note(self, values):
        for step, value in values.items():
            self.seen.setdefault(step, set()).add(value)
            assert len(self.seen[step]) == 1, f"step {step} was drawn twice"

    def look(self):
        if self.policy.path("mean.csv").exists():
            rows = read_csv(self.policy.path("mean.csv"))
            known = {int(r["step"]): float(r["value"]) for r in rows}
            for step, value in known.items():
                near = [v for v in self.seen.get(step, ()) if abs(v - value) < 1e-9]
                assert near or step not in self.seen, f"step {step} was drawn twice"

    def act(self):
        name = self.draw.choice(
            ["push", "push", "push", "backup", "copy", "put back", "restore", "pass over", "lose", "amend", "output"]
        )
        try:
            getattr(self, name.replace(" ", "_"))()
            self.done[name] = self.done.get(name, 0) + 1
        except HalflifeError:
            self.done[f"{name} refused"] = self.done.get(f"{name} refused", 0) + 1
        self.look()

    def push(self):
        self.hour += self.draw.randrange(3)
        with hl.Stream(self.policy, clock=at(self.hour)) as stream:
            for step in range(max(1, self.hour - 2), self.hour + 1):
                try:
                    self.note({step: stream.publish(self.draw.random(), at=step).value})
                except InvalidInput:
                    continue

    def backup(self):
        hl.backup(self.policy, self.folder / f"b{self.backups}", clock=at(self.hour))
        self.backups += 1

    def copy(self):
        shutil.copytree(
            self.folder, self.folder.parent / f"copy{self.folder.name}-{self.copies}", ignore=lambda *_: ["elsewhere"]
        )
        self.copies += 1

    def put_back(self):
        """Restore the whole folder from an old copy, all but the mark elsewhere: or the ledger and its guard alone."""
        source = self.folder.parent / f"copy{self.folder.name}-{self.draw.randrange(max(1, self.copies))}"
        names = ["town.ledger", "town.ledger.shown", *self.draw.choice([[], ["mean.csv", "mean.csv.mark"]])]
        if source.exists():
            lose_ledger(self.folder)
            for file in names:
                if (source / file).exists():
                    shutil.copy(source / file, self.folder / file)

    def restore(self):
        hl.restore(self.folder / f"b{self.draw.randrange(max(1, self.backups))}", self.policy, clock=at(self.hour))

    def pass_over(self):
        folder = self.folder / f"b{self.draw.randrange(max(1, self.backups))}"
        hl.restore(folder, self.policy, pass_over=True, clock=at(self.hour))

    def lose(self):
        if self.draw.random() < 0.5:
            lose_ledger(self.folder, *self.draw.choice([(), ("mean.csv",), ("mean.csv.mark", "mean.csv")]))

    def amend(self):
        larger = town(
            self.folder, mark="elsewhere/town.mark", population={"id": "town", "size": self.size + 1, "person": "home"}
        )
        try:
            hl.amend(larger, "a home joined", clock=at(self.hour))
        except HalflifeError:
            town(
                self.folder, mark="elsewhere/town.mark", population={"id": "town", "size": self.size, "person": "home"}
            )
            raise
        self.policy, self.size = larger, self.size + 1

    def output(self):
        for name in self.draw.choice([("mean.csv",), ("mean.csv.mark",), ("mean.csv", "mean.csv.mark")]):
            (self.folder / name).unlink(missing_ok=True)


def run_towns(folder, seeds, length=40):
    done: dict[str, int] = {}
    for seed in seeds:
        (folder / str(seed)).mkdir()
        model = Town(folder / str(seed), seed)
        for _ in range(length):
            model.act()
        for name, count in model.done.items():
            done[name] = done.get(name, 0) + count
        _check_charged(model)
    return done


def _check_charged(model):
    """The account of a ledger that can be gone on with is no smaller than that of all steps that were ever seen."""
    if not Path(model.policy.ledger_url).exists() or not model.seen:
        return
    try:
        if (
            not hl.status(model.policy).begun
            or hl.status(model.policy).older
            or not hl.verify(model.policy.ledger_url).good
        ):
            return
    except HalflifeError:
        return
    with open_ledger(model.policy.ledger_url, read_only=True) as book:
        if book.newest() is None:
            return
        now = hl.Accountant.from_json(book.states()["account"], book.states().get("attachment"))
    (channel,) = channels(model.policy)
    releases = [r for step in sorted(model.seen) for r in channel.plan_releases(step, step)]
    again = hl.Accountant.replay(now.notion, releases)
    step = max(now.step, again.step)
    assert now.risk(step) >= again.risk(step) * (1 - 1e-9)


def test_no_order_of_publishing_copying_and_restoring_draws_a_step_twice(tmp_path):
    """Eight towns of 40 events: enough that each kind of event both happens and is refused."""
    done = run_towns(tmp_path, range(8))
    for name in ("push", "push refused", "backup", "put back", "restore", "restore refused", "pass over", "amend"):
        assert done.get(name, 0) > 0, (name, done)


@pytest.mark.soak
def test_no_order_draws_a_step_twice_for_long(tmp_path, time_left):
    seed = 100
    while time_left():
        run_towns(tmp_path, [seed])
        seed += 1


def test_restore_as_its_users_run_it(tmp_path):
    from click.testing import CliRunner

    from halflife.cli import main

    policy = town(tmp_path)
    push(policy, 1, 2)
    hl.backup(tmp_path / "policy.yaml", tmp_path / "b")
    push(policy, 3)
    lose_ledger(tmp_path)
    path, folder = str(tmp_path / "policy.yaml"), str(tmp_path / "b")
    done = CliRunner().invoke(main, ["restore", folder, path])
    assert done.exit_code == 1
    assert "3 entries" in done.output
    assert "--pass-over" in done.output
    done = CliRunner().invoke(main, ["restore", folder, path, "--pass-over", "--reason", "disk"])
    assert done.exit_code == 0, done.output
    assert "mean: steps 3 to 3 are passed over, and charged" in done.output
    assert "the record of what was published" in done.output


# Found by attack ------------------------------------------------------------------------------------------------------


def make_two(folder):
    """Two streams that leave room, with readings of a day."""
    from publisher.town import readings, write_readings

    write_readings(folder, readings(steps=48))
    data = policy_dict(stream={"share": 0.3}, clock={"end": "2026-01-03"})
    data["streams"].append(data["streams"][0] | {"name": "other", "output": "other.csv"})
    (folder / "policy.yaml").write_text(json.dumps(data))
    return hl.Policy.load(folder / "policy.yaml")


@pytest.mark.parametrize("guard", [True, False])
def test_a_revision_that_is_lost_with_its_marks_is_not_forgotten(tmp_path, guard):
    """The mark of another stream knows nothing of it; the guard counts one entry more than any steps explain."""
    policy = make_two(tmp_path)
    hl.publish(policy, clock=at(20))
    hl.backup(policy, tmp_path / "b", clock=at(20))
    hl.revise(policy, "other", 18, clock=at(20))
    for file in [*tmp_path.glob("town.ledger*"), *tmp_path.glob("other.*")]:
        if not (guard and file.name.endswith(".shown")):
            file.unlink()
    with pytest.raises(LedgerError, match="--unamended"):
        hl.restore(tmp_path / "b", policy, pass_over=True, clock=at(20))
    if guard:
        with pytest.raises(LedgerError, match="41 entries were published"):
            hl.restore(tmp_path / "b", policy, pass_over=True, unamended=True, clock=at(20))


def test_a_mark_on_a_disk_that_is_not_there_is_missed(tmp_path):
    policy = town(tmp_path, output="-", mark="disk/town.mark")
    push(policy, 1, 2)
    kept = {name: (tmp_path / name).read_bytes() for name in ("town.ledger", "town.ledger.shown")}
    push(policy, 3)
    for file in tmp_path.glob("town.ledger*"):
        file.unlink()
    for name, content in kept.items():
        (tmp_path / name).write_bytes(content)
    shutil.move(tmp_path / "disk", tmp_path / "unmounted")
    with pytest.raises(LedgerError, match="is its disk not there"):
        push(policy, 3)
    shutil.move(tmp_path / "unmounted", tmp_path / "disk")
    with pytest.raises(LedgerError, match="3 entries"):
        push(policy, 3)
    elsewhere = town(tmp_path, output="-", mark="elsewhere.mark")
    push(elsewhere, 3)  # another place is a declaration: nobody can tell what is lost there


def test_a_backup_writes_nothing_outside_and_odd_manifests_are_refused(tmp_path):
    from halflife.numerics.checked import parse_checked, write_checked

    policy = make_two(tmp_path)
    hl.publish(policy, clock=at(3))
    hl.backup(tmp_path / "policy.yaml", tmp_path / "b", clock=at(3))
    manifest = tmp_path / "b" / "manifest.json"
    said = parse_checked(manifest.read_bytes())
    own = said["policy"]
    for change in ({"tables": {"../../escaped.txt": own}}, {"tables": [1]}, {"files": None}, {"policy": None},
                   {"policy": "../../x"}, {"tables": {"t.csv": "/etc/hostname"}}):  # fmt: skip
        manifest.write_text(write_checked({**said, **change}))
        (tmp_path / "new" / "deep").mkdir(parents=True, exist_ok=True)
        with pytest.raises(HalflifeError):
            hl.restore(tmp_path / "b", tmp_path / "new" / "deep" / "policy.yaml", newest=True, clock=at(3))
    assert not (tmp_path / "escaped.txt").exists()
