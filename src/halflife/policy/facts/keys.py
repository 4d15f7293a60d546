"""The keys of each part of a ledger's facts: what a sentence calls them, their defaults, and how they are read."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from halflife.errors import InvalidInput
from halflife.local_time import from_us
from halflife.numerics.forms import read_form

Facts = dict[str, Any]
VERSION = 2
"""The newest version of a part: of a population whose size goes by date, and of a stream whose values are divided by it."""
BY_DATE = "by date"
"""What stands for a size that a public table gives by date; the table itself is a state of the ledger, as it grows."""
MUST = object()
"""What has no default."""


@dataclass(frozen=True)
class Key:
    """One key of a part: what a sentence calls it, its default, how its values are said, and its own keys if it is a part."""

    words: str
    default: Any = MUST
    say: Callable[[Any], str] | None = None
    keys: Mapping[str, Key] | None = None


def _say_time(us: int) -> str:
    return f"{from_us(us):%Y-%m-%d %H:%M:%S} UTC"


def _say_width(us: int) -> str:
    return f"{Fraction(us, 60_000_000)} min" if us else "not fixed"


POPULATION = {
    "id": Key("the population's id"),
    "size": Key(
        "the population's size", say=lambda size: f"{size}" if isinstance(size, int) else "a public table by date"
    ),
    "person": Key("the column that identifies a person"),
    "units": Key("the content of the table that says whose each id is", None),
    "neighbours": Key("what neighbours differ in", "replace-one"),
}
PROMISE = {
    "notion": Key("the promise"),
    "plan": Key("the plan", "tight"),
    "noise": Key("the promise's noise", None),
    "cap": Key("the cap of the plan", None),
}
STEPS = {
    "start_us": Key("the start of step 1", say=_say_time),
    "width_us": Key("the width of a step", 0, say=_say_width),
    "days": Key("how many local days a step has", 0),
    "months": Key("how many calendar months a step has", 0),
    "zone": Key("the zone of the clock", "UTC"),
}
CLOCK = {**STEPS, "late": Key("how late steps count", "now")}
SOURCE = {
    "person": Key("the column that identifies a person"),
    "time": Key("the column with the time of a reading"),
    "value": Key("the column with the reading", None),
    "group": Key("the column with the group", None),
    "zone": Key("the zone of times that carry none", "UTC"),
    "epoch": Key("what times count since 1970", None),
    "time_format": Key("how times are written", None),
    "wide": Key("whether columns are people", False),
    "places": Key("which fields of a line are person, time, value and group", None),
}
WEIGHTS = {
    "resolution": Key("the resolution of weights"),
    "largest": Key("the largest weight that counts"),
    "sha256": Key("the content of the table of weights"),
}
STATISTIC = {
    "kind": Key("the statistic"),
    "unit": Key("the unit", None),
    "resolution": Key("the resolution", None),
    "clip": Key("the clip", None),
    "clip_readings": Key("the clip of single readings", None),
    "fold": Key("the fold", None),
    "most_events": Key("how many events of a person count in a step", None),
    "duplicates": Key("how duplicates count", "once"),
    "missing": Key("what a missing reading counts as", "0"),
    "edges": Key("the edges of the histogram", None),
    "quantiles": Key("which quantiles are published", None),
    "levels": Key("how many levels the tree of counts has", None),
    "total": Key("whether the tree counts everybody", False),
    "weights": Key("the weights", None, keys=WEIGHTS),
}
GROUPS = {
    "names": Key("the list of groups"),
    "table": Key("the content of the table of groups", None),
    "most_per_person": Key("in how many groups a person counts", None),
    "sizes": Key("the sizes of groups", None),
}
STREAM = {
    "steps": Key("its steps", keys=STEPS),
    "last": Key("its last step", None),
    "ended": Key("the first step that it ended before", None),
    "delay": Key("its delay in steps of the clock", 0),
    "share": Key("its share of the promise", 1.0),
    "source": Key("its source", None, keys=SOURCE),
    "statistic": Key("its statistic", keys=STATISTIC),
    "groups": Key("its groups", None, keys=GROUPS),
    "mechanism": Key("its mechanism"),
    "worth": Key("what a unit is worth in the output"),
}
PARTS: Mapping[str, Mapping[str, Key]] = {"population": POPULATION, "promise": PROMISE, "clock": CLOCK}


def parse_part(facts: Mapping[str, str], key: str) -> Any:
    """Return one part of a ledger's facts as it was written; refuses what is missing or damaged."""
    try:
        return json.loads(facts[key])
    except (KeyError, ValueError, RecursionError):
        raise InvalidInput(f"its facts about {key} cannot be read") from None


def fill_part(what: str, stored: object, part: Mapping[str, Key]) -> Facts:
    """Return a part, and the parts in it, with all defaults."""
    newest = VERSION if part is POPULATION or part is STREAM else 1
    must = [key for key, about in part.items() if about.default is MUST]
    defaults = {key: about.default for key, about in part.items() if about.default is not MUST}
    filled = read_form(f"what a ledger remembers of {what}", stored, must, newest, **defaults)
    for key, about in part.items():
        if about.keys is not None and filled[key] is not None:
            filled[key] = fill_part(f"{what}.{key}", filled[key], about.keys)
    return filled
