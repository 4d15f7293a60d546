"""FAST in windows: a rival that samples a few steps of each block, by how its outputs change, and filters what it samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from halflife.mechanisms.base import Draw
from halflife.mechanisms.held import HeldOutput, Lanes
from halflife.notions import WEvent
from halflife.numerics.arrays import Floats
from halflife.registry import register_mechanism
from halflife.release import Release

SHARE = 0.075
"""How many samples a block has, as a part of its steps; a block has at least one."""
FIRST_ERROR, DRIFT, NOISE = 100.0, 1e5, 1e6
"""P, Q and R of the filter: variances of its first estimate, of the process in a step, and of a noisy value."""
PROPORTIONAL, INTEGRAL, RECENT = 0.9, 0.1, 5
"""Gains of the controller, and over how many errors it sums; its derivative has gain 0 and is left out."""
INTERVAL_GAIN, SET_POINT = 5.0, 0.1
"""θ and ξ: by how many steps the interval grows where nothing changes, and the relative change at which it stays."""


@register_mechanism
class Fast(HeldOutput):
    """FAST with a budget for each block of w steps (Fan, Xiong: IEEE TKDE 26(9), 2014; blocks as Schäler, Hütter, Schäler have
    them: PVLDB 16(8), 2023; corrected: their blocks lie w + 1 steps apart, and the step between two of them is published as 0).

    Steps 1 … w are a block, so are w + 1 … 2w, and so on. A block has M = max(1, ⌊0.075 w⌋) samples; each is z = x_t + Laplace
    noise of loss (ε/2)/M. The first is the output r as it is. P begins with 100 and grows by Q = 10⁵ a step; at a later sample

        K = P/(P + R),   r_t = r + K(z − r),   P ← (1 − K)P,   R = 10⁶                     r the output of the sample before
        E = |r_t − ⌊r⌋| / max(r_t, 1),   D = 0.9 E + 0.1 · sum of the last five E
        I ← max(1, I + ⌊5(1 − exp((D − 0.1)/0.1))⌋)                                        ⌊·⌋ towards 0

    The first five samples are of the block's first five steps, the sixth of its sixth; from then on the next one comes I steps
    later (I is 1 when a block begins). All other steps repeat ⌊r⌋. Samples that a block does not come to are given up.

    **w-event ε.** Losses are (ε/2)/M at samples and 0 elsewhere, and a block takes M samples at the most: it spends at most ε/2.
    Any w consecutive steps lie in at most two blocks, as the blocks have w steps each: ε at the most. When samples are taken
    follows from noisy values alone, and pure losses may be chosen from those.

    fractions  whether steps that repeat r keep its fraction. Published programs drop it (counts), and E looks at ⌊r⌋; with
               fractions E has r itself;  counts  see `HeldOutput`: z is rounded

    >>> from halflife.mechanisms.lane_draw import LaneDraw
    >>> notion = WEvent(1.0, w=40)
    >>> fast, draw = Fast(notion), LaneDraw(notion, seed=1, lanes=2)
    >>> outputs = np.array([draw.run(fast, step, np.full(2, 1000.0)) for step in range(1, 121)])
    >>> bool(np.abs(outputs - 1000).mean() < 10), bool((outputs[5] == np.trunc(outputs[2])).all())
    (True, True)
    """

    name: ClassVar[str] = "fast"
    source: ClassVar[str] = "Fan, Xiong: IEEE TKDE 26(9), 2014; in blocks of w steps"
    rule: ClassVar[str] = "samples a few steps of each window, by how its outputs change, and filters them"
    others: ClassVar[str] = (
        "only the first of a block has an error band: what a filter makes of later ones has none, nor have steps that repeat it"
    )
    takes_vectors: ClassVar[bool] = False
    takes_gaussian: ClassVar[bool] = False

    def __init__(
        self, notion: WEvent, sensitivity: float = 1.0, *, fractions: bool = False, counts: bool = False
    ) -> None:
        super().__init__(notion, sensitivity, counts=counts)
        self.fractions = fractions
        self.samples = max(1, int(SHARE * self.notion.w))

    @property
    def most_loss(self) -> float:
        """What a sample costs: half of ε over the samples of a block."""
        return self.notion.epsilon / 2 / self.samples

    @classmethod
    def find_fault(
        cls, before: Floats | None, output: Floats, spread: float, releases: Sequence[Release]
    ) -> str | None:
        """Return what is wrong with a recorded output: steps without a release repeat the one before it, without its fraction.

        What a filter made of a sample cannot be worked out again, as the sample itself is not recorded.
        """
        if math.isfinite(spread):
            return super().find_fault(before, output, spread, releases)
        if before is None:
            return "repeats an output, and there is none before it"
        same = bool(releases) or np.array_equal(np.trunc(before), output)
        return None if same else "does not repeat the output before it, and has no sample of its own"

    def find_parts(self) -> float:
        """Half of it over the samples of a block."""
        return 2.0 * self.samples

    def begin(self, shape: tuple[int, ...]) -> Lanes:
        """P, how many samples the block has had, I, the place in the block of the next sample, and the last five E."""
        return {
            "error": np.full(shape, FIRST_ERROR), "taken": np.zeros(shape), "interval": np.ones(shape),
            "next": np.full(shape, float(RECENT)), "errors": np.zeros((RECENT, *shape)),
        }  # fmt: skip

    def step(self, step: int, truth: Any, draw: Draw) -> Any:
        """Return the output of this step: a filtered sample, or the last one again."""
        value, before, w = np.asarray(truth), self._step, self.notion.w
        lanes = self._move_to(step, value.shape)
        first = before == 0 or (before - 1) // w < (self._step - 1) // w
        if first:
            lanes.update(self.begin(value.shape))
        else:
            lanes["error"] = lanes["error"] + (self._step - before) * DRIFT
        loss = self.decide(lanes, value, draw, first)
        output = self._drop_fraction(lanes["last"])
        self.published = first  # a block's first sample is its noisy value; later ones are filtered
        if np.any(loss > 0):
            self._sample(lanes, self.round_noisy(self.add_noise(value, loss, draw)), loss > 0, first)
            output = np.where(loss > 0, lanes["last"], output)
        return output if value.ndim else float(output)

    def decide(self, lanes: Lanes, truth: Floats, draw: Draw, first: bool) -> Floats:
        """(ε/2)/M at samples: a block's first five steps, and then when an interval is over, until there are M."""
        place = (self._step - 1) % self.notion.w
        due = (lanes["taken"] < RECENT) | (lanes["next"] <= place)
        return np.where(due & (lanes["taken"] < self.samples), self.notion.epsilon / 2 / self.samples, 0.0)

    def _sample(self, lanes: Lanes, noisy: Floats, sampled: Any, first: bool) -> None:
        """Take noisy values in, where there is one, and decide when to sample next: from noisy values alone."""
        if first:
            lanes["last"], lanes["taken"] = noisy, lanes["taken"] + 1
            return
        last, gain = lanes["last"], lanes["error"] / (lanes["error"] + NOISE)
        value = last + gain * (noisy - last)
        change = np.abs(value - self._drop_fraction(last)) / np.maximum(value, 1.0)
        lanes["errors"] = np.where(sampled, np.roll(lanes["errors"], 1, axis=0), lanes["errors"])
        lanes["errors"][0] = np.where(sampled, change, lanes["errors"][0])
        self._set_interval(lanes, change, sampled & (lanes["taken"] >= RECENT))
        lanes["last"] = np.where(sampled, value, last)
        lanes["error"] = np.where(sampled, lanes["error"] * (1 - gain), lanes["error"])
        lanes["taken"] = lanes["taken"] + sampled

    def _set_interval(self, lanes: Lanes, change: Floats, where: Any) -> None:
        """I + θ(1 − exp((D − ξ)/ξ)), whole and at least 1; the next sample comes so many steps after this one was due."""
        signal = PROPORTIONAL * change + INTEGRAL * lanes["errors"].sum(axis=0)
        off = np.minimum((np.where(where, signal, 0.0) - SET_POINT) / SET_POINT, 700.0)
        interval = np.maximum(1.0, lanes["interval"] + np.trunc(INTERVAL_GAIN * (1 - np.exp(off))))
        place = (self._step - 1) % self.notion.w
        lanes["interval"] = np.where(where, interval, lanes["interval"])
        lanes["next"] = np.where(where, place + interval, lanes["next"])

    def _drop_fraction(self, value: Floats) -> Floats:
        return value if self.fractions else np.trunc(value)
