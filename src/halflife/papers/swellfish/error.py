"""Mean relative errors of noise whose scales are fixed beforehand, with the paper's post-processing.

The error is the mean over steps of |y_t − x_t| / x_t, over steps with x_t > 0, in per cent (paper, VI-A1). Unit noise of a zone
is drawn in blocks of all its repetitions, through a simulated draw, and serves every mechanism: y_t = x_t + λ_t·u_t. What a
mechanism promises follows from its scales, and is certified in `secrets` and by the plans.

Post-processing: a moving average over the last day (96 steps), and truncation at 0. The text truncates, then filters (VI-A5); the
figures are only met by filtering first. RescueDP is left as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from halflife.accountant import Accountant
from halflife.mechanisms import SimulatedDraw
from halflife.notions import Classical, WEvent
from halflife.numerics.arrays import Floats
from halflife.papers.swellfish.printed import (
    APPROXIMATE,
    DELTA,
    EPSILON,
    FILTERED_UNIFORM,
    PURE,
    SENSITIVITY,
    UNFILTERED_USER,
    UNIFORM,
    USER,
    USER_SENSITIVITY,
)
from halflife.papers.swellfish.streams import DAY, WEEK
from halflife.release import Noise

WEEKS_SHOWN = 12
"""Figure 4 shows so many weeks."""
RAW, TRUNCATED, FILTERED, FIRST_FILTERED, LAST_FILTERED = (
    "as published", "truncated", "filtered", "filtered, then truncated", "truncated, then filtered",
)  # fmt: skip


class Uniform(NamedTuple):
    """Noise of one scale at every step: a rival of Table II, or what exact accounting makes of it (T6)."""

    mechanism: str
    promise: str
    label: str
    scale: float
    noise: Noise


def uniform_data(w: int, steps: int) -> list[Uniform]:
    """Return the rivals with equal noise: w-event and user level, by Theorems 2 and 10 (paper) and by exact accounting (T6).

    >>> [round(u.scale) for u in uniform_data(65, 158_397)[:4]]
    [2548, 2550, 76030560, 1541658]
    """
    made = []
    for mechanism, window, moved in ((UNIFORM, w, SENSITIVITY), (USER, steps, USER_SENSITIVITY)):
        pure = WEvent(EPSILON, window).plan(sensitivity=moved, method="paper")
        approximate = WEvent(EPSILON, window, DELTA).plan(sensitivity=moved, method="paper")
        made += [
            Uniform(mechanism, PURE, f"{mechanism}, pure", pure.scale(1), "laplace"),
            Uniform(mechanism, APPROXIMATE, f"{mechanism}, Theorem 10", approximate.scale(1), "laplace"),
        ]
    exact = WEvent(EPSILON, w, DELTA).plan(sensitivity=SENSITIVITY)
    return [*made, Uniform(UNIFORM, "exact", f"{UNIFORM}, exact accounting", exact.scale(1), exact.noise)]


def post_of(mechanism: str, zone: int, text: bool) -> str:
    """Return how Figure 3 treats a mechanism's outputs in a zone, or how the text would treat them there.

    >>> post_of("Uniform", 4, False), post_of("Uniform", 4, True), post_of("user level", 3, False), post_of("Swellfish", 4, True)
    ('filtered, then truncated', 'truncated, then filtered', 'filtered', 'truncated')
    """
    smooth = zone in FILTERED_UNIFORM if mechanism == UNIFORM else mechanism == USER and zone not in UNFILTERED_USER
    if text:
        return LAST_FILTERED if smooth else TRUNCATED
    if mechanism == USER:  # the figure's errors are twice what truncation would leave
        return FILTERED if smooth else RAW
    return FIRST_FILTERED if smooth else TRUNCATED


def average(values: Floats, width: int = DAY) -> Floats:
    """Return the mean of the last `width` values along the last axis, of fewer at the start: `MovingAverage`, by running sums.

    >>> average(np.array([2.0, 4.0, 8.0]), 2).tolist()
    [2.0, 3.0, 6.0]
    """
    sums = np.cumsum(values, axis=-1)
    result = sums / np.minimum(np.arange(1, values.shape[-1] + 1), width)
    result[..., width:] = (sums[..., width:] - sums[..., :-width]) / width
    return result


class Zone:
    """One zone: its exact loads, and unit noise of every repetition, with the averages of both.

    errors are in per cent, the mean over repetitions
    """

    def __init__(self, number: int, load: Floats, noise: dict[Noise, Floats]) -> None:
        self.number, self.load, self.noise = number, load, noise
        self._weight = np.divide(100.0, load, out=np.zeros(len(load)), where=load > 0) / np.count_nonzero(load > 0)
        self._smooth, self._smooth_noise = average(load), {family: average(u) for family, u in noise.items()}

    def error(self, scales: Floats | float, noise: Noise, post: str) -> float:
        """Return the mean relative error of noise with these scales (one number: the same at every step), after post-processing.

        Averages of noise with unequal scales would need sums of their own: only equal scales are filtered.
        """
        return float((np.abs(self._off(scales, noise, post)) @ self._weight).mean())

    def _off(self, scales: Floats | float, noise: Noise, post: str) -> Floats:
        """y − x after post-processing."""
        unit = self.noise[noise]
        if post == RAW:
            return scales * unit
        if post == TRUNCATED:
            return np.maximum(scales * unit, -self.load)
        if post == LAST_FILTERED:
            return average(np.maximum(self.load + scales * unit, 0.0)) - self.load
        moved = self._smooth - self.load + scales * self._smooth_noise[noise]
        return moved if post == FILTERED else np.maximum(moved, -self.load)

    def by_week(self, scales: Floats | float, noise: Noise, post: str) -> Floats:
        """Return the mean relative error of each of the first weeks."""
        weeks = min(WEEKS_SHOWN, len(self.load) // WEEK)
        last = weeks * WEEK
        early = Zone(self.number, self.load[:last], {noise: self.noise[noise][:, :last]})
        given = scales if isinstance(scales, float) else scales[:last]
        each = (np.abs(early._off(given, noise, post)) * early._weight).mean(axis=0)
        steps = np.add.reduceat((early.load > 0).astype(np.float64), np.arange(0, last, WEEK))
        weekly: Floats = np.add.reduceat(each, np.arange(0, last, WEEK)) * np.count_nonzero(early.load > 0) / steps
        return weekly

    def lag(self) -> float:
        """Return the relative error of the average of the exact loads, in per cent: what filtering costs without any noise."""
        return float(np.abs(self._smooth - self.load) @ self._weight)

    def inverse(self) -> float:
        """Return the mean of 1/load in 1/kW: the relative error that noise of mean size 1 kW has."""
        return float(self._weight.sum() / 100)

    def low_share(self) -> tuple[int, float]:
        """Return how many steps have loads below a twentieth of the mean, and their share in the mean of 1/load."""
        low = (self.load > 0) & (self.load < self.load.mean() / 20)
        return int(low.sum()), float(self._weight[low].sum() / self._weight.sum())


def zone_data(loads: Floats, repetitions: int, seed: int) -> Iterator[Zone]:
    """Yield each zone with new unit noise, Laplace and Gaussian, for every repetition, from a simulated draw."""
    laplace = SimulatedDraw([Accountant(Classical(1e5))], 2 * seed, repetitions)
    gaussian = SimulatedDraw([Accountant(Classical(1e3, DELTA))], 2 * seed + 1, repetitions)
    for number, load in enumerate(loads, start=1):
        noise: dict[Noise, Floats] = {}
        with laplace.step(number) as draw:
            noise["laplace"] = draw(None, 1.0, scale=1.0, size=len(load))
        with gaussian.step(number) as draw:
            noise["gaussian"] = draw(None, 1.0, scale=1.0, noise="gaussian", size=len(load))
        yield Zone(number, load, noise)
