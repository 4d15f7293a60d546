"""The discounted paper: its numbers, the errata that a table shows, and that the docs print what the command computes."""

from __future__ import annotations

import datetime
import math
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from halflife import (
    Accountant,
    BudgetExceeded,
    ExponentialDiscount,
    HyperbolicDiscount,
    InvalidInput,
    Release,
    mean_sensitivity,
)
from halflife.lab.data import AUSGRID, LONDON
from halflife.lab.views.page import load_plotly
from halflife.papers.discounted import attacks, report
from halflife.papers.discounted import reproduction as paper

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs" / "discounted.md"


@pytest.fixture(scope="module")
def small():
    """Everything on a small generated town."""
    return paper.reproduce(paper.generated_source(seed=1, homes=5, days=40), steps=300)


# The published numbers ----------------------------------------------------------------------------------------------


def test_d1_witnesses():
    """Corollary 16, used unchecked, would break the promise; with 10 % more noise the same risk would not come out."""
    found = {w.beta: w for w in paper.witness_data()}
    assert found[10.0].risk == pytest.approx(2.075, abs=5e-4)
    assert found[100.0].risk == pytest.approx(13.74, abs=5e-3)
    assert (found[10.0].step, found[100.0].step) == (1, 1)
    assert found[3.6].risk <= 1 < found[3.7].risk
    assert paper.where_corollary_16_ends() == pytest.approx(3.654, abs=5e-4)
    for beta in (3.7, 10.0, 100.0):
        with pytest.raises(InvalidInput, match="D1"):
            HyperbolicDiscount(1.0, beta=beta).plan(method="paper")


def corollary_16(beta, k):
    """As printed."""
    root = math.atanh(math.sqrt(beta / (1 + beta)))
    return 2 * (math.atanh(1 / math.sqrt(3)) + root) * math.sqrt(k) / math.sqrt(beta * (beta + 1))


@pytest.fixture(scope="module")
def table():
    return {(r.beta, r.method): r for r in paper.table_data()}


@pytest.mark.parametrize(
    ("beta", "tight", "optimal", "constant", "last_tight", "last_paper"),
    [(0.1, 68.97, 68.77, 75.2, 77.79, 774.0), (0.01, 476.0, 469.2, 517.7, 556.4, 1997.5)],
)
def test_the_table_of_t1(table, beta, tight, optimal, constant, last_tight, last_paper):
    expected = {"tight": tight, "optimal": optimal, "constant": constant}
    for method, rms in expected.items():
        assert table[beta, method].root_mean_square == pytest.approx(rms, rel=1e-3)
    assert table[beta, "tight"].last == pytest.approx(last_tight, rel=1e-4)
    assert table[beta, "paper"].last == pytest.approx(last_paper, rel=1e-4)
    assert 0 <= table[beta, "optimal"].duality_gap < 1e-5


@pytest.mark.parametrize("beta", paper.TABLE_BETAS)
def test_the_table_by_other_means(table, beta):
    """The paper's formula as printed, the harmonic sum, and that no plan beats `optimal` by more than its gap."""
    k = np.arange(1, paper.TABLE_STEPS + 1)
    if beta == 10:
        assert table[beta, "paper"].over == pytest.approx(1 / corollary_16(10, 1), rel=1e-9)
    else:
        scales = np.array([corollary_16(beta, float(x)) for x in k])
        row = table[beta, "paper"]
        assert (row.last, row.mean) == pytest.approx((scales[-1], scales.mean()), rel=1e-9)
        assert row.root_mean_square == pytest.approx(math.sqrt((scales**2).mean()), rel=1e-9)
    assert table[beta, "constant"].last == pytest.approx((1 / (1 + beta * (k - 1))).sum(), rel=1e-6)
    best = table[beta, "optimal"]
    for method in ("tight", "constant"):
        assert table[beta, method].root_mean_square >= best.root_mean_square * (1 - best.duality_gap)


