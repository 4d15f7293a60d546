"""`hl.check`: mistakes made on purpose, and the verdict that names each; nothing private where it does not belong."""

from __future__ import annotations

import csv
import datetime
import importlib
import json
import math
import random
import re
import threading
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

import halflife as hl
from halflife.policy import channels
from halflife.publisher.inspection.report import FIRST_LINE, percent
from halflife.publisher.inspection.times import guess_times, guess_values, shape
from halflife.publisher.inspection.units import likely_factors, name_unit
from publisher.town import HOMES, STEPS, exact_means, make, policy_dict, readings, write_readings

NOW = datetime.datetime(2026, 3, 1, tzinfo=datetime.UTC).timestamp()
LOUD = 300.0
"""An epsilon with which the noise is no problem."""


def look(folder, rows=None, epsilon=LOUD, **changes):
    write_readings(folder, rows)
    show = changes.pop("show", False)
    return hl.check(make(folder, epsilon=epsilon, **changes), clock=lambda: NOW, show=show)


def only_problem(report):
    assert len(report.problems) == 1, report
    return report.problems[0]


def test_a_town_as_its_policy_says_has_no_problem(tmp_path):
    report = look(tmp_path)
    assert report.problems == ()
    assert str(report).startswith(f"{FIRST_LINE}\n")
    assert "Nothing looks wrong." in str(report)
    assert "Looking is not free if it changes the policy" in str(report)
    (stream,) = report.streams
    assert (stream.looked, stream.found.good, stream.found.people) == (STEPS, HOMES * STEPS, HOMES)
    assert stream.missing() == 0
    assert stream.empty() == (0, 0, 0)
    assert stream.noise.mean == pytest.approx(np.mean(exact_means()), rel=0.05)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["policy.yaml", "readings.csv"]  # no ledger, output or scratch


def test_the_noise_stands_beside_the_public_range_and_the_data_s_own_mean(tmp_path):
    policy = make(tmp_path, epsilon=LOUD)
    write_readings(tmp_path)
    noise = hl.check(policy, clock=lambda: NOW).streams[0].noise
    std = math.sqrt(2) * (5 / HOMES) / (LOUD / 6)  # Laplace of a w-event plan: Δ w / ε, Δ = 5 kWh / 5 homes
    assert (noise.first, noise.newest, noise.low, noise.high) == pytest.approx((std, std, 0, 5))
    assert noise.of_range == pytest.approx(std / 5)
    assert noise.of_mean == pytest.approx(std / np.mean(exact_means()), rel=0.05)
    loud = look(tmp_path, epsilon=1.0)
    assert "is larger than the whole public range, 0 to 5" in only_problem(loud).seen
    quiet = look(tmp_path, epsilon=1.0, population={"size": 50_000}, statistic={"missing": "0"})
    assert quiet.problems[0].seen == "5 people seen, 50,000 declared"
    assert "times the data's own mean" in look(tmp_path, epsilon=4.0).problems[0].seen


# -- the mistakes of new users


@pytest.mark.parametrize(
    "form", ["%m/%d/%y %H:%M", "%d.%m.%Y %H:%M:%S", "%Y%m%d %H%M", "%d-%b-%Y %I:%M %p", "%Y/%m/%dT%H:%M"]
)
def test_times_of_another_format(tmp_path, form):
    many = readings(steps=24 * 28)
    rows = [(home, datetime.datetime.fromisoformat(at).strftime(form), kwh) for home, at, kwh in many]
    problem = only_problem(look(tmp_path, rows, clock={"end": "2026-01-29"}))
    assert problem.seen == f"no time could be read ({len(rows):,} of {len(rows):,} rows count as missing)"
    assert problem.write == f"time_format: '{form}'"


def test_watts_declared_as_kilowatts(tmp_path):
    rows = [(home, at, 1000 * x + 60) for home, at, x in readings()]
    power = {"unit": "kW", "resolution": "1 W", "clip": ["0", "5 kW"], "fold": "mean"}
    problem = only_problem(look(tmp_path, rows, statistic=power))
    assert problem.seen == "100 % clipped: nearly all lie above `clip`"
    assert problem.cause == "readings look like W, the policy says kW"
    assert problem.write.startswith("unit: W")
    small = [(home, at, x / 1000 + 0.0001) for home, at, x in readings()]
    watts = {"unit": "W", "resolution": "1 W", "clip": ["0", "5 kW"], "fold": "mean"}
    found = look(tmp_path, small, statistic=watts).problems[0]
    assert "are 0 once they are rounded to the resolution, 1 W" in found.seen
    assert "readings look like kW, the policy says W" in found.cause
    fine = {**watts, "resolution": "1 µW"}
    assert "more than 1,000 times below `clip`" in look(tmp_path, small, statistic=fine).problems[0].seen


