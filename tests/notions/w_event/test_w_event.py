"""w-event accounts against a brute force over every window of data times."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halflife import Accountant, BudgetExceeded, InvalidInput, Release, WEvent


def windows(history, w, ends):
    """Σ of losses over each window of w data times that ends in `ends`, exactly."""
    return [sum(Fraction(r.loss) for r in history if e - w < r.data_time <= e) for e in ends]


@given(st.integers(1, 6), st.lists(st.tuples(st.integers(0, 3), st.floats(1e-6, 0.9), st.integers(0, 3)), max_size=25))
def test_the_account_equals_the_brute_force(w, moves):
    """Holds Definitions 5 and 6, Theorem 2."""
    account, history, step, largest_age = Accountant(WEvent(1.0, w)), [], 1, 0
    for gap, share, age in moves:
        step += gap
        forgotten = account._state.forgotten
        if forgotten is not None and step - age - w < forgotten:
            with pytest.raises(InvalidInput, match="was forgotten"):
                account.admit(Release(step, 0.01, age))
            assert account.headroom(step, age) == 0
            continue
        room = account.headroom(step, age)
        time = step - age
        exact_room = 1 - max(windows(history, w, range(time, time + w)))
        assert Fraction(room) <= exact_room <= Fraction(room) + Fraction(1, 2**50)
        release = Release(step, share if share < room else room, age)
        account.admit(release)
        history.append(release)
        largest_age = max(largest_age, age)
        for later in (0, 1, w, 2 * w):
            ends = range(step + later - largest_age, step + later + 1)
            exact = max(windows(history, w, ends))
            assert exact <= Fraction(account.risk(step + later)) <= exact + Fraction(1, 2**50)
    assert all(x <= 1 + Fraction(1, 10**12) for x in windows(history, w, range(-10, step + w + 1)))


def test_without_delay_the_risk_is_the_rolling_sum():
    account = Accountant(WEvent(1.0, 3))
    losses = [0.5, 0.25, 0.125, 0.5, 0.25]
    for k, loss in enumerate(losses, start=1):
        account.admit(Release(k, loss))
        assert account.risk(k) == sum(losses[max(0, k - 3) : k])
    assert [account.risk(k) for k in (6, 7, 8)] == [0.75, 0.25, 0.0]


def test_a_window_of_one_step_forgets_at_once():
    account = Accountant(WEvent(0.5, 1))
    for step in range(1, 100):
        account.admit(Release(step, 0.5))
    with pytest.raises(BudgetExceeded):
        account.admit(Release(99, 0.01))


def test_old_data_is_charged_to_its_own_time():
    account = Accountant(WEvent(1.0, 4))
    account.admit(Release(10, 0.75))
    assert account.headroom(11, age=0) == 0.25
    assert account.headroom(14, age=0) == 1.0
    assert account.headroom(14, age=3) == 0.25
    assert account.headroom(14, age=4) == 0.25
    account.admit(Release(14, 0.25, 4))
    assert account.risk(14) == 1.0
    for step in range(15, 30):
        account.admit(Release(step, 0.1))
    with pytest.raises(
        InvalidInput, match="its data time 15 lies 14 steps before the newest, 29, in a window whose beginning"
    ):
        account.admit(Release(29, 0.01, 14))


def test_releases_of_one_step_about_different_times_are_each_checked():
    """A charge must not be forgotten before it was checked; and a later one never lowers the risk of its step."""
    with pytest.raises(BudgetExceeded):
        Accountant(WEvent(1.0, 2)).admit(Release(11, 5.0, 10), Release(11, 0.1))
    account = Accountant(WEvent(1.0, 2))
    account.admit(Release(11, 1.0, 10))
    account.admit(Release(11, 0.1))
    assert account.risk(11) == 1.0
    assert Accountant.replay(WEvent(1.0, 2), [Release(11, 5.0, 10), Release(11, 0.1)]).used() == 5.0


@given(st.integers(1, 4), st.lists(st.tuples(st.integers(0, 3), st.floats(0.01, 0.9), st.integers(0, 9)), max_size=25))
def test_no_order_of_ages_breaks_the_promise(w, moves):
    account, history, step = Accountant(WEvent(1.0, w)), [], 1
    for gap, loss, age in moves:
        step += gap
        try:
            account.admit(Release(step, loss, age))
        except (BudgetExceeded, InvalidInput):
            continue
        history.append(Release(step, loss, age))
    assert all(x <= 1 + Fraction(1, 10**12) for x in windows(history, w, range(-10, step + w + 1)))


def test_nothing_fits_where_the_account_has_forgotten():
    account = Accountant(WEvent(1.0, 4))
    for step in range(1, 31):
        account.admit(Release(step, 0.1))
    assert account.headroom(30, age=3) > 0
    assert account.headroom(30, age=8) == 0
    assert account.least_scale(30, 1.0, age=8) == float("inf")


def test_a_restored_account_remembers_its_delays():
    account = Accountant(WEvent(1.0, 3))
    account.admit(Release(10, 0.5, 6))
    restored = Accountant.from_json(account.to_json())
    assert restored.risk(10) == account.risk(10) == 0.5
    assert restored.to_json() == account.to_json()
