"""The report of `halflife reproduce age-dependent`: plots of what the reproduction computes, and the files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from halflife.lab.age_dependent.check_view import CAPTIONS, HEADS, check_data, plot_check
from halflife.lab.data import LONDON
from halflife.lab.views.page import figure_html, table_html
from halflife.lab.views.text import text_table
from halflife.papers.age_dependent.aging import (
    AGING_WORDS,
    ERROR_HEADS,
    LOSS_HEADS,
    aging_summary,
    error_cells,
    loss_cells,
)
from halflife.papers.age_dependent.london import WHERE_TO_GET, generated_source, real_source
from halflife.papers.age_dependent.model import CHAIN, TOWN_EPSILON, odds
from halflife.papers.age_dependent.reproduction import (
    CROSSING_HEADS,
    CROSSING_WORDS,
    DISTANCE_HEADS,
    REDUCTION_HEADS,
    RISK_HEADS,
    TOWN_HEADS,
    Reproduction,
    chance_words,
    crossing_cells,
    distance_cells,
    numbers_json,
    printed_rows,
    reduction_cells,
    reproduce,
    risk_cells,
    risks_csv,
    tables_markdown,
    town_cells,
)
from halflife.papers.figures import ERRATA_HEADS, Paper, panels_html, write_files

if TYPE_CHECKING:
    from rich.console import Console

TITLE = "Age-dependent differential privacy, reproduced"


def write_all(found: Reproduction, folder: Path) -> list[Path]:
    """Write report.html, tables.md, risks.csv and numbers.json; return what was written."""
    texts = {
        "tables.md": tables_markdown(found),
        "risks.csv": risks_csv(found.rows),
        "numbers.json": numbers_json(found),
    }
    return write_files(folder, "age-dependent", TITLE, _body(found), texts)


# The page -----------------------------------------------------------------------------------------------------------


def _body(found: Reproduction) -> str:
    return "\n".join(
        (
            _opening(found),
            _london(found),
            _check(found),
            _towns(found),
            _sequences(found),
            _one_release(found),
            _aging(found),
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


def _london(found: Reproduction) -> str:
    rows = [risk_cells(row) for row in printed_rows(found.rows)]
    name = escape(found.source.name)
    return f"""<section aria-labelledby="risks"><h2 id="risks">What is left of a loss as data ages: {name}</h2>
<p>Risk in nats of one release at ε_C, by the age of its data. From left to right: the paper's bound; Theorem 1 with the exact
distance of the fitted chains; the exact contraction of the same chains; and what is counted without a model, at this lag
alone. The first three are right only if homes move like their chains. {escape(chance_words(found))}</p>
{_table("Risk by age", RISK_HEADS, rows)}
<h2>Figure 7: {name}</h2><p>{escape(CROSSING_WORDS)}</p>
{_table("From which age on eq. 55 says anything", CROSSING_HEADS, [crossing_cells(c) for c in found.crossings], words=True)}
{panels_html(found.figures["7"])}</section>"""


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
{panels_html(found.figures["2"])}{panels_html(found.figures["3"])}
<p>After {len(points.peaks_tight)} releases: Theorem 3 {points.peaks_theorem_3[-1]:.4f}, tight {points.peaks_tight[-1]:.6f},
attained {points.peaks_attained[-1]:.6f}.</p>{panels_html(found.figures["6"])}</section>"""


def _one_release(found: Reproduction) -> str:
    rows = [reduction_cells(one) for one in found.reductions]
    return f"""<section aria-labelledby="f4"><h2 id="f4">Figure 4: one release, mean squared error</h2>
{panels_html(found.figures["4"])}</section>
<section aria-labelledby="f5"><h2 id="f5">Figure 5: one release, failure rate</h2>{panels_html(found.figures["5"])}
{_table("Largest reduction of the failure rate at the same risk", REDUCTION_HEADS, rows)}</section>
<section aria-labelledby="f8"><h2 id="f8">Figure 8: an autoregressive process</h2>{panels_html(found.figures["8"])}</section>"""


def _aging(found: Reproduction) -> str:
    losses, errors = ([cells(row) for row in found.aging] for cells in (loss_cells, error_cells))
    return f"""<section aria-labelledby="aging"><h2 id="aging">Artificial aging: Corollary 1 (ours beside delay)</h2>
<p>{escape(AGING_WORDS)}</p>{_table("What an output tells about the present (nats)", LOSS_HEADS, losses)}
<p>{escape(aging_summary(found.aging))}</p>{_table("Mean squared error at the same loss", ERROR_HEADS, errors)}
{panels_html(found.figures["aging"])}</section>"""


def _errata(found: Reproduction) -> str:
    return f"""<section aria-labelledby="errata"><h2 id="errata">Errata, each with its witness</h2>
{_table("What is printed, and what is computed", ERRATA_HEADS, found.errata, words=True)}</section>"""


def _table(caption: str, heads: Sequence[str], lines: Sequence[Sequence[str]], words: bool = False) -> str:
    """A table whose first column is narrow; with `words` its cells are text."""
    first = "min-width: 0; text-align: left; vertical-align: top" if words else "min-width: 0"
    rest = first.replace("0", "7rem") if words else "min-width: 0"
    return table_html(caption, heads, lines, [first, *[rest] * (len(heads) - 1)])


# The paper as a whole -----------------------------------------------------------------------------------------------


def print_summary(found: Reproduction, console: Console) -> None:
    """Print the table of risks by age, what chance does to counts, and the check of the model."""
    rows: list[tuple[str, ...]] = []
    last = None
    for row in printed_rows(found.rows):
        if last not in (None, row.epsilon):
            rows.append(())
        last = row.epsilon
        rows.append(risk_cells(row))
    heads = [re.sub(r"(?<=[:,]) | (?=\()", "\n", name) for name in RISK_HEADS]
    title = f"What is left of ε_C by age (nats): {found.source.name}"
    console.print(text_table(heads, rows, left=(), title=title))
    console.print(f"Counted: {chance_words(found)}", soft_wrap=True)
    console.print(f"Check:   {found.check.verdict}", soft_wrap=True)


PAPER = Paper(
    files=(LONDON,),
    where_to_get=WHERE_TO_GET,
    real_source=real_source,
    generated_source=generated_source,
    reproduce=lambda source, seed, progress: reproduce(source, progress),
    write_all=write_all,
    print_summary=print_summary,
)
