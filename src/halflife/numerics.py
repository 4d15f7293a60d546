"""Directed rounding, exact sums, bisection and the checks that every number from outside passes.

Risks round up and headroom rounds down. Sums of losses are exact: a loss becomes a whole number of *units* of
2⁻¹²⁰ nat (rounded up, an error below 10⁻³⁶ each), and whole numbers of any size add and subtract without error, so an
account neither drifts nor depends on the order in which it was filled.

Doubles cannot write 0.1, 0.2 or 0.3, and the exact sum of the doubles nearest to the first two is larger than the third.
A promise is therefore held kept while its exact risk is at most `limit · (1 + TOLERANCE)`; reports show the exact risk.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from numbers import Integral, Real

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


def real(name: str, value: object, *, positive: bool = False, limit: float = math.inf) -> float:
    """Return `value` as a finite double ≥ 0 (> 0 if `positive`), or refuse it with its name.

    >>> real("epsilon", -1)
    Traceback (most recent call last):
    ...
    halflife.errors.InvalidInput: epsilon must be at least 0, not -1
    """
    if type(value) is not float and (isinstance(value, bool) or not isinstance(value, Real)):
        raise InvalidInput(f"{name} must be a number, not {value!r}")
    try:
        x = float(value)
    except OverflowError:
        raise InvalidInput(f"{name} must be finite, not a number too large for a double") from None
    if math.isnan(x):
        raise InvalidInput(f"{name} is NaN: something upstream divided nothing by nothing; give a number")
    if math.isinf(x):
        raise InvalidInput(f"{name} must be finite, not {x}")
    if x < 0 or (positive and x == 0):
        raise InvalidInput(f"{name} must be {'above' if positive else 'at least'} 0, not {value!r}")
    if 0 < x < SMALLEST_NORMAL:
        raise InvalidInput(
            f"{name} = {x!r} is subnormal, where doubles lose their precision: give 0 or a larger number"
        )
    if x > limit:
        raise InvalidInput(f"{name} must be at most {limit:g}, not {value!r}")
    return x


def whole(name: str, value: object, *, least: int | None = None) -> int:
    """Return `value` as an int of at least `least`, or refuse it with its name.

    >>> whole("w", 2.5)
    Traceback (most recent call last):
    ...
    halflife.errors.InvalidInput: w must be a whole number, not 2.5
    """
    if type(value) is not int and (isinstance(value, bool) or not isinstance(value, Integral)):
        raise InvalidInput(f"{name} must be a whole number, not {value!r}")
    n = int(value)
    if least is not None and n < least:
        raise InvalidInput(f"{name} must be at least {least}, not {n}")
    return n
