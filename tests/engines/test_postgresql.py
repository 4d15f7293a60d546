"""Readings in a table on a server: types, names, what is sent, and servers that do not answer. Answers are in `test_engines`."""

from __future__ import annotations

import contextlib
import datetime
import os
import shutil
import signal
import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

import halflife as hl
from cutting_proxy import run_proxy
from engines.test_engines import BASE
from halflife import InvalidInput, PolicyError
from halflife.engines import open_source
from halflife.engines.postgresql import engine as engine_module
from halflife.engines.postgresql import session as session_module
from halflife.errors import Interrupted, SourceUnreachable
from halflife.libpq import ALIVE
from halflife.steps import Steps
from postgres_server import USER, run_server
from publisher.test_follow import HOUR, START, World, exact, values
from publisher.town import LOUD, STEPS, exact_means, make, policy_dict, read_csv, readings, write_readings

DAY = replace(BASE, buckets=Steps.of("1 day", "2020-01-01").buckets(0, 2**60), first=1, last=2, local=((-(2**62), 0),))
ASKED = replace(DAY, person="p", time="t", value="x", low=0, high=10**6, fold="sum", multiply=1, divide=1)


@pytest.fixture
def base(postgresql):
    """A clean database of the server, and its address."""
    postgresql.execute("DROP SCHEMA IF EXISTS public CASCADE", "CREATE SCHEMA public")
    return postgresql, postgresql.url("x").split("?")[0]


def ask(url, table, question=ASKED):
    engine = open_source(url, table=table)
    try:
        return engine.aggregate(question)
    finally:
        engine.close()


def test_no_cell_of_any_type_stops_a_read(base):
    """Numbers that no double holds, NaN, infinite and far times: each is a bad cell, and the others count."""
    server, url = base
    server.execute(
        "CREATE TYPE mood AS ENUM ('a', 'b')",
        "CREATE DOMAIN home AS mood",
        "CREATE TABLE r (p home, t timestamptz, x numeric)",
        "INSERT INTO r VALUES ('a', '2020-01-01 12:00+00', 5), ('a', '2020-01-01 13:00+00', 'NaN'), ('b', '2020-01-02+00', 7.4), "
        "('b', '2020-01-02 01:00+00', 1e400), ('b', '2020-01-02 02:00+00', 'Infinity'), ('b', 'infinity', 1), "
        "('b', '-infinity', 1), (NULL, '2020-01-01 01:00+00', 1), ('b', '294276-01-01+00', 1), ('a', NULL, 1), "
        "('a', '4714-12-31 BC', 1), ('a', '2020-01-03+00', 100)",
    )
    answer = ask(url, "r")
    assert answer.sums.ravel().tolist() == [5, 7]
    told = {key: answer.tallies[key] for key in ("rows", "bad_time", "bad_person", "bad_value")}
    assert told == {"rows": 10, "bad_time": 4, "bad_person": 1, "bad_value": 3}


def test_no_cast_of_a_type_that_somebody_made_is_called(base):
    """It may fail on one label. Domains have no casts of their own, but PostgreSQL takes the cast of what is beneath them."""
    server, url = base
    server.execute(
        "CREATE TYPE mood AS ENUM ('a', 'b')",
        "CREATE DOMAIN home AS mood",
        "CREATE FUNCTION f (mood) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RAISE EXCEPTION 'cell %', $1; END $$",
        "CREATE CAST (mood AS text) WITH FUNCTION f (mood)",
        "CREATE TABLE r (p mood, t timestamp, x home, y uuid)",
        "INSERT INTO r VALUES ('a', '2020-01-01', NULL, 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'), (NULL, '2020-01-01', 'b', NULL)",
    )
    for person, told in (("p", (1, 1)), ("x", (1, 1)), ("y", (1, 1))):
        answer = ask(url, "r", replace(ASKED, person=person, value=None, kind="count", low=0, high=1))
        assert (int(answer.sums.sum()), answer.tallies["bad_person"]) == told


