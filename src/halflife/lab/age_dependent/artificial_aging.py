"""Artificial aging (Definition 5; paper): every state is drawn anew from the reversed process before a mechanism sees it.

M_A^t(X) = M(X_{−t}) with X_{−t} ~ P̂_t(X, ·), person by person. We draw from the kernel ourselves, so what is promised is
classical privacy of the states that went in, and no model has to be true for it. **Corollary 1**: M_A^t is ε-DP if and only if M
is (ε, t)-age-dependent DP, as both are about the same law of outputs, Σ_z Π_i P̂_t(x_i, z_i) Pr[M(z)]. With M of loss ε_C that is
ε = K_t(ε_C) (T3), which the mean over people on two states attains. Delayed publishing promises the same number only if people
move like the model. Three things to know:

- Losses of releases over time **add up**, as classical ones do: each draws anew, so that outputs are independent given a person's
  states and likelihood ratios multiply. Of delayed releases the earlier ones fade (T4); of these none does.
- Several releases about *one* aged draw that is kept have the loss K_t(Σ ε_C): together they are one mechanism of loss Σ ε_C on
  the aged states (ours). It never exceeds `aged_loss(chain, math.inf, age)`, and may exceed Σ K_t(ε_C): K_t is not concave.
- The kernel is public. One that was fitted to the same data is a release of its own. Who takes part is public as well.

It is for the lab: aging is seeded and in doubles, and it is about each person's state, which no mechanism of a policy sees.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from halflife.errors import InvalidInput, unknown
from halflife.numerics.arrays import Floats
from halflife.numerics.parameters import real, whole
from halflife.numerics.search import largest
from halflife.processes import MarkovChain
from halflife.processes.contraction import Frontier, affordable_loss
from halflife.processes.markov import read_states

BOUNDS = ("tight", "theorem1")
WORST_CONDITION = 1e12
"""Kernels whose condition is beyond this are not inverted: fewer than four digits would be left."""

# What is promised ---------------------------------------------------------------------------------------------------


def aged_loss(chain: MarkovChain, loss: float, age: int, bound: Literal["tight", "theorem1"] = "tight") -> float:
    """Return the classical loss of a mechanism of loss ε_C on states aged by t steps, K_t(ε_C), rounded up (Corollary 1; paper).

    loss   ε_C, about the aged states; ∞ for a mechanism without noise; the sum of the losses of all that sees one aged draw
    bound  "tight": K_t, attained by some mechanism (T3);  "theorem1": ln(1 + Δ(t)(e^{ε_C} − 1)), the paper's

    >>> chain = MarkovChain([[0.9, 0.1], [0.1, 0.9]])
    >>> [round(aged_loss(chain, loss, 3), 4) for loss in (1.0, 2.0, math.inf)], round(aged_loss(chain, 1.0, 3, "theorem1"), 4)
    ([0.4823, 0.8234, 1.1309], 0.6311)
    """
    if bound not in BOUNDS:
        raise unknown("bound", bound, BOUNDS)
    return check_chain(chain).amplify(read_loss("loss", loss), age, bound)


def loss_before_aging(
    chain: MarkovChain, epsilon: float, age: int, bound: Literal["tight", "theorem1"] = "tight"
) -> float:
    """Return the largest ε_C that a mechanism may spend on states aged by t steps for a classical loss of ε, rounded down.

    It is infinite where not even the exact aged states tell more than ε: then aging alone is the protection (Theorem 2).

    >>> chain = MarkovChain([[0.9, 0.1], [0.1, 0.9]])
    >>> round(loss_before_aging(chain, 0.4823, 3), 3), loss_before_aging(chain, 1.2, 3)
    (1.0, inf)
    """
    epsilon, age = real("epsilon", epsilon, positive=True), whole("age", age, least=0)
    frontier = check_chain(chain).frontier(age)
    if bound == "theorem1":
        frontier = Frontier(np.zeros(1), np.array([frontier.variation]))
    return largest(
        lambda loss: aged_loss(chain, loss, age, bound) <= epsilon, epsilon, affordable_loss(frontier, epsilon)
    )


# The mechanism ------------------------------------------------------------------------------------------------------


def simulate_aged_mean(
    chain: MarkovChain, values: object, states: object, age: int, loss: float, rng: np.random.Generator
) -> Floats:
    """Return the mean of a value over people whose states are aged by t steps, plus Laplace noise of scale Δf/ε_C (Definition 5).

    values  one number a state, v; one person moves the mean by at most Δf = (max v − min v)/people
    states  the present states; the last axis is people, the ones before it are repetitions

    Its classical loss is `aged_loss(chain, loss, age)`. With `unbiased_values` for `values` its mean is that of the present.

    >>> chain = MarkovChain([[0.9, 0.1], [0.1, 0.9]])
    >>> simulate_aged_mean(chain, [-1.0, 1.0], np.zeros((5, 20), dtype=int), 3, 1.0, np.random.default_rng(1)).shape
    (5,)
    """
    each, now = read_values(chain, values), read_present(chain, states)
    means = each[chain.age(now, age, rng)].mean(axis=-1)
    noisy: Floats = means + rng.laplace(0.0, 1.0, means.shape) * noise_scale(each, now.shape[-1], loss)
    return noisy


def unbiased_values(chain: MarkovChain, values: object, age: int) -> Floats:
    """Return u with P̂_t u = v: the mean of u over aged states has the mean of v over present ones as its expectation (ours).

    That holds whatever people's states are, as the aging is drawn from them. u is public, so the loss is the same; its range is
    wider than that of v, so noise and draws weigh more. With two states u = (v − (1 − λ^t) E_π v)/λ^t, which stretches the noisy
    mean of v: post-processing. Refused where P̂_t cannot be inverted, as states are forgotten or confounded.

    >>> unbiased_values(MarkovChain([[0.9, 0.1], [0.1, 0.9]]), [-1.0, 1.0], 3).round(4).tolist()
    [-1.9531, 1.9531]
    """
    each, kernel = read_values(chain, values), chain.kernel(age)
    condition = float(np.linalg.cond(kernel))
    if not condition < WORST_CONDITION:
        raise InvalidInput(
            f"after {age} steps states are told apart too little to undo the aging (condition {condition:.2g}): age by less, or "
            "take the aged mean as it is",
            about="age",
        )
    return np.asarray(np.linalg.solve(kernel, each), dtype=np.float64)


# What is given ------------------------------------------------------------------------------------------------------


def noise_scale(values: Floats, people: int, loss: float) -> float:
    """Return Δf/ε_C, the scale of the noise of a mean over people; 0 for a loss of ∞."""
    return float(np.ptp(values)) / people / read_loss("loss", loss)


def check_chain(chain: object) -> MarkovChain:
    """Refuse a process whose kernel is not known whole: of a bound alone nothing can be drawn."""
    if not isinstance(chain, MarkovChain):
        raise InvalidInput(f"states are aged on purpose by a MarkovChain, not by {chain!r}", about="chain")
    return chain


def read_loss(name: str, loss: float) -> float:
    """Read a loss above 0, or infinity for no noise."""
    return math.inf if loss == math.inf else real(name, loss, positive=True)


def read_values(chain: MarkovChain, values: object) -> Floats:
    """Read one number for each state, not all the same."""
    return read_different(values, check_chain(chain).states)


def read_different(values: object, count: int | None = None) -> Floats:
    """Read finite numbers, so many if a count is given, not all the same."""
    try:
        found = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        found = np.zeros(0)
    wrong = found.ndim != 1 or (count is not None and len(found) != count)
    if wrong or not len(found) or not np.isfinite(found).all() or np.ptp(found) == 0:
        many = "" if count is None else f"{count} "
        raise InvalidInput(
            f"give {many}finite values, one for each state, that are not all the same, not {values!r}", about="values"
        )
    return found


def read_present(chain: MarkovChain, states: object) -> Any:
    """Read present states of at least one person, people along the last axis."""
    found = read_states(states, chain.states)
    if found.ndim < 1 or found.shape[-1] < 1:
        raise InvalidInput("give the present states of at least one person, people along the last axis", about="states")
    return found
