"""`amend`: records a change of what a ledger is held to, in the ledger's chain, from the next steps on, or refuses it in words.

    changes of facts → which kinds → what each needs → the whole history under the promise as it will be → room for what is added
    → one event in the chain, with the account as it is under the new promise

What was published stays as it was; no noise is drawn. Nothing here looks at readings.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from halflife.accountant import Accountant
from halflife.errors import BudgetExceeded, InvalidInput, LedgerError
from halflife.ledger import Ledger, Marks, open_ledger
from halflife.local_time import from_us, parse_time, to_us
from halflife.notions.base import Notion
from halflife.numerics.progress import Progress
from halflife.plans.continuing import Lost, adds_up, may_continue
from halflife.policy import Channel, GivenPolicy, Policy, channels, find_worth, ledger_facts
from halflife.policy.facts import Amendment, list_changes, say_place
from halflife.policy.facts.amending import classify_change, refuse_unproved
from halflife.policy.facts.changes import Change
from halflife.publisher import checkpoints
from halflife.publisher.holding import check_members, find_newest_entry, follow_book, list_amendments, read_members
from halflife.publisher.public_texts import find_user, read_public_text
from halflife.publisher.restores import add_lost, find_done, find_passed, list_restores
from halflife.release import Release
from halflife.steps import MOST_STEPS

COMPARED = 1_000
"""So many of a stream's newest losses are compared with its plan."""
REHEARSED = 200_000
"""For at most so many steps of a stream it is tried whether it fits until another one begins."""
FARTHEST = 2**21
"""How many steps of the clock ahead room is looked for: 119 years of half hours."""
STRONGER = {"epsilon": -1, "delta": -1, "w": 1, "reach": 0, "alpha": 1, "half_life": 1, "beta": -1}
"""By which way a parameter of the same notion protects more: 1 for a larger one, 0 if it protects as much."""


@dataclass(frozen=True)
class Amended:
    """The result of `amend`.

    amendment  what is recorded;  recorded  whether it was, or only worked out
    begins     when it takes effect, by stream, by its own clock
    risk, limit  under the promise as it is now, at the newest step
    """

    amendment: Amendment
    recorded: bool
    begins: Mapping[str, str]
    risk: float
    limit: float


def amend(
    given: GivenPolicy,
    reason: str,
    *,
    by: str | None = None,
    start: str | None = None,
    begin: str | None = None,
    same_meaning: bool = False,
    weaken: bool = False,
    dry_run: bool = False,
    wait: float = 10.0,
    clock: Callable[[], float] = time.time,
    progress: Progress = lambda what, done, total: None,
) -> Amended:
    """Record that a policy's ledger is held to the policy as it is now, from the next step of each stream on.

    given         the policy as it shall be: a Policy, the path of its file, or a dict
    reason, by    why, and who says so: public texts, which every certificate shows
    start         from when on it holds, by the policy's clock: all before it must be published, and nothing after it
    begin         when streams that are added begin, if later than that
    same_meaning  declares that renamed columns mean what the old ones meant
    weaken        allows a promise that protects less than before, or of which nobody has shown that it does not
    dry_run       work all of it out, and record nothing
    """
    policy, why = Policy.of(given), read_public_text("reason", reason)
    who = read_public_text("by", by if by is not None else find_user())
    with open_ledger(policy.ledger_url, read_only=dry_run) as book:
        if not book.facts() or book.newest() is None:
            raise InvalidInput(f"{book.name}: nothing is published yet: the policy may change freely until then")
        marks = Marks(book, policy.marks, policy.ledger_url)
        if dry_run:
            if wrong := book.find_rollback():
                raise LedgerError(wrong)
            marks.refuse_older()
            with book.snapshot(None):
                return _work_out(book, policy, why, who, start, begin, same_meaning, weaken, clock, progress)[0]
        with book.hold(wait):
            book.begin(ledger_facts(policy))
            marks.refuse_older()
            marks.check_places()
            made, states = _work_out(book, policy, why, who, start, begin, same_meaning, weaken, clock, progress)
            checkpoints.reach("amendment worked out")
            book.commit([], states, made.amendment.at_us, event=json.dumps(made.amendment.to_event(), sort_keys=True))
            checkpoints.reach("amendment committed")
            marks.mark_shown()
        return Amended(made.amendment, True, made.begins, made.risk, made.limit)


