"""Running the two streams of each pair within a time limit, in parallel, and attacking what comes out."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context

import numpy as np

from halflife.audit.black_box import Attack, Pair, Path, attack, attack_scale
from halflife.audit.verdict import FAMILY_ERROR, Finding
from halflife.errors import InvalidInput
from halflife.numerics.arrays import Floats
from halflife.numerics.progress import Progress
from halflife.numerics.rounding import TOLERANCE

FIRST_RUNS = 4
"""How many runs are made to begin with, whatever they take: after them it is known how long a run takes."""
RUNNING = 0.93
"""The part of the time that runs may take; the rest is for looking at them."""
ROUND = 2.0
"""Seconds that a round of runs is made to last at the most, so that the time is looked at, and progress shown, often enough."""


def audit_paths(
    cases: Sequence[tuple[Pair, Path]],
    *,
    seconds: float = 60.0,
    runs: int = 20_000,
    chunk: int = 1_000,
    processes: int = 1,
    progress: Progress = lambda what, done, total: None,
) -> list[Finding]:
    """Attack each path with its pair, sharing the time; every bound together is wrong with probability at most FAMILY_ERROR.

    `seconds` is for all of it; what one pair does not need is left to those after it. Runs are made in rounds of a few, each
    process at most `chunk` at a time, until there are enough or the time is over; how many there are never depends on what
    they say. A few of each are made in any case.
    """
    if not cases:
        return []
    alpha, findings, end = FAMILY_ERROR / len(cases), [], time.monotonic() + seconds
    with _workers(processes) as pool:
        for i, (pair, path) in enumerate(cases):
            start = time.monotonic()
            stop = start + (end - start) / (len(cases) - i) * RUNNING
            outputs = _run(path, runs, chunk, stop, pool, processes, pair.name, progress)
            found = list(_attacks(outputs, pair, alpha / 2))
            spent = time.monotonic() - start
            findings += [_finding(pair, how, one, spent) for how, one in found]
    return findings


def _attacks(outputs: tuple[Floats, Floats], pair: Pair, alpha: float) -> Iterator[tuple[str, Attack]]:
    """Both attacks; the one on the noise's size needs finite outputs and a claimed scale."""
    yield "black box", attack(outputs, pair, alpha)
    if pair.sized and all(np.isfinite(o).all() for o in outputs):
        yield "noise size", attack_scale(outputs, pair, alpha)


def _finding(pair: Pair, how: str, found: Attack, seconds: float) -> Finding:
    if how == "black box":
        detail = (
            f"{found.event}: {found.hits:,} of {found.runs:,} runs of one stream, {found.other_hits:,} of the other"
        )
    else:
        detail = f"{found.event}: {found.hits:,} of {found.runs:,} numbers"
    accused = found.epsilon > pair.claimed * (1 + TOLERANCE)
    return Finding(pair.name, how, pair.claimed, found.epsilon, accused, detail, seconds, found.runs)


def _run(
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
