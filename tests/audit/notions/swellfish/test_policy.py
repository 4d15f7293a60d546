"""The audit of a policy about secrets: neighbours are events, as its reading has them; faults that are put in are accused."""

import json
import math

import numpy as np
import pytest

import halflife as hl
from halflife import noise as grade
from halflife.audit.notions.swellfish import policy as secrets_audit
from halflife.audit.notions.swellfish.events import TIMINGS, read_written_secrets
from halflife.audit.policy.audit import audit_policy
from halflife.policy import channels
from halflife.specifications import Specifications
from publisher.town import policy_dict, write_readings
from thinning import keep

NONE = {"seconds": 0.0, "runs": 4}
HOMES = {
    "h1": [
        {"power": "3 kW", "duration": "2 h", "start": "2026-01-01T06:00", "end": "2026-01-01T12:00", "epsilon": 1.0},
        {
            "power": "1.2345 kW",
            "duration": "1 h",
            "start": "2026-01-01T08:00",
            "end": "2026-01-01T16:00",
            "epsilon": 0.5,
        },
    ],
    "h2": [
        {"power": "0.5 kW", "duration": "4 h", "start": "2026-01-01T15:00", "end": "2026-01-01T22:00", "epsilon": 1.0}
    ],
}


def town(folder, statistic=None, stream=None, specifications=None, **promise):
    """A policy about the secrets of two homes, in hours of one day."""
    data = policy_dict(statistic=statistic or {}, stream=stream or {})
    data["promise"] = {
        "notion": "swellfish", "neighbours": "one-window", "outside": "exact",
        "specifications": {"households": HOMES, "zone": "UTC", "readings": 1, **(specifications or {})}, **promise,
    }  # fmt: skip
    data["promise"] = {k: v for k, v in data["promise"].items() if v is not None}
    path = folder / "policy.yaml"
    path.write_text(json.dumps(data))
    return hl.Policy.load(path)


def find(verdict, how):
    return [f for f in verdict.findings if f.how == how]


def accused(verdict):
    return {f.how for f in verdict.findings if f.accused}


MEAN_POWER = {"kind": "sum", "unit": "kW", "resolution": "1 W", "clip": ["0", "9 kW"], "fold": "mean"}
LAST_POWER = {**MEAN_POWER, "fold": "last"}
SHAPES = {
    "one-window": {},
    "one-event": {"neighbours": "one-event"},
    "all-events": {"neighbours": "all-events"},
    "paper": {"plan": "paper"},
    "mean power": {"statistic": MEAN_POWER},
    "power at a moment": {"statistic": LAST_POWER},
    "gaussian": {"noise": "gaussian", "delta": 1e-6},
    "laplace with a delta": {"noise": "laplace", "delta": 1e-6},
    "all-events, power at a moment": {"neighbours": "all-events", "statistic": LAST_POWER},
    "a floor": {"outside": None, "floor": "0.1 kWh"},
    "blocks": {"block": "12 h"},
    "pushed": {"stream": {"source": None}},
}
LEAST = {
    "all-events": 0.6,
    "all-events, power at a moment": 0.6,
    "laplace with a delta": 0.75,
    "mean power": 0.75,
    "paper": 0.5,
}
"""How near to ε the audit's events come where the plan has more noise than it needs."""


@pytest.mark.parametrize(
    "shape",
    keep(
        SHAPES,
        lambda s: (
            s in ("one-event", "paper", "mean power", "gaussian", "all-events, power at a moment", "blocks", "pushed")
        ),
    ),
)
def test_no_shipped_policy_is_accused(tmp_path, shape):
    verdict = audit_policy(town(tmp_path, **SHAPES[shape]), **NONE)
    assert verdict.good, [f for f in verdict.findings if f.accused]
    assert {f.how for f in verdict.findings} >= {"sensitivity", "attained", "exact", "silence", "black box", "observer"}
    (plan,) = [f for f in verdict.findings if f.name == "the plan's first steps"]
    assert plan.found <= plan.claimed * (1 + 1e-6)
    near = max(f.found / f.claimed for f in find(verdict, "attained"))
    assert near > LEAST.get(shape, 0.99)


def test_it_reads_the_secrets_as_they_were_written(tmp_path):
    policy = town(tmp_path)
    written, wanted = read_written_secrets(policy)
    assert wanted.unit == "kW"
    assert sorted(written.power.tolist()) == [0.5, 1.2345, 3.0]
    units = channels(policy)[0].plan.notion.specifications
    assert units.power == pytest.approx(written.power * 1000 + 2)
    assert np.array_equal(units.start, written.start)


def test_two_streams_lose_together(tmp_path):
    data = town(tmp_path).model_dump(mode="json")
    data["streams"].append({**data["streams"][0], "name": "again", "output": "again.csv", "delay": "2 h"})
    verdict = audit_policy(hl.Policy.from_dict(data, tmp_path), **NONE)
    assert verdict.good, [f for f in verdict.findings if f.accused]
    assert max(f.found / f.claimed for f in find(verdict, "attained")) > 0.99
    assert len(find(verdict, "sensitivity")) == 2 * len(TIMINGS)


