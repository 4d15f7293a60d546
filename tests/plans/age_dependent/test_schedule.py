"""The best schedule: against brute force, a dense continuous search, the paper's propositions, and policies that vary."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import halflife
from halflife.errors import InvalidInput
from halflife.lab.age_dependent.staleness import AutoRegressiveMSE, MeasuredError, TwoStateFailureRate, TwoStateMSE
from halflife.plans.age_dependent.equally_spaced import periodic_peak
from halflife.plans.age_dependent.relaxed import (
    Limited,
    algorithm_1,
    algorithm_2,
    convex_41,
    no_trade_off,
    proposition_3,
    proposition_4,
)
from halflife.plans.age_dependent.schedule import NoSchedule, Schedule, best_schedule, frontier
from halflife.processes import AutoRegressive, GeometricMixing, MarkovChain, Process

LAZY, MIXING = MarkovChain([[0.9, 0.1], [0.1, 0.9]]), GeometricMixing(1.0, 0.8)
THREE = MarkovChain([[0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [0.3, 0.2, 0.5]])
FIGURE_6 = TwoStateMSE(0.1, 0.1, 20)


def linear(age: float, epsilon: float) -> float:
    """Staleness linear in the age, and the variance of Laplace noise: convex."""
    return age / 100 + 2 * (0.1 / epsilon) ** 2


def loss_for(error: Any, oldest: int, limit: float) -> float | None:
    """The least loss on a fine grid, found by hand."""
    grid = np.geomspace(1e-3, 100, 4000)
    fits = [e for e in grid if error(oldest, e) <= limit]
    return float(fits[0]) if fits else None


@pytest.mark.diagonal
@pytest.mark.parametrize("process", [LAZY, THREE, GeometricMixing(1.5, 0.6)])
@pytest.mark.parametrize(
    ("bound", "adversary"), [("tight", "stationary"), ("paper", "stationary"), ("tight", "any-prior")]
)
def test_the_search_finds_what_brute_force_finds(process: Process, bound: str, adversary: str) -> None:
    if adversary == "any-prior" and process.name == "geometric":
        with pytest.raises(InvalidInput, match="any prior"):
            best_schedule(process, linear, 0.1, bound, adversary=adversary)
        return
    for error, limit in ((FIGURE_6, 0.085), (linear, 0.09)):
        found = best_schedule(process, error, limit, bound, ages=range(6), periods=range(1, 6), adversary=adversary)
        tried = [
            (periodic_peak(process, loss, age, period, bound, adversary), age, period)
            for age in range(6)
            for period in range(1, 6)
            if (loss := loss_for(error, age + period - 1, limit)) is not None
        ]
        assert found.risk == pytest.approx(min(tried)[0], rel=0.01)
        assert found.risk <= min(tried)[0]
        certified = periodic_peak(process, found.epsilon, found.age, found.period, bound, adversary)
        assert (found.risk, found.error) == (certified, error(found.age + found.period - 1, found.epsilon))
        assert limit * (1 - 1e-9) <= found.error <= limit


def test_by_default_every_age_and_period_up_to_200_steps_is_looked_at() -> None:
    wide = best_schedule(MIXING, linear, 0.3, "paper")
    assert wide == best_schedule(MIXING, linear, 0.3, "paper", ages=range(60), periods=range(1, 60))
    assert wide.age == 20


def test_proposition_4_gives_the_best_period_where_data_is_aged() -> None:
    for process in (MIXING, GeometricMixing(1.7, 0.6)):
        for epsilon in (0.2, 1.0):
            period = proposition_4(process, epsilon)
            assert process.rho**period * math.exp(epsilon) == pytest.approx(1 / (2 * process.c))
            total = period + 5
            risks = [proposition_3(process, epsilon, total - s, s) for s in np.linspace(0.01, total, 4001)]
            assert proposition_3(process, epsilon, 5.0, period) == pytest.approx(min(risks), rel=1e-5)


def dense(process: GeometricMixing, asked: Limited) -> float:
    """Problem 39 by brute force: ε and A + S̄ such that the error is just allowed, and every split of it."""
    best = math.inf
    for total in np.arange(0.5, 60, 0.05):
        epsilon = asked.least_loss(asked.oldest(0.0, total))
        if epsilon is not None and epsilon < 50:
            periods = np.append(np.linspace(0.05, total, 60), min(total, proposition_4(process, epsilon)))
            best = min(best, *(proposition_3(process, epsilon, total - s, s) for s in periods))
    return best


@pytest.mark.parametrize("peak_age", ["paper", "whole-steps"])
@pytest.mark.parametrize(
    ("error", "limit"),
    [(linear, 0.1), (linear, 0.2), (TwoStateMSE(0.1, 0.1, 20, as_printed=True), 0.08), (FIGURE_6, 0.095)],
)
def test_algorithms_1_and_2_solve_the_continuous_problem(error: Any, limit: float, peak_age: str) -> None:
    """Holds Algorithms 1 and 2, mended as A4 says."""
    asked = Limited.read(error, limit, peak_age)
    found = [r for f in (algorithm_1, algorithm_2) if (r := f(MIXING, asked, points=600)) is not None]
    best = min(found, key=lambda r: r.risk)
    assert best.risk == pytest.approx(dense(MIXING, asked), rel=0.01)
    assert error(asked.oldest(best.age, best.period), best.epsilon) <= limit
    aged = algorithm_1(MIXING, asked, points=600)
    if aged is not None:
        assert 0.8**aged.period * math.exp(aged.epsilon) == pytest.approx(0.5)


def test_rounded_solutions_are_certified_again_and_close_to_the_exact_search() -> None:
    for error, limit in (
        (linear, 0.1),
        (linear, 0.25),
        (FIGURE_6, 0.09),
        (TwoStateMSE(0.1, 0.1, 20, as_printed=True), 0.099),
    ):
        for peak_age in ("paper", "whole-steps"):
            exact = best_schedule(MIXING, error, limit, "paper", peak_age=peak_age)  # type: ignore[arg-type]
            rounded = best_schedule(MIXING, error, limit, "paper", peak_age=peak_age, method="algorithms")  # type: ignore[arg-type]
            assert rounded.risk == periodic_peak(MIXING, rounded.epsilon, rounded.age, rounded.period, "paper")
            assert exact.risk <= rounded.risk <= exact.risk * 1.001
            assert rounded.error <= limit
            assert rounded.relaxed is not None
            assert rounded.relaxed.risk <= exact.risk * 1.001


def test_a_convex_model_is_solved_as_a_convex_program() -> None:
    for limit in (0.15, 0.2, 0.3):
        asked = Limited.read(linear, limit, "paper")
        convex, grid = convex_41(MIXING, asked), algorithm_1(MIXING, asked, points=3000, phi=1e-8)
        assert convex is not None
        assert grid is not None
        assert convex.risk <= grid.risk
        assert convex[:3] == pytest.approx(grid[:3], rel=0.01)
        assert convex.risk == pytest.approx(grid.risk, rel=1e-5)
        assert best_schedule(MIXING, linear, limit, "paper", method="convex").risk == pytest.approx(
            best_schedule(MIXING, linear, limit, "paper").risk, rel=1e-9
        )


def test_problem_41_is_not_convex_as_the_paper_has_it() -> None:
    """Its objective lies above a chord, whatever f is; and the paper's own models are concave in the age."""

    def objective(age: float, epsilon: float) -> float:
        return float(0.8**age * math.expm1(epsilon))

    assert objective(2.5, 0.35) > (objective(0, 0.1) + objective(5, 0.6)) / 2 * 1.25
    with pytest.raises(InvalidInput, match=r"not convex.*method='search'"):
        best_schedule(MIXING, FIGURE_6, 0.099, "paper", method="convex")


