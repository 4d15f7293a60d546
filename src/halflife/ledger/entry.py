"""One published step as the ledger keeps it, and the chain of hashes that ties all of them together.

    h_i = SHA-256(h_{i−1} ‖ what entry i says, its releases included)        and after each batch of entries
    h   = SHA-256(h_last ‖ when the batch was committed ‖ SHA-256 of every saved state)

The first link hashes the ledger's own facts (population, policy). So whoever knows the newest hash can tell whether anything
before it was changed, left out or put in; `halflife verify` walks the chain.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from halflife.release import Release

Floats = NDArray[np.float64]
ALL_GROUPS = "*"


@dataclass(frozen=True, eq=False)
class Entry:
    """What was published for one step of a stream, and what it cost.

    part      the group whose numbers these are; "*" when all groups are one release
    step      the stream's own step, from start_us to end_us;  release_step  the account's step of its publication
    releases  the facts that the account was charged with: one for each draw of noise
    noisy     the mechanism's output, in units;  value  after post-processing, in the output's unit, if there is any
    spread    the scale of the noise that is left in `value`, in units
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

    def draws(self) -> list[str]:
        """Return a name for each draw that is unique within the entry: shared noise by its name, fresh noise by number."""
        return [f"#{i}" if r.draw is None else f"={r.draw}" for i, r in enumerate(self.releases)]

    def link(self, before: bytes) -> bytes:
        """Return the hash that follows `before`: of the facts as JSON, and of the values' bytes."""
        releases = ", ".join(_facts(r, name) for r, name in zip(self.releases, self.draws(), strict=True))
        facts = (
            f"[{_text(self.stream)}, {_text(self.part)}, {self.step}, {self.release_step}, {self.start_us}, {self.end_us}, "
            f"{self.spread!r}, [{releases}]]"
        )
        value = b"" if self.value is None else to_bytes(self.value)
        return _sha(before, facts.encode(), to_bytes(self.noisy), value)


@lru_cache(maxsize=10_000)
def _text(value: str | None) -> str:
    """A name as JSON writes it."""
    return json.dumps(value)


def _facts(r: Release, name: str) -> str:
    """A release's facts as JSON; doubles are written so that they read back to the same bits."""
    scale = "null" if r.scale is None else repr(r.scale)
    return (
        f"[{_text(name)}, {r.step}, {r.loss!r}, {r.age}, {r.sensitivity!r}, {scale}, {_text(r.noise)}, {_text(r.atop)}]"
    )


def first_link(facts: Mapping[str, str]) -> bytes:
    """Return the hash that begins a chain: of the ledger's own facts."""
    return _sha(json.dumps(dict(sorted(facts.items()))).encode())


def batch_link(before: bytes, at_us: int, states: bytes) -> bytes:
    """Return the hash that ends a batch: when it was committed, and the digest of the states saved with it."""
    return _sha(before, str(at_us).encode(), states)


def digest(states: Iterable[tuple[str, str]]) -> bytes:
    """Return the digest of saved states."""
    return _sha(json.dumps(sorted(states)).encode())


def _sha(*parts: bytes) -> bytes:
    """SHA-256 of parts, each with its length before it, so that no two lists of parts look alike."""
    pieces: list[bytes] = []
    for part in parts:
        pieces += (len(part).to_bytes(8, "big"), part)
    return hashlib.sha256(b"".join(pieces)).digest()


def to_bytes(values: Floats) -> bytes:
    """Return doubles as bytes, little end first."""
    return np.asarray(values, dtype="<f8").tobytes()


def from_bytes(blob: bytes) -> Floats:
    """Read what `to_bytes` gave.

    >>> from_bytes(to_bytes(np.array([0.1, -2.5]))).tolist()
    [0.1, -2.5]
    """
    return np.frombuffer(blob, dtype="<f8").astype(np.float64)
