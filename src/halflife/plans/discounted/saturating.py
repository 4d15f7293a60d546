"""The saturating losses, which use all headroom at every step (T1), in closed form: any one of them takes the same time.

With the kernel d between releases, the saturating losses are ρ_t = ε u_{t−1}, Σ_{j≤t} d(j) u_{t−j} = 1 (the renewal sequence of
`power_series`). A kernel that is a mixture of exponentials, d(j) = ∫ yʲ μ(dy), has a u that is one too (Kaluza sequences; known),
and from t = 1 on it is a sum of a few hundred of them:

    u_t = Σ_i w_i e^{−r_i t}, t ≥ 1;   u_0 = 1

Exponential, d(j) = αʲ: one term, u_t = 1 − α. Hyperbolic: `hyperbolic_terms`. Losses are evaluated in blocks of whole `BLOCK`
releases, each block in one order of operations, so a loss depends on its number alone, to the last bit, and never on which others
were asked for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from halflife.numerics.arrays import Floats
from halflife.numerics.fading import Geometric, Hyperbolic

BLOCK = 256
FOR_EVER = 2**62
Terms = tuple[Floats, Floats]
"""Rates r_i and weights w_i of Σ_i w_i e^{−r_i t}."""


@dataclass(frozen=True, eq=False)
class Saturating:
    """ρ = `cap` for the first `capped` releases, then once `turn`, then Σ_i W_i e^{−r_i t}, t = 1, 2, …"""

    cap: float
    capped: int
    turn: float
    rates: Floats
    weights: Floats

    @cached_property
    def _fading(self) -> Floats:
        """e^{−r_i t} for t = 1 … BLOCK."""
        return np.exp(-np.outer(self.rates, np.arange(1, BLOCK + 1, dtype=np.float64)))

    def _block(self, number: int) -> Floats:
        """Terms number·BLOCK + 1 … (number + 1)·BLOCK, added up row by row: a product of matrices would choose its own order."""
        weights = self.weights * np.exp(-self.rates * float(number * BLOCK))
        result: Floats = np.add.reduce(weights[:, None] * self._fading, axis=0)
        return result

    def between(self, first: int, last: int) -> Floats:
        """Return the losses of releases number first … last."""
        begin = self.capped + 2
        head = [self.cap if k <= self.capped else self.turn for k in range(first, min(last + 1, begin))]
        if last < begin:
            return np.array(head)
        low, high = max(first, begin) - begin, last - begin
        blocks = [self._block(b) for b in range(low // BLOCK, high // BLOCK + 1)]
        start = low // BLOCK * BLOCK
        later = np.concatenate(blocks)[low - start : high - start + 1]
        return np.concatenate((np.array(head), np.minimum(later, self.cap)))


def saturating_losses(fading: Geometric | Hyperbolic, epsilon: float, cap: float) -> Saturating:
    """Return ρ_t = min(cap, what the risk of all earlier ones leaves of ε) for this kernel between releases (T1; ours).

    Once the risk has reached ε it stays there, as the headroom is then an average of earlier losses. So the risks are
    R_t = cap·D_t, D_t = Σ_{j<t} d(j), for t ≤ m, and ε after; and ρ_t = Σ_k (R_k − R_{k−1}) u_{t−k}. In terms of u,

        W_i = w_i (cap·T_i + ε − cap·D_m),   T_i = Σ_{k≤m} d(k−1) e^{−r_i (m+1−k)},   turn = ε − cap·D_m + cap·Σ_i w_i T_i

    with m the number of steps that the cap holds: 0 if it does not bind, and then ρ_1 = ε and W_i = ε w_i. D_m and T_i are
    geometric sums, by the terms of d itself: their cost does not depend on m.

    >>> saturating_losses(Geometric(0.75), 1.0, 0.5).between(1, 5)
    array([0.5    , 0.5    , 0.34375, 0.25   , 0.25   ])
    >>> saturating_losses(Hyperbolic(1.0), 1.0, 1.0).between(2, 4).round(6)      # 1/2, 1 − 1/3 − 1/4, …
    array([0.5     , 0.416667, 0.375   ])
    """
    rates, weights = renewal_terms(fading)
    kernel_rates, kernel_weights = fading.terms
    capped = 0 if cap >= epsilon else _steps_at_cap(fading, epsilon, cap)
    if capped == FOR_EVER:
        return Saturating(cap, capped, cap, rates, weights)
    spent = cap * _kernel_sum(fading, capped)
    passed = np.exp(-rates) * (_geometric(kernel_rates[None, :], rates[:, None], capped) @ kernel_weights)
    left = max(0.0, epsilon - spent)
    turn = min(cap, left + cap * float(weights @ passed))
    return Saturating(cap, capped, turn, rates, weights * (cap * passed + left))


def renewal_terms(fading: Geometric | Hyperbolic) -> Terms:
    """Return the terms of u for a kernel."""
    if isinstance(fading, Hyperbolic):
        return hyperbolic_terms(fading.beta)
    return np.zeros(1), np.array([1 - fading.alpha])


STEP = 0.2
LAST = 60.0
"""Where e^{−s/β}, in which the integrand falls at the least, is taken for nothing."""
FIRST = 1e-24
"""Below this rate nothing fades within 2⁴⁰ releases, to twelve digits."""


@lru_cache(maxsize=64)
def hyperbolic_terms(beta: float) -> Terms:
    """Return the terms of u for d(j) = 1/(1+βj), by the jump of its generating function across its cut (ours).

    D(z) = Σ_j d(j) zʲ = ∫₀^∞ e^{−x} / (1 − z e^{−βx}) dx is analytic but for the cut z ≥ 1, where it has the two values
    A(z) ± iπ a z^{−a}, a = 1/β, and is never 0. U(z) = Σ_t u_t zᵗ = 1/((1−z)D(z)). Cauchy's integral for u_t, drawn out to the
    cut, is with z = eˢ

        u_t = β ∫₀^∞ e^{−s(t+1−a)} / ((1 − e^{−s}) (J(s)² + π²)) ds,  t ≥ 1,   J(s) = PV ∫_{−s}^∞ e^{−aq} / (1 − e^{−q}) dq
        J(s) = −Ei(as) + ln a − ψ(a) + ∫₀ˢ e^{aq} (1/q − 1/(e^q − 1)) dq      (Ei: exponential integral; ψ: digamma)

    The integrand is positive, so u is a mixture of exponentials. In v = ln s the trapezoid rule of step h = 0.2 is off by a few
    10⁻¹⁴ of u: the nearest poles are zeros of J ± iπ a distance of 1 or more away from the real line, seen for β from 10⁻⁸
    to 10⁶. Below s = `FIRST` the integrand is β/((v + c)² + π²), c = ψ(a) + Euler's constant, and the infinite rest of the rule
    is a digamma function: one term that never fades.

    >>> rates, weights = hyperbolic_terms(1.0)
    >>> [round(float(weights @ np.exp(-rates * t)), 12) for t in (1, 2)], round(5 / 12, 12)
    ([0.5, 0.416666666667], 0.416666666667)
    """
    from scipy.special import digamma, expi

    a = 1 / max(beta, 1e-290)
    v = np.arange(math.log(LAST / (1 + a)), math.log(min(FIRST, 1e-15 / a)), -STEP)[::-1]
    s = np.exp(v)
    points, shares = np.polynomial.legendre.leggauss(40)
    q = s[:, None] * (points + 1) / 2
    rest = s / 2 * ((np.exp(a * q) * _beyond_pole(q)) @ shares)
    jump = -expi(a * s) + (math.log(a) - float(digamma(a))) + rest
    with np.errstate(over="ignore"):
        weights = beta * STEP * s * np.exp(-s * (1 - a)) / (-np.expm1(-s) * (jump * jump + math.pi**2))
    first = 1 - (v[0] + float(np.euler_gamma + digamma(a))) / STEP
    never = beta / math.pi * float(digamma(complex(first, math.pi / STEP)).imag)
    return np.append(0.0, s), np.append(never, weights)


def _beyond_pole(q: Floats) -> Floats:
    """1/q − 1/(e^q − 1), without cancellation near 0."""
    small = q < 0.01
    far = np.where(small, 1.0, q)
    result: Floats = np.where(small, 0.5 - q / 12 + q**3 / 720, 1 / far - 1 / np.expm1(far))
    return result


def _geometric(a: Floats, b: Floats, n: int) -> Floats:
    """Σ_{j<n} e^{−a j} e^{−b (n−1−j)}, without cancellation where the two are close."""
    apart = np.abs(a - b)
    same = apart * n < 1e-12
    with np.errstate(invalid="ignore", divide="ignore"):
        count = np.where(same, float(n), np.expm1(-apart * n) / np.expm1(-apart))
    result: Floats = np.exp(-np.minimum(a, b) * max(0, n - 1)) * count
    return result


def _kernel_sum(fading: Geometric | Hyperbolic, n: int) -> float:
    """D_n = Σ_{j<n} d(j)."""
    rates, weights = fading.terms
    return float(_geometric(rates, np.zeros(1), n) @ weights)


def _steps_at_cap(fading: Geometric | Hyperbolic, epsilon: float, cap: float) -> int:
    """The largest m with cap·D_m < ε; `FOR_EVER` if there is none."""
    if cap * _kernel_sum(fading, FOR_EVER) < epsilon:
        return FOR_EVER
    low, high = 0, FOR_EVER
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if cap * _kernel_sum(fading, middle) < epsilon else (low, middle)
    return low
