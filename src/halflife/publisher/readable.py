"""Ledger entries as readers see them: values and error bands in the output's unit, from the ledger alone."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from halflife.errors import InvalidInput
from halflife.ledger import Entry
from halflife.numerics.arrays import Floats
from halflife.outputs import Block, Published
from halflife.release import Release

BAND_OF_UNIT_SCALE = {"laplace": 2.995732273553991, "gaussian": 1.959963984540054}
"""95 % of the noise of scale 1 lies within ± this: P(|X| > x) = exp(−x) = 1/20 for Laplace noise."""


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
    """The widest of the releases' bands for noise of scale 1."""
    if len(releases) == 1:
        return BAND_OF_UNIT_SCALE[releases[0].noise]
    return max(BAND_OF_UNIT_SCALE[r.noise] for r in releases)


def noise_bounds(entries: Sequence[Entry]) -> Floats:
    """Return what the noise left in each number of an entry passes with 2.5 %, either way, in units."""
    return np.array([e.spread * _band(e.releases) for e in entries])


def make_readable(entries: Sequence[Entry], factors: Sequence[Fraction], *, banded: bool = False) -> list[Published]:
    """Return entries as readers see them, with the half-width of the band that holds 95 % of the noise left in each.

    factors  what a unit is worth in each noisy number
    banded   whether the stored value is that of quantiles: as many error bands stand behind the values
    """
    return make_readable_block(entries, factors, banded=banded).items() if entries else []


def make_readable_block(entries: Sequence[Entry], factors: Sequence[Fraction], *, banded: bool = False) -> Block:
    """Return entries as readers see them, as one block of columns; there must be at least one."""
    if any(len(e.noisy) != len(factors) for e in entries):
        raise InvalidInput(f"an entry does not hold {len(factors)} numbers, one for each group and bin")
    if not all(e.releases for e in entries):
        raise InvalidInput("an entry was charged nothing, so its noise is unknown: see `halflife verify`")
    times = [e.step for e in entries], [e.start_us for e in entries], [e.end_us for e in entries]
    if banded:
        return Block(*times, *_split(entries))
    values = in_output_units(np.concatenate([e.noisy for e in entries]).reshape(-1, len(factors)), factors)
    for k, e in enumerate(entries):
        if e.value is not None:
            values[k] = e.value
    bands = in_output_units(np.repeat(noise_bounds(entries)[:, None], len(factors), axis=1), factors)
    return Block(*times, values, bands)


def _split(entries: Sequence[Entry]) -> tuple[Floats, Floats]:
    """The values of quantiles, and their error bands."""
    stored = [e.value for e in entries if e.value is not None]
    if len(stored) < len(entries) or any(len(value) != len(stored[0]) or len(value) % 2 for value in stored):
        raise InvalidInput("an entry does not hold a value and an error band for each of its quantiles")
    values, bands = np.split(np.array(stored), 2, axis=1)
    return values, bands
