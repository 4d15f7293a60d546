"""Runs: seeds, repetitions, processes, time limits; lanes that do not know of each other."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import halflife as hl
from halflife.lab.compare import result as lab
from halflife.lab.compare import runs
from halflife.lab.compare.contestants import Common, list_contestants, read_mechanism
from halflife.mechanisms import LaneDraw, LaneNoise
from halflife.registry import MECHANISMS

WAVE = np.round(200 + 100 * np.sin(np.arange(120) / 9), 3)
ALL = ["uniform", "sample", "bd", "ba", "fast", "pegasus", "rescue-dp"]


def rows(**options):
    return json.loads(hl.compare(ALL, WAVE, w=10, **{"repetitions": 7, **options}).to_json())["rows"]


def test_a_seed_gives_the_same_rows_whatever_the_processes():
    one = rows(seed=4)
    assert rows(seed=4, jobs=2) == one
    assert rows(seed=5) != one
    assert [row["mechanism"] for row in one] == ALL


def test_a_row_does_not_depend_on_other_rows_or_on_blocks(monkeypatch):
    one = rows()
    alone = json.loads(hl.compare(["ba"], WAVE, w=10, repetitions=7).to_json())["rows"]
    assert alone == [row for row in one if row["mechanism"] == "ba"]
    monkeypatch.setattr(runs, "LANES", 2)
    for a, b in zip(rows(), one, strict=True):
        assert (a["mae"], a["rmse"], a["epsilon_own"]) == (b["mae"], b["rmse"], b["epsilon_own"])


def test_a_risk_is_of_all_repetitions_where_they_lose_the_same():
    found = hl.compare(["uniform", "ba"], WAVE, notions=["hyperbolic,beta=0.1"], w=10, repetitions=30).rows
    assert [row["lenses"]["hyperbolic (β = 0.1)"]["repetitions"] for row in found] == [30, 1, 30]
    (tree,) = hl.compare(["binary-tree"], WAVE, totals=True, w=10, repetitions=30).rows
    assert {lens["repetitions"] for lens in tree["lenses"].values()} == {30}


@pytest.mark.parametrize("name", ALL)
def test_a_repetition_is_the_same_alone_and_beside_others(name):
    """Lane 3 of five, and the only lane of its own: the same outputs and losses to the last bit."""
    producer = read_mechanism(name, Common(1.0, 10, 1.0, len(WAVE))).producer
    both = runs.run_producer(producer, WAVE, LaneNoise(1, 0, 5), 5, lambda: None)
    alone = runs.run_producer(producer, WAVE, LaneNoise(1, 3, 1), 1, lambda: None)
    assert np.array_equal(both.outputs[3], alone.outputs[0])
    assert np.array_equal(both.losses[:, 3], alone.losses[:, 0])
    assert both.losses[:, 0] == pytest.approx(
        np.bincount([r.step - 1 for r in both.history], [r.loss for r in both.history], len(WAVE))
    )


def test_planned_noise_is_uniform_with_the_same_draws():
    uniform, planned = hl.compare(["uniform", "w-event"], WAVE, w=10, repetitions=3).rows
    assert planned["mae"] == pytest.approx(uniform["mae"], rel=1e-12)
    assert planned["lenses"].keys() == uniform["lenses"].keys()


def test_noise_of_a_lane_has_its_scale():
    noise, lanes = LaneNoise(2, lanes=3000), 3000
    for family, mean in (("laplace", 2.0), ("gaussian", 2.0 * math.sqrt(2 / math.pi))):
        drawn = np.abs([noise.draw(family, 2.0, (lanes,)) for _ in range(5)]).mean()
        assert drawn == pytest.approx(mean, rel=0.04)  # 15,000 draws: four standard errors are 3.3 %


def test_noise_goes_on_after_what_was_drawn_ahead():
    """More numbers than are drawn at once, by lanes that draw at different times: each gets its own row in order."""
    noise, scales = LaneNoise(3, lanes=2), np.ones(2)
    seen = [[], []]
    for k in range(3000):
        some = np.where([True, k % 3 == 0], scales, np.inf)
        for lane, x in enumerate(noise.draw("laplace", some, (2,))):
            if math.isfinite(x):
                seen[lane].append(x)
    for lane in (0, 1):
        source = np.random.default_rng([3, lane, 0])
        assert seen[lane] == source.laplace(0.0, 1.0, len(seen[lane])).tolist()
    assert len(seen[0]) == 3000


def test_a_lane_draw_of_lanes_charges_what_it_draws():
    draw = LaneDraw(hl.WEvent(1.0, 3), LaneNoise(1, lanes=2), 2)
    with draw.step(1) as d:
        first = d(None, 1.0, loss=np.array([0.5, 0.0]))
        d(None, 1.0, loss=0.25)
    assert [list(x) for x in draw.charged] == [[0.5, 0.0], [0.25, 0.25]]
    assert np.isnan(first).tolist() == [False, True]


# Time limits --------------------------------------------------------------------------------------------------------


def limited(seconds, ticks, repetitions=60):
    """A comparison by a clock that goes on by one second whenever it is looked at, after `ticks` looks."""
    looks = iter(range(10**9))
    common = Common(1.0, 10, 1.0, len(WAVE))
    contestants = list_contestants(["uniform", "ba"], [], [], common)
    settings = {"seed": 1, "time_limit": seconds, "repetitions": repetitions, "totals": False, "truncate": False,
                "epsilon": 1.0, "w": 10, "sensitivity": 1.0}  # fmt: skip
    stream = lab.find_stream(WAVE)
    return lab.run_comparison(
        contestants, stream, common, settings, 1, lambda *_: None, lambda: float(max(0, next(looks) - ticks))
    )


def test_a_time_limit_leaves_rows_that_say_on_how_much_they_rest():
    whole = limited(1e9, 0)
    some = limited(0.5, 12)
    counts = [row["repetitions"] for row in some.rows]
    assert [row["repetitions"] for row in whole.rows] == [60, 60]
    assert all(count in (25, 50) for count in counts), counts
    assert "rest on fewer than 60" in " ".join(some.notes)
    same = hl.compare(["uniform", "ba"], WAVE, w=10, repetitions=counts[0])
    assert some.rows[0] == same.rows[0]


def test_a_row_without_a_repetition_has_no_numbers():
    found = limited(0.5, 4)
    assert [row["repetitions"] for row in found.rows] == [25, 0]
    empty = found.rows[1]
    assert all(empty[key] is None for key in ("mae", "mae_se", "mre", "rmse", "worst_step", "epsilon_own"))
    assert empty["lenses"] == {}
    assert json.loads(found.to_json())["rows"][1]["mae"] is None
    assert "–" in str(found)


def test_nothing_done_is_refused():
    with pytest.raises(hl.InvalidInput, match=r"nothing was done within 0\.5 s: give more time"):
        limited(0.5, -5)


def test_what_comes_after_a_dropped_block_is_dropped(monkeypatch):
    """Blocks of repetitions 0–24 and 50–59 without those between: the row rests on the first 25."""
    real = runs.run_block
    monkeypatch.setattr(
        runs, "run_block", lambda job, task, clock: None if task.first == 25 else real(job, task, clock)
    )
    (row,) = hl.compare(["uniform"], WAVE, w=10, repetitions=60, time_limit=1e9).rows
    monkeypatch.undo()
    assert row == hl.compare(["uniform"], WAVE, w=10, repetitions=25).rows[0]


def test_progress_is_told_block_by_block():
    told = []
    hl.compare(["uniform", "ba"], WAVE, w=10, repetitions=30, progress=lambda *said: told.append(said))
    assert told == [("uniform", 1, 4), ("ba", 2, 4), ("uniform", 3, 4), ("ba", 4, 4)]


# Totals -------------------------------------------------------------------------------------------------------------


def test_totals_are_judged_against_totals():
    found = hl.compare(["uniform", "binary-tree"], WAVE, w=10, repetitions=40, totals=True)
    _, tree = found.rows
    values = hl.compare(["uniform"], WAVE, w=10, repetitions=40)
    assert np.allclose(found.outputs[0], np.cumsum(values.outputs[0]))
    assert found.truth.tolist() == np.cumsum(WAVE).tolist()
    assert tree["epsilon_own"] == pytest.approx(1.0, rel=1e-9)
    made = MECHANISMS["binary-tree"](hl.WEvent(1.0, 10), 1.0, horizon=len(WAVE))
    variance = np.mean([made.variance(k) for k in range(1, len(WAVE) + 1)])
    assert tree["rmse"] == pytest.approx(math.sqrt(variance), rel=0.15)


def test_factored_totals_have_the_noise_of_their_formula():
    from halflife.lab.running_totals.toeplitz import Toeplitz

    (row,) = hl.compare(["toeplitz"], WAVE, w=10, repetitions=200, totals=True, delta=1e-6).rows
    stds = Toeplitz(hl.WEvent(1.0, 10, 1e-6), horizon=len(WAVE)).stds(len(WAVE))
    expected = float(stds.mean() * math.sqrt(2 / math.pi))
    assert abs(row["mae"] - expected) <= 4 * row["mae_se"]
    assert abs(row["mae"] - 1.1 * expected) > 4 * row["mae_se"] or row["mae_se"] > 0.02 * expected
    assert (row["epsilon_own"], row["epsilon_classical"]) == (1.0, math.inf)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"mechanisms": ["binary-tree"]}, r"binary-tree publishes running totals: compare it with totals \(--totals\)"),
        ({"mechanisms": ["toeplitz"], "totals": True}, "needs a delta"),
        ({"mechanisms": ["uniform"], "delta": 1e-6}, "none of them is compared"),
        ({"mechanisms": ["binary-tree"], "totals": True, "post": ["counts"]}, "without post-processing"),
        ({"mechanisms": ["unifrm"]}, "did you mean 'uniform'"),
        ({"mechanisms": ["planned"]}, "follows the plan of a notion"),
        ({"mechanisms": ["bd+kalman"]}, "drawn anew for every step"),
        ({"mechanisms": ["uniform+moving-average=3+kalman"]}, "takes raw values: put it first"),
        ({"mechanisms": ["uniform+seasonal"]}, "how many steps a day has is not known"),
        ({"mechanisms": []}, "nothing to compare"),
        ({"mechanisms": [7]}, "a contestant is a name"),
        ({"notions": ["w-event,w"]}, "no parameter that is given once"),
        ({"notions": ["w-event,horizon=5"]}, "its plan ends with step 5, and the stream has 120"),
        ({"notions": ["exponential"]}, "either alpha or half_life"),
        ({"mechanisms": [int]}, "int is no mechanism"),
        ({"mechanisms": ["uniform+moving-average=0"]}, "moving-average=0: .*at least 2, not 0"),
        ({"repetitions": 0}, "repetitions must be at least 1"),
        ({"repetitions": 10**9}, "repetitions must be at most 1,000,000, not 1,000,000,000"),
        ({"sensitivity": 1e200}, "errors beyond doubles"),
        ({"sensitivity": 1e300, "epsilon": 1e-9}, "errors beyond doubles"),
        ({"epsilon": 0.0}, "epsilon must be above 0"),
        ({"sensitivity": math.nan}, "sensitivity is NaN"),
        ({"w": 0}, "w must be at least 1"),
        ({"jobs": 0}, "jobs must be at least 1"),
        ({"time_limit": -1.0}, "time_limit must be above 0"),
    ],
)
def test_what_cannot_be_compared_is_refused(asked, said):
    with pytest.raises(hl.InvalidInput, match=said):
        hl.compare(series=WAVE, **{"w": 10, "repetitions": 2, **asked})


def test_notions_plans_and_classes_are_contestants():
    plan = hl.WEvent(1.0, 10).plan(sensitivity=2.0)
    uniform = MECHANISMS["uniform"]
    found = hl.compare([uniform, hl.ExponentialDiscount(1.0, half_life=10), plan], WAVE, w=10, repetitions=5)
    assert [row["mechanism"] for row in found.rows][::2] == ["uniform", "w-event (ε = 1, w = 10, δ = 0)"]
    assert found.rows[2]["expected_mae"] == pytest.approx(20.0)
    with pytest.raises(hl.InvalidInput, match="a Plan cannot be sent to another process: use jobs=1"):
        hl.compare([plan], WAVE, w=10, repetitions=30, jobs=2)


def test_post_processing_adds_rows_on_the_same_outputs():
    found = hl.compare(["uniform", "bd"], WAVE, w=10, repetitions=4, post=["moving-average=3", "counts"])
    names = [row["mechanism"] for row in found.rows]
    assert names == [f"{m}{p}" for m in ("uniform", "bd") for p in ("", "+moving-average=3", "+counts")]
    raw, smooth, counts = found.outputs[:3]
    assert smooth[2:] == pytest.approx((raw[2:] + raw[1:-1] + raw[:-2]) / 3)
    assert counts.tolist() == np.maximum(0, np.floor(raw + 0.5)).tolist()
    truncated = hl.compare(["uniform"], WAVE, w=10, repetitions=4, truncate=True)
    assert truncated.rows[0]["mae"] == found.rows[2]["mae"]
    assert truncated.rows[0]["mechanism"] == "uniform"


def test_filters_see_one_repetition_each():
    """A fitted filter of one repetition gives what it gives among others."""
    values = WAVE[:100]
    one, two = (hl.compare(["uniform+kalman"], values, w=10, repetitions=n) for n in (1, 2))
    assert np.array_equal(one.outputs[0], two.outputs[0])
    assert two.rows[0]["coverage"] is not None


def test_everything_is_compared_by_default():
    found = hl.compare(series=WAVE, w=10, repetitions=1)
    assert {"uniform", "sample", "bd", "ba", "fast"} <= {row["mechanism"] for row in found.rows}
    assert "binary-tree" not in {row["mechanism"] for row in found.rows}
    assert [row["mechanism"] for row in hl.compare(None, WAVE, notions=["w-event"], w=10, repetitions=1).rows] == [
        "w-event"
    ]


def test_a_process_that_dies_is_named(monkeypatch):
    """Spawned processes import what they run afresh, so the stand-in for one that is killed is what they are told to run."""
    monkeypatch.setattr(runs, "_run_task", _die)
    with pytest.raises(hl.InvalidInput, match="a process ended before its work was done"):
        hl.compare(["uniform", "ba"], WAVE, w=10, repetitions=2, jobs=2)


def _die(task):
    import os

    os._exit(9)
