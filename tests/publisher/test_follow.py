"""A publisher that stays: each step is published when it is closed by the clock, whatever has arrived."""

import gzip
import json
import logging
import os
import shutil
import sqlite3
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import halflife as hl
from halflife.errors import Interrupted
from halflife.ledger import open_ledger
from halflife.ledger.events import parse_event
from halflife.policy import channels
from halflife.publisher import arrivals
from halflife.publisher import follow as following
from halflife.publisher.skipping import list_skipped
from publisher.town import HOMES, LOUD, make, read_csv, readings

START, HOUR = 1_767_225_600, 3600
FOLDER = {"source": {"files": "in/*.csv", "time": "time", "value": "kwh"}}


class World:
    """A clock that goes on while a publisher sleeps, and what happens at which time; it ends at a time."""

    def __init__(self, now=START, end=START + 6 * HOUR):
        self.now, self.end, self.happens, self.slept = float(now), end, [], []

    def at(self, moment, act):
        self.happens.append((moment, act))
        self.happens.sort(key=lambda pair: pair[0])

    def clock(self):
        return self.now

    def sleep(self, seconds):
        assert 0 < seconds <= following.NAP
        self.slept.append(self.now)
        self.now += seconds
        while self.happens and self.happens[0][0] <= self.now:
            self.happens.pop(0)[1]()

    def stop(self):
        return self.now >= self.end

    def follow(self, policy, **more):
        hl.follow(policy, clock=self.clock, sleep=self.sleep, stop=self.stop, **more)


def drop(folder: Path, name, rows):
    """A file that arrives whole, of a time long ago: what it holds may be remembered."""
    (folder / "in").mkdir(exist_ok=True)
    lines = "home,time,kwh\n" + "".join(f"{h},{t},{x}\n" for h, t, x in rows)
    (folder / "in" / f".{name}").write_text(lines)
    os.utime(folder / "in" / f".{name}", (1, 1))
    (folder / "in" / f".{name}").rename(folder / "in" / name)


def hours(folder, *which, homes=HOMES):
    """Files of whole hours."""
    rows = readings()
    for k in which:
        drop(folder, f"{k:03}.csv", [r for r in rows if int(r[1][11:13]) == k and int(r[0][1:]) < homes])


def values(folder):
    return {int(row["step"]): float(row["value"]) for row in read_csv(folder / "mean.csv")}


def exact(k, homes=HOMES):
    return sum(x for h, t, x in readings() if int(t[11:13]) == k and int(h[1:]) < homes) / HOMES


def operator(policy, event):
    with open_ledger(policy.ledger_url, read_only=True) as book:
        lines = map(json.loads, book.operator_file.read_text().splitlines())
        return [line for line in lines if line.get("event") == event]


@contextmanager
def opened(policy):
    session = following.Session(policy, lambda: START + 2.0 * HOUR)
    try:
        yield session
    finally:
        session.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def ledger(request, schema):
    return "town.ledger" if request.param == "sqlite" else request.getfixturevalue("postgresql").url(schema)


def test_each_step_is_published_at_its_closing_with_what_has_arrived(tmp_path, ledger):
    """End, delay and lateness: 1 h 15 min after a step began; what comes a minute later does not count."""
    world = World()
    policy = make(tmp_path, epsilon=LOUD, ledger=ledger, stream={**FOLDER, "delay": "5 min", "lateness": "10 min"})
    hours(tmp_path, 0)
    seen = {}
    for k in (1, 2):
        closing = START + (k + 1) * HOUR + 900
        world.at(closing - 1, lambda k=k: hours(tmp_path, k, homes=3))
        world.at(closing + 60, lambda k=k: hours(tmp_path, k))
        world.at(closing - 0.5, lambda k=k: seen.update({k: len(values(tmp_path))}))
    world.end = START + 4 * HOUR
    world.follow(policy)
    assert seen == {1: 1, 2: 2}, "published before it was closed, or not when it was"
    assert values(tmp_path) == pytest.approx({1: exact(0), 2: exact(1, 3), 3: exact(2, 3)}, abs=1e-3)
    with open_ledger(policy.ledger_url, read_only=True) as book:
        late = [batch.at_us / 1e6 - START - HOUR * k - 900 for k, batch in enumerate(book.batches(), start=1)]
    assert all(0 <= by < 2 for by in late), late
    assert hl.verify(policy).problems == ()


