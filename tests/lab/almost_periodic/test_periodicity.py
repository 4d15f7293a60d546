"""The test of almost-periodicity: the paper's coefficients by plain loops, the shuffled copies, what is named, and London."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from halflife import InvalidInput
from halflife.lab.almost_periodic import periodicity as pd
from halflife.lab.almost_periodic.patterns import calendar, share

PHASES = 12


def made(kind, seed, homes=40, periods=100):
    """Homes of very different size with a pattern of 12 phases, and deviations of some kind: periods × phases in a row."""
    rng, k = np.random.default_rng(seed), np.arange(periods)
    size = np.exp(rng.normal(0, 0.8, (homes, 1, 1)))
    e = rng.exponential(1, (homes, periods, PHASES)) - 1
    own = rng.normal(0, 1, (homes, 1, 1))
    if kind == "heavy":
        e = rng.standard_t(3, e.shape) + 2 * rng.standard_t(3, (homes, periods, 1))
    if kind == "gaps":
        e[rng.random(e.shape) < 0.2] = np.nan
        e[:5, 20:60] = np.nan
    if kind == "shocks":
        e = e + rng.normal(0, 1, (1, periods, 1)) / size
    if kind == "drift":
        e = e + 1.5 * own * (k / periods - 0.5)[None, :, None]
    if kind == "season":  # with periods of three days
        e = e + own * np.cos(2 * np.pi * (3 * k + 20) / 365.25)[None, :, None]
    if kind == "weekday":
        e = e + rng.normal(0, 0.7, (homes, 7, 1))[:, k % 7]
    if kind == "common weekday":
        e = e + 0.7 * (k % 7 >= 5)[None, :, None] / size
    if kind == "memory":
        level = rng.normal(0, 1, (homes, periods))
        for i in range(1, periods):
            level[:, i] += 0.5 * level[:, i - 1]
        e = e + level[:, :, None]
    return (rng.uniform(0, 5, (homes, 1, PHASES)) * size + size * e).reshape(homes, -1)


def check(readings, hours=24.0, **options):
    return pd.check_period(readings, PHASES, step_minutes=60 * hours / PHASES, **options)


def named(result):
    return [(finding.name, finding.scope) for finding in result.findings]


def shuffle(readings, seed):
    """Each home's periods in a random order of its own, the plain way."""
    rng, copy = np.random.default_rng(seed), readings.reshape(len(readings), -1, PHASES).copy()
    for home in copy:
        rng.shuffle(home)
    return copy.reshape(len(readings), -1)


# The coefficients ---------------------------------------------------------------------------------------------------


def by_loops(readings, period):
    """ρ from the words of the module: means of what is there, sums over what both periods have."""
    homes, periods = len(readings), len(readings[0]) // period
    x = {
        (j, k, p): readings[j][k * period + p]
        for j in range(homes) for k in range(periods) for p in range(period)
        if not math.isnan(readings[j][k * period + p])
    }  # fmt: skip
    w = {}
    for (j, k, p), value in x.items():
        own = [x[j, i, p] for i in range(periods) if (j, i, p) in x]
        w[j, k, p] = value - sum(own) / len(own)
    u = {}
    for (j, k, p), value in w.items():
        others = [w[i, k, p] for i in range(homes) if (i, k, p) in w]
        u[j, k, p] = value - sum(others) / len(others)
    rho = np.full((periods, periods), math.nan)
    for k in range(periods):
        for m in range(periods):
            both = [(j, p) for j in range(homes) for p in range(period) if (j, k, p) in u and (j, m, p) in u]
            a = sum(u[j, k, p] ** 2 for j, p in both)
            b = sum(u[j, m, p] ** 2 for j, p in both)
            if a * b > 0:
                rho[k, m] = sum(u[j, k, p] * u[j, m, p] for j, p in both) / math.sqrt(a * b)
    return rho


