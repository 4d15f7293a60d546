"""Almost-periodic differential privacy: one period's budget for all periods, if people's behaviour repeats."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from halflife.errors import InvalidInput, UnboundedLoss
from halflife.local_time import DAY
from halflife.notions.almost_periodic.naming import Names, Use, other_job
from halflife.notions.base import Exposure, Notion
from halflife.notions.classical import Classical
from halflife.notions.discounted import ExponentialDiscount, HyperbolicDiscount
from halflife.notions.meaning import means
from halflife.notions.w_event import WEvent
from halflife.numerics.arrays import Floats
from halflife.numerics.forms import JsonObject, leave_out, read_form
from halflife.numerics.parameters import real, whole
from halflife.numerics.rounding import TOLERANCE
from halflife.registry import register_notion
from halflife.release import Noise, Release
from halflife.steps import Steps

LARGEST_PERIOD = 100_000
REMEMBERED = 2
"""For how many renewals an account remembers the name of noise that is no longer used. Forgotten noise would be charged again."""


class Pending(NamedTuple):
    """A pattern that was drawn, and must be published under fresh noise at the same step."""

    name: str
    step: int
    data_time: int


class Patterns(NamedTuple):
    """Reused noise by name; what patterns come to; what fresh noise comes to in a period; a pattern waiting for fresh noise."""

    names: Names
    patterns: Any
    variations: Any
    pending: Pending | None = None


@register_notion
@dataclass(frozen=True)
class AlmostPeriodic(Notion[Patterns]):
    """Almost-periodic privacy: weak (Definitions 1, 3 and 4, Theorem 5; paper) or strong (Definitions 6 and 7; paper).

    A person's data is x(t) = z(t) + w(t), z of period T, the same for everybody (Assumption 2; paper). Weak neighbours differ
    in one person's z; strong ones in one person's z, or in one person's w within one period (any T consecutive steps). f is
    linear, so noise that is drawn once for each phase and reused in every period tells about z only once: the names of reused
    noise cost their loss when they are first used, and nothing when they are used again. A name stands for one phase, one
    sensitivity and one scale, those of its first use: used for anything else, differences are exact and have no bound. Fresh
    noise without a pattern under it tells about z anew each time. In the strong notion, fresh noise atop a pattern hides w:
    what it costs within T consecutive steps is bounded by ε.

    Corollary 8 of the paper, which takes the first period's w off every later period, loses ε[Δf_w/(Δf_z + Δf_w) + K − 1] after
    K periods (erratum P1).

    renew  after how many periods new noise is drawn for the phases, None for never: habits drift, and old noise hides the habits
           of its own time alone. Each renewal tells about z anew, at the loss of its noise
    clock  the steps by the wall clock, where the period is whole days and people live by a clock that changes: then a phase is a
           time of day (or of the week) in that zone. Phases are counted in steps of data time if it is not given
    over   the notion under which the losses of patterns add up, so that renewals can go on for ever. A pattern counts in full as
           long as it is in use, and as `over` has it from when it was replaced. Classically if it is not given: then all patterns
           together are within ε

    >>> from halflife import Accountant, Release
    >>> account = Accountant(AlmostPeriodic(1.0, period=2))
    >>> for step in range(1, 7):
    ...     account.admit(Release(step, 0.5, draw=f"phase {step % 2}"))
    >>> account.risk(6), account.headroom(7)
    (1.0, 0.0)
    """

    epsilon: float
    period: int = field(metadata=means("whole steps"))
    strong: bool = field(default=False, metadata=means("truth"))
    renew: int | None = None
    over: Notion | None = field(default=None, metadata=means("notion"))
    clock: Steps | None = field(default=None, metadata=means("clock"))

    name: ClassVar[str] = "almost-periodic"
    shares_draws: ClassVar[bool] = True
    by_data_time: ClassVar[bool] = True
    mechanism: ClassVar[str] = "reused"
    summary: ClassVar[str] = "What a person does in every period is hidden, for ever, by noise that repeats as they do."
    assumptions: ClassVar[tuple[str, ...]] = (
        "Each person's data is a part of period T plus variations, and the promise is given the variations: what they tell "
        "about the part that repeats is not covered.",
        "The statistic is linear in the data: no reading is clipped, rounded or missing, no step's sum of them is clipped, and "
        "nobody joins or leaves (weak), "
        "or all such deviations count as variations and their sensitivity covers the full range (strong).",
        "Sensitivities come from public bounds.",
    )
    WEAK: ClassVar[tuple[str, ...]] = (
        "Every change from one period to the next is published exactly: in a group of one home that is the raw data, up to "
        "one period's pattern. A new car, a holiday or an illness is such a change.",
        "Read classically the loss is infinite from the second period on, as differences between periods carry no noise.",
        "What a person's variations tell about the part that repeats.",
    )
    STRONG: ClassVar[tuple[str, ...]] = (
        "Changes that last longer than a period: K periods of one person's variations cost K·ε, and a change of both the "
        "part that repeats and one period of variations 2·ε.",
        "A habit that does not show alike in every period: wherever a clip, a missing reading, rounding or a fold other than "
        "sum makes it count differently in one period than in another, the difference counts as variations: up to ε more for "
        "each such period, and up to 2·ε where a step has several readings of which some are missing, are clipped singly, or are "
        "rounded to units that are not far finer than the clip.",
        "What a person's variations tell about the part that repeats.",
    )

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "epsilon", real("epsilon", self.epsilon, positive=True, limit=1e6))
        put(self, "period", whole("period", self.period, least=1))
        if self.period > LARGEST_PERIOD:
            raise InvalidInput(f"period must be at most {LARGEST_PERIOD:,} steps, not {self.period:,}", about="period")
        if not isinstance(self.strong, bool):
            raise InvalidInput(f"strong must be true or false, not {self.strong!r}", about="strong")
        if self.renew is not None:
            put(self, "renew", whole("renew", self.renew, least=1))
        if self.over is not None:
            over = self.over if isinstance(self.over, Notion) else Notion.from_dict(self.over)
            if not isinstance(over, Classical | WEvent | ExponentialDiscount | HyperbolicDiscount) or getattr(
                over, "delta", None
            ):
                raise InvalidInput(
                    f"over must be a pure notion about plain losses, such as an exponential discount, not {over.name}",
                    about="over",
                )
            put(self, "over", over)
        if self.clock is not None:
            put(self, "clock", self._read_clock(self.clock))

    def _read_clock(self, clock: object) -> Steps:
        """Return the clock, or refuse one by which a period has no phases."""
        steps = clock if isinstance(clock, Steps) else Steps.from_facts(clock)
        if not self.follows_clock(steps):
            raise InvalidInput(
                "clock: phases by the wall clock need steps that divide a day, a period of whole days and noise that is "
                f"never renewed, not {self.period} steps of {steps.width / 3.6e9:g} h: leave it out to count phases in steps"
            )
        return steps

    def phase(self, time: int) -> int:
        """Return the phase of a data time, 0 … T − 1: by the wall clock if there is one, else (time − 1) mod T.

        >>> AlmostPeriodic(1.0, 24).phase(25)
        0
        >>> london = Steps.of("1 h", "2026-03-29", "Europe/London")  # 01:00 is left out
        >>> [AlmostPeriodic(1.0, 24, clock=london).phase(time) for time in (1, 2, 3, 24)]
        [0, 2, 3, 0]
        """
        return (time - 1) % self.period if self.clock is None else self.clock.phase(time, self.period)

    def follows_clock(self, steps: Steps) -> bool:
        """Whether phases are times of a day, or of several: the period is whole days, and noise is never renewed."""
        whole_days = (
            not steps.days and not steps.months and DAY % steps.width == 0 and (self.period * steps.width) % DAY == 0
        )
        return whole_days and self.renew is None

    @property
    def memory(self) -> int | None:
        """A period, if variations are hidden: the window in which fresh noise counts."""
        return self.period if self.strong else None

    @property
    def forgets(self) -> bool:  # type: ignore[override]
        """Whether losses of patterns count less as time passes."""
        return self.over is not None and self.over.forgets

    @property
    def not_protected(self) -> tuple[str, ...]:  # type: ignore[override]
        """What weak and strong leave open."""
        common = ("That a person is in the data at all, and what is true of a population.",)
        return (*(self.STRONG if self.strong else self.WEAK), *common)

    @classmethod
    def examples(cls) -> Sequence[Self]:
        """A day of half hours, strong and weak; a short period."""
        return cls(1.0, 48, strong=True), cls(1.0, 48), cls(1.0, 4)

    # The state ------------------------------------------------------------------------------------------------------

    @cached_property
    def _patterns(self) -> Notion:
        return self.over or Classical(self.epsilon)

    @cached_property
    def _variations(self) -> WEvent:
        return WEvent(self.epsilon, self.period)

    def start(self) -> Patterns:
        """Nothing published."""
        return Patterns(Names(), self._patterns.start(), self._variations.start())

    def record(self, state: Patterns, releases: Sequence[Release]) -> Patterns:
        """Return the state with new patterns charged once, and fresh noise where its release reveals something new."""
        for release in releases:
            if release.noise != "laplace" and release.loss:
                raise UnboundedLoss(f"step {release.step}: {self.name} is about Laplace noise", step=release.step)
            if release.loss == math.inf:
                raise UnboundedLoss(f"step {release.step}: the exact value was published", step=release.step)
            self._check_pending(state, release)
            state = self.settle(state, release.step)
            state = self._pattern(state, release) if release.draw is not None else self._fresh(state, release)
        return state

    @staticmethod
    def _check_pending(state: Patterns, release: Release) -> None:
        """A pattern that was drawn for a strong promise is published under fresh noise at once, or not at all."""
        if state.pending and state.pending != (release.atop, release.step, release.data_time):
            raise UnboundedLoss(
                f"step {release.step}: the pattern {state.pending.name!r} of step {state.pending.step} was not published "
                "under fresh noise, so variations of that step show in every later use of it",
                step=release.step,
            )

    def _pattern(self, state: Patterns, release: Release) -> Patterns:
        """Noise that is drawn, or used again as it is."""
        name, step, phase = release.draw, release.step, self.phase(release.data_time)
        assert name is not None
        known = state.names.find(name, release, phase)
        if known is None:
            if release.loss == 0:
                raise InvalidInput(f"step {step}: the noise {name!r} has no loss: name only noise that hides something")
            names = state.names.put(name, Use.of(release, phase, None if self.strong else release.sensitivity))
            plain, patterns = replace(release, draw=None, atop=None), state.patterns
            if self.over is None:
                patterns = self._patterns.record(patterns, [plain])
            pending = Pending(name, step, release.data_time) if self.strong else None
            return Patterns(names, patterns, state.variations, pending)
        if self.strong:
            raise UnboundedLoss(
                f"step {step}: the noise {name!r} is used again without fresh noise atop it, so variations are published "
                "exactly, which strong almost-periodic privacy hides",
                step=step,
            )
        if not known.fits(release, phase) or known.last == step:
            raise other_job(name, known, release)
        return state._replace(names=state.names.put(name, known.use_again(release, phase)))

    def settle(self, state: Patterns, step: int) -> Patterns:
        """Retire noise that is out of use: from now on it is charged as the notion laid over patterns has it."""
        if self.over is None and self.renew is None:
            return state
        grace = self.period if self.over is not None else REMEMBERED * (self.renew or 1) * self.period
        used = state.names.used
        gone = [name for name, use in used.items() if use.last < step - grace]
        if not gone:
            return state
        patterns = state.patterns
        if self.over is not None:
            patterns = self._patterns.record(patterns, [Release(step, used[name].loss) for name in gone])
        return state._replace(names=state.names.retire(gone), patterns=patterns)

    def _fresh(self, state: Patterns, release: Release) -> Patterns:
        """Noise of one release alone, atop a pattern or not. Noise under it that was never drawn here can no longer be."""
        plain, name, known = replace(release, atop=None), release.atop, None
        names, patterns, variations, pending = state
        if name is not None:
            phase = self.phase(release.data_time)
            known = names.find(name, release, phase)
            if known is not None and not pending and (known.last, known.time) == (release.step, release.data_time):
                raise other_job(name, known, release)
            unseen = Use(0.0, None, release.sensitivity, phase, release.step, release.data_time, release.sensitivity)
            names = names.put(name, unseen if known is None else known.use_again(release, phase))
        if known is None or known.loss == 0:
            patterns = self._patterns.record(patterns, [plain])
        if self.strong:
            variations = self._variations.record(variations, [plain])
        return Patterns(names, patterns, variations)

    def draws(self, state: Patterns) -> Set[str]:
        """The names of this renewal and of the one before."""
        return state.names.drawn

    def _in_use(self, state: Patterns) -> float:
        """What patterns in use come to, where they are not charged for good."""
        return 0.0 if self.over is None else math.fsum(use.loss for use in state.names.used.values()) * (1 + 1e-15)

    def _habits(self, state: Patterns, step: int) -> Exposure:
        """The loss about the part that repeats."""
        settled = self.settle(state, step)
        risk, peak, limit = self._patterns.exposure(settled.patterns, step)
        in_use = self._in_use(settled)
        return Exposure(risk + in_use, peak + in_use, limit)

    def exposure(self, state: Patterns, step: int) -> Exposure:
        """The larger of the losses about the part that repeats and (strong) about one period's variations."""
        habits = self._habits(state, step)
        if not self.strong:
            return habits
        variations = self._variations.exposure(state.variations, step)
        if state.pending:  # if no fresh noise follows at its step, variations show in every later use
            now = math.inf if step > state.pending.step else max(habits.risk, variations.risk)
            return Exposure(now, math.inf, habits.limit)
        return max(habits, variations, key=lambda e: e.peak / e.limit)

    def keeps(self, state: Patterns, step: int) -> bool:
        """Whether both are within their limits."""
        if state.pending and step > state.pending.step:
            return False
        habits = self._habits(state, step)
        kept = (
            self._patterns.keeps(state.patterns, step)
            if self.over is None
            else habits.peak <= habits.limit * (1 + TOLERANCE)
        )
        return kept and (not self.strong or self._variations.keeps(state.variations, step))

    def headroom(self, state: Patterns, step: int, age: int) -> float:
        """The largest loss of fresh noise, or of a new pattern, that fits."""
        settled = self.settle(state, step)
        room = max(0.0, self._patterns.headroom(settled.patterns, step, age) - self._in_use(settled))
        return min(room, self._variations.headroom(state.variations, step, age)) if self.strong else room

    def dump(self, state: Patterns) -> object:
        """Return names, and what both parts remember."""
        return {
            **state.names.dump(),
            "pending": _write_pending(state.pending),
            "patterns": self._patterns.dump(state.patterns),
            "variations": self._variations.dump(state.variations),
        }

    def load(self, data: object) -> Patterns:
        """Read what `dump` gave."""
        keys = ("names", "retired", "patterns", "variations")
        data = read_form("an almost-periodic account", data, keys, pending=None)
        names = Names.load(data)
        patterns, variations = self._patterns.load(data["patterns"]), self._variations.load(data["variations"])
        return Patterns(names, patterns, variations, _read_pending(data["pending"], names.used))

    def generation(self, steps: Any) -> Any:
        """Return how often noise has been renewed at these steps."""
        return (steps - 1) // (self.renew * self.period) if self.renew else steps * 0

    # Plans ----------------------------------------------------------------------------------------------------------

    def risks(self, losses: Floats, age: int, noise: Noise) -> Floats:
        """Return the risk after each step if each phase's noise is drawn at its first use and (strong) as much is added fresh."""
        if self.over is not None:
            return self._risks_step_by_step(losses, age)
        used = np.flatnonzero(losses)
        named = used % self.period + self.period * self.generation(used + 1)
        drawn = used[np.unique(named, return_index=True)[1]]
        first = np.zeros(len(losses))
        first[drawn] = losses[drawn]
        told = self._patterns.risks(first, age, noise)
        return np.maximum(told, self._variations.risks(losses, age, noise)) if self.strong else told

    def _risks_step_by_step(self, losses: Floats, age: int) -> Floats:
        result, state = np.empty(len(losses)), self.start()
        for k, loss in enumerate(losses.tolist(), start=1):
            name = f"phase {self.phase(k - age)}, renewal {self.generation(k)}"
            if loss and (not self.strong or name not in state.names.used):
                state = self.record(state, [Release(k, loss, age, draw=name)])
            if loss and self.strong:
                state = self.record(state, [Release(k, loss, age, atop=name)])
            result[k - 1] = self.exposure(state, k).risk
        return result

    def to_dict(self) -> JsonObject:
        """Return name and parameters."""
        made = {**super().to_dict(), "over": None if self.over is None else self.over.to_dict()}
        clock = made.pop("clock")
        return made if clock is None else {**made, "clock": clock.to_facts()}

    def to_facts(self) -> JsonObject:
        """Return name and parameters, the clock too."""
        return leave_out(
            {
                "name": self.name,
                "epsilon": self.epsilon,
                "period": self.period,
                "strong": self.strong,
                "renew": self.renew,
                "over": None if self.over is None else self.over.to_facts(),
                "clock": None if self.clock is None else self.clock.to_facts(),
            },
            strong=False,
            renew=None,
            over=None,
            clock=None,
        )

    def share(self, part: float) -> Notion:
        """Return the same promise with this part of its budget."""
        whole_part = super().share(part)
        return whole_part if self.over is None else replace(whole_part, over=self.over.share(part))  # type: ignore[type-var]

    def in_other_words(self, step_minutes: float = 30.0) -> list[str]:
        """Say how long a period is, and what a year would cost without it."""
        hours = self.period * step_minutes / 60
        year = 365 * 24 * 60 / step_minutes / self.period
        return [
            f"The noise repeats every {hours:g} h. Splitting ε over a year instead would take {year:,.0f} times the noise.",
        ]


def _write_pending(pending: Pending | None) -> list[Any] | None:
    return None if pending is None else [pending.name, pending.step, pending.data_time]


def _read_pending(data: object, names: Mapping[str, Use]) -> Pending | None:
    if data is None:
        return None
    if not isinstance(data, list) or len(data) != 3 or data[0] not in names:
        raise InvalidInput(f"a pattern that waits for fresh noise must be [name, step, data time], not {data!r}")
    return Pending(data[0], whole("step", data[1], least=1), whole("data time", data[2]))
