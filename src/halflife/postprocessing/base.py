"""Post-processing of published values: it costs no privacy (Theorem 4; paper), and never looks ahead.

A smoother takes the values of some steps (steps × cells) with the noise scale of each step, and gives both back changed. A
scale of 0 is an exact value. Its state is plain data, so that it is saved with the release and goes on after a restart. What it
gives for a step does not depend on how the steps were cut into blocks.

A step has one scale for all its cells, in whole units; `Facts` says what that is worth in each cell. Where cells come out
differently, the scale that is given back is that of the cell that fared worst: the band of no cell is too narrow.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from halflife.errors import InvalidInput
from halflife.numerics.arrays import Floats
from halflife.numerics.forms import JsonObject


@dataclass(frozen=True, eq=False)
class Facts:
    """Public facts about some steps beside their noise scales.

    steps   their numbers, which tell how many steps were left out between two values (None: none were)
    worth   what a scale of 1 is worth in each cell, in the unit of the values; one number if all cells agree
    std     the standard deviation of noise of scale 1: √2 for Laplace noise, 1 for Gaussian
    days    the local time at which each step begins, in days (None: steps of one length, from time 0)
    fresh   the scale of the noise that was drawn for each step alone, and
    reused  of that which other steps share (None: no noise is shared)
    shared  the name of the noise that a step shares: steps with one name have the same noise (None: not known)
    """

    steps: NDArray[np.int64] | None = None
    worth: Floats = field(default_factory=lambda: np.ones(1))
    std: float = math.sqrt(2)
    days: Floats | None = None
    fresh: Floats = field(default_factory=lambda: np.zeros(0))
    reused: Floats | None = None
    shared: Sequence[str] | None = None

    @property
    def band(self) -> float:
        """95 % of noise of scale 1 lies within ± this."""
        return math.log(20) if self.std > 1 else 1.959963984540054


class Estimate(NamedTuple):
    """Estimates, steps × cells, and the half-width of the 95 % band of each."""

    values: Floats
    bands: Floats

    def worst_scales(self, facts: Facts) -> Floats:
        """Return, of each step, the scale of noise whose 95 % band is that of the cell that fared worst."""
        worst: Floats = (self.bands / facts.worth).max(axis=1, initial=0.0) / facts.band
        return worst


PLAIN = Facts()
"""Laplace noise in the unit of the values, at steps that follow each other."""


class Smoother(Protocol):
    """One step of post-processing."""

    name: ClassVar[str]

    def smooth(self, values: Floats, scales: Floats, facts: Facts = PLAIN) -> tuple[Floats, Floats]:
        """Return the values, and the scale of the noise that is left in them."""
        ...

    def to_facts(self) -> JsonObject:
        """Return its name and parameters as a ledger keeps them, written out by hand, without those at their defaults."""
        ...

    @classmethod
    def from_facts(cls, facts: Mapping[str, object]) -> Self:
        """Read what `to_facts` gave, of this version or an earlier one."""
        ...

    def state(self) -> Any:
        """Return what `restore` needs, as JSON can hold it."""
        ...

    def restore(self, state: object) -> None:
        """Go on from a saved state."""
        ...


def check_values(values: Floats, scales: Floats) -> None:
    """Refuse invalid values or noise scales."""
    if values.ndim != 2 or scales.shape != values.shape[:1]:
        raise InvalidInput(
            f"post-processing needs steps × cells and a scale for each step, not {values.shape} and {scales.shape}"
        )
    if not np.isfinite(values).all():
        raise InvalidInput("post-processing needs finite values: one is infinite or not a number")
    if not (np.isfinite(scales) & (scales >= 0)).all():
        wrong = scales[~(np.isfinite(scales) & (scales >= 0))][0]
        raise InvalidInput(f"a noise scale is a number from 0 (an exact value) on, not {float(wrong)!r}")
