"""A chain with a clock: laws, kernels from every slot, the worst of them, fitting, and what is refused."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest

from halflife import InvalidInput, MarkovChain, PeriodicMarkovChain, Process, ProcessFamily
from halflife.processes.contraction import contract, frontier_of, merge
from work import work

NIGHT, DAY, EVENING = [[0.9, 0.1], [0.5, 0.5]], [[0.6, 0.4], [0.4, 0.6]], [[0.2, 0.8], [0.1, 0.9]]


def random_cycle(seed, slots, states, sharp=0.5):
    rng = np.random.default_rng(seed)
    return PeriodicMarkovChain(0.3 * np.eye(states) + 0.7 * rng.dirichlet(np.full(states, sharp), size=(slots, states)))


def test_one_slot_is_a_markov_chain():
    matrix = [[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4]]
    clock, plain = PeriodicMarkovChain([matrix]), MarkovChain(matrix)
    np.testing.assert_allclose(clock.laws[0], plain.stationary, rtol=1e-12)
    for t, epsilon in itertools.product((1, 2, 5, 33), (0.1, 1.0, 10.0)):
        for direction in ("back", "ahead"):
            assert clock.amplify(epsilon, t, direction=direction) == pytest.approx(
                plain.amplify(epsilon, t, direction=direction), rel=1e-8
            )
        assert clock.amplify(epsilon, t, adversary="any-prior") == pytest.approx(
            plain.amplify(epsilon, t, adversary="any-prior"), rel=1e-9
        )


def test_equal_kernels_in_every_slot_are_one_markov_chain():
    clock, plain = PeriodicMarkovChain([NIGHT] * 5), MarkovChain(NIGHT)
    assert clock.amplify(1.0, 7) == pytest.approx(plain.amplify(1.0, 7), rel=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_laws_repeat_from_cycle_to_cycle(seed):
    chain = random_cycle(seed, 4, 3)
    for s in range(4):
        np.testing.assert_allclose(chain.laws[s] @ chain.kernels[s], chain.laws[(s + 1) % 4], rtol=1e-12)
    np.testing.assert_allclose(chain.laws.sum(axis=1), 1)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("t", [1, 2, 3, 5])
def test_kernels_are_bayes_rule_over_all_paths_from_every_slot(seed, t):
    chain = random_cycle(seed, 3, 2)
    for slot in range(3):
        start = (slot - t) % 3
        joint = np.zeros((2, 2))  # before, now
        for path in itertools.product(range(2), repeat=t + 1):
            steps = [chain.kernels[(start + i) % 3][a, b] for i, (a, b) in enumerate(itertools.pairwise(path))]
            joint[path[0], path[-1]] += chain.laws[start][path[0]] * math.prod(steps)
        np.testing.assert_allclose(chain.kernel(t, slot=slot), (joint / joint.sum(axis=0)).T, rtol=1e-11)
        np.testing.assert_allclose(
            chain.kernel(t, "ahead", slot=start), joint / joint.sum(axis=1, keepdims=True), rtol=1e-11
        )


@pytest.mark.parametrize("direction", ["back", "ahead"])
def test_the_frontier_is_the_worst_slot(direction):
    chain = random_cycle(3, 5, 4)
    for t in (1, 2, 4, 9):
        each = [frontier_of(chain.kernel(t, direction, slot)) for slot in range(5)]
        for epsilon in (0.1, 1.0, 5.0, 20.0):
            worst = contract(merge(each), epsilon)
            assert worst * (1 - 1e-12) <= contract(chain.frontier(t, direction), epsilon) <= worst * (1 + 1e-7) + 1e-11
    assert max(f.variation for f in each) > 1.05 * min(f.variation for f in each)


def test_kernels_over_a_million_steps_are_whole_cycles_and_a_rest():
    slow = [np.eye(2) * (1 - 1e-6) + 1e-6 * np.array(kernel) for kernel in (NIGHT, DAY, EVENING)]
    chain, t = PeriodicMarkovChain(slow), 10**6
    cycle = slow[0] @ slow[1] @ slow[2]
    want = np.linalg.matrix_power(cycle, t // 3) @ slow[0]
    np.testing.assert_allclose(chain.kernel(t, "ahead", slot=0), want, rtol=1e-8)
    assert chain.amplify(1.0, 10**8) == chain.amplify(1.0, 10**6)


def test_two_gaps_fade_no_more_than_one_long_one():
    chain = random_cycle(8, 4, 3)
    for s, t, epsilon in itertools.product((1, 2, 3), (1, 2), (0.5, 4.0)):
        assert chain.amplify(epsilon, s + t) <= chain.amplify(chain.amplify(epsilon, s), t) + 1e-9


def test_what_the_clock_explains_is_not_about_the_person():
    """High by day and low by night, for everybody: a chain without a clock sees memory where there is none."""
    clockwork = [[[0.1, 0.9]] * 2, [[0.9, 0.1]] * 2]
    chain = PeriodicMarkovChain(clockwork)
    assert chain.amplify(1.0, 1) < 1e-10
    readings = chain.sample(40_000, np.random.default_rng(1)).astype(float)
    assert MarkovChain.fit([readings]).total_variation(1) > 0.6
    assert PeriodicMarkovChain.fit([readings], None, slots=2).total_variation(1) < 0.03


def test_a_state_that_is_impossible_at_some_times_is_left_out_there():
    """State 2 only occurs in slot 1; the row that kernel 0 gives it is never used."""
    out, back = [[0.4, 0.3, 0.3], [0.2, 0.2, 0.6], [1, 0, 0]], [[0.5, 0.5, 0], [0.1, 0.9, 0], [0.6, 0.4, 0]]
    chain = PeriodicMarkovChain([out, back])
    assert chain.laws[0, 2] == 0.0
    assert (chain.laws[1] > 0).all()
    other = PeriodicMarkovChain([[*out[:2], [0, 0, 1]], back])
    for t in (1, 2, 3):
        assert chain.amplify(1.0, t) == pytest.approx(other.amplify(1.0, t), rel=1e-12)
        assert chain.spread(t) == pytest.approx(other.spread(t), rel=1e-12)
    back_from_0 = chain.kernel(1, slot=0)[:2]
    brute = np.abs(back_from_0[0] - back_from_0[1]).sum() / 2
    back_from_1 = chain.kernel(1, slot=1)
    brute = max([brute, *(np.abs(a - b).sum() / 2 for a in back_from_1 for b in back_from_1)])
    assert chain.total_variation(1) == pytest.approx(brute, rel=1e-9)
    with pytest.raises(InvalidInput, match="state 2 is impossible in slot 0"):
        chain.age(np.array([0, 2]), 1, np.random.default_rng(0), slot=0)


def test_a_reducible_cycle_is_refused_also_if_every_kernel_alone_is_not():
    swap = [[0, 1], [1, 0]]
    with pytest.raises(InvalidInput, match=r"cycle is reducible.*\[\[0\], \[1\]\]"):
        PeriodicMarkovChain([swap, swap])
    MarkovChain(swap)


def test_a_cycle_may_be_irreducible_though_its_kernels_are_not():
    chain = PeriodicMarkovChain([[[1, 0], [0, 1]], DAY])
    assert chain.total_variation(1) == 1.0
    assert chain.total_variation(2) == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("kernels", "says"),
    [
        ([NIGHT, [[0.5, 0.5], [0.5, 0.4]]], "row 1 of kernel 1 sums to 0.9"),
        ([NIGHT, [[0.5, 0.5], [-0.5, 1.5]]], "row 1, column 0 of kernel 1 is negative"),
        ([NIGHT, [[1.0]]], "kernel 1 has 1 states, and kernel 0 has 2"),
        ([], "one a slot"),
        ("ab", "one a slot"),
        ([[[1.0]]] * 1001, "up to 1,000 slots"),
    ],
)
def test_what_is_no_cycle_is_refused_by_slot_and_row(kernels, says):
    with pytest.raises(InvalidInput, match=says):
        PeriodicMarkovChain(kernels)


def test_aged_states_follow_the_kernel_of_their_slot():
    """The statistic has 1 degree of freedom: 23.9 is P = 1e−6; the kernel of the other slot would give hundreds."""
    chain, rng, size = PeriodicMarkovChain([NIGHT, EVENING]), np.random.default_rng(5), 20_000
    for slot, x in itertools.product((0, 1), (0, 1)):
        drawn = np.bincount(chain.age(np.full(size, x), 1, rng, slot=slot), minlength=2)
        for other in (0, 1):
            want = size * chain.kernel(1, slot=other)[x]
            statistic = ((drawn - want) ** 2 / want).sum()
            assert (statistic < 23.9) == (other == slot)


# Fitting ----------------------------------------------------------------------------------------------------------


def test_a_fit_counts_pairs_by_the_slot_they_start_in():
    chain = PeriodicMarkovChain.fit([[0, 1, 0, 0, 1, None, 1, 0, 1], [1, 1, 0, 1, 1, 0]], None, slots=2)
    # slot 0: 0→1, 0→0, 1→0, 1→1, 0→1, 1→0   slot 1: 1→0, 0→1, 0→1, 1→0, 1→1
    np.testing.assert_allclose(chain.kernels, [[[1 / 3, 2 / 3], [2 / 3, 1 / 3]], [[0, 1], [2 / 3, 1 / 3]]])
    assert chain.fitted["transitions"] == 11
    assert (chain.fitted["slots"], chain.fitted["impossible"], chain.fitted["smoothing"]) == (2, 0, 0.0)


def test_smoothing_reaches_every_slot_and_state():
    chain = PeriodicMarkovChain.fit([[0, 1, 0, 1, 0]], None, slots=2, smoothing=1.0)
    np.testing.assert_allclose(chain.kernels[0], [[1 / 4, 3 / 4], [1 / 2, 1 / 2]])
    assert chain.fitted["impossible"] == 2


def test_states_that_never_occur_in_a_slot_are_impossible_there_and_counted():
    chain = PeriodicMarkovChain.fit([[0, 1, 0, 2, 0, 1, 0, 2, 0]], None, slots=2)
    assert chain.fitted["impossible"] == 3
    assert chain.laws.round(6).tolist() == [[1.0, 0.0, 0.0], [0.0, 0.5, 0.5]]
    assert chain.total_variation(1) < 1e-10


def test_a_fit_finds_the_kernels_that_data_was_drawn_from():
    chain = random_cycle(2, 6, 3)
    again = PeriodicMarkovChain.fit([chain.sample(60_000, np.random.default_rng(9))], None, slots=6)
    np.testing.assert_allclose(again.kernels, chain.kernels, atol=0.035)


@pytest.mark.parametrize(
    ("sequences", "options", "says"),
    [
        ([[0, 1, 0, 1, 1]], {"slots": 2}, "state 1 in slot 0 is never followed by a reading"),
        ([[0, 1], [0]], {"slots": 2}, "sequence 1 has 1 reading"),
        ([[0, 1, 0, 1]], {"slots": 0}, "slots"),
        ([[0, 1, 0, 1]], {"slots": 1.5}, "slots"),
        ([[0, 1, 0, 1]], {"slots": 2000}, "1,000 slots"),
        ([[0, 0, 0], [1, 1, 1]], {"slots": 2}, "cycle is reducible.*smoothing"),
        ([[0, 1, 0, 1]], {"slots": 2, "smoothing": -0.1}, "smoothing"),
    ],
)
def test_a_fit_that_cannot_be_had_says_why(sequences, options, says):
    with pytest.raises(InvalidInput, match=says):
        PeriodicMarkovChain.fit(sequences, None, **options)


def test_it_can_be_written_down_and_be_one_of_a_population():
    chain = PeriodicMarkovChain.fit([[0, 1, 0, 0, 1, None, 1, 0, 1], [1, 1, 0, 1, 1, 0]], None, slots=2)
    again = Process.from_dict(json.loads(json.dumps(chain.to_dict())))
    assert again == chain
    assert again.fitted == chain.fitted
    assert ProcessFamily([chain, MarkovChain(DAY)]).amplify(1.0, 1) == pytest.approx(
        max(chain.amplify(1.0, 1), MarkovChain(DAY).amplify(1.0, 1))
    )


def test_more_slots_and_states_are_looked_at_together():
    """A day of half hours with twelve states: four times as many slots, or states, take less than twice the lines of Python."""

    def taken(slots, states, lags=12):
        chain = random_cycle(4, slots, states)
        return work(lambda: [chain.frontier(t) for t in range(1, lags + 1)])

    taken(2, 2)
    assert taken(48, 12) <= 2 * taken(12, 12)
    assert taken(12, 12) <= 2 * taken(12, 3)
    assert taken(12, 12, lags=48) <= 6 * taken(12, 12)
