"""RescueDP: held to the benchmark's own outputs and errors, to a second implementation, and to what it may look at."""

from __future__ import annotations

import csv
import math
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from halflife import Accountant, InvalidInput, ReleaseDraw, SimulatedDraw, WEvent
from halflife.audit.confidence import least_epsilon
from halflife.audit.rivals.rescue_dp import FutureVariance
from halflife.mechanisms import LaneDraw, RescueDP
from halflife.testing import check_mechanism
from thinning import keep

ORACLES = Path(__file__).resolve().parents[3] / "shared" / "oracles"


@pytest.fixture(scope="module")
def oracles():
    if not ORACLES.is_dir():
        pytest.skip("the numbers computed elsewhere are not beside this checkout")
    return ORACLES


class Scripted:
    """Draws of one lane with given unit noise, against an account of plain sums."""

    def __init__(self, notion, unit):
        self.notion, self.unit, self.losses, self.step = notion, iter(unit), {}, 0

    def headroom(self, age=0, span=1):
        return self.notion.epsilon - sum(x for k, x in self.losses.items() if self.step - self.notion.w < k)

    def __call__(self, key, sensitivity, *, loss):
        self.losses[self.step] = loss
        return next(self.unit) * sensitivity / loss


def run_scripted(mechanism, truths, unit):
    draw, outputs = Scripted(mechanism.notion, unit), []
    for draw.step, truth in enumerate(truths, start=1):
        outputs.append(mechanism.step(draw.step, float(truth), draw))
    return np.array(outputs), draw


def sines():
    i = 0
    while True:
        yield 2 * math.sin(0.7 * i + 0.3)
        i += 1


# Against the benchmark ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("column", "filtered"), [("RescueDP1D_noKF", False), ("RescueDP1D", True)])
def test_the_benchmarks_outputs_with_the_same_draws(oracles, column, filtered):
    """Draw by draw: with the filter, its q is given as the public number that the benchmark reads off the true stream."""
    with (oracles / "golden_sine.csv").open() as file:
        draws, *rows = csv.DictReader(file)
    truths = np.array([float(row["true"]) for row in rows])
    rescue = RescueDP(WEvent(1.0, 20), filtered=filtered, variance=truths.var())
    outputs, draw = run_scripted(rescue, truths, sines())
    assert len(draw.losses) == int(draws[column])
    assert outputs == pytest.approx([float(row[column]) for row in rows], rel=1e-12, abs=1e-9)


def median_error(truths, notion, lanes, **options):
    rescue, draw, off = RescueDP(notion, **options), LaneDraw(notion, seed=3, lanes=lanes), np.zeros(lanes)
    for step, truth in enumerate(truths.tolist(), start=1):
        off += np.abs(draw.run(rescue, step, np.full(lanes, truth)) - truth)
    return float(np.median(off)) / len(truths)


@pytest.mark.parametrize(
    ("stream", "truncate", "epsilon"),
    keep(
        product(["sine", "gefcom_z4"], ["0", "1"], ["0.1", "1.0"]),
        lambda *case: case in (("sine", "1", "0.1"), ("gefcom_z4", "0", "1.0")),
    ),
)
def test_the_benchmarks_errors(oracles, stream, truncate, epsilon):
    """Medians over repetitions at w = 20, where tails are light: both are known to about one per cent."""
    truths = np.loadtxt(oracles / "streams" / f"{stream}.csv")
    key = {"stream": stream, "w": "20", "eps": epsilon, "truncate": truncate}
    with (oracles / "w_event_errors.csv").open() as file:
        rows = {r["mechanism"]: r for r in csv.DictReader(file) if all(r[k] == v for k, v in key.items())}
    notion, counts = WEvent(float(epsilon), 20), truncate == "1"
    for mechanism, options in {
        "RescueDP1D_noKF": {"filtered": False},
        "RescueDP1D": {"variance": truths.var()},
    }.items():
        found = median_error(truths, notion, 300, counts=counts, **options)
        assert found == pytest.approx(float(rows[mechanism]["mae_median"]), rel=0.035)
    sound = median_error(truths, notion, 300, counts=counts)
    assert sound == pytest.approx(float(rows["RescueDP1D"]["mae_median"]), rel=0.06), "an honest q costs nothing here"


