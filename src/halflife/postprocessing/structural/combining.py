"""The best estimate of a value from a prediction and a noisy value that know nothing of each other, and its 95 % band.

A filter predicts the truth x from the values before, hindsight from all values but its own: x ~ N(p, f). Of y = x + noise with
Gaussian noise of variance R, the best estimate is p + f/(f + R)·(y − p), with variance fR/(f + R). The noise of a release is
mostly Laplace noise of scale b, and known to be: the estimate with the least mean absolute error is the median of

    x given y  ∝  exp(−(x − p)²/2f − |y − x|/b),

which is two pieces of normal densities. With v = y − p ≥ 0 (the other side mirrors it), s = √f and Φ the normal distribution,

    median = p + f/b + s·Φ⁻¹(B/2),       B = Φ(v/s − s/b) + e^{2v/b}·Φ(−v/s − s/b),       density of v = B·e^{s²/2b² − v/b}/2b

(ours; elementary). However far off a value lies, it moves the estimate by f/b at the most; where f ≫ b² it stays as it is, while
a linear filter mixes in a prediction that is worse than the noise. The band's width is that of the error over all y.

The prediction's error may be larger or smaller than the model says: the chances of that (`Doubt`) are found in `sizes`. Each size
makes an estimate and a band, weighted by how likely it made the value: a heavier tail where the series has one, a wider band
where the model promises too much, and the raw value where predictions are no good.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache, reduce
from typing import NamedTuple

import numpy as np

from halflife.numerics.arrays import Bools, Floats, Integers
from halflife.numerics.search import largest

POINTS = 33
NORMAL_BAND, LAPLACE_BAND = 1.959963984540054, math.log(20) / math.sqrt(2)
"""Half the width of a 95 % band, in standard deviations."""


LOWEST, HIGHEST = -5, 9
SIZES = 2.0 ** np.arange(LOWEST, HIGHEST + 1)
"""A prediction's error may have so many times the variance that the model says."""
CELL = np.arange(-2, 3)
"""So many powers of 2 more a cell may have than others."""
FEWEST_SHARE = 0.002
"""Sizes whose chance is smaller are left out."""
AT_ONCE = 100_000
"""So many values are combined at once: memory is bounded."""
MOST = 1e8
"""Where a prediction is so many times less certain than a value, the value stays."""
TINY, FAR = 1e-12, 1e4
"""Errors of predictions whose variance is less or more than so much of the noise's have the density of a normal sum."""


