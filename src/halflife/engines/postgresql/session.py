"""A session on a PostgreSQL server that reads, is noticed when it falls silent, and says why it failed in our own words.

**No cell of any person decides whether a read fails**; only the connection or the server may:

- text is sent as it stands, without a look at its encoding, and what is no UTF-8 becomes a bad cell here;
- no timeout of a role's settings, which the amount of data would decide about; no policy of rows, whose expressions could fail
  on a cell: a table to which one applies is refused;
- a server that says nothing for `SILENCE` seconds while it is waited for is left, whatever it is doing.

The driver waits without an end, and what is asked of it cannot be taken back. So a thread of its own asks it, and is left behind
if need be: it ends when the server answers, or is gone.

What a driver says may quote a cell. So its words are read for a failure to connect alone, when there is no cell yet; and all
other failures are told apart by their codes (SQLSTATE).
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from queue import Empty, SimpleQueue
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

from halflife.engines.arrow import drop_bad_text
from halflife.errors import HalflifeError, InvalidInput, SourceUnreachable
from halflife.libpq import ALIVE, GONE, NO_DATABASE, NOT_LET_IN, TOO_MANY, explain_refusal, name_place

T = TypeVar("T")

PATIENCE = 5
"""Seconds in which a server must take a connection, if the address does not say; and others let go of the table."""
SILENCE = 120
"""Seconds without a word from the server after which it is left."""
ANSWER = 20
"""The same where it is asked about its tables alone."""
BATCH = 1_000_000
"""Bytes that the driver gathers before it hands rows over: the less, the sooner it is heard that they come."""
ENCODINGS = ("UTF8", "SQL_ASCII")
"""Encodings of databases that send text as it stands."""
LOST = ("08", "57P", "53300", "55P03")
"""How the codes of errors begin after which a server is out of reach: it is worth trying again."""
REPEATED = ("40001", "40P01")
"""Codes of what made way for something else, on a replica or in a deadlock: it is tried again likewise."""
_TABLE = "the table is not there, or this user may not read it: look at `table`, and GRANT SELECT on it"
_SAID = {
    "22": "it cannot compute what was asked: see that the columns are those of a table, and look at its log",
    "28": NOT_LET_IN,
    "3D": NO_DATABASE,
    "3F": _TABLE,
    "40": "what others do there went first: run again",
    "42": _TABLE,
    "53": "it has not enough memory, disk or room: look at its log",
    "53300": TOO_MANY,
    "55P03": "another session keeps the table locked",
    "57014": "somebody broke it off there: run again",
    "58": "its disk fails: look at its log",
    "XX": "it says that its files are damaged: look at its log",
}
_SET = """
SELECT current_setting('server_encoding'), set_config('default_transaction_read_only', 'on', false),
    set_config('TimeZone', 'UTC', false), set_config('standard_conforming_strings', 'on', false),
    set_config('row_security', 'off', false), set_config('lock_timeout', '{patience}s', false), (
        SELECT count(set_config(name, '0', false)) FROM pg_catalog.pg_settings WHERE name IN (
            'statement_timeout', 'transaction_timeout', 'idle_in_transaction_session_timeout', 'idle_session_timeout'
        )
    )
