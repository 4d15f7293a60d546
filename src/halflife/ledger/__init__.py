"""Releases and spending, committed together or not at all. Where and how is known in this room alone."""

from __future__ import annotations

from pathlib import Path

from halflife.ledger.address import (
    ledger_exists,
    ledger_file,
    ledger_files,
    ledger_names,
    ledgers_beside,
    resolve_ledger,
)
from halflife.ledger.base import Batch, Ledger, Link
from halflife.ledger.entry import Entry
from halflife.ledger.sqlite import SqliteLedger

__all__ = [
    "Batch",
    "Entry",
    "Ledger",
    "Link",
    "ledger_exists",
    "ledger_files",
    "ledger_names",
    "ledgers_beside",
    "open_ledger",
    "resolve_ledger",
]


def open_ledger(url: str | Path, *, read_only: bool = False) -> Ledger:
    """Open the ledger at an address, `town.ledger` or `sqlite:///town.ledger`; make an empty one if there is none.

    Read-only, there must be one, and it is never written to.

    >>> open_ledger("nowhere.ledger", read_only=True)
    Traceback (most recent call last):
    ...
    halflife.errors.LedgerError: nowhere.ledger: cannot be opened: no such file: publish first, or give the path of a ledger
    """
    return SqliteLedger(ledger_file(url), read_only=read_only)
