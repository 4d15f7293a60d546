"""Exact losses of noisy numbers, from their densities alone: nothing here knows how an account adds up.

Everything is a *witness*: the supremum itself, or a number below it. So whoever attains more than was promised is right.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import product

import numpy as np
from scipy.special import log_ndtr, ndtr


def shared_loss(moves: Sequence[float], fresh: Sequence[float], under: float) -> float:
    """The largest log-likelihood ratio of y_k = f_k + v + u_k when f_k moves by m_k: v ~ Laplace(under), u_k ~ Laplace(fresh_k).

    A fresh scale of 0 stands for no fresh noise. ln p(y) is −g(y) up to what vanishes far out, with
    g(y) = min_v |v|/B + Σ |y_k − v|/b_k = max {λ·y : |λ_k| ≤ 1/b_k, |Σλ_k| ≤ 1/B}, so the supremum of g(y + m) − g(y) is the
    maximum of λ·m over that polytope, which is attained far out; by duality it is min_c |c|/B + Σ |m_k − c|/b_k, a weighted
    median. Two numbers without fresh noise that move differently lie on no common line: the loss is infinite.
    """
    best = math.inf
    for c in {0.0, *moves}:
        cost = abs(c) / under if under else (0.0 if c == 0 else math.inf)
        for m, b in zip(moves, fresh, strict=True):
            cost += 0.0 if m == c else (abs(m - c) / b if b else math.inf)
        best = min(best, cost)
    return best


def worst_shared_loss(reach: Sequence[float], fresh: Sequence[float], under: float) -> float:
    """The same for the worst moves |m_k| ≤ reach_k: it is convex in the moves, so a corner of the box is worst."""
    most = 0.0
    for signs in product((1, -1), repeat=max(0, len(reach) - 1)):
        most = max(most, shared_loss([r * s for r, s in zip(reach, (1, *signs), strict=True)], fresh, under))
    return most


def gaussian_mu(moves: Sequence[float], fresh: Sequence[float], under: float = 0.0) -> float:
    """μ = √(mᵀ Σ⁻¹ m) of Gaussian noise, Σ = diag(fresh²) + under²: infinite where Σ has no inverse and the moves see it."""
    m, covariance = np.array(moves), np.diag(np.array(fresh) ** 2) + under**2
    values, vectors = np.linalg.eigh(covariance)
    along = vectors.T @ m
    zero = values <= 1e-13 * max(float(values.max()), 1e-300)
    if np.any(np.abs(along[zero]) > 1e-9 * np.abs(m).max()):
        return math.inf
    return math.sqrt(float((along[~zero] ** 2 / values[~zero]).sum()))


def gaussian_delta(mu: float, epsilon: float) -> float:
    """δ(ε) of Gaussian differential privacy: Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ)."""
    return float(ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon + log_ndtr(-mu / 2 - epsilon / mu)))


def gaussian_epsilon(mu: float, delta: float) -> float:
    """The largest ε that Gaussian noise of this μ is seen to break at δ, by bisection from below."""
    if mu == 0 or gaussian_delta(mu, 0.0) <= delta:
        return 0.0
    if mu == math.inf:
        return math.inf
    low, high = 0.0, 1.0
    while gaussian_delta(mu, high) > delta:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if gaussian_delta(mu, middle) > delta else (low, middle)
    return low


CELLS = 4000


def epsilon_at(losses: Iterable[float], delta: float, mu: float = 0.0) -> float:
    """An ε that independent Laplace numbers of these losses, and Gaussian ones of this μ in all, are seen to break at δ.

    Without a δ their sum. Else loss distributions are rounded *down* to a grid and convolved: E(1 − e^{ε − L})₊ only falls by
    that, so this ε is never above the true one.
    """
    parts = [x for x in losses if x > 0]
    if any(x == math.inf for x in parts):
        return math.inf
    if delta == 0:
        return math.inf if mu else math.fsum(parts)
    if not parts:
        return gaussian_epsilon(mu, delta)
    total = math.fsum(parts) + (mu * mu / 2 + 8 * mu if mu else 0.0)
    h = total / CELLS
    law, first = np.ones(1), 0
    pieces = [_laplace_law(x, h) for x in parts]
    if mu:
        pieces.append(_gaussian_law(mu, h))
    for piece, start in pieces:
        law, first = np.convolve(law, piece), first + start
    values = (np.arange(len(law)) + first) * h

    def broken(epsilon: float) -> float:
        above = values > epsilon
        return float((law[above] * -np.expm1(epsilon - values[above])).sum())

    if broken(0.0) <= delta * (1 + 1e-9):
        return 0.0
    low, high = 0.0, total
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if broken(middle) > delta * (1 + 1e-9) else (low, middle)
    return low


def _laplace_law(loss: float, h: float) -> tuple[np.ndarray, int]:
    """The loss L of one Laplace number, rounded down to h: P(L < l) = e^{(l − ρ)/2}/2 between −ρ and ρ, and ½ at ρ itself."""
    first, last = math.floor(-loss / h), math.floor(loss / h)
    edges = np.arange(first, last + 2) * h
    below = np.where(edges <= -loss, 0.0, np.exp(np.minimum(0.0, (edges - loss) / 2)) / 2)
    below[edges > loss] = 1.0
    return np.diff(below), first


def _gaussian_law(mu: float, h: float) -> tuple[np.ndarray, int]:
    """The loss N(μ²/2, μ²) rounded down to h, its upper tail left out and its lower one at the first cell."""
    first, last = math.floor((mu * mu / 2 - 8 * mu) / h), math.floor((mu * mu / 2 + 8 * mu) / h)
    edges = np.arange(first, last + 2) * h
    below = ndtr((edges - mu * mu / 2) / mu)
    below[0] = 0.0
    return np.diff(below), first
