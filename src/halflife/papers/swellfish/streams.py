"""The Swellfish paper's streams: the loads of GEFCom 2012's twenty zones at 15-minute steps, or generated ones in their place.

The paper (VI-A2) puts the history and both sets of solutions together and interpolates hourly loads linearly to 15 minutes. All
rows run from 2004-01-01 00:00 to 2008-07-07 23:00, 39,600 hours; 18 of them are in no file and are interpolated too. From the
first hour to the last these are 158,397 steps. `history` has the rows of the history alone, in which nine weeks are missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from halflife.numerics.arrays import Floats

GEFCOM = "gefcom2012_load.parquet"
DAY, WEEK, HOUR = 96, 672, 4
"""Steps of 15 minutes."""
BEGIN = np.datetime64("2004-01-01T00", "h")

WHERE_TO_GET = (
    "The real loads are not here. They are those of the Global Energy Forecasting Competition 2012, load track (Hong, Pinson, "
    "Fan, International Journal of Forecasting 30(2), 2014, appendix); give the folder with --data or HALFLIFE_DATA. Running on "
    "generated zones."
)

GENERATED_MW = (19, 174, 188, 0.5, 7.8, 182, 188, 3.8, 68, 33, 108, 134, 20, 21, 62, 29, 33, 214, 78, 89)
"""Mean load of generated zones, of the size of the real ones."""


@dataclass(frozen=True, eq=False)
class Source:
    """What is published: loads in kW, a row for each zone.

    loads    zones × steps of 15 minutes;  history  the same from the rows of the history alone, None where there is no such thing
    printed  whether the paper's figures are about these zones
    """

    name: str
    loads: Floats
    history: Floats | None
    printed: bool
    notes: tuple[str, ...]

    @property
    def zones(self) -> int:
        """How many zones there are; they count from 1."""
        return len(self.loads)

    @property
    def steps(self) -> int:
        """How many steps the streams have."""
        return int(self.loads.shape[1])


def interpolate(hours: NDArray[np.int64], loads: Floats) -> Floats:
    """Return loads at every quarter of an hour from the first hour to the last, straight between those that are there.

    >>> interpolate(np.array([0, 1, 3]), np.array([0.0, 4.0, 8.0])).tolist()
    [0.0, 1.0, 2.0, 3.0, 4.0, 4.5, 5.0, 5.5, 6.0, 6.5, 7.0, 7.5, 8.0]
    """
    quarters = np.arange(HOUR * int(hours[0]), HOUR * int(hours[-1]) + 1)
    return np.interp(quarters / HOUR, hours, loads)


def real_source(folder: Path) -> Source:
    """Read GEFCom 2012's loads."""
    import duckdb

    with duckdb.connect() as database:
        rows = database.execute(
            "SELECT zone_id, hour_start, load_kw, source = 'history' AS old FROM read_parquet(?) ORDER BY zone_id, hour_start",
            [str(folder / GEFCOM)],
        ).fetchnumpy()
    hours = (rows["hour_start"].astype("datetime64[h]") - BEGIN).astype(np.int64)
    loads, old, of = rows["load_kw"].astype(np.float64), rows["old"].astype(bool), rows["zone_id"]
    zones = np.unique(of)
    every = np.stack([interpolate(hours[of == z], loads[of == z]) for z in zones])
    history = np.stack([interpolate(hours[(of == z) & old], loads[(of == z) & old]) for z in zones])
    missing = (every.shape[1] - 1) // HOUR + 1 - int(np.count_nonzero(of == zones[0]))
    zeros = {int(z): n for z, row in zip(zones, every, strict=True) if (n := int(np.count_nonzero(row == 0)))}
    said = ", ".join(f"{n} of zone {z}" for z, n in zeros.items())
    notes = (
        f"All rows, {every.shape[1]:,} steps of 15 minutes; {missing} hours that are in no file are interpolated. The history "
        f"alone has {history.shape[1]:,} steps, nine weeks of them interpolated.",
        f"Steps with a load of 0 have no relative error and are left out: {said or 'none'}.",
        "Zones 3 and 7 are the same in every hour, and zone 2 is zone 7 times 0.927: eighteen independent streams.",
    )
    return Source("GEFCom 2012, load track", every, history, True, notes)


def generated_source(seed: int, zones: int = 20, days: int = 1650) -> Source:
    """Return zones with a day, a week, a year and weather that comes and goes, in place of the real ones."""
    rng, rows = np.random.default_rng(seed), []
    time = np.arange(DAY * days) / DAY
    for mean in GENERATED_MW[:zones]:
        weather = np.repeat(np.cumsum(rng.normal(0, 1, days)) * 0.02, DAY)
        weather -= np.linspace(weather[0], weather[-1], len(weather))
        day = 0.2 * np.sin(2 * np.pi * (time - 0.4)) + 0.05 * np.sin(4 * np.pi * (time - rng.random()))
        week, year = 0.05 * (np.floor(time + 3) % 7 < 5), 0.1 * np.cos(2 * np.pi * time / 365.25)
        rows.append(1000 * mean * np.maximum(0.2, 0.95 + day + week + year + np.clip(weather, -0.2, 0.2)))
    name = f"{len(rows)} generated zones (seed {seed})"
    notes = (WHERE_TO_GET, "The paper's figures are about other streams, so nothing printed stands beside ours.")
    return Source(name, np.array(rows), None, False, notes)
