"""What every ledger must do: one value a step, a commit whole or not at all, one writer, and no change that goes unnoticed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import wraps
from typing import Any, Literal, Protocol, get_args

import numpy as np

from halflife.errors import LedgerError
from halflife.ledger import Entry, Ledger
from halflife.ledger.entry import ALL_GROUPS, batch_link, digest, first_link
from halflife.numerics.arrays import Floats
from halflife.release import Release
from halflife.testing.expectations import expect

Tampering = Literal[
    "value", "loss", "removed", "reordered", "newest", "state", "fact", "time", "event", "event removed", "event moved"
]
TAMPERINGS: tuple[Tampering, ...] = get_args(Tampering)
EVENT = '{"kind": "amendment", "facts": {"stream:t": "[]"}, "reason": "members"}'
FACTS = {"format": "halflife.ledger", "promise": '{"epsilon": 1.0}', "stream:s": "{}", "stream:t": "{}"}


class Opener(Protocol):
    """Opens a ledger by a name; the same name is the same ledger."""

    def __call__(self, name: str, *, read_only: bool = False) -> Ledger:
        """Return the ledger."""


@dataclass(frozen=True)
class LedgerSubject:
    """A kind of ledger, and what only its own tests can do to one.

    open       open(name) opens the ledger of that name, or makes it; open(name, read_only=True) opens it to be read
    interrupt  within interrupt(ledger) the storage fails in the middle of a commit, when entries were handed over already
    tamper     tamper(name, what) changes what is stored without the ledger knowing: the "value" or "loss" of entry 2, entry 2
               "removed" or "reordered" with entry 3, the value of the "newest" entry, a saved "state", a "fact", the "time" of
               the first batch; what the first "event" says, that event "removed", or "moved" before the batch it follows
    back_up    back_up(name) copies what is stored, but for the mark of what was shown; calling its result puts the copy back
    """

    open: Opener
    interrupt: Callable[[Ledger], AbstractContextManager[Any]]
    tamper: Callable[[str, Tampering], None]
    back_up: Callable[[str], Callable[[], None]]


def make_entry(
    step: int,
    noisy: float | Floats = 1.5,
    *,
    stream: str = "s",
    part: str = ALL_GROUPS,
    releases: tuple[Release, ...] = (),
    value: Floats | None = None,
    spread: float = 10.0,
) -> Entry:
    """Return an entry, by default of one number with one release."""
    charged = releases or (Release(step, 0.1, scale=10.0),)
    return Entry(stream, step, step, 10 * step, 10 * step + 10, charged, np.atleast_1d(noisy), value, spread, part)


def _fill(book: Ledger, first: int = 1, batches: int = 3) -> None:
    """Hold the ledger and commit batches of two steps each, an event after the second, all of it shown."""
    with book.hold():
        book.begin(FACTS)
        book.mark_shown()
        for i in range(batches):
            step = first + 2 * i
            book.commit([make_entry(step, step / 3), make_entry(step + 1, -step / 7)], _states(step), 1_000 + step)
            if i == 1:
                book.commit([], {}, 1_000 + step, event='{"kind": "key", "reason": "members"}')
        book.mark_shown()


def _states(step: int) -> dict[str, str]:
    return {"account": f'{{"step": {step}}}', "stream:s": f"noise of {step}"}


def _refuse(action: Callable[[], object], book: Ledger, what: str) -> None:
    """Expect a LedgerError that names the ledger."""
    try:
        action()
    except LedgerError as error:
        expect(book.name in str(error), f"the refusal does not name the ledger: {error}")
        return
    raise AssertionError(f"{what} was not refused")


def _hold_and(book: Ledger, action: Callable[[], object]) -> Callable[[], None]:
    def act() -> None:
        with book.hold(wait=0):
            action()

    return act


def _contents(book: Ledger) -> tuple[object, ...]:
    """All that a ledger says, in a form that compares bit by bit."""
    links = [(number, entry.say(), link) for number, entry, link in book.chained()]
    return book.facts(), book.states(), links, list(book.batches()), book.count_releases()


def find_break(book: Ledger) -> str | None:
    """Walk the whole chain by its definition, and say where it does not hold; None if it does."""
    try:
        head, batches, count = first_link(book.begun()), list(book.batches()), 0
        for count, (number, entry, link) in enumerate(book.chained(), start=1):
            head = entry.link(head)
            if head != link or number != count:
                return f"entry {count}: its hash or its number does not follow"
            for batch in [b for b in batches if b.last == number]:
                head = batch_link(head, batch.at_us, batch.states, batch.event)
                if head != batch.link:
                    return f"a batch that ends with entry {number}: its hash does not follow"
        if batches and (batches[-1].last != count or batches[-1].states != digest(book.states().items())):
            return "the newest batch is not that of the last entry, or its states are others"
        if book.newest() != (batches[-1] if batches else None):
            return "the newest batch is not the last one"
    except LedgerError as error:
        return str(error)
    return None


# Checks


def _check(check: Callable[[LedgerSubject], None]) -> Callable[[LedgerSubject], None]:
    """A check that fails, too, where the ledger refuses what the check does not expect it to refuse."""

    @wraps(check)
    def checked(s: LedgerSubject) -> None:
        try:
            check(s)
        except LedgerError as error:
            raise AssertionError(f"what must be possible was refused: {error}") from error

    return checked


@_check
def facts_stay_once_something_is_published(s: LedgerSubject) -> None:
    """Facts may change until something is published; from then on no changed, added or missing one is taken over."""
    with s.open("facts") as book:
        slip = {**FACTS, "promise": "a slip"}
        with book.hold():
            for facts in (slip, FACTS):
                expect(book.begin(facts) == facts, "facts could not be changed before anything was published")
        _fill(book)
        without = {k: v for k, v in FACTS.items() if k != "promise"}
        for other in ({**FACTS, "promise": '{"epsilon": 2.0}'}, {**FACTS, "more": "1"}, without):
            with book.hold():
                expect(book.begin(other) == FACTS, f"begun with {other}, the ledger is not held to its own facts")
            expect(book.facts() == FACTS, f"begun with {other}, the ledger forgot its own facts")
    with s.open("facts", read_only=True) as book:
        expect(book.facts() == FACTS, "the facts are not those that the ledger was begun with")


@_check
def a_step_has_one_value(s: LedgerSubject) -> None:
    """A second entry of a stream, step and part is refused with all that comes with it; other streams and parts are not."""
    with s.open("once") as book:
        _fill(book)
        before = _contents(book)
        with book.hold():
            book.begin(FACTS)
            again = [make_entry(99), make_entry(2, 7.0)]
            _refuse(lambda: book.commit(again, {"account": "other"}, 9_000), book, "a second value of step 2")
            twice = (Release(8, 0.1, draw="phase"), Release(8, 0.1, draw="phase"))
            _refuse(lambda: book.commit([make_entry(8, releases=twice)], {}, 9_000), book, "one draw twice in a step")
            expect(_contents(book) == before, "a refused commit left something behind")
            book.commit([make_entry(2, stream="t"), make_entry(2, part="north")], {}, 9_000)
        expect([e.step for e in book.entries("s")] == [1, 2, 2, 3, 4, 5, 6], "entries of a stream are not in order")
        expect([e.step for e in book.entries("t")] == [2], "streams are not kept apart")
        expect(find_break(book) is None, f"the chain is broken: {find_break(book)}")


@_check
def a_commit_is_whole_or_nothing(s: LedgerSubject) -> None:
    """If the storage fails in the middle of a commit, nothing of it is there, then or after opening anew; it can be repeated."""
    with s.open("whole") as book:
        _fill(book)
        before = _contents(book)
        with book.hold():
            book.begin(FACTS)
            batch = [make_entry(7), make_entry(8)], {"account": "new"}, 9_000
            with s.interrupt(book):
                _refuse(lambda: book.commit(*batch), book, "a commit whose storage failed")
            expect(_contents(book) == before, "a part of a failed commit was kept")
            with s.open("whole", read_only=True) as other:
                expect(_contents(other) == before, "a part of a failed commit was kept for other readers")
            book.commit(*batch)
        expect(book.last_step("s") == 8, "a commit could not be repeated")
        expect(find_break(book) is None, f"the chain is broken: {find_break(book)}")


@_check
def everything_comes_back_bit_by_bit(s: LedgerSubject) -> None:
    """Numbers, names, times and states are read back as they were written, by a reader that opens the ledger later."""
    odd = np.array([0.1, -0.0, 5e-324, 1.7976931348623157e308, 1 / 3])
    releases = (
        Release(2**40, 0.1 + 0.2, age=2**40 - 1, sensitivity=1 / 3, draw="phase 1"),
        Release(2**40, 1 / 3, atop="phase 1", noise="gaussian"),
        Release(2**40, 0.0),
        Release(2**40, 1e-300, draw="#0"),
    )
    entries = [
        make_entry(1, odd, value=-odd, spread=5e-324),
        Entry("t", 2**40, 2**40, -(2**53), 2**62, releases, odd[:1], None, 0.1, part="Überlingen"),
    ]
    states = {"account": '{"x": 0.30000000000000004}', "stream:s": "é\u2028'\"\\" * 50, "empty": ""}
    with s.open("bits") as book, book.hold():
        book.begin(FACTS)
        book.commit(entries, states, 2**53 + 1)
    with s.open("bits", read_only=True) as book:
        back = [entry for _, entry, _ in book.chained()]
        expect(
            [e.say() for e in back] == [e.say() for e in entries], "an entry says something else than what was written"
        )
        for a, b in zip(back, entries, strict=True):
            same = a.releases == b.releases and a.noisy.tobytes() == b.noisy.tobytes() and a.part == b.part
            expect(same, "an entry's releases, numbers or part are others")
        expect(book.states() == states, "states are not those that were written")
        newest = book.newest()
        expect(newest is not None and newest.at_us == 2**53 + 1, "the time of a commit is another")
        expect(book.count_releases() == 5, "releases are missing")


@_check
def states_are_replaced_by_name(s: LedgerSubject) -> None:
    """A batch replaces the states it names and keeps the others; its digest is of all; what may be secret is kept apart."""
    with s.open("states") as book, book.hold():
        book.begin(FACTS)
        book.commit([make_entry(1)], {"account": "1", "attachment": "large"}, 1)
        book.commit([make_entry(2)], {"account": "2"}, 2)
        known, newest = book.states(), book.newest()
        expect(known == {"account": "2", "attachment": "large"}, f"states are {known}")
        expect(newest is not None and newest.states == digest(known.items()), "the digest is not of all states")
        expect([b.last for b in book.batches()] == [1, 2], "batches are not in order")
        book.commit([make_entry(3)], {"stream:s": "noise"}, 3)
        expect(book.states() == {**known, "stream:s": "noise"}, "a state of a stream is missing")
        expect(
            book.public_states() == known,
            "who only reads sees the state of a stream, which may hold kept noise, or too little",
        )


@_check
def events_follow_batches(s: LedgerSubject) -> None:
    """Events stand in the chain where they happened, change facts and states, and are refused before anything was published."""
    with s.open("events") as book, book.hold():
        book.begin(FACTS)
        _refuse(lambda: book.commit([], {}, 1, event=EVENT), book, "an event before anything was published")
        book.commit([make_entry(1)], {"account": "1"}, 1)
        _refuse(lambda: book.commit([make_entry(2)], {}, 2, event=EVENT), book, "an event with entries")
        book.commit([], {"account": "amended"}, 2, event=EVENT)
        book.commit([], {}, 3, event='{"kind": "key"}')
        expect(book.newest() == list(book.batches())[-1], "the newest batch is not the newest event")
        book.commit([make_entry(2)], {}, 4)
        book.commit([], {}, 5, event='{"kind": "key"}')
        book.mark_shown()
        kinds = [(b.last, b.at_us, b.event) for b in book.batches()]
        expect(
            kinds == [(1, 1, None), (1, 2, EVENT), (1, 3, '{"kind": "key"}'), (2, 4, None), (2, 5, '{"kind": "key"}')],
            f"events are not in order: {kinds}",
        )
        expect(book.states() == {"account": "amended"}, "an event did not replace the states it names")
        expect(book.facts() == {**FACTS, "stream:t": "[]"}, "an event did not change the facts it names")
        expect(book.begun() == FACTS, "an event changed the facts that the chain begins with")
    with s.open("events") as book:
        expect(find_break(book) is None, f"the chain with events is broken: {find_break(book)}")
        with book.hold():
            expect(book.begin(FACTS) == book.facts(), "a ledger is not begun with its amended facts")
            book.commit([make_entry(3)], {}, 6)


@_check
def a_copy_from_before_an_event_is_refused(s: LedgerSubject) -> None:
    """An event that was shown cannot be undone by a copy with the same entries."""
    with s.open("unamended") as book:
        _fill(book, batches=1)
    put_back = s.back_up("unamended")
    with s.open("unamended") as book, book.hold():
        book.begin(FACTS)
        book.commit([], {}, 9_000, event=EVENT)
        book.mark_shown()
    put_back()
    with s.open("unamended") as book:
        _refuse(_hold_and(book, lambda: book.begin(FACTS)), book, "a copy from before an event")


@_check
def steps_are_found(s: LedgerSubject) -> None:
    """Stretches of a stream, its newest step, and the next step after a gap."""
    with s.open("steps") as book, book.hold():
        book.begin(FACTS)
        book.commit([make_entry(k) for k in (1, 2, 5, 9)] + [make_entry(7, stream="t")], {}, 1)
        expect((book.last_step("s"), book.last_step("t"), book.last_step("u")) == (9, 7, 0), "last_step")
        found = [book.next_step("s", after) for after in (0, 2, 5, 9)]
        expect(found == [1, 5, 9, None], f"next steps are {found}")
        expect([e.step for e in book.entries("s", 2, 5)] == [2, 5], "a stretch is another")
        expect([e.step for e in book.entries("s", 3)] == [5, 9], "a stretch without an end is another")
        expect([e.step for e in book.entries()] == [1, 2, 5, 9, 7], "all entries are not in the order of the chain")


@_check
def one_writer_at_a_time(s: LedgerSubject) -> None:
    """Nothing is written without holding; a second holder is refused until the first lets go; waiting can be stopped."""
    with s.open("turns") as mine, s.open("turns") as other:
        _fill(mine)
        _refuse(lambda: mine.commit([make_entry(7)], {}, 9_000), mine, "a commit without holding")
        with mine.hold():
            for late in (mine, other):
                _refuse(_hold_and(late, lambda: None), late, "a second holder")
            _refuse(lambda: other.hold(60, lambda: True).__enter__(), other, "waiting that was to stop")
        with other.hold(wait=0):
            other.begin(FACTS)


@_check
def a_late_writer_is_refused(s: LedgerSubject) -> None:
    """Who has begun before somebody else wrote must begin again: their account is no longer the ledger's."""
    with s.open("late") as mine, s.open("late") as other:
        _fill(mine)
        _fill(other, first=7, batches=1)
        with mine.hold():
            _refuse(lambda: mine.commit([make_entry(9)], {}, 9_000), mine, "a commit on what somebody else wrote")
            mine.begin(FACTS)
            mine.commit([make_entry(9)], {}, 9_000)
        expect(find_break(mine) is None, f"the chain is broken: {find_break(mine)}")


