"""Streams to compare mechanisms on: one number a step, how far one person can move it, and when steps begin if that is known.

The catalogue has open data, of which every number is a sum or a count with a public bound on what one person adds, and generated
streams. An open stream whose file is not there is replaced by a generated one of the same steps, and says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from halflife.errors import InvalidInput, unknown
from halflife.lab.accuracy.series import (
    FLU,
    GEFCOM,
    TAXIS,
    ZONES,
    Source,
    make_load,
    make_walk,
    make_white,
    read_series,
)
from halflife.lab.compare.files import LARGEST, read_series_file
from halflife.lab.data import AUSGRID, LONDON
from halflife.numerics.arrays import Floats, Integers

CHECK_INS, HEARTS = "gowalla_nyc.parquet", "physionet2012_hourly.parquet"
DAY = np.timedelta64(86_400, "s")


@dataclass(frozen=True, eq=False)
class Stream:
    """Values to compare on, one a step, without gaps.

    name, title   as asked for, and for people;  unit  of the values
    sensitivity   Δ: how far one person can move one value;  about  what that rests on, and what was left out
    real          whether the values are those that the title names; False: generated in their place
    times         when each step begins by the clock of the source, None if that is not known
    steps_per_day None if that is not known
    """

    name: str
    title: str
    values: Floats
    sensitivity: float = 1.0
    unit: str = ""
    about: str = ""
    real: bool = True
    times: NDArray[np.datetime64] | None = None
    steps_per_day: float | None = None

    @property
    def slots(self) -> Integers | None:
        """The minute of the day in which each step begins; None where it is not known, or a step is a day or longer."""
        if self.times is None or self.steps_per_day is None or self.steps_per_day <= 1:
            return None
        since = self.times - self.times.astype("datetime64[D]")
        slots: Integers = (since // np.timedelta64(1, "m")).astype(np.int64)
        return slots

    @staticmethod
    def slot_name(slot: int) -> str:
        """Return a minute of the day as a clock shows it, as 13:30."""
        return f"{slot // 60:02d}:{slot % 60:02d}"


class Entry(NamedTuple):
    """A stream of the catalogue: where it comes from, Δ, and what that rests on."""

    source: Source
    sensitivity: float
    about: str


# Generated ----------------------------------------------------------------------------------------------------------


def make_const(source: Source, seed: int) -> Floats:
    """Return 1000 at every step."""
    return np.full((source.steps, 1), 1000.0)


def make_sine(source: Source, seed: int) -> Floats:
    """Return 1000 + 500 sin(2πt/100) for t = 0, 1, …"""
    wave: Floats = 1000 + 500 * np.sin(2 * np.pi * np.arange(source.steps) / 100)[:, None]
    return wave


def make_counts(source: Source, seed: int) -> Floats:
    """Return whole numbers around 300 with a day, a week and weather, where counts of people are not there."""
    return np.rint(300 * make_load(source, seed))


# The catalogue ------------------------------------------------------------------------------------------------------

_CLIP = 2.0
"""kWh that one home may use in half an hour, at the most: what is above is cut off in London's data (0.4 % of readings)."""
_LONDON = f"""SELECT date_diff('minute', TIMESTAMP '2013-01-01', ts) // 30, 0, sum(least(kwh, {_CLIP}))
FROM read_parquet($1) GROUP BY ts"""
_AUSGRID = """SELECT date_diff('minute', TIMESTAMP '2012-07-01', interval_start) // 30, 0, gross_load_kwh
FROM read_parquet($1) WHERE gross_load_kwh > 0"""
_ZONE = """SELECT date_diff('hour', TIMESTAMP '2005-01-01', hour_start), 0, load_kw FROM read_parquet($1)
WHERE zone_id = {zone}"""
_TAXIS = """WITH slots AS (SELECT DISTINCT ts FROM read_parquet($1)),
inside AS (SELECT ts, count(*) AS taxis FROM read_parquet($1) JOIN read_parquet($2) AS zones
  ON round(lat::DOUBLE, 5) >= lat_min AND round(lat::DOUBLE, 5) < lat_max
  AND round(lon::DOUBLE, 5) >= lon_min AND round(lon::DOUBLE, 5) < lon_max
  WHERE zone = 14 AND taxi != 'mfeuer' GROUP BY ts)
SELECT date_diff('minute', TIMESTAMP '2008-05-18 07:00', ts) // 10, 0, coalesce(taxis, 0)
FROM slots LEFT JOIN inside USING (ts)"""
_CHECK_INS = """WITH hours AS (SELECT unnest(range(5136)) AS hour),
seen AS (SELECT date_diff('hour', TIMESTAMP '2010-03-01 05:00', date_trunc('hour', ts)) AS hour, count(DISTINCT "user") AS users
  FROM read_parquet($1) GROUP BY 1)
SELECT hour, 0, coalesce(users, 0) FROM hours LEFT JOIN seen USING (hour)"""
_FLU = """SELECT week_index, 0, CASE WHEN providers = 0 THEN coalesce(ili_5_24_export2020, 0) ELSE ili_5_24 END
FROM read_parquet($1)"""
_HEARTS = """WITH moments AS (SELECT unnest(range(5, 2881, 5)) AS now),
read AS (SELECT stay, minute, hr, lead(minute, 1, 9999) OVER (PARTITION BY stay ORDER BY minute) AS until FROM read_parquet($1)),
fast AS (SELECT now, count(*) AS stays FROM moments JOIN read ON minute <= now AND until > now AND now - minute < 120 AND hr > 100
  GROUP BY now)
SELECT now // 5 - 1, 0, coalesce(stays, 0) FROM moments LEFT JOIN fast USING (now)"""


