"""Least total squared noise under a fading risk: minimise Σ_k (Δ_k/ρ_k)² subject to R_t = Σ_{k≤t} d(t−k) ρ_k ≤ 1 (ours).

**Dual.** Multipliers λ_t ≥ 0 put a price g_k = Σ_{t≥k} d(t−k) λ_t on each loss; the best losses at these prices are
ρ_k = (2Δ_k²/g_k)^{1/3}, which gives

    q(λ) = 3 Σ_k (Δ_k/ρ_k)² − Σ_t λ_t,     ∂q/∂λ_t = R_t − 1,     −q″(λ) = D W Dᵀ,   W = diag(ρ_k / 3g_k)

q is concave, and q(λ) is at most the optimum whatever λ ≥ 0 is: the gap below is a certificate, however λ was found.

**Search.** Newton's method on the steps whose multiplier or excess is positive, each system solved by conjugate gradients
with FFT products. D⁻¹ is known (it gives the saturating plan), so D⁻ᵀW⁻¹D⁻¹ preconditions it. Negative multipliers of a Newton
step are clipped, or their debt is carried to the next step or to the one before, whichever leaves the largest q: clipping
alone moves the edge of the active set one step at a time. General solvers were tried first and stall
(docs/decisions/0006).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
from scipy import fft
from scipy.linalg import solve_triangular
from scipy.ndimage import maximum_filter1d

from halflife.errors import HalflifeError
from halflife.numerics.arrays import Bools, Floats
from halflife.numerics.power_series import Kernel, drops_of, renewal

Apply = Callable[[Floats], Floats]

PATIENCE = 60
"""Rounds without halving the gap after which the search ends; a daily pattern of sensitivities has needed about 50."""

DENSE = 3000
"""Up to so many active steps the preconditioner is a dense triangular solve."""


class Optimum(NamedTuple):
    """The solution: losses that keep every risk at most 1, the certified relative gap to the optimum, the rounds taken, and the
    multipliers that prove the gap."""

    losses: Floats
    gap: float
    rounds: int
    multipliers: Floats


class Point(NamedTuple):
    """A dual point: multipliers, prices, the losses at these prices, and q."""

    multipliers: Floats
    prices: Floats
    losses: Floats
    value: float


class Problem(NamedTuple):
    """The kernel d(0), d(1), …, the products with D and D⁻¹, the saturating losses, and the sensitivities Δ_k."""

    kernel: Floats
    times: Apply
    solve: Apply
    saturating: Floats
    delta: Floats


def least_squares(kernel: Kernel, delta: Floats, tolerance: float = 1e-6, rounds: int = 200) -> Optimum:
    """Return the losses of least Σ(Δ/ρ)² with every risk at most 1, up to a relative gap, which is certified.

    It ends at the tolerance, or when PATIENCE rounds have not halved the gap (sensitivities that jump by orders of
    magnitude from step to step can do that).

    For equal Δ and a kernel that forgets at once, every step may take everything:

    >>> least_squares(lambda j: 1.0 * (j == 0), np.ones(4)).losses.round(6)
    array([1., 1., 1., 1.])
    """
    scale = float(delta.max())
    problem = _problem(kernel, delta / scale)
    point = _start(problem)
    best, primal, gap = point.losses, np.inf, np.inf
    gaps: list[float] = []
    for done in range(rounds + 1):
        risk = problem.times(point.losses)
        feasible = point.losses / (risk.max() * (1 + 1e-12))
        value = float(np.sum((problem.delta / feasible) ** 2))
        if value < primal:
            best, primal = feasible, value
        gap = (primal - point.value) / primal
        gaps.append(gap)
        stuck = len(gaps) > PATIENCE and gap > gaps[-1 - PATIENCE] / 2
        if gap <= tolerance or stuck or done == rounds:
            break
        step = _newton(problem, point, risk - 1, _working_set(point.multipliers, risk))
        moved = _ascend(problem, point, step)
        if moved is None:
            break
        point = moved
    return Optimum(best, float(gap) + 1e-12, done, point.multipliers)


def proves(kernel: Kernel, delta: Floats, found: Optimum) -> bool:
    """Whether a solution keeps every risk at most 1, and its multipliers prove its gap: by three products, without a search."""
    problem = _problem(kernel, delta / float(delta.max()))
    point = _make_point(problem, found.multipliers) if (found.multipliers >= 0).all() else None
    if point is None or not problem.times(found.losses).max() <= 1:
        return False
    primal = float(np.sum((problem.delta / found.losses) ** 2))
    return (primal - point.value) / primal <= found.gap


def _problem(kernel: Kernel, delta: Floats) -> Problem:
    n = len(delta)
    d = kernel(np.arange(n, dtype=np.float64))
    saturating = renewal(drops_of(kernel, n))
    times, inverse = _toeplitz(d), _toeplitz(saturating)
    return Problem(d, times, lambda x: inverse(np.diff(x, prepend=0.0)), saturating, delta)


def _toeplitz(column: Floats) -> Apply:
    """Return x ↦ Dx for the lower triangular Toeplitz matrix of this first column; its transform is computed once."""
    n = len(column)
    size = fft.next_fast_len(2 * n, real=True)
    spectrum = fft.rfft(column, size)
    return lambda x: np.asarray(fft.irfft(fft.rfft(x, size) * spectrum, size)[:n], dtype=np.float64)


def _apply_transposed(apply: Apply, x: Floats) -> Floats:
    return apply(x[::-1])[::-1]


def _make_point(problem: Problem, multipliers: Floats) -> Point | None:
    """Return the dual point, None where a price is not positive."""
    prices = _apply_transposed(problem.times, multipliers)
    if not prices.min() > 0:
        return None
    losses = np.cbrt(2 * problem.delta**2 / prices)
    value = float(3 * np.sum((problem.delta / losses) ** 2) - multipliers.sum())
    return Point(multipliers, prices, losses, value)


def _clip(multipliers: Floats) -> Floats:
    return np.maximum(multipliers, 0.0)


def _forward(multipliers: Floats) -> Floats:
    """Project onto non-negative multipliers, forward in time: increments of the running maximum of the running sum."""
    return np.diff(np.maximum.accumulate(np.maximum(np.cumsum(multipliers), 0.0)), prepend=0.0)


def _backward(multipliers: Floats) -> Floats:
    return _forward(multipliers[::-1])[::-1]


PROJECTIONS: tuple[Apply, ...] = (_clip, _forward, _backward)


def _best(points: Iterable[Point | None]) -> Point | None:
    return max((p for p in points if p is not None), key=lambda p: p.value, default=None)


def _start(problem: Problem) -> Point:
    """Begin at the multipliers of the saturating or of the constant plan, each at its best multiple.

    q(cλ) = 3a c^{2/3} − s c is largest at c = (2a/s)³.
    """
    last = np.zeros(len(problem.delta))
    last[-1] = 1.0
    guesses = [last]
    average = np.mean(np.cbrt(problem.delta) ** 2) ** 1.5
    for delta in (problem.delta, average):
        multipliers = _apply_transposed(problem.solve, 2 * delta**2 / problem.saturating**3)
        guesses += [project(multipliers) for project in PROJECTIONS]
    scaled = []
    for guess in guesses:
        point = _make_point(problem, guess)
        if point is not None:
            factor = (2 * np.sum((problem.delta / point.losses) ** 2) / guess.sum()) ** 3
            scaled.append(_make_point(problem, guess * factor))
    best = _best(scaled)
    if best is None:
        raise HalflifeError("the dual of this plan has no interior point: a sensitivity is too small beside the others")
    return best


def _working_set(multipliers: Floats, risk: Floats) -> Bools:
    """Return the active and the violated steps; where few are active, only the peaks of the violation."""
    active, violated = multipliers > 0, risk > 1
    if active[np.argmax(active) :].mean() >= 0.5:
        return active | violated
    peaks = violated
    for half_width in (1, 2, 4, 8, 16, 32, 64):
        peaks = violated & (risk >= maximum_filter1d(risk, 2 * half_width + 1))
        if peaks.sum() <= 100:
            break
    return active | peaks


def _preconditioner(problem: Problem, working: Bools, weights: Floats) -> Apply:
    """Return an approximate inverse of D W Dᵀ on the working set, exact when that is everything."""
    index = np.flatnonzero(working)
    if len(index) > DENSE:
        return lambda x: np.where(working, _apply_transposed(problem.solve, problem.solve(x) / weights), 0.0)
    square = np.tril(problem.kernel[np.abs(np.subtract.outer(index, index))])
    pooled = np.add.reduceat(weights, np.concatenate(([0], index[:-1] + 1)))

    def apply(x: Floats) -> Floats:
        inner = solve_triangular(square, x[index], lower=True, check_finite=False) / pooled
        out = np.zeros(len(x))
        out[index] = solve_triangular(square, inner, lower=True, trans=1, check_finite=False)
        return out

    return apply


def _newton(problem: Problem, point: Point, excess: Floats, working: Bools) -> Floats:
    """Return the Newton step on the working set, by preconditioned conjugate gradients."""
    weights = point.losses / (3 * point.prices)
    precondition = _preconditioner(problem, working, weights)
    step = np.zeros(len(excess))
    residual = np.where(working, excess, 0.0)
    z = precondition(residual)
    direction, norm = z.copy(), float(residual @ z)
    enough = 1e-8 * norm
    for _ in range(50):
        image = np.where(working, problem.times(weights * _apply_transposed(problem.times, direction)), 0.0)
        length = norm / float(direction @ image)
        step += length * direction
        residual = residual - length * image
        z = precondition(residual)
        norm, before = float(residual @ z), norm
        if not norm > enough:
            break
        direction = z + norm / before * direction
    return step


def _ascend(problem: Problem, point: Point, step: Floats) -> Point | None:
    """Return the first of step, step/2, … whose best projection does not lower q; prices fall at most to a twentieth."""
    floor = point.value - 1e-12 * abs(point.value)
    for halvings in range(20):
        aim = point.multipliers + 0.5**halvings * step
        moved = (_make_point(problem, project(aim)) for project in PROJECTIONS)
        best = _best(p for p in moved if p is not None and np.all(p.prices > 0.05 * point.prices))
        if best is not None and best.value > floor:
            return best
    return None
