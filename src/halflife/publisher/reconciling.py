"""Reconciled entries: a step of a total and of its parts that are committed together are made to add up before anybody sees them.

Each stream's own post-processing comes first, then the projection of both onto what adds up, weighted by the noise that is left
in each. A step whose other half is not in the same batch, because it was passed over or published before, stays as it is. In
whole units every part counts once in the total and all have noise of one scale, so estimates have one `spread` a step as before.
What is stored is the estimates in the output's unit, and behind them their 95 % bands.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from halflife.errors import InvalidInput
from halflife.ledger import Entry
from halflife.numerics.arrays import Floats, Integers
from halflife.postprocessing.reconcile.least_squares import (
    mixture_of_part,
    mixture_of_total,
    project_non_negative,
    reconcile,
    settle,
)
from halflife.postprocessing.reconcile.rules import Rule, RuleRecord, find_rule
from halflife.publisher.drawing import find_spread
from halflife.publisher.readable import BAND_OF_UNIT_SCALE, in_output_units
from halflife.publisher.replay import Expected, Replay
from halflife.release import Noise

COARSEST = 1e-6
"""A part may be rounded another way on another machine: the grid of `settle` over what `ALIKE` allows for."""


class Estimates(NamedTuple):
    """Values of some steps in the output's unit (steps × cells), and the scale of the noise left in each step, in whole units."""

    values: Floats
    spreads: Sequence[float]


