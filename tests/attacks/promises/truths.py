"""How one person really moves, and what published numbers then tell about where they are: by enumerating all of their paths."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Truth:
    """A Markov chain, one kernel for each slot of a cycle; `prior` is the law at the first time, that of the cycle if None."""

    kernels: Sequence[Floats]
    prior: Floats | None = None

    @property
    def states(self) -> int:
        return len(self.kernels[0])

    def ahead(self, start: int, end: int) -> Floats:
        """The kernel from step `start` to step `end`."""
        result = np.eye(self.states)
        for t in range(start, end):
            result = result @ self.kernels[t % len(self.kernels)]
        return result

    def law(self, step: int) -> Floats:
        """The law that repeats from cycle to cycle, at this step."""
        around = self.ahead(step, step + len(self.kernels))
        system = np.vstack([around.T - np.eye(self.states), np.ones(self.states)])
        return np.clip(np.linalg.lstsq(system, np.r_[np.zeros(self.states), 1.0], rcond=None)[0], 0.0, None)

    def paths(self, times: Sequence[int], about: int) -> tuple[Floats, NDArray[np.int64]]:
        """(states × paths) the law of a person's path over ascending times given the state at time `about`; and the paths."""
        every = sorted({*times, about})
        law = (self.law(every[0]) if self.prior is None else self.prior).copy()
        paths = np.array(list(product(range(self.states), repeat=len(every))), dtype=np.int64)
        chance = law[paths[:, 0]]
        for i, (a, b) in enumerate(pairwise(every)):
            chance = chance * self.ahead(a, b)[paths[:, i], paths[:, i + 1]]
        now = paths[:, every.index(about)]
        given = np.array([np.where(now == x, chance, 0.0) for x in range(self.states)])
        sums = given.sum(axis=1, keepdims=True)
        given = np.divide(given, sums, out=np.zeros_like(given), where=sums > 1e-12)
        return given, paths[:, [every.index(t) for t in times]]


@dataclass(frozen=True, eq=False)
class Number:
    """One published number: f of the person's state at a data time, with noise of this scale.

    base  the number whose noise lies under this one and is published alone: then what is told is the difference
    """

    time: int
    values: Floats
    scale: float
    noise: str = "laplace"
    base: Number | None = None


def told(truth: Truth, numbers: Sequence[Number], about: int, delta: float = 0.0) -> float:
    """The largest ln P(y | X = x) / P(y | X = x′) over pairs of states at time `about` and outputs y: a witness.

    With a δ, the ε of ln (P(A | x) − δ) / P(A | x′) for sets A of outputs beyond thresholds.
    """
    times = sorted({t for n in numbers for t in (n.time, n.base.time if n.base else n.time)})
    given, paths = truth.paths(times, about)
    place = {t: i for i, t in enumerate(times)}
    weight = given[:, None, :]
    for n in numbers:
        moved = n.values[paths[:, place[n.time]]]
        if n.base is not None:
            moved = moved - n.base.values[paths[:, place[n.base.time]]]
        factors = _likelihoods(n, moved) if delta == 0 else _beyond(n, moved)
        weight = (weight[:, :, None, :] * factors[None, None, :, :]).reshape(len(given), -1, weight.shape[-1])
    likely = weight.sum(axis=2)[given.sum(axis=1) > 0.5]
    most = 0.0
    for x, y in product(range(len(likely)), repeat=2):
        if x != y:
            with np.errstate(divide="ignore", invalid="ignore"):
                ratio = np.log(np.maximum(likely[x] - delta, 0.0)) - np.log(likely[y])
            most = max(most, float(np.max(ratio[~np.isnan(ratio)], initial=0.0)))
    return most


