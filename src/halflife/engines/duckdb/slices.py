"""Cutting a question where there are more people and steps than memory holds: into stretches of steps, and shares of the people.

DuckDB puts groups aside on disk, but not all that it needs for them: of a hundred million it fails, whatever the disk has. So the
readings are gone through once for each slice. A stretch of steps costs nothing more where files or row groups are of few steps,
as they are then passed over; a share of the people costs one more look at all readings, a fifth of what adding them up takes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from halflife.engines.base import Question

MOST_PEOPLE = 2**19
"""So many people are told apart at once: their names, and a bit for each step, fit in half a gigabyte."""
MOST_BITS = 2**28
"""For so many people × steps at once it is looked who has two readings in a step: a bit for each, 32 MB in each thread."""
MOST_PAIRS = 2**25
"""So many people × steps are grouped at once."""


class Slice(NamedTuple):
    """Some steps of a question, and about so many people: those whose hash leaves `rest` when it is divided by `shares`."""

    question: Question
    people: int
    rest: int = 0
    shares: int = 1

    @property
    def pairs(self) -> int:
        """About how many people × steps there are."""
        return self.people * self.question.shape[0]

    def of(self, whole: Slice, sums: Any) -> Any:
        """Return the sums of this slice's steps, a part of those of a whole."""
        first = self.question.first - whole.question.first
        return sums[first : first + self.question.shape[0]]

    def condition(self, person: str) -> str:
        """SQL of whether a person belongs to the share; nothing if all do."""
        return f" AND hash({person}) % {self.shares} = {self.rest}" if self.shares > 1 else ""


def cut(whole: Slice, most_people: int, most_pairs: int) -> Iterator[Slice]:
    """Yield slices with about as many people and people × steps as given at most, which together are the whole.

    >>> from halflife.steps import Buckets
    >>> question = Question("count", "p", "t", Buckets(1, ((0, 0),)), 1, 5)
    >>> [(s.question.first, s.question.last, s.people, s.rest, s.shares) for s in cut(Slice(question, 7), 4, 12)]
    [(1, 3, 4, 0, 2), (1, 3, 4, 1, 2), (4, 5, 4, 0, 2), (4, 5, 4, 1, 2)]
    """
    more = -(-whole.people // most_people) or 1
    people = -(-whole.people // more)
    size = max(1, most_pairs // max(1, people))
    q = whole.question
    for first in range(q.first, q.last + 1, size):
        part = replace(q, first=first, last=min(first + size - 1, q.last))
        for i in range(more):
            yield Slice(part, people, whole.rest + i * whole.shares, whole.shares * more)