@pytest.mark.parametrize("stream", ["const", "gefcom_z4"])
def test_a_wide_window_makes_it_useless_without_its_filter(oracles, stream):
    """w = 100, ε = 1: the medians are as heavy-tailed as the benchmark's, far above Uniform's mean error of 100."""
    truths = np.loadtxt(oracles / "streams" / f"{stream}.csv")
    with (oracles / "w_event_errors.csv").open() as file:
        (row,) = (
            r
            for r in csv.DictReader(file)
            if (r["stream"], r["w"], r["eps"], r["truncate"], r["mechanism"])
            == (stream, "100", "1.0", "0", "RescueDP1D_noKF")
        )
    found = median_error(truths, WEvent(1.0, 100), 1000, filtered=False)
    assert float(row["mae_median"]) / 2 < found < float(row["mae_median"]) * 2
    assert found > 1000


# Against a second implementation ------------------------------------------------------------------------------------


def plain(truths, units, w, epsilon, sensitivity):
    """One lane in plain Python, by the formulas of the class: what is filtered with an estimated q."""
    losses, changes, z, paid, outputs = [], [], [], [], []
    interval, following, error = 1.0, 0, 100.0
    for t, x in enumerate(truths):
        if z:
            weight = sum(e * e for e in paid)
            mean = sum(e * e * v for e, v in zip(paid, z, strict=True)) / weight
            spread = sum(e * e * (v - mean) ** 2 for e, v in zip(paid, z, strict=True)) / weight
            error += max(0.0, spread - 2 * sensitivity**2 * len(z) / weight)
        losses.append(0.0)
        if t != following:
            outputs.append(outputs[-1])
            continue
        left = epsilon - sum(losses[max(0, t - w + 1) : t])
        e = min(min(0.2 * math.log(interval + 1), 0.6) * left, epsilon / 5)
        losses[t] = e
        z.append(x + next(units) * sensitivity / e)
        paid.append(e)
        if not outputs:
            outputs.append(z[-1])
            following = 1
            continue
        gain = error / (error + (sensitivity * w / epsilon) ** 2)
        error *= 1 - gain
        outputs.append(outputs[-1] + gain * (z[-1] - outputs[-1]))
        changes.append(abs(outputs[-1] - outputs[-2]))
        signal = 0.9 * changes[-1] + 0.1 * sum(changes[-3:]) / len(changes[-3:])
        scale = sensitivity / min(epsilon - sum(losses[max(0, t + 2 - w) : t + 1]), epsilon / 5)
        interval = max(1.0, interval + 10 * (1 - (signal / scale) ** 2))
        following = t + int(interval)
    return np.array(outputs), losses


@pytest.mark.parametrize(
    ("w", "sensitivity", "swing", "noise"), [(1, 1.0, 200, 1), (7, 0.5, 200, 1), (40, 3.92, 200, 1), (9, 2.0, 0, 3)]
)
def test_a_second_implementation(w, sensitivity, swing, noise):
    """Where values swing, and where they stand still, so that intervals grow from the first change on."""
    truths = 50 + swing * (np.sin(np.arange(300) / 9) + (np.arange(300) % 60 == 0))
    expected, losses = plain(truths, (noise * x for x in sines()), w, 0.7, sensitivity)
    outputs, draw = run_scripted(RescueDP(WEvent(0.7, w), sensitivity), truths, (noise * x for x in sines()))
    assert outputs == pytest.approx(expected, rel=1e-9)
    assert [draw.losses.get(k, 0.0) for k in range(1, 301)] == pytest.approx(losses, rel=1e-9)
    assert 6 <= sum(loss > 0 for loss in losses) <= 300


