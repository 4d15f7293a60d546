"""Steps in wall-clock terms: widths such as 30 min, 1 h or a local day, and which step a moment belongs to.

Moments are whole microseconds since 1970 in UTC (`us`). With a fixed width W and a start s, step k is
[s + (k−1)·W, s + k·W), so step(us) = ⌊(us − s)/W⌋ + 1. A step of local days follows the calendar of a zone, where a day has
23 or 25 hours twice a year: with o(us) the zone's offset, step(us) = ⌊(us + o(us) − s′)/W⌋ + 1, s′ the local midnight
of the start. o is constant between the zone's changes, so every engine computes steps with whole numbers alone.

A step is one stretch of time. Where a clock goes back over midnight (Newfoundland did, from 00:01 to 23:01), the minute
of the new day that came first belongs to the old day, which is over when midnight comes for the last time. Where a zone
changed sides of the date line and left a day out (Samoa had no 30 December 2011), that day has no number: a step has a
length, and is about somebody's time.
"""

from __future__ import annotations

import datetime
import difflib
import re
from collections.abc import Container
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from zoneinfo import ZoneInfo

import numpy as np

from halflife.errors import InvalidInput
from halflife.numerics.arrays import Integers
from halflife.numerics.forms import JsonObject, leave_out, read_form

SECOND = 1_000_000
DAY = 86_400 * SECOND
LONGEST = 3660 * DAY
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
MOST_STEPS = 10**9
YEARS = (1900, 2200)
"""Of the times in a policy: the calendar's own limits stay far away from any arithmetic."""

EARLIEST, LATEST = -62_000_000_000 * SECOND, 253_000_000_000 * SECOND
"""A few days within the years 1 and 9999, which is as far as `datetime` goes."""

_SECONDS = {
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1),
    **dict.fromkeys(("min", "mins", "minute", "minutes"), 60),
    **dict.fromkeys(("h", "hour", "hours"), 3600),
    **dict.fromkeys(("d", "day", "days"), 86_400),
    **dict.fromkeys(("w", "week", "weeks"), 604_800),
}

Piece = tuple[int, int]
"""(from, add): from this moment on, until the next piece's, so much is added."""


def parse_width(text: str) -> datetime.timedelta:
    """Read a width as people write it.

    >>> parse_width("30 min"), parse_width("1 day"), parse_width("1.5h")
    (datetime.timedelta(seconds=1800), datetime.timedelta(days=1), datetime.timedelta(seconds=5400))
    """
    match = re.fullmatch(r"\s*(\d{1,9}(?:\.\d{0,9})?|\.\d{1,9})\s*([a-z]+)\s*", str(text).lower())
    if match is None or match[2] not in _SECONDS:
        near = difflib.get_close_matches(match[2], _SECONDS, n=1) if match else []
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        raise InvalidInput(
            f"{text!r} is no width of time{hint}: write a number and s, min, h, day or week, such as '30 min'"
        )
    us = Fraction(match[1]) * _SECONDS[match[2]] * SECOND
    if us.denominator != 1 or not 0 < us <= LONGEST:
        raise InvalidInput(f"{text!r} is no width of time here: it must be whole µs, above 0 and at most ten years")
    return datetime.timedelta(microseconds=int(us))


def microseconds(width: datetime.timedelta) -> int:
    """Return a width in µs."""
    return width // datetime.timedelta(microseconds=1)


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
def _offset(us: int, zone: datetime.tzinfo) -> int:
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
    at, offset = first_us, _offset(first_us, place)
    pieces = [(-(2**62), offset)]
    while at < last_us:
        later = min(at + DAY, last_us)
        new = _offset(later, place)
        if new != offset:
            low, high = at // SECOND, -(-later // SECOND)  # the change lies in (low, high], in seconds
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (low, middle) if _offset(middle * SECOND, place) == new else (middle, high)
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
    seen = [(at, _offset(at, place)) for at in range(first, last + 30 * DAY, 30 * DAY)]
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


@dataclass(frozen=True)
class Buckets:
    """How an engine finds a moment's step: ⌊(us + add)/width⌋ + 1, with `add` of the piece that the moment lies in."""

    width: int
    pieces: tuple[Piece, ...]

    def step(self, us: int) -> int:
        """Return the step of a moment.

        >>> Buckets(10, ((-100, 0),)).step(25)
        3
        """
        add = next(a for start, a in reversed(self.pieces) if us >= start)
        return (us + add) // self.width + 1


