"""The smallest loss that an estimated process can certify, given how many readings its kernels come from."""

from __future__ import annotations

import math

import numpy as np

from halflife.processes.base import Process
from halflife.processes.contraction import theorem_1
from halflife.processes.empirical import weissman
from halflife.processes.family import ProcessFamily


def estimation_error(process: Process, confidence: float = 0.99) -> float | None:
    """Return the least half-width of a confidence interval of Δ(1) of an estimated process; None if it was not estimated.

    Two rows of a kernel from n readings each are off by at most √(2 ln((2^S − 2)/α)/n) together (Weissman et al. 2003), for all
    rows of all people at once; readings count as independent draws, which is the best case (A7; ours).

    >>> from halflife.processes import MarkovChain
    >>> estimation_error(MarkovChain([[0.9, 0.1], [0.1, 0.9]])) is None
    True
    """
    people = process.processes if isinstance(process, ProcessFamily) else [process]
    rows = []
    for person in people:
        fitted = getattr(person, "fitted", None)
        states = len(fitted["edges"]) + 1 if fitted and isinstance(fitted.get("edges"), list) else 0
        if not fitted or "transitions" not in fitted or not states:
            return None
        kernels = states * fitted.get("slots", 1)
        rows.append((fitted["transitions"] / kernels, states, kernels))
    alpha = (1 - confidence) / sum(kernels for _, _, kernels in rows)
    return max(float(weissman(np.array([max(seen, 1.0)]), states, alpha)[0]) for seen, states, _ in rows)


def least_certifiable(process: Process, loss: float, confidence: float = 0.99) -> float | None:
    """Return below what a loss about old data cannot be certified, however old it is: ln(1 + x(e^ε − 1)); None if not estimated.

    Six states, a year of half hours, 40 homes, 99 %: x = 0.099, and a loss of 4 cannot be certified below 1.84 (A7).
    """
    off = estimation_error(process, confidence)
    return None if off is None else theorem_1(min(1.0, off), loss) if math.isfinite(loss) else math.inf
