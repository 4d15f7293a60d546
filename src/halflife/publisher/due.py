"""Which steps of a stream are due, and where they stand in the account. Nothing is read, charged or drawn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from halflife.numerics.arrays import Integers
from halflife.policy import Channel


@dataclass(frozen=True, eq=False)
class Due:
    """Consecutive steps of one stream that are to be published.

    release_steps  the account's steps at which they are charged
    late           by how many of the account's steps each comes later than planned: its data is older by as much
    """

    channel: Channel
    steps: Integers
    release_steps: Integers
    late: Integers

    def between(self, first: int, last: int) -> Due:
        """Return what is due at the account's steps first … last."""
        return self.part(*np.searchsorted(self.release_steps, [first, last + 1]).tolist())

    def last(self, count: int) -> Due:
        """Return the newest so many steps."""
        return self.part(len(self.steps) - count, len(self.steps))

    def part(self, low: int, high: int) -> Due:
        """Return the steps from place to place, counted from 0; the last is not among them."""
        return Due(self.channel, self.steps[low:high], self.release_steps[low:high], self.late[low:high])


def find_due(channel: Channel, first: int, last: int, not_before: int) -> Due:
    """Return steps first … last of a stream, at the account's step `not_before` at the earliest.

    A step that comes late is charged at the account's newest step, with an age that keeps the time its data is about.
    """
    steps = np.arange(first, last + 1, dtype=np.int64)
    planned = channel.release_steps(first, last) if len(steps) else steps
    release_steps = np.maximum(planned, not_before)
    return Due(channel, steps, release_steps, release_steps - planned)


def cut_into_batches(dues: Sequence[Due], most_steps: int, most_cells: int) -> Iterator[list[Due]]:
    """Cut what is due into stretches of the account's steps that hold at most so many steps, and numbers."""
    at = np.concatenate([d.release_steps for d in dues])
    cells = np.concatenate([np.full(len(d.steps), d.channel.cells) for d in dues])
    order = np.argsort(at, kind="stable")
    at, cells = at[order], np.cumsum(cells[order])
    start = 0
    while start < len(at):
        before = cells[start - 1] if start else 0
        fits = int(np.searchsorted(cells, before + most_cells, side="right"))
        end = max(start + 1, min(start + most_steps, fits))
        last = int(at[end - 1])
        parts = [d.between(int(at[start]), last) for d in dues]
        yield [d for d in parts if len(d.steps)]
        start = int(np.searchsorted(at, last, side="right"))
