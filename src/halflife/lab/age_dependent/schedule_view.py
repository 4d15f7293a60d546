"""What a larger error buys: the frontier of schedules as rows, as words and as a plot."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from halflife.errors import InvalidInput
from halflife.lab.views.page import DASHES, PALETTE, layout, load_plotly
from halflife.plans.age_dependent.schedule import Schedule, no_trade_off
from halflife.processes import GeometricMixing

Points = Sequence[tuple[float, Schedule | None]]
"""What `halflife.plans.age_dependent.schedule.frontier` gives."""

SLACK = 1e-9


class FrontierRow(NamedTuple):
    """One limit with its best schedule; ε_C, age and period are None and the risk is infinite where no schedule keeps it."""

    limit: float
    epsilon: float | None
    age: int | None
    period: int | None
    risk: float
    error: float | None


def frontier_data(points: Points) -> list[FrontierRow]:
    """Return the frontier as rows, the smallest limit first.

    >>> from halflife.plans.age_dependent.schedule import frontier
    >>> points = frontier(GeometricMixing(1.0, 0.8), lambda age, epsilon: age / 100 + 0.01 / epsilon, [0.1, 0.01], "paper")
    >>> [(row.limit, row.age, row.period, round(row.risk, 3)) for row in frontier_data(points)]
    [(0.01, None, None, inf), (0.1, 1, 4, 0.248)]
    """
    rows = []
    for limit, best in sorted(points, key=lambda point: point[0]):
        if best is None:
            rows.append(FrontierRow(limit, None, None, None, math.inf, None))
        else:
            rows.append(FrontierRow(limit, best.epsilon, best.age, best.period, best.risk, best.error))
    return rows


def trade_off_words(points: Points) -> str:
    """Say whether a larger error bought less risk on this frontier, and what Corollary 3 says where it speaks (geometric mixing).

    >>> from halflife.plans.age_dependent.schedule import frontier
    >>> points = frontier(GeometricMixing(1.0, 0.8), lambda age, epsilon: age / 100 + 0.01 / epsilon, [0.1, 0.2], "paper")
    >>> trade_off_words(points).split(". ")[0]
    'A larger error buys less risk: 0.248 nats at an error of 0.1, 0.0297 at 0.2'
    """
    found = [(limit, best) for limit, best in sorted(points, key=lambda point: point[0]) if best is not None]
    if not found:
        return "No schedule keeps any of these limits, so there is nothing to trade."
    (low, first), (high, last) = found[0], found[-1]
    if last.risk < first.risk * (1 - SLACK):
        said = (
            f"A larger error buys less risk: {first.risk:.3g} nats at an error of {low:g}, {last.risk:.3g} at {high:g}."
        )
    else:
        said = f"A larger error buys nothing: the least risk is {first.risk:.3g} nats from an error of {low:g} to {high:g}."
    if isinstance(first.process, GeometricMixing):
        longest = min(200.0, float(getattr(first.model, "last_age", 200.0)))
        holds = no_trade_off(first.model, first.process.rho, first.process.c, longest)
        verdict = "holds" if holds else "does not hold"
        said += f" The condition of Corollary 3, under which nothing would be bought, {verdict}."
    return said


def plot_frontier(curves: Mapping[str, Points]) -> Any:
    """Draw the least peak risk over the allowed error, one line for each name, and say above it what is traded."""
    if not curves:
        raise InvalidInput("there is no frontier to draw: give at least one, by name")
    plain = {"type": "linear", "title": {"text": "largest error allowed", "font": {"size": 13}}, "hoverformat": ".4~g"}
    figure = load_plotly().Figure(layout=layout("least peak risk (nats)", **plain))
    for i, (name, points) in enumerate(curves.items()):
        rows = [row for row in frontier_data(points) if row.epsilon is not None]
        colours = PALETTE[i % len(PALETTE)]
        figure.add_scatter(
            x=[row.limit for row in rows], y=[row.risk for row in rows], name=name, mode="lines+markers",
            line={"color": colours[0], "width": 2.5, "dash": DASHES[i % len(DASHES)]}, marker={"size": 5},
            meta={"colours": colours}, customdata=[[row.epsilon, row.age, row.period] for row in rows],
            hovertemplate="%{y:.4~g} nats: ε %{customdata[0]:.3~g}, age %{customdata[1]}, every %{customdata[2]} steps",
        )  # fmt: skip
    figure.update_yaxes(rangemode="tozero")
    said = "<br>".join(f"{name}: {trade_off_words(points)}" for name, points in curves.items())
    figure.update_layout(title={"text": said, "font": {"size": 12}, "x": 0, "y": 0.99, "yanchor": "top"})
    figure.update_layout(margin={"t": 40 + 18 * len(curves)})
    return figure
