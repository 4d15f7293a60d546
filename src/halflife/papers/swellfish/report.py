"""The report of `halflife reproduce swellfish`: plots of what the reproduction computes, and the files."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from halflife.lab.views.page import table_html
from halflife.lab.views.text import text_table
from halflife.numerics.arrays import Floats
from halflife.papers.figures import DASH, DASHDOT, DOT, SOLID, Curve, Panel, Paper, panels_html, write_files
from halflife.papers.swellfish import tables
from halflife.papers.swellfish.printed import APPROXIMATE, PURE, RESCUE, SWELLFISH, UNIFORM, USER, printed_error
from halflife.papers.swellfish.reproduction import Reproduction, reproduce
from halflife.papers.swellfish.secrets import ALL, ONE
from halflife.papers.swellfish.streams import GEFCOM, WHERE_TO_GET, generated_source, real_source

if TYPE_CHECKING:
    from rich.console import Console

TITLE = "Swellfish privacy, reproduced"
COLOURS = {SWELLFISH: 0, UNIFORM: 1, RESCUE: 2, USER: 3}


def write_all(found: Reproduction, folder: Path) -> list[Path]:
    """Write report.html, tables.md and the numbers as CSV; return what was written."""
    texts = {"tables.md": tables.tables_markdown(found), **tables.csv_files(found)}
    return write_files(folder, "swellfish", TITLE, _body(found), texts)


# Plots --------------------------------------------------------------------------------------------------------------


def figure_3_panel(found: Reproduction, promise: str) -> Panel:
    """Error by zone (Figure 3; recomputed): ours as lines, what is printed as circles; Swellfish for one home and for all."""
    zones = np.array([float(f.zone) for f in found.facts])
    curves = []
    for mechanism in (USER, RESCUE, UNIFORM, SWELLFISH):
        if (mechanism, promise) == (RESCUE, APPROXIMATE):
            continue
        rows = [r for r in found.rows if (r.mechanism, r.promise) == (mechanism, promise)]
        labels = list(dict.fromkeys(r.label for r in rows if _drawn(r.label)))
        for i, label in enumerate(labels):
            name = f"{mechanism}: {label.split(', ')[-1]}" if mechanism == SWELLFISH else mechanism
            values = np.array([r.figure for r in rows if r.label == label])
            curves.append(Curve(name, values, COLOURS[mechanism], SOLID if i == 0 else DASH))
        shown = [printed_error(int(z), mechanism, promise) if found.source.printed else None for z in zones]
        if any(x is not None for x in shown):
            values = np.array([math.nan if x is None else x for x in shown])
            curves.append(Curve(f"{mechanism}, printed", values, COLOURS[mechanism], marks=True))
    said = (
        f"{found.source.name}, {promise}: mean relative error of each zone over {found.repetitions} repetitions, with the "
        "figure's post-processing. Lines are ours, circles are read off the printed figure. Swellfish is drawn for one "
        "household's secrets (solid) and for the maximum over all households (dashed)."
    )
    return Panel(
        f"3 ({promise})", f"error by zone, {promise}", said, "zone", "error (%, log)", zones, tuple(curves), log_y=True
    )


def _drawn(label: str) -> bool:
    """Of our variants the figure shows the paper's own plans, and RescueDP with a filter that is sound."""
    skipped = ("tight", "optimal", f"{UNIFORM}, exact", f"{RESCUE}, without", f"{RESCUE}, filter that reads")
    return not label.startswith(skipped)