def test_late_readings_are_counted_for_the_operator_alone_with_how_late(tmp_path):
    world = World(end=START + 5.5 * HOUR)
    policy = make(tmp_path, epsilon=LOUD, stream={**FOLDER, "lateness": "10 min"})
    hours(tmp_path, 0, homes=4)
    world.at(START + HOUR + 900, lambda: hours(tmp_path, 0))
    world.follow(policy)
    lines = [line for line in operator(policy, "arrived") if line["step"] == 1]
    assert [line.get("late") for line in lines] == [None, 1, 0, 0]
    assert (lines[1]["since_s"], lines[1]["after_s"]) == pytest.approx((0, 3600), abs=2)
    assert values(tmp_path)[1] == pytest.approx(exact(0, 4), abs=1e-3)
    world = World(now=world.now, end=START + 9 * HOUR)
    world.at(START + 6 * HOUR + 900, lambda: hours(tmp_path, 2))
    world.follow(policy)
    third = [line for line in operator(policy, "arrived") if line["step"] == 3]
    assert sum(line.get("late", 0) for line in third) == HOMES, (
        "a publisher that was started again did not go on counting"
    )


def test_a_folder_without_files_is_nobody_with_a_reading_and_a_missing_folder_is_out_of_reach(tmp_path, caplog):
    """Rows that are missing are no failed connection."""
    caplog.set_level(logging.INFO, "halflife.publisher")
    (tmp_path / "in").mkdir()
    world = World(end=START + 3.5 * HOUR)
    policy = make(tmp_path, epsilon=LOUD, stream={**FOLDER, "absent": "skip"})
    world.at(START + 1.5 * HOUR, (tmp_path / "in").rmdir)
    world.at(START + 2.5 * HOUR, lambda: hours(tmp_path, 2))
    world.follow(policy)
    assert values(tmp_path) == pytest.approx({1: 0.0, 3: exact(2)}, abs=1e-3)
    with open_ledger(policy.ledger_url, read_only=True) as book:
        assert list_skipped(book) == [("mean", (2, 2))]
    assert [r.message for r in caplog.records].count("skipped") == 1
    assert hl.verify(policy).problems == ()


@pytest.mark.parametrize("absent", ["missing", "skip"])
def test_a_source_out_of_reach_is_dealt_with_as_the_policy_says_and_for_good(tmp_path, ledger, absent):
    hours(tmp_path, 0, 1, 2)
    world = World(end=START + 2.5 * HOUR)
    policy = make(tmp_path, epsilon=LOUD, ledger=ledger, stream={**FOLDER, "absent": absent})
    world.at(START + 1.5 * HOUR, lambda: (tmp_path / "in").rename(tmp_path / "away"))
    world.follow(policy)
    (tmp_path / "away").rename(tmp_path / "in")
    World(now=world.now, end=START + 3.5 * HOUR).follow(policy)
    known = {1: exact(0), 3: exact(2)} | ({2: 0.0} if absent == "missing" else {})
    assert values(tmp_path) == pytest.approx(known, abs=1e-3)
    assert hl.publish(policy, clock=lambda: START + 3.6 * HOUR).published == {"mean": 0}, "a skipped step came back"
    assert hl.verify(policy).problems == ()
    with open_ledger(policy.ledger_url, read_only=True) as book:
        assert sum(len(e.releases) for e in book.entries()) == len(known), "what was skipped was charged"
    assert hl.status(policy, clock=lambda: START + 3.6 * HOUR).streams[0].lag == 0


def test_a_step_that_was_skipped_and_published_is_found(tmp_path):
    """By a ledger whose chain is right, as somebody with the keys of the house would write it."""
    hours(tmp_path, 0, 1, 2)
    policy = make(tmp_path, stream=FOLDER)
    hl.publish(policy, clock=lambda: START + HOUR + 1)
    with opened(policy) as session, session.hold(1.0):
        session.skip({"mean": (2, 4)})
        session.done["mean"] = 1
        session.publish([(session.due(session.channels[0], 2, 2), np.array([[5]]))])
    assert any("was skipped for good" in problem for problem in hl.verify(policy).problems)


def test_before_anything_was_published_a_skip_cannot_be_recorded_and_the_step_comes_late(tmp_path):
    world = World(end=START + 2.5 * HOUR)
    policy = make(tmp_path, epsilon=LOUD, stream={**FOLDER, "absent": "skip"})
    world.at(START + 1.5 * HOUR, lambda: hours(tmp_path, 0, 1))
    world.follow(policy)
    assert values(tmp_path) == pytest.approx({1: exact(0), 2: exact(1)}, abs=1e-3)


def test_hours_of_downtime_are_caught_up_with_and_a_source_that_is_away_then_is_waited_for(tmp_path):
    """Late steps need not be given up: until the next one is closed there is time."""
    hours(tmp_path, *range(6))
    (tmp_path / "in").rename(tmp_path / "away")
    policy = make(tmp_path, epsilon=LOUD, stream={**FOLDER, "absent": "skip"})
    world = World(now=START + 5.2 * HOUR, end=START + 5.9 * HOUR)
    world.at(START + 5.5 * HOUR, lambda: (tmp_path / "away").rename(tmp_path / "in"))
    world.follow(policy)
    assert values(tmp_path) == pytest.approx({k + 1: exact(k) for k in range(5)}, abs=1e-3)


