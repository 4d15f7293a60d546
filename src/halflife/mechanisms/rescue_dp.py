"""RescueDP: a rival that samples when its outputs change, and pays for each sample with a part of what is left of the window."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np

from halflife.errors import InvalidInput
from halflife.mechanisms.base import Draw
from halflife.notions import WEvent
from halflife.numerics.arrays import Floats
from halflife.numerics.forms import read_form
from halflife.numerics.parameters import real, whole
from halflife.plans import Plan
from halflife.registry import register_mechanism
from halflife.steps import Steps

PROPORTIONAL, INTEGRAL, RECENT = 0.9, 0.1, 3
"""Gains of the controller, and over how many changes it averages; its derivative has gain 0 and is left out."""
INTERVAL_GAIN = 10.0
"""θ: by how many steps the interval grows where nothing changes."""
PORTION, MOST_PORTION, SHARES = 0.2, 0.6, 5
"""φ and p_max: of what is left, a sample takes min(φ ln(I + 1), p_max), and never more than e_max = ε/5."""
FIRST_ERROR = 100.0
"""Variance of the filter's estimate at the first sample."""
LEAST = 2.0**-40
"""A sample that would get less than this part of ε is put off by a step: its noise would be 10¹² times as large as Δ/ε."""


@register_mechanism
class RescueDP:
    """RescueDP for one number a step (Wang, Zhang, Lu, Wang, Qin, Ren: IEEE TDSC 15(4), 2018; corrected: the filter).

    A step is sampled or repeats the last output. With I the interval, at a sample in step t:

        ε_t = min( min(φ ln(I + 1), p_max) · (ε − Σ_{t−w<k<t} ε_k),  e_max )           what is left comes from the account
        z = x_t + Laplace(Δ/ε_t),   r_t = r + K(z − r),   K = P/(P + R),   P ← (1 − K)P      r the last output, R = (Δw/ε)²
        E = |r_t − r|,   D = 0.9 E + 0.1 · mean of the last three E
        I ← max(1, I + θ(1 − (D/λ)²)),   λ = Δ / min(what is left at t + 1, e_max)

    and the next sample comes ⌊I⌋ steps later. Every step adds the variance q of the process to P. In the published code q is
    the variance of the *whole true stream*, later steps included, so outputs tell of values that are yet to come, and no budget
    pays for that. Here q is a public number, or estimated from the noisy values z_k so far, each with weight ε_k² (ours):

        q = max(0,  Σ ε_k²(z_k − z̄)² / Σ ε_k²  −  2Δ²n / Σ ε_k²),   z̄ their weighted mean, n how many there are

    Then everything but z is worked out from what was paid for, and w-event privacy follows from the losses alone (pure ε:
    adaptive choices are free).

    sensitivity  Δ, how far one person can move a value;  filtered  False leaves out the filter (r_t = z)
    variance     q if it is public knowledge; None: from noisy values
    counts       whether z and r_t become whole numbers from 0 on, as in the benchmark with `truncate`

    The true value may carry lanes: repetitions, each with an account of its own. A sample that would get less than 2⁻⁴⁰ ε is put
    off by a step (ours: published code divides by the rounding error that is left there).

    >>> from halflife.mechanisms.lane_draw import LaneDraw
    >>> notion = WEvent(1.0, w=20)
    >>> rescue, draw = RescueDP(notion), LaneDraw(notion, seed=1, lanes=2)
    >>> outputs = np.array([draw.run(rescue, step, np.full(2, 1000.0)) for step in range(1, 201)])
    >>> bool(np.abs(outputs - 1000).mean() < 20), bool((draw.headroom() >= 0).all())
    (True, True)
    """

    name: ClassVar[str] = "rescue-dp"
    adaptive: ClassVar[bool] = True

    def __init__(
        self,
        notion: WEvent,
        sensitivity: float = 1.0,
        *,
        filtered: bool = True,
        variance: float | Floats | None = None,
        counts: bool = False,
    ) -> None:
        if not isinstance(notion, WEvent) or notion.delta:
            raise InvalidInput(f"RescueDP is proved for w-event privacy with delta 0, not for {notion!r}")
        if variance is not None and not (np.all(np.isfinite(variance)) and np.all(np.asarray(variance) >= 0)):
            raise InvalidInput(f"the variance of the process must be a number from 0 on, not {variance!r}")
        self.notion, self.sensitivity = notion, real("sensitivity", sensitivity, positive=True)
        self.filtered, self.counts = filtered, counts
        self._variance = None if variance is None else np.asarray(variance, dtype=np.float64)
        self._most = notion.epsilon / SHARES
        self._noise = (self.sensitivity * notion.w / notion.epsilon) ** 2
        self._lanes: dict[str, Any] | None = None
        self._step = 0

    @classmethod
    def for_stream(cls, plan: Plan, *, name: str, steps: Steps, begin: int, cells: int, touched: int) -> Self:
        """Refuse: it is a rival to compare with, and steps that repeat an output would show an error band of no noise."""
        raise InvalidInput(
            "RescueDP is there to compare with, in the lab and in Python: a policy's stream is published by its plan"
        )

    def step(self, step: int, truth: Any, draw: Draw) -> Any:
        """Return the output of this step: a new sample, or the last output again."""
        single = np.ndim(truth) == 0
        lanes = self._move_to(step, np.shape(truth))
        due = lanes["next"] <= step
        if due.any():
            room = np.asarray(draw.headroom(), dtype=np.float64)
            loss = np.where(due, self._allocate(room, lanes["interval"]), 0.0)
            loss = np.where(loss >= LEAST * self.notion.epsilon, loss, 0.0)
            if loss.any():
                value = float(truth) if single else truth
                noisy = value + draw(None, self.sensitivity, loss=float(loss) if single else loss)
                self._sample(lanes, np.asarray(noisy, dtype=np.float64), loss, room)
        if np.isnan(lanes["last"]).any():
            raise InvalidInput("RescueDP has no output to repeat: the window has no room for its first sample")
        return float(lanes["last"]) if single else lanes["last"].copy()

    def _allocate(self, room: Floats, interval: Floats) -> Floats:
        """ε_t of a sample: a part of what is left that grows with the interval, at most e_max."""
        portion = np.minimum(PORTION * np.log(interval + 1), MOST_PORTION)
        return np.minimum(portion * room, self._most)

    def _sample(self, lanes: dict[str, Any], noisy: Floats, loss: Floats, room: Floats) -> None:
        """Take noisy values in, where there is one, and decide when to sample next: from noisy values and losses alone."""
        sampled = loss > 0
        self._estimate(lanes, noisy, loss)
        last, first = lanes["last"], np.isnan(lanes["last"])
        value = self._round(noisy)
        if self.filtered:
            gain = lanes["error"] / (lanes["error"] + self._noise)
            value = np.where(first, value, self._round(last + gain * (value - last)))
            lanes["error"] = np.where(sampled & ~first, lanes["error"] * (1 - gain), lanes["error"])
        lanes["last"] = np.where(sampled, value, last)
        lanes["spent"][self._step % self.notion.w] = loss
        leaving = lanes["spent"][(self._step + 1) % self.notion.w]
        moved = sampled & ~first
        interval = self._next_interval(lanes, np.abs(value - last), moved, room - loss + leaving)
        lanes["interval"] = np.where(moved, interval, lanes["interval"])
        lanes["next"] = np.where(sampled, self._step + np.floor(lanes["interval"]), lanes["next"])

    def _next_interval(self, lanes: dict[str, Any], change: Floats, moved: Any, left: Floats) -> Floats:
        """I + θ(1 − (D/λ)²), at least 1. `left`: what will be left of the window at the next step."""
        lanes["changes"] = np.where(moved, np.roll(lanes["changes"], 1, axis=0), lanes["changes"])
        lanes["changes"][0] = np.where(moved, change, lanes["changes"][0])
        lanes["count"] = lanes["count"] + moved
        mean = lanes["changes"].sum(axis=0) / np.clip(lanes["count"], 1, RECENT)
        signal = PROPORTIONAL * change + INTEGRAL * mean
        ratio = signal * np.minimum(left, self._most) / self.sensitivity
        following: Floats = np.maximum(1.0, lanes["interval"] + INTERVAL_GAIN * (1 - ratio**2))
        return following

    def _round(self, value: Floats) -> Floats:
        return np.maximum(0.0, np.floor(value + 0.5)) if self.counts else value

    def _move_to(self, step: int, shape: tuple[int, ...]) -> dict[str, Any]:
        """Go on to a step: forget losses that are out of the window, and let the process drift."""
        at = whole("step", step, least=1)
        if self._lanes is None:
            self._lanes = _begin(self.notion.w, shape)
        elif at <= self._step:
            raise InvalidInput(f"step {at} cannot follow step {self._step}: RescueDP needs steps in order")
        lanes = self._lanes
        if np.shape(lanes["last"]) != shape:
            raise InvalidInput(f"values of shape {shape} cannot follow those of shape {np.shape(lanes['last'])}")
        gone = at - self._step
        for k in range(min(gone, self.notion.w)):
            lanes["spent"][(at - k) % self.notion.w] = 0.0
        if self.filtered and self._step:
            lanes["error"] = lanes["error"] + gone * self._drift(lanes)
        self._step = at
        return lanes

    def _drift(self, lanes: dict[str, Any]) -> Floats:
        """q: public, or estimated from noisy values; 0 as long as there are fewer than two."""
        if self._variance is not None:
            return self._variance
        noise = 2 * self.sensitivity**2 * lanes["samples"] / lanes["weight"]
        estimate: Floats = np.maximum(0.0, lanes["squares"] / lanes["weight"] - noise)
        return estimate

    def _estimate(self, lanes: dict[str, Any], noisy: Floats, loss: Floats) -> None:
        """Count noisy values, each with weight ε_k², in the running mean and squared distances (known: West 1979)."""
        weight = loss**2
        lanes["samples"] = lanes["samples"] + (weight > 0)
        lanes["weight"] = lanes["weight"] + weight
        off = np.where(weight > 0, noisy - lanes["mean"], 0.0)
        with np.errstate(invalid="ignore"):
            lanes["mean"] = lanes["mean"] + np.where(weight > 0, off * weight / lanes["weight"], 0.0)
        lanes["squares"] = lanes["squares"] + np.where(weight > 0, weight * off * (noisy - lanes["mean"]), 0.0)

    def state(self) -> Any:
        """Return all that it remembers, lane by lane: outputs, losses, and sums over noisy values. All of it was paid for."""
        if self._lanes is None:
            return None
        return {"step": self._step} | {key: np.asarray(value).tolist() for key, value in self._lanes.items()}

    def restore(self, state: Any) -> None:
        """Go on from a saved state."""
        self._lanes, self._step = None, 0
        if state is not None:
            keys = tuple(_begin(self.notion.w, ()))
            form: Mapping[str, Any] = read_form("the state of RescueDP", state, ("step", *keys))
            self._step = whole("step", form["step"], least=1)
            self._lanes = {key: np.array(form[key], dtype=np.float64) for key in keys}


def _begin(w: int, shape: tuple[int, ...]) -> dict[str, Any]:
    """Nothing sampled yet.

    last      the last output, NaN before the first;  interval, next  I, and the step of the next sample
    changes   the last three E, of `count` so far;  spent  losses by step modulo w
    error     P of the filter;  samples, weight, mean, squares  of noisy values: how many, Σε_k², and their weighted mean and
              squared distances from it
    """
    return {
        "last": np.full(shape, math.nan), "interval": np.ones(shape), "next": np.ones(shape),
        "changes": np.zeros((RECENT, *shape)), "count": np.zeros(shape), "spent": np.zeros((w, *shape)),
        "error": np.full(shape, FIRST_ERROR), "samples": np.zeros(shape), "weight": np.zeros(shape),
        "mean": np.zeros(shape), "squares": np.zeros(shape),
    }  # fmt: skip
