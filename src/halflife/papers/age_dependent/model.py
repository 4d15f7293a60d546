"""One release in the age-dependent paper: the two towns, Figures 4, 5 and 8, each with ours beside it.

Where the paper's text prints no parameters they are ours, and named here. Example 1 is p = q = 0.1 with 20 people: Δ(t) = 0.8^t.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from halflife.lab.age_dependent.staleness import AutoRegressiveMSE, TwoStateFailureRate, TwoStateMSE
from halflife.numerics.arrays import Floats
from halflife.papers.age_dependent.trade_off import crude, errors_of, frontiers, trade_off
from halflife.papers.figures import DASH, DASHDOT, DOT, SOLID, Curve, Panel
from halflife.processes import AutoRegressive, MarkovChain
from halflife.processes.contraction import Frontier, theorem_1

P, Q, PEOPLE, RHO = 0.1, 0.1, 20, 0.8
CHAIN = MarkovChain([[1 - P, P], [Q, 1 - Q]])

# The two towns ------------------------------------------------------------------------------------------------------

TOWN_EPSILON = 2.0
PRINTED_TOWNS = {3: 0.65, 6: 0.58, 10: 0.53}


class Town(NamedTuple):
    """How likely the adversary is right after so many days.

    computed  what eq. 8 gives;  printed  in the paper;  fits  the day of which the printed number is true
    tight     1/(1 + e^{−K_t}): the same number, by T3;  theorem_1  what Theorem 1 can promise
    """

    days: int
    computed: float
    printed: float
    fits: int
    tight: float
    theorem_1: float


def odds(epsilon: float) -> float:
    """1/(1 + e^{−ε}): how likely a guess is right at a loss of ε and even odds (eq. 7; paper).

    >>> round(odds(2.0), 3)
    0.881
    """
    return 1 / (1 + math.exp(-epsilon))


def two_towns_data() -> list[Town]:
    """Return the example of section III-C: eq. 8 as it computes (erratum A9)."""
    start = np.array([odds(TOWN_EPSILON), 1 - odds(TOWN_EPSILON)])
    after = [float((start @ CHAIN.kernel(t, "ahead"))[0]) for t in range(30)]
    return [
        Town(
            t, after[t], printed, int(np.argmin([abs(one - printed) for one in after])),
            odds(CHAIN.amplify(TOWN_EPSILON, t)), odds(CHAIN.amplify(TOWN_EPSILON, t, "theorem1")),
        )
        for t, printed in PRINTED_TOWNS.items()
    ]  # fmt: skip


# One release, two states --------------------------------------------------------------------------------------------

AGES = tuple(range(41))
RISKS = tuple(float(f"{r:.3g}") for r in np.geomspace(0.02, 3.0, 30))
LOSS_EPSILONS, RISK_EPSILONS = (0.5, 1.0, 2.0), (1.0, 4.0)
SAME_LINES = (
    "Eq. 48 at ε_C has the noise that is right for 2ε_C (A2), so the paper's lines lie on those of the doubled ε_C."
)


def figure_4_data() -> tuple[Panel, ...]:
    """Mean squared error of Example 1 by age (a), risk by age (b), the best of both (c) (Figure 4; recomputed)."""
    printed, ours = TwoStateMSE(P, Q, PEOPLE, as_printed=True), TwoStateMSE(P, Q, PEOPLE)
    x = np.array(AGES[:26], dtype=np.float64)
    by_age = []
    for i, epsilon in enumerate(LOSS_EPSILONS):
        by_age.append(Curve(f"paper, ε_C = {epsilon:g}", np.array([printed(t, epsilon) for t in x]), i, DASH))
        by_age.append(Curve(f"corrected (A2), ε_C = {epsilon:g}", np.array([ours(t, epsilon) for t in x]), i))
    return (
        Panel("4a", "Accuracy loss by age", f"p = q = 0.1, 20 people; ε_C ours. {SAME_LINES}",
              "age (steps)", "mean squared error", x, tuple(by_age)),
        _risk_by_age(x),
        _mse_trade_off(printed, ours),
    )  # fmt: skip


def _risk_by_age(x: Floats) -> Panel:
    """Figure 4b: risk by age (Corollary 4; recomputed)."""
    ages, curves = [int(t) for t in x], []
    for i, epsilon in enumerate(RISK_EPSILONS):
        for name, bound, dash in (("paper: Theorem 1", "theorem1", DASH), ("ours: tight", "tight", SOLID)):
            y = np.array([CHAIN.amplify(epsilon, t, bound) for t in ages])
            curves.append(Curve(f"{name}, ε_C = {epsilon:g}", y, i, dash))
    any_mechanism = np.array([math.nan, *(CHAIN.amplify(math.inf, t, "theorem2") for t in ages[1:])])
    curves.append(Curve("Theorem 2: any mechanism", any_mechanism, 2, DOT))
    said = "The tight bound lies below Theorem 1 and below Theorem 2, which holds for publishing the exact state too."
    return Panel("4b", "Risk by age", said, "age (steps)", "risk (nats)", x, tuple(curves), y_most=4.2)


def _trade_off_curves(
    names: tuple[str, str, str],
    printed: Callable[[int, float], float],
    ours: Callable[[int, float], float],
    crude_ones: dict[int, Frontier],
    tight: dict[int, Frontier],
) -> tuple[Curve, ...]:
    """The least error at each risk: with noise alone and with aging, by the paper's error and bound, and by ours."""
    return (
        Curve(names[0], np.array([printed(0, r) for r in RISKS]), 0, DOT),
        Curve(names[1], errors_of(trade_off(RISKS, crude_ones, printed)), 0, DASH),
        Curve(names[2], np.array([ours(0, r) for r in RISKS]), 1, DOT),
        Curve("corrected: aging and noise, tight", errors_of(trade_off(RISKS, tight, ours)), 1),
    )


