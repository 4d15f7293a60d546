"""Closed forms beside simulations: each within four standard errors, and one that is 10 % off is not."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import quad

import halflife as hl
from halflife.lab.compare.expectations import Schedule, expected_error, hold

WAVE = 100 + 6 * np.sin(np.arange(240) / 7)
CASES = {
    "uniform": {},
    "sample": {},
    "w-event": {},
    "classical": {},
    "w-event,every=4": {},
    "exponential,half_life=12": {},
    "w-event,delta=1e-6": {},
    "w-event,every=4,delta=1e-6": {},
    "almost-periodic,period=12": {"repetitions": 800},
    "almost-periodic,period=12,strong=true": {"repetitions": 800},
}


@pytest.mark.parametrize("name", CASES)
def test_simulated_errors_are_those_of_the_closed_form(name):
    """600 repetitions of 240 steps: a standard error below 1 % of the error, so that 10 % is at least ten of them."""
    (row,) = hl.compare(
        [name], WAVE, w=12, epsilon=2.0, sensitivity=0.5, seed=5, **{"repetitions": 600, **CASES[name]}
    ).rows
    assert abs(row["mae"] - row["expected_mae"]) <= 4 * row["mae_se"]
    for wrong in (0.9, 1.1):
        assert abs(row["mae"] - wrong * row["expected_mae"]) > 4 * row["mae_se"]


def test_expectations_against_integrals():
    truth, about = np.array([0.0, 3.0, -1.5]), np.array([0, 0, 0])
    for noise, density in (
        ("laplace", lambda y: math.exp(-abs(y) / 2) / 4),
        ("gaussian", lambda y: math.exp(-y * y / 8) / math.sqrt(8 * math.pi)),
    ):
        integrals = [
            quad(lambda y, d=d, p=density: abs(d + y) * p(y), -80, 80, points=[0.0, -d], limit=400)[0]
            for d in (0.0, -3.0, 1.5)
        ]
        found = expected_error(Schedule(about, (np.full(3, 2.0),), noise), truth)
        assert found == pytest.approx(np.mean(integrals), rel=1e-7)


def test_two_layers_against_an_integral_and_their_bands():
    a, b = 2.0, 0.7

    def density(x):  # of the sum of two Laplace noises of scales a and b
        return (a * math.exp(-abs(x) / a) - b * math.exp(-abs(x) / b)) / (2 * (a * a - b * b))

    layers = Schedule(np.arange(2), (np.full(2, a), np.full(2, b)), shared=("one", "one"))
    assert expected_error(layers, np.zeros(2)) == pytest.approx(
        2 * quad(lambda x: x * density(x), 0, 200, limit=200)[0]
    )
    inside = 2 * quad(density, 0, layers.bands[0])[0]
    assert inside == pytest.approx(0.95, abs=1e-5)
    assert expected_error(Schedule(np.array([0, 0]), layers.scales), np.array([0.0, 1.0])) is None


def test_held_values_claim_no_band_and_are_not_fresh():
    held, each = hold(6, 3, np.ones(2)), hold(6, 1, np.ones(6))
    assert held.about.tolist() == [0, 0, 0, 3, 3, 3]
    assert (held.bands, held.fresh) == (None, False)
    assert each.fresh
    assert each.bands == pytest.approx(np.full(6, math.log(20)))


@pytest.mark.parametrize(
    ("posts", "known"), [({"post": ["moving-average=3"]}, 1), ({"truncate": True}, 0), ({"totals": True}, 0)]
)
def test_what_changes_outputs_has_no_closed_form(posts, known):
    rows = hl.compare(["uniform"], WAVE, w=12, repetitions=2, **posts).rows
    assert [row["expected_mae"] is not None for row in rows] == [True] * known + [False] * (len(rows) - known)


def test_bands_cover_what_they_say():
    rows = hl.compare(["uniform", "sample", "w-event,delta=1e-6", "bd"], WAVE, w=12, repetitions=100).rows
    assert [row["coverage"] is None for row in rows] == [False, True, False, True]
    assert rows[0]["coverage"] == pytest.approx(0.95, abs=0.006)  # 24,000 draws: a standard error of 0.0014
    assert rows[2]["coverage"] == pytest.approx(0.95, abs=0.006)
