"""Figures 1 to 3 of Farokhi, *Temporally discounted differential privacy*, recomputed, and our plans beside the paper's; and its
future work, what an attacker makes of discounted releases (`attacks`).

The paper's text prints no ε, α or β for Figure 2, so they are stated here (`EPSILON`, `ALPHA`, `BETA`). Nothing is drawn at
random: expected errors and the success of attacks follow from the noise scales. The per-home Ausgrid file is not at hand, so
the histogram of Figure 1, and the homes that are attacked, are London's.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from halflife.lab.data import AUSGRID, LONDON
from halflife.lab.households.readings import MAX_KWH, SLOTS_PER_DAY, mean_per_home, simulate
from halflife.lab.views.text import three_figures
from halflife.notions import Classical, ExponentialDiscount, GaussianDiscount, HyperbolicDiscount
from halflife.numerics.arrays import Floats
from halflife.numerics.progress import Progress
from halflife.papers.discounted.attacks import CLIP_KWH, MOST_HOMES, Outcome, attack_data, attack_tables, promise_count
from halflife.papers.figures import AUSGRID_HOMES, markdown, read_london
from halflife.plans import Plan
from halflife.plans.base import MEAN_ABSOLUTE_OF_UNIT_SCALE
from halflife.plans.discounted.plan import paper_constant, true_constant

if TYPE_CHECKING:
    import pyarrow as pa

EPSILON, ALPHA, BETA, DELTA = 1.0, 0.9, 0.1, 1e-6
"""Of Figure 2, in days: a loss counts half after 6.6 days (α) or 10 days (β). δ is for Gaussian discounting alone."""

ALPHAS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.93, 0.95, 0.97, 0.98, 0.99)
BETAS = tuple(sorted({3.65, *(float(f"{b:.3g}") for b in np.geomspace(0.01, 100, 33))}))
GAUSSIAN_CURVE = "Gaussian, a different notion (δ = 1e-6)"
TABLE_BETAS, SMALL_BETAS, TABLE_STEPS = (0.01, 0.1, 1.0, 10.0), (1e-4,), 17_520
WITNESSES = (3.6, 3.7, 10.0, 100.0)
METHODS = ("paper", "tight", "constant", "optimal")

LEAST_READINGS = 17_510
"""Of the 17,520 half hours of 2013, for a home to be attacked; a missing reading counts as 0, as in a stream."""

LARGEST_KWH = 200.0
"""The paper's Δf = 200/300: 200 kWh a day, read off its histogram."""

WHERE_TO_GET = (
    "The real data is not here. Ausgrid publishes it as 'Solar home electricity data', the London Datastore as 'SmartMeter "
    "Energy Consumption Data in London Households'; give the folder with --data or HALFLIFE_DATA. Running on generated homes."
)


@dataclass(frozen=True, eq=False)
class Source:
    """The series that is published, the daily use of single homes for the histogram, and the homes that are attacked.

    days, mean_kwh   daily mean per home (kWh per day);  daily_kwh  one number for each home and day
    sensitivity      Δf, how far one home can move the mean;  notes  what must be known of the data, for people
    homes            row i, column t: the kWh of home i in half hour t;  homes_of  whose they are
    """

    name: str
    days: NDArray[np.datetime64]
    mean_kwh: Floats
    daily_kwh: Floats
    histogram_of: str
    sensitivity: float
    notes: tuple[str, ...]
    real: bool
    homes: Floats
    homes_of: str

    @property
    def mean_clipped_kwh(self) -> float:
        """What a home uses in a half hour on average, as the attacked stream counts it."""
        return float(np.clip(self.homes, 0.0, CLIP_KWH).mean())


class TableRow(NamedTuple):
    """One plan of the table: noise scales at Δf = ε = 1. `over` says by how much the paper's plan breaks the promise."""

    beta: float
    method: str
    last: float
    mean: float
    root_mean_square: float
    duality_gap: float | None = None
    over: float | None = None


class Witness(NamedTuple):
    """Erratum D1 at one β: the paper's constant, the one needed, and the largest risk of Corollary 16 as a multiple of ε."""

    beta: float
    stated: float
    needed: float
    risk: float
    step: int


