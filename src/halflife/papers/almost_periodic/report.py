"""The report of `halflife reproduce almost-periodic`: plots of what the reproduction computes; the files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from halflife.lab.almost_periodic.renewal import plot_renewal
from halflife.lab.almost_periodic.verdict import MEANING, PeriodCheck
from halflife.lab.almost_periodic.view import plot_heatmap, plot_histogram, plot_lags
from halflife.lab.data import AUSGRID, LONDON
from halflife.lab.views.page import Figure, figure_html, table_html
from halflife.lab.views.text import text_table
from halflife.papers.almost_periodic.homes import WHERE_TO_GET, generated_source, real_source
from halflife.papers.almost_periodic.reproduction import (
    ATTACK_HEADS,
    COEFFICIENT_HEADS,
    ERROR_HEADS,
    FRESH_HEADS,
    GAIN_HEADS,
    LOSS_HEADS,
    Reproduction,
    attack_cells,
    coefficient_rows,
    coefficient_table,
    error_rows,
    fresh_cells,
    freshness_data,
    gain_cells,
    gain_words,
    loss_cells,
    numbers_json,
    reproduce,
    tables_markdown,
)
from halflife.papers.figures import ERRATA_HEADS, Paper, panels_html, write_files

if TYPE_CHECKING:
    from rich.console import Console

TITLE = "Almost-periodic differential privacy, reproduced"


def write_all(found: Reproduction, folder: Path) -> list[Path]:
    """Write report.html, tables.md, numbers.json and the coefficients as Parquet files; return what was written."""
    texts = {"tables.md": tables_markdown(found), "numbers.json": numbers_json(found)}
    tables = {
        "rho_daily.parquet": coefficient_table(found.daily),
        "rho_weekly.parquet": coefficient_table(found.weekly),
    }
    return write_files(folder, "almost-periodic", TITLE, _body(found), texts, tables)


def _body(found: Reproduction) -> str:
    parts = (_opening, _figure_1, _test, _published, _errors, _p1, _p5, _renewal, _errata)
    return "\n".join(part(found) for part in parts)


def _opening(found: Reproduction) -> str:
    notes = "".join(f"<li>{escape(note)}</li>" for note in found.source.notes)
    return f"""<header><h1>{TITLE}</h1>
