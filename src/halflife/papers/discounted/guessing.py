"""How often the best guess is right: two series, one of them published with Laplace noise on every step.

Step k moves by m_k from one series to the other and is published with Laplace noise of scale b_k; only a_k = m_k/b_k matters, the
loss of this pair at step k. Who knows both series guesses best by the sign of the log-likelihood ratio L = Σ L_k, and with both
equally likely is right with probability ½(1 + V), V the total variation distance of the two laws.

**V as one integral** (ours; to invert a tilted characteristic function is a known technique). min(p, p′) = √(p p′) e^{−|L|/2},
and e^{−|x|/2} = (1/2π) ∫ e^{isx}/(s² + ¼) ds. Steps are independent, so with ψ_a(s) = ∫ p^{½+is} p′^{½−is} of one step

    V = (1/π) ∫₀^∞ (1 − Π_k ψ_{a_k}(s)) / (s² + ¼) ds,      ψ_a(s) = e^{−a/2} (cos(as) + sin(as)/(2s))

One step: V = 1 − e^{−a/2}. Many small ones: V = 2Φ(σ/2) − 1, nearly, with σ² = Σ a_k².
"""

from __future__ import annotations

import math

import numpy as np

from halflife.errors import InvalidInput
from halflife.numerics.arrays import Floats

NODES, SPACING = 200, 0.5
"""The integrand has no pole (ψ is 1 at s = ±i/2). It is taken at s = 0, ½/σ, 1/σ, … 100/σ, which is exact while |L| ≤ 4πσ."""

SINGLE = 48
"""So many of the largest steps, a day of half hours, enter one by one, the others by their power sums."""


def right_guesses(losses: Floats) -> Floats:
    """Return ½(1 + V) for each row of losses a_k of a pair of series: 0.5 is guessing, 1 is certainty (see the module).

    Steps beyond the 48 largest enter by ln ψ_a = −qa²/2 + qa³/6 − (q/24 + q²/12)a⁴ + (q/120 + q²/15)a⁵ − …, q = s² + ¼: where
    that series is off, the product of the 48 has all but vanished. For losses up to 1 the result was seen to be off by less than
    10⁻⁵, and by less than 10⁻⁴ where all are equal.

    >>> right_guesses(np.array([[1.0], [4.0], [0.0]])).round(5), round(1 - math.exp(-0.5) / 2, 5)
    (array([0.69673, 0.93233, 0.5    ]), 0.69673)
    """
    a = np.atleast_2d(np.asarray(losses, dtype=np.float64))
    if not (np.isfinite(a) & (a >= 0)).all():
        raise InvalidInput(
            "the losses of a pair must be finite and not negative: give |x − x′| / scale", about="losses"
        )
    spread = np.sqrt((a * a).sum(axis=1))
    found = np.full(len(a), 0.5)
    moved = spread > 0
    if moved.any():
        found[moved] = np.clip(0.5 + _distance(a[moved], spread[moved]) / 2, 0.5, 1.0)
    return found


def _distance(a: Floats, spread: Floats) -> Floats:
    """V by the trapezoid rule. Beyond the last node the product is taken for its mean, into which it fades over the second half.

    With few steps it goes on oscillating, about a mean that is not 0 where steps are equal: ψ² holds cos².
    """
    s = np.maximum(np.arange(NODES + 1) * SPACING, 1e-9) / spread[:, None]
    product = _product(a, s)
    half = NODES // 2
    place = np.arange(NODES + 1 - half) / (NODES - half)
    bell, fade = np.sin(np.pi * place) ** 2, np.cos(np.pi / 2 * place) ** 2
    mean = (product[:, half:] @ bell / bell.sum())[:, None]
    product[:, half:] = mean + fade * (product[:, half:] - mean)
    heights = (1 - product) / (s * s + 0.25)
    heights[:, 0] /= 2
    end = (NODES + 0.5) * SPACING / spread
    result: Floats = SPACING / (np.pi * spread) * heights.sum(axis=1) + (1 - mean[:, 0]) * 2 / np.pi * np.arctan(
        0.5 / end
    )
    return result


def _product(a: Floats, s: Floats) -> Floats:
    """Π_k ψ_{a_k}(s), row by row."""
    small, q = max(a.shape[1] - SINGLE, 0), s * s + 0.25
    ordered = np.partition(a, small, axis=1)
    rest, largest = ordered[:, :small], ordered[:, small:]
    square, cube, fourth, fifth = ((rest**i).sum(axis=1)[:, None] for i in (2, 3, 4, 5))
    logarithm = -q * square / 2 + q * cube / 6 - (q / 24 + q * q / 12) * fourth + (q / 120 + q * q / 15) * fifth
    result: Floats = np.exp(np.minimum(logarithm, 0.0) - largest.sum(axis=1)[:, None] / 2)
    for one in largest.T[:, :, None]:
        result *= np.cos(one * s) + np.sin(one * s) / (2 * s)
    return result


def most_guesses(epsilon: float) -> float:
    """Return how often a guess can be right at most about an ε-DP release: e^ε / (1 + e^ε) (known).

    >>> round(most_guesses(1.0), 4), most_guesses(1e4)
    (0.7311, 1.0)
    """
    return 1 / (1 + math.exp(-epsilon))
