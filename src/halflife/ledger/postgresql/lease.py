"""Who may write to a ledger on a server: a lease, by the server's clock, with a token that every transaction is fenced by.

    take      a new random token, if nobody has the lease, its session is gone, or it was not renewed in time
    confirm   within the transaction of a commit: the token is still that of the fence, or nothing is committed
    renew     every third of the lease's time, by a thread with a connection of its own

The row of the fence stays locked from `confirm` to the end of the transaction, so nobody takes over between the two. Whoever
was stopped, cut off or slept for longer than the lease, and was taken over from, finds another token and commits nothing more. As
the session of a holder keeps an advisory lock of its token, a killed one is taken over from as soon as the server notices; in any
other case after the lease's time, and a session that is left then is ended, whatever it is in the middle of. No clock but the
server's decides anything.

Leases are those of C. Gray and D. Cheriton, Leases: an efficient fault-tolerant mechanism (1989); a number that late writers are
refused by is M. Burrows' sequencer, The Chubby lock service (2006).
"""

from __future__ import annotations

import hashlib
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from halflife.errors import LedgerError, LedgerUnavailable
from halflife.ledger.postgresql.connect import connect
from halflife.ledger.postgresql.url import Server

if TYPE_CHECKING:
    from halflife.ledger.postgresql.connect import Connection

PATIENCE = 0.02
"""Seconds between two looks at a lease that somebody else has."""
_READ = "SELECT token, holder, until > clock_timestamp() FROM lease"
_EXTEND = "UPDATE lease SET until = clock_timestamp() + make_interval(secs => %s) WHERE token = %s"
_LET_GO = "UPDATE lease SET token = NULL, holder = NULL, until = '-infinity' WHERE token = %s"
_END = """SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted AND mode = 'ExclusiveLock'
    AND pid <> pg_backend_pid()
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND classid = %s::bigint::oid AND objid = %s::bigint::oid AND objsubid = 1"""

_NO_ROW = (
    "the row of its table lease or fence, which say who may write, was deleted: put both back as the schema's owner (INSERT INTO "
    "lease VALUES (true, NULL, NULL, '-infinity') ON CONFLICT DO NOTHING; INSERT INTO fence VALUES (true, NULL, 0) ON CONFLICT "
    "DO NOTHING), and see `halflife verify`"
)


