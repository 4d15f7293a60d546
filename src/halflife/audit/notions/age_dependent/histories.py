"""Age-dependent privacy, worked out again: the recursion from its definition, and what outputs really tell, from below.

Nothing here uses the account's frontiers, windows or rounding. K is the maximum over all pairs of rows and all prefixes of their
sorted states, in plain doubles; every leap over up to `LEAPS` data times is tried; stationary laws come from linear equations.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halflife.audit.exact import derives
from halflife.errors import InvalidInput
from halflife.notions import AgeDependent
from halflife.notions.gaussian_dp import gaussian_epsilon
from halflife.numerics.arrays import Floats
from halflife.processes import AutoRegressive, GeometricMixing, MarkovChain, PeriodicMarkovChain, Process, ProcessFamily
from halflife.release import Release

Points = tuple[Floats, Floats]
Fading = Callable[[int, float], float]
LEAPS = 128
FEW_STATES = 8
"""Up to so many states all sets are asked about; beyond, intervals."""


@derives("age-dependent")
def by_data_time(notion: AgeDependent, releases: Sequence[Release]) -> float:
    """Age-dependent: the largest risk about X_t over steps t with a release, of all that was published by then (T4a).

    r_n = min_j [Σ_{j<i<n} ε_i + K_{τ_n − τ_j}(ε_j + r_j)]. It can only be largest at a release, as kernels only lose. With
    different people the recursion is run for each, and the worst counts.
    """
    process = notion.process
    if isinstance(process, ProcessFamily) and process.composes == "markov":
        return max(_worst(notion, one, releases) for one in process.processes)
    return _worst(notion, process, releases)


def _worst(notion: AgeDependent, process: Process, releases: Sequence[Release]) -> float:
    if notion.delta:
        return _with_delta(notion, process, releases)
    if any(r.noise == "gaussian" and r.loss > 0 for r in releases):
        return math.inf
    if isinstance(process, AutoRegressive):
        return _on_a_span(process, releases)
    if process.composes == "once":
        return _at_most_one(process, releases)
    tight = _recursed(_fading(process, notion), releases, 1 if notion.bound == "paper" else LEAPS)
    return min(tight, _pairs_apart(process, releases)) if notion.bound == "pairwise" else tight


# Step by step -------------------------------------------------------------------------------------------------------


def _recursed(fading: Fading, releases: Sequence[Release], leaps: int) -> float:
    """Put each loss to its data time, in the order of publication; what stands after it is worked out again."""
    times: list[int] = []
    losses: list[float] = []
    before: list[float] = []
    worst = 0.0

    def told(n: int, at: int) -> float:
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
            before.insert(place, told(place, r.data_time))
        for k in range(place + 1, len(times)):
            before[k] = told(k, times[k])
        worst = max(worst, told(len(times), r.step))
    return worst


def _fading(process: Process, notion: AgeDependent) -> Fading:
    """K by gap and loss, remembered: even schedules ask the same again and again."""
    points = cache(lambda gap: _points(process, gap))
    spread = cache(lambda gap: _spread(process, gap))

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
        return left_of(q, p, loss)

    return fading


def left_of(q: Floats, p: Floats, loss: float) -> float:
    """max ln [1 + (e^ε − 1) p] / [1 + (e^ε − 1) q] over points (q, p) (T3), and never more than ε.

    >>> round(left_of(np.array([0.1]), np.array([0.9]), 1.0), 6)
    0.776137
    """
    growth = math.expm1(min(loss, 700.0))
    found = float(np.log((1 + growth * p) / (1 + growth * q)).max(initial=0.0))
    return min(loss, found + max(0.0, loss - 700.0))


def _points(process: Process, gap: int) -> Points:
    """(R(x′, B), R(x, B)) of all pairs of rows of the kernel `gap` steps back and all prefixes of their sorted states."""
    if isinstance(process, GeometricMixing):
        return np.zeros(1), np.array([min(1.0, process.c * process.rho**gap)])
    if isinstance(process, MarkovChain):
        return _prefixes([reversed_kernel(process, gap)])
    if isinstance(process, PeriodicMarkovChain):
        return _prefixes([_of_slot(process, gap, slot) for slot in range(process.slots)])
    frontier = process.frontier(gap)  # of a process that is nothing but its frontier there is no other source
    return frontier.q, frontier.q + frontier.d


def _prefixes(kernels: Sequence[Floats]) -> Points:
    q, p = [np.zeros(1)], [np.zeros(1)]
    for kernel in kernels:
        for x, y in itertools.permutations(range(len(kernel)), 2):
            with np.errstate(divide="ignore", invalid="ignore"):
                order = np.argsort(-np.where(kernel[x] > 0, kernel[x] / kernel[y], 0.0), kind="stable")
            p.append(np.cumsum(kernel[x][order]))
            q.append(np.cumsum(kernel[y][order]))
    return np.concatenate(q), np.concatenate(p)


def reversed_kernel(chain: MarkovChain, gap: int) -> Floats:
    """P̂_t(x, y) = π(y) P_t(y, x) / π(x), by a plain matrix power and the law that solves πP = π.

    >>> reversed_kernel(MarkovChain([[0.9, 0.1], [0.1, 0.9]]), 2).round(4).tolist()
    [[0.82, 0.18], [0.18, 0.82]]
    """
    matrix = np.asarray(chain.matrix)
    n = len(matrix)
    rows = np.vstack([matrix.T - np.eye(n), np.ones(n)])
    law = np.linalg.lstsq(rows, np.append(np.zeros(n), 1.0), rcond=None)[0]
    result: Floats = law[None, :] * np.linalg.matrix_power(matrix, gap).T / law[:, None]
    return result


def _of_slot(process: PeriodicMarkovChain, gap: int, slot: int) -> Floats:
    """The kernel back from a slot; rows of states that are impossible then are left out."""
    ahead = np.eye(process.states)
    for s in range(slot - gap, slot):
        ahead = ahead @ process.kernels[s % process.slots]
    now = process.laws[slot] > 0
    back: Floats = process.laws[(slot - gap) % process.slots][None, :] * ahead.T[now] / process.laws[slot][now][:, None]
    return back


def _spread(process: Process, gap: int) -> float:
    """D_t = max ln [P(z,x) P(z′,x′) / (P(z′,x) P(z,x′))]."""
    if isinstance(process, MarkovChain):
        ahead = np.linalg.matrix_power(process.matrix, gap)
        if not (ahead > 0).all():
            return math.inf
        logs = np.log(ahead)
        return max(float(np.ptp(a - b)) for a, b in itertools.combinations(logs, 2)) if len(logs) > 1 else 0.0
    return process.spread(gap)


# Pairs of states apart, AR(1), single lags, δ -----------------------------------------------------------------------


def _pairs_apart(process: Process, releases: Sequence[Release]) -> float:
    """T4b as one linear program a pair, solved as it stands: max a·f with b·f = 1 and f(z) ≤ e^{ε + R(z, z′)} f(z′).

    Data times that go back are left to the recursion: this one then counts nothing, and says so by ∞.
    """
    assert isinstance(process, MarkovChain)
    known: list[tuple[int, float, Floats]] = []
    worst, n = 0.0, process.states

    def told(at: int) -> Floats:
        best, over = np.full((n, n), math.inf) if known else np.zeros((n, n)), 0.0
        for time, loss, before in known[:-17:-1]:
            if over >= best.max():
                break
            allowed = (before + loss * (1 - np.eye(n))).round(12)
            best = np.minimum(best, over + _faded_pairs(process, at - time, allowed.tobytes()))
            over += loss
        return best

    for r in sorted(releases, key=lambda r: r.step):
        if known and r.data_time < known[-1][0]:
            return math.inf
        if known and r.data_time == known[-1][0]:
            known[-1] = (r.data_time, known[-1][1] + r.loss, known[-1][2])
        elif r.loss:
            known.append((r.data_time, r.loss, told(r.data_time)))
        worst = max(worst, float(told(r.step).max()))
    return worst


@cache
def _faded_pairs(chain: MarkovChain, gap: int, allowed: bytes) -> Floats:
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


def _on_a_span(process: AutoRegressive, releases: Sequence[Release]) -> float:
    """AR(1): the smaller of Σ |ρ|^{t−τ} ε and K_{t−τ_N}(Σ ε), at every release."""
    ordered = sorted(releases, key=lambda r: r.step)
    times, losses = (np.array(x, dtype=np.float64) for x in ([r.data_time for r in ordered], [r.loss for r in ordered]))
    worst = 0.0
    for k, r in enumerate(ordered, start=1):
        faded = float((abs(process.rho) ** (r.step - times[:k]) * losses[:k]).sum())
        total, gap = float(losses[:k].sum()), int(r.step - times[:k].max())
        if faded > worst:
            worst = max(worst, min(faded, gaussian_left(process, gap, total)))
    return worst


def gaussian_left(process: AutoRegressive, gap: int, loss: float) -> float:
    """K_t(ε) of AR(1) on its span: the best half-line, looked for on finer and finer grids.

    >>> round(gaussian_left(AutoRegressive(0.9, 1.0, 1.0), 3, 1.0), 6)
    0.182867
    """
    from scipy.special import ndtr

    if gap == 0:
        return loss
    kept = process.rho**gap
    apart = abs(kept) * process.span / (process.sigma * math.sqrt((1 - kept**2) / (1 - process.rho**2)))
    growth, low, high, best = math.expm1(min(loss, 700.0)), -12.0, 12.0 + apart, 0.0
    for _ in range(8):
        a = np.linspace(low, high, 2001)
        found = np.log((1 + growth * ndtr(apart - a)) / (1 + growth * ndtr(-a)))
        at, step = int(found.argmax()), float(a[1] - a[0])
        best, low, high = max(best, float(found[at])), float(a[at]) - 2 * step, float(a[at]) + 2 * step
    return min(loss, best)


def _at_most_one(process: Process, releases: Sequence[Release]) -> float:
    """Σ ε − max_n (ε_n − K(ε_n)), losses about one data time added up, at every release."""
    known: dict[int, float] = {}
    points = cache(lambda gap: _points(process, gap))
    worst = 0.0
    for r in sorted(releases, key=lambda r: r.step):
        known[r.data_time] = known.get(r.data_time, 0.0) + r.loss
        saved = max((x - left_of(*points(r.step - t), x) if r.step > t else 0.0 for t, x in known.items()), default=0.0)
        worst = max(worst, math.fsum(known.values()) - saved)
    return worst


def _with_delta(notion: AgeDependent, process: Process, releases: Sequence[Release]) -> float:
    """(ε, δ) fades to (ln(1 + Δ(e^ε − 1)), Δδ); a Gaussian release is charged half of the δ that is free (T4; ours).

    While no δ is spent K serves. It is never more than all of it unfaded: Σε, and Gaussian differential privacy at δ.
    """
    fading = _fading(process, notion)
    variation = cache(lambda gap: float((_points(process, gap)[1] - _points(process, gap)[0]).max()) if gap else 1.0)
    last, held, spent = 0, 0.0, 0.0  # the newest data time, and the (ε, δ) that all releases tell about it
    pure = squares = worst = 0.0

    def told(at: int) -> tuple[float, float]:
        if not spent:
            return fading(at - last, held), 0.0
        mixed = variation(at - last)
        return math.log1p(mixed * math.expm1(held)), mixed * spent

    for r in sorted(releases, key=lambda r: r.step):
        if pure + squares and r.data_time < last:
            raise InvalidInput("with delta above 0 the audit follows data times that do not go back")
        before = told(r.data_time) if pure + squares else (0.0, 0.0)
        loss, delta = r.loss, 0.0
        if r.noise == "laplace":
            pure += r.loss
        else:
            delta = (notion.delta - before[1]) / 2
            loss, squares = gaussian_epsilon(r.loss, delta), squares + r.loss**2
        last, held, spent = r.data_time, before[0] + loss, before[1] + delta
        worst = max(worst, min(told(r.step)[0], pure + gaussian_epsilon(math.sqrt(squares), notion.delta)))
    return worst


# From below ---------------------------------------------------------------------------------------------------------


def attained_loss(chain: MarkovChain, releases: Sequence[Release], now: int | None = None) -> float:
    """Return what some outputs of some mechanism with these losses really tell about X_now: a lower bound on the true risk.

    The mechanism is randomised response to "is the state in B?", and every answer says yes. Their likelihood as a function of the
    state is followed from the oldest data time on. All sets B are tried where there are few states, else the intervals.

    >>> coin = MarkovChain([[0.9, 0.1], [0.1, 0.9]])
    >>> round(attained_loss(coin, [Release(k, 0.5) for k in range(1, 9)]), 5)
    1.75867
    """
    charges: dict[int, float] = {}
    for r in releases:
        charges[r.data_time] = charges.get(r.data_time, 0.0) + r.loss
    at = max((r.step for r in releases), default=0) if now is None else now
    if charges and at < max(charges):
        raise InvalidInput(f"step {at} lies before the newest data, of step {max(charges)}: ask about a later one")
    kernel = cache(lambda gap: reversed_kernel(chain, gap))
    inside = _sets(chain.states)
    told, last = np.ones((len(inside), chain.states)), None
    for time, loss in sorted(charges.items()):
        if last is not None:
            told = told @ kernel(time - last).T
        told = told * np.where(inside, math.exp(loss), 1.0)
        told, last = told / told.max(axis=1, keepdims=True), time
    if last is None:
        return 0.0
    told = told @ kernel(at - last).T
    return float(np.log(told.max(axis=1) / told.min(axis=1)).max())


def _sets(states: int) -> NDArray[np.bool_]:
    if states <= FEW_STATES:
        rows: list[Any] = [row for row in itertools.product((False, True), repeat=states) if any(row) and not all(row)]
    else:
        ends = itertools.combinations(range(states + 1), 2)
        rows = [[a <= z < b for z in range(states)] for a, b in ends if b - a < states]
    return np.array(rows or [[True] * states])
