"""A question's public lists as tables that engines join: who counts, where and with which weight; and the groups."""

from __future__ import annotations

from typing import Any

from halflife.engines.arrow import make_table
from halflife.engines.base import Question


def public_tables(question: Question) -> dict[str, Any]:
    """Return `people` (id, number i of the person, group g, weight w) and `names` of groups with their places g, where needed."""
    q, tables = question, {}
    if q.lists_people:
        of_units = dict.fromkeys((q.units or {}).values())
        first = q.table if q.table is not None else q.weights if q.weights is not None else of_units
        known = {p: i for i, p in enumerate(p for p in first if q.weights is None or p in q.weights)}
        whose = {p: p for p in known} if q.units is None else {id_: p for id_, p in q.units.items() if p in known}
        numbers = {
            "i": [known[p] for p in whose.values()],
            "g": [0 if q.table is None else q.table[p] for p in whose.values()],
            "w": [1 if q.weights is None else q.weights[p] for p in whose.values()],
        }
        tables["people"] = make_table(list(whose), numbers)
    if q.table is None and q.group is not None:
        tables["names"] = make_table(q.groups, {"g": range(len(q.groups))})
    return tables
