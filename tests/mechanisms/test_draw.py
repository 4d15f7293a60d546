"""Draws: charged before they are drawn, whole steps or nothing, shared noise the same noise."""

from __future__ import annotations

import copy
import json
import math

import numpy as np
import pytest

from halflife import (
    Accountant,
    AlmostPeriodic,
    BudgetExceeded,
    Classical,
    InvalidInput,
    PlannedNoise,
    Release,
    ReleaseDraw,
    SimulatedDraw,
    WEvent,
)
from halflife.mechanisms import publish_series


def test_a_step_is_charged_whole_or_not_at_all():
    account = Accountant(Classical(1.0))
    draw = ReleaseDraw(account)
    with pytest.raises(BudgetExceeded), draw.step(1) as d:
        d(None, 1.0, loss=0.6)
        d(None, 1.0, loss=0.6)
    assert account.risk() == 0
    with draw.step(1) as d:
        d(None, 1.0, loss=0.6)
        d(None, 1.0, loss=0.4)
    assert account.used() == 1.0
    assert [r.loss for r in draw.releases] == [0.6, 0.4]


def test_headroom_inside_a_step_counts_what_the_step_has_drawn():
    draw = ReleaseDraw(Accountant(WEvent(1.0, 3)))
    with draw.step(1) as d:
        d(None, 1.0, loss=0.25)
        assert d.headroom() == 0.75


def test_shared_noise_is_drawn_once_and_survives_only_committed_steps():
    class Shares(Classical):
        shares_draws = True

    account = Accountant(Shares(100.0))
    draw = ReleaseDraw(account)
    with pytest.raises(KeyError), draw.step(1) as d:
        lost = 0.0 + d("phase 0", 1.0, scale=10.0, lattice=0.5)
        raise KeyError
    seen = []
    for step in (1, 5, 9):
        with draw.step(step) as d:
            seen.append(3.5 + d("phase 0", 1.0, scale=10.0, lattice=0.5))
    assert seen[0] == seen[1] == seen[2] != 3.5 + lost
    assert "secret" in repr(draw._stored)
    with pytest.raises(InvalidInput, match="shared noise keeps its scale"), draw.step(10) as d:
        d("phase 0", 1.0, scale=5.0, lattice=0.5)


BAD = [
    (lambda d: d(None, 1.0), "either a loss or a scale"),
    (lambda d: d(None, 1.0, loss=0.1, scale=1.0), "either a loss or a scale"),
    (lambda d: d("v", 1.0, scale=1.0), "needs lattice="),
    (lambda d: d("v", 1.0, scale=1.0, lattice=0.1, atop=("w", 1.0, 1.0)), "cannot itself be shared"),
    (lambda d: d(None, float("nan"), loss=0.1), "sensitivity is NaN"),
    (lambda d: d(None, 1.0, loss=float("nan")), "loss is NaN"),
    (lambda d: d(None, 1.0, loss=0.1, age=-1), "age must be at least 0"),
]


@pytest.mark.parametrize(("act", "message"), BAD, ids=[b[1] for b in BAD])
def test_bad_draws_are_refused_and_cost_nothing(act, message):
    account = Accountant(Classical(1.0))
    with pytest.raises(InvalidInput) as error, ReleaseDraw(account).step(1) as d:
        act(d)
    assert message in str(error.value)
    assert account.risk() == 0


def test_noise_outside_a_step_and_steps_inside_steps_are_refused():
    draw = ReleaseDraw(Accountant(Classical(1.0)))
    with pytest.raises(InvalidInput, match="inside a step"):
        draw(None, 1.0, loss=0.1)
    with pytest.raises(InvalidInput, match="still open"), draw.step(1), draw.step(2):
        pass


def test_lanes_that_draw_nothing_get_nothing_to_use():
    draw = SimulatedDraw([Accountant(Classical(1.0)) for _ in range(2)], seed=1, lanes=2)
    with draw.step(1) as d:
        noise = d(None, 1.0, loss=np.array([0.5, 0.0]))
    assert np.isfinite(noise[0])
    assert np.isnan(noise[1])


