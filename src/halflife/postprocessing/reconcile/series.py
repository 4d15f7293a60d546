"""From rules to sums: which values of published series add up, over groups of one step or over the steps of one width."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from halflife.errors import InvalidInput
from halflife.numerics.arrays import Integers
from halflife.postprocessing.reconcile.rules import Rule
from halflife.postprocessing.reconcile.sums import Sums


class Series(NamedTuple):
    """What is published of a stream: its steps, when they start and end (µs), the number of each value (steps × cells), and what
    a unit is worth in each cell."""

    steps: Integers
    starts: Integers
    ends: Integers
    cells: Integers
    factors: Sequence[Fraction]


def make_sums(rule: Rule, total: Series, parts: Series, size: int) -> list[Sums]:
    """Return the sums of a rule that published values can hold: those of which all parts are published.

    size  of the population, which a mean is divided by
    """
    return _add_steps(rule, total, parts) if rule.over_time else _add_groups(rule, total, parts, size)


def _add_groups(rule: Rule, total: Series, parts: Series, size: int) -> list[Sums]:
    """Over groups, step by step: a total of one group, or of those that `members` says."""
    lanes, members = find_lanes(rule, len(total.factors), len(parts.factors))
    _, of_total, of_parts = np.intersect1d(total.steps, parts.steps, assume_unique=True, return_indices=True)
    made = []
    for group in range(len(total.factors) // lanes):
        inside = np.flatnonzero(members == group)
        if len(inside):
            shares = [total.factors[group * lanes] / parts.factors[i * lanes] for i in inside.tolist()]
            divisor = math.lcm(*(share.denominator for share in shares))
            weights = np.array([int(share * divisor) for share in shares], dtype=np.int64)
            cells = parts.cells.reshape(len(parts.cells), -1, lanes)[of_parts][:, inside].swapaxes(1, 2)
            totals = total.cells[of_total, group * lanes : (group + 1) * lanes]
            people = 1 if divisor == 1 else -(-size // divisor)
            made.append(Sums(totals.ravel(), cells.reshape(-1, len(inside)), weights, divisor, people))
    return made


def find_lanes(rule: Rule, total: int, parts: int) -> tuple[int, Integers]:
    """Return how many numbers add up by themselves (bins of histograms), and in which of the total's groups each part lies.

    >>> find_lanes(Rule("city", "zones"), 1, 3)
    (1, array([0, 0, 0]))
    """
    lanes = parts // len(rule.members) if rule.members else total
    members = np.array(rule.members or [0] * (parts // max(1, lanes)), dtype=np.int64)
    if not lanes or not parts or parts != len(members) * lanes or total % lanes or members.max() >= total // lanes:
        raise InvalidInput(f"{parts} numbers of {rule.parts} cannot be parts of {total} of {rule.total}")
    return lanes, members


def _add_steps(rule: Rule, total: Series, parts: Series) -> list[Sums]:
    """Over time, cell by cell: each step of the total that published steps of the parts fill, without a gap."""
    if len(total.factors) != len(parts.factors):
        raise InvalidInput(f"{rule.parts} and {rule.total} must have the same cells to add up over time")
    first, last = np.searchsorted(parts.starts, total.starts), np.searchsorted(parts.ends, total.ends, side="right")
    breaks = np.cumsum(np.concatenate([[0], parts.ends[:-1] != parts.starts[1:]])) if len(parts.starts) else first[:0]
    counts = last - first
    whole = np.flatnonzero(counts > 0)
    low, high = first[whole], last[whole] - 1
    filled = (parts.starts[low] == total.starts[whole]) & (parts.ends[high] == total.ends[whole])
    whole = whole[filled & (breaks[low] == breaks[high])]
    made = []
    for count in np.unique(counts[whole]).tolist():
        rows = whole[counts[whole] == count]
        cells = parts.cells[first[rows][:, None] + np.arange(count)].swapaxes(1, 2)  # rows × cells × steps
        ones, divisor = np.ones(count, dtype=np.int64), count if rule.is_mean else 1
        made.append(Sums(total.cells[rows].ravel(), cells.reshape(-1, count), ones, divisor, over_time=True))
    return made
