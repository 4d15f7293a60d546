"""Neighbouring populations for an audit: a few ordinary people, and one whose readings are as the audit needs them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halflife.audit.policy.path import Row, totals_of
from halflife.policy import Channel

VARIANTS = ("most", "least", "none", "hostile")


def neighbour_totals(channel: Channel, variant: str, steps: int) -> NDArray[np.int64]:
    """Exact totals (steps × cells) of a small population whose audited person has these readings, by the real engine."""
    if channel.part.source is None:
        return _pushed_totals(channel, variant, steps)
    return totals_of(channel, readings(channel, variant, steps), 1, steps)


def _pushed_totals(channel: Channel, variant: str, steps: int) -> NDArray[np.int64]:
    """A program pushes these: its first number moves by as much as the policy allows."""
    totals = np.zeros((steps, channel.cells), dtype=np.int64)
    totals[:, 0] = channel.sensitivity.l1 if variant == "most" else 0
    return totals


def readings(channel: Channel, variant: str, steps: int) -> list[Row]:
    """Readings of three ordinary people and the audited one."""
    people = people_of(channel)
    rows: list[Row] = []
    groups = channel.groups or ("",)
    for k in range(1, steps + 1):
        middle = (channel.steps.start(k) + channel.steps.end(k)) // 2
        rows += [(p, middle, value_at(channel, 0.5), groups[0]) for p in people[1:]]
        rows += [(people[0], at, x, g) for at, x, g in _audited(channel, variant, middle)]
    return rows


def people_of(channel: Channel) -> list[str]:
    """The audited person first: the one of largest weight, where weights are public."""
    known = list(channel.weights or channel.table or {})
    if channel.table is not None and channel.weights is not None:
        known = [p for p in known if p in channel.table]
    if channel.weights is not None:
        known.sort(key=lambda p: -abs((channel.weights or {})[p]))
    return known[:4] if known else ["audited", "one", "two", "three"]


def value_at(channel: Channel, part: float) -> float:
    """A reading that lies this part of the way from the least to the largest that counts."""
    u = channel.units
    units = u["low"] + part * (u["high"] - u["low"])
    return float(units) * float(u.get("divide", 1)) / float(u.get("multiply", 1))


def _audited(channel: Channel, variant: str, us: int) -> Iterator[tuple[int, Any, str]]:
    """The audited person's readings in one step; "most" and "least" are in different groups where groups may change."""
    groups, most = channel.groups or ("",), int(channel.units.get("most_groups", 1))
    if variant == "most":
        yield from ((us, value_at(channel, 1.0), g) for g in groups[:most])
    elif variant == "least":
        yield from ((us, value_at(channel, 0.0 if channel.fixed else 1.0), g) for g in groups[::-1][:most])
    elif variant == "hostile":
        for x in (math.nan, math.inf, -math.inf, None, 1e300, -1e300, value_at(channel, 1.0), value_at(channel, 1.0)):
            yield from ((us, x, g) for g in (*groups[:3], "no such group"))
        yield from ((at, 1e9, groups[0]) for at in (-(2**60), 2**60, us + 1, us + 1))
