"""Half-hourly readings through a Spark cluster on loopback, beside the embedded engine, in one run.

A master and two workers of one core each add up what DuckDB adds up on as many threads: the same question, the same Parquet file,
the same whole numbers. Each is asked three times by a process of its own. The first answer of a cluster has the start of its
executors in it, and Java that is not compiled yet; the best one is shown beside the best of DuckDB.

5 million readings, 100 million with `--large`, or as many as `--readings=N` says. Without Java nothing is measured.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console

from bench.publish import write_town
from bench.results import Finding

READINGS, LARGE, YEAR = 5_000_000, 100_000_000, 17_520
TESTS = Path(__file__).resolve().parents[1] / "tests"
TIMES = 3
DEFAULTS = """
spark.driver.host 127.0.0.1
spark.driver.bindAddress 127.0.0.1
spark.driver.memory 1g
spark.executor.memory 2g
spark.ui.enabled false
"""


def measure(data: str, engine: str, master: str) -> None:
    """Ask one engine a few times, and print what it took to open it, each answer's seconds, and a sum of all totals."""
    from halflife.engines import Question, open_source
    from halflife.steps import Buckets

    question = Question(
        "sum", "home", "ts", Buckets(1_800_000_000, ((-(2**62), -1_735_689_600_000_000),)), 1, YEAR, value="kwh",
        multiply=1000, low=0, high=5000, fold="sum",
    )  # fmt: skip
    began = time.perf_counter()
    source = open_source([f"file://{data}"], engine="spark", master=master) if engine == "spark" else open_source(data)
    found = {"opened": time.perf_counter() - began, "seconds": [], "total": 0}
    for _ in range(TIMES):
        began = time.perf_counter()
        answer = source.aggregate(question)
        found["seconds"].append(time.perf_counter() - began)
        found["total"] = int((answer.sums.ravel() % 1_000_003 * range(1, YEAR + 1)).sum())
    source.close()
    print(json.dumps(found))


def run(data: Path, engine: str, master: str, folder: Path) -> dict[str, float | list[float]]:
    call = f"from bench.cluster import measure; measure({str(data)!r}, {engine!r}, {master!r})"
    environment = {**os.environ, "SPARK_CONF_DIR": str(folder), "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run([sys.executable, "-c", call], env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])  # type: ignore[no-any-return]


def main() -> list[Finding]:
    console = Console(width=150)
    if shutil.which("java") is None:
        console.print("cluster: Java is not installed, so nothing was measured")
        return []
    sys.path.append(str(TESTS))
    from spark_cluster import run_cluster

    given = [int(a.removeprefix("--readings=")) for a in sys.argv if a.startswith("--readings=")]
    homes = max(1, round((given[0] if given else LARGE if "--large" in sys.argv else READINGS) / YEAR))
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        rows = write_town(folder / "town.parquet", homes, 365)
        (folder / "spark-defaults.conf").write_text(DEFAULTS)
        alone = run(folder / "town.parquet", "duckdb", "", folder)
        with run_cluster("2g") as cluster:
            spark = run(folder / "town.parquet", "spark", cluster.master, folder)
    assert spark["total"] == alone["total"]
    ours, theirs = min(spark["seconds"]), min(alone["seconds"])  # type: ignore[arg-type, type-var]
    console.print(
        f"{rows:,} readings, seconds of each answer: Spark {_say(spark['seconds'])}, its session {spark['opened']:.1f} before; "
        f"DuckDB {_say(alone['seconds'])}",
        highlight=False,
    )
    work = f"{rows:,} readings by two workers on loopback"
    first = spark["seconds"][0]  # type: ignore[index]
    return [
        Finding(f"{work}, the best of {TIMES}", ours, "s", ours / theirs, "DuckDB on this machine"),
        Finding(f"{work}, the first", first, "s", first / theirs, "DuckDB on this machine"),
    ]


def _say(seconds: object) -> str:
    assert isinstance(seconds, list)
    return ", ".join(f"{s:.2f}" for s in seconds)