def _work_out(
    book: Ledger, given: Policy, reason: str, by: str, start: str | None, begin: str | None, same_meaning: bool, weaken: bool,
    clock: Callable[[], float], progress: Progress,
) -> tuple[Amended, dict[str, str]]:  # fmt: skip
    """Work an amendment out, with the states that change with it; nothing is written."""
    known = book.facts()
    policy = follow_book(book, given)
    changes = list(list_changes(known, policy))
    check_members(book, policy)
    if not changes:
        raise InvalidInput(f"{book.name}: the policy is as the ledger knows it: there is nothing to amend")
    kinds = _find_kinds(book, policy, changes, same_meaning)
    _check_table(book, policy)
    before = Accountant.from_json(book.states()["account"], book.states().get("attachment"))
    weakens = "losses" in kinds and not _protects_as_much(before.notion, policy.notion)
    if weakens and not weaken:
        raise InvalidInput(
            f"the promise would protect less than before, or nobody has shown that it does not: {_tell(changes, 'promise')}. "
            "Every certificate will show the risk under each promise ever made: say that you mean it (--weaken)"
        )
    if policy.notion.forgets and policy.clock.late == "now" and not before.notion.forgets:
        _check_on_time(book, policy)
    history = _History(book, policy.notion, progress)
    account = history.replay(policy.notion) if policy.notion != before.notion else before
    starts = _find_starts(book, policy, start)
    if adds_up(policy.notion) and not policy.notion.adaptive:
        _check_losses(book, policy)
    ended = [key for (key, *rest), _ in changes if not rest and key in known]
    added = [c for c in channels(policy) if f"stream:{c.name}" not in known]
    passed = find_passed(book)
    for name in (key.removeprefix("stream:") for key in ended):
        starts[name] = max(book.last_step(name), passed.get(name, 0)) + 1
    room = _Room(book, policy, history, account, starts)
    starts |= room.find(added, begin, bool(kinds & {"added", "losses", "end"}))
    now = ledger_facts(policy)
    facts = {key: text for key, text in now.items() if text != known.get(key)}
    for key in ended:
        facts[key] = json.dumps(
            {**json.loads(known[key]), "ended": starts[key.removeprefix("stream:")]}, sort_keys=True
        )
    at_us = max(int(clock() * 1_000_000), book.newest().at_us)  # type: ignore[union-attr]
    told = [said for where, said in changes if where[-1] != "worth"]  # which follows from a size that is told
    made = Amendment(at_us, reason, by, tuple(told), starts, facts, weakens)
    risk, _, limit = account.exposure()
    begins = {c.name: from_us(c.steps.start(starts[c.name]), c.steps.zone).isoformat(sep=" ") for c in channels(policy)}
    states = {} if account is before else {"account": account.to_json(short=True)}
    if policy.members.by_date:
        states["members"] = policy.members.dump()
    return Amended(made, False, begins, risk, limit), states


def _find_kinds(book: Ledger, policy: Policy, changes: Sequence[Change], same_meaning: bool) -> set[str]:
    """The kinds of all changes; refuse what no amendment may change, or what nobody has shown to be sound."""
    known, notion, kinds = book.facts(), policy.notion, set()
    old = Accountant.from_json(book.states()["account"], book.states().get("attachment")).notion
    for change in changes:
        (part, *rest), _ = change
        try:
            kind = classify_change(change[0]) if rest else "ended" if part in known else "added"
            for promise in (old, notion):
                refuse_unproved(kind, promise, adds_up(promise))
            if kind == "units" and not same_meaning:
                raise InvalidInput(
                    "only with a declaration that every id still belongs to whom it did (--same-meaning): who is protected as "
                    "one would be another else, and what was published about them was not for that"
                )
            if kind == "columns" and not same_meaning:
                raise InvalidInput(
                    "only with a declaration that the column means the same as the old one (--same-meaning): another meaning is "
                    "another statistic, and needs a stream of its own"
                )
        except InvalidInput as error:
            raise InvalidInput(f"{say_place(policy, change)}: {error}") from None
        kinds.add(kind)
    if "members" in kinds and any(c.divides and c.promise.plans_follow_size for c in channels(policy)):
        raise InvalidInput(
            "the floor of noise of a mean follows the population's size, and the plan with it: members cannot be amended then"
        )
    if kinds & {"members", "units"} and any(key.startswith("reconcile:") for key in book.states()):
        raise InvalidInput(
            "streams of this ledger were made to add up, for a population of one size: members cannot be amended then"
        )
    return kinds


