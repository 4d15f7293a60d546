"""`verify`: is the ledger what was written, does it keep its promise, and does the output say what it says?

Everything is worked out again from the ledger alone: each link of the chain, that no loss is less than its noise
costs, each risk by replaying every release through a new account, which must come out equal to the saved one to the last bit.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from halflife.accountant import Accountant
from halflife.errors import BudgetExceeded, HalflifeError, InvalidInput, LedgerError, unknown
from halflife.ledger import Entry, SqliteLedger
from halflife.ledger.entry import batch_link, digest, first_link
from halflife.ledger.sqlite import first_difference
from halflife.outputs import compare_output
from halflife.policy import Channel, Policy, channels, ledger_facts, promised, stream_layout
from halflife.policy.promises.almost_periodic import by_the_clock
from halflife.publisher.readable import readable
from halflife.steps import Steps

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Verdict:
    """What was found: nothing wrong if `problems` is empty.

    steps   published steps by stream;  risk, peak, used  worked out again;  head  the newest hash of the chain, to be noted
    """

    problems: tuple[str, ...]
    steps: dict[str, int]
    step: int
    risk: float
    peak: float
    limit: float
    used: float
    head: str

    @property
    def good(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


def verify(
    ledger: Path | str,
    outputs: dict[str, str] | None = None,
    progress: Progress = lambda what, done, total: None,
    *,
    policy: Policy | None = None,
    wait: float = 10.0,
) -> Verdict:
    """Check a ledger, the outputs of its streams (stream → file), and that it is this policy's.

    Writers are kept away meanwhile, so that all of it is of one moment; one that is writing is waited for.

    >>> verify("nowhere.ledger")
    Traceback (most recent call last):
    ...
    halflife.errors.LedgerError: nowhere.ledger: cannot be opened: no such file: publish first, or give the path of a ledger
    """
    path = Path(ledger)
    with SqliteLedger(path, read_only=True) as book, book.shared(wait):
        damage = book.damage()
        if damage is not None:
            return _nothing(f"{path}: the file is damaged: {damage}")
        _check_names(book, outputs or {})
        try:
            walk = _Walk(book, progress)
            problems = [*_other_policy(walk, policy, path), *walk.problems()]
            for stream, target in (outputs or {}).items():
                progress(f"comparing {target}", walk.count, walk.count)
                problems += _compare(book, stream, target)
        except LedgerError as error:
            return _nothing(str(error))
        except (HalflifeError, sqlite3.DatabaseError, ValueError, KeyError, TypeError) as error:
            return _nothing(f"{path}: holds what no publisher wrote: {error}")
        return walk.verdict(tuple(problems))


def _check_names(book: SqliteLedger, outputs: dict[str, str]) -> None:
    """Refuse to compare an output with a stream that the ledger does not have."""
    try:
        known = [key.removeprefix("stream:") for key in book.facts() if key.startswith("stream:")]
    except sqlite3.DatabaseError:
        return  # no ledger at all, which is said later
    for stream in outputs:
        if stream not in known:
            raise unknown("stream", stream, known)


def _other_policy(walk: _Walk, policy: Policy | None, path: Path) -> Iterator[str]:
    """Say where a policy differs from the one that the ledger was begun with, but for what may be added to it."""
    facts, wanted = walk.facts, walk.facts if policy is None else ledger_facts(policy, channels(policy))
    for key in sorted(set(facts) | set(wanted)):
        if facts.get(key) != wanted.get(key):
            yield f"{path}: was begun under another policy: {first_difference(key, facts.get(key), wanted.get(key))}"
            return
    if policy is not None and walk.saved is not None:
        made = channels(policy)
        try:
            promised(policy, made[0].account).extends(walk.saved.notion, newest_data_time(made, walk.book))
        except InvalidInput as error:
            yield f"{path}: was begun under another policy: {error}"


def newest_data_time(made: Sequence[Channel], book: SqliteLedger) -> int:
    """Return the newest step of the account about which anything was published; 0 if nothing was."""
    done = ((c, book.last_step(c.name)) for c in made)
    return max((int(c.release_steps(k, k)[0]) - c.age for c, k in done if k), default=0)


def _nothing(problem: str) -> Verdict:
    return Verdict((problem,), {}, 0, float("nan"), float("nan"), float("nan"), float("nan"), "")


class _Walk:
    """One pass over the ledger: links, losses and risks."""

    def __init__(self, book: SqliteLedger, progress: Progress) -> None:
        self.book, self.progress = book, progress
        self.facts = book.facts()
        self.states = book.states()
        kept = self.states.get("account")
        self.saved = (
            None if kept is None else self._by_the_clock(Accountant.from_json(kept, self.states.get("attachment")))
        )
        self.account = Accountant(self.saved.notion) if self.saved else None
        self.steps: dict[str, int] = {}
        self.count = 0
        self.head = first_link(self.facts)

    def _by_the_clock(self, saved: Accountant) -> Accountant:
        """The saved account with the ledger's clock, which older versions did not write into the promise."""
        if "clock" not in self.facts:
            return saved
        clock = {key: value for key, value in json.loads(self.facts["clock"]).items() if key != "late"}
        notion = by_the_clock(saved.notion, Steps.from_dict(clock))
        return saved if notion is saved.notion else saved.extended(notion, 0)

    def problems(self) -> Iterator[str]:
        name = self.book.path
        batches = self.book.batches()
        batch, last = next(batches, None), None
        for number, entry, link in self.book.chained():
            where = f"{name}: entry {number} ({entry.stream}, step {entry.step})"
            self.head = entry.link(self.head)
            if self.head != link:
                yield f"{where}: was changed: its hash does not follow from what it says"
                self.head = link
            yield from self._order(entry, where)
            yield from self._charge(entry, where)
            if batch is not None and number == batch[0]:
                self.head = batch_link(self.head, batch[1], bytes(batch[2]))
                if self.head != bytes(batch[3]):
                    yield f"{name}: the batch that ends with entry {number} was changed: its hash does not follow"
                    self.head = bytes(batch[3])
                last, batch = batch, next(batches, None)
            self.count += 1
            if self.count % 1_000 == 0:
                self.progress("replaying", self.count, 0)
        yield from self._end(last if batch is None else batch, batch is None)

    def _order(self, entry: Entry, where: str) -> Iterator[str]:
        before = self.steps.get(entry.stream, 0)
        if f"stream:{entry.stream}" not in self.facts:
            yield f"{where}: is of a stream that the ledger does not know"
        if entry.step <= before:
            yield f"{where}: comes after step {before}"
        if not entry.releases:
            yield f"{where}: was charged nothing"
        self.steps[entry.stream] = entry.step

    def _charge(self, entry: Entry, where: str) -> Iterator[str]:
        if self.account is None:
            return
        try:
            self.account.admit(*entry.releases)
        except BudgetExceeded as error:
            yield f"{where}: breaks the promise: {error}"
            self.account = None

    def _end(self, last: tuple[int, int, bytes, bytes] | None, complete: bool) -> Iterator[str]:
        """What must hold of the newest batch: it ends the ledger, and its states are the saved ones."""
        name = self.book.path
        if last is None:
            if self.count or self.states:
                yield f"{name}: its batches are missing: entries or states are left that no batch holds"
            return
        if not complete:
            yield f"{name}: entries are missing: the batch that ends with entry {last[0]} is not complete"
        elif digest(self.states.items()) != bytes(last[2]):
            yield f"{name}: a saved state was changed: its digest is not the one in the newest batch"
        if self.account is not None and self.saved is not None and not self.account.agrees(self.saved):
            yield f"{name}: the saved account is not what its releases come to: risk {self.account.risk()!r} by replay"

    def verdict(self, problems: tuple[str, ...]) -> Verdict:
        account = self.account or self.saved
        if account is None:
            return Verdict(problems, {}, 0, 0.0, 0.0, float("nan"), 0.0, self.head.hex())
        risk, peak, limit = account.exposure()
        return Verdict(problems, self.steps, account.step, risk, peak, limit, account.used(), self.head.hex())


def _blocks(entries: Iterator[Entry]) -> Iterator[list[Entry]]:
    while block := list(islice(entries, 1_000)):
        yield block


def _compare(book: SqliteLedger, stream: str, target: str) -> Iterator[str]:
    """Compare an output with the ledger, and the bytes of one that was written whole."""
    layout, factors = stream_layout(stream, book.facts())
    found = False
    shown = (p for block in _blocks(book.entries(stream)) for p in readable(block, factors))
    for difference in compare_output(target, layout, shown):
        found = True
        yield difference
    step, sha = book.emitted(f"{stream}:{Path(target).name}")
    if sha is not None and not found and step == book.last_step(stream) and Path(target).is_file():
        with Path(target).open("rb") as data:
            if hashlib.file_digest(data, "sha256").hexdigest() != sha:
                yield f"{target}: says the same, but its bytes are not those that were written"
