"""One more step costs the same after a thousand steps and after five million. Work is counted, never timed."""

import datetime
import json
import tracemalloc

import pytest

import halflife as hl
from halflife.policy import channels
from publisher.town import policy_dict, write_readings

MANY = 5_000_000
PROMISES = {
    "exponential": {"notion": "exponential", "epsilon": 1.0, "half_life": "7 days"},
    "exponential, capped": {"notion": "exponential", "epsilon": 1.0, "half_life": "7 days", "cap": 0.01},
    "hyperbolic": {"notion": "hyperbolic", "epsilon": 1.0, "beta": 0.1},
    "hyperbolic, paper": {"notion": "hyperbolic", "epsilon": 1.0, "beta": 0.1, "plan": "paper"},
    "gaussian-discount": {"notion": "gaussian-discount", "epsilon": 1.0, "delta": 1e-6, "beta": 0.1},
    "classical": {"notion": "classical", "epsilon": 1.0},
    "classical, δ": {"notion": "classical", "epsilon": 1.0, "delta": 1e-6},
    "w-event": {"notion": "w-event", "epsilon": 1.0, "w": 48},
    "almost-periodic": {"notion": "almost-periodic", "epsilon": 1.0, "period": "1 day", "strong": True},
}


def stream(folder, promise, **clock):
    data = policy_dict()
    data["promise"] = promise
    data["clock"] = {"step": "1 min", "start": "2016-01-01", **clock}
    (channel,) = channels(hl.Policy.from_dict(data, folder))
    return channel


def most_taken(channel, step):
    """The most memory that is held while a step's place, time and noise are worked out, as `publish` does."""
    tracemalloc.start()
    assert channel.newest(channel.published_at(step)) == step
    found = channel.plan_releases(step, first=step)
    channel.question(step, step)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert {r.step for r in found} == {step}
    return most


@pytest.mark.parametrize("zone", ["UTC", "Europe/London"])
@pytest.mark.parametrize("name", PROMISES)
def test_a_late_step_is_worked_out_as_cheaply_as_an_early_one(tmp_path, name, zone):
    """Before, all losses up to the step were worked out for the last of them: 107 to 487 MB."""
    channel = stream(tmp_path, PROMISES[name], zone=zone)
    most_taken(channel, 1)
    assert most_taken(channel, MANY) <= 2 * most_taken(channel, 1_000) + 4e6


@pytest.mark.parametrize("name", ["exponential", "hyperbolic", "classical"])
def test_batches_of_any_cut_publish_the_same_losses_to_the_last_bit(tmp_path, name):
    channel = stream(tmp_path, PROMISES[name])
    whole = [r.loss for r in channel.plan_releases(MANY + 40, first=MANY)]
    pieces = [r.loss for k in range(0, 41, 7) for r in channel.plan_releases(MANY + min(k + 6, 40), first=MANY + k)]
    fresh = [stream(tmp_path, PROMISES[name]).plan_releases(MANY + k, first=MANY + k)[0].loss for k in (0, 17, 40)]
    assert pieces == whole
    assert fresh == [whole[0], whole[17], whole[40]]


def test_local_days_far_out_are_worked_out_by_themselves(tmp_path):
    channel = stream(tmp_path, PROMISES["exponential"], step="1 day", zone="Europe/London")
    most_taken(channel, 1)
    assert most_taken(channel, 50_000) <= 2 * most_taken(channel, 50) + 1e6


# Batches ------------------------------------------------------------------------------------------------------------


def commits_of(folder, streams, promise, days=3):
    """How many transactions a backfill takes."""
    folder.mkdir()
    write_readings(folder, [])
    data = policy_dict()
    first = data["streams"][0]
    data["streams"] = [{**first, "name": f"s{i}", "output": f"s{i}.csv"} for i in range(streams)]
    data["promise"] = promise
    data["clock"]["end"] = str(datetime.date(2026, 1, 1) + datetime.timedelta(days=days))
    (folder / "policy.yaml").write_text(json.dumps(data))
    policy = hl.Policy.load(folder / "policy.yaml")
    with pytest.MonkeyPatch.context() as patch:
        counted = []
        real = hl.ledger.sqlite.SqliteLedger.commit
        patch.setattr(hl.ledger.sqlite.SqliteLedger, "commit", lambda *a: (counted.append(1), real(*a))[1])
        hl.publish(policy)
    assert hl.verify(policy.ledger_url).problems == ()
    return len(counted)


@pytest.mark.parametrize("strong", [False, True], ids=["weak", "strong"])
def test_several_streams_with_reused_noise_commit_as_seldom_as_one(tmp_path, strong):
    """Before: a transaction for every step of the account, 72 for three days of two streams."""
    weak = {"variations": "public", "readings": "complete", "rounding": "none"}
    promise = {"notion": "almost-periodic", "epsilon": 1.0, "period": "1 day", **({"strong": True} if strong else weak)}
    assert [commits_of(tmp_path / str(n), n, promise) for n in (1, 2, 3)] == [1, 1, 1]
