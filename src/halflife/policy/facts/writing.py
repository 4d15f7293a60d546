"""Writing the facts of a policy, by hand: each part has a version and leaves out what is at its default."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from halflife.notions.base import Notion
from halflife.numerics.forms import leave_out
from halflife.parsing.quantities import parse_quantity
from halflife.policy.facts.keys import BY_DATE, VERSION, Facts
from halflife.policy.model import Source
from halflife.policy.policy import Policy, channels
from halflife.policy.promises.base import Adapter
from halflife.policy.streams import Channel

FORMAT = {"name": "halflife.ledger", "version": 1}


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
        facts[f"stream:{channel.name}"] = _write_stream(channel, policy.members.by_date and channel.divides)
    return {key: json.dumps(value, sort_keys=True) for key, value in facts.items()}


def _write_population(policy: Policy, units: Mapping[str, str] | None) -> Facts:
    p, by_date = policy.population, policy.members.by_date
    facts = {
        "version": VERSION if by_date else 1,
        "id": p.id,
        "size": BY_DATE if by_date else p.size,
        "person": p.person,
        "units": None if units is None else digest(units),
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
        "notion": name_notion(adapter.notion.to_facts(), adapter.notion),
        "plan": p.plan,
        "noise": p.noise or adapter.chosen,
        "cap": p.cap,
    }
    return leave_out(facts, plan="tight", noise=None, cap=None) | adapter.to_facts()


def name_notion(facts: Facts, notion: Notion[Any]) -> Facts:
    """Return a promise without what is attached to it, which may be added to, and its clock, which is a fact of its own."""
    return {key: value for key, value in facts.items() if key not in (notion.attached, "clock")}


def _write_stream(c: Channel, by_date: bool) -> Facts:
    """A stream; `worth` is what a unit is worth in the output, by group if they differ: verification reads outputs by it.

    by_date  whether that goes by date: then it is what a unit is worth before it is divided by the size of the population
    """
    worth = [str(f * c.sized[0].size if by_date else f) for f in c.sized[0].factors]
    facts = {
        "version": VERSION if by_date else 1,
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
            "sha256": digest(c.weights),
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
        "table": None if table is None else digest(table),
        "most_per_person": g.most_per_person,
        "sizes": g.sizes,
    }
    return leave_out(facts, table=None, most_per_person=None, sizes=None)


def digest(value: object) -> str:
    """Return the SHA-256 of a value's JSON: what stands for a public table, and for a value too long to say."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
