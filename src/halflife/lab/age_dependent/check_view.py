"""A check of a process, to look at: Δ by the model against Δ counted directly, lag by lag, as a figure, a table and a page."""

from __future__ import annotations

import math
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import NamedTuple

from halflife.errors import InvalidInput, unknown
from halflife.lab.views.page import PALETTE, Figure, figure_html, layout, load_plotly, write_page
from halflife.processes.check import Check
from halflife.processes.verdict import KINDS, Row, people_text

HEADS = {
    "any time": "At any time",
    "same time of day": "With the time of day held fixed",
}
CAPTIONS = {
    "any time": "Two states and a set were chosen on the first half of each person's data, where they look most apart, and "
    "counted on the second. So the direct estimate lies below the truth.",
    "same time of day": "Whether a person was above the own usual for that time of day. What the clock explains is not in here, "
    "nor is what tells finer than above or not.",
}
MARKS = (
    (0.25, "15 min"), (0.5, "30 min"), (2, "2 h"), (8, "8 h"), (24, "1 d"), (72, "3 d"), (168, "7 d"), (336, "14 d"),
    (720, "30 d"), (2160, "90 d"), (8760, "1 y"),
)  # fmt: skip


class Curves(NamedTuple):
    """One kind, lag by lag, where there was enough data: hours back, Δ by the model (mean, largest), directly, its interval."""

    hours: list[float]
    model: list[float]
    largest: list[float]
    direct: list[float]
    low: list[float]
    high: list[float]
    contradicted: list[bool]


def check_data(check: Check) -> dict[str, Curves]:
    """Return what the figures show, by kind; lags with too few units are left out."""
    found: dict[str, Curves] = {}
    for kind in KINDS:
        rows = [row for row in check.rows if row.kind == kind and not math.isnan(row.direct)]
        if rows:
            found[kind] = Curves(
                [row.lag * check.step_minutes / 60 for row in rows],
                [row.model for row in rows],
                [row.largest for row in rows],
                [row.direct for row in rows],
                [row.low for row in rows],
                [row.high for row in rows],
                [row.outcome == "under-reports" for row in rows],
            )
    return found


def plot_check(check: Check, kind: str = "any time") -> Figure:
    """Draw Δ by the model and Δ counted directly, with its simultaneous interval, against how far back; one of the two kinds."""
    data = check_data(check)
    if kind not in KINDS:
        raise unknown("kind of comparison", kind, KINDS)
    if kind not in data:
        raise InvalidInput(f"there is nothing to draw for {kind!r}: the data was too little, or it was not compared")
    curves = data[kind]
    shown = [(hours, text) for hours, text in MARKS if 0.9 * curves.hours[0] <= hours <= 1.1 * curves.hours[-1]]
    axis = {
        "type": "log", "title": {"text": "how far back", "font": {"size": 13}}, "hoverformat": "~g",
        "tickvals": [hours for hours, _ in shown], "ticktext": [text for _, text in shown], "ticksuffix": " hours",
        "automargin": True,
    }  # fmt: skip
    figure = load_plotly().Figure(layout=layout("Δ, how much is still told", **axis))
    figure.add_scatter(
        x=[*curves.hours, *reversed(curves.hours)], y=[*curves.high, *reversed(curves.low)], fill="toself", mode="lines",
        line={"width": 0}, name=f"{100 * (1 - check.family_wise):g} % for all lags together", hoverinfo="skip",
        meta={"colours": PALETTE[1]},
    )  # fmt: skip
    _line(figure, curves.hours, curves.direct, "counted directly, mean", 1, "solid")
    _line(figure, curves.hours, curves.model, "by the process, mean", 0, "solid")
    if any(a > 1.01 * b for a, b in zip(curves.largest, curves.model, strict=True)):
        _line(figure, curves.hours, curves.largest, "by the process, worst person", 0, "dot")
    figure.update_yaxes(range=[0, 1.03])
    return figure


def _line(figure: Figure, x: list[float], y: list[float], name: str, colour: int, dash: str) -> None:
    figure.add_scatter(
        x=x, y=y, name=name, mode="lines+markers", marker={"size": 6},
        line={"color": PALETTE[colour][0], "width": 2.5, "dash": dash}, meta={"colours": PALETTE[colour]},
        hovertemplate="%{y:.3~g}",
    )  # fmt: skip


def write_check(check: Check, path: Path) -> None:
    """Write the check as one interactive HTML file."""
    drawn = [
        f"<section><h2>{HEADS[kind]}</h2>"
        f"{figure_html(kind.replace(' ', '-'), plot_check(check, kind), f'Δ by lag, {HEADS[kind].lower()}', CAPTIONS[kind])}"
        f"{_table(check, kind)}</section>"
        for kind in check_data(check)
    ]
    said = "lede" if check.good else "lede open"
    body = f"""<header><h1>Does the process under-report?</h1>
<p class="{said}">{escape(check.verdict)}</p>
<p>A {escape(check.process)} process against the data of {people_text(check.people)}, in up to {check.units} units. All intervals
hold together with a confidence of {100 * (1 - check.family_wise):g} %. Δ is how much is still told about now by what
was learnt so long ago: 1 is everything, 0 is nothing.</p></header>
{"".join(drawn)}"""
    write_page(path, f"halflife check: {check.outcome}", body)


def _table(check: Check, kind: str) -> str:
    head = ("back", "by the process, mean", "worst person", "counted directly", "at least", "at most", "outcome")
    cells = "".join(f'<th scope="col">{name}</th>' for name in head)
    rows = "".join(_cells(check, row) for row in check.rows if row.kind == kind)
    return f"""<details><summary>The numbers</summary><div class="scroll" tabindex="0"><table><caption>Δ by lag, {kind}</caption>
<thead><tr>{cells}</tr></thead><tbody>{rows}</tbody></table></div></details>"""


def _cells(check: Check, row: Row) -> str:
    return "<tr>" + "".join(_values(check, row)) + "</tr>"


def _values(check: Check, row: Row) -> Iterator[str]:
    yield f'<th scope="row">{check.ago(row.lag)}</th>'
    numbers = (row.model, row.largest, row.direct, row.low, row.high)
    known = 2 if math.isnan(row.direct) else 5
    yield from (f"<td>{number:.3g}</td>" if i < known else "<td>–</td>" for i, number in enumerate(numbers))
    yield f"<td>{row.outcome}</td>"
