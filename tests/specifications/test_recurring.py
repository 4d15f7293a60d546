"""Secrets by the clock, against a brute force over every minute of UTC, over the days on which clocks change."""

from __future__ import annotations

import datetime
from fractions import Fraction
from functools import cache
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from halflife.errors import InvalidInput
from halflife.local_time import to_us
from halflife.specifications import Recurring, Secret, parse_recurring
from halflife.specifications.recurring import _merge_windows
from halflife.steps import Steps

MINUTE = 60_000_000
CHANGES = [  # a zone, and the day on which its clocks change
    ("Europe/London", datetime.date(2026, 3, 29)),
    ("Europe/London", datetime.date(2026, 10, 25)),
    ("Australia/Lord_Howe", datetime.date(2026, 4, 5)),
    ("Australia/Lord_Howe", datetime.date(2026, 10, 4)),
    ("America/St_Johns", datetime.date(2010, 11, 7)),  # from 00:01 back to 23:01 of the day before
    ("Pacific/Apia", datetime.date(2011, 12, 30)),  # a day that was not
    ("Asia/Kolkata", datetime.date(2026, 3, 29)),  # no change, 5 h 30 min
]


@cache
def minutes_around(zone, day):
    """Every minute of UTC around a day: (µs, what the clock in the zone shows)."""
    first = datetime.datetime.combine(day, datetime.time(), datetime.UTC) - datetime.timedelta(days=4)
    moments = [first + datetime.timedelta(minutes=i) for i in range(8 * 1440)]
    return [(to_us(m), m.astimezone(ZoneInfo(zone)).replace(tzinfo=None)) for m in moments]


def hull(zone, middle, day, begin, end):
    """The first and last minute at which the clock shows a time in the window of a day."""
    low, high = (datetime.datetime.combine(day, datetime.time()) + datetime.timedelta(minutes=m) for m in (begin, end))
    inside = [us for us, local in minutes_around(zone, middle) if low <= local < high]
    return (inside[0], inside[-1]) if inside else None


windows = st.tuples(st.integers(0, 1439), st.integers(1, 1440)).map(lambda x: (x[0], x[0] + x[1]))


