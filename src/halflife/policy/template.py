"""`halflife init`: a commented policy from a file's schema, and the JSON Schema for editors.

Only column names and types are looked at, never a value; what must be public knowledge is left blank, so that nobody
takes it from the data.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from halflife import registry
from halflife.engines.columns import MOST_SHOWN
from halflife.libpq import is_server
from halflife.numerics.forms import JsonObject
from halflife.policy.paths import matches
from halflife.policy.policy import Policy
from halflife.policy.promises import ADAPTERS

_PERSON = ("person", "household", "home", "meter", "user", "customer", "patient", "device", "lclid", "id")
_TIME = ("timestamp", "datetime", "time", "ts", "date", "hour", "interval_start", "start")
_NO_TIMES = ("DOUBLE", "FLOAT", "REAL", "DECIMAL", "BOOLEAN")
_VALUE = ("kwh", "wh", "kw", "value", "reading", "load", "amount", "power", "energy", "usage")

SCHEMA_FILE = "policy.schema.json"
"""What `halflife init` calls the JSON Schema that it writes beside a policy."""

TEMPLATE = """\
# What is published, and under which promise. Nothing here may come from the data itself: fill in the blanks from what is
# publicly known (delete the lines that you do not need), then run:  halflife publish {name}
# yaml-language-server: $schema={schema}
halflife: 1

population:
  id: {population}  # a name for the people whom this is about
  size:                       # how many people there are: public knowledge, never counted from the data
  person: {person}  # the column that identifies a person
  neighbours: replace-one     # what is hidden: which data a person has; or add-remove: whether they have any

promise:
  notion: w-event             # {notions}
  epsilon:                    # how much a person's risk may be: 1 is usual, smaller is safer
{promises}  # delta: 1e-6               # above 0: less noise, for a promise that may fail with this probability
  plan: tight

clock:
  step: 30 min                # or 1 h, 1 day, 1 month; the account counts these
  start:                      # when step 1 begins, such as 2026-01-01
  # end: 2027-01-01           # without an end the stream is for ever
  zone: UTC                   # whose clock people read, such as Europe/London

streams:
  - name: {stream}
    source:
      {files}
{table}      time: {time}
      {value}
      zone: UTC               # the zone of times that carry none
    statistic:
      kind: mean              # count, events, sum, mean, histogram, quantile, weighted sum
      unit:                   # what the values are in, such as kWh
      resolution:             # readings become whole multiples of this, such as 1 Wh
      clip:                   # the least and the largest that one person counts as in a step, after `fold`, such as [0, 5 kWh]
      # clip_readings: [0, 2 kWh]    # the same of each single reading, before `fold`
      fold: sum               # several readings of one person in a step: sum, mean, first, last, min, max
      missing: 0              # what a person without a good reading counts as
    # groups:                 # a public list; all are published, empty ones too
    #   table: {{file: homes.csv, person: id, group: zone}}   # fixes each person's group for ever
    # delay: 1 h              # how long after a step it is published
    # post: [{{truncate: [0, 10]}}, {{moving_average: 4}}]    # costs no privacy; or {{kalman: 0.1}}
    output: {output}  # or .parquet, .jsonl, a folder ending in /, or - for stdout

