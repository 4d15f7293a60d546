"""Age-dependent differential privacy: the risk about a person's current state from releases about older data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from halflife.errors import InvalidInput, UnboundedLoss, unknown
from halflife.notions.age_dependent.approximate import Approximate
from halflife.notions.age_dependent.approximate_skip import ApproximateSkip
from halflife.notions.age_dependent.autoregressive import OnASpan
from halflife.notions.age_dependent.fading import AnyPrior, Frontiers
from halflife.notions.age_dependent.once import Once
from halflife.notions.age_dependent.pairwise import Pairwise
from halflife.notions.age_dependent.skip import WINDOW, Skip
from halflife.notions.base import Exposure, Notion
from halflife.notions.composition import check_delta
from halflife.notions.meaning import means
from halflife.numerics.arrays import Floats
from halflife.numerics.forms import JsonObject, leave_out, read_form
from halflife.numerics.parameters import real, whole
from halflife.numerics.rounding import divide_up
from halflife.numerics.search import largest
from halflife.processes import GeometricMixing, MarkovChain, Process
from halflife.processes.autoregressive import AutoRegressive
from halflife.processes.base import ADVERSARIES
from halflife.registry import register_notion
from halflife.release import Noise, Release

BOUNDS = ("tight", "paper", "pairwise")
LARGEST_LOSS = 1e6
NEWEST_RULES = 2


@register_notion
@dataclass(frozen=True)
class AgeDependent(Notion):
    """Age-dependent (ε, δ)-differential privacy for ever (Definitions 9 and 10; paper), by the tight rules of T4 (ours).

    At every step t, all that was published by t tells at most ε about where a person is *at t*. Neighbours differ in one person's
    state of now; the past is drawn from the reversed process. Each release counts at the step that its data is about, S − A,
    and fades with the kernel from there to now: K_t (T3) instead of Theorem 1, in the order of data times (erratum A1: Theorem 3
    orders by publication and under-reports where A > S_n − S_{n−1}). Post-processing costs nothing (Proposition 7; paper).

    **A release that covers several steps** τ − m + 1 … τ (`Release.span`; ours) counts in full at the newest of them, τ, whatever
    other releases cover the same steps. Proof. Its likelihood p(y | x_{τ−m+1}, …, x_τ) differs by a factor of at most e^ε between
    any two paths, as its sensitivity covers all m steps, so it lies between c and c·e^ε for some c that depends on y alone.
    Sort the releases by τ. Given X_{τ_n} = z the likelihood of all of y_1 … y_n is F_n(z) = E[p_1 ⋯ p_n | X_{τ_n} = z], so

        c_n E[p_1 ⋯ p_{n−1} | X_{τ_n} = z]  ≤  F_n(z)  ≤  c_n e^{ε_n} E[p_1 ⋯ p_{n−1} | X_{τ_n} = z],

    and as p_1 … p_{n−1} see no state after τ_{n−1}, the Markov property makes the mean P̂ F_{n−1}(z), P̂ the kernel from τ_n
    back to τ_{n−1}. So ln F_n varies by at most ε_n + K(range of ln F_{n−1}): the recursion of T4, and leaps (T4a) and pairs
    (T4b) go the same way. With a δ: given y_1 … y_{n−1}, the laws of y_n about two states are mixtures over paths,
    (ε_n, δ_n)-close by joint convexity, so (ε, δ) add up as before. Without the Markov property the earlier steps may tell about
    X_t what X_τ does not (X_t = X_{t−2} with fair coins between), and on an AR(1) process a loss is in proportion to one reading:
    both are refused. About an *earlier* state X_s the same holds mirrored: releases of later steps count at their oldest step,
    and those that cover s in full. The same for several steps at once.

    process    how one person's data moves; people must be independent of each other
    bound      "tight": leaps over releases where that is better (T4a); "pairwise": tells pairs of states apart as well (T4b, for
               few states); "paper": the paper's recursion with Theorem 1, by data time (Theorem 3; corrected, A1)
    adversary  "stationary" knows the process and no more; "any-prior" may know anything else about the person's state
    horizon    the last step that is promised about; needed where the process is known up to a last lag only
    rules      by which version's rules losses add up: an account keeps those that it was begun under. Those of 2 leap with a δ
               (`ApproximateSkip`), and on an AR(1) process charge how far the span moves a value (`OnASpan`)

    >>> from halflife import Accountant, MarkovChain, Release
    >>> account = Accountant(AgeDependent(2.0, MarkovChain([[0.9, 0.1], [0.1, 0.9]])))
    >>> for step in range(1, 9):
    ...     account.admit(Release(step, 0.5))
    >>> round(account.risk(8), 5), round(account.retrospective(8, about=4), 2)
    (1.75867, 2.49)
    """

    epsilon: float
    process: Process = field(metadata=means("process"))
    delta: float = 0.0
    bound: str = field(default="tight", metadata=means("text"))
    adversary: str = field(default="stationary", metadata=means("text"))
    horizon: int | None = field(default=None, metadata=means("whole steps"))
    rules: int = field(default=NEWEST_RULES, metadata=means("rules"))

    left_out: ClassVar[Mapping[str, object]] = {"rules": 1}
    name: ClassVar[str] = "age-dependent"
    by_data_time: ClassVar[bool] = True
    summary: ClassVar[str] = (
        "Where a person is now is hidden now; data fades as it ages, as fast as its process forgets."
    )
    noises: ClassVar[tuple[Noise, ...]] = ("laplace", "gaussian")
    not_protected: ClassVar[tuple[str, ...]] = (
        "Where a person was: later releases tell more about an earlier step, and a trajectory costs the sum of all losses.",
        "People who move together (a cold spell, a holiday, a household) tell about each other; each is protected as if alone.",
        "That a person is in the data at all, and what is true of a population.",
    )
    assumptions: ClassVar[tuple[str, ...]] = (
        "People's data are independent of each other.",
        "Each person's data move as the process says: it is public, and was not fitted to the data that is protected.",
        "The adversary knows the process and what was published and, unless any prior is allowed, nothing else of the person.",
        "Each release's sensitivity bounds what one person's data of the steps that it covers can move it by; it is public "
        "knowledge.",
        "A release depends on the data of its own data times alone; the noise of different releases is independent.",
        "With an autoregressive process: each person has one reading a step, which is the process's state; it is rounded to a "
        "resolution of at most half of σ/√(1 + ρ²), of which the span is a whole multiple, and clipped no narrower than the "
        "span; the process is in the unit of what is published, and what is lost is in proportion to how far the value moves, as "
        "with Laplace noise.",
    )

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "epsilon", real("epsilon", self.epsilon, positive=True, limit=1e6))
        put(self, "process", Process.from_dict(self.process))
        put(self, "delta", check_delta(self.delta))
        if self.bound not in BOUNDS:
            raise unknown("bound", self.bound, BOUNDS, about="bound")
        if self.adversary not in ADVERSARIES:
            raise unknown("adversary", self.adversary, ADVERSARIES, about="adversary")
        if self.horizon is not None:
            put(self, "horizon", whole("horizon", self.horizon, least=1))
        if self.rules not in range(1, NEWEST_RULES + 1):
            raise InvalidInput(f"rules must be of version 1 to {NEWEST_RULES}, not {self.rules!r}", about="rules")
        if not self._rules_differ:
            put(self, "rules", NEWEST_RULES)
        self._check_combination()

    def _check_combination(self) -> None:
        """Refuse combinations of parameters that no proof covers."""
        process, last = self.process, self.process.last_lag
        if last is not None and (self.horizon is None or self.horizon > last):
            raise InvalidInput(
                f"process is known for lags up to {last}, so it can carry a promise up to a horizon of at most {last} steps: "
                f"give horizon={last} or less, or a process that is known for ever",
                about="process",
            )
        if last is not None and process.composes != "once":
            raise InvalidInput(
                f"{process.name} is known for lags up to {last}, and adds up from lag to lag: it must answer for every lag, as "
                "what is left of a loss only falls"
            )
        if self.bound != "tight" and process.composes != "markov":
            raise InvalidInput(
                f"bound {self.bound!r} needs the Markov property, which {process.name} on a stream has not: use 'tight'",
                about="bound",
            )
        if self.bound == "pairwise" and not isinstance(process, MarkovChain):
            raise InvalidInput(
                f"bound 'pairwise' is for a single Markov chain, not for {process.name}: use 'tight'", about="bound"
            )
        if self.adversary == "any-prior":
            if self.bound != "tight":
                raise InvalidInput(
                    f"adversary 'any-prior' has one bound, 'tight', not {self.bound!r}", about="adversary"
                )
            if process.composes != "markov":
                raise InvalidInput(
                    f"adversary 'any-prior' is worked out for Markov processes, not for {process.name}",
                    about="adversary",
                )
            process.spread(1)
        if self.delta and (process.composes != "markov" or self.adversary != "stationary" or self.bound == "pairwise"):
            raise InvalidInput(
                "delta above 0 is worked out for Markov processes, adversary 'stationary' and bound 'tight' or 'paper': "
                "leave it 0",
                about="delta",
            )

    @property
    def _rules_differ(self) -> bool:
        """Whether it matters by which version's rules losses add up."""
        return isinstance(self.process, AutoRegressive) or (self.delta > 0 and self.bound == "tight")

    @property
    def adaptive(self) -> bool:
        """Pure losses may be chosen from outputs; with a δ a fixed schedule is assumed."""
        return self.delta == 0

    @property
    def charges_spans(self) -> bool:
        """In full at the newest step, where the process is Markov."""
        return self.process.composes == "markov"

    @classmethod
    def examples(cls) -> Sequence[Self]:
        """At home or not, for half hours, and a value of which two states differ by 1 at most; every rule once."""
        home = MarkovChain([[0.85, 0.15], [0.1, 0.9]])
        levels = MarkovChain([[0.7, 0.2, 0.1], [0.2, 0.6, 0.2], [0.1, 0.3, 0.6]])
        return (
            cls(1.0, home),
            cls(1.0, GeometricMixing(1.0, 0.8), bound="paper"),
            cls(1.0, levels, adversary="any-prior"),
            cls(1.0, levels, bound="pairwise"),
            cls(1.0, AutoRegressive(0.9, 1.0, 1.0)),
            cls(1.0, home, delta=1e-6),
        )

    # The state ------------------------------------------------------------------------------------------------------

    @cached_property
    def _rule(self) -> Skip | OnASpan | Once | Approximate:
        """The composition rule, by what is known of the process."""
        process = self.process
        if isinstance(process, AutoRegressive):
            return OnASpan(process)
        if process.composes == "once":
            return Once(Frontiers(process, "tight"), process.last_lag)
        between = AnyPrior(process)
        if self.adversary == "any-prior":
            return Skip(between, between, between)
        kind = "paper" if self.bound == "paper" else "tight"
        back = Frontiers(process, kind)
        if self.delta:
            leaps = self.rules > 1 and self.bound == "tight"
            return (ApproximateSkip if leaps else Approximate)(process, back, self.delta)
        return Skip(back, Frontiers(process, kind, "ahead"), between, 1 if self.bound == "paper" else WINDOW)

    @cached_property
    def _pairs(self) -> Pairwise | None:
        return Pairwise(self.process) if self.bound == "pairwise" and isinstance(self.process, MarkovChain) else None

    def start(self) -> Any:
        """Nothing published."""
        return (self._rule.start(), None if self._pairs is None else self._pairs.start())

    def record(self, state: Any, releases: Sequence[Release]) -> Any:
        """Put each loss to its data time."""
        kept, pairs = state
        for release in releases:
            self._check_release(release)
            if not release.loss:
                continue
            if isinstance(self._rule, Approximate):
                kept = self._rule.add(kept, release.data_time, release.loss, release.noise)
            elif isinstance(self._rule, Skip):
                kept = self._rule.add(kept, release.data_time, release.loss, release.first_data_time)
            elif isinstance(self._rule, OnASpan):
                kept = self._rule.add(kept, release.data_time, release.loss, self.moved_by_span(release.sensitivity))
            else:
                kept = self._rule.add(kept, release.data_time, release.loss)
            if self._pairs is not None:
                pairs = self._pairs.add(pairs, release.data_time, release.loss)
        return (kept, pairs)

    @property
    def least_sensitivity(self) -> float:
        """What a release's sensitivity must come to at least, in the unit of the process: the span of an AR(1) process.

        Two people who differ by the span D now differed by ρ^t D before: by ρ^t of the sensitivity, if that is no less than D.
        """
        return self.process.span if isinstance(self.process, AutoRegressive) else 0.0

    def moved_by_span(self, sensitivity: float) -> float:
        """Return what part of a sensitivity the span of an AR(1) process is, rounded up: that part of a loss it costs.

        It is 1 for every other process, and by the rules of version 1.
        """
        span = self.least_sensitivity
        return divide_up(span, sensitivity) if self.rules > 1 and 0 < span < sensitivity else 1.0

    def _check_release(self, release: Release) -> None:
        if release.noise == "gaussian" and release.loss and not self.delta:
            raise UnboundedLoss(
                f"step {release.step}: Gaussian noise has no bounded pure loss: promise delta above 0, or use Laplace noise",
                step=release.step,
            )
        if release.loss == float("inf"):
            raise UnboundedLoss(
                f"step {release.step}: the exact value was published, and its loss has no bound", step=release.step
            )
        if release.loss:
            self.check_sensitivity(release.sensitivity, f"step {release.step}: ")
        self._check_horizon(release.step)

    def check_sensitivity(self, sensitivity: float, where: str = "") -> None:
        """Refuse a sensitivity that does not cover the process's span."""
        if sensitivity < self.least_sensitivity:
            raise InvalidInput(
                f"{where}a sensitivity of {sensitivity:g} is less than the process's span of {self.least_sensitivity:g}, and a "
                "value that moves by more than the noise covers does not lose in proportion: clip no narrower than the span, "
                "give a narrower span, or, for a mean over n people, a process with sigma and span over n"
            )

    def _check_horizon(self, step: int) -> None:
        if self.horizon is not None and step > self.horizon:
            raise InvalidInput(
                f"step {step} lies beyond the promise's horizon of {self.horizon}: nothing is promised there"
            )

    def exposure(self, state: Any, step: int) -> Exposure:
        """Risk falls until the next release, as kernels only lose, and is its own peak; unless the process is known up to a last
        lag, beyond which data of that age counts in full again: then the peak is the worst up to the horizon."""
        self._check_horizon(step)
        risk = self._rule.risk(state[0], step)
        if self._pairs is not None:
            risk = min(risk, self._pairs.risk(state[1], step))
        peak = self._rule.peak(state[0], step, self.horizon) if isinstance(self._rule, Once) else risk
        return Exposure(risk, peak, self.epsilon)

    def headroom(self, state: Any, step: int, age: int) -> float:
        """Found by bisection, as risk grows with loss; on an AR(1) process of a sensitivity that just covers the span."""
        return self._room(state, step, age, None)

    def _room(self, state: Any, step: int, age: int, sensitivity: float | None) -> float:
        self._check_horizon(step)

        def holds(loss: float) -> bool:
            return self.keeps(self.record(state, [self.make_release(step, loss, age, sensitivity=sensitivity)]), step)

        room = holds(0.0) and self.exposure(state, step).risk < self.epsilon
        return largest(holds, 0.0, LARGEST_LOSS, 1e-9) if room else 0.0

    def least_scale(self, state: object, step: int, sensitivity: float, age: int) -> float:
        """As for every notion, of a sensitivity that covers the process's span."""
        self.check_sensitivity(sensitivity)
        room = self._room(state, step, age, sensitivity)
        return divide_up(sensitivity, room) if room > 0 else float("inf")

    def make_release(
        self, step: int, loss: float, age: int, noise: Noise = "laplace", sensitivity: float | None = None
    ) -> Release:
        """Return a release of this loss, with the sensitivity that just covers the process's span if none is given."""
        return Release(step, loss, age, sensitivity=sensitivity or self.least_sensitivity or 1.0, noise=noise)

    def retrospective(self, state: Any, step: int, about: Sequence[int]) -> float:
        """The risk at `step` about where a person was at these earlier steps, ascending, rounded up (ours).

        For a set S it is at least the largest |ln P(y | X_S = a) / P(y | X_S = b)| over all that may have been published, y, and
        all a, b that are possible paths on S (on AR(1): that differ by the span at most at every step). About one step it is
        ε + r← + r→: given that state, what data before and after tells is independent, so both sides add up. About several see
        `Skip.about`, `OnASpan` and `Once.about`; pairs of states are not told apart here.

        **Questions about the path** are answered by it. For events E, F about X_S alone ("she was there at one of these steps",
        "at none"), P(y | E) = Σ_a P(X_S = a | E) P(y | X_S = a) is a mean of such likelihoods, and so is P(y | F). A mean lies
        between the least and the largest, so no y changes the odds of E to F by more than e^risk. The weights P(X_S = a | E) are
        free: the adversary may believe anything about X_S itself. What is used is that, given X_S, the rest of the path moves as
        the process says: the past of s_1 by the stationary process (by any prior, if that is promised), the future of s_m by
        its kernels, and what is between by both its ends.
        """
        return self._rule.about(state[0], about)

    def dump(self, state: Any) -> object:
        """Return what the rules remember."""
        pairs = {} if self._pairs is None else {"pairs": self._pairs.dump(state[1])}
        return {"rule": self._rule.name, "kept": self._rule.dump(state[0]), **pairs}

    def load(self, data: Any) -> Any:
        """Read what `dump` gave."""
        data = read_form(f"an account of {self.name}", data, ("rule", "kept"), pairs=None)
        if data["rule"] != self._rule.name:
            raise InvalidInput(f"an account of {self.name} must say how its losses add up: {self._rule.name} here")
        kept, pairs = self._rule.load(data["kept"]), None if self._pairs is None else self._pairs.load(data["pairs"])
        if pairs is not None and bool(pairs) != bool(kept.times):  # type: ignore[union-attr]
            raise InvalidInput("a pairwise account must hold pairs if, and only if, something was published")
        return (kept, pairs)

    # Plans ----------------------------------------------------------------------------------------------------------

    def risks(self, losses: Floats, age: int, noise: Noise, sensitivity: float | None = None) -> Floats:
        """Return the risk after each step, release by release; once an even schedule has settled, the rest repeats.

        Pairs of states are not told apart here, which is sound and takes no linear programs.

        sensitivity  of each release; if it is not given, the one that is covered least
        """
        if self._pairs is not None:
            return replace(self, bound="tight").risks(losses, age, noise)
        result, state = np.empty(len(losses)), self.start()
        moments = np.flatnonzero(losses)
        even = (
            len(moments) > 2
            and bool(np.all(np.diff(moments, 2) == 0))
            and bool(np.all(losses[moments] == losses[moments[0]]))
        )
        every = int(moments[1] - moments[0]) if even else 1
        settled = 0
        for k, loss in enumerate(losses.tolist(), start=1):
            if loss:
                state = self.record(state, [self.make_release(k, loss, age, noise, sensitivity)])
            result[k - 1] = self.exposure(state, k).risk
            same = even and k > every and result[k - 1] == result[k - 1 - every]
            settled = settled + 1 if same else 0
            if settled > every * (WINDOW + 2):  # everything that is remembered has repeated, so it will
                rest = np.arange(k, len(losses))
                result[k:] = result[k - every + (rest - k) % every]
                break
        return result

    def share(self, part: float) -> Notion:
        """Not parts of ε: losses about one time add up before they fade, and then they come to more than the parts (ours).

        Streams share the *losses* of one plan instead, as a policy does.
        """
        if part != 1:
            raise InvalidInput(
                "parts of an age-dependent promise do not add up to the whole, as what fades is the sum of all losses: plan "
                "once, and share the plan's losses"
            )
        return self

    def in_other_words(self, step_minutes: float = 30.0) -> list[str]:
        """Say how fast a loss fades."""
        lines = []
        for hours in (1, 6, 24):
            gap = round(hours * 60 / step_minutes)
            if gap >= 1 and (self.process.last_lag is None or gap <= self.process.last_lag):
                left = self.process.amplify(1.0, gap, adversary=self.adversary)
                lines.append(
                    f"A loss of 1 about data that is {hours} h old counts as {left:.3g}, if the process is right."
                )
        return lines

    def checks(self) -> Mapping[str, object]:
        """The outcome of the process's own check, beside the assumption that it is about."""
        return {} if self.process.checked is None else {self.assumptions[1]: dict(self.process.checked)}

    def unchecked(self) -> Sequence[str]:
        """That the process is right, if `process.check` has not been asked."""
        return (self.assumptions[1],) if self.process.checked is None else ()

    # What is written down -------------------------------------------------------------------------------------------

    def to_dict(self) -> JsonObject:
        """Return name and parameters, the process among them; the rules only where they make a difference."""
        rules = {"rules": self.rules} if self._rules_differ else {}
        return {**leave_out(super().to_dict(), rules=self.rules), "process": self.process.to_dict(), **rules}

    def to_facts(self) -> JsonObject:
        """Return name and parameters; of the process its kernel, whoever fitted or checked it."""
        return leave_out(
            {
                "name": self.name,
                "epsilon": self.epsilon,
                "process": self.process.to_facts(),
                "delta": self.delta,
                "bound": self.bound,
                "adversary": self.adversary,
                "horizon": self.horizon,
                "rules": self.rules if self._rules_differ else 1,
            },
            delta=0.0,
            bound="tight",
            adversary="stationary",
            horizon=None,
            rules=1,
        )
