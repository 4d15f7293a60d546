"""The report of `halflife reproduce discounted`: plots of what the reproduction computes, and the files."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from halflife.lab.data import AUSGRID, LONDON
from halflife.lab.views.page import DASHES, PALETTE, Figure, figure_html, layout, load_plotly, table_html
from halflife.lab.views.text import text_table, three_figures
from halflife.notions.discounted import human_time
from halflife.numerics.arrays import Floats
from halflife.papers.discounted.attacks import (
    BOUND_HEADS,
    CLIP_KWH,
    DISCOUNTS,
    LEVELS,
    SHOWN,
    Outcome,
    attacks_in,
    bound_cells,
    crossing_cells,
    curve,
    success_cells,
)
from halflife.papers.discounted.reproduction import (
    TABLE_HEADS,
    WHERE_TO_GET,
    WITNESS_HEADS,
    Reproduction,
    Source,
    TableRow,
    figure_tables,
    generated_source,
    histogram_data,
    real_source,
    reproduce,
    table_cells,
    tables_markdown,
    where_corollary_16_ends,
    witness_cells,
)
from halflife.papers.figures import Paper, write_files

if TYPE_CHECKING:
    from rich.console import Console

TITLE = "Discounted differential privacy, reproduced"


def write_all(found: Reproduction, folder: Path) -> list[Path]:
    """Write report.html, tables.md and the numbers of every figure as Parquet files; return what was written."""
    tables = {f"{name}.parquet": table for name, table in figure_tables(found).items()}
    return write_files(folder, "discounted", TITLE, _body(found), {"tables.md": tables_markdown(found)}, tables)


# Plots --------------------------------------------------------------------------------------------------------------


def plot_histogram(source: Source) -> Figure:
    """Figure 1 left: the histogram of single homes' daily use."""
    data = histogram_data(source)
    figure = load_plotly().Figure(layout=_plain("days of a home (log)", f"kWh per home and day: {source.histogram_of}"))
    figure.add_bar(
        x=(data["from_kwh"] + data["to_kwh"]) / 2, y=data["count"], meta={"colours": PALETTE[0]},
        marker={"color": PALETTE[0][0]}, hovertemplate="%{y:,} days", showlegend=False, name="",
    )  # fmt: skip
    figure.update_yaxes(type="log", dtick=1, tickformat=",")
    figure.update_layout(bargap=0.08)
    return figure


def plot_means(source: Source) -> Figure:
    """Figure 1 right: the daily means that are to be published."""
    figure = load_plotly().Figure(layout=layout("kWh per home and day", **_DAYS))
    _line(figure, source.days.astype(str), source.mean_kwh, source.name, 0, "%{y:.2f} kWh", legend=False)
    figure.update_yaxes(rangemode="tozero")
    return figure


def plot_errors(source: Source, curves: dict[str, Floats]) -> Figure:
    """One panel of Figure 2: expected relative error of each day."""
    figure = load_plotly().Figure(layout=layout("expected relative error (log)", **_DAYS))
    for name, y in curves.items():
        _line(figure, source.days.astype(str), y, name, _style(name), "%{y:,.3~%}")
    _percent_axis(figure, list(curves.values()))
    return figure


def plot_averages(axis: str, curves: dict[str, Floats]) -> Figure:
    """One panel of Figure 3: average expected relative error against α or β."""
    name = "discount factor α (a day)" if axis == "α" else "discounting coefficient β (a day, log)"
    figure = load_plotly().Figure(layout=_plain("average expected relative error (log)", name))
    lines = {k: v for k, v in curves.items() if k != "parameter"}
    for label, y in lines.items():
        _line(figure, curves["parameter"], y, label, _style(label), "%{y:,.3~%}")
    _percent_axis(figure, list(lines.values()))
    if axis == "β":
        figure.update_xaxes(type="log", tickformat="~g", dtick=1)
        figure.add_vline(x=where_corollary_16_ends(), line={"color": "#8a8f98", "width": 1, "dash": "dot"})
    return figure


