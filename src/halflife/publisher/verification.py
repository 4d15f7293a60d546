"""`verify`: checks that a ledger is unaltered and keeps its promise, and that the outputs agree with it.

Everything is worked out again from the ledger alone: each link of the chain, that no loss is less than its noise
costs, each risk by replaying every release through a new account, which must come out equal to the saved one to the last bit.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate, islice
from pathlib import Path

from halflife.accountant import Accountant
from halflife.errors import BudgetExceeded, InvalidInput, LedgerError, LedgerHidden, unknown
from halflife.ledger import Batch, Entry, Ledger, Link, Marks, Place, is_server, mark_beside, open_ledger
from halflife.ledger.entry import batch_link, digest, first_link, name_entry, name_vintage, split_vintage
from halflife.ledger.vintages import find_vintages
from halflife.mechanisms import HeldOutput
from halflife.numerics.progress import Progress
from halflife.outputs import Pinned, compare_output, find_changed_files, match_output, pin_output
from halflife.policy import GivenPolicy, Policy, find_change, find_worth, stream_shape
from halflife.policy.facts import Shape
from halflife.policy.worth import Worth
from halflife.postprocessing.chains import Record, load_chains
from halflife.postprocessing.reconcile.rules import load_rules
from halflife.publisher.holding import check_members, follow_book, list_amendments, list_promises, read_members
from halflife.publisher.readable import make_readable
from halflife.publisher.reconciling import ReconcileReplay
from halflife.publisher.replay import HeldReplay, QuantileReplay, Replay
from halflife.publisher.restores import add_lost, list_restores
from halflife.publisher.saved import UNREADABLE, SavedStates, stream_digests
from halflife.publisher.skipping import Stretch, join_skipped, list_skipped
from halflife.publisher.vintages.files import find_vintage_file
from halflife.registry import MECHANISMS


@dataclass(frozen=True)
class Verdict:
    """The result of `verify`: nothing is wrong if `problems` is empty.

    steps     newest published step by stream, later vintages among them (use@2);  compared  the file of each, where there is one
    published how many steps by stream;  skipped  stretches of steps that the chain says are skipped for good, by stream
    risk, peak, used  worked out again;  head  the newest hash of the chain, to be noted
    marks     the marks outside the ledger that were read: they agree if nothing is wrong
    """

    problems: tuple[str, ...]
    steps: dict[str, int]
    step: int
    risk: float
    peak: float
    limit: float
    used: float
    head: str
    compared: dict[str, str] = field(default_factory=dict)
    marks: tuple[str, ...] = ()
    published: dict[str, int] = field(default_factory=dict)
    skipped: dict[str, list[Stretch]] = field(default_factory=dict)

    @property
    def good(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


def verify(
    given: GivenPolicy,
    outputs: Mapping[str, str] | None = None,
    progress: Progress = lambda what, done, total: None,
    *,
    policy: GivenPolicy | None = None,
    wait: float = 10.0,
) -> Verdict:
    """Check a ledger, the outputs of its streams (stream → file), and that it is this policy's.

    given     a policy, the path of its file (.yaml, .yml or .json) or a dict: its own ledger and outputs are checked; else
              the address of a ledger
    outputs   files to compare with streams, beside or instead of the policy's own
    policy    whose ledger it must be, where the address of a ledger is given

    All of it is of one moment: who is writing is waited for, up to `wait` seconds, and whoever writes later is not kept away.

    >>> verify("nowhere.ledger")
    Traceback (most recent call last):
    ...
    halflife.errors.LedgerError: nowhere.ledger: cannot be opened: no such file: publish first, or give the path of a ledger
    """
    named, policy, again = dict(outputs or {}), None if policy is None else Policy.of(policy), None
    if not isinstance(given, Path | str) or is_policy(given):
        if policy is not None:
            raise InvalidInput(
                "verify takes one policy: give the address of a ledger beside policy=, or the policy alone"
            )
        policy = Policy.of(given)
        given, outputs = policy.ledger_url, {**policy.outputs, **named}
        again = policy
    with open_ledger(given, read_only=True) as book, ExitStack() as stack:
        marks = Marks(book, _find_marks(policy, outputs or {}))
        with book.snapshot(wait):
            rollback = book.find_rollback()
            older = marks.find_problem() if book.facts() else None
            files = {**(outputs or {}), **({} if again is None else _find_vintage_files(book, again))}
            pinned = [(stream, target, _pin(target, stack)) for stream, target in files.items()]
        damage = book.find_damage()
        if damage is not None:
            return _fail(damage)
        known = book.facts()
        if not known:
            return _fail(
                rollback
                or f"{book.name}: holds nothing yet, or its facts are gone: publish first, or put a whole copy back"
            )
        _check_names(book, named)
        try:
            # a stream that the policy has beyond them is a change of the policy, and named as that
            compared = [_Compared(book, *o) for o in pinned if f"stream:{split_vintage(o[0])[0]}" in known]
            walk = _Walk(book, progress, compared)
            problems = [*_other_policy(walk, policy), *walk.problems()]
            for output in walk.outputs:
                progress(f"comparing {output.target}", walk.count, walk.count)
                problems += output.differences(walk.broken)
            book.check_unwritten()
            if rollback:  # only a ledger that agrees with its outputs may be declared the newest
                problems.insert(0, rollback if problems or older else rollback + book.explain_rollback())
            if older:
                problems.insert(0, older)
        except LedgerHidden:
            raise
        except LedgerError as error:
            return _fail(str(error))
        except UNREADABLE:
            return _fail(f"{book.name}: holds what no publisher wrote: put a whole copy back, the newest one")
        return replace(walk.verdict(tuple(problems)), marks=tuple(marks.found))


def _find_marks(policy: Policy | None, outputs: Mapping[str, str]) -> list[Place]:
    """Where marks may lie: those of the policy, and beside outputs that are named."""
    known = [] if policy is None else list(policy.marks)
    files = {place.file for place in known}
    beside = {name: mark_beside(target) for name, target in outputs.items() if target != "-"}
    return known + [Place(file, frozenset({name})) for name, file in beside.items() if file not in files]


def find_broken_link(book: Ledger, progress: Progress = lambda what, done, total: None) -> str | None:
    """Return the first place where a ledger's chain of hashes breaks, or its saved states are others; None if it is whole.

    It costs one pass over the entries. That the promise is kept, and that estimates are what they should be, only `verify` says.
    """
    damage = book.find_damage()
    if damage is not None:
        return damage
    try:
        return next(_Walk(book, progress).breaks(), None)
    except LedgerHidden:
        raise
    except UNREADABLE:
        return f"{book.name}: holds what no publisher wrote"


def is_policy(path: Path | str) -> bool:
    """Return whether a path is that of a policy, by its ending; else it is the address of a ledger."""
    return not is_server(path) and Path(path).suffix.lower() in (".yaml", ".yml", ".json")


def _pin(target: str, stack: ExitStack) -> Pinned | InvalidInput:
    """Return an output, pinned as it is now, or the error why it cannot be read."""
    try:
        pinned = pin_output(target)
    except InvalidInput as error:
        return error
    stack.callback(pinned.close)
    return pinned


def _find_vintage_files(book: Ledger, policy: Policy) -> dict[str, str]:
    """Return the files of later vintages of a policy's streams, by the names of their entries; none of a damaged ledger."""
    try:
        known = [(s.name, found) for s in policy.streams for found in find_vintages(book, s.name).items()]
    except LedgerError:  # which is named as damage
        return {}
    return {name: find_vintage_file(policy, stream, number) for stream, (name, number) in known}


