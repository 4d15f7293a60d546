"""The audit of a policy runs its own publisher; faults that are put into it are accused."""

import json
import math

import numpy as np
import pytest
from click.testing import CliRunner

import halflife as hl
from halflife import noise as grade
from halflife.audit import audit_paths
from halflife.audit.notions.age_dependent.pasts import draw_pasts, person_to_attack, worst_states
from halflife.audit.notions.age_dependent.policy import state_cases
from halflife.audit.policy.audit import audit_policy
from halflife.audit.policy.generic import try_policy
from halflife.audit.policy.neighbours import VARIANTS, neighbour_totals, reach_of_person, split_units
from halflife.audit.policy.path import totals_of
from halflife.cli import main
from halflife.policy import channels
from halflife.publisher.session import Session
from publisher.town import make, policy_dict, write_readings
from thinning import keep

FEW = {"seconds": 600.0, "runs": 4}
"""As many runs as a machine without time makes: every attack is made, and those that need numbers are tried further below."""
CHAIN = {"name": "markov-chain", "matrix": [[0.85, 0.15], [0.1, 0.9]]}


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
    yield "clipped readings", {"statistic": {"clip": None, "clip_readings": ["-2", "3 kWh"], "fold": "mean"}}
    yield "both clips", {"statistic": {"clip": ["-1", "5"], "clip_readings": ["-0.3", "0.7 kWh"], "fold": "sum"}}
    yield "pushed", {"stream": {"source": None}}


@pytest.mark.parametrize("kind", keep(range(10), lambda kind: kind % 2 == 0))
def test_no_shipped_policy_is_accused(tmp_path, kind):
    name, changes = list(kinds(tmp_path))[kind]
    write_readings(tmp_path)
    verdict = audit_policy(make(tmp_path, **changes), **FEW)
    assert verdict.good, (name, [f for f in verdict.findings if f.accused])
    assert {f.how for f in verdict.findings} >= {"exact", "silence", "black box", "noise size", "observer"}


@pytest.mark.parametrize(
    "promise",
    keep(
        [
            {"notion": "classical", "epsilon": 1.0},
            {"notion": "classical", "epsilon": 1.0, "delta": 1e-6},
            {"notion": "exponential", "epsilon": 1.0, "half_life": "6 h"},
            {"notion": "hyperbolic", "epsilon": 1.0, "beta": 0.1},
            {"notion": "gaussian-discount", "epsilon": 1.0, "delta": 1e-6, "beta": 0.1},
            {
                "notion": "age-dependent",
                "epsilon": 1.0,
                "process": {"name": "geometric", "c": 1.0, "rho": 0.8},
                "plan": "paper",
            },
            {"notion": "age-dependent", "epsilon": 1.0, "delta": 1e-6, "process": CHAIN},
        ],
        lambda p: p["notion"] in ("hyperbolic", "gaussian-discount") or p.get("plan") == "paper",
    ),
    ids=lambda p: p["notion"] + (" δ" if "delta" in p else ""),
)
def test_no_shipped_notion_is_accused(tmp_path, promise):
    data = {**policy_dict(), "promise": promise}
    verdict = audit_policy(hl.Policy.from_dict(data, tmp_path), **FEW)
    assert verdict.good, [f for f in verdict.findings if f.accused]


# One person's state now, the past drawn -----------------------------------------------------------------------------


def aged(folder, process, epsilon=1.0, **changes):
    """A policy without an end: with one the plan is worked out release by release, which takes longer."""
    data = policy_dict(stream={"delay": "1 h"})
    data["promise"] = {"notion": "age-dependent", "epsilon": epsilon, "process": process, **changes}
    del data["clock"]["end"]
    return hl.Policy.from_dict(data, folder)


PROCESSES = [
    CHAIN,
    {"name": "autoregressive", "rho": 0.9, "sigma": 1.0, "span": 5.0},
    {"name": "autoregressive", "rho": 0.9, "sigma": 1.0, "span": 1.0},  # a fifth of the clip
    {"name": "periodic-markov-chain", "kernels": [[[0.9, 0.1], [0.2, 0.8]], [[0.7, 0.3], [0.4, 0.6]]]},
    {"name": "process-family", "processes": [CHAIN, {"name": "markov-chain", "matrix": [[0.5, 0.5], [0.5, 0.5]]}]},
]


