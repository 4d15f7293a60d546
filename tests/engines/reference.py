"""The specification of `halflife.engines.base` in plain Python: loops, dicts, whole numbers. No engine's code is used."""

from __future__ import annotations

import datetime
import math
import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from halflife.engines.base import TALLIES, Question

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
MICROSECOND = datetime.timedelta(microseconds=1)
SCALES = {"s": 10**6, "ms": 10**3, "us": 1}
NUMBER = re.compile(r"[ \t]*[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?[ \t]*", re.ASCII)
TIME = re.compile(r"(\d{4}-\d\d-\d\d)([ T](\d\d:\d\d)(:\d\d)?(\.\d{1,9})?(Z|[+-]\d\d(:?\d\d)?)?)?", re.ASCII)


def number(cell: Any) -> float | None:
    """A finite number, or None."""
    if isinstance(cell, str):
        cell = float(cell) if NUMBER.fullmatch(cell) else None
    return float(cell) if cell is not None and math.isfinite(cell) else None


def label(cell: Any) -> str | None:
    """A person or group as text, or None."""
    if isinstance(cell, float):
        cell = int(cell) if math.isfinite(cell) and cell.is_integer() else None
    return None if cell is None or cell == "" else str(cell)


def _read(text: str) -> datetime.datetime | None:
    found = TIME.fullmatch(text)
    if found is None or (found[5] and not found[4]):
        return None
    day, _, clock, seconds, fraction, offset, _ = found.groups()
    minutes = datetime.timedelta(0)
    if offset and offset != "Z":
        digits = offset[1:].replace(":", "").ljust(4, "0")
        if int(digits[:2]) > 23 or int(digits[2:]) > 59:
            return None
        minutes = datetime.timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
        minutes = -minutes if offset[0] == "-" else minutes
    try:
        moment = datetime.datetime.fromisoformat(f"{day}T{clock or '00:00'}{seconds or ':00'}")
    except ValueError:
        return None
    moment = moment.replace(microsecond=int((fraction or ".0")[1:7].ljust(6, "0")))
    return moment if offset is None else moment.replace(tzinfo=datetime.timezone(minutes))


def _written(text: str, form: str) -> datetime.datetime | None:
    """Text in a format as Python reads it, without what it lets pass: blanks, digits of other scripts, fewer digits, Z."""
    if not text.isascii() or text != " ".join(text.split()) or ("%Y%m" in form and len(text) != 12):
        return None
    if "%z" in form:
        zone = re.search(r" [+-]\d\d(:?\d\d)? ", text)
        if zone is None or int(zone[0][2:4]) > 23:
            return None
        text = text if zone[1] else text.replace(zone[0], f"{zone[0][:-1]}00 ")
    try:
        return datetime.datetime.strptime(text, form)
    except ValueError:
        return None


def moment(cell: Any, question: Question) -> int | None:
    """µs since 1970 in UTC, or None."""
    us: int
    if question.epoch is not None:
        x = cell if isinstance(cell, int) else number(cell)
        us = 2**63 if x is None else math.floor(x * SCALES[question.epoch])
        return us if abs(us) <= 2**62 else None
    if isinstance(cell, str):
        cell = _read(cell) if question.time_format is None else _written(cell, question.time_format)
    if cell is None:
        return None
    if not isinstance(cell, datetime.datetime):
        cell = datetime.datetime(cell.year, cell.month, cell.day)
    if cell.tzinfo is not None:
        return (cell - EPOCH) // MICROSECOND
    us = (cell - EPOCH.replace(tzinfo=None)) // MICROSECOND
    return us + next((add for start, add in reversed(question.local) if us >= start), question.local[0][1])


