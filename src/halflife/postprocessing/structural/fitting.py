"""Parameters of the structural model by maximum likelihood, on published values alone.

The density of a series under the model is a product over its steps of that of the surprise v_t (known: prediction error
decomposition, Schweppe 1965), times that of the weak prior. Under Gaussian noise −2 ln L = Σ ln S_t + v_t²/S_t. Laplace noise
has a peak, and what the series does beside it rounds the peak off: the density of a normal error and Laplace noise together
(`find_density`) tells a small irregular part from none where variances cannot, as a sample's variance of Laplace noise is
√(5/2) times as uncertain as of Gaussian (ours; filters under noise that is not Gaussian: Masreliez 1975). Derivatives are
differences: all sets of parameters that they need are run side by side. Several series are pooled: each has its own amplitude,
and their densities multiply.

A variance that the series hardly speaks of is likeliest to be too small, and bands would be too narrow (the pile-up of
likelihoods at 0). So means over likelihood and prior are taken, and not the likeliest values; the same integral says how likely
a model makes the window, and all models that are likely at all are used, each with its share (known: Bayesian model averaging).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from halflife.numerics.arrays import Bools, Floats
from halflife.postprocessing.structural.combining import find_density
from halflife.postprocessing.structural.harmonics import Harmonics
from halflife.postprocessing.structural.parameters import (
    GRID,
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
AROUND = np.array([-2.0, -1.0, -0.5, -0.25, 0.25, 0.5, 1.0, 2.0])
WIDTHS, WIDTH_OF_MAXIMUM = np.array([1.0, 0.75, 0.375, 0.25, 0.25, 0.375, 0.75, 1.0]), 0.25
"""Where the likelihood beside the maximum is looked at, in standard deviations of the prior, and the range each stands for."""
SAMPLES, MOST_WEIGHT = 32, 3.0
"""So many points stand for what likelihood and prior leave possible; the largest weight of one, as a logarithm."""
LEAST_HIDDEN, POWER_OF_SIZE = 0.05, 0.5
"""Amplitudes that are known better than this, as a standard deviation of ln of their squares, are not fitted."""
APART, LEAST_VARIANCE = 0.25, 0.01
"""By how much windows of a series differ in a parameter, as a part of the prior's variance; no window is surer than the other."""
POWERS = np.array([0.5, 0.5, 0.5, 0.5, 0.5, 1.0, 0.0, 0.0])
"""A prediction's variance grows with this power of each parameter: with the irregular part's own, with the root of a drift's."""


def find_cost(
    numbers: Floats, values: Floats, rows: Floats, noise: Floats, gaps: Floats, amplitudes: Floats, begin: Floats,
    harmonics: Harmonics, reused: float = 0.0, laplace: bool = False, sizes: Floats | None = None,
) -> Floats:  # fmt: skip
    """Return −ln L of some sets of parameters, pooled over the series.

    numbers     sets × parameters;  values  steps × series, with noise of variances `noise`, `gaps` steps after the one before
    amplitudes  of each series: its variances are those of the parameters times its square
    begin       where each series' level is expected to begin;  reused  the variance of reused noise
    sizes       what the squares of amplitudes are multiplied by, in each set
    """
    sets, series = len(numbers), values.shape[1]
    size = np.tile(amplitudes, sets)
    if sizes is not None:
        size *= np.repeat(np.sqrt(sizes), series)
    found = find_variances(np.repeat(numbers, series, axis=0), harmonics, reused / size**2)
    block = Block(np.zeros((sets * series, harmonics.states)), found.before[:, None] * np.eye(harmonics.states))
    moved, cost = np.tile(values - begin, sets) / size, 2 * len(values) * np.log(size)
    times, reached = np.cumsum(gaps), 0.0
    for start in range(0, len(values), BLOCK):
        part = slice(start, start + BLOCK)
        cost += block.meet(
            moved[part].T, rows[part], noise[part] / size[:, None] ** 2, times[part] - reached, found, laplace
        )
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

    def meet(
        self, values: Floats, rows: Floats, noise: Floats, times: Floats, model: Variances, laplace: bool
    ) -> Floats:
        """Take in values (series × steps); return −2 ln of their density."""
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
        root = np.linalg.cholesky(known)
        solved = np.linalg.solve(root, np.concatenate([surprise[:, :, None], both], axis=2))
        self.means[:, -1:] *= end
        self.covariance[:, -1] *= end
        self.covariance[:, :, -1] *= end
        diagonal = np.einsum("kii->ki", self.covariance)
        diagonal[:, :-1] += model.moves[:, :-1] * last
        diagonal[:, -1:] += omega * (1 - end**2)
        moved = solved[:, :, 1:].transpose(0, 2, 1) @ solved
        self.means += moved[:, :, 0]
        self.covariance -= (moved[:, :, 1:] + moved[:, :, 1:].transpose(0, 2, 1)) / 2
        roots = np.einsum("kii->ki", root)
        noise = np.broadcast_to(noise, roots.shape)
        signal = np.maximum(0.0, roots**2 - noise)
        cost: Floats = -2 * find_density(roots * solved[:, :, 0], signal, noise, laplace).sum(axis=1)
        return cost


