"""The process of an age-dependent promise: written out, from a file, fitted; and what it asks of streams."""

from __future__ import annotations

import csv
import json
import math

import numpy as np
import pytest

from halflife import Accountant, AgeDependent, AutoRegressive, GeometricMixing, MarkovChain, ProcessFamily, Release
from halflife.engines.samples import read_sample
from halflife.policy import Policy, PolicyError, channels, ledger_facts
from halflife.processes import EmpiricalProcess, PeriodicMarkovChain
from policy.towns import GOOD, change, moving, write_tables

COIN = MarkovChain([[0.9, 0.1], [0.1, 0.9]])


@pytest.fixture
def folder(tmp_path):
    return write_tables(tmp_path)


def aged(process, more="", text=GOOD):
    """The policy with this promise."""
    return change(
        "exponential\n  epsilon: 1\n  half_life: 1 day",
        f"age-dependent\n  epsilon: 1\n  process: {process}{more}",
        text,
    )


def notion(text, folder):
    policy = Policy.parse(text, folder)
    return policy.notion


def write_design(folder, name="design.csv", homes=3, days=20, seed=1):
    """Half-hourly readings of a few homes whose states follow a chain; a hole here and there, and one bad cell."""
    rng, rows = np.random.default_rng(seed), []
    for h in range(homes):
        states = COIN.sample(48 * days, rng)
        for k, state in enumerate(states):
            if rng.random() > 0.02:
                at = np.datetime64("2025-03-01T00:00") + np.timedelta64(30 * k, "m")
                rows.append((f"d{h}", at, f"{state + 0.01 * rng.random():.4f}"))
    rows.append(("d0", "2025-03-01T00:05", "NaN"))
    with (folder / name).open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["id", "ts", "kwh"])
        out.writerows(rows)
    return folder / name


FIT = "fit: {files: design.csv, person: id, time: ts, value: kwh, states: 2, whose: other people}"

# Written out --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("process", "made"),
    [
        ("{name: markov-chain, matrix: [[0.9, 1e-1], [.1, 9e-1]]}", COIN),
        ("{name: geometric, c: 1, rho: 0.8}", GeometricMixing(1.0, 0.8)),
        (
            "{name: autoregressive, rho: -0.9, sigma: 1, span: 1.0}",
            AutoRegressive(-0.9, 1000.0, 1001.0),
        ),  # in Wh, rounded
        (
            "{name: process-family, processes: [{name: markov-chain, matrix: [[0.9, 0.1], [0.1, 0.9]]}]}",
            ProcessFamily([COIN]),
        ),
        (
            "{name: periodic-markov-chain, kernels: [[[0.9, 0.1], [0.1, 0.9]], [[1, 0], [0.5, 0.5]]]}",
            PeriodicMarkovChain([[[0.9, 0.1], [0.1, 0.9]], [[1, 0], [0.5, 0.5]]]),
        ),
    ],
)
def test_a_process_by_name_is_read_as_a_person_means_it(folder, process, made):
    policy = Policy.parse(change("  end: 2026-02-01\n", "", aged(process)), folder)
    (channel,) = channels(policy)
    assert policy.notion == AgeDependent(1.0, made)
    assert channel.losses(1, 1)[0] > 0


def test_all_parameters_of_the_notion_can_be_written(folder):
    more = "\n  delta: 0\n  adversary: any-prior\n  bound: tight\n  horizon: 5 weeks"
    found = notion(aged("{name: markov-chain, matrix: [[0.9, 0.1], [0.1, 0.9]]}", more), folder)
    assert found == AgeDependent(1.0, COIN, adversary="any-prior", horizon=5 * 336)
    assert notion(aged("{name: geometric, c: 1, rho: 0.5}", "\n  bound: paper\n  plan: paper"), folder).bound == "paper"
    assert notion(aged("{name: geometric, c: 1, rho: 0.5}", "\n  delta: 1e-6\n  noise: gaussian"), folder).delta == 1e-6


