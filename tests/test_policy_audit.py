"""The audit of a policy runs its own publisher; faults that are put into it are accused."""

import json
import math

import numpy as np
import pytest
from click.testing import CliRunner

import halflife as hl
from halflife import noise as grade
from halflife import policy_audit
from halflife.cli import main
from halflife.policy_audit import VARIANTS, audit_policy, neighbour_totals
from publisher.town import make, policy_dict, write_readings

FEW = {"seconds": 0.0, "runs": 50}


def kinds(folder):
    """Policies of many shapes, as plain data."""
    (folder / "homes.csv").write_text("home,zone,weight\n" + "".join(f"h{i},{'ab'[i % 2]},{i}.5\n" for i in range(5)))
    table = {"file": "homes.csv", "person": "home", "group": "zone"}
    weights = {"file": "homes.csv", "person": "home", "weight": "weight", "resolution": "0.5", "largest": "4.5"}
    source = {"files": "readings.csv", "time": "time", "value": "kwh", "group": "place"}
    yield "mean", {}
    yield "missing", {"statistic": {"missing": "1 kWh", "clip": ["-2", "5"]}}
    yield "add-remove", {"population": {"neighbours": "add-remove"}}
    yield "fixed groups", {"stream": {"groups": {"table": table}}}
    yield "changing groups", {
        "stream": {"groups": {"names": ["a", "b", "c"], "most_per_person": 1}, "source": source}, "statistic": {"kind": "sum"},
    }  # fmt: skip
    yield "weights", {"statistic": {"kind": "weighted sum", "weights": weights}}
    yield "folds", {"statistic": {"fold": "mean", "duplicates": "each"}}
    yield "pushed", {"stream": {"source": None}}


@pytest.mark.parametrize("kind", range(8))
def test_no_shipped_policy_is_accused(tmp_path, kind):
    name, changes = list(kinds(tmp_path))[kind]
    write_readings(tmp_path)
    verdict = audit_policy(make(tmp_path, **changes), **FEW)
    assert verdict.good, (name, [f for f in verdict.findings if f.accused])
    assert {f.how for f in verdict.findings} >= {"exact", "silence", "black box", "noise size", "observer"}


@pytest.mark.parametrize(
    "promise",
    [
        {"notion": "classical", "epsilon": 1.0},
        {"notion": "classical", "epsilon": 1.0, "delta": 1e-6},
        {"notion": "exponential", "epsilon": 1.0, "half_life": "6 h"},
        {"notion": "hyperbolic", "epsilon": 1.0, "beta": 0.1},
        {"notion": "gaussian-discount", "epsilon": 1.0, "delta": 1e-6, "beta": 0.1},
    ],
    ids=lambda p: p["notion"] + (" δ" if "delta" in p else ""),
)
def test_no_shipped_notion_is_accused(tmp_path, promise):
    data = {**policy_dict(), "promise": promise}
    verdict = audit_policy(hl.Policy.from_dict(data, tmp_path), **FEW)
    assert verdict.good, [f for f in verdict.findings if f.accused]


def test_neighbours_move_as_far_as_the_policy_allows(tmp_path):
    """The audit would be blind if its neighbours were close: they reach the sensitivity that the policy derives."""
    for name, changes in kinds(tmp_path):
        policy = make(tmp_path, **changes)
        (channel,) = policy_audit.channels(policy)
        totals = {v: neighbour_totals(channel, v, 2) for v in VARIANTS}
        reach = max(np.abs(totals[a] - totals[b]).sum(axis=1).max() for a in VARIANTS for b in VARIANTS)
        assert reach == channel.sensitivity.l1 or name == "add-remove", name


def test_several_streams_are_seen_together(tmp_path):
    data = policy_dict()
    data["streams"].append({**data["streams"][0], "name": "again", "output": "again.csv"})
    verdict = audit_policy(hl.Policy.from_dict(data, tmp_path), **FEW)
    assert verdict.good
    assert next(f for f in verdict.findings if f.name == "the plan's first steps").found == pytest.approx(1.0, rel=1e-6)


# Faults in the real path --------------------------------------------------------------------------------------------


def accused(verdict):
    return {f.how for f in verdict.findings if f.accused}


def test_noise_that_is_too_small_is_accused(tmp_path, monkeypatch):
    draw_many = grade.draw_many

    def weak(calibrations):
        return [grade.GridNoise(n.grid * 0.8, n.units) for n in draw_many(calibrations)]

    monkeypatch.setattr(grade, "draw_many", weak)
    assert accused(audit_policy(make(tmp_path), seconds=5.0, runs=300)) >= {"noise size"}


def test_one_noise_for_all_steps_is_accused(tmp_path, monkeypatch):
    draw_many = grade.draw_many
    monkeypatch.setattr(grade, "draw_many", lambda calibrations: _same(draw_many(calibrations)))
    assert accused(audit_policy(make(tmp_path), seconds=5.0, runs=300)) >= {"black box"}


def _same(noises):
    return [grade.GridNoise(n.grid, noises[0].units) for n in noises]


def test_a_clip_at_the_wrong_bound_is_accused(tmp_path, monkeypatch):
    def wide(column, question, kind):
        return f"greatest(least({column}, {2 * question.high}::{kind}), {question.low}::{kind})"

    monkeypatch.setattr("halflife.engines.duck.clip", wide)
    monkeypatch.setattr("halflife.engines.sql.clip", wide)
    assert accused(audit_policy(make(tmp_path), **FEW)) >= {"sensitivity"}


def test_a_log_that_depends_on_the_data_is_accused(tmp_path, monkeypatch):
    import logging

    publish = policy_audit.Session.publish

    def chatty(self, parts, foreseen=None):
        logging.getLogger("halflife.publisher").warning("total %s", parts[0][1].sum())
        return publish(self, parts, foreseen)

    monkeypatch.setattr(policy_audit.Session, "publish", chatty)
    assert accused(audit_policy(make(tmp_path), **FEW)) == {"silence"}


def test_a_ledger_that_spent_too_much_is_accused(tmp_path):
    """A ledger from before the promise was made stricter, say: the audit reads what it recorded."""
    write_readings(tmp_path)
    hl.publish(make(tmp_path, epsilon=2.0))
    verdict = audit_policy(make(tmp_path, epsilon=1.0), **FEW)
    assert accused(verdict) == {"exact"}
    assert max(f.found for f in verdict.findings if f.how == "exact") == pytest.approx(2.0, rel=1e-6)


# The command --------------------------------------------------------------------------------------------------------


def test_the_command(tmp_path):
    make(tmp_path)
    page = tmp_path / "audit.html"
    arguments = ["audit", str(tmp_path / "policy.yaml"), "--seconds", "1", "--runs", "100", "--processes", "1"]
    said = CliRunner().invoke(main, [*arguments, "--html", str(page)])
    assert said.exit_code == 0, said.output
    assert "Nothing is accused." in said.output
    assert "Audit of town" in page.read_text()
    as_json = CliRunner().invoke(main, [*arguments, "--json"])
    data = json.loads(as_json.stdout)
    assert data["good"] is True
    assert all(not isinstance(f["found"], float) or math.isfinite(f["found"]) for f in data["findings"])
    for wrong in (["audit"], ["audit", "policy.yaml", "--faults"]):
        assert "give a policy" in CliRunner().invoke(main, wrong).output


def test_the_command_runs_in_several_processes(tmp_path):
    make(tmp_path)
    verdict = audit_policy(hl.Policy.load(tmp_path / "policy.yaml"), seconds=0.0, runs=100, processes=2)
    assert verdict.good
