"""The secret that has lost the largest share of its ε, after every release: the criterion of Swellfish accounts."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from halflife.errors import InvalidInput, UnboundedLoss
from halflife.notions.calibration import FEW_PAIRS, composed_epsilon
from halflife.notions.gaussian_dp import gaussian_epsilon
from halflife.notions.swellfish.certified import gaussian_limits
from halflife.notions.swellfish.live import Live
from halflife.notions.swellfish.memory import SwellfishState, Worst
from halflife.notions.swellfish.required import required_scales
from halflife.numerics.arrays import Floats, Integers
from halflife.numerics.rounding import TOLERANCE, up
from halflife.release import Noise, Release
from halflife.specifications.base import Specifications
from halflife.specifications.neighbours import Interpretation

TOO_LARGE = 1.02
"""Scales that are calibrated together are too large, by less than this; a secret that seems short by less is looked at alone."""


class Judge:
    """Costs are held to limits; Laplace noise with δ > 0 to calibrated scales, so that no loss distribution is computed (T6)."""

    def __init__(
        self, specifications: Specifications, interpretation: Interpretation, delta: float, noise: Noise
    ) -> None:
        self.specifications, self.interpretation, self.delta, self.noise = specifications, interpretation, delta, noise
        self.live = Live(specifications, interpretation, noise)
        self.by_threshold = delta > 0 and noise == "laplace"

    @cached_property
    def limits(self) -> Floats:
        """What each secret's cost must stay within: ε_s, or with Gaussian noise the square of μ(ε_s, δ), rounded down."""
        s = self.specifications
        return s.epsilon if self.noise == "laplace" else gaussian_limits(s, self.delta)

    @cached_property
    def required(self) -> Floats:
        """The noise scale that each secret requires: g_s per unit of power, under all-events c_s in total (see `.required`)."""
        return required_scales(self.specifications, self.interpretation, self.delta, self.noise)

    def check(self, state: SwellfishState, release: Release) -> None:
        """Refuse a release about a step whose windows reach back to what was forgotten, or one too many about a step."""
        time, place = release.data_time, release.data_time - state.first
        if state.forgotten is not None and self.live.lowest(time) <= state.forgotten:
            raise InvalidInput(
                f"release at step {release.step}: its data time {time} lies in a window with steps of which the account has "
                f"forgotten what was published (up to {state.forgotten}): publish it earlier"
            )
        if self.by_threshold and 0 <= place < len(state.x) and state.x[place]:
            raise UnboundedLoss(
                f"step {release.step}: a second release about step {time}: with Laplace noise and a delta, scales are calibrated "
                "for one release about each step: use noise='gaussian', or delta=0",
                step=release.step,
            )

    def worst(self, state: SwellfishState, time: int) -> Worst:
        """Return the worst secret once the noise at a data time has changed."""
        first, values, worst, _ = state
        if self.by_threshold:
            return self.worst_by_scale(worst, values[time - first], time)
        x, newest = np.array(values), first + len(values) - 1
        if self.interpretation == "all-events":
            return self._worst_together(worst, time, x, first)
        for end in range(time, min(newest, time + self.live.reach - 1) + 1):
            worst = self._worse(worst, *self.live.costs(end, x, first))
        return worst

    def _worst_together(self, worst: Worst, time: int, x: Floats, first: int) -> Worst:
        """The same under all-events: only the secrets are looked at whose bounds (`.bounds`) allow that they are the worst.

        The household of the largest bound comes first: what it costs is at least what the worst one must.
        """
        rows, bounds = self.live.bounds(time, x, first)
        if not len(rows):
            return worst
        shares, homes = bounds / self.limits[rows], self.specifications.household[rows]
        if shares.max() <= worst.share:
            return worst
        top = homes[np.argmax(shares)]
        found = self._worse(worst, *self.live.costs(time, x, first, np.array([top])))
        others = (shares >= found.share) & (shares > worst.share)
        if not (homes[others] != top).any():
            return found
        return self._worse(worst, *self.live.costs(time, x, first, homes[others]))

    def _worse(self, worst: Worst, rows: Integers, costs: Floats) -> Worst:
        """Return the first of these secrets with the largest share, if that is more than the worst one's."""
        if not len(rows):
            return worst
        shares = costs / self.limits[rows]
        i = int(np.argmax(shares))
        if shares[i] <= worst.share:
            return worst
        return Worst(float(shares[i]), float(costs[i]), float(self.specifications.epsilon[rows[i]]))

    def worst_by_scale(self, worst: Worst, x: float, time: int) -> Worst:
        """The same for Laplace noise with a δ: each relevant secret's calibrated scale over the scale that was used."""
        rows, required, moved = self.live.required_scales(time, self.required)
        shares, losses = required * x, np.nextafter(moved * x, np.inf)
        if self._in_batch:
            for k in np.flatnonzero((shares > 1 + TOLERANCE) & (shares <= TOO_LARGE)):
                shares[k] *= self._calibrate_alone(int(rows[k])) / self.required[rows[k]]
        i = int(np.argmax(shares)) if len(rows) else 0
        if not len(rows) or shares[i] <= worst.share:
            return worst
        s = self.specifications
        return Worst(float(shares[i]), float(losses[i]), float(s.epsilon[rows[i]]), int(s.duration[rows[i]]))

    @cached_property
    def _in_batch(self) -> bool:
        """Whether scales are calibrated for so many kinds of secrets at once that they may be up to 1 % too large."""
        s = self.specifications
        return bool(len(np.unique(np.stack([s.duration.astype(np.float64), s.epsilon]), axis=1).T) > FEW_PAIRS)

    def _calibrate_alone(self, row: int) -> float:
        """Return the scale that one secret requires, calibrated by itself, under all-events with its household; rarely used."""
        begin, stop = self.specifications.rows(int(self.specifications.household[row]))
        rows = np.arange(begin, stop) if self.interpretation == "all-events" else np.array([row])
        found = required_scales(self.specifications.only(rows), self.interpretation, self.delta, self.noise)
        return float(found[np.flatnonzero(rows == row)[0]])

    def risk(self, worst: Worst) -> float:
        """Return the loss of the worst secret in ε at δ, rounded up."""
        if self.noise == "gaussian":
            return gaussian_epsilon(up(math.sqrt(worst.cost)), self.delta)
        if not self.by_threshold:
            return worst.cost
        if worst.share == 0:
            return 0.0
        if worst.share <= 1 + TOLERANCE:  # ε(ρ)/ρ never falls as ρ grows (notions.calibration)
            return up(worst.share * worst.epsilon)
        if self.interpretation == "all-events":
            return math.inf
        return composed_epsilon(worst.together, worst.cost, self.delta, self.noise)