@dataclass(frozen=True, eq=False)
class Reproduction:
    """All that was computed. `rows` is the table of scales over `steps` steps, `small` the same where β·T is small; `outcomes` is
    how attacks fare.
    """

    source: Source
    steps: int
    rows: tuple[TableRow, ...]
    small: tuple[TableRow, ...]
    witnesses: tuple[Witness, ...]
    errors: dict[str, dict[str, Floats]]
    averages: dict[str, dict[str, Floats]]
    outcomes: tuple[Outcome, ...]


# The data -----------------------------------------------------------------------------------------------------------


def real_source(folder: Path) -> Source:
    """Return Ausgrid's daily means, July 2012 to June 2013, and London's daily use of single homes."""
    import duckdb

    with duckdb.connect() as database:
        means = database.execute(
            "SELECT interval_start::DATE AS day, sum(gross_load_kwh) / ? AS kwh FROM read_parquet(?) "
            "WHERE interval_start >= TIMESTAMP '2012-07-01' AND interval_start < TIMESTAMP '2013-07-01' "
            "GROUP BY day ORDER BY day",
            [AUSGRID_HOMES, str(folder / AUSGRID)],
        ).fetchnumpy()  # fmt: skip
        totals = database.execute(
            "SELECT sum(kwh) AS kwh FROM read_parquet(?) GROUP BY lclid, ts::DATE HAVING count(*) = ? ORDER BY kwh",
            [str(folder / LONDON), SLOTS_PER_DAY],
        ).fetchnumpy()  # fmt: skip
    daily = np.asarray(totals["kwh"], dtype=np.float64)
    notes = (
        "D2: Δf = 200/300 follows the paper, which read 200 kWh off its own histogram. A number read from the data is not a "
        "bound, so at this Δf nothing is formally promised; a real release needs a public clip bound.",
        "The mean is the sum over 300 homes divided by 300; single homes of this file are not at hand.",
        f"Figure 1 left is London's, not Ausgrid's: {len(daily):,} days of 325 homes in 2013 with all 48 readings; the largest "
        f"is {daily[-1]:.0f} kWh.",
    )
    days = np.asarray(means["day"], dtype="datetime64[D]")
    homes = np.nan_to_num(read_london(folder, LEAST_READINGS, MOST_HOMES))
    return Source(
        "Ausgrid, 300 homes, July 2012 to June 2013", days, np.asarray(means["kwh"], dtype=np.float64), daily,
        "London, 325 homes, 2013", LARGEST_KWH / AUSGRID_HOMES, notes, True, homes, f"{len(homes)} homes of London in 2013",
    )  # fmt: skip


def generated_source(seed: int, homes: int = AUSGRID_HOMES, days: int = 365) -> Source:
    """Return the same from generated homes, with a true public bound: 48 readings of at most 5 kWh a day."""
    town = simulate(homes, days, datetime.datetime(2012, 7, 1), seed)
    mean = mean_per_home(town.kwh).reshape(days, SLOTS_PER_DAY).sum(axis=1)
    daily = np.sort(town.kwh.reshape(-1, SLOTS_PER_DAY).sum(axis=1))
    notes = (
        WHERE_TO_GET,
        f"Δf = {SLOTS_PER_DAY} · {MAX_KWH:g} kWh / {homes}: here a public bound, unlike the paper's (D2).",
    )
    name = f"{homes:,} generated homes (seed {seed})"
    return Source(
        name, town.times[::SLOTS_PER_DAY].astype("datetime64[D]"), mean, daily, name,
        SLOTS_PER_DAY * MAX_KWH / homes, notes, False, town.kwh[:MOST_HOMES].copy(), f"{min(homes, MOST_HOMES)} generated homes",
    )  # fmt: skip


# The numbers --------------------------------------------------------------------------------------------------------


