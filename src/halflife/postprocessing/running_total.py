"""The running total of a stream, as a sum of noisy nodes of a binary tree."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from halflife.errors import InvalidInput
from halflife.numerics.arrays import Floats
from halflife.numerics.dyadic import find_node
from halflife.numerics.forms import JsonObject, leave_out, read_form
from halflife.numerics.noise_sums import LAPLACE_BAND, band_of_noises
from halflife.numerics.parameters import real, whole
from halflife.postprocessing.base import PLAIN, Facts, check_values


class Noisy(NamedTuple):
    """A noisy node: the first of its steps, its values by cell, and the scale of its noise."""

    first: int
    values: tuple[float, ...]
    scale: float


class RunningTotal:
    """The total of the steps 1 … t from the noisy nodes of a binary tree (Chan, Shi, Song: ACM TISSEC 14(3), 2011; paper).

    Values are nodes: that of step t is the noisy sum of the m steps t − m + 1 … t, m as `numerics/dyadic.py` has it. It takes the
    place of the nodes whose steps it covers, and the total at t is the sum of all nodes that are left: they cover 1 … t, each
    step once. The noise of that sum is one of as many independent Laplace noises. The scale that is given back is that of one
    Laplace noise with the same 95 % band, worked out to within a part in 10⁶ and never too narrow (`numerics/noise_sums.py`).

    It needs every step, from 1 on. What it remembers are the nodes that are left, about log₂ t of them; all of it is public.

    endless  whether the stream has no end, so that trees follow each other

    >>> nodes = np.array([[1.0], [3.0], [3.0], [10.0], [5.0]])          # the sums of 1, 1 … 2, 3, 1 … 4, 5
    >>> RunningTotal().smooth(nodes, np.ones(5))[0].ravel().tolist()
    [1.0, 3.0, 6.0, 10.0, 15.0]
    """

    name: ClassVar[str] = "running_total"

    def __init__(self, endless: bool = False) -> None:
        self.endless = endless
        self._step = 0
        self._nodes: list[Noisy] = []

    def smooth(self, values: Floats, scales: Floats, facts: Facts = PLAIN) -> tuple[Floats, Floats]:
        """Return the totals, and the scale of one Laplace noise with the band of all noises in each."""
        check_values(values, scales)
        steps = self._step + 1 + np.arange(len(values)) if facts.steps is None else facts.steps
        totals, left = np.zeros_like(values), np.zeros(len(values))
        for k, step in enumerate(steps.tolist()):
            self._take(step, tuple(values[k].tolist()), float(scales[k]))
            totals[k] = [math.fsum(cell) for cell in zip(*(node.values for node in self._nodes), strict=True)]
            left[k] = _find_scale(tuple(sorted(node.scale for node in self._nodes)))
        return totals, left

    def _take(self, step: int, values: tuple[float, ...], scale: float) -> None:
        """Take the node of the next step in the place of those that it covers."""
        if step != self._step + 1:
            raise InvalidInput(
                f"step {step} cannot follow step {self._step}: a running total needs each step, from 1 on"
            )
        first = step - find_node(step, self.endless).width + 1
        self._nodes = [*(node for node in self._nodes if node.first < first), Noisy(first, values, scale)]
        self._step = step

    def to_facts(self) -> JsonObject:
        """Return whether trees follow each other."""
        return leave_out({"name": self.name, "endless": self.endless}, endless=False)

    @classmethod
    def from_facts(cls, facts: Mapping[str, object]) -> Self:
        """Read what `to_facts` gave."""
        form = read_form("running_total", facts, ("name",), endless=False)
        return cls(bool(form["endless"]))

    def state(self) -> Any:
        """Return the newest step and the noisy nodes that are left."""
        return {"step": self._step, "nodes": [[node.first, list(node.values), node.scale] for node in self._nodes]}

    def restore(self, state: object) -> None:
        """Restore the state that `state` gave."""
        self._step, self._nodes = 0, []
        if state is not None:
            form = read_form("the state of a running total", state, ("step", "nodes"))
            self._step = whole("step", form["step"], least=0)
            self._nodes = [
                Noisy(whole("first", first, least=1), tuple(map(float, values)), real("scale", scale))
                for first, values, scale in form["nodes"]
            ]


@lru_cache(maxsize=10_000)
def _find_scale(scales: tuple[float, ...]) -> float:
    """The scale of one Laplace noise whose 95 % band is that of the sum of noises of these scales, or a little wider."""
    return scales[0] if len(scales) == 1 else band_of_noises(np.array(scales)) / LAPLACE_BAND
