"""PeGaSus: a rival that groups steps which look alike, and publishes the median of a group's noisy values."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np

from halflife.errors import InvalidInput
from halflife.mechanisms.base import Draw
from halflife.mechanisms.held import HeldOutput, Lanes
from halflife.numerics.arrays import Floats
from halflife.plans import Plan
from halflife.registry import register_mechanism
from halflife.steps import Steps

VALUES = 0.8
"""The part of ε for values; the rest is for groups."""
START, THRESHOLD, QUESTION = 5.0, 4.0, 8.0
"""θ, and the scales of a threshold's and of a question's noise, in units of Δ/ε_g."""
LONGEST = 256
"""A group of so many steps is closed: so much is remembered at the most (ours)."""


@register_mechanism
class Pegasus(HeldOutput):
    """PeGaSus for one number a step (Chen, Machanavajjhala, Hay, Miklau: CCS 2017; with absolute values, as Schäler, Hütter,
    Schäler have it: PVLDB 16(8), 2023; its proof: ours).

    Every step has a noisy value y_t = x_t + Laplace(Δ/ε_v), ε_v = 0.8 ε/w, and the output is the median of y over the newest
    group of consecutive steps. The first step of a group draws its threshold, θ = 5Δ/ε_g, ε_g = 0.2 ε/w. Each later one, t,

        joins if  |D_t + Laplace(8Δ/ε_g)| < |θ + Laplace(4Δ/ε_g)|,     D_t = Σ |x_i − mean| over the group and t

    or else is alone, the group is closed, and the next step begins another one. A group of 256 steps is closed too.

    **w-event ε.** D_t moves by less than 2Δ if one reading of the group moves by Δ (its own distance by 1 − 1/n, those of the
    n − 1 others by 1/n each). So all answers of one group together lose ε_g at most (R1), and it is attained. A reading is in
    one group's questions alone, as a step that does not join begins no group. It costs ε_v + ε_g = ε/w, and so does each of w
    readings that are changed one by one: ε. That is what every step is charged. The noise of groups is drawn with a sensitivity
    of 4Δ (threshold) or 8Δ (question), so that its loss is ε_g.

    What it remembers holds *exact values* of the open group: `state()` is as private as the readings are.

    >>> from halflife import WEvent
    >>> from halflife.mechanisms.lane_draw import LaneDraw
    >>> notion = WEvent(1.0, w=10)
    >>> pegasus, draw = Pegasus(notion), LaneDraw(notion, seed=1, lanes=50)
    >>> off = [np.abs(draw.run(pegasus, step, np.full(50, 1000.0)) - 1000).mean() for step in range(1, 201)]
    >>> bool(np.mean(off) < 0.9 * 10 / 0.8)
    True
    """

    name: ClassVar[str] = "pegasus"
    adaptive: ClassVar[bool] = False

    @classmethod
    def for_stream(cls, plan: Plan, *, name: str, steps: Steps, begin: int, cells: int, touched: int) -> Self:
        """Refuse: what it remembers are exact values of readings, which a ledger must not hold."""
        raise InvalidInput(
            f"{cls.name} remembers exact values from step to step, and a ledger holds noisy values alone: it is there to compare "
            "with, in the lab and in Python; a policy's stream is published by its plan"
        )

    def begin(self, shape: tuple[int, ...]) -> Lanes:
        """Exact and noisy values of the newest steps, how many are in the group, its threshold, and whether it is closed."""
        return {
            "exact": np.zeros((LONGEST, *shape)), "noisy": np.zeros((LONGEST, *shape)), "size": np.zeros(shape),
            "threshold": np.zeros(shape), "closed": np.ones(shape),
        }  # fmt: skip

    def step(self, step: int, truth: Any, draw: Draw) -> Any:
        """Return the median of the noisy values of the group that this step is in."""
        value = np.asarray(truth, dtype=np.float64)
        lanes = self._move_to(step, value.shape)
        noisy = self.round_noisy(self.add_noise(value, self.decide(lanes, value, draw, False), draw))
        for kept, new in (("exact", value), ("noisy", noisy)):
            lanes[kept] = np.concatenate([lanes[kept][1:], new[None]])
        self._group(lanes, draw)
        lanes["last"] = self.round_noisy(np.asarray(np.nanmedian(_select(lanes["noisy"], lanes["size"]), axis=0)))
        return lanes["last"].copy() if value.ndim else float(lanes["last"])

    def decide(self, lanes: Lanes, truth: Floats, draw: Draw, first: bool) -> Floats:
        """0.8 ε/w for the value of every step."""
        return np.full(truth.shape, VALUES * self.notion.epsilon / self.notion.w)

    def _group(self, lanes: Lanes, draw: Draw) -> None:
        """Begin a group, or ask whether this step joins the open one: by what was paid for alone."""
        closed, joined = lanes["closed"] > 0, lanes["size"] + 1
        loss = (1 - VALUES) * self.notion.epsilon / self.notion.w
        start = np.full(closed.shape, START * self.sensitivity / loss)
        threshold = self._add(start, THRESHOLD, np.where(closed, loss, 0.0), draw)
        asked = self._add(_deviate(_select(lanes["exact"], joined)), QUESTION, np.where(closed, 0.0, loss), draw)
        joins = ~closed & (np.abs(asked) < np.abs(lanes["threshold"]))
        lanes["size"] = np.where(joins, joined, 1.0)
        lanes["threshold"] = np.where(closed, threshold, lanes["threshold"])
        lanes["closed"] = ((~closed & ~joins) | (lanes["size"] >= LONGEST)).astype(np.float64)

    def _add(self, value: Floats, times: float, loss: Floats, draw: Draw) -> Floats:
        """Values with noise of these losses and so many times the sensitivity, NaN where a loss is 0."""
        if not loss.any():
            return np.full(loss.shape, np.nan)
        noise = draw(None, times * self.sensitivity, loss=loss if value.ndim else float(loss))
        return np.asarray((value if value.ndim else float(value)) + noise)


def _select(values: Floats, size: Floats) -> Floats:
    """The newest `size` of these values, lane by lane; NaN for the others, as far as any lane reaches."""
    reach = min(int(size.max()), len(values))
    age = np.arange(reach)[::-1].reshape(-1, *(1 for _ in size.shape))
    return np.where(age < size, values[-reach:], np.nan)


def _deviate(values: Floats) -> Floats:
    """The sum of distances from the mean, lane by lane, NaN left out."""
    found: Floats = np.nansum(np.abs(values - np.nanmean(values, axis=0)), axis=0)
    return np.asarray(found)
