"""A Kalman filter for a value that drifts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np

from halflife.errors import InvalidInput
from halflife.numerics.arrays import Floats
from halflife.numerics.forms import JsonObject, leave_out, read_form
from halflife.postprocessing.base import PLAIN, Facts, check_values


class Kalman:
    """The best running estimate of a value that drifts, if noise scales are known (known: Kalman 1960).

    Local level: x_t = x_{t−1} + q·η_t, y_t = x_t + noise of standard deviation r_t, with q the `drift`, in the unit of the values
    and for one step of the stream: public knowledge, never fitted on the data. With p² the variance of the estimate,

        p² ← p² + n·q² for n steps on,   K = p²/(p² + r²),   x ← x + K(y − x),   p² ← p²r²/(p² + r²).

    It begins with the first value, and an exact value (r = 0) sets it anew. It is a filter: nothing is changed afterwards.

    The scale that is left is that of noise of standard deviation p. **This is a claim of the model**: it counts the drift as
    well as the noise, and p² is the mean square error if changes from step to step have mean 0 and standard deviation q and are
    not correlated, whatever their distribution. Larger changes, or many in one direction, make true errors larger: a
    value that climbs by c at every step is followed c(1 − K)/K behind. Where that matters declare a larger drift: p grows
    with q, so one that is too large is safe, and at q → ∞ values and scales stay as they were. Laplace noise keeps its own
    band for the mix of noises that is left, which is wider than that of Gaussian error with the same p.

    What comes from another smoother is no independent noise (see `MovingAverage`). Then (`independent` is False) K is the same,
    and the scale is a + d: a ← (1 − K)a + K·r adds up errors that never cancel, d² ← (1 − K)²(d² + n·q²) is the drift's part.

    >>> values, scales = Kalman(1.0).smooth(np.array([[0.0], [3.0], [9.0]]), np.array([1.0, 1.0, 0.0]))
    >>> values.ravel().round(3).tolist(), scales.round(3).tolist()
    ([0.0, 1.8, 9.0], [1.0, 0.775, 0.0])
    """

    name: ClassVar[str] = "kalman"

    def __init__(self, drift: float, independent: bool = True) -> None:
        if not 0 < drift < math.inf:
            raise InvalidInput(
                f"kalman needs how far the value drifts in one step (a standard deviation above 0), not {drift!r}"
            )
        self.drift, self.independent = drift, independent
        self._level: Floats | None = None
        self._error = self._noise = self._moved = np.zeros(0)
        self._step = 0

    def smooth(self, values: Floats, scales: Floats, facts: Facts = PLAIN) -> tuple[Floats, Floats]:
        """Return the estimates. All deviations are kept in whole units, cell by cell."""
        check_values(values, scales)
        if self._level is not None and len(self._level) != values.shape[1]:
            raise InvalidInput(f"{values.shape[1]} cells cannot follow {len(self._level)}: a stream keeps its cells")
        steps = np.arange(self._step + 1, self._step + 1 + len(values)) if facts.steps is None else facts.steps
        estimates, left = np.empty_like(values), np.empty(len(values))
        for k, (step, r) in enumerate(zip(steps.tolist(), (scales * facts.std).tolist(), strict=True)):
            gap = 1 if self._level is None else step - self._step
            if gap < 1:
                raise InvalidInput(f"step {step} cannot follow step {self._step}: a filter needs steps in order")
            estimates[k] = self._meet(values[k], r, math.sqrt(gap) * self.drift / facts.worth)
            worst = self._error if self.independent else self._noise + self._moved
            self._step, left[k] = step, worst.max(initial=0.0) / facts.std
        return estimates, left

    def _meet(self, y: Floats, r: float, moved: Floats) -> Floats:
        """Update the filter with a step's values, noise of standard deviation r, after a drift of standard deviation `moved`."""
        if self._level is None or r == 0.0:
            self._level = y.copy()
            self._error, self._noise, self._moved = np.full(len(y), r), np.full(len(y), r), np.zeros(len(y))
            return self._level
        p = np.hypot(self._error, moved)
        both = np.hypot(p, r)
        gain, rest = (p / both) ** 2, (r / both) ** 2
        self._level = self._level + gain * (y - self._level)
        self._error = p * (r / both)
        self._noise = rest * self._noise + gain * r
        self._moved = rest * np.hypot(self._moved, moved)
        return self._level

    def to_facts(self) -> JsonObject:
        """Return the drift, and whether noises are independent."""
        return leave_out({"name": self.name, "drift": self.drift, "independent": self.independent}, independent=True)

    @classmethod
    def from_facts(cls, facts: Mapping[str, object]) -> Self:
        """Read what `to_facts` gave."""
        form = read_form("kalman", facts, ("name", "drift"), independent=True)
        return cls(form["drift"], form["independent"])

    def state(self) -> Any:
        """Return the estimate, its deviations and the step."""
        if self._level is None:
            return None
        return {
            "level": self._level.tolist(),
            "error": self._error.tolist(),
            "noise": self._noise.tolist(),
            "moved": self._moved.tolist(),
            "step": self._step,
        }

    def restore(self, state: object) -> None:
        """Restore the state that `state` gave."""
        if state is None:
            self._level, self._step = None, 0
        else:
            form = read_form("the state of a Kalman filter", state, ("level", "error", "noise", "moved", "step"))
            self._level, self._error, self._noise, self._moved = (
                np.array(form[key], dtype=np.float64) for key in ("level", "error", "noise", "moved")
            )
            self._step = int(form["step"])
