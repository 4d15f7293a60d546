"""Solutions that are kept: the plan is the same to the last digit, the solver is asked once, and nothing kept is trusted."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from halflife import ExponentialDiscount, HyperbolicDiscount, Secret, Specification, Swellfish
from halflife.plans.discounted import kept as discounted
from halflife.plans.discounted.least_squares import Optimum, _make_point, _problem, least_squares, proves
from halflife.plans.solutions import Solutions
from halflife.plans.swellfish import program as swellfish

HOME = Specification([Secret(1.0, 2, 1, 6, 1.0), Secret(3.0, 1, 2, 9, 0.5), Secret(0.5, 3, 4, 20, 1.0)], "a")
CASES = {
    "exponential": lambda: ExponentialDiscount(1.0, alpha=0.9).plan(horizon=40, method="optimal"),
    "hyperbolic": lambda: HyperbolicDiscount(1.0, beta=0.1).plan(2.0, horizon=60, method="optimal", every=2),
    "one-event": lambda: Swellfish(HOME, neighbours="one-event").plan(method="optimal"),
    "one-window": lambda: Swellfish(HOME).plan(method="optimal", floor=0.5, block=3),
    "all-events": lambda: Swellfish(HOME, neighbours="all-events").plan(method="optimal"),
    "gaussian": lambda: Swellfish(HOME, 1e-6, noise="gaussian").plan(method="optimal"),
}


@pytest.fixture
def solved(monkeypatch):
    """How often a solver was asked."""
    count = [0]

    def count_calls(ask):
        def solve(*args):
            count[0] += 1
            return ask(*args)

        return solve

    monkeypatch.setattr(discounted, "least_squares", count_calls(discounted.least_squares))
    monkeypatch.setattr(swellfish, "least_noise", count_calls(swellfish.least_noise))
    return count


def plan_with(file: Path, case: str):
    """The plan, as a run has it that keeps what it solved."""
    solutions = Solutions(str(file))
    with solutions.at_hand():
        plan = CASES[case]()
    solutions.write()
    return plan


def agree(one, two):
    n = 40
    assert np.array_equal(one.scales(n), two.scales(n))
    assert one.certificate() == two.certificate()


@pytest.mark.parametrize("case", CASES)
def test_a_problem_is_solved_once_and_its_plan_is_the_same_to_the_last_digit(tmp_path, solved, case):
    file, alone = tmp_path / "a.plans", CASES[case]()
    assert solved == [1]
    for _ in range(4):
        agree(plan_with(file, case), alone)
    assert solved == [2]
    agree(CASES[case](), alone)
    assert solved == [3]  # without solutions at hand nothing is recalled


def test_another_problem_is_another_solution_and_those_that_are_not_used_go(tmp_path, solved):
    file = tmp_path / "a.plans"
    for case, solve in CASES.items():
        agree(plan_with(file, case), solve())
        assert len(json.loads(file.read_text())["solutions"]) == 1
    assert solved == [2 * len(CASES)]


def test_every_number_of_a_problem_counts(tmp_path, solved):
    solutions = Solutions(str(tmp_path / "a.plans"))
    one = {"power": 1.0, "duration": 2, "start": 1, "end": 6, "epsilon": 1.0}
    other = {"power": 3.0, "duration": 1, "start": 2, "end": 9, "epsilon": 0.5}
    changes = [{"power": 1.1}, {"duration": 3}, {"start": 3}, {"end": 7}, {"epsilon": 0.9}]
    with solutions.at_hand():
        for mine, theirs in [({}, {}), *((c, {}) for c in changes), *(({}, c) for c in changes)]:
            Swellfish(Specification([Secret(**one | mine), Secret(**other | theirs)], "a")).plan(method="optimal")
        for options in ({"floor": 7.0}, {"block": 2}, {"horizon": 5}, {"every": 2}, {"begin": -1}):
            Swellfish(Specification([Secret(**one), Secret(**other)], "a")).plan(method="optimal", **options)
    assert solved == [16]


def change(file: Path, **changes) -> None:
    data = json.loads(file.read_text())
    (digest,) = data["solutions"]
    for key, how in changes.items():
        data["solutions"][digest][key] = how(data["solutions"][digest].get(key))
    file.write_text(json.dumps(data))


def times(factor):
    return lambda x: [factor * v for v in x]


WRONG = {
    "a tenth too much is spent": {"losses": times(1.1), "z": times(1.1)},
    "a billionth too much": {"losses": times(1 + 2e-9), "z": times(1 + 2e-9)},
    "one too few": {"losses": lambda x: x and x[:-1], "z": lambda x: x and x[:-1]},
    "below 0": {"losses": times(-1), "z": times(-1)},
    "no numbers": {"losses": lambda x: "many", "z": lambda x: "many"},
    "infinite": {"losses": lambda x: [float("inf")] * 3, "z": lambda x: [float("inf")] * 3},
    "no gap": {"gap": lambda x: None},
    "a gap below 0": {"gap": lambda x: -0.1},
    "no rounds": {"rounds": lambda x: 1.5},
    "another key": {"more": lambda x: 1},
}


@pytest.mark.parametrize("case", ["exponential", "one-window", "all-events"])
@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_damaged_is_solved_again(tmp_path, solved, case, wrong):
    file, alone = tmp_path / "a.plans", CASES[case]()
    plan_with(file, case)
    key = "losses" if case == "exponential" else "z"
    change(file, **{k: how for k, how in WRONG[wrong].items() if k not in ("losses", "z") or k == key})
    agree(plan_with(file, case), alone)
    agree(plan_with(file, case), alone)
    assert solved == [3]  # alone, at first, and once more


@pytest.mark.parametrize(
    "wrong", [{"gap": lambda x: 0.0}, {"multipliers": times(0.5)}, {"multipliers": times(-1)}, {"losses": times(0.99)}]
)
def test_a_gap_that_is_not_proved_is_solved_again(tmp_path, solved, wrong):
    """Under a discount the multipliers prove it: feasible losses that are worse than they are said to be do not count."""
    file = tmp_path / "a.plans"
    plan_with(file, "exponential")
    change(file, **wrong)
    agree(plan_with(file, "exponential"), CASES["exponential"]())
    assert solved == [3]


def test_multipliers_below_0_prove_nothing():
    """Those by which every risk would have to be 1 say that the saturating losses are best, which they are not."""
    delta = np.ones(60)

    def kernel(j):
        return 1 / (1 + 0.02 * j)

    problem = _problem(kernel, delta)
    multipliers = problem.solve((2 * delta**2 / problem.saturating**3)[::-1])[::-1]
    assert multipliers.min() < 0
    assert _make_point(problem, multipliers) is not None
    assert not proves(kernel, delta, Optimum(problem.saturating * (1 - 1e-9), 1e-6, 0, multipliers))
    assert proves(kernel, delta, least_squares(kernel, delta))


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"format": "halflife.solutions", "version": 1, "solutions": 3}', "\0"]
)
def test_a_file_of_anything_else_is_written_anew(tmp_path, solved, text):
    file = tmp_path / "a.plans"
    file.write_text(text)
    plan_with(file, "exponential")
    plan_with(file, "exponential")
    assert solved == [1]


def test_solutions_of_another_version_are_solved_again(tmp_path, solved):
    file = tmp_path / "a.plans"
    plan_with(file, "exponential")
    file.write_text(file.read_text().replace('"version": 1', '"version": 0'))
    plan_with(file, "exponential")
    assert solved == [2]


def test_what_cannot_be_written_is_solved_each_time(tmp_path, solved):
    for _ in range(2):
        plan_with(tmp_path / "none" / "a.plans", "exponential")
    assert solved == [2]
