"""A day of homes replayed fast: a feeder writes readings when they happen, two publishers follow, and all of them are killed.

    feeder      every half hour's readings, a few minutes after its end; some of them only after the step was closed
    publishers  two on one ledger, with a clock that goes so many times faster
    acts        kills of each part, the server stopped and started, an amendment

Afterwards every step must have been published once, with what had arrived when it was closed, and `verify` must agree.

A clock that only runs shows lags. On a busy machine it is over before a process has begun, so tests use one that waits: it
does not pass a closing before the feeder has sent what comes in time, nor go on to late readings before the step is published.
"""

from __future__ import annotations

import json
import os
import random
import signal
import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import halflife as hl
from forked import start
from halflife.ledger import open_ledger
from halflife.policy import channels

HALF_HOUR, LATENESS = 1800, 600
LATE_AFTER = 900
"""Seconds after the end of a step at which late readings are written: 300 after its closing."""
LATE_SHARE = 0.02
NOISE = 15.0
"""Wh that the noise of a total, of scale 0.96, stays below: a reading that is lost or counted twice is more, but for a few."""

PATIENCE = 300.0
"""Seconds of real time for which a paced clock waits for somebody at most."""

Reading = tuple[str, int, int]
"""A home, the second at which it was read, and Wh."""


@dataclass(frozen=True)
class FastClock:
    """A clock that shows `begin` at the real time `since`, and goes `speed` times as fast."""

    begin: float
    since: float
    speed: float

    def __call__(self) -> float:
        return self.begin + (time.time() - self.since) * self.speed

    def sleep(self, seconds: float) -> None:
        time.sleep(min(0.5, seconds / self.speed))

    def sleep_until(self, moment: float) -> None:
        time.sleep(max(0.0, (moment - self()) / self.speed))


@dataclass(frozen=True)
class PacedClock:
    """A clock that shows what a file says, for all processes; whoever leads the replay moves it on."""

    file: str
    speed: float

    def __call__(self) -> float:
        (shown,) = struct.unpack("d", Path(self.file).read_bytes())
        return float(shown)

    def set(self, shown: float) -> None:
        hidden = Path(f"{self.file}.new")
        hidden.write_bytes(struct.pack("d", shown))
        hidden.rename(self.file)

    def sleep(self, seconds: float) -> None:
        time.sleep(min(0.5, max(0.01, seconds / self.speed)))

    def sleep_until(self, moment: float) -> None:
        while self() < moment:
            time.sleep(0.02)


Clock = FastClock | PacedClock


def follow_until(policy: str, clock: Clock, end: float) -> None:
    """Follow a policy until a time."""
    hl.follow(policy, wait=3.0, clock=clock, sleep=clock.sleep, stop=lambda: clock() >= end)


# The feeder ---------------------------------------------------------------------------------------------------------------


def split_late(readings: Sequence[Reading]) -> tuple[list[Reading], list[Reading]]:
    """Which readings come in time and which late: by their home and time alone, so that a feeder that died goes on alike."""
    late = [r for r in readings if random.Random(f"{r[0]} {r[1]}").random() < LATE_SHARE]
    known = set(late)
    return [r for r in readings if r not in known], late


def feed(where: str, steps: Sequence[tuple[int, Sequence[Reading]]], clock: Clock) -> None:
    """Write each step's readings two minutes after its end, and the late ones later; what is there is left alone."""
    acts = []
    for end, readings in steps:
        in_time, late = split_late(readings)
        acts += [(end + 120, f"{end}", in_time), (end + LATE_AFTER, f"{end}-late", late)]
    write = write_file if os.path.isdir(where) else write_rows
    for moment, name, rows in sorted(acts):
        clock.sleep_until(moment)
        while not _tried(write, where, name, rows):
            time.sleep(0.05)


def _tried(
    write: Callable[[str, str, Sequence[Reading]], None], where: str, name: str, rows: Sequence[Reading]
) -> bool:
    import psycopg

    try:
        write(where, name, rows)
    except psycopg.OperationalError:
        return False
    return True


def write_file(folder: str, name: str, rows: Sequence[Reading]) -> None:
    path = Path(folder) / f"{name}.csv"
    if not path.exists():
        hidden = path.with_name(f".{name}.{os.getpid()}")
        hidden.write_text("home,time,wh\n" + "".join(f"{h},{t},{x}\n" for h, t, x in rows))
        hidden.rename(path)


def write_rows(url: str, name: str, rows: Sequence[Reading]) -> None:
    import psycopg

    with psycopg.connect(url) as db, db.cursor() as cursor:
        cursor.executemany("INSERT INTO readings VALUES (%s, %s, %s) ON CONFLICT DO NOTHING", rows)


# The replay ---------------------------------------------------------------------------------------------------------------