def _check_table(book: Ledger, policy: Policy) -> None:
    """Refuse a table of members, new to a ledger, that says of a published step another size than it was divided by."""
    if not policy.members.by_date:
        return
    for c in channels(policy):
        last = book.last_step(c.name)
        if not c.divides or not last:
            continue
        was = find_worth(c.name, book.begun(), list_amendments(book), read_members(book))
        for step in sorted(k for k in {s for s, _ in was.since} | {s.step for s in c.sized} if k <= last):
            unit = c.sized_at(step).factors[0] * c.sized_at(step).size
            if was.at(step)[0] != c.sized_at(step).factors[0]:
                at = from_us(c.steps.start(step), policy.clock.zone).isoformat(sep=" ")
                raise InvalidInput(
                    f"{policy.population.size}: says {c.sized_at(step).size:,} people at {at}, and step {step:,} of {c.name} was "
                    f"divided by {unit / was.at(step)[0]}: let the table begin with the sizes that were in force"
                )


def _check_losses(book: Ledger, policy: Policy) -> None:
    """Refuse if streams that go on would lose other than they did: with a δ losses are fixed before anything is seen.

    They may without a fact of their own that changes: plans of streams that share (ε, δ) depend on which streams there are.
    """
    for c in channels(policy):
        last = book.last_step(c.name)
        first = max(1, last - COMPARED + 1)
        planned = c.losses(first, last) if last else []
        for entry in book.entries(c.name, first, last) if last else ():
            lost, loss = max(r.loss for r in entry.releases), planned[entry.step - first]
            if not math.isclose(lost, loss, rel_tol=1e-9):
                raise InvalidInput(
                    f"{c.name} would lose {loss!r} a step, and lost {lost!r} at step {entry.step:,}: with a delta losses must be "
                    "fixed before anything is seen, and plans of streams that share it depend on each other. Leave the streams "
                    "as they are"
                )


def _check_on_time(book: Ledger, policy: Policy) -> None:
    """Refuse a promise that forgets, after one that does not, if anything was published later than the step that it counts at.

    A promise that does not forget counts a late step at its planned one; to forget it from then on would be to count it as
    older than it is.
    """
    clock, entries, last = channels(policy)[0].account, book.entries(), 0
    for batch in book.batches():
        over = clock.last_over(batch.at_us)
        for entry in islice(entries, batch.last - last):
            if over > entry.release_step:
                raise InvalidInput(
                    f"{policy.notion.name} forgets, and step {entry.step:,} of {entry.stream} counts as of step "
                    f"{entry.release_step:,} of the clock, but was published at step {over:,}: it would be forgotten from too "
                    "early on. A history with late steps cannot be held to a promise that forgets"
                )
        last = batch.last


def _tell(changes: Sequence[Change], part: str) -> str:
    return "; ".join(said for where, said in changes if where[0] == part)


def _protects_as_much(old: Notion, new: Notion) -> bool:
    """Return whether a promise surely protects no less than an older one: the same notion, each parameter as strict.

    >>> from halflife import Classical, WEvent
    >>> _protects_as_much(WEvent(1.0, 48), WEvent(0.5, 96)), _protects_as_much(WEvent(1.0, 48), WEvent(1.0, 24))
    (True, False)
    >>> _protects_as_much(WEvent(1.0, 48), Classical(1.0))
    False
    """
    a, b = (
        {"delta": 0.0, "reach": 0, **notion.to_facts()} for notion in (old, new)
    )  # which are left out if they are 0
    if a.keys() != b.keys() or a["name"] != b["name"]:
        return False
    differ = [key for key in a if a[key] != b[key]]
    return all(
        key in STRONGER and a[key] is not None and b[key] is not None and (b[key] - a[key]) * STRONGER[key] >= 0
        for key in differ
    )


