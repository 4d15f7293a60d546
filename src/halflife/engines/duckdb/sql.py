"""SQL that the embedded engine is made of: quoting, columns of any type read as persons, values and times, and the fold."""

from __future__ import annotations

from collections.abc import Sequence

from halflife.engines.base import LARGEST_TOTAL, LATEST, Question, bounds_before_fold, most_added
from halflife.engines.grammar import EXACT, SECONDS, has_offset, number_of_text, time_of_number, time_of_text
from halflife.engines.time_format import is_absolute, time_of_format
from halflife.local_time import Piece

_INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
CLASSES = {
    **dict.fromkeys(("VARCHAR", "ENUM", "UUID"), "text"),
    **dict.fromkeys((*_INTEGERS, *("U" + name for name in _INTEGERS)), "integer"),
    **dict.fromkeys(("FLOAT", "DOUBLE", "DECIMAL"), "float"),
    "BOOLEAN": "boolean",
    "DATE": "coarse",
    "TIMESTAMP_S": "coarse",
    "TIMESTAMP_MS": "coarse",
    "TIMESTAMP": "timestamp",
    "TIMESTAMP_NS": "fine",
    "TIMESTAMP_S WITH TIME ZONE": "coarse absolute",
    "TIMESTAMP_MS WITH TIME ZONE": "coarse absolute",
    "TIMESTAMP WITH TIME ZONE": "absolute",
    "TIMESTAMPTZ_NS": "fine absolute",
    '"NULL"': "null",
    "NULL": "null",
}


def class_of(kind: str) -> str:
    """The class of one of DuckDB's types.

    >>> class_of("DECIMAL(18,3)"), class_of("TIMESTAMP"), class_of("STRUCT(a INTEGER)")
    ('float', 'timestamp', 'other')
    """
    return CLASSES.get(kind.partition("(")[0], "other")


