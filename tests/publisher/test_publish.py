"""Readings in, private statistics out, exactly once: what `publish`, `Stream` and `verify` do."""

import datetime
import json
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import halflife as hl
from forked import finish, start
from halflife import BudgetExceeded, InvalidInput, LedgerError
from halflife.engines import open_source
from halflife.errors import Interrupted
from halflife.ledger import open_ledger
from halflife.ledger.sqlite import SqliteLedger
from halflife.publisher import backfill
from publisher.children import publish_by_command, push_a_day
from publisher.town import HOMES, LOUD, STEPS, exact_means, make, policy_dict, read_csv, readings, write_readings
from thinning import keep

FINE = 1e-3
"""How far noise of epsilon = LOUD moves a mean: far less than a Wh."""


def values(policy, output="mean.csv", column="value"):
    return [float(row[column]) for row in read_csv(policy.path(output))]


def at(text):
    """A clock that stands still."""
    moment = datetime.datetime.fromisoformat(text).replace(tzinfo=datetime.UTC).timestamp()
    return lambda: moment


# What is published --------------------------------------------------------------------------------------------------


def test_the_exact_mean_lies_under_the_noise(tmp_path):
    write_readings(tmp_path)
    policy = make(tmp_path, epsilon=LOUD)
    summary = hl.publish(policy)
    assert values(policy) == pytest.approx(exact_means(), abs=FINE)
    assert summary.published == {"mean": STEPS}
    first, last = (read_csv(policy.path("mean.csv"))[i] for i in (0, -1))
    assert (first["start"], first["end"]) == ("2026-01-01T00:00:00+00:00", "2026-01-01T01:00:00+00:00")
    assert last["end"] == "2026-01-02T00:00:00+00:00"


def test_noise_has_the_scale_that_the_promise_asks_for(tmp_path):
    """w = 6 steps share epsilon, one home moves the mean by 5 kWh / 5: Laplace noise of scale 6 kWh at every step.

    4,800 steps estimate the scale to 1.4 %, so the bounds are 6.9 standard errors away, and 6.4 for the band's share.
    """
    write_readings(tmp_path, [])
    clock = {"step": "1 h", "start": "2026-01-01", "end": "2026-07-20"}
    policy = make(tmp_path, clock=clock)
    hl.publish(policy)
    noise = np.array(values(policy))
    assert len(noise) == 4800
    assert 6 * 0.9 < np.abs(noise).mean() < 6 * 1.1
    bands = np.array(values(policy, column="error_band"))
    assert bands == pytest.approx(6 * np.log(20))
    assert 0.93 < np.mean(np.abs(noise) <= bands) < 0.97


def test_running_again_does_nothing(tmp_path):
    write_readings(tmp_path)
    policy = make(tmp_path)
    hl.publish(policy)
    before = policy.path("mean.csv").read_bytes()
    summary = hl.publish(policy)
    assert summary.published == {"mean": 0}
    assert policy.path("mean.csv").read_bytes() == before


def test_what_is_due_follows_the_clock(tmp_path):
    write_readings(tmp_path)
    policy = make(tmp_path)
    assert hl.publish(policy, clock=at("2025-12-31T00:00")).published == {"mean": 0}
    assert hl.publish(policy, clock=at("2026-01-01T00:59:59")).published == {"mean": 0}
    assert hl.publish(policy, clock=at("2026-01-01T03:00")).published == {"mean": 3}
    assert hl.publish(policy, clock=at("2026-01-01T03:59")).published == {"mean": 0}
    assert hl.publish(policy, clock=at("2026-03-01T00:00")).published == {"mean": STEPS - 3}


def test_a_delay_waits_and_is_charged_as_age(tmp_path):
    write_readings(tmp_path)
    policy = make(tmp_path, epsilon=LOUD, stream={"delay": "2 h"})
    assert hl.publish(policy, clock=at("2026-01-01T02:59")).published == {"mean": 0}
    assert hl.publish(policy, clock=at("2026-01-01T04:00")).published == {"mean": 2}
    hl.publish(policy)
    assert values(policy) == pytest.approx(exact_means(), abs=FINE)
    with open_ledger(policy.ledger_url, read_only=True) as book:
        facts = [(e.step, e.release_step, e.releases[0].age) for e in book.entries()]
    assert facts == [(k, k + 2, 2) for k in range(1, STEPS + 1)]


@pytest.mark.parametrize("kind", ["arrow", "pandas", "polars"])
def test_frames_give_what_files_give(tmp_path, kind):
    policy = make(tmp_path, epsilon=LOUD)
    home, time_, kwh = zip(*readings(), strict=True)
    moments = [datetime.datetime.fromisoformat(t) for t in time_]
    table = pa.table({"home": home, "time": pa.array(moments, pa.timestamp("us")), "kwh": kwh})
    frame = (
        table if kind == "arrow" else table.to_pandas() if kind == "pandas" else __import__("polars").from_arrow(table)
    )
    hl.publish(policy, {"mean": frame})
    assert values(policy) == pytest.approx(exact_means(), abs=FINE)


