"""Series whose truth is public: London, GEFCom 2012, Ausgrid, San Francisco's taxis, flu, and generated ones.

They show what post-processing gives back, which private data never can: nobody may compare it with its truth in public. A real
series whose file is not there is replaced by a generated one of the same steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from halflife.errors import unknown
from halflife.lab.data import AUSGRID, LONDON, data_folder
from halflife.numerics.arrays import Floats, Integers
from halflife.numerics.parameters import whole
from halflife.postprocessing.base import Facts

GEFCOM, FLU = "gefcom2012_load.parquet", "ilinet_outpatient_weekly.parquet"
TAXIS, ZONES = "cabspotting_10min.parquet", "cabspotting_zones.parquet"
WARM_UP_DAYS, WARM_UP_STEPS = 30, 64
"""Errors are counted after so many days; where steps are a day or more, after so many steps; at most after half of a series."""


class Noise(NamedTuple):
    """Laplace noise: its scale over the mean of the series, and what that stands for."""

    share: float
    meaning: str = ""


MUCH, LITTLE = Noise(0.40), Noise(0.10)


@dataclass(frozen=True)
class Source:
    """Where a series comes from.

    name, title    on the command line, and for people;  unit  of its values, on the plot of the first cell
    start, steps   when the first step begins by local time, and how many there are, `steps_per_day` a day
    noises         how much noise is tried
    files, query   what is read: (step from 0, cell from 0, value) for each value that is there; no files: it is generated
    cells          how many cells a step has;  make  generates it, from a seed: steps × cells
    """

    name: str
    title: str
    unit: str
    start: str
    steps: int
    steps_per_day: float
    noises: tuple[Noise, ...]
    files: tuple[str, ...] = ()
    query: str = ""
    cells: int = 1
    make: Callable[[Source, int], Floats] | None = None


@dataclass(frozen=True, eq=False)
class Series:
    """A series with its truth, steps × cells; `steps` are the numbers, from 1, of those that are there, as some may not be."""

    source: Source
    real: bool
    truth: Floats
    steps: Integers

    @property
    def mean(self) -> float:
        """The mean of all cells and steps, which errors and noise are relative to."""
        return float(self.truth.mean())

    @property
    def facts(self) -> Facts:
        """What post-processing is told of the steps."""
        return Facts(steps=self.steps, days=(self.steps - 1) / self.source.steps_per_day)

    @property
    def counted(self) -> NDArray[np.bool_]:
        """Which steps errors are counted of: those after the warm-up."""
        per_day = self.source.steps_per_day
        warm_up = WARM_UP_STEPS if per_day <= 1 else WARM_UP_DAYS * per_day
        counted: NDArray[np.bool_] = self.steps > min(warm_up, int(self.steps[-1]) // 2)
        return counted

    @property
    def times(self) -> NDArray[np.datetime64]:
        """When each step begins."""
        seconds = np.rint((self.steps - 1) * (86_400 / self.source.steps_per_day)).astype("timedelta64[s]")
        times: NDArray[np.datetime64] = np.datetime64(self.source.start, "s") + seconds
        return times


# Generated series ---------------------------------------------------------------------------------------------------


def make_load(source: Source, seed: int) -> Floats:
    """Return cells with a day, a week, a year and weather that comes and goes, around 1."""
    rng = np.random.default_rng(seed)
    time = np.arange(source.steps)[:, None] / source.steps_per_day
    days = int(time[-1, 0]) + 1
    walk = np.cumsum(rng.normal(0, 0.03, (days, source.cells)), axis=0)
    weather = np.clip(walk - np.linspace(0, 1, days)[:, None] * walk[-1], -0.2, 0.2)[time[:, 0].astype(np.int64)]
    day = 0.25 * np.sin(2 * np.pi * (time - 0.4)) + 0.08 * np.sin(4 * np.pi * (time - rng.random(source.cells)))
    week, year = 0.06 * (np.floor(time) % 7 < 5), 0.15 * np.cos(2 * np.pi * time / 365.2425)
    result: Floats = 0.95 + day + week + year + weather
    return result


def make_walk(source: Source, seed: int) -> Floats:
    """Return a random walk from 100 on, with steps of standard deviation 0.5: nothing repeats."""
    return 100 + np.cumsum(np.random.default_rng(seed).normal(0, 0.5, (source.steps, source.cells)), axis=0)


def make_white(source: Source, seed: int) -> Floats:
    """Return independent values of mean 100 and standard deviation 20: nothing before tells anything of the next."""
    return np.random.default_rng(seed).normal(100, 20, (source.steps, source.cells))


# The catalogue ------------------------------------------------------------------------------------------------------

_LOAD = "SELECT date_diff('{unit}', TIMESTAMP '{start}', {time}) // {width}, 0, {value} FROM read_parquet($1) {rest}"
_LONDON = _LOAD.format(unit="minute", start="2013-01-01", time="ts", width=30, value="avg(kwh)", rest="GROUP BY ts")
_AUSGRID = _LOAD.format(
    unit="minute", start="2012-07-01", time="interval_start", width=30, value="gross_load_kwh",
    rest="WHERE gross_load_kwh > 0",  # the half hours that a change of the clock leaves out hold 0
)  # fmt: skip
_FLU = "SELECT week_index, 0, ili_5_24 FROM read_parquet($1) WHERE providers > 0"  # else nobody reported
_TAXIS = """
SELECT date_diff('hour', TIMESTAMP '2008-05-18 07:00', ts), list_position([14, 10, 13, 3], zone) - 1, count(*)
FROM read_parquet($1) JOIN read_parquet($2) AS zones
  ON round(lat::DOUBLE, 5) >= lat_min AND round(lat::DOUBLE, 5) < lat_max
  AND round(lon::DOUBLE, 5) >= lon_min AND round(lon::DOUBLE, 5) < lon_max
