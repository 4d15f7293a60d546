"""Releases that share one draw of noise, charged as if each had independent noise: when that is valid, and at which loss.

Let y₁ = f₁ + v be published alone, v of scale b_v, and y_j = f_j + v + u_j under fresh noise u_j of scale b_j. The map
(y₁, y_j) → (y₁, y_j − y₁) loses nothing, and v and the u_j are independent, so both together are independent releases

    f₁ + v          which moves by Δ₁            at a loss of Δ₁ / b_v,
    f_j − f₁ + u_j  which moves by Δ₁ + Δ_j      at a loss of (Δ₁ + Δ_j) / b_j,

and that is attained by neighbours who move f₁ and f_j in opposite directions (ours). It holds for Gaussian noise as well, with
μ for the loss. Noise that is never published alone only makes values noisier: given v, y_j costs Δ_j / b_j.

The difference is about both data times. A notion that counts by data time can charge it where they are one; where they are
not, each y_j tells about the data of y₁ once more, without end, and that has no bound.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, NamedTuple

from halflife.errors import InvalidInput, UnboundedLoss, unknown
from halflife.notions.base import Notion
from halflife.numerics.parameters import real, whole
from halflife.numerics.rounding import ratio_up
from halflife.release import NOISES, Noise, Release

LARGEST = 1e300
"""A loss beyond this is as good as none that is bounded."""


class Drawn(NamedTuple):
    """Shared noise: whether it was published alone, and then with a value of which sensitivity, about which data time."""

    alone: bool
    sensitivity: float = 0.0
    data_time: int = 0
    noise: Noise = "laplace"


Draws = Mapping[str, Drawn]
"""Shared noise by name. It is never changed: a new name makes a new mapping."""


def separate(notion: Notion, draws: Draws, release: Release) -> tuple[Draws, Release]:
    """Return the release as one of independent noise, and the names with it; raise UnboundedLoss if there is none.

    >>> from halflife import Classical
    >>> draws, first = separate(Classical(9.0), {}, Release(1, 0.001, draw="v"))
    >>> first.loss, separate(Classical(9.0), draws, Release(2, 1.0, atop="v"))[1].loss
    (0.001, 2.0)
    """
    if release.draw is not None and not notion.shares_draws:
        _refuse_reuse(notion, draws, release, release.draw)
    if release.draw is not None:
        draws = {**draws, release.draw: Drawn(True, release.sensitivity, release.data_time, release.noise)}
    if release.atop is None or notion.shares_draws:
        return draws, release
    under = draws.get(release.atop)
    if under is None:
        return {**draws, release.atop: Drawn(False)}, release
    return draws, _difference(notion, release, under) if under.alone else release


def _refuse_reuse(notion: Notion, draws: Draws, release: Release, name: str) -> None:
    """Refuse noise that is published alone for the second time, or after it lay under fresh noise."""
    known = draws.get(name)
    if known is None:
        return
    if known.alone:
        raise UnboundedLoss(
            f"step {release.step}: the noise {name!r} was used before, so the difference of the two values is "
            f"exact and its loss under {notion.name} has no bound: draw fresh noise",
            step=release.step,
        )
    raise UnboundedLoss(
        f"step {release.step}: the noise {name!r} lay under fresh noise before, and published alone it would take itself off "
        f"those values, which were charged without it under {notion.name}: draw fresh noise",
        step=release.step,
    )


def _difference(notion: Notion, release: Release, under: Drawn) -> Release:
    """Return the release as the difference of two values with the same noise: sensitivity Δ₁ + Δ_j under the fresh noise.

    Its sensitivity is written as the smaller of the two, so that whoever scales the loss to another one scales it up.
    """
    if release.loss == math.inf:
        return release
    where = f"step {release.step}: the noise {release.atop!r} was published alone"
    if not notion.bounds_differences or (notion.by_data_time and release.data_time != under.data_time):
        raise UnboundedLoss(
            f"{where}, about data time {under.data_time}: every value atop it tells about that time again, which has no bound "
            f"under {notion.name}: draw fresh noise instead, and name nothing under it",
            step=release.step,
        )
    loss = _steepness(release) * (Fraction(release.sensitivity) + Fraction(under.sensitivity))
    if under.noise != release.noise or not 0 < loss < LARGEST:
        raise UnboundedLoss(
            f"{where}, and how far the difference of the two values moves under the fresh noise is not known: both need the "
            "same family of noise, and the second one a loss or a scale",
            step=release.step,
        )
    return Release(
        release.step, ratio_up(loss.numerator, loss.denominator), release.age, scale=release.scale, noise=release.noise,
        sensitivity=min(release.sensitivity, under.sensitivity),
    )  # fmt: skip


def _steepness(release: Release) -> Fraction:
    """Return the loss per unit of change: 1/b, or more where the release states more; 0 if neither scale nor loss is known."""
    stated = Fraction(release.loss) / Fraction(release.sensitivity) if release.sensitivity else Fraction(0)
    return max(stated, 1 / Fraction(release.scale) if release.scale else Fraction(0))


def dump_draws(draws: Draws) -> list[Any]:
    """Return the names as JSON can hold them: [name] if it only lay under fresh noise, [name, Δ, data time, noise] if not."""
    return [
        [name, known.sensitivity, known.data_time, known.noise] if known.alone else [name]
        for name, known in sorted(draws.items())
    ]


def load_draws(data: object) -> dict[str, Drawn]:
    """Read what `dump_draws` gave.

    >>> load_draws([["v", 1.0, 3, "laplace"]])["v"].data_time
    3
    """
    if not isinstance(data, list):
        raise InvalidInput(f"the draws of an account must be a list of names, not {data!r}")
    draws = dict(map(_load_draw, data))
    if len(draws) != len(data):
        raise InvalidInput("a name of shared noise stands twice")
    return draws


def _load_draw(item: object) -> tuple[str, Drawn]:
    if not isinstance(item, list) or len(item) not in (1, 4) or not isinstance(item[0], str):
        raise InvalidInput(f"shared noise must be [name] or [name, sensitivity, data time, noise], not {item!r}")
    if len(item) == 1:
        return item[0], Drawn(alone=False)
    name, sensitivity, time, noise = item
    if noise not in NOISES:
        raise unknown("noise", noise, NOISES)
    return name, Drawn(True, real("sensitivity", sensitivity), whole("data time", time), noise)
