"""Errors of outputs against the truth, repetition by repetition, and their summary over repetitions.

With x_t the truth, r_t the output and n steps, of each repetition:

    MAE   Σ|x_t − r_t| / n                                   RMSE  √(Σ(x_t − r_t)² / n)
    MRE   Σ|x_t − r_t| / max(x_t, 0.01·Σ_k x_k) / n          mre1  Σ|x_t − r_t| / max(|x_t|, 1) / n

MRE is as the benchmark of Schäler, Hütter and Schäler (VLDB 2023) has it: its floor is 1 % of the *sum of the whole stream*. mre1
has the floor 1. A row has the mean of each over the repetitions, and the standard error of the MAE.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from halflife.lab.compare.streams import Stream
from halflife.numerics.arrays import Floats
from halflife.numerics.forms import JsonObject

FLOOR_OF_SUM = 0.01
"""The benchmark's floor of a relative error, in parts of the sum of the stream."""


class Scores(NamedTuple):
    """Errors of some repetitions: a number each, and sums of |x_t − r_t| over them, a number a step.

    mre      None where the floor is not above 0;  covered  shares of steps within 95 % bands, None without bands
    """

    mae: Floats
    mre: Floats | None
    mre1: Floats
    rmse: Floats
    step_sums: Floats
    covered: Floats | None


def score(outputs: Floats, truth: Floats, bands: Floats | None = None) -> Scores:
    """Return the errors of outputs, repetitions × steps; bands are half-widths of the same shape, or one a step.

    >>> found = score(np.array([[1.0, 3.0], [2.0, 2.0]]), np.array([2.0, 2.0]))
    >>> found.mae.tolist(), found.step_sums.tolist()
    ([1.0, 0.0], [1.0, 1.0])
    """
    off = np.abs(outputs - truth)
    floor = np.maximum(truth, FLOOR_OF_SUM * math.fsum(truth.tolist()))
    return Scores(
        off.mean(axis=1),
        (off / floor).mean(axis=1) if (floor > 0).all() else None,
        (off / np.maximum(np.abs(truth), 1.0)).mean(axis=1),
        np.sqrt((off * off).mean(axis=1)),
        off.sum(axis=0),
        None if bands is None else (off <= bands).mean(axis=1),
    )


def join_scores(parts: Sequence[Scores]) -> Scores:
    """Return the scores of all repetitions, from those of some each, in their order."""
    mre, covered = ([getattr(part, name) for part in parts] for name in ("mre", "covered"))
    return Scores(
        np.concatenate([part.mae for part in parts]),
        None if any(x is None for x in mre) else np.concatenate(mre),
        np.concatenate([part.mre1 for part in parts]),
        np.concatenate([part.rmse for part in parts]),
        np.sum([part.step_sums for part in parts], axis=0),
        None if any(x is None for x in covered) else np.concatenate(covered),
    )


def summarise(found: Scores, truth: Floats, stream: Stream) -> JsonObject:
    """Return what a row says of errors: means over repetitions, the MAE's standard error and quantiles, the worst step."""
    runs = len(found.mae)
    by_step: Floats = found.step_sums / runs
    worst, largest = int(np.argmax(by_step)), float(np.abs(truth).max())
    rmse = float(found.rmse.mean())
    return {
        "mae": float(found.mae.mean()),
        "mae_se": float(found.mae.std(ddof=1) / math.sqrt(runs)) if runs > 1 else None,
        "mre": None if found.mre is None else float(found.mre.mean()),
        "mre1": float(found.mre1.mean()),
        "rmse": rmse,
        "rmse_over_max": rmse / largest if largest > 0 else None,
        "mae_median": float(np.median(found.mae)),
        "mae_q10": float(np.quantile(found.mae, 0.1)),
        "mae_q90": float(np.quantile(found.mae, 0.9)),
        "worst_step": {"step": worst + 1, "error": float(by_step[worst]), **_when(stream, worst)},
        "by_time_of_day": by_time_of_day(by_step, stream),
        "coverage": None if found.covered is None else float(found.covered.mean()),
    }


def _when(stream: Stream, place: int) -> dict[str, Any]:
    return {} if stream.times is None else {"time": str(stream.times[place].astype("datetime64[m]"))}


def by_time_of_day(by_step: Floats, stream: Stream) -> dict[str, float] | None:
    """Return the mean error of each time of day that occurs, None if that is not known."""
    slots = stream.slots
    if slots is None:
        return None
    sums, counts = np.bincount(slots, by_step), np.bincount(slots)
    return {stream.slot_name(slot): float(sums[slot] / counts[slot]) for slot in np.flatnonzero(counts).tolist()}
