"""The waves of a structural time-series model: which frequencies a series of so many steps a day can have, and their values.

A wave of c cycles a day has the phase φ = 2π·c·d at the local time d, in days, and is carried by two states, the weights of
cos φ and sin φ. There are waves of the day, 1 to 8 times; of the week, 1 to 3 times; side bands of the day's first four, one
cycle a week above and below, which let a weekend have another shape than a working day; and waves of the year for steps of a
day or more. Waves that such steps cannot tell from slower ones (Nyquist) are left out. Known: trigonometric seasonality,
Harvey, "Forecasting, structural time series models and the Kalman filter" (1989); side bands are ours.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from halflife.errors import InvalidInput
from halflife.numerics.arrays import Floats, Integers

LEVEL, WEEK, DAY, SIDE, YEAR, IRREGULAR, PHASE = range(7)
"""The kinds of states."""
WEEKS, YEARS = 1 / 7, 1 / 365.2425
"""Cycles a day."""


@dataclass(frozen=True)
class Harmonics:
    """The states of the model for a series of so many steps a day: level, waves (cosine, sine), reused noises, irregular part.

    seasons    whether there are waves at all;  irregular  whether there is anything beside them and the level
    phases     how many noises are used again: each is a constant of its own

    >>> Harmonics(48).states, Harmonics(1 / 7).states, Harmonics(48, seasons=False).states
    (40, 8, 2)
    """

    steps_per_day: float
    seasons: bool = True
    irregular: bool = True
    phases: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.steps_per_day < math.inf:
            raise InvalidInput(f"steps_per_day must be above 0, not {self.steps_per_day!r}", about="steps_per_day")

    @cached_property
    def waves(self) -> list[tuple[int, int, float]]:
        """The kind of each wave, how many times the wave of its kind it is, and its cycles a day."""
        day = [(DAY, k, float(k)) for k in range(1, 9)]
        week = [(WEEK, k, k * WEEKS) for k in range(1, 4)]
        side = [(SIDE, k, k + sign * WEEKS) for k in range(1, 5) for sign in (1, -1)]
        year = [(YEAR, k, k * YEARS) for k in range(1, 4)] if self.steps_per_day <= 1 else []
        known = [*year, *week, *day, *side] if self.seasons else []
        return [wave for wave in known if wave[2] < self.steps_per_day / 2]

    @cached_property
    def states(self) -> int:
        """How many states there are."""
        return 2 + 2 * len(self.waves) + self.phases

    @cached_property
    def kinds(self) -> Integers:
        """The kind of each state."""
        waves = [kind for kind, _, _ in self.waves for _ in range(2)]
        return np.array([LEVEL, *waves, *[PHASE] * self.phases, IRREGULAR])

    @cached_property
    def multiples(self) -> Floats:
        """How many times the wave of its kind each state's wave is, at least 1; 1 where there is no wave."""
        waves = [float(k) for _, k, _ in self.waves for _ in range(2)]
        return np.array([1.0, *waves, *[1.0] * self.phases, 1.0])

    def rows(self, days: Floats, phases: Floats | None = None) -> Floats:
        """Return what each state counts as at these local times, in days: steps × states; `phases` are of the reused noises.

        >>> Harmonics(2.0).rows(np.array([0.0, 0.5]))[:, 0].tolist()
        [1.0, 1.0]
        """
        cycles = np.array([cycles for _, _, cycles in self.waves])
        angles = 2 * np.pi * np.mod(np.outer(days, cycles), 1.0)
        rows, end = np.ones((len(days), self.states)), 1 + 2 * len(cycles)
        rows[:, end:-1] = 0.0
        if phases is not None and self.phases:
            known = (phases >= 0) & (phases < self.phases)
            rows[known, end + phases[known].astype(np.int64)] = 1.0
        for row, angle in zip(
            rows, angles, strict=True
        ):  # step by step: of a longer array the last bits of a cosine may differ
            row[1:end:2], row[2:end:2] = np.cos(angle), np.sin(angle)
        return rows