def _mse_trade_off(printed: TwoStateMSE, ours: TwoStateMSE) -> Panel:
    """Figure 4c."""
    crude_ones, tight = frontiers(CHAIN, AGES, "theorem1"), frontiers(CHAIN, AGES)
    names = ("paper: noise only, 2/(ε²I²)", "paper: aging and noise, Theorem 1", "corrected (A2): noise only")
    curves = _trade_off_curves(names, printed, ours, crude_ones, tight)
    said = (
        "The least error of one release at each risk, over ages 0 to 40. Noise alone grows without bound as the risk goes to "
        "0; with aging the error stays below 0.1, twice the variance of the mean. One eq. 48 release at ε_C in truth costs "
        "2ε_C (A2)."
    )
    return Panel(
        "4c", "Trade-off", said, "risk (nats, log)", "mean squared error (log)", np.array(RISKS), curves, True, True
    )


# The failure rate ---------------------------------------------------------------------------------------------------

INITIAL = 5
"""Ours: how many of the 20 people are in state 1 at time 0. Eq. 51 is conditional on X_0, and the paper does not say which."""
INITIALS = (0, 2, 4, 5, 6, 8, 10, 12, 14, 15, 16, 18, 20)
FIGURE_5_AGES = (*range(13), 15, 17, 19, 21, 25, 30, 40)
FIGURE_5_RISKS = tuple(float(f"{r:.3g}") for r in np.geomspace(0.02, 1.5, 18))


class Reduction(NamedTuple):
    """How much less the failure rate is with aging than with noise alone, at the risk where it is most, as a share.

    initial  people in state 1 at time 0, None for the average over the stationary law
    """

    initial: int | None
    printed_theorem_1: float
    theorem_1: float
    tight: float


def reduction_data(initials: Sequence[int | None] = (None, *INITIALS)) -> list[Reduction]:
    """Return what "a reduction up to 1/3 in accuracy loss given the same privacy risk" comes to, by where people were."""
    crude_ones, tight = frontiers(CHAIN, FIGURE_5_AGES, "theorem1"), frontiers(CHAIN, FIGURE_5_AGES)
    found = []
    for initial in initials:
        printed = TwoStateFailureRate(P, Q, PEOPLE, as_printed=True, initial=initial)
        ours = TwoStateFailureRate(P, Q, PEOPLE, initial=initial)
        ways = ((printed, crude_ones), (ours, crude_ones), (ours, tight))
        found.append(Reduction(initial, *(_largest_reduction(error, one) for error, one in ways)))
    return found


def _largest_reduction(error: TwoStateFailureRate, each: dict[int, Frontier]) -> float:
    best = trade_off(FIGURE_5_RISKS, each, error)
    return max(0.0, *(1 - one.error / error(0, risk) for risk, one in zip(FIGURE_5_RISKS, best, strict=True)))