@_check
def readers_see_one_moment(s: LedgerSubject) -> None:
    """A reader needs no hold, sees what is committed, keeps its snapshot while others write, and cannot write."""
    with s.open("readers") as book:
        _fill(book)
        with s.open("readers", read_only=True) as reader:
            with reader.snapshot():
                before = _contents(reader)
            _fill(book, first=7, batches=1)
            expect(_contents(reader) == before, "a snapshot changed under its reader")
        with book.hold(), s.open("readers", read_only=True) as reader:
            expect(reader.last_step("s") == 8, "a reader does not see what was committed while the ledger is held")
            expect(reader.writer() is not None, "a reader is not told that the ledger is held")
            with reader.snapshot(None):
                expect(reader.last_step("s") == 8, "a snapshot that waits for nobody does not see what was committed")
            book.begin(FACTS)
            book.commit([make_entry(9)], {}, 9_000)
            expect(reader.last_step("s") == 8, "a snapshot that waits for nobody changed under its reader")
        expect(book.writer() is None, "a ledger that nobody holds has a writer")
        with s.open("readers", read_only=True) as reader:

            def write() -> None:
                reader.begin(FACTS)
                reader.commit([make_entry(10)], {}, 10_000)

            _refuse(_hold_and(reader, write), reader, "writing to a ledger that was opened to be read")
        expect(book.last_step("s") == 9, "a ledger that was opened to be read was written to")


