"""Steps: against `datetime` and `zoneinfo`, in zones whose clocks do odd things."""

from __future__ import annotations

import datetime
from bisect import bisect_right
from itertools import pairwise
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from halflife import InvalidInput
from halflife.local_time import DAY, SECOND, find_zone, from_us, naive_to_utc, parse_time, skipped_days, to_us
from halflife.steps import Buckets, Steps, parse_width
from thinning import keep

HOUR = 3600 * SECOND
ZONES = [
    ("Europe/London", 2013),
    ("America/St_Johns", 2013),  # half an hour off the hour
    ("America/St_Johns", 2005),  # the clock went back at 00:01, over midnight
    ("Australia/Lord_Howe", 2013),  # by half an hour
    ("Asia/Kathmandu", 2013),  # a quarter of an hour off the hour
    ("America/Sao_Paulo", 2018),  # the clock went forward at midnight, and back to 23:00
    ("Africa/Casablanca", 2019),  # four changes a year
    ("Atlantic/Azores", 2013),  # the clock goes back at 01:00 to midnight: it comes twice
    ("Pacific/Apia", 2011),  # a day that never was
    ("Asia/Beirut", 2023),
    ("UTC", 2013),
]


def half_hours(year):
    first = to_us(datetime.datetime(year, 1, 1, tzinfo=datetime.UTC))
    return range(first, first + 366 * DAY, 30 * 60 * SECOND)


def last_midnights(zone, year):
    """The local midnights of a year as `zoneinfo` sees them: from then on the date is never an earlier one.

    Every offset here is in whole quarters of an hour, so looking at each quarter finds them exactly.
    """
    place = ZoneInfo(zone)
    start = datetime.datetime(year, 1, 1, tzinfo=place).astimezone(datetime.UTC)
    first: dict[datetime.date, int] = {}
    for minute in range(-1440, 368 * 1440, 15):
        moment = start + datetime.timedelta(minutes=minute)
        date = moment.astimezone(place).date()
        for later in [d for d in list(first)[-3:] if d > date]:
            del first[later]
        first.setdefault(date, to_us(moment))
    return first


@pytest.mark.parametrize(("zone", "year"), keep(ZONES, lambda *case: ZONES.index(case) % 2 == 0))
def test_local_days_are_those_of_the_calendar(zone, year):
    midnights = last_midnights(zone, year)
    starts, dates = list(midnights.values()), list(midnights)
    steps = Steps.of("1 day", f"{year}-01-01", zone)
    number = {date: n - dates.index(datetime.date(year, 1, 1)) + 1 for n, date in enumerate(dates)}
    buckets = steps.buckets(half_hours(year)[0], half_hours(year)[-1])
    for n, us in enumerate(half_hours(year)):
        want = number[dates[bisect_right(starts, us) - 1]]
        assert buckets.step(us) == want, from_us(us, zone)
        assert n % 11 or steps.step(us) == want
    for date, us in midnights.items():
        if date.year == year:
            assert steps.start(number[date]) == us, date


@pytest.mark.parametrize(("zone", "year"), ZONES)
@pytest.mark.parametrize(
    "width", keep(["1 day", "1 week", "3 days", "30 min", "1 h"], lambda w: w not in ("3 days", "30 min"))
)
def test_start_end_step_edges_and_last_over_agree(zone, year, width):
    steps = Steps.of(width, f"{year}-01-01", zone)
    last = steps.step(half_hours(year)[-1])
    edges = steps.edges(-5, last).tolist()
    buckets = steps.buckets(edges[0], edges[-1])
    for k, (start, end) in enumerate(pairwise(edges), start=-5):
        if k % (1 if len(edges) < 400 else 97) == 0:
            assert (steps.start(k), steps.end(k)) == (start, end)
        assert start < end
        assert [buckets.step(us) for us in (start - 1, start, end - 1)] == [k - 1, k, k]
        assert steps.last_over(end) == k > steps.last_over(end - 1)


