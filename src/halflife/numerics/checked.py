"""Small files that notice when a byte of them is changed: one line of JSON with the SHA-256 of all else that it says.

It tells an accident, not a forger: whoever can write the file can work its digest out again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from halflife.errors import InvalidInput
from halflife.numerics.forms import JsonObject

KEY = "sha256"


def write_checked(said: Mapping[str, object]) -> str:
    """Return the line for plain data.

    >>> write_checked({"b": 1, "a": 2})[:25]
    '{"a": 2, "b": 1, "sha256"'
    """
    plain = json.dumps(said, sort_keys=True)
    return f'{plain[:-1]}, "{KEY}": "{_digest(said)}"}}\n'


def parse_checked(content: bytes) -> JsonObject:
    """Return what such a line says; refuse one in which anything was changed.

    >>> parse_checked(write_checked({"a": 2}).encode())
    {'a': 2}
    >>> parse_checked(write_checked({"a": 2}).replace("2", "3", 1).encode())
    Traceback (most recent call last):
    ...
    halflife.errors.InvalidInput: its digest is not that of what it says
    """
    try:
        said = json.loads(content)
    except (ValueError, RecursionError):
        raise InvalidInput("it is not JSON") from None
    if not isinstance(said, dict) or KEY not in said:
        raise InvalidInput("it holds no digest of itself")
    found = said.pop(KEY)
    if found != _digest(said) or write_checked(said).encode() != content:
        raise InvalidInput("its digest is not that of what it says")
    return said


def _digest(said: Mapping[str, object]) -> str:
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()
