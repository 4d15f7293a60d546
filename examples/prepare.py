"""Put real data beside the policies of taxis, check-ins and wards: one file each, with a column for the public zone or time.

    python examples/prepare.py [--data DIR] [--out DIR]

A policy reads columns, not positions, so which zone or borough a position lies in is worked out here, from public outlines alone.
Nothing else is done: no reading is dropped, filled in or smoothed, but for one taxi that stands in the data twice.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

import numpy as np
import polars as pl

HERE = Path(__file__).resolve().parent

BOROUGHS = {
    "Manhattan": [
        (40.699, -74.020), (40.709, -73.996), (40.711, -73.974), (40.735, -73.971), (40.776, -73.940), (40.797, -73.926),
        (40.835, -73.934), (40.873, -73.908), (40.879, -73.927), (40.850, -73.948), (40.800, -73.974), (40.757, -74.008),
    ],
    "Bronx": [
        (40.797, -73.926), (40.835, -73.934), (40.873, -73.908), (40.879, -73.927), (40.918, -73.912), (40.903, -73.840),
        (40.888, -73.780), (40.860, -73.780), (40.805, -73.790), (40.800, -73.870), (40.792, -73.915),
    ],
    "Brooklyn": [
        (40.704, -73.998), (40.711, -73.970), (40.739, -73.961), (40.727, -73.930), (40.712, -73.922), (40.694, -73.905),
        (40.682, -73.870), (40.650, -73.860), (40.570, -73.880), (40.570, -74.010), (40.605, -74.040), (40.680, -74.020),
    ],
    "Queens": [
        (40.739, -73.961), (40.776, -73.940), (40.792, -73.915), (40.800, -73.870), (40.800, -73.790), (40.770, -73.750),
        (40.730, -73.700), (40.600, -73.740), (40.585, -73.740), (40.540, -73.940), (40.570, -73.880), (40.650, -73.860),
        (40.682, -73.870), (40.694, -73.905), (40.712, -73.922), (40.727, -73.930),
    ],
    "Staten Island": [
        (40.648, -74.080), (40.640, -74.190), (40.600, -74.205), (40.500, -74.260), (40.495, -74.240), (40.540, -74.120),
        (40.600, -74.050),
    ],
}  # fmt: skip
"""Outlines of a few corners each (latitude, longitude), drawn by hand from a map: public, and not the legal boundaries."""

SOURCES = {
    "taxis": ("cabspotting_10min.parquet", "cabspotting_zones.parquet"),
    "checkins": ("gowalla_nyc.parquet",),
    "wards": ("physionet2012_hourly.parquet",),
}


def is_inside(outline, latitude, longitude):
    """Return which positions lie within an outline: a ray to the east crosses it an odd number of times.

    >>> is_inside([(0, 0), (0, 2), (2, 2), (2, 0)], np.array([1.0, 3.0]), np.array([1.0, 1.0])).tolist()
    [True, False]
    """
    inside = np.zeros(len(latitude), dtype=bool)
    for (y1, x1), (y2, x2) in zip(outline, [*outline[1:], outline[0]], strict=True):
        if y1 != y2:
            crossing = x1 + (latitude - y1) / (y2 - y1) * (x2 - x1)
            inside ^= ((y1 > latitude) != (y2 > latitude)) & (longitude < crossing)
    return inside


def taxis(folder: Path) -> pl.DataFrame:
    """Return each taxi's zone and belt of zones by ten minutes, without the one that is a copy of another under a second name."""
    rows = pl.read_parquet(folder / SOURCES["taxis"][0]).with_columns(pl.col("taxi").cast(pl.String))
    rows = rows.filter(pl.col("taxi") != "mfeuer")
    latitude, longitude = (rows[name].cast(pl.Float64).round(5).to_numpy() for name in ("lat", "lon"))
    zone = np.full(len(rows), "outside", dtype=object)
    for box in pl.read_parquet(folder / SOURCES["taxis"][1]).drop_nulls("lat_min").to_dicts():
        in_rows = (latitude >= box["lat_min"]) & (latitude < box["lat_max"])
        zone[in_rows & (longitude >= box["lon_min"]) & (longitude < box["lon_max"])] = box["name"]
    made = rows.select("taxi", "ts").with_columns(pl.Series("zone", zone, dtype=pl.String))
    return made.with_columns(pl.col("zone").str.replace(r"c\d$", "").alias("belt"))


def checkins(folder: Path) -> pl.DataFrame:
    """Return each check-in with the borough of its place; what lies in none of them is `elsewhere`."""
    rows = pl.read_parquet(folder / SOURCES["checkins"][0])
    latitude, longitude = rows["lat"].to_numpy(), rows["lon"].to_numpy()
    borough = np.full(len(rows), "elsewhere", dtype=object)
    for name, outline in BOROUGHS.items():
        borough[is_inside(outline, latitude, longitude)] = name
    return rows.select("user", "ts").with_columns(pl.Series("borough", borough, dtype=pl.String))


def wards(folder: Path) -> pl.DataFrame:
    """Return each heart rate with a time: minutes since admission, as if everybody had come on 1 January 2000."""
    rows = pl.read_parquet(folder / SOURCES["wards"][0])
    since = pl.datetime(2000, 1, 1) + pl.duration(minutes=pl.col("minute").cast(pl.Int64))
    return rows.select("stay", since.alias("ts"), "hr")


MAKERS = {"taxis": taxis, "checkins": checkins, "wards": wards}


def prepare(name: str, data: Path, out: Path) -> Path:
    """Write one example's data below a folder, and its policy beside it if it is not there; return the policy's path."""
    (out / name / "data").mkdir(parents=True, exist_ok=True)
    MAKERS[name](data).write_parquet(out / name / "data" / f"{name}.parquet")
    policy = out / name / "policy.yaml"
    if not policy.exists():
        shutil.copy(HERE / name / "policy.yaml", policy)
    return policy


def main() -> None:
    """Prepare every example whose data is there."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--data", type=Path, default=HERE.parents[1] / "shared" / "data", help="folder with the data sets"
    )
    parser.add_argument("--out", type=Path, default=HERE, help="where the folders of the examples are")
    given = parser.parse_args()
    for name, files in SOURCES.items():
        missing = [file for file in files if not (given.data / file).is_file()]
        if missing:
            print(
                f"{name}: {', '.join(missing)} is not in {given.data}: see {HERE / name / 'README.md'}", file=sys.stderr
            )
        else:
            print(f"halflife publish {prepare(name, given.data, given.out)}")


if __name__ == "__main__":
    main()
