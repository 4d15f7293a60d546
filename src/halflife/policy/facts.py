"""The facts of a policy that a ledger is begun with, in a versioned form, and which of them may change later.

    population, promise, clock     what is promised, about whom, in which steps
    stream:NAME                    what is published: source, statistic, groups, steps, share

Facts are of three kinds.

- What the promise rests on: all that is written here. Another value is refused, in words. Which column is `person` decides who
  *one* person is, and with it the sensitivity: pointed from households to meters, a household would be protected as if each of
  its meters were a person; so the content of the table that says whose each meter is (`units`) is held to, too. Of CSV without a
  header, `columns` decides which field that is. `time`, `zone`, `epoch` and `time_format` decide which step a reading counts in:
  changed, what was published about once would be published about again, at a time that the account takes for another. `value`,
  `group`, clips, folds, sizes and tables decide what a person counts as.
- Where things are: `files`, `format` and `table` of a source, paths of outputs, of the ledger and of public tables (whose content
  *is* a fact, by its digest), and the columns of these tables. Which two people a table or file tells apart depends on the person
  column alone, and however many rows it has, engines hold one person to the clip: so no bound depends on where the rows lie. They
  may change freely, and are not written here.
- Post-processing: it sees published values alone, and costs no privacy. A new chain begins, fresh, at the next step; which held
  from which step on is kept with the ledger's states, and `halflife verify` replays each step with the chain that held then.

Each part has a version of its own and leaves out what is at its default, so that an optional key that is added later changes no
ledger that exists. Facts are compared by what they mean: quantities are worked out (1 kWh is 1000 Wh), defaults filled in.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple

from halflife.errors import HalflifeError, InvalidInput
from halflife.local_time import from_us
from halflife.notions.base import Notion
from halflife.numerics.forms import leave_out, read_form
from halflife.numerics.trees import CountTree
from halflife.outputs import Layout
from halflife.parsing.documents import Where
from halflife.parsing.quantities import parse_quantity
from halflife.policy.model import Source
from halflife.policy.policy import Policy, channels
from halflife.policy.promises.base import Adapter
from halflife.policy.streams import Channel
from halflife.postprocessing.quantiles import TreeQuantiles

FORMAT = {"name": "halflife.ledger", "version": 1}
LONGEST = 200
"""Values that take more characters are told by their digest."""
Facts = dict[str, Any]

# Writing --------------------------------------------------------------------------------------------------------------------


def ledger_facts(policy: Policy) -> dict[str, str]:
    """Return the facts that a ledger is begun with, each part as JSON."""
    made = channels(policy)
    facts: dict[str, Facts] = {
        "format": FORMAT,
        "population": _write_population(policy, made[0].units),
        "promise": _write_promise(policy, made[0].promise),
        "clock": leave_out({"version": 1, **made[0].account.to_facts(), "late": policy.clock.late}, late="now"),
    }
    for channel in made:
        facts[f"stream:{channel.name}"] = _write_stream(channel)
    return {key: json.dumps(value, sort_keys=True) for key, value in facts.items()}


def _write_population(policy: Policy, units: Mapping[str, str] | None) -> Facts:
    p = policy.population
    facts = {
        "version": 1,
        "id": p.id,
        "size": p.size,
        "person": p.person,
        "units": None if units is None else _digest(units),
        "neighbours": p.neighbours,
    }
    return leave_out(facts, units=None, neighbours="replace-one")


def _write_promise(policy: Policy, adapter: Adapter) -> Facts:
    """The notion with its parameters, how it is kept, and the keys of its own.

    The family of noise is written also where it was chosen; a ledger with a δ that has none was begun by a version that chose
    from losses alone.
    """
    p = policy.promise
    facts = {
        "version": 1,
        "notion": _name_notion(adapter.notion.to_facts(), adapter.notion),
        "plan": p.plan,
        "noise": p.noise or adapter.chosen,
        "cap": p.cap,
    }
    return leave_out(facts, plan="tight", noise=None, cap=None) | adapter.to_facts()


def _name_notion(facts: Facts, notion: Notion[Any]) -> Facts:
    """A promise without what is attached to it, which may be added to, and without its clock, which is a fact of its own."""
    return {key: value for key, value in facts.items() if key not in (notion.attached, "clock")}


def _write_stream(c: Channel) -> Facts:
    """A stream; `worth` is what a unit is worth in the output, by group if they differ: verification reads outputs by it."""
    worth = [str(f) for f in c.factors]
    facts = {
        "version": 1,
        "steps": c.steps.to_facts(),
        "last": c.last,
        "delay": c.age,
        "share": c.share,
        "source": _write_source(c),
        "statistic": _write_statistic(c),
        "groups": _write_groups(c),
        "mechanism": c.mechanism,
        "worth": worth[0] if len(set(worth)) == 1 else worth,
    }
    return leave_out(facts, last=None, delay=0, share=1.0, source=None, groups=None)


def _write_source(c: Channel) -> Facts | None:
    """Which columns are person, time, value and group, and how times are read."""
    s = c.part.source
    if s is None:
        return None
    facts = {
        "version": 1,
        "person": s.person or c.person,
        "time": s.time,
        "value": s.value,
        "group": s.group,
        "zone": s.zone,
        "epoch": s.epoch,
        "time_format": s.time_format,
        "places": _find_places(s, s.person or c.person),
        "wide": s.wide,
    }
    return leave_out(facts, value=None, group=None, zone="UTC", epoch=None, time_format=None, places=None, wide=False)


def _find_places(s: Source, person: str) -> dict[str, int] | None:
    """Which fields of a line without names are person, time, value and group, from 1, as `columns` says."""
    if s.columns is None:
        return None
    used = {"person": None if s.wide else person, "time": s.time, "value": s.value, "group": s.group}
    return {key: s.columns.index(name) + 1 for key, name in used.items() if name is not None}


def _write_statistic(c: Channel) -> Facts:
    """What one person counts as: quantities as exact numbers of the unit; of a quantile, the tree of counts too."""
    s, measure, tree = c.part.statistic, c.measure, c.measure.tree

    def exact(text: str | None) -> str | None:
        return None if text is None else str(parse_quantity(text, s.unit))

    w = s.weights
    facts = {
        "version": 1,
        "kind": s.kind,
        "unit": s.unit,
        "resolution": exact(s.resolution),
        "clip": None if s.clip is None else [exact(x) for x in s.clip],
        "clip_readings": None if s.clip_readings is None else [exact(x) for x in s.clip_readings],
        "fold": s.fold,
        "most_events": s.most_events,
        "duplicates": "once" if s.once else "each",
        "missing": exact(s.missing) or "0",
        "edges": [str(measure.resolution * edge) for edge in measure.edges] or None,
        "quantiles": [str(q) for q in measure.quantiles] or None,
        "levels": None if tree is None else tree.levels,
        "total": tree is not None and tree.total,
        "weights": None
        if w is None
        else {
            "resolution": str(parse_quantity(w.resolution, None)),
            "largest": str(parse_quantity(w.largest, None)),
            "sha256": _digest(c.weights),
        },
    }
    return leave_out(
        facts,
        unit=None,
        resolution=None,
        clip=None,
        clip_readings=None,
        fold=None,
        most_events=None,
        duplicates="once",
        missing="0",
        edges=None,
        quantiles=None,
        levels=None,
        total=False,
        weights=None,
    )


def _write_groups(c: Channel) -> Facts | None:
    """The public list, and either the table that fixes everybody's group or how many a person counts in."""
    g = c.part.groups
    if g is None:
        return None
    table = None if c.table is None else {person: c.groups[i] for person, i in c.table.items()}
    facts = {
        "version": 1,
        "names": list(c.groups),
        "table": None if table is None else _digest(table),
        "most_per_person": g.most_per_person,
        "sizes": g.sizes,
    }
    return leave_out(facts, table=None, most_per_person=None, sizes=None)


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


