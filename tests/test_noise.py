"""Noise with power: the true scale is accepted, one 10 % off is rejected, and the grid tells nothing."""

from __future__ import annotations

import math
import threading
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from halflife import Accountant, Classical, InvalidInput, ReleaseDraw, noise

N = 20_000
# E|X| of unit scale, and the standard deviation of |X|
MOMENTS = {"laplace": (1.0, 1.0), "gaussian": (math.sqrt(2 / math.pi), math.sqrt(1 - 2 / math.pi))}


def accepts(sample, family, scale):
    """Whether the sample may come from this scale: mean |x| within 5.5 standard errors (4e-8), and a KS distance."""
    mean, spread = MOMENTS[family]
    off = abs(np.abs(sample).mean() / scale - mean) / (spread / math.sqrt(len(sample)))
    law = stats.laplace(scale=scale) if family == "laplace" else stats.norm(scale=scale)
    return off < 5.5 and stats.kstest(sample, law.cdf).pvalue > 1e-8


def released(family, scale, n=N, value=0.0):
    drawn = noise.draw_many([noise.by_scale(scale, 1.0, family)] * n)
    return np.array([value + d for d in drawn])


@pytest.mark.diagonal
@pytest.mark.parametrize("family", ["laplace", "gaussian"])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1234.5])
def test_release_noise_has_its_scale_and_not_one_a_tenth_off(family, scale):
    sample = released(family, scale)
    assert accepts(sample, family, scale)
    assert not accepts(sample, family, scale * 1.1)
    assert not accepts(sample, family, scale * 0.9)


@pytest.mark.parametrize("family", ["laplace", "gaussian"])
def test_simulated_noise_has_its_scale_and_its_seed(family):
    sample = noise.SimulatedNoise(7).draw(family, 3.0, (N,))
    assert accepts(sample, family, 3.0)
    assert not accepts(sample, family, 3.3)
    assert np.array_equal(sample, noise.SimulatedNoise(7).draw(family, 3.0, (N,)))
    assert not np.array_equal(sample, noise.SimulatedNoise(8).draw(family, 3.0, (N,)))


def test_many_different_scales_in_one_call():
    """Each value divided by its own scale is standard noise; errors of different steps do not go together."""
    losses = np.geomspace(1e-6, 5, N)
    calibrations = [noise.by_loss(x, 1.0) for x in losses.tolist()]
    sample = np.array([0.0 + d for d in noise.draw_many(calibrations)]) * losses
    assert accepts(sample, "laplace", 1.0)
    assert not accepts(sample, "laplace", 1.1)
    assert abs(np.corrcoef(sample[:-1], sample[1:])[0, 1]) < 5.5 / math.sqrt(N)


def test_lattice_noise_has_its_scale():
    calibration = noise.by_scale(2.0, 1.0, lattice=0.01)
    sample = np.array([0.07 + d for d in noise.draw_many([calibration] * N)]) - 0.07
    assert accepts(sample, "laplace", 2.0)
    assert not accepts(sample, "laplace", 2.2)


@given(st.floats(1e-9, 50), st.floats(1e-6, 1e6), st.sampled_from(["laplace", "gaussian"]), st.integers(1, 50))
def test_noise_by_loss_never_costs_more_and_hardly_less(loss, sensitivity, family, size):
    c = noise.by_loss(loss, sensitivity, family, size)
    assert c.loss <= loss
    slack = 2e-12 + (2 + 2 * size) / (loss * noise.SPREAD)
    assert c.loss >= loss * (1 - slack)
    assert c.scale >= sensitivity / loss * (1 - 1e-15)
    assert c.scale <= sensitivity / loss * (1 + 2 * slack)


@given(st.floats(1e-6, 50), st.integers(1, 10**6), st.sampled_from(["laplace", "gaussian"]))
def test_noise_on_a_lattice_by_loss_never_costs_more(loss, multiples, family):
    c = noise.by_loss(loss, multiples * 0.001, family, lattice=0.001)
    assert loss * (1 - 1e-9) <= c.loss <= loss
    assert c.scale >= multiples * 0.001 / loss * (1 - 1e-12)


@given(st.floats(1e-3, 1e6), st.floats(1e-6, 1e3))
def test_by_scale_charges_at_least_the_ratio_and_at_most_a_unit_more(scale, sensitivity):
    c = noise.by_scale(scale, sensitivity)
    exact = Fraction(sensitivity) / Fraction(c.scale)
    assert exact <= Fraction(c.loss) <= exact * (1 + Fraction(1, 2**50)) + Fraction(2, noise.SPREAD)


