"""Artificial aging (Definition 5, Corollary 1 of the age-dependent paper), beside delayed publishing and fresh data.

The paper draws no figure of it. Here it is Example 1, p = q = 0.1 with 20 people and ε_C = 1, by age: what each way loses if the
model is true and if it is not, and how far each is from the present mean.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from halflife.lab.age_dependent.aging_errors import aged_error, break_even, delayed_error, fresh_error, reader_error
from halflife.lab.age_dependent.artificial_aging import aged_loss
from halflife.papers.age_dependent.model import CHAIN, PEOPLE
from halflife.papers.age_dependent.sequences import attained_risk
from halflife.papers.figures import DASH, DOT, Curve, Panel
from halflife.processes import MarkovChain
from halflife.release import Release

VALUES, EPSILON = (-1.0, 1.0), 1.0
TABLE_AGES, PANEL_AGES = (1, 2, 3, 6, 10), tuple(range(11))
SLOW = MarkovChain([[0.98, 0.02], [0.02, 0.98]])
"""What people do in truth, in the example of a false model: they change state five times less often than the model says."""
HALVES = tuple(i % 2 for i in range(PEOPLE))
"""Present states; on a symmetric chain the error of unbiased values is the same for all."""


class AgingRow(NamedTuple):
    """One age: losses about the present, mean squared errors, and from how many people on fresh data is better.

    promised, theorem_1   the classical loss of aging on purpose, K_t(ε_C), and the paper's bound of it
    true, slow, frozen    what delayed publishing loses if people move like the model, five times slower, and not at all
    delayed               the error of both delayed and aged data, if people move like the model
    unbiased, fresh       the error of aged data made unbiased, and of fresh data with noise of loss K_t(ε_C)
    reader_aged, reader_fresh   the least error of a reader who knows the model and corrects linearly
    break_even, most      people up to which aged data is better than fresh data, at this ε_C and without noise
    """

    age: int
    promised: float
    theorem_1: float
    true: float
    slow: float
    frozen: float
    delayed: float
    unbiased: float
    fresh: float
    reader_aged: float
    reader_fresh: float
    break_even: float
    most: float


def aging_data() -> list[AgingRow]:
    """Return the comparison for a few ages; what delayed publishing loses is by enumeration of its outputs."""
    return [_row(age) for age in TABLE_AGES]


def _row(age: int) -> AgingRow:
    promised = aged_loss(CHAIN, EPSILON, age)
    delayed = [Release(age + 1, EPSILON, age)]
    return AgingRow(
        age, promised, aged_loss(CHAIN, EPSILON, age, "theorem1"),
        attained_risk(CHAIN, delayed, age + 1), attained_risk(SLOW, delayed, age + 1), EPSILON,
        delayed_error(CHAIN, VALUES, PEOPLE, age, EPSILON), _unbiased(age), fresh_error(VALUES, PEOPLE, promised),
        reader_error(CHAIN, VALUES, PEOPLE, age, EPSILON), reader_error(CHAIN, VALUES, PEOPLE, 0, promised),
        break_even(CHAIN, VALUES, age, EPSILON), break_even(CHAIN, VALUES, age, math.inf),
    )  # fmt: skip


def _unbiased(age: int) -> float:
    return aged_error(CHAIN, VALUES, HALVES, age, EPSILON, unbiased=True).total


def aging_panels() -> tuple[Panel, ...]:
    """Errors by age: delayed, aged on purpose, and fresh data with the noise that the same loss needs."""
    losses = [aged_loss(CHAIN, EPSILON, t) for t in PANEL_AGES]
    both = list(zip(PANEL_AGES, losses, strict=True))
    curves = (
        Curve("delayed or aged, model true", np.array([delayed_error(CHAIN, VALUES, PEOPLE, t, EPSILON) for t, _ in both])),
        Curve("aged, unbiased for any data", np.array([_unbiased(t) for t, _ in both]), 3),
        Curve("fresh, noise of K_t", np.array([fresh_error(VALUES, PEOPLE, e) for _, e in both]), 1),
        Curve("reader corrects: delayed or aged",
              np.array([reader_error(CHAIN, VALUES, PEOPLE, t, EPSILON) for t, _ in both]), 0, DASH),
        Curve("reader corrects: fresh", np.array([reader_error(CHAIN, VALUES, PEOPLE, 0, e) for _, e in both]), 1, DASH),
        Curve("nothing published: stationary mean", np.full(len(both), 1 / PEOPLE), 6, DOT),
    )  # fmt: skip
    said = (
        f"Example 1, {PEOPLE} people, ε_C = {EPSILON:g}. At each age every line but the last has the loss K_t(ε_C). Aged on "
        "purpose, data errs as delayed data does. Uncorrected, both rise above twice the variance of the mean, where publishing "
        "nothing would be better; corrected alike, fresh data is better at every age."
    )
    x = np.array(PANEL_AGES, dtype=np.float64)
    return (
        Panel("aging", "Error by age, at the same loss", said, "age (steps)", "mean squared error (log)", x, curves, log_y=True),
    )  # fmt: skip


# Text ---------------------------------------------------------------------------------------------------------------

LOSS_HEADS = (
    "age",
    "aged on purpose: K_t",
    "by Theorem 1",
    "delayed: model true",
    "delayed: people five times slower",
    "delayed: nobody moves",
)
ERROR_HEADS = (
    "age",
    "delayed or aged",
    "aged, unbiased",
    "fresh, noise of K_t",
    "corrected: aged",
    "corrected: fresh",
    "aged is better up to (people)",
    "the same without noise",
)
AGING_WORDS = (
    "States are drawn t steps back from the reversed process before the noisy mean is taken (Definition 5). The loss is then "
    "classical, and holds whatever people do, as the kernel is applied and not assumed (Corollary 1); delayed publishing has it "
    f"only if the model is true. Losses about the present, ε_C = {EPSILON:g}, p = q = 0.1. Over a sequence of releases the "
    "losses of aging on purpose add up, while those of delay fade."
)


def loss_cells(row: AgingRow) -> tuple[str, ...]:
    """Return what one age loses as text, rounded up."""
    losses = (row.promised, row.theorem_1, row.true, row.slow, row.frozen)
    return (str(row.age), *(f"{math.ceil(x * 1e4 - 1e-3) / 1e4:.4f}" for x in losses))


def error_cells(row: AgingRow) -> tuple[str, ...]:
    """Return the errors of one age as text."""
    errors = (row.delayed, row.unbiased, row.fresh, row.reader_aged, row.reader_fresh)
    return (str(row.age), *(f"{x:.4f}" for x in errors), *(f"{math.floor(x)}" for x in (row.break_even, row.most)))


def aging_summary(rows: Sequence[AgingRow]) -> str:
    """Say which of aged and fresh data is better."""
    most = max(row.most for row in rows)
    return (
        f"Mean squared errors with {PEOPLE} people. Made unbiased, or corrected by a reader who knows the model, data aged on "
        "purpose is worse than fresh data with noise of the same classical loss for more than "
        f"{math.floor(most)} people, at every age and with any noise: a drawn state errs by the order of 1/n, noise by 1/n². "
        "With one or two people aging is a randomised response, which can be better. Left as it is, aged data errs less from "
        "age 3 on; "
        f"there both err more than the stationary mean, which errs by {1 / PEOPLE:g} and costs nothing."
    )
