"""The best schedule in continuous time, for geometric mixing and the paper's bound: Problem 39, before it is rounded.

With Δ(t) = cρ^t a loss ε every S̄ steps on data A steps old has the peak risk ln(1 + cρ^A (e^ε − 1)/(1 − cρ^S̄ e^ε)) (Prop. 3).
Sought is the least, with an error f of at most a limit. Nothing here is certified: `best_schedule` does that with whole steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from halflife.errors import InvalidInput, unknown
from halflife.numerics.parameters import real, whole
from halflife.processes import GeometricMixing
from halflife.processes.contraction import STEEP

ErrorModel = Callable[[float, float], float]
"""f(age in steps, loss ε_C): grows with the age, falls with the loss."""

PEAK_AGES = {"whole-steps": 1, "paper": 0}
LONGEST = 200
"""The largest age of information that is looked at if nothing else is said."""
FARTHEST = 1000.0
"""Schedules in continuous time have an age of information of at most this."""
LEAST_LOSS = 1e-6
CONVEX_START = 40
HUGE = 1e9
NO_NOISE = STEEP
"""A loss at which noise no longer matters."""


class Relaxed(NamedTuple):
    """A schedule in continuous time: Problem 39's variables, and its risk by Proposition 3, not rounded up."""

    epsilon: float
    age: float
    period: float
    risk: float


class Limited(NamedTuple):
    """An error model with its limit, and how the age of information is counted: A + S̄ − 1, or A + S̄ as in the paper."""

    error: ErrorModel
    limit: float
    peak_age: str

    @classmethod
    def read(cls, error: ErrorModel, limit: float, peak_age: str) -> Limited:
        """Return the error model with its limit after checking the arguments."""
        if not callable(error):
            raise InvalidInput(f"error must be a function of the age and the loss, not {error!r}")
        if peak_age not in PEAK_AGES:
            raise unknown("peak_age", peak_age, PEAK_AGES)
        return cls(error, real("limit", limit, positive=True), peak_age)

    @property
    def last_age(self) -> float:
        """The largest age that the model knows anything about."""
        return float(getattr(self.error, "last_age", math.inf))

    def oldest(self, age: float, period: float) -> float:
        """The largest age of information of a schedule."""
        return max(0, age + period - PEAK_AGES[self.peak_age])

    def allows(self, oldest: float, epsilon: float) -> bool:
        """Whether the error at this age of information is at most the limit."""
        found = self.error(oldest, epsilon)
        if math.isnan(found):
            raise InvalidInput(
                f"the error model gives NaN at age {oldest:g} and ε = {epsilon:g}: it must give a number"
            )
        return found <= self.limit

    def fits(self, epsilon: float, age: float, period: float) -> bool:
        """Whether a schedule's error is at most the limit."""
        return self.allows(self.oldest(age, period), epsilon)

    def least_loss(self, oldest: float) -> float | None:
        """The least loss whose error is at most the limit at this age, seen to be so; None if there is none up to 700."""
        low, high = LEAST_LOSS, NO_NOISE
        if not self.allows(oldest, high):
            return None
        if self.allows(oldest, low):
            return low
        while high - low > 1e-12 * high:
            middle = math.sqrt(low * high)
            low, high = (low, middle) if self.allows(oldest, middle) else (middle, high)
        return high

    def farthest(self) -> float:
        """The largest A + S̄ whose error without noise is at most the limit (Ā of Algorithm 1), up to FARTHEST; 0 if none is."""
        most = min(FARTHEST, self.last_age) + PEAK_AGES[self.peak_age]
        return bisect(lambda steps: self.fits(NO_NOISE, 0.0, steps), most, 1e-9) or 0.0


def proposition_3(process: GeometricMixing, epsilon: float, age: float, period: float) -> float:
    """ln(1 + cρ^A (e^ε − 1)/(1 − cρ^S̄ e^ε)) for real A and S̄, ∞ unless cρ^S̄ e^ε < 1 (eq. 39a; paper). Not rounded up.

    >>> round(proposition_3(GeometricMixing(1.0, 0.8), 0.5, 2.0, 4.0), 4)
    0.8236
    """
    left = 1 - process.c * process.rho**period * math.exp(epsilon)
    return math.log1p(process.c * process.rho**age * math.expm1(epsilon) / left) if left > 0 else math.inf


def proposition_4(process: GeometricMixing, epsilon: float) -> float:
    """S̄ = (ln(2c) + ε)/ln(1/ρ): the best period for a loss, if data is aged at all (Proposition 4, eq. 40; paper).

    >>> round(0.8 ** proposition_4(GeometricMixing(1.0, 0.8), 0.5) * math.exp(0.5), 12)
    0.5
    """
    return -(math.log(2 * process.c) + epsilon) / math.log(process.rho)


def algorithm_1(process: GeometricMixing, asked: Limited, points: int = 200, phi: float = 1e-4) -> Relaxed | None:
    """Solve Problem 41, where A ≥ 0 does not bind: a grid of ε, S̄ by Proposition 4, bisection for A (Algorithm 1; corrected, A4).

    As printed the loop runs while the bracket is smaller than φ, and never sets its midpoint; here it runs while the bracket is
    larger. The answer minimises ρ^A (e^ε − 1), which is the same as the risk, as S̄ follows from ε. None if nothing is feasible.
    """
    longest, best = asked.farthest(), None
    for epsilon in _grid(process, longest, points):
        period = proposition_4(process, epsilon)
        age = bisect(lambda a, e=epsilon, s=period: asked.fits(e, a, s), longest - period, phi)  # type: ignore[misc]
        if age is not None:
            best = _better(best, process, epsilon, age, period)
    return best


