"""How a ledger in an SQLite file is asked: one connection, and answers that are read some rows at a time."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from halflife.errors import LedgerError
from halflife.ledger.rows import BLOCK, RowReader
from halflife.ledger.sqlite.faults import decode, translate
from halflife.ledger.sqlite.schema import VERSION, check_tables


class Reader(RowReader):
    """The part of a ledger that reads, on a connection that `SqliteLedger` opens."""

    path: Path
    _db: sqlite3.Connection

    @property
    def name(self) -> str:
        """What messages call the ledger: its path."""
        return str(self.path)

    @translate("cannot be read")
    def states(self) -> dict[str, str]:
        """Return the newest states: of the account, mechanisms and smoothers. They are read as bytes: some are secret."""
        rows = self._db.execute("SELECT CAST(name AS BLOB), CAST(value AS BLOB) FROM state").fetchall()
        return {decode(name or b""): decode(value or b"") for name, value in rows}

    def find_damage(self) -> str | None:
        """Say whether the file is not whole, by SQLite's own check, or its tables are not a ledger's; None if all is well."""
        try:
            if not self._check_tables():
                return f"{self.path}: is empty: publish first"
            whole = self._all("PRAGMA integrity_check(1)") == [("ok",)]
        except LedgerError as error:
            return str(error)
        return None if whole else f"{self.path}: the file is damaged: put a whole copy back, the newest one"

    @translate("cannot be read")
    def _check_tables(self) -> int:
        try:
            return check_tables(self._db)
        except LedgerError as error:
            raise type(error)(f"{self.path}: {error}") from None

    def _has_events(self) -> bool:
        """Whether there is a table of events; tables are checked when a ledger is opened."""
        return self._number("PRAGMA user_version") == VERSION

    @translate("cannot be read")
    def _one(self, query: str, *arguments: object) -> tuple[Any, ...]:
        row = self._db.execute(query, arguments).fetchone()
        return () if row is None else tuple(row)

    @translate("cannot be read")
    def _all(self, query: str, *arguments: object) -> list[tuple[Any, ...]]:
        return self._db.execute(query, arguments).fetchall()

    def _rows(self, query: str, *arguments: object) -> Iterator[tuple[Any, ...]]:
        cursor = self._ask(query, arguments)
        while rows := self._more(cursor):
            yield from rows

    @translate("cannot be read")
    def _ask(self, query: str, arguments: Sequence[Any]) -> sqlite3.Cursor:
        return self._db.execute(query, arguments)

    @translate("cannot be read")
    def _more(self, cursor: sqlite3.Cursor) -> list[tuple[Any, ...]]:
        return cursor.fetchmany(BLOCK)
