"""What mechanisms share that publish at some steps and repeat their last output at all others: lanes, numbers of a step, order of
steps, saved state, and their way into policies."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from halflife.errors import InvalidInput
from halflife.mechanisms.base import Draw, Mechanism
from halflife.noise import SMALLEST_LOSS
from halflife.notions import Classical, WEvent
from halflife.numerics.arrays import Floats
from halflife.numerics.forms import JsonObject, read_form
from halflife.numerics.parameters import real, whole
from halflife.numerics.rounding import divide_down
from halflife.plans import Plan
from halflife.plans.base import MEAN_ABSOLUTE_OF_UNIT_SCALE
from halflife.release import Noise, Release
from halflife.steps import Steps

Lanes = dict[str, Any]


class Shape(NamedTuple):
    """What the values of a policy's stream are.

    cells  how many numbers a value has, published together, of which one person can change so many as `touched`
    age    how many steps old the data is when it is published
    every  so many steps of the plan lie between two values
    """

    cells: int = 1
    touched: int | None = None
    age: int = 0
    every: int = 1


class HeldOutput(ABC):
    """A mechanism whose output is its last noisy value until it publishes another one.

    A subclass says what it remembers (`begin`) and whether it publishes (`decide`), from noisy values and losses alone. The true
    value may carry lanes: repetitions, each with an account of its own. In a policy's stream it is the vector of the numbers of a
    step instead (`shape`), about which one decision is taken.

    sensitivity  Δ, how far one person can move a value, in the L1 norm
    budget       what any w steps may spend: ε, as losses add up; of Gaussian noise, in a stream alone, μ², as squares of μ do
    published    whether the newest step has an output of its own
    repeats      whether streams of a policy have steps that repeat an output
    source       who found it;  rule, others  when it publishes, and what other steps have, in words
    most_share  of the budget that one output can have
    takes_vectors, takes_gaussian  whether one decision may be taken about several numbers of a step; and noise be Gaussian
    counts       whether noisy values become whole numbers from 0 on, max(0, round(·)), before anything is made of them: as in
                 the benchmark of Schäler, Hütter and Schäler (PVLDB 16(8), 2023) with `truncate`
    """

    name: ClassVar[str]
    source: ClassVar[str]
    rule: ClassVar[str]
    others: ClassVar[str] = "all other steps repeat the output before them, without an error band"
    most_share: ClassVar[float] = 1.0
    adaptive: ClassVar[bool] = True
    keeps_noise: ClassVar[bool] = False
    repeats: ClassVar[bool] = True
    takes_vectors: ClassVar[bool] = True
    takes_gaussian: ClassVar[bool] = True

    def __init__(self, notion: WEvent, sensitivity: float = 1.0, *, counts: bool = False) -> None:
        if not isinstance(notion, WEvent) or notion.delta:
            raise InvalidInput(f"{self.name} is proved for w-event privacy with delta 0, not for {notion!r}")
        self.notion, self.sensitivity = notion, real("sensitivity", sensitivity, positive=True)
        self.shape, self.published = Shape(), False
        self.noise: Noise = "laplace"
        self.budget = self.notion.epsilon
        self.counts = counts
        self._lanes: Lanes | None = None
        self._step = 0

    @classmethod
    def for_stream(cls, plan: Plan, *, name: str, steps: Steps, begin: int, cells: int, touched: int) -> Mechanism:
        """Return the mechanism of a policy's stream, which counts the stream's own steps; refuse what it is not proved for."""
        made = cls(find_window(plan, cls.name), plan.sensitivity)
        if cells > 1 and not cls.takes_vectors:
            raise InvalidInput(
                f"{cls.name} publishes one number a step, and the stream has {cells:,}: leave groups and bins out, or take bd"
            )
        made.shape = Shape(cells, touched, plan.request.age, plan.request.every)
        if plan.noise == "gaussian":
            made._take_gaussian(plan)
        least = float(made.to_loss(np.asarray(divide_down(made.budget, made.find_parts()))))
        if least < SMALLEST_LOSS * touched:
            raise InvalidInput(
                f"{cls.name} would draw noise of a loss of {least:.3g}: the least is {SMALLEST_LOSS * touched:.3g}; promise a "
                "larger epsilon, or a shorter window"
            )
        return made

    def _take_gaussian(self, plan: Plan) -> None:
        """Spend squares of μ, as many as the plan gives to the steps of a window; refuse what is not proved so."""
        if not self.takes_gaussian or self.shape.cells > 1:
            raise InvalidInput(
                f"{self.name} has Gaussian noise for one number a step at the most, as far as it is proved: leave groups and "
                "bins out, or promise delta 0"
            )
        self.noise, self.budget = "gaussian", self.notion.w * plan.loss(1) ** 2 * (1 - 1e-12)

    def to_loss(self, spent: Floats) -> Floats:
        """Return the losses that a part of the budget pays for: itself, or its root where squares add up."""
        return spent if self.noise == "laplace" else np.sqrt(spent)

    def find_parts(self) -> float:
        """Return into how many parts the budget of a window is cut for the smallest draw: 2w, for a question at every step."""
        return 2.0 * self.notion.w

    @abstractmethod
    def begin(self, shape: tuple[int, ...]) -> Lanes:
        """Return what it remembers before the first step, beside the last output; arrays that end with these dimensions."""

    @abstractmethod
    def decide(self, lanes: Lanes, truth: Floats, draw: Draw, first: bool) -> Floats:
        """Return what each lane pays for a new output now, 0 where the last one stays, and remember it."""

    def step(self, step: int, truth: Any, draw: Draw) -> Any:
        """Return the output of this step: a new noisy value, or the last output again."""
        lanes, value = self._move_to(step, np.shape(truth)), np.asarray(truth)
        if value.dtype.kind not in "iu":
            value = value.astype(np.float64)
        first = bool(np.isnan(lanes["last"]).all())
        loss = self.decide(lanes, value, draw, first)
        self.published = bool(np.any(loss > 0))
        if self.published:
            noisy = self.round_noisy(self.add_noise(value, loss, draw))
            lanes["last"] = np.where(loss > 0, noisy, lanes["last"])
        return lanes["last"].copy() if np.ndim(truth) else float(lanes["last"])

    def find_lanes(self, truth: Floats) -> tuple[int, ...]:
        """Return the dimensions of the lanes that a value carries: none where it is the vector of a step's numbers."""
        return () if self.shape.cells > 1 else truth.shape

    def add_noise(self, value: Floats, loss: Floats, draw: Draw) -> Floats:
        """Return values with noise of these losses, NaN where a loss is 0; noise can only be added to a value."""
        cells, touched, age, _ = self.shape
        if cells > 1:
            noise = draw(None, self.sensitivity, loss=float(loss), age=age, size=cells, touched=touched)
            return np.asarray(value + noise)
        if value.ndim:
            return np.asarray(value + draw(None, self.sensitivity, loss=self.to_loss(loss), **self._family))
        return self._add_to_one(value.item(), loss, draw)

    def _add_to_one(self, value: float, loss: Floats, draw: Draw) -> Floats:
        """One number with noise, NaN where the loss is 0."""
        if loss == 0:
            return np.asarray(math.nan)
        older: dict[str, Any] = {"age": self.shape.age} if self.shape.age else {}
        paid = float(self.to_loss(loss))
        return np.asarray(value + draw(None, self.sensitivity, loss=paid, **older, **self._family))

    @property
    def _family(self) -> dict[str, Any]:
        return {} if self.noise == "laplace" else {"noise": self.noise}

    def measure_distance(self, lanes: Lanes, truth: Floats, loss: Floats, draw: Draw) -> Floats:
        """Return how far the values are from the last output, with noise of these losses, which are paid: see `moved_far`.

        It is D = Σ_i |x_i − l_i| over the numbers of a value: the mean of Kellaris et al. times how many they are. By the
        triangle inequality |D(x) − D(x′)| ≤ Σ_i |x_i − x′_i| ≤ Δ, whatever the last output l is. Whole numbers, which a
        stream has, are compared with the last output rounded to whole numbers, so that D is exact, and Δ bounds how far it moves
        to the last bit.
        """
        if self.shape.cells == 1 and (truth.ndim or truth.dtype.kind not in "iu"):
            return self.add_noise(np.abs(truth - lanes["last"]), loss, draw)
        pairs = zip(truth.ravel().tolist(), lanes["last"].ravel().tolist(), strict=True)
        return self._add_to_one(sum(abs(x - round(y)) for x, y in pairs), loss, draw)

    def moved_far(self, distance: Floats, loss: Floats) -> Any:
        """Return whether the mean distance of a value's numbers is larger than noise would be on average that so much pays for:
        Δ/ε_t, or √(2/π) Δ/μ_t."""
        paid, mean = self.to_loss(loss), MEAN_ABSOLUTE_OF_UNIT_SCALE[self.noise]
        return (distance * paid > self.sensitivity * mean * self.shape.cells) & (paid >= self.least_loss)

    @property
    def least_loss(self) -> float:
        """The least loss that release-grade noise is drawn for: outputs that could only have less are not published."""
        return SMALLEST_LOSS * (self.shape.touched or 1)

    @property
    def most_loss(self) -> float:
        """The most that one output can cost: its noise has a scale of Δ over this at the least."""
        return float(self.to_loss(np.asarray(self.budget * self.most_share)))

    def describe(self) -> JsonObject:
        """Return what a certificate says of it, as of a plan: its name, family of noise, source, and why the promise is kept."""
        spent = (
            f"lose {self.budget:g} nats at most, whatever is published; pure losses may be chosen from earlier outputs"
        )
        if self.noise == "gaussian":
            spent = (
                f"have Σμ² of {self.budget:.6g} at most, whatever is published; under Gaussian differential privacy μ may be "
                "chosen from earlier outputs (Smith, Thakurta 2022)"
            )
        tail = f"Any {self.notion.w:,} steps of the stream in a row {spent}. "
        tail += "At steps that repeat an output nothing is known of how far the truth has moved."
        return {"method": self.name, "noise": self.noise, "source": self.source, "tail": tail}

    def noise_in_output(self, scales: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return which noises of the newest step are in its output: the one drawn last, or none where it repeats an output."""
        return scales[-1:] if self.published else ()

    @classmethod
    def find_fault(
        cls, before: Floats | None, output: Floats, spread: float, releases: Sequence[Release]
    ) -> str | None:
        """Return what is wrong with an output that was recorded after another one (None: it is the first), if anything.

        spread  the scale of its noise: that of its last release; infinite where it repeats the output before it
        """
        if math.isfinite(spread):
            good = bool(releases) and releases[-1].scale == spread
            return None if good else "the noise recorded with it is not that of its release"
        if before is None:
            return "repeats an output, and there is none before it"
        same = before.tobytes() == output.tobytes()
        return None if same else "does not repeat the output before it, and has no noise of its own"

    def round_noisy(self, noisy: Floats) -> Floats:
        """Return noisy values as they are released: themselves, or with `counts` max(0, round(·)), halves up."""
        return np.maximum(0.0, np.floor(noisy + 0.5)) if self.counts else noisy

    def _move_to(self, step: int, shape: tuple[int, ...]) -> Lanes:
        """Go on to a step, and forget losses that are out of the window."""
        at = (whole("step", step, least=1) - 1) // self.shape.every + 1
        if self._lanes is None:
            self._lanes = {"last": np.full(shape, math.nan), **self.begin(() if self.shape.cells > 1 else shape)}
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
            fresh = self.begin(() if self.shape.cells > 1 else self._lanes["last"].shape)
            if any(np.shape(self._lanes[key]) != np.shape(value) for key, value in fresh.items()):
                raise InvalidInput(f"the state is not that of {self.name} over windows of {self.notion.w} steps")


def find_window(plan: Plan, name: str) -> WEvent:
    """Return w-event privacy over a stream's own steps that keeps the promise which a plan is made for.

    **w-event**, δ = 0: a window of w steps of the account touches at most n = ⌈(w + m − 1)/every⌉ consecutive releases of a
    stream, each about m steps (see `plans/w_event.py`); if any n of them in a row lose ε at most, so does every window.
    **Classical**, δ = 0, with an end: the window is all n releases. Pure losses may be chosen from earlier outputs (known).

    **δ > 0**, with Gaussian noise alone: if the μ_t of n releases, each chosen from the outputs before it, always have Σ μ_t² ≤
    μ², all of them together are Gaussian DP with μ (Smith, Thakurta 2022; Koskela, Tobaben, Honkela 2023; known). A release
    outside the window has the same law for both neighbours: its μ_t is 0. The plan's n equal μ have such a sum, and the account,
    which adds up squares by windows and holds ε(δ) of the root to ε, admits whatever has no larger one.

    >>> find_window(WEvent(1.0, 48).plan(every=3), "bd")
    WEvent(epsilon=1.0, w=16, delta=0.0, reach=0)
    >>> find_window(Classical(1.0).plan(), "bd")
    Traceback (most recent call last):
    ...
    halflife.errors.InvalidInput: bd spends a budget over a window of steps, and classical privacy without an end has none: give \
the stream an end, or promise w-event privacy
    """
    notion, request = plan.notion, plan.request
    if not isinstance(notion, Classical | WEvent):
        raise InvalidInput(
            f"{name} is proved for w-event and classical privacy, and nobody has shown that an account of {notion.name} admits "
            "whatever it comes to spend: promise w-event privacy with delta 0, or leave the mechanism out"
        )
    if notion.delta and plan.noise != "gaussian":
        raise InvalidInput(
            f"what {name} spends follows no plan, which is proved for delta 0, and for Gaussian noise: leave delta out, or write "
            "`noise: gaussian` in the promise"
        )
    if request.method != "tight":
        raise InvalidInput(f"{name} spends by its own rule, not by a {request.method} plan: leave promise.plan out")
    if isinstance(notion, Classical) and request.releases is None:
        raise InvalidInput(
            f"{name} spends a budget over a window of steps, and classical privacy without an end has none: give the stream an "
            "end, or promise w-event privacy"
        )
    touched = -(-notion.widen(request.span).w // request.every) if isinstance(notion, WEvent) else request.releases
    return WEvent(notion.epsilon, min(n for n in (touched, request.releases) if n is not None))