def _zone(zone: int) -> Entry:
    title = f"GEFCom 2012, load of zone {zone}, hours of 2005"
    source = Source(
        f"gefcom-{zone}", title, "kW", "2005-01-01", 8_760, 24, (), (GEFCOM,), _ZONE.format(zone=zone), make=make_counts
    )
    return Entry(
        source, 3.92, "One household draws 3.92 kW at the most, as in the Swellfish paper; nothing can be clipped here."
    )


def _generated(name: str, title: str, make: object) -> Entry:
    source = Source(name, title, "", "2026-01-05", 1_000, 24, (), make=make)  # type: ignore[arg-type]
    return Entry(source, 1.0, "Generated from the seed; Δ is what you say it is.")


_ENTRIES = (
    Entry(
        Source("london", "London 2013, use of 325 homes, half hours", "kWh", "2013-01-01", 17_520, 48, (), (LONDON,), _LONDON,
               make=make_counts),
        _CLIP, "A home counts with at most 2 kWh a half hour; a home that did not report counts nothing.",
    ),
    _zone(4),
    _zone(18),
    Entry(
        Source("ausgrid", "Ausgrid 2012–13, use of 300 homes, half hours", "kWh", "2012-07-01", 17_520, 48, (), (AUSGRID,),
               _AUSGRID, make=make_counts),
        _CLIP, "Stated, not checked: only the sum of the homes is open, so nothing can be clipped. The two half hours that "
        "summer time skips are left out.",
    ),
    Entry(
        Source("taxis", "San Francisco 2008, taxis downtown, 10 minutes", "taxis", "2008-05-18", 3_168, 144, (), (TAXIS, ZONES),
               _TAXIS, make=make_counts),
        1.0, "A taxi has one position a slot. Slots in which no taxi at all reported are left out (the feed was down).",
    ),
    Entry(
        Source("check-ins", "Gowalla 2010, people who checked in in New York, hours", "people", "2010-03-01", 5_136, 24, (),
               (CHECK_INS,), _CHECK_INS, make=make_counts),
        1.0, "A person counts once an hour, however often they check in. March to September 2010; clock: UTC − 5 h.",
    ),
    Entry(
        Source("flu", "Flu, United States, visits of age 5–24, weeks of 1997–2021", "visits", "1997-09-28", 1_250, 1 / 7, (),
               (FLU,), _FLU, make=make_counts),
        1.0, "A visit counts once. Weeks in which nobody reported are 0, as in the stream of the VLDB 2023 benchmark.",
    ),
    Entry(
        Source("heart-rates", "PhysioNet 2012, intensive care: stays with a heart rate above 100, 5 minutes since admission",
               "stays", "2012-01-01", 576, 288, (), (HEARTS,), _HEARTS, make=make_counts),
        1.0, "A stay counts by its newest reading of the last two hours. Time is since admission, so its day is not the clock's.",
    ),
    _generated("const", "A constant", make_const),
    _generated("sine", "A sine", make_sine),
    _generated("random-walk", "A random walk", make_walk),
    _generated("white-noise", "White noise", make_white),
)  # fmt: skip
CATALOGUE: Mapping[str, Entry] = {entry.source.name: entry for entry in _ENTRIES}
OPEN = tuple(name for name, entry in CATALOGUE.items() if entry.source.files)