# Reading --------------------------------------------------------------------------------------------------------------------

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
    "size": Key("the population's size"),
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
    "delay": Key("its delay in steps of the clock", 0),
    "share": Key("its share of the promise", 1.0),
    "source": Key("its source", None, keys=SOURCE),
    "statistic": Key("its statistic", keys=STATISTIC),
    "groups": Key("its groups", None, keys=GROUPS),
    "mechanism": Key("its mechanism"),
    "worth": Key("what a unit is worth in the output"),
}
PARTS: Mapping[str, Mapping[str, Key]] = {"population": POPULATION, "promise": PROMISE, "clock": CLOCK}


Change = tuple[Where, str]
"""What has changed: at which key, named as the facts name it, and a sentence."""

WRITTEN = {
    "start_us": "start",
    "width_us": "step",
    "days": "step",
    "months": "step",
    "last": "end",
    "places": "columns",
    "worth": "statistic",
}
"""How a policy names what facts name otherwise."""


def follow_ledger(policy: Policy, known: Mapping[str, str]) -> Policy:
    """Return the policy with what it leaves open as the ledger of these facts was begun with; itself where there is nothing.

    That is the family of noise, and by which version's rules losses add up. Another family would have to be composed with the
    first in every window, and other rules would not be those of the account.
    """
    if not known or known.get("promise") == ledger_facts(policy)["promise"]:
        return policy
    try:
        begun = _parse(known, "promise")
    except InvalidInput:  # `find_change` says so
        return policy
    other = policy.model_copy()
    other._begun = begun if isinstance(begun, dict) else None
    return other


