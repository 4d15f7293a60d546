"""Readings in a table of a PostgreSQL server: the rows of the asked steps come as Arrow (ADBC), and DuckDB adds them up.

The server is asked for rows alone, by one SELECT, which sees one moment of the table. All arithmetic is the embedded engine's, so
that the whole numbers are those of every other source.

**No cell can stop a read.** What a column is sent as follows from its type, and nothing in it can fail:

    text, varchar, char, name, citext, uuid             as text; of more than `LONGEST` bytes as null: a bad cell
    enums                                               as their labels, by no cast to text that somebody made: it may fail
    numeric                                             as text where it is a value or a time, as a whole number where it is a
                                                        person or a group: a number that has no double must not end the query
    timestamp, timestamptz, date                        as they are, infinite and far ones as null: a bad time
    whole numbers, floats, booleans                     as they are

So a table must hold what it shows: views, foreign tables and columns that are computed when they are read have expressions or
servers of their own, which may fail on a cell, and so may the policies of row-level security, which hide rows besides. They are
refused when the source is opened.

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

from halflife.engines.base import LATEST, Answer, Question, bounds_of_times
from halflife.engines.columns import check_columns, people_of_columns
from halflife.engines.duckdb.engine import DuckEngine, open_arrow
from halflife.engines.duckdb.files import find_table
from halflife.engines.duckdb.sql import literal, name
from halflife.engines.grammar import EXACT, SECONDS
from halflife.engines.inspection import Inspection
from halflife.engines.postgresql.session import Failure, Session
from halflife.errors import HalflifeError, Interrupted, InvalidInput, missing_extra
from halflife.libpq import name_place, read_address
from halflife.local_time import DAY

T = TypeVar("T")

FORM = "postgresql://HOST/DATABASE"
ATTEMPTS, PAUSE = 3, 0.5
"""How often a server that does not answer is tried, and the seconds before it is tried again, which double."""
LONGEST = 10_000
"""Bytes of a cell of text; a longer one is a bad cell: a row of a table's most columns (1,600) then fits everywhere."""
FAR = "148000-01-01"
"""Times from here on lie beyond 2⁶² µs after 1970, or nearly: no time that a reading can have."""
TEXTS = ("text", "varchar", "bpchar", "name", "citext", "uuid")
ENUM = "enum"
WHOLE, FLOATS, TIMES = ("int2", "int4", "int8"), ("float4", "float8"), ("timestamp", "timestamptz", "date")
CALLED = {
    **dict.fromkeys((*TEXTS, ENUM), "VARCHAR"),
    **dict(zip((*WHOLE, *FLOATS), ("SMALLINT", "INTEGER", "BIGINT", "FLOAT", "DOUBLE"), strict=True)),
    "numeric": "DECIMAL", "bool": "BOOLEAN", "date": "DATE", "timestamp": "TIMESTAMP", "timestamptz": "TIMESTAMP WITH TIME ZONE",
}  # fmt: skip
"""Types as DuckDB calls them."""
STORED = "'r', 'p', 'm'"
"""Kinds of what has rows of its own: tables, partitioned tables, materialised views."""