def _check_names(book: Ledger, outputs: Mapping[str, str]) -> None:
    """Refuse to compare an output with a stream that the ledger does not have."""
    known = [key.removeprefix("stream:") for key in book.facts() if key.startswith("stream:")]
    for stream in outputs:
        if stream not in known:
            raise unknown("stream", stream, known if book.follows(1) else ())


def _other_policy(walk: _Walk, policy: Policy | None) -> Iterator[str]:
    """Say where a policy differs from the one that the ledger was begun with, but for what may be added to it."""
    if policy is None:
        return
    try:
        change = find_change(walk.facts, policy)
        if change is not None:
            change += ": undo the change, or see what an amendment needs: halflife amend POLICY --reason TEXT --dry-run"
    except InvalidInput as error:
        change = str(error)
    if change is None:
        try:
            check_members(walk.book, policy)
        except LedgerError as error:
            yield str(error)
            return
    if change is not None:
        intact = walk.book.follows(1)  # else the facts were tampered with, and are not quoted
        yield f"{walk.book.name}: was begun under another policy: {change if intact else 'its facts are others'}"
        return
    if walk.saved is not None and walk.states_are_sound:
        try:
            SavedStates(follow_book(walk.book, policy), walk.book)
        except LedgerError as error:
            yield str(error)


