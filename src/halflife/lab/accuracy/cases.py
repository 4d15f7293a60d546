"""Errors, coverage and run time of post-processing on series whose truth is public.

Each case is a series and a scale b of Laplace noise, independent from step to step. Of each seed's noisy copy y = x + noise every
method makes estimates z with the half-width h of their 95 % bands, from y, b and public facts alone, and

    error = mean |z − x| / mean x        coverage = share of |z − x| ≤ h

are counted over cells and steps after the warm-up (see `series`); the mean x is that of the whole series.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from halflife.lab.accuracy.series import Noise, Series
from halflife.numerics.arrays import Floats
from halflife.numerics.forms import JsonObject
from halflife.numerics.parameters import whole
from halflife.numerics.progress import Progress
from halflife.postprocessing.base import Estimate, Facts
from halflife.postprocessing.local_level import LocalLevel
from halflife.postprocessing.moving_average import MovingAverage
from halflife.postprocessing.seasonal import Seasonal

RAW, AVERAGE, KALMAN, LIVE, REVISED = METHODS = (
    "raw",
    "moving average",
    "Kalman",
    "seasonal, live",
    "seasonal, revised",
)


class Score(NamedTuple):
    """How a method fares: error and coverage as shares, and seconds of computing for 10,000 steps."""

    error: float
    coverage: float
    seconds: float


@dataclass(frozen=True, eq=False)
class Case:
    """A series under some noise: each method's mean score over the seeds, and its estimates under the first seed."""

    series: Series
    noise: Noise
    scores: Mapping[str, Score]
    first: Mapping[str, Estimate]

    def to_json(self) -> JsonObject:
        """Return the scores, as JSON can hold them."""
        source = self.series.source
        return {
            "series": source.name, "title": source.title, "real": self.series.real, "steps": len(self.series.steps),
            "noise": self.noise.share, "meaning": self.noise.meaning,
            "methods": {method: score._asdict() for method, score in self.scores.items()},
        }  # fmt: skip


def average_width(steps_per_day: float) -> int:
    """Return how many values the moving average takes: those of six hours, at least four. It is public: it suits no series best.

    >>> average_width(48), average_width(24), average_width(1 / 7)
    (12, 6, 4)
    """
    return max(4, round(steps_per_day / 4))


def estimate(method: str, steps_per_day: float, values: Floats, scales: Floats, facts: Facts) -> Estimate:
    """Return what a method makes of noisy values, with the half-widths of its 95 % bands."""
    if method == KALMAN:
        return LocalLevel(steps_per_day).estimate(values, scales, facts)
    if method == LIVE:
        return Seasonal(steps_per_day).estimate(values, scales, facts)
    if method == REVISED:
        return Seasonal(steps_per_day).look_back(values, scales, facts)
    if method == AVERAGE:
        values, scales = MovingAverage(average_width(steps_per_day)).smooth(values, scales, facts)
    return Estimate(values, np.repeat((facts.band * scales)[:, None], values.shape[1], axis=1))


def score(series: Series, found: Estimate, seconds: float) -> Score:
    """Return error and coverage of estimates after the warm-up."""
    counted = series.counted
    off = np.abs(found.values - series.truth)[counted]
    covered = off <= found.bands[counted]
    return Score(float(off.mean()) / series.mean, float(covered.mean()), seconds * 10_000 / len(series.steps))


def run_case(series: Series, noise: Noise, seeds: int = 1, progress: Progress = lambda what, done, total: None) -> Case:
    """Run all methods on a series under noise of seeds 1, 2, …

    >>> from halflife.lab.accuracy.series import MUCH, Source, read_series
    >>> few = Source("few", "a few days", "", "2026-01-05", 8, 4, (MUCH,))
    >>> sorted(run_case(read_series(few), MUCH).scores) == sorted(METHODS)
    True
    """
    scale = noise.share * series.mean
    scales, steps_per_day = np.full(len(series.steps), scale), series.source.steps_per_day
    scores: dict[str, list[Score]] = {method: [] for method in METHODS}
    first: dict[str, Estimate] = {}
    for seed in range(1, whole("seeds", seeds, least=1) + 1):
        noisy = series.truth + np.random.default_rng(seed).laplace(0.0, scale, series.truth.shape)
        for i, method in enumerate(METHODS):
            progress(
                f"{series.source.name}, noise {noise.share:g}: {method}",
                (seed - 1) * len(METHODS) + i,
                seeds * len(METHODS),
            )
            began = time.process_time()
            found = estimate(method, steps_per_day, noisy, scales, series.facts)
            scores[method].append(score(series, found, time.process_time() - began))
            first.setdefault(method, found)
    return Case(series, noise, {method: mean_score(each) for method, each in scores.items()}, first)


def mean_score(scores: Sequence[Score]) -> Score:
    """Return the mean of several scores.

    >>> mean_score([Score(0.1, 0.9, 1.0), Score(0.3, 1.0, 3.0)])
    Score(error=0.2, coverage=0.95, seconds=2.0)
    """
    return Score(*(math.fsum(column) / len(scores) for column in zip(*scores, strict=True)))


def run_cases(
    series: Sequence[Series], seeds: int = 1, progress: Progress = lambda what, done, total: None
) -> list[Case]:
    """Run every series under each of its noises."""
    pairs = [(one, noise) for one in series for noise in one.source.noises]
    found: list[Case] = []
    for one, noise in pairs:

        def move(what: str, done: int, total: int, before: int = len(found)) -> None:
            progress(what, before * total + done, len(pairs) * total)

        found.append(run_case(one, noise, seeds, move))
    return found
