"""SQL that looks at a whole source: why each row is good or bad, and what its (person, step, group) entries come to."""

from __future__ import annotations

from halflife.engines.base import LARGEST_UNITS, LATEST, Question
from halflife.engines.duckdb.sql import bin_sql, clip, shifted, units
from halflife.engines.inspection import QUANTILES, TOO_LARGE, TOO_SMALL

BEFORE, AFTER = 6, 7
"""Why a row is outside the asked steps, beside the reasons why one within them is bad."""


def placed_sql(question: Question, readings: str) -> str:
    """All rows: the moment us, NULL for what is no time, and how long after the first asked step's beginning it lies, since."""
    q = question
    us = f"CASE WHEN absolute THEN t ELSE {shifted('t', q.local)} END" if any(add for _, add in q.local) else "t"
    since = shifted("us", q.buckets.pieces, (q.first - 1) * q.buckets.width)
    timed = f"SELECT * REPLACE (CASE WHEN t BETWEEN -{LATEST} AND {LATEST} THEN t END AS t) FROM {readings}"
    return f"(SELECT *, {since} AS since FROM (SELECT *, {us} AS us FROM ({timed})))"


def scan_sql(question: Question, placed: str, reasons: str, joins: str, near: int) -> str:
    """By why rows are bad: how many; readings low, high, beyond ±near units and 0 by rounding; first, last moment; quantiles."""
    q = question
    u = "0::DOUBLE" if q.value is None else units(q)
    why = (
        f"CASE WHEN us IS NULL THEN 1 WHEN since < 0 THEN {BEFORE} "
        f"WHEN since >= {q.shape[0] * q.buckets.width} THEN {AFTER} {reasons} ELSE 0 END::TINYINT"
    )
    vanished = "0" if q.value is None else "count_if(x <> 0 AND u = 0)"
    held = clip("u", (-LATEST, LATEST), "DOUBLE")
    return (
        f"SELECT why, count(*), count_if(u < {q.least}::DOUBLE), count_if(u > {q.most}::DOUBLE), "
        f"count_if(u NOT BETWEEN -{near}::DOUBLE AND {near}::DOUBLE), {vanished}, min(us), max(us), "
        f"approx_quantile({held}, {list(QUANTILES)}) "
        f"FROM (SELECT r.*, {u} AS u, {why} AS why FROM {placed} r{joins}) GROUP BY why"
    )


def people_sql(good: str) -> str:
    """How many persons there are, and the time between two readings of one, the median over persons."""
    spacing = "CASE WHEN count(*) > 1 THEN (max(us) - min(us)) / (count(*) - 1) END"
    return f"SELECT count(*), approx_quantile(s, 0.5) FROM (SELECT {spacing} AS s FROM ({good}) GROUP BY p)"


def wide_bounds(question: Question) -> tuple[int, int]:
    """Bounds so wide that an entry clipped to them still shows by how much a unit is mistaken."""
    reach = max(abs(question.low), abs(question.high), 1) * max(TOO_LARGE) + 1
    return -min(reach, LARGEST_UNITS), min(reach, LARGEST_UNITS)


def steps_sql(question: Question, entries: str, g: str, kept: str, *, once: bool) -> str:
    """For each step, group and bin: entries, how many of them count, what they add up to, and how they lie to the bounds.

    `entries` are folded, not clipped: columns p, k, f, and g, w, c, place where the question has them.
    """
    q = question
    low, high = float(q.low), float(q.high)
    columns = {"k": "k", "g": g, "b": "0", "entries": "count(*)", "kept": f"count(*){kept}"}
    if q.kind == "count":
        columns["total"] = f"count(*){kept}::DOUBLE"
    else:
        entries = f"SELECT * REPLACE ({clip('f', (q.low, q.high), 'HUGEINT')}::BIGINT AS v) FROM ({entries})"
        x = "f::DOUBLE"
        columns |= {
            "low": f"count_if(f < {q.low}){kept}",
            "high": f"count_if(f > {q.high}){kept}",
            "zeros": f"count_if(f = 0){kept}",
            "grown": f"count_if(f <> 0 AND {x} * {TOO_SMALL} BETWEEN {low} AND {high}){kept}",
            **{f"by{n}": f"count_if({x} BETWEEN {low * n} AND {high * n}){kept}" for n in TOO_LARGE},
            "total": f"count(*){kept}::DOUBLE",
        }
        if q.kind == "histogram":
            columns["b"] = f"coalesce({bin_sql(q)}, -1)"
        else:
            weight = "" if q.weights is None else " * w"
            columns["total"] = f"coalesce(sum((v - {q.baseline})::DOUBLE{weight}){kept}, 0)"
    if once:
        columns["moments"] = "sum(c)::BIGINT"
    listed = ", ".join(f"{sql} AS {column}" for column, sql in columns.items())
    return f"SELECT {listed} FROM ({entries}) GROUP BY ALL"


def between_steps_sql(table: str) -> str:
    """Steps with data: how many, the first, the last, and how far it is from one to the next."""
    return (
        "SELECT count(*), min(k), max(k), approx_quantile(gap, 0.5) FROM "
        f"(SELECT k, k - lag(k) OVER (ORDER BY k) AS gap FROM (SELECT DISTINCT k FROM {table}))"
    )
