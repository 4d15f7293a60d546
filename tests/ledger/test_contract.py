"""The contract suite for ledgers, one body over every kind: in an SQLite file, and on a PostgreSQL server."""

import re
import shutil
import sqlite3
from contextlib import closing, contextmanager

import pytest

from halflife.ledger import open_ledger
from halflife.testing import LEDGER_CHECKS, LedgerSubject, check_ledger

SWAP = "UPDATE {table} SET {id} = CASE {id} WHEN 2 THEN -3 WHEN 3 THEN -2 END WHERE {id} IN (2, 3)"
BACK = "UPDATE {table} SET {id} = -{id} WHERE {id} < 0"
TAMPERED = {
    "value": ["UPDATE entry SET noisy = CAST(x'0000000000000840' AS BLOB) WHERE id = 2"],
    "loss": ["UPDATE release SET loss = loss * 1.1 WHERE entry = 2"],
    "removed": ["DELETE FROM release WHERE entry = 2", "DELETE FROM entry WHERE id = 2"],
    "reordered": [
        text.format(table=table, id=column)
        for text in (SWAP, BACK)
        for table, column in (("entry", "id"), ("release", "entry"))
    ],
    "newest": ["UPDATE entry SET spread = spread * 1.1 WHERE id = (SELECT max(id) FROM entry)"],
    "state": ["UPDATE state SET value = '{\"step\": 4}' WHERE name = 'account'"],
    "fact": ["UPDATE fact SET value = '{\"epsilon\": 1.1}' WHERE key = 'promise'"],
    "event": ["UPDATE event SET body = replace(body, 'members', 'numbers') WHERE number = 1"],
    "event removed": ["DELETE FROM event WHERE number = 1"],
    "event moved": ["UPDATE event SET last_entry = 2 WHERE number = 1"],
    "time": ["UPDATE batch SET at_us = at_us + 1 WHERE last_entry = 2"],
}


@contextmanager
def interrupt_sqlite(book):
    """Refuse the last statement of a commit: entries, releases and states were written before it."""

    def deny(action, table, *more):
        last = action == sqlite3.SQLITE_INSERT and table == "batch"
        return sqlite3.SQLITE_DENY if last else sqlite3.SQLITE_OK

    book._db.set_authorizer(deny)
    yield
    book._db.set_authorizer(None)


def make_sqlite(folder):
    def tamper(name, what):
        with closing(sqlite3.connect(folder / name)) as db, db:
            for statement in TAMPERED[what]:
                assert db.execute(statement).rowcount, statement

    def back_up(name):
        with closing(sqlite3.connect(folder / name)) as db:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        shutil.copy(folder / name, folder / f"{name}.copy")

        def put_back():
            for ending in ("-wal", "-shm"):
                (folder / f"{name}{ending}").unlink(missing_ok=True)
            shutil.copy(folder / f"{name}.copy", folder / name)

        return put_back

    return LedgerSubject(lambda name, **how: open_ledger(folder / name, **how), interrupt_sqlite, tamper, back_up)


ROWS = ("fact", "entry", "release", "batch", "event", "state", "kept", "written", "lease", "fence")


def make_postgresql(server, schema, folder):
    """Ledgers by name: each a schema of its own, with a folder of its own for the guard."""

    def place(name):
        return f"{schema}_{re.sub('[^a-z]', '_', name)}"

    def tamper(name, what):
        with server.connect() as db:
            db.execute(f"SET search_path = {place(name)}")
            db.execute("SET session_replication_role = replica")  # as damage would, it asks for no key
            for statement in TAMPERED[what]:
                text = statement.replace("CAST(x'0000000000000840' AS BLOB)", "'\\x0000000000000840'::bytea")
                assert db.execute(text).rowcount, text

    def back_up(name):
        own, copy = place(name), f"{place(name)}_copy"
        server.execute(
            f"DROP SCHEMA IF EXISTS {copy} CASCADE",
            f"CREATE SCHEMA {copy}",
            *(f"CREATE TABLE {copy}.{table} AS TABLE {own}.{table}" for table in ROWS),
        )

        def put_back():
            server.execute(
                f"TRUNCATE {', '.join(f'{own}.{table}' for table in ROWS)}",
                *(f"INSERT INTO {own}.{table} TABLE {copy}.{table}" for table in ROWS),
            )

        return put_back

    @contextmanager
    def interrupt(book):
        """The server's disk is full when a batch is written: entries, releases and states were before it."""
        own = book.name.rpartition("schema=")[2]
        server.execute(
            f"CREATE FUNCTION {own}.fail() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'full' USING ERRCODE = 'disk_full'; END $$",
            f"CREATE TRIGGER fail BEFORE INSERT ON {own}.batch FOR EACH ROW EXECUTE FUNCTION {own}.fail()",
        )
        yield
        server.execute(f"DROP TRIGGER fail ON {own}.batch", f"DROP FUNCTION {own}.fail()")

    def open_named(name, **how):
        return open_ledger(server.url(place(name), folder / place(name)), **how)

    return LedgerSubject(open_named, interrupt, tamper, back_up)


@pytest.fixture(params=["sqlite", "postgresql"])
def subject(request, tmp_path, schema):
    if request.param == "sqlite":
        return make_sqlite(tmp_path)
    return make_postgresql(request.getfixturevalue("postgresql"), schema, tmp_path)


@pytest.mark.parametrize("check", LEDGER_CHECKS)
def test_ledger(subject, check):
    LEDGER_CHECKS[check](subject)


def test_the_whole_suite_is_one_call(tmp_path):
    s = make_sqlite(tmp_path)
    check_ledger(s.open, s.interrupt, s.tamper, s.back_up)
