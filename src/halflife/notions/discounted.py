"""Discounted differential privacy: what was lost long ago counts less (Farokhi).

Risk at step t is R_t = Σ_{S_k ≤ t} d(t − S_k) ρ_k, d falling from d(0) = 1, and the promise is R_t ≤ ε at every step. As d only
falls, so does the risk until the next release: the worst from now on is now.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Context, Decimal, localcontext
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from halflife.errors import InvalidInput
from halflife.notions.base import Exposure, Notion
from halflife.notions.composition import Pure, check_delta
from halflife.notions.gaussian_dp import gaussian_epsilon, gaussian_epsilons, gaussian_mu
from halflife.notions.meaning import means
from halflife.numerics.arrays import Floats
from halflife.numerics.fading import Fading, Geometric, fading
from halflife.numerics.forms import JsonObject, read_form
from halflife.numerics.parameters import real, whole
from halflife.numerics.power_series import convolution, saturating_shares
from halflife.numerics.rounding import TOLERANCE, UNIT, down, float_up, to_units, up
from halflife.registry import register_notion
from halflife.release import Noise, Release

_FORGETTING = (
    "Forgetting is a convention: nothing published becomes less identifiable. Read classically, the loss of an endless "
    "stream grows without bound."
)
_POPULATION = "What is true of a population is learnt whether or not a person takes part."
_ASSUMPTIONS = (
    "Each release's sensitivity bounds what one person's whole time series can move it by; it is public knowledge.",
    "The noise of different releases is independent.",
    "Losses are discounted from the step of their publication, whatever the age of the data.",
)


class Faded(NamedTuple):
    """The state of an account: the newest step, and the discounted sum of losses at that step."""

    step: int
    memory: Any


class Discounted(Notion[Faded]):
    """The base class of discounted notions: the state is one discounted sum of losses."""

    epsilon: float
    alpha: Any = None
    beta: Any = None
    power: ClassVar[int] = 1
    """The kernel's power: 1 where losses add up, 2 where their squares do."""
    assumptions: ClassVar[tuple[str, ...]] = _ASSUMPTIONS

    @cached_property
    def fading(self) -> Fading:
        """The sum of losses with its kernel."""
        return fading(self.alpha, self.beta, self.power)

    def discount(self, j: Floats) -> Floats:
        """Return d(j), the weight of a loss j steps after its publication."""
        result: Floats = self.alpha**j if self.beta is None else 1 / (1 + self.beta * j)
        return result

    def _charge(self, release: Release) -> float:
        return float_up(Pure().charge(release))

    @property
    def charges_spans(self) -> bool:
        """Charged in full from the step of the release on, whatever data it covers: neighbours differ in all of it."""
        return True

    def start(self) -> Faded:
        """Nothing published."""
        return Faded(0, self.fading.zero)

    def record(self, state: Faded, releases: Sequence[Release]) -> Faded:
        """Let the sum fade up to this step, then add the losses."""
        step = releases[0].step
        memory = self.fading.fade(state.memory, step - state.step)
        for release in releases:
            memory = self.fading.add(memory, self._charge(release))
        return Faded(step, memory)

    def shift(self, state: Faded, steps: int) -> Faded | None:
        """The same sum, later: a whole number comes to rest, as it is rounded up; a sum of many terms is not looked at."""
        return Faded(state.step + steps, state.memory) if isinstance(state.memory, int) else None

    def _sum_at(self, state: Faded, step: int) -> float:
        return self.fading.total(self.fading.fade(state.memory, step - state.step))

    def exposure(self, state: Faded, step: int) -> Exposure:
        """The faded sum; later it only falls."""
        risk = self._sum_at(state, step)
        return Exposure(risk, risk, self.epsilon)

    def headroom(self, state: Faded, step: int, age: int) -> float:
        """ε minus the risk of everything admitted so far, this step included (T1)."""
        risk = self._sum_at(state, step)
        return max(0.0, down(self.epsilon - risk)) if risk else self.epsilon

    def to_dict(self) -> JsonObject:
        """Return name and parameters: what a promise is held to, as the half-life follows from α."""
        return self.to_facts()

    def dump(self, state: Faded) -> object:
        """Return the step and the terms of the sum."""
        return {"step": state.step, "sum": self.fading.dump(state.memory)}

    def load(self, data: object) -> Faded:
        """Read what `dump` gave."""
        data = read_form("a discounted account", data, ("step", "sum"))
        return Faded(whole("step of a sum", data["step"], least=0), self.fading.load(data["sum"]))

    def risks(self, losses: Floats, age: int, noise: Noise) -> Floats:
        """Return Σ_{k≤t} d(t−k) ρ_k for every t, rounded up."""
        return self._faded_sums(losses)

    def _faded_sums(self, x: Floats) -> Floats:
        """Return Σ_{k≤t} d(t−k)ᵖ x_k for every t, rounded up: exactly for a geometric kernel, by FFT for another.

        An FFT product is off by at most 16 log₂N 2⁻⁵³ ‖d‖ ‖x‖ (Percival 2003 has a constant of about 12 for powers of two).
        """
        if isinstance(self.fading, Geometric):
            numerator, denominator = self.fading.alpha.as_integer_ratio()
            state, sums = 0, []
            for units in map(to_units, x.tolist()):
                state = units - (-state * numerator) // denominator
                sums.append(state / UNIT)
            rounded: Floats = np.nextafter(sums, np.inf)
            return np.where(np.cumsum(x) > 0, rounded, 0.0)
        kernel = self.discount(np.arange(len(x), dtype=np.float64)) ** self.power
        error = 16 * math.log2(4 * len(x) + 4) * 2.0**-53 * float(np.linalg.norm(kernel) * np.linalg.norm(x))
        return np.maximum(convolution(kernel, x), 0.0) * (1 + 1e-14) + error * (np.cumsum(x) > 0)

    def half_life_steps(self) -> float:
        """Return after how many steps a loss counts half: d(j) = ½."""
        if self.beta is not None:
            return 1 / self.beta if self.beta > 0 else math.inf
        return math.inf if self.alpha == 1 else -1 / math.log2(self.alpha)

    def _most_within(self, w: int) -> float:
        """Return the largest plain sum of w charges in a row when the faded sum may be 1, rounded up (T8; ours).

        It is what the saturating schedule spends from nothing: 1 + (w−1)(1−α) for αʲ. Beyond 2²⁰ steps the rest is bounded
        by the last share, as shares fall.
        """
        n = whole("w", w, least=1)
        if self.beta is None:
            return (1 + (n - 1) * (1 - float(self.alpha) ** self.power)) * (1 + 1e-12)
        shares = saturating_shares(lambda j: self.discount(j) ** self.power, min(n, 2**20))
        return (math.fsum(shares.tolist()) + (n - len(shares)) * float(shares[-1])) * (1 + 1e-9)

    def allowance(self, w: int) -> float:
        """Return how large the plain, undiscounted sum of losses within any w steps can become, in nats (T8; ours).

        ε · Σ_{t≤w} s_t with s the losses of the saturating plan at ε = 1: starting from nothing and taking all the
        headroom at every step spends most (exponential: ε(1 + (w−1)(1−α))).
        """
        return self.epsilon * self._most_within(w)

    def _at_delta(self) -> str:
        return ""

    def in_other_words(self, step_minutes: float = 30.0) -> list[str]:
        """Say what the promise comes to in human time: the half-life, and what a day, a week and a year may lose (T8)."""
        per_day = 1440 / step_minutes
        half_life = self.half_life_steps() * step_minutes
        words = ["Nothing is forgotten: a loss counts in full for ever."]
        if half_life < math.inf:
            words = [f"A loss counts half after {human_time(half_life)}."]
        for name, days in (("day", 1), ("week", 7), ("year", 365)):
            steps = math.ceil(days * per_day - 1e-9)
            if days * per_day < 1:
                continue
            words.append(
                f"Within a {name} ({steps:,} step{'' if steps == 1 else 's'}) the undiscounted, classical loss can reach "
                f"{self.allowance(steps):.3g} where ε = {self.epsilon:g} is promised{self._at_delta()}."
            )
        return words