def test_where_the_discount_hardly_acts_tight_spends_too_early():
    rows = {r.method: r.root_mean_square for r in paper.table_data(paper.SMALL_BETAS)}
    assert (rows["tight"], rows["constant"]) == pytest.approx((15_855, 10_124), rel=1e-4)
    assert rows["optimal"] == pytest.approx(9_982, rel=1e-3)


@pytest.mark.parametrize(("product", "above"), [(10, 0.12), (30, 0.05), (175, 0.015)])
def test_how_far_tight_lies_above_optimal(product, above):
    """It depends on β·T alone, nearly, so a short horizon shows what the docs say of a long one."""
    rows = {r.method: r.root_mean_square for r in paper.table_data([product / 4000], 4000)}
    assert rows["tight"] / rows["optimal"] - 1 == pytest.approx(above, abs=0.1 * above + 0.002)
    assert (rows["constant"] < rows["tight"]) == (product < 17)


def test_the_docs_print_what_the_command_computes(table):
    text = DOCS.read_text(encoding="utf-8")
    assert paper.scale_table(list(table.values())) in text
    assert paper.scale_table(paper.table_data(paper.SMALL_BETAS)) in text
    assert paper.witness_table(paper.witness_data()) in text
    wrong = [r._replace(last=1.1 * r.last) if r.method == "tight" else r for r in table.values()]
    assert paper.scale_table(wrong) not in text


def test_the_examples_of_the_docs_run_as_pasted(tmp_path):
    program = tmp_path / "pasted.py"
    program.write_text("\n".join(re.findall(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.S)))
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    assert "A loss counts half after" in done.stdout


def test_people_who_leave_cost_noise_and_no_loss():
    """Remark 1 with a public n_k, by an account: every release is charged range / n_k over its scale, and all fit."""
    members = [300] * 30 + [150] * 30 + [600] * 30
    notion = HyperbolicDiscount(1.0, beta=0.1)
    plan = notion.plan(sensitivity=mean_sensitivity(0.0, 5.0, members))
    account = Accountant(notion)
    for k, n in enumerate(members, start=1):
        account.admit(Release(k, 5.0 / n / plan.scale(k)))
    assert account.used(90) == pytest.approx(1.0, rel=1e-5)
    scales = plan.scales(90) * np.array(members) / 5.0
    assert scales == pytest.approx(notion.plan().scales(90), rel=1e-9)
    with pytest.raises(BudgetExceeded):
        account.admit(Release(91, 1.1 * plan.loss(90)))


# The figures --------------------------------------------------------------------------------------------------------


def test_figure_2_is_the_corollaries_over_the_series(small):
    source = small.source
    k, f = np.arange(1, 41), source.mean_kwh
    b = {
        "Corollary 8": math.pi**2 * k**2 / 6,
        "Corollary 12": np.full(40, 1 / (1 - paper.ALPHA)),
        "Corollary 16": np.array([corollary_16(paper.BETA, float(x)) for x in k]),
    }
    curves = {name: y for panel in small.errors.values() for name, y in panel.items() if name.startswith("paper")}
    assert len(curves) == 3
    for name, y in curves.items():
        expected = source.sensitivity * b[name.removeprefix("paper: ")] / paper.EPSILON / f
        assert y == pytest.approx(expected, rel=1e-9)


def test_beside_each_curve_of_the_paper_is_one_of_ours(small):
    for panel in small.errors.values():
        first, *ours = panel
        assert first.startswith("paper")
        assert "tight, for ever" in ours
    assert sum("different notion" in name for panel in small.errors.values() for name in panel) == 2
    hyperbolic = next(p for name, p in small.errors.items() if name.startswith("hyperbolic"))
    assert (hyperbolic["tight, for ever"][20:] < 0.8 * hyperbolic["paper: Corollary 16"][20:]).all()


