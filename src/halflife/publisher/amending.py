"""`amend`: records a change of what a ledger is held to, in the ledger's chain, from the next steps on, or refuses it in words.

    changes of facts → which kinds → what each needs → the whole history under the promise as it will be → room for what is added
    → one event in the chain, with the account as it is under the new promise

What was published stays as it was; no noise is drawn. Nothing here looks at readings.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from halflife.accountant import Accountant
from halflife.errors import InvalidInput, LedgerError
from halflife.ledger import Ledger, Marks, open_ledger
from halflife.local_time import from_us, parse_time, to_us
from halflife.notions.base import Notion
from halflife.numerics.progress import Progress
from halflife.plans.continuing import adds_up
from halflife.policy import GivenPolicy, Policy, channels, find_worth, ledger_facts
from halflife.policy.facts import Amendment, list_changes, say_place
from halflife.policy.facts.amending import classify_change, refuse_unproved
from halflife.policy.facts.changes import Change
from halflife.publisher import checkpoints
from halflife.publisher.going_on import History, Room
from halflife.publisher.holding import check_members, follow_book, list_amendments, read_members
from halflife.publisher.public_texts import find_user, read_public_text
from halflife.publisher.restores import find_done, find_passed

COMPARED = 1_000
"""So many of a stream's newest losses are compared with its plan."""
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
            with book.showing():
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
    history = History(book, policy.notion, progress)
    account = history.replay(policy.notion) if policy.notion != before.notion else before
    starts = _find_starts(book, policy, start)
    if adds_up(policy.notion) and not policy.notion.adaptive:
        _check_losses(book, policy)
    ended = [key for (key, *rest), _ in changes if not rest and key in known]
    added = [c for c in channels(policy) if f"stream:{c.name}" not in known]
    passed = find_passed(book)
    for name in (key.removeprefix("stream:") for key in ended):
        starts[name] = max(book.last_step(name), passed.get(name, 0)) + 1
    room = Room(book, policy, history, account, starts)
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
    _check_held(policy, kinds)
    if kinds & {"members", "units"} and any(key.startswith("reconcile:") for key in book.states()):
        raise InvalidInput(
            "streams of this ledger were made to add up, for a population of one size: members cannot be amended then"
        )
    return kinds


def _check_held(policy: Policy, kinds: set[str]) -> None:
    """Refuse what nobody has shown to leave room for whatever a mechanism comes to spend that decides it from its outputs."""
    for c in (c for c in channels(policy) if c.tree is not None):
        if other := kinds - {"ended"}:
            raise InvalidInput(
                f"{c.name}: a running total adds up steps from before an amendment and after it, and it is not worked out what "
                f"that costs or means ({', '.join(sorted(other))}): amended can be which streams end. Let it end, and begin "
                "another by a policy of its own"
            )
    for c in (c for c in channels(policy) if c.held is not None):
        if kinds & {"added", "losses", "end"}:
            raise InvalidInput(
                f"{c.name}: what {c.mechanism} spends follows from what it published, and it is not worked out that its later "
                "steps fit after what was published under another promise, shares, end or streams: these stay as they are. "
                "Amended can be who belongs to the population, columns, and which streams end"
            )
        if "members" in kinds and c.divides:
            raise InvalidInput(
                f"{c.name}: {c.mechanism} repeats outputs, and the total of a step would be divided by the people of another "
                "one: let the stream end, and add another"
            )


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
