"""Seasonal estimates: fits, one series, many groups, and a year of half hours of 1,000 groups with its peak memory."""

from __future__ import annotations

import multiprocessing
import resource
import sys
import time
from importlib.util import find_spec

import numpy as np
from rich.console import Console
from rich.table import Table

from bench.results import Finding
from halflife.numerics.arrays import Floats
from halflife.postprocessing import Seasonal
from halflife.postprocessing.structural.filtering import Filter
from halflife.postprocessing.structural.fitting import find_cost
from halflife.postprocessing.structural.harmonics import Harmonics
from halflife.postprocessing.structural.parameters import Parameters
from halflife.postprocessing.structural.windows import Fit, model_of

HALF_HOURS = 17_520


def make(groups: int, steps: int) -> Floats:
    """Return noisy half hours of some groups: a day, a week, a level of their own, and Laplace noise of scale 0.4."""
    rng = np.random.default_rng(1)
    days = np.arange(1, steps + 1)[:, None] / 48
    values = 1 + rng.random(groups) + 0.3 * np.sin(2 * np.pi * (days + rng.random(groups)))
    values += 0.1 * np.sin(2 * np.pi * days / 7)
    for part in np.array_split(np.arange(steps), 20):  # bit by bit: memory is measured
        values[part] += rng.laplace(0, 0.4, (len(part), groups))
    return values


def whole(groups: int, steps: int, answer: multiprocessing.Queue[tuple[float, float]]) -> None:
    """Estimate a year of all groups, fits included; answer with seconds of computing and gigabytes at the peak."""
    values = make(groups, steps)
    began = time.process_time()
    Seasonal(48).estimate(values, np.full(steps, 0.4))
    answer.put((time.process_time() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20))


def filter_seconds(groups: int, steps: int = 2_688) -> float:
    """Return how long the filter takes for some groups that share their parameters."""
    fit = Fit(Parameters.middle(48), Harmonics(48))
    model, before = model_of(fit, -3)
    rows, values = fit.harmonics.rows(np.arange(1, steps + 1) / 48), make(groups, steps)
    one = Filter(np.zeros((fit.harmonics.states, groups)), np.diag(before))
    began = time.process_time()
    one.meet(values, rows, np.full(steps, 0.32), np.ones(steps), model)
    return time.process_time() - began


def likelihood_seconds(sets: int, steps: int = 2_688) -> float:
    """Return how long the likelihood of some sets of parameters takes, side by side."""
    harmonics = Harmonics(48)
    numbers = np.tile(Parameters.middle(48).numbers, (sets, 1))
    given = make(1, steps), harmonics.rows(np.arange(1, steps + 1) / 48), np.full(steps, 0.32), np.ones(steps)
    began = time.process_time()
    find_cost(numbers, *given, np.full(1, 0.3), np.ones(1), harmonics)
    return time.process_time() - began


def statsmodels_seconds(steps: int = 2_688) -> float:
    """Return how long statsmodels takes for the likelihood of a model with a level and 16 daily harmonics."""
    from statsmodels.tsa.statespace.structural import UnobservedComponents

    model = UnobservedComponents(make(1, steps)[:, 0], "llevel", freq_seasonal=[{"period": 48, "harmonics": 17}])
    began = time.process_time()
    model.loglike(model.start_params)
    return time.process_time() - began


def main() -> list[Finding]:
    findings = []
    table = Table(title="seasonal estimates, 40 states (CPU seconds)")
    for column in ("what", "steps", "seconds", "steps a second", "peak, GB"):
        table.add_column(column, justify="left" if column == "what" else "right")

    def row(what: str, steps: int, seconds: float, peak: str = "") -> None:
        table.add_row(what, f"{steps:,}", f"{seconds:.2f}", f"{steps / seconds:,.0f}", peak)
        findings.append(Finding(what, seconds, "s"))

    for groups in (1, 10, 100, 1_000):
        row(f"filter, {groups:,} series of one class", 2_688, filter_seconds(groups))
    for sets in (1, 9):
        row(f"likelihood of {sets} sets of parameters", 2_688, likelihood_seconds(sets))
    if find_spec("statsmodels"):
        row("likelihood of 1 set, statsmodels, 35 states", 2_688, statsmodels_seconds())
    for groups in (1, 1_000) if "--large" in sys.argv else (1, 10):
        answer: multiprocessing.Queue[tuple[float, float]] = multiprocessing.get_context("spawn").Queue()
        child = multiprocessing.get_context("spawn").Process(target=whole, args=(groups, HALF_HOURS, answer))
        child.start()
        seconds, peak = answer.get()
        child.join()
        row(f"a year of half hours, {groups:,} groups, fits included", HALF_HOURS, seconds, f"{peak:.2f}")
    Console().print(table)
    return findings
