"""Damage to the ledger's rows by somebody who can write SQL, and knows how its hashes are formed."""

from __future__ import annotations

import json
import random
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from halflife.ledger import open_ledger
from halflife.ledger.entry import batch_link, digest, first_link

States = tuple[dict[str, str], ...]
"""What the ledger's older copies held."""


def edit_rows(ledger: Path, draw: random.Random, older: States) -> str:
    """Change a row or two, and say how."""
    with _opened(ledger) as db:
        tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        name = draw.choice([name for name, table in EDITS.items() if table in tables])
        for _ in range(draw.choice((1, 1, 2))):
            _run(db, name, draw)
    return name


def edit_states(ledger: Path, draw: random.Random, older: States) -> str:
    """Change what the publisher goes on from, and say how; an older state is one of the ways."""
    name = draw.choice([*STATES, "bytes that are no text in a state", "bytes that are no text in a state"])
    with _opened(ledger) as db:
        STATES[name](db, draw, older)
    return name


def edit_schema(ledger: Path, draw: random.Random, older: States) -> str:
    """Add or drop a table, a trigger, a view or an index, or change what the file says of itself."""
    statement = draw.choice(SCHEMA)
    with _opened(ledger) as db, suppress(sqlite3.OperationalError):  # a table that ledgers no longer have
        for part in statement.split(";; "):
            db.execute(part)
    return f"{statement[:60]}…" if len(statement) > 60 else statement


def forge(ledger: Path, draw: random.Random, older: States) -> str:
    """Make the account or a release say less than it was, and hash everything again, so that the chain follows."""
    with _opened(ledger) as db:
        if draw.random() < 0.5:
            told = "the account of an older copy"
            account = draw.choice(older)["account"]
            db.execute("UPDATE state SET value = ? WHERE name = 'account'", (account,))
        else:
            told = "a smaller loss"
            db.execute(
                "UPDATE release SET loss = loss * 0.5, scale = scale * 2 WHERE entry = ?", (draw.randrange(1, 5),)
            )
    _hash_again(ledger)
    return f"{told}, hashed again"


@contextmanager
def _opened(ledger: Path) -> Iterator[sqlite3.Connection]:
    """A connection that checks nothing and is closed at the end."""
    with closing(sqlite3.connect(ledger, isolation_level=None)) as db:
        db.execute("PRAGMA foreign_keys = OFF")
        yield db


def _hash_again(ledger: Path) -> None:
    """Form every link anew from what the rows say now."""
    with open_ledger(ledger, read_only=True) as book:
        entries = [(number, entry) for number, entry, _ in book.chained()]
        batches = [*book.batches()]
        head, saved = first_link(book.begun()), digest(book.states().items())
    batches[-1:] = [batch._replace(states=saved) for batch in batches[-1:]]
    with _opened(ledger) as db:
        for number, entry in entries:
            head = entry.link(head)
            db.execute("UPDATE entry SET chain = ? WHERE id = ?", (head, number))
            for batch in [b for b in batches if b.last == number]:
                head, old = batch_link(head, batch.at_us, batch.states, batch.event), batch.link
                table = "batch" if batch.event is None else "event"
                db.execute(f"UPDATE {table} SET states = ?, chain = ? WHERE chain = ?", (batch.states, head, old))


# Rows -------------------------------------------------------------------------------------------------------------------


def _run(db: sqlite3.Connection, statement: str, draw: random.Random) -> None:
    """Edit by one statement; :id is some entry's number, :last the newest's."""
    (last,) = db.execute("SELECT coalesce(max(id), 1) FROM entry").fetchone()
    named = {"id": draw.randrange(1, last + 1), "last": last, "x": draw.random()}
    with suppress(sqlite3.IntegrityError):  # SQLite itself refuses, and nothing is damaged
        db.execute(statement, {k: v for k, v in named.items() if f":{k}" in statement})


