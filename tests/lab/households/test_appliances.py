"""The generated households: published rates come out, cycles are well-formed, and secrets follow the paper's rule."""

from __future__ import annotations

import datetime
import tracemalloc

import numpy as np
import pytest

from halflife import InvalidInput
from halflife.lab.households import appliance_statistics as table
from halflife.lab.households.appliances import (
    APPLIANCES,
    AT_HOME,
    MAX_CYCLES,
    _one_at_a_time,
    expected_uses,
    generate,
    secrets_of,
    summary,
)

START = datetime.datetime(2004, 1, 1, tzinfo=datetime.UTC)
HOMES, YEARS = 80, 4
DAYS = 1461
NAMES = [appliance.name for appliance in APPLIANCES]
PRIVATE = [appliance for appliance in APPLIANCES if appliance.private]


@pytest.fixture(scope="module")
def town():
    """Four whole years, one of them a leap year."""
    return generate(HOMES, DAYS * 96, START, seed=7)


@pytest.fixture(scope="module")
def crowd():
    """Many households, for what is decided once for each of them."""
    return generate(10_000, 1, START, seed=3)


def of(town, name):
    return town.cycles.appliance == town.code(name)


def expected_count(town, appliance):
    """Cycles to be expected from the people, habits, ownership and holidays that were drawn."""
    total = 0.0
    for home in np.flatnonzero(town.owned[:, town.code(appliance.name)]):
        yearly = expected_uses(appliance)[town.people[home] - 1]
        if appliance.private:
            yearly *= (1 - town.away[home, : int(town.days)].mean()) / AT_HOME
        if appliance.grows:
            yearly *= town.habits[home]
        total += yearly * town.days / 365.25
    return total


@pytest.mark.parametrize("appliance", APPLIANCES, ids=NAMES)
def test_every_appliance_runs_as_often_as_its_table_says(town, appliance):
    found, expected = int(of(town, appliance.name).sum()), expected_count(town, appliance)
    assert abs(found - expected) < 4 * np.sqrt(expected) + 0.006 * expected
    assert 4 * np.sqrt(expected) + 0.006 * expected < 0.06 * expected, "the test would not see a rate that is 6 % off"


@pytest.mark.parametrize("appliance", APPLIANCES, ids=NAMES)
def test_uses_average_to_the_published_figure_over_the_owners(appliance):
    owners = [share * owned for share, owned in zip(table.SIZES, appliance.owned, strict=True)]
    uses = expected_uses(appliance)
    mean = sum(n * u for n, u in zip(owners, uses, strict=True)) / sum(owners)
    assert mean == pytest.approx(appliance.uses, rel=1e-12)
    assert (np.diff(uses) > 0).all() == appliance.grows


def test_people_habits_and_ownership_follow_the_published_shares(crowd):
    count = len(crowd.people)
    for size, share in enumerate(table.SIZES, start=1):
        homes = crowd.people == size
        assert abs(homes.mean() - share) < 4 * np.sqrt(share * (1 - share) / count)
        for code, appliance in enumerate(APPLIANCES):
            owned = appliance.owned[size - 1]
            assert abs(crowd.owned[homes, code].mean() - owned) < 4 * np.sqrt(owned * (1 - owned) / homes.sum()) + 1e-9
    assert abs(crowd.habits.mean() - 1) < 0.01
    assert crowd.habits.min() >= 0.4
    assert crowd.habits.max() <= 1.6
    ratio = crowd.ratings / np.array([appliance.power for appliance in APPLIANCES])
    assert np.allclose(ratio.mean(axis=0), 1, atol=0.004)
    assert np.allclose(ratio.std(axis=0), 0.1, atol=0.003)
    assert ratio.min() >= 0.7 - 1e-12
    assert ratio.max() <= 1.3 + 1e-12


def test_cycles_last_as_long_as_their_table_says(town):
    """A cycle of x steps that begins anywhere in a step touches x + 1 steps on average."""
    for appliance in APPLIANCES:
        found = town.cycles.duration[of(town, appliance.name)].mean()
        assert found == pytest.approx(appliance.minutes / 15 + 1, rel=0.025), appliance.name


def test_cycles_lie_in_the_run_in_order_and_carry_their_homes_rating(town):
    cycles = town.cycles
    assert [column.dtype for column in cycles] == [np.int32, np.int8, np.int64, np.int32, np.float64]
    assert cycles.start.min() >= 1
    assert cycles.duration.min() >= 1
    assert (cycles.start + cycles.duration - 1).max() <= town.steps
    assert (np.diff(cycles.household * np.int64(town.steps + 1) + cycles.start) >= 0).all()
    assert (cycles.power == town.ratings[cycles.household, cycles.appliance]).all()
    assert town.owned[cycles.household, cycles.appliance].all()
    assert cycles.duration.max() <= 97  # a day, begun within a step


