"""The Kalman filter of the structural model, and its fixed-interval smoother, for many series that share their covariance.

States of waves do not rotate: the rows of `Harmonics.rows` do. So every state but the irregular part is a random walk,

    x_t = F x_{t−1} + moves,   F = diag(1, …, 1, φ),       y_t = h_t·x_t + noise of variance R_t,       truth: h_t·x_t

    P ← F P F + Q,   g = P h,   f = h·g,   S = f + R,   v = y − h·x,   x ← x + (g/S)v,   P ← P − g gᵀ/S

(known: Kalman 1960). The estimate h·x + (f/S)v has variance fR/S. P does not depend on the values: series of one amplitude
and one noise share it, and a step of all of them costs one update. An exact value (R = 0) is its own estimate.

With hindsight (known: de Jong 1989), from the last step backwards, with r and N of the step after:

    r ← F r,  N ← F N F        (between steps)       L = I − g hᵀ/S (as K hᵀ)
    r ← h v/S + Lᵀ r,          N ← h hᵀ/S + Lᵀ N L
    estimate: h·x + g·r,       variance: f − gᵀ N g       with x, g, f before step t was seen; where R < f, without cancellation,
    estimate: y − R·u,         variance: R − R²·D         with u = v/S − K·r and D = 1/S + Kᵀ N K, of the step after.
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
    """What the filter found at some steps: estimates and their variance, and what hindsight needs of it.

    predicted, surprise   h·x before the value, and y − h·x: steps × series
    gains, total          g and S
    kept                  φ to the power of the steps since the value before
    """

    estimates: Floats
    variances: Floats
    shares: Floats
    predicted: Floats
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
        total = signal + noise
        shares = np.divide(signal, total, out=np.ones(steps), where=(noise > 0) & (total > 0))
        estimates = predicted + shares[:, None] * surprise
        return Seen(estimates, shares * noise, shares, predicted, surprise, gains, total, kept)


def look_back(seen: Seen, rows: Floats, noise: Floats) -> tuple[Floats, Floats]:
    """Return the estimates with hindsight, steps × series, and their variances."""
    steps, states = seen.gains.shape
    estimates, variances = seen.estimates.copy(), seen.variances.copy()
    r, N = np.zeros((states, seen.surprise.shape[1])), np.zeros((states, states))
    for t in range(steps - 1, -1, -1):
        h, g, total = rows[t], seen.gains[t], seen.total[t]
        if total > 0:
            gain = g / total
            side = N @ gain
            moved, doubt = seen.surprise[t] / total - gain @ r, gain @ side + 1 / total
            r += np.multiply.outer(h, moved)
            N -= np.multiply.outer(h, side) + np.multiply.outer(side - h * doubt, h)
        if noise[t] > g @ h:
            estimates[t] = seen.predicted[t] + g @ r
            variances[t] = max(0.0, float(g @ h - g @ N @ g))
        elif noise[t] > 0:  # the same from the other side: of little noise, what is left is all but its variance
            estimates[t] = seen.predicted[t] + seen.surprise[t] - noise[t] * moved
            variances[t] = noise[t] - noise[t] ** 2 * doubt
        r[-1] *= seen.kept[t]
        N[-1] *= seen.kept[t]
        N[:, -1] *= seen.kept[t]
    return estimates, variances
