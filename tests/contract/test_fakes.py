"""The spine carries every paper: the contract suites over a fake of each notion to come."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from contract import fakes
from halflife import Accountant, Classical, InvalidInput, Release, ReleaseDraw, SimulatedDraw, WEvent, registry
from halflife.mechanisms import check_adaptive
from halflife.testing import MECHANISM_CHECKS, NOTION_CHECKS, Subject


@pytest.fixture(autouse=True)
def _known(monkeypatch):
    """A saved account names its notion, so the fakes are in the registry: for one test at a time."""
    for name, cls in fakes.NOTIONS.items():
        monkeypatch.setitem(registry.NOTIONS, name, cls)


def test_the_fakes_are_known_to_their_own_tests_alone():
    code = "import halflife.registry as r, contract.fakes; assert not [n for n in r.NOTIONS if n.startswith('fake')]"
    folder = Path(fakes.__file__).parents[1]
    subprocess.run([sys.executable, "-c", code], check=True, cwd=folder, env={**os.environ, "PYTHONPATH": str(folder)})


SUBJECTS = {
    "discount": Subject(fakes.FakeDiscount(), losses=lambda n: np.full(n, 0.1)),
    "aged": Subject(fakes.FakeAged(), losses=lambda n: np.full(n, 0.1)),
    "aged, old data": Subject(fakes.FakeAged(), lambda k, loss: Release(k, loss, 3), losses=lambda n: np.full(n, 0.1)),
    "swellfish": Subject(fakes.FakeSwellfish(), losses=lambda n: np.full(n, 0.0124)),
    "periodic": Subject(fakes.FakePeriodic(), fakes.FakePeriodic().release, losses=lambda n: np.full(n, 0.25)),
}
SKIP = {
    # a phase's loss is settled by its first draw: later there is no other scale, and a second draw is the first
    ("periodic", "least_scale_is_allowed"),
    ("periodic", "several_at_once"),
    ("periodic", "headroom_is_exact"),
}


@pytest.mark.parametrize("check", NOTION_CHECKS)
@pytest.mark.parametrize("name", SUBJECTS)
def test_notion(name, check):
    if (name, check) in SKIP:
        pytest.skip("not a question for this fake")
    NOTION_CHECKS[check](SUBJECTS[name])


MECHANISMS = {
    "weak": (lambda: fakes.FakePeriodicMechanism(fakes.FakePeriodic()), fakes.FakePeriodic()),
    "strong": (lambda: fakes.FakePeriodicMechanism(fakes.FakePeriodic(strong=True)), fakes.FakePeriodic(strong=True)),
    "bd": (fakes.FakeBudgetDistribution, WEvent(1.0, 8)),
}


@pytest.mark.parametrize("check", MECHANISM_CHECKS)
@pytest.mark.parametrize("name", MECHANISMS)
def test_mechanism(name, check):
    make, notion = MECHANISMS[name]
    MECHANISM_CHECKS[check](make, notion)


def _history(strong, periods=3):
    notion = fakes.FakePeriodic(strong=strong)
    draw, mechanism, history = ReleaseDraw(Accountant(notion)), fakes.FakePeriodicMechanism(notion), []
    for step in range(1, notion.period * periods + 1):
        with draw.step(step) as d:
            mechanism.step(step, 1.0, d)
        history += draw.releases
    return history


def test_shared_noise_read_classically_is_infinite_from_the_second_period_on():
    history = _history(strong=False)
    assert Accountant.replay(Classical(1.0), history[:4]).risk(4) == pytest.approx(1.0, rel=1e-5)
    second = Accountant.replay(Classical(1.0), history[:5])
    assert second.risk(5) == math.inf
    assert "phase 1" in second.why_unbounded
    assert second.headroom(5) == 0
    assert Accountant.from_json(second.to_json()).risk(9) == math.inf
    assert Accountant.replay(WEvent(1.0, 2), history[:5]).risk(5) == math.inf


def test_fresh_noise_atop_a_pattern_is_charged_classically_for_the_fresh_part():
    history = _history(strong=True)
    fresh = [r for r in history if r.draw is None]
    assert len(fresh) == 12
    assert {r.atop for r in fresh} == {f"phase {p}" for p in range(4)}
    assert Accountant.replay(Classical(1.0), fresh).risk(12) == pytest.approx(3.0, rel=1e-5)
    assert Accountant.replay(Classical(1.0), history).risk(12) < math.inf


def test_weak_differences_between_periods_are_exact_and_strong_ones_are_not():
    for strong, exact in ((False, True), (True, False)):
        notion = fakes.FakePeriodic(strong=strong)
        draw, mechanism, seen = ReleaseDraw(Accountant(notion)), fakes.FakePeriodicMechanism(notion), []
        for step in range(1, 9):
            with draw.step(step) as d:
                seen.append(mechanism.step(step, 1.0 if step <= 4 else 1.5, d))
        differences = [b - a for a, b in zip(seen[:4], seen[4:], strict=True)]
        assert all(abs(x - 0.5) < 1e-9 for x in differences) == exact


def test_adaptive_mechanism_is_refused_where_schedules_must_be_fixed():
    with pytest.raises(InvalidInput, match="fixed beforehand"):
        check_adaptive(fakes.FakeBudgetDistribution(), Accountant(WEvent(1.0, 8, 1e-6)))
    account = Accountant(WEvent(1.0, 8, 1e-6))
    for draw in (ReleaseDraw(account), SimulatedDraw([account], seed=1)):
        with pytest.raises(InvalidInput, match="fixed beforehand"):
            draw.run(fakes.FakeBudgetDistribution(), 1, 1.0)
    assert account.risk() == 0


def test_swellfish_needs_the_scale_and_names_the_worst_secret():
    account = Accountant(fakes.FakeSwellfish())
    with pytest.raises(InvalidInput, match="lacks its scale"):
        account.admit(Release(1, 0.01))
    account.admit(Release(20, 0.01, scale=100.0))
    assert account.exposure(20).limit == 0.1
    assert account.used(20) == pytest.approx(4 / 100 / 0.1)


def test_lanes_of_an_adaptive_mechanism_need_an_account_each():
    draw = SimulatedDraw([Accountant(WEvent(1.0, 8))], seed=1, lanes=3)
    with pytest.raises(InvalidInput, match="account of its own"), draw.step(1) as d:
        d(None, 1.0, loss=np.array([0.1, 0.2, 0.3]))
