"""Releases that cover several steps under age-dependent privacy, against the enumeration of every path of a chain."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halflife import Accountant, AgeDependent, AutoRegressive, EmpiricalProcess, InvalidInput, MarkovChain, Release

LAZY = np.array([[0.9, 0.1], [0.1, 0.9]])
UNEVEN = np.array([[0.7, 0.3], [0.1, 0.9]])
WALK = np.array([[0.6, 0.4, 0.0], [0.2, 0.5, 0.3], [0.1, 0.0, 0.9]])


def paths_of(matrix, steps):
    """Every path of steps 1 … n of a stationary chain, and its probability."""
    states = len(matrix)
    values, vectors = np.linalg.eig(matrix.T)
    law = np.real(vectors[:, np.argmax(np.real(values))])
    law = law / law.sum()
    paths = np.array(list(product(range(states), repeat=steps)))
    chance = law[paths[:, 0]]
    for a, b in zip(range(steps - 1), range(1, steps), strict=True):
        chance = chance * matrix[paths[:, a], paths[:, b]]
    return paths, chance


def told_about(matrix, steps, likelihoods, moment):
    """The range of ln P(outputs | X_moment), for one combination of outputs: likelihood of each path in, loss out."""
    paths, chance = paths_of(matrix, steps)
    here = paths[:, moment - 1]
    total = np.prod(likelihoods, axis=0) * chance
    by_state = np.array([total[here == x].sum() / chance[here == x].sum() for x in range(len(matrix))])
    return float(np.log(by_state.max() / by_state.min()))


def answered(matrix, steps, first, last, table, loss):
    """The likelihood of "yes" on each path, of a randomised response to any question about the states at first … last."""
    paths, _ = paths_of(matrix, steps)
    code = paths[:, first - 1 : last] @ len(matrix) ** np.arange(last - first + 1)
    return np.where(np.array(table)[code], math.exp(loss), 1.0)


def questions(matrix, first, last):
    """Every question about these states; "no" to one of them is "yes" to another."""
    return product((False, True), repeat=len(matrix) ** (last - first + 1))


def account_of(matrix, now, releases, **options):
    """The account after releases (first step, last step, loss), all of them published at `now`."""
    made = [Release(now, loss, now - last, span=last - first + 1) for first, last, loss in releases]
    return Accountant.replay(AgeDependent(99.0, MarkovChain(matrix), **options), made)


CASES = [
    ("one", [(1, 3, 0.7)]),
    ("side by side", [(1, 2, 0.7), (3, 4, 0.5)]),
    ("overlapping", [(1, 2, 0.7), (2, 3, 0.5)]),
    ("over an earlier one", [(2, 2, 0.7), (1, 3, 0.5)]),
    ("the same steps", [(1, 2, 0.7), (1, 2, 0.5)]),
    ("wide, then one step each", [(1, 2, 0.4), (3, 3, 0.7), (4, 4, 0.3)]),
]


@pytest.mark.diagonal
@pytest.mark.parametrize("matrix", [LAZY, UNEVEN], ids=["lazy", "uneven"])
@pytest.mark.parametrize("releases", [c for _, c in CASES], ids=[name for name, _ in CASES])
@pytest.mark.parametrize("now", [4, 5])
def test_every_question_about_every_path_tells_at_most_what_is_charged(matrix, releases, now):
    """Charged in full at the newest step, which a question about that step alone attains on two states."""
    asked = [
        [answered(matrix, now, first, last, table, loss) for table in questions(matrix, first, last)]
        for first, last, loss in releases
    ]
    worst = max(told_about(matrix, now, combination, now) for combination in product(*asked))
    for options in ({}, {"bound": "pairwise"}):
        risk = account_of(matrix, now, releases, **options).risk(now)
        assert worst <= risk * (1 + 1e-12)
        assert risk <= worst * (1 + 1e-9)
    for options in ({"bound": "paper"}, {"adversary": "any-prior"}):
        assert worst <= account_of(matrix, now, releases, **options).risk(now) * (1 + 1e-12)


@pytest.mark.diagonal
@pytest.mark.parametrize("about", [1, 2, 3, 4])
@pytest.mark.parametrize("releases", [c for _, c in CASES[:-1]], ids=[name for name, _ in CASES[:-1]])
def test_the_past_is_told_at_most_what_is_charged(releases, about):
    """About a step that a release covers it counts in full, and otherwise at the nearer end of what it covers."""
    asked = [
        [answered(UNEVEN, 4, first, last, table, loss) for table in questions(UNEVEN, first, last)]
        for first, last, loss in releases
    ]
    worst = max(told_about(UNEVEN, 4, combination, about) for combination in product(*asked))
    charged = account_of(UNEVEN, 4, releases).retrospective(4, about)
    assert worst <= charged * (1 + 1e-12)
    assert charged <= worst * 1.35
    if len(releases) == 1:
        assert charged == pytest.approx(worst, rel=1e-9)


@settings(max_examples=60)
@given(st.data())
def test_no_chain_of_three_states_tells_more(data):
    """Any spans, any questions and any losses, on a chain that jumps over states."""
    steps, likelihoods, releases = 4, [], []
    for _ in range(data.draw(st.integers(1, 4))):
        last = data.draw(st.integers(1, steps))
        first = data.draw(st.integers(max(1, last - 2), last))
        loss = data.draw(st.floats(0.05, 2.0))
        table = data.draw(st.lists(st.booleans(), min_size=3 ** (last - first + 1), max_size=3 ** (last - first + 1)))
        likelihoods.append(answered(WALK, steps, first, last, table, loss))
        releases.append((first, last, loss))
    account = account_of(WALK, steps, releases)
    assert told_about(WALK, steps, likelihoods, steps) <= account.risk(steps) * (1 + 1e-12)
    for about in range(1, steps + 1):
        assert told_about(WALK, steps, likelihoods, about) <= account.retrospective(steps, about) * (1 + 1e-12)


def test_gaussian_noise_on_spans_keeps_its_delta():
    """Two Gaussian releases of sums that share a step: the hockey-stick divergence of their joint density, on a grid."""
    now, mu, delta = 4, 0.8, 1e-2
    paths, chance = paths_of(UNEVEN, now)
    sums = [(paths[:, :2].sum(axis=1), 2), (paths[:, 1:3].sum(axis=1), 2)]
    grid = np.arange(-9, 11, 0.05)

    def density(values, delta_f):
        return np.exp(-(((grid - values[:, None]) * mu / delta_f) ** 2) / 2) * mu / delta_f / math.sqrt(2 * math.pi)

    one, two = (density(*s) for s in sums)
    here = paths[:, now - 1]
    given_state = [
        np.einsum("p,pa,pb->ab", chance[here == x] / chance[here == x].sum(), one[here == x], two[here == x])
        for x in range(2)
    ]
    made = [Release(now, mu, now - last, noise="gaussian", sensitivity=2.0, span=2) for last in (2, 3)]
    risk = Accountant.replay(AgeDependent(9.0, MarkovChain(UNEVEN), delta=delta), made).risk(now)
    for a, b in ((0, 1), (1, 0)):
        told = np.maximum(given_state[a] - math.exp(risk) * given_state[b], 0).sum() * 0.05**2
        assert told <= delta
    assert np.maximum(given_state[1] - math.exp(risk / 40) * given_state[0], 0).sum() * 0.05**2 > delta


def test_a_process_that_is_not_markov_would_tell_more():
    """X_t = X_{t−2} with fair coins between: K_1 = 0, yet a release that covers t − 2 and t − 1 tells all of X_t."""
    paths = np.array([(a, b, a) for a in range(2) for b in range(2)])
    yes = np.where(paths[:, 0] == 1, math.e, 1.0)
    by_state = [yes[paths[:, 2] == x].mean() for x in range(2)]
    assert math.log(by_state[1] / by_state[0]) == pytest.approx(1.0)


def test_processes_without_the_markov_property_refuse_spans():
    empirical = EmpiricalProcess.fit([[0, 1, 0, 1, 1, 0, 1, 1] * 40], None, lags=9)
    for notion in (AgeDependent(1.0, AutoRegressive(0.9, 0.1, 1.0)), AgeDependent(1.0, empirical, horizon=9)):
        assert not notion.charges_spans
        with pytest.raises(InvalidInput, match="what a release about 2 steps costs under age-dependent"):
            Accountant(notion).admit(Release(5, 0.1, span=2))
        with pytest.raises(InvalidInput, match="what a release about 2 steps"):
            Accountant(notion).headroom(5, span=2)
        with pytest.raises(InvalidInput, match="what a release about 2 steps"):
            notion.plan(span=2)


def test_an_account_remembers_which_steps_were_covered():
    account = account_of(UNEVEN, 6, [(2, 4, 0.3), (4, 4, 0.2), (3, 6, 0.1), (6, 6, 0.2)])
    rows = account.notion.dump(account._state)["kept"]["past"]
    assert [(row[0], row[3:]) for row in rows] == [(4, [2]), (6, [3])]
    back = Accountant.from_json(account.to_json())
    assert back.to_json() == account.to_json()
    assert [back.retrospective(6, s) for s in (1, 2, 5)] == [account.retrospective(6, s) for s in (1, 2, 5)]
    plain = account_of(UNEVEN, 6, [(4, 4, 0.5), (6, 6, 0.3)])
    assert all(len(row) == 3 for row in plain.notion.dump(plain._state)["kept"]["past"])
    assert plain.risk(9) == pytest.approx(account.risk(9), rel=1e-14)
    state = account.notion.dump(account._state)
    state["kept"]["past"][0][3] = 5
    with pytest.raises(InvalidInput, match="cannot cover steps after"):
        account.notion.load(state)