def test_bad_readings_count_as_missing_and_are_told_to_the_operator_alone(tmp_path, caplog):
    rows = readings()
    bad = [("h0", rows[0][1], "nan"), ("h1", rows[0][1], "lots"), ("h2", "someday", 1.0), ("", rows[0][1], 1.0)]
    write_readings(tmp_path, [*rows, *bad, ("h3", rows[0][1], 99.0)])
    policy = make(tmp_path, epsilon=LOUD, statistic={"duplicates": "each"})
    with caplog.at_level("INFO", logger="halflife.publisher"):
        hl.publish(policy)
    exact = exact_means()
    exact[0] += (5 - rows[3][2]) / HOMES  # home 3's second reading is clipped, and the sum with it
    assert values(policy) == pytest.approx(exact, abs=FINE)
    operator = tmp_path / "town.ledger.operator.jsonl"
    (told,) = (line for line in map(json.loads, operator.read_text().splitlines()) if "event" not in line)
    assert (told["bad_value"], told["bad_time"], told["bad_person"], told["clipped"]) == (2, 1, 1, 1)
    assert stat.S_IMODE(operator.stat().st_mode) == 0o600
    assert not any("bad" in str(record.__dict__) for record in caplog.records)
    assert b"bad" not in Path(policy.ledger_url).read_bytes()


@pytest.mark.parametrize(
    ("clips", "published"), [({"clip": ["0", "2 kW"]}, 221), ({"clip_readings": ["0", "2 kW"]}, 179)]
)
def test_a_clip_is_of_what_a_home_counts_as_and_leaves_its_peaks_alone(tmp_path, clips, published):
    """A home whose mean power is 221 W over a day, with an hour of 3 kW: its mean is far below the clip."""
    watts = [3008] + [100] * 19 + [99] * 4
    write_readings(tmp_path, [("h0", f"2026-01-01T{hour:02}:00", watt / 1000) for hour, watt in enumerate(watts)])
    data = policy_dict(epsilon=LOUD)
    data["population"]["size"], data["clock"] = 1, {"step": "1 day", "start": "2026-01-01", "end": "2026-01-02"}
    data["streams"][0]["statistic"] = {"kind": "mean", "unit": "kW", "resolution": "1 W", "fold": "mean", **clips}
    policy = hl.Policy.from_dict(data, tmp_path)
    hl.publish(policy)
    assert values(policy) == pytest.approx([published / 1000], abs=FINE)


def test_groups_that_a_table_fixes_cost_one_release(tmp_path):
    write_readings(tmp_path)
    (tmp_path / "homes.csv").write_text("home,zone\nh0,north\nh1,north\nh2,south\nh3,south\nh4,south\n")
    groups = {"names": ["north", "empty", "south"], "table": {"file": "homes.csv", "person": "home", "group": "zone"}}
    policy = make(tmp_path, epsilon=LOUD, stream={"groups": groups}, statistic={"kind": "sum"})
    hl.publish(policy)
    rows = read_csv(policy.path("mean.csv"))
    assert [row["group"] for row in rows[:3]] == ["north", "empty", "south"]
    for step in range(STEPS):
        mine = [r for r in readings() if int(r[1][11:13]) == step]
        want = {"north": sum(k for h, _, k in mine if h in ("h0", "h1")), "empty": 0}
        want["south"] = sum(k for _, _, k in mine) - want["north"]
        got = {row["group"]: float(row["value"]) for row in rows if int(row["step"]) == step + 1}
        assert got == pytest.approx(want, abs=FINE)
    with open_ledger(policy.ledger_url, read_only=True) as book:
        (one,) = next(iter(book.entries())).releases
        assert one.sensitivity == 5000, "a home is in one group, so the account is charged once"


def test_groups_that_may_change_are_one_vector(tmp_path):
    rows = [(h, t, k) for h, t, k in readings()]
    with (tmp_path / "moving.csv").open("w") as file:
        file.write("home,time,kwh,place\n")
        for i, (h, t, k) in enumerate(rows):
            file.write(f"{h},{t},{k},{'abc'[i % 3]}\n")
    source = {"files": "moving.csv", "time": "time", "value": "kwh", "group": "place"}
    groups = {"names": ["a", "b", "c"], "most_per_person": 1}
    policy = make(tmp_path, epsilon=LOUD, stream={"groups": groups, "source": source}, statistic={"kind": "sum"})
    hl.publish(policy)
    got = values(policy)
    assert sum(got[:3]) == pytest.approx(sum(k for _, _, k in rows[:HOMES]), abs=10 * FINE)
    with open_ledger(policy.ledger_url, read_only=True) as book:
        (one,) = next(iter(book.entries())).releases
        assert one.sensitivity == 10_000, "leaving one group for another changes both"


def test_a_histogram_counts_everybody_once(tmp_path):
    write_readings(tmp_path)
    statistic = {
        "kind": "histogram",
        "unit": "kWh",
        "resolution": "1 Wh",
        "fold": "last",
        "edges": ["0", "1", "2", "5"],
    }
    data = policy_dict(epsilon=LOUD)
    data["streams"][0]["statistic"] = statistic
    policy = hl.Policy.from_dict(data, tmp_path)
    hl.publish(policy)
    rows = read_csv(policy.path("mean.csv"))
    assert [(r["bin_low"], r["bin_high"]) for r in rows[:3]] == [("0.0", "1.0"), ("1.0", "2.0"), ("2.0", "5.0")]
    for step in range(STEPS):
        mine = [k for _, t, k in readings() if int(t[11:13]) == step]
        want = [sum(k < 1 for k in mine), sum(1 <= k < 2 for k in mine), sum(k >= 2 for k in mine)]
        assert [float(r["value"]) for r in rows[3 * step : 3 * step + 3]] == pytest.approx(want, abs=FINE)


