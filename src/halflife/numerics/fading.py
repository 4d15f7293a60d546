"""Sums that fade: Σ_k d(t − S_k) x_k kept in constant size, never below the true sum.

`Geometric` fades by α a step, exactly in whole units. `Hyperbolic` fades like 1/(1+βj)ᵖ through a certified sum of
exponentials (T2; known technique, Beylkin and Monzón 2005).
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from halflife.errors import InvalidInput
from halflife.numerics.arrays import Floats
from halflife.numerics.parameters import real
from halflife.numerics.rounding import float_up, read_units, to_units, up


class Fading(Protocol):
    """A sum that fades: its states are values that are never changed in place."""

    @property
    def zero(self) -> Any: ...  # noqa: D102
    @property
    def terms(self) -> tuple[Floats, Floats]: ...  # noqa: D102
    def fade(self, state: Any, gap: int) -> Any: ...  # noqa: D102
    def add(self, state: Any, x: float) -> Any: ...  # noqa: D102
    def total(self, state: Any) -> float: ...  # noqa: D102
    def dump(self, state: Any) -> object: ...  # noqa: D102
    def load(self, data: Any) -> Any: ...  # noqa: D102


class Geometric:
    """d(j) = αʲ with 0 < α ≤ 1. A state is a whole number of units of 2⁻¹²⁰; α = 1 never fades, and is exact.

    A product with the double α is exact but for rounding up to a unit; over a gap of several steps αʲ is rounded up.

    >>> g = Geometric(0.5)
    >>> g.total(g.add(g.fade(g.add(g.zero, 1.0), 1), 0.25))
    0.75
    """

    zero = 0

    def __init__(self, alpha: float) -> None:
        self.alpha = alpha

    @property
    def terms(self) -> tuple[Floats, Floats]:
        """Rates and weights of the exponentials that d is the sum of: one."""
        return np.array([-math.log(self.alpha)]), np.ones(1)

    def factor(self, gap: int) -> float:
        """Return α^gap, exactly for a gap of 0 or 1, else rounded up."""
        if gap <= 1 or self.alpha == 1:
            return self.alpha if gap else 1.0
        return min(1.0, up(up(self.alpha**gap)))

    def fade(self, state: int, gap: int) -> int:
        """Return the state `gap` steps later, rounded up to a unit."""
        _check_gap(gap)
        if gap == 0 or state == 0:
            return state
        numerator, denominator = self.factor(gap).as_integer_ratio()
        return -((-state * numerator) // denominator)

    def add(self, state: int, x: float) -> int:
        """Return the state with x added now."""
        return state + to_units(x)

    def total(self, state: int) -> float:
        """Return the sum, rounded up."""
        return float_up(state)

    def dump(self, state: int) -> str:
        """Return the units in hexadecimal, exactly."""
        return hex(state)

    def load(self, data: Any) -> int:
        """Read what `dump` gave."""
        return read_units(data)


class Hyperbolic:
    """d(j) = 1/(1+βj)ᵖ, β > 0, p = 1 or 2, by about 170 fading terms whose sum is never below it, for any j.

    With X = 1 + βj, X⁻ᵖ = (1/Γ(p)) ∫ s^{p−1} e^{−sX} ds, and s = eᵘ makes the trapezoid rule of step h in u exact but for a
    relative error of at most η = 2 Σ_k |Γ(p + 2πik/h)| / Γ(p), whatever X (Poisson summation: the sum depends on X only
    through a phase). Terms beyond s = `LAST` are dropped, a relative loss of at most (1+s)e^{−s}; both losses are paid for by
    weights that much larger. The terms below s_min fade hardly at all: they become *one* that never fades, of weight
    Σ h s_i^p / Γ(p), at least as large as they are together. So the sum is an upper bound at every j; up to j = 2⁴⁰ it is less
    than 10⁻⁷ too large, and beyond it stays at the term that never fades.

    Each fading product is multiplied by 1 + 2⁻⁵⁰ for its rounding, so a loss published n steps one by one ago is
    over-reported by at most n·2⁻⁵⁰.

    >>> f = Hyperbolic(0.1)
    >>> state = f.fade(f.add(f.zero, 1.0), 90)
    >>> round(f.total(state), 9), f.total(state) >= 0.1
    (0.1, True)
    """

    STEP = 0.28
    LAST = 40.0
    FARTHEST = 2.0**40
    SLACK = 1e-8

    def __init__(self, beta: float, power: int = 1) -> None:
        self.beta, self.power = beta, power
        least = (self.SLACK / (1 + beta * self.FARTHEST) ** power * math.gamma(power + 1)) ** (1 / power)
        u = np.arange(math.log(self.LAST), math.log(least), -self.STEP)[::-1]
        s = np.exp(u)
        lost = trapezoid_error(self.STEP, power) + (1 + self.LAST) * math.exp(-self.LAST)
        pay = (1 + 1e-13) / (1 - lost)
        weights = pay * self.STEP * s**power * np.exp(-s) / math.gamma(power)
        below = pay * self.STEP * s[0] ** power / math.gamma(power) / math.expm1(power * self.STEP)
        self._rates = np.append(s * beta, 0.0)
        self._weights = np.append(weights, below)

    @property
    def zero(self) -> Floats:
        """Nothing yet."""
        return np.zeros(len(self._rates))

    @property
    def terms(self) -> tuple[Floats, Floats]:
        """Rates and weights of the exponentials whose sum is d, or a little more."""
        return self._rates, self._weights

    def __len__(self) -> int:
        return len(self._rates)

    @cached_property
    def _one_step(self) -> Floats:
        return self._factors(1)

    def _factors(self, gap: int) -> Floats:
        factors: Floats = np.exp(-self._rates * gap) * (1 + 2.0**-50)
        return factors

    def fade(self, state: Floats, gap: int) -> Floats:
        """Return the state `gap` steps later, rounded up."""
        _check_gap(gap)
        if gap == 0:
            return state
        return state * (self._one_step if gap == 1 else self._factors(gap))

    def add(self, state: Floats, x: float) -> Floats:
        """Return the state with x added now; what is so small that its terms would vanish counts as 10⁻²⁰⁰."""
        return state + (max(x, 1e-200) if x else 0.0) * self._weights

    def total(self, state: Floats) -> float:
        """Return the sum, rounded up by a part in 10¹³ for the summation's own rounding."""
        return float(state.sum()) * (1 + 1e-13)

    def dump(self, state: Floats) -> list[float]:
        """Return the terms; doubles survive JSON bit for bit."""
        return list(state.tolist())

    def load(self, data: Any) -> Floats:
        """Read what `dump` gave."""
        if not isinstance(data, list) or len(data) != len(self):
            raise InvalidInput(f"a fading sum must be a list of {len(self)} terms")
        return np.array([0.0 if x == 0 else _term(x) for x in data])


