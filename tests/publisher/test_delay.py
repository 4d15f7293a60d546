"""A delay below a step: published once it is over, charged in the step whose end it follows."""

from __future__ import annotations

import halflife as hl
from halflife.ledger import open_ledger
from publisher.town import make, read_csv, write_readings

START, HOUR = 1_767_225_600, 3600


def test_a_step_closes_with_its_delay_and_counts_as_age_0(tmp_path):
    write_readings(tmp_path)
    policy = make(tmp_path, stream={"delay": "5 min"}, output="mean.csv")
    assert sum(hl.publish(policy, clock=lambda: START + 2 * HOUR + 299).published.values()) == 1
    assert sum(hl.publish(policy, clock=lambda: START + 2 * HOUR + 300).published.values()) == 1
    assert len(read_csv(tmp_path / "mean.csv")) == 2
    with open_ledger(policy.ledger_url, read_only=True) as book:
        assert [(r.step, r.age) for entry in book.entries() for r in entry.releases] == [(1, 0), (2, 0)]
    assert hl.verify(policy).problems == ()
