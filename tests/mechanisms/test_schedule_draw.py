"""Losses that are fixed beforehand, settled in arrays: held to the real account."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from halflife import Accountant, BudgetExceeded, InvalidInput, Release, SimulatedDraw, WEvent
from halflife.mechanisms import LaneNoise, ScheduleDraw
from halflife.mechanisms.binary_tree import BinaryTree
from halflife.mechanisms.budget_absorption import BudgetAbsorption
from halflife.mechanisms.schedule_draw import largest_window
from halflife.release import History


@st.composite
def histories(draw):
    """Releases about 1 to 12 steps up to their own; each step moves a value by all of Δ, an equal part, or somewhat more."""
    found = []
    for step in range(1, draw(st.integers(2, 30))):
        for _ in range(draw(st.integers(0, 2))):
            span = draw(st.integers(1, min(step, 12)))
            share = draw(st.sampled_from([1.0, 1 / span, min(1.0, 1.5 / span), min(1.0, 2 / span)]))
            one = None if span == 1 or share == 1 else share
            found.append(Release(step, draw(st.sampled_from([0.01, 0.1, 0.37])), span=span, step_sensitivity=one))
    return found


@given(histories(), st.integers(1, 9))
def test_the_worst_window_is_that_of_the_real_account(history, w):
    account, worst = Accountant(WEvent(1.0, w, reach=60)), 0.0
    for step, releases in History(history).by_step():
        account.record(*releases)
        worst = max(worst, account.exposure(step).peak)
    assert worst * (1 - 1e-15) <= largest_window(history, w) <= worst * (1 + 1e-12)


@example([Release(2, 0.37, span=2, step_sensitivity=0.75)], 1)
@given(histories(), st.integers(1, 9))
def test_the_worst_window_is_never_rounded_down(history, w):
    worst = Fraction(0)
    for begin in range(-20, 31):
        inside = ((r, min(r.data_time, begin + w - 1) - max(r.first_data_time, begin) + 1) for r in history)
        parts = (min(1, max(0, j) * Fraction(r.step_share)) * Fraction(r.loss) for r, j in inside)
        worst = max(worst, sum(parts, Fraction(0)))
    assert worst <= Fraction(largest_window(history, w)) <= worst * Fraction(1 + 1e-12)


@pytest.mark.parametrize("w", [1, 3, 8])
def test_a_tree_goes_the_way_of_a_real_account(w):
    notion, steps = WEvent(1.0, w), 60
    draw, real = (
        ScheduleDraw(notion, LaneNoise(1, lanes=2), 2),
        SimulatedDraw([Accountant(notion)], LaneNoise(1, lanes=2), 2),
    )
    one, other = BinaryTree(notion, horizon=steps), BinaryTree(notion, horizon=steps)
    history = []
    for step in range(1, steps + 1):
        truth = np.full(2, float(step))
        assert np.array_equal(draw.run(one, step, truth), real.run(other, step, truth))
        history += real.releases
    assert [(r.step, r.loss, r.span, r.step_share) for r in draw.releases] == [
        (r.step, r.loss, r.span, r.step_share) for r in history
    ]
    assert draw.settle() == pytest.approx(1.0, rel=1e-12)


def test_more_than_epsilon_is_refused_when_settled():
    draw = ScheduleDraw(WEvent(1.0, 2), LaneNoise(1, lanes=1), 1)
    for step in (1, 2):
        with draw.step(step) as d:
            d(None, 1.0, loss=0.55)
    with pytest.raises(BudgetExceeded, match=r"some window of 2 steps loses 1\.1, above the promised 1"):
        draw.settle()


def test_it_refuses_what_it_cannot_settle():
    notion = WEvent(1.0, 2)
    draw = ScheduleDraw(notion, LaneNoise(1, lanes=1), 1)
    with pytest.raises(InvalidInput, match="drawn inside a step"):
        draw(None, 1.0, loss=0.1)
    with draw.step(1) as d:
        for wrong in ({"scale": 1.0}, {"loss": 0.1, "noise": "gaussian"}, {"loss": 0.1, "age": 1}, {"loss": np.nan}):
            with pytest.raises(InvalidInput):
                d(None, 1.0, **wrong)
        with pytest.raises(InvalidInput, match="do not ask what is left"):
            d.headroom()
    with pytest.raises(InvalidInput, match="steps ascend"), draw.step(1):
        pass
    with pytest.raises(InvalidInput, match="chooses its losses from outputs"):
        draw.run(BudgetAbsorption(notion), 2, np.zeros(1))
    with pytest.raises(InvalidInput, match="with delta 0"):
        ScheduleDraw(WEvent(1.0, 2, 1e-6), LaneNoise(1, lanes=1), 1)
