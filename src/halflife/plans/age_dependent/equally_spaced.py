"""The peak risk of equal losses published at equal intervals for ever, under age-dependent privacy.

A loss ε_C is published every S̄ steps, on data that is A steps old. Let r_n be the risk about the state at the n-th data time
from the releases before it. Composition by data time with skip (T4, T4a; ours) says, for every m ≥ 1,

    r_n ≤ G_m(r_{n−m}),   G_m(r) = (m − 1) ε_C + K_{m S̄}(ε_C + r),   and  r_n ≤ (n − 1) ε_C.

G_m grows, and less than r does. So if G_m(r*) ≤ r* then r_n ≤ r* for ever, by induction: r* is at least (m − 1) ε_C, which covers
the first m releases. The least such r* over all m is the limit of the r_n. That is why nothing is promised here that was not
put through G_m once more, with K rounded up.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

from halflife.errors import InvalidInput, unknown
from halflife.numerics.parameters import real, whole
from halflife.numerics.rounding import down, up
from halflife.numerics.search import largest
from halflife.processes import Process
from halflife.processes.base import ADVERSARIES, Direction
from halflife.processes.contraction import ROUND_UP, STEEP, any_prior

Contraction = Callable[[float, int], float]
PERIODIC_BOUNDS = ("tight", "paper")
SKIP = 64
"""How many releases the bound may skip at once: K then looks back m periods, and m − 1 losses are added up."""
CEILING = 350.0
"""A risk above this many nats counts as infinite."""
SMALLEST_LOSS = 1e-12
PRECISION = 1e-13
SMALLEST_RISK = 1e-290
ABOVE_ACCOUNTS = ROUND_UP**2
"""An account rounds up at every release, and slow chains add that up. Here steps round up by more: no account passes it."""


def periodic_peak(
    process: Process, epsilon: float, age: int, period: int, bound: str = "tight", adversary: str = "stationary"
) -> float:
    """Return the largest risk at any step if a loss ε_C is published every S̄ steps on data A steps old for ever; it may be ∞.

    (Definition 12; paper)

    epsilon, age, period  ε_C in nats; A ≥ 0 and S̄ ≥ 1 in steps
    bound  "tight": the limit of composition by data time with skip (T4a; ours), min over m ≥ 0 of m ε_C + K_{A + m S̄}(ε_C + r*);
           "paper": ln(1 + Δ(A)(e^{ε_C} − 1)/(1 − Δ(S̄)e^{ε_C})) while Δ(S̄)e^{ε_C} < 1 (Proposition 3; paper)

    An autoregressive process on a span has ε_C ρ^A/(1 − ρ^S̄), for Laplace noise on the clipped value (T4; ours). A process of
    which only single lags are known promises nothing for ever: ∞. The result is rounded up.

    >>> from halflife.processes import MarkovChain
    >>> chain = MarkovChain([[0.9, 0.1], [0.1, 0.9]])
    >>> [round(periodic_peak(chain, 0.5, age=2, period=4, bound=bound), 4) for bound in ("tight", "paper")]
    [0.5088, 0.8236]
    >>> periodic_peak(chain, 0.5, age=2, period=1, bound="paper")
    inf
    """
    epsilon, age, period = real("epsilon", epsilon), whole("age", age, least=0), whole("period", period, least=1)
    _check(process, bound, adversary)
    if epsilon == 0:
        return 0.0
    if process.composes == "once" or epsilon > STEEP:
        return math.inf
    if process.composes == "autoregressive":
        return _autoregressive(process, epsilon, age, period)
    if bound == "paper":
        return _proposition_3(process.total_variation(age), process.total_variation(period), epsilon)
    tight = _with_skip(contraction(process, adversary), epsilon, age, period)
    return min(tight, periodic_peak(process, epsilon, age, period, "paper")) if adversary == "stationary" else tight


def largest_loss(
    process: Process, limit: float, age: int, period: int, bound: str = "tight", adversary: str = "stationary"
) -> float:
    """Return the largest ε_C with `periodic_peak` at most `limit`, rounded down; at most 700, and 0 if not even 1e−12 fits.

    For bound="paper" it is ln((E + Δ(A))/(Δ(A) + E Δ(S̄))) with E = e^limit − 1, from Proposition 3.

    >>> from halflife.processes import GeometricMixing
    >>> process = GeometricMixing(c=1.0, rho=0.8)
    >>> loss = largest_loss(process, 1.0, age=2, period=4, bound="paper")
    >>> round(loss, 6), periodic_peak(process, loss, age=2, period=4, bound="paper") <= 1.0
    (0.562426, True)
    """
    return _largest_loss(process, real("limit", limit), age, period, bound, adversary)


@functools.lru_cache(maxsize=64)
def _largest_loss(process: Process, limit: float, age: int, period: int, bound: str, adversary: str) -> float:
    """The same; kept, as a policy is loaded again by every command and every round of an audit."""

    def holds(loss: float) -> bool:
        return periodic_peak(process, loss, age, period, bound, adversary) <= limit

    return largest(holds, SMALLEST_LOSS, STEEP, relative=1e-12) if holds(SMALLEST_LOSS) else 0.0


def _check(process: Process, bound: str, adversary: str) -> None:
    if bound not in PERIODIC_BOUNDS:
        raise unknown("bound", bound, PERIODIC_BOUNDS)
    if adversary not in ADVERSARIES:
        raise unknown("adversary", adversary, ADVERSARIES)
    if bound == "paper" and adversary != "stationary":
        raise InvalidInput(
            "Proposition 3 is about an adversary who knows the stationary law: use adversary='stationary', or bound='tight'"
        )
    if process.composes == "autoregressive" and (bound == "paper" or adversary != "stationary"):
        raise InvalidInput(
            "an autoregressive process on a span cannot be composed step by step, as states between leave the span, so only "
            "bound='tight' with adversary='stationary' is sound for a sequence of releases"
        )


def _proposition_3(at_age: float, at_period: float, epsilon: float) -> float:
    """ln(1 + Δ(A)(e^ε − 1)/(1 − Δ(S̄)e^ε)), rounded up."""
    grown = at_period * math.exp(epsilon) * ROUND_UP
    if grown >= 1:
        return math.inf
    return math.log1p(at_age * math.expm1(epsilon) / down(1 - grown)) * ROUND_UP


def _autoregressive(process: Process, epsilon: float, age: int, period: int) -> float:
    """Σ_k ρ^{A + k S̄} ε, rounded up."""
    rho = abs(float(process.parameters()["rho"]))
    left = down(-math.expm1(period * math.log(rho)) / ROUND_UP) if rho > 0 else 1.0
    return epsilon * rho**age / left * ROUND_UP if left > 0 else math.inf


def contraction(process: Process, adversary: str, direction: Direction = "back") -> Contraction:
    """K of a process as a function of the loss and the steps, K_0 being the loss itself."""
    if adversary == "stationary":
        return lambda loss, t: process.contract(loss, t, direction) if t else loss
    spread = functools.cache(process.spread)
    return lambda loss, t: any_prior(spread(t), loss) if t else loss


def _with_skip(contract: Contraction, epsilon: float, age: int, period: int) -> float:
    """The least m ε + K_{A + m S̄}(ε + r*), with r* the least limit of the risk about the data times."""
    own = best = up(epsilon + limit_before(contract, epsilon, period)) * ABOVE_ACCOUNTS
    for m in range(SKIP + 1):
        added = up(m * epsilon) * ABOVE_ACCOUNTS
        if own == math.inf or added >= best:
            break
        best = min(best, up(added + contract(own, age + m * period)))
    return best


def limit_before(contract: Contraction, epsilon: float, period: int) -> float:
    """The least r* over m with G_m(r*) ≤ r*, each put through G_m; ∞ if no m has one up to CEILING."""
    best, found = CEILING, False
    for m in range(1, SKIP + 1):
        skipped = up((m - 1) * epsilon) * ABOVE_ACCOUNTS
        if skipped >= best:
            break

        def holds(r: float, m: int = m, skipped: float = skipped) -> bool:
            return up(skipped + contract(up(epsilon + r) * ABOVE_ACCOUNTS, m * period)) <= r

        if holds(best):  # else the least one of this m is larger, as G_m grows less than r does
            best, found = _least(holds, skipped, best), True
    return best if found else math.inf


def _least(holds: Callable[[float], bool], low: float, high: float) -> float:
    """The least number where `holds`, up to a relative 1e−13, and seen to hold there; it holds at `high`."""
    while high - low > PRECISION * high and high > SMALLEST_RISK:
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