@pytest.mark.parametrize("kind", ["date", "timestamp", "timestamptz", "int4", "int8", "float8", "numeric", "float4"])
def test_only_rows_of_the_asked_steps_are_sent_and_an_index_finds_them(base, kind, monkeypatch):
    server, url = base
    server.execute(f"CREATE TABLE r (p int4, t {kind}, x float8)")
    day = "'2020-01-01'::date + i" if kind == "date" else "'2020-01-01'::timestamp + i * interval '1 h'"
    number = kind not in ("date", "timestamp", "timestamptz")
    server.execute(
        "SET TimeZone = 'UTC'",
        f"INSERT INTO r SELECT i % 9, {f'extract(epoch FROM {day})' if number else f'({day})'}::{kind}, 1 "
        "FROM generate_series(0, 49999) i",
    )
    server.execute("CREATE INDEX ON r (t)", "ANALYZE r")
    sent = []
    take = engine_module.PostgresEngine._take
    monkeypatch.setattr(
        engine_module.PostgresEngine, "_take", lambda self, session, sql: sent.append(sql) or take(self, session, sql)
    )
    asked = replace(ASKED, epoch="s") if number else ASKED
    assert ask(url, "r", asked).sums.ravel().tolist() == ([1, 1] if kind == "date" else [24, 24])
    plan = "\n".join(row[0] for row in server.execute(f"EXPLAIN {sent[-1]}"))
    assert "Index" in plan, plan
    rounded = 2 if kind in ("float4", "float8", "numeric") else 0
    rows = server.execute(f"SELECT count(*) FROM ({sent[-1]}) s")[0][0]
    assert 0 <= rows - (2 if kind == "date" else 48) <= rounded


def test_times_as_text_and_names_of_any_kind(base):
    server, url = base
    server.execute(
        'CREATE SCHEMA "S 1"', 'CREATE TABLE "S 1"."re%""ad\'ings" ("P" text, "t t" text, "x;--" int8)',
        """INSERT INTO "S 1"."re%""ad'ings" VALUES ('ü', '2020-01-01 10:00', 3), ('ü', 'nonsense', 4)""",
    )  # fmt: skip
    asked = replace(ASKED, person="P", time="t t", value="x;--")
    answer = ask(url, "S 1.re%\"ad'ings", asked)
    assert answer.sums.ravel().tolist() == [3, 0]
    assert answer.tallies["bad_time"] == 1
    with pytest.raises(InvalidInput, match=r"unknown table of .* did you mean"):
        open_source(url, table="S 1.readings")
    with pytest.raises(InvalidInput, match="no column 'p': did you mean 'P'"):
        ask(url, "S 1.re%\"ad'ings", replace(asked, person="p"))


def test_whole_numbers_of_any_type_are_one_person(base):
    server, url = base
    server.execute(
        "CREATE TABLE r (p numeric(6, 1), t timestamp, x real)",
        "INSERT INTO r VALUES (7, '2020-01-01 01:00', 2), (7.0, '2020-01-01 02:00', 3), (7.5, '2020-01-01 03:00', 9)",
    )
    answer = ask(url, "r", replace(ASKED, high=4))
    assert answer.sums.ravel().tolist() == [4, 0], "two people, or one person beyond the clip"
    assert answer.tallies["bad_person"] == 1


def test_types_that_no_reading_has_are_refused_by_their_names(base):
    server, url = base
    server.execute("CREATE TABLE r (p text, t timestamp, x jsonb, y interval)")
    engine = open_source(url, table="r")
    assert engine.columns() == {"p": "VARCHAR", "t": "TIMESTAMP", "x": "JSONB", "y": "INTERVAL"}
    with pytest.raises(InvalidInput, match="column 'x' is jsonb, but a person is"):
        engine.check(ASKED)
    with pytest.raises(InvalidInput, match="column 'y' is interval"):
        engine.check(replace(ASKED, value="y"))
    with pytest.raises(InvalidInput, match="column 't' is TIMESTAMP, but a person is text or a whole number"):
        engine.check(replace(ASKED, time="p", person="t", value=None))
    engine.close()


# Servers that do not answer -----------------------------------------------------------------------------------------------


