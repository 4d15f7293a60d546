"""Slices of a question, where there are more people and steps than memory holds: stretches of steps, and shares of the people.

DuckDB puts groups aside on disk, but not all that it needs for them: of a hundred million it fails, whatever the disk has. So the
readings are gone through once for each slice. A stretch of steps costs nothing more where files or row groups are of few steps,
as the others are passed over; a share of the people costs one more look at all readings.
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
    """Some steps of a question, and about so many people: those whose hash leaves `rest` when it is divided by `of`."""

    question: Question
    people: int
    rest: int = 0
    of: int = 1

    @property
    def steps(self) -> int:
        """How many steps there are."""
        return self.question.shape[0]

    def condition(self, person: str) -> str:
        """SQL of whether a person belongs to the share; nothing if all do."""
        return f" AND hash({person}) % {self.of} = {self.rest}" if self.of > 1 else ""

    def stretches(self, most: int) -> Iterator[Slice]:
        """Yield slices of so many steps at most, at least one each.

        >>> from halflife.steps import Buckets
        >>> whole = Slice(Question("count", "p", "t", Buckets(1, ((0, 0),)), 1, 5), 7)
        >>> [(s.question.first, s.question.last) for s in whole.stretches(2)]
        [(1, 2), (3, 4), (5, 5)]
        """
        q, size = self.question, max(1, most)
        for first in range(q.first, q.last + 1, size):
            yield self._replace(question=replace(q, first=first, last=min(first + size - 1, q.last)))

    def shares(self, most: int) -> Iterator[Slice]:
        """Yield slices of about so many people at most.

        >>> from halflife.steps import Buckets
        >>> whole = Slice(Question("count", "p", "t", Buckets(1, ((0, 0),)), 1, 5), 7)
        >>> [(s.people, s.rest, s.of) for s in whole.shares(3)]
        [(3, 0, 3), (3, 1, 3), (3, 2, 3)]
        """
        more = max(1, -(-self.people // most))
        for i in range(more):
            yield Slice(self.question, -(-self.people // more), self.rest + i * self.of, self.of * more)

    def part_of(self, whole: Slice, sums: Any) -> Any:
        """Return the sums of this slice's steps, of those of a whole."""
        first = self.question.first - whole.question.first
        return sums[first : first + self.steps]
