"""One published step as the ledger keeps it, and the chain of hashes that ties all of them together.

    h_i = SHA-256(h_{i−1} ‖ what entry i says, its releases included)        and after each batch of entries
    h   = SHA-256(h_last ‖ when the batch was committed ‖ SHA-256 of every saved state [‖ the event, where it is one])

The first link hashes the ledger's own facts (population, policy). So whoever knows the newest hash can tell whether anything
before it was changed, left out or put in; `halflife verify` walks the chain.
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from halflife.errors import InvalidInput
from halflife.numerics.arrays import Floats
from halflife.release import NOISES, Release

ALL_GROUPS = "*"
VINTAGE = re.compile(r"(.+)@([1-9][0-9]{0,8})")
"""How entries name a later vintage of a stream; no stream has such a name."""
DOUBLE = np.dtype("<f8")
_LENGTH = struct.Struct(">Q").pack


@dataclass(frozen=True, eq=False)
class Entry:
    """What was published for one step of a stream, and what it cost.

    stream    whose step it is; of a step that is published again from corrected data, with the number of its vintage: use@2
    part      the group whose numbers these are; "*" when all groups are one release
    step      the stream's own step, from start_us to end_us;  release_step  the account's step of its publication
    releases  the facts that the account was charged with: one for each draw of noise
    noisy     the mechanism's output, in units;  value  after post-processing, in the output's unit, if there is any
    spread    the scale of the noise that is left in `value`, in units; infinite where it repeats an earlier output
    cells     of one that was read: what `say` gives, as it was read
    """

    stream: str
    step: int
    release_step: int
    start_us: int
    end_us: int
    releases: tuple[Release, ...]
    noisy: Floats
    value: Floats | None
    spread: float
    part: str = ALL_GROUPS
    cells: tuple[bytes, bytes, bytes | None] | None = field(default=None, init=False, repr=False)

    def draws(self) -> list[str]:
        """Return a name for each draw that is unique within the entry: shared noise by its name, fresh noise by number."""
        return [f"#{i}" if r.draw is None else f"={r.draw}" for i, r in enumerate(self.releases)]

    def say(self) -> tuple[bytes, bytes, bytes | None]:
        """Return what the entry says: its facts as JSON, and the bytes of its numbers. Of one that was read, as it was read."""
        if self.cells is not None:
            return self.cells
        releases = []
        for r, name in zip(self.releases, self.draws(), strict=True):
            say = _known_facts if r.loss and r.sensitivity and r.scale else release_facts
            facts = say(r.loss, r.age, r.sensitivity, r.scale, r.noise, r.atop, *span_cells(r))
            releases.append(f"[{_text(name)}, {r.step}, {facts}")
        said = entry_facts(
            self.stream,
            self.part,
            self.step,
            self.release_step,
            self.start_us,
            self.end_us,
            self.spread,
            ", ".join(releases),
        )
        return said, to_bytes(self.noisy), None if self.value is None else to_bytes(self.value)

    def link(self, before: bytes) -> bytes:
        """Return the hash that follows `before`: of the facts as JSON, and of the values' bytes."""
        return make_link(before, *self.say())


def read_entry(row: Sequence[Any], releases: Sequence[Sequence[Any]]) -> Entry:
    """Return an entry from its cells, and the draw, loss, age, sensitivity, scale, noise, atop, span and step's sensitivity of
    each of its releases.

    What it says is kept as it was read, so that its link is that of the cells. Raises InvalidInput, ValueError, TypeError or
    AttributeError for cells that no entry has.
    """
    stream, part, step, at, start, end, noisy, value, spread = row
    made, texts = [], []
    for draw, loss, age, sensitivity, scale, *others in releases:
        read = _known if loss and sensitivity and scale else _read
        cells = (draw[1:] if draw.startswith("=") else None, loss, age, sensitivity, scale, *others)
        try:
            release, facts = read(*cells)
        except InvalidInput:
            _make(at, *cells)  # refuses them too, and names the step
            raise
        made.append(release.at_step(at, age))
        texts.append(f"[{_text(draw)}, {at}, {facts}")
    entry = object.__new__(Entry)
    fields = {
        "stream": stream, "step": step, "release_step": at, "start_us": start, "end_us": end, "releases": tuple(made),
        "noisy": from_bytes(noisy), "value": None if value is None else from_bytes(value), "spread": spread, "part": part,
        "cells": (entry_facts(stream, part, step, at, start, end, spread, ", ".join(texts)), noisy, value),
    }  # fmt: skip
    object.__setattr__(entry, "__dict__", fields)  # at once: one by one they take as long as all the rest
    return entry


