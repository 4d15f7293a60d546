"""Direct kernels: counts by hand, widths by Weissman's formula, sets by brute force, coverage by simulation, London's figures."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest

from halflife import EmpiricalProcess, InvalidInput, MarkovChain, Process
from halflife.processes.contraction import EVERYTHING, Frontier, contract, theorem_1
from halflife.processes.empirical import weissman

LAZY = MarkovChain([[0.6, 0.3, 0.1], [0.2, 0.6, 0.2], [0.1, 0.4, 0.5]])


@pytest.fixture(scope="module")
def london(data_folder):
    import duckdb

    path = data_folder / "lcl_2013_325_households.parquet"
    rows = duckdb.connect().execute(
        "SELECT ts, kwh FROM read_parquet(?) WHERE lclid = 'MAC000002' ORDER BY ts", [str(path)]
    ).fetchnumpy()  # fmt: skip
    readings = np.full(17_520, np.nan)
    readings[((rows["ts"] - np.datetime64("2013-01-01")) / np.timedelta64(30, "m")).astype(int)] = rows["kwh"]
    return readings


def brute_force(states, lag, epsilon, alpha=None):
    """K of the kernel `lag` steps back, over every pair of rows and every set B; with α, of the widened one."""
    now, then, count = states[lag:], states[:-lag], int(max(states)) + 1
    best = 0.0
    for x, other in itertools.permutations(range(count), 2):
        up, low = then[now == x], then[now == other]
        more = less = 0.0
        if alpha is not None:
            more, less = (math.sqrt(2 * math.log((2**count - 2) / alpha) / len(rows)) / 2 for rows in (up, low))
        for size in range(count + 1):
            for B in itertools.combinations(range(count), size):
                p = min(1.0, np.isin(up, B).mean() + more)
                q = max(0.0, np.isin(low, B).mean() - less)
                best = max(best, math.log((1 + math.expm1(epsilon) * p) / (1 + math.expm1(epsilon) * q)))
    return best


# The numbers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lag", [1, 2, 5])
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0])
def test_the_estimate_is_the_worst_pair_of_rows_and_set(lag, epsilon):
    states = LAZY.sample(400, np.random.default_rng(lag))
    process = EmpiricalProcess.fit(states, None, lags=5)
    expected = brute_force(states, lag, epsilon)
    assert contract(process.estimate(lag), epsilon) == pytest.approx(expected, rel=1e-9)
    assert contract(process.estimate(lag), epsilon) >= expected * (1 - 1e-14)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0])
def test_the_bound_is_never_below_any_widened_set_and_not_much_above(seed, epsilon):
    """Four states, one lag: a cut between two prefixes may lie a little above every set, and nothing may lie above the cut."""
    rng = np.random.default_rng(seed)
    chain = MarkovChain(rng.dirichlet(np.ones(4) / 2, size=4))
    states = chain.sample(3000, rng)
    process = EmpiricalProcess.fit(states, None, lags=1, confidence=0.95)
    expected = brute_force(states, 1, epsilon, alpha=0.05 / 4)
    assert expected * (1 - 1e-12) <= process.amplify(epsilon, 1) <= min(epsilon, 1.1 * expected)


def test_a_set_that_is_no_prefix_counts_where_the_curve_is_cut():
    """R(x′, ·) = (.1, .3, .6), R(x, ·) = (.4, .5, .1), width .4: {1} alone costs q = 0 and gives .5, more than the prefix {0}."""
    from halflife.processes.empirical import _widen

    q, p = np.array([[[0.0, 0.1, 0.4, 1.0]]]), np.array([[[0.0, 0.4, 0.9, 1.0]]])
    points = _widen(q, p, np.array([[0.3]]), np.array([[0.0]]))[0]
    at_zero = points[points[:, 0] == 0, 1].max()
    assert at_zero == pytest.approx(0.4 + (0.3 - 0.1) / (0.4 - 0.1) * 0.5)
    assert at_zero > 0.5


def test_weissmans_width_gives_a7s_two_figures():
    """6 states, a year, 40 homes, 99 %: Δ is known to ±0.099 at best, so ε = 4 cannot be certified below 1.84."""
    width = math.sqrt(2 * math.log((2**6 - 2) / (0.01 / (40 * 6))) / (17_520 / 6))
    assert width == pytest.approx(0.099, abs=5e-4)
    found = float(weissman(np.array([17_520 / 6]), 6, 0.01 / (40 * 6))[0])
    assert width <= found <= width * (1 + 1e-12)
    assert theorem_1(found, 4.0) == pytest.approx(1.84, abs=5e-3)


def test_readings_drawn_apart_cannot_be_certified_below_the_width():
    """Forty homes whose readings are independent: the truth is Δ = 0, and the bound is what chance may hide."""
    rng = np.random.default_rng(3)
    homes = rng.integers(0, 6, size=(40, 17_520))
    process = EmpiricalProcess.fit(homes, None, lags=1)
    assert 0.095 < process.fitted["widest"] < 0.105
    assert 0.09 < process.total_variation(1) < 0.16
    assert 1.84 < process.amplify(4.0, 1) < 2.4


@pytest.mark.parametrize("seed", range(20))
def test_the_true_kernel_lies_within_the_bound(seed):
    rng = np.random.default_rng(seed)
    chain = MarkovChain(rng.dirichlet(np.ones(3), size=3))
    process = EmpiricalProcess.fit([chain.sample(1500, rng), chain.sample(1200, rng)], None, lags=4)
    for t in range(1, 5):
        assert process.total_variation(t) >= chain.total_variation(t)
        assert all(process.amplify(e, t) >= chain.amplify(e, t) for e in (0.2, 1.0, 3.0))


def test_the_direction_is_back_in_time():
    """From 0 there is a choice of two, into 0 there is none: back and ahead differ."""
    chain = MarkovChain([[0.1, 0.5, 0.4], [0.1, 0.1, 0.8], [0.8, 0.1, 0.1]])
    process = EmpiricalProcess.fit(chain.sample(100_000, np.random.default_rng(0)), None, lags=2)
    for lag in (1, 2):
        back, ahead = (contract(chain.frontier(lag, way), 1.0) for way in ("back", "ahead"))
        assert abs(back - ahead) > 0.015
        assert contract(process.estimate(lag), 1.0) == pytest.approx(back, abs=0.007)


# What is promised ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def reviving():
    """Twelve phases of a day, each quiet or busy for good reason: what was so a day ago is so now, half a day ago it was not."""
    rng = np.random.default_rng(5)
    habit = np.repeat([0, 1], 6)[np.arange(24_000) % 12]
    return EmpiricalProcess.fit(np.where(rng.random(24_000) < 0.1, 1 - habit, habit), None, lags=30)


def test_what_revives_after_a_day_is_counted_from_the_first_lag_on(reviving):
    assert reviving.estimate(3).variation < 0.1
    assert reviving.estimate(12).variation > 0.6
    found = [reviving.total_variation(t) for t in range(1, 31)]
    assert found == sorted(found, reverse=True)
    assert reviving.total_variation(3) >= reviving.estimate(24).variation
    risks = [reviving.amplify(1.0, t) for t in range(1, 31)]
    assert risks == sorted(risks, reverse=True)


def test_what_is_unknown_is_not_amplified(reviving):
    assert reviving.last_lag == 30
    for t, direction in ((31, "back"), (10**7, "back"), (1, "ahead")):
        assert reviving.amplify(1.0, t, direction=direction) == 1.0
        assert reviving.frontier(t, direction) == EVERYTHING
    assert reviving.amplify(1.0, 0) == 1.0
    assert reviving.amplify(1.0, 30) < 1.0
    assert reviving.composes == "once"
    with pytest.raises(InvalidInput, match="any prior"):
        reviving.amplify(1.0, 2, adversary="any-prior")


def test_the_worst_person_counts_and_the_middle_one_is_told():
    rng = np.random.default_rng(2)
    free = [rng.integers(0, 2, 4000) for _ in range(4)]
    stuck = MarkovChain([[0.95, 0.05], [0.05, 0.95]]).sample(4000, rng)
    process = EmpiricalProcess.fit([*free, stuck], None, lags=3)
    alone = EmpiricalProcess.fit(stuck, None, lags=3)
    assert process.estimate(1).variation == alone.estimate(1).variation
    assert process.direct_variations(1).worst == pytest.approx(0.9, abs=0.03)
    assert process.direct_variations(1).median < 0.06
    assert process.total_variation(1) > alone.total_variation(1)  # more rows share the same confidence


def test_more_confidence_or_more_lags_widen_the_bound():
    states = LAZY.sample(5000, np.random.default_rng(0))
    base = EmpiricalProcess.fit(states, None, lags=4)
    assert EmpiricalProcess.fit(states, None, lags=4, confidence=0.9999).total_variation(4) > base.total_variation(4)
    assert EmpiricalProcess.fit(states, None, lags=40).total_variation(40) < 1
    assert EmpiricalProcess.fit(states, None, lags=40).fitted["widest"] > base.fitted["widest"]


def test_missing_readings_are_left_out():
    states = LAZY.sample(3000, np.random.default_rng(1)).astype(float)
    holes = states.copy()
    holes[::7] = np.nan
    process = EmpiricalProcess.fit(holes, None, lags=7)
    both = [(a, b) for a, b in zip(holes[2:], holes[:-2], strict=True) if a >= 0 and b >= 0]
    now, then = np.array(both).T
    shares = [np.bincount(then[now == x].astype(int), minlength=3) / (now == x).sum() for x in range(3)]
    expected = max(np.abs(a - b).sum() / 2 for a, b in itertools.combinations(shares, 2))
    assert process.estimate(2).variation == pytest.approx(expected, rel=1e-9)
    assert process.fitted["readings"] == len(states) - len(states[::7])


def test_a_household_that_never_changes_tells_nothing():
    process = EmpiricalProcess.fit([[0.2] * 100], 6, lags=3)
    assert process.total_variation(2) == 0.0
    assert process.amplify(1.0, 2) == 0.0


def test_it_says_that_its_confidence_is_the_best_case(reviving):
    assert "independent draws" in reviving.assumption
    assert "best case" in reviving.fitted["assumption"]
    assert reviving.fitted["confidence"] == 0.99


def test_it_survives_the_disk(reviving):
    again = Process.from_dict(json.loads(json.dumps(reviving.to_dict())))
    assert again == reviving
    assert isinstance(again, EmpiricalProcess)
    for t in (0, 1, 7, 30, 31):
        assert again.amplify(0.7, t) == reviving.amplify(0.7, t)
    assert again.direct_variations(12) == reviving.direct_variations(12)
    assert again.fitted == reviving.fitted


def test_bounds_alone_are_enough_for_a_promise_and_not_for_design():
    process = EmpiricalProcess([[[0.0, 0.2], [0.1, 0.15]]])
    assert process.total_variation(1) == 0.15
    assert process.frontier(1).q.tolist() == [0.0, 0.2]
    assert "bounds and no estimates" in refusal(lambda: process.estimate(1))
    assert "bounds and no medians" in refusal(lambda: process.direct_variations(1))
    assert Process.from_dict(process.to_dict()) == process


# London -------------------------------------------------------------------------------------------------------------


def test_mac000002_by_lag_as_in_a7(london):
    process = EmpiricalProcess.fit(london, 6, lags=60)
    risks = {hours: contract(process.estimate(2 * hours), 1.0) for hours in (12, 24)}
    assert risks[12] == pytest.approx(0.109, abs=5e-4)
    assert risks[24] == pytest.approx(0.577, abs=5e-4)
    assert process.amplify(1.0, 24) > risks[24]


# Bad input ----------------------------------------------------------------------------------------------------------


def refusal(act):
    with pytest.raises(InvalidInput) as caught:
        act()
    return str(caught.value)


@pytest.mark.parametrize(
    ("sequences", "states", "options", "words"),
    [
        ([[0, 1] * 50, [0, 1, 1]], None, {"lags": 5}, ["sequence 1", "3 readings", "lag of 5"]),
        ([[0, 1] * 50, [2, 0] * 50], None, {"lags": 2}, ["sequence 1", "state 1", "lag 1"]),
        ([1] + [0] * 50, None, {"lags": 3}, ["sequence 0", "state 1", "never"]),
        ([[0, 1] * 9, [math.nan] * 18], None, {"lags": 2}, ["sequence 1", "single reading"]),
        ([[0, 1.5] * 9], None, {"lags": 2}, ["sequence 0", "whole numbers"]),
        ([[0, 1] * 9], None, {"lags": 0}, ["lags"]),
        ([[0, 1] * 9], None, {"confidence": 1.0}, ["confidence", "1.0"]),
        ([[0, 1] * 9], None, {"confidence": 0.0}, ["confidence"]),
        ([[0, 1] * 9], None, {"confidence": math.nan}, ["confidence"]),
        ("text", 6, {}, ["sequences"]),
    ],
)  # fmt: skip
def test_bad_data_is_refused_by_name(sequences, states, options, words):
    said = refusal(lambda: EmpiricalProcess.fit(sequences, states, **options))
    assert all(word in said for word in words), said


def test_an_age_beyond_the_data_is_refused(reviving):
    for ask in (reviving.estimate, reviving.direct_variations):
        assert "31 steps" in refusal(lambda ask=ask: ask(31))
        assert "lag 30" in refusal(lambda ask=ask: ask(31))
        refusal(lambda ask=ask: ask(0))


@pytest.mark.parametrize(
    "data",
    [
        {"bounds": []},
        {"bounds": "x"},
        {"bounds": [[[0.0], [0.1, 0.2]]]},
        {"bounds": [[[], []]]},
        {"bounds": [[[0.0], [math.nan]]]},
        {"bounds": [[[0.0], [-0.1]]]},
        {"bounds": [[[0.0], [1.1]]]},
        {"bounds": [[[0.0], [0.1]]], "estimates": [[[0.0], [0.1]]] * 2},
        {"bounds": [[[0.0], [0.1]]], "medians": [2.0]},
        {"bounds": [[[0.0], [0.1]]], "fitted": 3},
        {"bounds": [7]},
    ],
)
def test_a_bad_file_is_refused(data):
    assert refusal(lambda: Process.from_dict({"name": "empirical", **data}))


def test_a_frontier_object_can_be_handed_in():
    process = EmpiricalProcess([Frontier(np.zeros(1), np.array([0.3]))])
    assert process.total_variation(1) == 0.3
