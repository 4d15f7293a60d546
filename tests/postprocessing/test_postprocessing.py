"""Post-processing: the same whatever the blocks, and error bands that keep their word."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from halflife import InvalidInput
from halflife.postprocessing import Facts, Kalman, MovingAverage, Truncate

BAND = math.log(20)  # 95 % of Laplace noise of scale 1 lies within ± this


def cut(smoother, values, scales, lengths, through_json=None):
    """Smooth block by block; with `through_json`, by a fresh smoother each time that goes on from the saved state."""
    made, kept, start = [], [], 0
    for length in [*lengths, len(values)]:
        block = slice(start, min(start + length, len(values)))
        start = block.stop
        if through_json is not None:
            state = json.loads(json.dumps(smoother.state()))
            smoother = through_json()
            smoother.restore(state)
        v, s = smoother.smooth(values[block], scales[block])
        made.append(v)
        kept.append(s)
    return np.concatenate(made), np.concatenate(kept)


numbers = st.floats(-1e6, 1e6)


MAKERS = {
    "plain average": lambda: MovingAverage(3),
    "average of what is not independent": lambda: MovingAverage(5, independent=False),
    "average above": lambda: MovingAverage(4, above=2.0),
    "kalman": lambda: Kalman(0.7),
    "kalman of what is not independent": lambda: Kalman(0.7, independent=False),
}


@pytest.mark.parametrize("fresh", MAKERS.values(), ids=MAKERS)
@given(data=st.data(), steps=st.integers(0, 25))
def test_any_cut_of_the_steps_gives_the_same_bits(fresh, data, steps):
    row = st.lists(numbers, min_size=2, max_size=2)
    values = np.array(data.draw(st.lists(row, min_size=steps, max_size=steps))).reshape(-1, 2)
    scales = st.just(0.0) | st.floats(1e-6, 1e6)
    scales = np.array(data.draw(st.lists(scales, min_size=steps, max_size=steps)))
    lengths = data.draw(st.lists(st.integers(0, 8), max_size=6))
    whole = fresh().smooth(values, scales)
    for found in (cut(fresh(), values, scales, lengths), cut(fresh(), values, scales, lengths, fresh)):
        assert found[0].tobytes() == whole[0].tobytes()
        assert found[1].tobytes() == whole[1].tobytes()


@given(st.lists(numbers, min_size=1, max_size=40), st.integers(2, 50))
def test_the_moving_average_is_the_mean_of_the_last_values(values, width):
    scales = np.arange(1.0, len(values) + 1)
    found, kept = MovingAverage(width).smooth(np.array(values)[:, None], scales)
    linear = MovingAverage(width, independent=False).smooth(np.array(values)[:, None], scales)[1]
    for t in range(len(values)):
        last = values[max(0, t - width + 1) : t + 1]
        b = scales[max(0, t - width + 1) : t + 1]
        assert found[t, 0] == pytest.approx(math.fsum(last) / len(last), rel=1e-12, abs=1e-8)
        assert kept[t] == pytest.approx(math.sqrt(math.fsum(x * x for x in b)) / len(b))
        assert linear[t] == pytest.approx(math.fsum(b) / len(b))


def test_restoring_nothing_starts_afresh():
    smoother = MovingAverage(3)
    smoother.smooth(np.ones((5, 1)), np.ones(5))
    smoother.restore(None)
    assert smoother.smooth(np.array([[7.0]]), np.ones(1))[0].tolist() == [[7.0]]
    assert smoother.state() == {"values": [[7.0]], "scales": [1.0]}


def test_only_what_is_needed_is_kept():
    smoother = MovingAverage(4)
    smoother.smooth(np.arange(100.0)[:, None], np.ones(100))
    assert smoother.state() == {"values": [[97.0], [98.0], [99.0]], "scales": [1.0, 1.0, 1.0]}


def test_the_band_of_two_noises_holds_whatever_their_scales():
    """P(|aX + bY| > x) = (a² e^(−x/a) − b² e^(−x/b))/(a² − b²) for Laplace noise X and Y, at x = ln 20 · √(a² + b²)."""
    for b in np.linspace(0.001, 0.999, 999):
        x = BAND * math.sqrt(1 + b * b)
        assert (math.exp(-x) - b * b * math.exp(-x / b)) / (1 - b * b) <= 0.05


SCALES = [
    [1.0, 1.0],
    [1.0, 0.1, 0.1],
    [5.0, 4.0, 3.0, 2.0, 1.0],
    [1.0] * 12,
    [10.0, *[1.0] * 30],
    [2.0**-k for k in range(8)],
]


@pytest.mark.parametrize("scales", SCALES, ids=lambda s: f"{len(s)} noises of {s[0]:g} to {s[-1]:g}")
def test_the_band_of_an_average_holds_95_percent(scales):
    lanes = 200_000
    noise = np.random.default_rng(7).laplace(0, np.array(scales)[:, None], (len(scales), lanes))
    averages, kept = MovingAverage(len(scales)).smooth(noise, np.array(scales))
    covered = np.mean(np.abs(averages[-1]) <= BAND * kept[-1])
    assert covered >= 0.95 - 4 * math.sqrt(0.05 * 0.95 / lanes)
    assert covered <= 0.99  # and it is no wider than it need be


@pytest.mark.diagonal
@pytest.mark.parametrize("scales", SCALES, ids=lambda s: f"{len(s)} noises of {s[0]:g} to {s[-1]:g}")
@pytest.mark.parametrize("truth", [0.0, 0.5, 40.0])
def test_the_band_holds_after_another_smoother(scales, truth):
    """Truncated errors lean to one side, and an average of averages shares its terms: their scales add up in full."""
    lanes, b = 100_000, np.array(scales)
    noisy = truth + np.random.default_rng(11).laplace(0, b[:, None], (len(scales), lanes))
    for before in (Truncate(0.0, 1e9), MovingAverage(len(scales))):
        averages, kept = MovingAverage(len(scales), independent=False).smooth(*before.smooth(noisy, b))
        covered = np.mean(np.abs(averages[-1] - truth) <= BAND * kept[-1])
        assert covered >= 0.95 - 4 * math.sqrt(0.05 * 0.95 / lanes)


def test_truncated_noise_would_break_the_band_of_independent_noise():
    noisy = np.random.default_rng(3).laplace(0, 1.0, (100, 10_000))
    averages, kept = MovingAverage(100).smooth(*Truncate(0.0, 10.0).smooth(noisy, np.ones(100)))
    assert np.mean(np.abs(averages[-1]) <= BAND * kept[-1]) < 0.05


@given(numbers, st.floats(0, 1), st.floats(-1e3, 1e3), st.floats(1e-3, 1e3))
def test_truncating_never_increases_an_error(noisy, where, low, width):
    high = low + width
    truth = min(high, low + where * width)
    found, scales = Truncate(low, high).smooth(np.array([[noisy]]), np.array([2.0]))
    assert abs(found[0, 0] - truth) <= abs(noisy - truth)
    assert scales.tolist() == [2.0]


def test_what_lies_beyond_a_bound_becomes_the_bound():
    """An error never grows if one of the bounds is forgotten, so that each is looked at."""
    found, _ = Truncate(-1.0, 2.5).smooth(np.array([[-7.0, -1.0, 0.5], [2.5, 2.6, 1e300]]), np.ones(2))
    assert found.tolist() == [[-1.0, -1.0, 0.5], [2.5, 2.5, 2.5]]


@pytest.mark.parametrize(("low", "high"), [(1.0, 1.0), (2.0, 1.0), (math.nan, 1.0), (0.0, math.nan)])
def test_bounds_that_hold_nothing_are_refused(low, high):
    with pytest.raises(InvalidInput, match="low below high"):
        Truncate(low, high)


@pytest.mark.parametrize("width", [1, 0, -3, 2.5, "3", True])
def test_an_average_needs_two_values_or_more(width):
    with pytest.raises(InvalidInput):
        MovingAverage(width)


@pytest.mark.parametrize("fresh", [lambda: Truncate(0, 1), *MAKERS.values()], ids=["truncate", *MAKERS])
def test_what_is_no_number_is_refused(fresh):
    for value in (math.nan, math.inf, -math.inf):
        with pytest.raises(InvalidInput, match="finite values"):
            fresh().smooth(np.array([[1.0], [value]]), np.ones(2))
    for scale in (math.nan, math.inf, -1.0):
        with pytest.raises(InvalidInput, match=f"noise scale is a number from 0.* on, not {scale}"):
            fresh().smooth(np.ones((2, 1)), np.array([1.0, scale]))
    for values, scales in ((np.ones(3), np.ones(3)), (np.ones((3, 1)), np.ones(2)), (np.ones((3, 2)), np.ones((3, 2)))):
        with pytest.raises(InvalidInput, match="steps × cells"):
            fresh().smooth(values, scales)


# The paper's rule: an average only where the noise calls for it ------------------------------------------------------


@given(st.data(), st.integers(1, 30), st.integers(2, 8), st.sampled_from([0.0, 0.5, 1.0, 2.0, 6.0]))
def test_only_noisy_steps_are_averaged(data, steps, width, above):
    values = np.array(data.draw(st.lists(numbers, min_size=steps, max_size=steps)))
    b = np.array(data.draw(st.lists(st.sampled_from([0.0, 0.5, 2.0, 5.0]), min_size=steps, max_size=steps)))
    found, kept = MovingAverage(width, above=above).smooth(values[:, None], b)
    for t in range(steps):
        if b[t] <= above:
            assert (found[t, 0], kept[t]) == (values[t], b[t])
            continue
        window = slice(max(0, t - width + 1), t + 1)
        assert found[t, 0] == pytest.approx(math.fsum(values[window]) / len(values[window]), rel=1e-12, abs=1e-8)
        assert kept[t] == pytest.approx(math.sqrt(math.fsum(b[window] ** 2)) / len(values[window]))


def test_above_nothing_is_the_plain_average_and_above_everything_changes_nothing():
    values, b = np.random.default_rng(1).normal(size=(40, 3)), np.random.default_rng(2).uniform(0.1, 3, 40)
    plain = MovingAverage(7).smooth(values, b)
    always, never = (MovingAverage(7, above=x).smooth(values, b) for x in (0.0, 3.0))
    assert [x.tobytes() for x in always] == [x.tobytes() for x in plain]
    assert [x.tobytes() for x in never] == [values.tobytes(), b.tobytes()]


def test_each_cell_decides_by_its_own_noise_and_the_worst_one_is_told():
    """A scale of 1 is worth 2 in one cell and 0.5 in the other: above 1 only the first is averaged."""
    values, b = np.array([[0.0, 0.0], [6.0, 6.0], [9.0, 9.0], [9.0, 9.0]]), np.array([1.0, 1.0, 1.5, 3.0])
    found, kept = MovingAverage(2, above=1.0).smooth(values, b, Facts(worth=np.array([2.0, 0.5])))
    assert found.tolist() == [[0.0, 0.0], [3.0, 6.0], [7.5, 9.0], [9.0, 9.0]]
    assert kept[:3].tolist() == [1.0, 1.0, 1.5]  # of the cell that was left as it is
    assert kept[3] == pytest.approx(math.hypot(1.5, 3.0) / 2)  # both are averaged


def test_a_noisy_week_is_averaged_though_the_mean_noise_is_small():
    """The paper's footnote 3: by the mean scale, 1.15 here, nothing would be averaged above 2."""
    b = np.where(np.arange(2688) < 672, 4.0, 0.2)
    noise = np.random.default_rng(5).laplace(0, b[:, None], (2688, 50))
    found, kept = MovingAverage(96, above=2.0).smooth(noise, b)
    assert b.mean() < 2
    assert np.abs(found[95:672]).mean() < np.abs(noise[95:672]).mean() / 8  # √96 is 9.8
    assert found[672:].tobytes() == noise[672:].tobytes()
    assert kept[671] == pytest.approx(4 / math.sqrt(96))