def test_a_server_that_is_away_is_tried_a_few_times_and_then_out_of_reach(base, monkeypatch):
    server, url = base
    tries = []
    real = session_module.connect
    monkeypatch.setattr(session_module, "connect", lambda options: tries.append(1) or real(options))
    monkeypatch.setattr(engine_module, "PAUSE", 0.01)
    with pytest.raises(
        SourceUnreachable, match=r"^postgresql://127.0.0.1:1/postgres cannot be reached: nobody answers there"
    ):
        open_source("postgresql://me@127.0.0.1:1/postgres", table="r")
    assert len(tries) == engine_module.ATTEMPTS
    tries.clear()
    with pytest.raises(SourceUnreachable, match="no such database"):
        open_source(url.rsplit("/", 1)[0] + "/nowhere", table="r")
    server.execute("CREATE TABLE r (p text, t timestamp, x int4)")
    engine = open_source(url, table="r")
    server.execute("DROP TABLE r")
    tries.clear()
    with pytest.raises(InvalidInput, match="the table is not there, or this user may not read it") as refused:
        engine.aggregate(ASKED)
    assert len(tries) == 1
    assert not isinstance(refused.value, SourceUnreachable)
    assert refused.value.__context__ is None, "what the driver said is passed on"


def test_a_connection_that_is_cut_is_made_again(base, monkeypatch):
    server, url = base
    monkeypatch.setattr(engine_module, "PAUSE", 0.01)
    server.execute("CREATE TABLE r (p text, t timestamp, x int4)", "INSERT INTO r VALUES ('a', '2020-01-01 01:00', 2)")
    with run_proxy(server.port) as proxy:
        engine = open_source(url.replace(str(server.port), str(proxy.port)), table="r")
        proxy.cut_at(b'AS "p"', "before")
        assert engine.aggregate(ASKED).sums.ravel().tolist() == [2, 0]
        assert proxy.cuts == 1
        proxy.refuses = True
        proxy.cut_all()
        with pytest.raises(SourceUnreachable):
            engine.aggregate(ASKED)


def test_a_table_that_somebody_keeps_locked_is_out_of_reach(base, monkeypatch):
    server, url = base
    monkeypatch.setattr(engine_module, "PAUSE", 0.01)
    monkeypatch.setattr(session_module, "PATIENCE", 1)
    server.execute("CREATE TABLE r (p text, t timestamp, x int4)")
    engine = open_source(url, table="r")
    with server.connect() as other:
        other.execute("BEGIN")
        other.execute("LOCK TABLE r IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(SourceUnreachable, match="another session keeps the table locked"):
            engine.aggregate(ASKED)
        other.execute("ROLLBACK")
    assert engine.aggregate(ASKED).sums.ravel().tolist() == [0, 0]


def fill(server, rows=200_000):
    """A table whose rows fit into no buffer between a server and its client."""
    server.execute(
        "CREATE TABLE r (p text, t timestamp, x int4)",
        f"INSERT INTO r SELECT repeat('a', 100), '2020-01-01 01:00', 1 FROM generate_series(1, {rows})",
    )


@contextmanager
def stopped_midway(server, monkeypatch):
    """Stop the backend of a read once its first rows are on their way; it goes on at the end, or after a while."""
    stopped = []
    alarm = threading.Timer(LONG, lambda: resume(stopped))
    alarm.start()
    take_over = engine_module.open_arrow

    def stop(*args, **more):
        stopped.extend(pid for (pid,) in server.execute(f"SELECT pid FROM pg_stat_activity WHERE {MINE}"))
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        return take_over(*args, **more)

    monkeypatch.setattr(engine_module, "open_arrow", stop)
    try:
        yield stopped
    finally:
        alarm.cancel()
        resume(stopped)


def resume(pids):
    while pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pids.pop(), signal.SIGCONT)


LONG = 20.0
"""Seconds after which a silence ends by itself, so that a read that waits for it fails its test."""
MINE = "application_name = 'halflife' AND backend_type = 'client backend'"


def test_a_server_that_falls_silent_is_left(base, monkeypatch):
    server, url = base
    fill(server)
    engine = open_source(url, table="r")
    monkeypatch.setattr(session_module, "SILENCE", 1.0)
    with stopped_midway(server, monkeypatch) as stopped:
        with pytest.raises(SourceUnreachable, match="it has said nothing for too long"):
            engine.aggregate(ASKED)
        assert len(stopped) == 1, "a server that is silent is not asked again and again"
    wait_for_end_of_sessions(server)