@_check
def changes_are_found(s: LedgerSubject) -> None:
    """Whatever is changed behind the ledger's back, the chain of hashes tells; what is newest is looked at by `begin` too."""
    for what in TAMPERINGS:
        name = f"changed {what}"
        with s.open(name) as book:
            _fill(book)
            expect(find_break(book) is None, f"the chain is broken from the start: {find_break(book)}")
            expect(
                book.follows(1) and book.follows(6) and not book.follows(7), "follows() of what is whole, or missing"
            )
        s.tamper(name, what)
        with s.open(name) as book:
            expect(find_break(book) is not None, f"nothing tells that this was changed: {what}")
            if what in ("newest", "state", "fact"):
                _refuse(_hold_and(book, lambda book=book: book.begin(FACTS)), book, f"to go on after: {what}")  # type: ignore[misc]


@_check
def an_older_copy_is_refused(s: LedgerSubject) -> None:
    """What was shown is remembered beyond a restored backup; what was committed and never shown may be lost."""
    with s.open("older") as book:
        _fill(book)
        expect(book.find_rollback() is None, f"a whole ledger is taken for an older copy: {book.find_rollback()}")
    put_back = s.back_up("older")
    with s.open("older") as book, book.hold():
        book.begin(FACTS)
        book.commit([make_entry(7)], {}, 9_000)
    put_back()
    with s.open("older") as book, book.hold():
        book.begin(FACTS)
        book.commit([make_entry(7, 2.0)], {}, 9_001)
        book.mark_shown()
    put_back()
    with s.open("older") as book:
        expect(book.find_rollback() is not None, "an older copy is not noticed")
        _refuse(_hold_and(book, lambda: book.begin(FACTS)), book, "an older copy")


