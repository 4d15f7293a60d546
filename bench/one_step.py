"""`halflife publish` with one step due, into ledgers of more and more releases, against Python with the same imports alone.

start    CPU of the command, times that of a Python which imports the same modules and ends
flat     CPU of the command with many releases, times that with the fewest
"""

from __future__ import annotations

import datetime as dt
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.results import Finding

SIZES, LARGE = (1_000, 10_000, 100_000), (1_000_000, 10_000_000)
"""Releases in the ledger; the larger ones with `--large` alone, as ten million take some minutes to publish."""
STEP, BEGIN = 60, 946_684_800
"""Seconds of a step; and when the first one begins, in seconds since 1970."""
TIMES = 3
"""How often each command is run; the quickest counts."""
RUN = "import sys; from halflife.cli import main; sys.argv[0] = 'halflife'; main()"
LIST = (
    "import atexit, json, sys; from halflife.cli import main; sys.argv[0] = 'halflife';"
    "atexit.register(lambda: print(json.dumps([*sys.modules]), file=open('modules.json', 'w'))); main()"
)
IMPORT = """
import contextlib, importlib, json
for name in json.load(open("modules.json")):
    with contextlib.suppress(Exception):  # modules under names that others gave them
        importlib.import_module(name)
"""


def write_policy(folder: Path, size: int) -> Path:
    """Write a policy that ends with step `size` + 1, and the readings of that step."""

    def show(step: int, seconds: int = 0) -> str:
        return f"{dt.datetime.fromtimestamp(BEGIN + STEP * (step - 1) + seconds, dt.UTC):%Y-%m-%dT%H:%M:%S}"

    (folder / "policy.yaml").write_text(f"""
population: {{id: town, size: 100, person: home}}
promise: {{notion: exponential, epsilon: 1, half_life: 1 day}}
clock: {{step: 1 min, start: "{show(1)}", end: "{show(size + 2)}", late: as-planned}}
streams:
  - name: use
    source: {{files: readings.csv, time: time, value: kwh}}
    statistic: {{kind: sum, unit: kWh, resolution: 1 Wh, clip: [0, 10 kWh], fold: sum}}
    output: use.csv
ledger: town.ledger
""")
    at = show(size + 1, 30) + "Z"
    (folder / "readings.csv").write_text("home,time,kwh\n" + "".join(f"h{home},{at},1.5\n" for home in range(100)))
    return folder / "policy.yaml"


def fill(policy: Path, size: int) -> None:
    """Publish so many steps, of nothing, as a program that pushes would."""
    import numpy as np

    import halflife as hl
    from halflife.publisher.session import Session

    session = Session(hl.Policy.load(policy))
    with session.hold(1.0):
        (channel,) = session.channels
        for first in range(1, size + 1, 10_000):
            last = min(first + 9_999, size)
            session.publish([(session.due(channel, first, last), np.zeros((last - first + 1, 1), dtype=np.int64))])
    session.close()


def run(code: str, folder: Path, *arguments: str) -> float:
    """Run a Python; return its CPU seconds, which others on the machine do not change much."""
    began = sum(os.times()[2:4])
    environ = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}  # what was compiled is kept: that is measured nowhere
    subprocess.run([sys.executable, "-c", code, *arguments], cwd=folder, check=True, capture_output=True, env=environ)
    return sum(os.times()[2:4]) - began


def measure(size: int) -> tuple[float, float]:
    """Return the seconds of a publish with one step due, and of the imports alone, each the quickest of some, in turn."""
    published, imported = [], []
    with tempfile.TemporaryDirectory() as made:
        filled = Path(made) / "filled"
        filled.mkdir()
        fill(write_policy(filled, size), size)
        for k in range(TIMES + 1):
            folder = Path(made) / f"copy-{k}"
            shutil.copytree(filled, folder)
            if not k:
                run(LIST, folder, "publish", "policy.yaml")
                shutil.copy(folder / "modules.json", filled)
            else:
                published.append(run(RUN, folder, "publish", "policy.yaml"))
                imported.append(run(IMPORT, folder))
            shutil.rmtree(folder)
    return min(published), min(imported)


def main() -> list[Finding]:
    findings, first = [], 0.0
    for size in SIZES + (LARGE if "--large" in sys.argv else ()):
        published, imported = measure(size)
        first = first or published
        work = f"publish with one step due after {size:,} releases"
        findings += [
            Finding(work, published, "s CPU", published / imported, "Python with the same imports", "≤ 1.3"),
            Finding(work, published, "s CPU", published / first, f"after {SIZES[0]:,}", "flat"),
        ]
    return findings


if __name__ == "__main__":
    for found in main():
        print(found)