def wait_for_end_of_sessions(server):
    end = time.monotonic() + LONG
    while server.execute(f"SELECT 1 FROM pg_stat_activity WHERE {MINE}"):
        assert time.monotonic() < end, "the session that was left has not ended"
        time.sleep(0.05)


def test_a_network_that_falls_silent_is_left(base, monkeypatch):
    server, url = base
    fill(server)
    with run_proxy(server.port) as proxy:
        engine = open_source(url.replace(str(server.port), str(proxy.port)), table="r")
        monkeypatch.setattr(session_module, "SILENCE", 1.0)
        proxy.cut_at(b'AS "p"', "silent")
        alarm = threading.Timer(LONG, proxy.cut_all)
        alarm.start()
        with pytest.raises(SourceUnreachable, match="it has said nothing for too long"):
            engine.aggregate(ASKED)
        alarm.cancel()
        assert proxy.cuts == 1


@pytest.mark.parametrize("silent", [False, True])
def test_a_read_is_broken_off_when_asked(base, monkeypatch, silent):
    server, url = base
    fill(server)
    engine = open_source(url, table="r")
    monkeypatch.setattr(session_module, "PATIENCE", 100)

    def stop() -> None:
        time.sleep(0.5)
        engine.interrupt()

    with stopped_midway(server, monkeypatch) if silent else locked(server) as stopped:
        threading.Thread(target=stop).start()
        with pytest.raises(Interrupted, match="reading was broken off"):
            engine.aggregate(ASKED)
        assert stopped, "it was broken off only when the server went on"
        if not silent:
            wait_for_end_of_sessions(server)


@contextmanager
def locked(server):
    """Another session keeps the table."""
    with server.connect() as other:
        other.execute("BEGIN")
        other.execute("LOCK TABLE r IN ACCESS EXCLUSIVE MODE")
        yield other
        other.execute("ROLLBACK")


def test_a_peer_that_is_gone_is_noticed(base, monkeypatch):
    """What libpq is told of lives in the driver: the address that it is given is looked at."""
    import adbc_driver_postgresql.dbapi as driver

    server, url = base
    server.execute("CREATE TABLE r (p text, t timestamp, x int4)")
    told = []
    real = driver.connect
    monkeypatch.setattr(driver, "connect", lambda uri, **more: told.append(uri) or real(uri, **more))
    open_source(url, table="r")
    assert all(f"{key}={value}" in told[0] for key, value in ALIVE.items())


def test_settings_of_a_role_end_no_read(base):
    """How long a statement may take would let the amount of data decide."""
    server, _ = base
    timeouts = ("statement_timeout", "idle_session_timeout", "idle_in_transaction_session_timeout")
    server.execute("SELECT 1", *(f"ALTER ROLE postgres SET {key} = '1min'" for key in timeouts))
    try:
        with contextlib.closing(session_module.Session("a table")) as session:
            session.open({"host": "127.0.0.1", "port": str(server.port), "user": USER, "dbname": USER})
            listed = ", ".join(f"current_setting('{key}')" for key in (*timeouts, "row_security", "client_encoding"))
            assert session.rows(f"SELECT {listed}") == [("0", "0", "0", "off", "SQL_ASCII")]
    finally:
        server.execute("ALTER ROLE postgres RESET ALL")


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("08006", SourceUnreachable), ("57P01", SourceUnreachable), ("53300", SourceUnreachable), ("55P03", SourceUnreachable),
        ("40001", SourceUnreachable), ("40P01", SourceUnreachable), ("22012", InvalidInput), ("42P01", InvalidInput),
        ("57014", InvalidInput), ("XX001", InvalidInput), ("0A000", InvalidInput),
    ],
)  # fmt: skip
def test_the_code_of_an_error_alone_says_what_it_means(code, kind):
    """Words of a cell that the driver quotes are those of a connection that was refused."""
    from adbc_driver_manager import AdbcStatusCode, DataError

    text = 'invalid input: "FATAL password certificate no such host"'
    failure = session_module.explain(
        "a table", DataError(text, status_code=AdbcStatusCode.INVALID_DATA, sqlstate=code), connecting=False
    )
    assert type(failure.refusal) is kind
    assert failure.again == (kind is SourceUnreachable)
    assert not any(word in str(failure.refusal) for word in ("let this user in", "certificate", "host", "FATAL"))