def plot_attacks(outcomes: Sequence[Outcome], attack: str) -> Figure:
    """How often an attack is right, against the half-life: a colour a window, dashes for hyperbolic discounting."""
    windows = [window for name, window in attacks_in(outcomes) if name == attack]
    figure = load_plotly().Figure(layout=_plain("share of right guesses", "half-life (log)"))
    for colour, window in enumerate(windows):
        for dash, promise in enumerate(DISCOUNTS):
            x, y = curve(outcomes, promise, attack, window)
            _line(figure, x, y, f"{window}, {promise}", colour, "%{y:.1%}", dash=dash)
    for dash, (what, name) in enumerate((("largest_change", "largest change"), ("bound", "bound of T8")), start=2):
        x, y = curve(outcomes, DISCOUNTS[0], attack, windows[0], what)
        _line(figure, x, y, f"{windows[0]}, {name}", len(PALETTE) - 1, "%{y:.1%}", dash=dash)
    figure.update_yaxes(range=[0.49, 1.01], tickformat=".0%", dtick=0.1)
    ticks = [steps for steps in SHOWN if x[0] <= steps <= x[-1]]
    names = [human_time(30 * steps) for steps in ticks]
    span = np.log10(x[[0, -1]]) + np.array([-0.03, 0.1])
    figure.update_xaxes(type="log", tickvals=ticks, ticktext=names, hoverformat="~g", range=span.tolist())
    return figure


_DAYS = {"title": {"text": "day", "font": {"size": 13}}, "hoverformat": "%a %-d %b %Y"}


def _plain(y_title: str, x_title: str) -> dict[str, Any]:
    """A layout whose x axis is a number."""
    title = {"text": x_title, "font": {"size": 13}}
    return layout(y_title, type="linear", title=title, hoverformat=".3~g", zeroline=False)


def _style(curve: str) -> int:
    """The same colour for the same kind of plan in every panel: the paper's, for ever, with a horizon, Gaussian."""
    return next(i for i, word in enumerate(("paper", "for ever", "days", "Gaussian")) if word in curve)


def _percent_axis(figure: Figure, curves: Sequence[Floats]) -> None:
    """A logarithmic axis of percentages, with a tick at every 1, 2 and 5, or where that is too many at every power of ten."""
    span = max(float(np.nanmax(y)) for y in curves) / min(float(np.nanmin(y)) for y in curves)
    figure.update_yaxes(type="log", tickformat=",.4~%", dtick="D2" if span < 300 else 1)


def _line(
    figure: Figure, x: Any, y: Floats, name: str, i: int, hover: str, legend: bool = True, dash: int | None = None
) -> None:
    style = {"color": PALETTE[i][0], "width": 2.5, "dash": DASHES[i if dash is None else dash]}
    figure.add_scatter(
        x=x, y=y, name=escape(name, quote=False), mode="lines", line=style,
        meta={"colours": PALETTE[i]}, hovertemplate=hover, showlegend=legend,
    )  # fmt: skip


# The page -----------------------------------------------------------------------------------------------------------


def _body(found: Reproduction) -> str:
    return "\n".join(
        (_opening(found), _figure_1(found), _figure_2(found), _figure_3(found), _tables(found), _attacks(found))
    )


def _opening(found: Reproduction) -> str:
    notes = "".join(f"<li>{escape(note)}</li>" for note in found.source.notes)
    return f"""<header><h1>{TITLE}</h1>
<p class="lede">Figures 1 to 3 of Farokhi, <i>Temporally discounted differential privacy for evolving datasets on an infinite
horizon</i>, recomputed from its formulas, with halflife's own plans beside each curve. The paper's text prints no ε, α or β
for Figure 2; the ones used here are on the figures. Nothing was drawn at random: expected errors follow from the noise
scales.</p></header>
<section aria-labelledby="open"><h2 id="open">What to know first</h2><ul class="open">{notes}
<li>Forgetting is a convention: nothing published becomes less identifiable, and read classically the loss of an endless
stream grows without bound.</li></ul></section>"""


