"""Connections to a ledger's server: serialisable, durable, in the ledger's schema alone, and noticed when they are cut."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from halflife.errors import LedgerError
from halflife.ledger.postgresql.url import Server
from halflife.libpq import ALIVE

if TYPE_CHECKING:
    import psycopg

    Connection = psycopg.Connection[tuple[Any, ...]]

PATIENCE = 10
"""Seconds in which a server must answer, if the address does not say."""
PAUSE = 0.1
"""Seconds between two tries to connect again."""


def connect(server: Server, *, read_only: bool) -> Connection:
    """Return a connection on which every statement is a transaction of its own, unless one is begun.

    A commit is on the server's disk when it is answered: a server that says otherwise (`fsync`, `synchronous_commit` off) is set
    right, or refused to be written to.
    """
    import psycopg

    options: dict[str, Any] = {**ALIVE, "connect_timeout": PATIENCE, **server.options}
    db = psycopg.connect(autocommit=True, application_name="halflife", client_encoding="UTF8", **options)
    try:
        _set_up(db, server, read_only)
    except BaseException:
        db.close()
        raise
    return db


def connect_again(server: Server, *, read_only: bool, within: float) -> Connection:
    """Return a new connection to a server that was there before, trying again for so many seconds."""
    import psycopg

    end = time.monotonic() + within
    while True:
        try:
            return connect(server, read_only=read_only)
        except psycopg.Error:
            if time.monotonic() >= end:
                raise
        time.sleep(PAUSE)


def _set_up(db: Connection, server: Server, read_only: bool) -> None:
    isolation = (
        "repeatable read" if read_only else "serializable"
    )  # a replica that answers readers knows no serialisable ones
    db.execute(
        "SELECT set_config('search_path', %s, false), set_config('default_transaction_isolation', %s, false), "
        "set_config('default_transaction_read_only', %s, false), set_config('lock_timeout', %s, false), "
        "set_config('standard_conforming_strings', 'on', false)",
        (f'"{server.schema}"', isolation, "on" if read_only else "off", f"{round(1000 * server.lease)}ms"),
    )
    if read_only:
        return
    asked = "SELECT current_setting('fsync'), current_setting('synchronous_commit'), current_setting('server_encoding')"
    fsync, commit, encoding = db.execute(asked).fetchone() or ("", "", "")
    if fsync != "on":
        raise LedgerError(
            "the server does not wait for its disk (fsync = off), and a power cut could undo what readers have seen: set fsync = "
            "on, and run again"
        )
    if encoding != "UTF8":
        raise LedgerError(f"the database's encoding is {encoding}: create one with the encoding UTF8")
    if commit in ("off", "local"):
        db.execute("SET synchronous_commit = on")
