"""Helpers for plans: series of losses, and refusals of unsupported options. `Plan` itself is in `notions.base`."""

from __future__ import annotations

import numpy as np

from halflife.errors import InvalidInput, unknown
from halflife.notions.base import MEAN_ABSOLUTE_OF_UNIT_SCALE, STD_OF_UNIT_SCALE, Plan, Series
from halflife.notions.request import PlanRequest
from halflife.numerics.arrays import Floats

__all__ = ["MEAN_ABSOLUTE_OF_UNIT_SCALE", "STD_OF_UNIT_SCALE", "Plan", "Series"]


def repeat_loss(loss: float) -> Series:
    """Return the series of a plan in which every release has this loss."""
    return lambda first, last: np.full(last - first + 1, loss)


def list_losses(losses: Floats) -> Series:
    """Return the series of a finite plan from the list of its losses."""
    return lambda first, last: losses[first - 1 : last].copy()


def release_numbers(first: int, last: int) -> Floats:
    """Return the release numbers first … last as floats."""
    return np.arange(first, last + 1, dtype=np.float64)


def refuse_gaussian(request: PlanRequest, why: str) -> None:
    """Refuse Gaussian noise for a plan that supports Laplace noise alone."""
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
            raise unknown("option of this plan", name, [*known, *basic], about=name)
