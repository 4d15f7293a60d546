"""Neighbouring populations for an audit: a few ordinary people, and one whose readings are as the audit needs them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halflife.audit.policy.path import Row, Totals, totals_of
from halflife.engines.base import LARGEST_UNITS
from halflife.numerics.arrays import Floats
from halflife.policy import Channel

VARIANTS = ("most", "least", "none", "hostile")
MOST_READINGS = 100
"""No audited person has more readings in a step."""


def neighbour_totals(channel: Channel, variant: str, steps: int) -> NDArray[np.int64]:
    """Return the exact totals (steps × cells) of a small population with one variant of the audited person, by the engine."""
    if channel.part.source is None:
        return _pushed_totals(channel, variant, steps)
    return totals_of(channel, readings(channel, variant, steps), 1, steps)


def _pushed_totals(channel: Channel, variant: str, steps: int) -> NDArray[np.int64]:
    """A program pushes these: its first number moves by as much as the policy allows."""
    totals = np.zeros((steps, channel.cells), dtype=np.int64)
    totals[:, 0] = channel.sensitivity.l1 if variant == "most" else 0
    return totals


def readings(channel: Channel, variant: str, steps: int) -> list[Row]:
    """Return readings of three ordinary people and the audited one."""
    people = people_of(channel)
    rows: list[Row] = []
    groups = channel.groups or ("",)
    for k in range(1, steps + 1):
        middle = (channel.steps.start(k) + channel.steps.end(k)) // 2
        rows += [(p, middle, value_at(channel, 0.5), groups[0]) for p in people[1:]]
        rows += [(people[0], at, x, g) for at, x, g in _audited_readings(channel, variant, middle)]
    return rows


def people_of(channel: Channel) -> list[str]:
    """Return ids of some people, the audited person first: the one of largest weight, where weights are public."""
    ids = {p: id_ for id_, p in (channel.units or {}).items()}
    known = [p for p in channel.weights or channel.table or ids if not ids or p in ids]
    if channel.table is not None and channel.weights is not None:
        known = [p for p in known if p in channel.table]
    if channel.weights is not None:
        known.sort(key=lambda p: -abs((channel.weights or {})[p]))
    return [ids.get(p, p) for p in known[:4]] if known else ["audited", "one", "two", "three"]


def value_at(channel: Channel, part: float) -> float:
    """Return a reading that lies this part of the way from the least to the largest that counts."""
    measure = channel.measure
    return (measure.low + part * (measure.high - measure.low)) * float(measure.resolution)


def reach_of_person(channel: Channel) -> tuple[int, int]:
    """Return the least and the largest an audited person counts as, in units: the clip, as far as `clip_readings` lets them.

    Readings on both sides of 0 that are added up come to anything between; else one reading is all that is needed.
    """
    low, high, (least, most) = channel.measure.low, channel.measure.high, _bounds_of_readings(channel)
    if channel.measure.kind == "events":
        return low, min(high, MOST_READINGS)
    n = MOST_READINGS if channel.part.statistic.fold == "sum" and least <= 0 <= most else 1
    return min(max(low, n * least), high), max(min(high, n * most), low)


def split_units(channel: Channel, units: int) -> list[float]:
    """Return readings of one step that come to so many units, as few as `clip_readings` leaves as they are."""
    if channel.measure.kind == "events":
        return [1.0] * units
    bound = _bounds_of_readings(channel)[units > 0]
    n = max(1, -(-units // bound)) if channel.part.statistic.fold == "sum" and bound else 1
    return [(units // n + (i < units % n)) * float(channel.measure.resolution) for i in range(n)]


def _bounds_of_readings(channel: Channel) -> tuple[int, int]:
    return channel.measure.readings or (-LARGEST_UNITS, LARGEST_UNITS)


def _audited_readings(channel: Channel, variant: str, us: int) -> Iterator[tuple[int, Any, str]]:
    """The audited person's readings in one step; "most" and "least" are in different groups where groups may change."""
    groups, most = channel.groups or ("",), channel.most_groups
    low, high = reach_of_person(channel)
    if variant == "most":
        yield from ((us + i, x, g) for i, x in enumerate(split_units(channel, high)) for g in groups[:most])
    elif variant == "least":
        units = low if channel.fixed else high
        yield from ((us + i, x, g) for i, x in enumerate(split_units(channel, units)) for g in groups[::-1][:most])
    elif variant == "hostile":
        for x in (math.nan, math.inf, -math.inf, None, 1e300, -1e300, value_at(channel, 1.0), value_at(channel, 1.0)):
            yield from ((us, x, g) for g in (*groups[:3], "no such group"))
        yield from ((at, 1e9, groups[0]) for at in (-(2**60), 2**60, us + 1, us + 1))


def distances(channel: Channel, first: Totals, second: Totals) -> Floats:
    """Return how far apart the totals of two populations are at each step, in the norm that the noise needs."""
    moves = (first[channel.name] - second[channel.name]).astype(np.float64)
    norms: Floats = np.abs(moves).sum(axis=1) if channel.plan.noise == "laplace" else np.sqrt((moves**2).sum(axis=1))
    return norms
