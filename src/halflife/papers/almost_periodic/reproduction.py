"""The almost-periodic paper, recomputed, with the corrected strong mechanism (C1) beside its own.

Data and homes are in `homes`, errors and the gain in `error`, the errata in `errata`; the test of
the assumption is `halflife.lab.almost_periodic.periodicity`. All noise is seeded.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from halflife.lab.almost_periodic.periodicity import check_period
from halflife.lab.almost_periodic.renewal import RenewalRow, renewal_data
from halflife.lab.almost_periodic.verdict import PRINTED, PeriodCheck
from halflife.lab.views.text import three_figures
from halflife.notions.classical import Classical
from halflife.notions.discounted import ExponentialDiscount
from halflife.notions.w_event import WEvent
from halflife.numerics.forms import JsonObject
from halflife.numerics.progress import Progress
from halflife.papers.almost_periodic import error
from halflife.papers.almost_periodic.errata import Attack, Loss, attack_data, errata_data, loss_data, p1_panels
from halflife.papers.almost_periodic.error import ErrorRow, Gain, error_data, error_panels, gain_data, outcome_panel
from halflife.papers.almost_periodic.homes import (
    DAY,
    MONTH_DAYS,
    WEEK,
    Drift,
    PatternSize,
    Source,
    drift_data,
    drift_panel,
    figure_1_data,
    pattern_size_data,
)
from halflife.papers.figures import ERRATA_HEADS, Erratum, Panel, markdown

if TYPE_CHECKING:
    import pyarrow as pa

RENEWED = (1, 2, 3, 5, 7, 10, 15, 30, 60, 90, 120, 180, 365)
"""Days after which noise is drawn anew."""
COPIES = 19


@dataclass(frozen=True, eq=False)
class Reproduction:
    """All that was computed.

    daily, weekly  the test of the assumption, with the period of a day and of a week
    panels         by the paper's number of the figure, and "P1", "P5", "drift"
    renewals       the largest risk of a year by how often noise is renewed, at ε = 1
    """

    source: Source
    daily: PeriodCheck
    weekly: PeriodCheck
    panels: dict[str, tuple[Panel, ...]]
    errors: tuple[ErrorRow, ...]
    gains: tuple[Gain, ...]
    losses: tuple[Loss, ...]
    attacks: tuple[Attack, ...]
    told: PatternSize
    drift: Drift
    renewals: tuple[RenewalRow, ...]
    errata: tuple[Erratum, ...]


def reproduce(
    source: Source,
    seed: int = 1,
    progress: Progress = lambda what, done, total: None,
    runs: int = error.RUNS,
    copies: int = COPIES,
) -> Reproduction:
    """Compute every figure and table. `runs` years of noise are simulated, and `copies` shuffled for the test."""
    streams = {"8": source.first, "10": source.second}
    work = ["a home", "the test: a day", "the test: a week", *(f"Figure {n}" for n in ("7", "9"))]
    work += [f"Figure {n}: {m}" for n in streams for m in error.MECHANISMS]
    work += ["the attack", "drift", "renewals", "errata"]
    steps = iter(range(len(work)))

    def begin() -> None:
        at = next(steps)
        progress(work[at], at, len(work))

    begin()
    panels, told = {"1": figure_1_data(source)}, pattern_size_data(source)
    checks = []
    for period in (DAY, WEEK):
        begin()
        checks.append(check_period(source.homes, period, copies=copies, seed=seed))
    for name, stream in (("7", source.first), ("9", source.second)):
        begin()
        panels[name] = (outcome_panel(name, stream, seed),)
    errors: list[ErrorRow] = []
    for name, stream in streams.items():
        rows = error_data(stream, seed, runs, lambda _: begin())
        errors += rows
        panels[name] = error_panels(name, stream, rows)
    begin()
    losses, attacks, gains = loss_data(), attack_data(seed=seed), gain_data()
    begin()
    drift = drift_data(source, seed=seed)
    begin()
    renewals = year_of_renewals(source.homes.shape[1])
    begin()
    panels |= {"P1": p1_panels(losses, attacks), "P5": (told.panel,), "drift": (drift_panel(source, drift),)}
    errata = errata_data(source, checks[0], gains, losses, attacks, told)
    return Reproduction(
        source, checks[0], checks[1], panels, tuple(errors), tuple(gains), tuple(losses), tuple(attacks), told, drift,
        tuple(renewals), tuple(errata),
    )  # fmt: skip


CLASSICAL, WINDOW, FADING = (
    "losses add up (classical)",
    "within any 30 days (w-event)",
    "discounted, half-life of 30 days",
)


def year_of_renewals(horizon: int) -> list[RenewalRow]:
    """Return the largest risk about habits within the horizon, ε = 1 for each renewal, a period of a day."""
    over = {
        CLASSICAL: Classical(1.0),
        WINDOW: WEvent(1.0, MONTH_DAYS * DAY),
        FADING: ExponentialDiscount(1.0, half_life=MONTH_DAYS * DAY),
    }
    return renewal_data(1.0, DAY, [n for n in RENEWED if n * DAY <= horizon], horizon, over)


class Fresh(NamedTuple):
    """What it costs to renew noise every so many days, and how far habits have moved by then (NaN: not known)."""

    days: int
    classical: float
    window: float
    fading: float
    moved: float
    chance: float


def freshness_data(found: Reproduction) -> list[Fresh]:
    """Lay the drift beside the renewals: what has moved when noise is as old as it gets."""
    drift, rows = found.drift, []
    for row in found.renewals:
        at, rest = divmod(row.periods, MONTH_DAYS)
        known = rest == 0 and 1 <= at <= len(drift.months)
        moved, chance = (drift.middle[at - 1], drift.chance[at - 1]) if known else (math.nan, math.nan)
        classical, window, fading = (row.risks[name] for name in (CLASSICAL, WINDOW, FADING))
        rows.append(Fresh(row.periods, classical, window, fading, float(moved), float(chance)))
    return rows


# Text ---------------------------------------------------------------------------------------------------------------

COEFFICIENT_HEADS = (
    "whose number",
    "data set",
    "homes",
    "period",
    "half of |ρ| at most",
    "largest |ρ|",
    "shuffled: half at most",
    "largest",
)
ERROR_HEADS = (
    "data set", "mechanism", *(f"ε = {epsilon:g}" for epsilon in error.CHECKED), "simulated, at most",
    f"ε = {error.EPSILON:g}, ranges read off the data",
)  # fmt: skip
GAIN_HEADS = (
    "data set",
    "days",
    "horizon",
    "printed",
    "weak: horizon / T",
    "strong, C1",
    "strong, Corollary 8 (unsound)",
    "abstract",
)
LOSS_HEADS = ("periods K", "Corollary 8: ε[Δf_w/(Δf_z + Δf_w) + K − 1]", "attained", "C1 (corrected)")
ATTACK_HEADS = ("periods averaged", "Corollary 8: √(2/K)", "simulated", "C1: √(2 + 2/K)", "simulated, C1")
FRESH_HEADS = (
    "renewed every … days",
    CLASSICAL,
    WINDOW,
    FADING,
    "habits moved by then (middle home)",
    "by chance alone",
)


def coefficient_rows(found: Reproduction) -> list[tuple[str, ...]]:
    """Return the paper's printed coefficients, each with the data set that it belongs to, and ours."""
    rows: list[tuple[str, ...]] = []
    for p in PRINTED:
        half = "not printed" if p.median is None else f"{p.median:g}"
        rows.append(("paper", p.data, str(p.homes), p.period, half, f"below {p.below:g}", "–", "–"))
    for check, period in ((found.daily, "day"), (found.weekly, "week")):
        null, most = f"{max(check.shuffled_medians):.4f}", f"{max(check.shuffled_maxima):.2f}"
        ours = (f"{check.median:.4f}", f"{check.maximum:.2f}", null, most)
        rows.append(("ours", found.source.name, str(check.homes), period, *ours))
    return rows


