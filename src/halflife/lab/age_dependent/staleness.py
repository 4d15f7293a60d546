"""How wrong a release is once it has aged: error models f(t, ε) for choosing a schedule.

Each is called with the age of the data in steps and the loss ε_C of the release, and gives the error that its reader sees. It
grows with the age (the world moved on) and falls with the loss (less noise). A loss of ∞ is no noise: what remains is staleness.
"""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from halflife.errors import InvalidInput, unknown
from halflife.numerics.arrays import Floats
from halflife.numerics.parameters import real, whole

RULES = ("likelihood", "posterior")
MOST_PEOPLE = 2000
FORGOTTEN = 1e-9
"""Below this λ^t the chances given the start differ by less than rounding can show, and their limit's shape is used."""


def _age_and_loss(age: float, epsilon: float) -> tuple[float, float]:
    """Check what an error model is asked for."""
    return real("age", age), math.inf if epsilon == math.inf else real("epsilon", epsilon, positive=True)


@dataclass(frozen=True)
class _TwoStates(ABC):
    """`people` independent people on a chain of two states, −1 and 1, in its stationary law (Example 1; paper).

    p = Pr[−1 → 1] and q = Pr[1 → −1] per step (eq. 43). Published is the mean plus Laplace noise of scale 2/(ε I), as one person
    moves it by 2/I. Eq. 48 prints 1/(ε I), which is 2ε-DP (erratum A2): `as_printed=True` is for drawing the paper's curves only.
    """

    p: float
    q: float
    people: int
    _: KW_ONLY
    as_printed: bool = False

    def __post_init__(self) -> None:
        for name in ("p", "q"):
            object.__setattr__(self, name, real(name, getattr(self, name), positive=True))
        object.__setattr__(self, "people", whole("people", self.people, least=1))
        if self.people > MOST_PEOPLE:
            raise InvalidInput(f"people must be at most {MOST_PEOPLE:,}, not {self.people:,}")
        if self.p + self.q > 1:
            raise InvalidInput(
                f"p + q = {self.p + self.q:g} is above 1: such a chain prefers to change at every step, so its error goes up and "
                "down with the age, and no schedule can be sought by its largest age"
            )

    @abstractmethod
    def __call__(self, age: float, epsilon: float) -> float:
        """The error at this age, with this loss."""

    @property
    def up(self) -> float:
        """π(1) = p/(p + q), how likely a person is in state 1 (below eq. 43)."""
        return self.p / (self.p + self.q)

    def left(self, age: float) -> float:
        """λ^t with λ = 1 − p − q: how much of the start is left after t steps (eq. 44, 47)."""
        return math.pow(max(0.0, 1 - self.p - self.q), age)

    def scale(self, epsilon: float) -> float:
        """The noise: 2/(ε I) (corrected, A2), or 1/(ε I) as printed in eq. 48."""
        return (1 if self.as_printed else 2) / (epsilon * self.people)


@dataclass(frozen=True)
class TwoStateMSE(_TwoStates):
    """f(t, ε) = E[(M(X_0) − mean x_t)²] = 8 π(1)π(−1)(1 − λ^t)/I + 2 b², with b the noise's scale (eq. 49; corrected, A2).

    Each person differs from where they were with probability 2 π(1)π(−1)(1 − λ^t), and then by 2.

    >>> error = TwoStateMSE(0.1, 0.1, people=20)
    >>> round(error(0, 1.0), 4), round(error(3, 1.0), 4), round(error(3, math.inf), 4)
    (0.02, 0.0688, 0.0488)
    """

    def __call__(self, age: float, epsilon: float) -> float:
        """The mean squared error at this age, with this loss."""
        age, epsilon = _age_and_loss(age, epsilon)
        moved = 2 * self.up * (1 - self.up) * (1 - self.left(age))
        return 4 * moved / self.people + 2 * self.scale(epsilon) ** 2


