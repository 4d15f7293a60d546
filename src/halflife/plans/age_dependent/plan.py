"""Plans under age-dependent privacy: equal losses at equal intervals (Theorem 4: nothing that varies does better)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from halflife.errors import InvalidInput
from halflife.notions import AgeDependent, PlanRequest
from halflife.notions.age_dependent.skip import WINDOW
from halflife.notions.gaussian_dp import gaussian_mu
from halflife.numerics.arrays import Floats
from halflife.numerics.forms import JsonObject
from halflife.numerics.parameters import real
from halflife.numerics.rounding import divide_down
from halflife.numerics.search import largest
from halflife.plans.age_dependent.equally_spaced import contraction, largest_loss, limit_before, periodic_peak
from halflife.plans.base import STD_OF_UNIT_SCALE, Plan, refuse_extra, refuse_gaussian, repeat_loss
from halflife.processes.base import Direction
from halflife.processes.certifiable import estimation_error, least_certifiable
from halflife.registry import register_plan
from halflife.release import Noise

MOST_TIMES_EPSILON = 4.0
"""No release costs more than so many times ε unless `cap` allows it. Age alone protects the present, however little noise there
is: without a cap old data would be published all but exactly, and with it where everybody was."""
MOST_BETWEEN = 512
"""Steps between two releases are looked at one by one up to so many; beyond, both sides count in full."""
DIRECTIONS: tuple[Direction, Direction] = ("back", "ahead")


@register_plan("age-dependent", "paper")
def proposition_3(notion: AgeDependent, request: PlanRequest) -> Plan:
    """ε_C = ln((E + Δ(A)) / (Δ(A) + E Δ(S̄))), E = e^ε − 1: Proposition 3 solved for the loss of a release (paper).

    >>> from halflife import AgeDependent, GeometricMixing
    >>> plan = AgeDependent(1.0, GeometricMixing(1.0, 0.8)).plan(method="paper", age=2, every=4)
    >>> round(plan.loss(1), 6)
    0.562426
    """
    refuse_extra(request, "cap")
    refuse_gaussian(request, "Proposition 3 is about pure losses")
    _refuse_paper(notion)
    loss = min(largest_loss(notion.process, notion.epsilon, request.age, request.every, "paper"), _cap(notion, request))
    _refuse_nothing(notion, request, loss)
    tail = (
        f"A loss of {loss:.6g} every {request.every} steps on data {request.age} steps old has a risk of at most "
        f"{notion.epsilon:g} for ever: the recursion of Theorem 3 rises to the fixed point of Proposition 3, never above it."
    )
    return _plan(notion, request, "laplace", loss, "age-dependent, Proposition 3 (paper)", tail)


def _refuse_paper(notion: AgeDependent) -> None:
    if notion.process.composes != "markov" or notion.adversary != "stationary":
        raise InvalidInput(
            "Proposition 3 is about Markov processes and an adversary who knows the stationary law, not about "
            f"{notion.process.name} and {notion.adversary!r}: use method='tight'"
        )


@register_plan("age-dependent", "tight", "constant")
def steady(notion: AgeDependent, request: PlanRequest) -> Plan:
    """The largest equal loss whose risk stays within ε: for ever by the fixed point of T4a, with a horizon by the recursion
    itself (ours).

    No release costs more than `cap`, 4 ε if it is not given: age alone protects the present, so that the largest loss can be
    without bound, and the past would be published exactly. On an AR(1) process ε and 4 ε are for a move by the span; a release
    loses as much more as its sensitivity is larger, and its scale follows from the span: span 4, clip 40 and ε = 0.1 need a scale
    of 40.

    With δ > 0 also Gaussian noise, whichever has the smaller standard deviation: a release is charged (ε_∞, δ_∞) in the long run,
    with δ_∞ = δ (1 − Δ(S̄))/(2 − Δ(S̄)) and ε_∞ the loss that Proposition 3 allows.

    >>> from halflife import AgeDependent, MarkovChain
    >>> notion = AgeDependent(1.0, MarkovChain([[0.9, 0.1], [0.1, 0.9]]))
    >>> [round(notion.plan(method=m, age=2, every=4).loss(1), 4) for m in ("tight", "paper")]
    [1.2141, 0.5624]
    >>> from halflife import AutoRegressive
    >>> round(AgeDependent(0.1, AutoRegressive(0.9, 1.0, span=4.0)).plan(sensitivity=40, horizon=1).scale(1), 6)
    40.0
    """
    refuse_extra(request, "cap")
    if not notion.delta:
        refuse_gaussian(request, "Gaussian noise has no bounded pure loss (delta = 0)")
    if request.method == "constant" and request.horizon is None:
        raise InvalidInput("method='constant' needs a horizon: give horizon=, or use method='tight'")
    options = {family: _loss(notion, request, family) for family in _families(notion, request)}
    noise = min(options, key=lambda family: STD_OF_UNIT_SCALE[family] / max(options[family], 1e-300))
    loss = options[noise]
    _refuse_nothing(notion, request, loss)
    ends = _horizon(notion, request)
    if ends is None:
        how = f"the risk rises to a limit within {notion.epsilon:g} that the recursion maps below itself, and never passes it."
    elif notion.process.last_lag is None:
        how = f"each of its {-(-ends // request.every)} releases has a risk within {notion.epsilon:g}, and later it only falls."
    else:
        how = (
            f"the risk of its {-(-ends // request.every)} releases stays within {notion.epsilon:g} up to step {notion.horizon}, "
            f"data older than the last known lag of {notion.process.last_lag} counted in full; after it nothing is promised."
        )
    tail = f"With a loss of {loss:.6g} ({noise}) every {request.every} steps on data {request.age} steps old, {how}"
    return _plan(notion, request, noise, loss, "age-dependent, steady losses by data time (ours)", tail)


def _families(notion: AgeDependent, request: PlanRequest) -> tuple[Noise, ...]:
    if request.noise is not None:
        return (request.noise,)
    return ("laplace", "gaussian") if notion.delta else ("laplace",)


def _horizon(notion: AgeDependent, request: PlanRequest) -> int | None:
    """The last step that matters: the plan's, or the promise's."""
    ends = [h for h in (notion.horizon, request.horizon) if h is not None]
    return min(ends) if ends else None


def _loss(notion: AgeDependent, request: PlanRequest, noise: Noise) -> float:
    age, every, ends = request.age, request.every, _horizon(notion, request)
    cap, moved = _cap(notion, request), notion.moved_by_span(_least_sensitivity(request))
    if noise == "gaussian":
        return _gaussian(notion, age, every, cap)
    leaps = notion.bound != "paper" and (not notion.delta or notion.rules > 1)
    bound = "tight" if leaps else "paper"
    for_ever = _divide(largest_loss(notion.process, notion.epsilon, age, every, bound, notion.adversary), moved)
    if ends is None or for_ever >= cap:
        return min(for_ever, cap)
    releases = -(-ends // every)

    def holds(loss: float) -> bool:
        return _peak(notion, loss, request, releases) <= notion.epsilon

    low = max(for_ever, _divide(notion.epsilon / releases * (1 - 1e-12), moved))
    if notion.process.composes == "once":
        high = cap  # for ever nothing is known, so that says nothing of how large a loss a few releases may have
    else:
        high = 1.01 * largest_loss(notion.process, notion.epsilon, age, 10**6, bound, notion.adversary) / moved
    return min(largest(holds, low, max(high, low * (1 + 1e-9)), 1e-5), cap) if holds(low) else 0.0


def _least_sensitivity(request: PlanRequest) -> float:
    """Δf of the releases, the least of them if they differ: of that one the span is the largest part."""
    return min(request.varying or (request.sensitivity,))


def _divide(loss: float, moved: float) -> float:
    """The loss of a move by the whole sensitivity of which a move by the span, this part of it, costs so much; rounded down."""
    return loss if moved == 1 else divide_down(loss, moved) * (1 - 1e-12)


def _cap(notion: AgeDependent, request: PlanRequest) -> float:
    """The most that one release may cost: as it is given, else so many times ε for a move by the span."""
    given = request.extra.get("cap")
    if given is not None:
        return real("cap", given, positive=True)
    return _divide(MOST_TIMES_EPSILON * notion.epsilon, notion.moved_by_span(_least_sensitivity(request)))


def _peak(notion: AgeDependent, loss: float, request: PlanRequest, releases: int) -> float:
    """The largest risk of so many equal releases, release by release until everything that is remembered repeats.

    Where at most one release is amplified, n of them have a risk of at least (n − 1) losses, and fewer of at most that: the
    worst comes after the last.
    """
    notion = replace(notion, bound="tight") if notion.bound == "pairwise" else notion
    state, worst, same = notion.start(), 0.0, 0
    age, every = request.age, request.every
    sensitivity = max(_least_sensitivity(request), notion.least_sensitivity)
    if notion.process.composes == "once":
        state = notion.record(state, [notion.make_release(1 + k * every, loss, age) for k in range(releases)])
        return notion.exposure(state, 1 + (releases - 1) * every).peak
    for k in range(releases):
        step = 1 + k * every
        state = notion.record(state, [notion.make_release(step, loss, age, sensitivity=sensitivity)])
        risk = notion.exposure(state, step).risk
        same, worst = (same + 1, worst) if risk == worst else (0, max(worst, risk))
        if same > WINDOW + 2 or worst > notion.epsilon:
            break
    return worst


def _gaussian(notion: AgeDependent, age: int, every: int, cap: float) -> float:
    """The μ whose (ε_∞, δ_∞) Proposition 3 allows; 0 if the process does not forget within a period."""
    mixed = notion.process.total_variation(every)
    if mixed >= 1:
        return 0.0
    epsilon = min(largest_loss(notion.process, notion.epsilon, age, every, "paper"), cap)
    delta = notion.delta * (1 - mixed) / (2 - mixed) * (1 - 1e-9)
    return gaussian_mu(epsilon * (1 - 1e-9), delta) if epsilon > 0 else 0.0


def _refuse_nothing(notion: AgeDependent, request: PlanRequest, loss: float) -> None:
    if loss <= 0:
        raise InvalidInput(
            f"publishing every {request.every} steps for ever leaves no budget: the process keeps Δ({request.every}) = "
            f"{notion.process.total_variation(request.every):.6g} of what is known from one release to the next: publish less "
            "often, let the data age, or give a horizon"
        )


def _plan(notion: AgeDependent, request: PlanRequest, noise: Noise, loss: float, source: str, tail: str) -> Plan:
    notion.check_sensitivity(_least_sensitivity(request))
    facts: JsonObject = {"loss": loss}
    moved = notion.moved_by_span(_least_sensitivity(request))
    warnings = (
        first_line(notion, loss * moved if noise == "laplace" else None, request),
        *_beyond_the_span(loss, moved),
        *_after_the_horizon(notion, request, loss),
        *_what_can_be_certified(notion, loss),
    )
    return AgeDependentPlan(notion, request, noise, repeat_loss(loss), source, tail, facts, warnings)


@dataclass(frozen=True)
class AgeDependentPlan(Plan):
    """A plan whose risks depend on the sensitivity as well: on an AR(1) process a loss is that of a move by all of it."""

    def risks_of(self, losses: Floats) -> Floats:
        """Return the risk after each step of releases of this plan's sensitivity with these losses, rounded up."""
        assert isinstance(self.notion, AgeDependent)
        return self.notion.risks(losses, self.request.age, self.noise, _least_sensitivity(self.request))


