"""The record of a stream's post-processing chains, each with the step from which on it is in force.

A chain is a list of smoothers, one after the other. A new one begins fresh at the step after the newest: what the one before had
seen is not carried over. The record is public and stays with the ledger, so that every step can be worked out again.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from halflife.errors import InvalidInput, unknown
from halflife.numerics.arrays import Floats
from halflife.numerics.forms import JsonObject, read_form
from halflife.numerics.parameters import whole
from halflife.postprocessing.base import Facts, Smoother
from halflife.postprocessing.kalman import Kalman
from halflife.postprocessing.local_level import LocalLevel
from halflife.postprocessing.moving_average import MovingAverage
from halflife.postprocessing.running_total import RunningTotal
from halflife.postprocessing.seasonal import Seasonal
from halflife.postprocessing.structural.estimator import Structural
from halflife.postprocessing.truncate import Truncate

SMOOTHERS: dict[str, type[Smoother]] = {
    kind.name: kind for kind in (Truncate, MovingAverage, Kalman, Seasonal, LocalLevel, RunningTotal)
}


class Smoothed(NamedTuple):
    """What a chain leaves of some steps: values, the scale left in the worst cell of each, and bands by cell, if known."""

    values: Floats
    scales: Floats
    bands: Floats | None


def run_chain(smoothers: Sequence[Smoother], values: Floats, scales: Floats, facts: Facts) -> Smoothed:
    """Run values, in the unit of the output, through a chain. Estimates keep their own bands: truncation widens none.

    >>> import numpy as np
    >>> run_chain([Truncate(0.0, 5.0)], np.array([[7.0]]), np.ones(1), Facts()).values.tolist()
    [[5.0]]
    """
    bands = None
    for smoother in smoothers:
        if isinstance(smoother, Structural):
            found = smoother.estimate(values, scales, facts)
            values, scales, bands = found.values, found.worst_scales(facts), found.bands
        else:
            values, scales = smoother.smooth(values, scales, facts)
    return Smoothed(values, scales, bands)


class Since(NamedTuple):
    """A chain of post-processors, by their facts, and the step from which on it is in force."""

    step: int
    chain: tuple[JsonObject, ...]

    def smoothers(self) -> list[Smoother]:
        """Return new post-processors of the chain, without state."""
        return [read_smoother(facts) for facts in self.chain]


Record = tuple[Since, ...]
"""The chains of a stream, oldest first; empty if it never had any."""


def read_smoother(facts: Any) -> Smoother:
    """Read what `to_facts` of a smoother gave.

    >>> read_smoother({"name": "moving_average", "width": 4}).to_facts()
    {'name': 'moving_average', 'width': 4}
    """
    name = facts.get("name") if isinstance(facts, dict) else None
    if name not in SMOOTHERS:
        raise unknown("post-processor", name, SMOOTHERS)
    return SMOOTHERS[name].from_facts(facts)


def add_chain(record: Record, smoothers: Sequence[Smoother], step: int) -> Record:
    """Return the record with this chain from `step` on; the same record if it held already.

    A chain that was recorded for `step` and has not been used yet is replaced: it never gave a value. One that is taken back
    before it was used begins fresh all the same, as what the chain before had seen is no longer kept.

    >>> record = add_chain((), [Truncate(0.0, 5.0)], 1)
    >>> [since.step for since in add_chain(record, [], 7)], add_chain(record, [Truncate(0, 5)], 7) is record
    ([1, 7], True)
    >>> [since.step for since in add_chain(add_chain(record, [], 7), [Truncate(0.0, 4.0)], 7)]
    [1, 7]
    """
    chain = tuple(smoother.to_facts() for smoother in smoothers)
    newest = tuple(smoother.to_facts() for smoother in record[-1].smoothers()) if record else ()
    if chain == newest:
        return record
    return (*(since for since in record if since.step < step), Since(step, chain))


def dump_chains(record: Record) -> str:
    """Return the record as JSON."""
    return json.dumps({"version": 1, "chains": [{"from": since.step, "chain": list(since.chain)} for since in record]})


def load_chains(text: str) -> Record:
    """Read what `dump_chains` gave.

    >>> load_chains(dump_chains((Since(3, ({"name": "kalman", "drift": 0.5},)),)))[0].step
    3
    """
    form = read_form("a record of post-processing", json.loads(text), ("chains",))
    if not isinstance(form["chains"], list):
        raise InvalidInput("a record of post-processing must hold a list of chains")
    record = []
    for item in form["chains"]:
        chain = read_form("a chain of post-processing", item, ("from", "chain"))
        record.append(Since(whole("from", chain["from"], least=1), tuple(chain["chain"])))
    if any(b.step <= a.step for a, b in pairwise(record)):
        raise InvalidInput("the chains of post-processing must follow each other")
    return tuple(record)
