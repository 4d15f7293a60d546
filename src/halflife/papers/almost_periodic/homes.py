"""The almost-periodic paper: the data that is at hand, what a home repeats and what varies, and how far habits drift.

The paper tests single homes of Ausgrid and of UMass; neither file is at hand. London's homes stand in for both, and Ausgrid's
sum over 300 homes is enough for what is published of it (Figures 7 and 8), as that needs the mean alone.
"""

from __future__ import annotations

import datetime
import math
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from halflife.errors import InvalidInput
from halflife.lab.data import AUSGRID
from halflife.lab.households.readings import MAX_KWH, SLOTS_PER_DAY, simulate
from halflife.numerics.arrays import Floats
from halflife.papers.figures import AUSGRID_HOMES, DASH, DOT, Curve, Panel, read_london

BOUND_KWH, BOUND_WHY = 10.0, "20 kW for a whole half hour; a supply of 80 A at 230 V carries 18.4 kW"
LEAST_READINGS = 17_500
DAY, WEEK = SLOTS_PER_DAY, 7 * SLOTS_PER_DAY
MONTH_DAYS = 30
BARELY_USED = 0.01
"""Homes that use less on average, in kWh per half hour, are all but empty: two of London's 269."""

WHERE_TO_GET = (
    "The real data is not here. The London Datastore publishes it as 'SmartMeter Energy Consumption Data in London "
    "Households', Ausgrid as 'Solar home electricity data'; give the folder with --data or HALFLIFE_DATA. Running on generated "
    "homes."
)
NOT_AT_HAND = (
    "The paper's two sets of single homes are not at hand: neither Ausgrid's 300 homes nor UMass's 114. Figures 2 to 6 are "
    "drawn for {name} instead, and no coefficient of the paper can be checked on its own data."
)


class ReadOff(NamedTuple):
    """Ranges in kWh that were read off the data, as the paper does: of patterns z, of variations w, of readings x."""

    z: float
    w: float
    x: float


@dataclass(frozen=True, eq=False)
class Stream:
    """A mean that is published every half hour.

    mean       of each half hour, kWh per home;  homes  how many it is over;  start  its first day
    bound      a public bound on readings, in kWh;  bound_why  where it comes from;  absent  steps at which a reading is missing
    read_off   what the data itself shows, None where single homes are not at hand
    """

    name: str
    mean: Floats
    homes: int
    start: datetime.date
    bound: float
    bound_why: str
    absent: int
    read_off: ReadOff | None = None

    @property
    def sensitivity(self) -> float:
        """Δf_z = Δf_w = Δf = bound / n: z, and z + w with any w, lie between 0 and the bound."""
        return self.bound / self.homes

    @property
    def horizon(self) -> int:
        """How many half hours there are."""
        return len(self.mean)


@dataclass(frozen=True, eq=False)
class Source:
    """Readings of single homes, NaN where one is missing: `homes[i, t]` in kWh; and the means that are published.

    first, second  the streams of Figures 7 and 8, and of Figures 9 and 10
    """

    name: str
    homes: Floats
    start: datetime.date
    first: Stream
    second: Stream
    notes: tuple[str, ...]
    real: bool


# The data -----------------------------------------------------------------------------------------------------------


def real_source(folder: Path) -> Source:
    """Return London's homes with at least 17,500 readings in 2013, their mean, and Ausgrid's mean of July 2012 to June 2013."""
    homes = read_london(folder, LEAST_READINGS)
    name = f"London, {len(homes)} homes, 2013"
    london = _stream(name, homes, datetime.date(2013, 1, 1), BOUND_KWH, BOUND_WHY)
    ausgrid = _ausgrid(folder)
    notes = (
        NOT_AT_HAND.format(name=name),
        "Figures 7 and 8 are Ausgrid's: the mean needs only the sum over its 300 homes, which is at hand. Figures 9 and 10 are "
        f"{name}, in the place of UMass.",
        f"{int(np.isnan(homes).sum()):,} of {homes.size:,} readings of these London homes are missing, at {london.absent:,} of "
        f"{london.horizon:,} half hours; here the mean is over those that are there. Ausgrid's clock change leaves "
        f"{ausgrid.absent} half hours at 0. A real weak release would be refused for either (P4).",
    )
    return Source(name, homes, london.start, ausgrid, london, notes, True)


def generated_source(seed: int, homes: int = 120, days: int = 365) -> Source:
    """Return generated homes, which stand in for all sets."""
    town = simulate(homes, days, datetime.datetime(2013, 1, 1), seed)
    name = f"{homes:,} generated homes (seed {seed})"
    stream = _stream(name, town.kwh, datetime.date(2013, 1, 1), MAX_KWH, "the simulator's own limit")
    return Source(name, town.kwh, stream.start, stream, stream, (WHERE_TO_GET, NOT_AT_HAND.format(name=name)), False)


