"""Markov chains: laws, reversal, kernels up to a million steps, spectral bounds, aging, fitting, and what is refused."""

from __future__ import annotations

import itertools
import json
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halflife import InvalidInput, MarkovChain, Process
from halflife.processes import graph_bound, walk_on_graph
from halflife.processes.contraction import NOTHING
from halflife.processes.kernels import stationary
from work import work

LAZY = [[0.9, 0.1], [0.1, 0.9]]
DE_BRUIJN = [[0.5, 0.5, 0, 0], [0, 0, 0.5, 0.5], [0.5, 0.5, 0, 0], [0, 0, 0.5, 0.5]]


def random_chain(seed, states=None):
    rng = np.random.default_rng(seed)
    states = states or int(rng.integers(2, 8))
    return MarkovChain(rng.dirichlet(np.ones(states), size=states))


def reversible_chain(seed, states):
    rng = np.random.default_rng(seed)
    flow = rng.exponential(size=(states, states)) ** 2
    flow = flow + flow.T
    return MarkovChain(flow / flow.sum(axis=1, keepdims=True))


# Laws and kernels -------------------------------------------------------------------------------------------------


@given(seed=st.integers(0, 10**6))
@settings(max_examples=40, deadline=None)
def test_the_law_is_the_eigenvector(seed):
    chain = random_chain(seed)
    values, vectors = np.linalg.eig(chain.matrix.T)
    vector = np.real(vectors[:, np.argmin(np.abs(values - 1))])
    np.testing.assert_allclose(chain.stationary, vector / vector.sum(), rtol=1e-8)
    assert chain.stationary.sum() == pytest.approx(1)


def test_the_law_is_exact_in_every_digit_where_eigenvectors_are_not():
    """Two halves that hardly meet: π by the balance of each cut, in fractions."""
    leave, back = Fraction(1, 10**12), Fraction(3, 10**13)
    chain = MarkovChain([[0.5, 0.5, 0], [0.5, 0.5 - float(leave), float(leave)], [0, float(back), 1 - float(back)]])
    up = Fraction(float(leave)) / Fraction(float(back))
    total = 2 + up
    for got, want in zip(chain.stationary, (1 / total, 1 / total, up / total), strict=True):
        assert abs(Fraction(float(got)) / want - 1) < 1e-15


@pytest.mark.parametrize("seed", range(10))
def test_the_kernel_back_is_bayes_rule_over_all_paths(seed):
    chain = random_chain(seed, 3)
    law, matrix, t = chain.stationary, chain.matrix, 3
    joint = np.zeros((3, 3))  # before, now
    for path in itertools.product(range(3), repeat=t + 1):
        joint[path[0], path[-1]] += law[path[0]] * math.prod(matrix[a, b] for a, b in itertools.pairwise(path))
    np.testing.assert_allclose(chain.kernel(t), (joint / joint.sum(axis=0)).T, rtol=1e-12)
    np.testing.assert_allclose(chain.kernel(t, "ahead"), joint / joint.sum(axis=1, keepdims=True), rtol=1e-12)
    np.testing.assert_allclose(chain.kernel(t).sum(axis=1), 1, rtol=1e-13)


@pytest.mark.parametrize("t", [1, 2, 1000, 123_456, 10**6])
def test_kernels_over_many_steps_agree_with_the_closed_form(t):
    p, q = 1e-6, 3e-7
    chain = MarkovChain([[1 - p, p], [q, 1 - q]])
    kept = Fraction(1) - Fraction(p) - Fraction(q)
    faded = float(kept) ** t if t < 10 else math.exp(t * math.log1p(-(p + q)))
    assert faded * (1 - 1e-10) <= chain.total_variation(t) <= faded * (1 + 1e-11 + 2e-14 * t)


def test_kernels_over_a_million_steps_agree_with_eigenvalues():
    chain = MarkovChain(np.eye(4) * (1 - 2e-6) + 2e-6 * reversible_chain(5, 4).matrix)
    root = np.sqrt(chain.stationary)
    values, vectors = np.linalg.eigh(root[:, None] * chain.matrix / root)
    want = (vectors * values**1e6) @ vectors.T * root / root[:, None]
    np.testing.assert_allclose(chain.kernel(10**6, "ahead"), want, rtol=1e-7)
    with pytest.raises(InvalidInput, match="1,000,000"):
        chain.kernel(10**6 + 1)
    assert chain.amplify(1.0, 10**9) == chain.amplify(1.0, 10**6)


