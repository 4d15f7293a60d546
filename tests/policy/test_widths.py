"""Streams of one promise whose steps are of different widths: spans, plans, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from halflife import Accountant
from halflife.notions import composition
from halflife.policy import PolicyError, channels
from policy.test_streams import policy, us

CHAIN = {"name": "markov-chain", "matrix": [[0.9, 0.1], [0.2, 0.8]]}
AGED = {"notion": "age-dependent", "epsilon": 1, "process": CHAIN}


def w_event(w, **more):
    return {"notion": "w-event", "epsilon": 1, "w": w, **more}


def admit_all(p, now):
    """Admit what every stream's plan gives, step by step, and return the account and the largest share in use."""
    account = Accountant(channels(p)[0].promise.notion)
    releases = [r for c in channels(p) for r in c.plan_releases(c.newest(now))]
    used = 0.0
    for r in sorted(releases, key=lambda r: r.step):
        account.admit(r)
        used = max(used, account.used())
    return account, used


def test_a_step_covers_all_of_the_clocks_steps_that_it_touches():
    hours = {"step": "1 h", "start": "2026-03-28"}
    (c,) = channels(policy(clock=hours, promise=w_event("1 day"), streams=[{"step": "1 day", "delay": "2 h"}]))
    assert c.spans(1, 3).tolist() == [24, 23, 24]
    assert [r.first_data_time for r in c.plan_releases(3)] == [1, 25, 48]
    assert [r.data_time for r in c.plan_releases(3)] == [24, 47, 71]
    (c,) = channels(policy(clock=hours, promise=w_event("1 day"), streams=[{"step": "3 h"}]))
    assert set(c.spans(1, 50).tolist()) == {3}
    (c,) = channels(policy(clock=hours, promise=w_event("1 day")))
    assert set(c.spans(1, 50).tolist()) == {1}
    (c,) = channels(policy(clock={"step": "1 day"}, promise=w_event(7), streams=[{"step": "1 week"}]))
    assert set(c.spans(1, 50).tolist()) == {7}


def test_a_day_that_begins_within_one_of_the_clocks_steps_touches_it():
    """Lord Howe Island moves by half an hour: on a clock of hours, two days then share a step."""
    clock = {"step": "1 h", "start": "2026-03-30", "zone": "Australia/Lord_Howe"}
    (c,) = channels(policy(clock=clock, promise=w_event("1 day"), streams=[{"step": "1 day"}]))
    first = [r.first_data_time for r in c.plan_releases(9)]
    last = [r.data_time for r in c.plan_releases(9)]
    assert first[6] == last[5] + 1 or first[7] == last[6]
    assert set(c.spans(1, 20).tolist()) == {24, 25}
    assert c.plan.request.span >= 25
    admit_all(policy(clock=clock, promise=w_event("1 day"), streams=[{"step": "1 day"}, {}]), us("2026-05-01"))


STREAMS = {
    "days": [{"step": "1 day"}],
    "weeks": [{"step": "1 week"}],
    "hours, three hours and days": [{}, {"step": "3 h"}, {"step": "1 day"}],
    "with delays": [{"delay": "2 h"}, {"step": "6 h", "delay": "1 h"}, {"step": "12 h"}],
    "days before hours": [{"step": "1 day"}, {}],
    "days that begin later": [{}, {"step": "1 day", "start": "2026-03-20"}],
}


@pytest.mark.parametrize("streams", STREAMS.values(), ids=STREAMS)
@pytest.mark.parametrize(
    "promise", [w_event("1 day"), w_event("30 h"), w_event("3 days"), AGED], ids=["1", "30", "3", "aged"]
)
def test_the_account_admits_all_that_the_plans_give(promise, streams):
    """Over both changes of the clock: nothing is refused, and little is left over."""
    p = policy(promise=promise, clock={"step": "1 h", "start": "2026-03-16"}, streams=streams)
    _, used = admit_all(p, us("2026-04-10"))
    alone = len(streams) == 1
    assert (0.95 if alone and promise is not AGED else 0.3) < used <= 1


