"""The base classes `Notion` (a definition of privacy over time, as an accounting rule) and `Plan` (a noise schedule).

A notion is a frozen set of parameters. What was published is summed up in a *state*, an immutable value that only the
notion understands: `record` gives a new state and leaves the old one alone, which is what lets an account try a release
before it commits to it. A state's size does not grow with the length of the stream.

`Plan` stands here as well: a plan belongs to a notion, and a notion gives plans. The plans themselves are in `halflife.plans`.
"""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, fields
from fractions import Fraction
from typing import Any, ClassVar, Generic, NamedTuple, Self

import numpy as np
from typing_extensions import TypeVar

from halflife.errors import InvalidInput, unknown
from halflife.notions.gaussian_dp import gaussian_epsilon
from halflife.notions.request import PlanRequest, read_request
from halflife.numerics.arrays import Floats
from halflife.numerics.forms import JsonObject, check_version, forms_agree
from halflife.numerics.parameters import whole
from halflife.numerics.rounding import TOLERANCE, divide_up, ratio_up
from halflife.registry import find_notion, find_plan
from halflife.release import Noise, Release

S = TypeVar("S", default=Any)
"""A notion's state; a plain `Notion` is one of any."""


class Exposure(NamedTuple):
    """The risk at a step, the largest risk from then on if nothing more is published, and the promised limit."""

    risk: float
    peak: float
    limit: float


STD_OF_UNIT_SCALE: dict[str, float] = {"laplace": math.sqrt(2), "gaussian": 1.0}
BLOCK = 256
ALIKE = 1e-9
"""How far, relatively, two machines may differ in a double of an account that both work out."""
Series = Callable[[int, int], Floats]
MEAN_ABSOLUTE_OF_UNIT_SCALE: dict[str, float] = {"laplace": 1.0, "gaussian": math.sqrt(2 / math.pi)}