def test_what_may_fail_on_a_cell_is_refused_when_it_is_opened(base):
    server, url = base
    server.execute(
        "CREATE TABLE r (p text, t timestamp, x int4, y int4 GENERATED ALWAYS AS (x + 1) STORED) PARTITION BY RANGE (t)",
        "CREATE TABLE r1 PARTITION OF r FOR VALUES FROM ('2020-01-01') TO ('2020-01-02')",
        "INSERT INTO r VALUES ('a', '2020-01-01 01:00', 2)",
        "CREATE VIEW v AS SELECT p, t, 1 / x AS x FROM r",
        "CREATE MATERIALIZED VIEW m AS SELECT p, t, y AS x FROM r",
        "CREATE FOREIGN DATA WRAPPER w", "CREATE SERVER s FOREIGN DATA WRAPPER w",
        "CREATE FOREIGN TABLE f (p text, t timestamp, x int4) SERVER s",
        "CREATE TABLE q (p text, t timestamp, x int4) PARTITION BY RANGE (t)",
        "CREATE TABLE q1 PARTITION OF q FOR VALUES FROM ('2020-01-01') TO ('2020-01-02') PARTITION BY RANGE (t)",
        "CREATE FOREIGN TABLE q2 PARTITION OF q1 FOR VALUES FROM ('2020-01-01') TO ('2020-01-02') SERVER s",
    )  # fmt: skip
    try:
        for table in ("v", "f", "q"):
            with pytest.raises(InvalidInput, match="is a view or a foreign table, or has such parts"):
                open_source(url, table=table)
        assert ask(url, "r", replace(ASKED, value="y")).sums.ravel().tolist() == [3, 0]
        assert ask(url, "m").sums.ravel().tolist() == [3, 0]
    finally:
        server.execute("DROP FOREIGN DATA WRAPPER w CASCADE")


def test_a_table_of_which_policies_hide_rows_is_refused(base, monkeypatch):
    server, url = base
    server.execute(
        "CREATE ROLE meter LOGIN", "CREATE TABLE r (p text, t timestamp, x int4)", "GRANT SELECT ON r TO meter",
        "GRANT USAGE ON SCHEMA public TO meter", "INSERT INTO r VALUES ('a', '2020-01-01 01:00', 2)",
    )  # fmt: skip
    hers = url.replace(f"{USER}@", "meter@")
    try:
        engine = open_source(hers, table="r")
        assert engine.aggregate(ASKED).sums.ravel().tolist() == [2, 0]
        server.execute("ALTER TABLE r ENABLE ROW LEVEL SECURITY", "CREATE POLICY p ON r USING (1 / (x - 2) > 0)")
        with pytest.raises(InvalidInput, match="cannot be read: the table is not there, or this user may not read it"):
            engine.aggregate(ASKED)
        with pytest.raises(InvalidInput, match="row-level security hides rows of 'r' from this user"):
            open_source(hers, table="r")
        assert ask(url, "r").sums.ravel().tolist() == [2, 0], "its owner sees all rows"
    finally:
        server.execute("DROP OWNED BY meter", "DROP ROLE meter")


def test_a_table_of_two_meanings_is_refused(base):
    server, url = base
    server.execute(
        "CREATE SCHEMA s",
        "CREATE TABLE s.r (p text, t timestamp, x int4)",
        'CREATE TABLE "s.r" (p text, t timestamp, x int4)',
    )
    with pytest.raises(
        InvalidInput, match=r"'s\.r' is a name of 2 tables, \"public\"\.\"s\.r\" and \"s\"\.\"r\": rename one"
    ):
        open_source(url, table="s.r")
    assert open_source(url, table="public.s.r").columns().keys() == {"p", "t", "x"}


