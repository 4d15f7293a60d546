"""The example of a year with six amendments and many kills: on a week of a few generated homes."""

from __future__ import annotations

import sys
from pathlib import Path

import polars as pl
import pytest

import halflife as hl
from halflife.publisher.checkpoints import CHECKPOINTS

sys.path.append(str(Path(__file__).resolve().parents[2] / "examples" / "london"))
import amendments


def check_end(year):
    """Nothing lost, nothing drawn twice, nobody found; and every changed byte of the certificate is."""
    assert hl.verify(year.file).problems == ()
    end = year.town.ends[-1].timestamp()
    certificate = amendments.certify(year.out, end)
    verdict = hl.check_certificate(certificate, year.file, public_key=year.out / "public.pem", clock=lambda: end)
    assert verdict.problems == ()
    places, noticed = amendments.change_bytes(certificate, 50)
    assert places == noticed == 50
    content = hl.certify(year.file, clock=lambda: end)["certificate"]
    assert [a["reason"] for a in content["amendments"]] == [
        change.said for changes in amendments.list_policies(year.town) for change in changes if change.amends
    ]
    assert [p["notion"]["epsilon"] for p in content["promises"]] == [12, 10]
    names = pl.read_parquet(year.town.first)["lclid"].unique().to_list()
    assert list(amendments.search_public(year.out, names)) == []
    (year.out / "leak.csv").write_text(f"step,value\n1,{amendments.VALUE}\n")
    assert list(amendments.search_public(year.out, names)) == ["leak.csv: b'3.1415926'"]


def test_a_week_with_six_amendments_and_kills(tmp_path):
    year = amendments.Year(tmp_path, amendments.make_town(None, tmp_path / "private", days=7, homes=6))
    points = {"amend": list(amendments.AMENDING), "publish": ["noise drawn", "entries committed"]}
    year.run(lambda action: [points[action].pop()] if points[action] else [], moments=0)
    assert year.kills.total() == 4
    assert len({step for stream, step in year.known if stream == "use"}) == 7 * 48
    check_end(year)


@pytest.mark.soak
def test_weeks_with_six_amendments_killed_everywhere(tmp_path, time_left):
    """Every checkpoint of every publisher and amendment, and random moments, again and again."""
    kills, weeks, points = 0, 0, set()
    while not weeks or time_left():
        (tmp_path / str(weeks)).mkdir()
        year = amendments.run_year(tmp_path / str(weeks), None, days=14, homes=10)
        check_end(year)
        kills, weeks = kills + year.kills.total(), weeks + 1
        points |= {point.partition(": ")[2] for point in year.kills}
    assert kills >= 60 * weeks
    assert set(CHECKPOINTS) <= points or weeks < 5  # in so few days not every publisher reaches every point