@pytest.mark.parametrize(
    "process",
    keep(PROCESSES, lambda p: p["name"] in ("markov-chain", "process-family") or p.get("span") == 1.0),
    ids=lambda p: f"{p['name']} {p.get('span', '')}".strip(),
)
def test_an_age_dependent_promise_is_attacked_at_the_state_of_now(tmp_path, process):
    verdict = audit_policy(aged(tmp_path, process), **FEW)
    assert verdict.good, [f for f in verdict.findings if f.accused]
    (found,) = [f for f in verdict.findings if f.name.startswith("a person who is in state")]
    assert 0.5 < found.claimed <= 1.0
    assert found.runs == 2


def test_an_autoregressive_person_counts_as_much_as_their_value_was(tmp_path):
    """Of a value of 5 kWh now nine tenths were there an hour ago, and of 0 nothing: a mean of five homes moves by 0.9 kWh."""
    process = {"name": "autoregressive", "rho": 0.9, "sigma": 0.1, "span": 5.0}
    ((pair, _),) = state_cases(aged(tmp_path, process), 1)
    assert pair.second - pair.first == pytest.approx([0.9], abs=0.03)


def test_the_past_is_drawn_from_the_reversed_process():
    """Of a chain that is not reversible: how often each state was there, one and three steps before a known one."""
    ring = hl.MarkovChain([[0.1, 0.8, 0.1], [0.2, 0.1, 0.7], [0.6, 0.2, 0.2]])
    rows = draw_pasts(ring, 2.0, now=9, first=5, runs=40_000, rng=np.random.default_rng(1))
    assert rows.shape == (40_000, 5)
    assert (rows[:, -1] == 2).all()
    for back in (1, 3):
        seen = np.bincount(rows[:, -1 - back].astype(int), minlength=3) / 40_000
        assert seen == pytest.approx(ring.kernel(back)[2], abs=0.012)


def test_the_two_states_are_those_that_tell_most():
    assert worst_states(hl.MarkovChain([[0.6, 0.4, 0.0], [0.5, 0.2, 0.3], [0.0, 0.5, 0.5]]), 1, 9) == (0.0, 2.0)
    assert worst_states(hl.AutoRegressive(0.9, 1.0, 3.0), 2, 9) == (0.0, 3.0)
    assert person_to_attack(hl.GeometricMixing(1.0, 0.5), 1) is None


def test_the_attack_sees_what_one_loud_step_tells(tmp_path, monkeypatch):
    """What is found lies below what the account says; with a tenth of the noise it lies above, and is accused.

    Of 150 runs that are counted about one is then on the wrong side. In 600 simulations with an event chosen from the other half
    the bound was 1.94 ± 0.17, and never below 1.17: it has to pass 1.
    """
    chain = hl.MarkovChain([[0.995, 0.005], [0.005, 0.995]])
    data = aged(tmp_path, chain.to_dict(), 1.0).model_dump(mode="json")
    data["clock"]["end"] = "2026-01-01T01:00"
    policy = hl.Policy.from_dict(data, tmp_path)
    (channel,) = channels(policy)
    ((pair, path),) = state_cases(policy, 1)
    assert pair.claimed == pytest.approx(chain.amplify(channel.plan.loss(1), 1), rel=1e-9)
    assert pair.claimed == pytest.approx(1.0, rel=1e-4)
    (kept,) = audit_paths([(pair, path)], seconds=600, runs=50, chunk=300)
    assert kept.found < pair.claimed
    draw_many = grade.draw_many
    monkeypatch.setattr(grade, "draw_many", lambda c: [grade.GridNoise(n.grid * 0.1, n.units) for n in draw_many(c)])
    (broken,) = audit_paths([(pair, path)], seconds=600, runs=300, chunk=300)
    assert broken.accused


def test_a_process_is_not_fitted_again_for_every_run(tmp_path):
    rows = "".join(
        f"x{h},2025-03-{1 + k // 24:02d} {k % 24:02d}:00,{(k // 3 + h) % 2}\n" for h in range(3) for k in range(240)
    )
    (tmp_path / "design.csv").write_text("id,ts,kwh\n" + rows)
    fit = {"files": "design.csv", "person": "id", "time": "ts", "value": "kwh", "edges": [0.5], "whose": "public"}
    policy = aged(tmp_path, {"name": "markov-chain", "fit": fit})
    (tmp_path / "design.csv").unlink()
    assert audit_policy(policy, **FEW).good


def test_neighbours_move_as_far_as_the_policy_allows(tmp_path):
    """The audit would be blind if its neighbours were close: they reach the sensitivity that the policy derives."""
    for name, changes in kinds(tmp_path):
        policy = make(tmp_path, **changes)
        (channel,) = channels(policy)
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


