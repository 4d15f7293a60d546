"""Killed at every named point: no step lost, none published with two values, no loss uncounted."""

import random
import time

import pytest

import halflife as hl
from forked import CONTEXT, finish, start
from halflife.ledger import ledger_exists, open_ledger
from halflife.publisher.checkpoints import CHECKPOINTS
from publisher.children import publish_step_by_step
from publisher.town import KILLED, STEPS, make, read_csv, run_and_die, write_readings

EVERYWHERE = (*CHECKPOINTS, "in the transaction", "half written")


def stored(policy):
    if not ledger_exists(policy.ledger_url):
        return {}
    with open_ledger(policy.ledger_url, read_only=True) as book:
        try:
            return {e.step: e.noisy[0] for e in book.entries("mean")}
        except Exception:  # killed before the tables were made
            return {}


def check_whole(policy, output="mean.csv"):
    """Everything published once, the output equal to the ledger, the risk equal to the live account's."""
    rows = read_csv(policy.path(output))
    assert [int(row["step"]) for row in rows] == list(range(1, STEPS + 1))
    verdict = hl.verify(policy.ledger_url, {"mean": str(policy.path(output))})
    assert verdict.problems == ()
    with open_ledger(policy.ledger_url, read_only=True) as book:
        live = hl.Accountant.from_json(book.states()["account"])
        again = hl.Accountant.replay(live.notion, [r for e in book.entries() for r in e.releases])
        assert sum(len(e.releases) for e in book.entries()) == STEPS
    assert again.risk() == live.risk() == verdict.risk
    assert again.to_json() == live.to_json()


@pytest.fixture
def address(request, schema):
    """Where a ledger of a kind is: in a file, or on the server of this run of the tests."""

    def find(kind):
        return "town.ledger" if kind == "sqlite" else request.getfixturevalue("postgresql").url(schema)

    return find


@pytest.mark.diagonal
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("point", EVERYWHERE)
def test_killed_at_any_point_it_goes_on(tmp_path, address, point, number, kind):
    write_readings(tmp_path)
    policy = make(tmp_path, ledger=address(kind))
    ended = run_and_die(tmp_path, point, number)
    assert ended == KILLED or (number == 2 and point in ("ledger locked", "outputs complete", "outputs closed"))
    before = stored(policy)
    lines = policy.path("mean.csv").read_bytes() if policy.path("mean.csv").exists() else b""
    hl.publish(policy)
    check_whole(policy)
    after = stored(policy)
    assert all(after[step] == value for step, value in before.items()), "a committed value was drawn again"
    whole = lines[: lines.rfind(b"\n") + 1]
    assert policy.path("mean.csv").read_bytes().startswith(whole), "what readers had seen was changed"


@pytest.mark.diagonal
@pytest.mark.parametrize("output", ["mean.jsonl", "mean.parquet", "parts/"])
@pytest.mark.parametrize("point", ["entries committed", "outputs written", "outputs closed"])
def test_killed_with_any_output_it_goes_on(tmp_path, point, output):
    write_readings(tmp_path)
    policy = make(tmp_path, output=output)
    assert run_and_die(tmp_path, point) == KILLED
    hl.publish(policy)
    assert (
        hl.verify(policy.ledger_url, {"mean": f"{policy.path(output)}{'/' if output == 'parts/' else ''}"}).problems
        == ()
    )
    assert len(stored(policy)) == STEPS


def test_stdout_is_written_again_with_the_stored_values(tmp_path, capfd):
    write_readings(tmp_path)
    policy = make(tmp_path, output="-")
    assert run_and_die(tmp_path, "entries committed", 2) == KILLED
    before = stored(policy)
    hl.publish(policy)
    lines = capfd.readouterr().out.splitlines()
    import json

    seen = {json.loads(line)["step"]: json.loads(line)["value"] for line in lines}
    assert set(seen) == set(range(6, STEPS + 1)), "steps 1 to 5 were written and marked before"
    for step in range(6, 11):
        assert seen[step] == before[step] / 5000
    hl.publish(policy)
    assert capfd.readouterr().out == ""


def test_killed_again_and_again_at_random_moments(tmp_path):
    assert kill_towns(tmp_path, lambda kills: kills < 5) >= 5


@pytest.mark.soak
def test_two_hundred_kills_at_random_moments(tmp_path, time_left):
    assert kill_towns(tmp_path, lambda kills: kills < 200 or time_left()) >= 200


def kill_towns(folder, go_on):
    """Begin town after town, each killed until it is done."""
    kills = towns = 0
    while go_on(kills):
        (folder / str(towns)).mkdir()
        kills += kill_at_random(folder / str(towns), lambda n, before=kills: go_on(before + n), seed=towns)
        towns += 1
    return kills


def kill_at_random(folder, go_on, seed):
    """Kill publishing processes at random moments of their life, checking after each that nothing committed has changed."""
    write_readings(folder)
    policy = make(folder)
    draw, kills, known = random.Random(seed), 0, {}
    while go_on(kills):
        ready = CONTEXT.Event()
        process = start(publish_step_by_step, str(folder / "policy.yaml"), ready)
        assert ready.wait(60)  # what is killed from here on is the publishing
        time.sleep(draw.random() ** 2 * 0.5)
        process.kill()
        kills += finish(process) == KILLED
        now = stored(policy)
        assert all(now.get(step) == value for step, value in known.items()), "a committed value changed or is gone"
        known = now
        if len(known) == STEPS:
            break
    hl.publish(policy)
    check_whole(policy)
    assert all(stored(policy)[step] == value for step, value in known.items())
    return kills
