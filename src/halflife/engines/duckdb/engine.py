"""The embedded engine: DuckDB over Parquet, CSV, DuckDB and SQLite files and Arrow tables.

A question becomes at most six statements over `readings`, whose columns are

    p, named     the person, and whether there is one            x, finite    the value, and whether it is a finite number
    t, absolute  µs since 1970, and whether of UTC's clock or a local one            g    the group's name

    tallies    why each row of the asked steps is bad, and how many good ones are clipped: cheap scans
    repeaters  who has two readings in some step: a bit for each person and step
    bounded    the readings of all others, and those of repeaters grouped by (person, step[, group]), which is the costly part
               → one whole number each, clipped; then add up. Both slice by slice, where there are many people and steps
    once       the same over the largest reading of each moment; only if some person has two readings in a step
    moments    how many moments there are, if only the tally of duplicates needs them

DuckDB spills beyond its memory limit; person and step stay the keys themselves, so no two people can ever be merged. How a
source is opened and read is in `engines/source.py`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from halflife.engines.base import (
    LARGEST_TOTAL,
    LATEST,
    ONCE_MATTERS,
    REASONS,
    TALLIES,
    Answer,
    Question,
    bounds_before_fold,
    bounds_of_times,
    empty_answer,
    most_added,
)
from halflife.engines.columns import check_columns, people_of_columns
from halflife.engines.duckdb import slices
from halflife.engines.duckdb.files import Delimiter, Format, check_headerless, check_table, find_files, find_format
from halflife.engines.duckdb.inspection import (
    AFTER,
    BEFORE,
    between_steps_sql,
    people_sql,
    placed_sql,
    scan_sql,
    steps_sql,
    wide_bounds,
)
from halflife.engines.duckdb.slices import Slice
from halflife.engines.duckdb.source import DuckSource, Part, label_of
from halflife.engines.duckdb.sql import (
    adds_sql,
    bin_sql,
    class_of,
    clip,
    fold_sql,
    literal,
    name,
    one_sql,
    person_sql,
    shifted,
    time_sql,
    units,
    value_sql,
)
from halflife.engines.inspection import CELLS, TOO_LARGE, Inspection
from halflife.engines.lists import public_tables
from halflife.engines.time_format import NEEDS_TEXT
from halflife.errors import InvalidInput, unknown

NEAR = 2**24
"""Sums of readings within ±NEAR units are added up quickly: whole doubles hold 2²⁸ of them exactly."""
_NUMBERS = itertools.count()
TIMELESS = f"t IS NULL OR t NOT BETWEEN -{LATEST} AND {LATEST}"


class DuckEngine(DuckSource):
    """One source, and its answers. See `halflife.engines.base.Engine`."""

    def check(self, question: Question) -> None:
        """Refuse columns that are missing, or of a type that cannot be read; no cell is looked at."""
        self._reads(question)

    def aggregate(self, question: Question) -> Answer:
        """Answer a question."""
        return self._read(lambda: self._answer(question))

    def find_extent(self, question: Question) -> tuple[int, int] | None:
        """Return the earliest and the latest moment of any reading, by its own clock, in µs; None if no reading has one.

        Every column that is asked for is read to its end, so that whatever cannot be read is noticed.
        """
        return self._read(lambda: self._find_extent(question))

    def _find_extent(self, question: Question) -> tuple[int, int] | None:
        readings, _ = self._readings(question)
        timed = f"FILTER (NOT ({TIMELESS}))"
        row = self._run(f"SELECT min(t) {timed}, max(t) {timed}, count(COLUMNS(*)) FROM {readings}")[0]
        return None if row[0] is None else (row[0], row[1])

    def _answer(self, question: Question) -> Answer:
        for table, rows in public_tables(question).items():
            self._register(table, rows)
        self._stage = "reading", 0, 3
        self._readings(question)
        self._stage = "reading", 1, 3
        tallies, people, largest = self._tally(question)
        good = tallies["rows"] - sum(tallies[reason] for reason in REASONS[1:])
        whole, sums = Slice(question, people), empty_answer(question)
        parts = [*whole.stretches(slices.MOST_BITS // max(1, min(people, slices.MOST_PEOPLE)))]
        for i, part in enumerate(parts):
            self._stage = "reading", 2 * len(parts) + i, 3 * len(parts)
            for tally, count in self._add_up(part, good, whole, largest, sums):
                tallies[tally] += count
        self._stage = "read", 1, 1
        return Answer(sums, {tally: tallies[tally] for tally in TALLIES})

    def _add_up(self, part: Slice, good: int, whole: Slice, largest: int, sums: Any) -> Iterator[tuple[str, int]]:
        """Add what the readings of some steps come to, to the sums of all; yield tallies of what does not count or was clipped.

        good  how many good readings there are in all steps;  largest  a number that none of them exceeds
        """
        crowded = good > 1.2 * whole.people * whole.steps  # far more readings than (person, step) pairs, by an estimate
        repeaters = None if crowded else self._find_repeaters(part)
        grouped = part.people if repeaters is None or (repeaters and _chooses_groups(part.question)) else repeaters
        if grouped * part.steps <= slices.MOST_PAIRS:
            yield from self._add_slice(part, good, whole, largest, repeaters, sums)
            return
        fits = (
            good * most_added(part.question) < LARGEST_TOTAL
        )  # else shares of the people do not add up as all of them do
        for share in part.shares(slices.MOST_PEOPLE if fits else part.people):
            for smaller in share.stretches(slices.MOST_PAIRS // share.people):
                yield from self._add_slice(smaller, good, whole, largest, repeaters, sums)

    def _add_slice(
        self, part: Slice, good: int, whole: Slice, largest: int, repeaters: int | None, sums: Any
    ) -> Iterator[tuple[str, int]]:
        """Do so for a slice, of which the readings of `repeaters` are grouped, or all of them if there are too many to say."""
        q = part.question
        once = q.once and good > 0 and repeaters != 0
        every = q.fold in ONCE_MATTERS and q.kind != "count"
        mine = good if part == whole or not once else self._run(f"SELECT count(*) FROM ({self._good(part)})")[0][0]
        if once and every:
            added, found = self._bounded(part, good, largest, repeaters, once=True)
        else:
            added, found = self._bounded(part, good, largest, repeaters, once=False)
            if once and found["entries"] < mine:  # some person has two readings in a step, perhaps at one moment
                found["moments"] = self._run(f"SELECT count(*) FROM ({self._moments(q, self._good(part))})")[0][0]
            elif once:
                found["moments"] = mine
        of_part = part.part_of(whole, sums)
        of_part += added
        yield "duplicates", mine - found["moments"] if once else 0
        yield "clipped", found.get("clipped", 0)
        yield "too_many_groups", found["entries"] - found.get("kept", found["entries"])

    def _readings(self, question: Question) -> tuple[str, int]:
        """What stands after FROM to get the readings; and how many rows were too broken to get there."""
        q = question
        key = (q.person, q.time, q.epoch, q.time_format, q.value, q.group, str(q.wide))
        if key in self._parsed:
            return self._parsed[key]
        parts = self._reads(q)
        if not self._parse_once and not (q.wide and len(parts) > 1):
            return f"({' UNION ALL BY NAME '.join(parts)})", 0
        table = self._scratch(f"readings_{len(self._parsed)}", *parts)
        self._parsed[key] = table, self._rejected()
        return self._parsed[key]

    def _asked(self, question: Question) -> list[str]:
        """The columns that a question about a long table names; one that is not there, or twice, is refused."""
        q = question
        columns = [c for c in dict.fromkeys((q.person, q.time, q.value, q.group)) if c is not None]
        check_columns(self._label, columns, self._names)
        return columns

    def _reads(self, question: Question) -> list[str]:
        """SQL of the readings of each part; a column of a type that cannot be read is refused, and no cell is looked at."""
        q = question
        if q.wide:
            return [
                _read_wide_sql(q, part, people_of_columns(part.label, q.time, part.names)) for part in self._parts(None)
            ]
        parts = self._parts(self._asked(q))
        return [_read_sql(q, part, as_text=len(parts) > 1) for part in parts]

    def _rejected(self) -> int:
        """Count the lines that DuckDB could not even take as text, and forget them."""
        if not self._keeps_rejects:
            return 0
        lines = self._run("SELECT count(*) FROM (SELECT DISTINCT scan_id, file_id, line FROM reject_errors)")
        count = int(lines[0][0])
        self._run("DELETE FROM reject_errors")
        return count

    def _rows(self, question: Question) -> str:
        """Rows of the asked steps: the moment us, and the step k counted from 0, beside p, named, x, finite and g.

        A first filter on t keeps what may lie in the steps, so that no later sum can leave 64 bits.
        """
        q = question
        readings, _ = self._readings(q)
        width, moves = q.buckets.width, [abs(a) for _, a in q.local]
        earliest, latest = bounds_of_times(q)
        us = f"CASE WHEN absolute THEN t ELSE {shifted('t', q.local)} END" if any(moves) else "t"
        since = shifted("us", q.buckets.pieces, (q.first - 1) * width)
        return (
            f"(SELECT *, since // {width} AS k FROM (SELECT *, {since} AS since FROM (SELECT *, {us} AS us "
            f"FROM {readings} WHERE t BETWEEN {earliest} AND {latest})) WHERE since >= 0 AND since < {q.shape[0] * width})"
        )

    def _tally(self, question: Question) -> tuple[dict[str, int], int, int]:
        """The tallies of rows; how many people there are at least; and a number that no |u| of a good reading exceeds."""
        q = question
        bounds = q.least, q.most
        near = max(q.least, -NEAR), min(q.most, NEAR)
        counts = self._count_rows(q, near)
        if near != bounds and counts.get(0, (0, 0, 0))[2]:
            near, counts = bounds, self._count_rows(q, bounds)
        readings, broken = self._readings(q)
        timeless = broken + self._run(f"SELECT count(*) FROM {readings} WHERE {TIMELESS}")[0][0]
        tallies = dict.fromkeys(TALLIES, 0) | {REASONS[why]: n for why, (n, _, _) in counts.items() if why}
        tallies |= {"rows": timeless + sum(n for n, _, _ in counts.values()), "bad_time": timeless}
        _, people, tallies["clipped_readings"] = counts.get(0, (0, 0, 0))
        return tallies, people, max(map(abs, near))

    def _reasons(self, question: Question) -> tuple[str, str]:
        """SQL of why a row of the asked steps is bad, by number as in REASONS; and of the joins that it needs."""
        q = question
        reasons, joins = ["WHEN named IS NOT TRUE THEN 2"], ""
        if q.value is not None:
            reasons.append("WHEN finite IS NOT TRUE THEN 3")
        if q.lists_people:
            joins += " LEFT JOIN people ON r.p::VARCHAR = people.name"
            reasons.append("WHEN people.i IS NULL THEN 4")
        if q.table is None and q.group is not None:
            joins += " LEFT JOIN names ON r.g = names.name"
            reasons.append("WHEN names.g IS NULL THEN 5")
        return " ".join(reasons), joins

    def _count_rows(self, question: Question, bounds: tuple[int, int]) -> dict[int, tuple[int, int, int]]:
        """By why they are bad, as in REASONS: how many rows and people there are, and how many rows lie outside these bounds."""
        q = question
        reasons, joins = self._reasons(q)
        beyond = "false" if q.value is None else f"{units(q)} NOT BETWEEN {bounds[0]}::DOUBLE AND {bounds[1]}::DOUBLE"
        counts = self._run(
            f"SELECT why, count(*), approx_count_distinct(p), count_if(beyond) FROM (SELECT p, {beyond} AS beyond, "
            f"CASE {reasons} ELSE 0 END::TINYINT AS why FROM {self._rows(q)} r{joins}) GROUP BY why"
        )
        return {why: (n, people, outside) for why, n, people, outside in counts}

    def _good(self, part: Slice) -> str:
        """Good readings: person p (its number if there is a public table), step k, moment us, units u, group g; and the id, if a
        person may have several."""
        q = part.question
        person, g, joins = "r.p", "", ""
        if q.lists_people:
            person, joins = "people.i", " JOIN people ON r.p::VARCHAR = people.name"
        p = f"{person} AS p" + (", people.name AS id" if q.units is not None else "")
        if q.table is None and q.group is not None:
            g, joins = ", names.g", joins + " JOIN names ON r.g = names.name"
        u = "" if q.value is None else f", {clip(units(q), bounds_before_fold(q), 'DOUBLE')} AS u"
        return f"SELECT {p}, k, us{u}{g} FROM {self._rows(q)} r{joins} WHERE named AND finite{part.condition(person)}"

    def _find_repeaters(self, part: Slice) -> int | None:
        """Write a table of those who have two good readings in some step, and return how many they are; None if they are too many
        to be told from the others.

        A person has as many readings as steps with one, or more: then two lie in one step. That is exact.
        """
        steps = f"bitstring_agg(k, 0::BIGINT, {part.steps - 1}::BIGINT)"
        for share in part.shares(slices.MOST_PEOPLE):
            begin = "INSERT INTO repeaters" if share.rest else "CREATE OR REPLACE TEMP TABLE repeaters AS"
            self._run(f"{begin} SELECT p FROM ({self._good(share)}) GROUP BY p HAVING bit_count({steps}) < count(*)")
        found: int = self._run("SELECT count(*) FROM repeaters")[0][0]
        return found if 2 * found <= part.people and found <= slices.MOST_PEOPLE else None

    def _moments(self, question: Question, good: str) -> str:
        """Good readings, the largest of each id, moment and group."""
        g = ", g" if question.table is None and question.group is not None else ""
        g += ", id" if question.units is not None else ""
        u = "" if question.value is None else ", max(u) AS u"
        return f"SELECT p, us, any_value(k) AS k{g}{u}, count(*) AS c FROM ({good}) GROUP BY p, us{g}"

    def _entries(
        self, part: Slice, readings: int, largest: int, repeaters: int | None = None, *, once: bool
    ) -> tuple[str, str]:
        """SQL of (person, step, group) entries, folded to f and clipped to v; and of the filter on those that count.

        repeaters  how many people have two readings in a step, if they were found: those of all others need no grouping
        """
        q = part.question
        g = ", g" if q.table is None and q.group is not None else ""
        good, c = self._good(part), ", c" if once else ""
        alone = f"SELECT p, k{g}{', 1 AS c' if once else ''}, {one_sql(q)} AS f FROM ({good})"
        if repeaters is not None:
            good = f"SELECT * FROM ({good}) SEMI JOIN repeaters USING (p)"
        fold, folded = fold_sql(q, readings, largest)
        rows = (
            f"SELECT p, k{g}{fold}{', count(*) AS c' if once else ''} FROM ({self._moments(q, good) if once else good})"
        )
        sql = f"SELECT p, k{g}{c}, {folded} AS f FROM ({rows} GROUP BY p, k{g})"
        if repeaters is not None:
            sql = f"{alone} ANTI JOIN repeaters USING (p) UNION ALL {sql}" if repeaters else alone
        if q.kind != "count":
            sql = f"SELECT *, {clip('f', (q.low, q.high), 'BIGINT')}::BIGINT AS v FROM ({sql})"
        kept = ""
        if _chooses_groups(q) and repeaters != 0:
            sql = f"SELECT *, row_number() OVER (PARTITION BY p, k ORDER BY g) AS place FROM ({sql})"
            kept = f" FILTER (place <= {q.most_groups})"
        if q.lists_people:
            people = "people" if q.units is None else "(SELECT DISTINCT i, g, w FROM people)"
            sql = f"SELECT e.*, w{'' if g else ', people.g'} FROM ({sql}) e JOIN {people} people ON e.p = people.i"
        return sql, kept

    def _bounded(
        self, part: Slice, readings: int, largest: int, repeaters: int | None, *, once: bool
    ) -> tuple[Any, dict[str, int]]:
        """The answer; and how many (person, step, group) entries there were, how many of them kept and clipped, of how many
        moments."""
        q = part.question
        grouped = q.group is not None or q.table is not None
        sql, kept = self._entries(part, readings, largest, repeaters, once=once)
        columns = {
            "k": "k",
            "total": adds_sql(q, kept),
            "entries": "count(*)",
            **({"g": "g"} if grouped else {}),
            **({"b": f"coalesce({bin_sql(q)}, -1)"} if q.kind == "histogram" else {}),
            **({"kept": f"count(*){kept}"} if kept else {}),
            **({"clipped": f"count_if(f <> v){kept}"} if q.kind != "count" else {}),
            **({"moments": "sum(c)::BIGINT"} if once else {}),
        }
        keys = ", ".join(key for key in ("k", "g", "b") if key in columns)
        listed = ", ".join(f"{sql_} AS {column}" for column, sql_ in columns.items())
        found = self._run(f"SELECT {listed} FROM ({sql}) GROUP BY {keys}", arrays=True)
        sums, everywhere = empty_answer(q), found["k"] >= 0
        inside = found["b"] >= 0 if "b" in columns else everywhere
        place = tuple(found[key][inside] if key in columns else 0 for key in ("k", "g", "b"))
        sums[place] = found["total"][inside]
        counted = [column for column in ("entries", "kept", "clipped", "moments") if column in columns]
        return sums, {column: int(found[column].sum()) for column in counted}

    # What the operator looks at, and nobody publishes ------------------------------------------------------------------

    def inspect(self, question: Question) -> Inspection:
        """Return what the whole source holds beside what the question says of it."""
        return self._read(lambda: self._inspect(question))

    def _inspect(self, question: Question) -> Inspection:
        q = question
        for table, rows in public_tables(q).items():
            self._register(table, rows)
        self._stage = "reading", 0, 5
        readings, broken = self._readings(q)
        self._stage = "telling good rows from bad", 1, 5
        found = {row[0]: row[1:] for row in self._run(scan_sql(q, placed_sql(q, readings), *self._reasons(q), NEAR))}
        counts = {why: row[0] for why, row in found.items()}
        before, after = counts.pop(BEFORE, 0), counts.pop(AFTER, 0)
        tallies = dict.fromkeys(TALLIES, 0) | {REASONS[why]: n for why, n in counts.items() if why}
        tallies |= {"rows": sum(counts.values()) + broken, "bad_time": tallies["bad_time"] + broken}
        timed = [row for why, row in found.items() if why != 1]
        seen: dict[str, Any] = {
            "rows": tallies["rows"] + before + after,
            "before": before,
            "after": after,
            "earliest": min((row[5] for row in timed), default=None),
            "latest": max((row[6] for row in timed), default=None),
            "totals": np.zeros(q.shape[1:]),
        }
        if counts.get(0):
            good, low, high, far, vanished, _, _, typical = found[0]
            self._stage = "counting people", 2, 5
            people, spacing = self._run(people_sql(self._good(Slice(q, 0))))[0]
            tallies["clipped_readings"] = low + high
            seen |= {"low_readings": low, "high_readings": high, "vanished": vanished}
            seen |= {"people": people, "spacing": spacing, "typical": None if q.value is None else tuple(typical)}
            seen |= self._inspect_entries(q, tallies, good, max(abs(q.least), abs(q.most)) if far else NEAR)
        return Inspection(**seen, tallies=tallies)

    def _inspect_entries(self, question: Question, tallies: dict[str, int], good: int, largest: int) -> dict[str, Any]:
        """What (person, step, group) entries come to; their tallies are filled in. Steps are counted on disk, not in memory."""
        q, wide = question, replace(question, low=wide_bounds(question)[0], high=wide_bounds(question)[1])
        g = "g" if q.group is not None or q.table is not None else "0"

        def build(once: bool) -> tuple[str, dict[str, Any]]:
            sql, kept = self._entries(Slice(wide, 0), good, largest, once=once)
            table = self._scratch(f"steps_{next(_NUMBERS)}", steps_sql(q, sql, g, kept, once=once))
            columns = self._run(f"SELECT * EXCLUDE (k, g, b, total) FROM {table} LIMIT 0", arrays=True)
            sums = ", ".join(f"sum({column})::BIGINT" for column in columns)
            return table, dict(zip(columns, self._run(f"SELECT {sums} FROM {table}")[0], strict=True))

        self._stage = "adding up", 3, 5
        tables = [build(False)]
        moments = good
        if q.once and tables[0][1]["entries"] < good:  # some person has two readings in a step, perhaps at one moment
            self._stage = "telling duplicates", 4, 5
            tables.append(build(True))
            moments = tables[-1][1]["moments"]
        table, total = tables[-1]
        tallies["duplicates"] = good - moments
        tallies["clipped"] = total.get("low", 0) + total.get("high", 0)
        tallies["too_many_groups"] = total["entries"] - total["kept"]
        steps, first, last, gap = self._run(between_steps_sql(table))[0]
        cells = self._run(f"SELECT g, b, sum(total) AS total FROM {table} WHERE b >= 0 GROUP BY g, b", arrays=True)
        totals = np.zeros(q.shape[1:])
        totals[cells["g"].astype(int), cells["b"].astype(int)] = cells["total"]
        for built, _ in tables:
            self._run(f"DROP TABLE {built}")
        named = {column: total.get(column, 0) for column in ("low", "high", "zeros", "grown")}
        return {
            **named, "entries": total["kept"], "shrunk": {n: total.get(f"by{n}", 0) for n in TOO_LARGE},
            "steps": steps, "first": first + q.first, "last": last + q.first, "gap": gap, "totals": totals,
        }  # fmt: skip

    def bad_cells(self, question: Question, which: Literal["time", "value"]) -> list[str | None]:
        """Return some cells of text that are no time or no value, as they stand; whoever asks shows their shapes at most."""
        column = question.time if which == "time" else None if question.wide else question.value
        return [] if column is None else self._read(lambda: self._bad_cells(question, column, which))

    def _bad_cells(self, question: Question, column: str, which: str) -> list[str | None]:
        value = None if which == "time" else question.value
        asked = replace(
            question, person=column, value=value, group=None, wide=False
        )  # the column's text, beside what it is read as
        columns = list(dict.fromkeys(c for c in (column, asked.time, value) if c is not None))
        check_columns(self._label, columns, self._names)
        bad = TIMELESS if which == "time" else "finite IS NOT TRUE"
        parts = [part for part in self._parts(columns) if class_of(part.types[column]) == "text"]
        cells: list[str | None] = []
        for part in parts:  # a sample from all over the source: the first rows may all be of one day
            read = f"SELECT p FROM ({_read_sql(asked, part, as_text=True)}) WHERE {bad}"
            sample = f"SELECT p FROM ({read}) USING SAMPLE reservoir({-(-CELLS // len(parts))} ROWS) REPEATABLE (1)"
            cells += [row[0] for row in self._run(sample)]
        self._rejected()
        return cells

    def typical_number(self, column: str) -> float | None:
        """Return about the middle of a column of numbers; None if it is of another type, or empty."""
        return self._read(lambda: self._typical_number(column))

    def _typical_number(self, column: str) -> float | None:
        check_columns(self._label, [column], self._names)
        if class_of(self._types[column]) not in ("integer", "float"):
            return None
        parts = [f"SELECT {name(p.identifiers[column])}::DOUBLE AS x FROM {p.source}" for p in self._parts([column])]
        found = self._run(f"SELECT approx_quantile(x, 0.5) FROM ({' UNION ALL '.join(parts)}) WHERE isfinite(x)")
        return None if found[0][0] is None else float(found[0][0])


def _chooses_groups(question: Question) -> bool:
    """Whether a person may have readings in more groups of a step than count: one with a single reading has not."""
    q = question
    return q.table is None and q.group is not None and q.most_groups < len(q.groups)


def _read_sql(question: Question, part: Part, *, as_text: bool) -> str:
    """SQL of a part's readings; persons as text where there are parts of other types, so that 7, 7.0 and '7' are one."""
    q, kind = question, {column: class_of(found) for column, found in part.types.items()}

    def wrong(column: str, rule: str) -> InvalidInput:
        return InvalidInput(f"{part.label}: column {column!r} is {part.types[column]}, but {rule}")

    called = {column: name(identifier) for column, identifier in part.identifiers.items()}
    person = person_sql(called[q.person], kind[q.person])
    time = time_sql(called[q.time], kind[q.time], q.epoch, q.time_format)
    value = "NULL" if q.value is None else value_sql(called[q.value], kind[q.value])
    group = "NULL" if q.group is None else person_sql(called[q.group], kind[q.group])
    if person is None:
        raise wrong(q.person, "a person is text or a whole number")
    if time is None and q.time_format is not None:
        raise wrong(q.time, NEEDS_TEXT)
    if time is None and q.epoch is None:
        raise wrong(q.time, "a time is a timestamp, a date or text; for numbers say epoch: s, ms or us")
    if time is None:
        raise wrong(q.time, f"epoch {q.epoch} needs numbers: leave it out for timestamps")
    if value is None:
        raise wrong(str(q.value), "a value is a number or text")
    if group is None:
        raise wrong(str(q.group), "a group is text or a whole number")
    person = f"({person})::VARCHAR" if as_text else person
    named = "p <> ''" if as_text or kind[q.person] == "text" else "p IS NOT NULL"
    finite = "true" if q.value is None else "isfinite(x)"
    return (
        f"SELECT *, {named} AS named, {finite} AS finite FROM (SELECT {person} AS p, {time[0]} AS t, "
        f"{time[1]} AS absolute, {value} AS x, {group}::VARCHAR AS g FROM {part.source})"
    )