def figure_4_panel(found: Reproduction) -> Panel:
    """Error over the first weeks, with the dominant secret in the first (Figure 4; recomputed)."""
    by = {w.label: w.errors for w in found.weeks}
    wanted = {
        f"{SWELLFISH}, {found.plan(ONE, 'paper', PURE).label}": (f"{SWELLFISH}, pure, one household", 0, SOLID),
        f"{SWELLFISH}, {found.plan(ONE, 'paper', APPROXIMATE).label}": (f"{SWELLFISH}, δ, one household", 0, DASH),
        f"{SWELLFISH}, {found.plan(ALL, 'paper', PURE).label}": (f"{SWELLFISH}, pure, maximum over all", 0, DOT),
        f"{UNIFORM}, pure": (f"{UNIFORM}, pure", 1, SOLID),
        f"{UNIFORM}, Theorem 10": (f"{UNIFORM}, δ", 1, DASH),
        f"{UNIFORM}, exact accounting": (f"{UNIFORM}, δ, exact accounting (ours)", 1, DASHDOT),
        next(label for label in by if label.startswith(RESCUE)): (RESCUE, 2, SOLID),
        f"{USER}, Theorem 10": (f"{USER}, δ", 3, DASH),
    }
    curves = [Curve(name, by[label], colour, dash) for label, (name, colour, dash) in wanted.items()]
    said = (
        "Mean over zones (but zone 4, as in the paper) of the relative error in each of the first weeks. One household hides a "
        "week away (3.92 kW for 672 steps, ε = 0.1) in the first week. Swellfish pays for it in that week alone, w-event "
        "mechanisms for ever."
    )
    weeks = np.arange(1.0, len(found.weeks[0].errors) + 1)
    return Panel(
        "4", "error by week with a dominant secret", said, "week", "error (%, log)", weeks, tuple(curves), log_y=True
    )


def households_panel(found: Reproduction) -> Panel:
    """Each household's own mean scale, beside the maximum over all and what Figure 3 implies."""
    own: Floats = np.sort(found.households.mean)
    every = found.plan(ALL, "paper", PURE).mean
    curves = [
        Curve("one household (Theorem 8)", own, 0),
        Curve("maximum over all (Theorem 9)", np.full(len(own), every), 1, DASH),
    ]
    scales = [f.scale for f in found.facts if math.isfinite(f.scale)]
    if scales:
        curves.append(Curve("implied by Figure 3", np.full(len(own), float(np.median(scales))), 2, DOT))
    said = (
        "Mean over all steps of the noise scale that each household of our generated town asks for by itself, in order, and of "
        "the maximum over all of them, which Theorem 9 takes."
    )
    rank = np.arange(1.0, len(own) + 1)
    return Panel(
        "households", "what households ask for", said, "household, by rank", "mean scale (kW, log)", rank, tuple(curves),
        log_y=True,
    )  # fmt: skip


# The page -----------------------------------------------------------------------------------------------------------


def _body(found: Reproduction) -> str:
    return "\n".join(part(found) for part in (_opening, _mechanisms, _first, _specifications, _beyond, _second))


def _opening(found: Reproduction) -> str:
    notes = "".join(f"<li>{escape(note)}</li>" for note in found.source.notes)
    return f"""<header><h1>{TITLE}</h1>
<p class="lede">Both experiments of Tex, Schäler, Böhm, <i>Swellfish privacy: publishing continuous private sum aggregates
with high utility</i>, with every zone beside what Figure 3 shows. Data: {escape(found.source.name)}; {found.repetitions}
repetitions. The secrets are those of {len(found.households.mean)} generated households, {found.secrets:,} in all, made as the
paper says: they are not the paper's own.</p></header>
<section aria-labelledby="open"><h2 id="open">What to know first</h2><ul class="open">
<li>Theorems 7 to 11 follow one window, and do not give what the definitions literally ask (S1): the certificates below say which
interpretation each plan keeps.</li>
<li>Every secret here is a cycle that ran. Specifications are public, so such secrets tell what they should hide (S4).</li>
<li>RescueDP's filter as published reads the whole true stream, later steps included, so it keeps no promise. Ours estimates the
same from noisy values.</li>{notes}</ul></section>"""


def _mechanisms(found: Reproduction) -> str:
    return f"""<section aria-labelledby="t2"><h2 id="t2">Tables II and III: mechanisms and parameters</h2>
<p>ε = 0.1, Δ = 3.92 kW (user level: 48 kW), δ = 1/117,716,237, w = 65 and 672. Swellfish's scales follow from the secrets.</p>
{_table("Noise scales", tables.MECHANISM_HEADS, tables.mechanism_rows(found))}</section>"""


