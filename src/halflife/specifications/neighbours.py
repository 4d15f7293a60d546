"""Neighbouring series of one household under the three interpretations of Definition 13."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from typing import Literal

from halflife.errors import InvalidInput, unknown
from halflife.specifications.base import Secret, Specification

Interpretation = Literal["one-event", "one-window", "all-events"]
"""Which series count as neighbours (Definition 13): see `neighbouring`."""
INTERPRETATIONS: tuple[Interpretation, ...] = ("one-event", "one-window", "all-events")
MOST_SECRETS = 10


def neighbouring(
    specification: Specification, before: Sequence[float], after: Sequence[float], interpretation: str = "one-window"
) -> bool:
    """Return whether two series of one household, at steps 1 … n, are neighbours (Definitions 12 and 13; corrected, S1 and S2).

    d_t = |before_t − after_t|, W_s is a placement: T_s consecutive steps of J_s. It may reach beyond the series.

    one-event    some s and W_s: d_t ≤ p_s in W_s, and 0 elsewhere
    one-window   some s and W_s: d_t ≤ Δ_t in W_s, and 0 elsewhere
    all-events   a W_s for every s: d_t ≤ Σ p_s over the s with t ∈ W_s; the literal definition, with "≤" for "="

    Numbers are compared as the decimals that they were written as. A series is its own neighbour.

    >>> p = Specification([Secret(3.0, 2, 1, 4, 1.0)])                                   # (Figure 2; paper)
    >>> neighbouring(p, [0.2, 0.3, 0.2, 3.1], [0.2, 3.3, 3.2, 3.1], "one-event")
    True
    >>> neighbouring(p, [0.2, 0.3, 0.2, 3.1], [3.2, 0.3, 0.2, 0.1], "all-events")       # two steps, but not in a row
    False
    """
    if interpretation not in INTERPRETATIONS:
        raise unknown("interpretation of neighbours", interpretation, INTERPRETATIONS)
    if len(before) != len(after):
        raise InvalidInput(f"two series of the same steps are compared, not {len(before)} and {len(after)} steps")
    gaps = [abs(_exact(x) - _exact(y)) for x, y in zip(before, after, strict=True)]
    if not any(gaps):
        return True
    if interpretation == "all-events":
        return _all_events(specification.secrets, gaps)
    apart = [t for t, gap in enumerate(gaps, start=1) if gap]
    total = [sum(_exact(s.power) for s in specification.relevant(t)) for t in range(1, len(gaps) + 1)]
    for s in specification.secrets:
        room = total if interpretation == "one-window" else [_exact(s.power)] * len(gaps)
        fits = s.start <= apart[0] and apart[-1] <= s.end and apart[-1] - apart[0] < s.duration
        if fits and all(gaps[t - 1] <= room[t - 1] for t in apart):
            return True
    return False


def _exact(x: float) -> Fraction:
    try:
        return Fraction(repr(float(x)))
    except (TypeError, ValueError):
        raise InvalidInput(f"a series holds finite numbers, not {x!r}") from None


def _all_events(secrets: tuple[Secret, ...], gaps: list[Fraction]) -> bool:
    """Search from the first step on: who covers the first step that lacks something may as well reach as far right as it can."""
    if len(secrets) > MOST_SECRETS:
        raise InvalidInput(f"placements of at most {MOST_SECRETS} secrets are searched, not of {len(secrets)}")
    exact = [_exact(s.power) for s in secrets]
    unit = math.lcm(*(x.denominator for x in (*exact, *gaps)))
    powers, needs = ([int(x * unit) for x in some] for some in (exact, gaps))

    @cache
    def can_cover(t: int, placed: tuple[int | None, ...]) -> bool:
        """Whether steps t … n can be covered; `placed` has the last step of each placement, None where there is none yet."""
        while t <= len(needs) and (not needs[t - 1] or needs[t - 1] <= _sum(powers, placed, t)):
            t += 1
        placed = tuple(0 if last is not None and last < t else last for last in placed)  # over, whenever it was
        return t > len(needs) or any(
            can_cover(t, (*placed[:i], min(t, s.end - s.duration + 1) + s.duration - 1, *placed[i + 1 :]))
            for i, s in enumerate(secrets)
            if placed[i] is None and s.relevant(t)
        )

    return can_cover(1, (None,) * len(secrets))


def _sum(powers: list[int], placed: tuple[int | None, ...], t: int) -> int:
    """The powers of the events that still go on at step t."""
    return sum(p for p, last in zip(powers, placed, strict=True) if last is not None and t <= last)
