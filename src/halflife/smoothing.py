"""Post-processing of published values: it costs no privacy, and never looks ahead.

A smoother takes the values of some steps (steps × cells) with the noise scale of each step, and gives both back changed. Its
state is plain data, so that it is saved with the release and goes on after a restart. What it gives for a step does not
depend on how the steps were cut into blocks.
"""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from halflife.errors import InvalidInput
from halflife.numerics import whole

Floats = NDArray[np.float64]


class Smoother(Protocol):
    """One step of post-processing."""

    name: ClassVar[str]

    def smooth(self, values: Floats, scales: Floats) -> tuple[Floats, Floats]:
        """Return the values, and the scale of the noise that is left in them."""
        ...

    def state(self) -> Any:
        """Return what `restore` needs, as JSON can hold it."""
        ...

    def restore(self, state: Any) -> None:
        """Go on from a saved state."""
        ...


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

    def smooth(self, values: Floats, scales: Floats) -> tuple[Floats, Floats]:
        """Return the truncated values."""
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

    >>> MovingAverage(2).smooth(np.array([[2.0], [4.0], [8.0]]), np.array([1.0, 1.0, 1.0]))[0].ravel().tolist()
    [2.0, 3.0, 6.0]
    """

    name: ClassVar[str] = "moving_average"

    def __init__(self, width: int, independent: bool = True) -> None:
        self.independent = independent
        self.width = whole("moving_average", width, least=2)
        self._values: Floats | None = None
        self._scales: Floats = np.zeros(0)

    def smooth(self, values: Floats, scales: Floats) -> tuple[Floats, Floats]:
        """Return the averages of these steps and those before; terms are added oldest first, whatever the blocks."""
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
