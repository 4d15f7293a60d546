"""Post-processing recomputed from the noisy values in a ledger: each step with the chain that was in force then; quantiles."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np

from halflife.ledger import Entry
from halflife.mechanisms import HeldOutput
from halflife.numerics.arrays import Floats
from halflife.policy.worth import Worth
from halflife.postprocessing import Smoother
from halflife.postprocessing.chains import Record
from halflife.postprocessing.quantiles import TreeQuantiles
from halflife.publisher.drawing import find_spread, post_facts, run_post
from halflife.publisher.readable import in_output_units, noise_bounds, values_by_step

ALIKE = 1e-9
"""How far, relatively, two machines may differ in a value that both work out."""


class Expected(NamedTuple):
    """What an entry should hold: its value, None if it has no post-processing, the spread, and how far its numbers reach."""

    value: Floats | None
    spread: float | None
    reach: float

    def agrees(self, entry: Entry) -> bool:
        """Return whether an entry holds this, but for rounding."""
        if self.value is None or self.spread is None:
            return entry.value is None
        if entry.value is None or np.shape(entry.value) != np.shape(self.value):
            return False
        near = np.all(np.abs(entry.value - self.value) <= ALIKE * self.reach)
        return bool(near and abs(entry.spread - self.spread) <= ALIKE * max(entry.spread, self.spread))


class Replay:
    """Recomputes one stream's post-processing as its entries are read in order.

    worth  what a unit is worth, number by number;  zone  whose clock days go by
    """

    says = "its value is not what post-processing gives from its noisy one"

    def __init__(self, record: Record, worth: Worth, zone: str) -> None:
        self._record, self._worth, self._zone = record, worth, zone
        self._since = -1
        self._smoothers: list[Smoother] = []
        self._shared: dict[str, float] = {}

    def find_changed(self, entries: Sequence[Entry]) -> Iterator[Entry]:
        """Return the entries whose value, or the spread that is left in it, is not what the chain of their step gives."""
        return (e for e, expected in zip(entries, self.expect(entries), strict=True) if not expected.agrees(e))

    def expect(self, entries: Sequence[Entry]) -> Iterator[Expected]:
        """Yield what the chain of each entry's step gives."""
        if not self._record:
            yield from (Expected(None, None, 0.0) for _ in entries)
            return
        for since, block in groupby(entries, self._find_chain):
            if since != self._since:
                self._since, self._smoothers = since, self._record[since].smoothers()
            yield from self._run(list(block))

    def _find_chain(self, entry: Entry) -> int:
        """Return the index of the chain in force at an entry's step, −1 before the first."""
        return sum(since.step <= entry.step for since in self._record) - 1

    def _run(self, entries: list[Entry]) -> Iterator[Expected]:
        noises = list(find_scales(entries, self._shared))
        scales = np.array([find_spread(found, e.releases[0].noise) for found, e in zip(noises, entries, strict=True)])
        if not self._smoothers:
            yield from (Expected(None, None, 0.0) for _ in entries)
            return
        first, noisy = self._worth.since[0][1], np.array([entry.noisy for entry in entries])
        steps, starts = [e.step for e in entries], [e.start_us for e in entries]
        releases, one = [e.releases for e in entries], in_output_units(np.ones(len(first)), first)
        facts = post_facts(np.array(steps), starts, self._zone, releases, noises, releases[0][0].noise, one)
        largest = [float(max(self._worth.at(k))) for k in steps]
        reach = np.abs(values_by_step(noisy, steps, self._worth)).max(axis=1) + scales * largest
        values, scales = run_post(self._smoothers, noisy, scales, facts, steps, self._worth)
        yield from map(Expected, values, scales.tolist(), reach.tolist())

    def find_scale(self, entry: Entry) -> float:
        """Return the scale of all noise in a step before post-processing, reused noise included; entries come in order."""
        return find_spread(next(find_scales([entry], self._shared)), entry.releases[0].noise)


def find_scales(entries: Iterable[Entry], shared: dict[str, float] | None = None) -> Iterator[tuple[float, ...]]:
    """Yield the scales of all noise in each step before post-processing, reused noise included.

    shared  the scales of reused noise by name, as entries have shown them so far; what these show is added
    """
    known = {} if shared is None else shared
    for entry in entries:
        known |= {r.draw: r.scale or 0.0 for r in entry.releases if r.draw is not None}
        fresh = [r.scale or 0.0 for r in entry.releases if r.draw is None]
        names = {r.draw or r.atop for r in entry.releases} - {None}
        yield (*fresh, *(known[name] for name in sorted(map(str, names))))


class HeldReplay:
    """Checks a stream that repeats outputs: each has the noise of its release, or is the output before it again."""

    says = "it is neither the output before it nor one with the noise of its release"

    def __init__(self, mechanism: type[HeldOutput]) -> None:
        self._mechanism = mechanism
        self._before: Floats | None = None

    def find_changed(self, entries: Sequence[Entry]) -> Iterator[Entry]:
        """Return the entries that the stream's mechanism cannot have given after those before them."""
        for entry in entries:
            fault = self._mechanism.find_fault(self._before, entry.noisy, entry.spread, entry.releases)
            if fault is not None or entry.value is not None:
                yield entry
            self._before = entry.noisy


class QuantileReplay:
    """Recomputes the quantiles of one stream from its noisy counts."""

    says = Replay.says

    def __init__(self, quantiles: TreeQuantiles) -> None:
        self._quantiles = quantiles

    def find_changed(self, entries: Sequence[Entry]) -> Iterator[Entry]:
        """Return the entries whose quantiles, or error bands, are not what their noisy counts give."""
        width = self._quantiles.edges[-1] - self._quantiles.edges[0]
        reach = max(width, *map(abs, self._quantiles.edges))
        for entry in entries:
            scale = find_spread(tuple(r.scale or 0.0 for r in entry.releases), entry.releases[0].noise)
            found = self._quantiles.of(entry.noisy[None], noise_bounds([entry]))[0]
            same = entry.value is not None and np.shape(entry.value) == found.shape
            if not same or np.any(np.abs(entry.value - found) > ALIKE * reach) or entry.spread != scale:
                yield entry
