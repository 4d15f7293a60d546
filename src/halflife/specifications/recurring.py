"""Secrets that recur, as people say them: every weekday 18:00–21:00, oven, 3 kW, 30 min."""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halflife.errors import InvalidInput, unknown
from halflife.local_time import DAY, SECOND, YEARS, find_zone, first_moments, from_us, last_moments, offsets
from halflife.numerics.arrays import Integers
from halflife.numerics.parameters import real
from halflife.numerics.rounding import ratio_up
from halflife.parsing.quantities import parse_quantity
from halflife.specifications.base import Secret
from halflife.specifications.checks import MOST_EPSILON, MOST_POWER
from halflife.specifications.wall_clock import TooShort, as_utc, read_duration, touched_steps
from halflife.steps import Steps

MINUTE = 60 * SECOND
NAMES = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
GROUPS = {"day": range(7), "daily": range(7), "weekday": range(5), "weekend": range(5, 7), "weekend day": range(5, 7)}
SHORT = {**{name[:3]: i for i, name in enumerate(NAMES)}, "tues": 1, "thur": 3, "thurs": 3}

_NUMBER = re.compile(r"[+-]?(?:\d{1,40}(?:\.\d{0,40})?|\.\d{1,40})(?:[eE][+-]?\d{1,3})?", re.ASCII)
_CLOCK = r"([01]?\d|2[0-4]):([0-5]\d)"
_TIMES = re.compile(
    rf"\ball[ -]day\b|\b(?:from\s+|between\s+)?(?<![\d:])({_CLOCK})(?![\d:])\s*(?:[-–—]|to|until|and)\s*({_CLOCK})(?![\d:])",
    re.IGNORECASE | re.ASCII,
)


@dataclass(frozen=True)
class Recurring:
    """One secret for each of some weekdays, by a zone's clock (ours; `Recurring.of` reads it as people write it).

    days        weekdays, 0 is Monday
    begin, end  of the window in minutes after the day's midnight; an end above 1440 lies on the next day
    power       p of each secret, `duration` in µs, `epsilon` of each
    since, until  the first day, and the day before which it ends; windows belong to the day on which they begin

    On a day on which the clock skips all of a window there is nothing to hide; if it skips a part, the rest is hidden. If it
    repeats a part, both passes are hidden, in one interval.
    """

    days: frozenset[int]
    begin: int
    end: int
    power: float
    duration: int
    epsilon: float
    zone: str
    since: datetime.date | None = None
    until: datetime.date | None = None
    what: str | None = None

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "power", real("power", self.power, positive=True, limit=MOST_POWER))
        put(self, "epsilon", real("epsilon", self.epsilon, positive=True, limit=MOST_EPSILON))
        find_zone(self.zone)
        if not self.days or not self.days <= set(range(7)):
            raise InvalidInput(f"weekdays are numbers from 0 (Monday) to 6 (Sunday), not {sorted(self.days)}")
        if not 0 <= self.begin < 1440 or not self.begin < self.end <= self.begin + 1440:
            raise InvalidInput(f"a window lasts at most a day: not from minute {self.begin} to {self.end}")
        if self.duration > (self.end - self.begin) * MINUTE:
            raise TooShort(
                f"the hiding interval {_format_time(self.begin)}–{_format_time(self.end)} is shorter than its event "
                f"({datetime.timedelta(microseconds=self.duration)}): widen it, or shorten the event"
            )
        if self.since is not None and self.until is not None and self.until <= self.since:
            raise InvalidInput(f"it ends (until {self.until}) before it begins (since {self.since})")

    @classmethod
    def of(
        cls,
        every: str,
        begin: str,
        end: str,
        power: float,
        duration: str,
        epsilon: float,
        *,
        zone: str,
        since: str | datetime.date | None = None,
        until: str | datetime.date | None = None,
        what: str | None = None,
    ) -> Recurring:
        """Read weekdays, times and dates as people write them.

        >>> oven = Recurring.of("weekday", "18:00", "21:00", 3.0, "30 min", 1.0, zone="Europe/Berlin", until="2026-01-10")
        >>> [(s.start, s.end, s.duration) for s in oven.secrets(Steps.of("15 min", "2026-01-08", "Europe/Berlin"))]
        [(73, 84, 2), (169, 180, 2)]
        """
        first, last = read_window(begin, end)
        spans = read_duration(duration)
        dates = (read_day("since", since), read_day("until", until))
        return cls(read_weekdays(every), first, last, power, spans, epsilon, zone, *dates, what)

    def columns(self, steps: Steps, last: int | None = None) -> dict[str, NDArray[Any]]:
        """Return its secrets up to step `last` as columns.

        A secret whose first step is at most `last` is there as a whole, so a later `last` only adds. Windows that fall into
        the very same steps (steps of a week, say) become one secret with their powers together.
        """
        start, end, duration, times = _windows(
            self.days, self.begin, self.end, self.duration, self.zone, self.since, self.until, steps, last
        )
        numerator, denominator = self.power.as_integer_ratio()
        power = {int(n): ratio_up(int(n) * numerator, denominator) for n in np.unique(times)}
        return {
            "power": np.array([power[n] for n in times.tolist()], dtype=np.float64),
            "duration": duration,
            "start": start,
            "end": end,
            "epsilon": np.full(len(start), self.epsilon),
        }

    def secrets(self, steps: Steps, last: int | None = None) -> list[Secret]:
        """Return its secrets up to step `last`, or to its own end."""
        held = self.columns(steps, last)
        return [Secret(*row) for row in zip(*(values.tolist() for values in held.values()), strict=True)]