@dataclass
class Result:
    """What a replay came to.

    exact      steps with exactly what had been sent in time
    with_late  steps that were published when what came late was there, and hold that as well
    """

    kills: dict[str, int] = field(default_factory=dict)
    lags: list[float] = field(default_factory=list)
    memory: list[int] = field(default_factory=list)
    exact: int = 0
    with_late: int = 0
    steps: int = 0
    problems: tuple[str, ...] = ()
    acts: list[str] = field(default_factory=list)


class Replay:
    """One source and one ledger through one stretch of steps."""

    def __init__(
        self, folder: Path, steps: Sequence[tuple[int, Sequence[Reading]]], source: str, ledger: str, url: str
    ) -> None:
        self.folder, self.steps, self._url, self._source = folder, steps, url, source
        (folder / "in").mkdir()
        self.feeds = str(folder / "in") if source == "folder" else url
        self.homes = len({r[0] for _, readings in steps for r in readings})
        self._ledger, self._size = ledger, self.homes
        self.write_policy()

    def write_policy(self) -> None:
        where = {"files": "in/*.csv"} if self._source == "folder" else {"database": self._url, "table": "readings"}
        stream = {
            "name": "use",
            "source": {**where, "time": "time", "value": "wh", "epoch": "s"},
            "statistic": {"kind": "mean", "unit": "Wh", "resolution": "1 Wh", "clip": ["0", "20000"], "fold": "sum"},
            "lateness": "10 min",
            "output": "use.csv",
        }
        begin = self.steps[0][0] - HALF_HOUR
        data = {
            "population": {"id": "town", "size": self._size, "person": "home"},
            "promise": {"notion": "w-event", "epsilon": 1e6, "w": 48},
            "clock": {"step": "30 min", "start": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(begin))},
            "streams": [stream],
            "ledger": self._ledger,
        }
        made = self.folder / ".policy.new"
        made.write_text(json.dumps(data))
        made.rename(self.folder / "policy.yaml")

    @property
    def policy(self) -> str:
        return str(self.folder / "policy.yaml")

    def amend(self) -> None:
        """Ten people more, from the next step on; whoever follows reads the policy again."""
        self._size = self.homes + 10
        self.write_policy()
        while True:
            try:
                hl.amend(self.policy, "people moved in", clock=self.clock)
                return
            except hl.LedgerError as error:
                if "held by" not in str(error) and "cannot be" not in str(error):
                    raise

    def run(
        self,
        speed: float,
        kills: int,
        seed: int,
        acts: Sequence[tuple[float, str, Callable[[], Any]]] = (),
        *,
        paced: bool,
    ) -> Result:
        """Replay; kill each part so many times, at random moments, and do the acts, each at its share of the time."""
        begin, end = self.steps[0][0] - HALF_HOUR, self.steps[-1][0] + LATENESS + HALF_HOUR // 2
        self.clock = clock = self.make_clock(begin, speed, paced)
        draw, result = random.Random(seed), Result(kills={"publishers": 0, "feeder": 0})
        targets: dict[str, tuple[Any, ...]] = {
            "publisher 1": (follow_until, self.policy, clock, end),
            "publisher 2": (follow_until, self.policy, clock, end),
            "feeder": (feed, self.feeds, self.steps, clock),
        }
        parts = {name: self.begin(name, target) for name, target in targets.items()}
        moments = [(draw.uniform(begin, end), part) for part in ("publisher", "feeder") for _ in range(kills)]
        plan = sorted([*moments, *((begin + share * (end - begin), act) for share, _, act in acts)], key=lambda p: p[0])
        names = {act: name for _, name, act in acts}
        for moment, act in [*plan, (end + 60, None)]:
            self.pass_time(moment, lambda: self.restart_dead(parts, targets))
            if callable(act):
                act()
                result.acts.append(names[act])
            elif act is not None:
                part = draw.choice(["publisher 1", "publisher 2"]) if act == "publisher" else "feeder"
                result.memory.append(_memory(parts[part]))
                result.kills["feeder" if part == "feeder" else "publishers"] += self.kill(parts[part])
                parts[part] = self.begin(part, targets[part])
        for process in parts.values():
            process.join(PATIENCE)
            process.kill()
        return self.judge(result)

    def make_clock(self, begin: float, speed: float, paced: bool) -> Clock:
        if not paced:
            return FastClock(begin, time.time() + 1.0, speed)
        clock = PacedClock(str(self.folder / "clock"), speed)
        clock.set(begin)
        self._gates = [
            gate
            for k, (end, _) in enumerate(self.steps)
            for gate in ((end + LATENESS - 1, self.is_sent, k), (end + LATE_AFTER - 1, self.is_published, k))
        ]
        self._gates.sort(key=lambda gate: gate[0])
        return clock

    def pass_time(self, moment: float, look: Callable[[], None]) -> None:
        """Wait until the clock shows a moment; one that is paced is moved on, from gate to gate."""
        clock = self.clock
        if isinstance(clock, FastClock):
            clock.sleep_until(moment)
            look()
            return
        while (shown := clock()) < moment:
            look()
            gate = self._gates[0] if self._gates else (moment, None, 0)
            if shown >= gate[0]:
                self.wait_for(gate[1], gate[2], look)
                del self._gates[0]
                continue
            time.sleep(0.02)
            clock.set(min(shown + 0.02 * clock.speed, moment, gate[0]))

    def wait_for(self, done: Callable[[int], bool], k: int, look: Callable[[], None]) -> None:
        """Wait until something is done for a step; whoever has ended by an error is started again meanwhile."""
        began = time.monotonic()
        while not done(k) and time.monotonic() - began < PATIENCE:
            look()
            time.sleep(0.05)

    def is_sent(self, k: int) -> bool:
        """Whether all readings of a step that come in time are there."""
        end, readings = self.steps[k]
        if self._source == "folder":
            return (Path(self.feeds) / f"{end}.csv").exists()
        import psycopg

        try:
            with psycopg.connect(self.feeds) as db:
                query = "SELECT count(*) FROM readings WHERE time >= %s AND time < %s"
                (count,) = db.execute(query, (end - HALF_HOUR, end)).fetchone() or (0,)
        except psycopg.OperationalError:
            return False
        return bool(count >= len(split_late(readings)[0]))

    def is_published(self, k: int) -> bool:
        """Whether a step is in the ledger."""
        try:
            with open_ledger(hl.Policy.load(self.policy).ledger_url, read_only=True) as book:
                return book.last_step("use") > k
        except hl.HalflifeError:
            return False

    def kill(self, process: ForkServerProcess) -> bool:
        """Kill a process; return whether it was alive."""
        if not process.is_alive() or process.pid is None:
            return False
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        return True

    def begin(self, name: str, target: tuple[Any, ...]) -> ForkServerProcess:
        return start(*target, said=self.folder / f"{name}.log")

    def restart_dead(self, parts: dict[str, ForkServerProcess], targets: dict[str, tuple[Any, ...]]) -> None:
        """As systemd would: whatever ended by an error is started again."""
        for name, process in parts.items():
            if not process.is_alive() and process.exitcode != 0:
                parts[name] = self.begin(name, targets[name])

    def judge(self, result: Result) -> Result:
        """What was published beside what had arrived, each step's lag, and what `verify` says."""
        policy = hl.Policy.load(self.policy)
        (channel,) = channels(policy)
        with open_ledger(policy.ledger_url, read_only=True) as book:
            entries = list(book.entries())
            batches = [b for b in book.batches() if b.event is None]
        result.steps = len({e.step for e in entries})
        assert len(entries) == result.steps, "a step has two values"
        times = iter(sorted((b.last, b.at_us) for b in batches))
        last, at_us = next(times)
        for number, entry in enumerate(entries, start=1):
            while number > last:
                last, at_us = next(times)
            result.lags.append((at_us - channel.published_at(entry.step)) / 1e6)
            in_time, late = (sum(r[2] for r in part) for part in split_late(self.steps[entry.step - 1][1]))
            result.exact += abs(entry.noisy[0] - in_time) < NOISE
            if result.lags[-1] > LATE_AFTER - LATENESS:  # who publishes late finds what has come late
                result.with_late += abs(entry.noisy[0] - in_time - late) < NOISE
        result.problems = hl.verify(policy).problems
        return result


