"""Steps that were skipped for good are never published, and everybody who asks is told so."""

from __future__ import annotations

import io
import json

import pytest
from click.testing import CliRunner
from rich.console import Console

import halflife as hl
from halflife.cli import main
from halflife.cli.status_table import status_table
from halflife.errors import LedgerError
from halflife.publisher.backfill import PublishRun
from halflife.publisher.health import find_trouble
from halflife.publisher.metrics import format_metrics
from halflife.publisher.session import Session
from publisher.test_follow import World, hours, two_streams
from publisher.town import make, policy_dict, write_readings

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


def written(found):
    """A status as the terminal shows it."""
    out = io.StringIO()
    Console(file=out, width=160).print(status_table(found, 160))
    return out.getvalue()


@pytest.fixture(params=["sqlite", "postgresql"])
def town(tmp_path, request, schema):
    """A town of which steps 1, 2 and 5 are published, 3 and 4 skipped."""
    write_readings(tmp_path)
    ledger = "town.ledger" if request.param == "sqlite" else request.getfixturevalue("postgresql").url(schema)
    policy = make(tmp_path, ledger=ledger)
    hl.publish(policy, clock=at(2))
    publish_after(policy, (3, 3), (4, 4), hour=5)
    return policy


def at(hour):
    return lambda: START + hour * HOUR + 1


def test_whoever_asks_is_told_which_steps_are_published_and_which_skipped(town):
    found = hl.status(town, clock=at(5))
    (stream,) = found.streams
    assert (stream.newest, stream.published, stream.skipped, stream.skipped_since, stream.lag) == (5, 3, 2, None, 0)
    assert find_trouble(town, clock=at(5)) == []
    metrics = format_metrics(found, "town")
    assert 'halflife_stream_newest_step{population="town",stream="mean"} 5\n' in metrics
    assert "# TYPE halflife_stream_skipped_steps_total counter\n" in metrics
    assert 'halflife_stream_skipped_steps_total{population="town",stream="mean"} 2\n' in metrics
    assert 'halflife_stream_published_steps_total{population="town",stream="mean"} 3\n' in metrics
    assert "2 skipped for good" in written(found)
    verdict = hl.verify(town)
    assert (verdict.problems, verdict.steps, verdict.published) == ((), {"mean": 5}, {"mean": 3})
    assert verdict.skipped == {"mean": [(3, 4)]}
    content = hl.certify(town, clock=at(5))["certificate"]
    assert content["skipped"] == {"mean": [[3, 4]]}
    assert (content["published"][0]["steps"], content["published"][0]["not_published"]) == (3, 2)


def test_steps_that_are_skipped_now_are_no_published_ones(town):
    """Before: `newest` was the skipped step, the metrics said the same, and all was called healthy."""
    publish_after(town, (6, 7), hour=7)
    (stream,) = hl.status(town, clock=at(7)).streams
    assert (stream.newest, stream.published, stream.skipped, stream.skipped_since, stream.lag) == (5, 3, 4, 6, 0)
    assert stream.end.hour == 5
    (problem,) = find_trouble(town, clock=at(7))
    assert problem.startswith("mean: from step 6 on nothing was published, as its source was out of reach")
    assert "all from step 6 on" in written(hl.status(town, clock=at(7)))
    assert 'newest_step{population="town",stream="mean"} 5\n' in format_metrics(hl.status(town, clock=at(7)), "town")
    assert hl.publish(town, clock=at(7)).last["mean"] == (5, "2026-01-01 05:00+00:00")
    assert hl.publish(town, clock=at(8)).last["mean"] == (8, "2026-01-01 08:00+00:00")
    assert find_trouble(town, clock=at(8)) == []


def test_the_commands_and_pages_say_it_too(tmp_path, monkeypatch):
    write_readings(tmp_path)
    policy = make(tmp_path)
    hl.publish(policy, clock=at(2))
    publish_after(policy, (3, 4), hour=6)
    publish_after(policy, (7, 7), hour=7)
    path, page = str(tmp_path / "policy.yaml"), tmp_path / "report.html"
    said = CliRunner().invoke(main, ["verify", path]).output
    assert "mean: 4 steps published, up to step 6, compared with" in said
    assert "mean: skipped for good, as the source was out of reach: steps 3 to 4, 7\n" in said
    assert CliRunner().invoke(main, ["report", path, "--out", str(page)]).exit_code == 0
    assert "mean: steps 3 to 4, 7 are not published and never will be" in page.read_text()
    made = CliRunner().invoke(main, ["certificate", path, "--out", str(tmp_path / "c.json"), "--page", str(page)])
    assert made.exit_code == 0, made.output
    assert "mean: skipped for good, as the source was out of reach: steps 3 to 4, 7\n" in made.output
    assert "<td>3 to 4, 7</td>" in page.read_text()


