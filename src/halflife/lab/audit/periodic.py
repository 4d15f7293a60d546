"""Almost-periodic privacy audited: what a history comes to, worked out again, and Corollary 8 as a planted fault."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from halflife import noise as grade
from halflife.lab.audit.black_box import Floats, Pair
from halflife.lab.audit.exact import derives, worst_loss
from halflife.notions import Classical, WEvent
from halflife.numerics import whole
from halflife.release import Release


@derives("almost-periodic")
def one_habit_or_one_period(notion: Any, releases: Sequence[Release]) -> float:
    """One person's habit is another: every name of reused noise counts once, and fresh noise counts where no pattern lies under
    it.

    Strong: or one person's variations within T consecutive steps are another's: then fresh noise counts, and patterns do not.
    """
    seen: dict[str, float] = {}
    habits, fresh = [], []
    for release in sorted(releases, key=lambda r: r.step):
        plain = replace(release, draw=None, atop=None)
        if release.draw is None:
            fresh.append(plain)
            habits += [] if release.atop in seen else [plain]
        elif release.draw not in seen:
            seen[release.draw] = release.loss
            habits.append(plain)
        elif seen[release.draw] != release.loss or notion.strong:
            return float("inf")
    worst = worst_loss(notion.over or Classical(notion.epsilon), habits)
    return max(worst, worst_loss(WEvent(notion.epsilon, notion.period), fresh)) if notion.strong else worst


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
