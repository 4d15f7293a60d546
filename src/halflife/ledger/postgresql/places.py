"""Whether a ledger is on a server, and which others are in its database."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING, TypeVar

from halflife.errors import LedgerError
from halflife.ledger.postgresql.connect import connect
from halflife.ledger.postgresql.faults import import_driver, translate
from halflife.ledger.postgresql.schema import read_version
from halflife.ledger.postgresql.url import Server

if TYPE_CHECKING:
    from halflife.ledger.postgresql.connect import Connection

T = TypeVar("T")
_OTHERS = """SELECT n.nspname::text FROM pg_namespace n WHERE n.nspname <> %s AND has_schema_privilege(n.oid, 'USAGE') AND 4 = (
    SELECT count(*) FROM pg_class c WHERE c.relnamespace = n.oid AND c.relname IN ('migration', 'fact', 'entry', 'lease')
        AND c.relkind = 'r') ORDER BY 1"""


class _Place:
    """The address of a ledger, whatever is there."""

    def __init__(self, server: Server) -> None:
        import_driver()
        self.server, self._inner = server, False

    @property
    def name(self) -> str:
        return self.server.name

    @translate("cannot be looked at")
    def ask(self, question: Callable[[Connection], T]) -> T:
        """Return the answer to a question on a connection of its own."""
        try:
            with closing(connect(self.server, read_only=True)) as db:
                return question(db)
        except LedgerError as error:
            raise type(error)(f"{self.name}: {error}") from None


def exists(server: Server) -> bool:
    """Return whether there is a ledger, of whatever version, or what may be one."""
    return _Place(server).ask(lambda db: read_version(db, server.schema) > 0)


def find_neighbours(server: Server) -> list[str]:
    """Return the addresses of the other ledgers in the same database, as far as this user may look."""
    names = _Place(server).ask(lambda db: [str(name) for (name,) in db.execute(_OTHERS, (server.schema,))])
    return [server._replace(schema=name, folder=server.folder.parent / f"{name}.postgresql").url() for name in names]
