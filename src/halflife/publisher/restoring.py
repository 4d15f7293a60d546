"""`restore`: puts a backup of a ledger back such that no noise is ever drawn twice for a step that was published.

    the backup is whole → no ledger lies there, or an older one → what do marks, the guard and outputs say was published?
        nothing more than the backup holds: it is put back
        more, or nobody knows: it is refused, or those steps are passed over

To pass steps over is sound where the policy alone says what they cost: a promise under which a release costs the same whenever
it was published, and noise that is planned. They are charged as the plan has them, recorded as an event in the chain, and never
published again. All of it happens in a copy beside the ledger's place, which is put there when it is whole.
"""

from __future__ import annotations

import heapq
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from glob import escape
from itertools import repeat
from pathlib import Path

from halflife.errors import BudgetExceeded, InvalidInput, LedgerError
from halflife.ledger import Batch, Ledger, Mark, Marks, Place, ledger_exists, open_ledger, read_mark
from halflife.ledger.copies import copy_ledger, declare_shown, find_guard, hold_place
from halflife.ledger.entry import first_link, split_vintage
from halflife.ledger.vintages import FIRST_AGAIN, find_vintages
from halflife.local_time import from_us
from halflife.mechanisms import PlannedNoise, ReleaseDraw, Turn
from halflife.numerics.progress import Progress
from halflife.outputs import read_rows_of
from halflife.policy import Channel, GivenPolicy, Policy, channels, ledger_facts
from halflife.publisher import checkpoints
from halflife.publisher.backing_up import LEDGER, Backup, find_backup
from halflife.publisher.drawing import find_turns
from halflife.publisher.due import find_due
from halflife.publisher.holding import hold_to_ledger
from halflife.publisher.public_texts import find_user, read_public_text
from halflife.publisher.restores import Restore, Run, find_done, find_passed, find_runs
from halflife.publisher.saved import SavedStates
from halflife.publisher.session import Session
from halflife.publisher.verification import find_broken_link
from halflife.publisher.vintages.files import find_vintage_file
from halflife.release import Release

PASS = "steps that may have been published can be passed over for good and charged as the plan has them (--pass-over)"

ASIDE = ".before-restore-"
"""In the names of outputs that were moved aside, before the time."""


@dataclass(frozen=True)
class Restored:
    """The result of `restore`.

    ledger         where the ledger lies;  backup  what it was restored from
    entries, head  how many entries it holds, and the newest hash of its chain
    passed         by stream, the first and the last step that are passed over;  empty if none is
    risk, limit    of the account as it is now
    moved          outputs that hold more than the ledger, by where they were moved to: they are the record of what was published
    brought        the policy and public tables that were missing, and were taken from the backup
    """

    ledger: str
    backup: Backup
    entries: int
    head: str
    passed: Mapping[str, tuple[int, int]]
    risk: float
    limit: float
    moved: Mapping[str, str]
    brought: tuple[str, ...]