@pytest.mark.parametrize(
    "zone", ["Europe/London", "America/St_Johns", "Australia/Lord_Howe", "Antarctica/Troll", "UTC"]
)
@pytest.mark.parametrize("step", ["1 day", "2 days", "1 week"])
@pytest.mark.parametrize("w", [1, 2, 23, 24, 25, 26, 47, 48, 49, 168, 169, 170])
def test_a_window_touches_as_many_days_as_are_planned_for(zone, step, w):
    """Counted on the calendar, window by window, for two years; and never for more where clocks change by steps of the clock."""
    p = policy(clock={"step": "1 h", "start": "2026-01-01", "zone": zone}, promise=w_event(w), streams=[{"step": step}])
    (c,) = channels(p)
    n = 700 // (c.steps.width // (24 * 3600 * 10**6))
    last = c.release_steps(1, n) - c.age
    first = last - c.spans(1, n) + 1
    touched = np.searchsorted(first, last + w - 1, side="right") - np.arange(n)
    planned = c.plan.facts["together"]
    worst = int(touched[: n // 2].max())
    assert worst <= planned <= worst + (0 if zone == "UTC" or (zone == "Europe/London" and w > 1) else 1)
    assert int(c.spans(1, n).max()) <= c.plan.request.span


def test_what_is_not_worked_out_is_refused():
    """AR(1), an almost-periodic promise, and a window too short to remember where a wide step began."""
    mean = {"kind": "mean", "unit": "kWh", "resolution": "1 Wh", "clip": [0, "1 kWh"], "fold": "mean", "missing": 0}
    process = {"name": "autoregressive", "rho": 0.9, "sigma": 0.02, "span": 0.02}
    autoregressive = {"notion": "age-dependent", "epsilon": 1, "process": process}
    with pytest.raises(PolicyError, match=r"streams.0.step: it is not worked out what a step that covers several"):
        policy(promise=autoregressive, streams=[{"step": "1 day", "statistic": mean}])
    with pytest.raises(PolicyError, match=r"streams.1.step: the oldest data .* 's1' is 47 steps .* less than 24;"):
        policy(promise=w_event("12 h"), streams=[{}, {"step": "1 day"}])
    policy(promise=w_event("12 h"), streams=[{"step": "1 day"}, {"step": "1 day"}])
    policy(promise=w_event("1 day"), streams=[{}, {"step": "1 day"}])


@pytest.mark.parametrize("streams", [[{"step": "1 day"}], [{"step": "1 day"}, {"step": "1 day", "delay": "6 h"}]])
def test_days_alone_are_planned_a_day_apart(streams):
    """A chain that has forgotten within a day: each release may lose all, not a twenty-fourth of it."""
    clock = {"step": "1 h", "start": "2026-03-16"}
    daily, hourly = (
        channels(policy(promise=AGED, clock=clock, streams=s))[0].plan.facts["loss"] * len(s) for s in (streams, [{}])
    )
    assert daily > 2 * hourly
    admit_all(policy(promise=AGED, clock=clock, streams=streams), us("2026-04-20"))


def test_the_end_of_a_wide_stream_is_the_end_of_its_plan():
    clock = {"step": "1 h", "start": "2026-03-16", "end": "2026-04-13"}
    for promise in (w_event("1 day"), AGED):
        (c,) = channels(policy(promise=promise, clock=clock, streams=[{"step": "1 week"}]))
        assert c.last == 4
        assert len(c.plan_releases(4)) == 4
        assert c.published_at(4) == us("2026-04-13")


def test_streams_that_share_a_delta_have_noise_of_one_family(monkeypatch):
    """Days alone would have Laplace noise and hours Gaussian; a mixture has no closed form. Before: a minute to load."""
    composed, distribution = [], composition._distribution
    monkeypatch.setattr(composition, "_distribution", lambda charge: composed.append(charge) or distribution(charge))
    promise = w_event("2 days", delta=1e-6)
    alone = [policy(clock={"step": "1 h"}, promise=promise, streams=[s]) for s in ({}, {"step": "1 day"})]
    assert [channels(p)[0].plan.noise for p in alone] == ["gaussian", "laplace"]
    both = policy(clock={"step": "1 h"}, promise=promise, streams=[{}, {"step": "1 day"}])
    assert [c.plan.noise for c in channels(both)] == ["gaussian", "gaussian"]
    begun = both.model_copy()
    begun._begun = {"version": 1}  # by a ledger that remembers no family: each plan chooses by its losses
    assert [c.plan.noise for c in channels(begun)] == ["gaussian", "gaussian"]
    _, used = admit_all(both, us("2026-02-01"))
    assert 0.6 < used <= 1
    assert not any(charge.gaussian for charge in composed)


@pytest.mark.parametrize(
    ("w", "streams"),
    [
        (4, [{}, {"step": "2 h"}]),
        (1, [{}, {"start": "2026-01-01T10:00"}]),
        (6, [{"step": "2 h"}, {}]),
        (4, [{}, {"delay": "1 h", "start": "2026-01-01T07:00"}]),
        (4, [{}, {}, {"step": "3 h"}]),
    ],
)
@pytest.mark.parametrize("delta", [1e-6, 1e-9])
def test_streams_that_meet_in_a_window_only_later_are_admitted_for_ever(w, streams, delta):
    """Before: the first releases of each were tried, and publishing stopped for ever once all met (risk 1.000008 of 1)."""
    p = policy(clock={"step": "1 h"}, promise=w_event(w, delta=delta), streams=streams)
    _, used = admit_all(p, us("2026-01-04"))
    assert used <= 1
