"""Spark SQL that the engine is made of: quoting, columns of any type read as persons, values and times, and the fold.

It means the same in every session: no expression depends on the session's zone, its ANSI mode or how it reads text in quotes, and
none can fail for what is in a cell. Whole numbers stay within 64 bits, or are DECIMAL(38) where they might not.
"""

from __future__ import annotations

from halflife.engines.base import LARGEST_TOTAL, LATEST, Question, bounds_before_fold, bounds_of_times, most_added
from halflife.engines.duckdb.sql import choose
from halflife.engines.grammar import EXACT, OFFSET, SECONDS, YEAR
from halflife.engines.time_format import MONTHS, capture_fields
from halflife.local_time import DAY, SECOND

CLASSES = {
    "string": "text", "char": "text", "varchar": "text", "tinyint": "integer", "smallint": "integer", "int": "integer",
    "bigint": "integer", "float": "float", "double": "float", "decimal": "decimal", "boolean": "boolean", "date": "date",
    "timestamp": "absolute", "timestamp_ntz": "local", "void": "null",
}  # fmt: skip
CALLED = {"string": "VARCHAR", "int": "INTEGER", "timestamp": "TIMESTAMP WITH TIME ZONE", "timestamp_ntz": "TIMESTAMP"}
"""Types as DuckDB calls them."""

NUMBER = r"[ \t]*+[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?[ \t]*+"
"""The one grammar's numbers for Java, which tries again what it took, for ever of a million digits, unless told not to (++)."""
ISO = (
    rf"({YEAR})-([0-9]{{2}})-([0-9]{{2}})(?:[ T]([01][0-9]|2[0-3]):([0-5][0-9])"
    rf"(?::([0-5][0-9])(?:\.([0-9]{{1,9}}))?)?({OFFSET})?)?"
)
"""The one grammar's times, with a group for each of ISO_FIELDS."""
ISO_FIELDS = "YmdHMSfz"

HALF = 2**20
"""A sum of readings u is kept in two parts, Σ⌊u / HALF⌋ and Σ(u mod HALF): each fits 64 bits for 2⁴³ readings."""
SMALL = 2**22
"""What people add, if no |w · (v − baseline)| is larger, fits 64 bits for 2⁴⁰ people."""
LARGEST_DOUBLE = "1.7976931348623157E308D"


def class_of(kind: str) -> str:
    """The class of one of Spark's types. A whole number without a sign, of a Parquet file, is DECIMAL(20,0) to Spark.

    >>> class_of("decimal(18,3)"), class_of("decimal(20,0)"), class_of("array<int>"), class_of("string collate UNICODE")
    ('decimal', 'integer', 'other', 'text')
    """
    return "integer" if kind == "decimal(20,0)" else CLASSES.get(kind.partition("(")[0].partition(" ")[0], "other")


def literal(text: str) -> str:
    """Quote a text: by its bytes, as what a backslash means in quotes is a setting of the session.

    >>> literal("o'x")
    "CAST(X'6F2778' AS STRING)"
    """
    return f"CAST(X'{text.encode().hex().upper()}' AS STRING)"


def whole(pattern: str) -> str:
    """Quote a pattern that must match a text as a whole."""
    return literal(rf"\A(?:{pattern})\z")


def shifted(column: str, pieces: tuple[tuple[int, int], ...], less: int = 0) -> str:
    """SQL of column + add − less, with `add` of the piece that it lies in."""
    adds = [f"{add - less}L" for _, add in pieces]
    return f"({column} + {choose(column, [start for start, _ in pieces], adds)})"


# ---------------------------------------------------------------------------------------------- columns, read as they are


def person_sql(column: str, kind: str) -> str | None:
    """A person or group as text: text that is UTF-8, or whole numbers (also as floats)."""
    digits = f"CAST(try_cast({column} AS BIGINT) AS STRING)"
    near = f"abs(CAST({column} AS DOUBLE)) < {EXACT}.0D"
    return {
        "text": f"CASE WHEN is_valid_utf8({_plain(column)}) THEN {_plain(column)} END",
        "integer": f"CAST({column} AS STRING)",
        "float": f"CASE WHEN {near} AND rint({column}) = {column} THEN {digits} END",
        "decimal": f"CASE WHEN {near} AND {column} % 1BD = 0BD THEN {digits} END",
        "null": "CAST(NULL AS STRING)",
    }.get(kind)


