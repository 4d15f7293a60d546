"""Declared secrets in policies: what a household's events add to what it counts as."""

from __future__ import annotations

from halflife.policy.promises.table import ADD, COMPLETE, FIXED, REPLACE, SUMS, accept, refuse

RULES = {
    "swellfish": (
        COMPLETE,
        refuse(
            "neighbours",
            "swellfish hides events, never whether a household is in the data: leave this out",
            neighbours=(ADD,),
        ),
        refuse(
            "statistics",
            "secrets bound what an event adds to a sum: use sum, mean or weighted sum",
            statistics=("count", "histogram"),
        ),
        refuse(
            "groups", "secrets say nothing about a household's group: fix it with a public table", groups=("column",)
        ),
        accept(
            "a household's events happen or not: its secrets' powers, in units, bound how far that moves a sum, and a clip "
            "only brings values closer",
            statistics=SUMS,
            neighbours=(REPLACE,),
            groups=FIXED,
        ),
    ),
}
