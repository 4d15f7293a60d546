"""Planted faults in age-dependent accounts: rules that look right and claim less than some outputs really tell."""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np

from halflife.audit.notions.age_dependent.attained import attained_loss
from halflife.audit.notions.age_dependent.kernels import faded_loss, faded_loss_on_span
from halflife.audit.registry import Faults
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

    def claimed_risk(t: int) -> float:
        done = [s for s in steps if s <= t]
        if not done:
            return 0.0
        mixed = abs(2 * stay - 1) ** (t - done[-1] + age)
        return math.log1p(mixed * math.expm1(loss + claimed_risk(done[-1] - age)))

    chain = MarkovChain([[stay, 1 - stay], [1 - stay, stay]])
    found = attained_loss(chain, [Release(s, loss, age) for s in steps])
    return Attained(claimed_risk(steps[-1]), found, f"{releases} answers that all say yes, of age {age}, one a step")


def amplified_risks_added_up(loss: float = 1.0) -> Attained:
    """X_t = X_{t−1} ⊕ X_{t−2}, fair coins: each of two releases alone tells nothing about X_t, and both together do.

    >>> [round(x, 3) for x in amplified_risks_added_up()[:2]]
    [0.0, 0.434]
    """
    alone = np.full((2, 2), 0.5)  # of X_{t−1} given X_t, and of X_{t−2} given X_t
    claimed = 2 * faded_loss(alone[0], alone[1], loss)
    likelihood = np.zeros(2)  # of two answers that both say 0, by X_t
    for first, second in itertools.product((0, 1), repeat=2):
        answers = [math.exp(loss) if bit == 0 else 1.0 for bit in (first, second)]
        likelihood[first ^ second] += 0.5 * math.prod(answers)
    found = abs(math.log(likelihood[0] / likelihood[1]))
    return Attained(claimed, found, "two equal answers, about the last step and the one before it")


def autoregression_recursed_on_its_span(rho: float = 0.9, loss: float = 1.0, releases: int = 20) -> Attained:
    """AR(1) with σ = span = 1, its risk recursed step by step as if states between never left the span.

    The truth is from below, by quadrature: outputs that say "high" each time, of noise on the value clipped to [0, 1].

    >>> [round(x, 3) for x in autoregression_recursed_on_its_span()[:2]]
    [0.525, 0.789]
    """
    process = AutoRegressive(rho, 1.0, 1.0)
    claimed = 0.0
    for _ in range(releases):
        claimed = faded_loss_on_span(process, 1, loss + claimed)
    grid = np.linspace(-14.0, 14.0, 1401)
    kernel = np.exp(-((grid[None, :] - rho * grid[:, None]) ** 2) / 2)
    kernel /= kernel.sum(axis=1, keepdims=True)
    likelihood = np.ones(len(grid))
    for _ in range(releases):
        likelihood = kernel @ (likelihood * np.exp(loss * np.clip(grid, 0.0, 1.0)))
        likelihood /= likelihood.max()
    found = float(np.log(np.interp(1.0, grid, likelihood) / np.interp(0.0, grid, likelihood)))
    return Attained(claimed, found, f"{releases} outputs that all say high, one a step")


def plant_rules() -> dict[str, Attained]:
    """Return every planted rule."""
    return {
        "Theorem 3 as printed, ages above the period": theorem_3_with_old_data(),
        "amplified risks added up": amplified_risks_added_up(),
        "AR(1) recursed on a span": autoregression_recursed_on_its_span(),
    }


def plant_faults() -> Faults:
    """Return what each planted rule claims beside what is attained."""
    return Faults(
        rules=tuple(
            Finding(name, "attained", f.claimed, f.found, f.found > f.claimed + 1e-9, f.detail, 0.0)
            for name, f in plant_rules().items()
        )
    )