_COLUMNS = """
WITH RECURSIVE base (oid, kind, type, of) AS (
    SELECT oid, typname, typtype, typbasetype FROM pg_catalog.pg_type WHERE typtype <> 'd'
    UNION ALL
    SELECT t.oid, b.kind, b.type, t.typbasetype FROM pg_catalog.pg_type t JOIN base b ON t.typbasetype = b.oid
)
SELECT a.attname::text,
    CASE WHEN a.attgenerated = 'v' THEN '' WHEN base.type = 'e' THEN '{enum}' WHEN base.type = 'b' THEN base.kind
        ELSE '' END::text,
    CASE WHEN a.attgenerated = 'v' THEN 'computed when it is read' ELSE format_type(a.atttypid, NULL) END
FROM pg_catalog.pg_attribute a JOIN base ON base.oid = a.atttypid
WHERE a.attrelid = {table}::regclass AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
_TABLES = """
SELECT n.nspname::text, c.relname::text, pg_catalog.pg_table_is_visible(c.oid) FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'v', 'm', 'p', 'f') AND n.nspname !~ '^(pg_|information_schema$)'
"""
_KINDS = f"""
WITH RECURSIVE part (oid) AS (
    SELECT {{table}}::regclass::oid
    UNION
    SELECT i.inhrelid FROM pg_catalog.pg_inherits i JOIN part ON i.inhparent = part.oid
)
SELECT pg_catalog.bool_and(c.relkind IN ({STORED})), pg_catalog.row_security_active({{table}}::regclass::oid)
FROM part JOIN pg_catalog.pg_class c ON c.oid = part.oid
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
        self._session: Session | None = None
        self._inner: DuckEngine | None = None
        self._whole: tuple[tuple[object, ...], DuckEngine] | None = None
        self._stopped = False
        self._table, self._columns, self._unnamed = self._try(lambda session: self._look(session, table))
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
        sent = _text(name(column)) if kind == "numeric" else name(column)
        with contextlib.closing(self._fetch(f"SELECT {sent} AS {name(column)} FROM {self._table}")) as engine:
            return engine.typical_number(column)

    def progress(self) -> tuple[str, float]:
        """Return what is being done for another thread, and how much of it is done; rows on their way are not known."""
        engine = self._inner
        return ("reading", 0.0) if engine is None else engine.progress()

    def interrupt(self) -> None:
        """Break off what another thread has asked for: that raises `Interrupted`."""
        self._stopped = True
        engine, session = self._inner, self._session
        if engine is not None:
            engine.interrupt()
        if session is not None:
            session.leave()

    def close(self) -> None:
        """Let go of what was kept."""
        whole, self._whole = self._whole, None
        if whole is not None:
            whole[1].close()

    # -- what the server is asked

    def _look(self, session: Session, table: str | None) -> tuple[str, list[Column], int]:
        """Find the table, by its name where the search path leads to it, or as schema.name; its columns; how many more it has.

        Names that are no UTF-8 are passed over, as nobody can ask for them.
        """
        if table is None:
            raise InvalidInput(f"{self._label}: a source on a server needs the name of its table: `table: NAME`")
        known: dict[str, set[str]] = {}
        for schema, t, visible in session.rows(_TABLES):
            for called in (f"{schema}.{t}", t) if visible else (f"{schema}.{t}",):
                if None not in (schema, t):
                    known.setdefault(called, set()).add(f"{name(schema)}.{name(t)}")
        places = sorted(known[find_table(table, known, self._label)])
        if len(places) > 1:
            raise InvalidInput(
                f"{self._label}: {table!r} is a name of {len(places)} tables, {' and '.join(places)}: rename one"
            )
        stored, hidden = session.rows(_KINDS.format(table=literal(places[0])))[0]
        if not stored:
            raise InvalidInput(
                f"{self._label}: {table!r} is a view or a foreign table, or has such parts, and these may fail on somebody's "
                "cell when they are read: give a table, or make a materialised view of it (CREATE MATERIALIZED VIEW)"
            )
        if hidden:
            raise InvalidInput(
                f"{self._label}: row-level security hides rows of {table!r} from this user, by conditions that may fail on "
                "somebody's cell: give a table or a materialised view of its own, or read it as a user with BYPASSRLS"
            )
        columns = session.rows(_COLUMNS.format(table=literal(places[0]), enum=ENUM))
        named = [Column(*row) for row in columns if row[0] is not None]
        return places[0], named, len(columns) - len(named)

    def _asked(self, question: Question) -> list[str]:
        q, names = question, [column.name for column in self._columns]
        if q.wide and self._unnamed:
            raise InvalidInput(f"{self._label}: the names of {self._unnamed} columns are no UTF-8 text: rename them")
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
        sent = {c: _send(kinds[c], whole=c in who and c not in numbers) for c in self._asked(question)}
        unknown = [kinds[c] for c, sql in sent.items() if sql is None]
        if unknown and question.wide:
            raise InvalidInput(
                f"{self._label}: {len(unknown)} of {len(sent)} columns are of types that no reading has: leave "
                "them out of the table"
            )
        if unknown:
            raise InvalidInput(
                f"{self._label}: column {unknown[0].name!r} is {unknown[0].called}, but a person is text or a whole number, "
                "a time is a timestamp, a date, text or a number, and a value is a number or text"
            )
        return f"SELECT {', '.join(f'{sql} AS {name(c)}' for c, sql in sent.items())} FROM {self._table}"

    def _where(self, question: Question) -> str:
        """SQL of a condition that all rows meet which are counted or tallied; empty if the server cannot tell."""
        q = question
        kind = next(column.kind for column in self._columns if column.name == q.time)
        earliest, latest = bounds_of_times(q)
        t = name(q.time)
        if kind in TIMES and q.epoch is None:
            bounds = (-(-earliest // DAY) * DAY, latest // DAY * DAY) if kind == "date" else (earliest, latest)
            near = f"{t} BETWEEN {_moment(bounds[0], kind)} AND {_moment(bounds[1], kind)}"
            return f" WHERE {near} OR {t} IS NULL OR {t} >= '{FAR}' OR {t} = '-infinity'"
        if kind in (*WHOLE, *FLOATS, "numeric") and q.epoch is not None:
            unit, most = SECONDS[q.epoch], LATEST // SECONDS[q.epoch]
            less = 0 if kind in WHOLE else 1  # what becomes a double is rounded, here and there
            low, high = -(-earliest // unit) - less, latest // unit + less
            near = f"{t} BETWEEN {_bound(low, kind)} AND {_bound(high, kind)}"
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
        return self._try(lambda session: self._take(session, sql))

    def _take(self, session: Session, sql: str) -> DuckEngine:
        """Run a query, and take its rows over, batch by batch; a failure of the session on the way is its own error."""
        import pyarrow as pa

        session.rows(
            "SELECT set_config('search_path', 'pg_catalog', false)"
        )  # no function of a schema is mistaken for the server's
        schema, rows = session.batches(sql)
        failed: list[Failure] = []

        def batches() -> Iterator[Any]:
            try:
                yield from rows
            except Failure as failure:
                failed.append(failure)
                raise

        try:
            return open_arrow(
                pa.RecordBatchReader.from_batches(schema, batches()), scratch=self._scratch, label=self._label
            )
        except InvalidInput:
            if not failed:
                raise
        raise failed[0]

    def _try(self, work: Callable[[Session], T]) -> T:
        """Return what some work in a new session gives; one that fails is tried again, a few times.

        What a driver says is not passed on, not even as the context of a refusal.
        """
        refusal: HalflifeError
        for attempt in range(ATTEMPTS):
            time.sleep(PAUSE * (2**attempt - 1))
            try:
                with contextlib.closing(Session(self._label)) as self._session:
                    self._session.open(self._options)
                    return work(self._session)
            except Failure as failure:
                refusal, again = failure.refusal, failure.again
            finally:
                self._session = None
            if self._stopped:
                refusal = Interrupted(f"{self._label}: reading was broken off")
            if self._stopped or not again:
                break
        raise refusal


def _send(column: Column, *, whole: bool) -> str | None:
    """SQL of what a column is sent as, None if no reading is of its type; `whole` where it says who somebody is."""
    c, kind = name(column.name), column.kind
    if kind in (*WHOLE, *FLOATS, "bool"):
        return c
    if kind == "numeric" and whole:
        return f"CASE WHEN {c} = trunc({c}) AND abs({c}) < {EXACT} THEN trunc({c})::int8 END"
    if kind == ENUM:
        return f"CASE WHEN {c} IS NOT NULL THEN format('%s', {c}) END"  # what its own type writes, 63 bytes at most
    if kind in (*TEXTS, "numeric"):
        return _text(c)
    if kind in TIMES:
        return f"CASE WHEN isfinite({c}) AND {c} < '{FAR}' THEN {c} END"
    return None


def _text(column: str) -> str:
    return f"CASE WHEN octet_length({column}::text) <= {LONGEST} THEN {column}::text END"


def _moment(us: int, kind: str) -> str:
    """A moment in µs since 1970, to compare a column with, in its own type; beyond the years 1 to 9999 infinite.

    >>> _moment(1, "timestamptz"), _moment(-719_163 * 86_400_000_000, "date")
    ("timestamptz '1970-01-01 00:00:00.000001+00'", "date '-infinity'")
    """
    try:
        moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=us)
    except OverflowError:
        return f"{kind} '{'-' if us < 0 else ''}infinity'"
    text = moment.date().isoformat() if kind == "date" else moment.isoformat(" ", "microseconds")
    return f"{kind} '{text}{'+00' if kind == 'timestamptz' else ''}'"


def _bound(number: int, kind: str) -> str:
    """A number to compare a column with, in the column's own type: with another one no index would help."""
    largest = {"int2": 2**15 - 1, "int4": 2**31 - 1}.get(kind, 2**63 - 1)
    held = max(-largest, min(largest, number))
    return f"'{held}'::{kind}"


def _import_driver() -> None:
    try:
        import adbc_driver_postgresql  # noqa: F401
    except ImportError:
        raise missing_extra("adbc-driver-postgresql", "postgresql", "a source on a PostgreSQL server") from None