def fit_parameters(
    values: Floats, rows: Floats, noise: Floats, gaps: Floats, amplitudes: Floats, begin: Floats, harmonics: Harmonics,
    reused: float = 0.0, start: Parameters | None = None, laplace: bool = False, hidden: float = 0.0,
    others: Learnt | None = None,
) -> Fitted:  # fmt: skip
    """Return the parameters that likelihood and prior leave likely.

    hidden  the standard deviation of ln of the squares of the amplitudes, which are fitted too where noise hides them
    others  what other windows of the series say
    """
    from scipy.optimize import minimize

    middle = np.array(Parameters.middle(harmonics.steps_per_day, harmonics.seasons).numbers)
    free = free_parameters(harmonics)
    known, unsure = int(free.sum()), hidden > LEAST_HIDDEN
    spread, count = np.append(PRIOR_SPREAD[free], [hidden] * unsure), known + unsure
    expected, variances = NOTHING.expect() if others is None else others.expect()
    there = np.append(free, unsure)
    expected, variances = expected[there], variances[there]

    def costs(points: Floats) -> Floats:
        numbers = np.tile(middle, (len(points), 1))
        numbers[:, free] += points[:, :known] * spread[:known]
        prior = ((points - expected) ** 2 / variances).sum(axis=1) / 2
        sizes = np.exp(hidden * points[:, known:].sum(axis=1))
        found: Floats = prior + find_cost(
            numbers, values, rows, noise, gaps, amplitudes, begin, harmonics, reused, laplace, sizes
        )
        return found

    def with_slopes(point: Floats) -> tuple[float, Floats]:
        found = costs(np.vstack([point, point + DIFFERENCE * np.eye(count)]))
        return float(found[0]), (found[1:] - found[0]) / DIFFERENCE

    first = expected.copy()
    if start is not None:
        first[:known] = (np.array(start.numbers)[free] - middle[free]) / spread[:known]
    best = minimize(
        with_slopes, first, jac=True, method="L-BFGS-B", bounds=[(-REACH, REACH)] * count,
        options={"maxiter": MOST_ROUNDS, "gtol": ENOUGH, "ftol": 1e-8},
    )  # fmt: skip
    found = integrate(costs, best.x, float(best.fun))
    moved = best.x * spread + found.moved(spread, np.append(POWERS[free], [POWER_OF_SIZE] * unsure))
    numbers = middle.copy()
    numbers[free] += moved[:known]
    octaves = round(float(moved[known:].sum()) / math.log(2) * GRID) / GRID
    told = found.cost - float(best.fun) + float(np.log(variances).sum()) / 2
    learnt = NOTHING.learn(there, best.x + found.weights @ found.offsets, found.variances, variances)
    return Fitted(Parameters.from_numbers(numbers), 2.0**octaves, float(best.fun), told, learnt)