def value_sql(column: str, kind: str) -> str | None:
    """A DOUBLE, which need not be finite."""
    return {
        "text": number_of_text(column),
        "boolean": f"CAST(CAST({column} AS INT) AS DOUBLE)",
        **dict.fromkeys(("integer", "float", "decimal", "null"), f"CAST({column} AS DOUBLE)"),
    }.get(kind)


def number_of_text(column: str) -> str:
    """Text as a DOUBLE, NULL if it is no number."""
    text = _plain(column)
    return f"CASE WHEN {text} RLIKE {whole(NUMBER)} THEN try_cast(trim(BOTH {literal(' ' + chr(9))} FROM {text}) AS DOUBLE) END"


def _plain(column: str) -> str:
    """A column of text, compared byte by byte, whatever its collation."""
    return f"({column} COLLATE UTF8_BINARY)"


def parts_sql(column: str, kind: str, question: Question) -> str:
    """A column of times, of text its fields as an array of text, or its number; NULL for what is no time."""
    if kind != "text":
        return column
    if question.epoch is not None:
        return number_of_text(column)
    pattern, fields = (ISO, ISO_FIELDS) if question.time_format is None else capture_fields(question.time_format)
    found = ",".join(f"${i + 1}" for i in range(len(fields)))
    text, matched = _plain(column), whole(pattern)
    return f"CASE WHEN {text} RLIKE {matched} THEN split(regexp_replace({text}, {matched}, '{found}'), ',') END"


def time_sql(kind: str, question: Question) -> tuple[str, str] | None:
    """µs since 1970 of a column of this class, c, as `parts_sql` has it; and whether they are absolute (else a local clock's)."""
    epoch, time_format = question.epoch, question.time_format
    if kind == "null":
        return "CAST(NULL AS BIGINT)", "true"
    if time_format is not None and kind != "text":
        return None
    if epoch is not None:
        scaled = f"(CAST(c AS DOUBLE) * {SECONDS[epoch]}.0D)"
        number = f"CASE WHEN abs({scaled}) <= {LATEST}.0D THEN floor({scaled}) END"
        exact = f"try_multiply(try_cast(c AS BIGINT), {SECONDS[epoch]}L)"
        sql = {"integer": exact, **dict.fromkeys(("text", "float", "decimal"), number)}.get(kind)
        return None if sql is None else (sql, "true")
    if kind == "text":
        fields = ISO_FIELDS if time_format is None else capture_fields(time_format)[1]
        return _time_of_parts(fields), f"c[{fields.index('z')}] <> ''" if "z" in fields else "false"
    sql = {"absolute": "unix_micros(c)", "date": _days("c"), "local": _time_of_clock("c")}.get(kind)
    return None if sql is None else (sql, str(kind == "absolute").lower())


def _days(date: str) -> str:
    return f"try_multiply(CAST(unix_date({date}) AS BIGINT), {DAY}L)"


def _time_of_clock(column: str) -> str:
    """A TIMESTAMP_NTZ by its day and what its clock shows: a cast to TIMESTAMP would ask for the session's zone."""
    clock = f"hour({column}) * {3600 * SECOND}L + minute({column}) * {60 * SECOND}L"
    clock += f" + CAST(extract(SECOND FROM {column}) * {SECOND} AS BIGINT)"
    return f"try_add({_days(f'CAST({column} AS DATE)')}, {clock})"


