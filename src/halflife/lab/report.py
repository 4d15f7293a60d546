"""The demo's report: one HTML file that needs no network, with interactive plots and what each promise leaves open.

`plot_…()` draw what the `…_data()` functions of `halflife.lab.demo` compute; `halflife.lab.page` makes the page of them.
"""

from __future__ import annotations

import json
from html import escape
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from halflife.lab.demo import (
    DemoResult,
    Outcome,
    error_data,
    parameters,
    risk_data,
    scale_data,
    series_data,
    three_figures,
)
from halflife.lab.households import MAX_KWH, SLOTS_PER_DAY
from halflife.lab.page import DASHES, INK, PALETTE, View, default_view, figure_html, layout, load_plotly, write_page
from halflife.lab.plan_view import classical_words
from halflife.notions.base import Floats

# Plots --------------------------------------------------------------------------------------------------------------


def plot_series(result: DemoResult, outcome: Outcome) -> Any:
    """Draw the exact and the published series with the band that holds 95 % of the published values."""
    go, data = load_plotly(), series_data(result, outcome)
    light, dark = PALETTE[result.outcomes.index(outcome) % len(PALETTE)]
    colours = {"meta": {"colours": (light, dark)}}
    edge = {**_clock(result), **colours, "mode": "lines", "line": {"width": 0}, "hoverinfo": "skip"}
    figure = go.Figure(layout=layout("kWh per home and half hour"))
    figure.add_scatter(y=data["low"], showlegend=False, **edge)
    figure.add_scatter(
        y=data["high"], name="95 % of the published values", fill="tonexty", fillcolor=light + "2e", **edge
    )
    figure.add_scatter(
        y=data["published"], name="published", mode="lines", line={"color": light, "width": 1.2},
        hovertemplate="%{y:.4~g} kWh", **_clock(result), **colours,
    )  # fmt: skip
    figure.add_scatter(
        y=data["exact"], name="exact", mode="lines", line={"color": INK[0], "width": 2},
        meta={"colours": INK}, hovertemplate="%{y:.3f} kWh", **_clock(result),
    )  # fmt: skip
    view = default_view(series_views(result, outcome))
    figure.update_xaxes(range=[view.first, view.last])
    figure.update_yaxes(range=[view.low, view.high], zeroline=True)
    return figure


def plot_scales(result: DemoResult) -> Any:
    """Draw the noise scale of every notion over time, on a logarithmic axis."""
    figure = _lines(result, scale_data(result), "noise scale (kWh, log)", "%{y:.3~g} kWh")
    figure.update_yaxes(type="log", tickformat=",~r", nticks=6)
    return figure


def plot_risks(result: DemoResult) -> Any:
    """Draw the share of the promise that is in use after each step, for every notion."""
    figure = _lines(result, risk_data(result), "risk, as a share of the promise", "%{y:.1%}")
    figure.update_yaxes(tickformat=".0%", range=[0, 1.08])
    figure.add_hline(y=1.0, line={"color": "#8a8f98", "width": 1}, layer="below")
    return figure


def _lines(result: DemoResult, lines: dict[str, Floats], title: str, hover: str) -> Any:
    """One line for each notion, told apart by colour and by dash."""
    figure = load_plotly().Figure(layout=layout(title))
    for i, (label, y) in enumerate(lines.items()):
        colours, dash = PALETTE[i % len(PALETTE)], DASHES[i % len(DASHES)]
        figure.add_scatter(
            y=y, name=escape(label, quote=False), mode="lines", line={"color": colours[0], "width": 2.5, "dash": dash},
            meta={"colours": colours}, hovertemplate=hover, **_clock(result),
        )  # fmt: skip
    return figure