MATRIX = "{name: markov-chain, matrix: [[0.9, 0.1], [0.1, 0.9]]}"
BAD = [
    (
        "{name: markov-chain, matrix: [[0.9, 0.1], [0.2, 0.9]]}",
        "9:33: promise.process.matrix: row 1 of the transition matrix sums to 1.1, not to 1",
    ),
    ("{name: markov-chain, matrix: [[0.9, x], [0.2, 0.8]]}", "promise.process.matrix: row 0, column 1 .*a number, not 'x'"),
    (
        "{name: markov-chian, matrix: [[1]]}",
        r"9:13: promise.process.name: unknown process 'markov-chian': did you mean 'markov-chain'\?",
    ),
    (
        "{name: markov-chain, matrx: [[1]]}",
        r"promise.process.matrx: unknown parameter of markov-chain 'matrx': did you mean 'matrix'\?",
    ),
    ("{name: markov-chain}", "promise.process.matrix: missing: markov-chain needs it"),
    ("{matrix: [[1]]}", "promise.process.name: missing: one of autoregressive, "),
    ("markov-chain", "9:3: promise.process: must be a mapping with a name or a file, not 'markov-chain'"),
    ("{name: geometric, c: 1, rho: 1.5}", "promise.process.rho: rho must lie between 0 and 1"),
    ("{name: geometric, c: yes, rho: 0.5}", "promise.process.c: c must be a number"),
    ("{name: autoregressive, rho: [0.5, 0.2], sigma: 1, span: 1}", "promise.process.rho: rho must be one number, not 2"),
    ("{name: process-family, processes: []}", "promise.process.processes: .*at least one process"),
    ("{file: nowhere.json}", "promise.process.file: .*nowhere.json cannot be read: No such file"),
    ("{file: homes.csv}", "promise.process.file: homes.csv is not JSON"),
    ("{file: broken.json}", "promise.process.file: broken.json: row 0 of the transition matrix sums to 0.9"),
    ("{file: home.json, fitt: 1}", r"promise.process.fitt: unknown key beside file 'fitt'"),
    ("{file: home.json, whose: mine}", "promise.process.whose: unknown value 'mine'.*Known: other people, public"),
    ("{file: fitted.json}", "promise.process.whose: missing: whose readings the process was fitted on: a kernel fitted on"),
    ("{file: hourly.json}", "promise.process: the process was fitted on steps of 1 h, and the clock's are 30 min"),
    (
        "{name: markov-chain, fit: {files: design.csv, time: ts, value: kwh, states: 2}}",
        "promise.process.fit.whose: missing: Whose readings these are: a kernel fitted on private data is itself a release",
    ),
    (
        f"{{name: markov-chain, {FIT.replace('other people', 'these people')}}}",
        "promise.process.fit.whose: unknown value 'these people'.*: a kernel fitted on private data is itself a release",
    ),
    (f"{{name: markov-chain, {FIT.replace('time:', 'tiem:')}}}", r"process.fit.tiem: unknown key 'tiem': did you mean 'time'\?"),
    (f"{{name: markov-chain, {FIT.replace('states: 2', 'states: two')}}}", "promise.process.fit.states: must be a whole number"),
    (f"{{name: markov-chain, {FIT.replace('states: 2, ', '')}}}", "promise.process.fit.states: give either a number of states"),
    (f"{{name: markov-chain, {FIT.replace('states: 2', 'states: 2, lags: 3')}}}", "promise.process.fit.lags: is about empirical"),
    (f"{{name: markov-chain, {FIT.replace('kwh', 'kwhs')}}}", r"promise.process.fit: .*'kwhs': did you mean 'kwh'\?"),
    (f"{{name: markov-chain, {FIT.replace('design.csv', 'gone.csv')}}}", "promise.process.fit: no such file: .*gone.csv"),
    (f"{{name: autoregressive, {FIT}}}", "promise.process.fit: autoregressive cannot be fitted, give its parameters"),
    (f"{{name: markov-chain, matrix: [[1]], {FIT}}}", "promise.process.matrix: unknown key beside name 'matrix'"),
    (f"{MATRIX}\n  bound: tigt", r"promise.bound: unknown bound 'tigt': did you mean 'tight'\?|promise: unknown bound 'tigt'"),
    (f"{MATRIX}\n  horizon: 20 min", "promise.horizon: 20 min is no whole number of steps of 30 min"),
]  # fmt: skip


