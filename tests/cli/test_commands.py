"""The command line: what it prints, what it writes, how it fails, and that it starts without the heavy parts."""

from __future__ import annotations

import inspect
import json
import math
import subprocess
import sys
from dataclasses import replace

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import halflife
from halflife import registry
from halflife.cli import main

HEAVY = ("pandas", "opendp", "dp_accounting", "scipy.stats", "plotly", "matplotlib", "fastapi", "pyspark")


def run(*arguments):
    return CliRunner().invoke(main, [str(a) for a in arguments])


def test_it_starts_without_the_heavy_parts():
    """As `import halflife` and `halflife --help` do by themselves, which tests/test_imports.py holds."""
    asked = [["demo", "--help"], ["plan", "--help"], ["reproduce", "discounted", "--help"], ["--version"]]
    code = f"""
import json, sys
from halflife.cli import main
for arguments in {asked}:
    main(arguments, standalone_mode=False)
    print(json.dumps([m for m in {HEAVY} if m in sys.modules]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert [line for line in done.stdout.splitlines() if line.startswith("[")] == ["[]"] * 4


def test_version():
    result = run("--version")
    assert result.exit_code == 0
    assert halflife.__version__ in result.stdout


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_shows_an_example(flag):
    assert "halflife demo --out" in run(flag).stdout
    text = run("demo", flag).stdout
    assert "Example:" in text
    for option in ("--out DIR", "--households", "--days", "--seed"):
        assert option in text
    assert text.count("[default:") == 4


def test_demo_as_its_users_run_it(tmp_path):
    """In a process of its own: the table on stdout, nothing on stderr when nobody watches, both files written."""
    command = [sys.executable, "-c", "from halflife.cli import main; main()", "demo"]
    options = ["--out", "town", "--households", "12", "--days", "2", "--seed", "3"]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "12 generated homes" in done.stdout
    lines = done.stdout.splitlines()
    assert lines[-4].split() == ["Report:", "town/report.html"]
    assert lines[-3].split() == ["Releases:", "town/releases.parquet"]
    assert lines[-2].startswith("Policies: town/…/policy.yaml")
    verify = lines[-1].split(maxsplit=2)
    assert verify[:2] == ["Check:", "halflife"]
    assert run(*verify[2].replace("town", str(tmp_path / "town")).split()).exit_code == 0
    table = pq.read_table(tmp_path / "town" / "releases.parquet")
    names = set(table["notion"].to_pylist())
    assert names == set(registry.NOTIONS)
    assert table.num_rows == 2 * 48 * len(names)
    assert all(any(line.strip().startswith(name[:8]) for line in lines) for name in names)
    assert (tmp_path / "town" / "report.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_the_demo_is_about_enough_people_to_be_worth_a_look():
    """By default the noise under w-event is below a tenth of a usual half hour (0.33 kWh); Python and the command line agree."""
    from halflife.cli.demo import run_demo

    by_hand = {p.name: p.default for p in main.commands["demo"].params}
    in_python = {name: p.default for name, p in inspect.signature(run_demo).parameters.items()}
    assert {k: by_hand[k] for k in ("households", "days", "seed")} == {
        k: in_python[k] for k in ("households", "days", "seed")
    }
    noise = registry.NOTIONS["w-event"].examples()[0].plan(sensitivity=5 / by_hand["households"]).std(1)
    assert noise / math.sqrt(2) < 0.1 * 0.33
    assert by_hand["households"] * by_hand["days"] * 48 <= 7_000_000, "more takes longer than 20 s"


def test_demo_writes_to_its_own_folder_by_default(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run("demo", "--households", 2, "--days", 1).exit_code == 0
    made = {p.name for p in (tmp_path / "halflife-demo").iterdir()}
    assert made == {"report.html", "releases.parquet", "homes", *registry.NOTIONS}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--households", 0], "Error: households must be at least 1, not 0"),
        (["--days", -3], "Error: days must be at least 1, not -3"),
        (["--seed", -1], "Error: seed must be at least 0, not -1"),
        (["--households", 10**9], "fewer households or days"),
    ],
)
def test_what_halflife_refuses_ends_in_one_line_and_status_1(tmp_path, arguments, says):
    result = run("demo", "--out", tmp_path / "out", *arguments)
    assert result.exit_code == 1
    assert says in result.stderr
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""
    assert not (tmp_path / "out").exists()


def test_a_missing_extra_ends_in_one_line(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "plotly.graph_objects", None)
    result = run("demo", "--out", tmp_path / "out")
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert "pip install 'halflife[report]'" in result.stderr


@pytest.mark.parametrize("arguments", [["demo", "--days", "many"], ["demo", "--hose", "1"], ["dmo"]])
def test_what_click_refuses_ends_with_status_2(arguments):
    result = run(*arguments)
    assert result.exit_code == 2
    assert "Error:" in result.stderr


def test_out_may_not_be_a_file(tmp_path):
    (tmp_path / "out").write_text("")
    result = run("demo", "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert "is a file" in result.stderr


# halflife plan ------------------------------------------------------------------------------------------------------

PLAN = ["plan", "--notion", "hyperbolic", "--epsilon", 1, "--beta", 0.1, "--sensitivity", 0.667, "--horizon", 365]


@pytest.mark.parametrize("command", [["plan"], ["reproduce"], ["reproduce", "discounted"]])
def test_every_help_has_an_example(command):
    text = run(*command, "--help").stdout
    assert "Example:" in text
    assert f"halflife {' '.join(command)}" in text


def test_plan_as_its_users_run_it(tmp_path):
    """In a process of its own: what is not protected first, a table, a plot, both answers; nothing on stderr."""
    command = [sys.executable, "-c", "from halflife.cli import main; main()", *map(str, PLAN)]
    options = ["--step", "1 day", "--start", "2026-01-01", "--error", "20", "--html", "plan.html"]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("What is not protected")
    text = " ".join(done.stdout.split())
    assert "The expected error passes 20 at step 84: 2026-03-25 00:00 UTC." in text
    assert "run out at step 182: 2026-07-01 00:00 UTC" in text
    assert "365 2026-12-31 00:00 UTC 28.0 28.0 1.00 100.0 %" in text
    assert "A loss counts half after 10 days." in text
    assert "█" in text
    assert (tmp_path / "plan.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_plan_takes_times_as_people_write_them():
    given = run("plan", "--notion", "w-event", "--epsilon", 1, "--w", "1 week", "--horizon", "4 weeks", "--json")
    assert json.loads(given.stdout)["notion"]["w"] == 336
    assert json.loads(given.stdout)["plan"]["horizon"] == 4 * 336
    odd = run("plan", "--notion", "w-event", "--epsilon", 1, "--w", "45 min")
    assert (odd.exit_code, "'45 min' is 1.5 steps of 30 min" in odd.output) == (1, True)


def test_plan_of_a_policy(tmp_path):
    from publisher.town import make

    make(tmp_path)
    path = tmp_path / "policy.yaml"
    shown = run("plan", path)
    assert (shown.exit_code, "mean, in kWh" in shown.output) == (0, True), shown.output
    (found,) = json.loads(run("plan", path, "--json").stdout)
    assert (found["stream"], found["unit"]) == ("mean", "kWh")
    both = run("plan", path, "--w", 3)
    assert (both.exit_code, "--w: the policy says that" in both.output) == (2, True)
    assert run("plan").exit_code == 2


def test_plan_as_json():
    result = run(*PLAN, "--json", "--error", 20, "--method", "optimal", "--step", "1 day")
    assert (result.exit_code, result.stderr) == (0, "")
    data = json.loads(result.stdout)
    assert data["plan"]["method"] == "optimal"
    assert data["plan"]["duality_gap"] < 1e-3
    assert [a["verdict"] for a in data["answers"]] == ["at", "at"]


@pytest.mark.parametrize("name", ["classical", "w-event", "exponential", "hyperbolic", "gaussian-discount"])
def test_plan_knows_every_notion(name):
    own = {
        "classical": [],
        "w-event": ["--w", 48],
        "exponential": ["--half-life", 48],
        "hyperbolic": ["--beta", 0.02],
        "gaussian-discount": ["--delta", 1e-6, "--alpha", 0.99],
    }
    result = run("plan", "--notion", name, "--epsilon", 1, *own[name], "--every", 2, "--step", "1 h", "--error", 1e4)
    assert result.exit_code == 0, result.output
    assert "What is not protected" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--alpha", 0.9], "Error: hyperbolic has no alpha: it has epsilon, beta"),
        (["--method", "best"], "Known: constant, optimal, paper, tight"),
        (["--beta", 10, "--method", "paper"], "2.075 times epsilon"),
        (["--step", "soon"], "such as '30 min'"),
        (["--start", "soon"], "2026-01-31"),
        (["--error", -1], "error must be above 0"),
        (["--horizon", 0], "horizon must be at least 1"),
        (["--every", 0], "every must be at least 1"),
        (["--notion", "hyperbole"], "did you mean 'hyperbolic'"),
        (["--sensitivity", "nan"], "sensitivity is NaN"),
    ],
)
def test_what_plan_refuses_ends_in_one_line_and_status_1(arguments, says):
    result = run(*PLAN, *arguments)
    assert (result.exit_code, result.stdout) == (1, "")
    assert says in result.stderr
    assert result.stderr.count("\n") == 1


def test_plan_without_its_extra_ends_in_one_line(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "plotly.graph_objects", None)
    assert run(*PLAN).exit_code == 0
    result = run(*PLAN, "--html", tmp_path / "plan.html")
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (1, "", 1)
    assert "pip install 'halflife[report]'" in result.stderr


def test_python_runs_the_command_line_as_a_module():
    done = subprocess.run(
        [sys.executable, "-m", "halflife.cli", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"halflife, version {halflife.__version__}\n"


def test_a_promise_about_files_has_no_plan_for_one_epsilon():
    result = run("plan", "--notion", "swellfish", "--epsilon", 1)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "use `halflife secrets noise FILES...`" in result.stderr


# halflife reproduce -------------------------------------------------------------------------------------------------


def test_reproduce_on_generated_homes(tmp_path, monkeypatch):
    """Without data it says where it is published, and does everything on generated homes; a small town, a short table."""
    from halflife.papers.discounted import report, reproduction

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HALFLIFE_DATA", raising=False)
    quick = replace(
        report.PAPER,
        generated_source=lambda seed: reproduction.generated_source(seed, 5, 30),
        reproduce=lambda source, seed, progress: reproduction.reproduce(source, 200, progress),
    )
    monkeypatch.setattr(report, "PAPER", quick)
    result = run("reproduce", "discounted", "--out", "made", "--seed", 3)
    assert result.exit_code == 0, result.output
    assert "Solar home electricity data" in result.stderr
    assert "London Datastore" in result.stderr
    assert "refused (D1: 2.075 ε)" in result.stdout
    assert "5 generated homes (seed 3)" in result.stdout
    assert {"report.html", "tables.md", "figure2.parquet"} <= {p.name for p in (tmp_path / "made").iterdir()}


def test_reproduce_refuses_a_folder_without_the_data(tmp_path):
    result = run("reproduce", "discounted", "--data", tmp_path, "--out", tmp_path / "out")
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (1, "", 1)
    assert "holds no ausgrid" in result.stderr
    assert not (tmp_path / "out").exists()
