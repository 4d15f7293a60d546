"""Quantities with a unit, exactly: 5 kWh is 5000 times 1 Wh, in whole numbers."""

from __future__ import annotations

import re
from fractions import Fraction

from halflife.errors import InvalidInput

PREFIXES = {"": 0, "n": -9, "µ": -6, "u": -6, "m": -3, "c": -2, "d": -1, "h": 2, "k": 3, "M": 6, "G": 9, "T": 12}
BASES = frozenset({
    "W", "Wh", "VA", "VAh", "var", "varh", "J", "V", "A", "Ah", "Hz", "g", "m", "s", "l", "L", "B", "b", "mol", "cal", "N", "t"
})  # fmt: skip
"""Units that are written with a prefix everywhere: one that has its prefix takes no second one."""
_NUMBER = r"[+-]?(?:\d{1,30}(?:\.\d{0,30})?|\.\d{1,30})(?:[eE][+-]?\d{1,2})?"


def parse_quantity(text: object, unit: str | None) -> Fraction:
    """Return a quantity in `unit`, exactly; a bare number is in that unit already.

    >>> parse_quantity("1 Wh", "kWh"), parse_quantity("2.5", "kWh"), parse_quantity("1e-6", None)
    (Fraction(1, 1000), Fraction(5, 2), Fraction(1, 1000000))
    >>> parse_quantity("5 kW", "kWh")
    Traceback (most recent call last):
    ...
    halflife.errors.InvalidInput: '5 kW' is not in kWh: give a number of kWh, or of the same unit with another prefix (mWh, MWh)
    """
    match = re.fullmatch(rf"\s*({_NUMBER})\s*(\S{{0,20}})\s*", str(text))
    if match is None:
        example = f"5 {unit}" if unit else "5"
        raise InvalidInput(
            f"a quantity must be a number{' with a unit' if unit else ''}, such as {example!r}, not {text!r}"
        )
    number, given = Fraction(match[1]), match[2]
    if not given or given == unit:
        return number
    if unit is None:
        raise InvalidInput(
            f"{text!r} has a unit, and the statistic names none: add `unit:` with what the values are in"
        )
    return number * _ratio(given, unit, str(text))


def _ratio(given: str, unit: str, text: str) -> Fraction:
    """How much of `unit` one `given` is: the same base with another prefix.

    >>> _ratio("W", "kW", "5 W"), _ratio("kpeople", "people", "5 kpeople")
    (Fraction(1, 1000), Fraction(1000, 1))
    """
    prefixed = len(unit) > 1 and unit[0] in PREFIXES
    bases = [unit[1:]] if prefixed and unit[1:] in BASES else [unit[1:], unit] if prefixed else [unit]
    for base in bases:
        if given.endswith(base) and given.removesuffix(base) in PREFIXES:
            return Fraction(10) ** (PREFIXES[given.removesuffix(base)] - PREFIXES[unit.removesuffix(base)])
    bare = unit[1:] if prefixed else unit
    raise InvalidInput(
        f"{text!r} is not in {unit}: give a number of {unit}, or of the same unit with another prefix (m{bare}, M{bare})"
    )