def _read_wide_sql(question: Question, part: Part, people: Sequence[str]) -> str:
    """SQL of the readings of a part in which every column but the time is a person's; their names are in no error."""
    q, kind = question, {column: class_of(found) for column, found in part.types.items()}
    called = {column: name(identifier) for column, identifier in part.identifiers.items()}
    time = time_sql(called[q.time], kind[q.time], q.epoch, q.time_format)
    if time is None:
        raise InvalidInput(
            f"{part.label}: column {q.time!r} is {part.types[q.time]}, and no time: check epoch and time_format"
        )
    as_text = all(
        kind[person] == "text" for person in people
    )  # a plan that reads text column by column takes long to make
    values = [f"{called[p]}::VARCHAR" if as_text else value_sql(called[p], kind[p]) for p in people]
    wrong = sum(value is None for value in values)
    if wrong:
        raise InvalidInput(
            f"{part.label}: {wrong} of {len(people)} columns beside {q.time!r} hold no numbers: leave them out"
        )
    names, cells = ", ".join(map(literal, people)), ", ".join(str(value) for value in values)
    x = value_sql("x", "text") if as_text else "x"
    return (
        f"SELECT *, p <> '' AS named, isfinite(x) AS finite FROM (SELECT * REPLACE ({x} AS x) FROM (SELECT t, absolute, "
        f"unnest(p) AS p, unnest(x) AS x, NULL::VARCHAR AS g FROM (SELECT {time[0]} AS t, {time[1]} AS absolute, "
        f"[{names}] AS p, [{cells}] AS x FROM {part.source})))"
    )