def _memory(process: ForkServerProcess) -> int:
    """The resident memory of a process in MB; 0 if it is gone."""
    try:
        text = Path(f"/proc/{process.pid}/status").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) // 1024 for line in text.splitlines() if line.startswith("VmRSS")), 0)


def london_day(data: Path, day: str = "2013-06-03") -> list[tuple[int, list[Reading]]]:
    """A day of the London homes, half hour by half hour; where the data is not there, generated homes."""
    begin = int(time.mktime(time.strptime(f"{day} UTC", "%Y-%m-%d %Z"))) - time.timezone
    file = data / "lcl_2013_325_households.parquet"
    if file.exists():
        import duckdb

        rows = duckdb.sql(
            f"SELECT lclid, epoch(ts)::BIGINT, round(1000 * kwh)::BIGINT FROM '{file}' "
            f"WHERE ts >= '{day}' AND ts < DATE '{day}' + 1 AND kwh IS NOT NULL"
        ).fetchall()
    else:
        draw = random.Random(1)
        rows = [(f"h{h}", begin + HALF_HOUR * k, draw.randrange(2000)) for k in range(48) for h in range(300)]
    return [(begin + HALF_HOUR * (k + 1), [r for r in rows if (r[1] - begin) // HALF_HOUR == k]) for k in range(48)]
