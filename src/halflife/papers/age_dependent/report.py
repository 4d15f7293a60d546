"""The report of `halflife reproduce age-dependent`: plots of what the reproduction computes, and the files."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from halflife.errors import InvalidInput
from halflife.lab.age_dependent.check_view import CAPTIONS, HEADS, check_data, plot_check
from halflife.lab.views.page import DASHES, PALETTE, figure_html, layout, load_plotly, write_page
from halflife.papers.age_dependent.model import CHAIN, TOWN_EPSILON, odds
from halflife.papers.age_dependent.reproduction import (
    DISTANCE_HEADS,
    ERRATA_HEADS,
    REDUCTION_HEADS,
    RISK_HEADS,
    TOWN_HEADS,
    Reproduction,
    chance_words,
    distance_cells,
    numbers_json,
    reduction_cells,
    risk_cells,
    risks_csv,
    shown,
    tables_markdown,
    town_cells,
)
from halflife.papers.figures import Curve, Panel

TITLE = "Age-dependent differential privacy, reproduced"


def write_all(found: Reproduction, folder: Path) -> list[Path]:
    """Write report.html, tables.md, risks.csv and numbers.json; return what was written."""
    load_plotly()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        texts = {
            "tables.md": tables_markdown(found),
            "risks.csv": risks_csv(found.rows),
            "numbers.json": numbers_json(found),
        }
        write_page(folder / "report.html", TITLE, _body(found), _made_by())
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidInput(f"cannot write to {folder}: {error.strerror or error}: choose another folder") from error
    return [folder / "report.html", *(folder / name for name in texts)]


# Plots --------------------------------------------------------------------------------------------------------------


def plot(panel: Panel) -> Any:
    """Draw a panel."""
    axis = {"type": "log" if panel.log_x else "linear", "title": {"text": panel.x_title, "font": {"size": 13}}}
    figure = load_plotly().Figure(layout=layout(panel.y_title, **axis, hoverformat=".3~g", zeroline=False))
    if panel.log_x:
        figure.update_xaxes(tickformat="~g", dtick="D2" if _span(panel.x) < 300 else 1)
    for curve in panel.curves:
        _draw(figure, panel, curve)
    if panel.log_y:
        drawn = np.concatenate([curve.y for curve in panel.curves])
        figure.update_yaxes(type="log", tickformat="~g", dtick="D2" if _span(drawn[drawn > 0]) < 50 else 1)
    elif panel.y_most is not None:
        figure.update_yaxes(range=[0, panel.y_most])
    else:
        figure.update_yaxes(rangemode="tozero")
    return figure


def _span(values: Any) -> float:
    return float(np.nanmax(values) / np.nanmin(values))


def _draw(figure: Any, panel: Panel, curve: Curve) -> None:
    colours = PALETTE[curve.colour]
    style = {"color": colours[0], "width": 2.5, "dash": DASHES[curve.dash]}
    # Marks take the line's colour, which the page's script changes with the reader's setting.
    figure.add_scatter(
        x=panel.x, y=curve.y, name=escape(curve.name, quote=False), mode="markers" if curve.marks else "lines",
        line=style, marker={"size": 8, "symbol": "circle-open", "line": {"width": 2}},
        meta={"colours": colours}, hovertemplate="%{y:.4~g}",
    )  # fmt: skip


# The page -----------------------------------------------------------------------------------------------------------


def _made_by() -> str:
    return f"Made by halflife {version('halflife')} (reproduce age-dependent). The numbers are in the files beside this page."


def _body(found: Reproduction) -> str:
    return "\n".join(
        (
            _opening(found),
            _london(found),
            _check(found),
            _towns(found),
            _sequences(found),
            _one_release(found),
            _errata(found),
        )
    )


def _opening(found: Reproduction) -> str:
    notes = "".join(f"<li>{escape(note)}</li>" for note in found.source.notes)
    return f"""<header><h1>{TITLE}</h1>
<p class="lede">The figures of Zhang, Wei, Berry and Huang, <i>Age-dependent differential privacy</i>, recomputed from its
formulas, with halflife's own curve beside each. Data: {escape(found.source.name)}. Where the paper's text prints no
parameters they are ours, and said to be.</p></header>
<section aria-labelledby="open"><h2 id="open">What to know first</h2><ul class="open">
<li>{escape(found.check.verdict)}</li>
<li>Age-dependent privacy is about where a person is <i>now</i>. Later releases tell more about where they were, and a whole
trajectory costs the sum of all losses. People must be independent of each other: under the same weather they are not.</li>
<li>Eq. 55 is about reversible chains. Of the {found.reversible.chains} chains fitted here with more than two states,
{found.reversible.reversible} are reversible, so its curve is drawn and is no bound (A8).</li>{notes}</ul></section>"""


def _panels(panels: Sequence[Panel]) -> str:
    parts = []
    for panel in panels:
        name = "f" + "".join(c for c in panel.name if c.isalnum())
        heading = f"Figure {panel.name}: {panel.title}" if panel.name[0].isdigit() else panel.title
        drawn = figure_html(name, plot(panel), f"{heading}. {panel.said}", panel.said)
        parts.append(f"<h3>{escape(heading)}</h3>{drawn}")
    return "".join(parts)


def _london(found: Reproduction) -> str:
    rows = [risk_cells(row) for row in shown(found.rows)]
    name = escape(found.source.name)
    return f"""<section aria-labelledby="risks"><h2 id="risks">What is left of a loss as data ages: {name}</h2>