def _check_gap(gap: int) -> None:
    if gap < 0:
        raise InvalidInput(f"a fading sum cannot go back by {-gap} steps: its step lies after the one asked for")


def _term(x: Any) -> float:
    return x if isinstance(x, float) and 0 < x < 1e-300 else real("term of a fading sum", x)


def trapezoid_error(step: float, power: int) -> float:
    """Return η = 2 Σ_k |Γ(p + 2πik/h)| / Γ(p), rounded up: |Γ(1+iy)|² = πy / sinh πy, and Γ(2+iy) = (1+iy)Γ(1+iy).

    >>> f"{trapezoid_error(0.5, 1):.3e}"
    '4.754e-08'
    """
    total = 0.0
    for k in (1, 2, 3):
        y = 2 * math.pi * k / step
        gamma = math.sqrt(2 * math.pi * y) * math.exp(-math.pi * y / 2) * (1 + 1e-12)
        total += 2 * gamma * (math.hypot(1, y) if power == 2 else 1.0)
    return total * (1 + 1e-9)


def fading(alpha: float | None, beta: float | None, power: int = 1) -> Fading:
    """Return the sum for d(j)ᵖ with d(j) = αʲ or 1/(1+βj); β = 0 never fades."""
    if beta is not None and beta > 0:
        return Hyperbolic(beta, power)
    if alpha is None or alpha == 1:
        return Geometric(1.0)
    return Geometric(alpha if power == 1 else min(1.0, up(alpha * alpha)))
