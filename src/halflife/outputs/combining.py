"""Sums, means and differences of published values, each with the band that holds 95 % of its error.

A combination is y = Σ a_i y_i over rows of outputs. What its error is follows from the noises that the rows carry:

**Raw rows**: the truth and noises that have numbers. A noise that several rows carry has one coefficient, the sum of theirs,
before anything is squared: the difference of two rows with the same noise carries none. The band is that of the sum of
independent noises with these coefficients, exactly (`numerics/noise_sums.py`).

**Rows whose errors are correlated in an unknown way**: estimates (averages and filters share their terms), truncated values
(whose errors lean to one side and do not cancel), and rows of which nothing is known. Standard deviations add up at the most, and
bands with them: h = Σ |a_i| h_i. For linear estimates from Laplace noise that holds because of all sums of Laplace noises of one
variance a single noise has the widest band (computed in the tests, not proved for all sums), and the bands of rows are those of
a single one. For truncated noise it holds because P(Σ w_i E_i > ln 20 · Σ w_i) ≤ 1/20 for exponential E_i (Bock, Diaconis,
Huffer, Perlman 1987). Raw rows beside such rows count as one noise of their variance, whose band is added. (ours)

The band is about the errors that the rows' own bands count: how far a moving average lags behind the truth is not in it.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from halflife.errors import InvalidInput
from halflife.numerics.arrays import Floats, Integers
from halflife.numerics.forms import JsonObject
from halflife.numerics.noise_sums import GAUSSIAN_BAND, LAPLACE_BAND, band_of_noises
from halflife.numerics.parameters import real


class Source(NamedTuple):
    """Whose noises are meant: a stream's, as one reading of its output numbers them."""

    stream: str
    family: str
    reading: int


class Noises(NamedTuple):
    """Independent noises by number, each with its scale times its coefficient."""

    numbers: Integers
    scales: Floats


def add_up(numbers: Integers, scales: Floats) -> Noises:
    """Return each noise once, with its coefficients added up.

    >>> [part.tolist() for part in add_up(np.array([7, 3, 7]), np.array([1.0, 2.0, -1.0]))]
    [[3, 7], [2.0, 0.0]]
    """
    found, places = np.unique(numbers, return_inverse=True)
    sums: Floats = np.bincount(places, weights=scales, minlength=len(found)).astype(np.float64)
    return Noises(found, sums)


@dataclass(frozen=True, repr=False, eq=False)
class Combination:
    """A sum, mean or difference of published values. Combinations are added, subtracted, and multiplied by numbers.

    value       Σ a_i y_i, in `unit`
    steps       how many steps it is of;  missing  how many more lie in its time that the output does not hold
    start, end  the time that it is about; None for what was added or subtracted
    noises      those of raw rows;  bound  Σ |a_i| h_i of all others;  remarks  why bands were added up, in words

    >>> noises = {Source("s", "laplace", 1): Noises(np.array([1, 2]), np.array([3.0, 4.0]))}
    >>> a = Combination(10.0, noises=noises)
    >>> round(a.band, 3), (a - a).band, round((2 * a + a).band, 3), a.covers
    (14.558, 0.0, 43.673, '2 independent noises, counted exactly')
    """

    value: float
    unit: str = ""
    steps: int = 0
    missing: int = 0
    start: datetime.datetime | None = None
    end: datetime.datetime | None = None
    noises: Mapping[Source, Noises] = field(default_factory=dict)
    bound: float = 0.0
    remarks: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Combination({self.value:.6g} ± {self.band:.6g}{f' {self.unit}' if self.unit else ''}, {self.steps:,} steps)"

    @property
    def band(self) -> float:
        """The half-width of the interval around the value that holds the truth with 95 %; infinite where nobody knows one."""
        if self.bound:
            return widest_band(self.noises) + self.bound
        return band_of_noises(*_parts(self.noises))

    @property
    def covers(self) -> str:
        """What the band rests on, in words."""
        count = sum(int(np.count_nonzero(noises.scales)) for noises in self.noises.values())
        how = "counted as one" if self.bound else "counted exactly"
        told = [f"{count:,} independent noise{'s' if count > 1 else ''}, {how}"] if count else []
        return "; ".join([*told, *self.remarks]) or "no noise: the value is exact"

    def to_dict(self) -> JsonObject:
        """Return value, band (None if it is infinite), what it covers, steps and times, as JSON can hold them."""
        start, end = (None if moment is None else moment.isoformat() for moment in (self.start, self.end))
        band = self.band if math.isfinite(self.band) else None
        return {
            "start": start, "end": end, "value": self.value, "band": band, "unit": self.unit, "steps": self.steps,
            "missing": self.missing, "covers": self.covers,
        }  # fmt: skip

    def __add__(self, other: object) -> Combination:
        """Return the sum. A noise that both carry is counted as one; noises of streams of different names are independent."""
        if not isinstance(other, Combination):
            return NotImplemented
        if self.unit and other.unit and self.unit != other.unit:
            raise InvalidInput(f"{self.unit} and {other.unit} cannot be added up")
        noises, bound, remarks = dict(self.noises), self.bound + other.bound, [*self.remarks, *other.remarks]
        for source, carried in other.noises.items():
            known = noises.get(source)
            if known is not None:
                both = zip(known, carried, strict=True)
                noises[source] = add_up(*(np.concatenate(pair) for pair in both))
            elif any(source.stream == held.stream for held in noises):
                bound += widest_band({source: carried})
                remarks.append(f"{source.stream!r} was read twice, and may be one stream or two: bands were added up")
            else:
                noises[source] = carried
        steps, missing = self.steps + other.steps, self.missing + other.missing
        told = tuple(dict.fromkeys(remarks))
        return Combination(
            self.value + other.value, self.unit or other.unit, steps, missing, None, None, noises, bound, told
        )

    def __mul__(self, factor: float) -> Combination:
        """Return a multiple."""
        a = real("factor", abs(factor)) * (-1 if factor < 0 else 1)
        noises = {source: Noises(n.numbers, a * n.scales) for source, n in self.noises.items()}
        return replace(self, value=a * self.value, noises=noises, bound=abs(a) * self.bound if a else 0.0)

    __rmul__ = __mul__

    def __truediv__(self, number: float) -> Combination:
        """Return the combination over a number."""
        if number == 0:
            raise InvalidInput("nothing can be divided by 0")
        return self * (1 / number)

    def __neg__(self) -> Combination:
        """Return the combination with all signs changed."""
        return self * -1.0

    def __sub__(self, other: Combination) -> Combination:
        """Return the difference."""
        return self + -other


def _parts(noises: Mapping[Source, Noises]) -> tuple[Floats, float]:
    """The scales of all Laplace noises, and the standard deviation of the sum of all Gaussian ones."""
    scales: dict[str, list[Floats]] = {"laplace": [np.empty(0)], "gaussian": [np.empty(0)]}
    for source, carried in noises.items():
        scales[source.family].append(carried.scales)
    return np.concatenate(scales["laplace"]), float(np.linalg.norm(np.concatenate(scales["gaussian"])))


def widest_band(noises: Mapping[Source, Noises]) -> float:
    """Return the band of noises that may go together with errors that they are correlated with: as if they were one noise."""
    laplace, deviation = _parts(noises)
    return LAPLACE_BAND * float(np.linalg.norm(laplace)) + GAUSSIAN_BAND * deviation
