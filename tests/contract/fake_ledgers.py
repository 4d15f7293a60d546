"""A ledger in memory, which keeps the contract, and ledgers that each break it in one way, to see whether the suite tells.

Not for use: nothing of it survives the process.
"""

from __future__ import annotations

import copy
import dataclasses
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from halflife.errors import LedgerError
from halflife.ledger import Batch, Entry
from halflife.ledger.base import is_secret
from halflife.ledger.entry import batch_link, digest, first_link
from halflife.ledger.events import amend_facts, declares_lost
from halflife.testing import LedgerSubject


@dataclass
class Store:
    """What is kept of one ledger; `shown` and `holder` are no part of a backup."""

    facts: dict = field(default_factory=dict)
    links: list = field(default_factory=list)
    batches: list = field(default_factory=list)
    states: dict = field(default_factory=dict)
    marks: dict = field(default_factory=dict)
    shown: tuple = (0, b"")
    holder: object = None
    failing: bool = False


class FakeLedger:
    """Keeps the contract: every method is the shortest that does."""

    scratch, operator_file = Path("/nowhere"), Path("/nowhere/operator.jsonl")

    def __init__(self, store: Store, name: str, read_only: bool = False) -> None:
        self.store, self.name, self.read_only, self.head = store, name, read_only, None

    def close(self):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def refuse(self, why):
        return LedgerError(f"{self.name}: {why}")

    # Holding

    @contextmanager
    def hold(self, wait=10.0, stop=lambda: False):
        if self.store.holder is not None:
            raise self.refuse("held")
        self.store.holder = self
        try:
            yield
        finally:
            self.store.holder = None

    @contextmanager
    def snapshot(self, wait=10.0):
        self.store = copy.deepcopy(self.store)
        yield

    def showing(self):
        return nullcontext()

    def writer(self):
        return None if self.store.holder is None else "a test"

    def check_unwritten(self):
        pass

    # Writing

    def begin(self, facts):
        if self.fault():
            raise self.refuse(self.fault())
        if not self.store.links:
            self.store.facts = dict(facts)
        self.head = self.newest_link()
        return self.facts()

    def fault(self):
        """What `begin` refuses: the newest entry, batch and states, and the mark of what was shown."""
        count = len(self.store.links)
        if count and not (self.follows(1) and self.follows(count)):
            return "changed"
        if count and digest(self.store.states.items()) != self.newest().states:
            return "states changed"
        if count and not self.newest_follows():
            return "the newest batch changed"
        return self.find_rollback()

    def newest_follows(self):
        *_, before, newest = [None, *self.store.batches]
        link = before.link if newest.event is not None else self.store.links[-1][2]
        return batch_link(link, newest.at_us, newest.states, newest.event) == newest.link

    def commit(self, entries, states, at_us, event=None):
        self.check_writing()
        after = copy.copy(self.store)
        after.links, after.batches, after.states = list(after.links), list(after.batches), dict(after.states)
        self.write(after, entries, states, at_us, event)
        vars(self.store).update(links=after.links, batches=after.batches, states=after.states)
        self.head = self.newest_link()

    def check_writing(self):
        if self.store.holder is not self or self.read_only:
            raise self.refuse("not held, or read-only")
        if self.head != self.newest_link():
            raise self.refuse("somebody else has written")

    def write(self, store, entries, states, at_us, event=None):
        if event is not None:
            self.check_event(store, entries)
        link, known = self.head, {(e.stream, e.step, e.part) for _, e, _ in store.links}
        for entry in entries:
            if (entry.stream, entry.step, entry.part) in known or len(set(entry.draws())) < len(entry.releases):
                raise self.refuse("twice")
            link = entry.link(link)
            store.links.append((len(store.links) + 1, copy.deepcopy(entry), link))
        store.states.update(states)
        if store.failing:
            raise self.refuse("the disk is full")
        saved = digest(store.states.items())
        store.batches.append(Batch(len(store.links), at_us, saved, batch_link(link, at_us, saved, event), event))

    def check_event(self, store, entries):
        if entries or not store.links:
            raise self.refuse("an event with entries, or before any")

    def erase_deleted(self):
        pass

    def mark_shown(self):
        self.store.shown = (len(self.store.links), self.newest_link())

    def mark_written(self, stream, file, step, sha256, beside=None):
        known = self.store.marks.get((stream, file), {})
        self.store.marks[stream, file] = {k: v for k, v in known.items() if k == beside} | {step: sha256}

    def mark_printed(self, stream, step):
        self.mark_written(stream, "-", step, b"")

    # Reading

    def begun(self):
        return dict(self.store.facts)

    def facts(self):
        return amend_facts(self.begun(), (batch.event for batch in self.events()))

    def states(self):
        return dict(self.store.states)

    def public_states(self):
        return {name: value for name, value in self.states().items() if not is_secret(name)}

    def newest(self):
        return self.store.batches[-1] if self.store.batches else None

    def newest_link(self):
        return self.newest().link if self.newest() else first_link(self.store.facts)

    def batches(self):
        return iter(self.store.batches)

    def events(self):
        return [batch for batch in self.store.batches if batch.event is not None]

    def chained(self):
        return iter(self.store.links)

    def entries(self, stream=None, first=1, last=None):
        found = [e for _, e, _ in self.store.links]
        if stream is not None:
            found = [e for e in found if e.stream == stream and first <= e.step <= (last or e.step)]
            found.sort(key=lambda e: e.step)
        return iter(found)

    def follows(self, number):
        if number > len(self.store.links):
            return False
        _, entry, link = self.store.links[number - 1]
        before = (
            {b.last: b.link for b in self.store.batches}.get(number - 1) if number > 1 else first_link(self.begun())
        )
        return entry.link(before or self.store.links[number - 2][2]) == link

    def holds(self, entries, head):
        lost = any(declares_lost(batch.event, entries, head) for batch in self.events())
        return lost or (entries, head) in {(b.last, b.link) for b in self.store.batches}

    def count_releases(self):
        return sum(len(e.releases) for e in self.entries())

    def last_step(self, stream):
        return max((e.step for e in self.entries(stream)), default=0)

    def next_step(self, stream, after):
        return min((e.step for e in self.entries(stream) if e.step > after), default=None)

    def digests(self, stream, file):
        return dict(self.store.marks.get((stream, file), {}))

    def last_printed(self, stream):
        return max(self.digests(stream, "-"), default=0)

    # Checking

    def find_damage(self):
        return None

    def find_rollback(self):
        count, link = self.store.shown
        if not count or self.holds(count, link):
            return None
        return "an older copy" if count > len(self.store.links) else "another ledger"

    def explain_rollback(self):
        return ""


