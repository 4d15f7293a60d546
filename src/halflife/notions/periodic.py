"""Almost-periodic privacy: one period's budget for every year, as long as people repeat themselves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from halflife.errors import InvalidInput, UnboundedLoss
from halflife.notions.base import Exposure, Floats, Notion
from halflife.notions.classical import Classical
from halflife.notions.discounted import ExponentialDiscount, HyperbolicDiscount
from halflife.notions.windowed import WEvent
from halflife.numerics import real, whole
from halflife.registry import register_notion
from halflife.release import Noise, Release

LARGEST_PERIOD = 100_000
REMEMBERED = 2
"""For how many renewals an account remembers the name of noise that is no longer used. Forgotten noise would be charged again."""


class Patterns(NamedTuple):
    """Names of reused noise with their losses and last uses; what they come to; what fresh noise comes to in a period.

    The mapping is never changed: a new name makes a new one.
    """

    names: Mapping[str, tuple[float, int]]
    patterns: Any
    variations: Any


@register_notion
@dataclass(frozen=True)
class AlmostPeriodic(Notion[Patterns]):
    """Almost-periodic differential privacy: weak (Definitions 1–4, Theorem 5; paper), or strong (Definitions 6–7; corrected, C1).

    A person's data is x(t) = z(t) + w(t), z of period T. Weak neighbours differ in one person's z; strong ones in one person's
    z, or in one person's w within one period (any T consecutive steps). f is linear, so noise that is drawn once for each phase
    and reused in every period tells about z only once: the names of reused noise cost their loss when they are first used, and
    nothing when they are used again. Fresh noise without a pattern under it tells about z anew each time. In the strong notion,
    fresh noise atop a pattern hides w: what it costs within T consecutive steps is bounded by ε. Corollary 8 of the paper, which
    takes the first period's w off every later period, loses ε[Δf_w/(Δf_z + Δf_w) + K − 1] after K periods (erratum P1).

    renew  after how many periods new noise is drawn for the phases, None for never: habits drift, and old noise hides the habits
           of its own time alone. Each renewal tells about z anew, at the loss of its noise
    over   the notion under which the losses of patterns add up, so that renewals can go on for ever; classically if it is not
           given: then all patterns together are within ε

    >>> from halflife import Accountant, Release
    >>> account = Accountant(AlmostPeriodic(1.0, period=2))
    >>> for step in range(1, 7):
    ...     account.admit(Release(step, 0.5, draw=f"phase {step % 2}"))
    >>> account.risk(6), account.headroom(7)
    (1.0, 0.0)
    """

    epsilon: float
    period: int
    strong: bool = False
    renew: int | None = None
    over: Notion[Any] | None = None

    name: ClassVar[str] = "almost-periodic"
    shares_draws: ClassVar[bool] = True
    by_data_time: ClassVar[bool] = True
    mechanism: ClassVar[str] = "reused"
    summary: ClassVar[str] = "What a person does in every period is hidden, for ever, by noise that repeats as they do."
    assumptions: ClassVar[tuple[str, ...]] = (
        "Each person's data is a part of period T plus variations, and the promise is given the variations: what they tell "
        "about the "
        "part that repeats is not covered.",
        "The statistic is linear in the data: no reading is clipped, none is missing, and nobody joins or leaves (weak), or "
        "all such "
        "deviations count as variations and their sensitivity covers the full range (strong).",
        "Sensitivities come from public bounds.",
    )
    WEAK: ClassVar[tuple[str, ...]] = (
        "Every change from one period to the next is published exactly: in a group of one home that is the raw data, up to one "
        "period's pattern. A new car, a holiday or an illness is such a change.",
        "Read classically the loss is infinite from the second period on, as differences between periods carry no noise.",
        "What a person's variations tell about the part that repeats.",
    )
    STRONG: ClassVar[tuple[str, ...]] = (
        "Changes that last longer than a period: K periods of one person's variations cost K·ε, and a change of both the "
        "part that "
        "repeats and one period of variations 2·ε.",
        "What a person's variations tell about the part that repeats.",
    )

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "epsilon", real("epsilon", self.epsilon, positive=True, limit=1e6))
        put(self, "period", whole("period", self.period, least=1))
        if self.period > LARGEST_PERIOD:
            raise InvalidInput(f"period must be at most {LARGEST_PERIOD:,} steps, not {self.period:,}")
        if not isinstance(self.strong, bool):
            raise InvalidInput(f"strong must be true or false, not {self.strong!r}")
        if self.renew is not None:
            put(self, "renew", whole("renew", self.renew, least=1))
        if self.over is not None:
            over = self.over if isinstance(self.over, Notion) else Notion.from_dict(self.over)
            if not isinstance(over, Classical | WEvent | ExponentialDiscount | HyperbolicDiscount) or getattr(
                over, "delta", None
            ):
                raise InvalidInput(
                    f"over must be a pure notion about plain losses, such as an exponential discount, not {over.name}"
                )
            put(self, "over", over)

    @property
    def w(self) -> int | None:
        """The window in which fresh noise counts: a period, if variations are hidden."""
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
        """A day of half hours, strong and weak; with noise that is renewed now and then."""
        return cls(1.0, 48, strong=True), cls(1.0, 48), cls(1.0, 4, renew=10, over=ExponentialDiscount(1.0, alpha=0.99))

    # The state ------------------------------------------------------------------------------------------------------

    @cached_property
    def _patterns(self) -> Notion[Any]:
        return self.over or Classical(self.epsilon)

    @cached_property
    def _variations(self) -> WEvent:
        return WEvent(self.epsilon, self.period)

    def start(self) -> Patterns:
        """Nothing published."""
        return Patterns({}, self._patterns.start(), self._variations.start())

    def record(self, state: Patterns, releases: Sequence[Release]) -> Patterns:
        """Charge new patterns once, and fresh noise where it tells something."""
        for release in releases:
            if release.noise != "laplace" and release.loss:
                raise UnboundedLoss(f"step {release.step}: {self.name} is about Laplace noise", step=release.step)
            if release.loss == math.inf:
                raise UnboundedLoss(f"step {release.step}: the exact value was published", step=release.step)
            state = self._pattern(state, release) if release.draw is not None else self._fresh(state, release)
        return state

    def _pattern(self, state: Patterns, release: Release) -> Patterns:
        name, known = release.draw, state.names
        assert name is not None
        if name not in known:
            plain = replace(release, draw=None, atop=None)
            return Patterns(
                self._used(known, release, name), self._patterns.record(state.patterns, [plain]), state.variations
            )
        if known[name][0] != release.loss:
            raise UnboundedLoss(
                f"step {release.step}: the noise {name!r} was drawn at a loss of {known[name][0]:g} and cannot have "
                f"{release.loss:g} now: "
                "the difference of two scales tells the value",
                step=release.step,
            )
        if self.strong:
            raise UnboundedLoss(
                f"step {release.step}: the noise {name!r} is used again without fresh noise atop it, so variations are "
                "published exactly, "
                "which strong almost-periodic privacy hides",
                step=release.step,
            )
        return state._replace(names=self._used(known, release, name))

    def _used(
        self, known: Mapping[str, tuple[float, int]], release: Release, name: str
    ) -> Mapping[str, tuple[float, int]]:
        """Names with this use; those that renewals have replaced long ago are forgotten."""
        loss = known[name][0] if name in known else release.loss
        if self.renew is None:
            return known if name in known else {**known, name: (loss, release.step)}
        oldest = release.step - REMEMBERED * self.renew * self.period
        return {**{n: use for n, use in known.items() if use[1] > oldest}, name: (loss, release.step)}

    def _fresh(self, state: Patterns, release: Release) -> Patterns:
        plain = replace(release, atop=None)
        names, patterns, variations = state
        if release.atop is not None and release.atop in names:
            names = self._used(names, release, release.atop)
        else:
            patterns = self._patterns.record(patterns, [plain])
        if self.strong:
            variations = self._variations.record(variations, [plain])
        return Patterns(names, patterns, variations)

    def draws(self, state: Patterns) -> frozenset[str]:
        """The names of this renewal and of the one before."""
        return frozenset(state.names)

    def exposure(self, state: Patterns, step: int) -> Exposure:
        """The worse of what is told about the part that repeats, and (strong) about one period's variations."""
        patterns = self._patterns.exposure(state.patterns, step)
        if not self.strong:
            return patterns
        variations = self._variations.exposure(state.variations, step)
        worse = max(patterns, variations, key=lambda e: e.peak / e.limit)
        return Exposure(max(patterns.risk, variations.risk), worse.peak, worse.limit)

    def keeps(self, state: Patterns, step: int) -> bool:
        """Whether both are within their limits."""
        kept = self._patterns.keeps(state.patterns, step)
        return kept and (not self.strong or self._variations.keeps(state.variations, step))

    def headroom(self, state: Patterns, step: int, age: int) -> float:
        """The largest loss of fresh noise, or of a new pattern, that fits."""
        room = self._patterns.headroom(state.patterns, step, age)
        return min(room, self._variations.headroom(state.variations, step, age)) if self.strong else room

    def dump(self, state: Patterns) -> Any:
        """Return names, and what both parts remember."""
        return {
            "names": [[name, loss, last] for name, (loss, last) in state.names.items()],
            "patterns": self._patterns.dump(state.patterns),
            "variations": self._variations.dump(state.variations),
        }

    def load(self, data: Any) -> Patterns:
        """Read what `dump` gave."""
        if not isinstance(data, dict) or not isinstance(data.get("names"), list):
            raise InvalidInput(f"an almost-periodic account must hold the names of its noise, not {data!r}")
        if not all(isinstance(x, list) and len(x) == 3 and isinstance(x[0], str) for x in data["names"]):
            raise InvalidInput("the names of reused noise must be [name, loss, last use] each")
        names = {x[0]: (real("loss", x[1]), whole("last use", x[2], least=1)) for x in data["names"]}
        if len(names) != len(data["names"]):
            raise InvalidInput("a name of reused noise stands twice")
        return Patterns(names, self._patterns.load(data.get("patterns")), self._variations.load(data.get("variations")))

    def generation(self, steps: Any) -> Any:
        """Return how often noise has been renewed at these steps."""
        return (steps - 1) // (self.renew * self.period) if self.renew else steps * 0

    # Plans ----------------------------------------------------------------------------------------------------------

    def risks(self, losses: Floats, age: int, noise: Noise) -> Floats:
        """Return the risk after each step if each phase's noise is drawn at its first use and (strong) as much is added fresh."""
        used = np.flatnonzero(losses)
        named = used % self.period + self.period * self.generation(used + 1)
        drawn = used[np.unique(named, return_index=True)[1]]
        first = np.zeros(len(losses))
        first[drawn] = losses[drawn]
        told = self._patterns.risks(first, age, noise)
        return np.maximum(told, self._variations.risks(losses, age, noise)) if self.strong else told

    def to_dict(self) -> dict[str, Any]:
        """Return name and parameters."""
        return {**super().to_dict(), "over": None if self.over is None else self.over.to_dict()}

    def share(self, part: float) -> Notion[Any]:
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
