"""What breaks a period, by name: drift, season, weekday, memory; read from correlations between periods, beside shuffled ones.

With R a K × K matrix of correlations between periods and b₁ … b_m orthonormal vectors over the periods that span a pattern,

    share = Σ_i b_iᵀ R b_i / tr R

is the part of the variation that follows the pattern (a straight line for drift, a sine of a year for season, a level for each
place in the week for weekday). Without the pattern it is about m/K. All of this is ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from halflife.numerics.arrays import Floats

Anyfloats = NDArray[np.floating]
Scope = Literal["each home", "mean of homes"]

MARGIN, REACH, FAR_REACH = 1.1, 2.0, 3.0
"""See `stands_out`; the last is for a maximum, whose law has a long tail."""
LEAST_SHARE = 0.005
"""A pattern that explains less of the variation than this is not worth a name."""
LEAST_MEMORY = 0.02
OVER_BACKGROUND = 2.0
"""Drift and season must stand this far above slow waves of no meaning, or they are memory: noise that fades slowly has both."""
WAVES = range(3, 9)
"""Waves in the record that serve as this background."""
CLOCK = ("time of day", "weekday")
DAY, WEEK, YEAR = 1440.0, 7 * 1440.0, 365.25 * 1440.0
"""In minutes."""


class Finding(NamedTuple):
    """Something that a period does not explain.

    name    "drift", "season", "drift or season" (the record is too short to tell), "time of day", "weekday", "memory"
    scope   "each home": homes move each in their own way, which ρ sees; "mean of homes": their mean moves, which ρ cannot see
    size    the share of the variation that follows it; for memory the mean correlation of neighbouring periods
    usual   the largest size in shuffled copies
    """

    name: str
    scope: Scope
    size: float
    usual: float
    text: str


def stands_out(value: float, shuffled: Sequence[float], reach: float = REACH) -> bool:
    """Whether a value is beyond shuffled copies: 10 % above their mean, and `reach` times as far from it as the largest.

    With 19 copies and a reach of 2 the second is nearly four standard deviations. The first is for a median that hardly varies
    between copies: shuffling is not exact when the spread of a home changes over time, and that can move it by a few per cent.

    >>> stands_out(0.157, [0.048, 0.049]), stands_out(0.052, [0.048, 0.049]), stands_out(0.5, [0.3, 0.45])
    (True, False, False)
    """
    mean = float(np.mean(shuffled))
    return value > max(MARGIN * mean, mean + reach * (max(shuffled) - mean))


def calendar(periods: int, minutes: float) -> dict[str, Floats]:
    """Return the patterns that can be told apart in this many periods of this many minutes, each as columns over the periods.

    Drift needs 8 periods, season nine months, weekday a period that divides the week and four weeks; a period that divides the
    day has a time of day, and weekday is what is left of the week without it.

    >>> {name: basis.shape for name, basis in calendar(365, 1440.0).items()}
    {'drift': (365, 1), 'season': (365, 2), 'weekday': (365, 6)}
    >>> sorted(calendar(52, 7 * 1440.0)), sorted(calendar(30, 1440.0))
    (['drift', 'season'], ['drift or season', 'weekday'])
    """
    k, found = np.arange(periods, dtype=np.float64), {}
    long_enough = periods * minutes >= 0.75 * YEAR
    if periods >= 8:
        found["drift" if long_enough else "drift or season"] = k[:, None] - k.mean()
    angle = 2 * np.pi * k * minutes / YEAR
    if long_enough and minutes <= YEAR / 4:
        found["season"] = _centre(np.column_stack([np.cos(angle), np.sin(angle)]))
    for name, cycle in (("time of day", DAY), ("weekday", WEEK)):
        places = round(cycle / minutes)
        if places >= 2 and abs(places * minutes - cycle) < 1e-6 and periods >= 4 * places:
            basis = _centre((k[:, None] % places == np.arange(places - 1)).astype(np.float64))
            day = found.get("time of day")
            found[name] = basis if day is None else _without(basis, _orthonormal(day))
    return found


def find_patterns(
    matrix: Anyfloats, shuffled: Sequence[Anyfloats], minutes: float, scope: Scope, weight: float = 1.0
) -> list[Finding]:
    """Name what stands out, the largest first; each is judged on what those before it leave.

    matrix, shuffled  correlations between periods, and the same of shuffled copies; NaN where nothing is known
    weight            how much of all variation this matrix is about
    """
    observed, nulls = np.nan_to_num(matrix), [np.nan_to_num(null) for null in shuffled]
    left = calendar(len(observed), minutes)
    slow = np.hstack([np.zeros((len(observed), 0)), *(left[name] for name in left if name not in CLOCK)])
    background = _background(observed, _orthonormal(slow))
    taken, found = np.zeros((len(observed), 0)), []
    while left:
        bases = {name: _orthonormal(_without(basis, taken)) for name, basis in left.items()}
        shares = {name: share(observed, basis) for name, basis in bases.items()}
        usual = {name: [share(null, basis) for null in nulls] for name, basis in bases.items()}
        best = max(left, key=lambda name: shares[name] - float(np.mean(usual[name])))
        size, most, basis = shares[best], max(usual[best]), bases[best]
        excess = size - float(np.mean(usual[best]))
        floor = 0.0 if best in CLOCK else OVER_BACKGROUND * background * basis.shape[1]
        if stands_out(size, usual[best]) and size > floor and excess * weight >= LEAST_SHARE:
            found.append(Finding(best, scope, size, most, _pattern_text(best, scope, size, most)))
            taken = _orthonormal(np.hstack([taken, basis]))
        del left[best]
    return found + (_memory(observed, nulls, taken) if scope == "each home" else [])


def share(matrix: Anyfloats, basis: Floats) -> float:
    """Σ_i b_iᵀ R b_i / tr R for the columns b_i of an orthonormal basis.

    >>> share(np.full((4, 4), 1.0), np.full((4, 1), 0.5))
    1.0
    """
    total = float(np.trace(matrix))
    return float(np.sum(basis * (matrix @ basis))) / total if total > 0 else 0.0


def _memory(observed: Anyfloats, nulls: Sequence[Anyfloats], taken: Floats) -> list[Finding]:
    """Whether neighbouring periods are alike beyond the patterns that were found."""
    size, usual = _neighbours(observed, taken), [_neighbours(null, taken) for null in nulls]
    if not stands_out(size, usual) or size - float(np.mean(usual)) < LEAST_MEMORY:
        return []
    most = max(usual)
    beyond = " beyond that" if taken.shape[1] else ""
    usually = f"shuffled at most {round(most, 2) + 0.0:.2f}"
    text = f"neighbouring periods of a home are alike{beyond} (mean correlation {size:.2f}; {usually})"
    return [Finding("memory", "each home", size, most, text)]


def _neighbours(matrix: Anyfloats, taken: Floats) -> float:
    """The mean correlation of neighbouring periods, with the taken patterns projected out of both sides."""
    if len(matrix) < 3:
        return 0.0
    half = matrix - taken @ (taken.T @ matrix)
    rest = half - (half @ taken) @ taken.T
    spread = float(np.trace(rest)) / len(rest)
    return float(np.diagonal(rest, 1).mean()) / spread if spread > 0 else 0.0


def _background(matrix: Anyfloats, slow: Floats) -> float:
    """The share of a wave of no meaning, per column."""
    if len(matrix) < 4 * WAVES[-1]:
        return 0.0
    angle = 2 * np.pi * np.arange(len(matrix)) / len(matrix)
    waves = np.column_stack([turn(n * angle) for n in WAVES for turn in (np.cos, np.sin)])
    basis = _orthonormal(_without(waves, slow))
    return share(matrix, basis) / int(basis.shape[1])


def _pattern_text(name: str, scope: Scope, size: float, most: float) -> str:
    each = scope == "each home"
    who, s = ("homes, each in its own way,", "") if each else ("the mean over homes, which ρ does not see,", "s")
    what = {
        "drift": f"drift{s} over the record",
        "season": f"follow{s} a season",
        "drift or season": f"drift{s} or follow{s} a season (the record is too short to tell which)",
        "time of day": f"follow{s} the time of day",
        "weekday": f"follow{s} the day of the week",
    }[name]
    within = "of what varies" if each else "of how it varies"
    return f"{who} {what} ({100 * size:.1f} % {within}; shuffled at most {100 * most:.1f} %)"


def _centre(basis: Floats) -> Floats:
    centred: Floats = basis - basis.mean(axis=0)
    return centred


def _without(basis: Floats, taken: Floats) -> Floats:
    rest: Floats = basis - taken @ (taken.T @ basis)
    return rest


def _orthonormal(basis: Floats) -> Floats:
    """Orthonormal columns of the same span; those that are as good as nothing are left out."""
    vectors, sizes, _ = np.linalg.svd(basis, full_matrices=False)
    columns: Floats = vectors[:, sizes > 1e-9 * max(1.0, sizes.max(initial=0.0))]
    return columns
