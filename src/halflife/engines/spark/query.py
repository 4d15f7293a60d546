"""The query that answers a question: from a frame of columns c0, c1, … to totals and tallies, step by step.

    readings   the person p, group g, finite value x, and time t, in µs since 1970, absolute or by a local clock
    told       the step k, and why a row is bad: 0 good, else its place in REASONS, or before or after the asked steps
    moments    group by (person, moment): the largest reading of each, where they count once
    entries    group by (person, step[, group]): what a person's readings come to, f
    cells      group by (step, group, bin): what people add up to

Bad rows go the same way, as entries of nobody, so that one query has totals and tallies.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from halflife.engines.base import LATEST, REASONS, TALLIES, Question, bounds_before_fold
from halflife.engines.columns import check_columns, people_of_columns
from halflife.engines.duckdb.inspection import AFTER, BEFORE
from halflife.engines.spark.sql import (
    LARGEST_DOUBLE,
    adds_sql,
    beyond_sql,
    bin_sql,
    class_of,
    clip_sql,
    floor_sql,
    fold_sql,
    literal,
    near_sql,
    parts_sql,
    person_sql,
    shifted,
    time_sql,
    units_sql,
    value_sql,
)
from halflife.engines.time_format import NEEDS_TEXT
from halflife.errors import InvalidInput

FEW = 1_000_000
"""A public table of at most so many lines is sent to every executor, which joins it without moving readings."""


# ------------------------------------------------------------------------------------------------------ rows as readings


def readings_sql(
    label: str, question: Question, names: Sequence[str], types: Sequence[str], *, near: bool = True
) -> str:
    """SQL of the readings; a column that is missing, or of a type that cannot be read, is refused.

    near  whether rows that lie in none of the asked steps, by their column of times as it is, are passed over
    """
    q = question
    cells = _wide_cells(label, q, names, types) if q.wide else _cells(label, q, names, types)
    at = names.index(q.time)
    kind = class_of(types[at])
    time = time_sql(kind, q)
    if time is None:
        rule = "a time is a timestamp, a date or text; for numbers say epoch: s, ms or us"
        rule = rule if q.epoch is None else f"epoch {q.epoch} needs numbers: leave it out for timestamps"
        raise _wrong(label, q.time, types[at], rule if q.time_format is None else NEEDS_TEXT)
    where = near_sql(f"c{at}", kind, q) if near else "true"
    clocked = f"SELECT p, g, x, {time[0]} AS t, {time[1]} AS absolute FROM ({cells} FROM {{source}} WHERE {where})"
    if q.wide:
        clocked = clocked.replace("SELECT p, g, x,", "SELECT cell.p AS p, CAST(NULL AS STRING) AS g, cell.x AS x,")
    return (
        f"SELECT p, g, absolute, CASE WHEN t BETWEEN -{LATEST}L AND {LATEST}L THEN t END AS t, "
        f"CASE WHEN abs(x) <= {LARGEST_DOUBLE} THEN x END AS x FROM ({clocked})"
    )


def _wrong(label: str, column: str, kind: str, rule: str) -> InvalidInput:
    return InvalidInput(f"{label}: column {column!r} is {kind}, but {rule}")


def _cells(label: str, question: Question, names: Sequence[str], types: Sequence[str]) -> str:
    """The columns that a question is about: person p, group g, value x, and the time's c."""
    q = question
    check_columns(label, [c for c in dict.fromkeys((q.person, q.time, q.value, q.group)) if c is not None], names)

    def read(column: str | None, how: Any, missing: str, rule: str) -> str:
        if column is None:
            return missing
        i = names.index(column)
        sql = how(f"c{i}", class_of(types[i]))
        if sql is None:
            raise _wrong(label, column, types[i], rule)
        return str(sql)

    person = read(q.person, person_sql, "", "a person is text or a whole number")
    group = read(q.group, person_sql, "CAST(NULL AS STRING)", "a group is text or a whole number")
    value = read(q.value, value_sql, "0.0D", "a value is a number or text")
    at = names.index(q.time)
    return f"SELECT {person} AS p, {group} AS g, {value} AS x, {parts_sql(f'c{at}', class_of(types[at]), q)} AS c"


