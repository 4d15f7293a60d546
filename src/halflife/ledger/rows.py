"""What a ledger in the tables of a database holds: its questions, each one query, with cells that no ledger has refused.

The queries are those that SQLite and PostgreSQL both understand; `?` stands for an argument.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from halflife.errors import InvalidInput, LedgerError
from halflife.ledger.base import Batch, Link, is_secret
from halflife.ledger.entry import Entry, first_link, make_link, name_entry, read_entry, span_cells
from halflife.ledger.events import amend_facts, declares_lost

BLOCK = 1_000
"""How many rows are read at a time."""
STDOUT = "-"
"""The standard output's name among the files of a stream."""
_CELLS = (
    "e.id, e.chain, e.stream, e.part, e.step, e.release_step, e.start_us, e.end_us, e.noisy, e.value, e.spread, "
    "r.number, r.draw, r.loss, r.age, r.sensitivity, r.scale, r.noise, r.atop, r.span, r.step_sensitivity"
)
_BATCHES = "SELECT last_entry, at_us, states, chain, NULL AS event, 0 AS number FROM batch"
_EVENTS = " UNION ALL SELECT last_entry, at_us, states, chain, body, number FROM event"
_ENTRY = 11
"""So many cells of a row are the entry's; the others are a release's."""


Row = tuple[Any, ...]
"""The cells of a row."""


