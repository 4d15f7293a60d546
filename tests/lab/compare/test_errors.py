"""Errors of a comparison, against loops in plain Python."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest

from halflife.lab.compare.errors import by_time_of_day, join_scores, score, summarise
from halflife.lab.compare.streams import Stream

TRUTH = [3.0, 0.0, 0.25, 40.0, 12.0, 7.0]
OUTPUTS = [[2.0, 1.0, 0.0, 44.0, 12.0, 7.5], [3.5, -2.0, 0.25, 30.0, 11.0, 9.0], [0.0, 0.0, 5.0, 41.0, 13.0, 6.0]]


def by_hand(row):
    """MAE, MRE, mre1 and RMSE of one repetition, as the benchmark's readme has them."""
    floor, n = 0.01 * sum(TRUTH), len(TRUTH)
    off = [abs(x - r) for x, r in zip(TRUTH, row, strict=True)]
    mre = sum(e / max(x, floor) for e, x in zip(off, TRUTH, strict=True)) / n
    mre1 = sum(e / max(abs(x), 1.0) for e, x in zip(off, TRUTH, strict=True)) / n
    return sum(off) / n, mre, mre1, math.sqrt(sum(e * e for e in off) / n)


def test_every_error_of_every_repetition():
    found = score(np.array(OUTPUTS), np.array(TRUTH))
    for lane, row in enumerate(OUTPUTS):
        made = found.mae[lane], found.mre[lane], found.mre1[lane], found.rmse[lane]
        assert made == pytest.approx(by_hand(row), rel=1e-14)


def test_a_row_has_means_a_standard_error_and_the_worst_step():
    row = summarise(score(np.array(OUTPUTS), np.array(TRUTH)), np.array(TRUTH), Stream("x", "x", np.array(TRUTH)))
    maes, mres, mre1s, rmses = zip(*(by_hand(r) for r in OUTPUTS), strict=True)
    assert (row["mae"], row["mre"], row["mre1"]) == pytest.approx(tuple(map(statistics.mean, (maes, mres, mre1s))))
    assert row["mae_se"] == pytest.approx(statistics.stdev(maes) / math.sqrt(3))
    assert row["mae_median"] == pytest.approx(statistics.median(maes))
    assert row["rmse"] == pytest.approx(statistics.mean(rmses))
    assert row["rmse_over_max"] == pytest.approx(statistics.mean(rmses) / 40.0)
    by_step = [statistics.mean(abs(x - r[t]) for r in OUTPUTS) for t, x in enumerate(TRUTH)]
    assert row["worst_step"] == {"step": 4, "error": pytest.approx(max(by_step))}
    assert row["coverage"] is None
    assert row["by_time_of_day"] is None


def test_coverage_counts_steps_within_bands():
    found = score(np.array(OUTPUTS), np.array(TRUTH), np.array([1.0, 1.0, 1.0, 5.0, 0.5, 0.5]))
    assert found.covered.tolist() == pytest.approx([1.0, 2 / 6, 2 / 6])


def test_parts_together_are_the_whole():
    outputs, truth = np.array(OUTPUTS), np.array(TRUTH)
    whole, parts = score(outputs, truth), join_scores([score(outputs[:1], truth), score(outputs[1:], truth)])
    for a, b in zip(whole, parts, strict=True):
        assert (a is None and b is None) or np.allclose(a, b, rtol=1e-15, atol=0)


def test_one_repetition_has_no_standard_error_and_a_floor_of_zero_no_mre():
    truth = np.array([0.0, 0.0, 0.0])
    row = summarise(score(np.ones((1, 3)), truth), truth, Stream("x", "x", truth))
    assert (row["mae"], row["mae_se"], row["mre"], row["mre1"], row["rmse_over_max"]) == (1.0, None, None, 1.0, None)
    assert score(np.ones((1, 2)), np.array([-5.0, 2.0])).mre is None


def test_times_of_day_are_those_of_the_clock():
    times = np.datetime64("2026-01-05T22:00") + np.arange(10) * np.timedelta64(360, "m")
    stream = Stream("x", "x", np.zeros(10), times=times, steps_per_day=4.0)
    errors = np.arange(10.0)
    assert by_time_of_day(errors, stream) == {
        "04:00": pytest.approx(np.mean([1, 5, 9])), "10:00": pytest.approx(np.mean([2, 6])),
        "16:00": pytest.approx(np.mean([3, 7])), "22:00": pytest.approx(np.mean([0, 4, 8])),
    }  # fmt: skip


@pytest.mark.parametrize("width", [1, 20_000_000])
def test_steps_of_less_than_a_minute_are_all_in_the_mean_of_theirs(width):
    times = np.datetime64("2026-01-05T22:00", "us") + np.arange(6) * np.timedelta64(width, "us")
    stream = Stream("x", "x", np.zeros(6), times=times, steps_per_day=86_400e6 / width)
    whole, parts = {"22:00": 2.5}, {"22:00": 1.0, "22:01": 4.0}
    assert by_time_of_day(np.arange(6.0), stream) == (whole if width == 1 else parts)