@_check
def what_was_shown_is_held(s: LedgerSubject) -> None:
    """A ledger knows each batch of its chain by number and hash, and those that an event declares lost; nothing else."""
    gone = bytes(range(32))
    with s.open("held") as book:
        expect(not book.holds(2, gone), "an empty ledger holds something")
        _fill(book)
        batches = list(book.batches())
        expect(all(book.holds(b.last, b.link) for b in batches), "a batch of the chain, or an event, is not held")
        expect(not book.holds(batches[0].last, batches[-1].link), "a hash is held with another entry")
        expect(not book.holds(9, gone), "what is nowhere in the chain is held")
        with book.hold():
            book.begin(FACTS)
            book.commit([], {}, 9_000, event=f'{{"kind": "restore", "lost": [[9, "{gone.hex()}"]]}}')
        expect(book.holds(9, gone), "what an event declares lost is not held")
        expect(not book.holds(8, gone), "a lost hash is held with another entry")


@_check
def outputs_are_remembered(s: LedgerSubject) -> None:
    """The newest digest of each file of an output, one more while it is being replaced; and what was printed."""
    with s.open("outputs") as book:
        _fill(book)
        with book.hold():
            book.begin(FACTS)
            book.mark_written("s", "a", 2, b"two")
            book.mark_written("s", "a", 4, b"four", beside=2)
            book.mark_written("s", "b", 4, b"other")
            expect(book.digests("s", "a") == {2: b"two", 4: b"four"}, "the file that is being replaced is forgotten")
            book.mark_written("s", "a", 6, b"six")
            book.mark_printed("s", 4)
            book.mark_printed("s", 6)
    with s.open("outputs", read_only=True) as book:
        expect(book.digests("s", "a") == {6: b"six"}, "digests that were replaced are left")
        expect(book.digests("s", "b") == {4: b"other"}, "files are not kept apart")
        expect((book.last_printed("s"), book.last_printed("t")) == (6, 0), "what was printed is another step")
        expect(find_break(book) is None, "marks of outputs are no part of the chain")