def test_corollary_3_and_what_it_says_of_figure_6() -> None:
    """With 20 people the condition fails and there is a trade-off, though the paper reads Figure 6(a) as having none.

    An error above 2/I = 0.1 allows data of any age, so the risk falls to 0; below it is bounded away from 0.
    """
    assert no_trade_off(lambda age, epsilon: 1 / epsilon, 0.8)
    assert no_trade_off(TwoStateMSE(0.1, 0.1, 1), 0.8)
    for error in (FIGURE_6, TwoStateMSE(0.1, 0.1, 20, as_printed=True), TwoStateFailureRate(0.1, 0.1, 20)):
        assert not no_trade_off(error, 0.8)
    printed = TwoStateMSE(0.1, 0.1, 20, as_printed=True)
    points = frontier(MIXING, printed, [0.05, 0.06, 0.07, 0.09, 0.099, 0.101], "paper", peak_age="paper")
    risks = [best.risk for _, best in points if best is not None]
    assert [best is None for _, best in points] == [True, False, False, False, False, False]
    assert risks == sorted(risks, reverse=True)
    assert risks[1] == pytest.approx(1.553, abs=0.001)
    assert risks[2] == pytest.approx(0.813, abs=0.001)
    assert risks[-1] < 1e-9


def test_where_corollary_3_holds_a_larger_error_buys_nothing() -> None:
    """f that does not depend on the age: every risk above 0 is reached at any limit, by aging alone."""

    def noise_only(age: float, epsilon: float) -> float:
        return 1 / epsilon

    risks = [best_schedule(MIXING, noise_only, limit, "paper").risk for limit in (0.1, 1.0)]
    assert max(risks) < 1e-9


