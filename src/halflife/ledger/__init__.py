"""Releases and spending, committed together or not at all. Where and how is known in this room alone."""

from __future__ import annotations

from pathlib import Path

from halflife.ledger.address import (
    ledger_exists,
    ledger_file,
    ledger_files,
    ledger_names,
    ledger_plans,
    ledger_scratch,
    ledgers_beside,
    name_ledger,
    resolve_ledger,
)
from halflife.ledger.base import Batch, Ledger, LedgerBusy, Link, NoLedger
from halflife.ledger.entry import Entry
from halflife.ledger.guard import Guard
from halflife.ledger.marks import Mark, Marks, Place, mark_beside, read_mark
from halflife.ledger.postgresql.url import read_server
from halflife.ledger.sqlite import SqliteLedger
from halflife.ledger.sqlite.connect import PATIENCE
from halflife.libpq import is_server

__all__ = [
    "Batch",
    "Entry",
    "Ledger",
    "LedgerBusy",
    "Link",
    "Mark",
    "Marks",
    "NoLedger",
    "Place",
    "is_server",
    "ledger_exists",
    "ledger_files",
    "ledger_names",
    "ledger_plans",
    "ledger_scratch",
    "ledgers_beside",
    "mark_beside",
    "name_ledger",
    "open_ledger",
    "read_mark",
    "refuse_lost_ledger",
    "resolve_ledger",
]


def refuse_lost_ledger(url: str | Path) -> None:
    """Refuse an address at which there is no ledger any more, while something was published from the one that was there."""
    if isinstance(url, str) and is_server(url):
        server = read_server(url)
        Guard(server.beside, server.name).refuse_lost(ledger_exists(url), "no such ledger")
    else:
        Guard(ledger_file(url)).refuse_lost(ledger_file(url).exists())


def open_ledger(url: str | Path, *, read_only: bool = False, patience: float = PATIENCE) -> Ledger:
    """Open the ledger at an address, `town.ledger`, `sqlite:///town.ledger` or `postgresql://HOST/DATABASE?schema=town`; make an
    empty one if there is none.

    Read-only, there must be one, and it is never written to. `patience`: how many seconds to wait for a program that keeps
    everybody else from reading it.

    >>> open_ledger("nowhere.ledger", read_only=True)
    Traceback (most recent call last):
    ...
    halflife.errors.LedgerError: nowhere.ledger: cannot be opened: no such file: publish first, or give the path of a ledger
    """
    if isinstance(url, str) and is_server(url):
        from halflife.ledger.postgresql.ledger import PostgresLedger

        return PostgresLedger(read_server(url), read_only=read_only)
    return SqliteLedger(ledger_file(url), read_only=read_only, patience=patience)