def test_nothing_has_faded_at_age_zero():
    chain = MarkovChain(LAZY)
    assert chain.total_variation(0) == 1.0
    assert chain.amplify(0.7, 0) == 0.7


def test_a_chain_of_one_state_has_nothing_to_tell():
    chain = MarkovChain([[1.0]])
    assert chain.frontier(3) is NOTHING
    assert chain.amplify(5.0, 1) == chain.total_variation(2) == chain.spread(1) == 0.0
    assert chain.amplify(5.0, 1, "theorem2") == chain.amplify(5.0, 1, adversary="any-prior") == 0.0
    assert chain.total_variation(1, "spectral") == 0.0
    assert chain.age(np.array([0, 0]), 3, np.random.default_rng(1)).tolist() == [0, 0]


# What is not a chain ----------------------------------------------------------------------------------------------


def test_a_reducible_chain_is_refused_with_its_classes():
    with pytest.raises(InvalidInput, match=r"reducible.*\[\[0\], \[1, 2\]\].*ProcessFamily"):
        MarkovChain([[1, 0, 0], [0, 0.5, 0.5], [0, 0.5, 0.5]])


def test_a_state_that_is_left_for_ever_is_refused_by_name():
    with pytest.raises(InvalidInput, match=r"states \[1\] are left for ever"):
        MarkovChain([[0.5, 0, 0.5], [0.1, 0.8, 0.1], [0.5, 0, 0.5]])


def test_a_periodic_chain_never_amplifies():
    ring = MarkovChain([[0, 1, 0], [0, 0, 1], [1, 0, 0]])
    for t in (1, 2, 3, 1000):
        assert ring.total_variation(t) == 1.0
        assert ring.amplify(2.0, t) == 2.0
    sides = MarkovChain([[0, 0.5, 0, 0.5], [0.5, 0, 0.5, 0], [0, 0.5, 0, 0.5], [0.5, 0, 0.5, 0]])
    assert sides.amplify(2.0, 999) == 2.0


def test_a_law_too_small_for_a_double_is_refused():
    tiny = 1e-200
    with pytest.raises(InvalidInput, match=r"states \[2\] with a probability too small"):
        MarkovChain([[1 - tiny, tiny, 0], [0.5, 0.5 - tiny, tiny], [0, 0.5, 0.5]])


@pytest.mark.parametrize(
    ("matrix", "says"),
    [
        ([[0.5, 0.5], [0.5, 0.4]], "row 1 .* sums to 0.9"),
        ([[0.5, 0.5], [-0.5, 1.5]], "row 1, column 0 .* negative: -0.5"),
        ([[0.5, 0.5], [math.nan, 0.5]], "row 1, column 0 .* must be a number, not nan"),
        ([[0.5, 0.5], ["a", 0.5]], "row 1, column 0 .* must be a number, not 'a'"),
        ([[0.5, 0.5], [True, 0]], "row 1, column 0 .* must be a number, not True"),
        ([[0.5, 0.5]], "row 0 .* has 2 entries, not 1"),
        ([], "list of rows"),
        ("ab", "list of rows"),
        ([0.5, 0.5], "row 0 .* list of numbers"),
        (np.full((201, 201), 1 / 201), "up to 200 states, not 201"),
    ],
)
def test_what_is_no_transition_matrix_is_refused_by_row(matrix, says):
    with pytest.raises(InvalidInput, match=says):
        MarkovChain(matrix)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"epsilon": -1.0}, "epsilon"),
        ({"epsilon": math.nan}, "epsilon"),
        ({"t": -1}, "t must"),
        ({"t": 1.5}, "t must"),
        ({"bound": "theorem3"}, "did you mean"),
        ({"adversary": "anyprior"}, "any-prior"),
    ],
)
def test_what_amplify_does_not_know_is_refused(change, says):
    with pytest.raises(InvalidInput, match=says):
        MarkovChain(LAZY).amplify(**({"epsilon": 1.0, "t": 1} | change))


