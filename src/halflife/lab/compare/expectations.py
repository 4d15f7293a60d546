"""Closed forms beside simulations: what is known of the noise of a schedule, and the mean absolute error that it must have.

A contestant whose losses are fixed beforehand outputs, at step t, the value of step s(t) ≤ t with noise of a known scale. With
d = x_s − x_t, b the scale of Laplace and σ that of Gaussian noise (known; all by integration):

    E|d + Laplace(b)| = |d| + b·exp(−|d|/b)
    E|d + N(0, σ²)|   = σ√(2/π)·exp(−d²/2σ²) + |d|·erf(|d|/(σ√2))
    E|Laplace(a) + Laplace(b)| = (a² + ab + b²)/(a + b)

Adaptive mechanisms have none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from halflife.errors import InvalidInput
from halflife.numerics.arrays import Floats, Integers
from halflife.numerics.noise_sums import GAUSSIAN_BAND, LAPLACE_BAND, band_of_noises
from halflife.plans import Plan
from halflife.plans.almost_periodic import PeriodicPlan
from halflife.release import Noise


@dataclass(frozen=True, eq=False)
class Schedule:
    """The noise of a contestant whose losses are fixed beforehand.

    about    of each step, from 0, the step whose value it outputs
    scales   of each step's noise, by layer: one, or reused and fresh noise
    shared   the name of the noise that a step shares with others, None if all of it is drawn anew
    """

    about: Integers
    scales: tuple[Floats, ...]
    noise: Noise = "laplace"
    shared: tuple[str, ...] | None = None

    @property
    def fresh(self) -> bool:
        """Whether every step has noise of its own, so that noises are independent."""
        return self.shared is None and self.current

    @property
    def current(self) -> bool:
        """Whether every step outputs its own value."""
        return bool((self.about == np.arange(len(self.about))).all())

    @property
    def bands(self) -> Floats | None:
        """The half-widths of the bands that hold 95 % of each step's noise; None where a step outputs another's value."""
        if not self.current:
            return None
        unit = LAPLACE_BAND if self.noise == "laplace" else GAUSSIAN_BAND
        if len(self.scales) == 1:
            return unit * self.scales[0]
        return np.full(len(self.about), band_of_noises(np.array([layer[0] for layer in self.scales])))


def hold(steps: int, every: int, scale: Floats, noise: Noise = "laplace") -> Schedule:
    """Return the schedule of a value that is published every so many steps, and held between; `scale` of each release."""
    about = np.arange(steps) // every * every
    return Schedule(about, (scale[about // every],), noise)


def schedule_of_plan(plan: Plan, steps: int) -> Schedule:
    """Return the noise of a plan's first steps, fresh or reused."""
    every = plan.request.every
    scales = plan.scales(steps)[::every]
    if not np.isfinite(scales).all():
        raise InvalidInput("a plan that publishes nothing, or exact values, at some steps has no error to compare")
    made = hold(steps, every, scales, plan.noise)
    if not isinstance(plan, PeriodicPlan):
        return made
    names = tuple(plan.draw_name(int(k) + 1, plan.phase(int(k) + 1)) for k in made.about)
    reused = np.array([plan.pattern_scale(1)])[np.zeros(steps, dtype=np.int64)]
    return Schedule(made.about, (reused, *made.scales) if plan.strong else (reused,), plan.noise, names)


def expected_error(schedule: Schedule, truth: Floats) -> float | None:
    """Return the mean over steps of the expected |error|; None where held values have noise of two layers.

    >>> round(expected_error(hold(3, 3, np.array([2.0])), np.array([5.0, 5.0, 5.0 + 1e9])) / 1e9, 6)
    0.333333
    >>> expected_error(hold(2, 1, np.array([2.0, 4.0])), np.zeros(2))
    3.0
    """
    off = np.abs(truth[schedule.about] - truth)
    if len(schedule.scales) == 2:
        a, b = schedule.scales
        return None if off.any() else float(((a * a + a * b + b * b) / (a + b)).mean())
    (scale,) = schedule.scales
    if schedule.noise == "laplace":
        return float((off + scale * np.exp(-off / scale)).mean())
    from scipy.special import erf

    spread = scale * math.sqrt(2 / math.pi) * np.exp(-0.5 * (off / scale) ** 2)
    return float((spread + off * erf(off / (scale * math.sqrt(2)))).mean())
