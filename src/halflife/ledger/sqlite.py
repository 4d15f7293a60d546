"""The ledger in one SQLite file: write-ahead log, synchronous FULL, one transaction for a batch of steps.

Draws, noisy values, losses, the account, the state of mechanisms and smoothers, and the chain of hashes are committed together
before anything can be seen. The file may hold secrets (noise that is to be used again): only its owner can read it.

Whoever writes holds the ledger's lock, so writers queue; within a transaction the chain's head is compared once more, so
that even without the lock nothing could be written twice.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from halflife.errors import InvalidInput, LedgerError
from halflife.ledger.entry import Entry, batch_link, digest, first_link, from_bytes, to_bytes
from halflife.ledger.schema import prepare
from halflife.release import Release

PATIENCE = 0.005


class SqliteLedger:
    """One population's ledger. `hold` it to write; reading needs no lock."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path = path
        with self._telling("cannot be opened"):
            self._db = _connect(path, read_only)
            self._identity = _identity(path)
        self._head: bytes | None = None
        self._lock: int | None = None
        self._shown = 0

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()

    def __enter__(self) -> SqliteLedger:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @contextmanager
    def _telling(self, what: str) -> Iterator[None]:
        """Turn SQLite's errors into ours, with the file and the next step."""
        try:
            yield
        except sqlite3.IntegrityError as error:
            raise LedgerError(f"{self.path}: refused to write a step twice ({error}): nothing was published") from error
        except (sqlite3.DatabaseError, OSError, UnicodeDecodeError) as error:
            raise LedgerError(f"{self.path}: {what}: {_next_step(str(error))}") from error

    # Holding --------------------------------------------------------------------------------------------------------

    @contextmanager
    def hold(self, wait: float = 10.0, stop: Callable[[], bool] = lambda: False) -> Iterator[None]:
        """Take the ledger's lock, waiting up to so many seconds for another process; a process that dies lets go of it.

        The lock's file also remembers how many entries were shown to readers. A ledger that holds fewer is a restored
        backup: its noise would be drawn again, so it is refused.
        """
        if self._lock is not None:
            raise LedgerError(f"{self.path}: this process holds the ledger already")
        with self._locked(fcntl.LOCK_EX, wait, stop) as lock:
            self._check_place()
            try:
                self._lock = lock
                self._shown = _read_shown(lock)
                self._write_lock()
                yield
            finally:
                self._lock = None

    @contextmanager
    def shared(self, wait: float = 10.0) -> Iterator[None]:
        """Keep writers away while reading, so that ledger and outputs are of one moment. A copy without a lock has none."""
        if not os.path.exists(self._lock_name):
            yield
            return
        with self._locked(fcntl.LOCK_SH, wait, lambda: False):
            yield

    @property
    def _lock_name(self) -> str:
        """The lock lies beside the file itself, so that a link to it has the same one."""
        return f"{os.path.realpath(self.path)}.lock"

    @contextmanager
    def _locked(self, kind: int, wait: float, stop: Callable[[], bool]) -> Iterator[int]:
        access = os.O_RDWR | os.O_CREAT if kind == fcntl.LOCK_EX else os.O_RDONLY
        with self._telling("its lock cannot be opened"):
            lock = os.open(self._lock_name, access | os.O_CLOEXEC, 0o600)
        try:
            self._take(lock, kind, wait, stop)
            yield lock
        finally:
            os.close(lock)

    def _take(self, lock: int, kind: int, wait: float, stop: Callable[[], bool]) -> None:
        end = time.monotonic() + wait
        while True:
            try:
                return fcntl.flock(lock, kind | fcntl.LOCK_NB)
            except BlockingIOError:
                if stop():
                    raise LedgerError(f"{self.path}: stopped while waiting for another process") from None
                if time.monotonic() >= end:
                    holder = os.pread(lock, 200, 0).decode(errors="replace").split("\n")[0] or "another process"
                    raise LedgerError(
                        f"{self.path}: held by {holder} after waiting {wait:g} s: let it finish, stop it, or wait longer"
                    ) from None
                time.sleep(PATIENCE)

    def _check_place(self) -> None:
        """The lock goes by the path, so the open file must still be the one that lies there."""
        with self._telling("is gone"):
            if _identity(self.path) != self._identity:
                raise LedgerError(f"{self.path}: another file was put in its place since it was opened: open it again")

    def _write_lock(self) -> None:
        """Write who holds the ledger, and how much of it readers have seen."""
        assert self._lock is not None
        holder = f"process {os.getpid()} since {time.strftime('%Y-%m-%d %H:%M:%S')}"
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, f"{holder}\nshown {self._shown}\n".encode(), 0)

    def mark_shown(self) -> None:
        """Remember, before readers see them, that all entries of now are about to be shown."""
        self._shown = self._last_entry()
        self._write_lock()
        assert self._lock is not None
        os.fsync(self._lock)

    def _last_entry(self) -> int:
        return int(self._db.execute("SELECT coalesce(max(id), 0) FROM entry").fetchone()[0])

    # Writing --------------------------------------------------------------------------------------------------------

    def begin(self, facts: Mapping[str, str]) -> None:
        """Write a new ledger's facts, or compare them with what it holds: another policy is refused."""
        with self._telling("cannot be written"):
            prepare(self._db)
            if self._last_entry() < self._shown:
                raise LedgerError(
                    f"{self.path}: holds {self._last_entry():,} entries, but {self._shown:,} were published from it: a restored "
                    "backup would draw their noise again. Put the newest copy back"
                )
            known = self.facts()
            if (
                known != dict(facts) and not self._last_entry()
            ):  # nothing was published yet: the policy may still change
                with self._db:
                    self._db.execute("BEGIN IMMEDIATE")
                    self._db.execute("DELETE FROM fact")
                    self._db.executemany("INSERT INTO fact VALUES (?, ?)", sorted(facts.items()))
                known = dict(facts)
        for key in sorted(set(facts) | set(known)):
            if facts.get(key) != known.get(key):
                raise LedgerError(
                    f"{self.path}: was begun under another policy: {first_difference(key, known.get(key), facts.get(key))}. "
                    "A promise is kept as it was made: undo the change, or begin a new ledger for a new population"
                )
        self.refresh()

    def refresh(self) -> bool:
        """Read the newest hash, and say whether it has changed since the last look."""
        before, self._head = self._head, self._read_head()
        return before != self._head

    def _read_head(self) -> bytes:
        row = self._db.execute("SELECT chain FROM batch ORDER BY last_entry DESC LIMIT 1").fetchone()
        return bytes(row[0]) if row else first_link(self.facts())

    def commit(self, entries: Sequence[Entry], states: Mapping[str, str], at_us: int) -> None:
        """Write a batch of steps with all that goes with them, or nothing at all."""
        if self._lock is None:
            raise LedgerError(f"{self.path}: hold the ledger before writing to it")
        with self._telling("could not be written, so nothing was spent or published"), self._db:
            self._db.execute("BEGIN IMMEDIATE")
            if self._read_head() != self._head:
                raise LedgerError(f"{self.path}: another process has written to it: nothing was published; run again")
            last = self._last_entry()
            chain = self._insert(entries, last + 1)
            self._db.executemany("INSERT OR REPLACE INTO state VALUES (?, ?)", sorted(states.items()))
            saved = digest(self._db.execute("SELECT name, value FROM state"))
            head = batch_link(chain, at_us, saved)
            self._db.execute("INSERT INTO batch VALUES (?, ?, ?, ?)", (last + len(entries), at_us, saved, head))
        self._head = head

    def _insert(self, entries: Sequence[Entry], first: int) -> bytes:
        """Insert entries and their releases; return the chain's newest link."""
        assert self._head is not None
        chain, rows, releases = self._head, [], []
        for i, e in enumerate(entries, start=first):
            chain = e.link(chain)
            value = None if e.value is None else to_bytes(e.value)
            times = (e.release_step, e.start_us, e.end_us)
            rows.append((i, e.stream, e.part, e.step, *times, to_bytes(e.noisy), value, e.spread, chain))
            releases += [
                (i, name, number, r.loss, r.age, r.sensitivity, r.scale, r.noise, r.atop)
                for number, (r, name) in enumerate(zip(e.releases, e.draws(), strict=True))
            ]
        self._db.executemany(f"INSERT INTO entry VALUES ({','.join('?' * 11)})", rows)
        self._db.executemany(f"INSERT INTO release VALUES ({','.join('?' * 9)})", releases)
        return chain

    def mark_emitted(self, output: str, step: int, sha256: str | None = None) -> None:
        """Remember up to which step an output was written: for outputs that cannot be read back."""
        with self._telling("cannot be written"), self._db:
            self._db.execute("INSERT OR REPLACE INTO emitted VALUES (?, ?, ?)", (output, step, sha256))

    # Reading --------------------------------------------------------------------------------------------------------

    def facts(self) -> dict[str, str]:
        """Return what the ledger was begun with."""
        return dict(self._db.execute("SELECT key, value FROM fact"))

    def states(self) -> dict[str, str]:
        """Return the newest states: of the account, mechanisms and smoothers."""
        return dict(self._db.execute("SELECT name, value FROM state"))

    def emitted(self, output: str) -> tuple[int, str | None]:
        """Return what `mark_emitted` wrote, (0, None) before that."""
        row = self._db.execute("SELECT step, sha256 FROM emitted WHERE output = ?", (output,)).fetchone()
        return row or (0, None)

    def last_step(self, stream: str) -> int:
        """Return a stream's newest step, 0 if there is none."""
        query = "SELECT coalesce(max(step), 0) FROM entry WHERE stream = ?"
        return int(self._db.execute(query, (stream,)).fetchone()[0])

    def next_step(self, stream: str, after: int) -> int | None:
        """Return a stream's first step after this one, None if there is none."""
        query = "SELECT min(step) FROM entry WHERE stream = ? AND step > ?"
        found = self._db.execute(query, (stream, after)).fetchone()[0]
        return None if found is None else int(found)

    def last_commit(self) -> int:
        """Return when the newest batch was committed, in µs; 0 if there is none."""
        row = self._db.execute("SELECT at_us FROM batch ORDER BY last_entry DESC LIMIT 1").fetchone()
        return int(row[0]) if row else 0

    def entries(self, stream: str | None = None, first: int = 1, last: int | None = None) -> Iterator[Entry]:
        """Return a stream's entries from step to step, or all of them in the order of the chain."""
        for _, entry, _ in self.chained(stream, first, last):
            yield entry

    def chained(
        self, stream: str | None = None, first: int = 1, last: int | None = None
    ) -> Iterator[tuple[int, Entry, bytes]]:
        """Return entries with their number and their link in the chain."""
        query = "SELECT * FROM entry"
        arguments: tuple[Any, ...] = ()
        if stream is not None:
            query += " WHERE stream = ? AND step >= ? AND step <= ?"
            arguments = (stream, first, 2**62 if last is None else last)
        order = "id" if stream is None else "step, id"
        for row in self._db.execute(f"{query} ORDER BY {order}", arguments):
            try:
                yield int(row[0]), self._entry(row), bytes(row[10])
            except (InvalidInput, ValueError, TypeError) as error:
                where = f"{self.path}: entry {row[0]} ({row[1]}, step {row[3]})"
                raise LedgerError(f"{where}: was changed: {error}") from error

    def _entry(self, row: tuple[Any, ...]) -> Entry:
        number, stream, part, step, release_step, start, end, noisy, value, spread, _ = row
        query = "SELECT draw, loss, age, sensitivity, scale, noise, atop FROM release WHERE entry = ? ORDER BY number"
        releases = tuple(
            Release(
                release_step, loss, age, sensitivity=sensitivity, scale=scale, noise=noise,
                draw=draw[1:] if draw.startswith("=") else None, atop=atop,
            )
            for draw, loss, age, sensitivity, scale, noise, atop in self._db.execute(query, (number,))
        )  # fmt: skip
        values = None if value is None else from_bytes(value)
        return Entry(stream, step, release_step, start, end, releases, from_bytes(noisy), values, spread, part)

    def batches(self) -> Iterator[tuple[int, int, bytes, bytes]]:
        """Return (last entry, when, digest of the states, link) of each batch."""
        yield from self._db.execute("SELECT last_entry, at_us, states, chain FROM batch ORDER BY last_entry")

    def damage(self) -> str | None:
        """Ask SQLite whether the file is whole; None if it is."""
        try:
            (answer,) = self._db.execute("PRAGMA integrity_check(1)").fetchone()
        except sqlite3.DatabaseError as error:
            return str(error)
        return None if answer == "ok" else str(answer)


