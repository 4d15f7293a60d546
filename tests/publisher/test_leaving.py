"""What is still exposed of a person who left: against closed forms, notion by notion."""

import datetime
import json
import math

import pytest
from click.testing import CliRunner

import halflife as hl
from halflife.cli import main
from halflife.errors import HalflifeError
from halflife.policy import Policy
from publisher.test_amending import second
from publisher.town import make, policy_dict, readings, write_readings

START = 1767225600
"""2026-01-01, in seconds since 1970."""


def town(folder, promise, **stream):
    write_readings(folder, readings(steps=96))
    data = policy_dict(clock={"end": "2026-01-05", "late": "as-planned"})
    data["promise"] = {"epsilon": 1.0, **promise}
    data["streams"] = [second("sum", **stream)]
    return Policy.from_dict(data, folder)


def hour(k):
    return datetime.datetime.fromtimestamp(START + 3600 * k, datetime.UTC)


def look(policy, left, hours):
    return hl.status(policy, left=left, clock=lambda: START + 3600 * hours).left


def test_under_w_event_nothing_is_left_when_the_last_window_has_passed(tmp_path):
    """Each of the w = 24 steps before they left lost ε/24: m steps later (24 − m)/24 of ε are left."""
    policy = town(tmp_path, {"notion": "w-event", "w": 24})
    hl.publish(policy, clock=lambda: START + 3600 * 60)
    found = look(policy, "2026-01-03", 60)
    assert found.releases == 48
    assert found.first_steps == {"sum": 49}
    assert found.risk == pytest.approx((24 - 12) / 24)
    assert found.falls == {"0.1": hour(48 + 22), "0.01": hour(48 + 24)}
    assert hl.status(policy, clock=lambda: START + 3600 * 60).risk == pytest.approx(1.0)  # of who stays


def test_under_exponential_discounts_it_fades(tmp_path):
    """The plan holds the risk at ε; m steps after they left α^m of it is there."""
    policy, alpha = town(tmp_path, {"notion": "exponential", "half_life": 6}), 2 ** (-1 / 6)
    hl.publish(policy, clock=lambda: START + 3600 * 60)
    found = look(policy, "2026-01-03", 60)
    assert found.risk == pytest.approx(alpha**12)
    tenth, hundredth = (48 + math.ceil(math.log(share) / math.log(alpha)) for share in (0.1, 0.01))
    assert found.falls == {"0.1": hour(tenth), "0.01": hour(hundredth)}


def test_under_hyperbolic_discounts_it_is_the_sum_over_what_was_published(tmp_path):
    policy = town(tmp_path, {"notion": "hyperbolic", "beta": 0.5})
    hl.publish(policy, clock=lambda: START + 3600 * 60)
    losses = hl.HyperbolicDiscount(1.0, 0.5).plan().losses(48)

    def risk(t):
        return sum(loss / (1 + 0.5 * (t - k)) for k, loss in enumerate(losses, start=1))

    found = look(policy, "2026-01-03", 60)
    assert found.risk == pytest.approx(risk(60), rel=1e-6)
    tenth = next(t for t in range(60, 10_000) if risk(t) <= 0.1)
    assert abs((found.falls["0.1"] - hour(tenth)).total_seconds()) <= 3600


def test_under_classical_privacy_it_never_fades(tmp_path):
    policy = town(tmp_path, {"notion": "classical"})
    hl.publish(policy, clock=lambda: START + 3600 * 60)
    found = look(policy, "2026-01-03", 90)
    losses = hl.Classical(1.0).plan(horizon=96).losses(48)
    assert found.risk == found.peak == pytest.approx(sum(losses), rel=1e-6)
    assert found.falls == {"0.1": None, "0.01": None}


def test_a_wide_step_that_they_left_in_counts_and_late_steps_are_still_to_come(tmp_path):
    policy = town(tmp_path, {"notion": "w-event", "w": 24}, step="6 h", delay="12 h")
    hl.publish(policy, clock=lambda: START + 3600 * 60)  # steps that ended by hour 48: 8 of them
    found = look(policy, "2026-01-03T03:00", 60)  # hour 51, in step 9
    assert (found.releases, found.to_come, found.first_steps) == (8, 1, {"sum": 10})
    early = look(policy, "2026-01-01", 60)
    assert (early.releases, early.risk, early.falls["0.01"]) == (0, 0.0, hour(60))


def test_what_has_no_account_of_who_left_is_refused(tmp_path):
    policy = town(tmp_path, {"notion": "almost-periodic", "period": "6 h", "strong": True})
    with pytest.raises(HalflifeError, match="nobody can be taken out while it is in use"):
        hl.status(policy, left="2026-01-03")
    process = {"name": "geometric", "c": 1, "rho": 0.001}
    aging = town(tmp_path, {"notion": "age-dependent", "process": process})
    with pytest.raises(HalflifeError, match="has no account of a person who left"):
        hl.status(aging, left="2026-01-03")


def test_the_command_tells_it(tmp_path):
    write_readings(tmp_path)
    hl.publish(make(tmp_path))
    file = str(tmp_path / "policy.yaml")
    run = CliRunner().invoke(main, ["status", file, "--left", "2026-01-01T12:00"])
    assert run.exit_code == 0, run.output
    for said in ("12 published steps are about data from before", "mean from step 13 on", "leaving takes nothing back"):
        assert said in " ".join(run.output.split())
    told = json.loads(CliRunner().invoke(main, ["status", file, "--left", "2026-01-01T12:00", "--json"]).output)
    assert told["left"]["first_steps"] == {"mean": 13}