def find_median(v: Floats, s: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Return the median of x − p given v = y − p, and ln of the bracket in its formula.

    >>> find_median(np.array([0.0, 1.0, 50.0]), np.ones(3), np.ones(3))[0].round(3).tolist()
    [0.0, 0.571, 1.0]
    """
    from scipy.special import log_ndtr, ndtri_exp

    far, ratio = np.abs(v), s / b
    bracket = np.logaddexp(log_ndtr(far / s - ratio), 2 * far / b + log_ndtr(-far / s - ratio))
    return np.sign(v) * np.clip(s * (ratio + ndtri_exp(bracket - math.log(2))), 0.0, far), bracket


def find_density(v: Floats, f: Floats, R: Floats, laplace: bool) -> Floats:
    """Return ln of the density of v = y − p, noise of variance R and an error of variance f together.

    With Laplace noise it is that of the head of this file, written with E(x) = e^{x²}·erfc(x), which costs a fraction:

        e^{−v²/2f}·(E(a) + E(c))/4b,       a = (s/b − |v|/s)/√2,       c = (s/b + |v|/s)/√2,       E(a) = 2e^{a²} − E(−a).

    Where a prediction's error is far larger than the noise, the noise's own form no longer matters.

    >>> find_density(np.array([1.0]), np.ones(1), np.full(1, 2.0), True).round(3).tolist()
    [-1.596]
    """
    total = np.maximum(f + R, np.finfo(float).tiny)
    found: Floats = -(np.log(2 * np.pi * total) + v * v / total) / 2
    if laplace:
        from scipy.special import erfcx

        near = (f < FAR * R) & (f > TINY * R)
        v, f, R = np.abs(v[near]), f[near], R[near]
        ratio, far = np.sqrt(f / R), v / np.sqrt(2 * f)
        a = ratio - far
        both = erfcx(ratio + far) + np.copysign(erfcx(np.abs(a)), a)
        below = a < 0
        both = np.where(below, 2 + np.exp(-a * a) * both, both)
        found[near] = np.where(below, ratio * (ratio - 2 * far), -far * far) + np.log(both / np.sqrt(8 * R))
    return found


def combine_laplace(v: Floats, f: Floats, R: Floats) -> tuple[Floats, Floats, Floats]:
    """Return, with Laplace noise of variance R, the median of x − p given v, half its band over all v, and ln of v's density."""
    s, b, shares = np.sqrt(f), np.sqrt(R / 2), f / (f + R)
    median, bracket = find_median(v, s, b)
    return median, find_half_width(shares) * np.sqrt(shares * R), bracket + f / R - np.abs(v) / b - np.log(2 * b)


def combine_normal(v: Floats, f: Floats, R: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the same with Gaussian noise.

    >>> [part.tolist() for part in combine_normal(np.array([3.0]), np.ones(1), np.full(1, 2.0))][:1]
    [[1.0]]
    """
    total = f + R
    return v * f / total, NORMAL_BAND * np.sqrt(f * R / total), -(np.log(2 * np.pi * total) + v * v / total) / 2


class Doubt(NamedTuple):
    """How large errors of predictions may be.

    rows, table  which row of the table each step has: chances of SIZES
    cells        chances of CELL, by which powers of 2 the sizes of a cell are moved: cells × points, or one row for all
    """

    rows: Integers
    table: Floats
    cells: Floats

    def weights(self) -> tuple[Integers, Floats]:
        """Return which sizes may occur, and their chances for each of CELL: points × sizes × rows."""
        moved = np.zeros((len(CELL), len(SIZES), len(self.table)))
        for k, a in enumerate(CELL.tolist()):
            np.add.at(moved[k], np.clip(np.arange(len(SIZES)) + a, 0, len(SIZES) - 1), self.table.T)
        there = np.einsum("ksr,k->sr", moved, self.cells.max(axis=0)).max(axis=1) >= FEWEST_SHARE
        return np.flatnonzero(there), moved


def trust_model(steps: int) -> Doubt:
    """Return that all errors have the size that the model says."""
    return Doubt(
        np.zeros(steps, dtype=np.int64), (SIZES == 1).astype(np.float64)[None], (CELL == 0).astype(np.float64)[None]
    )


def is_mixed(variances: Floats, noise: Floats) -> Bools:
    """Return where both a prediction and its value say something."""
    found: Bools = (noise > 0) & (variances > 0) & (variances < MOST * noise)
    return found


def combine(
    predicted: Floats, variances: Floats, values: Floats, noise: Floats, laplace: bool, doubt: Doubt
) -> tuple[Floats, Floats]:
    """Return estimates and half-widths of their 95 % bands, of predictions of these variances and noisy values: steps × cells.

    A prediction of infinite variance says nothing: the value stays, with the band of its noise. So does an exact value.

    >>> estimates, bands = combine(
    ...     np.zeros((3, 1)), np.array([[0.0], [2.0], [np.inf]]), np.full((3, 1), 3.0), np.full((3, 1), 2.0), True, trust_model(3)
    ... )
    >>> estimates[:, 0].round(3).tolist(), bands[:, 0].round(3).tolist()
    ([0.0, 1.719, 3.0], [0.0, 2.006, 2.996])
    """
    noise = np.broadcast_to(noise, values.shape)
    mixed = is_mixed(variances, noise)
    estimates = np.where((variances == 0) & (noise > 0), predicted, values)
    bands = np.where(variances == 0, 0.0, (LAPLACE_BAND if laplace else NORMAL_BAND) * np.sqrt(noise))
    v, f, R = (values - predicted)[mixed], variances[mixed], noise[mixed]
    steps, cells = np.nonzero(mixed)
    rows, cells = doubt.rows[steps], cells if len(doubt.cells) > 1 else np.zeros_like(cells)
    there, moved = doubt.weights()
    changes, halves = np.empty_like(v), np.empty_like(v)
    for start in range(0, len(v), AT_ONCE):
        part = slice(start, start + AT_ONCE)
        among = doubt.cells[cells[part]].T
        chances = [
            sum(each * one[rows[part]] for each, one in zip(among, moved[:, size], strict=True)) for size in there
        ]
        changes[part], halves[part] = _mix(v[part], f[part], R[part], laplace, SIZES[there].tolist(), chances)
    estimates[mixed] = predicted[mixed] + changes
    bands[mixed] = halves
    return estimates, bands


def _mix(
    v: Floats, f: Floats, R: Floats, laplace: bool, sizes: Sequence[float], chances: Sequence[Floats]
) -> tuple[Floats, Floats]:
    """Return the mean of the estimates of x − p that each size makes, weighted by likelihood, and half the width of its band."""
    one = combine_laplace if laplace else combine_normal
    moved, halves, logs = zip(*(one(v, c * f, R) for c in sizes), strict=True)
    top = reduce(np.maximum, logs)
    weights = [chance * np.exp(log - top) for chance, log in zip(chances, logs, strict=True)]
    total = sum(weights)  # size by size: sums of arrays may depend on how many values there are, in their last bits
    mean = sum(w * m for w, m in zip(weights, moved, strict=True)) / total
    squares = (h**2 + (NORMAL_BAND * (m - mean)) ** 2 for h, m in zip(halves, moved, strict=True))
    return mean, np.sqrt(sum(w * square for w, square in zip(weights, squares, strict=True)) / total)


@cache
def _table() -> Floats:
    """The half-width for evenly spaced k from 0 to 1, in √(fR/(f + R)), by integration over y."""
    inner = np.linspace(0, 1, POINTS)[1:-1]
    return np.array([NORMAL_BAND, *(largest(_Tail(k).is_too_narrow, 1.0, 4.0, 1e-6) for k in inner), LAPLACE_BAND])


class _Tail:
    """The error of the median where f = k and R = 1 − k, for many values of y with their densities."""

    def __init__(self, k: float) -> None:
        self.s, self.b = math.sqrt(k), math.sqrt((1 - k) / 2)
        self.unit = math.sqrt(k * (1 - k))
        v = np.linspace(0, 12 * max(self.s, 2 * self.b), 2001)
        self.v, self.median = v, find_median(v, np.full(len(v), self.s), np.full(len(v), self.b))[0]
        self.inside = self.mass(np.full(len(v), np.inf))

    def mass(self, x: Floats) -> Floats:
        """∫_{−∞}^x of exp(−t²/2f − |v − t|/b)/√(2πf), times e^{−s²/2b²}."""
        from scipy.special import log_ndtr

        v, s, b = self.v, self.s, self.b
        below = np.exp(log_ndtr((np.minimum(x, v) - s * s / b) / s) - v / b)
        above = np.exp(log_ndtr(-(v + s * s / b) / s) + v / b) - np.exp(log_ndtr(-(x + s * s / b) / s) + v / b)
        found: Floats = below + np.where(x > v, above, 0.0)
        return found

    def is_too_narrow(self, width: float) -> bool:
        """Whether more than 5 % of errors are larger than so many units."""
        x = width * self.unit
        inside = self.mass(self.median + x) - self.mass(self.median - x)
        return float(inside.sum() - inside[0] / 2) < 0.95 * float(self.inside.sum() - self.inside[0] / 2)


def find_half_width(shares: Floats) -> Floats:
    """Return the half-width of the band for these k = f/(f + R), in √(fR/(f + R)), with Laplace noise.

    >>> find_half_width(np.array([0.0, 0.5, 1.0])).round(3).tolist()
    [1.96, 2.006, 2.118]
    """
    result: Floats = np.interp(shares, np.linspace(0, 1, POINTS), _table())
    return result