@dataclass(frozen=True)
class Learnt:
    """What windows of a series say of its parameters (known: a normal model with two levels; the numbers are ours).

    In standard deviations of the prior a parameter is μ + d: μ ~ N(0, 1 − D) is the same in all windows of a series, and each
    window has a d ~ N(0, D) of its own, D = APART. If a window by itself says m with variance s², windows together leave μ with
    the precision 1/(1 − D) + Σ 1/(s² + D), and the parameter of another window with D more than that variance. As m the mean
    under the prior is taken: what a likelihood without a lower end would say by itself lies far off.

    precision, moment  Σ 1/(s² + D) and Σ m/(s² + D): of each parameter, and of the size
    """

    precision: Floats
    moment: Floats

    def expect(self) -> tuple[Floats, Floats]:
        """Return mean and variance of the parameters of another window.

        >>> [part[0].item() for part in NOTHING.expect()]
        [0.0, 1.0]
        """
        total = 1 / (1 - APART) + self.precision
        return self.moment / total, 1 / total + APART

    def learn(self, there: Bools, mean: Floats, variance: Floats, before: Floats) -> Learnt:
        """Return it with a window whose parameters have this mean and variance, `before` being the variance before it."""
        precision, moment = self.precision.copy(), self.moment.copy()
        variance = np.maximum(variance, LEAST_VARIANCE)
        told = np.maximum(1 / variance - 1 / before, 1e-9)  # by the window alone
        share = 1 / (1 / told + APART)
        precision[there] += share
        moment[there] += share * mean
        return Learnt(precision, moment)

    def add(self, other: Learnt) -> Learnt:
        """Return what both say."""
        return Learnt(self.precision + other.precision, self.moment + other.moment)


NOTHING = Learnt(np.zeros(9), np.zeros(9))


class Fitted(NamedTuple):
    """What a fit finds, on a grid.

    parameters, size   what is likely, and what the squares of amplitudes are multiplied by
    least, doubt       −ln of how likely the values are at the maximum, and what integrating over parameters adds to that
    """

    parameters: Parameters
    size: float
    least: float
    doubt: float
    learnt: Learnt


class Posterior(NamedTuple):
    """Points beside the maximum with their weights, and −ln of the integral of likelihood times prior."""

    offsets: Floats
    weights: Floats
    cost: float

    @property
    def variances(self) -> Floats:
        """Of each parameter, in squares of the prior's standard deviation."""
        found: Floats = self.weights @ (self.offsets - self.weights @ self.offsets) ** 2
        return found

    def moved(self, spread: Floats, powers: Floats) -> Floats:
        """Return how far from the maximum parameters lie: ln of the mean of e^{power·x}, over the power; at power 0, nowhere."""
        means = self.weights @ np.exp(self.offsets * (spread * powers))
        found: Floats = np.where(powers > 0, np.log(means) / np.maximum(powers, 1e-9), 0.0)
        return found


def integrate(costs: Callable[[Floats], Floats], best: Floats, least: float) -> Posterior:
    """Return what likelihood and prior leave possible around their maximum, by importance sampling (known) on a grid.

    Along each axis alone the cost rises by r_i(x_i) at the points AROUND, each of which stands for a width w_i. Points are
    drawn with the chances Π w_i e^{−r_i}/M_i, M_i the sum of w_i e^{−r_i} over an axis, evenly in every axis (a Latin
    hypercube); with r the cost's rise at a point, its weight is e^{Σ r_i − r}, and the integral Π M_i times the mean weight.

    >>> found = integrate(lambda x: (x**2).sum(axis=1) / 2, np.zeros(2), 0.0)  # two normal densities
    >>> abs(found.cost) < 0.1, float(np.ptp(found.weights))
    (True, 0.0)
    """
    count = len(best)
    beside = np.multiply.outer(AROUND, np.eye(count)).reshape(-1, count)
    rise = np.maximum(0.0, np.insert(costs(best + beside).reshape(len(AROUND), count) - least, 0, 0.0, axis=0))
    steps, widths = np.insert(AROUND, 0, 0.0), np.insert(WIDTHS, 0, WIDTH_OF_MAXIMUM)
    masses = np.exp(-rise) * widths[:, None]
    total = masses.sum(axis=0)
    rng = np.random.default_rng(0)
    places = np.array([(rng.permutation(SAMPLES) + 0.5) / SAMPLES for _ in range(count)]).T
    cells = (places[:, None, :] > np.cumsum(masses / total, axis=0)[None]).sum(axis=1).clip(0, len(steps) - 1)
    offsets = steps[cells]
    apart = np.take_along_axis(rise, cells, axis=0).sum(axis=1)
    weights = np.exp(np.clip(apart - (costs(best + offsets) - least), -50.0, MOST_WEIGHT))
    cost = least - float(np.log(total / np.sqrt(2 * np.pi)).sum() + np.log(weights.mean()))
    return Posterior(offsets, weights / weights.sum(), cost)
