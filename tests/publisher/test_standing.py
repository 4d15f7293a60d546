"""Where a policy stands: every number against the policy, the ledger and the clock, worked out another way."""

from __future__ import annotations

import datetime
import json
import math
import os

import numpy as np
import pytest

import halflife as hl
from forked import finish, start
from halflife.ledger import open_ledger
from halflife.policy import channels
from halflife.publisher import operator_log, standing
from publisher.children import ask_for_status
from publisher.town import KILLED, make, policy_dict, read_csv, run_and_die, write_readings

HOUR = 3600.0
NEW_YEAR = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def at(hours, base=NEW_YEAR):
    return lambda: base.timestamp() + hours * HOUR


def endless(tmp_path, promise=None, **changes):
    """The town without an end, under another promise."""
    data = policy_dict(**changes)
    del data["clock"]["end"]
    if promise is not None:
        data["promise"] = promise
    path = tmp_path / "policy.yaml"
    path.write_text(json.dumps(data))
    return hl.Policy.load(path)


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.endswith(("-shm", "-wal"))}


# What is due --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delay", [0, 3])
def test_lag_newest_and_next_step_by_the_clock(tmp_path, delay):
    write_readings(tmp_path)
    policy = make(tmp_path, stream={"delay": f"{delay} h"} if delay else {})
    hl.publish(policy, clock=at(7.5))
    done = max(0, 7 - delay)
    for hours in (7.5, 8.0, 12.25, 24 + delay - 0.001, 24 + delay, 400):
        (stream,) = hl.status(policy, clock=at(hours)).streams
        due = [k for k in range(1, 25) if k + delay <= hours]
        assert (stream.newest, stream.lag) == (done, len(due) - done)
        assert stream.end == NEW_YEAR + datetime.timedelta(hours=done)
        assert stream.age == datetime.timedelta(hours=hours - done)
        missing = [k for k in due if k > done]
        assert stream.due_since == (NEW_YEAR + datetime.timedelta(hours=missing[0] + delay) if missing else None)
        ahead = [k for k in range(1, 25) if k + delay > hours]
        assert stream.next_step == (ahead[0] if ahead else None)
        assert stream.next_due == (NEW_YEAR + datetime.timedelta(hours=ahead[0] + delay) if ahead else None)
        assert stream.ends == ("at", 24, NEW_YEAR + datetime.timedelta(hours=24 + delay))


def test_without_a_ledger_it_says_so_and_makes_none(tmp_path):
    write_readings(tmp_path)
    policy = make(tmp_path)
    before = files(tmp_path)
    found = hl.status(policy, clock=at(5))
    assert (found.begun, found.entries, found.used, found.last_run) == (False, 0, 0.0, None)
    assert found.streams[0].lag == 5
    assert files(tmp_path) == before
    (tmp_path / "town.ledger").touch()  # a publisher that was stopped before it began
    assert not hl.status(policy, clock=at(5)).begun


def test_times_are_in_the_policys_zone_over_a_change_of_clocks(tmp_path):
    policy = endless(tmp_path, clock={"start": "2026-03-28", "zone": "Europe/London", "step": "1 day"})
    start = datetime.datetime(2026, 3, 28, tzinfo=datetime.UTC)
    (stream,) = hl.status(policy, clock=at(46.9, start)).streams  # the 29th has 23 hours
    assert (stream.lag, stream.next_due.isoformat()) == (1, "2026-03-30T00:00:00+01:00")
    assert hl.status(policy, clock=at(47, start)).streams[0].lag == 2


