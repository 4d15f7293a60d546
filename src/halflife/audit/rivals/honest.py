"""Our own forms of the rivals as paths for the black box: two streams that differ in one window, and outputs of many runs."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

import numpy as np

from halflife.audit.black_box import Pair
from halflife.mechanisms.lane_draw import LaneDraw
from halflife.notions import WEvent
from halflife.numerics.arrays import Floats
from halflife.registry import find_mechanism

NOTION = WEvent(1.0, w=3)
FIRST, SECOND = np.full(7, 8.0), np.array([8.0, 8.0, 9.0, 9.0, 9.0, 8.0, 8.0])
GRID = 64
"""Outputs are rounded to whole parts of 1/64: what simulation noise leaves in the last bits is not what is looked at."""


@dataclass(frozen=True)
class RivalPath:
    """Outputs of a registered rival on one of the two streams, each run with an account of its own."""

    name: str

    def __call__(self, which: int, runs: int) -> Floats:
        """Return outputs of so many runs."""
        mechanism = find_mechanism(self.name)(NOTION)
        draw = LaneDraw(NOTION, seed=secrets.randbits(63), lanes=runs)
        stream = (FIRST, SECOND)[which]
        outputs = np.array([draw.run(mechanism, k, np.full(runs, x)) for k, x in enumerate(stream.tolist(), start=1)])
        return np.round(outputs.T * GRID) / GRID


def one_window() -> Pair:
    """The two streams, of which ε is claimed; the noise of a step is taken to be what Uniform would add."""
    scales = np.full(len(FIRST), NOTION.w / NOTION.epsilon)
    return Pair("", FIRST, SECOND, scales, NOTION.epsilon, sized=False)
