"""When a plan may go on from a history of other losses: claims of `plans/continuing.py` against brute force over long tails."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halflife import Classical, ExponentialDiscount, GaussianDiscount, HyperbolicDiscount, WEvent
from halflife.numerics.search import largest
from halflife.plans.continuing import Lost, fits_windows, may_continue

AHEAD = 200
NOTIONS = [
    ExponentialDiscount(1.0, alpha=0.9),
    HyperbolicDiscount(1.0, beta=0.3),
    HyperbolicDiscount(1.0, beta=5.0),
    Classical(1.0),
]


def weigh(notion, ages):
    """The weight of a loss of these ages, from the definition."""
    if isinstance(notion, WEvent):
        return (ages < notion.w).astype(float)
    return notion.discount(ages.astype(float)) if hasattr(notion, "discount") else np.ones(len(ages))


def risks(notion, losses, first):
    """R(t) for t from `first` to the end: Σ g(t − j) l_j."""
    steps = np.arange(1, len(losses) + 1)
    return np.array([weigh(notion, t - steps[:t]) @ losses[:t] for t in range(first, len(losses) + 1)])


def plan_of(notion, n):
    return notion.plan().losses_of_releases(1, n)


@pytest.mark.parametrize("notion", NOTIONS, ids=repr)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_what_may_continue_keeps_the_promise(notion, data):
    """Histories that lost another part of the plan at each step, and more at some: if they may go on, no later risk is over ε."""
    n = data.draw(st.integers(2, 30))
    plan = plan_of(notion, n + AHEAD)
    shares = np.array(data.draw(st.lists(st.sampled_from([0.0, 0.5, 0.8, 1.0, 1.5, 3.0, 6.0]), min_size=n, max_size=n)))
    history, steps = plan[:n] * shares, np.arange(1, n + 1)
    goes_on = may_continue(notion, Lost(steps, history), Lost(steps, plan[:n]), at=n + 1)
    found = risks(notion, np.concatenate([history, plan[n:]]), n + 1)
    if goes_on:
        assert found.max() <= notion.epsilon * (1 + 1e-8)


@pytest.mark.parametrize("notion", NOTIONS, ids=repr)
def test_room_that_was_left_is_used_and_a_tenth_more_is_not(notion):
    """Half of the plan was used for twenty steps: how much one more loss may be is what brute force over the tail allows.

    Classical plans spend all of ε in the end, so there it is half of what twenty steps would have lost.
    """
    n = 20
    plan, steps = plan_of(notion, n + 600), np.arange(1, n + 1)

    def allows(extra):
        history = plan[:n] / 2
        history[-1] += extra
        return may_continue(notion, Lost(steps, history), Lost(steps, plan[:n]), at=n + 1)

    most = largest(allows, 0.0, 10.0, 1e-6)
    before, once = risks(notion, np.concatenate([plan[:n] / 2, plan[n:]]), n + 1), np.eye(n + 600)[n - 1]
    room = (1 - before) / risks(notion, once, n + 1)
    attained = plan[:n].sum() / 2 if isinstance(notion, Classical) else room.min()
    assert most <= attained * (1 + 1e-6)
    assert most >= 0.95 * attained


def test_gaussian_discounting_counts_squares():
    notion = GaussianDiscount(1.0, 1e-6, beta=0.5)
    losses = notion.plan().losses_of_releases(1, 30)
    steps = np.arange(1, 31)
    squares = losses**2
    more = squares.copy()
    more[-1] *= 1.1
    assert may_continue(notion, Lost(steps, squares), Lost(steps, squares), at=31)
    assert not may_continue(notion, Lost(steps, more), Lost(steps, squares), at=31)


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_windows_are_counted_as_by_brute_force(data):
    w = data.draw(st.integers(1, 6))
    past, coming = (data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=12)) for _ in range(2))
    losses = np.array([*past, *coming], dtype=float) / 10
    n = len(past)
    worst = max(losses[max(0, end - w + 1) : end + 1].sum() for end in range(n, len(losses)))
    steps = np.arange(1, len(losses) + 1)
    found = fits_windows(WEvent(1.0, w), Lost(steps[:n], losses[:n]), Lost(steps[n:], losses[n:]))
    assert found == (worst <= 1 + 1e-9)
