"""A second ledger for the same population: two accounts that know nothing of each other, so neither tells the whole risk."""

from __future__ import annotations

import json
from collections.abc import Iterator

from halflife.errors import HalflifeError, LedgerError
from halflife.ledger import Ledger, ledger_exists, ledgers_beside, open_ledger
from halflife.policy import Policy


def find_second_ledgers(policy: Policy) -> list[str]:
    """Return the ledgers in the folder of a policy's ledger from which the same population's data was published.

    A population is the same if its `id` is. A copy of the policy's own ledger, a backup, is none: it begins with the same entry.
    Files that cannot be read as ledgers are passed over.
    """
    own = set(_first_hash(policy.ledger_url)) if ledger_exists(policy.ledger_url) else set()
    found = []
    for path in ledgers_beside(policy.ledger_url):
        first = list(_first_hash(str(path), policy.population.id))
        if first and not own & set(first):
            found.append(str(path))
    return found


def _first_hash(url: str, population: str | None = None) -> Iterator[bytes]:
    """Yield the hash of a ledger's first entry, if it has one and is about this population."""
    try:
        with open_ledger(url, read_only=True) as book:
            if population in (None, _population(book)):
                for _, _, link in book.chained():
                    yield link
                    return
    except HalflifeError:
        return


def _population(book: Ledger) -> object:
    """Return the id of the population that a ledger is about, None if it does not say."""
    try:
        return json.loads(book.facts().get("population", "{}")).get("id")
    except (ValueError, AttributeError, RecursionError):
        return None


def refuse_second_ledger(policy: Policy) -> None:
    """Refuse to begin a ledger beside one that is about the same population."""
    for other in find_second_ledgers(policy):
        raise LedgerError(
            f"{policy.ledger_url}: {other} is about the same population, {policy.population.id!r}, and neither would know what "
            "the other has spent: add the streams to that policy; or, if the people are others, give them another `id`; if two "
            "accounts are meant, whose risks add up, say so (--second-ledger, or second_ledger=True)"
        )
