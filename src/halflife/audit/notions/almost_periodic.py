"""Almost-periodic privacy audited: what a history comes to, worked out again, and Corollary 8 as a planted fault."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from halflife import noise as grade
from halflife.audit.black_box import Pair
from halflife.audit.exact import derives, worst_loss
from halflife.notions import Classical, WEvent
from halflife.numerics.arrays import Floats
from halflife.numerics.parameters import whole
from halflife.release import Release


@derives("almost-periodic")
def one_habit_or_one_period(notion: Any, releases: Sequence[Release]) -> float:
    """One person's habit is another: every name of reused noise counts once, and fresh noise where no pattern lies under it.

    Strong: or one person's variations within T consecutive steps are another's: then fresh noise counts, and patterns do not. A
    pattern that is published without fresh noise (strong), twice at a step, or as other noise than it was, tells all.
    """
    ordered = sorted(releases, key=lambda r: r.step)
    if _tells_all(notion, ordered):
        return math.inf
    fresh = [replace(r, atop=None) for r in ordered if r.draw is None]
    worst = _habits(notion, ordered)
    return max(worst, worst_loss(WEvent(notion.epsilon, notion.period), fresh)) if notion.strong else worst


def _tells_all(notion: Any, ordered: Sequence[Release]) -> bool:
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


def _habits(notion: Any, ordered: Sequence[Release]) -> float:
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
        worst = max(worst, math.fsum(x for x, _ in in_use.values()) + _counted(notion.over, charged, r.step))
    return worst


def _counted(over: Any, charged: Sequence[tuple[int, float]], now: int) -> float:
    """What losses at these steps come to now, from the definition of the notion."""
    if isinstance(over, WEvent):
        return math.fsum(x for s, x in charged if s > now - over.w)
    alpha, beta = getattr(over, "alpha", None) or 1.0, getattr(over, "beta", None) or 0.0
    return math.fsum(x * alpha ** (now - s) / (1 + beta * (now - s)) for s, x in charged)


def corollary_8_pair(periods: int) -> Pair:
    """One person's variation in the first of K periods of one step differs by 1; ε = Δf_z = Δf_w = 1 is claimed (erratum P1)."""
    return Pair("", np.zeros(periods), np.ones(periods), np.array([2.0] + [1.0] * (periods - 1)), 1.0)


class CorollaryEight:
    """The strong mechanism as the paper has it, T = 1: y(1) = w(1) + v, y(k) = y(1) − w(1) + w(k) + u(k), all other variations 0.

    What is seen is turned into y(1), y(1) − y(2), y(1) − y(3), …, which nothing is lost by: each later difference shows w(1)
    under a noise of its own.
    """

    def __init__(self, periods: int) -> None:
        self.periods = whole("periods", periods, least=2)

    def __call__(self, which: int, runs: int) -> Floats:
        """Return what is seen in so many runs, if the first variation is 0 or 1."""
        first = which + _noise(2.0, runs, 1)
        later = first - which + _noise(1.0, runs, self.periods - 1)
        seen: Floats = np.concatenate([first, first - later], axis=1)
        return seen


def _noise(scale: float, runs: int, numbers: int) -> Floats:
    """Release-grade noise on a grid that doubles add up on exactly, so that its last bits tell nothing."""
    drawn = grade.draw(grade.by_scale(scale, 1.0, size=runs * numbers, lattice=1.0))
    made: Floats = np.array(drawn.add([0] * (runs * numbers))).reshape(runs, numbers)
    return made
