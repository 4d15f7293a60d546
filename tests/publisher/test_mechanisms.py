"""Mechanisms that keep noise or state go through the same ledger: a fake of the periodic one, restarted at every step."""

import datetime
import json
from pathlib import Path

import pytest

import halflife as hl
from halflife import registry
from halflife.ledger import open_ledger
from halflife.plans import Plan
from halflife.plans.base import repeat_loss
from halflife.policy.promises import RULES
from publisher.town import STEPS, kept_noise, make, write_readings
from thinning import keep

PERIOD = 4


@pytest.fixture
def periodic(monkeypatch):
    """A notion whose mechanism reuses the noise of a phase; known for this test alone."""
    for name in ("NOTIONS", "PLANS", "MECHANISMS"):
        monkeypatch.setattr(registry, name, dict(getattr(registry, name)))
    from contract.fakes import FakePeriodic

    class Reused:
        """y(t) = f(t) + v(t mod T), on the lattice of whole units."""

        name, adaptive = "fake-reused", False

        def __init__(self, plan):
            self.plan, self.seen = plan, 0

        @classmethod
        def for_stream(cls, plan, **stream):
            return cls(plan)

        def step(self, step, truth, draw):
            self.seen += 1
            scale = self.plan.sensitivity * PERIOD * 1.000001
            return truth + draw(f"phase {step % PERIOD}", self.plan.sensitivity, scale=scale, lattice=1.0)

        def state(self):
            return {"seen": self.seen}

        def restore(self, state):
            self.seen = state["seen"]

    def plan(notion, request):
        return Plan(notion, request, "laplace", repeat_loss(1.0 / PERIOD), "a fake", "a fake")

    monkeypatch.setattr(FakePeriodic, "mechanism", "fake-reused")
    monkeypatch.setitem(registry.NOTIONS, FakePeriodic.name, FakePeriodic)
    monkeypatch.setitem(registry.PLANS, (FakePeriodic.name, "tight"), plan)
    monkeypatch.setitem(registry.MECHANISMS, "fake-reused", Reused)
    monkeypatch.setitem(RULES, FakePeriodic.name, RULES["classical"])


def at(hour):
    moment = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(hours=hour)
    return moment.timestamp


def promise(folder, **changes):
    write_readings(folder, [])
    policy = {"promise": {"notion": "fake-periodic", "epsilon": 1.0, "w": None}}
    data = make(folder, **changes).model_dump(mode="json")
    data["promise"] = {k: v for k, v in policy["promise"].items() if v is not None}
    return hl.Policy.from_dict(data, folder)


def test_a_notion_that_no_rule_names_is_refused_in_policies(tmp_path, periodic, monkeypatch):
    monkeypatch.delitem(RULES, "fake-periodic")
    with pytest.raises(hl.HalflifeError, match="nobody has shown that this promise covers this combination"):
        promise(tmp_path)


@pytest.mark.parametrize(
    "hours", keep([[24], [1, 2, 3, 5, 9, 10, 24], list(range(1, 25))], lambda hours: len(hours) < 9)
)
def test_noise_that_is_reused_survives_restarts(tmp_path, periodic, hours):
    policy = promise(tmp_path)
    for hour in hours:
        hl.publish(policy, clock=at(min(hour, STEPS - 1)))
    assert len(kept_noise(policy)) == PERIOD
    hl.publish(policy, clock=at(STEPS))
    with open_ledger(policy.ledger_url, read_only=True) as book:
        noisy = [e.noisy[0] for e in book.entries()]
        assert len({round(x, 6) for x in noisy}) == PERIOD, "one noise for each phase, drawn once"
        assert noisy[:PERIOD] * (STEPS // PERIOD) == noisy
        state = json.loads(book.states()["stream:mean"])
        assert state == {"version": 2, "smoothers": [], "destroyed": [f"phase {k}" for k in range(PERIOD)]}
        assert [r.draw for r in next(iter(book.entries())).releases] == ["phase 1"]
    verdict = hl.verify(policy.ledger_url, {"mean": str(policy.path("mean.csv"))})
    assert verdict.problems == ()
    assert verdict.risk == pytest.approx(1.0, rel=1e-5)


def test_reused_noise_is_a_secret_of_the_ledger(tmp_path, periodic, caplog):
    policy = promise(tmp_path)
    with caplog.at_level("DEBUG"):
        hl.publish(policy, clock=at(STEPS - 1))
        units = [str(n) for noise in kept_noise(policy).values() for n in noise]
        hl.publish(policy)
    assert units
    seen = policy.path("mean.csv").read_text() + caplog.text + (tmp_path / "town.ledger.operator.jsonl").read_text()
    assert not any(n in seen for n in units if len(n) > 6)
    assert Path(policy.ledger_url).stat().st_mode & 0o077 == 0
