"""Where the policy that a ledger was begun with differs from another."""

from __future__ import annotations

import json
from typing import Any


def first_difference(key: str, old: str | None, new: str | None) -> str:
    """Name the first part in which two JSON texts differ.

    >>> first_difference("policy", '{"a": {"b": 1}}', '{"a": {"b": 2}}')
    'policy.a.b was 1 and is now 2'
    """

    def walk(where: str, a: Any, b: Any) -> str | None:
        if isinstance(a, dict) and isinstance(b, dict):
            found = (walk(f"{where}.{k}", a.get(k), b.get(k)) for k in sorted(set(a) | set(b)))
            return next((f for f in found if f), None)
        if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
            found = (walk(f"{where}.{i}", x, y) for i, (x, y) in enumerate(zip(a, b, strict=True)))
            return next((f for f in found if f), None)
        return None if a == b else f"{where} was {json.dumps(a)[:60]} and is now {json.dumps(b)[:60]}"

    try:
        return walk(key, json.loads(old or "null"), json.loads(new or "null")) or f"{key} differs"
    except ValueError:
        return f"{key} was {str(old)[:60]} and is now {str(new)[:60]}"