def test_a_column_that_nobody_can_read_is_not_named_where_columns_are_people(base):
    server, url = base
    server.execute("CREATE TABLE r (t timestamp, ann int4, bea interval, cid numeric)")
    engine = open_source(url, table="r")
    with pytest.raises(InvalidInput, match="1 of 4 columns are of types that no reading has") as refused:
        engine.check(replace(ASKED, wide=True))
    assert "bea" not in str(refused.value)


# Text that is none ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def database(base):
    """Make a database of an encoding, and give its address and a connection to it."""
    server, url = base
    made = []

    def make_one(encoding):
        import psycopg

        name = f"of_{encoding.lower()}"
        server.execute(
            f"DROP DATABASE IF EXISTS {name}",
            f"CREATE DATABASE {name} ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0",
        )
        db = psycopg.connect(host="127.0.0.1", port=server.port, user=USER, dbname=name, autocommit=True)
        made.append((name, db))
        return f"{url.rpartition('/')[0]}/{name}", db

    yield make_one
    for name, db in made:
        db.close()
        server.execute(f"DROP DATABASE {name} (FORCE)")


def test_text_that_is_no_utf8_is_a_bad_cell(database):
    url, db = database("SQL_ASCII")
    for statement in (
        b"CREATE TABLE r (p text, t timestamp, x text, \"\xff\" int)",
        b"INSERT INTO r VALUES ('a', '2020-01-01 01:00', 2), ('\xff', '2020-01-01 01:00', 3), ('b', '2020-01-01 02:00', '4\xe9')",
        "INSERT INTO r VALUES ('ü', '2020-01-02 01:00', 5)".encode(),
        b'CREATE TABLE "\xff\xfe" (i int)', b'CREATE SCHEMA "\xe9"', b"CREATE TYPE \"\xe9\" AS ENUM ('\xe9')",
    ):  # fmt: skip
        db.execute(statement)
    answer = ask(url, "r", replace(ASKED, table={"a": 0, "ü": 0}))
    assert answer.sums.ravel().tolist() == [2, 5]
    assert {key: answer.tallies[key] for key in ("rows", "bad_person", "bad_value")} == {
        "rows": 4, "bad_person": 1, "bad_value": 1,
    }  # fmt: skip
    with pytest.raises(InvalidInput, match="the names of 1 columns are no UTF-8 text"):
        open_source(url, table="r").check(replace(ASKED, wide=True))


def test_a_database_whose_text_would_be_converted_is_refused(database):
    url, db = database("WIN1252")
    db.execute("CREATE TABLE r (p text, t timestamp, x int4)")
    with pytest.raises(InvalidInput, match="the database's encoding is WIN1252") as refused:
        open_source(url, table="r")
    assert not isinstance(refused.value, SourceUnreachable)


def test_a_cell_that_is_far_too_long_is_a_bad_cell(base):
    server, url = base
    server.execute(
        "CREATE TABLE r (p text, t timestamp, x numeric)",
        "INSERT INTO r VALUES (repeat('a', 10000), '2020-01-01 01:00', 2), (repeat('b', 10001), '2020-01-01 01:00', 3), "
        "('c', '2020-01-01 01:00', ('1.' || repeat('0', 9997) || '1')::numeric), "
        "('d', '2020-01-01 01:00', ('1.' || repeat('0', 9999) || '1')::numeric)",
    )
    answer = ask(url, "r")
    assert answer.sums.ravel().tolist() == [3, 0]
    assert (answer.tallies["bad_person"], answer.tallies["bad_value"]) == (1, 1)


# Secrets and TLS ------------------------------------------------------------------------------------------------------------


