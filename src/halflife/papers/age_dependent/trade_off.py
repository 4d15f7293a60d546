"""The best age of one release in the age-dependent paper: which ε_C a risk affords at each age, and the least error."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from halflife.numerics.arrays import Floats
from halflife.processes import Process
from halflife.processes.contraction import Frontier, affordable_loss


class BestAge(NamedTuple):
    """The least error at a risk, with the age and the loss ε_C that reach it."""

    error: float
    age: int
    epsilon: float


def crude(frontier: Frontier) -> Frontier:
    """Return what Theorem 1 keeps of a frontier: Δ alone."""
    return Frontier(np.zeros(1), np.array([frontier.variation]))


def trade_off(
    risks: Sequence[float], frontiers: dict[int, Frontier], error: Callable[[int, float], float]
) -> list[BestAge]:
    """Return for each risk the age with the least error, of one release: Problem 28 for a single query, by trying every age."""
    return [
        min(
            BestAge(error(age, affordable_loss(one, risk)), age, affordable_loss(one, risk))
            for age, one in frontiers.items()
        )
        for risk in risks
    ]


def frontiers(process: Process, ages: Sequence[int], bound: str = "tight") -> dict[int, Frontier]:
    """Return the frontier of each age, or with bound="theorem1" what that theorem keeps of it."""
    found = {age: process.frontier(age) for age in ages}
    return found if bound == "tight" else {age: crude(one) for age, one in found.items()}


def errors_of(best: Sequence[BestAge]) -> Floats:
    """Return the errors of a trade-off."""
    return np.array([one.error for one in best])
