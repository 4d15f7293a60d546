"""The ledger's tables.

An entry is unique by stream, step and part (group), and a release by its entry and draw. A span of 1 is left out (NULL).
Version 5 is version 4 with events: a ledger of version 4 is read as one without any, and gets the table when it is written to.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from functools import cache

from halflife.errors import LedgerError
from halflife.ledger.base import NoLedger

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
    span INTEGER,
    step_sensitivity REAL,
    PRIMARY KEY (entry, draw)
) STRICT, WITHOUT ROWID"""
_BATCHES = """CREATE TABLE batch (
    last_entry INTEGER PRIMARY KEY,
    at_us INTEGER NOT NULL,
    states BLOB NOT NULL,
    chain BLOB NOT NULL
) STRICT"""
_EVENTS = """CREATE TABLE event (
    number INTEGER PRIMARY KEY,
    last_entry INTEGER NOT NULL,
    at_us INTEGER NOT NULL,
    body TEXT NOT NULL,
    states BLOB NOT NULL,
    chain BLOB NOT NULL
) STRICT"""
_STATES = "CREATE TABLE state (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID"
_WRITTEN = """CREATE TABLE written (
    stream TEXT NOT NULL,
    file TEXT NOT NULL,
    step INTEGER NOT NULL,
    sha256 BLOB NOT NULL,
    PRIMARY KEY (stream, file, step)
) STRICT, WITHOUT ROWID"""

WITHOUT_EVENTS = 4
VERSION = 5
SCHEMA = {
    WITHOUT_EVENTS: (_FACTS, _ENTRIES, _RELEASES, _BATCHES, _STATES, _WRITTEN),
    VERSION: (_FACTS, _ENTRIES, _RELEASES, _BATCHES, _STATES, _WRITTEN, _EVENTS),
}
"""The tables of each version that is read."""


def prepare(db: sqlite3.Connection) -> None:
    """Give an empty file, or a ledger of version 4, the tables that it lacks, in one transaction; refuse any other file."""
    version = check_tables(db)
    if version == VERSION:
        return
    with db:
        db.execute("BEGIN IMMEDIATE")
        for statement in SCHEMA[VERSION]:
            if statement not in SCHEMA.get(version, ()):
                db.execute(statement)
        db.execute(f"PRAGMA user_version = {VERSION}")


def check_tables(db: sqlite3.Connection) -> int:
    """Return a ledger's version, 0 for an empty file; refuse a file that holds anything but the tables of that version.

    A trigger or an index would act on what is written, and a table in other words than ours would take what ours refuses.
    """
    (version,) = db.execute("PRAGMA user_version").fetchone()
    (application,) = db.execute("PRAGMA application_id").fetchone()
    if version > VERSION:
        raise LedgerError(f"a ledger of version {version} was written by a newer halflife: this one reads {VERSION}")
    found, wanted = _objects(db), _made(version) if version in SCHEMA else frozenset()
    if 0 < version < WITHOUT_EVENTS and {"fact", "entry"} <= {name for _, name, *_ in found}:
        raise LedgerError(
            "was written by halflife 0.1.0, before the form was frozen: begin a new ledger, with new "
            "outputs, for a new population"
        )
    if application or version < 0 or (found and not found & wanted):
        raise NoLedger("an SQLite file, but no ledger: its tables are others; give the ledger a path of its own")
    if found != wanted:
        kinds = sorted({kind for kind, *_ in found ^ wanted} & {"table", "index", "view", "trigger"})
        raise LedgerError(
            f"its tables are not those that halflife makes ({', '.join(kinds)} missing, changed or put in by somebody): put a "
            "whole copy back, the newest one, and see `halflife verify`"
        )
    return int(version)


def _objects(db: sqlite3.Connection) -> frozenset[tuple[str, str, str, str | None]]:
    """Everything that a database defines, but for SQLite's own statistics: kind, name, table and definition."""
    return frozenset(
        db.execute("SELECT type, name, tbl_name, sql FROM sqlite_master WHERE name NOT GLOB 'sqlite_stat[0-9]*'")
    )


@cache
def _made(version: int) -> frozenset[tuple[str, str, str, str | None]]:
    """What a ledger of this version defines."""
    with closing(sqlite3.connect(":memory:")) as db:
        for statement in SCHEMA[version]:
            db.execute(statement)
        return _objects(db)
