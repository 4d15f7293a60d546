"""Running totals from noisy nodes: exact over block cuts and restarts, never ahead, with a band that is never too narrow."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from halflife.errors import InvalidInput
from halflife.numerics.dyadic import find_node
from halflife.numerics.noise_sums import band_of_noises
from halflife.postprocessing.base import Facts
from halflife.postprocessing.chains import read_smoother
from halflife.postprocessing.running_total import RunningTotal

STEPS = 70


def make_nodes(endless, noise=0.0):
    """Values, noisy nodes and their scales."""
    random = np.random.default_rng(5)
    values, widths = random.normal(size=(STEPS, 2)), [find_node(k, endless).width for k in range(1, STEPS + 1)]
    nodes = np.array([values[k - m : k].sum(axis=0) for k, m in enumerate(widths, start=1)])
    return values, nodes + noise * random.normal(size=nodes.shape), random.uniform(1, 3, STEPS)


@pytest.mark.parametrize("endless", [False, True])
def test_totals_are_totals_and_their_nodes_cover_each_step_once(endless):
    values, nodes, scales = make_nodes(endless)
    totals, left = RunningTotal(endless).smooth(nodes, scales)
    assert totals == pytest.approx(np.cumsum(values, axis=0), abs=1e-12)
    for t in range(1, STEPS + 1):
        held, k = [], t
        while k:
            held.append(scales[k - 1])
            k -= find_node(k, endless).width
        assert len(held) == (
            t.bit_count() if not endless else t.bit_length() - 1 + (t + 1 - (1 << t.bit_length() - 1)).bit_count()
        )
        assert left[t - 1] * math.log(20) == pytest.approx(band_of_noises(np.array(held)), rel=1e-12)


@pytest.mark.parametrize("endless", [False, True])
@pytest.mark.parametrize("cut", [1, 5, 16, 64])
def test_any_cut_with_a_saved_state_gives_the_same_bits(endless, cut):
    _, nodes, scales = make_nodes(endless, noise=1.0)
    whole = RunningTotal(endless).smooth(nodes, scales)
    parts, going = [], RunningTotal(endless)
    for low in range(0, STEPS, cut):
        steps = np.arange(low + 1, min(low + cut, STEPS) + 1)
        parts.append(going.smooth(nodes[low : low + cut], scales[low : low + cut], Facts(steps)))
        state, going = json.loads(json.dumps(going.state())), read_smoother(going.to_facts())
        going.restore(state)
    for k in (0, 1):
        assert np.concatenate([part[k] for part in parts]).tobytes() == whole[k].tobytes()


def test_the_band_holds_95_of_100_and_a_scale_10_percent_smaller_does_not():
    random, runs = np.random.default_rng(1), 40_000
    total = RunningTotal()
    scales = np.array([1.0] * 7)
    errors = total.smooth(random.laplace(size=(7, runs)), scales)
    inside = [np.mean(np.abs(errors[0][k]) <= math.log(20) * errors[1][k]) for k in range(7)]
    assert inside == pytest.approx([0.95] * 7, abs=0.005)
    narrow = np.mean(np.abs(errors[0][6]) <= 0.9 * math.log(20) * errors[1][6])
    assert narrow < 0.94


def test_a_step_that_is_missing_is_refused():
    total = RunningTotal()
    total.smooth(np.ones((2, 1)), np.ones(2), Facts(np.array([1, 2])))
    with pytest.raises(InvalidInput, match="step 4 cannot follow step 2"):
        total.smooth(np.ones((1, 1)), np.ones(1), Facts(np.array([4])))