def _clock(result: DemoResult) -> dict[str, Any]:
    """Steps as wall-clock time: the first half hour and the width of one in milliseconds."""
    return {"x0": str(result.times[0]), "dx": 86_400_000 // SLOTS_PER_DAY}


def series_views(result: DemoResult, outcome: Outcome) -> list[View]:
    """Return the stretches that a reader can jump to; each has the values' own range, which a zoom in time alone lacks."""
    steps = len(result.exact)
    day, week = min(steps, SLOTS_PER_DAY), min(steps, 7 * SLOTS_PER_DAY)
    spans = {"Everything": (0, steps), "First week": (0, week), "Last week": (steps - week, steps)}
    if week == steps:
        spans = {"Everything": (0, steps)}
    if day < steps:
        spans["Last day"] = (steps - day, steps)
    lines = np.stack(list(series_data(result, outcome).values()))
    width = np.timedelta64(1440 // SLOTS_PER_DAY, "m")
    views = []
    for label, (a, b) in spans.items():
        low, high = float(lines[:, a:b].min()), float(lines[:, a:b].max())
        pad = 0.04 * (high - low)
        views.append(View(label, str(result.times[a]), str(result.times[b - 1] + width), low - pad, high + pad))
    return views


# The page -----------------------------------------------------------------------------------------------------------


def write_report(result: DemoResult, path: Path) -> None:
    """Write the report as one HTML file that needs nothing else."""
    body = [_opening(result), _error_table(result), _overview(result)]
    body += [_section(result, outcome) for outcome in result.outcomes]
    title = f"halflife demo: {result.households:,} homes, {result.days:,} days"
    write_page(path, title, "\n".join(body), _made_by(result))


def _made_by(result: DemoResult) -> str:
    return (
        f"Made by halflife {version('halflife')}. The published values are in {result.parquet.name}, beside this page."
    )


def _opening(result: DemoResult) -> str:
    """Two sentences on what the reader sees, and the numbers that everything below depends on."""
    first = result.times[0].astype(object)
    facts = {
        "Homes": f"{result.households:,} (generated, seed {result.seed})",
        "Steps": f"{len(result.exact):,} half hours from {first.day} {first:%B %Y}",
        "Exact mean": f"{three_figures(float(result.exact.mean()))} kWh per half hour",
        "Sensitivity": f"{three_figures(result.sensitivity)} kWh ({MAX_KWH:g} kWh / {result.households:,})",
    }
    items = "".join(f"<div><dt>{escape(k)}</dt><dd>{escape(v)}</dd></div>" for k, v in facts.items())
    return f"""<header>
<h1>A town's electricity, published every half hour</h1>
<p class="lede">This page compares the mean electricity use per home, half hour by half hour, with what would be published
of it under each privacy promise that halflife knows. The homes are generated by a simulator, which is the only reason why
exact values can be shown here; the noise is real release-grade noise and differs from run to run.</p>
<dl class="facts">{items}</dl>
</header>"""


def _parameters(outcome: Outcome) -> str:
    return f'<span class="parameters">{escape(parameters(outcome.notion))}</span>'


def _error_table(result: DemoResult) -> str:
    heads = (
        "Promise", "Noise scale, mean (kWh)", "Noise scale, last step (kWh)", "Mean absolute error (kWh)",
        "Relative error", "Risk at the end (nats)", "Promised at most (nats)", "Largest share of the promise used",
    )  # fmt: skip
    lines = []
    for i, (row, outcome) in enumerate(zip(error_data(result), result.outcomes, strict=True)):
        cells = (
            three_figures(row.mean_scale), three_figures(row.last_scale), three_figures(row.mean_absolute_error),
            f"{three_figures(100 * row.relative_error)} %", three_figures(row.last_risk), three_figures(row.limit),
            f"{100 * row.largest_share:.1f} %",
        )  # fmt: skip
        name = f'<a href="#notion-{i}">{escape(outcome.notion.name)}</a> {_parameters(outcome)}'
        lines.append(f'<tr><th scope="row">{name}</th>{"".join(f"<td>{escape(c)}</td>" for c in cells)}</tr>')
    head = "".join(f'<th scope="col">{escape(h)}</th>' for h in heads)
    return f"""<section aria-labelledby="errors">
<h2 id="errors">How large the errors are</h2>
<div class="scroll" tabindex="0" role="region" aria-label="Table of errors">
<table><caption>Noise, error and risk of each promise over the whole run.</caption>
<thead><tr>{head}</tr></thead><tbody>{"".join(lines)}</tbody></table></div>
<p>The relative error is the mean absolute error divided by the mean of the exact values. Noise is measured against one
home's largest possible part in the mean: with ten times as many homes, every scale and every error is ten times smaller.</p>
</section>"""


def _overview(result: DemoResult) -> str:
    """The two plots that hold all notions."""
    last = "; ".join(f"{label}: {three_figures(float(y[-1]))} kWh" for label, y in scale_data(result).items())
    used = "; ".join(f"{label}: {100 * float(y[-1]):.1f} %" for label, y in risk_data(result).items())
    scales = figure_html(
        "scales", plot_scales(result), f"Noise scale over time. At the last step: {last}.",
        "Scale of the noise at each step: the mean absolute noise if it is Laplace, the standard deviation if Gaussian.",
    )  # fmt: skip
    risks = figure_html(
        "risks", plot_risks(result), f"Risk as a share of the promise over time. At the last step: {used}.",
        "Risk after each step, divided by what is promised (the line at 100 %).",
    )  # fmt: skip
    return f"""<section aria-labelledby="over-time">
<h2 id="over-time">Noise and risk over time</h2>
{scales}
{risks}
</section>"""


def _section(result: DemoResult, outcome: Outcome) -> str:
    """One notion: first what it does not protect, then what it comes to, what it published, and the certificate."""
    i = result.outcomes.index(outcome)
    certificate = outcome.plan.certificate()
    open_points = "".join(f"<li>{escape(text)}</li>" for text in certificate["not_protected"])
    said = [*certificate["in_other_words"], classical_words(outcome.plan)]
    words = "".join(f"<li>{escape(text)}</li>" for text in said)
    definition = outcome.notion.summary
    band, mean = three_figures(float(outcome.error_band[-1])), three_figures(float(result.exact.mean()))
    caption = (
        f"At the last step 95 % of the noise lies within ± {band} kWh; the mean of the exact values is {mean} kWh."
    )
    label = f"Exact and published mean use per home under {outcome.label}. {caption}"
    views = series_views(result, outcome)
    return f"""<section aria-labelledby="notion-{i}">
<h2 id="notion-{i}">{escape(outcome.notion.name)} {_parameters(outcome)}</h2>
<h3>What is not protected</h3>
<ul class="open">{open_points}</ul>
<h3>In other words</h3>
<ul>{words}</ul>
<h3>What was published</h3>
<p>{escape(definition)}</p>
{figure_html(f"series-{i}", plot_series(result, outcome), label, caption, views)}
<details><summary>Certificate of the plan (JSON)</summary>
<pre tabindex="0">{escape(json.dumps(certificate, indent=2, ensure_ascii=False))}</pre></details>
</section>"""
