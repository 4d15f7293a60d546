"""Quantities with a unit, exactly: 5 kWh is 5000 times 1 Wh, in whole numbers."""

from __future__ import annotations

import re
from fractions import Fraction

from halflife.errors import InvalidInput

PREFIXES = {
    "": 0, "n": -9, "µ": -6, "μ": -6, "u": -6, "m": -3, "c": -2, "d": -1, "h": 2, "k": 3, "M": 6, "G": 9, "T": 12,
}  # fmt: skip
"""Powers of ten. µ stands twice: as the sign for micro, and as the Greek letter that text tools make of it."""
BASES = frozenset({
    "W", "Wh", "VA", "VAh", "var", "varh", "J", "V", "A", "Ah", "Hz", "g", "m", "s", "l", "L", "B", "b", "mol", "cal", "eV", "N",
    "t", "Pa", "bar", "lx", "lm", "cd",
})  # fmt: skip
"""Units that are written with a prefix everywhere: what begins with a prefix and ends with one of them has its prefix."""
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
    """How much of `unit` one `given` is: the same base with another prefix. What stands behind a slash must be the same.

    A prefix of a square or a cube counts twice or three times, so those are not converted.

    >>> _ratio("W", "kW", "5 W"), _ratio("Wh/m2", "kWh/m2", "5 Wh/m2"), _ratio("kpeople", "people", "5 kpeople")
    (Fraction(1, 1000), Fraction(1, 1000), Fraction(1000, 1))
    """
    head, slash, tail = unit.partition("/")
    prefixed = head[:1] in PREFIXES and head[1:] in BASES and head not in BASES
    base = head[1:] if prefixed else head
    prefix = given.removesuffix(slash + tail).removesuffix(base)
    whole = given == prefix + base + slash + tail
    if whole and prefix in PREFIXES and base[-1:] not in "23²³":
        return Fraction(10) ** (PREFIXES[prefix] - PREFIXES[head.removesuffix(base)])
    other = (
        f", or of the same unit with another prefix (m{base}{slash}{tail}, M{base}{slash}{tail})"
        if base in BASES
        else ""
    )
    raise InvalidInput(f"{text!r} is not in {unit}: give a number of {unit}{other}")
