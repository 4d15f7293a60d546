"""Seeded draws of many repetitions under pure w-event privacy, with all their accounts in one array."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halflife import noise as grade
from halflife.errors import BudgetExceeded, InvalidInput
from halflife.mechanisms.base import Draw, Mechanism
from halflife.mechanisms.lane_noise import LaneNoise
from halflife.notions import WEvent
from halflife.numerics.arrays import Floats
from halflife.numerics.parameters import real, whole
from halflife.numerics.rounding import TOLERANCE
from halflife.release import Noise

BITS = 60
"""A loss is counted in units of 2⁻⁶⁰ of the power of two above ε: sums of a window fit into 64 bits, without error."""


class LaneDraw:
    """Seeded draws for the lab under w-event privacy with δ = 0: a lane for each repetition, each with an account of its own.

    It stands for `SimulatedDraw` with an `Accountant` a lane where an adaptive mechanism runs for hundreds of thousands of steps.
    For each lane it keeps the losses of the last w steps, in whole units that are rounded up; the headroom is ε less their sum,
    rounded down. So it is never above that of `Accountant(WEvent(ε, w))`, and at most w units below it, 2⁻⁵⁹·w·ε
    (ours; tests hold the two to each other). It takes fresh Laplace noise for one number about the present step alone.

    seed     of all lanes together, or a `LaneNoise`, which has a source for each
    charged  the losses of each draw of the newest step, lane by lane

    >>> draw = LaneDraw(WEvent(1.0, w=2), seed=1, lanes=3)
    >>> with draw.step(1) as d:
    ...     noise = d(None, 1.0, loss=np.array([0.25, 0.5, 0.0]))
    >>> with draw.step(2) as d:
    ...     d.headroom().tolist(), np.isfinite(noise).tolist()
    ([0.75, 0.5, 1.0], [True, True, False])
    """

    def __init__(self, notion: WEvent, seed: int | LaneNoise, lanes: int = 1) -> None:
        if not isinstance(notion, WEvent) or notion.delta:
            raise InvalidInput(f"accounts in an array are of w-event privacy with delta 0, not of {notion!r}")
        self.notion, self.lanes = notion, whole("lanes", lanes, least=1)
        self._source = seed if isinstance(seed, LaneNoise) else grade.SimulatedNoise(seed)
        self._unit = math.ldexp(1.0, math.frexp(notion.epsilon)[1] - BITS)
        self._limit = int(notion.epsilon / self._unit)
        self._most = int(notion.epsilon * (1 + TOLERANCE) / self._unit)
        self._spent = np.zeros((notion.w, self.lanes), dtype=np.int64)
        self._used = np.zeros(self.lanes, dtype=np.int64)
        self._step, self._open = 0, False
        self.charged: list[Floats] = []

    @contextmanager
    def step(self, step: int) -> Iterator[Draw]:
        """Open a step; steps ascend. An error inside leaves what was drawn charged: nobody goes on from it in the lab."""
        if self._open or step <= self._step:
            raise InvalidInput(f"step {step} cannot follow step {self._step}: steps ascend, one open at a time")
        for left in range(max(self._step + 1, step - self.notion.w + 1), step + 1):
            slot = self._spent[left % self.notion.w]
            self._used -= slot
            slot[:] = 0
        self._step, self._open, self.charged = step, True, []
        try:
            yield self
        finally:
            self._open = False

    def run(self, mechanism: Mechanism, step: int, truth: Any) -> Any:
        """Run one step of a mechanism."""
        with self.step(step) as draw:
            return mechanism.step(step, truth, draw)

    def headroom(self, age: int = 0, span: int = 1) -> Floats:
        """Return the largest loss that may be drawn for now, lane by lane."""
        if age or span != 1:
            raise InvalidInput(f"accounts in an array are about the present step, not about age {age}, span {span}")
        left = np.maximum(self._limit - self._used, 0)
        room = left.astype(np.float64)
        room = np.where(room.astype(np.int64) > left, np.nextafter(room, 0.0), room)
        return np.asarray(room * self._unit)

    def __call__(
        self,
        key: str | None,
        sensitivity: float,
        *,
        loss: Any = None,
        scale: Any = None,
        noise: Noise = "laplace",
        age: int = 0,
        size: int = 1,
        lattice: float | None = None,
        touched: int | None = None,
        atop: tuple[str, float, float] | None = None,
        span: int = 1,
        step_sensitivity: float | None = None,
    ) -> Floats:
        """Charge each lane with its loss and return its noise, NaN where the loss is 0: see `Request`."""
        if not self._open:
            raise InvalidInput("noise is drawn inside a step: with draw.step(k) as d: mechanism.step(k, truth, d)")
        plain = (key, noise, age, size, atop, span, step_sensitivity) == (None, "laplace", 0, 1, None, 1, None)
        if loss is None or scale is not None or not plain:
            raise InvalidInput("accounts in an array take fresh Laplace noise of a loss, for one number about now")
        losses = np.broadcast_to(np.asarray(loss, dtype=np.float64), (self.lanes,))
        self._charge(losses)
        with np.errstate(divide="ignore"):
            scales = real("sensitivity", sensitivity, positive=True) / losses
        self.charged.append(losses.copy())
        return self._source.draw("laplace", scales, (self.lanes,))

    def _charge(self, losses: Floats) -> None:
        """Charge all lanes, or none if one of them cannot pay."""
        if not (np.all(losses >= 0) and np.all(losses <= 2 * self.notion.epsilon)):
            raise InvalidInput(f"losses must lie between 0 and ε, not {losses}")
        units: NDArray[np.int64] = np.ceil(losses / self._unit).astype(np.int64)
        over = self._used + units > self._most
        if over.any():
            lane = int(np.argmax(over))
            room, risk = float(self.headroom()[lane]), float(self._used[lane] + units[lane]) * self._unit
            raise BudgetExceeded(
                f"step {self._step}, lane {lane}: a loss of {losses[lane]:.6g} would bring the risk to {risk:.12g}, above the "
                f"promised {self.notion.epsilon:.12g}: at most {room:.6g} fits now",
                step=self._step,
                risk=risk,
                limit=self.notion.epsilon,
                headroom=room,
            )
        self._used += units
        self._spent[self._step % self.notion.w] += units
