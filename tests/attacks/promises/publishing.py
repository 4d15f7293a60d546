"""The real publisher, whose sampler gives known noise: so which noise lies in which number is seen, not believed."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray

import halflife as hl
from attacks.promises.people import Totals
from halflife import noise as grade
from halflife.ledger import Entry, open_ledger
from halflife.policy import Channel, channels

FAR = 4e9


class KnownSampler:
    """OpenDP's sampler of one family and spread, but for what it draws: parts of its scale that nobody else draws."""

    def __init__(self, real: Any, spread: float, rng: random.Random, drawn: list[float]) -> None:
        self.map, self._spread, self._rng, self._drawn = real.map, spread, rng, drawn

    def __call__(self, count: int) -> list[int]:
        parts = [self._rng.choice([-1, 1]) * self._rng.uniform(0.5, 1.5) for _ in range(count)]
        units = [round(p * self._spread) for p in parts]
        self._drawn += [u / self._spread for u in units]
        return units


@contextmanager
def known_noise(seed: int) -> Iterator[list[float]]:
    """Noise from a seed, in parts of its scale, and a list of all that was drawn."""
    real, rng = grade._sampler, random.Random(seed)
    drawn: list[float] = []
    with mock.patch.object(
        grade, "_sampler", lambda family, spread: KnownSampler(real(family, spread), spread, rng, drawn)
    ):
        yield drawn


@dataclass(frozen=True, eq=False)
class Output:
    """One published step: when, about which step of the account, and which noise its numbers have.

    fresh  the scale of noise of its own, 0 for none;  name, under  shared noise that lies under it
    """

    stream: str
    step: int
    at: int
    data_time: int
    noise: str
    fresh: float
    name: str | None
    under: float


@dataclass(frozen=True, eq=False)
class Run:
    """What a run of the publisher left: outputs as they were drawn, numbers in units, releases, and what it said of the risk."""

    outputs: list[Output]
    numbers: dict[tuple[str, int], NDArray[np.float64]]
    releases: list[hl.Release]
    risk: float
    seen_at: dict[tuple[str, int], int]


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder for a ledger that is thrown away: in memory, where there is such a place."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="halflife-attack-", dir=memory if memory.is_dir() else None) as place:
        yield Path(place)


def run_publisher(
    policy: hl.Policy, frames: Mapping[str, Any], moments: Sequence[float], seed: int
) -> tuple[Run, list[float]]:
    """Publish what is due at each of these moments, with known noise; the ledger's folder must be empty."""
    seen_at: dict[tuple[str, int], int] = {}
    account = channels(policy)[0].account
    risk = 0.0
    with known_noise(seed) as drawn:
        for moment in moments:
            risk = hl.publish(policy, frames, clock=lambda m=moment: m).risk
            with open_ledger(policy.ledger_url, read_only=True) as book:
                entries = list(book.entries())
            for e in entries:
                seen_at.setdefault((e.stream, e.step), account.last_over(int(moment * 1e6)))
    made = {c.name: c for c in channels(policy)}
    outputs = [_output(made[e.stream], e, entries) for e in entries]
    numbers = {(e.stream, e.step): np.array(e.noisy) for e in entries}
    releases = sorted((r for e in entries for r in e.releases), key=lambda r: r.step)
    return Run(outputs, numbers, releases, risk, seen_at), drawn


def _output(channel: Channel, entry: Entry, entries: Sequence[Entry]) -> Output:
    """An entry's noise as its releases state it."""
    fresh = [r for r in entry.releases if r.draw is None]
    names = [r.draw or r.atop for r in entry.releases if r.draw or r.atop]
    name = names[0] if names else None
    under = next((r.scale or 0.0 for e in entries for r in e.releases if r.draw == name), 0.0) if name else 0.0
    data_time = entry.releases[0].data_time
    own = fresh[0].scale if fresh else 0.0
    return Output(
        entry.stream, entry.step, entry.release_step, data_time, entry.releases[0].noise, own or 0.0, name, under
    )


def see_noise(run: Run, exact: Mapping[str, Totals], drawn: Sequence[float]) -> tuple[Run, list[str]]:
    """Return the run with its noise as it really is, and what is wrong with it: each number must have its scale times a part that
    was drawn for it alone, or for its name. A name that stands for a second draw gets a mark for each."""
    parts, wrong, outputs = np.array(drawn), [], []
    known: dict[tuple[str, int], float] = {}
    marks: dict[str, int] = {}
    taken: set[int] = set()
    for o in run.outputs:
        noisy = run.numbers[o.stream, o.step]
        rests = (noisy - exact[o.stream][o.step - 1]).tolist()
        close = 1e-11 * max(o.fresh, o.under) + 1e-15 * float(np.abs(noisy).max())
        found = [_find(parts, x, o, known.get((o.name or "", cell)), taken, close) for cell, x in enumerate(rests)]
        if o.name is not None and None in found and (o.name, 0) in known:
            marks[o.name] = marks.get(o.name, 0) + 1
            found = [_find(parts, x, o, None, taken, close) for x in rests]
        for cell, (x, seen) in enumerate(zip(rests, found, strict=True)):
            if seen is None:
                wrong.append(f"{o.stream} {o.step} cell {cell}: noise {x} is not {o}")
                continue
            if o.name is not None:
                known[o.name, cell] = seen[0]
            taken.add(seen[1])
        outputs.append(replace(o, name=None if o.name is None else o.name + "'" * marks.get(o.name, 0)))
    return replace(run, outputs=outputs), wrong


def _find(
    parts: Any, rest: float, o: Output, under: float | None, taken: set[int], close: float
) -> tuple[float, int] | None:
    """The part of the shared noise, and the number of the fresh draw (−1: none), that make up this noise."""
    if o.fresh == 0 and o.under == 0:
        return (0.0, -1) if rest == 0 else None
    if o.fresh == 0:
        options = parts if under is None else np.array([under])
        at = np.flatnonzero(np.abs(o.under * options - rest) < close)
        return (float(options[at[0]]), -1) if len(at) else None
    patterns = np.zeros(1) if o.name is None or o.under == 0 else parts if under is None else np.array([under])
    hits = np.argwhere(np.abs(o.under * patterns[:, None] + o.fresh * parts[None, :] - rest) < close)
    return next(((float(patterns[i]), j) for i, j in hits.tolist() if j not in taken), None)


def empty(folder: Path) -> None:
    """Throw away what a run left."""
    for file in folder.iterdir():
        if file.name != "homes.csv":
            shutil.rmtree(file) if file.is_dir() else file.unlink()
