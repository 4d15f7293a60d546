"""A stream names its mechanism: the promise's own if it does not, and only one that is proved for the promise."""

from __future__ import annotations

import json

import pytest

import halflife as hl
from halflife import registry
from halflife.ledger import open_ledger
from halflife.mechanisms import Request, ScheduledMechanism
from halflife.policy import channels, ledger_facts
from publisher.town import STEPS, make, policy_dict, read_csv, write_readings

WEAK = {
    "notion": "almost-periodic", "epsilon": 1.0, "period": "1 day",
    "variations": "public", "readings": "complete", "rounding": "none",
}  # fmt: skip
STRONG = {"notion": "almost-periodic", "epsilon": 1.0, "period": "1 day", "strong": True}


def policy_of(folder, mechanism, promise=None):
    data = policy_dict(stream={} if mechanism is None else {"mechanism": mechanism})
    data["promise"] = promise or data["promise"]
    (folder / "policy.yaml").write_text(json.dumps(data, indent=1))
    return hl.Policy.load(folder / "policy.yaml")


@pytest.fixture
def mechanisms(monkeypatch):
    """What is registered here is known for one test alone."""
    monkeypatch.setattr(registry, "MECHANISMS", dict(registry.MECHANISMS))


@pytest.mark.parametrize(("promise", "own"), [(None, "planned"), (WEAK, "reused"), (STRONG, "reused")])
def test_the_promise_has_a_mechanism_of_its_own_which_may_be_named(tmp_path, promise, own):
    silent, named = (policy_of(tmp_path, mechanism, promise) for mechanism in (None, own))
    assert channels(silent)[0].mechanism == channels(named)[0].mechanism == own
    assert ledger_facts(silent) == ledger_facts(named), "the default is no fact"


@pytest.mark.parametrize(
    ("mechanism", "promise", "words"),
    [
        ("plannd", None, r"streams\.0\.mechanism: unknown mechanism 'plannd': did you mean 'planned'\? Known: "),
        ("reused", None, r"streams\.0\.mechanism: reused noise needs a plan of almost-periodic privacy, not one of w-event"),
        ("planned", WEAK, r"streams\.0\.mechanism: nobody has proved that almost-periodic holds with fresh noise at every step"),
        ("planned", STRONG, "it is kept by the mechanism 'reused'"),
    ],
)  # fmt: skip
def test_a_mechanism_that_is_unknown_or_not_proved_is_refused_with_its_line(tmp_path, mechanism, promise, words):
    with pytest.raises(hl.HalflifeError, match=words) as error:
        policy_of(tmp_path, mechanism, promise)
    line = (tmp_path / "policy.yaml").read_text().splitlines().index(f'   "mechanism": "{mechanism}"') + 1
    assert f"policy.yaml:{line}:" in str(error.value)


def register_doubled():
    """Planned noise of twice the scale, from its own file as it were; the publisher knows nothing of it."""

    @registry.register_mechanism
    class Doubled(ScheduledMechanism):
        name = "doubled"

        def __init__(self, plan, size):
            self.plan, self.size = plan, size

        @classmethod
        def for_stream(cls, plan, *, name, steps, begin, cells, touched):
            return cls(plan, cells)

        def requests(self, steps):
            s = self.plan.sensitivity
            return [Request(None, s, scale=2 * s / self.plan.loss(k), size=self.size) for k in steps]


def test_a_mechanism_from_its_own_file_is_published_recorded_and_held_to(tmp_path, mechanisms):
    register_doubled()
    write_readings(tmp_path)
    policy = policy_of(tmp_path, "doubled")
    facts = json.loads(ledger_facts(policy)["stream:mean"])
    assert facts["mechanism"] == "doubled"
    hl.publish(policy)
    with open_ledger(policy.ledger_url, read_only=True) as book:
        entries = list(book.entries())
    plan = channels(policy)[0].plan
    assert [e.releases[0].scale for e in entries] == pytest.approx([2 * plan.scale(1)] * STEPS, rel=1e-9)
    assert [e.spread for e in entries] == [e.releases[0].scale for e in entries], "the band is that of what was drawn"
    verdict = hl.verify(policy.ledger_url, {"mean": str(policy.path("mean.csv"))}, policy=policy)
    assert verdict.problems == ()
    assert verdict.risk == pytest.approx(0.5, rel=1e-6)
    with pytest.raises(hl.LedgerError, match="its mechanism was 'doubled' and is now 'planned'"):
        hl.publish(policy_of(tmp_path, None))


