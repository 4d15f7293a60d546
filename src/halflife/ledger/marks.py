"""Marks: how much of a ledger was shown, written where a restored copy of the ledger does not take it along.

A mark is a small file beside an output, or where the policy says. It holds how many entries and events were shown, the chain's
newest hash with them, and each stream's newest step, all of it public. Whoever goes on with a ledger that holds less, or another
chain, would draw anew the noise of what readers have seen; so such a ledger is refused.

    commit  →  the ledger's own guard and every mark, each replaced whole and synced  →  outputs

So a mark is never ahead of what was committed, whatever is killed, and nothing is seen that no mark counts. A mark that is
missing is made: ledgers from before had none, and who deletes an output may delete its mark. None of this knows what keeps the
ledger's rows.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from halflife.errors import InvalidInput, LedgerError
from halflife.ledger.base import Ledger
from halflife.ledger.entry import first_link, name_vintage, split_vintage
from halflife.ledger.vintages import count_vintages
from halflife.numerics.checked import parse_checked, write_checked
from halflife.numerics.forms import read_form
from halflife.numerics.syncing import sync

ENDING = ".mark"
KEYS = ("ledger", "entries", "events", "head", "streams")
NAMED = "*mark"
"""No stream has this name: under it a ledger keeps where it has written marks that a policy names."""
LARGEST = 1_000_000
"""No mark has more bytes: it holds a step for each stream."""
REMEDY = "Put the newest copy back; if there is none, see `halflife restore --help`"


class Mark(NamedTuple):
    """What a mark says: of which ledger (the hash of its facts), entries and events shown, the newest hash, steps by stream."""

    ledger: str
    entries: int
    events: int
    head: str
    streams: Mapping[str, int]

    def text(self) -> str:
        """Return the mark as it is written: a line of JSON that holds its own digest.

        >>> Mark("ab", 2, 0, "cd", {"use": 2}).text()[:44]
        '{"entries": 2, "events": 0, "format": "halfl'
        """
        said = {"ledger": self.ledger, "entries": self.entries, "events": self.events, "head": self.head}
        return write_checked({"format": "halflife.mark", "version": 1, **said, "streams": dict(self.streams)})


class Place(NamedTuple):
    """A file for a mark, and the streams that it answers for: it is written before anything of them is shown.

    named  whether the policy names it: then it is missed once it was written, as a disk that is not there would be
    """

    file: str
    streams: frozenset[str]
    named: bool = False


def mark_beside(output: str) -> str:
    """Return where the mark of an output lies: beside it, and beside its folder if it is one; links are followed.

    >>> mark_beside("/srv/use.csv"), mark_beside("/srv/parts/")
    ('/srv/use.csv.mark', '/srv/parts.mark')
    """
    return os.path.realpath(output) + ENDING


def read_mark(file: str) -> Mark | None:
    """Return what a mark says, None if there is none; refuse a file that is none, or cannot be read."""
    content = _read(file)
    if content is None:
        return None
    try:
        said = parse_checked(content)
        if said.pop("format", None) != "halflife.mark":
            raise InvalidInput("it is no mark")
        form = read_form("a mark", said, KEYS)
        mark = Mark(*(form[key] for key in KEYS))
        _check(mark)
    except (InvalidInput, ValueError) as error:
        raise LedgerError(
            f"{file} cannot be understood: {error}. It is a mark, which says how much of a ledger was published. Bring it "
            "back as it "
            "was; if it is lost, make sure that the ledger is the newest copy, by its hash and its outputs, and move the file "
            "away"
        ) from None
    return mark


def _check(mark: Mark) -> None:
    numbers = (mark.entries, mark.events, *dict(mark.streams).values())
    if not all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in numbers) or not mark.entries:
        raise InvalidInput("its numbers are none that are written")
    if not all(isinstance(text, str) and len(text) == 64 for text in (mark.ledger, mark.head)):
        raise InvalidInput("its hashes are none")
    bytes.fromhex(mark.ledger + mark.head)


def _read(file: str) -> bytes | None:
    try:
        number = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            return os.read(number, LARGEST) if stat.S_ISREG(os.fstat(number).st_mode) else b""
        finally:
            os.close(number)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _refuse(file, "read", error) from None


def _refuse(file: str, done: str, error: OSError) -> LedgerError:
    return LedgerError(
        f"{file} cannot be {done}: {error.strerror or error}. It is a mark, which says how much was published, and nothing is "
        "shown "
        "without it: make room, or correct the path or its permissions, and run again"
    )


class Marks:
    """The marks of one ledger, which messages call `name`: by default as it calls itself."""

    def __init__(self, book: Ledger, places: Iterable[Place], name: str | None = None) -> None:
        self._book, self._places, self._name = book, tuple(places), name or book.name
        self._known: dict[str, Mark | None] = {}
        self._identity: tuple[str, tuple[str, ...]] | None = None

    def find_problem(self, may_be_missing: bool = False) -> str | None:
        """Say which mark shows that the ledger is an older copy or another one, or cannot be read; None if all is well.

        Marks are read first: a publisher who goes on meanwhile only adds to what they are compared with. One that the policy
        names and that was written before is a problem too if it is missing, unless that may be.
        """
        try:
            self._known = {place.file: read_mark(place.file) for place in self._places}
        except LedgerError as error:
            return str(error)
        for place in () if may_be_missing else self._places:
            if place.named and self._known[place.file] is None and self._book.digests(NAMED, place.file):
                return (
                    f"{place.file} is missing, and {self._name} wrote its mark there before: is its disk not there? Bring it "
                    "back. If it is lost for good, make sure that the ledger is the newest copy, and let the policy's `mark` "
                    "name another file"
                )
        found = ((file, mark) for file, mark in self._known.items() if mark is not None)
        return next((wrong for file, mark in found if (wrong := self._compare(file, mark)) is not None), None)

    def _compare(self, file: str, mark: Mark) -> str | None:
        book, newest, shown = self._book, self._book.newest(), _count(mark.entries, mark.events)
        if mark.ledger != first_link(book.begun()).hex():
            return (
                f"{file} is the mark of another ledger, from which {shown} were published, and not of {self._name}: give each "
                "policy "
                "outputs, and a `mark`, of its own; if that ledger was lost, put its newest copy back"
            )
        if newest is not None and book.holds(mark.entries, bytes.fromhex(mark.head)):
            return None
        entries, events = (newest.last, len(book.events())) if newest else (0, 0)
        if mark.entries > entries or mark.events > events:
            return (
                f"{self._name}: holds {_count(entries, events)}, but {shown} were published from it, says {file}: a restored "
                "backup "
                f"would draw their noise again. {REMEDY}"
            )
        return (
            f"{self._name}: is not the ledger that {shown} were published from, says {file}: their hash is another one. "
            f"{REMEDY}"
        )

    def refuse_older(self, may_be_missing: bool = False) -> None:
        """Refuse a ledger that a mark shows to be an older copy or another one."""
        wrong = self.find_problem(may_be_missing)
        if wrong:
            raise LedgerError(wrong)

    def check_places(self) -> None:
        """Refuse places at which no mark could be written; nothing is made."""
        for place in self._places:
            _check_writable(place.file)

    def mark_shown(self) -> None:
        """Remember, in the ledger's guard and in every mark, that all entries of now are about to be shown.

        Whoever is stopped before it replaces a mark that machines share, and goes on after another has taken over, puts an older
        one in the place of the other's. So the ledger is looked at once more, and a mark never stays behind it.
        """
        self._book.mark_shown()
        now = self.now()
        while now is not None and self._write(now):
            newest = self._book.newest()
            if newest is None or (newest.last, newest.link.hex()) == (now.entries, now.head):
                return
            now = self.now()

    def _write(self, now: Mark) -> bool:
        """Replace the marks that are behind; return whether there were any."""
        behind = [place for place in self._places if _is_behind(self._known.get(place.file), now, place.streams)]
        for place in behind:
            if place.named and not self._book.digests(NAMED, place.file):
                self._book.mark_written(NAMED, place.file, 1, b"mark")
            _replace(place.file, now.text())
            self._known[place.file] = now
        return bool(behind)

    def now(self) -> Mark | None:
        """Return what a mark says when everything that the ledger holds is shown; None if it holds nothing."""
        book, newest = self._book, self._book.newest()
        if newest is None:
            return None
        if self._identity is None:
            names = tuple(key.removeprefix("stream:") for key in book.facts() if key.startswith("stream:"))
            self._identity = first_link(book.begun()).hex(), names
        ledger, names = self._identity
        known = {*names, *(name_vintage(stream, count_vintages(book, stream)) for stream in names)}
        steps = {name: book.last_step(name) for name in sorted(known)}
        return Mark(ledger, newest.last, len(book.events()), newest.link.hex(), steps)

    @property
    def found(self) -> dict[str, Mark]:
        """The marks that were there when they were read or written last, by file."""
        return {file: mark for file, mark in self._known.items() if mark is not None}


def _count(entries: int, events: int) -> str:
    """Entries and events in words."""
    more = f" and {events:,} {'event' if events == 1 else 'events'}" if events else ""
    return f"{entries:,} {'entry' if entries == 1 else 'entries'}{more}"


def _is_behind(known: Mark | None, now: Mark, streams: frozenset[str]) -> bool:
    """Whether a mark does not yet count all events, and all that there is of the streams that it answers for."""
    if known is None or known.events != now.events:
        return True
    mine = [name for name in now.streams if split_vintage(name)[0] in streams]
    return any(known.streams.get(name, 0) != now.streams[name] for name in mine)


def _check_writable(file: str) -> None:
    """Refuse a place at which no mark could be made; nothing is made."""
    folder = os.path.dirname(file)
    above = folder
    while not os.path.exists(above):
        above = os.path.dirname(above)
    if not os.path.isdir(above):
        raise _refuse(file, "written", NotADirectoryError(0, f"{above} is no folder"))
    if not os.access(above, os.W_OK | os.X_OK):
        raise _refuse(file, "written", PermissionError(0, f"nothing can be made in {above}"))


def _replace(file: str, text: str) -> None:
    """Replace a mark whole: written beside, synced, renamed, and the folder synced."""
    folder, beside = os.path.dirname(file), f"{file}.new"
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        os.makedirs(folder, exist_ok=True)
        number = os.open(beside, flags, 0o666)
        try:
            rest = memoryview(text.encode())
            while rest:
                rest = rest[os.write(number, rest) :]
            os.fsync(number)
        finally:
            os.close(number)
        os.replace(beside, file)
        sync(folder)
    except OSError as error:
        raise _refuse(file, "written", error) from None