def test_a_file_that_cannot_be_read_has_not_arrived(tmp_path):
    """Damaged, half written, of other columns: the operator is told, once, and nothing stops."""
    hours(tmp_path, 0, 1, 2)
    (tmp_path / "in" / "bad.csv").write_text("home;other\n1;2\n")
    (tmp_path / "in" / "half.csv").write_bytes(b"\xff\xfe\x00")
    for file in (tmp_path / "in").iterdir():
        os.utime(file, (1, 1))
    world = World(end=START + 3.5 * HOUR)
    policy = make(tmp_path, epsilon=LOUD, stream=FOLDER)
    world.follow(policy)
    assert values(tmp_path) == pytest.approx({k + 1: exact(k) for k in range(3)}, abs=1e-3)
    told = [line["problem"] for line in operator(policy, "unreadable")]
    assert len(told) == 2, told
    assert any("bad.csv" in text for text in told)


def test_a_step_costs_what_has_arrived_for_it_and_not_all_that_ever_did(tmp_path, monkeypatch):
    """Files that were read and did not change are not opened again."""
    seen = []
    real = following.Arrivals.open.__globals__["open_source"]

    def note(source, *more, **options):
        seen.append(len(source))
        return real(source, *more, **options)

    monkeypatch.setitem(following.Arrivals.open.__globals__, "open_source", note)
    rows = readings(steps=23)
    for k in range(23):
        drop(tmp_path, f"{k:03}.csv", [r for r in rows if int(r[1][11:13]) == k])
    policy = make(tmp_path, stream={**FOLDER, "lateness": "10 min"}, clock={"start": "2026-01-03", "end": "2026-01-04"})
    world = World(now=START + 49.2 * HOUR, end=START + 52.9 * HOUR)
    for k in (2, 3):
        row = ("h1", f"2026-01-03T0{k - 1}:30:00", 1)
        world.at(START + (48 + k) * HOUR, lambda k=k, row=row: drop(tmp_path, f"z{k}.csv", [row]))
    world.follow(policy)
    assert seen[:2] == [1, 23], "one file is looked at before it starts, and then all of them"
    assert set(seen[2:]) == {1}, seen


def test_a_source_that_cannot_be_read_as_the_policy_says_is_refused_at_the_start_and_out_of_reach_later(tmp_path):
    """Whoever starts it sees a wrong column at once; later a step is published whatever has become of the source."""
    hours(tmp_path, 0, 1, 2)
    wrong = make(tmp_path, stream={"source": {"files": "in/*.csv", "time": "tiem", "value": "kwh"}})
    with pytest.raises(hl.InvalidInput, match="'tiem'"):
        World().follow(wrong)
    base = sqlite3.connect(tmp_path / "readings.db")
    base.execute("CREATE TABLE r (home, time, kwh)")
    base.executemany("INSERT INTO r VALUES (?, ?, ?)", readings())
    base.commit()
    source = {"files": "readings.db", "table": "r", "time": "time", "value": "kwh"}
    world = World(end=START + 3.5 * HOUR)

    def rename(old, new):
        base.execute(f"ALTER TABLE {old} RENAME TO {new}")
        base.commit()

    world.at(START + 1.5 * HOUR, lambda: rename("r", "s"))
    world.at(START + 2.5 * HOUR, lambda: rename("s", "r"))
    world.follow(make(tmp_path, epsilon=LOUD, stream={"source": source}))
    base.close()
    assert values(tmp_path) == pytest.approx({1: exact(0), 2: 0.0, 3: exact(2)}, abs=1e-3)


def test_sigterm_finishes_the_step_in_hand(tmp_path, monkeypatch):
    hours(tmp_path, 0, 1, 2)
    policy = make(tmp_path, stream=FOLDER)
    asked, real = [], following.Arrivals.open

    def ask_while_it_reads(self, *arguments, **more):
        asked.append(1)
        time.sleep(0.5)
        return real(self, *arguments, **more)

    monkeypatch.setattr(following.Arrivals, "open", ask_while_it_reads)
    world = World(end=START + 9 * HOUR)
    hl.follow(policy, clock=world.clock, sleep=world.sleep, stop=lambda: bool(asked))
    assert list(values(tmp_path)) == [1]
    assert hl.verify(policy).problems == ()


def test_the_last_step_ends_it(tmp_path):
    hours(tmp_path, *range(24))
    policy = make(tmp_path, stream=FOLDER)
    world = World(now=START + 22.5 * HOUR, end=START + 99 * HOUR)
    world.follow(policy)
    assert len(values(tmp_path)) == 24
    assert world.now < START + 24 * HOUR + 2


def test_a_policy_without_a_source_cannot_be_followed(tmp_path):
    policy = make(tmp_path, stream={"source": None})
    with pytest.raises(hl.InvalidInput, match="a program pushes them all"):
        hl.follow(policy)


