"""w-event privacy audited: the loss of a history again, a headroom that forgets the newest release, a filter that looks ahead."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import ClassVar

import numpy as np

from halflife.accountant import Accountant
from halflife.audit.black_box import Pair
from halflife.audit.exact import compose
from halflife.audit.registry import Faults, History, NotionAudit, register_audit
from halflife.mechanisms import LaneDraw, RescueDP
from halflife.notions import WEvent
from halflife.numerics.arrays import Floats
from halflife.release import Release


def worst_window(notion: WEvent, releases: Sequence[Release]) -> float:
    """Return the loss if one person's data within w consecutive steps is another; every window that begins with a release.

    A release about several steps moves by min(j·Δ_step, Δf) if j of them lie in the window. Windows that begin with one of its
    last steps are tried, as many as it takes to move it by all of Δf: before these it moves no further.
    """
    ordered = sorted(releases, key=lambda r: r.data_time)
    times = np.array([r.data_time for r in ordered])
    widest = max(r.span for r in ordered)
    begins = sorted({r.data_time - i for r in ordered for i in range(min(r.span, math.ceil(1 / r.step_share)))})
    known: dict[tuple[tuple[str, float], ...], float] = {}
    for begin in begins:
        first, last = np.searchsorted(times, [begin, begin + notion.w + widest - 1]).tolist()
        within = [_part_within(r, begin, begin + notion.w - 1) for r in ordered[first:last]]
        window = tuple(sorted((r.noise, r.loss) for r in within))
        if window not in known:
            known[window] = compose(within, notion.delta)
    return max(known.values())


def _part_within(release: Release, begin: int, end: int) -> Release:
    """A release that loses what data of the steps begin … end can move this one by."""
    common = min(end, release.data_time) - max(begin, release.first_data_time) + 1
    part = min(1.0, max(0, common) * release.step_share)
    return release if part == 1 else Release(release.step, release.loss * part, noise=release.noise)


def forget_newest_release() -> History:
    """Return what a publisher releases that asks for the headroom before it has charged the last release.

    Each step takes what was free before it.
    """
    notion = WEvent(1.0, w=8)
    releases: list[Release] = []
    for step in range(1, 25):
        room = Accountant.replay(notion, releases[:-1]).headroom(step)
        if room > 0:
            releases.append(Release(step, min(0.3, room)))
    return notion, releases, 1.0


@dataclass(frozen=True, eq=False)
class FutureVariance:
    """RescueDP on a steady load of 1 MW, of which one household switches 3,920 W on for the last w of 40 steps, or does not.

    What an observer looks at is the largest change between outputs of the steps *before*, which are the same in both streams.
    As published, the filter's q is the variance of the whole stream: 0 or 1.4 · 10⁶ W². So the filter stands still or moves from
    step 2 on, and outputs tell what will happen. (The budget is kept all the while: an account sees no fault.)

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


def plant_faults() -> Faults:
    """Return the planted faults of w-event accounts, and of a mechanism that keeps its budget."""
    ahead, honest = FutureVariance(looks_ahead=True), FutureVariance(looks_ahead=False)
    pair = Pair("", np.zeros(1), np.ones(1), np.ones(1), ahead.notion.epsilon, sized=False)
    return Faults(
        histories={"a headroom that forgets the newest release": forget_newest_release()},
        paths={"a filter whose variance is the whole true stream's (RescueDP as published)": (pair, ahead)},
        honest={"honest RescueDP, whose variance is estimated from noisy values": (pair, honest)},
    )


register_audit("w-event", audit=NotionAudit(worst_loss=worst_window, faults=plant_faults))
