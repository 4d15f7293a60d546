"""What works on a ledger in a file works on one on a server; an older dump is refused; backups go from kind to kind."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

import halflife as hl
from halflife import LedgerError
from halflife.cli import main
from halflife.ledger import open_ledger
from halflife.publisher.secrets_at_rest.rotation import rotate_noise_key
from postgres_server import USER, find_program
from publisher import test_secrets_at_rest as secrets
from publisher.test_crash import check_whole
from publisher.test_restore import at, push, town
from publisher.test_vintages import town as revisable
from publisher.town import kept_noise, make, policy_dict, read_csv, write_readings


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def run(*arguments, status=0):
        ended = CliRunner().invoke(main, [str(a) for a in arguments])
        assert ended.exit_code == status, f"{arguments}: {ended.output} {ended.exception!r}"
        return ended.output

    return run


def test_every_command_works_on_a_server(tmp_path, postgresql, schema, run):
    write_readings(tmp_path)
    data = policy_dict(ledger=postgresql.url(schema, user="postgres"), promise={"reach": "30 days"})
    path = tmp_path / "policy.yaml"
    path.write_text(json.dumps(data))
    policy = hl.Policy.load(path)
    assert "mean" in run("check", path)
    run("plan", path)
    run("publish", path, "--dry-run")
    run("publish", path)
    check_whole(policy)
    run("publish", path)
    assert "promise" in run("status", path)
    assert "Everything agrees." in run("verify", path)
    assert "Everything agrees." in run("verify", policy.ledger_url, "--output", f"mean={policy.path('mean.csv')}")
    run("report", path)
    run("certificate", path, "--out", "c.json")
    run("verify", "c.json", "--policy", path)
    run("hindsight", path)
    data["streams"][0]["source"]["value"] = "energy"
    (tmp_path / "readings.csv").write_text((tmp_path / "readings.csv").read_text().replace("kwh", "energy"))
    path.write_text(json.dumps(data))
    assert "was begun under another policy" in run("publish", path, status=1)
    run("amend", path, "--reason", "the meter's software calls it so", "--same-meaning")
    run("audit", path, "--seconds", 2, "--runs", 20, "--processes", 1)
    run("backup", path, "saved")
    assert hl.publisher.backing_up.read_backup(tmp_path / "saved").mark.events == 1
    assert "Everything agrees." in run("verify", path)


def test_a_step_is_published_again_on_a_server(tmp_path, postgresql, schema):
    policy = revisable(tmp_path, ledger=postgresql.url(schema))
    hl.publish(policy)
    revised = hl.revise(policy, "mean", 7, 9)
    verdict = hl.verify(policy)
    assert verdict.good, verdict.problems
    assert [int(row["step"]) for row in read_csv(Path(revised.file))] == [7, 8, 9]


def test_kept_noise_goes_on_and_is_sealed_anew(tmp_path, postgresql, schema, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    policy = secrets.town(tmp_path / "town", ledger=postgresql.url(schema))
    hl.publish(policy, clock=secrets.at(30))
    before = kept_noise(policy)
    assert len(before) == secrets.DAY
    rotate_noise_key(policy, clock=secrets.at(31))
    assert kept_noise(policy) == before
    hl.publish(policy, clock=secrets.at(40))
    assert kept_noise(policy) == before
    assert hl.verify(policy).good
    names = postgresql.execute(f"SELECT name FROM {schema}.state UNION ALL SELECT name FROM {schema}.kept ORDER BY 1")
    assert ("stream:mean",) in names
    assert postgresql.execute(f"SELECT name FROM {schema}.kept") == [("stream:mean",)]
    assert postgresql.execute(f"SELECT count(*) FROM {schema}.state WHERE value LIKE '%sealed%'") == [(0,)]
    hl.publish(policy, clock=secrets.at(100))
    assert "sealed" not in str(postgresql.execute(f"SELECT value FROM {schema}.kept")[0][0])


def dump(server, schema, file):
    command = [
        find_program("pg_dump"),
        "-h",
        "127.0.0.1",
        "-p",
        str(server.port),
        "-U",
        USER,
        "-n",
        schema,
        "-f",
        str(file),
        USER,
    ]
    subprocess.run(command, check=True, capture_output=True)


def put_back(server, schema, file):
    server.execute(f"DROP SCHEMA {schema} CASCADE")
    command = [
        find_program("psql"),
        "-h",
        "127.0.0.1",
        "-p",
        str(server.port),
        "-U",
        USER,
        "-v",
        "ON_ERROR_STOP=1",
        "-q",
    ]
    subprocess.run([*command, "-f", str(file), USER], check=True, capture_output=True)


def test_an_older_dump_is_refused_by_guard_marks_and_outputs(tmp_path, postgresql, schema):
    policy = town(tmp_path, ledger=postgresql.url(schema))
    push(policy, 1, 2)
    dump(postgresql, schema, tmp_path / "dump.sql")
    push(policy, 3)
    put_back(postgresql, schema, tmp_path / "dump.sql")
    with pytest.raises(
        LedgerError, match="holds 2 entries, but 3 were published from it: a restored backup would draw"
    ):
        push(policy, 3)
    assert not hl.verify(policy).good
    guard = policy.path(f"{schema}.postgresql/ledger.shown")
    with open_ledger(policy.ledger_url, read_only=True) as book:
        newest = book.newest()
    guard.write_text(f"shown 2 {newest.link.hex()}\n")  # an operator put this back, too
    with pytest.raises(LedgerError, match=r"but 3 entries were published from it, says .*mean\.csv\.mark"):
        push(policy, 3)
    policy.path("mean.csv.mark").unlink()
    with pytest.raises(hl.HalflifeError, match=r"mean\.csv .*ledger"):
        push(policy, 3)
    with open_ledger(policy.ledger_url, read_only=True) as book:
        assert book.last_step("mean") == 2


def test_a_newest_dump_is_gone_on_with(tmp_path, postgresql, schema):
    policy = town(tmp_path, ledger=postgresql.url(schema))
    push(policy, 1, 2)
    dump(postgresql, schema, tmp_path / "dump.sql")
    put_back(postgresql, schema, tmp_path / "dump.sql")
    push(policy, 3)
    assert hl.verify(policy).good


@pytest.mark.parametrize("kinds", [("sqlite", "postgresql"), ("postgresql", "sqlite"), ("postgresql", "postgresql")])
def test_a_backup_is_restored_as_either_kind(tmp_path, postgresql, schema, kinds):
    """The rows are the same, so are the chain, the account and what is kept; what comes next follows."""
    urls = {"sqlite": "town.ledger", "postgresql": postgresql.url(schema)}
    policy = town(tmp_path, ledger=urls[kinds[0]])
    push(policy, 1, 2)
    hl.backup(policy, tmp_path / "saved")
    head = hl.verify(policy).head
    if kinds[0] == "postgresql":
        postgresql.execute(f"DROP SCHEMA {schema} CASCADE")
    policy = town(tmp_path, ledger=urls[kinds[1]])
    restored = hl.restore(tmp_path / "saved", policy, clock=at(2))
    assert restored.head == head == hl.verify(policy).head
    push(policy, 3)
    verdict = hl.verify(policy)
    assert verdict.good, verdict.problems
    assert verdict.steps == {"mean": 3}


def test_kept_noise_is_restored_where_readers_do_not_see_it(tmp_path, postgresql, schema, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    policy = secrets.town(tmp_path / "town")
    hl.publish(policy, clock=secrets.at(30))
    before = kept_noise(policy)
    hl.backup(policy, tmp_path / "saved")
    policy = secrets.town(tmp_path / "town", ledger=postgresql.url(schema))
    hl.restore(tmp_path / "saved", policy, clock=secrets.at(30))
    assert postgresql.execute(f"SELECT name FROM {schema}.kept") == [("stream:mean",)]
    assert postgresql.execute(f"SELECT count(*) FROM {schema}.state WHERE name LIKE 'stream:%'") == [(0,)]
    hl.publish(policy, clock=secrets.at(40))
    assert kept_noise(policy) == before
    assert hl.verify(policy).good


def test_an_older_backup_is_put_back_only_if_lost_steps_are_passed_over(tmp_path, postgresql, schema):
    policy = town(tmp_path, ledger=postgresql.url(schema))
    push(policy, 1, 2)
    hl.backup(policy, tmp_path / "saved")
    push(policy, 3, 4)
    with pytest.raises(LedgerError, match="holds 4 entries, more than the backup, with 2: keep it, it is newer"):
        hl.restore(tmp_path / "saved", policy, clock=at(4))
    postgresql.execute(f"DROP SCHEMA {schema} CASCADE")
    with pytest.raises(hl.HalflifeError, match="the backup goes up to 2"):
        hl.restore(tmp_path / "saved", policy, clock=at(4))
    restored = hl.restore(tmp_path / "saved", policy, pass_over=True, clock=at(4))
    assert restored.passed == {"mean": (3, 4)}
    with pytest.raises(hl.InvalidInput, match="passed over"):
        push(policy, 4)
    push(policy, 5)
    assert hl.verify(policy).good


def test_a_second_ledger_about_the_same_people_is_refused(tmp_path, postgresql, schema):
    (tmp_path / "other").mkdir()
    push(town(tmp_path, ledger=postgresql.url(schema)), 1)
    with pytest.raises(LedgerError, match=f"schema={schema}&.* is about the same population, 'town'"):
        push(town(tmp_path / "other", ledger=postgresql.url(f"{schema}_b")), 1)


def test_a_policy_that_may_not_write_is_told_how(tmp_path, postgresql, schema, run):
    make(tmp_path, ledger=postgresql.url(schema, port=1))
    said = run("publish", tmp_path / "policy.yaml", status=1)
    assert "nobody answers there: start the server, or correct the host and the port" in " ".join(said.split())
    assert not os.path.exists(tmp_path / "mean.csv")