def _beyond_the_span(loss: float, moved: float) -> tuple[str, ...]:
    """Return a sentence on moves by more than the span of an AR(1) process, where the clip leaves room for them."""
    if moved == 1:
        return ()
    return (
        "Two values that differ by at most the process's span are hidden from each other. Values as far apart as the clip "
        f"allows, {1 / moved:.3g} spans, are told apart {1 / moved:.3g} times as well: there a release costs {loss:.3g}.",
    )


def first_line(notion: AgeDependent, loss: float | None, request: PlanRequest) -> str:
    """Return what a reader must know first: how much more the past is exposed, and whether the process passed its check."""
    peak = retrospective_peak(notion, loss, request.every, request.span) if loss is not None else math.inf
    unknown = "grows with every release" if request.span <= request.every else "has no bound that was worked out"
    grows = f"grows to {peak:.3g}" if peak < math.inf else unknown
    checked = notion.process.checked
    if checked is None:
        stood = "the process was never checked against data"
    elif checked.get("good"):
        stood = f"the process was checked against data: {_sentence(checked)}"
    else:
        stood = f"THE PROCESS FAILED ITS CHECK: {_sentence(checked)}"
    return (
        f"This protects where a person is now, within {notion.epsilon:g}, not where they were: about a past step the risk "
        f"{grows} as later releases come; and {stood}."
    )