def test_figure_3_averages_and_where_the_papers_curve_ends(small):
    source, averages = small.source, small.averages
    beta = averages["β"]
    holds = beta["parameter"] < 3.654
    assert np.array_equal(np.isfinite(beta["paper: Corollary 16"]), holds)
    assert not holds.all()
    for i in (0, 10, -1):
        notion = HyperbolicDiscount(1.0, beta=float(beta["parameter"][i]))
        scales = [notion.plan(source.sensitivity).scale(k) for k in range(1, 41)]
        assert beta["tight, for ever"][i] == pytest.approx(np.mean(scales / source.mean_kwh), rel=1e-9)
    alpha = averages["α"]
    expected = [source.sensitivity / (1 - a) * (1 / source.mean_kwh).mean() for a in alpha["parameter"]]
    assert alpha["paper: Corollary 12"] == pytest.approx(expected, rel=1e-9)
    for curve in ("paper: Corollary 12", "tight, for ever"):
        assert (np.diff(alpha[curve]) > 0).all(), "less forgetting, more noise"
    assert (np.diff(beta["tight, for ever"]) < 0).all()
    assert ExponentialDiscount(1.0, alpha=0.9).plan().scale(1) == pytest.approx(1.0, rel=1e-6)


def test_the_histogram_counts_every_day_once(small):
    """Holds Figure 1."""
    data = paper.histogram_data(small.source)
    assert data["count"].sum() == 5 * 40
    assert data["to_kwh"][-1] >= small.source.daily_kwh.max()
    assert small.source.mean_kwh.mean() == pytest.approx(small.source.daily_kwh.mean(), rel=1e-3)


# The data -----------------------------------------------------------------------------------------------------------


@pytest.mark.soak
def test_on_the_real_data(data_folder):
    source = paper.real_source(data_folder)
    assert (len(source.days), str(source.days[0]), str(source.days[-1])) == (365, "2012-07-01", "2013-06-30")
    assert source.sensitivity == pytest.approx(200 / 300)
    table = pq.read_table(data_folder / AUSGRID)
    starts = table["interval_start"].to_numpy().astype("datetime64[D]")
    for day in (0, 98, 364):
        expected = table["gross_load_kwh"].to_numpy()[starts == source.days[day]].sum() / 300
        assert source.mean_kwh[day] == pytest.approx(expected)
    assert source.mean_kwh.sum() == pytest.approx(5588, rel=1e-3), "kWh per home and year, as the data's README says"
    assert len(source.daily_kwh) > 100_000
    assert 0 <= source.daily_kwh.min() <= source.daily_kwh.max() < 200
    assert any("not a bound" in note for note in source.notes)
    assert any("London" in note for note in source.notes)
    errors = paper.error_data(source)
    averages = {name: float(y.mean()) for panel in errors.values() for name, y in panel.items()}
    harmonic = float((1 / source.mean_kwh).mean())
    assert averages["paper: Corollary 12"] == pytest.approx(200 / 300 / (1 - paper.ALPHA) * harmonic, rel=1e-9)
    assert averages["paper: Corollary 16"] == pytest.approx(3.404, rel=1e-3)


def test_where_the_data_is_looked_for(tmp_path, monkeypatch):
    monkeypatch.delenv("HALFLIFE_DATA", raising=False)
    here, shared = tmp_path / "checkout", tmp_path / "shared" / "data"
    here.mkdir()
    monkeypatch.chdir(here)
    assert report.PAPER.find_data(None) is None
    with pytest.raises(InvalidInput, match="holds no ausgrid"):
        report.PAPER.find_data(tmp_path)
    monkeypatch.setenv("HALFLIFE_DATA", str(tmp_path))
    with pytest.raises(InvalidInput, match="holds no ausgrid"):
        report.PAPER.find_data(None)
    shared.mkdir(parents=True)
    for name in (AUSGRID, LONDON):
        (shared / name).touch()
    monkeypatch.setenv("HALFLIFE_DATA", str(shared))
    assert report.PAPER.find_data(None) == shared
    monkeypatch.delenv("HALFLIFE_DATA")
    assert report.PAPER.find_data(None).resolve() == shared