class _History:
    """All releases of a ledger: by the step that they count at, and once more to be replayed."""

    def __init__(self, book: Ledger, notion: Notion, progress: Progress) -> None:
        self._book, self._progress, self.by_data_time = book, progress, notion.by_data_time
        self.power = getattr(notion, "power", 1)

    def _blocks(self) -> Iterable[list[Release]]:
        charged, total, done = add_lost(self._book.chained(), list_restores(self._book)), self._book.newest(), 0
        while block := list(islice(charged, 1_000)):
            done += len(block)
            self._progress("reading the history", done, total.last if total else 0)
            yield [r for one in block for r in one.releases]

    def replay(self, notion: Notion) -> Accountant:
        """Return the account of all that was published under another promise; refuse if that is more than it allows."""
        account = Accountant(notion)
        for block in self._blocks():
            try:
                account.admit(*block)
            except BudgetExceeded as error:
                raise InvalidInput(
                    f"what was published does not keep the new promise: at step {error.step} the risk under it was "
                    f"{error.risk:.6g}, above {error.limit:.6g}. A promise cannot be made about a past that breaks it: choose a "
                    "weaker one"
                ) from None
        return account

    def read_losses(self) -> Lost:
        """Return what was lost, by the step that it counts at under the promise."""
        steps: list[int] = []
        losses: list[float] = []
        spans: list[int] = []
        for block in self._blocks():
            steps += [r.data_time if self.by_data_time else r.step for r in block]
            losses += [r.loss**self.power for r in block]
            spans += [r.span for r in block]
        return Lost(np.array(steps, dtype=np.int64), np.array(losses), np.array(spans, dtype=np.int64))


def _find_starts(book: Ledger, policy: Policy, start: str | None) -> dict[str, int]:
    """The next step of each stream that the ledger knows; refuse a declared time at which another step begins."""
    known, zone, done = book.facts(), policy.clock.zone, find_done(book, channels(policy))
    starts = {}
    for c in channels(policy):
        if f"stream:{c.name}" not in known:
            continue
        following = done[c.name] + 1
        if start is not None:
            declared = c.steps.step(to_us(parse_time(start, zone)) - 1) + 1
            at = from_us(c.steps.start(following), zone).isoformat(sep=" ")
            if declared < following:
                raise InvalidInput(
                    f"{c.name} is published up to {at}: an amendment from {start} on would change what is published already",
                    about="start",
                )
            if declared > following:
                raise InvalidInput(
                    f"{c.name}: {declared - following:,} steps from {at} to {start} are not published yet, and go by the policy "
                    "as it was: publish them with it first, and amend then",
                    about="start",
                )
        starts[c.name] = following
    return starts


