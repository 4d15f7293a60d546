"""Sums that must hold among numbered values: totals and their parts, in stacks of rows of one form.

A row says z_total = Σ w_i z_i / W with whole weights w_i and divisor W: 1 and 1 for sums and counts, people for means of groups,
1 and the number of steps for means over time. Rows that share a value, directly or through others, form a *block*: it is
reconciled by itself. In what follows stacks stand from the top down: a total before the rows of its parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from halflife.errors import InvalidInput
from halflife.numerics.arrays import Bools, Floats, Integers

BITS = 51
"""Parts are rounded to 2^−BITS of their sum, or less: sums of doubles hold 53 bits."""


@dataclass(frozen=True, eq=False)
class Sums:
    """Rows of one form: `totals` (rows) are the sums of `parts` (rows × parts), by the numbers of the values.

    weights, divisor  w and W, whole numbers
    people            by how much readers may multiply both: n_i = w_i·people at the most. Sums are exact for them too
    over_time         whether parts are steps of one series, whose errors go together once they are smoothed
    """

    totals: Integers
    parts: Integers
    weights: Integers
    divisor: int = 1
    people: int = 1
    over_time: bool = False

    def __post_init__(self) -> None:
        w, (rows, count) = self.weights, self.parts.shape
        if self.totals.shape != (rows,) or w.shape != (count,) or not count:
            raise InvalidInput(
                f"sums need a total for each row and a weight for each part, not {self.totals.shape}, {w.shape}"
            )
        if (w < 1).any() or int(w.sum()) * self.people > 2 ** (BITS - 1) or min(self.divisor, self.people) < 1:
            raise InvalidInput("weights that add up exactly are whole numbers from 1 on, below 2^50 in all")

    @property
    def coefficients(self) -> Floats:
        """a_i = w_i/W."""
        result: Floats = self.weights / self.divisor
        return result

    def add_up(self, values: Floats) -> Floats:
        """Return Σ w_i z_i / W of each row; the sum is exact for settled values, in whatever order."""
        result: Floats = (self.weights * values[self.parts]).sum(axis=1) / self.divisor
        return result


@dataclass(frozen=True, eq=False)
class Block:
    """Blocks of one form: the numbers of their values (blocks × values), the rows as A z = 0 (rows × values), and which of the
    rows are over time."""

    cells: Integers
    rows: Floats
    over_time: Bools


def number_blocks(count: int, sums: Sequence[Sums], common: Sequence[Integers] = ()) -> Integers:
    """Return the number of the block that each of `count` values lies in; values in no row are blocks of their own.

    common  values that have a noise in common, which makes them one block
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    none = np.zeros(0, dtype=np.int64)
    ends = [(np.repeat(s.totals, s.parts.shape[1]), s.parts.ravel()) for s in sums]
    ends += [(np.full(len(cells), cells[0]), cells) for cells in common if len(cells)]
    a, b = (np.concatenate([none, *(pair[side] for pair in ends)]) for side in (0, 1))
    graph = coo_array((np.ones(len(a), dtype=np.int8), (a, b)), shape=(count, count))
    labels: Integers = connected_components(graph, directed=False)[1].astype(np.int64)
    return labels


def find_blocks(count: int, sums: Sequence[Sums], common: Sequence[Integers] = ()) -> list[Block]:
    """Return the blocks of some sums, those of one form together.

    >>> days = Sums(np.array([4, 5]), np.array([[0, 1], [2, 3]]), np.ones(2, dtype=np.int64))
    >>> [(block.cells.tolist(), block.rows.tolist()) for block in find_blocks(6, [days])]
    [([[0, 1, 4], [2, 3, 5]], [[-1.0, -1.0, 1.0]])]
    """
    if not sums:
        return []
    labels = number_blocks(count, sums, common)
    stacks = np.concatenate([np.full(len(s.totals), i) for i, s in enumerate(sums)])
    places = np.concatenate([np.arange(len(s.totals)) for s in sums])
    of_rows = np.concatenate([labels[s.totals] for s in sums])
    forms: dict[tuple[int, ...], list[Integers]] = {}
    numbers: dict[tuple[int, ...], list[int]] = {}
    for rows in _split_by(of_rows):
        form = tuple(stacks[rows].tolist())
        forms.setdefault(form, []).append(places[rows])
        numbers.setdefault(form, []).append(int(of_rows[rows[0]]))
    if not common:
        return [b for form, found in forms.items() for b in _arrange([sums[i] for i in form], np.array(found))]
    members = {int(labels[cells[0]]): cells for cells in _split_by(labels)}
    return [
        block
        for form, found in forms.items()
        for block in _arrange([sums[i] for i in form], np.array(found), [members[n] for n in numbers[form]])
    ]


