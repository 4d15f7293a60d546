"""Quantiles from noisy trees: exact without noise, with errors as computed, and bands that hold them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import isotonic_regression

from halflife.errors import InvalidInput
from halflife.numerics.trees import CountTree, best_tree
from halflife.postprocessing.quantiles import TreeQuantiles, quantiles_of_tree

PASSED = {"laplace": math.log(20), "gaussian": 1.959963984540054}
"""What noise of scale 1 passes with 2.5 %, either way."""


def noise_of(family, scale, shape, seed):
    rng = np.random.default_rng(seed)
    return rng.laplace(0, scale, shape) if family == "laplace" else rng.normal(0, scale, shape)


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 60), st.integers(1, 500), st.booleans(), st.integers(0, 2**32 - 1))
def test_without_noise_the_band_is_the_bin_of_the_exact_quantile(bins, people, total, seed):
    rng = np.random.default_rng(seed)
    edges = np.cumsum(rng.integers(1, 5, bins + 1)).astype(float)
    readings = rng.uniform(edges[0], edges[-1], people)
    tree = best_tree(bins, "laplace", total=total)
    exact = tree.add_up(np.histogram(readings, edges)[0]).astype(float)[None]
    which = [0.013, 0.25, 0.5, 0.951]
    values, bands = quantiles_of_tree(exact, tree, edges, which, np.array([1e-7]))
    for q, value, band in zip(which, values[0], bands[0], strict=True):
        truth = np.quantile(readings, q, method="inverted_cdf")
        j = np.searchsorted(edges, truth, side="right") - 1
        if abs(np.histogram(readings, edges)[0].cumsum() - q * people).min() < 1e-6:
            continue  # an edge cannot be told from the quantile
        assert edges[j] - 1e-9 <= value <= edges[j + 1] + 1e-9
        assert band == pytest.approx(max(value - edges[j], edges[j + 1] - value))
    assert (np.diff(values[0]) >= -1e-9).all()


@pytest.mark.parametrize("family", ["laplace", "gaussian"])
@pytest.mark.parametrize("total", [False, True])
def test_the_error_of_a_median_is_what_the_variance_of_its_rank_says(family, total):
    """A median at an edge, people spread evenly: std = σ·√V / density. Wrong by 10 % is far outside 12,000 repetitions."""
    tree = best_tree(64, family, total=total)
    edges, runs, scale = np.linspace(0, 64, 65), 12_000, 1.0
    counts = np.full(64, 2_000)
    noisy = tree.add_up(counts) + noise_of(family, scale, (runs, tree.nodes), 3)
    values, _ = quantiles_of_tree(noisy, tree, edges, [0.5], np.full(runs, PASSED[family]))
    std = scale * (math.sqrt(2) if family == "laplace" else 1.0)
    expected = std * math.sqrt(tree.rank_variance(0.5)[32]) / 2_000
    assert values.std() == pytest.approx(expected, rel=0.04)
    assert values.mean() == pytest.approx(32, abs=4 * expected / math.sqrt(runs))


@pytest.mark.parametrize("family", ["laplace", "gaussian"])
@pytest.mark.parametrize("seed", [1, 2])
def test_bands_hold_the_exact_quantile(family, seed):
    rng = np.random.default_rng(seed)
    readings, edges = rng.gamma(4, 8, 400), np.linspace(0, 120, 61)
    readings = np.clip(readings, 0, 120)
    which, runs = [0.05, 0.5, 0.95], 3_000
    tree = best_tree(60, family, total=True)
    scale = 2.0 * tree.levels
    noisy = tree.add_up(np.histogram(readings, edges)[0]) + noise_of(family, scale, (runs, tree.nodes), seed)
    values, bands = quantiles_of_tree(noisy, tree, edges, which, np.full(runs, scale * PASSED[family]))
    truth = np.quantile(readings, which, method="inverted_cdf")
    held = (np.abs(values - truth) <= bands + 1e-9).mean(axis=0)
    assert (held > 0.95).all()
    assert (bands.mean(axis=0) < 60).all(), "a band as wide as the grid holds everything"
    assert (np.diff(values, axis=1) >= 0).all()


def test_an_edge_is_passed_by_mistake_as_often_as_said():
    """Exactly half are below edge 4. If |D̂_4| ≤ t both bins beside it are held, and the band is wider than 1; else one of them,
    and it is narrower: 5 % of the time. With t a tenth smaller it would be 7.8 %."""
    tree = CountTree(8, 2, True)
    edges, runs = np.arange(9.0), 40_000
    noisy = tree.add_up(np.full(8, 1_000)) + noise_of("gaussian", 1.0, (runs, tree.nodes), 5)
    _, bands = quantiles_of_tree(noisy, tree, edges, [0.5], np.full(runs, PASSED["gaussian"]))
    assert (bands < 1).mean() == pytest.approx(0.05, abs=0.005)


def tail_beyond_one_noise(weights):
    """P(Σ w_i X_i > ln 20·√Σw²) for Laplace noises X of scale 1, by Gil-Pelaez: ½ − (1/π)∫ sin(sx)/s · Π 1/(1 + w²s²) ds."""
    w = weights[np.abs(weights) > 1e-12]
    w = w / np.sqrt((w**2).sum())
    s = np.linspace(1e-9, 300, 60_001)
    logs = np.zeros_like(s)
    for one in w:
        logs += np.log1p((s * one) ** 2)
    return 0.5 - np.trapezoid(np.sin(s * math.log(20)) / s * np.exp(-logs), s) / math.pi


def test_sums_of_laplace_noises_pass_the_bound_less_often_than_one_does():
    assert tail_beyond_one_noise(np.array([1.0])) == pytest.approx(0.025, abs=1e-4)
    worst = 0.0
    for bins, total, q in [
        (2, False, 0.5),
        (5, True, 0.05),
        (8, False, 0.95),
        (16, True, 0.5),
        (64, True, 0.95),
        (100, False, 0.5),
    ]:
        tree = best_tree(bins, "laplace", total=total)
        below = np.cumsum(tree.estimate(np.eye(tree.nodes)), axis=1)
        weights = (below - q * below[:, -1:])[:, :-1]
        for j in range(0, weights.shape[1], max(1, bins // 12)):
            assert (weights[:, j] ** 2).sum() == pytest.approx(tree.rank_variance(q)[j + 1])
            worst = max(worst, tail_beyond_one_noise(weights[:, j]))
    assert 0.02 < worst < 0.025


def test_counts_that_fall_are_met_half_way():
    """Ĉ = 0, 10, 6, 10, 20; from below 0, 10, 10, 10, 20, from above 0, 6, 6, 10, 20: 9 lies half way from edge 2 to edge 3."""
    noisy = np.array([[10.0, -4.0, 4.0, 10.0]])
    values, _ = quantiles_of_tree(noisy, CountTree(4, 1, False), np.arange(5.0), [0.4, 0.45], np.array([1.0]))
    assert values[0] == pytest.approx([1.0, 2.5])


def test_isotonic_regression_has_the_same_error():
    rng = np.random.default_rng(4)
    readings, edges, runs = rng.normal(50, 15, 500).clip(0, 100), np.linspace(0, 100, 101), 300
    tree = best_tree(100, "laplace", total=True)
    noisy = tree.add_up(np.histogram(readings, edges)[0]) + rng.laplace(0, 8.0, (runs, tree.nodes))
    values, _ = quantiles_of_tree(noisy, tree, edges, [0.25], np.full(runs, 24.0))
    below = np.concatenate([np.zeros((runs, 1)), np.cumsum(tree.estimate(noisy), axis=1)], axis=1)
    rising = [isotonic_regression(row).x + 1e-9 * np.arange(101) for row in below]
    others = np.array([np.interp(0.25 * row[-1], up, edges) for row, up in zip(below, rising, strict=True)])
    ours, theirs = (np.sqrt(((x - np.quantile(readings, 0.25)) ** 2).mean()) for x in (values[:, 0], others))
    assert ours == pytest.approx(theirs, rel=0.05)


def test_where_noise_leaves_nobody_the_band_is_the_whole_grid():
    tree = CountTree(4, 1, True)
    noisy = np.array([[-3.0, -1.0, -1.0, -1.0, 0.0]])
    values, bands = quantiles_of_tree(
        noisy, tree, np.array([10.0, 20.0, 30.0, 40.0, 50.0]), [0.1, 0.9], np.array([1.0])
    )
    assert values.tolist() == [[30.0, 30.0]]
    assert bands.tolist() == [[20.0, 20.0]]


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 40), st.booleans(), st.floats(0, 1e6), st.integers(0, 2**32 - 1))
def test_values_lie_in_the_grid_and_bands_reach_no_further(bins, total, scale, seed):
    tree = best_tree(bins, "gaussian", total=total)
    edges = np.linspace(-7, 5, bins + 1)
    noisy = noise_of("gaussian", scale, (5, tree.nodes), seed)
    values, bands = quantiles_of_tree(noisy, tree, edges, [0.01, 0.5, 0.99], np.full(5, scale))
    assert ((values >= -7) & (values <= 5) & (bands >= 0) & (bands <= 12 + 1e-9)).all()
    assert (np.diff(values, axis=1) >= -1e-9).all()


def test_groups_are_worked_out_one_by_one():
    tree = best_tree(30, "laplace", total=True)
    rule = TreeQuantiles(tree, tuple(np.linspace(0, 3, 31)), (0.25, 0.75))
    noisy = np.random.default_rng(1).normal(50, 20, (4, 3, tree.nodes))
    together = rule.of(noisy.reshape(4, -1), np.arange(1.0, 5.0)).reshape(4, 2, 3, 2)
    for step in range(4):
        for group in range(3):
            alone = rule.of(noisy[step, group][None], np.array([step + 1.0]))[0]
            assert np.array_equal(together[step, :, group].ravel(), alone)


def test_numbers_of_another_tree_are_refused():
    with pytest.raises(InvalidInput, match=r"5 nodes and 5 edges are needed, not \(1, 4\) and 5"):
        quantiles_of_tree(np.zeros((1, 4)), CountTree(4, 1, True), np.arange(5.0), [0.5], np.ones(1))
