"""The simulated town: bounded, repeatable, and with the traits that it claims."""

from __future__ import annotations

import datetime
import math
from fractions import Fraction

import numpy as np
import pytest

from halflife import InvalidInput
from halflife.lab.households import readings as households
from halflife.lab.households.readings import MAX_KWH, SLOTS_PER_DAY, Appliance, mean_per_home, simulate

MONDAY = datetime.datetime(2024, 1, 8)
SEEDS = (1, 2, 3)


@pytest.fixture(scope="module", params=SEEDS)
def town(request):
    return simulate(300, 60, MONDAY, request.param)


def by_hour(town, days):
    """Mean use per half hour at each time of day, over these days."""
    return town.kwh.mean(axis=0).reshape(-1, SLOTS_PER_DAY)[days].mean(axis=0)


def between(profile, first, last):
    """Mean of a day's profile between two hours."""
    return profile[int(2 * first) : int(2 * last)].mean()


def test_shape_and_times(town):
    assert town.kwh.shape == (300, 60 * 48)
    assert town.kwh.dtype == np.float64
    assert town.times[0] == np.datetime64("2024-01-08T00:00")
    assert (np.diff(town.times) == np.timedelta64(30, "m")).all()
    assert len(town.times) == 60 * 48


def test_every_reading_lies_within_the_public_bound(town):
    assert town.kwh.min() > 0
    assert town.kwh.max() <= MAX_KWH


def test_the_clip_is_what_keeps_the_bound(monkeypatch):
    furnace = Appliance("furnace", 100.0, 30, 1.0, 5.0, 5.0, ((12.0, 2.0, 1),))
    monkeypatch.setattr(households, "APPLIANCES", (furnace,))
    assert simulate(10, 3, MONDAY, 1).kwh.max() == MAX_KWH


def test_the_seed_makes_the_town():
    one, again, other = (simulate(20, 5, MONDAY, seed) for seed in (1, 1, 2))
    assert np.array_equal(one.kwh, again.kwh)
    assert not np.array_equal(one.kwh, other.kwh)


def test_use_is_of_a_realistic_size(town):
    assert 0.2 <= town.kwh.mean() <= 0.5
    smallest, largest = np.percentile(town.kwh.mean(axis=1), [5, 95])
    assert largest > 2.5 * smallest, "homes differ"
    assert np.mean(town.kwh > 1.0) > 0.01, "appliances leave marks"


def test_mornings_and_evenings_stand_out(town):
    day = by_hour(town, slice(None))
    night, morning, forenoon, evening = (
        between(day, 2, 5),
        between(day, 7, 8),
        between(day, 10, 11.5),
        between(day, 18, 21),
    )
    assert evening > 3 * night
    assert evening > 1.3 * morning
    assert morning > 1.3 * forenoon
    assert 17 <= np.argmax(day) / 2 <= 21


def test_weekends_are_not_weekdays(town):
    weekday = by_hour(town, [d for d in range(60) if d % 7 < 5])
    weekend = by_hour(town, [d for d in range(60) if d % 7 >= 5])
    assert between(weekend, 9, 17) > 1.15 * between(weekday, 9, 17)


def test_the_weekend_follows_the_calendar_not_the_start():
    from_saturday = simulate(300, 14, MONDAY - datetime.timedelta(days=2), 1)
    assert between(by_hour(from_saturday, [0, 1, 7, 8]), 9, 17) > 1.15 * between(
        by_hour(from_saturday, [2, 3, 9, 10]), 9, 17
    )


def test_the_cold_week_is_seen(town):
    cold = list(town.cold_days)
    assert cold == list(range(cold[0], cold[0] + 7))
    days = town.kwh.mean(axis=0).reshape(60, SLOTS_PER_DAY).mean(axis=1)
    others = np.delete(days, cold)
    assert days[cold].mean() > 1.25 * others.mean()


def test_some_homes_stand_empty_for_days(town):
    days = town.kwh.reshape(300, 60, SLOTS_PER_DAY)
    spread = days.max(axis=2) - days.min(axis=2)
    quiet = (spread < 0.1).sum(axis=1)
    assert 0.03 < np.mean(quiet >= 3) < 0.35


@pytest.mark.parametrize(("days", "cold"), [(1, 0), (2, 0), (3, 1), (9, 3), (21, 7), (400, 7)])
def test_short_and_long_runs(days, cold):
    town = simulate(2, days, MONDAY, 5)
    assert town.kwh.shape == (2, days * SLOTS_PER_DAY)
    assert len(town.cold_days) == cold
    assert all(0 <= d < days for d in town.cold_days)


def test_the_town_lives_on_utc():
    aware = MONDAY.replace(tzinfo=datetime.timezone(datetime.timedelta(hours=-5)))
    assert simulate(1, 1, aware, 1).times[0] == np.datetime64("2024-01-08T05:00")
    assert np.array_equal(simulate(3, 2, MONDAY, 1).kwh, simulate(3, 2, MONDAY.replace(tzinfo=datetime.UTC), 1).kwh)


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ({"households": 0}, "households must be at least 1"),
        ({"households": 2.5}, "households must be a whole number"),
        ({"days": -1}, "days must be at least 1"),
        ({"seed": -1}, "seed must be at least 0"),
        ({"start": datetime.date(2024, 1, 8)}, "start must be a datetime"),
        ({"start": datetime.datetime(9999, 12, 31)}, "leave the calendar"),
        ({"households": 10**6}, "fewer households or days"),
    ],
)
def test_bad_values_are_refused(bad, says):
    with pytest.raises(InvalidInput, match=says):
        simulate(**{"households": 3, "days": 4, "start": MONDAY, "seed": 1, **bad})


def test_the_mean_is_exact_and_knows_no_order():
    rng = np.random.default_rng(3)
    kwh = rng.gamma(0.5, 1.5, (37, 50))
    expected = [
        float(Fraction(sum(min(5000, max(0, round(float(x) * 1000))) for x in column), 37_000)) for column in kwh.T
    ]
    means = mean_per_home(kwh)
    assert means.tolist() == expected
    assert (kwh > MAX_KWH).any(), "the clip was put to use"
    for _ in range(5):
        assert np.array_equal(mean_per_home(rng.permutation(kwh)), means)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e300])
def test_a_bad_reading_is_refused(bad):
    with pytest.raises(InvalidInput, match="bad readings"):
        mean_per_home(np.array([[0.1], [bad]]))