@pytest.mark.parametrize("above", [-1.0, math.nan, math.inf])
def test_a_threshold_is_a_noise_scale(above):
    with pytest.raises(InvalidInput, match="above needs a noise scale from 0 on"):
        MovingAverage(3, above=above)


# The filter ----------------------------------------------------------------------------------------------------------


def best_guess(y, noise_std, steps, drift):
    """The best linear guess of the newest level and its deviation, by generalised least squares on all values at once.

    y_i = x_t − (what it drifted since i) + noise: y_i and y_j have covariance q²·(t − max(i, j)) about x_t, plus r_i² if i = j.
    """
    steps = np.array(steps, dtype=float)
    covariance = drift**2 * (steps[-1] - np.maximum.outer(steps, steps)) + np.diag(np.array(noise_std) ** 2)
    weights = np.linalg.solve(covariance, np.ones(len(y)))
    return float(weights @ np.array(y)) / weights.sum(), 1 / math.sqrt(weights.sum())


scale_of_a_step = st.sampled_from([0.0, 0.3, 1.0, 4.0])


@given(st.data(), st.integers(1, 12), st.sampled_from([0.1, 0.8, 5.0]), st.sampled_from([1.0, math.sqrt(2)]))
def test_the_filter_is_the_best_guess_from_all_values_so_far(data, count, drift, std):
    """Steps are left out, some values are exact, and a scale is worth something else in each of two cells."""
    y = np.array([[data.draw(st.floats(-50, 50)), data.draw(st.floats(-50, 50))] for _ in range(count)])
    b = np.array(data.draw(st.lists(scale_of_a_step, min_size=count, max_size=count)))
    steps = 7 + np.cumsum(data.draw(st.lists(st.integers(1, 4), min_size=count, max_size=count)))
    worth = np.array([0.5, 3.0])
    found, kept = Kalman(drift).smooth(y, b, Facts(steps, worth, std))
    for t in range(count):
        if b[t] == 0:
            assert (found[t].tolist(), kept[t]) == (y[t].tolist(), 0.0)
            continue
        now = slice(0, t + 1)
        want = [best_guess(y[now, c], std * worth[c] * b[now], steps[now], drift) for c in (0, 1)]
        assert found[t] == pytest.approx([level for level, _ in want], rel=1e-7, abs=1e-7)
        assert kept[t] == pytest.approx(max(p / w for (_, p), w in zip(want, worth, strict=True)) / std, rel=1e-7)


