"""Events of a ledger: what is put into the chain between batches of entries, as JSON, and what it does to the ledger's facts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any


def parse_event(text: str) -> dict[str, Any]:
    """Return an event, which nobody may change; raises ValueError for a text that is none. A ledger's few are parsed once."""
    return dict(_parse(text))


@lru_cache(maxsize=64)
def _parse(text: str) -> dict[str, Any]:
    try:
        event: Any = json.loads(text)
    except RecursionError:
        raise ValueError("an event is nested too deeply") from None
    facts = event.get("facts", {}) if isinstance(event, dict) else None
    if not isinstance(facts, dict) or not isinstance(event.get("kind"), str):
        raise ValueError("an event must be an object with a kind")
    if not all(isinstance(part, str) for part in facts.values()):
        raise ValueError("the facts of an event must be texts")
    return dict(event)


def declares_lost(event: str, entries: int, head: bytes) -> bool:
    """Return whether an event says that so many entries with this newest hash were shown, and are lost to the ledger.

    >>> declares_lost('{"kind": "restore", "lost": [[5, "0a"]]}', 5, bytes([10]))
    True
    """
    try:
        lost = parse_event(event).get("lost")
    except ValueError:
        return False
    return isinstance(lost, list) and [entries, head.hex()] in lost


def amend_facts(facts: Mapping[str, str], events: Iterable[str]) -> dict[str, str]:
    """Return the facts of a ledger as its events have changed them: each may hold new texts of some parts under `facts`.

    >>> amend_facts({"clock": "{}", "population": "a"}, ['{"kind": "amendment", "facts": {"population": "b"}}'])
    {'clock': '{}', 'population': 'b'}
    """
    amended = dict(facts)
    for text in events:
        amended |= parse_event(text).get("facts", {})
    return amended
