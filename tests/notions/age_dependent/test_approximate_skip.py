"""Leaps with a δ: every pair of every leap holds against an enumeration of all outputs, and one pair is one leap's."""

import itertools
import math
from typing import ClassVar

import numpy as np
import pytest

from halflife import Accountant, AgeDependent, InvalidInput, MarkovChain, Release
from halflife.notions.age_dependent.approximate import Charge
from halflife.notions.age_dependent.approximate_skip import ApproximateSkip, Leaps, Pair
from halflife.notions.age_dependent.fading import Frontiers
from halflife.notions.gaussian_dp import gaussian_epsilon

WALK = MarkovChain([[sum(min(max(i + d, 0), 5) == j for d in (-1, 0, 1)) / 3 for j in range(6)] for i in range(6)])
HOME = MarkovChain([[0.85, 0.15], [0.1, 0.9]])


def noisy_response(states, epsilon, delta):
    """An (ε, δ)-private mechanism: with probability δ it gives the state away, else it answers by randomised response."""
    stay = math.exp(epsilon) / (math.exp(epsilon) + states - 1)
    answer = np.full((states, states), (1 - stay) / (states - 1))
    np.fill_diagonal(answer, stay)
    return np.hstack([(1 - delta) * answer, delta * np.eye(states)])


def outputs_given_now(matrix, times, mechanisms, now):
    """P(all outputs | X_now = x), each row a state, each column one sequence of outputs: by the reversed kernels, exactly."""
    matrix = np.asarray(matrix)
    law = np.linalg.matrix_power(matrix.T, 2000)[:, 0]
    reverse = (law[:, None] * matrix).T / law[:, None]
    told = np.ones((len(law), 1))
    for k, mechanism in enumerate(mechanisms):
        told = (mechanism[:, :, None] * told[:, None, :]).reshape(len(law), -1)
        later = times[k + 1] if k + 1 < len(times) else now
        told = np.linalg.matrix_power(reverse, later - times[k]) @ told
    return told


def attained(told, epsilon):
    """The largest δ of any two states at this ε: Σ over outputs of what one has above e^ε of the other."""
    rows = range(len(told))
    return max(float(np.maximum(told[x] - math.exp(epsilon) * told[y], 0).sum()) for x in rows for y in rows)


def chains():
    rng = np.random.default_rng(5)
    yield [[0.9, 0.1, 0.0], [0.1, 0.8, 0.1], [0.0, 0.1, 0.9]]  # a walk: Δ(1) = 1
    yield [[0.0, 1.0, 0.0], [0.1, 0.0, 0.9], [0.7, 0.3, 0.0]]
    for _ in range(2):
        matrix = rng.dirichlet([0.4] * 3, size=3)
        yield (0.9 * matrix + 0.1 / 3).tolist()


@pytest.mark.parametrize("matrix", list(chains()), ids=["walk", "turning", "drawn", "drawn too"])
def test_every_pair_of_every_leap_holds_against_enumeration(matrix):
    """Four releases of different ε and δ, some of them pure: whichever leap leads to each of them, all pairs are true."""
    times, now = [1, 2, 4, 5], 6
    losses = [(0.8, 0.02), (0.5, 0.0), (1.0, 0.05), (0.6, 0.01)]
    chain = MarkovChain(matrix)
    rule = ApproximateSkip(chain, Frontiers(chain, "tight"), 0.5)
    told = outputs_given_now(matrix, times, [noisy_response(3, *loss) for loss in losses], now)
    assert told.sum(axis=1) == pytest.approx(1)
    tried = 0
    for choices in itertools.product(*(range(max(1, k)) for k in range(4))):
        charges = []
        for k, (time, loss) in enumerate(zip(times, losses, strict=True)):
            before = (0.0, 0.0)
            if k:
                leaps = rule._leap(charges, time)
                before = (float(leaps.epsilons[choices[k]]), float(leaps.deltas[choices[k]]))
            charges.append(Charge(time, *loss, *before))
        for epsilon, delta in zip(*rule._leap(charges, now), strict=True):
            tried += 1
            assert attained(told, epsilon) <= delta + 1e-12
    assert tried == 24


