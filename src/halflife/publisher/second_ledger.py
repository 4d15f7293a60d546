"""A second ledger for the same population: two accounts that know nothing of each other, so neither tells the whole risk."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import NamedTuple

from halflife.errors import HalflifeError, LedgerError
from halflife.ledger import Ledger, NoLedger, ledger_exists, ledgers_beside, open_ledger
from halflife.policy import Policy


class Neighbours(NamedTuple):
    """The ledgers beside a policy's own: those about the same population; and why others could not be looked at."""

    same: list[str]
    unread: list[str]


def find_second_ledgers(policy: Policy) -> Neighbours:
    """Return the ledgers in the folder of a policy's ledger from which the same population's data was published.

    A population is the same if its `id` is. A copy of the policy's own ledger, a backup, is none: it begins with the same entry.
    Nobody is waited for: a ledger that another program keeps to itself was not looked at. Other SQLite files are passed over.
    """
    own, beside = set(), [*map(str, ledgers_beside(policy.ledger_url))]
    if beside and ledger_exists(policy.ledger_url):
        with suppress(HalflifeError):  # whoever opens it says so
            own.add(_first_hash(policy.ledger_url))
    found = Neighbours([], [])
    for path in beside:
        try:
            first = _first_hash(path, policy.population.id, patience=0.0)
            if first is not None and first not in own:
                found.same.append(path)
        except NoLedger:
            continue
        except HalflifeError as error:
            found.unread.append(str(error))
    return found


def _first_hash(url: str, population: str | None = None, **patience: float) -> bytes | None:
    """Return the hash of a ledger's first entry, None if it has none or is about another population."""
    with open_ledger(url, read_only=True, **patience) as book:
        if population not in (None, _population(book)):
            return None
        return next((link for _, _, link in book.chained()), None)


def _population(book: Ledger) -> object:
    """Return the id of the population that a ledger is about, None if it does not say."""
    try:
        return json.loads(book.facts().get("population", "{}")).get("id")
    except (ValueError, AttributeError, RecursionError):
        return None


def refuse_second_ledger(policy: Policy) -> None:
    """Refuse to begin a ledger beside one that is about the same population."""
    for other in find_second_ledgers(policy).same:
        raise LedgerError(
            f"{policy.ledger_url}: {other} is about the same population, {policy.population.id!r}, and neither would know what "
            "the other has spent: add the streams to that policy; or, if the people are others, give them another `id`; if two "
            "accounts are meant, whose risks add up, say so (--second-ledger, or second_ledger=True)"
        )
