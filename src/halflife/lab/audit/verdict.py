"""What an audit found, and running its black-box part within a time limit, in parallel."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any

import numpy as np

from halflife.errors import InvalidInput
from halflife.lab.audit.black_box import FAMILY_ERROR, Floats, Found, Pair, Path, attack, attack_scale
from halflife.lab.audit.exact import worst_loss
from halflife.notions.base import Notion
from halflife.numerics import TOLERANCE
from halflife.release import Release

Progress = Callable[[str, int, int], None]
FEWEST_RUNS = 400
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

    Runs are made in chunks until there are enough, or the time is over; how many there are never depends on what they say.
    """
    if not cases:
        return []
    alpha, findings = family_error / len(cases), []
    with _workers(processes) as pool:
        for i, (pair, path) in enumerate(cases):
            start = time.perf_counter()
            outputs = _outputs(path, runs, chunk, seconds / len(cases), pool, processes, pair.name, progress)
            spent = time.perf_counter() - start
            findings += [_finding(pair, how, found, spent) for how, found in _attacks(outputs, pair, alpha / 2)]
            progress(pair.name, i + 1, len(cases))
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
    seconds: float,
    pool: Executor | None,
    processes: int,
    name: str,
    progress: Progress,
) -> tuple[Floats, Floats]:
    """Outputs of both streams, equally many of each: until there are enough, or the time is over."""
    end = time.monotonic() + seconds
    found: tuple[list[Floats], list[Floats]] = ([], [])
    done = 0
    while done < runs and (done < FEWEST_RUNS or time.monotonic() < end):
        size = min(chunk, runs - done)
        tasks = [(which, size) for _ in range(processes) for which in (0, 1)]
        made = list(pool.map(path, *zip(*tasks, strict=True))) if pool else [path(which, n) for which, n in tasks]
        for (which, n), outputs in zip(tasks, made, strict=True):
            if outputs.ndim != 2 or len(outputs) != n:
                raise InvalidInput(f"{name}: a path must give outputs of shape ({n}, numbers), not {outputs.shape}")
            found[which].append(outputs)
        done += size * processes
        progress(name, min(done, runs), runs)
    return np.concatenate(found[0]), np.concatenate(found[1])


@contextmanager
def _workers(processes: int) -> Iterator[Executor | None]:
    """Processes that are started afresh, not forked: a fork would copy the noise sampler's state. None for a single one."""
    if processes <= 1:
        yield None
        return
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        yield pool