@_check
def a_step_costs_the_same_however_long_the_ledger(s: LedgerSubject) -> None:
    """To begin and commit one step runs about as many functions after 2 000 entries as after 20."""

    def count(step: int) -> int:
        calls = 0

        def see(frame: object, event: str, argument: object) -> None:
            nonlocal calls
            calls += event in ("call", "c_call")

        before = sys.getprofile()
        sys.setprofile(see)
        try:
            book.begin(FACTS)
            book.commit([make_entry(step)], {"account": "x"}, step)
            book.mark_shown()
        finally:
            sys.setprofile(before)
        return calls

    with s.open("long") as book, book.hold():
        book.begin(FACTS)
        book.mark_shown()
        book.commit([make_entry(k) for k in range(1, 21)], {"account": "x"}, 1)
        short = count(21)
        book.commit([make_entry(k) for k in range(22, 2_001)], {"account": "x"}, 2_000)
        long = count(2_001)
    expect(long <= 1.5 * short + 50, f"a step called {short} functions at first and {long} after 2,000 entries")


LEDGER_CHECKS: dict[str, Callable[[LedgerSubject], None]] = {
    f.__name__: f
    for f in (
        facts_stay_once_something_is_published,
        a_step_has_one_value,
        a_commit_is_whole_or_nothing,
        everything_comes_back_bit_by_bit,
        states_are_replaced_by_name,
        events_follow_batches,
        a_copy_from_before_an_event_is_refused,
        steps_are_found,
        one_writer_at_a_time,
        a_late_writer_is_refused,
        readers_see_one_moment,
        changes_are_found,
        an_older_copy_is_refused,
        what_was_shown_is_held,
        outputs_are_remembered,
        a_step_costs_the_same_however_long_the_ledger,
    )
}


def check_ledger(
    open: Opener,
    interrupt: Callable[[Ledger], AbstractContextManager[Any]],
    tamper: Callable[[str, Tampering], None],
    back_up: Callable[[str], Callable[[], None]],
) -> None:
    """Run every check on a kind of ledger, on new ledgers that `open(name)` makes; see `LedgerSubject` for what is asked."""
    subject = LedgerSubject(open, interrupt, tamper, back_up)
    for check in LEDGER_CHECKS.values():
        check(subject)