def figure_5_data(reductions: Sequence[Reduction]) -> tuple[Panel, ...]:
    """Figure 5: failure rate of Example 1 by age (a), at a few ages against the risk (b), at the best age (c), and (d) by X_0.

    (Figure 5; recomputed)

    reductions  what `reduction_data` gave, which is drawn as (d)
    """
    averaged = (TwoStateFailureRate(P, Q, PEOPLE, as_printed=True), TwoStateFailureRate(P, Q, PEOPLE))
    given = (
        TwoStateFailureRate(P, Q, PEOPLE, as_printed=True, initial=INITIAL),
        TwoStateFailureRate(P, Q, PEOPLE, initial=INITIAL),
    )
    x = np.array(AGES[:26], dtype=np.float64)
    by_age = []
    for i, epsilon in enumerate(LOSS_EPSILONS):
        by_age.append(Curve(f"paper, ε_C = {epsilon:g}", np.array([averaged[0](t, epsilon) for t in x]), i, DASH))
        by_age.append(Curve(f"corrected (A2), ε_C = {epsilon:g}", np.array([averaged[1](t, epsilon) for t in x]), i))
    return (
        Panel("5a", "Failure rate by age",
              f"How often “the mean is at least 0” is guessed wrong, averaged over where people were. {SAME_LINES}",
              "age (steps)", "failure rate", x, tuple(by_age), y_most=0.55),
        _failure_at_ages(*given),
        _failure_trade_off(averaged, given),
        _reduction_panel(reductions),
    )  # fmt: skip


def _failure_at_ages(printed: TwoStateFailureRate, ours: TwoStateFailureRate) -> Panel:
    """Figure 5b."""
    risks, curves = FIGURE_5_RISKS, []
    for i, age in enumerate((0, 1, 3)):
        one = {age: CHAIN.frontier(age)}
        paper = errors_of(trade_off(risks, {age: crude(one[age])}, printed))
        curves.append(Curve(f"paper, age {age}", paper, i, DASH))
        curves.append(Curve(f"ours, age {age}", errors_of(trade_off(risks, one, ours)), i))
    said = (
        f"Given that {INITIAL} of 20 people were in state 1 (ours; eq. 51 is conditional on X_0, and the paper does not say "
        "which). Age 0 is noise alone. Each pair of risk and error has its own best age."
    )
    return Panel("5b", "Failure rate against risk, by age", said, "risk (nats, log)", "failure rate", np.array(risks),
                 tuple(curves), True)  # fmt: skip


def _failure_trade_off(
    averaged: tuple[TwoStateFailureRate, TwoStateFailureRate], given: tuple[TwoStateFailureRate, TwoStateFailureRate]
) -> Panel:
    """Figure 5c."""
    risks, crude_ones, tight = (
        FIGURE_5_RISKS,
        frontiers(CHAIN, FIGURE_5_AGES, "theorem1"),
        frontiers(CHAIN, FIGURE_5_AGES),
    )
    curves = []
    for i, (who, (printed, ours)) in enumerate(((f"X₀ = {INITIAL}", given), ("average X₀", averaged))):
        curves += [
            Curve(f"paper: noise only, {who}", np.array([printed(0, r) for r in risks]), i, DOT),
            Curve(f"paper: with aging, {who}", errors_of(trade_off(risks, crude_ones, printed)), i, DASH),
            Curve(f"ours: noise only, {who}", np.array([ours(0, r) for r in risks]), i + 2, DOT),
            Curve(f"ours: with aging, {who}", errors_of(trade_off(risks, tight, ours)), i + 2),
        ]
    said = (
        "Paper: eq. 48 with Theorem 1; ours: enough noise (A2) with the tight bound. Averaged over where people were, aging "
        "buys next to nothing: the lines with and without it lie on each other."
    )
    return Panel("5c", "Best trade-off", said, "risk (nats, log)", "failure rate", np.array(risks), tuple(curves), True)


