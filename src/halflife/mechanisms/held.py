"""What rivals share that publish at some steps and repeat their last output at all others: lanes, order of steps, saved state."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

import numpy as np

from halflife.errors import InvalidInput
from halflife.mechanisms.base import Draw
from halflife.notions import WEvent
from halflife.numerics.arrays import Floats
from halflife.numerics.forms import read_form
from halflife.numerics.parameters import real, whole
from halflife.plans import Plan
from halflife.steps import Steps

Lanes = dict[str, Any]


class HeldOutput(ABC):
    """A mechanism for one number a step whose output is its last noisy value until it publishes another one.

    A subclass says what it remembers (`begin`) and whether it publishes (`decide`), from noisy values and losses alone. The true
    value may carry lanes: repetitions, each with an account of its own.

    sensitivity  Δ, how far one person can move a value
    """

    name: ClassVar[str]
    adaptive: ClassVar[bool] = True

    def __init__(self, notion: WEvent, sensitivity: float = 1.0) -> None:
        if not isinstance(notion, WEvent) or notion.delta:
            raise InvalidInput(f"{self.name} is proved for w-event privacy with delta 0, not for {notion!r}")
        self.notion, self.sensitivity = notion, real("sensitivity", sensitivity, positive=True)
        self._lanes: Lanes | None = None
        self._step = 0

    @classmethod
    def for_stream(cls, plan: Plan, *, name: str, steps: Steps, begin: int, cells: int, touched: int) -> Self:
        """Refuse: it is a rival to compare with, and steps that repeat an output would show an error band of no noise."""
        raise InvalidInput(
            f"{cls.name} is there to compare with, in the lab and in Python: a policy's stream is published by its plan"
        )

    @abstractmethod
    def begin(self, shape: tuple[int, ...]) -> Lanes:
        """Return what it remembers before the first step, beside the last output; arrays that end with these dimensions."""

    @abstractmethod
    def decide(self, lanes: Lanes, truth: Floats, draw: Draw, first: bool) -> Floats:
        """Return what each lane pays for a new output now, 0 where the last one stays, and remember it."""

    def step(self, step: int, truth: Any, draw: Draw) -> Any:
        """Return the output of this step: a new noisy value, or the last output again."""
        lanes = self._move_to(step, np.shape(truth))
        value, first = np.asarray(truth, dtype=np.float64), bool(np.isnan(lanes["last"]).all())
        loss = self.decide(lanes, value, draw, first)
        if np.any(loss > 0):
            noisy = self.add_noise(value, loss, draw)
            lanes["last"] = np.where(loss > 0, noisy, lanes["last"])
        if np.isnan(lanes["last"]).any():
            raise InvalidInput(f"{self.name} has no output to repeat at step {step}: begin with step 1")
        return lanes["last"].copy() if np.ndim(truth) else float(lanes["last"])

    def add_noise(self, value: Floats, loss: Floats, draw: Draw) -> Floats:
        """Return values with noise of these losses, NaN where a loss is 0; noise can only be added to a value."""
        if value.ndim:
            return np.asarray(value + draw(None, self.sensitivity, loss=loss))
        return np.asarray(float(value) + draw(None, self.sensitivity, loss=float(loss)) if loss > 0 else math.nan)

    def _move_to(self, step: int, shape: tuple[int, ...]) -> Lanes:
        """Go on to a step, and forget losses that are out of the window."""
        at = whole("step", step, least=1)
        if self._lanes is None:
            self._lanes = {"last": np.full(shape, math.nan), **self.begin(shape)}
        elif at <= self._step:
            raise InvalidInput(f"step {at} cannot follow step {self._step}: {self.name} needs steps in order")
        if np.shape(self._lanes["last"]) != shape:
            raise InvalidInput(f"values of shape {shape} cannot follow those of shape {np.shape(self._lanes['last'])}")
        for k in range(min(at - self._step, self.notion.w) if "spent" in self._lanes else 0):
            self._lanes["spent"][(at - k) % self.notion.w] = 0.0
        self._step = at
        return self._lanes

    def state(self) -> Any:
        """Return all that it remembers, lane by lane. All of it was paid for."""
        if self._lanes is None:
            return None
        return {"step": self._step} | {key: np.asarray(value).tolist() for key, value in self._lanes.items()}

    def restore(self, state: Any) -> None:
        """Go on from a saved state."""
        self._lanes, self._step = None, 0
        if state is not None:
            keys = ("last", *self.begin(()))
            form = read_form(f"the state of {self.name}", state, ("step", *keys))
            self._step = whole("step", form["step"], least=1)
            self._lanes = {key: np.array(form[key], dtype=np.float64) for key in keys}