# Spectral bounds --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(15))
def test_the_spectral_bounds_are_never_below_the_truth(seed):
    """Holds Proposition 5."""
    chain = reversible_chain(seed, 2 + seed % 6)
    finite = 0
    for t in (1, 2, 3, 5, 10, 20, 50):
        rounding = 40 * chain.slack(t) / chain.stationary.min()
        assert chain.total_variation(t, "spectral") >= chain.total_variation(t) - rounding
        assert chain.theorem_2_spectral(t) >= chain.amplify(math.inf, t, "theorem2") - rounding
        finite += math.isfinite(chain.theorem_2_spectral(t))
    assert finite


def test_two_states_show_the_spectral_bound_exactly():
    chain = MarkovChain([[0.7, 0.3], [0.1, 0.9]])
    assert chain.second_eigenvalue == pytest.approx(0.6)
    assert chain.total_variation(4, "spectral") == pytest.approx(math.sqrt(0.75 / 0.25) * 0.6**4)
    assert chain.total_variation(4) == pytest.approx(0.6**4)


def test_the_spectral_bound_is_refused_where_it_is_wrong():
    """Erratum A8: the 2-bit de Bruijn chain has λ* = 0, so eq. 55 would say Δ(1) = 0; the truth is 1."""
    chain = MarkovChain(DE_BRUIJN)
    assert np.sort(np.abs(np.linalg.eigvals(chain.matrix)))[-2] < 1e-7
    assert chain.total_variation(1) == 1.0
    assert chain.total_variation(2) < 1e-10
    assert not chain.reversible
    for ask in (lambda: chain.total_variation(1, "spectral"), lambda: chain.theorem_2_spectral(1)):
        with pytest.raises(InvalidInput, match="reversible"):
            ask()
    with pytest.raises(InvalidInput, match="did you mean 'spectral'"):
        chain.total_variation(1, "spectal")


# Walks on graphs --------------------------------------------------------------------------------------------------


def graphs():
    """Every graph with up to 5 vertices, and some with 6 to 9."""
    for n in range(2, 6):
        pairs = list(itertools.combinations(range(n), 2))
        for mask in range(2 ** len(pairs)):
            yield n, [pair for i, pair in enumerate(pairs) if mask >> i & 1]
    rng = np.random.default_rng(2)
    for _ in range(150):
        n = int(rng.integers(6, 10))
        yield n, [pair for pair in itertools.combinations(range(n), 2) if rng.random() < 0.35]


def test_proposition_6_holds_but_for_bipartite_graphs():
    from scipy.sparse.csgraph import connected_components

    held = sides = 0
    for n, edges in graphs():
        adjacency = np.zeros((n, n), dtype=int)
        for a, b in edges:
            adjacency[a, b] = adjacency[b, a] = 1
        if connected_components(adjacency)[0] > 1:
            continue
        degree = adjacency.sum(axis=1)
        values = np.linalg.eigvalsh(adjacency / np.sqrt(np.outer(degree, degree)))
        true = max(abs(values[0]), values[-2])
        if true > 1 - 1e-9:
            sides += 1
            with pytest.raises(InvalidInput, match="bipartite"):
                graph_bound(adjacency)
        else:
            held += 1
            assert true <= graph_bound(adjacency) < 1 - 1 / n**3
    assert held > 500
    assert sides > 200


def test_as_printed_proposition_6_is_false_for_one_edge():
    edge = walk_on_graph([[0, 1], [1, 0]])
    assert edge.second_eigenvalue == pytest.approx(1.0)
    assert edge.amplify(1.0, 1000) == 1.0
    assert graph_bound([[1, 1], [1, 1]]) == 1 - 1 / (2 * 2 * 2)