def test_a_policy_is_read_again_when_asked_and_after_an_amendment(tmp_path, caplog):
    """Another output is free; a change that was not amended is said, and not taken; an amendment is followed."""
    caplog.set_level(logging.INFO, "halflife.publisher")
    hours(tmp_path, *range(6))
    make(tmp_path, epsilon=LOUD, stream=FOLDER)
    world, asked = World(end=START + 5.5 * HOUR), []

    def refused():
        make(tmp_path, epsilon=LOUD, stream=FOLDER, population={"size": 7})
        asked.append(1)

    def free():
        make(tmp_path, epsilon=LOUD, stream={**FOLDER, "post": [{"truncate": ["0", "9 kWh"]}]})
        asked.append(1)

    def amended():
        path = tmp_path / "policy.yaml"
        make(tmp_path, epsilon=LOUD, stream={**FOLDER, "post": [{"truncate": ["0", "9 kWh"]}]}, population={"size": 10})
        hl.amend(path, "people moved in", clock=world.clock)

    world.at(START + 1.5 * HOUR, refused)
    world.at(START + 2.5 * HOUR, free)
    world.at(START + 3.5 * HOUR, amended)
    world.follow(str(tmp_path / "policy.yaml"), reload=lambda: bool(asked and asked.pop()))
    told = [record.message for record in caplog.records]
    assert told.count("policy not taken") == 1
    assert told.count("policy read again") >= 2
    expected = {k + 1: exact(k) * (0.5 if k >= 3 else 1.0) for k in range(5)}
    assert values(tmp_path) == pytest.approx(expected, abs=1e-3)
    assert hl.verify(tmp_path / "policy.yaml").problems == ()


def test_two_publishers_follow_one_ledger_and_publish_each_step_once(tmp_path, ledger):
    hours(tmp_path, *range(6))
    make(tmp_path, ledger=ledger, stream=FOLDER)
    world = World(now=START + HOUR - 1, end=START + 5.9 * HOUR)
    began = time.monotonic()

    def clock():
        return world.now + (time.monotonic() - began) * 3600

    errors = []

    def run():
        try:
            hl.follow(
                str(tmp_path / "policy.yaml"),
                clock=clock,
                sleep=lambda s: time.sleep(s / 100),
                stop=lambda: clock() > world.end,
            )
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    found = sorted(values(tmp_path))
    assert found == list(range(1, len(found) + 1))
    assert len(found) >= 5, "on a busy machine a step more is closed before they look whether to stop"
    assert hl.verify(tmp_path / "policy.yaml").problems == ()


def test_what_it_logs_is_the_same_for_two_people(tmp_path, caplog):
    """Neighbouring readings, a bad file and late rows among them, give the same events at the same times."""
    caplog.set_level(logging.INFO, "halflife.publisher")
    said = []
    for which in ("a", "b"):
        caplog.clear()
        folder = tmp_path / which
        folder.mkdir()
        hours(folder, 0, 1, 2, homes=5 if which == "a" else 4)
        if which == "b":
            (folder / "in" / "bad.csv").write_text("nonsense\n")
        world = World(end=START + 3.5 * HOUR)
        world.follow(make(folder, stream=FOLDER))
        said.append([(r.message, r.fields) for r in caplog.records if hasattr(r, "fields")])
    assert said[0] == said[1]


def test_channels_close_at_end_plus_delay_plus_lateness(tmp_path):
    policy = make(tmp_path, stream={**FOLDER, "delay": "30 min", "lateness": "45 min"})
    (channel,) = channels(policy)
    assert (channel.age, channel.wait) == (1, 15 * 60_000_000)
    assert channel.published_at(1) == (START + HOUR + 75 * 60) * 1_000_000


def test_an_event_of_skips_is_part_of_the_chain(tmp_path):
    hours(tmp_path, 0)
    policy = make(tmp_path, stream=FOLDER)
    hl.publish(policy, clock=lambda: START + HOUR + 1)
    with opened(policy) as session, session.hold(1.0):
        assert session.skip({"mean": (2, 3)})
    with open_ledger(policy.ledger_url, read_only=True) as book:
        (event,) = book.events()
        assert parse_event(event.event)["skipped"] == {"mean": [2, 3]}
    assert hl.status(policy, clock=lambda: START + 4.2 * HOUR).streams[0].lag == 1
    assert hl.certify(policy) is not None


# What a reviewer and an attacker found -----------------------------------------------------------------------------------


def closed_late(policy, stream="mean"):
    """How long after its closing each step of a stream was published, in seconds, by step."""
    (channel,) = [c for c in channels(policy) if c.name == stream]
    with open_ledger(policy.ledger_url, read_only=True) as book:
        last, times = 0, {}
        for batch in book.batches():
            times |= dict.fromkeys(range(last + 1, batch.last + 1), batch.at_us)
            last = max(last, batch.last)
        entries = list(book.entries())
    found = {}
    for number, entry in enumerate(entries, start=1):
        if entry.stream == stream:
            found[entry.step] = (times[number] - channel.published_at(entry.step)) / 1e6
    return found


