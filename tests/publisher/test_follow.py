"""A publisher that stays: each step is published when it is closed by the clock, whatever has arrived."""

import json
import logging
import os
import sqlite3
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import halflife as hl
from halflife.ledger import open_ledger
from halflife.ledger.events import parse_event
from halflife.policy import channels
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
    assert sorted(values(tmp_path)) == [1, 2, 3, 4, 5]
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
