"""The demo's report: one HTML file that needs no network, with interactive plots and what each promise leaves open.

`plot_…()` draw what the `…_data()` functions of `halflife.lab.demo` compute. Plotly is an optional part
(`pip install 'halflife[report]'`); its JavaScript is put into the page once.
"""

from __future__ import annotations

import json
from html import escape
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from halflife.errors import missing_extra
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
from halflife.notions.base import Floats

PALETTE = (
    ("#0072b2", "#56b4e9"),
    ("#c44e00", "#ff9a4d"),
    ("#00785a", "#2fc79d"),
    ("#a8478a", "#e39ac9"),
    ("#7d6100", "#e6c229"),
    ("#5b5fc7", "#a9acff"),
    ("#6b6b6b", "#b8b8b8"),
)
"""(on white, on black): the hues of Okabe and Ito, which colour-blind readers can tell apart, in shades that stand out."""

DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
INK = ("#1c2430", "#e8ecf1")


class View(NamedTuple):
    """A stretch of the time axis with the range of values that fits it."""

    label: str
    first: str
    last: str
    low: float
    high: float


def load_plotly() -> Any:
    """Return `plotly.graph_objects`, or say which extra to install."""
    try:
        import plotly.graph_objects as go
    except ImportError:
        raise missing_extra("plotly", "report", "an HTML report") from None
    return go


# Plots --------------------------------------------------------------------------------------------------------------


def plot_series(result: DemoResult, outcome: Outcome) -> Any:
    """Draw the exact and the published series with the band that holds 95 % of the published values."""
    go, data = load_plotly(), series_data(result, outcome)
    light, dark = PALETTE[result.outcomes.index(outcome) % len(PALETTE)]
    colours = {"meta": {"colours": (light, dark)}}
    edge = {**_clock(result), **colours, "mode": "lines", "line": {"width": 0}, "hoverinfo": "skip"}
    figure = go.Figure(layout=_layout("kWh per home and half hour"))
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
    figure = load_plotly().Figure(layout=_layout(title))
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


def _layout(y_title: str) -> dict[str, Any]:
    """What all plots share; the page's script puts in the reader's colours."""
    return {
        "template": "none",
        "font": {"family": "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif", "size": 13},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "margin": {"l": 64, "r": 16, "t": 8, "b": 48},
        "hovermode": "x unified",
        "dragmode": "zoom",
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
        "xaxis": {
            "type": "date",
            "title": {"text": "time (UTC)", "font": {"size": 13}},
            "hoverformat": "%a %-d %b %Y, %H:%M",
        },
        "yaxis": {"title": {"text": y_title, "font": {"size": 13}}, "zeroline": False, "automargin": True},
    }


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


def default_view(views: list[View]) -> View:
    """Return the view that a plot opens with: the last week, or everything if there is not more than a week."""
    return next((v for v in views if v.label == "Last week"), views[0])


# The page -----------------------------------------------------------------------------------------------------------


def write_report(result: DemoResult, path: Path) -> None:
    """Write the report as one HTML file that needs nothing else."""
    load_plotly()
    from plotly.offline import get_plotlyjs

    body = [_opening(result), _error_table(result), _overview(result)]
    body += [_section(result, outcome) for outcome in result.outcomes]
    title = f"halflife demo: {result.households:,} homes, {result.days:,} days"
    path.write_text(_page(title, "\n".join(body), _made_by(result), get_plotlyjs()), encoding="utf-8")


def _page(title: str, body: str, footer: str, plotly: str) -> str:
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>{escape(title)}</title>
<style>{_STYLE}</style>
</head>
<body>
<main>
{body}
</main>
<footer>{escape(footer)}</footer>
<noscript><p>The plots need JavaScript; the table and the certificates do not.</p></noscript>
<script>{plotly}</script>
<script>{_SCRIPT}</script>
</body>
</html>
"""


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
    scales = _figure(
        "scales", plot_scales(result), f"Noise scale over time. At the last step: {last}.",
        "Scale of the noise at each step: the mean absolute noise if it is Laplace, the standard deviation if Gaussian.",
    )  # fmt: skip
    risks = _figure(
        "risks", plot_risks(result), f"Risk as a share of the promise over time. At the last step: {used}.",
        "Risk after each step, divided by what is promised (the line at 100 %).",
    )  # fmt: skip
    return f"""<section aria-labelledby="over-time">
<h2 id="over-time">Noise and risk over time</h2>
{scales}
{risks}
</section>"""


def _section(result: DemoResult, outcome: Outcome) -> str:
    """One notion: first what it does not protect, then what it published, last the certificate."""
    i = result.outcomes.index(outcome)
    certificate = outcome.plan.certificate()
    open_points = "".join(f"<li>{escape(text)}</li>" for text in certificate["not_protected"])
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
<h3>What was published</h3>
<p>{escape(definition)}</p>
{_figure(f"series-{i}", plot_series(result, outcome), label, caption, views)}
<details><summary>Certificate of the plan (JSON)</summary>
<pre tabindex="0">{escape(json.dumps(certificate, indent=2, ensure_ascii=False))}</pre></details>
</section>"""


def _figure(name: str, figure: Any, label: str, caption: str, views: list[View] | None = None) -> str:
    """A plot with its caption, a text for those who do not see it, and buttons for its views."""
    spec = figure.to_json()  # Plotly writes < as \u003c, so nothing can end the script early
    buttons = "".join(_button(view, view == default_view(views)) for view in views) if views else ""
    group = f'<div class="views" role="group" aria-label="Time span of the plot">{buttons}</div>' if buttons else ""
    return f"""<figure>{group}
<div class="plot" id="{escape(name)}" style="--lines: {len(figure.data)}" role="group" aria-label="{escape(label)}"></div>
<script type="application/json" data-plot="{escape(name)}">{spec}</script>
<figcaption>{escape(caption)}</figcaption></figure>"""