def two_streams(tmp_path, second, **first):
    """A policy of two streams of the same hours; the second may differ, and reads another folder."""
    policy = make(tmp_path, epsilon=LOUD, stream={**FOLDER, **first})
    data = policy.to_data()
    other = json.loads(json.dumps(data["streams"][0], default=str))
    other |= {"name": "other", "output": str(tmp_path / "other.csv")} | second
    data["streams"].append(other)
    (tmp_path / "policy.yaml").write_text(json.dumps(data, default=str))
    return hl.Policy.load(tmp_path / "policy.yaml")


def slowly(monkeypatch, world, seconds):
    """Whoever looks at files takes so long."""
    from halflife.engines.duckdb.engine import DuckEngine

    real, pending = DuckEngine.find_extent, list(seconds)

    def find_extent(engine, question):
        world.now += pending.pop(0) if pending else 0
        return real(engine, question)

    monkeypatch.setattr(DuckEngine, "find_extent", find_extent)


def test_a_step_that_is_closed_while_it_works_is_published_at_once(tmp_path, monkeypatch):
    """It was found only after the run when the next step is closed, and so waited a whole step; the last one for ever."""
    hours(tmp_path, *range(8))
    policy = make(tmp_path, epsilon=LOUD, stream=FOLDER)
    world = World(now=START + 3 * HOUR - 1, end=START + 4.5 * HOUR)
    slowly(monkeypatch, world, [2.0])
    world.follow(policy)
    late = closed_late(policy)
    assert sorted(late) == [1, 2, 3, 4]
    assert max(late[3], late[4]) < 5, late


def test_two_streams_that_close_one_after_the_other_are_both_in_time(tmp_path, monkeypatch):
    hours(tmp_path, *range(8))
    policy = two_streams(tmp_path, {"lateness": "1 min"})
    world = World(end=START + 4.5 * HOUR)
    slowly(monkeypatch, world, [90.0] * 100)
    world.follow(policy)
    assert max(closed_late(policy).values()) < 200
    assert max(closed_late(policy, "other").values()) < 200


def test_the_last_step_is_published_though_it_is_closed_while_late_ones_are_read(tmp_path, monkeypatch):
    hours(tmp_path, *range(24))
    policy = make(tmp_path, epsilon=LOUD, stream=FOLDER, clock={"end": "2026-01-02"})
    world = World(now=START + 24 * HOUR - 100, end=START + 26 * HOUR)
    slowly(monkeypatch, world, [400.0])
    world.follow(policy)
    assert sorted(values(tmp_path)) == list(range(1, 25))


def test_a_stream_waits_for_its_own_source_and_for_its_own_closing_while_others_go_on(tmp_path):
    """Late steps of a stream whose folder is away were skipped when another stream was closed, which waited meanwhile."""
    hours(tmp_path, *range(12))
    elsewhere = {**FOLDER["source"], "files": "out/*.csv"}
    policy = two_streams(tmp_path, {"lateness": None, "absent": "skip", "source": elsewhere}, lateness="1 min")
    shutil.copytree(tmp_path / "in", tmp_path / "away")
    world = World(now=START + 8 * HOUR + 30, end=START + 9.5 * HOUR)
    seen = {}
    world.at(START + 8 * HOUR + 90, lambda: seen.update(early=values(tmp_path)))
    world.at(START + 8 * HOUR + 1800, lambda: (tmp_path / "away").rename(tmp_path / "out"))
    world.follow(policy)
    assert sorted(seen["early"]) == list(range(1, 9)), "the stream whose source is there waited"
    with open_ledger(policy.ledger_url, read_only=True) as book:
        assert list_skipped(book) == []
        assert {e.step for e in book.entries("other")} == set(range(1, 10))
    assert hl.verify(policy).problems == ()


def test_what_a_machine_slept_through_is_late_and_waits_for_its_source(tmp_path):
    hours(tmp_path, *range(12))
    policy = make(tmp_path, epsilon=LOUD, stream={**FOLDER, "absent": "skip"})
    world = World(end=START + 9.5 * HOUR)

    def suspend():
        (tmp_path / "in").rename(tmp_path / "away")
        world.now += 7 * HOUR
        world.at(world.now + 30, lambda: (tmp_path / "away").rename(tmp_path / "in"))

    world.at(START + 1.5 * HOUR, suspend)
    world.follow(policy)
    assert sorted(values(tmp_path)) == list(range(1, 10))


def test_a_file_that_vanishes_or_fails_takes_no_other_with_it(tmp_path, monkeypatch):
    """One that was taken away while they were looked at made all that were looked at with it count as unreadable, for good."""
    from halflife.engines.duckdb.engine import DuckEngine

    hours(tmp_path, *range(4))
    drop(tmp_path, "x.csv", [])
    policy = make(tmp_path, epsilon=LOUD, stream=FOLDER)
    real = DuckEngine.find_extent
    failures = []

    def find_extent(engine, question):
        if (tmp_path / "in" / "x.csv").exists():
            (tmp_path / "in" / "x.csv").unlink()
        elif not failures and "002.csv" in engine._label:  # the disk fails once, at the first step
            failures.append(1)
            raise engine._unreadable()
        return real(engine, question)

    monkeypatch.setattr(DuckEngine, "find_extent", find_extent)
    World(end=START + 4.5 * HOUR).follow(policy)
    assert failures
    found = values(tmp_path)
    assert {k: found[k] for k in (2, 3, 4)} == pytest.approx({k: exact(k - 1) for k in (2, 3, 4)}, abs=1e-3)


