"""The ledger's tables, as they are now and as they came about.

`SCHEMA` is what a new ledger gets. `MIGRATIONS[v]` brings one of version v to v + 1; a test holds that all of them,
replayed on an empty file, give the same tables. A migration that has been released is never edited.

An entry is unique by stream, step and part (group), and a release by its entry and draw.
"""

from __future__ import annotations

import sqlite3

from halflife.errors import LedgerError

_FACTS = "CREATE TABLE fact (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID"
_ENTRIES = """CREATE TABLE entry (
    id INTEGER PRIMARY KEY,
    stream TEXT NOT NULL,
    part TEXT NOT NULL,
    step INTEGER NOT NULL,
    release_step INTEGER NOT NULL,
    start_us INTEGER NOT NULL,
    end_us INTEGER NOT NULL,
    noisy BLOB NOT NULL,
    value BLOB,
    spread REAL NOT NULL,
    chain BLOB NOT NULL,
    UNIQUE (stream, step, part)
) STRICT"""
_RELEASES = """CREATE TABLE release (
    entry INTEGER NOT NULL REFERENCES entry (id),
    draw TEXT NOT NULL,
    number INTEGER NOT NULL,
    loss REAL NOT NULL,
    age INTEGER NOT NULL,
    sensitivity REAL NOT NULL,
    scale REAL,
    noise TEXT NOT NULL,
    atop TEXT,
    PRIMARY KEY (entry, draw)
) STRICT, WITHOUT ROWID"""
_BATCHES = """CREATE TABLE batch (
    last_entry INTEGER PRIMARY KEY,
    at_us INTEGER NOT NULL,
    states BLOB NOT NULL,
    chain BLOB NOT NULL
) STRICT"""
_STATES = "CREATE TABLE state (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID"
_EMITTED = "CREATE TABLE emitted (output TEXT PRIMARY KEY, step INTEGER NOT NULL, sha256 TEXT) STRICT, WITHOUT ROWID"

SCHEMA = (_FACTS, _ENTRIES, _RELEASES, _BATCHES, _STATES, _EMITTED)
MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (_FACTS, _ENTRIES, _RELEASES, _BATCHES, _STATES),
    (_EMITTED,),
)
VERSION = len(MIGRATIONS)


def prepare(db: sqlite3.Connection) -> None:
    """Give an empty file the tables of now, and bring older ones up to date, in one transaction."""
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if version == VERSION:
        return
    if version > VERSION:
        raise LedgerError(f"a ledger of version {version} was written by a newer halflife: this one reads {VERSION}")
    new = db.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)
    if version == 0 and not new:
        raise LedgerError("an SQLite file, but no ledger: its tables are others; give the ledger a path of its own")
    statements = SCHEMA if new else [s for step in MIGRATIONS[version:] for s in step]
    with db:
        db.execute("BEGIN IMMEDIATE")
        for statement in statements:
            db.execute(statement)
        db.execute(f"PRAGMA user_version = {VERSION}")
