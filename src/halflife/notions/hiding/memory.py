"""What a Swellfish account remembers: the noise about the newest steps, and the secret that has lost the most by its share."""

from __future__ import annotations

import math
from typing import NamedTuple

from halflife.errors import InvalidInput, UnboundedLoss
from halflife.notions.hiding.losses import MOST_NOISE
from halflife.numerics import divide_up, up
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


class Hidden(NamedTuple):
    """Noise about the data times first, first + 1, … as x (1/λ, or 1/σ²), and the worst secret so far."""

    first: int
    x: tuple[float, ...]
    worst: Worst


def noise_of(release: Release, noise: Noise, hiding: bool) -> float:
    """Return x of a release, 1/λ or 1/σ², and no less than its loss says; 0 if it costs nobody anything.

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


def remembered(state: Hidden, release: Release, x: float, reach: int, once: bool) -> tuple[int, tuple[float, ...]]:
    """Return the remembered noise with x added at the release's data time: the first data time, and the noise from it on.

    reach  of how many steps a window may be;  once  whether a step takes one release alone
    """
    time, (first, values, _) = release.data_time, state
    if not values:
        return time, (x,)
    newest = first + len(values) - 1
    if time <= newest - reach:
        raise InvalidInput(
            f"release at step {release.step}: its data time {time} lies {newest - time} steps before the newest, {newest}, and "
            f"windows of {reach} steps are remembered: publish it with an age of at most {release.step - newest + reach - 1}"
        )
    if time > newest + 2 * reach:
        return time, (x,)
    if time < first:
        first, values = time, (*(0.0,) * (first - time), *values)
    values = (*values, *(0.0,) * (time - first + 1 - len(values)))
    at = time - first
    if values[at] and once:
        raise UnboundedLoss(
            f"step {release.step}: a second release about step {time}: with Laplace noise and a delta, scales are calibrated "
            "for one release about each step: use noise='gaussian', or delta=0",
            step=release.step,
        )
    return first, (*values[:at], values[at] + x, *values[at + 1 :])