@pytest.mark.diagonal
@pytest.mark.parametrize(("std", "band"), [(math.sqrt(2), BAND), (1.0, 1.959964)], ids=["laplace", "gaussian"])
@pytest.mark.parametrize("drift", [0.05, 0.5, 2.0])
def test_the_error_falls_as_theory_says_and_the_band_holds(drift, std, band):
    """In the long run p² = q(√(q² + 4r²) − q)/2; 40,000 lanes tell the mean square to 1.1 % or better."""
    steps, lanes, rng = 80, 40_000, np.random.default_rng(17)
    filters, truth, left = Kalman(drift), np.zeros((1, lanes)), np.zeros(1)
    for k in range(steps):
        truth = truth + rng.normal(0, drift, lanes)
        noise = rng.laplace(0, 1, lanes) if std > 1 else rng.normal(0, 1, lanes)
        made, left = filters.smooth(truth + noise, np.ones(1), Facts(np.array([k + 1]), std=std))
    p2 = drift * (math.sqrt(drift**2 + 4 * std**2) - drift) / 2
    assert (left[0] * std) ** 2 == pytest.approx(p2, rel=0.01)
    error = (made - truth)[0]
    assert np.mean(error**2) == pytest.approx(p2, rel=0.06)
    assert 0.945 < np.mean(np.abs(error) <= band * left[0]) < 0.975