def test_passwords_come_from_the_environment_or_a_service_file_and_tls_is_passed_on(tmp_path, monkeypatch):
    with run_server() as server:
        server.execute(
            "SET password_encryption = 'scram-sha-256'", "CREATE ROLE meter LOGIN PASSWORD 'open-sesame'",
            "CREATE TABLE r (p text, t timestamp, x int4)", "INSERT INTO r VALUES ('a', '2020-01-01 01:00', 2)",
            "GRANT SELECT ON r TO meter",
        )  # fmt: skip
        folder = server.folder / "data"
        make_certificates(folder, tmp_path)
        (folder / "pg_hba.conf").write_text(
            "hostssl all meter 127.0.0.1/32 scram-sha-256\nhost all postgres 127.0.0.1/32 trust\n"
        )
        with open(folder / "postgresql.conf", "a") as config:
            config.write("\nssl = on\n")
        server.stop()
        server.start()
        monkeypatch.setattr(engine_module, "PAUSE", 0.01)
        address = f"postgresql://meter@127.0.0.1:{server.port}/{USER}?sslmode=verify-full&sslrootcert={tmp_path}/ca.crt"
        with pytest.raises(SourceUnreachable, match="does not let this user in") as refused:
            open_source(address, table="r")
        assert "meter" not in str(refused.value)
        monkeypatch.setenv("PGPASSWORD", "open-sesame")
        assert ask(address, "r").sums.ravel().tolist() == [2, 0]
        with pytest.raises(SourceUnreachable, match="certificate"):
            open_source(address.replace("ca.crt", "other.crt"), table="r")
        monkeypatch.delenv("PGPASSWORD")
        service = tmp_path / "services"
        service.write_text(
            f"[town]\nhost=127.0.0.1\nport={server.port}\nuser=meter\npassword=open-sesame\ndbname={USER}\nsslmode=require\n"
        )
        monkeypatch.setenv("PGSERVICEFILE", str(service))
        assert ask("postgresql:///?service=town", "r").sums.ravel().tolist() == [2, 0]


def make_certificates(folder: Path, beside: Path) -> None:
    """A server's certificate for 127.0.0.1 with its authority, and another authority."""
    import ipaddress

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    now = datetime.datetime.now(datetime.UTC)

    def make(subject, issuer, key, by, *extensions):
        made = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key())
        made = made.serial_number(x509.random_serial_number()).not_valid_before(now - datetime.timedelta(days=1))
        made = made.not_valid_after(now + datetime.timedelta(days=9))
        for extension in extensions:
            made = made.add_extension(extension, critical=False)
        return made.sign(by, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    def called(name):
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])

    authority, other, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(3))
    root = x509.BasicConstraints(ca=True, path_length=None)
    (beside / "ca.crt").write_bytes(make(called("ca"), called("ca"), authority, authority, root))
    (beside / "other.crt").write_bytes(make(called("other"), called("other"), other, other, root))
    here = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    (folder / "server.crt").write_bytes(make(called("db"), called("ca"), key, authority, here))
    form = serialization.PrivateFormat.PKCS8
    (folder / "server.key").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    )
    os.chmod(folder / "server.key", 0o600)
    if os.getuid() == 0:
        for name in ("server.crt", "server.key"):
            shutil.chown(folder / name, USER, USER)


# In policies ----------------------------------------------------------------------------------------------------------------


def test_a_ledger_that_was_begun_from_files_goes_on_from_a_table(tmp_path, base):
    server, url = base
    write_readings(tmp_path)
    policy = make(tmp_path, epsilon=LOUD)
    hl.publish(policy, clock=lambda: 1_767_225_600 + 5 * 3600)
    server.execute("CREATE TABLE meters (home text, time timestamp, kwh numeric(6, 3))")
    with server.connect() as db, db.cursor() as cursor:
        cursor.executemany("INSERT INTO meters VALUES (%s, %s, %s)", readings())
    source = {"database": url, "table": "meters", "time": "time", "value": "kwh"}
    moved = make(tmp_path, epsilon=LOUD, stream={"source": source})
    assert hl.publish(moved).published == {"mean": STEPS - 5}
    assert [float(row["value"]) for row in read_csv(tmp_path / "mean.csv")] == pytest.approx(exact_means(), abs=1e-3)
    assert hl.verify(moved).problems == ()
    assert hl.check(moved).streams[0].problems is not None


