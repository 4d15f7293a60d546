"""The errata of the age-dependent paper, each with what is printed and what is computed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from halflife.accountant import Accountant
from halflife.lab.age_dependent.staleness import AutoRegressiveMSE, TwoStateMSE
from halflife.notions import AgeDependent
from halflife.papers.age_dependent.london import Distance, Reversible, eq_55
from halflife.papers.age_dependent.model import CHAIN, INITIAL, PEOPLE, RHO, P, Q, Reduction, two_towns_data
from halflife.papers.age_dependent.sequences import EVERY, GENEROUS, LOSS, attained_risk, corollary_3_data, theorem_3
from halflife.papers.figures import Erratum
from halflife.processes import MarkovChain
from halflife.release import Release

RELEASES = 8
DE_BRUIJN = MarkovChain([[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.5, 0.5], [0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.5, 0.5]])
"""The last two tosses of a coin: the state of now tells one of the two tosses before, and two steps back nothing."""


class Composed(NamedTuple):
    """A1 for one age: Theorem 3 as printed, the account's tight bound, and what randomised response attains."""

    age: int
    printed: float
    tight: float
    attained: float


def a1_data(ages: Sequence[int] = (3, 5)) -> list[Composed]:
    """Return the risk of eight releases with A > S̄ = 1: Theorem 3 misses those published between S_n − A_n and S_n."""
    found = []
    for age in ages:
        releases = [Release(step, LOSS, age) for step in range(1, RELEASES + 1)]
        account = Accountant(AgeDependent(GENEROUS, CHAIN))
        account.admit(*releases)
        printed = float(theorem_3(CHAIN, releases, RELEASES)[-1])
        found.append(Composed(age, printed, account.risk(RELEASES), attained_risk(CHAIN, releases, RELEASES)))
    return found


def a2_loss(epsilon: float = 1.0) -> float:
    """Return the loss of eq. 48 at ε_C: one person moves the mean by 2/I, the noise has scale 1/(ε_C I)."""
    return (2 / PEOPLE) / TwoStateMSE(P, Q, PEOPLE, as_printed=True).scale(epsilon)


def a3_data() -> tuple[float, float]:
    """Return the staleness of AR(1) at ρ = 0.8, t = 10, I = σ = 1: by eq. 92, and corrected."""
    printed, ours = (AutoRegressiveMSE(RHO, 1.0, 1, 1.0, as_printed=way)(10, math.inf) for way in (True, False))
    return printed, ours


class Loop(NamedTuple):
    """How often a bisection halved its bracket, and where it ended."""

    rounds: int
    age: float


def a4_loop(as_printed: bool, limit: float = 0.08, epsilon: float = 1.0, phi: float = 1e-4) -> Loop:
    """Run the inner loop of Algorithm 1: the largest A + S̄ with f(A + S̄, ε_C) ≤ f̄, for the mean squared error of Example 1.

    As printed it runs while the bracket is at most φ, so not once.
    """
    error = TwoStateMSE(P, Q, PEOPLE)
    low, high, rounds = 0.0, 100.0, 0
    while high - low <= phi if as_printed else high - low > phi:
        middle = (low + high) / 2
        low, high = (middle, high) if error(middle, epsilon) <= limit else (low, middle)
        rounds += 1
    return Loop(rounds, low)


def a5_slope(risk: float) -> float:
    """Return F′ of eq. 34 at this risk, for S̄ = 4 and ε_C = 0.5: below 1, and as near to it as one likes.

    >>> round(a5_slope(1.0), 3), round(a5_slope(15.0), 6)
    (0.757, 1.0)
    """
    variation = CHAIN.total_variation(EVERY)
    grown = variation * math.exp(LOSS + risk)
    return grown / (grown + 1 - variation)


