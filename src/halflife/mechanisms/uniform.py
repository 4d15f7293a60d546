"""Uniform: a rival that gives every step the same part of the window's budget."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from halflife.errors import InvalidInput
from halflife.mechanisms.base import Draw
from halflife.mechanisms.held import HeldOutput, Lanes
from halflife.mechanisms.planned import PlannedNoise
from halflife.notions import Classical, WEvent
from halflife.numerics.arrays import Floats
from halflife.numerics.rounding import divide_down
from halflife.plans import Plan
from halflife.registry import register_mechanism
from halflife.steps import Steps


@register_mechanism
class Uniform(HeldOutput):
    """Uniform (Kellaris, Papadopoulos, Xiao, Papadias: PVLDB 7(12), 2014; paper): x_t + Laplace(wΔ/ε) at every step.

    It is what `WEvent.plan()` does, as a rival beside the others; in a policy it is planned noise by that plan.

    >>> from halflife import WEvent
    >>> from halflife.mechanisms.lane_draw import LaneDraw
    >>> notion = WEvent(1.0, w=10)
    >>> uniform, draw = Uniform(notion), LaneDraw(notion, seed=1, lanes=5000)
    >>> round(float(np.abs(draw.run(uniform, 1, np.zeros(5000))).mean()))
    10
    """

    name: ClassVar[str] = "uniform"
    source: ClassVar[str] = "Kellaris, Papadopoulos, Xiao, Papadias: PVLDB 7(12), 2014"
    rule: ClassVar[str] = "publishes every step with the same noise"
    adaptive: ClassVar[bool] = False
    repeats: ClassVar[bool] = False

    @classmethod
    def for_stream(cls, plan: Plan, *, name: str, steps: Steps, begin: int, cells: int, touched: int) -> PlannedNoise:
        """Return planned noise: under w-event privacy, and classical privacy with an end, plans give all steps the same loss."""
        equal = isinstance(plan.notion, WEvent) or (isinstance(plan.notion, Classical) and plan.request.releases)
        if not equal:
            raise InvalidInput(
                "uniform gives every step the same part of a window's budget: promise w-event privacy, or classical privacy for "
                f"a stream with an end, not {plan.notion.name} for ever"
            )
        return PlannedNoise.for_stream(plan, name=name, steps=steps, begin=begin, cells=cells, touched=touched)

    def begin(self, shape: tuple[int, ...]) -> Lanes:
        """Nothing is remembered."""
        return {}

    def decide(self, lanes: Lanes, truth: Floats, draw: Draw, first: bool) -> Floats:
        """ε/w at every step."""
        return np.full(self.find_lanes(truth), divide_down(self.notion.epsilon, float(self.notion.w)))
