"""`halflife secrets`: generate, show, check and noise, from files to numbers, pages and exit status."""

import json
import re

import numpy as np
import pytest
from click.testing import CliRunner

from halflife import Secret, Specification, Swellfish
from halflife.cli import main
from halflife.specifications import Specifications, read_specifications, write_specifications

RECURRING = """\
zone: Europe/Berlin
households:
  Elm 7:
    - every weekday 18:00-21:00, oven, 3 kW, 30 min, epsilon 1
  Oak 2:
    - {what: holiday, start: 2026-01-10, end: 2026-01-12, power: 2 kW, duration: 2 days, epsilon: 0.5}
"""
CLOCK = ["--step", "1 h", "--start", "2026-01-05", "--zone", "Europe/Berlin", "--end", "2026-01-19"]


def run(*arguments):
    return CliRunner().invoke(main, ["secrets", *map(str, arguments)])


@pytest.fixture
def witness(tmp_path):
    """Erratum S1: ten events that share a hiding interval with one small one."""
    ten = [Secret(3.0, 10, 10 * k + 1, 10 * k + 10, 1.0) for k in range(10)]
    path = tmp_path / "witness.csv"
    write_specifications(Specifications(Specification([Secret(0.1, 2, 1, 100, 1.0), *ten], "Elm 7")), path)
    return path


@pytest.fixture
def town(tmp_path):
    path = tmp_path / "town.yaml"
    path.write_text(RECURRING)
    return path


def test_generated_secrets_are_written_with_their_numbers_beside_the_papers(tmp_path):
    out = tmp_path / "secrets.parquet"
    done = run("generate", "--households", 4, "--days", 3, "--seed", 2, "--out", out)
    assert done.exit_code == 0, done.output
    held = read_specifications(out).specifications
    assert f"{len(held):,} secrets of 4 households" in done.output
    assert f"{int(held.duration.max())} steps (the paper: 65)" in done.output
    assert f"{Swellfish(held).sensitivity.largest:.4g} kW (the paper: 3.92 kW)" in done.output
    assert "For the lab alone" in done.output
    assert "recurring windows" in done.output
    assert held.epsilon.min() >= 0.1
    assert held.epsilon.max() <= 1
    found = json.loads(run("generate", "--households", 4, "--days", 3, "--seed", 2, "--out", out, "--json").stdout)
    assert found["secrets"] == len(held)
    assert found["steps"] == 288


def test_a_place_that_cannot_be_written_to_is_said(tmp_path):
    done = run("generate", "--households", 1, "--days", 1, "--out", tmp_path / "nowhere" / "secrets.csv")
    assert done.exit_code == 1
    assert "cannot be written" in done.output
    assert ".parquet" in run("generate", "--households", 1, "--days", 1, "--out", tmp_path / "secrets.txt").output


def test_show_says_how_much_is_hidden_and_when(town, tmp_path):
    page = tmp_path / "page.html"
    done = run("show", town, *CLOCK, "--html", page)
    assert done.exit_code == 0, done.output
    lines = dict(re.findall(r"^(.*?):\s+(.*)$", done.output, re.M))
    assert (lines["households"], lines["secrets"], lines["longest event"]) == ("2", "11", "48 steps")
    assert lines["largest temporal sensitivity Δ"] == "3.00 kW, first at step 19"
    assert lines["somebody hides something"] == f"at {100 * (30 + 48) / 336:.1f} % of the steps"
    assert "exact value is published" in done.output
    assert "2026-01-05T00:00" in page.read_text()  # times are in the zone of the clock
    found = json.loads(run("show", town, *CLOCK, "--json").stdout)
    assert found["steps"] == 336
    assert found["one_household"] == pytest.approx((30 + 48) / 2 / 336)


def test_secrets_by_the_clock_ask_for_the_clock(town):
    done = run("show", town)
    assert done.exit_code == 1
    assert "town.yaml:4:7" in done.output
    assert "--start 2026-01-01" in done.output
    assert "--end" in run("noise", town, "--start", "2026-01-05").output
    assert "give --start" in run("show", town, "--end", "2026-02-01").output
    assert (
        "before the end of the first step" in run("show", town, "--start", "2026-02-01", "--end", "2026-01-01").output
    )


def test_check_names_every_problem_with_file_line_and_field(town, tmp_path):
    assert run("check", town, *CLOCK).exit_code == 0
    assert "11 secrets of 2 households: all are good." in run("check", town, *CLOCK).output
    bad = tmp_path / "bad.csv"
    bad.write_text("household,power,duration,start,end,epsilon\na,3,5,1,4,1\na,-1,1,1,4,1\nb,1,1,1,4,1\n")
    done = run("check", bad, town, *CLOCK)
    assert done.exit_code == 1
    assert f"{bad}:2" in done.output
    assert "duration" in done.output
    assert re.search(rf"{re.escape(str(bad))}:3: power", done.output)
    assert "12 secrets of 3 households could be read, the rest could not." in done.output
    listed = run("check", bad, town, *CLOCK, "--json")
    assert listed.exit_code == 1
    assert len(json.loads(listed.stdout)["problems"]) == 2
    assert run("check", tmp_path / "missing.csv").exit_code == 1


