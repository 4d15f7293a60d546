"""Shares for two levels that add up, against brute force over all shares with the noise written out by hand."""

from __future__ import annotations

import json
import math
from fractions import Fraction

import pytest
from click.testing import CliRunner

import halflife as hl
from halflife.cli import main
from halflife.lab.budget_split import look_at_split, split_budget

GROUPS, WINDOW = 16, 6


def make(*more, **promise):
    source = {"files": "taxis.csv", "time": "time"}
    return {
        "population": {"id": "taxis", "size": 536, "person": "taxi"},
        "promise": {"notion": "w-event", "epsilon": 1, "w": WINDOW, **promise},
        "clock": {"step": "10 min", "start": "2026-01-01"},
        "streams": [
            {"name": "city", "source": source, "statistic": {"kind": "count"}, "output": "city.csv"},
            {
                "name": "zones", "source": {**source, "group": "zone"}, "statistic": {"kind": "count"}, "output": "zones.csv",
                "groups": {"names": [f"z{i}" for i in range(GROUPS)], "most_per_person": 1},
            },
            *more,
        ],
        "reconcile": [{"total": "city", "parts": "zones", "complete": True}],
    }  # fmt: skip


def errors(a, b):
    """Replace-one: a taxi moves the city's count by 1 and two zones by 1 each; w releases share ε = 1."""
    t, s = math.sqrt(2) * WINDOW / a, math.sqrt(2) * 2 * WINDOW / b
    both = t * t + GROUPS * s * s
    return math.sqrt(t * t * GROUPS * s * s / both), math.sqrt(s * s * (1 - s * s / both))


def brute_force(which, bound, whole=1.0):
    found = [(*errors(whole * k / 1000, whole * (1 - k / 1000)), k / 1000) for k in range(1, 1000)]
    return min((e for e in found if e[which] <= bound), key=lambda e: e[1 - which])


@pytest.mark.parametrize(
    ("stream", "bound"), [("zones", 20), ("zones", 30), ("zones", 60), ("city", 30), ("city", 12), ("city", 100)]
)
def test_the_split_is_the_best_of_all(stream, bound):
    found = split_budget(hl.Policy.from_dict(make()), stream, bound)
    city, zones, share = brute_force(0 if stream == "city" else 1, bound)
    assert found.of(stream).reconciled <= bound
    assert (found.total.reconciled, found.parts.reconciled) == pytest.approx((city, zones), rel=2e-3)
    assert found.total.share == pytest.approx(share, abs=2e-3)
    assert found.total.alone == pytest.approx(math.sqrt(2) * WINDOW / share, rel=5e-3)


def test_two_levels_share_out_what_they_have_and_others_keep_theirs():
    more = {
        "name": "more",
        "source": {"files": "r.csv", "time": "t"},
        "statistic": {"kind": "count"},
        "output": "m.csv",
    }
    data = make({**more, "share": 0.4})
    for stream in data["streams"][:2]:
        stream["share"] = 0.3
    found = split_budget(hl.Policy.from_dict(data), "zones", 60)
    city, zones, share = brute_force(1, 60, whole=0.6)
    assert found.total.share + found.parts.share == pytest.approx(0.6, abs=3e-6)
    assert found.total.share == pytest.approx(0.6 * share, abs=2e-3)
    assert (found.total.reconciled, found.parts.reconciled) == pytest.approx((city, zones), rel=2e-3)


def test_a_gaussian_promise_is_split_as_it_plans():
    policy = hl.Policy.from_dict(make(delta=1e-6, noise="gaussian"))
    found = split_budget(policy, "zones", 30)
    assert found.parts.reconciled <= 30 * 1.000001
    assert found.total.reconciled < found.total.alone


def test_what_cannot_be_had_is_refused_with_the_least_that_can():
    policy = hl.Policy.from_dict(make())
    with pytest.raises(hl.InvalidInput, match=r"no split .* gives 'zones' an error of 10: the least is 16\.\d+"):
        split_budget(policy, "zones", 10)
    with pytest.raises(hl.InvalidInput, match="unknown stream that is reconciled 'zone'"):
        split_budget(policy, "zone", 10)
    alone = {**make(), "reconcile": []}
    with pytest.raises(hl.InvalidInput, match="no streams of this policy add up"):
        split_budget(hl.Policy.from_dict(alone), "zones", 10)


def test_the_command_proposes_shares(tmp_path):
    path = tmp_path / "policy.yaml"
    path.write_text(json.dumps(make()))
    run = CliRunner().invoke(main, ["plan", str(path), "--split", "zones=30"])
    assert run.exit_code == 0, run.output
    assert "zones: share 0.549, error 29.95; not reconciled 30.91" in run.output
    assert "With equal shares: city 16.84, zones 32.88." in run.output  # √(2·12²·16·24²/(12² + 16·24²)) = 16.84
    run = CliRunner().invoke(main, ["plan", str(path), "--split", "zones=30", "--json"])
    city, zones = json.loads(run.output)
    assert (city["stream"], zones["stream"]) == ("city", "zones")
    assert zones["reconciled"] <= 30
    assert CliRunner().invoke(main, ["plan", str(path), "--split", "zones"]).exit_code == 2
    assert CliRunner().invoke(main, ["plan", "--notion", "w-event", "--split", "zones=3"]).exit_code == 2


def two_widths(clip):
    """Half hours and days of the same homes, one day hidden: a day's clip is so many half hours' clips."""
    source = {"files": "use.csv", "time": "time", "value": "kwh"}
    sums = {"kind": "sum", "unit": "kWh", "resolution": "1 Wh", "fold": "sum"}
    return {
        "population": {"id": "homes", "size": 100, "person": "home"},
        "promise": {"notion": "w-event", "epsilon": 1, "w": 48},
        "clock": {"step": "30 min", "start": "2026-01-01"},
        "streams": [
            {
                "name": "days", "step": "1 day", "source": source, "statistic": {**sums, "clip": ["0", f"{clip} kWh"]},
                "output": "d.csv",
            },
            {"name": "half-hours", "source": source, "statistic": {**sums, "clip": ["0", "1 kWh"]}, "output": "h.csv"},
        ],
        "reconcile": [{"total": "days", "parts": "half-hours", "complete": True}],
    }  # fmt: skip


@pytest.mark.parametrize("bound", [140, 200, 400])
def test_half_hours_and_days_are_split_too(bound):
    """By hand: any 48 half hours lose what 48 of them lose, and both days that they touch, each charged whole."""
    found = split_budget(hl.Policy.from_dict(two_widths(48)), "days", bound)
    a, b = found.total.share, found.parts.share
    t, s = math.sqrt(2) * 2 * 48 / a, math.sqrt(2) * 48 / b
    both = t * t + 48 * s * s
    assert found.total.alone == pytest.approx(t, rel=1e-5)
    assert found.parts.alone == pytest.approx(s, rel=1e-5)
    assert found.total.reconciled == pytest.approx(math.sqrt(t * t * 48 * s * s / both), rel=1e-5)
    assert found.parts.reconciled == pytest.approx(math.sqrt(s * s * (1 - s * s / both)), rel=1e-5)
    assert found.total.reconciled <= bound
    even = look_at_split(hl.Policy.from_dict(two_widths(48)), "days", "half-hours", Fraction(1, 2))
    assert math.sqrt(48) * even.parts.alone / even.total.alone == pytest.approx(3.464, abs=0.001)
    narrow = look_at_split(hl.Policy.from_dict(two_widths(10)), "days", "half-hours", Fraction(1, 2))
    assert narrow.total.alone == pytest.approx(even.total.alone * 10 / 48, rel=1e-5)