@pytest.mark.parametrize(("process", "said"), BAD)
def test_a_bad_process_is_refused_with_its_place(folder, process, said):
    write_design(folder)
    (folder / "broken.json").write_text('{"name": "markov-chain", "matrix": [[0.9, 0.0], [0.5, 0.5]]}')
    (folder / "home.json").write_text(json.dumps(COIN.to_dict()))
    facts = {**COIN.to_dict(), "fitted": {"readings": 9}}
    (folder / "fitted.json").write_text(json.dumps(facts))
    (folder / "hourly.json").write_text(json.dumps({**facts, "fitted": {"step": "1 h", "whose": "public"}}))
    with pytest.raises(PolicyError, match=f"policy.yaml:.*{said}"):
        Policy.parse(aged(process), folder)


def test_a_failed_check_written_out_stays_failed(folder):
    text = aged("{name: markov-chain, matrix: [[0.9, 0.1], [0.1, 0.9]], checked: {good: false, verdict: too slow}}")
    policy = Policy.parse(text, folder)
    assert "THE PROCESS FAILED ITS CHECK: too slow" in channels(policy)[0].plan.not_protected()[0]


# From a file, and fitted --------------------------------------------------------------------------------------------


def test_a_process_is_read_from_a_file_and_a_changed_one_is_another_promise(folder):
    (folder / "home.json").write_text(json.dumps(COIN.to_dict()))
    policy = Policy.parse(aged("{file: home.json}"), folder)
    facts = ledger_facts(policy)
    assert json.loads(facts["promise"])["notion"]["process"]["matrix"] == [[0.9, 0.1], [0.1, 0.9]]
    assert "process" not in facts["stream:load"], "it stands with the promise"
    (folder / "home.json").write_text(json.dumps(MarkovChain([[0.8, 0.2], [0.1, 0.9]]).to_dict()))
    assert policy.notion.process == COIN, "it is read once"
    other = Policy.parse(aged("{file: home.json}"), folder)
    assert ledger_facts(other)["promise"] != facts["promise"]


@pytest.mark.parametrize("name", ["markov-chain", "process-family", "periodic-markov-chain", "empirical"])
def test_a_process_is_fitted_on_a_declared_sample(folder, name):
    write_design(folder)
    fit = FIT.replace(
        "states: 2", "edges: [0.5], smoothing: 0.5" if name != "empirical" else "edges: [5e-1], lags: 400"
    )
    text = aged(f"{{name: {name}, {fit}}}", "\n  horizon: 400" if name == "empirical" else "")
    text = change("2026-02-01", "2026-01-03", text)
    found = notion(text, folder).process
    assert found.name == name
    assert found.fitted["whose"] == "other people"
    assert found.fitted["step"] == "30 min"
    sample = read_sample([folder / "design.csv"], person="id", time="ts", value="kwh", step="30 min")
    sequences = list(sample.sequences)
    direct = {
        "markov-chain": lambda: MarkovChain.fit(sequences, [0.5], 0.5).matrix,
        "process-family": lambda: ProcessFamily.fit(sequences, [0.5], 0.5).processes[1].matrix,
        "periodic-markov-chain": lambda: PeriodicMarkovChain.fit(sequences, [0.5], 48, 0.5).kernels[7],
        "empirical": lambda: EmpiricalProcess.fit(sequences, [0.5], 400).total_variation(3),
    }[name]()
    made = {
        "markov-chain": lambda: found.matrix,
        "process-family": lambda: found.processes[1].matrix,
        "periodic-markov-chain": lambda: found.kernels[7],
        "empirical": lambda: found.total_variation(3),
    }[name]()
    assert np.array_equal(made, direct)
    assert notion(text, folder) == notion(text, folder), "the same sample, the same promise"