def _time_of_parts(fields: str) -> str:
    """µs since 1970 of the parts c of a text, each of which is one of the fields of `halflife.engines.time_format`."""
    part = {letter: f"c[{i}]" for i, letter in enumerate(fields)}

    def number(letter: str) -> str:
        return f"coalesce(try_cast({part[letter]} AS BIGINT), 0L)" if letter in part else "0L"

    year = f"({number('y')} + IF({number('y')} < 69L, 2000L, 1900L))" if "y" in part else number("Y")
    month = number("m")
    if named := part.get("b") or part.get("B"):
        names = "".join(name[:3] for name in MONTHS)
        month = f"((locate(lower(substr({named}, 1, 3)), '{names}') + 2) DIV 3)"
    hour = f"({number('I')} % 12L + IF(lower({part['p']}) = 'pm', 12L, 0L))" if "I" in part else number("H")
    date = f"try_cast(concat_ws('-', lpad({year}, 4, '0'), lpad({month}, 2, '0'), lpad({number('d')}, 2, '0')) AS DATE)"
    sql = f"{_days(date)} + {hour} * {3600 * SECOND}L + {number('M')} * {60 * SECOND}L + {number('S')} * {SECOND}L"
    if "f" in part:
        sql += f" + coalesce(try_cast(rpad(substr({part['f']}, 1, 6), 6, '0') AS BIGINT), 0L)"
    if "z" in part:
        digits = f"rpad(replace(substr({part['z']}, 2), ':', ''), 4, '0')"
        minutes = " + ".join(
            f"coalesce(try_cast(substr({digits}, {at}, 2) AS BIGINT), 0L) * {each}L" for at, each in ((1, 60), (3, 1))
        )
        sql += f" - IF({part['z']} LIKE '-%', -1L, 1L) * ({minutes}) * {60 * SECOND}L"
    return f"({sql})"


