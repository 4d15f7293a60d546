"""What a unit is worth in the output, step by step: an amendment of the population's size changes it for means."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import groupby
from typing import NamedTuple, Protocol, Self, TypeVar

Factors = tuple[Fraction, ...]


class Stepped(Protocol):
    """Anything that is of one step."""

    @property
    def step(self) -> int:
        """The number of the step."""


Item = TypeVar("Item", bound=Stepped)


class Worth(NamedTuple):
    """What a unit is worth in each number of a step that gets noise: pairs of a first step and the factors from it on.

    >>> worth = Worth(((1, (Fraction(1, 100),)), (49, (Fraction(1, 120),))))
    >>> worth.at(48), worth.at(49), worth.newest
    ((Fraction(1, 100),), (Fraction(1, 120),), (Fraction(1, 120),))
    """

    since: tuple[tuple[int, Factors], ...]

    @classmethod
    def of(cls, factors: Sequence[Fraction]) -> Self:
        """Return the worth that is the same in all steps."""
        return cls(((1, tuple(factors)),))

    @property
    def newest(self) -> Factors:
        """The factors that hold now."""
        return self.since[-1][1]

    def at(self, step: int) -> Factors:
        """Return the factors of a step."""
        return self.since[max(0, bisect_right(self.since, step, key=lambda pair: pair[0]) - 1)][1]

    def cut(self, items: Sequence[Item]) -> Iterator[tuple[Factors, list[Item]]]:
        """Cut things that are in the order of their steps into stretches of the same factors."""
        if len(self.since) == 1:
            yield self.newest, list(items)
            return
        for factors, found in groupby(items, key=lambda item: self.at(item.step)):
            yield factors, list(found)