def test_single_readings_beyond_their_bounds(tmp_path):
    bounds = {"clip_readings": ["0", "1 kWh"], "clip": ["0", "5 kWh"]}
    problem = only_problem(look(tmp_path, statistic=bounds))
    beyond = sum(kwh > 1 for _, _, kwh in readings())
    assert problem.seen == f"{percent(beyond, len(readings()))} clipped: nearly all lie above `clip_readings`"
    low = look(tmp_path, [(h, t, -x) for h, t, x in readings()]).problems[0]
    assert "clipped at the lower bound of `clip`" in low.seen


def test_a_forgotten_end(tmp_path):
    data = policy_dict(epsilon=LOUD)
    del data["clock"]["end"]
    write_readings(tmp_path)
    report = hl.check(hl.Policy.from_dict(data, tmp_path), clock=lambda: NOW)
    due = 24 * (31 + 28)
    assert only_problem(report).seen.startswith(f"no data in the last {due - STEPS:,} of {due:,} steps")
    assert only_problem(report).cause == "the data stop on 2026-01-01: is `end` missing?"
    assert only_problem(report).write.startswith("end: 2026-01-02 under `clock`")


def test_a_start_that_is_too_early_and_times_in_no_step(tmp_path):
    early = only_problem(look(tmp_path, clock={"start": "2025-12-31"}))
    assert early.seen == "no data in the first 24 of 48 steps"
    never = only_problem(look(tmp_path, clock={"start": "2024-01-01", "end": "2024-01-02"}))
    assert never.seen == "no row lies in the steps that are due"
    assert (
        never.cause
        == "the data are of 2026-01-01 to 2026-01-01; the steps that are due are of 2024-01-01 to 2024-01-02"
    )


def test_numbers_since_1970_without_an_epoch(tmp_path):
    def numbers(scale):
        return [(h, int(scale * datetime.datetime.fromisoformat(t + "Z").timestamp()), x) for h, t, x in readings()]

    assert only_problem(look(tmp_path, numbers(1))).write == "epoch: s"
    assert only_problem(look(tmp_path, numbers(1000))).write == "epoch: ms"
    source = policy_dict()["streams"][0]["source"]
    wrong = only_problem(look(tmp_path, numbers(1000), stream={"source": {**source, "epoch": "s"}}))
    assert (wrong.seen, wrong.write) == ("no row lies in the steps that are due", "epoch: ms")
    assert look(tmp_path, numbers(1000), stream={"source": {**source, "epoch": "ms"}}).problems == ()
    frame = pl.DataFrame(numbers(1), schema=["home", "time", "kwh"], orient="row")
    with pytest.raises(hl.PolicyError, match=r"streams\.0\.source: the column 'time' holds numbers.*write `epoch: s`"):
        hl.check(make(tmp_path), {"mean": frame})


def test_a_row_number_as_the_person_and_a_size_that_is_too_small(tmp_path):
    numbered = [(f"r{i}", t, x) for i, (_, t, x) in enumerate(readings())]
    assert only_problem(look(tmp_path, numbered)).seen.startswith(
        "nearly every row has a person of its own (120 in 120 rows"
    )
    more = only_problem(look(tmp_path, readings(homes=8)))
    assert more.seen == "8 people seen, 5 declared"
    assert "a mean is divided by the size" in more.cause


def test_steps_finer_than_the_data(tmp_path):
    problem = only_problem(look(tmp_path, clock={"step": "10 min"}))
    assert problem.seen == "no data in 115 of the 139 steps between the first and the last with data"
    assert problem.write == "step: 1 h"
    apart = [(h, f"{t[:14]}{10 * int(h[1:]):02d}:00", x) for h, t, x in readings()]  # each home at a minute of its own
    problem = only_problem(look(tmp_path, apart, clock={"step": "10 min"}))
    missing = 100 * (1 - len(apart) / (HOMES * (23 * 6 + 5)))  # from 00:00 to 23:40
    assert problem.seen.startswith(f"in a step {missing:.3g} % of the declared people have no reading")
    assert problem.cause == "a person has a reading about every 60 min, the steps are finer"
    assert problem.write == "step: 1 h"


def test_values_that_are_no_numbers_and_persons_that_are_none(tmp_path):
    comma = [(h, t, str(x).replace(".", ",")) for h, t, x in readings()]
    assert "decimal comma" in only_problem(look(tmp_path, comma)).cause
    nobody = [("" if i % 10 == 0 else h, t, x) for i, (h, t, x) in enumerate(readings())]
    assert look(tmp_path, nobody).problems[0].seen == "10 % of rows have no person"


