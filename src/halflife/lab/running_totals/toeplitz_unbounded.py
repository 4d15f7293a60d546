"""Factorisation without a horizon: running totals for ever, of a noise that is half as much again as with one."""

from __future__ import annotations

import math
from functools import cache
from typing import ClassVar

import numpy as np

from halflife.lab.running_totals.base import FactoredTotals, inverse_root, round_down
from halflife.numerics.arrays import Floats
from halflife.numerics.power_series import convolution, renewal

WEIGHT = 1 / 400
"""β: chosen so that from 2¹⁷ to 2²⁴ steps the variance is less than 1.5 times that with a horizon of as many steps."""
FAR = 600.0
"""The integral of the norm goes to θ = π e^(−600), and is closed by a bound from there."""


class UnboundedToeplitz(FactoredTotals):
    """Running totals without a horizon, by a logarithmic perturbation of 1/√(1 − z) (after Jacobsen, Fawaz: arXiv 2506.15018;
    this perturbation, its norm and the windows are ours).

        c(z) = 1/(D(z)√(1 − z)),   l(z) = D(z)/√(1 − z),   D = 1 − β + βΛ²,   Λ(z) = (1/z) ln(1/(1 − z)),   β = 1/400

    c_n falls as n^(−1/2) (ln n)^(−2), so all of its squares have a finite sum, which the square root's have not; the variance
    grows as (ln t)⁵ in the end. After 2¹⁷ steps it is 1.48 times that of `Toeplitz` with that horizon, after 2²⁰ 1.43 and after
    2²⁴ 1.42 times.

    **c_n > 0.** Λ = ∫_0^1 du/(1 − uz) is analytic off the cut [1, ∞). Its imaginary part is harmonic in the upper half plane, 0
    on the real line below 1, π/x above the cut and 0 far out: it lies between 0 and π. So Re Λ² ≥ −π² and Re D ≥ 1 − β − βπ² > 0
    everywhere: D has no zero. Closing Cauchy's integral about the cut, as c(z) falls like |z|^(−1/2) far out,

        c_n = (1/π) ∫_1^∞ Im c(x + i0) x^(−n−1) dx,       arg c(x + i0) = π/2 − arg D,     |arg D| < π/2:   Im c > 0.

    **‖C·1_w‖²** is by Parseval an integral over the circle, and the same for every position of the window:

        (1/π) ∫_0^π |c(e^(iθ))|² (sin(wθ/2)/sin(θ/2))² dθ,      |c|² = |D|^(−2)/(2 sin(θ/2))

    worked out with θ = π e^(−s), by Gauss-Legendre on short pieces up to s = 600. From there on the integrand is at most w²β^(−2)
    (s − ln π)^(−4), as Re D ≥ β(Re Λ)²; its integral is added.

    >>> from halflife import WEvent
    >>> from halflife.lab.running_totals.toeplitz import Toeplitz
    >>> notion = WEvent(1.0, 1, 1e-6)
    >>> one, other = UnboundedToeplitz(notion), Toeplitz(notion, horizon=2**14)
    >>> round(float((one.multipliers(2**14)[-1] / other.multipliers(2**14)[-1]) ** 2), 2)
    1.58
    """

    name: ClassVar[str] = "toeplitz-unbounded"

    def factor(self, steps: int) -> Floats:
        """Return the coefficients of 1/(D√(1 − z)), rounded down."""
        return round_down(_perturb(steps))

    def window_norm(self) -> float:
        """Return ‖C·1_w‖ over infinitely many rows."""
        return math.sqrt(_norm_squared(self.notion.w))


def _perturb(steps: int) -> Floats:
    """The coefficients of 1/(D√(1 − z))."""
    log = 1 / np.arange(1.0, steps + 1)
    drops = -WEIGHT * convolution(log, log)
    drops[0] = 0.0
    return convolution(renewal(drops), inverse_root(steps))


@cache
def _norm_squared(w: int) -> float:
    """‖C·1_w‖² by quadrature, with a part in 10⁹ added for its error."""
    nodes, weights = np.polynomial.legendre.leggauss(40)
    waves = math.ceil(w / 8)  # the window's kernel swings w/2 times, most of it where s is small
    ends = np.concatenate([np.linspace(0, 12, 60 * waves + 1), np.linspace(12, FAR, 1177)[1:]])
    half = np.diff(ends)[:, None] / 2
    angle = math.pi * np.exp(-(ends[:-1, None] + half * (1 + nodes)))
    chord = 2 * np.sin(angle / 2)
    log = np.exp(-1j * angle) * (-np.log(chord) + 0.5j * (math.pi - angle))
    window = (w * np.sinc(w * angle / (2 * math.pi)) / np.sinc(angle / (2 * math.pi))) ** 2
    inside = angle / chord * np.abs(1 - WEIGHT + WEIGHT * log**2) ** -2 * window
    rest = (FAR - math.log(math.pi)) ** -3 / (3 * WEIGHT**2)
    return float(((half * weights * inside).sum() + w**2 * rest) / math.pi * (1 + 1e-9))