@pytest.mark.parametrize(("zone", "year"), keep(ZONES, lambda *case: ZONES.index(case) % 2 == 1))
def test_a_clock_without_an_offset_is_read_as_datetime_does(zone, year):
    first, *_, last = half_hours(year)
    pieces = Buckets(1, naive_to_utc(zone, first, last))
    place = find_zone(zone)
    for local in range(first, last, 30 * 60 * SECOND):
        naive = (datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=local)).replace(tzinfo=place)
        assert pieces.step(local) - 1 == to_us(naive), naive


def test_the_days_of_a_year_have_the_hours_that_people_lived():
    def hours(zone, year):
        edges = Steps.of("1 day", f"{year}-01-01", zone).edges(1, 365)
        lengths = np.diff(edges) / HOUR
        return {float(h): int(n) for h, n in zip(*np.unique(lengths, return_counts=True), strict=True) if h != 24}

    assert hours("Europe/London", 2013) == {23: 1, 25: 1}
    assert hours("Australia/Lord_Howe", 2013) == {23.5: 1, 24.5: 1}
    assert hours("America/Sao_Paulo", 2018) == {23: 1, 25: 1}
    assert hours("America/St_Johns", 2005) == {23: 1, 25: 1}
    assert hours("Asia/Kathmandu", 2013) == {}
    assert hours("Africa/Casablanca", 2019) == {23: 1, 25: 1}
    assert hours("Pacific/Apia", 2011) == {23: 1, 25: 1}


@pytest.mark.parametrize("start", ["2010-01-01", "2011-12-29", "2011-12-30", "2011-12-31", "2013-01-01"])
@pytest.mark.parametrize(
    ("zone", "around"),
    [
        ("Pacific/Apia", "2011-12-30"),
        ("Pacific/Fakaofo", "2011-12-30"),
        ("Pacific/Kwajalein", "1993-08-21"),
        ("Pacific/Kiritimati", "1994-12-31"),
    ],
)
def test_a_day_that_never_was_has_no_number(zone, around, start):
    """Whether a stream starts before, on, or after it; and a week is seven of the days that there were."""
    missing = datetime.date.fromisoformat(around)
    days, weeks = (Steps.of(width, start, zone) for width in ("1 day", "1 week"))
    k = days.step(to_us(parse_time(around, zone)))
    edges = days.edges(k - 20, k + 20)
    assert set(np.diff(edges).tolist()) == {DAY}
    dates = [from_us(us, zone).date() for us in edges.tolist()]
    assert missing not in dates
    assert (dates[-1] - dates[0]).days == 42
    assert days.start(1) == weeks.start(1)
    assert [weeks.start(n) for n in (-3, 1, 2, 200)] == [days.start(7 * (n - 1) + 1) for n in (-3, 1, 2, 200)]


def test_few_zones_ever_left_a_day_out():
    assert [len(skipped_days(z)) for z in ("Europe/London", "America/St_Johns", "Pacific/Apia")] == [0, 0, 1]


def test_a_stream_may_start_on_a_day_that_has_no_midnight_or_two():
    skipped = Steps.of("1 day", "2018-11-04", "America/Sao_Paulo")
    assert from_us(skipped.start(1), "America/Sao_Paulo").isoformat() == "2018-11-04T01:00:00-02:00"
    assert from_us(skipped.start(2), "America/Sao_Paulo").isoformat() == "2018-11-05T00:00:00-02:00"
    twice = Steps.of("1 day", "2005-10-30", "America/St_Johns")
    assert from_us(twice.start(1), "America/St_Johns").isoformat() == "2005-10-30T00:00:00-03:30"
    assert Steps.of("1 day", "2005-10-29", "America/St_Johns").start(2) == twice.start(1)
    assert twice.start_us == twice.start(1)
    azores = Steps.of("1 day", "2013-10-27", "Atlantic/Azores")
    assert (azores.end(1) - azores.start(1)) // HOUR == 25


def test_a_step_is_one_stretch_of_time_where_the_clock_goes_back_over_midnight():
    steps = Steps.of("1 day", "2005-10-01", "America/St_Johns")
    minutes = range(
        to_us(parse_time("2005-10-30T00:00+00:00")), to_us(parse_time("2005-10-31T00:00+00:00")), 60 * SECOND
    )
    found = [steps.step(us) for us in minutes]
    assert found == sorted(found)