class Lease:
    """The lease of one ledger, as one session sees it. `token`: this session's, None if it does not hold it."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.token: uuid.UUID | None = None
        self._renewal: _Renewal | None = None
        self._lives = False

    @property
    def name(self) -> str:
        """What messages call the ledger."""
        return self._server.name

    def take(self, db: Connection, wait: float, stop: Callable[[], bool]) -> None:
        """Take the lease, waiting up to so many seconds for whoever has it, and up to its time for readers that keep us away."""
        begun = time.monotonic()
        while (other := self._try(db, mind_readers=time.monotonic() < begun + self._server.lease)) is not None:
            if stop():
                raise LedgerError(f"{self.name}: stopped while waiting for another process")
            if time.monotonic() >= begun + wait:
                raise LedgerUnavailable(
                    f"{self.name}: held by {other} after waiting {wait:g} s: let it finish, stop it, or wait longer; if it was "
                    f"killed, or does not answer, its place can be taken within {self._server.lease:g} s"
                )
            time.sleep(PATIENCE)
        self._renewal = _Renewal(self._server, self.token)

    def _try(self, db: Connection, mind_readers: bool) -> str | None:
        """Take the lease if that can be done now; else return who has it."""
        token = uuid.uuid4()
        with db.transaction():
            db.execute("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
            free = db.execute("SELECT 1 FROM fence FOR UPDATE SKIP LOCKED").fetchone()
            row = db.execute(_READ).fetchone()
            if row is None or db.execute("SELECT 1 FROM fence").fetchone() is None:
                raise LedgerError(f"{self.name}: {_NO_ROW}")
            known, holder, runs = row
            if known is not None and not runs:
                _end_session(db, known)
            if free is None:
                return str(holder or "another process")
            if known is not None and runs and not _lock(db, "pg_try_advisory_xact_lock", _key(known)):
                return str(holder)
            if mind_readers and not _lock(db, "pg_try_advisory_xact_lock", self._readers):
                return "a reader, which compares it with its outputs"
            _lock(db, "pg_try_advisory_lock", _key(token))
            db.execute("UPDATE fence SET token = %s", (token,))
            db.execute("UPDATE lease SET token = %s, holder = %s", (token, _sign()))
            db.execute(_EXTEND, (self._server.lease, token))
        self.token, self._lives = token, True
        return None

    def confirm(self, db: Connection) -> None:
        """Refuse, within a transaction, to go on if somebody else has taken over; else keep them away until it ends.

        The row is changed, not only locked: so an attempt that waited for another one's end does not go by what it saw before.
        """
        if db.execute("UPDATE fence SET commits = commits + 1 WHERE token = %s", (self.token,)).rowcount != 1:
            raise self._taken_over(db)
        if not self._lives:
            self.resume(db)

    def check(self, db: Connection) -> None:
        """Refuse to go on if somebody else has taken over by now."""
        row = db.execute(_READ).fetchone()
        if row is None or row[0] != self.token:
            raise self._taken_over(db)

    def _taken_over(self, db: Connection) -> LedgerError:
        row = db.execute(_READ).fetchone()
        who = "" if row is None or row[1] is None else f" ({row[1]})"
        return LedgerUnavailable(
            f"{self.name}: this process did not answer within the lease of {self._server.lease:g} s, and another one has "
            f"taken over{who}: nothing more was published by this one; run again"
        )

    def resume(self, db: Connection) -> None:
        """Show on a new connection that the holder lives, if there is one."""
        if self.token is not None:
            self._lives = _lock(db, "pg_try_advisory_lock", _key(self.token))

    def release(self, db: Connection) -> None:
        """Let go. If the server cannot be told, it finds out when the session ends, or the lease does."""
        import psycopg

        if self._renewal is not None:
            self._renewal.end()
        token, self.token, self._renewal = self.token, None, None
        if token is not None:
            with suppress(psycopg.Error):
                with db.transaction():
                    db.execute("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
                    db.execute("UPDATE fence SET token = NULL WHERE token = %s", (token,))
                    db.execute(_LET_GO, (token,))
                _lock(db, "pg_advisory_unlock", _key(token))

    # Readers

    def find_holder(self, db: Connection) -> str | None:
        """Return who has the lease and seems to live, None if nobody."""
        token, holder, runs = db.execute(_READ).fetchone() or (None, None, False)
        if token is None or not runs:
            return None
        if token != self.token and _lock(db, "pg_try_advisory_xact_lock_shared", _key(token)):
            return None  # its session is gone
        return str(holder)

    def keep_away(self, db: Connection, wait: float) -> None:
        """Keep writers away from now on, after waiting up to so many seconds for one."""
        end = time.monotonic() + wait
        while (holder := self._begin_keeping(db)) is not None:
            if time.monotonic() >= end:
                raise LedgerUnavailable(
                    f"{self.name}: held by {holder} after waiting {wait:g} s: let it finish, stop it, or wait longer"
                )
            time.sleep(PATIENCE)

    def let_on(self, db: Connection) -> None:
        """Keep writers away no longer."""
        _lock(db, "pg_advisory_unlock_shared", self._readers)

    def _begin_keeping(self, db: Connection) -> str | None:
        """Keep writers away; if one writes, do not, and return who."""
        if not _lock(db, "pg_try_advisory_lock_shared", self._readers):
            return "another process, which begins to write"
        holder = self.find_holder(db)
        if holder is not None:
            _lock(db, "pg_advisory_unlock_shared", self._readers)
        return holder

    @property
    def _readers(self) -> int:
        return _number(hashlib.sha256(f"halflife readers {self._server.schema}".encode()).digest())


class _Renewal:
    """A thread that renews a lease until it ends, on a connection that it makes when it is needed first."""

    def __init__(self, server: Server, token: uuid.UUID | None) -> None:
        self._server, self._token, self._over = server, token, threading.Event()
        self._thread = threading.Thread(target=self._run, name="halflife lease", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        db, beat = None, self._server.lease / 3
        while not self._over.wait(beat):
            db, beat = self._renew(db)
        if db is not None:
            db.close()

    def _renew(self, db: Connection | None) -> tuple[Connection | None, float]:
        """Renew once; return the connection and how long to wait. What fails is tried again soon: a commit tells in the end."""
        import psycopg

        try:
            if db is None:
                db = connect(self._server, read_only=False)
                db.execute("SET default_transaction_isolation = 'read committed'")
            if db.execute(_EXTEND, (self._server.lease, self._token)).rowcount != 1:
                self._over.set()
        except (psycopg.Error, LedgerError):
            if db is not None:
                db.close()
            return None, self._server.lease / 15
        return db, self._server.lease / 3

    def end(self) -> None:
        self._over.set()
        self._thread.join(timeout=1.0)


def _lock(db: Connection, function: str, key: int) -> bool:
    """Ask for, or let go of, an advisory lock; return whether that was done."""
    return bool((db.execute(f"SELECT {function}(%s)", (key,)).fetchone() or (False,))[0])


def _end_session(db: Connection, token: uuid.UUID) -> None:
    """End the session that holds a token whose lease has run out, and with it a transaction that nobody will finish.

    One of a user whose sessions this one may not end is left: as long as it keeps the fence nobody takes over, and no longer.
    """
    import psycopg

    key = int.from_bytes(token.bytes[:8], "big")
    with suppress(psycopg.errors.InsufficientPrivilege), db.transaction():
        db.execute(_END, (key >> 32, key & 0xFFFFFFFF))


def _key(token: uuid.UUID) -> int:
    return _number(token.bytes)


def _number(raw: bytes) -> int:
    return int.from_bytes(raw[:8], "big", signed=True)


def _sign() -> str:
    return f"process {os.getpid()} on {socket.gethostname()} since {time.strftime('%Y-%m-%d %H:%M:%S')}"
