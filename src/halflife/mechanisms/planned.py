"""Planned noise: the value of each step with the noise that the plan gives it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from halflife import noise as grade
from halflife.accountant import Accountant
from halflife.errors import InvalidInput
from halflife.mechanisms.draw import Draw
from halflife.numerics.arrays import Floats
from halflife.plans import Plan
from halflife.registry import register_mechanism
from halflife.release import Release


@register_mechanism
class PlannedNoise:
    """y(t) = f(t) + noise of loss ρ_t (eq. 5 of the discounted paper), None at steps without a release.

    Stateless: the plan knows every step's loss beforehand, so losses never depend on outputs.
    """

    name: ClassVar[str] = "planned"
    adaptive: ClassVar[bool] = False

    def __init__(self, plan: Plan) -> None:
        self.plan = check_begin(plan)

    def step(self, step: int, truth: Any, draw: Draw) -> Any:
        """Return the noisy value of this step."""
        loss = self.plan.loss(step)
        if loss == 0:
            return None
        sensitivity = self.plan.sensitivity_at(step)
        if loss == math.inf:
            return truth + draw(None, sensitivity, scale=0.0, noise=self.plan.noise, age=self.plan.request.age)
        return truth + draw(None, sensitivity, loss=loss, noise=self.plan.noise, age=self.plan.request.age)

    def state(self) -> None:
        """Nothing to keep."""

    def restore(self, state: Any) -> None:
        """Nothing to restore."""
        if state is not None:
            raise InvalidInput(f"planned noise has no state, so {state!r} belongs to another mechanism")


def check_begin(plan: Plan) -> Plan:
    """Return the plan, or refuse one whose step 1 is about another step than 1 − age: it would be charged to the wrong steps."""
    begin = getattr(plan, "begin", 1 - plan.request.age)
    if begin != 1 - plan.request.age:
        raise InvalidInput(
            f"step 1 of this plan is about step {begin}, and a mechanism counts from 1: leave `begin` out"
        )
    return plan


def publish_series(plan: Plan, values: Sequence[float] | Floats, account: Accountant) -> tuple[Floats, list[Release]]:
    """Publish steps 1 … n at once: the same releases as step by step, with one call to the sampler.

    Returns the noisy values (NaN at steps without a release) and the releases, already charged to the account.

    >>> from halflife import Accountant, WEvent
    >>> notion = WEvent(1.0, w=48)
    >>> noisy, releases = publish_series(notion.plan(), [20.0, 21.0], Accountant(notion))
    >>> noisy.shape, releases[0].loss <= 1 / 48
    ((2,), True)
    """
    check_begin(plan)
    if plan.notion != account.notion:
        raise InvalidInput(f"a plan for {plan.notion!r} cannot be charged to an account of {account.notion!r}")
    if not np.all(np.isfinite(values)):
        raise InvalidInput(
            "values must be finite: bad readings count as missing before they get here; nothing was charged"
        )
    steps = range(1, len(values) + 1)
    chosen = [(k, loss) for k, loss in zip(steps, plan.losses(len(values)).tolist(), strict=True) if loss > 0]
    calibrations = [
        grade.by_loss(loss, plan.sensitivity_at(k), plan.noise)
        if loss < math.inf
        else grade.exact(plan.sensitivity_at(k), plan.noise)
        for k, loss in chosen
    ]
    releases = [
        Release(k, c.loss, plan.request.age, sensitivity=c.sensitivity, scale=c.scale, noise=plan.noise)
        for (k, _), c in zip(chosen, calibrations, strict=True)
    ]
    account.admit(*releases)
    noisy = np.full(len(values), np.nan)
    for (k, _), drawn in zip(chosen, grade.draw_many(calibrations), strict=True):
        noisy[k - 1] = float(values[k - 1]) + drawn
    return noisy, releases
