"""Break the source on purpose, one line at a time, and see that the tests of that room notice.

    PYTHONPATH=tests python -m breaks [--jobs N] [WORD ...]      # all breaks, or those whose file or note holds a word

Each break is made in a copy of the source; the tests of its room run against the copy and must fail. A break whose text is no
longer in the file is an error too: it has to follow the code. Prints one line for each, and ends with status 1 if one was missed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from breaks.table import BREAKS, Break

ROOT = Path(__file__).resolve().parents[2]


def try_break(b: Break) -> tuple[str, float, str]:
    """Return what came of a break (caught, MISSED or GONE), the seconds it took, and the first test that failed."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="halflife-break-") as folder:
        copy = Path(folder) / "src"
        shutil.copytree(ROOT / "src", copy)
        file = copy / "halflife" / b.file
        text = file.read_text() if file.exists() else ""
        if text.count(b.old) != 1:
            return "GONE", 0.0, f"{text.count(b.old)} places hold {b.old!r}"
        file.write_text(text.replace(b.old, b.new))
        tests = [
            str(copy.parent / test) if test.startswith("src/") else test for test in b.tests
        ]  # doctests of the copy
        options = ["-c", "pyproject.toml", "-x", "-q", "-p", "no:cacheprovider"]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *options, *tests],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(copy), "HYPOTHESIS_PROFILE": "breaks"},
            capture_output=True,
            text=True,
            check=False,
        )
    failed = next((line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))), "")
    seconds = time.monotonic() - began
    return ("caught" if done.returncode in (1, 2) and failed else "MISSED"), seconds, failed.split(" - ")[0]


def main() -> int:
    """Try the breaks that were asked for, and print the table."""
    parser = argparse.ArgumentParser(description="Break the source on purpose and see that tests notice.")
    parser.add_argument("words", nargs="*", help="only breaks whose file or note holds one of these")
    parser.add_argument("--jobs", type=int, default=1, help="how many to try at once")
    asked = parser.parse_args()
    chosen = [b for b in BREAKS if not asked.words or any(w in b.file or w in b.note for w in asked.words)]
    bad = 0
    with ThreadPoolExecutor(asked.jobs) as pool:
        for b, (verdict, seconds, test) in zip(chosen, pool.map(try_break, chosen), strict=True):
            bad += verdict != "caught"
            print(f"{verdict:6}  {seconds:5.0f} s  {b.file}: {b.note}  [{test}]", flush=True)
    print(f"{len(chosen) - bad} of {len(chosen)} breaks were caught")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
