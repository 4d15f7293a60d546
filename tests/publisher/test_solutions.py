"""An optimal plan of a ledger is solved once: later runs find the solution beside it, and what they publish is the same."""

from __future__ import annotations

import datetime
import json
import os
import stat

import pytest

import halflife as hl
from halflife.ledger import ledger_files, ledger_plans, open_ledger
from halflife.plans.discounted import kept as discounted
from halflife.plans.swellfish import program as swellfish
from publisher.town import policy_dict, write_readings

SECRETS = {"h1": [{"power": 3, "duration": 2, "start": 3, "end": 8, "epsilon": 1}]}
PROMISES = {
    "exponential": {"notion": "exponential", "epsilon": 1, "half_life": "6 h", "plan": "optimal"},
    "swellfish": {
        "notion": "swellfish", "neighbours": "one-window", "outside": "exact", "plan": "optimal",
        "specifications": {"files": "secrets.json", "readings": 1},
    },
}  # fmt: skip


@pytest.fixture
def solved(monkeypatch):
    """How often a solver was asked."""
    count = [0]

    def count_calls(ask):
        def solve(*args):
            count[0] += 1
            return ask(*args)

        return solve

    monkeypatch.setattr(discounted, "least_squares", count_calls(discounted.least_squares))
    monkeypatch.setattr(swellfish, "least_noise", count_calls(swellfish.least_noise))
    return count


def town(folder, kind, **changes):
    if not (folder / "readings.csv").exists():
        write_readings(folder)
        (folder / "secrets.json").write_text(json.dumps({"households": SECRETS}))
    data = {**policy_dict(**changes), "promise": PROMISES[kind]}
    (folder / "policy.yaml").write_text(json.dumps(data))
    return hl.Policy.load(folder / "policy.yaml")


def at(hour):
    return (datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(hours=hour)).timestamp


def recorded(policy):
    with open_ledger(policy.ledger_url, read_only=True) as book:
        return [entry.releases for entry in book.entries()], {k: v for k, v in book.states().items() if k == "account"}


@pytest.mark.parametrize("kind", PROMISES)
def test_runs_of_one_ledger_solve_its_plan_once_and_publish_the_same(tmp_path, solved, kind):
    for hour in range(1, 25):
        policy = town(tmp_path, kind)
        hl.publish(policy, clock=at(hour))
    assert solved == [1]
    file = ledger_plans(policy.ledger_url)
    assert stat.S_IMODE(os.stat(file).st_mode) == 0o600
    (tmp_path / "other").mkdir()
    for hour in range(1, 25):
        other = town(tmp_path / "other", kind)
        hl.publish(other, clock=at(hour))
        os.unlink(ledger_plans(other.ledger_url))
    assert solved == [25]
    assert recorded(other) == recorded(policy)


@pytest.mark.parametrize("kind", PROMISES)
def test_what_lies_beside_a_ledger_is_not_trusted_and_verify_needs_none_of_it(tmp_path, solved, kind):
    hl.publish(town(tmp_path, kind), clock=at(5))
    file = tmp_path / os.path.basename(ledger_plans(town(tmp_path, kind).ledger_url))
    data = json.loads(file.read_text())
    for form in data["solutions"].values():
        for key in form.keys() & {"losses", "z"}:
            form[key] = [1.1 * x for x in form[key]]
    file.write_text(json.dumps(data))
    policy = town(tmp_path, kind)
    assert solved == [2]
    hl.publish(policy)
    file.unlink()
    verdict = hl.verify(policy.ledger_url, {"mean": str(policy.path("mean.csv"))}, policy=policy)
    assert verdict.problems == ()
    assert verdict.risk <= 1 + 1e-9


def test_who_only_looks_leaves_no_file(tmp_path):
    policy = town(tmp_path, "exponential")
    assert not os.path.exists(ledger_plans(policy.ledger_url))
    hl.publish(policy, clock=at(5))
    os.unlink(ledger_plans(policy.ledger_url))
    assert hl.verify(town(tmp_path, "exponential")).problems == ()
    assert not os.path.exists(ledger_plans(policy.ledger_url))


def test_other_plans_leave_no_file(tmp_path):
    write_readings(tmp_path)
    (tmp_path / "policy.yaml").write_text(json.dumps(policy_dict()))
    policy = hl.Policy.load(tmp_path / "policy.yaml")
    hl.publish(policy)
    assert not os.path.exists(ledger_plans(policy.ledger_url))


@pytest.mark.parametrize("ledger", ["town.ledger", "postgresql://db/town?schema=s&folder=town"])
def test_every_file_of_solutions_is_one_of_the_ledgers(ledger):
    """The policy refuses outputs by this list, and the demo deletes by it."""
    file = ledger_plans(ledger)
    assert {file, f"{file}.new"} <= set(ledger_files(ledger))
