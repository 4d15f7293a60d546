"""Readings in a table or view of a PostgreSQL server: the rows of the asked steps come as Arrow (ADBC), and DuckDB adds them up.

The server is asked for rows alone, by one SELECT, which sees one moment of the table. All arithmetic is the embedded engine's, so
that the whole numbers are those of every other source.

**No cell can stop a read.** What a column is sent as follows from its type, and no cast in it can fail:

    text, varchar, char, name, citext, uuid, enums      as text
    numeric                                             as text where it is a value or a time, as a whole number where it is a
                                                        person or a group: a number that has no double must not end the query
    timestamp, timestamptz, date                        as they are, infinite and far ones as null: a bad time
    whole numbers, floats, booleans                     as they are

**Only rows that may lie in the asked steps are sent**: a condition on the time column in its own type, which an index on it can
answer; rows without a time, or with one beyond all calendars, are sent too, as they are tallied. Times that are text cannot be
compared by the server: then all rows are sent.
"""

from __future__ import annotations

import contextlib
import datetime
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar
from urllib.parse import quote, urlencode

from halflife.engines.base import LATEST, Answer, Question, bounds_of_times
from halflife.engines.columns import check_columns, people_of_columns
from halflife.engines.duckdb.engine import DuckEngine, open_arrow
from halflife.engines.duckdb.files import find_table
from halflife.engines.duckdb.sql import literal, name
from halflife.engines.grammar import EXACT, SECONDS
from halflife.engines.inspection import Inspection
from halflife.errors import HalflifeError, Interrupted, InvalidInput, SourceUnreachable, missing_extra
from halflife.libpq import ALIVE, GONE, NO_DATABASE, NOT_LET_IN, TOO_MANY, explain_refusal, name_place, read_address
from halflife.local_time import DAY

T = TypeVar("T")

FORM = "postgresql://HOST/DATABASE"
ATTEMPTS, PAUSE = 3, 0.5
"""How often a server that does not answer is tried, and the seconds before it is tried again, which double."""
PATIENCE = 5
"""Seconds in which a server must answer, if the address does not say."""
FAR = "148000-01-01"
"""Times from here on lie beyond 2⁶² µs after 1970, or nearly: no time that a reading can have."""
TEXTS = ("text", "varchar", "bpchar", "name", "citext", "uuid")
WHOLE, FLOATS, TIMES = ("int2", "int4", "int8"), ("float4", "float8"), ("timestamp", "timestamptz", "date")
CALLED = {
    **dict.fromkeys(TEXTS, "VARCHAR"),
    **dict(zip((*WHOLE, *FLOATS), ("SMALLINT", "INTEGER", "BIGINT", "FLOAT", "DOUBLE"), strict=True)),
    "numeric": "DECIMAL", "bool": "BOOLEAN", "date": "DATE", "timestamp": "TIMESTAMP", "timestamptz": "TIMESTAMP WITH TIME ZONE",
}  # fmt: skip
"""Types as DuckDB calls them."""
LOST = ("08", "57P", "25P", "53300", "55P03")
"""How the codes of errors begin after which it is worth trying again."""
_TABLE = "the table is not there, or this user may not read it: look at `table`, and GRANT SELECT on it"
_SAID = {
    "28": NOT_LET_IN,
    "3D": NO_DATABASE,
    "53300": TOO_MANY,
    "42": _TABLE,
    "3F": _TABLE,
    "57014": "the server broke it off",
    "55P03": "another session keeps the table locked",
}

_COLUMNS = """
WITH RECURSIVE base (oid, kind, type, of) AS (
    SELECT oid, typname, typtype, typbasetype FROM pg_catalog.pg_type WHERE typtype <> 'd'
    UNION ALL
    SELECT t.oid, b.kind, b.type, t.typbasetype FROM pg_catalog.pg_type t JOIN base b ON t.typbasetype = b.oid
)
SELECT a.attname::text, CASE base.type WHEN 'e' THEN 'text' ELSE base.kind END::text, format_type(a.atttypid, NULL)
FROM pg_catalog.pg_attribute a JOIN base ON base.oid = a.atttypid
WHERE a.attrelid = {table}::regclass AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
_TABLES = """
SELECT n.nspname::text, c.relname::text, pg_catalog.pg_table_is_visible(c.oid) FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'v', 'm', 'p', 'f') AND n.nspname !~ '^(pg_|information_schema$)'
"""


class Column(NamedTuple):
    """A column's name, the name of its type beneath all domains, and what people call its type."""

    name: str
    kind: str
    called: str


