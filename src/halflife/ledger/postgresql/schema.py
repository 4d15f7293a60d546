"""The ledger's tables in a schema of its own, made by numbered migrations: each runs once, in one transaction with its number.

An entry is unique by stream, step and part (group), and a release by its entry and draw. A span of 1 is left out (NULL). States
that may hold noise which is used again are in a table of their own, `kept`, which a role that only reads is not let into.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from halflife.errors import LedgerError
from halflife.ledger.base import NoLedger

if TYPE_CHECKING:
    from halflife.ledger.postgresql.connect import Connection

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        "CREATE TABLE fact (key text PRIMARY KEY, value text NOT NULL)",
        """CREATE TABLE entry (
            id bigint PRIMARY KEY,
            stream text NOT NULL,
            part text NOT NULL,
            step bigint NOT NULL,
            release_step bigint NOT NULL,
            start_us bigint NOT NULL,
            end_us bigint NOT NULL,
            noisy bytea NOT NULL,
            value bytea,
            spread double precision NOT NULL,
            chain bytea NOT NULL,
            UNIQUE (stream, step, part)
        )""",
        """CREATE TABLE release (
            entry bigint NOT NULL REFERENCES entry (id),
            draw text NOT NULL,
            number bigint NOT NULL,
            loss double precision NOT NULL,
            age bigint NOT NULL,
            sensitivity double precision NOT NULL,
            scale double precision,
            noise text NOT NULL,
            atop text,
            span bigint,
            step_sensitivity double precision,
            PRIMARY KEY (entry, draw)
        )""",
        "CREATE TABLE batch (last_entry bigint PRIMARY KEY, at_us bigint NOT NULL, states bytea NOT NULL, chain bytea NOT NULL)",
        """CREATE TABLE event (
            number bigint PRIMARY KEY,
            last_entry bigint NOT NULL,
            at_us bigint NOT NULL,
            body text NOT NULL,
            states bytea NOT NULL,
            chain bytea NOT NULL
        )""",
        "CREATE TABLE state (name text PRIMARY KEY, value text NOT NULL)",
        "CREATE TABLE kept (name text PRIMARY KEY, value text NOT NULL)",
        """CREATE TABLE written (
            stream text NOT NULL,
            file text NOT NULL,
            step bigint NOT NULL,
            sha256 bytea NOT NULL,
            PRIMARY KEY (stream, file, step)
        )""",
        "CREATE TABLE lease (one boolean PRIMARY KEY CHECK (one), token uuid, holder text, until timestamptz NOT NULL)",
        "INSERT INTO lease VALUES (true, NULL, NULL, '-infinity')",
        "CREATE TABLE fence (one boolean PRIMARY KEY CHECK (one), token uuid, commits bigint NOT NULL)",
        "INSERT INTO fence VALUES (true, NULL, 0)",
        "REVOKE ALL ON fact, entry, release, batch, event, state, kept, written, lease, fence, migration FROM PUBLIC",
    ),
)
"""What makes version n of version n − 1. Never changed once it was released: a new one is put behind."""
VERSION = len(MIGRATIONS)
FORMS = {1: "4e52c080ca1ab70a9f03f727dcaa62c9ff3e60ee687fe5d3bfc041deecdc26e9"}
"""The SHA-256 of what a schema of each version holds, as `read_form` says it."""
TABLES = ("fact", "entry", "release", "batch", "event", "state", "kept", "written")
"""The tables whose rows are the ledger, in an order in which they can be filled; the others are about this server alone."""
KINDS = {
    "fact": ("text", "text"),
    "entry": ("int8", "text", "text", "int8", "int8", "int8", "int8", "bytea", "bytea", "float8", "bytea"),
    "release": ("int8", "text", "int8", "float8", "int8", "float8", "float8", "text", "text", "int8", "float8"),
    "batch": ("int8", "int8", "bytea", "bytea"),
    "event": ("int8", "int8", "int8", "text", "bytea", "bytea"),
    "state": ("text", "text"),
    "kept": ("text", "text"),
    "written": ("text", "text", "int8", "bytea"),
}
"""The kinds of their cells, as they are sent."""
_COLUMNS = """SELECT c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull
    FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
    WHERE c.relnamespace = to_regnamespace(%(schema)s) AND c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped"""
_KEYS = """SELECT c.relname, k.contype::text, array(SELECT a.attname::text FROM unnest(k.conkey) WITH ORDINALITY AS n (num, place)
        JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = n.num ORDER BY n.place)
    FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid
    WHERE c.relnamespace = to_regnamespace(%(schema)s) AND k.contype IN ('p', 'u', 'f', 'c', 'x')"""
_OTHERS = """SELECT 'relation', c.relname::text, c.relkind::text FROM pg_class c
        WHERE c.relnamespace = to_regnamespace(%(schema)s) AND c.relkind NOT IN ('i', 't')
    UNION ALL SELECT 'trigger', t.tgname::text, c.relname::text FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
        WHERE c.relnamespace = to_regnamespace(%(schema)s) AND NOT t.tgisinternal
    UNION ALL SELECT 'rule', r.rulename::text, c.relname::text FROM pg_rewrite r JOIN pg_class c ON c.oid = r.ev_class
        WHERE c.relnamespace = to_regnamespace(%(schema)s)
    UNION ALL SELECT 'index', i.relname::text, c.relname::text FROM pg_index x JOIN pg_class c ON c.oid = x.indrelid
        JOIN pg_class i ON i.oid = x.indexrelid
        WHERE c.relnamespace = to_regnamespace(%(schema)s) AND c.relkind = 'r' AND (x.indisunique AND NOT x.indisvalid
            OR NOT EXISTS (SELECT FROM pg_constraint k WHERE k.conindid = x.indexrelid))
    UNION ALL SELECT 'unlogged', c.relname::text, '' FROM pg_class c
        WHERE c.relnamespace = to_regnamespace(%(schema)s) AND c.relkind = 'r' AND c.relpersistence <> 'p'
    UNION ALL SELECT 'row security', c.relname::text, '' FROM pg_class c
        WHERE c.relnamespace = to_regnamespace(%(schema)s) AND c.relkind = 'r' AND c.relrowsecurity
    UNION ALL SELECT 'child', h.inhrelid::regclass::text, c.relname::text FROM pg_inherits h
        JOIN pg_class c ON c.oid = h.inhparent WHERE c.relnamespace = to_regnamespace(%(schema)s) AND c.relkind = 'r'
    UNION ALL SELECT 'policy', p.polname::text, c.relname::text FROM pg_policy p JOIN pg_class c ON c.oid = p.polrelid
        WHERE c.relnamespace = to_regnamespace(%(schema)s)"""


def read_form(db: Connection, schema: str) -> str:
    """Return the SHA-256 of all that a schema defines: columns, keys, and whatever would act on what is written."""
    parts = [sorted(map(list, db.execute(query, {"schema": schema}))) for query in (_COLUMNS, _KEYS, _OTHERS)]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def read_version(db: Connection, schema: str) -> int:
    """Return the version of a schema's tables, 0 if it is empty or not there; refuse one with tables of somebody else."""
    found = {
        name
        for (name,) in db.execute(
            "SELECT relname::text FROM pg_class WHERE relnamespace = to_regnamespace(%s) AND relkind NOT IN ('i', 't')",
            (schema,),
        )
    }
    if not found:
        return 0
    if not {"migration", "fact", "entry", "lease"} <= found:
        raise NoLedger("a schema with other tables than a ledger's: give the ledger a schema of its own (?schema=NAME)")
    (version,) = db.execute("SELECT coalesce(max(number), 0) FROM migration").fetchone() or (0,)
    if version > VERSION:
        raise LedgerError(f"a ledger of version {version} was written by a newer halflife: this one knows {VERSION}")
    return int(version)