def _reduction_panel(reductions: Sequence[Reduction]) -> Panel:
    """Figure 5d, ours: the claim of a third, by X_0."""
    rows = [r for r in reductions if r.initial is not None]
    average = next(r for r in reductions if r.initial is None)
    curves = (
        Curve("as printed, Theorem 1", np.array([r.printed_theorem_1 for r in rows]), 0, DASH),
        Curve("enough noise (A2), Theorem 1", np.array([r.theorem_1 for r in rows]), 2, DOT),
        Curve("enough noise (A2), tight", np.array([r.tight for r in rows]), 1),
        Curve("the paper's “up to 1/3”", np.full(len(rows), 1 / 3), 6, DASHDOT),
    )
    said = (
        "The largest reduction of the failure rate at the same risk, by how many of 20 people were in state 1. About a third "
        f"is reached where a quarter of them were; averaged over where people were it is {100 * average.theorem_1:.1f} % by "
        f"Theorem 1 and {100 * average.tight:.1f} % by the tight bound."
    )
    return Panel("5d", "“Up to a third less loss”: by X₀ (ours)", said, "people in state 1 at time 0, of 20", "largest reduction",
                 np.array([r.initial for r in rows], dtype=np.float64), curves)  # fmt: skip


# AR(1) --------------------------------------------------------------------------------------------------------------

AR_RHO, AR_SIGMA, AR_SPAN, AR_PEOPLE = 0.8, 1.0, 2.0, 20
"""Ours: the paper prints none. Values are clipped to a span of 2, from −1 to 1 (A6: else there is no finite sensitivity)."""


def figure_8_data() -> tuple[Panel, ...]:
    """AR(1): accuracy loss by age (a), risk by age (b), trade-off (c) (Figure 8; recomputed, corrected by A3 and A6)."""
    printed = AutoRegressiveMSE(AR_RHO, AR_SIGMA, AR_PEOPLE, AR_SPAN, as_printed=True)
    ours = AutoRegressiveMSE(AR_RHO, AR_SIGMA, AR_PEOPLE, AR_SPAN)
    process = AutoRegressive(AR_RHO, AR_SIGMA, AR_SPAN)
    x = np.array(AGES[:26], dtype=np.float64)
    by_age = []
    for i, epsilon in enumerate(LOSS_EPSILONS):
        by_age.append(Curve(f"paper: eq. 92, ε_C = {epsilon:g}", np.array([printed(t, epsilon) for t in x]), i, DASH))
        by_age.append(Curve(f"corrected (A3), ε_C = {epsilon:g}", np.array([ours(t, epsilon) for t in x]), i))
    whose = f"Parameters ours: ρ = {AR_RHO:g}, σ = {AR_SIGMA:g}, span {AR_SPAN:g}, {AR_PEOPLE} people."
    return (
        Panel("8a", "Accuracy loss by age", f"{whose} Eq. 92 is the error of the best forecast, not of the value published.",
              "age (steps)", "mean squared error", x, tuple(by_age)),
        _ar_risk(process, x, whose),
        _ar_trade_off(process, printed, ours),
    )  # fmt: skip


def _ar_risk(process: AutoRegressive, x: Floats, whose: str) -> Panel:
    """Figure 8b: Pinsker as the paper has it, the exact distance, and tight."""
    curves = []
    for i, epsilon in enumerate(RISK_EPSILONS):
        ways = (
            (
                "paper: Pinsker, Theorem 1",
                [theorem_1(process.total_variation(int(t), "pinsker"), epsilon) for t in x],
                DASH,
            ),
            ("exact Δ, Theorem 1", [process.amplify(epsilon, int(t), "theorem1") for t in x], DOT),
            ("ours: tight", [process.amplify(epsilon, int(t)) for t in x], SOLID),
        )
        curves += [Curve(f"{name}, ε_C = {epsilon:g}", np.array(y), i, dash) for name, y, dash in ways]
    return Panel("8b", "Risk by age", whose, "age (steps)", "risk (nats)", x, tuple(curves))


def _ar_trade_off(process: AutoRegressive, printed: AutoRegressiveMSE, ours: AutoRegressiveMSE) -> Panel:
    pinsker = {t: process.total_variation(t, "pinsker") for t in AGES}
    crude_ones = {t: crude(process.frontier(t))._replace(d=np.array([pinsker[t]])) for t in AGES}
    tight = frontiers(process, AGES)
    names = ("paper: noise only, eq. 92", "paper: aging and noise, Pinsker", "corrected (A3): noise only")
    curves = _trade_off_curves(names, printed, ours, crude_ones, tight)
    said = (
        "The least error of one release at each risk, over ages 0 to 40: bounded with aging, and not with noise alone."
    )
    return Panel(
        "8c", "Trade-off", said, "risk (nats, log)", "mean squared error (log)", np.array(RISKS), curves, True, True
    )
