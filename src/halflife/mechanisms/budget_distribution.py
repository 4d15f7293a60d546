"""Budget Distribution (BD): a rival that publishes where values have moved, with half of what is left of the window."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from halflife.errors import InvalidInput
from halflife.mechanisms.base import Draw, Mechanism
from halflife.mechanisms.held import HeldOutput, Lanes, find_window
from halflife.numerics.arrays import Floats
from halflife.numerics.rounding import divide_down
from halflife.plans import Plan
from halflife.registry import register_mechanism
from halflife.steps import Steps

LONGEST = 1_000_000
"""Steps of a window at the most, in a policy: what each of them has cost is kept with every step that is published."""


@register_mechanism
class BudgetDistribution(HeldOutput):
    """BD (Kellaris, Papadopoulos, Xiao, Papadias: PVLDB 7(12), 2014, Algorithm 1; paper).

        dis = (Σ_i |x_{t,i} − last output_i| + Laplace(2wΔ/ε))/d         for d numbers a step; it costs ε/2w
        ε_t = (ε/2 − Σ_{t−w<k<t} ε_k)/2;   publish x_t + Laplace(Δ/ε_t) if dis > Δ/ε_t, else the last output again

    The first step is published with ε/4, without asking. In any window the first part costs at most ε/2, and so does the
    second, as each takes half of what is left: ε in all. Pure losses may be chosen from what was paid for.

    >>> from halflife import WEvent
    >>> from halflife.mechanisms.lane_draw import LaneDraw
    >>> notion = WEvent(1.0, w=10)
    >>> bd, draw = BudgetDistribution(notion), LaneDraw(notion, seed=1, lanes=2)
    >>> outputs = np.array([draw.run(bd, step, np.full(2, 1e6 * (step > 20))) for step in range(1, 41)])
    >>> bool((outputs[19] < 1e3).all()), bool((outputs[21] > 9e5).all())
    (True, True)
    """

    name: ClassVar[str] = "bd"
    source: ClassVar[str] = "Kellaris, Papadopoulos, Xiao, Papadias: PVLDB 7(12), 2014, Algorithm 1"
    rule: ClassVar[str] = (
        "publishes where values have moved by more than its noise, with half of what is left of the window"
    )
    most_share: ClassVar[float] = 0.25

    @classmethod
    def for_stream(cls, plan: Plan, *, name: str, steps: Steps, begin: int, cells: int, touched: int) -> Mechanism:
        """Return the mechanism of a policy's stream; refuse also a window that is too long to be kept step by step."""
        window = find_window(plan, cls.name)
        if window.w > LONGEST:
            raise InvalidInput(
                f"{cls.name} keeps what each step of a window has cost, and a window has {window.w:,} steps of the stream: "
                f"the most is {LONGEST:,}; take ba, which keeps two numbers, or a shorter window"
            )
        return super().for_stream(plan, name=name, steps=steps, begin=begin, cells=cells, touched=touched)

    def begin(self, shape: tuple[int, ...]) -> Lanes:
        """What outputs of the last w steps have cost, by step modulo w."""
        return {"spent": np.zeros((self.notion.w, *shape))}

    def decide(self, lanes: Lanes, truth: Floats, draw: Draw, first: bool) -> Floats:
        """Half of what is left of ε/2, where the noisy distance is larger than the noise that it would have."""
        epsilon, w, shape = self.budget, self.notion.w, self.find_lanes(truth)
        loss = np.full(shape, epsilon / 4)
        if not first:
            asked = np.full(shape, divide_down(epsilon, 2.0 * w))
            distance = self.measure_distance(lanes, truth, asked, draw)
            half = np.maximum(0.0, epsilon / 2 - lanes["spent"].sum(axis=0)) / 2
            loss = np.where(self.moved_far(distance, half), half, 0.0)
        lanes["spent"][self._step % w] = loss
        return loss
