"""Artificial aging: Corollary 1 by enumerating outputs, whatever the data's truth; sequences; and the law that is drawn from."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from halflife import Accountant, AgeDependent, AutoRegressive, GeometricMixing, InvalidInput, MarkovChain, Release
from halflife.lab.age_dependent.aging_errors import fresh_error
from halflife.lab.age_dependent.artificial_aging import (
    aged_loss,
    loss_before_aging,
    simulate_aged_mean,
    unbiased_values,
)
from halflife.registry import MECHANISMS, find_mechanism

CHAINS = {
    "symmetric": [[0.9, 0.1], [0.1, 0.9]],
    "two states": [[0.9, 0.1], [0.35, 0.65]],
    "not reversible": [[0.1, 0.8, 0.1], [0.1, 0.1, 0.8], [0.7, 0.2, 0.1]],
    "with zeros": [[0.5, 0.5, 0.0, 0.0], [0.0, 0.2, 0.8, 0.0], [0.0, 0.0, 0.3, 0.7], [0.6, 0.0, 0.0, 0.4]],
}
EPSILON = 0.8
FROZEN = "frozen"


def by_paths(matrix: Any, t: int, people: int) -> np.ndarray:
    """Pr[X_0 = database | X_t = database], by adding up all paths of whole databases: nothing shared with the code."""
    one = np.array(matrix)
    law = np.linalg.matrix_power(one, 4096)[0]
    move, start = one, law
    for _ in range(people - 1):
        move, start = np.kron(move, one), np.kron(start, law)
    joint = np.diag(start)
    for _ in range(t):
        joint = joint @ move
    return (joint / joint.sum(axis=0)).T


def databases(states: int, people: int) -> list[tuple[int, ...]]:
    return list(itertools.product(range(states), repeat=people))


def noisy_count(states: int, people: int, group: frozenset[int], epsilon: float) -> np.ndarray:
    """Truncated geometric noise on how many people are in a group of states: Pr[output | database], ε-DP."""
    counts = [sum(z in group for z in one) for one in databases(states, people)]
    outputs, alpha = np.arange(people + 1), math.exp(-epsilon)
    rows = []
    for count in counts:
        tail = alpha ** np.abs(outputs - count) * (1 - alpha) / (1 + alpha)
        tail[[0, -1]] = alpha ** np.abs(outputs[[0, -1]] - count) / (1 + alpha)
        rows.append(tail)
    return np.array(rows)


def one_persons_answer(states: int, people: int, group: frozenset[int], epsilon: float) -> np.ndarray:
    """Whether the first person is in a group, answered rightly with odds e^ε : 1: the mechanism that attains K_t."""
    right = math.exp(epsilon) / (1 + math.exp(epsilon))
    return np.array(
        [[right, 1 - right] if one[0] in group else [1 - right, right] for one in databases(states, people)]
    )


def loss(law: np.ndarray, states: int, people: int) -> float:
    """The largest log-ratio of an output's probability between two databases that differ in one person."""
    known = databases(states, people)
    return max(
        float(np.max(np.log(law[i]) - np.log(law[j])))
        for i, j in itertools.permutations(range(len(known)), 2)
        if sum(a != b for a, b in zip(known[i], known[j], strict=True)) == 1
    )


def groups(states: int) -> list[frozenset[int]]:
    return [frozenset(g) for size in range(1, states) for g in itertools.combinations(range(states), size)]


def aged(chain: MarkovChain, t: int, people: int) -> np.ndarray:
    """Pr[aged database | present database], of the kernel that the mechanism draws from."""
    kernel = chain.kernel(t)
    return np.array(
        [
            [math.prod(kernel[a, b] for a, b in zip(x, z, strict=True)) for z in databases(chain.states, people)]
            for x in databases(chain.states, people)
        ]
    )


