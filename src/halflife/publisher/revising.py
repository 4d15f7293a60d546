"""Estimates with hindsight of a stream, and of streams that add up: over groups, over time, and level by level.

Of streams that add up, in this order:

1. Raw values are reconciled by generalised least squares, with all that is known of their noise: its scale in every step, and
   which noise is used again. A day whose half hours are not all published is left out of it. Half hours that came out too high
   for their day are corrected before anything is smoothed, and the day has the least variance that the values allow.
2. Each stream is estimated by itself, with the variance that is left in its values. (Corrections make the noises of a day's half
   hours correlated, below 0: they average out a little faster than the estimator takes into account.)
3. The estimates are projected onto what adds up, in units of their bands. Errors of zones are taken as independent. Those of a
   day's half hours are not, once smoothed: a share `TOGETHER` of their variance is taken as one error of all of them. It decides
   who gives way, the day or its half hours, and no more than that.

Bands stay what the estimators gave: narrower ones would rest on correlations that nobody knows. Compared by simulation with
estimates that were projected without step 1: see docs/decisions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from halflife.ledger import Entry
from halflife.numerics.arrays import Floats
from halflife.plans.base import STD_OF_UNIT_SCALE
from halflife.policy import Channel
from halflife.policy.streams import steps_per_day
from halflife.postprocessing import Facts, Seasonal, Truncate
from halflife.postprocessing.base import Estimate
from halflife.postprocessing.reconcile import Common, Rule, reconcile, settle
from halflife.postprocessing.reconcile.series import Series, make_sums
from halflife.postprocessing.structural.estimator import Structural
from halflife.postprocessing.vintages import combine_vintages
from halflife.publisher.drawing import find_spread, post_facts
from halflife.publisher.readable import in_output_units, noisy_values
from halflife.publisher.reconciling import hold_above
from halflife.publisher.replay import find_scales

MIXED = 0.5
"""Values with no more than this share of their own noise, and else of many others', have errors that are nearly normal."""
TOGETHER = 0.25
"""The share of the variance of a day's estimates that is one error of all of its steps."""


