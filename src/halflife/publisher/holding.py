"""Policies held to a ledger: what a ledger was begun with, and amended to, is what a policy may publish under."""

from __future__ import annotations

import json

from halflife.accountant import Accountant
from halflife.errors import HalflifeError, InvalidInput, LedgerError
from halflife.ledger import Batch, Entry, Ledger, ledger_exists, open_ledger
from halflife.ledger.events import parse_event
from halflife.local_time import from_us
from halflife.notions.base import Notion
from halflife.policy import Policy, find_change, follow_amendments, follow_ledger, read_amendments
from halflife.policy.facts import Amendment, list_changes, say_place
from halflife.policy.facts.keys import BY_DATE
from halflife.policy.members import ALWAYS, Members


def list_events(book: Ledger, upto: Batch | None = None) -> list[Batch]:
    """Return the events of a ledger in order, those that stand in the chain up to a batch if one is given."""
    found = book.events()
    if upto is None:
        return found
    if upto.event is None:
        return [event for event in found if event.last < upto.last]
    return found[: next((i + 1 for i, event in enumerate(found) if event.link == upto.link), 0)]


def list_amendments(book: Ledger, upto: Batch | None = None) -> tuple[Amendment, ...]:
    """Return what a ledger was amended to, in order, up to a batch if one is given."""
    try:
        return read_amendments((e.at_us, parse_event(e.event)) for e in list_events(book, upto) if e.event)
    except (InvalidInput, ValueError):
        raise LedgerError(
            f"{book.name}: an amendment cannot be read: it was written by a newer halflife, or changed: see `halflife verify`"
        ) from None


def list_promises(book: Ledger, upto: Batch | None = None) -> list[tuple[Notion, Batch]]:
    """Return every promise that a ledger was ever held to, in order, each with the batch that it held up to: an amendment's.

    upto  the batch after which nothing counts; by default the newest
    """
    newest = upto or book.newest()
    states = book.public_states()
    account = states.get("account")
    if newest is None or account is None:
        return []
    changed = [e for e in book.events() if "promise" in parse_event(e.event or "").get("facts", {})]
    if not changed:
        return [(Accountant.from_json(account, states.get("attachment")).notion, newest)]
    known = {event.link for event in list_events(book, upto)}
    ends = [event for event in changed if event.link in known]
    texts = [parse_event(event.event or "")["facts"]["promise"] for event in changed if event.link in known]
    made: list[tuple[Notion, Batch]] = []
    for text, end in zip([book.begun()["promise"], *texts], [*ends, newest], strict=True):
        notion = Notion.from_dict(json.loads(text)["notion"])
        made = [*(made[:-1] if made and made[-1][0] == notion else made), (notion, end)]
    return made


def follow_book(book: Ledger, policy: Policy) -> Policy:
    """Return the policy with what it leaves open, and what its streams were before amendments, as a ledger has it."""
    known = book.facts()
    if not known:
        return policy
    return follow_amendments(follow_ledger(policy, known), book.begun(), list_amendments(book), read_members(book))


def read_members(book: Ledger) -> Members | None:
    """Return the table of members by date as it was when the ledger was last written to; None if it never had one."""
    saved = book.public_states().get("members")
    try:
        return None if saved is None else Members.load(saved)
    except (InvalidInput, ValueError, TypeError):
        raise LedgerError(f"{book.name}: its table of members cannot be read: see `halflife verify`") from None


def check_members(book: Ledger, policy: Policy) -> None:
    """Refuse a table of members that changes what a published step was divided by: up to the newest one it is fixed."""
    known = read_members(book) if policy.members.by_date else None
    if known is None or json.loads(book.facts()["population"]).get("size") != BY_DATE:
        return  # a number holds now: an amendment back to a table is held against all that was published
    entries = [e for key in book.facts() for e in find_newest_entry(book, key)]
    changed = known.find_change(policy.members, max((e.start_us for e in entries), default=ALWAYS))
    if changed is None:
        return
    touched = next(e for e in sorted(entries, key=lambda e: -e.start_us) if e.start_us >= changed)
    zone, was, now = policy.clock.zone, known.at(changed), policy.members.at(changed)
    last, at = (from_us(us, zone).isoformat(sep=" ") for us in (touched.start_us, changed))
    raise LedgerError(
        f"{policy.population.size}: the population's size from {at} on was {was:,} and is now {now:,}, and step {touched.step:,} "
        f"of {touched.stream}, which began at {last}, is published already: it stays divided by what it was divided by. Undo "
        f"that row; a new size may hold from any time after {last}"
    )


def find_newest_entry(book: Ledger, key: str) -> list[Entry]:
    """Return the newest entry of the stream that a key of a ledger's facts is about, if there is one."""
    name = key.removeprefix("stream:")
    last = book.last_step(name) if name != key else 0
    return list(book.entries(name, last, last)) if last else []


def hold_to_ledger(book: Ledger, policy: Policy) -> Policy:
    """Return the policy as a ledger has it; refuse one that changes what the ledger was begun with, or amended to."""
    followed = follow_book(book, policy)
    try:
        changes = [say_place(followed, change) for change in list_changes(book.facts(), followed)]
    except InvalidInput as error:
        raise LedgerError(f"{book.name}: {error}") from error
    if changes:
        raise LedgerError(
            f"{book.name}: was begun under another policy: {'; '.join(changes)}. Undo the change, or see what an amendment needs"
            ": halflife amend POLICY --reason TEXT --dry-run"
        )
    check_members(book, policy)
    return followed


def follow_own_ledger(policy: Policy) -> Policy:
    """Return the policy with what it leaves open as its ledger was begun with; itself if there is none that it can go on from.

    For those who only look: `check` and `plan`. A ledger that cannot be read, or was begun under another policy, is not this
    function's to refuse: `publish` does, and what a new ledger would get is then the only answer there is.
    """
    try:
        if not ledger_exists(policy.ledger_url):
            return policy
        with open_ledger(policy.ledger_url, read_only=True) as book:
            known = book.facts()
            return follow_book(book, policy) if known and find_change(known, policy) is None else policy
    except HalflifeError:
        return policy
