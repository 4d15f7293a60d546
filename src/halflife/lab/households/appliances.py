"""Households and every cycle of their appliances, and the secrets that the Swellfish paper's evaluation makes of them.

**What it is.** A generator like the one the paper used (its reference [24], Gottwalt et al. 2011): households of different
size and habits, the appliances they own, and each cycle with its start, length and power, by time of day, weekday,
season and holiday. All figures are published ones and stand with their sources in `appliance_statistics` (ours: how they
are put together). Nothing is fitted to the paper's results.

**How a cycle comes about.** The uses of an appliance are a Poisson process whose rate follows the hour, the day and the
household; compressors run all day at nearly regular intervals. A cycle occupies every step that it touches. One that
would begin before the last of the same appliance has ended waits for its end, so the number of cycles stays right.

**What it is not.** Appliances start independently of each other, a household travels together, the clock is UTC and never
changes, and cycles that began before the first step are missing. As televisions and computers run long, many of their
cycles wait: 8 to 9 % of them begin between one and six in the morning, where the table has 2 %.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from halflife.errors import InvalidInput, unknown
from halflife.lab.households import appliance_statistics as table
from halflife.lab.households.appliance_statistics import APPLIANCES, Appliance
from halflife.numerics.arrays import Floats
from halflife.numerics.parameters import real, whole

if TYPE_CHECKING:
    import pyarrow as pa

MAX_CYCLES = 100_000_000
"""More cycles than this would need several gigabytes of memory."""

DAY, YEAR = 24 * 60, 365.25
BLOCK = 16
"""Households that are drawn and sorted together: memory beyond the result does not grow with the number of households."""

AT_HOME = 1 - (table.MAIN_TRIP + table.SECOND_TRIP) * sum(table.TRIP_DAYS) / 2 / YEAR
"""Share of the days that a household is at home, on average."""

Ints = NDArray[np.int64]


class Cycles(NamedTuple):
    """Columns with one row per cycle, ordered by household, then start; a cycle occupies start … start + duration − 1.

    household   index from 0 (int32);  appliance  index into `Town.appliances` (int8)
    start       first step, from 1 (int64);  duration  T ≥ 1 in steps (int32);  power  kW, the maximum (float64)
    """

    household: NDArray[np.int32]
    appliance: NDArray[np.int8]
    start: Ints
    duration: NDArray[np.int32]
    power: Floats


@dataclass(frozen=True, eq=False)
class Town:
    """What `generate` returns.

    people    of each household, 5 for five and more;  habits  how much it uses what `grows`, 1 on average
    owned     [household, appliance];  ratings  kW, [household, appliance];  away  [household, day], days from 0
    """

    steps: int
    step_minutes: int
    start: datetime.datetime
    appliances: tuple[Appliance, ...]
    people: NDArray[np.int8]
    habits: Floats
    owned: NDArray[np.bool_]
    ratings: Floats
    away: NDArray[np.bool_]
    cycles: Cycles

    @property
    def days(self) -> float:
        """How long the run is."""
        return self.steps * self.step_minutes / DAY

    def code(self, name: str) -> int:
        """The index of an appliance."""
        names = [appliance.name for appliance in self.appliances]
        if name not in names:
            raise unknown("appliance", name, names)
        return names.index(name)

    def private(self) -> NDArray[np.bool_]:
        """Which cycles show what people do: all but those of fridge and freezer (paper, Section VI-A3)."""
        return np.array([appliance.private for appliance in self.appliances])[self.cycles.appliance]


class Summary(NamedTuple):
    """A town in numbers. `kwh` is by appliance, per household (owner or not) and year: cycles times a cycle's mean energy."""

    cycles: int
    secrets: int
    secrets_per_household_and_day: float
    longest: int
    largest_power: float
    kwh: dict[str, float]