@dataclass(frozen=True)
class Plan:
    """A noise schedule, given by losses: release number m, at step 1 + (m−1)·every, may cost ρ_m. Other steps cost nothing.

    `series(first, last)` gives ρ_first … ρ_last, at a cost that does not grow with their place, and each the same to the last bit
    whichever others are asked for. Everything else follows: the scale of a step is sensitivity / ρ, rounded up, and infinite
    at a step without a release. `source` names the theorem, `tail` says why the infinite tail holds.
    """

    notion: Notion
    request: PlanRequest
    noise: Noise
    series: Series
    source: str
    tail: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    """What must be read before anything else."""
    _newest: dict[int, Floats] = field(default_factory=dict, repr=False, compare=False)
    """The losses of the block of releases that was asked for last."""

    @property
    def sensitivity(self) -> float:
        """Δf of each release, the largest if they differ."""
        return self.request.sensitivity

    def sensitivity_at(self, k: int) -> float:
        """Δf of the release at step k."""
        varying = self.request.varying
        return self.request.sensitivity if varying is None else varying[(self._check(k) - 1) // self.request.every]

    @property
    def horizon(self) -> int | None:
        """The last step, None if there is none."""
        return self.request.horizon

    def _check(self, n: int) -> int:
        n = whole("step", n, least=1)
        if self.horizon is not None and n > self.horizon:
            raise InvalidInput(
                f"step {n} lies beyond the plan's horizon of {self.horizon}: ask for a longer one, or for none"
            )
        return n

    def loss(self, k: int) -> float:
        """Return the loss of step k, 0 if nothing is published then."""
        before, rest = divmod(self._check(k) - 1, self.request.every)
        if rest:
            return 0.0
        block, place = divmod(before, BLOCK)
        if block not in self._newest:  # losses come by the block, so that asking step by step stays cheap
            last, limit = (block + 1) * BLOCK, self.request.releases
            self._newest.clear()
            self._newest[block] = self.series(block * BLOCK + 1, last if limit is None else min(last, limit))
        return float(self._newest[block][place])

    def losses_of_releases(self, first: int, last: int) -> Floats:
        """Return the losses of releases number first … last, of which there are `every` steps between two."""
        first = whole("release", first, least=1)
        self._check(1 + (whole("release", last, least=first) - 1) * self.request.every)
        return self.series(first, last)

    def sensitivities_of_releases(self, first: int, last: int) -> Floats:
        """Return Δf of releases number first … last."""
        varying = self.request.varying
        return np.full(last - first + 1, self.sensitivity) if varying is None else np.array(varying[first - 1 : last])

    def losses(self, n: int) -> Floats:
        """Return the losses of steps 1 … n."""
        every = self.request.every
        result = np.zeros(self._check(n))
        result[::every] = self.losses_of_releases(1, -(-n // every))
        return result

    def releases_at(self, k: int) -> tuple[Release, ...]:
        """Return what step k records if it goes by the plan; nothing if nothing is published then."""
        loss = self.loss(k)
        if loss == 0:
            return ()
        release = Release(
            k, loss, self.request.age, sensitivity=self.sensitivity_at(k), scale=self.scale(k), noise=self.noise,
            span=self.request.span,
        )  # fmt: skip
        return (release,)

    def scale(self, k: int) -> float:
        """Return the noise scale of step k, rounded up; infinite if nothing is published then."""
        loss = self.loss(k)
        return divide_up(self.sensitivity_at(k), loss) if loss > 0 else math.inf

    def scales(self, n: int) -> Floats:
        """Return the noise scales of steps 1 … n, rounded up."""
        losses = self.losses(n)
        result = np.full(n, np.inf)
        every = self.request.every
        result[::every] = self.sensitivities_of_releases(1, -(-n // every)) / losses[::every]
        rounded: Floats = np.nextafter(result, np.inf)
        return rounded

    def layers(self, k: int) -> tuple[float, ...]:
        """Return the scales of the independent noises that the value of step k carries."""
        return (self.scale(k),)

    def pattern_scale(self, k: int) -> float:
        """Return the scale of the noise of step k that is used again, where a notion reuses noise; else there is none."""
        raise InvalidInput(f"a plan of {self.notion.name} reuses no noise: ask for scale({k})")

    def std(self, k: int) -> float:
        """Return the standard deviation of the noise at step k."""
        return STD_OF_UNIT_SCALE[self.noise] * math.hypot(*self.layers(k))

    def stds(self, n: int) -> Floats:
        """Return the standard deviations of the noise at steps 1 … n."""
        result: Floats = STD_OF_UNIT_SCALE[self.noise] * self.scales(n)
        return result

    def risks(self, n: int) -> Floats:
        """Return the risk after each of steps 1 … n, rounded up."""
        return self.risks_of(self.losses(n))

    def risks_of(self, losses: Floats) -> Floats:
        """Return the risk after each step if steps 1, 2, … had these losses instead, rounded up."""
        return self.notion.widen(self.request.span).risks(losses, self.request.age, self.noise)

    def limits(self, n: int) -> Floats:
        """Return what each of `risks(n)` is promised to stay under."""
        return np.full(n, self.notion.exposure(self.notion.start(), 1).limit)

    def not_protected(self) -> list[str]:
        """Return what is not protected, the most important first: what this plan leaves open, then what its notion does."""
        return [*self.warnings, *self.notion.not_protected]

    def certificate(self) -> JsonObject:
        """Return the certificate as JSON data: first what is *not* protected, last why the infinite tail holds."""
        checks = self.notion.checks()
        return {
            "not_protected": self.not_protected(),
            "notion": self.notion.reference(),
            "assumptions": [{"assumes": a, "checked": checks.get(a)} for a in self.notion.assumptions],
            "plan": {
                "method": self.request.method,
                "source": self.source,
                "noise": self.noise,
                "sensitivity": self.sensitivity if self.request.varying is None else list(self.request.varying),
                "horizon": self.horizon,
                "age": self.request.age,
                "every": self.request.every,
                **({} if self.request.span == 1 else {"span": self.request.span}),
                **self.facts,
            },
            "classical_risk": self._classical_risk(),
            "in_other_words": self.notion.in_other_words(),
            "tolerance": TOLERANCE,
            "tail": self.tail,
        }

    def _classical_risk(self) -> JsonObject:
        """Return the classical risk (nothing is ever forgotten) as a sentence: Σρ in nats, or with Gaussian noise ε at δ."""
        steps = self.horizon or 17_520
        losses = self.losses(steps)
        if self.noise == "laplace":
            return {"steps": steps, "pure": math.fsum(losses.tolist())}
        delta = self.notion.delta  # type: ignore[attr-defined]
        return {"steps": steps, "epsilon": gaussian_epsilon(float(np.linalg.norm(losses)), delta), "delta": delta}


class Notion(ABC, Generic[S]):
    """The base class of all notions. To add one, subclass it in one file under `notions/` and register it."""

    name: ClassVar[str]
    summary: ClassVar[str]
    """What is promised, in one sentence for people who do not read formulas."""
    noises: ClassVar[tuple[Noise, ...]] = ("laplace",)
    shares_draws: ClassVar[bool] = False
    """Whether one draw of noise may serve several releases. Where it may not, doing so has infinite loss."""
    bounds_differences: ClassVar[bool] = True
    """Whether the difference of two values about one data time has a loss here, which fresh noise atop published noise shows."""
    by_data_time: ClassVar[bool] = False
    """Whether a loss counts at the step that the data is about, rather than at the step of its release."""
    forgets: ClassVar[bool] = False
    """Whether a loss counts less as time passes since its release: then it matters when a value was really published."""
    filters_gaussian: ClassVar[bool] = False
    """Whether, with a δ, Gaussian losses alone are held to a sum of μ², so that each may be chosen from earlier outputs."""
    mechanism: ClassVar[str] = "planned"
    """The registered mechanism that keeps this promise."""
    attached: ClassVar[str | None] = None
    """A parameter that is too large to be written with every account: it is kept once, and referred to by its digest."""
    left_out: ClassVar[Mapping[str, object]] = {}
    """What facts mean that leave a parameter out, where it is not the parameter's default: as the first version had it."""
    not_protected: ClassVar[tuple[str, ...]]
    assumptions: ClassVar[tuple[str, ...]]

    @property
    def memory(self) -> int | None:
        """Data that lies fewer steps than this behind the newest can always be published about, as nothing that this needs is
        forgotten; None if that holds of all data."""
        return None

    @property
    def adaptive(self) -> bool:
        """Whether losses may be chosen from earlier outputs. Always so for pure losses; else only where proved."""
        return True

    @property
    def charges_spans(self) -> bool:
        """Whether the notion can charge releases that cover several steps of data; where not, accounts refuse them."""
        return False

    @classmethod
    @abstractmethod
    def examples(cls) -> Sequence[Self]:
        """Return instances for half-hourly data: the first for the demo, all of them for the contract suites."""

    # The state ------------------------------------------------------------------------------------------------------

    @abstractmethod
    def start(self) -> S:
        """Return the state before anything was published."""

    @abstractmethod
    def record(self, state: S, releases: Sequence[Release]) -> S:
        """Return the state after the releases of one step, not before any step in `state`; `state` stays as it is.

        Raises UnboundedLoss for a release that has no finite loss here, InvalidInput for one that lacks a field.
        """

    @abstractmethod
    def exposure(self, state: S, step: int) -> Exposure:
        """Return the exposure at `step`, risks rounded up."""

    @abstractmethod
    def headroom(self, state: S, step: int, age: int) -> float:
        """Return the largest loss that a release of this age may have at `step`, rounded down."""

    def headroom_over(self, state: S, step: int, age: int, span: int, step_share: float) -> float:
        """Return the largest loss of a release that covers `span` steps, rounded down: the same where it is charged whole.

        step_share  the part of its sensitivity that one of these steps can move it by
        """
        return self.headroom(state, step, age)

    @abstractmethod
    def dump(self, state: S) -> object:
        """Return the state as JSON can hold it, exactly."""

    @abstractmethod
    def load(self, data: object) -> S:
        """Read what `dump` gave; refuse anything else."""

    def keeps(self, state: S, step: int) -> bool:
        """Whether the promise holds from `step` on if nothing more is published."""
        exposure = self.exposure(state, step)
        return exposure.peak <= exposure.limit * (1 + TOLERANCE)

    def least_scale(self, state: S, step: int, sensitivity: float, age: int) -> float:
        """Return the least noise scale allowed at `step`, rounded up; infinite if nothing may be published."""
        room = self.headroom(state, step, age)
        return divide_up(sensitivity, room) if room > 0 else float("inf")

    def shift(self, state: S, steps: int) -> S | None:
        """Return the state that the same releases would have led to so many steps later; None if that is not known.

        Whoever knows it says that `record` and `keeps` do not care what steps are counted from, to the last digit.
        """
        return None

    # Plans ----------------------------------------------------------------------------------------------------------

    @abstractmethod
    def risks(self, losses: Floats, age: int, noise: Noise) -> Floats:
        """Return the risk at steps 1, 2, … of one release a step with these losses (0: none), rounded up."""

    def plan(
        self,
        sensitivity: float | Sequence[float] | Floats = 1.0,
        horizon: int | None = None,
        method: str = "tight",
        age: int = 0,
        every: int = 1,
        noise: Noise | None = None,
        span: int = 1,
        **extra: Any,
    ) -> Plan:
        """Return how much noise each step needs, as a `Plan`.

        sensitivity  Δf of every release, or a list of each one's Δf_k (which ends with it);
        horizon  the last step, None for ever;  method  a plan of this notion;
        age  how many steps old the data is;  every  publish at steps 1, 1 + every, …;  noise  force a noise family;
        span  how many steps of data a release covers, each of which can move it by Δf;
        extra  what this method alone understands, such as `cap`
        """
        if noise is not None and noise not in self.noises:
            raise unknown(f"noise for {self.name}", noise, self.noises)
        wide = self.check_span(span)
        request = read_request(sensitivity, horizon, method, age, every, noise, wide, extra)
        plan: Plan = find_plan(self.name, method)(self, request)
        return plan

    def check_span(self, span: object) -> int:
        """Return how many steps of data a release covers; refuse more than one where it is not known what that costs."""
        steps = whole("span", span, least=1)
        if steps > 1 and not self.charges_spans:
            raise InvalidInput(
                f"it is not worked out what a release about {steps} steps costs under {self.name} as promised here: publish "
                "about one step at a time",
                about="span",
            )
        return steps

    def widen(self, span: int) -> Notion:
        """Return the promise that releases about one step keep exactly if those that cover `span` steps keep this one."""
        return self

    def share(self, part: float) -> Notion:
        """Return the promise with this fraction of its budget; fractions that add up to 1 compose to the whole.

        (ε, δ) splits into (pε, pδ): losses add up, and so do the δ (basic composition). An account that holds all of them
        finds no more than that.

        >>> from halflife import Classical
        >>> Classical(1.0, delta=1e-6).share(0.5)
        Classical(epsilon=0.5, delta=5e-07)
        """
        promise = self.to_dict()
        for key in ("epsilon", "delta"):
            if promise.get(key):
                exact = Fraction(promise[key]) * Fraction(part)
                promise[key] = -ratio_up(-exact.numerator, exact.denominator)
        return Notion.from_dict(promise)

    def settle(self, state: S, step: int) -> S:
        """Return the state advanced to a later step without releases: reused noise that has expired by then is dropped."""
        return state

    def draws(self, state: S) -> Set[str] | None:
        """Return the names of reused noise that may still be used; None if the account is to remember all names itself."""
        return None

    @property
    def largest_epsilon(self) -> float:
        """The largest ε that is promised to anybody."""
        return self.exposure(self.start(), 1).limit

    def unchecked(self) -> Sequence[str]:
        """Return the assumptions that data could contradict, and that were held against none."""
        return ()

    def checks(self) -> Mapping[str, object]:
        """Return the results of checks against data, by the assumption that was checked."""
        return {}

    def retrospective(self, state: S, step: int, about: Sequence[int]) -> float:
        """Return the risk at `step` about the states at these earlier steps, ascending, for notions that tell now from then."""
        raise InvalidInput(f"{self.name} protects all times alike: its risk is that about the past too")

    def in_other_words(self, step_minutes: float = 30.0) -> list[str]:
        """Return sentences on what the promise means in human time (half-lives, days, years)."""
        return []

    # What is written down -------------------------------------------------------------------------------------------

    @abstractmethod
    def to_facts(self) -> JsonObject:
        """Return what identifies the promise, as accounts and ledgers keep it: name and parameters, written out by hand.

        Parameters at their defaults are left out, so that one more of them changes no account that exists, and what is `attached`
        stands by its digest. `from_dict` reads it; a form that says no version is of version 1.
        """

    def matches(self, facts: object) -> bool:
        """Return whether `to_facts`, of this version or an earlier one, gave these facts of this very promise.

        >>> from halflife import WEvent
        >>> WEvent(1.0, 48).matches({"name": "w-event", "epsilon": 1, "w": 48, "delta": 0})
        True
        """
        if not isinstance(facts, dict) or facts.get("name") != self.name:
            return False
        mine, key = self.to_facts(), self.attached
        return self.complete(facts) == mine and (key is None or facts.get(key, {}).get("sha256") == mine[key]["sha256"])

    def complete(self, facts: Mapping[str, object]) -> JsonObject:
        """Return facts of a promise of this name as this version writes them; of what is attached it has its own."""
        own = {} if self.attached is None else {self.attached: getattr(self, self.attached)}
        return Notion.from_dict({**facts, **own}).to_facts()

    def to_dict(self) -> JsonObject:
        """Return name and all parameters, to be shown or changed."""
        return {"name": self.name, **{f.name: getattr(self, f.name) for f in fields(self) if f.init}}  # type: ignore[arg-type]

    def reference(self) -> JsonObject:
        """Return name and all parameters, with a digest for what is large: for certificates."""
        return self.to_dict()

    def attachment(self) -> str | None:
        """Return the parameter `attached`, which `to_facts` has a digest of, as JSON, to be kept once beside many accounts."""
        return None if self.attached is None else json.dumps(self.to_dict()[self.attached])

    @staticmethod
    def from_reference(data: object, attachment: str | None) -> Notion:
        """Read what `to_facts` and `attachment` gave."""
        if attachment is None or not isinstance(data, dict):
            return Notion.from_dict(data)
        attached = find_notion(data.get("name")).attached
        try:
            notion = Notion.from_dict({**data, attached: json.loads(attachment)})
        except ValueError as error:
            raise InvalidInput(f"the {attached} of a {data.get('name')} promise cannot be read: {error}") from None
        if not notion.matches(data):
            raise InvalidInput(f"the {attached} at hand are not those that the promise was made with")
        return notion

    def same(self, one: S, two: S) -> bool:
        """Return whether two states hold the same releases, whichever machine worked each of them out."""
        return forms_agree(self.dump(one), self.dump(two), ALIKE)

    def extends(self, before: Notion, published: int) -> None:
        """Refuse if this is not the promise `before`, or one that only adds to it after the data time `published`."""
        if not self.matches(before.to_facts()):
            raise InvalidInput(f"the account keeps {before!r}, and the policy promises {self!r}")

    @staticmethod
    def from_dict(data: object) -> Notion:
        """Read what `to_dict` or `to_facts` gave.

        >>> from halflife import Classical, Notion
        >>> Notion.from_dict({"name": "classical", "epsilon": 1.0})
        Classical(epsilon=1.0, delta=0.0)
        """
        if not isinstance(data, dict):
            raise InvalidInput(f"a notion must be a JSON object, not {data!r}")
        cls = find_notion(data.get("name"))
        check_version(f"a {cls.name} promise", data)
        parameters = {k: v for k, v in data.items() if k not in ("name", "version")}
        known = [f.name for f in fields(cls) if f.init]
        for key in parameters:
            if key not in known:
                raise unknown(f"parameter of {cls.name}", key, known)
        try:
            notion: Notion = cls(**{**cls.left_out, **parameters})
        except TypeError as error:
            raise InvalidInput(f"{cls.name}: {error}") from None
        return notion
