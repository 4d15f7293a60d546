"""The state of a Swellfish account: the noise about the newest steps, and the secret that has lost the largest share."""

from __future__ import annotations

import math
from typing import NamedTuple

from halflife.errors import InvalidInput, UnboundedLoss
from halflife.notions.swellfish.losses import MOST_NOISE
from halflife.numerics.rounding import divide_up, up
from halflife.release import Noise, Release


class Worst(NamedTuple):
    """The secret that has lost the largest share of its ε so far.

    share  of its limit, at most 1 while the promise holds;  cost  in what the notion adds up;  epsilon  its ε
    together  with Laplace noise and δ > 0: so many releases of loss `cost`; else 0
    """

    share: float = 0.0
    cost: float = 0.0
    epsilon: float = math.inf
    together: int = 0


class SwellfishState(NamedTuple):
    """The state of an account: noise about data times first, first + 1, … as x (1/λ, or 1/σ²), and the worst secret so far."""

    first: int
    x: tuple[float, ...]
    worst: Worst
    forgotten: int | None = None
    """The newest data time whose noise is no longer known."""


def noise_of(release: Release, noise: Noise, hiding: bool) -> float:
    """Return x of a release, 1/λ or 1/σ², and no less than its loss implies; 0 if its loss is 0 or no secret is relevant.

    noise   the family that the promise is worked out for;  hiding  whether any secret is relevant at its data time

    >>> noise_of(Release(1, 0.5, sensitivity=3.0, scale=6.0), "laplace", hiding=True)
    0.16666666666666669
    """
    if release.scale is None:
        if release.loss == 0:
            return 0.0
        raise InvalidInput(f"release at step {release.step} lacks its scale, which what a secret loses comes from")
    if release.noise != noise:
        raise UnboundedLoss(
            f"step {release.step}: {release.noise} noise, and this promise is worked out for {noise} noise",
            step=release.step,
        )
    if not hiding:
        return 0.0
    if release.scale == 0:
        raise UnboundedLoss(
            f"step {release.step}: the exact value of step {release.data_time}, at which somebody hides something, has no "
            "bound: add noise",
            step=release.step,
        )
    unit = divide_up(1.0, release.scale)
    if release.sensitivity > 0:
        unit = max(unit, divide_up(release.loss, release.sensitivity) * (1 - 1e-15))
    x = unit if noise == "laplace" else up(unit * unit)
    if x > MOST_NOISE:
        raise UnboundedLoss(
            f"step {release.step}: noise of scale {release.scale:g} is as good as none: add more", step=release.step
        )
    return x


def remember(state: SwellfishState, time: int, x: float, keep: int) -> SwellfishState:
    """Return the state with x added at a data time: the noise about the newest `keep` steps stays, the rest is forgotten."""
    first, values, worst, forgotten = state
    if not values:
        first = time
    newest = first + len(values) - 1
    if time > newest + keep:
        if values:
            forgotten = newest
        first, values = time, ()
    if time < first:
        first, values = time, (*(0.0,) * (first - time), *values)
    values = (*values, *(0.0,) * (time - first + 1 - len(values)))
    at = time - first
    values = (*values[:at], values[at] + x, *values[at + 1 :])
    drop = max(0, len(values) - keep)
    return SwellfishState(first + drop, values[drop:], worst, first + drop - 1 if drop else forgotten)


def agree(one: SwellfishState, two: SwellfishState, slack: float) -> bool:
    """Return whether two states hold the same releases, though one may remember more; shares may differ by a part `slack`."""
    same = abs(one.worst.share - two.worst.share) <= slack * two.worst.share and len(one.x) * len(two.x) > 0
    if not one.x or not two.x:
        return one.x == two.x and one.worst.share == two.worst.share
    first = max(one.first, two.first)
    return same and one.x[first - one.first :] == two.x[first - two.first :]
