"""The least noise with which a number of equal releases keep (ε, δ) in all: for one number and ε, or for millions.

`equal_split` answers exactly, by a search with the loss distribution of all releases together. For millions of distinct ε
a few points of that curve are computed, and every ε between two of them is answered from both, on the safe side:

A release of loss ρ has the loss variable ρU, with P(U ≤ v) = ½ e^{−ρ(1−v)/2} on [−1, 1) for Laplace noise and U normal with
mean ρ/2 for Gaussian noise (ρ is μ then). Both grow with ρ in stochastic order, and so does the sum S of T of them. Thus
δ(ρe) = E max(0, 1 − e^{ρ(e−S)}) is nondecreasing in ρ for each e, and therefore (ours):

    ε(ρ)/ρ is nondecreasing in ρ at fixed T and δ.

So a computed point (ρ_i, ε_i) certifies the scale 1/ρ_i for every ε ≥ ε_i, and the scale (ε_i/ρ_i)/ε for every ε ≤ ε_i.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from halflife.errors import InvalidInput, unknown
from halflife.notions.composition import Exact, check_delta, gaussian_losses, laplace_losses
from halflife.notions.gaussian_dp import gaussian_epsilon, gaussian_mu
from halflife.numerics.arrays import Floats, Integers
from halflife.numerics.parameters import real, whole
from halflife.numerics.rounding import SMALLEST_NORMAL, divide_down, divide_up, float_up, to_units
from halflife.release import NOISES, Noise

FEW_PAIRS = 200
"""Up to so many distinct (T, ε) are calibrated one by one, to a part in 10⁷."""

LAPLACE_STEP = 0.008
GAUSSIAN_STEP = 0.001
"""With more pairs: how far, relatively, a scale may lie above the least one."""

NEAR_DURATIONS = 0.004
"""With more pairs: a T so little below another one is answered by it, which only adds noise."""

TABULATED = (2.0**-20, 2.0**10)
"""With more pairs: the ε for which points are computed; any other is answered by the nearest of them, with more noise."""

LARGEST_EPSILON = 1e6


def composed_epsilon(duration: int, loss: float, delta: float, noise: Noise) -> float:
    """Return the ε at δ of `duration` releases of one loss (ρ, or μ for Gaussian noise), rounded up.

    δ = 0: duration · loss (paper; Laplace noise only). Gaussian: Gaussian DP of √duration · μ (known: Dong, Roth, Su 2022).
    Laplace with δ > 0: the loss distribution of all of them (known: T6), never more than duration · loss.

    >>> composed_epsilon(4, 0.25, 0.0, "laplace")
    1.0
    >>> round(composed_epsilon(65, 1 / 363.45, 1 / 117_716_237, "laplace"), 5)
    0.1
    """
    n, d = whole("duration", duration, least=1), _delta(delta, noise)
    size = real("loss", loss)
    if size == 0:
        return 0.0
    if noise == "gaussian":
        return Exact(d).epsilon(gaussian_losses(size, n))
    if d == 0:
        return float_up(n * to_units(size))
    return Exact(d).epsilon(laplace_losses(size, n))


def quieter(duration: int, epsilon: float, delta: float) -> tuple[Noise, float]:
    """Return the family whose noise has the smaller standard deviation for so many releases, and its unit scale (T6).

    The unit scale is 1/ρ or 1/μ: the scale λ or σ for sensitivity 1, rounded up. The standard deviation is √2 λ or σ.
    δ = 0 leaves Laplace noise alone.

    >>> quieter(4, 0.5, 0.0)
    ('laplace', 8.0)
    >>> [quieter(T, 0.1, 1 / 117_716_237)[0] for T in (1, 10, 11)]
    ['laplace', 'laplace', 'gaussian']
    """
    n, e, d = whole("duration", duration, least=1), _epsilon(epsilon), check_delta(delta)
    if d == 0:
        return "laplace", divide_up(float(n), e)
    laplace, gaussian = _unit_scale(e, d, n, "laplace"), _unit_scale(e, d, n, "gaussian")
    return ("laplace", laplace) if math.sqrt(2) * laplace <= gaussian else ("gaussian", gaussian)


def unit_scales(durations: ArrayLike, epsilons: ArrayLike, delta: float, noise: Noise) -> Floats:
    """Return for each T and ε the noise scale per unit of sensitivity with which T releases are (ε, δ)-DP, rounded up.

    δ = 0: T/ε (paper; Laplace noise only). Gaussian: √T/μ(ε, δ) (known). Laplace with δ > 0: 1/ρ(T, ε, δ) by exact
    accounting (known; T6), never more than T/ε. Every scale keeps its (ε, δ). Up to FEW_PAIRS distinct (T, ε) are the least
    to a part in 10⁷. With more they come from tables (ours; see above) and are at most about 1 % above the least (Gaussian:
    0.1 %), and a quarter of a second is spent on each distinct T. So a scale can change by that much with the rest of the
    columns. In the same columns a longer T or a smaller ε never gets less noise.

    >>> unit_scales([4, 65, 672], [0.5, 0.1, 0.1], 1 / 117_716_237, "laplace").round(2)
    array([   8.  ,  363.45, 1195.83])
    >>> unit_scales([4, 65], [0.5, 0.1], 0.0, "laplace")
    array([  8., 650.])
    """
    d = _delta(delta, noise)
    lengths, limits = _columns(durations, epsilons)
    if d == 0:
        return _ratio_up(lengths, limits)
    groups = _by_duration(lengths)
    pairs = _few_pairs(groups, limits)
    if pairs is not None:
        return _each(groups, limits, pairs, d, noise)
    if noise == "gaussian":
        low, high = _octaves(limits)
        table = _Table.of(_gaussian_points(low, high, d))
        scales: Floats = table.scales(limits) * np.sqrt(lengths) * (1 + 1e-11)
        return scales
    return _laplace_scales(groups, limits, d)


@lru_cache(maxsize=4096)
def equal_split(epsilon: float, delta: float, together: int, noise: Noise) -> float:
    """Return the largest loss of which `together` releases are (ε, δ)-DP in all, rounded down.

    The Swellfish paper's setting (T6), δ = 1/117,716,237 and ε = 0.1: scales 363.45 (Laplace) and 372.88 (Gaussian) for
    65 releases, where Theorem 10 asks for 650.6.

    >>> round(1 / equal_split(0.1, 1 / 117_716_237, 65, "gaussian"), 2)
    372.88
    """
    if noise == "laplace":
        return _laplace_loss(epsilon, delta, together, 1e-7)
    mu = gaussian_mu(epsilon, delta) * (1 - 1e-12)
    loss = math.sqrt(mu * mu / together)
    while to_units(math.nextafter(loss * loss, math.inf)) * together > to_units(mu * mu):
        loss = math.nextafter(loss, 0.0)
    return loss


def _laplace_loss(epsilon: float, delta: float, together: int, precision: float) -> float:
    """Return a loss that is verified to keep ε, within `precision` of one that does not.

    As ε(ρ)/ρ hardly changes, ρ · ε/ε(ρ) is nearly right at once; where it is not, the bracket is halved instead.
    """
    pure = divide_down(epsilon, float(together))
    low, high, width = pure, (epsilon - 2 * math.log1p(-delta)) * (1 + 1e-9), math.inf
    loss = pure
    while True:
        risk = composed_epsilon(together, loss, delta, "laplace")
        if risk > epsilon and loss == pure:
            return pure * (1 - 1e-12)  # the pure sum itself, but for the last digit
        low, high = (loss, high) if risk <= epsilon else (low, loss)
        if epsilon * (1 - precision) <= risk <= epsilon or high <= low * (1 + precision):
            return low
        guess = loss * (epsilon * (1 - precision / 2) / risk) if risk > 0 else math.inf
        halved, width = math.log(high / low) <= width / 2, math.log(high / low)
        loss = guess if halved and low < guess < high else math.sqrt(low * high)


def _unit_scale(epsilon: float, delta: float, together: int, noise: Noise) -> float:
    scale = divide_up(1.0, equal_split(epsilon, delta, together, noise))
    return min(scale, divide_up(float(together), epsilon)) if noise == "laplace" else scale


class _Point(NamedTuple):
    """A loss, and the ε that it was computed to have, rounded up."""

    loss: float
    epsilon: float

    @property
    def slope(self) -> float:
        return divide_up(self.epsilon, self.loss)


class _Table(NamedTuple):
    """Points by ascending ε; for i of them at or below an ε, the least scale of those, and the least slope of the others."""

    points: tuple[_Point, ...]
    epsilons: Floats
    scale_below: Floats
    slope_above: Floats

    @classmethod
    def of(cls, points: Iterable[_Point]) -> _Table:
        kept = tuple(sorted(points, key=lambda p: (p.epsilon, p.loss)))
        scales = np.array([math.inf, *(divide_up(1.0, p.loss) for p in kept)])
        slopes = np.array([*(p.slope for p in kept), math.inf])
        return cls(
            kept,
            np.array([p.epsilon for p in kept]),
            np.minimum.accumulate(scales),
            np.minimum.accumulate(slopes[::-1])[::-1],
        )

    def scales(self, limits: Floats) -> Floats:
        """Return the least scale that a point certifies for each ε: 1/ρ_i if ε_i ≤ ε, (ε_i/ρ_i)/ε if ε ≤ ε_i."""
        at = np.searchsorted(self.epsilons, limits, side="right")
        found: Floats = np.minimum(self.scale_below[at], np.nextafter(self.slope_above[at] / limits, math.inf))
        return found


def _laplace_scales(groups: dict[int, NDArray[np.intp]], limits: Floats, delta: float) -> Floats:
    """Answer each T from its own points and those of every longer one, since fewer releases risk no more."""
    low, high = _octaves(limits)
    scales = np.empty(len(limits))
    table, computed = _Table.of(()), math.inf
    for duration in sorted(groups, reverse=True):
        if computed > duration * (1 + NEAR_DURATIONS):
            table, computed = _Table.of((*table.points, *_laplace_points(duration, low, high, delta))), duration
        rows = groups[duration]
        pure = _ratio_up(np.float64(duration), limits[rows])
        scales[rows] = np.minimum(table.scales(limits[rows]), pure)
    return scales


@lru_cache(maxsize=4096)
def _laplace_points(duration: int, low: float, high: float, delta: float) -> tuple[_Point, ...]:
    """Return the points of one T between two ε; where the pure sum is already near the best, one is enough."""

    def point(loss: float) -> _Point:
        return _Point(loss, composed_epsilon(duration, loss, delta, "laplace"))

    first = point(_laplace_loss(low, delta, duration, LAPLACE_STEP / 5))
    if duration <= first.slope * (1 + LAPLACE_STEP):
        return (first,)
    return _between(point, first, point(_laplace_loss(high, delta, duration, LAPLACE_STEP / 5)), LAPLACE_STEP)


@lru_cache(maxsize=256)
def _gaussian_points(low: float, high: float, delta: float) -> tuple[_Point, ...]:
    def point(mu: float) -> _Point:
        return _Point(mu, gaussian_epsilon(mu, delta))

    return _between(point, point(gaussian_mu(low, delta)), point(gaussian_mu(high, delta)), GAUSSIAN_STEP)


def _between(point: Callable[[float], _Point], first: _Point, last: _Point, step: float) -> tuple[_Point, ...]:
    """Return both and so many points between them that a scale is never further than `step` above the least one."""
    if last.slope <= first.slope * (1 + step) or last.loss <= first.loss * (1 + step):
        return first, last
    middle = point(math.sqrt(first.loss * last.loss))
    return (*_between(point, first, middle, step), *_between(point, middle, last, step)[1:])


def _octaves(limits: Floats) -> tuple[float, float]:
    """Return the powers of two around all ε, so that adding secrets seldom needs new points."""
    least, most = np.clip([limits.min(), limits.max()], *TABULATED).tolist()
    return 2.0 ** math.floor(math.log2(least)), 2.0 ** math.ceil(math.log2(most))


def _by_duration(lengths: Integers) -> dict[int, NDArray[np.intp]]:
    order = np.argsort(lengths, kind="stable")
    values, starts = np.unique(lengths[order], return_index=True)
    return dict(zip(values.tolist(), np.split(order, starts[1:]), strict=True)) if len(values) else {}


def _few_pairs(groups: dict[int, NDArray[np.intp]], limits: Floats) -> dict[int, Floats] | None:
    """Return the distinct ε of each T, or nothing if there are too many."""
    pairs: dict[int, Floats] = {}
    for duration, rows in groups.items():
        pairs[duration] = np.unique(limits[rows])
        if sum(map(len, pairs.values())) > FEW_PAIRS:
            return None
    return pairs


def _each(
    groups: dict[int, NDArray[np.intp]], limits: Floats, pairs: dict[int, Floats], delta: float, noise: Noise
) -> Floats:
    scales = np.empty(len(limits))
    for duration, rows in groups.items():
        found = np.array([_unit_scale(e, delta, duration, noise) for e in pairs[duration].tolist()])
        scales[rows] = found[np.searchsorted(pairs[duration], limits[rows])]
    return scales


def _ratio_up(numerators: ArrayLike, denominators: Floats) -> Floats:
    """Return quotients rounded up: exact where the division is whole, else the next double above."""
    top = np.asarray(numerators, dtype=np.float64)
    quotients = top / denominators
    rounded: Floats = np.where(np.fmod(top, denominators) == 0, quotients, np.nextafter(quotients, math.inf))
    return rounded


def _delta(delta: float, noise: Noise) -> float:
    if noise not in NOISES:
        raise unknown("noise", noise, NOISES)
    d = check_delta(delta)
    if d == 0 and noise == "gaussian":
        raise InvalidInput("Gaussian noise has no bounded pure loss: promise a delta above 0, or use Laplace noise")
    return d


def _epsilon(epsilon: float) -> float:
    return real("epsilon", epsilon, positive=True, limit=LARGEST_EPSILON)


def _columns(durations: ArrayLike, epsilons: ArrayLike) -> tuple[Integers, Floats]:
    """Return both as columns of one length, or say which row is wrong."""
    lengths, limits = np.asarray(durations), np.asarray(epsilons)
    if lengths.ndim != 1 or lengths.shape != limits.shape:
        raise InvalidInput(
            f"durations and epsilons must be columns of one length, not of shapes {lengths.shape} and {limits.shape}"
        )
    if len(lengths) == 0:
        return np.empty(0, dtype=np.int64), np.empty(0)
    if lengths.dtype.kind not in "iu" or limits.dtype.kind not in "iuf":
        raise InvalidInput(f"durations must be whole numbers and epsilons numbers, not {lengths.dtype}, {limits.dtype}")
    limits = limits.astype(np.float64)
    for bad in np.flatnonzero(lengths < 1)[:1].tolist():
        raise InvalidInput(f"row {bad}: duration must be at least 1 step, not {lengths[bad]}")
    kept = (limits >= SMALLEST_NORMAL) & (limits <= LARGEST_EPSILON)
    for bad in np.flatnonzero(~kept)[:1].tolist():
        raise InvalidInput(f"row {bad}: epsilon must be above 0 and at most {LARGEST_EPSILON:g}, not {limits[bad]}")
    return lengths.astype(np.int64), limits
