"""Sensitivities: how far one person can move a statistic, from public knowledge alone.

(Definition 2 of the age-dependent paper; paper), (Definition 4 of the Swellfish paper; paper).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

from halflife.errors import InvalidInput
from halflife.numerics.parameters import real, whole
from halflife.numerics.rounding import divide_up, up


def mean_sensitivity(low: float, high: float, members: Sequence[int]) -> list[float]:
    """Return Δf_k of a mean over n_k members, step by step, when people join and leave.

    Remark 1 of the discounted paper has the idea, and Δf_k is ours (Remark 1 of the discounted paper; ours).

    Readings are clipped to [low, high]; f_k = (Σ of the readings that are there) / n_k with a *public* n_k, so a person who has
    not come yet, or has left, counts as 0 and n_k is the same for both neighbours. One person's whole series then moves
    f_k by at most max(high − low, |low|, |high|) / n_k: to another reading, or to and from nothing. A smaller n_k makes a
    larger Δf_k: the losses of a plan stay, its noise grows. If n_k itself depends on a person's data it is not public, and
    must be released as a statistic of its own.

    >>> mean_sensitivity(0.0, 5.0, [300, 250])
    [0.01666666666666667, 0.02]
    """
    for name, bound in (("low", low), ("high", high)):
        real(f"|{name}|", abs(bound))
    if not low < high:
        raise InvalidInput(
            f"low = {low!r} must lie below high = {high!r}: bounds are public, and a reading lies between them"
        )
    reach = max(high - low if low in (0, -high) else up(high - low), abs(low), abs(high))
    return [
        divide_up(reach, float(whole(f"members at release {k}", n, least=1))) for k, n in enumerate(members, start=1)
    ]


class Sensitivity(NamedTuple):
    """The sensitivity of the numbers of one step, in whole units: how far one person can move them (L1 and L2), and why.

    l1, l2   the largest L1 and L2 distance between the vectors of neighbours (Laplace and Gaussian noise)
    touched  how many of the numbers one person can change
    reason   in words, for people
    """

    l1: int
    l2: float
    touched: int
    reason: str

    def of(self, noise: str) -> float:
        """Return the sensitivity that this family of noise is calibrated to."""
        return float(self.l1) if noise == "laplace" else self.l2


Neighbours = Literal["replace-one", "add-remove"]


def bounded_sensitivity(
    low: int,
    high: int,
    missing: int = 0,
    *,
    neighbours: Neighbours = "replace-one",
    weight: int = 1,
    groups: int = 1,
    most_groups: int = 1,
    fixed: bool = True,
) -> Sensitivity:
    """Return the sensitivity of Σ_p w_p (v_p − c), v_p in [low, high] and c what a missing reading counts as (ours).

    A person adds some y in [low − c, high − c], or 0 without a reading. Let M = w · max|y| and R = w · (max(y, 0) − min(y, 0)),
    the width of all that they may add. Where a person's group is fixed for ever by a public table (or there is none), their
    data moves one number: by R if it may be replaced, by M if it is there or not. Where they count in up to k of G groups
    that depend on the data, replacing it leaves j = min(k, G − k) groups for as many others and stays in k − j:

        L1 = 2jM + (k − j)R,   L2² = max(kR², 2jM² + (k − j)R²)      replace-one      (R ≤ 2M, so L1 is largest apart)
        L1 = kM,               L2² = kM²                              add-remove

    >>> bounded_sensitivity(0, 5000).l1, bounded_sensitivity(-100, 100).l1
    (5000, 200)
    >>> bounded_sensitivity(0, 5000, missing=200, neighbours="add-remove").l1
    4800
    >>> bounded_sensitivity(0, 10, groups=5, most_groups=2, fixed=False).l1
    40
    """
    if low > high:
        raise InvalidInput(f"the bounds must be low ≤ high, not {low} and {high}")
    furthest = weight * max(abs(low - missing), abs(high - missing))
    width = weight * (max(high - missing, 0) - min(low - missing, 0))
    replace = neighbours == "replace-one"
    what = "replaced by any other" if replace else "there or not"
    if fixed or groups == 1:
        reach = width if replace else furthest
        return Sensitivity(reach, float(reach), 1, f"one person's reading may be {what}: at most {reach} units")
    k = min(most_groups, groups)
    apart = min(k, groups - k)
    if replace:
        l1 = 2 * apart * furthest + (k - apart) * width
        squares = max(k * width**2, 2 * apart * furthest**2 + (k - apart) * width**2)
    else:
        l1, squares = k * furthest, k * furthest**2
    touched = k + apart if replace else k
    reason = f"one person counts in up to {k} of {groups} groups, and may be {what}: at most {l1} units over all groups"
    return Sensitivity(l1, _root_up(squares), touched, reason)


def histogram_sensitivity(
    bins: int, *, neighbours: Neighbours = "replace-one", groups: int = 1, most_groups: int = 1, fixed: bool = True
) -> Sensitivity:
    """Return the sensitivity of counts of people by bin: a person is in one bin of each group that they count in.

    Replacing their data moves them from one bin to another, so two counts change by 1 for each group.

    >>> histogram_sensitivity(10).l1, histogram_sensitivity(10, neighbours="add-remove").l1
    (2, 1)
    """
    if bins == 1:
        return bounded_sensitivity(1, 1, neighbours=neighbours, groups=groups, most_groups=most_groups, fixed=fixed)
    k = 1 if fixed else min(most_groups, groups)
    moved = 2 * k if neighbours == "replace-one" else k
    what = "leave one bin for another" if neighbours == "replace-one" else "be in a bin or not"
    where = "" if k == 1 else f" in each of {k} groups"
    return Sensitivity(moved, _root_up(moved), moved, f"one person may {what}{where}: {moved} counts change by 1")


def tree_sensitivity(
    levels: int,
    total: bool,
    *,
    neighbours: Neighbours = "replace-one",
    groups: int = 1,
    most_groups: int = 1,
    fixed: bool = True,
) -> Sensitivity:
    """Return the sensitivity of a tree of counts by bin (`numerics/trees.py`): a person counts in one node of each level (ours).

    L levels lie below the top, which is a node of its own if T = 1. In each group that they count in, a person is on one path of
    L + T nodes. To be there or not changes all of them by 1. To leave one bin for another changes at most two nodes of each
    level, and not the top: 2L ≥ L + T, so the count of everybody costs nothing where a person's group is fixed. Where they count
    in up to k of G groups that depend on the data, j = min(k, G − k) of them may be left for as many others:

        L1 = L2² = 2L,  or 2j(L + T) + (k − j)·2L = 2kL + 2jT        replace-one
        L1 = L2² = L + T,  or k(L + T)                               add-remove

    Every node that changes does so by 1, hence L2² = L1.

    >>> tree_sensitivity(3, True).l1, tree_sensitivity(3, False, neighbours="add-remove").l1
    (6, 3)
    >>> tree_sensitivity(2, True, groups=5, most_groups=2, fixed=False)[:3]
    (12, 3.4641016151377553, 12)
    """
    k = 1 if fixed or groups == 1 else min(most_groups, groups)
    j = 0 if fixed else min(k, groups - k)
    replace = neighbours == "replace-one"
    moved = 2 * k * levels + 2 * j * total if replace else k * (levels + total)
    what = "leave one bin for another" if replace else "be in a bin or not"
    where = "" if k == 1 else f" in each of {k} groups"
    reason = f"one person may {what}{where}, on each of {levels} levels of counts: {moved} counts change by 1"
    return Sensitivity(moved, _root_up(moved), moved, reason)


def _root_up(square: int) -> float:
    root = math.isqrt(square)
    return float(root) if root * root == square else up(up(math.sqrt(square)))
