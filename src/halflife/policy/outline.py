"""A stream without its plan: what follows from the policy's keys and public tables, whatever the notion."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from halflife.numerics.arrays import Integers
from halflife.policy.measure import Measure
from halflife.policy.model import StreamPart
from halflife.policy.worth import Factors
from halflife.sensitivity import Sensitivity
from halflife.steps import Steps

COUNTED = {"people": "person", "events": "event"}
"""What is counted, and one of it."""


class Sized(NamedTuple):
    """What the public size of the population means for a stream, from a step on.

    factors  what a unit is worth in the output, by group: the resolution, over the number of people for a mean
    offsets  what all who are missing count as, by group, in units
    """

    step: int
    size: int
    factors: Factors
    offsets: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Outline:
    """One stream as far as it does not depend on the notion: steps, groups, statistic and sensitivity.

    index, part      its place among the policy's streams, and its keys
    share            its share of the promise
    steps, last      its own steps, and the last of them (None: for ever)
    account, age     the account's steps, and how many of them lie between a step and its publication
    wait             how long a release waits beyond its age, in µs, below the account's step
    every, widest    releases are so many account steps apart, at the least; and each covers so many, at the most
    measure          what one person counts as, in whole units
    sensitivity      of the numbers of one step, in whole units
    groups, bins     what a step's numbers stand for; `fixed` if a person's group never changes
    most_groups      in how many groups a person may count within a step
    units            whose each id of the data is, where one person may have several; None if ids are people
    sized            what follows from the population's size, from which step on; one for ever if that is one number
    """

    index: int
    name: str
    part: StreamPart
    person: str
    share: float
    steps: Steps
    last: int | None
    account: Steps
    age: int
    wait: int
    every: int
    widest: int
    measure: Measure = field(repr=False)
    sensitivity: Sensitivity
    groups: tuple[str, ...]
    bins: tuple[tuple[float, float], ...]
    fixed: bool
    sized: tuple[Sized, ...]
    most_groups: int
    table: Mapping[str, int] | None = field(repr=False)
    weights: Mapping[str, int] | None = field(repr=False)
    units: Mapping[str, str] | None = field(repr=False)

    @property
    def unit(self) -> str:
        """What its numbers are in, for people: "people" or "events" where such are counted, else the statistic's unit, if any."""
        statistic = self.part.statistic
        counted = {"count": "people", "histogram": "people", "quantile": "people", "events": "events"}
        return counted.get(statistic.kind) or statistic.unit or ""

    def sized_at(self, step: int) -> Sized:
        """Return what follows from the size of the population in force when a step begins."""
        return self.sized[max(0, bisect_right(self.sized, step, key=lambda s: s.step) - 1)]

    @property
    def factors(self) -> Factors:
        """What a unit is worth in the output, by group, at the most: where the population is smallest."""
        return min(self.sized, key=lambda s: s.size).factors

    @property
    def divides(self) -> bool:
        """Whether its values are divided by the size of the population: a mean over all of it."""
        return self.measure.kind == "mean" and not self.groups

    @property
    def cells(self) -> int:
        """How many numbers of a step get noise."""
        return max(1, len(self.groups)) * self.measure.numbers

    @property
    def first(self) -> int:
        """The account's step in which its first step begins."""
        return self.account.step(self.steps.start_us)

    @property
    def last_data_time(self) -> int | None:
        """The newest of the account's steps that its last step is about; None for ever."""
        return None if self.last is None else int(self.release_steps(self.last, self.last)[0]) - self.age

    def release_steps(self, first: int, last: int) -> Integers:
        """Return the account's steps at which steps first … last are published."""
        return self.account.numbers(self.steps.edges(first, last)[1:] - 1) + self.age

    def spans(self, first: int, last: int) -> Integers:
        """Return how many of the account's steps each of the steps first … last covers, those that it only touches included."""
        if self.steps.same_width(self.account):
            return np.ones(last - first + 1, dtype=np.int64)
        covered = self.account.numbers(self.steps.edges(first, last)[:-1])
        return self.release_steps(first, last) - self.age - covered + 1
