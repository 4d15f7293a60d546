"""RescueDP in the Swellfish paper's experiments: every repetition of every zone is a lane.

Its filter is run three ways: with the variance estimated from noisy values (sound), without the filter, and with the variance of
the whole true stream, as published code has it (unsound: it reads what is yet to come; only to compare with printed figures).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from halflife.mechanisms import LaneDraw, RescueDP
from halflife.notions import WEvent
from halflife.numerics.arrays import Floats
from halflife.numerics.progress import Progress
from halflife.papers.swellfish.error import WEEKS_SHOWN
from halflife.papers.swellfish.printed import EPSILON, SENSITIVITY
from halflife.papers.swellfish.streams import WEEK

SOUND, UNFILTERED, AHEAD = "filter from noisy values", "without its filter", "filter that reads ahead (unsound)"
SHOWN_EVERY = 2000


class RescueErrors(NamedTuple):
    """Mean relative errors in per cent: of each zone (mean and median over repetitions), and of each zone in the first weeks."""

    kind: str
    w: int
    mean: Floats
    median: Floats
    by_week: Floats


def rescue_errors(
    kind: str,
    w: int,
    loads: Floats,
    repetitions: int,
    seed: int,
    progress: Progress = lambda what, done, total: None,
) -> RescueErrors:
    """Run RescueDP over all zones, `repetitions` times each, side by side; truncation at 0 is left to its reader."""
    zones, steps = loads.shape
    lanes = zones * repetitions
    notion = WEvent(EPSILON, w)
    variance = np.repeat(loads.var(axis=1), repetitions) if kind == AHEAD else None
    rescue = RescueDP(notion, SENSITIVITY, filtered=kind != UNFILTERED, variance=variance)
    draw = LaneDraw(notion, seed, lanes)
    weeks = min(WEEKS_SHOWN, steps // WEEK)
    total, weekly = np.zeros(lanes), np.zeros((weeks, lanes))
    columns = np.ascontiguousarray(loads.T)
    for k, row in enumerate(columns, start=1):
        if k % SHOWN_EVERY == 1:
            progress(f"RescueDP, w = {w}, {kind}", k - 1, steps)
        truth = np.repeat(row, repetitions)
        off = np.abs(draw.run(rescue, k, truth) - truth)
        off = np.divide(off, truth, out=np.zeros(lanes), where=truth > 0)
        total += off
        if k <= weeks * WEEK:
            weekly[(k - 1) // WEEK] += off
    each = 100 * (total / np.repeat(np.count_nonzero(loads > 0, axis=1), repetitions)).reshape(zones, repetitions)
    first = (loads[:, : weeks * WEEK] > 0).reshape(zones, weeks, WEEK).sum(axis=2)
    by_week = 100 * weekly.reshape(weeks, zones, repetitions).mean(axis=2).T / first
    return RescueErrors(kind, w, each.mean(axis=1), np.median(each, axis=1), by_week)