@pytest.mark.parametrize(
    ("adjacency", "says"),
    [
        ([[0, 1], [0, 0]], "vertex 0 is joined to 1 but not the other way"),
        ([[0, 2], [2, 0]], "row 0, column 1 .* 0 or 1, not 2"),
        ([[0, 1, 0], [1, 0, 0], [0, 0, 1]], r"not connected: no way leads from vertex 0 to \[2\]"),
        ([[0, 1], [1]], "row 1 .* 1 entries"),
        ([[0]], "no neighbour"),
    ],
)
def test_what_is_no_graph_is_refused(adjacency, says):
    with pytest.raises(InvalidInput, match=says):
        graph_bound(adjacency)
    with pytest.raises(InvalidInput, match=says):
        walk_on_graph(adjacency)


# Aging ------------------------------------------------------------------------------------------------------------


def chi_square(counts, expected):
    return float(((counts - expected) ** 2 / expected).sum())


def test_aged_states_follow_the_row_of_the_kernel_back():
    """P < 1e−6 for the statistic at 2 degrees of freedom: 27.6; the kernel ahead instead of back would give thousands.

    Holds Definition 5.
    """
    chain = MarkovChain([[0.1, 0.8, 0.1], [0.1, 0.1, 0.8], [0.8, 0.1, 0.1]])
    rng, size, t = np.random.default_rng(4), 40_000, 2
    for x in range(3):
        drawn = np.bincount(chain.age(np.full(size, x), t, rng), minlength=3)
        assert chi_square(drawn, size * chain.kernel(t)[x]) < 27.6
        assert chi_square(drawn, size * chain.kernel(t, "ahead")[x]) > 1000


def test_corollary_1_an_aged_input_is_private_by_the_contraction_whatever_the_data_does():
    """Randomised response on an aged state: the classical loss about the input is K_t(ε) at most, and here exactly."""
    chain, epsilon, t = MarkovChain(LAZY), 1.0, 3
    told = np.array([[math.e, 1], [1, math.e]]) / (1 + math.e)
    of_input = chain.kernel(t) @ told
    loss = np.log(of_input.max(axis=0) / of_input.min(axis=0)).max()
    assert loss == pytest.approx(chain.amplify(epsilon, t), rel=1e-9)
    assert loss < chain.amplify(epsilon, t, "theorem1")


def test_states_that_are_none_are_not_aged():
    for states in ([2], [-1], [0.5]):
        with pytest.raises(InvalidInput, match="from 0 to 1"):
            MarkovChain(LAZY).age(np.array(states), 1, np.random.default_rng(0))


