"""Post-processing of published values: it costs no privacy, and never looks ahead.

A smoother takes the values of some steps (steps × cells) with the noise scale of each step, and gives both back changed. A
scale of 0 is an exact value. Its state is plain data, so that it is saved with the release and goes on after a restart. What it
gives for a step does not depend on how the steps were cut into blocks.

A step has one scale for all its cells, in whole units; `Facts` says what that is worth in each cell. Where cells come out
differently, the scale that is given back is that of the cell that fared worst: the band of no cell is too narrow.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from halflife.errors import InvalidInput
from halflife.numerics import whole

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Facts:
    """What is publicly known of some steps beside their scales.

    steps   their numbers, which tell how many steps were left out between two values (None: none were)
    worth   what a scale of 1 is worth in each cell, in the unit of the values; one number if all cells agree
    std     the standard deviation of noise of scale 1: √2 for Laplace noise, 1 for Gaussian
    """

    steps: NDArray[np.int64] | None = None
    worth: Floats = field(default_factory=lambda: np.ones(1))
    std: float = math.sqrt(2)


PLAIN = Facts()
"""Laplace noise in the unit of the values, at steps that follow each other."""


class Smoother(Protocol):
    """One step of post-processing."""

    name: ClassVar[str]

    def smooth(self, values: Floats, scales: Floats, facts: Facts = PLAIN) -> tuple[Floats, Floats]:
        """Return the values, and the scale of the noise that is left in them."""
        ...

    def state(self) -> Any:
        """Return what `restore` needs, as JSON can hold it."""
        ...

    def restore(self, state: Any) -> None:
        """Go on from a saved state."""
        ...


def _check(values: Floats, scales: Floats) -> None:
    """Refuse what is no value or no scale."""
    if values.ndim != 2 or scales.shape != values.shape[:1]:
        raise InvalidInput(
            f"post-processing needs steps × cells and a scale for each step, not {values.shape} and {scales.shape}"
        )
    if not np.isfinite(values).all():
        raise InvalidInput("post-processing needs finite values: one is infinite or not a number")
    if not (np.isfinite(scales) & (scales >= 0)).all():
        wrong = scales[~(np.isfinite(scales) & (scales >= 0))][0]
        raise InvalidInput(f"a noise scale is a number from 0 (an exact value) on, not {float(wrong)!r}")


class Truncate:
    """Keep values within public bounds: max(low, min(high, y)). An error never grows.

    >>> Truncate(0.0, 5.0).smooth(np.array([[-1.0], [2.0]]), np.ones(2))[0].tolist()
    [[0.0], [2.0]]
    """

    name: ClassVar[str] = "truncate"

    def __init__(self, low: float, high: float) -> None:
        if not low < high:
            raise InvalidInput(f"truncate needs low below high, not {low!r} and {high!r}")
        self.low, self.high = low, high

    def smooth(self, values: Floats, scales: Floats, facts: Facts = PLAIN) -> tuple[Floats, Floats]:
        """Return the truncated values."""
        _check(values, scales)
        return np.clip(values, self.low, self.high), scales

    def state(self) -> None:
        """Nothing to keep."""

    def restore(self, state: Any) -> None:
        """Nothing to restore."""


class MovingAverage:
    """The mean of the last k values: z_t = (y_{t−k+1} + … + y_t)/k, of fewer at the start.

    Independent noises of scales b_i leave noise with the standard deviation of one of scale √Σb_i² / k. The band of that
    scale is no narrower than the true one: the mean of several Laplace noises has lighter tails than a single one.

    What comes from another smoother is no such noise: truncated errors lean to one side and do not cancel, averages share
    their terms. Then (`independent` is False) the scale is Σb_i / k: it holds though errors add up and never cancel, as
    P(Σ b_i E_i > 3 Σ b_i) ≤ e⁻³ for exponential E_i (the tail grows with the spread of the b_i that far out: Bock, Diaconis,
    Huffer, Perlman 1987).

    With `above` a value is averaged only if its own noise calls for it: z_t = y_t where the scale of step t, in the unit of the
    values, is at most `above`. The paper (Swellfish, VI-A5) decides once for a whole stream, by the mean scale; a week of much
    noise in a stream of little then stays as it is (its footnote 3). Here each step decides for itself (ours). The average
    holds the last k values as they came in, exact ones too. The threshold must be public: one that was fitted on the
    data tells about it.

    Either scale is that of the noise alone: an average also lags behind what changes within k steps.

    >>> MovingAverage(2).smooth(np.array([[2.0], [4.0], [8.0]]), np.array([1.0, 1.0, 1.0]))[0].ravel().tolist()
    [2.0, 3.0, 6.0]
    >>> MovingAverage(2, above=0.5).smooth(np.array([[2.0], [4.0], [8.0]]), np.array([1.0, 0.5, 1.0]))[0].ravel().tolist()
    [2.0, 4.0, 6.0]
    """

    name: ClassVar[str] = "moving_average"
    above: float | None = None
    """Kept with the class if there is none: a ledger compares what an instance has, and old ones know of no threshold."""

    def __init__(self, width: int, independent: bool = True, above: float | None = None) -> None:
        if above is not None:
            if not 0 <= above < math.inf:
                raise InvalidInput(f"above needs a noise scale from 0 on, not {above!r}")
            self.above = above
        self.independent = independent
        self.width = whole("moving_average", width, least=2)
        self._values: Floats | None = None
        self._scales: Floats = np.zeros(0)

    def smooth(self, values: Floats, scales: Floats, facts: Facts = PLAIN) -> tuple[Floats, Floats]:
        """Return the averages, or each value itself where its scale does not exceed the threshold."""
        _check(values, scales)
        averages, left = self._averages(values, scales)
        if self.above is None:
            return averages, left
        high = scales[:, None] * facts.worth > self.above
        worst = np.maximum(np.where(high.any(axis=1), left, 0.0), np.where(high.all(axis=1), 0.0, scales))
        return np.where(high, averages, values), worst

    def _averages(self, values: Floats, scales: Floats) -> tuple[Floats, Floats]:
        """The averages of these steps and those before; terms are added oldest first, whatever the blocks."""
        before = self._values if self._values is not None else np.zeros((0, values.shape[1]))
        all_values, all_scales = np.concatenate([before, values]), np.concatenate([self._scales, scales])
        steps, past = len(values), len(before)
        all_spreads = all_scales**2 if self.independent else all_scales
        sums, spreads, count = np.zeros_like(values), np.zeros(steps), np.zeros(steps)
        for back in range(min(self.width, past + steps) - 1, -1, -1):
            start = max(0, back - past)  # the first of these steps that has a value so far back
            sums[start:] += all_values[past + start - back : past + steps - back]
            spreads[start:] += all_spreads[past + start - back : past + steps - back]
            count[start:] += 1
        self._values, self._scales = all_values[-(self.width - 1) :], all_scales[-(self.width - 1) :]
        return sums / count[:, None], (np.sqrt(spreads) if self.independent else spreads) / count

    def state(self) -> Any:
        """Return the last k − 1 values and scales."""
        return None if self._values is None or not len(self._values) else [self._values.tolist(), self._scales.tolist()]

    def restore(self, state: Any) -> None:
        """Go on from there."""
        if state is None:
            self._values, self._scales = None, np.zeros(0)
        else:
            self._values, self._scales = np.array(state[0], dtype=np.float64), np.array(state[1], dtype=np.float64)


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
        _check(values, scales)
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
        """Take in one step's values, with noise of standard deviation r, after a drift of standard deviation `moved`."""
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

    def state(self) -> Any:
        """Return the estimate, its deviations and the step."""
        if self._level is None:
            return None
        return [*(x.tolist() for x in (self._level, self._error, self._noise, self._moved)), self._step]

    def restore(self, state: Any) -> None:
        """Go on from there."""
        if state is None:
            self._level, self._step = None, 0
        else:
            self._level, self._error, self._noise, self._moved = (np.array(x, dtype=np.float64) for x in state[:4])
            self._step = int(state[4])
