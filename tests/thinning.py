"""Grids of cases that `make test` goes through in part: a set in which every value of every parameter occurs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest


def keep(cases: Iterable[Any], kept: Callable[..., bool]) -> list[Any]:
    """Return the cases as parameters of a test: those that are kept belong to `make test`, the others to `make soak`.

    >>> [bool(case.marks) for case in keep([(1, 2), (3, 4)], lambda a, b: a == 3)]
    [True, False]
    """
    made = [case if isinstance(case, tuple) else (case,) for case in cases]
    return [pytest.param(*case, marks=() if kept(*case) else pytest.mark.soak) for case in made]


def on_diagonal(places: Iterable[int], sizes: Iterable[int]) -> bool:
    """Whether a cell of a grid is n mod size along every axis, for one n: the fewest cells in which every value occurs.

    >>> [(i, j) for i in range(3) for j in range(2) if on_diagonal((i, j), (3, 2))]
    [(0, 0), (1, 1), (2, 0)]
    """
    cell, axes = tuple(places), tuple(sizes)
    return any(cell == tuple(n % size for size in axes) for n in range(max(axes)))


def leave_diagonals(items: Iterable[pytest.Item]) -> None:
    """Give the cases of tests marked `diagonal` to `make soak`, but for those on the diagonal of their grid."""
    for item in items:
        if item.get_closest_marker("diagonal"):
            axes = {mark.args[0]: len(mark.args[1]) for mark in item.iter_markers("parametrize")}
            first = {names if isinstance(names, str) else names[0]: size for names, size in axes.items()}
            if not on_diagonal([item.callspec.indices[name] for name in first], first.values()):  # type: ignore[attr-defined]
                item.add_marker("soak")