def test_samples_move_like_the_chain():
    chain = MarkovChain([[0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [0.3, 0.3, 0.4]])
    again = MarkovChain.fit([chain.sample(60_000, np.random.default_rng(8))])
    np.testing.assert_allclose(again.matrix, chain.matrix, atol=0.02)


# Fitting ----------------------------------------------------------------------------------------------------------


def test_a_fit_counts_pairs_of_all_sequences_and_none_with_a_missing_end():
    chain = MarkovChain.fit([[0, 1, 1, None, 0, 0], [1, 0, math.nan, 1, 0]])
    assert chain.matrix.tolist() == [[0.5, 0.5], [2 / 3, 1 / 3]]
    assert chain.fitted == {
        "sequences": 2,
        "readings": 9,
        "transitions": 5,
        "states": None,
        "merged": 0,
        "smoothing": 0.0,
        "edges": [0.5],
    }


def test_smoothing_is_added_to_every_count():
    chain = MarkovChain.fit([[0, 1, 1, 0, 0, 0]], smoothing=0.5)
    assert chain.matrix.tolist() == [[2.5 / 4, 1.5 / 4], [1.5 / 3, 1.5 / 3]]
    assert MarkovChain.fit([[0, 2, 0, 2, 0]], smoothing=1).matrix[1].tolist() == [1 / 3] * 3


def test_quantiles_are_of_all_sequences_together_and_ties_are_merged_and_said():
    chain = MarkovChain.fit([[1, 2, 3, 4, 3, 2, 1, 2], [5, 6, 7, 8, 7, 6, 5, 6, 1, 8]], states=2)
    assert chain.states == 2
    assert chain.fitted["edges"] == [np.median([1, 2, 3, 4, 3, 2, 1, 2, 5, 6, 7, 8, 7, 6, 5, 6, 1, 8])]
    tied = MarkovChain.fit([[0, 0, 0, 0, 1, 0, 0, 2, 0, 0, 3, 0]], states=4)
    assert (tied.states, tied.fitted["merged"], tied.fitted["states"]) == (2, 2, 4)


def test_edges_may_be_given():
    chain = MarkovChain.fit([[0.1, 5.0, 0.2, 0.3, 9.0, 7.0, 0.0]], states=[1.0])
    assert chain.matrix.tolist() == [[1 / 3, 2 / 3], [2 / 3, 1 / 3]]


def test_readings_that_never_change_are_a_chain_of_one_state():
    assert MarkovChain.fit([[3.0, 3.0, 3.0]], states=4).matrix.tolist() == [[1.0]]


@pytest.mark.parametrize(
    ("sequences", "options", "says"),
    [
        ([[0, 2, 0, 2, 0]], {}, "sequence 0: state 1 is never visited"),
        ([[0, 1, 0, 0, 2]], {}, "sequence 0: state 2 is never followed by a reading"),
        ([[0, 1, 0], [0, 2, None, 0]], {}, "the sequences: state 2 is never followed by a reading"),
        ([[0.5, 7.5, 0.5]], {"states": [1.0, 5.0]}, "state 1 is never visited"),
        ([[2, 0, 1, 0, 1]], {}, r"sequence 0: states \[2\] are left for ever.*smoothing above 0"),
        ([[0, 0], [1, 1]], {}, "the sequences: the chain is reducible"),
        ([[0, 1, 0], [1]], {}, "sequence 1 has 1 reading"),
        ([[0, 1, 0], [None, None]], {}, "sequence 1 has no reading"),
        ([[0, 1, 0], []], {}, "sequence 1"),
        ([[0, 1, "a"]], {}, "sequence 0 holds something that is no number"),
        ([[0, 1.5, 0]], {}, "whole numbers"),
        ([[0, 1, 0]], {"smoothing": -1}, "smoothing"),
        ([[0, 1, 0]], {"smoothing": math.nan}, "smoothing"),
        ([[0, 1, 0]], {"states": 1}, "states"),
        ([[0, 1, 0]], {"states": 201}, "200"),
        ("abc", {}, "sequences must be"),
    ],
)
def test_a_fit_that_cannot_be_had_names_what_is_missing(sequences, options, says):
    with pytest.raises(InvalidInput, match=says):
        MarkovChain.fit(sequences, **options)


def test_a_chain_can_be_written_down_with_how_it_was_fitted_and_checked():
    chain = MarkovChain.fit([[1.5, 2, 3.5, 1, 2.5, 3, 1, 2]], states=2, smoothing=0.25)
    chain = chain.with_check({"good": True, "outcome": "passed"})
    again = Process.from_dict(json.loads(json.dumps(chain.to_dict())))
    assert isinstance(again, MarkovChain)
    assert again == chain
    assert (again.fitted, again.checked) == (chain.fitted, {"good": True, "outcome": "passed"})
    assert "fitted" not in MarkovChain(LAZY).to_dict()
    assert MarkovChain(LAZY) != MarkovChain([[0.5, 0.5], [0.1, 0.9]])
    with pytest.raises(InvalidInput, match="fitted"):
        MarkovChain(LAZY, fitted="by hand")
    with pytest.raises(InvalidInput, match="matrx"):
        Process.from_dict({"name": "markov-chain", "matrx": LAZY})


def test_many_states_are_looked_at_together_and_soundly():
    """Four times as many states make sixteen times as many pairs, and take less than eight times the lines of Python."""
    rng = np.random.default_rng(6)
    small, chain = (MarkovChain(rng.dirichlet(np.full(n, 0.5), size=n)) for n in (50, 200))
    small.frontier(1)
    assert work(lambda: chain.frontier(2)) <= 8 * work(lambda: small.frontier(2))
    frontier = chain.frontier(2)
    kernel = chain.kernel(2)
    assert frontier.variation == pytest.approx(
        max(np.abs(kernel - row).sum(axis=1).max() for row in kernel) / 2, rel=1e-6
    )
    assert stationary(chain.matrix) @ chain.matrix == pytest.approx(chain.stationary, rel=1e-10)