@register_notion
@dataclass(frozen=True)
class ExponentialDiscount(Discounted):
    """(ε, α)-exponentially discounted privacy: d(j) = αʲ (Definitions 9 and 10, Theorem 11; paper).

    Give `alpha` in (0, 1], or `half_life` in steps, α = 2^(−1/half_life). α = 1 is classical. The account is one number.

    >>> notion = ExponentialDiscount(1.0, half_life=48)
    >>> round(notion.alpha, 6), notion.half_life
    (0.985663, 48.0)
    >>> from halflife import Accountant, Release
    >>> account = Accountant(notion)
    >>> account.admit(Release(1, 0.5))
    >>> round(account.risk(49), 9)
    0.25
    """

    epsilon: float
    alpha: float = None  # type: ignore[assignment]
    half_life: float = field(default=None, compare=False, metadata=means("steps"))  # type: ignore[assignment]

    name: ClassVar[str] = "exponential"
    forgets: ClassVar[bool] = True
    summary: ClassVar[str] = (
        "What was published counts less with every step: a fixed share less, so half after each half-life."
    )
    not_protected: ClassVar[tuple[str, ...]] = (_FORGETTING, _POPULATION)

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", real("epsilon", self.epsilon, positive=True, limit=1e6))
        alpha, half_life = one_discount(alpha=self.alpha, half_life=self.half_life)
        object.__setattr__(self, "alpha", alpha)
        object.__setattr__(self, "half_life", half_life)

    def to_facts(self) -> JsonObject:
        """Return name, ε and α; the half-life follows from α."""
        return {"name": self.name, "epsilon": self.epsilon, "alpha": self.alpha}

    @classmethod
    def examples(cls) -> Sequence[Self]:
        """A half-life of a day of half hours; fast forgetting; none."""
        return cls(1.0, half_life=48.0), cls(0.3, alpha=0.5), cls(1.0, alpha=1.0)


