"""What almost-periodic privacy needs declared: how far one person moves a statistic, by what repeats and by what varies.

`propose_sensitivities` uses public bounds alone. `look_at_private_changes` looks at people's data, and says so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from numbers import Real
from typing import Any, Literal, NamedTuple

import numpy as np

from halflife.errors import InvalidInput, unknown
from halflife.lab.almost_periodic.periodicity import read_homes
from halflife.numerics.parameters import real, whole
from halflife.numerics.rounding import ratio_up

Statistic = Literal["sum", "mean", "weighted sum", "histogram"]
STATISTICS: tuple[Statistic, ...] = ("sum", "mean", "weighted sum", "histogram")


class Declared(NamedTuple):
    """Sensitivities from public knowledge, rounded up, with the reason for each.

    pattern     Δf_z, for `plan(sensitivity=…)`
    variation   Δf_w, for `plan(variation_sensitivity=…)`; strong only, as the weak notion publishes variations exactly
    reasons     in words;  conditions  what weak mode needs besides
    """

    pattern: float
    variation: float
    reasons: tuple[str, ...]
    conditions: tuple[str, ...]

    def __str__(self) -> str:
        numbers = f"Δf_z = {self.pattern:.6g}, Δf_w = {self.variation:.6g} (strong only)"
        weak = [f"Weak mode only if: {text}" for text in self.conditions]
        return "\n".join([numbers, *self.reasons, *weak])


def propose_sensitivities(
    low: float,
    high: float,
    people: int,
    statistic: Statistic = "sum",
    *,
    weights: Sequence[float] | None = None,
    bins: int | None = None,
    missing: float = 0.0,
    resolution: float | None = None,
) -> Declared:
    """Propose Δf_z and Δf_w of a linear statistic from bounds on one reading, when one person's data is replaced (ours).

    low, high    every reading x = z + w lies between them, or is clipped to them; public
    people       how many there are at most, fixed and public; a mean divides by it
    statistic    "sum" Σx, "mean" Σx/n, "weighted sum" Σ a_i x_i (`weights`, public, one a person), "histogram" (counts of people
                 in `bins` bins, each in one; its L1 sensitivity)
    missing      what a missing reading, or one who has not come or has left, counts as
    resolution   readings are rounded to multiples of it before the clip: bounds are widened to the nearest multiples outside

    With a = 1, 1/n or max|a_i|:  Δf_z = a·(high − low), as z, a mean of readings, lies within the bounds;
    Δf_w = a·(max(high, c) − min(low, c)), with c = `missing`: z stays, so w moves the reading from anywhere it may be to
    anywhere, and a clip, a gap, joining and leaving count as variation (P4). The paper's sup over W would be twice as much where
    w may be any difference of two readings, but both readings of neighbours lie within the bounds. For a histogram both are 2: z
    is a point of the simplex (how often a person is in each bin), w moves the person from one bin to another.

    >>> declared = propose_sensitivities(0.0, 5.0, 250, "mean")
    >>> declared.pattern, declared.variation
    (0.02, 0.02)
    >>> propose_sensitivities(1.0, 5.0, 250)[:2], propose_sensitivities(0.0, 5.0, 250, "histogram", bins=10)[:2]
    ((4.0, 5.0), (2.0, 2.0))
    >>> propose_sensitivities(0.0, 5.0, 3, "weighted sum", weights=[1.0, -2.0, 0.5])[:2]
    (10.0, 10.0)
    """
    if statistic not in STATISTICS:
        raise unknown("statistic", statistic, STATISTICS)
    n = whole("people", people, least=1)
    if (weights is not None) != (statistic == "weighted sum"):
        raise InvalidInput(f"weights belong to a weighted sum, and it needs them: statistic is {statistic!r}")
    if (bins is not None) != (statistic == "histogram"):
        raise InvalidInput(f"bins belong to a histogram, and it needs them: statistic is {statistic!r}")
    lowest, highest, absent = _bounds(low, high, missing, resolution)
    if statistic == "histogram":
        return _histogram(whole("bins", bins, least=2))
    pull, why = _pull(statistic, n, weights)
    z = _up(pull * (Fraction(highest) - Fraction(lowest)))
    w = _up(pull * (Fraction(max(highest, absent)) - Fraction(min(lowest, absent))))
    span = f"[{lowest:g}, {highest:g}]"
    gap = "" if lowest <= absent <= highest else f", and a missing reading counts as {absent:g}, which lies outside"
    reasons = (
        f"Δf_z: what repeats is a mean of readings within {span}, so it can move by {highest - lowest:g}, {why}.",
        f"Δf_w: a clip, a gap, joining and leaving count as variation (P4), so it covers the full range of what a person may "
        f"add: readings within {span}{gap}; {why}.",
    )
    return Declared(z, w, reasons, _conditions(span))


def _conditions(span: str) -> tuple[str, ...]:
    return (
        f"no reading ever leaves {span}, so that the clip never binds (else the loss is infinite, P4)",
        "no reading is ever missing, and nobody joins or leaves",
        "variations are public: every change from one period to the next is published exactly",
    )


def _histogram(bins: int) -> Declared:
    reasons = (
        f"Δf_z: what repeats is how often a person is in each of {bins} bins, numbers that add up to 1: two such lists are "
        "at most 2 apart in L1.",
        "Δf_w: a variation moves a person from one bin to another, or to none: two counts change by 1 at most.",
        "The statistic is linear in the bins that people are in, not in their readings: those must be almost periodic.",
    )
    weak = "everybody is in exactly one bin at every step"
    return Declared(2.0, 2.0, reasons, (weak, *_conditions("the bins")[1:]))


def _bounds(low: object, high: object, missing: object, resolution: object) -> tuple[float, float, float]:
    """The bounds, outward to multiples of the resolution."""
    a, b, c = _check_number("low", low), _check_number("high", high), _check_number("missing", missing)
    if not a < b:
        raise InvalidInput(
            f"low = {low!r} must lie below high = {high!r}: bounds are public, and a reading lies between them"
        )
    if resolution is None:
        return a, b, c
    unit = real("resolution", resolution, positive=True)
    if b - a < unit:
        raise InvalidInput(
            f"the resolution {unit:g} is coarser than the bounds are apart ({b - a:g}): give a finer one"
        )
    return _multiple(a, unit, math.floor), _multiple(b, unit, math.ceil), c


def _check_number(name: str, x: object) -> float:
    """A finite number of either sign."""
    if isinstance(x, bool) or not isinstance(x, Real):
        raise InvalidInput(f"{name} must be a number, not {x!r}")
    return math.copysign(real(f"|{name}|", abs(float(x))), float(x))


def _multiple(x: float, unit: float, outward: Any) -> float:
    """x if it is a multiple of the unit to 12 digits, else the next multiple outward."""
    nearest = round(x / unit)
    return (
        x if math.isclose(nearest * unit, x, rel_tol=1e-12, abs_tol=1e-12 * unit) else float(outward(x / unit)) * unit
    )


def _pull(statistic: Statistic, people: int, weights: Sequence[float] | None) -> tuple[Fraction, str]:
    """How much one person's reading counts, exactly, and the same in words."""
    if statistic == "mean":
        return Fraction(1, people), f"divided by {people:,} people"
    if weights is None:
        return Fraction(1), "counted once"
    sizes = [abs(_check_number("a weight", a)) for a in weights]
    if len(sizes) != people:
        raise InvalidInput(f"{len(sizes)} weights were given for {people} people: give one for each")
    if not max(sizes) > 0:
        raise InvalidInput("every weight is 0: the statistic does not depend on anybody")
    return Fraction(max(sizes)), f"times the largest weight {max(sizes):g}"


