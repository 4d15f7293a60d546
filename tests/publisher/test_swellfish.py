"""Swellfish through the publisher: exact where nobody hides anything, secrets added while it runs, and crashes."""

from __future__ import annotations

import datetime
import json

import numpy as np
import pytest

import halflife as hl
from halflife.accountant import Accountant
from halflife.errors import LedgerError
from halflife.ledger import open_ledger
from publisher.town import HOMES, KILLED, exact_means, policy_dict, read_csv, run_and_die, write_readings

OVEN = {"power": 3, "duration": 2, "start": 3, "end": 8, "epsilon": 1}
PROMISE = {"notion": "swellfish", "neighbours": "one-window", "outside": "exact"}


def town(folder, secrets, promise=PROMISE, **changes):
    """A town with hourly steps; secrets in steps."""
    if not (folder / "readings.csv").exists():
        write_readings(folder)
    (folder / "secrets.json").write_text(json.dumps({"households": secrets}))
    data = policy_dict(**changes)
    data["promise"] = {**promise, "specifications": {"files": "secrets.json", "readings": 1}}
    (folder / "policy.yaml").write_text(json.dumps(data))
    return hl.Policy.load(folder / "policy.yaml")


def at(hour):
    return (datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(hours=hour)).timestamp


def values(policy, name="mean"):
    return np.array([float(row["value"]) for row in read_csv(policy.path(f"{name}.csv"))])


def recorded(policy):
    with open_ledger(policy.ledger_url, read_only=True) as book:
        return list(book.entries()), book.states()


def test_exact_outside_and_noisy_inside(tmp_path):
    policy = town(tmp_path, {"h1": [OVEN]})
    hl.publish(policy)
    exact, hidden = np.array(exact_means()), np.arange(24)
    hidden = (hidden >= 2) & (hidden <= 7)
    found = values(policy)
    assert np.allclose(found[~hidden], exact[~hidden], rtol=1e-12, atol=0)
    assert (np.abs(found - exact)[hidden] > 1e-9).all()
    bands = np.array([float(row["error_band"]) for row in read_csv(policy.path("mean.csv"))])
    scale = 3.002 * 2 / HOMES  # Δ·T/ε in kWh, of a mean
    assert bands[~hidden].tolist() == [0.0] * 18
    assert bands[hidden] == pytest.approx(np.full(6, scale * np.log(20)), rel=1e-6)
    verdict = hl.verify(policy.ledger_url, {"mean": str(policy.path("mean.csv"))})
    assert verdict.problems == ()
    assert verdict.risk == pytest.approx(1.0, rel=1e-6)
    assert verdict.limit == 1.0


def test_the_ledger_keeps_the_secrets_once_and_verifies_without_the_policy(tmp_path):
    policy = town(tmp_path, {"h1": [OVEN]})
    for hour in range(1, 25):
        hl.publish(policy, clock=at(hour))
    entries, states = recorded(policy)
    assert len(entries) == 24
    assert "power" not in states["account"]
    kept = Accountant.from_json(states["account"], states["attachment"])
    assert kept.notion.specifications.power.tolist() == pytest.approx([3002.0], abs=1e-6)
    (tmp_path / "secrets.json").unlink()
    assert hl.verify(policy.ledger_url).problems == ()


def test_secrets_may_be_added_for_the_future(tmp_path):
    policy = town(tmp_path, {"h1": [OVEN]})
    hl.publish(policy, clock=at(10))
    before = values(policy)
    later = {"power": 2, "duration": 1, "start": 15, "end": 20, "epsilon": 0.5}
    policy = town(tmp_path, {"h1": [OVEN], "h2": [later]})
    hl.publish(policy)
    found, exact = values(policy), np.array(exact_means())
    assert np.array_equal(found[:10], before)
    assert (np.abs(found - exact)[14:20] > 1e-9).all()
    assert np.allclose(found[20:], exact[20:], rtol=1e-12, atol=0)
    assert hl.verify(policy.ledger_url, {"mean": str(policy.path("mean.csv"))}, policy=policy).problems == ()


@pytest.mark.parametrize(
    ("secrets", "message"),
    [
        ({"h1": [OVEN], "h2": [{**OVEN, "start": 9, "end": 14}]}, "steps 9 to 10 are published already .* begin at 11"),
        ({"h1": [{**OVEN, "epsilon": 2}]}, "missing or changed"),
        ({"h2": [{**OVEN, "start": 15, "end": 18}]}, "missing or changed"),
    ],
    ids=["into the past", "changed", "taken away"],
)
def test_what_is_published_keeps_its_scale(tmp_path, secrets, message):
    hl.publish(town(tmp_path, {"h1": [OVEN]}), clock=at(10))
    policy = town(tmp_path, secrets)
    with pytest.raises(LedgerError, match=message):
        hl.publish(policy)
    assert len(values(policy)) == 10


