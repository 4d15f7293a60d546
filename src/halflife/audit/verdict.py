"""What an audit found, and running its black-box part within a time limit, in parallel."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any

import numpy as np

from halflife.audit.black_box import FAMILY_ERROR, Found, Pair, Path, attack, attack_scale
from halflife.audit.exact import worst_loss
from halflife.errors import InvalidInput
from halflife.notions.base import Notion
from halflife.numerics.arrays import Floats
from halflife.numerics.progress import Progress
from halflife.numerics.rounding import TOLERANCE
from halflife.release import Release

FIRST_RUNS = 4
"""How many runs are made to begin with, whatever they take: after them it is known how long a run takes."""
RUNNING = 0.93
"""The part of the time that runs may take; the rest is for looking at them."""
ROUND = 2.0
"""Seconds that a round of runs is made to last at the most, so that the time is looked at, and progress shown, often enough."""
MARGIN = 1e-6
"""By how much, relatively, a second derivation in plain doubles may differ from an exact one."""


@dataclass(frozen=True)
class Finding:
    """One thing that was tried: what was claimed, what was found, and whether that accuses the release path.

    found    exact: the loss itself; black box: a lower bound on it; nan where there is no number
    accused  what was found is more than was claimed
    """

    name: str
    how: str
    claimed: float
    found: float
    accused: bool
    detail: str
    seconds: float
    runs: int = 0


@dataclass(frozen=True)
class Verdict:
    """All findings of one audit. `family_error` is the probability that any accusation of its black-box part is false."""

    subject: str
    findings: tuple[Finding, ...]
    family_error: float = FAMILY_ERROR

    @property
    def good(self) -> bool:
        """Whether nothing was accused."""
        return not any(f.accused for f in self.findings)

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict as JSON can hold it; what is not finite becomes text."""
        rows = [
            {k: str(v) if isinstance(v, float) and not math.isfinite(v) else v for k, v in vars(f).items()}
            for f in self.findings
        ]
        return {"subject": self.subject, "good": self.good, "family_error": self.family_error, "findings": rows}


def audit_history(name: str, notion: Notion[Any], releases: Sequence[Release], promised: float) -> Finding:
    """Work out a history's worst loss again, and compare it with what is promised."""
    start = time.perf_counter()
    found = worst_loss(notion, releases)
    accused = not found <= promised * (1 + TOLERANCE + MARGIN)
    detail = f"worst loss of {len(releases):,} releases over the neighbours of {notion.name}, from its definition"
    return Finding(name, "exact", promised, found, accused, detail, time.perf_counter() - start)


def audit_paths(
    cases: Sequence[tuple[Pair, Path]],
    *,
    seconds: float = 60.0,
    runs: int = 20_000,
    chunk: int = 1_000,
    processes: int = 1,
    family_error: float = FAMILY_ERROR,
    progress: Progress = lambda what, done, total: None,
) -> list[Finding]:
    """Attack each path with its pair, sharing the time; every bound together is wrong with probability at most `family_error`.

    `seconds` is for all of it; what one pair does not need is left to those after it. Runs are made in rounds of a few, each
    process at most `chunk` at a time, until there are enough or the time is over; how many there are never depends on what
    they say. A few of each are made in any case.
    """
    if not cases:
        return []
    alpha, findings, end = family_error / len(cases), [], time.monotonic() + seconds
    with _workers(processes) as pool:
        for i, (pair, path) in enumerate(cases):
            start = time.monotonic()
            stop = start + (end - start) / (len(cases) - i) * RUNNING
            outputs = _outputs(path, runs, chunk, stop, pool, processes, pair.name, progress)
            found = list(_attacks(outputs, pair, alpha / 2))
            spent = time.monotonic() - start
            findings += [_finding(pair, how, one, spent) for how, one in found]
    return findings


def _attacks(outputs: tuple[Floats, Floats], pair: Pair, alpha: float) -> Iterator[tuple[str, Found]]:
    """Both attacks; the one on the noise's size needs finite outputs and a claimed scale."""
    yield "black box", attack(outputs, pair, alpha)
    if pair.sized and all(np.isfinite(o).all() for o in outputs):
        yield "noise size", attack_scale(outputs, pair, alpha)


def _finding(pair: Pair, how: str, found: Found, seconds: float) -> Finding:
    if how == "black box":
        detail = (
            f"{found.event}: {found.hits:,} of {found.runs:,} runs of one stream, {found.other_hits:,} of the other"
        )
    else:
        detail = f"{found.event}: {found.hits:,} of {found.runs:,} numbers"
    accused = found.epsilon > pair.claimed * (1 + TOLERANCE)
    return Finding(pair.name, how, pair.claimed, found.epsilon, accused, detail, seconds, found.runs)


def _outputs(
    path: Path,
    runs: int,
    chunk: int,
    stop: float,
    pool: Executor | None,
    processes: int,
    name: str,
    progress: Progress,
) -> tuple[Floats, Floats]:
    """Outputs of both streams, equally many of each: until there are enough, or it is time to stop."""
    found: tuple[list[Floats], list[Floats]] = ([], [])
    done, size = 0, min(FIRST_RUNS, runs)
    while done < runs and size > 0:
        start = time.monotonic()
        tasks = [(which, size) for _ in range(processes) for which in (0, 1)]
        made = list(pool.map(path, *zip(*tasks, strict=True))) if pool else [path(which, n) for which, n in tasks]
        for (which, n), outputs in zip(tasks, made, strict=True):
            if outputs.ndim != 2 or len(outputs) != n:
                raise InvalidInput(f"{name}: a path must give outputs of shape ({n}, numbers), not {outputs.shape}")
            found[which].append(outputs)
        done += size * processes
        progress(name, min(done, runs), runs)
        now = time.monotonic()
        each = max(now - start, 1e-6) / size
        size = min(2 * size, chunk, max(1, int(ROUND / each)), int((stop - now) / each), -(-(runs - done) // processes))
    return np.concatenate(found[0]), np.concatenate(found[1])


@contextmanager
def _workers(processes: int) -> Iterator[Executor | None]:
    """Processes that are started afresh, not forked: a fork would copy the noise sampler's state. None for a single one."""
    if processes <= 1:
        yield None
        return
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        yield pool