@pytest.mark.parametrize("every", [1, 4])
def test_a_series_at_once_is_charged_as_step_by_step(every):
    notion = WEvent(1.0, 12)
    plan, values = notion.plan(every=every, sensitivity=0.5), np.linspace(1, 2, 50)
    at_once, one_by_one = Accountant(notion), Accountant(notion)
    noisy, releases = publish_series(plan, values, at_once)
    draw, mechanism, published = ReleaseDraw(one_by_one), PlannedNoise(plan), []
    for step, value in enumerate(values.tolist(), start=1):
        with draw.step(step) as d:
            published.append(mechanism.step(step, value, d))
    assert at_once.to_json() == one_by_one.to_json()
    assert [y is None for y in published] == np.isnan(noisy).tolist()
    assert len(releases) == -(-50 // every)


def test_a_series_that_does_not_fit_draws_nothing():
    account = Accountant(WEvent(1.0, 12))
    account.admit(Release(1, 0.5))
    with pytest.raises(BudgetExceeded):
        publish_series(WEvent(1.0, 12).plan(), [1.0] * 12, account)
    assert account.risk() == 0.5
    with pytest.raises(InvalidInput, match="cannot be charged to an account of"):
        publish_series(WEvent(2.0, 12).plan(), [1.0] * 12, account)


def test_planned_noise_refuses_a_strangers_state():
    with pytest.raises(InvalidInput, match="another mechanism"):
        PlannedNoise(WEvent(1.0, 2).plan()).restore({"x": 1})


def test_shared_noise_survives_a_restart_and_is_never_drawn_again():
    class Shares(Classical):
        shares_draws = True

    account = Accountant(Shares(100.0))
    draw = ReleaseDraw(account)
    with draw.step(1) as d:
        first = 3.5 + d("phase 0", 1.0, scale=10.0, lattice=0.5)
    again = ReleaseDraw(account)
    with pytest.raises(InvalidInput, match="would let the two be averaged"), again.step(2) as d:
        d("phase 0", 1.0, scale=10.0, lattice=0.5)
    again.restore(json.loads(json.dumps(draw.state())))
    with again.step(2) as d:
        assert 3.5 + d("phase 0", 1.0, scale=10.0, lattice=0.5) == first
    with pytest.raises(InvalidInput, match="keeps its scale and its shape"), again.step(3) as d:
        d("phase 0", 1.0, scale=10.0, lattice=0.25)


def test_fresh_noise_can_be_added_once():
    with ReleaseDraw(Accountant(Classical(1.0))).step(1) as d:
        drawn = d(None, 1.0, loss=0.1)
        assert isinstance(100.0 + drawn, float)
        with pytest.raises(InvalidInput, match="added to a value before"):
            37.0 + drawn


def test_two_draws_on_one_account_cannot_overwrite_each_other():
    account = Accountant(Classical(1.0))
    one, two = ReleaseDraw(account), ReleaseDraw(account)
    with pytest.raises(InvalidInput, match="has changed since"), one.step(1) as a:
        a(None, 1.0, loss=0.9)
        with two.step(1) as b:
            b(None, 1.0, loss=0.9)
    assert account.risk() == 0.9
    assert one.releases == ()
    assert one.headroom() == account.headroom()


def test_a_series_with_a_bad_value_is_not_charged():
    notion = WEvent(1.0, 6)
    account = Accountant(notion)
    with pytest.raises(InvalidInput, match="nothing was charged"):
        publish_series(notion.plan(), [1.0, float("nan")], account)
    assert account.risk() == 0


def test_nothing_is_drawn_that_was_refused(monkeypatch):
    drawn = []
    monkeypatch.setattr("halflife.noise.draw_many", drawn.append)
    with pytest.raises(BudgetExceeded), ReleaseDraw(Accountant(Classical(1.0))).step(1) as d:
        d(None, 1.0, loss=1.5)
    assert drawn == []


def test_fresh_noise_atop_a_pattern_records_both_as_they_are():
    class Shares(Classical):
        shares_draws = True

    draw = ReleaseDraw(Accountant(Shares(100.0)))
    for step in (1, 2):
        with draw.step(step) as d:
            d(None, 2.0, scale=4.0, lattice=0.5, atop=("phase", 3.0, 6.0))
        recorded = [(r.sensitivity, r.scale, r.draw, r.atop) for r in draw.releases]
        fresh = (2.0, 4.0, None, "phase")
        assert recorded == ([(3.0, 6.0, "phase", None), fresh] if step == 1 else [fresh])


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("grid", "x"), ("grid", None), ("grid", math.nan), ("grid", 2.0), ("units", 3), ("units", [1.0]), ("units", [True]),
        ("refinement", -3), ("refinement", 0), ("refinement", 1e9), ("lattice", 0.0), ("loss", -1.0), ("scale", "a"),
        ("noise", [123456789]),
    ],
)  # fmt: skip
def test_kept_noise_that_nobody_wrote_is_refused_without_a_word_about_it(key, value):
    draw = ReleaseDraw(Accountant(AlmostPeriodic(1.0, 4)))
    with draw.step(1) as d:
        d("phase 0", 1.0, scale=8.0, lattice=1.0)
    state = draw.state()
    ReleaseDraw(Accountant(AlmostPeriodic(1.0, 4))).restore(json.loads(json.dumps(state)))
    state["phase 0"][key] = value
    with pytest.raises(InvalidInput, match=r"^kept noise is not as it was written$"):
        ReleaseDraw(Accountant(AlmostPeriodic(1.0, 4))).restore(state)
    for other in ([], None, "x"):
        with pytest.raises(InvalidInput, match="kept by name"):
            ReleaseDraw(Accountant(AlmostPeriodic(1.0, 4))).restore(other)


