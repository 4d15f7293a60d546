"""AR(1) on a span: x_{t+1} = ρ x_t + N(0, σ²), exactly."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from halflife.errors import InvalidInput
from halflife.numerics.arrays import Floats
from halflife.numerics.forms import JsonObject
from halflife.numerics.parameters import real, whole
from halflife.processes.base import Direction, Process, frontier_at_zero, register_process
from halflife.processes.contraction import NOTHING, ROUND_UP, STEEP, Frontier, theorem_1

TANGENTS = 2048
THRESHOLDS, ROUNDS = 65, 4
FURTHEST = 37.0
"""Tangents reach so many standard deviations out: beyond, tails are below e^−700."""
ALIKE = 1e-7
"""Laws closer than this are bounded by their derivative, which is accurate where a difference is not."""
LEAST_SHIFT = 1e-290
INEXACT = 1e-9
"""How much frontiers are widened for the rounding errors of crossing tangents."""


@register_process
@dataclass(frozen=True, eq=False)
class AutoRegressive(Process):
    """A stationary AR(1) process of which two states of a person differ by at most `span` (eq. 81; paper).

    Given X_now = x, the state t steps back is N(ρ^t x, σ²(1 − ρ^{2t})/(1 − ρ²)) (Lemma 8; paper), and so is the state t steps
    ahead: a Gaussian AR(1) process is reversible (Lemma 7; paper). Two such laws are δ = |ρ|^t span / (σ √((1 − ρ^{2t})/(1 −
    ρ²))) standard deviations apart, Δ(t) = 2Φ(δ/2) − 1 exactly, and the best set B of T3 is a half-line. Pinsker's inequality
    (Lemma 9, eq. 88; paper) is coarser, and at t = 0 it says nothing.

    The span is a promise about the state that is asked for, not about the states between: a state is unbounded (A6), so
    mechanisms clip, and a sequence of releases does not add up by K step by step (`composes`).

    >>> process = AutoRegressive(rho=0.9, sigma=1.0, span=1.0)
    >>> round(process.total_variation(3), 6), round(process.amplify(1.0, 3), 6), process.total_variation(3, "pinsker")
    (0.183547, 0.182867, 0.36450000000000005)
    """

    rho: float
    sigma: float
    span: float
    name: ClassVar[str] = "autoregressive"
    composes: ClassVar[Literal["markov", "autoregressive", "once"]] = "autoregressive"

    def __post_init__(self) -> None:
        if isinstance(self.rho, Sequence | np.ndarray) and not isinstance(self.rho, str):
            raise InvalidInput(
                f"rho must be one number, not {len(self.rho)}: in AR(p) with p ≥ 2 the present value alone does not tell the "
                "future, the state is the last p values: use a Markov chain on states made of them, or AR(1) and its check",
                about="rho",
            )
        rho = -real("-rho", -self.rho) if isinstance(self.rho, float | int) and self.rho < 0 else real("rho", self.rho)
        if abs(rho) >= 1:
            raise InvalidInput(
                f"rho must lie between −1 and 1, or the process is not stationary, not {rho!r}", about="rho"
            )
        object.__setattr__(self, "rho", rho)
        object.__setattr__(self, "sigma", real("sigma", self.sigma, positive=True))
        object.__setattr__(self, "span", real("span", self.span, positive=True))

    # What is known of it --------------------------------------------------------------------------------------------

    @property
    def coarsest(self) -> float:
        """The coarsest resolution of readings with which a loss stays in proportion to how far the state moves, rounded down.

        It is half the spread of a state whose neighbours in time are known, σ/√(1 + ρ²): see `OnASpan`.
        """
        return self.sigma / math.sqrt(1 + self.rho**2) / 2 * (1 - 1e-15)

    def shift(self, t: int) -> float:
        """Return δ: how many standard deviations the laws t steps back are apart, for states that differ by the span."""
        if self.rho == 0:
            return 0.0
        of_rho = math.log(abs(self.rho)) * t
        spread = math.sqrt(math.expm1(2 * of_rho) / math.expm1(2 * math.log(abs(self.rho))))
        return max(math.exp(of_rho) * self.span / (self.sigma * spread) * (1 + 1e-15 * (t + 8)), LEAST_SHIFT)

    def frontier(self, t: int, direction: Direction = "back") -> Frontier:
        """Return corners of a polygon around the Gaussian curve, made of tangents, so that it never under-reports."""
        return frontier_at_zero(t) or _around_the_curve(self.shift(t))

    def contract(self, epsilon: float, t: int, direction: Direction = "back") -> float:
        """Return K_t(ε), by the best threshold.

        The tangent of the curve of (q, p) at a threshold a, p = c + L q, lies above the curve, so K ≤ ln max(1 + (e^ε − 1) c, L)
        for every a. c falls and L rises with a, and where both are equal the bound is attained (ours).
        """
        shift, steep = self.shift(t), min(epsilon, STEEP)
        best = theorem_1(self.total_variation(t), steep)
        if best == 0:
            return 0.0
        low, high = 0.0, min(best / shift, FURTHEST + 3 + shift)
        for _ in range(ROUNDS):
            a = shift / 2 + np.linspace(low, high, THRESHOLDS)
            slopes, heights = shift * (a - shift / 2), np.log1p(math.expm1(steep) * _intercepts(a, shift))
            best = min(best, float(np.maximum(slopes, heights).min()))
            crossing = int(np.searchsorted(slopes >= heights, True).clip(1, THRESHOLDS - 1))
            low, high = (float(a[i] - shift / 2) for i in (crossing - 1, crossing))
        return min(best * (1 + _inexact(shift)) + (epsilon - steep), epsilon)

    def total_variation(self, t: int, method: str = "exact") -> float:
        """Return Δ(t): "exact", 2Φ(δ/2) − 1; or "pinsker", |ρ|^t span / (2σ) (eq. 88; paper)."""
        t = whole("t", t, least=0)
        if method == "exact" and t:
            return min(1.0, math.erf(self.shift(t) / math.sqrt(8)) * ROUND_UP)
        return super().total_variation(t, method)

    def _other_variations(self) -> Mapping[str, Callable[[int], float]]:
        return {"pinsker": lambda t: min(1.0, abs(self.rho) ** t * self.span / (2 * self.sigma)) if t else 1.0}

    def spread(self, t: int) -> float:
        """There is none: D_t is infinite."""
        raise InvalidInput(
            "the ratio of two Gaussian densities has no bound, so against an adversary with any prior no loss fades with age: "
            "use adversary='stationary', or a Markov chain"
        )

    # Gaussian noise -------------------------------------------------------------------------------------------------

    def gaussian_mu(self, times: Any, stds: Any, at: int) -> float:
        """Return μ of the Gaussian differential privacy of X_at, where x plus Gaussian noise was published and nothing clipped.

        μ² = D² cᵀ Σ⁻¹ c, D the span, c_k = ρ^|at − τ_k|, Σ the covariance of the outputs given X_at, for any sequence, exactly
        (T4; ours). Given X_at its past and its future are independent, so μ is found step by step: what is known of x_τ with
        precision J tells about x_{τ+g} with precision ρ^{2g} J / (1 + J σ²(1 − ρ^{2g})/(1 − ρ²)).

        times  data times, whole numbers;  stds  the standard deviation of the noise of each;  at  the step that is asked for

        >>> ar = AutoRegressive(rho=0.9, sigma=1.0, span=1.0)
        >>> round(ar.gaussian_mu(range(1, 1001), [4.0] * 1000, at=1000), 3)
        0.441
        """
        at = whole("at", at)
        moments = [whole(f"data time {i}", t) for i, t in enumerate(times)]
        noise = [real(f"the standard deviation of release {i}", s, positive=True) for i, s in enumerate(stds)]
        if len(moments) != len(noise):
            raise InvalidInput(f"{len(moments)} data times and {len(noise)} standard deviations do not belong together")
        known = sorted(zip(moments, noise, strict=True))
        here = sum(s**-2 for t, s in known if t == at)
        before = self._precision([(at - t, s) for t, s in known if t < at])
        after = self._precision([(t - at, s) for t, s in reversed(known) if t > at])
        return self.span * math.sqrt(here + before + after) * (1 + 1e-15 * (len(known) + 16))

    def _precision(self, releases: list[tuple[int, float]]) -> float:
        """What releases at these distances, from the furthest on, tell about the state at distance 0."""
        precision, place = 0.0, releases[0][0] if releases else 0
        for distance, std in [*releases, (0, math.inf)]:
            kept = self.rho ** (2 * (place - distance))
            precision = kept * precision / (1 + precision * self.sigma**2 * (1 - kept) / (1 - self.rho**2)) + std**-2
            place = distance
        return precision

    # Data -----------------------------------------------------------------------------------------------------------

    def age(self, states: Any, t: int, rng: np.random.Generator) -> NDArray[Any]:
        """Return values t steps older, drawn from N(ρ^t x, σ²(1 − ρ^{2t})/(1 − ρ²)) (Definition 5; paper)."""
        now = np.asarray(states, dtype=np.float64)
        if not np.isfinite(now).all():
            raise InvalidInput("states must be finite numbers: a missing value cannot be aged")
        kept = self.rho ** whole("t", t, least=0)
        result: Floats = kept * now + rng.normal(
            0, self.sigma * math.sqrt((1 - kept**2) / (1 - self.rho**2)), now.shape
        )
        return result

    def sample(self, steps: int, rng: np.random.Generator) -> Floats:
        """Return one person's values at steps 1 … n, the first from the stationary law."""
        from scipy.signal import lfilter

        pushes = rng.normal(0, self.sigma, whole("steps", steps, least=1))
        pushes[0] /= math.sqrt(1 - self.rho**2)
        result: Floats = lfilter([1.0], [1.0, -self.rho], pushes)
        return result

    def parameters(self) -> JsonObject:
        """ρ, σ and the span."""
        return {"rho": self.rho, "sigma": self.sigma, "span": self.span}


