"""Age of information, against its definition read off the releases."""

from __future__ import annotations

import numpy as np
import pytest

from halflife.errors import InvalidInput
from halflife.lab.age_dependent.freshness import age_of_information, freshness, peak_age
from halflife.release import Release


@pytest.mark.parametrize("age", [0, 1, 5])
@pytest.mark.parametrize("period", [1, 2, 7])
def test_the_peak_of_a_periodic_policy_is_age_plus_period_minus_one(age: int, period: int) -> None:
    ages = age_of_information([(1 + k * period, age) for k in range(20)], last_step=20 * period)
    assert peak_age(ages) == age + period - 1
    assert np.nanmin(ages) == age


def test_it_is_the_time_since_the_newest_published_data() -> None:
    """Holds Definition 11."""
    rng = np.random.default_rng(1)
    steps = sorted(rng.choice(np.arange(3, 60), 15, replace=False).tolist())
    published = [(s, int(rng.integers(0, 6))) for s in steps]
    ages = age_of_information(published, 70)
    for t in range(1, 71):
        last = [(s, a) for s, a in published if s <= t]
        if last:
            step, age = last[-1]
            assert ages[t - 1] == t - (step - age)
        else:
            assert np.isnan(ages[t - 1])


def test_releases_tell_the_same_and_the_freshest_of_a_step_counts() -> None:
    releases = [Release(2, 0.5, age=4), Release(2, 0.1, age=1), Release(2, 0.2, age=3), Release(4, 0.5, age=3)]
    assert freshness(releases).tolist()[1:] == [1.0, 2.0, 3.0]
    assert freshness(releases, last_step=6).tolist()[3:] == [3.0, 4.0, 5.0]


def test_bad_input_is_refused() -> None:
    with pytest.raises(InvalidInput, match="nothing was published"):
        freshness([])
    with pytest.raises(InvalidInput, match="nothing was published"):
        peak_age(age_of_information([(9, 0)], last_step=4))
    with pytest.raises(InvalidInput, match="age of release 1 must be at least 0"):
        age_of_information([(1, 0), (2, -1)], last_step=3)
    with pytest.raises(InvalidInput, match="step of release 0"):
        age_of_information([(0, 0)], last_step=3)
    with pytest.raises(InvalidInput, match="last_step"):
        age_of_information([(1, 0)], last_step=0)