def _button(view: View, pressed: bool) -> str:
    span = json.dumps({"xaxis.range": [view.first, view.last], "yaxis.range": [view.low, view.high]})
    state = "true" if pressed else "false"
    return f'<button type="button" aria-pressed="{state}" data-span="{escape(span)}">{escape(view.label)}</button>'


_STYLE = """
:root { --ink: #1c2430; --soft: #55606e; --paper: #ffffff; --rule: #d9dee5; --tint: #f4f6f9; --link: #005a8d;
  --warn: #c44e00; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8ecf1; --soft: #a9b3c0; --paper: #12161c; --rule: #323a45; --tint: #1b212a; --link: #7cc4f2;
    --warn: #ff9a4d; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; }
main, footer { max-width: 1120px; margin: 0 auto; padding: 2rem 1.25rem 1rem; }
h1 { font-size: 1.9rem; line-height: 1.2; letter-spacing: -0.01em; margin: 0 0 .75rem; }
h2 { font-size: 1.35rem; line-height: 1.3; margin: 2.75rem 0 .5rem; }
h3 { font-size: 1rem; margin: 1.25rem 0 .25rem; }
p { margin: .5rem 0 1rem; max-width: 75ch; }
a { color: var(--link); }
:focus-visible { outline: 3px solid var(--link); outline-offset: 2px; }
.lede { font-size: 1.08rem; }
.facts { display: flex; flex-wrap: wrap; gap: .5rem 2rem; margin: 1rem 0 0; }
.facts dt, caption, figcaption, footer, .parameters { color: var(--soft); }
.facts dt { font-size: .85rem; }
.facts dd { margin: 0; font-variant-numeric: tabular-nums; }
.parameters { font-weight: 400; font-size: 1rem; margin-left: .4rem; }
th .parameters { display: block; font-size: .85rem; margin: 0; }
footer { font-size: .9rem; padding-bottom: 3rem; }
.scroll { overflow-x: auto; margin-bottom: 1rem; }
table { border-collapse: collapse; width: 100%; font-size: .93rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; padding-bottom: .6rem; }
th, td { padding: .45rem .7rem; text-align: right; border-bottom: 1px solid var(--rule); vertical-align: bottom; }
thead th { font-weight: 600; border-bottom: 2px solid var(--ink); line-height: 1.3; }
th:first-child { text-align: left; padding-left: 0; min-width: 12rem; }
tbody th { font-weight: 400; }
.open { margin: .25rem 0 1rem; padding: .6rem 1rem .6rem 2rem; background: var(--tint);
  border-left: 4px solid var(--warn); max-width: 80ch; }
figure { margin: 1rem 0 1.5rem; }
figcaption { font-size: .9rem; }
.plot { height: 400px; width: 100%; }
@media (max-width: 640px) { .plot { height: calc(300px + var(--lines) * 20px); } }
.views { display: flex; flex-wrap: wrap; gap: .4rem; margin-bottom: .25rem; }
.views button { font: inherit; font-size: .88rem; padding: .25rem .7rem; border: 1px solid var(--rule); border-radius: 4px;
  background: var(--tint); color: var(--ink); cursor: pointer; }
.views button[aria-pressed="true"] { background: var(--ink); color: var(--paper); border-color: var(--ink); }
.plot:focus-within .modebar--hover { opacity: 1 !important; }
summary { cursor: pointer; }
pre { overflow: auto; max-height: 30rem; background: var(--tint); padding: 1rem; font-size: .85rem; line-height: 1.45; }
"""

_SCRIPT = """
"use strict";
const night = matchMedia("(prefers-color-scheme: dark)");
const shade = () => (night.matches ? 1 : 0);
const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function paint(figure) {
  for (const trace of figure.data) {
    const c = trace.meta.colours[shade()];
    if (trace.line.width) trace.line.color = c;
    if (trace.fill) trace.fillcolor = c + "2e";
  }
  const layout = figure.layout;
  layout.font.color = colour("--ink");
  layout.modebar = { bgcolor: colour("--paper"), color: colour("--soft"), activecolor: colour("--ink") };
  layout.hoverlabel = { bgcolor: colour("--paper"), bordercolor: colour("--rule"), font: { color: colour("--ink") } };
  for (const axis of [layout.xaxis, layout.yaxis])
    Object.assign(axis, { gridcolor: colour("--rule"), linecolor: colour("--rule"), zerolinecolor: colour("--soft") });
  return figure;
}

for (const source of document.querySelectorAll("script[data-plot]")) {
  const plot = document.getElementById(source.dataset.plot);
  const buttons = [...plot.parentElement.querySelectorAll("button[data-span]")];
  const press = chosen => buttons.forEach(b => b.setAttribute("aria-pressed", String(b === chosen)));
  const figure = paint(JSON.parse(source.textContent));
  // The buttons are named one by one: by default Plotly adds one that uploads the chart.
  const modeBarButtons = [["toImage"], ["zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"]];
  const config = { responsive: true, displaylogo: false, plotlyServerURL: "", modeBarButtons };
  Plotly.newPlot(plot, figure.data, figure.layout, config).then(() => {
    plot.on("plotly_relayout", change => Object.keys(change).some(k => k.startsWith("xaxis")) && press(null));
    night.addEventListener("change", () => Plotly.react(plot, paint({ data: plot.data, layout: plot.layout })));
  });
  for (const button of buttons)
    button.addEventListener("click", () => {
      Plotly.relayout(plot, JSON.parse(button.dataset.span)).then(() => press(button));
    });
}
"""