class PostgresEngine:
    """One table of a server, and its answers. See `halflife.engines.base.Engine`."""

    def __init__(self, url: str, table: str | None, scratch: Path | None = None) -> None:
        _import_driver()
        self._options = read_address(url, (), "a source", FORM).options
        self._label, self._scratch = f"postgresql://{name_place(self._options)}", scratch
        self._cursor: Any = None
        self._inner: DuckEngine | None = None
        self._whole: tuple[tuple[object, ...], DuckEngine] | None = None
        self._stopped = False
        self._table, self._columns = self._try(lambda cursor: self._look(cursor, table))
        self._label = f"{self._label}, table {self._table}"

    # -- what it is asked

    def columns(self) -> Mapping[str, str]:
        """Return the table's columns and their types, as DuckDB calls those that it knows too."""
        return {column.name: CALLED.get(column.kind, column.called.upper()) for column in self._columns}

    def check(self, question: Question) -> None:
        """Refuse columns that are missing, or of a type that cannot be read; no cell is looked at."""
        sql = f"{self._select(question)} LIMIT 0"
        with contextlib.closing(self._fetch(sql)) as engine:
            engine.check(question)

    def aggregate(self, question: Question) -> Answer:
        """Answer a question from the rows that may lie in its steps."""
        sql = self._select(question) + self._where(question)
        with contextlib.closing(self._fetch(sql)) as engine:
            self._inner = engine
            try:
                return engine.aggregate(question)
            finally:
                self._inner = None

    def inspect(self, question: Question) -> Inspection:
        """Return what the whole table holds beside what a question says of it: for the operator alone."""
        return self._read_whole(question).inspect(question)

    def bad_cells(self, question: Question, which: Literal["time", "value"]) -> list[str | None]:
        """Return some cells of text that are no time or no value, as they stand; whoever asks shows their shapes at most."""
        return self._read_whole(question).bad_cells(question, which)

    def typical_number(self, column: str) -> float | None:
        """Return about the middle of a column of numbers; None if it is of another type, or empty."""
        kind = next((c.kind for c in self._columns if c.name == column), None)
        if kind not in (*WHOLE, *FLOATS, "numeric"):
            return None
        sent = f"{name(column)}::text" if kind == "numeric" else name(column)
        with contextlib.closing(self._fetch(f"SELECT {sent} AS {name(column)} FROM {self._table}")) as engine:
            return engine.typical_number(column)

    def progress(self) -> tuple[str, float]:
        """Return what is being done for another thread, and how much of it is done; rows on their way are not known."""
        engine = self._inner
        return ("reading", 0.0) if engine is None else engine.progress()

    def interrupt(self) -> None:
        """Break off what another thread has asked for: that raises `Interrupted`."""
        self._stopped = True
        engine, cursor = self._inner, self._cursor
        if engine is not None:
            engine.interrupt()
        if cursor is not None:
            with contextlib.suppress(Exception):  # it has ended meanwhile
                cursor.adbc_cancel()

    def close(self) -> None:
        """Let go of what was kept."""
        whole, self._whole = self._whole, None
        if whole is not None:
            whole[1].close()

    # -- what the server is asked

    def _look(self, cursor: Any, table: str | None) -> tuple[str, list[Column]]:
        """Find the table, by its name where the search path leads to it, or as schema.name; and its columns."""
        cursor.execute(_TABLES)
        found = cursor.fetchall()
        known = {f"{schema}.{t}": f"{name(schema)}.{name(t)}" for schema, t, _ in found}
        known |= {t: f"{name(schema)}.{name(t)}" for schema, t, visible in found if visible}
        if table is None:
            raise InvalidInput(f"{self._label}: a source on a server needs the name of its table: `table: NAME`")
        place = known[find_table(table, known, self._label)]
        cursor.execute(_COLUMNS.format(table=literal(place)))
        return place, [Column(*row) for row in cursor.fetchall()]

    def _asked(self, question: Question) -> list[str]:
        q, names = question, [column.name for column in self._columns]
        if q.wide:
            return [*people_of_columns(self._label, q.time, names), q.time]
        asked = [c for c in dict.fromkeys((q.person, q.time, q.value, q.group)) if c is not None]
        check_columns(self._label, asked, names)
        return asked

    def _select(self, question: Question) -> str:
        """SQL of the columns that a question is about, each as it is sent."""
        kinds = {column.name: column for column in self._columns}
        who = () if question.wide else (question.person, question.group)
        numbers = (question.time, question.value)
        sent = [
            f"{_send(self._label, kinds[c], whole=c in who and c not in numbers)} AS {name(c)}"
            for c in self._asked(question)
        ]
        return f"SELECT {', '.join(sent)} FROM {self._table}"

    def _where(self, question: Question) -> str:
        """SQL of a condition that all rows meet which are counted or tallied; empty if the server cannot tell."""
        q = question
        kind = next(column.kind for column in self._columns if column.name == q.time)
        earliest, latest = bounds_of_times(q)
        t = name(q.time)
        if kind in TIMES and q.epoch is None:
            near = f"{t} BETWEEN {_day(earliest // DAY, kind)} AND {_day(latest // DAY + 1, kind)}"
            return f" WHERE {near} OR {t} IS NULL OR {t} >= '{FAR}' OR {t} = '-infinity'"
        if kind in (*WHOLE, *FLOATS, "numeric") and q.epoch is not None:
            unit, most = SECONDS[q.epoch], LATEST // SECONDS[q.epoch]
            near = f"{t} BETWEEN {_bound(earliest // unit - 1, kind)} AND {_bound(latest // unit + 1, kind)}"
            return f" WHERE {near} OR {t} IS NULL OR {t} > {_bound(most, kind)} OR {t} < {_bound(-most, kind)}"
        return ""

    def _read_whole(self, question: Question) -> DuckEngine:
        """All rows of the table, in the columns of a question; they are kept until others are asked for."""
        q = question
        key = (q.person, q.time, q.value, q.group, q.wide)
        if self._whole is None or self._whole[0] != key:
            self.close()
            self._whole = key, self._fetch(self._select(q))
        return self._whole[1]

    # -- the connection

    def _fetch(self, sql: str) -> DuckEngine:
        """Return what a query gives, on a disk of this machine, as an engine of its own."""
        return self._try(lambda cursor: self._take(cursor, sql))

    def _take(self, cursor: Any, sql: str) -> DuckEngine:
        """Run a query, and take its rows over, batch by batch; a failure of the connection on the way is its own error."""
        import pyarrow as pa

        cursor.execute(sql)
        stream = cursor.fetch_record_batch()
        failed: list[Exception] = []

        def batches() -> Iterator[Any]:
            try:
                yield from stream
            except Exception as error:
                failed.append(error)
                raise

        try:
            return open_arrow(
                pa.RecordBatchReader.from_batches(stream.schema, batches()), scratch=self._scratch, label=self._label
            )
        except InvalidInput:
            if not failed:
                raise
        raise failed[0]

    def _try(self, work: Callable[[Any], T]) -> T:
        """Return what some work on a new connection gives; a connection that fails is tried again, a few times.

        What a driver says is not passed on, not even as the context of a refusal.
        """
        import pyarrow as pa
        from adbc_driver_manager import Error

        for attempt in range(ATTEMPTS):
            time.sleep(PAUSE * (2**attempt - 1))
            try:
                with self._connected() as cursor:
                    return work(cursor)
            except (Error, pa.ArrowException, OSError) as error:
                state, text = getattr(error, "sqlstate", None) or "", str(error)
            if self._stopped:
                refusal: HalflifeError = Interrupted(f"{self._label}: reading was broken off")
                break
            refusal = SourceUnreachable(f"{self._label} cannot be reached: {_explain(state, text)}")
            if state and not state.startswith(LOST):
                break
        raise refusal

    @contextlib.contextmanager
    def _connected(self) -> Iterator[Any]:
        """A cursor on a connection of its own, which changes nothing and reads times as UTC's."""
        with contextlib.ExitStack() as stack:
            connection = stack.enter_context(contextlib.closing(_connect(self._options)))
            self._cursor = cursor = stack.enter_context(contextlib.closing(connection.cursor()))
            stack.callback(self._forget)
            cursor.execute(
                "SELECT set_config('default_transaction_read_only', 'on', false), set_config('TimeZone', 'UTC', false), "
                f"set_config('standard_conforming_strings', 'on', false), set_config('lock_timeout', '{PATIENCE}s', false)"
            )
            cursor.fetchall()
            yield cursor

    def _forget(self) -> None:
        self._cursor = None


