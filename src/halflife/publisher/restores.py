"""What a restored ledger has lost: steps that were published after the copy was made, recorded as an event in its chain.

They are never published again, and what they cost stays in the account: the event holds the releases that the plan gives them,
and whoever works the account out charges them where the event stands, after the entry that it follows. Releases that differ by
their steps alone are written as one run: whoever publishes reads the event each time, however many steps are lost.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from halflife.errors import InvalidInput, LedgerError
from halflife.ledger import Batch, Entry, Ledger, Link
from halflife.ledger.events import parse_event
from halflife.numerics.forms import JsonObject, check_version, leave_out, read_form
from halflife.numerics.parameters import whole
from halflife.policy import Channel
from halflife.publisher.holding import list_events
from halflife.publisher.skipping import list_skipped
from halflife.release import Release

KIND = "restore"


class Run(NamedTuple):
    """Releases of one stream, one after the other, that are alike but for their steps and ages, which go on evenly.

    first  the first of them;  length  how many there are
    every  by how much the step grows from one to the next;  older  by how much the age does, where steps come late
    """

    stream: str
    first: Release
    length: int = 1
    every: int = 0
    older: int = 0

    def expand(self) -> Iterator[Release]:
        """Yield the releases."""
        step, age = self.first.step, self.first.age
        return (self.first.at_step(step + i * self.every, age + i * self.older) for i in range(self.length))

    def add(self, release: Release) -> Run | None:
        """Return the run with one more release; None if that does not go on with it."""
        before = self.length - 1
        every = release.step - self.first.step - before * self.every
        older = release.age - self.first.age - before * self.older
        if self.first.at_step(release.step, release.age) != release:
            return None
        if self.length > 1 and (every, older) != (self.every, self.older):
            return None
        return Run(self.stream, self.first, self.length + 1, every, older)

    def to_dict(self) -> JsonObject:
        """Return it as a ledger keeps it."""
        return leave_out(self._asdict() | {"first": self.first.to_dict()}, length=1, every=0, older=0)

    @classmethod
    def from_dict(cls, data: object) -> Run:
        """Read what `to_dict` wrote."""
        form = read_form("a run of releases", data, ("stream", "first"), length=1, every=0, older=0)
        if not isinstance(form["stream"], str):
            raise InvalidInput("the stream of a run of releases is not text")
        first, older = Release.from_dict(form["first"]), whole("older", form["older"])
        length, every = whole("length", form["length"], least=1), whole("every", form["every"], least=0)
        whole("the last age of a run", first.age + (length - 1) * older, least=0)
        return cls(form["stream"], first, length, every, older)


def find_runs(releases: Mapping[str, Iterable[Release]]) -> tuple[Run, ...]:
    """Return the releases of streams, each in order, as runs.

    >>> hourly = [Release(step, 0.5) for step in range(3, 1000)]
    >>> [(run.first.step, run.length, run.every) for run in find_runs({"use": hourly})]
    [(3, 997, 1)]
    """
    runs: list[Run] = []
    for stream, some in releases.items():
        run: Run | None = None
        for release in some:
            longer = None if run is None else run.add(release)
            if run is not None and longer is None:
                runs.append(run)
            run = longer or Run(stream, release)
        runs += [] if run is None else [run]
    return tuple(runs)


@dataclass(frozen=True)
class Restore:
    """A recorded restore of a ledger from a copy that was older than what was published.

    at_us     when it was recorded;  last  the number of the entry that it follows
    reason    why, in the operator's public words;  by  who says so
    passed    by stream, the first and the last step that are passed over
    lost      how many entries, with which newest hash, were shown by what is lost, as marks say
    runs      what those steps are charged as, stream by stream
    """

    at_us: int
    last: int
    reason: str
    by: str
    passed: Mapping[str, tuple[int, int]]
    lost: tuple[tuple[int, str], ...]
    runs: tuple[Run, ...]

    @cached_property
    def releases(self) -> tuple[Release, ...]:
        """What those steps are charged as, in the order of the account's steps."""
        streams: dict[str, list[Release]] = {}
        for run in self.runs:
            streams.setdefault(run.stream, []).extend(run.expand())
        return tuple(heapq.merge(*streams.values(), key=lambda release: release.step))

    def to_event(self) -> JsonObject:
        """Return it as a ledger keeps it."""
        return {
            "kind": KIND,
            "version": 1,
            "reason": self.reason,
            "by": self.by,
            "passed": {name: list(steps) for name, steps in self.passed.items()},
            "lost": [list(shown) for shown in self.lost],
            "runs": [run.to_dict() for run in self.runs],
        }