def _make(
    step: int, draw: str | None, loss: Any, age: Any, sensitivity: Any, scale: Any, noise: Any, atop: Any, span: Any = None,
    one: Any = None,
) -> Release:  # fmt: skip
    """A release from its cells, checked. Cells of another kind are not repeated in an error."""
    numbers = isinstance(loss, float) and isinstance(sensitivity, float) and isinstance(scale, float | None)
    wide = isinstance(span, int | None) and isinstance(one, float | None)
    if not (
        numbers and wide and isinstance(age, int) and noise in NOISES and max(len(draw or ""), len(atop or "")) <= 200
    ):
        raise TypeError
    return Release(
        step, loss, age, sensitivity=sensitivity, scale=scale, noise=noise, draw=draw, atop=atop,
        span=1 if span is None else span, step_sensitivity=one,
    )  # fmt: skip


def _read(draw: str | None, *cells: Any) -> tuple[Release, str]:
    """A release with these facts, of whatever step, and their text."""
    return _make(1, draw, *cells), release_facts(*cells)


_known = lru_cache(maxsize=10_000, typed=True)(_read)
"""The same for facts that were read before, none of them 0: to a cache 0.0 and -0.0 are alike, to the chain they are not."""


def name_vintage(stream: str, vintage: int) -> str:
    """Return how entries of a stream's vintage name it: as it is called in the first, with a number later.

    >>> name_vintage("use", 1), name_vintage("use", 2)
    ('use', 'use@2')
    """
    return stream if vintage == 1 else f"{stream}@{vintage}"


def split_vintage(name: str) -> tuple[str, int]:
    """Return the stream that entries of this name are of, and their vintage.

    >>> split_vintage("use"), split_vintage("use@2"), split_vintage("use@1")
    (('use', 1), ('use', 2), ('use@1', 1))
    """
    found = VINTAGE.fullmatch(name)
    return (found[1], int(found[2])) if found and int(found[2]) > 1 else (name, 1)


def name_entry(number: int, stream: object, step: object, facts: Mapping[str, str]) -> str:
    """Return which entry is meant, for a message; a name or a step that no entry can have is not repeated."""
    known = isinstance(step, int) and f"stream:{split_vintage(str(stream))[0]}" in facts
    return f"entry {number} ({stream}, step {step})" if known else f"entry {number} (of an unknown stream)"


def entry_facts(
    stream: str, part: str, step: int, release_step: int, start_us: int, end_us: int, spread: float, releases: str
) -> bytes:
    """Return an entry's facts as JSON; doubles are written so that they read back to the same bits."""
    return f"[{_text(stream)}, {_text(part)}, {step}, {release_step}, {start_us}, {end_us}, {spread!r}, [{releases}]]".encode()


def release_facts(
    loss: float, age: int, sensitivity: float, scale: float | None, noise: str, atop: str | None, span: int | None = None,
    one: float | None = None,
) -> str:  # fmt: skip
    """Return the end of a release's facts as JSON: what stands behind its draw and its step. Its span only if it has one."""
    spread, wide = "null" if scale is None else repr(scale), ""
    if span is not None or one is not None:
        wide = f", {'null' if span is None else span}, {'null' if one is None else repr(one)}"
    return f"{loss!r}, {age}, {sensitivity!r}, {spread}, {_text(noise)}, {_text(atop)}{wide}]"


_known_facts = lru_cache(maxsize=10_000, typed=True)(release_facts)
"""The same for facts that were told before, none of them 0, as a schedule repeats a few: see `_known`."""


def span_cells(release: Release) -> tuple[int | None, float | None]:
    """Return a release's span and what one step can move it by, None each where that is the default."""
    return (None if release.span == 1 else release.span), release.step_sensitivity


@lru_cache(maxsize=10_000)
def _text(value: str | None) -> str:
    """A name as JSON writes it."""
    return json.dumps(value)


def make_link(before: bytes, facts: bytes, noisy: bytes, value: bytes | None) -> bytes:
    """Return the hash that follows `before`: of what an entry says."""
    return _sha(before, facts, noisy, value or b"")


def first_link(facts: Mapping[str, str]) -> bytes:
    """Return the hash that begins a chain: of the ledger's own facts."""
    return _sha(json.dumps(dict(sorted(facts.items()))).encode())


def batch_link(before: bytes, at_us: int, states: bytes, event: str | None = None) -> bytes:
    """Return the hash that ends a batch: when it was committed, the digest of the states saved with it, and its event."""
    parts = (before, str(at_us).encode(), states)
    return _sha(*parts) if event is None else _sha(*parts, event.encode())


def digest(states: Iterable[tuple[str, str]]) -> bytes:
    """Return the digest of saved states."""
    return _sha(json.dumps(sorted(states)).encode())


def _sha(*parts: bytes) -> bytes:
    """SHA-256 of parts, each with its length before it, so that no two lists of parts look alike."""
    return hashlib.sha256(b"".join([piece for part in parts for piece in (_LENGTH(len(part)), part)])).digest()


def to_bytes(values: Floats) -> bytes:
    """Return doubles as bytes, little end first."""
    return np.asarray(values, dtype=DOUBLE).tobytes()


def from_bytes(blob: bytes) -> Floats:
    """Read what `to_bytes` gave.

    >>> from_bytes(to_bytes(np.array([0.1, -2.5]))).tolist()
    [0.1, -2.5]
    """
    return np.frombuffer(blob, DOUBLE)
