"""Revised series that add up over time and groups: against a dense solve, over changes of the clock, and what is refused."""

from __future__ import annotations

import copy
import csv
import datetime
import itertools
import json
import re
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

import halflife as hl
from halflife.ledger import open_ledger
from halflife.policy import channels, rules
from halflife.postprocessing.reconcile import solve_least_squares
from halflife.publisher import looking_back
from halflife.publisher.preview import preview
from halflife.publisher.revising import TOGETHER, Raw

HOMES, DAYS, ZONE = 12, 6, "Europe/London"
FIRST = datetime.datetime(2026, 3, 27, tzinfo=datetime.UTC)
"""The 29th has 23 hours in London."""
SOURCE = {"files": "use.csv", "time": "time", "value": "kwh", "zone": "UTC"}
SUM = {"kind": "sum", "unit": "kWh", "resolution": "1 Wh", "clip": ["0", "2 kWh"], "fold": "sum"}
POST = [{"seasonal": {"amplitude": "3 kWh", "level": 0.1, "irregular": 0.2}}]
TABLE = {"table": {"file": "homes.csv", "person": "home", "group": "side"}}
AFTER = (FIRST + datetime.timedelta(days=DAYS + 1)).timestamp


def write_use(folder):
    draw = np.random.default_rng(3)
    with (folder / "use.csv").open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["home", "time", "kwh"])
        for k, home in itertools.product(range(24 * DAYS), range(HOMES)):
            moment = FIRST + datetime.timedelta(hours=k, minutes=20)
            out.writerow([f"h{home}", f"{moment:%Y-%m-%dT%H:%M:%S}", f"{draw.uniform(0, 1 + (k % 24) / 24):.3f}"])
    (folder / "homes.csv").write_text("home,side\n" + "".join(f"h{i},{'ns'[i % 2]}\n" for i in range(HOMES)))
    return folder


def stream(name, step=None, groups=None, statistic=None, **more):
    day = {"step": step, "statistic": {**SUM, "clip": ["0", "48 kWh"]}} if step else {}
    grouped = {"groups": groups} if groups else {}
    made = {
        "name": name,
        "source": dict(SOURCE),
        "statistic": dict(SUM),
        "post": POST,
        "output": f"{name}.csv",
        **day,
        **grouped,
        **more,
    }
    asked = {**made["statistic"], **(statistic or {})}
    return {**made, "statistic": {key: value for key, value in asked.items() if value is not None}}


def make(*streams, reconcile, **changes):
    return {
        "population": {"id": "homes", "size": HOMES, "person": "home"},
        "promise": {"notion": "w-event", "epsilon": 40, "w": 24},
        "clock": {"step": "1 h", "start": "2026-03-27", "end": "2026-04-02", "zone": ZONE},
        "streams": list(streams), "reconcile": reconcile, "ledger": "homes.ledger", **changes,
    }  # fmt: skip


def two_widths(hours=None, days=None, rule=None):
    pair = stream("hours", **(hours or {})), stream("days", "1 day", **(days or {}))
    return make(*pair, reconcile=[{"total": "days", "parts": "hours", "complete": True, **(rule or {})}])


def publish(data, folder):
    policy = hl.Policy.from_dict(data, folder)
    hl.publish(policy, clock=AFTER)
    assert hl.verify(policy).problems == ()
    return policy


def revise(policy, folder=None):
    """Revised values and bands by stream, steps × cells, with the steps' starts."""
    found = {}
    for one in hl.hindsight(policy, folder=folder):
        with one.file.open(newline="") as file:
            rows = list(csv.DictReader(file))
        starts = list(dict.fromkeys(row["start"] for row in rows))
        shaped = [[row for row in rows if row["start"] == start] for start in starts]
        found[one.stream] = (
            starts,
            *(np.array([[float(row[key]) for row in block] for block in shaped]) for key in ("value", "error_band")),
        )
    return found


def read_raws(policy):
    with open_ledger(policy.ledger_url, read_only=True) as book:
        return {c.name: Raw(c, list(book.entries(c.name))) for c in channels(policy)}


