"""A real cluster on loopback, a worker of which is killed in the middle of a job: the same numbers, published once."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import halflife as hl
from spark_cluster import LOCAL, Cluster, run_cluster

FILES, PEOPLE, STEPS = 16, 500, 48
DEFAULTS = """
spark.driver.host 127.0.0.1
spark.driver.bindAddress 127.0.0.1
spark.driver.memory 512m
spark.executor.memory 512m
spark.executor.extraJavaOptions -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
spark.driver.extraJavaOptions -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
spark.sql.files.maxPartitionBytes 100000
spark.sql.files.openCostInBytes 100000
spark.sql.shuffle.partitions 4
spark.ui.enabled false
"""
CHILD = """
import json, os, signal, sys
import halflife as hl
from halflife.engines.spark.engine import SparkEngine

policy, worker = json.loads(sys.argv[1]), int(sys.argv[2])
made, killed = SparkEngine.progress, []

def progress(engine):
    what, share = made(engine)
    if not killed and 0 < share < 1:
        killed.append(share)
        os.killpg(worker, signal.SIGKILL)
    return what, share

SparkEngine.progress = progress
summary = hl.publish(policy)
ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
print(json.dumps({"killed": killed, "published": summary.published, "interruptible": ours}))
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with run_cluster() as made:
        yield made


def write_readings(folder: Path) -> None:
    """Each person's half hours, several readings in some, in files that hold a bit of everybody; and what is no number."""
    draw = np.random.default_rng(3)
    start = np.datetime64("2026-01-01", "us")
    for i in range(FILES):
        person, step = np.meshgrid(np.arange(PEOPLE), np.arange(STEPS))
        minutes = step.ravel() * 30 + draw.integers(0, 30, step.size)
        kwh = np.where(draw.random(step.size) < 0.02, np.nan, draw.gamma(2.0, 0.3, step.size))
        columns = {
            "home": person.ravel(),
            "ts": start + minutes.astype("timedelta64[m]"),
            "kwh": kwh,
            "other": draw.random(step.size),
        }
        pq.write_table(pa.table(columns), folder / f"{i}.parquet")


def make_policy(folder: Path, name: str, **source: Any) -> dict[str, Any]:
    """A policy whose noise is nothing, so that outputs can be compared."""
    stream = {
        "name": "use",
        "source": {"time": "ts", "value": "kwh", "files": str(folder / "*.parquet"), **source},
        "statistic": {"kind": "sum", "unit": "kWh", "resolution": "1 Wh", "clip": ["0", "5 kWh"], "fold": "sum"},
        "output": str(folder / name / "use.csv"),
    }
    (folder / name).mkdir()
    return {
        "population": {"id": "town", "size": PEOPLE, "person": "home"},
        "promise": {"notion": "w-event", "epsilon": 1e6, "w": 1},
        "clock": {"step": "30 min", "start": "2026-01-01", "end": "2026-01-02"},
        "streams": [stream],
        "ledger": str(folder / name / "town.ledger"),
    }


def read_published(file: Path) -> list[tuple[str, int]]:
    """When each step begins, and its value in whole units: the noise is far below one."""
    rows = csv.DictReader(file.read_text().splitlines())
    return [(row["start"], round(float(row["value"]) * 1000)) for row in rows]


def test_a_worker_is_killed_in_the_middle_of_a_job(cluster: Cluster, tmp_path: Path) -> None:
    write_readings(tmp_path)
    policy = make_policy(tmp_path, "spark", engine="spark", master=cluster.master)
    (tmp_path / "spark-defaults.conf").write_text(DEFAULTS)
    environment = {**os.environ, **LOCAL, "SPARK_CONF_DIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    worker = cluster.processes[1]
    done = subprocess.run(
        [sys.executable, "-c", CHILD, json.dumps(policy), str(worker.pid)],
        env=environment, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["published"] == {"use": STEPS}
    assert len(found["killed"]) == 1
    assert found["interruptible"]
    assert worker.wait(30) < 0
    assert hl.verify(policy).problems == ()
    alone = make_policy(tmp_path, "duckdb")
    hl.publish(alone)
    ours, theirs = (read_published(tmp_path / name / "use.csv") for name in ("spark", "duckdb"))
    assert len(ours) == STEPS
    assert ours == theirs