def find_change(known: Mapping[str, str], policy: Policy) -> str | None:
    """Say what the policy changes of the facts that a ledger was begun with, and where, None if nothing.

    Raises InvalidInput for facts that a newer halflife wrote, or that are damaged.
    """
    policy = follow_ledger(policy, known)
    change = _find_change(known, policy)
    if change is None:
        return None
    place = policy.name_place(*_find_key(policy, *change[0]))
    return change[1] if place is None else f"{change[1]} ({place})"


def _find_key(policy: Policy, part: str | int, *keys: str | int) -> Where:
    """Return the key of the policy for one of the facts: of a stream those of the clock too, which it may have of its own."""
    names = tuple(WRITTEN.get(str(key), key) for key in keys if key != "steps")
    streams = [f"stream:{s.name}" for s in policy.streams]
    if part not in streams:
        return (part, *names)
    i = streams.index(str(part))
    if names[:1] in (("start",), ("step",), ("end",), ("zone",)) and not getattr(
        policy.streams[i], str(names[0]), None
    ):
        return ("clock", *names)
    return ("streams", i, *names)


def _find_change(known: Mapping[str, str], policy: Policy) -> Change | None:
    now, adapter = ledger_facts(policy), channels(policy)[0].promise
    parts = {**PARTS, "promise": {**PROMISE, **{key: Key(words, None) for key, words in adapter.words.items()}}}
    if read_form("a ledger", _parse(known, "format"), ("name",))["name"] != FORMAT["name"]:
        raise InvalidInput("its facts are not those of a ledger")
    for key in sorted(set(known) ^ set(now)):
        return (key if key in now else "streams",), f"{key.replace(':', ' ')} {'is new' if key in now else 'is gone'}"
    other = _compare_names(_parse(known, "promise"), _parse(now, "promise"))
    if other:
        return ("promise", "notion"), other
    for key in now:
        part, where = parts.get(key, STREAM), "" if key in parts else f"stream {key.removeprefix('stream:')}: "
        if key == "format":
            continue
        old, new = (_fill(key, _parse(facts, key), part) for facts in (known, now))
        if key == "clock" and not adapter.notion.forgets:  # a late step then counts alike from whenever it counts
            old["late"] = new["late"]
        if key == "promise":
            change = _compare_notions(old.pop("notion"), new.pop("notion"), adapter.notion)
            if change:
                return ("promise", *change[0]), change[1]
            if old["noise"] != new["noise"] and _uses_same_noise(policy, old["noise"]):
                old["noise"] = new["noise"]
        change = _compare(old, new, part)
        if change:
            return (key, *change[0]), where + change[1]
    return None


def _parse(facts: Mapping[str, str], key: str) -> Any:
    try:
        return json.loads(facts[key])
    except (KeyError, ValueError, RecursionError):
        raise InvalidInput(f"its facts about {key} cannot be read") from None


def _fill(what: str, stored: object, part: Mapping[str, Key]) -> Facts:
    """A part, and the parts in it, with all defaults."""
    must = [key for key, about in part.items() if about.default is MUST]
    defaults = {key: about.default for key, about in part.items() if about.default is not MUST}
    filled = read_form(f"what a ledger remembers of {what}", stored, must, **defaults)
    for key, about in part.items():
        if about.keys is not None and filled[key] is not None:
            filled[key] = _fill(f"{what}.{key}", filled[key], about.keys)
    return filled


def _compare(old: Facts, new: Facts, part: Mapping[str, Key]) -> Change | None:
    """The first key of two filled parts that differs, in words."""
    for key, about in part.items():
        a, b = old.get(key), new.get(key)
        if a == b:
            continue
        if about.keys is not None and a is not None and b is not None:
            inside = _compare(a, b, about.keys)
            return inside and ((key, *inside[0]), inside[1])
        return (key,), _say_change(about.words, a, b, about.say)
    return None


