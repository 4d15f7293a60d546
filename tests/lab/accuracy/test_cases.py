"""Scores of post-processing, against numbers worked out by hand and against the noise that was put in."""

import math
from dataclasses import replace

import numpy as np
import pytest

from halflife.lab.accuracy.cases import (
    AVERAGE,
    KALMAN,
    LIVE,
    METHODS,
    RAW,
    REVISED,
    estimate,
    run_case,
    run_cases,
    score,
)
from halflife.lab.accuracy.series import Noise, Series, Source, read_series
from halflife.postprocessing import Facts
from halflife.postprocessing.base import Estimate

SMALL = Source("small", "four steps a day", "kWh", "2026-01-05", 480, 4, (Noise(0.4, "12 homes"),), ("absent.parquet",))


@pytest.fixture(scope="module")
def case():
    return run_case(read_series(SMALL, days=100), SMALL.noises[0])


def test_errors_and_coverage_are_counted_after_the_warm_up():
    source = Source("hand", "", "", "2026-01-05", 8, 4, ())
    series = Series(source, False, np.full((8, 2), 5.0), np.arange(1, 9))
    off = np.zeros((8, 2))
    off[:4] = 100.0  # half of the series is warm-up, as it is shorter than 60 days
    off[4:, 0], off[4:, 1] = 1.9, -2.1
    found = score(series, Estimate(5.0 + off, np.full((8, 2), 2.0)), seconds=4.0)
    assert (found.error, found.coverage, found.seconds) == (pytest.approx(2.0 / 5.0), 0.5, 5_000.0)


def test_a_warm_up_is_30_days_and_64_of_coarse_steps():
    for per_day, steps, least in ((24, 2_000, 721), (1 / 7, 200, 65), (1, 200, 65), (24, 240, 121), (1 / 7, 50, 26)):
        source = Source("counted", "", "", "2026-01-05", steps, per_day, ())
        series = Series(source, False, np.ones((steps, 1)), np.arange(1, steps + 1))
        assert series.steps[series.counted][0] == least


def test_raw_error_is_the_scale_and_raw_coverage_is_95_percent():
    """E|Laplace(b)| = b; of 20,000 counted values its mean lies within ± 3 % (4 standard errors), coverage within ± 0.6 %."""
    source = Source("flat", "", "", "2026-01-05", 40_000, 1, ())
    series = Series(source, False, np.full((40_000, 1), 5.0), np.arange(1, 40_001))
    rng = np.random.default_rng(1)
    scales = np.full(40_000, 0.4 * 5.0)
    found = estimate(RAW, 1, series.truth + rng.laplace(0, 2.0, (40_000, 1)), scales, Facts())
    raw = score(series, found, 0.0)
    assert raw.error == pytest.approx(0.4, rel=0.03)
    assert raw.coverage == pytest.approx(0.95, abs=0.006)


def test_the_average_is_over_six_hours_with_its_own_band():
    found = estimate(AVERAGE, 24, np.arange(12.0)[:, None], np.ones(12), Facts())
    assert found.values[-1, 0] == np.arange(6, 12).mean()
    assert found.bands[-1, 0] == pytest.approx(math.log(20) / math.sqrt(6))


def test_estimates_are_better_the_more_they_know(case):
    error = {method: case.scores[method].error for method in METHODS}
    assert error[RAW] == pytest.approx(0.4, rel=0.2)
    assert error[REVISED] < error[LIVE] < 0.6 * error[RAW]
    assert error[LIVE] < error[KALMAN] < error[RAW]
    assert all(0.85 <= case.scores[method].coverage <= 1 for method in (RAW, LIVE, REVISED))


def test_noise_has_the_scale_that_the_table_says(case):
    """The median of |noise| is b·ln 2, with a standard error of b/√n: 0.7 % of it for 40,000 values, and 3 % is four of them."""
    scale = 0.4 * case.series.mean
    assert case.first[RAW].bands == pytest.approx(math.log(20) * scale)
    long = run_case(read_series(replace(SMALL, steps=20, cells=2_000)), SMALL.noises[0])
    noise = long.first[RAW].values - long.series.truth
    assert np.median(np.abs(noise)) == pytest.approx(0.4 * long.series.mean * math.log(2), rel=0.03)


def test_live_estimates_do_not_look_ahead_and_revised_ones_do(case):
    series, half = case.series, 200
    values, scales = case.first[RAW].values, np.full(len(series.steps), 0.4 * series.mean)
    facts = Facts(steps=series.steps[:half], days=series.facts.days[:half])
    live = estimate(LIVE, 4, values[:half], scales[:half], facts).values
    assert (live == case.first[LIVE].values[:half]).all()
    assert (case.first[REVISED].values[:half] != case.first[LIVE].values[:half]).any()


def test_progress_goes_once_from_nothing_to_all():
    series, seen = read_series(SMALL, days=6), []
    run_cases([series, series], 1, lambda what, done, total: seen.append((done, total)))
    count = 2 * len(SMALL.noises) * len(METHODS)
    assert seen == [(k, count) for k in range(count)]


def test_seeds_are_averaged_and_the_first_one_is_drawn():
    series = read_series(SMALL, days=6)
    one, two = run_case(series, SMALL.noises[0], 1), run_case(series, SMALL.noises[0], 2)
    assert (one.first[RAW].values == two.first[RAW].values).all()
    assert one.scores[RAW].error != two.scores[RAW].error
    with pytest.raises(ValueError, match="seeds"):
        run_case(series, SMALL.noises[0], 0)
