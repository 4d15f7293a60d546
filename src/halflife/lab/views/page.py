"""The HTML page that reports share: it needs no network, follows the reader's light or dark setting, and holds Plotly once.

Plotly is an optional part (`pip install 'halflife[report]'`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from halflife.errors import InvalidInput, missing_extra
from halflife.lab.views.legend import legend_html

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
TOOLBAR = 32
"""Room above a plot for Plotly's buttons, in pixels: they show while the pointer is over it, and cover no line."""
FAINT = ("#8a8f98", "#8a8f98")
"""Noisy values behind what was estimated from them."""

Figure = Any
"""A Plotly figure; Plotly, which has no types, is loaded when one is drawn."""


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


def layout(y_title: str, **xaxis: object) -> dict[str, Any]:
    """Return what all plots share; `xaxis` changes the axis of time. The page's script puts in the reader's colours."""
    time = {
        "type": "date",
        "title": {"text": "time (UTC)", "font": {"size": 13}},
        "hoverformat": "%a %-d %b %Y, %H:%M",
        "spikethickness": 1,
        "automargin": True,  # labels that are turned push the title down
    }
    return {
        "template": "none",
        "font": {"family": "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif", "size": 13},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "margin": {"l": 64, "r": 16, "t": TOOLBAR, "b": 48},
        "hovermode": "x unified",
        "dragmode": "zoom",
        "showlegend": False,  # `figure_html` writes it beside the plot
        "xaxis": {**time, **xaxis},
        "yaxis": {"title": {"text": y_title, "font": {"size": 13}}, "zeroline": False, "automargin": True},
    }


def default_view(views: list[View]) -> View:
    """Return the view that a plot opens with: the last week, or everything if there is not more than a week."""
    return next((v for v in views if v.label == "Last week"), views[0])


def write_page(path: Path, title: str, body: str, footer: str = "", *, plots: bool = True) -> None:
    """Write one HTML file that needs nothing else; `body` is HTML, title and footer (after who made it) are plain text.

    plots  whether it has any: Plotly is left out of a page without
    """
    if path.suffix.lower() not in (".html", ".htm"):
        raise InvalidInput(f"a page is a file that ends in .html, not {path}: another file might be written over")
    made_by = f"Made by halflife {version('halflife')}{footer or '.'}"
    scripts = _scripts() if plots else ""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_page(title, body, made_by, scripts), encoding="utf-8")
    except OSError as error:
        raise InvalidInput(f"cannot write {path}: {error.strerror or error}: choose another file") from error


def _scripts() -> str:
    """What draws the plots of a page."""
    load_plotly()
    from plotly.offline import get_plotlyjs

    return f"""<noscript><p>The plots need JavaScript; the rest of the page does not.</p></noscript>
<script>{get_plotlyjs()}</script>
<script>{SCRIPT}</script>
"""


def _page(title: str, body: str, footer: str, scripts: str) -> str:
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>{escape(title)}</title>
<style>{STYLE}</style>
</head>
<body>
<main>
{body}
</main>
<footer>{escape(footer)}</footer>
{scripts}</body>
</html>
"""


def figure_html(name: str, figure: Figure, label: str, caption: str, views: list[View] | None = None) -> str:
    """Return a plot as HTML, with its legend, its caption, a text for those who do not see it, and buttons for its views."""
    height = figure.layout.height
    figure.update_layout(height=None)  # the page gives a plot its room
    tall = f' style="height: {height}px"' if height else ""
    spec = figure.to_json()  # Plotly writes < as \u003c, so nothing can end the script early
    buttons = "".join(_button(view, view == default_view(views)) for view in views) if views else ""
    group = f'<div class="views" role="group" aria-label="Time span of the plot">{buttons}</div>' if buttons else ""
    return f"""<figure>{group}{legend_html(figure)}
<div class="plot" id="{escape(name)}"{tall} role="group" aria-label="{escape(label)}"></div>
<script type="application/json" data-plot="{escape(name)}">{spec}</script>
<figcaption>{escape(caption)}</figcaption></figure>"""


def table_html(
    caption: str,
    heads: Sequence[str],
    lines: Sequence[Sequence[str]],
    styles: Sequence[str] | None = None,
    *,
    named: bool = False,
    html_names: bool = False,
) -> str:
    """Return a table in HTML that scrolls where it is too wide; the first cell of each line names it.

    styles      a CSS style for each column
    named       the second column holds names
    html_names  the first cells are HTML, not text
    """
    style = [f' style="{s}"' for s in styles] if styles else [""] * len(heads)
    unbroken = '<span style="white-space: nowrap">|ρ|</span>'
    head = "".join(
        f'<th scope="col"{s}>{escape(h).replace("|ρ|", unbroken)}</th>' for h, s in zip(heads, style, strict=True)
    )
    body = ""
    for line in lines:
        cells = "".join(f"<td{s}>{escape(c)}</td>" for c, s in zip(line[1:], style[1:], strict=True))
        body += f'<tr><th scope="row"{style[0]}>{line[0] if html_names else escape(line[0])}</th>{cells}</tr>\n'
    look = ' class="named"' if named else ""
    return f"""<div class="scroll" tabindex="0" role="region" aria-label="{escape(caption)}"><table{look}>
