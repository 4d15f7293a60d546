"""Age-dependent privacy in policies: where a person is now, who is present whatever their state."""

from __future__ import annotations

from halflife.policy.promises.table import ADD, COMPLETE, FIXED, GROUPS, REPLACE, STATISTICS, SUMS, accept, refuse

PRESENT = refuse(
    "neighbours",
    "an age-dependent promise compares two states of somebody who is present, and add-remove neighbours would halve the "
    "noise that this needs (two bins, p = q = 0.1, ε = 1: 1.68 is attained): write replace-one, or leave it out",
    neighbours=(ADD,),
)

RULES = {
    "age-dependent": (
        PRESENT,
        COMPLETE,
        accept(
            "what one person counts as in a step is a function of their state then, their group and whether they have a "
            "reading among it; the state may be any other",
            statistics=STATISTICS, neighbours=(REPLACE,), groups=GROUPS,
        ),
    ),
    "age-dependent, autoregressive": (
        PRESENT,
        COMPLETE,
        refuse(
            "statistics",
            "an autoregressive process promises a loss in proportion to how far a person's value moved, which only sums, "
            "means and weighted sums have: use one of them, or another process",
            statistics=("count", "histogram"),
        ),
        refuse(
            "groups",
            "an autoregressive process says nothing about a person's group: fix it with a public table, or use another process",
            groups=("column",),
        ),
        accept(
            "what one person counts as is their value, clipped; the noise is in proportion to how far it may have moved",
            statistics=SUMS, neighbours=(REPLACE,), groups=FIXED,
        ),
    ),
}  # fmt: skip
