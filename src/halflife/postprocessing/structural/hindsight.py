"""Estimates of a whole series with hindsight: later values say something about earlier ones too."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import reduce
from itertools import pairwise

import numpy as np

from halflife.numerics.arrays import Floats, Integers
from halflife.postprocessing.structural.combining import find_density
from halflife.postprocessing.structural.filtering import Filter, Seen, look_back
from halflife.postprocessing.structural.fitting import NOTHING, Learnt
from halflife.postprocessing.structural.harmonics import Harmonics
from halflife.postprocessing.structural.parameters import Parameters
from halflife.postprocessing.structural.windows import (
    Fit,
    Tried,
    Window,
    begin_of,
    class_of,
    fit_models,
    foresee,
    hidden_part,
    mix,
    model_of,
    pool_of,
    share_out,
    window_length,
)


def look_back_on(
    block: Window, models: list[Harmonics], laplace: bool, known: tuple[Fit, Integers] | None = None
) -> tuple[Floats, Floats]:
    """Return the predictions of all steps, each from all values but its own, and their variances.

    Parameters are fitted on each eight weeks by themselves, how likely each model is on all of them together; `known` are public
    ones, with the class of each cell.
    """
    cuts = cut_evenly(len(block.noise), window_length(models[0].steps_per_day))
    if known is not None:
        return look_back_with(block, known[1], [known[0]] * len(cuts), cuts)
    kinds = class_of(block.values.var(axis=0), float(block.noise.mean()), len(block.noise))
    tried = fit_parts(block, kinds, models, cuts, laplace)
    return mix([look_back_with(block, kinds, fits, cuts) for fits in tried], [fits[0].share for fits in tried])


def look_back_with(block: Window, kinds: Integers, fits: list[Fit], cuts: list[slice]) -> tuple[Floats, Floats]:
    """Return predictions and variances under one model, with parameters of its own in each part."""
    predicted, variances = np.empty_like(block.values), np.empty_like(block.values)
    rows, begin = fits[0].harmonics.rows(block.days, block.phases), begin_of(block, fits[0].harmonics.steps_per_day)
    for kind in np.unique(kinds).tolist():
        cells = kinds == kind
        means = np.zeros((fits[0].harmonics.states, int(cells.sum())))
        means[0] = begin[cells]
        one = Filter(means, np.diag(model_of(fits[0], kind)[1]))
        parts = [
            one.meet(
                block.values[part][:, cells], rows[part], block.noise[part], block.gaps[part], model_of(fit, kind)[0]
            )
            for part, fit in zip(cuts, fits, strict=True)
        ]
        seen = Seen(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
        predicted[:, cells], found = look_back(seen, rows, block.noise)
        variances[:, cells] = found[:, None]
    return predicted, variances


def learn_from(found: list[list[Tried]], but: int) -> list[Learnt]:
    """Return what all windows but one say of the parameters of each model."""
    return [
        reduce(Learnt.add, (one.learnt for k, one in enumerate(parts) if k != but), NOTHING)
        for parts in zip(*found, strict=True)
    ]


def cut_evenly(length: int, most: int) -> list[slice]:
    """Return parts of nearly one length that follow each other, none longer than `most`.

    >>> cut_evenly(10, 4)
    [slice(0, 3, None), slice(3, 7, None), slice(7, 10, None)]
    """
    edges = np.linspace(0, length, math.ceil(length / most) + 1).round().astype(int).tolist()
    return [slice(a, b) for a, b in pairwise(edges)]


def fit_parts(
    block: Window, kinds: Integers, models: list[Harmonics], cuts: list[slice], laplace: bool
) -> list[list[Fit]]:
    """Return, of each model that is likely at all, the fit of each part.

    How likely is judged of the series as a whole: a filter that goes from part to part pays once for learning its waves.
    """
    pool = pool_of(len(kinds))
    amplitudes, hidden = 2.0 ** (kinds[pool] / 2), hidden_part(kinds[pool], float(block.noise.mean()), len(block.noise))
    windows = []
    for part in cuts:
        gaps = np.concatenate([[0.0], block.gaps[part][1:]])
        windows.append(
            Window(*(column[part] for column in block))._replace(values=block.values[part][:, pool], gaps=gaps)
        )
    none: list[Parameters | None] = [None] * len(models)
    found = [fit_models(one, amplitudes, models, none, laplace, hidden, [NOTHING] * len(models)) for one in windows]
    if len(windows) > 1:
        found = [
            fit_models(
                window,
                amplitudes,
                models,
                [one.fit.parameters for one in tried],
                laplace,
                hidden,
                learn_from(found, but),
            )
            for but, (window, tried) in enumerate(zip(windows, found, strict=True))
        ]
    phases, pooled = 1 + int(block.phases.max()), block._replace(values=block.values[:, pool])
    noise = np.repeat(pooled.noise[:, None], len(pool), axis=1)
    tried, costs = [], []
    for model, parts in zip(models, zip(*found, strict=True), strict=True):
        fits = [one.fit._replace(harmonics=replace(model, phases=phases)) for one in parts]
        predicted, variances = foresee(fits, cuts, pooled, kinds[pool])
        likely = find_density(pooled.values - predicted, variances, noise, laplace)[noise + variances > 0].sum()
        tried.append(fits)
        costs.append(sum(one.doubt for one in parts) - float(likely))
    shares = share_out(costs).tolist()
    return [[fit._replace(share=share) for fit in fits] for fits, share in zip(tried, shares, strict=True) if share]