@dataclass(frozen=True)
class TwoStateFailureRate(_TwoStates):
    """f(t, ε) = Pr[g(M(X_0)) ≠ z_t]: how often the guess z_t = "the mean is at least 0" is wrong (eq. 50, 51; paper).

    rule     "likelihood": guess the z under which the output M is likelier, the maximum likelihood estimate by name;
             "posterior": guess the likelier z given M, which is what eq. 50 says. They differ because a mean of 0 counts as
             z = 1: with p = q and 20 people Pr[z = 1] = 0.588, so with time the first fails half of the time and the second
             41.2 % of it. Figure 5(a) goes to one half
    initial  eq. 51 is conditional on X_0, and the paper does not say which: None is the average over the stationary law, what a
             reader meets; a number is how many people were in state 1, and the rate then depends on it wholly

    It is exact: counts of people are summed over, and as the likelihood ratio rises with M (the Laplace density is log-concave) a
    guess is a threshold on M, which has a closed form between two neighbouring counts. A Laplace distribution function is left.

    >>> error = TwoStateFailureRate(0.1, 0.1, people=20)
    >>> round(error(0, 1.0), 4), round(error(5, 1.0), 4), round(error(200, 1.0), 4)
    (0.145, 0.4061, 0.5)
    """

    _: KW_ONLY
    rule: Literal["likelihood", "posterior"] = "likelihood"
    initial: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rule not in RULES:
            raise unknown("rule", self.rule, RULES)
        if self.initial is not None and whole("initial", self.initial, least=0) > self.people:
            raise InvalidInput(f"initial must be at most the {self.people} people there are, not {self.initial}")

    def __call__(self, age: float, epsilon: float) -> float:
        """The failure rate at this age, with this loss."""
        age, epsilon = _age_and_loss(age, epsilon)
        scale, left = self.scale(epsilon), self.left(age)
        law, chance = _start(self.up, self.people), _chances(self.up, left, self.people)
        means = 2 * np.arange(self.people + 1) / self.people - 1
        below = _laplace(self.threshold(age, epsilon) - means, scale)
        wrong = chance * below + (1 - chance) * (1 - below)
        return float(law @ wrong if self.initial is None else wrong[self.initial])

    def threshold(self, age: float, epsilon: float) -> float:
        """The output from which on the guess is z = 1; −∞ or ∞ if it is the same for every output."""
        age, epsilon = _age_and_loss(age, epsilon)
        left = self.left(age)
        law, chance = _start(self.up, self.people), _chances(self.up, left, self.people)
        favour: Floats
        if self.rule == "posterior":
            favour = 2 * chance - 1
        elif left > FORGOTTEN:
            favour = chance - float(law @ chance)  # ∝ chance/Pr[z = 1] − (1 − chance)/Pr[z = 0]
        else:
            favour = np.arange(self.people + 1.0) - self.people * self.up
        return _crossing(law * favour, 2 / self.people, self.scale(epsilon)) - 1


def _laplace(x: Floats, scale: float) -> Floats:
    """Pr[noise < x] for Laplace noise; without noise, whether x is positive."""
    with np.errstate(divide="ignore", invalid="ignore"):
        tail = 0.5 * np.exp(-np.abs(x) / scale) if scale > 0 else np.where(x == 0, 0.5, 0.0)
    return np.where(x < 0, tail, 1 - tail)


def _crossing(weights: Floats, gap: float, scale: float) -> float:
    """Where Σ_k w_k e^{−|M − k·gap|/b} turns from negative to positive, for w that turn once; −∞ or ∞ if it does not.

    Between neighbours it is L e^{−(M − left)/b} + R e^{(M − right)/b}, with L and R the sums from the left and the right.
    """
    fade = math.exp(-gap / scale) if scale > 0 else 0.0
    left, right = _running(weights, fade), _running(weights[::-1], fade)[::-1]
    at_points = left + np.append(right[1:], 0.0) * fade
    positive = np.flatnonzero(at_points >= 0)
    if not len(positive):
        return math.inf
    j = int(positive[0])
    if j == 0:
        return -math.inf
    inside = scale / 2 * math.log(-left[j - 1] / right[j]) if left[j - 1] < 0 < right[j] else math.inf
    return min(max((j - 0.5) * gap + inside, (j - 1) * gap), j * gap)


def _running(weights: Floats, fade: float) -> Floats:
    """The sums Σ_{k ≤ j} w_k fade^{j−k}."""
    result, total = np.empty_like(weights), 0.0
    for j, weight in enumerate(weights.tolist()):
        total = total * fade + weight
        result[j] = total
    return result


@functools.lru_cache(maxsize=64)
def _start(up: float, people: int) -> Floats:
    """How likely each number of people is in state 1, in the stationary law."""
    law: Floats = _binomials(up, people)[people]
    return law