class RowReader(ABC):
    """The part of a ledger that reads, by a few ways to ask that a kind of database brings along."""

    @property
    @abstractmethod
    def name(self) -> str:
        """What messages call the ledger."""

    @abstractmethod
    def states(self) -> dict[str, str]:
        """Return the newest states: of the account, mechanisms and smoothers."""

    def public_states(self) -> dict[str, str]:
        """Return the newest states that hold no noise which is used again."""
        return {name: value for name, value in self.states().items() if not is_secret(name)}

    @abstractmethod
    def _check_tables(self) -> int:
        """Return the version of the tables, 0 if there are none; refuse others than a ledger's."""

    @abstractmethod
    def _has_events(self) -> bool:
        """Whether there is a table of events."""

    @abstractmethod
    def _one(self, query: str, *arguments: object) -> tuple[Any, ...]:
        """The first row of an answer, an empty one if there is none."""

    @abstractmethod
    def _all(self, query: str, *arguments: object) -> list[tuple[Any, ...]]:
        """All rows of an answer."""

    @abstractmethod
    def _rows(self, query: str, *arguments: object) -> Iterator[tuple[Any, ...]]:
        """The rows of an answer, some at a time."""

    def begun(self) -> dict[str, str]:
        """Return the facts that the ledger was begun with, nothing if it was not begun yet."""
        return dict(self._all("SELECT key, value FROM fact")) if self._check_tables() else {}

    def facts(self) -> dict[str, str]:
        """Return the facts that the ledger is held to now: those it was begun with, as events have changed them."""
        try:
            return amend_facts(self.begun(), (batch.event for batch in self.events() if batch.event is not None))
        except ValueError:
            raise self._changed("an event cannot be read") from None

    def digests(self, stream: str, file: str) -> dict[int, bytes]:
        """Return what `mark_written` wrote of a file: its digest by its last step."""
        query = "SELECT step, sha256 FROM written WHERE stream = ? AND file = ?"
        return {step: bytes(sha256) for step, sha256 in self._all(query, stream, file)}

    def last_printed(self, stream: str) -> int:
        """Return up to which step a stream was written to the standard output, 0 if it never was.

        The mark holds the hash of its step, as a wrong one would leave steps out, or write them again.
        """
        marks = self.digests(stream, STDOUT)
        for step, link in marks.items():
            if self._step_link(stream, step) != (link,):
                raise self._changed(f"the mark of what stream {stream} wrote to the standard output is of no step")
        return max(marks, default=0)

    def last_step(self, stream: str) -> int:
        """Return a stream's newest step, 0 if there is none."""
        return self._number("SELECT coalesce(max(step), 0) FROM entry WHERE stream = ?", stream)

    def count_steps(self, stream: str) -> int:
        """Return how many steps of a stream there are."""
        return self._number("SELECT count(*) FROM entry WHERE stream = ?", stream)

    def next_step(self, stream: str, after: int) -> int | None:
        """Return a stream's first step after this one, None if there is none."""
        query = "SELECT coalesce(min(step), 0) FROM entry WHERE stream = ? AND step > ?"
        return self._number(query, stream, after) or None

    def newest(self) -> Batch | None:
        """Return the newest batch, None if nothing was committed."""
        tables = ("batch", "event") if self._has_events() else ("batch",)
        last = max(self._number(f"SELECT coalesce(max(last_entry), 0) FROM {table}") for table in tables)
        return self._newest_at(last)

    def batches(self) -> Iterator[Batch]:
        """Return every batch, in order: those of entries, and after each the events that followed it."""
        for last, at_us, states, chain, event, _ in self._rows(f"{self._all_batches()} ORDER BY last_entry, number"):
            yield Batch(last, at_us, bytes(states), bytes(chain), event)

    def events(self) -> list[Batch]:
        """Return the batches that are events, in order; there are few."""
        if not self.begun() or not self._has_events():
            return []
        rows = self._all("SELECT last_entry, at_us, states, chain, body FROM event ORDER BY number")
        return [Batch(last, at_us, bytes(states), bytes(chain), body) for last, at_us, states, chain, body in rows]

    def entries(self, stream: str | None = None, first: int = 1, last: int | None = None) -> Iterator[Entry]:
        """Return a stream's entries from step to step, or all of them in the order of the chain."""
        if stream is None:
            links = self.chained()
        else:
            between = (stream, first, 2**62 if last is None else last)
            links = self._links("WHERE e.stream = ? AND e.step BETWEEN ? AND ? ORDER BY e.step, e.id", *between)
        return map(itemgetter(1), links)

    def chained(self) -> Iterator[Link]:
        """Return all entries with their numbers and hashes, in the order of the chain."""
        return self._links("ORDER BY e.id")

    def follows(self, number: int) -> bool:
        """Whether an entry's hash follows from what it says and from the hash before it."""
        batch = self._newest_at(number - 1)
        before = (batch.link,) if batch else self._one("SELECT chain FROM entry WHERE id = ?", number - 1)
        found = next(self._links("WHERE e.id = ?", number), None)
        return found is not None and found[1].link(before[0] if before else first_link(self.begun())) == found[2]

    def holds(self, entries: int, head: bytes) -> bool:
        """Whether a batch that ends with this entry has this hash, or an event says that the one which had it is lost."""
        if not self._check_tables():
            return False
        if self._batch("WHERE last_entry = ? AND chain = ?", entries, head) is not None:
            return True
        return any(declares_lost(batch.event or "", entries, head) for batch in self.events())

    def count_releases(self) -> int:
        """Return how many releases there are, of whatever entry."""
        return self._number("SELECT count(*) FROM release")

    # Rows

    def _last_entry(self) -> int:
        return self._number("SELECT coalesce(max(id), 0) FROM entry")

    def _step_link(self, stream: str, step: int) -> tuple[Any, ...]:
        return self._one("SELECT chain FROM entry WHERE stream = ? AND step = ? ORDER BY id DESC", stream, step)

    def _batch(self, which: str, *arguments: int | bytes) -> Batch | None:
        """The first batch of those that are asked for, None if there is none."""
        row = self._one(f"SELECT * FROM ({self._all_batches()}) AS batches {which}", *arguments)[:-1]
        if row and tuple(map(type, row)) not in ((int, int, bytes, bytes, type(None)), (int, int, bytes, bytes, str)):
            raise self._changed("a cell of a batch is of another kind")
        return Batch(*row) if row else None

    def _newest_at(self, last: int) -> Batch | None:
        """The newest batch that comes before entry `last` + 1, an event perhaps; None if no batch ends with entry `last`."""
        return self._batch("WHERE last_entry = ? ORDER BY number DESC LIMIT 1", last)

    def _all_batches(self) -> str:
        """The query of all batches, with the numbers of events; 0 for those of entries."""
        return _BATCHES + _EVENTS if self._has_events() else _BATCHES

    def _links(self, which: str, *arguments: str | int) -> Iterator[Link]:
        query = f"SELECT {_CELLS} FROM entry e LEFT JOIN release r ON r.entry = e.id {which}"
        for number, rows in groupby(self._rows(query, *arguments), itemgetter(0)):
            yield self._entry(number, list(rows))

    def _entry(self, number: int, rows: list[tuple[Any, ...]]) -> Link:
        """An entry from the rows that join it with its releases: one with nothing in the release's cells if it has none."""
        row = rows[0]
        try:
            releases = [row[_ENTRY + 1 :]] if len(rows) == 1 and row[_ENTRY] == 0 else _in_order(rows)
            return number, read_entry(row[2:_ENTRY], releases), row[1]
        except (ValueError, TypeError, AttributeError) as error:
            why = str(error) if isinstance(error, InvalidInput) else "its cells are not those of an entry"
            which = name_entry(number, row[2], row[4], self.facts())
            refusal = LedgerError(f"{self.name}: {which}: was changed: {why}")
        raise refusal

    def _number(self, query: str, *arguments: object) -> int:
        """A whole number that is asked for; a damaged page may hold a cell of another kind."""
        (found,) = self._one(query, *arguments)
        if not isinstance(found, int):
            raise self._changed("a cell that holds a number is of another kind")
        return found

    def _changed(self, what: str) -> LedgerError:
        return LedgerError(
            f"{self.name}: was changed since it was written: {what}. Nothing was drawn or published: put a whole copy back, the "
            "newest one, and see `halflife verify`"
        )


def _in_order(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The cells of an entry's releases by their numbers, which are 0, 1, …; none if the entry has none."""
    if len(rows) == 1 and rows[0][_ENTRY] is None:
        return []
    rows.sort(key=itemgetter(_ENTRY))
    if [row[_ENTRY] for row in rows] != list(range(len(rows))):
        raise ValueError("its releases are not numbered")
    return [row[_ENTRY + 1 :] for row in rows]


def entry_rows(entries: Sequence[Entry], first: int, links: list[bytes]) -> Iterator[Row]:
    """Yield the rows of entries from number `first` on; each one's link follows the last of `links`, and is added to them."""
    for i, e in enumerate(entries, start=first):
        facts, noisy, value = e.say()
        links.append(make_link(links[-1], facts, noisy, value))
        yield i, e.stream, e.part, e.step, e.release_step, e.start_us, e.end_us, noisy, value, e.spread, links[-1]


def release_rows(entries: Sequence[Entry], first: int) -> Iterator[Row]:
    """Yield the rows of the releases of entries from number `first` on."""
    for i, e in enumerate(entries, start=first):
        for number, (r, name) in enumerate(zip(e.releases, e.draws(), strict=True)):
            yield i, name, number, r.loss, r.age, r.sensitivity, r.scale, r.noise, r.atop, *span_cells(r)