@pytest.mark.parametrize("step_minutes", [1, 15, 30])
def test_an_appliance_never_runs_twice_at_once(step_minutes):
    town = generate(20, 30 * 1440 // step_minutes, START, seed=5, step_minutes=step_minutes)
    cycles = town.cycles
    order = np.lexsort((cycles.start, cycles.household, cycles.appliance))
    home, kind, start, duration, _ = (column[order] for column in cycles)
    same = (home[1:] == home[:-1]) & (kind[1:] == kind[:-1])
    assert same.sum() > 10_000
    assert (start[1:] >= (start + duration)[:-1])[same].all()


def test_waiting_is_the_recursion_it_claims_to_be():
    rng = np.random.default_rng(1)
    home = np.sort(rng.integers(3, 9, 500))
    begin = np.concatenate([np.sort(rng.integers(0, 300, count)) for count in np.bincount(home)[3:]])
    duration = rng.integers(1, 9, 500)
    found, free, last = _one_at_a_time(home, begin, duration, 300), 0, -1
    for i in range(500):
        if home[i] != last:
            free, last = 0, home[i]
        free = max(begin[i], free)
        assert found[i] == free
        free += duration[i]
    assert (found != begin).any()


def test_wide_steps_lose_no_cycles():
    town = generate(60, 120 * 48, START, seed=2, step_minutes=30)
    for appliance in PRIVATE:
        yearly = expected_uses(appliance)[town.people - 1] * town.owned[:, town.code(appliance.name)]
        yearly = yearly * town.habits if appliance.grows else yearly
        season = 1 + appliance.winter * np.cos(2 * np.pi * (np.arange(120) - 14) / 365.25)
        expected = (yearly[:, None] * season * ~town.away[:, :120]).sum() / 365.25 / AT_HOME
        assert of(town, appliance.name).sum() == pytest.approx(expected, abs=4.5 * np.sqrt(expected) + 0.01 * expected)


@pytest.mark.parametrize(
    ("name", "moved"),
    [("hob", 0.01), ("kettle", 0.01), ("washing machine", 0.05), ("television", 0.12), ("computer", 0.09)],
)
def test_uses_follow_the_hours_of_the_table(town, name, moved):
    """But for those that wait for the last to end, which come later: many, where cycles are long."""
    hour = (town.cycles.start[of(town, name)] - 1) // 4 % 24
    weekday, weekend = (np.array(hours) for hours in table.PROFILES[APPLIANCES[town.code(name)].profile])
    expected = 5 * weekday + 2 * weekend
    found, expected = np.bincount(hour, minlength=24) / len(hour), expected / expected.sum()
    assert np.abs(np.cumsum(found) - np.cumsum(expected)).max() < moved
    if name == "hob":
        often = expected > 0.03
        assert np.allclose(found[often], expected[often], rtol=0.08)


def test_the_town_has_its_peak_in_the_evening_and_sleeps_at_night(town):
    mask = town.private()
    hour = (town.cycles.start[mask] - 1) // 4 % 24
    begun = np.bincount(hour, weights=town.cycles.power[mask], minlength=24)
    assert begun.argmax() in (16, 17, 18, 19)
    assert begun[2:5].mean() < 0.15 * begun[16:20].mean()


def test_weekends_and_seasons_show(town):
    day = (town.cycles.start - 1) // 96
    weekend = (day + 3) % 7 >= 5  # 1 January 2004 was a Thursday
    cleaning = of(town, "vacuum cleaner")
    weekday_weights, weekend_weights = (sum(hours) for hours in table.PROFILES["cleaning"])
    share = 2 * weekend_weights / (2 * weekend_weights + 5 * weekday_weights)
    assert weekend[cleaning].mean() == pytest.approx(share, abs=0.015)
    month = (np.datetime64("2004-01-01") + np.arange(DAYS)).astype("datetime64[M]").astype(int) % 12
    at_home = (~town.away[:, :DAYS]).sum(axis=0)
    drying = np.bincount(day[of(town, "tumble dryer")], minlength=DAYS)
    january, july = (drying[month == m].sum() / at_home[month == m].sum() for m in (0, 6))
    assert january / july == pytest.approx(1.3 / 0.7, rel=0.2)


def test_on_holiday_nothing_but_fridge_and_freezer_runs(town, crowd):
    day = (town.cycles.start - 1) // 96
    away, mask = town.away[town.cycles.household, day], town.private()
    assert not away[mask].any()
    assert away[~mask].mean() == pytest.approx(town.away[:, :DAYS].mean(), rel=0.1)
    assert 1 - town.away[:, :DAYS].mean() == pytest.approx(AT_HOME, abs=0.005)
    month = (np.datetime64("2004-01-01") + np.arange(DAYS)).astype("datetime64[M]").astype(int) % 12
    summer = town.away[:, :DAYS][:, (month >= 5) & (month <= 7)].mean()
    assert summer > 2 * town.away[:, :DAYS][:, month <= 2].mean()
    runs = np.diff(np.pad(town.away[:, :DAYS], ((0, 0), (1, 1))).astype(int), axis=1)
    lengths = np.flatnonzero(runs == -1) - np.flatnonzero(runs == 1)
    assert len(lengths) == pytest.approx(HOMES * YEARS, rel=0.15)
    assert lengths.mean() == pytest.approx(12.5, rel=0.1)


def test_the_year_uses_as_much_electricity_as_published(town):
    """By size against BDEW 2020: the model leaves out lighting, standby and heating, and CREST is British."""
    kwh = np.zeros(len(table.SIZES))
    for appliance in APPLIANCES:
        kwh += np.array(appliance.owned) * expected_uses(appliance) * appliance.mean_power * appliance.minutes / 60
    assert (np.diff(kwh) > 0).all()
    share = kwh / np.array(table.KWH_BY_SIZE)
    assert share.min() > 0.8, share
    assert share.max() < 1.1, share
    mean = float(np.array(table.SIZES) @ kwh)
    assert 2300 < mean < 3000
    numbers = summary(town)
    assert sum(numbers.kwh.values()) == pytest.approx(mean, rel=0.15)
    assert 400 < numbers.kwh["fridge"] < 450
    assert 120 < numbers.kwh["washing machine"] < 230
    assert 8 < numbers.secrets_per_household_and_day < 20
    assert numbers.cycles == len(town.cycles.start)
    assert numbers.secrets == town.private().sum()
    assert numbers.longest == max(town.cycles.duration[town.private()])


def test_secrets_follow_the_papers_rule():
    town = generate(6, 20 * 96, START, seed=4)
    rows = secrets_of(town, seed=1).to_pylist()
    expected = []
    for home, kind, start, duration, power in zip(*(column.tolist() for column in town.cycles), strict=True):
        if town.appliances[kind].name in ("fridge", "freezer"):
            continue
        end = start + duration - 1
        hidden = (max(start - 2 * duration, 1), min(end + 2 * duration, town.steps))
        expected.append((f"household-{home + 1}", town.appliances[kind].name, power, duration, *hidden))
    assert [tuple(row.values())[:-1] for row in rows] == expected
    assert len(rows) > 500
    assert min(row["start"] for row in rows) == 1


def test_the_secrets_epsilon_is_uniform(town):
    secrets = secrets_of(town, seed=9)
    epsilon = secrets["epsilon"].to_numpy()
    assert epsilon.min() >= 0.1
    assert epsilon.max() <= 1.0
    counts = np.histogram(epsilon, bins=9, range=(0.1, 1.0))[0]
    assert np.abs(counts / len(epsilon) - 1 / 9).max() < 5 / np.sqrt(len(epsilon))
    assert not secrets.equals(secrets_of(town, seed=10))
    assert secrets.equals(secrets_of(town, seed=9))
    assert [str(kind) for kind in secrets.schema.types][2:] == ["double", "int64", "int64", "int64", "double"]
    assert set(secrets_of(town, seed=9, epsilon=(0.5, 0.5))["epsilon"].to_numpy()) == {0.5}


def test_the_largest_temporal_sensitivity_by_brute_force():
    """Definition 14 for sums: the power of all secrets of a household that are relevant at a step, added up."""
    town = generate(5, 14 * 96, START, seed=11)
    secrets = secrets_of(town, seed=1)
    dense: dict[tuple[str, int], float] = {}
    for row in secrets.to_pylist():
        for step in range(row["start"], row["end"] + 1):
            dense[row["household"], step] = dense.get((row["household"], step), 0.0) + row["power"]
    by_edges = 0.0
    for home in set(secrets["household"].to_pylist()):
        rows = [row for row in secrets.to_pylist() if row["household"] == home]
        edges = np.zeros(town.steps + 2)
        for row in rows:
            edges[row["start"]] += row["power"]
            edges[row["end"] + 1] -= row["power"]
        by_edges = max(by_edges, float(np.cumsum(edges).max()))
    assert max(dense.values()) == pytest.approx(by_edges, rel=1e-9)
    assert summary(town).largest_power < max(dense.values()) < 50


def test_the_same_seed_gives_the_same_town_and_another_seed_another():
    towns = [generate(4, 960, START, seed) for seed in (1, 1, 2)]
    same, other = ([np.array_equal(a, b) for a, b in zip(towns[0].cycles, t.cycles, strict=True)] for t in towns[1:])
    assert all(same)
    assert not any(other)


def test_the_smallest_town_and_a_start_in_another_zone():
    assert len(generate(1, 1, START, seed=1).people) == 1
    assert len(secrets_of(generate(1, 1, START, seed=1), seed=1)) <= len(PRIVATE)
    there = datetime.datetime(2004, 1, 1, 2, tzinfo=datetime.timezone(datetime.timedelta(hours=2)))
    assert generate(1, 96, there, seed=1).start == datetime.datetime(2004, 1, 1)


def test_a_start_at_noon_keeps_the_hours():
    town = generate(60, 120 * 96, START.replace(hour=12, minute=30), seed=1)
    minute = 750 + (town.cycles.start[of(town, "television")] - 1) * 15
    hour = minute // 60 % 24
    assert np.bincount(hour, minlength=24).argmax() in (20, 21, 22)
    assert not town.away[town.cycles.household, (750 + (town.cycles.start - 1) * 15) // 1440][town.private()].any()


def test_cycles_and_memory_grow_in_proportion_to_the_households():
    generate(1, 96, START, seed=1)
    peaks, counts = [], []
    for homes in (64, 192):
        tracemalloc.start()
        town = generate(homes, 100 * 96, START, seed=1)
        peaks.append(tracemalloc.get_traced_memory()[1] / len(town.cycles.start))
        tracemalloc.stop()
        counts.append(len(town.cycles.start) / homes)
    assert peaks[1] < 1.05 * peaks[0]
    assert peaks[1] < 60, "bytes a cycle at the peak; the result itself has 25"
    assert counts[1] == pytest.approx(counts[0], rel=0.15)


def test_every_figure_has_a_source():
    for appliance in APPLIANCES:
        assert len(appliance.source) > 40
        assert 0 < appliance.mean_power <= appliance.power
        assert appliance.profile in table.PROFILES
        assert len(appliance.owned) == len(table.SIZES)
        assert all(0 < share <= 1 for share in appliance.owned)
    assert sum(table.SIZES) == pytest.approx(1)
    assert all(len(hours) == 24 for days in table.PROFILES.values() for hours in days)
    assert [a.name for a in APPLIANCES if not a.private] == ["fridge", "freezer"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"households": 0}, "households must be at least 1"),
        ({"households": 2.5}, "households must be a whole number"),
        ({"steps": 0}, "steps must be at least 1"),
        ({"steps": float("nan")}, "steps must be a whole number"),
        ({"seed": -1}, "seed must be at least 0"),
        ({"start": "2004-01-01"}, "start must be a datetime"),
        ({"start": datetime.datetime(9999, 12, 30)}, "leave the calendar"),
        ({"step_minutes": 0}, "step_minutes must be at least 1"),
        ({"step_minutes": 7}, "must divide an hour"),
        ({"step_minutes": 60}, "must divide an hour and be at most 30"),
        ({"households": 10**6, "steps": 10**5}, f"at most {MAX_CYCLES:,}"),
    ],
)
def test_bad_input_is_refused(change, words):
    good = {"households": 1, "steps": 96, "start": datetime.datetime(2004, 1, 1), "seed": 1}
    with pytest.raises(InvalidInput, match=words):
        generate(**(good | change))


@pytest.mark.parametrize("epsilon", [(0.0, 1.0), (0.1, float("nan")), (1.0, 0.1), (-1.0, 1.0), (0.1, float("inf"))])
def test_a_bad_epsilon_and_an_unknown_appliance_are_refused(epsilon):
    town = generate(1, 96, START, seed=1)
    with pytest.raises(InvalidInput, match="epsilon"):
        secrets_of(town, seed=1, epsilon=epsilon)
    with pytest.raises(InvalidInput, match="did you mean 'kettle'"):
        town.code("kettel")
