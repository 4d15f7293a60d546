"""Names of reused noise: each stands for one phase, one sensitivity and one scale, and anything else has no bound."""

import itertools
import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halflife import Accountant, AlmostPeriodic, ExponentialDiscount, InvalidInput, Release, UnboundedLoss, WEvent
from halflife.notions.almost_periodic.naming import Names
from halflife.steps import Steps

LONDON = Steps.of("1 h", "2026-03-29", "Europe/London")


def uses(strong, times, name="v", **facts):
    """One name for the values about these data times, each published at once."""
    for i, time in enumerate(times):
        if not strong:
            yield Release(time, 0.5, draw=name, **facts)
            continue
        if i == 0:
            yield Release(time, 0.5, draw=name, **facts)
        yield Release(time, 0.5, atop=name)


def attained_with_one_name(periods):
    """Two phases whose habits move by 1 and −1, b_v = b_u = 2, one v for both, fresh u each time: T = 2, ε = 1.

    The density is summed over v on a grid; the largest loss on a grid of the averages of each phase.
    """
    v = np.linspace(-200, 200, 4001)
    worst = 0.0
    for a, b in itertools.product((-40.0, 0.0, 40.0), repeat=2):
        told = [
            np.logaddexp.reduce(-np.abs(v) / 2 - periods * (np.abs(a - m - v) + np.abs(b + m - v)) / 2)
            for m in (0.0, 1.0)
        ]
        worst = max(worst, abs(told[0] - told[1]))
    return worst


def test_one_name_for_two_phases_loses_more_with_every_period():
    """What the account reported as 1.0 in the strong notion, and 0.5 in the weak one, where the difference is exact."""
    assert [round(attained_with_one_name(k), 3) for k in (1, 2, 10)] == [1.0, 2.0, 10.0]


@pytest.mark.parametrize("strong", [False, True], ids=["weak", "strong"])
@pytest.mark.parametrize("times", [(1, 2), (1, 3, 4), (1, 102)])
def test_a_name_stands_for_one_phase(strong, times):
    notion = AlmostPeriodic(2.0, 2, strong=strong)
    history = list(uses(strong, times))
    account = Accountant(notion)
    account.admit(*history[:-1])
    before = account.to_json()
    for trial in (account, Accountant.from_json(before)):
        with pytest.raises(UnboundedLoss, match="of phase 0, last used at step"):
            trial.admit(history[-1])
        assert trial.to_json() == before
    assert Accountant.replay(notion, history).risk() == math.inf


@pytest.mark.parametrize("strong", [False, True], ids=["weak", "strong"])
def test_phases_go_by_the_time_that_data_is_about(strong):
    notion = AlmostPeriodic(9.0, 3, strong=strong)
    account = Accountant(notion)
    account.admit(*uses(strong, (2, 5)))
    late = {"atop" if strong else "draw": "v"}
    account.copy().admit(Release(9, 0.5, 1, **late))
    with pytest.raises(UnboundedLoss, match="phase 1"):
        account.admit(Release(8, 0.5, 1, **late))


@pytest.mark.parametrize("change", [{"scale": 3.0}, {"sensitivity": 0.5}, {"loss": 0.75}, {"scale": None}])
def test_reused_noise_keeps_its_facts(change):
    first = {"loss": 0.5, "scale": 2.0, "sensitivity": 1.0}
    account = Accountant(AlmostPeriodic(9.0, 2))
    account.admit(Release(1, **first, draw="v"))
    account.copy().admit(Release(3, **first, draw="v"))
    with pytest.raises(UnboundedLoss, match="tell each other apart"):
        account.admit(Release(3, **{**first, **change}, draw="v"))