# Samples ------------------------------------------------------------------------------------------------------------


def test_a_sample_is_one_number_a_slot_and_nan_where_there_is_none(tmp_path):
    (tmp_path / "a.csv").write_text(
        "who,at,x\nb,2025-03-01 00:10,1\nb,2025-03-01 00:20,4\nb,2025-03-01 01:40,2\nb,2025-03-01 01:10,inf\n"
        "a,2025-03-02 00:40,7\na,2025-03-02 02:00,8\n,2025-03-01 00:00,9\na,never,9\na,2025-03-02 01:00,x\n"
    )
    sample = read_sample([tmp_path / "a.csv"], person="who", time="at", value="x", step="30 min")
    assert sample.people == ("a", "b")
    assert np.array_equal(sample.sequences[1], [2.5, np.nan, np.nan, 2.0], equal_nan=True)
    assert np.array_equal(sample.sequences[0], [np.nan, 7, np.nan, np.nan, 8], equal_nan=True), (
        "from 00:00 of the first day"
    )
    assert (sample.slots, sample.step_minutes) == (48, 30.0)
    london = read_sample(
        [tmp_path / "a.csv"], person="who", time="at", value="x", step="1 h", zone="America/New_York"
    )  # 5 h later in UTC
    assert np.array_equal(london.sequences[1], [np.nan] * 5 + [2.5, 2.0], equal_nan=True)


def test_a_sample_does_not_depend_on_threads_or_the_order_of_rows(tmp_path):
    rng = np.random.default_rng(2)
    rows = [
        f"{p},2025-03-01 0{m % 2}:{m:02d},{float(rng.normal() * 10.0 ** rng.integers(-8, 8))!r}\n"
        for p in "abc"
        for m in range(60)
    ]
    found = []
    for seed in (1, 2, 3):
        np.random.default_rng(seed).shuffle(rows)
        (tmp_path / f"{seed}.csv").write_text("who,at,x\n" + "".join(rows))
        found.append(read_sample([tmp_path / f"{seed}.csv"], person="who", time="at", value="x", step="1 h"))
    assert all(f.people == ("a", "b", "c") for f in found)
    assert all(np.array_equal(a, b) for f in found[1:] for a, b in zip(found[0].sequences, f.sequences, strict=True))


def test_a_sample_without_a_good_reading_says_which_columns_it_looked_at(tmp_path):
    (tmp_path / "a.csv").write_text("who,at,x\nb,never,1\n")
    with pytest.raises(
        ValueError, match="no good reading: check that 'who' names a person, 'at' a time and 'x' a number"
    ):
        read_sample([tmp_path / "a.csv"], person="who", time="at", value="x", step="30 min")
    (tmp_path / "b.csv").write_text("who,at,x\nb,1000-01-01,1\nb,2025-01-01,1\n")
    with pytest.raises(ValueError, match=r"somebody has readings .* slots apart: a time is wrong"):
        read_sample([tmp_path / "b.csv"], person="who", time="at", value="x", step="1 s")


# Streams ------------------------------------------------------------------------------------------------------------

AR = "{name: autoregressive, rho: 0.9, sigma: 1, span: 1}"


