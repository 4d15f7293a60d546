"""An audit as a page: the verdict, what was tried, and a plot of what was found against what was claimed."""

from __future__ import annotations

import math
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from halflife.audit.verdict import Finding, Verdict
from halflife.errors import visible
from halflife.lab.views.page import PALETTE, Figure, figure_html, layout, load_plotly, write_page
from halflife.lab.views.text import text_table

if TYPE_CHECKING:
    from rich.table import Table

FOUND = (
    "A bar beyond the dotted line accuses: more was found than is claimed. Lower bounds lie below it if all is well."
)
HOW = {
    "exact": "worked out again from the definition of the notion",
    "account": "what the notion's own account says, as nobody has derived its loss a second time",
    "attained": "what some outputs really tell, worked out from below: a rule that claims less is wrong",
    "sensitivity": "the engine's exact totals of neighbours, compared",
    "black box": "a lower bound on ε from the outputs of many runs, wrong with probability below one in a million in all",
    "noise size": "a lower bound on ε from the size of the noise, likewise",
    "silence": "everything but the values, compared between neighbours",
    "post-processing": "steps whose values do not follow from noisy values alone: worked out again, and for other exact totals",
    "observer": "what the promise allows: no fault",
}


def number(x: float) -> str:
    """Return a number in a few digits, a dash where there is none."""
    return "–" if math.isnan(x) else f"{x:.4g}"


def as_html(text: str) -> str:
    """Return a text for a page: names come from policies, so neither tags nor what cannot be seen goes into it as it is.

    >>> as_html("<b>\\x1b[1m\\u202e")
    '&lt;b&gt;\\\\u001b[1m\\\\u202e'
    """
    return escape(visible(text))


def share_data(verdict: Verdict) -> list[tuple[str, float, bool]]:
    """Return what was found as a share of what was claimed, for each finding that has both."""
    rows = [f for f in verdict.findings if f.claimed > 0 and math.isfinite(f.found)]
    return [(f"{f.name} ({f.how})", f.found / f.claimed, f.accused) for f in rows]


def plot_shares(verdict: Verdict) -> Figure:
    """Plot what was found against what was claimed: a bar beyond the line accuses."""
    go = load_plotly()
    rows = share_data(verdict)[::-1]
    look = layout("")
    look["xaxis"] = {"title": {"text": "found / claimed", "font": {"size": 13}}, "rangemode": "tozero"}
    look["yaxis"] = {"showticklabels": False, "showgrid": False, "zeroline": False, "range": [-0.6, len(rows) - 0.4]}
    look["hovermode"], look["barmode"], look["height"] = "closest", "overlay", 100 + 34 * len(rows)
    look["margin"] |= {"l": 16}
    line = {"dash": "dot", "color": "#888", "width": 2}
    look["shapes"] = [{"type": "line", "x0": 1, "x1": 1, "yref": "paper", "y0": 0, "y1": 1, "line": line}]
    names = [as_html(name) for name, _, _ in rows]  # Plotly reads tags in what it draws
    place = {"xref": "paper", "x": 0, "xanchor": "left", "yanchor": "bottom", "showarrow": False, "font": {"size": 11}}
    look["annotations"] = [{"text": name, "y": i, **place} for i, name in enumerate(names)]
    bars = [
        go.Bar(
            x=[x if accused is wanted else None for _, x, accused in rows], y=list(range(len(rows))),
            orientation="h", name=label, width=0.4, offset=-0.4, meta={"colours": PALETTE[colour]}, hovertext=names,
            hovertemplate="%{hovertext}<br>%{x:.4g} of what is claimed<extra></extra>",
        )
        for wanted, label, colour in ((False, "kept", 0), (True, "accused", 1))
    ]  # fmt: skip
    return go.Figure(data=bars, layout=look)


def _mark(f: Finding) -> str:
    """What a finding means for the promise: nothing if it is about what an observer may do."""
    return "accused" if f.accused else "" if f.how == "observer" else "kept"


def _row(f: Finding) -> str:
    name = f'<th scope="row">{as_html(f.name)}<span class="parameters">{as_html(f.detail)}</span></th>'
    cells = (f.how, number(f.claimed), number(f.found), _mark(f), f"{f.runs:,}" if f.runs else "", f"{f.seconds:.2f}")
    return f"<tr>{name}{''.join(f'<td>{as_html(c)}</td>' for c in cells)}</tr>"


def write_audit(verdict: Verdict, path: Path) -> None:
    """Write the page."""
    heads = ("what was tried", "how", "claimed", "found", "verdict", "runs", "seconds")
    said = (
        "Nothing that was tried breaks the promise." if verdict.good else "The promise is broken: see what is accused."
    )
    tried = {f.how for f in verdict.findings}
    ways = "".join(f"<li><b>{escape(how)}</b>: {escape(what)}</li>" for how, what in HOW.items() if how in tried)
    body = f"""<header><h1>Audit of {as_html(verdict.subject)}</h1>
<p class="lede"><b>{said}</b> An audit that finds nothing proves nothing: it says how much was looked at.</p></header>
{figure_html("found", plot_shares(verdict), "What was found as a share of what was claimed", FOUND)}
<div class="scroll"><table class="named"><thead><tr>{"".join(f'<th scope="col">{h}</th>' for h in heads)}</tr></thead>
<tbody>{"".join(map(_row, verdict.findings))}</tbody></table></div>
<ul>{ways}</ul>"""
    write_page(path, f"Audit of {visible(verdict.subject)}", body)


def findings_table(verdict: Verdict) -> Table:
    """Return the findings in a few columns, for a terminal."""
    rows = [(f.name, f.how, number(f.claimed), number(f.found), _mark(f), f"{f.seconds:.1f}") for f in verdict.findings]
    heads = ("what was tried", "how", "claimed", "found", "verdict", "seconds")
    return text_table(heads, rows, left=(0, 1), title=f"Audit of {verdict.subject}")
