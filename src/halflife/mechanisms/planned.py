"""Planned noise: the value of each step with the noise that the plan gives it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import ClassVar, Self

import numpy as np

from halflife.accountant import Accountant
from halflife.errors import InvalidInput
from halflife.mechanisms.base import Request, ScheduledMechanism
from halflife.mechanisms.release_draw import ReleaseDraw
from halflife.numerics.arrays import Floats
from halflife.numerics.forms import JsonObject
from halflife.numerics.parameters import whole
from halflife.plans import Plan
from halflife.registry import register_mechanism
from halflife.release import Release
from halflife.steps import Steps


@register_mechanism
class PlannedNoise(ScheduledMechanism):
    """y(t) = f(t) + noise of loss ρ_t (eq. 5 of the discounted paper), None at steps without a release.

    It is proved for the notions that name it: where fresh noise at every step is what the plan's losses add up for.

    begin  the data time of step 1, by whoever charges it: 1 − age if it is not given
    size   how many numbers a value has, of which one person can change so many as `touched` (all if it is not given)
    """

    name: ClassVar[str] = "planned"
    keeps_noise: ClassVar[bool] = False

    def __init__(self, plan: Plan, begin: int | None = None, size: int = 1, touched: int | None = None) -> None:
        if plan.notion.mechanism != PlannedNoise.name:
            raise InvalidInput(
                f"nobody has proved that {plan.notion.name} holds with fresh noise at every step: it is kept by the mechanism "
                f"{plan.notion.mechanism!r}"
            )
        check_begin(plan, 1 - plan.request.age if begin is None else begin)
        self.plan, self._size, self._touched = plan, whole("size", size, least=1), touched

    @classmethod
    def for_stream(cls, plan: Plan, *, name: str, steps: Steps, begin: int, cells: int, touched: int) -> Self:
        """Return the planned noise of a policy's stream."""
        return cls(plan, begin, cells, touched)

    def requests(self, steps: Sequence[int]) -> list[Request | None]:
        """Return fresh noise of each step's loss; none where the loss is infinite, as the promise says that values are public."""
        known: dict[tuple[float, float], Request | None] = {}
        made = []
        for planned in self._planned(steps):
            if planned not in known:
                known[planned] = self._request(*planned)
            made.append(known[planned])
        return made

    def noise_facts(self) -> JsonObject:
        """Return the family: every step has noise of its own."""
        return {"family": self.plan.noise}

    def _planned(self, steps: Sequence[int]) -> Iterable[tuple[float, float]]:
        """Loss and sensitivity of each of these steps, which ascend; a loss of 0 where nothing is published."""
        if len(steps) == 1:
            return [(self.plan.loss(steps[0]), self.plan.sensitivity_at(steps[0]))]
        before, rest = np.divmod(np.asarray(steps, dtype=np.int64) - 1, self.plan.request.every)
        losses, sensitivities, published = np.zeros(len(steps)), np.ones(len(steps)), rest == 0
        if published.any():
            numbers = before[published] + 1
            first, last = int(numbers[0]), int(numbers[-1])
            losses[published] = self.plan.losses_of_releases(first, last)[numbers - first]
            sensitivities[published] = self.plan.sensitivities_of_releases(first, last)[numbers - first]
        return zip(losses.tolist(), sensitivities.tolist(), strict=True)

    def _request(self, loss: float, sensitivity: float) -> Request | None:
        if loss == 0:
            return None
        finite, exact = (loss, None) if loss < math.inf else (None, 0.0)
        noise, age = self.plan.noise, self.plan.request.age
        span = self.plan.request.span
        return Request(None, sensitivity, finite, exact, noise, age, self._size, touched=self._touched, span=span)


def check_begin(plan: Plan, begin: int) -> None:
    """Refuse a plan whose step 1 is about another data time than it is charged for."""
    about = getattr(plan, "begin", begin)
    if about != begin:
        raise InvalidInput(
            f"step 1 of this plan is about step {about}, and it would be charged for step {begin}: a mechanism counts from 1, "
            "so leave `begin` out"
        )


def publish_series(plan: Plan, values: Sequence[float] | Floats, account: Accountant) -> tuple[Floats, list[Release]]:
    """Publish steps 1 … n at once: the same releases as step by step, with one call to the sampler.

    Returns the noisy values (NaN at steps without a release) and the releases, already charged to the account.

    >>> from halflife import Accountant, WEvent
    >>> notion = WEvent(1.0, w=48)
    >>> noisy, releases = publish_series(notion.plan(), [20.0, 21.0], Accountant(notion))
    >>> noisy.shape, releases[0].loss <= 1 / 48
    ((2,), True)
    """
    mechanism, draw = PlannedNoise(plan), ReleaseDraw(account)
    if plan.notion != account.notion:
        raise InvalidInput(f"a plan for {plan.notion!r} cannot be charged to an account of {account.notion!r}")
    if not np.all(np.isfinite(values)):
        raise InvalidInput(
            "values must be finite: bad readings count as missing before they get here; nothing was charged"
        )
    outputs = draw.run_batch(mechanism, range(1, len(values) + 1), [float(value) for value in values])
    return np.array([math.nan if y is None else y for y in outputs]), list(draw.releases)