def test_exact_values_outside_hiding_intervals_are_mentioned_and_not_accused(tmp_path):
    write_readings(tmp_path)
    policy = town(tmp_path)
    hl.publish(policy)
    verdict = audit_policy(policy, **NONE)
    assert verdict.good, [f for f in verdict.findings if f.accused]
    (said,) = find(verdict, "observer")
    assert said.found == 8 / 24, "steps 1 to 6, 23 and 24"
    ledger = next(f for f in verdict.findings if "recorded" in f.name)
    assert "24 releases, 8 of them exact values" in ledger.detail


def test_very_many_secrets_are_not_run_a_thousand_times(tmp_path, monkeypatch):
    monkeypatch.setattr(secrets_audit, "MOST_SECRETS", 2)
    verdict = audit_policy(town(tmp_path), **NONE)
    assert verdict.good
    assert not find(verdict, "black box")
    assert any(f.name == "the publisher was not run" for f in verdict.findings)


@pytest.mark.parametrize("lasts", [1, 2])
def test_many_readings_in_a_step_are_not_accused(tmp_path, lasts):
    one = {"h1": [{**HOMES["h1"][0], "power": "0.1001 kW", "duration": f"{lasts} h"}]}
    verdict = audit_policy(town(tmp_path, specifications={"households": one, "readings": 4}), **NONE)
    assert verdict.good, [f for f in verdict.findings if f.accused]


# Faults in the real path --------------------------------------------------------------------------------------------


def test_powers_that_are_ten_percent_too_small_are_accused(tmp_path, monkeypatch):
    """As if hours were counted wrong: the promise is kept for powers that nobody wrote."""
    times_power = Specifications.times_power
    monkeypatch.setattr(Specifications, "times_power", lambda self, f, more: times_power(self, 0.9 * f, more))
    assert accused(audit_policy(town(tmp_path), **NONE)) == {"sensitivity", "attained"}


def test_rounding_that_is_forgotten_is_accused(tmp_path, monkeypatch):
    times_power = Specifications.times_power
    monkeypatch.setattr(Specifications, "times_power", lambda self, f, more: times_power(self, f, 0.0))
    odd = {"h2": [{**HOMES["h2"][0], "power": "0.5003 kW"}]}
    verdict = audit_policy(town(tmp_path, specifications={"households": odd}), **NONE)
    assert accused(verdict) == {"sensitivity", "attained"}


def test_events_that_reach_into_one_more_step_are_accused_if_that_is_forgotten(tmp_path, monkeypatch):
    """Power at a moment shows an event of T steps in T + 1 of them."""
    monkeypatch.setattr(Specifications, "one_step_longer", lambda self: self)
    verdict = audit_policy(town(tmp_path, statistic=LAST_POWER), **NONE)
    assert accused(verdict) == {"attained"}
    worst = max(find(verdict, "attained"), key=lambda f: f.found / f.claimed)
    assert TIMINGS[1] in worst.name
    assert 1.2 < worst.found / worst.claimed <= 2


@pytest.mark.parametrize("factor", [0.9, 0.5])
def test_scales_that_are_too_small_are_accused(tmp_path, monkeypatch, factor):
    """The plan itself: the certificate would refuse it, so it is told to be content."""
    from halflife.plans.swellfish import plan as swellfish

    monkeypatch.setattr(swellfish, "SLACK", factor - 1)
    monkeypatch.setattr(swellfish.SwellfishPlan, "verdict", lambda self, reading=None: {"kept": True})
    monkeypatch.setattr(secrets_audit, "MOST_SECRETS", 0)  # the account itself would refuse to publish
    verdict = audit_policy(town(tmp_path), **NONE)
    assert accused(verdict) == {"exact", "attained"}
    (plan,) = find(verdict, "exact")
    assert plan.found / plan.claimed == pytest.approx(1 / factor, rel=1e-6)


def test_noise_that_is_too_small_is_accused(tmp_path, monkeypatch):
    draw_many = grade.draw_many

    def weak(calibrations):
        return [grade.GridNoise(n.grid * 0.4, n.units) for n in draw_many(calibrations)]

    monkeypatch.setattr(grade, "draw_many", weak)
    assert accused(audit_policy(town(tmp_path), seconds=600.0, runs=60)) >= {"noise size"}


def test_a_log_that_depends_on_the_data_is_accused(tmp_path, monkeypatch):
    import logging

    from halflife.publisher.session import Session

    publish = Session.publish

    def chatty(self, parts, foreseen=None):
        logging.getLogger("halflife.publisher").warning("total %s", parts[0][1].sum())
        return publish(self, parts, foreseen)

    monkeypatch.setattr(Session, "publish", chatty)
    assert accused(audit_policy(town(tmp_path), **NONE)) == {"silence"}


def test_a_ledger_with_too_little_noise_is_accused(tmp_path):
    """A ledger from before a secret was made stricter, say."""
    write_readings(tmp_path)
    loud = {"households": {"h1": [{**HOMES["h1"][0], "epsilon": 2.0}]}}
    hl.publish(town(tmp_path, specifications=loud))
    strict = {"households": {"h1": HOMES["h1"][:1]}}
    verdict = audit_policy(town(tmp_path, specifications=strict), **NONE)
    assert accused(verdict) == {"exact"}
    assert max(f.found for f in find(verdict, "exact")) == pytest.approx(2.0, rel=1e-6)
    assert all(math.isfinite(f.found) for f in find(verdict, "exact"))
