"""Geometric mixing: a Markov process known only by a bound c ρ^t on its total variation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from halflife.errors import InvalidInput
from halflife.numerics.forms import JsonObject
from halflife.numerics.parameters import real
from halflife.processes.base import Direction, Process, frontier_at_zero, register_process
from halflife.processes.contraction import EVERYTHING, Frontier


@register_process
@dataclass(frozen=True, eq=False)
class GeometricMixing(Process):
    """Δ(t) ≤ c ρ^t (Definition 8, eq. 13; corrected, A5), as eq. 38 has it. K_t is then Theorem 1's bound: nothing else is known.

    >>> GeometricMixing(c=2.0, rho=0.5).total_variation(3)  # doctest: +ELLIPSIS
    0.25000...
    """

    c: float
    rho: float
    name: ClassVar[str] = "geometric"

    def __post_init__(self) -> None:
        object.__setattr__(self, "c", real("c", self.c))
        object.__setattr__(self, "rho", real("rho", self.rho))
        if self.c < 1:
            raise InvalidInput(f"c must be at least 1, as Δ(0) = 1, not {self.c!r}", about="c")
        if not 0 < self.rho < 1:
            raise InvalidInput(f"rho must lie between 0 and 1, not {self.rho!r}", about="rho")

    def frontier(self, t: int, direction: Direction = "back") -> Frontier:
        """One point, at q = 0; ahead nothing is known, so nothing fades."""
        if direction == "ahead":
            return EVERYTHING
        return frontier_at_zero(t) or Frontier(np.zeros(1), np.array([self._variation(t)]))

    def _variation(self, t: int) -> float:
        """c ρ^t in logarithms, rounded up: ρ^t alone may be too small for a double."""
        exponent = math.log(self.c) + t * math.log(self.rho)
        return min(1.0, math.exp(min(0.0, exponent)) * (1 + 1e-15 * (abs(exponent) + t)) + 1e-300)

    def parameters(self) -> JsonObject:
        """c and ρ."""
        return {"c": self.c, "rho": self.rho}
