"""`halflife total`: what it prints, in words and as JSON, and how it fails."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

import halflife as hl
from halflife.cli import main
from publisher.town import make, readings, write_readings

ROOT = Path(__file__).resolve().parents[2]


def run(*arguments):
    return CliRunner().invoke(main, ["total", *map(str, arguments)])


@pytest.fixture(scope="module")
def town(tmp_path_factory):
    folder = tmp_path_factory.mktemp("town")
    write_readings(folder, readings(steps=96))
    for name in ("out.csv", "out.parquet"):
        clock = {"step": "1 h", "start": "2026-01-01", "end": "2026-01-05"}
        policy = make(folder, output=name, clock=clock, ledger=f"{name}.ledger")
        hl.publish(policy, second_ledger=True)
        policy.path("policy.yaml").rename(folder / f"{name}.yaml")
    return folder


def test_a_table_with_what_the_band_covers(town):
    result = run(town / "out.parquet", "--from", "2026-01-02", "--to", "2026-01-03")
    expected = hl.read_published(town / "out.parquet").total("2026-01-02", "2026-01-03")
    assert result.exit_code == 0, result.output
    assert "2026-01-02 00:00   2026-01-03 00:00" in result.output
    (row,) = [line.split() for line in result.output.splitlines() if "kWh" in line]
    assert row[4:] == [f"{expected.value:,.1f}", f"{expected.band:,.1f}", "kWh", "24", "0"]
    assert "Band: 24 independent noises, counted exactly." in result.output


def test_json_holds_what_the_library_gives(town):
    found = json.loads(run(town / "out.parquet", "--by", "day", "--mean", "--json").stdout)
    days = hl.read_published(town / "out.parquet").by("day")
    assert [row["value"] for row in found] == pytest.approx([day.value / 24 for day in days])
    assert [row["band"] for row in found] == pytest.approx([day.band / 24 for day in days])
    assert set(found[0]) == {"start", "end", "value", "band", "unit", "steps", "missing", "covers"}


def test_times_of_an_unknown_zone_are_said_to_be_in_utc(tmp_path):
    file = tmp_path / "out.csv"
    file.write_text("step,start,end,value,error_band\n1,2026-07-01T00:00+01:00,2026-07-01T01:00+01:00,2.5,1\n")
    said = run(file).output
    assert "2026-06-30 23:00   2026-07-01 00:00" in said
    assert "Times are in UTC" in said
    assert "Times are in UTC" not in run(file, "--zone", "Europe/London").output


def test_a_difference_of_two_stretches(town):
    result = run(town / "out.parquet", "--to", "2026-01-02", "--minus", "2026-01-02", "2026-01-03", "--json")
    values = hl.read_published(town / "out.parquet")
    (found,) = json.loads(result.stdout)
    expected = values.total(None, "2026-01-02") - values.total("2026-01-02", "2026-01-03")
    assert (found["value"], found["band"]) == (expected.value, pytest.approx(expected.band))
    words = run(town / "out.parquet", "--to", "2026-01-02", "--minus", "2026-01-02", "2026-01-03").output
    assert "difference" in words
    assert "48 independent noises" in words


def test_missing_steps_are_counted_and_said(town):
    assert "a total is of fewer steps" in run(town / "out.parquet", "--to", "2026-01-07").output
    months = run(town / "out.parquet", "--by", "month", "--mean")
    assert "648" in months.output
    assert "a mean is of those that are there" in months.output


def test_a_text_file_with_and_without_its_policy(town):
    alone, known = (
        json.loads(run(town / "out.csv", *more, "--json").stdout)[0]
        for more in ((), ("--policy", town / "out.csv.yaml"))
    )
    assert alone["value"] == known["value"]
    assert alone["band"] > 3 * known["band"]
    assert "bands were added up, which holds however errors are correlated" in run(town / "out.csv").output
    raw = json.loads(run(town / "out.csv", "--policy", town / "out.csv.yaml", "--raw", "--json").stdout)[0]
    assert raw == known


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["nowhere.csv"], 1, "nowhere.csv is not there"),
        (["out.parquet", "--group", "north"], 1, "has no groups"),
        (["out.parquet", "--from", "2027-01-01", "--to", "2027-02-01"], 1, "has no step from"),
        (["out.parquet", "--by", "day", "--minus", "2026-01-01", "2026-01-02"], 2, "take one of them"),
        (["out.parquet", "--raw"], 1, "give the policy"),
        (["out.parquet", "--by", "moon"], 2, "'moon' is not one of"),
    ],
)
def test_failures_are_one_clear_line(town, monkeypatch, arguments, status, said):
    monkeypatch.chdir(town)
    result = run(*arguments)
    assert (result.exit_code, said in result.output) == (status, True), result.output


def test_every_example_can_be_called():
    """Of the help, the page and README: each line's options exist and go together."""
    pages = [run("--help").output, *((ROOT / name).read_text() for name in ("README.md", "docs/reading.md"))]
    lines = [line for page in pages for line in re.findall(r"^ *halflife (total [^#\n]*)", page, re.M)]
    assert len(lines) == 10
    for line in lines:
        main.commands["total"].make_context("total", shlex.split(line)[1:])
