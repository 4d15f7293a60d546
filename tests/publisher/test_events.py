"""Counts of events: rows, of which so many of one person count in a step."""

from __future__ import annotations

import pytest

import halflife as hl
from halflife.engines import open_source
from halflife.policy import PolicyError, channels, explain
from halflife.policy.promises.table import Case
from policy.promises.test_audited import audit
from policy.promises.test_table import folder
from publisher.town import make, read_csv
from thinning import keep

__all__ = ["folder"]

ROWS = """home,time,kwh,where
a,2026-01-01T00:10Z,1,north
a,2026-01-01T00:10Z,1,north
a,2026-01-01T00:20Z,none,south
a,2026-01-01T00:30Z,1,south
b,2026-01-01T00:30Z,1,north
,2026-01-01T00:30Z,1,north
b,never,1,north
b,2026-01-01T01:30Z,1,north
"""
NONE = {"unit": None, "resolution": None, "clip": None, "fold": None}


def events(tmp_path, source=(), **statistic):
    (tmp_path / "readings.csv").write_text(ROWS)
    stream = {"source": {"files": "readings.csv", "time": "time", **dict(source)}, "output": "events.csv"}
    return make(tmp_path, stream=stream, statistic={**NONE, "kind": "events", "most_events": 3, **statistic})


@pytest.mark.parametrize(("source", "statistic", "totals"), [
    ({}, {"most_events": 3}, [4, 1]),
    ({}, {"most_events": 9}, [5, 1]),
    ({}, {"most_events": 1}, [2, 1]),
    ({}, {"most_events": 9, "duplicates": "once"}, [4, 1]),
    ({"value": "kwh"}, {"most_events": 9}, [4, 1]),
])  # fmt: skip
def test_rows_count_up_to_the_bound_of_each_person(tmp_path, source, statistic, totals):
    (channel,) = channels(events(tmp_path, source, **statistic))
    engine = open_source(str(tmp_path / "readings.csv"))
    assert engine.aggregate(channel.question(1, 2)).sums.ravel().tolist() == totals
    engine.close()
    assert channel.sensitivity.l1 == statistic["most_events"]


def test_the_sensitivity_is_attained_by_two_populations(tmp_path):
    """All that one person may have, against nothing: the brute force of the claim, over every number of rows."""
    policy = events(tmp_path, most_events=3)
    (channel,) = channels(policy)
    totals = []
    for rows in range(7):
        lines = "".join(f"a,2026-01-01T00:{10 + i}Z,1,x\n" for i in range(rows))
        (tmp_path / "readings.csv").write_text("home,time,kwh,where\nb,2026-01-01T00:05Z,1,x\n" + lines)
        engine = open_source(str(tmp_path / "readings.csv"))
        totals.append(int(engine.aggregate(channel.question(1, 1)).sums.sum()))
        engine.close()
    assert totals == [1, 2, 3, 4, 4, 4, 4]
    assert max(totals) - min(totals) == channel.sensitivity.l1


def test_events_are_published_and_verified(tmp_path):
    policy = events(tmp_path, most_events=3)
    hl.publish(policy, clock=lambda: 1_767_225_600 + 3600 * 2)
    assert len(read_csv(tmp_path / "events.csv")) == 2
    assert hl.verify(policy).problems == ()
    said = "\n".join(explain(channels(policy)[0]))
    assert "at most 3 units (1 unit = 1 event)" in said
    assert "published as a count of events: at most 3 events" in said


@pytest.mark.parametrize(("statistic", "said"), [
    ({"most_events": None}, "statistic.most_events: missing: the most events of one person that count in a step"),
    ({"most_events": 0}, "statistic.most_events: must be at least 1"),
    ({"clip": ["0", "5"]}, "statistic.clip: a count of events has no `clip`: leave it out"),
    ({"fold": "sum"}, "statistic.fold: a count of events has no `fold`: leave it out"),
    ({"kind": "count"}, "statistic.most_events: a count of people has no `most_events`: leave it out"),
    ({"kind": "sum", "resolution": "1", "fold": "sum"}, "most_events: a sum has no `most_events`|value: missing"),
])  # fmt: skip
def test_what_is_no_count_of_events_is_refused(tmp_path, statistic, said):
    with pytest.raises(PolicyError, match=said):
        events(tmp_path, **statistic)


@pytest.mark.parametrize(
    "name",
    keep(["w-event", "age-dependent", "almost-periodic, strong"], lambda name: name == "almost-periodic, strong"),
)
def test_no_audit_accuses_events(folder, name):
    assert audit(name, Case("events", clip="may bind", fold="none"), folder, 0.1, 20) == []