# Corollary 1 --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("t", [1, 3])
def test_corollary_1_by_enumeration(name: str, t: int) -> None:
    """The aged mechanism's classical loss is the age-dependent loss of M, is within K_t, and K_t is attained."""
    matrix, states = CHAINS[name], len(CHAINS[name])
    chain, people = MarkovChain(matrix), 3 if states == 2 else 2
    then, drawn = by_paths(matrix, t, people), aged(chain, t, people)
    promised, worst = aged_loss(chain, EPSILON, t), 0.0
    for make in (noisy_count, one_persons_answer):
        for group in groups(states):
            mechanism = make(states, people, group, EPSILON)
            assert loss(mechanism, states, people) <= EPSILON * (1 + 1e-12)
            classical, dependent = loss(drawn @ mechanism, states, people), loss(then @ mechanism, states, people)
            assert classical == pytest.approx(dependent, rel=1e-9), "if and only if"
            assert classical <= promised * (1 + 1e-12)
            worst = max(worst, classical)
    assert worst == pytest.approx(promised, rel=1e-9)
    assert aged_loss(chain, EPSILON, t, "theorem1") >= promised


@pytest.mark.parametrize("t", [1, 3, 8])
def test_the_noisy_mean_of_two_states_attains_what_is_promised(t: int) -> None:
    """At outputs beyond every mean the Laplace density falls by e^{ε_C} between one person's two states."""
    chain, attained = MarkovChain(CHAINS["two states"]), []
    for far in (0.0, 1.0):
        density = [stats.laplace.pdf(far, (z + other) / 2, 1 / 2 / EPSILON) for z, other in databases(2, 2)]
        law = aged(chain, t, 2) @ np.array(density)
        attained.append(abs(math.log(law[1] / law[3])))  # the second person is in state 1, the first in 0 or 1
    assert max(attained) == pytest.approx(aged_loss(chain, EPSILON, t), rel=1e-9)


@pytest.mark.parametrize(
    ("truth", "lost"),
    [(FROZEN, 1.0), ([[0.98, 0.02], [0.02, 0.98]], 0.8685), ([[0.02, 0.98], [0.98, 0.02]], 0.8685)],
)
def test_it_holds_under_a_false_model_where_delay_loses_more_than_it_claims(truth: Any, lost: float) -> None:
    """Nature moves people as it likes from X_0 to X_t. Delayed is M(X_0), aged on purpose is M(a state drawn from X_t)."""
    model, t, people = MarkovChain(CHAINS["symmetric"]), 3, 2
    then = np.eye(4) if truth == FROZEN else by_paths(truth, t, people)
    mechanism, claimed = one_persons_answer(2, people, frozenset({1}), 1.0), aged_loss(model, 1.0, t)
    assert claimed == pytest.approx(0.4823, abs=5e-5)
    assert loss(then @ mechanism, 2, people) == pytest.approx(lost, abs=5e-5)
    past = np.array([[0.4, 0.1, 0.2, 0.3], [0.7, 0.0, 0.2, 0.1], [0.1, 0.2, 0.3, 0.4], [0.25, 0.25, 0.5, 0.0]])
    for law_of_the_past in (then, past):  # whatever was before: given the present, what is drawn does not look at it
        joint = np.einsum("xp,xz,zw->xpw", law_of_the_past, aged(model, t, people), mechanism)
        assert loss(joint.sum(axis=1), 2, people) == pytest.approx(claimed, rel=1e-9)


# Many releases ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CHAINS)
def test_losses_of_two_releases_add_up(name: str) -> None:
    """Every pair of outputs and every pair of trajectories of one person: fresh draws lose K + K, a kept draw K of the sum."""
    chain, states, t = MarkovChain(CHAINS[name]), len(CHAINS[name]), 2
    kernel, fresh, kept = chain.kernel(t), 0.0, 0.0
    for group in groups(states):
        answer = one_persons_answer(states, 1, group, EPSILON)
        single = kernel @ answer
        for x, y in itertools.product(databases(states, 2), repeat=2):
            ratio = np.log(np.outer(single[x[0]], single[x[1]])) - np.log(np.outer(single[y[0]], single[y[1]]))
            fresh = max(fresh, float(ratio.max()))
        both = np.log(np.einsum("xz,za,zb->xab", kernel, answer, answer)).reshape(states, -1)
        kept = max(kept, float((both[:, None] - both[None]).max()))
    assert fresh == pytest.approx(2 * aged_loss(chain, EPSILON, t), rel=1e-9)
    assert kept == pytest.approx(aged_loss(chain, 2 * EPSILON, t), rel=1e-9)