@pytest.mark.parametrize("call", ["find_extent", "aggregate"])
def test_a_full_scratch_disk_is_waited_for_and_takes_no_reading_with_it(tmp_path, monkeypatch, caplog, call):
    """It says nothing about the source: neither is anybody missing, nor a step skipped, for as long as there is no room."""
    from halflife.engines.duckdb.engine import DuckEngine
    from halflife.engines.duckdb.source import NoRoom

    hours(tmp_path, 0)
    policy = make(tmp_path, epsilon=LOUD, stream=FOLDER | {"absent": "skip"})
    world = World(end=START + 4.5 * HOUR)
    world.at(START + 1.6 * HOUR, lambda: hours(tmp_path, 1, 2, 3))
    real = getattr(DuckEngine, call)

    def fail(engine, question):
        if START + 1.5 * HOUR < world.now < START + 3.2 * HOUR:
            raise NoRoom("in", tmp_path)
        return real(engine, question)

    monkeypatch.setattr(DuckEngine, call, fail)
    world.follow(policy)
    assert values(tmp_path) == pytest.approx({k + 1: exact(k) for k in range(4)}, abs=1e-3)
    assert [r.getMessage() for r in caplog.records].count("no room for scratch files") == 1
    assert not operator(policy, "unreadable")


def test_no_file_decides_whether_another_one_counts(tmp_path):
    """A file of an older form, with one time far ahead, was opened first at every step, and others did not go with it."""
    hours(tmp_path, *range(3))
    old = "home;time;kwh;note\nh0;2026-01-01T00:10:00Z;0.0;x\nh1;2099-01-01T00:00:00Z;1.0;x\n"
    (tmp_path / "in" / "!old.csv").write_text(old)
    policy = make(tmp_path, epsilon=LOUD, stream=FOLDER)
    World(end=START + 3.5 * HOUR).follow(policy)
    found = values(tmp_path)
    assert {k: found[k] for k in (2, 3)} == pytest.approx({k: exact(k - 1) for k in (2, 3)}, abs=1e-3)


@pytest.mark.parametrize("when", ["looked at", "opened"])
def test_a_file_that_is_written_anew_while_it_is_read_is_not_out_of_reach(tmp_path, monkeypatch, caplog, when):
    """Whoever may write files could otherwise have a step skipped."""
    drop(tmp_path, "x.csv", [r for r in readings() if int(r[1][11:13]) < 3])
    file = tmp_path / "in" / "x.csv.gz"
    whole = gzip.compress((tmp_path / "in" / "x.csv").read_bytes())
    (tmp_path / "in" / "x.csv").unlink()
    file.write_bytes(whole)
    os.utime(file, (1, 1))
    source = {"source": {**FOLDER["source"], "files": "in/*.csv.gz"}, "absent": "skip"}
    policy = make(tmp_path, epsilon=LOUD, stream=source)
    world, real = World(end=START + 3.5 * HOUR), arrivals._open_checked
    opened = []

    def open_checked(*asked):
        damaged = START + 1.5 * HOUR < world.now < START + 2.5 * HOUR
        opened.append(damaged)
        if damaged and when == "looked at" and sum(opened) % 3 != 2:  # once to keep it, and then not
            raise hl.InvalidInput("a header of another form")
        engine = real(*asked)
        if damaged and when == "opened":
            file.write_bytes(whole[:-9])
        return engine

    monkeypatch.setattr(arrivals, "_open_checked", open_checked)
    world.at(START + 2.5 * HOUR, lambda: file.write_bytes(whole))
    world.follow(policy)
    assert values(tmp_path) == pytest.approx({1: exact(0), 2: 0.0, 3: exact(2)}, abs=1e-3)
    assert "source out of reach" not in [r.getMessage() for r in caplog.records]
    assert operator(policy, "unreadable")


def test_a_column_more_in_a_wide_table_takes_no_file_with_it(tmp_path):
    """One file of each hour has a column more: it was left out wholly, as it did not go with the one before."""
    (tmp_path / "in").mkdir()
    rows = [row for row in readings() if int(row[1][11:13]) < 3]
    for k in range(3):
        cells = [(home, time, kwh) for home, time, kwh in rows if int(time[11:13]) == k]
        for i, home in enumerate(dict.fromkeys(home for home, _, _ in cells)):
            own = [(time, kwh) for of, time, kwh in cells if of == home]
            more = ",new" if i % 2 else ""
            lines = [f"time,{home}{more}", *(f"{time},{kwh}{more and ','}" for time, kwh in own)]
            (tmp_path / "in" / f"{k}-{home}.csv").write_text("\n".join(lines) + "\n")
    wide = {"source": {"files": "in/*.csv", "time": "time", "wide": True}}
    policy = make(tmp_path, epsilon=LOUD, stream=wide)
    World(end=START + 3.5 * HOUR).follow(policy)
    assert values(tmp_path) == pytest.approx({k + 1: exact(k) for k in range(3)}, abs=1e-3)
    assert operator(policy, "unreadable") == []