def _begin_replay(record: Record, shape: Shape | None, worth: Worth) -> Replay:
    """The post-processing of a stream; of one whose facts cannot be read, whatever: the chain shows that."""
    return Replay(record, worth, shape.layout.zone) if shape else Replay(record, Worth.of(()), "UTC")


def _fail(problem: str) -> Verdict:
    return Verdict((problem,), {}, 0, float("nan"), float("nan"), float("nan"), float("nan"), "")


class _Walk:
    """One pass over the ledger: links, losses and risks. Damaged content is named by its place, never quoted."""

    def __init__(self, book: Ledger, progress: Progress, outputs: Sequence[_Compared] = ()) -> None:
        self.book, self.progress, self.outputs = book, progress, outputs
        self.facts, self.amendments, self.members = book.facts(), list_amendments(book), read_members(book)
        self.restores = list_restores(book)
        self.states = book.states()
        newest = book.newest()
        self.states_are_sound = newest is not None and digest(self.states.items()) == newest.states
        self.saved = self._read_account()
        self.account = Accountant(self.saved.notion) if self.saved else None
        self.steps: dict[str, int] = {}
        self.published: Counter[str] = Counter()
        self.skipped = join_skipped(list_skipped(book))
        self._ended = self._read_ended()
        self._earlier = [
            (Accountant(notion), end.last, list_restores(book, end)) for notion, end in list_promises(book)[:-1]
        ]
        self._held = self._read_held()
        self._passed = self._read_passed()
        self.count = self.charged = 0
        self.broken = False
        self.head = first_link(book.begun())
        self._replays = dict(self._begin_replays()) if self.states_are_sound else {}
        self._reconciled = self._begin_reconciled() if self.states_are_sound else None
        self._ends: set[int] = set()
        self._batches = book.batches()
        self._batch, self._last = next(self._batches, None), 0

    def _read_account(self) -> Accountant | None:
        try:
            return Accountant.from_json(self.states["account"], self.states.get("attachment"))
        except UNREADABLE:
            return None

    def _read_ended(self) -> dict[str, int]:
        """The first step that streams which an amendment ended must not have."""
        streams = {key.removeprefix("stream:"): text for key, text in self.facts.items() if key.startswith("stream:")}
        found = {name: json.loads(text).get("ended") for name, text in streams.items() if '"ended"' in text}
        return {name: step for name, step in found.items() if isinstance(step, int)}

    def _charge_earlier(self, block: Sequence[Link]) -> Iterator[str]:
        """Charge entries to the promises that held before they were amended, each up to its amendment."""
        for account, last, restores in self._earlier:
            for number, entry, releases in add_lost(block, restores):
                if number > last:
                    break
                try:
                    account.admit(*releases)
                except (BudgetExceeded, InvalidInput) as error:
                    yield f"{self._say_where(number, entry)}: breaks the promise that held then: {error}"
                    self._earlier = []
                    return

    def _read_passed(self) -> dict[str, list[tuple[int, int, str]]]:
        """Stretches of steps of each stream that no entry may be of, and why, by where they begin.

        Each ends where the last of it and those before it does, as they may overlap.
        """
        found: dict[str, list[tuple[int, int, str]]] = {}
        for name, run in (part for restore in self.restores for part in restore.passed.items()):
            found.setdefault(name, []).append((*run, "a restore had passed over"))
        for name, run in list_skipped(self.book):
            found.setdefault(name, []).append((*run, "was skipped for good"))
        made: dict[str, list[tuple[int, int, str]]] = {}
        for name, stretches in found.items():
            ends = accumulate(((last, why) for _, last, why in sorted(stretches)), max)
            made[name] = [(first, *end) for (first, *_), end in zip(sorted(stretches), ends, strict=True)]
        return made

    def _find_passed(self, entry: Entry) -> str | None:
        """Why no entry may be of this step; None if one may."""
        stretches = self._passed.get(entry.stream, [])
        place = bisect_right(stretches, entry.step, key=lambda stretch: stretch[0]) - 1
        return stretches[place][2] if place >= 0 and entry.step <= stretches[place][1] else None

    def _read_held(self) -> dict[str, type[HeldOutput]]:
        """The mechanisms of streams that repeat outputs: steps at which they do may cost nothing."""
        streams = {key.removeprefix("stream:"): text for key, text in self.facts.items() if key.startswith("stream:")}
        found = {name: json.loads(text).get("mechanism") for name, text in streams.items() if '"mechanism"' in text}
        made = {name: MECHANISMS.get(mechanism) for name, mechanism in found.items()}
        return {name: m for name, m in made.items() if m is not None and issubclass(m, HeldOutput) and m.repeats}

    def _begin_replays(self) -> Iterator[tuple[str, Replay | QuantileReplay | HeldReplay]]:
        for key in self.facts:
            name = key.removeprefix("stream:")
            if name != key:
                record = load_chains(self.states[f"post:{name}"]) if f"post:{name}" in self.states else ()
                if name in self._held:
                    yield name, HeldReplay(self._held[name])
                    continue
                shape = self._read_shape(name)
                known = None if shape is None else shape.quantiles
                worth = (
                    Worth.of(())
                    if shape is None
                    else find_worth(name, self.book.begun(), self.amendments, self.members)
                )
                yield name, QuantileReplay(known) if known else _begin_replay(record, shape, worth)

    def _begin_reconciled(self) -> ReconcileReplay | None:
        """The streams that were ever reconciled are recomputed together, and no longer each for itself."""
        prefix = "reconcile:"
        records = {
            key.removeprefix(prefix): load_rules(key.removeprefix(prefix), text)
            for key, text in self.states.items()
            if key.startswith(prefix)
        }
        if not records:
            return None
        replays = {name: replay for name, replay in self._replays.items() if isinstance(replay, Replay)}
        shapes = {name: self._read_shape(name) for name in replays}
        factors = {name: s.factors for name, s in shapes.items() if s is not None}
        made = ReconcileReplay(records, replays, factors, json.loads(self.facts["population"])["size"])
        for name in made.streams:
            del self._replays[name]
        return made

    def _read_shape(self, name: str) -> Shape | None:
        """What a stream's entries hold; None where its facts cannot be read, which the chain shows."""
        try:
            return stream_shape(name, self.facts)
        except UNREADABLE:
            return None

    def problems(self) -> Iterator[str]:
        chained = self.book.chained()
        while block := list(islice(chained, 1_000)):
            yield from self._follow(block)
            yield from self._charge(block)
            yield from self._charge_earlier(block)
            yield from () if self.broken else self._smooth(block)
            for output in () if self.broken else self.outputs:
                output.feed([entry for _, entry, _ in block if entry.stream == output.stream])
            self.progress("replaying", self.count, 0)
        yield from self._end()

    def breaks(self) -> Iterator[str]:
        """Yield where the chain breaks, and whether saved states are those of the newest batch."""
        chained = self.book.chained()
        while block := list(islice(chained, 1_000)):
            yield from self._follow(block)
            self._ends.clear()
            self.progress("walking the chain", self.count, 0)
        self.account = None  # nothing was charged again
        yield from self._end()

    def _say_where(self, number: int, entry: Entry) -> str:
        return f"{self.book.name}: {name_entry(number, entry.stream, entry.step, self.facts)}"

    def _follow(self, block: Sequence[Link]) -> Iterator[str]:
        """Check each entry's link, number and step, and the links of the batches that end with one of them."""
        for number, entry, link in block:
            self.head, self.count, before = entry.link(self.head), self.count + 1, self.steps.get(entry.stream, 0)
            if self.head != link:
                yield f"{self._say_where(number, entry)}: was changed: its hash does not follow from what it says"
                self.head, self.broken = link, True
            if number != self.count:
                yield f"{self._say_where(number, entry)}: has another number than its place, {self.count}"
            stream, vintage = split_vintage(entry.stream)
            if not before and f"stream:{stream}" not in self.facts:
                yield f"{self._say_where(number, entry)}: is of a stream that the ledger does not know"
            if vintage > 1:
                yield from self._meet_vintage(number, entry, stream, vintage)
            if why := self._find_passed(entry):
                yield f"{self._say_where(number, entry)}: is of a step that {why}"
            if entry.step >= self._ended.get(entry.stream, entry.step + 1):
                yield f"{self._say_where(number, entry)}: comes after its stream had ended"
            if entry.step <= before:
                yield f"{self._say_where(number, entry)}: comes after step {before}"
            if not entry.releases and entry.stream not in self._held:
                yield f"{self._say_where(number, entry)}: was charged nothing"
            self.steps[entry.stream] = entry.step
            self.published[entry.stream] += 1
            self.charged += len(entry.releases)
            while self._batch is not None and number == self._batch.last:
                yield from self._close_batch(self._batch)

    def _meet_vintage(self, number: int, entry: Entry, stream: str, vintage: int) -> Iterator[str]:
        """Check that a step which is published again was published before; its value is never post-processed."""
        if entry.step > self.steps.get(stream, 0) or not self.steps.get(name_vintage(stream, vintage - 1)):
            yield f"{self._say_where(number, entry)}: is published again, and was not published before"
        if entry.stream not in self.steps and self.states_are_sound:
            shape = self._read_shape(stream)
            known = None if shape is None else shape.quantiles
            self._replays[entry.stream] = QuantileReplay(known) if known else _begin_replay((), None, Worth.of(()))

    def _close_batch(self, batch: Batch) -> Iterator[str]:
        """Check the link of a batch whose last entry was read."""
        last, at_us, states, link, event = batch
        self.head = batch_link(self.head, at_us, states, event)
        if self.head != link:
            which = f"the batch that ends with entry {last}" if event is None else f"an event after entry {last}"
            yield f"{self.book.name}: {which} was changed: its hash does not follow"
            self.head, self.broken = link, True
        self._ends.add(last)
        self._last, self._batch = last, next(self._batches, None)

    def _charge(self, block: Sequence[Link]) -> Iterator[str]:
        """Charge many entries at once, and one by one if one of them is refused."""
        if self.account is None:
            return
        try:
            self.account.admit(*(r for charged in add_lost(block, self.restores) for r in charged.releases))
            return
        except (BudgetExceeded, InvalidInput):
            pass
        for number, entry, releases in add_lost(block, self.restores):
            try:
                self.account.admit(*releases)
            except (BudgetExceeded, InvalidInput) as error:
                how = "breaks the promise" if isinstance(error, BudgetExceeded) else "cannot be charged"
                yield f"{self._say_where(number, entry)}: {how}: {error}"
                self.account = None
                return

    def _smooth(self, block: Sequence[Link]) -> Iterator[str]:
        """Work post-processing out again, and name the first entry whose value it does not give."""
        for name, replay in list(self._replays.items()):
            mine = {id(entry): number for number, entry, _ in block if entry.stream == name}
            entries = [entry for _, entry, _ in block if id(entry) in mine]
            wrong = next(replay.find_changed(entries), None)
            if wrong is not None:
                del self._replays[name]
                yield f"{self._say_where(mine[id(wrong)], wrong)}: {replay.says}"
        if self._reconciled is not None:
            numbered = [(number, entry) for number, entry, _ in block]
            found = next(self._reconciled.find_changed(numbered, self._ends), None)
            if found is not None:
                self._reconciled = None
                yield f"{self._say_where(*found)}: its value is not what post-processing and reconciliation give"
        self._ends.clear()

    def _end(self) -> Iterator[str]:
        """What must hold of the newest batch: it ends the ledger, and its states are the saved ones."""
        name = self.book.name
        if self._batch is not None:
            yield f"{name}: entries are missing: the batch that ends with entry {self._batch.last} is not complete"
        elif not self._last and (self.count or self.states):
            yield f"{name}: its batches are missing: entries or states are left that no batch holds"
        elif self._last != self.count:
            yield f"{name}: batches are missing: the newest ends with entry {self._last} of {self.count}"
        elif self.count and not self.states_are_sound:
            yield f"{name}: a saved state was changed: the digest of account, mechanisms and smoothers is not the newest batch's"
        if self.charged != self.book.count_releases():
            yield f"{name}: {self.book.count_releases() - self.charged} releases are left whose entries are missing"
        if self.count and self.saved is None:
            yield f"{name}: its account is missing or cannot be read, so no risk was worked out again"
        if self.account is not None and self.saved is not None and not self.account.agrees(self.saved):
            yield f"{name}: the saved account is not what its releases come to: risk {self.account.risk()!r} by replay"

    def verdict(self, problems: tuple[str, ...]) -> Verdict:
        account = self.account or self.saved
        if account is None:
            return Verdict(problems, {}, 0, 0.0, 0.0, float("nan"), 0.0, self.head.hex())
        risk, peak, limit = account.exposure()
        known = {name: step for name, step in self.steps.items() if f"stream:{split_vintage(name)[0]}" in self.facts}
        files = {output.stream: output.target for output in self.outputs}
        return Verdict(
            problems, known, account.step, risk, peak, limit, account.used(), self.head.hex(), files,
            published={name: self.published[name] for name in known}, skipped=self.skipped,
        )  # fmt: skip


