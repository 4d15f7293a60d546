"""How many people a population has: one number, or a public table of numbers by date, which grows as time passes.

A mean divides the total of a step by the number of people in force when the step begins, so that Δf_k, how far one person moves
the mean of step k, is Δ/n_k: it follows the public n_k and nothing else (Remark 1 of the discounted paper, in which who has not
arrived or has left is ∅; here they count as `missing` says, if they are among the n_k). Noise is added to totals, in whole
units, whose sensitivity Δ does not depend on n_k. So whatever the table says no loss changes; what a unit is worth in the output
does.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from pathlib import Path
from typing import NamedTuple, Self

from halflife.errors import InvalidInput
from halflife.local_time import from_us, parse_time, to_us
from halflife.numerics.forms import read_form
from halflife.numerics.parameters import whole
from halflife.policy.tables import read_rows
from halflife.steps import Steps

ALWAYS = -(2**62)
"""Earlier than any time, in µs since 1970."""
LARGEST_SIZE = 10**12
MOST_ROWS = 100_000


class Members(NamedTuple):
    """Public sizes of a population: pairs of a time, in µs since 1970, and how many people there are from it on, in order.

    by_date  whether they come from a table, which may grow;  before the first time its size holds too

    >>> members = Members(((0, 100), (86_400_000_000, 120)), by_date=True)
    >>> members.at(5), members.at(86_400_000_000), members.largest
    (100, 120, 120)
    """

    since: tuple[tuple[int, int], ...]
    by_date: bool = False

    @classmethod
    def of(cls, size: int) -> Self:
        """Return a population of one size for ever."""
        return cls(((ALWAYS, size),))

    @property
    def largest(self) -> int:
        """The largest size that is known of."""
        return max(size for _, size in self.since)

    def at(self, us: int) -> int:
        """Return how many people there are at a time."""
        return self.since[max(0, bisect_right(self.since, us, key=lambda row: row[0]) - 1)][1]

    def by_step(self, steps: Steps) -> tuple[tuple[int, int], ...]:
        """Return the size in force when a step begins: pairs of a first step and the size from it on, which differ."""
        found = [(1, self.at(steps.start(1)))]
        for us, size in self.since:
            first = steps.step(us - 1) + 1 if us > steps.start_us else 1
            if first == found[-1][0]:
                found[-1] = (first, size) if first > 1 else found[-1]
            elif first > 1:
                found.append((first, size))
        kept = [pair for k, pair in enumerate(found) if k == 0 or pair[1] != found[k - 1][1]]
        return tuple(kept)

    def find_change(self, other: Members, until_us: int) -> int | None:
        """Return the first time, up to one given, at which another table has another size; None if it has none.

        >>> old, new = (Members(((0, 100), (50, size)), True) for size in (120, 130))
        >>> old.find_change(new, 49), old.find_change(new, 50)
        (None, 50)
        """
        times = sorted({us for us, _ in (*self.since, *other.since) if us <= until_us})
        return next((us for us in times if self.at(us) != other.at(us)), None)

    def dump(self) -> str:
        """Return the table as a ledger keeps it."""
        return json.dumps({"version": 1, "since": [list(row) for row in self.since]})

    @classmethod
    def load(cls, text: str) -> Self:
        """Read what `dump` gave.

        >>> Members.load(Members(((0, 5),), True).dump())
        Members(since=((0, 5),), by_date=True)
        """
        rows = read_form("a table of members", json.loads(text), ("since",))["since"]
        if not isinstance(rows, list) or not rows:
            raise InvalidInput("a table of members must hold a list of rows")
        return cls(tuple((whole("from", us), whole("size", size, least=1)) for us, size in rows), by_date=True)


def read_members(path: Path, zone: str, start_us: int) -> Members:
    """Read a table of members: columns `from`, a time by the clock of a zone, and `size`, how many people there are from it on.

    start_us  when the first step begins: the first row must not be later
    """
    since: list[tuple[int, int]] = []
    for row, (moment, text) in enumerate(read_rows(path, "from", "size"), start=1):
        where = f"{path.name}, row {row}"
        try:
            us = to_us(parse_time(moment, zone))
        except InvalidInput as error:
            raise InvalidInput(f"{where}: from: {error}") from None
        if not (text.isascii() and text.isdigit()) or len(text) > 20 or not 1 <= int(text) <= LARGEST_SIZE:
            raise InvalidInput(f"{where}: size must be a whole number from 1 to {LARGEST_SIZE:,}, not {text[:40]!r}")
        if since and us <= since[-1][0]:
            raise InvalidInput(f"{where}: {moment!r} is not later than the row before: rows are in the order of time")
        since.append((us, int(text)))
    if len(since) > MOST_ROWS:
        raise InvalidInput(f"{path.name} has {len(since):,} rows: the most is {MOST_ROWS:,}")
    if not since or since[0][0] > start_us:
        begin = from_us(start_us, zone).isoformat(sep=" ")
        raise InvalidInput(
            f"{path.name} must say how many people there are when the first step begins, {begin}: add a row"
        )
    return Members(tuple(since), by_date=True)