ledger: {ledger}  # remembers what was published and spent; keep it, and keep it private
"""


def write_template(columns: Mapping[str, str], files: Sequence[str], table: str | None, name: str) -> str:
    """Return a policy for a source with these columns (name → type).

    >>> text = write_template({"lclid": "VARCHAR", "ts": "TIMESTAMP", "kwh": "DOUBLE"}, ["a.parquet"], None, "policy.yaml")
    >>> [line.split("#")[0].strip() for line in text.splitlines() if "time:" in line or "person:" in line][:2]
    ['person: lclid', 'time: ts']
    """
    time = _guess_time(columns)
    value = _guess(columns, _VALUE, ("DOUBLE", "FLOAT", "DECIMAL", "INT"), (time,))
    person = _guess(columns, _PERSON, ("VARCHAR", "UUID", "INT"), (time, value))
    wide = is_wide(columns)
    value, person = (None, None) if wide else (value, person)
    stem = name.rsplit(".", 1)[0] or "policy"
    return TEMPLATE.format(
        name=" ".join(name.split()),
        schema=SCHEMA_FILE,
        ledger=_text(_choose_file(f"{stem.lstrip('~') or 'policy'}.ledger", files)),
        stream=_stream_name(value),
        output=_choose_file(f"{_stream_name(value)}.csv", files),
        population=_text(stem),
        person=_text(person),
        time=_text(time),
        value="wide: yes               # every other column is one person's readings"
        if wide
        else f"value: {_text(value)}",
        files=_place(files),
        table=f"      table: {_text(table)}\n" if table else "",
        notions=", ".join(sorted(registry.NOTIONS)),
        promises="".join(adapter.template for adapter in dict.fromkeys(ADAPTERS.values())),
    )


def _place(files: Sequence[str]) -> str:
    """Where the readings are, as a policy says it."""
    if is_server(files[0]):
        return f"database: {_text(files[0])}"
    return "files: " + (_text(files[0]) if len(files) == 1 else "[" + ", ".join(map(_text, files)) + "]")


def _guess_time(columns: Mapping[str, str]) -> str | None:
    """Return the finest column that may be a time: a timestamp before what is only called so, and that before a date.

    >>> _guess_time({"date": "DATE", "read_at": "TIMESTAMP"}), _guess_time({"date": "DATE", "hour": "BIGINT"})
    ('read_at', 'hour')
    """
    moments = [c for c, t in columns.items() if t.upper().startswith("TIMESTAMP")]
    if len(moments) == 1:
        return moments[0]
    finest = {c: t for c, t in columns.items() if c in moments} or {
        c: t for c, t in columns.items() if not t.upper().startswith("DATE")
    }
    return _guess(finest, _TIME, (), (), _NO_TIMES) or _guess(columns, _TIME, ("DATE",), (), _NO_TIMES)


def is_wide(columns: Mapping[str, str]) -> bool:
    """Whether a table seems to have one column a person: more than 20 of one type. Their names are then people's, and not shown.

    >>> is_wide({"ts": "TIMESTAMP", **{f"home_{i}": "DOUBLE" for i in range(21)}}), is_wide({"id": "VARCHAR", "kwh": "DOUBLE"})
    (True, False)
    """
    return max(Counter(columns.values()).values(), default=0) > MOST_SHOWN


def _guess(
    columns: Mapping[str, str],
    names: Sequence[str],
    types: Sequence[str],
    taken: Sequence[str | None],
    unlikely: tuple[str, ...] = (),
) -> str | None:
    """Return the column with one of these names, else the only one of a fitting type; None leaves the key blank.

    One that is called so but is of an unlikely type comes last: `timestamp DOUBLE` beside `time TIMESTAMP`.
    """
    free = {c: t.upper() for c, t in columns.items() if c not in taken}
    called = [c for name in names for c in free if _is_called(c, name)]
    if called:
        return min(called, key=lambda c: free[c].startswith(unlikely))  # the first of those that are least unlikely
    fitting = [c for c, t in free.items() if any(t.startswith(kind) for kind in types)]
    return fitting[0] if len(fitting) == 1 else None


def _is_called(column: str, name: str) -> bool:
    return column.lower() == name or name in column.lower().split("_")


def has_usual_name(column: str) -> bool:
    """Return whether a column is called as columns of persons, times or values often are.

    >>> has_usual_name("meter_id"), has_usual_name("patient-zero")
    (True, False)
    """
    return any(_is_called(column, name) for name in (*_PERSON, *_TIME, *_VALUE))


def _text(value: str | None) -> str:
    """Return text as a YAML scalar, quoted where YAML would read anything but this text."""
    if value is None:
        return ""
    plain = re.fullmatch(r"[\w./][\w./*-]*", value) and value.lower() not in ("null", "...")
    return value if plain else '"' + "".join(map(_escape, value)) + '"'


def _escape(ch: str) -> str:
    """A character within double quotes; what cannot be seen as YAML's \\U and its eight digits."""
    return f"\\{ch}" if ch in '"\\' else ch if ch.isprintable() else f"\\U{ord(ch):08x}"


def _stream_name(value: str | None) -> str:
    """A name for the stream, after its column: letters, digits, dot, dash and underscore."""
    name = re.sub(r"[^a-z0-9._-]+", "-", (value or "").lower()).strip("-._")
    return name[:64] if name not in ("", "null") else "readings"


def _choose_file(name: str, files: Sequence[str]) -> str:
    """Return a path to write to that no source pattern matches, beside the policy if possible."""
    patterns = [os.path.abspath(pattern) for pattern in files]
    places = [f"{folder}{name}" for folder in ("", "published/", "../published/")]
    free = [p for p in places if not any(matches(os.path.abspath(p), pattern) for pattern in patterns)]
    return (free or places)[0]


def json_schema() -> JsonObject:
    """Return the policy's JSON Schema, with the parameters of every registered notion."""
    schema = Policy.model_json_schema()
    promise = schema["$defs"]["Promise"]
    common, own = promise["properties"], dict[str, Any]()
    for adapter in dict.fromkeys(ADAPTERS.values()):
        for key, described in adapter.schema().items():
            if key in own:  # a parameter of several notions
                own[key]["description"] += "," + described["description"].removeprefix("of")
            elif key not in common:
                own[key] = described
    common["notion"]["enum"] = sorted(registry.NOTIONS)
    common["plan"]["enum"] = sorted({method for _, method in registry.PLANS})
    promise |= {"properties": {**common, **own}, "additionalProperties": False}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **_loosen(schema), "title": "halflife policy"}


def _loosen(schema: object) -> Any:
    """Return the schema with numbers and truth values allowed as text and the reverse: editors read 007 and 1e-6 as numbers."""
    if isinstance(schema, list):
        return [_loosen(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    result = {key: _loosen(part) for key, part in schema.items()}
    if result.get("type") == "string" and not {"enum", "pattern"} & set(result):
        result["type"] = ["string", "number", "boolean"]
    elif result.get("type") in ("integer", "number"):
        result["type"] = [result["type"], "string"]
    return result
