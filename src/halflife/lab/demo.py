"""The demo: one town's mean electricity use per home, published every half hour under every registered notion.

The homes are generated (`halflife.lab.households`); everything after that is what a real publication does: readings become
whole Wh, are clipped at a public bound and added up exactly, and each step gets release-grade noise, charged to an account.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from halflife import registry
from halflife.accountant import Accountant
from halflife.errors import HalflifeError, InvalidInput
from halflife.lab.households import MAX_KWH, simulate
from halflife.mechanisms import publish_series
from halflife.notions import Notion
from halflife.notions.base import Floats
from halflife.numerics import divide_up, up, whole
from halflife.plans import Plan
from halflife.release import Release

if TYPE_CHECKING:
    import pyarrow as pa

START = datetime.datetime(2024, 1, 8, tzinfo=datetime.UTC)
"""A Monday in winter."""

WH_PER_KWH = 1000
MAX_WH = round(MAX_KWH * WH_PER_KWH)

BAND_OF_UNIT_SCALE = {"laplace": math.log(20), "gaussian": 1.959963984540054}
"""95 % of the noise of scale 1 lies within ± this: P(|X| > x) = exp(−x) = 1/20 for Laplace noise."""

Progress = Callable[[str, int, int], None]
"""What is being done now, how many pieces of work are done, how many there are."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """What one notion made of the series.

    published, scales, error_band, risks   one number a step; `error_band` is the half-width of the 95 % band
    limit                                  what the risk is promised to stay under
    """

    notion: Notion[Any]
    plan: Plan
    releases: tuple[Release, ...]
    published: Floats
    scales: Floats
    error_band: Floats
    risks: Floats
    limit: float

    @property
    def label(self) -> str:
        """The notion in words, with its parameters."""
        return f"{self.notion.name} ({parameters(self.notion)})"


@dataclass(frozen=True, eq=False)
class DemoResult:
    """Everything the demo made: the exact series, one outcome for each notion, and where the files are."""

    households: int
    days: int
    seed: int
    sensitivity: float
    times: NDArray[np.datetime64]
    exact: Floats
    outcomes: tuple[Outcome, ...]
    parquet: Path
    report: Path


class ErrorRow(NamedTuple):
    """One line of the table of errors. Errors and scales in kWh, risks in nats, shares as parts of 1."""

    label: str
    mean_scale: float
    last_scale: float
    mean_absolute_error: float
    relative_error: float
    last_risk: float
    limit: float
    largest_share: float


def run_demo(
    folder: Path,
    households: int = 300,
    days: int = 60,
    seed: int = 1,
    progress: Progress = lambda what, done, total: None,
) -> DemoResult:
    """Publish the town's mean use under every registered notion; write `releases.parquet` and `report.html`.

    The seed makes the homes, never the noise: two runs have the same exact series and different published ones. A notion
    that cannot publish this series stops the demo with an error that names it.
    """
    from halflife.lab.page import load_plotly
    from halflife.lab.report import write_report

    load_plotly()  # a missing extra is reported before any work is done
    homes = whole("households", households, least=1)
    notions = [cls.examples()[0] for cls in registry.NOTIONS.values()]
    total = len(notions) + 2
    progress("simulating the homes", 0, total)
    readings = simulate(homes, days, START, seed)
    exact, sensitivity = mean_per_home(readings.kwh), mean_sensitivity(homes)
    outcomes = []
    for done, notion in enumerate(notions, start=1):
        progress(f"publishing under {notion.name}", done, total)
        outcomes.append(publish_under(notion, exact, sensitivity))
    progress("writing the report", total - 1, total)
    result = DemoResult(
        homes, days, seed, sensitivity, readings.times, exact, tuple(outcomes),
        folder / "releases.parquet", folder / "report.html",
    )  # fmt: skip
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_releases(result, result.parquet)
        write_report(result, result.report)
    except OSError as error:
        raise InvalidInput(f"cannot write to {folder}: {error.strerror or error}: choose another folder") from error
    progress("done", total, total)
    return result


def mean_per_home(kwh: Floats) -> Floats:
    """Return the mean of each half hour over the homes, in kWh: whole Wh, clipped, added up exactly, divided once.

    Whole numbers add up to the same total in any order; sums of floats do not, and would void the sensitivity.

    >>> mean_per_home(np.array([[0.2, 7.0], [0.1004, -1.0]]))
    array([0.15, 2.5 ])
    """
    if not (np.abs(kwh) < 1e12).all():
        raise InvalidInput(
            "a reading is NaN, infinite or absurdly large: leave bad readings out before the mean is taken"
        )
    watt_hours = np.rint(kwh * WH_PER_KWH).astype(np.int64)
    totals = np.clip(watt_hours, 0, MAX_WH).sum(axis=0)
    means: Floats = totals / (WH_PER_KWH * len(kwh))
    return means


def mean_sensitivity(households: int) -> float:
    """Return how far one home's reading can move `mean_per_home`, in kWh: MAX_KWH / households, rounded up.

    The number of homes is public. The division rounds each mean by up to half a unit in the last place, so two of them can
    lie one unit further apart than the exact quotients: that unit is added.

    >>> round(mean_sensitivity(300), 9)
    0.016666667
    """
    return up(divide_up(MAX_KWH, float(households)) + math.ulp(MAX_KWH))


def publish_under(notion: Notion[Any], exact: Floats, sensitivity: float) -> Outcome:
    """Publish every step with the notion's default plan and release-grade noise, and collect what came of it."""
    steps, account = len(exact), Accountant(notion)
    try:
        plan = notion.plan(sensitivity=sensitivity)
        published, releases = publish_series(plan, exact, account)
        risks = plan.risks(steps)
    except HalflifeError as error:
        raise HalflifeError(f"the demo cannot publish under {notion.name}: {error}") from error
    if len(releases) != steps:
        raise HalflifeError(
            f"the demo publishes every step, but the plan for {notion.name} has a release in only {len(releases)} of "
            f"{steps}: its first example needs another plan"
        )
    scales = np.array([r.scale for r in releases], dtype=np.float64)
    band = np.array([BAND_OF_UNIT_SCALE[r.noise] for r in releases]) * scales
    return Outcome(notion, plan, tuple(releases), published, scales, band, risks, account.exposure(steps).limit)


