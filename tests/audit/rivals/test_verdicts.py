"""The verdicts on rivals: the page is what the code says, faulty ones are accused, and none of ours."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from halflife.audit.faults import audit_faults, find_mistakes
from halflife.audit.rivals.verdicts import OURS, judge_rivals, plant_rivals, write_page
from halflife.cli import main


def test_the_page_is_what_the_code_says():
    page = Path(__file__).parents[3] / "docs" / "rivals.md"
    assert page.read_text() == write_page(), "run: python -m halflife.audit.rivals.verdicts > docs/rivals.md"


def test_verdicts_are_those_of_the_noise_that_was_logged():
    """Scales logged elsewhere over many runs: DSAT 1.1 and 1.417, Sample 2; RescueDP and AdaPub have no bound."""
    attained = {(v.rival, v.form): v.attained for v in judge_rivals() if not v.sound}
    assert sorted(round(a, 3) for a in attained.values()) == [1.1, 1.417, 2.0, float("inf"), float("inf")]
    assert all(v.attained <= 1.0 + 1e-9 for v in judge_rivals() if v.sound)


def test_every_faulty_rival_is_accused_and_none_of_ours():
    verdict = audit_faults(plant_rivals(), seconds=600, runs=20_000)
    assert find_mistakes(verdict) == []
    assert {f.name for f in verdict.findings if not f.accused} == set(plant_rivals().honest)
    assert {f"honest {name}" for name in OURS} <= set(plant_rivals().honest)


def test_the_command_names_what_it_gets_wrong(monkeypatch):
    monkeypatch.setattr("halflife.audit.rivals.dsat.attained_loss", lambda epsilon, w: 0.9)
    ran = CliRunner().invoke(main, ["audit", "--rivals", "--runs", "4000"])
    assert ran.exit_code == 1
    assert "The audit is wrong about DSAT: w answers under a threshold that is no secret" in " ".join(
        ran.output.split()
    )


def test_the_command_as_json_and_its_usage():
    ran = CliRunner().invoke(main, ["audit", "--rivals", "--runs", "20000", "--json"])
    assert ran.exit_code == 0
    assert json.loads(ran.stdout)["subject"] == "rivals"
    assert CliRunner().invoke(main, ["audit", "--rivals", "--faults"]).exit_code == 2