# Broken ones, by the check that must tell


class ForgetsFacts(FakeLedger):
    def begin(self, facts):
        self.store.facts = dict(facts)
        self.head = self.newest_link()
        return dict(facts)


class TakesAddedFacts(FakeLedger):
    def begin(self, facts):
        return {**facts, **super().begin(facts)}


class OverwritesSteps(FakeLedger):
    def write(self, store, entries, states, at_us, event=None):
        new = {(e.stream, e.step, e.part) for e in entries}
        store.links = [link for link in store.links if (link[1].stream, link[1].step, link[1].part) not in new]
        super().write(store, entries, states, at_us, event)


class IgnoresParts(FakeLedger):
    def write(self, store, entries, states, at_us, event=None):
        if {(e.stream, e.step) for e in entries} & {(e.stream, e.step) for _, e, _ in store.links}:
            raise self.refuse("twice")
        super().write(store, entries, states, at_us, event)


class WritesInPlace(FakeLedger):
    def commit(self, entries, states, at_us, event=None):
        self.check_writing()
        self.write(self.store, entries, states, at_us, event)
        self.head = self.newest_link()


class KeepsStatesOfFailures(FakeLedger):
    def commit(self, entries, states, at_us, event=None):
        try:
            super().commit(entries, states, at_us, event)
        except LedgerError:
            self.store.states.update(states)
            raise


class RoundsNumbers(FakeLedger):
    def write(self, store, entries, states, at_us, event=None):
        entries = [dataclasses.replace(e, noisy=e.noisy.astype(np.longdouble).round(9).astype(float)) for e in entries]
        super().write(store, entries, states, at_us, event)


class LosesNegativeZero(FakeLedger):
    def write(self, store, entries, states, at_us, event=None):
        super().write(store, [dataclasses.replace(e, noisy=e.noisy + 0.0) for e in entries], states, at_us, event)