def test_under_all_events_nothing_is_added_to_what_has_begun(tmp_path):
    promise, wide = {**PROMISE, "neighbours": "all-events"}, {**OVEN, "end": 20}
    hl.publish(town(tmp_path, {"h1": [wide]}, promise), clock=at(10))
    later = {"power": 2, "duration": 1, "start": 15, "end": 20, "epsilon": 0.5}
    with pytest.raises(LedgerError, match="h1"):
        hl.publish(town(tmp_path, {"h1": [wide, later]}, promise))
    policy = town(tmp_path, {"h1": [wide], "h2": [later]}, promise)
    hl.publish(policy)
    assert hl.verify(policy.ledger_url).problems == ()


def test_another_reading_is_another_promise(tmp_path):
    hl.publish(town(tmp_path, {"h1": [OVEN]}), clock=at(10))
    with pytest.raises(LedgerError, match="another policy"):
        hl.publish(town(tmp_path, {"h1": [OVEN]}, {**PROMISE, "neighbours": "one-event"}))


@pytest.mark.parametrize("point", ["noise drawn", "entries committed", "outputs written"])
def test_a_crash_draws_nothing_again(tmp_path, point):
    policy = town(tmp_path, {"h1": [OVEN]})
    assert run_and_die(tmp_path, point, 2) == KILLED
    entries, _ = recorded(policy)
    hl.publish(policy)
    after, _ = recorded(policy)
    assert [e.noisy.tolist() for e in after[: len(entries)]] == [e.noisy.tolist() for e in entries]
    assert hl.verify(policy.ledger_url, {"mean": str(policy.path("mean.csv"))}).problems == ()


@pytest.mark.parametrize(
    "promise",
    [
        {**PROMISE, "neighbours": "one-event"},
        {**PROMISE, "neighbours": "all-events"},
        {**PROMISE, "delta": 1e-6, "noise": "laplace"},
        {**PROMISE, "delta": 1e-6, "noise": "gaussian"},
        {**PROMISE, "plan": "paper"},
        {"notion": "swellfish", "neighbours": "one-window", "floor": "0.1 kWh"},
        {**PROMISE, "block": "1 day"},
    ],
    ids=str,
)
def test_every_kind_of_promise_is_published_in_pieces_and_verifies(tmp_path, promise):
    secrets = {"h1": [OVEN, {**OVEN, "power": 1, "start": 5, "end": 20}], "h2": [{**OVEN, "epsilon": 0.4}]}
    policy = town(tmp_path, secrets, promise)
    for hour in (1, 4, 5, 13, 30):
        hl.publish(policy, clock=at(hour))
    verdict = hl.verify(policy.ledger_url, {"mean": str(policy.path("mean.csv"))}, policy=policy)
    assert verdict.problems == ()
    assert 0 < verdict.used <= 1
    assert len(values(policy)) == 24


def test_delays_and_a_later_start_are_by_the_time_of_the_data(tmp_path):
    policy = town(tmp_path, {"h1": [OVEN]}, stream={"delay": "3 h", "start": "2026-01-01T02:00"})
    hl.publish(policy, clock=at(40))
    found, exact = values(policy), np.array(exact_means())[2:]
    hidden = np.arange(22) < 6
    assert np.allclose(found[~hidden], exact[~hidden], rtol=1e-12, atol=0)
    assert (np.abs(found - exact)[hidden] > 1e-9).all()


def test_what_is_shown_and_logged_names_no_household(tmp_path, capfd):
    policy = town(tmp_path, {"Mrs Miller, Elm 7": [OVEN]})
    hl.publish(policy)
    shown = capfd.readouterr()
    assert "Miller" not in shown.out + shown.err + policy.path("mean.csv").read_text()


# What changes between runs ----------------------------------------------------------------------------------------------


def test_verify_looks_at_the_secrets_of_the_policy(tmp_path):
    hl.publish(town(tmp_path, {"h1": [OVEN]}))
    other = town(tmp_path, {"h2": [{**OVEN, "start": 1, "end": 24, "epsilon": 0.001}]})
    (problem,) = hl.verify(other.ledger_url, policy=other).problems
    assert "missing or changed" in problem
    past = town(tmp_path, {"h1": [OVEN], "h2": [{**OVEN, "start": 20, "end": 24}]})
    (problem,) = hl.verify(past.ledger_url, policy=past).problems
    assert "published already" in problem