class _Compared:
    """Compares an output with the ledger as that is read, and once more row by row if they differ."""

    def __init__(self, book: Ledger, stream: str, target: str, output: Pinned | InvalidInput) -> None:
        self.book, self.stream, self.target, self.output = book, stream, target, output
        whose = split_vintage(stream)[0]
        self.layout, _, quantiles = stream_shape(whose, book.facts())[:3]
        begun = book.newest() is not None  # else no table of members was kept yet
        self._worth = (
            find_worth(whose, book.begun(), list_amendments(book), read_members(book)) if begun else Worth.of(())
        )
        self._banded = quantiles is not None
        self._match = match_output(output, self.layout) if isinstance(output, Pinned) else None

    def feed(self, entries: Sequence[Entry]) -> None:
        """Compare the next entries of the stream."""
        if entries and self._match is not None and self._match.same:
            self._match.feed(make_readable(entries, self._worth, banded=self._banded))

    def differences(self, broken: bool) -> Iterator[str]:
        """Yield what differs, in rows or in the bytes of files that were written whole; nothing if the ledger is `broken`."""
        if isinstance(self.output, InvalidInput):
            yield str(self.output)
        elif broken:
            yield f"{self.target}: was not compared, as the ledger is not as it was written"
        elif self._match is not None and self._match.ends():
            yield from find_changed_files(self.output, stream_digests(self.book, self.stream))
        else:
            entries = self.book.entries(self.stream)
            blocks = iter(lambda: list(islice(entries, 1_000)), [])
            read = partial(make_readable, worth=self._worth, banded=self._banded)
            shown = (published for block in blocks for published in read(block).items())
            yield from compare_output(self.output, self.layout, shown, stream_digests(self.book, self.stream))
