"""Panels of figures as numbers: an axis, and curves over it. Plots, files and tests share them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from halflife.errors import unknown
from halflife.numerics.arrays import Floats
from halflife.processes import Process
from halflife.processes.contraction import Frontier

SOLID, DASH, DOT, DASHDOT = range(4)


class Curve(NamedTuple):
    """One line of a panel; `colour` and `dash` are places in the page's palettes, `marks` draws points and no line."""

    name: str
    y: Floats
    colour: int = 0
    dash: int = SOLID
    marks: bool = False


@dataclass(frozen=True, eq=False)
class Panel:
    """One panel of a figure.

    name   such as "4a";  said  what is drawn, for those who do not see it, and the caption
    x      what all curves are over;  y_most  where the axis of values ends, None for all of them
    """

    name: str
    title: str
    said: str
    x_title: str
    y_title: str
    x: Floats
    curves: tuple[Curve, ...]
    log_x: bool = False
    log_y: bool = False
    y_most: float | None = None

    def __getitem__(self, name: str) -> Floats:
        for curve in self.curves:
            if curve.name == name:
                return curve.y
        raise unknown(f"curve of figure {self.name}", name, [curve.name for curve in self.curves])

    def to_json(self) -> dict[str, Any]:
        """Return the numbers as JSON can hold them: null where a curve has none, "inf" where it has no bound."""
        return {
            "title": self.title, "x": self.x_title, "y": self.y_title, "at": plain(self.x),
            "curves": {curve.name: plain(curve.y) for curve in self.curves},
        }  # fmt: skip


def plain(values: Floats) -> list[float | str | None]:
    """Return numbers as JSON can hold them.

    >>> plain(np.array([1.0, math.nan, math.inf]))
    [1.0, None, 'inf']
    """
    return [None if math.isnan(v) else "inf" if v == math.inf else v for v in values.tolist()]


class BestAge(NamedTuple):
    """The least error at a risk, with the age and the loss ε_C that reach it."""

    error: float
    age: int
    epsilon: float


def crude(frontier: Frontier) -> Frontier:
    """Return what Theorem 1 keeps of a frontier: Δ alone."""
    return Frontier(np.zeros(1), np.array([frontier.variation]))


def affordable(frontier: Frontier, risk: float) -> float:
    """Return the largest ε with K(ε) ≤ risk, infinite if every mechanism keeps it: the inverse of T3 (ours).

    With E = e^risk − 1 each corner (q, d) says (e^ε − 1)(d − E q) ≤ E. Of Δ alone it is ln(1 + E/Δ), Theorem 1 solved for ε.

    >>> from halflife.processes import MarkovChain
    >>> chain = MarkovChain([[0.9, 0.1], [0.1, 0.9]])
    >>> round(chain.amplify(affordable(chain.frontier(3), 0.4), 3), 9)
    0.4
    """
    growth = math.expm1(risk)
    worst = float((frontier.d - growth * frontier.q).max())
    return math.inf if worst <= 0 else math.log1p(growth / worst)


def trade_off(
    risks: Sequence[float], frontiers: dict[int, Frontier], error: Callable[[int, float], float]
) -> list[BestAge]:
    """Return for each risk the age with the least error, of one release: Problem 28 for a single query, by trying every age."""
    return [
        min(BestAge(error(age, affordable(one, risk)), age, affordable(one, risk)) for age, one in frontiers.items())
        for risk in risks
    ]


def frontiers(process: Process, ages: Sequence[int], bound: str = "tight") -> dict[int, Frontier]:
    """Return the frontier of each age, or with bound="theorem1" what that theorem keeps of it."""
    found = {age: process.frontier(age) for age in ages}
    return found if bound == "tight" else {age: crude(one) for age, one in found.items()}


def errors_of(best: Sequence[BestAge]) -> Floats:
    """Return the errors of a trade-off."""
    return np.array([one.error for one in best])
