"""Models of faulty rivals: held to a published program's outputs draw by draw; and what they attain, pinned from outside."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
import pytest

from halflife.audit.black_box import attack
from halflife.audit.rivals import adapub, dsat, pegasus, rescue_dp

ORACLES = Path(__file__).resolve().parents[4] / "shared" / "oracles"


@pytest.fixture(scope="module")
def golden():
    if not ORACLES.is_dir():
        pytest.skip("the numbers computed elsewhere are not beside this checkout")
    with (ORACLES / "golden_sine.csv").open() as file:
        draws, *rows = csv.DictReader(file)
    return draws, rows


class Scripted:
    """Unit noises from a function of how many there were."""

    def __init__(self, of=lambda i: 2 * math.sin(0.7 * i + 0.3)):
        self.of, self.count = of, 0

    def __call__(self):
        self.count += 1
        return self.of(self.count - 1)


@pytest.mark.parametrize(
    ("column", "run"),
    [("DSAT", dsat.run_dsat), ("AdaPub_fixed", adapub.run_adapub)],
)
def test_the_programs_outputs_with_the_same_draws(golden, column, run):
    draws, rows = golden
    noise = Scripted()
    outputs = run([float(row["true"]) for row in rows], 20, 1.0, noise)
    assert noise.count == int(draws[column])
    assert np.abs(np.array(outputs) - [float(row[column]) for row in rows]).max() <= 1e-12 * 2000


def run_to_a_window(value, noise_of_questions, w=20, steps=400):
    """DSAT on a constant, with this noise in every question from step 300 on: outputs before, all outputs, how many questions."""
    scale = 4 * 3 / 0.85
    before = Scripted(lambda i: 0.0)
    quiet = dsat.run_dsat([1000.0] * 300, w, 1.0, before)
    noise = Scripted(lambda i: 0.0 if i < before.count else noise_of_questions / scale)
    return quiet, dsat.run_dsat([1000.0] * 300 + [value] * (steps - 300), w, 1.0, noise), noise.count - before.count


def test_dsat_asks_at_every_step_of_a_window_against_a_threshold_of_zero():
    """A question of distance 5 is answered "below" just if its noise is below −5: the threshold is 0, the scale b = 4c/(kε)."""
    quiet, outputs, questions = run_to_a_window(1005.0, -5.001)
    assert outputs[300:] == [quiet[-1]] * 100
    assert questions - run_to_a_window(1005.0, -5.001, steps=380)[2] == 20  # one a step of a window without a sample
    _, outputs, _ = run_to_a_window(1005.0, -4.999)
    assert outputs[-1] != quiet[-1]


def test_dsat_attains_what_is_said():
    """R2: w answers "below", each of probability e^(−d/b)/2, at distances 5 and 6."""
    b = 4 * 3 / 0.85
    below = [math.log(0.5 * math.exp(-d / b)) for d in (5.0, 6.0)]
    assert dsat.attained_loss(1.0, 20) == pytest.approx(20 * (below[0] - below[1]), rel=1e-12)
    assert dsat.attained_loss(1.0, 20) == pytest.approx(1.417, abs=5e-4)
    assert dsat.attained_loss(2.0, 100) == pytest.approx(2 * 1.417, abs=1e-3)


def joins(moved, unit, steps=12):
    """Whether AdaPub's group goes on for so many steps at the level of a million, where questions have this unit noise."""
    values = [1e6 + moved, *[1e6] * (steps - 1)]
    noise = Scripted(
        lambda i: 0.0 if i == 0 else (i if i % 2 else unit)
    )  # values get noise 1, 3, 5 …, questions `unit`
    outputs = adapub.run_adapub(values, 1, 1.0, noise)
    return len(set(np.round(outputs, 6))) < steps


@pytest.mark.parametrize(("moved", "most"), [(0.0, 1.0), (1.0, 1.0 - 2 * 11 / 12)])
def test_adapub_asks_about_the_first_reading_in_every_step_of_its_group(moved, most):
    """With b = 10 every answer is "joins" just below a unit noise of (1 − D)/b, where D grows to 2(n − 1)/n."""
    assert joins(moved, (most - 1e-3) / 10)
    values = [1e6 + moved, *[1e6] * 11]
    asked = []
    adapub.run_adapub(values, 1, 1.0, Scripted(lambda i: asked.append(i) or (0.0 if i % 2 else -1.0)))
    assert len(asked) == 1 + 2 * 11  # a value and a question a step: the group never closed


def test_adapub_attains_what_is_said():
    """R3: joins of D = 0 against D = 2(n − 1)/n, each counted in a million draws."""
    noise = np.random.default_rng(1).laplace(0.0, 10.0, 1_000_000)
    rates = [[(np.maximum(d + noise, 0.0) < 1).mean() for d in (0.0, 2 * (n - 1) / n)] for n in range(2, 11)]
    counted = 0.8 + sum(math.log(a / b) for a, b in rates)
    assert adapub.attained_loss(1.0, 1, 10) == pytest.approx(counted, rel=0.01)
    assert adapub.attained_loss(1.0, 1, 1000) > 10 * adapub.attained_loss(1.0, 1, 100) * 0.9


def test_pegasus_answers_are_as_likely_as_counted():
    """Three joins and a close, for two neighbours' deviations, against four million draws."""
    rng, runs = np.random.default_rng(3), 4_000_000
    for deviations, closes in (([3.0, 5.0, 6.0, 4.0], True), ([1.0, 2.0], False)):
        m = np.abs(5 + rng.laplace(0, 4, runs))
        there = np.ones(runs, dtype=bool)
        for k, d in enumerate(deviations):
            answer = np.abs(d + rng.laplace(0, 8, runs)) < m
            there &= ~answer if closes and k == len(deviations) - 1 else answer
        assert pegasus.log_probability(deviations, 1.0, closes) == pytest.approx(math.log(there.mean()), abs=0.02)


def test_pegasus_loses_what_the_theorem_says_and_no_more():
    """R1, for random deviations that move by at most 2; and how near to it some come."""
    rng = np.random.default_rng(5)
    for _ in range(60):
        n, epsilon = int(rng.integers(1, 30)), float(rng.choice([0.1, 1.0, 4.0]))
        first = rng.uniform(0, 60, n) / epsilon
        second = np.maximum(first + rng.uniform(-2, 2, n), 0.0)
        assert pegasus.grouping_loss(first, second, epsilon, bool(rng.integers(2))) <= epsilon * (1 + 1e-6)
    assert pegasus.largest_loss(1.0) == pytest.approx(1.0, abs=1e-3)


def test_rescue_dp_tells_of_the_future():
    """R4: outputs of steps at which both streams are alike tell them apart."""
    ahead = rescue_dp.FutureVariance(looks_ahead=True)
    outputs = tuple(ahead(which, 8_000) for which in (0, 1))
    assert attack(outputs, rescue_dp.look_ahead_pair(), 1e-7).epsilon > 2.0
