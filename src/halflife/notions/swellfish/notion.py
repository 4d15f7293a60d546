"""Swellfish privacy: each household's secrets are hidden, each in its own time and as well as it asks for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from halflife.errors import InvalidInput, UnboundedLoss, unknown
from halflife.notions.base import Exposure, Notion, Plan
from halflife.notions.composition import check_delta
from halflife.notions.meaning import means
from halflife.notions.swellfish.certified import gaussian_losses, losses_at_worst, worst_by_step
from halflife.notions.swellfish.judge import Judge
from halflife.notions.swellfish.live import Live
from halflife.notions.swellfish.losses import MOST_NOISE
from halflife.notions.swellfish.memory import SwellfishState, Worst, agree, noise_of, remember
from halflife.notions.swellfish.required import quieter_noise, sufficient_scales
from halflife.notions.w_event import WEvent
from halflife.numerics.arrays import Floats
from halflife.numerics.forms import JsonObject, leave_out, read_form
from halflife.numerics.parameters import real, whole
from halflife.numerics.rounding import TOLERANCE, divide_up
from halflife.numerics.search import largest
from halflife.registry import register_notion
from halflife.release import NOISES, Noise, Release
from halflife.specifications import Secret, Specification, Specifications
from halflife.specifications.additions import check_added
from halflife.specifications.neighbours import INTERPRETATIONS, Interpretation
from halflife.specifications.sweep import StepFunction, Timeline

LONGEST_MEMORY = 2_000_000
LEAST_MEMORY = 100
"""At least so many steps are remembered, twice: streams of different delays tell of steps in turn."""


@register_notion
@dataclass(frozen=True)
class Swellfish(Notion[SwellfishState]):
    """(P_1, …, P_n)-Swellfish privacy, with δ > 0 its approximate variant (Definitions 7, 8 and 16; corrected, S1).

    For every household and every secret s = ((p, T), J, ε_s) of it, what is published about J tells neighbouring streams of that
    household apart by at most e^{ε_s} (and δ). What "neighbouring" means must be said (erratum S1):

        one-event    they differ in one occurrence of the event of one secret: by up to p at T consecutive steps of J
        one-window   they differ by anything up to Δ_t, all relevant events at once, at T consecutive steps of J (Theorem 8's
        proof) all-events   they differ in one occurrence of the event of every secret (Definition 13, literally)

    A release's `scale` is what counts: a secret's cost is Σ change/λ (`notions.swellfish.losses`), in the unit of the powers.
    Laplace noise with δ > 0 is held to the calibrated scale of every relevant secret instead, so that no loss distribution is
    computed when a release is admitted (T6); it takes one release about each step.

    Several mechanisms on one stream add up secret by secret, also on different stretches of it (Theorems 5 and 6; paper).
    Choosing one of two mechanisms at random, or processing what was published, costs nothing (Theorems 3 and 4; paper).

    Risk is the loss of the secret that is worst by its share of ε_s, of all so far: it never fades. Outside all hiding intervals
    exact values may be published, and cost nothing.

    >>> from halflife import Accountant, Release
    >>> kitchen = Specification([Secret(power=3.0, duration=2, start=1, end=4, epsilon=1.0)], "Elm 7")
    >>> account = Accountant(Swellfish(kitchen))
    >>> account.admit(Release(1, 3 / 6, sensitivity=3.0, scale=6.0), Release(2, 3 / 12, sensitivity=3.0, scale=12.0))
    >>> round(account.risk(2), 9), round(account.least_scale(3, sensitivity=3.0), 6)
    (0.75, 4.0)
    """

    specifications: Specifications = field(metadata=means("specifications"))
    delta: float = 0.0
    neighbours: Interpretation = field(default="one-window", metadata=means("text"))
    noise: Noise = field(default=None, metadata=means("text"))  # type: ignore[arg-type]
    """The family of noise; if it is not given, the one that needs less of it here (T6)."""
    _free: bool = field(default=False, init=False, repr=False, compare=False)

    name: ClassVar[str] = "swellfish"
    by_data_time: ClassVar[bool] = True
    bounds_differences: ClassVar[bool] = False
    attached: ClassVar[str | None] = "specifications"
    summary: ClassVar[str] = (
        "Each household's secrets (an event of so much power and length, within a hiding interval) are hidden as well as the "
        "household asks; nothing else is."
    )
    not_protected: ClassVar[tuple[str, ...]] = (
        "Outside hiding intervals the exact value is published, unless a floor of noise is set: everybody's data of those steps.",
        "Events that reach over an edge of their hiding interval, or are longer, larger or more frequent than their secret says.",
        "The specifications: they are public, and the noise of a step shows that somebody hides something then. Secrets that "
        "follow a household's real use reveal it: hide recurring windows instead.",
        "That a household is in the data at all, and what it uses beside its secrets.",
    )
    assumptions: ClassVar[tuple[str, ...]] = (
        "A secret's power bounds how far its event moves the household's value at any one step; powers are public knowledge.",
        "A release depends on the data of its own data time alone, and its noise is in the unit of the powers.",
        "A reading is stamped within the time that it measures: energies stamped at their end show a step after they are hidden.",
        "The noise of different releases is independent.",
    )

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "specifications", Specifications.of(self.specifications))
        put(self, "delta", check_delta(self.delta))
        if self.neighbours not in INTERPRETATIONS:
            raise unknown("neighbours", self.neighbours, INTERPRETATIONS, about="neighbours")
        if self.noise is not None and self.noise not in NOISES:
            raise unknown("noise", self.noise, NOISES, about="noise")
        if self.noise == "gaussian" and self.delta == 0:
            raise InvalidInput(
                "noise gaussian has no bounded pure loss (delta = 0): promise delta above 0, or use laplace",
                about="noise",
            )
        if not len(self.specifications):
            raise InvalidInput(
                "specifications without a single secret hide nothing: add one, or publish without a promise",
                about="specifications",
            )
        put(self, "_free", self.noise is None)  # no family was requested
        if self.noise is None:
            put(self, "noise", quieter_noise(self.timeline, self.neighbours, self.delta))
        if self._live.reach > LONGEST_MEMORY:
            what = "hiding intervals" if self.neighbours == "all-events" else "events"
            raise InvalidInput(
                f"specifications: {what} of {self._live.reach:,} steps: an account would have to remember as many, and the "
                f"most is {LONGEST_MEMORY:,}: split them",
                about="specifications",
            )

    @property
    def noises(self) -> tuple[Noise, ...]:  # type: ignore[override]
        """The one family of noise that the promise is worked out for."""
        return (self.noise,)

    @property
    def adaptive(self) -> bool:
        """Pure losses may be chosen from outputs; with a δ scales are fixed beforehand."""
        return self.delta == 0

    @classmethod
    def examples(cls) -> Sequence[Self]:
        """Half hours, for 2,100 days: an evening's oven and a night's heater; each interpretation, a δ, and Gaussian noise."""
        return (
            cls(_days(2100, 48, 1.0)),
            cls(_days(2100, 48, 1.0), neighbours="one-event"),
            cls(_days(2100, 48, 1.0), neighbours="all-events"),
            cls(_days(2100, 48, 1.0), 1e-6, noise="laplace"),
            cls(_days(2100, 48, 1.0), 1e-6, noise="gaussian"),
        )

    # What follows from the specifications -------------------------------------------------------------------------------

    @cached_property
    def _judge(self) -> Judge:
        return Judge(self.specifications, self.neighbours, self.delta, self.noise)

    @property
    def _live(self) -> Live:
        return self._judge.live

    @cached_property
    def timeline(self) -> Timeline:
        """The households' times, as the sweep has them."""
        return Timeline(self.specifications)

    @cached_property
    def sensitivity(self) -> StepFunction:
        """Δ_t: the largest over the households (Definition 14; paper)."""
        return self.timeline.temporal_sensitivity

    @cached_property
    def sufficient(self) -> StepFunction:
        """The scales with which this interpretation's sufficient condition holds (S1, T6)."""
        return sufficient_scales(self.timeline, self.neighbours, self._judge.required)

    @property
    def limits(self) -> Floats:
        """What each secret's cost must stay within: ε_s, or with Gaussian noise the square of μ(ε_s, δ), rounded down."""
        return self._judge.limits

    @property
    def memory(self) -> int:
        """Data that lies fewer steps than this behind the newest can always be published about: nothing it needs is forgotten."""
        return 2 * max(self._live.reach, LEAST_MEMORY) - self._live.reach

    @property
    def by_threshold(self) -> bool:
        """Whether noise is held to calibrated scales, rather than costs to limits."""
        return self._judge.by_threshold

    @property
    def largest_epsilon(self) -> float:
        """The largest ε of any secret."""
        return float(self.specifications.epsilon.max())

    def baseline(self) -> tuple[WEvent, float]:
        """Return the w-event notion and sensitivity with which any w-event mechanism keeps this promise.

        w = max T, ε = min ε_s, Δ = max_t Δ_t, over all households (Theorem 7; paper, refused for all-events: S1).

        >>> s = Specification([Secret(3.0, 2, 1, 4, 1.0), Secret(1.0, 9, 2, 20, 0.5)])
        >>> Swellfish(s).baseline()
        (WEvent(epsilon=0.5, w=9, delta=0.0, reach=0), 4.0)
        """
        if self.neighbours == "all-events":
            raise InvalidInput(
                "Theorem 7 follows one window, and does not give all-events (erratum S1): use neighbours='one-window'"
            )
        s = self.specifications
        return WEvent(float(s.epsilon.min()), int(s.duration.max()), self.delta), self.sensitivity.largest

    # The state ----------------------------------------------------------------------------------------------------------

    def start(self) -> SwellfishState:
        """Nothing published."""
        return SwellfishState(0, (), Worst(epsilon=float(self.specifications.epsilon.min())))

    def record(self, state: SwellfishState, releases: Sequence[Release]) -> SwellfishState:
        """Return the state with the noise of each release at its data time, and the worst of the relevant secrets."""
        for release in releases:
            state = self._record_one(state, release)
        return state

    def _record_one(self, state: SwellfishState, release: Release) -> SwellfishState:
        time = release.data_time
        x = noise_of(release, self.noise, self.sensitivity.at(time) > 0)
        if x == 0:
            return state
        self._judge.check(state, release)
        after = remember(state, time, x, 2 * max(self._live.reach, LEAST_MEMORY))
        return after._replace(worst=self._judge.worst(after, time))

    def exposure(self, state: SwellfishState, step: int) -> Exposure:
        """Return the loss and the ε of the secret that has lost the largest share of its ε so far."""
        risk = self._judge.risk(state.worst)
        return Exposure(risk, risk, state.worst.epsilon)

    def keeps(self, state: SwellfishState, step: int) -> bool:
        """Whether no secret has lost more than its ε."""
        return state.worst.share <= 1 + TOLERANCE

    def headroom(self, state: SwellfishState, step: int, age: int) -> float:
        """Return the largest 1/λ (1/σ) at `step`: the loss of a release with sensitivity 1; ∞ if no secret is relevant then."""
        time = step - age
        if self.sensitivity.at(time) == 0:
            return math.inf
        fresh = state._replace(worst=Worst(epsilon=1.0))

        def holds(loss: float) -> bool:
            scale = divide_up(1.0, loss)
            release = Release(step, loss, age, scale=scale, noise=self.noise)
            try:
                return self.keeps(self._record_one(fresh, release), step)
            except UnboundedLoss:
                return False

        try:
            high = 2.0 / self.sufficient.at(time)
            while holds(high):
                high *= 2
            return largest(holds, 0.0, high, 1e-9, high * 1e-12)
        except (InvalidInput, UnboundedLoss):  # too far back, or a second one: nothing may be published about that step
            return 0.0

    def least_scale(self, state: SwellfishState, step: int, sensitivity: float, age: int) -> float:
        """Return the least scale allowed at `step`, rounded up; 0 where none is hiding. Powers say how far a value can move, so
        `sensitivity` plays no part."""
        room = self.headroom(state, step, age)
        return 0.0 if room == math.inf else divide_up(1.0, room) if room > 0 else math.inf

    # Plans and certificates -----------------------------------------------------------------------------------------------

    def losses_of_secrets(self, scales: Floats, first: int = 1, neighbours: Interpretation | None = None) -> Floats:
        """Return each secret's worst loss ε for any sequence of scales λ_t (σ_t) of steps first, first + 1, …, rounded up.

        A scale of 0 publishes the exact value, an infinite one nothing. `neighbours` is the interpretation if not the promise's.
        See `notions.swellfish.certified` for what is exact and what an upper bound.

        >>> s = Specification([Secret(3.0, 2, 1, 4, 1.0)])
        >>> Swellfish(s).losses_of_secrets(np.array([6.0, 6.0, 12.0, 12.0])).round(9).tolist()
        [1.0]
        """
        interpretation = neighbours or self.neighbours
        if interpretation not in INTERPRETATIONS:
            raise unknown("neighbours", interpretation, INTERPRETATIONS)
        given = np.asarray(scales, dtype=np.float64)
        if given.ndim != 1 or not (given >= 0).all():
            raise InvalidInput(f"scales must be a list of numbers of at least 0, not {str(given)[:80]}")
        with np.errstate(divide="ignore"):
            unit = np.where(np.isinf(given), 0.0, np.nextafter(1 / given, np.inf))
        return losses_at_worst(self.specifications, unit, first, interpretation, self.delta, self.noise)

    def risks(self, losses: Floats, age: int, noise: Noise) -> Floats:
        """Return the loss of the worst secret so far after each step, for releases of these losses with sensitivity Δ_t."""
        return self.running_risks(losses, age)[0]

    def running_risks(self, losses: Floats, age: int) -> tuple[Floats, Floats]:
        """Return, after each step, the loss of the secret that is worst by its share, and its ε."""
        first = 1 - age
        delta = self.sensitivity.over(first, first + len(losses) - 1)
        with np.errstate(divide="ignore", invalid="ignore"):
            unit = np.where((delta > 0) & (losses > 0), losses / delta, 0.0)
        x = unit if self.noise == "laplace" else np.nextafter(unit**2, np.inf) * (unit > 0)
        if self.by_threshold:
            return self._running_threshold(x, first)
        shares, costs, epsilons = worst_by_step(self.specifications, self.limits, x, first, self.neighbours, self.noise)
        best = np.maximum.accumulate(shares)
        at = np.maximum.accumulate(np.where(shares >= best, np.arange(len(shares)), 0))
        risks, limits = costs[at], np.where(best > 0, epsilons[at], float(self.specifications.epsilon.min()))
        if self.noise == "gaussian":
            risks = gaussian_losses(risks, self.delta)
            risks = np.where(best <= 1, np.minimum(risks, limits), risks)
        return np.where(best > 0, risks, 0.0), limits

    def _running_threshold(self, x: Floats, first: int) -> tuple[Floats, Floats]:
        """The same for Laplace noise with a δ: judged as the account does, at the steps that are worse than all before."""
        shares = self.sufficient.over(first, first + len(x) - 1) * x
        before = np.append(0.0, np.maximum.accumulate(shares)[:-1])[: len(x)]
        worst = self.start().worst
        risks, limits = np.zeros(len(x)), np.full(len(x), worst.epsilon)
        for i in np.flatnonzero(shares > before).tolist():
            worst = self._judge.worst_by_scale(worst, float(x[i]), first + i)
            risks[i:], limits[i:] = self._judge.risk(worst), worst.epsilon
        return risks, limits

    def share(self, part: float) -> Swellfish:
        """Return the same secrets with this part of each ε, and of δ."""
        if self.by_threshold:
            raise InvalidInput(
                "with Laplace noise and a delta one stream is published: use noise: gaussian, or delta: 0, for several"
            )
        delta = self.delta * part
        return Swellfish(self.specifications.times_epsilon(part), delta, self.neighbours, self.noise)

    def plan(  # type: ignore[override]
        self,
        sensitivity: None = None,
        horizon: int | None = None,
        method: str = "tight",
        age: int = 0,
        every: int = 1,
        noise: Noise | None = None,
        **extra: Any,
    ) -> Plan:
        """Return how much noise each step needs, as a `Plan`. Sensitivities come from the
        secrets.

        horizon, age, every, noise  as of any plan;  method  tight, paper, optimal
        floor  the least scale at any step, so that no exact value is published;  block  one scale for so many steps (or for the
        stretches that begin at given steps), the largest of them, so that single secrets do not show;  begin  the data time of
        step 1, if it is not 1 − age
        """
        if method == "paper" and self._free and self.noise != "laplace":  # whose theorems are about Laplace noise
            return replace(self, noise="laplace").plan(sensitivity, horizon, method, age, every, noise, **extra)
        if sensitivity is not None:
            raise InvalidInput(
                f"sensitivity comes from the secrets' powers under swellfish: leave it out (it was {sensitivity!r})"
            )
        return super().plan(self.sensitivity.largest, horizon, method, age, every, noise, **extra)

    def in_other_words(self, step_minutes: float = 30.0) -> list[str]:
        """Say how many secrets there are, how long the longest event is, and when the last hiding interval ends."""
        s, hours = self.specifications, step_minutes / 60
        return [
            f"{len(s):,} secrets of {len(s.households):,} households; the longest event lasts "
            f"{int(s.duration.max()) * hours:.4g} hours, and the last hiding interval ends "
            f"{s.last_step * hours / 24:.4g} days after the start."
        ]

    # What is written down -------------------------------------------------------------------------------------------------

    def to_dict(self) -> JsonObject:
        """Return name and parameters, the secrets as columns."""
        return {**self.reference(), "specifications": self.specifications.to_dict()}

    def reference(self) -> JsonObject:
        """Return name and parameters, the secrets by their digest."""
        return {
            "name": self.name,
            "specifications": self.specifications.summary(),
            "delta": self.delta,
            "neighbours": self.neighbours,
            "noise": self.noise,
        }

    def to_facts(self) -> JsonObject:
        """Return name and parameters; the secrets by their digest, as they may be added to; the noise is always said."""
        return leave_out(
            {
                "name": self.name,
                "specifications": {"sha256": self.specifications.sha256},
                "delta": self.delta,
                "neighbours": self.neighbours,
                "noise": self.noise,
            },
            delta=0.0,
            neighbours="one-window",
        )

    def extends(self, before: Notion, published: int) -> None:
        """Refuse if secrets were taken away or changed, or added to what is published already, with the steps named."""
        if not isinstance(before, Swellfish) or replace(before, specifications=self.specifications) != self:
            super().extends(before, published)
            return
        check_added(before.specifications, self.specifications, published, neighbours=self.neighbours)

    def dump(self, state: SwellfishState) -> object:
        """Return the remembered noise and the worst secret."""
        w = state.worst
        worst = [w.share, w.cost, w.epsilon, w.together]
        return {"first": state.first, "x": list(state.x), "worst": worst, "forgotten": state.forgotten}

    def load(self, data: object) -> SwellfishState:
        """Read what `dump` gave."""
        data = read_form("a Swellfish account", data, ("first", "x", "worst"), forgotten=None)
        if not isinstance(data["x"], list) or not isinstance(data["worst"], list):
            raise InvalidInput("a Swellfish account must hold its noise and its worst secret, as lists")
        if len(data["worst"]) != 4:
            raise InvalidInput("the worst secret of a Swellfish account has a share, a cost, an ε and a number")
        share, cost, epsilon = (real("worst", value) for value in data["worst"][:3])
        worst = Worst(share, cost, epsilon, whole("worst", data["worst"][3], least=0))
        x = tuple(real("x", value, limit=MOST_NOISE) for value in data["x"])
        first, forgotten = whole("first", data["first"]), data["forgotten"]
        if forgotten is not None and whole("forgotten", forgotten) >= first:
            raise InvalidInput(f"a Swellfish account cannot know step {first} and have forgotten step {forgotten}")
        return SwellfishState(first, x, worst, forgotten)

    def same(self, one: SwellfishState, two: SwellfishState) -> bool:
        """Whether two states tell of the same releases: after secrets were added one may remember more steps, and with Laplace
        noise and a δ scales that are calibrated with more secrets are up to 1 % larger."""
        return agree(one, two, 0.02 if self.by_threshold else 0.0)


def _days(days: int, steps: int, epsilon: float) -> Specifications:
    """An oven every evening and a heater through every day from the day before step 1 on, for two homes."""
    oven = [Secret(3.0, 2, steps * d + 35, steps * d + 44, epsilon) for d in range(-1, days)]
    heater = [Secret(1.0, 6, steps * d + 1, steps * (d + 1), epsilon) for d in range(-1, days)]
    return Specifications([Specification([*oven, *heater], "Elm 7"), Specification(heater, "Oak 2")])