@pytest.mark.parametrize("options", [{}, {"filtered": False}, {"variance": 4.0}, {"counts": True}])
@pytest.mark.parametrize("notion", [WEvent(1.0, 48), WEvent(0.5, 1)])
def test_the_contract_of_every_mechanism(notion, options):
    check_mechanism(lambda: RescueDP(notion, **options), notion)


# What it looks at ---------------------------------------------------------------------------------------------------


def test_outputs_do_not_depend_on_what_comes_later_nor_on_steps_that_are_not_sampled():
    notion, rng = WEvent(1.0, 12), np.random.default_rng(5)
    truths = 100 + rng.normal(0, 0.5, 200)
    outputs, draw = run_scripted(RescueDP(notion), truths, sines())
    unseen = np.array([k not in draw.losses for k in range(1, 201)])
    assert 20 < unseen.sum() < 195
    other = np.where(unseen, 1e6, truths)
    assert np.array_equal(run_scripted(RescueDP(notion), other, sines())[0], outputs)
    later = np.where(np.arange(200) >= 150, 1e6, truths)
    assert np.array_equal(run_scripted(RescueDP(notion), later, sines())[0][:150], outputs[:150])


def test_the_estimate_of_q_is_the_variance_of_the_stream():
    """Values of variance 25 under Laplace noise of scales 2/0.1 to 2/0.4: with the noise left in it would be above 75."""
    rescue, rng = RescueDP(WEvent(1.0, 2), 2.0), np.random.default_rng(1)
    lanes = rescue._move_to(1, (500,))
    for _ in range(300):
        loss = rng.uniform(0.1, 0.4, 500) * (rng.random(500) < 0.8)
        noise = rng.laplace(0, 2 / np.maximum(loss, 0.1))
        rescue._estimate(lanes, np.where(loss > 0, 1000 + rng.normal(0, 5, 500) + noise, np.nan), loss)
    assert rescue._drift(lanes).mean() == pytest.approx(25, rel=0.06)


def test_a_sample_that_nothing_is_left_for_is_put_off():
    """w = 900: budgets fall by a seventh a sample. Published code goes on with what rounding has left of the window."""
    notion = WEvent(1.0, 900)
    truths = 1e30 * np.arange(500.0)  # moves much at every step, so that each is sampled
    _, draw = run_scripted(RescueDP(notion, filtered=False), truths, iter(np.zeros(1000)))
    assert min(draw.losses.values()) >= 2.0**-40
    assert 100 < len(draw.losses) < 400


def test_what_it_is_not_for():
    with pytest.raises(InvalidInput, match="delta 0"):
        RescueDP(WEvent(1.0, 4, 1e-6))
    with pytest.raises(InvalidInput, match="from 0 on"):
        RescueDP(WEvent(1.0, 4), variance=math.nan)
    with pytest.raises(InvalidInput, match="published by its plan"):
        RescueDP.for_stream(WEvent(1.0, 4).plan(), name="", steps=None, begin=1, cells=1, touched=1)
    rescue, draw = RescueDP(WEvent(1.0, 4)), ReleaseDraw(Accountant(WEvent(1.0, 4)))
    draw.run(rescue, 1, 5.0)
    with pytest.raises(InvalidInput, match="steps in order"), draw.step(2) as d:
        rescue.step(1, 5.0, d)
    with pytest.raises(InvalidInput, match="cannot follow those of shape"), draw.step(2) as d:
        rescue.step(2, np.ones(2), d)


