"""Steps in wall-clock terms: widths such as 30 min, 1 h, a local day or a month, and which step a moment belongs to.

Moments are whole microseconds since 1970 in UTC (`us`). With a fixed width W and a start s, step k is
[s + (k−1)·W, s + k·W), so step(us) = ⌊(us − s)/W⌋ + 1. A step of local days follows the calendar of a zone, where a day has
23 or 25 hours twice a year: with o(us) the zone's offset, step(us) = ⌊(us + o(us) − s′)/W⌋ + 1, s′ the local midnight
of the start. o is constant between the zone's changes, so every engine computes steps with whole numbers alone.

A step of months begins where the local day does that is the first of its month, b_k. With W′ at least as long as any step,
step(us) = ⌊(us + (k−1)·W′ − b_k)/W′⌋ + 1 for b_k ≤ us < b_{k+1}: the same arithmetic, in which every step is a piece of its own.

A step is one stretch of time. Where a clock goes back over midnight (Newfoundland did, from 00:01 to 23:01), the minute
of the new day that came first belongs to the old day, which is over when midnight comes for the last time. Where a zone
changed sides of the date line and left a day out (Samoa had no 30 December 2011), that day has no number: a step has a
length, and is about somebody's time. A month without its first day begins with the next.
"""

from __future__ import annotations

import datetime
import difflib
import re
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise

import numpy as np

from halflife.errors import InvalidInput
from halflife.local_time import (
    DAY,
    EARLIEST,
    EPOCH,
    LATEST,
    MONTH,
    MOST_MONTHS,
    SECOND,
    Piece,
    days_in_months,
    find_zone,
    first_of_months,
    from_us,
    last_moments,
    month_of,
    offset_at,
    offsets,
    parse_months,
    parse_time,
    say_months,
    skipped_days,
    to_us,
)
from halflife.numerics.arrays import Integers
from halflife.numerics.forms import JsonObject, leave_out, read_form

LONGEST = 3660 * DAY
MOST_STEPS = 10**9

_SECONDS = {
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1),
    **dict.fromkeys(("min", "mins", "minute", "minutes"), 60),
    **dict.fromkeys(("h", "hour", "hours"), 3600),
    **dict.fromkeys(("d", "day", "days"), 86_400),
    **dict.fromkeys(("w", "week", "weeks"), 604_800),
}


def parse_width(text: str) -> datetime.timedelta:
    """Read a width as people write it.

    >>> parse_width("30 min"), parse_width("1 day"), parse_width("1.5h")
    (datetime.timedelta(seconds=1800), datetime.timedelta(days=1), datetime.timedelta(seconds=5400))
    """
    months = parse_months(text)
    if months is not None:
        raise InvalidInput(f"{text!r} is no fixed width of time, which is needed here: write days, or a shorter unit")
    match = re.fullmatch(r"\s*(\d{1,9}(?:\.\d{0,9})?|\.\d{1,9})\s*([a-z]+)\s*", str(text).lower())
    if match is None or match[2] not in _SECONDS:
        near = difflib.get_close_matches(match[2], (*_SECONDS, "month", "year"), n=1) if match else []
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        raise InvalidInput(
            f"{text!r} is no width of time{hint}: write a number and s, min, h, day, week, month or year, such as '30 min'"
        )
    us = Fraction(match[1]) * _SECONDS[match[2]] * SECOND
    if us.denominator != 1 or not 0 < us <= LONGEST:
        raise InvalidInput(f"{text!r} is no width of time here: it must be whole µs, above 0 and at most ten years")
    return datetime.timedelta(microseconds=int(us))