def _first(found: Reproduction) -> str:
    panels = panels_html([figure_3_panel(found, promise) for promise in (PURE, APPROXIMATE)])
    if not found.source.printed:
        return f'<section aria-labelledby="e1"><h2 id="e1">Experiment 1</h2>{panels}</section>'
    off = tables.reason_rows(found)
    return f"""<section aria-labelledby="e1"><h2 id="e1">Experiment 1</h2>{panels}
{_table("Mean relative error in per cent, ours / printed = ratio", tables.ZONE_HEADS, tables.zone_rows(found))}
<p>{escape(tables.stream_words(found))}</p>
{_table("What explains a zone", tables.FACT_HEADS, tables.fact_rows(found))}
{_table("Where ours is more than a tenth off (Swellfish: see below)", tables.REASON_HEADS, off, last_is_text=True)}</section>"""


def _specifications(found: Reproduction) -> str:
    said = "".join(f"<li>{escape(text)}</li>" for text in tables.specification_words(found))
    return f"""<section aria-labelledby="s"><h2 id="s">One household, or the maximum over all</h2><ul>{said}</ul>
{panels_html([households_panel(found)])}</section>"""


def _beyond(found: Reproduction) -> str:
    return f"""<section aria-labelledby="b"><h2 id="b">Beyond the paper</h2>
<p>Exact accounting, RescueDP's variants, and the plans <code>tight</code>, <code>optimal</code> (for one household alone) and
Gaussian.</p>
{_table("Mean relative error in per cent", tables.BEYOND_HEADS, tables.beyond_rows(found))}
<h3>What each plan keeps</h3>
<p>Each secret's worst loss, worked out from the scales of all {found.source.steps:,} steps: kept, or the largest share of its ε
that a secret loses, and how many lose more than theirs.</p>
{_table("Certificates under the three interpretations", tables.PLAN_HEADS, tables.plan_rows(found))}</section>"""


def _second(found: Reproduction) -> str:
    return f"""<section aria-labelledby="e2"><h2 id="e2">Experiment 2: a dominant secret</h2>
{panels_html([figure_4_panel(found)])}
<p>{escape(tables.dominant_words(found))}</p>
{_table("Mean relative error", tables.WEEK_HEADS, tables.week_rows(found))}</section>"""


def _table(caption: str, heads: Sequence[str], rows: Sequence[Sequence[str]], last_is_text: bool = False) -> str:
    """A table whose heads may break and whose numbers may not; a first column of names gets room, one of zones does not."""
    names = max(len(row[0]) for row in rows) > 5
    styles = [f"text-align: left; vertical-align: top; min-width: {'14rem' if names else '0'}"]
    styles += ["vertical-align: top"] * (len(heads) - 1)
    if last_is_text:
        styles[-1] = "min-width: 18rem; text-align: left; vertical-align: top"
    kept = len(heads) - last_is_text
    lines = [(row[0], *(cell.replace(" ", "\u00a0") for cell in row[1:kept]), *row[kept:]) for row in rows]
    return table_html(caption, heads, lines, styles)


# The paper as a whole -----------------------------------------------------------------------------------------------


def print_summary(found: Reproduction, console: Console) -> None:
    """Print each zone's ratios, what each plan keeps, and what is known of the specifications."""
    if found.source.printed:
        ratios = [(zone, *(cell.split("= ")[-1] for cell in cells)) for zone, *cells in tables.zone_rows(found)]
        heads = [head.replace(", ", "\n").replace("imate", ".").replace("level", "lev.") for head in tables.ZONE_HEADS]
        console.print(text_table(heads, ratios, left=(), title="Ours over printed, Experiment 1"))
    plans = [(row[0], row[1], *row[4:]) for row in tables.plan_rows(found)]
    console.print(
        text_table(("plan", "mean scale", *tables.PLAN_HEADS[4:]), plans, left=(0,), title="What each plan keeps")
    )
    for text in tables.specification_words(found):
        console.print(f"Note:    {text}", soft_wrap=True)


PAPER = Paper(
    files=(GEFCOM,),
    where_to_get=WHERE_TO_GET,
    real_source=real_source,
    generated_source=generated_source,
    reproduce=reproduce,
    write_all=write_all,
    print_summary=print_summary,
)