def error_rows(found: Reproduction) -> list[tuple[str, ...]]:
    """Return a row for each stream and mechanism: the error at every ε that was simulated, and how far the simulation is off."""
    rows = []
    for stream in dict.fromkeys(row.stream for row in found.errors):
        for mechanism in error.MECHANISMS:
            of = {row.epsilon: row for row in found.errors if (row.stream, row.mechanism) == (stream, mechanism)}
            checked = [of[epsilon] for epsilon in error.CHECKED]
            off = max(abs(row.simulated / row.closed - 1) for row in checked)
            sizes = (_percent(row.closed) for row in checked)
            rows.append(
                (stream, mechanism, *sizes, f"±\u00a0{100 * off:.1f}\u00a0%", _percent(of[error.EPSILON].read_off))
            )
    return rows


def gain_cells(gain: Gain) -> tuple[str, ...]:
    """Return the cells of one data set's gain."""
    sizes = (f"{value:.0f}" for value in (gain.weak, gain.strong, gain.corollary_8))
    return (
        gain.data,
        str(gain.days),
        f"{gain.horizon:,}",
        f"{gain.printed_horizon:,}",
        *sizes,
        f"approx. {error.ABSTRACT}",
    )


def gain_words(found: Reproduction) -> str:
    """Say what the gain would be with ranges read off the data, which differ for z and x."""
    sizes = {row.mechanism: row.read_off for row in found.errors if row.stream == found.source.second.name}
    gain = sizes[error.SPLIT] / sizes[error.WEAK]
    return (
        f"With ranges read off {found.source.name}, as the paper does, it would be {gain:,.0f}, as z ranges over less than x: "
        "not 200 either."
    )


