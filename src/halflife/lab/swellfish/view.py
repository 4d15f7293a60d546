"""What households want hidden, and what that costs: the words, the pictures and the pages of `halflife secrets`."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from halflife.lab.swellfish.costs import Comparison, Outcome, Overview, family_words, promise_words
from halflife.lab.views.page import DASHES, PALETTE, Figure, figure_html, layout, load_plotly, table_html, write_page
from halflife.lab.views.policy import local_times
from halflife.lab.views.text import text_table, three_figures
from halflife.notions import Swellfish
from halflife.notions.swellfish.losses import temporal_sensitivity_of
from halflife.numerics.arrays import Floats
from halflife.numerics.forms import JsonObject
from halflife.specifications import Specifications
from halflife.specifications.neighbours import INTERPRETATIONS
from halflife.steps import Steps

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

FOR_THE_LAB = (
    "For the lab alone: every secret here is a cycle that somebody ran, and specifications are public. A real policy hides "
    "recurring windows, such as every weekday from 18:00 to 21:00."
)
OPEN = (
    "Specifications are public, and the noise of a step shows that somebody hides something then.",
    "Outside all hiding intervals the exact value is published, unless a policy sets a floor of noise.",
)
MOST_POINTS = 4000
"""A curve with more steps shows the largest value of each stretch."""
MOST_HOUSEHOLDS, WEEK = 12, 672
HEAT = [[0.0, "#bfe3f7"], [0.5, "#3b94cf"], [1.0, "#c44e00"]]


# Words --------------------------------------------------------------------------------------------------------------


def verdict_words(verdict: JsonObject) -> str:
    """Return "kept", or how much the worst secret loses of its ε and how many lose too much."""
    if verdict["kept"]:
        return "kept"
    share = verdict["worst"]["share"]
    times = f"{share:.3g} ε" if isinstance(share, float) else "unbounded"
    return f"{times} ({verdict['broken']:,})"


def overview_rows(found: Overview) -> list[tuple[str, str]]:
    """Return the overview as names and values."""
    return [
        ("households", f"{found.households:,}"),
        ("secrets", f"{found.secrets:,}"),
        ("steps", f"{found.steps:,}"),
        ("longest event", f"{found.longest:,} steps"),
        ("largest power", f"{three_figures(found.largest_power)} kW"),
        ("largest temporal sensitivity Δ", f"{three_figures(found.sensitivity)} kW, first at step {found.widest:,}"),
        ("smallest ε", f"{found.smallest_epsilon:.3g}"),
        ("somebody hides something", f"at {100 * found.relevant:.1f} % of the steps"),
        ("the middle household does", f"at {100 * found.one_household:.1f} %"),
    ]


NOISE_HEAD = ("plan", "noise", "total std", "mean std", "mean |error|", *INTERPRETATIONS)


def noise_rows(found: Comparison) -> list[tuple[str, ...]]:
    """Return the rows under `NOISE_HEAD`: every plan, then the baseline, whose interpretations are not worked out."""
    n = found.facts.steps
    plans = [
        (o.method, o.family, *map(three_figures, (o.total, o.mean, o.error)), *_verdicts(o)) for o in found.outcomes
    ]
    uniform = [
        (u.label, u.family, *map(three_figures, (n * u.mean, u.mean, u.error)), "", "", "") for u in found.uniform
    ]
    return plans + uniform


def _verdicts(outcome: Outcome) -> list[str]:
    return [verdict_words(outcome.verdicts[interpretation]) for interpretation in INTERPRETATIONS]


def noise_words(found: Comparison) -> list[str]:
    """Say what the optimal plan gains, which secret is worst where an interpretation is not kept, and what the baseline is."""
    said = []
    for d, noise in dict.fromkeys((o.delta, o.noise) for o in found.outcomes):
        gain = found.gain(d, noise)
        if gain is not None:
            least = " (Laplace noise with a δ must keep the calibrated scales)" if d and noise == "laplace" else ""
            said.append(f"{family_words(d, noise)}: optimal has {100 * gain:.1f} % less noise than tight{least}.")
    said += [text for o in found.outcomes for text in _name_broken(o)]
    if found.uniform:
        s = found.specifications
        said.append(
            f"Uniform is w-event privacy with w = {int(s.duration.max())}, ε = {float(s.epsilon.min()):.3g} and "
            f"Δ = {three_figures(found.facts.sensitivity)} (Theorem 7), with the same noise at every step."
        )
    elif found.why_not:
        said.append(f"No baseline: {found.why_not}.")
    return said


def _name_broken(outcome: Outcome) -> list[str]:
    said = []
    for meaning, verdict in outcome.verdicts.items():
        worst = verdict["worst"]
        if not verdict["kept"]:
            loss = f"{worst['loss']:.4g}" if isinstance(worst["loss"], float) else worst["loss"]
            may, upto = ("may lose", "up to ") if outcome.delta else ("lose", "")  # with a δ losses are upper bounds
            said.append(
                f"{outcome.method}, {outcome.family}, read as {meaning}: {verdict['broken']:,} of {verdict['secrets']:,} secrets "
                f"{may} more than their ε. Worst: {worst['household']}, steps {worst['start']} to {worst['end']} "
                f"({worst['power']:.3g} kW for {worst['duration']} steps), {upto}{loss} instead of {worst['epsilon']:.3g}."
            )
    return said


QUIETER_HEAD = ("T in steps", "Laplace, std", "Gaussian, std", "quieter")


def quieter_rows(found: Comparison) -> list[tuple[str, ...]]:
    """Return the rows under `QUIETER_HEAD`."""
    return [
        (f"{q.duration:,}", three_figures(q.laplace), three_figures(q.gaussian), q.noise.capitalize())
        for q in found.table
    ]


def noise_json(found: Comparison) -> JsonObject:
    """Return all of it as JSON can hold it; first what is not protected."""
    return {
        "not_protected": list(found.not_protected),
        "warnings": list(found.warnings),
        "specifications": found.specifications.summary(),
        "overview": found.facts._asdict(),
        "neighbours": found.neighbours,
        "delta": found.delta,
        "plans": [
            {
                "method": o.method, "delta": o.delta, "noise": o.noise, "total_std": o.total, "mean_std": o.mean,
                "mean_absolute_error": o.error, **o.facts, "interpretations": o.verdicts,
            }
            for o in found.outcomes
        ],
        "uniform": [u._asdict() for u in found.uniform],
        "quieter": [q._asdict() for q in found.table],
    }  # fmt: skip


def print_noise(found: Comparison, console: Console) -> None:
    """Print what is not protected, the table, what stands out, and T6's table; the console knows no markup."""
    for text in found.warnings:
        console.print(f"WARNING: {text}", style="bold")
    console.print("What is not protected", style="bold")
    for text in found.not_protected:
        console.print(f"- {text}")
    f = found.facts
    console.print(
        f"\n{f.secrets:,} secrets of {f.households:,} households, {f.steps:,} steps, {found.neighbours}", style="bold"
    )
    rows = noise_rows(found)
    console.print(_table(NOISE_HEAD[:5], [row[:5] for row in rows], left=2))
    console.print("Does every secret keep its ε? If not: the worst loss, and of how many", style="bold")
    certified = [(*row[:2], *row[5:]) for row in rows[: len(found.outcomes)]]
    console.print(_table((*NOISE_HEAD[:2], *INTERPRETATIONS), certified, left=2))
    for text in noise_words(found):
        console.print(f"- {text}")
    if found.table:
        console.print(
            f"\nAn event of T steps at ε = {f.smallest_epsilon:.3g}, {promise_words(found.delta)}, Δ = 1", style="bold"
        )
        console.print(_table(QUIETER_HEAD, quieter_rows(found), left=0))


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], left: int) -> Table:
    """Rows for a terminal, the first `left` columns aligned to the left."""
    return text_table([head.replace(" ", "\n", 1) for head in heads], rows, left=range(left), no_wrap=True)