def histogram_data(source: Source, width: float = 2.0) -> dict[str, NDArray[Any]]:
    """How many days of single homes fall into each bin of `width` kWh (Figure 1; recomputed on London's homes)."""
    bins = max(1, math.ceil(float(source.daily_kwh.max()) / width))
    counts, edges = np.histogram(source.daily_kwh, bins, (0.0, bins * width))
    return {"from_kwh": edges[:-1], "to_kwh": edges[1:], "count": counts}


def relative_error(plan: Plan, source: Source) -> Floats:
    """E|y − f| / |f| of each day: the mean absolute noise of the plan's scale over the day's mean."""
    scales = plan.scales(len(source.mean_kwh))
    found: Floats = scales * MEAN_ABSOLUTE_OF_UNIT_SCALE[plan.noise] / np.abs(source.mean_kwh)
    return found


def error_plans(source: Source) -> dict[str, dict[str, Plan]]:
    """Figure 2: for each panel the paper's plan, then ours."""
    f, n = source.sensitivity, len(source.mean_kwh)
    classical = Classical(EPSILON)
    exponential = ExponentialDiscount(EPSILON, alpha=ALPHA)
    hyperbolic = HyperbolicDiscount(EPSILON, beta=BETA)
    return {
        f"differential privacy, ε = {EPSILON:g}": {
            "paper: Corollary 8": classical.plan(f, method="paper"),
            "tight, for ever": classical.plan(f),
            f"equal, {n} days": classical.plan(f, horizon=n),
        },
        f"exponential, ε = {EPSILON:g}, α = {ALPHA:g}": {
            "paper: Corollary 12": exponential.plan(f, method="paper"),
            "tight, for ever": exponential.plan(f),
            GAUSSIAN_CURVE: GaussianDiscount(EPSILON, DELTA, alpha=ALPHA).plan(f),
        },
        f"hyperbolic, ε = {EPSILON:g}, β = {BETA:g}": {
            "paper: Corollary 16": hyperbolic.plan(f, method="paper"),
            "tight, for ever": hyperbolic.plan(f),
            GAUSSIAN_CURVE: GaussianDiscount(EPSILON, DELTA, beta=BETA).plan(f),
        },
    }


def error_data(source: Source) -> dict[str, dict[str, Floats]]:
    """Return the expected relative error of each day, by panel and curve (Figure 2; recomputed)."""
    return {
        panel: {curve: relative_error(plan, source) for curve, plan in plans.items()}
        for panel, plans in error_plans(source).items()
    }


def average_data(
    source: Source, alphas: Sequence[float] = ALPHAS, betas: Sequence[float] = BETAS
) -> dict[str, dict[str, Floats]]:
    """Return the average expected relative error against α and against β, NaN where Corollary 16 does not hold (D1).

    (Figure 3; recomputed)
    """
    return {
        "α": _averages(source, alphas, lambda a: ExponentialDiscount(EPSILON, alpha=a), "alpha", "paper: Corollary 12"),
        "β": _averages(source, betas, lambda b: HyperbolicDiscount(EPSILON, beta=b), "beta", "paper: Corollary 16"),
    }


def _averages(
    source: Source, values: Sequence[float], notion: Callable[[float], Any], kernel: str, paper: str
) -> dict[str, Floats]:
    f, n = source.sensitivity, len(source.mean_kwh)
    curves: dict[str, list[float]] = {paper: [], "tight, for ever": [], f"optimal, {n} days": [], GAUSSIAN_CURVE: []}
    for value in values:
        plans = (
            None if kernel == "beta" and not corollary_16_holds(value) else notion(value).plan(f, method="paper"),
            notion(value).plan(f), notion(value).plan(f, horizon=n, method="optimal"),
            GaussianDiscount(EPSILON, DELTA, **{kernel: value}).plan(f),
        )  # fmt: skip
        for curve, plan in zip(curves.values(), plans, strict=True):
            curve.append(math.nan if plan is None else float(relative_error(plan, source).mean()))
    return {"parameter": np.array(values), **{name: np.array(curve) for name, curve in curves.items()}}


def corollary_16_holds(beta: float) -> bool:
    """Whether the paper's constant is at least the one needed (erratum D1: only for 1.22·10⁻⁵ ≤ β < 3.654)."""
    return paper_constant(beta) >= true_constant(beta)


