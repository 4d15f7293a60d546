"""What whoever publishes under a promise, or relies on it, must know of it: a large ε, and assumptions that no data supports.

All of it is public: it follows from the policy and from checks on other people's readings.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from halflife.notions.base import Notion

LARGE_EPSILON = 10.0
"""From here on a promise bounds nothing that matters: e^10 is 22,026."""


def warn_about_promise(notion: Notion) -> Iterator[str]:
    """Yield each warning as a sentence.

    >>> from halflife import Classical
    >>> list(warn_about_promise(Classical(1.0))), len(list(warn_about_promise(Classical(11.0))))
    ([], 1)
    """
    epsilon = notion.largest_epsilon
    if epsilon > LARGE_EPSILON:
        yield (
            f"ε is {epsilon:g}: an output may be {math.exp(min(epsilon, 700)):.3g} times as likely with one person's data as "
            "with other data, which protects next to nothing"
        )
    for assumption, said in find_failed_checks(notion):
        yield f"this assumption FAILED its check, so the risk is under-reported: {assumption} ({said})"
    for assumption in notion.unchecked():
        yield f"this assumption was never held against data: {assumption} See `halflife process check`"


def find_failed_checks(notion: Notion) -> Iterator[tuple[str, str]]:
    """Yield the assumptions of a promise that failed a check against data, each with what the check said."""
    for assumption, outcome in notion.checks().items():
        if isinstance(outcome, Mapping) and not outcome.get("good"):
            yield assumption, str(outcome.get("verdict") or "the data contradicts it")
