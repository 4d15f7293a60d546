"""Two values of a step combined: against the known best weights, and honest where corrections are large."""

import numpy as np
import pytest

from halflife.postprocessing.vintages import combine_vintages


def draw(correction, n=4_000, first=1.0, second=0.5, seed=1):
    """Truths with corrections of this size, noisy first and second values, and the variances of both noises."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(10, 3, (n, 1))
    wrong = truth + rng.normal(0, correction, (n, 1)) if correction else truth
    y1, y2 = wrong + rng.laplace(0, first, (n, 1)), truth + rng.laplace(0, second, (n, 1))
    return truth, y1, np.full(n, 2 * first**2), y2, np.full(n, 2 * second**2)


@pytest.mark.parametrize("correction", [0.0, 0.5, 2.0, 20.0])
def test_errors_are_as_said_and_near_the_best(correction):
    truth, y1, before, y2, after = draw(correction)
    values, variances = combine_vintages(y1, before, y2, after)
    best = 1 / (1 / (before[0] + correction**2) + 1 / after[0])
    seen = float(((values - truth) ** 2).mean())
    assert seen <= 1.05 * best
    assert 0.9 * seen <= variances[0] <= 1.1 * seen


def test_few_values_are_not_combined():
    _, y1, before, y2, after = draw(0.0, n=3)
    values, variances = combine_vintages(y1, before, y2, after)
    assert (values == y2).all()
    assert (variances == after).all()


def test_exact_values_stay():
    _, y1, before, y2, _ = draw(1.0, n=20)
    values, variances = combine_vintages(y1, before, y2, np.zeros(20))
    assert (values == y2).all()
    assert not variances.any()