@dataclass(frozen=True)
class Steps:
    """The time grid of a stream: when step 1 starts, how wide a step is, and the time zone.

    `days` above 0 makes steps of so many local days, of those that there were; else `width` µs each.

    >>> march = Steps.of("1 day", "2013-03-30", "Europe/London")
    >>> [(march.end(k) - march.start(k)) // (3600 * SECOND) for k in (1, 2, 3)]
    [24, 23, 24]
    """

    start_us: int
    width: int
    days: int
    zone: str

    @classmethod
    def of(cls, width: str, start: str | datetime.datetime, zone: str = "UTC") -> Steps:
        """Read a width and a start; whole days and weeks in a zone with changing clocks are local days."""
        span = parse_width(width)
        moment = parse_time(start, zone) if isinstance(start, str) else start
        place = find_zone(zone)
        if span % datetime.timedelta(days=1) or zone.upper() == "UTC":
            return cls(to_us(moment), microseconds(span), 0, zone)
        local = moment.astimezone(place)
        steps = cls(to_us(moment), microseconds(span), span.days, zone)
        begin = steps.start(1)
        if begin != steps.start_us and local.time() != datetime.time():
            raise InvalidInput(f"a step of local days starts at midnight in {zone}, not at {local.isoformat()}")
        return replace(steps, start_us=begin)

    def to_facts(self) -> JsonObject:
        """Return the form that ledgers keep: when step 1 starts (µs since 1970), the width in µs, whole days, the zone."""
        form = {"start_us": self.start_us, "width_us": self.width, "days": self.days, "zone": self.zone}
        return leave_out(form, days=0, zone="UTC")

    @classmethod
    def from_facts(cls, data: object) -> Steps:
        """Read what `to_facts` gave.

        >>> Steps.from_facts(Steps.of("1 h", "1970-01-02").to_facts())
        Steps(start_us=86400000000, width=3600000000, days=0, zone='UTC')
        """
        form = read_form("a clock", data, ("start_us", "width_us"), days=0, zone="UTC")
        start, width, days, zone = form["start_us"], form["width_us"], form["days"], form["zone"]
        if not all(type(n) is int for n in (start, width, days)) or not (0 < width <= LONGEST and days >= 0):
            raise InvalidInput(f"a clock has a start, a width above 0 and days in whole numbers, not {data!r}")
        if not isinstance(zone, str):
            raise InvalidInput(f"the zone of a clock must be a name, not {zone!r}")
        find_zone(zone)
        return cls(start, width, days, zone)

    def phase(self, step: int, period: int) -> int:
        """Return the phase of a step, 0 … period − 1, by the wall clock: `period` steps are whole days, and steps divide a day.

        A day of 23 hours lacks some phases, one of 25 has some twice. A clock that changes by a part of a step would put steps
        across others of the day before, which is refused.

        >>> october = Steps.of("1 h", "2026-10-25", "Europe/London")  # 01:00 comes twice
        >>> [october.phase(k, 24) for k in (1, 2, 3, 4, 26)]
        [0, 1, 1, 2, 0]
        """
        begin = self.start_us + (step - 1) * self.width
        if not EARLIEST <= begin <= LATEST:
            raise InvalidInput(f"step {step} lies beyond the calendar")
        place = find_zone(self.zone)
        shown, first = (us + _offset(us, place) for us in (begin, self.start_us))
        if (shown - first) % self.width:
            raise InvalidInput(
                f"step {step} begins at {from_us(begin, self.zone).isoformat()}, across two steps of the day before: take steps "
                f"that divide the changes of {self.zone}'s clocks"
            )
        day, time = divmod(shown, DAY)
        a_day = DAY // self.width
        return (day + EPOCH.toordinal() - 1) % (period // a_day) * a_day + time // self.width

    @property
    def _origin(self) -> int:
        """The local midnight that begins the first day, in µs as if it were UTC, also where the clock skips it."""
        local = from_us(self.start_us, self.zone)
        return to_us(datetime.datetime.combine(local.date(), datetime.time(), datetime.UTC))

    def start(self, step: int) -> int:
        """Return when a step starts, in µs."""
        return int(self.edges(step, step)[0])

    def end(self, step: int) -> int:
        """Return when a step is over, in µs: its end is not part of it."""
        return int(self.edges(step, step)[1])

    def step(self, us: int) -> int:
        """Return the step that a moment lies in; 0 and less before the start."""
        return self.buckets(us, us).step(us)

    def last_over(self, us: int) -> int:
        """Return the newest step that is over at this moment, 0 or less if none is."""
        return self.step(us) - 1

    def buckets(self, first_us: int, last_us: int) -> Buckets:
        """Return the arithmetic of steps for moments in a stretch of time."""
        if not self.days:
            return Buckets(self.width, ((-(2**62), -self.start_us),))
        origin, earliest = self._origin, first_us - 2 * DAY
        pieces: list[Piece] = []
        for at, offset in offsets(self.zone, earliest, last_us + 2 * DAY):
            add = offset - origin - DAY * self._days_skipped_by(max(at, earliest))
            begin, before = at, pieces[-1][1] if pieces else add
            if add < before:  # the clock goes back, from at + before; over a midnight if one lies strictly between
                midnight = (at + before) // self.width * self.width
                if midnight > at + add:
                    begin = midnight - before
            pieces.append((begin, add))
        return Buckets(self.width, tuple(pieces))

    def _days_skipped_by(self, us: int) -> int:
        """Return how many calendar days the zone skipped between the start and a moment; below 0 for one before the start."""
        known = skipped_days(self.zone)
        return sum(days for at, days in known if at <= us) - sum(days for at, days in known if at <= self.start_us)

    def edges(self, first: int, last: int) -> Integers:
        """Return when steps first … last start, and when the last is over.

        Step k of local days starts at the first moment of a piece with moment + add ≥ (k − 1)·W.

        >>> Steps.of("1 h", "1970-01-01").edges(1, 2) // (3600 * SECOND)
        array([0, 1, 2])
        """
        begin, end = (self.start_us + k * self.width for k in (first - 1, last))
        if not EARLIEST <= begin <= end <= LATEST:
            raise InvalidInput(f"step {last if end > LATEST else first} lies beyond the calendar")
        local = np.arange(first - 1, last + 1, dtype=np.int64) * self.width
        if not self.days:
            return self.start_us + local
        pieces = self.buckets(begin, end).pieces
        result = local - pieces[-1][1]
        for (at, add), (later, _) in reversed(list(pairwise(pieces))):
            result = np.where(local - add < later, np.maximum(at, local - add), np.maximum(later, result))
        return result
