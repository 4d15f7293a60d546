"""What fresher patterns cost: almost-periodic noise that is drawn anew every N periods, under notions laid over it.

Old noise hides the habits of the time when it was drawn. If habits drift, what has changed since shows as variation, which the
weak notion publishes exactly; renewing the noise hides the habits of now, and tells about habits anew: each renewal spends ε
again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from halflife.errors import InvalidInput
from halflife.lab.views.page import DASHES, PALETTE, Figure, layout, load_plotly
from halflife.notions.almost_periodic.notion import AlmostPeriodic
from halflife.notions.base import Notion
from halflife.numerics.parameters import whole


class RenewalRow(NamedTuple):
    """How old the noise gets, in periods, and the largest risk within the horizon under each notion."""

    periods: int
    risks: Mapping[str, float]


def renewal_data(
    epsilon: float, period: int, every: Sequence[int], horizon: int, over: Mapping[str, Notion]
) -> list[RenewalRow]:
    """Return the largest risk within `horizon` steps if each renewal costs ε, for noise that is renewed every so many periods.

    Each phase's noise is drawn at its first use after a renewal, at a loss of ε/T, and those losses add up as each notion has it.

    >>> from halflife import Classical, ExponentialDiscount
    >>> over = {"classical": Classical(1.0), "half-life of 10 days": ExponentialDiscount(1.0, half_life=480)}
    >>> rows = renewal_data(1.0, 48, [30, 90], horizon=365 * 48, over=over)
    >>> [(row.periods, {name: round(risk, 2) for name, risk in row.risks.items()}) for row in rows]
    [(30, {'classical': 13.0, 'half-life of 10 days': 1.1}), (90, {'classical': 5.0, 'half-life of 10 days': 0.97})]
    """
    steps = whole("horizon", horizon, least=1)
    if not every or not over:
        raise InvalidInput("renewals need at least one number of periods and one notion to add them up by")
    rows = []
    for periods in every:
        notion = AlmostPeriodic(epsilon, period, renew=whole("periods between renewals", periods, least=1))
        losses = np.full(steps, notion.epsilon / notion.period)
        drawn = np.where((np.arange(steps) // notion.period) % periods == 0, losses, 0.0)
        rows.append(RenewalRow(periods, {name: float(n.risks(drawn, 0, "laplace").max()) for name, n in over.items()}))
    return rows


def plot_renewal(rows: Sequence[RenewalRow], epsilon: float, period_name: str = "days") -> Figure:
    """Draw the risk over the age that the pattern's noise reaches before it is renewed, one line for each notion."""
    axis = {"type": "log", "title": {"text": f"noise is renewed every … {period_name}", "font": {"size": 13}}}
    figure = load_plotly().Figure(layout=layout("largest risk about habits (nats)", **axis, hoverformat=".4~g"))
    for i, name in enumerate(rows[0].risks if rows else ()):
        colours = PALETTE[i % len(PALETTE)]
        figure.add_scatter(
            x=[row.periods for row in rows], y=[row.risks[name] for row in rows], name=name, mode="lines+markers",
            line={"color": colours[0], "width": 2.5, "dash": DASHES[i % len(DASHES)]}, meta={"colours": colours},
            hovertemplate="%{y:.3~g} nats",
        )  # fmt: skip
    figure.add_hline(y=epsilon, line={"width": 1, "dash": "dot"})
    place = {
        "x": 0,
        "xref": "paper",
        "xanchor": "left",
        "y": math.log10(epsilon),
        "yref": "y",
        "yanchor": "bottom",
    }  # log axis
    figure.add_annotation(text="never renewed", showarrow=False, **place)
    figure.update_xaxes(tickformat="~g", dtick="D2")
    figure.update_yaxes(type="log", tickformat="~g", dtick=1)
    return figure
