"""Reconciliation: totals and parts, each published with noise of its own, made to add up. It costs no privacy.

Let y be the noisy values, with noise of covariance Σ = diag(d) + B Bᵀ: d of each value's own noise, and a column of B for each
noise that several values have in common. Of the exact values A z = 0 holds, a row for each sum (`sums.py`). Generalised least
squares (known: Aitken 1935; for noisy counts Hay, Rastogi, Miklau and Suciu 2010; for forecasts Hyndman et al. 2011) gives, of
all unbiased linear estimates that add up, those of the least variance,

    ẑ = y − Σ Aᵀ (A Σ Aᵀ)⁻¹ A y,       Cov ẑ = Σ − Σ Aᵀ (A Σ Aᵀ)⁻¹ A Σ,

so that no variance grows. For one total with noise of variance v_0 and parts of v_i, with d = y_0 − Σ a_i y_i and
D = v_0 + Σ a_i² v_i, that is T̂ = y_0 − (v_0/D)·d and x̂_i = y_i + (a_i v_i/D)·d: the discrepancy is shared out by who is likely
to have caused it, and what is exact (v = 0) stays. Where noises are independent, ẑ_i has (Var ẑ_i/v_i) of its own noise, and
the rest is of others.

**Non-negative** (ours; see docs/decisions). From the top down: T⁺ = max(0, T̂), and the parts are the nearest ones at or above 0
that add up to it,

    minimise Σ (x_i − x̂_i)²/v_i   subject to   Σ a_i x_i = T⁺, x_i ≥ 0:        x_i = max(0, x̂_i + a_i v_i λ),

in which λ is the root of a rising function of straight pieces, found exactly by sorting where the pieces meet (known for a_i and
v_i of 1: projection onto the simplex, Held, Wolfe and Crowder 1974).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from halflife.errors import InvalidInput
from halflife.numerics.arrays import Floats, Integers
from halflife.postprocessing.reconcile.sums import Sums, find_blocks

NEXT_TO_NONE = 1e-12
LARGEST = 10_000_000
"""So many numbers of one kind are worked on at a time."""


class Common(NamedTuple):
    """A noise that several values have in common: their numbers, and the standard deviation that it gives each."""

    cells: Integers
    scales: Floats


class Reconciled(NamedTuple):
    """Estimates that add up, but for rounding, and their variances."""

    values: Floats
    variances: Floats


def reconcile(
    values: Floats, variances: Floats, sums: Sequence[Sums], common: Sequence[Common] = (), together: float = 0.0
) -> Reconciled:
    """Return the generalised least squares estimates of numbered values, block by block.

    values, variances  y and d, in one row;  common  the columns of B
    together           of each sum over time, the share of its parts' variances that is one error of all of them

    >>> zones = Sums(np.array([0]), np.array([[1, 2]]), np.ones(2, dtype=np.int64))
    >>> reconcile(np.array([9.0, 2.0, 4.0]), np.ones(3), [zones]).values.round(9).tolist()
    [8.0, 3.0, 5.0]
    """
    if values.ndim != 1 or variances.shape != values.shape or not np.isfinite(values).all():
        raise InvalidInput("reconciliation needs finite values in one row, and the variance of each")
    if not np.all((variances >= 0) & np.isfinite(variances)):
        raise InvalidInput("a variance is a number from 0 (an exact value) on")
    made, left = values.copy(), variances.copy()
    for one in common:
        np.add.at(left, one.cells, one.scales**2)
    of_cell: dict[int, list[int]] = {}
    for k, one in enumerate(common):
        for cell in one.cells.tolist():
            of_cell.setdefault(cell, []).append(k)
    for block in find_blocks(len(values), sums, [one.cells for one in common]):
        room = max(1, LARGEST // block.rows.size)
        for low in range(0, len(block.cells), room):
            cells = block.cells[low : low + room]
            own, shared = variances[cells], _find_columns(cells, common, of_cell)
            if together and block.over_time.any():
                own, shared = _share_errors(own, shared, block.rows[block.over_time], together)
            made[cells], left[cells] = _solve(values[cells], own, block.rows, shared)
    return Reconciled(made, left)


def _find_columns(cells: Integers, common: Sequence[Common], of_cell: dict[int, list[int]]) -> Floats | None:
    """B of some blocks of one form (blocks × values × noises); None if none of them has a noise in common."""
    if not of_cell:
        return None
    found = [sorted({k for cell in row.tolist() for k in of_cell.get(cell, ())}) for row in cells]
    shared = np.zeros((*cells.shape, max(map(len, found))))
    for matrix, row, noises in zip(shared, cells, found, strict=True):
        places = {cell: i for i, cell in enumerate(row.tolist())}
        for column, k in enumerate(noises):
            for cell, scale in zip(common[k].cells.tolist(), common[k].scales.tolist(), strict=True):
                if cell in places:
                    matrix[places[cell], column] += scale
    return shared if shared.shape[2] else None


def _share_errors(own: Floats, shared: Floats | None, rows: Floats, share: float) -> tuple[Floats, Floats]:
    """Own variances without what the parts of each of these rows have in common, and B with it."""
    parts = rows < 0
    columns = np.sqrt(share * own)[:, :, None] * parts.T
    rest = own * np.maximum(0.0, 1 - share * parts.sum(axis=0))
    return rest, columns if shared is None else np.concatenate([shared, columns], axis=2)


def _solve(y: Floats, d: Floats, a: Floats, shared: Floats | None) -> tuple[Floats, Floats]:
    """Estimates and variances of blocks of one form (blocks × values)."""
    cross, total = d[:, :, None] * a.T, d
    if shared is not None:
        cross, total = cross + shared @ np.swapaxes(a @ shared, 1, 2), d + (shared**2).sum(axis=2)
    inner = a @ cross
    size = np.sqrt(np.einsum("bii->bi", inner))
    size = np.where(size > 0, size, 1.0)  # a row of exact values adds up as it is
    scaled = inner / (size[:, :, None] * size[:, None, :])
    gain = (cross / size[:, None, :]) @ np.linalg.pinv(scaled, rcond=1e-12, hermitian=True)
    gap = (y @ a.T) / size
    moved = np.einsum("bnm,bm->bn", gain, gap)
    left = total - np.einsum("bnm,bnm->bn", gain, cross / size[:, None, :])
    return y - moved, np.clip(left, 0.0, total)


def hold_above_zero(values: Floats, variances: Floats, sums: Sequence[Sums]) -> Floats:
    """Return the nearest values that are not negative, from the top down; no value may be a part in two rows.

    >>> zones = Sums(np.array([0]), np.array([[1, 2, 3]]), np.ones(3, dtype=np.int64))
    >>> hold_above_zero(np.array([4.0, 5.0, -2.0, 1.0]), np.ones(4), [zones]).tolist()
    [4.0, 4.0, 0.0, 0.0]
    """
    made = values.copy()
    for s in sums:
        made[s.totals] = np.maximum(made[s.totals], 0.0)
        v = variances[s.parts]
        v = np.maximum(
            v, NEXT_TO_NONE * v.max(axis=1, keepdims=True)
        )  # exact parts among noisy ones stay, but for rounding
        made[s.parts] = project_non_negative(made[s.parts], made[s.totals], v, s.coefficients)
    return made


def project_non_negative(parts: Floats, total: Floats, variance: Floats, weights: Floats) -> Floats:
    """Return the nearest parts (rows × parts), in units of their noise, that are not negative and add up to a total of 0 or more.

    Parts without noise are left as they are if none of a row has any.

    >>> project_non_negative(np.array([[5.0, -2.0, 1.0]]), np.array([4.0]), np.ones((1, 3)), np.ones(3)).tolist()
    [[4.0, 0.0, 0.0]]
    """
    slope = weights * np.broadcast_to(variance, parts.shape)
    noisy = np.all(slope > 0, axis=1)
    if (np.any(slope > 0, axis=1) != noisy).any() or (total < 0).any() or (weights <= 0).any():
        raise InvalidInput("non-negative parts need noise in each or none, weights above 0, and a total of 0 or more")
    safe = np.where(slope > 0, slope, 1.0)
    order = np.argsort(-parts / safe, axis=1, kind="stable")  # with rising λ parts leave 0 in this order
    leaving, ranked = (np.take_along_axis(x, order, axis=1) for x in (parts / safe, parts))
    heavy = np.take_along_axis(np.broadcast_to(weights, parts.shape), order, axis=1)
    steep = np.take_along_axis(safe, order, axis=1)
    shift = (total[:, None] - np.cumsum(heavy * ranked, axis=1)) / np.cumsum(heavy * steep, axis=1)
    above = np.maximum((leaving + shift > 0).sum(axis=1, keepdims=True), 1)  # a run from the first on
    chosen = np.take_along_axis(shift, above - 1, axis=1)
    return np.where(noisy[:, None], np.maximum(0.0, parts + safe * chosen), parts)


def solve_least_squares(values: Floats, covariance: Floats, constraints: Floats) -> tuple[Floats, Floats]:
    """Return the generalised least squares estimates z with A z = 0, and their covariance, for any Σ, by a dense solve.

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
