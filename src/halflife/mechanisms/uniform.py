"""Uniform: a rival that gives every step the same part of the window's budget."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from halflife.mechanisms.base import Draw
from halflife.mechanisms.held import HeldOutput, Lanes
from halflife.numerics.arrays import Floats
from halflife.registry import register_mechanism


@register_mechanism
class Uniform(HeldOutput):
    """Uniform (Kellaris, Papadopoulos, Xiao, Papadias: PVLDB 7(12), 2014; paper): x_t + Laplace(wΔ/ε) at every step.

    It is what `WEvent.plan()` does, as a rival beside the others.

    >>> from halflife import WEvent
    >>> from halflife.mechanisms.lane_draw import LaneDraw
    >>> notion = WEvent(1.0, w=10)
    >>> uniform, draw = Uniform(notion), LaneDraw(notion, seed=1, lanes=5000)
    >>> round(float(np.abs(draw.run(uniform, 1, np.zeros(5000))).mean()))
    10
    """

    name: ClassVar[str] = "uniform"
    adaptive: ClassVar[bool] = False

    def begin(self, shape: tuple[int, ...]) -> Lanes:
        """Nothing is remembered."""
        return {}

    def decide(self, lanes: Lanes, truth: Floats, draw: Draw, first: bool) -> Floats:
        """ε/w at every step."""
        return np.full(truth.shape, self.notion.epsilon / self.notion.w)
