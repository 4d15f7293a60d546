"""The exact contraction against every set B, the closed form of two states, and the theorems it replaces."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halflife import MarkovChain
from halflife.processes.contraction import (
    EVERYTHING,
    NOTHING,
    Frontier,
    affordable_loss,
    any_prior,
    contract,
    contract_rows,
    frontier_of,
    frontier_of_all,
    hull,
    merge,
    theorem_1,
)

LOSSES = np.array([1e-3, 0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 100.0])


def all_sets(kernel, epsilon):
    """K(ε) by its definition: every pair of rows, every set of states."""
    growth, states = math.expm1(epsilon), len(kernel)
    sets = np.array(list(itertools.product((0, 1), repeat=states)), dtype=float)
    chance = kernel @ sets.T
    up = np.log1p(growth * chance)
    return (up.max(axis=0) - up.min(axis=0)).max()


def all_prefixes(kernels):
    """The frontier without any pruning."""
    q, p = [], []
    for kernel in kernels:
        for lower, upper in itertools.product(kernel, repeat=2):
            with np.errstate(divide="ignore", invalid="ignore"):
                order = np.argsort(-np.where(upper > 0, upper / lower, 0.0), kind="stable")
            q.append(np.cumsum(lower[order]))
            p.append(np.cumsum(upper[order]))
    return hull(np.concatenate(q), np.concatenate(p))


def curve(frontier):
    width = np.ones((len(LOSSES), 1))
    return contract_rows(width * frontier.q, width * frontier.d, LOSSES)


def kernels(seed, most_states=5, many=1):
    rng = np.random.default_rng(seed)
    states = int(rng.integers(2, most_states + 1))
    found = rng.dirichlet(np.full(states, rng.choice([0.1, 0.5, 1.0, 5.0])), size=(many, states))
    if seed % 3 == 0:  # zeros
        found = np.where(found < 0.1, 0.0, found)
        found /= found.sum(axis=-1, keepdims=True)
    return found


@pytest.mark.parametrize("seed", range(40))
def test_the_contraction_is_the_maximum_over_all_sets(seed):
    """Holds Definitions 4, 6 and 7, Lemma 1, T3: all that is known of a mechanism is which sets it favours by e^ε."""
    kernel = kernels(seed)[0]
    frontier = frontier_of(kernel)
    for epsilon in (0.01, 0.5, 1.0, 3.0, 8.0, 20.0):
        truth = all_sets(kernel, epsilon)
        assert truth - 1e-12 <= contract(frontier, epsilon) <= truth + 1e-9
    assert frontier.variation == pytest.approx(np.abs(kernel[:, None] - kernel[None]).sum(axis=2).max() / 2, abs=1e-12)


@pytest.mark.parametrize("seed", range(60))
def test_skipping_pairs_that_cannot_win_changes_nothing(seed):
    many = kernels(seed, most_states=12, many=1 + seed % 9)
    quick, slow = curve(frontier_of_all(many)), curve(all_prefixes(many))
    np.testing.assert_allclose(quick, slow, rtol=1e-11)
    assert (quick >= slow * (1 - 1e-14)).all()


def test_skipping_also_works_for_many_states_and_many_like_kernels():
    rng = np.random.default_rng(1)
    big = rng.dirichlet(np.ones(40), size=(1, 40))
    alike = 0.6 * np.eye(6) + 0.4 * rng.dirichlet(np.full(6, 50.0), size=(80, 6))
    for many in (big, alike):
        np.testing.assert_allclose(curve(frontier_of_all(many)), curve(all_prefixes(many)), rtol=1e-11)


def test_what_was_found_before_is_kept():
    before = Frontier(np.array([0.001, 0.3]), np.array([0.2, 0.35]))
    many = kernels(7, most_states=6, many=3)
    np.testing.assert_allclose(
        curve(frontier_of_all(many, found=before)), np.maximum(curve(before), curve(all_prefixes(many))), rtol=1e-11
    )


@given(p=st.floats(0.01, 0.99), t=st.integers(1, 60), epsilon=st.floats(0.001, 20))
@settings(max_examples=60, deadline=None)
def test_two_symmetric_states_have_a_closed_form(p, t, epsilon):
    """K_t(ε) = 2 atanh(λ^t tanh(ε/2)), here as 2 artanh with 1 − tanh kept exact enough."""
    scale = abs(1 - 2 * p) ** t
    growth = math.expm1(epsilon)
    exact = math.log1p(growth * scale / (1 + growth * (1 - scale) / 2))
    got = MarkovChain([[1 - p, p], [p, 1 - p]]).amplify(epsilon, t)
    assert exact * (1 - 1e-12) <= got <= exact * (1 + 1e-9) + 1e-11
    if epsilon < 10:
        assert got == pytest.approx(2 * math.atanh(scale * math.tanh(epsilon / 2)), rel=1e-9, abs=1e-11)


@given(seed=st.integers(0, 10**6), s=st.integers(1, 4), t=st.integers(1, 4), epsilon=st.floats(0.01, 12))
@settings(max_examples=60, deadline=None)
def test_one_long_gap_fades_no_less_than_two_short_ones(seed, s, t, epsilon):
    chain = MarkovChain(np.random.default_rng(seed).dirichlet(np.ones(4), size=4))
    assert chain.amplify(epsilon, s + t) <= chain.amplify(chain.amplify(epsilon, s), t) + 1e-10


@given(seed=st.integers(0, 10**6), t=st.integers(1, 40), epsilon=st.floats(0.001, 800))
@settings(max_examples=80, deadline=None)
def test_tight_is_never_above_either_theorem(seed, t, epsilon):
    rng = np.random.default_rng(seed)
    states = int(rng.integers(2, 7))
    chain = MarkovChain(0.9 * rng.dirichlet(np.full(states, 0.2), size=states) + 0.1 / states)
    tight, first, second = (chain.amplify(epsilon, t, bound) for bound in ("tight", "theorem1", "theorem2"))
    assert 0 <= tight <= min(first, second, epsilon)


def test_theorem_2_is_the_limit_of_large_losses_and_theorem_1_that_of_small_ones():
    chain = MarkovChain([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4]])
    kernel = chain.kernel(2)
    ratio = np.log(kernel[:, None, :] / kernel[None, :, :]).max()
    assert chain.amplify(math.inf, 2) == pytest.approx(ratio, rel=1e-9)
    assert chain.amplify(60.0, 2) == pytest.approx(ratio, rel=1e-6)
    assert chain.amplify(1e-9, 2) == pytest.approx(1e-9 * chain.total_variation(2), rel=1e-6)
    assert theorem_1(chain.total_variation(2), 1.0) == pytest.approx(
        math.log(1 + chain.total_variation(2) * (math.e - 1)), rel=1e-12
    )


def test_losses_beyond_what_a_double_can_raise_are_finite_and_rise_no_faster_than_they_do():
    frontier = frontier_of(np.array([[0.9, 0.1], [0.1, 0.9]]))
    assert contract(frontier, 1e6) - contract(frontier, 700.0) <= 1e6 - 700 + 1e-6
    assert contract(EVERYTHING, 1e6) == 1e6
    assert contract(NOTHING, 50.0) == 0.0


def test_merging_takes_the_worst_for_every_loss():
    a, b = (frontier_of(kernels(seed, most_states=6)[0]) for seed in (4, 11))
    both = merge([a, b])
    np.testing.assert_allclose(curve(both), np.maximum(curve(a), curve(b)), rtol=1e-12)
    assert merge([a]) is a


@given(spread=st.floats(1e-6, 300), epsilon=st.floats(1e-6, 300))
@settings(max_examples=100, deadline=None)
def test_the_bound_for_any_prior_is_exact_also_where_tanh_is_nearly_one(spread, epsilon):
    """4 atanh(tanh(D/4) tanh(ε/4)) in exact arithmetic of exponentials rounded to 60 digits."""
    from decimal import Decimal, localcontext

    with localcontext() as context:
        context.prec = 400
        a, b = (Decimal(x) / 2 for x in (spread, epsilon))
        exact = 2 * ((1 + (a + b).exp()) / (a.exp() + b.exp())).ln()
        got = Decimal(any_prior(spread, epsilon))
        assert exact <= got <= exact * (1 + Decimal("1e-12")) or got == min(Decimal(spread), Decimal(epsilon))


def test_against_any_prior_all_survives_where_a_state_cannot_be_reached():
    assert any_prior(math.inf, 3.0) == 3.0
    assert any_prior(2.0, math.inf) == pytest.approx(2.0)
    walk = MarkovChain([[0.5, 0.5, 0], [0.25, 0.5, 0.25], [0, 0.5, 0.5]])
    assert walk.spread(1) == math.inf
    assert walk.amplify(1.0, 1, adversary="any-prior") == 1.0
    assert walk.amplify(1.0, 2, adversary="any-prior") < 1.0


def test_the_bound_for_any_prior_is_never_below_any_prior_tried():
    """Brute force: two states before, f on them within e^ε, a prior on the state now and its law before by Bayes."""
    rng = np.random.default_rng(3)
    ahead = np.array([[0.8, 0.2], [0.3, 0.7]])
    chain, best, epsilon = MarkovChain(ahead), 0.0, 1.0
    for _ in range(2000):
        prior = rng.dirichlet([0.5, 0.5])
        joint = prior[:, None] * ahead  # before, now
        back = joint / joint.sum(axis=0)
        for f in (np.array([1, math.e]), np.array([math.e, 1])):
            seen = f @ back
            best = max(best, abs(math.log(seen[0] / seen[1])))
    bound = chain.amplify(epsilon, 1, adversary="any-prior")
    assert 0.98 * bound <= best <= bound
    assert chain.amplify(epsilon, 1) < bound


def exact_kernel(matrix, law, t):
    n = len(matrix)
    result = [[Fraction(int(i == j)) for j in range(n)] for i in range(n)]
    for _ in range(t):
        result = [[sum(row[k] * matrix[k][j] for k in range(n)) for j in range(n)] for row in result]
    return [[law[y] * result[y][x] / law[x] for y in range(n)] for x in range(n)]


@pytest.mark.parametrize(("seed", "t"), [(0, 1), (1, 3), (2, 17), (3, 60)])
def test_the_slack_covers_the_rounding_errors(seed, t):
    """A kernel in exact rational arithmetic; frontiers must lie above it, and not far."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 2 ** int(rng.integers(2, 20)), size=(4, 4))
    counts[0, 1:] = 1  # a chain that almost falls apart
    counts[0, 0] = 10**6
    matrix = [[Fraction(int(c), int(row.sum())) for c in row] for row in counts]
    law = exact_law(matrix)
    chain = MarkovChain([[float(x) for x in row] for row in matrix])
    truth = exact_kernel(matrix, law, t)
    off = max(
        abs(Fraction(float(got)) / want - 1)
        for row, exact in zip(chain.kernel(t), truth, strict=True)
        for got, want in zip(row, exact, strict=True)
    )
    assert float(off) <= chain.slack(t)
    exact = max(
        sum(max(a - b, 0) for a, b in zip(one, other, strict=True)) for one, other in itertools.product(truth, repeat=2)
    )
    assert float(exact) <= chain.total_variation(t) <= float(exact) + 4 * chain.slack(t) + 1e-14