# What is used -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "promise",
    [
        {"notion": "w-event", "epsilon": 1, "w": 6},
        {"notion": "exponential", "epsilon": 1, "half_life": 12},
        {"notion": "hyperbolic", "epsilon": 2, "beta": 0.3},
        {"notion": "classical", "epsilon": 5},
    ],
)
def test_used_and_headroom_are_those_of_the_ledgers_releases(tmp_path, promise):
    write_readings(tmp_path)
    policy = endless(tmp_path, promise)
    for hours in (1, 2, 3, 4, 5):
        hl.publish(policy, clock=at(hours))
    with open_ledger(policy.ledger_url, read_only=True) as book:
        releases = [r for entry in book.entries() for r in entry.releases]
    account = hl.Accountant.replay(policy.notion, releases)
    later = 9 if policy.notion.forgets else 5
    found = hl.status(policy, clock=at(9.5))
    assert (found.step, found.risk, found.used) == (later, account.risk(later), account.used(later))
    assert (found.limit, found.peak) == (account.exposure(later).limit, account.peak(later))
    assert found.streams[0].headroom == account.headroom(max(6, later), age=max(0, later - 6))
    assert found.streams[0].loss == pytest.approx(policy_loss(policy, 6))
    if policy.notion.forgets:
        assert found.used < account.used(5)


def test_a_stream_that_lags_behind_another_has_the_room_that_is_left_at_its_data_time(tmp_path):
    write_readings(tmp_path)
    data = policy_dict()
    pushed = {key: value for key, value in data["streams"][0].items() if key != "source"}
    data["streams"].append({**pushed, "name": "other", "output": "other.csv"})
    (tmp_path / "policy.yaml").write_text(json.dumps(data))
    policy = hl.Policy.load(tmp_path / "policy.yaml")
    hl.publish(policy, clock=at(3))
    with hl.Stream(policy, "other", clock=at(8)) as other:
        other.publish(0.5)
    with open_ledger(policy.ledger_url, read_only=True) as book:
        account = hl.Accountant.replay(policy.notion, [r for entry in book.entries() for r in entry.releases])
    found = hl.status(policy, clock=at(8)).streams[0]
    assert (found.planned, found.lag) == (4, 5)
    assert found.headroom == account.headroom(8, age=4) < account.headroom(8)


def policy_loss(policy, k):
    return channels(policy)[0].plan.loss(k)


@pytest.mark.parametrize(
    "promise",
    [
        {"notion": "hyperbolic", "epsilon": 2, "beta": 0.3},
        {"notion": "gaussian-discount", "epsilon": 1, "delta": 1e-6, "half_life": 12},
        {"notion": "almost-periodic", "epsilon": 8, "period": "1 day", "strong": True},
    ],
)
def test_the_band_of_the_next_step_is_the_one_that_is_then_published(tmp_path, promise):
    write_readings(tmp_path)
    policy = endless(tmp_path, promise)
    for hours in (1, 2, 3):
        before = hl.status(policy, clock=at(hours))
        hl.publish(policy, clock=at(hours))
        row = read_csv(tmp_path / "mean.csv")[-1]
        assert float(row["error_band"]) == pytest.approx(before.streams[0].band, rel=1e-6)
    laplace = promise["notion"] != "gaussian-discount"
    ratio = math.log(20) if laplace else 1.959963984540054 / math.sqrt(2 / math.pi)
    assert before.streams[0].band == pytest.approx(ratio * before.streams[0].error)


# When the error passes ----------------------------------------------------------------------------------------------


def first_above(policy, x, begin, last):
    """The first step whose expected error passes x, by asking the plan for every scale."""
    (c,) = channels(policy)
    errors = c.plan.scales(last) * float(c.factors[0])
    return next(k for k in range(begin, last + 1) if errors[k - 1] > x)


def test_when_the_error_passes_within_a_year_and_later(tmp_path):
    policy = endless(tmp_path, {"notion": "hyperbolic", "epsilon": 1, "beta": 0.2}, clock={"step": "1 day"})
    errors = (
        channels(policy)[0].plan.scales(20_000)[[0, 1, 299, 364, 365, 999, 17_000]] / 5000
    )  # 5000 Wh are 1 kWh a home
    for error in errors.tolist():
        (stream,) = hl.status(policy, error=error, clock=at(0)).streams
        step = first_above(policy, error * (1 + 1e-9), 1, 20_000)
        assert stream.error_passes == ("at", step, NEW_YEAR + datetime.timedelta(days=step))
    assert step > 17_000
    (stream,) = hl.status(policy, error=0.5 * errors[0], clock=at(0)).streams
    assert stream.error_passes.step == 1