def _compare_names(old: Any, new: Facts) -> str | None:
    """Say that another notion is promised: the keys of two notions are not to be compared."""
    notion = old.get("notion") if isinstance(old, dict) else None
    name = notion.get("name") if isinstance(notion, dict) else None
    return None if name == new["notion"]["name"] else _say_change("the promise", name, new["notion"]["name"])


def _compare_notions(old: Facts, new: Facts, notion: Notion[Any]) -> Change | None:
    """The first parameter of a promise that differs; stored facts are read as this version would write them."""
    old = _name_notion(notion.complete(old), notion)
    for key in sorted(set(old) | set(new)):
        if old.get(key) != new.get(key):
            said = _say_change(f"{key.replace('_', ' ')} of the promise", old.get(key), new.get(key))
            if _rounds(old.get(key), new.get(key)):
                said += ", which differ by rounding alone: write it out as it was"
            return (key,), said
    return None


def _rounds(old: Any, new: Any) -> bool:
    """Return whether two values differ only as the same number does where it is worked out twice, on other machines say.

    They are still refused: the account goes on under the numbers that it was begun with, to the last bit.

    >>> _rounds({"rho": [0.1 + 0.2]}, {"rho": [0.3]}), _rounds(0.3, 0.31)
    (True, False)
    """
    if isinstance(old, dict) and isinstance(new, dict):
        return old.keys() == new.keys() and all(_rounds(old[key], new[key]) for key in old)
    if isinstance(old, list) and isinstance(new, list):
        return len(old) == len(new) and all(map(_rounds, old, new))
    if isinstance(old, float) and isinstance(new, float):
        return math.isclose(old, new, rel_tol=1e-12)
    return bool(old == new)


def _uses_same_noise(policy: Policy, asked: str | None) -> bool:
    """Return whether streams have noise of the same families if the promise asks for this one, or for none.

    The promise rests on the family that is used: to write out the one that is used anyway, or to leave it out, changes nothing.
    """
    other = policy.promise.model_copy(update={"noise": asked})
    try:
        made = channels(policy.model_copy(update={"promise": other}))
    except HalflifeError:
        return False
    return [c.plan.noise for c in made] == [c.plan.noise for c in channels(policy)]


def _say_change(words: str, old: Any, new: Any, say: Callable[[Any], str] | None = None) -> str:
    """Return one change as a sentence.

    >>> _say_change("the population's size", 4, 5)
    "the population's size was 4 and is now 5"
    """
    was, now = ("not given" if x is None else (say or _say)(x) for x in (old, new))
    return f"{words} was {was} and is now {now}"


def _say(value: Any) -> str:
    """A value in full, or by its digest where it is long."""
    text = repr(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST else f"another one (sha256 {_digest(value)[:16]})"


class Shape(NamedTuple):
    """What a stream's entries hold: layout, what a unit is worth in each noisy number, and how quantiles follow from them."""

    layout: Layout
    factors: tuple[Fraction, ...]
    quantiles: TreeQuantiles | None


def stream_shape(name: str, facts: Mapping[str, str]) -> Shape:
    """Return what the entries of a stream hold, from a ledger's facts."""
    stream = _fill(f"stream {name}", _parse(facts, f"stream:{name}"), STREAM)
    groups = tuple(stream["groups"]["names"]) if stream["groups"] else ()
    statistic, worth, zone = stream["statistic"], stream["worth"], stream["steps"]["zone"]
    edges = tuple(float(Fraction(edge)) for edge in statistic["edges"] or ())
    factors = [Fraction(f) for f in (worth if isinstance(worth, list) else [worth] * max(1, len(groups)))]
    if statistic["quantiles"] is None:
        bins = tuple(pairwise(edges))
        layout = Layout(name, zone, groups, bins, statistic["unit"])
        return Shape(layout, tuple(f for f in factors for _ in range(max(1, len(bins)))), None)
    tree = CountTree(len(edges) - 1, statistic["levels"], statistic["total"])
    which = tuple(float(Fraction(q)) for q in statistic["quantiles"])
    layout = Layout(name, zone, groups, (), statistic["unit"], which)
    return Shape(layout, tuple(f for f in factors for _ in range(tree.nodes)), TreeQuantiles(tree, edges, which))