@pytest.mark.parametrize("missing", [0.0, 0.25])
@pytest.mark.parametrize("period", [1, 3, 4])
def test_the_coefficients_are_those_of_plain_loops(missing, period):
    rng = np.random.default_rng(period)
    readings = rng.gamma(1.0, 2.0, (5, 25))
    readings[rng.random(readings.shape) < missing] = np.nan
    if missing:
        readings[:, 5 * period : 6 * period] = np.nan  # a period that nobody has
    assert pd.coefficients(readings, period) == pytest.approx(by_loops(readings, period), abs=1e-12, nan_ok=True)


def test_a_complete_record_gives_the_papers_formula():
    rng = np.random.default_rng(0)
    readings = rng.gamma(1.0, 2.0, (7, 30))
    x = readings.reshape(7, 6, 5)
    w = x - x.mean(axis=1, keepdims=True)
    u = w - w.mean(axis=0)
    sigma = np.sqrt((u**2).sum(axis=2).mean(axis=0))
    rho = np.einsum("jkp,jlp->kl", u, u) / 7 / np.outer(sigma, sigma)
    assert pd.coefficients(readings, 5) == pytest.approx(rho, abs=1e-12)
    assert rho.min() < -0.05  # the paper's 0 ≤ ρ is a slip


def test_coefficients_do_not_depend_on_the_unit_and_never_pass_one():
    readings = made("gaps", 1, homes=5, periods=10)
    rho = pd.coefficients(readings, PHASES)
    assert pd.coefficients(readings * 1e9, PHASES) == pytest.approx(rho, abs=1e-9)
    assert np.nanmax(np.abs(rho)) <= 1.0
    assert np.diagonal(rho) == pytest.approx(1.0)


def test_a_list_of_sequences_is_an_array_with_gaps():
    readings = np.random.default_rng(3).random((4, 24))
    readings[2, 20:] = np.nan
    readings[0, 3] = np.nan
    rows = [[None if math.isnan(x) else x for x in row] for row in readings.tolist()]
    rows[2] = rows[2][:20]
    assert pd.coefficients(rows, 4) == pytest.approx(pd.coefficients(readings, 4))


# The shuffled copies ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["plain", "gaps", "shocks", "drift"])
def test_shuffled_copies_are_what_shuffled_readings_give(kind):
    """Gaps are where the copies use a quicker normaliser; shocks are where a common part must come off first."""
    readings = made(kind, 2)
    result = check(readings)
    common = np.nanmean((readings - _pattern(readings)).reshape(len(readings), -1, PHASES), axis=0).reshape(-1)
    base = readings - (common if kind == "shocks" else 0.0)
    upper = np.triu_indices(100, 1)
    sizes = [np.abs(pd.coefficients(shuffle(base, seed), PHASES)[upper]) for seed in range(4)]
    assert np.mean(result.shuffled_medians) == pytest.approx(np.mean([np.median(x) for x in sizes]), rel=0.02)
    assert np.mean(result.shuffled_maxima) == pytest.approx(np.mean([x.max() for x in sizes]), rel=0.15)