@given(st.sampled_from(CHANGES), windows, st.sampled_from(["15 min", "30 min", "7 min", "1 day"]), st.booleans())
@example(CHANGES[0], (60, 120), "15 min", True)  # wholly skipped
@example(CHANGES[0], (30, 90), "15 min", True)
@example(CHANGES[0], (90, 180), "15 min", False)
@example(CHANGES[1], (60, 120), "15 min", True)  # wholly repeated
@example(CHANGES[1], (0, 60), "15 min", True)  # over when the hour is shown for the first time
@example(CHANGES[1], (75, 105), "30 min", False)
@example(CHANGES[2], (90, 120), "15 min", True)
@example(CHANGES[3], (120, 150), "15 min", True)
def test_windows_equal_the_brute_force_over_minutes(change, window, width, whole):
    zone, middle = change
    begin, end = window
    days = [middle + datetime.timedelta(days=i) for i in (-1, 0, 1)]
    steps = Steps.of(width, (middle - datetime.timedelta(days=3)).isoformat(), zone)
    minutes = end - begin if whole else min(30, end - begin)
    made = Recurring(
        frozenset(range(7)),
        begin,
        end,
        1.0,
        minutes * MINUTE,
        1.0,
        zone,
        days[0],
        days[-1] + datetime.timedelta(days=1),
    )
    expected = []
    for day in days:
        found = hull(zone, middle, day, begin, end)
        if found is None:
            continue
        first, last = (steps.step(us) for us in found)
        real = (found[1] - found[0]) // MINUTE + 1
        by_clock = minutes == end - begin or minutes % 1440 == 0
        lasts = min(real, minutes + max(0, real - (end - begin)) if by_clock else minutes)
        T = -(-lasts * MINUTE // steps.width) if not steps.days else -(-minutes // 1440)
        expected.append((first, last, min(T, last - first + 1)))
    assert [(s.start, s.end, s.duration) for s in made.secrets(steps)] == expected


def london(text, start, width="15 min", **more):
    made = parse_recurring(text, epsilon=1.0, zone="Europe/London", **more)
    return [(s.start, s.end, s.duration) for s in made.secrets(Steps.of(width, start, "Europe/London"))]


def test_the_day_clocks_go_forward():
    spring = {"since": "2026-03-29", "until": "2026-03-30"}
    assert london("every day 01:00–02:00, 1 kW, 1 h", "2026-03-29", **spring) == []  # that hour is not
    assert london("every day 00:30–01:30, 1 kW, 1 h", "2026-03-29", **spring) == [(3, 4, 2)]  # half of it is
    assert london("every day 01:30–03:00, 1 kW, 30 min", "2026-03-29", **spring) == [(5, 8, 2)]
    assert london("every day all day, 1 kW, 1 day", "2026-03-29", **spring) == [(1, 92, 92)]
    assert london("every day 18:00–21:00, 1 kW, 30 min", "2026-03-29", **spring) == [(69, 80, 2)]


def test_the_day_clocks_go_back_both_passes_are_hidden():
    autumn = {"since": "2026-10-25", "until": "2026-10-26"}
    assert london("every day 01:00–02:00, 1 kW, 15 min", "2026-10-25", **autumn) == [(5, 12, 1)]
    assert london("every day 01:00–02:00, 1 kW, 1 h", "2026-10-25", **autumn) == [(5, 12, 8)]  # as long as the window
    assert london("every day all day, 1 kW, 1 day", "2026-10-25", **autumn) == [(1, 100, 100)]
    assert london("every day 18:00–21:00, 1 kW, 30 min", "2026-10-25", **autumn) == [(77, 88, 2)]
    assert london("every day all day, 1 kW, 1 day", "2026-10-25", "1 day", **autumn) == [(1, 1, 1)]


def test_a_window_over_midnight_belongs_to_the_day_on_which_it_begins():
    made = london("every Sunday 22:00–02:00, party, 1 kW, 4 h", "2026-02-01", since="2026-02-01", until="2026-02-03")
    assert made == [(89, 104, 16)]
    assert london("on Mondays 22:00 to 24:00, 1 kW, 1 h", "2026-02-02", until="2026-02-03") == [(89, 96, 4)]


def test_what_lies_before_step_1_is_left_out():
    steps = Steps.of("1 h", "2026-02-02T01:00", "UTC")
    every_day = parse_recurring("every day 22:00–02:00, 1 kW, 4 h", epsilon=1.0, zone="UTC", until="2026-02-03")
    assert [(s.start, s.end, s.duration) for s in every_day.secrets(steps)] == [(1, 1, 1), (22, 25, 4)]


def test_a_later_last_step_only_adds_secrets():
    made = parse_recurring("every day 22:00–02:00, 1 kW, 1 h", epsilon=1.0, zone="Europe/Berlin")
    steps = Steps.of("1 h", "2026-03-20", "Europe/Berlin")
    known: list[Secret] = []
    for last in range(1, 24 * 14):
        secrets = made.secrets(steps, last)
        assert secrets[: len(known)] == known
        assert all(s.start <= last for s in secrets)
        known = secrets
    assert len(known) == 15


def test_windows_in_the_same_steps_become_one_with_their_powers_together():
    week = Steps.of("1 week", "2026-02-02", "Europe/London")
    made = parse_recurring(
        "every weekday 18:00–21:00, oven, 0.1 kW, 30 min", epsilon=1.0, zone="Europe/London", until="2026-02-16"
    )
    assert [(s.start, s.end, s.duration) for s in made.secrets(week)] == [(1, 1, 1), (2, 2, 1)]
    assert all(0.5 <= s.power < 0.5 + 1e-15 for s in made.secrets(week))


def test_of_windows_in_the_same_steps_the_longest_event_counts():
    def made(*values):
        return np.array(values, dtype=np.int64)

    together = _merge_windows(made(1, 1, 2), made(4, 4, 4), made(1, 3, 2))
    assert [part.tolist() for part in together] == [[1, 2], [4, 4], [3, 2], [2, 1]]


def test_powers_that_add_up_round_up():
    week = Steps.of("1 week", "2026-02-02", "UTC")
    made = Recurring.of("Mon-Wed", "18:00", "21:00", 0.1, "30 min", 1.0, zone="UTC", until="2026-02-09")
    (secret,) = made.secrets(week)
    assert Fraction(secret.power) >= 3 * Fraction(0.1) > Fraction(secret.power) - Fraction(1, 2**50)


@pytest.mark.parametrize(
    ("text", "days", "begin", "end", "what"),
    [
        ("every weekday 18:00–21:00, oven, 3 kW, 30 min", range(5), 1080, 1260, "oven"),
        ("every weekday 18:00-21:00, 3 kW, 30 min, oven", range(5), 1080, 1260, "oven"),
        ("Every weekday 18:00 to 21:00; 30 min; 3000 W; oven", range(5), 1080, 1260, "oven"),
        ("every weekday from 6:05 to 07:05, 3 kW, 30 min", range(5), 365, 425, None),
        ("weekdays between 18:00 and 21:00, 3 kW, 30 min", range(5), 1080, 1260, None),
        ("every day 22:00–02:00, 3 kW, 0.5 h", range(7), 1320, 1560, None),
        ("daily 18:00–24:00, 3 kW, 1800 s", range(7), 1080, 1440, None),
        ("every weekend all day, 3 kW, 30 min, sauna", [5, 6], 0, 1440, "sauna"),
        ("every weekend day all-day, 3 kW, 30 min", [5, 6], 0, 1440, None),
        ("every Monday 18:00–21:00, 3 kW, 30 min", [0], 1080, 1260, None),
        ("on Mondays and Thursdays 18:00–21:00, 3 kW, 30 min", [0, 3], 1080, 1260, None),
        ("every Mon, Wed and Fri 18:00–21:00, 3 kW, 30 min", [0, 2, 4], 1080, 1260, None),
        ("every Tue-Thu 18:00–21:00, 3 kW, 30 min", [1, 2, 3], 1080, 1260, None),
        ("every Fri to Mon 18:00–21:00, 3 kW, 30 min", [4, 5, 6, 0], 1080, 1260, None),
    ],
)
def test_sentences_as_people_say_them(text, days, begin, end, what):
    made = parse_recurring(text, epsilon=1.0, zone="UTC")
    assert made == Recurring(frozenset(days), begin, end, 3.0, 30 * MINUTE, 1.0, "UTC", what=what)


def test_a_sentence_may_carry_its_epsilon_and_dates():
    text = "every day 18:00–21:00, 3 kW, 30 min, {} 0.5, since 2026-01-01, until 2027-01-01"
    for word in ("ε", "epsilon", "eps", "epsilon ="):
        made = parse_recurring(text.format(word), epsilon=1.0, zone="UTC")
        assert (made.epsilon, made.since, made.until) == (0.5, datetime.date(2026, 1, 1), datetime.date(2027, 1, 1))


def test_watts_are_not_weeks():
    assert parse_recurring("every day all day, 3 W, 1 h", epsilon=1.0, zone="UTC").power == 0.003


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("every weekdy 18:00–21:00, 3 kW, 30 min", "did you mean 'weekday'"),
        ("18:00–21:00, 3 kW, 30 min", "names no day"),
        ("every weekday, oven, 3 kW, 30 min", "is no recurring secret: write it as"),
        ("every weekday 18:00–25:00, 3 kW, 30 min", "is no recurring secret"),
        ("every weekday 18:00–24:30, 3 kW, 30 min", "at most 24:00"),
        ("every weekday 24:00–03:00, 3 kW, 30 min", "write 00:00"),
        ("every weekday 18:00–18:00, 3 kW, 30 min", "is empty"),
        ("every weekday 18:00–21:00, 30 min", "gives no power: add it, as in '3 kW'"),
        ("every weekday 18:00–21:00, 3 kW", "gives no duration"),
        ("every weekday 18:00–21:00, 3 kw, 30 min", "'3 kw' is no power in kW"),
        ("every weekday 18:00–21:00, 3, 30 min", "'3' has no unit"),
        ("every weekday 18:00–21:00, -3 kW, 30 min", "above 0"),
        ("every weekday 18:00–21:00, 3 kW, 0 min", "above 0"),
        ("every weekday 18:00–21:00, 3 kW, 30 min, 4 kW", "a second time"),
        ("every weekday 18:00–21:00, oven, stove, 3 kW, 30 min", "a second time"),
        ("every weekday 18:00–21:00, 3 kW, 4 h", "18:00–21:00 is shorter than its event"),
        ("every weekday 18:00–21:00, 3 kW, 30 min, epsilon nan", "must be a number"),
        ("every weekday 18:00–21:00, 3 kW, 30 min, since 2027-01-01, until 2026-01-01", "before it begins"),
        ("every weekday 18:00–21:00, 3 kW, 30 min, until soon", "must be a date"),
        ("every weekday 18:00–21:00, 3 kW, 30 min" + ", x" * 1000, "is no recurring secret"),
    ],
)
def test_a_sentence_that_is_unclear_is_refused(text, says):
    with pytest.raises(InvalidInput, match=says):
        parse_recurring(text, epsilon=1.0, zone="UTC")


