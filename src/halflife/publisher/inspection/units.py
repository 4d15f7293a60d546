"""Which unit readings look like if they are in another one than the policy says."""

from __future__ import annotations

from collections.abc import Sequence

from halflife.parsing.quantities import BASES, PREFIXES

_OF_POWER = {0: "", 3: "k", 6: "M", 9: "G", 12: "T", -3: "m", -6: "µ", -9: "n"}
_OF_TIME = {("h", 60): "min", ("h", 3600): "s", ("min", 60): "s"}


def likely_factors(unit: str | None) -> Sequence[int]:
    """Return how many times too large readings may be where their unit is mistaken, the likeliest first.

    >>> likely_factors("kW"), likely_factors("h"), likely_factors(None)
    ((1000, 1000000), (60, 3600), (1000, 60, 3600, 1000000))
    """
    if unit in ("h", "min"):
        return (60, 3600) if unit == "h" else (60,)
    base = _split(unit or "")[1]
    if base is None:
        return (1_000, 60, 3_600, 1_000_000)
    return (1_000, 3_600, 1_000_000) if base == "Wh" else (1_000, 1_000_000)


def name_unit(unit: str | None, factor: int, *, larger: bool = False) -> str | None:
    """Return the unit that is `factor` times smaller, or larger, than this one; None if it has no name that we know.

    >>> name_unit("kW", 1000), name_unit("kWh", 3600), name_unit("h", 60), name_unit("EUR", 1000)
    ('W', 'kJ', 'min', None)
    >>> name_unit("W", 1000, larger=True)
    'kW'
    """
    if unit is None:
        return None
    if (unit, factor) in _OF_TIME and not larger:
        return _OF_TIME[unit, factor]
    prefix, base, tail = _split(unit)
    if base is None:
        return None
    if factor == 3_600:
        return f"{prefix}J{tail}" if base == "Wh" and not larger else None
    power = PREFIXES[prefix] + (3 if factor == 1_000 else 6) * (1 if larger else -1)
    return f"{_OF_POWER[power]}{base}{tail}" if factor in (1_000, 1_000_000) and power in _OF_POWER else None


def _split(unit: str) -> tuple[str, str | None, str]:
    """The prefix of a unit, its base, None if it is none that takes prefixes, and what stands behind a slash.

    >>> _split("kWh/m2"), _split("m"), _split("people")
    (('k', 'Wh', '/m2'), ('', 'm', ''), ('', None, ''))
    """
    head, slash, tail = unit.partition("/")
    if head in BASES:
        return "", head, slash + tail
    if head[:1] in PREFIXES and head[1:] in BASES:
        return head[:1], head[1:], slash + tail
    return "", None, slash + tail