<p>Risk in nats of one release at ε_C, by the age of its data. From left to right: the paper's bound; Theorem 1 with the exact
distance of the fitted chains; the exact contraction of the same chains; and what is counted without a model, at this lag
alone. The first three are right only if homes move like their chains. {escape(chance_words(found))}</p>
{_table("Risk by age", RISK_HEADS, rows)}
<h2>Figure 7: {name}</h2>{_panels(found.figures["7"])}</section>"""


def _check(found: Reproduction) -> str:
    rows = [distance_cells(one) for one in found.distances]
    drawn = "".join(
        f"<h3>{HEADS[kind]}</h3>"
        + figure_html(f"check-{i}", plot_check(found.check, kind), f"Δ by lag, {HEADS[kind]}", CAPTIONS[kind])
        for i, kind in enumerate(check_data(found.check))
    )
    return f"""<section aria-labelledby="check"><h2 id="check">Does the model under-report? (A7)</h2>
<p>A first-order chain is fitted to each home with 6 states. If homes moved like that, what was a day ago would tell next to
nothing about now. “Same time of day” asks only whether a reading is above or below the home's own median of that half hour.</p>
{_table("Total variation distance, by home", DISTANCE_HEADS, rows)}{drawn}</section>"""


def _towns(found: Reproduction) -> str:
    rows = [town_cells(town) for town in found.towns]
    six = CHAIN.amplify(TOWN_EPSILON, 6)
    return f"""<section aria-labelledby="towns"><h2 id="towns">The two towns (A9)</h2>
<p>A billionaire changes town with probability 10 % a day; a fresh output at ε_C = {TOWN_EPSILON:g} lets an adversary guess
the town rightly with probability {100 * odds(TOWN_EPSILON):.0f} %. Eq. 8 says how that falls. It is what T3 says, to the last
digit: the bound is attained. After 6 days the output is worth a fresh one at ε = {six:.2f}, not 0.3.</p>
{_table("Probability that the adversary is right", TOWN_HEADS, rows)}</section>"""


def _sequences(found: Reproduction) -> str:
    points = found.fixed_points
    return f"""<section aria-labelledby="f23"><h2 id="f23">Figures 2, 3 and 6: many releases</h2>
{_panels(found.figures["2"])}{_panels(found.figures["3"])}
<p>After {len(points.peaks_tight)} releases: Theorem 3 {points.peaks_theorem_3[-1]:.4f}, tight {points.peaks_tight[-1]:.6f},
attained {points.peaks_attained[-1]:.6f}.</p>{_panels(found.figures["6"])}</section>"""


def _one_release(found: Reproduction) -> str:
    rows = [reduction_cells(one) for one in found.reductions]
    return f"""<section aria-labelledby="f4"><h2 id="f4">Figure 4: one release, mean squared error</h2>
{_panels(found.figures["4"])}</section>
<section aria-labelledby="f5"><h2 id="f5">Figure 5: one release, failure rate</h2>{_panels(found.figures["5"])}
{_table("Largest reduction of the failure rate at the same risk", REDUCTION_HEADS, rows)}</section>
<section aria-labelledby="f8"><h2 id="f8">Figure 8: an autoregressive process</h2>{_panels(found.figures["8"])}</section>"""


def _errata(found: Reproduction) -> str:
    return f"""<section aria-labelledby="errata"><h2 id="errata">Errata, each with its witness</h2>
{_table("What is printed, and what is computed", ERRATA_HEADS, found.errata, words=True)}</section>"""


def _table(caption: str, heads: Sequence[str], lines: Sequence[Sequence[str]], words: bool = False) -> str:
    """A table whose first column is narrow; with `words` its cells are text."""
    first = "min-width: 0; text-align: left; vertical-align: top" if words else "min-width: 0"
    rest = first.replace("0", "7rem") if words else "min-width: 0"
    head = "".join(f'<th scope="col" style="{rest if i else first}">{escape(h)}</th>' for i, h in enumerate(heads))
    body = ""
    for line in lines:
        cells = "".join(f'<td style="{rest}">{escape(cell)}</td>' for cell in line[1:])
        body += f'<tr><th scope="row" style="{first}">{escape(line[0])}</th>{cells}</tr>\n'
    return f"""<div class="scroll" tabindex="0" role="region" aria-label="{escape(caption)}"><table>
<caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"""
