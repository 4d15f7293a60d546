"""What an administrator does for a ledger on a server: make its tables, and say who may do what with them."""

from __future__ import annotations

from pathlib import Path

from halflife.errors import InvalidInput
from halflife.ledger.postgresql.url import Server, read_server
from halflife.libpq import is_server


def grant_roles(url: str | Path, writer: str | None = None, reader: str | None = None) -> str:
    """Return the SQL that gives a role the right to publish, and another the right to read all but kept noise."""
    from halflife.ledger.postgresql.roles import write_grants

    return write_grants(_find_server(url), writer, reader)


def prepare_ledger(url: str | Path) -> str:
    """Make the tables of a ledger on a server, or bring older ones up to this version, as their owner; return its name."""
    from halflife.ledger.postgresql.ledger import PostgresLedger

    with PostgresLedger(_find_server(url)) as book, book.hold():
        book.prepare()
        return book.name


def _find_server(url: str | Path) -> Server:
    if isinstance(url, str) and is_server(url):
        return read_server(url)
    raise InvalidInput(
        f"{url} is a file, which belongs to its owner alone: roles are for ledgers on a PostgreSQL server"
    )
