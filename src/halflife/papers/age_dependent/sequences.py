"""Many releases in the age-dependent paper: Figures 2, 3 and 6, with Theorem 3 as printed and what is attained beside ours.

Parameters that the paper does not print are ours, and named here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from halflife.accountant import Accountant
from halflife.lab.age_dependent.freshness import freshness
from halflife.lab.age_dependent.staleness import TwoStateFailureRate, TwoStateMSE
from halflife.notions import AgeDependent
from halflife.numerics.arrays import Floats
from halflife.papers.age_dependent.model import CHAIN, PEOPLE, RHO, P, Q, odds
from halflife.papers.figures import DASH, DOT, SOLID, Curve, Panel
from halflife.plans.age_dependent.equally_spaced import periodic_peak
from halflife.plans.age_dependent.schedule import frontier, no_trade_off
from halflife.processes import GeometricMixing, MarkovChain, Process
from halflife.processes.contraction import theorem_1
from halflife.release import Release

GENEROUS = 1e3
"""A promise that nothing breaks: for risks of given releases."""

# Sequences ----------------------------------------------------------------------------------------------------------


def theorem_3(process: Process, releases: Sequence[Release], last_step: int) -> Floats:
    """Return ε(t), t = 1 … last_step, by Theorem 3 as printed (eq. 25). It under-reports where A_n > S_n − S_{n−1} (erratum A1).

    For A_n = 0 it refers to itself; read here as the risk before the n-th output. For drawing the paper's curves only.
    """
    told: list[tuple[int, int, float]] = []  # step, data time, ε_C + ε(S − A)

    def risk(t: int) -> float:
        by_then = [one for one in told if one[0] <= t]
        return theorem_1(process.total_variation(t - by_then[-1][1]), by_then[-1][2]) if by_then else 0.0

    for one in releases:
        told.append((one.step, one.data_time, one.loss + risk(one.data_time)))
    return np.array([risk(t) for t in range(1, last_step + 1)])


def risks_over_time(notion: AgeDependent, releases: Sequence[Release], last_step: int) -> Floats:
    """Return the account's risk at steps 1 … last_step."""
    account, found = Accountant(notion), []
    for t in range(1, last_step + 1):
        account.admit(*(one for one in releases if one.step == t))
        found.append(account.risk(t))
    return np.array(found)


def attained_risk(chain: MarkovChain, releases: Sequence[Release], step: int) -> float:
    """Return the exact risk about X_step of randomised response on two states, over every sequence of outputs published by then.

    >>> releases = [Release(step, 0.5, age=2) for step in range(4, 36, 4)]
    >>> round(attained_risk(CHAIN, releases, 32), 6)
    0.508608
    """
    seen = sorted((one.data_time, one.loss) for one in releases if one.step <= step)
    outputs = np.array(list(product((0, 1), repeat=len(seen))))
    joint, now = np.tile(chain.stationary, (len(outputs), 1)), seen[0][0]
    for i, (time, loss) in enumerate(seen):
        right = odds(loss)
        joint = joint @ chain.kernel(time - now, "ahead")
        joint *= np.where(outputs[:, [i]] == np.arange(2), right, 1 - right)
        now = time
    given = joint @ chain.kernel(step - now, "ahead") / chain.stationary
    return float(np.abs(np.log(given[:, 0] / given[:, 1])).max())


FIGURE_2 = ((4, 1, 0.6), (9, 3, 1.0), (14, 0, 0.4), (20, 5, 1.2), (25, 2, 0.6))
"""Ours: step, age and loss of each release, on the chain of Example 1."""


def figure_2_data(last_step: int = 30) -> tuple[Panel, ...]:
    """Figure 2: (a) risk and (b) age of information over time (Figure 2; recomputed, parameters ours)."""
    releases = [Release(step, loss, age) for step, age, loss in FIGURE_2]
    x = np.arange(1.0, last_step + 1)
    words = "; ".join(f"ε_C = {loss:g} at step {step} on data {age} steps old" for step, age, loss in FIGURE_2)
    curves = (
        Curve("paper: Theorem 3", theorem_3(CHAIN, releases, last_step), 0, DASH),
        Curve("ours: tight (T4a)", risks_over_time(AgeDependent(GENEROUS, CHAIN), releases, last_step), 1),
    )
    return (
        Panel("2a", "Risk over time", f"Parameters ours, p = q = 0.1: {words}. Risk falls until the next release.",
              "step", "risk ε(t) (nats)", x, curves),
        Panel("2b", "Age of information over time", "How old the newest published data is (Definition 11).",
              "step", "age (steps)", x, (Curve("age of information", freshness(releases, last_step), 2),)),
    )  # fmt: skip


AGE, EVERY, LOSS, EPOCHS = 2, 4, 0.5, 10


class FixedPoints(NamedTuple):
    """Where the peaks of Figure 3 go: Proposition 3, composition by data time, and Theorem 3 and tight after so many releases."""

    proposition_3: float
    tight: float
    peaks_theorem_3: tuple[float, ...]
    peaks_tight: tuple[float, ...]
    peaks_attained: tuple[float, ...]


def figure_3_fixed_points() -> FixedPoints:
    """Return the fixed points of Figure 3, and the risk at each publication (Corollary 5; recomputed)."""
    releases = _periodic()
    steps = [one.step for one in releases]
    printed = theorem_3(CHAIN, releases, steps[-1])
    tight = risks_over_time(AgeDependent(GENEROUS, CHAIN), releases, steps[-1])
    return FixedPoints(
        periodic_peak(CHAIN, LOSS, AGE, EVERY, "paper"), periodic_peak(CHAIN, LOSS, AGE, EVERY),
        tuple(float(printed[s - 1]) for s in steps), tuple(float(tight[s - 1]) for s in steps),
        tuple(attained_risk(CHAIN, releases, s) for s in steps),
    )  # fmt: skip


