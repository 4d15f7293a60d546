"""Publishers that stay, on both ledgers and both kinds of source, killed again and again: nothing is lost, or counted twice."""

from __future__ import annotations

import os
import random
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import halflife as hl
from conftest import DATA
from forked import CONTEXT, finish, start
from halflife.ledger import ledger_exists, open_ledger
from live.replay import FastClock, Replay, Result, london_day
from postgres_server import run_server
from publisher.town import KILLED

BOTH = [("folder", "sqlite"), ("folder", "postgresql"), ("table", "sqlite"), ("table", "postgresql")]


def make_replay(folder: Path, server, source: str, ledger: str, steps) -> Replay:
    name = f"{source}_{ledger}"
    (folder / name).mkdir()
    server.execute(f"CREATE DATABASE {name}")
    url = f"postgresql://postgres@127.0.0.1:{server.port}/{name}"
    import psycopg

    with psycopg.connect(url, autocommit=True) as db:
        db.execute("CREATE TABLE readings (home text, time int8, wh int4, PRIMARY KEY (home, time))")
        db.execute("CREATE INDEX ON readings (time)")
    where = "town.ledger" if ledger == "sqlite" else f"{url}?schema=town&lease=2"
    return Replay(folder / name, steps, source, where, url)


def check(result: Result, steps: int, exact: int) -> None:
    assert result.problems == (), result.problems
    assert result.steps == steps, "a step is missing"
    assert min(result.lags) >= 0, "a step was published before it was closed"
    assert result.exact + result.with_late >= exact, (
        "readings that had arrived were not counted, or twice, or late ones were"
    )


@pytest.mark.parametrize(("source", "ledger"), BOTH)
def test_a_few_steps_replayed_fast_with_kills(tmp_path, source, ledger):
    steps = london_day(Path("nowhere"))[:6]
    with run_server() as server:
        replay = make_replay(tmp_path, server, source, ledger, steps)
        result = replay.run(speed=900.0, kills=3, seed=1, paced=True)
    check(result, 6, exact=6)


@pytest.mark.soak
def test_a_day_of_london_replayed_with_kills_restarts_late_rows_takeovers_and_an_amendment(tmp_path, capsys):
    """At 200 times the speed of time if there are 30 minutes, with lags; else as fast as all can. All four ways at once."""
    paced = float(os.environ.get("SOAK_MINUTES", "1")) < 30
    speed, kills = (900.0, 20) if paced else (200.0, 50)
    steps = london_day(DATA)
    with run_server() as server:
        replays = {pair: make_replay(tmp_path, server, *pair, steps) for pair in BOTH}

        def restart() -> None:
            server.stop()
            time.sleep(1.0)
            server.start()

        def run(item: tuple[int, tuple[tuple[str, str], Replay]]) -> Result:
            seed, (pair, replay) = item
            acts = [(0.6, "amendment", replay.amend)]
            acts += [(0.3, "server restarted", restart)] if pair == BOTH[-1] else []
            return replay.run(speed, kills, seed, acts, paced=paced)

        with ThreadPoolExecutor(4) as pool:
            results = dict(zip(replays, pool.map(run, enumerate(replays.items())), strict=True))
    with capsys.disabled():
        for (source, ledger), r in results.items():
            lags = sorted(lag / speed for lag in r.lags)
            print(
                f"\n{source} → {ledger}: {r.steps} steps, killed {r.kills}, {', '.join(r.acts)}; {r.exact} steps with exactly "
                f"what had been sent in time, {r.with_late} published after late rows, with them; lag median "
                f"{lags[len(lags) // 2]:.2f} s, largest {lags[-1]:.2f} s of real time; memory {max(r.memory)} MB at most; "
                f"verify: {r.problems or 'agrees'}"
            )
    for result in results.values():
        check(result, 48, exact=48 if paced else 46)  # a feeder may be killed for long


# A thousand kills -----------------------------------------------------------------------------------------------------------


def stored(url: str) -> dict[int, float]:
    if not ledger_exists(url):
        return {}
    with open_ledger(url, read_only=True) as book:
        try:
            return {e.step: e.noisy[0] for e in book.entries()}
        except hl.HalflifeError:  # killed before the tables were made
            return {}


def follow_fast(path: str, clock: FastClock, ready) -> None:
    ready.set()
    hl.follow(path, wait=5.0, clock=clock, sleep=clock.sleep)


@pytest.mark.soak
@pytest.mark.parametrize("ledger", ["sqlite", "postgresql"])
def test_five_hundred_random_kills_on_each_ledger(tmp_path, ledger, time_left):
    """A follower of steps that are closed several times a second is killed at random moments; no value ever changes."""
    steps = london_day(Path("nowhere"))
    with run_server() as server:
        replay = make_replay(tmp_path, server, "folder", ledger, steps)
        from live.replay import split_late, write_file

        for end, readings in steps:
            write_file(replay.feeds, str(end), split_late(readings)[0])
        url = hl.Policy.load(replay.policy).ledger_url
        draw, kills, known = random.Random(7), 0, {}
        began, shown = time.time(), steps[0][0] - 1800.0
        longest, in_vain = 0.6, 0  # on a slow machine it is left alone for longer, so that it publishes something
        while kills < 500 and (kills < 20 or time_left()):
            clock = FastClock(shown, time.time(), 3600.0)
            ready = CONTEXT.Event()
            process = start(follow_fast, replay.policy, clock, ready, said=tmp_path / "log")
            assert ready.wait(60)
            time.sleep(draw.random() ** 2 * longest)
            process.kill()
            kills += finish(process) == KILLED
            shown = clock()
            now = stored(url)
            assert known.items() <= now.items(), "a committed value changed or is gone"
            in_vain = 0 if len(now) > len(known) else in_vain + 1
            if in_vain == 10:
                longest, in_vain = longest * 1.5, 0
            known = now
        assert kills >= 20
        assert len(known) >= kills / 20, "most were killed before they did anything"
        assert hl.verify(replay.policy).problems == ()
        print(f"{ledger}: {kills} kills in {time.time() - began:.0f} s, {len(known)} steps")