# Accounts in an array -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("epsilon", "w"), [(0.1, 65), (1.0, 1), (0.3, 5)])
def test_accounts_in_an_array_are_the_real_accounts(epsilon, w):
    notion, lanes, rng = WEvent(epsilon, w), 3, np.random.default_rng(w)
    draw, real = LaneDraw(notion, seed=1, lanes=lanes), SimulatedDraw([Accountant(notion) for _ in range(3)], 1, lanes)
    for step in np.cumsum(rng.choice([1, 1, 1, 2, 30], 200)).tolist():
        with draw.step(step) as d, real.step(step) as r:
            room, true = d.headroom(), r.headroom()
            assert (room <= true).all()
            assert room == pytest.approx(true, abs=w * 2.0**-58 * epsilon)
            loss = room * rng.choice([0.0, 0.2, 0.5, 1.0], lanes)
            assert np.array_equal(d(None, 2.0, loss=loss), r(None, 2.0, loss=loss), equal_nan=True)


def test_an_array_refuses_what_a_real_account_refuses():
    notion = WEvent(1.0, 3)
    draw = LaneDraw(notion, seed=1, lanes=2)
    with draw.step(1) as d:
        d(None, 1.0, loss=np.array([0.6, 0.1]))
    with pytest.raises(Exception, match=r"lane 0: a loss of 0\.5 would bring the risk to 1\.1"), draw.step(3) as d:
        d(None, 1.0, loss=np.array([0.5, 0.1]))
    with draw.step(4) as d:
        assert d.headroom() == pytest.approx([1.0, 1.0])
        for wrong in (
            {"loss": -0.1},
            {"loss": math.nan},
            {"scale": 1.0},
            {"loss": 0.1, "size": 2},
            {"loss": 0.1, "age": 1},
        ):
            with pytest.raises(InvalidInput):
                d(None, 1.0, **wrong)
    with pytest.raises(InvalidInput, match="inside a step"):
        draw(None, 1.0, loss=0.1)
    with pytest.raises(InvalidInput, match="steps ascend"), draw.step(4):
        pass


def test_the_noise_of_an_array_has_its_scale():
    draw, lanes = LaneDraw(WEvent(1.0, 1), seed=1, lanes=4000), 4000
    sizes = []
    for step in range(1, 11):
        with draw.step(step) as d:
            sizes.append(np.abs(d(None, 3.0, loss=np.full(lanes, 0.5))).mean())
    assert np.mean(sizes) == pytest.approx(6.0, rel=0.03)


def test_lanes_go_the_way_of_real_accounts():
    """The whole mechanism, step by step: with an account a lane, and with all of them in an array."""
    notion, lanes = WEvent(0.1, 65), 4
    accounts = SimulatedDraw([Accountant(notion) for _ in range(lanes)], seed=7, lanes=lanes)
    array, one, other = LaneDraw(notion, seed=7, lanes=lanes), RescueDP(notion, 3.92), RescueDP(notion, 3.92)
    truths = 2000 + 300 * np.sin(np.arange(400) / 15)
    for step, truth in enumerate(truths.tolist(), start=1):
        first, second = (draw.run(m, step, np.full(lanes, truth)) for draw, m in ((accounts, one), (array, other)))
        assert first == pytest.approx(second, rel=1e-6)


# What the published code attains ------------------------------------------------------------------------------------


def test_reading_the_future_breaks_the_promise():
    """One person moves the last w steps; outputs that come before tell it nearly every time, and no budget pays for it."""
    future = FutureVariance(looks_ahead=True)
    counts = []
    for which in (0, 1):
        restless = future(which, 1500)[:, 0]
        counts.append(int((restless > future.threshold).sum()))
    attained = least_epsilon(counts[1], 1500, counts[0], 1500, 0.0, 1e-6)
    assert attained > 3 * future.notion.epsilon
    honest = FutureVariance(looks_ahead=False)
    told = [int((honest(which, 1500)[:, 0] > future.threshold).sum()) for which in (0, 1)]
    assert least_epsilon(max(told), 1500, min(told), 1500, 0.0, 1e-6) < 0.5 * future.notion.epsilon