def local_day(start):
    return start[:10]


@pytest.mark.parametrize("groups", [None, TABLE], ids=["one", "groups"])
def test_days_are_the_sums_of_their_hours_and_a_day_that_is_cut_is_left_out(tmp_path, groups):
    """Hours begin at noon of the first day; one day has 23 of them. Live nothing changes, and no rule is recorded."""
    late = {"start": "2026-03-27T12:00", "groups": groups}
    policy = publish(two_widths(late, {"groups": groups}), write_use(tmp_path))
    live = (tmp_path / "days.csv").read_bytes()
    found = revise(policy)
    assert (tmp_path / "days.csv").read_bytes() == live
    with open_ledger(policy.ledger_url, read_only=True) as book:
        assert not any(key.startswith("reconcile:") for key in book.states())
    starts, hours, _ = found["hours"]
    days = found["days"][1]
    counts = []
    for k, day in enumerate(found["days"][0]):
        mine = [i for i, start in enumerate(starts) if local_day(start) == local_day(day)]
        counts.append(len(mine))
        for order in (mine, mine[::-1], mine[5:] + mine[:5]):
            same = np.array([sum(hours[order, cell].tolist()) for cell in range(days.shape[1])]) == days[k]
            assert same.all() == (k > 0)
    assert counts == [12, 24, 23, 24, 24, 24]


def test_estimates_are_those_of_two_dense_solves_with_smoothing_between(tmp_path):
    """All values and all sums in one matrix: raw values, then what each estimator gives, in units of its bands."""
    policy = publish(two_widths(), write_use(tmp_path))
    raws = read_raws(policy)
    hours, days = raws["hours"], raws["days"]
    n, m = len(hours.values), len(days.values)
    rows = np.zeros((m, m + n))
    for k, entry in enumerate(days.entries):
        rows[k, k] = 1
        for i, other in enumerate(hours.entries):
            rows[k, m + i] = -float(entry.start_us <= other.start_us < entry.end_us)
    assert sorted(-rows[:, m:].sum(axis=1)) == [23, 24, 24, 24, 24, 24]
    scales = np.array([e.releases[0].scale for raw in (days, hours) for e in raw.entries]) / 1000
    noisy = np.concatenate([days.values, hours.values])[:, 0]
    z, cov = solve_least_squares(noisy, np.diag(2 * scales**2), rows)
    assert (np.diag(cov) < 2 * scales**2).all()
    values, bands = np.zeros(m + n), np.zeros(m + n)
    for raw, part in ((days, slice(0, m)), (hours, slice(m, m + n))):
        left = np.sqrt(np.diag(cov)[part] / 2) * 1000
        one = raw.channel.smoothers()[0].look_back(z[part][:, None], left, raw.facts)
        values[part], bands[part] = one.values[:, 0], one.bands[:, 0]
    b = -rows.T * bands[:, None] * np.sqrt(TOGETHER)
    b[:m] = 0
    own = np.where(np.arange(m + n) < m, bands**2, (1 - TOGETHER) * bands**2)
    expected, _ = solve_least_squares(values, np.diag(own) + b @ b.T, rows)
    found = revise(policy)
    np.testing.assert_allclose(np.concatenate([found["days"][1], found["hours"][1]])[:, 0], expected, rtol=1e-8)
    np.testing.assert_allclose(np.concatenate([found["days"][2], found["hours"][2]])[:, 0], bands, rtol=1e-8)


