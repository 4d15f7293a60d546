"""Copies of a ledger on a server: its rows in an SQLite file, made while others publish, and put back into a schema.

A copy has the same rows, so the same chain of hashes, in a form that is opened without a server. So a backup of one kind of
ledger can be restored as the other.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from halflife.errors import LedgerError
from halflife.ledger.base import is_secret
from halflife.ledger.guard import Guard, Shown
from halflife.ledger.postgresql.connect import connect
from halflife.ledger.postgresql.faults import import_driver, translate
from halflife.ledger.postgresql.lease import Lease
from halflife.ledger.postgresql.schema import KINDS, TABLES, check_tables, migrate
from halflife.ledger.postgresql.url import Server
from halflife.ledger.rows import BLOCK
from halflife.ledger.sqlite.connect import connect_to_read
from halflife.ledger.sqlite.schema import prepare
from halflife.numerics.progress import Progress
from halflife.numerics.syncing import sync

if TYPE_CHECKING:
    from halflife.ledger.postgresql.connect import Connection

Rows = Iterator[tuple[Any, ...]]


class Copying:
    """A ledger on a server, to be copied or replaced whole."""

    def __init__(self, server: Server) -> None:
        import_driver()
        self._server, self._lease = server, Lease(server)
        self._inner = False
        self._opened: Connection | None = None
        self.folder = Path(f"{os.path.realpath(server.beside)}.restoring")

    @property
    def name(self) -> str:
        """What messages call the ledger."""
        return self._server.name

    @property
    def _db(self) -> Connection:
        """The connection, while the ledger is held."""
        assert self._opened is not None
        return self._opened

    @translate("cannot be copied")
    def copy_to(self, file: Path, progress: Progress) -> None:
        """Write all that is committed now into a new SQLite file, for its owner alone, and wait until it is on disk."""
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        with (
            closing(connect(self._server, read_only=True)) as db,
            closing(sqlite3.connect(file, isolation_level=None)) as copy,
        ):
            self._check(db)
            prepare(copy)
            db.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            total = sum(_count(db, table) for table in TABLES)
            copy.execute("BEGIN")
            done = 0
            for table in TABLES:
                into = "state" if table == "kept" else table
                for rows in _read(db, table):
                    copy.executemany(f"INSERT INTO {into} VALUES ({','.join('?' * len(rows[0]))})", rows)
                    done += len(rows)
                    progress("copying", done, total)
            copy.execute("COMMIT")
        sync(file)

    def _check(self, db: Connection) -> None:
        try:
            version = check_tables(db, self._server.schema)
        except LedgerError as error:
            raise type(error)(f"{self.name}: {error}") from None
        if not version:
            raise LedgerError(f"{self.name}: no such ledger: publish first, or correct the address")

    @contextmanager
    def hold(self, wait: float) -> Iterator[None]:
        """Keep every writer away from the ledger's schema, which is made if it is not there, and make the folder for a copy."""
        try:
            self._begin(wait)
            yield
        finally:
            if self._lease.token is not None:  # else the folder is another restore's
                shutil.rmtree(self.folder, ignore_errors=True)
            if self._opened is not None:
                self._lease.release(self._opened)
                self._opened.close()

    @translate("cannot be held")
    def _begin(self, wait: float) -> None:
        try:
            self._opened = connect(self._server, read_only=False)
            migrate(self._opened, self._server.schema)
        except LedgerError as error:
            raise type(error)(f"{self.name}: {error}") from None
        self._lease.take(self._opened, wait, lambda: False)
        shutil.rmtree(self.folder, ignore_errors=True)  # what a killed restore has left
        self.folder.mkdir(mode=0o700, parents=True)

    @translate("cannot be replaced by the copy")
    def replace_by(self, copy: Path, shown: Shown) -> None:
        """Put the rows of a copy in the place of the ledger's; `shown` is noted first, if nothing says how much was shown."""
        guard = Guard(self._server.beside, self.name)
        if guard.read() is None:
            guard.write(shown)
        with closing(connect_to_read(copy)[0]) as source, self._db.transaction():
            self._lease.confirm(self._db)
            for table in reversed(TABLES):
                self._db.execute(f"DELETE FROM {table}")
            for table in TABLES:
                self._fill(table, source.execute(f"SELECT * FROM {'state' if table == 'kept' else table}"))

    def _fill(self, table: str, rows: Rows) -> None:
        with self._db.cursor() as cursor, cursor.copy(f"COPY {table} FROM STDIN (FORMAT BINARY)") as into:
            into.set_types(KINDS[table])
            for row in rows:
                if table not in ("state", "kept") or is_secret(row[0]) == (table == "kept"):
                    into.write_row(row)


def _count(db: Connection, table: str) -> int:
    return int((db.execute(f"SELECT count(*) FROM {table}").fetchone() or (0,))[0])


def _read(db: Connection, table: str) -> Iterator[list[tuple[Any, ...]]]:
    """The rows of a table, some at a time."""
    with db.cursor(f"halflife_copy_{table}") as cursor:
        cursor.execute(f"SELECT * FROM {table}", binary=True)
        while rows := cursor.fetchmany(BLOCK):
            yield rows
