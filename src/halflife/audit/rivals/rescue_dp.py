"""RescueDP as published: the variance of the whole true stream, later steps included, is in every filtered output.

Wang et al. (IEEE TDSC 15(4), 2018) with the filter's q = variance of the true stream, as the benchmark of Schäler, Hütter and
Schäler (PVLDB 16(8), 2023) coded it. An output is r + K(z − r), whose noise has the scale K·b, and K follows q. Laplace noises of
two scales have no bounded ratio of densities, so nothing bounds the loss; how much of it shows is counted. Status: ours, R4.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import ClassVar

import numpy as np

from halflife.audit.black_box import Pair
from halflife.mechanisms import LaneDraw, RescueDP
from halflife.notions import WEvent
from halflife.numerics.arrays import Floats


@dataclass(frozen=True, eq=False)
class FutureVariance:
    """RescueDP on a steady load of 1 MW, of which one household switches 3,920 W on for the last w of 40 steps, or does not.

    What an observer looks at is the largest change between outputs of the steps *before*, which are the same in both streams.
    As published, the filter's q is the variance of the whole stream: 0 or 1.4 · 10⁶ W². So the filter stands still or moves from
    step 2 on, and outputs tell what will happen, though nothing is due for them yet: the streams are alike so far. (The budget is
    kept all the while: an account sees no fault.)

    looks_ahead  False: the mechanism as it is here, whose q comes from noisy values
    """

    looks_ahead: bool
    notion: WEvent = field(default_factory=lambda: WEvent(1.0, w=4))
    threshold: ClassVar[float] = 10.0
    """Changes in W that only a filter which moves makes."""
    _seeds: Iterator[int] = field(default_factory=lambda: count(1), repr=False)

    def __call__(self, which: int, runs: int) -> Floats:
        """Return the largest change in each of so many runs."""
        w, steps, watts = self.notion.w, 40, 3920.0
        stream = 1e6 + watts * which * (np.arange(steps) >= steps - w)
        rescue = RescueDP(self.notion, watts, variance=float(stream.var()) if self.looks_ahead else None)
        draw = LaneDraw(self.notion, 2 * next(self._seeds) + which, runs)
        outputs = [draw.run(rescue, k, np.full(runs, x)) for k, x in enumerate(stream[: steps - w].tolist(), start=1)]
        changes: Floats = np.abs(np.diff(outputs, axis=0)).max(axis=0)
        return changes[:, None]


def look_ahead_pair() -> Pair:
    """What both streams are claimed to lose at the most; the number of each run is what `FutureVariance` looks at."""
    return Pair("", np.zeros(1), np.ones(1), np.ones(1), FutureVariance(looks_ahead=True).notion.epsilon, sized=False)