@lru_cache(maxsize=1024)
def _windows(
    days: frozenset[int],
    begin: int,
    end: int,
    duration: int,
    zone: str,
    since: datetime.date | None,
    until: datetime.date | None,
    steps: Steps,
    last: int | None,
) -> tuple[Integers, Integers, Integers, Integers]:
    """The hiding intervals' first and last steps, durations, and how many windows each stands for."""
    low = as_utc(from_us(steps.start(1), zone).date()) // DAY - 2  # a window may reach into step 1 from the day before
    if last is None and until is None:
        raise InvalidInput(
            "a recurring secret needs an end: give `until`, or the last step up to which it is wanted", about="last"
        )
    high = as_utc(until) // DAY if until is not None else 2**40
    if last is not None:
        high = min(high, as_utc(from_us(steps.end(max(1, last)), zone).date()) // DAY + 2)
    if since is not None:
        low = max(low, as_utc(since) // DAY)
    day = np.arange(low, max(low, high), dtype=np.int64)
    day = day[np.isin((day + 3) % 7, list(days))]  # 1970-01-01 was a Thursday
    pieces = offsets(zone, (low - 2) * DAY, (max(low, high) + 3) * DAY)
    opens = first_moments(day * DAY + begin * MINUTE, pieces)
    closes = last_moments(day * DAY + end * MINUTE, pieces)
    kept = opens < closes
    first, final, lasts = touched_steps(opens[kept], closes[kept], (end - begin) * MINUTE, duration, steps)
    kept = final >= 1
    if last is not None:
        kept &= first <= last
    return _merge_windows(first[kept], final[kept], lasts[kept])


def _merge_windows(first: Integers, last: Integers, lasts: Integers) -> tuple[Integers, Integers, Integers, Integers]:
    """Return windows with identical steps merged into one, with the longest of their durations."""
    if not len(first):
        return first, last, lasts, lasts
    new = np.flatnonzero(np.append(True, (first[1:] != first[:-1]) | (last[1:] != last[:-1])))
    return first[new], last[new], np.maximum.reduceat(lasts, new), np.diff(np.append(new, len(first)))


# As people write it -------------------------------------------------------------------------------------------------


def read_number(name: str, text: object) -> float:
    """Return a number as the nearest double, or refuse it with its name.

    >>> read_number("epsilon", "0.5")
    0.5
    """
    if not _NUMBER.fullmatch(str(text).strip()):
        raise InvalidInput(f"{name} must be a number, not {str(text)[:80]!r}")
    return real(name, float(str(text)), positive=True)


def read_power(text: object, unit: str) -> float:
    """Return a power in `unit`: a bare number as it is, one of another prefix exactly, rounded up.

    >>> read_power("3", "kW"), read_power("2500 W", "kW")
    (3.0, 2.5)
    """
    written = str(text).strip()
    bare = written.removesuffix(unit).strip()
    if _NUMBER.fullmatch(bare):
        return read_number("power", bare)
    exact = parse_quantity(written, unit)
    return real("power", ratio_up(exact.numerator, exact.denominator), positive=True)


def read_weekdays(text: str) -> frozenset[int]:
    """Return the weekdays that words name, 0 is Monday.

    >>> [sorted(read_weekdays(t)) for t in ("every weekday", "on Mondays and Thu", "Tue-Thu", "weekend", "every Fri–Mon")]
    [[0, 1, 2, 3, 4], [0, 3], [1, 2, 3], [5, 6], [0, 4, 5, 6]]
    """
    words = re.sub(r"^\s*(?:every|each|on)\b", "", str(text).lower()).strip(" ,")
    found: set[int] = set()
    for part in re.split(r"\s*(?:,|;|\band\b|&)\s*", words):
        name = re.sub(r"^(?:every|each|on)\s+", "", part.strip())
        if not name:
            continue
        ends = [_weekdays(word.strip()) for word in re.split(r"[-–—]|\bto\b", name)]
        if len(ends) == 1:
            found |= set(ends[0])
        elif len(ends) == 2 and len(ends[0]) == len(ends[1]) == 1:
            found |= {(ends[0][0] + i) % 7 for i in range((ends[1][0] - ends[0][0]) % 7 + 1)}
        else:
            raise InvalidInput(f"{name!r} is no span of weekdays: write it as Tue-Thu")
    if not found:
        raise InvalidInput(
            f"{str(text)[:80]!r} names no day: write day, weekday, weekend, or weekdays such as Mon and Thu"
        )
    return frozenset(found)


def _weekdays(word: str) -> list[int]:
    for name in (word, word.removesuffix("s")):
        if name in GROUPS:
            return list(GROUPS[name])
        if name in NAMES or name in SHORT:
            return [SHORT[name] if name in SHORT else NAMES.index(name)]
    raise unknown("day", word[:80], (*GROUPS, *NAMES))


def read_window(begin: str, end: str) -> tuple[int, int]:
    """Return a window in minutes after midnight; one that ends at or before its start's time ends on the next day.

    >>> read_window("18:00", "24:00"), read_window("22:00", "02:00")
    ((1080, 1440), (1320, 1560))
    """
    first, last = (_minutes(name, text) for name, text in (("from", begin), ("to", end)))
    if first == 1440:
        raise InvalidInput("a window cannot begin at 24:00: write 00:00")
    if first == last:
        raise InvalidInput(f"a window from {begin} to {end} is empty: write 00:00 to 24:00 for all day")
    return first, last if last > first else last + 1440


def _minutes(name: str, text: object) -> int:
    match = re.fullmatch(_CLOCK, str(text).strip(), re.ASCII)
    minutes = int(match[1]) * 60 + int(match[2]) if match else 1441
    if minutes > 1440:
        raise InvalidInput(f"{name} must be a time of day such as 18:00, at most 24:00, not {str(text)[:80]!r}")
    return minutes


def _format_time(minutes: int) -> str:
    return f"{minutes // 60 % 24 if minutes != 1440 else 24:02}:{minutes % 60:02}"


def read_day(name: str, text: str | datetime.date | None) -> datetime.date | None:
    """Return a date, None if there is none."""
    if text is None:
        return None
    try:
        day = text if isinstance(text, datetime.date) else datetime.date.fromisoformat(str(text).strip())
    except ValueError:
        raise InvalidInput(f"{name} must be a date such as 2026-01-31, not {str(text)[:80]!r}") from None
    if isinstance(day, datetime.datetime) or not YEARS[0] <= day.year < YEARS[1]:
        raise InvalidInput(f"{name} must be a date in the years {YEARS[0]} to {YEARS[1] - 1}, not {str(text)[:80]!r}")
    return day


def parse_recurring(
    text: str,
    *,
    epsilon: float | None = None,
    zone: str,
    since: str | datetime.date | None = None,
    until: str | datetime.date | None = None,
    unit: str = "kW",
) -> Recurring:
    """Read a recurring secret as a sentence: days and times first, then a name, a power and a duration in any order.

    `epsilon 0.5`, `since 2026-01-01` and `until 2027-01-01` may stand in it too, and win over what is given beside it.

    >>> oven = parse_recurring("every weekday 18:00–21:00, oven, 3 kW, 30 min", epsilon=1.0, zone="Europe/Berlin")
    >>> oven.what, sorted(oven.days), oven.power, oven.duration // MINUTE, oven.begin, oven.end
    ('oven', [0, 1, 2, 3, 4], 3.0, 30, 1080, 1260)
    """
    written = str(text)
    times = _TIMES.search(written) if len(written) <= 500 else None
    if times is None:
        raise InvalidInput(
            f"{written[:80]!r} is no recurring secret: write it as 'every weekday 18:00–21:00, oven, 3 kW, 30 min'"
        )
    begin, end = (times[1], times[4]) if times[1] else ("00:00", "24:00")
    told: dict[str, Any] = {"epsilon": epsilon, "since": since, "until": until}
    said: set[str] = set()
    for part in re.split(r"[,;]", written[times.end() :]):
        if part.strip():
            name, value = _read_part(part.strip(), unit)
            if name in said:
                raise InvalidInput(f"{part.strip()!r} gives {name} a second time: keep one")
            said.add(name)
            told[name] = value
    for name, example in (("power", f"3 {unit}"), ("duration", "30 min"), ("epsilon", "epsilon 1")):
        if told.get(name) is None:
            raise InvalidInput(f"{written[:80]!r} gives no {name}: add it, as in {example!r}")
    return Recurring.of(written[: times.start()], begin, end, **told, zone=zone)


def _read_part(part: str, unit: str) -> tuple[str, Any]:
    """Return which field a part of a sentence gives, and its value."""
    keyed = re.fullmatch(r"(ε|eps|epsilon|since|until)\s*[=:]?\s*(\S+)", part, re.IGNORECASE)
    if keyed and keyed[1].lower() in ("since", "until"):
        return keyed[1].lower(), keyed[2]
    if keyed:
        return "epsilon", read_number("epsilon", keyed[2])
    if not re.match(r"[+\-.\d]", part):
        return "what", part
    if _NUMBER.fullmatch(part):
        raise InvalidInput(f"{part!r} has no unit: write {part} {unit} for a power, or {part} min for a duration")
    if _is_quantity(part, unit):
        return "power", read_power(part, unit)
    try:
        read_duration(part)
    except InvalidInput as error:
        raise InvalidInput(f"{part[:80]!r} is no power in {unit}, and {error}") from None
    return "duration", part


def _is_quantity(part: str, unit: str) -> bool:
    try:
        parse_quantity(part, unit)
    except InvalidInput:
        return False
    return True