def test_the_band_of_laplace_holds_for_any_mix_of_laplace_and_gaussian_error():
    """P(aL + sZ > x) in closed form, at the band of Laplace noise with the same standard deviation, whatever the mix."""

    def upper(x):
        return math.erfc(x / math.sqrt(2)) / 2

    x = BAND / math.sqrt(2)
    for share in np.linspace(0.01, 0.999, 500):
        a, s = math.sqrt(share / 2), math.sqrt(1 - share)
        tilted = math.exp(-x / a) * upper(s / a - x / s) - math.exp(x / a) * upper(x / s + s / a)
        assert 2 * (upper(x / s) + math.exp(s * s / a / a / 2) * tilted / 2) <= 0.05


@pytest.mark.parametrize("before", [Truncate(0.0, 1e9), MovingAverage(8)], ids=["truncate", "average"])
@pytest.mark.parametrize("drift", [0.02, 0.3])
def test_the_band_of_the_filter_holds_after_another_smoother(before, drift):
    """Truth lies at the bound, where truncated errors lean to one side. The claim for independent noise would not hold."""
    steps, lanes, rng = 60, 20_000, np.random.default_rng(23)
    truth = np.abs(np.cumsum(rng.normal(0, drift, (steps, lanes)), axis=0))
    noisy = before.smooth(truth + rng.laplace(0, 1, truth.shape), np.ones(steps))
    made, left = Kalman(drift, independent=False).smooth(*noisy)
    error = np.abs(made[-1] - truth[-1])
    assert np.mean(error <= BAND * left[-1]) >= 0.95
    assert left[-1] <= 1.6
    if drift < 0.1:
        assert np.mean(error <= BAND * Kalman(drift).smooth(*noisy)[1][-1]) < 0.95


