"""The mean of the last k published values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np

from halflife.errors import InvalidInput
from halflife.numerics.arrays import Floats
from halflife.numerics.forms import JsonObject, leave_out, read_form
from halflife.numerics.parameters import whole
from halflife.postprocessing.base import PLAIN, Facts, check_values


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

    def __init__(self, width: int, independent: bool = True, above: float | None = None) -> None:
        if above is not None and not 0 <= above < math.inf:
            raise InvalidInput(f"above needs a noise scale from 0 on, not {above!r}")
        self.above, self.independent = above, independent
        self.width = whole("moving_average", width, least=2)
        self._values: Floats | None = None
        self._scales: Floats = np.zeros(0)

    def smooth(self, values: Floats, scales: Floats, facts: Facts = PLAIN) -> tuple[Floats, Floats]:
        """Return the averages, or each value itself where its scale does not exceed the threshold."""
        check_values(values, scales)
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

    def to_facts(self) -> JsonObject:
        """Return the width, the threshold, and whether noises are independent."""
        facts = {"name": self.name, "width": self.width, "independent": self.independent, "above": self.above}
        return leave_out(facts, independent=True, above=None)

    @classmethod
    def from_facts(cls, facts: Mapping[str, object]) -> Self:
        """Read what `to_facts` gave."""
        form = read_form("moving_average", facts, ("name", "width"), independent=True, above=None)
        return cls(form["width"], form["independent"], form["above"])

    def state(self) -> Any:
        """Return the last k − 1 values and scales."""
        if self._values is None or not len(self._values):
            return None
        return {"values": self._values.tolist(), "scales": self._scales.tolist()}

    def restore(self, state: object) -> None:
        """Restore the state that `state` gave."""
        if state is None:
            self._values, self._scales = None, np.zeros(0)
        else:
            form = read_form("the state of a moving average", state, ("values", "scales"))
            self._values, self._scales = (np.array(form[key], dtype=np.float64) for key in ("values", "scales"))
