"""The parameters of the structural model: how fast level and waves change, and how large the irregular part is.

All variances count in that of the series itself (its *amplitude* squared), so that series of all sizes share them:

    level, week, day, side, year   the variance by which a state of that kind moves in one step; of the k-th wave k^−decay of it
    irregular                      the variance of the irregular part, z_t = φ·z_{t−1} + …, with φ its `persistence`

Log-variances, the logit of φ and `decay` have a weak normal prior (ours): a series that says nothing of a parameter leaves it
where most series have it, and no parameter runs off to infinity. Before the first value a wave has mean 0 and a share of the
square of the amplitude as its variance.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from halflife.errors import InvalidInput
from halflife.numerics.arrays import Bools, Floats
from halflife.numerics.forms import JsonObject, read_form
from halflife.postprocessing.structural.harmonics import DAY, LEVEL, PHASE, SIDE, WEEK, YEAR, Harmonics

NAMES = ("level", "week", "day", "side", "year", "irregular", "persistence", "decay")
KINDS = (LEVEL, WEEK, DAY, SIDE, YEAR)
PRIOR_A_DAY = np.array([0.03, 0.00015, 0.002, 0.00012, 0.001])
"""By how much level and waves move in a day (or in one step, if that is longer), as a variance: the middle of the prior."""
PRIOR_IRREGULAR, PRIOR_ALONE, PRIOR_LOGIT, PRIOR_DECAY = 0.06, 0.4, 1.0, 3.5
"""The middle of the prior of the others. Middle and spread are near what windows of London, five zones of GEFCom, Ausgrid, taxis
and flu have where noise hides little (ours): a level of ln 0.1 − 1.3 ± 1.4, a day's first wave of ln 0.0005 + 1.9 ± 1.2, an
irregular part of ln 0.06 − 0.1 ± 0.8 with a logit of 1.9 ± 1.5 (lower here, as white noise has none), a decay of 3.7 ± 0.8."""
PUBLIC_A_DAY = np.array([0.1, 0.0001, 0.0005, 0.0001, 0.001])
PUBLIC_IRREGULAR, PUBLIC_LOGIT, PUBLIC_DECAY = 0.02, 1.0, 1.0
"""What public parameters have where they do not say: ledgers know them so."""
PRIOR_SPREAD = np.array([1.5, 1.5, 1.5, 1.5, 1.5, 1.25, 2.0, 1.0])
REACH = 4.0
"""So many standard deviations of the prior a parameter may lie from its middle."""
SHARES = {LEVEL: 4.0, WEEK: 0.1, DAY: 0.5, SIDE: 0.05, YEAR: 0.5}
"""The variance of a state before the first value; of the k-th wave, k^−decay of it."""
GRID = 16
"""Fitted numbers are rounded to 1/16, so that machines whose last bits differ find the same."""


class Variances(NamedTuple):
    """Variances of all states, one row a set of parameters: of moves in a step, and before the first value."""

    moves: Floats
    before: Floats
    irregular: Floats
    persistence: Floats


@dataclass(frozen=True)
class Parameters:
    """A set of parameters, as numbers without bounds: six log-variances, the logit of the persistence, the decay.

    >>> round(Parameters.middle(48).persistence, 3)
    0.731
    """

    numbers: tuple[float, ...]

    @classmethod
    def middle(cls, steps_per_day: float, seasons: bool = True) -> Self:
        """Return the middle of the prior for a series of so many steps a day; without seasons more of it is irregular."""
        moves = np.log(PRIOR_A_DAY / max(1.0, steps_per_day))
        irregular = math.log(PRIOR_IRREGULAR if seasons else PRIOR_ALONE)
        return cls((*moves.tolist(), irregular, PRIOR_LOGIT, PRIOR_DECAY))

    @classmethod
    def from_numbers(cls, numbers: Floats) -> Self:
        """Return the parameters on the grid that lie nearest to these numbers."""
        return cls(tuple((np.round(numbers * GRID) / GRID).tolist()))

    @property
    def persistence(self) -> float:
        """φ, how much of the irregular part is left a step later."""
        return 1 / (1 + math.exp(-self.numbers[6]))

    def to_facts(self) -> JsonObject:
        """Return standard deviations by name, for people and for a ledger."""
        deviations = np.exp(np.array(self.numbers[:6]) / 2).tolist()
        return dict(zip(NAMES, [*deviations, self.persistence, self.numbers[7]], strict=True))

    @classmethod
    def from_facts(cls, facts: Mapping[str, object], steps_per_day: float) -> Self:
        """Read standard deviations by name; those that are not named have values of their own, which stay.

        >>> round(Parameters.from_facts({"level": 0.05}, 48).to_facts()["level"], 9)
        0.05
        """
        moves = np.log(PUBLIC_A_DAY / max(1.0, steps_per_day)).tolist()
        defaults = cls((*moves, math.log(PUBLIC_IRREGULAR), PUBLIC_LOGIT, PUBLIC_DECAY)).to_facts()
        form = read_form("the parameters of a seasonal estimate", facts, **defaults)
        for name, value in form.items():
            least, most = (0.0, 1.0) if name == "persistence" else (1e-9, 1e9)
            if isinstance(value, bool) or not isinstance(value, int | float) or not least < value < most:
                raise InvalidInput(
                    f"{name} must be a number above {least:g} and below {most:g}, not {value!r}", about=name
                )
        logit = math.log(form["persistence"] / (1 - form["persistence"]))
        return cls((*(2 * math.log(form[name]) for name in NAMES[:6]), logit, float(form["decay"])))


def free_parameters(harmonics: Harmonics) -> Bools:
    """Return which parameters the states of a model depend on."""
    return np.array([*(kind in harmonics.kinds for kind in KINDS), *[harmonics.irregular] * 2, bool(harmonics.waves)])


def find_variances(numbers: Floats, harmonics: Harmonics, reused: Floats | float = 0.0) -> Variances:
    """Return the variances of all states for rows of parameters, in squares of the amplitude; `reused` is that of reused noise.

    >>> found = find_variances(np.array([Parameters.middle(48).numbers]), Harmonics(48))
    >>> found.moves.shape, bool(found.before[0, 0] == 4.0)
    ((1, 40), True)
    """
    moves, before = np.zeros((2, len(numbers), harmonics.states))
    fading = harmonics.multiples[None] ** -numbers[:, 7:8]
    for column, kind in enumerate(KINDS):
        here = harmonics.kinds == kind
        moves[:, here] = np.exp(numbers[:, [column]]) * fading[:, here]
        before[:, here] = SHARES[kind] * fading[:, here]
    before[:, harmonics.kinds == PHASE] = np.broadcast_to(reused, len(numbers))[:, None]
    irregular, persistence = np.exp(numbers[:, 5]) * harmonics.irregular, 1 / (1 + np.exp(-numbers[:, 6]))
    moves[:, -1], before[:, -1] = irregular * (1 - persistence**2), irregular
    return Variances(moves, before, irregular, persistence)
