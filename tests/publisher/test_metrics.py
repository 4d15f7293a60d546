"""Metrics for Prometheus: valid, public alone, whole or not at all, and never in the way of publishing."""

from __future__ import annotations

import datetime
import json
import os
import stat
from importlib.metadata import version

import pytest
from click.testing import CliRunner
from prometheus_client.parser import text_string_to_metric_families

import halflife as hl
from halflife.cli import main
from halflife.publisher import metrics
from publisher.town import make, policy_dict, readings, write_readings

NEW_YEAR = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC).timestamp()


def at(hours):
    return lambda: NEW_YEAR + 3600.0 * hours


def read(text):
    """(name, labels) → value of each sample, by the parser of Prometheus' own client."""
    families = list(text_string_to_metric_families(text))
    assert all(family.documentation.endswith(".") for family in families)
    counters = {family.name for family in families if family.type == "counter"}  # the parser takes `_total` off
    assert counters == {"halflife_stream_published_steps", "halflife_stream_skipped_steps"}
    assert all(family.type in ("gauge", "counter") for family in families)
    samples = [(s.name, tuple(sorted(s.labels.items())), s.value) for family in families for s in family.samples]
    assert len({sample[:2] for sample in samples}) == len(samples)
    return {(name, dict(labels).get("stream")): value for name, labels, value in samples}


def invoke(*arguments):
    return CliRunner().invoke(main, list(map(str, arguments)))


def test_every_number_is_that_of_the_status(tmp_path):
    write_readings(tmp_path)
    policy = make(tmp_path, stream={"delay": "2 h"})
    hl.publish(policy, clock=at(7))
    found = hl.status(policy, clock=at(9.5))
    assert read(metrics.format_metrics(found, "town")) == {
        ("halflife_info", None): 1.0,
        ("halflife_promise_limit_nats", None): 1.0,
        ("halflife_promise_risk_nats", None): found.risk,
        ("halflife_promise_used_ratio", None): found.used,
        ("halflife_stream_newest_step", "mean"): 5.0,
        ("halflife_stream_published_steps_total", "mean"): 5.0,
        ("halflife_stream_skipped_steps_total", "mean"): 0.0,
        ("halflife_stream_newest_step_end_timestamp_seconds", "mean"): NEW_YEAR + 5 * 3600,
        ("halflife_stream_next_step_closing_timestamp_seconds", "mean"): NEW_YEAR + 10 * 3600,
        ("halflife_stream_lag_steps", "mean"): 2.0,
        ("halflife_written_timestamp_seconds", None): NEW_YEAR + 9.5 * 3600,
    }
    assert 0 < found.used < 1


def test_before_the_first_step_and_after_the_last_there_is_no_time_to_tell(tmp_path):
    write_readings(tmp_path)
    policy = make(tmp_path)
    before = read(metrics.format_metrics(hl.status(policy, clock=at(0.5)), "town"))
    assert ("halflife_stream_newest_step_end_timestamp_seconds", "mean") not in before
    hl.publish(policy)
    after = read(metrics.format_metrics(hl.status(policy), "town"))
    assert ("halflife_stream_next_step_closing_timestamp_seconds", "mean") not in after
    assert after["halflife_stream_newest_step", "mean"] == 24.0


@pytest.mark.parametrize("name", ['north "A"', "back\\slash", "two\nlines", "naïve ☃"])
def test_labels_are_read_back_as_they_were(tmp_path, name):
    found = hl.status(make(tmp_path), clock=at(3))
    text = metrics.format_metrics(found, name)
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert families["halflife_info"].samples[0].labels == {
        "version": version("halflife"), "population": name, "notion": "w-event",
    }  # fmt: skip
    assert all(s.labels["population"] == name for family in families.values() for s in family.samples)


def test_one_persons_readings_change_no_byte(tmp_path):
    """The whole file, after a run that publishes, with readings of one person changed, bad, or gone."""
    rows = readings()
    others = [row for row in rows if row[0] != "h0"]
    mine = [row for row in rows if row[0] == "h0"]
    bad = [(home, "never", -kwh) for home, _, kwh in mine]
    texts = set()
    for number, data in enumerate((rows, others, others + bad, others + [(h, t, 4_000.0) for h, t, _ in mine])):
        folder = tmp_path / str(number)
        folder.mkdir()
        write_readings(folder, data)
        policy = make(folder)
        hl.publish(policy, clock=at(7))
        metrics.MetricsFile(folder / "town.prom", policy, clock=at(9)).write(policy)
        texts.add((folder / "town.prom").read_bytes())
    assert len(texts) == 1


# The file -----------------------------------------------------------------------------------------------------------


def test_the_file_is_for_everybody_and_leaves_nothing_beside_it(tmp_path):
    found, path = hl.status(make(tmp_path), clock=at(3)), tmp_path / "out" / "town.prom"
    path.parent.mkdir()
    before = os.umask(0o077)
    try:
        metrics.write_metrics(path, found, "town")
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert os.listdir(path.parent) == ["town.prom"]


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_it_is_whole_or_not_at_all(tmp_path, monkeypatch, call):
    found, path = hl.status(make(tmp_path), clock=at(3)), tmp_path / "town.prom"
    metrics.write_metrics(path, found, "town")
    before = path.read_bytes()

    def fail(*_):
        assert path.read_bytes() == before
        assert [name for name in os.listdir(tmp_path) if name.endswith(".prom")] == ["town.prom"]
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(metrics.os, call, fail)
    with pytest.raises(hl.InvalidInput, match=r"town\.prom: metrics cannot be written: No space left"):
        metrics.write_metrics(path, found, "other")
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == ["policy.yaml", "town.prom"]


