"""Directed rounding and exact sums.

Risks round up and headroom rounds down. Sums of losses are exact: a loss becomes a whole number of *units* of
2⁻¹²⁰ nat (rounded up, an error below 10⁻³⁶ each), and whole numbers of any size add and subtract without error, so an
account neither drifts nor depends on the order in which it was filled.

Doubles cannot write 0.1, 0.2 or 0.3, and the exact sum of the doubles nearest to the first two is larger than the third.
A promise is therefore held kept while its exact risk is at most `limit · (1 + TOLERANCE)`; reports show the exact risk.
"""

from __future__ import annotations

import math
import sys

from halflife.errors import InvalidInput

TOLERANCE = 1e-12
"""How far above its promise, relatively, an exact risk may lie and still count as kept: the reading of decimals."""

UNIT_BITS = 120
UNIT = 1 << UNIT_BITS
SMALLEST_NORMAL = 2.0**-1022


def up(x: float) -> float:
    """Return the next double above x."""
    return math.nextafter(x, math.inf)


def down(x: float) -> float:
    """Return the next double below x."""
    return math.nextafter(x, -math.inf)


def to_units(x: float) -> int:
    """Return the least whole number of units of 2⁻¹²⁰ that is at least x ≥ 0.

    >>> to_units(0.25) == 2**118, to_units(1e-300)
    (True, 1)
    """
    numerator, denominator = x.as_integer_ratio()
    return -((-numerator << UNIT_BITS) // denominator)


def ratio_up(numerator: int, denominator: int) -> float:
    """Return the least double that is at least numerator / denominator, for a denominator > 0.

    >>> ratio_up(1, 4), ratio_up(1, 3) > 1 / 3
    (0.25, True)
    """
    try:
        x = numerator / denominator
    except OverflowError:
        return math.inf if numerator > 0 else -sys.float_info.max
    a, b = x.as_integer_ratio()
    return up(x) if a * denominator < numerator * b else x


def float_up(units: int) -> float:
    """Return the least double that is at least `units` · 2⁻¹²⁰.

    >>> float_up(to_units(0.1) + to_units(0.2))
    0.30000000000000004
    """
    return ratio_up(units, UNIT)


def float_down(units: int) -> float:
    """Return the largest double that is at most `units` · 2⁻¹²⁰."""
    return -ratio_up(-units, UNIT)


def read_units(text: object) -> int:
    """Read a sum of units that was written by `hex`.

    >>> read_units(hex(to_units(0.25))) == to_units(0.25)
    True
    """
    try:
        units = int(text, 16)  # type: ignore[call-overload]
    except (TypeError, ValueError):
        raise InvalidInput(f"a sum of losses must be hexadecimal text, not {text!r}") from None
    if units < 0:
        raise InvalidInput(f"a sum of losses cannot be negative: {text!r}")
    return int(units)


def divide_up(a: float, b: float) -> float:
    """Return the least double that is at least a/b, for b > 0.

    >>> divide_up(1.0, 4.0), divide_up(1.0, 3.0) > 1 / 3
    (0.25, True)
    """
    (p, q), (r, s) = a.as_integer_ratio(), b.as_integer_ratio()
    return ratio_up(p * s, q * r)


def divide_down(a: float, b: float) -> float:
    """Return the largest double that is at most a/b, for b > 0."""
    return -divide_up(-a, b)
