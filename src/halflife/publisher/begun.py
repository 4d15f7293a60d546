"""A policy as its own ledger was begun with it, for those who only look: `check` and `plan`."""

from __future__ import annotations

from halflife.errors import HalflifeError
from halflife.ledger import ledger_exists, open_ledger
from halflife.policy import Policy, find_change, follow_ledger


def follow_own_ledger(policy: Policy) -> Policy:
    """Return the policy with what it leaves open as its ledger was begun with; itself if there is none that it can go on from.

    The ledger is only read. One that cannot be read, or was begun under another policy, is not this function's to refuse:
    `publish` does, and what a new ledger would get is then the only answer there is.
    """
    try:
        if not ledger_exists(policy.ledger_url):
            return policy
        with open_ledger(policy.ledger_url, read_only=True) as book:
            known = book.facts()
        return follow_ledger(policy, known) if known and find_change(known, policy) is None else policy
    except HalflifeError:
        return policy
