"""Solutions of plans that a solver works out, kept in a file beside the ledger, so that each problem is solved once.

A solution is found by the digest of all numbers of its problem, read to the last digit as it was written, and used only if it is
found to solve that problem when it is read: what is damaged, of another problem or another form is solved again. Nobody has to
trust the file, and without it nothing is lost but time.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from halflife.numerics.arrays import Floats
from halflife.numerics.forms import JsonObject, read_form

FORMAT = "halflife.solutions"
VERSION = 1
"""To be raised when a solver finds other numbers: then all that is kept is solved again."""
LARGEST = 100_000_000
"""A file of more bytes is not read."""
UNREADABLE = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError, OSError)

S = TypeVar("S")
Problem = Mapping[str, np.ndarray[Any, Any] | str]
"""All that a solution depends on, by name: arrays of numbers, and words."""


class Solutions:
    """The solutions of one policy's plans: those in its file, and those that were found since.

    >>> nothing = Solutions(None)
    >>> with nothing.at_hand():
    ...     recall_or_solve({"of": np.ones(2)}, lambda form: form["x"], lambda: 7, lambda x: {"x": x})
    7
    >>> nothing.write()
    """

    def __init__(self, file: str | None) -> None:
        self.file = file
        self._kept: Mapping[str, JsonObject] | None = None
        self._used: dict[str, JsonObject] = {}
        self._solved = False

    @contextmanager
    def at_hand(self) -> Iterator[None]:
        """Recall from these solutions, and add to them, within the block."""
        token = _AT_HAND.set(self)
        try:
            yield
        finally:
            _AT_HAND.reset(token)

    def find(self, digest: str) -> JsonObject:
        """Return what is kept of a problem: nothing that any solution could be, if it is not known."""
        if self._kept is None:
            self._kept = {} if self.file is None else _read(self.file)
        return self._used.get(digest) or self._kept.get(digest, {})

    def put(self, digest: str, form: JsonObject, solved: bool) -> None:
        """Keep a solution that is used; `solved` if it is new."""
        self._used[digest] = form
        self._solved = self._solved or solved

    def write(self) -> None:
        """Write what was used, if any of it is new. What cannot be written is solved again another time."""
        if self.file is None or not self._solved:
            return
        text = json.dumps({"format": FORMAT, "version": VERSION, "solutions": self._used})
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        with suppress(OSError):
            with open(os.open(f"{self.file}.new", flags, 0o600), "w", encoding="utf-8") as file:
                file.write(text)
            os.replace(f"{self.file}.new", self.file)
            self._solved = False


_AT_HAND: ContextVar[Solutions | None] = ContextVar("solutions at hand", default=None)


def _read(file: str) -> Mapping[str, JsonObject]:
    """What is kept in a file; nothing if it cannot be read, or is not of this form."""
    try:
        if not os.path.isfile(file) or os.path.getsize(file) > LARGEST:
            return {}
        data = json.loads(Path(file).read_text(encoding="utf-8"))
        if (data["format"], data["version"]) == (FORMAT, VERSION):
            return dict(data["solutions"])
    except UNREADABLE:
        pass
    return {}


def recall_or_solve(
    problem: Problem,
    recall: Callable[[JsonObject], S],
    solve: Callable[[], S],
    form_of: Callable[[S], JsonObject],
) -> S:
    """Return the solution of a problem: as it is kept, if solutions are at hand and `recall` accepts it, or from the solver.

    recall  reads the form of a solution, or raises ValueError if it does not solve the problem
    """
    solutions = _AT_HAND.get()
    if solutions is None:
        return solve()
    digest = _digest(problem)
    form = solutions.find(digest)
    with suppress(*UNREADABLE):
        found = recall(form)
        solutions.put(digest, form, solved=False)
        return found
    found = solve()
    solutions.put(digest, form_of(found), solved=True)
    return found


def _digest(problem: Problem) -> str:
    total = hashlib.sha256()
    for name, value in problem.items():
        content = value.encode() if isinstance(value, str) else np.ascontiguousarray(value, dtype="<f8").tobytes()
        total.update(f"{name} {len(content)} ".encode() + content)
    return total.hexdigest()


def read_floats(form: object, size: int) -> Floats:
    """Return so many finite numbers above 0 as a form has them, or raise ValueError."""
    values = np.array(form, dtype=np.float64)
    if values.shape != (size,) or not (np.isfinite(values).all() and (values > 0).all()):
        raise ValueError(f"not {size} numbers above 0")
    return values


def read_solution(form: JsonObject, keys: tuple[str, ...]) -> JsonObject:
    """Return the form of a solution with these keys, and a gap between 0 and 1, or raise ValueError."""
    found = read_form("a solution", form, keys)
    gap = found["gap"]
    if not (
        isinstance(gap, float) and 0 <= gap <= 1 and all(type(found[k]) is int for k in keys if k in ("rounds", "rows"))
    ):
        raise ValueError("no gap, or no numbers of rounds and rows")
    return found
