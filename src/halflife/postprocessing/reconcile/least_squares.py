"""Reconciliation: a total and its parts, each published with noise of its own, made to add up. It costs no privacy.

Let y_0 be the noisy total, with noise of variance v_0, and y_i the noisy parts, of v_i, all independent, where T = Σ a_i x_i
holds of the exact values: a_i = 1 for sums and counts, n_i/N for means. Generalised least squares (known: Aitken 1935; for noisy
counts Hay, Rastogi, Miklau and Suciu 2010; for forecasts Hyndman et al. 2011) gives, of all unbiased linear estimates that add
up, those of the least variance. With the discrepancy d = y_0 − Σ a_i y_i and D = v_0 + Σ a_i² v_i,

    T̂ = y_0 − (v_0/D)·d,             Var T̂  = v_0 − v_0²/D,
    x̂_i = y_i + (a_i v_i/D)·d,       Var x̂_i = v_i − (a_i v_i)²/D,

so that no variance grows. The discrepancy is shared out by who is likely to have caused it; what is exact (v = 0) stays. Each
estimate is a public mixture of independent noises (`mixture_of_total`, `mixture_of_part`). Several levels, shared noise, or days
and their half hours are the general case, `solve_least_squares`.

**Non-negative** (ours; see docs/decisions). T⁺ = max(0, T̂), and the parts are the nearest ones at or above 0 that add up to it,

    minimise Σ (x_i − x̂_i)²/v_i   subject to   Σ a_i x_i = T⁺, x_i ≥ 0:        x_i = max(0, x̂_i + a_i v_i λ),

in which λ is the root of a rising function of straight pieces, found exactly by sorting where the pieces meet (known for a_i and
v_i of 1: projection onto the simplex, Held, Wolfe and Crowder 1974).

**Exactly.** Doubles that were rounded one by one need not add up. `settle` rounds parts to a grid so coarse that Σ w_i x_i, with
whole weights w_i, is exact in whatever order it is added, and divides once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from halflife.errors import InvalidInput
from halflife.numerics.arrays import Floats, Integers

BITS = 51
"""Parts are rounded to 2^−BITS of their sum, or less: sums of doubles hold 53 bits."""


class Reconciled(NamedTuple):
    """Estimates that add up: of the total (steps × lanes), and of the parts (steps × parts × lanes)."""

    total: Floats
    parts: Floats


def reconcile(
    total: Floats, parts: Floats, total_variance: Floats, part_variance: Floats, weights: Floats
) -> Reconciled:
    """Return the generalised least squares estimates of a total and its parts.

    total, parts    noisy: steps × lanes, and steps × parts × lanes. A lane is what adds up by itself, as a bin of histograms
    total_variance  of the noise, in the same shape, or one that can be broadcast to it; so `part_variance`
    weights         a_i, one for each part

    >>> parts = np.array([[[2.0], [4.0]]])
    >>> found = reconcile(np.array([[9.0]]), parts, np.ones((1, 1)), np.ones((1, 2, 1)), np.ones(2))
    >>> found.total.tolist(), found.parts.ravel().tolist()
    ([[8.0]], [3.0, 5.0])
    """
    _check(total, parts, weights)
    a = weights[:, None]
    v = np.broadcast_to(np.asarray(part_variance, dtype=np.float64), parts.shape)
    v0 = np.broadcast_to(np.asarray(total_variance, dtype=np.float64), total.shape)
    if not all(np.all((x >= 0) & np.isfinite(x)) for x in (v, v0)):
        raise InvalidInput("a variance is a number from 0 (an exact value) on")
    together = v0 + (a * a * v).sum(axis=1)
    known = together > 0  # else all of it is exact, and adds up as it is
    ratio = np.where(known, total - (a * parts).sum(axis=1), 0.0) / np.where(known, together, 1.0)
    return Reconciled(total - v0 * ratio, parts + a * v * ratio[:, None, :])


class Mixture(NamedTuple):
    """What an estimate's error consists of: its own noise times `own`, and noises of the standard deviation `others` in all."""

    own: float
    others: float


def mixture_of_total(total: float, part: float, count: int) -> Mixture:
    """Return the error of T̂: noise of scale `total` on y_0, and of scale `part` on each of `count` parts (as they count in it).

    >>> mixture_of_total(1.0, 1.0, 4)                       # 4/5 of its own, and 1/5 of each of the four
    Mixture(own=0.8, others=0.4)
    """
    both = total * total + count * part * part
    moved = total * total / both if both else 0.0
    return Mixture((1 - moved) * total, moved * part * count**0.5)


def mixture_of_part(total: float, part: float, count: int) -> Mixture:
    """Return the error of x̂_i where all parts have noise of one scale (as they count in the total).

    >>> own, others = mixture_of_part(1.0, 1.0, 4)          # 4/5 of its own, and 1/5 of the total's and the other three
    >>> own, others, round(own**2 + others**2, 9)           # 1 − 1/5
    (0.8, 0.4, 0.8)
    """
    both = total * total + count * part * part
    moved = part * part / both if both else 0.0
    return Mixture((1 - moved) * part, moved * (total * total + (count - 1) * part * part) ** 0.5)