def test_a_kept_draw_may_cost_less_or_more_than_fresh_ones() -> None:
    symmetric, zero = MarkovChain(CHAINS["symmetric"]), MarkovChain([[0.5, 0.5], [1.0, 0.0]])
    assert 2 * aged_loss(symmetric, 1.0, 3) == pytest.approx(
        4 * math.atanh(0.8**3 * math.tanh(0.5)), rel=1e-9
    )  # 0.9647
    assert aged_loss(symmetric, 2.0, 3) == pytest.approx(2 * math.atanh(0.8**3 * math.tanh(1)), rel=1e-9)  # 0.8234
    assert [aged_loss(zero, e, 1) for e in (1.0, 2.0)] == pytest.approx([0.6201, 1.4338], abs=5e-5)
    assert aged_loss(symmetric, 50.0, 3) <= aged_loss(symmetric, math.inf, 3) == pytest.approx(math.log(1.512 / 0.488))


def test_delayed_releases_fade_and_aged_ones_do_not() -> None:
    chain = MarkovChain(CHAINS["symmetric"])
    account = Accountant(AgeDependent(100.0, chain))
    account.admit(*(Release(3 * k, 0.5, 3) for k in range(1, 9)))
    assert account.risk(24) == pytest.approx(0.4684, abs=5e-5)
    assert 8 * aged_loss(chain, 0.5, 3) == pytest.approx(16 * math.atanh(0.8**3 * math.tanh(0.25)), rel=1e-9)  # 2.017


# The mechanism ------------------------------------------------------------------------------------------------------


class Grid:
    """In place of a generator: chances on an even grid, so that frequencies are the law that is drawn from; and no noise."""

    def random(self, shape: tuple[int, ...]) -> np.ndarray:
        return ((np.arange(math.prod(shape)) + 0.5) / math.prod(shape)).reshape(shape)

    def laplace(self, loc: float, scale: float, shape: tuple[int, ...]) -> np.ndarray:
        return np.zeros(shape)


@pytest.mark.parametrize("name", ["two states", "not reversible", "with zeros"])
def test_states_are_drawn_from_the_reversed_chain(name: str) -> None:
    chain, size = MarkovChain(CHAINS[name]), 50_000
    then = by_paths(CHAINS[name], 2, 1)
    for x in range(chain.states):
        states = np.full((size, 1), x)
        drawn = simulate_aged_mean(chain, np.arange(chain.states), states, 2, math.inf, Grid())  # type: ignore[arg-type]
        assert np.bincount(drawn.astype(int), minlength=chain.states) / size == pytest.approx(then[x], abs=2e-4)


def test_the_noise_is_that_of_the_loss_on_the_aged_states() -> None:
    rng, chain, people = np.random.default_rng(1), MarkovChain(CHAINS["not reversible"]), 5
    outputs = simulate_aged_mean(chain, [0.0, 1.0, 3.0], np.zeros((40_000, people), dtype=int), 0, 0.6, rng)
    assert stats.kstest(outputs, stats.laplace(0, 3 / people / 0.6).cdf).pvalue > 1e-3
    assert stats.kstest(outputs, stats.laplace(0, 0.9 * 3 / people / 0.6).cdf).pvalue < 1e-6


