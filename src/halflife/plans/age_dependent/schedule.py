"""The schedule (period, data age, noise) of least risk whose error for readers is bounded (Problems 28 and 39).

A schedule publishes a loss ε_C every S̄ steps on data A steps old. Its reader sees data up to A + S̄ − 1 steps old (Definition 11;
the paper has A + S̄, which whole steps never reach: corrected), so its error is f(A + S̄ − 1, ε_C), for a model f that grows with
the age and falls with the loss. Sought is the schedule of least peak risk with an error of at most a limit.

A policy that varies from release to release does no better by the paper's bound (Theorem 4; paper). With K in its place that
holds among policies of one age: where the risk about the data times is least, the choice made just before has a limit no higher,
so repeating it is as good (ours). Ages that vary can gain a little on chains of more than two states (tests have one: 2.3 %).

Whatever way a schedule was found, its risk is that of `periodic_peak`, and its error that of the model: both computed again.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

from halflife.errors import InvalidInput, unknown
from halflife.numerics.parameters import whole
from halflife.plans.age_dependent.equally_spaced import periodic_peak
from halflife.plans.age_dependent.relaxed import (
    LONGEST,
    NO_NOISE,
    ErrorModel,
    Limited,
    Relaxed,
    algorithm_1,
    algorithm_2,
    convex_41,
    no_trade_off,
)
from halflife.processes import GeometricMixing, Process

__all__ = ["NoSchedule", "Relaxed", "Schedule", "best_schedule", "frontier", "no_trade_off"]

METHODS = ("search", "algorithms", "convex")
Splits = dict[int, list[tuple[int, int]]]
"""Pairs (A, S̄) by their age of information, ascending, the longest period first."""


class NoSchedule(InvalidInput):
    """No schedule has an error of at most the limit, or none of those has a bounded risk."""


@dataclass(frozen=True)
class Schedule:
    """A loss of ε_C every `period` steps on data `age` steps old, for ever.

    epsilon, age, period  ε_C in nats; A and S̄ in steps
    risk   the peak risk for ever, certified by `periodic_peak`;  error  f at the largest age of information
    limit  what the error had to stay under;  relaxed  the continuous solution it was rounded from, if there was one
    """

    epsilon: float
    age: int
    period: int
    risk: float
    error: float
    limit: float
    bound: str = "tight"
    adversary: str = "stationary"
    peak_age: str = "whole-steps"
    relaxed: Relaxed | None = None
    process: Process = field(repr=False, compare=False, kw_only=True)
    model: ErrorModel = field(repr=False, compare=False, kw_only=True)

    def frontier(self, limits: Iterable[float], **options: Any) -> list[tuple[float, Schedule | None]]:
        """Return the best schedule under each limit, with the risk counted as here: see `frontier`."""
        given = {"bound": self.bound, "adversary": self.adversary, "peak_age": self.peak_age, **options}
        return frontier(self.process, self.model, limits, **given)


class _Problem(NamedTuple):
    """The optimisation problem: process, error limit, bound and adversary."""

    process: Process
    asked: Limited
    bound: str
    adversary: str

    def risk(self, epsilon: float, age: int, period: int) -> float:
        """The peak risk for ever, certified."""
        return periodic_peak(self.process, epsilon, age, period, self.bound, self.adversary)

    def risk_at_least(self, epsilon: float, age: int) -> float:
        """Return the risk of a single release: a lower bound for every schedule with this loss and age."""
        if self.process.composes != "markov":
            return 0.0
        bound = "tight" if self.bound == "tight" else "theorem1"
        return self.process.amplify(epsilon, age, bound, self.adversary)

    def schedule(self, epsilon: float, age: int, period: int, risk: float) -> Schedule:
        """Return the schedule with its error."""
        error, limit, peak_age = self.asked
        seen = error(self.asked.oldest(age, period), epsilon)
        how = (self.bound, self.adversary, peak_age)
        return Schedule(epsilon, age, period, risk, seen, limit, *how, process=self.process, model=error)


def best_schedule(
    process: Process,
    error: ErrorModel,
    limit: float,
    bound: str = "tight",
    *,
    ages: Iterable[int] | None = None,
    periods: Iterable[int] | None = None,
    adversary: str = "stationary",
    peak_age: Literal["whole-steps", "paper"] = "whole-steps",
    method: Literal["search", "algorithms", "convex"] = "search",
) -> Schedule:
    """Return the schedule of least peak risk whose error is at most `limit` (Problem 28/39; paper).

    process   how one person's data moves;  bound, adversary  how its risk is counted: see `periodic_peak`
    error     f(age, ε_C), growing with the age and falling with the loss: see `halflife.lab.age_dependent.staleness`
    ages, periods  which A and S̄ to look at; by default all with an age of information of up to 200 steps
    peak_age  "whole-steps": the reader's data is up to A + S̄ − 1 steps old;  "paper": A + S̄ (eq. 27), for its figures
    method    "search": every age and period, exactly (ours).  For geometric mixing and bound="paper" also "algorithms":
              Algorithms 1 and 2 (paper; corrected, A4), and "convex": a convex program in place of Algorithm 1; both are rounded
              to the integers around, with the loss chosen and the risk certified again

    By the tight bound the best is often old data at every step with hardly any noise: age alone protects where a person is now,
    if the process is right, and where they were is published. Give ages, periods or an error model that say otherwise.

    >>> from halflife.processes import MarkovChain
    >>> chain = MarkovChain([[0.9, 0.1], [0.1, 0.9]])
    >>> def error(age, epsilon):
    ...     return 0.1 * (1 - 0.8**age) + 2 * (0.1 / epsilon) ** 2
    >>> best = best_schedule(chain, error, limit=0.08, periods=[4, 5, 6])
    >>> best.age, best.period, round(best.epsilon, 3), round(best.risk, 3), best.error <= 0.08
    (4, 4, 4.537, 0.861, True)
    """
    asked = Limited.read(error, limit, peak_age)
    _check(process, bound, adversary, method)
    problem = _Problem(process, asked, bound, adversary)
    if method == "search":
        return _search(problem, _splits(asked, ages, periods))
    if ages is not None or periods is not None:
        raise InvalidInput(f"method={method!r} looks at all ages and periods: leave them out, or use method='search'")
    return _round_relaxed(problem, method)


def frontier(
    process: Process, error: ErrorModel, limits: Iterable[float], bound: str = "tight", **options: Any
) -> list[tuple[float, Schedule | None]]:
    """Return each limit with its best schedule, or None where no schedule keeps it; options as for `best_schedule`.

    >>> process = GeometricMixing(1.0, 0.8)
    >>> points = frontier(process, lambda age, epsilon: age / 100 + 0.01 / epsilon, [0.01, 0.1, 0.2], "paper")
    >>> [(limit, best and (best.age, best.period, round(best.risk, 3))) for limit, best in points]
    [(0.01, None), (0.1, (1, 4, 0.248)), (0.2, (11, 4, 0.03))]
    """
    found: list[tuple[float, Schedule | None]] = []
    for limit in limits:
        try:
            found.append((limit, best_schedule(process, error, limit, bound, **options)))
        except NoSchedule:
            found.append((limit, None))
    return found


def _check(process: Process, bound: str, adversary: str, method: str) -> None:
    if not isinstance(process, Process):
        raise InvalidInput(f"process must be a Process such as MarkovChain or GeometricMixing, not {process!r}")
    if process.composes == "once":
        raise InvalidInput(
            f"a {process.name} process says nothing about how a sequence of releases adds up, so no schedule can run for ever: "
            "use a process with the Markov property, such as MarkovChain"
        )
    if method not in METHODS:
        raise unknown("method", method, METHODS)
    if method != "search" and not (isinstance(process, GeometricMixing) and bound == "paper"):
        raise InvalidInput(
            f"method={method!r} is about geometric mixing with bound='paper', not a {process.name} process with bound={bound!r}: "
            "use method='search'"
        )
    periodic_peak(process, 0.0, 0, 1, bound, adversary)  # looks at the bound and the adversary


def _splits(asked: Limited, ages: Iterable[int] | None, periods: Iterable[int] | None) -> Splits:
    """All pairs (A, S̄) to look at."""
    some_ages = range(LONGEST + 1) if ages is None else sorted({whole("age", a, least=0) for a in ages})
    some_periods = range(1, LONGEST + 2) if periods is None else sorted({whole("period", p, least=1) for p in periods})
    most = asked.last_age if ages is not None and periods is not None else min(LONGEST, asked.last_age)
    found: Splits = {}
    for period in reversed(some_periods):
        for age in some_ages:
            oldest = int(asked.oldest(age, period))
            if oldest <= most:
                found.setdefault(oldest, []).append((age, period))
    if not found:
        raise InvalidInput(
            f"no age and period to look at: of {len(some_ages)} ages and {len(some_periods)} periods no pair has an age of "
            f"information of at most {most:g} steps"
        )
    return dict(sorted(found.items()))


def _search(problem: _Problem, splits: Splits) -> Schedule:
    """Return the best schedule over all splits of every age of information; splits that cannot win are skipped.

    A + S̄ alone says how large a loss must be for the error, and the loss grows with it. A risk is never below that of a single
    release; and a period whose risk diverges does so for every larger loss, and so does every shorter period.
    """
    asked, best, diverges = problem.asked, (math.inf, 0.0, 0, 0), 0
    for oldest, pairs in splits.items():
        epsilon = asked.least_loss(oldest)
        if epsilon is None:
            break
        for age, period in pairs:
            if period <= diverges or problem.risk_at_least(epsilon, age) >= best[0]:
                continue
            risk = problem.risk(epsilon, age, period)
            if risk == math.inf:
                diverges = max(diverges, period)
            best = min(best, (risk, epsilon, age, period))
    risk, epsilon, age, period = best
    if risk == math.inf:
        raise _none_fits(problem, next(iter(splits)), diverges)
    return problem.schedule(epsilon, age, period, risk)


def _none_fits(problem: _Problem, youngest: int, diverges: int) -> NoSchedule:
    limit = problem.asked.limit
    least = problem.asked.error(youngest, NO_NOISE)
    if least > limit:
        return NoSchedule(
            f"no schedule has an error of at most {limit:g}: the least that can be reached is {least:.6g}, at an age of "
            f"information of {youngest} steps and almost without noise (ε = {NO_NOISE:g}): give a larger limit, or fresher data"
        )
    return NoSchedule(
        f"every schedule with an error of at most {limit:g} has a risk that grows for ever under bound={problem.bound!r}: "
        f"periods up to {diverges} steps diverge, with the loss that this error needs: give a larger limit"
    )


def _round_relaxed(problem: _Problem, method: str) -> Schedule:
    """Solve the relaxed problem, and keep the best of the whole ages and periods around, certified again."""
    assert isinstance(problem.process, GeometricMixing)
    asked = problem.asked
    aged = (convex_41 if method == "convex" else algorithm_1)(problem.process, asked)
    relaxed = [found for found in (aged, algorithm_2(problem.process, asked)) if found is not None]
    if not relaxed:
        raise NoSchedule(
            f"no schedule in continuous time has an error of at most {asked.limit:g} and a bounded risk by Proposition 3: give a "
            "larger limit, or use bound='tight' with method='search'"
        )
    splits: Splits = {}
    for found in relaxed:
        for period in range(math.ceil(found.period) + 1, max(1, math.floor(found.period) - 1) - 1, -1):
            for age in range(max(0, math.floor(found.age) - 1), math.ceil(found.age) + 2):
                splits.setdefault(int(asked.oldest(age, period)), []).append((age, period))
    best = _search(problem, dict(sorted(splits.items())))
    return replace(best, relaxed=min(relaxed, key=lambda found: found.risk))