def test_an_end_a_zone_and_an_epsilon_are_needed():
    text = "every weekday 18:00–21:00, 3 kW, 30 min"
    with pytest.raises(InvalidInput, match="gives no epsilon"):
        parse_recurring(text, zone="UTC")
    with pytest.raises(InvalidInput, match="did you mean 'Europe/Berlin'"):
        parse_recurring(text, epsilon=1.0, zone="Europe/Berln")
    with pytest.raises(InvalidInput, match="needs an end"):
        parse_recurring(text, epsilon=1.0, zone="UTC").secrets(Steps.of("1 h", "2026-01-01"))


# One stretch --------------------------------------------------------------------------------------------------------


def test_a_stretch_of_time_is_every_step_that_it_touches():
    steps = Steps.of("15 min", "2026-02-02T12:00", "Europe/Berlin")
    noon = Secret.between(3.0, "30 min", "2026-02-02T12:00+01:00", "2026-02-02T14:00+01:00", 1.0, steps)
    assert noon == Secret(3.0, 2, 1, 8, 1.0)
    assert Secret.between(
        3.0, "31 min", "2026-02-02T12:14", "2026-02-02T14:01", 1.0, steps, zone="Europe/Berlin"
    ) == Secret(3.0, 3, 1, 9, 1.0)
    clipped = Secret.between(3.0, "2 h", "2026-02-02T10:00", "2026-02-02T12:30", 1.0, steps, zone="Europe/Berlin")
    assert clipped == Secret(3.0, 2, 1, 2, 1.0)
    moment = datetime.datetime(2026, 2, 2, 12, tzinfo=ZoneInfo("Europe/Berlin"))
    assert Secret.between(3.0, datetime.timedelta(minutes=30), moment, moment.replace(hour=14), 1.0, steps) == noon