# What is written and shown ------------------------------------------------------------------------------------------

_SYMBOLS = {"epsilon": "ε", "delta": "δ", "alpha": "α", "beta": "β"}


def parameters(notion: Notion[Any]) -> str:
    """Return a notion's parameters as a reader would write them.

    >>> from halflife import WEvent
    >>> parameters(WEvent(1.0, 48))
    'ε = 1, w = 48, δ = 0'
    """
    items = ((k, v) for k, v in notion.to_dict().items() if k != "name" and v is not None)
    return ", ".join(f"{_SYMBOLS.get(k, k.replace('_', ' '))} = {_short(v)}" for k, v in items)


def _short(value: Any) -> str:
    """A parameter in a few characters: what has parts gives its name, or how many there are."""
    if isinstance(value, float):
        return f"{value:.6g}".replace("e-0", "e-")
    if isinstance(value, Mapping):
        return str(value.get("name", f"{len(value)} settings"))
    return f"{len(value)} items" if isinstance(value, list | tuple) else str(value)


def three_figures(x: float) -> str:
    """Return a number with three significant figures and no exponent, for tables.

    >>> three_figures(0.80049), three_figures(3859.1), three_figures(100.0), three_figures(0.0)
    ('0.800', '3,860', '100', '0')
    """
    if x == 0 or not math.isfinite(x):
        return f"{x:g}"
    rounded = float(f"{x:.2e}")
    places = max(0, 2 - math.floor(math.log10(abs(rounded))))
    return f"{rounded:,.{places}f}"


def error_data(result: DemoResult) -> list[ErrorRow]:
    """Return the table of errors: one row for each notion."""
    mean = float(result.exact.mean())
    rows = []
    for o in result.outcomes:
        error = float(np.abs(o.published - result.exact).mean())
        share = float(risk_share(o).max())
        rows.append(
            ErrorRow(
                o.label, float(o.scales.mean()), float(o.scales[-1]), error, error / mean, float(o.risks[-1]), o.limit, share
            )
        )  # fmt: skip
    return rows


def risk_share(outcome: Outcome) -> Floats:
    """Return the risk after each step as a share of what is promised."""
    share: Floats = outcome.risks / outcome.limit
    return share


def series_data(result: DemoResult, outcome: Outcome) -> dict[str, Floats]:
    """Return the exact and the published series, and the band around the exact one that holds 95 % of the published."""
    return {
        "exact": result.exact,
        "published": outcome.published,
        "low": result.exact - outcome.error_band,
        "high": result.exact + outcome.error_band,
    }


def scale_data(result: DemoResult) -> dict[str, Floats]:
    """Return the noise scale of each step, by notion."""
    return {o.label: o.scales for o in result.outcomes}


def risk_data(result: DemoResult) -> dict[str, Floats]:
    """Return the share of the promise that is in use after each step, by notion."""
    return {o.label: risk_share(o) for o in result.outcomes}


def releases_table(result: DemoResult) -> pa.Table:
    """Return all that was published as columns. The exact values are not among them.

    value, scale, sensitivity and error_band are in kWh per home and half hour, loss is in nats (Laplace noise) or the μ
    of Gaussian differential privacy (Gaussian noise).
    """
    import pyarrow as pa

    releases = [r for o in result.outcomes for r in o.releases]
    starts = pa.array(np.tile(result.times, len(result.outcomes)).astype("datetime64[us]"))
    columns = {
        "notion": pa.array([o.notion.name for o in result.outcomes for _ in o.releases], pa.string()),
        "step": pa.array([r.step for r in releases], pa.int64()),
        "step_start": starts.cast(pa.timestamp("us", tz="UTC")),
        "value": np.concatenate([o.published for o in result.outcomes]),
        "scale": pa.array([r.scale for r in releases], pa.float64()),
        "loss": pa.array([r.loss for r in releases], pa.float64()),
        "sensitivity": pa.array([r.sensitivity for r in releases], pa.float64()),
        "noise": pa.array([r.noise for r in releases], pa.string()),
        "error_band": np.concatenate([o.error_band for o in result.outcomes]),
    }
    about = "mean use per home and half hour, in kWh; the homes are generated by halflife.lab.households"
    return pa.table(columns, metadata={"about": about})


def write_releases(result: DemoResult, path: Path) -> None:
    """Write what was published as a Parquet file."""
    import pyarrow.parquet as pq

    pq.write_table(releases_table(result), path)