@pytest.mark.diagonal
@pytest.mark.parametrize(
    "added", [{"duration": 9, "epsilon": 1}, {"duration": 1, "epsilon": 0.01}], ids=["longer", "stricter"]
)
@pytest.mark.parametrize("hour", [2, 6])
def test_a_ledger_verifies_after_secrets_were_added(tmp_path, added, hour):
    """A longer event makes the account remember more, a smaller ε may be the first that it knows of."""
    hl.publish(town(tmp_path, {"h1": [OVEN]}), clock=at(hour))
    policy = town(tmp_path, {"h1": [OVEN], "h2": [{"power": 2, "start": 12, "end": 22, **added}]})
    hl.publish(policy, clock=at(16))
    hl.publish(policy)
    assert hl.verify(policy.ledger_url, {"mean": str(policy.path("mean.csv"))}, policy=policy).problems == ()


def test_the_optimal_plan_takes_no_secrets_later(tmp_path):
    promise = {**PROMISE, "plan": "optimal"}
    policy = town(tmp_path, {"h1": [OVEN]}, promise)
    hl.publish(policy, clock=at(5))
    other = town(tmp_path, {"h1": [OVEN], "h2": [{**OVEN, "start": 20, "end": 24}]}, promise)
    with pytest.raises(LedgerError, match="none can be added"):
        hl.publish(other)
    (problem,) = hl.verify(other).problems
    assert "none can be added" in problem
    policy = town(tmp_path, {"h1": [OVEN]}, promise)
    hl.publish(policy)
    assert hl.verify(policy.ledger_url, policy=policy).problems == ()


def test_secrets_that_become_alike_are_one_and_the_ledger_opens_again(tmp_path):
    """Both events are as long as their interval once a step is added: they count together."""
    both = [
        {"power": 3, "duration": 1, "start": 3, "end": 4, "epsilon": 1},
        {"power": 3, "duration": 2, "start": 3, "end": 4, "epsilon": 1},
    ]
    promise = {**PROMISE, "delta": 1e-6, "noise": "laplace"}
    policy = town(tmp_path, {"h1": both}, promise)
    for hour in (3, 10, 30):
        hl.publish(policy, clock=at(hour))
    assert hl.verify(policy.ledger_url, policy=policy).problems == ()
    entries, _ = recorded(policy)
    assert entries[2].releases[0].sensitivity == pytest.approx(6004.0, abs=0.01)


def test_the_same_floor_and_block_in_other_words_are_the_same_promise(tmp_path):
    hl.publish(town(tmp_path, {"h1": [OVEN]}, {**PROMISE, "block": "6 h"}), clock=at(5))
    hl.publish(town(tmp_path, {"h1": [OVEN]}, {**PROMISE, "block": "360 min"}), clock=at(9))
    other = tmp_path / "floor"
    other.mkdir()
    floor = {"notion": "swellfish", "neighbours": "one-window"}
    hl.publish(town(other, {"h1": [OVEN]}, {**floor, "floor": "0.1 kWh"}), clock=at(5))
    hl.publish(town(other, {"h1": [OVEN]}, {**floor, "floor": "100 Wh"}), clock=at(9))
    with pytest.raises(LedgerError, match="floor"):
        hl.publish(town(other, {"h1": [OVEN]}, {**floor, "floor": "200 Wh"}))


def test_a_block_ends_with_its_last_secret(tmp_path):
    policy = town(tmp_path, {"h1": [OVEN]}, {**PROMISE, "block": "6 h"})
    hl.publish(policy)
    noisy = np.abs(values(policy) - np.array(exact_means())) > 1e-9
    assert noisy.tolist() == [True] * 12 + [False] * 12


def test_streams_of_different_delays_publish_in_turn(tmp_path):
    data = json.loads((town(tmp_path, {"h1": [{**OVEN, "duration": 1}]})._folder / "policy.yaml").read_text())
    late = {**data["streams"][0], "name": "late", "output": "late.csv", "delay": "5 h"}
    (tmp_path / "policy.yaml").write_text(json.dumps({**data, "streams": [*data["streams"], late]}))
    policy = hl.Policy.load(tmp_path / "policy.yaml")
    for hour in (1, 2, 3, 5, 6, 7, 12, 20, 24, 25, 30):
        hl.publish(policy, clock=at(hour))
    assert len(values(policy)) == len(values(policy, "late")) == 24
    assert hl.verify(policy.ledger_url, policy=policy).problems == ()
    far = {**late, "delay": "300 h"}
    (tmp_path / "policy.yaml").write_text(json.dumps({**data, "streams": [*data["streams"], far]}))
    with pytest.raises(hl.InvalidInput, match="two delays must differ by fewer than 199 steps"):
        hl.Policy.load(tmp_path / "policy.yaml")