def project_non_negative(parts: Floats, total: Floats, variance: Floats, weights: Floats) -> Floats:
    """Return the nearest parts, in units of their noise, that are not negative and add up to a total of 0 or more.

    Shapes are those of `reconcile`. Parts without noise are left as they are if none of a step and lane has any.

    >>> parts = np.array([[[5.0], [-2.0], [1.0]]])
    >>> project_non_negative(parts, np.array([[4.0]]), np.ones((1, 3, 1)), np.ones(3)).ravel().tolist()
    [4.0, 0.0, 0.0]
    """
    _check(total, parts, weights)
    a = weights[:, None]
    slope = a * np.broadcast_to(variance, parts.shape)
    noisy = np.all(slope > 0, axis=1)
    if (np.any(slope > 0, axis=1) != noisy).any() or (total < 0).any() or (weights <= 0).any():
        raise InvalidInput("non-negative parts need noise in each or none, weights above 0, and a total of 0 or more")
    safe = np.where(slope > 0, slope, 1.0)
    order = np.argsort(-parts / safe, axis=1, kind="stable")  # with rising λ parts leave 0 in this order
    leaving, ranked = (np.take_along_axis(x, order, axis=1) for x in (parts / safe, parts))
    heavy = np.take_along_axis(np.broadcast_to(a, parts.shape), order, axis=1)
    steep = np.take_along_axis(safe, order, axis=1)
    shift = (total[:, None, :] - np.cumsum(heavy * ranked, axis=1)) / np.cumsum(heavy * steep, axis=1)
    above = np.maximum((leaving + shift > 0).sum(axis=1, keepdims=True), 1)  # a run from the first on
    chosen = np.take_along_axis(shift, above - 1, axis=1)
    return np.where(np.expand_dims(noisy, 1), np.maximum(0.0, parts + safe * chosen), parts)


def settle(parts: Floats, weights: Integers, divisor: int) -> Reconciled:
    """Return parts on a grid, and the total Σ w_i x_i / W: whoever adds doubles up gets the same one, in whatever order.

    The grid is 2^(e − 51) with Σ w_i |x_i| < 2^e: the products and their sums are whole multiples of it, fewer than 2^53, and so
    none of them is rounded. No part moves by more than 2^−51 of that sum.

    >>> found = settle(np.array([[[0.1], [0.2], [0.7]]]), np.array([1, 1, 1]), 1)
    >>> x, y, z = found.parts.ravel().tolist()
    >>> x + y + z == z + y + x == y + z + x == found.total.item(), 0.1 + 0.2 + 0.7 == 0.7 + 0.2 + 0.1
    (True, False)
    """
    w = weights.astype(np.float64)[:, None]
    if (weights < 1).any() or int(weights.sum()) > 2 ** (BITS - 1) or divisor < 1:
        raise InvalidInput("weights that add up exactly are whole numbers from 1 on, below 2^50 in all")
    _, exponent = np.frexp((w * np.abs(parts)).sum(axis=1, keepdims=True))
    exponent = np.maximum(exponent - BITS, -1000)
    grid = np.ldexp(np.rint(np.ldexp(parts, -exponent)), exponent) + 0.0  # no −0
    return Reconciled((w * grid).sum(axis=1) / divisor, grid)


def solve_least_squares(values: Floats, covariance: Floats, constraints: Floats) -> tuple[Floats, Floats]:
    """Return the generalised least squares estimates z with A z = 0, and their covariance: the general case, by a dense solve.

        ẑ = y − Σ Aᵀ (A Σ Aᵀ)⁺ A y,       Cov ẑ = Σ − Σ Aᵀ (A Σ Aᵀ)⁺ A Σ.

    values       y, of length k;  covariance  Σ of their noise, k × k: noise that two values share is off the diagonal
    constraints  A, one row for each sum: +1 at the total, −a_i at its parts. Levels, widths and crossing totals are more rows

    >>> z, cov = solve_least_squares(np.array([9.0, 2.0, 4.0]), np.eye(3), np.array([[1.0, -1.0, -1.0]]))
    >>> z.round(9).tolist(), np.diag(cov).round(4).tolist()
    ([8.0, 3.0, 5.0], [0.6667, 0.6667, 0.6667])
    """
    y, cov, a = (np.asarray(x, dtype=np.float64) for x in (values, covariance, constraints))
    if y.ndim != 1 or cov.shape != (len(y), len(y)) or a.ndim != 2 or a.shape[1] != len(y):
        raise InvalidInput(
            f"k values need a covariance of k × k and constraints of m × k, not {y.shape}, {cov.shape}, {a.shape}"
        )
    if not all(np.isfinite(x).all() for x in (y, cov, a)) or not np.allclose(cov, cov.T, rtol=1e-9, atol=0.0):
        raise InvalidInput("values, covariance and constraints must be finite, and the covariance symmetric")
    gain = cov @ a.T @ np.linalg.pinv(a @ cov @ a.T, hermitian=True)
    return y - gain @ (a @ y), cov - gain @ a @ cov


def _check(total: Floats, parts: Floats, weights: Floats) -> None:
    if parts.ndim != 3 or total.shape != (parts.shape[0], parts.shape[2]) or weights.shape != (parts.shape[1],):
        raise InvalidInput(
            "reconciliation needs a total of steps × lanes, parts of steps × parts × lanes and a weight for each part, not "
            f"{total.shape}, {parts.shape} and {weights.shape}"
        )
    if not (np.isfinite(total).all() and np.isfinite(parts).all()):
        raise InvalidInput("reconciliation needs finite values: one is infinite or not a number")