def list_restores(book: Ledger, upto: Batch | None = None) -> tuple[Restore, ...]:
    """Return the restores of a ledger in order, those that stand in its chain up to a batch if one is given."""
    with _readable(book):
        found = ((e, parse_event(e.event or "")) for e in list_events(book, upto))
        return tuple(_read(event.at_us, event.last, said) for event, said in found if said.get("kind") == KIND)


@contextmanager
def _readable(book: Ledger) -> Iterator[None]:
    """Say of a restore that is no such form that it cannot be read."""
    try:
        yield
    except (InvalidInput, ValueError, TypeError, AttributeError, KeyError):
        raise LedgerError(
            f"{book.name}: a restore cannot be read: it was written by a newer halflife, or changed: see `halflife "
            "verify`"
        ) from None


def _read(at_us: int, last: int, said: JsonObject) -> Restore:
    form = read_form(
        "a restore", {k: v for k, v in said.items() if k != "kind"}, ("reason", "by", "passed", "lost", "runs")
    )
    if not isinstance(form["reason"], str) or not isinstance(form["by"], str):
        raise InvalidInput("what a restore says is not text")
    lost = tuple((whole("lost", entries), str(head)) for entries, head in form["lost"])
    runs = tuple(map(Run.from_dict, form["runs"]))
    return Restore(at_us, last, form["reason"], form["by"], _read_passed(form["passed"]), lost, runs)


def _read_passed(passed: Any) -> dict[str, tuple[int, int]]:
    return {
        name: (whole("passed", low, least=1), whole("passed", high, least=1)) for name, (low, high) in passed.items()
    }


def find_passed(book: Ledger) -> dict[str, int]:
    """Return the newest step of each stream that was passed over, by a restore or as its source was out of reach. What those
    steps cost is not looked at."""
    made: dict[str, int] = {}
    with _readable(book):
        for event in book.events():
            said = parse_event(event.event or "")
            if said.get("kind") == KIND:
                check_version("a restore", said)
                for name, (_, last) in _read_passed(said["passed"]).items():
                    made[name] = max(made.get(name, 0), last)
    for name, (_, last) in list_skipped(book):
        made[name] = max(made.get(name, 0), last)
    return made


def find_done(book: Ledger, made: Sequence[Channel]) -> dict[str, int]:
    """Return up to which step each stream is published, or passed over: by a restore, as its source was out of reach, or as the
    ledger began without it."""
    passed = find_passed(book)
    return {c.name: max(book.last_step(c.name), c.begins - 1, passed.get(c.name, 0)) for c in made}


class Charged(NamedTuple):
    """An entry with its number and all that is charged where it stands: its own releases, and those that are lost after it."""

    number: int
    entry: Entry
    releases: tuple[Release, ...]


def add_lost(links: Iterable[Link], restores: Sequence[Restore]) -> Iterator[Charged]:
    """Yield entries with what is charged where they stand."""
    after: dict[int, tuple[Release, ...]] = {}
    for restore in restores:
        after[restore.last] = after.get(restore.last, ()) + restore.releases
    for number, entry, _ in links:
        yield Charged(number, entry, entry.releases + after.get(number, ()))