def _pattern(readings):
    return np.tile(np.nanmean(readings.reshape(len(readings), -1, PHASES), axis=1), readings.shape[1] // PHASES)


def test_the_own_mean_alone_pulls_coefficients_below_zero_and_the_copies_know_it():
    result = check(made("plain", 4, homes=200, periods=8))
    assert result.coefficients().mean() == pytest.approx(-1 / 7, abs=0.01)
    assert result.shuffled_sample.mean() == pytest.approx(-1 / 7, abs=0.01)
    assert result.outcome == "not contradicted"


def test_differences_between_homes_are_no_dependence():
    """Exchanging homes within each period would halve the median, and call independent noise dependent."""
    readings = made("plain", 5)
    cube = (readings - _pattern(readings)).reshape(len(readings), -1, PHASES)
    rng = np.random.default_rng(0)
    exchanged = np.stack([period[rng.permutation(40)] for period in cube.transpose(1, 0, 2)], axis=1).reshape(40, -1)
    median = np.median(np.abs(pd.coefficients(exchanged, PHASES)[np.triu_indices(100, 1)]))
    result = check(readings)
    assert median < 0.75 * result.median
    assert np.mean(result.shuffled_medians) == pytest.approx(result.median, rel=0.05)
    assert not result.dependent


# The verdict --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["plain", "heavy", "gaps", "shocks"])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_pattern_with_independent_noise_is_not_contradicted(kind, seed):
    result = check(made(kind, seed))
    assert result.outcome == "not contradicted"
    assert "no proof" in result.verdict
    assert result.findings == ()


@pytest.mark.parametrize(
    ("kind", "hours", "name"),
    [
        ("drift", 24, "drift or season"), ("drift", 72, "drift"), ("season", 72, "season"), ("weekday", 24, "weekday"),
        ("memory", 24, "memory"),
    ],
)  # fmt: skip
def test_what_breaks_it_is_named(kind, hours, name):
    """Holds Assumption 2."""
    result = check(made(kind, 0), hours)
    assert result.outcome == "contradicted"
    assert [who for who, scope in named(result) if scope == "each home"] == [name]
    assert result.findings[0].text in result.verdict


@pytest.mark.parametrize("kind", ["drift", "weekday", "memory"])
def test_shuffled_days_have_nothing_to_name(kind):
    result = check(shuffle(made(kind, 0), 7))
    assert result.outcome == "not contradicted"
    assert result.findings == ()


def test_what_all_homes_do_is_seen_though_the_coefficients_cannot_see_it():
    result = check(made("common weekday", 0))
    assert named(result) == [("weekday", "mean of homes")]
    assert not result.dependent
    assert result.outcome == "contradicted"


def test_half_a_day_is_broken_by_the_time_of_day():
    result = pd.check_period(made("plain", 0, homes=20, periods=60), 6, step_minutes=120)
    assert named(result)[0] == ("time of day", "each home")
    assert "weekday" not in [name for name, _ in named(result)]


def test_memory_is_the_correlation_that_was_put_in():
    """A level that keeps half of itself, as loud as noise of 12 phases allows: ρ(1) = ½·Var(level)/(Var(level) + 1)."""
    result = check(made("memory", 0, homes=200))
    assert result.at_lag(1).mean == pytest.approx(0.5 * (4 / 3) / (4 / 3 + 1), abs=0.04)
    assert result.findings[0].size == pytest.approx(result.at_lag(1).mean, abs=0.03)


def test_the_share_of_a_pattern_is_what_was_put_in():
    k = np.arange(50.0)
    line = (k - k.mean()) / np.linalg.norm(k - k.mean())
    matrix = 0.3 * 50 * np.outer(line, line) + 0.7 * np.eye(50)
    assert share(matrix, line[:, None]) == pytest.approx(0.3 + 0.7 / 50)


def test_p_values_are_ranks_among_the_copies():
    result = check(made("drift", 0), copies=9)
    assert (result.median_p, result.maximum_p) == (0.1, 0.1)
    quiet = check(made("plain", 0), copies=9)
    assert quiet.median_p == (1 + sum(x >= quiet.median for x in quiet.shuffled_medians)) / 10


def test_the_largest_coefficient_is_told_with_its_periods():
    result = check(made("drift", 0))
    k, m = result.largest_pair
    assert abs(result.rho[k - 1, m - 1]) == result.maximum
    assert k < m


def test_lags_are_means_of_diagonals():
    result = check(made("weekday", 0))
    assert result.at_lag(7).mean == pytest.approx(np.diagonal(result.rho, 7).mean())
    assert [name for name, _ in result.named_lags()] == ["neighbours", "a week apart"]
    assert result.at_lag(7).mean > 0.1 > result.at_lag(7).high


def test_the_same_seed_gives_the_same_verdict():
    readings = made("plain", 0, homes=10, periods=20)
    assert check(readings).shuffled_medians == check(readings).shuffled_medians
    assert check(readings).shuffled_medians != check(readings, seed=1).shuffled_medians


def test_the_summary_goes_into_json_and_says_what_it_looked_at():
    for readings in (made("drift", 0, homes=10), np.tile([1.0, 2.0], (3, 60))):
        summary = json.loads(json.dumps(check(readings).summary(), allow_nan=False))
        assert "without noise" in summary["looked_at"]
        assert "never uses independence" in summary["meaning"]
    assert "given w" in str(check(made("drift", 0, homes=10)))


def test_an_exact_pattern_leaves_nothing_to_correlate():
    result = check(np.tile(np.random.default_rng(0).random((3, PHASES)) / 3, 10))
    assert result.outcome == "not contradicted"
    assert "nothing is left" in result.verdict
    assert math.isnan(result.median)
    assert result.median_p == 1.0


def test_a_few_periods_say_nothing():
    result = check(made("drift", 0, periods=5))
    assert result.outcome == "too little data"
    assert result.findings == ()


def test_two_homes_are_enough_to_compute():
    assert check(made("plain", 0, homes=2, periods=30)).outcome == "not contradicted"


# How much w tells about z, and which period -------------------------------------------------------------------------


def test_how_much_w_tells_about_z_by_hand():
    readings = made("gaps", 0, homes=12, periods=30)
    spreads, means = [], []
    for row in readings.reshape(12, 30, PHASES):
        z = np.nanmean(row, axis=0)
        spreads.append(math.log(math.sqrt(np.nanmean((row - z) ** 2))))
        means.append(math.log(z.mean()))
    r = np.corrcoef(spreads, means)[0, 1]
    slope, at = np.polyfit(spreads, means, 1)
    tells = check(readings).tells
    assert tells.correlation == pytest.approx(r)
    assert tells.blind == pytest.approx(math.exp(np.std(means)))
    assert tells.told == pytest.approx(math.exp(np.std(np.array(means) - at - slope * np.array(spreads))))
    assert tells.homes == 12


def test_noise_that_knows_nothing_tells_nothing():
    rng = np.random.default_rng(0)
    readings = rng.uniform(1, 9, (300, 1)) + rng.uniform(0.1, 2, (300, 1)) * rng.normal(size=(300, 120))
    assert abs(check(readings).tells.correlation) < 0.15


def unexplained_by_loops(readings, period):
    of_phase, of_home = [], []
    for row in readings:
        known = [t for t in range(len(row)) if not math.isnan(row[t])]
        for t in known:
            alike = [row[s] for s in known if s != t and s % period == t % period]
            rest = [row[s] for s in known if s != t]
            of_phase += [(row[t] - sum(alike) / len(alike)) ** 2] if alike else []
            of_home += [(row[t] - sum(rest) / len(rest)) ** 2] if rest else []
    return np.mean(of_phase) / np.mean(of_home)


@pytest.mark.parametrize("period", [2, 5, 7])
def test_the_unexplained_share_is_that_of_leaving_each_reading_out(period):
    rng = np.random.default_rng(period)
    readings = rng.gamma(1.0, 2.0, (4, 33))
    readings[rng.random(readings.shape) < 0.3] = np.nan
    assert pd.unexplained_share(readings, period) == pytest.approx(unexplained_by_loops(readings, period))


def test_the_true_period_is_proposed():
    day = made("plain", 0, homes=20, periods=84)
    choice = pd.best_period(day, (6, 11, PHASES, 2 * PHASES, 7 * PHASES), step_minutes=120, copies=2)
    assert choice.best.period == PHASES
    week = made("common weekday", 0, homes=20, periods=84)
    week += 3 * np.tile(np.repeat([0, 0, 0, 0, 0, 1, 1], PHASES), 12)
    chosen = pd.best_period(week, (PHASES, 7 * PHASES), step_minutes=120, copies=2)
    assert chosen.best.period == 7 * PHASES
    assert chosen.reason.startswith("Proposed: a week.")
    assert "7 times that of a day" in chosen.reason


def test_the_shorter_of_two_that_are_about_as_good_is_proposed():
    readings = made("plain", 0, homes=20, periods=84) + 0.3 * np.tile(np.repeat([0, 0, 0, 0, 0, 1, 1], PHASES), 12)
    choice = pd.best_period(readings, (7 * PHASES, PHASES), step_minutes=120, copies=2)
    assert [c.period for c in choice.checks] == [PHASES, 7 * PHASES]
    assert choice.best.period == PHASES
    assert choice.reason in str(choice)


# What is refused ----------------------------------------------------------------------------------------------------

GOOD = np.arange(40.0).reshape(2, 20) ** 2


@pytest.mark.parametrize(
    ("readings", "period", "said"),
    [
        (GOOD, 11, "does not fit twice into 20 steps"),
        (GOOD, 0, "period must be at least 1"),
        (GOOD, 2.5, "period must be a whole number"),
        (GOOD[:1], 2, "readings of 1 home were given"),
        ([], 2, "readings of 0 homes"),
        (np.vstack([GOOD, np.full(20, np.nan)]), 2, r"1 of 3 homes have no reading at all \(rows 2\)"),
        (np.where(GOOD == 9, np.inf, GOOD), 2, "infinite"),
        ([["a", "b"], [1, 2]], 1, "numbers"),
        (5, 1, "homes × steps"),
        (np.zeros((2, 3, 4)), 1, "plain list"),
        (np.zeros((2, 4000)), 1, "4,000 periods of 1 steps make too large a matrix"),
    ],
)
def test_bad_input_is_refused_with_its_reason(readings, period, said):
    with pytest.raises(InvalidInput, match=said):
        pd.check_period(readings, period)


@pytest.mark.parametrize("options", [{"copies": 0}, {"step_minutes": 0.0}, {"step_minutes": math.nan}])
def test_bad_options_are_refused(options):
    with pytest.raises(InvalidInput):
        pd.check_period(GOOD, 2, **options)


def test_a_choice_among_nothing_is_refused():
    with pytest.raises(InvalidInput, match="no candidate"):
        pd.best_period(GOOD, ())
    with pytest.raises(InvalidInput, match="no reading varies"):
        pd.best_period(np.ones((2, 20)), (2, 4))


def test_patterns_are_sought_only_where_they_can_be_told():
    assert set(calendar(365, 1440.0)) == {"drift", "season", "weekday"}
    assert set(calendar(5, 1440.0)) == set()
    assert set(calendar(100, 1000.0)) == {"drift or season"}
    for basis in calendar(730, 720.0).values():
        assert basis.mean(axis=0) == pytest.approx(0.0, abs=1e-9)


# London -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def london(data_folder):
    """The 269 homes with at least 17,500 readings in 2013."""
    import pyarrow.parquet as pq

    path = data_folder / "lcl_2013_325_households.parquet"
    if not path.exists():
        pytest.skip("the London data is not there")
    table = pq.read_table(path)
    home = table["lclid"].combine_chunks().dictionary_encode().indices.to_numpy()
    slot = (table["ts"].to_numpy().astype("datetime64[m]") - np.datetime64("2013-01-01T00:00", "m")).astype(int) // 30
    readings = np.full((home.max() + 1, 17520), np.nan)
    readings[home, slot] = table["kwh"].to_numpy()
    return readings[np.isfinite(readings).sum(axis=1) >= 17500]


@pytest.mark.soak
def test_london_by_day_as_in_the_mathematics(london):
    """|ρ| reaches 0.54, adjacent days 0.30; the median is far above any permuted null."""
    result = pd.check_period(london, 48, copies=4)
    assert (result.homes, result.periods) == (269, 365)
    assert result.maximum == pytest.approx(0.54, abs=0.005)
    assert result.at_lag(1).mean == pytest.approx(0.307, abs=0.002)
    assert result.median == pytest.approx(0.157, abs=0.001)
    assert np.mean(result.shuffled_medians) == pytest.approx(0.0485, abs=0.001)
    assert result.outcome == "contradicted"
    assert named(result)[:2] == [("season", "each home"), ("weekday", "each home")]
    assert ("season", "mean of homes") in named(result)
    assert result.at_lag(182).mean < -0.1


def test_londons_variations_tell_how_much_a_home_uses(london):
    """P5: 0.84 without the two homes that are nearly always zero (MAC000037, MAC000197), 0.81 with them."""
    used = np.nanmean(london, axis=1) > 0.005
    assert used.sum() == 267
    tells = pd._tells(pd._fold(london[used], 48))
    assert tells.correlation == pytest.approx(0.84, abs=0.005)
    assert pd._tells(pd._fold(london, 48)).correlation == pytest.approx(0.806, abs=0.002)