<caption><span>{escape(caption)}</span></caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"""


def _button(view: View, pressed: bool) -> str:
    span = json.dumps({"xaxis.range": [view.first, view.last], "yaxis.range": [view.low, view.high]})
    state = "true" if pressed else "false"
    return f'<button type="button" aria-pressed="{state}" data-span="{escape(span)}">{escape(view.label)}</button>'


STYLE = """
:root { --ink: #1c2430; --soft: #55606e; --paper: #ffffff; --rule: #d9dee5; --tint: #f4f6f9; --link: #005a8d;
  --warn: #c44e00; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8ecf1; --soft: #a9b3c0; --paper: #12161c; --rule: #323a45; --tint: #1b212a; --link: #7cc4f2;
    --warn: #ff9a4d; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); overflow-wrap: anywhere;
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
table { overflow-wrap: normal; border-collapse: collapse; width: 100%; font-size: .93rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; padding-bottom: .6rem; }
caption span { display: inline-block; position: sticky; left: 0; max-width: min(75ch, 100vw - 3rem); }
th, td { padding: .45rem .7rem; text-align: right; border-bottom: 1px solid var(--rule); vertical-align: bottom; }
thead th { font-weight: 600; border-bottom: 2px solid var(--ink); line-height: 1.3; }
th:first-child { text-align: left; padding-left: 0; min-width: 12rem; }
tbody th { font-weight: 400; }
.named :is(th, td):nth-child(2) { text-align: left; }
.open { margin: .25rem 0 1rem; padding: .6rem 1rem .6rem 2rem; background: var(--tint);
  border-left: 4px solid var(--warn); max-width: 80ch; }
figure { margin: 1rem 0 1.5rem; }
figcaption { font-size: .9rem; }
.plot { height: 400px; width: 100%; }
@media (max-width: 640px) { .plot { height: 320px; } }
.views, .keys { display: flex; flex-wrap: wrap; gap: .4rem; margin: 0 0 .25rem; padding: 0; list-style: none; }
.keys { gap: 0 1.2rem; margin-top: .5rem; }
.keys button { font: inherit; font-size: .88rem; line-height: 1.35; padding: .15rem 0; border: 0; background: none;
  color: var(--ink); cursor: pointer; text-align: left; display: flex; gap: .5rem; align-items: center; }
.keys button[aria-pressed="false"] { color: var(--soft); text-decoration: line-through; }
.keys svg { flex: none; fill: none; stroke: var(--light); stroke-width: 2; }
.keys .area { stroke: none; fill: var(--light); fill-opacity: .18; } .keys .solid { fill-opacity: 1; }
@media (prefers-color-scheme: dark) { .keys svg { stroke: var(--dark); } .keys .area { fill: var(--dark); } }
.keys [aria-pressed="false"] svg { opacity: .35; }
.views button { font: inherit; font-size: .88rem; padding: .25rem .7rem; border: 1px solid var(--rule); border-radius: 4px;
  background: var(--tint); color: var(--ink); cursor: pointer; }
.views button[aria-pressed="true"] { background: var(--ink); color: var(--paper); border-color: var(--ink); }
.plot:focus-within .modebar--hover { opacity: 1 !important; }
summary { cursor: pointer; }
@media print { main, footer { max-width: none; padding: 0; } h2 { break-after: avoid; } tr, li { break-inside: avoid; }
  .scroll { overflow: visible; } }
pre { overflow: auto; max-height: 30rem; background: var(--tint); padding: 1rem; font-size: .85rem; line-height: 1.45; }
"""

SCRIPT = """
"use strict";
const SMALL = 560;  // a plot of fewer pixels has no buttons, and no room for them
const night = matchMedia("(prefers-color-scheme: dark)");
const shade = () => (night.matches ? 1 : 0);
const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function paint(figure) {
  for (const trace of figure.data) {
    const c = trace.meta.colours[shade()];
    if (trace.type === "bar") trace.marker = { color: c };
    else if (trace.line && trace.line.width) trace.line.color = c;
    if (trace.fill) trace.fillcolor = c + "2e";
  }
  const layout = figure.layout;
  layout.font.color = colour("--ink");
  layout.modebar = { bgcolor: colour("--paper"), color: colour("--soft"), activecolor: colour("--ink") };
  layout.hoverlabel = { bgcolor: colour("--paper"), bordercolor: colour("--rule"), font: { color: colour("--ink") } };
  for (const axis of [layout.xaxis, layout.yaxis])
    Object.assign(axis, { gridcolor: colour("--rule"), linecolor: colour("--rule"), zerolinecolor: colour("--soft"),
      spikecolor: colour("--soft") });
  return figure;
}

for (const source of document.querySelectorAll("script[data-plot]")) {
  const plot = document.getElementById(source.dataset.plot);
  const buttons = [...plot.parentElement.querySelectorAll("button[data-span]")];
  const keys = [...plot.parentElement.querySelectorAll("button[data-line]")];
  const press = chosen => buttons.forEach(b => b.setAttribute("aria-pressed", String(b === chosen)));
  const figure = paint(JSON.parse(source.textContent));
  // The buttons are named one by one: by default Plotly adds one that uploads the chart.
  const modeBarButtons = [["toImage"], ["zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"]];
  const displayModeBar = plot.clientWidth > SMALL && "hover";
  const config = { responsive: true, displaylogo: false, plotlyServerURL: "", displayModeBar, modeBarButtons };
  if (!displayModeBar) figure.layout.margin.t = 8;
  Plotly.newPlot(plot, figure.data, figure.layout, config).then(() => {
    plot.on("plotly_relayout", change => Object.keys(change).some(k => k.startsWith("xaxis")) && press(null));
    night.addEventListener("change", () => Plotly.react(plot, paint({ data: plot.data, layout: plot.layout })));
  });
  for (const button of buttons)
    button.addEventListener("click", () => {
      Plotly.relayout(plot, JSON.parse(button.dataset.span)).then(() => press(button));
    });
  for (const key of keys)
    key.addEventListener("click", () => {
      const shown = key.getAttribute("aria-pressed") !== "true";
      Plotly.restyle(plot, { visible: shown }, [Number(key.dataset.line)]);
      key.setAttribute("aria-pressed", String(shown));
    });
}
"""
