"""Reused noise: one value for each phase, of the right scale, independent between phases, through restarts and odd days."""

import datetime
import json
import math
import zoneinfo

import numpy as np
import pytest

from halflife import Accountant, Classical, InvalidInput, ReleaseDraw, WEvent
from halflife.local_time import EPOCH
from halflife.mechanisms.base import Request, Turn
from halflife.mechanisms.reused import ReusedNoise
from halflife.notions.almost_periodic.notion import AlmostPeriodic
from halflife.steps import Steps


def run(mechanism, account, steps, truth=lambda k: 0, draw=None):
    draw = draw or ReleaseDraw(account)
    return [draw.run(mechanism, k, truth(k)) for k in steps]


def test_a_phase_has_one_noise_for_ever():
    notion = AlmostPeriodic(1.0, 5)
    made = run(ReusedNoise(notion.plan(10.0)), Accountant(notion), range(1, 26), lambda k: 1000 * k)
    noise = np.array(made) - 1000 * np.arange(1, 26)
    assert np.allclose(noise.reshape(5, 5), noise[:5], atol=1e-6)
    assert len(set(noise[:5].tolist())) == 5


def test_strong_noise_is_fresh_atop_the_pattern():
    notion = AlmostPeriodic(1.0, 5, strong=True)
    made = run(ReusedNoise(notion.plan(10.0, variation_sensitivity=1.0)), Accountant(notion), range(1, 26))
    assert len({round(x, 6) for x in made}) == 25


@pytest.mark.parametrize("wrong", [0.9, 1.1])
def test_reused_noise_has_its_scale_and_a_test_that_notices_ten_per_cent(wrong):
    """Mean |noise| of 20,000 phases: its standard error is 0.7 % of the scale."""
    notion = AlmostPeriodic(1.0, 20_000)
    plan = notion.plan(3.0)
    made = np.abs(
        run(ReusedNoise(plan, size=20_000), Accountant(notion), [1], lambda k: np.zeros(20_000, dtype=np.int64))[0]
    )
    assert made.mean() == pytest.approx(plan.pattern_scale(1), rel=0.04)
    assert made.mean() != pytest.approx(plan.pattern_scale(1) * wrong, rel=0.04)


def test_noise_of_different_phases_is_independent():
    notion = AlmostPeriodic(1.0, 4)
    rows = np.array(
        [
            np.concatenate(run(ReusedNoise(notion.plan(2.0), size=1), Accountant(notion), range(1, 5), lambda k: [0]))
            for _ in range(1500)
        ]
    )
    correlations = np.corrcoef(rows.T)[np.triu_indices(4, 1)]
    assert np.abs(correlations).max() < 5 / np.sqrt(1500)


def test_a_stream_may_start_in_the_middle_of_a_period_and_skip_steps():
    notion = AlmostPeriodic(1.0, 6)
    account = Accountant(notion)
    run(ReusedNoise(notion.plan(1.0), phase_of=lambda k: (k + 3) % 6), account, [1, 2, 9, 10, 21, 100, 101, 102, 103])
    assert account.risk() <= 1.0 + 1e-9
    assert account.draws <= {f"phase {i}" for i in range(6)}


@pytest.mark.parametrize("strong", [False, True])
@pytest.mark.parametrize(("day", "hours"), [("2026-03-28", 71), ("2026-10-24", 73)])
def test_phases_that_follow_the_clock_repeat_and_skip_on_odd_days(day, hours, strong):
    """Hours of a day in London: on the 23-hour day a phase is skipped, on the 25-hour day one comes twice; each has one noise."""
    clock, zone = Steps.of("1 h", day, "Europe/London"), zoneinfo.ZoneInfo("Europe/London")
    notion = AlmostPeriodic(1.0, 24, strong=strong, clock=clock)
    account, plan = Accountant(notion), notion.plan(1.0)
    draw = ReleaseDraw(account)
    made = run(ReusedNoise(plan), account, range(1, hours + 1), draw=draw)
    by_hour = {}
    for k, value in enumerate(made, start=1):
        local = (EPOCH + datetime.timedelta(microseconds=clock.start(k))).astimezone(zone)
        by_hour.setdefault(local.hour, set()).add(round(value, 6))
    assert sorted(by_hour) == list(range(24))
    assert strong or all(len(values) == 1 for values in by_hour.values())
    assert account.draws == {f"phase {hour}" for hour in range(24)} == set(draw.state())
    assert account.risk() == pytest.approx(1.0)
    planned = [r for k in range(1, hours + 1) for r in plan.releases_at(k)]
    assert Accountant.replay(notion, planned).risk() == pytest.approx(1.0)
    assert Accountant.replay(AlmostPeriodic(1.0, 24, strong=strong), planned).risk() == math.inf
    assert Accountant.from_json(account.to_json()).agrees(account)


