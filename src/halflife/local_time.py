"""Local time: zones by name, what their clocks show, and which calendar month that lies in.

Moments are whole microseconds since 1970 in UTC (`us`); a local time is what a clock shows, in µs as if it were UTC. A month is a
whole number, counted from January 1970, which is 0, of the Gregorian calendar, whose 4,800 months of 400 years repeat for ever.
"""

from __future__ import annotations

import datetime
import difflib
import re
from collections.abc import Container, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from zoneinfo import ZoneInfo

import numpy as np

from halflife.errors import InvalidInput
from halflife.numerics.arrays import Floats, Integers

SECOND = 1_000_000
DAY = 86_400 * SECOND
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
YEARS = (1900, 2200)
"""Of the times in a policy: the calendar's own limits stay far away from any arithmetic."""

EARLIEST, LATEST = -62_000_000_000 * SECOND, 253_000_000_000 * SECOND
"""Some years within the years 1 and 9999, which is as far as `datetime` goes."""
FOREVER = 2**62

MONTH = 365 * DAY // 12
"""About how long a month is, in µs: twelve are a year of 365 days."""
MOST_MONTHS = 120
_MONTHS = {"month": 1, "months": 1, "year": 12, "years": 12}

Piece = tuple[int, int]
"""(from, add): from this moment on, until the next piece's, so much is added."""


def to_us(moment: datetime.datetime) -> int:
    """Return a datetime with a zone as µs since 1970.

    >>> to_us(datetime.datetime(1970, 1, 1, 0, 0, 1, tzinfo=datetime.UTC))
    1000000
    """
    return (moment - EPOCH) // datetime.timedelta(microseconds=1)


def from_us(us: int, zone: str = "UTC") -> datetime.datetime:
    """Return µs since 1970 as a datetime in a zone."""
    return (EPOCH + datetime.timedelta(microseconds=us)).astimezone(find_zone(zone))


@lru_cache(maxsize=64)
def find_zone(name: str) -> datetime.tzinfo:
    """Return a zone by its name, or refuse it.

    >>> find_zone("Europe/Lundon")
    Traceback (most recent call last):
    ...
    halflife.errors.InvalidInput: unknown zone 'Europe/Lundon': did you mean 'Europe/London'? Give a name such as ...
    """
    if name.upper() == "UTC":
        return datetime.UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        from zoneinfo import available_timezones

        known = available_timezones()
        near = difflib.get_close_matches(name, known, n=1)
        hint = f" did you mean {near[0]!r}?" if near else ""
        cities = _cities_on(name, known)
        if cities:
            hint = f" it is what clocks show in {', '.join(cities)} and elsewhere, part of the year or all of it: name a city."
        raise InvalidInput(f"unknown zone {name!r}:{hint} Give a name such as UTC or Europe/Berlin") from None


CITIES = (
    "Europe/London", "Europe/Berlin", "Europe/Paris", "Europe/Madrid", "Europe/Athens", "Europe/Moscow", "America/New_York",
    "America/Chicago", "America/Denver", "America/Los_Angeles", "America/Sao_Paulo", "Africa/Lagos", "Africa/Johannesburg",
    "Africa/Nairobi", "Asia/Kolkata", "Asia/Shanghai", "Asia/Tokyo", "Asia/Singapore", "Australia/Sydney", "Australia/Perth",
    "Pacific/Auckland",
)  # fmt: skip
"""Large cities, one or more for each common abbreviation of a zone."""


def _cities_on(abbreviation: str, known: Container[str]) -> list[str]:
    """Return cities whose clocks are on a zone of this abbreviation in January or July, such as CEST.

    >>> _cities_on("CEST", CITIES), _cities_on("PDT", CITIES)
    (['Europe/Berlin', 'Europe/Paris', 'Europe/Madrid'], ['America/Los_Angeles'])
    """
    seasons = [datetime.datetime(2026, month, 1, tzinfo=datetime.UTC) for month in (1, 7)]
    return [
        city
        for city in CITIES
        if city in known and abbreviation.upper() in [moment.astimezone(ZoneInfo(city)).tzname() for moment in seasons]
    ]


