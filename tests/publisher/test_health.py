"""`status --check`: what a monitor is told, and how the command ends."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import replace

import pytest
from click.testing import CliRunner

import halflife as hl
from forked import finish, start
from halflife.cli import main
from halflife.errors import LedgerUnavailable
from halflife.publisher.health import _judge, find_trouble
from publisher.children import publish_and_stop
from publisher.test_takeover import wait_until_stopped
from publisher.town import make, run_and_die, write_readings

START, HOUR = 1_767_225_600, 3600


@pytest.fixture(params=["sqlite", "postgresql"])
def town(tmp_path, request, schema):
    write_readings(tmp_path)
    ledger = "town.ledger" if request.param == "sqlite" else request.getfixturevalue("postgresql").url(schema)
    return make(tmp_path, ledger=ledger)


def test_a_late_step_is_trouble_once_it_is_late_enough(town):
    hl.publish(town, clock=lambda: START + 3 * HOUR + 1)
    assert find_trouble(town, 60, lambda: START + 3 * HOUR + 30) == []
    assert find_trouble(town, 60, lambda: START + 4 * HOUR + 59) == []
    (problem,) = find_trouble(town, 60, lambda: START + 5 * HOUR + 61)
    assert problem.startswith("mean: 2 steps were closed and are not published, the oldest 3,661 s ago")


def test_a_run_that_was_killed_or_failed_is_trouble(tmp_path, town, monkeypatch):
    run_and_die(tmp_path, "totals read")
    assert any("was killed, and nobody goes on" in text for text in find_trouble(town, 1e12))
    hl.publish(town)
    assert find_trouble(town, 1e12) == []
    monkeypatch.setattr("halflife.publisher.backfill.PublishRun.run", lambda self: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        hl.publish(town)
    (problem,) = find_trouble(town, 1e12)
    assert "the last run failed" in problem
    assert problem.endswith("ZeroDivisionError")


def test_a_ledger_that_was_put_back_or_cannot_be_read_is_trouble(tmp_path):
    write_readings(tmp_path)
    policy = make(tmp_path)
    hl.publish(policy, clock=lambda: START + 3 * HOUR + 1)
    old = (tmp_path / "town.ledger").read_bytes()
    hl.publish(policy)
    (tmp_path / "town.ledger").write_bytes(old)
    assert find_trouble(policy, 1e12)
    (tmp_path / "town.ledger").write_bytes(b"x" * 5000)
    assert find_trouble(policy, 1e12)


def test_a_clock_that_was_set_back_is_trouble(town):
    """Nothing is late by such a clock, and nothing is published."""
    hl.publish(town, clock=lambda: START + 30 * HOUR)
    assert find_trouble(town, 1e12, lambda: START + 30 * HOUR - 100) == []
    (problem,) = find_trouble(town, 1e12, lambda: START + 29 * HOUR)
    assert problem.startswith("the clock lies 3,600 s before the ledger's newest entry")


def test_a_risk_above_the_promise_is_trouble(town):
    """Of no ledger that halflife wrote: rounding in the last digits is no risk above the promise."""
    hl.publish(town)
    found = hl.status(town)
    assert list(_judge(replace(found, risk=found.limit * (1 + 1e-12)), 1e12)) == []
    (problem,) = _judge(replace(found, risk=found.limit * 1.001), 1e12)
    assert problem == "the risk 1.001 is above the promise of 1"


def test_a_stopped_process_keeps_a_ledger_in_a_file_until_it_goes_on(tmp_path):
    """Nobody takes over, and a monitor is told that steps are late."""
    write_readings(tmp_path)
    policy = make(tmp_path)
    process = start(publish_and_stop, str(tmp_path / "policy.yaml"), "totals read", 2, 5)
    try:
        wait_until_stopped(process)
        with pytest.raises(LedgerUnavailable, match=f"process {process.pid}"):
            hl.publish(policy, wait=0)
        found = hl.status(policy)
        assert f"process {process.pid}" in found.writer
        assert (found.streams[0].published, found.streams[0].lag) == (5, 19)
        (problem,) = find_trouble(policy)
        assert problem.startswith("mean: 19 steps were closed and are not published")
    finally:
        os.kill(process.pid, signal.SIGCONT)
    assert finish(process) == 0
    assert find_trouble(policy) == []


def test_the_command_ends_with_1_if_not_all_is_well(tmp_path):
    write_readings(tmp_path)
    policy = make(tmp_path)
    path = str(tmp_path / "policy.yaml")
    late = CliRunner().invoke(main, ["status", path, "--check"])
    assert late.exit_code == 1
    assert late.output.startswith("UNHEALTHY  mean: 24 steps were closed")
    hl.publish(policy)
    good = CliRunner().invoke(main, ["status", path, "--check", "5"])
    assert (good.exit_code, good.output[:8]) == (0, "Healthy:")
    said = CliRunner().invoke(main, ["status", path, "--check", "--json"])
    assert json.loads(said.output) == {"healthy": True, "problems": []}
    assert CliRunner().invoke(main, ["status", path, "--check", "--watch"]).exit_code == 2
