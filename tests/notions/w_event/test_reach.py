"""A reach keeps older data times open: releases about them are charged to the windows that they lie in, as by brute force."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import halflife as hl
from halflife.errors import InvalidInput


def worst_window(releases, w, ends):
    return max(sum(r.loss for r in releases if e - w < r.data_time <= e) for e in ends)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_whatever_comes_late_no_window_of_data_passes_epsilon(data):
    """Headroom is what the fullest window of data with the release has left, and the risk that of the fullest so far back."""
    w, reach = data.draw(st.integers(1, 5)), data.draw(st.integers(0, 12))
    account, admitted = hl.Accountant(hl.WEvent(1.0, w, reach=reach)), []
    for step in range(1, 17):
        loss, age = data.draw(st.sampled_from([0.1, 0.2, 0.4])), min(data.draw(st.integers(0, reach)), step - 1)
        for release in (hl.Release(step, 0.5 / w), hl.Release(step, loss, age)):
            fullest = worst_window([*admitted, release], w, range(release.data_time, release.data_time + w))
            room = account.headroom(step, release.age)
            assert room <= release.loss - (fullest - 1) + 1e-9
            if fullest <= 1:
                assert room >= release.loss * (1 - 1e-9)
            if room >= release.loss:
                account.admit(release)
                admitted.append(release)
        ends = range(max(1, step - reach), step + 1)
        assert account.risk(step) == pytest.approx(worst_window(admitted, w, ends))


def test_as_far_as_it_reaches_and_no_further():
    account = hl.Accountant(hl.WEvent(1.0, 4, reach=10))
    for step in range(1, 41):
        account.admit(hl.Release(step, 0.1))
    assert account.headroom(40, age=10) == pytest.approx(0.6)
    with pytest.raises(InvalidInput, match="forgotten"):
        account.copy().admit(hl.Release(40, 0.01, 30))
    again = hl.Accountant.from_json(account.to_json())
    assert again.headroom(40, age=10) == account.headroom(40, age=10)
    assert again.notion.reach == 10


def test_memory_is_bounded_by_window_and_reach():
    account = hl.Accountant(hl.WEvent(1.0, 4, reach=10))
    sizes = []
    for step in range(1, 200):
        account.admit(hl.Release(step, 0.1))
        sizes.append(len(account.to_json()))
    assert max(sizes[50:]) < 1.1 * sizes[50]


def test_without_it_nothing_is_told_of_it():
    assert hl.WEvent(1.0, 4).to_facts() == {"name": "w-event", "epsilon": 1.0, "w": 4}
    assert "reach" not in hl.WEvent(1.0, 4).reference()
    with pytest.raises(InvalidInput, match="reach"):
        hl.WEvent(1.0, 4, reach=-1)
    with pytest.raises(InvalidInput, match="100,000"):
        hl.WEvent(1.0, 4, reach=100_001)
