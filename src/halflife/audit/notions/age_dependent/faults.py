"""Planted faults in age-dependent accounts: rules that look right and claim less than some outputs really tell."""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np

from halflife.audit.notions.age_dependent.histories import attained_loss, gaussian_left, left_of
from halflife.audit.verdict import Finding
from halflife.processes import AutoRegressive, MarkovChain
from halflife.release import Release


class Attained(NamedTuple):
    """What a rule claims, what some outputs of some mechanism with these losses really tell, and which."""

    claimed: float
    found: float
    detail: str


def theorem_3_with_old_data(age: int = 3, loss: float = 0.5, stay: float = 0.9, releases: int = 8) -> Attained:
    """Theorem 3 as printed, where the age is above the period: it misses outputs that were published later on older data (A1).

    >>> [round(x, 4) for x in theorem_3_with_old_data()[:2]]
    [0.6148, 0.7573]
    """
    steps = [1 + age + k for k in range(releases)]

    def claimed(t: int) -> float:
        done = [s for s in steps if s <= t]
        if not done:
            return 0.0
        mixed = abs(2 * stay - 1) ** (t - done[-1] + age)
        return math.log1p(mixed * math.expm1(loss + claimed(done[-1] - age)))

    chain = MarkovChain([[stay, 1 - stay], [1 - stay, stay]])
    found = attained_loss(chain, [Release(s, loss, age) for s in steps])
    return Attained(claimed(steps[-1]), found, f"{releases} answers that all say yes, of age {age}, one a step")


def amplified_risks_added_up(loss: float = 1.0) -> Attained:
    """X_t = X_{t−1} ⊕ X_{t−2}, fair coins: each of two releases alone tells nothing about X_t, and both together do.

    >>> [round(x, 3) for x in amplified_risks_added_up()[:2]]
    [0.0, 0.434]
    """
    alone = np.full((2, 2), 0.5)  # of X_{t−1} given X_t, and of X_{t−2} given X_t
    claimed = 2 * left_of(alone[0], alone[1], loss)
    likelihood = np.zeros(2)  # of two answers that both say 0, by X_t
    for first, second in itertools.product((0, 1), repeat=2):
        told = [math.exp(loss) if bit == 0 else 1.0 for bit in (first, second)]
        likelihood[first ^ second] += 0.5 * math.prod(told)
    found = abs(math.log(likelihood[0] / likelihood[1]))
    return Attained(claimed, found, "two equal answers, about the last step and the one before it")


def span_recursed(rho: float = 0.9, loss: float = 1.0, releases: int = 20) -> Attained:
    """AR(1) with σ = span = 1, recursed on the span step by step: states between leave it.

    The truth is from below, by quadrature: outputs that say "high" each time, of noise on the value clipped to [0, 1].

    >>> [round(x, 3) for x in span_recursed()[:2]]
    [0.525, 0.789]
    """
    process = AutoRegressive(rho, 1.0, 1.0)
    claimed = 0.0
    for _ in range(releases):
        claimed = gaussian_left(process, 1, loss + claimed)
    grid = np.linspace(-14.0, 14.0, 1401)
    kernel = np.exp(-((grid[None, :] - rho * grid[:, None]) ** 2) / 2)
    kernel /= kernel.sum(axis=1, keepdims=True)
    told = np.ones(len(grid))
    for _ in range(releases):
        told = kernel @ (told * np.exp(loss * np.clip(grid, 0.0, 1.0)))
        told /= told.max()
    found = float(np.log(np.interp(1.0, grid, told) / np.interp(0.0, grid, told)))
    return Attained(claimed, found, f"{releases} outputs that all say high, one a step")


def aged_faults() -> dict[str, Attained]:
    """Every planted rule."""
    return {
        "Theorem 3 as printed, ages above the period": theorem_3_with_old_data(),
        "amplified risks added up": amplified_risks_added_up(),
        "AR(1) recursed on a span": span_recursed(),
    }


def aged_findings() -> list[Finding]:
    """Compare what each planted rule claims with what is attained."""
    return [
        Finding(name, "attained", f.claimed, f.found, f.found > f.claimed + 1e-9, f.detail, 0.0)
        for name, f in aged_faults().items()
    ]
