"""What measurements find, in one form: a table for people and JSON for programs, with the machine and the versions.

A finding is one piece of work beside another in the same run: `ratio` says how many times as much time ours took. Seconds alone
say little on a machine that others use; ratios of one run say more.
"""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from rich.console import Console
from rich.table import Table

VERSIONS = ("halflife", "opendp", "duckdb", "narwhals", "numpy", "pyarrow", "polars", "pandas", "pyspark", "psycopg")


@dataclass(frozen=True)
class Finding:
    """One piece of work, measured.

    work         what was done;  value, unit  how much that took
    ratio        how many times as much as `beside`, which was measured in the same run, or None
    goal         the largest ratio, or value, that is asked for; empty if none is
    mb           peak memory in MB, of the process that did the work
    """

    work: str
    value: float
    unit: str
    ratio: float | None = None
    beside: str = ""
    goal: str = ""
    mb: float | None = None


Found = dict[str, Sequence[Finding]]
"""What was found, by the name of the measurement."""


def describe_machine() -> dict[str, object]:
    """Return what the measurements ran on: processor, cores, memory, load, system and the versions of what was used."""
    versions = {}
    for name in VERSIONS:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return {
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "processor": _find_processor(),
        "cores": len(os.sched_getaffinity(0)),
        "load": round(os.getloadavg()[0], 2),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": platform.system(),
        "python": platform.python_version(),
        "versions": versions,
    }


def _find_processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def tabulate(found: Found) -> Table:
    """Return one table of all findings.

    >>> tabulate({"noise": [Finding("a value", 12.5, "µs", 500.0, "NumPy")]}).row_count
    1
    """
    table = Table(title="What was measured, side by side in one run", title_justify="left")
    for name in ("measure", "work", "", "times", "beside", "goal", "peak MB"):
        table.add_column(name, justify="right" if name in ("", "times", "peak MB") else "left", overflow="fold")
    for measure, findings in found.items():
        for i, f in enumerate(findings):
            ratio = "" if f.ratio is None else f"{f.ratio:,.2f}"
            memory = "" if f.mb is None else f"{f.mb:,.0f}"
            table.add_row(
                "" if i else measure, f.work, f"{_round(f.value)} {f.unit}", ratio, f.beside, f.goal, memory,
                end_section=i == len(findings) - 1,
            )  # fmt: skip
    return table


def _round(value: float) -> str:
    """Three figures, and whole numbers in full.

    >>> _round(12345.6), _round(0.012345), _round(3.14159)
    ('12,346', '0.0123', '3.14')
    """
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def show(found: Found, path: Path) -> None:
    """Print the machine and the table, and write both as JSON."""
    machine, console = describe_machine(), Console(width=150)
    versions = ", ".join(f"{name} {number}" for name, number in machine["versions"].items())  # type: ignore[attr-defined]
    about = f"{machine['processor']}, {machine['cores']} cores, {machine['memory_gb']} GB, load {machine['load']}"
    console.print(f"{about}, {machine['system']}, Python {machine['python']}; {versions}", highlight=False)
    console.print(tabulate(found))
    rows = [{"measure": measure, **asdict(f)} for measure, findings in found.items() for f in findings]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        json.dumps({"machine": machine, "found": rows}, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    console.print(f"written to {path}", highlight=False)
