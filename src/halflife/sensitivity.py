"""How far one person can move a statistic, from public knowledge alone."""

from __future__ import annotations

from collections.abc import Sequence

from halflife.errors import InvalidInput
from halflife.numerics import divide_up, real, up, whole


def mean_sensitivity(low: float, high: float, members: Sequence[int]) -> list[float]:
    """Return Δf_k of a mean over n_k members, step by step, when people join and leave (Remark 1, discounted paper; ours).

    Readings are clipped to [low, high]; f_k = (Σ of the readings that are there) / n_k with a *public* n_k, so a person who has
    not come yet, or has left, counts as 0 and n_k is the same for both neighbours. One person's whole series then moves
    f_k by at most max(high − low, |low|, |high|) / n_k: to another reading, or to and from nothing. A smaller n_k makes a
    larger Δf_k: the losses of a plan stay, its noise grows. If n_k itself depends on a person's data it is not public, and
    must be released as a statistic of its own.

    >>> mean_sensitivity(0.0, 5.0, [300, 250])
    [0.01666666666666667, 0.02]
    """
    for name, bound in (("low", low), ("high", high)):
        real(f"|{name}|", abs(bound))
    if not low < high:
        raise InvalidInput(
            f"low = {low!r} must lie below high = {high!r}: bounds are public, and a reading lies between them"
        )
    reach = max(high - low if low in (0, -high) else up(high - low), abs(low), abs(high))
    return [
        divide_up(reach, float(whole(f"members at release {k}", n, least=1))) for k, n in enumerate(members, start=1)
    ]