def _up(exact: Fraction) -> float:
    return ratio_up(exact.numerator, exact.denominator)


# A look at data -----------------------------------------------------------------------------------------------------

COST = (
    "Its cost is without bound: these are exact facts about these people, so no ε covers using them for a release about the same "
    "people. Look at a design sample of other people, who are not in the release; or pay: release a quantile through a mechanism "
    "of its own, and charge it to the account."
)


class PrivateLook(NamedTuple):
    """What a look at people's private readings found. It must not become a bound for the same people: see `cost`.

    change      quantile over homes of the largest change of a reading from one period to the next, same phase
    deviation   quantile over homes of the largest |w|, the distance of a reading from the home's own mean of that phase
    pattern     quantile over homes of the largest |z|
    quantile    which;  homes  how many were looked at
    beyond      share of readings whose change is larger than `change`: in the data looked at
    """

    change: float
    deviation: float
    pattern: float
    quantile: float
    homes: int
    beyond: float
    looked_at_private_data: bool = True
    cost: str = COST

    def __str__(self) -> str:
        return (
            f"A look at private data of {self.homes} homes: for {100 * self.quantile:g} % of them no reading changes by more "
            f"than {self.change:.4g} from one period to the next; for as many none lies further than {self.deviation:.4g} from "
            f"the home's own mean, and the pattern stays within ±{self.pattern:.4g}. {100 * self.beyond:.2g} % of all changes "
            f"are larger. {self.cost}"
        )


def look_at_private_changes(readings: Any, period: int, quantile: float = 0.99) -> PrivateLook:
    """LOOKS AT PRIVATE DATA: return how far homes' readings move from period to period, for designing with a sample (ours).

    readings   homes × steps, NaN where missing, or a list of sequences;  period  in steps
    quantile   of the homes that the numbers hold for

    The outcome must not be used as a bound, a clip or a sensitivity for the same people: it depends on them exactly, and a
    release whose noise depends on it has no finite loss. It is for a design sample of other people. Missing readings make no
    change.

    >>> look = look_at_private_changes([[1.0, 2.0, 1.5, 2.0, 1.0, 2.0], [0.0, 0.0, 0.0, 3.0, 0.0, 0.0]], 2, quantile=1.0)
    >>> look.change, look.deviation, look.looked_at_private_data
    (3.0, 2.0, True)
    """
    values = read_homes(readings, fewest=1)
    t = whole("period", period, least=1)
    if 2 * t > values.shape[1]:
        raise InvalidInput(
            f"a period of {t:,} steps does not fit twice into {values.shape[1]:,} steps: nothing can change"
        )
    q = real("quantile", quantile, limit=1.0)
    cube = values[:, : values.shape[1] // t * t].reshape(len(values), -1, t)
    known = np.isfinite(cube)
    z = np.nan_to_num(cube).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
    changes = np.abs(np.diff(cube, axis=1))
    if not np.isfinite(changes).any():
        raise InvalidInput("no home has readings in two neighbouring periods: there is no change to look at")
    largest = np.nanmax(changes, axis=(1, 2), initial=0.0)
    far = np.nanmax(np.abs(cube - z[:, None, :]), axis=(1, 2), initial=0.0)
    change, deviation, pattern = (
        float(np.quantile(x, q, method="higher")) for x in (largest, far, np.abs(z).max(axis=1))
    )
    beyond = float(np.mean(changes[np.isfinite(changes)] > change))
    return PrivateLook(change, deviation, pattern, q, len(values), beyond)
