"""Readings as states, and how often one follows another."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halflife import InvalidInput
from halflife.processes import Process
from halflife.processes.sequences import pair_counts, quantise, read_sequences

readings = st.lists(st.one_of(st.integers(0, 6).map(float), st.just(math.nan)), min_size=1, max_size=60)


@pytest.mark.parametrize("given_as", [[1, 2, None], (1.0, 2.0, math.nan), np.array([1.0, 2.0, math.inf])])
def test_one_sequence_may_be_given_alone_and_what_is_not_finite_is_missing(given_as):
    (one,) = read_sequences(given_as)
    assert one[:2].tolist() == [1.0, 2.0]
    assert math.isnan(one[2])


def test_several_sequences_may_have_different_lengths():
    assert [len(s) for s in read_sequences([[1, 2, 3], [4]])] == [3, 1]
    assert [len(s) for s in read_sequences(np.ones((2, 5)))] == [5, 5]


@pytest.mark.parametrize(
    ("sequences", "says"),
    [
        ([], "list of lists"),
        ("12", "list of lists"),
        (None, "list of lists"),
        ([[1, 2], ["x"]], "sequence 1 holds something that is no number"),
        ([[1, 2], []], "sequence 1 must be a list of at least one number"),
        ([[1, 2], [[3]]], "sequence 1"),
    ],
)
def test_what_is_no_sequence_is_refused_by_its_place(sequences, says):
    with pytest.raises(InvalidInput, match=says):
        read_sequences(sequences)


@given(values=readings, states=st.integers(2, 8))
@settings(max_examples=200, deadline=None)
def test_quantile_states_are_ordered_used_and_never_merge_all_that_differs(values, states):
    values = np.array(values)
    known = np.isfinite(values)
    if not known.any():
        with pytest.raises(InvalidInput, match="without a single reading"):
            quantise(values, states)
        return
    found = quantise(values, states)
    assert found.state_count + found.merged == states
    assert (found.states[~known] == -1).all()
    assert set(found.states[known]) == set(range(found.state_count))
    order = np.argsort(values[known], kind="stable")
    assert (np.diff(found.states[known][order]) >= 0).all()
    assert all(len(set(found.states[values == v])) == 1 for v in set(values[known]))
    assert (found.state_count == 1) == (len(set(values[known])) == 1)


def test_without_ties_every_state_has_as_many_readings():
    found = quantise(np.random.default_rng(0).normal(size=1200), 12)
    assert np.bincount(found.states).tolist() == [100] * 12
    assert found.merged == 0


def test_a_meter_that_mostly_stands_still_keeps_two_states():
    values = np.zeros(100)
    values[[10, 50, 51]] = (1.0, 2.0, 3.0)
    found = quantise(values, 12)
    assert found.edges.tolist() == [1.0]
    assert (found.state_count, found.merged, int(found.states.sum())) == (2, 10, 3)


def test_edges_belong_to_the_state_above():
    found = quantise(np.array([0.0, 1.0, 1.5, 2.0, math.nan]), [1.0, 2.0])
    assert found.states.tolist() == [0, 1, 1, 2, -1]


@pytest.mark.parametrize(
    ("states", "says"),
    [([2.0, 1.0], "ascend"), ([1.0, math.nan], "ascend"), (1, "states"), (2.5, "states"), (500, "up to 200")],
)
def test_what_is_no_number_of_states_is_refused(states, says):
    with pytest.raises(InvalidInput, match=says):
        quantise(np.array([0.0, 1.0, 2.0]), states)


@pytest.mark.parametrize("value", [0.5, -1.0, 200.0])
def test_numbers_that_are_no_states_are_refused(value):
    with pytest.raises(InvalidInput, match="whole numbers from 0 to 199"):
        quantise(np.array([0.0, value]), None)


@given(values=st.lists(st.integers(-1, 3), min_size=6, max_size=40), lag=st.integers(0, 5), slots=st.integers(1, 4))
@settings(max_examples=100, deadline=None)
def test_pairs_are_counted_one_by_one(values, lag, slots):
    states, slot = np.array(values), np.arange(len(values)) % slots
    want = np.zeros((slots, 4, 4), dtype=int)
    for i in range(len(values) - lag):
        if values[i] >= 0 and values[i + lag] >= 0:
            want[i % slots, values[i], values[i + lag]] += 1
    assert np.array_equal(pair_counts(states, 4, lag), want.sum(axis=0))
    assert np.array_equal(pair_counts(states, 4, lag, slot, slots), want)


def test_a_sequence_shorter_than_the_lag_is_refused():
    with pytest.raises(InvalidInput, match="3 readings is too short for a lag of 3"):
        pair_counts(np.array([0, 1, 0]), 2, 3)


@pytest.mark.parametrize(
    ("about", "name", "parameters"),
    [
        ("matrix", "markov-chain", {"matrix": [[0.9, 0.2], [0.1, 0.9]]}),
        ("matrix", "markov-chain", {"matrix": [[1, 0], [0, 1]]}),
        ("fitted", "markov-chain", {"matrix": [[1]], "fitted": {"people": -1}}),
        ("fitted", "markov-chain", {"matrix": [[1]], "fitted": 3}),
        ("checked", "markov-chain", {"matrix": [[1]], "checked": {"good": "perhaps"}}),
        ("kernels", "periodic-markov-chain", {"kernels": [[[0.5, 0.6], [0.1, 0.9]]]}),
        ("kernels", "periodic-markov-chain", {"kernels": [[[1, 0], [0, 1]]]}),
        ("processes", "process-family", {"processes": [{"name": "geometric", "c": 1, "rho": 2}]}),
        ("bounds", "empirical", {"bounds": [[[0.1], [2]]]}),
        ("estimates", "empirical", {"bounds": [[[0.1], [0.2]]], "estimates": [3]}),
        ("medians", "empirical", {"bounds": [[[0.1], [0.2]]], "medians": ["x"]}),
        ("medians", "empirical", {"bounds": [[[0.1], [0.2]]], "medians": [0.1, 0.2]}),
        ("rho", "autoregressive", {"rho": 1.5, "sigma": 1, "span": 1}),
        ("rho", "autoregressive", {"rho": [0.1, 0.2], "sigma": 1, "span": 1}),
        ("span", "autoregressive", {"rho": 0.5, "sigma": 1, "span": 0}),
        ("c", "geometric", {"c": 0.5, "rho": 0.5}),
        ("rho", "geometric", {"c": 1, "rho": 1.5}),
    ],
)
def test_what_a_process_refuses_is_named_by_its_parameter(about, name, parameters):
    with pytest.raises(InvalidInput) as caught:
        Process.from_dict({"name": name, **parameters})
    assert caught.value.about == about