def algorithm_2(process: GeometricMixing, asked: Limited, points: int = 200, phi: float = 1e-4) -> Relaxed | None:
    """Solve Problem 42, where A = 0: a grid of ε, bisection for S̄ (Algorithm 2; corrected, A4). None if nothing is feasible."""
    longest, best = asked.farthest(), None
    for epsilon in _grid(process, longest, points):
        period = bisect(lambda s, e=epsilon: asked.fits(e, 0.0, s), longest, phi)  # type: ignore[misc]
        if period is not None:
            best = _better(best, process, epsilon, 0.0, period)
    return best


def convex_41(process: GeometricMixing, asked: Limited) -> Relaxed | None:
    """Solve Problem 41 as a convex program, in A and u = ln(e^ε − 1). None if nothing is feasible.

    The paper calls Problem 41 convex whenever f is. Its objective ρ^A (e^ε − 1) is not convex in (A, ε): its Hessian's
    determinant is −ln²ρ ρ^{2A} e^ε < 0 (erratum; ours). With u it becomes so: the objective's logarithm u − A ln(1/ρ) is linear,
    and S̄ is convex in u. It remains that f(t, ln(1 + e^u)) is convex, as for staleness linear in t plus the variance of Laplace
    noise; that is tried on pairs of points, and a model above a chord is refused. A is as large as the limit allows, so one
    variable is left, in which the objective is convex.
    """
    from scipy.optimize import minimize_scalar

    start = algorithm_1(process, asked, points=CONVEX_START)
    if start is None:
        return None
    longest = asked.farthest()
    _refuse_nonconvex(asked, longest)

    def solve_at(u: float) -> Relaxed | None:
        epsilon = math.log1p(math.exp(u))
        period = proposition_4(process, epsilon)
        age = bisect(lambda a: asked.fits(epsilon, a, period), longest - period, 1e-12 * longest)
        return None if age is None else _better(None, process, epsilon, age, period)

    def objective(u: float) -> float:
        found = solve_at(u)
        return HUGE if found is None else u + math.log(process.rho) * found.age

    step = _grid(process, longest, CONVEX_START)[0]
    low, high = (math.log(math.expm1(max(step / 1000, start.epsilon + side * step))) for side in (-1, 1))
    found = solve_at(float(minimize_scalar(objective, bounds=(low, high), method="bounded", options={"xatol": 1e-9}).x))
    return found if found is not None and found.risk < start.risk else start


def no_trade_off(error: ErrorModel, rho: float, c: float = 1.0, longest: float = LONGEST, points: int = 40) -> bool:
    """Say whether its condition holds, on a grid: then a larger error buys no risk (Corollary 3; paper).

    The condition: f((ln(e^ε − 1) + ε)/ln(1/ρ) + a, ε) falls in ε for every a. Along such a curve the peak risk stays the same. It
    is looked at where schedules are, cρ^t e^ε < 1 and t at most `longest`. It is sufficient, not necessary.

    >>> no_trade_off(lambda age, epsilon: 1 / epsilon, rho=0.8)
    True
    >>> no_trade_off(lambda age, epsilon: age / 100 + 1 / epsilon, rho=0.8)
    False
    """
    process = GeometricMixing(c, rho)
    forget = -math.log(process.rho)
    for epsilon in np.geomspace(0.01, max(0.02, longest * forget - math.log(c)), points).tolist():
        further = epsilon * 1.001
        moved = (math.log(math.expm1(further) / math.expm1(epsilon)) + further - epsilon) / forget
        first = (epsilon + math.log(c)) / forget
        for age in np.linspace(first, longest - moved, points).tolist() if first < longest - moved else ():
            if error(age + moved, further) > error(age, epsilon) * (1 + 1e-12):
                return False
    return True


def _grid(process: GeometricMixing, longest: float, points: int) -> list[float]:
    """ε = kε̄/K, k = 1 … K, up to the largest for which cρ^S̄ e^ε < 1 at the longest period, and to 20."""
    highest = min(20.0, -longest * math.log(process.rho) - math.log(process.c))
    return [highest * k / points for k in range(1, whole("points", points, least=1) + 1)] if highest > 0 else []


def bisect(holds: Callable[[float], bool], high: float, tolerance: float) -> float | None:
    """The largest number from 0 to `high` where `holds`, up to the tolerance and seen to hold; None if it does not at 0."""
    low = 0.0
    if high < low or not holds(low):
        return None
    if holds(high):
        return high
    while high - low > tolerance:
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _better(
    best: Relaxed | None, process: GeometricMixing, epsilon: float, age: float, period: float
) -> Relaxed | None:
    """Return the schedule with less risk; one whose risk diverges does not count."""
    risk = proposition_3(process, epsilon, age, period)
    if risk == math.inf or (best is not None and best.risk <= risk):
        return best
    return Relaxed(epsilon, age, period, risk)


def _refuse_nonconvex(asked: Limited, longest: float) -> None:
    """Try f(t, ln(1 + e^u)) halfway between pairs of points; a model above its chord there is refused."""
    rng = np.random.default_rng(0)
    for _ in range(300):
        (s, t), (u, v) = rng.uniform(0, longest, 2).tolist(), rng.uniform(-4, 4, 2).tolist()
        chord = (asked.error(s, math.log1p(math.exp(u))) + asked.error(t, math.log1p(math.exp(v)))) / 2
        if asked.error((s + t) / 2, math.log1p(math.exp((u + v) / 2))) > chord * (1 + 1e-9):
            raise InvalidInput(
                f"the error model is not convex between ages {s:.3g} and {t:.3g}, so a convex solver may stop anywhere: use "
                "method='search' or 'algorithms'"
            )
