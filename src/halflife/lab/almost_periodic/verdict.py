"""What came of the test of almost-periodicity, in numbers and in words."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from halflife.lab.almost_periodic.patterns import FAR_REACH, WEEK, Finding, stands_out
from halflife.numerics.arrays import Floats
from halflife.numerics.forms import JsonObject
from halflife.processes.verdict import duration

Outcome = Literal["contradicted", "not contradicted", "too little data"]

FEWEST_PERIODS = 8
"""With fewer, the own mean that is taken off forces ρ to about −1/(K − 1), and little else can be seen."""

LOOKED_AT = (
    "This looked at people's readings without noise: every number here is a fact about them. Use it on a design sample, or on "
    "data that is public or paid for; nothing of it may be published, or shape a release about the same people, for free."
)
MEANING = (
    "The test is about what the promise means, not about whether it holds: its proof never uses independence (P5). What is "
    "promised is differential privacy given w, for a split into z and w that is not unique (z + c, w − c; P3)."
)


class Printed(NamedTuple):
    """What the paper prints of a data set (Section 4.2): every |ρ| is below `below`, and half of them are at most `median`."""

    data: str
    homes: int
    period: str
    median: float | None
    below: float


PRINTED = (
    Printed("Ausgrid, July 2012 to June 2013", 300, "day", 0.1259, 0.5),
    Printed("Ausgrid, July 2012 to June 2013", 300, "week", None, 0.33),
    Printed("UMass, 1 January to 14 December 2016", 114, "day", 0.0746, 0.35),
)
"""Of other people than those tested here: for comparison only."""


class Lag(NamedTuple):
    """The mean of ρ over all pairs of periods so far apart, and the range of that mean over the shuffled copies."""

    lag: int
    mean: float
    low: float
    high: float


class Tells(NamedTuple):
    """How much w tells about z (P5; ours).

    correlation   of log(standard deviation of w) with log(mean of z), over homes
    blind, told   by what factor a home's mean of z is typically off (one standard deviation of its logarithm): not knowing w,
                  and knowing only how far w spreads
    homes         that have both; a home without variation or with a mean of 0 or less has no logarithm
    """

    correlation: float
    blind: float
    told: float
    homes: int

    @property
    def text(self) -> str:
        """The same as a sentence."""
        if math.isnan(self.correlation):
            return (
                "How much w tells about z cannot be measured: too few homes have both a positive mean and a variation."
            )
        return (
            f"w tells about z: over {self.homes} homes the correlation of log(sd of w) with log(mean of z) is "
            f"{self.correlation:.2f}. A home's mean, known within a factor of {self.blind:.2f} to one who knows the other homes, "
            f"is known within {self.told:.2f} to one who also sees how far its w spreads; the promise does not cover that."
        )


@dataclass(frozen=True, eq=False)
class PeriodCheck:
    """The coefficients ρ_kℓ for one period, what they would be without dependence, and what follows.

    period, step_minutes   T in steps; how long a step is
    homes, periods, left   J; K; steps at the end that do not fill a period and are not used
    missing                share of the readings used that are missing
    rho                    K × K; NaN where no home has readings in both periods, or nothing varies
    shuffled_medians, shuffled_maxima   of |ρ|, k ≠ ℓ, in each shuffled copy
    shuffled_sample        coefficients of one shuffled copy, for the histogram
    lags                   ρ by distance;  findings  what breaks it;  tells  how much w tells about z
    unexplained            share of the variance within homes that z does not predict (see `unexplained_share`)
    """

    period: int
    step_minutes: float
    homes: int
    periods: int
    left: int
    missing: float
    rho: Floats
    shuffled_medians: tuple[float, ...]
    shuffled_maxima: tuple[float, ...]
    shuffled_sample: Floats
    lags: tuple[Lag, ...]
    findings: tuple[Finding, ...]
    tells: Tells
    unexplained: float

    def coefficients(self) -> Floats:
        """Return every known ρ_kℓ with k < ℓ."""
        values: Floats = self.rho[np.triu_indices(self.periods, 1)]
        return values[np.isfinite(values)]

    @property
    def median(self) -> float:
        """Of |ρ|, k ≠ ℓ; NaN if there is no coefficient."""
        values = np.abs(self.coefficients())
        return float(np.median(values)) if len(values) else math.nan

    @property
    def maximum(self) -> float:
        """Of |ρ|, k ≠ ℓ; NaN if there is no coefficient."""
        return float(np.abs(self.coefficients()).max(initial=-math.inf)) if len(self.coefficients()) else math.nan

    @property
    def largest_pair(self) -> tuple[int, int] | None:
        """The two periods, counted from 1, whose |ρ| is largest."""
        if math.isnan(self.maximum):
            return None
        values = np.nan_to_num(np.abs(np.triu(self.rho, 1)))
        k, ell = np.unravel_index(int(values.argmax()), values.shape)
        return int(k) + 1, int(ell) + 1

    @property
    def median_p(self) -> float:
        """(1 + how many shuffled medians are as large) / (1 + copies): the smallest it can be is 1/(1 + copies)."""
        return _p(self.median, self.shuffled_medians)

    @property
    def maximum_p(self) -> float:
        """The same for the largest |ρ|."""
        return _p(self.maximum, self.shuffled_maxima)

    @property
    def excess(self) -> float:
        """√max(0, mean ρ² − mean ρ² of a shuffled copy): the typical correlation that chance does not explain."""
        own, null = self.coefficients(), self.shuffled_sample
        if not len(own):
            return math.nan
        return math.sqrt(max(0.0, float(np.mean(own**2) - np.mean(null**2))))

    @property
    def dependent(self) -> bool:
        """Whether the median or the largest |ρ| stands out of the shuffled copies (see `stands_out`)."""
        bulk = stands_out(self.median, self.shuffled_medians)
        return bulk or stands_out(self.maximum, self.shuffled_maxima, FAR_REACH)

    @property
    def outcome(self) -> Outcome:
        """One of three; "not contradicted" is not "proved"."""
        if self.periods < FEWEST_PERIODS:
            return "too little data"
        return "contradicted" if self.dependent or self.findings else "not contradicted"

    @property
    def name(self) -> str:
        """The period in words."""
        return period_name(self.period * self.step_minutes)

    @property
    def verdict(self) -> str:
        """The outcome in a few sentences."""
        if self.outcome == "too little data":
            return (
                f"Too little data: {self.periods} periods of {self.name} say nothing about independence; give at least "
                f"{FEWEST_PERIODS}."
            )
        if not len(self.coefficients()):
            return f"Not contradicted: with a period of {self.name} nothing is left that varies."
        numbers = self._numbers()
        if self.outcome == "not contradicted":
            return (
                f"Not contradicted: {numbers} That is no proof of independence: this test did not see any dependence."
            )
        small = " Small is not independent." if self.dependent else ""
        named = "; ".join(finding.text for finding in self.findings)
        broken = f" What breaks it: {named}." if named else " Nothing that has a name explains it."
        return f"Contradicted: {numbers}{small}{broken}"

    def _numbers(self) -> str:
        low, high = min(self.shuffled_medians), max(self.shuffled_medians)
        span = f"{low:.3f}" if f"{low:.3f}" == f"{high:.3f}" else f"{low:.3f} to {high:.3f}"
        return (
            f"with a period of {self.name}, the median |ρ| of {self.homes} homes over {self.periods} periods is "
            f"{self.median:.3f}; if each home's periods are shuffled it is {span} (p = {self.median_p:.2g}). The largest is "
            f"{self.maximum:.2f}; shuffled it is at most {max(self.shuffled_maxima):.2f} (p = {self.maximum_p:.2g})."
        )

    def at_lag(self, lag: int) -> Lag | None:
        """ρ for periods so far apart, if there are any."""
        return next((row for row in self.lags if row.lag == lag), None)

    def named_lags(self) -> list[tuple[str, Lag]]:
        """Return the distances that people ask about, where there are eight pairs: neighbours, a week, half a year, a year."""
        minutes, rows = self.period * self.step_minutes, list[tuple[str, Lag]]()
        asked = (
            ("neighbours", minutes),
            ("a week apart", WEEK),
            ("half a year apart", 26 * WEEK),
            ("a year apart", 52 * WEEK),
        )
        for name, apart in asked:
            row = self.at_lag(round(apart / minutes))
            if (
                row is not None
                and row.lag * minutes == apart
                and row.lag <= self.periods - 8
                and row not in [r for _, r in rows]
            ):
                rows.append((name, row))
        return rows

    def summary(self) -> JsonObject:
        """Return everything but the matrix, as JSON can hold it."""
        known = bool(len(self.coefficients()))
        return {
            "outcome": self.outcome,
            "verdict": self.verdict,
            "meaning": MEANING,
            "looked_at": LOOKED_AT,
            "period": self.period,
            "step_minutes": self.step_minutes,
            "homes": self.homes,
            "periods": self.periods,
            "unused_steps": self.left,
            "missing": self.missing,
            "median": self.median if known else None,
            "maximum": self.maximum if known else None,
            "shuffled_medians": list(self.shuffled_medians) if known else [],
            "shuffled_maxima": list(self.shuffled_maxima) if known else [],
            "median_p": self.median_p,
            "maximum_p": self.maximum_p,
            "excess": self.excess if known else None,
            "lags": {name: row._asdict() for name, row in self.named_lags()},
            "findings": [finding._asdict() for finding in self.findings],
            "tells": None if math.isnan(self.tells.correlation) else {**self.tells._asdict(), "text": self.tells.text},
            "unexplained": self.unexplained if math.isfinite(self.unexplained) else None,
        }

    def __str__(self) -> str:
        named = (
            f"ρ, {name}: {row.mean:.3f} (shuffled {row.low:.3f} to {row.high:.3f})" for name, row in self.named_lags()
        )
        lines = [self.verdict, "", *named]
        return "\n".join([*lines, "", self.tells.text, "", MEANING, "", LOOKED_AT])


@dataclass(frozen=True)
class PeriodChoice:
    """The period that is proposed, why, and the test for every candidate, the shortest first."""

    best: PeriodCheck
    checks: tuple[PeriodCheck, ...]
    reason: str

    def __str__(self) -> str:
        head = f"{'period':>12} {'unexplained':>12} {'median |ρ|':>11} {'shuffled':>9} {'noise':>7}  outcome"
        shortest = self.checks[0].period
        rows = [
            f"{c.name:>12} {100 * c.unexplained:>10.1f} % {c.median:>11.3f} {np.mean(c.shuffled_medians):>9.3f} "
            f"{c.period / shortest:>6.3g}×  {c.outcome}"
            for c in self.checks
        ]
        return "\n".join([self.reason, "", head, *rows])


def period_name(minutes: float) -> str:
    """Return a period in words.

    >>> period_name(1440), period_name(10080), period_name(720)
    ('a day', 'a week', '12 hours')
    """
    return {1440.0: "a day", WEEK: "a week"}.get(minutes, duration(minutes))


def _p(value: float, null: tuple[float, ...]) -> float:
    return 1.0 if math.isnan(value) else (1 + sum(x >= value for x in null)) / (1 + len(null))