def accused_on(policy, neighbours, runs):
    """How a pair of neighbours is accused, which is one of those that the audit tries."""
    (case,) = [(pair, path) for pair, path in try_policy(policy).cases if neighbours in pair.name]
    return {f.how for f in audit_paths([case], seconds=600, runs=runs) if f.accused}


def test_noise_that_is_too_small_is_accused(tmp_path, monkeypatch):
    """A fifth, which 4,032 numbers of one pair miss once in 10¹⁰ times."""
    draw_many = grade.draw_many

    def weak(calibrations):
        return [grade.GridNoise(n.grid * 0.8, n.units) for n in draw_many(calibrations)]

    monkeypatch.setattr(grade, "draw_many", weak)
    assert accused_on(make(tmp_path, promise={"w": 24}), "least / most", 84) == {"noise size"}


def test_one_noise_for_all_steps_is_accused(tmp_path, monkeypatch):
    """Differences of steps are then exact: 50 runs of 50 against none of 50 show ε > 0.9, where a sixth is claimed."""
    draw_many = grade.draw_many
    monkeypatch.setattr(grade, "draw_many", lambda calibrations: _same([*draw_many(calibrations)]))
    assert accused_on(make(tmp_path), "least / once", 100) >= {"black box"}


def _same(noises):
    return [grade.GridNoise(n.grid, noises[0].units) for n in noises]


@pytest.mark.diagonal
@pytest.mark.parametrize("fold", ["sum", "mean", "last"])
@pytest.mark.parametrize("bounds", [None, (-2000, 3000), (0, 1), (-7, 9), (2, 3), (-3, -2), (6000, 7000)])
def test_an_audited_person_counts_as_much_as_clipped_readings_let_them(tmp_path, fold, bounds):
    """Through the engine: what they are said to reach they reach, by readings that no clip changes."""
    readings = None if bounds is None else [f"{x} Wh" for x in bounds]
    statistic = {"clip": ["-1 kWh", "5 kWh"], "clip_readings": readings, "fold": fold}
    (channel,) = channels(make(tmp_path, statistic=statistic))
    low, high = reach_of_person(channel)
    if bounds is None or (fold == "sum" and bounds == (-2000, 3000)):
        assert (low, high) == (-1000, 5000)
    for units in (low, (low + high) // 2, high):
        values = split_units(channel, units)
        rows = [("audited", i, x, "") for i, x in enumerate(values, start=channel.steps.start(1))]
        assert totals_of(channel, rows, 1, 1).item() == units
        assert len(values) <= 100


def test_a_clip_at_the_wrong_bound_is_accused(tmp_path, monkeypatch):
    def wide(column, bounds, kind):
        return f"greatest(least({column}, {2 * bounds[1]}::{kind}), {bounds[0]}::{kind})"

    monkeypatch.setattr("halflife.engines.duckdb.engine.clip", wide)
    assert accused(audit_policy(make(tmp_path), **FEW)) >= {"sensitivity"}


def test_a_log_that_depends_on_the_data_is_accused(tmp_path, monkeypatch):
    import logging

    publish = Session.publish

    def chatty(self, parts, foreseen=None):
        logging.getLogger("halflife.publisher").warning("total %s", parts[0][1].sum())
        return publish(self, parts, foreseen)

    monkeypatch.setattr(Session, "publish", chatty)
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
    arguments = ["audit", str(tmp_path / "policy.yaml"), "--seconds", "600", "--runs", "8", "--processes", "1"]
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
    verdict = audit_policy(hl.Policy.load(tmp_path / "policy.yaml"), seconds=600.0, runs=4, processes=2)
    assert verdict.good


def test_an_almost_periodic_plan_is_audited_by_the_names_of_its_noise(tmp_path):
    """Two streams, strong: what the plans charge over many periods comes to the promise, and no more."""
    from halflife.audit.exact import worst_loss

    data = policy_dict()
    data["promise"] = {"notion": "almost-periodic", "epsilon": 1.0, "period": "1 day", "strong": True}
    data["clock"] = {"step": "1 h", "start": "2026-01-01", "end": "2026-01-21"}
    data["streams"].append({**data["streams"][0], "name": "other", "output": "other.csv", "delay": "2 h"})
    policy = hl.Policy.from_dict(data, tmp_path)
    made = channels(policy)
    releases = sorted((r for c in made for r in c.plan_releases(200)), key=lambda r: r.step)
    assert worst_loss(policy.notion, releases) == pytest.approx(1.0, rel=1e-9)
