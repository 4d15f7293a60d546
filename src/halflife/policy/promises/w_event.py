"""w-event privacy in policies: whatever was recorded of a person within any w steps."""

from __future__ import annotations

from halflife.policy.promises.table import ADD, COMPLETE, GROUPS, REPLACE, STATISTICS, accept

RULES = {
    "w-event": (
        COMPLETE,
        accept(
            "what was recorded of one person within any w steps may be anything else: losses of one window add up",
            statistics=STATISTICS, neighbours=(REPLACE,), groups=GROUPS,
        ),
        accept(
            "hides whether anything was recorded of a person within any w steps; which of two things was recorded costs up "
            "to twice as much",
            statistics=STATISTICS, neighbours=(ADD,), groups=GROUPS,
        ),
    ),
}  # fmt: skip