def microseconds(width: datetime.timedelta) -> int:
    """Return a width in µs."""
    return width // datetime.timedelta(microseconds=1)


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

    `days` above 0 makes steps of so many local days, of those that there were; `months`, of so many calendar months, each from
    the first of a month on. `width` is how long each is in µs: days but for changes of the clock, and months about.

    >>> march = Steps.of("1 day", "2013-03-30", "Europe/London")
    >>> [(march.end(k) - march.start(k)) // (3600 * SECOND) for k in (1, 2, 3)]
    [24, 23, 24]
    >>> year = Steps.of("1 month", "2013-01-01", "Europe/London")
    >>> [(year.end(k) - year.start(k)) // (3600 * SECOND) - 24 * 31 for k in (1, 2, 3)]
    [0, -72, -1]
    """

    start_us: int
    width: int
    days: int
    zone: str
    months: int = 0

    @classmethod
    def of(cls, width: str, start: str | datetime.datetime, zone: str = "UTC") -> Steps:
        """Read a width and a start; whole days and weeks in a zone with changing clocks are local days.

        >>> Steps.of("1 month", "2026-01-31")
        Traceback (most recent call last):
        ...
        halflife.errors.InvalidInput: a step of 1 month starts at midnight on the first of a month in UTC, not at \
2026-01-31T00:00:00+00:00, as not every month has a 31st: start at 2026-01-01 or 2026-02-01
        """
        moment = parse_time(start, zone) if isinstance(start, str) else start
        place, months = find_zone(zone), parse_months(width)
        if months is not None:
            return cls(to_us(moment), months * MONTH, 0, zone, months)._begin_with_a_first()
        span = parse_width(width)
        if span % datetime.timedelta(days=1) or zone.upper() == "UTC":
            return cls(to_us(moment), microseconds(span), 0, zone)
        local = moment.astimezone(place)
        steps = cls(to_us(moment), microseconds(span), span.days, zone)
        begin = steps.start(1)
        if begin != steps.start_us and local.time() != datetime.time():
            raise InvalidInput(f"a step of local days starts at midnight in {zone}, not at {local.isoformat()}")
        return replace(steps, start_us=begin)

    def _begin_with_a_first(self) -> Steps:
        """Return steps of months from where their first month begins; refuse a start elsewhere."""
        local, begin = from_us(self.start_us, self.zone), self.start(1)
        if begin != self.start_us and (local.day, local.time()) != (1, datetime.time()):
            month = first_of_months(self._month + np.arange(2))
            near = " or ".join(str(from_us(int(us)).date()) for us in month)
            raise InvalidInput(
                f"a step of {say_months(self.months)} starts at midnight on the first of a month in {self.zone}, not at "
                f"{local.isoformat()}, as not every month has a 31st: start at {near}"
            )
        return replace(self, start_us=begin)

    def same_width(self, other: Steps) -> bool:
        """Return whether steps of both are as long, wherever they begin."""
        return (self.width, self.days, self.months) == (other.width, other.days, other.months)

    def count(self, text: str) -> Fraction:
        """Return how many steps a stretch of time is, as people write it; refuse one that is no fixed number of them.

        A stretch of length D holds all but two of the steps that it touches, so it touches at most ⌈D/shortest⌉ + 1.

        >>> Steps.of("30 min", "2026-01-01").count("1 day"), Steps.of("1 month", "2026-01-01").count("1 year")
        (Fraction(48, 1), Fraction(12, 1))
        >>> Steps.of("1 month", "2026-01-01").count("30 days")
        Traceback (most recent call last):
        ...
        halflife.errors.InvalidInput: 30 days is no fixed number of steps of 1 month, which have 28 to 31 days: write months or \
years; 3 months are as many as 30 days can touch
        """
        months = parse_months(text)
        if months is not None and self.months:
            return Fraction(months, self.months)
        if months is not None:
            least, most = days_in_months(months)
            raise InvalidInput(
                f"{text} is {least} to {most} days, and no fixed number of steps: write days, such as {most} days"
            )
        us = microseconds(parse_width(text))
        if not self.months:
            return Fraction(us, self.width)
        least, most = days_in_months(self.months)
        touched = say_months((-(-us // ((least - 1) * DAY)) + 1) * self.months)  # a clock may skip a day
        raise InvalidInput(
            f"{text} is no fixed number of steps of {say_months(self.months)}, which have {least} to {most} days: write months "
            f"or years; {touched} are as many as {text} can touch"
        )

    def to_facts(self) -> JsonObject:
        """Return the form that ledgers keep: when step 1 starts (µs since 1970), the width in µs or in months, whole days, the
        zone."""
        form = {
            "start_us": self.start_us, "width_us": 0 if self.months else self.width, "days": self.days, "months": self.months,
            "zone": self.zone,
        }  # fmt: skip
        return leave_out(form, width_us=0, days=0, months=0, zone="UTC")

    @classmethod
    def from_facts(cls, data: object) -> Steps:
        """Read what `to_facts` gave.

        >>> Steps.from_facts(Steps.of("1 h", "1970-01-02").to_facts())
        Steps(start_us=86400000000, width=3600000000, days=0, zone='UTC', months=0)
        """
        form = read_form("a clock", data, ("start_us",), width_us=0, days=0, months=0, zone="UTC")
        start, width, days, months, zone = (form[key] for key in ("start_us", "width_us", "days", "months", "zone"))
        if not all(type(n) is int for n in (start, width, days, months)):
            raise InvalidInput(f"a clock has a start, a width, days and months in whole numbers, not {data!r}")
        if not (0 < width <= LONGEST and days >= 0 == months) and not (
            0 < months <= MOST_MONTHS and width == days == 0
        ):
            raise InvalidInput(f"a clock has a width above 0 or months, not both, and days of 0 or more, not {data!r}")
        if not isinstance(zone, str):
            raise InvalidInput(f"the zone of a clock must be a name, not {zone!r}")
        find_zone(zone)
        return cls(start, width or months * MONTH, days, zone, months)

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
        shown, first = (us + offset_at(us, place) for us in (begin, self.start_us))
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

    @property
    def _month(self) -> int:
        """The month that begins step 1."""
        return month_of(self.start_us + offset_at(self.start_us, find_zone(self.zone)))

    def start(self, step: int) -> int:
        """Return when a step starts, in µs."""
        return int(self.edges(step, step)[0])

    def end(self, step: int) -> int:
        """Return when a step is over, in µs: its end is not part of it."""
        return int(self.edges(step, step)[1])

    def step(self, us: int) -> int:
        """Return the step that a moment lies in; 0 and less before the start."""
        return self.buckets(us, us).step(us)

    def numbers(self, moments: Integers) -> Integers:
        """Return the step that each of many moments lies in.

        >>> Steps.of("1 month", "1970-01-01").numbers(np.array([-1, 0, 31 * DAY - 1, 31 * DAY])).tolist()
        [0, 1, 1, 2]
        """
        if not moments.size:
            return np.zeros(0, dtype=np.int64)
        buckets = self.buckets(int(moments.min()), int(moments.max()))
        starts, adds = (np.array(part, dtype=np.int64) for part in zip(*buckets.pieces, strict=True))
        result: Integers = (moments + adds[np.searchsorted(starts, moments, side="right") - 1]) // buckets.width + 1
        return result

    def last_over(self, us: int) -> int:
        """Return the newest step that is over at this moment, 0 or less if none is."""
        return self.step(us) - 1

    def buckets(self, first_us: int, last_us: int) -> Buckets:
        """Return the arithmetic of steps for moments in a stretch of time."""
        if self.months:
            return self._buckets_of_months(first_us, last_us)
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

    def _buckets_of_months(self, first_us: int, last_us: int) -> Buckets:
        """Return a piece for each step, from its first moment on; what lies beyond the first and last has other numbers."""
        around = (
            month_of(max(EARLIEST, min(LATEST, us)) + by) for us, by in ((first_us, -2 * DAY), (last_us, 2 * DAY))
        )
        first, last = ((month - self._month) // self.months + 1 for month in around)
        longest = (days_in_months(self.months)[1] + 2) * DAY
        begins = self._begins_of_months(first, last).tolist()
        pieces = [(begin, (first + i - 1) * longest - begin) for i, begin in enumerate(begins)]
        return Buckets(longest, ((-(2**62), pieces[0][1]), *pieces[1:]))

    def _begins_of_months(self, first: int, last: int) -> Integers:
        """Return when steps first … last start: when the clock shows the last of the day before for the last time."""
        local = first_of_months(self._month + np.arange(first - 1, last, dtype=np.int64) * self.months)
        return last_moments(local, offsets(self.zone, int(local[0]) - 2 * DAY, int(local[-1]) + 2 * DAY))

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
        if self.months:
            return self._begins_of_months(first, last + 1)
        local = np.arange(first - 1, last + 1, dtype=np.int64) * self.width
        if not self.days:
            return self.start_us + local
        pieces = self.buckets(begin, end).pieces
        result = local - pieces[-1][1]
        for (at, add), (later, _) in reversed(list(pairwise(pieces))):
            result = np.where(local - add < later, np.maximum(at, local - add), np.maximum(later, result))
        return result