EDITS = {
    statement: re.split(r"(?:FROM|INTO|UPDATE) ", statement)[1].split()[0]
    for statement in (
        "DELETE FROM entry WHERE id = :id",
        "DELETE FROM entry WHERE id = :last",
        "DELETE FROM entry WHERE id > :last / 2",
        "DELETE FROM entry",
        "UPDATE entry SET noisy = zeroblob(8) WHERE id = :id",
        "UPDATE entry SET noisy = zeroblob(7) WHERE id = :id",
        "UPDATE entry SET noisy = x'' WHERE id = :last",
        "UPDATE entry SET noisy = x'000000000000f87f' WHERE id = :id",
        "UPDATE entry SET value = randomblob(8) WHERE id = :id",
        "UPDATE entry SET value = NULL WHERE id = :last",
        "UPDATE entry SET spread = spread * :x WHERE id = :id",
        "UPDATE entry SET spread = -1e308 * 10 WHERE id = :last",
        "UPDATE entry SET step = step + 100 WHERE id = :last",
        "UPDATE entry SET step = 9223372036854775807 WHERE id = :last",
        "UPDATE entry SET step = -step WHERE id = :id",
        "UPDATE entry SET release_step = 1 WHERE id = :id",
        "UPDATE entry SET release_step = -9223372036854775808 WHERE id = :id",
        "UPDATE entry SET start_us = 9223372036854775807 WHERE id = :last",
        "UPDATE entry SET end_us = -9223372036854775808 WHERE id = :id",
        "UPDATE entry SET stream = 'nobody' WHERE id = :id",
        "UPDATE entry SET stream = 'nobody' WHERE id > :last / 2",
        "UPDATE entry SET part = 'north' WHERE id = :last",
        "UPDATE entry SET id = 9223372036854775807 WHERE id = :last",
        "UPDATE entry SET chain = randomblob(32) WHERE id = :last",
        "INSERT INTO entry SELECT id + 100, stream, 'x', step, release_step, start_us, end_us, noisy, value, spread, chain "
        "FROM entry WHERE id = :id",
        "INSERT INTO entry SELECT id + 1, stream, part, step + 1, release_step + 1, start_us, end_us, noisy, value, spread, "
        "chain FROM entry WHERE id = :last",
        "DELETE FROM release WHERE entry = :id",
        "DELETE FROM release WHERE entry = :last",
        "DELETE FROM release",
        "UPDATE release SET loss = loss * :x WHERE entry = :id",
        "UPDATE release SET loss = -loss WHERE entry = :id",
        "UPDATE release SET loss = 1e308 * 10 WHERE entry = :id",
        "UPDATE release SET scale = NULL WHERE entry = :id",
        "UPDATE release SET scale = 0 WHERE entry = :last",
        "UPDATE release SET age = -1 WHERE entry = :id",
        "UPDATE release SET noise = 'none' WHERE entry = :last",
        "UPDATE release SET draw = '=other' WHERE entry = :id",
        "UPDATE release SET draw = '' WHERE entry = :id",
        "UPDATE release SET atop = 'nothing' WHERE entry = :id",
        "UPDATE release SET sensitivity = sensitivity * :x WHERE entry = :id",
        "DELETE FROM batch",
        "DELETE FROM batch WHERE last_entry = (SELECT max(last_entry) FROM batch)",
        "UPDATE batch SET at_us = at_us * 2 WHERE last_entry = (SELECT max(last_entry) FROM batch)",
        "UPDATE batch SET at_us = 0",
        "UPDATE batch SET states = randomblob(32) WHERE last_entry = (SELECT max(last_entry) FROM batch)",
        "UPDATE batch SET states = x'' WHERE last_entry = (SELECT min(last_entry) FROM batch)",
        "UPDATE batch SET chain = randomblob(32) WHERE last_entry = (SELECT max(last_entry) FROM batch)",
        "UPDATE batch SET last_entry = last_entry + 7 WHERE last_entry = (SELECT max(last_entry) FROM batch)",
        "DELETE FROM fact",
        "DELETE FROM fact WHERE key = 'promise'",
        "UPDATE fact SET value = replace(value, '1.0', '9.0')",
        "UPDATE fact SET value = 'x' WHERE key LIKE 'stream:%'",
        "UPDATE fact SET value = replace(value, 'kWh', 'Wh')",
        "INSERT INTO fact VALUES ('more', '1')",
        "DELETE FROM emitted",
        "UPDATE emitted SET step = step + 100",
        "UPDATE emitted SET step = -1",
        "UPDATE emitted SET step = step - 3",
        "UPDATE emitted SET sha256 = 'x'",
        "INSERT INTO emitted VALUES ('first:-', 3, NULL)",
        "INSERT INTO emitted VALUES ('first:other.parquet', 900, 'x')",
        "DELETE FROM written",
        "UPDATE written SET step = step + 100",
        "UPDATE written SET step = step - 3",
        "UPDATE written SET step = -1",
        "UPDATE written SET sha256 = randomblob(32)",
        "UPDATE written SET file = file || 'x'",
        "INSERT INTO written SELECT stream, file, step - 2, sha256 FROM written",
        "INSERT INTO written VALUES ('first', '-', 3, x'00')",
    )
}
"""Statements, and the table that they change."""


# States -----------------------------------------------------------------------------------------------------------------


def _pick(db: sqlite3.Connection, draw: random.Random) -> tuple[str, str]:
    rows = db.execute("SELECT name, value FROM state ORDER BY name").fetchall()
    return draw.choice(rows) if rows else ("account", "{}")


def _delete_state(db: sqlite3.Connection, draw: random.Random, older: States) -> None:
    db.execute("DELETE FROM state WHERE name = ?", (_pick(db, draw)[0],))


def _delete_all(db: sqlite3.Connection, draw: random.Random, older: States) -> None:
    db.execute("DELETE FROM state")