def name(identifier: str) -> str:
    """Quote an identifier.

    >>> print(name('a"b'))
    "a""b"
    """
    return '"' + identifier.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Quote a text.

    >>> print(literal("o'clock"))
    'o''clock'
    """
    return "'" + text.replace("'", "''") + "'"


def choose(column: str, starts: Sequence[int], results: Sequence[object]) -> str:
    """SQL of results[i] where starts[i] ≤ column < starts[i + 1]; the first also before its start. A tree of comparisons.

    >>> choose("x", (0, 5, 9), ("a", "b", "c"))
    '(CASE WHEN x < 5 THEN a ELSE (CASE WHEN x < 9 THEN b ELSE c END) END)'
    """
    if len(results) == 1:
        return str(results[0])
    middle = len(results) // 2
    below, above = choose(column, starts[:middle], results[:middle]), choose(column, starts[middle:], results[middle:])
    return f"(CASE WHEN {column} < {starts[middle]} THEN {below} ELSE {above} END)"


def shifted(column: str, pieces: Sequence[Piece], less: int = 0) -> str:
    """SQL of column + add − less, with `add` of the piece that it lies in."""
    adds = [add - less for _, add in pieces]
    return column if not any(adds) else f"({column} + {choose(column, [start for start, _ in pieces], adds)})"


# ---------------------------------------------------------------------------------------------- columns, read as they are


def person_sql(column: str, kind: str) -> str | None:
    """A person or group: text, or whole numbers (also as floats, which is what pandas makes of them)."""
    return {
        "text": f"{column}::VARCHAR",
        "integer": column,
        "float": f"CASE WHEN abs({column}) < {EXACT} AND {column} = floor({column}) THEN {column}::BIGINT END",
        "null": "NULL::VARCHAR",
    }.get(kind)


def value_sql(column: str, kind: str) -> str | None:
    """A DOUBLE."""
    return {
        "text": number_of_text(f"{column}::VARCHAR"),
        "float": f"{column}::DOUBLE",
        "integer": f"{column}::DOUBLE",
        "boolean": f"{column}::INTEGER::DOUBLE",
        "null": "NULL::DOUBLE",
    }.get(kind)


def time_sql(column: str, kind: str, epoch: str | None, time_format: str | None = None) -> tuple[str, str] | None:
    """µs since 1970 or NULL, and whether they are absolute (else a local clock's)."""
    if kind == "null":
        return "NULL::BIGINT", "true"
    text = f"{column}::VARCHAR"
    if time_format is not None:
        absolute = str(is_absolute(time_format)).lower()
        return (time_of_format(text, time_format), absolute) if kind == "text" else None
    if epoch is None:
        return {
            "text": (time_of_text(text), has_offset(text)),
            "coarse": (f"epoch_us(TRY_CAST({column} AS TIMESTAMP))", "false"),
            "coarse absolute": (f"epoch_us(TRY_CAST({column} AS TIMESTAMP))", "true"),
            "timestamp": (f"epoch_us({column})", "false"),
            "absolute": (f"epoch_us({column})", "true"),
            "fine": (f"(epoch_ns({column}) // 1000 - (epoch_ns({column}) % 1000 < 0)::BIGINT)", "false"),
            "fine absolute": (f"(epoch_ns({column}) // 1000 - (epoch_ns({column}) % 1000 < 0)::BIGINT)", "true"),
        }.get(kind)
    most = LATEST // SECONDS[epoch]
    found = {
        "text": time_of_number(f"({number_of_text(text)})", epoch),
        "float": time_of_number(f"{column}::DOUBLE", epoch),
        "integer": f"CASE WHEN {column} BETWEEN -{most} AND {most} THEN {column}::BIGINT * {SECONDS[epoch]} END",
    }.get(kind)
    return None if found is None else (found, "true")


# -------------------------------------------------------------------------------------------------------- the aggregation


def units(question: Question) -> str:
    """u before it is clipped, a whole DOUBLE: ⌊x · multiply / divide + ½⌋ in this order."""
    q = question
    times = f" * {float(q.multiply)!r}::DOUBLE" if q.multiply != 1 else ""
    over = f" / {float(q.divide)!r}::DOUBLE" if q.divide != 1 else ""
    return f"floor(x{times}{over} + 0.5::DOUBLE)"


def clip(column: str, bounds: tuple[int, int], kind: str) -> str:
    """SQL of a column within these bounds; NaN, which is above all numbers here, is the upper one (`least` is slower)."""
    low, high = (f"{bound}::{kind}" for bound in bounds)
    return f"(CASE WHEN {column} > {high} THEN {high} WHEN {column} < {low} THEN {low} ELSE {column} END)"


def fold_sql(question: Question, readings: int, largest: int) -> tuple[str, str]:
    """The aggregate of a person's readings in a step, columns us, k and u (a whole DOUBLE); and what it comes to, made of `a`.

    first, last   the earliest or latest moment, and of readings at it the largest: both in one whole number,
                  (moment within the step) · R + (u − low), R = high − low + 1, in 64 bits where that fits, else 128
    mean          ⌊(2S + n)/(2n)⌋ − M with S = Σu + nM ≥ 0, as // rounds towards 0; no |u| exceeds M, `largest`
    sum, mean     whole doubles add up exactly, in any order, below 2⁵³, and so many readings come to at most readings · M
                  on the way; else in 128 bits, which is slower
    """
    q = question
    if q.kind == "count" or q.fold == "count":
        return ("", "NULL") if q.kind == "count" else (", count(*) AS a", "a")
    if q.fold in ("min", "max"):
        return f", {q.fold}(u) AS a", "a::BIGINT"
    low, high = bounds_before_fold(q)
    if q.fold in ("first", "last"):
        adds = [add for _, add in q.buckets.pieces]
        spread = high - low + 1
        kind = "BIGINT" if (q.buckets.width + max(adds) - min(adds)) * spread < 2**63 else "HUGEINT"
        within = f"(us + {max(adds) - (q.first - 1) * q.buckets.width} - k * {q.buckets.width})::{kind}"
        if q.fold == "last":
            return f", max({within} * {spread} + (u::BIGINT - {low})) AS a", f"({low} + a % {spread})::BIGINT"
        return f", min({within} * {spread} + ({high} - u::BIGINT)) AS a", f"({high} - a % {spread})::BIGINT"
    exact, total, kind = (
        ("u", "a::BIGINT", "BIGINT") if readings * 2 * largest < EXACT else ("u::BIGINT", "a", "HUGEINT")
    )
    if q.fold == "sum":
        return f", sum({exact}) AS a", total
    return (
        f", sum({exact}) AS a, count(*) AS n",
        f"((2 * ({total} + n * {largest}::{kind}) + n) // (2 * n) - {largest})",
    )


def one_sql(question: Question) -> str:
    """What the fold of one reading alone comes to: the reading, or a count of one.

    >>> from halflife.steps import Buckets
    >>> asked = Question("sum", "p", "t", Buckets(1, ((0, 0),)), 1, 1, value="x", fold="mean")
    >>> one_sql(asked)
    'u::BIGINT'
    """
    if question.kind == "count":
        return "NULL"
    return "1::BIGINT" if question.fold == "count" else "u::BIGINT"


def adds_sql(question: Question, kept: str) -> str:
    """The total of v or the number of entries, of those kept; summed in 128 bits, then clipped to what 64 hold for sure."""
    q = question
    if q.kind != "sum":
        return f"count(*){kept}"
    times = "" if q.weights is None else " * w" if most_added(q) < 2**63 else " * w::HUGEINT"
    v = f"(v - {q.baseline})" if q.baseline else "v"
    total = f"coalesce(sum({v}{times}){kept}, 0)"
    return f"greatest(least({total}, {LARGEST_TOTAL}::HUGEINT), -{LARGEST_TOTAL}::HUGEINT)::BIGINT"


def bin_sql(question: Question) -> str:
    """The histogram's bin of v, NULL outside its edges."""
    edges = question.edges
    inner = choose("v", edges[:-1], range(len(edges) - 1))
    return f"CASE WHEN v BETWEEN {edges[0]} AND {edges[-1]} THEN {inner} END"
