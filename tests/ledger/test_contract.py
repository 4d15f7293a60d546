"""The contract suite for ledgers over the one in an SQLite file."""

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
def interrupt(book):
    """Refuse the last statement of a commit: entries, releases and states were written before it."""

    def deny(action, table, *more):
        last = action == sqlite3.SQLITE_INSERT and table == "batch"
        return sqlite3.SQLITE_DENY if last else sqlite3.SQLITE_OK

    book._db.set_authorizer(deny)
    yield
    book._db.set_authorizer(None)


def make_subject(folder):
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

    return LedgerSubject(lambda name, **how: open_ledger(folder / name, **how), interrupt, tamper, back_up)


@pytest.mark.parametrize("check", LEDGER_CHECKS)
def test_ledger(tmp_path, check):
    LEDGER_CHECKS[check](make_subject(tmp_path))


def test_the_whole_suite_is_one_call(tmp_path):
    s = make_subject(tmp_path)
    check_ledger(s.open, s.interrupt, s.tamper, s.back_up)