class _Evidence:
    """What marks, the guard and outputs show beside a copy of the ledger.

    newest   by stream, the newest step that was published, as marks or the guard say; other streams are left out
    seen     by stream, the newest step that anything shows: so much was published at least
    ahead    what shows more than the copy holds, in words
    lost     entries and newest hash of the marks and the guard that do
    events   whether a mark tells how many events there were
    unknown  whether more was published than marks and the guard tell, so that nobody can say which steps that was
    revised  which streams had steps published again after the copy was made, which no plan knows

    A mark is written before anything of its streams is shown. So one that says less of any of them than something else shows was
    put back itself, and says nothing about the others either.
    """

    def __init__(self, book: Ledger, policy: Policy, backup: Backup) -> None:
        self.newest: dict[str, int] = {}
        self.ahead: list[str] = []
        self.lost: list[tuple[int, str]] = []
        self.events = self.unknown = False
        self.revised: set[str] = set()
        self._book, self._policy, self._own = book, policy, {s.name: book.last_step(s.name) for s in policy.streams}
        self.seen = dict(self._own)
        marks = _read_marks(policy)
        for place, mark in marks:
            _check_mark(book, mark, place.file, backup)
            self._note_mark(place, mark)
        for name in self._own:
            self._note_vintage(name)
        passed = find_passed(book)
        for name, target in policy.outputs.items():
            self._note_output(name, target, passed.get(name, 0))
        for place, mark in marks:
            if all(mark.streams.get(name, 0) >= self.seen[name] for name in place.streams):
                self.newest |= {name: mark.streams.get(name, 0) for name in place.streams}
                self.events = True
        self._note_guard(policy.ledger_url)
        if any(name not in self.newest for place, _ in marks for name in place.streams):
            self.unknown = True
        self.events = self.events and not self.lacking

    def _note_mark(self, place: Place, mark: Mark) -> None:
        """Note what a mark shows at least, of whichever stream."""
        if not self._book.holds(mark.entries, bytes.fromhex(mark.head)):
            self.ahead.append(f"{place.file} says {mark.entries:,} entries")
            self.lost.append((mark.entries, mark.head))
        for name in self._own:
            self.seen[name] = max(self.seen[name], mark.streams.get(name, 0))
        again = {name for name in mark.streams if split_vintage(name)[1] > 1 and not self._book.last_step(name)}
        self.revised |= {split_vintage(name)[0] for name in again}

    def _note_vintage(self, name: str) -> None:
        """Note a file of steps that were published again, also of a stream whose output is no file."""
        again = find_vintage_file(self._policy, name, FIRST_AGAIN + len(find_vintages(self._book, name)))
        if os.path.lexists(again):
            self.ahead.append(f"{again} holds steps that were published again, which the backup does not know")
            self.revised.add(name)

    def _note_output(self, name: str, target: str, passed: int) -> None:
        """Note an output that holds more. One that does not says nothing: whoever puts a ledger back puts outputs back too.

        So does one that a restore moved aside, which may have been killed then: it holds what is passed over already, or more.
        """
        last = _find_last_step(target, name)
        if last > self._own[name]:
            self.ahead.append(f"{target} holds step {last:,} of {name}, the backup goes up to {self._own[name]:,}")
        for aside in _find_aside(target):
            found = _find_last_step(str(aside), name)
            if found > max(self._own[name], passed):
                self.ahead.append(f"{aside} holds step {found:,} of {name}, the backup goes up to {self._own[name]:,}")
            last = max(last, found)
        if last > passed:
            self.seen[name] = max(self.seen[name], last)

    def _note_guard(self, url: str) -> None:
        """Note what the guard shows. It is written before marks and outputs, so where they are ahead it was put back itself."""
        guard, newest = find_guard(url), self._book.newest()
        shown = guard.read()
        if shown is None or not shown.entries or newest is None:
            return
        if not self._book.holds(*shown):
            self.ahead.append(f"{guard.file} says {shown.entries:,} entries")
            self.unknown = (shown.entries, shown.head.hex()) not in self.lost
            self.lost.append((shown.entries, shown.head.hex()))
        elif shown == (newest.last, newest.link) and not self.ahead:
            self.newest = dict(self._own)

    @property
    def lacking(self) -> list[str]:
        """The streams of which nothing says how far they were published."""
        return [name for name in self._own if self.unknown or name not in self.newest]

    @property
    def doubtful(self) -> bool:
        """Whether more was published than the copy holds, or may have been."""
        return bool(self.ahead or self.lacking)


def _find_last_step(output: str, stream: str) -> int:
    """Return the last step of a stream that an output holds; 0 if there is none, or it is empty or cut off: it says nothing."""
    try:
        return max(read_rows_of(output, stream).frame["step"].to_pylist(), default=0) if os.path.exists(output) else 0
    except InvalidInput:
        return 0


def _find_aside(output: str) -> list[Path]:
    """Return what restores have moved aside of an output."""
    path = Path(os.path.realpath(output))
    return sorted(path.parent.glob(f"{escape(path.stem)}{ASIDE}*{escape(path.suffix)}"))


