"""What a restored ledger has lost: steps that were published after the copy was made, recorded as an event in its chain.

They are never published again, and what they cost stays in the account: the event holds the releases that the plan gives them,
and whoever works the account out charges them where the event stands, after the entry that it follows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from halflife.errors import InvalidInput, LedgerError
from halflife.ledger import Batch, Entry, Ledger, Link
from halflife.ledger.events import parse_event
from halflife.numerics.forms import JsonObject, read_form
from halflife.numerics.parameters import whole
from halflife.policy import Channel
from halflife.publisher.holding import list_events
from halflife.release import Release

KIND = "restore"


@dataclass(frozen=True)
class Restore:
    """A recorded restore of a ledger from a copy that was older than what was published.

    at_us     when it was recorded;  last  the number of the entry that it follows
    reason    why, in the operator's public words;  by  who says so
    passed    by stream, the first and the last step that are passed over
    lost      how many entries, with which newest hash, were shown by what is lost, as marks say
    releases  what those steps are charged as
    """

    at_us: int
    last: int
    reason: str
    by: str
    passed: Mapping[str, tuple[int, int]]
    lost: tuple[tuple[int, str], ...]
    releases: tuple[Release, ...]

    def to_event(self) -> JsonObject:
        """Return it as a ledger keeps it."""
        return {
            "kind": KIND,
            "version": 1,
            "reason": self.reason,
            "by": self.by,
            "passed": {name: list(steps) for name, steps in self.passed.items()},
            "lost": [list(shown) for shown in self.lost],
            "releases": [release.to_dict() for release in self.releases],
        }


def list_restores(book: Ledger, upto: Batch | None = None) -> tuple[Restore, ...]:
    """Return the restores of a ledger in order, those that stand in its chain up to a batch if one is given."""
    try:
        found = ((e, parse_event(e.event or "")) for e in list_events(book, upto))
        return tuple(_read(event.at_us, event.last, said) for event, said in found if said.get("kind") == KIND)
    except (InvalidInput, ValueError, TypeError):
        raise LedgerError(
            f"{book.name}: a restore cannot be read: it was written by a newer halflife, or changed: see `halflife "
            "verify`"
        ) from None


def _read(at_us: int, last: int, said: JsonObject) -> Restore:
    form = read_form(
        "a restore", {k: v for k, v in said.items() if k != "kind"}, ("reason", "by", "passed", "lost", "releases")
    )
    if not isinstance(form["reason"], str) or not isinstance(form["by"], str):
        raise InvalidInput("what a restore says is not text")
    passed = {
        name: (whole("passed", low, least=1), whole("passed", high, least=1))
        for name, (low, high) in form["passed"].items()
    }
    lost = tuple((whole("lost", entries), str(head)) for entries, head in form["lost"])
    return Restore(
        at_us, last, form["reason"], form["by"], passed, lost, tuple(map(Release.from_dict, form["releases"]))
    )


def find_passed(book: Ledger) -> dict[str, int]:
    """Return the newest step of each stream that a restore has passed over."""
    made: dict[str, int] = {}
    for restore in list_restores(book):
        for name, (_, last) in restore.passed.items():
            made[name] = max(made.get(name, 0), last)
    return made


def find_done(book: Ledger, made: Sequence[Channel]) -> dict[str, int]:
    """Return up to which step each stream is published, or passed over: by a restore, or as the ledger began without it."""
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