def test_who_follows_goes_by_absent_where_a_table_became_a_view_or_its_server_falls_silent(tmp_path, base, monkeypatch):
    """At the second closing the table is a view; at the fourth nothing that the server says arrives."""
    server, url = base
    server.execute("CREATE TABLE meters (home text, time timestamp, kwh numeric(6, 3))")
    with server.connect() as db, db.cursor() as cursor:
        cursor.executemany("INSERT INTO meters VALUES (%s, %s, %s)", readings())
    monkeypatch.setattr(session_module, "SILENCE", 1.0)
    with run_proxy(server.port) as proxy:
        there = url.replace(str(server.port), str(proxy.port))
        source = {"database": there, "table": "meters", "time": "time", "value": "kwh"}
        policy = make(tmp_path, epsilon=LOUD, stream={"source": source, "absent": "skip"})
        world = World(end=START + 5.5 * HOUR)
        hide = ("ALTER TABLE meters RENAME TO kept", "CREATE VIEW meters AS SELECT * FROM kept")
        world.at(START + 1.5 * HOUR, lambda: server.execute(*hide))
        world.at(START + 2.5 * HOUR, lambda: server.execute("DROP VIEW meters", "ALTER TABLE kept RENAME TO meters"))
        world.at(START + 3.5 * HOUR, lambda: proxy.cut_at(b'AS "home"', "silent"))
        world.follow(policy)
        assert proxy.cuts == 1
    assert values(tmp_path) == pytest.approx({k: exact(k - 1) for k in (1, 3, 5)}, abs=1e-3)
    assert hl.verify(policy).problems == ()


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ({"time": "t"}, "where are the readings? Give `files`, or `database` and `table`"),
        ({"time": "t", "database": "postgresql://h/d"}, "say which table holds the readings"),
        ({"time": "t", "database": "postgresql://h/d", "table": "r", "files": "a.csv"}, "leave one of them out"),
        ({"time": "t", "database": "postgresql://h/d", "table": "r", "format": "csv"}, "leave one of them out"),
        ({"time": "t", "database": "postgresql://me:secret@h/d", "table": "r"}, "this address holds a password"),
        ({"time": "t", "database": "postgresql://h/d?password=secret", "table": "r"}, "this address holds a password"),
        (
            {"time": "t", "database": "postgresql://h/d?schema=s", "table": "r"},
            "unknown key of a source's address 'schema'",
        ),
        ({"time": "t", "database": "town.db", "table": "r"}, "a database is postgresql://HOST/DATABASE"),
    ],
)
def test_where_readings_are_is_said_once_and_without_a_password(tmp_path, source, said):
    with pytest.raises(PolicyError) as refused:
        make(tmp_path, stream={"source": {"value": "kwh", **source}})
    assert said in str(refused.value)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    "wrong",
    [
        {"stream": {"source": {"files": "postgresql://me:secret@h/d"}}},
        {"stream": {"source": {"files": ["a.csv", "postgres:/me:secret@h/d"]}}},
        {"stream": {"source": {"database": ["postgresql://me:secret@h/d"], "table": "r"}}},
        {"stream": {"source": {"database": {"host": "h", "password": "secret"}, "table": "r"}}},
        {"stream": {"source": {"database": "host=h password=secret", "table": "r"}}},
        {"stream": {"source": {"postgresql://me:secret@h/d": "r"}}},
        {"stream": {"output": "postgresql://me:secret@h/d"}},
        {"mark": "postgresql://me:secret@h/d"},
        {"ledger": "POSTGRESQL://me:secret@h/d"},
        {"promise": {"notion": "postgresql://me:secret@h/d"}},
        *(
            {"stream": {"source": {"database": f"postgresql://me:{password}@h/d", "table": "r"}}}
            for password in ("secret?", "?secret=1", "12/secret", "secret#", "se@cret", "x%00secret", "[secret")
        ),
    ],
)
def test_a_password_that_stands_anywhere_in_a_policy_is_not_repeated(tmp_path, wrong):
    source = wrong.get("stream", {}).get("source")
    if source is not None:
        source |= {"time": "t", "value": "kwh"}
    mark = {"mark": wrong.pop("mark")} if "mark" in wrong else {}
    with pytest.raises(InvalidInput) as refused:
        hl.Policy.from_dict({**policy_dict(**wrong), **mark}, tmp_path)
    assert "this address holds a password" in str(refused.value)
    assert "secret" not in str(refused.value)
    assert "cret" not in str(refused.value)
