"""How the cost of each part grows over three orders of magnitude, and what a week of 10,000 zones costs its publisher.

    engine    seconds of an aggregation, by readings             noise     seconds of drawing, by values
    often     the same, of people who are read three times in    account   seconds of admitting, by releases
              each step                                          step      seconds and bytes of publishing, by steps
    live      seconds and memory of one half hour, from its      value     seconds and bytes of publishing, by groups
              readings to its output, by homes                   verify    seconds of verifying, by steps
    table     seconds and memory of a policy, by people whose zone a public table says

Each law is fitted as cost = unit · size^power to the two largest sizes; a power of 1 is growth in proportion.
The week is published as a live publisher would: the totals of each half hour are pushed when it is over, step after step.
"""

from __future__ import annotations

import json
import math
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.table import Table

from bench.publish import write_town
from bench.results import Finding

if TYPE_CHECKING:
    from halflife.policy import Policy

HOUSEHOLDS, ZONES, WEEK = 10_000_000, 10_000, 336
YEAR = 52 * WEEK + 48
SIZES = {
    "engine": (50_000, 500_000, 5_000_000, 50_000_000),
    "often": (50_000, 500_000, 5_000_000, 50_000_000),
    "live": (10_000, 100_000, 1_000_000, 10_000_000),
    "account": (1_000, 10_000, 100_000, 1_000_000),
    "noise": (1_000, 10_000, 100_000, 1_000_000),
    "step": (100, 1_000, 10_000, 100_000),
    "value": (10, 100, 1_000, 10_000),
    "verify": (100, 1_000, 10_000, 100_000),
    "table": (10_000, 100_000, 1_000_000, 10_000_000),
}
LARGE = {"engine", "often", "live", "table"}
"""Of these the largest size is left out unless `--large` is given: 50 million readings take half a minute to write."""
STEPS_OF_VALUES = 24

Cost = dict[str, float]
"""What one size cost: seconds, and bytes or MB where they say something."""


def make_policy(groups: int) -> dict[str, Any]:
    """Return a policy of sums of so many groups, whose totals a program pushes."""
    stream: dict[str, Any] = {
        "name": "use",
        "statistic": {"kind": "mean", "unit": "kWh", "resolution": "1 Wh", "clip": ["0", "5 kWh"], "fold": "sum"},
        "output": "use.csv",
    }
    if groups > 1:
        names = [f"zone {g:05d}" for g in range(groups)]
        size = HOUSEHOLDS // ZONES
        stream["groups"] = {"names": names, "most_per_person": 1, "sizes": dict.fromkeys(names, size)}
    return {
        "population": {"id": "country", "size": HOUSEHOLDS, "person": "home"},
        "promise": {"notion": "w-event", "epsilon": 1, "w": "1 day"},
        "clock": {"step": "30 min", "start": "2020-01-01"},
        "streams": [stream],
    }