def test_an_autoregressive_process_takes_sums_of_clipped_values_alone(folder):
    assert channels(Policy.parse(aged(AR), folder))[0].losses(1, 1)[0] > 0
    part = "    statistic: {{kind: {}}}\n"
    pushed = GOOD[: GOOD.index("    source:")] + part.format("count") + "    output: load.csv\n"
    with pytest.raises(
        PolicyError,
        match=r"streams.0.statistic.kind: .*in proportion to how far .*only sums, means and weighted sums have",
    ):
        Policy.parse(aged(AR, text=pushed), folder)
    histogram = "histogram, unit: kWh, resolution: 1 Wh, edges: [0, 1, 2], fold: sum"
    text = GOOD[: GOOD.index("    source:")] + part.format(histogram) + "    output: load.csv\n"
    with pytest.raises(PolicyError, match=r"only sums, means and weighted sums have"):
        Policy.parse(aged(AR, text=text), folder)
    with pytest.raises(PolicyError, match=r"streams.0.groups: .*says nothing about a person's group"):
        Policy.parse(aged(AR, text=moving()), folder)
    singly = GOOD.replace("clip: [0, 5 kWh]", "clip: [0, 5 kWh]\n      clip_readings: [0, 9 kWh]")
    with pytest.raises(
        PolicyError, match=r"streams.0.statistic.clip_readings: .*readings of one value may come to different"
    ):
        Policy.parse(aged(AR, text=singly), folder)
    with pytest.raises(PolicyError, match=r"span of 6 is wider than the clip, 5"):
        Policy.parse(aged(AR.replace("span: 1", "span: 6")), folder)


@pytest.mark.parametrize(
    ("sigma", "statistic", "said"),
    [
        (
            "0.1",
            "resolution: 1, clip: [20, 21]",
            r"resolution of 1 is too coarse .* half of σ/√\(1 \+ ρ²\): choose .* at most 0.037, ",
        ),
        ("0.1", "resolution: 0.04, clip: [20, 21]", "resolution of 0.04 is too coarse"),
        ("1", "resolution: 0.1, clip: [0.1, 0.9]", "span of 1 is wider than the clip, 0.8"),
    ],
)
def test_an_autoregressive_process_asks_for_a_fine_resolution(sigma, statistic, said):
    """ρ = .9, σ = .1, clip [20, 21], resolution 1 attained 0.195 where 0.13 was promised: see test_aged_autoregressive."""
    process = f"{{name: autoregressive, rho: 0.9, sigma: {sigma}, span: 1}}"
    text = (
        GOOD[: GOOD.index("    source:")]
        + f"    statistic: {{kind: sum, fold: last, {statistic}}}\n    output: load.csv\n"
    )
    with pytest.raises(PolicyError, match=rf"streams.0.statistic: .*{said}"):
        Policy.parse(aged(process, text=text))
    fine = change(statistic.split(",")[0], "resolution: 0.02", text).replace("[0.1, 0.9]", "[0, 1]")
    assert channels(Policy.parse(aged(process, text=fine)))[0].losses(1, 1)[0] > 0


@pytest.mark.parametrize(("resolution", "units"), [("0.02", 50_000), ("1", 1000), ("100", 10), ("300", 10 / 3)])
def test_an_autoregressive_process_is_counted_in_resolutions_as_the_account_is(resolution, units):
    """σ and span 1000, clip [0, 6000]: at 100 a person moves 60 resolutions, fewer than 1000, and 60 ≥ 10 is what matters.

    Two people who differ by the span differed by ρ^t of it t steps ago, in any unit. So nothing hangs on the resolution but that
    the span is rounded up to whole ones, and one more for readings halfway between two: a loss is ε(1 − ρ) for a move by the
    span, and the account admits what is planned.
    """
    process = "{name: autoregressive, rho: 0.9, sigma: 1000, span: 1000}"
    statistic = (
        f"    statistic: {{kind: sum, fold: last, resolution: {resolution}, clip: [0, 6000]}}\n    output: load.csv\n"
    )
    policy = Policy.parse(aged(process, text=GOOD[: GOOD.index("    source:")] + statistic))
    (channel,) = channels(policy)
    notion = policy.notion
    assert (notion.process.rho, notion.process.span) == (0.9, math.floor(units) + 1)
    assert notion.process.sigma <= units <= notion.process.span
    wider = (math.floor(units) + 1) / units
    assert notion.process.shift(5) == pytest.approx(AutoRegressive(0.9, 1000.0, 1000.0 * wider).shift(5), rel=1e-14)
    assert channel.losses(1, 1)[0] == pytest.approx(0.1 * 6 / wider, rel=1e-9)
    account = Accountant(notion)
    for release in channel.plan_releases(20):
        account.admit(release)
    assert account.risk() <= 1 + 1e-9


