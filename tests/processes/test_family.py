"""People with different processes: the worst of them, quickly."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from halflife import AutoRegressive, GeometricMixing, InvalidInput, MarkovChain, Process, ProcessFamily
from halflife.processes import EmpiricalProcess
from halflife.processes.contraction import contract, merge
from work import work

LOSSES = (1e-3, 0.1, 1.0, 4.0, 10.0, 30.0, 100.0)


def people(seed, size, most_states=6, sticky=True):
    rng = np.random.default_rng(seed)
    chains = []
    for _ in range(size):
        states = int(rng.integers(2, most_states + 1))
        stay = rng.uniform(0.2, 0.95) if sticky else 0.6
        chains.append(
            MarkovChain(stay * np.eye(states) + (1 - stay) * rng.dirichlet(np.full(states, 0.5), size=states))
        )
    return chains


@pytest.mark.diagonal
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("direction", ["back", "ahead"])
def test_the_frontier_is_that_of_all_members_merged(seed, direction):
    chains = people(seed, 30)
    crowd = ProcessFamily(chains)
    for t in (1, 2, 3, 7, 20, 60):
        brute = merge([chain.frontier(t, direction) for chain in chains])
        quick = crowd.frontier(t, direction)
        for epsilon in LOSSES:
            assert contract(quick, epsilon) == pytest.approx(contract(brute, epsilon), rel=1e-9, abs=1e-12)
            worst = max(chain.amplify(epsilon, t, direction=direction) for chain in chains)
            assert worst * (1 - 1e-12) <= crowd.amplify(epsilon, t, direction=direction) <= worst * (1 + 1e-9) + 1e-12


def test_every_question_is_answered_by_the_worst():
    quick, slow = MarkovChain([[0.6, 0.4], [0.4, 0.6]]), MarkovChain([[0.95, 0.05], [0.2, 0.8]])
    crowd = ProcessFamily([quick, slow])
    assert crowd.total_variation(3) == pytest.approx(slow.total_variation(3), rel=1e-12)
    assert crowd.total_variation(3, "spectral") == slow.total_variation(3, "spectral")
    assert crowd.spread(2) == slow.spread(2)
    assert crowd.amplify(1.0, 2, adversary="any-prior") == slow.amplify(1.0, 2, adversary="any-prior")
    assert crowd.amplify(math.inf, 2) == pytest.approx(slow.amplify(math.inf, 2))
    assert crowd.amplify(1.0, 0) == 1.0
    assert crowd.last_lag is None


def test_other_processes_may_be_among_them():
    mixed = ProcessFamily([MarkovChain([[0.6, 0.4], [0.4, 0.6]]), GeometricMixing(c=1.0, rho=0.9)])
    assert mixed.composes == "markov"
    assert mixed.amplify(1.0, 2) == pytest.approx(math.log(1 + 0.81 * (math.e - 1)))
    assert mixed.amplify(1.0, 2, direction="ahead") == 1.0
    with pytest.raises(InvalidInput, match="method for process-family"):
        mixed.total_variation(2, "spectral")
    with pytest.raises(InvalidInput, match="any prior"):
        mixed.amplify(1.0, 2, adversary="any-prior")


def test_one_who_is_not_markov_makes_at_most_one_release_fade():
    crowd = ProcessFamily([MarkovChain([[0.6, 0.4], [0.4, 0.6]]), AutoRegressive(0.9, 1.0, 1.0)])
    assert crowd.composes == "once"
    assert ProcessFamily(people(1, 3)).composes == "markov"
    ar = AutoRegressive(0.9, 1.0, 1.0)
    assert ar.amplify(1.0, 5) <= crowd.amplify(1.0, 5) <= ar.amplify(1.0, 5) * 1.0001


def test_states_are_merged_person_by_person_and_said():
    readings = [
        [1, 2, 3, 1, 2, 3, 2, 1, 3],
        [0, 0, 0, 5, 0, 0, 0, 0, 0, 0],
        [7, 7, 7, 7, 7, 7],
        [10, 20, None, 20, 30, 10, 30, math.nan, 30, 20, 10],
    ]
    crowd = ProcessFamily.fit(readings, states=3)
    assert [one.states for one in crowd.processes] == [3, 2, 1, 3]
    assert crowd.fitted == {
        "people": 4,
        "readings": 9 + 10 + 6 + 9,
        "transitions": 8 + 9 + 5 + 6,
        "states": 3,
        "merged": 2,
        "constant": 1,
        "smoothing": 0.0,
    }
    alone = MarkovChain.fit([readings[3]], states=3)
    assert np.array_equal(crowd.processes[3].matrix, alone.matrix)
    assert crowd.amplify(1.0, 1) == pytest.approx(max(one.amplify(1.0, 1) for one in crowd.processes))


def test_a_population_whose_readings_never_change_tells_nothing():
    crowd = ProcessFamily.fit([[1, 1, 1], [2, 2, 2]], states=4)
    assert crowd.amplify(3.0, 1) == 0.0
    assert crowd.amplify(3.0, 0) == 3.0


@pytest.mark.parametrize(
    ("sequences", "says"),
    [
        ([[1, 2, 1, 2], [1]], "person 1 has 1 reading"),
        ([[1, 2, 1, 2], [None, None]], "person 1 has no reading"),
        ([[1, 2, 1, 2], [1, 1, 1, 2]], "person 1: state 1 is never followed"),
        ([[1, 2, 1, 2], [1, 2, 2, 2]], r"person 1: states \[0\] are left for ever"),
    ],
)
def test_a_person_who_cannot_be_fitted_is_named(sequences, says):
    with pytest.raises(InvalidInput, match=says):
        ProcessFamily.fit(sequences, states=[1.5])
    assert len(ProcessFamily.fit([s for s in sequences if len(s) == 4], states=[1.5], smoothing=0.1).processes) in (
        1,
        2,
    )


@pytest.mark.parametrize("processes", [[], "ab", None, 3])
def test_nobody_is_no_population(processes):
    with pytest.raises(InvalidInput, match="at least one process"):
        ProcessFamily(processes)


def test_a_member_that_is_no_process_is_named():
    with pytest.raises(InvalidInput, match=r"person 1: .*unknown process"):
        ProcessFamily([MarkovChain([[1.0]]), {"name": "nothing"}])


def test_a_population_can_be_written_down():
    crowd = ProcessFamily.fit([[1, 2, 3, 1, 2, 3, 2, 1, 3, 1], [7, 7, 7, 7]], states=2)
    again = Process.from_dict(json.loads(json.dumps(crowd.to_dict())))
    assert isinstance(again, ProcessFamily)
    assert again == crowd
    assert again.fitted == crowd.fitted
    assert again.processes[0].fitted == crowd.processes[0].fitted


def test_everybody_ages_by_their_own_process():
    never, always = MarkovChain([[0.0, 1.0], [1.0, 0.0]]), MarkovChain([[1.0]])
    crowd = ProcessFamily([never, always])
    aged = crowd.age(np.array([[0, 1, 0], [0, 0, 0]]), 3, np.random.default_rng(0))
    assert aged.tolist() == [[1, 0, 1], [0, 0, 0]]
    with pytest.raises(InvalidInput, match="each of 2 people"):
        crowd.age(np.array([0, 0, 0]), 1, np.random.default_rng(0))


@pytest.mark.parametrize("alike", [False, True], ids=["different", "alike"])
def test_many_people_are_looked_at_together(alike):
    """Four times as many people take less than twice the lines of Python; a thousand leave a frontier of a few corners."""
    few, many = (crowd_of(n, alike) for n in (100, 400))
    crowd_of(10, alike).frontier(1)
    ages = range(1, 61, 20)
    assert work(lambda: [many.frontier(t) for t in ages]) <= 2 * work(lambda: [few.frontier(t) for t in ages])
    crowd = crowd_of(1_000, alike)
    assert max(len(crowd.frontier(t).q) for t in range(1, 201, 40)) < 60


def crowd_of(people, alike):
    rng = np.random.default_rng(0)
    near = np.exp(-np.abs(np.subtract.outer(np.arange(12), np.arange(12))))
    chains = []
    for _ in range(people):
        if alike:
            matrix = (np.eye(12) + near) * rng.uniform(0.95, 1.05, size=(12, 12))
        else:
            stay = rng.uniform(0.5, 0.98)
            matrix = stay * np.eye(12) + (1 - stay) * rng.dirichlet(np.full(12, 0.5), size=12)
        chains.append(MarkovChain(matrix / matrix.sum(axis=1, keepdims=True)))
    return ProcessFamily(chains)


def test_nothing_fades_beyond_what_is_known_of_anybody():
    """A person who is known for three lags: at the fourth everything counts, whatever shorter lags leave."""
    known = EmpiricalProcess([[[0.0], [0.1]]] * 3)
    both = ProcessFamily([known, MarkovChain([[0.6, 0.4], [0.4, 0.6]])])
    assert both.last_lag == 3
    assert [both.total_variation(t) for t in (4, 5, 100)] == [1.0, 1.0, 1.0]
    assert both.amplify(1.0, 3) < both.amplify(1.0, 4) == 1.0
