"""Releases that cover several steps under w-event privacy, against enumerations: of windows, and of neighbouring streams."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halflife import Accountant, BudgetExceeded, InvalidInput, Release, WEvent
from halflife.audit.exact import worst_loss
from halflife.notions.gaussian_dp import gaussian_epsilon
from halflife.numerics.rounding import float_down, float_up, to_units


def part(r, w, end):
    """Which part of its sensitivity the window of w steps that ends here can move a release by, counted step by step."""
    common = sum(1 for t in range(end - w + 1, end + 1) if r.data_time - r.span < t <= r.data_time)
    return min(Fraction(1), common * Fraction(r.step_share))


def window(history, w, end):
    return sum(part(r, w, end) * Fraction(r.loss) for r in history)


spans = st.tuples(st.integers(1, 5), st.sampled_from([1.0, 0.5, 1 / 3, 0.21]))
moves = st.lists(st.tuples(st.integers(0, 3), st.floats(1e-6, 0.9), st.integers(0, 2), spans), max_size=12)


def make(step, loss, age, span, share):
    fits = span * share >= 1
    return Release(step, loss, age, span=span, step_sensitivity=share if fits else None)


@given(st.integers(1, 6), moves)
def test_the_account_equals_a_count_of_common_steps(w, moves):
    account, history, step, reach = Accountant(WEvent(1.0, w)), [], 1, 0
    for gap, loss, age, (span, share) in moves:
        step += gap
        wanted = make(step, loss, age, span, share)
        forgotten = account._state.forgotten
        room = account.headroom(step, age, span=span, step_share=wanted.step_share)
        if forgotten is not None and wanted.first_data_time - w < forgotten:
            with pytest.raises(InvalidInput, match="was forgotten"):
                account.admit(wanted)
            assert room == 0
            continue
        ends = range(wanted.first_data_time, wanted.data_time + w)
        exact = min((1 - window(history, w, e)) / part(wanted, w, e) for e in ends)
        assert Fraction(room) <= max(exact, 0) <= Fraction(room) + Fraction(1, 2**45)
        if room > 0.01:
            with pytest.raises(BudgetExceeded):
                account.admit(make(step, room * (1 + 1e-9), age, span, share))
        release = make(step, min(loss, room), age, span, share)
        account.admit(release)
        history.append(release)
        reach = max(reach, age + span - 1)
        for later in (0, 1, w, 2 * w):
            exact = max(window(history, w, e) for e in range(step + later - reach, step + later + 1))
            assert exact <= Fraction(account.risk(step + later)) <= exact + Fraction(1, 2**45)
        assert Accountant.from_json(account.to_json()).to_json() == account.to_json()
    assert all(window(history, w, e) <= 1 + Fraction(1, 10**12) for e in range(-15, step + w + 1))


@given(st.integers(1, 5), moves)
def test_no_order_of_spans_breaks_the_promise(w, moves):
    account, history, step = Accountant(WEvent(1.0, w)), [], 1
    for gap, loss, age, (span, share) in moves:
        step += gap
        release = make(step, loss, age, span, share)
        try:
            account.admit(release)
        except (BudgetExceeded, InvalidInput):
            continue
        history.append(release)
    assert all(window(history, w, e) <= 1 + Fraction(1, 10**12) for e in range(-15, step + w + 1))


@given(st.integers(1, 6), st.lists(st.tuples(st.integers(0, 3), st.floats(1e-6, 0.9), st.integers(0, 3)), max_size=25))
def test_one_step_is_charged_as_ever_to_the_last_bit(w, moves):
    """Exact sums of units, rounded once: what an account of releases about one step has always said."""
    account, history, step, oldest = Accountant(WEvent(1.0, w)), [], 1, 0
    for gap, loss, age in moves:
        step += gap
        release = Release(step, loss, age, span=1, step_sensitivity=1.0)
        time = release.data_time
        units = [(r.data_time, to_units(r.loss)) for r in history]

        def total(end, units=units):
            return sum(u for t, u in units if end - w < t <= end)

        room = account.headroom(step, age)
        if not (account._state.forgotten is not None and time - w < account._state.forgotten):
            assert room == max(0.0, min(float_down(to_units(1.0) - total(e)) for e in range(time, time + w)))
        if loss > room:
            with pytest.raises((BudgetExceeded, InvalidInput)):
                account.admit(release)
            continue
        account.admit(release)
        history.append(release)
        oldest = max(oldest, age)
        units = [(r.data_time, to_units(r.loss)) for r in history]
        assert account.risk(step) == max(float_up(total(e, units)) for e in range(step - oldest, step + 1))
    state = account.notion.dump(account._state)
    assert set(state) == {"charges", "reach", "forgotten"}
    assert state["reach"] == oldest


# Neighbouring streams -----------------------------------------------------------------------------------------------

STEPS = 6


def neighbours(w, values):
    """All pairs of streams of one person that differ within w consecutive steps."""
    streams = np.array(list(product(values, repeat=STEPS)), dtype=float)
    for begin in range(1 - w, STEPS):
        outside = [t for t in range(STEPS) if not begin <= t < begin + w]
        same = (streams[:, None, outside] == streams[None, :, outside]).all(axis=2)
        yield streams[np.nonzero(same)[0]], streams[np.nonzero(same)[1]]


def attained(w, values, queries, charge):
    """The worst over neighbours of the charge of all moves: |f(x) − f(x′)| of each query, over its scale."""
    worst = 0.0
    for one, two in neighbours(w, values):
        moves = np.array([np.abs(f(one) - f(two)) / scale for f, scale in queries])
        worst = max(worst, float(charge(moves).max()))
    return worst


def clipped_sum(first, last, most):
    return lambda x: np.minimum(x[:, first - 1 : last].sum(axis=1), most)


def described(first, last, most, scale, noise="laplace"):
    """A clipped sum of steps first … last as a release."""
    span, delta = last - first + 1, float(min(last - first + 1, most))
    return Release(
        STEPS, delta / scale, STEPS - last, sensitivity=delta, scale=scale, noise=noise, span=span, step_sensitivity=1.0
    )


SUMS = [
    ([(1, 6, 6, 4.0)], "one sum of all steps"),
    ([(1, 3, 3, 4.0), (4, 6, 3, 4.0)], "sums side by side"),
    ([(1, 3, 2, 4.0), (4, 6, 2, 5.0)], "clipped sums"),
    ([(1, 4, 4, 7.0), (2, 5, 2, 4.0), (3, 3, 1, 9.0), (4, 6, 3, 3.0)], "sums that share steps"),
    ([(1, 6, 1, 4.0), (2, 3, 2, 4.0)], "one step moves all of it"),
]


@pytest.mark.parametrize("w", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("sums", [s for s, _ in SUMS], ids=[name for _, name in SUMS])
def test_clipped_sums_lose_exactly_what_is_charged(sums, w):
    """Somebody who did nothing, or as much as counts at each step of the window: all sums move as far as they can at once."""
    queries = [(clipped_sum(first, last, most), scale) for first, last, most, scale in sums]
    releases = [described(*s) for s in sums]
    exact = attained(w, (0, 1), queries, lambda moves: moves.sum(axis=0))
    account = Accountant.replay(WEvent(1.0, w), releases)
    assert exact <= account.risk(STEPS) * (1 + 1e-15)
    assert account.risk(STEPS) == pytest.approx(exact, rel=1e-12)
    assert worst_loss(WEvent(1.0, w), releases) == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("w", [1, 2, 4])
@pytest.mark.parametrize("sums", [s for s, _ in SUMS], ids=[name for _, name in SUMS])
def test_gaussian_sums_lose_exactly_what_is_charged(sums, w):
    queries = [(clipped_sum(first, last, most), scale) for first, last, most, scale in sums]
    releases = [described(*s, "gaussian") for s in sums]
    mu = attained(w, (0, 1), queries, lambda moves: np.sqrt((moves**2).sum(axis=0)))
    risk = Accountant.replay(WEvent(1.0, w, 1e-5), releases).risk(STEPS)
    assert risk == pytest.approx(gaussian_epsilon(mu, 1e-5), rel=1e-9)


@settings(max_examples=40)
@given(st.data(), st.integers(1, 4))
def test_no_function_loses_more_than_is_charged(data, w):
    """Any functions of two values a step, each with the sensitivities that an enumeration of its own finds."""
    queries, releases = [], []
    for _ in range(data.draw(st.integers(1, 3))):
        first = data.draw(st.integers(1, STEPS))
        last = data.draw(st.integers(first, min(STEPS, first + 3)))
        table = np.array(data.draw(st.lists(st.integers(0, 7), min_size=2**4, max_size=2**4)), dtype=float)

        def f(x, first=first, last=last, table=table):
            return table[(x[:, first - 1 : last] @ 2.0 ** np.arange(last - first + 1)).astype(int)]

        inputs = np.array(list(product(range(2), repeat=STEPS)), dtype=float)
        seen = f(inputs)
        delta, one = float(seen.max() - seen.min()), attained(1, range(2), [(f, 1.0)], lambda m: m[0])
        if not delta:
            continue
        queries.append((f, 4.0))
        releases.append(
            Release(STEPS, delta / 4, STEPS - last, sensitivity=delta, span=last - first + 1, step_sensitivity=one)
        )
    if releases:
        exact = attained(w, range(2), queries, lambda moves: moves.sum(axis=0))
        assert exact <= Accountant.replay(WEvent(1.0, w), releases).risk(STEPS) * (1 + 1e-12)


def test_laplace_noise_with_a_delta_has_the_loss_of_the_smaller_move():
    """One Laplace release of loss ρ has ε(δ) = ρ + 2 ln(1 − δ): here a third, two thirds and all of it."""
    for w in (1, 2, 3):
        account = Accountant.replay(WEvent(1.0, w, 0.01), [Release(3, 1.5, span=3, step_sensitivity=1 / 3)])
        assert account.risk(3) == pytest.approx(0.5 * w + 2 * math.log1p(-0.01), rel=2e-3)
    mixed = [
        Release(6, 1.5, span=6, step_sensitivity=1 / 3),
        Release(6, 0.4),
        Release(6, 0.3, noise="gaussian", span=2),
    ]
    notion = WEvent(1.0, 2, 1e-3)
    assert Accountant.replay(notion, mixed).risk(6) == pytest.approx(worst_loss(notion, mixed), rel=5e-3)


def test_memory_is_bounded_with_spans():
    """Days over an account of hours: four times the stream, and no larger; and no release is ever out of reach."""
    sizes = []
    for days in (50, 100):
        account = Accountant(WEvent(1.0, 24))
        for hour in range(1, 24 * days + 1):
            account.admit(Release(hour, 0.5 / 24))
            if hour % 24 == 0:
                account.admit(Release(hour, 0.25, span=24))
        assert account.risk() == 1.0
        assert account.headroom(24 * days) == pytest.approx(0.25)
        assert account.headroom(24 * days, span=24) < 1e-15
        sizes.append(len(account.to_json()))
    assert sizes[1] == sizes[0]


def test_what_was_forgotten_is_no_longer_in_the_newest_window():
    """Of releases about one step the newest ones may be forgotten, if a release about several is newer by more than a window."""
    account = Accountant(WEvent(1.0, 1))
    account.admit(Release(1, 1.0))
    account.admit(Release(40, 0.5, span=2))
    account.admit(Release(40, 0.25))
    assert account._state.forgotten == 1
    assert account.risk(40) == account.risk(41) == 0.75
    account.admit(Release(60, 0.125))
    assert account._state.wide == ()
    assert account.risk(61) == Accountant.from_json(account.to_json()).risk(61) == 0.125


def test_a_longer_day_is_still_within_reach():
    """A day of 25 hours after days of 24, beside an account of hours whose window is a day."""
    account, hour = Accountant(WEvent(1.0, 24)), 0
    for length in (24, 24, 24, 23, 24, 25, 24, 28, 24):
        for _ in range(length):
            hour += 1
            account.admit(Release(hour, 0.01))
        account.admit(Release(hour, 0.1, span=length))


def test_what_reaches_back_beyond_what_is_remembered_is_refused():
    account = Accountant(WEvent(1.0, 3))
    for hour in range(1, 31):
        account.admit(Release(hour, 0.1))
    assert account.headroom(30, span=3) == account.headroom(30, span=1)
    assert account.headroom(30, span=4) == 0
    with pytest.raises(InvalidInput, match="its data time 27 lies 3 steps before the newest, 30, in a window whose"):
        account.admit(Release(30, 0.01, span=4))
    assert account.least_scale(30, 2.0, span=3) == pytest.approx(2 / 0.7)
    assert account.least_scale(30, 2.0, span=4) == math.inf
    account = Accountant(WEvent(1.0, 2))
    account.admit(Release(1, 0.75))
    assert [account.least_scale(4, 2.0, span=3, step_sensitivity=x) for x in (None, 2.0, 1.0)] == [8.0, 8.0, 4.0]


BAD_STATES = [
    [[1, 2, 1.0]],
    [[2, 2, 1.0, "0x1"]],
    [[1, 9, 1.0, "0x1"]],
    [[1, 3, 1.5, "0x1"]],
    [[1, 3, 0.0, "0x1"]],
    [[2, 4, 1.0, "0x1"], [1, 3, 1.0, "0x1"]],
    [[1, 3, 1.0, "0x1"], [1, 3, 1.0, "0x1"]],
    {},
]


@pytest.mark.parametrize("wide", BAD_STATES)
def test_a_changed_account_is_refused(wide):
    notion = WEvent(1.0, 2)
    good = {"charges": [], "reach": 4, "forgotten": None, "wide": [[1, 3, 1.0, "0x1"]]}
    assert notion.dump(notion.load(good)) == good
    with pytest.raises(InvalidInput):
        notion.load({**good, "wide": wide})
