"""Seeded noise of repetitions that do not know of each other: a source of its own for every lane."""

from __future__ import annotations

import numpy as np

from halflife.errors import InvalidInput, unknown
from halflife.noise import FAMILIES
from halflife.numerics.arrays import Bools, Floats, Integers
from halflife.numerics.parameters import whole

AHEAD = 1024
"""So many numbers of a lane are drawn at once."""


class LaneNoise:
    """Seeded noise for the lab, by lane: the i-th number that lane number l draws depends on the seed, l and i alone (ours).

    So a repetition comes out the same whichever others run beside it, in however many processes. A lane counts a number as drawn
    only where its scale is finite; elsewhere it is NaN.

    >>> both, one = LaneNoise(seed=1, first=0, lanes=2), LaneNoise(seed=1, first=1, lanes=1)
    >>> scales = np.array([np.inf, 2.0])
    >>> [both.draw("laplace", scales, (2,))[1] == one.draw("laplace", 2.0, (1,))[0] for _ in range(3)]
    [np.True_, np.True_, np.True_]
    """

    def __init__(self, seed: int, first: int = 0, lanes: int = 1) -> None:
        numbers = range(whole("first", first, least=0), first + whole("lanes", lanes, least=1))
        self.lanes, self._seed = lanes, whole("seed", seed, least=0)
        self._units = {family: _Units(self._seed, numbers, family) for family in FAMILIES}

    def draw(self, family: str, scale: float | Floats, shape: tuple[int, ...]) -> Floats:
        """Return one number for each lane with noise of its scale, NaN where that is infinite."""
        if family not in FAMILIES:
            raise unknown("noise", family, FAMILIES)
        if shape != (self.lanes,):
            raise InvalidInput(f"{self.lanes} lanes draw one number each, not numbers of shape {shape}")
        scales = np.broadcast_to(np.asarray(scale, dtype=np.float64), shape)
        drawn = np.isfinite(scales)
        noise: Floats = self._units[family].take(drawn) * np.where(drawn, scales, np.nan)
        return noise


class _Units:
    """Noise of scale 1 of each lane, drawn ahead; a lane goes on by one where it has used its number."""

    def __init__(self, seed: int, lanes: range, family: str) -> None:
        which = FAMILIES.index(family)
        self._sources = [np.random.default_rng([seed, lane, which]) for lane in lanes]
        self._rows, self._laplace = np.arange(len(lanes)), family == "laplace"
        self._ahead: Floats = np.zeros((len(lanes), 0))
        self._next: Integers = np.zeros(len(lanes), dtype=np.int64)
        self._left = 0

    def take(self, used: Bools) -> Floats:
        if self._left == 0:
            self._refill()
        self._left -= 1
        units: Floats = self._ahead[self._rows, self._next]
        self._next += used
        return units

    def _refill(self) -> None:
        """Draw so many numbers as each lane has used, after those that it has left: a generator gives them one by one."""
        rows = []
        for source, ahead, next_one in zip(self._sources, self._ahead, self._next.tolist(), strict=True):
            kept = ahead[next_one:]
            sample = source.laplace if self._laplace else source.normal
            rows.append(np.concatenate([kept, sample(0.0, 1.0, AHEAD - len(kept))]))
        self._ahead, self._left = np.array(rows), AHEAD
        self._next[:] = 0
