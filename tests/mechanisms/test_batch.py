"""A batch: charged as its steps one by one, all or nothing, drawn once and in one call, of the right scale."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from halflife import (
    Accountant,
    AlmostPeriodic,
    BudgetExceeded,
    Classical,
    ExponentialDiscount,
    InvalidInput,
    PlannedNoise,
    ReleaseDraw,
    ReusedNoise,
    SimulatedDraw,
    WEvent,
    noise,
)
from halflife.mechanisms import Request, Turn, record

MECHANISMS = {
    "planned": (WEvent(1.0, 12), lambda n: PlannedNoise(n.plan(sensitivity=0.5))),
    "planned, every 4": (WEvent(1.0, 12), lambda n: PlannedNoise(n.plan(every=4))),
    "planned, fading": (ExponentialDiscount(1.0, half_life=5), lambda n: PlannedNoise(n.plan(cap=0.5))),
    "planned, wide": (Classical(1.0), lambda n: PlannedNoise(n.plan(horizon=40, span=7))),
    "weak": (AlmostPeriodic(1.0, 6), lambda n: ReusedNoise(n.plan(2.0))),
    "strong": (AlmostPeriodic(1.0, 6, strong=True), lambda n: ReusedNoise(n.plan(2.0, variation_sensitivity=1.0))),
    "renewed": (
        AlmostPeriodic(1.0, 3, strong=True, renew=2, over=WEvent(1.0, 20)),
        lambda n: ReusedNoise(n.plan(2.0)),
    ),
}


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("cuts", [(40,), (7, 7, 26), (1,) * 40])
def test_a_batch_is_charged_and_recorded_as_its_steps_one_by_one(name, cuts):
    notion, make = MECHANISMS[name]
    mechanism, at_once, one_by_one = make(notion), Accountant(notion), Accountant(notion)
    draw, recorded, scales = ReleaseDraw(at_once), [], []
    for first, last in itertools.pairwise(np.cumsum([1, *cuts]).tolist()):
        steps = range(first, last)
        turns = [Turn(k, r) for k, r in zip(steps, mechanism.requests(steps), strict=True) if r is not None]
        batch = draw.batch(turns)
        recorded += [r for releases in batch.releases for r in releases]
        scales += batch.scales
        for drawn in batch.noise():
            assert isinstance(7 + drawn, float)
    stepwise, alone, sizes = ReleaseDraw(one_by_one), [], []
    for step in range(1, 41):
        if stepwise.run(mechanism, step, 7) is not None:
            alone += stepwise.releases
            sizes.append(stepwise.scales)
    assert recorded == alone
    assert {r.span for r in recorded} == {mechanism.plan.request.span}
    assert scales == sizes
    assert at_once.to_json() == one_by_one.to_json()
    assert set(draw.state()) == set(stepwise.state())
    if name != "renewed":  # else a name begins anew
        assert record(Turn(k, r) for k, r in enumerate(mechanism.requests(range(1, 41)), start=1) if r) == recorded


def test_shared_noise_is_one_noise_within_a_batch_and_in_the_next():
    notion = AlmostPeriodic(1.0, 3)
    mechanism, draw = ReusedNoise(notion.plan(2.0)), ReleaseDraw(Accountant(notion))
    seen = [
        1 + drawn
        for steps in (range(1, 8), range(8, 13))
        for drawn in draw.batch(map(Turn, steps, mechanism.requests(steps))).noise()
    ]
    assert np.array_equal(seen[:3] * 4, seen)
    assert len(set(seen)) == 3


@pytest.mark.parametrize("strong", [False, True])
def test_a_batch_that_is_refused_leaves_no_trace(strong, monkeypatch):
    notion = AlmostPeriodic(1.0, 4, strong=strong)
    account = Accountant(notion)
    draw = ReleaseDraw(account)
    good, bad = (ReusedNoise(AlmostPeriodic(e, 4, strong=strong).plan(1.0)).requests(range(1, 5)) for e in (1.0, 9.0))
    before = account.to_json()
    monkeypatch.setattr(noise, "draw_many", lambda calibrations: pytest.fail("drawn though it was refused"))
    with pytest.raises(BudgetExceeded):
        draw.batch(map(Turn, range(1, 5), [*good[:2], *bad[2:]]))
    assert account.to_json() == before
    assert draw.state.__self__._stored == {}


def test_nothing_is_drawn_before_all_is_charged_and_then_once(monkeypatch):
    called, real = [], noise.draw_many
    monkeypatch.setattr(noise, "draw_many", lambda c: called.append(len(c)) or real(c))
    account = Accountant(WEvent(1.0, 12))
    batch = ReleaseDraw(account).batch(
        map(Turn, range(1, 31), PlannedNoise(account.notion.plan()).requests(range(1, 31)))
    )
    assert account.step == 30
    assert called == []
    batch.draw()
    assert len(list(batch.noise())) == 30
    assert list(batch.noise()) == [], "handed out once"
    assert called == [30]


def test_a_batch_within_a_step_is_refused():
    draw = ReleaseDraw(Accountant(Classical(1.0)))
    with pytest.raises(InvalidInput, match="still open"), draw.step(1):
        draw.batch([Turn(2, Request(None, 1.0, loss=0.1))])


def test_a_copy_goes_its_own_way_with_the_same_noise():
    notion = AlmostPeriodic(1.0, 2)
    draw = ReleaseDraw(Accountant(notion))
    ask = ReusedNoise(notion.plan(1.0)).requests
    (first,) = draw.batch(map(Turn, [1], ask([1]))).noise()
    ahead = draw.copy()
    again, _ = ahead.batch(map(Turn, [3, 4], ask([3, 4]))).noise()
    assert 5 + again == 5 + first
    assert (draw.account.step, ahead.account.step) == (1, 4)
    assert set(draw.state()) < set(ahead.state())


def test_lateness_and_span_are_recorded():
    batch = ReleaseDraw(Accountant(Classical(1.0))).batch(
        [Turn(9, Request(None, 1.0, loss=0.1, age=2, span=4), late=3)]
    )
    ((release,),) = batch.releases
    assert record([Turn(9, Request(None, 1.0, loss=0.1, age=2, span=4), late=3)]) == [release]
    assert (release.step, release.age, release.span, release.data_time) == (9, 5, 4, 4)
    draw = ReleaseDraw(Accountant(Classical(1.0)))
    with draw.step(9, late=3, span=4) as d:
        d(None, 1.0, loss=0.1, age=2)
    assert draw.releases == (release,)


def test_noise_of_a_batch_has_the_scale_that_is_recorded_and_a_test_that_notices_ten_per_cent():
    """Mean |noise| / scale of 20,000 draws of two scales: its standard error is 0.7 %."""
    account = Accountant(Classical(1e6))
    losses = [0.5, 0.02] * 10_000
    batch = ReleaseDraw(account).batch(Turn(1, Request(None, 3.0, loss=loss)) for loss in losses)
    drawn = np.array([0.0 + n for n in batch.noise()]) / np.array([scale for (scale,) in batch.scales])
    assert np.abs(drawn).mean() == pytest.approx(1.0, rel=0.04)
    for wrong in (0.9, 1.1):
        assert np.abs(drawn).mean() != pytest.approx(wrong, rel=0.04)
    assert abs(np.corrcoef(drawn[:-1], drawn[1:])[0, 1]) < 5 / np.sqrt(20_000)


def test_a_simulated_batch_draws_what_its_steps_would():
    notion, values = WEvent(1.0, 12), np.linspace(1, 2, 30)
    mechanism = PlannedNoise(notion.plan())
    at_once, one_by_one = (SimulatedDraw([Accountant(notion)], seed=4, lanes=3) for _ in range(2))
    batch = at_once.run_batch(mechanism, range(1, 31), values.tolist())
    steps = [one_by_one.run(mechanism, k, x) for k, x in enumerate(values.tolist(), start=1)]
    assert np.array_equal(batch, steps)
    assert np.shape(batch) == (30, 3)


def test_mechanisms_refuse_plans_that_nobody_proved_them_for():
    for notion in (AlmostPeriodic(1.0, 4), AlmostPeriodic(1.0, 4, strong=True)):
        with pytest.raises(InvalidInput, match="nobody has proved that almost-periodic holds with fresh noise"):
            PlannedNoise(notion.plan())
    with pytest.raises(InvalidInput, match="nobody has proved that noise may be used again there"):
        ReusedNoise(WEvent(1.0, 4).plan())
