"""w-event privacy audited: the loss of a history again, and a headroom that forgets the newest release."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from halflife.accountant import Accountant
from halflife.audit.exact import compose
from halflife.audit.registry import Faults, History, NotionAudit, register_audit
from halflife.notions import WEvent
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


def plant_faults() -> Faults:
    """Return the planted faults of w-event accounts."""
    return Faults(histories={"a headroom that forgets the newest release": forget_newest_release()})


register_audit("w-event", audit=NotionAudit(worst_loss=worst_window, faults=plant_faults))