class ForgetsTheSmoothedValue(FakeLedger):
    def write(self, store, entries, states, at_us, event=None):
        super().write(store, [dataclasses.replace(e, value=None) for e in entries], states, at_us, event)


class ReplacesAllStates(FakeLedger):
    def write(self, store, entries, states, at_us, event=None):
        store.states = {}
        super().write(store, entries, states, at_us, event)


class ShowsKeptNoise(FakeLedger):
    def public_states(self):
        return self.states()


class ForgetsAmendedFacts(FakeLedger):
    def facts(self):
        return self.begun()


class BeginsWithAmendedFacts(FakeLedger):
    """Takes amended facts for those that its chain begins with."""

    def begun(self):
        return amend_facts(super().begun(), (batch.event for batch in self.events()))


class TakesEventsFirst(FakeLedger):
    def check_event(self, store, entries):
        pass


class LosesTheOrderOfEvents(FakeLedger):
    def batches(self):
        return iter(sorted(self.store.batches, key=lambda batch: (batch.last, len(batch.event or ""))))


class MarksEntriesAlone(FakeLedger):
    """Remembers the batch of entries that was shown, and no event after it."""

    def mark_shown(self):
        shown = [b for b in self.store.batches if b.event is None]
        self.store.shown = (len(self.store.links), shown[-1].link if shown else b"")


class SkipsNoGap(FakeLedger):
    def next_step(self, stream, after):
        return after + 1 if after < self.last_step(stream) else None


class LeavesOutTheEnd(FakeLedger):
    def entries(self, stream=None, first=1, last=None):
        return (e for e in super().entries(stream, first, last) if stream is None or last is None or e.step < last)


class LetsAnybodyWrite(FakeLedger):
    def check_writing(self):
        self.head = self.newest_link()


class LetsTwoHold(FakeLedger):
    @contextmanager
    def hold(self, wait=10.0, stop=lambda: False):
        before, self.store.holder = self.store.holder, self
        yield
        self.store.holder = before


class NeverLetsGo(FakeLedger):
    @contextmanager
    def hold(self, wait=10.0, stop=lambda: False):
        if self.store.holder not in (None, self):
            raise self.refuse("held")
        self.store.holder = self
        yield


class IgnoresOtherWriters(FakeLedger):
    def check_writing(self):
        self.head = self.newest_link()
        super().check_writing()


class HasNoSnapshots(FakeLedger):
    @contextmanager
    def snapshot(self, wait=10.0):
        yield


class WritesWhenReading(FakeLedger):
    def __init__(self, store, name, read_only=False):
        super().__init__(store, name)


class TrustsWhatItReads(FakeLedger):
    """Works its hashes out anew from whatever is stored, so that nothing ever differs."""

    def chained(self):
        link, ends = first_link(self.begun()), {b.last: b for b in self.batches()}
        for number, (_, entry, _) in enumerate(self.store.links, start=1):
            link = entry.link(link)
            yield number, entry, link
            if number in ends:
                link = ends[number].link

    def follows(self, number):
        return number <= len(self.store.links)


class BeginsOnAnything(FakeLedger):
    def fault(self):
        return self.find_rollback()


class ForgetsWhatWasShown(FakeLedger):
    def mark_shown(self):
        pass


class ShowsWhatItCommits(FakeLedger):
    """Marks entries as shown that nobody saw: after a crash an honest ledger would be refused."""

    def commit(self, entries, states, at_us, event=None):
        super().commit(entries, states, at_us, event)
        self.mark_shown()


class CountsButDoesNotHash(FakeLedger):
    def find_rollback(self):
        return None if self.store.shown[0] <= len(self.store.links) + 1 else "an older copy"


class HoldsByHashAlone(FakeLedger):
    def holds(self, entries, head):
        return any(b.link == head or declares_lost(b.event or "", entries, head) for b in self.store.batches)


class ForgetsWhatIsLost(FakeLedger):
    def holds(self, entries, head):
        return (entries, head) in {(b.last, b.link) for b in self.store.batches}


class ForgetsFilesInPlace(FakeLedger):
    def mark_written(self, stream, file, step, sha256, beside=None):
        super().mark_written(stream, file, step, sha256)


class ChecksEverythingAlways(FakeLedger):
    def begin(self, facts):
        assert all(self.follows(number) for number in range(1, len(self.store.links) + 1))
        return super().begin(facts)