def test_late_steps_without_room_are_skipped(tmp_path):
    """Under a promise that forgets late steps count from now on, and the oldest may find no room."""
    write_readings(tmp_path)
    data = policy_dict() | {"promise": {"notion": "exponential", "epsilon": 1, "half_life": "2 h"}}
    (tmp_path / "policy.yaml").write_text(json.dumps(data))
    policy = hl.Policy.load(tmp_path / "policy.yaml")
    hl.publish(policy, clock=at(2))
    hl.publish(policy, clock=at(20))
    (stream,) = hl.status(policy, clock=at(20)).streams
    assert stream.newest == 20
    assert stream.skipped > 0
    assert stream.published + stream.skipped == 20
    assert stream.skipped_since is None


def test_steps_that_a_restore_passes_over_are_no_skipped_ones(tmp_path):
    write_readings(tmp_path)
    policy = make(tmp_path)
    hl.publish(policy, clock=at(2))
    publish_after(policy, (3, 3), hour=4)
    hl.backup(policy, tmp_path / "b", clock=at(4))
    hl.publish(policy, clock=at(6))
    for file in tmp_path.glob("town.ledger*"):
        file.unlink()
    hl.restore(tmp_path / "b", policy, pass_over=True, clock=at(6))
    (stream,) = hl.status(policy, clock=at(6)).streams
    assert (stream.newest, stream.published, stream.skipped, stream.passed_over) == (4, 3, 1, 2)
    assert "2 passed over by a restore" in written(hl.status(policy, clock=at(6)))


def test_a_backup_from_before_a_skip_is_said_to_be_that(tmp_path):
    """Before: `the ledger was amended, or its key changed`, which nobody had done."""
    write_readings(tmp_path)
    policy = make(tmp_path)
    hl.publish(policy, clock=at(2))
    hl.backup(policy, tmp_path / "b", clock=at(2))
    publish_after(policy, (3, 3), hour=3)
    for file in tmp_path.glob("town.ledger*"):
        file.unlink()
    with pytest.raises(LedgerError, match=r"steps were skipped for good, their source out of reach \(1 events"):
        hl.restore(tmp_path / "b", policy, pass_over=True, clock=at(4))


def test_a_ledger_from_before_a_skip_is_refused(tmp_path):
    """A skip is marked before anybody is told of it, as a value is: an older copy would publish what is skipped."""
    write_readings(tmp_path)
    policy = make(tmp_path)
    hl.publish(policy, clock=at(2))
    old = {file: file.read_bytes() for file in tmp_path.glob("town.ledger*") if file.is_file()}
    publish_after(policy, (3, 3), hour=3)
    for file, content in old.items():
        file.write_bytes(content)
    assert "mean.csv.mark" in hl.status(policy, clock=at(3)).older
    with pytest.raises(LedgerError, match=r"mean\.csv\.mark"):
        hl.publish(policy, clock=at(3))


def test_what_was_charged_for_skipped_steps_is_taken_back_for_all_that_follow(tmp_path, monkeypatch):
    """Three batches were charged beforehand, as if nothing were skipped; then one stream of the first is."""
    monkeypatch.setattr("halflife.publisher.backfill.BATCH_STEPS", 2)
    hours(tmp_path, *range(12))
    policy = two_streams(tmp_path, {"lateness": None, "absent": "skip"}, absent="skip")
    World(now=START + HOUR + 1, end=START + 1.5 * HOUR).follow(policy)

    class SkipsOnce(PublishRun):
        def select_read(self, batch):
            if self.published["mean"]:
                return batch
            self.session.skip({d.channel.name: (int(d.steps[0]), int(d.steps[-1])) for d in batch[1:]})
            return batch[:1]

    session = Session(policy, at(7))
    with session.hold(10):
        SkipsOnce(session, {}, lambda *_: None, lambda: False).run()
    session.close()
    found = {stream.name: (stream.published, stream.skipped) for stream in hl.status(policy, clock=at(7)).streams}
    assert found["mean"] == (7, 0)
    assert found["other"][1] > 0
    assert hl.verify(policy).problems == ()
