"""What factorisations of prefix sums share: measure s = Cx + z, publish totals L s; their noise, and simulated totals."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from halflife.accountant import Accountant
from halflife.errors import InvalidInput
from halflife.mechanisms import SimulatedDraw
from halflife.notions import Classical, WEvent
from halflife.notions.gaussian_dp import gaussian_mu
from halflife.numerics.arrays import Floats
from halflife.numerics.parameters import real, whole
from halflife.numerics.power_series import convolution, renewal
from halflife.numerics.rounding import up

FRACTION_BITS = 40
"""Entries of C are whole multiples of 2⁻⁴⁰, so that C times whole numbers is known exactly."""


class FactoredTotals(ABC):
    """Running totals A x, A the lower triangle of ones, by a factorisation A = L C into lower triangular Toeplitz matrices
    (known).

    What is measured is s = Cx + z, with z independent Gaussian noise of standard deviation σ. Totals are L s = A x + L z,
    worked out from s alone. C has entries c_0 = 1, c_1, … ≥ 0 on its diagonals, rounded *down* to multiples of 2⁻⁴⁰; L is what
    is left of A after that: with power series, l(z) = 1/((1 − z) c(z)). So the rounding changes neither the totals nor the
    promise.

    **w-event (ε, δ).** Between neighbours x moves by Δ·d, |d_i| ≤ 1 inside a window of w steps and 0 outside. s is one Gaussian
    measurement of a vector that moves by Δ·Cd, and its loss is that of a Gaussian with μ = Δ‖Cd‖/σ exactly (known: noise is
    alike in all directions). As c ≥ 0, each entry of Cd is at most that of C·1_w in size: ‖Cd‖ ≤ ‖C·1_w‖, the window of ones.
    Among positions of the window the first is worst: a later one has the same numbers, cut off earlier by the horizon. So

        σ = Δ ‖C·1_w‖ / μ(ε, δ),        Var(total at t) = σ² (l_0² + … + l_{t−1}²)

    where μ(ε, δ) is the largest μ that is (ε, δ)-private.

    sensitivity  Δ, how far one person can move the value of one step
    """

    name: ClassVar[str]
    cumulative: ClassVar[bool] = True

    def __init__(self, notion: WEvent, sensitivity: float = 1.0) -> None:
        if not isinstance(notion, WEvent) or not notion.delta:
            raise InvalidInput(
                f"{self.name} has Gaussian noise: it is proved for w-event privacy with a delta, not for {notion!r}"
            )
        self.notion, self.sensitivity = notion, real("sensitivity", sensitivity, positive=True)

    @abstractmethod
    def factor(self, steps: int) -> Floats:
        """Return c_0, …, c_{steps−1} as they are measured with."""

    @abstractmethod
    def window_norm(self) -> float:
        """Return a bound on ‖C·1_w‖."""

    @property
    def scale(self) -> float:
        """σ: the standard deviation of the noise of each measurement."""
        return up(self.sensitivity * self.window_norm() / gaussian_mu(self.notion.epsilon, self.notion.delta))

    def multipliers(self, steps: int) -> Floats:
        """Return the standard deviations of the totals at steps 1 … n for μ = Δ = 1: per noise multiplier, as papers say."""
        return self.window_norm() * np.sqrt(np.cumsum(self._second(steps) ** 2))

    def stds(self, steps: int) -> Floats:
        """Return the standard deviations of the totals at steps 1 … n."""
        return self.scale / self.window_norm() * self.multipliers(steps)

    def simulate(self, series: Floats, seed: int, lanes: int = 1) -> Floats:
        """Return noisy totals of a series in so many repetitions, an array (steps, lanes). Seeded: never for a release.

        All measurements together are charged as one release to an account of (ε, δ) about a window, whichever it is.
        """
        values = np.asarray(series, dtype=np.float64)
        if values.ndim != 1 or not np.isfinite(values).all():
            raise InvalidInput(f"a series is a row of finite numbers, not of shape {values.shape}")
        second, moves = self._second(len(values)), self.sensitivity * self.window_norm()
        draw = SimulatedDraw([Accountant(Classical(self.notion.epsilon, self.notion.delta))], seed, lanes)
        with draw.step(1) as d:
            noise = d(None, moves, scale=self.scale, noise="gaussian", size=len(values)).reshape(lanes, len(values))
        return np.cumsum(values)[:, None] + np.stack([convolution(second, lane) for lane in noise], axis=1)

    def _second(self, steps: int) -> Floats:
        """l: the prefix sums of the inverse of c."""
        c = self.factor(whole("steps", steps, least=1))
        return np.cumsum(renewal(np.concatenate([[0.0], -c[1:]])))


def round_down(coefficients: Floats) -> Floats:
    """Return the multiples of 2⁻⁴⁰ next below, and never below 0."""
    return np.maximum(0.0, np.floor(np.ldexp(coefficients, FRACTION_BITS))) * 2.0**-FRACTION_BITS


def window_sums(coefficients: Floats, w: int) -> Floats:
    """Return the entries of C·1_w, for a window at the beginning: sums of w consecutive coefficients.

    >>> window_sums(np.array([1.0, 0.5, 0.375]), 2)
    array([1.   , 1.5  , 0.875])
    """
    sums = np.concatenate([[0.0], np.cumsum(coefficients)])
    ends = np.arange(1, len(sums))
    entries: Floats = sums[ends] - sums[np.maximum(0, ends - w)]
    return entries


def inverse_root(steps: int) -> Floats:
    """Return the coefficients of 1/√(1 − z): 1, 1/2, 3/8, …, each (2n − 1)/2n of the one before.

    >>> inverse_root(4)
    array([1.    , 0.5   , 0.375 , 0.3125])
    """
    n = np.arange(1, steps, dtype=np.float64)
    return np.concatenate([[1.0], np.cumprod((2 * n - 1) / (2 * n))])