def open_files(
    paths: Sequence[str | Path],
    format: Format | None = None,
    table: str | None = None,
    *,
    columns: Sequence[str] | None = None,
    delimiter: Delimiter | None = None,
    scratch: Path | None = None,
) -> DuckEngine:
    """Open files, or a table of a database file; patterns such as `2013/*.parquet` are expanded.

    columns, delimiter  the names of the columns of CSV files without a header; and what stands between fields, a comma
    """
    files = find_files(paths)
    kind = find_format(files) if format is None else format
    openers = {
        "parquet": lambda engine: engine.open_parquet(files),
        "csv": lambda engine: engine.open_csv(files, columns, delimiter),
        "duckdb": lambda engine: engine.open_duckdb(files, table),
        "sqlite": lambda engine: engine.open_sqlite(files, table),
    }
    if kind not in openers:
        raise unknown("format", kind, openers)
    check_table(kind, table)
    check_headerless(kind, columns, delimiter)
    return _opened(DuckEngine(label_of(files), scratch), openers[kind])


def open_arrow(
    table: object, *, scratch: Path | None = None, threads: int | None = None, label: str = "the Arrow table"
) -> DuckEngine:
    """Open an Arrow table, or anything that streams Arrow batches (`__arrow_c_stream__`), which errors call by a label."""
    return _opened(DuckEngine(label, scratch, threads), lambda engine: engine.open_arrow(table))


def _opened(engine: DuckEngine, how: Callable[[DuckEngine], None]) -> DuckEngine:
    try:
        how(engine)
    except BaseException:
        engine.close()
        raise
    return engine
