"""Run every measurement, print its tables, and one table of all at the end: python -m bench [name …] [--large]

The table is written as JSON too, to build/bench.json, with the machine and the versions.
"""

from __future__ import annotations

import importlib
import sys
import time
from pathlib import Path

from bench.results import Found, show

NAMES = (
    "accounts",
    "cluster",
    "estimates",
    "follow",
    "noise",
    "one_step",
    "plans",
    "publish",
    "scale",
    "secrets",
    "streams",
)


def main() -> None:
    names = [a for a in sys.argv[1:] if not a.startswith("-")]
    if unknown := sorted(set(names) - set(NAMES)):
        sys.exit(f"unknown measurement {unknown[0]!r}: one of {', '.join(NAMES)}")
    found: Found = {}
    for name in names or NAMES:
        began = time.perf_counter()
        found[name] = importlib.import_module(f"bench.{name}").main()
        print(f"{name}: {time.perf_counter() - began:.0f} s", file=sys.stderr)
    show(found, Path("build/bench.json"))


if __name__ == "__main__":
    main()