def test_reused_noise_survives_a_restart_and_is_never_drawn_again():
    notion = AlmostPeriodic(1.0, 3, strong=True)
    plan, account = notion.plan(5.0), Accountant(notion)
    draw = ReleaseDraw(account)
    run(ReusedNoise(plan), account, range(1, 6), draw=draw)
    saved, kept = account.to_json(), json.loads(json.dumps(draw.state()))
    again = ReleaseDraw(Accountant.from_json(saved))
    with pytest.raises(InvalidInput, match="drawn before and is not at hand"):
        again.run(ReusedNoise(plan), 6, 0)
    again = ReleaseDraw(Accountant.from_json(saved))
    again.restore(kept)
    again.run(ReusedNoise(plan), 6, 0)
    assert again.state() == kept


def test_noise_of_old_renewals_is_forgotten():
    notion = AlmostPeriodic(1.0, 2, renew=2)
    account = Accountant(notion)
    draw = ReleaseDraw(account)
    run(ReusedNoise(notion.plan(1.0, horizon=40)), account, range(1, 41), draw=draw)
    assert {"phase 0, renewal 8", "phase 1, renewal 8", "phase 0, renewal 9", "phase 1, renewal 9"} <= set(draw.state())
    assert len(draw.state()) <= 5


def test_a_plan_of_another_notion_is_refused():
    with pytest.raises(InvalidInput, match="needs a plan of almost-periodic"):
        ReusedNoise(Classical(1.0).plan(horizon=3))


# Many steps at once ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strong", [False, True], ids=["weak", "strong"])
def test_within_a_batch_noise_that_is_out_of_use_is_drawn_and_charged_anew(strong):
    """Under a notion laid over them patterns leave the account after a period; step by step it is the same."""
    notion = AlmostPeriodic(9.0, 2, strong=strong, over=WEvent(99.0, 4))
    plan = notion.plan(1.0, **({"variation_sensitivity": 1.0} if strong else {}))
    steps, batch, single = [1, 2, 3, 40, 41, 42], ReleaseDraw(Accountant(notion)), ReleaseDraw(Accountant(notion))
    made = batch.run_batch(ReusedNoise(plan), steps, [0] * len(steps))
    releases = []
    for step in steps:
        single.run(ReusedNoise(plan), step, 0)
        releases += single.releases
    assert list(batch.releases) == releases
    assert sum(r.draw is not None for r in releases) == (4 if strong else 6)
    assert batch.names == single.names == batch.account.draws
    if not strong:
        assert made[0] == pytest.approx(made[2], abs=1e-6)
        assert made[3] == pytest.approx(made[5], abs=1e-6)
        assert abs(made[0] - made[4]) > 1e-6


class Name(str):
    """A name that counts how often it is looked up."""

    looked = 0

    def __hash__(self):
        Name.looked += 1
        return super().__hash__()

    __eq__ = str.__eq__


def count_lookups(period, streams, steps=300):
    """How often names are looked up in a batch of so many steps of so many streams."""
    notion = AlmostPeriodic(1e4, period)
    names = [[Name(f"s{i}: phase {k}") for k in range(period)] for i in range(streams)]
    Name.looked = 0
    ReleaseDraw(Accountant(notion)).batch(
        Turn(k + 1, Request(names[i][k % period], 1.0, scale=1.0, lattice=1.0))
        for k in range(steps)
        for i in range(streams)
    )
    return Name.looked


def test_a_step_costs_the_same_however_many_names_are_in_use():
    one = count_lookups(10, 1)
    assert count_lookups(100, 1) <= 1.3 * one
    assert count_lookups(100, 2) <= 2.2 * count_lookups(100, 1)