def test_repeats_and_unknown_groups(tmp_path):
    twice = [*readings(), *readings()[:12]]
    assert only_problem(look(tmp_path, twice)).seen.startswith(
        f"{percent(12, 132)} of readings repeat a person's moment"
    )
    rows = [(*row, "gazebo" if i < 6 else "hall") for i, row in enumerate(readings())]
    frame = pl.DataFrame(rows, schema=["home", "time", "kwh", "room"], orient="row")
    stream = {
        "source": {"files": "readings.csv", "time": "time", "group": "room"},
        "statistic": {"kind": "count"},
        "groups": {"names": ["hall", "attic"], "most_per_person": 1},
    }
    report = hl.check(make(tmp_path, epsilon=LOUD, stream=stream), {"mean": frame}, clock=lambda: NOW)
    assert report.problems[0].seen == "5 % of rows have a group that is not on the list"
    assert "gazebo" not in str(report)


def test_a_zone_that_is_not_the_clock_s(tmp_path):
    clock = {"start": "2026-01-01", "end": "2026-01-02", "zone": "America/Los_Angeles"}
    problem = look(tmp_path, clock=clock).problems[0]
    assert problem.seen.startswith("the data begin and stop 8 h too early")
    assert problem.write == "zone: America/Los_Angeles under `source`, if its times are local"


def test_a_process_that_was_never_checked(tmp_path):
    chain = hl.MarkovChain([[0.9, 0.1], [0.2, 0.8]])
    write_readings(tmp_path)
    promise = {"notion": "age-dependent", "epsilon": LOUD, "process": {**chain.to_dict()}}
    data = policy_dict()
    data["promise"] = promise
    for outcome, seen in ((None, "never checked"), ({"good": True}, None), ({"good": False}, "its check FAILED")):
        if outcome is not None:
            promise["process"] = {**chain.with_check(outcome).to_dict()}
        problems = [p.seen for p in hl.check(hl.Policy.from_dict(data, tmp_path), clock=lambda: NOW).promise]
        assert (seen is None and not problems) or seen in problems[0], problems


def test_a_stream_that_a_program_pushes_has_its_noise_alone(tmp_path):
    data = policy_dict(epsilon=1.0)
    del data["streams"][0]["source"]
    report = hl.check(hl.Policy.from_dict(data, tmp_path))
    assert "larger than the whole public range" in only_problem(report).seen
    assert "a program pushes the aggregate" in str(report)
    with pytest.raises(hl.InvalidInput, match="add a `source`"):
        hl.check(hl.Policy.from_dict(data, tmp_path), {"mean": pl.DataFrame()})
    with pytest.raises(hl.InvalidInput, match="unknown stream 'men'"):
        hl.check(hl.Policy.from_dict(data, tmp_path), {"men": pl.DataFrame()})


def test_how_late_readings_arrive_is_told_by_files_alone(tmp_path):
    import os

    assert look(tmp_path).streams[0].arrival.startswith("not known: a row has the time of its reading")
    newest = datetime.datetime(2026, 1, 1, 23, 30, tzinfo=datetime.UTC).timestamp()
    os.utime(tmp_path / "readings.csv", (newest + 1500, newest + 1500))
    report = hl.check(tmp_path / "policy.yaml", clock=lambda: NOW)
    assert "the newest is 25 min older than the newest change of its files" in report.streams[0].arrival


# -- private


CANARY = ("canary7391", "2026-01-01T05:30:00", 3141.59265)


def test_no_reading_and_no_person_is_shown_unless_asked(tmp_path):
    odd = [("h1", "canarytime5512", 1.0), ("h2", "2026-01-01T07:30:00", "canaryvalue8243")]
    rows = [CANARY, *odd, *readings()]
    report = look(tmp_path, rows)
    said = [
        str(report),
        json.dumps(report.to_dict()),
        repr(report),
        repr(report.streams),
        repr(report.streams[0].found),
    ]
    for text in said:
        assert not re.search(r"canary|7391|3141|5512|8243", text), text
    assert re.search("private", repr(report))
    assert not re.search(r"\d", repr(report).replace("policy.yaml", ""))
    shown = look(tmp_path, rows, show=True)
    assert "canarytime5512" in str(shown)
    assert "canaryvalue8243" in json.dumps(shown.to_dict())
    assert "canary7391" not in str(shown)