def loss_cells(row: Loss) -> tuple[str, ...]:
    """Return the cells of one row of P1."""
    return str(row.periods), *(f"{value:.6g} ε" for value in row[1:])


def attack_cells(row: Attack) -> tuple[str, ...]:
    """Return the cells of one row of the attack."""
    return str(row.periods), *(f"{value:.3f}" for value in row[1:])


def fresh_cells(row: Fresh) -> tuple[str, ...]:
    """Return the cells of one row of renewals."""
    return str(row.days), *(f"{value:.3g} ε" for value in row[1:4]), *(_percent(value) for value in row[4:])


def _percent(value: float) -> str:
    return "–" if math.isnan(value) else f"{three_figures(100 * value)}\u00a0%"


def tables_markdown(found: Reproduction) -> str:
    """Return `tables.md`: every table of the report."""
    notes = "\n".join(f"- {note}" for note in found.source.notes)
    return f"""# Almost-periodic differential privacy, reproduced

Data: {found.source.name}.

{notes}

## Correlation coefficients (Figures 2 to 6)

{markdown(COEFFICIENT_HEADS, coefficient_rows(found))}

{found.daily.verdict}

{found.weekly.verdict}

## Relative error √E(y − f)² / max |f| (Figures 8 and 10)

{markdown(ERROR_HEADS, error_rows(found))}

## The gain over splitting ε

{markdown(GAIN_HEADS, [gain_cells(gain) for gain in found.gains])}

{gain_words(found)}

## P1: what Corollary 8 loses

{markdown(LOSS_HEADS, [loss_cells(row) for row in found.losses])}

## P1: the error of an attacker who averages periods

{markdown(ATTACK_HEADS, [attack_cells(row) for row in found.attacks])}

## Renewal: the risk of a year, and how far habits move

{markdown(FRESH_HEADS, [fresh_cells(row) for row in freshness_data(found)])}

## Errata

{markdown(ERRATA_HEADS, found.errata)}
"""


def numbers(found: Reproduction) -> JsonObject:
    """Return every number as JSON can hold it; the coefficients themselves are in a file of their own."""
    drift, told = found.drift, found.told
    return {
        "data": {
            "name": found.source.name, "real": found.source.real, "homes": len(found.source.homes),
            "notes": list(found.source.notes),
        },
        "printed": _dicts(PRINTED),
        "daily": found.daily.summary(),
        "weekly": found.weekly.summary(),
        "figures": {name: [{"panel": p.name, **p.to_json()} for p in panels] for name, panels in found.panels.items()},
        "errors": _dicts(found.errors),
        "gains": [{**gain._asdict(), "abstract": error.ABSTRACT} for gain in found.gains],
        "losses": _dicts(found.losses),
        "attack": _dicts(found.attacks),
        "told": {
            "every_home": _finite(told.every_home), "homes": told.homes,
            "lived_in": _finite(told.lived_in), "lived_in_homes": told.lived_in_homes,
        },
        "drift": {
            "months": drift.months.tolist(), "middle": drift.middle.tolist(), "tenth": drift.tenth.tolist(),
            "chance": drift.chance.tolist(),
        },
        "renewals": [{"days": row.periods, **row.risks} for row in found.renewals],
        "errata": _dicts(found.errata),
    }  # fmt: skip


def _dicts(rows: Sequence[NamedTuple]) -> list[JsonObject]:
    return [{name: _finite(value) for name, value in row._asdict().items()} for row in rows]


def _finite(value: object) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value


def numbers_json(found: Reproduction) -> str:
    """Return `numbers.json`."""
    return json.dumps(numbers(found), ensure_ascii=False, indent=1, allow_nan=False) + "\n"


def coefficient_table(check: PeriodCheck) -> pa.Table:
    """Return ρ_kℓ of every pair k < ℓ as columns; periods count from 1."""
    import pyarrow as pa

    k, other = np.triu_indices(check.periods, 1)
    rho = check.rho[k, other]
    return pa.table({"k": k + 1, "l": other + 1, "rho": pa.array(rho, mask=np.isnan(rho))})
