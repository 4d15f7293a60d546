"""A public table says whose each meter is: a household of several is clipped, counted and hidden as one person."""

from __future__ import annotations

import pytest

import halflife as hl
from halflife.audit.policy.audit import audit_policy
from halflife.engines import open_source
from halflife.policy import Policy, channels
from publisher.town import read_csv

ROWS = """meter,time,kwh
m1,2026-01-01T00:10Z,4
m2,2026-01-01T00:10Z,3
m2,2026-01-01T00:10Z,2
m3,2026-01-01T00:10Z,1
m9,2026-01-01T00:10Z,1
"""
UNITS = "meter,household,zone\nm1,oak 1,north\nm2,oak 1,north\nm3,oak 2,south\nm4,oak 3,south\n"


def meters(place, statistic=(), population=(), **stream):
    (place / "readings.csv").write_text(ROWS)
    (place / "meters.csv").write_text(UNITS)
    (place / "homes.csv").write_text("household,zone,weight\noak 1,north,3\noak 2,south,1\n")
    kept = {
        "kind": "sum",
        "unit": "kWh",
        "resolution": "1 Wh",
        "clip": ["0", "5 kWh"],
        "fold": "sum",
        **dict(statistic),
    }
    units = {"file": "meters.csv", "id": "meter", "unit": "household"}
    return Policy.from_dict(
        {
            "population": {"id": "town", "size": 3, "person": "meter", "units": units, **dict(population)},
            "promise": {"notion": "w-event", "epsilon": 1.0, "w": 2},
            "clock": {"step": "1 h", "start": "2026-01-01"},
            "streams": [{
                "name": "load", "source": {"files": "readings.csv", "time": "time", "value": "kwh"},
                "statistic": {key: value for key, value in kept.items() if value is not None}, "output": "load.csv", **stream,
            }],
        },
        place,
    )  # fmt: skip


BY_ZONE = {"table": {"file": "homes.csv", "person": "household", "group": "zone"}}


@pytest.mark.parametrize(("statistic", "stream", "totals"), [
    ({}, {}, [6000]),                                           # 4 + 3 kWh of oak 1 count as 5, and 1 of oak 2
    ({"duplicates": "each", "clip": ["0", "50 kWh"]}, {}, [10_000]),
    ({"clip": ["0", "50 kWh"]}, {}, [8000]),                    # m2 was read twice at one moment, m1 and m2 were not
    ({"kind": "count", "unit": None, "resolution": None, "clip": None, "fold": None}, {}, [2]),
    ({}, {"groups": BY_ZONE}, [5000, 1000]),
])  # fmt: skip
def test_the_meters_of_a_household_are_one_person(tmp_path, statistic, stream, totals):
    (channel,) = channels(meters(tmp_path, statistic, **stream))
    engine = open_source(str(tmp_path / "readings.csv"))
    answer = engine.aggregate(channel.question(1, 1))
    assert answer.sums.ravel().tolist() == totals
    assert answer.tallies["unknown_person"] == 1
    engine.close()


def test_meters_are_published_verified_and_audited(tmp_path):
    policy = meters(tmp_path, groups=BY_ZONE)
    hl.publish(policy, clock=lambda: 1_767_225_600 + 3600 * 2)
    assert len(read_csv(tmp_path / "load.csv")) == 4
    assert hl.verify(policy).problems == ()
    assert not any(finding.accused for finding in audit_policy(policy, seconds=0.1, runs=20).findings)
