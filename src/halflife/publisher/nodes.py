"""Exact sums of the nodes of a tree, read anew from the data for the steps that complete them: none of them is ever kept."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from halflife.engines.base import LARGEST_TOTAL
from halflife.numerics.dyadic import find_first, find_node
from halflife.policy import Channel
from halflife.publisher.drawing import Totals

Read = Callable[[int, int], Totals]
"""Returns the exact totals of the steps first … last, one number each."""


def read_rows(channel: Channel, first: int, last: int, most: int, read: Read, read_back: Read) -> Totals:
    """Return what gets noise at the steps first … last of a stream: the totals of steps, or of the nodes that they complete.

    most  how many steps are read at a time;  read  reads due steps;  read_back  reads those before that their nodes cover

    Nodes are differences of totals from the first step that any of them covers. Over a stretch of n steps from the first on that
    is n steps more at the most, and step by step (log₂ n)/2 more a step on average.
    """
    tree = channel.tree
    if tree is None:
        return read(first, last)
    begin = find_first(first, last, tree.endless)
    starts = {step: step - find_node(step, tree.endless).width for step in range(first, last + 1)}
    wanted, sums, total = set(starts.values()), {begin - 1: 0}, 0
    for low in range(begin, first, most):
        high = min(low + most, first) - 1
        total = _add(sums, wanted, total, low, read_back(low, high))
    due = read(first, last)
    _add(sums, {*wanted, *starts}, total, first, due)
    return np.array([[_hold(sums[step] - sums[start])] for step, start in starts.items()], dtype=np.int64)


def add_up_nodes(channel: Channel, totals: Totals) -> Totals:
    """Return what gets noise at the first steps of a stream whose totals, from step 1 on, are at hand."""

    def look(low: int, high: int) -> Totals:
        return totals[low - 1 : high]

    return totals if channel.tree is None else read_rows(channel, 1, len(totals), len(totals), look, look)


def _add(sums: dict[int, int], wanted: set[int], total: int, first: int, totals: Totals) -> int:
    """Go on with the total of all steps so far, and note it after the steps that are wanted; return it. Python's own integers."""
    for step, value in enumerate(totals[:, 0].tolist(), start=first):
        total += value
        if step in wanted:
            sums[step] = total
    return total


def _hold(total: int) -> int:
    """A sum within the bounds of 64 bits; that brings no two sums further apart, so sensitivities stand."""
    return max(-LARGEST_TOTAL, min(LARGEST_TOTAL, total))