def check_tables(db: Connection, schema: str) -> int:
    """Return a ledger's version, 0 if there is none; refuse tables that are not exactly those that migrations make.

    A trigger would act on what is written, and a table without its keys would take what ours refuses.
    """
    version = read_version(db, schema)
    if version and read_form(db, schema) != FORMS[version]:
        raise LedgerError(
            "its tables are not those that halflife makes (a column, key, index, trigger, rule, view, child or setting was "
            "changed or put in by somebody): undo that; if nobody knows what it was, put a whole copy back, the newest one, and "
            "see `halflife verify`"
        )
    return version


def migrate(db: Connection, schema: str) -> None:
    """Make the tables that are missing, one version after the other, in one transaction; two at a time wait for each other."""
    with db.transaction():
        db.execute("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
        db.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (f"halflife migration {schema}",))
        version = read_version(db, schema)
        if version == VERSION:
            return
        if not version:
            if db.execute("SELECT to_regnamespace(%s)", (schema,)).fetchone() == (None,):
                db.execute(f'CREATE SCHEMA "{schema}"')
            db.execute("CREATE TABLE migration (number integer PRIMARY KEY, at timestamptz NOT NULL DEFAULT now())")
        for number in range(version + 1, VERSION + 1):
            for statement in MIGRATIONS[number - 1]:
                db.execute(statement)
            db.execute("INSERT INTO migration (number) VALUES (%s)", (number,))
