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
    account, history, step, largest_age = Accountant(WEvent(1.0, w)), [], 1, 0
    for gap, share, age in moves:
        step += gap
        newest = max((r.data_time for r in history), default=step - age)
        if step - age <= newest - w:
            with pytest.raises(InvalidInput, match="before the newest"):
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
            # windows that lie wholly before what an account keeps were settled when they were admitted
            kept = [e for e in ends if e >= max(r.data_time for r in history) - w + 1]
            exact = max(windows(history, w, kept)) if kept else 0
            assert Fraction(account.risk(step + later)) >= exact
            assert account.risk(step + later) <= 1 + 1e-12
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
    with pytest.raises(InvalidInput, match="lies 4 steps before the newest, 10; under w = 4 it may lie at most 3 back"):
        account.admit(Release(14, 0.01, 8))


def test_nothing_fits_where_the_account_has_forgotten():
    account = Accountant(WEvent(1.0, 4))
    account.admit(Release(10, 0.1))
    assert account.headroom(10, age=3) > 0
    assert account.headroom(10, age=4) == 0
    assert account.least_scale(10, 1.0, age=4) == float("inf")


def test_a_restored_account_remembers_its_delays():
    account = Accountant(WEvent(1.0, 3))
    account.admit(Release(10, 0.5, 6))
    restored = Accountant.from_json(account.to_json())
    assert restored.risk(10) == account.risk(10) == 0.5
    assert restored.to_json() == account.to_json()
