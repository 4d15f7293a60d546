"""Corollary 8 of the almost-periodic paper as a planted fault (erratum P1)."""

from __future__ import annotations

import numpy as np

from halflife.audit.black_box import Pair
from halflife.audit.planted_noise import draw_planted
from halflife.audit.registry import Faults
from halflife.numerics.arrays import Floats
from halflife.numerics.parameters import whole


def corollary_8_pair(periods: int) -> Pair:
    """One person's variation in the first of K periods of one step differs by 1; ε = Δf_z = Δf_w = 1 is claimed (erratum P1)."""
    return Pair("", np.zeros(periods), np.ones(periods), np.array([2.0] + [1.0] * (periods - 1)), 1.0)


class CorollaryEight:
    """The strong mechanism as the paper has it, T = 1: y(1) = w(1) + v, y(k) = y(1) − w(1) + w(k) + u(k), all other variations 0.

    What is seen is turned into y(1), y(1) − y(2), y(1) − y(3), …, which nothing is lost by: each later difference shows w(1)
    under a noise of its own.
    """

    def __init__(self, periods: int) -> None:
        self.periods = whole("periods", periods, least=2)

    def __call__(self, which: int, runs: int) -> Floats:
        """Return what is seen in so many runs, if the first variation is 0 or 1."""
        first = which + _noise(2.0, runs, 1)
        later = first - which + _noise(1.0, runs, self.periods - 1)
        seen: Floats = np.concatenate([first, first - later], axis=1)
        return seen


def _noise(scale: float, runs: int, numbers: int) -> Floats:
    """Release-grade noise on a grid that doubles add up on exactly, so that its last bits tell nothing."""
    drawn = draw_planted(runs * numbers, scale=scale, lattice=1.0)
    made: Floats = np.array(drawn.add([0] * (runs * numbers))).reshape(runs, numbers)
    return made


def plant_faults() -> Faults:
    """Return the planted faults of almost-periodic mechanisms."""
    return Faults(
        paths={"Corollary 8 of the almost-periodic paper, 10 periods": (corollary_8_pair(10), CorollaryEight(10))}
    )
