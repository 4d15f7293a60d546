"""Adding secrets while a stream runs: only for steps not yet published, and without weakening earlier promises."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halflife.errors import InvalidInput, unknown
from halflife.specifications.base import NUMBERS, Specifications
from halflife.specifications.checks import Columns
from halflife.specifications.neighbours import INTERPRETATIONS

MOST_TOLD = 5


def add_secrets(old: Specifications, more: Specifications) -> Specifications:
    """Return the secrets of both; one that is in both is there once.

    >>> from halflife.specifications import Secret, Specification
    >>> a = Specifications(Specification([Secret(3.0, 2, 1, 4, 1.0)], "a"))
    >>> len(add_secrets(a, a)), len(add_secrets(a, Specifications(Specification([Secret(3.0, 2, 5, 8, 1.0)], "a"))))
    (1, 2)
    """
    names, columns, first, _ = _merge(old, more)
    return Specifications.from_columns(names, columns["household"][first], {n: columns[n][first] for n in NUMBERS})


def check_added(old: Specifications, new: Specifications, published: int, *, neighbours: str) -> None:
    """Refuse a change of secrets that breaks what was promised (ours).

    published   the newest data time that is published: its noise is drawn, and what it does not hide stays unhidden

    Every secret of `old` must be in `new`, past ones too. An added one must begin after `published`. Under "all-events" a
    secret's loss grows with every other that overlaps it, so an added one must not overlap a secret of its household that
    has begun: the budget of that one may be spent.
    """
    if neighbours not in INTERPRETATIONS:
        raise unknown("interpretation of neighbours", neighbours, INTERPRETATIONS)
    if old == new:
        return
    names, columns, first, source = _merge(old, new)
    both = first & np.append(~first[1:], False)
    gone = np.flatnonzero(first & ~both & (source == 0))
    extra = np.flatnonzero(first & ~both & (source == 1))
    _refuse(
        f"household {_describe(names, columns, i)} was promised, and is missing or changed: secrets may only be added"
        for i in gone[: MOST_TOLD + 1].tolist()
    )
    late = extra[columns["start"][extra] <= published]
    _refuse(_too_late(names, columns, i, published) for i in late[: MOST_TOLD + 1].tolist())
    if neighbours == "all-events":
        _refuse_overlaps(names, columns, np.flatnonzero(first & (source == 0)), extra, published)


def _merge(old: Specifications, new: Specifications) -> tuple[list[str], Columns, NDArray[np.bool_], Any]:
    """Return all rows of both, sorted: names, columns, whether a row differs from the one before, and which set it is from."""
    names = sorted({*old.households, *new.households})
    number = {name: i for i, name in enumerate(names)}
    codes = [np.array([number[n] for n in s.households], dtype=np.int64)[s.household] for s in (old, new) if len(s)]
    columns = {name: np.concatenate([getattr(old, name), getattr(new, name)]) for name in NUMBERS}
    columns["household"] = np.concatenate(codes) if codes else np.zeros(0, dtype=np.int64)
    source = np.repeat([0, 1], [len(old), len(new)])
    keys = ("epsilon", "duration", "power", "end", "start", "household")
    order = np.lexsort([source, *(columns[name] for name in keys)])
    columns = {name: values[order] for name, values in columns.items()}
    first = np.zeros(len(order), dtype=bool)
    first[:1] = True
    for values in columns.values():
        first[1:] |= values[1:] != values[:-1]
    return names, columns, first, source[order]


def _refuse_overlaps(names: list[str], columns: Columns, held: Any, extra: Any, published: int) -> None:
    """Refuse what overlaps a secret of the same household that has begun."""
    begun = held[columns["start"][held] <= published]
    begun = begun[np.lexsort([columns["end"][begun], columns["household"][begun]])]
    whose = columns["household"][begun]
    at = (
        np.searchsorted(whose, columns["household"][extra], side="right") - 1
    )  # the one that ends last, if there is any
    known = at >= 0
    known[known] = whose[at[known]] == columns["household"][extra[known]]
    rows, others = extra[known], begun[at[known]]
    over = columns["start"][rows] <= columns["end"][others]
    _refuse(
        f"household {_describe(names, columns, i)} overlaps {_describe(names, columns, j, short=True)}, which has begun: under "
        f"all-events it would take of a budget that may be spent: begin at {columns['end'][j] + 1} or later"
        for i, j in zip(rows[over][: MOST_TOLD + 1].tolist(), others[over][: MOST_TOLD + 1].tolist(), strict=True)
    )


def _too_late(names: list[str], columns: Columns, i: int, published: int) -> str:
    start, last = int(columns["start"][i]), min(int(columns["end"][i]), published)
    steps = f"step {start} is" if start == last else f"steps {start} to {last} are"
    return (
        f"household {_describe(names, columns, i)} reaches into the past: {steps} published already with noise that does "
        f"not hide it: begin at {published + 1}"
    )


def _describe(names: list[str], columns: Columns, i: int, *, short: bool = False) -> str:
    held = {name: columns[name][i].item() for name in NUMBERS}
    secret = (
        f"the secret of steps {held['start']} to {held['end']} (power {held['power']:g}, duration {held['duration']}, "
        f"epsilon {held['epsilon']:g})"
    )
    return secret if short else f"{names[int(columns['household'][i])]!r}: {secret}"


def _refuse(lines: Iterable[str]) -> None:
    told = list(lines)
    if told:
        raise InvalidInput("\n".join([*told[:MOST_TOLD], *(["… and more"] if len(told) > MOST_TOLD else [])]))
