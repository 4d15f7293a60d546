"""Streams that add up: published so to the last bit, live and after restarts, and verified from the ledger; what is refused."""

from __future__ import annotations

import copy
import csv
import datetime
import itertools
import json
import random
import re
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import halflife as hl
from halflife.ledger import open_ledger
from halflife.policy import channels
from halflife.postprocessing.chains import run_chain
from halflife.postprocessing.reconcile import Rule, solve_least_squares
from halflife.publisher import backfill, session
from halflife.publisher.reconciling import Estimates, Levels
from halflife.publisher.revising import Raw

ZONES, TAXIS, STEPS = ("north", "south", "west"), 40, 24
SOURCE = {"files": "taxis.csv", "time": "time"}


def hour(h):
    return (datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(hours=h)).timestamp


def write_taxis(folder, seed=3):
    """Taxis that are in one of three zones each hour, or off; what each reads; and a table of homes."""
    draw = random.Random(seed)
    with (folder / "taxis.csv").open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["taxi", "time", "zone", "fare", "side"])
        for k, t in itertools.product(range(STEPS), range(TAXIS)):
            if draw.random() < 0.9:
                time = f"2026-01-{1 + k // 24:02d}T{k % 24:02d}:30:00"
                zone, fare = draw.choice(ZONES), draw.randrange(0, 500) / 10
                out.writerow([f"t{t}", time, zone, fare, "up" if zone == "north" else "down"])
    homes = "".join(f"t{t},{ZONES[t % 3 if t < 30 else 0]}\n" for t in range(TAXIS))
    (folder / "homes.csv").write_text("taxi,where\n" + homes)
    sides = "".join(f"t{t},{'up' if t % 3 == 0 or t >= 30 else 'down'}\n" for t in range(TAXIS))
    (folder / "sides-of-homes.csv").write_text("taxi,where\n" + sides)
    return folder


def add_sides(data, **rule):
    """Three levels: the city, two sides of the river, and zones."""
    city, zones = data["streams"]
    sides = {**copy.deepcopy(zones), "name": "sides", "output": "sides.csv"}
    if "table" in zones["groups"]:
        sides["groups"] = {
            "names": ["up", "down"],
            "table": {"file": "sides-of-homes.csv", "person": "taxi", "group": "where"},
        }
    else:
        sides["groups"] = {"names": ["up", "down"], "most_per_person": 1}
        sides["source"]["group"] = "side"
        rule = {"members": {"up": ["north"], "down": ["south", "west"]}, **rule}
    shared = {k: v for k, v in data["reconcile"][0].items() if k in ("complete", "non_negative")}
    rules = [{"total": "sides", "parts": "zones", **shared, **rule}, {"total": "city", "parts": "sides", **shared}]
    return {**data, "streams": [city, sides, zones], "reconcile": rules}


def make(epsilon=1.0, rule=None, city=None, zones=None, **changes):
    """A policy about a city and its zones, as plain data."""
    data = {
        "population": {"id": "taxis", "size": TAXIS, "person": "taxi"},
        "promise": {"notion": "w-event", "epsilon": epsilon, "w": 3},
        "clock": {"step": "1 h", "start": "2026-01-01", "end": "2026-01-02"},
        "streams": [
            {"name": "city", "source": dict(SOURCE), "statistic": {"kind": "count"}, "output": "city.csv", **(city or {})},
            {
                "name": "zones", "source": {**SOURCE, "group": "zone"}, "statistic": {"kind": "count"},
                "groups": {"names": list(ZONES), "most_per_person": 1}, "output": "zones.csv", **(zones or {}),
            },
        ],
        "reconcile": [{"total": "city", "parts": "zones", "complete": True, **(rule or {})}],
        "ledger": "taxis.ledger",
    }  # fmt: skip
    return {**data, **changes}


def by_home(kind, **rule):
    """The same with a table of groups, of means or sums of fares."""
    statistic = {"kind": kind, "unit": "USD", "resolution": "10 cUSD", "clip": ["0", "50"], "fold": "sum"}
    source = {**SOURCE, "value": "fare"}
    groups = {"table": {"file": "homes.csv", "person": "taxi", "group": "where"}}
    return make(
        city={"source": source, "statistic": statistic},
        zones={"source": source, "statistic": statistic, "groups": groups},
        reconcile=[{"total": "city", "parts": "zones", **rule}],
    )