class Raw:
    """The noisy values of a stream in the output's unit (steps × cells), the scale of each step's noise, and other facts."""

    def __init__(self, channel: Channel, entries: Sequence[Entry], again: Sequence[Sequence[Entry]] = ()) -> None:
        worth = channel.worth
        factors = worth.at(entries[-1].step)
        self.channel, self.entries, self.factors = channel, entries, factors
        self.worth = in_output_units(np.ones(len(factors)), factors)
        self.values = noisy_values(entries, worth)
        noises, noise = list(find_scales(entries)), entries[0].releases[0].noise
        self.scales = np.array([find_spread(found, noise) for found in noises])
        if len(worth.since) > 1:  # in units of now: the noise of a mean of fewer people is larger
            self.scales *= [max(float(a / b) for a, b in zip(worth.at(e.step), factors, strict=True)) for e in entries]
        for vintage in again:
            self._correct(vintage)
        starts, releases = [e.start_us for e in entries], [e.releases for e in entries]
        steps = np.array([e.step for e in entries])
        self.facts = post_facts(steps, starts, channel.steps.zone, releases, noises, noise, self.worth)

    def _correct(self, vintage: Sequence[Entry]) -> None:
        """Combine the values of steps that were published again with those before; no noise is reused where any was."""
        later, std = Raw(self.channel, vintage), STD_OF_UNIT_SCALE[vintage[0].releases[0].noise]
        rows = np.searchsorted([e.step for e in self.entries], [e.step for e in vintage])
        before, after = self.scales[rows] * std, later.scales * std * float((later.worth / self.worth).max())
        found, variances = combine_vintages(
            self.values[rows] / self.worth, before**2, later.values / self.worth, after**2
        )
        self.values[rows], self.scales[rows] = found * self.worth, np.sqrt(variances) / std

    def number(self, first: int) -> Series:
        """Return its values, numbered from `first` on."""
        starts, ends = (np.array([getattr(e, key) for e in self.entries]) for key in ("start_us", "end_us"))
        cells = first + np.arange(self.values.size).reshape(self.values.shape)
        assert self.facts.steps is not None
        return Series(self.facts.steps, starts, ends, cells, self.factors)

    def find_variances(self) -> Floats:
        """Return the variance of the noise that each value has to itself."""
        fresh = self.scales if self.facts.reused is None else self.facts.fresh
        result: Floats = ((fresh * self.facts.std)[:, None] * self.worth) ** 2
        return result

    def find_common(self, series: Series) -> list[Common]:
        """Return the noises that are used again: of each, cell by cell, which values carry it."""
        if self.facts.reused is None:
            return []
        scales, rows = dict[str, float](), dict[str, list[int]]()
        for k, entry in enumerate(self.entries):
            scales |= {r.draw: r.scale or 0.0 for r in entry.releases if r.draw is not None}
            for name in sorted({str(r.draw or r.atop) for r in entry.releases if r.draw or r.atop}):
                rows.setdefault(name, []).append(k)
        return [
            Common(series.cells[at, cell], np.full(len(at), scales[name] * self.facts.std * worth))
            for name, at in rows.items()
            for cell, worth in enumerate(self.worth.tolist())
        ]

    def estimate(self, values: Floats | None = None, variances: Floats | None = None) -> Estimate:
        """Return the estimates of all steps given all of them: of its own values, or of others of these variances."""
        smoothers = self.channel.smoothers()
        own = next((s for s in smoothers if isinstance(s, Structural)), Seasonal(steps_per_day(self.channel.steps)))
        if values is None or variances is None:
            return own.look_back(self.values, self.scales, self.facts)
        std = self.facts.std * self.worth
        before = self.find_variances() + (0.0 if self.facts.reused is None else (self.facts.reused[:, None] * std) ** 2)
        ratio = np.sqrt(np.divide(variances, before, out=np.zeros_like(before), where=before > 0).max(axis=1))
        unit = 1.0 if np.median(ratio) ** 2 > MIXED or self.facts.std == 1 else self.facts.std
        reused = None if self.facts.reused is None else self.facts.reused * ratio * unit
        facts: Facts = replace(
            self.facts, std=self.facts.std / unit, fresh=self.facts.fresh * ratio * unit, reused=reused
        )
        return own.look_back(values, self.scales * ratio * unit, facts)


def estimate_alone(raw: Raw) -> Estimate:
    """Return the estimates of a stream that adds up with no other; a `truncate` that it has is applied."""
    found = raw.estimate()
    for smoother in raw.channel.smoothers():
        if isinstance(smoother, Truncate):
            found = found._replace(values=smoother.smooth(found.values, raw.scales, raw.facts)[0])
    return found


def estimate_together(raws: Mapping[str, Raw], rules: Sequence[Rule], size: int) -> dict[str, Estimate]:
    """Return the estimates of streams that add up, to the last bit, by stream.

    rules  from the top down;  size  of the population
    """
    numbered, first = dict[str, Series](), 0
    for name, raw in raws.items():
        numbered[name] = raw.number(first)
        first += raw.values.size
    by_rule = [(rule, make_sums(rule, numbered[rule.total], numbered[rule.parts], size)) for rule in rules]
    sums = [one for _, found in by_rule for one in found]
    common = [one for name, raw in raws.items() for one in raw.find_common(numbered[name])]
    fitted = reconcile(
        _flatten(r.values for r in raws.values()), _flatten(r.find_variances() for r in raws.values()), sums, common
    )
    estimates = {
        name: raw.estimate(fitted.values[numbered[name].cells], fitted.variances[numbered[name].cells])
        for name, raw in raws.items()
    }
    values, bands = (_flatten(getattr(e, key) for e in estimates.values()) for key in ("values", "bands"))
    after = reconcile(values, bands**2, sums, together=TOGETHER).values
    after, bands = hold_above(by_rule, after, bands, bands**2)
    settled = settle(after, sums)
    return {name: Estimate(settled[s.cells], bands[s.cells]) for name, s in numbered.items()}


def _flatten(arrays: Iterable[Floats]) -> Floats:
    return np.concatenate([array.ravel() for array in arrays])
