"""Publishing under an age-dependent promise: resumed, late, several streams of different ages, and verified."""

from __future__ import annotations

import json

import pytest

import halflife as hl
from halflife.audit import worst_loss
from halflife.audit.notions.age_dependent.attained import attained_loss
from halflife.errors import LedgerError
from halflife.ledger import open_ledger
from publisher.town import policy_dict, read_csv, write_readings

CHAIN = {"name": "markov-chain", "matrix": [[0.85, 0.15], [0.1, 0.9]]}
PROMISE = {"notion": "age-dependent", "epsilon": 1.0, "process": CHAIN}
START = 1_767_225_600  # 2026-01-01
NOTION = hl.AgeDependent(1.0, hl.MarkovChain(CHAIN["matrix"]))


def town(folder, **changes):
    """The policy of a day of hours, two hours late, without an end; its readings are written beside it."""
    write_readings(folder)
    data = policy_dict(**{"stream": {"delay": "2 h"}, **changes})
    data["promise"] = {**PROMISE, **changes.get("promise", {})}
    del data["clock"]["end"]
    (folder / "policy.yaml").write_text(json.dumps(data))
    return hl.Policy.load(folder / "policy.yaml")


def at(hours):
    """A clock that stands so many hours after the start."""
    return lambda: START + 3600 * hours


def releases(policy):
    with open_ledger(policy.ledger_url, read_only=True) as book:
        return [r for entry in book.entries() for r in entry.releases]


def checked(policy):
    """The verdict on ledger and outputs; the risk is what a replay of the releases gives."""
    verdict = hl.verify(policy.ledger_url, {s.name: str(policy.path(s.output)) for s in policy.streams}, policy=policy)
    assert verdict.good, verdict.problems
    again = hl.Accountant.replay(NOTION, releases(policy))
    assert (verdict.step, verdict.risk) == (again.step, again.risk())
    return verdict


def test_a_delayed_stream_is_published_resumed_and_verified(tmp_path):
    policy = town(tmp_path)
    assert hl.publish(policy, clock=at(2)).published == {"mean": 0}, "nothing is two hours old yet"
    assert hl.publish(policy, clock=at(10)).published == {"mean": 8}
    first = [row["value"] for row in read_csv(tmp_path / "mean.csv")]
    summary = hl.publish(hl.Policy.load(tmp_path / "policy.yaml"), clock=at(24))
    assert summary.published == {"mean": 14}
    rows = read_csv(tmp_path / "mean.csv")
    assert [row["value"] for row in rows][:8] == first
    assert len(rows) == 22
    made = releases(policy)
    assert [(r.step, r.age, r.data_time) for r in made] == [(k + 2, 2, k) for k in range(1, 23)]
    assert len({r.loss for r in made}) == 1
    assert 0.9 < checked(policy).risk <= 1.0
    assert worst_loss(NOTION, made) == pytest.approx(summary.risk, rel=1e-9)
    assert attained_loss(NOTION.process, made) <= summary.risk


def test_the_ledger_keeps_the_account_and_the_process(tmp_path):
    policy = town(tmp_path)
    hl.publish(policy, clock=at(20))
    with open_ledger(policy.ledger_url, read_only=True) as book:
        account = hl.Accountant.from_json(book.states()["account"])
        facts = book.facts()
    assert account.notion == NOTION
    assert account.retrospective(20, about=10) > account.risk(20), "where a person was is less protected"
    assert json.loads(facts["promise"])["notion"]["process"] == CHAIN


def test_a_changed_process_is_another_policy(tmp_path):
    (tmp_path / "home.json").write_text(json.dumps(CHAIN))
    policy = town(tmp_path, promise={"process": {"file": "home.json"}})
    hl.publish(policy, clock=at(8))
    assert hl.publish(hl.Policy.load(tmp_path / "policy.yaml"), clock=at(9)).published == {"mean": 1}
    (tmp_path / "home.json").write_text(json.dumps({**CHAIN, "matrix": [[0.8, 0.2], [0.1, 0.9]]}))
    other = hl.Policy.load(tmp_path / "policy.yaml")
    with pytest.raises(LedgerError, match=r"begun under another policy: .*process"):
        hl.publish(other, clock=at(10))
    assert not hl.verify(other.ledger_url, policy=other).good


