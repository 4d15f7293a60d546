"""The almost-periodic paper: its numbers, what Corollary 8 really loses, and that the report shows what was computed."""

from __future__ import annotations

import datetime
import json
import math
import re
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from halflife import InvalidInput
from halflife.cli import main
from halflife.lab.almost_periodic.periodicity import coefficients
from halflife.lab.data import LONDON
from halflife.lab.views.page import load_plotly
from halflife.papers.almost_periodic import errata, error, homes, report
from halflife.papers.almost_periodic import reproduction as paper
from halflife.papers.figures import plot

DAYS, HOMES = 120, 12


@pytest.fixture(scope="module")
def small():
    """Everything on a small generated town."""
    return paper.reproduce(homes.generated_source(1, HOMES, DAYS), runs=20, copies=3)


def stream(mean, members=10, bound=10.0, read_off=None):
    return homes.Stream(
        "test", np.asarray(mean, dtype=float), members, datetime.date(2013, 1, 1), bound, "public", 0, read_off
    )


# Errors against ε ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.5, 5.0])
def test_the_errors_are_those_of_the_theorems(epsilon):
    """By hand: T = 48, a horizon of 10 days, Δf_z = 0.4, Δf_w = 0.3, Δf = 0.5, and a largest mean of 2.

    Holds Figures 8 and 10.
    """
    ranges, one = error.Ranges(0.4, 0.3, 0.5), stream(np.linspace(0, 2, 480))
    unit = math.sqrt(2) / epsilon / 2
    later = (0.7**2 + 0.3**2) * 9 / 10 + 0.7**2 / 10
    expected = {
        error.WEAK: 48 * 0.4 * unit,
        error.STRONG: 48 * math.sqrt(0.4**2 + 0.3**2) * unit,
        error.PAPER: 48 * math.sqrt(later) * unit,
        error.SPLIT: 480 * 0.5 * unit,
    }
    for mechanism, size in expected.items():
        assert error.relative_error(mechanism, epsilon, ranges, one) == pytest.approx(size, rel=1e-9)
    assert expected[error.STRONG] < expected[error.PAPER], "C1 needs less noise than the unsound corollary"


@pytest.mark.parametrize("mechanism", error.MECHANISMS)
def test_the_simulation_finds_the_closed_form(mechanism):
    ranges, one = error.Ranges(0.4, 0.3, 0.5), stream(2 + np.sin(np.arange(960)))
    found = error.simulated_error(mechanism, 2.0, ranges, one, seed=3, runs=400)
    assert found == pytest.approx(error.relative_error(mechanism, 2.0, ranges, one), rel=0.03)


def test_the_recursion_of_theorem_5_is_reused_noise():
    """y(t mod T) − f(w(t mod T)) + f(w(t)) is f(x(t)) + v(t mod T), as f is linear: the same noise in every period."""
    f = np.random.default_rng(1).uniform(0, 2, (6, 5))
    noise = error.publish_runs(f, error.Scales(1.5, 0.0, 0.0), np.random.default_rng(2), 3) - f
    assert noise == pytest.approx(np.broadcast_to(noise[:, :1], noise.shape), abs=1e-12)
    assert noise[:, 0] == pytest.approx(np.random.default_rng(2).laplace(0.0, 1.5, (3, 5)), abs=1e-12)


def test_fresh_noise_is_fresh():
    noise = error.publish_runs(np.zeros((4, 3)), error.Scales(0.0, 0.0, 1.0), np.random.default_rng(2), 500)
    assert not noise[:, 0].any()
    assert np.abs(noise[:, 1:]).mean() == pytest.approx(1.0, rel=0.05)
    assert len(np.unique(noise[:, 1:])) == 500 * 3 * 3


def test_the_gain_is_the_number_of_days_and_not_200():
    ausgrid, umass = error.gain_data()
    assert (ausgrid.days, ausgrid.horizon, ausgrid.weak) == (365, 17_520, pytest.approx(365))
    assert (umass.days, umass.horizon, umass.weak) == (349, 16_752, pytest.approx(349))
    assert ausgrid.strong == pytest.approx(365 / math.sqrt(2), rel=1e-9)
    assert ausgrid.corollary_8 == pytest.approx(365 / math.sqrt(5 - 1 / 365), rel=1e-9)
    assert (ausgrid.printed_horizon, umass.printed_horizon) == (umass.horizon, ausgrid.horizon), "swapped: P2"


