"""Plans for streams that share one (ε, δ) composed by privacy loss distributions, so that the account admits all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from halflife.accountant import Accountant
from halflife.errors import BudgetExceeded
from halflife.notions.base import Notion
from halflife.plans import Plan
from halflife.policy.outline import Outline
from halflife.policy.promises.base import Adapter
from halflife.release import Noise, Release

LONGEST = 64
"""How many releases of each stream are tried. With more of them composition gains far more than its rounding loses."""


class SharedDelta(Adapter):
    """Gives each stream a part of (ε, δ), or of ε alone where the account's rounding uses up what δ gains.

    Parts (pε, pδ) compose to (ε, δ). The account works that out with loss distributions on a grid, rounded up; of few releases δ
    gains less than that rounding costs, and the account then refuses parts that are within the promise (w = 1, δ = 10⁻⁶, two
    equal parts: losses of 0.50000097, whose sum is 1.0000019). Pure losses add up exactly, and are always admitted (ours).

    One family of noise serves all streams: Laplace may be the smaller for a stream of few releases and Gaussian for one of many,
    but a mixture has no closed form, and composing its loss distributions takes seconds a step.
    """

    def make_plans(self, streams: Sequence[Outline]) -> list[Plan]:
        """Return the plan of each stream, of which the account admits all."""
        plans = self.choose_plans(lambda noise: self._plan_each(streams, noise))
        if len(streams) == 1 or self.notion.adaptive or admits(self.notion, plans):
            return plans
        pure: Notion = replace(self.notion, delta=0.0)  # type: ignore[type-var]
        return [self.make_plan(stream, pure.share(stream.share), plans[0].noise) for stream in streams]

    def _plan_each(self, streams: Sequence[Outline], noise: Noise | None) -> list[Plan]:
        """Plan each stream's part with noise of this family, or, if none is given, of the one that its losses speak for."""
        parts = [self.notion if s.share == 1 else self.notion.share(s.share) for s in streams]
        plans = [self.make_plan(s, part, noise) for s, part in zip(streams, parts, strict=True)]
        if len({plan.noise for plan in plans}) > 1:
            return self._plan_each(streams, "gaussian")
        return plans


def admits(notion: Notion, plans: Sequence[Plan]) -> bool:
    """Return whether an account of the promise admits all streams at once, each with as many releases as its plan allows for.

    Where streams begin at other times or are of other widths, their first releases need not meet in one window: later ones do.
    """
    releases = [Release(1, loss, noise=plan.noise) for plan in plans for loss in _fullest(plan, notion.memory)]
    try:
        Accountant(notion).admit(*releases)
    except BudgetExceeded:
        return False
    return True


def _fullest(plan: Plan, memory: int | None) -> list[float]:
    """The losses of as many releases as a window touches, ⌈(w + span − 1)/every⌉, or of the first ones; at most LONGEST."""
    request = plan.request
    count = LONGEST if memory is None else -(-(memory + request.span - 1) // request.every)
    last = None if request.horizon is None else -(-request.horizon // request.every)
    most = min(n for n in (LONGEST, count, last) if n is not None)
    return list(map(float, plan.losses_of_releases(1, most)))