def restore(
    folder: Path | str,
    policy: GivenPolicy,
    *,
    newest: bool = False,
    pass_over: bool = False,
    unamended: bool = False,
    reason: str = "the ledger was lost",
    by: str | None = None,
    wait: float = 10.0,
    progress: Progress = lambda what, done, total: None,
    clock: Callable[[], float] = time.time,
) -> Restored:
    """Put the ledger of a backup where a policy says, or refuse it if noise could be drawn twice.

    folder      the backup; or the file of a copy that was made otherwise, with its log beside it if it has one
    policy      whose ledger it is; the path of a policy that is not there is given the one in the backup
    newest      declares that nothing was published after the backup, where no mark is left to say so
    pass_over   pass over for good, and charge, all steps that were published after the backup, or may have been
    unamended   declares that nothing was amended, or published again, after the backup, where no mark is left to say so
    reason, by  why steps are passed over, and who says so: public texts, which every certificate shows
    """
    found = find_backup(folder)
    brought = _bring_policy(found, policy)
    made = Policy.of(policy)
    with hold_place(made.ledger_url, wait) as place:
        copy = place.folder / LEDGER
        copy_ledger(found.ledger, copy, progress)
        base = _check_copy(copy, found, made, progress)
        declare_shown(copy, base)
        with open_ledger(copy) as book:
            same = _check_place(book, base, made)
            evidence = _Evidence(book, made, found)
            _refuse_doubt(found, evidence, newest, pass_over, unamended)
            if same and not evidence.doubtful:
                raise LedgerError(f"{made.ledger_url} is what the backup holds already: there is nothing to restore")
            event, moved = None, {}
            if evidence.doubtful and pass_over:
                words = read_public_text("reason", reason), read_public_text("by", by or find_user())
                event = _pass_over(book, made, evidence, int(clock() * 1_000_000), *words)
                moved = _plan_moves(book, made, clock)
            else:
                Session(made, clock, ledger=book).check_outputs()
            risk, _, limit = SavedStates(hold_to_ledger(book, made), book).draw.account.exposure()
        checkpoints.reach("restore worked out")
        _move(moved)
        checkpoints.reach("outputs moved aside")
        place.put(copy, base)
        checkpoints.reach("restored ledger in place")
        head = _mark(made)
    passed = {} if event is None else event.passed
    return Restored(made.ledger_url, found, head.last, head.link.hex(), passed, risk, limit, moved, brought)


def _mark(policy: Policy) -> Batch:
    """Write the marks of a ledger that was put in place, and return its newest batch."""
    with open_ledger(policy.ledger_url) as book:
        marks = Marks(book, policy.marks, policy.ledger_url)
        marks.refuse_older(may_be_missing=True)
        marks.mark_shown()
        newest = book.newest()
        assert newest is not None  # a backup holds entries
        return newest


def _bring_policy(found: Backup, given: GivenPolicy) -> tuple[str, ...]:
    """Put the policy of a backup where one is named and missing; and public tables that are missing, whether it was there or not.

    A policy that was read already has its tables; a ledger's file that was copied otherwise brings nothing.
    """
    if not isinstance(given, str | Path) or not found.policy:
        return ()
    target, brought = Path(given), []
    pairs = [
        (found.policy, target),
        *((file, target.parent / Path(name).expanduser()) for name, file in found.tables.items()),
    ]
    for file, place in pairs:
        if not place.exists():
            source = found.folder / file
            if not Path(os.path.normpath(place)).is_relative_to(target.parent):
                raise InvalidInput(
                    f"{place} is missing, and lies outside the policy's folder: copy it there from {source}, if that is meant"
                )
            place.parent.mkdir(parents=True, exist_ok=True)
            (shutil.copytree if source.is_dir() else shutil.copyfile)(source, place)
            brought.append(str(place))
    return tuple(brought)


def _check_copy(copy: Path, found: Backup, policy: Policy, progress: Progress) -> Batch:
    """Return the newest batch of a copy; refuse one that is not whole, not what the manifest says, or not this policy's."""
    with open_ledger(copy, read_only=True) as book:
        wrong, newest = find_broken_link(book, progress), book.newest()
        if wrong or newest is None or Marks(book, ()).now() != found.mark:
            raise LedgerError(
                f"{found.folder} is not a whole backup: its ledger is damaged, or not what it says: take another one"
            )
        _check_policy(book, policy, found)
    return newest


def _check_policy(book: Ledger, policy: Policy, found: Backup) -> None:
    """Refuse a policy that is not the one of a copy; if a mark says that it was amended since, that is why.

    Messages name the backup: the copy's own name is gone when they are read.
    """
    try:
        hold_to_ledger(book, policy)
    except LedgerError as error:
        for place, mark in _read_marks(policy):
            if mark.ledger == found.mark.ledger:
                _check_mark(book, mark, place.file, found)
        why = str(error).removeprefix(f"{book.name}: ").partition(". Undo the change, or see")[0]
        raise LedgerError(
            f"{found.folder} is no backup under this policy: {why}. Give the policy as it was when the backup was made; if the "
            "ledger was amended since, find a newer backup"
        ) from None