def test_generated_homes_repeat_and_have_a_true_bound():
    one, again, other = (paper.generated_source(seed, homes=4, days=3) for seed in (1, 1, 2))
    assert np.array_equal(one.mean_kwh, again.mean_kwh)
    assert not np.array_equal(one.mean_kwh, other.mean_kwh)
    assert one.sensitivity == pytest.approx(48 * 5 / 4)
    assert one.days[0].astype(datetime.date) == datetime.date(2012, 7, 1)
    assert "Ausgrid" in one.notes[0]
    assert "London Datastore" in one.notes[0]


# What is written ----------------------------------------------------------------------------------------------------


def test_everything_is_written(small, tmp_path):
    written = report.write_all(small, tmp_path / "new")
    assert {p.name for p in (tmp_path / "new").iterdir()} == {p.name for p in written}
    page = written[0].read_text(encoding="utf-8")
    assert page.count("plotly.js v") == 1
    assert page.count('class="plot"') == 2 + 3 + 2 + 2
    for text in ("erratum D1", "a different notion", "refused (D1: 2.075 ε)", "Figure 3", "generated homes"):
        assert text in page
    tables = written[1].read_text(encoding="utf-8")
    assert paper.scale_table(small.rows) in tables
    assert paper.witness_table(small.witnesses) in tables
    figure2 = pq.read_table(tmp_path / "new" / "figure2.parquet")
    assert figure2.num_rows == 9 * 40
    total = sum(float(y.sum()) for panel in small.errors.values() for y in panel.values())
    assert sum(figure2["expected_relative_error"].to_pylist()) == pytest.approx(total)
    figure3 = pq.read_table(tmp_path / "new" / "figure3.parquet")
    assert figure3["average"].null_count == sum(b > 3.654 for b in paper.BETAS)
    assert pq.read_table(tmp_path / "new" / "scales.parquet").num_rows == 20
    assert attacks.attack_tables(small.outcomes, small.source.mean_clipped_kwh) in tables
    attacked = pq.read_table(tmp_path / "new" / "attacks.parquet")
    assert attacked["success"].to_pylist() == [o.success for o in small.outcomes]
    for o in small.outcomes:
        assert o.success <= o.bound


def test_the_plots_show_the_numbers(small):
    load_plotly()
    for curves in small.errors.values():
        drawn = {line.name: line.y for line in report.plot_errors(small.source, curves).data}
        assert all(np.array_equal(drawn[name], y) for name, y in curves.items())
    for axis, curves in small.averages.items():
        for line in report.plot_averages(axis, curves).data:
            assert np.array_equal(line.y, curves[line.name], equal_nan=True)
            assert np.array_equal(line.x, curves["parameter"])
    assert np.array_equal(report.plot_means(small.source).data[0].y, small.source.mean_kwh)
    assert report.plot_histogram(small.source).data[0].y.sum() == 5 * 40
    lines = {line.name: line.y for line in report.plot_attacks(small.outcomes, "averaging").data}
    assert len(lines) == 2 * 3 + 2
    assert np.array_equal(
        lines["a week, hyperbolic"], attacks.curve(small.outcomes, "hyperbolic", "averaging", "a week")[1]
    )
    bound = [
        o.bound for o in small.outcomes if (o.promise, o.attack, o.window) == ("exponential", "averaging", "a day")
    ]
    assert lines["a day, bound of T8"].tolist() == bound


def test_progress_goes_forward_to_the_end():
    seen = []
    paper.reproduce(paper.generated_source(1, 2, 5), 20, lambda *call: seen.append(call))
    assert [done for _, done, _ in seen] == list(range(len(seen)))
    assert {total for *_, total in seen} == {len(seen)}


def test_a_folder_that_cannot_be_made_is_named(small, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match="choose another folder"):
        report.write_all(small, tmp_path / "file" / "out")