def test_streams_share_one_promise(tmp_path):
    write_readings(tmp_path)
    data = policy_dict()
    count = {
        "name": "count",
        "share": 0.25,
        "source": data["streams"][0]["source"],
        "statistic": {"kind": "count"},
        "output": "n.csv",
    }
    data["streams"][0]["share"] = 0.75
    data["streams"].append(count)
    policy = hl.Policy.from_dict(data, tmp_path)
    summary = hl.publish(policy)
    assert summary.published == {"mean": STEPS, "count": STEPS}
    assert summary.risk == pytest.approx(1.0, rel=1e-9)
    assert values(policy, "n.csv", "error_band")[0] == pytest.approx(np.log(20) * 6 / 0.25)
    files = {"mean": str(policy.path("mean.csv")), "count": str(policy.path("n.csv"))}
    assert hl.verify(policy.ledger_url, files).problems == ()


def test_a_wider_stream_beside_a_finer_one(tmp_path):
    """Daily and hourly means under a discounted promise: the day's total is charged when the day is over."""
    write_readings(tmp_path, readings(steps=48))
    data = policy_dict(promise={"notion": "exponential", "epsilon": 1.0, "half_life": "12 h"})
    data["promise"] = {"notion": "exponential", "epsilon": 1.0, "half_life": "12 h"}
    data["clock"] |= {"end": "2026-01-03", "late": "as-planned"}
    day = {**data["streams"][0], "name": "day", "step": "1 day", "output": "day.csv", "share": 0.5}
    data["streams"][0]["share"] = 0.5
    data["streams"].append(day)
    policy = hl.Policy.from_dict(data, tmp_path)
    assert hl.publish(policy).published == {"mean": 48, "day": 2}
    with open_ledger(policy.ledger_url, read_only=True) as book:
        assert [e.release_step for e in book.entries("day")] == [24, 48]
    assert hl.verify(policy.ledger_url).problems == ()


CHAIN = {"name": "markov-chain", "matrix": [[0.9, 0.1], [0.2, 0.8]]}
BY_DATA_TIME = [
    {"notion": "w-event", "epsilon": 1.0, "w": 24},
    {"notion": "w-event", "epsilon": 1.0, "w": 30, "delta": 1e-6},
    {"notion": "age-dependent", "epsilon": 1.0, "process": CHAIN},
]


@pytest.mark.parametrize(
    "promise",
    keep(BY_DATA_TIME, lambda promise: promise["notion"] == "w-event"),  # `spans` of tests/golden has the other
    ids=["w-event", "w-event with a delta", "age-dependent"],
)
def test_hours_and_local_days_share_a_promise_by_data_time(tmp_path, promise):
    """Days of 24, 23 and 24 hours beside hours, in three runs: spans in the ledger, verified, audited, and the promise used."""
    from halflife.audit.policy.audit import audit_policy

    rows = [("h0", f"2026-03-{d:02d}T{h:02d}:30:00", 0.5) for d in (28, 29, 30) for h in range(24)]
    write_readings(tmp_path, rows)
    data = policy_dict()
    data["promise"] = promise
    data["clock"] |= {"start": "2026-03-28", "end": "2026-03-31", "zone": "Europe/London", "late": "as-planned"}
    data["streams"][0]["share"] = 0.5
    data["streams"].append({**data["streams"][0], "name": "day", "step": "1 day", "output": "day.csv"})
    policy = hl.Policy.from_dict(data, tmp_path)
    for when in ("2026-03-28T20:00", "2026-03-29T12:00", "2026-04-01"):
        hl.publish(policy, clock=at(when))
    with open_ledger(policy.ledger_url, read_only=True) as book:
        days = [r for e in book.entries("day") for r in e.releases]
        assert {r.span for e in book.entries("mean") for r in e.releases} == {1}
    assert [(r.first_data_time, r.data_time, r.step_sensitivity) for r in days] == [
        (1, 24, None),
        (25, 47, None),
        (48, 71, None),
    ]
    outputs = {"mean": str(tmp_path / "mean.csv"), "day": str(tmp_path / "day.csv")}
    verdict = hl.verify(policy.ledger_url, outputs, policy=policy)
    assert verdict.problems == ()
    assert verdict.steps == {"mean": 71, "day": 3}
    if promise["notion"] == "w-event":
        assert 0.69 < verdict.used <= 1
    if not promise.get("delta"):
        found = audit_policy(policy, seconds=600.0, runs=4)
        assert [f for f in found.findings if f.accused] == []


def test_local_days_have_23_and_25_hours(tmp_path):
    rows = [("h0", f"2026-03-{d:02d}T{h:02d}:00:00", 0.001) for d in (28, 29, 30) for h in range(24)]
    write_readings(tmp_path, rows)
    clock = {"step": "1 day", "start": "2026-03-28", "end": "2026-03-31", "zone": "Europe/London"}
    policy = make(tmp_path, epsilon=LOUD, clock=clock, statistic={"kind": "sum"}, promise={"w": 1})
    hl.publish(policy)
    assert values(policy) == pytest.approx([0.024, 0.023, 0.024], abs=1e-4)
    assert [r["start"][-6:] for r in read_csv(policy.path("mean.csv"))] == ["+00:00", "+00:00", "+01:00"]


