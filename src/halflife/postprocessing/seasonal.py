"""Seasonal estimates: level, day and week of a published series."""

from __future__ import annotations

from typing import ClassVar

from halflife.postprocessing.structural.estimator import Structural
from halflife.postprocessing.structural.harmonics import Harmonics


class Seasonal(Structural):
    """The best running estimate of a series with a level, a day and a week (a year, where steps are days), known noise given.

    A state-space model: a level that drifts, waves of day and week whose sizes drift, and an irregular part that fades (see
    `structural/`). Noise is known to the step; how fast things drift is fitted by likelihood on published values alone, after a
    week, two, four, eight, and every eight weeks from then on. Models without seasons count as far as they are likely. `revise`
    gives the estimates with hindsight. With `parameters`, public ones by name, and the public `amplitude`, nothing is fitted.

    >>> import numpy as np
    >>> truth = 10 + 3 * np.sin(2 * np.pi * np.arange(300) / 4)[:, None]
    >>> noisy = truth + np.random.default_rng(1).laplace(0, 2.0, truth.shape)
    >>> values, scales = Seasonal(4, {"level": 0.02}, amplitude=2.0).smooth(noisy, np.full(300, 2.0))
    >>> bool(np.abs(values - truth)[100:].mean() < 0.5 * np.abs(noisy - truth)[100:].mean())
    True
    """

    name: ClassVar[str] = "seasonal"

    @staticmethod
    def make_models(steps_per_day: float) -> list[Harmonics]:
        """Return the model with seasons, the one without, and a level that drifts."""
        return [
            Harmonics(steps_per_day),
            Harmonics(steps_per_day, seasons=False),
            Harmonics(steps_per_day, seasons=False, irregular=False),
        ]
