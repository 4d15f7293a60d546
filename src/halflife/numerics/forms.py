"""Our own JSON forms: keys written out by hand, defaults left out, versions and unknown keys checked.

A form that is kept (in a ledger, an account, a history) outlives the code that wrote it. So its keys never follow from the
names of Python attributes, and a key that is at its default is not written: one that a later version adds changes no form that
exists.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from halflife.errors import InvalidInput, unknown

JsonObject = dict[str, Any]
"""A JSON object of ours."""


def leave_out(form: Mapping[str, object], **defaults: object) -> JsonObject:
    """Return a form without the keys that are at their defaults.

    >>> leave_out({"epsilon": 1.0, "delta": 0.0}, delta=0.0)
    {'epsilon': 1.0}
    """
    return {key: value for key, value in form.items() if key not in defaults or value != defaults[key]}


def read_form(what: str, data: object, keys: Sequence[str] = (), version: int = 1, **defaults: object) -> JsonObject:
    """Return a form with its defaults filled in; refuse another version, an unknown key or a missing one. No value is quoted.

    >>> read_form("a promise", {"epsilon": 1.0}, ["epsilon"], delta=0.0)
    {'delta': 0.0, 'epsilon': 1.0}
    >>> read_form("a promise", {"version": 2, "epsilon": 1.0}, ["epsilon"])
    Traceback (most recent call last):
    ...
    halflife.errors.InvalidInput: a promise of version 2 was written by a newer halflife: this one reads version 1, update it
    """
    if not isinstance(data, Mapping):
        raise InvalidInput(f"{what} must be a JSON object with {', '.join((*keys, *defaults))}")
    check_version(what, data, version)
    for key in data:
        if key not in (*keys, *defaults, "version"):
            raise unknown(f"key of {what}", key, (*keys, *defaults))
    for key in keys:
        if key not in data:
            raise InvalidInput(f"{what} lacks its {key}")
    return {**defaults, **{key: value for key, value in data.items() if key != "version"}}


def forms_agree(one: object, two: object, tolerance: float) -> bool:
    """Return whether two forms hold the same, but for doubles that differ by such a part of the larger at most.

    Machines with other vector instructions find other last bits of an exponential, so two that work out one account may differ.

    >>> forms_agree({"sum": [1.0, 2]}, {"sum": [1.0 + 1e-15, 2]}, 1e-9), forms_agree([1.0, 2], [1.0, 3], 1e-9)
    (True, False)
    """
    if isinstance(one, float) and isinstance(two, float):
        return one == two or math.isclose(one, two, rel_tol=tolerance)
    if isinstance(one, Mapping) and isinstance(two, Mapping):
        return one.keys() == two.keys() and all(forms_agree(one[key], two[key], tolerance) for key in one)
    if isinstance(one, list | tuple) and isinstance(two, list | tuple):
        return len(one) == len(two) and all(forms_agree(a, b, tolerance) for a, b in zip(one, two, strict=True))
    return one == two


def check_version(what: str, data: Mapping[str, object], version: int = 1) -> None:
    """Refuse a form of another version than 1 … `version`; one that says none is of version 1."""
    found = data.get("version", 1)
    if type(found) is not int or found < 1:
        raise InvalidInput(f"the version of {what} must be a whole number from 1 on")
    if found > version:
        raise InvalidInput(
            f"{what} of version {found} was written by a newer halflife: this one reads version {version}, update it"
        )