def parse_time(text: str, zone: str = "UTC") -> datetime.datetime:
    """Read 2026-01-31, 2026-01-31T13:30 or 2026-01-31T13:30+01:00; without an offset it is local time in `zone`.

    A local time that the clock repeats is its first pass; one that it skips is read with the offset before.

    >>> parse_time("2013-07-01", "Europe/London").isoformat()
    '2013-07-01T00:00:00+01:00'
    """
    try:
        moment = datetime.datetime.fromisoformat(str(text).strip())
    except ValueError:
        raise InvalidInput(f"{text!r} is no date: write it as 2026-01-31, or with a time as 2026-01-31T13:30") from None
    if not YEARS[0] <= moment.year < YEARS[1]:
        raise InvalidInput(f"{text!r} lies outside the years {YEARS[0]} to {YEARS[1] - 1}")
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=find_zone(zone))


@lru_cache(maxsize=64)
def offset_at(us: int, zone: datetime.tzinfo) -> int:
    """Return how far a zone's clock is ahead of UTC at a moment, in µs."""
    held = max(EARLIEST, min(LATEST, us))
    offset = (EPOCH + datetime.timedelta(microseconds=held)).astimezone(zone).utcoffset()
    assert offset is not None
    return offset // datetime.timedelta(microseconds=1)


@lru_cache(maxsize=64)
def offsets(zone: str, first_us: int, last_us: int) -> tuple[Piece, ...]:
    """Return (from, offset) of a zone over a stretch of time, the first piece from before all time.

    Each day's offset is looked at, and a change within a day found to the second.

    >>> a, b = (to_us(parse_time(t)) for t in ("2013-02-01", "2013-06-01"))
    >>> [(str(from_us(us))[:16], add // SECOND) for us, add in offsets("Europe/London", a, b)[1:]]
    [('2013-03-31 01:00', 3600)]
    """
    place = find_zone(zone)
    at, offset = first_us, offset_at(first_us, place)
    pieces = [(-(2**62), offset)]
    while at < last_us:
        later = min(at + DAY, last_us)
        new = offset_at(later, place)
        if new != offset:
            low, high = at // SECOND, -(-later // SECOND)  # the change lies in (low, high], in seconds
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (low, middle) if offset_at(middle * SECOND, place) == new else (middle, high)
            pieces.append((high * SECOND, new))
            offset = new
        at = later
    return tuple(pieces)


