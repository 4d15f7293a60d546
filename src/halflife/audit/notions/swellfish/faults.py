"""Planted faults in Swellfish plans, such as Theorem 8 claimed for one occurrence of every event (erratum S1)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from halflife.audit.black_box import Pair
from halflife.audit.registry import Faults, History
from halflife.notions import Swellfish
from halflife.numerics.arrays import Floats
from halflife.specifications import Secret, Specification, Specifications

GRID = 2.0**-10
LOUD = 3.0
"""The ε at which 20,000 runs see the witness plainly, at about 1.4 of what is claimed; at ε = 1 they find 1.1 to 1.4."""


def s1_witness(epsilon: float = 1.0) -> Specification:
    """Ten events that fill ten hiding intervals of ten steps, and one short one in all of them; in tenths of a kW (S1)."""
    ten = [Secret(30.0, 10, 10 * k + 1, 10 * k + 10, epsilon) for k in range(10)]
    return Specification([Secret(1.0, 2, 1, 100, epsilon), *ten], "Elm 7")


def all_at_once(specification: Specification, steps: int) -> Floats:
    """How far a household's value moves at steps 1 … n if every secret's event happens once, as early as it may."""
    moves = np.zeros(steps)
    for s in specification.secrets:
        moves[s.start - 1 : s.start - 1 + s.duration] += s.power
    return moves


def witness_pair(method: str, epsilon: float = 1.0) -> Pair:
    """The witness with the scales of a method: every event happens once in one stream, none in the other; ε is claimed.

    >>> pair = witness_pair("paper")
    >>> round(float(np.sum((pair.second - pair.first) / pair.scales)), 2)      # the exact loss, by its likelihood ratio
    9.68
    """
    witness = s1_witness(epsilon)
    plan = Swellfish(Specifications(witness), neighbours="all-events").plan(method=method)
    return Pair("", np.zeros(100), all_at_once(witness, 100), plan.scales(100), epsilon)


@dataclass(frozen=True, eq=False)
class SimulatedPath:
    """A pair's values plus Laplace noise of its scales, on a grid that they lie on, so that last bits tell nothing."""

    pair: Pair

    def __call__(self, which: int, runs: int) -> Floats:
        """Return outputs of so many runs."""
        exact = self.pair.second if which else self.pair.first
        noise = np.random.default_rng().laplace(0.0, self.pair.scales, (runs, len(exact)))
        made: Floats = exact + np.round(noise / GRID) * GRID
        return made


def _publish(promise: Swellfish, planned: Swellfish, method: str, steps: int) -> History:
    """What is published by the scales of one promise, and what is claimed of another: its smallest ε."""
    plan = planned.plan(method=method)
    releases = [r for k in range(1, steps + 1) for r in plan.releases_at(k)]
    return promise, releases, float(promise.specifications.epsilon.min())


def theorem_8_under_all_events() -> History:
    """Theorem 8's scales, claimed for one occurrence of every event: the witness of erratum S1 loses 9.68 for 1."""
    promise = Swellfish(Specifications(s1_witness()), neighbours="all-events")
    return _publish(promise, promise, "paper", 100)


def durations_a_step_short() -> History:
    """Noise for events of T − 1 steps, as if one from step a to step b lasted b − a steps: 4/3 of what is claimed."""

    def evening(lasts: int) -> Swellfish:
        return Swellfish(Specifications(Specification([Secret(3.0, lasts, 1, 12, 1.0)], "Elm 7")))

    return _publish(evening(4), evening(3), "tight", 12)


def theorem_9_without_one_household() -> History:
    """Theorem 9's maximum without one household, of 3 for 2 steps beside 2 for 2 steps: it loses 1.5 for 1."""
    small = Specification([Secret(2.0, 2, 1, 8, 1.0)], "Elm 7")
    large = Specification([Secret(3.0, 2, 1, 8, 1.0)], "Oak 2")
    return _publish(Swellfish(Specifications([small, large])), Swellfish(Specifications(small)), "paper", 8)


def plant_faults() -> Faults:
    """Return the planted faults of Swellfish, and the control: the same two streams with the scales that all-events needs."""
    broken, kept = witness_pair("paper", LOUD), witness_pair("tight", LOUD)
    return Faults(
        histories={
            "Theorem 8 of Swellfish under all-events": theorem_8_under_all_events(),
            "Swellfish with durations a step short": durations_a_step_short(),
            "Theorem 9 of Swellfish without one household": theorem_9_without_one_household(),
        },
        paths={"Theorem 8 of Swellfish under all-events, its outputs": (broken, SimulatedPath(broken))},
        honest={"honest noise for all events of Swellfish": (kept, SimulatedPath(kept))},
    )