def register_halving(adaptive):
    """Half of what is left at every step, or what the plan has, drawn step by step."""

    @registry.register_mechanism
    class Halved:
        name = "halved"

        def __init__(self, plan):
            self.plan, self.steps = plan, []

        @classmethod
        def for_stream(cls, plan, **stream):
            return cls(plan)

        def step(self, step, truth, draw):
            self.steps.append(step)
            loss = draw.headroom() / 2 if adaptive else self.plan.loss(step)
            return truth + draw(None, self.plan.sensitivity, loss=loss)

        def state(self):
            return self.steps

        def restore(self, state):
            self.steps = list(state)

    Halved.adaptive = adaptive


def test_a_mechanism_that_looks_at_the_account_is_run_step_by_step(tmp_path, mechanisms):
    register_halving(adaptive=True)
    write_readings(tmp_path)
    policy = policy_of(tmp_path, "halved", {"notion": "classical", "epsilon": 1.0})
    hl.publish(policy)
    assert len(read_csv(policy.path("mean.csv"))) == STEPS
    with open_ledger(policy.ledger_url, read_only=True) as book:
        losses = [r.loss for e in book.entries() for r in e.releases]
        assert json.loads(book.states()["stream:mean"])["mechanism"] == list(range(1, STEPS + 1))
    assert losses == pytest.approx([0.5**k for k in range(1, STEPS + 1)], rel=1e-6)
    assert hl.verify(policy.ledger_url, policy=policy).problems == ()
    with pytest.raises(hl.HalflifeError, match="is not planned"):
        channels(policy)[0].plan_releases(3)


def test_streams_with_and_without_a_schedule_share_an_account(tmp_path, mechanisms):
    register_halving(adaptive=False)
    write_readings(tmp_path)
    data = policy_dict()
    first = data["streams"][0]
    data["streams"] = [
        {**first, "share": 0.5},
        {**first, "name": "late", "output": "late.csv", "share": 0.5, "mechanism": "halved"},
    ]
    policy = hl.Policy.from_dict(data, tmp_path)
    hl.publish(policy)
    verdict = hl.verify(policy.ledger_url, {n: str(policy.path(f"{n}.csv")) for n in ("mean", "late")}, policy=policy)
    assert verdict.problems == ()
    assert verdict.steps == {"mean": STEPS, "late": STEPS}


def test_an_adaptive_mechanism_is_refused_where_losses_must_be_fixed(tmp_path, mechanisms):
    register_halving(adaptive=True)
    with pytest.raises(hl.HalflifeError, match=r"streams\.0\.mechanism: halved chooses its losses .* fixed beforehand"):
        policy_of(tmp_path, "halved", {"notion": "w-event", "epsilon": 1.0, "delta": 1e-6, "w": "6 h"})


def test_noise_that_two_streams_would_share_is_refused(tmp_path, mechanisms):
    @registry.register_mechanism
    class Nameless(ScheduledMechanism):
        name = "nameless"

        def __init__(self, plan):
            self.plan = plan

        @classmethod
        def for_stream(cls, plan, **stream):
            return cls(plan)

        def requests(self, steps):
            return [Request("v", self.plan.sensitivity, scale=self.plan.pattern_scale(k), lattice=1.0) for k in steps]

    data = policy_dict(stream={"source": None})
    first = {**data["streams"][0], "mechanism": "nameless", "share": 0.5}
    data["promise"] = {**WEAK, "period": 1}
    data["streams"] = [first, {**first, "name": "other", "output": "other.csv"}]
    policy = hl.Policy.from_dict(data, tmp_path)
    with hl.Stream(policy, "mean") as mean, hl.Stream(policy, "other") as other:
        mean.publish(1.0, at=1)
        mean.publish(1.0, at=2)
        with pytest.raises(hl.HalflifeError, match="the noise 'v' of mean is asked for by other"):
            other.publish(1.0, at=3)
    assert hl.verify(policy.ledger_url, policy=policy).steps == {"mean": 2}


def test_publishing_leaves_the_garbage_collector_alone(tmp_path):
    import gc

    write_readings(tmp_path)
    before, seen = gc.get_threshold(), []
    hl.publish(make(tmp_path), progress=lambda *told: seen.append((gc.get_threshold(), gc.isenabled())))
    assert set(seen) == {(before, True)}