def _periodic() -> list[Release]:
    return [Release(EVERY * k, LOSS, AGE) for k in range(1, EPOCHS + 1)]


def figure_3_data() -> tuple[Panel, ...]:
    """A = 2, S̄ = 4, ε_C = 0.5, ρ = 0.8 (Figure 3; recomputed): ε(t) climbs to Proposition 3's fixed point; tight to its own."""
    releases, last = _periodic(), EVERY * (EPOCHS + 1) - 1
    points = figure_3_fixed_points()
    x = np.arange(1.0, last + 1)
    exact = np.full(last, math.nan)
    for one, value in zip(releases, points.peaks_attained, strict=True):
        exact[one.step - 1] = value
    curves = (
        Curve("paper: Theorem 3", theorem_3(CHAIN, releases, last), 0, DASH),
        Curve("paper: fixed point (Prop. 3)", np.full(last, points.proposition_3), 0, DOT),
        Curve("ours: tight (T4a)", risks_over_time(AgeDependent(GENEROUS, CHAIN), releases, last), 1),
        Curve("ours: fixed point", np.full(last, points.tight), 1, DOT),
        Curve("attained: every output enumerated", exact, 2, marks=True),
    )
    said = (
        f"A = {AGE}, S̄ = {EVERY}, ε_C = {LOSS:g}, ρ = {RHO:g}. Theorem 3 goes to {points.proposition_3:.4f}; what can be "
        f"told from the outputs goes to {points.tight:.4f}, which the tight bound equals."
    )
    return (Panel("3", "Risk over time, publishing at equal intervals", said, "step", "risk ε(t) (nats)", x, curves),)


# Sequences and their error ------------------------------------------------------------------------------------------

SEARCH = {"ages": range(31), "periods": range(1, 21)}
MSE_LIMITS = tuple(round(0.02 + 0.005 * k, 4) for k in range(18))
FAILURE_LIMITS = tuple(round(0.16 + 0.02 * k, 4) for k in range(17))


class NoTradeOff(NamedTuple):
    """Corollary 3's condition for an error model, and the witness: f before and after a move that leaves the risk the same."""

    model: str
    holds: bool
    before: float
    after: float


def corollary_3_data() -> list[NoTradeOff]:
    """Say whether f((ln(e^ε − 1) + ε)/ln(1/ρ) + a, ε) falls in ε, and show one move: ε from 1 to 1.1 at A + S̄ = 8.

    There S̄ = 7.59 by Proposition 4, so that the move is one of schedules with A > 0.
    """
    moved = (math.log(math.expm1(1.1) / math.expm1(1.0)) + 0.1) / -math.log(RHO)
    models = {
        "mean squared error (eq. 49, as printed)": TwoStateMSE(P, Q, PEOPLE, as_printed=True),
        "failure rate (eq. 51, as printed)": TwoStateFailureRate(P, Q, PEOPLE, as_printed=True),
    }
    return [
        NoTradeOff(name, no_trade_off(model, RHO), model(8.0, 1.0), model(8.0 + moved, 1.1))
        for name, model in models.items()
    ]


def figure_6_data() -> tuple[Panel, ...]:
    """The least peak risk for ever against the largest error (Figure 6; recomputed): (a) mean squared error, (b) failure rate."""
    first, second = corollary_3_data()
    verdict = "holds" if first.holds else "does not hold"
    said = (
        f"The paper says that Corollary 3's condition holds here, so that nothing is traded. Computed, it {verdict}: a move "
        f"that leaves the risk the same (ε_C from 1 to 1.1 at A + S̄ = 8) takes the error from {first.before:.4f} to "
        f"{first.after:.4f}; and every curve falls. From 0.1 on any age is good enough, and the risk goes to 0 with the age "
        "(here up to 30, periods up to 20)."
    )
    other = (
        f"The condition {'holds' if second.holds else 'does not hold'}. A larger error buys less risk, as the paper says. "
        "Its own curve has half the noise that its ε_C needs (A2)."
    )
    return (
        _schedules("6a", "Mean squared error", MSE_LIMITS, TwoStateMSE, said),
        _schedules("6b", "Failure rate", FAILURE_LIMITS, TwoStateFailureRate, other),
    )


def _schedules(
    name: str, title: str, limits: Sequence[float], model: type[TwoStateMSE] | type[TwoStateFailureRate], said: str
) -> Panel:
    printed, ours = model(P, Q, PEOPLE, as_printed=True), model(P, Q, PEOPLE)
    ways = (
        ("paper: Prop. 3, eq. 48", GeometricMixing(1.0, RHO), printed, "paper", "paper", 0, DASH),
        ("Prop. 3, enough noise (A2)", CHAIN, ours, "paper", "whole-steps", 2, DOT),
        ("ours: tight, enough noise (A2)", CHAIN, ours, "tight", "whole-steps", 1, SOLID),
    )
    curves = []
    for label, process, error, bound, peak_age, colour, dash in ways:
        points = frontier(process, error, limits, bound, peak_age=peak_age, **SEARCH)
        y = np.array([math.nan if best is None else best.risk for _, best in points])
        curves.append(Curve(label, y, colour, dash))
    return Panel(name, title, said, f"largest {title.lower()} allowed", "least peak risk (nats, log)", np.array(limits),
                 tuple(curves), log_y=True)  # fmt: skip