def fold(readings: Sequence[tuple[int, int]], question: Question) -> int:
    """One number of a person's (moment, units) in a step."""
    units = [u for _, u in readings]
    match question.fold:
        case "sum":
            v = sum(units)
        case "mean":
            v = (2 * sum(units) + len(units)) // (2 * len(units))
        case "count":
            v = len(units)
        case "min":
            v = min(units)
        case "max":
            v = max(units)
        case "first":
            earliest = min(us for us, _ in readings)
            v = max(u for us, u in readings if us == earliest)
        case "last":
            latest = max(us for us, _ in readings)
            v = max(u for us, u in readings if us == latest)
    return v


def aggregate(
    rows: Sequence[dict[str, Any]], question: Question
) -> tuple[dict[tuple[int, int, int], int], dict[str, int]]:
    """The answer's entries that are not 0, and the tallies."""
    q = question
    tallies = dict.fromkeys(TALLIES, 0)
    entries: dict[tuple[str, int, int], list[tuple[int, int, str]]] = defaultdict(list)
    if q.wide:
        rows = [{q.time: row[q.time], q.person: p, q.value: x} for row in rows for p, x in row.items() if p != q.time]
    for row in rows:
        us = moment(row[q.time], q)
        if us is not None and not q.first <= q.buckets.step(us) <= q.last:
            continue
        tallies["rows"] += 1
        id_ = label(row[q.person])
        person = id_ if q.units is None or id_ is None else q.units.get(id_, "")
        x = 0.0 if q.value is None else number(row[q.value])
        group: int | None = 0
        if q.table is not None:
            group = q.table.get(person or "")
        elif q.group is not None:
            name = label(row[q.group])
            group = q.groups.index(name) if name in q.groups else None
        if us is None:
            tallies["bad_time"] += 1
        elif person is None:
            tallies["bad_person"] += 1
        elif x is None:
            tallies["bad_value"] += 1
        elif any(person not in known for known in (q.table, q.weights) if known is not None) or person == "":
            tallies["unknown_person"] += 1
        elif group is None:
            tallies["unknown_group"] += 1
        else:
            scaled = x * q.multiply / q.divide + 0.5
            u = math.floor(scaled) if math.isfinite(scaled) else int(math.copysign(10**30, scaled))
            tallies["clipped_readings"] += q.value is not None and not q.least <= u <= q.most
            entries[person, q.buckets.step(us) - q.first, group].append((us, min(max(u, q.least), q.most), id_ or ""))
    return _add_up(entries, q, tallies), tallies


def _add_up(
    entries: dict[tuple[str, int, int], list[tuple[int, int, str]]], q: Question, tallies: dict[str, int]
) -> dict[tuple[int, int, int], int]:
    sums: dict[tuple[int, int, int], int] = defaultdict(int)
    seen: dict[tuple[str, int], int] = defaultdict(int)
    for person, step, group in sorted(entries, key=lambda entry: entry[2]):
        readings = entries[person, step, group]
        if q.once:
            largest: dict[tuple[int, str], int] = {}
            for us, u, id_ in readings:
                largest[us, id_] = max(u, largest.get((us, id_), u))
            tallies["duplicates"] += len(readings) - len(largest)
            readings = [(us, u, id_) for (us, id_), u in largest.items()]
        seen[person, step] += 1
        if q.table is None and seen[person, step] > q.most_groups:
            tallies["too_many_groups"] += 1
            continue
        folded = fold([(us, u) for us, u, _ in readings], q)
        v = min(max(folded, q.low), q.high)
        tallies["clipped"] += q.kind != "count" and folded != v
        if q.kind == "sum":
            sums[step, group, 0] += (1 if q.weights is None else q.weights[person]) * (v - q.baseline)
        elif q.kind == "count":
            sums[step, group, 0] += 1
        elif q.edges[0] <= v <= q.edges[-1]:
            b = max(i for i, edge in enumerate(q.edges[:-1]) if edge <= v)
            sums[step, group, b] += 1
    sums = {
        place: min(max(total, -(2**62)), 2**62) for place, total in sums.items()
    }  # 1-Lipschitz: no sensitivity grows
    return {place: total for place, total in sums.items() if total}
