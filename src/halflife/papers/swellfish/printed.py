"""What the Swellfish paper prints: Tables II and III, and Figure 3 as read off its vector graphic."""

from __future__ import annotations

from typing import NamedTuple

from halflife.lab.swellfish.costs import PAPER_DELTA, PAPER_LONGEST, PAPER_SENSITIVITY

EPSILON, DELTA, SENSITIVITY, USER_SENSITIVITY = 0.1, PAPER_DELTA, PAPER_SENSITIVITY, 48.0
"""Table III, and the 48 kW that Table II takes for user-level privacy."""
REPETITIONS = 20


class Experiment(NamedTuple):
    """One column of Table III: w is the longest event."""

    number: int
    w: int


EXPERIMENTS = (Experiment(1, PAPER_LONGEST), Experiment(2, 672))

SWELLFISH, UNIFORM, RESCUE, USER = "Swellfish", "Uniform", "RescueDP", "user level"
PURE, APPROXIMATE = "pure", "approximate"
MECHANISMS = (
    (SWELLFISH, PURE), (UNIFORM, PURE), (RESCUE, PURE), (USER, PURE),
    (SWELLFISH, APPROXIMATE), (UNIFORM, APPROXIMATE), (USER, APPROXIMATE),
)  # fmt: skip
"""Table II, in the order of `FIGURE_3`."""

FIGURE_3: dict[int, tuple[float, ...]] = {
    1: (0.07855, 16.48, 17.22, 56780, 0.1029, 16.49, 1151),
    2: (0.007878, 1.639, 4.607, 5638, 0.01034, 1.641, 114.5),
    3: (0.007309, 1.52, 4.563, 5212, 0.009588, 1.522, 105.9),
    4: (2.952, 73.72, 67.92, 2123000, 4.052, 73.79, 43060),
    5: (0.1831, 9.709, 23.2, 135800, 0.241, 9.712, 2754),
    6: (0.00758, 1.573, 4.675, 5408, 0.00994, 1.575, 109.9),
    7: (0.007307, 1.522, 4.563, 5210, 0.009592, 1.523, 105.9),
    8: (0.3818, 12.47, 69.28, 285200, 0.5053, 12.48, 5783),
    9: (0.02124, 4.211, 11.61, 14470, 0.02751, 4.215, 293.6),
    10: (0.04216, 8.557, 27.3, 29430, 0.05486, 8.565, 596.9),
    11: (0.01267, 2.635, 6.3, 9011, 0.01657, 2.637, 182.9),
    12: (0.01031, 2.171, 6.831, 7417, 0.01349, 2.173, 150.8),
    13: (0.06924, 5.233, 21.12, 51280, 0.09159, 5.234, 1040),
    14: (0.06225, 13.31, 20.23, 45660, 0.08188, 13.32, 926),
    15: (0.02142, 4.445, 6.173, 15270, 0.02805, 4.45, 309.7),
    16: (0.04595, 9.795, 28.67, 33830, 0.06031, 9.805, 686),
    17: (0.0402, 8.342, 11.5, 28780, 0.0526, 8.35, 583.7),
    18: (0.006408, 1.352, 6.162, 40350, 0.008412, 1.354, 818.3),
    19: (0.01743, 3.69, 7.427, 12700, 0.02288, 3.693, 257.7),
    20: (0.01529, 3.222, 5.403, 11090, 0.02006, 3.225, 225),
}
"""Mean relative error in per cent of each zone (Figure 3). The text's 69.3 % of RescueDP "in zone 4" is zone 8 here."""

FILTERED_UNIFORM, UNFILTERED_USER = (4, 5, 8, 13), (18,)
"""Where Figure 3 shows the moving average: Uniform's error is below that of its noise alone in these zones, and user level's in
all but this one. The thresholds that decide it are not printed."""


def printed_error(zone: int, mechanism: str, promise: str) -> float | None:
    """Return what Figure 3 shows, in per cent; None if it does not.

    >>> printed_error(18, UNIFORM, PURE), printed_error(18, RESCUE, APPROXIMATE)
    (1.352, None)
    """
    if (mechanism, promise) not in MECHANISMS or zone not in FIGURE_3:
        return None
    return FIGURE_3[zone][MECHANISMS.index((mechanism, promise))]