@pytest.mark.parametrize("span", ["0.01", "0.05", "1"])
def test_no_two_readings_that_differ_by_the_span_lie_further_apart_once_they_are_rounded(span):
    """0.145 and 0.155 differ by a resolution of 0.01, and are 14 and 16 of it: twice what one resolution would be charged."""
    values = [f"{k / 100:.2f}5" for k in range(200)]
    statistic = "    statistic: {kind: sum, fold: last, resolution: 0.01, clip: [0, 20]}\n    output: load.csv\n"
    process = f"{{name: autoregressive, rho: 0.9, sigma: 8, span: {span}}}"
    source = GOOD[: GOOD.index("    source:")]
    policy = Policy.parse(aged(process, text=source + statistic))
    (channel,) = channels(policy)
    whole = np.floor(np.array(values, dtype=float) * 100 + 0.5)  # as engines round
    apart = round(float(span) * 100)
    assert (whole[apart:] - whole[:-apart]).max() == policy.notion.process.span == apart + 1
    assert channel.losses(1, 1)[0] == pytest.approx(0.1 * 2000 / (apart + 1), rel=1e-6)


def test_a_span_as_wide_as_every_clip_is_no_wider_when_rounded():
    statistic = "    statistic: {kind: sum, fold: last, resolution: 1, clip: [0, 40]}\n    output: load.csv\n"
    text = GOOD[: GOOD.index("    source:")] + statistic
    assert (
        Policy.parse(aged("{name: autoregressive, rho: 0.9, sigma: 8, span: 40}", text=text)).notion.process.span == 40
    )


def test_streams_on_an_autoregressive_process_round_alike():
    process = AutoRegressive(0.9, 1.0, 1.0)
    assert len(channels(many(process, [0.5, 0.5], [0, 1]))) == 2
    for key, other in (("resolution", "2 Wh"), ("unit", "Wh")):
        data = many(MarkovChain([[0.9, 0.1], [0.1, 0.9]]), [0.5, 0.5], [0, 1]).model_dump(exclude_none=True)
        data["promise"]["process"] = process.to_dict()
        data["streams"][1]["statistic"][key] = other
        with pytest.raises(
            PolicyError, match=r"streams.1.statistic.resolution: .* same unit and resolution .* 0.001 kWh"
        ):
            Policy.from_dict(data)


def test_a_stream_ends_within_the_horizon(folder):
    text = change("2026-02-01", "2026-01-02", aged(MATRIX, "\n  horizon: 50"))  # 48 steps, published two steps later
    assert channels(Policy.parse(text, folder))[0].release_steps(48, 48).tolist() == [50]
    with pytest.raises(PolicyError, match=r"streams.0: 'load' publishes its last step at step 50 .* after step 49"):
        Policy.parse(change("horizon: 50", "horizon: 49", text), folder)
    with pytest.raises(
        PolicyError, match=r"promise.horizon: nothing is promised after step 50, and stream 'load' has no end"
    ):
        Policy.parse(change("  end: 2026-01-02\n", "", text), folder)


