"""Copies of ledgers by their addresses: made while others publish, and put in the place of one that is lost or older."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from halflife.ledger.address import ledger_file
from halflife.ledger.base import Batch
from halflife.ledger.guard import Guard, Shown
from halflife.ledger.sqlite.copying import Copying
from halflife.numerics.progress import Progress


def copy_ledger(url: str | Path, file: Path, progress: Progress = lambda what, done, total: None) -> None:
    """Write all that a ledger holds now into a new file, which `open_ledger` opens; whoever publishes is not kept waiting."""
    Copying(ledger_file(url)).copy_to(file, progress)


def hold_place(url: str | Path, wait: float = 10.0) -> AbstractContextManager[Path]:
    """Keep writers away from an address while this block runs, and give a private folder for a copy that shall lie there."""
    return Copying(ledger_file(url)).hold(wait)


def declare_shown(copy: Path, newest: Batch) -> None:
    """Write beside a copy in that folder that all of it was shown, so that it can be gone on with."""
    Guard(copy).write(Shown(newest.last, newest.link))


def put_copy(copy: Path, url: str | Path, newest: Batch) -> None:
    """Put a copy from that folder at the address; if nothing there says what was shown, all up to the batch `newest` was."""
    Copying(ledger_file(url)).replace_by(copy, Shown(newest.last, newest.link))


def read_shown(url: str | Path) -> tuple[int, bytes] | None:
    """Return how many entries, with which newest hash, the guard of an address says were shown; None if it has none."""
    found = Guard(ledger_file(url)).read()
    return None if found is None else (found.entries, found.head)
