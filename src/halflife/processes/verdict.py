"""The result of checking a process against data, in numbers and in words."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

from halflife.numerics.forms import JsonObject

FAMILY_WISE = 1e-3
LEAST_DELTA = 1e-6
"""Factors are told up to 1 over this."""

Outcome = Literal["under-reports", "no contradiction found", "too little data"]
Kind = Literal["any time", "same time of day"]
KINDS: tuple[Kind, ...] = ("any time", "same time of day")


class Row(NamedTuple):
    """One lag, one kind.

    units           how many units there are, as far as their weights are equal
    model, largest  Δ(lag) of the model: mean over these units, and the largest, which is what a promise uses
    direct          mean of d̂, an estimate from below;  low, high  its simultaneous confidence interval
    excess          simultaneous lower bound on the mean of d̂ − Δ(lag)
    model_risk      what is left of ε = 1 by the model, the largest;  direct_risk  by the two frequencies behind d̂, the mean
    """

    kind: Kind
    lag: int
    units: int
    model: float
    largest: float
    direct: float
    low: float
    high: float
    excess: float
    model_risk: float
    direct_risk: float
    outcome: Outcome

    @property
    def reach(self) -> float:
        """How far above the model the mean of d̂ has to lie to be beyond doubt."""
        return self.direct - self.model - self.excess


@dataclass(frozen=True)
class Check:
    """The result of checking a process against data.

    outcome  "under-reports", "no contradiction found" or "too little data";  rows  lag by lag, both kinds
    people, units   how many sequences, and into how many units they were cut at most
    """

    process: str
    outcome: Outcome
    rows: tuple[Row, ...]
    people: int
    units: int
    step_minutes: float
    family_wise: float = FAMILY_WISE

    @property
    def good(self) -> bool:
        """Whether the data was enough, and nothing in it contradicts the process."""
        return self.outcome == "no contradiction found"

    @property
    def worst(self) -> Row | None:
        """The row with the largest excess that is beyond doubt; None if there is none."""
        bad = [row for row in self.rows if row.outcome == "under-reports"]
        return max(bad, key=lambda row: row.excess) if bad else None

    @property
    def factor(self) -> float:
        """How many times the largest Δ of the model the average Δ of the data is, where it is worst; 1 if nothing was found.

        It is a factor from below, as the data's worst person is not the average one, and is told up to 10⁶.
        """
        worst = self.worst
        return 1.0 if worst is None else max(1.0, worst.direct / max(worst.largest, LEAST_DELTA))

    @property
    def verdict(self) -> str:
        """The outcome as a sentence."""
        tested = [row for row in self.rows if row.outcome != "too little data"]
        worst = self.worst
        if worst is not None:
            return self._say_contradiction(worst)
        if self.outcome == "too little data":
            return (
                f"Too little data: {len(tested)} of {len(self.rows)} comparisons had enough of it, so this says nothing about "
                "the process. Give more people or longer sequences."
            )
        longest, width = max(row.lag for row in tested), max(row.reach for row in tested)
        return (
            f"No contradiction found between the process and the data of {people_text(self.people)}, up to {self.ago(longest)} "
            f"back; an under-report of Δ by {width:.2f} or more, on average over people, would have been seen."
        )

    def _say_contradiction(self, worst: Row) -> str:
        bad = {row.lag for row in self.rows if row.outcome == "under-reports"}
        of = {row.lag for row in self.rows}
        when = "" if worst.kind == "any time" else ", with the time of day held fixed"
        times = f"{self.factor:,.0f}" if self.factor >= 10 else f"{self.factor:.1f}"
        says = f"{worst.model:.2g}"
        if worst.largest > 1.01 * worst.model:
            says += f" on average and {worst.largest:.2g} for the worst person"
        more = f", {times} times as much" if self.factor >= 1.05 else ""
        return (
            f"The process under-reports: {self.ago(worst.lag)} back{when}, it says Δ = {says}; the data says {worst.direct:.2f} "
            f"on average or more (at least {worst.low:.2f}){more}. Of a loss ε = 1 the process leaves {worst.model_risk:.2g} at "
            f"most, the data {worst.direct_risk:.2f} or more. {len(bad)} of {len(of)} lags contradict it."
        )

    def ago(self, lag: int) -> str:
        """Return a lag in human time."""
        return duration(lag * self.step_minutes)

    def summary(self) -> JsonObject:
        """Return what certificates carry, as JSON can hold it."""
        worst = self.worst
        tested = [row for row in self.rows if row.outcome != "too little data"]
        found = {} if worst is None else {
            "worst": {
                "kind": worst.kind, "lag": worst.lag, "model": worst.model, "largest": worst.largest,
                "direct": worst.direct, "at_least": worst.low,
                "model_risk": worst.model_risk, "direct_risk": worst.direct_risk,
            },
        }  # fmt: skip
        return {
            "outcome": self.outcome,
            "good": self.good,
            "verdict": self.verdict,
            "factor": self.factor,
            "people": self.people,
            "units": self.units,
            "confidence": 1 - self.family_wise,
            "lags": sorted({row.lag for row in tested}),
            "kinds": [kind for kind in KINDS if any(row.kind == kind for row in tested)],
            **found,
        }

    def __str__(self) -> str:
        lines = [self.verdict, ""]
        for kind in KINDS:
            rows = [row for row in self.rows if row.kind == kind]
            if rows:
                lines += [kind, f"{'back':>12} {'model Δ':>9} {'direct':>7} {'interval':>15}  outcome"]
            for row in rows:
                span = "" if math.isnan(row.direct) else f"[{row.low:.3f}, {row.high:.3f}]"
                lines.append(f"{self.ago(row.lag):>12} {row.model:>9.3g} {row.direct:>7.3f} {span:>15}  {row.outcome}")
        confidence = 100 * (1 - self.family_wise)
        lines.append(
            f"{people_text(self.people)}, up to {self.units} units; intervals hold together with {confidence:g} %"
        )
        return "\n".join(lines)


def duration(minutes: float) -> str:
    """Return a span of time in its natural unit.

    >>> duration(30), duration(90), duration(1440), duration(10080)
    ('30 minutes', '1.5 hours', '24 hours', '7 days')
    """
    for size, unit in ((1440.0, "days"), (60.0, "hours")):
        if minutes >= (2 if unit == "days" else 1) * size:
            number = f"{minutes / size:.3g}"
            return f"{number} {unit if number != '1' else unit[:-1]}"
    return f"{minutes:.3g} minutes"


def people_text(people: int) -> str:
    """Return a number of people as text: 1 person, 2 people."""
    return "1 person" if people == 1 else f"{people:,} people"
