"""The ledger in one SQLite file: write-ahead log, synchronous FULL, one transaction for a batch of steps.

Draws, noisy values, losses, the account, the state of mechanisms and smoothers, and the chain of hashes are committed together
before anything can be seen. The file may hold secrets (noise that is to be used again): only its owner can read it.

Whoever writes holds the ledger's lock, so writers queue; within a transaction the chain's head is compared once more, so
that even without the lock nothing could be written twice.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from halflife.errors import InvalidInput, LedgerError
from halflife.ledger.differences import first_difference
from halflife.ledger.entry import Entry, batch_link, digest, first_link, read_entry
from halflife.ledger.sqlite.connect import Stamp, connect_to_read, connect_to_write, make_private, stamp_of
from halflife.ledger.sqlite.faults import decode, telling
from halflife.ledger.sqlite.guard import WHY, Guard, Shown
from halflife.ledger.sqlite.lock import Lock
from halflife.ledger.sqlite.schema import VERSION, check_tables, prepare

BLOCK = 1_000
"""How many rows are read at a time."""
STDOUT = "-"
_CELLS = (
    "e.id, e.chain, e.stream, e.part, e.step, e.release_step, e.start_us, e.end_us, e.noisy, e.value, e.spread, "
    "r.number, r.draw, r.loss, r.age, r.sensitivity, r.scale, r.noise, r.atop"
)
_ENTRY = 11
"""So many cells of a row are the entry's; the others are a release's."""

Batch = tuple[int, int, bytes, bytes]
"""(last entry, when it was committed in µs, digest of the states, link)"""


class SqliteLedger:
    """One population's ledger. `hold` it to write; reading needs no lock."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path = path
        self._lock, self._guard = Lock(path), Guard(path)
        self._unwritten: Stamp | None = None
        self._open(read_only)
        self._head: bytes | None = None
        self._held = False
        self._shown: Shown | None = None

    @telling("cannot be opened")
    def _open(self, read_only: bool) -> None:
        if read_only:
            self._db, self._unwritten = connect_to_read(self.path)
        else:
            self._db = connect_to_write(self.path)
        self._identity = stamp_of(self.path)[:2]

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()

    def __enter__(self) -> SqliteLedger:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # Holding --------------------------------------------------------------------------------------------------------

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

    @telling("is gone")
    def _check_place(self) -> None:
        """The lock goes by the path, so the open file must still be the one that lies there."""
        if stamp_of(self.path)[:2] != self._identity:
            raise LedgerError(f"{self.path}: another file was put in its place since it was opened: open it again")

    @contextmanager
    def moment(self, wait: float = 10.0) -> Iterator[None]:
        """Keep writers away while this block runs, and read from now on what the ledger holds now, whoever writes later."""
        with self._lock.shared(wait):
            self._begin_reading()
            yield

    def guard_fault(self) -> str | None:
        """Say whether this is an older copy, or nobody can tell; None if all is well."""
        try:
            self._shown = self._guard.read()
            wrong = self._older()
        except LedgerError as error:
            wrong = str(error)
        return wrong

    @telling("cannot be read")
    def _begin_reading(self) -> None:
        self._db.execute("BEGIN")
        self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()

    @telling("is gone")
    def check_unwritten(self) -> None:
        """Refuse what was read of a file that nobody was to write to, and somebody did."""
        if self._unwritten is not None and stamp_of(self.path) != self._unwritten:
            raise LedgerError(f"{self.path}: was written to while it was read: run again")

    def _older(self) -> str | None:
        """Say whether the ledger holds less than was published from it, or other things, or nobody can tell."""
        shown, last = self._shown, self._last_entry()
        if shown is None:
            return f"{self._guard.file} is missing: {WHY}" if last else None
        if shown.entries > last:
            return (
                f"{self.path}: holds {last:,} entries, but {shown.entries:,} were published from it: a restored backup would "
                "draw their noise again. Put the newest copy back"
            )
        if shown.entries and self._batch(shown.entries)[3:] != (shown.head,):
            return (
                f"{self.path}: is not the ledger that {shown.entries:,} entries were published from: their hash is another one. "
                "Put the right copy back"
            )
        return None

    def way_out(self) -> str:
        """Say what an operator may do whose guard is lost, and who knows that no newer copy exists; nothing if it is not."""
        if not self._guard.lost:
            return ""
        try:
            line = self.newest().line()
        except (LedgerError, IndexError, AttributeError):
            return ": first put a whole copy of the ledger back"
        return f": if this is surely the newest copy, as its outputs agree and you know its hash, write this line into it: {line}"

    def newest(self) -> Shown:
        """Return how much the ledger holds, with the newest hash: what its guard says when all of it is shown."""
        last = self._last_entry()
        return Shown(last, self._batch(last)[3]) if last else Shown(0)

    def mark_shown(self) -> None:
        """Remember, before readers see them, that all entries of now are about to be shown."""
        now = self.newest()
        if now != self._shown:
            self._guard.write(now)
            self._shown = now

    @telling("cannot be read")
    def _one(self, query: str, *arguments: Any) -> tuple[Any, ...]:
        """The first row of an answer, an empty one if there is none."""
        row = self._db.execute(query, arguments).fetchone()
        return () if row is None else tuple(row)

    def _number(self, query: str, *arguments: Any) -> int:
        """A whole number that is asked for; a damaged page may hold a cell of another kind."""
        (found,) = self._one(query, *arguments)
        if not isinstance(found, int):
            raise self._changed("a cell that holds a number is of another kind")
        return found

    @telling("cannot be read")
    def _all(self, query: str, *arguments: Any) -> list[tuple[Any, ...]]:
        return self._db.execute(query, arguments).fetchall()

    def _last_entry(self) -> int:
        return self._number("SELECT coalesce(max(id), 0) FROM entry")

    def _batch(self, last: int) -> tuple[Any, ...]:
        """The batch that ends with an entry, an empty row if none does."""
        return self._one("SELECT last_entry, at_us, states, chain FROM batch WHERE last_entry = ?", last)

    # Writing --------------------------------------------------------------------------------------------------------

    def begin(self, facts: Mapping[str, str]) -> None:
        """Write a new ledger's facts, or compare them with what it holds: another policy is refused.

        Before that everything is refused that nobody may go on with: other tables, an older copy, states that are not those of
        the newest batch. What is looked at does not grow with the ledger; `halflife verify` looks at all of it.
        """
        self._prepare()
        self._check_newest()
        self._shown = self._guard.read()
        wrong = self._older()
        if wrong:
            raise LedgerError(wrong)
        if not self._last_entry():  # nothing was published yet: the policy may still change
            self._replace_facts(facts)
        known = self.facts()
        for key in sorted(set(facts) | set(known)):
            if facts.get(key) != known.get(key):
                raise LedgerError(
                    f"{self.path}: was begun under another policy: {first_difference(key, known.get(key), facts.get(key))}. "
                    "A promise is kept as it was made: undo the change, or begin a new ledger for a new population"
                )
        self.refresh()

    @telling("cannot be written")
    def _prepare(self) -> None:
        """Refuse what is no ledger and leave it as it is; make of an empty file a ledger, and of a ledger one that is private."""
        self._check_tables()
        make_private(self.path)
        self._db.execute("PRAGMA journal_mode = WAL")
        prepare(self._db)

    @telling("cannot be read")
    def _check_tables(self) -> int:
        try:
            return check_tables(self._db)
        except LedgerError as error:
            raise LedgerError(f"{self.path}: {error}") from None

    @telling("cannot be written")
    def _replace_facts(self, facts: Mapping[str, str]) -> None:
        if self.facts() != dict(facts):
            with self._db:
                self._db.execute("BEGIN IMMEDIATE")
                self._db.execute("DELETE FROM fact")
                self._db.executemany("INSERT INTO fact VALUES (?, ?)", sorted(facts.items()))

    def _check_newest(self) -> None:
        """Refuse a ledger whose first or last entry, newest batch or saved states are not those that were committed together."""
        try:
            wrong = self._newest_fault()
        except (TypeError, ValueError):  # cells of another kind
            wrong = "its newest entry, batch or states are not of the kind that is written"
        if wrong:
            raise self._changed(wrong)

    def _newest_fault(self) -> str | None:
        last, newest = self._last_entry(), self._one("SELECT max(last_entry) FROM batch")[0]
        if newest is None:
            orphans = last or self.states() or self._one("SELECT 1 FROM written WHERE step > 0")
            return "it holds entries or states, but no batch that they were committed in" if orphans else None
        if newest != last:
            return f"its newest batch ends with entry {newest}, its entries with {last}"
        if not (self.follows(1) and self.follows(last)):
            return "the hash of its first or last entry does not follow from what it says"
        _, at_us, saved, head = self._batch(last)
        if batch_link(self._one("SELECT chain FROM entry WHERE id = ?", last)[0], at_us, saved) != head:
            return "the hash of its newest batch does not follow from what it says"
        if digest(self.states().items()) != saved:
            return "the saved states (account, mechanisms, smoothers) are not those of the newest batch"
        return None

    def follows(self, number: int) -> bool:
        """Whether an entry's link follows from what it says and from the link before it."""
        before = self._batch(number - 1)[3:] or self._one("SELECT chain FROM entry WHERE id = ?", number - 1)
        found = next(self.chained(number=number), None)
        return found is not None and found[1].link(before[0] if before else first_link(self.facts())) == found[2]

    def _changed(self, what: str) -> LedgerError:
        return LedgerError(
            f"{self.path}: was changed since it was written: {what}. Nothing was drawn or published: put a whole copy back, the "
            "newest one, and see `halflife verify`"
        )

    def refresh(self) -> bool:
        """Read the newest hash, and say whether it has changed since the last look."""
        before, self._head = self._head, self._read_head()
        return before != self._head

    def _read_head(self) -> bytes:
        return self.newest().head or first_link(self.facts())

    @telling("could not be written, so nothing was spent or published")
    def commit(self, entries: Sequence[Entry], states: Mapping[str, str], at_us: int) -> None:
        """Write a batch of steps with all that goes with them, or nothing at all."""
        if not self._held:
            raise LedgerError(f"{self.path}: hold the ledger before writing to it")
        with self._db:
            self._db.execute("BEGIN IMMEDIATE")
            if self._read_head() != self._head:
                raise LedgerError(f"{self.path}: another process has written to it: nothing was published; run again")
            last = self._last_entry()
            chain = self._insert(entries, last + 1)
            self._db.executemany("INSERT OR REPLACE INTO state VALUES (?, ?)", sorted(states.items()))
            saved = digest(self.states().items())
            head = batch_link(chain, at_us, saved)
            self._db.execute("INSERT INTO batch VALUES (?, ?, ?, ?)", (last + len(entries), at_us, saved, head))
        self._head = head

    def _insert(self, entries: Sequence[Entry], first: int) -> bytes:
        """Insert entries and their releases; return the chain's newest link."""
        assert self._head is not None
        chain, rows, releases = self._head, [], []
        for i, e in enumerate(entries, start=first):
            chain = e.link(chain)
            _, noisy, value = e.said
            rows.append(
                (i, e.stream, e.part, e.step, e.release_step, e.start_us, e.end_us, noisy, value, e.spread, chain)
            )
            releases += [
                (i, name, number, r.loss, r.age, r.sensitivity, r.scale, r.noise, r.atop)
                for number, (r, name) in enumerate(zip(e.releases, e.draws(), strict=True))
            ]
        self._db.executemany(f"INSERT INTO entry VALUES ({','.join('?' * 11)})", rows)
        self._db.executemany(f"INSERT INTO release VALUES ({','.join('?' * 9)})", releases)
        return chain

    @telling("cannot be written")
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
        self.mark_written(stream, STDOUT, step, *self._link(stream, step))

    def _link(self, stream: str, step: int) -> tuple[Any, ...]:
        return self._one("SELECT chain FROM entry WHERE stream = ? AND step = ? ORDER BY id DESC", stream, step)

    # Reading --------------------------------------------------------------------------------------------------------

    def facts(self) -> dict[str, str]:
        """Return what the ledger was begun with."""
        return dict(self._all("SELECT key, value FROM fact"))

    @telling("cannot be read")
    def states(self) -> dict[str, str]:
        """Return the newest states: of the account, mechanisms and smoothers. They are read as bytes: some are secret."""
        rows = self._db.execute("SELECT CAST(name AS BLOB), CAST(value AS BLOB) FROM state").fetchall()
        return {decode(name or b""): decode(value or b"") for name, value in rows}

    def written(self, stream: str, file: str) -> dict[int, bytes]:
        """Return what `mark_written` wrote of a file: its digest by its last step."""
        query = "SELECT step, sha256 FROM written WHERE stream = ? AND file = ?"
        return {step: bytes(sha256) for step, sha256 in self._all(query, stream, file)}

    def printed(self, stream: str) -> int:
        """Return up to which step a stream was written to the standard output, 0 if it never was.

        The mark holds the hash of its step, as a wrong one would leave steps out, or write them again.
        """
        marks = self.written(stream, STDOUT)
        for step, link in marks.items():
            if self._link(stream, step) != (link,):
                raise self._changed(f"the mark of what stream {stream} wrote to the standard output is of no step")
        return max(marks, default=0)

    def last_step(self, stream: str) -> int:
        """Return a stream's newest step, 0 if there is none."""
        return self._number("SELECT coalesce(max(step), 0) FROM entry WHERE stream = ?", stream)

    def next_step(self, stream: str, after: int) -> int | None:
        """Return a stream's first step after this one, None if there is none."""
        return (
            self._number("SELECT coalesce(min(step), 0) FROM entry WHERE stream = ? AND step > ?", stream, after)
            or None
        )

    def saved_digest(self) -> bytes | None:
        """Return the digest of the states that were saved with the newest batch; None if there is none."""
        row = self._one("SELECT states FROM batch ORDER BY last_entry DESC LIMIT 1")
        return bytes(row[0]) if row else None

    def last_commit(self) -> int:
        """Return when the newest batch was committed, in µs; 0 if there is none."""
        return self._number("SELECT coalesce((SELECT at_us FROM batch ORDER BY last_entry DESC LIMIT 1), 0)")

    def entries(self, stream: str | None = None, first: int = 1, last: int | None = None) -> Iterator[Entry]:
        """Return a stream's entries from step to step, or all of them in the order of the chain."""
        for _, entry, _ in self.chained(stream, first, last):
            yield entry

    def chained(
        self, stream: str | None = None, first: int = 1, last: int | None = None, *, number: int | None = None
    ) -> Iterator[tuple[int, Entry, bytes]]:
        """Return entries with their number and link in the chain: of a stream from step to step, all, or that of a number."""
        where, order, arguments = "", "e.id", []
        if stream is not None:
            where, order = "WHERE e.stream = ? AND e.step BETWEEN ? AND ?", "e.step, e.id"
            arguments = [stream, first, 2**62 if last is None else last]
        elif number is not None:
            where, arguments = "WHERE e.id = ?", [number]
        query = f"SELECT {_CELLS} FROM entry e LEFT JOIN release r ON r.entry = e.id {where} ORDER BY {order}"
        for key, rows in groupby(self._rows(query, arguments), itemgetter(0)):
            yield self._entry(key, list(rows))

    def _rows(self, query: str, arguments: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
        cursor = self._ask(query, arguments)
        while rows := self._more(cursor):
            yield from rows

    @telling("cannot be read")
    def _ask(self, query: str, arguments: Sequence[Any]) -> sqlite3.Cursor:
        return self._db.execute(query, arguments)

    @telling("cannot be read")
    def _more(self, cursor: sqlite3.Cursor) -> list[tuple[Any, ...]]:
        return cursor.fetchmany(BLOCK)

    def _entry(self, number: int, rows: list[tuple[Any, ...]]) -> tuple[int, Entry, bytes]:
        """An entry from the rows that join it with its releases: one with nothing in the release's cells if it has none."""
        row = rows[0]
        try:
            releases = [row[_ENTRY + 1 :]] if len(rows) == 1 and row[_ENTRY] == 0 else _in_order(rows)
            return number, read_entry(row[2:_ENTRY], releases), row[1]
        except (ValueError, TypeError, AttributeError) as error:
            why = str(error) if isinstance(error, InvalidInput) else "its cells are not those of an entry"
            refusal = LedgerError(f"{self.path}: {self.name_entry(number, row[2], row[4])}: was changed: {why}")
        raise refusal

    def count_releases(self) -> int:
        """Return how many releases there are, of whatever entry."""
        return self._number("SELECT count(*) FROM release")

    def name_entry(self, number: int, stream: object, step: object) -> str:
        """Return which entry is meant, for a message; a name or a step that no entry can have is not repeated."""
        known = isinstance(step, int) and f"stream:{stream}" in self.facts()
        return f"entry {number} ({stream}, step {step})" if known else f"entry {number} (of an unknown stream)"

    def batches(self) -> Iterator[Batch]:
        """Return every batch, in order."""
        for last, at_us, states, chain in self._rows("SELECT * FROM batch ORDER BY last_entry", ()):
            yield last, at_us, bytes(states), bytes(chain)

    def damage(self) -> str | None:
        """Say whether the file is not whole, by SQLite's own check, or its tables are not a ledger's; None if all is well."""
        try:
            if self._check_tables() != VERSION:
                return f"{self.path}: is empty, or was written by an older halflife: publish first"
            whole = self._all("PRAGMA integrity_check(1)") == [("ok",)]
        except LedgerError as error:
            return str(error)
        return None if whole else f"{self.path}: the file is damaged: put a whole copy back, the newest one"


def _in_order(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The cells of an entry's releases by their numbers, which are 0, 1, …; none if the entry has none."""
    if len(rows) == 1 and rows[0][_ENTRY] is None:
        return []
    rows.sort(key=itemgetter(_ENTRY))
    if [row[_ENTRY] for row in rows] != list(range(len(rows))):
        raise ValueError("its releases are not numbered")
    return [row[_ENTRY + 1 :] for row in rows]