def _connect(path: Path, read_only: bool) -> sqlite3.Connection:
    if read_only:
        if not path.is_file():
            raise FileNotFoundError("no such file")
        return _reading(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    return _settled(db)


def _reading(path: Path) -> sqlite3.Connection:
    """A connection that cannot write. A writer that was killed while it made the file leaves a journal that SQLite rolls back
    at the next opening, for which it must write: so that opening is made first."""
    address = path.resolve().as_uri()
    try:
        return _settled(sqlite3.connect(f"{address}?mode=ro", uri=True, isolation_level=None))
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_READONLY:
            raise
        _settled(sqlite3.connect(f"{address}?mode=rw", uri=True, isolation_level=None)).close()
        return _settled(sqlite3.connect(f"{address}?mode=ro", uri=True, isolation_level=None))


def _settled(db: sqlite3.Connection) -> sqlite3.Connection:
    """The same connection, set up and seen to read."""
    db.execute("PRAGMA trusted_schema = OFF")
    db.execute("PRAGMA foreign_keys = ON")
    db.execute("PRAGMA busy_timeout = 10000")
    db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    return db


def _identity(path: Path) -> tuple[int, int]:
    found = os.stat(path)
    return found.st_dev, found.st_ino


def _read_shown(lock: int) -> int:
    """How many entries readers have seen, by the lock's file; 0 if it does not say."""
    match = re.search(r"^shown (\d{1,18})$", os.pread(lock, 200, 0).decode(errors="replace"), re.M)
    return int(match[1]) if match else 0


def _next_step(error: str) -> str:
    """SQLite's words, and what to do about them."""
    advice = {
        "full": "make room on the disk and run again",
        "readonly": "make the file and its folder writable",
        "read-only": "make the file and its folder writable",
        "not a database": "it is no ledger: give another path",
        "malformed": "it is damaged: restore a copy, and see `halflife verify`",
        "locked": "another program holds it: let it finish",
        "i/o": "look at the disk: is it full, or the file larger than allowed?",
        "unable to open": "look at the path and its permissions",
        "no such file": "publish first, or give the path of a ledger",
    }
    hint = next((text for word, text in advice.items() if word in error.lower()), "look at the file and its folder")
    return f"{error}: {hint}"


def first_difference(key: str, old: str | None, new: str | None) -> str:
    """Name the first part in which two JSON texts differ.

    >>> first_difference("policy", '{"a": {"b": 1}}', '{"a": {"b": 2}}')
    'policy.a.b was 1 and is now 2'
    """

    def walk(where: str, a: Any, b: Any) -> str | None:
        if isinstance(a, dict) and isinstance(b, dict):
            found = (walk(f"{where}.{k}", a.get(k), b.get(k)) for k in sorted(set(a) | set(b)))
            return next((f for f in found if f), None)
        if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
            found = (walk(f"{where}.{i}", x, y) for i, (x, y) in enumerate(zip(a, b, strict=True)))
            return next((f for f in found if f), None)
        return None if a == b else f"{where} was {json.dumps(a)[:60]} and is now {json.dumps(b)[:60]}"

    try:
        return walk(key, json.loads(old or "null"), json.loads(new or "null")) or f"{key} differs"
    except ValueError:
        return f"{key} was {str(old)[:60]} and is now {str(new)[:60]}"