def _wide_cells(label: str, question: Question, names: Sequence[str], types: Sequence[str]) -> str:
    """The cells of a table in which every column but the time is a person's; their names are in no error."""
    q = question
    people, at = people_of_columns(label, q.time, names), names.index(q.time)
    values = [value_sql(f"c{i}", class_of(kind)) for i, kind in enumerate(types) if i != at]
    if wrong := sum(value is None for value in values):
        raise InvalidInput(
            f"{label}: {wrong} of {len(people)} columns beside {q.time!r} hold no numbers: leave them out"
        )
    each = ", ".join(f"struct({literal(p)} AS p, {x} AS x)" for p, x in zip(people, values, strict=True))
    return f"SELECT explode(array({each})) AS cell, {parts_sql(f'c{at}', class_of(types[at]), q)} AS c"


# ------------------------------------------------------------------------------------------------- readings as entries


def told_sql(question: Question) -> str:
    """Readings with the moment us, how long since the first asked step began, who and where they count, and why they do not."""
    q = question
    end = q.shape[0] * q.buckets.width
    reasons = [
        "us IS NULL THEN 1", f"since < 0L THEN {BEFORE}", f"since >= {end}L THEN {AFTER}", "coalesce(p, '') = '' THEN 2",
        "x IS NULL THEN 3",
    ]  # fmt: skip
    columns, joins, hint = ["r.*"], "", ""
    if q.lists_people:
        columns, joins = (
            [*columns, "people.i", "people.g AS home", "people.w"],
            " LEFT JOIN {people} people ON r.p = people.name",
        )
        reasons.append("i IS NULL THEN 4")
        listed = max(len(table) for table in (q.table, q.weights, q.units) if table is not None)
        hint = "/*+ BROADCAST(people) */ " if listed <= FEW else ""
    if q.group is not None and q.table is None:
        columns, joins = [*columns, "names.g AS place"], joins + " LEFT JOIN {names} names ON r.g = names.name"
        reasons.append("place IS NULL THEN 5")
    us = f"CASE WHEN absolute THEN t ELSE {shifted('t', q.local)} END"
    since = shifted("us", q.buckets.pieces, (q.first - 1) * q.buckets.width)
    placed = f"SELECT *, {since} AS since FROM (SELECT *, {us} AS us FROM readings)"
    whens = " ".join(f"WHEN {reason}" for reason in reasons)
    return f"SELECT *, CASE {whens} ELSE 0 END AS why FROM (SELECT {hint}{', '.join(columns)} FROM ({placed}) r{joins})"


def good_sql(question: Question) -> str:
    """Of good rows who p (with the id, if a person may have several), step k, moment us, group g, weight w and units u."""
    q = question
    u, y = "0L", units_sql(q)
    if q.value is not None:
        u = floor_sql(y, bounds_before_fold(q))
    columns = {
        "p": "i" if q.lists_people else "p",
        **({"id": "p"} if q.units is not None else {}),
        "k": f"since DIV {q.buckets.width}L",
        "us": "us",
        "g": "home" if q.table is not None else "place" if q.group is not None else "0L",
        "w": "w" if q.lists_people else "1L",
        "u": u,
        "beyond": "0L" if q.value is None else f"CAST({beyond_sql(y, (q.least, q.most))} AS BIGINT)",
    }
    listed = ", ".join(f"CASE WHEN why = 0 THEN {sql} END AS {column}" for column, sql in columns.items())
    return f"SELECT why, {listed}, 1L AS c FROM told WHERE why NOT IN ({BEFORE}, {AFTER})"


