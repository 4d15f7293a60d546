"""Discounted privacy in policies: a person's whole series, of which older releases count less."""

from __future__ import annotations

from halflife.policy.promises.table import ADD, COMPLETE, GROUPS, REPLACE, STATISTICS, accept

_RULES = (
    COMPLETE,
    accept(
        "one person's whole series may be any other: each release moves by at most its sensitivity, and counts less as it ages",
        statistics=STATISTICS, neighbours=(REPLACE,), groups=GROUPS,
    ),
    accept(
        "hides whether anything was ever recorded of a person, counted less as releases age; which of two series was "
        "recorded costs up to twice as much",
        statistics=STATISTICS, neighbours=(ADD,), groups=GROUPS,
    ),
)  # fmt: skip

RULES = {"exponential": _RULES, "hyperbolic": _RULES, "gaussian-discount": _RULES}
