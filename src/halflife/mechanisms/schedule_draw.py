"""Seeded draws of many repetitions that all lose the same, whatever comes out: one account, settled at the end in arrays."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

import numpy as np

from halflife.errors import BudgetExceeded, InvalidInput
from halflife.mechanisms.base import Draw, Mechanism
from halflife.mechanisms.lane_noise import LaneNoise
from halflife.notions import WEvent
from halflife.numerics.arrays import Floats
from halflife.numerics.parameters import real
from halflife.numerics.rounding import TOLERANCE
from halflife.release import Noise, Release

BITS = 61
"""Sums are counted in units of 2⁻⁶¹ of the power of two above the largest sum: without error in 64 bits."""


class ScheduleDraw:
    """Seeded draws for the lab under w-event privacy with δ = 0, where losses are fixed beforehand and may cover several steps.

    It stands for `SimulatedDraw` with one account, whose time grows with the square of the steps where releases cover many of
    them. `settle` refuses a history in which some window loses more than ε (ours; tests hold it to `Accountant`).

    >>> draw = ScheduleDraw(WEvent(1.0, w=2), LaneNoise(1, lanes=3), lanes=3)
    >>> for step in (1, 2, 3):
    ...     with draw.step(step) as d:
    ...         noise = d(None, 1.0, loss=0.5)
    >>> draw.settle(), noise.shape
    (1.0, (3,))
    """

    def __init__(self, notion: WEvent, noise: LaneNoise, lanes: int) -> None:
        if not isinstance(notion, WEvent) or notion.delta:
            raise InvalidInput(
                f"a history is settled in arrays under w-event privacy with delta 0, not under {notion!r}"
            )
        self.notion, self.lanes, self._source = notion, lanes, noise
        self.releases: list[Release] = []
        self._step, self._open = 0, False

    @contextmanager
    def step(self, step: int) -> Iterator[Draw]:
        """Open a step; steps ascend."""
        if self._open or step <= self._step:
            raise InvalidInput(f"step {step} cannot follow step {self._step}: steps ascend, one open at a time")
        self._step, self._open = step, True
        try:
            yield self
        finally:
            self._open = False

    def run(self, mechanism: Mechanism, step: int, truth: Any) -> Any:
        """Run one step of a mechanism, which must not choose its losses from outputs."""
        if mechanism.adaptive:
            raise InvalidInput(f"{mechanism.name} chooses its losses from outputs: give each repetition an account")
        with self.step(step) as draw:
            return mechanism.step(step, truth, draw)

    def headroom(self, age: int = 0, span: int = 1) -> Any:
        """Refuse: what is left is known only when the account is settled, and a fixed loss does not depend on it."""
        raise InvalidInput("losses that are fixed beforehand do not ask what is left: give each repetition an account")

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
        """Record a release, the same in every lane, and return the noise of each: see `Request`."""
        if not self._open:
            raise InvalidInput("noise is drawn inside a step: with draw.step(k) as d: mechanism.step(k, truth, d)")
        if loss is None or scale is not None or (key, noise, age, size, atop) != (None, "laplace", 0, 1, None):
            raise InvalidInput(
                "a history that is settled in arrays takes fresh Laplace noise of a loss, for one number"
            )
        lost = real("loss", loss, positive=True)
        delta_f = real("sensitivity", sensitivity, positive=True)
        self.releases.append(
            Release(self._step, lost, sensitivity=delta_f, span=span, step_sensitivity=step_sensitivity)
        )
        return self._source.draw("laplace", delta_f / lost, (self.lanes,))

    def settle(self) -> float:
        """Return what the worst window loses, rounded up; refuse it if that is more than ε."""
        risk = largest_window(self.releases, self.notion.w)
        if risk > self.notion.epsilon * (1 + TOLERANCE):
            raise BudgetExceeded(
                f"some window of {self.notion.w} steps loses {risk:.12g}, above the promised {self.notion.epsilon:.12g}",
                step=self._step,
                risk=risk,
                limit=self.notion.epsilon,
                headroom=0.0,
            )
        return risk


def largest_window(releases: Sequence[Release], w: int) -> float:
    """Return the most that data of w consecutive steps loses by releases of Laplace noise, rounded up (ours).

    A release of loss ρ about m steps, of which each moves the value by a share s of its sensitivity, loses min(js, 1)ρ by a
    window that holds j of them. As a window's end moves on this rises by sρ at a time until k = min(w, m, ⌈1/s⌉) of them are
    inside, and falls the same way. So windows are differences of two running sums, of rises and of falls; these are of whole
    units, each rounded up.

    >>> largest_window([Release(4, 1.0, span=4, sensitivity=4.0, step_sensitivity=1.0), Release(5, 0.5)], 2)
    0.75
    """
    if not releases:
        return 0.0
    total = math.fsum(min(1.0, w * release.step_share) * release.loss for release in releases)
    unit = math.ldexp(1.0, math.frexp(2 * total)[1] - BITS)
    first, last = min(r.first_data_time for r in releases), max(r.data_time for r in releases)
    rises, falls = (np.zeros(last - first + 2, dtype=np.int64) for _ in range(2))
    for release in releases:
        share, begin = Fraction(release.step_share), release.first_data_time - first
        count, units = min(w, release.span, math.ceil(1 / share)), Fraction(release.loss) / Fraction(unit)
        whole, newest = (
            math.ceil(share * units),
            math.ceil((min(Fraction(1), count * share) - (count - 1) * share) * units),
        )
        rises[begin : begin + count - 1] += whole
        rises[begin + count - 1] += newest
        end = release.data_time - first
        falls[end - count + 2 : end + 1] += whole
        falls[end - count + 1] += newest
    entered, left = np.cumsum(rises), np.cumsum(falls)
    gone = np.concatenate([np.zeros(w, dtype=np.int64), left])[: len(entered)]
    worst = int((entered - gone).max())
    return math.nextafter(worst * unit, math.inf) if float(worst) < worst else worst * unit
