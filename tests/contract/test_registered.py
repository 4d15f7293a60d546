"""The contract suites over everything that is registered: a new notion, plan or mechanism is held to them by being there."""

from __future__ import annotations

from functools import cache
from itertools import product

import pytest

from halflife import AgeDependent, AlmostPeriodic, HyperbolicDiscount, PlannedNoise, Release, Swellfish, WEvent
from halflife.registry import MECHANISMS, NOTIONS, PLANS
from halflife.testing import MECHANISM_CHECKS, NOTION_CHECKS, PLAN_CHECKS, Subject, plans
from thinning import keep

EXAMPLES = {f"{name} {i}": notion for name, cls in NOTIONS.items() for i, notion in enumerate(cls.examples())}
SUBJECTS = {name: Subject(notion) for name, notion in EXAMPLES.items()} | {
    "w-event, delayed": Subject(WEvent(1.0, 6), lambda k, loss: Release(k, loss, 9)),
    "w-event, mixed delays": Subject(WEvent(1.0, 6), lambda k, loss: Release(k, loss, 3 if k % 2 else 0)),
}


def _refused(notion, method):
    """Where a paper's plan does not hold (erratum D1), or is not about such a promise (Proposition 3)."""
    if method != "paper":
        return False
    if isinstance(notion, AgeDependent):
        return notion.process.composes != "markov" or notion.adversary != "stationary"
    if isinstance(notion, AlmostPeriodic):  # erratum P1
        return notion.strong
    if isinstance(notion, Swellfish):  # erratum S1; and the paper has Laplace noise alone
        return notion.neighbours == "all-events" or notion.noise == "gaussian"
    return isinstance(notion, HyperbolicDiscount) and notion.beta >= 3.654


def _plans():
    shapes = {
        "for ever": {},
        "horizon": {"horizon": 300},
        "every 5": {"every": 5},
        "delayed": {"age": 4, "sensitivity": 2.5},
    }
    for name, notion in EXAMPLES.items():
        for owner, method in PLANS:
            if owner == notion.name and not _refused(notion, method):
                needs_end = {"horizon": 300} if method in ("constant", "optimal") else {}
                for shape, options in shapes.items():
                    if isinstance(notion, AgeDependent) and method == "constant" and shape != "horizon":
                        continue  # the same function as "tight", which has all shapes
                    given = {"method": method, **needs_end, **options}
                    if isinstance(notion, Swellfish):  # how far a value can move is what the secrets say
                        given.pop("sensitivity", None)
                    yield f"{name} {method} {shape}", (notion, given)


PLAN_SHAPES = dict(_plans())
LONG_CHECKS = ("promise_holds_for_long", "account_admits_the_plan")


@pytest.mark.parametrize("check", NOTION_CHECKS)
@pytest.mark.parametrize("name", SUBJECTS)
def test_notion(name, check):
    if name == "w-event, mixed delays" and check in (
        "headroom_is_exact",
        "promise_holds_later",
        "least_scale_is_allowed",
    ):
        pytest.skip(
            "the suite asks for one age, and these have two; tests/notions/test_windowed.py has the brute force"
        )
    NOTION_CHECKS[check](SUBJECTS[name])


def _belongs(shape, check):
    """Delayed or rarer releases change losses and ages: what a plan says of itself is tried for ever and with an end.

    How releases are delayed or thinned out is the notion's own, and the same for all of its plans: one of them shows it.
    """
    if shape.endswith(("for ever", "horizon")):
        return True
    return check in (*LONG_CHECKS, "scale_is_sensitivity_over_loss") and " tight " in shape


@pytest.mark.parametrize(("shape", "check"), keep(product(PLAN_SHAPES, PLAN_CHECKS), _belongs))
def test_plan(shape, check, monkeypatch):
    """What goes on for ever is followed for long; a delay or rarer releases only shift or thin out the same series of losses."""
    for_ever = shape.endswith("for ever")
    monkeypatch.setattr(plans, "LONG", 10_000 if for_ever else 2_000)
    monkeypatch.setattr(plans, "LIVE", 400 if for_ever else 100)
    PLAN_CHECKS[check](_made(shape))


@pytest.mark.soak
@pytest.mark.parametrize("check", LONG_CHECKS)
@pytest.mark.parametrize("shape", [shape for shape in PLAN_SHAPES if shape.endswith("for ever")])
def test_plan_for_very_long(shape, check):
    """As long as the suite follows a plan that somebody else wrote: 10⁵ steps, 2,000 of them with a live account."""
    PLAN_CHECKS[check](_made(shape))


@cache
def _made(shape):
    notion, options = PLAN_SHAPES[shape]
    return notion.plan(**options)


@pytest.mark.parametrize("check", MECHANISM_CHECKS)
@pytest.mark.parametrize("name", EXAMPLES)
def test_mechanism(name, check):
    """The mechanism that each notion asks for; reused noise needs to know the unit of the values."""
    assert MECHANISMS["planned"] is PlannedNoise
    notion = EXAMPLES[name]
    make, options = MECHANISMS[notion.mechanism], {"lattice": 1e-3} if notion.mechanism == "reused" else {}
    MECHANISM_CHECKS[check](lambda: make(notion.plan(), **options), notion)
