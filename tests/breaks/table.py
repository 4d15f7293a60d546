"""Deliberate breaks of the source: one wrong line each, and the tests that must notice it."""

from __future__ import annotations

from typing import NamedTuple


class Break(NamedTuple):
    """One wrong line: `old` stands exactly once in `file` (below src/halflife) and becomes `new`; `tests` must then fail."""

    file: str
    old: str
    new: str
    note: str
    tests: tuple[str, ...]


BREAKS: tuple[Break, ...] = (
    Break(
        "numerics/rounding.py",
        "return math.nextafter(x, math.inf)",
        "return x",
        "rounding up does nothing",
        ("tests/numerics",),
    ),
)
