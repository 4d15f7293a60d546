"""Random damage to ledgers, outputs, locks and readings: refused, or nothing lost and no promise broken."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from itertools import chain
from typing import Any

import pytest

from attacks.damage.worlds import a_place

PATIENCE = 40
"""Seconds without a word after which a process counts as dead: cases end by themselves long before."""
BEGINNING = 300
"""Seconds that it may take to build the worlds, on a busy machine."""


def play(seed: int, first: int, last: int) -> Iterator[dict[str, Any]]:
    """Play cases first … last − 1 of a seed's worlds in a process of their own; one that kills it is accused too."""
    begun = first
    while begun < last:
        with a_place() as folder:
            process = subprocess.Popen(
                [sys.executable, "-m", "attacks.damage", *map(str, (seed, begun, last, folder))],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
            )  # fmt: skip
            begun = yield from _listen(process, seed, begun, last)


def _listen(process: subprocess.Popen[str], seed: int, begun: int, last: int) -> Iterator[dict[str, Any]]:
    """Pass on what a process tells; return the number of the next case."""
    lines: queue.Queue[str] = queue.Queue()
    assert process.stdout is not None
    assert process.stderr is not None
    threading.Thread(target=lambda: [lines.put(line) for line in chain(process.stdout, [""])], daemon=True).start()
    open_case, line = None, "-"
    try:
        while line:
            line = lines.get(timeout=BEGINNING if line == "-" else PATIENCE)
            told = json.loads(line) if line.strip() else {}
            open_case = told.get("begin", None if "case" in told else open_case)
            if "case" in told:
                begun = told["case"][1] + 1
                yield told
        why = f"ended with {process.wait()}: {process.stderr.read()[-1500:]}"
    except queue.Empty:
        why = f"said nothing for {PATIENCE} s"
    finally:
        process.kill()
        process.wait()
    if begun >= last:
        return last
    if open_case is None:
        raise RuntimeError(f"the process that plays cases {why}")
    yield {"case": [seed, open_case], "story": "", "accusations": [f"died: the process {why}"]}
    return open_case + 1


def in_words(told: dict[str, Any]) -> str:
    """A case as it is reported, with how to play it again."""
    seed, number = told["case"]
    again = f"PYTHONPATH=src:tests python -m attacks.damage {seed} {number} {number + 1}"
    return "\n  ".join([told["story"], *told["accusations"], again])


def test_damage_is_refused_or_loses_nothing():
    played = [*play(4, 0, 40)]
    assert len(played) == 40
    wrong = [in_words(told) for told in played if told["accusations"]]
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.soak
def test_damage_without_end_is_refused_or_loses_nothing(time_left):
    count, seed, wrong, begun = 0, 100, [], time.monotonic()
    while time_left():
        for told in play(seed, 0, 250):
            count += 1
            if told["accusations"]:
                wrong.append(in_words(told))
            if not time_left():
                break
        seed += 1
    print(f"{count} cases in {time.monotonic() - begun:.0f} s, {len(wrong)} of them wrong")
    assert not wrong, "\n\n".join(wrong[:40])