def test_what_is_drawn_tells_neighbours_apart_by_the_loss_and_no_more():
    """Outputs about 0 and about 1, the sensitivity, at a scale of 1: no cell is e times as likely, but for noise; tails are.

    Holds Definition 3, Proposition 1 of the age-dependent paper; Theorem 1 of the Swellfish paper.
    """
    edges = np.array([-math.inf, 0.0, 0.25, 0.5, 0.75, 1.0, math.inf])
    zero, one = (np.histogram(released("laplace", 1.0, 30_000, value), edges)[0] for value in (0.0, 1.0))
    ratio, spread = np.log(one / zero), np.sqrt(1 / one + 1 / zero)
    loss = noise.by_scale(1.0, 1.0).loss
    assert loss == pytest.approx(1.0)
    assert (np.abs(ratio) <= loss + 5.5 * spread).all()
    assert ratio[[0, -1]] == pytest.approx([-loss, loss], abs=0.1)  # 6 standard errors


@given(st.floats(-1e6, 1e6), st.floats(0, 1), st.floats(1e-3, 10))
def test_neighbours_move_by_no_more_units_than_are_charged(value, move, scale):
    """Holds Definition 3, Proposition 1 of the age-dependent paper; Theorem 1 of the Swellfish paper."""
    c = noise.by_scale(scale, 1.0)
    other = value + move
    if Fraction(other) - Fraction(value) > 1:
        return
    a, b = noise.GridNoise(c.grid, (0, 0))._place((value, other))
    assert abs(a - b) <= math.ceil(Fraction(1) / Fraction(c.grid))
    assert Fraction(abs(a - b), noise.SPREAD) <= Fraction(c.loss)


def _support(values):
    return {float(v) for v in values}


def test_the_floating_point_attack_works_on_textbook_noise_and_finds_nothing_here():
    """Mironov 2012: which doubles can come out tells what went in. Attack: is y reachable from 0, from 1?"""
    rng = np.random.default_rng(5)
    uniform = rng.integers(1, 2**10, 4000) / 2**10  # a coarse uniform, so that its support can be listed

    zero = _support((0.0 + np.log(uniform)).tolist())
    third = _support((1 / 3 + np.log(uniform)).tolist())
    assert len(zero & third) < 0.01 * len(zero)  # the supports give the input away
    c = noise.by_scale(1.0, 1.0)
    for value in (0.0, 1 / 3, 1e6 + 1 / 7):
        for d in noise.draw_many([c] * 200):
            y = value + d
            units = y / c.grid  # exact: the grid of scale 1 is a power of two
            assert units == math.floor(units)


def test_outputs_of_neighbours_share_one_grid_for_any_scale():
    c = noise.by_loss(0.3, 0.7)
    for value in (0.0, 0.7, -123.456):
        for d in noise.draw_many([c] * 100):
            y = value + d
            nearest = round(Fraction(y) / Fraction(c.grid))
            reach = (
                4 + abs(nearest) // 2**51
            )  # the product is rounded: which whole number it was, a double may not tell
            assert any(y == c.grid * i for i in range(nearest - reach, nearest + reach + 1))


BAD = [
    (lambda: noise.by_loss(0.0, 1.0), "loss must be above 0"),
    (lambda: noise.by_loss(float("nan"), 1.0), "loss is NaN"),
    (lambda: noise.by_loss(1e-13, 1.0), "too small to draw noise for"),
    (lambda: noise.by_loss(1.0, math.inf), "sensitivity must be finite"),
    (lambda: noise.by_scale(-1.0, 1.0), "scale must be above 0"),
    (lambda: noise.by_scale(1.0, 1.0, "normal"), "unknown noise 'normal'"),
    (lambda: noise.by_scale(1e-280, 1e-290), "change the unit"),
    (lambda: math.nan + noise.draw(noise.by_scale(1.0, 1.0)), "cannot be added to nan"),
    (lambda: np.zeros(3) + noise.draw(noise.by_scale(1.0, 1.0)), "cannot be added to"),
    (lambda: 0.0055 + noise.draw(noise.by_scale(1.0, 1.0, lattice=0.001)), "whole multiples of 0.001"),
    (lambda: noise.by_scale(1e16, 1.0, lattice=1e-3), "use a coarser lattice"),
    (lambda: noise.SimulatedNoise(-1), "seed must be at least 0"),
]


@pytest.mark.parametrize(("act", "message"), BAD, ids=[b[1] for b in BAD])
def test_bad_input_is_refused(act, message):
    with pytest.raises(InvalidInput) as error:
        act()
    assert message in str(error.value)


def test_a_vector_shares_one_loss():
    c = noise.by_loss(0.5, 2.0, size=7)
    assert c.loss <= 0.5
    assert (np.zeros(7) + noise.draw(c)).shape == (7,)


