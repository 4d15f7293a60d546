"""Every mechanism on every open stream, with fixed seeds: one table, as Markdown and JSON, for others to compare with.

    python -m bench streams [--out=DIR]          # default: build/streams; docs/streams.md and .json come from --out=docs

Streams whose data is not in $HALFLIFE_DATA or ../shared/data are generated, and named so.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

import halflife as hl
from bench.results import Finding
from halflife.lab.compare.streams import CATALOGUE, OPEN, read_stream
from halflife.lab.compare.tables import markdown_table, show

SEED, REPETITIONS, EPSILON, WINDOWS = 1, 20, 1.0, (20, 120)
MECHANISMS = ("uniform", "sample", "bd", "ba", "fast", "pegasus", "rescue-dp", "uniform+moving-average=6")
KEPT = (
    "mechanism", "promise", "repetitions", "mae", "mae_se", "expected_mae", "mae_median", "rmse", "rmse_over_max", "mre", "mre1",
    "coverage", "epsilon_own", "epsilon_classical", "epsilon_w_event",
)  # fmt: skip
HEADS = (
    "mechanism",
    "MAE",
    "± s.e.",
    "closed form",
    "median",
    "RMSE",
    "MRE",
    "mre1",
    "own ε",
    "classical ε",
    "w-event ε",
)
COLUMNS = (
    "mae", "mae_se", "expected_mae", "mae_median", "rmse", "mre", "mre1", "epsilon_own", "epsilon_classical", "epsilon_w_event",
)  # fmt: skip


def run(
    streams: Sequence[str] = OPEN, windows: Sequence[int] = WINDOWS, repetitions: int = REPETITIONS, jobs: int = 1
) -> dict[str, Any]:
    """Return all rows, by stream and window, and what is needed to get them again."""
    parts = []
    for name in streams:
        stream = read_stream(name, seed=SEED)
        for w in windows:
            began = time.perf_counter()
            found = hl.compare(
                MECHANISMS, stream, notions=[f"exponential,half_life={w}"], w=w, epsilon=EPSILON, repetitions=repetitions,
                seed=SEED, jobs=jobs,
            )  # fmt: skip
            print(f"{name}, w = {w}: {time.perf_counter() - began:.1f} s", file=sys.stderr)
            rows = [{key: row[key] for key in KEPT} for row in json.loads(found.to_json())["rows"]]
            parts.append({"stream": name, "real": stream.real, "steps": len(stream.values), "w": w, "rows": rows})
    return {
        "version": hl.__version__, "seed": SEED, "repetitions": repetitions, "epsilon": EPSILON, "parts": parts,
    }  # fmt: skip


def render(found: dict[str, Any]) -> str:
    """Return the page: what was run, and a table for each stream and window."""
    made = [part["stream"] for part in found["parts"] if not part["real"]]
    warning = f"\n**Generated, as the data was not there: {', '.join(dict.fromkeys(made))}.**\n" if made else ""
    text, before = INTRODUCTION.format(warning=warning, **found), ""
    for part in found["parts"]:
        source, sensitivity, about = CATALOGUE[part["stream"]]
        if part["stream"] != before:
            text += f"\n## {source.title}\n\n"
            unit = f" {source.unit}" if source.unit else ""
            text += f"`--series {part['stream']}`, {part['steps']:,} steps. Δ = {sensitivity:g}{unit}. {about}\n"
        before = part["stream"]
        lines = [(row["mechanism"], *(_cell(row[key]) for key in COLUMNS)) for row in part["rows"]]
        text += f"\nw = {part['w']}:\n\n{markdown_table(HEADS, lines)}\n"
    return text


def _cell(value: float | str | None) -> str:
    return "∞" if value == "inf" else show(value)  # type: ignore[arg-type]


INTRODUCTION = """# Mechanisms on open streams

Every mechanism that halflife has for values, on every open stream at hand, with fixed seeds: a table to compare a new mechanism
with. It is made by `python -m bench streams --out=docs`, and [streams.json](streams.json) has the same rows, to more figures.
Any row can be had again by `halflife compare`, for instance

```
halflife compare --series flu --w 20 --epsilon {epsilon:g} --repetitions {repetitions} --seed {seed} --mechanism ba --json
```

What the columns are, and what the streams leave out, is in [Comparing mechanisms](compare.md). All rows promise ε = {epsilon:g}:
w-event mechanisms in any w steps, the last row a discounted sum of half-life w, which hides something else: look at its column
of w-event ε before its errors. {repetitions} repetitions each; heavy tails show where the median is far below the mean. The data
is described in each source's own terms; nothing is imputed.
{warning}"""


def main() -> list[Finding]:
    out = next((Path(a.removeprefix("--out=")) for a in sys.argv if a.startswith("--out=")), Path("build/streams"))
    began = time.perf_counter()
    found = run(jobs=len(os.sched_getaffinity(0)))
    seconds = time.perf_counter() - began
    out.mkdir(parents=True, exist_ok=True)
    (out / "streams.json").write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    (out / "streams.md").write_text(render(found), encoding="utf-8")
    rows = sum(len(part["rows"]) for part in found["parts"])
    Console().print(f"{rows} rows: {out}/streams.md, {out}/streams.json")
    return [Finding(f"{rows} rows of mechanisms on open streams, {REPETITIONS} repetitions each", seconds, "s")]
