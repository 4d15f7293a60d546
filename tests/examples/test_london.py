"""The London example: on a few generated homes, and on the real ones where they are."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import halflife as hl
from halflife.lab.comparison import error_data, exact_series
from halflife.policy import channels

LONDON = Path(__file__).resolve().parents[2] / "examples" / "london"
POLICIES = ("w-event", "exponential", "hyperbolic", "half-hourly")


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("london_run", LONDON / "run.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["london_run"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def small(example, tmp_path_factory):
    """40 generated homes for 40 days, of which one has only zeros and one leaves after 10 days."""
    out = tmp_path_factory.mktemp("london")
    town = example.generated_town(out, homes=40, days=40)
    table = pq.read_table(town.readings).to_pandas()
    table.loc[table.lclid == "home-0001", "kwh"] = 0.0
    gone = (table.lclid == "home-0002") & (table.ts >= "2013-01-11T00:00Z")
    pq.write_table(pa.Table.from_pandas(table[~gone], preserve_index=False), town.readings)
    return out, town, example.run(out, town, lambda what, done, total: None)


def check_outputs(out, days, half_hours):
    """Every policy verifies, and its output has the steps that it should have."""
    for name in POLICIES:
        policy = hl.Policy.load(out / f"{name}.yaml")
        (stream,) = policy.streams
        verdict = hl.verify(policy.ledger_url, {stream.name: str(policy.path(stream.output))})
        assert verdict.good
        steps = len((half_hours if name == "half-hourly" else days).exact)
        assert verdict.steps == {stream.name: steps}


@pytest.mark.parametrize("name", POLICIES)
def test_each_policy_stands_on_its_own(name):
    """A user puts the data beside it, and `halflife publish` does the rest: nothing in it depends on this machine."""
    policy = hl.Policy.load(LONDON / f"{name}.yaml")
    assert policy.streams[0].source.files == ["data/lcl_2013_325_households.parquet"]
    assert (policy.population.size, policy.ledger) == (325, f"{name}.ledger")


def test_generated_homes_are_published_and_verified(small):
    out, town, (days, half_hours) = small
    check_outputs(out, days, half_hours)
    assert not town.real
    assert [o.notion.name for o in days.outcomes] == ["w-event", "exponential", "hyperbolic"]
    assert [len(days.exact), len(half_hours.exact)] == [40, 40 * 48]
    assert str(days.times[1] - days.times[0]) == "86400 seconds"
    for row in error_data(days) + error_data(half_hours):
        assert 0.5 < row.mean_absolute_error / row.mean_scale < 2, "Laplace noise: the mean error is near the scale"
        assert row.largest_share <= 1 + 1e-9


def test_the_exact_series_is_what_the_homes_used(small):
    """Worked out by pandas: whole Wh, a home's day clipped at 50 kWh, its half hour at 5 kWh, over 40 homes."""
    _, town, (days, half_hours) = small
    table = pq.read_table(town.readings).to_pandas()
    table["wh"] = np.floor(table.kwh * 1000 + 0.5).clip(0, 5000)
    by_home = table.groupby([table.ts.dt.date, "lclid"]).wh.sum()
    assert (by_home > 50_000).any(), "the clip was put to use"
    assert days.exact == pytest.approx(by_home.clip(0, 50_000).groupby(level=0).sum() / 40_000, rel=1e-12)
    assert half_hours.exact == pytest.approx(table.groupby("ts").wh.sum() / 40_000, rel=1e-12)


def test_what_the_operator_is_told(example, small):
    """The home that left is missed from day 11 on; a guess for it moves the mean by 188 Wh / 40 in each half hour."""
    _, _, (days, half_hours) = small
    reporting = example.reporting_data(half_hours)
    assert reporting.tolist() == [40.0] * 480 + [39.0] * (30 * 48)
    answers = example.missing_data(half_hours, reporting)
    zero, guess, only = answers.values()
    assert zero == pytest.approx(half_hours.exact.reshape(-1, 48).sum(axis=1))
    assert guess[:10] == pytest.approx(zero[:10])
    assert guess[10:] - zero[10:] == pytest.approx(np.full(30, 48 * 0.188 / 40))
    assert only[10:] == pytest.approx(zero[10:] * 40 / 39)
    assert example.tallies(days.outcomes[0])["rows"] == 40 * 40 * 48 - 30 * 48
    clipped, free = example.clip_data(days)
    assert clipped == days.exact.mean()
    assert free == pytest.approx(zero.mean(), rel=1e-12), "no generated half hour is above 5 kWh"


