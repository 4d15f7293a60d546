"""Errors of aged, delayed and fresh means: closed forms beside sums over all draws, and simulation."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from halflife import InvalidInput, MarkovChain
from halflife.lab.age_dependent.aging_errors import (
    aged_error,
    break_even,
    delayed_error,
    fresh_error,
    reader_error,
)
from halflife.lab.age_dependent.artificial_aging import aged_loss, simulate_aged_mean, unbiased_values
from halflife.lab.age_dependent.staleness import TwoStateMSE

THREE = MarkovChain([[0.1, 0.8, 0.1], [0.1, 0.1, 0.8], [0.7, 0.2, 0.1]])
LAZY = MarkovChain([[0.9, 0.1], [0.1, 0.9]])
VALUES = [0.0, 1.0, 3.0]


@pytest.mark.parametrize("unbiased", [False, True])
def test_the_aged_error_is_a_sum_over_all_draws(unbiased: bool) -> None:
    kernel, states, t, loss = THREE.kernel(2), (0, 2, 2), 2, 0.9
    published = unbiased_values(THREE, VALUES, t) if unbiased else np.array(VALUES)
    truth = sum(VALUES[x] for x in states) / 3
    mean = square = 0.0
    for drawn in itertools.product(range(3), repeat=3):
        chance = math.prod(kernel[x, z] for x, z in zip(states, drawn, strict=True))
        off = float(published[list(drawn)].mean()) - truth
        mean, square = mean + chance * off, square + chance * off**2
    found = aged_error(THREE, VALUES, states, t, loss, unbiased=unbiased)
    assert found.bias == pytest.approx(mean, abs=1e-12)
    assert found.bias**2 + found.resampling == pytest.approx(square, rel=1e-9)
    assert found.noise == pytest.approx(stats.laplace(scale=float(np.ptp(published)) / 3 / loss).var(), rel=1e-12)
    assert found.total == pytest.approx(square + found.noise, rel=1e-9)


@pytest.mark.parametrize("unbiased", [False, True])
def test_the_aged_error_is_that_of_a_simulation_on_data_that_follow_nothing(unbiased: bool) -> None:
    states, runs = np.array([0, 0, 0, 1, 2, 0]), 100_000
    published = unbiased_values(THREE, VALUES, 1) if unbiased else VALUES
    outputs = simulate_aged_mean(THREE, published, np.tile(states, (runs, 1)), 1, 1.2, np.random.default_rng(7))
    squares = (outputs - np.array(VALUES)[states].mean()) ** 2
    expected = aged_error(THREE, VALUES, states, 1, 1.2, unbiased=unbiased).total
    assert squares.mean() == pytest.approx(expected, abs=4 * squares.std() / math.sqrt(runs))
    assert 4 * squares.std() / math.sqrt(runs) < 0.05 * expected


def test_delayed_and_aged_err_alike_if_people_move_like_the_chain() -> None:
    """Once averaged over present states; and by moving people ahead from the stationary law, which shares no kernel with it."""
    people, t, loss, runs = 3, 2, 1.5, 200_000
    average = 0.0
    for states in itertools.product(range(3), repeat=people):
        chance = math.prod(THREE.stationary[list(states)])
        average += chance * aged_error(THREE, VALUES, states, t, loss).total
    delayed = delayed_error(THREE, VALUES, people, t, loss)
    assert delayed == pytest.approx(average, rel=1e-9)
    rng = np.random.default_rng(2)
    then = rng.choice(3, size=(runs, people), p=THREE.stationary)
    now = then
    for _ in range(t):
        now = (rng.random((runs, people, 1)) >= np.cumsum(THREE.matrix, axis=1)[now]).sum(axis=-1)
    noise = rng.laplace(0.0, 3 / people / loss, runs)
    values = np.array(VALUES)
    squares = (values[then].mean(axis=1) + noise - values[now].mean(axis=1)) ** 2
    assert squares.mean() == pytest.approx(delayed, abs=4 * squares.std() / math.sqrt(runs))
    linear = np.polyfit(values[then].mean(axis=1) + noise, values[now].mean(axis=1), 1, full=True)[1][0] / runs
    assert reader_error(THREE, VALUES, people, t, loss) == pytest.approx(linear, rel=0.02)


def test_two_states_are_the_papers_example() -> None:
    ours = TwoStateMSE(0.1, 0.1, 20)
    for t, loss in itertools.product((0, 1, 3, 10), (0.5, 2.0, math.inf)):
        assert delayed_error(LAZY, [-1, 1], 20, t, loss) == pytest.approx(ours(t, loss), rel=1e-9, abs=1e-15)
    assert fresh_error([-1, 1], 20, 0.5) == pytest.approx(ours(0, 0.5), rel=1e-12)
    assert reader_error(LAZY, [-1, 1], 20, 300, 1.0) == pytest.approx(1 / 20), "nothing is left but the stationary mean"


def closed_form(left: float, loss: float) -> float:
    """The break-even of a symmetric chain by hand: 4[D(ε_C) − λ^{2t} D(ε)]/(1 − λ^{2t}), D(x) = 1/(2 tanh²(x/2)) − 2/x²."""
    epsilon = 2 * math.atanh(left * math.tanh(loss / 2))
    before, after = (1 / (2 * math.tanh(x / 2) ** 2) - 2 / x**2 for x in (loss, epsilon))
    return 4 * (before - left**2 * after) / (1 - left**2)


@pytest.mark.parametrize(("t", "loss"), [(1, 0.3), (1, 8.0), (3, 1.0), (10, 4.0)])
def test_the_break_even_by_hand_and_by_both_errors(t: int, loss: float) -> None:
    found, epsilon = break_even(LAZY, [-1, 1], t, loss), aged_loss(LAZY, loss, t)
    assert found == pytest.approx(closed_form(0.8**t, loss), rel=1e-6)
    for people in (1, 2, 3, 20):
        aged, fresh = reader_error(LAZY, [-1, 1], people, t, loss), reader_error(LAZY, [-1, 1], people, 0, epsilon)
        plain = aged_error(LAZY, [-1, 1], [0] * people, t, loss, unbiased=True).total
        assert (fresh < aged) == (people > found)
        assert (fresh_error([-1, 1], people, epsilon) < plain) == (people > found)


def test_in_the_papers_example_fresh_data_is_better_from_three_people_on() -> None:
    losses = (0.05, 0.5, 1.0, 2.0, 4.0, 8.0, 30.0, math.inf)
    found = [break_even(LAZY, [-1, 1], t, loss) for t in range(1, 31) for loss in losses]
    assert 1.33 < min(found) <= max(found) < 2.95
    # an aged mean without noise is randomised response: n/(4 sinh²(ε/2)) against 2/ε² of fresh Laplace noise, times (Δv/n)²
    epsilon = 2 * math.atanh(0.8)
    assert max(found) == pytest.approx(8 * math.sinh(epsilon / 2) ** 2 / epsilon**2, rel=1e-9)


def test_it_is_no_law_but_where_it_fails_neither_tells_anything() -> None:
    """A chain that is not reversible, at a tiny loss: aged data is better up to 95 people, by less than a ten-thousandth."""
    chain, values, t, loss = MarkovChain([[0.0, 0.8, 0.2], [0.3, 0.5, 0.2], [0.6, 0.4, 0.0]]), [0.0, 0.8, 1.0], 2, 0.1
    assert break_even(chain, values, t, loss) == pytest.approx(95.51, abs=0.01)
    aged, fresh = (
        reader_error(chain, values, 50, t, loss),
        reader_error(chain, values, 50, 0, aged_loss(chain, loss, t)),
    )
    nothing = float(np.cov(values, aweights=chain.stationary, ddof=0)) / 50
    assert 0.999 * nothing < aged < fresh < (1 + 1e-4) * aged


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: break_even(LAZY, [-1, 1], 0, 1.0), "age must be at least 1"),
        (lambda: break_even(MarkovChain([[0.0, 1.0], [1.0, 0.0]]), [-1, 1], 1, 1.0), "equally good"),
        (lambda: aged_error(LAZY, [-1, 1], [[0, 1]], 1, 1.0), "one set of people"),
        (lambda: delayed_error(LAZY, [-1, 1], 0, 1, 1.0), "people must be at least 1"),
        (lambda: fresh_error([-1, 1], 20, 0.0), "above 0"),
        (lambda: reader_error(LAZY, [-1, 1, 2], 20, 1, 1.0), "2 finite values"),
    ],
)
def test_bad_input_is_refused(make: Any, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        make()
