"""Running totals from a binary tree: nodes by brute force, what every window loses, variances, and the account's own reading."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from halflife import Accountant, InvalidInput, WEvent
from halflife.mechanisms import LaneDraw, ReleaseDraw, SimulatedDraw
from halflife.mechanisms.binary_tree import BinaryTree, count_nodes, largest_window
from halflife.testing import check_mechanism


class Recorder:
    """Draws without noise: what each release covers and its scale, by step."""

    def __init__(self):
        self.step, self.nodes = 0, []

    def __call__(self, key, sensitivity, *, loss, span=1, step_sensitivity=None):
        assert step_sensitivity == (None if span == 1 else sensitivity / span)
        self.nodes.append((self.step - span + 1, self.step, sensitivity / loss))
        return 0.0


def record(tree, steps):
    draw, outputs = Recorder(), []
    for draw.step in range(1, steps + 1):
        outputs.append(tree.step(draw.step, float(draw.step**2), draw))
    return outputs, draw.nodes


def lose(nodes, delta, begin, w):
    """What the data of w steps can lose: each node by how many of them it covers."""
    return sum(max(0, min(last, begin + w - 1) - max(first, begin) + 1) * delta / b for first, last, b in nodes)


@pytest.mark.parametrize("horizon", [1, 2, 7, 37, 64])
@pytest.mark.parametrize("w", [1, 2, 3, 8, 50])
def test_the_worst_window_loses_epsilon_and_totals_are_totals(w, horizon):
    outputs, nodes = record(BinaryTree(WEvent(0.7, w), 2.5, horizon=horizon), horizon)
    assert outputs == np.cumsum(np.arange(1.0, horizon + 1) ** 2).tolist()
    assert max(lose(nodes, 2.5, begin, w) for begin in range(2 - w, horizon + 1)) == pytest.approx(0.7, rel=1e-12)


@pytest.mark.parametrize("w", [1, 2, 5, 24])
def test_without_a_horizon_no_window_loses_more_than_epsilon(w):
    outputs, nodes = record(BinaryTree(WEvent(0.7, w), 2.5), 300)
    assert outputs == np.cumsum(np.arange(1.0, 301) ** 2).tolist()
    worst = max(lose(nodes, 2.5, begin, w) for begin in range(2 - w, 301))
    assert (0.5 if w > 1 else 0.999) * 0.7 < worst <= 0.7 * (1 + 1e-12)


def test_nodes_of_each_step_by_brute_force():
    for horizon in (1, 5, 16, 100):
        held = [sum(t - (t & -t) < i <= t for t in range(1, horizon + 1)) for i in range(1, horizon + 1)]
        assert count_nodes(horizon).tolist() == held
        for w in (1, 4, 200):
            width = min(w, horizon)
            sums = [sum(held[s : s + width]) for s in range(horizon - width + 1)]
            assert largest_window(np.array(held), w) == max(sums)


@pytest.mark.parametrize("horizon", [63, None])
@pytest.mark.parametrize("w", [1, 6])
def test_outputs_have_the_variance_that_is_told(w, horizon):
    notion, lanes = WEvent(1.0, w), 6000
    tree, draw = BinaryTree(notion, 2.0, horizon=horizon), SimulatedDraw([Accountant(notion)], seed=4, lanes=lanes)
    ratios = []
    for step in range(1, 64):
        total = draw.run(tree, step, np.full(lanes, 1.0))
        ratios.append(np.mean((total - step) ** 2) / tree.variance(step))
    assert np.mean(ratios) == pytest.approx(1, abs=0.03)
    assert min(ratios) > 0.85
    assert max(ratios) < 1.15


def test_known_sizes_after_a_year_of_half_hours_and_after_a_million_steps():
    """In Gaussian noise a tree of L levels has √(L · nodes) noise multipliers: at most 15.5 and 21. Laplace: √(2 · nodes)·L."""
    for steps, most in ((17_520, 15.5), (2**20, 21)):
        tree, levels = BinaryTree(WEvent(1.0, 1), horizon=steps), steps.bit_length()
        nodes = max(t.bit_count() for t in range(1, steps + 1))
        assert math.sqrt(levels * nodes) <= most
        assert tree.scale(1) == pytest.approx(levels)
        assert tree.variance(2 ** (levels - 1) - 1) == pytest.approx(2 * nodes * levels**2)


def test_having_no_horizon_costs_little():
    bounded = math.sqrt(BinaryTree(WEvent(1.0, 1), horizon=2**17).variance(2**17 - 1))
    unbounded = max(math.sqrt(BinaryTree(WEvent(1.0, 1)).variance(2**k - 2)) for k in range(2, 18))
    assert unbounded < 1.1 * bounded


@pytest.mark.parametrize(("w", "horizon"), [(1, 64), (5, 40), (5, None)])
def test_it_keeps_the_contract_of_mechanisms(w, horizon):
    check_mechanism(lambda: BinaryTree(WEvent(1.0, w), horizon=horizon), WEvent(1.0, w))


@pytest.mark.parametrize("w", [1, 4, 9])
def test_the_account_reads_what_the_proof_says(w):
    """Release-grade: the account's worst risk over all steps is that of the worst window, ε."""
    notion, horizon = WEvent(1.0, w), 40
    account, tree = Accountant(notion), BinaryTree(notion, horizon=horizon)
    draw, peaks = ReleaseDraw(account), []
    for step in range(1, horizon + 1):
        draw.run(tree, step, 3.0)
        peaks.append(account.risk(step))
    assert max(peaks) == pytest.approx(1.0, rel=1e-9)
    assert draw.releases[0].span == 8
    assert draw.releases[0].step_sensitivity == 1.0


def test_a_restored_tree_goes_on_over_the_end_of_a_tree():
    notion, outputs = WEvent(1.0, 3), []
    for stop in (None, 7, 12, 16):
        tree, draw, run = BinaryTree(notion), SimulatedDraw([Accountant(notion)], seed=1, lanes=2), []
        for step in range(1, 40):
            if step == stop:
                state = json.loads(json.dumps(tree.state()))
                tree = BinaryTree(notion)
                tree.restore(state)
            run.append(draw.run(tree, step, np.full(2, float(step))))
        outputs.append(np.array(run))
    assert all(np.array_equal(outputs[0], other) for other in outputs[1:])


def test_what_it_is_not_for():
    notion = WEvent(1.0, 3)
    with pytest.raises(InvalidInput, match="delta 0"):
        BinaryTree(WEvent(1.0, 3, 1e-6))
    with pytest.raises(InvalidInput, match="at most"):
        BinaryTree(notion, horizon=2**40)
    with pytest.raises(InvalidInput, match="after the horizon, 2"):
        record(BinaryTree(notion, horizon=2), 3)
    with pytest.raises(InvalidInput, match="needs each step, from 1 on"):
        ReleaseDraw(Accountant(notion)).run(BinaryTree(notion), 2, 1.0)
    with pytest.raises(InvalidInput, match="for one number about now"):
        draw, tree = LaneDraw(notion, seed=1, lanes=2), BinaryTree(notion)
        for step in range(1, 4):
            draw.run(tree, step, np.zeros(2))
