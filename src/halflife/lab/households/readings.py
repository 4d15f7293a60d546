"""A small town's electricity, half hour by half hour, for demonstrations and tests.

**What it is.** A simulator with the traits that make such data private and hard to publish: homes of very different size,
appliances that leave marks (a kettle, an oven, a washing machine), mornings and evenings, weekends, holidays when a
home stands empty, and a cold week that moves every heated home at once.

**What it is not.** It is not fitted to any data set and predicts nothing about a real town. Appliances start independently
of each other, homes share nothing but the weather, and the town's clock never changes.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from halflife.errors import InvalidInput
from halflife.numerics.arrays import Floats
from halflife.numerics.parameters import whole

if TYPE_CHECKING:
    import pyarrow as pa

MAX_KWH = 5.0
"""No reading is above this, in kWh per half hour: a public bound, chosen before any data is seen."""

SLOTS_PER_DAY, WH_PER_KWH = 48, 1000
MAX_READINGS = 20_000_000
"""More readings than this would need gigabytes of memory."""


@dataclass(frozen=True, eq=False)
class Readings:
    """What the meters said: `kwh[i, t]` is home i's use in the half hour that begins at `times[t]` (UTC).

    `cold_days` are the days, counted from 0, of the cold week.
    """

    times: NDArray[np.datetime64]
    kwh: Floats
    cold_days: tuple[int, ...]


class Appliance(NamedTuple):
    """A load with a beginning and an end.

    power     kW while it runs;  minutes  how long it runs;  owned  share of homes that have one
    weekday, weekend  uses a day, on average;  hours  (hour of the day, spread in hours, weight) of when it is started
    """

    name: str
    power: float
    minutes: float
    owned: float
    weekday: float
    weekend: float
    hours: tuple[tuple[float, float, float], ...]


APPLIANCES = (
    Appliance("kettle", 2.5, 4, 0.98, 4.0, 5.0, ((7.5, 1.2, 3), (13.0, 2.5, 2), (18.5, 2.5, 3))),
    Appliance("hob", 2.0, 30, 0.60, 0.8, 1.1, ((12.5, 0.8, 1), (18.5, 1.0, 4))),
    Appliance("oven", 2.2, 55, 0.70, 0.35, 0.6, ((12.5, 0.8, 1), (18.2, 0.9, 4))),
    Appliance("washing machine", 0.7, 90, 0.95, 0.45, 0.9, ((10.0, 2.0, 3), (18.0, 2.5, 2))),
    Appliance("dishwasher", 0.8, 100, 0.50, 0.6, 0.8, ((13.5, 1.0, 1), (20.0, 1.2, 3))),
    Appliance("shower", 8.5, 7, 0.45, 1.4, 1.4, ((7.2, 0.9, 3), (21.5, 1.2, 1))),
    Appliance("tumble dryer", 2.3, 60, 0.35, 0.3, 0.6, ((12.0, 2.5, 2), (20.0, 1.5, 2))),
)


def simulate(households: int, days: int, start: datetime.datetime, seed: int) -> Readings:
    """Return the readings of so many homes from `start` on; the same seed gives the same town.

    The town lives on UTC: a `start` with a time zone is converted, one without is taken as it is. The cold week lies
    somewhere in the middle; with fewer than 21 days it lasts a third of them.

    >>> town = simulate(households=3, days=2, start=datetime.datetime(2024, 1, 8), seed=1)
    >>> town.kwh.shape, town.times[1]
    ((3, 96), np.datetime64('2024-01-08T00:30:00'))
    >>> bool(town.kwh.min() >= 0 and town.kwh.max() <= MAX_KWH)
    True
    """
    homes, length = whole("households", households, least=1), whole("days", days, least=1)
    if homes * length * SLOTS_PER_DAY > MAX_READINGS:
        raise InvalidInput(
            f"{homes} households for {length} days are {homes * length * SLOTS_PER_DAY:,} readings; the simulator holds "
            f"at most {MAX_READINGS:,} in memory: ask for fewer households or days"
        )
    rng = np.random.default_rng(whole("seed", seed, least=0))
    times = _half_hours(start, length * SLOTS_PER_DAY)
    cold = _cold_week(length, rng)
    activity = rng.lognormal(0.0, 0.35, (homes, 1)) * _at_home(homes, length, rng)
    kwh = _always_on(homes, len(times), rng)
    kwh += activity * _lights_and_screens(homes, times, rng)
    for appliance in APPLIANCES:
        _add_uses(kwh, appliance, activity, times, rng)
    kwh += _heating(homes, times, cold, rng)
    return Readings(times, np.clip(kwh, 0.0, MAX_KWH, out=kwh), cold)


def mean_per_home(kwh: Floats) -> Floats:
    """Return the mean of each half hour over the homes, in kWh: whole Wh, clipped, added up exactly, divided once.

    >>> mean_per_home(np.array([[0.2, 7.0], [0.1004, -1.0]]))
    array([0.15, 2.5 ])
    """
    if not (np.abs(kwh) < 1e12).all():
        raise InvalidInput(
            "a reading is NaN, infinite or absurdly large: leave bad readings out before the mean is taken"
        )
    watt_hours = np.floor(kwh * WH_PER_KWH + 0.5).astype(np.int64)
    totals = np.clip(watt_hours, 0, round(MAX_KWH * WH_PER_KWH)).sum(axis=0)
    means: Floats = totals / (WH_PER_KWH * len(kwh))
    return means


def _half_hours(start: datetime.datetime, count: int) -> NDArray[np.datetime64]:
    """The starts of so many half hours, in UTC."""
    if not isinstance(start, datetime.datetime):
        raise InvalidInput(f"start must be a datetime, not {start!r}")
    if start.tzinfo is not None:
        start = start.astimezone(datetime.UTC).replace(tzinfo=None)
    try:
        start + datetime.timedelta(minutes=30) * count
    except OverflowError:
        raise InvalidInput(f"{count} half hours from {start} on leave the calendar: begin earlier") from None
    return np.datetime64(start, "s") + np.arange(count) * np.timedelta64(30, "m")


def _hour_of_day(times: NDArray[np.datetime64]) -> Floats:
    hours: Floats = (times - times.astype("datetime64[D]")) / np.timedelta64(1, "h")
    return hours


def _is_weekend(times: NDArray[np.datetime64]) -> NDArray[np.bool_]:
    days_since_epoch = times.astype("datetime64[D]").astype(np.int64)
    return (days_since_epoch + 3) % 7 >= 5  # 1 January 1970 was a Thursday, day 3 of a week that begins on Monday


def _bumps(hour: Floats, bumps: tuple[tuple[float, float, float], ...]) -> Floats:
    """A sum of weighted bell curves on the circle of 24 hours."""
    total = np.zeros_like(hour)
    for centre, spread, weight in bumps:
        distance = (hour - centre + 12) % 24 - 12
        total += weight * np.exp(-0.5 * (distance / spread) ** 2)
    return total


def _cold_week(days: int, rng: np.random.Generator) -> tuple[int, ...]:
    """The days of the cold week: somewhere in the middle half of the run."""
    length = min(7, days // 3)
    first = int(rng.integers(days // 4, max(days // 4, 3 * days // 4 - length) + 1))
    return tuple(range(first, first + length))


def _at_home(homes: int, days: int, rng: np.random.Generator) -> Floats:
    """Each half hour 1, or 0 during the one holiday of 3 to 10 days that a quarter of the homes take."""
    first = rng.integers(-10, days, (homes, 1))
    length = rng.integers(3, 11, (homes, 1)) * (rng.random((homes, 1)) < 0.25)
    day = np.arange(days)
    away = (day >= first) & (day < first + length)
    return np.repeat(np.where(away, 0.0, 1.0), SLOTS_PER_DAY, axis=1)


def _always_on(homes: int, slots: int, rng: np.random.Generator) -> Floats:
    """Standby, and a fridge whose compressor runs about 40 % of an irregular cycle of one to two hours."""
    standby = rng.lognormal(np.log(0.05), 0.5, (homes, 1))
    cycle = rng.uniform(2.0, 4.0, (homes, 1))
    phase = rng.random((homes, 1))
    fridge = 0.03 * (1 + 0.6 * np.sin(2 * np.pi * (np.arange(slots) / cycle + phase)))
    return standby + fridge


def _lights_and_screens(homes: int, times: NDArray[np.datetime64], rng: np.random.Generator) -> Floats:
    """What people switch on when they are up, above all in the evening; longer mornings at the weekend."""
    hour = _hour_of_day(times)
    weekday = _bumps(hour, ((7.3, 1.0, 0.06), (13.0, 3.0, 0.03), (20.0, 2.2, 0.20)))
    weekend = _bumps(hour, ((9.3, 1.6, 0.06), (14.0, 3.0, 0.06), (20.3, 2.4, 0.20)))
    shape = np.where(_is_weekend(times), weekend, weekday)
    return shape * rng.gamma(4.0, 0.25, (homes, len(times)))


def _add_uses(
    kwh: Floats, appliance: Appliance, activity: Floats, times: NDArray[np.datetime64], rng: np.random.Generator
) -> None:
    """Add the uses of one appliance: each starts by chance at the beginning of a half hour and runs its minutes."""
    homes, slots = kwh.shape
    when = _bumps(_hour_of_day(times), appliance.hours)
    whole_day = _bumps(np.arange(SLOTS_PER_DAY) / 2, appliance.hours).sum()
    uses = np.where(_is_weekend(times), appliance.weekend, appliance.weekday) * when / whole_day
    owns = rng.random((homes, 1)) < appliance.owned
    started = rng.random((homes, slots)) < uses * owns * activity
    left, slot = appliance.minutes, 0
    while left > 0 and slot < slots:
        kwh[:, slot:] += (appliance.power * min(left, 30.0) / 60) * started[:, : slots - slot]
        left, slot = left - 30.0, slot + 1


def _heating(homes: int, times: NDArray[np.datetime64], cold: tuple[int, ...], rng: np.random.Generator) -> Floats:
    """Electric heating in a third of the homes, in proportion to how far the weather lies below 15 °C."""
    hour = _hour_of_day(times)
    day = np.arange(len(times)) // SLOTS_PER_DAY
    weather = rng.normal(9.0, 1.5, day[-1] + 1)
    weather[list(cold)] -= 9.0
    celsius = weather[day] + 2.5 * np.cos(2 * np.pi * (hour - 15) / 24)
    asked = 0.3 + _bumps(hour, ((7.0, 1.2, 0.8), (19.0, 2.5, 1.0)))
    kwh_per_degree = np.where(rng.random((homes, 1)) < 0.35, rng.lognormal(np.log(0.05), 0.4, (homes, 1)), 0.0)
    chance = rng.gamma(8.0, 1 / 8.0, (homes, len(times)))
    heated: Floats = kwh_per_degree * chance * (asked * np.maximum(15.0 - celsius, 0.0))
    return heated


def readings_table(town: Readings) -> pa.Table:
    """Return the readings as meters send them: home, time, kWh; one row a reading, in the order of time."""
    import pyarrow as pa

    homes, slots = town.kwh.shape
    names = pa.array([f"home-{i:04d}" for i in range(1, homes + 1)])
    which = pa.DictionaryArray.from_arrays(np.tile(np.arange(homes, dtype=np.int32), slots), names)
    times = pa.array(np.repeat(town.times.astype("datetime64[us]"), homes))
    return pa.table(
        {
            "home": which.cast(pa.string()),
            "time": times.cast(pa.timestamp("us", tz="UTC")),
            "kwh": town.kwh.T.reshape(-1),
        }
    )
