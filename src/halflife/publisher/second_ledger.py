"""A second ledger for the same population: two accounts that know nothing of each other, so neither tells the whole risk.

Whoever begins a ledger holds it, writes its facts, and then looks at its neighbours. So of two that are begun in the same moment
at least one sees the other's facts under a lock that is held, and is refused; a run that failed before it published anything
holds nothing, and stands in nobody's way.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import NamedTuple

from halflife.errors import HalflifeError, LedgerError
from halflife.ledger import Ledger, LedgerBusy, NoLedger, ledger_exists, ledgers_beside, open_ledger
from halflife.policy import Policy


class Neighbours(NamedTuple):
    """The ledgers beside a policy's own.

    same     those about the same population, from which something was published, or which somebody is beginning now
    busy     why those could not be looked at that another program keeps to itself; unread  why others could not
    """

    same: list[str]
    busy: list[str]
    unread: list[str]


A_MOMENT = 1.0
"""Seconds in which a ledger that somebody is closing can be looked at again."""


def find_second_ledgers(policy: Policy, patience: float = 0.0) -> Neighbours:
    """Return the ledgers in the folder of a policy's ledger, or its database, from which the same population's data is published.

    A population is the same if its `id` is. A copy of the policy's own ledger, a backup, is none: it begins with the same entry.
    A ledger that another program keeps to itself for longer than `patience`, in seconds, is not looked at. Other SQLite files are
    passed over.
    """
    own, beside = set(), ledgers_beside(policy.ledger_url)
    if beside and ledger_exists(policy.ledger_url):
        with suppress(HalflifeError):  # whoever opens it says so
            own.add(_first_hash(policy.ledger_url))
    found = Neighbours([], [], [])
    for path in beside:
        try:
            with open_ledger(path, read_only=True, patience=patience) as book:
                if _population(book) == policy.population.id and _counts(book, own):
                    found.same.append(path)
        except NoLedger:
            continue
        except LedgerBusy as error:
            found.busy.append(str(error))
        except HalflifeError as error:
            found.unread.append(str(error))
    return found


def _counts(book: Ledger, own: set[bytes | None]) -> bool:
    """Return whether a ledger has published what the own one has not, or is being begun."""
    first = _first_link(book)
    return _is_held(book) if first is None else first not in own


def _is_held(book: Ledger) -> bool:
    """Return whether somebody holds a ledger to write. Its lock is tried only if somebody who lives has signed it."""
    if book.writer() is None:
        return False
    try:
        with book.snapshot(0.0):
            return False
    except LedgerError:
        return True


def _first_hash(url: str) -> bytes | None:
    with open_ledger(url, read_only=True) as book:
        return _first_link(book)


def _first_link(book: Ledger) -> bytes | None:
    """Return the hash of a ledger's first entry, None if it has none."""
    return next((link for _, _, link in book.chained()), None)


def _population(book: Ledger) -> object:
    """Return the id of the population that a ledger is about, None if it does not say."""
    try:
        return json.loads(book.facts().get("population", "{}")).get("id")
    except (ValueError, AttributeError, RecursionError):
        return None


def refuse_second_ledger(policy: Policy) -> None:
    """Refuse to begin a ledger beside one that is about the same population, or that nobody can look at now."""
    beside = find_second_ledgers(policy, A_MOMENT)
    for other in beside.same:
        raise LedgerError(
            f"{policy.ledger_url}: {other} is about the same population, {policy.population.id!r}, and neither would know what "
            "the other has spent: add the streams to that policy; or, if the people are others, give them another `id`; if two "
            "accounts are meant, whose risks add up, say so (--second-ledger, or second_ledger=True)"
        )
    for why in beside.busy:
        raise LedgerError(
            f"{policy.ledger_url}: a ledger beside it may be about the same population, and cannot be looked at: {why}. Run "
            "again when it has finished; if two accounts are meant, whose risks add up, say so (--second-ledger, or "
            "second_ledger=True)"
        )
