"""Nodes of binary trees over the steps of a stream: which steps each covers, and which add up to a running total."""

from __future__ import annotations

from typing import NamedTuple


class Node(NamedTuple):
    """The node that a step completes: its level ℓ (it covers 2^ℓ steps), its tree's place, and whether it closes its tree."""

    level: int
    tree: int
    closes: bool

    @property
    def width(self) -> int:
        """How many steps it covers, the newest of them the one that completes it."""
        return 1 << self.level


def find_node(step: int, endless: bool) -> Node:
    """Return the node that a step, counted from 1, completes.

    With an end there is one tree, and 2^ℓ is the largest power of two that divides the step. Without one the steps from 2^k to
    2^(k+1) − 1 have a tree of their own, in which the same holds of their place; its last step completes the node of all of it
    (Chan, Shi, Song: ACM TISSEC 14(3), 2011).

    >>> [find_node(step, endless=False).width for step in range(1, 9)]
    [1, 2, 1, 4, 1, 2, 1, 8]
    >>> [find_node(step, endless=True).width for step in range(1, 9)]
    [1, 1, 2, 1, 2, 1, 4, 1]
    """
    if not endless:
        return Node(_find_level(step), 0, False)
    tree = step.bit_length() - 1
    place = step - (1 << tree) + 1
    return Node(_find_level(place), tree, place == 1 << tree)


def find_first(first: int, last: int, endless: bool) -> int:
    """Return the earliest step that a node covers which one of the steps first … last completes.

    >>> find_first(5, 7, endless=False), find_first(5, 8, endless=False), find_first(5, 8, endless=True)
    (5, 1, 4)
    """
    return min(step - find_node(step, endless).width + 1 for step in range(first, last + 1))


def _find_level(place: int) -> int:
    return (place & -place).bit_length() - 1