def _check_place(book: Ledger, base: Batch, policy: Policy) -> bool:
    """Return whether a ledger lies there that is the same; refuse to replace one that holds more, or other things."""
    url = policy.ledger_url
    if not ledger_exists(url):
        return False
    with _open_old(url) as there:
        held = there.newest() if there.facts() else None
        if held is None or held.link == base.link:
            return held is not None
        if there.holds(base.last, base.link):
            raise LedgerError(
                f"{url} holds {held.last:,} entries, more than the backup, with {base.last:,}: keep it, it is newer"
            )
        if not book.holds(held.last, held.link):
            raise LedgerError(
                f"{url} holds {held.last:,} entries of another chain than the backup: one of the two is not this "
                "publication's ledger. "
                "Nothing was changed: find out which of them readers have seen (`halflife verify`)"
            )
    return False


def _open_old(url: str) -> Ledger:
    """Open the ledger that lies there, or say what to do about one that cannot be read."""
    try:
        book = open_ledger(url, read_only=True)
        damage = book.find_damage() if book.facts() else None
    except LedgerError as error:
        damage = str(error)
    if damage is not None:
        raise LedgerError(
            f"a ledger lies there that cannot be read: {damage}. If it is beyond repair, move it and its -wal away (on a server: "
            "rename its schema), keep them, leave its .shown, the marks and the outputs, and restore again"
        )
    return book


def _read_marks(policy: Policy) -> list[tuple[Place, Mark]]:
    """Return the marks that there are, each with its place."""
    return [(place, mark) for place in policy.marks if (mark := read_mark(place.file)) is not None]


def _check_mark(book: Ledger, mark: Mark, file: str, found: Backup) -> None:
    """Refuse a backup of another ledger than a mark's, or from before an event of it."""
    newest = book.newest()
    assert newest is not None  # a backup holds entries
    if mark.ledger != first_link(book.begun()).hex():
        raise LedgerError(
            f"{found.folder}: {file} is the mark of another ledger than the backup's: give each policy outputs, and a `mark`, of "
            "its own"
        )
    if book.holds(mark.entries, bytes.fromhex(mark.head)):
        return
    if mark.events > len(book.events()):
        raise LedgerError(
            f"{found.folder}: {file} says that after the backup the ledger was amended, its key changed, or steps were skipped "
            f"for good, their source out of reach ({mark.events:,} events, the backup has {len(book.events()):,}): what was "
            "published since cannot be worked out from it. Find a newer backup"
        )
    if mark.entries <= newest.last:
        raise LedgerError(
            f"{found.folder}: {file} says that {mark.entries:,} entries of another chain than the backup's were published: one "
            "of the two is not this publication's. Find the right backup"
        )


def _refuse_doubt(backup: Backup, found: _Evidence, newest: bool, pass_over: bool, unamended: bool) -> None:
    """Refuse a backup if more was published, or may have been, than it holds, and nothing is to be passed over."""
    if pass_over:
        if found.revised:
            raise LedgerError(
                f"steps of {', '.join(sorted(found.revised))} were published again after the backup (halflife revise): what that "
                "cost is no plan's, and is lost with the ledger. Find a newer backup"
            )
        if found.doubtful and not found.events and not unamended:
            raise LedgerError(
                "no mark is left to say whether the ledger was amended, or steps were published again, after the backup, which "
                "changes what was lost: if not, say so (--unamended)"
            )
        return
    held = f"the backup of {backup.at} holds {backup.mark.entries:,} entries"
    if found.ahead:
        raise LedgerError(
            f"{held}, and more was published: {'; '.join(found.ahead)}. Its noise would be drawn again. Find a newer "
            "backup; if there is "
            f"none, {PASS}"
        )
    if found.lacking and not newest:
        raise LedgerError(
            f"{held}, and nothing is left to say whether more was published of {', '.join(found.lacking)}: neither a "
            "mark nor its .shown is as new. If surely nothing was published after it, say so (--newest); if that is not sure, "
            f"{PASS}"
        )


