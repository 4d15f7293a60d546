"""One history under every notion: by hand, and arrays against the real account."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from halflife import (
    Accountant,
    AlmostPeriodic,
    Classical,
    ExponentialDiscount,
    HyperbolicDiscount,
    Release,
    WEvent,
    compare,
)  # fmt: skip
from halflife.lab.compare.lenses import largest_risk, largest_risks, list_lenses, name_lens
from halflife.release import History

HISTORY = [Release(1, 0.5), Release(2, 0.25), Release(2, 0.25), Release(5, 0.75)]


def test_a_history_by_hand():
    assert largest_risk(HISTORY, Classical(1.0)) == pytest.approx(1.75)
    assert largest_risk(HISTORY, WEvent(1.0, 2)) == 1.0
    assert largest_risk(HISTORY, WEvent(1.0, 4)) == 1.25
    assert largest_risk(HISTORY, ExponentialDiscount(1.0, half_life=1)) == pytest.approx(
        max(0.75, 0.75 + 0.5**3 * 0.75)
    )
    assert largest_risk(HISTORY, HyperbolicDiscount(1.0, beta=1.0)) == pytest.approx(0.75 + 0.5 / 5 + 0.5 / 4, rel=1e-6)


def test_what_has_no_bound_is_infinite():
    for wrong in (Release(1, 0.5, noise="gaussian"), Release(1, math.inf, scale=0.0)):
        assert largest_risk([wrong], WEvent(1.0, 3)) == math.inf
        assert largest_risk([wrong], Classical(1.0)) == math.inf
    again = [Release(1, 0.5, draw="phase 0"), Release(3, 0.5, draw="phase 0")]
    assert largest_risk(again, WEvent(1.0, 3)) == math.inf
    assert largest_risk(again, AlmostPeriodic(1.0, 2)) == 0.5


@given(
    st.lists(st.floats(0, 2, allow_subnormal=False).filter(lambda x: x == 0 or x > 1e-9), min_size=1, max_size=40),
    st.integers(1, 12),
)
def test_arrays_are_the_real_account_and_never_below_it(losses, w):
    history = [Release(k, x) for k, x in enumerate(losses, start=1) if x > 0]
    for notion in (Classical(1.0), WEvent(1.0, w), ExponentialDiscount(1.0, half_life=w)):
        (found,) = largest_risks(np.array(losses)[:, None], notion)
        account, real = Accountant(notion), 0.0
        for step, releases in History(history).by_step():
            account.record(*releases)
            real = max(real, account.exposure(step).peak)
        assert real * (1 - 1e-15) <= found <= real * (1 + 1e-13)


def test_repetitions_are_columns():
    losses = np.array([[0.5, 0.0], [0.25, 0.5], [0.0, 0.125]])
    assert largest_risks(losses, WEvent(1.0, 2)).tolist() == [0.75, 0.625]
    assert largest_risks(losses, Classical(1.0)).tolist() == [0.75, 0.625]
    assert largest_risks(np.zeros((3, 2)), WEvent(1.0, 2)).tolist() == [0.0, 0.0]


def test_every_row_is_read_under_every_notion():
    found = compare(
        ["uniform", "bd"], 50 + 20 * np.sin(np.arange(80) / 5), w=8, repetitions=3,
        notions=["classical", "almost-periodic,period=10", "w-event,delta=1e-6,noise=gaussian", "hyperbolic,beta=0.5"],
    )  # fmt: skip
    uniform, bd, classical, periodic, gaussian, hyperbolic = found.rows
    assert uniform["epsilon_classical"] == pytest.approx(80 / 8)
    assert uniform["epsilon_own"] == uniform["epsilon_w_event"] == pytest.approx(1.0, rel=1e-12)
    assert classical["epsilon_own"] == pytest.approx(1.0)
    assert classical["epsilon_w_event"] == pytest.approx(8 / 80)
    assert periodic["epsilon_own"] == pytest.approx(1.0)
    assert (periodic["epsilon_classical"], periodic["epsilon_w_event"]) == (math.inf, math.inf)
    assert gaussian["epsilon_own"] == pytest.approx(1.0, rel=1e-6)
    assert gaussian["epsilon_classical"] == math.inf
    assert hyperbolic["epsilon_own"] == pytest.approx(1.0, rel=1e-6)
    lens = name_lens(HyperbolicDiscount(1.0, beta=0.5))
    assert bd["lenses"][lens]["repetitions"] == 1, "of an adaptive one, the first repetition's"
    assert bd["lenses"]["classical"]["repetitions"] == 3
    assert name_lens(WEvent(1.0, 8, 1e-6)) not in bd["lenses"], "losses that follow outputs are not composed so"


def test_risks_of_adaptive_rows_are_those_of_real_accounts():
    """Every release of BD, by its own draws: the worst over three repetitions, each replayed alone."""
    from halflife.lab.compare.contestants import Common, read_mechanism
    from halflife.lab.compare.runs import run_producer
    from halflife.mechanisms import LaneNoise

    values = 50 + 20 * np.sin(np.arange(60) / 3)
    common = Common(1.0, 8, 1.0, len(values))
    (row,) = compare(["bd"], values, w=8, repetitions=3, seed=9).rows
    worst = {"classical": 0.0, "w-event (w = 8)": 0.0, "exponential (half-life = 8)": 0.0}
    for lane in range(3):
        ran = run_producer(read_mechanism("bd", common).producer, values, LaneNoise(9, lane, 1), 1, lambda: None)
        for name, notion in list_lenses(8, 1.0, []).items():
            account, largest = Accountant(notion), 0.0
            for step, releases in History(ran.history).by_step():
                account.record(*releases)
                largest = max(largest, account.exposure(step).peak)
            worst[name] = max(worst[name], largest)
    for name, risk in worst.items():
        assert row["lenses"][name]["risk"] == pytest.approx(risk, rel=1e-12)
