"""An exact series beside what was published of it: the data and the tables of a comparison of promises.

Only data and tables are here: `halflife.cli.demo` publishes, `lab.views.report` draws. Exact values can be shown where nobody's
privacy is at stake, such as generated homes or data that is public already; a real publication never shows them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from halflife.engines import open_source
from halflife.lab.views.text import describe_parameters
from halflife.notions import Notion
from halflife.numerics.arrays import Floats
from halflife.plans import Plan
from halflife.policy import Policy, channels
from halflife.release import Release

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, eq=False)
class Outcome:
    """What one policy's stream has published, as its ledger has it.

    releases, added                        what the account was charged with, in the policy's whole units; and of each step
                                           the last of them
    published, scales, error_band, risks   one number a step, in the output's unit (risks in the promise's); `scales` is
                                           the noise's, `error_band` the half-width of the band that holds 95 % of it
    limit                                  what the risk is promised to stay under
    noisy                                  the values before post-processing; None if there is none
    policy, ledger, head                   where both files are, and the newest hash of the ledger's chain
    """

    notion: Notion
    plan: Plan
    releases: tuple[Release, ...]
    added: tuple[Release, ...]
    published: Floats
    scales: Floats
    error_band: Floats
    risks: Floats
    limit: float
    policy: Path
    ledger: str
    head: str
    noisy: Floats | None = None

    @property
    def label(self) -> str:
        """The notion in words, with its parameters."""
        return f"{self.notion.name} ({describe_parameters(self.notion)})"


@dataclass(frozen=True, eq=False)
class Comparison:
    """An exact series and what was published of it, once for each outcome.

    times, width   when each step begins (UTC), and how long it is
    unit           of the values, such as "kWh per home and day"; its first word is what short texts use
    sensitivity    how far one home can move a value, in the same unit
    """

    households: int
    sensitivity: float
    times: NDArray[np.datetime64]
    width: np.timedelta64
    unit: str
    exact: Floats
    outcomes: tuple[Outcome, ...]

    @property
    def short_unit(self) -> str:
        """The unit without what it is counted by."""
        return self.unit.split()[0]


@dataclass(frozen=True, eq=False)
class DemoResult(Comparison):
    """Everything the demo made, and where the files are."""

    days: int
    seed: int
    parquet: Path
    report: Path


class ErrorRow(NamedTuple):
    """One line of the table of errors. Errors and scales in the unit of the values, risks in nats, shares as parts of 1."""

    label: str
    mean_scale: float
    last_scale: float
    mean_absolute_error: float
    relative_error: float
    last_risk: float
    limit: float
    largest_share: float


class LastWeek(NamedTuple):
    """Relative errors over the last week: of the noisy values, of the estimates, and how many bands hold the exact value."""

    label: str
    noisy: float
    estimate: float
    covered: float


# What is written and shown ------------------------------------------------------------------------------------------


def error_data(result: Comparison) -> list[ErrorRow]:
    """Return the table of errors: one row for each notion, of values before any post-processing."""
    mean = float(result.exact.mean())
    rows = []
    for o in result.outcomes:
        error = float(np.abs((o.published if o.noisy is None else o.noisy) - result.exact).mean())
        share = float(risk_share(o).max())
        rows.append(
            ErrorRow(
                o.label, float(o.scales.mean()), float(o.scales[-1]), error, error / mean, float(o.risks[-1]), o.limit, share
            )
        )  # fmt: skip
    return rows


def last_week_data(result: Comparison) -> list[LastWeek]:
    """Return what post-processing does to the errors of the last week, for each outcome that has any.

    Estimates of half hours begin after a week: what comes before is left out.
    """
    steps = int(np.timedelta64(7, "D") / result.width)
    week = slice(max(steps, len(result.exact) - steps), None)
    exact = result.exact[week]
    if not len(exact):
        return []
    rows = []
    for o in result.outcomes:
        if o.noisy is not None:
            noisy, estimate = (np.abs(x[week] - exact) for x in (o.noisy, o.published))
            covered = float((estimate <= o.error_band[week]).mean())
            mean = float(exact.mean())
            rows.append(LastWeek(o.label, float(noisy.mean()) / mean, float(estimate.mean()) / mean, covered))
    return rows


def risk_share(outcome: Outcome) -> Floats:
    """Return the risk after each step as a share of what is promised."""
    share: Floats = outcome.risks / outcome.limit
    return share


def series_data(result: Comparison, outcome: Outcome) -> dict[str, Floats]:
    """Return the exact and the published series, and the band around the exact one that holds 95 % of the published.

    Of post-processed values the band is theirs, and stands around them.
    """
    if outcome.noisy is not None:
        low, high = outcome.published - outcome.error_band, outcome.published + outcome.error_band
        return {"exact": result.exact, "published": outcome.published, "low": low, "high": high}
    return {
        "exact": result.exact,
        "published": outcome.published,
        "low": result.exact - outcome.error_band,
        "high": result.exact + outcome.error_band,
    }


def short_labels(result: Comparison) -> list[str]:
    """Return what tells the outcomes apart: the notions' names, with all parameters where two names are the same."""
    names = [o.notion.name for o in result.outcomes]
    return names if len(set(names)) == len(names) else [o.label for o in result.outcomes]