def find_stream(
    series: object, *, column: str | None = None, time: str | None = None, data: Path | None = None, seed: int = 1
) -> Stream:
    """Return the stream that somebody means: a `Stream`, values, a file, or a name of the catalogue.

    A text is a file if there is one of that name, or if it looks like a path.

    >>> find_stream("const").values[:2].tolist(), find_stream([3, 4]).title
    ([1000.0, 1000.0], '2 values')
    """
    if isinstance(series, Stream):
        return series
    if isinstance(series, Path):
        return _from_file(series, column, time)
    if isinstance(series, str):
        if series in CATALOGUE and not Path(series).is_file():
            _refuse_columns(series, column, time)
            return read_stream(series, data, seed)
        if Path(series).exists() or "/" in series or "." in series:
            return _from_file(Path(series), column, time)
        raise InvalidInput(f"{unknown('series', series, CATALOGUE)}; or give a file", about="series")
    _refuse_columns("an array", column, time)
    return _from_values(series)


def _refuse_columns(what: str, column: str | None, time: str | None) -> None:
    if column is not None or time is not None:
        raise InvalidInput(f"{what} has no columns: column and time are about files; leave them out", about="column")


def _from_values(series: object) -> Stream:
    try:
        values = np.asarray(series, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInput(
            "a series is a list of numbers, a file or a name, and this is none", about="series"
        ) from None
    if values.ndim != 1 or len(values) < 2:
        raise InvalidInput(f"a series is a list of two numbers or more, not of shape {values.shape}", about="series")
    wrong = np.flatnonzero(~(np.abs(values) <= LARGEST))
    if len(wrong):
        raise InvalidInput(
            f"value {wrong[0] + 1} of the series is not a finite number up to {LARGEST:g}", about="series"
        )
    return Stream("values", f"{len(values):,} values", values)


def _from_file(path: Path, column: str | None, time: str | None) -> Stream:
    found = read_series_file(path, column, time)
    title = path.name if column is None else f"{path.name}, {column}"
    if found.times is None:
        return Stream(str(path), title, found.values)
    times = np.array([moment.replace(tzinfo=None) for moment in found.times], dtype="datetime64[us]")
    widths = np.diff(times)
    if not (widths == widths[0]).all() or widths[0] <= np.timedelta64(0, "us"):
        raise InvalidInput(
            f"{path}: times do not ascend by one width (row {int(np.argmax(widths != widths[0])) + 2} or its successor differs): "
            "mend them, or leave --time out"
        )
    return Stream(str(path), title, found.values, times=times, steps_per_day=float(DAY / widths[0]))


def read_stream(name: str, data: Path | None = None, seed: int = 1) -> Stream:
    """Return a stream of the catalogue: from its file if that is there, else generated from the seed.

    Steps of which the source has nothing are closed up, so that every step has a value.
    """
    if name not in CATALOGUE:
        raise unknown("series", name, CATALOGUE, about="series")
    source, sensitivity, about = CATALOGUE[name]
    series = read_series(source, data, seed=seed)
    real = series.real or not source.files
    values = np.ascontiguousarray(series.truth[:, 0])
    return Stream(name, source.title, values, sensitivity, source.unit, about, real, series.times, source.steps_per_day)
