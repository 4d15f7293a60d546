"""The page of a comparison: errors beside closed forms, what each history costs under every notion, and curves."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from halflife.errors import InvalidInput
from halflife.lab.compare.result import Compared
from halflife.lab.compare.tables import (
    COST_HEADS,
    ERROR_HEADS,
    NOT_FREE,
    cost_lines,
    error_lines,
    format_csv,
    lens_heads,
    lens_lines,
    markdown,
    show,
)
from halflife.lab.views.page import (
    DASHES,
    INK,
    PALETTE,
    Figure,
    figure_html,
    layout,
    load_plotly,
    table_html,
    write_page,
)
from halflife.numerics.arrays import Floats

SHOWN, MOST_PANELS = 300, 12
"""Of a series the last so many steps are drawn, and of so many rows at the most."""
MANY_TIMES = 10.0
"""Errors that differ by more are drawn on a logarithmic axis."""


# Plots --------------------------------------------------------------------------------------------------------------


def _style(number: int, width: float = 1.6) -> dict[str, Any]:
    """Colour and dashes of the line of a row: colours first, then dashes."""
    colours = PALETTE[number % len(PALETTE)]
    dash = DASHES[number // len(PALETTE) % len(DASHES)]
    return {"line": {"color": colours[0], "width": width, "dash": dash}, "meta": {"colours": colours}}


def plot_errors(result: Compared) -> Figure:
    """Draw the MAE of each row as a bar, the closed form as a mark on it."""
    rows = [row for row in reversed(result.rows) if row["mae"] is not None]
    names, errors = [row["mechanism"] for row in rows], [row["mae"] for row in rows]
    wide = max(errors) > MANY_TIMES * max(min(errors), 1e-300)
    axis: dict[str, Any] = {
        "type": "log" if wide else "linear",
        "title": {"text": _unit("MAE", result), "font": {"size": 13}},
    }
    figure = load_plotly().Figure(layout=layout("", **axis, hoverformat=".4~g"))
    figure.add_bar(
        x=errors, y=names, orientation="h", name="simulated", meta={"colours": PALETTE[0]}, hovertemplate="%{x:.4~g}",
        marker={"color": PALETTE[0][0]},
    )  # fmt: skip
    known = [(row["expected_mae"], row["mechanism"]) for row in rows if row["expected_mae"] is not None]
    if known:
        figure.add_scatter(
            x=[error for error, _ in known], y=[name for _, name in known], mode="markers", name="closed form",
            marker={"symbol": "line-ns-open", "size": 22, "line": {"width": 2.5}}, line={"width": 1},
            meta={"colours": PALETTE[1]}, hovertemplate="%{x:.4~g}",
        )  # fmt: skip
    figure.update_layout(hovermode="closest", height=max(220, 90 + 30 * len(rows)))
    return figure


def _unit(what: str, result: Compared) -> str:
    return f"{what}, {result.stream.unit}" if result.stream.unit else what


def _axis(result: Compared, shown: slice) -> tuple[Any, dict[str, Any]]:
    """The places of some steps on the axis, and what it is: times if they are known, else numbers of steps."""
    if result.stream.times is not None:
        return result.stream.times[shown], {"title": {"text": ""}}
    steps = np.arange(1, len(result.truth) + 1)[shown]
    return steps, {"type": "linear", "title": {"text": "step", "font": {"size": 13}}, "hoverformat": ",d"}


def plot_curve(result: Compared, number: int) -> Figure:
    """Draw the newest stretch of the truth, and what the first repetition of a row made of it."""
    shown, outputs = slice(-SHOWN, None), result.outputs[number]
    assert outputs is not None
    places, axis = _axis(result, shown)
    what = "running total" if result.settings["totals"] else "value"
    figure = load_plotly().Figure(layout=layout(_unit(what, result), **axis))
    plain: dict[str, Any] = {"mode": "lines", "hovertemplate": "%{y:.4~g}", "showlegend": False}
    figure.add_scatter(x=places, y=outputs[shown], name="output", **plain, **_style(0, 1.6))
    ink = {"line": {"color": INK[0], "width": 1.6}, "meta": {"colours": INK}}
    figure.add_scatter(x=places, y=result.truth[shown], name="truth", **plain, **ink)
    figure.update_yaxes(range=list(_range(result, shown)))
    return figure


def _range(result: Compared, shown: slice) -> tuple[float, float]:
    """The range of the truth with as much again above and below: noise beyond it is cut off."""
    values: Floats = result.truth[shown]
    low, high = float(values.min()), float(values.max())
    room = 1.0 * (high - low) or max(1.0, abs(high))
    return low - room, high + room


def plot_day(result: Compared) -> Figure | None:
    """Draw the mean error of each row by time of day, None if that is not known."""
    rows = [(number, row) for number, row in enumerate(result.rows) if row["by_time_of_day"]]
    if not rows:
        return None
    errors = [error for _, row in rows for error in row["by_time_of_day"].values()]
    axis = {"type": "category", "title": {"text": "time of day", "font": {"size": 13}}, "nticks": 13}
    figure = load_plotly().Figure(layout=layout(_unit("mean |error|", result), **axis))
    for number, row in rows:
        times = row["by_time_of_day"]
        figure.add_scatter(
            x=list(times), y=list(times.values()), name=row["mechanism"], mode="lines", hovertemplate="%{y:.4~g}",
            **_style(number),
        )  # fmt: skip
    if min(errors) > 0 and max(errors) > MANY_TIMES * min(errors):
        figure.update_yaxes(type="log")
    return figure


# The page -----------------------------------------------------------------------------------------------------------


_STYLE = """<style>.panels { display: grid; gap: 1rem 2rem; grid-template-columns: minmax(0, 1fr); }
@media (min-width: 900px) { .panels { grid-template-columns: repeat(2, minmax(0, 1fr)); } }
.panels .plot { height: 260px; }</style>"""
_NAME, _WORST = "min-width: 11rem", "white-space: nowrap"


def caption_of_curves(result: Compared) -> str:
    """Return what the panels show."""
    left_out = len(result.rows) - MOST_PANELS
    rest = f" {left_out} rows more are in the tables alone." if left_out > 0 else ""
    return (
        f"The newest {min(SHOWN, len(result.truth)):,} steps in ink, and in colour what the first repetition of each row made of "
        f"them. Noise beyond the axis is cut off.{rest}"
    )


def _panel(result: Compared, number: int) -> str:
    row = result.rows[number]
    caption = f"MAE {show(row['mae'])} over {row['repetitions']:,} runs."
    drawn = figure_html(f"curve-{number}", plot_curve(result, number), f"{row['mechanism']}. {caption}", caption)
    return f"<div><h3>{escape(row['mechanism'])}</h3>{drawn}</div>"


def page_body(result: Compared) -> str:
    """Return the page's content in HTML."""
    notes = "".join(f"<li>{escape(note)}</li>" for note in result.notes[len(NOT_FREE) :])
    caption = "Errors against the truth, means over the repetitions."
    lens_caption = (
        "The largest risk of each history, whatever it was planned for. ∞: the notion has no bound for it. *: of the first "
        "repetition, as others lose otherwise. –: not worked out (a notion with a δ reads its own history alone)."
    )
    styles = [""] * (len(ERROR_HEADS) - 1) + [_WORST]
    errors = table_html(caption, ERROR_HEADS, error_lines(result.rows), styles)
    bars = figure_html("errors", plot_errors(result), "Mean absolute error of each row", "Mean absolute error.")
    day = plot_day(result)
    by_day = "" if day is None else figure_html("day", day, "Mean error by time of day", "Mean error by time of day.")
    drawn = [i for i, outputs in enumerate(result.outputs) if outputs is not None][:MOST_PANELS]
    panels = "".join(_panel(result, number) for number in drawn)
    lenses = table_html(lens_caption, ("mechanism", *lens_heads(result.rows)), lens_lines(result.rows))
    promise = "The promise, and what one history comes to."
    costs = table_html(promise, COST_HEADS, cost_lines(result.rows), ["", _NAME, "", "", ""], named=True)
    warning = "".join(f"<li>{escape(note)}</li>" for note in NOT_FREE)
    return f"""{_STYLE}<header><h1>Compared on {escape(result.stream.title)}</h1><ul class="open">{
        warning
    }</ul></header>
<section><h2>Errors</h2>{errors}{bars}</section>
<section><h2>What each costs</h2>{costs}
<h3>One history, every notion</h3>{lenses}</section>
<section><h2>By time</h2>{by_day}<p>{escape(caption_of_curves(result))}</p><div class="panels">{panels}</div></section>
<section><h2>How to read it</h2><ul>{notes}</ul></section>"""


def write_all(result: Compared, folder: Path) -> list[Path]:
    """Write report.html, rows.json, rows.csv and tables.md into a folder; return their paths."""
    footer = " (compare). The numbers are in the files beside this page."
    write_page(folder / "report.html", f"halflife: {result.stream.title}", page_body(result), footer)
    texts = {
        "rows.json": result.to_json() + "\n",
        "rows.csv": format_csv(result.rows),
        "tables.md": markdown(result.rows),
    }
    try:
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidInput(f"cannot write to {folder}: {error.strerror or error}: choose another folder") from error
    return [folder / name for name in ("report.html", *texts)]
