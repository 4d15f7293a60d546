"""The largest age-dependent risk of a history, worked out again: the recursion from its definition.

Nothing here uses the account's frontiers, windows or rounding: every leap over up to `LEAPS` data times is tried.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from halflife.audit.notions.age_dependent.kernels import (
    faded_loss,
    faded_loss_on_span,
    largest_log_odds,
    likelihood_points,
    reversed_kernel,
)
from halflife.errors import InvalidInput
from halflife.notions import AgeDependent
from halflife.notions.gaussian_dp import gaussian_epsilon
from halflife.numerics.arrays import Floats
from halflife.processes import AutoRegressive, MarkovChain, Process, ProcessFamily
from halflife.release import Release

Fading = Callable[[int, float], float]
"""K by gap and loss: what is left of a loss after so many steps."""
LEAPS = 128


def worst_risk(notion: AgeDependent, releases: Sequence[Release]) -> float:
    """Return the largest risk about X_t over steps t with a release, of all that was published by then (T4a).

    r_n = min_j [Σ_{j<i<n} ε_i + K_{τ_n − τ_j}(ε_j + r_j)]. It can only be largest at a release, as kernels only lose. With
    different people the recursion is run for each, and the worst counts.
    """
    process = notion.process
    if isinstance(process, ProcessFamily) and process.composes == "markov":
        return max(_worst_risk(notion, one, releases) for one in process.processes)
    return _worst_risk(notion, process, releases)


def _worst_risk(notion: AgeDependent, process: Process, releases: Sequence[Release]) -> float:
    if notion.delta:
        return _with_delta(notion, process, releases)
    if any(r.noise == "gaussian" and r.loss > 0 for r in releases):
        return math.inf
    if isinstance(process, AutoRegressive):
        return _autoregressive(process, releases, by_the_span=notion.rules > 1)
    if process.composes == "once":
        return _single_lag(process, releases)
    tight = _recurse(_fading(process, notion), releases, 1 if notion.bound == "paper" else LEAPS)
    return min(tight, _by_pairs(process, releases)) if notion.bound == "pairwise" else tight


# Step by step -------------------------------------------------------------------------------------------------------


def _recurse(fading: Fading, releases: Sequence[Release], leaps: int) -> float:
    """Put each loss to its data time, in the order of publication; what stands after it is worked out again."""
    times: list[int] = []
    losses: list[float] = []
    before: list[float] = []
    worst = 0.0

    def risk_at(n: int, at: int) -> float:
        best = math.inf if n else 0.0
        over = 0.0
        for j in range(n - 1, max(-1, n - 1 - leaps), -1):
            if over >= best:
                break
            best = min(best, over + fading(at - times[j], losses[j] + before[j]))
            over += losses[j]
        return best

    for r in sorted(releases, key=lambda r: r.step):
        if r.loss == 0:
            continue
        place = bisect_left(times, r.data_time)
        if place < len(times) and times[place] == r.data_time:
            losses[place] += r.loss
        else:
            times.insert(place, r.data_time)
            losses.insert(place, r.loss)
            before.insert(place, risk_at(place, r.data_time))
        for k in range(place + 1, len(times)):
            before[k] = risk_at(k, times[k])
        worst = max(worst, risk_at(len(times), r.step))
    return worst


def _fading(process: Process, notion: AgeDependent) -> Fading:
    """K by gap and loss, remembered: even schedules ask the same again and again."""
    points = cache(lambda gap: likelihood_points(process, gap))
    spread = cache(lambda gap: largest_log_odds(process, gap))

    @cache
    def fading(gap: int, loss: float) -> float:
        if gap == 0:
            return loss
        if notion.adversary == "any-prior":
            d = spread(gap)
            return loss if d == math.inf else 4 * math.atanh(math.tanh(d / 4) * math.tanh(loss / 4))
        q, p = points(gap)
        if notion.bound == "paper":
            q, p = np.zeros(1), np.array([float((p - q).max(initial=0.0))])
        return faded_loss(q, p, loss)

    return fading


# Pairs of states apart, AR(1), single lags, δ -----------------------------------------------------------------------


def _by_pairs(process: Process, releases: Sequence[Release]) -> float:
    """T4b as one linear program a pair, solved as it stands: max a·f with b·f = 1 and f(z) ≤ e^{ε + R(z, z′)} f(z′).

    Data times that go back are left to the recursion: this one then counts nothing, and says so by ∞.
    """
    assert isinstance(process, MarkovChain)
    known: list[tuple[int, float, Floats]] = []
    worst, n = 0.0, process.states

    def risk_at(at: int) -> Floats:
        best, over = np.full((n, n), math.inf) if known else np.zeros((n, n)), 0.0
        for time, loss, before in known[:-17:-1]:
            if over >= best.max():
                break
            allowed = (before + loss * (1 - np.eye(n))).round(12)
            best = np.minimum(best, over + _fade_pairs(process, at - time, allowed.tobytes()))
            over += loss
        return best

    for r in sorted(releases, key=lambda r: r.step):
        if known and r.data_time < known[-1][0]:
            return math.inf
        if known and r.data_time == known[-1][0]:
            known[-1] = (r.data_time, known[-1][1] + r.loss, known[-1][2])
        elif r.loss:
            known.append((r.data_time, r.loss, risk_at(r.data_time)))
        worst = max(worst, float(risk_at(r.step).max()))
    return worst


@cache
def _fade_pairs(chain: MarkovChain, gap: int, allowed: bytes) -> Floats:
    from scipy.optimize import linprog

    n = chain.states
    limits = np.frombuffer(allowed).reshape(n, n)
    if gap == 0:
        return limits
    kernel, result = reversed_kernel(chain, gap), np.zeros((n, n))
    rules = []
    for z, other in itertools.permutations(range(n), 2):
        row = np.zeros(n)
        row[z], row[other] = 1.0, -math.exp(limits[z, other])
        rules.append(row)
    for x, y in itertools.permutations(range(n), 2):
        found = linprog(
            -kernel[x], A_ub=np.array(rules), b_ub=np.zeros(len(rules)), A_eq=kernel[y][None, :], b_eq=[1.0]
        )
        result[x, y] = max(0.0, math.log(-float(found.fun or -1.0))) if found.status == 0 else math.inf
    return result


def _autoregressive(process: AutoRegressive, releases: Sequence[Release], *, by_the_span: bool) -> float:
    """AR(1): the smaller of Σ |ρ|^{t−τ} ε D/Δ and K_{t−τ_N}(Σ ε), at every release; by the first rules D/Δ counts as 1."""
    ordered = sorted(releases, key=lambda r: r.step)
    times, losses, moved = (
        np.array(x, dtype=np.float64)
        for x in (
            [r.data_time for r in ordered],
            [r.loss for r in ordered],
            [process.span / r.sensitivity if by_the_span else 1.0 for r in ordered],
        )
    )
    worst = 0.0
    for k, r in enumerate(ordered, start=1):
        faded = float((abs(process.rho) ** (r.step - times[:k]) * losses[:k] * moved[:k]).sum())
        total, gap = float(losses[:k].sum()), int(r.step - times[:k].max())
        if faded > worst:
            worst = max(worst, min(faded, faded_loss_on_span(process, gap, total)))
    return worst


def _single_lag(process: Process, releases: Sequence[Release]) -> float:
    """Σ ε − max_n (ε_n − K(ε_n)), losses about one data time added up, at every release."""
    known: dict[int, float] = {}
    points = cache(lambda gap: likelihood_points(process, gap))
    worst = 0.0
    for r in sorted(releases, key=lambda r: r.step):
        known[r.data_time] = known.get(r.data_time, 0.0) + r.loss
        saved = max(
            (x - faded_loss(*points(r.step - t), x) if r.step > t else 0.0 for t, x in known.items()), default=0.0
        )
        worst = max(worst, math.fsum(known.values()) - saved)
    return worst


def _with_delta(notion: AgeDependent, process: Process, releases: Sequence[Release]) -> float:
    """(ε, δ) fades to (ln(1 + Δ(e^ε − 1)), Δδ); a Gaussian release is charged half of the δ that is free (T4; ours).

    While no δ is spent K serves. By the second rules each release may be reached by a leap over those before it, of which the
    pair that leaves the least ε counts, among those with no more δ than the nearest release leaves. It is never more than all of
    it unfaded: Σε, and Gaussian differential privacy at δ.
    """
    leaps = LEAPS if notion.rules > 1 and notion.bound == "tight" else 1
    options = _leaps_with_delta(process, notion, leaps)
    known: list[_Charge] = []
    pure = squares = worst = 0.0
    for r in sorted(releases, key=lambda r: r.step):
        if known and r.data_time < known[-1].time:
            raise InvalidInput("with delta above 0 the audit follows data times that do not go back")
        if r.loss:
            known.append(_charge(notion, r, options(known, r.data_time)))
        pure, squares = (pure + r.loss, squares) if r.noise == "laplace" else (pure, squares + r.loss**2)
        faded = min((e for e, d in options(known, r.step) if d <= notion.delta * (1 + 1e-9)), default=math.inf)
        worst = max(worst, min(faded, pure + gaussian_epsilon(math.sqrt(squares), notion.delta)))
    return worst


class _Charge(NamedTuple):
    """What one release tells about its data time, and what all before it tell."""

    time: int
    own: tuple[float, float]
    before: tuple[float, float]


def _charge(notion: AgeDependent, release: Release, options: Sequence[tuple[float, float]]) -> _Charge:
    """Return the least that a release and those before it come to, of the (ε, δ) that these may count as; the nearest first."""

    def price(in_use: float) -> tuple[float, float]:
        if release.noise == "laplace":
            return release.loss, 0.0
        delta = (notion.delta - in_use) / 2
        return gaussian_epsilon(release.loss, delta), delta

    allowed = [o for o in options if o[1] <= options[0][1]]
    before = min(allowed, key=lambda o: (o[0] + price(o[1])[0], o[1]))
    return _Charge(release.data_time, price(before[1]), before)


def _leaps_with_delta(
    process: Process, notion: AgeDependent, leaps: int
) -> Callable[[Sequence[_Charge], int], list[tuple[float, float]]]:
    """Return a function: the (ε, δ) that charges may count as at a step, one for each leap, that from the newest first."""
    fading = _fading(process, notion)
    points = cache(lambda gap: likelihood_points(process, gap))
    variation = cache(lambda gap: float((points(gap)[1] - points(gap)[0]).max()) if gap else 1.0)

    def options(known: Sequence[_Charge], at: int) -> list[tuple[float, float]]:
        found, over = [], (0.0, 0.0)
        for time, own, before in known[: -1 - leaps : -1]:
            epsilon, delta, mixed = own[0] + before[0], own[1] + before[1], variation(at - time)
            left = math.log1p(mixed * math.expm1(epsilon)) if delta else fading(at - time, epsilon)
            found.append((over[0] + left, over[1] + mixed * delta))
            over = (over[0] + own[0], over[1] + own[1])
        return found or [(0.0, 0.0)]

    return options
