"""`halflife accuracy`: tables, files and JSON of series that are chosen."""

import json

import pytest
from click.testing import CliRunner

from halflife.cli import main
from halflife.lab.accuracy import series


@pytest.fixture
def small(monkeypatch):
    """A catalogue of one series, of 40 steps."""
    source = series.Source("small", "four steps a day", "", "2026-01-05", 40, 4, (series.MUCH, series.LITTLE))
    monkeypatch.setattr(series, "CATALOGUE", (source,))


def run(*arguments):
    return CliRunner().invoke(main, ["accuracy", *map(str, arguments)], env={"COLUMNS": "160"})


@pytest.mark.usefixtures("small")
def test_tables_and_files_are_written(tmp_path):
    done = run("--out", tmp_path / "found", "--days", 8)
    assert done.exit_code == 0, done.output
    assert done.stdout.count("four steps a day") == 6
    assert "Coverage" in done.stdout
    assert sorted(p.name for p in (tmp_path / "found").iterdir()) == ["numbers.json", "report.html", "tables.md"]


@pytest.mark.usefixtures("small")
def test_json_holds_every_case(tmp_path):
    done = run("--out", tmp_path, "--days", 7, "--seeds", 2, "--series", "small", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert [(case["noise"], case["steps"], case["real"]) for case in found] == [(0.4, 28, False), (0.1, 28, False)]
    assert "report.html" in done.stderr


def test_unknown_names_are_refused_before_anything_is_written(tmp_path):
    done = run("--series", "lundon", "--out", tmp_path / "none")
    assert done.exit_code == 1
    assert "london" in done.output
    assert not (tmp_path / "none").exists()
