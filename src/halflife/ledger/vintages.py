"""The vintages of a stream that a ledger holds: steps that were published again, under names of their own."""

from __future__ import annotations

from bisect import bisect_left

from halflife.ledger.base import Ledger
from halflife.ledger.entry import name_vintage

FIRST_AGAIN = 2
"""The number of the first vintage that comes after the one that was published in time."""


def count_vintages(book: Ledger, stream: str) -> int:
    """Return how many vintages of a stream a ledger holds, the first among them; they are numbered without gaps."""

    def held(number: int) -> bool:
        return book.last_step(name_vintage(stream, number)) > 0

    if not held(FIRST_AGAIN):
        return 1
    high = FIRST_AGAIN
    while held(2 * high):
        high *= 2
    return bisect_left(range(2 * high), True, lo=high + 1, key=lambda number: not held(number)) - 1


def find_vintages(book: Ledger, stream: str) -> dict[str, int]:
    """Return the vintages of a stream that a ledger holds after the first: by the name of their entries, their numbers."""
    return {name_vintage(stream, k): k for k in range(FIRST_AGAIN, count_vintages(book, stream) + 1)}