@pytest.mark.parametrize("non_negative", [False, True])
def test_widths_and_levels_are_solved_together(tmp_path, non_negative):
    """Both sides and the town, by the hour and by the day: three rules, from which the fourth sum follows."""
    asked = {"complete": True} if not non_negative else {"complete": True, "non_negative": True}
    chain = [{"total": "sides-days", "parts": "sides", **asked}, {"total": "days", "parts": "sides-days"}]
    if non_negative:
        chain[1]["non_negative"] = True
    else:
        chain.append({"total": "hours", "parts": "sides"})
    policy = publish(
        make(
            stream("hours"), stream("sides", groups=TABLE), stream("days", "1 day"), stream("sides-days", "1 day", TABLE),
            reconcile=chain, promise={"notion": "w-event", "epsilon": 4, "w": 24},
        ),
        write_use(tmp_path),
    )  # fmt: skip
    found = revise(policy)
    hours, sides, days, sides_days = (found[name][1] for name in ("hours", "sides", "days", "sides-days"))
    places = [[i for i, s in enumerate(found["sides"][0]) if s[:10] == d[:10]] for d in found["days"][0]]
    assert (np.array([sides[at].sum(axis=0) for at in places]) == sides_days).all()
    assert (sides_days[:, 0] + sides_days[:, 1] == days[:, 0]).all()
    assert (sides[:, 0] + sides[:, 1] == hours[:, 0]).all() != non_negative
    if non_negative:
        assert min(sides.min(), sides_days.min(), days.min()) >= 0
    else:
        assert (np.array([hours[at].sum() for at in places]) == days[:, 0]).all()


def test_means_of_steps_are_means(tmp_path):
    """Power instead of energy: a day's mean is that of its hours, however many they are."""
    mean = {"kind": "mean", "fold": "mean", "clip": ["0", "2 kWh"]}
    policy = publish(two_widths({"statistic": mean}, {"statistic": mean}), write_use(tmp_path))
    found = revise(policy)
    starts, hours, _ = found["hours"]
    for day, value in zip(found["days"][0], found["days"][1][:, 0], strict=True):
        mine = [hours[i, 0] for i, start in enumerate(starts) if local_day(start) == local_day(day)]
        assert sum(mine) / len(mine) == value


def test_noise_that_is_used_again_is_one_noise_of_all_its_steps(tmp_path):
    """Of a golden ledger: Σ from the names of draws in its releases, entry by entry."""
    golden = Path(__file__).parents[1] / "golden" / "0.2.0" / "almost-periodic-strong"
    shutil.copytree(golden, tmp_path / "g")
    for raw in read_raws(hl.Policy.load(tmp_path / "g" / "policy.yaml")).values():
        series = raw.number(0)
        found = np.diag(raw.find_variances().ravel())
        for one in raw.find_common(series):
            found[np.ix_(one.cells, one.cells)] += np.outer(one.scales, one.scales)
        scales, carried = {}, {}
        for k, entry in enumerate(raw.entries):
            scales |= {r.draw: r.scale for r in entry.releases if r.draw}
            for i, r in enumerate(entry.releases):
                for cell in range(len(raw.worth)):
                    if r.draw is None:
                        carried.setdefault((k, i, cell), {})[series.cells[k, cell]] = r.scale * raw.worth[cell]
            for name in {r.draw or r.atop for r in entry.releases} - {None}:
                for cell in range(len(raw.worth)):
                    carried.setdefault((name, cell), {})[series.cells[k, cell]] = scales[name] * raw.worth[cell]
        expected = np.zeros_like(found)
        for cells in carried.values():
            for (a, x), (b, y) in itertools.product(cells.items(), cells.items()):
                expected[a, b] += 2 * x * y
        np.testing.assert_allclose(found, expected, rtol=1e-9)
        assert (found - np.diag(np.diag(found)) != 0).any()


def test_a_stream_alone_is_estimated_with_those_that_it_adds_up_with(tmp_path):
    policy = publish(two_widths(), write_use(tmp_path))
    both = {one.stream: one.file.read_bytes() for one in hl.hindsight(policy, folder=tmp_path / "both")}
    (one,) = hl.hindsight(policy, ["days"], folder=tmp_path / "one")
    assert one.stream == "days"
    assert one.file.read_bytes() == both["days"]


def test_a_ledger_that_was_changed_is_not_estimated(tmp_path):
    policy = publish(two_widths(), write_use(tmp_path))
    with closing(sqlite3.connect(tmp_path / "homes.ledger")) as file:
        (noisy,) = file.execute("select noisy from entry where id = 5").fetchone()
        changed = bytes([noisy[0] ^ 1]) + noisy[1:]
        file.execute("update entry set noisy = ? where id = 5", (changed,))
        file.commit()
    with pytest.raises(hl.LedgerError, match=r"entry 5 .*was changed: its hash .*Nothing was estimated"):
        hl.hindsight(policy)
    assert list(tmp_path.glob("*revised*")) == []


