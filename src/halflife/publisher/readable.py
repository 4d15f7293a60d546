"""Ledger entries as readers see them: values and error bands in the output's unit, from the ledger alone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np

from halflife.errors import InvalidInput
from halflife.ledger import Entry
from halflife.mechanisms import ScheduledMechanism
from halflife.numerics.arrays import Floats
from halflife.numerics.noise_sums import GAUSSIAN_BAND, LAPLACE_BAND
from halflife.outputs import Block, NoiseFacts
from halflife.policy import Channel
from halflife.policy.worth import Factors, Worth
from halflife.postprocessing.chains import Record, Since
from halflife.postprocessing.reconcile.rules import RuleRecord
from halflife.release import Release

BAND_OF_UNIT_SCALE = {"laplace": LAPLACE_BAND, "gaussian": GAUSSIAN_BAND}
"""95 % of the noise of scale 1 lies within ± this: P(|X| > x) = exp(−x) = 1/20 for Laplace noise."""

HINDSIGHT: Record = (Since(1, ({"name": "hindsight"},)),)
"""What is done to the values of revised outputs."""


def was_reconciled(stream: str, rules: Mapping[str, RuleRecord]) -> bool:
    """Return whether a stream was ever reconciled with others, as the total or as its parts, by the records of all totals."""
    known = [(total, since.rule) for total, record in rules.items() for since in record]
    return any(rule is not None and stream in (total, rule.parts) for total, rule in known)


def find_facts(channel: Channel, record: Record, reconciled: bool) -> NoiseFacts | None:
    """Return what is public about the noise in a stream's rows; None of a mechanism that says nothing about it, and of quantiles.

    record      the stream's post-processing, as the ledger has it
    reconciled  whether it was ever reconciled with others: then its rows mix the noises of all of them, whichever steps they were
    """
    mechanism = channel.make_mechanism()
    said = mechanism.noise_facts() if isinstance(mechanism, ScheduledMechanism) else None
    if said is None or channel.quantiles is not None:
        return None
    chains = [(since.step, [facts["name"] for facts in since.chain]) for since in record]
    if reconciled:
        chains = [(1, []), *chains] if not chains or chains[0][0] > 1 else chains
        chains = [(step, [*names, "reconcile"]) for step, names in chains]
    return NoiseFacts.of(said, chains, count_people(channel))


def count_people(channel: Channel) -> dict[str, int]:
    """Return how many people each group has, where a stream publishes means by group; empty where groups add up."""
    measure = channel.measure
    if measure.kind != "mean" or not channel.groups:
        return {}
    worth = measure.resolution * measure.weight_unit
    return {name: int(worth / factor) for name, factor in zip(channel.groups, channel.sized[-1].factors, strict=True)}


def in_output_units(units: Floats, factors: Sequence[Fraction]) -> Floats:
    """Return values in whole units converted to the output's unit, number by number.

    >>> in_output_units(np.array([500.0]), [Fraction(1, 1000)]).tolist()
    [0.5]
    """
    numerators = np.array([float(f.numerator) for f in factors])
    denominators = np.array([float(f.denominator) for f in factors])
    result: Floats = units * numerators / denominators
    return result


def _band(releases: Sequence[Release]) -> float:
    """The widest of the releases' bands for noise of scale 1; without any, of an output that is repeated, 1."""
    if not releases:
        return 1.0
    if len(releases) == 1:
        return BAND_OF_UNIT_SCALE[releases[0].noise]
    return max(BAND_OF_UNIT_SCALE[r.noise] for r in releases)


def noise_bounds(entries: Sequence[Entry]) -> Floats:
    """Return what the noise left in each number of an entry passes with 2.5 %, either way, in units."""
    return np.array([e.spread * _band(e.releases) for e in entries])


def make_readable(entries: Sequence[Entry], worth: Worth, *, banded: bool = False) -> Block:
    """Return a stream's entries as readers see them, with the half-width of the band that holds 95 % of the noise left in each.

    It is infinite where a value repeats an earlier one, as nobody knows how far the truth has moved since.

    worth    what a unit is worth in each noisy number
    banded   whether the stored value is that of quantiles: as many error bands stand behind the values
    """
    if not entries:
        return Block.of(())
    blocks = [_make_block(part, factors, banded) for factors, part in worth.cut(entries)]
    if len(blocks) == 1:
        return blocks[0]
    steps, starts, ends = ([x for part in column for x in part] for column in list(zip(*blocks, strict=True))[:3])
    return Block(steps, starts, ends, *(np.concatenate([block[i] for block in blocks]) for i in (3, 4)))


def noisy_values(entries: Sequence[Entry], worth: Worth) -> Floats:
    """Return the noisy values of a stream's entries in the output's unit (steps × cells), before any post-processing."""
    parts = (in_output_units(np.array([e.noisy for e in part]), factors) for factors, part in worth.cut(entries))
    return np.concatenate(list(parts))


def values_by_step(noisy: Floats, steps: Sequence[int], worth: Worth) -> Floats:
    """Return noisy values of some steps (steps × cells) in the output's unit."""
    if len(worth.since) == 1:
        return in_output_units(noisy, worth.newest)
    return np.array([in_output_units(row, worth.at(k)) for row, k in zip(noisy, steps, strict=True)])


def _make_block(entries: Sequence[Entry], factors: Factors, banded: bool) -> Block:
    if any(len(e.noisy) != len(factors) for e in entries):
        raise InvalidInput(f"an entry does not hold {len(factors)} numbers, one for each group and bin")
    if not all(e.releases or math.isinf(e.spread) for e in entries):
        raise InvalidInput("an entry was charged nothing, so its noise is unknown: see `halflife verify`")
    times = [e.step for e in entries], [e.start_us for e in entries], [e.end_us for e in entries]
    if banded:
        return Block(*times, *_split(entries))
    values = in_output_units(np.concatenate([e.noisy for e in entries]).reshape(-1, len(factors)), factors)
    bands = in_output_units(np.repeat(noise_bounds(entries)[:, None], len(factors), axis=1), factors)
    for k, e in enumerate(entries):
        if e.value is not None and len(e.value) == 2 * len(factors):  # a band for each value, where they have their own
            values[k], bands[k] = np.split(e.value, 2)
        elif e.value is not None:
            values[k] = e.value
    return Block(*times, values, bands)


def _split(entries: Sequence[Entry]) -> tuple[Floats, Floats]:
    """The values of quantiles, and their error bands."""
    stored = [e.value for e in entries if e.value is not None]
    if len(stored) < len(entries) or any(len(value) != len(stored[0]) or len(value) % 2 for value in stored):
        raise InvalidInput("an entry does not hold a value and an error band for each of its quantiles")
    values, bands = np.split(np.array(stored), 2, axis=1)
    return values, bands
