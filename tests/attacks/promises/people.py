"""Readings of a few people, and all that one of them may have had instead: extreme, clipped, missing, doubled, elsewhere."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from attacks.promises.towns import PEOPLE
from halflife.engines import open_source
from halflife.policy import Channel

Totals = NDArray[np.int64]


class Reading(NamedTuple):
    """When within its step (a part of it), how much, and in which group."""

    part: float
    value: float | None
    group: str | None = None


Move = tuple[Reading, ...]
"""One person's readings in one step."""
Series = Sequence[Move]
"""One person's readings, step by step."""
Row = tuple[str, int, float | None, str | None]
JUNK = (math.nan, math.inf, -math.inf, None)


class Bounds(NamedTuple):
    """What a statistic counts, in its own unit: from the policy's text."""

    low: float
    high: float
    unit: float


def bounds_of(channel: Channel) -> Bounds:
    statistic = channel.part.statistic
    if statistic.kind == "count":
        return Bounds(0.0, 1.0, 1.0)
    ends = statistic.edges or statistic.clip or statistic.clip_readings or ["0", "1"]
    return Bounds(float(Fraction(ends[0])), float(Fraction(ends[-1])), float(Fraction(statistic.resolution or "1")))


def random_value(rng: random.Random, b: Bounds) -> float:
    """A reading: at a bound, beyond it, far beyond it, between, on the lattice, off it, half-way."""
    kind = rng.randrange(8)
    if kind == 0:
        return rng.choice([b.low, b.high])
    if kind == 1:
        return rng.choice([b.low - 3 * b.unit, b.high + 3 * b.unit])
    if kind == 2:
        return rng.choice([-1e9, 1e9, 1e300, -1e300])
    if kind == 3:
        return 0.0
    inside = rng.uniform(b.low, b.high)
    on = round(inside / b.unit) * b.unit
    return (inside, on, on + b.unit / 2, on + b.unit * 0.49)[kind - 4]


def random_move(rng: random.Random, b: Bounds, groups: Sequence[str]) -> Move:
    """What one person has in one step: nothing, a reading, several, at one moment or in several groups, and rubbish."""
    kind = rng.choice(["none", "one", "one", "one", "several", "doubled", "everywhere", "rubbish"])
    places: Sequence[str | None] = [*groups, "nowhere", None] if groups else [None]
    if kind == "none":
        return ()
    if kind == "one":
        return (Reading(rng.choice([0.0, 0.5, 0.999]), random_value(rng, b), rng.choice(places)),)
    if kind == "several":
        return tuple(Reading(p, random_value(rng, b), rng.choice(places)) for p in (0.1, 0.5, 0.9))
    if kind == "doubled":
        return tuple(Reading(0.5, random_value(rng, b), rng.choice(places)) for _ in range(3))
    if kind == "everywhere":
        return tuple(Reading(0.5, random_value(rng, b), g) for g in (groups or [None]))
    return (
        *(Reading(0.5, x, rng.choice(places)) for x in JUNK),
        Reading(0.6, random_value(rng, b), rng.choice(places)),
    )


def extreme_moves(b: Bounds, groups: Sequence[str], most: int) -> list[Move]:
    """The least and the most that a person can count as, in the first groups and in the last ones; nothing at all."""
    first, last = (groups[:most], groups[-most:]) if groups else ([None], [None])
    return [
        (),
        tuple(Reading(0.5, 1e9, g) for g in first),
        tuple(Reading(0.5, -1e9, g) for g in first),
        tuple(Reading(0.5, 1e9, g) for g in last),
        tuple(Reading(0.5, -1e9, g) for g in last),
    ]


def rows_of(channel: Channel, person: str, series: Series) -> list[Row]:
    """A person's readings as rows, at their moments."""
    rows: list[Row] = []
    for k, move in enumerate(series, start=1):
        start, end = channel.steps.start(k), channel.steps.end(k)
        rows += [(person, start + int((end - start - 1) * r.part), r.value, r.group) for r in move]
    return rows


def frame_of(channel: Channel, rows: Sequence[Row]) -> pl.DataFrame:
    """Rows as a frame with the policy's columns."""
    source = channel.part.source
    assert source is not None
    people, us, values, groups = zip(*rows, strict=True) if rows else ((), (), (), ())
    columns: dict[str, Any] = {
        source.person or channel.person: pl.Series(people, dtype=pl.String),
        source.time: pl.Series(us, dtype=pl.Int64).cast(pl.Datetime("us", "UTC")),
    }
    if source.value is not None:
        columns[source.value] = pl.Series(values, dtype=pl.Float64)
    if source.group is not None:
        columns[source.group] = pl.Series(groups, dtype=pl.String)
    return pl.DataFrame(columns)


def exact_totals(channel: Channel, rows: Sequence[Row], steps: int) -> Totals:
    """(steps × cells) what the real engine makes of these rows, with what all who are missing count as."""
    answer = open_source(frame_of(channel, rows)).aggregate(channel.question(1, steps))
    return channel.totals(answer.sums, 1)


def other_people(rng: random.Random, channel: Channel, steps: int, attacked: str) -> list[Row]:
    """Rows of some of the others."""
    b = bounds_of(channel)
    rows = []
    for person in [p for p in PEOPLE if p != attacked][: rng.randint(0, 3)]:
        rows += rows_of(channel, person, [random_move(rng, b, channel.groups) for _ in range(steps)])
    return rows


def choose_person(rng: random.Random) -> str:
    """Whom to attack: the first, or the one of the largest weight."""
    return rng.choice([PEOPLE[0], PEOPLE[3], PEOPLE[1]])
