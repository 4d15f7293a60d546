"""Sizes of errors: chains against sums over all paths, fields against drawn ones, and bands where models are wrong."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from halflife.postprocessing.structural.combining import LOWEST, SIZES, combine, trust_model
from halflife.postprocessing.structural.sizes import (
    COUNTS,
    REACH,
    SHAPES,
    find_logs,
    find_moves,
    fold,
    judge_series,
    shape_up,
    smooth_circle,
    smooth_line,
)
from halflife.postprocessing.structural.tracking import Tracker


@pytest.mark.parametrize("circle", [False, True])
def test_chains_are_sums_over_all_paths(circle):
    rng = np.random.default_rng(1)
    logs, before, move = rng.normal(0, 1, (4, 3)), np.array([0.5, 0.3, 0.2]), find_moves(np.array([0.5, 0.3, 0.2]), 0.8)
    total, each = 0.0, np.zeros((4, 3))
    for path in itertools.product(range(3), repeat=4):
        chance = before[path[0]] * math.exp(sum(logs[t, k] for t, k in enumerate(path)))
        for one, other in itertools.pairwise(path):
            chance *= move[one, other]
        if circle:
            chance *= move[path[-1], path[0]]
        total += chance
        for t, k in enumerate(path):
            each[t, k] += chance
    found = (smooth_circle if circle else smooth_line)(logs, before, move)
    assert found.chances == pytest.approx(each / total, rel=1e-9)
    assert found.evidence == pytest.approx(math.log(total), rel=1e-9)


def test_logs_are_densities_of_shapes_moved_by_powers_of_two():
    """By drawing: errors of variance 2^k·c·f and Laplace noise, whose density at a point is counted."""
    rng, k = np.random.default_rng(2), 1
    logs = shape_up(find_logs(np.array([[0.5], [3.0]]), np.full((2, 1), 2.0), np.full((2, 1), 2.0), True))
    for shape, found in zip(SHAPES, logs, strict=True):
        powers = rng.choice(list(shape), 1_000_000, p=list(shape.values()))
        drawn = rng.normal(0, np.sqrt(2.0 * 2.0 ** (powers + k))) + rng.laplace(0, 1, powers.size)
        counted = [np.mean(np.abs(drawn - at) < 0.1) / 0.2 for at in (0.5, 3.0)]
        row = found[
            k - REACH[0], :, 0
        ]  # a constant for each value is left out, the same for all k: ratios between k count
        other = rng.normal(0, np.sqrt(2.0 * 2.0 ** (powers - 2))) + rng.laplace(0, 1, powers.size)
        counted_other = [np.mean(np.abs(other - at) < 0.1) / 0.2 for at in (0.5, 3.0)]
        rise = row - found[-2 - REACH[0], :, 0]
        assert rise == pytest.approx(COUNTS * np.log(np.array(counted) / counted_other), abs=0.02)


def test_folding_takes_means_over_a_summand():
    logs, chances = np.arange(7.0) ** 2, np.array([0.25, 0.75])
    found = fold(logs, chances, np.array([0, 1]), np.arange(-3, 4), np.array([-3, 0]))
    assert found.tolist() == [0.75 * 1, 0.25 * 9 + 0.75 * 16]


def draw(rng, weeks, cells=1, per_day=24, profile=None, levels=None, apart=None, scale=1.0, jumps=0.0):
    """Errors of predictions that the model holds to have variance 1, and values with noise: steps × cells."""
    steps = weeks * 7 * per_day
    days = np.arange(steps) / per_day
    power = np.zeros((steps, cells))
    if profile is not None:
        power += np.asarray(profile)[(days % 1 * 12 + 1e-6).astype(int)][:, None]
    if levels is not None:
        power += np.repeat(levels, 7 * per_day)[:, None]
    if apart is not None:
        power += np.asarray(apart)
    power += 4 * (rng.random(power.shape) < jumps)
    truth = rng.normal(0, 2.0 ** (power / 2))
    return truth, truth + rng.laplace(0, scale, truth.shape), days, power


def mean_sizes(doubt, cells):
    """The mean of ln of the size at each step and cell."""
    base = doubt.table[doubt.rows] @ np.arange(LOWEST, LOWEST + len(SIZES))
    moved = np.broadcast_to(doubt.cells @ np.arange(-2, 3), cells)
    return base[:, None] + moved


CASES = {
    "as the model says": {},
    "all larger": {"levels": np.full(16, 1.5)},
    "by time of day": {"profile": [-1.5, -1.5, -1, -0.5, 0, 0.5, 1, 1.5, 1.5, 1, 0, -1]},
    "by week": {"levels": 1.5 * np.sin(np.arange(16) / 3)},
    "by cell": {"cells": 4, "apart": [-1.5, -0.5, 0.5, 1.5]},
    "jumps": {"jumps": 0.05},
}


@pytest.mark.parametrize("case", list(CASES))
@pytest.mark.parametrize("scale", [0.5, 1.5])
def test_bands_hold_where_the_model_is_wrong(case, scale):
    """Whatever sizes errors have, 95 % of estimates lie within the band, and estimates are no worse than without doubt."""
    truth, noisy, days, power = draw(np.random.default_rng(3), 16, scale=scale, **CASES[case])
    cells, noise = truth.shape[1], np.full(len(truth), 2 * scale**2)
    ones, zeros = np.ones_like(truth), np.zeros_like(truth)
    doubt = judge_series(noisy, ones, noise, days, 24, np.arange(cells), True)
    found, bands = combine(zeros, ones, noisy, noise[:, None], True, doubt)
    plain, _ = combine(zeros, ones, noisy, noise[:, None], True, trust_model(len(truth)))
    inside = np.abs(found - truth) <= bands
    assert 0.93 < inside.mean() < 0.97
    quarter = power >= np.quantile(power, 0.75)
    assert inside[quarter].mean() > 0.92
    assert np.abs(found - truth).mean() < 1.02 * np.abs(plain - truth).mean()
    if scale == 0.5 and case not in ("as the model says", "jumps"):
        sizes = mean_sizes(doubt, truth.shape)
        assert np.ptp(power) == 0 or np.corrcoef(sizes.ravel(), power.ravel())[0, 1] > 0.9
        assert sizes.mean() == pytest.approx(power.mean(), abs=0.5)


def test_where_noise_hides_errors_what_was_expected_holds():
    truth, noisy, days, _ = draw(np.random.default_rng(4), 4, scale=1000.0)
    doubt = judge_series(noisy, np.ones_like(truth), np.full(len(truth), 2e6), days, 24, np.arange(1), True)
    before = Tracker.begin(1, 1, 24).table
    assert doubt.table == pytest.approx(np.tile(before, (4, 1)), abs=0.06)
    assert 1.0 < (before @ SIZES).mean() < 2.0


def test_weeks_are_followed_without_looking_ahead():
    """Sizes rise eightfold in the ninth week: bands are too narrow for a while, and hold again three weeks later."""
    levels = np.where(np.arange(24) < 8, 0.0, 3.0)
    truth, noisy, days, _ = draw(np.random.default_rng(5), 24, levels=levels, scale=0.7)
    ones, noise = np.ones_like(truth), np.full(len(truth), 2 * 0.7**2)
    tracker, inside = Tracker.begin(1, 1, 24), []
    for k in range(24):
        part = slice(168 * k, 168 * (k + 1))
        found, bands = combine(
            0 * ones[part], ones[part], noisy[part], noise[part, None], True, tracker.doubt(days[part], 24)
        )
        tracker.meet(noisy[part], ones[part], noise[part], days[part], 24, np.arange(1), True)
        tracker.close_week()
        inside.append(np.mean(np.abs(found - truth[part]) <= bands))
    assert np.mean(inside[2:8]) == pytest.approx(0.955, abs=0.015)
    assert inside[8] < 0.9
    assert np.mean(inside[11:]) == pytest.approx(0.95, abs=0.012)


def test_sums_of_a_week_do_not_depend_on_blocks_and_survive_a_restart():
    truth, noisy, days, _ = draw(np.random.default_rng(6), 1, cells=3, apart=[0, 1, 2])
    ones, noise, pool = np.ones_like(truth), np.full(len(truth), 2.0), np.arange(3)
    whole, parts = Tracker.begin(3, 3, 24), Tracker.begin(3, 3, 24)
    whole.meet(noisy, ones, noise, days, 24, pool, True)
    for cut in (slice(0, 1), slice(1, 100), slice(100, 168)):
        parts.meet(noisy[cut], ones[cut], noise[cut], days[cut], 24, pool, True)
        parts = Tracker.from_parts([part.ravel() for part in parts.parts()], 3, 3, 24)
    whole.close_week()
    parts.close_week()
    assert all(a.tobytes() == b.tobytes() for a, b in zip(whole.parts(), parts.parts(), strict=True))