def many(process, shares, delays, **promise):
    """A policy of pushed sums with these shares and delays, of a day of half hours."""
    statistic = {"kind": "sum", "unit": "kWh", "resolution": "1 Wh", "clip": [0, "5 kWh"], "fold": "sum"}
    streams = [
        {"name": f"s{i}", "share": share, "delay": f"{30 * delay} min", "statistic": statistic, "output": "-"}
        for i, (share, delay) in enumerate(zip(shares, delays, strict=True))
    ]
    return Policy.from_dict({
        "population": {"id": "town", "size": 10, "person": "who"},
        "promise": {"notion": "age-dependent", "epsilon": 1.0, "process": process.to_dict(), **promise},
        "clock": {"step": "30 min", "start": "2026-01-01"},
        "streams": streams,
    })  # fmt: skip


SLOW_WALK = MarkovChain(
    [[2 / 3, 1 / 3, 0, 0], [1 / 3, 1 / 3, 1 / 3, 0], [0, 1 / 3, 1 / 3, 1 / 3], [0, 0, 1 / 3, 2 / 3]]
)


@pytest.mark.parametrize(
    ("process", "promise"),
    [
        (COIN, {}),
        (GeometricMixing(1.0, 0.7), {"bound": "paper", "plan": "paper"}),
        (SLOW_WALK, {}),
        (AutoRegressive(0.9, 1.0, 1.0), {}),
        (COIN, {"adversary": "any-prior"}),
    ],
    ids=lambda x: getattr(x, "name", str(x)),
)
def test_streams_that_share_the_promise_keep_it_together(process, promise):
    """Three streams of different ages, a planned step each: the account admits them all, data times out of order."""
    made = channels(many(process, (0.2, 0.5, 0.3), (4, 0, 9), **promise))
    notion = made[0].plan.notion
    account, steps = Accountant(notion), 200
    for step in range(1, steps + 1):
        due = [c for c in made if step > c.age]
        account.admit(*(Release(step, c.losses(1, 1)[0], c.age, sensitivity=c.plan.sensitivity) for c in due))
    assert 0.5 < account.risk(steps) <= 1.0
    alone = notion.plan(made[1].plan.sensitivity, method=promise.get("plan", "tight"))
    assert sum(c.losses(1, 1)[0] for c in made) <= alone.loss(1)


def test_a_ledger_remembers_each_stream_s_share_of_the_losses():
    half, more = (many(COIN, shares, (0, 0)) for shares in ((0.5, 0.5), (0.6, 0.4)))
    known, asked = (ledger_facts(p) for p in (half, more))
    assert known["promise"] == asked["promise"]
    assert known["stream:s0"] != asked["stream:s0"]


def test_streams_of_one_age_use_all_of_the_promise():
    made = channels(many(COIN, (0.2, 0.5, 0.3), (2, 2, 2)))
    account = Accountant(made[0].plan.notion)
    for step in range(3, 200):
        account.admit(*(Release(step, c.losses(1, 1)[0], 2) for c in made))
    assert 1 - 1e-6 < account.used() <= 1


def test_parts_of_epsilon_would_not_keep_the_promise():
    """Why losses are shared and not ε: with Theorem 1's bound two streams of half the ε come to more than all of it."""
    process = GeometricMixing(1.0, 0.7)
    whole = AgeDependent(1.0, process, bound="paper")
    half = AgeDependent(0.5, process, bound="paper").plan(method="paper", age=3).loss(1)
    account = Accountant.replay(whole, [Release(k, half, 3) for k in range(4, 200) for _ in range(2)])
    assert account.risk() > 1.05
    made = channels(many(process, (0.5, 0.5), (3, 3), bound="paper", plan="paper"))
    kept = [Release(k, c.losses(1, 1)[0], 3) for k in range(4, 200) for c in made]
    assert Accountant.replay(whole, kept).risk() <= 1.0


def test_a_delta_is_for_one_stream_alone():
    with pytest.raises(PolicyError, match=r"promise.delta: above 0 is worked out for one stream alone"):
        many(COIN, (0.5, 0.5), (0, 0), delta=1e-6)
    assert many(COIN, (1.0,), (0,), delta=1e-6)
