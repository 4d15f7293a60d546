"""A year of half hours from readings to private means, beside the same work without privacy and beside other libraries.

Every job runs in a process of its own, imports not timed; each is run three times in turn and the best is shown. `--large` adds
100 million readings. Other libraries run where `make peers` has installed them.
"""

from __future__ import annotations

import datetime
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import halflife as hl
from bench.results import Finding

JOBS = Path(__file__).with_name("publish_jobs.py")
PEERS = {name: Path(f".peers/{name}/bin/python") for name in ("opendp", "pipelinedp", "tumult")}
START = np.datetime64("2025-01-01", "us")


def write_town(path: Path, homes: int, days: int, seed: int = 1) -> int:
    """Write a Parquet file of half-hourly readings, home after home; return how many there are."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    draw = np.random.default_rng(seed)
    times = pa.array(START + np.arange(48 * days) * np.timedelta64(30, "m"))
    with pq.ParquetWriter(path, pa.schema([("home", pa.string()), ("ts", times.type), ("kwh", pa.float64())])) as out:
        for home in range(homes):
            kwh = np.round(draw.gamma(1.2, 0.18, len(times)), 3)
            name = pa.DictionaryArray.from_arrays(pa.array(np.zeros(len(times), dtype=np.int8)), [f"MAC{home:06d}"])
            out.write_table(pa.table({"home": name.cast(pa.string()), "ts": times, "kwh": kwh}))
    return homes * 48 * days


def run(job: str, data: Path, folder: Path, python: str | Path = sys.executable) -> dict[str, float] | None:
    """Run a job once in a fresh folder; None if it failed."""
    with tempfile.TemporaryDirectory(dir=folder) as place:
        shutil.copy(folder / "about.json", place)
        command = [
            str(python),
            "-P",
            str(JOBS),
            job,
            str(data),
            place,
        ]  # -P: else `import secrets` would find bench/secrets.py
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"{job} failed: {done.stderr.strip().splitlines()[-1][:200]}", file=sys.stderr)
        return None
    return json.loads(done.stdout.splitlines()[-1])


def about(folder: Path, people: int, days: int, groups: str = "") -> None:
    end = datetime.date(2025, 1, 1) + datetime.timedelta(days=days)
    (folder / "about.json").write_text(json.dumps({"people": people, "end": end.isoformat(), "groups": groups}))


def a_year(folder: Path) -> list[Finding]:
    """5.26 million readings: end to end, beside the bounded aggregation by hand."""
    data = folder / "year.parquet"
    rows = write_town(data, 300, 365)
    about(folder, 300, 365)
    names = {
        "by hand": "bounded aggregation by hand (DuckDB SQL)",
        "raw": "raw group-by (DuckDB, unbounded, no privacy)",
        "halflife": "halflife publish, end to end",
        "halflife once": "halflife publish, duplicates once",
    }
    best: dict[str, dict[str, float]] = {}
    for _ in range(3):
        for job in names:
            got = run(job, data, folder)
            if got and (job not in best or got["seconds"] < best[job]["seconds"]):
                best[job] = got
    for job, python in PEERS.items():
        if not python.exists():
            print(f"{job}: not installed here (make peers)", file=sys.stderr)
        elif got := run(job, data, folder, python.absolute()):
            best[job] = got
    names |= {"opendp": "OpenDP with Polars, bounded by home", "pipelinedp": "PipelineDP, local backend"}
    names |= {"tumult": "Tumult Analytics on Spark, one process"}
    found = []
    for job, got in best.items():
        ratio, goal = got["seconds"] / best["by hand"]["seconds"], "1.5, 600 MB" if "halflife" in job else ""
        work = f"{rows:,} readings: {names[job]}"
        found.append(Finding(work, got["seconds"], "s", ratio, "by hand", goal, got["mb"]))
    return found


def many_groups(folder: Path) -> list[Finding]:
    """1,000 groups that a public table fixes."""
    data = folder / "groups.parquet"
    rows = write_town(data, 3_000, 14)
    (folder / "homes.csv").write_text("home,zone\n" + "".join(f"MAC{h:06d},zone {h % 1000}\n" for h in range(3_000)))
    groups = f"    groups: {{table: {{file: {folder / 'homes.csv'}, person: home, group: zone}}}}"
    about(folder, 3_000, 14)
    one = run("halflife", data, folder)
    about(folder, 3_000, 14, groups)
    many = run("halflife", data, folder)
    if not one or not many:
        return []
    work = f"{rows:,} readings, {14 * 48} half hours"
    return [
        Finding(f"{work}: one mean", one["seconds"], "s", mb=one["mb"]),
        Finding(
            f"{work}: 1,000 groups",
            many["seconds"],
            "s",
            many["seconds"] / one["seconds"],
            "one mean",
            "6 s",
            many["mb"],
        ),
    ]


def flat(folder: Path, largest: int = 1_000_000) -> list[Finding]:
    """What one more release costs with so many releases in the ledger."""
    from halflife.publisher.session import Session

    policy = hl.Policy.parse(
        "population: {id: a, size: 100, person: id}\npromise: {notion: exponential, epsilon: 1, half_life: 1 day}\n"
        "clock: {step: 1 min, start: 2020-01-01, late: as-planned}\nstreams:\n  - name: s\n    output: s.csv\n"
        "    statistic: {kind: sum, resolution: 1, clip: [0, 10], fold: sum}\nledger: flat.ledger",
        folder,
    )
    found, done, first_each = [], 0, 0.0
    for size in (1_000, 10_000, 100_000, largest):
        session = Session(policy)
        with session.hold(1.0):
            (channel,) = session.channels
            for first in range(done + 1, size + 1, 10_000):
                last = min(first + 9_999, size)
                session.publish([(session.due(channel, first, last), np.zeros((last - first + 1, 1), dtype=np.int64))])
        session.close()
        with hl.Stream(policy) as stream:
            stream.publish(0.0, at=size + 1)
            start = time.perf_counter()
            for step in range(size + 2, size + 202):
                stream.publish(0.0, at=step)
            each = (time.perf_counter() - start) / 200
        done, first_each = size + 201, first_each or each
        work = f"one more release, pushed into a ledger that holds {size:,}"
        found.append(Finding(work, 1000 * each, "ms", each / first_each, "1,000 releases", "flat"))
    start = time.perf_counter()
    verdict = hl.verify(policy.ledger_url, {"s": str(policy.path("s.csv"))}, policy=policy)
    assert verdict.good
    work = f"verify of {done:,} releases and their output, {Path(policy.ledger_url).stat().st_size / 1e6:,.0f} MB"
    return [*found, Finding(work, time.perf_counter() - start, "s")]


def large(folder: Path) -> list[Finding]:
    """100 million readings within 2 GB."""
    data = folder / "large.parquet"
    rows = write_town(data, 5_708, 365)
    about(folder, 5_708, 365)
    hand, ours = run("by hand", data, folder), run("halflife", data, folder)
    if not hand or not ours:
        return []
    ratio = ours["seconds"] / hand["seconds"]
    return [
        Finding(f"{rows:,} readings: by hand", hand["seconds"], "s", mb=hand["mb"]),
        Finding(f"{rows:,} readings: halflife publish", ours["seconds"], "s", ratio, "by hand", "2,000 MB", ours["mb"]),
    ]


def main() -> list[Finding]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        parts = [a_year, many_groups, flat, *([large] if "--large" in sys.argv else [])]
        return [finding for part in parts for finding in part(folder)]
