"""How a ledger on a server is asked: answers of some rows at a time, and once more where a connection was lost in between."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from halflife.errors import LedgerError, LedgerHidden
from halflife.ledger.postgresql.connect import connect, connect_again
from halflife.ledger.postgresql.faults import is_lost, translate
from halflife.ledger.postgresql.lease import Lease
from halflife.ledger.postgresql.schema import check_tables
from halflife.ledger.postgresql.url import Server
from halflife.ledger.rows import BLOCK, RowReader

if TYPE_CHECKING:
    from halflife.ledger.postgresql.connect import Connection

T = TypeVar("T")


class Reader(RowReader):
    """The part of a ledger that reads, on a connection that is made again when it was lost outside of a transaction."""

    _server: Server
    _lease: Lease
    _db: Connection
    _read_only: bool
    _inner: bool
    _whole: bool
    """Whether what is read belongs to one transaction, which a new connection could not go on with."""

    @property
    def name(self) -> str:
        """What messages call the ledger: its address."""
        return self._server.name

    def _connect(self) -> None:
        self._db = self._name_refusal(lambda: connect(self._server, read_only=self._read_only))

    def _connect_again(self) -> None:
        """Make a new connection in the place of one that was lost, for as long as a lease lasts."""
        self._db.close()
        within = self._server.lease
        self._db = self._name_refusal(lambda: connect_again(self._server, read_only=self._read_only, within=within))
        self._lease.resume(self._db)

    def _name_refusal(self, action: Callable[[], T]) -> T:
        """Do something; put the ledger's name before what is refused."""
        try:
            return action()
        except LedgerError as error:
            raise type(error)(f"{self.name}: {error}") from None

    @translate("cannot be read")
    def states(self) -> dict[str, str]:
        """Return the newest states: of the account, mechanisms and smoothers; some are secret."""
        if not self._sees_kept:
            self._sees_kept = self._one("SELECT has_table_privilege('kept', 'SELECT')") == (True,)
        if not self._sees_kept:
            raise LedgerHidden(
                f"{self.name}: this user may not see noise that is used again, and what was asked needs all that is saved: run "
                "it as the role that publishes"
            )
        return dict(self._all("SELECT name, value FROM state UNION ALL SELECT name, value FROM kept"))

    def public_states(self) -> dict[str, str]:
        """Return the newest states that hold no noise which is used again."""
        return dict(self._all("SELECT name, value FROM state"))

    def find_damage(self) -> str | None:
        """Say whether the tables are not a ledger's; the server itself checks its pages when they are read, if it was told to."""
        try:
            if not self._compare_tables():
                return f"{self.name}: is empty: publish first"
        except LedgerError as error:
            return str(error)
        return None

    def _check_tables(self) -> int:
        """The version of the tables. They are compared once for each time that a ledger is opened, begun or looked at for damage:
        a question more for each question would cost more than all else.
        """
        return self._version or self._compare_tables()

    @translate("cannot be read")
    def _compare_tables(self) -> int:
        self._version = self._name_refusal(lambda: self._again(lambda: check_tables(self._db, self._server.schema)))
        return self._version

    def _has_events(self) -> bool:
        return True

    @contextmanager
    def _in_one(self) -> Iterator[None]:
        """What is asked within this block belongs to one transaction."""
        before, self._whole = self._whole, True
        try:
            yield
        finally:
            self._whole = before

    def _again(self, ask: Callable[[], T]) -> T:
        """Ask; and once more on a new connection, if the old one was lost and no transaction with it."""
        import psycopg

        try:
            return ask()
        except psycopg.Error as error:
            if self._whole or not is_lost(error):
                raise
        self._connect_again()
        return ask()

    def _one(self, query: str, *arguments: object) -> tuple[Any, ...]:
        rows = self._all(query, *arguments)
        return rows[0] if rows else ()

    @translate("cannot be read")
    def _all(self, query: str, *arguments: object) -> list[tuple[Any, ...]]:
        return self._again(lambda: self._db.execute(_mark(query), arguments, binary=True).fetchall())

    def _rows(self, query: str, *arguments: object) -> Iterator[tuple[Any, ...]]:
        cursor = self._ask(query, arguments)
        try:
            while rows := self._more(cursor):
                yield from rows
        finally:
            if not self._db.closed:
                cursor.close()

    @translate("cannot be read")
    def _ask(self, query: str, arguments: tuple[object, ...]) -> Any:
        """A cursor on the server, which outlives the statement: with the transaction that it is in, or until it is closed."""

        def ask() -> Any:
            cursor = self._db.cursor(f"halflife_{self._next_cursor()}", withhold=not self._whole)
            return cursor.execute(_mark(query), arguments, binary=True)

        return self._again(ask)

    @translate("cannot be read")
    def _more(self, cursor: Any) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = cursor.fetchmany(BLOCK)
        return found

    _cursors, _version, _sees_kept = 0, 0, False

    def _next_cursor(self) -> int:
        self._cursors += 1
        return self._cursors


def _mark(query: str) -> Any:
    """A query as the driver marks its arguments."""
    return query.replace("?", "%s")
