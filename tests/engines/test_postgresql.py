"""Readings in a table on a server: types, names, what is sent, and servers that do not answer. Answers are in `test_engines`."""

from __future__ import annotations

import datetime
import os
import shutil
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

import halflife as hl
from cutting_proxy import run_proxy
from engines.test_engines import BASE
from halflife import InvalidInput, PolicyError
from halflife.engines import open_source
from halflife.engines import postgresql as engine_module
from halflife.errors import Interrupted, SourceUnreachable
from halflife.steps import Steps
from postgres_server import USER, run_server
from publisher.town import LOUD, STEPS, exact_means, make, read_csv, readings, write_readings

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
        engine_module.PostgresEngine, "_take", lambda self, cursor, sql: sent.append(sql) or take(self, cursor, sql)
    )
    asked = replace(ASKED, epoch="s") if number else ASKED
    assert ask(url, "r", asked).sums.ravel().tolist() == ([1, 1] if kind == "date" else [24, 24])
    plan = "\n".join(row[0] for row in server.execute(f"EXPLAIN {sent[-1]}"))
    assert "Index" in plan, plan
    assert server.execute(f"SELECT count(*) FROM ({sent[-1]}) s")[0][0] < 200


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
    real = engine_module._connect
    monkeypatch.setattr(engine_module, "_connect", lambda options: tries.append(1) or real(options))
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
    with pytest.raises(SourceUnreachable, match="the table is not there, or this user may not read it") as refused:
        engine.aggregate(ASKED)
    assert len(tries) == 1
    assert refused.value.__context__ is None, "what the driver said is passed on"


def test_a_connection_that_is_cut_is_made_again(base, monkeypatch):
    server, url = base
    monkeypatch.setattr(engine_module, "PAUSE", 0.01)
    server.execute("CREATE TABLE r (p text, t timestamp, x int4)", "INSERT INTO r VALUES ('a', '2020-01-01 01:00', 2)")
    with run_proxy(server.port) as proxy:
        engine = open_source(url.replace(str(server.port), str(proxy.port)), table="r")
        proxy.cut_at(b'SELECT "p"::text', "before")
        assert engine.aggregate(ASKED).sums.ravel().tolist() == [2, 0]
        assert proxy.cuts == 1
        proxy.refuses = True
        proxy.cut_all()
        with pytest.raises(SourceUnreachable):
            engine.aggregate(ASKED)


def test_a_table_that_somebody_keeps_locked_is_out_of_reach(base, monkeypatch):
    server, url = base
    monkeypatch.setattr(engine_module, "PAUSE", 0.01)
    monkeypatch.setattr(engine_module, "PATIENCE", 1)
    server.execute("CREATE TABLE r (p text, t timestamp, x int4)")
    engine = open_source(url, table="r")
    with server.connect() as other:
        other.execute("BEGIN")
        other.execute("LOCK TABLE r IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(SourceUnreachable, match="another session keeps the table locked"):
            engine.aggregate(ASKED)
        other.execute("ROLLBACK")
    assert engine.aggregate(ASKED).sums.ravel().tolist() == [0, 0]


def test_a_read_is_broken_off_when_asked(base):
    server, url = base
    server.execute(
        "CREATE VIEW slow AS SELECT 'a'::text AS p, '2020-01-01 01:00'::timestamp AS t, 1 AS x, pg_sleep(0.05)::text AS y "
        "FROM generate_series(1, 100000)"
    )
    server.execute("CREATE VIEW r AS SELECT p, t, x FROM slow WHERE y IS NOT NULL")
    engine = open_source(url, table="r")

    def stop() -> None:
        time.sleep(0.5)
        engine.interrupt()

    threading.Thread(target=stop).start()
    with pytest.raises(Interrupted, match="reading was broken off"):
        engine.aggregate(ASKED)


def test_the_session_changes_nothing(base):
    server, url = base
    server.execute(
        "CREATE TABLE w (i int)",
        "CREATE FUNCTION f() RETURNS int LANGUAGE plpgsql AS 'BEGIN INSERT INTO w VALUES (1); RETURN 1; END'",
        "CREATE VIEW r AS SELECT 'a' AS p, '2020-01-01 01:00'::timestamp AS t, f() AS x",
    )
    with pytest.raises(SourceUnreachable):
        ask(url, "r")
    assert server.execute("SELECT count(*) FROM w") == [(0,)]


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