def _explain(state: str, text: str) -> str:
    """What a refusal means, by its code, or by libpq's words where it has none."""
    said = next((_SAID[state[:n]] for n in (5, 2) if state[:n] in _SAID), None)
    return said or (GONE if state else explain_refusal(text))


def _send(label: str, column: Column, *, whole: bool) -> str:
    """SQL of what a column is sent as; `whole` where it says who somebody is."""
    c, kind = name(column.name), column.kind
    if kind in TEXTS:
        return f"{c}::text"
    if kind in (*WHOLE, *FLOATS, "bool"):
        return c
    if kind == "numeric":
        return f"CASE WHEN {c} = trunc({c}) AND abs({c}) < {EXACT} THEN trunc({c})::int8 END" if whole else f"{c}::text"
    if kind in TIMES:
        return f"CASE WHEN isfinite({c}) AND {c} < '{FAR}' THEN {c} END"
    raise InvalidInput(
        f"{label}: column {column.name!r} is {column.called}, but a person is text or a whole number, a time is a timestamp, a "
        "date, text or a number, and a value is a number or text"
    )


def _day(number: int, kind: str) -> str:
    """The beginning of a day, counted from 1970, to compare a column with, in its own type; beyond the years 1 to 9999 infinite.

    >>> _day(0, "timestamptz"), _day(-719_163, "date")
    ("timestamptz '1970-01-01 00:00:00+00'", "date '-infinity'")
    """
    ordinal = number + datetime.date(1970, 1, 1).toordinal()
    if not 1 <= ordinal <= datetime.date.max.toordinal():
        return f"{kind} '{'-' if number < 0 else ''}infinity'"
    day = datetime.date.fromordinal(ordinal)
    return f"{kind} '{day.isoformat()}{' 00:00:00+00' if kind == 'timestamptz' else ''}'"


def _bound(number: int, kind: str) -> str:
    """A number to compare a column with, in the column's own type: with another one no index would help."""
    largest = {"int2": 2**15 - 1, "int4": 2**31 - 1}.get(kind, 2**63 - 1)
    held = max(-largest, min(largest, number))
    return f"'{held}'::{kind}"


def _connect(options: Mapping[str, str]) -> Any:
    import adbc_driver_postgresql.dbapi as driver

    told = {"connect_timeout": PATIENCE, **ALIVE, "application_name": "halflife", "client_encoding": "UTF8", **options}
    user = f"{quote(str(told.pop('user')), safe='')}@" if "user" in told else ""
    where = name_place({key: str(told.pop(key)) for key in ("host", "port", "dbname") if key in told})
    return driver.connect(f"postgresql://{user}{where}?{urlencode(told, quote_via=quote)}", autocommit=True)


def _import_driver() -> None:
    try:
        import adbc_driver_postgresql  # noqa: F401
    except ImportError:
        raise missing_extra("adbc-driver-postgresql", "postgresql", "a source on a PostgreSQL server") from None