def test_a_few_readings_have_no_quantiles(tmp_path):
    report = look(tmp_path, readings()[:99])
    assert report.streams[0].typical() is None
    assert look(tmp_path, readings()[:100]).streams[0].typical() is not None


def test_a_file_without_a_header_shows_no_names(tmp_path):
    with (tmp_path / "readings.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["home", "time", "kwh", "17.25"], *([*row, "x"] for row in readings())])
    report = hl.check(make(tmp_path, epsilon=LOUD), clock=lambda: NOW)
    assert "17.25" not in str(report)
    assert report.streams[0].hidden == 1


def test_a_ledger_and_outputs_are_left_as_they_are(tmp_path):
    write_readings(tmp_path)
    policy = make(tmp_path)
    hl.publish(policy)
    files = list(tmp_path.iterdir())
    before = {p.name: (p.read_bytes(), p.stat().st_mtime_ns) for p in files}
    hl.check(policy)
    assert {p.name: (p.read_bytes(), p.stat().st_mtime_ns) for p in files} == before
    new = {p.name: p.stat().st_size for p in set(tmp_path.iterdir()) - set(files)}
    assert set(new) <= {"town.ledger-shm", "town.ledger-wal"}, "SQLite reads its log through these"
    assert not new.get("town.ledger-wal")


def test_files_and_frames_are_counted_alike(tmp_path):
    frame = pl.DataFrame(readings(), schema=["home", "time", "kwh"], orient="row")
    write_readings(tmp_path)
    policy = make(tmp_path)
    by_file, by_frame = (hl.check(policy, s, clock=lambda: NOW).streams[0].found for s in (None, {"mean": frame}))
    assert vars(by_file).keys() == vars(by_frame).keys()
    for name, value in vars(by_file).items():
        assert np.array_equal(value, vars(by_frame)[name]), name
    question = channels(policy)[0].question(1, STEPS)
    assert by_file.totals.sum() == sum(round(1000 * kwh) for _, _, kwh in readings())
    assert question.last == STEPS


# -- guesses


FORMATS = (
    *(
        "%d/%m/%Y",
        "%m/%d/%Y %H:%M",
        "%d.%m.%y %H:%M:%S",
        "%m-%d-%Y",
        "%Y/%m/%d %H:%M:%S.%f",
        "%Y%m%dT%H%M%S",
        "%d%b%Y:%H:%M:%S",
    ),
    *(
        "%d %B %Y",
        "%b %d, %Y %I:%M %p",
        "%d/%m/%Y %H:%M%z",
        "%m/%d/%Y, %I:%M:%S %p",
        "%Y-%m-%d_%H:%M",
        "%d/%m/%y %H.%M",
    ),
)


@pytest.mark.parametrize("form", FORMATS)
def test_a_format_is_guessed_back_from_what_it_writes(form):
    r = random.Random(form)
    moments = [
        datetime.datetime(2013, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(seconds=r.randrange(10**8))
        for _ in range(200)
    ]
    guess = guess_times([moment.strftime(form) for moment in moments])
    assert guess.write == f"time_format: '{form}'"


def test_what_decides_between_day_and_month():
    assert guess_times(["01/02/2013", "03/04/2013"]).write == "time_format: '%d/%m/%Y', or time_format: '%m/%d/%Y'"
    assert "no day above 12 tells which" in guess_times(["01/02/2013"]).cause
    assert guess_times(["01/02/2013", "13/04/2013"]).write == "time_format: '%d/%m/%Y'"
    assert guess_times(["01/02/2013", "03/14/2013"]).write == "time_format: '%m/%d/%Y'"
    assert guess_times(["20121011"]).write == "time_format: '%Y%m%d'"
    assert "day numbers of a spreadsheet" in guess_times(["41275.5", "41276"]).cause
    assert "most of these cells are empty" in guess_times(["", None, " "]).cause
    assert "blanks stand around them" in guess_times([" 2013-01-01 10:00 "]).cause
    assert guess_times(["in spring"]).cause.startswith("they look like 'aa aaaaaa' (100 %)")


def test_shapes_hold_no_letter_and_no_digit_of_a_cell():
    r = random.Random(1)
    for _ in range(200):
        cell = "".join(
            chr(r.choice([r.randrange(32, 127), r.randrange(161, 1500), r.randrange(0x660, 0x66A)])) for _ in range(60)
        )
        text = shape(cell)
        assert len(text) == 40
        assert all(ch in "a9" for ch in text if ch.isalnum() and not ch.isnumeric()) or not text
        assert not [ch for ch in text if ch.isdigit() and ch not in "9²³¹"]


def test_values_in_words():
    for cell, word in (
        ("1,5", "decimal comma"),
        ("1,234,567", "thousands"),
        ("5 kWh", "unit behind"),
        ("n/a", "missing"),
    ):
        assert word in guess_values([cell] * 3).cause
    assert "empty" in guess_values([None, ""]).cause
    assert guess_values(["1:2:3"]).cause.startswith("they look like '9:9:9'")


def test_units_have_neighbours():
    for unit, factor, other in (
        ("kWh", 1000, "Wh"),
        ("MW", 1_000_000, "W"),
        ("Wh/m2", 1000, "mWh/m2"),
        ("EUR", 1000, None),
    ):
        assert name_unit(unit, factor) == other
    assert name_unit("kWh", 3600) == "kJ"
    assert name_unit(None, 1000) is None
    assert name_unit("Wh", 1000, larger=True) == "kWh"
    assert likely_factors("min") == (60,)


def test_the_noise_of_bins_and_groups(tmp_path):
    edges = {"kind": "histogram", "unit": "kWh", "resolution": "1 Wh", "edges": ["0", "1", "2", "3"], "fold": "sum"}
    source = policy_dict()["streams"][0]["source"]
    write_readings(tmp_path)
    (stream,) = look(tmp_path, stream={"source": source, "statistic": edges}).streams
    assert stream.noise.mean == pytest.approx(HOMES / 3, rel=0.05)
    bins = np.bincount([min(2, int(kwh)) for _, _, kwh in readings()])
    assert stream.found.totals.ravel().tolist() == bins.tolist()
    assert "people at step 1" in str(look(tmp_path, stream={"source": source, "statistic": edges}))


def test_events_beyond_their_bound_are_said_of_most_events(tmp_path):
    """Three rows of every home in a step, of which one counts: the key to look at is `most_events`, as there is no clip."""
    rows = [(home, time[:14] + f"{minute:02d}:00", kwh) for home, time, kwh in readings() for minute in (10, 20, 30)]
    write_readings(tmp_path, rows)
    data = policy_dict(epsilon=LOUD)
    data["streams"][0]["statistic"] = {"kind": "events", "most_events": 1}
    del data["streams"][0]["source"]["value"]
    problem = only_problem(hl.check(data, {"mean": tmp_path / "readings.csv"}, clock=lambda: NOW))
    assert problem.seen == "100 % clipped at the upper bound of `most_events`"
    assert problem.write == "most_events: …, from public knowledge, not from these readings"


# Progress -------------------------------------------------------------------------------------------------------------------


def test_progress_moves_within_a_stream_and_never_back(tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.import_module("halflife.publisher.inspection.check"), "PATIENCE", 0.0)
    write_readings(tmp_path)
    data = policy_dict(epsilon=LOUD)
    data["streams"].append({**data["streams"][0], "name": "again", "output": "again.csv", "share": 0.5})
    data["streams"][0] = {**data["streams"][0], "share": 0.5}
    said = []
    hl.check(hl.Policy.from_dict(data, tmp_path), progress=lambda *told: said.append(told), clock=lambda: NOW)
    done = [told[1] for told in said]
    assert done == sorted(done)
    assert (done[0], done[-1]) == (0, 200)
    assert {told[2] for told in said} == {200}
    assert {what.partition(":")[0] for what, _, _ in said} == {"mean", "again", "looked"}


def test_what_the_engine_says_of_its_progress_is_passed_on(monkeypatch):
    """However fast the machine is: this look ends only when its progress was told."""
    module, told = importlib.import_module("halflife.publisher.inspection.check"), threading.Event()
    monkeypatch.setattr(module, "PATIENCE", 0.001)
    engine, said = SimpleNamespace(progress=lambda: ("adding up", 0.5)), []
    assert module._watch(engine, lambda *what: (said.append(what), told.set()), lambda: told.wait(60)) is True
    assert set(said) == {("adding up", 0.5)}


def test_whoever_breaks_off_waits_for_nothing(tmp_path, monkeypatch):
    """Ctrl-C comes while the engine is at work in another thread: that is broken off, and nothing is left open."""
    from halflife.engines.duckdb.engine import DuckEngine

    broken = []
    real = DuckEngine.interrupt
    monkeypatch.setattr(importlib.import_module("halflife.publisher.inspection.check"), "PATIENCE", 0.0)
    monkeypatch.setattr(DuckEngine, "interrupt", lambda engine: (broken.append(engine), real(engine)))
    write_readings(tmp_path)

    def stop(what, done, total):
        if "opening" not in what:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        hl.check(make(tmp_path), progress=stop, clock=lambda: NOW)
    assert broken