def measure_engine(size: int, folder: Path, each: int = 1) -> Cost:
    """The bounded aggregation of so many readings of a year, so many of each home in each step."""
    from halflife.engines import Question, open_source
    from halflife.steps import Buckets

    homes = max(1, size // YEAR)
    days = min(365, size // 48)
    rows = write_town(folder / "town.parquet", homes, days)
    begin = 1_735_689_600_000_000
    question = Question(
        "sum", "home", "ts", Buckets(each * 1_800_000_000, ((-(2**62), -begin),)), 1, 48 * days // each, value="kwh",
        multiply=1000, low=0, high=5000 * each, fold="sum", once=False,
    )  # fmt: skip
    engine = open_source(folder / "town.parquet", scratch=folder)
    began = time.perf_counter()
    answer = engine.aggregate(question)
    cost = {"seconds": time.perf_counter() - began}
    engine.close()
    assert answer.tallies["rows"] == rows
    return cost


def measure_often(size: int, folder: Path) -> Cost:
    """The same where every home has three readings in every step."""
    return measure_engine(size, folder, 3)


def measure_live(size: int, folder: Path) -> Cost:
    """One half hour of so many homes, each of which is read once, from a file with their zones to the output."""
    import duckdb

    import halflife as hl

    zones = min(ZONES, size // 100)
    duckdb.sql(
        f"COPY (SELECT printf('home %08d', i) AS home, printf('zone %05d', i % {zones}) AS zone, "
        f"TIMESTAMP '2020-01-01 00:10:00' AS ts, round(2 * random(), 3) AS kwh FROM range({size}) homes(i)) "
        f"TO '{folder / 'now.parquet'}'"
    )
    policy = make_policy(zones)
    (stream,) = policy["streams"]
    stream["source"] = {"files": str(folder / "now.parquet"), "time": "ts", "value": "kwh", "group": "zone"}
    stream["groups"]["sizes"] = dict.fromkeys(stream["groups"]["names"], size // zones)
    policy["population"]["size"], policy["clock"]["end"] = size, "2020-01-01T00:30"
    made = _placed(policy, folder)
    began = time.perf_counter()
    assert hl.publish(made).published == {"use": 1}
    return {"seconds": time.perf_counter() - began, "mb": _peak()}


def measure_verify(size: int, folder: Path) -> Cost:
    """Verifying so many steps of one number, and their output."""
    import halflife as hl

    made = _publish(make_policy(1), folder, size, 1)
    began = time.perf_counter()
    assert hl.verify(_placed(make_policy(1), folder)).good
    return made | {"seconds": time.perf_counter() - began}


def measure_account(size: int, folder: Path) -> Cost:
    """Admitting so many releases, a thousand at a time."""
    import halflife as hl

    account = hl.Accountant(hl.HyperbolicDiscount(1.0, beta=0.1))
    began = time.perf_counter()
    for first in range(1, size + 1, 1000):
        account.admit(*(hl.Release(k, 1e-9) for k in range(first, min(first + 1000, size + 1))))
    return {"seconds": time.perf_counter() - began}


def measure_noise(size: int, folder: Path) -> Cost:
    """Drawing so many values, in calls of a thousand of one scale, as a step of many groups does."""
    from halflife import noise

    calibration = noise.by_loss(1.0, 1.0)
    began = time.perf_counter()
    for first in range(0, size, 100_000):
        noise.draw_many([calibration] * min(100_000, size - first))
    return {"seconds": time.perf_counter() - began}


def _publish(policy: dict[str, Any], folder: Path, steps: int, groups: int) -> Cost:
    """Publish totals of a backfill; seconds, and bytes of ledger and output."""
    from halflife.publisher.session import Session

    session = Session(_placed(policy, folder))
    began = time.perf_counter()
    with session.hold(1.0):
        (channel,) = session.channels
        batch = max(1, 100_000 // groups)
        for first in range(1, steps + 1, batch):
            last = min(first + batch - 1, steps)
            totals = np.full((last - first + 1, groups), 300_000, dtype=np.int64)
            session.publish([(session.due(channel, first, last), totals)])
    session.close()
    cost = {"seconds": time.perf_counter() - began}
    return cost | {"ledger": _size(folder / "town.ledger"), "output": _size(folder / "use.csv")}


def _placed(policy: dict[str, Any], folder: Path) -> Policy:
    """The policy with its ledger and outputs in a folder."""
    from halflife.policy import Policy

    streams = [{**stream, "output": str(folder / stream["output"])} for stream in policy["streams"]]
    return Policy.of({**policy, "ledger": str(folder / "town.ledger"), "streams": streams})


def _peak() -> float:
    """The peak memory of this process, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _size(file: Path) -> float:
    return float(file.stat().st_size)


def measure_step(size: int, folder: Path) -> Cost:
    """Publishing so many steps of one number."""
    return _publish(make_policy(1), folder, size, 1)


def measure_value(size: int, folder: Path) -> Cost:
    """Publishing a few steps of so many groups."""
    return _publish(make_policy(size), folder, STEPS_OF_VALUES, size)


def measure_table(size: int, folder: Path) -> Cost:
    """Reading a policy whose public table says in which group each of so many people is."""
    import duckdb

    select = (
        f"SELECT printf('home %08d', i) AS home, printf('zone %05d', i % {ZONES}) AS zone FROM range({size}) homes(i)"
    )
    duckdb.sql(f"COPY ({select}) TO '{folder / 'homes.csv'}'")
    policy = make_policy(1)
    policy["streams"][0]["groups"] = {"table": {"file": str(folder / "homes.csv"), "person": "home", "group": "zone"}}
    began = time.perf_counter()
    made = _placed(policy, folder)
    cost = {"seconds": time.perf_counter() - began}
    assert made.population.size == HOUSEHOLDS
    return cost | {"mb": _peak()}


def simulate_week(size: int, folder: Path) -> Cost:
    """Push each half hour of so many zones for a week, one after the other; seconds of a step early and late."""
    import halflife as hl

    policy = make_policy(size)
    made = _placed(policy, folder)
    stream = hl.Stream(made)
    draw, seconds = np.random.default_rng(1), []
    names = policy["streams"][0]["groups"]["names"]
    for step in range(1, WEEK + 1):
        values = dict(zip(names, draw.gamma(2.0, 0.15, size).tolist(), strict=True))
        began = time.perf_counter()
        stream.publish(values, at=step)
        seconds.append(time.perf_counter() - began)
    stream.close()
    early, late = float(np.median(seconds[:48])), float(np.median(seconds[-48:]))
    cost = {"seconds": sum(seconds), "early": early, "late": late, "longest": max(seconds), "mb": _peak()}
    began = time.perf_counter()
    assert hl.verify(made).good
    return cost | {
        "verify": time.perf_counter() - began,
        "ledger": _size(folder / "town.ledger"), "output": _size(folder / "use.csv"),
    }  # fmt: skip


MEASURES: dict[str, Callable[[int, Path], Cost]] = {
    "engine": measure_engine,
    "often": measure_often,
    "live": measure_live,
    "account": measure_account,
    "noise": measure_noise,
    "step": measure_step,
    "value": measure_value,
    "verify": measure_verify,
    "table": measure_table,
    "week": simulate_week,
}


def run(name: str, size: int) -> Cost:
    """Measure one size in a process of its own, so that memory is its own too."""
    call = f"from bench.scale import job; job({name!r}, {size})"
    done = subprocess.run([sys.executable, "-c", call], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])  # type: ignore[no-any-return]


def job(name: str, size: int) -> None:
    """Measure one size in a fresh folder, and print what it cost; imports are not timed."""
    import opendp.measurements  # noqa: F401

    import halflife.publisher  # noqa: F401

    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(MEASURES[name](size, Path(folder))))


def fit_power(sizes: Sequence[int], costs: Sequence[float]) -> float:
    """Return the power of growth between the two largest sizes.

    >>> round(fit_power([10, 100, 1000], [9.0, 2.0, 20.0]), 3)
    1.0
    """
    return math.log(costs[-1] / costs[-2]) / math.log(sizes[-1] / sizes[-2])


def measure_growth(large: bool) -> dict[str, list[tuple[int, Cost]]]:
    """Measure each part at each of its sizes."""
    found: dict[str, list[tuple[int, Cost]]] = {}
    for name, sizes in SIZES.items():
        chosen = sizes if large or name not in LARGE else sizes[:-1]
        found[name] = [(size, run(name, size)) for size in chosen]
    return found


def tabulate_growth(found: dict[str, list[tuple[int, Cost]]]) -> Table:
    """Return a table of what each size cost, in µs each, and the power of growth."""
    table = Table(title="growth: µs each, by size", title_justify="left")
    for column in ("part", "sizes", "µs each", "power", "bytes each in the ledger", "in the output", "peak MB"):
        table.add_column(column, justify="left" if column == "part" else "right")
    for name, costs in found.items():
        times = STEPS_OF_VALUES if name == "value" else 1
        seconds = [cost["seconds"] for _, cost in costs]
        each = ", ".join(f"{1e6 * s / (size * times):.3g}" for s, (size, _) in zip(seconds, costs, strict=True))
        size, last = costs[-1]
        held = [f"{last[part] / (size * times):,.0f}" if part in last else "" for part in ("ledger", "output")]
        power = fit_power([n for n, _ in costs], seconds)
        memory = f"{last['mb']:,.0f}" if "mb" in last else ""
        table.add_row(name, ", ".join(f"{n:,}" for n, _ in costs), each, f"{power:.2f}", *held, memory)
    return table


def main() -> list[Finding]:
    console = Console(width=150)
    found = measure_growth("--large" in sys.argv)
    console.print(tabulate_growth(found))
    week = run("week", ZONES)
    console.print(
        f"A week of {ZONES:,} zones ({HOUSEHOLDS:,} households), pushed half hour by half hour: {week['seconds']:.1f} s in all; "
        f"a step {week['early']:.3f} s on the first day, {week['late']:.3f} s on the last, {week['longest']:.3f} s at most; "
        f"{week['mb']:,.0f} MB; ledger {week['ledger'] / 1e6:,.0f} MB, output {week['output'] / 1e6:,.0f} MB; to verify it "
        f"{week['verify']:.1f} s",
        highlight=False,
    )
    findings = []
    for name, costs in found.items():
        size, last = costs[-1]
        times = STEPS_OF_VALUES if name == "value" else 1
        power = fit_power([n for n, _ in costs], [cost["seconds"] for _, cost in costs])
        work = f"{name}: each of {size:,}, growing with power {power:.2f}"
        findings.append(Finding(work, 1e6 * last["seconds"] / (size * times), "µs", mb=last.get("mb")))
    work = f"a half hour of {ZONES:,} zones, on the last day beside the first"
    findings.append(Finding(work, week["late"], "s", week["late"] / week["early"], "first day", "flat", week["mb"]))
    return findings
