"""Steps of calendar months against a clock that is looked at second by second, in many zones, over three centuries."""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable
from fractions import Fraction
from zoneinfo import ZoneInfo, available_timezones

import numpy as np
import pytest

from halflife.errors import InvalidInput
from halflife.local_time import DAY, SECOND, days_in_months, from_us, parse_months, to_us
from halflife.steps import Steps, parse_width
from thinning import keep

ZONES = (
    "UTC", "Europe/London", "Europe/Berlin", "America/New_York", "America/Sao_Paulo", "America/St_Johns", "Asia/Kolkata",
    "Asia/Damascus", "Asia/Amman", "America/Havana", "Pacific/Apia", "Pacific/Kiritimati", "Pacific/Kwajalein", "Africa/Cairo",
    "Australia/Lord_Howe", "Asia/Tehran", "Africa/Monrovia",
)  # fmt: skip
"""Without changes, with changes at midnight or over it, by parts of an hour, and over the date line."""


def clock_shows(second: int, zone: ZoneInfo) -> datetime.datetime:
    """What a clock shows, by the standard library alone."""
    return datetime.datetime.fromtimestamp(second, zone).replace(tzinfo=None)


def look_for_first(year: int, month: int, zone: ZoneInfo) -> int:
    """The second from which on a clock shows this month or a later one, and nothing before it any more."""
    midnight = datetime.datetime(year, month, 1)
    about = int(midnight.replace(tzinfo=datetime.UTC).timestamp())
    hours = range(about - 30 * 3600, about + 30 * 3600, 900)
    before = max(s for s in hours if clock_shows(s, zone) < midnight)
    return max(s for s in range(before, before + 901) if clock_shows(s, zone) < midnight) + 1


def is_plain(year: int, month: int, zone: ZoneInfo) -> bool:
    """Whether no clock change lies within two days of a first of a month: its midnight is one moment then."""
    moment = datetime.datetime(year, month, 1, tzinfo=zone)
    return len({(moment + datetime.timedelta(hours=h)).utcoffset() for h in range(-48, 49, 12)}) == 1


def expected_firsts(name: str, years: range) -> list[int]:
    zone = ZoneInfo(name)
    return [
        round(datetime.datetime(y, m, 1, tzinfo=zone).timestamp())
        if is_plain(y, m, zone)
        else look_for_first(y, m, zone)
        for y in years
        for m in range(1, 13)
    ]


