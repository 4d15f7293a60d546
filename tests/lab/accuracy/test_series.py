"""Series with a public truth: what a query finds, what is missing, and what stands in for files that are not there."""

import datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from halflife.errors import InvalidInput
from halflife.lab.accuracy.series import CATALOGUE, FLU, GEFCOM, TAXIS, ZONES, choose_sources, read_series
from halflife.lab.data import AUSGRID, LONDON

HALF_HOUR, HOUR = datetime.timedelta(minutes=30), datetime.timedelta(hours=1)


def write(folder, name, **columns):
    pq.write_table(pa.table(columns), folder / name)


def read(name, folder):
    return read_series(choose_sources([name])[0], folder)


def test_london_is_the_mean_of_homes_that_report(tmp_path):
    begin = datetime.datetime(2013, 1, 1)
    times = [begin, begin, begin + HALF_HOUR, begin + 3 * HALF_HOUR, begin - HALF_HOUR]
    write(tmp_path, LONDON, lclid=["a", "b", "a", "b", "a"], ts=times, kwh=[1.0, 3.0, 5.0, 7.0, 99.0])
    found = read("london", tmp_path)
    assert found.real
    assert found.truth.tolist() == [[2.0], [5.0], [7.0]]
    assert found.steps.tolist() == [1, 2, 4]  # nobody reported in the third half hour
    assert str(found.times[-1]) == "2013-01-01T01:30:00"
    assert found.facts.days.tolist() == [0, 1 / 48, 3 / 48]


def test_gefcom_is_one_zone_in_2005(tmp_path):
    begin = datetime.datetime(2005, 1, 1)
    times = [begin - HOUR, begin, begin, begin + HOUR]
    write(tmp_path, GEFCOM, zone_id=[4, 4, 18, 4], hour_start=times, load_kw=[1, 2, 3, 4])
    assert read("gefcom-4", tmp_path).truth.tolist() == [[2.0], [4.0]]
    assert read("gefcom-18", tmp_path).truth.tolist() == [[3.0]]


def test_half_hours_that_the_clock_leaves_out_and_weeks_without_reports_are_gaps(tmp_path):
    begin = datetime.datetime(2012, 7, 1)
    times = [begin + i * HALF_HOUR for i in range(4)]
    write(tmp_path, AUSGRID, interval_start=times, gross_load_kwh=[5.0, 0.0, 6.0, 7.0])
    assert read("ausgrid", tmp_path).steps.tolist() == [1, 3, 4]
    write(tmp_path, FLU, week_index=[0, 1, 2], ili_5_24=[10, 0, 20], providers=[3, 0, 4])
    flu = read("flu", tmp_path)
    assert (flu.steps.tolist(), flu.truth[:, 0].tolist()) == ([1, 3], [10.0, 20.0])
    assert str(flu.times[-1]) == "1997-10-12T00:00:00"


def test_taxis_are_counted_by_zone_once_an_hour(tmp_path):
    begin = datetime.datetime(2008, 5, 18, 7)  # midnight there
    zones = {14: 0.0, 10: 1.0, 13: 2.0, 3: 3.0, 5: 4.0}
    write(
        tmp_path, ZONES, zone=list(zones), lat_min=list(zones.values()), lat_max=[low + 1 for low in zones.values()],
        lon_min=[0.0] * 5, lon_max=[1.0] * 5,
    )  # fmt: skip
    rows = [
        ("a", 0, 0.5),
        ("b", 0, 0.5),
        ("c", 0, 3.0),
        ("d", 0, 4.5),
        ("mfeuer", 0, 0.5),
        ("a", 10, 1.5),
        ("a", 120, 1.0),
    ]
    times = [begin + datetime.timedelta(minutes=minute) for _, minute, _ in rows]
    write(
        tmp_path, TAXIS, taxi=[taxi for taxi, _, _ in rows], ts=times,
        lat=np.array([lat for _, _, lat in rows], dtype=np.float32), lon=np.full(len(rows), 0.5, dtype=np.float32),
    )  # fmt: skip
    found = read("taxis", tmp_path)
    assert found.truth.tolist() == [[2, 0, 0, 1], [0, 1, 0, 0]]
    assert found.steps.tolist() == [1, 3]


@pytest.mark.parametrize("source", CATALOGUE, ids=lambda source: source.name)
def test_what_is_not_there_is_generated(source, tmp_path):
    found = read_series(source, tmp_path, days=9)
    assert not found.real
    assert found.truth.shape == (9 * source.steps_per_day if source.steps_per_day > 1 else source.steps, source.cells)
    assert (found.truth > 0).all()
    assert (read_series(source, tmp_path, days=9).truth == found.truth).all()


def test_names_are_chosen_once_and_unknown_ones_refused():
    assert [source.name for source in choose_sources(["flu", "london", "flu"])] == ["flu", "london"]
    assert choose_sources([]) == list(CATALOGUE)
    with pytest.raises(InvalidInput, match="london"):
        choose_sources(["londn"])
    with pytest.raises(InvalidInput, match="days"):
        read_series(choose_sources(["white-noise"])[0], days=0)