<p class="lede">The figures of the paper on differential privacy for almost periodic data, recomputed from its formulas,
with the corrected strong mechanism (C1) beside its own. Data: {escape(found.source.name)}. Where the paper prints no
parameters they are ours, and said to be.</p></header>
<section aria-labelledby="open"><h2 id="open">What to know first</h2><ul class="open">
<li>Weak privacy (Theorem 5) publishes every change from one period to the next exactly: a new car, a holiday, an illness. In
a group of one home that is the raw data, up to one day's pattern. Read classically its loss is infinite from the second period
on.</li>
<li>Strong privacy as printed (Corollary 8) is unsound from the second period on (erratum P1). Its curves are drawn to compare,
and halflife refuses it.</li>{notes}</ul></section>"""


def _figure_1(found: Reproduction) -> str:
    return f"""<section aria-labelledby="f1"><h2 id="f1">Figure 1: almost periodic data</h2>
{panels_html(found.panels["1"])}</section>"""


def _test(found: Reproduction) -> str:
    """Say whether the data is almost periodic (Figures 2 to 6; recomputed on London's homes)."""
    return f"""<section aria-labelledby="f2"><h2 id="f2">Figures 2 to 6: is the data almost periodic?</h2>
<style>.square .plot {{ height: min(640px, 92vw); }}</style>
<p>ρ_kℓ correlates the variations of all homes on day k with those on day ℓ. The paper draws it for Ausgrid (Figures 2 to 4) and
for UMass (5 and 6); those homes are not at hand, so both are shown for {escape(found.source.name)}. Small is not independent:
beside the coefficients stand those of copies in which each home's days are in random order.</p>
{_table("Printed coefficients, each with its data set, and ours", COEFFICIENT_HEADS, coefficient_rows(found), words=2)}
{_verdict(found.daily)}{_verdict(found.weekly)}
{"".join(_test_plots(found))}
<p>{escape(MEANING)}</p></section>"""


def _verdict(check: PeriodCheck) -> str:
    """The outcome in a paragraph, and what breaks the period as a list."""
    broken = "".join(f"<li>{escape(finding.text)}</li>" for finding in check.findings)
    said = check.verdict.split(" What breaks it:")[0]
    return f"<h3>A period of {check.name}</h3><p>{escape(said)}</p>" + (
        f"<p>What breaks it:</p><ul>{broken}</ul>" if broken else ""
    )


def _test_plots(found: Reproduction) -> Iterator[str]:
    name, day, week = found.source.name, found.daily, found.weekly
    below = "Printed: every |ρ| below {} ({}) and {} ({})."
    daily = f"Half of |ρ| is at most {day.median:.4f}, the largest is {day.maximum:.2f}."
    yield _test_plot(
        "plot-2", "Figures 2 and 5: heatmap, period of a day", plot_heatmap(day),
        f"{name}: ρ_kℓ over all pairs of days. Without dependence it would be an even grey but for the diagonal, which is 1; "
        "blocks are seasons, and stripes are weekdays.",
        square=True,
    )  # fmt: skip
    yield _test_plot(
        "plot-3", "Figures 3 and 6: histogram, period of a day", plot_histogram(day),
        f"{name}. {daily} {below.format('0.5', 'Ausgrid', '0.35', 'UMass')} Half of them at most 0.1259 and 0.0746.",
    )  # fmt: skip
    yield _test_plot(
        "plot-4", "Figure 4: histogram, period of a week", plot_histogram(week),
        f"{name}. Half of |ρ| is at most {week.median:.4f}, the largest is {week.maximum:.2f}. Printed: every |ρ| below 0.33 "
        "(Ausgrid); the median is not printed.",
    )  # fmt: skip
    yield _test_plot(
        "plot-lags", "Not in the paper: ρ by how far days lie apart", plot_lags(day),
        f"{name}: a hill at the left is memory, a valley in the middle of a year is season, teeth every seven days are "
        "weekdays.",
    )  # fmt: skip


def _test_plot(name: str, heading: str, figure: Figure, said: str, square: bool = False) -> str:
    drawn = figure_html(name, figure, f"{heading}. {said}", said)
    return f"<h3>{escape(heading)}</h3>" + (f'<div class="square">{drawn}</div>' if square else drawn)


def _published(found: Reproduction) -> str:
    return f"""<section aria-labelledby="f7"><h2 id="f7">Figures 7 and 9: what is published</h2>
<p>The mean use per home and half hour, with a period of a day: 48 noise values, drawn on the first day and reused ever since.
The paper reads its sensitivities off the data; a promise needs them from a public bound, and then the noise is this large.</p>
{panels_html(found.panels["7"])}{panels_html(found.panels["9"])}</section>"""


def _errors(found: Reproduction) -> str:
    gains = [gain_cells(gain) for gain in found.gains]
    return f"""<section aria-labelledby="f8"><h2 id="f8">Figures 8 and 10: error against ε</h2>
<p>The paper's relative error: the root of the mean squared noise, over the largest value of the year. Where noise differs
between the first day and later ones, the mean is over the year, too.</p>
{panels_html(found.panels["8"])}{panels_html(found.panels["10"])}
{_table("Relative error", ERROR_HEADS, error_rows(found), words=2)}
<h2 id="gain">The gain</h2>
<p>How many times less noise than with ε split over the horizon, at equal sensitivities. For Theorem 5 it is horizon / T, the
number of days. The abstract's “approximately 200 folds” is neither, and the paper prints each horizon beside the other data set
(P2).
{escape(gain_words(found))}</p>
{_table("The gain in the standard deviation of the noise", GAIN_HEADS, gains)}</section>"""


def _p1(found: Reproduction) -> str:
    losses, attacks = [loss_cells(row) for row in found.losses], [attack_cells(row) for row in found.attacks]
    return f"""<section aria-labelledby="p1"><h2 id="p1">P1: Corollary 8 is unsound</h2>
<p>It takes the first period's variations off every later period, so each of them tells about those variations again. C1 draws
fresh noise at every step, the first period's included, and takes nothing off; it needs less noise, too.</p>
{panels_html(found.panels["P1"])}
{_table("What Corollary 8 loses", LOSS_HEADS, losses)}
{_table("The error of an attacker who averages K later periods", ATTACK_HEADS, attacks)}</section>"""


def _p5(found: Reproduction) -> str:
    return f"""<section aria-labelledby="p5"><h2 id="p5">P5: the promise is given w</h2>{panels_html(found.panels["P5"])}
</section>"""


def _renewal(found: Reproduction) -> str:
    rows = [fresh_cells(row) for row in freshness_data(found)]
    said = (
        "The largest risk about habits within the record, if noise is drawn anew every so many days at ε = 1 each time. Never "
        "renewed it is 1 for ever; how fast it grows with fresher noise depends on how old losses count."
    )
    drawn = figure_html(
        "plot-renewal", plot_renewal(found.renewals, 1.0), f"Risk against the age of the noise. {said}", said
    )
    return f"""<section aria-labelledby="drift"><h2 id="drift">Beyond the paper: habits drift, and noise can be renewed</h2>
<p>Noise drawn in January hides January's habits. Each renewal hides the habits of its own time, and spends ε again.</p>
{panels_html(found.panels["drift"])}<h3>Risk against the age of the noise</h3>{drawn}
{_table("Risk and drift by how often noise is renewed", FRESH_HEADS, rows)}</section>"""


def _errata(found: Reproduction) -> str:
    return f"""<section aria-labelledby="errata"><h2 id="errata">Errata, each with its witness</h2>
{_table("What is printed, and what is computed", ERRATA_HEADS, found.errata, words=len(ERRATA_HEADS))}</section>"""


def _table(caption: str, heads: Sequence[str], lines: Sequence[Sequence[str]], words: int = 1) -> str:
    """A table whose first columns, `words` of them, hold words; columns with long ones get room."""
    styles = []
    for i in range(len(heads)):
        room = "9rem" if i < words and max(len(line[i]) for line in lines) > 20 else "0"
        styles.append(f"min-width: {room}; vertical-align: top; text-align: {'left' if i < max(1, words) else 'right'}")
    return table_html(caption, heads, lines, styles)


# The paper as a whole -----------------------------------------------------------------------------------------------


def print_summary(found: Reproduction, console: Console) -> None:
    """Print the paper's coefficients and ours, the outcome of the test, and what must be known of the data."""
    heads = [name for name in COEFFICIENT_HEADS if name != "homes"]
    rows = [(whose, data.split(",")[0], *cells) for whose, data, _, *cells in coefficient_rows(found)]
    title = "Coefficients between periods: the paper's, of its data, and ours"
    console.print(text_table(heads, rows, left=(0, 1), title=title))
    console.print(f"Test:    {found.daily.verdict}", soft_wrap=True)
    for note in found.source.notes:
        if note != WHERE_TO_GET:  # that was said before
            console.print(f"Note:    {note}", soft_wrap=True)


PAPER = Paper(
    files=(AUSGRID, LONDON),
    where_to_get=WHERE_TO_GET,
    real_source=real_source,
    generated_source=generated_source,
    reproduce=reproduce,
    write_all=write_all,
    print_summary=print_summary,
)