def _split_by(labels: Integers) -> list[Integers]:
    """The places of each label."""
    order = np.argsort(labels, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(labels[order])) + 1)


def _arrange(form: Sequence[Sums], places: Integers, members: Sequence[Integers] | None = None) -> list[Block]:
    """The blocks whose rows are these places of these stacks (blocks × rows), by how their rows share values.

    members  all values of each block, where some are in no row
    """
    over_time = np.array([s.over_time for s in form])
    if len(form) == 1 and members is None:
        (one,), at = form, places[:, 0]
        cells = np.concatenate([one.parts[at], one.totals[at, None]], axis=1)
        return [Block(cells, np.concatenate([-one.coefficients, [1.0]])[None], over_time)]
    found: dict[bytes, tuple[Floats, list[Integers]]] = {}
    for k, rows in enumerate(places):
        mentioned = [np.append(s.parts[row], s.totals[row]) for s, row in zip(form, rows, strict=True)]
        cells = np.unique(np.concatenate(mentioned)) if members is None else members[k]
        a = np.zeros((len(form), len(cells)))
        for row, s, numbers in zip(a, form, mentioned, strict=True):
            row[np.searchsorted(cells, numbers)] = np.append(-s.coefficients, 1.0)
        found.setdefault(a.tobytes(), (a, []))[1].append(cells)
    return [Block(np.array(cells), a, over_time) for a, cells in found.values()]


def settle(values: Floats, sums: Sequence[Sums]) -> Floats:
    """Return values on a grid, and totals that are their sums: whoever adds doubles up gets the same, in whatever order.

    The grid of a block is 2^(e − 51) with Σ w_i |z_i| < 2^e for all of its rows, worked out from the bottom up: products and sums
    are whole multiples of it, fewer than 2^53, and so none is rounded. No value moves by more than 2^−51 of the largest sum. A
    mean is divided once: where it is a part itself, the next total is that of the rounded ones.

    >>> found = settle(np.array([0.1, 0.2, 0.7, 5.0]), [Sums(np.array([3]), np.array([[0, 1, 2]]), np.ones(3, dtype=np.int64))])
    >>> x, y, z, total = found.tolist()
    >>> x + y + z == z + y + x == y + z + x == total, 0.1 + 0.2 + 0.7 == 0.7 + 0.2 + 0.1
    (True, False)
    """
    labels = number_blocks(len(values), sums)
    sizes, most = np.abs(values), np.zeros(len(values))
    for s in reversed(sums):
        reach = (s.weights * sizes[s.parts]).sum(axis=1)
        sizes[s.totals] = reach / s.divisor
        np.maximum.at(most, labels[s.totals], reach * s.people)
    exponent = np.maximum(np.frexp(most)[1] - BITS, -1000)[labels]
    held = np.unique(
        np.concatenate([np.zeros(0, dtype=np.int64), *(x.ravel() for s in sums for x in (s.totals, s.parts))])
    )
    grid = values.copy()
    grid[held] = np.ldexp(np.rint(np.ldexp(values[held], -exponent[held])), exponent[held]) + 0.0  # no −0
    for s in reversed(sums):
        grid[s.totals] = s.add_up(grid)
    return grid


def adds_up(values: Floats, sums: Sequence[Sums]) -> bool:
    """Return whether every total is the sum of its parts to the last bit, as a reader would add them."""
    return all(bool(np.all(s.add_up(values) == values[s.totals])) for s in sums)
