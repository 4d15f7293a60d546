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

    Where steps are passed over, the next that comes w steps or more after the newest release is published (ours).

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
    source: ClassVar[str] = "Kellaris, Papadopoulos, Xiao, Papadias: PVLDB 7(12), 2014"
    rule: ClassVar[str] = "publishes one step of every window"
    adaptive: ClassVar[bool] = False

    def find_parts(self) -> float:
        """All of it at once."""
        return 1.0

    def begin(self, shape: tuple[int, ...]) -> Lanes:
        """The step of the newest release."""
        return {"at": np.zeros(shape)}

    def decide(self, lanes: Lanes, truth: Floats, draw: Draw, first: bool) -> Floats:
        """ε where the newest release is w steps old."""
        due = np.full(self.find_lanes(truth), first) | (self._step - lanes["at"] >= self.notion.w)
        lanes["at"] = np.where(due, self._step, lanes["at"])
        return np.where(due, self.budget, 0.0)