def test_files_that_do_not_go_together_are_found_in_one_pass(tmp_path, monkeypatch):
    """A Parquet file in a folder of CSV: each file was opened with all before it, which is half their number squared."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [row for row in readings() if int(row[1][11:13]) < 1]
    for i, row in enumerate(rows):
        drop(tmp_path, f"{i:03}.csv", [row])
    pq.write_table(pa.table({"home": ["h0"], "time": [rows[0][1]], "kwh": [9.0]}), tmp_path / "in" / "z.parquet")
    seen = []
    real = following.Arrivals.open.__globals__["open_source"]

    def note(source, *more, **options):
        seen.append(len(source))
        return real(source, *more, **options)

    monkeypatch.setitem(following.Arrivals.open.__globals__, "open_source", note)
    policy = make(tmp_path, epsilon=LOUD, stream={"source": {**FOLDER["source"], "files": "in/*"}})
    World(end=START + 1.5 * HOUR).follow(policy)
    assert values(tmp_path) == pytest.approx({1: exact(0)}, abs=1e-3)
    assert ["z.parquet has another format than" in line["problem"] for line in operator(policy, "unreadable")] == [True]
    assert sum(seen) < 10 * len(rows), seen


def test_a_file_that_is_not_there_yet_is_nobody_with_a_reading(tmp_path):
    """Its folder is there, so nothing is out of reach: who has no rows may write no file."""
    drop(tmp_path, "x.csv", [r for r in readings() if int(r[1][11:13]) < 4])
    one = {"source": {**FOLDER["source"], "files": "in/x.csv"}, "absent": "skip"}
    policy = make(tmp_path, epsilon=LOUD, stream=one)
    world = World(end=START + 3.5 * HOUR)
    world.at(START + 1.5 * HOUR, (tmp_path / "in" / "x.csv").unlink)
    world.follow(policy)
    assert values(tmp_path) == pytest.approx({1: exact(0), 2: 0.0, 3: 0.0}, abs=1e-3)


def test_files_that_cannot_be_read_do_not_keep_a_publisher_from_starting_again(tmp_path):
    hours(tmp_path, *range(4))
    policy = make(tmp_path, epsilon=LOUD, stream=FOLDER)
    World(end=START + 1.5 * HOUR).follow(policy)
    for k in range(3):
        (tmp_path / "in" / f"z{k}.csv").write_text("nonsense\n")
    World(now=START + 1.6 * HOUR, end=START + 3.5 * HOUR).follow(policy)
    assert values(tmp_path) == pytest.approx({k: exact(k - 1) for k in (1, 2, 3)}, abs=1e-3)


@pytest.mark.parametrize("change", ["folder", "ledger"])
def test_a_policy_with_a_folder_that_is_not_there_or_another_ledger_is_not_taken_by_a_signal(tmp_path, caplog, change):
    caplog.set_level(logging.INFO, "halflife.publisher")
    hours(tmp_path, *range(6))
    make(tmp_path, epsilon=LOUD, stream={**FOLDER, "absent": "skip"})
    asked = []

    def mistake():
        source = {**FOLDER["source"], "files": "inn/*.csv"} if change == "folder" else FOLDER["source"]
        ledger = "town.ledger" if change == "folder" else "elsewhere.ledger"
        make(tmp_path, epsilon=LOUD, ledger=ledger, stream={"source": source, "absent": "skip"})
        asked.append(1)

    world = World(end=START + 4.5 * HOUR)
    world.at(START + 1.5 * HOUR, mistake)
    world.follow(str(tmp_path / "policy.yaml"), reload=lambda: bool(asked and asked.pop()))
    assert [r.message for r in caplog.records].count("policy not taken") == 1
    assert sorted(values(tmp_path)) == [1, 2, 3, 4]
    assert not (tmp_path / "elsewhere.ledger").exists()


def test_a_look_at_late_readings_delays_no_step(tmp_path, monkeypatch):
    """It is broken off when the next step is closed."""
    from halflife.publisher import late_readings

    class Slow:
        stopped = False

        def aggregate(self, question):
            while not self.stopped:
                time.sleep(0.01)
            raise Interrupted("broken off")

        def interrupt(self):
            self.stopped = True

        def close(self):
            pass

    policy = make(tmp_path, epsilon=LOUD, stream=FOLDER)
    (channel,) = channels(policy)
    late = late_readings.LateReadings(lambda: START + 2.0 * HOUR)
    late.recall(tmp_path / "operator.jsonl")
    late.note(channel, 1, following._answer_nothing(channel.question(1, 1)))
    asked = iter([False, False])
    late.look_again(channel, 2, lambda *_: Slow(), lambda: next(asked, True))


def test_a_look_that_cannot_be_broken_off_is_left_behind(tmp_path, monkeypatch):
    """A server that is silent while it is opened held the next closings up, in the thread that publishes."""
    from halflife.publisher import late_readings

    monkeypatch.setattr(late_readings, "HEARD", 1)
    (channel,) = channels(make(tmp_path, epsilon=LOUD, stream=FOLDER))
    late = late_readings.LateReadings(lambda: START + 2.0 * HOUR)
    late.recall(tmp_path / "operator.jsonl")
    late.note(channel, 1, following._answer_nothing(channel.question(1, 1)))
    silent, ended = threading.Event(), threading.Event()
    asked = iter([False])
    late.look_again(channel, 2, lambda *_: silent.wait(10) or ended.set(), lambda: next(asked, True))
    assert not ended.is_set(), "it was waited for"
    silent.set()
    assert len((tmp_path / "operator.jsonl").read_text().splitlines()) == 1, "nothing was seen"


def test_a_disk_that_never_answers_is_out_of_reach(tmp_path, monkeypatch, caplog):
    """As a dead mount is: the publisher and its ledger were held for as long as it said nothing."""
    from halflife.publisher import arrivals

    hours(tmp_path, 0, 1, 2, 3)
    policy = make(tmp_path, epsilon=LOUD, stream=FOLDER | {"absent": "skip"})
    world = World(end=START + 4.5 * HOUR)
    alive, real = threading.Event(), arrivals._find_arrived

    def find_arrived(patterns):
        if START + 1.5 * HOUR < world.now < START + 2.5 * HOUR:
            alive.wait(10)
        return real(patterns)

    monkeypatch.setattr(arrivals, "_find_arrived", find_arrived)
    monkeypatch.setattr(arrivals, "ANSWERED", 0.3)
    try:
        world.follow(policy)
    finally:
        alive.set()
    assert values(tmp_path) == pytest.approx({k + 1: exact(k) for k in (0, 2, 3)}, abs=1e-3)
    assert any("has said nothing" in str(r.__dict__.get("fields", "")) for r in caplog.records)


def test_a_read_that_does_not_end_is_broken_off_some_seconds_after_sigterm(tmp_path, monkeypatch):
    """Nothing was drawn for it yet: the next start goes on with the step."""
    from halflife.engines.duckdb.engine import DuckEngine

    hours(tmp_path, 0, 1)
    policy = make(tmp_path, epsilon=LOUD, stream=FOLDER)
    World(end=START + 1.5 * HOUR).follow(policy)
    world, broken = World(now=START + 1.6 * HOUR, end=START + 2.5 * HOUR), threading.Event()
    with monkeypatch.context() as patched:
        patched.setattr(following, "GRACE", 0.3)
        patched.setattr(DuckEngine, "interrupt", lambda engine: broken.set())

        def aggregate(engine, question):
            world.now = world.end  # it is asked to stop while this waits
            assert broken.wait(60)
            raise Interrupted("broken off")

        patched.setattr(DuckEngine, "aggregate", aggregate)
        world.follow(policy)
    assert sorted(values(tmp_path)) == [1]
    World(now=START + 2.6 * HOUR, end=START + 2.8 * HOUR).follow(policy)
    assert values(tmp_path) == pytest.approx({k + 1: exact(k) for k in (0, 1)}, abs=1e-3)


def test_readings_that_come_after_everybody_was_missing_are_late(tmp_path):
    hours(tmp_path, 0, 1)
    policy = make(tmp_path, epsilon=LOUD, stream=FOLDER)
    world = World(end=START + 3.5 * HOUR)
    world.at(START + 1.5 * HOUR, lambda: (tmp_path / "in").rename(tmp_path / "away"))
    world.at(START + 2.5 * HOUR, lambda: (tmp_path / "away").rename(tmp_path / "in"))
    world.follow(policy)
    lines = [line for line in operator(policy, "arrived") if line["step"] == 2]
    assert [line["rows"] for line in lines] == [0, HOMES]
    assert lines[1]["late"] == HOMES


def test_another_clock_that_is_ahead_ends_no_publisher(tmp_path):
    (tmp_path / "in").mkdir()
    clock = {"step": "1 min", "start": "2026-01-01", "end": "2026-01-02"}
    policy = make(tmp_path, epsilon=LOUD, stream=FOLDER, clock=clock)
    world = World(now=START + 60, end=START + 1800)
    world.at(START + 600.2, lambda: World(now=world.now + 300, end=world.now + 301).follow(policy))
    world.follow(policy)
    assert sorted(values(tmp_path)) == list(range(1, 30))