def _inexact(shift: float) -> float:
    """How far off, relatively, differences of laws this far apart can be: their digits cancel as they come closer."""
    return max(INEXACT, 2.0**-49 / shift) if shift > ALIKE else INEXACT


def _intercepts(a: Floats, shift: float) -> Floats:
    """p − L q at thresholds a, where q = 1 − Φ(a), p = 1 − Φ(a − δ), L = e^{δa − δ²/2}: p − φ(a − δ) m(a), m = (1 − Φ)/φ.

    m is convex, so for a small δ it is at most δ φ(a − δ) [1 − (a − δ) m(a − δ)].
    """
    from_x = a - shift
    if shift < ALIKE:
        result: Floats = _density(from_x) * shift * (1 - from_x * _mills(from_x))
    else:
        beyond = _density(from_x) * (_mills(np.maximum(from_x, 0.0)) - _mills(a))
        result = np.where(from_x > 0, beyond, 1 - _complement(a, shift))
    return result


def _complement(a: Floats, shift: float) -> Floats:
    """1 − (p − L q), where that is small: a sum, so that no digits are lost."""
    from scipy.special import ndtr

    result: Floats = ndtr(a - shift) + _density(a - shift) * _mills(a)
    return result


def _density(x: Floats) -> Floats:
    with np.errstate(over="ignore"):  # of laws further apart than 10¹⁵⁴ deviations
        result: Floats = np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)
    return result


def _mills(x: Floats) -> Floats:
    from scipy.special import erfcx

    result: Floats = math.sqrt(math.pi / 2) * erfcx(x / math.sqrt(2))
    return result


def _around_the_curve(shift: float) -> Frontier:
    """Where neighbouring tangents cross, from the steepest (at q = 0) to the flattest (d = Δ)."""
    if shift == 0:
        return NOTHING
    a = shift / 2 + np.linspace(min(FURTHEST, STEEP / shift), 0.0, TANGENTS)
    steepness, height = np.expm1(shift * (a - shift / 2)), _intercepts(a, shift)
    rise = np.where(height[1:] < 0.5, np.diff(height), -np.diff(_complement(a, shift)))
    q = rise / -np.diff(steepness)
    d = height[1:] + steepness[1:] * q
    q, d = np.concatenate([[0.0], q]), np.concatenate([[max(height[0], math.ulp(0.0))], d])
    return Frontier(q * (1 - INEXACT), np.maximum.accumulate(d) * (1 + _inexact(shift)))
