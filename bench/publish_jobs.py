"""The jobs that `bench.publish` times, each in a process of its own: python publish_jobs.py JOB DATA FOLDER

Imports come first and are not timed. Prints one JSON line: seconds, peak memory in MB, and how many numbers came out.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from pathlib import Path

POLICY = """
population: {{id: town, size: {people}, person: home}}
promise: {{notion: w-event, epsilon: 1, w: 1 day}}
clock: {{step: 30 min, start: 2025-01-01, end: {end}}}
streams:
  - name: mean
    source: {{files: "{data}", time: ts, value: kwh}}
    statistic: {{kind: mean, unit: kWh, resolution: 1 Wh, clip: [0, 5 kWh], fold: sum, duplicates: {duplicates}}}
    output: mean.csv
{groups}
"""
UNITS = "CAST(floor(kwh * 1000 + 0.5) AS BIGINT)"
STEP = "(epoch_us(ts) - 1735689600000000) // 1800000000"
RAW = f"SELECT {STEP} AS step, avg(kwh) FROM read_parquet('{{data}}') GROUP BY step"
BOUNDED = f"""
SELECT step, sum(v) FROM (
    SELECT home, {STEP} AS step, least(greatest(sum(least(greatest({UNITS}, 0), 5000)), 0), 5000) AS v
    FROM read_parquet('{{data}}') WHERE kwh IS NOT NULL AND NOT isnan(kwh) AND NOT isinf(kwh) AND home IS NOT NULL
    GROUP BY home, step)
GROUP BY step
"""


def duck(query: str):
    import duckdb

    db = duckdb.connect(config={"memory_limit": "1GB", "preserve_insertion_order": False})

    def run(data: str, folder: Path) -> int:
        return len(db.execute(query.format(data=data)).fetchall())

    return run


def halflife(duplicates: str = "each"):
    import duckdb  # noqa: F401  (imported before the clock starts)
    import opendp.measurements  # noqa: F401
    import pyarrow  # noqa: F401
    import ruamel.yaml.nodes  # noqa: F401

    import halflife as hl
    import halflife.engines.duckdb.engine
    import halflife.publisher

    def run(data: str, folder: Path) -> int:
        about = json.loads((folder / "about.json").read_text())
        text = POLICY.format(data=data, duplicates=duplicates, **about)
        (folder / "policy.yaml").write_text(text)
        return sum(hl.publish(hl.Policy.load(folder / "policy.yaml")).published.values())

    return run


def opendp_polars():
    import opendp.prelude as dp
    import polars as pl

    dp.enable_features("contrib")

    def run(data: str, folder: Path) -> int:
        steps = 17_520
        frame = (
            pl.scan_parquet(data)
            .with_columns(
                step=((pl.col("ts").dt.epoch("us") - 1735689600000000) // 1800000000).cast(pl.Int32),
                wh=(pl.col("kwh") * 1000 + 0.5).floor().fill_nan(0).fill_null(0).cast(pl.Int64),
            )
            .select("home", "step", "wh")
        )
        keys = pl.LazyFrame({"step": pl.arange(0, steps, eager=True).cast(pl.Int32)})
        context = dp.Context.compositor(
            data=frame,
            privacy_unit=dp.unit_of(contributions=1, identifier=pl.col("home")),
            privacy_loss=dp.loss_of(epsilon=float(steps) / 48),
            split_evenly_over=1,
            margins=[dp.polars.Margin(by=["step"], max_length=400, max_groups=steps)],
        )
        query = (
            context.query()
            .truncate_per_group(1, by=["step"])
            .group_by("step")
            .agg(pl.col("wh").fill_null(0).dp.sum((0, 5000)))
            .with_keys(keys)
        )
        return query.release().collect().height

    return run


def pipelinedp():
    import pandas as pd
    import pipeline_dp

    def run(data: str, folder: Path) -> int:
        frame = pd.read_parquet(data)
        us = frame["ts"].astype("datetime64[us]").astype("int64")
        steps = ((us - 1735689600000000) // 1800000000).tolist()
        rows = list(zip(frame["home"].tolist(), steps, frame["kwh"].tolist(), strict=True))
        budget = pipeline_dp.NaiveBudgetAccountant(total_epsilon=17_520 / 48, total_delta=1e-6)
        engine = pipeline_dp.DPEngine(budget, pipeline_dp.LocalBackend())
        extract = pipeline_dp.DataExtractors(
            privacy_id_extractor=lambda r: r[0], partition_extractor=lambda r: r[1], value_extractor=lambda r: r[2]
        )
        how = pipeline_dp.AggregateParams(
            metrics=[pipeline_dp.Metrics.SUM], max_partitions_contributed=17_520, max_contributions_per_partition=1,
            min_value=0, max_value=5,
        )  # fmt: skip
        result = engine.aggregate(rows, how, extract, public_partitions=list(range(17_520)))
        budget.compute_budgets()
        return len(list(result))

    return run


def tumult():
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as f
    from tmlt.analytics import AddRowsWithID, KeySet, MaxRowsPerID, PureDPBudget, QueryBuilder, Session

    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {"spark.driver.memory": "4g", "spark.sql.session.timeZone": "UTC", "spark.ui.enabled": "false"}
    spark = (
        SparkSession.builder.master("local[*]")
        .config(map=settings | {"spark.sql.shuffle.partitions": "8"})
        .getOrCreate()
    )
    spark.range(1).count()

    def run(data: str, folder: Path) -> int:
        steps, us = 17_520, f.unix_micros(f.col("ts").cast("timestamp"))
        frame = spark.read.parquet(data).select(
            "home",
            f.floor((us - 1735689600000000) / 1800000000).cast("bigint").alias("step"),
            f.floor(f.col("kwh") * 1000 + 0.5).cast("bigint").alias("wh"),
        )
        budget = PureDPBudget(steps // 48)
        session = Session.from_dataframe(budget, "readings", frame, protected_change=AddRowsWithID("home"))
        bounded = QueryBuilder("readings").enforce(MaxRowsPerID(steps))
        sums = bounded.groupby(KeySet.from_dict({"step": list(range(steps))})).sum("wh", low=0, high=5000)
        return session.evaluate(sums, budget).count()

    return run


JOBS = {
    "raw": lambda: duck(RAW),
    "by hand": lambda: duck(BOUNDED),
    "halflife": halflife,
    "halflife once": lambda: halflife("once"),
    "opendp": opendp_polars,
    "pipelinedp": pipelinedp,
    "tumult": tumult,
}


def peak_of_children() -> float:
    """Return the peak memory of the programs that this one has started and that still run, in MB: of a Java machine."""
    found = 0.0
    for task in Path("/proc/self/task").iterdir():
        for child in (task / "children").read_text().split():
            lines = Path(f"/proc/{child}/status").read_text().splitlines()
            found += sum(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:"))
    return found


def main() -> None:
    job = JOBS[sys.argv[1]]()
    start = time.perf_counter()
    count = job(sys.argv[2], Path(sys.argv[3]))
    seconds = time.perf_counter() - start
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 + peak_of_children()
    print(json.dumps({"seconds": seconds, "mb": memory, "numbers": count}))


if __name__ == "__main__":
    main()
