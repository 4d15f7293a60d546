"""A policy in steps of months: exact values, killed and gone on with, verified, pushed, looked at."""

from __future__ import annotations

import datetime
from itertools import pairwise

import pytest

import halflife as hl
from halflife.publisher.preview import preview
from publisher.test_crash import check_whole, stored
from publisher.town import HOMES, KILLED, LOUD, STEPS, make, read_csv, run_and_die, write_readings

CLOCK = {"step": "1 month", "start": "2024-01-01", "end": "2026-01-01", "zone": "Europe/London"}
"""Two years of months: as many steps as the town has."""
FIRSTS = [datetime.date(2024 + m // 12, 1 + m % 12, 1) for m in range(25)]


def month_readings(homes=HOMES):
    """A reading of 1 Wh just after a month begins, and of as many as its number in Wh just before it is over, in UTC."""
    rows = []
    for m, (first, after) in enumerate(pairwise(FIRSTS), start=1):
        summer = {
            d: 1 if 4 <= d.month <= 10 else 0 for d in (first, after)
        }  # on the first of April and of October it is
        begin, end = (
            datetime.datetime.combine(d, datetime.time()) - datetime.timedelta(hours=summer[d]) for d in (first, after)
        )
        rows += [(f"h{h}", f"{begin:%Y-%m-%dT%H:%M:%S}", 0.001) for h in range(homes)]
        rows += [(f"h{h}", f"{end - datetime.timedelta(seconds=1):%Y-%m-%dT%H:%M:%S}", m / 1000) for h in range(homes)]
    return rows


def test_every_reading_counts_in_its_own_month(tmp_path):
    write_readings(tmp_path, month_readings())
    policy = make(tmp_path, epsilon=LOUD, clock=CLOCK)
    hl.publish(policy)
    rows = read_csv(tmp_path / "mean.csv")
    assert [row["start"][:19] for row in rows] == [f"{d}T00:00:00" for d in FIRSTS[:-1]]
    assert [row["end"][:19] for row in rows] == [f"{d}T00:00:00" for d in FIRSTS[1:]]
    assert [float(row["value"]) for row in rows] == pytest.approx([(m + 1) / 1000 for m in range(1, 25)], abs=1e-4)


@pytest.mark.parametrize("point", ["in the transaction", "half written"])
def test_killed_it_goes_on_and_verifies(tmp_path, point):
    write_readings(tmp_path, month_readings())
    policy = make(tmp_path, clock=CLOCK, promise={"w": "1 year"})
    assert run_and_die(tmp_path, point, 2) == KILLED
    before = stored(policy)
    hl.publish(policy)
    check_whole(policy)
    after = stored(policy)
    assert len(after) == STEPS
    assert all(after[step] == value for step, value in before.items())


def seconds(text):
    return datetime.datetime.fromisoformat(text).timestamp()


def test_months_are_due_when_they_and_their_delay_are_over(tmp_path):
    write_readings(tmp_path, month_readings())
    policy = make(tmp_path, clock=CLOCK, stream={"delay": "3 days"}, promise={"w": "1 year"})
    for now, published in (
        ("2024-02-03T23:59Z", 0),
        ("2024-02-04T00:00Z", 1),
        ("2024-06-03T22:59Z", 3),
        ("2024-06-04T00:00Z", 1),
    ):
        found = preview(policy, clock=lambda now=now: seconds(now))
        assert found.streams[0].due == published
        assert hl.publish(policy, clock=lambda now=now: seconds(now)).published == {"mean": published}
    look = preview(policy, clock=lambda: seconds("2024-06-10T00:00Z")).streams[0]
    assert (look.due, look.first, look.every) == (0, "2024-07-04 00:00+01:00", "1 month")
    assert [(n.when, n.step) for n in look.noise] == [("of the next step", 6), ("a year on", 18)]
    stream = hl.status(policy, clock=lambda: seconds("2024-06-10T00:00Z")).streams[0]
    assert stream.next_due.isoformat() == "2024-07-04T00:00:00+01:00"


def test_a_program_pushes_a_month(tmp_path):
    policy = make(tmp_path, clock=CLOCK, stream={"source": None}, promise={"w": "1 year"})
    with hl.Stream(policy, clock=lambda: seconds("2024-03-01T00:00Z")) as stream:
        stream.publish(1.0, at="2024-01-01")
        released = stream.publish(1.0, at="2024-02-01")
        with pytest.raises(hl.InvalidInput):
            stream.publish(1.0, at="2024-03-01")
    assert (released.step, released.start.isoformat()[:10], released.end.isoformat()[:10]) == (
        2,
        "2024-02-01",
        "2024-03-01",
    )
