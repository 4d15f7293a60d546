"""How well an estimated process is known, against the figures of finding A7."""

import numpy as np
import pytest

from halflife.processes import GeometricMixing, MarkovChain, PeriodicMarkovChain, ProcessFamily
from halflife.processes.certifiable import estimation_error, least_certifiable


def test_forty_homes_and_a_year_cannot_certify_much():
    rng = np.random.default_rng(1)
    homes = ProcessFamily.fit([rng.random(17_521) for _ in range(40)], 6)
    assert estimation_error(homes) == pytest.approx(0.099, abs=5e-4)
    assert least_certifiable(homes, 4.0) == pytest.approx(1.84, abs=0.01)


def test_more_readings_certify_more():
    rng = np.random.default_rng(2)
    few, many = (MarkovChain.fit(rng.random(n), 4) for n in (1_000, 100_000))
    assert estimation_error(many) == pytest.approx(estimation_error(few) / 10, rel=0.01)


def test_what_was_not_estimated_is_not_limited():
    assert estimation_error(GeometricMixing(1.0, 0.5)) is None
    assert least_certifiable(MarkovChain([[0.5, 0.5], [0.5, 0.5]]), 1.0) is None


def test_every_kernel_of_a_cycle_needs_readings_of_its_own():
    """A chain with a kernel for each of 8 slots is known √8 times less well, and a little less still, as there are more rows."""
    readings = np.random.default_rng(3).integers(0, 3, 24_001).astype(float)
    one, cycle = (
        estimation_error(MarkovChain.fit(readings, None)),
        estimation_error(PeriodicMarkovChain.fit(readings, None, 8)),
    )
    more_rows = np.sqrt((np.log(6) + np.log(3 * 8 / 0.01)) / (np.log(6) + np.log(3 / 0.01)))
    assert cycle == pytest.approx(one * np.sqrt(8) * more_rows, rel=1e-3)
