"""RescueDP as published: the variance of the whole true stream, later steps included, is in every filtered output.

Wang et al. (IEEE TDSC 15(4), 2018) with the filter's q = variance of the true stream, as the benchmark of Schäler, Hütter, Schäler
(PVLDB 16(8), 2023) coded it. Two streams that are alike up to step m are told apart by outputs up to step m, for which
nothing is due. An output is r + K(z − r), whose noise has the scale K·b; K follows q. Laplace noises of two scales have
no bounded ratio of densities, so the loss is infinite; how much of it can be seen is counted by the black box. Status: ours.
"""

from __future__ import annotations

import secrets

import numpy as np

from halflife.audit.black_box import Pair
from halflife.mechanisms.lane_draw import LaneDraw
from halflife.mechanisms.rescue_dp import RescueDP
from halflife.notions import WEvent
from halflife.numerics.arrays import Floats

STEPS = 40
NOTION = WEvent(10.0, w=10)


def streams() -> tuple[Floats, Floats]:
    """Return two streams that differ in the last w steps alone."""
    return np.zeros(STEPS), (np.arange(STEPS) >= STEPS - NOTION.w).astype(np.float64)


def look_ahead_pair() -> Pair:
    """One number of each run: how much outputs vary before the streams differ, for which nothing may be lost."""
    return Pair("", np.zeros(1), np.ones(1), np.ones(1), 0.0, sized=False)


def vary_before_they_differ(which: int, runs: int) -> Floats:
    """Return the logarithm of the sum of changes of outputs over the second half of the steps before the streams differ."""
    stream = streams()[which]
    rescue = RescueDP(NOTION, variance=float(np.var(stream)))
    draw = LaneDraw(NOTION, seed=secrets.randbits(63), lanes=runs)
    same = STEPS - NOTION.w
    outputs = np.array([draw.run(rescue, t + 1, np.full(runs, stream[t])) for t in range(same)])
    changes: Floats = np.log(np.abs(np.diff(outputs, axis=0))[-(same // 2) :].sum(axis=0) + 1e-12)
    return np.round(changes, 6)[:, None]
