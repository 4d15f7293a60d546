"""Post-processing: the same whatever the blocks, and error bands that keep their word."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from halflife import InvalidInput
from halflife.smoothing import MovingAverage, Truncate

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


@given(st.data(), st.integers(2, 9), st.integers(0, 25), st.booleans())
def test_any_cut_of_the_steps_gives_the_same_bits(data, width, steps, independent):
    values = np.array(
        data.draw(st.lists(st.lists(numbers, min_size=2, max_size=2), min_size=steps, max_size=steps))
    ).reshape(-1, 2)
    scales = np.array(data.draw(st.lists(st.floats(1e-6, 1e6), min_size=steps, max_size=steps)))
    lengths = data.draw(st.lists(st.integers(0, 8), max_size=6))

    def fresh():
        return MovingAverage(width, independent)

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
    assert smoother.state() == [[[7.0]], [1.0]]


def test_only_what_is_needed_is_kept():
    smoother = MovingAverage(4)
    smoother.smooth(np.arange(100.0)[:, None], np.ones(100))
    assert smoother.state() == [[[97.0], [98.0], [99.0]], [1.0, 1.0, 1.0]]


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


@pytest.mark.parametrize(("low", "high"), [(1.0, 1.0), (2.0, 1.0), (math.nan, 1.0), (0.0, math.nan)])
def test_bounds_that_hold_nothing_are_refused(low, high):
    with pytest.raises(InvalidInput, match="low below high"):
        Truncate(low, high)


@pytest.mark.parametrize("width", [1, 0, -3, 2.5, "3", True])
def test_an_average_needs_two_values_or_more(width):
    with pytest.raises(InvalidInput):
        MovingAverage(width)