def where_corollary_16_ends() -> float:
    """Return the β from which on Corollary 16 is false at the first step: c_paper(β) = 1 there.

    >>> round(where_corollary_16_ends(), 3)
    3.654
    """
    from scipy.optimize import brentq

    return float(brentq(lambda b: paper_constant(b) - 1, 1.0, 10.0))


def witness_data(betas: Sequence[float] = WITNESSES, steps: int = 1000) -> list[Witness]:
    """Return what Corollary 16, used unchecked, would risk: the notion's own risk of losses ε/(c√k)."""
    found = []
    for beta in betas:
        stated = paper_constant(beta)
        losses = 1 / (stated * np.sqrt(np.arange(1, steps + 1, dtype=np.float64)))
        risks = HyperbolicDiscount(1.0, beta=beta).risks(losses, 0, "laplace")
        at = int(np.argmax(risks))
        found.append(Witness(beta, stated, true_constant(beta), float(risks[at]), at + 1))
    return found


def table_data(
    betas: Sequence[float] = TABLE_BETAS,
    steps: int = TABLE_STEPS,
    progress: Progress = lambda what, done, total: None,
    methods: Sequence[str] = METHODS,
) -> list[TableRow]:
    """Return last, mean and root-mean-square scale of each plan at Δf = ε = 1 over so many steps."""
    rows: list[TableRow] = []
    total = len(betas) * len(methods)
    for beta in betas:
        for method in methods:
            progress(f"β = {beta:g}: {method}", len(rows), total)
            rows.append(_table_row(beta, method, steps))
    return rows


def _table_row(beta: float, method: str, steps: int) -> TableRow:
    if method == "paper" and not corollary_16_holds(beta):
        nan = math.nan
        return TableRow(beta, method, nan, nan, nan, over=true_constant(beta) / paper_constant(beta))
    plan = HyperbolicDiscount(1.0, beta=beta).plan(horizon=steps, method=method)
    scales = plan.scales(steps)
    square = math.sqrt(float(np.mean(scales**2)))
    return TableRow(beta, method, float(scales[-1]), float(scales.mean()), square, plan.facts.get("duality_gap"))


def reproduce(
    source: Source, steps: int = TABLE_STEPS, progress: Progress = lambda what, done, total: None
) -> Reproduction:
    """Compute every figure and table."""
    first, second = len(TABLE_BETAS) * len(METHODS), len(SMALL_BETAS) * len(METHODS)
    before = 2 + first + second
    total = before + promise_count()
    progress("Figure 2", 0, total)
    errors = error_data(source)
    progress("Figure 3", 1, total)
    averages = average_data(source)
    rows = table_data(TABLE_BETAS, steps, lambda what, done, _: progress(what, 2 + done, total))
    small = table_data(SMALL_BETAS, steps, lambda what, done, _: progress(what, 2 + first + done, total))
    outcomes = attack_data(source.homes, lambda what, done, _: progress(what, before + done, total))
    return Reproduction(
        source, steps, tuple(rows), tuple(small), tuple(witness_data()), errors, averages, tuple(outcomes)
    )


def figure_tables(found: Reproduction) -> dict[str, pa.Table]:
    """Return the numbers of every figure and table as columns, by file name."""
    import pyarrow as pa

    source = found.source
    curves = [(panel, name, y) for panel, lines in found.errors.items() for name, y in lines.items()]
    averages = [
        (axis, name, x, y)
        for axis, lines in found.averages.items()
        for name, ys in lines.items()
        if name != "parameter"
        for x, y in zip(lines["parameter"].tolist(), ys.tolist(), strict=True)
    ]
    return {
        "figure1_left": pa.table(dict(histogram_data(source))),
        "figure1_right": pa.table({"day": source.days, "mean_kwh_per_home": source.mean_kwh}),
        "figure2": pa.table(
            {
                "panel": [panel for panel, _, y in curves for _ in y],
                "curve": [name for _, name, y in curves for _ in y],
                "day": np.tile(source.days, len(curves)),
                "expected_relative_error": np.concatenate([y for *_, y in curves]),
            }
        ),
        "figure3": pa.Table.from_pylist(
            [
                {"parameter": axis, "curve": name, "value": x, "average": None if math.isnan(y) else y}
                for axis, name, x, y in averages
            ]
        ),
        "scales": pa.Table.from_pylist([{"steps": found.steps, **r._asdict()} for r in (*found.rows, *found.small)]),
        "witnesses": pa.Table.from_pylist([w._asdict() for w in found.witnesses]),
        "attacks": pa.Table.from_pylist([o._asdict() for o in found.outcomes]),
    }