@pytest.mark.parametrize("strong", [False, True], ids=["weak", "strong"])
def test_noise_that_lay_under_fresh_noise_unseen_cannot_be_drawn_later(strong):
    """It was charged without a pattern. y₁ = z₀ + v + u and then y₂ = z₁ + v: their difference is 2Δ under u, charged as Δ."""
    for later in (3, 4):
        account = Accountant(AlmostPeriodic(9.0, 2, strong=strong))
        account.admit(Release(1, 0.5, atop="v"))
        assert account.risk() == 0.5
        assert account.draws == frozenset()
        account = Accountant.from_json(account.to_json())
        assert account.draws == frozenset()
        with pytest.raises(UnboundedLoss):
            account.admit(Release(later, 0.5, draw="v"))
    account.admit(Release(5, 0.5, atop="v"))
    assert account.risk() == 1.0


def test_two_numbers_of_one_step_have_two_names():
    """Strong: y = f + v + u and y′ = f′ + v + u′ at one step are two numbers on one v."""
    account = Accountant(AlmostPeriodic(9.0, 2, strong=True))
    account.admit(*uses(True, (1, 3)))
    with pytest.raises(UnboundedLoss, match="twice at one step"):
        account.admit(Release(3, 0.5, atop="v"))
    account.admit(Release(7, 0.5, 2, atop="v"), Release(7, 0.5, atop="v"))  # two periods, late


@pytest.mark.parametrize("strong", [False, True], ids=["weak", "strong"])
@pytest.mark.parametrize("over", [WEvent(9.0, 4), ExponentialDiscount(9.0, alpha=0.5)], ids=["w-event", "exponential"])
def test_a_name_that_was_retired_stands_for_what_it_stood_for(strong, over):
    """Under a notion laid over them names leave the account after a period; their values are still out there."""
    account = Accountant(AlmostPeriodic(9.0, 2, strong=strong, over=over))
    account.admit(*uses(strong, (1,)))
    account = Accountant.from_json(account.to_json())
    account.admit(Release(40, 0.1))
    assert account.draws == frozenset()
    account = Accountant.from_json(account.to_json())
    again = list(uses(strong, (41,)))
    account.copy().admit(*again)  # charged anew
    for release in (Release(42, 0.5, draw="v"), Release(42, 0.5, atop="v"), Release(41, 0.5, scale=2.0, draw="v")):
        with pytest.raises(UnboundedLoss, match="tell each other apart"):
            account.copy().admit(release)


def test_of_renewed_names_the_newest_is_remembered():
    notion = AlmostPeriodic(1.0, 2, renew=2)
    account, plan = Accountant(notion), notion.plan(horizon=400)
    for k in range(1, 401):
        account.admit(*plan.releases_at(k))
    saved = json.loads(account.to_json())["state"]
    assert len(saved["retired"]) == 2
    assert len(saved["names"]) <= 9
    assert Accountant.from_json(account.to_json()).agrees(account)
    with pytest.raises(UnboundedLoss, match="tell each other apart"):
        account.admit(Release(401, plan.loss(1), scale=plan.pattern_scale(1), draw="phase 0, renewal 3"))


# The wall clock ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strong", [False, True], ids=["weak", "strong"])
def test_the_notions_clock_says_what_phase_a_time_has(strong):
    """29 March 2026 in London has no 01:00: step 3 is 03:00, and so is step 24 + 3 = 27 the day after, less one."""
    notion = AlmostPeriodic(99.0, 24, strong=strong, clock=LONDON)
    assert [notion.phase(k) for k in (1, 2, 3, 23, 24, 26)] == [0, 2, 3, 23, 0, 2]
    account = Accountant(notion)
    account.admit(*uses(strong, (2,)))
    account = Accountant.from_json(account.to_json())
    with pytest.raises(UnboundedLoss, match="of phase 2"):
        account.copy().admit(list(uses(strong, (2, 25)))[-1])
    account.admit(list(uses(strong, (2, 26)))[-1])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: AlmostPeriodic(1.0, 25, clock=LONDON), "a period of whole days"),
        (lambda: AlmostPeriodic(1.0, 24, renew=2, clock=LONDON), "never renewed"),
        (lambda: AlmostPeriodic(1.0, 7, clock=Steps.of("1 day", "2026-01-01", "Europe/London")), "divide a day"),
        (lambda: AlmostPeriodic(1.0, 24, clock={"zone": "Europe/London"}), "a clock lacks its start_us"),
        (lambda: AlmostPeriodic(1.0, 24, clock={**LONDON.to_facts(), "width_us": 0}), "a width above 0"),
        (lambda: AlmostPeriodic(1.0, 24, clock={**LONDON.to_facts(), "zone": "Europe/Lundon"}), "unknown zone"),
        (lambda: AlmostPeriodic(1.0, 24, clock=LONDON).plan(every=2), "publish every step"),
        (lambda: AlmostPeriodic(1.0, 24, clock=LONDON).phase(10**12), "beyond the calendar"),
        (
            lambda: AlmostPeriodic(1.0, 24, clock=Steps.of("1 h", "2026-04-01", "Australia/Lord_Howe")).phase(1000),
            "across two steps",
        ),
    ],
)
def test_clocks_without_phases_are_refused(make, words):
    with pytest.raises(InvalidInput, match=words):
        make()


