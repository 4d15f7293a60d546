"""Plans of releases that cover several steps: the account admits them for ever, and nothing that it need not is wasted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halflife import Accountant, AgeDependent, Classical, ExponentialDiscount, InvalidInput, MarkovChain, WEvent
from halflife.testing import PLAN_CHECKS

HOME = MarkovChain([[0.85, 0.15], [0.1, 0.9]])


@given(st.integers(1, 12), st.integers(1, 9), st.integers(1, 12))
def test_a_window_is_planned_for_as_many_releases_as_it_can_touch(w, span, every):
    """Counted over every place of a window beside releases of which each covers so many steps."""
    plan = WEvent(1.0, w).plan(every=every, span=span)
    newest = range(0, 200, every)
    touched = max(sum(end - w < t and t - span < end for t in newest) for end in range(60, 120))
    assert plan.facts["together"] == touched
    account = Accountant(plan.notion)
    for k in range(1, 6 * (w + span) + 1):
        account.admit(*plan.releases_at(k))
    assert account.peak() == pytest.approx(1.0)


NOTIONS = [
    WEvent(1.0, 48), WEvent(1.0, 48, 1e-6), Classical(1.0), ExponentialDiscount(1.0, half_life=48), AgeDependent(1.0, HOME),
    AgeDependent(1.0, HOME, delta=1e-6),
]  # fmt: skip


@pytest.mark.parametrize("check", [name for name in PLAN_CHECKS if name != "promise_holds_for_long"])
@pytest.mark.parametrize("notion", NOTIONS, ids=lambda n: f"{n.name} {getattr(n, 'delta', 0)}")
def test_a_plan_of_days_keeps_the_contract(notion, check):
    PLAN_CHECKS[check](notion.plan(every=24, span=24))


def test_w_event_risks_are_those_of_the_windows_that_touch_a_release():
    plan = WEvent(1.0, 10).plan(every=4, span=4)
    assert plan.facts["together"] == 4
    assert max(plan.risks(200)) == pytest.approx(1.0)
    PLAN_CHECKS["promise_holds_for_long"](plan)
    assert plan.certificate()["plan"]["span"] == 4
    assert "span" not in WEvent(1.0, 10).plan().certificate()["plan"]


@pytest.mark.parametrize("notion", NOTIONS[2:], ids=lambda n: f"{n.name} {getattr(n, 'delta', 0)}")
def test_where_a_release_is_charged_whole_its_span_changes_no_plan(notion):
    wide, narrow = notion.plan(every=24, span=24), notion.plan(every=24)
    assert wide.losses(240).tolist() == narrow.losses(240).tolist()
    assert wide.risks(240).tolist() == narrow.risks(240).tolist()


def test_a_span_of_one_changes_no_plan():
    for notion in NOTIONS:
        for method in ("tight", "paper"):
            if isinstance(notion, AgeDependent) and notion.delta and method == "paper":
                continue
            plans = [notion.plan(method=method, every=3, **x) for x in ({}, {"span": 1})]
            assert plans[0].losses(60).tolist() == plans[1].losses(60).tolist()
            assert plans[0].certificate() == plans[1].certificate()


def test_a_span_that_is_none_is_refused():
    with pytest.raises(InvalidInput, match="span must be at least 1"):
        WEvent(1.0, 4).plan(span=0)
