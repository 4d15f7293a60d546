"""Roles for a ledger on a server: one that publishes, and can change nothing that was; and one that reads all but kept noise.

    table                          writer                            reader
    entry, release, batch, event   SELECT, INSERT                    SELECT
    state, kept                    SELECT, INSERT, UPDATE            SELECT on state alone
    written                        SELECT, INSERT, UPDATE, DELETE    SELECT
    fact                           SELECT, INSERT, DELETE            SELECT
    lease, fence                   SELECT, UPDATE                    SELECT on lease alone
    migration                      SELECT                            SELECT

Facts can be deleted as they may change until something is published; from then on the chain of hashes tells. Tables are made and
migrated by the schema's owner.
"""

from __future__ import annotations

from halflife.errors import InvalidInput
from halflife.ledger.postgresql.url import Server

LONGEST = 63
"""PostgreSQL cuts off longer names."""
WRITER = {
    "entry, release, batch, event": "SELECT, INSERT",
    "state, kept": "SELECT, INSERT, UPDATE",
    "written": "SELECT, INSERT, UPDATE, DELETE",
    "fact": "SELECT, INSERT, DELETE",
    "lease, fence": "SELECT, UPDATE",
    "migration": "SELECT",
}
READER = {"entry, release, batch, event, state, written, fact, lease, migration": "SELECT"}


def write_grants(server: Server, writer: str | None, reader: str | None) -> str:
    """Return the SQL that gives roles, which are there already, their rights on a ledger's tables, and takes all others away.

    >>> from halflife.ledger.postgresql.url import read_server
    >>> print(write_grants(read_server("postgresql://db/town?schema=meters"), None, "analyst").splitlines()[2])
    GRANT SELECT ON "meters".entry, "meters".release, "meters".batch, "meters".event, "meters".state, ...
    """
    if writer is None and reader is None:
        raise InvalidInput("name a role: one that publishes (writer), one that only reads (reader), or both")
    if writer == reader:
        raise InvalidInput(f"{writer!r} is to publish and only to read: name two roles")
    lines = []
    for role, rights in ((writer, WRITER), (reader, READER)):
        if role is not None:
            lines += _grant(server.schema, _quote(role), rights)
    return "".join(f"{line};\n" for line in lines)


def _grant(schema: str, role: str, rights: dict[str, str]) -> list[str]:
    place = f'"{schema}".'
    given = [
        f"GRANT {right} ON {place}{tables.replace(', ', f', {place}')} TO {role}" for tables, right in rights.items()
    ]
    revoked = f'REVOKE ALL ON ALL TABLES IN SCHEMA "{schema}" FROM {role}'
    return [revoked, f'GRANT USAGE ON SCHEMA "{schema}" TO {role}', *given]


def _quote(role: str) -> str:
    """The name of a role as SQL has it."""
    if not role or "\0" in role or len(role.encode()) > LONGEST:
        raise InvalidInput(f"a role's name has from 1 to {LONGEST} bytes")
    return '"' + role.replace('"', '""') + '"'