def exact_law(matrix):
    """π by Gaussian elimination in fractions."""
    n = len(matrix)
    rows = [[matrix[j][i] - (i == j) for j in range(n)] + [Fraction(0)] for i in range(n)]
    rows[-1] = [Fraction(1)] * (n + 1)
    for i in range(n):
        pivot = next(k for k in range(i, n) if rows[k][i])
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [x / rows[i][i] for x in rows[i]]
        for k in range(n):
            if k != i and rows[k][i]:
                rows[k] = [x - rows[k][i] * y for x, y in zip(rows[k], rows[i], strict=True)]
    return [row[-1] for row in rows]


def test_a_probability_too_small_to_be_precise_counts_as_impossible():
    """P_2(0, 2) is 1e−320, where doubles have lost digits: its ratio to other rows is unknown, so it is called infinite."""
    ring = MarkovChain([[1 - 1e-160, 1e-160, 0], [0, 1 - 1e-160, 1e-160], [1e-160, 0, 1 - 1e-160]])
    assert ring.amplify(math.inf, 2) == math.inf
    assert ring.amplify(1.0, 2) <= 1.0


def test_what_is_affordable_is_the_inverse_of_what_is_left():
    rng = np.random.default_rng(3)
    for states in (2, 4):
        chain = MarkovChain(rng.dirichlet(np.ones(states), states))
        for t, risk in itertools.product((1, 3), (0.01, 0.3)):
            frontier = chain.frontier(t)
            tight = affordable_loss(frontier, risk)
            crude = affordable_loss(Frontier(np.zeros(1), np.array([frontier.variation])), risk)
            assert tight >= crude
            assert chain.amplify(crude, t, "theorem1") == pytest.approx(risk, rel=1e-9)
            if tight < math.inf:
                assert chain.amplify(tight, t) == pytest.approx(risk, rel=1e-9)
            else:
                assert chain.amplify(math.inf, t, "theorem2") <= risk * (1 + 1e-9)
    assert affordable_loss(EVERYTHING, 0.7) == pytest.approx(0.7, rel=1e-12)