def _figure_1(found: Reproduction) -> str:
    source = found.source
    left = figure_html(
        "figure1-left", plot_histogram(source), f"Histogram of daily use of single homes: {source.histogram_of}",
        f"Left: daily use of single homes, {source.histogram_of}. "
        + ("The paper shows Ausgrid's homes; those are not at hand." if source.real else "Generated."),
    )  # fmt: skip
    right = figure_html(
        "figure1-right", plot_means(source), f"Daily mean per home: {source.name}",
        f"Right: the series to publish, the mean per home and day. {source.name}.",
    )  # fmt: skip
    return f'<section aria-labelledby="f1"><h2 id="f1">Figure 1: the data</h2>{left}{right}</section>'


def _figure_2(found: Reproduction) -> str:
    parts = []
    for i, (panel, curves) in enumerate(found.errors.items()):
        averages = "; ".join(f"{name}: {three_figures(100 * float(y.mean()))} %" for name, y in curves.items())
        caption = f"Average over the year. {averages[0].upper()}{averages[1:]}."
        figure = figure_html(
            f"figure2-{i}", plot_errors(found.source, curves), f"Expected relative error, {panel}. {caption}", caption
        )
        parts.append(f"<h3>{escape(panel[0].upper() + panel[1:])}</h3>{figure}")
    return f"""<section aria-labelledby="f2"><h2 id="f2">Figure 2: expected relative error over the year</h2>
<p>The expected size of the noise, divided by the day's value: 100 % is noise as large as the value.</p>
{"".join(parts)}</section>"""


def _figure_3(found: Reproduction) -> str:
    captions = {
        "α": "The smaller α, the faster the forgetting, and the weaker the promise.",
        "β": f"The larger β, the faster the forgetting, and the weaker the promise. From β = {where_corollary_16_ends():.3f} on "
        "(dotted line) Corollary 16 does not hold (erratum D1), so the paper's curve ends there.",
    }  # fmt: skip
    parts = [
        figure_html(f"figure3-{i}", plot_averages(axis, curves), f"Average error against {axis}", captions[axis])
        for i, (axis, curves) in enumerate(found.averages.items())
    ]
    return f"""<section aria-labelledby="f3"><h2 id="f3">Figure 3: average error against the discount</h2>
<p>Where the discount hardly acts within the year (α near 1, small β), a plan for ever spends too early, and one that knows
its horizon is better.</p>{"".join(parts)}</section>"""


def _tables(found: Reproduction) -> str:
    witnesses = [witness_cells(w) for w in found.witnesses]
    early = "The same where β·T is small: tight spends too early, constant or optimal are better."
    return f"""<section aria-labelledby="scales"><h2 id="scales">Noise scales of the hyperbolic plans</h2>
<p>Over {found.steps:,} steps, Δf = ε = 1. The root mean square is what <code>optimal</code> minimises; its duality gap bounds how
much smaller the total squared noise of any other plan could be.</p>
{table_html("Noise scales", TABLE_HEADS, _scale_rows(found.rows), named=True)}
{table_html(early, TABLE_HEADS, _scale_rows(found.small), named=True)}
<h2>Erratum D1: Corollary 16 is false for large β</h2>
<p>Its noise, used unchecked, would bring the risk to this multiple of what is promised. halflife refuses it there.</p>
{table_html("Witnesses of D1", WITNESS_HEADS, witnesses)}</section>"""


_ATTACKS = {
    "averaging": "Are the readings in the total this home's, or another's? From all releases of the window, which begins with "
    "the first. Averages over the homes.",
    "occupancy": "Did the home live as recorded, or stand at its base load (the 10 % quantile of its readings)? From the "
    "releases of its day of median use, or of the week that begins with it. Averages over the homes.",
}


