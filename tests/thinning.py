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