@pytest.mark.parametrize("name", CHAINS)
def test_unbiased_values_have_the_present_as_their_expectation(name: str) -> None:
    chain, values = MarkovChain(CHAINS[name]), np.arange(len(CHAINS[name])) ** 2.0
    for t in (0, 1, 4):
        assert by_paths(CHAINS[name], t, 1) @ unbiased_values(chain, values, t) == pytest.approx(values, abs=1e-9)
    if chain.states == 2:
        left, mean = (1 - 0.1 - CHAINS[name][1][0]) ** 4, float(chain.stationary @ values)
        assert unbiased_values(chain, values, 4) == pytest.approx((values - (1 - left) * mean) / left, rel=1e-9)


# The promise --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bound", ["tight", "theorem1"])
def test_what_may_be_spent_is_the_inverse_rounded_down(bound: Any) -> None:
    rng = np.random.default_rng(3)
    for states in (2, 3, 5):
        chain = MarkovChain(rng.dirichlet(np.ones(states), states))
        for t, epsilon in itertools.product((0, 1, 2, 5), (1e-9, 0.02, 0.7, 3.0)):
            spent = loss_before_aging(chain, epsilon, t, bound)
            assert epsilon <= spent
            assert aged_loss(chain, spent, t, bound) <= epsilon
            if spent < math.inf:
                assert aged_loss(chain, 1.001 * spent + 1e-12, t, bound) > epsilon
            else:
                assert aged_loss(chain, math.inf, t) <= epsilon


def test_no_release_can_reach_it() -> None:
    """It is no mechanism that a policy could name: aging is seeded, and sees each person's state."""
    assert not [name for name in MECHANISMS if "ag" in name]
    with pytest.raises(InvalidInput, match="mechanism"):
        find_mechanism("aged")


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda c, r: aged_loss(GeometricMixing(1.0, 0.8), 1.0, 3), "by a MarkovChain, not by GeometricMixing"),  # type: ignore[arg-type]
        (lambda c, r: loss_before_aging(AutoRegressive(0.8, 1.0, 1.0), 1.0, 3), "by a MarkovChain"),  # type: ignore[arg-type]
        (lambda c, r: aged_loss(c, 0.0, 3), "loss must be above 0"),
        (lambda c, r: aged_loss(c, math.nan, 3), "NaN"),
        (lambda c, r: aged_loss(c, 1.0, -1), "t must be at least 0"),
        (lambda c, r: aged_loss(c, 1.0, 3, "theorem2"), "bound"),
        (lambda c, r: loss_before_aging(c, 0.0, 3), "epsilon must be above 0"),
        (lambda c, r: loss_before_aging(c, 1.0, 3, "theorem"), "bound"),
        (lambda c, r: simulate_aged_mean(c, [1.0], [0, 1], 3, 1.0, r), "2 finite values"),
        (lambda c, r: simulate_aged_mean(c, [1.0, 1.0], [0, 1], 3, 1.0, r), "not all the same"),
        (lambda c, r: simulate_aged_mean(c, ["a", "b"], [0, 1], 3, 1.0, r), "not all the same"),
        (lambda c, r: fresh_error([], 3, 1.0), "not all the same"),
        (lambda c, r: fresh_error([1.0, math.nan], 3, 1.0), "not all the same"),
        (lambda c, r: simulate_aged_mean(c, [1.0, math.inf], [0, 1], 3, 1.0, r), "finite"),
        (lambda c, r: simulate_aged_mean(c, [0.0, 1.0], [0, 2], 3, 1.0, r), "from 0 to 1"),
        (lambda c, r: simulate_aged_mean(c, [0.0, 1.0], 1, 3, 1.0, r), "at least one person"),
        (lambda c, r: simulate_aged_mean(c, [0.0, 1.0], np.zeros((2, 0), int), 3, 1.0, r), "at least one person"),
        (lambda c, r: unbiased_values(c, [0.0, 1.0], 200), "age by less"),
        (lambda c, r: unbiased_values(MarkovChain([[0.5, 0.5], [0.5, 0.5]]), [0.0, 1.0], 1), "age by less"),
    ],
)
def test_bad_input_is_refused(make: Any, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        make(MarkovChain(CHAINS["symmetric"]), np.random.default_rng(0))
