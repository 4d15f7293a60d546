"""SQL that looks at a whole source on a cluster: counts and shapes leave it, and no reading."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from halflife.engines.base import LATEST, REASONS, TALLIES, Question
from halflife.engines.duckdb.inspection import AFTER, BEFORE, wide_bounds
from halflife.engines.inspection import QUANTILES, TOO_LARGE, TOO_SMALL, Inspection
from halflife.engines.spark.query import good_sql, kept_sql, steps_sql, told_sql
from halflife.engines.spark.sql import LARGEST_DOUBLE, bin_sql, clip_sql, floor_sql, literal, units_sql

Rows = list[dict[str, Any]]
Ask = Callable[[Question, str], Rows]
"""Run a query about a question, for its rows."""


def inspect(question: Question, readings: str, ask: Ask) -> Inspection:
    """Return what a whole source holds beside what a question says of it: four queries."""
    q = question
    found = {row["why"]: row for row in ask(q, _scan_sql(q, readings))}
    counts = {why: row["n"] for why, row in found.items()}
    before, after = counts.pop(BEFORE, 0), counts.pop(AFTER, 0)
    tallies = dict.fromkeys(TALLIES, 0) | {REASONS[why]: n for why, n in counts.items() if why}
    tallies["rows"] = sum(counts.values())
    timed = [row for why, row in found.items() if why != 1]
    seen: dict[str, Any] = {
        "rows": tallies["rows"] + before + after,
        "before": before,
        "after": after,
        "earliest": min((row["earliest"] for row in timed), default=None),
        "latest": max((row["latest"] for row in timed), default=None),
        "totals": np.zeros(q.shape[1:]),
    }
    if counts.get(0):
        good = found[0]
        (people,) = ask(q, _people_sql(q, readings))
        tallies["clipped_readings"] = good["low"] + good["high"]
        seen |= {"low_readings": good["low"], "high_readings": good["high"], "vanished": good["vanished"]}
        seen |= {"people": people["people"], "spacing": people["spacing"]}
        seen |= {"typical": None if q.value is None else tuple(good["typical"])}
        seen |= _inspect_entries(q, readings, tallies, ask)
    return Inspection(**seen, tallies=tallies)


def _inspect_entries(question: Question, readings: str, tallies: dict[str, int], ask: Ask) -> dict[str, Any]:
    """What (person, step, group) entries come to; their tallies are filled in."""
    q = question
    cells = _cells_sql(q, readings)
    rows = ask(q, f"{cells} {_sums_sql()}")
    (steps,) = ask(q, f"{cells} {_steps_sql()}")
    total = next(row for row in rows if row["level"])
    totals = np.zeros(q.shape[1:])
    for row in rows:
        if not row["level"]:
            totals[row["g"], row["b"]] = row["total"]
    tallies["duplicates"] = total["duplicates"] if q.once else 0
    tallies["clipped"] = total["low"] + total["high"]
    tallies["too_many_groups"] = total["entries"] - total["kept"]
    return {
        **{name: total[name] for name in ("low", "high", "zeros", "grown")}, "entries": total["kept"],
        "shrunk": {n: total[f"by{n}"] for n in TOO_LARGE}, "totals": totals,
        "steps": steps["n"], "first": steps["first"] + q.first, "last": steps["last"] + q.first, "gap": steps["gap"],
    }  # fmt: skip


def _with(parts: Sequence[tuple[str, str]]) -> str:
    return "WITH " + ", ".join(f"{name} AS ({sql})" for name, sql in parts)


def _scan_sql(question: Question, readings: str) -> str:
    """By why rows are bad: how many; readings low, high and 0 by rounding; first, last moment; quantiles."""
    q, y = question, units_sql(question)
    columns = {
        "n": "count(*)",
        "low": "0L" if q.value is None else f"count_if({y} < {q.least}.0D)",
        "high": "0L" if q.value is None else f"count_if({y} >= {q.most + 1}.0D)",
        "vanished": "0L" if q.value is None else f"count_if(x <> 0.0D AND {y} >= 0.0D AND {y} < 1.0D)",
        "earliest": "min(us)",
        "latest": "max(us)",
        "typical": f"percentile_approx({floor_sql(y, (-LATEST, LATEST))}, array{QUANTILES})",
    }
    listed = ", ".join(f"{sql} AS {name}" for name, sql in columns.items())
    return f"{_with((('readings', readings), ('told', told_sql(q))))} SELECT why, {listed} FROM told GROUP BY why"


def _people_sql(question: Question, readings: str) -> str:
    """How many persons there are, and the time between two readings of one, the median over persons."""
    q = question
    spacing = "CASE WHEN count(*) > 1 THEN (max(us) - min(us)) / (count(*) - 1) END"
    parts = ("readings", readings), ("told", told_sql(q)), ("good", good_sql(q))
    each = f"SELECT {spacing} AS s FROM good WHERE why = 0 GROUP BY p"
    return f"{_with(parts)} SELECT count(*) AS people, percentile_approx(s, 0.5) AS spacing FROM ({each})"


def _cells_sql(question: Question, readings: str) -> str:
    """WITH cells: for each step, group and bin entries, how many count, what they add up to, and how they lie to the bounds."""
    q, (least, most) = question, wide_bounds(question)
    wide = replace(q, low=least, high=most)
    kept, low, high, f = kept_sql(q), float(q.low), float(q.high), "CAST(f AS DOUBLE)"
    columns = {
        "entries": "count(*)", "kept": f"count_if({kept})", "duplicates": "sum(c - m)",
        "low": f"count_if({kept} AND f < {q.low})", "high": f"count_if({kept} AND f > {q.high})",
        "zeros": f"count_if({kept} AND f = 0)",
        "grown": f"count_if({kept} AND f <> 0 AND {f} * {TOO_SMALL} BETWEEN {low}D AND {high}D)",
        **{f"by{n}": f"count_if({kept} AND {f} BETWEEN {low * n}D AND {high * n}D)" for n in TOO_LARGE},
        "total": f"coalesce(sum(CAST(v - {q.baseline}L AS DOUBLE) * w) FILTER (WHERE {kept}), 0.0D)",
    }  # fmt: skip
    if q.kind == "count":  # an entry is a person, whatever they read
        columns |= {name: "0L" for name in columns if name not in ("entries", "kept", "duplicates")}
    if q.kind != "sum":
        columns["total"] = f"CAST(count_if({kept}) AS DOUBLE)"
    listed = ", ".join(f"{sql} AS {name}" for name, sql in columns.items())
    bounded = (
        f"SELECT *, {bin_sql(q)} AS b FROM (SELECT *, {clip_sql('f', q.low, q.high)} AS v FROM entries WHERE why = 0)"
    )
    return f"{steps_sql(wide, readings)}, cells AS (SELECT k, g, b, {listed} FROM ({bounded}) GROUP BY k, g, b)"


def _sums_sql() -> str:
    """Over all steps: of each group and bin its total; and one row of counts."""
    counted = ("entries", "kept", "duplicates", "low", "high", "zeros", "grown", *(f"by{n}" for n in TOO_LARGE))
    listed = ", ".join(f"sum({name}) AS {name}" for name in counted)
    sets = f"SELECT grouping_id(g, b) AS level, g, b, sum(total) AS total, {listed} FROM cells"
    return f"SELECT * FROM ({sets} GROUP BY GROUPING SETS ((g, b), ())) WHERE level <> 0 OR b IS NOT NULL"


def _steps_sql() -> str:
    """Steps with data: how many, the first, the last, and how far it is from one to the next."""
    gaps = "SELECT k, k - lag(k) OVER (ORDER BY k) AS gap FROM (SELECT DISTINCT k FROM cells)"
    return f"SELECT count(*) AS n, min(k) AS first, max(k) AS last, percentile_approx(gap, 0.5) AS gap FROM ({gaps})"


def shapes_sql(readings: str, which: str, most: int) -> str:
    """The shapes of some cells of text, p, that are no time or no value: digits as 9, letters as a; they are from all over."""
    bad = "t IS NULL" if which == "time" else "x IS NULL"
    digits, letters = literal(r"\p{N}"), literal(r"\p{L}")
    shape = f"regexp_replace(regexp_replace(p, {digits}, '9'), {letters}, 'a')"
    return f"WITH readings AS ({readings}) SELECT {shape} AS shape FROM readings WHERE {bad} ORDER BY xxhash64(p, t) LIMIT {most}"


def middle_sql(column: str) -> str:
    """About the middle of a column of finite numbers."""
    x = f"CAST({column} AS DOUBLE)"
    return f"SELECT percentile_approx({x}, 0.5) AS middle FROM {{source}} WHERE abs({x}) <= {LARGEST_DOUBLE}"
