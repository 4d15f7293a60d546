"""Truncation of published values to public bounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Self

import numpy as np

from halflife.errors import InvalidInput
from halflife.numerics.arrays import Floats
from halflife.numerics.forms import JsonObject, read_form
from halflife.postprocessing.base import PLAIN, Facts, check_values


class Truncate:
    """Keep values within public bounds: max(low, min(high, y)). An error never grows.

    >>> Truncate(0.0, 5.0).smooth(np.array([[-1.0], [2.0]]), np.ones(2))[0].tolist()
    [[0.0], [2.0]]
    """

    name: ClassVar[str] = "truncate"

    def __init__(self, low: float, high: float) -> None:
        if not low < high:
            raise InvalidInput(f"truncate needs low below high, not {low!r} and {high!r}")
        self.low, self.high = low, high

    def smooth(self, values: Floats, scales: Floats, facts: Facts = PLAIN) -> tuple[Floats, Floats]:
        """Return the truncated values."""
        check_values(values, scales)
        return np.clip(values, self.low, self.high), scales

    def to_facts(self) -> JsonObject:
        """Return the bounds."""
        return {"name": self.name, "low": self.low, "high": self.high}

    @classmethod
    def from_facts(cls, facts: Mapping[str, object]) -> Self:
        """Read what `to_facts` gave."""
        form = read_form("truncate", facts, ("name", "low", "high"))
        return cls(form["low"], form["high"])

    def state(self) -> None:
        """Nothing to keep."""

    def restore(self, state: object) -> None:
        """Nothing to restore."""
