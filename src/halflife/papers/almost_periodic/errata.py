"""The errata of the almost-periodic paper: what Corollary 8 really loses, the attack on it, and the other witnesses."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from halflife.lab.almost_periodic.verdict import PeriodCheck
from halflife.numerics.arrays import Floats
from halflife.papers.almost_periodic.error import ABSTRACT, Gain
from halflife.papers.almost_periodic.homes import PatternSize, Source
from halflife.papers.figures import DASH, Curve, Erratum, Panel
from halflife.plans.almost_periodic import corollary_8_loss

PERIODS = (1, 2, 3, 5, 10, 30, 100, 349, 365)
AVERAGED = (1, 2, 4, 8, 16, 32, 64, 128, 256, 365)
RUNS = 10_000


# P1 -----------------------------------------------------------------------------------------------------------------


class Loss(NamedTuple):
    """The loss of strong mechanisms after K periods, in multiples of ε, at T = 1 and Δf_z = Δf_w = ε = 1.

    formula   ε[Δf_w/(Δf_z + Δf_w) + K − 1];  attained  the log-likelihood ratio of outputs that exist;  corrected  C1's bound
    """

    periods: int
    formula: float
    attained: float
    corrected: float


def loss_data(periods: Sequence[int] = PERIODS) -> list[Loss]:
    """Return what Corollary 8 loses after so many periods, by the formula of P1 and at outputs that show it."""
    return [Loss(k, corollary_8_loss(1.0, 1.0, 1.0, k), attained_loss(k), 1.0) for k in periods]


def attained_loss(periods: int) -> float:
    """Return ln p(y | w(1) = 0) − ln p(y | w(1) = 1) of Corollary 8 at one output y, by its densities; T = 1, all else 0.

    y(1) is Laplace around w(1) with scale 2, and y(k) given y(1) is Laplace around y(1) − w(1) with scale 1.

    >>> attained_loss(1), attained_loss(2), attained_loss(10)
    (0.5, 1.5, 9.5)
    """
    y = np.concatenate([[-3.0], np.full(periods - 1, 2.0)])
    likely = [_log_density(y, w) for w in (0.0, 1.0)]
    return likely[0] - likely[1]


def _log_density(y: Floats, w: float) -> float:
    centres, scales = np.full(len(y), y[0] - w), np.ones(len(y))
    centres[0], scales[0] = w, 2.0
    return math.fsum((-np.abs(y - centres) / scales - np.log(2 * scales)).tolist())


class Attack(NamedTuple):
    """The error of the estimate of w(1) from K later periods: root mean square, in closed form and simulated.

    Against Corollary 8 it is √(2/K), against C1 √(2 + 2/K), at T = 1 and Δf_z = Δf_w = ε = 1.
    """

    periods: int
    paper: float
    paper_simulated: float
    corrected: float
    corrected_simulated: float


def attack_data(periods: Sequence[int] = AVERAGED, runs: int = RUNS, seed: int = 1) -> list[Attack]:
    """Average K later periods, with their variations taken off, and take that off y(1): what is left estimates w(1).

    Corollary 8 subtracts w(1) from every later period, so the average tends to z + v, and y(1) − (z + v) = w(1).
    """
    rng, found = np.random.default_rng(seed), []
    for k in periods:
        w, u = rng.normal(size=(runs, k + 1)), rng.laplace(0.0, 1.0, (runs, k + 1))
        v = rng.laplace(0.0, 1.0, (runs, 1))
        c1 = w + v + u
        first = w[:, :1] + 2 * v
        paper = np.concatenate([first, first - w[:, :1] + w[:, 1:] + u[:, 1:]], axis=1)
        errors = [float(np.sqrt(np.mean((_estimate(y, w) - w[:, 0]) ** 2))) for y in (paper, c1)]
        found.append(Attack(k, math.sqrt(2 / k), errors[0], math.sqrt(2 + 2 / k), errors[1]))
    return found


def _estimate(y: Floats, w: Floats) -> Floats:
    result: Floats = y[:, 0] - (y[:, 1:] - w[:, 1:]).mean(axis=1)
    return result


def p1_panels(losses: Sequence[Loss], attacks: Sequence[Attack]) -> tuple[Panel, ...]:
    """Draw what Corollary 8 loses, and the attack."""
    last = attacks[-1]
    first = Panel(
        "P1a", "what Corollary 8 loses", "T = 1 and Δf_z = Δf_w = ε = 1. The loss about one person's first-period variations, "
        "which every later period repeats. The rings are log-likelihood ratios of outputs that exist.",
        "periods K (log)", "loss, in multiples of ε (log)", np.array([float(row.periods) for row in losses]),
        (
            Curve("Corollary 8 (paper): UNSOUND", np.array([row.formula for row in losses]), 1),
            Curve("attained", np.array([row.attained for row in losses]), 1, marks=True),
            Curve("C1 (corrected), and what is promised", np.array([row.corrected for row in losses]), 2, DASH),
        ), log_x=True, log_y=True,
    )  # fmt: skip
    second = Panel(
        "P1b", "the attack: averaging later periods", "The root mean square error of an attacker who averages K later periods "
        f"and wants one person's first-period variation. Against Corollary 8 it falls as 1/√K: {last.paper_simulated:.3f} after "
        f"{last.periods} periods, and there is no end to it. Against C1 it stays at √2.",
        "later periods averaged, K (log)", "error of the estimate (log)", np.array([float(row.periods) for row in attacks]),
        (
            Curve("Corollary 8 (paper): √(2/K)", np.array([row.paper for row in attacks]), 1),
            Curve("simulated", np.array([row.paper_simulated for row in attacks]), 1, marks=True),
            Curve("C1 (corrected): √(2 + 2/K)", np.array([row.corrected for row in attacks]), 2, DASH),
            Curve("simulated, C1", np.array([row.corrected_simulated for row in attacks]), 2, marks=True),
        ), log_x=True, log_y=True,
    )  # fmt: skip
    return first, second


# P3 and P4 ----------------------------------------------------------------------------------------------------------


def p3_gap(source: Source, shift: float = 0.1) -> float:
    """Return how far x moves if a pattern is raised by `shift` and all variations lowered by it: two splits, one series."""
    x = source.homes[0]
    z = np.nanmean(x)
    return float(np.nanmax(np.abs((z + (x - z)) - ((z + shift) + (x - z - shift)))))


def p4_differences(clip: float = 1.0, patterns: Sequence[float] = (0.9, 0.5), seed: int = 1) -> dict[float, float]:
    """Return y(2) − y(1) for each pattern z, T = 1, w = (0, 0.3), readings clipped at 1 and noise reused.

    >>> p4_differences()
    {0.9: 0.1, 0.5: 0.3}
    """
    noise = np.random.default_rng(seed).laplace(0.0, 1.0)
    reading: Callable[[float], float] = lambda x: min(x, clip) + noise  # noqa: E731
    return {z: round(reading(z + 0.3) - reading(z), 12) for z in patterns}


# All of them --------------------------------------------------------------------------------------------------------


def errata_data(
    source: Source,
    check: PeriodCheck,
    gains: Sequence[Gain],
    losses: Sequence[Loss],
    attacks: Sequence[Attack],
    told: PatternSize,
) -> list[Erratum]:
    """Return every erratum with its witness, computed."""
    by = {row.periods: row for row in losses}
    said = {z: f"{d:g}" for z, d in p4_differences().items()}
    rho = check.coefficients()
    days = {gain.data: gain.days for gain in gains}
    ours = " and ".join(f"{gain.weak:.0f}" for gain in gains)
    theirs = ", ".join(f"{gain.printed_horizon:,} for {gain.data}" for gain in gains)
    right = ", ".join(f"{gain.data} has {days[gain.data]} days, so {gain.horizon:,}" for gain in gains)
    return [
        Erratum(
            "P1", "Corollary 8: strong privacy", "ε after any number of periods",
            f"{by[2].attained:g} ε after 2 periods, {by[10].attained:g} ε after 10, {by[365].attained:g} ε after 365",
            "T = 1, Δf_z = Δf_w: log-likelihood ratio at an output; averaging "
            f"{attacks[-1].periods} periods finds w(1) within {attacks[-1].paper_simulated:.3f} (C1: "
            f"{attacks[-1].corrected_simulated:.2f})",
        ),
        Erratum("P2", "horizons of Figures 8 and 10", theirs, right, "days counted; the two are swapped"),
        Erratum(
            "P2", "the gain in the abstract", f"approximately {ABSTRACT} folds", f"{ours} (horizon / T); strong by C1 "
            + " and ".join(f"{gain.strong:.0f}" for gain in gains), "noise at equal sensitivities, against ε split over the "
            "horizon",
        ),
        Erratum(
            "P3", "Definition 1: a one-to-one correspondence", "(x) ↔ (z, w)",
            f"z + 0.1 with w − 0.1 gives the same readings (largest difference {p3_gap(source):.0e} kWh)",
            f"the first home of {source.name}; so what is promised depends on the split",
        ),
        Erratum(
            "P4", "linear queries: readings that are clipped, missing, or of people who come and go", "not mentioned",
            f"y(2) − y(1) is exactly {said[0.9]} if z = 0.9 and exactly {said[0.5]} if z = 0.5: an infinite loss",
            f"clip at 1, w = (0, 0.3), reused noise; in {source.name} a reading is missing at {source.second.absent:,} of "
            f"{source.second.horizon:,} half hours",
        ),
        Erratum(
            "P5", "what independence is for", "an assumption of Theorem 5",
            "the proof never uses it: the promise is given w, and w tells about z (correlation of logarithms "
            f"{told.every_home:.2f} over {told.homes} homes, {told.lived_in:.2f} over the {told.lived_in_homes} that are not "
            "all but empty)",
            f"log sd w against log mean z, {source.name}",
        ),
        Erratum(
            "§3", "0 ≤ ρ ≤ 1", "no coefficient is negative", f"{100 * float((rho < 0).mean()):.0f} % are, down to "
            f"−{-rho.min():.2f}",
            f"daily period, {source.name}",
        ),
        Erratum(
            "§3", "small coefficients are strong evidence for independence", "half ≤ 0.1259 (Ausgrid), ≤ 0.0746 (UMass)",
            f"median |ρ| {check.median:.3f} here, and at most {max(check.shuffled_medians):.3f} where each home's days are "
            "shuffled: "
            + ("independence is rejected" if check.dependent else "chance explains it"),
            f"{len(check.shuffled_medians)} shuffled copies of {source.name}",
        ),
    ]  # fmt: skip