@functools.lru_cache(maxsize=1024)
def _chances(up: float, left: float, people: int) -> Floats:
    """Pr[the mean is at least 0 after a while | k people began in state 1], k = 0 … I, where λ^t is left of the start."""
    stayed, came = _binomials(up + (1 - up) * left, people), _binomials(up * (1 - left), people)
    tails = np.cumsum(came[:, ::-1], axis=1)[:, ::-1]  # [n, j]: at least j of n came
    needed = np.maximum((people + 1) // 2 - np.arange(people + 1), 0)
    chosen = tails[people - np.arange(people + 1)][:, needed]
    chances: Floats = np.minimum((stayed * chosen).sum(axis=1), 1.0)
    return chances


def _binomials(chance: float, most: int) -> Floats:
    """The binomial laws of 0, 1, …, `most` people, one a row."""
    rows = np.zeros((most + 1, most + 1))
    rows[0, 0] = 1.0
    for n in range(most):
        rows[n + 1] = rows[n] * (1 - chance)
        rows[n + 1, 1:] += rows[n, :-1] * chance
    return rows


@dataclass(frozen=True)
class AutoRegressiveMSE:
    """f(t, ε) = 2(1 − ρ^t)σ²/(I(1 − ρ²)) + 2(span/(ε I))² for the mean of I people's AR(1) values (eq. 91; corrected, A3).

    What is published is x_0, not its forecast ρ^t x_0, so staleness is E[(x_0 − x_t)²]; and a value needs a span to clip to
    before one person's pull is bounded (A6). What clipping itself does to the mean is not in it. `as_printed=True` gives eq. 92,
    (1 − ρ^{2t})σ²/(I(1 − ρ²)) + 1/(ε I)², for drawing the paper's curves only.

    >>> round(AutoRegressiveMSE(0.8, 1.0, people=1, span=1.0)(10, math.inf), 2)
    4.96
    """

    rho: float
    sigma: float
    people: int
    span: float
    _: KW_ONLY
    as_printed: bool = False

    def __post_init__(self) -> None:
        for name in ("rho", "sigma", "span"):
            object.__setattr__(self, name, real(name, getattr(self, name), positive=name != "rho"))
        object.__setattr__(self, "people", whole("people", self.people, least=1))
        if self.rho >= 1:
            raise InvalidInput(f"rho must be below 1, or the process never settles, not {self.rho!r}")

    def __call__(self, age: float, epsilon: float) -> float:
        """The mean squared error at this age, with this loss."""
        age, epsilon = _age_and_loss(age, epsilon)
        variance = self.sigma**2 / (self.people * (1 - self.rho**2))
        if self.as_printed:
            return (1 - math.pow(self.rho, 2 * age)) * variance + 1 / (epsilon * self.people) ** 2
        return 2 * (1 - math.pow(self.rho, age)) * variance + 2 * (self.span / (epsilon * self.people)) ** 2


class MeasuredError:
    """f(t, ε) from a series of one's own: the mean squared change over up to t steps, plus the noise 2(Δf/ε)² (ours).

    series       the published quantity, exact, step by step; NaN, None and infinities are missing and skipped
    sensitivity  Δf, how far one person can move it

    A real series comes back after a day, so that its change over 24 hours is less than over 12. A reader sees every age up to
    the largest, so f takes the worst change over all lags up to t, and grows with t as it must. It is a fact about this
    series, read without noise: for design, on data that is public or paid for. An age without a single pair is refused.

    >>> error = MeasuredError([0.0, 1.0, None, 1.0, 0.0], sensitivity=0.1)
    >>> round(error(0, 1.0), 3), round(error(1, 1.0), 3), error.last_age
    (0.02, 1.02, 4)
    """

    def __init__(self, series: Sequence[float | None] | NDArray[Any], sensitivity: float) -> None:
        try:
            values = np.array(series, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InvalidInput(f"the series holds something that is no number: {error}") from None
        self.series: Floats = np.where(np.isfinite(values), values, np.nan)
        if values.ndim != 1 or not np.isfinite(values).any():
            raise InvalidInput("the series must be a list with at least one number that is not missing")
        self.sensitivity = real("sensitivity", sensitivity, positive=True)
        self._worst = [0.0]

    @property
    def last_age(self) -> int:
        """The largest age that the series has a pair of readings for, and for every age before it."""
        known = np.flatnonzero(np.isfinite(self.series))
        last = int(known[-1] - known[0])
        return next((t - 1 for t in range(1, last + 1) if math.isnan(self._change(t))), last)

    def _change(self, lag: int) -> float:
        """The mean squared change over this many steps; NaN if no pair is known."""
        changes = self.series[lag:] - self.series[: len(self.series) - lag]
        changes = changes[np.isfinite(changes)]
        return float(np.mean(changes**2)) if len(changes) else math.nan

    def __call__(self, age: float, epsilon: float) -> float:
        """The mean squared error at this age (rounded up to whole steps), with this loss."""
        age, epsilon = _age_and_loss(age, epsilon)
        steps = math.ceil(age)
        while len(self._worst) <= steps:
            change = self._change(len(self._worst)) if len(self._worst) < len(self.series) else math.nan
            if math.isnan(change):
                raise InvalidInput(
                    f"the series of {len(self.series):,} steps has no two readings {len(self._worst):,} steps apart, so "
                    f"nothing is known about an age of {age:g}: give a longer series, or look at shorter ages"
                )
            self._worst.append(max(self._worst[-1], change))
        return self._worst[steps] + 2 * (self.sensitivity / epsilon) ** 2