def scale_data(result: Comparison) -> dict[str, Floats]:
    """Return the noise scale of each step, by notion."""
    return dict(zip(short_labels(result), (o.scales for o in result.outcomes), strict=True))


def risk_data(result: Comparison) -> dict[str, Floats]:
    """Return the share of the promise that is in use after each step, by notion."""
    return dict(zip(short_labels(result), map(risk_share, result.outcomes), strict=True))


def releases_table(result: DemoResult) -> pa.Table:
    """Return all that was published as columns. The exact values are not among them.

    value, scale, sensitivity and error_band are in kWh per home and half hour, loss is in nats (Laplace noise) or the μ
    of Gaussian differential privacy (Gaussian noise).
    """
    import pyarrow as pa

    releases = [r for o in result.outcomes for r in o.added]
    starts = pa.array(np.tile(result.times, len(result.outcomes)).astype("datetime64[us]"))
    columns = {
        "notion": pa.array([o.notion.name for o in result.outcomes for _ in o.added], pa.string()),
        "step": pa.array([r.step for r in releases], pa.int64()),
        "step_start": starts.cast(pa.timestamp("us", tz="UTC")),
        "value": np.concatenate([o.published for o in result.outcomes]),
        "scale": np.concatenate([o.scales for o in result.outcomes]),
        "loss": pa.array([r.loss for r in releases], pa.float64()),
        "sensitivity": np.concatenate([_sensitivities(result, o) for o in result.outcomes]),
        "noise": pa.array([r.noise for r in releases], pa.string()),
        "error_band": np.concatenate([o.error_band for o in result.outcomes]),
    }
    about = "mean use per home and half hour, in kWh; the homes are generated by halflife.lab.households.readings"
    return pa.table(columns, metadata={"about": about})


def _sensitivities(result: Comparison, outcome: Outcome) -> Floats:
    """How far one home can move each value, in the output's unit; where it differs by step, by what a scale is worth."""
    moved = np.array([r.sensitivity for r in outcome.added])
    if (moved == moved[0]).all():
        return np.full(len(moved), result.sensitivity)
    scales = np.array([r.scale for r in outcome.added], dtype=np.float64)
    values: Floats = moved * outcome.scales / scales
    return values


def write_releases(result: DemoResult, path: Path) -> None:
    """Write what was published as a Parquet file."""
    import pyarrow.parquet as pq

    pq.write_table(releases_table(result), path)


def exact_series(policy: Policy, steps: int) -> Floats:
    """Return what a policy's stream would publish without noise, from the engine that the publisher asks.

    Nobody may see this of real people: it is for generated homes, and for data that is public already.
    """
    (channel,) = channels(policy)
    source = channel.part.source
    assert source is not None
    engine = open_source(
        source.locate(policy.path), source.format, source.table,
        columns=source.columns, delimiter=source.delimiter, engine=source.engine, master=source.master,
    )  # fmt: skip
    try:
        totals = channel.totals(engine.aggregate(channel.question(1, steps)).sums, 1)[:, 0]
    finally:
        engine.close()
    factors = [channel.sized_at(k).factors[0] for k in range(1, steps + 1)]
    values: Floats = totals * [f.numerator for f in factors] / np.array([f.denominator for f in factors], dtype=float)
    return values