# Pictures -----------------------------------------------------------------------------------------------------------


def curve_data(values: Floats, most: int = MOST_POINTS) -> tuple[Floats, Floats]:
    """Return steps and values of a curve over steps 1 … n; if there are more than `most`, the largest of each stretch.

    >>> curve_data(np.array([1.0, 3.0, 2.0, 0.0]), most=2)
    (array([1., 3.]), array([3., 2.]))
    """
    block = -(-len(values) // most)
    starts = np.arange(0, len(values), block)
    return np.add(starts, 1.0, dtype=np.float64), np.maximum.reduceat(values, starts)


class Curve(NamedTuple):
    """A line over the steps, with its colour and dash as numbers."""

    name: str
    values: Floats
    colour: int = 0
    dash: int = 0


def plot_curves(curves: Sequence[Curve], y_title: str, steps: Steps | None = None, *, log: bool = False) -> Figure:
    """Draw values over time, or over the steps if it is not known when they are; on a logarithmic axis 0 is a gap."""
    figure = load_plotly().Figure(layout=_layout(y_title, steps))
    for curve in curves:
        numbers, y = curve_data(curve.values)
        y = np.where(y > 0, y, np.nan) if log else y
        figure.add_scatter(
            x=_time_axis(numbers, steps), y=y, name=curve.name, mode="lines", meta={"colours": PALETTE[curve.colour]},
            line={"color": PALETTE[curve.colour][0], "width": 2, "shape": "hv", "dash": DASHES[curve.dash]},
            hovertemplate="%{y:.4~g}", showlegend=len(curves) > 1,
        )  # fmt: skip
    figure.update_yaxes(**({"type": "log", "dtick": 1} if log else {"rangemode": "tozero"}))
    return figure


class Hiding(NamedTuple):
    """Δ_t of some households at steps 1 … n, in kW; NaN where one hides nothing."""

    households: tuple[str, ...]
    cells: Floats


def hiding_data(s: Specifications, last: int = WEEK, most: int = MOST_HOUSEHOLDS) -> Hiding:
    """Return when up to `most` households hide something within the first `last` steps, and how much; evenly picked."""
    n = min(last, max(1, s.last_step))
    chosen = np.unique(np.linspace(0, len(s.households) - 1, min(most, len(s.households))).astype(int)).tolist()
    cells = np.full((len(chosen), n), np.nan)
    for row, code in zip(cells, chosen, strict=True):
        delta = temporal_sensitivity_of(s.only(slice(*s.rows(code))), 1, n)
        row[delta > 0] = delta[delta > 0]
    return Hiding(tuple(s.households[code] for code in chosen), cells)


def plot_hiding(s: Specifications, steps: Steps | None = None) -> Figure:
    """Draw when some households hide something, a row for each; the colour says how much all its relevant events have."""
    data = hiding_data(s)
    top = float(np.nanmax(data.cells, initial=1e-9))
    figure = load_plotly().Figure(layout=_layout("", steps))
    figure.add_heatmap(
        z=data.cells.round(4), x=_time_axis(np.arange(1.0, data.cells.shape[1] + 1), steps), y=list(data.households),
        colorscale=HEAT, zmin=0, zmax=top, ygap=4, meta={"colours": PALETTE[0]}, hoverongaps=False,
        colorbar={"title": {"text": "kW"}, "thickness": 14, "outlinewidth": 0},
        hovertemplate="%{y}, %{x}: %{z:.3~g} kW<extra></extra>",
    )  # fmt: skip
    figure.update_layout(hovermode="closest")
    figure.update_yaxes(type="category", autorange="reversed", showgrid=False)
    return figure


def _layout(y_title: str, steps: Steps | None) -> dict[str, Any]:
    if steps is not None:
        return layout(y_title, title={"text": f"time ({steps.zone})", "font": {"size": 13}})
    step = {"text": "step", "font": {"size": 13}}
    return layout(y_title, type="linear", title=step, hoverformat=",d", zeroline=False)


def _time_axis(numbers: Floats, steps: Steps | None) -> Any:
    """When steps begin, on the clock of their zone; their numbers if that is not known."""
    if steps is None:
        return numbers
    starts = steps.edges(1, int(numbers[-1]))[numbers.astype(np.int64) - 1]
    return local_times(starts, steps.zone)


# The page -----------------------------------------------------------------------------------------------------------

_DELTA = "Temporal sensitivity Δ: how far the events of one household can move a sum at a step, the largest of all households."
_LAMBDA = "Scale λ of the Laplace noise that suffices (tight, one-window, pure); in gaps the exact value is published."
_HIDING = (
    "Hiding intervals of some households in the first steps. Colour: all relevant events of the household added up, Δ."
)
_STD = "Standard deviation of each plan's noise by step. Equal curves lie on each other; in gaps values are exact."
_VERDICTS = (
    "Noise in kW over all steps. Under each interpretation: kept, or how much of its ε the worst secret loses, and how many "
    "lose more than theirs. Uniform is the baseline of Theorem 7; its interpretations are not worked out."
)
_QUIETER = "Standard deviation of the noise with which an event of T steps keeps the smallest ε, at sensitivity 1 (T6)."


def write_overview_page(s: Specifications, path: Path, facts: Overview, steps: Steps | None = None) -> None:
    """Write specifications as one interactive HTML file: numbers, Δ, λ, and hiding intervals."""
    notion = Swellfish(s)
    curves = (
        ("delta", "Temporal sensitivity", notion.sensitivity, "Δ (kW)", _DELTA),
        ("lambda", "Noise", notion.sufficient, "λ (kW)", _LAMBDA),
    )
    drawn = []
    for name, head, function, y, caption in curves:
        figure = plot_curves([Curve(y, function.over(1, facts.steps))], y, steps, log=name == "lambda")
        drawn.append(f"<section><h2>{head}</h2>{figure_html(name, figure, f'{head} over time', caption)}</section>")
    hidden = figure_html("hiding", plot_hiding(s, steps), "When some households hide something", _HIDING)
    body = f"""<header><h1>What households want hidden</h1></header>
{_list_html(OPEN)}
<section><h2>The numbers</h2><dl class="facts">{_facts(overview_rows(facts))}</dl></section>
{"".join(drawn)}<section><h2>Who hides when</h2>{hidden}</section>"""
    write_page(path, "halflife: what households want hidden", body)


def noise_data(found: Comparison) -> list[Curve]:
    """Return the standard deviation of each plan's noise by step: a colour for each method, a dash for each family."""
    methods, families = ([*dict.fromkeys(x)] for x in zip(*((o.method, o.family) for o in found.outcomes), strict=True))
    return [
        Curve(f"{o.method}, {o.family}", o.std, methods.index(o.method), families.index(o.family))
        for o in found.outcomes
    ]


def write_noise_page(found: Comparison, path: Path, steps: Steps | None = None) -> None:
    """Write the comparison as one interactive HTML file."""
    drawn = plot_curves(noise_data(found), "standard deviation (kW)", steps, log=True)
    figure = figure_html("noise", drawn, "Noise of each plan by step", _STD)
    said = "".join(f"<li>{escape(text)}</li>" for text in noise_words(found))
    table = (
        f"<h2>Laplace or Gaussian</h2>{table_html(_QUIETER, QUIETER_HEAD, quieter_rows(found))}" if found.table else ""
    )
    body = f"""<style>.named td {{ white-space: nowrap; }}</style>
<header><h1>What hiding costs</h1><p class="lede">{found.facts.secrets:,} secrets of
{found.facts.households:,} households over {found.facts.steps:,} steps, read as {escape(found.neighbours)}.</p></header>
{_list_html((*found.warnings, *found.not_protected))}
<section><h2>The plans</h2>{table_html(_VERDICTS, NOISE_HEAD, noise_rows(found), named=True)}<ul>{said}</ul></section>
<section><h2>Noise over time</h2>{figure}</section>
<section>{table}</section>"""
    write_page(path, "halflife: what hiding costs", body)


def _list_html(points: Sequence[str]) -> str:
    listed = "".join(f"<li>{escape(text)}</li>" for text in points)
    return f'<section><h2>What is not protected</h2><ul class="open">{listed}</ul></section>'


def _facts(rows: Sequence[tuple[str, str]]) -> str:
    return "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in rows)