WHERE minute(ts) = 0 AND zone IN (14, 10, 13, 3) AND taxi != 'mfeuer' GROUP BY ts, zone"""


def _gefcom(zone: int) -> Source:
    query = _LOAD.format(
        unit="hour", start="2005-01-01", time="hour_start", width=1, value="load_kw", rest=f"WHERE zone_id = {zone}"
    )
    title = f"GEFCom 2012, zone {zone}, hours of 2005"
    return Source(f"gefcom-{zone}", title, "kW", "2005-01-01", 8_760, 24, (MUCH, LITTLE), (GEFCOM,), query)


CATALOGUE: tuple[Source, ...] = (
    Source(
        "london", "London 2013, mean of 325 homes, half hours", "kWh per home", "2013-01-01", 17_520, 48,
        (Noise(3.7, "325 homes"), Noise(0.37, "3,250 homes"), Noise(0.12), Noise(0.037, "32,500 homes")),
        (LONDON,), _LONDON,
    ),
    _gefcom(4),
    _gefcom(18),
    Source(
        "ausgrid", "Ausgrid 2012–13, sum of 300 homes, half hours", "kWh", "2012-07-01", 17_520, 48, (MUCH, LITTLE),
        (AUSGRID,), _AUSGRID,
    ),
    Source(
        "taxis", "San Francisco 2008, taxis in four zones, hours", "taxis downtown", "2008-05-18", 528, 24, (MUCH, LITTLE),
        (TAXIS, ZONES), _TAXIS, cells=4,
    ),
    Source("flu", "Flu, United States, weeks of 1997–2021", "visits", "1997-09-28", 1_250, 1 / 7, (MUCH, LITTLE), (FLU,), _FLU),
    Source("random-walk", "A random walk, hours", "", "2026-01-05", 2_880, 24, (MUCH, LITTLE), make=make_walk),
    Source("white-noise", "White noise, hours", "", "2026-01-05", 2_880, 24, (MUCH, LITTLE), make=make_white),
)  # fmt: skip


def choose_sources(names: Sequence[str]) -> list[Source]:
    """Return the sources of these names, all of them if none is named.

    >>> [source.steps for source in choose_sources(["flu", "taxis"])]
    [1250, 528]
    """
    known = {source.name: source for source in CATALOGUE}
    for name in names:
        if name not in known:
            raise unknown("series", name, known)
    return [known[name] for name in dict.fromkeys(names or known)]


def read_series(source: Source, folder: Path | None = None, days: int | None = None, seed: int = 1) -> Series:
    """Return a series, or its first `days` (but all of weekly steps); real if its files are there, else generated from the seed.

    >>> generated = read_series(choose_sources(["white-noise"])[0], days=2)
    >>> generated.real, generated.truth.shape
    (False, (48, 1))
    """
    where = [data_folder(folder) / name for name in source.files]
    real = bool(where) and all(path.is_file() for path in where)
    table = _read(source, where) if real else (source.make or make_load)(source, seed)
    if days is not None and source.steps_per_day > 1:
        table = table[: round(whole("days", days, least=1) * source.steps_per_day)]
    there = ~np.isnan(table).any(axis=1)
    return Series(source, real, table[there], np.flatnonzero(there) + 1)


def _read(source: Source, files: Sequence[Path]) -> Floats:
    """Return steps × cells as the query finds them; a step of which it finds nothing is NaN, a cell of another is 0."""
    import duckdb

    with duckdb.connect() as database:
        rows = database.execute(source.query, [str(path) for path in files]).fetchall()
    step, cell, values = (np.array(column) for column in zip(*rows, strict=True))
    inside = (step >= 0) & (step < source.steps)
    table = np.full((source.steps, source.cells), np.nan)
    table[np.unique(step[inside])] = 0.0
    table[step[inside], cell[inside]] = values[inside]
    return table