class _Room:
    """Whether the plans of an amended policy may go on from a history, and from when on there is room for added streams."""

    def __init__(
        self, book: Ledger, policy: Policy, history: _History, spent: Accountant, starts: Mapping[str, int]
    ) -> None:
        self._policy, self._history, self._spent, self._starts = policy, history, spent, starts
        self._known = [c for c in channels(policy) if c.name in starts]
        ends = [c.steps.end(starts[c.name] - 1) for c in self._known if starts[c.name] > 1]
        self._account = channels(policy)[0].account
        ended = max((e.end_us for key in book.facts() for e in find_newest_entry(book, key)), default=0)
        self._since_us = max([*ends, ended])

    def find(self, added: Sequence[Channel], begin: str | None, checked: bool) -> dict[str, int]:
        """Return the first step of each added stream; refuse if there is no room for it then, with when there will be."""
        if begin is not None and not added:
            raise InvalidInput("no stream is added: leave out when it begins", about="begin")
        zone = self._policy.clock.zone
        moment = self._since_us if begin is None else to_us(parse_time(begin, zone))
        if moment < self._since_us:
            since = from_us(self._since_us, zone).isoformat(sep=" ")
            raise InvalidInput(
                f"added streams begin at {since} at the earliest: before it all is published", about="begin"
            )
        if not checked:
            return {}
        self._check_ages()
        self._lost = self._history.read_losses()
        self._planned = [self._plan(c, self._starts[c.name] - 1) for c in self._known]
        if not self._fits(added, moment):
            raise InvalidInput(self._tell_room(added, moment))
        firsts = self._first_steps(added, moment)
        if added:
            nexts = [(c, {**self._starts, **firsts}[c.name]) for c in (*self._known, *added)]
            self._rehearse(nexts, max(c.published_at(firsts[c.name]) for c in added))
        return firsts

    def _rehearse(self, nexts: Sequence[tuple[Channel, int]], until: int) -> None:
        """Refuse if streams, each from a step on, would not fit before all added ones are published: what was lost counts."""
        trial, planned = self._spent.copy(), []
        for c, first in nexts:
            last = min(c.steps.step(until - 1), c.last or MOST_STEPS)
            if last - first >= REHEARSED:
                raise InvalidInput(
                    f"it is not worked out whether {c.name} fits for {last - first + 1:,} steps until then: at most "
                    f"{REHEARSED:,}. Amend what goes on now, and add a stream when there is room for it",
                    about="begin",
                )
            planned += c.plan_releases(last, first) if last >= first else []
        late = ((r, max(0, trial.step - r.step)) for r in sorted(planned, key=lambda r: r.step))
        try:
            trial.admit(*(replace(r, step=r.step + by, age=r.age + by) for r, by in late))
        except BudgetExceeded as error:
            raise InvalidInput(
                f"until all added streams are published the others would not fit with these shares: {error}. Keep their shares "
                "as they are until then, or smaller, and amend them when the added streams have begun"
            ) from None

    def _check_ages(self) -> None:
        ages = {c.age for c in channels(self._policy)}
        if self._history.by_data_time and len(ages) > 1:
            raise InvalidInput(
                "it is not worked out how plans of streams with other delays go on from a history: shares, streams and the "
                "promise stay as they are"
            )

    def _plan(self, c: Channel, last: int) -> Lost:
        """What a stream would have lost up to a step if this policy had held from the beginning."""
        none = np.array([], dtype=np.int64)
        if last < 1:
            return Lost(none, np.array([]), none)
        steps = c.release_steps(1, last) - (c.age if self._history.by_data_time else 0)
        return Lost(steps, c.plan.losses_of_releases(1, last) ** self._history.power, c.spans(1, last))

    def _first_steps(self, added: Sequence[Channel], moment: int) -> dict[str, int]:
        return {c.name: max(1, c.steps.step(moment - 1) + 1) for c in added}

    def _fits(self, added: Sequence[Channel], moment: int) -> bool:
        firsts = self._first_steps(added, moment)
        planned = [*self._planned, *(self._plan(c, firsts[c.name] - 1) for c in added)]
        all_planned = Lost(
            *(np.concatenate([getattr(p, key) for p in planned]) for key in ("steps", "losses", "spans"))
        )
        newest = int(self._lost.steps.max(initial=0))
        nexts = [(c, {**self._starts, **firsts}[c.name]) for c in (*self._known, *added)]
        earliest = min(self._place(c, step) - int(c.spans(step, step)[0]) + 1 for c, step in nexts)
        at = max(newest + 1, *(self._place(c, firsts[c.name]) for c in added)) if added else newest + 1
        return may_continue(self._policy.notion, self._lost, all_planned, at, earliest)

    def _place(self, c: Channel, step: int) -> int:
        return int(c.release_steps(step, step)[0]) - (c.age if self._history.by_data_time else 0)

    def _tell_room(self, added: Sequence[Channel], moment: int) -> str:
        """Why there is no room, and from when on there is."""
        if not added:
            return (
                "what was published has lost more than the amended plans would have by now, so that later steps would be "
                "refused: there is no room for it. Choose smaller shares, or a promise that leaves room"
            )
        names, first = " and ".join(c.name for c in added), self._account.step(moment - 1) + 1
        far = next(
            (2**k for k in range(FARTHEST.bit_length()) if self._fits(added, self._account.start(first + 2**k))), None
        )
        if far is None:
            return f"there is no room for {names}, and there never will be: nothing that was lost is forgotten"
        low, high = far // 2, far
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._fits(added, self._account.start(first + middle)) else (middle, high)
        when = from_us(self._account.start(first + high), self._policy.clock.zone).isoformat(sep=" ")
        return (
            f"there is no room for {names} yet, as what was published still counts. There is room from {when} on, if the other "
            f"streams go on with their shares as they are now: --begin '{when}'"
        )