@register_notion
@dataclass(frozen=True)
class HyperbolicDiscount(Discounted):
    """(ε, β)-hyperbolically discounted privacy: d(j) = 1/(1+βj) (Definitions 13 and 14, Theorem 15; paper).

    Half after 1/β steps, a third after 2/β, and so on: slower and slower. β = 0 is classical. The account is a certified
    sum of about 170 exponentials (T2), never below the true sum.

    >>> from halflife import Accountant, Release
    >>> account = Accountant(HyperbolicDiscount(1.0, beta=0.1))
    >>> account.admit(Release(1, 0.5))
    >>> round(account.risk(11), 9)
    0.25
    """

    epsilon: float
    beta: float

    name: ClassVar[str] = "hyperbolic"
    forgets: ClassVar[bool] = True
    summary: ClassVar[str] = (
        "What was published counts less with time, but ever more slowly: half after 1/β steps, a third after 2/β."
    )
    not_protected: ClassVar[tuple[str, ...]] = (_FORGETTING, _POPULATION)

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", real("epsilon", self.epsilon, positive=True, limit=1e6))
        object.__setattr__(self, "beta", check_beta(self.beta))

    def to_facts(self) -> JsonObject:
        """Return name, ε and β."""
        return {"name": self.name, "epsilon": self.epsilon, "beta": self.beta}

    @classmethod
    def examples(cls) -> Sequence[Self]:
        """Half after a day of half hours; after ten steps; after a tenth of one; never."""
        return cls(1.0, beta=1 / 48), cls(1.0, beta=0.1), cls(0.5, beta=10.0), cls(1.0, beta=0.0)


