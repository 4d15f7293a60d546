"""Taxis, check-ins and wards: the policies stand on their own, and publish real data where it is."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import halflife as hl
from halflife.policy import channels, rules

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def load_prepare():
    spec = importlib.util.spec_from_file_location("prepare", EXAMPLES / "prepare.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PREPARE = load_prepare()


def some_rows(name):
    """Rows as `prepare.py` writes them, of a few people in the first step."""
    people = range(60)
    if name == "taxis":
        return pl.DataFrame({"taxi": [f"t{i}" for i in people], "ts": "2008-05-18T07:05", "zone": "r3c2"})
    if name == "checkins":
        return pl.DataFrame({"user": [*people, *people], "ts": "2010-03-01T17:00", "borough": "Queens"})
    return pl.DataFrame({"stay": people, "ts": "2000-01-01T00:30", "hr": [80.0 + i for i in people]})


@pytest.mark.parametrize(
    ("name", "scale", "columns"),
    [
        ("taxis", 2 * 6, ["group"]),  # a taxi leaves one zone for another, in each of six steps
        ("checkins", 3 * 2, ["group"]),  # three check-ins in each of two boroughs, in one step
        ("wards", 2 * 2 * 6, ["quantile"]),  # out of one bin and into another, on two levels, in each of six steps
    ],
)
def test_a_policy_stands_on_its_own_and_publishes(name, scale, columns, tmp_path):
    """Its noise, worked out by hand at ε = 1; and the first steps of a few people, by the columns that it names."""
    policy = hl.Policy.load(EXAMPLES / name / "policy.yaml")
    (channel,) = channels(policy)
    assert channel.plan.scale(1) == pytest.approx(scale, rel=1e-9)
    assert policy.streams[0].source.files == [f"data/{name}.parquet"]
    text = (EXAMPLES / name / "policy.yaml").read_text()
    (tmp_path / "policy.yaml").write_text(text)
    (tmp_path / "data").mkdir()
    some_rows(name).with_columns(pl.col("ts").str.to_datetime()).write_parquet(tmp_path / "data" / f"{name}.parquet")
    hours = {"taxis": 1, "checkins": 48, "wards": 2}[name]
    end = channel.steps.edges(1, 1)[0] / 1e6 + 3600 * hours
    steps = hl.publish(tmp_path / "policy.yaml", clock=lambda: end).published[channel.name]
    assert steps == {"taxis": 6, "checkins": 2, "wards": 2}[name]
    rows = pl.read_csv(tmp_path / policy.streams[0].output)
    assert rows.columns == ["step", "start", "end", *columns, "value", "error_band"]
    assert hl.verify(tmp_path / "policy.yaml").good


def test_places_that_everybody_knows_are_in_their_boroughs():
    known = {
        "Manhattan": [(40.7484, -73.9857), (40.7829, -73.9654), (40.7061, -74.0119), (40.8075, -73.9626)],
        "Brooklyn": [(40.6782, -73.9442), (40.6602, -73.9690), (40.5755, -73.9707)],
        "Queens": [(40.6413, -73.7781), (40.7769, -73.8740), (40.7282, -73.7949)],
        "Bronx": [(40.8296, -73.9262), (40.8506, -73.8770)],
        "Staten Island": [(40.5795, -74.1502)],
        "elsewhere": [(40.6895, -74.1745), (40.7178, -74.0431)],  # Newark's airport, Jersey City
    }
    for borough, places in known.items():
        latitude, longitude = np.array(places).T
        found = [
            name for name, corners in PREPARE.BOROUGHS.items() if PREPARE.is_inside(corners, latitude, longitude).any()
        ]
        assert found == ([borough] if borough != "elsewhere" else []), borough
        if found:
            assert PREPARE.is_inside(PREPARE.BOROUGHS[borough], latitude, longitude).all(), borough


def test_policies_that_add_up_stand_on_their_own():
    taxis, levels, london = (
        [(rule.total, rule.parts, rule.over_time) for rule in rules(hl.Policy.load(EXAMPLES / name))]
        for name in ("taxis/reconciled.yaml", "taxis/levels.yaml", "london/days-and-half-hours.yaml")
    )
    assert taxis == [("city", "zones", False)]
    assert levels == [("city", "belts", False), ("belts", "zones", False)]
    assert london == [("days", "half-hours", True)]


@pytest.mark.parametrize("name", ["taxis", "checkins", "wards"])
def test_real_data_is_published_for_a_few_steps(name, data_folder, tmp_path):
    policy = hl.Policy.load(PREPARE.prepare(name, data_folder, tmp_path))
    (channel,) = channels(policy)
    end = channel.steps.edges(1, 3)[-1] / 1e6
    assert hl.publish(policy, clock=lambda: end).published == {channel.name: 3}
    assert hl.verify(policy).good
    rows = pl.read_csv(policy.path(policy.streams[0].output))
    most = {"taxis": ("r3c2", 100, 300), "checkins": ("Manhattan", 30, 300), "wards": (0.5, 75, 100)}[name]
    key = "quantile" if name == "wards" else "group"
    assert rows.filter(pl.col(key) == most[0])["value"].is_between(*most[1:]).all(), rows
