"""Opening the ledger's file: private to its owner, a regular file, and readable too where nothing can be written."""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
from contextlib import suppress
from pathlib import Path

from halflife.errors import LedgerError
from halflife.ledger.base import OPERATOR_FILES

FILES = (
    "", "-wal", "-shm", "-journal", ".lock", ".shown", ".shown.new", ".behind", ".plans", ".plans.new", *OPERATOR_FILES,
)  # fmt: skip
"""What stands behind the ledger's path in the names of the files that are its own: all may be read by its owner alone."""

PATIENCE = 10.0
"""Seconds to wait for a program that holds the file."""

Stamp = tuple[int, int, int, int]
"""(device, inode, size, time of change) of a file."""


def connect_to_write(path: Path) -> sqlite3.Connection:
    """Open a file, or make an empty one. Nothing in it is changed: it may be somebody else's database.

    A file that is there is not opened beforehand: to close it again would drop this process's other locks on it (POSIX).
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        os.close(os.open(os.path.realpath(path), os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    _check_regular(path, os.stat(path))
    db = _set_up(sqlite3.connect(path, isolation_level=None, check_same_thread=False))
    for setting in ("synchronous = FULL", "secure_delete = ON"):
        db.execute(f"PRAGMA {setting}")
    return db


def connect_to_read(path: Path, patience: float = PATIENCE) -> tuple[sqlite3.Connection, Stamp | None]:
    """Open a file so that it cannot be written; with its stamp if SQLite is told that nobody else writes either.

    patience  seconds to wait for a program that keeps everybody else away

    SQLite reads a write-ahead log through a file that it makes beside it, so where nothing can be made (a read-only mount) it
    must be told that the file is all there is: true if there is no log. A writer that was killed while it made the ledger
    leaves a journal that SQLite rolls back at the next opening, for which it must write: so that opening is made first.
    """
    _check_regular(path, os.stat(path))
    stamp, address = stamp_of(path), path.resolve().as_uri()
    try:
        return _read_by(f"{address}?mode=ro", patience), None
    except sqlite3.OperationalError as error:
        code = error.sqlite_errorcode & 0xFF
        if code not in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN):
            raise
    logs = [f"{os.path.realpath(path)}{ending}" for ending in ("-wal", "-journal")]
    if not any(os.path.exists(log) and os.path.getsize(log) for log in logs):
        return _read_by(f"{address}?mode=ro&immutable=1", patience), stamp
    if code == sqlite3.SQLITE_CANTOPEN:
        raise LedgerError(
            f"{path}: has a write-ahead log (-wal), which cannot be read where nothing can be written: copy the ledger, its -wal "
            "and its .shown into a folder of your own, and verify the copy"
        )
    _read_by(f"{address}?mode=rw", patience).close()
    return _read_by(f"{address}?mode=ro", patience), None


def stamp_of(path: Path) -> Stamp:
    """Return what changes when a file is written to or replaced."""
    found = os.stat(path)
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def make_private(path: Path) -> None:
    """Take the files of a ledger that existed before away from everybody but their owner."""
    for place in {os.fspath(path), os.path.realpath(path)}:
        for ending in FILES:
            try:
                found = os.lstat(place + ending)
                if stat.S_ISREG(found.st_mode) and found.st_mode & 0o077:
                    os.chmod(place + ending, stat.S_IMODE(found.st_mode) & 0o700)
            except FileNotFoundError:
                continue


def _check_regular(path: Path, found: os.stat_result) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, "a folder")
    if not stat.S_ISREG(found.st_mode):
        raise LedgerError(f"{path}: is a pipe or a device, not a file: give the path of a ledger")


def _read_by(address: str, patience: float) -> sqlite3.Connection:
    return _set_up(sqlite3.connect(address, uri=True, isolation_level=None), patience)


def _set_up(db: sqlite3.Connection, patience: float = PATIENCE) -> sqlite3.Connection:
    """The same connection, set up and seen to read."""
    waits = f"busy_timeout = {round(1000 * patience)}"
    for setting in (waits, "trusted_schema = OFF", "foreign_keys = ON", "cell_size_check = ON"):
        db.execute(f"PRAGMA {setting}")
    db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    return db
