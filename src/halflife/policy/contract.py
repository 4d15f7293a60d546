"""What a ledger remembers of its policy: all that shapes the promise, so that a later change is noticed.

Where files are and where output goes may change; what is published, about whom, and under which promise may not.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from fractions import Fraction
from typing import Any

from halflife.outputs import Layout
from halflife.policy.model import PolicyKeys
from halflife.policy.promises.base import identify
from halflife.policy.streams import Channel


def ledger_facts(policy: PolicyKeys, channels: tuple[Channel, ...]) -> dict[str, str]:
    """Return the facts that a ledger is begun with: the policy worked out, so that `1` and `1.0` or `1 h` and `60 min` are one.

    `stream_layout` reads of them what `verify` needs to know about each stream.
    """
    first = channels[0]
    promise = policy.promise
    facts: dict[str, Any] = {
        "format": "halflife.ledger",
        "version": 1,
        "population": policy.population.model_dump(),
        "promise": {
            "notion": identify(first.promise.notion), "plan": promise.plan, "noise": promise.noise, "cap": promise.cap,
        },
        "clock": {**asdict(first.account), "late": policy.clock.late},
    }  # fmt: skip
    for c in channels:
        facts[f"stream:{c.name}"] = _stream_facts(c)
    return {key: json.dumps(value, sort_keys=True, default=str) for key, value in facts.items()}


def _stream_facts(c: Channel) -> dict[str, Any]:
    source = c.part.source
    return {
        "kind": c.part.statistic.kind,
        "steps": asdict(c.steps),
        "last": c.last,
        "age": c.age,
        "share": c.promise.facts_of_part(c.plan),
        "source": None if source is None else source.model_dump(exclude={"files", "format"}),
        "person": c.person,
        "units": dict(c.units),
        "zone": c.steps.zone,
        "unit": c.part.statistic.unit,
        "groups": list(c.groups),
        "fixed": c.fixed,
        "bins": [list(b) for b in c.bins],
        "factors": [str(f) for f in c.factors],
        "sensitivity": [c.sensitivity.l1, c.sensitivity.l2],
        "offsets": list(c.offsets),
        "post": [[s.name, {k: v for k, v in vars(s).items() if not k.startswith("_")}] for s in c.smoothers()],
        "tables": hashlib.sha256(json.dumps([c.table, c.weights], sort_keys=True).encode()).hexdigest(),
    }


def stream_layout(name: str, facts: Mapping[str, str]) -> tuple[Layout, tuple[Fraction, ...]]:
    """Return a stream's layout, and what a unit is worth in each of its numbers, from a ledger's facts."""
    known = json.loads(facts[f"stream:{name}"])
    bins = tuple((low, high) for low, high in known["bins"])
    factors = tuple(Fraction(f) for f in known["factors"] for _ in range(max(1, len(bins))))
    return Layout(name, known["zone"], tuple(known["groups"]), bins, known["unit"]), factors