def test_one_call_for_many_coordinates_has_its_scale_too():
    drawn = np.zeros(N) + noise.draw(noise.by_scale(3.0, 1.0, size=N))
    assert accepts(drawn, "laplace", 3.0)
    assert not accepts(drawn, "laplace", 3.3)
    assert not accepts(drawn, "laplace", 2.7)


def test_what_rounding_moves_is_charged():
    """Each of d coordinates may be rounded by a unit more; Gaussian noise is charged a part in 10¹² more."""
    vector, scalar = noise.by_scale(2.0**30, 1.0, size=1000), noise.by_scale(2.0**30, 1.0)
    assert Fraction(vector.loss) >= Fraction(scalar.loss) + Fraction(1000, noise.SPREAD)
    gaussian = noise.by_scale(2.0, 1.0, "gaussian")
    assert 0.5 * (1 + 0.9e-12) <= gaussian.loss <= 0.5 * (1 + 2e-12)


def test_noise_under_noise_adds_up_on_the_finer_grid():
    pattern = noise.GridNoise(0.25, (3,), 1.0, 2)
    fresh = noise.GridNoise(1 / 32, (7,), 1.0, 5)
    for both in (pattern.under(fresh), fresh.under(pattern)):
        assert 10.0 + both == 10.0 + 3 / 4 + 7 / 32
    with pytest.raises(InvalidInput, match="one lattice"):
        pattern.under(noise.GridNoise(0.5, (1,), 2.0, 2))


def test_drawn_noise_does_not_print():
    drawn = noise.draw(noise.by_scale(1.0, 1.0))
    assert "secret" in repr(drawn)
    assert str(drawn.units[0]) not in repr(drawn) + str(drawn) + f"{drawn}"


def test_a_release_takes_no_source_of_randomness():
    account = Accountant(Classical(1.0))
    with pytest.raises(TypeError):
        ReleaseDraw(account, noise.SimulatedNoise(1))
    with pytest.raises(TypeError):
        ReleaseDraw(account, seed=1)
    with pytest.raises(TypeError):
        noise.draw(noise.by_scale(1.0, 1.0), seed=1)


def test_numpy_seeds_do_not_reach_a_release():
    seen = set()
    for _ in range(3):
        np.random.seed(1)
        seen.add(0.0 + noise.draw(noise.by_scale(1.0, 1.0)))
    assert len(seen) == 3


# Long vectors, in chunks by several threads -------------------------------------------------------------------------


class Counting:
    """A mechanism that gives each number once, and knows how many it was asked for at a time.

    `broken` is the call that fails. Where several are expected, each waits until all have begun.
    """

    def __init__(self, at_once=1, broken=None):
        self.asked, self._lock, self._barrier, self._broken = [], threading.Lock(), threading.Barrier(at_once), broken

    def __call__(self, zeros):
        with self._lock:
            first, number = sum(self.asked), len(self.asked)
            self.asked.append(len(zeros))
        self._barrier.wait(60)
        if number == self._broken:
            raise RuntimeError("no more entropy")
        return list(range(first, first + len(zeros)))


@pytest.mark.parametrize(
    ("cores", "count", "chunks"),
    [(1, 10**6, 1), (2, 3_999, 1), (2, 4_000, 2), (4, 8_003, 4), (4, 10**5 + 1, 4), (16, 7_000, 3), (None, 9_000, 1)],
)
def test_a_long_vector_is_drawn_in_as_many_chunks_as_there_are_cores(cores, count, chunks, monkeypatch):
    """The calls of OpenDP do not grow with the numbers; all chunks are drawn at once; each number stands in the vector once."""
    monkeypatch.setattr("os.cpu_count", lambda: cores)
    mechanism = Counting(at_once=chunks)
    drawn = noise._Sampler(mechanism)(count)
    assert sorted(drawn) == list(range(count))
    assert len(mechanism.asked) == chunks
    assert max(mechanism.asked) - min(mechanism.asked) <= 1


def test_an_error_in_one_chunk_is_raised(monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 3)
    for broken in range(3):
        mechanism = Counting(at_once=3, broken=broken)
        with pytest.raises(RuntimeError, match="no more entropy"):
            noise._Sampler(mechanism)(9_000)
        assert sum(mechanism.asked) == 9_000


@pytest.mark.parametrize("family", ["laplace", "gaussian"])
def test_noise_of_several_threads_has_its_scale_and_no_number_twice(family, monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    vector = noise.draw(noise.by_scale(3.0, 1.0, family, size=N))
    assert len(set(vector.units)) == N  # of 2⁵⁶ units and more
    drawn = np.zeros(N) + vector
    assert accepts(drawn, family, 3.0)
    assert not accepts(drawn, family, 3.3)
    first, *others = np.split(drawn, 4)
    assert all(abs(np.corrcoef(first, other)[0, 1]) < 5.5 / math.sqrt(N // 4) for other in others)
