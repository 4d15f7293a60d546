"""States of filters: as text, and carried over from one model to another."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from halflife.numerics.arrays import Floats
from halflife.postprocessing.structural.filtering import Filter
from halflife.postprocessing.structural.harmonics import Harmonics
from halflife.postprocessing.structural.windows import Fit, model_of


def same_waves(one: Harmonics, other: Harmonics) -> bool:
    """Return whether two models have the same parts, whatever noise is reused in them."""
    return replace(one, phases=0) == replace(other, phases=0)


def read_filter(packed: Sequence[object], states: int) -> Filter:
    """Read a filter's means and covariance."""
    means, covariance = map(unpack, packed)
    return Filter(means.reshape(states, -1), covariance.reshape(states, states))


def switch_waves(one: Filter, before: Harmonics, fit: Fit, kind: int) -> Filter:
    """Return a filter with the states of a new fit: new ones begin at 0 with their first variances, others are forgotten."""
    after = fit.harmonics
    if after == before:
        return one
    means, covariance = np.zeros((after.states, one.means.shape[1])), np.diag(model_of(fit, kind)[1])
    phases, waves = min(before.phases, after.phases), 2 * len(after.waves) * (before.waves == after.waves)
    old, new = (
        [0, *range(1, 1 + waves), *range(end, end + phases), model.states - 1]
        for model, end in ((before, 1 + 2 * len(before.waves)), (after, 1 + 2 * len(after.waves)))
    )
    means[new], covariance[np.ix_(new, new)] = one.means[old], one.covariance[np.ix_(old, old)]
    return Filter(means, covariance)


def pack(values: Floats) -> str:
    """Return doubles as text: base 64, little end first.

    >>> unpack(pack(np.array([1.5, -2.0]))).tolist()
    [1.5, -2.0]
    """
    return base64.b64encode(np.ascontiguousarray(values, dtype="<f8").tobytes()).decode()


def unpack(text: object) -> Floats:
    """Read what `pack` gave."""
    return np.frombuffer(base64.b64decode(str(text), validate=True), dtype="<f8").astype(np.float64)
