"""Square-root factorisation: running totals up to a horizon with nearly the least noise there is."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from halflife.errors import InvalidInput
from halflife.lab.running_totals.base import FactoredTotals, inverse_root, round_down, window_sums
from halflife.notions import WEvent
from halflife.numerics.arrays import Floats
from halflife.numerics.parameters import whole


class Toeplitz(FactoredTotals):
    """Running totals by the square root of the matrix of prefix sums (Fichtenberger, Henzinger, Upadhyay: ICML 2023; Henzinger,
    Upadhyay, Upadhyay: SODA 2023; windows of w steps are ours).

    c(z) = l(z) = 1/√(1 − z), whose coefficients are c_n = (2n choose n)/4ⁿ > 0. The norm is summed over the rows up to the
    horizon T. For w = 1 the largest standard deviation is c_0² + … + c_{T−1}² ≈ (ln T + 3.35)/π noise multipliers.

    horizon  T, the last step

    >>> totals = Toeplitz(WEvent(1.0, 1, 1e-6), horizon=17_520)
    >>> round(float(totals.multipliers(17_520)[-1]), 2)
    4.18
    >>> totals.simulate(np.ones(100), seed=1, lanes=3).shape
    (100, 3)
    """

    name: ClassVar[str] = "toeplitz"

    def __init__(self, notion: WEvent, sensitivity: float = 1.0, *, horizon: int) -> None:
        super().__init__(notion, sensitivity)
        self.horizon = whole("horizon", horizon, least=1)

    def factor(self, steps: int) -> Floats:
        """Return the coefficients of 1/√(1 − z), rounded down."""
        if steps > self.horizon:
            raise InvalidInput(f"step {steps} comes after the horizon, {self.horizon}: begin another total")
        return round_down(inverse_root(steps))

    def window_norm(self) -> float:
        """Return ‖C·1_w‖, summed over all rows up to the horizon."""
        entries = window_sums(self.factor(self.horizon), self.notion.w)
        return float(np.sqrt((entries**2).sum()) * (1 + 1e-12))