@given(
    st.sampled_from(ZONES),
    st.sampled_from(["7 s", "30 min", "1 h", "1 day", "2 days", "1 week"]),
    st.integers(-70 * 365 * DAY, 130 * 365 * DAY),
)
def test_every_moment_lies_in_its_step(zone, width, us):
    steps = Steps.of(width, f"{zone[1]}-01-01", zone[0])
    k = steps.step(us)
    assert steps.start(k) <= us < steps.end(k)
    assert steps.last_over(us) == k - 1
    assert steps.edges(k, k).tolist() == [steps.start(k), steps.end(k)]


@given(st.integers(-(10**6), 10**6), st.integers(0, 50))
def test_edges_of_a_long_stretch_are_those_of_its_steps(first, count):
    for steps in (Steps.of("1 h", "2013-01-01"), Steps.of("90 s", "2013-01-01", "Europe/London")):
        assert steps.edges(first, first + count).tolist() == [steps.start(k) for k in range(first, first + count + 2)]


@given(st.integers(-700, 40_000), st.integers(0, 400))
def test_edges_of_many_local_days_are_those_of_its_steps(first, count):
    steps = Steps.of("1 day", "2013-01-01", "Europe/London")
    edges = steps.edges(first, first + count)
    assert edges[0] == steps.start(first)
    assert edges[-1] == steps.end(first + count)
    assert edges[count // 2] == steps.start(first + count // 2)


WIDTHS = [
    ("30 min", 1800),
    ("1h", 3600),
    ("1.5 h", 5400),
    (" 2 DAYS ", 172_800),
    ("1 week", 604_800),
    (".5 s", 0.5),
    ("1. h", 3600),
]


@pytest.mark.parametrize(("text", "seconds"), WIDTHS)
def test_widths_are_read_as_people_write_them(text, seconds):
    assert parse_width(text).total_seconds() == seconds


BAD_WIDTHS = [
    ("30 minuts", "did you mean 'minutes'?"),
    ("30", "write a number"),
    ("min", "Write a number"),
    ("-1 h", "Write a number"),
    ("0 h", "above 0"),
    ("0.0000001 s", "whole µs"),
    ("999999999 weeks", "at most ten years"),
    ("1e3 s", "Write a number"),
    ("nan h", "Write a number"),
    ("1 h 30 min", "Write a number"),
    (". h", "Write a number"),
    ("", "Write a number"),
]


@pytest.mark.parametrize(("text", "message"), BAD_WIDTHS)
def test_bad_widths_are_refused(text, message):
    with pytest.raises(InvalidInput, match="(?i)" + message.replace("?", r"\?")):
        parse_width(text)


BAD_TIMES = ["yesterday", "2026-02-30", "12:30", "0001-01-01", "9999-12-31", "1899-12-31", "2026-01-01T25:00", ""]


@pytest.mark.parametrize("text", BAD_TIMES)
def test_bad_times_are_refused(text):
    with pytest.raises(InvalidInput):
        parse_time(text)


@pytest.mark.parametrize("zone", ["Mars/Base", "Europe", "../etc/passwd", "a\0b", "europe/lundon"])
def test_unknown_zones_are_refused(zone):
    with pytest.raises(InvalidInput, match="unknown zone"):
        find_zone(zone)


def test_a_local_day_starts_at_midnight():
    with pytest.raises(InvalidInput, match="starts at midnight in Europe/London, not at 2013-07-01T01:00:00"):
        Steps.of("1 day", "2013-07-01T00:00+00:00", "Europe/London")
    assert Steps.of("1 day", "2013-07-01T00:00+01:00", "Europe/London").days == 1
    assert Steps.of("1 day", "2013-07-01T06:00", "UTC").days == 0  # a day of UTC may start at any hour


def test_steps_beyond_the_calendar_are_refused():
    for steps in (Steps.of("1 day", "2013-01-01", "Europe/London"), Steps.of("1 h", "2013-01-01")):
        for k in (10**9, -(10**9), 10**15):
            with pytest.raises(InvalidInput, match="beyond the calendar"):
                steps.start(k)
        assert steps.step(2**61) > 10**6  # a moment far away has a step, which nobody asks for
        assert steps.step(-(2**61)) < 0
