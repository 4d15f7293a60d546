"""The ledger in one SQLite file: write-ahead log, synchronous FULL, one transaction for a batch of steps.

Draws, noisy values, losses, the account, the state of mechanisms and smoothers, and the chain of hashes are committed together
before anything can be seen. The file may hold secrets (noise that is to be used again): only its owner can read it.

Whoever writes holds the ledger's lock, so writers queue; within a transaction the chain's head is compared once more, so
that even without the lock nothing could be written twice.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Self

from halflife.errors import LedgerError
from halflife.ledger.base import OPERATOR
from halflife.ledger.entry import Entry, batch_link, digest
from halflife.ledger.guard import Guard, Shown
from halflife.ledger.guarded import GuardedLedger
from halflife.ledger.lock import Lock
from halflife.ledger.rows import STDOUT, entry_rows, release_rows
from halflife.ledger.sqlite.connect import (
    PATIENCE,
    Stamp,
    connect_to_read,
    connect_to_write,
    make_private,
    stamp_of,
)
from halflife.ledger.sqlite.faults import translate
from halflife.ledger.sqlite.reading import Reader
from halflife.ledger.sqlite.schema import prepare


class SqliteLedger(Reader, GuardedLedger):
    """One population's ledger in a file. See `halflife.ledger.base.Ledger`."""

    def __init__(self, path: Path, *, read_only: bool = False, patience: float = PATIENCE) -> None:
        self.path = path
        self._lock, self._guard = Lock(path), Guard(path)
        self._unwritten: Stamp | None = None
        self._open(read_only, patience)
        self._head: bytes | None = None
        self._held = False
        self._shown: Shown | None = None

    @translate("cannot be opened")
    def _open(self, read_only: bool, patience: float) -> None:
        self._guard.refuse_lost(os.path.exists(self.path))
        if read_only:
            self._db, self._unwritten = connect_to_read(self.path, patience)
        else:
            self._db = connect_to_write(self.path)
        self._identity = stamp_of(self.path)[:2]

    @property
    def scratch(self) -> Path:
        """The folder of the ledger, which is private already."""
        return self.path.parent

    @property
    def operator_file(self) -> Path:
        """The file beside the ledger for counts of bad, late and clipped readings."""
        return Path(f"{self.path}{OPERATOR}")

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # Holding

    @contextmanager
    def hold(self, wait: float = 10.0, stop: Callable[[], bool] = lambda: False) -> Iterator[None]:
        """Take the ledger's lock, waiting up to so many seconds for another process; a process that dies lets go of it."""
        if self._held:
            raise LedgerError(f"{self.path}: this process holds the ledger already")
        with self._lock.exclusive(wait, stop):
            self._check_place()
            try:
                self._held = True
                yield
            finally:
                self._held = False

    @translate("is gone")
    def _check_place(self) -> None:
        """The lock goes by the path, so the open file must still be the one that lies there."""
        if stamp_of(self.path)[:2] != self._identity:
            raise LedgerError(f"{self.path}: another file was put in its place since it was opened: open it again")

    def showing(self) -> AbstractContextManager[None]:
        """Do nothing: nobody takes over from whoever has the lock."""
        return nullcontext()

    @contextmanager
    def snapshot(self, wait: float | None = 10.0) -> Iterator[None]:
        """Keep writers away while this block runs, and read from now on what the ledger holds now, whoever writes later.

        `wait` None: no lock is taken; what is read is what was committed last.
        """
        with nullcontext() if wait is None else self._lock.shared(wait):
            self._begin_reading()
            yield

    def writer(self) -> str | None:
        """Return who has signed the lock, if that process lives. The lock is not touched."""
        return self._lock.holder()

    @translate("cannot be read")
    def _begin_reading(self) -> None:
        self._db.execute("BEGIN")
        self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()

    @translate("is gone")
    def check_unwritten(self) -> None:
        """Refuse what was read of a file that nobody was to write to, and somebody did."""
        if self._unwritten is not None and stamp_of(self.path) != self._unwritten:
            raise LedgerError(f"{self.path}: was written to while it was read: run again")

    # Writing

    @translate("cannot be written")
    def _prepare(self) -> None:
        """Refuse what is no ledger and leave it as it is; make of an empty file a ledger, and of a ledger one that is private."""
        self._check_tables()
        make_private(self.path)
        self._db.execute("PRAGMA journal_mode = WAL")
        prepare(self._db)

    @translate("cannot be written")
    def _replace_facts(self, facts: Mapping[str, str]) -> None:
        if self.begun() != dict(facts):
            with self._db:
                self._db.execute("BEGIN IMMEDIATE")
                self._db.execute("DELETE FROM fact")
                self._db.executemany("INSERT INTO fact VALUES (?, ?)", sorted(facts.items()))

    @translate("could not be written, so nothing was spent or published")
    def commit(self, entries: Sequence[Entry], states: Mapping[str, str], at_us: int, event: str | None = None) -> None:
        """Write a batch of steps, or an event, with all that goes with them, or nothing at all."""
        if not self._held:
            raise LedgerError(f"{self.path}: hold the ledger before writing to it")
        if event is not None and entries:
            raise LedgerError(f"{self.path}: a batch holds entries or an event, not both")
        with self._db:
            self._db.execute("BEGIN IMMEDIATE")
            if self._read_head() != self._head:
                raise LedgerError(f"{self.path}: another process has written to it: nothing was published; run again")
            last = self._last_entry()
            if event is not None and not last:
                raise LedgerError(
                    f"{self.path}: nothing was published yet: there is nothing that an event could follow"
                )
            chain = self._insert(entries, last + 1)
            self._db.executemany("INSERT OR REPLACE INTO state VALUES (?, ?)", sorted(states.items()))
            saved = digest(self.states().items())
            head = batch_link(chain, at_us, saved, event)
            if event is None:
                self._db.execute("INSERT INTO batch VALUES (?, ?, ?, ?)", (last + len(entries), at_us, saved, head))
            else:
                row = (last, at_us, event, saved, head)
                self._db.execute(
                    "INSERT INTO event (last_entry, at_us, body, states, chain) VALUES (?, ?, ?, ?, ?)", row
                )
        self._head = head

    @translate("cannot be cleared of what was deleted from it")
    def erase_deleted(self) -> None:
        """Write the file anew without its free pages, and empty the write-ahead log; one that is read now is emptied later.

        Of what is replaced from now on nothing is left anyway (secure_delete). The copy on the way is in memory.
        """
        for statement in (
            "PRAGMA temp_store = MEMORY",
            "VACUUM",
            "PRAGMA busy_timeout = 0",
            "PRAGMA wal_checkpoint(TRUNCATE)",
        ):
            self._db.execute(statement).fetchall()
        self._db.execute(f"PRAGMA busy_timeout = {round(1000 * PATIENCE)}")

    def _insert(self, entries: Sequence[Entry], first: int) -> bytes:
        """Insert entries and their releases; return the chain's newest link."""
        assert self._head is not None
        links = [self._head]
        self._db.executemany(f"INSERT INTO entry VALUES ({','.join('?' * 11)})", entry_rows(entries, first, links))
        self._db.executemany(f"INSERT INTO release VALUES ({','.join('?' * 11)})", release_rows(entries, first))
        return links[-1]

    @translate("cannot be written")
    def mark_written(self, stream: str, file: str, step: int, sha256: bytes, beside: int | None = None) -> None:
        """Remember the digest of a file of an output that ends with a step.

        What was remembered of the file is forgotten, but for the step `beside`: what lies in its place until it is replaced.
        """
        with self._db:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.execute(
                "DELETE FROM written WHERE stream = ? AND file = ? AND step IS NOT ?", (stream, file, beside)
            )
            self._db.execute("INSERT OR REPLACE INTO written VALUES (?, ?, ?, ?)", (stream, file, step, sha256))

    def mark_printed(self, stream: str, step: int) -> None:
        """Remember up to which step a stream was written to the standard output, which nobody can read back."""
        self.mark_written(stream, STDOUT, step, *self._step_link(stream, step))