def _attacks(found: Reproduction) -> str:
    outcomes, panels = found.outcomes, ""
    for attack, caption in _ATTACKS.items():
        label = f"Success of the {attack} attack against the half-life. {caption}"
        drawn = figure_html(f"attack-{attack}", plot_attacks(outcomes, attack), label, caption)
        panels += f"<h3>The {attack} attack</h3>{drawn}"
    success = (
        "How often the best guess is right at ε = 1, and the homes that a total needs for an error of 10 % at the end"
    )
    levels = " or ".join(f"{100 * level:.0f} %" for level in LEVELS)
    below = f"Half-life from which on fewer than {levels} of the guesses are right"
    bound = "Exponential, averaging: the loss that T8 allows in the window, and how often guesses are right there"
    return f"""<section aria-labelledby="attacks"><h2 id="attacks">What discounting does to an attacker</h2>
{_attack_text(found)}{panels}
{table_html(success, *success_cells(outcomes, found.source.mean_clipped_kwh))}
{table_html(below, *crossing_cells(outcomes))}
{table_html(bound, BOUND_HEADS, bound_cells(outcomes), named=True)}</section>"""


def _attack_text(found: Reproduction) -> str:
    """What is attacked, how to read it, and what it does not show."""
    x, average = curve(found.outcomes, DISCOUNTS[0], "averaging", "a day")
    _, most = curve(found.outcomes, DISCOUNTS[0], "averaging", "a day", "most")
    left = f"{100 * average[-1]:.1f} % on average and {100 * most[-1]:.1f} % for the most exposed home"
    return f"""<p>The paper leaves this to future work. The half-hourly total of homes, each reading clipped to {CLIP_KWH:g} kWh,
is published at ε = 1 by the plan <code>tight</code>; {escape(found.source.homes_of)} are attacked one by one. 50 % is guessing.
The attacker is the one of differential privacy: he knows all other homes, the noise scales and both candidates, half hour by half
hour, and guesses by the likelihood ratio. How many homes are in the total does not matter to him: the noise is that of one.</p>
<ul><li>The longer the half-life, the more noise, about Δf·h/(ε ln 2) at a half-life of h steps, and the nearer an attack comes to
guessing. With a short one the losses of a window add up, and whoever averages long enough wins.</li>
<li>What remains of the averaging attack at a half-life of {human_time(30 * x[-1])}, {left}, is the first release alone:
<code>tight</code> spends all of ε on it. A <code>cap</code> keeps it from that.</li>
<li>The bound of T8 lies far above what attacks on these homes reach: it holds for every mechanism and every pair. <i>Largest
change</i> is what this plan lets be told of two homes that differ by the clip in every half hour; real homes differ by less.</li>
<li>Not shown: attackers who know less (they do worse); what other streams about the same homes add; homes more unusual than
these. Averages hide single homes: see the most exposed one.</li></ul>"""


def _scale_rows(rows: Sequence[TableRow]) -> list[tuple[str, ...]]:
    return [table_cells(row) for row in rows]


# The paper as a whole -----------------------------------------------------------------------------------------------


def print_summary(found: Reproduction, console: Console) -> None:
    """Print the table of noise scales."""
    title = f"Noise scales over {found.steps:,} steps, hyperbolic, Δf = ε = 1"
    heads = [name.replace(" ", "\n", 1) for name in TABLE_HEADS]
    rows = [table_cells(row) for row in (*found.rows, *found.small)]
    console.print(text_table(heads, rows, left=(TABLE_HEADS.index("plan"),), title=title))


PAPER = Paper(
    files=(AUSGRID, LONDON),
    where_to_get=WHERE_TO_GET,
    real_source=real_source,
    generated_source=generated_source,
    reproduce=lambda source, seed, progress: reproduce(source, progress=progress),
    write_all=write_all,
    print_summary=print_summary,
)