def test_post_processing_goes_on_after_a_restart(tmp_path):
    write_readings(tmp_path)
    post = {"post": [{"truncate": ["0", "5"]}, {"moving_average": 4}]}
    policy = make(tmp_path, stream=post)
    for hour in (3, 4, 9, 23):
        hl.publish(policy, clock=at(f"2026-01-01T{hour:02d}:00"))
    hl.publish(policy)
    with open_ledger(policy.ledger_url, read_only=True) as book:
        noisy = [min(5.0, max(0.0, e.noisy[0] / 5000)) for e in book.entries()]
    want = [sum(noisy[max(0, k - 3) : k + 1]) / len(noisy[max(0, k - 3) : k + 1]) for k in range(STEPS)]
    assert values(policy) == pytest.approx(want, rel=1e-12)


def test_many_batches_are_charged_one_after_the_other_and_drawn_once(tmp_path, monkeypatch):
    """Five batches are charged before anything is read, and drawn ahead; the account is that of all of them."""
    from halflife import noise
    from halflife.publisher import backfill

    monkeypatch.setattr(backfill, "BATCH_STEPS", 5)
    drawn, real = [], noise.draw_many
    monkeypatch.setattr(noise, "draw_many", lambda some: drawn.append(len(some)) or real(some))
    write_readings(tmp_path)
    policy = make(tmp_path)
    hl.publish(policy)
    assert [n for n in drawn if n] == [5, 5, 5, 5, 4]
    verdict = hl.verify(policy.ledger_url, {"mean": str(policy.path("mean.csv"))}, policy=policy)
    assert verdict.problems == ()
    assert verdict.steps == {"mean": STEPS}
    assert verdict.risk == pytest.approx(1.0, rel=1e-9)


def forgetting(folder, late):
    data = policy_dict()
    data["promise"] = {"notion": "exponential", "epsilon": 1.0, "half_life": "6 h"}
    data["clock"]["late"] = late
    return hl.Policy.from_dict(data, folder)


def test_what_is_late_counts_from_now_on_if_the_promise_forgets(tmp_path):
    """On time, every step has room. After six steps of silence the account has forgotten a little, but not six losses:

    the room is ε(1 − α^6) and a loss ε(1 − α), so ⌊(1 − α^6)/(1 − α)⌋ of them fit, the plan's margin of 1e-8 apart. The newest
    ones are published, the others never: every later step takes up the room that comes back.
    """
    write_readings(tmp_path)
    policy = forgetting(tmp_path, "now")
    for hour in range(1, 13):
        assert hl.publish(policy, clock=at(f"2026-01-01T{hour:02d}:05")).published == {"mean": 1}
    summary = hl.publish(policy, clock=at("2026-01-01T18:05"))
    alpha = 2 ** (-1 / 6)
    fit = int((1 - alpha**6) / (1 - alpha) + 1e-6)
    assert summary.published == {"mean": fit}
    assert summary.passed_over == 6 - fit > 0
    with open_ledger(policy.ledger_url, read_only=True) as book:
        late = [(e.step, e.release_step, e.releases[0].age) for e in book.entries(first=13, stream="mean")]
    assert late == [(k, 18, 18 - k) for k in range(19 - fit, 19)]
    for hour in (19, 20, 21):
        later = hl.publish(policy, clock=at(f"2026-01-01T{hour}:05"))
        assert (later.published, later.passed_over) == ({"mean": 1}, 0), "on time again"
    assert hl.verify(policy.ledger_url, {"mean": str(policy.path("mean.csv"))}).problems == ()


def test_a_stream_that_lags_beyond_the_accounts_memory_goes_on_with_what_it_can(tmp_path):
    """w-event remembers so many data times: steps before them are passed over, and the stream is not stuck for ever."""
    write_readings(tmp_path)
    data = policy_dict()
    pushed = {**data["streams"][0], "name": "pushed", "source": None, "output": "pushed.csv"}
    data["streams"].append(pushed)
    policy = hl.Policy.from_dict(data, tmp_path)
    with hl.Stream(policy, "pushed") as stream:
        for step in range(1, STEPS + 1):
            stream.publish(1.0, at=step)
    summary = hl.publish(policy)
    assert 0 < summary.passed_over < STEPS
    assert summary.published["mean"] == STEPS - summary.passed_over
    rows = read_csv(policy.path("mean.csv"))
    assert [int(r["step"]) for r in rows] == list(range(summary.passed_over + 1, STEPS + 1)), "the newest ones"
    assert hl.verify(policy.ledger_url, {"mean": str(policy.path("mean.csv"))}, policy=policy).problems == ()


def test_what_takes_long_to_read_counts_from_when_it_is_published(tmp_path, monkeypatch):
    write_readings(tmp_path)
    policy = forgetting(tmp_path, "now")
    moment = [datetime.datetime(2026, 1, 1, 1, 5, tzinfo=datetime.UTC).timestamp()]
    from halflife.publisher import checkpoints

    monkeypatch.setattr(
        checkpoints, "reach", lambda p: moment.__setitem__(0, moment[0] + (36_000 if p == "totals read" else 0))
    )
    hl.publish(policy, clock=lambda: moment[0])
    with open_ledger(policy.ledger_url, read_only=True) as book:
        assert [(e.step, e.release_step) for e in book.entries()] == [(1, 11)], "ten hours of reading later"


