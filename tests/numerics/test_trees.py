"""Trees of counts: their nodes, least-squares counts and variances, against dense linear algebra."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halflife.errors import InvalidInput
from halflife.numerics.trees import CountTree, best_tree

SHAPES = [(2, 1), (3, 1), (3, 2), (5, 3), (7, 2), (16, 4), (27, 3), (33, 2), (100, 3)]


def all_trees(most_bins):
    """Every tree of up to so many bins."""
    for bins in range(2, most_bins + 1):
        for levels in range(1, (bins - 1).bit_length() + 1):
            for total in (False, True):
                try:
                    yield CountTree(bins, levels, total)
                except InvalidInput:
                    continue


def matrix_of(tree):
    """The nodes as sums of bins, by what the docstring says and nothing else."""
    b, rows = tree.branching, []
    for level in range(0 if tree.total else 1, tree.levels + 1):
        width = b ** (tree.levels - level)
        rows += [[float(i // width == node) for i in range(tree.bins)] for node in range(-(-tree.bins // width))]
    return np.array(rows)


def test_nodes_are_sums_of_neighbouring_bins():
    rng = np.random.default_rng(1)
    for tree in all_trees(20):
        counts = rng.integers(0, 9, (2, 3, tree.bins))
        assert tree.nodes == len(matrix_of(tree))
        assert np.array_equal(tree.add_up(counts), counts @ matrix_of(tree).T)


@pytest.mark.parametrize("total", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_counts_are_those_of_least_squares(shape, total):
    tree = CountTree(*shape, total)
    noisy = np.random.default_rng(2).normal(20, 10, (3, tree.nodes))
    expected = np.linalg.lstsq(matrix_of(tree), noisy.T, rcond=None)[0].T
    assert np.allclose(tree.estimate(noisy), expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("total", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("q", [0.05, 0.5, 0.95])
def test_the_variance_of_a_rank_is_that_of_least_squares(shape, total, q):
    """Var(c·x̂) = cᵀ(AᵀA)⁻¹c for noise of variance 1 on every node."""
    tree = CountTree(*shape, total)
    A = matrix_of(tree)
    c = np.tril(np.ones((tree.bins + 1, tree.bins)), -1) - q
    expected = np.einsum("ij,jk,ik->i", c, np.linalg.inv(A.T @ A), c)
    assert np.allclose(tree.rank_variance(q), expected, rtol=1e-9)


@settings(max_examples=50, deadline=None)
@given(st.integers(2, 300), st.integers(1, 8), st.booleans(), st.integers(0, 2**32 - 1))
def test_counts_without_noise_come_back(bins, levels, total, seed):
    try:
        tree = CountTree(bins, levels, total)
    except InvalidInput:
        return
    counts = np.random.default_rng(seed).integers(0, 1000, bins)
    assert np.allclose(tree.estimate(tree.add_up(counts).astype(float)), counts, atol=1e-6)
    assert tree.sizes[0] == 1
    assert tree.sizes[1] >= 2
    assert tree.sizes[-1] == bins


@pytest.mark.diagonal
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("bins", [2, 10, 47, 100, 256])
def test_no_other_number_of_levels_has_less_error(bins, noise):
    """By dense linear algebra: L²·V for Laplace noise, L·V for Gaussian."""
    chosen, errors = best_tree(bins, noise, total=True), {}
    for levels in range(1, (bins - 1).bit_length() + 1):
        try:
            tree = CountTree(bins, levels, True)
        except InvalidInput:
            continue
        A = matrix_of(tree)
        c = np.tril(np.ones((bins + 1, bins)), -1)[1:-1] - 0.5
        mean = np.einsum("ij,jk,ik->i", c, np.linalg.inv(A.T @ A), c).mean()
        errors[levels] = levels ** (2 if noise == "laplace" else 1) * mean
    assert errors[chosen.levels] == pytest.approx(min(errors.values()))


def test_wide_levels_are_better_than_halves_under_laplace_noise():
    """What the docstring says of 100 bins."""
    binary, chosen, flat = CountTree(100, 7, True), best_tree(100, "laplace", total=True), CountTree(100, 1, True)
    assert 2 * chosen.rank_error / (7 * binary.rank_error) == pytest.approx(0.55, abs=0.005)
    assert 2 * chosen.rank_error / flat.rank_error == pytest.approx(0.86, abs=0.005)
    smooth = best_tree(100, "gaussian", total=True)
    assert np.sqrt(3) * smooth.rank_error / (np.sqrt(7) * binary.rank_error) == pytest.approx(0.97, abs=0.005)


@pytest.mark.parametrize(("bins", "levels"), [(1, 1), (4, 0), (4, 3), (17, 4)])
def test_a_tree_with_a_level_too_many_or_without_bins_is_refused(bins, levels):
    if (bins, levels) == (17, 4):  # b = 3: 27 ≥ 17, so the first level would count everybody
        assert 3**4 >= 17 > 2**4
    with pytest.raises(InvalidInput):
        CountTree(bins, levels, False)
