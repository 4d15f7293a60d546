"""The worst loss of a history under almost-periodic privacy, worked out again from its definition."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from halflife.audit.exact import worst_loss
from halflife.notions import AlmostPeriodic, Classical, Notion, WEvent
from halflife.release import Release


def worst_habit_or_period(notion: AlmostPeriodic, releases: Sequence[Release]) -> float:
    """Return the loss if one person's habit is another: reused noise counts once, and fresh noise where no pattern lies under it.

    Strong: or if one person's variations within T consecutive steps are others: then fresh noise counts, and patterns do not.
    The loss is infinite if a pattern is published without fresh noise (strong), twice at a step, or as other noise than it was.
    """
    ordered = sorted(releases, key=lambda r: r.step)
    if _tells_all(notion, ordered):
        return math.inf
    fresh = [replace(r, atop=None) for r in ordered if r.draw is None]
    worst = _worst_habit(notion, ordered)
    return max(worst, worst_loss(WEvent(notion.epsilon, notion.period), fresh)) if notion.strong else worst


def _tells_all(notion: AlmostPeriodic, ordered: Sequence[Release]) -> bool:
    """Whether noise is published alone (strong), or used for two phases or two numbers."""
    alone: dict[str, list[Release]] = {}
    uses: dict[str, list[Release]] = {}
    moved: dict[str, float] = {}
    for release, after in zip(ordered, [*ordered[1:], None], strict=True):
        name = release.draw if release.draw is not None else release.atop
        if name is None:
            continue
        earlier, drawn = uses.setdefault(name, []), alone.setdefault(name, [])
        pattern = notion.strong and release.draw is not None
        other_phase = any(notion.phase(r.data_time) != notion.phase(release.data_time) for r in earlier[-1:])
        if other_phase or (not pattern and moved.setdefault(name, release.sensitivity) != release.sensitivity):
            return True
        if release.draw is not None:
            if (earlier and not drawn) or any(_facts(r) != _facts(release) for r in drawn):
                return True
            if any(r.step == release.step for r in earlier[-1:]):
                return True
            if notion.strong and (drawn or (after is not None and not _covers(after, release))):
                return True
            drawn.append(release)
        elif any((r.step, r.data_time) == (release.step, release.data_time) for r in earlier[-1:]) and not (
            notion.strong and earlier[-1].draw == name
        ):
            return True
        earlier.append(release)
    return False


def _facts(release: Release) -> tuple[Any, ...]:
    return (release.loss, release.scale, release.sensitivity)


def _covers(fresh: Release, pattern: Release) -> bool:
    """Whether this is the fresh noise of a pattern that was just drawn."""
    return (fresh.atop, fresh.step, fresh.data_time) == (pattern.draw, pattern.step, pattern.data_time)


def _worst_habit(notion: AlmostPeriodic, ordered: Sequence[Release]) -> float:
    """The largest sum, at any release, of patterns in use in full and of all else as the notion laid over them has it."""
    if notion.over is None:
        first: dict[str, Release] = {}
        plain = []
        for r in ordered:
            if r.draw is not None:
                first.setdefault(r.draw, r)
            elif r.atop not in first:
                plain.append(r)
        return worst_loss(
            Classical(notion.epsilon), [replace(r, draw=None, atop=None) for r in (*first.values(), *plain)]
        )
    in_use: dict[str, tuple[float, int]] = {}
    charged: list[tuple[int, float]] = []
    worst = 0.0
    for r in ordered:
        for gone in [n for n, (_, last) in in_use.items() if last < r.step - notion.period]:
            charged.append((r.step, in_use.pop(gone)[0]))
        name = r.draw if r.draw is not None else r.atop
        if name is not None and (r.draw is not None or name in in_use):
            in_use[name] = (in_use[name][0] if name in in_use else r.loss, r.step)
        else:
            charged.append((r.step, r.loss))
        worst = max(worst, math.fsum(x for x, _ in in_use.values()) + _count_losses(notion.over, charged, r.step))
    return worst


def _count_losses(over: Notion | None, charged: Sequence[tuple[int, float]], now: int) -> float:
    """What losses at these steps come to now, from the definition of the notion."""
    if isinstance(over, WEvent):
        return math.fsum(x for s, x in charged if s > now - over.w)
    alpha, beta = getattr(over, "alpha", None) or 1.0, getattr(over, "beta", None) or 0.0
    return math.fsum(x * alpha ** (now - s) / (1 + beta * (now - s)) for s, x in charged)
