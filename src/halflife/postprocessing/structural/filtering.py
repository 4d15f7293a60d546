"""The Kalman filter of the structural model, and its fixed-interval smoother, for many series that share their covariance.

States of waves do not rotate: the rows of `Harmonics.rows` do. So every state but the irregular part is a random walk,

    x_t = F x_{t−1} + moves,   F = diag(1, …, 1, φ),       y_t = h_t·x_t + noise of variance R_t,       truth: h_t·x_t

    P ← F P F + Q,   g = P h,   f = h·g,   S = f + R,   v = y − h·x,   x ← x + (g/S)v,   P ← P − g gᵀ/S

(known: Kalman 1960). Before y is seen the truth is predicted as h·x, with variance f; `combining` makes an estimate of both.
P does not depend on the values: series of one amplitude and one noise share it, and a step of all of them costs one update.

With hindsight (known: de Jong 1989), from the last step backwards, with r and N of the step after and K = g/S:

    r ← F r,  N ← F N F        (between steps)
    u = v/S − K·r,             D = 1/S + Kᵀ N K
    r ← r + h u,               N ← N − h (N K)ᵀ − (N K) hᵀ + h D hᵀ

From all values but its own the truth of a step is predicted as y − u/D, with variance 1/D − R (known: de Jong and Penzer 1998).
Where R > f that would cancel: with its own value too the variance is w = f − gᵀ N g, without it w/(1 − w/R), and the prediction
h·x + (g·r − v·w/R)/(1 − w/R), with r and N of this step.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from halflife.numerics.arrays import Floats


@dataclass(frozen=True)
class Model:
    """The variances of one class of series: of the states' moves in one step, and of the irregular part, with its persistence."""

    moves: Floats
    irregular: float
    persistence: float

    def between(self, steps: float) -> tuple[Floats, float]:
        """Return by how much the states' variances grow in so many steps, and what is left of the irregular part."""
        left = self.persistence**steps
        moves = self.moves * steps
        moves[-1] = self.irregular * (1 - left * left)
        return moves, left


class Seen(NamedTuple):
    """What the filter found at some steps.

    predicted, signal   h·x before the value was seen (steps × series), and its variance f
    surprise            y − h·x: steps × series
    gains, total        g and S
    kept                φ to the power of the steps since the value before
    """

    predicted: Floats
    signal: Floats
    surprise: Floats
    gains: Floats
    total: Floats
    kept: Floats


@dataclass
class Filter:
    """The filter's state: means (states × series) and their covariance (states × states)."""

    means: Floats
    covariance: Floats
    _scratch: Floats = field(init=False, repr=False)

    def __post_init__(self) -> None:
        # one layout in memory, or the last bits of a product would tell whether the state was restored
        self.means, self.covariance = np.ascontiguousarray(self.means), np.ascontiguousarray(self.covariance)
        self._scratch = np.empty_like(self.covariance)

    def meet(self, values: Floats, rows: Floats, noise: Floats, gaps: Floats, model: Model) -> Seen:
        """Take in the values of some steps (steps × series), with noise of these variances, `gaps` steps after the one before."""
        steps, series = values.shape
        x, P, states = self.means, self.covariance, len(self.covariance)
        predicted, surprise, gains = np.empty((steps, series)), np.empty((steps, series)), np.empty((steps, states))
        signal, kept, diagonal = np.empty(steps), np.ones(steps), np.einsum("ii->i", P)
        one = model.between(1.0)
        for t, h in enumerate(rows):
            if gaps[t]:
                moves, left = one if gaps[t] == 1 else model.between(float(gaps[t]))
                x[-1] *= left
                P[-1] *= left
                P[:, -1] *= left
                diagonal += moves
                kept[t] = left
            g = np.dot(P, h, out=gains[t])
            signal[t] = f = h @ g
            total = f + noise[t]
            np.dot(h, x, out=predicted[t])
            v = np.subtract(values[t], predicted[t], out=surprise[t])
            if total > 0:
                gain = g / total
                x += np.multiply.outer(gain, v)
                P -= np.multiply.outer(gain, g, out=self._scratch)
        return Seen(predicted, signal, surprise, gains, signal + noise, kept)


def look_back(seen: Seen, rows: Floats, noise: Floats) -> tuple[Floats, Floats]:
    """Return the predictions of each step from all other steps, steps × series, and their variances."""
    steps, states = seen.gains.shape
    predicted, variances = seen.predicted.copy(), seen.signal.copy()
    r, N = np.zeros((states, seen.surprise.shape[1])), np.zeros((states, states))
    for t in range(steps - 1, -1, -1):
        h, g, total = rows[t], seen.gains[t], seen.total[t]
        if total > 0:
            gain = g / total
            side = N @ gain
            u, doubt = seen.surprise[t] / total - gain @ r, gain @ side + 1 / total
            r += np.multiply.outer(h, u)
            N -= np.multiply.outer(h, side) + np.multiply.outer(side - h * doubt, h)
            if noise[t] > seen.signal[t]:
                left = max(0.0, float(seen.signal[t] - g @ N @ g))
                predicted[t] += (g @ r - left / noise[t] * seen.surprise[t]) / (1 - left / noise[t])
                variances[t] = left / (1 - left / noise[t])
            else:
                predicted[t] += seen.surprise[t] - u / doubt
                variances[t] = max(0.0, 1 / doubt - noise[t])
        r[-1] *= seen.kept[t]
        N[-1] *= seen.kept[t]
        N[:, -1] *= seen.kept[t]
    return predicted, variances