def test_late_steps_keep_the_time_that_they_are_about(tmp_path):
    """Published all at once, a day late: charged by data time, which nothing changes about."""
    policy = town(tmp_path)
    hl.publish(policy, clock=at(100))
    made = releases(policy)
    assert len(made) == 98
    assert all(r.data_time == k for k, r in enumerate(made, start=1))
    assert checked(policy).risk <= 1.0


def several(folder, shares=(0.5, 0.2, 0.3), delays=(0, 5, 2)):
    write_readings(folder)
    data = policy_dict()
    data["promise"] = PROMISE
    del data["clock"]["end"]
    one = data["streams"][0]
    data["streams"] = [
        {**one, "name": f"s{i}", "share": share, "delay": f"{delay} h", "output": f"s{i}.csv"}
        for i, (share, delay) in enumerate(zip(shares, delays, strict=True))
    ]
    (folder / "policy.yaml").write_text(json.dumps(data))
    return hl.Policy.load(folder / "policy.yaml")


def test_streams_of_different_delays_share_the_promise(tmp_path):
    policy = several(tmp_path)
    for hours in (3, 4, 11, 24):
        summary = hl.publish(hl.Policy.load(tmp_path / "policy.yaml"), clock=at(hours))
        assert summary.used <= 1
    assert summary.published == {"s0": 13, "s1": 13, "s2": 13}
    made = releases(policy)
    times = [r.data_time for r in made]
    assert times != sorted(times), "data times come out of order"
    assert {r.age for r in made} == {0, 2, 5}
    verdict = checked(policy)
    assert 0.5 < verdict.risk <= 1.0
    assert worst_loss(NOTION, made) <= 1.0
    assert worst_loss(NOTION, made[:-3]) > 0.5
    assert attained_loss(NOTION.process, made) <= verdict.risk


def test_a_stream_that_stood_still_catches_up(tmp_path):
    """One stream is pushed hours late, after the others went on: its data times lie among theirs."""
    policy = several(tmp_path, shares=(0.5, 0.5), delays=(0, 1))
    late = policy.model_copy(
        update={"streams": [policy.streams[0], policy.streams[1].model_copy(update={"source": None})]}
    )
    hl.publish(late, clock=at(20))
    stream = hl.Stream(late, "s1", clock=at(20))
    for step in range(1, 20):
        stream.publish(1.0, at=step)
    made = releases(policy)
    assert sorted(r.data_time for r in made) == sorted([*range(1, 21), *range(1, 20)])
    assert hl.Accountant.replay(NOTION, made).used() <= 1


def test_an_autoregressive_process_is_published_under(tmp_path):
    process = {"name": "autoregressive", "rho": 0.9, "sigma": 1.0, "span": 5.0}
    policy = town(tmp_path, promise={"process": process})
    summary = hl.publish(policy, clock=at(24))
    notion = hl.AgeDependent(1.0, hl.AutoRegressive(0.9, 1000.0, 5000.0))  # in whole resolutions, as releases are
    assert worst_loss(notion, releases(policy)) == pytest.approx(summary.risk, rel=1e-6)
    assert hl.verify(policy.ledger_url, policy=policy).good


def test_a_delta_publishes_gaussian_noise(tmp_path):
    policy = town(tmp_path, promise={"delta": 1e-6, "noise": "gaussian"})
    hl.publish(policy, clock=at(24))
    assert {r.noise for r in releases(policy)} == {"gaussian"}
    assert hl.verify(policy.ledger_url, policy=policy).good


def test_a_promise_with_a_horizon_ends_there(tmp_path):
    write_readings(tmp_path)
    data = policy_dict(stream={"delay": "2 h"})
    data["promise"] = {**PROMISE, "horizon": "26 h"}
    (tmp_path / "policy.yaml").write_text(json.dumps(data))
    policy = hl.Policy.load(tmp_path / "policy.yaml")
    assert hl.publish(policy, clock=at(99)).published == {"mean": 24}
    assert hl.verify(policy.ledger_url, policy=policy).risk <= 1.0