def test_a_pair_is_attained_where_two_rows_share_one_state():
    """Two states lead to themselves with probability Δ, else to a third, which answers as the second: Δ·δ exactly.

    A leap over a second release, which gives nothing away but with its δ and knows all, then costs Δ·δ + δ′ at most.
    """
    back = np.array([[0.4, 0.0, 0.6], [0.0, 0.4, 0.6], [0.3, 0.3, 0.4]])
    law = np.linalg.matrix_power(back.T, 2000)[:, 0]
    matrix = (law[:, None] * back).T / law[:, None]
    chain = MarkovChain(matrix)
    rule = ApproximateSkip(chain, Frontiers(chain, "tight"), 0.5)
    answers = noisy_response(2, 0.5, 0.1)[[0, 1, 1]]
    told = outputs_given_now(matrix, [1], [answers], 2)
    (epsilon,), (delta,) = rule._leap([Charge(1, 0.5, 0.1, 0.0, 0.0)], 2)
    assert delta == pytest.approx(0.4 * 0.1)
    assert epsilon == pytest.approx(math.log1p(0.4 * math.expm1(0.5)))
    assert attained(told, epsilon) == pytest.approx(delta)
    gives_away = noisy_response(3, 0.0, 0.02)
    both = outputs_given_now(matrix, [1, 2], [answers, gives_away], 2)
    leaps = rule._leap([Charge(1, 0.5, 0.1, 0.0, 0.0), Charge(2, 0.0, 0.02, epsilon, delta)], 2)
    assert leaps.deltas == pytest.approx([0.06, 0.06])
    assert 0.95 * 0.06 < attained(both, epsilon) <= 0.06


def test_the_least_of_both_is_no_pair():
    """Releases 1 (much δ) and 2 (much ε) about X_3 on a chain that never forgets: the least ε of one leap with the least δ of
    the other is not attained by any, and not true."""
    matrix = [[0.8, 0.2], [0.2, 0.8]]
    rule = ApproximateSkip(MarkovChain(matrix), Frontiers(MarkovChain(matrix), "tight"), 0.9)
    first = Charge(1, 2.0, 0.0, 0.0, 0.0)
    nearest = rule._leap([first], 2)
    second = Charge(2, 0.0, 0.3, float(nearest.epsilons[0]), 0.0)
    leaps = rule._leap([first, second], 2)
    told = outputs_given_now(matrix, [1, 2], [noisy_response(2, 2.0, 0.0), noisy_response(2, 0.0, 0.3)], 2)
    for epsilon, delta in zip(*leaps, strict=True):
        assert attained(told, epsilon) <= delta + 1e-12
    pairs = Leaps(np.array([1.0, 2.0, 3.0]), np.array([0.5, 0.2, 0.1]))
    assert [pairs.least(limit) for limit in (1.0, 0.4, 0.1, 0.05)] == [(1.0, 0.5), (2.0, 0.2), (3.0, 0.1), None]
    assert Leaps(np.array([1.0, 1.0]), np.array([0.5, 0.2])).least(1.0) == (1.0, 0.2)


def walk_account(rules, releases, loss, noise="laplace", delta=1e-6):
    notion = AgeDependent(1e3, WALK, delta=delta, rules=rules)
    account = Accountant(notion)
    for k in range(1, releases + 1):
        account.admit(Release(k, loss, noise=noise))
    return account


def test_a_walk_with_laplace_noise_has_the_risk_of_a_pure_promise():
    """4b: six states, left, stay, right with 1/3 each: 20.0 after 40 releases of 0.5 without leaps, 6.27 with them."""
    assert walk_account(1, 40, 0.5).risk() == pytest.approx(20.0)
    for releases in (40, 200):
        pure = Accountant.replay(AgeDependent(1e3, WALK), [Release(k, 0.5) for k in range(1, releases + 1)])
        found = walk_account(2, releases, 0.5)
        assert found.risk() == pure.risk() == pytest.approx(6.27, abs=5e-3)
        assert found.risk(releases + 7) == pure.risk(releases + 7)


def test_a_walk_does_not_run_out_of_delta_with_gaussian_noise():
    """Without leaps Δ(1) = 1 halves the δ with every release, until none is left for the 53rd."""
    with pytest.raises(InvalidInput, match="no δ is left"):
        walk_account(1, 60, 0.1, "gaussian")
    account = walk_account(2, 100, 0.1, "gaussian")
    assert account.risk() < 5.2


@pytest.mark.parametrize("chain", [HOME, WALK], ids=["home", "walk"])
def test_leaps_never_come_out_above_the_rules_without_them(chain):
    rng = np.random.default_rng(3)
    for _ in range(4):
        accounts = [Accountant(AgeDependent(1e3, chain, delta=1e-6, rules=rules)) for rules in (1, 2)]
        for k in range(1, 25):
            release = Release(k, float(rng.uniform(0.05, 0.5)), noise=("laplace", "gaussian")[int(rng.random() < 0.5)])
            for account in accounts:
                account.admit(release)
            first, newest = (account.risk(k + 1) for account in accounts)
            assert newest <= first * (1 + 1e-9)