# Text ---------------------------------------------------------------------------------------------------------------


def four_figures(x: float) -> str:
    """Return a number with four significant figures, and from 1,000 on to the unit, for the table.

    >>> four_figures(77.7926), four_figures(1997.49), four_figures(15854.8), four_figures(1.9313)
    ('77.79', '1,997', '15,855', '1.931')
    """
    places = 3 - math.floor(math.log10(float(f"{x:.3e}")))
    return f"{x:,.{max(0, places)}f}"


def table_cells(row: TableRow) -> tuple[str, ...]:
    """Return one line of the table as text."""
    head = (f"{row.beta:g}", row.method)
    if row.over is not None:
        return (*head, f"refused (D1: {four_figures(row.over)} ε)", "", "", "")
    gap = "" if row.duality_gap is None else f"{max(row.duality_gap, 0.0):.0e}"
    return (*head, *(four_figures(x) for x in (row.last, row.mean, row.root_mean_square)), gap)


TABLE_HEADS = ("β", "plan", "last", "mean", "root mean square", "duality gap")
WITNESS_HEADS = ("β", "constant of Corollary 16", "constant needed", "largest risk", "at step")


def witness_cells(w: Witness) -> tuple[str, ...]:
    """Return one witness as text."""
    return (f"{w.beta:g}", f"{w.stated:.4f}", f"{w.needed:.4f}", f"{four_figures(w.risk)} ε", str(w.step))


def scale_table(rows: Sequence[TableRow]) -> str:
    """Return the table of scales in Markdown, as the docs show it; duality gaps differ from machine to machine: left out."""
    return markdown(TABLE_HEADS[:-1], [table_cells(row)[:-1] for row in rows])


def witness_table(witnesses: Sequence[Witness]) -> str:
    """Return the witnesses of D1 in Markdown."""
    return markdown(WITNESS_HEADS, [witness_cells(w) for w in witnesses])


def tables_markdown(found: Reproduction) -> str:
    """Return `tables.md`: every table of the report, with what it is made of."""
    gaps = [row.duality_gap for row in (*found.rows, *found.small) if row.duality_gap is not None]
    errors = [
        (panel, name, f"{three_figures(100 * float(y.mean()))} %", f"{three_figures(100 * float(y[-1]))} %")
        for panel, curves in found.errors.items()
        for name, y in curves.items()
    ]
    notes = "\n".join(f"- {note}" for note in found.source.notes)
    return f"""# Temporally discounted differential privacy, reproduced

Data: {found.source.name}. Δf = {found.source.sensitivity:.4g} kWh per home and day.

{notes}

## Expected relative error over the year (Figure 2)

{markdown(("notion", "plan", "average", "last day"), errors)}

## Noise scales over {found.steps:,} steps, Δf = ε = 1, hyperbolic

{scale_table(found.rows)}

The duality gap of every `optimal` is at most {max(gaps, default=0.0):.0e}: no plan's
total squared noise is smaller by more than that share.

## The same where β·T is small

{scale_table(found.small)}

## Witnesses of erratum D1: what Corollary 16 would risk, used unchecked

{witness_table(found.witnesses)}

## What an attacker makes of it: the half-hourly total of homes, clip {CLIP_KWH:g} kWh, ε = 1

How often the best guess about one of {found.source.homes_of} is right (50 %: guessing); from which half-life on it is right less
often; and what T8 allows, for a half-life and a window that begins with the first release.

{attack_tables(found.outcomes, found.source.mean_clipped_kwh)}
"""
