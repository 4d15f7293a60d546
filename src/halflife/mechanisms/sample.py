"""Sample: a rival that publishes every w-th step with all of the budget."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from halflife.mechanisms.base import Draw
from halflife.mechanisms.held import HeldOutput, Lanes
from halflife.numerics.arrays import Floats
from halflife.registry import register_mechanism


@register_mechanism
class Sample(HeldOutput):
    """Sample (Kellaris, Papadopoulos, Xiao, Papadias: PVLDB 7(12), 2014; paper): steps 1, w + 1, 2w + 1, … with Laplace(Δ/ε).

    Any w steps hold one release of loss ε. Every w − 1 steps instead, as in one published program, some window holds two: 2ε.

    >>> from halflife import WEvent
    >>> from halflife.mechanisms.lane_draw import LaneDraw
    >>> notion = WEvent(1.0, w=3)
    >>> sample, draw = Sample(notion), LaneDraw(notion, seed=1, lanes=2)
    >>> outputs = [draw.run(sample, step, np.full(2, 7.0)) for step in range(1, 7)]
    >>> bool((outputs[0] == outputs[2]).all()), bool((outputs[2] == outputs[3]).any())
    (True, False)
    """

    name: ClassVar[str] = "sample"
    adaptive: ClassVar[bool] = False

    def begin(self, shape: tuple[int, ...]) -> Lanes:
        """Nothing but the last output is remembered."""
        return {}

    def decide(self, lanes: Lanes, truth: Floats, draw: Draw, first: bool) -> Floats:
        """ε at every w-th step."""
        return np.full(truth.shape, self.notion.epsilon if (self._step - 1) % self.notion.w == 0 else 0.0)
