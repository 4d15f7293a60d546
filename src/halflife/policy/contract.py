"""What a ledger remembers of its policy: all that shapes the promise, so that a later change is noticed.

Where files are and where output goes may change; what is published, about whom, and under which promise may not.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from halflife.outputs import Layout
from halflife.policy.channel import Channel
from halflife.policy.model import Policy


def ledger_facts(policy: Policy, channels: tuple[Channel, ...]) -> dict[str, str]:
    """Return the facts that a ledger is begun with: the policy's contract, and what `verify` needs to read each stream."""
    contract = policy.model_dump(mode="json", exclude={"ledger": True, "streams": {"__all__": {"output"}}})
    for stream in contract["streams"]:
        for part in (
            stream["source"] or {},
            (stream["groups"] or {}).get("table") or {},
            stream["statistic"]["weights"] or {},
        ):
            for name in ("files", "file", "format"):
                part.pop(name, None)
    facts = {
        "format": "halflife.ledger",
        "population": policy.population.id,
        "policy": json.dumps(contract, sort_keys=True),
    }
    for c in channels:
        facts[f"stream:{c.name}"] = json.dumps(_stream_facts(c), sort_keys=True)
    return facts


def _stream_facts(c: Channel) -> dict[str, Any]:
    return {
        "zone": c.steps.zone,
        "unit": c.part.statistic.unit,
        "groups": list(c.groups),
        "bins": [list(b) for b in c.bins],
        "factors": [str(f) for f in c.factors],
        "sensitivity": [c.sensitivity.l1, c.sensitivity.l2],
        "offsets": list(c.offsets),
        "tables": hashlib.sha256(json.dumps([c.table, c.weights], sort_keys=True).encode()).hexdigest(),
    }


def stream_layout(name: str, facts: Mapping[str, str]) -> tuple[Layout, tuple[Fraction, ...]]:
    """Return a stream's layout, and what a unit is worth in each of its numbers, from a ledger's facts."""
    known = json.loads(facts[f"stream:{name}"])
    bins = tuple((low, high) for low, high in known["bins"])
    factors = tuple(Fraction(f) for f in known["factors"] for _ in range(max(1, len(bins))))
    return Layout(name, known["zone"], tuple(known["groups"]), bins, known["unit"]), factors
