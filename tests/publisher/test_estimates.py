"""Seasonal estimates from a policy: published, restarted, verified, and looked back on."""

from __future__ import annotations

import datetime
import json

import numpy as np
import pytest

import halflife as hl
from halflife.cli import main
from halflife.ledger import open_ledger
from halflife.publisher.drawing import run_post
from publisher.town import policy_dict, read_csv, readings, write_readings

FITTED = [{"seasonal": "fitted"}, {"truncate": ["0", "5 kWh"]}]
PUBLIC = [{"seasonal": {"amplitude": "0.5 kWh", "level": 0.1, "irregular": 0.2}}]


def after(days):
    return (datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(days=days)).timestamp


def town(folder, **changes):
    write_readings(folder, readings(steps=240))
    file = folder / "policy.yaml"
    data = policy_dict(stream={"post": FITTED, **changes}, clock={"step": "6 h", "end": "2026-01-11"})
    file.write_text(json.dumps(data))
    return file


def test_public_parameters_go_on_over_runs_as_in_one(tmp_path):
    """The chain that a policy says is the chain that its ledger knows: nothing begins anew."""
    file = town(tmp_path, post=PUBLIC)
    for days in (3, 5, 8):
        hl.publish(file, clock=after(days))
    book = open_ledger(hl.Policy.load(file).ledger_url)
    chains = json.loads(book.states()["post:mean"])["chains"]
    book.close()
    assert [chain["from"] for chain in chains] == [1]


def test_estimates_go_on_over_runs_and_are_verified(tmp_path):
    file = town(tmp_path)
    for days in (3, 7.9, 8.3, 10):  # the first fit is after step 32
        hl.publish(file, clock=after(days))
        assert hl.verify(file).problems == ()
    rows = read_csv(tmp_path / "mean.csv")
    book = open_ledger(hl.Policy.load(file).ledger_url)
    entries = list(book.entries("mean"))
    book.close()
    assert len(rows) == len(entries) == 40
    assert all(len(entry.value) == 2 for entry in entries)  # the value, and its band behind it
    raw = [min(5.0, max(0.0, float(entry.noisy[0]) / 5000)) for entry in entries]
    assert [float(row["value"]) for row in rows[:32]] == pytest.approx(raw[:32])
    changed = np.abs(np.array([float(row["value"]) for row in rows[32:]]) - raw[32:])
    assert changed.max() > 0
    bands = [float(row["error_band"]) for row in rows]
    assert bands[:32] == pytest.approx([bands[0]] * 32)
    assert (
        bands[0] not in bands[32:]
    )  # how wide a band is after one fit depends on the noise: 1 in 25 is wider than the noise's


@pytest.mark.parametrize("lie", [(1.001, 1.0), (1.0, 0.9)], ids=["values", "bands"])
def test_a_publisher_that_lies_about_an_estimate_is_found(tmp_path, monkeypatch, lie):
    file = town(tmp_path, post=PUBLIC)

    def lying(*given):
        found, spreads = run_post(*given)
        return found * np.repeat(lie, found.shape[1] // 2), spreads

    monkeypatch.setattr("halflife.publisher.drawing.run_post", lying)
    hl.publish(file, clock=after(3))
    assert any("is not what post-processing gives" in problem for problem in hl.verify(file).problems)


def test_hindsight_is_a_second_output_and_costs_nothing(tmp_path):
    from click.testing import CliRunner

    file = town(tmp_path, post=PUBLIC)
    with pytest.raises(hl.LedgerError, match="nothing was published yet"):
        hl.hindsight(file)
    used = hl.publish(file, clock=after(8)).used
    first = (tmp_path / "mean.csv").read_bytes()
    run = CliRunner().invoke(main, ["hindsight", str(file)])
    assert run.exit_code == 0, run.output
    assert "32 steps with hindsight, vintage 20260109T000000Z" in run.output
    made = tmp_path / "mean.revised-20260109T000000Z.csv"
    assert (tmp_path / "mean.csv").read_bytes() == first
    live, revised = read_csv(tmp_path / "mean.csv"), read_csv(made)
    assert [row["start"] for row in live] == [row["start"] for row in revised]
    assert np.mean([float(r["error_band"]) for r in revised]) < np.mean([float(r["error_band"]) for r in live])
    assert live[-1]["value"] != live[-2]["value"]
    again = CliRunner().invoke(main, ["hindsight", str(file)])
    assert again.exit_code == 1
    assert "this vintage was written before; nothing has been published since" in again.output
    assert hl.publish(file, clock=after(10)).used == used  # a window that is full stays as full as it was
    elsewhere = hl.hindsight(file, folder=tmp_path / "later")
    assert [one.steps for one in elsewhere] == [40]
    assert elsewhere[0].file.parent == tmp_path / "later"
    assert sorted(p.name for p in tmp_path.glob(".*")) == []
    with pytest.raises(hl.InvalidInput, match="unknown stream 'men'"):
        hl.hindsight(file, ["men"])


REFUSED = {
    "an estimate needs values as they were published, whose noise is known: put it first": [
        {"truncate": ["0", "5"]},
        {"seasonal": "fitted"},
    ],
    "an estimate has taken the noise out already: only truncate may follow it": [
        {"kalman": "fitted"},
        {"moving_average": 4},
    ],
    "one step is one of truncate, moving_average, kalman and seasonal": [{"kalman": "fitted", "seasonal": "fitted"}],
    "amplitude must be a number above 0": [{"seasonal": {"amplitude": "0 kWh"}}],
    "persistence must be a number above 0 and below 1": [{"seasonal": {"amplitude": "1 kWh", "persistence": 2}}],
}


@pytest.mark.parametrize("message", REFUSED)
def test_chains_that_nobody_worked_out_are_refused(tmp_path, message):
    with pytest.raises(hl.PolicyError, match=message):
        hl.Policy.from_dict(policy_dict(stream={"post": REFUSED[message]}), tmp_path)