def test_what_is_written_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    calls = []
    for call in ("fsync", "replace"):
        known = getattr(os, call)
        monkeypatch.setattr(metrics.os, call, lambda *a, known=known, call=call: (calls.append(call), known(*a))[1])
    metrics.write_metrics(tmp_path / "town.prom", hl.status(make(tmp_path), clock=at(3)), "town")
    assert calls == ["fsync", "replace"]


@pytest.mark.parametrize("command", ["status", "publish", "publish --dry-run"])
@pytest.mark.parametrize("name", ["town.txt", ".prom", "town.prom.csv"])
def test_other_endings_are_refused_before_anything_is_done(tmp_path, command, name):
    write_readings(tmp_path)
    make(tmp_path)
    name_of, *options = command.split()
    result = invoke(name_of, tmp_path / "policy.yaml", *options, "--metrics", tmp_path / name)
    assert result.exit_code == 1
    assert "ends in .prom" in result.output
    assert sorted(os.listdir(tmp_path)) == ["policy.yaml", "readings.csv"]


def test_no_file_of_the_policy_is_written_over(tmp_path):
    write_readings(tmp_path)
    (tmp_path / "out.prom").mkdir()
    (tmp_path / "linked.prom").symlink_to("town.prom.shown")
    source = {"files": ["readings.csv", "data/*"], "time": "time", "value": "kwh"}
    data = policy_dict(ledger="town.prom", output="folder/", stream={"source": source})
    made = hl.Policy.from_dict({**data, "mark": "mark.prom"}, tmp_path)
    made.__dict__["noise_key"] = "file:key.prom"  # a promise that keeps noise has one
    for name in ("town.prom", "linked.prom", "mark.prom", "key.prom", "data/a.prom", "folder/a.prom"):
        with pytest.raises(hl.InvalidInput, match=r"give another path|another folder"):
            metrics.check_metrics_file(tmp_path / name, made)
    metrics.check_metrics_file(tmp_path / "other.prom", made)


# Commands -----------------------------------------------------------------------------------------------------------


def test_publish_and_status_write_it(tmp_path):
    write_readings(tmp_path)
    make(tmp_path)
    for command in ("publish", "status"):
        path = tmp_path / f"{command}.prom"
        result = invoke(command, tmp_path / "policy.yaml", "--metrics", path)
        assert result.exit_code == 0, result.output
        assert read(path.read_text())["halflife_stream_newest_step", "mean"] == 24.0


@pytest.mark.parametrize("stays", [False, True])
def test_publishing_goes_on_where_metrics_cannot_be_written_with_one_warning(tmp_path, stays):
    write_readings(tmp_path)
    make(tmp_path)
    options = ["--follow"] if stays else []  # the policy has an end: it is published, and then it ends by itself
    result = invoke("publish", tmp_path / "policy.yaml", *options, "--metrics", tmp_path / "nowhere" / "town.prom")
    assert result.exit_code == 0, result.output
    lines = [json.loads(line) for line in result.stderr.splitlines() if line.startswith("{")]
    (warning,) = [line for line in lines if line["level"] == "warning" and line["event"] == "metrics not written"]
    assert "nowhere/town.prom: metrics cannot be written" in warning["why"]
    assert len((tmp_path / "mean.csv").read_text().splitlines()) == 25


def test_a_publisher_that_stays_writes_it_after_every_run_that_published(tmp_path):
    from halflife.publisher.follow import follow

    write_readings(tmp_path)
    data = policy_dict()
    del data["clock"]["end"]
    (tmp_path / "policy.yaml").write_text(json.dumps(data))
    now, seen, path = [NEW_YEAR + 1800], [], tmp_path / "town.prom"
    policy = hl.Policy.load(tmp_path / "policy.yaml")
    file = metrics.MetricsFile(path, policy, clock=lambda: now[0])

    def tell(loaded, summary):
        file.write(loaded)
        seen.append(read(path.read_text())["halflife_stream_newest_step", "mean"])

    def sleep(seconds):
        now[0] += 600

    follow(tmp_path / "policy.yaml", told=tell, clock=lambda: now[0], sleep=sleep, stop=lambda: len(seen) == 4)
    assert seen == [0.0, 1.0, 2.0, 3.0]


def test_a_warning_comes_again_only_after_the_file_could_be_written(tmp_path):
    write_readings(tmp_path)
    policy, said = make(tmp_path), []
    file = metrics.MetricsFile(tmp_path / "out" / "town.prom", policy, said.append)
    file.write(policy)
    file.write(policy)
    assert len(said) == 1
    (tmp_path / "out").mkdir()
    file.write(policy)
    (tmp_path / "out" / "town.prom").unlink()
    (tmp_path / "out").rmdir()
    file.write(policy)
    assert len(said) == 2