def a5_steps(t: int = 20) -> tuple[float, float, float]:
    """Return what steps (b) and (c) of eq. 61 come to on the chain p = 0.05, q = 0.2, and the exact value that both bound.

    (b) drops π(x′)/π(x), so it tends to max π/min π − 1 = 3 and not to 0, and (c) does not bound it.

    >>> [round(value, 4) for value in a5_steps()]
    [3.0159, 0.0322, 0.0158]
    """
    chain = MarkovChain([[0.95, 0.05], [0.2, 0.8]])
    kernel, law = chain.kernel(t), chain.stationary
    off = np.sqrt((1 - law) / law) * chain.second_eigenvalue**t
    step_b = float((kernel.max(axis=1) / kernel.min(axis=1)).max()) - 1
    return step_b, float((off / (law - off / 2)).max()), chain.frontier(t).log_ratio


def a5_divergence(mu: Sequence[float] = (0.9, 0.1), pi: Sequence[float] = (0.5, 0.5)) -> tuple[float, float]:
    """Return Σ π ln(μ/π), as eq. 85 prints it, which is never above 0, and the divergence Σ μ ln(μ/π) of μ from π.

    >>> [round(value, 3) for value in a5_divergence()]
    [-0.511, 0.368]
    """
    ratio = np.log(np.divide(mu, pi))
    return float(np.dot(pi, ratio)), float(np.dot(mu, ratio))


def a6_share(apart: float = 1.0) -> float:
    """Return how often two independent stationary AR(1) values (ρ = 0.8, σ = 1) lie further apart than this.

    >>> round(a6_share(), 2), a6_share(10.0) > 0
    (0.67, True)
    """
    return math.erfc(apart / 2 * math.sqrt(1 - RHO**2))


def a8_data() -> tuple[float, float]:
    """Return Δ(1) of the de Bruijn chain: by eq. 55, and exactly."""
    return eq_55([DE_BRUIJN], 1), DE_BRUIJN.total_variation(1)


# The table ----------------------------------------------------------------------------------------------------------


def errata_data(
    distances: Sequence[Distance], reversible: Reversible, reductions: Sequence[Reduction]
) -> list[Erratum]:
    """Return A1 to A9, and what was found while reproducing, each with its witness."""
    return [*_composition(), *_formulas(), *_data(distances, reversible), *_towns(), *_new(reductions)]


def _composition() -> list[Erratum]:
    rows = a1_data()
    return [
        Erratum(
            "A1", "Theorem 3 under-reports when A > S_n − S_{n−1}",
            "; ".join(f"A = {r.age}: {r.printed:.4f}" for r in rows), "; ".join(f"{r.attained:.4f}" for r in rows),
            f"S̄ = 1, ε_C = {LOSS:g}, {RELEASES} releases, p = q = 0.1: every output of randomised response enumerated; the "
            "account's "
            f"tight bound says {' and '.join(f'{r.tight:.4f}' for r in rows)}",
        )
    ]  # fmt: skip


def _formulas() -> list[Erratum]:
    (stale, corrected), printed, right = a3_data(), a4_loop(True), a4_loop(False)
    return [
        Erratum("A2", "Eq. 48: values in {−1, 1} move a mean by 2/I", "a loss of 1", f"a loss of {a2_loss():g}",
                "ε_C = 1: 2/I over the printed scale 1/(ε_C I)"),
        Erratum("A3", "Eq. 92: what is published is x_0, not a forecast", f"{stale:.2f}", f"{corrected:.2f}",
                "staleness at ρ = 0.8, t = 10, I = σ = 1"),
        Erratum("A4", "Algorithms 1 and 2 loop while the bracket is smaller than φ",
                f"{printed.rounds} rounds, age {printed.age:g}", f"{right.rounds} rounds, age {right.age:.3f}",
                "largest A + S̄ with an error of 0.08 at ε_C = 1, Example 1"),
        *_slips(),
        Erratum("A6", "An AR(1) state has no bound, so eq. 90 has no finite sensitivity", "1",
                f"exceeded by {100 * a6_share():.0f} % of pairs", "two stationary values, ρ = 0.8, σ = 1; clipping is needed"),
    ]  # fmt: skip


