"""Zhang, Wei, Berry and Huang, *Age-dependent differential privacy*, recomputed, with ours beside each of the paper's curves.

One release is in `model`, many are in `sequences`, aging on purpose in `aging`, homes in `london`, and the errata in `errata`. No
figure is drawn at random; homes are generated where the real ones are not at hand.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from halflife.lab.age_dependent.check_view import check_data
from halflife.numerics.forms import JsonObject
from halflife.numerics.progress import Progress
from halflife.papers.age_dependent import aging, model, sequences
from halflife.papers.age_dependent.aging import (
    AGING_WORDS,
    ERROR_HEADS,
    LOSS_HEADS,
    AgingRow,
    aging_summary,
    error_cells,
    loss_cells,
)
from halflife.papers.age_dependent.errata import errata_data
from halflife.papers.age_dependent.london import (
    PAPER_HOURS,
    Chance,
    Crossing,
    Distance,
    Fitted,
    Reversible,
    Row,
    Source,
    chance_data,
    crossing_data,
    distance_data,
    figure_7_data,
    fit,
    reversible_data,
    table_data,
)
from halflife.papers.age_dependent.model import INITIAL, Reduction, Town
from halflife.papers.age_dependent.sequences import FixedPoints, NoTradeOff
from halflife.papers.figures import ERRATA_HEADS, Erratum, Panel, markdown
from halflife.processes.check import Check

FIGURES = 8
"""Figures 2 to 8, and ours about artificial aging."""
TABLE_EPSILONS = (1.0, 4.0)
TABLE_HOURS = (1, 2, 3, 4, 6, 9, 12, 15, 18, 21, 24, 30, 36, 42, 48)


@dataclass(frozen=True, eq=False)
class Reproduction:
    """All that was computed.

    figures    panels by the paper's number of the figure, and "aging";  aging  its rows
    rows       risks by age, every half hour of two days;  chance  what counting shows where nothing is told
    distances  finding A7;  check  the outcome of the check of the fitted chains
    """

    source: Source
    towns: tuple[Town, ...]
    fixed_points: FixedPoints
    reductions: tuple[Reduction, ...]
    conditions: tuple[NoTradeOff, ...]
    aging: tuple[AgingRow, ...]
    figures: dict[str, tuple[Panel, ...]]
    rows: tuple[Row, ...]
    crossings: tuple[Crossing, ...]
    chance: tuple[Chance, ...]
    distances: tuple[Distance, ...]
    reversible: Reversible
    check: Check
    errata: tuple[Erratum, ...]


def reproduce(source: Source, progress: Progress = lambda what, done, total: None) -> Reproduction:
    """Compute every figure and table."""
    homes = len(source.homes) + 3
    total = homes + 2 + FIGURES
    fitted = fit(source, lambda what, done, _: progress(what, done, total))
    progress("risks by age", homes, total)
    rows = table_data(fitted)
    progress("Figure 5: where people were", homes + 1, total)
    reductions = model.reduction_data()
    figures: dict[str, tuple[Panel, ...]] = {}
    for i, (name, make) in enumerate(_figures(fitted, rows, reductions).items()):
        progress(f"Figure {name}" if name.isdigit() else "artificial aging", homes + 2 + i, total)
        figures[name] = make()
    distances, reversible = distance_data(fitted), reversible_data(fitted)
    return Reproduction(
        source, tuple(model.two_towns_data()), sequences.figure_3_fixed_points(), tuple(reductions),
        tuple(sequences.corollary_3_data()), tuple(aging.aging_data()), figures, tuple(rows),
        tuple(crossing_data(fitted)), tuple(chance_data(fitted)), tuple(distances), reversible,
        fitted.check, tuple(errata_data(distances, reversible, reductions)),
    )  # fmt: skip


def _figures(
    fitted: Fitted, rows: Sequence[Row], reductions: Sequence[Reduction]
) -> dict[str, Callable[[], tuple[Panel, ...]]]:
    return {
        "2": sequences.figure_2_data,
        "3": sequences.figure_3_data,
        "4": model.figure_4_data,
        "5": lambda: model.figure_5_data(reductions),
        "6": sequences.figure_6_data,
        "7": lambda: figure_7_data(fitted, rows),
        "8": model.figure_8_data,
        "aging": aging.aging_panels,
    }


# Text ---------------------------------------------------------------------------------------------------------------

RISK_HEADS = (
    "ε_C",
    "age",
    "eq. 55 (not valid)",
    "exact Δ, Thm 1",
    "tight",
    "counted: middle home",
    "counted: worst home",
)
TOWN_HEADS = ("days", "printed", "eq. 8", "printed fits day", "by T3", "by Theorem 1")
DISTANCE_HEADS = ("Δ of x(t − lag) given x(t)", "hours back", "middle home", "worst home")
REDUCTION_HEADS = ("people in state 1 at time 0", "eq. 48, Theorem 1", "enough noise, Theorem 1", "enough noise, tight")


def printed_rows(rows: Sequence[Row]) -> list[Row]:
    """Return the rows of the printed table: ε_C of 1 and 4, some ages from 1 to 48 hours."""
    return [row for row in rows if row.epsilon in TABLE_EPSILONS and row.hours in TABLE_HOURS]


def risk_cells(row: Row) -> tuple[str, ...]:
    """Return one line of the table of risks as text, rounded up."""
    numbers = (row.eq_55, row.exact, row.tight, row.median, row.worst)
    return (
        f"{row.epsilon:g}",
        f"{row.hours:g}\N{NO-BREAK SPACE}h",
        *(f"{math.ceil(x * 1000) / 1000:.3f}" for x in numbers),
    )


def town_cells(town: Town) -> tuple[str, ...]:
    """Return one day of the two towns as text."""
    share = f"{100 * town.computed:.1f} %"
    return (
        str(town.days), f"{100 * town.printed:.0f} %", share, str(town.fits), f"{100 * town.tight:.1f} %",
        f"{100 * town.theorem_1:.1f} %",
    )  # fmt: skip


def distance_cells(one: Distance) -> tuple[str, ...]:
    """Return one line of finding A7 as text."""
    return (one.what, f"{one.hours:g}", *(f"{x:.2g}" if x < 0.1 else f"{x:.2f}" for x in (one.median, one.worst)))


def reduction_cells(one: Reduction) -> tuple[str, ...]:
    """Return one X_0 of Figure 5 as text."""
    who = "average over the stationary law" if one.initial is None else f"{one.initial} of 20"
    return (who, *(f"{100 * x:.1f} %" for x in one[1:]))


def crossing_cells(one: Crossing) -> tuple[str, ...]:
    """Return one meaning of "12 intervals" as text."""
    return (one.homes, one.states, f"{one.hours:.1f}\N{NO-BREAK SPACE}h")


CROSSING_HEADS = ("homes", "12 intervals are", "eq. 55 is below 1 from")
CROSSING_WORDS = (
    f"The paper finds that eq. 55 falls below 1 at {PAPER_HOURS:g} hours. It does not say what its 12 intervals are, nor which "
    "homes it took. Of two meanings, and of these homes, neither gives just that; in all of them one home decides."
)


def chance_words(found: Reproduction) -> str:
    """Say how far up chance alone moves what is counted, and what could be promised."""
    said = "; ".join(
        f"{c.median:.2f} and {c.worst:.2f} of ε_C = {c.epsilon:g}" for c in found.chance if c.epsilon in TABLE_EPSILONS
    )
    least = min(row.promised / row.epsilon for row in found.rows)
    promise = "nothing fades" if least > 0.995 else f"{100 * least:.0f} % of every loss or more is left"
    return (
        "What is counted are estimates. With a home's readings in random order, where nothing is told, the same count shows "
        f"{said} (middle and worst home). As a bound that holds with 99 % for all homes and lags up to two days, {promise}."
    )


def tables_markdown(found: Reproduction) -> str:
    """Return `tables.md`: every table of the report."""
    notes = "\n".join(f"- {note}" for note in found.source.notes)
    points = found.fixed_points
    return f"""# Age-dependent differential privacy, reproduced

