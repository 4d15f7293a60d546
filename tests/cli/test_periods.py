"""`halflife period`: from readings to a verdict, a page and JSON."""

import csv
import datetime
import json

import numpy as np
import pytest
from click.testing import CliRunner

from halflife.cli import main

WHERE = ["--person", "home", "--time", "at", "--value", "kwh", "--step", "6 h"]


@pytest.fixture(scope="module")
def readings(tmp_path_factory):
    """Forty days of twelve homes with a daily habit; the last home joins ten days later."""
    path, rng = tmp_path_factory.mktemp("period") / "readings.csv", np.random.default_rng(1)
    start = datetime.datetime(2026, 1, 5, 3, tzinfo=datetime.UTC)
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["home", "at", "kwh"])
        for home in range(12):
            for k in range(40 if home == 11 else 0, 160):
                habit = (1.0, 2.0, 5.0, 3.0)[k % 4]
                out.writerow(
                    [f"h{home:02d}", (start + datetime.timedelta(hours=6 * k)).isoformat(), habit + rng.normal(0, 0.5)]
                )
    return path


def run(*arguments):
    return CliRunner().invoke(main, ["period", *map(str, arguments)])


def test_a_daily_habit_is_found(readings, tmp_path):
    page = tmp_path / "page.html"
    done = run(readings, *WHERE, "--period", "1 day", "--period", "30 h", "--report", page)
    assert done.exit_code == 0, done.output
    assert "A period of" in done.output
    assert page.read_text().startswith("<!DOCTYPE html>")
    found = json.loads(run(readings, *WHERE, "--period", "1 day", "--period", "30 h", "--json").stdout)
    assert found["best"] == 4
    assert len(found["checks"]) == 2


def test_homes_are_laid_side_by_side_in_time(readings):
    from halflife.engines.samples import read_sample

    table = read_sample([str(readings)], person="home", time="at", value="kwh", step="6 h").side_by_side()
    assert table.shape == (12, 160)
    assert np.isnan(table[11, :40]).all()
    assert not np.isnan(table[11, 40:]).any()
    assert np.nanmean(table[:, 2::4]) == pytest.approx(5, abs=0.2)


def test_a_period_that_is_no_number_of_steps_is_refused(readings):
    done = run(readings, *WHERE, "--period", "5 h")
    assert done.exit_code == 1
    assert "no whole number of steps of 6 h" in done.output
    assert "halflife period design.parquet" in CliRunner().invoke(main, ["period", "--help"]).output
