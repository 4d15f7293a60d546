"""Streams worked out: their times on the account, their shares, and what keeps the promise."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import csv

from halflife import Accountant, InvalidInput, Release, WEvent
from halflife.local_time import DAY, from_us, parse_time, to_us
from halflife.parsing.documents import parse_document
from halflife.policy import Policy, PolicyError, channels
from halflife.policy.tables import read_public_table
from halflife.postprocessing import MovingAverage, Truncate
from policy.towns import GOOD, change, write_tables


def policy(**changes):
    """A policy of pushed counts; `clock`, `promise`, `population` and `streams` (a list of changes) may be changed."""
    stream = {"name": "s", "statistic": {"kind": "count"}, "output": "-"}
    given = changes.get("streams", [{}])
    return Policy.from_dict({
        "population": {"id": "town", "size": 10, "person": "who"} | changes.get("population", {}),
        "promise": changes.get("promise", {"notion": "exponential", "epsilon": 1, "half_life": "1 day"}),
        "clock": {"step": "30 min", "start": "2026-01-01", "zone": "Europe/London"} | changes.get("clock", {}),
        "streams": [stream | {"name": f"s{i}"} | s for i, s in enumerate(given)],
    })  # fmt: skip


def us(text):
    return to_us(parse_time(text, "Europe/London"))


# Times ----------------------------------------------------------------------------------------------------------------


def test_a_step_is_published_when_it_and_its_delay_are_over():
    plain, late = channels(policy(streams=[{}, {"delay": "2 h"}]))
    assert from_us(plain.published_at(1)).isoformat() == "2026-01-01T00:30:00+00:00"
    assert from_us(late.published_at(1)).isoformat() == "2026-01-01T02:30:00+00:00"
    assert plain.release_steps(1, 3).tolist() == [1, 2, 3]
    assert late.release_steps(1, 3).tolist() == [5, 6, 7]
    assert (plain.newest(us("2026-01-01T00:29")), plain.newest(us("2026-01-01T00:30"))) == (0, 1)
    assert (late.newest(us("2026-01-01T02:29")), late.newest(us("2026-01-01T02:30"))) == (0, 1)


def test_a_delay_counts_in_whole_steps_and_a_step_closes_when_all_of_it_is_over():
    soon, later = channels(policy(streams=[{"delay": "7 min"}, {"delay": "65 min"}]))
    assert (soon.age, later.age) == (0, 2)
    assert soon.release_steps(1, 2).tolist() == [1, 2]
    assert later.release_steps(1, 2).tolist() == [3, 4]
    assert from_us(soon.published_at(1)).isoformat() == "2026-01-01T00:37:00+00:00"
    assert from_us(later.published_at(1)).isoformat() == "2026-01-01T01:35:00+00:00"
    assert (soon.newest(us("2026-01-01T00:36")), soon.newest(us("2026-01-01T00:37"))) == (0, 1)
    (days,) = channels(policy(clock={"step": "1 day"}, streams=[{"delay": "6 h"}]))
    assert (days.age, from_us(days.published_at(1)).isoformat()) == (0, "2026-01-02T06:00:00+00:00")


def test_a_stream_may_start_later_than_the_clock():
    (c,) = channels(policy(streams=[{"start": "2026-01-02", "step": "1 h"}]))
    assert c.release_steps(1, 2).tolist() == [50, 52]
    assert c.every == 2
    assert c.losses(1, 3) == [c.plan.loss(1), c.plan.loss(3), c.plan.loss(5)]
    assert c.losses(3, 3) == [c.plan.loss(5)]


def test_local_days_on_an_account_of_half_hours_are_charged_where_they_are_over():
    (c,) = channels(policy(clock={"start": "2026-03-01"}, streams=[{"step": "1 day"}]))
    steps = c.release_steps(1, 250)
    gaps = np.diff(steps)
    assert set(gaps.tolist()) == {46, 48, 50}
    assert gaps.min() >= c.every == 42
    for k in (1, 29, 30, 240):
        assert c.published_at(k) == c.steps.end(k)


def test_weeks_on_local_days():
    (c,) = channels(policy(clock={"step": "1 day", "start": "2026-03-02"}, streams=[{"step": "1 week"}]))
    assert (c.every, c.release_steps(1, 5).tolist()) == (7, [7, 14, 21, 28, 35])
    assert c.published_at(4) == us("2026-03-30")


def test_a_stream_that_lies_across_the_steps_of_the_account_is_refused():
    """Two-day steps from the second day on: each would be about two steps of a w-event account."""
    for promise in ({"notion": "w-event", "epsilon": 1, "w": 1}, {"notion": "exponential", "epsilon": 1, "alpha": 0.5}):
        with pytest.raises(PolicyError, match="starts where one of the clock's steps does"):
            policy(promise=promise, clock={"step": "2 days"}, streams=[{"start": "2026-01-02"}])
        policy(promise=promise, clock={"step": "2 days"}, streams=[{"start": "2026-01-03"}])


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(["30 min", "1 h", "1 day", "1 week"]),
    st.sampled_from([None, "1 h", "3 h", "400 days", "5 min", "95 min"]),
    st.integers(-5, 800 * 24),
)
def test_the_newest_step_is_the_last_that_may_be_published(step, delay, hours):
    (c,) = channels(policy(streams=[{"step": step, "delay": delay}]))
    now = us("2026-01-01") + hours * DAY // 24 + 1
    newest = c.newest(now)
    assert newest == 0 or c.published_at(newest) <= now
    assert c.published_at(newest + 1) > now


def test_the_end_ends_it():
    (c,) = channels(policy(clock={"end": "2026-01-03"}))
    assert c.last == 96
    assert c.newest(us("2027-01-01")) == 96
    (c,) = channels(policy(clock={"end": "2026-01-03"}, streams=[{"end": "2026-01-02"}]))
    assert c.last == 48


def test_the_question_covers_its_steps(tmp_path):
    (c,) = channels(Policy.parse(GOOD, write_tables(tmp_path)))
    q = c.question(3, 5)
    assert (q.first, q.last, q.shape, q.person, q.group) == (3, 5, (3, 2, 1), "who", None)
    assert (q.multiply, q.divide, q.low, q.high, q.baseline) == (1000, 1, 0, 5000, 200)
    assert [q.buckets.step(c.steps.start(k)) for k in (2, 3, 5, 6)] == [2, 3, 5, 6]
    assert q.local[0][1] == -3600 * 10**6  # Paris in winter
    assert (q.fold, q.once, q.table) == ("sum", True, {"a": 0, "b": 1, "c": 0, "d": 1})


# The promise ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 3, 7, 10, 49, 1000])
def test_equal_shares_never_exceed_the_whole(count):
    made = channels(
        policy(
            streams=[{}] * count,
            promise={"notion": "classical", "epsilon": 1, "plan": "constant"},
            clock={"end": "2026-01-02"},
        )
    )
    parts = [Fraction(c.plan.notion.epsilon) for c in made]
    assert 1 - Fraction(1, 10**9) < sum(parts) <= 1


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 1000), min_size=1, max_size=6), st.floats(0.1, 10))
def test_given_shares_never_exceed_the_whole(parts, epsilon):
    shares = [round(p / sum(parts), 6) for p in parts]
    if sum(map(Fraction, map(str, shares))) > 1 or 0 in shares:
        return
    made = channels(
        policy(streams=[{"share": s} for s in shares], promise={"notion": "w-event", "epsilon": epsilon, "w": 4})
    )
    assert sum(Fraction(c.plan.notion.epsilon) for c in made) <= Fraction(epsilon) * (1 + Fraction(1, 10**12))


PROMISES = [
    {"notion": "exponential", "epsilon": 1, "half_life": "1 day"},
    {"notion": "hyperbolic", "epsilon": 1, "beta": 0.05},
    {"notion": "gaussian-discount", "epsilon": 1, "delta": 1e-6, "half_life": "2 days"},
]
STREAMS = [
    [
        {"share": 0.5},
        {"share": 0.3, "step": "1 day"},
        {"share": 0.2, "step": "3 h", "delay": "1 h", "start": "2026-03-20"},
    ],
    [{"step": "1 week"}, {"delay": "1 day"}],
]


@pytest.mark.parametrize("streams", STREAMS, ids=["three streams", "two streams"])
@pytest.mark.parametrize("promise", PROMISES, ids=lambda p: p["notion"])
def test_the_account_admits_all_that_the_plans_give(promise, streams):
    """Over a change of the clock, with local days on half hours, delays and a late start: nothing is ever refused."""
    p = policy(promise=promise, clock={"start": "2026-03-16"}, streams=streams)
    account = Accountant(p.notion)
    now, releases = us("2026-04-20"), []
    for c in channels(p):
        last = c.newest(now)
        for loss, at in zip(c.losses(1, last), c.release_steps(1, last).tolist(), strict=True):
            s = c.plan.sensitivity
            releases.append(Release(at, loss, c.age, sensitivity=s, scale=s / loss, noise=c.plan.noise))
    account.admit(*sorted(releases, key=lambda r: r.step))
    assert 0.3 < account.used() <= 1


def test_a_w_event_promise_is_kept_with_delays():
    p = policy(
        promise={"notion": "w-event", "epsilon": 1, "w": "6 h"}, streams=[{}, {"delay": "3 h"}, {"start": "2026-01-02"}]
    )
    account = Accountant(p.notion)
    assert account.notion.w == 12
    releases = [
        Release(at, loss, c.age)
        for c in channels(p)
        for loss, at in zip(c.losses(1, 200), c.release_steps(1, 200).tolist(), strict=True)
    ]
    account.admit(*sorted((r for r in releases if r.step <= 200), key=lambda r: r.step))
    assert account.used() == pytest.approx(1, rel=1e-9)


@pytest.mark.parametrize("w", [1, 2, 3, 6])
def test_delays_under_w_event_differ_by_fewer_than_w_steps(w):
    """What is accepted is admitted over 3w steps: whichever stream stands first, starts first or pauses."""
    promise = {"notion": "w-event", "epsilon": 1, "w": w}
    for gap, common, turn in product(range(2 * w + 1), (0, 2), (False, True)):
        streams = [{"delay": f"{30 * common} min"}, {"delay": f"{30 * (common + gap)} min"}][:: -1 if turn else 1]
        if gap >= w:
            which = 0 if turn else 1
            at = rf"streams.{which}.delay: .*'s{which}' would publish {gap} steps after .*fewer than {w} steps"
            with pytest.raises(PolicyError, match=at):
                policy(promise=promise, streams=streams)
            continue
        p = policy(promise=promise, streams=streams)
        for starts in product((1, w, 2 * w), repeat=2):
            account = Accountant(p.notion)
            releases = [
                Release(k + c.age, c.losses(1, 1)[0], c.age)
                for c, start in zip(channels(p), starts, strict=True)
                for k in range(start, start + 3 * w)
            ]
            account.admit(*sorted(releases, key=lambda r: r.step))


@pytest.mark.parametrize("w", [1, 3, 6])
def test_a_difference_of_w_steps_would_be_stuck_for_ever(w):
    """The bound is not idle: with a difference of w an account that met the prompt stream alone never takes the late one."""
    account = Accountant(WEvent(1.0, w))
    for step in range(1, 3 * w + 3):
        account.admit(Release(step, 0.1 / w))
    for step in range(3 * w + 3, 6 * w + 6):
        account.admit(Release(step, 0.1 / w))
        assert account.headroom(step, age=w) == 0
        with pytest.raises(InvalidInput, match="forgotten"):
            account.admit(Release(step, 0.1 / w, w))


def test_delays_under_other_promises_are_free():
    assert [c.age for c in channels(policy(streams=[{}, {"delay": "60 days"}]))] == [0, 2880]
    policy(promise={"notion": "w-event", "epsilon": 1, "w": 2}, streams=[{"delay": "9 days"}, {"delay": "9 days"}])


@pytest.mark.parametrize("step", ["1 day", "1 week"])
@pytest.mark.parametrize("promise", [*PROMISES, {"notion": "w-event", "epsilon": 1, "w": 7}], ids=lambda p: p["notion"])
def test_a_day_that_never_was_costs_nobody_anything(promise, step):
    """Samoa had no 30 December 2011: a step of no length would be charged together with the next."""
    streams = [{"step": step}] if promise["notion"] != "w-event" else [{}]
    p = policy(promise=promise, clock={"step": "1 day", "start": "2011-11-28", "zone": "Pacific/Apia"}, streams=streams)
    (c,) = channels(p)
    account = Accountant(p.notion)
    at = c.release_steps(1, 10).tolist()
    assert {b - a for a, b in pairwise(at)} == {c.every}
    s = c.plan.sensitivity
    for loss, k in zip(c.losses(1, 10), at, strict=True):
        account.admit(Release(k, loss, sensitivity=s, scale=s / loss, noise=c.plan.noise))


def test_gaussian_noise_has_its_own_sensitivity(tmp_path):
    groups = {"names": ["a", "b", "c", "d"], "most_per_person": 2}
    promise = {"notion": "gaussian-discount", "epsilon": 1, "delta": 1e-6, "beta": 0.1}
    (c,) = channels(policy(promise=promise, streams=[{"groups": groups}]))
    assert (c.sensitivity.l1, c.plan.noise) == (4, "gaussian")
    assert c.plan.sensitivity == pytest.approx(2.0)
    (c,) = channels(policy(streams=[{"groups": groups}]))
    assert c.plan.sensitivity == 4


def test_what_costs_too_little_to_be_drawn_is_refused():
    with pytest.raises(PolicyError, match="next to no budget"):
        policy(promise={"notion": "exponential", "epsilon": 1e-13, "half_life": "1 day"})


# Weights ----------------------------------------------------------------------------------------------------------------


WEIGHTED = {"kind": "weighted sum", "unit": "kWh", "resolution": "1 kWh", "clip": [0, 5], "fold": "sum", "missing": 2,
            "weights": {"file": "homes.csv", "person": "who", "weight": "weight", "resolution": "0.2", "largest": 5}}  # fmt: skip


def test_who_is_missing_counts_with_their_own_weight_in_their_own_group(tmp_path):
    """a 2 and c 0.6 in the north, b −3 and d 9 (at most 5) in the south, in weights of 0.2; each is missing as 2 kWh."""
    data = parse_document(GOOD).data
    data["streams"][0] |= {"statistic": WEIGHTED, "post": []}
    (c,) = channels(Policy.from_dict(data, write_tables(tmp_path)))
    assert c.groups == ("north", "south")
    assert c.weights == {"a": 10, "b": -15, "c": 3, "d": 25}
    assert c.sized_at(1).offsets == (2 * (10 + 3), 2 * (-15 + 25))
    del data["streams"][0]["groups"]
    (c,) = channels(Policy.from_dict(data, tmp_path))
    assert c.sized_at(1).offsets == (2 * (10 - 15 + 3 + 25),)


def test_who_has_a_weight_and_no_group_counts_nowhere(tmp_path):
    data = parse_document(GOOD).data
    data["streams"][0] |= {"statistic": WEIGHTED, "post": []}
    data["streams"][0]["groups"]["table"]["file"] = "some.csv"
    (write_tables(tmp_path) / "some.csv").write_text("who,where\na,north\nd,south\n")
    (c,) = channels(Policy.from_dict(data, tmp_path))
    assert c.sized_at(1).offsets == (20, 50)


# Post-processing ------------------------------------------------------------------------------------------------------


def test_only_the_first_smoother_sees_independent_noise():
    post = [{"moving_average": 2}, {"truncate": [0, 5]}, {"moving_average": 3}, {"moving_average": 4}]
    (c,) = channels(policy(streams=[{"post": post}]))
    made = c.smoothers()
    assert [type(s) for s in made] == [MovingAverage, Truncate, MovingAverage, MovingAverage]
    assert [s.independent for s in made if isinstance(s, MovingAverage)] == [True, False, False]
    assert c.smoothers()[0] is not made[0]


def test_bounds_of_post_processing_are_in_the_unit(tmp_path):
    (c,) = channels(Policy.parse(change("[0, 20]", "[-1 Wh, 20 MWh]"), write_tables(tmp_path)))
    first = c.smoothers()[0]
    assert isinstance(first, Truncate)
    assert (first.low, first.high) == (-0.001, 20_000.0)
    assert math.isclose(first.low, -1e-3)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_everybody_may_be_a_group_of_their_own(tmp_path, ending):
    """One column of a public table then says who a person is and where they count."""
    table = pa.table({"who": ["a", "b"], "where": ["n", "s"]})
    path = tmp_path / f"homes.{ending}"
    (csv.write_csv if ending == "csv" else pq.write_table)(table, path)
    assert read_public_table(path, "who", "who") == {"a": "a", "b": "b"}
