"""Classical differential privacy in policies: a person's whole series, whatever was recorded of it."""

from __future__ import annotations

from halflife.policy.promises.table import ADD, COMPLETE, GROUPS, REPLACE, STATISTICS, accept

RULES = {
    "classical": (
        COMPLETE,
        accept(
            "one person's whole series may be any other: each release moves by at most its sensitivity, and losses add up",
            statistics=STATISTICS, neighbours=(REPLACE,), groups=GROUPS,
        ),
        accept(
            "hides whether anything was ever recorded of a person; which of two series was recorded costs up to twice as much",
            statistics=STATISTICS, neighbours=(ADD,), groups=GROUPS,
        ),
    ),
}  # fmt: skip