@register_notion
@dataclass(frozen=True)
class GaussianDiscount(Discounted):
    """Gaussian discounting, a notion of its own (T7; ours): (ε, δ) for neighbours whose difference is discounted.

    **Which neighbours.** For a step t, two streams in which one person's contribution to release k differs by at most
    d(t − S_k)·Δf_k: the longer ago, the smaller the change that is hidden. For pure losses this definition gives Σ d ρ, the
    discounted risk exactly. With Gaussian noise the same neighbours are told apart with μ_t² = Σ d(t − S_k)² μ_k², μ_k = Δf_k/σ_k
    (Gaussian DP), and the risk is the ε at δ of μ_t. Σ d² is finite for hyperbolic d too, so bounded noise lasts for ever:
    at (1, 10⁻⁶) and β = 0.1, σ = 13.7 Δf.

    Give one of `alpha`, `half_life` (in steps) or `beta`. A μ may be chosen from earlier outputs (Gaussian DP has
    filters: Smith and Thakurta 2022; Koskela, Tobaben, Honkela 2023).

    >>> round(GaussianDiscount(1.0, 1e-6, beta=0.1).plan().scale(1), 1)
    13.7
    """

    epsilon: float
    delta: float
    alpha: float | None = None
    half_life: float | None = field(default=None, compare=False, metadata=means("steps"))
    beta: float | None = None

    name: ClassVar[str] = "gaussian-discount"
    forgets: ClassVar[bool] = True
    power: ClassVar[int] = 2
    noises: ClassVar[tuple[Noise, ...]] = ("gaussian",)
    summary: ClassVar[str] = (
        "What was published counts less with time, by Gaussian noise: the older the data, the smaller the change in it that "
        "stays hidden."
    )
    not_protected: ClassVar[tuple[str, ...]] = (
        "Large changes long ago: at step t only changes of up to d(t − k) times what a person can do at step k are hidden at ε. "
        + _FORGETTING,
        _POPULATION,
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", real("epsilon", self.epsilon, positive=True, limit=1e6))
        object.__setattr__(self, "delta", check_delta(self.delta))
        if self.delta == 0:
            raise InvalidInput(
                "Gaussian discounting needs delta above 0: Gaussian noise has no bounded pure loss", about="delta"
            )
        if self.beta is None:
            alpha, half_life = one_discount(alpha=self.alpha, half_life=self.half_life)
            object.__setattr__(self, "alpha", alpha)
            object.__setattr__(self, "half_life", half_life)
        elif self.alpha is not None or self.half_life is not None:
            raise InvalidInput("give one of alpha, half_life and beta, not several")
        else:
            object.__setattr__(self, "beta", check_beta(self.beta))

    def to_facts(self) -> JsonObject:
        """Return name, ε, δ, and α or β, whichever it is."""
        kernel = {"alpha": self.alpha} if self.beta is None else {"beta": self.beta}
        return {"name": self.name, "epsilon": self.epsilon, "delta": self.delta, **kernel}

    @classmethod
    def examples(cls) -> Sequence[Self]:
        """Half after a day of half hours, hyperbolically; exponentially; fast."""
        return cls(1.0, 1e-6, beta=1 / 48), cls(1.0, 1e-6, half_life=48.0), cls(0.5, 1e-5, beta=1.0)

    @cached_property
    def mu(self) -> float:
        """The largest μ of Gaussian DP that is (ε, δ)."""
        return gaussian_mu(self.epsilon, self.delta)

    def _charge(self, release: Release) -> float:
        if release.noise != "gaussian":
            raise InvalidInput(
                f"release at step {release.step}: Gaussian discounting speaks of Gaussian noise, not {release.noise}: "
                "use ExponentialDiscount or HyperbolicDiscount for Laplace noise"
            )
        if release.loss == math.inf:
            Pure().charge(release)
        return up(release.loss * release.loss)

    def exposure(self, state: Faded, step: int) -> Exposure:
        """ε(δ) of the faded Σμ²; later it only falls."""
        risk = self._epsilon(self._sum_at(state, step))
        return Exposure(risk, risk, self.epsilon)

    def _epsilon(self, squares: float) -> float:
        return gaussian_epsilon(up(math.sqrt(squares)), self.delta)

    def keeps(self, state: Faded, step: int) -> bool:
        """Whether the faded Σμ² is within μ²."""
        return self._sum_at(state, step) <= self.mu * self.mu * (1 + TOLERANCE)

    def headroom(self, state: Faded, step: int, age: int) -> float:
        """Return the largest μ = Δf/σ that fits: √(μ² − Σ)."""
        return math.sqrt(max(0.0, down(self.mu * self.mu - self._sum_at(state, step)))) * (1 - 2**-52)

    def risks(self, losses: Floats, age: int, noise: Noise) -> Floats:
        """Return the ε at δ of Σ d² μ² at every step."""
        return gaussian_epsilons(self._faded_sums(np.nextafter(losses * losses, np.inf)), self.delta)

    def allowance(self, w: int) -> float:
        """Return the ε at δ of the largest undiscounted Σμ² that any w steps can hold (T8)."""
        return self._epsilon(up(self.mu * self.mu * self._most_within(w)))

    def _at_delta(self) -> str:
        return f", both at δ = {self.delta:g}"


def one_discount(alpha: object, half_life: object) -> tuple[float, float]:
    """Return (α, half-life in steps) from whichever of them was given.

    >>> one_discount(None, 1)
    (0.5, 1.0)
    """
    if (alpha is None) == (half_life is None):
        raise InvalidInput(f"give either alpha or half_life, not alpha={alpha!r} and half_life={half_life!r}")
    if half_life is not None:
        steps = real("half_life", half_life, positive=True)
        if not 2.0**-5 <= steps <= 2.0**40:
            raise InvalidInput(
                f"half_life = {half_life!r} steps is outside 2⁻⁵ … 2⁴⁰: for no forgetting give alpha=1",
                about="half_life",
            )
        return _alpha(steps), steps
    a = real("alpha", alpha, positive=True)
    if a > 1:
        raise InvalidInput(f"alpha must be at most 1, not {alpha!r}: past losses do not grow", about="alpha")
    return a, math.inf if a == 1 else -1 / math.log2(a)


def _alpha(half_life: float) -> float:
    """Return α = 2^(−1/half-life), worked out in decimals and rounded once.

    A ledger is held to α to the last bit, and may move to another machine, whose own power may round otherwise.

    >>> _alpha(24.0)
    0.9715319411536059
    """
    with localcontext(Context(prec=60)):
        return float(Decimal(2) ** (-1 / Decimal(half_life)))


def check_beta(beta: object) -> float:
    """Return β, 0 or between 10⁻⁹ and 10⁶."""
    b = real("beta", beta)
    if b and not 1e-9 <= b <= 1e6:
        raise InvalidInput(f"beta = {beta!r} is outside 1e-9 … 1e6: for no forgetting give 0", about="beta")
    return b


def human_time(minutes: float) -> str:
    """Return a length of time as people say it.

    >>> human_time(90), human_time(60 * 24), human_time(60 * 24 * 2.5), human_time(60 * 24 * 365 / 2)
    ('1.5 hours', '1 day', '2.5 days', '6 months')
    """
    sizes = {"year": 525_600.0, "day": 1440.0, "hour": 60.0, "minute": 1.0}
    months = minutes / (sizes["year"] / 12)
    if 1 <= round(months) < 12 and math.isclose(months, round(months), rel_tol=1e-9):
        return f"{round(months)} month{'' if round(months) == 1 else 's'}"
    unit = next((name for name, size in sizes.items() if minutes >= size), "minute")
    count = f"{minutes / sizes[unit]:.3g}"
    return f"{count} {unit}{'' if count == '1' else 's'}"
