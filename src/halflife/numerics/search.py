"""Bisection: the largest number at which a condition holds."""

from __future__ import annotations

import math
from collections.abc import Callable

from halflife.numerics.rounding import SMALLEST_NORMAL


def largest(
    holds: Callable[[float], bool], low: float, high: float, relative: float = 1e-9, least: float = SMALLEST_NORMAL
) -> float:
    """Return a number at which `holds` was seen to be true, within `relative` of one where it was not; `low` must hold.

    Geometric bisection once both ends are positive, so that it ends soon for any magnitude; nothing between 0 and `least` is
    tried.

    >>> round(largest(lambda x: x * x <= 2, 0.0, 2.0), 6)
    1.414214
    """
    if holds(high):
        return high
    while high - low > relative * high and high > 2 * least:
        middle = math.sqrt(low * high) if low > 0 else high / 2
        if not low < middle < high:
            break
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