def test_the_witness_of_s1_is_named_with_its_loss(witness, tmp_path):
    page = tmp_path / "noise.html"
    done = run("noise", witness, "--delta", 0, "--methods", "paper,tight,optimal", "--html", page)
    assert done.exit_code == 0, done.output
    said = " ".join(done.output.split())
    assert "read as all-events: 1 of 11 secrets lose more than their ε" in said
    assert "Worst: Elm 7, steps 1 to 100 (0.1 kW for 2 steps), 9.684 instead of 1." in said
    assert "9.68 ε (1)" in page.read_text()
    found = json.loads(run("noise", witness, "--delta", 0, "--json").stdout)
    paper, tight, optimal = found["plans"]
    assert [plan["method"] for plan in found["plans"]] == ["paper", "tight", "optimal"]
    assert paper["interpretations"]["all-events"]["worst"]["loss"] == pytest.approx(9.684, abs=1e-3)
    assert all(plan["interpretations"][r]["kept"] for plan in found["plans"] for r in ("one-event", "one-window"))
    # Δ = 3.1 and T/ε = 10 at every step: λ = 31 by hand, and the standard deviation is √2 times that
    assert tight["total_std"] == pytest.approx(np.sqrt(2) * 31 * 100, rel=1e-6)
    assert tight["mean_absolute_error"] == pytest.approx(31, rel=1e-6)
    assert optimal["total_std"] <= tight["total_std"] * (1 + 1e-9)
    assert found["quieter"] == []


def test_all_events_have_a_plan_of_their_own_and_no_baseline(witness):
    found = json.loads(
        run("noise", witness, "--delta", 0, "--methods", "tight", "--neighbours", "all-events", "--json").stdout
    )
    (plan,) = found["plans"]
    assert plan["interpretations"]["all-events"]["kept"]
    assert found["uniform"] == []
    done = run("noise", witness, "--delta", 0, "--methods", "tight", "--neighbours", "all-events")
    assert "No baseline: Theorem 7" in " ".join(done.output.split())


def test_with_delta_there_are_both_families_and_the_table_of_t6(tmp_path):
    path = tmp_path / "one.csv"
    write_specifications(Specifications(Specification([Secret(1.0, 65, 1, 100, 0.1)], "a")), path)
    found = json.loads(run("noise", path, "--json").stdout)
    kinds = [(plan["method"], plan["delta"] > 0, plan["noise"]) for plan in found["plans"]]
    assert kinds == [
        ("paper", False, "laplace"), ("tight", False, "laplace"), ("optimal", False, "laplace"),
        ("paper", True, "laplace"), ("tight", True, "laplace"), ("optimal", True, "laplace"),
        ("tight", True, "gaussian"), ("optimal", True, "gaussian"),
    ]  # fmt: skip
    means = {kind: plan["mean_absolute_error"] for kind, plan in zip(kinds, found["plans"], strict=True)}
    assert means["paper", True, "laplace"] == pytest.approx(650.6, abs=0.1)  # Theorem 11 at w = 65
    assert means["tight", True, "laplace"] == pytest.approx(363.45, abs=0.01)  # T6
    assert means["tight", True, "gaussian"] == pytest.approx(372.88 * np.sqrt(2 / np.pi), rel=1e-4)
    assert found["delta"] == 1 / 117_716_237
    quieter = {row["duration"]: row["noise"] for row in found["quieter"]}
    assert (quieter[10], quieter[11]) == ("laplace", "gaussian")


def test_without_files_homes_are_generated(tmp_path):
    done = run("noise", "--households", 2, "--days", 1, "--delta", 0, "--methods", "tight")
    assert done.exit_code == 0, done.output
    assert "Generated homes. For the lab alone" in done.output
    assert "2 households, 96 steps, one-window" in done.output


def test_a_delta_too_large_for_the_population_is_warned_of(tmp_path):
    path = tmp_path / "many.csv"
    write_specifications(Specifications([Specification([Secret(1.0, 1, 1, 9, 1.0)], f"{i}") for i in range(50)]), path)
    done = run("noise", path, "--delta", "1/25", "--methods", "tight")
    assert "WARNING: δ = 0.04 is too large for 50 households" in done.output
    assert "1/50 = 0.02" in done.output
    assert "WARNING" not in run("noise", path, "--delta", "1/60", "--methods", "tight").output


def test_what_is_not_understood_is_said(witness):
    assert (
        "unknown plan of secrets 'tigth': did you mean 'tight'?" in run("noise", witness, "--methods", "tigth").output
    )
    assert "one-window" in run("noise", witness, "--neighbours", "two-windows").output
    for wrong in ("a", "1/0", "nan"):
        assert "1/117716237" in run("noise", witness, "--delta", wrong).output
    assert run("noise", witness, "--delta", "-1").exit_code == 1
    assert run("noise", witness, "--steps", "0").exit_code == 1


def test_every_command_has_an_example():
    for command in ((), ("generate",), ("show",), ("check",), ("noise",)):
        assert "Example:" in run(*command, "--help").output


def test_plan_sends_to_secrets_noise():
    done = CliRunner().invoke(main, ["plan", "--notion", "swellfish"])
    assert done.exit_code == 1
    assert "halflife secrets noise" in done.output