"""


class Silence(Exception):
    """The server said nothing for too long, or nobody waits for it any more."""


class Failure(Exception):
    """A driver's error, by its code alone.

    refusal  what is said of it;  again  whether it is worth trying again
    """

    def __init__(self, refusal: HalflifeError, *, again: bool) -> None:
        super().__init__()
        self.refusal, self.again = refusal, again


class Session:
    """One connection, which changes nothing and reads times as UTC's. Of each method's errors none is the driver's own."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._tasks: SimpleQueue[Callable[[], Any] | None] = SimpleQueue()
        self._heard: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()
        self._connection: Any = None
        self._cursor: Any = None
        self._cancelling: threading.Thread | None = None
        threading.Thread(target=self._serve, daemon=True).start()

    def open(self, options: Mapping[str, str]) -> None:
        """Connect; refuse a database whose text would have to be converted, as a cell could stop that."""
        self._ask(lambda: self._connect(options), connecting=True)
        encoding = self.rows(_SET.format(patience=PATIENCE))[0][0]
        if encoding not in ENCODINGS:
            raise InvalidInput(
                f"{self._label}: the database's encoding is {encoding}, and text that cannot be converted from it would stop a "
                "read: copy the table to a database with the encoding UTF8"
            )

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query about what is public; text that is no UTF-8 is None."""
        table = self._ask(lambda: self._execute(sql).read_all(), limit=min(ANSWER, SILENCE))
        return list(zip(*(drop_bad_text(column).to_pylist() for column in table.columns), strict=True))

    def batches(self, sql: str) -> tuple[Any, Iterator[Any]]:
        """Return the schema of a query's rows, and the rows as Arrow batches, which are asked for one by one."""
        reader = self._ask(lambda: self._execute(sql))

        def ask() -> Iterator[Any]:
            while (batch := self._ask(lambda: _next(reader))) is not None:
                yield batch

        return reader.schema, ask()

    def leave(self) -> None:
        """Stop waiting for the server, in whatever thread, and ask it to stop too, which it may not hear."""
        if self._cancelling is None:
            self._cancelling = threading.Thread(target=self._cancel, daemon=True)
            self._cancelling.start()
            self._heard.put((None, Silence()))

    def close(self) -> None:
        """End the session; of one that was left, the thread does so when it can."""
        self._tasks.put(self._disconnect)
        self._tasks.put(None)
        if self._cancelling is None:
            with contextlib.suppress(Empty):
                self._heard.get(timeout=PATIENCE)

    # -- the thread that asks the server, and who waits for it

    def _serve(self) -> None:
        while (task := self._tasks.get()) is not None:
            try:
                answer, error = task(), None
            except BaseException as failed:
                answer, error = None, failed
            self._heard.put((answer, error))

    def _ask(self, task: Callable[[], T], *, connecting: bool = False, limit: float | None = None) -> T:
        """Return what a task gives in the thread that talks to the server, or say why it failed, by nobody else's words."""
        self._tasks.put(task)
        try:
            answer, error = self._heard.get(timeout=SILENCE if limit is None else limit)
        except Empty:
            self.leave()
            error = Silence()
        if error is None:
            return answer  # type: ignore[no-any-return]
        failure = explain(self._label, error, connecting=connecting)
        raise failure

    def _connect(self, options: Mapping[str, str]) -> None:
        self._connection = connect(options)
        self._cursor = self._connection.cursor()
        self._cursor.adbc_statement.set_options(**{"adbc.postgresql.batch_size_hint_bytes": str(BATCH)})

    def _execute(self, sql: str) -> Any:
        """Run a query. Of the ways to take its rows, this one alone keeps the code of an error that comes on the way."""
        self._cursor.execute(sql)
        return self._cursor._results.reader

    def _cancel(self) -> None:
        cursor = self._cursor
        if cursor is not None:
            with contextlib.suppress(Exception):  # it has ended meanwhile
                cursor.adbc_cancel()

    def _disconnect(self) -> None:
        """Let go of the connection; not while it is being asked to stop: that looks at it."""
        if self._cancelling is not None:
            self._cancelling.join(PATIENCE)
        for held in (self._cursor, self._connection):
            if held is not None:
                held.close()


def _next(reader: Any) -> Any:
    """The next batch, None after the last one."""
    try:
        return reader.read_next_batch()
    except StopIteration:
        return None


def explain(label: str, error: BaseException, *, connecting: bool) -> Failure:
    """Return what a driver's error means: that the server is out of reach, or that it refuses."""
    import pyarrow as pa
    from adbc_driver_manager import AdbcStatusCode, Error

    if isinstance(error, Silence):
        said = "it has said nothing for too long: look at the server and the network"
        return Failure(SourceUnreachable(f"{label} cannot be reached: {said}"), again=False)
    if isinstance(error, pa.ArrowException | OSError):
        return Failure(
            InvalidInput(f"{label} cannot be read: the driver does not understand what it sends"), again=False
        )
    if not isinstance(error, Error):
        raise error
    state = error.sqlstate or ""
    said = next((_SAID[state[:n]] for n in (5, 2) if state[:n] in _SAID), "")
    cut = not state and error.status_code == AdbcStatusCode.IO
    if connecting and not state:
        said = explain_refusal(str(error))
    if connecting or cut or state.startswith((*LOST, *REPEATED)):
        return Failure(SourceUnreachable(f"{label} cannot be reached: {said or GONE}"), again=True)
    refused = said or "it refuses what was asked: look at its log"
    return Failure(InvalidInput(f"{label} cannot be read: {refused}"), again=False)


def connect(options: Mapping[str, str]) -> Any:
    """Return a connection whose text comes as it stands."""
    import adbc_driver_postgresql.dbapi as driver

    told = {
        "connect_timeout": PATIENCE,
        **ALIVE,
        "application_name": "halflife",
        "client_encoding": "SQL_ASCII",
        **options,
    }
    user = f"{quote(str(told.pop('user')), safe='')}@" if "user" in told else ""
    where = name_place({key: str(told.pop(key)) for key in ("host", "port", "dbname") if key in told})
    return driver.connect(f"postgresql://{user}{where}?{urlencode(told, quote_via=quote)}", autocommit=True)