def test_the_past_can_be_replayed_as_planned(tmp_path):
    write_readings(tmp_path)
    assert 0 < hl.publish(forgetting(tmp_path, "now")).passed_over < STEPS
    policy = forgetting(tmp_path, "as-planned")
    with pytest.raises(LedgerError, match="how late steps count was 'now' and is now 'as-planned'"):
        hl.publish(policy)
    for name in ("town.ledger", "town.ledger.shown", "mean.csv", "mean.csv.mark"):
        (tmp_path / name).unlink()
    summary = hl.publish(policy)
    assert (summary.published, summary.passed_over) == ({"mean": STEPS}, 0)


# What is refused ----------------------------------------------------------------------------------------------------


def test_a_broken_promise_is_refused_before_any_data_is_read(tmp_path, monkeypatch):
    """The files are not even there: the refusal comes first."""
    policy = make(tmp_path)
    from halflife.publisher import saved

    account = hl.Accountant(hl.WEvent(1.0, 6))
    account.admit(hl.Release(1, 0.9))
    monkeypatch.setattr(saved, "Accountant", lambda notion: account)
    with pytest.raises(BudgetExceeded):
        hl.publish(policy)
    monkeypatch.undo()
    with pytest.raises(InvalidInput, match=r"readings\.csv"):
        hl.publish(policy)
    assert not policy.path("mean.csv").read_bytes()


def test_another_promise_on_the_same_ledger_is_refused(tmp_path):
    write_readings(tmp_path)
    hl.publish(make(tmp_path), clock=at("2026-01-01T05:00"))
    with pytest.raises(LedgerError, match=r"epsilon of the promise was 1\.0 and is now 2\.0"):
        hl.publish(make(tmp_path, epsilon=2.0))
    with pytest.raises(LedgerError, match="population"):
        hl.publish(make(tmp_path, population={"size": 6}))
    (tmp_path / "moved").mkdir()
    (tmp_path / "readings.csv").rename(tmp_path / "moved" / "readings.csv")
    (tmp_path / "mean.csv").rename(tmp_path / "moved" / "out.csv")
    source = {"files": "moved/readings.csv", "time": "time", "value": "kwh"}
    moved = make(tmp_path, output="moved/out.csv", stream={"source": source})
    assert hl.publish(moved).published == {"mean": STEPS - 5}, "files may move"


def restore(policy, backup):
    for file in Path(policy.ledger_url).parent.glob("town.ledger-*"):
        file.unlink()
    Path(policy.ledger_url).write_bytes(backup)


def test_a_restored_backup_is_refused(tmp_path):
    """Its noise would be drawn again, whatever became of the output: renamed, or a pipe that nobody can read back."""
    write_readings(tmp_path)
    policy = make(tmp_path)
    hl.publish(policy, clock=at("2026-01-01T05:00"))
    backup = Path(policy.ledger_url).read_bytes()
    hl.publish(policy, clock=at("2026-01-01T09:00"))
    restore(policy, backup)
    for output in ("mean.csv", "other.csv", "-"):
        with pytest.raises(LedgerError, match="holds 5 entries, but 9 were published"):
            hl.publish(make(tmp_path, output=output), clock=at("2026-01-01T12:00"))


def test_an_output_ahead_of_its_ledger_is_refused(tmp_path):
    write_readings(tmp_path)
    policy = make(tmp_path)
    hl.publish(policy, clock=at("2026-01-01T05:00"))
    backup = Path(policy.ledger_url).read_bytes()
    hl.publish(policy, clock=at("2026-01-01T09:00"))
    restore(policy, backup)
    seen = policy.path("mean.csv").read_bytes()
    told = {
        "town.ledger.shown": (LedgerError, "is missing"),
        "town.ledger": (LedgerError, r"holds 0 entries, but 9 entries were published from it, says .*mean\.csv\.mark"),
        "mean.csv.mark": (InvalidInput, "ahead"),
    }
    for file, (
        kind,
        words,
    ) in told.items():  # as on another machine; then without any ledger; as before there were marks
        (tmp_path / file).unlink()
        with pytest.raises(kind, match=words):
            hl.publish(policy, clock=at("2026-01-01T12:00"))
    assert policy.path("mean.csv").read_bytes() == seen
    with open_ledger(policy.ledger_url, read_only=True) as book:
        assert book.last_step("mean") == 0, "nothing was drawn"


def test_a_slip_that_is_mended_before_anything_is_published(tmp_path):
    write_readings(tmp_path)
    wrong = make(tmp_path, stream={"source": {"files": "readings.csv", "time": "time", "value": "kWh"}})
    with pytest.raises(InvalidInput, match="did you mean 'kwh'"):
        hl.publish(wrong)
    assert hl.publish(make(tmp_path)).published == {"mean": STEPS}


def test_the_same_policy_in_other_words_is_the_same(tmp_path):
    write_readings(tmp_path)
    hl.publish(make(tmp_path), clock=at("2026-01-01T05:00"))
    data = policy_dict(epsilon="1")
    data["clock"]["step"] = "60 min"
    data["streams"][0]["statistic"] |= {"clip": [0, 5.0], "resolution": "0.001 kWh", "missing": "0"}
    assert hl.publish(hl.Policy.from_dict(data, tmp_path)).published == {"mean": STEPS - 5}


