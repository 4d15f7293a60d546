"""The check: it warns on London and on planted faults, never on data drawn from the model, and says when it cannot tell."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest

from halflife import EmpiricalProcess, GeometricMixing, InvalidInput, MarkovChain, Process
from halflife.processes import AutoRegressive, PeriodicMarkovChain, ProcessFamily
from halflife.processes import check as module
from halflife.processes.check import check
from thinning import keep


def draw(matrices, steps, rng):
    """One sequence per matrix, all side by side, each from its stationary law."""
    chains = [MarkovChain(m) for m in matrices]
    ahead = np.cumsum([chain.matrix for chain in chains], axis=2)
    ahead[..., -1] = 2.0
    state = np.array([rng.choice(chain.states, p=chain.stationary) for chain in chains])
    found, everyone = np.empty((steps, len(chains))), np.arange(len(chains))
    for t in range(steps):
        found[t] = state
        state = (rng.random((len(chains), 1)) > ahead[everyone, state]).sum(axis=1)
    return found.T


def with_holes(sequences, rng):
    """A tenth of all readings missing, and one long gap a person."""
    found = np.where(rng.random(sequences.shape) < 0.1, np.nan, sequences)
    for row in found:
        begin = rng.integers(len(row))
        row[begin : begin + len(row) // 12] = np.nan
    return found


def two(p, q):
    return np.array([[1 - p, p], [q, 1 - q]])


def cycle(states, rate):
    return np.eye(states) * (1 - rate) + np.roll(np.eye(states), 1, axis=1) * rate


CHAINS = {
    "independent": lambda rng: np.full((6, 6), 1 / 6),
    "sticky": lambda rng: two(0.02, 0.03),
    "slow": lambda rng: two(0.002, 0.003),
    "rare": lambda rng: two(0.002, 0.1),
    "alternating": lambda rng: two(0.95, 0.9),
    "slow cycle": lambda rng: cycle(3, 1 / 100),
    "quick cycle": lambda rng: cycle(6, 0.8),
    "any six": lambda rng: 0.95 * rng.dirichlet(np.full(6, 0.3), size=6) + 0.05 / 6,
    "lazy twelve": lambda rng: 0.9 * np.eye(12) + 0.1 * (0.9 * rng.dirichlet(np.full(12, 0.5), size=12) + 0.1 / 12),
    "two moods": lambda rng: np.kron(two(0.01, 0.01), np.full((2, 2), 0.5)),
}


@pytest.fixture(scope="module")
def london(data_folder):
    """The first 40 households by id with at least 17,000 readings (A7's rule)."""
    import duckdb

    path = str(data_folder / "lcl_2013_325_households.parquet")
    rows = duckdb.connect().execute(
        "SELECT lclid, ts, kwh FROM read_parquet($path) WHERE lclid IN (SELECT lclid FROM read_parquet($path) GROUP BY lclid "
        "HAVING count(*) >= 17000 ORDER BY lclid LIMIT 40) ORDER BY lclid, ts",
        {"path": path},
    ).fetchnumpy()  # fmt: skip
    _, who = np.unique(rows["lclid"].astype(str), return_inverse=True)
    readings = np.full((40, 17_520), np.nan)
    step = ((rows["ts"] - np.datetime64("2013-01-01")) / np.timedelta64(30, "m")).astype(int)
    readings[who, step] = rows["kwh"]
    return readings


# London -------------------------------------------------------------------------------------------------------------


@pytest.mark.soak
@pytest.mark.parametrize("states", keep([6, 12], lambda states: states == 6))
def test_it_warns_on_london(london, states):
    people = ProcessFamily.fit(london, states)
    found = people.check(london)
    assert not found.good
    assert found.outcome == "under-reports"
    rows = {(row.kind, row.lag): row for row in found.rows}
    day, week, half_day = rows["any time", 48], rows["any time", 336], rows["any time", 24]
    assert day.largest == people.total_variation(48)
    assert day.direct > 0.5
    assert day.direct > 2 * half_day.direct  # it revives
    assert all(row.outcome == "under-reports" and row.low > 0.25 for row in (day, week))
    fixed = rows["same time of day", 48]
    assert fixed.outcome == "under-reports"
    assert fixed.direct == pytest.approx(0.21, abs=0.03)  # A7: 0.22 at the median
    assert rows["same time of day", 336].direct == pytest.approx(0.18, abs=0.03)  # A7: 0.17
    assert all(rows[kind, 672].outcome == "under-reports" for kind in module.KINDS)
    assert "24 hours back" in found.verdict
    assert found.factor == pytest.approx(day.direct / day.largest)
    if states == 6:
        assert day.largest == pytest.approx(0.0143, abs=1e-4)  # A7
        assert found.factor > 30


def test_a_single_london_household_is_enough(london):
    found = MarkovChain.fit(london[0], 6).check(london[0], lags=[1, 24, 48, 96, 336])
    assert found.outcome == "under-reports"
    assert found.units == 16


@pytest.mark.soak
def test_it_does_not_warn_on_data_drawn_from_londons_model(london):
    """As long and with the same gaps; checked with the true chains, and with chains fitted again."""
    rng = np.random.default_rng(4)
    people = ProcessFamily.fit(london, 6)
    six = [i for i, one in enumerate(people.processes) if one.states == 6][:24]
    drawn = draw([people.processes[i].matrix for i in six], 17_520, rng)
    drawn = np.where(np.isnan(london[six]), np.nan, drawn)
    for process in (
        ProcessFamily([MarkovChain(people.processes[i].matrix) for i in six]),
        ProcessFamily.fit(drawn, None),
    ):
        found = process.check(drawn, lags=[1, 4, 12, 24, 48, 96, 336, 672])
        assert found.good, found.verdict
        assert all(row.outcome == "no contradiction found" for row in found.rows)


# Data drawn from the model ------------------------------------------------------------------------------------------


@pytest.mark.diagonal
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", CHAINS)
def test_it_never_warns_on_data_drawn_from_the_model(name, seed):
    """Seed 0 with the true chains, the others with chains fitted to the same data."""
    rng = np.random.default_rng(seed)
    matrices = [CHAINS[name](rng) for _ in range(20)]
    drawn = with_holes(draw(matrices, 1200, rng), rng)
    process = ProcessFamily([MarkovChain(m) for m in matrices])
    if seed:
        process = ProcessFamily.fit(drawn, None, smoothing=1e-3)
    assert process.check(drawn).worst is None


@pytest.mark.parametrize("name", ["sticky", "quick cycle", "any six", "slow", "slow cycle", "two moods"])
def test_it_never_warns_on_one_persons_data_either(name):
    rng = np.random.default_rng(7)
    chain = MarkovChain(CHAINS[name](rng))
    drawn = with_holes(draw([chain.matrix], 12_000, rng), rng)
    found = chain.check(drawn[0])
    assert found.worst is None
    assert found.good == (name in ("quick cycle", "any six"))


def test_people_who_happened_to_linger_in_a_rare_state_do_not_raise_an_alarm():
    """600 people, most of whom hardly visit state 1: those who saw it often saw it last long, and must not stand for all."""
    rng = np.random.default_rng(5)
    chain = MarkovChain(two(0.002, 0.1))
    found = chain.check(draw([chain.matrix] * 600, 2000, rng), lags=[1, 2, 4], slots=None)
    assert found.worst is None


def test_the_false_alarms_are_as_rare_as_said(monkeypatch):
    """With a tenth (one side) instead of 0.0005 allowed, a tenth of 40 checks may warn, give or take."""
    monkeypatch.setattr(module, "FAMILY_WISE", 0.2)
    rng = np.random.default_rng(11)
    chain = MarkovChain([[0.7, 0.2, 0.1], [0.3, 0.4, 0.3], [0.1, 0.3, 0.6]])
    drawn = draw([chain.matrix] * (40 * 20), 500, rng).reshape(40, 20, 500)
    alarms = sum(chain.check(people, lags=[1, 3, 6], slots=6).worst is not None for people in drawn)
    assert alarms <= 9


# Planted faults -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", [two(0.14, 0.14), two(0.1, 0.25)])
def test_a_model_that_forgets_a_tenth_too_fast_is_caught(model):
    """The truth is λ = 0.8; the models have 0.72 and 0.65."""
    drawn = draw([two(0.1, 0.1)] * 40, 4000, np.random.default_rng(1))
    assert MarkovChain(two(0.1, 0.1)).check(drawn, lags=[1, 2, 4, 48]).good
    found = MarkovChain(model).check(drawn, lags=[1, 2, 4, 48])
    assert found.outcome == "under-reports"
    row = found.rows[0]
    assert (row.lag, row.direct) == (1, pytest.approx(0.8, abs=0.02))
    assert row.low < 0.8 < row.high
    assert row.model == pytest.approx(1 - model[0, 1] - model[1, 0])


def test_a_second_order_chain_looks_independent_until_three_steps_back():
    """x_t = x_{t−1} ⊕ x_{t−2} ⊕ rare noise: neighbours are independent, and yet x_t is mostly x_{t−3}. Pairs are Markov."""
    rng = np.random.default_rng(3)
    x = rng.integers(0, 2, (30, 3000))
    for t in range(2, 3000):
        x[:, t] = x[:, t - 1] ^ x[:, t - 2] ^ (rng.random(30) < 0.02)
    found = ProcessFamily.fit(x, None).check(x, lags=[1, 2, 3], slots=None)
    assert [row.outcome for row in found.rows[:2]] == ["no contradiction found"] * 2
    assert found.worst.lag == 3
    assert found.worst.direct == pytest.approx(1 - 2 * 2 * 0.02 * 0.98, abs=0.02)
    y = 2 * x[:, :-1] + x[:, 1:]
    assert ProcessFamily.fit(y, None).check(y, lags=[1, 2, 3, 6], slots=None).good


def habits(rng, people=30, days=60):
    """Busy by day, quiet by night, with noise; and nothing else."""
    clock = np.repeat([0, 1], 24)[np.arange(days * 48) % 48]
    return np.where(rng.random((people, days * 48)) < 0.15, 1 - clock, clock)


def test_what_the_clock_explains_contradicts_a_chain_but_not_one_with_a_clock():
    drawn = habits(np.random.default_rng(2))
    found = MarkovChain.fit(drawn, None).check(drawn)
    by_kind = {kind: [r.outcome for r in found.rows if r.kind == kind and r.lag >= 48] for kind in module.KINDS}
    assert set(by_kind["any time"]) == {"under-reports"}
    assert set(by_kind["same time of day"]) == {"no contradiction found"}
    clocked = PeriodicMarkovChain.fit(drawn, None, slots=48).check(drawn)
    assert clocked.good
    assert {row.kind for row in clocked.rows} == {"same time of day"}


def test_what_stays_from_day_to_day_contradicts_a_chain_with_a_clock_too():
    """Each person has moods that last a week: the clock does not explain them, nor does a chain that sees one step back."""
    rng = np.random.default_rng(6)
    mood = np.repeat(rng.integers(0, 2, (30, 15)), 7 * 48, axis=1)
    drawn = np.where(rng.random(mood.shape) < 0.35, 1 - mood, mood)
    clocked = PeriodicMarkovChain.fit(drawn, None, slots=48)
    found = clocked.check(drawn)
    assert found.outcome == "under-reports"
    assert found.worst.kind == "same time of day"
    assert "time of day held fixed" in found.verdict


def test_each_person_is_compared_with_the_own_process():
    rng = np.random.default_rng(8)
    matrices = [two(0.05, 0.05)] * 18 + [two(0.01, 0.01)] * 2
    drawn = draw(matrices, 3000, rng)
    good = ProcessFamily([MarkovChain(m) for m in matrices])
    assert good.check(drawn, lags=[1, 2, 4]).good
    wrong = ProcessFamily([MarkovChain(two(0.2, 0.2))] * 18 + [MarkovChain(two(0.01, 0.01))] * 2)
    found = wrong.check(drawn, lags=[1, 2, 4])
    assert found.outcome == "under-reports"
    assert found.factor == 1.0  # the largest Δ of anybody is not passed by the average
    assert "times as much" not in found.verdict


def test_autoregressive_readings_are_looked_at_within_the_span():
    rng = np.random.default_rng(9)
    true = AutoRegressive(rho=0.9, sigma=1.0, span=3.0)
    drawn = [true.sample(4000, rng) for _ in range(20)]
    assert true.check(drawn, lags=[1, 4, 12, 24]).good
    assert AutoRegressive(rho=0.6, sigma=1.9, span=3.0).check(drawn, lags=[1, 4, 12]).outcome == "under-reports"
    assert AutoRegressive(rho=0.9, sigma=1.0, span=0.3).check(drawn, lags=[1, 4, 12]).worst is None


def test_geometric_and_empirical_processes_are_checked_too():
    drawn = draw([two(0.1, 0.1)] * 20, 2500, np.random.default_rng(10))
    assert GeometricMixing(c=1.0, rho=0.82).check(drawn, lags=[1, 2, 4, 8]).good
    assert GeometricMixing(c=1.0, rho=0.6).check(drawn, lags=[1, 2, 4, 8]).outcome == "under-reports"
    process = EmpiricalProcess.fit(drawn, None, lags=10)
    assert process.check(drawn, lags=[1, 2, 4, 8, 12], states=[0.5]).good


# The numbers --------------------------------------------------------------------------------------------------------


def naive_any_time(states, lag):
    """Choose on the first half by looking at every pair, count on the second."""
    half, count = len(states) // 2, int(states.max()) + 1
    rows = {}
    for x in range(count):
        then = [states[t - lag] for t in range(lag, half) if states[t] == x]
        if len(then) >= 30:
            rows[x] = (np.bincount(np.array(then).astype(int), minlength=count) / len(then), len(then))

    def apart(pair):
        (a, n), (b, m) = rows[pair[0]], rows[pair[1]]
        return np.abs(a - b).sum() / 2 - 0.4 * (math.sqrt(count / n) + math.sqrt(count / m))

    x, other = max(itertools.permutations(rows, 2), key=apart)
    B = np.flatnonzero(rows[x][0] > rows[other][0])
    share = [
        np.mean([states[t - lag] in B for t in range(half + lag, len(states)) if states[t] == one])
        for one in (x, other)
    ]
    n, m = (sum(states[t] == one for t in range(half + lag, len(states))) for one in (x, other))
    return share[0] - share[1], n * m / (n + m)


def test_a_row_by_hand():
    drawn = draw([[[0.6, 0.3, 0.1], [0.2, 0.6, 0.2], [0.1, 0.4, 0.5]]] * 16, 600, np.random.default_rng(0))
    chain = MarkovChain(two(0.1, 0.1)), MarkovChain([[0.6, 0.3, 0.1], [0.2, 0.6, 0.2], [0.1, 0.4, 0.5]])
    row = chain[1].check(drawn, lags=[2], slots=None).rows[0]
    d, w = np.array([naive_any_time(one, 2) for one in drawn]).T
    assert row.direct == pytest.approx((w * d).sum() / w.sum(), rel=1e-12)
    assert row.units == int(w.sum() ** 2 / (w**2).sum())
    assert row.model == pytest.approx(chain[1].total_variation(2))
    assert row.model_risk == chain[1].amplify(1.0, 2)
    from scipy.stats import t

    z = t.ppf(1 - 1e-3 / 2, w.sum() ** 2 / (w**2).sum() - 1)
    error = math.sqrt(((w * (d - row.direct)) ** 2).sum() / w.sum() ** 2 * 16 / 15)
    assert row.reach >= z * error * 0.99
    assert row.reach <= z * max(error, 0.03) * 1.1
    assert row.high - row.direct == pytest.approx(row.reach)


def test_the_time_of_day_by_hand():
    """Three people of constant tendency per slot cancel; what is left is counted slot by slot."""
    rng = np.random.default_rng(1)
    drawn = rng.integers(0, 5, (16, 400)) * 1.0
    row = MarkovChain(np.full((5, 5), 0.2)).check(drawn, lags=[4], slots=4).rows[1]
    total = weight = 0.0
    for one in drawn:
        above = [one[t] > np.median(one[t % 4 :: 4]) for t in range(400)]
        for slot in range(4):
            pairs = [(above[t], above[t - 4]) for t in range(4, 400) if t % 4 == slot]
            yes, no = [b for a, b in pairs if a], [b for a, b in pairs if not a]
            w = len(yes) * len(no) / len(pairs)
            total, weight = total + w * (np.mean(yes) - np.mean(no)), weight + w
    assert row.kind == "same time of day"
    assert row.direct == pytest.approx(total / weight, abs=1e-12)


def test_more_lags_share_the_same_confidence():
    drawn = draw([two(0.2, 0.3)] * 20, 1000, np.random.default_rng(1))
    chain = MarkovChain(two(0.2, 0.3))
    alone, many = chain.check(drawn, lags=[1], slots=None), chain.check(drawn, lags=range(1, 30))
    assert many.rows[0].direct == alone.rows[0].direct
    assert many.rows[0].reach > 1.2 * alone.rows[0].reach


# What it says -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def warned():
    drawn = draw([two(0.1, 0.1)] * 20, 2000, np.random.default_rng(1))
    return MarkovChain(two(0.3, 0.3)).check(drawn, lags=[1, 2, 48, 96])


def test_its_summary_is_what_a_certificate_can_hold(warned):
    said = json.loads(json.dumps(warned.summary(), allow_nan=False))
    assert said["outcome"] == "under-reports"
    assert said["good"] is False
    assert said["worst"]["lag"] in (1, 2)
    assert said["factor"] == pytest.approx(warned.worst.direct / warned.worst.largest)
    assert (said["people"], said["confidence"]) == (20, 0.999)
    assert said["lags"] == [1, 2, 48, 96]
    process = MarkovChain(two(0.3, 0.3)).with_check(warned)
    assert process.checked == warned.summary()
    assert Process.from_dict(json.loads(json.dumps(process.to_dict()))).checked == said


def test_it_can_be_read(warned):
    text = str(warned)
    assert text.startswith("The process under-reports: ")
    assert "30 minutes" in text
    assert "24 hours" in text
    hourly = MarkovChain(two(0.3, 0.3)).check(
        draw([two(0.1, 0.1)] * 20, 2000, np.random.default_rng(1)), lags=[2], slots=24, step_minutes=60
    )
    assert "2 hours back" in hourly.verdict


def test_too_little_data_is_said_and_is_not_good():
    chain = MarkovChain(two(0.1, 0.1))
    found = chain.check(chain.sample(60, np.random.default_rng(0)))
    assert found.outcome == "too little data"
    assert not found.good
    assert found.verdict.startswith("Too little data")
    json.dumps(found.summary(), allow_nan=False)
    assert str(found)


def test_the_lags_reach_two_weeks_where_the_data_does():
    rng = np.random.default_rng(0)
    chain = MarkovChain(two(0.4, 0.4))
    lags = [row.lag for row in chain.check(draw([chain.matrix] * 16, 8100, rng), slots=None).rows]
    assert (lags[0], lags[-1]) == (1, 672)
    assert set(range(48, 673, 48)) <= set(lags)
    short = [row.lag for row in chain.check(draw([chain.matrix] * 16, 1200, rng), slots=None).rows]
    assert max(short) == 96


# Bad input ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sequences", "options", "words"),
    [
        ([[0, 1] * 50, [0, 1]], {"lags": [5]}, ["sequence 1", "2 readings", "lag of 5"]),
        ([[0, 1] * 50, [0, 2] * 50], {}, ["sequence 1", "state 2", "0 to 1"]),
        ([[0, 0.5] * 50], {}, ["sequence 0", "whole numbers"]),
        ([[math.nan] * 50], {}, ["sequence 0", "single reading"]),
        ([[0, 1] * 50], {"lags": []}, ["at least one lag"]),
        ([[0, 1] * 50], {"lags": [0]}, ["lag"]),
        ([[0, 1] * 50], {"lags": [1.5]}, ["lag"]),
        ([[0, 1] * 50], {"slots": 1}, ["slots"]),
        ([[0, 1] * 50], {"step_minutes": -1}, ["step_minutes"]),
        ("text", {}, ["sequences"]),
    ],
)  # fmt: skip
def test_bad_data_is_refused_by_name(sequences, options, words):
    with pytest.raises(InvalidInput) as caught:
        MarkovChain(two(0.1, 0.1)).check(sequences, **options)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_a_process_with_a_clock_needs_a_day_that_fits_it():
    clocked = PeriodicMarkovChain([two(0.1, 0.2)] * 24)
    drawn = draw([two(0.1, 0.2)] * 16, 600, np.random.default_rng(0))
    for slots in (None, 36):
        with pytest.raises(InvalidInput, match="slots=24"):
            check(clocked, drawn, slots=slots)
        with pytest.raises(InvalidInput, match="slots=24"):
            check(ProcessFamily([clocked, clocked]), drawn, slots=slots)
    assert check(clocked, drawn, slots=48).rows