@dataclass(frozen=True, eq=False)
class Pair:
    """A total and its parts, by what a unit is worth in their outputs.

    lanes    how many numbers the total has: each adds up by itself
    weights  w_i, and `divisor` W: the total is Σ w_i x_i / W in the output's unit. 1 and 1 for sums; people for means
    """

    rule: Rule
    total_factors: tuple[Fraction, ...]
    part_factors: tuple[Fraction, ...]
    weights: Integers
    divisor: int

    @classmethod
    def of(cls, rule: Rule, total: Sequence[Fraction], parts: Sequence[Fraction], size: int) -> Pair:
        """Return the pair of a rule, in a population of this size; a unit of the total is one of each part.

        >>> means = Pair.of(Rule("city", "zones"), [Fraction(1, 500)], [Fraction(1, 300), Fraction(1, 200)], size=500)
        >>> means.weights.tolist(), means.divisor
        ([300, 200], 500)
        """
        if not total or not parts or len(parts) % len(total):
            raise InvalidInput(f"{len(parts)} numbers of {rule.parts} cannot be parts of {len(total)} of {rule.total}")
        lanes = len(total)
        shares = [total[0] / factor for factor in parts[::lanes]]
        divisor = 1 if set(shares) == {1} else size
        weights = np.array([int(share * divisor) for share in shares], dtype=np.int64)
        return cls(rule, tuple(total), tuple(parts), weights, divisor)

    @property
    def lanes(self) -> int:
        """How many numbers the total has."""
        return len(self.total_factors)

    def reconcile(self, total: Estimates, parts: Estimates, noise: Noise) -> tuple[Estimates, Estimates]:
        """Return total and parts of the same steps reconciled, each with its bands behind its values."""
        lanes, count, a = self.lanes, len(self.weights), self.weights / self.divisor
        rows = parts.values.reshape(len(parts.values), count, lanes)
        worth = in_output_units(np.ones(count * lanes), self.part_factors).reshape(count, lanes)
        whole = in_output_units(np.ones(lanes), self.total_factors)
        v = (np.array(parts.spreads)[:, None, None] * worth) ** 2
        found = reconcile(total.values, rows, (np.array(total.spreads)[:, None] * whole) ** 2, v, a)
        left = [self._spreads(t, s, noise) for t, s in zip(total.spreads, parts.spreads, strict=True)]
        of_total, of_parts = (np.array(x) * BAND_OF_UNIT_SCALE[noise] for x in zip(*left, strict=True))
        bands = of_parts[:, None, None] * worth
        exact = found.parts
        if self.rule.non_negative:
            exact = project_non_negative(exact, np.maximum(found.total, 0.0), v, a)
            bands = np.maximum(bands, _reach(exact, found.parts, bands))
        settled = settle(exact, self.weights, self.divisor)
        totals = np.concatenate([settled.total, of_total[:, None] * whole], axis=1)
        cells = [x.reshape(len(rows), -1) for x in (settled.parts, bands)]
        return Estimates(totals, [t for t, _ in left]), Estimates(np.concatenate(cells, axis=1), [s for _, s in left])

    def _spreads(self, total: float, part: float, noise: Noise) -> tuple[float, float]:
        """The scale of the noise left in the total, and in each part, of a step: public, whatever the values."""
        count = len(self.weights)
        mixtures = mixture_of_total(total, part, count), mixture_of_part(total, part, count)
        left, each = (find_spread(tuple(b for b in mixed if b > 0) or (0.0,), noise) for mixed in mixtures)
        return left, each

    def adds_up(self, total: Floats, parts: Floats) -> bool:
        """Return whether stored estimates add up to the last bit, as a reader would add them."""
        rows = parts[: len(parts) // 2].reshape(len(self.weights), self.lanes)
        return bool(np.all((self.weights[:, None] * rows).sum(axis=0) / self.divisor == total[: len(total) // 2]))


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


def _reach(moved: Floats, estimates: Floats, bands: Floats) -> Floats:
    """How far from a value that was moved the band of its estimate reaches, of which nothing below 0 is possible."""
    low, high = np.maximum(estimates - bands, 0.0), estimates + bands
    result: Floats = np.maximum(moved - low, high - moved)
    return result


def reconcile_entries(pairs: Iterable[Pair], entries: Sequence[Entry]) -> list[Entry]:
    """Return a batch's entries, of each pair those steps reconciled that both streams have in the batch."""
    made = list(entries)
    for pair in pairs:
        places: dict[str, dict[int, int]] = {pair.rule.total: {}, pair.rule.parts: {}}
        for i, entry in enumerate(made):
            if entry.stream in places:
                places[entry.stream][entry.step] = i
        totals, parts = places[pair.rule.total], places[pair.rule.parts]
        both = [step for step in totals if step in parts]
        if not both:
            continue
        at = [totals[step] for step in both], [parts[step] for step in both]
        total, part = (
            _estimates([made[i] for i in where], factors)
            for where, factors in zip(at, (pair.total_factors, pair.part_factors), strict=True)
        )
        for where, after in zip(at, pair.reconcile(total, part, made[at[0][0]].releases[0].noise), strict=True):
            for i, value, spread in zip(where, after.values, after.spreads, strict=True):
                made[i] = replace(made[i], value=value, spread=spread)
    return made


def _estimates(entries: Sequence[Entry], factors: Sequence[Fraction]) -> Estimates:
    """What each stream's own post-processing gave, or else the noisy values."""
    noisy = in_output_units(np.array([entry.noisy for entry in entries]), factors)
    values = [row if entry.value is None else entry.value for entry, row in zip(entries, noisy, strict=True)]
    return Estimates(np.array(values), [entry.spread for entry in entries])


class ReconcileReplay:
    """Recomputes the streams that are, or once were, reconciled, as a ledger's entries are read: batch by batch.

    records  the rules, by the stream of the total;  factors  what a unit is worth, number by number, by stream
    replays  of each stream's own post-processing;  size  of the population, which a mean is divided by
    """

    def __init__(
        self,
        records: Mapping[str, RuleRecord],
        replays: Mapping[str, Replay],
        factors: Mapping[str, Sequence[Fraction]],
        size: int,
    ) -> None:
        rules = {since.rule for record in records.values() for since in record if since.rule is not None}
        self._records, self._replays = records, replays
        self._pairs = {rule: Pair.of(rule, factors[rule.total], factors[rule.parts], size) for rule in rules}
        self._factors = factors
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
        together: dict[Rule, list[int]] = {}
        for stream, step in batch:
            rule = find_rule(self._records.get(stream, ()), step)
            if rule is not None and (rule.parts, step) in batch:
                together.setdefault(rule, []).append(step)
        for rule, steps in together.items():
            pair, streams = self._pairs[rule], (rule.total, rule.parts)
            found = self._reconcile(pair, *([batch[stream, step] for step in steps] for stream in streams))
            for step, total, parts in zip(steps, *found, strict=True):
                batch[rule.total, step], batch[rule.parts, step] = total, parts
                stored = [x.entry.value for x in (total, parts) if x.entry.value is not None and x.agrees]
                if len(stored) == 2 and not pair.adds_up(*stored):
                    yield total.number, total.entry
        yield from ((x.number, x.entry) for x in batch.values() if not x.agrees)

    def _reconcile(self, pair: Pair, *both: list[_Waiting]) -> list[list[_Waiting]]:
        """What the entries of some steps, of the total and of the parts, should hold."""
        given = [
            Estimates(np.array([self._before(x) for x in waiting]), [x.scale for x in waiting]) for waiting in both
        ]
        after = pair.reconcile(given[0], given[1], both[0][0].entry.releases[0].noise)
        weighed = (np.repeat(pair.weights, pair.lanes) * np.abs(given[1].values)).sum(axis=1) * COARSEST
        reach = np.max([np.abs(x.values).max(axis=1) for x in (*given, *after)], axis=0) + weighed
        return [
            [
                x._replace(expected=Expected(*made))
                for x, *made in zip(old, new.values, new.spreads, reach.tolist(), strict=True)
            ]
            for old, new in zip(both, after, strict=True)
        ]

    def _before(self, x: _Waiting) -> Floats:
        """A stream's own estimate in the output's unit."""
        own = x.expected.value
        return in_output_units(x.entry.noisy, self._factors[x.entry.stream]) if own is None else own