def test_headroom_is_that_of_the_steps_that_the_open_step_covers():
    account = Accountant(WEvent(1.0, w=2))
    account.admit(Release(1, 0.75))
    with ReleaseDraw(account).step(4, span=3) as d:
        assert d.headroom() == account.headroom(4, span=3) == 0.25
        d(None, 1.0, loss=d.headroom())


def test_a_batch_looks_at_its_values_before_it_charges():
    account = Accountant(Classical(1.0))
    draw, mechanism = ReleaseDraw(account), PlannedNoise(Classical(1.0).plan(horizon=4))
    for truths in ([1.0, 2.0, math.nan, 4.0], [1.0, 2.0]):
        with pytest.raises(InvalidInput, match="nothing was charged"):
            draw.run_batch(mechanism, [1, 2, 3, 4], truths)
        assert account.headroom(5) == 1.0


def test_noise_at_hand_is_not_replaced_and_not_copied():
    one, other = (ReleaseDraw(Accountant(AlmostPeriodic(1.0, 3))) for _ in range(2))
    for draw in (one, other):
        with draw.step(1) as d:
            d("phase 0", 1.0, scale=3.0, lattice=1.0)
    one.restore(one.state())
    with pytest.raises(InvalidInput, match="at hand already"):
        one.restore(other.state())
    with one.step(2) as d, pytest.raises(InvalidInput, match="cannot be copied"):
        copy.copy(d(None, 1.0, scale=3.0))


def test_a_headroom_for_no_possible_release_is_refused():
    account = Accountant(WEvent(1.0, w=1))
    with pytest.raises(InvalidInput, match="cannot move it by all of it"):
        account.headroom(1, span=3, step_share=0.1)
    with pytest.raises(InvalidInput, match="step_sensitivity"):
        account.least_scale(1, 1.0, span=1, step_sensitivity=-5)