def test_sensitivities_are_public_and_the_papers_are_read_off(small):
    one = small.source.second
    assert error.public_ranges(one) == error.Ranges(*[5.0 / HOMES] * 3)
    x = small.source.homes
    mean_day = x.reshape(HOMES, DAYS, 48).mean(axis=1)
    seen = error.read_off_ranges(one)
    assert seen.z == pytest.approx((mean_day.max() - mean_day.min()) / HOMES)
    assert seen.x == pytest.approx((x.max() - x.min()) / HOMES)
    assert seen.z < seen.x < seen.w
    assert error.read_off_ranges(stream([1.0, 2.0])) is None


# What is published --------------------------------------------------------------------------------------------------


def test_what_is_published_carries_the_same_noise_every_day():
    one = stream(np.random.default_rng(1).uniform(0, 1, 30 * 48))
    noise = (error.outcome(one, 1.0, range(96, 96 + 240), seed=1) - one.mean[96:336]).reshape(5, 48)
    assert noise == pytest.approx(np.tile(noise[0], (5, 1)), abs=1e-9)
    again = error.outcome(one, 2.0, range(96, 144), seed=1) - one.mean[96:144]
    assert again == pytest.approx(2 * noise[0], rel=1e-6), "twice the sensitivity, twice the noise"


def test_published_noise_has_the_scale_of_theorem_5():
    one = stream(np.zeros(96))
    noise = [error.outcome(one, 0.5, range(48), seed) for seed in range(40)]
    assert np.abs(noise).mean() == pytest.approx(48 * 0.5 / error.EPSILON, rel=0.07)


