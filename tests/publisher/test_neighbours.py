"""Two populations that differ in one household: the engine's exact numbers lie no further apart than the policy says.

What a policy can say is tried together: several meters of one household, rows that are counted, quantiles, groups that a column
names. Populations are drawn at random, one for each step; those of two steps are neighbours, as one household's rows differ.
"""

from __future__ import annotations

import contextlib
import datetime
import random

import numpy as np
import pyarrow as pa
import pytest

from halflife.engines.duckdb.engine import open_arrow
from halflife.policy import Policy, channels

METERS = {"m1": "oak", "m2": "oak", "m3": "oak", "m4": "elm", "oak": "ash", "m6": "ash"}
"""Whose each meter is; one meter is called as another household is."""
HOMES = "home,zone,weight\noak,north,3\nelm,south,1\nash,north,2\n"
KINDS = {
    "count": {"kind": "count"},
    "events": {"kind": "events", "most_events": 3},
    "sum": {"kind": "sum", "unit": "kWh", "resolution": "1 kWh", "clip": [-2, 5], "fold": "sum"},
    "histogram": {"kind": "histogram", "edges": [0, 2, 4, 8], "unit": "kWh", "resolution": "1 kWh", "fold": "mean"},
    "quantile": {"kind": "quantile", "quantiles": [0.5], "grid": {"low": 0, "high": 9, "bins": 9}, "unit": "kWh",
                 "resolution": "1 kWh", "fold": "last"},
    "weighted sum": {"kind": "weighted sum", "unit": "kWh", "resolution": "1 kWh", "clip": [0, 4], "fold": "max",
                     "weights": {"file": "homes.csv", "person": "home", "weight": "weight", "resolution": 1, "largest": 3}},
}  # fmt: skip
GROUPS = {
    "no groups": None,
    "table": {"table": {"file": "homes.csv", "person": "home", "group": "zone"}},
    "column": {"names": ["a", "b", "c"], "most_per_person": 2},
}
PAIRS = 40
VALUES = ["0", "1", "3", "7", "9", "-4", "nan", "1e300", "x"]


def stream(folder, kind, groups, neighbours):
    (folder / "meters.csv").write_text("meter,home\n" + "".join(f"{m},{h}\n" for m, h in METERS.items()))
    (folder / "homes.csv").write_text(HOMES)
    needs_value = kind not in ("count", "events")
    source = {"files": "r.csv", "time": "t", **({"value": "v"} if needs_value else {})}
    source |= {"group": "g"} if groups == "column" else {}
    units = {"file": "meters.csv", "id": "meter", "unit": "home"}
    return channels(
        Policy.from_dict(
            {
                "population": {"id": "town", "size": 3, "person": "who", "neighbours": neighbours, "units": units},
                "promise": {"notion": "w-event", "epsilon": 1, "w": 1},
                "clock": {"step": "1 h", "start": "2026-01-01"},
                "streams": [
                    {
                        "name": "s",
                        "source": source,
                        "statistic": KINDS[kind],
                        "groups": GROUPS[groups],
                        "output": "s.csv",
                    }
                ],
            },
            folder,
        )
    )[0]


def draw_rows(draw, meters):
    """Some rows of these meters: (meter, minute of the step, value, group)."""
    minutes = (0, 10, 10, 40, None)
    return [
        (draw.choice(meters), draw.choice(minutes), draw.choice(VALUES), draw.choice("abc?"))
        for _ in range(draw.choice((0, 1, 4, 12)))
    ]


def in_step(rows, step):
    """The rows as they stand in a file, in this step; a minute that is None is a time that nobody can read."""
    start = datetime.datetime(2026, 1, 1) + (step - 1) * datetime.timedelta(hours=1)
    return [
        (
            who,
            "never" if minute is None else f"{start + datetime.timedelta(minutes=minute):%Y-%m-%dT%H:%MZ}",
            value,
            group,
        )
        for who, minute, value, group in rows
    ]


@pytest.mark.diagonal
@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
@pytest.mark.parametrize("groups", GROUPS)
@pytest.mark.parametrize("kind", KINDS)
def test_no_household_moves_the_numbers_further_than_the_policy_says(tmp_path, kind, groups, neighbours):
    channel, draw, rows = stream(tmp_path, kind, groups, neighbours), random.Random(f"{kind} {groups}"), []
    for pair in range(PAIRS):
        home = draw.choice(["oak", "elm", "ash"])
        mine = [m for m, h in METERS.items() if h == home]
        rest = draw_rows(draw, [m for m in METERS if m not in mine] + ["stranger"])
        other = draw_rows(draw, mine) if neighbours == "replace-one" else []
        rows += in_step(rest + draw_rows(draw, mine), 2 * pair + 1) + in_step(rest + other, 2 * pair + 2)
    columns = zip(["who", "t", "v", "g"], zip(*rows, strict=True), strict=True)
    with contextlib.closing(open_arrow(pa.table({name: pa.array(cells) for name, cells in columns}))) as engine:
        numbers = channel.totals(engine.aggregate(channel.question(1, 2 * PAIRS)).sums, 1)
    moved = np.abs(numbers[0::2] - numbers[1::2]).astype(float)
    assert moved.sum(axis=1).max() <= channel.sensitivity.l1
    assert (moved**2).sum(axis=1).max() <= channel.sensitivity.l2**2 * (1 + 1e-12)
    assert (moved > 0).sum(axis=1).max() <= channel.sensitivity.touched
    assert moved.sum(axis=1).max() >= channel.sensitivity.l1 / 2, "the search is not idle"