def test_a_constant_error_never_passes_and_one_with_an_end_may_not_before_it(tmp_path):
    policy = endless(tmp_path)
    (stream,) = hl.status(policy, error=6.0, clock=at(0)).streams
    assert stream.error == 6.0  # 5 kWh / 5 homes, six steps in a window, ε = 1
    assert stream.error_passes.verdict == "never"
    assert stream.ends.verdict == "never"
    (stream,) = hl.status(make(tmp_path), error=6.0, clock=at(0)).streams
    assert stream.error_passes.verdict == "not before the end"
    exponential = endless(tmp_path, {"notion": "exponential", "epsilon": 1, "half_life": 24})
    steady = 1.0 / -math.expm1(math.log(0.5) / 24)  # Corollary 12: the scale tends to Δf / (ε (1 − α))
    passes = [hl.status(exponential, error=f * steady, clock=at(0)).streams[0].error_passes for f in (0.999, 1.001)]
    assert [p.verdict for p in passes] == ["at", "never"]


def test_a_plan_for_ever_ends_where_noise_cannot_be_drawn(tmp_path):
    policy = endless(tmp_path, {"notion": "classical", "epsilon": 0.01}, clock={"step": "1 s"})
    (stream,) = hl.status(policy, clock=at(0)).streams
    step = stream.ends.step
    assert policy_loss(policy, step) < 2.0**-40 <= policy_loss(policy, step - 1)


def test_noise_that_falls_is_searched_for_a_year_alone(tmp_path, monkeypatch):
    policy = endless(tmp_path)
    rugged = np.random.default_rng(1).uniform(1, 2, 30_000)
    monkeypatch.setattr(standing, "_errors", lambda c, first, last: rugged[first - 1 : last])
    (stream,) = hl.status(policy, error=1.9, clock=at(0)).streams
    assert stream.error_passes.step == int(np.argmax(rugged > 1.9)) + 1
    (stream,) = hl.status(policy, error=2.5, clock=at(0)).streams
    assert stream.error_passes.verdict == "not within a year"


@pytest.mark.parametrize("error", [0, -1, float("nan"), "much"])
def test_an_error_that_means_nothing_is_refused(tmp_path, error):
    with pytest.raises(hl.InvalidInput, match="error"):
        hl.status(make(tmp_path), error=error)


# Reading alone ------------------------------------------------------------------------------------------------------


def test_nothing_is_written_and_nothing_private_is_said(tmp_path):
    write_readings(tmp_path, [("h0", "2026-01-01T00:30:00", "nan"), ("h1", "2026-01-01T00:30:00", 987.0)])
    policy = make(tmp_path)
    hl.publish(policy)
    before = files(tmp_path)
    said = json.dumps(hl.status(policy).to_dict(), allow_nan=False)
    assert files(tmp_path) == before
    assert not any(word in said for word in ("bad_value", "clipped", "rows", "duplicates"))


def test_it_works_while_another_process_publishes_and_hinders_nobody(tmp_path):
    write_readings(tmp_path)
    policy = make(tmp_path)
    hl.publish(policy, clock=at(5))
    with open_ledger(policy.ledger_url) as book, book.hold():
        assert finish(start(ask_for_status, str(tmp_path / "policy.yaml"))) == 0
        found = hl.status(policy, clock=at(6))
    assert found.writer.startswith(f"process {os.getpid()} since")
    assert (found.entries, found.streams[0].newest) == (5, 5)
    assert hl.status(policy).writer is None


