"""Budget Absorption (BA): a rival that publishes where values have moved, with the budgets of steps that it skipped before."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from halflife.mechanisms.base import Draw
from halflife.mechanisms.held import HeldOutput, Lanes
from halflife.numerics.arrays import Floats
from halflife.numerics.rounding import divide_down
from halflife.registry import register_mechanism


@register_mechanism
class BudgetAbsorption(HeldOutput):
    """BA (Kellaris, Papadopoulos, Xiao, Papadias: PVLDB 7(12), 2014, Algorithm 2; paper).

    Every step has ε/2w for its output. A release at step l that paid with n of them is followed by n − 1 steps that publish
    nothing. After these, at step t,

        ε_t = (ε/2w) · min(t − l − (n − 1), w);   publish if (Σ_i |x_{t,i} − last output_i| + Laplace(2wΔ/ε))/d > Δ/ε_t

    for d numbers a step. The question costs ε/2w a step, and is not asked in steps that publish nothing anyway (as the benchmark
    of Schäler et al. has it; the paper asks always). The first step is published with ε/2w, without asking. In any
    window outputs cost ε/2 at the most: what a release absorbs is taken from before it, or given up after it.

    >>> from halflife import WEvent
    >>> from halflife.mechanisms.lane_draw import LaneDraw
    >>> notion = WEvent(1.0, w=10)
    >>> ba, draw = BudgetAbsorption(notion), LaneDraw(notion, seed=1, lanes=2)
    >>> outputs = np.array([draw.run(ba, step, np.full(2, 1e6 * (step > 20))) for step in range(1, 41)])
    >>> bool((outputs[19] < 1e3).all()), bool((outputs[21] > 9e5).all())
    (True, True)
    """

    name: ClassVar[str] = "ba"
    source: ClassVar[str] = "Kellaris, Papadopoulos, Xiao, Papadias: PVLDB 7(12), 2014, Algorithm 2"
    rule: ClassVar[str] = (
        "publishes where values have moved by more than its noise, with the budgets of steps that it skipped"
    )
    most_share: ClassVar[float] = 0.5

    def begin(self, shape: tuple[int, ...]) -> Lanes:
        """The step of the newest release, and how many budgets it paid with."""
        return {"at": np.zeros(shape), "paid": np.ones(shape)}

    def decide(self, lanes: Lanes, truth: Floats, draw: Draw, first: bool) -> Floats:
        """The budgets since the newest release, where the noisy distance is larger than the noise that it would have."""
        w, shape = self.notion.w, self.find_lanes(truth)
        one, absorbed = divide_down(self.budget, 2.0 * w), np.ones(shape)
        if not first:
            absorbed = np.clip(self._step - lanes["at"] - (lanes["paid"] - 1), 0, w)
            asked = np.where(absorbed > 0, one, 0.0)
            distance = self.measure_distance(lanes, truth, asked, draw) if np.any(asked) else asked
            absorbed = np.where(self.moved_far(distance, absorbed * one), absorbed, 0.0)
        lanes["at"] = np.where(absorbed > 0, self._step, lanes["at"])
        lanes["paid"] = np.where(absorbed > 0, absorbed, lanes["paid"])
        return np.asarray(absorbed * one)