Data: {found.source.name}.

{notes}

## What is left of ε_C by age

{markdown(RISK_HEADS, [risk_cells(row) for row in printed_rows(found.rows)])}

{chance_words(found)}

## From which age on eq. 55 says anything

{CROSSING_WORDS}

{markdown(CROSSING_HEADS, [crossing_cells(one) for one in found.crossings])}

## The check of the model (A7)

{found.check.verdict}

{markdown(DISTANCE_HEADS, [distance_cells(one) for one in found.distances])}

## The two towns (A9)

{markdown(TOWN_HEADS, [town_cells(town) for town in found.towns])}

## Figure 3: where the peaks go

Proposition 3: {points.proposition_3:.4f}. Composition by data time: {points.tight:.4f}, which is attained.

## Figure 5: "a reduction up to 1/3"

{markdown(REDUCTION_HEADS, [reduction_cells(one) for one in found.reductions])}

## Artificial aging: Corollary 1

{AGING_WORDS}

{markdown(LOSS_HEADS, [loss_cells(row) for row in found.aging])}

{aging_summary(found.aging)}

{markdown(ERROR_HEADS, [error_cells(row) for row in found.aging])}

## Errata

{markdown(ERRATA_HEADS, found.errata)}
"""


def risks_csv(rows: Sequence[Row]) -> str:
    """Return all risks by age as CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(Row._fields)
    writer.writerows(rows)
    return text.getvalue()


def numbers(found: Reproduction) -> JsonObject:
    """Return every number as JSON can hold it."""

    def dicts(rows: Sequence[NamedTuple]) -> list[JsonObject]:
        return [row._asdict() for row in rows]

    return {
        "data": {"name": found.source.name, "real": found.source.real, "homes": len(found.source.homes)},
        "two_towns": dicts(found.towns),
        "figures": {name: {panel.name: panel.to_json() for panel in panels} for name, panels in found.figures.items()},
        "sequences.figure_3_fixed_points": found.fixed_points._asdict(),
        "figure_5_reductions": {"shown": INITIAL, "rows": dicts(found.reductions)},
        "corollary_3": dicts(found.conditions),
        "artificial_aging": dicts(found.aging),
        "risks_by_age": dicts(found.rows),
        "eq_55_below_1": {"paper_hours": PAPER_HOURS, "rows": dicts(found.crossings)},
        "chance": dicts(found.chance),
        "distances": dicts(found.distances),
        "reversible": found.reversible._asdict(),
        "check": {**found.check.summary(), "lags": {k: v._asdict() for k, v in check_data(found.check).items()}},
        "errata": dicts(found.errata),
    }


def numbers_json(found: Reproduction) -> str:
    """Return `numbers.json`."""
    return json.dumps(numbers(found), ensure_ascii=False, indent=1, allow_nan=False) + "\n"
