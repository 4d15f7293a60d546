"""Tables and a page of what post-processing gives back: errors, coverage and run time, and each series as curves."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from halflife.errors import InvalidInput
from halflife.lab.accuracy.cases import LIVE, METHODS, RAW, REVISED, Case, Score, average_width
from halflife.lab.views.page import INK, PALETTE, Figure, figure_html, layout, load_plotly, table_html, write_page
from halflife.lab.views.text import text_table
from halflife.numerics.arrays import Floats

if TYPE_CHECKING:
    from rich.console import Console

DAYS_SHOWN, STEPS_SHOWN = 7, 156
"""Of a series the last so many days are drawn; where steps are a day or more, the last so many steps."""


# Tables -------------------------------------------------------------------------------------------------------------


class Quantity(NamedTuple):
    """A table of one quantity: its heading, what it means, and how a score says it."""

    title: str
    caption: str
    show: Callable[[Score], str]


QUANTITIES = (
    Quantity(
        "Error", "Mean absolute error over the mean of the series, in %.", lambda score: f"{100 * score.error:.1f}"
    ),
    Quantity(
        "Coverage",
        "Share of steps in which the truth lies within the 95 % band, in %.",
        lambda score: f"{100 * score.coverage:.1f}",
    ),
    Quantity(
        "Run time",
        "Seconds of computing for 10,000 steps of all cells, fits included.",
        lambda score: f"{score.seconds:.1f}",
    ),
)
HEADS = ("series", "noise", *METHODS)


def table_data(cases: Sequence[Case], quantity: Quantity) -> list[tuple[str, ...]]:
    """Return the rows under `HEADS`, one a case."""
    return [(say_series(case), say_noise(case), *(quantity.show(case.scores[m]) for m in METHODS)) for case in cases]


def say_series(case: Case) -> str:
    """Return what the series is, and that it is generated where its files are not there."""
    source = case.series.source
    return source.title if case.series.real or not source.files else f"{source.title} (generated)"


def say_noise(case: Case) -> str:
    """Return the scale of the noise over the mean, and what it stands for if that is known."""
    meaning = f" ({case.noise.meaning})" if case.noise.meaning else ""
    return f"{case.noise.share:g}{meaning}"


def notes(cases: Sequence[Case], seeds: int) -> list[str]:
    """Return what must be known to read the tables."""
    found = [
        f"Laplace noise, drawn anew for every step; its scale is given over the mean of the series. Mean of {seeds} "
        f"{'seed' if seeds == 1 else 'seeds'}.",
        "Errors and coverage are counted after 30 days, of weekly steps after 64, and at most after half of a series.",
        f"The moving average is over six hours ({average_width(48)} half hours), of weeks over {average_width(1 / 7)}: a public "
        "choice, not the best for each series. Its band, and that of raw values, counts noise alone.",
        "Kalman and seasonal estimates see noisy values and the scale of the noise. How fast things move is fitted on these.",
    ]
    if any(case.noise.meaning for case in cases):
        found.append(
            "Homes: whose mean has this noise at ε = 1 a day. The truth is the mean of the same homes each time."
        )
    if any(case.series.source.files and not case.series.real for case in cases):
        found.append("Generated: the real files are not here. Give their folder with --data or HALFLIFE_DATA.")
    return found


def markdown(cases: Sequence[Case], seeds: int) -> str:
    """Return the tables and notes in Markdown."""
    parts = []
    for quantity in QUANTITIES:
        rows = (HEADS, ["---", "---", *["---:"] * len(METHODS)], *table_data(cases, quantity))
        lines = "\n".join("| " + " | ".join(cells) + " |" for cells in rows)
        parts.append(f"## {quantity.title}\n\n{quantity.caption}\n\n{lines}\n")
    return "\n".join([*parts, "\n".join(f"- {note}" for note in notes(cases, seeds)), ""])


def print_tables(cases: Sequence[Case], seeds: int, console: Console) -> None:
    """Print the tables and notes."""
    for quantity in QUANTITIES:
        console.print(f"{quantity.title}. {quantity.caption}", style="bold")
        console.print(text_table(HEADS, table_data(cases, quantity), left=(0, 1)))
    for note in notes(cases, seeds):
        console.print(f"- {note}")


# Curves -------------------------------------------------------------------------------------------------------------


class Curves(NamedTuple):
    """The newest stretch of one cell: times, truth, raw values, live estimates with their band, and revised ones."""

    times: Any
    truth: Floats
    raw: Floats
    live: Floats
    low: Floats
    high: Floats
    revised: Floats

    @property
    def extent(self) -> tuple[float, float]:
        """The values that a plot must show: all but the raw ones, and a little room."""
        kept = np.concatenate([self.truth, self.live, self.low, self.high, self.revised])
        room = 0.05 * (kept.max() - kept.min()) or 1.0
        return float(kept.min() - room), float(kept.max() + room)


def curve_data(case: Case, cell: int = 0) -> Curves:
    """Return what is drawn of a case under its first seed."""
    per_day = case.series.source.steps_per_day
    shown = slice(-(STEPS_SHOWN if per_day <= 1 else round(DAYS_SHOWN * per_day)), None)
    live, band = case.first[LIVE].values[shown, cell], case.first[LIVE].bands[shown, cell]
    return Curves(
        case.series.times[shown], case.series.truth[shown, cell], case.first[RAW].values[shown, cell],
        live, live - band, live + band, case.first[REVISED].values[shown, cell],
    )  # fmt: skip


def plot_curves(case: Case) -> Figure:
    """Draw truth, raw values, live estimates with their 95 % band, and revised ones."""
    curves = curve_data(case)
    figure = load_plotly().Figure(layout=layout(case.series.source.unit, title={"text": ""}))
    edge = {"mode": "lines", "line": {"width": 0}, "hoverinfo": "skip", "meta": {"colours": PALETTE[0]}}
    figure.add_scatter(x=curves.times, y=curves.low, showlegend=False, **edge)
    figure.add_scatter(
        x=curves.times, y=curves.high, name="95 % band", fill="tonexty", fillcolor=PALETTE[0][0] + "2e", **edge
    )
    figure.add_scatter(
        x=curves.times, y=curves.raw, name=RAW, mode="markers", marker={"size": 3}, line={"width": 1},
        meta={"colours": PALETTE[6]}, hovertemplate="%{y:.4~g}",
    )  # fmt: skip
    lines = (
        ("live", curves.live, PALETTE[0], 2.0),
        ("revised", curves.revised, PALETTE[1], 2.0),
        ("truth", curves.truth, INK, 1.2),
    )
    for name, values, colours, width in lines:
        figure.add_scatter(
            x=curves.times, y=values, name=name, mode="lines", line={"color": colours[0], "width": width},
            meta={"colours": colours}, hovertemplate="%{y:.4~g}",
        )  # fmt: skip
    figure.update_yaxes(range=list(curves.extent))
    return figure


# The page -----------------------------------------------------------------------------------------------------------

_STYLE = """<style>.panels { display: grid; gap: 1rem 2rem; grid-template-columns: minmax(0, 1fr); }
@media (min-width: 900px) { .panels { grid-template-columns: repeat(2, minmax(0, 1fr)); } }
.panels .plot { height: 320px; } .panels h3 { min-height: 2lh; }</style>"""
_LEDE = (
    "What is published is noisy, and what is done to published values costs no privacy. These series are public, so that their "
    "truth can be shown beside what a reader would see; of private data nobody may do that."
)
_CURVES = (
    "The newest week of each series, of weekly steps the newest three years, of the first cell and under the first seed. Live: "
    "the estimate that would have been published with each step, with its 95 % band. Revised: with hindsight. Raw values beyond "
    "the axis are not drawn."
)


def _panel(number: int, case: Case) -> str:
    title = f"{say_series(case)}: noise {say_noise(case)}"
    error = {method: QUANTITIES[0].show(case.scores[method]) for method in METHODS}
    caption = f"Error {error[RAW]} % raw, {error[LIVE]} % live, {error[REVISED]} % revised."
    drawn = figure_html(f"curves-{number}", plot_curves(case), f"{title}. {caption}", caption)
    return f"<div><h3>{escape(title)}</h3>{drawn}</div>"


def page_body(cases: Sequence[Case], seeds: int) -> str:
    """Return the page's content in HTML."""
    tables = "".join(
        f"<h3>{q.title}</h3>{table_html(q.caption, HEADS, table_data(cases, q), named=True)}" for q in QUANTITIES
    )
    said = "".join(f"<li>{escape(note)}</li>" for note in notes(cases, seeds))
    panels = "".join(_panel(number, case) for number, case in enumerate(cases))
    return f"""{_STYLE}<header><h1>Accuracy for free</h1><p class="lede">{escape(_LEDE)}</p></header>
<section><h2>The numbers</h2>{tables}<h3>How to read them</h3><ul>{said}</ul></section>
<section><h2>The curves</h2><p>{escape(_CURVES)}</p><div class="panels">{panels}</div></section>"""


def write_all(cases: Sequence[Case], seeds: int, folder: Path) -> list[Path]:
    """Write report.html, tables.md and numbers.json into a folder; return their paths."""
    numbers = json.dumps([case.to_json() for case in cases], indent=2, ensure_ascii=False)
    texts = {"tables.md": markdown(cases, seeds), "numbers.json": numbers + "\n"}
    footer = " (accuracy). The numbers are in the files beside this page."
    write_page(folder / "report.html", "halflife: accuracy for free", page_body(cases, seeds), footer)
    try:
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidInput(f"cannot write to {folder}: {error.strerror or error}: choose another folder") from error
    return [folder / name for name in ("report.html", *texts)]