def _sentence(checked: Mapping[str, object]) -> str:
    return str(checked.get("verdict", "it does not say how")).rstrip(".")


def _after_the_horizon(notion: AgeDependent, request: PlanRequest, loss: float) -> tuple[str, ...]:
    """Return a sentence on what holds after the horizon, for a process that is known up to a last lag."""
    if notion.process.last_lag is None or (ends := _horizon(notion, request)) is None:
        return ()
    return (
        f"Nothing is promised after step {notion.horizon}: the process is known for lags up to {notion.process.last_lag}, and "
        f"of older data nothing is known to fade, so that the risk may come to {loss * -(-ends // request.every):.3g}.",
    )


def _what_can_be_certified(notion: AgeDependent, loss: float) -> tuple[str, ...]:
    """Return a sentence on how well an estimated process is known, if it was estimated."""
    off, least = estimation_error(notion.process), least_certifiable(notion.process, loss)
    if off is None or least is None:
        return ()
    return (
        f"The process was estimated: at 99 % confidence its distances are known to ±{off:.2g} at best, so a loss of {loss:.3g} "
        f"cannot be certified below {least:.3g}, however old the data; the figures here take the estimate for the truth.",
    )


def retrospective_peak(notion: AgeDependent, loss: float, every: int, span: int = 1) -> float:
    """Return the risk about a past step in the end, if a loss is published at equal intervals for ever (ours), or ∞.

    About a data time it is ε_C + r← + r→, and k steps after one K_k(ε_C + r←) + K′_{S̄−k}(ε_C + r→), K′ the kernel ahead, which
    can be more: the worst of them. A release that covers m steps of data counts for later steps at its newest, for earlier ones
    at its oldest, and in full for those that it covers: k steps after a newest step, with S̄ steps from one to the next,

        K_k(ε_C + r←) + K′_{S̄−m+1−k}(ε_C + r→)                 k ≤ S̄ − m: the next begins later
        K_k(ε_C + r←) + ε_C + K′_{2S̄−m+1−k}(ε_C + r→)          else the next covers it.

    Nothing is worked out for m > S̄, where releases overlap.

    Symmetric two-state chain, p = q = 0.1, ε_C = 0.5 at every step: 3.12 about a past step where the risk about now is 1.81.

    >>> from halflife import AgeDependent, MarkovChain
    >>> round(retrospective_peak(AgeDependent(2.0, MarkovChain([[0.9, 0.1], [0.1, 0.9]])), 0.5, 1), 2)
    3.12
    """
    process = notion.process
    if process.composes == "once" or span > every:
        return math.inf
    if process.composes == "autoregressive":
        now = periodic_peak(process, loss, 0, every)
        return 2 * now - loss
    back, ahead = (contraction(process, notion.adversary, direction) for direction in DIRECTIONS)
    before, after = limit_before(back, loss, every), limit_before(ahead, loss, every)
    if math.inf in (before, after):
        return math.inf
    told, will_tell = loss + before, loss + after
    if every > MOST_BETWEEN:
        return told + will_tell + (loss if span > 1 else 0.0)

    def to_come(steps: int) -> float:  # what releases that begin so many steps later will tell
        return after if steps == every else ahead(will_tell, steps)

    gap = every - span + 1
    return max(
        (back(told, k) if k else told) + (to_come(gap - k) if k < gap else loss + to_come(every + gap - k))
        for k in range(every)
    )
