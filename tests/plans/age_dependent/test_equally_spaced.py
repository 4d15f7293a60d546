"""The risk of publishing for ever: against closed limits, long recursions, and the skip rule release by release."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
import pytest

from halflife.errors import InvalidInput
from halflife.plans.age_dependent.equally_spaced import largest_loss, periodic_peak
from halflife.processes import GeometricMixing, MarkovChain, Process
from halflife.processes.contraction import Frontier

LAZY = MarkovChain([[0.9, 0.1], [0.1, 0.9]])
RULES = [(a, s, e) for a in (0, 2, 6) for s in (1, 2, 4) for e in (0.05, 0.5, 3.0)]


def walk(states: int = 6) -> MarkovChain:
    """Left, stay and right with 1/3 each, held at the ends."""
    matrix = np.zeros((states, states))
    for i in range(states):
        for j in (i - 1, i, i + 1):
            matrix[i, min(max(j, 0), states - 1)] += 1 / 3
    return MarkovChain(matrix)


def random_chain(states: int, seed: int) -> MarkovChain:
    return MarkovChain(np.random.default_rng(seed).dirichlet(np.full(states, 0.5), states))


def skip_recursion(process: Process, epsilon: float, age: int, period: int, releases: int) -> float:
    """T4a release by release: the largest risk at any of the steps S_1 … S_n."""
    before, worst = [0.0], 0.0
    for n in range(releases):
        options = ((n - j, epsilon + before[j]) for j in range(n + 1))
        worst = max(worst, min(m * epsilon + process.amplify(own, age + m * period) for m, own in options))
        later = ((n + 1 - j, epsilon + before[j]) for j in range(n + 1))
        before.append(min((m - 1) * epsilon + process.amplify(own, m * period) for m, own in later))
    return worst


class Once(Process):
    """A process of which single lags are known, and nothing else."""

    name: ClassVar[str] = "test-once"
    composes: ClassVar[Any] = "once"

    def frontier(self, t: int, direction: Any = "back") -> Frontier:
        return Frontier(np.zeros(1), np.array([0.5**t]))

    def parameters(self) -> dict[str, Any]:
        return {}


@pytest.mark.parametrize(("age", "period", "epsilon"), RULES)
def test_the_symmetric_two_state_chain_has_its_closed_limit(age: int, period: int, epsilon: float) -> None:
    left, e = 0.8**period, math.tanh(epsilon / 2)
    a = (-(1 - left) + math.sqrt((1 - left) ** 2 + 4 * left * e * e)) / (2 * e)
    before = 2 * math.atanh(a)  # the risk about a data time, before its own release
    expected = 2 * math.atanh(0.8**age * math.tanh((epsilon + before) / 2))
    found = periodic_peak(LAZY, epsilon, age, period)
    assert expected <= found * (1 + 1e-14)
    assert found == pytest.approx(expected, rel=1e-9)


def test_the_limit_is_that_of_a_long_recursion_and_above_every_release_of_it() -> None:
    for age, period, epsilon in RULES[::9]:
        risk = 0.0
        for _ in range(10_000):
            risk = LAZY.amplify(epsilon + risk, period)
        last = LAZY.amplify(epsilon + risk, age)
        assert last * (1 - 1e-11) <= periodic_peak(LAZY, epsilon, age, period) <= last * (1 + 1e-9)


def test_eight_releases_stay_just_below_the_limit() -> None:
    known = {(2, 4): 0.508608, (0, 1): 1.75867, (6, 2): 0.288277}  # enumeration of every output sequence
    for (age, period), attained in known.items():
        assert attained < periodic_peak(LAZY, 0.5, age, period) < attained * 1.03


def test_the_walk_is_bounded_by_skipping_where_step_by_step_diverges() -> None:
    chain, risk = walk(), 0.0
    for _ in range(199):
        risk = chain.amplify(0.5 + risk, 1)
    assert risk + 0.5 == pytest.approx(100)
    assert periodic_peak(chain, 0.5, 0, 1, "paper") == math.inf
    assert periodic_peak(chain, 0.5, 0, 1) == pytest.approx(6.27, abs=0.01)
    assert periodic_peak(chain, 0.5, 0, 1) == pytest.approx(skip_recursion(chain, 0.5, 0, 1, 80), rel=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_it_is_the_limit_of_the_skip_rule_release_by_release(seed: int) -> None:
    chain = random_chain(4, seed)
    for age, period, epsilon in ((0, 1, 0.3), (3, 1, 1.0), (1, 2, 2.0)):
        attained = skip_recursion(chain, epsilon, age, period, 40)
        found = periodic_peak(chain, epsilon, age, period)
        assert attained * (1 - 1e-12) <= found
        if found < 20 * epsilon:  # then 40 releases are close to the limit
            assert found <= attained * 1.02


def test_the_papers_limit_is_that_of_its_recursion() -> None:
    """Holds Definition 12, Proposition 3."""
    process = GeometricMixing(1.0, 0.8)
    for age, period, epsilon in ((2, 4, 0.5), (0, 4, 0.5), (9, 3, 0.6)):
        inner = 0.0
        for _ in range(2000):
            inner = math.log1p(0.8**period * math.expm1(epsilon + inner))  # eq. 32
        expected = math.log1p(0.8**age * math.expm1(epsilon + inner))
        assert periodic_peak(process, epsilon, age, period, "paper") == pytest.approx(expected, rel=1e-9)
    assert periodic_peak(process, 0.5, 2, 4, "paper") == pytest.approx(0.8236, abs=1e-4)  # Figure 3
    assert periodic_peak(process, 0.9, 2, 4, "paper") == math.inf  # 0.8⁴ e^0.9 > 1


def test_skipping_helps_where_little_is_known_of_the_first_steps() -> None:
    process = GeometricMixing(3.0, 0.5)  # Δ(1) = 1: step by step nothing fades
    assert periodic_peak(process, 0.1, 0, 1, "paper") == math.inf
    assert 0.1 < periodic_peak(process, 0.1, 0, 1) < 1


def test_tight_is_never_above_the_paper_and_both_move_the_right_way() -> None:
    for process in (LAZY, random_chain(5, 7), GeometricMixing(1.5, 0.7)):
        for bound in ("tight", "paper"):
            risks = np.array(
                [[[periodic_peak(process, e, a, s, bound) for e in (0.1, 0.4)] for s in (3, 6)] for a in (0, 2, 5)]
            )
            assert np.all(np.diff(risks, axis=0)[np.isfinite(risks[1:])] <= 0)
            assert np.all(risks[:, 1] <= risks[:, 0])
            assert np.all(risks[..., 0] <= risks[..., 1])
        for age, period, epsilon in RULES:
            assert periodic_peak(process, epsilon, age, period) <= periodic_peak(process, epsilon, age, period, "paper")


def test_an_adversary_with_any_prior_learns_at_least_as_much() -> None:
    for age, period, epsilon in RULES:
        wide = periodic_peak(LAZY, epsilon, age, period, adversary="any-prior")
        assert wide >= periodic_peak(LAZY, epsilon, age, period)
        risk = 0.0
        for _ in range(200):
            risk = LAZY.amplify(epsilon + risk, period, adversary="any-prior")
        plain = LAZY.amplify(epsilon + risk, age, adversary="any-prior")
        assert plain * (1 - 1e-9) <= wide <= plain * (1 + 1e-9) or wide < plain  # skipping may help
    assert periodic_peak(LAZY, 0.5, 2, 4, adversary="any-prior") == pytest.approx(0.533, abs=5e-4)


def test_an_autoregressive_process_has_a_geometric_sum() -> None:
    from halflife.processes import AutoRegressive

    process = AutoRegressive(rho=0.9, sigma=1.0, span=1.0)
    for age, period in ((0, 1), (3, 2), (5, 40)):
        expected = sum(0.9 ** (age + k * period) * 0.3 for k in range(5000))
        assert expected * (1 - 1e-13) <= periodic_peak(process, 0.3, age, period) <= expected * (1 + 1e-9)
    for wrong in ({"bound": "paper"}, {"adversary": "any-prior"}):
        with pytest.raises(InvalidInput, match="leave the span"):
            periodic_peak(process, 0.3, 0, 1, **wrong)
    assert largest_loss(process, 1.0, 2, 3) == pytest.approx((1 - 0.9**3) / 0.9**2, rel=1e-9)


def test_what_never_forgets_or_is_known_once_has_no_bound() -> None:
    flips = MarkovChain([[0.0, 1.0], [1.0, 0.0]])
    for process in (flips, Once()):
        assert periodic_peak(process, 0.1, 5, 5) == math.inf
        assert periodic_peak(process, 0.0, 5, 5) == 0
        assert largest_loss(process, 1.0, 5, 5) == 0


@pytest.mark.parametrize("limit", [0.01, 0.5, 1.0, 4.0])
def test_the_largest_loss_of_the_paper_has_a_closed_form(limit: float) -> None:
    process, growth = GeometricMixing(1.2, 0.8), math.expm1(limit)
    for age, period in ((0, 4), (2, 4), (8, 2)):
        at_age, at_period = process.total_variation(age), process.total_variation(period)
        expected = math.log((growth + at_age) / (at_age + growth * at_period))
        found = largest_loss(process, limit, age, period, "paper")
        assert found == pytest.approx(expected, rel=1e-9)
        assert periodic_peak(process, found, age, period, "paper") <= limit


@pytest.mark.diagonal
@pytest.mark.parametrize("process", [LAZY, walk(), random_chain(5, 3)])
@pytest.mark.parametrize("adversary", ["stationary", "any-prior"])
def test_the_largest_loss_keeps_the_limit_and_hardly_more_would_not(process: Process, adversary: str) -> None:
    for limit, age, period in ((0.4, 0, 8), (1.0, 3, 6)):
        loss = largest_loss(process, limit, age, period, adversary=adversary)
        assert periodic_peak(process, loss, age, period, adversary=adversary) <= limit
        assert periodic_peak(process, loss * (1 + 1e-6), age, period, adversary=adversary) > limit


def test_a_process_that_forgets_at_once_may_publish_anything_old() -> None:
    coin = MarkovChain([[0.5, 0.5], [0.5, 0.5]])
    assert periodic_peak(coin, 5.0, 1, 1) < 1e-12
    assert periodic_peak(coin, 5.0, 0, 1) == pytest.approx(5.0)
    assert largest_loss(coin, 1.0, 1, 1) == pytest.approx(700)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"epsilon": -0.1}, "epsilon must be at least 0"),
        ({"epsilon": math.nan}, "NaN"),
        ({"age": -1}, "age must be at least 0"),
        ({"age": 0.5}, "whole number"),
        ({"period": 0}, "period must be at least 1"),
        ({"bound": "tigt"}, "did you mean 'tight'"),
        ({"adversary": "anyone"}, "unknown adversary"),
        ({"bound": "paper", "adversary": "any-prior"}, "Proposition 3"),
    ],
)
def test_bad_input_is_refused(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        periodic_peak(**{"process": LAZY, "epsilon": 0.5, "age": 1, "period": 2, **wrong})
    with pytest.raises(InvalidInput, match="limit"):
        largest_loss(LAZY, -1.0, 0, 1)
