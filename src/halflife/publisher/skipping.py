"""Steps that are skipped for good, as their source could not be reached when they were closed: events in the ledger's chain.

Nothing was read, drawn or charged for them. Who published later would tell readers what they were told would never come; so the
ledger remembers, and a run that is started again goes on behind them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from halflife.errors import InvalidInput, LedgerError
from halflife.ledger import Batch, Ledger
from halflife.ledger.events import parse_event
from halflife.numerics.forms import read_form
from halflife.numerics.parameters import whole
from halflife.publisher.holding import list_events

KIND = "skip"
Stretch = tuple[int, int]
"""The first and the last of some steps."""


def write_skip(skipped: Mapping[str, Stretch]) -> str:
    """Return the event that says which steps of which streams are skipped.

    >>> write_skip({"use": (3, 3)})
    '{"kind": "skip", "skipped": {"use": [3, 3]}, "version": 1}'
    """
    told = {name: list(steps) for name, steps in skipped.items()}
    return json.dumps({"kind": KIND, "version": 1, "skipped": told}, sort_keys=True)


def list_skipped(book: Ledger, upto: Batch | None = None) -> list[tuple[str, Stretch]]:
    """Return the stretches of steps that were skipped, each with its stream, in the order of the ledger's chain.

    upto  the batch after which nothing counts; by default the newest
    """
    found: list[tuple[str, Stretch]] = []
    try:
        for event in list_events(book, upto):
            said = parse_event(event.event or "")
            if said.get("kind") == KIND:
                form = read_form("a skip", {k: v for k, v in said.items() if k != "kind"}, ("skipped",))
                found += [(name, _read_stretch(steps)) for name, steps in form["skipped"].items()]
    except (InvalidInput, ValueError, TypeError, AttributeError):
        raise LedgerError(
            f"{book.name}: which steps were skipped cannot be read: it was written by a newer halflife, or changed: see "
            "`halflife verify`"
        ) from None
    return found


def join_skipped(found: Iterable[tuple[str, Stretch]]) -> dict[str, list[Stretch]]:
    """Return skipped steps by stream, in order, as few stretches as there are.

    >>> join_skipped([("use", (3, 3)), ("use", (8, 9)), ("use", (4, 5))])
    {'use': [(3, 5), (8, 9)]}
    """
    made: dict[str, list[Stretch]] = {}
    for name, run in sorted(found):
        known = made.setdefault(name, [])
        before = known.pop() if known and run[0] <= known[-1][1] + 1 else run
        known.append((before[0], max(before[1], run[1])))
    return made


def say_stretches(stretches: Iterable[Stretch]) -> str:
    """Return stretches of steps in words.

    >>> say_stretches([(3, 5), (8, 8)])
    '3 to 5, 8'
    """
    return ", ".join(f"{first:,} to {last:,}" if last > first else f"{first:,}" for first, last in stretches)


def _read_stretch(steps: object) -> Stretch:
    if not isinstance(steps, list) or len(steps) != 2:
        raise InvalidInput("a stretch of steps is [first, last]")
    first = whole("skipped", steps[0], least=1)
    return first, whole("skipped", steps[1], least=first)