def read(folder, name):
    """Values and bands of an output: steps × cells."""
    with (folder / f"{name}.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    steps = sorted({int(row["step"]) for row in rows})
    shaped = [[row for row in rows if int(row["step"]) == step] for step in steps]
    return [np.array([[float(row[key]) for row in block] for block in shaped]) for key in ("value", "error_band")]


def entries(policy, name):
    with open_ledger(policy.ledger_url, read_only=True) as book:
        return list(book.entries(name))


def publish(data, folder, until=STEPS):
    policy = hl.Policy.from_dict(data, folder)
    summary = hl.publish(policy, clock=hour(until))
    verdict = hl.verify(policy)
    assert verdict.problems == (), verdict.problems
    return policy, summary


# What is published ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", [{}, {"non_negative": True}])
def test_totals_are_the_sums_of_parts_in_every_order_of_adding(tmp_path, rule):
    publish(make(rule=rule, epsilon=0.2), write_taxis(tmp_path))
    (city, _), (zones, _) = read(tmp_path, "city"), read(tmp_path, "zones")
    for order in itertools.permutations(range(3)):
        assert (zones[:, order[0]] + zones[:, order[1]] + zones[:, order[2]] == city[:, 0]).all()
    assert bool(rule) == bool((zones >= 0).all())  # noise of scale 30 on a dozen taxis: some would be negative


def test_estimates_are_the_least_squares_ones_of_the_noisy_values(tmp_path):
    """By hand, in whole units: d shared out by variances, and the scale that is left."""
    policy, _ = publish(make(city={"share": 0.25}, zones={"share": 0.75}), write_taxis(tmp_path))
    for total, parts in zip(entries(policy, "city"), entries(policy, "zones"), strict=True):
        t, s = total.releases[0].scale, parts.releases[0].scale
        d, both = total.noisy[0] - parts.noisy.sum(), t * t + 3 * s * s
        np.testing.assert_allclose(total.value[0], total.noisy[0] - t * t / both * d, rtol=1e-12)
        np.testing.assert_allclose(parts.value[:3], parts.noisy + s * s / both * d, rtol=1e-12, atol=1e-12)
        assert total.spread < t * np.sqrt(3 * s * s / both) * 1.0001  # that of the mixture, or less: lighter tails
        assert parts.spread < s * np.sqrt(1 - s * s / both) * 1.0001
        assert (total.value[1], parts.value[3]) == pytest.approx((total.spread * np.log(20), parts.spread * np.log(20)))
        assert total.spread > 0.9 * t * np.sqrt(3 * s * s / both)


def test_exact_values_add_up_so_with_next_to_no_noise_nothing_moves(tmp_path):
    publish(make(epsilon=1e6), write_taxis(tmp_path))
    (city, _), (zones, _) = read(tmp_path, "city"), read(tmp_path, "zones")
    assert np.abs(zones - np.rint(zones)).max() < 0.01
    assert (np.rint(zones).sum(axis=1) == np.rint(city[:, 0])).all()


@pytest.mark.parametrize("kind", ["sum", "mean"])
def test_sums_and_means_by_a_table(tmp_path, kind):
    publish(by_home(kind), write_taxis(tmp_path))
    (city, _), (zones, _) = read(tmp_path, "city"), read(tmp_path, "zones")
    people = np.array([20, 10, 10]) if kind == "mean" else np.ones(3)
    for order in ([0, 1, 2], [2, 0, 1], [1, 2, 0]):
        total = sum(people[i] * zones[:, i] for i in order) / (TAXIS if kind == "mean" else 1)
        assert (total == city[:, 0]).all()


def test_histograms_add_up_bin_by_bin(tmp_path):
    statistic = {"kind": "histogram", "unit": "USD", "resolution": "10 cUSD", "edges": ["0", "10", "50"], "fold": "sum"}
    data = by_home("sum")
    for stream in data["streams"]:
        stream["statistic"] = statistic
    publish(data, write_taxis(tmp_path))
    (city, _), (zones, _) = read(tmp_path, "city"), read(tmp_path, "zones")
    assert (zones.reshape(-1, 3, 2).sum(axis=1) == city).all()


@pytest.mark.parametrize("post", [[{"kalman": "4"}], [{"moving_average": 3}], [{"moving_average": 2}, {"kalman": "2"}]])
def test_each_streams_own_post_processing_comes_first(tmp_path, post):
    data = make(city={"post": post}, zones={"post": post})
    policy, _ = publish(data, write_taxis(tmp_path))
    (city, bands), (zones, _) = read(tmp_path, "city"), read(tmp_path, "zones")
    assert (zones[:, 0] + zones[:, 1] + zones[:, 2] == city[:, 0]).all()
    smooth = [np.array([e.noisy for e in entries(policy, name)]) for name in ("city", "zones")]
    assert np.abs(np.diff(city[:, 0])).mean() < np.abs(np.diff(smooth[0][:, 0])).mean()
    if len(post) == 1:
        assert bands[-1, 0] < bands[0, 0]


@pytest.mark.parametrize("rule", [{}, {"non_negative": True}])
@pytest.mark.parametrize("kind", ["count", "mean"])
def test_three_levels_add_up_at_each_and_equal_the_dense_solve(tmp_path, kind, rule):
    """City, sides and zones of one step, solved together: by hand with all equations at once, in whole units."""
    write_taxis(tmp_path)
    plain = make(rule=rule, epsilon=0.5) if kind == "count" else by_home("mean", **rule)
    policy, _ = publish(add_sides(plain), tmp_path)
    city, sides, zones = (read(tmp_path, name)[0] for name in ("city", "sides", "zones"))
    if kind == "count":
        assert (sides[:, 0] == zones[:, 0]).all()
        assert (sides[:, 1] == zones[:, 1] + zones[:, 2]).all()
        assert (city[:, 0] == zones[:, 2] + zones[:, 1] + zones[:, 0]).all()
    else:
        assert (sides[:, 1] == (10 * zones[:, 1] + 10 * zones[:, 2]) / 20).all()
        np.testing.assert_allclose(
            city[:, 0], (20 * zones[:, 0] + 10 * zones[:, 1] + 10 * zones[:, 2]) / 40, rtol=1e-12
        )
    assert (np.concatenate([city, sides, zones], axis=1) >= 0).all() or not rule
    if not rule:
        rows = np.array([[1.0, -1, -1, 0, 0, 0], [0, 1, 0, -1, 0, 0], [0, 0, 1, 0, -1, -1]])
        for total, middle, parts in zip(*(entries(policy, name) for name in ("city", "sides", "zones")), strict=True):
            y = np.concatenate([total.noisy, middle.noisy, parts.noisy])
            scales = np.repeat([e.releases[0].scale for e in (total, middle, parts)], [1, 2, 3])
            z, cov = solve_least_squares(y, np.diag(scales**2), rows)
            worth = 0.1 / np.array([40, 20, 20, 20, 10, 10]) if kind == "mean" else np.ones(6)
            stored = np.concatenate([e.value[: len(e.noisy)] for e in (total, middle, parts)])
            np.testing.assert_allclose(stored, z * worth, rtol=1e-9, atol=1e-9)
            bands = np.concatenate([e.value[len(e.noisy) :] for e in (total, middle, parts)])
            single = np.log(20) * np.sqrt(np.diag(cov)) * worth  # that of one noise of this variance
            assert (bands <= single * 1.0001).all()
            assert (bands > 0.9 * single).all()


def test_levels_are_recorded_and_a_level_may_be_taken_out(tmp_path):
    write_taxis(tmp_path)
    publish(add_sides(make()), tmp_path, 4)
    less = add_sides(make())
    less["reconcile"] = less["reconcile"][1:]
    policy, _ = publish(less, tmp_path, 8)
    city, sides, zones = (read(tmp_path, name)[0] for name in ("city", "sides", "zones"))
    assert (sides.sum(axis=1) == city[:, 0]).all()
    assert (zones[:4].sum(axis=1) == city[:4, 0]).all()
    assert not (zones[4:].sum(axis=1) == city[4:, 0]).any()
    with open_ledger(policy.ledger_url, read_only=True) as book:
        record = json.loads(book.states()["reconcile:sides"])["rules"]
    assert record == [{"from": 1, "rule": {"parts": "zones", "members": [0, 1, 1]}}, {"from": 5, "rule": None}]


@pytest.mark.parametrize(
    "post", [[{"kalman": "fitted"}], [{"seasonal": {"amplitude": "6", "level": 0.1, "irregular": 0.2}}]]
)
def test_estimates_with_bands_of_their_own_are_reconciled(tmp_path, post):
    """Over restarts; each moves by the square of its band, and keeps it."""
    write_taxis(tmp_path)
    data = make(city={"post": post}, zones={"post": post})
    alone = hl.Policy.from_dict({**data, "reconcile": [], "ledger": "alone.ledger"}, tmp_path)
    for until in (7, 9, 24):
        policy, _ = publish(data, tmp_path, until)
    (city, h0), (zones, h) = read(tmp_path, "city"), read(tmp_path, "zones")
    assert (zones[:, 0] + zones[:, 1] + zones[:, 2] == city[:, 0]).all()
    for name, cells in (("city", 1), ("zones", 3)):
        channel = next(c for c in channels(alone) if c.name == name)
        raw = Raw(channel, entries(policy, name))
        own = run_chain(channel.smoothers(), raw.values, raw.scales, raw.facts)
        if name == "city":
            y0 = own.values
        np.testing.assert_allclose(h0 if cells == 1 else h, own.bands, rtol=1e-9)
    gap = (y0[:, 0] - own.values.sum(axis=1)) / (h0[:, 0] ** 2 + (h**2).sum(axis=1))
    np.testing.assert_allclose(zones, own.values + h**2 * gap[:, None], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(city, y0 - h0**2 * gap[:, None], rtol=1e-9, atol=1e-9)


# Bands ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("empty", [False, True])
def test_bands_hold_95_per_cent_non_negative_or_not(empty):
    """3,000 steps of 12 zones, one large and the others empty or not: each band covers, whatever was moved to stay above 0."""
    rng = np.random.default_rng(2)
    truth = np.array([300.0] + [0.0 if empty else 9.0] * 11)
    total, parts = truth.sum() + rng.laplace(0, 6, (3000, 1)), truth + rng.laplace(0, 4, (3000, 12))
    one = Fraction(1)
    for non_negative in (False, True):
        levels = Levels([Rule("city", "zones", non_negative)], {"city": [one], "zones": [one] * 12}, size=400)
        given = {"city": Estimates(total, np.full(3000, 6.0)), "zones": Estimates(parts, np.full(3000, 4.0))}
        found = levels.reconcile(given, "laplace")
        for made, exact in zip(found.values(), (truth.sum(), truth), strict=True):
            covered = (np.abs(made.values - exact) <= made.bands).mean(axis=0)
            assert covered.min() > 0.94  # 0.95 less 2.5 standard deviations
            assert non_negative or covered.max() < 0.975
        error = found["city"].values - truth.sum()
        assert np.sqrt((error**2).mean()) < 0.95 * 6 * np.sqrt(2)  # 6·√(192/228) = 5.5


# Over restarts, batches and gaps -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [3, 7])
def test_it_goes_on_over_runs_and_cuts(tmp_path, monkeypatch, batch):
    monkeypatch.setattr(backfill, "BATCH_STEPS", batch)
    write_taxis(tmp_path)
    for until in (5, 6, 17, 24):
        publish(make(city={"post": [{"kalman": "4"}]}, zones={"post": [{"kalman": "4"}]}), tmp_path, until)
    (city, _), (zones, _) = read(tmp_path, "city"), read(tmp_path, "zones")
    assert len(city) == 24
    assert (zones.sum(axis=1) == city[:, 0]).all()


def test_a_rule_is_added_changed_and_taken_back_from_the_next_step_on(tmp_path):
    write_taxis(tmp_path)
    for until, rules in (
        (4, []),
        (8, [{"total": "city", "parts": "zones", "complete": True}]),
        (12, [{"total": "city", "parts": "zones", "complete": True, "non_negative": True}]),
        (16, []),
        (20, [{"total": "city", "parts": "zones", "complete": True}]),
    ):
        policy, _ = publish(make(reconcile=rules, epsilon=0.1), tmp_path, until)
    (city, _), (zones, _) = read(tmp_path, "city"), read(tmp_path, "zones")
    adds_up = zones.sum(axis=1) == city[:, 0]
    assert adds_up.tolist() == [False] * 4 + [True] * 8 + [False] * 4 + [True] * 4
    assert (zones[8:12] >= 0).all()
    with open_ledger(policy.ledger_url, read_only=True) as book:
        record = json.loads(book.states()["reconcile:city"])
        assert book.facts().keys() == {"format", "population", "promise", "clock", "stream:city", "stream:zones"}
    assert record["rules"] == [
        {"from": 5, "rule": {"parts": "zones"}},
        {"from": 9, "rule": {"parts": "zones", "non_negative": True}},
        {"from": 13, "rule": None},
        {"from": 17, "rule": {"parts": "zones"}},
    ]


def test_steps_that_are_not_published_together_stay_as_they_are(tmp_path):
    """Under a promise that forgets, late steps are passed over stream by stream: whoever is alone is published raw."""
    promise = {"notion": "exponential", "epsilon": 1, "half_life": "6 h"}
    data = make(promise=promise, city={"share": 0.3}, zones={"share": 0.7})
    write_taxis(tmp_path)
    policy, summary = publish(data, tmp_path, 9)
    assert summary.passed_over > 0
    for until in (10, 11):
        policy, _ = publish(data, tmp_path, until)
    city, zones = ({e.step: e for e in entries(policy, name)} for name in ("city", "zones"))
    assert {10, 11} <= city.keys() & zones.keys()
    for step in city.keys() | zones.keys():
        both = step in city and step in zones
        assert all((e.value is not None) == both for e in (city.get(step), zones.get(step)) if e is not None)
        if both:
            assert zones[step].value[:3].sum() == city[step].value[0]


# Verified ---------------------------------------------------------------------------------------------------------------


LIES = {
    "a value of the total": lambda e: replace(e, value=e.value * [1 + 1e-6, 1]) if e.stream == "city" else e,
    "a value of a part": lambda e: replace(e, value=e.value * [1, 1, 1 + 1e-6, 1, 1, 1]) if e.stream == "zones" else e,
    "a band": lambda e: replace(e, value=e.value * [1, 0.9]) if e.stream == "city" else e,
    "a spread": lambda e: replace(e, spread=e.spread * 0.9) if e.stream == "zones" else e,
    "one that is not reconciled": lambda e: replace(e, value=None) if e.stream == "city" else e,
    "both that are not": lambda e: replace(e, value=None),
    "the last bit": lambda e: replace(e, value=np.nextafter(e.value, np.inf)) if e.stream == "city" else e,
}


@pytest.mark.parametrize("lie", LIES)
def test_a_publisher_that_lies_is_found(tmp_path, monkeypatch, lie):
    """With a chain of hashes that is whole: every value is worked out again, and sums are compared to the last bit."""
    write_taxis(tmp_path)
    publish(make(), tmp_path, 3)
    true = session.reconcile_entries
    monkeypatch.setattr(session, "reconcile_entries", lambda *given: [LIES[lie](e) for e in true(*given)])
    policy = hl.Policy.from_dict(make(), tmp_path)
    hl.publish(policy, clock=hour(4))
    (problem,) = hl.verify(policy.ledger_url).problems
    assert "step 4): its value is not what post-processing and reconciliation give" in problem


def test_what_was_never_in_one_batch_may_not_be_reconciled(tmp_path, monkeypatch):
    """A value that adds up with one that was published before: no publisher would have made it."""
    write_taxis(tmp_path)
    data = make(city={"end": "2026-01-01T06:00"}, zones={"end": "2026-01-01T06:00"})
    publish(data, tmp_path, 2)
    monkeypatch.setattr(
        session,
        "reconcile_entries",
        lambda rules, factors, size, given: [replace(e, value=np.concatenate([e.noisy, e.noisy])) for e in given],
    )
    dues = session.Session.all_due
    for name in ("city", "zones"):
        policy = hl.Policy.from_dict(data, tmp_path)
        monkeypatch.setattr(session.Session, "all_due", lambda s, n=name: [d for d in dues(s) if d.channel.name == n])
        hl.publish(policy, clock=hour(3))
    (problem,) = hl.verify(policy.ledger_url).problems
    assert "step 3)" in problem


# Refused ------------------------------------------------------------------------------------------------------------------

HALF = {"step": "2 h"}
REFUSED = {
    "an unknown stream": (
        make(rule={"total": "town"}),
        "reconcile.0.total: unknown stream 'town': Known: city, zones",
    ),
    "itself": (make(rule={"parts": "city"}), "reconcile.0.parts: 'city' cannot be its own parts"),
    "exchanged": (make(rule={"total": "zones", "parts": "city"}), "reconcile.0.parts: 'city' has no groups"),
    "not said to be complete": (
        make(rule={"complete": False}),
        "reconcile.0.complete: missing: the data names the groups",
    ),
    "two groups": (
        make(zones={"groups": {"names": list(ZONES), "most_per_person": 2}}),
        "a person may count in 2 groups, and counts once in 'city'",
    ),
    "other steps": (make(city=HALF), "groups differ: each group adds up by itself, so both must have the same"),
    "people counted over time": (make(city=HALF), "reconcile.0.total: a count does not add up over time"),
    "another start": (make(city={"start": "2026-01-01T02:00"}), "start or end differ: both must have the same steps"),
    "another end": (make(city={"end": "2026-01-01T12:00"}), "start or end differ"),
    "another delay": (make(city={"delay": "1 h"}), "delays differ: both must be published at the same time"),
    "a short delay": (make(city={"delay": "10 min"}), "delays differ"),
    "another statistic": (make(city={"statistic": {"kind": "events", "most_events": 2}}), "statistics differ"),
    "other files": (
        make(city={"source": {**SOURCE, "files": "other.csv"}}),
        "sources differ: both must read the same files",
    ),
    "other columns": (make(city={"source": {**SOURCE, "person": "driver"}}), "sources differ"),
    "pushed": (
        {**make(), "streams": [{k: v for k, v in s.items() if k != "source"} for s in make()["streams"]]},
        "'city' is pushed by a program",
    ),
    "truncated": (
        make(city={"post": [{"truncate": ["0", "40"]}]}, zones={"post": [{"truncate": ["0", "40"]}]}),
        "write `non_negative: yes` instead",
    ),
    "smoothed on one side": (
        make(city={"post": [{"kalman": "4"}]}),
        "post-processing differ: both need the same steps",
    ),
    "two totals": (
        make(reconcile=[{"total": "city", "parts": "zones", "complete": True}] * 2),
        "reconcile.1.total: 'city' is reconciled already: a stream is the total in one rule",
    ),
    "members of no group": (
        make(rule={"members": {"up": ["north"]}}),
        "'city' has no groups: all groups of 'zones' lie in it",
    ),
    "no members": (
        add_sides(make(), members=None),
        "reconcile.0.members: missing: which groups of 'zones' lie in each",
    ),
    "a member twice": (
        add_sides(make(), members={"up": ["north", "west"], "down": ["south", "west"]}),
        "each group of both must stand there once: see west",
    ),
    "a member that is missing": (add_sides(make(), members={"up": ["north"], "down": ["west"]}), "see south"),
    "members beside tables": (
        add_sides(by_home("sum"), members={"up": ["north"]}),
        "the tables say it: leave this out",
    ),
    "a blank": (make(rule={"parts": None}), "reconcile.0.parts: is blank: The stream whose groups, or shorter steps"),
    "an unknown key": (make(rule={"part": "zones"}), "unknown key 'part': did you mean 'parts'?"),
}


@pytest.mark.parametrize("why", REFUSED)
def test_what_does_not_add_up_is_refused_in_words(tmp_path, why):
    data, words = REFUSED[why]
    with pytest.raises(hl.PolicyError, match=re.escape(words)):
        hl.Policy.from_dict(copy.deepcopy(data), write_taxis(tmp_path))


def test_people_outside_the_table_are_refused(tmp_path):
    write_taxis(tmp_path)
    data = by_home("sum")
    data["population"]["size"] = TAXIS + 2
    with pytest.raises(hl.PolicyError, match="has 40 of 42 people: 2 would count in 'city' and in no group"):
        hl.Policy.from_dict(data, tmp_path)
    with pytest.raises(hl.PolicyError, match="the table says who is in which group: leave this out"):
        hl.Policy.from_dict(by_home("sum", complete=True), tmp_path)
    nobody = by_home("mean")
    nobody["streams"][1]["groups"]["names"] = [*ZONES, "east"]
    with pytest.raises(hl.PolicyError, match="group 'east' has nobody"):
        hl.Policy.from_dict(nobody, tmp_path)
    nobody["streams"][0]["statistic"] = nobody["streams"][1]["statistic"] = by_home("sum")["streams"][0]["statistic"]
    publish(nobody, tmp_path, 3)  # a sum of nobody is 0


def test_values_that_may_be_negative_are_not_held_above_0(tmp_path):
    write_taxis(tmp_path)
    data = by_home("sum", non_negative=True)
    for stream in data["streams"]:
        stream["statistic"] = {**stream["statistic"], "clip": ["-10", "50"]}
    with pytest.raises(hl.PolicyError, match="a person may count as less than 0 here"):
        hl.Policy.from_dict(data, tmp_path)
    publish(by_home("sum", non_negative=True), tmp_path, 3)