def test_a_vintage_that_somebody_wrote_meanwhile_is_left_alone(tmp_path, monkeypatch):
    policy = publish(two_widths(), write_use(tmp_path))
    true = looking_back.open_output

    def open_late(target, *given, **more):
        Path(target).with_name(Path(target).name.split(".", 2)[2]).write_text("somebody else's")
        return true(target, *given, **more)

    monkeypatch.setattr(looking_back, "open_output", open_late)
    with pytest.raises(hl.InvalidInput, match="this vintage was written before"):
        hl.hindsight(policy, ["days"])
    (file,) = tmp_path.glob("*revised*")
    assert file.read_text() == "somebody else's"


def test_a_dry_run_says_where_sums_take_effect(tmp_path):
    found = preview(hl.Policy.from_dict(two_widths(), write_use(tmp_path)), clock=AFTER)
    hours, days = ("\n".join(s.reasons) for s in found.streams)
    assert (
        "is the sum of the steps of hours in revised series alone (`halflife hindsight`): live nothing changes" in days
    )
    assert "revised" not in hours


# Refused --------------------------------------------------------------------------------------------------------------

EACH = {"statistic": {"kind": "histogram", "edges": ["0", "1", "2"], "clip": None}, "post": []}
REFUSED = {
    "complete: missing: what one person counts as is clipped in each step of 'hours'": two_widths(
        rule={"complete": False}
    ),
    "a histogram does not add up over time": two_widths(EACH, EACH),
    "with `fold: last` the value of a long step is no sum": two_widths(
        {"statistic": {"fold": "last"}}, {"statistic": {"fold": "last"}}
    ),
    "with `fold: sum`, `missing` must be 0": two_widths(
        {"statistic": {"missing": "1 Wh"}}, {"statistic": {"missing": "1 Wh"}}
    ),
    "statistics differ: a reading must count in both": two_widths({"statistic": {"clip_readings": ["0", "1"]}}),
    "groups differ: each group adds up by itself": two_widths({"groups": TABLE}),
    "sources differ: both must read the same files": two_widths({"source": {**SOURCE, "value": "other"}}),
    "widths differ: steps of 'hours' are the shorter ones": two_widths(rule={"total": "hours", "parts": "days"}),
    "no step of 'days' is made of whole steps of 'hours'": two_widths({"step": "5 h", "end": "2026-03-28T01:00"}),
    "over time each group adds up by itself": two_widths(rule={"members": {"n": ["s"]}}),
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_does_not_add_up_over_time_is_refused_in_words(tmp_path, words):
    with pytest.raises(hl.PolicyError, match=re.escape(words)):
        hl.Policy.from_dict(json.loads(json.dumps(REFUSED[words])), write_use(tmp_path))


def test_totals_and_circles(tmp_path):
    write_use(tmp_path)
    weeks = stream("weeks", "2 days")
    data = make(
        stream("hours"), stream("days", "1 day"), weeks,
        reconcile=[{"total": t, "parts": p, "complete": True} for t, p in (("days", "hours"), ("weeks", "hours"))],
        promise={"notion": "w-event", "epsilon": 1, "w": 168},
    )  # fmt: skip
    policy = hl.Policy.from_dict(copy.deepcopy(data), tmp_path)
    assert [rule.over_time for rule in rules(policy)] == [True, True]
    data["reconcile"].append({"total": "weeks", "parts": "days", "complete": True})
    with pytest.raises(hl.PolicyError, match="'weeks' is reconciled already"):
        hl.Policy.from_dict(copy.deepcopy(data), tmp_path)
    data["reconcile"].pop()
    data["reconcile"][1]["non_negative"] = True
    with pytest.raises(hl.PolicyError, match="'hours' is part of two totals"):
        hl.Policy.from_dict(data, tmp_path)