def _ausgrid(folder: Path) -> Stream:
    import duckdb

    with duckdb.connect() as database:
        rows = database.execute(
            "SELECT gross_load_kwh AS kwh FROM read_parquet(?) WHERE interval_start >= TIMESTAMP '2012-07-01' "
            "AND interval_start < TIMESTAMP '2013-07-01' ORDER BY interval_start",
            [str(folder / AUSGRID)],
        ).fetchnumpy()  # fmt: skip
    mean = np.asarray(rows["kwh"], dtype=np.float64) / AUSGRID_HOMES
    name, start = "Ausgrid, mean of 300 homes, July 2012 to June 2013", datetime.date(2012, 7, 1)
    return Stream(name, mean, AUSGRID_HOMES, start, BOUND_KWH, BOUND_WHY, int((mean == 0).sum()))


def _stream(name: str, homes: Floats, start: datetime.date, bound: float, why: str) -> Stream:
    if np.isnan(homes).all(axis=0).any():
        raise InvalidInput("at some half hour no home has a reading: leave that half hour out")
    z, w = split_pattern(homes, DAY)
    seen = ReadOff(
        float(z.max() - z.min()), float(np.nanmax(w) - np.nanmin(w)), float(np.nanmax(homes) - np.nanmin(homes))
    )
    absent = int(np.isnan(homes).any(axis=0).sum())
    return Stream(name, np.nanmean(homes, axis=0), len(homes), start, bound, why, absent, seen)


def split_pattern(homes: Floats, period: int) -> tuple[Floats, Floats]:
    """Return what each home repeats, z (its mean period, as in Section 4.2), and the variations w = x − z, NaN where x is.

    >>> z, w = split_pattern(np.array([[1.0, 2.0, 3.0, np.nan]]), 2)
    >>> z, w
    (array([[2., 2.]]), array([[[-1.,  0.],
            [ 1., nan]]]))
    """
    whole_periods = homes.shape[1] // period
    if whole_periods < 1:
        raise InvalidInput(f"a period of {period} steps needs as many readings, not {homes.shape[1]}")
    folded = homes[:, : whole_periods * period].reshape(len(homes), whole_periods, period)
    z: Floats = np.nanmean(folded, axis=1)
    return z, folded - z[:, None, :]


# Figure 1 -----------------------------------------------------------------------------------------------------------


def figure_1_data(source: Source, seed: int = 1) -> tuple[Panel, ...]:
    """Return the paper's kind of example, T = 10 and a week of a middling home (Figure 1; recomputed, amplitudes ours)."""
    rng = np.random.default_rng(seed)
    steps = np.arange(60.0)
    wave = np.sin(2 * math.pi * steps / 10)
    level = np.repeat(rng.uniform(-0.5, 0.5, 6), 10) + rng.uniform(-0.1, 0.1, 60)
    example = Panel(
        "1a", "an almost periodic series, T = 10", "As in the paper: a sine of period 10, and on top of it a level for each "
        "period and a little noise. The paper prints no amplitudes; these are ours.", "step", "value", steps,
        (Curve("x = z + w", wave + level), Curve("z, what repeats", wave, 1, DASH), Curve("w, variations", level, 2, DOT)),
    )  # fmt: skip
    return example, _week_of_a_home(source)


