"""What a publisher that stays costs as time goes on: CPU and memory of a step, early and late in one process.

Each step has a file of its own, which arrives before the step is closed, so that the folder, the ledger and the output grow. The
clock is set on while the publisher sleeps; nothing else is simulated.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from bench.results import Finding

HOMES, STEP, START = 300, 60, 1_767_225_600
STEPS, TENTH = 300, 50


def make_policy(folder: Path) -> dict[str, Any]:
    """Return a policy of steps of a minute, of which each file holds one."""
    return {
        "population": {"id": "town", "size": HOMES, "person": "home"},
        "promise": {"notion": "w-event", "epsilon": 1, "w": "1 h"},
        "clock": {"step": "1 min", "start": "2026-01-01"},
        "streams": [
            {
                "name": "use",
                "source": {"files": str(folder / "in" / "*.csv"), "time": "time", "value": "wh"},
                "statistic": {
                    "kind": "mean",
                    "unit": "Wh",
                    "resolution": "1 Wh",
                    "clip": ["0", "100 Wh"],
                    "fold": "sum",
                },
                "output": str(folder / "use.csv"),
            }
        ],
        "ledger": str(folder / "town.ledger"),
    }


def write_step(folder: Path, step: int) -> None:
    """Write a step's readings, and rename the file, as a feed does."""
    draw = np.random.default_rng(step)
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(START + STEP * (step - 1) + 5))
    rows = "".join(f"h{home},{at},{wh}\n" for home, wh in enumerate(draw.integers(0, 100, HOMES)))
    made = folder / "in" / f".{step}"
    made.write_text("home,time,wh\n" + rows)
    made.rename(folder / "in" / f"{step:06}.csv")


def follow_steps(steps: int, folder: Path) -> list[tuple[float, float]]:
    """Follow so many steps; return after each how much CPU the process had used, in seconds, and its memory, in MB."""
    import halflife as hl

    (folder / "in").mkdir()
    now, seen = START + 0.5 * STEP, []

    def sleep(seconds: float) -> None:
        nonlocal now
        before = int((now - START) // STEP)
        now += STEP / 4
        if int((now - START) // STEP) > before:
            write_step(folder, before + 1)

    def note(policy: object, summary: object) -> None:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        seen.append((time.process_time(), pages * 4096 / 1e6))

    hl.follow(
        make_policy(folder), told=note, clock=lambda: now, sleep=sleep, stop=lambda: now > START + (steps + 0.5) * STEP
    )
    return seen


def measure(steps: int = STEPS) -> list[tuple[float, float]]:
    """Follow in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-m", "bench.follow", str(steps), folder], check=True, stdout=subprocess.PIPE, text=True
        )
    return [tuple(pair) for pair in json.loads(done.stdout)]


def main() -> list[Finding]:
    seen = np.array(measure())
    early = (seen[2 * TENTH, 0] - seen[TENTH, 0]) / TENTH  # the first hundreds fill caches
    late = (seen[-1, 0] - seen[-1 - TENTH, 0]) / TENTH
    grown = seen[-1, 1] / seen[TENTH, 1]
    return [
        Finding(f"a step after {STEPS:,}, folder of files", 1000 * late, "ms", late / early, f"a step after {TENTH}"),
        Finding(f"memory after {STEPS:,} steps", seen[-1, 1], "MB", grown, f"after {TENTH}", mb=seen[-1, 1]),
    ]


if __name__ == "__main__":
    print(json.dumps(follow_steps(int(sys.argv[1]), Path(sys.argv[2]))))
