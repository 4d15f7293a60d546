"""A Kalman filter for a value that drifts, whose drift is fitted by likelihood."""

from __future__ import annotations

from typing import ClassVar

from halflife.postprocessing.structural.estimator import Structural
from halflife.postprocessing.structural.harmonics import Harmonics


class LocalLevel(Structural):
    """The best running estimate of a value that drifts, x_t = x_{t−1} + q·η_t, with q fitted on published values alone.

    The filter of `Kalman` (known: Kalman 1960), whose drift must be declared; here it is fitted, again at public times, and
    so is a level with an irregular part that fades. Both are used, each as far as it is likely. In a policy: `kalman: fitted`.

    >>> import numpy as np
    >>> truth = np.cumsum(np.random.default_rng(1).normal(0, 0.1, (500, 1)), axis=0)
    >>> noisy = truth + np.random.default_rng(2).laplace(0, 1.0, truth.shape)
    >>> values, scales = LocalLevel(24).smooth(noisy, np.ones(500))
    >>> bool(np.abs(values - truth)[200:].mean() < 0.5 * np.abs(noisy - truth)[200:].mean())
    True
    """

    name: ClassVar[str] = "local_level"

    @staticmethod
    def make_models(steps_per_day: float) -> list[Harmonics]:
        """Return the level by itself, and with an irregular part."""
        return [Harmonics(steps_per_day, seasons=False, irregular=False), Harmonics(steps_per_day, seasons=False)]
