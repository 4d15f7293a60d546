"""Age of information: how old the newest published data is, step after step (Definition 11, eq. 24; paper)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from halflife.errors import InvalidInput
from halflife.numerics.parameters import whole
from halflife.release import Release


def age_of_information(published: Iterable[tuple[int, int]], last_step: int) -> NDArray[np.float64]:
    """Return AoI(t) of steps 1 … `last_step` from the (step, age) of each release; NaN before the first one.

    AoI(S_n) = A_n, and it grows by one at every step without a release (Definition 11, eq. 24; paper). Of several releases at a
    step the freshest counts. A later release on older data makes it jump up: its reader was given something staler.

    >>> age_of_information([(2, 1), (5, 0)], last_step=6).tolist()
    [nan, 1.0, 2.0, 3.0, 0.0, 1.0]
    """
    steps = whole("last_step", last_step, least=1)
    newest: dict[int, int] = {}
    for i, (step, age) in enumerate(published):
        at, old = whole(f"step of release {i}", step, least=1), whole(f"age of release {i}", age, least=0)
        newest[at] = min(old, newest.get(at, old))
    result = np.full(steps, np.nan)
    now = np.nan
    for t in range(1, steps + 1):
        now = float(newest[t]) if t in newest else now + 1
        result[t - 1] = now
    return result


def freshness(releases: Iterable[Release], last_step: int | None = None) -> NDArray[np.float64]:
    """Return AoI(t) of steps 1 … `last_step` (by default that of the last release) from releases.

    >>> freshness([Release(1, 0.5, age=2), Release(4, 0.5, age=2)]).tolist()
    [2.0, 3.0, 4.0, 2.0]
    """
    published = [(release.step, release.age) for release in releases]
    if not published:
        raise InvalidInput("nothing was published, so there is no age of information: give at least one release")
    return age_of_information(published, max(step for step, _ in published) if last_step is None else last_step)


def peak_age(ages: NDArray[np.float64]) -> float:
    """Return the largest AoI(t) of a series from the first release on.

    For releases every S̄ steps on data A steps old it is A + S̄ − 1 in whole steps: at the next release's step the age is A again.
    The paper has A + S̄ (eq. 27), which is reached only in continuous time (corrected; Definition 11).

    >>> peak_age(age_of_information([(1, 2), (5, 2), (9, 2)], last_step=12))
    5.0
    """
    known = ages[np.isfinite(ages)]
    if not len(known):
        raise InvalidInput("nothing was published in these steps, so there is no age of information")
    return float(known.max())