def test_the_report_says_what_it_is(small):
    out, *_ = small
    text = (out / "report.html").read_text(encoding="utf-8")
    assert "a real publication must not show them" in text
    assert "the homes are generated" in text
    assert "For the operator alone" in text
    assert "A loss counts half after 7 days" in text, "in days, not in half hours"
    assert text.count('class="plot"') == 2 + 3 + 1 + 2


def test_a_second_run_publishes_nothing_again(example, small):
    out, town, (days, half_hours) = small
    again = example.run(out, town, lambda what, done, total: None)
    for one, other in zip(
        (*days.outcomes, *half_hours.outcomes), (*again[0].outcomes, *again[1].outcomes), strict=True
    ):
        assert np.array_equal(one.published, other.published)
        assert one.head == other.head


def test_generated_homes_never_go_on_with_the_ledger_of_real_ones(example, small):
    out, town, _ = small
    with pytest.raises(hl.LedgerError, match="begun under another policy"):
        example.run(out, example.Town(town.readings, True, {}), lambda what, done, total: None)


def test_without_the_data_it_says_so(example, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(example, "find_readings", lambda folder: None)
    small_town = example.generated_town
    monkeypatch.setattr(example, "generated_town", lambda out: small_town(out, homes=3, days=2))
    monkeypatch.setattr(sys, "argv", ["run.py", "--out", str(tmp_path / "out")])
    example.main()
    told = capsys.readouterr()
    assert "lcl_2013_325_households.parquet is not here" in told.err
    assert "generated homes" in told.err
    assert told.out.count("verified") == 4
    assert (tmp_path / "out" / "report.html").is_file()


def test_a_folder_without_the_data_is_refused(tmp_path):
    command = [sys.executable, str(LONDON / "run.py"), "--data", str(tmp_path), "--out", str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "holds no lcl_2013_325_households.parquet" in done.stderr
    assert not (tmp_path / "out").exists()


def test_what_is_said_of_the_real_homes(example, data_folder, tmp_path):
    """What examples/london/README.md says of the data and the noise; nothing is published."""
    town = example.Town(data_folder / "lcl_2013_325_households.parquet", True, {})
    made = {name: hl.Policy.load(example.write_policy(name, tmp_path, town)) for name in POLICIES}
    assert float(exact_series(made["w-event"], 365).mean()) == pytest.approx(9.57, abs=0.005)
    mean_scales = []
    for name, policy in made.items():
        (channel,) = channels(policy)
        steps = 17_520 if name == "half-hourly" else 365
        mean_scales.append(
            channel.factors[0] * channel.plan.sensitivity * np.mean(1 / np.array(channel.losses(1, steps)))
        )
    assert mean_scales == pytest.approx([0.154, 1.63, 4.07, 0.738], rel=5e-3)


@pytest.mark.soak
def test_the_real_homes(example, data_folder, tmp_path):
    """What examples/london/README.md says of what is published; 365 draws estimate a noise scale to 5 %."""
    town = example.Town(data_folder / "lcl_2013_325_households.parquet", True, {})
    days, half_hours = example.run(tmp_path, town, lambda what, done, total: None)
    check_outputs(tmp_path, days, half_hours)
    assert float(days.exact.mean()) == pytest.approx(9.57, abs=0.005)
    reporting = example.reporting_data(half_hours)
    assert (reporting.min(), reporting.max()) == (254, 325)
    assert example.tallies(half_hours.outcomes[0])["clipped"] == 267
    assert example.tallies(half_hours.outcomes[0])["rows"] == 5_390_127
    scales = [o.scales.mean() for o in (*days.outcomes, *half_hours.outcomes)]
    assert scales == pytest.approx([0.154, 1.63, 4.07, 0.738], rel=5e-3)
    for row in error_data(days) + error_data(half_hours):
        assert abs(row.mean_absolute_error / row.mean_scale - 1) < 0.3
