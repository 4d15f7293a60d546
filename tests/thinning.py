"""Grids of cases that `make test` goes through in part: a set in which every value of every parameter occurs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
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


def find_place(mark: pytest.Mark, parameters: Mapping[str, object]) -> int:
    """Return which case of a `parametrize` a test was given."""
    names, cases = mark.args[:2]
    names = (names,) if isinstance(names, str) else names
    for i, case in enumerate(cases):
        values = case if len(names) > 1 else (case,)
        if all(parameters[name] is value for name, value in zip(names, values, strict=True)):
            return i
    raise LookupError(f"none of the cases of {names} is {parameters}")


def leave_diagonals(items: Iterable[pytest.Item]) -> None:
    """Give the cases of tests marked `diagonal` to `make soak`, but for those on the diagonal of their grid."""
    for item in items:
        if item.get_closest_marker("diagonal"):
            axes = [*item.iter_markers("parametrize")]
            places = [find_place(mark, item.callspec.params) for mark in axes]  # type: ignore[attr-defined]
            if not on_diagonal(places, [len(mark.args[1]) for mark in axes]):
                item.add_marker("soak")
