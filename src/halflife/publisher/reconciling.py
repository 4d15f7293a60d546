"""Reconciled entries: totals and parts of a step that are committed together are made to add up before anybody sees them.

Each stream's own post-processing comes first, then the projection of all levels onto what adds up, weighted by the noise that is
left in each. A step whose other half is not in the same batch, because it was passed over or published before, stays as it is.
What is stored is the estimates in the output's unit, and behind them their 95 % bands. Of values with declared noise, the band is
that of the mixture of noises that is left. Bands that an estimator gave are kept as they were: over all values of a step
Σ (error/band)² never grows by the projection, however errors are correlated.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from halflife.ledger import Entry
from halflife.numerics.arrays import Floats
from halflife.postprocessing.reconcile import Rule, Sums, adds_up, hold_above_zero, reconcile, settle
from halflife.postprocessing.reconcile.rules import RuleRecord, connect_rules, find_rule
from halflife.postprocessing.reconcile.series import Series, make_sums
from halflife.publisher.drawing import find_spread
from halflife.publisher.readable import BAND_OF_UNIT_SCALE, in_output_units
from halflife.publisher.replay import Expected, Replay
from halflife.release import Noise

COARSEST = 1e-6
"""A part may be rounded another way on another machine: the grid of `settle` over what `ALIKE` allows for."""
Factors = Mapping[str, Sequence[Fraction]]
"""What a unit is worth, number by number, by stream."""


class Estimates(NamedTuple):
    """Values of some steps in the output's unit (steps × cells), the scale of the noise left in each step, in whole units, and
    the bands of values, where an estimator gave them."""

    values: Floats
    spreads: Floats
    bands: Floats | None = None


class Levels:
    """Streams that add up, step by step and level by level, and how their values are numbered within a step."""

    def __init__(self, rules: Sequence[Rule], factors: Factors, size: int) -> None:
        self.rules = rules
        self.streams = tuple(dict.fromkeys(name for rule in rules for name in (rule.total, rule.parts)))
        self._factors, self._size = {name: factors[name] for name in self.streams}, size
        self.worth = {name: in_output_units(np.ones(len(f)), f) for name, f in self._factors.items()}
        self.width = sum(map(len, self._factors.values()))

    def number(self, steps: int) -> dict[str, Series]:
        """Return the values of so many steps, numbered step by step."""
        numbers, place, made = np.arange(steps * self.width).reshape(steps, self.width), 0, {}
        for name, factors in self._factors.items():
            times = np.arange(steps + 1)
            cells = numbers[:, place : place + len(factors)]
            made[name] = Series(times[:-1], times[:-1], times[1:], cells, factors)
            place += len(factors)
        return made

    def make_sums(self, steps: int) -> list[list[Sums]]:
        """Return the sums of each rule over so many steps."""
        known = self.number(steps)
        return [make_sums(rule, known[rule.total], known[rule.parts], self._size) for rule in self.rules]

    def reconcile(self, given: Mapping[str, Estimates], noise: Noise) -> dict[str, Estimates]:
        """Return the values of the same steps of all streams reconciled, each with its bands."""
        steps = len(next(iter(given.values())).values)
        by_rule = self.make_sums(steps)
        sums = [one for found in by_rule for one in found]
        scales = [self._scales(name, given[name], noise) for name in self.streams]
        scale = np.concatenate(scales, axis=1).ravel()
        before = np.concatenate([given[name].values for name in self.streams], axis=1).ravel()
        found = reconcile(before, scale**2, sums)
        left = [self._bands(name, given[name], x, noise) for name, x in self._cut(found.variances, steps)]
        bands = np.concatenate(left, axis=1).ravel()
        after, reach = hold_above(zip(self.rules, by_rule, strict=True), found.values, bands, scale**2)
        settled = settle(after, sums)
        made = {}
        for (name, values), (_, h), narrow in zip(
            self._cut(settled, steps), self._cut(reach, steps), left, strict=True
        ):
            made[name] = Estimates(values, (narrow / self.worth[name]).max(axis=1) / BAND_OF_UNIT_SCALE[noise], h)
        return made

    def _scales(self, name: str, given: Estimates, noise: Noise) -> Floats:
        """The scale of noise whose band each value has, in the output's unit."""
        scales: Floats = given.spreads[:, None] * self.worth[name]
        return scales if given.bands is None else given.bands / BAND_OF_UNIT_SCALE[noise]

    def _cut(self, flat: Floats, steps: int) -> Iterator[tuple[str, Floats]]:
        """The numbers of each stream: steps × cells."""
        edges = np.cumsum([len(f) for f in self._factors.values()])[:-1]
        return zip(self.streams, np.split(flat.reshape(steps, self.width), edges, axis=1), strict=True)

    def _bands(self, name: str, given: Estimates, variances: Floats, noise: Noise) -> Floats:
        """The bands of what is left: a share m of a value's own noise, m its variance over what it was, and noises of others."""
        if given.bands is not None:
            return given.bands
        worth, spread = self.worth[name], given.spreads[:, None]
        own = np.divide(variances, (spread * worth) ** 2, out=np.ones_like(variances), where=spread > 0).clip(0.0, 1.0)
        kinds, places = np.unique(
            np.stack(np.broadcast_arrays(own.round(12), spread)).reshape(2, -1), axis=1, return_inverse=True
        )
        left = [
            find_spread(tuple(b for b in (m * s, s * (m - m * m) ** 0.5) if b > 0) or (0.0,), noise)
            for m, s in kinds.T.tolist()
        ]
        bands: Floats = np.array(left)[places].reshape(own.shape) * worth * BAND_OF_UNIT_SCALE[noise]
        return bands

    def weigh(self, given: Mapping[str, Estimates]) -> Floats:
        """Return the largest sum of each step that must be exact, whatever the signs: grids are so coarse."""
        sizes = np.abs(np.concatenate([given[name].values for name in self.streams], axis=1)).ravel()
        most = np.zeros(len(sizes) // self.width)
        for one in (one for found in self.make_sums(len(most)) for one in found):
            np.maximum.at(most, one.totals // self.width, (one.weights * sizes[one.parts]).sum(axis=1) * one.people)
        return most

    def adds_up(self, stored: Mapping[str, Floats]) -> bool:
        """Return whether the stored estimates of a step add up to the last bit, as a reader would add them."""
        values = np.concatenate([np.split(stored[name], 2)[0] for name in self.streams])
        return adds_up(values, [one for found in self.make_sums(1) for one in found])


def hold_above(
    by_rule: Iterable[tuple[Rule, Sequence[Sums]]], values: Floats, bands: Floats, variances: Floats
) -> tuple[Floats, Floats]:
    """Return values of which none is negative where a rule asks for that, and bands that reach from where they were moved.

    Such a band reaches as far as that of the estimate did, of which nothing below 0 is possible.
    """
    held = [one for rule, found in by_rule if rule.non_negative for one in found]
    if not held:
        return values, bands
    moved, reach = hold_above_zero(values, variances, held), bands.copy()
    parts = np.unique(np.concatenate([one.parts.ravel() for one in held]))
    low, high = np.maximum(values - bands, 0.0)[parts], (values + bands)[parts]
    reach[parts] = np.maximum(bands[parts], np.maximum(moved[parts] - low, high - moved[parts]))
    return moved, reach


def find_together(rules: Iterable[Rule], present: Container[str]) -> list[tuple[Rule, ...]]:
    """Return the rules whose streams are all there, those that share streams together."""
    return connect_rules([r for r in rules if not r.over_time and r.total in present and r.parts in present])


def reconcile_entries(rules: Sequence[Rule], factors: Factors, size: int, entries: Sequence[Entry]) -> list[Entry]:
    """Return a batch's entries, those steps reconciled that a total and its parts both have in the batch.

    factors  what a unit is worth, number by number, by stream;  size  of the population
    """
    made = list(entries)
    if not rules:
        return made
    places: dict[int, dict[str, int]] = {}
    for i, entry in enumerate(made):
        places.setdefault(entry.step, {})[entry.stream] = i
    alike: dict[tuple[Rule, ...], list[int]] = {}
    for step, present in places.items():
        for together in find_together(rules, present):
            alike.setdefault(together, []).append(step)
    for together, steps in alike.items():
        levels = Levels(together, factors, size)
        at = {name: [places[step][name] for step in steps] for name in levels.streams}
        given = {name: _estimates([made[i] for i in where], factors[name]) for name, where in at.items()}
        noise = made[next(iter(at.values()))[0]].releases[0].noise
        for name, after in levels.reconcile(given, noise).items():
            for i, value, spread in zip(at[name], _stack(after), after.spreads.tolist(), strict=True):
                made[i] = replace(made[i], value=value, spread=spread)
    return made


def _stack(found: Estimates) -> Floats:
    """Values with their bands behind them."""
    assert found.bands is not None
    return np.concatenate([found.values, found.bands], axis=1)


def _estimates(entries: Sequence[Entry], factors: Sequence[Fraction]) -> Estimates:
    """What each stream's own post-processing gave, or else the noisy values."""
    noisy = in_output_units(np.array([entry.noisy for entry in entries]), factors)
    own = [row if entry.value is None else entry.value for entry, row in zip(entries, noisy, strict=True)]
    return _split(np.array(own), np.array([entry.spread for entry in entries]), len(factors))


def _split(own: Floats, spreads: Floats, cells: int) -> Estimates:
    """Estimates from what a stream's post-processing gave: values, with bands behind them where an estimator gave them."""
    return Estimates(own[:, :cells], spreads, own[:, cells:] if own.shape[1] > cells else None)


class _Waiting(NamedTuple):
    """An entry whose batch is not complete yet, with its number, what its own post-processing gives, and the scale left then."""

    number: int
    entry: Entry
    expected: Expected
    scale: float

    @property
    def agrees(self) -> bool:
        """Whether the entry holds what is expected."""
        return self.expected.agrees(self.entry)


class ReconcileReplay:
    """Recomputes the streams that are, or once were, reconciled, as a ledger's entries are read: batch by batch.

    records  the rules, by the stream of the total;  factors  what a unit is worth, number by number, by stream
    replays  of each stream's own post-processing;  size  of the population, which a mean is divided by
    """

    def __init__(
        self, records: Mapping[str, RuleRecord], replays: Mapping[str, Replay], factors: Factors, size: int
    ) -> None:
        rules = {since.rule for record in records.values() for since in record if since.rule is not None}
        self._records, self._replays, self._factors, self._size = records, replays, factors, size
        self._waiting: dict[tuple[str, int], _Waiting] = {}
        self.streams = {name for rule in rules for name in (rule.total, rule.parts)}

    def find_changed(self, block: Sequence[tuple[int, Entry]], ends: Container[int]) -> Iterator[tuple[int, Entry]]:
        """Return the numbered entries that are not what post-processing gives; `ends` are the last numbers of batches."""
        expected: dict[str, Iterator[Expected]] = {
            name: self._replays[name].expect([entry for _, entry in block if entry.stream == name])
            for name in self.streams
        }
        for number, entry in block:
            if entry.stream in expected:
                made = next(expected[entry.stream])
                scale = self._replays[entry.stream].find_scale(entry) if made.spread is None else made.spread
                self._waiting[entry.stream, entry.step] = _Waiting(number, entry, made, scale)
            if number in ends:
                yield from self._close()

    def _close(self) -> Iterator[tuple[int, Entry]]:
        """Compare the entries of a batch that is complete."""
        batch, self._waiting = self._waiting, {}
        present: dict[int, set[str]] = {}
        for stream, step in batch:
            present.setdefault(step, set()).add(stream)
        alike: dict[tuple[Rule, ...], list[int]] = {}
        for step, streams in present.items():
            known = [find_rule(self._records.get(stream, ()), step) for stream in sorted(streams)]
            for together in find_together([rule for rule in known if rule is not None], streams):
                alike.setdefault(together, []).append(step)
        for together, steps in alike.items():
            levels = Levels(together, self._factors, self._size)
            both = {name: [batch[name, step] for step in steps] for name in levels.streams}
            for name, waiting in self._reconcile(levels, both).items():
                batch |= {(name, step): x for step, x in zip(steps, waiting, strict=True)}
            for step in steps:
                one = {name: batch[name, step] for name in levels.streams}
                stored = {name: x.entry.value for name, x in one.items() if x.entry.value is not None and x.agrees}
                if len(stored) == len(one) and not levels.adds_up(stored):
                    wrong = one[together[0].total]
                    yield wrong.number, wrong.entry
        yield from ((x.number, x.entry) for x in batch.values() if not x.agrees)

    def _reconcile(self, levels: Levels, both: Mapping[str, list[_Waiting]]) -> dict[str, list[_Waiting]]:
        """What the entries of some steps should hold, by stream."""
        given = {name: self._before(waiting) for name, waiting in both.items()}
        after = levels.reconcile(given, both[levels.streams[0]][0].entry.releases[0].noise)
        grid = levels.weigh(given) * COARSEST
        shown = [
            np.abs(x).max(axis=1)
            for e in (*given.values(), *after.values())
            for x in (e.values, e.bands)
            if x is not None
        ]
        reach = (np.max(shown, axis=0) + grid).tolist()
        return {
            name: [
                x._replace(expected=Expected(*made))
                for x, *made in zip(both[name], _stack(new), new.spreads.tolist(), reach, strict=True)
            ]
            for name, new in after.items()
        }

    def _before(self, waiting: Sequence[_Waiting]) -> Estimates:
        """A stream's own estimates in the output's unit."""
        factors = self._factors[waiting[0].entry.stream]
        own = [
            in_output_units(x.entry.noisy, factors) if x.expected.value is None else x.expected.value for x in waiting
        ]
        return _split(np.array(own), np.array([x.scale for x in waiting]), len(factors))