def cycle_peak(process: Process, cycle: tuple[tuple[int, int, float], ...], bound: str, releases: int = 60) -> float:
    """The largest risk of a policy that repeats (A, S̄, ε), by composition by data time; ∞ if data times go back."""
    risk = worst = 0.0
    for i in range(releases):
        age, period, epsilon = cycle[i % len(cycle)]
        gap = period + age - cycle[(i + 1) % len(cycle)][0]
        if gap < 0:
            return math.inf
        worst = max(worst, process.amplify(epsilon + risk, age, bound))
        risk = process.amplify(epsilon + risk, gap, bound)
    return worst


def choices(error: Any, limit: float, ages: int, periods: int) -> list[tuple[int, int, float]]:
    asked = Limited.read(error, limit, "whole-steps")
    pairs = itertools.product(range(ages + 1), range(1, periods + 1))
    return [(a, s, loss) for a, s in pairs if (loss := asked.least_loss(a + s - 1)) is not None and loss < 20]


@pytest.mark.diagonal
@pytest.mark.parametrize(("process", "bound"), [(MIXING, "theorem1"), (LAZY, "tight")])
@pytest.mark.parametrize("limit", [0.07, 0.09])
def test_theorem_4_no_varying_policy_beats_the_periodic_one(process: Process, bound: str, limit: float) -> None:
    error, rng = TwoStateMSE(0.1, 0.1, 20, as_printed=True), np.random.default_rng(0)
    some = choices(error, limit, 3, 4)
    best = min(cycle_peak(process, (one,), bound) for one in some)
    exact = best_schedule(
        process, error, limit, "paper" if bound == "theorem1" else "tight", ages=range(4), periods=range(1, 5)
    )
    assert exact.risk == pytest.approx(best, rel=1e-3)
    pairs = list(itertools.product(some, repeat=2))
    longer = [tuple(some[i] for i in rng.integers(0, len(some), rng.integers(3, 6))) for _ in range(80)]
    for cycle in pairs[:: max(1, len(pairs) // 80)] + longer:
        assert cycle_peak(process, cycle, bound) >= best * (1 - 1e-9)


def test_by_the_tight_bound_ages_that_vary_can_gain_a_little_on_three_states() -> None:
    """A witness against Theorem 4 with K for Δ: (A = 4, ε = 0.1) and (A = 5, ε = 0.2) in turn share a data time."""

    def error(age: float, epsilon: float) -> float:
        return age / 100 + 0.002 / epsilon

    periodic = best_schedule(THREE, error, 0.06)
    varying = cycle_peak(THREE, ((4, 1, 0.1), (5, 1, 0.2)), "tight")
    assert (periodic.age, periodic.period) == (4, 1)
    assert periodic.risk == pytest.approx(0.016872, abs=1e-6)
    assert varying == pytest.approx(0.016487, abs=1e-6)


def test_among_policies_of_one_age_periodic_is_best_by_any_bound() -> None:
    rng = np.random.default_rng(2)
    for age in (0, 4):
        some = [choice for choice in choices(linear, 0.1, 6, 5) if choice[0] == age]
        best = min(cycle_peak(THREE, (one,), "tight") for one in some)
        for _ in range(80):
            cycle = tuple(some[i] for i in rng.integers(0, len(some), rng.integers(2, 6)))
            assert cycle_peak(THREE, cycle, "tight") >= best * (1 - 1e-9)


def test_by_the_tight_bound_old_data_almost_without_noise_is_best_on_two_states() -> None:
    found = best_schedule(LAZY, FIGURE_6, 0.09)
    assert (found.age, found.period) == (10, 1)
    assert found.risk == pytest.approx(2 * math.atanh(0.8**10), rel=0.01)  # Theorem 2: any mechanism
    assert best_schedule(LAZY, FIGURE_6, 0.09, "paper").risk > 7 * found.risk


def test_the_paper_counts_the_age_of_information_one_step_higher() -> None:
    ours = best_schedule(MIXING, linear, 0.2, "paper")
    theirs = best_schedule(MIXING, linear, 0.2, "paper", peak_age="paper")
    assert (theirs.age + 1, theirs.period, theirs.epsilon) == (ours.age, ours.period, ours.epsilon)
    assert ours.risk == pytest.approx(math.log1p(0.8 * math.expm1(theirs.risk)))


def test_other_processes_and_models_work() -> None:
    process = AutoRegressive(rho=0.9, sigma=1.0, span=2.0)
    found = best_schedule(process, AutoRegressiveMSE(0.9, 1.0, 50, 2.0), 0.06, ages=range(10), periods=range(1, 10))
    assert found.risk == pytest.approx(found.epsilon * 0.9**found.age / (1 - 0.9**found.period))
    assert found.error <= 0.06
    series = np.sin(np.arange(40) / 10)
    for method in ("search", "algorithms"):
        measured = best_schedule(MIXING, MeasuredError(series, 0.05), 0.3, "paper", method=method)  # type: ignore[arg-type]
        assert measured.age + measured.period - 1 <= 39
        assert measured.risk < math.inf


def test_a_schedule_gives_its_frontier_and_a_larger_limit_never_costs() -> None:
    found = best_schedule(LAZY, FIGURE_6, 0.08, ages=range(12), periods=range(1, 6))
    limits = [0.001, 0.02, 0.04, 0.06, 0.08, 0.095]
    points = found.frontier(limits, ages=range(12), periods=range(1, 6))
    assert points == frontier(LAZY, FIGURE_6, limits, ages=range(12), periods=range(1, 6))
    assert points[4][1] == found
    risks = [math.inf if best is None else best.risk for _, best in points]
    assert risks == sorted(risks, reverse=True)


def test_where_no_schedule_fits_it_says_the_least_error_there_is() -> None:
    with pytest.raises(
        NoSchedule, match=r"least that can be reached is 0\.0[0-9]+, at an age of information of 3 steps"
    ):
        best_schedule(LAZY, FIGURE_6, 0.04, ages=[3, 4], periods=[1, 2])
    with pytest.raises(NoSchedule, match=r"grows for ever under bound='paper'"):
        best_schedule(LAZY, FIGURE_6, 0.03, "paper")
    with pytest.raises(NoSchedule, match="continuous time"):
        best_schedule(MIXING, FIGURE_6, 0.03, "paper", method="algorithms")


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"process": "markov"}, "process must be a Process"),
        ({"error": 0.1}, "error must be a function"),
        ({"error": lambda age, epsilon: math.nan}, "gives NaN at age 0"),
        ({"limit": 0.0}, "limit must be above 0"),
        ({"limit": math.nan}, "limit is NaN"),
        ({"bound": "papr"}, "did you mean 'paper'"),
        ({"adversary": "nobody"}, "unknown adversary"),
        ({"peak_age": "steps"}, "unknown peak_age"),
        ({"method": "guess"}, "unknown method"),
        ({"method": "algorithms"}, "geometric mixing with bound='paper'"),
        ({"method": "convex", "bound": "paper", "process": MIXING, "ages": [1]}, "leave them out"),
        ({"ages": [-1]}, "age must be at least 0"),
        ({"periods": [0]}, "period must be at least 1"),
        ({"ages": []}, "no age and period"),
    ],
)
def test_bad_input_is_refused(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        best_schedule(**{"process": LAZY, "error": FIGURE_6, "limit": 0.08, **wrong})


def test_a_schedule_is_frozen_and_prints_what_matters() -> None:
    found = best_schedule(LAZY, FIGURE_6, 0.08, ages=[2], periods=[3])
    assert isinstance(found, Schedule)
    assert "age=2, period=3" in repr(found)
    assert halflife.Schedule.__name__ == "Schedule"
    assert halflife.best_schedule(LAZY, FIGURE_6, 0.08, ages=[2], periods=[3]).risk == found.risk
    with pytest.raises(AttributeError):
        found.age = 3  # type: ignore[misc]


def test_the_objective_of_problem_41_is_not_convex() -> None:
    """ρ^A (e^ε − 1) lies above a chord of its own (ρ = 0.8): a convex error does not make the problem convex."""

    def objective(age: float, epsilon: float) -> float:
        return 0.8**age * math.expm1(epsilon)

    chord = (objective(0, 0.1) + objective(5, 0.6)) / 2
    assert objective(2.5, 0.35) == pytest.approx(0.240, abs=5e-4)
    assert chord == pytest.approx(0.187, abs=5e-4)
