"""The legend of a plot as a list beside it: it wraps like text, takes no room from the plot, and its entries hide lines."""

from __future__ import annotations

from html import escape, unescape
from typing import Any

DASHES = {
    "solid": "none", "dash": "8 8", "dot": "2.5 2.5", "dashdot": "8 2.5 2.5 2.5", "longdash": "13 13",
    "longdashdot": "13 5 2.5 5",
}  # fmt: skip
"""Plotly's dashes of a line 2.5 px wide, as SVG has them."""


def legend_html(figure: Any) -> str:
    """Return a plot's legend as HTML, nothing for a single line; the page's script makes its buttons work.

    figure  a Plotly figure; lines with `showlegend=False` are left out, and so are colours with a scale of their own
    """
    lines = [
        (i, trace) for i, trace in enumerate(figure.data) if trace.showlegend is not False and trace.type != "heatmap"
    ]
    if len(lines) < 2:
        return ""
    return f'<ul class="keys" aria-label="Lines of the plot">{"".join(_entry(i, trace) for i, trace in lines)}</ul>'


def _entry(i: int, trace: Any) -> str:
    light, dark = (escape(colour) for colour in trace.meta["colours"])
    name = escape(unescape(trace.name or ""), quote=False)  # Plotly's names are HTML; this one is text
    return (
        f'<li style="--light: {light}; --dark: {dark}"><button type="button" aria-pressed="true" data-line="{i}">'
        f'<svg width="40" height="12" aria-hidden="true">{_sample(trace)}</svg>{name}</button></li>'
    )


def _sample(trace: Any) -> str:
    """A piece of what is drawn: a bar, an area, a mark, or a line with its dashes."""
    if trace.type == "bar":
        return '<rect class="area solid" width="40" height="12"/>'
    area = '<rect class="area" width="40" height="12"/>' if trace.fill else ""
    if trace.mode == "markers":
        return f'{area}<circle cx="20" cy="6" r="4"/>'
    if not trace.line.width:
        return area
    dash = DASHES[trace.line.dash or "solid"]
    return f'{area}<line x1="0" x2="40" y1="6" y2="6" stroke-width="2.5" stroke-dasharray="{dash}"/>'
