"""What a source holds beside what a policy says of it: counts and shapes for the operator alone, before anything is published.

A `Question` is asked as for an aggregate, and the same rows are good or bad for the same reasons. Here all rows of the source are
told apart, those outside the asked steps too, and what would be clipped is told by side. Nothing here is bounded or noised.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

TOO_LARGE = (60, 1_000, 3_600, 1_000_000)
"""How many times too large readings may be where a unit is mistaken: minutes, a prefix, seconds or joules, two prefixes."""

TOO_SMALL = 1_000
"""How many times too small they may be."""

QUANTILES = (0.05, 0.5, 0.95)

CELLS = 1_000
"""So many cells that could not be read are looked at for their shape."""


@dataclass(frozen=True, repr=False, eq=False)
class Inspection:
    """Counts over a whole source. All of it is private.

    rows, before, after   all rows; those with a readable time before the first asked step, and after the last
    tallies               of the rows in the asked steps or without a readable time, as `Answer.tallies` has them
    earliest, latest      the first and the last readable time, µs since 1970; None if there is none
    low_readings, high_readings     good readings below `least`, above `most`
    vanished              good readings other than 0 that are 0 in whole units
    typical               readings in units at the QUANTILES, about; None if there is no good one
    people, spacing       persons with a good reading; the µs between two readings of one person, the median over persons
    entries, low, high    (person, step, group) entries that count; those whose fold lies below `low`, above `high`
    shrunk                by n of TOO_LARGE: entries that would lie within [low, high] if they were n times smaller
    grown                 entries other than 0 that would lie within [low, high] if they were TOO_SMALL times larger
    zeros                 entries that are 0
    steps, first, last    asked steps with a good reading: how many, the first and the last of them (0 if there is none)
    gap                   how many steps it is from one with data to the next, the median
    totals                of each group and bin, what was added up over all steps
    """

    rows: int
    before: int
    after: int
    tallies: Mapping[str, int]
    earliest: int | None = None
    latest: int | None = None
    low_readings: int = 0
    high_readings: int = 0
    vanished: int = 0
    typical: tuple[float, ...] | None = None
    people: int = 0
    spacing: float | None = None
    entries: int = 0
    low: int = 0
    high: int = 0
    shrunk: Mapping[int, int] = field(default_factory=lambda: dict.fromkeys(TOO_LARGE, 0))
    grown: int = 0
    zeros: int = 0
    steps: int = 0
    first: int = 0
    last: int = 0
    gap: float | None = None
    totals: NDArray[np.float64] = field(default_factory=lambda: np.zeros((1, 1)))

    @property
    def good(self) -> int:
        """Rows of the asked steps that have a time, person, value and group."""
        reasons = ("bad_time", "bad_person", "bad_value", "unknown_person", "unknown_group")
        return self.tallies["rows"] - sum(self.tallies[reason] for reason in reasons)
