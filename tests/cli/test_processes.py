"""`halflife process fit`, `check` and `show`."""

from __future__ import annotations

import json
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import halflife as hl
from halflife.cli import main
from halflife.processes import Process
from publisher.town import policy_dict

COLUMNS = ["--person", "id", "--time", "ts", "--value", "kwh"]
SLOW = hl.MarkovChain([[0.95, 0.05], [0.05, 0.95]])


def run(*arguments, status=0):
    said = CliRunner().invoke(main, ["process", *map(str, arguments)])
    assert said.exit_code == status, said.output
    return said


@pytest.fixture(scope="module")
def readings(tmp_path_factory):
    """Sixteen homes, two weeks of hours, whose levels follow a slow chain."""
    rng, rows = np.random.default_rng(3), []
    start = np.datetime64("2025-03-01T00:00", "us")
    for home in range(16):
        states = SLOW.sample(24 * 60, rng)
        rows += [(f"h{home:02d}", start + np.timedelta64(k, "h"), float(s)) for k, s in enumerate(states)]
    path = tmp_path_factory.mktemp("design") / "design.parquet"
    ids, times, values = zip(*rows, strict=True)
    pq.write_table(pa.table({"id": ids, "ts": pa.array(times, pa.timestamp("us")), "kwh": values}), path)
    return path


def fit(readings, output, *more):
    return run("fit", readings, *COLUMNS, "--step", "1 h", "--edges", "0.5", "--output", output, *more)


def test_a_process_is_fitted_written_and_used_in_a_policy(readings, tmp_path):
    home = tmp_path / "home.json"
    said = fit(readings, home, "--whose", "other people")
    assert "markov-chain from 16 people" in said.output
    made = Process.from_dict(json.loads(home.read_text()))
    assert made.matrix == pytest.approx(SLOW.matrix, abs=0.02)
    assert (made.fitted["step"], made.fitted["whose"]) == ("1 h", "other people")
    data = policy_dict()
    data["promise"] = {"notion": "age-dependent", "epsilon": 1.0, "process": {"file": "home.json"}}
    policy = hl.Policy.from_dict(data, tmp_path)
    assert policy.notion.process == made
    fit(readings, home)
    with pytest.raises(hl.InvalidInput, match=r"promise.process.whose: missing"):
        hl.Policy.from_dict(data, tmp_path)


@pytest.mark.parametrize(
    ("kind", "name", "more"),
    [
        ("family", "process-family", ()),
        ("periodic", "periodic-markov-chain", ("--smoothing", "0.5")),
        ("periodic", "periodic-markov-chain", ("--slots", "12", "--smoothing", "0.5")),
        ("empirical", "empirical", ("--lags", "30")),
    ],
)
def test_every_kind_is_fitted_and_shown(readings, tmp_path, kind, name, more):
    fit(readings, tmp_path / "p.json", "--kind", kind, *more)
    made = Process.from_dict(json.loads((tmp_path / "p.json").read_text()))
    assert made.name == name
    shown = run("show", tmp_path / "p.json").output
    assert f"{name}, steps of 1 h" in shown
    assert "Never checked against data." in shown
    assert f"{made.total_variation(6):.3g}" in shown
    assert f"{made.amplify(4.0, 6):.3g}" in shown
    assert ("not known" in shown) == (kind == "empirical")


def test_a_right_model_stands_its_check_and_a_wrong_one_does_not(readings, tmp_path):
    home, page = tmp_path / "home.json", tmp_path / "check.html"
    fit(readings, home)
    said = run("check", home, readings, *COLUMNS, "--save", "--report", page)
    assert "No contradiction found" in said.output
    assert "<html" in page.read_text()
    assert Process.from_dict(json.loads(home.read_text())).checked["good"] is True
    assert "Checked: No contradiction found" in run("show", home).output
    quick = {**json.loads(home.read_text()), "matrix": [[0.6, 0.4], [0.4, 0.6]]}
    home.write_text(json.dumps(quick))
    said = run("check", home, readings, *COLUMNS, "--save", status=1)
    assert "The process under-reports" in said.output
    checked = Process.from_dict(json.loads(home.read_text()))
    assert checked.checked["good"] is False
    assert "FAILED ITS CHECK" in hl.AgeDependent(1.0, checked).plan().not_protected()[0]


def test_without_save_the_file_stays_as_it_is(readings, tmp_path):
    home = tmp_path / "home.json"
    fit(readings, home)
    before = home.read_bytes()
    run("check", home, readings, *COLUMNS)
    assert home.read_bytes() == before


def test_a_process_written_by_hand_is_shown(tmp_path):
    (tmp_path / "p.json").write_text('{"name": "geometric", "c": 1, "rho": 0.8}')
    shown = run("show", tmp_path / "p.json", "--step", "1 day").output
    assert "geometric, steps of 1 day" in shown
    assert "7 days" in shown
    assert "0.21" in shown  # Δ(7)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--edges", "0.5", "--states", "3"], "give either --states"),
        ([], "give either --states"),
        (["--edges", "a,b"], "--edges must be numbers"),
        (["--states", "2", "--slots", "4"], "--slots is about --kind periodic"),
        (["--states", "2", "--value", "kw"], "unknown column of .*design.parquet 'kw': did you mean 'kwh'"),
        (["--states", "2", "--step", "1 fortnight"], "no width of time"),
        (["--states", "2", "--zone", "Lundon"], "unknown zone"),
        (["--states", "2", "--kind", "empirical", "--smoothing", "1"], "an empirical process has no smoothing"),
        (["--states", "2", "--kind", "periodic", "--step", "7 h"], "does not divide a day"),
        (["--states", "2", "--output", "/nowhere/p.json"], "cannot be written"),
    ],
)
def test_what_cannot_be_fitted_is_said(readings, tmp_path, arguments, says):
    given = ["fit", str(readings), *COLUMNS, "--output", str(tmp_path / "p.json"), "--step", "1 h", *arguments]
    said = CliRunner().invoke(main, ["process", *given])
    assert said.exit_code != 0
    assert re.search(says, said.output), said.output
    assert not (tmp_path / "p.json").exists()


def test_what_cannot_be_read_is_said(readings, tmp_path):
    assert "cannot be read" in run("show", tmp_path / "gone.json", status=1).output
    (tmp_path / "bad.json").write_text("{")
    assert "bad.json is not JSON" in run("show", tmp_path / "bad.json", status=1).output
    (tmp_path / "row.json").write_text('{"name": "markov-chain", "matrix": [[0.9, 0.2], [0.5, 0.5]]}')
    assert "row.json: row 0 of the transition matrix sums to 1.1" in run("show", tmp_path / "row.json", status=1).output
    (tmp_path / "one.json").write_text(json.dumps(hl.MarkovChain([[0.5, 0.5], [0.5, 0.5]]).to_dict()))
    wrong = readings.parent / "three.csv"
    wrong.write_text("id,ts,kwh\n" + "".join(f"a,2025-01-01 {h:02d}:00,{h % 3}\n" for h in range(24)))
    said = run("check", tmp_path / "one.json", wrong, *COLUMNS, "--step", "1 h", status=1).output
    assert "Error: somebody holds state 2" in said


@pytest.mark.parametrize("command", [(), ("fit",), ("check",), ("show",)])
def test_each_command_has_help_with_an_example(command):
    assert "Example:" in run(*command, "--help").output
