"""The ledger in a schema of a PostgreSQL server: serialisable transactions, one writer by a lease, fenced within each commit.

Draws, noisy values, losses, the account, the state of mechanisms and smoothers, and the chain of hashes are committed together
before anything can be seen. How much was shown is guarded in a file outside the database, which no restored dump takes along.

A transaction that the server rolls back as another went first, or whose connection is lost, is run again with the same entries:
noise is never drawn for it again. If the connection was lost while it was committed, nobody knows whether it was; so the next
attempt, which waits on the lease's row until the lost one has ended, looks whether the chain ends with its hash already.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

from halflife.errors import LedgerError, LedgerUnavailable
from halflife.ledger.base import OPERATOR, LedgerBusy, is_secret
from halflife.ledger.entry import Entry, batch_link, digest
from halflife.ledger.guard import Guard, Shown
from halflife.ledger.guarded import GuardedLedger
from halflife.ledger.lock import Lock
from halflife.ledger.postgresql.faults import REPEATED, import_driver, is_lost, translate
from halflife.ledger.postgresql.lease import Lease
from halflife.ledger.postgresql.reading import Reader
from halflife.ledger.postgresql.schema import KINDS, VERSION, migrate, read_version
from halflife.ledger.postgresql.url import Server
from halflife.ledger.rows import STDOUT, Row, entry_rows, release_rows

ATTEMPTS = 20
"""How often a transaction is run at most before it is refused."""
PATIENCE = 0.02


class PostgresLedger(Reader, GuardedLedger):
    """One population's ledger on a server. See `halflife.ledger.base.Ledger`."""

    def __init__(self, server: Server, *, read_only: bool = False) -> None:
        import_driver()
        self._server, self._read_only = server, read_only
        self._lease = Lease(server)
        self._guard, self._outputs = Guard(server.beside, server.name), Lock(server.beside, server.name)
        self._whole = self._inner = False
        self._head: bytes | None = None
        self._tried: bytes | None = None
        self._shown: Shown | None = None
        self._open()

    @translate("cannot be opened")
    def _open(self) -> None:
        self._connect()
        try:
            version = self._name_refusal(lambda: read_version(self._db, self._server.schema))
            self._guard.refuse_lost(version > 0, "no such ledger")
            if not version and self._read_only:
                raise LedgerError(f"{self.name}: no such ledger: publish first, or correct the address")
            if not self._read_only:
                self._server.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                if not version:
                    self._name_refusal(lambda: migrate(self._db, self._server.schema))
        except BaseException:
            self._db.close()
            raise

    @property
    def scratch(self) -> Path:
        """The folder of this machine for the ledger, which is private."""
        return self._server.folder

    @property
    def operator_file(self) -> Path:
        """The file in that folder for counts of bad, late and clipped readings."""
        return Path(f"{self._server.beside}{OPERATOR}")

    def close(self) -> None:
        """Let go of the connection, for good."""
        self._whole = True
        self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # Holding

    @contextmanager
    def hold(self, wait: float = 10.0, stop: Callable[[], bool] = lambda: False) -> Iterator[None]:
        """Take the lease, waiting up to so many seconds for another process; of one that dies it is taken over."""
        if self._read_only:
            raise LedgerError(f"{self.name}: was opened to be read: nothing can be written")
        if self._lease.token is not None:
            raise LedgerError(f"{self.name}: this process holds the ledger already")
        self._take(wait, stop)
        try:
            yield
        finally:
            self._lease.release(self._db)

    @translate("cannot be written")
    def _take(self, wait: float, stop: Callable[[], bool]) -> None:
        self._again(lambda: self._lease.take(self._db, wait, stop))

    @contextmanager
    def showing(self) -> Iterator[None]:
        """Be the only one on this machine that shows anything while this block runs, and surely the one that holds the ledger.

        Whoever was taken over from, and wakes up with values to be written, is refused here: the other has written them.
        """
        with self._outputs.exclusive(self._server.lease, lambda: False):
            self._check_lease()
            yield

    @translate("cannot be read")
    def _check_lease(self) -> None:
        if self._lease.token is not None:
            self._again(lambda: self._lease.check(self._db))

    @contextmanager
    def snapshot(self, wait: float | None = 10.0) -> Iterator[None]:
        """Keep writers away while this block runs, and read from now on what the ledger holds now, whoever writes later.

        `wait` None: nobody is waited for; what is read is what was committed last.
        """
        if wait is not None:
            self._keep_away(wait)
        try:
            self._begin_reading()
            yield
        finally:
            if wait is not None:
                self._let_on()

    @translate("cannot be read")
    def _keep_away(self, wait: float) -> None:
        self._again(lambda: self._lease.keep_away(self._db, wait))

    def _let_on(self) -> None:
        """Let writers on. A transaction that failed, or a lost connection, lets them on when the ledger is closed."""
        import psycopg

        with suppress(psycopg.Error):
            self._lease.let_on(self._db)

    @translate("cannot be read")
    def _begin_reading(self) -> None:
        self._db.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        self._db.execute("SELECT count(*) FROM migration").fetchone()
        self._whole = True

    @translate("cannot be read")
    def writer(self) -> str | None:
        """Return who has the lease, if its session lives and it has not run out."""
        return self._again(lambda: self._lease.find_holder(self._db))

    def check_unwritten(self) -> None:
        """Refuse nothing: what is read in a transaction is of one moment."""

    # Writing

    def prepare(self) -> None:
        """Bring the tables up to this version, for whoever owns them and publishes nothing."""
        self._check_held()
        self._prepare()

    @translate("cannot be written")
    def _prepare(self) -> None:
        """Bring the tables up to this version, and refuse those that are not a ledger's."""
        self._name_refusal(lambda: migrate(self._db, self._server.schema))
        if self._compare_tables() != VERSION:
            raise LedgerError(f"{self.name}: its tables are gone: put a whole copy back, the newest one")

    def _replace_facts(self, facts: Mapping[str, str]) -> None:
        if self.begun() != dict(facts):

            def write() -> None:
                self._db.execute("DELETE FROM fact")
                self._db.cursor().executemany("INSERT INTO fact VALUES (%s, %s)", sorted(facts.items()))

            self._check_held()
            self._write(write)

    def _check_held(self) -> None:
        if self._lease.token is None:
            raise LedgerError(f"{self.name}: hold the ledger before writing to it")

    def commit(self, entries: Sequence[Entry], states: Mapping[str, str], at_us: int, event: str | None = None) -> None:
        """Write a batch of steps, or an event, with all that goes with them, or nothing at all."""
        self._check_held()
        if event is not None and entries:
            raise LedgerError(f"{self.name}: a batch holds entries or an event, not both")
        if self._guard.read() != self._shown:
            raise LedgerError(
                f"{self.name}: another process has shown what this one does not know of, says {self._guard.file}: nothing was "
                "published; run again"
            )
        self._tried = None
        self._write(lambda: self._write_batch(entries, states, at_us, event))
        self._head = self._tried

    def _write_batch(self, entries: Sequence[Entry], states: Mapping[str, str], at_us: int, event: str | None) -> None:
        """Write a batch within a transaction; nothing, if an attempt whose end nobody heard of has written it."""
        now = self._read_head()
        if self._tried is not None and now == self._tried:
            return
        if now != self._head:
            raise LedgerError(f"{self.name}: another process has written to it: nothing was published; run again")
        last = self._last_entry()
        if event is not None and not last:
            raise LedgerError(f"{self.name}: nothing was published yet: there is nothing that an event could follow")
        chain = self._insert(entries, last + 1)
        for name, value in sorted(states.items()):
            table = "kept" if is_secret(name) else "state"
            insert = f"INSERT INTO {table} VALUES (%s, %s) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
            self._db.execute(insert, (name, value))
        saved = digest(self.states().items())
        head = batch_link(chain, at_us, saved, event)
        if event is None:
            self._db.execute("INSERT INTO batch VALUES (%s, %s, %s, %s)", (last + len(entries), at_us, saved, head))
        else:
            insert = "INSERT INTO event SELECT coalesce(max(number), 0) + 1, %s, %s, %s, %s, %s FROM event"
            self._db.execute(insert, (last, at_us, event, saved, head))
        self._tried = head

    def _insert(self, entries: Sequence[Entry], first: int) -> bytes:
        """Insert entries and their releases; return the chain's newest link."""
        assert self._head is not None
        links = [self._head]
        self._copy_in("entry", entry_rows(entries, first, links))
        self._copy_in("release", release_rows(entries, first))
        return links[-1]

    def _copy_in(self, table: str, rows: Iterable[Row]) -> None:
        with self._db.cursor() as cursor, cursor.copy(f"COPY {table} FROM STDIN (FORMAT BINARY)") as copy:
            copy.set_types(KINDS[table])
            for row in rows:
                copy.write_row(row)

    @translate("could not be written, so nothing was spent or published")
    def _write(self, write: Callable[[], None]) -> None:
        """Run what writes in one serialisable transaction, fenced by the lease, until it is committed or refused."""
        import psycopg

        doubtful = False
        for attempt in range(ATTEMPTS):
            try:
                with self._in_one(), self._db.transaction():
                    if self._lease.token is not None:
                        self._lease.confirm(self._db)
                    write()
                return
            except psycopg.Error as error:
                lost = is_lost(error)
                if not lost and error.sqlstate not in REPEATED:
                    if doubtful:
                        break
                    raise
            doubtful = doubtful or lost
            if lost and not self._find_server():
                break
            time.sleep(PATIENCE * attempt)
        if doubtful:
            raise LedgerUnavailable(
                f"{self.name}: the connection was lost while it was written to, and could not be made again within "
                f"{self._server.lease:g} s: whether that was committed is not known, and nothing of it was shown. Run again when "
                "the server is there, which finds out; no noise is drawn twice"
            )
        raise LedgerBusy(f"{self.name}: others wrote first {ATTEMPTS} times: nothing was written; run again")

    def _find_server(self) -> bool:
        """Connect again; return whether the server came back within a lease's time."""
        import psycopg

        try:
            self._connect_again()
        except psycopg.Error:
            return False
        return True

    @translate("cannot be cleared of what was deleted from it")
    def erase_deleted(self) -> None:
        """Write the tables of states anew, if this user owns them and nobody reads them; else the server clears them, later.

        What the server's log and its archives still hold is not erased by anybody here: noise is sealed before it gets there.
        """
        import psycopg

        if self._one("SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = to_regclass('kept')") != (True,):
            return
        self._db.execute("SET lock_timeout = '100ms'")
        try:
            for table in ("kept", "state"):
                self._db.execute(f"VACUUM (FULL) {table}")
        except psycopg.errors.LockNotAvailable:
            return  # somebody reads
        finally:
            self._db.execute(f"SET lock_timeout = '{round(1000 * self._server.lease)}ms'")

    def mark_written(self, stream: str, file: str, step: int, sha256: bytes, beside: int | None = None) -> None:
        """Remember the digest of a file of an output that ends with a step.

        What was remembered of the file is forgotten, but for the step `beside`: what lies in its place until it is replaced.
        """

        def write() -> None:
            delete = "DELETE FROM written WHERE stream = %s AND file = %s AND step IS DISTINCT FROM %s"
            self._db.execute(delete, (stream, file, beside))
            self._db.execute(
                "INSERT INTO written VALUES (%s, %s, %s, %s) ON CONFLICT (stream, file, step) DO UPDATE SET sha256 = "
                "excluded.sha256",
                (stream, file, step, sha256),
            )

        self._write(write)

    def mark_printed(self, stream: str, step: int) -> None:
        """Remember up to which step a stream was written to the standard output, which nobody can read back."""
        self.mark_written(stream, STDOUT, step, *self._step_link(stream, step))
