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

import numpy as np

from halflife.numerics.arrays import Bools, Floats
from halflife.postprocessing.structural.harmonics import Harmonics
from halflife.postprocessing.structural.parameters import (
    PRIOR_SPREAD,
    REACH,
    Parameters,
    find_variances,
    free_parameters,
)

DIFFERENCE = 1e-3
"""The step of a difference, in standard deviations of the prior."""
ENOUGH = 0.2
"""Where no derivative exceeds this, in nats for a standard deviation of the prior, the maximum is found."""
MOST_ROUNDS = 20
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
    found, size = find_variances(numbers, harmonics), amplitudes**2
    sets, series, states = len(numbers), values.shape[1], harmonics.states
    lanes = sets * series
    moves = (found.moves[:, None] * size[:, None]).reshape(lanes, states)
    irregular = (found.irregular[:, None] * size).reshape(lanes)
    persistence = np.repeat(found.persistence, series)
    P, x = np.zeros((lanes, states, states)), np.zeros((lanes, states))
    diagonal = np.einsum("kii->ki", P)
    diagonal[...] = (found.before[:, None] * size[:, None]).reshape(lanes, states)
    x[:, 0] = np.tile(begin, sets)
    cost, scratch = np.zeros(lanes), np.empty_like(P)
    for t, h in enumerate(rows):
        if gaps[t]:
            left = persistence ** gaps[t]
            x[:, -1] *= left
            P[:, -1] *= left[:, None]
            P[:, :, -1] *= left[:, None]
            grown = moves * gaps[t]
            grown[:, -1] = irregular * (1 - left * left)
            diagonal += grown
        g = P @ h
        total = np.maximum(g @ h + noise[t], np.finfo(float).tiny)
        surprise = np.tile(values[t], sets) - x @ h
        gain = g / total[:, None]
        x += gain * surprise[:, None]
        np.multiply(gain[:, :, None], g[:, None], out=scratch)
        P -= scratch
        cost += np.log(total) + surprise * surprise / total
    result: Floats = cost.reshape(sets, series).sum(axis=1) / 2
    return result


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