def _older_state(db: sqlite3.Connection, draw: random.Random, older: States) -> None:
    states = draw.choice(older)
    name = draw.choice(sorted(states))
    db.execute("INSERT OR REPLACE INTO state VALUES (?, ?)", (name, states[name]))


def _all_older(db: sqlite3.Connection, draw: random.Random, older: States) -> None:
    db.execute("DELETE FROM state")
    db.executemany("INSERT INTO state VALUES (?, ?)", draw.choice(older).items())


def _other_number(db: sqlite3.Connection, draw: random.Random, older: States) -> None:
    name, value = _pick(db, draw)
    places = [m.start() for m in re.finditer(r"\d", value)]
    if places:
        at = draw.choice(places)
        value = value[:at] + draw.choice("0123456789") + value[at + 1 :]
    db.execute("UPDATE state SET value = ? WHERE name = ?", (value, name))


def _other_text(db: sqlite3.Connection, draw: random.Random, older: States) -> None:
    name, value = _pick(db, draw)
    other = draw.choice(
        ("", "null", "[]", "{}", '""', "0", value[: len(value) // 2], value + value, value.replace(":", ","),
         "[" * 5000, json.dumps({"noise": {"x": value}, "mechanism": None, "smoothers": 3}))
    )  # fmt: skip
    db.execute("UPDATE state SET value = ? WHERE name = ?", (other, name))


def _blob_in_text(db: sqlite3.Connection, draw: random.Random, older: States) -> None:
    """Bytes that are no text, within a text: what SQLite or Python says of it may quote the cell."""
    name, value = _pick(db, draw)
    raw = bytearray(value.encode())
    raw[draw.randrange(len(raw))] = draw.choice((0xFF, 0x80, 0x00))
    db.execute("UPDATE state SET value = CAST(? AS TEXT) WHERE name = ?", (bytes(raw), name))


def _rename(db: sqlite3.Connection, draw: random.Random, older: States) -> None:
    db.execute("UPDATE state SET name = name || 'x' WHERE name = ?", (_pick(db, draw)[0],))


def _one_more(db: sqlite3.Connection, draw: random.Random, older: States) -> None:
    db.execute("INSERT OR IGNORE INTO state VALUES (?, '{}')", (draw.choice(("attachment", "stream:second", "x")),))


STATES = {
    "a state deleted": _delete_state,
    "all states deleted": _delete_all,
    "a state of an older copy": _older_state,
    "all states of an older copy": _all_older,
    "a digit of a state changed": _other_number,
    "another text in a state": _other_text,
    "bytes that are no text in a state": _blob_in_text,
    "a state renamed": _rename,
    "a state too many": _one_more,
}

SCHEMA = (
    "CREATE TABLE extra (a)",
    "CREATE VIEW shown AS SELECT * FROM entry",
    "CREATE INDEX quick ON entry (step)",
    "DROP TABLE emitted",
    "DROP TABLE written",
    "DROP TABLE release",
    "DROP TABLE state",
    "ALTER TABLE entry ADD COLUMN more TEXT",
    "ALTER TABLE state RENAME TO states",
    "CREATE TRIGGER t AFTER INSERT ON entry BEGIN DELETE FROM release WHERE entry = new.id; END",
    "CREATE TRIGGER t AFTER INSERT ON release BEGIN UPDATE release SET loss = loss / 2 WHERE entry = new.entry; END",
    "CREATE TRIGGER t AFTER INSERT ON batch BEGIN DELETE FROM state; END",
    "CREATE TRIGGER t BEFORE INSERT ON state BEGIN SELECT RAISE(IGNORE); END",
    "CREATE TRIGGER t AFTER INSERT ON batch BEGIN UPDATE entry SET noisy = zeroblob(8) WHERE id = 1; END",
    "CREATE TRIGGER t AFTER INSERT ON entry BEGIN SELECT RAISE(ABORT, 'no'); END",
    "CREATE TABLE s (name TEXT PRIMARY KEY, value);; INSERT INTO s SELECT * FROM state;; DROP TABLE state;; "
    "ALTER TABLE s RENAME TO state;; UPDATE state SET value = CAST(value AS BLOB)",
    "CREATE TABLE s (name TEXT PRIMARY KEY, value);; INSERT INTO s SELECT * FROM state;; DROP TABLE state;; "
    "CREATE VIEW state AS SELECT name, value FROM s",
    "PRAGMA user_version = 0",
    "PRAGMA user_version = 1",
    "PRAGMA user_version = 3",
    "PRAGMA user_version = 99",
    "PRAGMA user_version = -1",
    "PRAGMA journal_mode = DELETE",
    "PRAGMA application_id = 7",
    "VACUUM",
    "PRAGMA journal_mode = DELETE;; PRAGMA page_size = 512;; VACUUM",
    "PRAGMA wal_checkpoint(TRUNCATE)",
)
