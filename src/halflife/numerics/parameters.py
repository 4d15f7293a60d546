"""Checks that every number given from outside passes: finite, in range, refused by the name of its parameter."""

from __future__ import annotations

import math
from numbers import Integral, Real

from halflife.errors import InvalidInput
from halflife.numerics.rounding import SMALLEST_NORMAL


def real(name: str, value: object, *, positive: bool = False, limit: float = math.inf) -> float:
    """Return `value` as a finite double ≥ 0 (> 0 if `positive`), or refuse it with its name.

    >>> real("epsilon", -1)
    Traceback (most recent call last):
    ...
    halflife.errors.InvalidInput: epsilon must be at least 0, not -1
    """
    if type(value) is not float and (isinstance(value, bool) or not isinstance(value, Real)):
        raise InvalidInput(f"{name} must be a number, not {value!r}", about=name)
    try:
        x = float(value)
    except OverflowError:
        raise InvalidInput(f"{name} must be finite, not a number too large for a double", about=name) from None
    if math.isnan(x):
        raise InvalidInput(f"{name} is NaN: something upstream divided nothing by nothing; give a number", about=name)
    if math.isinf(x):
        raise InvalidInput(f"{name} must be finite, not {x}", about=name)
    if x < 0 or (positive and x == 0):
        raise InvalidInput(f"{name} must be {'above' if positive else 'at least'} 0, not {value!r}", about=name)
    if 0 < x < SMALLEST_NORMAL:
        raise InvalidInput(
            f"{name} = {x!r} is subnormal, where doubles lose their precision: give 0 or a larger number",
            about=name,
        )
    if x > limit:
        raise InvalidInput(f"{name} must be at most {limit:g}, not {value!r}", about=name)
    return x


def whole(name: str, value: object, *, least: int | None = None) -> int:
    """Return `value` as an int of at least `least`, or refuse it with its name.

    >>> whole("w", 2.5)
    Traceback (most recent call last):
    ...
    halflife.errors.InvalidInput: w must be a whole number, not 2.5
    """
    if type(value) is not int and (isinstance(value, bool) or not isinstance(value, Integral)):
        raise InvalidInput(f"{name} must be a whole number, not {value!r}", about=name)
    n = int(value)
    if least is not None and n < least:
        raise InvalidInput(f"{name} must be at least {least}, not {n}", about=name)
    return n