def _pass_over(book: Ledger, given: Policy, found: _Evidence, now_us: int, reason: str, by: str) -> Restore:
    """Charge the lost steps to the copy's account, and record them as an event; refuse where it is not known what they cost.

    Of a stream of which nothing says how far it was published, all steps that are due by now may have been.
    """
    policy = hold_to_ledger(book, given)
    made = channels(policy)
    _check_promise(made)
    done = find_done(book, made)
    known = {name: step for name, step in found.newest.items() if name not in found.lacking}
    upto = {c.name: max(known.get(c.name, c.newest(now_us)), done[c.name], found.seen[c.name]) for c in made}
    wrong = [c.name for c in made if upto[c.name] > c.newest(now_us)]
    if wrong:
        raise LedgerError(f"steps of {', '.join(wrong)} were published that are not over by the clock: set the clock")
    newest = book.newest()
    assert newest is not None
    if now_us < newest.at_us:
        raise LedgerError(
            "the clock lies before the newest entry of the backup, and it bounds what is lost: set the clock"
        )
    explained = newest.last + sum(upto[name] - done[name] for name in upto)
    if max((entries for entries, _ in found.lost), default=0) > explained:
        raise LedgerError(
            f"{max(found.lost)[0]:,} entries were published, and the backup with all steps that may have been come to "
            f"{explained:,}: some were published again (halflife revise), and what that cost is lost. Find a newer backup"
        )
    with book.hold():
        book.begin(ledger_facts(policy))
        saved = SavedStates(policy, book)
        draw, runs = _charge(saved, made, done, upto)
        passed = {c.name: (done[c.name] + 1, upto[c.name]) for c in made if upto[c.name] > done[c.name]}
        event = Restore(now_us, newest.last, reason, by, passed, tuple(dict.fromkeys(found.lost)), runs)
        saved.commit([], draw, now_us, json.dumps(event.to_event(), sort_keys=True))
    return event


def _check_promise(made: Sequence[Channel]) -> None:
    """Refuse promises and mechanisms of which the policy alone does not say what lost steps cost."""
    adapter = made[0].promise
    if not adapter.charged_as_planned:
        raise LedgerError(
            f"under {adapter.notion.name} what a step costs depends on when it was published, on what was seen, or on "
            "noise that is kept, "
            "and that is lost with the ledger: no steps can be passed over. Find a newer backup; docs/operating.md "
            "says what is left"
        )
    for c in made:
        if c.tree is not None:
            raise LedgerError(
                f"{c.name}: a running total needs every step, and the noisy nodes of lost ones are lost: no steps can be passed "
                "over. Find a newer backup"
            )
        if not isinstance(c.make_mechanism(), PlannedNoise):
            raise LedgerError(
                f"{c.name}: what the mechanism {c.mechanism!r} charged depends on what it saw, and that is lost: no "
                "steps can be passed "
                "over. Find a newer backup"
            )


def _charge(
    saved: SavedStates, made: Sequence[Channel], done: Mapping[str, int], upto: Mapping[str, int]
) -> tuple[ReleaseDraw, tuple[Run, ...]]:
    """Charge what the plan has for the steps after `done` up to `upto`, in the order of the account's steps."""
    draw = saved.draw.copy()
    turns: list[Iterator[tuple[Turn, str]]] = []
    for c in made:
        mechanism = c.make_mechanism()
        assert isinstance(mechanism, PlannedNoise)
        found = find_turns(find_due(c, done[c.name] + 1, upto[c.name], draw.account.step), mechanism)
        turns.append(zip(found, repeat(c.name)))
    ordered = list(heapq.merge(*turns, key=lambda turn: turn[0].step))
    try:
        batch = draw.batch(turn for turn, _ in ordered)
    except (BudgetExceeded, InvalidInput) as error:
        raise LedgerError(f"the lost steps cannot be charged to the account, so none is passed over: {error}") from None
    charged: dict[str, list[Release]] = {c.name: [] for c in made}
    for (_, name), releases in zip(ordered, batch.releases, strict=True):
        charged[name] += releases
    return draw, find_runs(charged)


def _plan_moves(book: Ledger, policy: Policy, clock: Callable[[], float]) -> dict[str, str]:
    """Return where outputs must go that the restored ledger does not account for: they are the record of what was published."""
    stamp, moves = f"{from_us(int(clock() * 1_000_000)):%Y%m%dT%H%M%S}", {}
    session = Session(policy, clock, ledger=book)
    session.marks.check_places()
    for c in (c for c in session.channels if c.name in policy.outputs):
        try:
            session.check_output(c)
        except InvalidInput:
            path = Path(os.path.realpath(policy.outputs[c.name]))
            aside = path.with_name(f"{path.stem}{ASIDE}{stamp}{path.suffix}")
            if os.path.lexists(aside):
                raise InvalidInput(f"{aside} is in the way: move it, and restore again") from None
            moves[str(path)] = str(aside)
    return moves


def _move(moves: Mapping[str, str]) -> None:
    for path, aside in moves.items():
        try:
            os.rename(path, aside)
        except OSError as error:
            why = error.strerror or error
            raise InvalidInput(f"{path} cannot be moved aside: {why}: move it yourself, and restore again") from None
