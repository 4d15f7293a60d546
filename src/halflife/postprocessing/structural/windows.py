"""Blocks of published values in whole units, and fits of the model to them, with hindsight or without."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from halflife.numerics.arrays import Floats, Integers
from halflife.postprocessing.base import Estimate, Facts
from halflife.postprocessing.structural.combining import LAPLACE_BAND, NORMAL_BAND, Doubt, combine
from halflife.postprocessing.structural.filtering import Filter, Model
from halflife.postprocessing.structural.fitting import Learnt, fit_parameters
from halflife.postprocessing.structural.harmonics import Harmonics
from halflife.postprocessing.structural.parameters import Parameters, find_variances

WEEKS_OF_WINDOW, MOST_OF_WINDOW, LONG_STEPS = 8, 2688, 1024
"""A fit looks back at most eight weeks, at most so many steps; where steps are a day or more, at most so many of them."""
FEWEST = 32
"""No parameter is fitted on fewer values."""
MOST_PHASES = 400
"""So many reused noises have a state of their own, at the most."""
POOL = 4
"""So many series, evenly spaced among the cells, are pooled for a fit."""
SHARES_OF = 64
"""How likely a model is counts in such parts, so that machines whose last bits differ find the same."""


class Window(NamedTuple):
    """Values (steps × series) and facts of each step.

    noise, reused  the variance of fresh noise, and of noise that other steps share;  phases  which of these it is, −1: unknown
    days, gaps     local time in days, and steps since the value before
    """

    values: Floats
    noise: Floats
    days: Floats
    gaps: Floats
    reused: Floats
    phases: Floats

    def append(self, other: Window, most: int) -> Window:
        """Return the newest steps of both."""
        return Window(*(np.concatenate([a, b])[-most:] for a, b in zip(self, other, strict=True)))


class Fit(NamedTuple):
    """Parameters, the states they are about, the variance of reused noise, and how likely this model is the right one.

    size  what the squares of all amplitudes are multiplied by
    """

    parameters: Parameters
    harmonics: Harmonics
    reused: float = 0.0
    share: float = 1.0
    size: float = 1.0


class Tried(NamedTuple):
    """A fit with −ln of how likely the window is at its maximum, and what integrating over parameters adds to that."""

    fit: Fit
    least: float
    doubt: float
    learnt: Learnt


def window_length(steps_per_day: float) -> int:
    """Return how many steps a fit looks back at the most.

    >>> window_length(48), window_length(24), window_length(1 / 7)
    (2688, 1344, 1024)
    """
    return LONG_STEPS if steps_per_day <= 1 else min(MOST_OF_WINDOW, math.ceil(7 * WEEKS_OF_WINDOW * steps_per_day))


def next_fit(seen: int, steps_per_day: float) -> int:
    """Return after how many values parameters are fitted next: after a week, two, four, eight, and every eight from then on.

    >>> [next_fit(n, 48) for n in (0, 336, 700, 2688, 5376)]
    [336, 672, 1344, 5376, 8064]
    """
    window, fit = window_length(steps_per_day), max(FEWEST, math.ceil(7 * steps_per_day))
    while fit <= seen and fit < window:
        fit = min(2 * fit, window)
    return fit if fit > seen else window * (seen // window + 1)


def pool_of(cells: int) -> Integers:
    """Return which cells are pooled for a fit."""
    return np.unique(np.linspace(0, cells - 1, POOL).round().astype(np.int64))


def begin_of(window: Window, steps_per_day: float) -> Floats:
    """Return where the level of each series is expected to begin: the mean of its first day."""
    first: Floats = window.values[: max(1, round(steps_per_day))].mean(axis=0)
    return first


def fit_models(
    window: Window, amplitudes: Floats, models: list[Harmonics], starts: Sequence[Parameters | None], laplace: bool,
    hidden: float, others: Sequence[Learnt],
) -> list[Tried]:  # fmt: skip
    """Return the fit of each model; `hidden` is how much noise hides of the amplitudes, `others` what other windows say."""
    found, reused = [], float(window.reused.max())
    for model, start, known in zip(models, starts, others, strict=True):
        harmonics = replace(model, phases=1 + int(window.phases.max()))
        one = fit_parameters(
            window.values, harmonics.rows(window.days, window.phases), window.noise, window.gaps, amplitudes,
            begin_of(window, harmonics.steps_per_day), harmonics, reused, start, laplace, hidden, known,
        )  # fmt: skip
        found.append(Tried(Fit(one.parameters, harmonics, reused, size=one.size), one.least, one.doubt, one.learnt))
    return found


def class_of(variances: Floats, noise: float, count: float) -> Integers:
    """Return the class of each series: the power of 2 nearest to the square of its amplitude, √(variance − noise).

    Of count values of variance V that are Laplace noise alone, the sample's variance has a standard deviation of V√(5/count):
    no square of an amplitude is held to be smaller than half of that, which is the middle, in logarithms, of what may be hidden.

    >>> class_of(np.array([5.0, 1.0]), 1.0, 500.0).tolist()
    [2, -4]
    """
    signal = np.maximum(variances - noise, np.maximum(noise, 1e-12 * variances) * math.sqrt(5 / count) / 2)
    return np.round(np.log2(np.maximum(signal, 1e-300))).astype(np.int64)


def hidden_part(kinds: Integers, noise: float, count: float) -> float:
    """Return the standard deviation of ln of squares of amplitudes before a fit: r²/2 of the class that is known best (ours).

    r is the standard error of a sample's variance (see `class_of`) over the square of the amplitude, about 2 at the most. An
    amplitude that the sample's variance shows is taken as it is; one that noise hides is left to the likelihood.

    >>> round(hidden_part(np.array([0]), 1.0, 500.0), 3), round(hidden_part(np.array([-4, -9]), 1.0, 500.0), 3)
    (0.005, 1.28)
    """
    return float(noise * math.sqrt(5 / count) / 2.0 ** kinds.max()) ** 2 / 2


def classes_of_amplitude(amplitude: float, worth: Floats, cells: int) -> Integers:
    """Return the class of each cell where the amplitude is public, in the unit of the values.

    >>> classes_of_amplitude(4.0, np.ones(1), 2).tolist()
    [4, 4]
    """
    return np.round(2 * np.log2(np.broadcast_to(amplitude / worth, cells))).astype(np.int64)


def model_of(fit: Fit, kind: int) -> tuple[Model, Floats]:
    """Return the model of a class of series, and the variances of its states before the first value."""
    size = 2.0**kind * fit.size
    found = find_variances(np.array([fit.parameters.numbers]), fit.harmonics, fit.reused / size)
    return Model(found.moves[0] * size, float(found.irregular[0] * size), float(found.persistence[0])), found.before[
        0
    ] * size


def make_window(values: Floats, scales: Floats, facts: Facts, days: Floats, gaps: Floats, names: list[str]) -> Window:
    """Return values in whole units with the variances of noise in each step; names of reused noises that are new are added."""
    fresh, reused = (scales, np.zeros(len(scales))) if facts.reused is None else (facts.fresh, facts.reused)
    phases = np.full(len(values), -1.0)
    if facts.reused is not None and facts.shared is not None and (fresh > 0).any():
        names += [name for name in dict.fromkeys(facts.shared) if name and name not in names][
            : MOST_PHASES - len(names)
        ]
        known = {name: float(number) for number, name in enumerate(names)}
        phases = np.array([known.get(name, -1.0) for name in facts.shared])
    return Window(values / facts.worth, (fresh * facts.std) ** 2, days, gaps, (reused * facts.std) ** 2, phases)


def share_out(costs: Sequence[float]) -> Floats:
    """Return how likely each model is, given −ln of how likely each makes the values, in parts of SHARES_OF.

    >>> share_out([10.0, 10.7, 90.0]).tolist()
    [0.671875, 0.328125, 0.0]
    """
    shares = np.exp(min(costs) - np.array(costs))
    shares = np.round(SHARES_OF * shares / shares.sum())
    result: Floats = shares / shares.sum()
    return result


def weigh_fits(found: list[Tried]) -> tuple[Fit, ...]:
    """Return the fits that are likely at all, each with its share."""
    shares = share_out([one.least + one.doubt for one in found]).tolist()
    return tuple(one.fit._replace(share=share) for one, share in zip(found, shares, strict=True) if share)


def mix(found: Sequence[tuple[Floats, Floats]], shares: Sequence[float]) -> tuple[Floats, Floats]:
    """Return the mean and the variance of predictions that are right with these chances."""
    if len(found) == 1:
        return found[0]
    mean = sum(w * p for w, (p, _) in zip(shares, found, strict=True))
    variance = sum(w * (f + (p - mean) ** 2) for w, (p, f) in zip(shares, found, strict=True))
    return np.asarray(mean), np.asarray(variance)


def foresee(fits: Sequence[Fit], cuts: Sequence[slice], window: Window, kinds: Integers) -> tuple[Floats, Floats]:
    """Return what a model predicts of series of these classes, each value from those before it, and the variances.

    fits  its parameters in each of the parts that `cuts` makes of the window
    """
    harmonics, predicted, variances = fits[0].harmonics, np.empty_like(window.values), np.empty_like(window.values)
    rows, begin = harmonics.rows(window.days, window.phases), begin_of(window, harmonics.steps_per_day)
    for column, kind in enumerate(kinds.tolist()):
        means = np.zeros((harmonics.states, 1))
        means[0] = begin[column]
        one = Filter(means, np.diag(model_of(fits[0], kind)[1]))
        for fit, part in zip(fits, cuts, strict=True):
            values = window.values[part, column : column + 1]
            seen = one.meet(values, rows[part], window.noise[part], window.gaps[part], model_of(fit, kind)[0])
            predicted[part, column], variances[part, column] = seen.predicted[:, 0], seen.signal
    return predicted, variances


def read_estimate(predicted: Floats, variances: Floats, block: Window, facts: Facts, doubt: Doubt) -> Estimate:
    """Return estimates in the unit of the values with their 95 % bands. No reused noise is taken out: it is the same again."""
    laplace, reused = facts.std > 1, block.reused
    estimates, bands = combine(predicted, variances, block.values, block.noise[:, None], laplace, doubt)
    if reused.any():
        half = LAPLACE_BAND if laplace else NORMAL_BAND
        bands = np.where(reused[:, None] > 0, half * np.sqrt((bands / NORMAL_BAND) ** 2 + reused[:, None]), bands)
    return Estimate(estimates * facts.worth, bands * facts.worth)
