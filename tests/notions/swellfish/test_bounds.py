"""The worst secret under all-events, found by bounds: against what all secrets cost, for histories of every kind."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halflife import Secret, Specification, Specifications, Swellfish
from halflife.accountant import Accountant
from halflife.notions.swellfish import bounds, live
from halflife.notions.swellfish.judge import Judge
from halflife.notions.swellfish.losses import MOST_NOISE, worst_costs
from halflife.notions.swellfish.memory import SwellfishState, Worst, remember

NOISES = ("laplace", "gaussian")
EPSILON = st.sampled_from([0.1, 0.1, 0.3, 1.0])


@st.composite
def households(draw, most=4, last=16):
    """Up to three households; some of them alike, so that secrets tie."""
    many = []
    for _ in range(draw(st.integers(1, 3))):
        held = set()
        for _ in range(draw(st.integers(1, most))):
            duration, start = draw(st.integers(1, 5)), draw(st.integers(-4, last - 4))
            end = start + duration - 1 + draw(st.integers(0, 7))
            held.add(Secret(draw(st.sampled_from([0.1, 1.0, 1 / 3])), duration, start, end, draw(EPSILON)))
        many.append(held)
    if draw(st.booleans()):
        many.append(many[0])
    return Specifications([Specification(held, f"h{i}") for i, held in enumerate(many)])


X = st.sampled_from([0.125, 1.0, 1 / 3, 7.0, 1e-7, 1e6])
MOVES = st.lists(st.tuples(st.sampled_from([0, 1, 1, 1, 2, 5, -3]), X, st.booleans()), min_size=1, max_size=14)


def worst_of_all(judge: Judge, state: SwellfishState, time: int) -> Worst:
    """The worst secret as it was found before: all secrets relevant at a step, each by all placements of all events."""
    s, worst = judge.specifications, state.worst
    rows = np.flatnonzero((s.start <= time) & (time <= s.end))
    if not len(rows):
        return worst
    costs = worst_costs(s, np.array(state.x), state.first, "all-events", judge.noise)[rows]
    shares = costs / judge.limits[rows]
    i = int(np.argmax(shares))
    return Worst(float(shares[i]), float(costs[i]), float(s.epsilon[rows[i]])) if shares[i] > worst.share else worst


def admit(judge: Judge, state: SwellfishState, time: int, x: float) -> SwellfishState:
    after = remember(state, time, x, 500)
    return after._replace(worst=judge.worst(after, time))


@given(households(), MOVES, st.sampled_from(NOISES))
@settings(max_examples=300)
def test_the_worst_secret_is_that_of_looking_at_all_to_the_last_digit(many, moves, noise):
    """In order and with gaps, twice about a step, about old data, tried and given up, and for two accounts in turn."""
    judge = Judge(many, "all-events", 1e-6 if noise == "gaussian" else 0.0, noise)
    start = SwellfishState(0, (), Worst(epsilon=float(many.epsilon.min())))
    states, times = [start, start], [-3, -3]
    for move, x, other in moves:
        at = int(other)
        times[at] += move
        for tried in (x, 3 * x):  # as headroom does
            found = admit(judge, states[at]._replace(worst=start.worst), times[at], tried)
            assert found.worst == worst_of_all(judge, found._replace(worst=start.worst), times[at])
        before = remember(states[at], times[at], x, 500)
        states[at] = admit(judge, states[at], times[at], x)
        assert states[at].worst == worst_of_all(judge, before, times[at])


@given(households(), MOVES, st.sampled_from(NOISES))
def test_bounds_are_what_secrets_cost_and_a_billionth_more(many, moves, noise):
    """Gaussian noise: the bound of the triangle inequality, which is at most the number of events too large."""
    kept, x, time, first = live.Live(many, "all-events", noise), np.zeros(0), -4, -4
    for move, more, _ in moves:
        time += abs(move) + (not len(x))
        x = np.append(x, np.zeros(time - first + 1 - len(x)))
        x[-1] += more
        rows, found = kept.bounds(time, x, first)
        costs = worst_costs(many, x, first, "all-events", noise)[rows]
        assert (found >= costs).all()
        if noise == "laplace":
            assert (found <= costs * (1 + 3e-9) + 1e-299).all()
        else:
            assert (found <= costs * len(many) * (1 + 3e-9) + 1e-299).all()


def test_long_histories_and_many_secrets_find_the_same_worst():
    """Over the edges of blocks of steps, as what was published is forgotten."""
    rng = np.random.default_rng(2)
    spec = []
    for h in range(4):
        held = set()
        for _ in range(60):
            duration, start = int(rng.integers(1, 20)), int(rng.integers(live.BLOCK - 150, live.BLOCK + 150))
            held.add(
                Secret(float(rng.uniform(0.1, 3)), duration, start, start + 4 * duration, float(rng.uniform(0.1, 1)))
            )
        spec.append(Specification(held, f"h{h}"))
    notion = Swellfish(spec, neighbours="all-events")
    state = notion.start()
    for time in range(live.BLOCK - 150, live.BLOCK + 230):
        if notion.sensitivity.at(time) == 0:
            continue
        before = remember(state, time, float(rng.uniform(0, 1)), 2 * 100)
        state = before._replace(worst=notion._judge.worst(before, time))
        assert state.worst == worst_of_all(notion._judge, before, time)


def test_exposed_secrets_are_found_however_small_they_are():
    judge = Judge(Specifications(Specification([Secret(1e-280, 2, 1, 9, 1.0)], "a")), "all-events", 0.0, "laplace")
    state = remember(SwellfishState(0, (), Worst(0.5, 0.5, 1.0)), 3, 2 * MOST_NOISE, 99)
    assert judge.worst(state, 3) == worst_of_all(judge, state, 3)
    assert judge.worst(state, 3).share == np.inf


def test_of_too_many_pairs_nothing_is_kept_and_the_worst_is_the_same(monkeypatch):
    many = Specifications(Specification([Secret(1.0, 2, k, 9 + k, 1.0) for k in range(4)], "a"))
    monkeypatch.setattr(bounds, "MOST_PAIRS", 15)
    rows, found = live.Live(many, "all-events", "laplace").bounds(5, np.ones(5), 1)
    assert rows.tolist() == [0, 1, 2, 3]
    assert np.isinf(found).all()
    judge = Judge(many, "all-events", 0.0, "laplace")
    state = SwellfishState(1, (1.0,) * 5, Worst())
    assert judge.worst(state, 5) == worst_of_all(judge, state, 5)


# Growth ---------------------------------------------------------------------------------------------------------------


def count_work(size: int, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """How many secrets were looked at singly, and how many pairs by all placements, in 40 steps of so many households."""
    rng = np.random.default_rng(size)
    spec = [
        Specification([Secret(float(rng.uniform(1, 2)), 3, 5 * k + 1, 5 * k + 12, 1.0) for k in range(20)], f"h{h}")
        for h in range(size)
    ]
    notion, looked, pairs = Swellfish(spec, neighbours="all-events"), [0], [0]

    def costs(s, *args):
        looked[0] += len(s)
        return worst_costs(s, *args)

    def within(s, row, *args):
        pairs[0] += len(row)
        return bounds_within(s, row, *args)

    bounds_within = bounds.largest_within
    monkeypatch.setattr(live, "worst_costs", costs)
    monkeypatch.setattr(bounds, "largest_within", within)
    account, plan = Accountant(notion), notion.plan()
    for step in range(20, 60):
        account.admit(*plan.releases_at(step))
    monkeypatch.undo()
    return looked[0], pairs[0]


def test_ten_times_the_households_are_no_more_secrets_to_look_at(monkeypatch):
    """What grows with them is one sum for each pair relevant at a step, and all placements of those at the first step alone."""
    few, few_pairs = count_work(10, monkeypatch)
    many, many_pairs = count_work(100, monkeypatch)
    assert many <= 2 * few
    assert many_pairs <= 10 * few_pairs <= 10 * 10 * 20
    assert many <= 40 * 2 * 20
