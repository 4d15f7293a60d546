"""The loss of each secret, in ε at δ, for any sequence of scales: what a certificate states.

Pure losses are exact, rounded up. Gaussian noise: ε(δ) of the secret's μ (an upper bound under all-events, see `losses`). Laplace
noise with δ > 0: with r_s the largest loss of one step of J_s, the T_s steps of an event lose at most T_s releases of r_s do.
If r_s is a share c ≤ 1 of the calibrated loss, that is at most c·ε_s, as ε(ρ)/ρ never falls as ρ grows (`notions.calibration`;
ours); if it is more, it is composed. Never more than the pure loss.
"""

from __future__ import annotations

import math

import numpy as np

from halflife.notions.calibration import composed_epsilon, unit_scales
from halflife.notions.gaussian_dp import gaussian_epsilon, gaussian_epsilons, gaussian_mu
from halflife.notions.swellfish.losses import stretches, weighted_sums, windows, worst_costs
from halflife.notions.swellfish.required import cover_all_events
from halflife.numerics.arrays import Floats, Integers
from halflife.numerics.rounding import TOLERANCE, up
from halflife.release import Noise
from halflife.specifications.base import Specifications
from halflife.specifications.neighbours import Interpretation

MOST_LIMITS = 5_000
MOST_COMPOSED = 300
"""How many loss distributions are worked out at most; beyond that a secret that was not hidden enough is given its pure loss."""


def losses_at_worst(
    s: Specifications, unit: Floats, first: int, interpretation: Interpretation, delta: float, noise: Noise
) -> Floats:
    """Return each secret's worst loss by the noise of steps first, first + 1, …; `unit` holds 1/λ_t or 1/σ_t, ∞ if exact."""
    if noise == "gaussian":
        costs = worst_costs(s, _square(unit), first, interpretation, noise)
        found = gaussian_losses(costs, delta)
        return np.where(costs <= gaussian_limits(s, delta), np.minimum(found, s.epsilon), found)
    pure = worst_costs(s, unit, first, interpretation)
    if delta == 0:
        return pure
    one = s._with({"duration": np.ones(len(s), dtype=np.int64)})
    if interpretation == "all-events":
        most = worst_costs(one._with({"power": np.ones(len(s))}), unit, first, "one-event")
        shares = _times(cover_all_events(s, delta, noise), most)
        return np.minimum(pure, np.where(shares <= 1, np.nextafter(shares * s.epsilon, np.inf), np.inf))
    most = worst_costs(one, unit, first, interpretation)
    shares = _times(unit_scales(s.duration, s.epsilon, delta, noise), most)
    result = np.minimum(pure, np.where(shares <= 1, np.nextafter(shares * s.epsilon, np.inf), np.inf))
    return _compose(s, result, most, np.flatnonzero(shares > 1), delta)


def _square(unit: Floats) -> Floats:
    with np.errstate(over="ignore"):
        result: Floats = np.where(unit > 0, np.nextafter(unit**2, np.inf), 0.0)
    return result


def _times(asked: Floats, most: Floats) -> Floats:
    """The product; what counts as the whole is the whole: rounded twice, a scale that is the calibrated one may have more."""
    with np.errstate(invalid="ignore"):
        shares = asked * most
    result: Floats = np.where((shares > 1) & (shares <= 1 + TOLERANCE), 1.0, shares)
    return result


def _compose(s: Specifications, result: Floats, most: Floats, broken: Integers, delta: float) -> Floats:
    """Losses of secrets whose steps lose more than the calibrated loss: composed if they are not too many, else pure."""
    rows = broken[np.isfinite(most[broken])]
    pairs, which = np.unique(np.stack([s.duration[rows].astype(np.float64), most[rows]]), axis=1, return_inverse=True)
    if pairs.shape[1] <= MOST_COMPOSED:
        found = np.array([composed_epsilon(int(t), float(r), delta, "laplace") for t, r in pairs.T.tolist()])
        if len(rows):
            result[rows] = np.minimum(result[rows], found[which.ravel()])
    return result


def gaussian_limits(s: Specifications, delta: float) -> Floats:
    """Return the μ² that each secret's ε allows at δ, rounded down: for each ε by itself, so that it stays if others are added.

    Of more than 5,000 different ones the calibrated scales are used, which may ask for a part in 1,000 more.
    """
    values, which = np.unique(s.epsilon, return_inverse=True)
    if len(values) > MOST_LIMITS:
        unit = unit_scales(np.ones(len(s), dtype=np.int64), s.epsilon, delta, "gaussian")
        return np.asarray(1 / unit**2 * (1 - 1e-12), dtype=np.float64)
    squares = np.array([gaussian_mu(e, delta) ** 2 for e in values.tolist()]) * (1 - 1e-11)
    result: Floats = squares[which]
    return result


def gaussian_losses(costs: Floats, delta: float) -> Floats:
    """Return ε at δ of many μ²; if more than 2,000 differ, each rounded up by at most a part in 500."""
    values, which = np.unique(costs, return_inverse=True)
    if len(values) > 2000:
        finite = np.where(np.isinf(costs), 0.0, costs)
        return np.where(np.isinf(costs), np.inf, gaussian_epsilons(finite, delta))
    found = [gaussian_epsilon(up(math.sqrt(v)), delta) if math.isfinite(v) else math.inf for v in values.tolist()]
    return np.array(found, dtype=np.float64)[which]


def worst_by_step(
    s: Specifications, limits: Floats, x: Floats, first: int, interpretation: Interpretation, noise: Noise
) -> tuple[Floats, Floats, Floats]:
    """Return for each step the share, cost and ε of the secret that is worst then, by its windows that end there.

    Under all-events a secret's whole cost counts from its start on, which is never less.
    """
    shares, costs, epsilons = (np.zeros(len(x)) for _ in range(3))

    def put(rows: Integers, steps: Integers, found: Floats) -> None:
        inside = (steps >= first) & (steps < first + len(x)) & (found > 0)
        rows, at, found = rows[inside], steps[inside] - first, found[inside]
        order = np.argsort(found / limits[rows])  # of several at one step, the last that is written stays
        rows, at, found = rows[order], at[order], found[order]
        share = found / limits[rows]
        better = share > shares[at]
        shares[at[better]], costs[at[better]] = share[better], found[better]
        epsilons[at[better]] = s.epsilon[rows[better]]

    if interpretation == "all-events":
        put(np.arange(len(s)), np.maximum(s.start, first), worst_costs(s, x, first, interpretation, noise))
        return shares, costs, epsilons
    together = interpretation == "one-window"
    weights = s.power if noise == "laplace" else np.nextafter(s.power**2, np.inf)
    for begin, stop in stretches(s):
        mine, sums = weighted_sums(s, (begin, stop), x, first, noise, together)
        for rows, low, high in windows(mine):
            found = sums.between(low, high) * (1.0 if together else weights[begin + rows])
            put(begin + rows, high, found)
    return shares, costs, epsilons
