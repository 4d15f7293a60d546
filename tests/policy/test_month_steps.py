"""Policies in steps of months: parameters as times, delays, streams beside narrower ones, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from halflife import Accountant
from halflife.local_time import from_us
from halflife.policy import PolicyError, channels
from policy.test_streams import policy, us
from policy.test_widths import AGED, admit_all, w_event

MONTHS = {"step": "1 month", "start": "2026-01-01"}
FADING = {"notion": "exponential", "epsilon": 1, "half_life": "6 months"}
HABITS = {"notion": "almost-periodic", "epsilon": 1, "strong": True}


def month_policy(**changes):
    return policy(**{"promise": w_event("1 year"), **changes, "clock": MONTHS | changes.get("clock", {})})


def ends(c, count):
    return [from_us(c.published_at(k), "Europe/London").isoformat()[:16] for k in range(1, count + 1)]


@pytest.mark.parametrize(
    ("step", "promise", "key", "value"),
    [
        ("1 month", w_event("1 year"), "w", 12),
        ("1 month", w_event("18 months"), "w", 18),
        ("3 months", w_event("1 year"), "w", 4),
        ("1 year", w_event("2 years"), "w", 2),
        ("1 month", w_event(7), "w", 7),
        ("1 month", FADING, "half_life", 6),
        ("1 year", FADING, "half_life", 0.5),
        ("1 month", {**HABITS, "period": "1 year"}, "period", 12),
    ],
)
def test_parameters_in_months_and_years_are_steps_of_months(step, promise, key, value):
    (c,) = channels(month_policy(clock={"step": step}, promise=promise))
    assert getattr(c.promise.notion, key) == pytest.approx(value)
    assert c.steps.months == c.account.months > 0


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"promise": w_event("30 days")}, r"promise.w: 30 days is no fixed number of steps of 1 month.*; 3 months are as many"),
        ({"promise": w_event("1 week")}, r"promise.w: 1 week .* 28 to 31 days: write months or years; 2 months are as many as"),
        ({"promise": w_event("1 month"), "clock": {"step": "3 months"}}, r"promise.w: 1 month is no whole number of steps of 3"),
        ({"promise": {**FADING, "half_life": "30 days"}}, r"promise.half_life: 30 days is no fixed number"),
        ({"promise": {**HABITS, "period": "1 day"}}, r"promise.period: 1 day is no fixed number"),
        ({"promise": w_event("1 month"), "clock": {"step": "1 day"}}, r"promise.w: 1 month is 28 to 31 days.*such as 31 days"),
        ({"clock": {"start": "2026-01-31"}}, r"clock.start: a step of 1 month starts at midnight on the first.*2026-02-01"),
        ({"clock": {"end": "2026-03-15"}}, r"clock.end: the end must be whole steps of 1 month after the start"),
        ({"clock": {"step": "0.5 months"}}, r"clock.step: '0.5 months' .* whole months"),
        ({"clock": {"step": "11 years"}}, r"clock.step: '11 years' .* ten years"),
        ({"streams": [{"delay": "45 days"}]}, r"streams.0.delay: 45 days is no fixed number of steps of 1 month"),
        ({"streams": [{"delay": "1 month"}], "clock": {"step": "3 months"}}, r"streams.0.delay: 1 month is no whole number of s"),
        ({"streams": [{"step": "1 day"}]}, r"streams.0.step: a stream's steps must be whole multiples of the clock's step, 1 m"),
        ({"streams": [{"step": "2 months"}], "clock": {"step": "3 months"}}, r"streams.0.step: a stream's steps must be whole"),
        ({"streams": [{"step": "3 months", "start": "2026-02-15"}]}, r"streams.0.start: a step of 3 months starts"),
        ({"streams": [{"step": "1 month"}], "clock": {"step": "1 week"}, "promise": w_event(4)}, r"streams.0.step: .* 1 week"),
        ({"streams": [{"step": "1 month"}], "clock": {"step": "7 h"}, "promise": w_event(4)}, r"streams.0.step: .* 7 h"),
        ({"streams": [{"step": "1 month"}, {}], "clock": {"step": "1 day"}, "promise": w_event(7)}, r"streams.0.step: the old"),
        ({"streams": [{"step": "1 month"}], "clock": {"step": "1 day"}, "promise": {**HABITS, "period": 7}}, "not worked out"),
        (
            {"promise": {"notion": "swellfish", "neighbours": "one-event", "specifications": {"households": {}, "readings": 1}}},
            r"clock.step: it is not worked out how far an event moves steps of months",
        ),
    ],
)  # fmt: skip
def test_what_is_no_number_of_months_or_not_worked_out_is_refused(changes, said):
    with pytest.raises(PolicyError, match=said):
        month_policy(**changes)


def test_delays_are_whole_months_or_shorter_than_any():
    plain, days, month = channels(month_policy(streams=[{}, {"delay": "5 days"}, {"delay": "1 month"}]))
    assert [(c.age, c.wait // 86_400_000_000) for c in (plain, days, month)] == [(0, 0), (0, 5), (1, 0)]
    assert ends(plain, 3) == ["2026-02-01T00:00", "2026-03-01T00:00", "2026-04-01T00:00"]
    assert ends(days, 3) == ["2026-02-06T00:00", "2026-03-06T00:00", "2026-04-06T00:00"]
    assert ends(month, 3) == ["2026-03-01T00:00", "2026-04-01T00:00", "2026-05-01T00:00"]
    assert [month.newest(us(t)) for t in ("2026-02-28T23:59", "2026-03-01", "2027-01-01")] == [0, 1, 11]


def test_months_on_a_clock_of_months_cover_as_many_steps_each():
    clock = {"step": "1 month", "start": "2026-01-01", "end": "2027-02-01"}
    quarters = {"step": "3 months", "start": "2026-02-01", "delay": "1 month"}
    one, three = channels(month_policy(clock=clock, streams=[{}, quarters]))
    assert (one.every, one.widest, three.every, three.widest) == (1, 1, 3, 3)
    assert three.release_steps(1, 4).tolist() == [5, 8, 11, 14]
    assert set(three.spans(1, 4).tolist()) == {3}
    assert (one.last, three.last) == (13, 4)


@pytest.mark.diagonal
@pytest.mark.parametrize("zone", ["Europe/London", "UTC", "Pacific/Apia", "Australia/Lord_Howe"])
@pytest.mark.parametrize(("step", "months"), [("1 day", 1), ("1 day", 3), ("1 h", 1)])
def test_months_on_a_finer_clock_cover_the_days_that_they_have(zone, step, months):
    """Counted on the calendar, month by month, for twenty years; the plan allows for the widest and the nearest."""
    p = policy(
        clock={"step": step, "start": "2010-01-01", "zone": zone},
        promise=w_event(400),
        streams=[{"step": f"{months} months"}],
    )
    (c,) = channels(p)
    n, spans = 240 // months, c.spans(1, 240 // months)
    apart = np.diff(c.release_steps(1, n))
    assert c.every <= apart.min()
    assert spans.max() <= c.widest <= spans.max() + (step == "1 h") * (25 if zone == "Pacific/Apia" else 2)
    if step == "1 day":
        assert spans[:3].tolist() == {1: [31, 28, 31], 3: [90, 91, 92]}[months]
        assert spans.sum() + (zone == "Pacific/Apia") == 7305
        assert apart.tolist() == spans[1:].tolist()


@pytest.mark.parametrize("w", [1, 7, 28, 29, 30, 31, 32, 60, 61, 89, 100, 365])
@pytest.mark.parametrize("step", ["1 month", "3 months"])
def test_no_window_of_days_touches_more_months_than_are_planned_for(w, step):
    p = policy(clock={"step": "1 day", "start": "2026-01-01"}, promise=w_event(w), streams=[{"step": step}])
    (c,) = channels(p)
    n = 120
    last = c.release_steps(1, n)
    first = last - c.spans(1, n) + 1
    worst = int((np.searchsorted(first, last + w - 1, side="right") - np.arange(n))[: n // 2].max())
    planned = c.plan.facts["together"]
    assert worst <= planned <= worst + (step == "3 months")


@pytest.mark.parametrize(
    "promise", [w_event(99), {**FADING, "half_life": "90 days"}, {"notion": "classical", "epsilon": 1, "plan": "constant"}, AGED],
    ids=["w-event", "exponential", "classical", "aged"],
)  # fmt: skip
def test_the_account_admits_days_and_months_together(promise):
    p = policy(
        promise=promise, clock={"step": "1 day", "start": "2026-01-01", "end": "2027-01-01"},
        streams=[{}, {"step": "1 month"}, {"step": "3 months", "delay": "2 days"}],
    )  # fmt: skip
    _, used = admit_all(p, us("2027-02-01"))
    assert 0.3 < used <= 1


@pytest.mark.parametrize("promise", [w_event("1 year"), FADING, {**HABITS, "period": "1 year"}, AGED])
def test_the_account_admits_months_for_ever(promise):
    p = month_policy(promise=promise)
    (c,) = channels(p)
    account = Accountant(c.promise.notion)
    for r in c.plan_releases(60):
        account.admit(r)
    assert account.used() <= 1


def test_january_has_the_same_noise_every_year_of_a_period():
    (c,) = channels(month_policy(promise={**HABITS, "period": "1 year"}))
    assert c.promise.notion.clock is None
    assert [c.promise.notion.phase(k) for k in (1, 12, 13, 25)] == [0, 11, 0, 0]


def test_a_process_fitted_on_other_steps_is_refused():
    process = {
        "name": "markov-chain",
        "matrix": [[0.9, 0.1], [0.2, 0.8]],
        "fitted": {"step": "30 min", "whose": "public"},
    }
    with pytest.raises(PolicyError, match="fitted on steps of 30 min, and the clock's are 1 month"):
        month_policy(promise={"notion": "age-dependent", "epsilon": 1, "process": process})
