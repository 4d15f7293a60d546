"""Steps that were skipped for good are never published, and everybody who asks is told so."""

from __future__ import annotations

import pytest

import halflife as hl
from halflife.publisher.backfill import PublishRun
from halflife.publisher.session import Session
from publisher.town import make, write_readings

START, HOUR = 1_767_225_600, 3600


def publish_after(policy, *skips, hour, done=None):
    """Publish what is due at an hour, after some stretches of steps were skipped; with `done`, as if less had been."""
    session = Session(policy, lambda: START + hour * HOUR + 1)
    with session.hold(10):
        for first, last in skips:
            assert session.skip({"mean": (first, last)})
        if done is not None:
            session.done["mean"] = done
        PublishRun(session, {}, lambda *_: None, lambda: False).run()
    session.close()


@pytest.mark.parametrize("skips", [[(2, 10), (3, 4)], [(3, 4), (2, 10)], [(2, 10), (2, 3), (5, 6)]])
def test_no_entry_may_be_of_a_skipped_step_though_stretches_overlap(tmp_path, skips):
    """Before: a stretch within another one hid what was skipped behind it."""
    write_readings(tmp_path)
    policy = make(tmp_path)
    hl.publish(policy, clock=lambda: START + HOUR + 1)
    publish_after(policy, *skips, hour=7, done=6)
    (problem,) = hl.verify(policy).problems
    assert problem.endswith("(mean, step 7): is of a step that was skipped for good")
