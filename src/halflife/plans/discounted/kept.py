"""The least squares of a discounted plan, solved once for each problem where solutions are kept."""

from __future__ import annotations

import numpy as np

from halflife.numerics.arrays import Floats
from halflife.numerics.forms import JsonObject
from halflife.numerics.power_series import Kernel
from halflife.plans.discounted.least_squares import Optimum, least_squares, proves
from halflife.plans.solutions import Problem, read_floats, read_solution, recall_or_solve


def solve_once(kernel: Kernel, delta: Floats) -> Optimum:
    """Return the solution of `least_squares`. A kept one counts if its losses keep every risk and its gap is proved anew.

    >>> solve_once(lambda j: 1.0 * (j == 0), np.ones(3)).losses.round(6).tolist()
    [1.0, 1.0, 1.0]
    """
    n = len(delta)

    def recall(form: JsonObject) -> Optimum:
        kept = read_solution(form, ("losses", "gap", "rounds", "multipliers"))
        multipliers = np.array(kept["multipliers"], dtype=np.float64)
        found = Optimum(read_floats(kept["losses"], n), kept["gap"], kept["rounds"], multipliers)
        if multipliers.shape != (n,) or not proves(kernel, delta, found):
            raise ValueError("no solution of this problem")
        return found

    def form_of(found: Optimum) -> JsonObject:
        losses, multipliers = found.losses.tolist(), found.multipliers.tolist()
        return {"losses": losses, "gap": found.gap, "rounds": found.rounds, "multipliers": multipliers}

    problem: Problem = {
        "kind": "least squares",
        "kernel": kernel(np.arange(n, dtype=np.float64)),
        "delta": delta,
    }
    return recall_or_solve(problem, recall, lambda: least_squares(kernel, delta), form_of)