@pytest.mark.parametrize("zone", keep(ZONES, lambda zone: ZONES.index(zone) % 2 == 0))
def test_months_begin_when_the_clock_has_shown_the_day_before_for_the_last_time(zone: str) -> None:
    years = range(1990, 2015)
    firsts = expected_firsts(zone, years)
    steps = Steps.of("1 month", f"{years[0]}-01-01", zone)
    assert (steps.edges(1, 12 * len(years) - 1) // SECOND).tolist() == firsts
    assert not np.any(steps.edges(1, 12 * len(years)) % SECOND)
    quarters = Steps.of("3 months", f"{years[0]}-01-01", zone)
    assert (quarters.edges(1, 4 * len(years) - 1) // SECOND).tolist() == firsts[::3]
    fiscal = Steps.of("1 year", f"{years[0]}-04-01", zone)
    assert (fiscal.edges(1, len(years) - 1) // SECOND).tolist() == firsts[3::12]


@pytest.mark.soak
def test_months_of_every_zone_from_1900_to_2200(time_left: Callable[[], bool]) -> None:
    zones = sorted(available_timezones())
    random.Random().shuffle(zones)
    while zones and time_left():
        zone = zones.pop()
        steps = Steps.of("1 month", "1900-01-01", zone)
        assert (steps.edges(1, 3599) // SECOND).tolist() == expected_firsts(zone, range(1900, 2200)), zone


@pytest.mark.diagonal
@pytest.mark.parametrize("zone", ["Pacific/Apia", "Asia/Damascus", "UTC"])
@pytest.mark.parametrize("width", ["1 month", "5 months", "1 year"])
def test_every_moment_lies_in_the_step_whose_edges_are_around_it(zone: str, width: str) -> None:
    steps = Steps.of(width, "1999-04-01", zone)
    edges, rng = steps.edges(-12, 12), random.Random(7)
    asked = [int(us) + by for us in edges[1:-1] for by in (-1, 0, 1)]
    asked += [rng.randrange(edges[0], edges[-1]) for _ in range(40)]
    found = [-13 + int(np.searchsorted(edges, us, side="right")) for us in asked]
    assert [steps.step(us) for us in asked] == found
    assert steps.numbers(np.array(asked)).tolist() == found
    buckets = steps.buckets(steps.start(-3), steps.end(4))  # as a question about steps -3 … 4 has them
    for us, k in zip(asked, found, strict=True):
        assert buckets.step(us) == k if -3 <= k <= 4 else not -3 <= buckets.step(us) <= 4


@pytest.mark.parametrize("zone", keep(ZONES, lambda zone: ZONES.index(zone) % 2 == 1))
def test_months_are_whole_local_days(zone: str) -> None:
    months, days = Steps.of("1 month", "1990-01-01", zone), Steps.of("1 day", "1990-01-01", zone)
    edges = months.edges(1, 300)
    numbers = days.numbers(edges)
    assert np.array_equal([days.start(int(k)) for k in numbers], edges)
    least, most = days_in_months(1)
    assert most >= np.diff(numbers).max()
    assert np.diff(numbers).min() >= least


def test_the_days_of_months_in_a_row_are_counted_over_all_of_the_calendar() -> None:
    firsts = [datetime.date(y, m, 1).toordinal() for y in range(1600, 2021) for m in range(1, 13)]
    for months in (1, 2, 3, 5, 12, 24, 48, 120):
        lengths = [b - a for a, b in zip(firsts, firsts[months:], strict=False)]
        assert days_in_months(months) == (min(lengths), max(lengths))


@pytest.mark.parametrize("days", [1, 7, 28, 30, 45, 100])
def test_so_many_months_as_a_refusal_names_are_touched_by_no_stretch_more(days: int) -> None:
    edges = Steps.of("1 month", "1996-01-01", "Europe/London").edges(1, 200) // SECOND
    begins = np.arange(edges[0], edges[150], 6 * 3600)
    touched = (
        np.searchsorted(edges, begins + days * 86_400 - 1, side="right")
        - np.searchsorted(edges, begins, side="right")
        + 1
    )
    with pytest.raises(InvalidInput) as found:
        Steps.of("1 month", "2026-01-01").count(f"{days} days")
    named = int(str(found.value).split("; ")[1].split()[0])
    assert touched.max() <= named <= touched.max() + (days == 28)


def test_a_month_in_which_a_day_was_left_out_is_shorter() -> None:
    december = Steps.of("1 month", "2011-12-01", "Pacific/Apia")
    assert december.end(1) - december.start(1) == 30 * DAY


@pytest.mark.parametrize(
    ("start", "zone"),
    [
        ("2026-01-31", "UTC"),
        ("2026-01-02", "Europe/London"),
        ("2026-01-01T00:30", "UTC"),
        ("2026-01-01T00:00Z", "Europe/Berlin"),
    ],
)
def test_a_start_elsewhere_than_a_first_at_midnight_is_refused_with_the_next_ones(start: str, zone: str) -> None:
    with pytest.raises(InvalidInput, match=r"first of a month.*start at 2026-01-01 or 2026-02-01"):
        Steps.of("1 month", start, zone)


def test_a_first_at_a_midnight_that_is_skipped_or_comes_twice_is_a_start() -> None:
    skipped = Steps.of("1 month", "2005-04-01", "Asia/Damascus")  # from 00:00 to 01:00
    assert from_us(skipped.start_us, "Asia/Damascus").isoformat() == "2005-04-01T01:00:00+03:00"
    twice = Steps.of("1 month", "2005-11-01T00:00-04:00", "America/Havana")
    assert twice.start(1) == twice.start_us


@pytest.mark.parametrize(
    ("text", "months"), [("1 month", 1), ("3 MONTHS", 3), ("1year", 12), ("1.5 years", 18), ("4 weeks", None)]
)
def test_months_are_read_as_people_write_them(text: str, months: int | None) -> None:
    assert parse_months(text) == months


@pytest.mark.parametrize("text", ["0 months", "1.5 months", "11 years", "0.1 years"])
def test_parts_of_months_and_more_than_ten_years_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="whole months"):
        parse_months(text)


def test_a_stretch_of_months_is_whole_steps_of_months_and_no_number_of_others() -> None:
    quarter = Steps.of("3 months", "2026-01-01", "Europe/London")
    assert [quarter.count(text) for text in ("1 year", "1 month")] == [4, Fraction(1, 3)]
    with pytest.raises(
        InvalidInput, match="1 year is 365 to 366 days, and no fixed number of steps: write days, such as 366 days"
    ):
        Steps.of("1 day", "2026-01-01").count("1 year")
    with pytest.raises(InvalidInput, match="no fixed width"):
        parse_width("1 month")
    with pytest.raises(InvalidInput, match="did you mean 'month'"):
        parse_width("1 monht")


def test_facts_of_months_have_no_width_and_are_read_back() -> None:
    steps = Steps.of("3 months", "2026-01-01", "Europe/London")
    assert steps.to_facts() == {
        "start_us": to_us(datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)),
        "months": 3,
        "zone": "Europe/London",
    }
    assert Steps.from_facts(steps.to_facts()) == steps
    for wrong in (
        {"months": 0},
        {"months": 121},
        {"months": 1, "width_us": 1},
        {"months": 1, "days": 1},
        {"months": 1.0},
        {},
    ):
        with pytest.raises(InvalidInput):
            Steps.from_facts({"start_us": 0, **wrong})


def test_steps_at_the_ends_of_the_calendar() -> None:
    steps = Steps.of("1 month", "2199-12-01", "Europe/London")
    assert from_us(steps.end(1), "Europe/London").isoformat() == "2200-01-01T00:00:00+00:00"
    with pytest.raises(InvalidInput, match="beyond the calendar"):
        steps.start(10**9)
    assert steps.step(2**61) > 90_000
    assert steps.step(-(2**61)) < -20_000
