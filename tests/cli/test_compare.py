"""`halflife compare`: the command as it is documented, as a program of its own, and what it refuses."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
from click.testing import CliRunner

import halflife as hl
from halflife.cli import main


@pytest.fixture
def series(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("\n".join(str(x) for x in (100 + 50 * np.sin(np.arange(150) / 9)).round(3)) + "\n")
    return path


def run(*arguments):
    return CliRunner().invoke(main, ["compare", *map(str, arguments)], env={"COLUMNS": "200"})


def test_the_json_is_one_object_and_nothing_else(series):
    """The documented command, as a program: rows in the order asked for, and progress and notes on stderr."""
    names = ["uniform", "sample", "bd", "ba", "fast"]
    asked = [x for name in names for x in ("--mechanism", name)]
    command = [sys.executable, "-m", "halflife.cli", "compare", "--series", str(series), *asked, "--w", "20", "--epsilon", "1",
               "--sensitivity", "1", "--repetitions", "30", "--json"]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert [row["mechanism"] for row in found["rows"]] == names
    for row in found["rows"]:
        assert all(isinstance(row[key], float) for key in ("mae", "mae_se", "mre", "rmse"))
        assert row["repetitions"] == 30
    assert "not free" in done.stderr
    assert "Simulation noise only" in done.stderr
    own = hl.compare(names, series, w=20, repetitions=30)
    assert found["rows"] == json.loads(own.to_json())["rows"], "whatever the processes, and as in Python"


def test_tables_and_files(series, tmp_path):
    done = run("--series", series, "--mechanism", "uniform", "--notion", "exponential,half_life=9", "--post", "kalman=5",
               "--repetitions", 3, "--jobs", 1, "--out", tmp_path / "out", "--csv", tmp_path / "rows.csv")  # fmt: skip
    assert done.exit_code == 0, done.output
    for name in ("uniform", "uniform+kalman=5", "exponential,half_life=9", "exponential,half_life=9+kalman=5"):
        assert name in done.stdout
    assert "not free" in done.stdout
    assert (tmp_path / "out" / "report.html").exists()
    assert (tmp_path / "rows.csv").read_text().startswith("mechanism,promise,")


def test_a_column_of_a_file_with_a_header(tmp_path):
    path = tmp_path / "use.csv"
    path.write_text("zone,kwh\n" + "".join(f"a,{k % 7}\n" for k in range(60)))
    done = run("--series", path, "--column", "kwh", "--mechanism", "sample", "--repetitions", 2, "--jobs", 1, "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["series"]["steps"] == 60


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--series", "lundon"), "did you mean 'london'?"),
        (("--series", "none.csv"), "none.csv cannot be read: No such file"),
        (("--series", "sine", "--mechanism", "fst"), "did you mean 'fast'?"),
        (("--series", "sine", "--notion", "clasical"), "did you mean 'classical'?"),
        (("--series", "sine", "--post", "kalmn"), "did you mean 'kalman'?"),
        (("--series", "sine", "--repetitions", 0), "repetitions must be at least 1"),
        (("--series", "sine", "--epsilon", "nan"), "epsilon is NaN"),
        (("--series", "sine", "--column", "x"), "sine has no columns"),
        (("--series", "sine", "--mechanism", "binary-tree"), "(--totals)"),
        (("--series", "sine", "--time-limit", "1e-9", "--jobs", 1), "nothing was done within"),
    ],
)
def test_what_is_refused_ends_with_one_line(arguments, said, tmp_path):
    done = run(*arguments, "--out", tmp_path / "none")
    assert done.exit_code == 1
    assert said in done.output
    assert len(done.output.strip().splitlines()) == 1
    assert not (tmp_path / "none").exists()


def test_a_bad_line_is_named(tmp_path):
    (tmp_path / "x.csv").write_text("1\n2\nthree\n")
    done = run("--series", tmp_path / "x.csv")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "x.csv, line 3 is not a finite number" in done.stderr


def test_the_help_says_which_mre(series):
    text = " ".join(run("--help").output.split())
    assert "1 % of the sum of the whole stream" in text
    assert "not free" in text