def near_sql(column: str, kind: str, question: Question) -> str:
    """A condition on the column of times, as it is, that all rows meet which are counted or tallied: files are left out by it."""
    earliest, latest = bounds_of_times(question)
    unit = 1 if question.epoch is None else SECONDS[question.epoch]
    bounds: tuple[int | str, ...] = (earliest // unit - 1, latest // unit + 1, -(LATEST // unit), LATEST // unit)
    if question.epoch is not None and kind in ("integer", "float"):
        pass
    elif question.epoch is None and kind == "absolute":
        bounds = tuple(f"timestamp_micros({us}L)" for us in (earliest, latest, -LATEST, LATEST))
    elif question.epoch is None and kind == "local":
        bounds = tuple(map(_clock_literal, (earliest, latest, -LATEST, LATEST)))
    elif question.epoch is None and kind == "date":
        days = earliest // DAY, latest // DAY, -(LATEST // DAY), LATEST // DAY
        bounds = tuple(f"date_from_unix_date({day})" for day in days)
    else:
        return "true"
    low, high, least, most = bounds
    return f"({column} BETWEEN {low} AND {high} OR {column} IS NULL OR {column} < {least} OR {column} > {most})"


def _clock_literal(us: int) -> str:
    """A moment by a clock without a zone.

    >>> _clock_literal(-1)
    "TIMESTAMP_NTZ'1970-01-01 00:00:00' + INTERVAL '-0.000001' SECOND"
    """
    seconds = f"{'-' if us < 0 else ''}{abs(us) // SECOND}.{abs(us) % SECOND:06}"
    return f"TIMESTAMP_NTZ'1970-01-01 00:00:00' + INTERVAL '{seconds}' SECOND"


# -------------------------------------------------------------------------------------------------------- the aggregation


def units_sql(question: Question) -> str:
    """x in units before they are made whole: x · multiply / divide + ½ in this order, as DuckDB does it; it may be infinite."""
    q = question
    times = f" * {q.multiply}.0D" if q.multiply != 1 else ""
    over = f" / {q.divide}.0D" if q.divide != 1 else ""
    return f"(x{times}{over} + 0.5D)"


def floor_sql(column: str, bounds: tuple[int, int]) -> str:
    """A DOUBLE rounded down, as a BIGINT within bounds, which come first: what 64 bits do not hold must not be rounded."""
    return f"floor(greatest(least({column}, {bounds[1]}.0D), {bounds[0]}.0D))"


def beyond_sql(column: str, bounds: tuple[int, int]) -> str:
    """Whether a DOUBLE, rounded down, lies outside bounds."""
    return f"({column} < {bounds[0]}.0D OR {column} >= {bounds[1] + 1}.0D)"


def clip_sql(column: str, low: int, high: int) -> str:
    """A whole number within bounds."""
    return f"greatest(least({column}, {high}L), {low}L)"


def fold_sql(question: Question) -> tuple[str, str, str]:
    """Aggregates of a person's readings in a step, columns us, k and u; columns made of them; and the fold, made of those."""
    q = question
    if q.kind != "count" and q.fold in ("first", "last"):
        return _fold_of_moment(q)
    if q.kind != "count" and q.fold in ("sum", "mean"):
        return _fold_of_sum(q)
    made = {"count": "count(*)", "min": "min(u)", "max": "max(u)"}.get("" if q.kind == "count" else q.fold, "0L")
    return f", {made} AS a", "", "a"


def _fold_of_moment(question: Question) -> tuple[str, str, str]:
    """The earliest or latest moment, and of readings at it the largest: both in one whole number,
    (moment within the step) · R + (u − low), R = high − low + 1, in 64 bits where that fits, else a DECIMAL.
    """
    q = question
    low, high = bounds_before_fold(q)
    adds, spread = [add for _, add in q.buckets.pieces], high - low + 1
    fits = (q.buckets.width + max(adds) - min(adds)) * spread < 2**63
    step = f"{spread}L" if fits else f"CAST({spread} AS DECIMAL(14,0))"
    within = f"(us + {max(adds) - (q.first - 1) * q.buckets.width}L - k * {q.buckets.width}L)"
    within = within if fits else f"CAST({within} AS DECIMAL(20,0))"
    rest = f"CAST(pmod(a, {step}) AS BIGINT)"
    if q.fold == "last":
        return f", max({within} * {step} + (u - {low}L)) AS a", "", f"{rest} + {low}L"
    return f", min({within} * {step} + ({high}L - u)) AS a", "", f"{high}L - {rest}"


def _fold_of_sum(question: Question) -> tuple[str, str, str]:
    """Σu = high · HALF + low with 0 ≤ low < HALF, of n readings, in 64 bits throughout.

    sum    |high| is clipped at 2⁴², which lies beyond all bounds
    mean   ⌊(2Σu + n)/(2n)⌋; with high = c · n + d, 0 ≤ d < n, it is c · HALF + ⌊(2(d · HALF + low) + n)/(2n)⌋
    """
    adding = f", sum((u - pmod(u, {HALF}L)) DIV {HALF}L) AS highs, sum(pmod(u, {HALF}L)) AS lows, count(*) AS n"
    high = f"(highs + lows DIV {HALF}L)"
    split = f", {high} AS high, lows % {HALF}L AS low, pmod({high}, n) AS d"
    if question.fold == "sum":
        return adding, split, f"{clip_sql('high', -(2**42), 2**42)} * {HALF}L + low"
    return adding, split, f"((high - d) DIV n) * {HALF}L + (2L * (d * {HALF}L + low) + n) DIV (2L * n)"


def adds_sql(question: Question, kept: str) -> str:
    """The total of v or the number of entries, of those kept; a total is clipped to what 64 bits hold for sure."""
    q = question
    if q.kind != "sum":
        return f"count_if({kept})"
    v = f"(v - {q.baseline}L)"
    if most_added(q) < SMALL:
        return f"coalesce(sum({v} * w) FILTER (WHERE {kept}), 0L)"
    product = f"CAST({v} AS DECIMAL(14,0)) * CAST(w AS DECIMAL(14,0))"
    total = f"coalesce(sum({product}) FILTER (WHERE {kept}), 0L)"
    return f"CAST(greatest(least({total}, {LARGEST_TOTAL}L), -{LARGEST_TOTAL}L) AS BIGINT)"


def bin_sql(question: Question) -> str:
    """The histogram's bin of v, NULL outside its edges; 0 of what is no histogram."""
    edges = question.edges
    if question.kind != "histogram":
        return "0"
    inner = choose("v", edges[:-1], range(len(edges) - 1))
    return f"CASE WHEN v BETWEEN {edges[0]} AND {edges[-1]} THEN {inner} END"