# What is kept -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"names": 3},
        {"names": [["v", 0.5]]},
        {"names": [["v", 0.5, None, 1.0, -1, 1, 1, None]], "retired": []},
        {"names": []},
        {"names": [["v", 0.5, None, 1.0, None, 1, None, None]], "retired": []},
        {"names": [["v", 0.5, None, 1.0, 0, 1, 1, None]] * 2, "retired": []},
        {"names": [], "retired": [["v", -1, 0.5, None, 1.0, 0, 1, 1, None]]},
        {"names": [], "retired": {}},
    ],
)
def test_damaged_names_are_refused(data):
    with pytest.raises(InvalidInput):
        Names.load(data)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.sampled_from("ab"), st.booleans()), max_size=8))
@settings(max_examples=150, deadline=None)
def test_no_name_is_ever_used_for_two_phases(chosen):
    """Any history that is not called unbounded has one phase for each name: weak, strong, and with a notion over it."""
    step, history = 1, []
    for gap, age, name, alone in chosen:
        step += gap
        history.append(Release(step, 0.1, age, **{"draw" if alone else "atop": name}))
    drawn = {r.draw for r in history if r.draw}
    mixed = [n for n in drawn if len({(r.data_time - 1) % 3 for r in history if n in (r.draw, r.atop)}) > 1]
    for strong, over in itertools.product((False, True), (None, WEvent(9.0, 2))):
        account = Accountant.replay(AlmostPeriodic(9.0, 3, strong=strong, over=over), history)
        assert account.risk() == math.inf or not mixed


def test_what_is_published_atop_a_name_is_of_one_sensitivity():
    """Weak: y₂ − y₁ = 99 z + u of a number a hundred times as large; strong: another number than the first that lay atop it."""
    account = Accountant(AlmostPeriodic(1.0, 1))
    account.admit(Release(1, 1.0, scale=1, draw="v"))
    with pytest.raises(UnboundedLoss):
        account.admit(Release(2, 100.0, sensitivity=100, scale=1, atop="v"))
    account.admit(Release(2, 1.0, scale=1, atop="v"))
    strong = Accountant(AlmostPeriodic(2.0, 2, strong=True))
    strong.admit(Release(1, 0.5, scale=2, draw="v"), Release(1, 0.25, sensitivity=0.5, scale=2, atop="v"))
    with pytest.raises(UnboundedLoss):
        Accountant.from_json(strong.to_json()).admit(Release(3, 0.5, sensitivity=50, scale=100, atop="v"))
    strong.admit(Release(3, 0.25, sensitivity=0.5, scale=2, atop="v"))


def test_a_waiting_pattern_hides_no_variations():
    account = Accountant(AlmostPeriodic(1.0, 2, strong=True))
    account.admit(Release(1, 0.1, draw="a"), Release(1, 0.9, atop="a"))
    account.admit(Release(2, 0.1, draw="b"))
    assert (account.risk(2), account.peak(2), account.risk(3)) == (0.9, math.inf, math.inf)