@pytest.mark.parametrize(
    ("start", "end", "hours"), [("03-27", "04-03", 167), ("10-23", "10-30", 169), ("07-04", "07-11", 168)]
)
def test_a_holiday_of_one_week_is_a_week_of_the_calendar(start, end, hours):
    for width, each in (("15 min", 4), ("1 h", 1)):
        steps = Steps.of(width, f"2026-{start}", "Europe/Berlin")
        week = Secret.between(2.0, "1 week", f"2026-{start}", f"2026-{end}", 0.1, steps, zone="Europe/Berlin")
        assert week == Secret(2.0, hours * each, 1, hours * each, 0.1)
    days = Steps.of("1 day", f"2026-{start}", "Europe/Berlin")
    assert Secret.between(2.0, "1 week", f"2026-{start}", f"2026-{end}", 0.1, days, zone="Europe/Berlin").end == 7


@pytest.mark.parametrize(
    ("start", "end", "zone", "says"),
    [
        (
            "2026-02-02T12:00",
            "2026-02-02T14:00",
            None,
            r"'2026-02-02T12:00' has no zone: write its offset, as in 2026-02-02T12:00\+01:00",
        ),
        ("2026-02-02T12:00Z", "2026-02-02T14:00", None, "'2026-02-02T14:00' has no zone"),
        ("2026-02-02T12:00", "2026-02-02T14:00", "Mars", "unknown zone"),
        ("2026-02-02T12:00Z", "2026-02-02T12:20Z", None, "is 0:20:00 long, shorter than its event"),
        ("2026-02-02T14:00Z", "2026-02-02T12:00Z", None, "it ends before it starts"),
        ("2026-03-29T01:00", "2026-03-29T01:45", "Europe/London", "clocks skip all of it"),
        ("2025-12-02T12:00Z", "2025-12-02T14:00Z", None, "is over before step 1"),
        ("tomorrow", "2025-12-02T14:00Z", None, "is no date"),
        ("9999-12-31", "9999-12-31", "UTC", "outside the years"),
    ],
)
def test_a_stretch_that_means_nothing_is_refused(start, end, zone, says):
    with pytest.raises(InvalidInput, match=says):
        Secret.between(3.0, "30 min", start, end, 1.0, Steps.of("15 min", "2026-01-01"), zone=zone)


@given(st.sampled_from(CHANGES), st.integers(-1440, 2880), st.integers(1, 2880))
def test_a_stretch_of_local_time_equals_the_brute_force(change, begin, length):
    zone, day = change
    found = hull(zone, day, day, begin, begin + length)
    steps = Steps.of("1 min", (day - datetime.timedelta(days=3)).isoformat(), zone)
    start, end = (
        datetime.datetime.combine(day, datetime.time()) + datetime.timedelta(minutes=m) for m in (begin, begin + length)
    )
    if found is None:
        with pytest.raises(InvalidInput, match="no time"):
            Secret.between(1.0, "1 min", start, end, 1.0, steps, zone=zone)
    else:
        made = Secret.between(1.0, "1 min", start.isoformat(), end.isoformat(), 1.0, steps, zone=zone)
        assert (made.start, made.end) == (steps.step(found[0]), steps.step(found[1]))
