"""Copies of a ledger's file: made while others publish, and put in its place when it is lost or older.

A file that somebody writes to is never copied as a file: SQLite copies what was committed at one moment. And where a copy is
put, no write-ahead log of another file may lie, as SQLite would take it for the copy's own.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from halflife.errors import LedgerError
from halflife.ledger.guard import Guard, Shown
from halflife.ledger.lock import Lock
from halflife.ledger.sqlite.connect import connect_to_read, connect_to_write
from halflife.ledger.sqlite.faults import translate
from halflife.numerics.progress import Progress
from halflife.numerics.syncing import sync

PAGES = 2_000
"""So many pages are copied at a time, and then it is said how far it is."""
LOGS = ("-wal", "-journal")


class Copying:
    """A ledger's file, to be copied or replaced whole."""

    def __init__(self, path: Path) -> None:
        self.path = Path(os.path.realpath(path))
        self.folder = Path(f"{self.path}.restoring")

    @translate("cannot be copied")
    def copy_to(self, file: Path, progress: Progress) -> None:
        """Write all that is committed now into a new file without a log, for its owner alone, and wait until it is on disk."""
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        with closing(connect_to_read(self.path)[0]) as db, closing(sqlite3.connect(file, isolation_level=None)) as copy:
            db.execute("BEGIN")
            db.execute("SELECT count(*) FROM sqlite_master").fetchone()
            db.backup(copy, pages=PAGES, progress=lambda _, left, total: progress("copying", total - left, total))
            copy.execute("PRAGMA journal_mode = DELETE").fetchone()
        sync(file)

    @contextmanager
    def hold(self, wait: float) -> Iterator[None]:
        """Keep every writer away from the ledger's place, and make a private folder beside it for what shall lie there."""
        self._make_folder(self.path.parent)
        with Lock(self.path).exclusive(wait, lambda: False):
            shutil.rmtree(self.folder, ignore_errors=True)  # what a killed restore has left
            self._make_folder(self.folder)
            try:
                yield
            finally:
                shutil.rmtree(self.folder, ignore_errors=True)

    @translate("the folder beside it cannot be made")
    def _make_folder(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    @translate("cannot be replaced by the copy")
    def replace_by(self, copy: Path, shown: Shown) -> None:
        """Put a copy in the ledger's place; `shown` is written beside it first, if nothing says yet how much was shown."""
        if self.path.exists():
            with closing(connect_to_write(self.path)) as db:
                db.execute("PRAGMA journal_mode = DELETE").fetchone()
        for log in (Path(f"{file}{ending}") for file in (self.path, copy) for ending in LOGS):
            if log.exists():
                raise LedgerError(
                    f"{log} lies there and may belong to another file: let whoever reads the ledger finish, or move "
                    "it away, and keep it"
                )
        guard = Guard(self.path)
        if guard.read() is None:
            guard.write(shown)
        os.replace(copy, self.path)
        sync(self.path.parent)
