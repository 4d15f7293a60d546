"""Parameters of the structural model by maximum likelihood, on published values alone.

The density of a series under the model is a product over its steps, −2 ln L = Σ ln S_t + v_t²/S_t (known: prediction error
decomposition, Schweppe 1965), times that of the weak prior. Derivatives are differences: all sets of parameters that they need
are run side by side. Several series are pooled: each has its own amplitude, and their densities multiply.

A variance that the series hardly speaks of is likeliest to be too small, and bands would be too narrow (the pile-up of
likelihoods at 0). Where the log of a variance is known to a standard deviation s, its mean is e^{s²/2} times its middle.
Between the two, e^{0.4·s²} times the middle is used, for the waves, and with hindsight, where errors are smaller and more of
them are the model's, for all states (ours; s from the curvature at the maximum; with 0.5 bands held 93.7 to 98.1 % on London and
GEFCom, with 0 down to 89 %; 0.4 lies between and was not measured by itself).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from halflife.numerics.arrays import Bools, Floats
from halflife.postprocessing.structural.harmonics import Harmonics
from halflife.postprocessing.structural.parameters import (
    PRIOR_SPREAD,
    REACH,
    Parameters,
    Variances,
    find_variances,
    free_parameters,
)

DIFFERENCE = 1e-3
"""The step of a difference, in standard deviations of the prior."""
ENOUGH = 0.2
"""Where no derivative exceeds this, in nats for a standard deviation of the prior, the maximum is found."""
MOST_ROUNDS = 20
BLOCK = 24
"""So many steps are taken in at once."""
LEAST = 1e-12
"""Added to the variance of every value, in squares of the amplitude: exact values may repeat each other."""
CAUTION = 0.4
"""How far variances are taken above their middle, in squares of the standard deviation of their logarithm; 0.5 is their mean."""
OF_WAVES = np.array([False, True, True, True, True, False, False, False])
OF_STATES = np.array([True, True, True, True, True, True, False, False])
"""Which parameters are the variances of waves; of all states."""


def find_cost(
    numbers: Floats, values: Floats, rows: Floats, noise: Floats, gaps: Floats, amplitudes: Floats, begin: Floats,
    harmonics: Harmonics,
) -> Floats:  # fmt: skip
    """Return −ln L of some sets of parameters, pooled over the series; without the constant.

    numbers     sets × parameters;  values  steps × series, with noise of variances `noise`, `gaps` steps after the one before
    amplitudes  of each series: its variances are those of the parameters times its square
    begin       where each series' level is expected to begin
    """
    sets, series = len(numbers), values.shape[1]
    found = find_variances(np.repeat(numbers, series, axis=0), harmonics)
    size = np.tile(amplitudes, sets)
    block = Block(np.zeros((sets * series, harmonics.states)), found.before[:, None] * np.eye(harmonics.states))
    moved, cost = np.tile((values - begin) / amplitudes, sets), 2 * len(values) * np.log(size)
    times, reached = np.cumsum(gaps), 0.0
    for start in range(0, len(values), BLOCK):
        part = slice(start, start + BLOCK)
        cost += block.meet(moved[part].T, rows[part], noise[part] / size[:, None] ** 2, times[part] - reached, found)
        reached = times[part][-1]
    result: Floats = cost.reshape(sets, series).sum(axis=1) / 2
    return result


@dataclass
class Block:
    """States of many series, each with parameters of its own, that take in many steps at once.

    Of values y at the times τ after the newest state, with rows h, T the last of the times and φ the persistence,

        Cov(y_s, y_t) = h_s·F_s P F_t·h_t + min(τ_s, τ_t)·Σ_j h_sj q_j h_tj + ω(φ^|τ_s − τ_t| − φ^(τ_s + τ_t)) + R_s [s = t]
        Cov(y_t, x)   = h_t·F_t P F_T + τ_t q h_t,       of the irregular part ω(φ^(T − τ_t) − φ^(T + τ_t)),

    with F_t = diag(1, …, 1, φ^τ_t), q the variance of the moves and ω of the irregular part: the filter's own, by matrices
    instead of step by step (known), which costs a fraction of the time.
    """

    means: Floats
    covariance: Floats

    def meet(self, values: Floats, rows: Floats, noise: Floats, times: Floats, model: Variances) -> Floats:
        """Take in values (series × steps); return −2 ln of their density, without the constant."""
        phi, omega, last = model.persistence[:, None], model.irregular[:, None], times[-1]
        left, end = phi**times, phi**last
        h = np.repeat(rows[None], len(values), axis=0)
        h[:, :, -1] *= left
        both = h @ self.covariance
        walks = rows[:, :-1] * model.moves[:, None, :-1]
        known = both @ h.transpose(0, 2, 1) + np.minimum.outer(times, times) * (walks @ rows[:, :-1].T)
        apart = np.abs(np.subtract.outer(times, times))
        known += omega[:, None] * (phi[:, None] ** apart - left[:, :, None] * left[:, None])
        steps = np.arange(len(times))
        known[:, steps, steps] += noise + LEAST
        both[:, :, :-1] += times[:, None] * walks
        both[:, :, -1] = both[:, :, -1] * end + omega * (phi ** (last - times) - end * left)
        surprise = values - (h @ self.means[:, :, None])[:, :, 0]
        solved = np.linalg.solve(known, np.concatenate([surprise[:, :, None], both], axis=2))
        self.means[:, -1:] *= end
        self.covariance[:, -1] *= end
        self.covariance[:, :, -1] *= end
        diagonal = np.einsum("kii->ki", self.covariance)
        diagonal[:, :-1] += model.moves[:, :-1] * last
        diagonal[:, -1:] += omega * (1 - end**2)
        moved = both.transpose(0, 2, 1) @ solved
        self.means += moved[:, :, 0]
        self.covariance -= moved[:, :, 1:]
        cost: Floats = np.linalg.slogdet(known)[1] + (surprise * solved[:, :, 0]).sum(axis=1)
        return cost


def fit_parameters(
    values: Floats, rows: Floats, noise: Floats, gaps: Floats, amplitudes: Floats, begin: Floats, harmonics: Harmonics,
    start: Parameters | None = None, doubted: Bools = OF_WAVES,
) -> tuple[Parameters, float]:  # fmt: skip
    """Return the most likely parameters, on a grid, and what they cost: −ln of the likelihood and the prior, in nats.

    doubted  which of them are variances that are taken above their middle
    """
    from scipy.optimize import minimize

    middle, free = np.array(Parameters.middle(harmonics.steps_per_day).numbers), free_parameters(harmonics)
    spread, count = PRIOR_SPREAD[free], int(free.sum())

    def costs(points: Floats) -> Floats:
        numbers = np.tile(middle, (len(points), 1))
        numbers[:, free] += points * spread
        prior = (points**2).sum(axis=1) / 2
        found: Floats = find_cost(numbers, values, rows, noise, gaps, amplitudes, begin, harmonics) + prior
        return found

    def with_slopes(point: Floats) -> tuple[float, Floats]:
        found = costs(np.vstack([point, point + DIFFERENCE * np.eye(count)]))
        return float(found[0]), (found[1:] - found[0]) / DIFFERENCE

    first = np.zeros(count) if start is None else (np.array(start.numbers)[free] - middle[free]) / spread
    best = minimize(
        with_slopes, first, jac=True, method="L-BFGS-B", bounds=[(-REACH, REACH)] * count,
        options={"maxiter": MOST_ROUNDS, "gtol": ENOUGH, "ftol": 1e-8},
    )  # fmt: skip
    sides = costs(np.vstack([best.x + np.eye(count), best.x - np.eye(count)])).reshape(2, count).sum(axis=0)
    doubt = spread**2 / np.maximum(sides - 2 * float(best.fun), 1.0)
    numbers = middle.copy()
    numbers[free] += best.x * spread + np.where(doubted[free], CAUTION * doubt, 0.0)
    return Parameters.from_numbers(numbers), float(best.fun)