def test_another_policy_and_a_damaged_ledger_are_refused(tmp_path):
    write_readings(tmp_path)
    hl.publish(make(tmp_path))
    with pytest.raises(hl.LedgerError, match=r"epsilon of the promise was 1\.0 and is now 2\.0"):
        hl.status(make(tmp_path, epsilon=2.0))
    policy = make(tmp_path)
    ledger = tmp_path / "town.ledger"
    ledger.write_bytes(b"no database" * 1000)
    with pytest.raises(hl.LedgerError, match=r"town\.ledger"):
        hl.status(policy)


# The last run -------------------------------------------------------------------------------------------------------


def last_run(policy):
    return hl.status(policy).last_run


def test_how_the_last_run_ended(tmp_path):
    write_readings(tmp_path)
    policy = make(tmp_path)
    hl.publish(policy, clock=at(3))
    run = last_run(policy)
    assert (run.outcome, run.steps, run.error) == ("finished", {"mean": 3}, None)
    assert (run.began, run.ended) == ("2026-01-01T03:00:00+00:00", "2026-01-01T03:00:00+00:00")
    hl.publish(policy, clock=at(4), stop=lambda: True)
    assert (last_run(policy).outcome, last_run(policy).steps) == ("stopped", {"mean": 0})
    (tmp_path / "readings.csv").rename(tmp_path / "away.csv")
    with pytest.raises(hl.HalflifeError) as refusal:
        hl.publish(policy, clock=at(5))
    assert (last_run(policy).outcome, last_run(policy).error) == ("failed", str(refusal.value))


def test_a_killed_run_is_one_without_an_end(tmp_path):
    write_readings(tmp_path)
    policy = make(tmp_path)
    assert run_and_die(tmp_path, "entries committed") == KILLED
    assert (last_run(policy).outcome, last_run(policy).ended) == ("begun", None)


def test_an_error_that_may_quote_data_is_kept_by_its_name_alone(tmp_path, monkeypatch):
    write_readings(tmp_path)
    policy = make(tmp_path)

    def fail(*_):
        raise RuntimeError("h0 used 2.5 kWh")

    monkeypatch.setattr("halflife.publisher.backfill.PublishRun.run", fail)
    with pytest.raises(RuntimeError, match="h0 used"):
        hl.publish(policy)
    assert last_run(policy).error == "RuntimeError"


@pytest.mark.parametrize("broken", ["folder", "writing"])
def test_a_record_that_cannot_be_written_hides_no_error(tmp_path, monkeypatch, broken):
    write_readings(tmp_path)
    policy = make(tmp_path)
    hl.publish(policy, clock=at(3))
    operator = tmp_path / "town.ledger.operator.jsonl"
    if broken == "folder":
        operator.unlink()
        operator.mkdir()
    else:
        monkeypatch.setattr(operator_log, "write_operator", lambda *_: 1 / 0)

    def fail(*_):
        raise hl.LedgerError("the disk fails")

    monkeypatch.setattr("halflife.publisher.backfill.PublishRun.run", fail)
    with pytest.raises(hl.LedgerError, match="the disk fails"):
        hl.publish(policy)
    if broken == "folder":
        assert last_run(policy) is None


def test_whatever_stands_in_the_operators_file_only_runs_are_read(tmp_path):
    write_readings(tmp_path)
    policy = make(tmp_path)
    hl.publish(policy, clock=at(3))
    good = last_run(policy)
    lines = [
        '{"event": "run", "outcome": "finished", "steps": 3}', '{"event": "run"', "[[" * 5000 + '"run"', '"run"', "\xff",
        '{"event": "run", "outcome": "finished", "began": "soon", "steps": {}}', '{"stream": "run", "steps": [1, 2]}',
        '{"event": "run", "outcome": "splendid", "steps": {}}',
    ]  # fmt: skip
    with (tmp_path / "town.ledger.operator.jsonl").open("a", encoding="latin-1") as file:
        file.write("\n".join(lines) + "\n")
    assert last_run(policy) == good
