"""Personalised w-event privacy: the sample's loss by exact densities, everybody's windows, estimates without bias."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halflife import InvalidInput
from halflife.lab.personalised_w_event import METHODS, Wishes, inclusion, sample, simulate


def find_density(values, chances, threshold, at):
    """The density of a sampled count with Laplace noise: a sum over all who may be in the sample."""
    total = np.zeros_like(at)
    for taken in itertools.product((0, 1), repeat=len(values)):
        chance = np.prod([p if one else 1 - p for one, p in zip(taken, chances, strict=True)])
        count = sum(v for v, one in zip(values, taken, strict=True) if one)
        total += chance * threshold / 2 * np.exp(-threshold * np.abs(at - count))
    return total


@pytest.mark.parametrize("threshold", [0.2, 0.7, 1.5, 3.0])
def test_a_sample_loses_exactly_what_each_person_allows(threshold):
    """Brute force over three people's data and who of them is counted: the worst log ratio of densities is min(b_i, t)."""
    budgets, at = np.array([0.3, 0.7, 1.5]), np.linspace(-40, 43, 8301)
    chances = inclusion(budgets, np.array(threshold))
    worst = np.zeros(3)
    for values in itertools.product((0, 1), repeat=3):
        for i in range(3):
            other = tuple(1 - v if k == i else v for k, v in enumerate(values))
            ratio = find_density(values, chances, threshold, at) / find_density(other, chances, threshold, at)
            worst[i] = max(worst[i], np.abs(np.log(ratio)).max())
    assert worst == pytest.approx(np.minimum(budgets, threshold), rel=1e-6)


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_nobody_loses_more_than_they_allow_in_their_own_window(method, data):
    groups = data.draw(
        st.lists(
            st.tuples(st.integers(1, 3000), st.integers(1, 12), st.sampled_from([0.05, 0.5, 1.0, 4.0])),
            min_size=1,
            max_size=3,
        )
    )
    wishes = Wishes.of(*groups)
    shares = data.draw(st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=40, max_size=40))
    series = np.round(np.outer(shares, wishes.people)).astype(int)
    losses = simulate(method, series, wishes, seed=data.draw(st.integers(0, 9)), lanes=3).losses
    for k, (_, w, epsilon) in enumerate(groups):
        sums = [losses[max(0, t - w + 1) : t + 1, k].sum(axis=0).max() for t in range(40)]
        assert max(sums) <= epsilon * (1 + 1e-9)


def test_a_group_that_paid_much_stays_blocked_while_others_publish():
    """Long and short windows: what one group has borrowed is not forgotten when an output uses the other alone."""
    wishes = Wishes.of((2000, 12, 4.0), (2000, 2, 4.0))
    series = np.repeat(np.array([0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0]) * 2000, 2).reshape(-1, 2)
    losses = simulate("pba", series, wishes, seed=1, lanes=50).losses
    for k, w in enumerate((12, 2)):
        assert max(losses[max(0, t - w + 1) : t + 1, k].sum(axis=0).max() for t in range(20)) <= 4.0 * (1 + 1e-9)
    assert (losses[:, 0] > 4.0 / 24 * 1.5).any(), "the long window absorbed nothing, so nothing was tried"


def test_estimates_have_no_bias_and_the_error_that_is_expected():
    people, budgets, lanes = np.array([4000, 4000]), np.array([[0.05], [1.0]]), 20_000
    got = sample(people // 2, np.repeat(budgets, lanes, axis=1), people, np.random.default_rng(1))
    assert got.estimate.mean() == pytest.approx(4000, abs=4 * got.error[0] / np.sqrt(lanes))
    assert (
        0.6 * got.error[0] < got.estimate.std() <= 1.02 * got.error[0]
    )  # half of the people count: less spread than all would


def test_the_threshold_is_the_best_of_all_budgets():
    """A few careful people are left to chance; if nearly everybody is careful, their budget is the threshold."""
    few = sample(np.array([5, 500]), np.array([[0.01], [1.0]]), np.array([10, 1000]), np.random.default_rng(1))
    most = sample(np.array([500, 5]), np.array([[0.1], [1.0]]), np.array([1000, 10]), np.random.default_rng(1))
    assert few.losses[:, 0].tolist() == [0.01, 1.0]
    assert most.losses[:, 0].tolist() == [0.1, 0.1]


def test_own_wishes_cost_less_than_the_strictest_for_everybody():
    wishes = Wishes.of((1000, 40, 0.5), (4000, 10, 1.0), (1000, 20, 2.0))
    shares = 0.5 + 0.3 * np.sin(np.arange(300) / 30)
    series = np.round(np.outer(shares, wishes.people)).astype(int)
    for method in METHODS:
        own, strict = (simulate(method, series, w, seed=2, lanes=10) for w in (wishes, wishes.strictest()))
        off, most = (np.abs(run.outputs - series.sum(axis=1)[:, None]).mean() for run in (own, strict))
        assert off < 0.8 * most


def test_one_group_is_plain_uniform():
    run = simulate("uniform", np.full((400, 1), 50), Wishes.of((100, 10, 1.0)), seed=1, lanes=20)
    assert np.abs(run.outputs - 50).mean() == pytest.approx(10, rel=0.05)
    assert (run.losses == 0.1).all()


def test_what_is_refused():
    wishes = Wishes.of((10, 2, 1.0))
    for wrong in (np.full((3, 2), 1), np.full((3, 1), 11), np.full((3, 1), -1), np.ones(3)):
        with pytest.raises(InvalidInput, match="a row for each step"):
            simulate("pbd", wrong, wishes, seed=1)
    with pytest.raises(InvalidInput, match="did you mean 'pba'"):
        simulate("pbaa", np.ones((3, 1)), wishes, seed=1)
    with pytest.raises(InvalidInput, match="above 0"):
        Wishes.of((10, 0, 1.0))