def moments_sql(question: Question) -> str:
    """Good readings, the largest of each id, moment and group; all of them if each counts.

    All readings of a person and step are brought together first: then no later grouping moves them again, a third of the time.
    """
    if not question.once:
        return "SELECT * FROM good"
    keys = "why, p, k, us, g, w" + (", id" if question.units is not None else "")
    together = "SELECT * FROM good DISTRIBUTE BY why, p, k"
    return f"SELECT {keys}, max(u) AS u, sum(c) AS c, sum(beyond) AS beyond FROM ({together}) GROUP BY {keys}"


def entries_sql(question: Question) -> str:
    """(person, step, group) entries, each with its fold f and its place among the groups of the same person and step."""
    q = question
    adding, split, f = fold_sql(q)
    keys = "why, p, k, g, w"
    grouped = f"SELECT {keys}{adding}, sum(c) AS c, count(*) AS m, sum(beyond) AS beyond FROM moments GROUP BY {keys}"
    sql = f"SELECT *, {f} AS f FROM (SELECT *{split} FROM ({grouped}))"
    if chooses_groups(q):
        return f"SELECT *, row_number() OVER (PARTITION BY why, p, k ORDER BY g) AS chosen FROM ({sql})"
    return f"SELECT *, 1 AS chosen FROM ({sql})"


def chooses_groups(question: Question) -> bool:
    """Whether a person may have entries beyond those that count."""
    q = question
    return q.group is not None and q.table is None and q.most_groups < len(q.groups)


def kept_sql(question: Question) -> str:
    """The condition on entries that count."""
    return f"why = 0 AND chosen <= {question.most_groups}" if chooses_groups(question) else "why = 0"


def steps_sql(question: Question, readings: str) -> str:
    """WITH readings, told, good, moments and entries."""
    q = question
    parts = {
        "readings": readings, "told": told_sql(q), "good": good_sql(q), "moments": moments_sql(q), "entries": entries_sql(q),
    }  # fmt: skip
    return "WITH " + ", ".join(f"{part} AS ({sql})" for part, sql in parts.items())


# -------------------------------------------------------------------------------------------------- entries as totals


def totals_sql(question: Question) -> str:
    """What leaves the cluster: of each step, group and bin its total; and one row of tallies, whose `level` is not 0."""
    q = question
    kept = kept_sql(q)
    bounded = f"SELECT *, {clip_sql('f', q.low, q.high)} AS v FROM entries"
    clipped = "0L" if q.kind == "count" else f"count_if({kept} AND f <> v)"
    cells = (
        f"SELECT why, k, g, b, {adds_sql(q, kept)} AS total, sum(c) AS c, sum(m) AS m, sum(beyond) AS beyond, "
        f"{clipped} AS clipped, count_if(why = 0 AND NOT ({kept})) AS left_out "
        f"FROM (SELECT *, {bin_sql(q)} AS b FROM ({bounded})) GROUP BY why, k, g, b"
    )
    told = {reason: f"CASE WHEN why = {why} THEN c END" for why, reason in enumerate(REASONS) if why}
    told |= {"rows": "c", "clipped_readings": "beyond", "clipped": "clipped", "too_many_groups": "left_out"}
    told["duplicates"] = "CASE WHEN why = 0 THEN c - m END" if q.once else "0L"
    level = "grouping_id(k, g, b)"
    tallies = ", ".join(
        f"CASE WHEN {level} <> 0 THEN coalesce(sum({told[tally]}), 0L) END AS {tally}" for tally in TALLIES
    )
    return (
        f"SELECT * FROM (SELECT {level} AS level, k, g, b, CASE WHEN {level} = 0 THEN max(total) END AS total, {tallies} "
        f"FROM ({cells}) GROUP BY GROUPING SETS ((k, g, b), ())) WHERE level <> 0 OR (k IS NOT NULL AND b IS NOT NULL)"
    )
