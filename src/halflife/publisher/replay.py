"""Post-processing recomputed from the noisy values in a ledger: each step with the chain that was in force then; quantiles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import groupby

import numpy as np

from halflife.ledger import Entry
from halflife.plans.base import STD_OF_UNIT_SCALE
from halflife.postprocessing import Facts, Smoother
from halflife.postprocessing.chains import Record
from halflife.postprocessing.quantiles import TreeQuantiles
from halflife.publisher.drawing import find_spread
from halflife.publisher.readable import in_output_units, noise_bounds

ALIKE = 1e-9
"""How far, relatively, two machines may differ in a value that both work out."""


class Replay:
    """Recomputes one stream's post-processing as its entries are read in order.

    factors  what a unit is worth, number by number
    """

    def __init__(self, record: Record, factors: Sequence[Fraction]) -> None:
        self._record, self._factors = record, factors
        self._since = -1
        self._smoothers: list[Smoother] = []
        self._shared: dict[str, float] = {}

    def find_changed(self, entries: Sequence[Entry]) -> Iterator[Entry]:
        """Return the entries whose value, or the spread that is left in it, is not what the chain of their step gives."""
        if not self._record:
            yield from (entry for entry in entries if entry.value is not None)
            return
        for since, block in groupby(entries, self._find_chain):
            if since != self._since:
                self._since, self._smoothers = since, self._record[since].smoothers()
            yield from self._compare(list(block))

    def _find_chain(self, entry: Entry) -> int:
        """Return the index of the chain in force at an entry's step, −1 before the first."""
        return sum(since.step <= entry.step for since in self._record) - 1

    def _compare(self, entries: list[Entry]) -> Iterator[Entry]:
        scales = np.array([self._scale(entry) for entry in entries])
        if not self._smoothers:
            yield from (entry for entry in entries if entry.value is not None)
            return
        values, worth = (
            in_output_units(x, self._factors)
            for x in (np.array([entry.noisy for entry in entries]), np.ones(len(self._factors)))
        )
        facts = Facts(np.array([e.step for e in entries]), worth, STD_OF_UNIT_SCALE[entries[0].releases[0].noise])
        reach = np.abs(values).max(axis=1) + scales * worth.max()
        for smoother in self._smoothers:
            values, scales = smoother.smooth(values, scales, facts)
        for entry, value, scale, far in zip(entries, values, scales.tolist(), reach.tolist(), strict=True):
            same = entry.value is not None and np.all(np.abs(entry.value - value) <= ALIKE * far)
            if not same or abs(entry.spread - scale) > ALIKE * max(entry.spread, scale):
                yield entry

    def _scale(self, entry: Entry) -> float:
        """Return the scale of all noise in a step before post-processing, reused noise included."""
        self._shared |= {r.draw: r.scale or 0.0 for r in entry.releases if r.draw is not None}
        fresh = [r.scale or 0.0 for r in entry.releases if r.draw is None]
        names = {r.draw or r.atop for r in entry.releases} - {None}
        scales = (*fresh, *(self._shared[name] for name in sorted(map(str, names))))
        return find_spread(scales, entry.releases[0].noise)


class QuantileReplay:
    """Recomputes the quantiles of one stream from its noisy counts."""

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