def test_a_drift_that_is_declared_too_large_is_safe_and_one_too_small_is_not():
    steps, lanes, rng = 80, 40_000, np.random.default_rng(29)
    truth = np.cumsum(rng.normal(0, 0.3, (steps, lanes)), axis=0)
    noisy = truth + rng.laplace(0, 1, truth.shape)
    for declared, holds in ((0.3, True), (0.6, True), (3.0, True), (0.1, False), (0.01, False)):
        made, left = Kalman(declared).smooth(noisy, np.ones(steps))
        assert (np.mean(np.abs(made[-1] - truth[-1]) <= BAND * left[-1]) >= 0.949) == holds, declared


def test_a_value_that_climbs_is_followed_behind():
    """By c(1 − K)/K in the long run, with K²/(1 − K) = q²/r²."""
    climb = 0.2 * np.arange(400.0)[:, None]
    made, _ = Kalman(0.5).smooth(climb, np.full(400, 1 / math.sqrt(2)))
    gain = (math.sqrt(0.5**4 + 4 * 0.5**2) - 0.5**2) / 2
    assert climb[-1, 0] - made[-1, 0] == pytest.approx(0.2 * (1 - gain) / gain, rel=1e-6)


def test_an_exact_value_sets_the_filter_anew():
    rng = np.random.default_rng(3)
    values, b = rng.normal(size=(30, 2)) * 1e3 + 0.1, rng.uniform(0.5, 2, 30)
    b[10] = 0.0
    whole = Kalman(0.2).smooth(values, b)
    later = Kalman(0.2).smooth(values[10:], b[10:])
    assert [x[10:].tobytes() for x in whole] == [x.tobytes() for x in later]
    assert whole[0][10].tobytes() == values[10].tobytes()
    assert whole[1][11] == pytest.approx(1 / math.sqrt(2 / 0.2**2 + 1 / b[11] ** 2))


@pytest.mark.parametrize("size", [2.0**-900, 2.0**-60, 2.0**60, 2.0**900])
def test_the_filter_does_not_care_for_the_unit(size):
    rng = np.random.default_rng(4)
    values, b = rng.normal(size=(50, 2)), rng.uniform(0, 2, 50)
    small, large = Kalman(0.25).smooth(values, b), Kalman(0.25 * size).smooth(values * size, b * size)
    assert large[0] == pytest.approx(small[0] * size, rel=1e-9)
    assert large[1] == pytest.approx(small[1] * size, rel=1e-9)


def test_much_noise_is_passed_over_and_a_wild_value_is_left_as_it_is():
    values, b = np.array([[1.0], [5.0], [1.0]]), np.array([1.0, 1e150, 1.0])
    made, left = Kalman(1e-3).smooth(values, b)
    assert made.ravel() == pytest.approx([1.0, 1.0, 1.0])
    assert left[1] == pytest.approx(math.hypot(1.0, 1e-3 / math.sqrt(2)))
    made, left = Kalman(1e12).smooth(np.array([[1.0], [5.0], [2.0]]), np.array([1.0, 0.5, 2.0]))
    assert made.ravel() == pytest.approx([1.0, 5.0, 2.0])
    assert left == pytest.approx([1.0, 0.5, 2.0])


def test_a_filter_needs_a_drift_its_cells_and_steps_in_order():
    for drift in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(InvalidInput, match="standard deviation above 0"):
            Kalman(drift)
    used = Kalman(1.0)
    used.smooth(np.ones((1, 2)), np.ones(1), Facts(np.array([5])))
    with pytest.raises(InvalidInput, match="3 cells cannot follow 2"):
        used.smooth(np.ones((1, 3)), np.ones(1), Facts(np.array([6])))
    with pytest.raises(InvalidInput, match="step 5 cannot follow step 5"):
        used.smooth(np.ones((1, 2)), np.ones(1), Facts(np.array([5])))
    used.restore(None)
    assert used.state() is None
    assert used.smooth(np.array([[7.0]]), np.zeros(1))[0].tolist() == [[7.0]]


def test_the_examples_of_its_page_run():
    page = (Path(__file__).resolve().parents[2] / "docs" / "smoothing.md").read_text()
    exec("\n".join(re.findall(r"```python\n(.*?)```", page, re.S)), {})