def test_figure_7_shows_a_week_from_monday(small):
    """Holds Figures 7 and 9."""
    (panel,) = small.panels["7"]
    first = small.source.start + datetime.timedelta(days=homes.first_monday(small.source.start, DAYS // 2))
    assert first.strftime("Monday, %-d %B %Y") in panel.x_title
    day = (first - small.source.start).days
    assert np.array_equal(panel["exact"], small.source.first.mean[day * 48 : day * 48 + 336])


# Homes --------------------------------------------------------------------------------------------------------------


def test_the_coefficients_are_those_of_section_3(small):
    """§3, by its formula, with plain loops, for three pairs. Holds Figures 2 to 4."""
    x = small.source.homes.reshape(HOMES, DAYS, 48)
    w = x - x.mean(axis=1, keepdims=True)
    for k, ell in ((0, 1), (3, 90), (17, 110)):
        mu_k, mu_l = w[:, k].mean(axis=0), w[:, ell].mean(axis=0)
        top = sum(float((w[j, k] - mu_k) @ (w[j, ell] - mu_l)) for j in range(HOMES))
        sigma = [
            math.sqrt(sum(float(((w[j, i] - mu) ** 2).sum()) for j in range(HOMES)))
            for i, mu in ((k, mu_k), (ell, mu_l))
        ]
        assert small.daily.rho[k, ell] == pytest.approx(top / sigma[0] / sigma[1], rel=1e-9)
    assert (small.daily.period, small.weekly.period, small.weekly.periods) == (48, 336, DAYS // 7)


def test_each_printed_coefficient_stands_beside_its_own_data_set(small):
    """Holds Figures 3 to 6."""
    rows = paper.coefficient_rows(small)
    printed = {(row[1].split(",")[0], row[3]): row[4:6] for row in rows if row[0] == "paper"}
    assert printed == {
        ("Ausgrid", "day"): ("0.1259", "below 0.5"),
        ("Ausgrid", "week"): ("not printed", "below 0.33"),
        ("UMass", "day"): ("0.0746", "below 0.35"),
    }
    ours = [row for row in rows if row[0] == "ours"]
    assert [row[3] for row in ours] == ["day", "week"]
    assert {row[1] for row in ours} == {small.source.name}


def town(readings):
    """A source of these homes × days × 48 readings."""
    x = np.asarray(readings, dtype=float).reshape(len(readings), -1)
    one = stream(x.mean(axis=0), len(x))
    return homes.Source("test", x, datetime.date(2013, 1, 1), one, one, (), False)


def test_drift_by_hand():
    """A mean day that grows by a tenth a month lies k tenths away after k months, over its mean of 1.15."""
    day = np.random.default_rng(1).uniform(0.1, 1.0, 48)
    growing = np.repeat(1 + 0.1 * np.arange(4), 30)[:, None] * day
    found = homes.drift_data(town([growing, 2 * growing, 3 * growing]))
    assert found.middle == pytest.approx(np.array([0.1, 0.2, 0.3]) / 1.15, rel=1e-9)
    assert found.tenth == pytest.approx(found.middle)
    assert found.chance.max() < 0.06


def test_homes_drift_at_their_own_pace():
    """Eleven homes that grow by 0, 1, … 10 % a month: the middle one by 5 %, and a tenth of them further than 9 %."""
    day = np.random.default_rng(1).uniform(0.1, 1.0, 48)
    paces = np.arange(11) / 100
    readings = [np.repeat(1 + pace * np.arange(2), 30)[:, None] * day for pace in paces]
    found = homes.drift_data(town(readings))
    assert found.middle == pytest.approx([0.05 / 1.025], rel=1e-9)
    assert found.tenth == pytest.approx([0.09 / 1.045], rel=1e-9)


def test_without_drift_there_is_chance_alone():
    rng = np.random.default_rng(2)
    steady = 1 + rng.uniform(0, 1, (30, 1, 48)) + rng.normal(0, 0.5, (30, 120, 48))
    found = homes.drift_data(town(steady))
    assert found.middle == pytest.approx(found.chance, rel=0.1)
    with pytest.raises(InvalidInput, match="two months"):
        homes.drift_data(town(steady[:, :40]))


def test_variations_that_tell_and_that_do_not():
    rng = np.random.default_rng(3)
    size, shape = rng.lognormal(0, 1, (200, 1, 1)), rng.normal(0, 0.1, (200, 60, 48))
    telling = homes.pattern_size_data(town(size * (1 + shape)))
    assert telling.every_home > 0.999
    assert abs(homes.pattern_size_data(town(size + shape)).every_home) < 0.2
    nearly_empty = homes.pattern_size_data(town(np.concatenate([size * (1 + shape), 1e-6 * (1 + 1000 * shape[:1])])))
    assert (nearly_empty.homes, nearly_empty.lived_in_homes) == (201, 200)
    assert nearly_empty.lived_in == pytest.approx(telling.every_home, rel=1e-9)


def test_figure_1_adds_up(small):
    """Holds Definition 1: x = z + w, and z repeats."""
    for panel in small.panels["1"]:
        x, z, w = (curve.y for curve in panel.curves)
        assert x == pytest.approx(z + w)
    week = small.panels["1"][1]
    assert np.array_equal(week["z, what repeats"][:48], week["z, what repeats"][48:96])
    assert any(
        np.allclose(week["x, the reading"], home[k : k + 336])
        for home in small.source.homes
        for k in range(0, 5000, 48)
    )


# P1 and the other errata --------------------------------------------------------------------------------------------


def test_p1_what_corollary_8_loses():
    found = {row.periods: row for row in errata.loss_data()}
    assert (found[2].attained, found[10].attained) == (1.5, 9.5)
    for row in found.values():
        assert row.attained == pytest.approx(row.formula) == pytest.approx(row.periods - 0.5)


def test_the_attack_sharpens_against_corollary_8_and_not_against_c1():
    found = errata.attack_data((4, 16, 64, 256), runs=6000)
    assert [row.paper_simulated for row in found] == pytest.approx(
        [math.sqrt(2 / row.periods) for row in found], rel=0.05
    )
    assert [row.corrected_simulated for row in found] == pytest.approx([row.corrected for row in found], rel=0.05)
    slope = math.log(found[-1].paper_simulated / found[0].paper_simulated) / math.log(64)
    assert slope == pytest.approx(-0.5, abs=0.03)
    assert found[-1].corrected_simulated > 1.3


def test_every_erratum_has_its_witness(small):
    found = {row.name: row for row in small.errata}
    assert list(found) == ["P1", "P2", "P3", "P4", "P5", "§3"]
    assert "1.5 ε after 2 periods, 9.5 ε after 10" in found["P1"].computed
    assert "365 and 349" in next(row for row in small.errata if "abstract" in row.about).computed
    assert "exactly 0.1 if z = 0.9 and exactly 0.3 if z = 0.5" in found["P4"].computed
    assert errata.p3_gap(small.source) < 1e-12
    negative = (small.daily.coefficients() < 0).mean()
    assert f"{100 * negative:.0f} % are" in next(row for row in small.errata if row.about.startswith("0 ≤")).computed


# Renewal ------------------------------------------------------------------------------------------------------------


def test_renewals_and_drift_stand_beside_each_other(small):
    rows = {row.days: row for row in paper.freshness_data(small)}
    assert [rows[n].classical for n in (1, 30, 60, 90, 120)] == pytest.approx([120, 4, 2, 2, 1])
    assert (rows[10].window, rows[30].window) == (pytest.approx(3), pytest.approx(1))
    assert rows[60].moved == small.drift.middle[1]
    assert math.isnan(rows[15].moved)


# The data -----------------------------------------------------------------------------------------------------------


@pytest.mark.soak
def test_on_the_real_data(data_folder):
    source = homes.real_source(data_folder)
    assert source.homes.shape == (269, 17_520)
    assert int(np.isnan(source.homes).sum()) == 830
    assert (source.second.absent, source.first.absent) == (410, 2)
    table = pq.read_table(data_folder / LONDON, filters=[("ts", "==", datetime.datetime(2013, 5, 4, 18, 30))])
    slot = (datetime.datetime(2013, 5, 4, 18, 30) - datetime.datetime(2013, 1, 1)) // datetime.timedelta(minutes=30)
    assert set(source.homes[:, slot][~np.isnan(source.homes[:, slot])]) <= set(table["kwh"].to_pylist())
    assert source.first.horizon == 17_520
    assert source.first.mean.sum() == pytest.approx(5588, rel=1e-3), "kWh per home and year, as the data's README says"
    assert source.second.bound > np.nanmax(source.homes), "the public bound binds nowhere"
    rho = coefficients(source.homes, 48)[np.triu_indices(365, 1)]
    assert np.median(np.abs(rho)) == pytest.approx(0.157, abs=5e-4)
    assert np.abs(rho).max() == pytest.approx(0.54, abs=5e-3)
    told = homes.pattern_size_data(source)
    assert (told.homes, told.every_home) == (269, pytest.approx(0.806, abs=1e-3))
    assert (told.lived_in_homes, told.lived_in) == (267, pytest.approx(0.84, abs=1e-3))
    drift = homes.drift_data(source)
    assert drift.middle[6] == pytest.approx(0.48, abs=0.01)
    assert drift.chance[6] == pytest.approx(0.20, abs=0.01)
    assert error.relative_error(error.WEAK, 5.0, error.public_ranges(source.first), source.first) == pytest.approx(
        math.sqrt(2) * 48 * (10 / 300) / 5 / 1.23872, rel=1e-4
    )
    assert any("not at hand" in note for note in source.notes)


def test_generated_homes_repeat():
    one, again, other = (homes.generated_source(seed, 3, 3) for seed in (1, 1, 2))
    assert np.array_equal(one.homes, again.homes)
    assert not np.array_equal(one.homes, other.homes)
    assert "London Datastore" in one.notes[0]
    with pytest.raises(InvalidInput, match="needs as many readings"):
        homes.split_pattern(one.homes, 336)


# What is written ----------------------------------------------------------------------------------------------------


def test_everything_is_written(small, tmp_path):
    written = report.write_all(small, tmp_path / "new")
    assert {p.name for p in (tmp_path / "new").iterdir()} == {p.name for p in written}
    page = written[0].read_text(encoding="utf-8")
    assert page.count("plotly.js v") == 1
    first = page.index("exactly: a new car")
    assert first < page.index("Figure 1"), "what weak privacy does not protect stands first"
    for text in ("UNSOUND", "approximately 200 folds", "not at hand", "Figure 10", "generated homes", "given w"):
        assert text in page
    found = json.loads(written[2].read_text(encoding="utf-8"))
    assert found["gains"][0]["weak"] == pytest.approx(365)
    assert len(found["errors"]) == 2 * 4 * len(error.EPSILONS)
    table = pq.read_table(tmp_path / "new" / "rho_daily.parquet")
    assert table.num_rows == DAYS * (DAYS - 1) // 2
    at = table["k"].to_pylist().index(5)
    assert table["rho"][at].as_py() == small.daily.rho[4, table["l"][at].as_py() - 1]


def test_every_table_has_as_many_cells_in_each_row(small):
    text = paper.tables_markdown(small)
    tables = [block for block in text.split("\n\n") if block.startswith("| ")]
    assert len(tables) == 7
    for table in tables:
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table.strip().splitlines()}) == 1


def test_the_table_of_errors_says_how_far_the_simulation_is_off(small):
    rows = paper.error_rows(small)
    assert len(rows) == 4, "one stream stands in for both"
    closed = error.relative_error(error.WEAK, 5.0, error.public_ranges(small.source.second), small.source.second)
    cell = rows[0][paper.ERROR_HEADS.index("ε = 5")]
    assert float(cell.rstrip("\u00a0%").replace(",", "")) == pytest.approx(100 * closed, rel=6e-3)
    assert all(0 < float(row[-2].strip("±\u00a0%")) < 12 for row in rows)


def test_the_plots_show_the_numbers(small):
    load_plotly()
    for panels in small.panels.values():
        for panel in panels:
            drawn = plot(panel)
            assert [line.name for line in drawn.data] == [curve.name for curve in panel.curves]
            for line, curve in zip(drawn.data, panel.curves, strict=True):
                assert np.array_equal(line.y, curve.y, equal_nan=True)


def test_progress_goes_forward_to_the_end():
    seen = []
    paper.reproduce(homes.generated_source(1, 3, 70), 1, lambda *call: seen.append(call), runs=2, copies=1)
    assert [done for _, done, _ in seen] == list(range(len(seen)))
    assert {total for *_, total in seen} == {len(seen)}
    assert all(what for what, _, _ in seen)


def test_a_folder_that_cannot_be_made_is_named(small, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match="choose another folder"):
        report.write_all(small, tmp_path / "file" / "out")


def test_the_command_on_generated_homes(tmp_path, monkeypatch):
    monkeypatch.delenv("HALFLIFE_DATA", raising=False)
    here = tmp_path / "checkout"
    here.mkdir()
    monkeypatch.chdir(here)
    make, compute = homes.generated_source, paper.reproduce
    quick = replace(
        report.PAPER,
        generated_source=lambda seed: make(seed, 4, 70),
        reproduce=lambda source, seed, progress: compute(source, seed, progress, runs=2, copies=1),
    )
    monkeypatch.setattr(report, "PAPER", quick)
    done = CliRunner().invoke(main, ["reproduce", "almost-periodic", "--out", "made", "--seed", "3"])
    assert done.exit_code == 0, done.output
    for text in ("0.1259", "0.0746", "Ausgrid", "UMass", "not at hand", "4 generated homes (seed 3)", "Contradicted"):
        assert text.lower() in done.output.lower()
    assert json.loads((here / "made" / "numbers.json").read_text(encoding="utf-8"))["data"]["homes"] == 4


def test_the_command_refuses_a_folder_without_the_data(tmp_path):
    done = CliRunner().invoke(
        main, ["reproduce", "almost-periodic", "--data", str(tmp_path), "--out", str(tmp_path / "out")]
    )
    assert done.exit_code != 0
    assert "holds no" in done.output
    assert not (tmp_path / "out").exists()