BROKEN = {
    ForgetsFacts: "facts_stay_once_something_is_published",
    TakesAddedFacts: "facts_stay_once_something_is_published",
    OverwritesSteps: "a_step_has_one_value",
    IgnoresParts: "a_step_has_one_value",
    WritesInPlace: "a_commit_is_whole_or_nothing",
    KeepsStatesOfFailures: "a_commit_is_whole_or_nothing",
    RoundsNumbers: "everything_comes_back_bit_by_bit",
    LosesNegativeZero: "everything_comes_back_bit_by_bit",
    ForgetsTheSmoothedValue: "everything_comes_back_bit_by_bit",
    ReplacesAllStates: "states_are_replaced_by_name",
    ShowsKeptNoise: "states_are_replaced_by_name",
    ForgetsAmendedFacts: "events_follow_batches",
    BeginsWithAmendedFacts: "events_follow_batches",
    TakesEventsFirst: "events_follow_batches",
    LosesTheOrderOfEvents: "events_follow_batches",
    MarksEntriesAlone: "a_copy_from_before_an_event_is_refused",
    SkipsNoGap: "steps_are_found",
    LeavesOutTheEnd: "steps_are_found",
    LetsAnybodyWrite: "one_writer_at_a_time",
    LetsTwoHold: "one_writer_at_a_time",
    NeverLetsGo: "one_writer_at_a_time",
    IgnoresOtherWriters: "a_late_writer_is_refused",
    HasNoSnapshots: "readers_see_one_moment",
    WritesWhenReading: "readers_see_one_moment",
    TrustsWhatItReads: "changes_are_found",
    BeginsOnAnything: "changes_are_found",
    ForgetsWhatWasShown: "an_older_copy_is_refused",
    ShowsWhatItCommits: "an_older_copy_is_refused",
    CountsButDoesNotHash: "an_older_copy_is_refused",
    HoldsByHashAlone: "what_was_shown_is_held",
    ForgetsWhatIsLost: "what_was_shown_is_held",
    ForgetsFilesInPlace: "outputs_are_remembered",
    ChecksEverythingAlways: "a_step_costs_the_same_however_long_the_ledger",
}


def make_subject(kind: type[FakeLedger]) -> LedgerSubject:
    """A kind of fake as the suite asks for it, with stores of its own."""
    stores: dict[str, Store] = {}

    def open_fake(name, *, read_only=False):
        return kind(stores.setdefault(name, Store()), name, read_only)

    @contextmanager
    def interrupt(book):
        book.store.failing = True
        yield
        book.store.failing = False

    def tamper(name, what):
        store = stores[name]
        change = {
            "value": lambda: _replace(store, 2, noisy=np.array([3.0])),
            "loss": lambda: _replace(store, 2, releases=(_dearer(store.links[1][1]),)),
            "removed": lambda: store.links.pop(1),
            "reordered": lambda: store.links.__setitem__(slice(1, 3), store.links[2:0:-1]),
            "newest": lambda: _replace(store, len(store.links), spread=11.0),
            "state": lambda: store.states.update(account='{"step": 4}'),
            "fact": lambda: store.facts.update(promise='{"epsilon": 1.1}'),
            "time": lambda: store.batches.__setitem__(0, store.batches[0]._replace(at_us=9)),
            "event": lambda: _replace_event(store, event='{"kind": "key", "reason": "numbers"}'),
            "event removed": lambda: store.batches.remove(_event(store)),
            "event moved": lambda: _replace_event(store, last=2),
        }
        change[what]()

    def back_up(name):
        kept = copy.deepcopy(stores[name])

        def put_back():
            fresh = copy.deepcopy(kept)
            fresh.shown = stores[name].shown
            stores[name] = fresh

        return put_back

    return LedgerSubject(open_fake, interrupt, tamper, back_up)


def _replace(store: Store, number: int, **changes) -> None:
    place, entry, link = store.links[number - 1]
    store.links[number - 1] = (place, dataclasses.replace(entry, **changes), link)


def _event(store: Store) -> Batch:
    return next(batch for batch in store.batches if batch.event is not None)


def _replace_event(store: Store, **changes) -> None:
    store.batches[store.batches.index(_event(store))] = _event(store)._replace(**changes)


def _dearer(entry: Entry):
    return dataclasses.replace(entry.releases[0], loss=entry.releases[0].loss * 1.1)