def generate(households: int, steps: int, start: datetime.datetime, seed: int, step_minutes: int = 15) -> Town:
    """Return a town's households and all cycles of their appliances from `start` on; the same seed gives the same town.

    The town lives on UTC: a `start` with a time zone is converted, one without is taken as it is. (ours, after Gottwalt et
    al. 2011 and Richardson et al. 2010)

    >>> town = generate(households=3, steps=7 * 96, start=datetime.datetime(2004, 1, 1), seed=1)
    >>> town.people, len(town.cycles.start) > 300
    (array([2, 4, 1], dtype=int8), True)
    """
    homes, length = whole("households", households, least=1), whole("steps", steps, least=1)
    minutes = whole("step_minutes", step_minutes, least=1)
    if minutes > 30 or 60 % minutes:
        raise InvalidInput(f"step_minutes must divide an hour and be at most 30, not {minutes}: take 15")
    begin = _utc(start, length * minutes)
    _refuse_too_many(homes, length * minutes / DAY)
    rng = np.random.default_rng(whole("seed", seed, least=0))
    people = (1 + rng.choice(len(table.SIZES), homes, p=table.SIZES)).astype(np.int8)
    habits = rng.uniform(*table.HABITS, homes)
    owned = rng.random((homes, len(APPLIANCES))) < np.array([a.owned for a in APPLIANCES]).T[people - 1]
    away = _trips(homes, begin, -(-length * minutes // DAY) + 1, rng)
    spread = np.clip(rng.standard_normal(owned.shape), -3, 3) * table.RATING_SPREAD
    ratings = np.array([a.power for a in APPLIANCES]) * (1 + spread)
    town = Town(length, minutes, begin, APPLIANCES, people, habits, owned, ratings, away, _join([]))
    clocks = [_cumulative(town, appliance) for appliance in APPLIANCES]
    return replace(town, cycles=_join([_block(town, first, clocks, rng) for first in range(0, homes, BLOCK)]))


def expected_uses(appliance: Appliance) -> Floats:
    """Return the cycles a year of an owner with 1, 2, 3, 4, 5 people and mean habits.

    With n_k the share of households of k people, o_k that of owners among them and c the electricity of fridge and
    freezer, uses grow as f_k = kwh_k − c, scaled so that Σ n_k o_k f_k / Σ n_k o_k is the table's figure. (ours)

    >>> by_name = {appliance.name: appliance for appliance in APPLIANCES}
    >>> expected_uses(by_name["kettle"]).round(), expected_uses(by_name["fridge"])
    (array([ 928., 1634., 2227., 2488., 2784.]), array([6116., 6116., 6116., 6116., 6116.]))
    """
    sizes, kwh = np.array(table.SIZES), np.array(table.KWH_BY_SIZE)
    factor = kwh - table.COLD_SHARE * (sizes @ kwh) if appliance.grows else np.ones(len(sizes))
    owners = sizes * appliance.owned
    uses: Floats = appliance.uses * factor * (owners.sum() / (owners @ factor))
    return uses


def secrets_of(town: Town, seed: int, epsilon: tuple[float, float] = (0.1, 1.0)) -> pa.Table:
    """Return one secret for every cycle but those of fridge and freezer, as in the paper's evaluation (Section VI-A3). (paper)

    ε is uniform between the two given; the hiding interval is [start − 2T, end + 2T], cut at the ends of the run.
    Columns: household, appliance, power (kW), duration (T in steps), start and end (of the hiding interval), epsilon.

    >>> town = generate(households=2, steps=96, start=datetime.datetime(2004, 1, 1), seed=1)
    >>> secrets_of(town, seed=1).column_names
    ['household', 'appliance', 'power', 'duration', 'start', 'end', 'epsilon']
    """
    import pyarrow as pa

    low, high = (real("epsilon", value, positive=True) for value in epsilon)
    if low > high:
        raise InvalidInput(f"epsilon must be given as (least, greatest), not ({low}, {high})")
    rng = np.random.default_rng(whole("seed", seed, least=0))
    mask, cycles = town.private(), town.cycles
    duration = cycles.duration[mask].astype(np.int64)
    start = cycles.start[mask]
    end = np.minimum(start + 3 * duration - 1, town.steps)
    start = np.maximum(start - 2 * duration, 1)
    width = len(str(len(town.people)))
    names = [f"household-{number:0{width}d}" for number in range(1, len(town.people) + 1)]
    kinds = [appliance.name for appliance in town.appliances]
    columns = {
        "household": pa.DictionaryArray.from_arrays(cycles.household[mask], pa.array(names)),
        "appliance": pa.DictionaryArray.from_arrays(cycles.appliance[mask], pa.array(kinds)),
        "power": cycles.power[mask],
        "duration": duration,
        "start": start,
        "end": end,
        "epsilon": rng.uniform(low, high, len(start)),
    }
    return pa.table(columns)


def summary(town: Town) -> Summary:
    """Return a town's main numbers; `longest` (in steps) and `largest_power` (kW) are over the secrets. (ours)"""
    cycles, mask = town.cycles, town.private()
    homes, kinds = len(town.people), len(town.appliances)
    power = np.bincount(cycles.appliance, weights=cycles.power, minlength=kinds)
    kwh = {
        a.name: float(power[i] / a.power * a.mean_power * a.minutes / 60 / homes / town.days * YEAR)
        for i, a in enumerate(town.appliances)
    }
    secrets = int(mask.sum())
    longest = int(cycles.duration.max(where=mask, initial=0))
    largest = float(cycles.power.max(where=mask, initial=0.0))
    return Summary(len(mask), secrets, secrets / homes / town.days, longest, largest, kwh)


def _cumulative(town: Town, appliance: Appliance) -> Floats:
    """Expected cycles from the first step to the end of each, of somebody at home, per one cycle a year."""
    minute = _minute_of_first_day(town, np.arange(town.steps))
    date = town.start.date()
    weekend = (date.weekday() + minute // DAY) % 7 >= 5
    day_of_year = date.timetuple().tm_yday + minute // DAY
    weekday_weights, weekend_weights = (np.array(w, dtype=np.float64) for w in table.PROFILES[appliance.profile])
    daily = (5 * weekday_weights.sum() + 2 * weekend_weights.sum()) / 7
    hour = minute % DAY // 60
    weight = np.where(weekend, weekend_weights[hour], weekday_weights[hour]) * (town.step_minutes / 60) / daily
    season = 1 + appliance.winter * np.cos(2 * np.pi * (day_of_year - 15) / YEAR)
    total: Floats = np.concatenate([[0.0], np.cumsum(weight * season)]) / (YEAR * AT_HOME)
    return total


def _minute_of_first_day(town: Town, step: Ints) -> Ints:
    """Minutes from the first day's midnight to the beginning of a step counted from 0."""
    return town.start.hour * 60 + town.start.minute + step * town.step_minutes


def _block(town: Town, first: int, clocks: list[Floats], rng: np.random.Generator) -> Cycles:
    """All cycles of the households `first` … `first` + BLOCK − 1, in order."""
    parts = [_cycles(town, first, code, clock, rng) for code, clock in enumerate(clocks)]
    together = _join(parts)
    order = np.argsort(together.household * np.int64(town.steps + 1) + together.start, kind="stable")
    return Cycles._make(column[order] for column in together)


def _cycles(town: Town, first: int, code: int, clock: Floats, rng: np.random.Generator) -> Cycles:
    """The cycles of one appliance in these households, in order."""
    appliance = town.appliances[code]
    owners = first + np.flatnonzero(town.owned[first : first + BLOCK, code])
    if appliance.private:
        yearly = expected_uses(appliance)[town.people[owners] - 1]
        yearly = yearly * town.habits[owners] if appliance.grows else yearly
        home, when = _by_chance(clock, owners, yearly, rng)
    else:
        home, when = _by_thermostat(town, appliance, owners, rng)
    begin = when.astype(np.int64)
    duration = _steps_touched(when - begin, _minutes(appliance, len(when), rng), town.step_minutes)
    begin = _one_at_a_time(home, begin, duration, town.steps)
    kept = begin < town.steps
    if appliance.private:
        kept[kept] = ~town.away[home[kept], _minute_of_first_day(town, begin[kept]) // DAY]
    home, begin, duration = home[kept], begin[kept], np.minimum(duration, town.steps - begin)[kept]
    kind = np.full(len(home), code, np.int8)
    return Cycles(home.astype(np.int32), kind, begin + 1, duration.astype(np.int32), town.ratings[home, code])


def _by_chance(clock: Floats, owners: Ints, yearly: Floats, rng: np.random.Generator) -> tuple[Ints, Floats]:
    """Uses as a Poisson process: household and time in steps, in order."""
    home = np.repeat(np.arange(len(owners)), rng.poisson(yearly * clock[-1]))
    place = np.sort(home + rng.random(len(home))) - home
    steps = len(clock) - 1
    when = np.interp(place * clock[-1], clock, np.arange(steps + 1.0))
    return owners[home], np.minimum(when, np.nextafter(steps, 0))


def _by_thermostat(town: Town, appliance: Appliance, owners: Ints, rng: np.random.Generator) -> tuple[Ints, Floats]:
    """Cycles of a compressor: one in each period, moved by up to a quarter of it either way."""
    period = YEAR * DAY / appliance.uses / town.step_minutes
    number = np.arange(-1, int(town.steps / period) + 2)
    shape = (len(owners), len(number))
    when = (number + rng.random((len(owners), 1)) + rng.uniform(-0.25, 0.25, shape)) * period
    home = np.broadcast_to(owners[:, None], shape)
    inside = (when >= 0) & (when < town.steps)
    return home[inside], when[inside]


def _minutes(appliance: Appliance, count: int, rng: np.random.Generator) -> Floats:
    """Lengths of cycles: gamma with the table's mean and spread."""
    shape = appliance.spread**-2
    lengths: Floats = rng.standard_gamma(shape, count) * (appliance.minutes / shape)
    return np.minimum(lengths, table.LONGEST_MINUTES, out=lengths)


def _steps_touched(into: Floats, minutes: Floats, step_minutes: int) -> Ints:
    """How many steps a cycle touches that begins `into` (a share of) its first step."""
    touched: Ints = np.maximum(np.ceil(into + minutes / step_minutes), 1).astype(np.int64)
    return touched


def _one_at_a_time(home: Ints, begin: Ints, duration: Ints, steps: int) -> Ints:
    """The start of each cycle when it waits for the end of the household's last: s_i = max(c_i, s_{i−1} + T_{i−1}).

    With S_i = T_1 + … + T_{i−1} this is s_i = S_i + max over j ≤ i of (c_j − S_j); the households are set so far apart that
    none waits for another.
    """
    if not len(begin):
        return begin
    before = np.cumsum(duration) - duration
    apart = (home - home[0]) * (steps + int(before[-1]) + 1)
    starts: Ints = np.maximum.accumulate(begin - before + apart) + before - apart
    return starts


def _trips(homes: int, begin: datetime.datetime, days: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """[household, day]: True while a household is on a holiday trip."""
    edges = np.zeros((homes, days + 1), dtype=np.int8)
    everyone, shortest, longest = np.arange(homes), *table.TRIP_DAYS
    first = begin.date().toordinal()
    last_year = datetime.date.fromordinal(min(first + days, datetime.date.max.toordinal())).year
    for year in range(max(begin.year - 1, 1), last_year + 1):
        january = datetime.date(year, 1, 1).toordinal() - first
        for chance, summer_share in ((table.MAIN_TRIP, table.SUMMER_SHARE), (table.SECOND_TRIP, 0.0)):
            summer = rng.random(homes) < summer_share
            leave = january + np.where(summer, rng.integers(151, 243, homes), rng.integers(0, 365, homes))
            back = leave + rng.integers(shortest, longest + 1, homes)
            goes = everyone[rng.random(homes) < chance]
            np.add.at(edges, (goes, np.clip(leave[goes], 0, days)), 1)
            np.add.at(edges, (goes, np.clip(back[goes], 0, days)), -1)
    return np.cumsum(edges[:, :-1], axis=1, dtype=np.int8) > 0


def _join(parts: list[Cycles]) -> Cycles:
    """One table of all parts, column by column, so that little is held twice; empties the list."""
    empty = Cycles._make(np.empty(0, kind) for kind in (np.int32, np.int8, np.int64, np.int32, np.float64))
    lists = [list(column) for column in zip(empty, *parts, strict=True)]
    parts.clear()
    return Cycles._make(np.concatenate(lists.pop(0)) for _ in range(len(lists)))


def _utc(start: datetime.datetime, minutes: int) -> datetime.datetime:
    """The start on the town's clock."""
    if not isinstance(start, datetime.datetime):
        raise InvalidInput(f"start must be a datetime, not {start!r}")
    if start.tzinfo is not None:
        start = start.astimezone(datetime.UTC).replace(tzinfo=None)
    try:
        start + datetime.timedelta(minutes=minutes) + datetime.timedelta(days=2)
    except OverflowError:
        raise InvalidInput(f"{minutes} minutes from {start} on leave the calendar: begin earlier") from None
    return start


def _refuse_too_many(homes: int, days: float) -> None:
    """Refuse a town that would not fit into memory."""
    a_day = sum(float(np.array(table.SIZES) @ (np.array(a.owned) * expected_uses(a))) for a in APPLIANCES) / YEAR
    if homes * days * a_day > MAX_CYCLES:
        raise InvalidInput(
            f"{homes} households for {days:,.0f} days have about {homes * days * a_day:,.0f} cycles; the generator holds at "
            f"most {MAX_CYCLES:,} in memory: ask for fewer households or steps"
        )