def _likelihoods(n: Number, moved: Floats) -> Floats:
    """(outputs × paths) densities, up to a factor, at the least, the middle and the largest value that the number can have."""
    some = np.unique(moved)
    outputs = some[[0, len(some) // 2, -1]] if len(some) > 2 else some
    return np.exp(-np.abs(moved[None, :] - outputs[:, None]) / n.scale)


def _beyond(n: Number, moved: Floats) -> Floats:
    """(sets × paths) chances that the number lies beyond a threshold, on either side, or anywhere."""
    some = np.unique(moved)
    sets = [np.ones(len(moved))]
    for a in (float(some[0]), float(some[-1])):
        z = (moved - a) / n.scale
        above = (
            ndtr(z) if n.noise == "gaussian" else np.where(z > 0, 1 - np.exp(-np.abs(z)) / 2, np.exp(-np.abs(z)) / 2)
        )
        sets += [above, 1 - above]
    return np.array(sets)


# AR(1) --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Wander:
    """x_{t+1} = ρ x_t + N(0, σ²), stationary; Gaussian, so the same back as ahead."""

    rho: float
    sigma: float

    def law(self, gap: int) -> tuple[float, float]:
        """What is left of a state after so many steps, and the standard deviation of the rest."""
        kept = self.rho**gap
        return kept, self.sigma * math.sqrt((1 - kept * kept) / (1 - self.rho**2))


def told_on_lattice(
    wander: Wander, gap: int, unit: float, low: int, high: int, scale: float, x: float, y: float
) -> float:
    """The loss of one number, ⌊X/unit + ½⌋ clipped to [low, high] units plus Laplace noise of this scale in units, about X.

    Far above all values an output has the density e^{v/b}, far below e^{−v/b}: sums over whole units, exactly.
    """
    kept, spread = wander.law(gap)
    units = np.arange(low, high + 1)
    edges = (units[1:] - 0.5) * unit
    most = 0.0
    for sign in (1, -1):
        factor = np.exp(sign * (units - units.mean()) / scale)
        at = []
        for state in (x, y):
            chance = np.diff(np.r_[0.0, ndtr((edges - kept * state) / spread), 1.0])
            at.append(math.log(float((chance * factor).sum())))
        most = max(most, abs(at[0] - at[1]))
    return most


def told_on_span(
    wander: Wander, clips: Sequence[tuple[int, float, float, float]], now: int, pairs: Sequence[tuple[float, float]]
) -> float:
    """The same for several numbers clip(X_τ, low, high) + Laplace(scale), (τ, low, high, scale) each, by quadrature."""
    sd = wander.sigma / math.sqrt(1 - wander.rho**2)
    ends = [abs(v) for _, low, high, _ in clips for v in (low, high)] + [abs(v) for p in pairs for v in p]
    grid = np.linspace(-8 * sd - max(ends), 8 * sd + max(ends), 601)
    ordered = sorted(clips)
    most = 0.0
    for sign in (1, -1):
        f = np.ones(len(grid))
        for i, (time, low, high, scale) in enumerate(ordered):
            f = f * np.exp(sign * (np.clip(grid, low, high) - (low + high) / 2) / scale)
            later = ordered[i + 1][0] if i + 1 < len(ordered) else now
            f = _fade(wander, later - time, grid, f)
        for x, y in pairs:
            most = max(most, abs(float(np.log(np.interp(x, grid, f) / np.interp(y, grid, f)))))
    return most


def _fade(wander: Wander, gap: int, grid: Floats, f: Floats) -> Floats:
    """E[f(X_earlier) | X = x] on the grid; the ends are held."""
    if gap == 0:
        return f
    kept, spread = wander.law(gap)
    edges = (grid[1:] + grid[:-1]) / 2
    below = ndtr((edges[None, :] - kept * grid[:, None]) / spread)
    chance = np.diff(np.hstack([np.zeros((len(grid), 1)), below, np.ones((len(grid), 1))]), axis=1)
    return np.asarray(chance @ f)


def describe(numbers: Sequence[Number]) -> list[Mapping[str, object]]:
    """The numbers, for a report."""
    return [
        {"time": n.time, "values": n.values.tolist(), "scale": n.scale, "atop": n.base is not None} for n in numbers
    ]