@lru_cache(maxsize=64)
def skipped_days(zone: str) -> tuple[Piece, ...]:
    """Return (from, days): the moments at which a zone's calendar skipped whole days, and how many.

    A zone that has crossed the date line stays on its new side, so comparing the offsets of every month finds the change.

    >>> [(str(from_us(us))[:16], days) for us, days in skipped_days("Pacific/Apia")]
    [('2011-12-30 10:00', 1)]
    """
    place = find_zone(zone)
    first, last = (to_us(datetime.datetime(year, 1, 1, tzinfo=datetime.UTC)) for year in YEARS)
    seen = [(at, offset_at(at, place)) for at in range(first, last + 30 * DAY, 30 * DAY)]
    jumps = [(at, later) for (at, old), (later, new) in pairwise(seen) if new - old > DAY // 2]
    changes = (change for stretch in jumps for change in pairwise(offsets(zone, *stretch)))
    found = ((at, (at + new) // DAY - -(-(at + old) // DAY)) for (_, old), (at, new) in changes)
    return tuple((at, days) for at, days in found if days > 0)


def naive_to_utc(zone: str, first_us: int, last_us: int) -> tuple[Piece, ...]:
    """Return (from, add) pieces that turn a local clock's µs into UTC's.

    An hour that the clock repeats is taken as its first pass; one that it skips, as the old offset has it: what
    `datetime` does with fold=0.
    """
    known = offsets(zone, first_us - 2 * DAY, last_us + 2 * DAY)
    pieces = [(known[0][0], -known[0][1])]
    for (_, old), (change, new) in pairwise(known):
        pieces.append((change + max(old, new), -new))
    return tuple(pieces)


def first_moments(local: Integers, pieces: Sequence[Piece]) -> Integers:
    """Return when a clock first shows these local times, or times after them: inf{u : u + offset(u) ≥ x}.

    >>> first_moments(np.array([90, 150]), ((-1000, 60), (50, 0))).tolist()     # at 50 the clock goes from 110 back to 50
    [30, 150]
    """
    result = np.full(local.shape, FOREVER)
    for (at, offset), (later, _) in reversed(list(pairwise((*pieces, (FOREVER, 0))))):
        moment = np.maximum(at, local - offset)
        result = np.where(moment < later, moment, result)
    return result


def last_moments(local: Integers, pieces: Sequence[Piece]) -> Integers:
    """Return until when a clock shows times before these local ones: sup{u : u + offset(u) < x}.

    >>> last_moments(np.array([90, 150]), ((-1000, 60), (50, 0))).tolist()
    [90, 150]
    """
    result = np.full(local.shape, -FOREVER)
    for (at, offset), (later, _) in pairwise((*pieces, (FOREVER, 0))):
        moment = np.minimum(later, local - offset)
        result = np.where(moment > at, moment, result)
    return result


def month_of(local: int) -> int:
    """Return the month that a local time lies in.

    >>> month_of(-1), month_of(0), month_of(365 * DAY)
    (-1, 0, 12)
    """
    return int(np.datetime64(local, "us").astype("datetime64[M]").astype(np.int64))


def first_of_months(months: Integers) -> Integers:
    """Return the local midnights that begin these months.

    >>> (first_of_months(np.array([-1, 0, 1, 2])) // DAY).tolist()
    [-31, 0, 31, 59]
    """
    return months.astype("datetime64[M]").astype("datetime64[us]").astype(np.int64)


def days_in_months(months: int) -> tuple[int, int]:
    """Return how many days so many months in a row have, at least and at most.

    >>> days_in_months(1), days_in_months(2), days_in_months(12)
    ((28, 31), (59, 62), (365, 366))
    """
    firsts = first_of_months(np.arange(4_800 + months)) // DAY
    lengths = firsts[months:] - firsts[:4_800]
    return int(lengths.min()), int(lengths.max())


def parse_months(text: str) -> int | None:
    """Read a stretch of calendar months as people write it; None if it is not given in months or years.

    >>> parse_months("1 month"), parse_months("2 years"), parse_months("0.5 years"), parse_months("30 days")
    (1, 24, 6, None)
    """
    match = re.fullmatch(r"\s*(\d{1,9}(?:\.\d{0,9})?|\.\d{1,9})\s*([a-z]+)\s*", str(text).lower())
    if match is None or match[2] not in _MONTHS:
        return None
    months = Fraction(match[1]) * _MONTHS[match[2]]
    if months.denominator != 1 or not 0 < months <= MOST_MONTHS:
        raise InvalidInput(f"{text!r} is no width of time here: it must be whole months, and at most ten years")
    return int(months)


def say_months(months: int) -> str:
    """Return so many months in words.

    >>> say_months(1), say_months(3), say_months(12), say_months(24)
    ('1 month', '3 months', '1 year', '2 years')
    """
    count, unit = (months // 12, "year") if months % 12 == 0 else (months, "month")
    return f"{count} {unit}{'' if count == 1 else 's'}"


def local_days(moments: Sequence[int], zone: str) -> Floats:
    """Return moments, in µs since 1970, as a zone's clocks show them, in days since Monday, 5 January 1970.

    >>> local_days([1_372_635_000_000_000], "Europe/London") % 1 * 24      # half past midnight in summer
    array([0.5])
    """
    us = np.array(moments, dtype=np.int64)
    if not len(us):
        return np.zeros(0)
    pieces = offsets(zone, int(us.min()), int(us.max()))
    found = np.searchsorted([at for at, _ in pieces], us, side="right") - 1
    shown = us + np.array([add for _, add in pieces])[found]
    days: Floats = (shown // DAY - 4) + (shown % DAY) / DAY
    return days
