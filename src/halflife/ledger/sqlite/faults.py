"""What SQLite and the system report, in our own words.

A driver's text may quote a cell, and cells hold noise that is used again: a secret. So no such text is passed on, only what its
code means and what to do; and refusals are raised after the `except`, so that not even their context holds the driver's.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from halflife.errors import LedgerError
from halflife.ledger.base import LedgerBusy
from halflife.ledger.system import explain_system

P = ParamSpec("P")
R = TypeVar("R")

_DAMAGED = "it is damaged: put a whole copy back, the newest one, and see `halflife verify`"
_BY_CODE = {
    sqlite3.SQLITE_ERROR: f"its tables are not those of a ledger: {_DAMAGED}",
    sqlite3.SQLITE_PERM: "it may not be opened: look at the path and its permissions",
    sqlite3.SQLITE_BUSY: "another program holds it: let it finish",
    sqlite3.SQLITE_LOCKED: "another program holds it: let it finish",
    sqlite3.SQLITE_NOMEM: "there is not enough memory for what it says it holds: it may be damaged; see `halflife verify`",
    sqlite3.SQLITE_READONLY: "it is read-only: make the file and its folder writable",
    sqlite3.SQLITE_IOERR: "the disk fails, is full, or the file larger than allowed: look at the disk",
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_FULL: "the disk is full: make room on the disk and run again",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened: look at the path, its permissions and those of its folder",
    sqlite3.SQLITE_PROTOCOL: "another program holds it: let it finish",
    sqlite3.SQLITE_SCHEMA: f"its tables are not those of a ledger: {_DAMAGED}",
    sqlite3.SQLITE_TOOBIG: f"a cell is larger than any that was written: {_DAMAGED}",
    sqlite3.SQLITE_MISMATCH: f"a cell is of another kind: {_DAMAGED}",
    sqlite3.SQLITE_NOTADB: "it is not a database, so no ledger: give another path",
}
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL)


class _Named(Protocol):
    @property
    def path(self) -> Path: ...


N = TypeVar("N", bound=_Named)


def explain(error: Exception) -> str:
    """Return what an error of SQLite or the system means, and what to do about it; nothing of SQLite's own text.

    >>> explain(sqlite3.OperationalError("Could not decode to UTF-8 column 'value' with text '8.25'"))
    'a cell holds what cannot be read: it is damaged: put a whole copy back, the newest one, and see `halflife verify`'
    """
    if isinstance(error, OSError):
        return explain_system(error)
    if isinstance(error, MemoryError):
        return _BY_CODE[sqlite3.SQLITE_NOMEM]
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:
        return f"a cell holds what cannot be read: {_DAMAGED}"
    return _BY_CODE.get(code & 0xFF, f"SQLite refuses it (code {code}): look at the file and its folder")


def translate(what: str) -> Callable[[Callable[Concatenate[N, P], R]], Callable[Concatenate[N, P], R]]:
    """Make a ledger's method raise our own error, with the file and the next step, for those of SQLite and the system."""

    def around(method: Callable[Concatenate[N, P], R]) -> Callable[Concatenate[N, P], R]:
        @wraps(method)
        def translated(self: N, /, *args: P.args, **more: P.kwargs) -> R:
            try:
                return method(self, *args, **more)
            except sqlite3.IntegrityError:
                refusal = LedgerError(f"{self.path}: refused to write a step twice: nothing was published")
            except (sqlite3.Error, OSError, MemoryError, UnicodeError) as error:
                kind = LedgerBusy if getattr(error, "sqlite_errorcode", 0) & 0xFF in _BUSY else LedgerError
                refusal = kind(f"{self.path}: {what}: {explain(error)}")
            raise refusal

        return translated

    return around


def decode(raw: bytes) -> str:
    """Return a cell's text; refuse one that is not UTF-8, and say nothing of it."""
    try:
        return raw.decode()
    except UnicodeDecodeError:  # it holds the cell
        refusal = sqlite3.DataError("a text that is not UTF-8")
    raise refusal