def backdated(rules, chain, seed):
    """An account of Laplace and Gaussian releases whose data times are out of order."""
    rng = np.random.default_rng(seed)
    account = Accountant(AgeDependent(1e3, chain, delta=1e-6, rules=rules))
    for k in range(1, 25):
        noise = ("laplace", "gaussian")[int(rng.random() < 0.5)]
        account.admit(Release(k, float(rng.uniform(0.05, 0.5)), int(rng.integers(0, 4)), noise=noise))
    return account


def test_data_times_out_of_order_never_use_more_delta_than_is_promised():
    """By the rules of version 1 they could, as Δ(s + t) fades more than Δ(s)·Δ(t); such an account no longer counts as faded."""
    for seed in range(6):
        for chain in (HOME, WALK):
            account = backdated(2, chain, seed)
            for _, epsilon, delta, before, delta_before in account.notion.dump(account._state)["kept"]["recent"]:
                assert delta + delta_before <= 1e-6 * (1 + 1e-9)
                assert epsilon >= 0
                assert before >= 0
            assert Accountant.from_json(account.to_json()).agrees(account)
            assert account.risk() < 20
    first = Accountant(AgeDependent(1e3, WALK, delta=1e-6, rules=1))
    first.admit(
        Release(1, 0.1, noise="gaussian"), Release(11, 0.1, noise="gaussian"), Release(12, 0.1, noise="gaussian")
    )
    faded = first.risk(40)
    first.admit(*(Release(12, 1e-9, age) for age in range(2, 11)))
    recent = first.notion.dump(first._state)["kept"]["recent"]
    assert max(delta + before for _, _, delta, _, before in recent) > 1.06e-6
    assert first.risk(12) > faded
    assert first.risk(12) == pytest.approx(gaussian_epsilon(0.1 * math.sqrt(3), 1e-6), rel=1e-6)


class Priced(ApproximateSkip):
    """Charges each release at an (ε, δ) of its own, so that the pairs can be held against an enumeration."""

    prices: ClassVar = {1.0: (0.8, 0.02), 2.0: (0.5, 0.0), 3.0: (1.0, 0.05), 4.0: (0.6, 0.01)}

    def _price(self, loss, noise, in_use):
        return Pair(*self.prices[loss])


@pytest.mark.parametrize("order", list(itertools.permutations(range(4)))[::3])
def test_releases_in_any_order_of_data_times_hold_against_enumeration(order):
    """What is told before each data time, and in the end, is true whichever release came first."""
    times, prices = [1, 2, 4, 5], list(Priced.prices.values())
    for matrix in chains():
        chain = MarkovChain(matrix)
        rule = Priced(chain, Frontiers(chain, "tight"), 0.9)
        state = rule.start()
        for k in order:
            state = rule.add(state, times[k], float(k + 1), "gaussian")
        mechanisms = [noisy_response(3, *price) for price in prices]
        for k, charge in enumerate(state.recent[1:], start=1):
            told = outputs_given_now(matrix, times[:k], mechanisms[:k], times[k])
            assert attained(told, charge.before) <= charge.delta_before + 1e-12
        told = outputs_given_now(matrix, times, mechanisms, 6)
        for epsilon, delta in zip(*rule._leap(state.recent, 6), strict=True):
            assert attained(told, epsilon) <= delta + 1e-12


def test_a_plan_with_a_delta_and_laplace_noise_is_the_pure_one():
    """It needed 9 times the noise, or was refused for ever, as the account could not leap."""
    pure, approximate = AgeDependent(2.0, WALK), AgeDependent(2.0, WALK, delta=1e-6)
    for kw in ({}, {"horizon": 200}):
        plan = approximate.plan(age=2, **kw)
        assert plan.noise == "laplace"
        assert plan.loss(1) == pytest.approx(pure.plan(age=2, **kw).loss(1))
        account = Accountant(approximate)
        for k in range(1, 40):
            account.admit(*plan.releases_at(k))
    first = AgeDependent(2.0, WALK, delta=1e-6, rules=1)
    assert first.plan(age=2, horizon=200).loss(1) < plan.loss(1) / 9


def test_facts_without_rules_are_those_of_the_first_version():
    """A ledger that was begun before is charged as it was: facts leave the first version's rules out."""
    first, newest = (AgeDependent(1.0, HOME, delta=1e-6, rules=rules) for rules in (1, 2))
    assert "rules" not in first.to_facts()
    assert newest.to_facts()["rules"] == 2
    assert AgeDependent.from_dict(first.to_facts()) == first != newest
    assert AgeDependent.from_dict(newest.to_facts()) == newest
    pure = AgeDependent(1.0, HOME, rules=1)
    assert pure == AgeDependent(1.0, HOME)
    assert "rules" not in pure.to_facts()
    assert AgeDependent.from_dict(pure.to_facts()) == pure
