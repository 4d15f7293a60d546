"""Secrets by the wall clock: which steps a stretch of time touches, over daylight-saving changes.

A stretch [start, end) becomes J = every step that it touches, outwards, and a duration D becomes T = ⌈D/width⌉ steps.
A value is a mean or a total over its step, so an event that begins within a step changes the values by a mixture of two
placements that begin at its edges, and its loss in ε is at most the worse of theirs. Where a value is a peak or a reading at
one moment that is not so: then write one step more as its duration.

A stretch of local time [x, y) is the smallest stretch that holds every moment at which the clock shows a time in it: where the
clock goes back, from the first pass of x to the second pass of y; where it goes forward, skipped times are no time. A
duration of whole days, or as long as its stretch, goes by the clock too: it is an hour longer when that hour comes twice.
"""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np

from halflife.errors import InvalidInput
from halflife.local_time import DAY, find_zone, first_moments, last_moments, offsets, parse_time, say_months, to_us
from halflife.numerics.arrays import Integers
from halflife.steps import Steps, microseconds, parse_width


class TooShort(InvalidInput):
    """A hiding interval that is shorter than its event."""


def touched_steps(
    begin: Integers, end: Integers, clock: Any, duration: int, steps: Steps
) -> tuple[Integers, Integers, Integers]:
    """Return the first and last step that each stretch [begin, end) touches, and T; steps before 1 are left out.

    clock     how long each stretch is by the clock, in µs
    duration  of the event, in µs
    A stretch that ends before step 1 comes back with a last step below 1. Months are refused: T counts steps of one length.
    """
    if steps.months:
        raise InvalidInput(
            f"it is not worked out how far an event moves steps of {say_months(steps.months)}, whose lengths differ: take steps "
            "of days or weeks"
        )
    first, last = steps.numbers(begin), steps.numbers(end - 1)
    first = np.maximum(first, np.minimum(last, 1))
    real = end - begin
    lasts = np.full(real.shape, duration)
    if not steps.days:  # a local day is one step, however long
        by_clock = (duration % DAY == 0) | (duration >= clock)
        lasts = np.minimum(real, lasts + np.where(by_clock, np.maximum(0, real - clock), 0))
    return first, last, np.minimum(-(-lasts // steps.width), last - first + 1)


def read_duration(duration: str | datetime.timedelta) -> int:
    """Return how long an event lasts, in µs.

    >>> read_duration("30 min")
    1800000000
    """
    span = duration if isinstance(duration, datetime.timedelta) else parse_width(duration)
    if span <= datetime.timedelta():
        raise InvalidInput(f"an event must last longer than {span}")
    return microseconds(span)


def read_moment(text: str | datetime.datetime, zone: str | None) -> datetime.datetime:
    """Return a time that carries its offset, or a local one of `zone` without it; with neither it is refused.

    >>> read_moment("2026-02-02T12:00", None)
    Traceback (most recent call last):
    ...
    halflife.errors.InvalidInput: '2026-02-02T12:00' has no zone: write its offset, as in 2026-02-02T12:00+01:00, or give a zone \
such as Europe/Berlin
    """
    if isinstance(text, datetime.datetime):
        moment = text
    else:
        parsed = parse_time(text, "UTC")
        carries = datetime.datetime.fromisoformat(str(text).strip()).tzinfo is not None
        moment = parsed if carries else parsed.replace(tzinfo=None)
    if moment.tzinfo is None and zone is None:
        shown = moment.isoformat(timespec="minutes")
        raise InvalidInput(
            f"{str(text)!r} has no zone: write its offset, as in {shown}+01:00, or give a zone such as Europe/Berlin"
        )
    return moment


def as_utc(moment: datetime.datetime | datetime.date) -> int:
    """Return a local time or day in µs, as if it were UTC."""
    clock = moment.time() if isinstance(moment, datetime.datetime) else datetime.time()
    return to_us(datetime.datetime(moment.year, moment.month, moment.day, tzinfo=datetime.UTC)) + microseconds(
        datetime.datetime.combine(datetime.date.min, clock.replace(tzinfo=None)) - datetime.datetime.min
    )


def _edge(moment: datetime.datetime, zone: str | None, *, end: bool) -> int:
    if moment.tzinfo is not None:
        return to_us(moment)
    assert zone is not None
    local = as_utc(moment)
    pieces = offsets(zone, local - 2 * DAY, local + 2 * DAY)
    return int((last_moments if end else first_moments)(np.array([local]), pieces)[0])


def steps_between(
    start: str | datetime.datetime,
    end: str | datetime.datetime,
    duration: str | datetime.timedelta,
    steps: Steps,
    zone: str | None,
) -> tuple[int, int, int]:
    """Return the first and last step of a hiding interval, and how many steps the event lasts.

    An end is the moment at which it is over: `2026-07-11` hides up to that day's midnight, as `clock.end` of a policy does.

    >>> july = Steps.of("1 day", "2026-07-01", "Europe/Berlin")
    >>> steps_between("2026-07-04", "2026-07-11", "1 week", july, "Europe/Berlin")
    (4, 10, 7)
    """
    if zone is not None:
        find_zone(zone)
    moments = read_moment(start, zone), read_moment(end, zone)
    begin, over = _edge(moments[0], zone, end=False), _edge(moments[1], zone, end=True)
    local = all(moment.tzinfo is None for moment in moments)
    clock = as_utc(moments[1]) - as_utc(moments[0]) if local else over - begin
    lasts = read_duration(duration)
    if clock <= 0 or over <= begin:
        why = "clocks skip all of it" if clock > 0 else "it ends before it starts"
        raise InvalidInput(f"the hiding interval {start} to {end} has no time: {why}")
    if lasts > max(clock, over - begin):
        long = datetime.timedelta(microseconds=max(clock, over - begin))
        raise TooShort(
            f"the hiding interval {start} to {end} is {long} long, shorter than its event ({duration}): widen it, "
            f"or shorten the event; an end is the moment at which it is over"
        )
    first, last, T = (int(x[0]) for x in touched_steps(np.array([begin]), np.array([over]), clock, lasts, steps))
    if last < 1:
        raise InvalidInput(f"the hiding interval {start} to {end} is over before step 1: nothing of it can be hidden")
    return first, last, T