def _week_of_a_home(source: Source) -> Panel:
    z, w = split_pattern(source.homes, DAY)
    home = median_home(z)
    day = min(w.shape[1] - 1, first_monday(source.start, w.shape[1] // 2))
    days = min(7, w.shape[1] - day)
    shown = w[home, day : day + days].reshape(-1)
    pattern = np.tile(z[home], days)
    varies = 100 * float(np.nanmean(w[home] ** 2)) / float(np.nanmean((w[home] + z[home]) ** 2))
    first = source.start + datetime.timedelta(days=day)
    return Panel(
        "1b", "a week of a home", f"{source.name}: the home whose use is the median. What it repeats is its mean day; "
        f"variations hold {varies:.0f} % of the squares of its readings: they are no small noise, and weak privacy publishes "
        "them exactly.", f"days from {first:%A, %-d %B %Y}", "kWh in the half hour", np.arange(len(shown)) / DAY,
        (
            Curve("x, the reading", pattern + shown), Curve("z, what repeats", pattern, 1, DASH),
            Curve("w, variations", shown, 2, DOT),
        ),
    )  # fmt: skip


def median_home(z: Floats) -> int:
    """Return the home whose mean use is the median (the lower one of two)."""
    order = np.argsort(z.mean(axis=1), kind="stable")
    return int(order[(len(order) - 1) // 2])


def first_monday(start: datetime.date, after: int) -> int:
    """Return the first Monday that lies at least so many days after the start, as days after it.

    >>> first_monday(datetime.date(2013, 1, 1), 0)
    6
    """
    return after + -(start + datetime.timedelta(days=after)).weekday() % 7


# What variations tell (P5), and how far habits drift ----------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class PatternSize:
    """P5: the correlation of log sd w and log mean z over homes that use anything, and over those that are not all but empty."""

    every_home: float
    lived_in: float
    homes: int
    lived_in_homes: int
    panel: Panel


def pattern_size_data(source: Source) -> PatternSize:
    """Return how much the size of a home's variations tells about the size of its pattern."""
    z, w = split_pattern(source.homes, DAY)
    size, spread = z.mean(axis=1), np.sqrt(np.nanmean(w**2, axis=(1, 2)))
    used, lived_in = (size > 0) & (spread > 0), (size >= BARELY_USED) & (spread > 0)
    every, most = _log_correlation(spread, size, used), _log_correlation(spread, size, lived_in)
    panel = Panel(
        "P5", "what variations tell about what repeats", f"{source.name}; each ring is a home. Weak privacy publishes "
        f"variations, and their size tells the size of the pattern: correlation of the logarithms {every:.2f}, and {most:.2f} "
        "without homes that are all but empty.", "mean of z (kWh per half hour)", "standard deviation of w", size[used],
        (Curve("a home", spread[used], marks=True),), log_x=True, log_y=True,
    )  # fmt: skip
    return PatternSize(every, most, int(used.sum()), int(lived_in.sum()), panel)


def _log_correlation(a: Floats, b: Floats, of: NDArray[np.bool_]) -> float:
    return float(np.corrcoef(np.log(a[of]), np.log(b[of]))[0, 1]) if of.sum() > 2 else math.nan


@dataclass(frozen=True, eq=False)
class Drift:
    """How far a home's mean day of one month lies from that of a month k later, over the size of its mean day of the year.

    months  k;  middle, tenth  the median home, and the one that a tenth of homes lie above
    chance  the median with all days in random order: what is left if nobody drifts
    """

    months: NDArray[np.int64]
    middle: Floats
    tenth: Floats
    chance: Floats


def drift_data(source: Source, days: int = MONTH_DAYS, seed: int = 1) -> Drift:
    """Return ‖z_m − z_{m+k}‖/‖z‖, averaged over m for each home, with months of 30 days; and the same with days shuffled."""
    z, w = split_pattern(source.homes, DAY)
    folded, blocks = w + z[:, None, :], w.shape[1] // days
    if blocks < 2:
        raise InvalidInput(f"drift needs two months of {days} days at least, not {w.shape[1]} days")
    kept = np.linalg.norm(z, axis=1) > 0
    order = np.random.default_rng(seed).permutation(folded.shape[1])
    real = _distances(folded[kept], z[kept], blocks, days)
    chance = _distances(folded[kept][:, order], z[kept], blocks, days)
    return Drift(
        np.arange(1, blocks), np.median(real, axis=1), np.quantile(real, 0.9, axis=1), np.median(chance, axis=1)
    )


def _distances(folded: Floats, z: Floats, blocks: int, days: int) -> Floats:
    """Distances by months apart and home."""
    months = np.nanmean(folded[:, : blocks * days].reshape(len(folded), blocks, days, -1), axis=2)
    size = np.linalg.norm(z, axis=1)
    return np.stack(
        [np.linalg.norm(months[:, k:] - months[:, :-k], axis=2).mean(axis=1) / size for k in range(1, blocks)]
    )


def drift_panel(source: Source, drift: Drift) -> Panel:
    """Draw the drift."""
    worst = int(np.argmax(drift.middle))
    return Panel(
        "drift", "how far habits drift", f"{source.name}: the distance between a home's mean day in one month and its mean day "
        f"k months later, over the size of its mean day of the year. At the most, {drift.months[worst]} months apart, it is "
        f"{100 * drift.middle[worst]:.0f} % for the middle home, where chance alone gives {100 * drift.chance[worst]:.0f} %. "
        "Noise that is as old hides habits that the home no longer has; what has changed since is published as variation.",
        f"months of {MONTH_DAYS} days apart", "distance, share of the mean day", drift.months.astype(np.float64),
        (
            Curve("middle home", drift.middle), Curve("a tenth of homes drift further", drift.tenth, 1, DASH),
            Curve("middle home, days shuffled: chance", drift.chance, 6, DOT),
        ),
    )  # fmt: skip