def _slips() -> list[Erratum]:
    """A5: the proof of Theorem 2, three misprints, a constant that does not exist, and two citations."""
    (step_b, step_c, exact), (printed, right) = a5_steps(), a5_divergence()
    return [
        Erratum("A5", "Eq. 61: step (c) is said to bound step (b)", f"{step_c:.4f}", f"{step_b:.4f}",
                f"p = 0.05, q = 0.2, t = 20; the exact value, {exact:.4f}, lies below both"),
        Erratum("A5", "Eq. 13 has ρ^−t for ρ^t", f"{0.8**-10:.2f}", f"{0.8**10:.3f}", "ρ = 0.8, t = 10: it must fall"),
        Erratum("A5", "Eq. 67 has ε − 1 for e^ε − 1", f"{LOSS - 1:.3f}", f"{math.expm1(LOSS):.3f}", f"ε = {LOSS:g}"),
        Erratum("A5", "Eq. 85 weights by the wrong law", f"{printed:.3f}", f"{right:.3f}",
                "μ = (0.9, 0.1), π = (0.5, 0.5): a divergence is never negative"),
        Erratum("A5", "Eq. 32 is no contraction with a constant below 1", "L < 1", f"F′ = {a5_slope(15.0):.7f}",
                "eq. 34 at a risk of 15, S̄ = 4, ε_C = 0.5: it goes to 1; the fixed point is right all the same"),
        Erratum("A5", "Corollaries 4 and 5, and eq. 89, cite the wrong results", "Theorem 2, Proposition 5",
                "Theorem 1, Proposition 3", "what they say is what these give"),
    ]  # fmt: skip


def _data(distances: Sequence[Distance], reversible: Reversible) -> list[Erratum]:
    model, counted = distances[0], distances[1]
    (by_55, exact) = a8_data()
    return [
        Erratum("A7", "Homes do not forget as fast as their fitted chains", f"Δ ≤ {model.worst:.4f}",
                f"{counted.median:.2f} median, {counted.worst:.2f} worst",
                f"{counted.hours:g} h back, 6 states, all homes of this report"),
        Erratum("A8", "Eq. 55 is for reversible chains", f"Δ(1) = {round(by_55, 6):g}", f"{exact:g}",
                "de Bruijn chain of two tosses; of the fitted chains "
                f"{reversible.reversible} of {reversible.chains} are reversible"),
    ]  # fmt: skip


def _towns() -> list[Erratum]:
    towns = two_towns_data()
    return [
        Erratum(
            "A9", "The two towns: what eq. 8 gives", ", ".join(f"{100 * t.printed:.0f} %" for t in towns),
            ", ".join(f"{100 * t.computed:.1f} %" for t in towns),
            f"after {', '.join(str(t.days) for t in towns)} days; the printed numbers fit days "
            f"{', '.join(str(t.fits) for t in towns)}",
        )
    ]  # fmt: skip


def _new(reductions: Sequence[Reduction]) -> list[Erratum]:
    condition = corollary_3_data()[0]
    average = next(one for one in reductions if one.initial is None)
    mine = next(one for one in reductions if one.initial == INITIAL)
    return [
        Erratum("ours", "Figure 6(a): Corollary 3's condition for the mean squared error", "holds, no trade-off",
                "holds" if condition.holds else f"fails: error {condition.before:.4f} → {condition.after:.4f}",
                "ε_C from 1 to 1.1 at A + S̄ = 8, along which the risk stays the same"),
        Erratum("ours", "Figure 5(c): up to 1/3 less loss at the same risk", "33 %",
                f"{100 * average.theorem_1:.1f} % on average, {100 * mine.printed_theorem_1:.0f} % given X₀ = {INITIAL}",
                f"largest over risks; with enough noise and tight: {100 * average.tight:.1f} % and {100 * mine.tight:.0f} %"),
    ]  # fmt: skip