def test_a_frame_for_a_stream_without_columns_is_refused_in_words(tmp_path):
    with pytest.raises(InvalidInput, match="has no `source`"):
        hl.publish(make(tmp_path, stream={"source": None}), {"mean": pa.table({"a": [1]})})


def test_an_account_of_another_notion_is_refused(tmp_path, monkeypatch):
    write_readings(tmp_path)
    policy = make(tmp_path)
    hl.publish(policy, clock=at("2026-01-01T05:00"))
    other = hl.Accountant(hl.Classical(1.0)).to_json()
    monkeypatch.setattr(SqliteLedger, "states", lambda self: {"account": other})
    with pytest.raises(LedgerError, match="not those of the newest batch"):
        hl.publish(policy)
    monkeypatch.setattr(SqliteLedger, "_check_newest", lambda self: None)
    with pytest.raises(LedgerError, match="keeps Classical"):
        hl.publish(policy)


def test_a_truncated_output_is_completed(tmp_path):
    write_readings(tmp_path)
    policy = make(tmp_path)
    hl.publish(policy)
    whole = policy.path("mean.csv").read_bytes()
    policy.path("mean.csv").write_bytes(whole[: len(whole) // 2])
    summary = hl.publish(policy)
    assert policy.path("mean.csv").read_bytes() == whole
    assert summary.emitted_again["mean"] > 0


def test_a_clock_that_jumped_back_publishes_nothing(tmp_path):
    write_readings(tmp_path)
    policy = make(tmp_path)
    hl.publish(policy, clock=at("2026-01-01T05:00"))
    with pytest.raises(LedgerError, match="300 minutes before the newest entry"):
        hl.publish(policy, clock=at("2026-01-01T00:00"))
    assert hl.publish(policy, clock=at("2026-01-01T04:59")).published == {"mean": 0}
    assert hl.publish(policy).published == {"mean": STEPS - 5}


@pytest.mark.parametrize(("seconds", "refused"), [(119, False), (121, True), (1199, True)])
def test_a_clock_may_go_back_by_two_minutes_and_no_more(tmp_path, seconds, refused):
    """Between two machines, or after a correction, clocks differ a little; one that was set back would date releases wrongly."""
    write_readings(tmp_path)
    policy = make(tmp_path)
    hl.publish(policy, clock=at("2026-01-01T05:00:00"))
    earlier = at("2026-01-01T05:00:00")() - seconds
    if refused:
        with pytest.raises(LedgerError, match="set the clock; nothing was published"):
            hl.publish(policy, clock=lambda: earlier)
    else:
        assert hl.publish(policy, clock=lambda: earlier).published == {"mean": 0}
    assert hl.publish(policy, clock=at("2026-01-01T06:00:00")).published == {"mean": 1}


def test_a_full_disk_and_then_room_again(tmp_path, monkeypatch):
    write_readings(tmp_path)
    policy = make(tmp_path, clock={"end": "2026-02-01"})
    begin = SqliteLedger.begin

    def begin_on_a_small_disk(book, facts):
        known = begin(book, facts)
        (pages,) = book._db.execute("PRAGMA page_count").fetchone()
        book._db.execute(f"PRAGMA max_page_count = {pages + 2}")
        return known

    monkeypatch.setattr(SqliteLedger, "begin", begin_on_a_small_disk)
    with pytest.raises(LedgerError, match="full"):
        hl.publish(policy)
    monkeypatch.undo()
    assert not policy.path("mean.csv").exists() or not policy.path("mean.csv").read_bytes()
    assert hl.publish(policy).published == {"mean": 31 * 24}
    assert hl.verify(policy.ledger_url, {"mean": str(policy.path("mean.csv"))}).problems == ()


def test_two_publishers_race(tmp_path):
    write_readings(tmp_path)
    make(tmp_path)
    files = [tmp_path / f"said{i}" for i in range(3)]
    processes = [start(publish_by_command, str(tmp_path / "policy.yaml"), said=file) for file in files]
    ended = [finish(p) for p in processes]
    said = [file.read_text() for file in files]
    assert ended == [0, 0, 0], said
    assert sum("mean: 24 steps published" in text for text in said) == 1
    policy = hl.Policy.load(tmp_path / "policy.yaml")
    assert hl.verify(policy.ledger_url, {"mean": str(policy.path("mean.csv"))}).problems == ()
    assert len(values(policy)) == STEPS


def test_sigterm_finishes_the_batch_in_hand(tmp_path):
    write_readings(tmp_path, readings(steps=24 * 28))
    policy = make(tmp_path, clock={"step": "1 h", "start": "2026-01-01", "end": "2026-01-29"})
    script = (
        "import sys, time; from halflife.cli import main; from halflife.publisher import backfill, checkpoints;"
        "backfill.BATCH_STEPS = 10;"
        "checkpoints.reach = lambda p: (time.sleep(0.05), print(p, flush=True));"
        "sys.argv[1:] = ['publish', sys.argv[1]]; main()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path / "policy.yaml")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while process.stdout.readline().strip() != "entries committed":
        pass
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM, said
    assert "Stopped as asked" in said
    done = len(values(policy))
    assert 0 < done < 24 * 28
    assert done % 10 == 0
    assert hl.verify(policy.ledger_url, {"mean": str(policy.path("mean.csv"))}).problems == ()
    hl.publish(policy)
    assert len(values(policy)) == 24 * 28


# The push interface -------------------------------------------------------------------------------------------------


def test_a_program_pushes_its_aggregate(tmp_path):
    policy = make(tmp_path, epsilon=LOUD, stream={"source": None})
    with hl.Stream(policy) as stream:
        first = stream.publish(1.25, at="2026-01-01T00:10")
        assert first.value == pytest.approx(1.25, abs=FINE)
        assert (first.step, first.start.isoformat()) == (1, "2026-01-01T00:00:00+00:00")
        again = stream.publish(99.0, at=1)
        assert again.value == first.value, "a step is published once, whatever is pushed later"
        later = stream.publish(0.5, at=datetime.datetime(2026, 1, 1, 7, 30))
        assert later.step == 8
        with pytest.raises(InvalidInput, match="passed over"):
            stream.publish(0.5, at=5)
        newest = stream.publish(0.5)
        assert newest.step == STEPS
    assert [int(r["step"]) for r in read_csv(policy.path("mean.csv"))] == [1, 8, 24]
    assert hl.verify(policy.ledger_url, {"mean": str(policy.path("mean.csv"))}).problems == ()


def test_what_cannot_be_pushed(tmp_path):
    policy = make(tmp_path, stream={"source": None})
    with hl.Stream(policy, clock=at("2026-01-01T05:10")) as stream:
        with pytest.raises(InvalidInput, match="not over yet"):
            stream.publish(1.0, at="2026-01-01T05:00")
        for moment in ("2025-12-31", 0, 99, "2027-01-01"):
            with pytest.raises(InvalidInput, match="outside"):
                stream.publish(1.0, at=moment)
        for bad in ([1.0, 2.0], {"a": 1.0}, "much"):
            with pytest.raises(InvalidInput, match="number"):
                stream.publish(bad, at=1)
        assert stream._session.ledger.last_step("mean") == 0
    with pytest.raises(InvalidInput, match="did you mean 'mean'"):
        hl.Stream(policy, "maen")


def test_a_pushed_nan_counts_as_nobody_and_is_told_to_the_operator(tmp_path):
    policy = make(tmp_path, epsilon=LOUD, stream={"source": None}, statistic={"missing": "1 kWh"})
    with hl.Stream(policy) as stream:
        assert stream.publish(float("nan"), at=1).value == pytest.approx(1.0, abs=FINE)
    (told,) = map(json.loads, (tmp_path / "town.ledger.operator.jsonl").read_text().splitlines())
    assert told["bad_value"] == 1


def test_a_pushed_value_is_rounded_to_the_nearest_unit(tmp_path):
    """A total of 2.6 Wh is 3 units, so a mean over 5 homes is 0.6 Wh; -2.6 Wh is -3 units."""
    policy = make(tmp_path, epsilon=LOUD, stream={"source": None}, statistic={"clip": ["-5", "5"]})
    with hl.Stream(policy) as stream:
        assert stream.publish(0.00052, at=1).value == pytest.approx(0.0006, abs=1e-4)
        assert stream.publish(-0.00052, at=np.int64(2)).value == pytest.approx(-0.0006, abs=1e-4)


def test_threads_of_one_program_take_turns(tmp_path):
    """Whoever comes second with a step gets the stored value; nobody is refused, and nothing is published twice."""
    from concurrent.futures import ThreadPoolExecutor

    policy = make(tmp_path, stream={"source": None})
    with hl.Stream(policy, wait=30) as stream, ThreadPoolExecutor(4) as pool:
        for step in range(1, 6):
            seen = list(pool.map(lambda v, k=step: stream.publish(float(v), at=k).value, range(4)))
            assert len(set(seen)) == 1
    assert hl.verify(policy.ledger_url, {"mean": str(policy.path("mean.csv"))}).problems == ()


def test_a_ledger_that_was_replaced_under_a_stream_is_noticed(tmp_path):
    policy = make(tmp_path, stream={"source": None})
    with hl.Stream(policy) as stream:
        stream.publish(1.0, at=1)
        copy = Path(policy.ledger_url).read_bytes()
        Path(policy.ledger_url).rename(tmp_path / "old")
        with pytest.raises(LedgerError, match="is gone"):
            stream.publish(1.0, at=2)
        Path(policy.ledger_url).write_bytes(copy)
        with pytest.raises(LedgerError, match="put in its place"):
            stream.publish(1.0, at=2)


def test_stdout_is_marked_only_once_it_is_written(tmp_path, monkeypatch, capfd):
    policy = make(tmp_path, stream={"source": None}, output="-")
    from halflife.outputs.text import Stdout

    def broken(self, items):
        raise BrokenPipeError

    with monkeypatch.context() as patch, hl.Stream(policy) as stream:
        patch.setattr(Stdout, "write", broken)
        with pytest.raises(BrokenPipeError):
            stream.publish(1.0, at=1)
    with hl.Stream(policy) as stream:
        value = stream.publish(2.0, at=1).value
    assert json.loads(capfd.readouterr().out)["value"] == value


def test_noise_of_a_vector_allows_for_what_a_person_changes(tmp_path):
    """Two numbers change, each rounded on its own: the noise must be calibrated for two, not one."""
    from halflife import noise as grade
    from halflife.mechanisms.release_draw import find_price
    from halflife.policy import channels

    source = {"files": "readings.csv", "time": "time", "value": "kwh", "group": "place"}
    groups = {"names": ["a", "b", "c"], "most_per_person": 1}
    (channel,) = channels(make(tmp_path, stream={"groups": groups, "source": source}, statistic={"kind": "sum"}))
    (request,) = channel.make_mechanism().requests([1])
    one = find_price(request).order
    assert one == grade.by_loss(1 / 6, 10_000.0, "laplace", 3, touched=2)
    assert one != grade.by_loss(1 / 6, 10_000.0, "laplace", 3, touched=1)


def test_groups_are_pushed_as_a_mapping(tmp_path):
    groups = {"names": ["a", "b"], "most_per_person": 1, "sizes": {"a": 2, "b": 3}}
    policy = make(tmp_path, epsilon=LOUD, stream={"source": None, "groups": groups})
    with hl.Stream(policy) as stream:
        assert stream.publish({"b": 2.0, "a": 1.0}, at=1).value == pytest.approx({"a": 1.0, "b": 2.0}, abs=FINE)
        with pytest.raises(InvalidInput, match="each of the 2 groups"):
            stream.publish({"a": 1.0}, at=2)


def test_four_programs_push_into_one_ledger(tmp_path):
    """Writers queue: none starves, and the account holds every loss."""
    data = {**policy_dict(), "promise": {"notion": "classical", "epsilon": 1.0}}
    base = {**data["streams"][0], "source": None, "share": 0.25}
    data["streams"] = [{**base, "name": f"s{i}", "output": f"s{i}.csv"} for i in range(4)]
    (tmp_path / "policy.yaml").write_text(json.dumps(data))
    said = tmp_path / "said"
    processes = [start(push_a_day, str(tmp_path / "policy.yaml"), f"s{i}", said=said) for i in range(4)]
    assert [finish(p) for p in processes] == [0] * 4, said.read_text()
    policy = hl.Policy.load(tmp_path / "policy.yaml")
    verdict = hl.verify(policy.ledger_url, {f"s{i}": str(policy.path(f"s{i}.csv")) for i in range(4)})
    assert verdict.problems == ()
    assert verdict.steps == dict.fromkeys((f"s{i}" for i in range(4)), 24)


# Growth -------------------------------------------------------------------------------------------------------------


def test_the_cost_of_a_release_does_not_grow_with_the_ledger(tmp_path):
    """SQLite's own count of steps of its machine, for one more release: at 50 and at 5,000 releases."""
    clock = {"step": "1 min", "start": "2026-01-01"}
    policy = make(tmp_path, stream={"source": None}, clock={**clock, "end": "2026-02-01"})
    write_readings(tmp_path, [])
    filled = make(tmp_path, clock={**clock, "end": "2026-02-01"})

    def work():
        with hl.Stream(policy) as stream:
            counted = [0]
            stream._session.ledger._db.set_progress_handler(lambda: counted.__setitem__(0, counted[0] + 1) or 0, 10)
            stream.publish(
                1.0, at=int(stream._session.ledger.last_step("mean")) + 1 if stream._session.ledger.facts() else 1
            )
            return counted[0]

    with hl.Stream(policy) as stream:
        for step in range(1, 51):
            stream.publish(1.0, at=step)
    early = work()
    assert filled is not None
    with hl.Stream(policy) as stream:
        stream.publish(1.0, at=100)
    _fill(policy, 5_000)
    late = work()
    assert late <= 2 * early + 20


def _fill(policy, steps):
    from halflife.publisher.session import Session

    session = Session(policy)
    try:
        with session.hold(1.0):
            (c,) = session.channels
            due = session.due(c, 101, steps)
            session.publish([(due, np.zeros((steps - 100, 1), dtype=np.int64))])
    finally:
        session.close()


class SlowEngine:
    """Reads for ever; deaf to the first calls to break off, as an engine is between two queries."""

    def __init__(self, deaf):
        self.left, self.reading, self.heard = deaf, threading.Event(), threading.Event()

    def aggregate(self, question):
        self.reading.set()
        assert self.heard.wait(5), "nobody broke it off"
        raise Interrupted("broken off")

    def progress(self):
        return "reading", 0.5

    def interrupt(self):
        self.left -= 1
        if self.left < 0:
            self.heard.set()

    def close(self):
        pass


@pytest.mark.parametrize("deaf", [0, 3])
def test_a_read_is_broken_off_until_the_engine_hears_it(tmp_path, monkeypatch, deaf):
    policy, engine = make(tmp_path), SlowEngine(deaf)
    monkeypatch.setattr(backfill, "open_source_of", lambda *_: engine)
    monkeypatch.setattr(backfill, "PATIENCE", 0.01)
    summary = hl.publish(policy, stop=engine.reading.is_set)
    assert (summary.stopped, summary.published) == (True, {"mean": 0})


@pytest.mark.parametrize("ask", ["_open", "_run"])
def test_whatever_an_engine_does_when_it_is_broken_off_is_no_fault_of_the_file(tmp_path, ask):
    engine = open_source([str(write_readings(tmp_path))])

    class Broken:
        def execute(self, sql):
            raise duckdb.InterruptException("INTERRUPT Error: Interrupted!")

        def close(self):
            pass

    engine._duck.close()
    engine._duck = Broken()
    with pytest.raises(Interrupted):
        getattr(engine, ask)("SELECT 1")
    engine.close()
