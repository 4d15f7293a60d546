"""The vintages of a stream that a ledger holds: steps that were published again, under names of their own."""

from __future__ import annotations

from halflife.ledger.base import Ledger
from halflife.ledger.entry import name_vintage

FIRST_AGAIN = 2
"""The number of the first vintage that comes after the one that was published in time."""


def find_vintages(book: Ledger, stream: str) -> dict[str, int]:
    """Return the vintages of a stream that a ledger holds after the first: by the name of their entries, their numbers."""
    found: dict[str, int] = {}
    number = FIRST_AGAIN
    while book.last_step(name_vintage(stream, number)):
        found[name_vintage(stream, number)] = number
        number += 1
    return found
