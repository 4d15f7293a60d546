"""What plans share: series of losses, and refusals of what a plan does not understand. `Plan` itself stands beside `Notion`."""

from __future__ import annotations

import numpy as np

from halflife.errors import InvalidInput, unknown
from halflife.notions.base import MEAN_ABSOLUTE_OF_UNIT_SCALE, STD_OF_UNIT_SCALE, Plan, PlanRequest, Series
from halflife.numerics.arrays import Floats

__all__ = ["MEAN_ABSOLUTE_OF_UNIT_SCALE", "STD_OF_UNIT_SCALE", "Plan", "Series"]


def repeat_loss(loss: float) -> Series:
    """Return the series of a plan whose releases all have this loss."""
    return lambda first, last: np.full(last - first + 1, loss)


def list_losses(losses: Floats) -> Series:
    """Return the series of a plan that ends, from all of its losses."""
    return lambda first, last: losses[first - 1 : last].copy()


def release_numbers(first: int, last: int) -> Floats:
    """Return the numbers of releases first … last."""
    return np.arange(first, last + 1, dtype=np.float64)


def refuse_gaussian(request: PlanRequest, why: str) -> None:
    """Refuse Gaussian noise where it is asked for and cannot serve."""
    if request.noise == "gaussian":
        raise InvalidInput(f"{why}: leave noise out, promise delta above 0, or use method='tight'")


def refuse_extra(request: PlanRequest, *known: str) -> None:
    """Refuse options that a plan does not understand.

    >>> from halflife import Classical
    >>> Classical(1.0).plan(capp=0.5)
    Traceback (most recent call last):
    ...
    halflife.errors.InvalidInput: unknown option of this plan 'capp': Known: age, every, horizon, method, noise, sensitivity, \
span
    """
    for name in request.extra:
        if name not in known:
            basic = ("sensitivity", "horizon", "method", "age", "every", "noise", "span")
            raise unknown("option of this plan", name, [*known, *basic])
