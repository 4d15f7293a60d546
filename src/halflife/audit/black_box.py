"""Black-box audits: run a release path on two neighbouring streams, and bound from below what its outputs tell apart.

A *path* is called with 0 or 1 (which of the two streams) and a number of runs, and gives outputs of shape (runs, numbers). From
one half of the runs an event is chosen that the two streams make most differently likely; on the other half it is counted, and
the counts bound ε from below with exact binomial confidence. As the event was chosen from other runs, it is one test, and
nothing about the path needs to be known for the bound to hold; knowing more only finds better events.

What is looked at, each with many thresholds in both directions: the log-likelihood ratio under the noise that was claimed (best
if the path is as it says), each number, their sum along the move, differences of two of them (noise that is used twice), which of
them repeat, whether they are finite, and how fine the grid is that they lie on (floating-point noise gives itself away in its
last bits: Mironov 2012).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from halflife.audit.confidence import binomial_bounds, least_epsilon
from halflife.numerics.arrays import Floats

Path = Callable[[int, int], Floats]

MOST_NUMBERS, THRESHOLDS = 24, 60
SCALE_AT = {"laplace": 1.6, "gaussian": 1.6, "laplace twice": 2.3}
"""Where the size of noise tells most about its scale: near the largest t²/(e^t − 1)."""


@dataclass(frozen=True, eq=False)
class Pair:
    """Two neighbouring streams: the exact values of each, the noise scales that are claimed, and what the pair may lose."""

    name: str
    first: Floats
    second: Floats
    scales: Floats
    claimed: float
    noise: str = "laplace"
    delta: float = 0.0
    sized: bool = True
    """Whether the outputs are the exact values plus noise of these scales, so that its size can be looked at."""
    looked_at: NDArray[np.bool_] | None = None
    """Of which numbers the noise's size is looked at, as it is independent of all others'; None: of all that have noise."""
    stride: int = 1
    """How many numbers a step has: whether a number is that of the step before again is looked at."""


class Event(NamedTuple):
    """A set of outputs: those whose feature is at least (or at most) the threshold, which one stream makes more likely."""

    feature: str
    threshold: float
    at_least: bool
    more_likely: int

    def __str__(self) -> str:
        return f"{self.feature} {'≥' if self.at_least else '≤'} {self.threshold:.6g}"


class Attack(NamedTuple):
    """The lower bound on ε, the event that shows it, and how often each stream made it in so many runs."""

    epsilon: float
    event: Event
    hits: int
    other_hits: int
    runs: int


def attack(outputs: tuple[Floats, Floats], pair: Pair, alpha: float) -> Attack:
    """Return the lower bound on ε that these outputs of the two streams show, wrong with probability at most alpha."""
    half = min(len(o) for o in outputs) // 2
    chosen = choose_event((outputs[0][:half], outputs[1][:half]), pair)
    counts = [int(occurs(chosen, o[half : 2 * half], pair).sum()) for o in outputs]
    hits, other = counts[chosen.more_likely], counts[1 - chosen.more_likely]
    return Attack(least_epsilon(hits, half, other, half, pair.delta, alpha), chosen, hits, other, half)


def attack_scale(outputs: tuple[Floats, Floats], pair: Pair, alpha: float) -> Attack:
    """Return a lower bound on ε from the noise's own size, if it is of the claimed family; all numbers count together.

    Over a window a black box sees little of a loss that adds up over many steps: its worst outputs are rare. But every number
    tells how large its noise is. |y − f| exceeds t·b with probability e^−t under Laplace noise of scale b. If so few of all
    numbers exceed t·b that the probability is at most q (exact binomial bound), the scale is at most t·b/ln(1/q), and the
    pair loses at least claimed · ln(1/q)/t. Gaussian noise: 2Φ(−t) in place of e^−t; the sum or difference of two Laplace
    noises of one scale ("laplace twice"): (1 + t/2) e^−t.
    """
    t = SCALE_AT[pair.noise]
    there = pair.scales > 0 if pair.looked_at is None else pair.looked_at
    scales = np.where(there, pair.scales, np.inf)
    sizes = [np.abs(o - f) / scales for o, f in zip(outputs, (pair.first, pair.second), strict=True)]
    good = np.concatenate([s[:, np.isfinite(scales)].ravel() for s in sizes])
    hits, runs = int((good > t).sum()), len(good)
    _, q = binomial_bounds(hits, runs, alpha)
    return Attack(
        max(0.0, pair.claimed * size_exceeded(q, pair.noise) / t),
        Event("noise / claimed scale", t, True, 0),
        hits,
        hits,
        runs,
    )


def size_exceeded(q: float, noise: str) -> float:
    """Return the size that noise of scale 1 exceeds with this probability.

    >>> from math import exp
    >>> [round(size_exceeded(p, "laplace twice" if k else "laplace"), 6) for k, p in enumerate((exp(-2.0), 2 * exp(-2.0)))]
    [2.0, 2.0]
    """
    from scipy.special import lambertw, ndtri

    if noise == "laplace":
        return math.log(1 / q)
    if noise == "gaussian":
        return float(-ndtri(q / 2))
    return float(-lambertw(-2 * q * math.exp(-2), -1).real) - 2


def choose_event(outputs: tuple[Floats, Floats], pair: Pair) -> Event:
    """Return the event that bounds ε best on these runs; a bound on other runs then needs no correction for the choice."""
    best, found = -1.0, Event("likelihood", 0.0, True, 0)
    second = dict(features(outputs[1], pair))
    for name, values in features(outputs[0], pair):
        both = np.sort(values), np.sort(second[name])
        for threshold in _thresholds(*both):
            for at_least in (True, False):
                counts = [_count(v, threshold, at_least) for v in both]
                for likely in (0, 1):
                    if counts[likely] <= counts[1 - likely]:
                        continue
                    n = len(values)
                    bound = least_epsilon(counts[likely], n, counts[1 - likely], n, pair.delta, 1e-4)
                    if bound > best:
                        best, found = bound, Event(name, threshold, at_least, likely)
    return found


def occurs(event: Event, outputs: Floats, pair: Pair) -> NDArray[np.bool_]:
    """Return in which runs the event happened."""
    values = next(v for name, v in features(outputs, pair) if name == event.feature)
    return values >= event.threshold if event.at_least else values <= event.threshold


def _count(ordered: Floats, threshold: float, at_least: bool) -> int:
    if at_least:
        return len(ordered) - int(np.searchsorted(ordered, threshold, side="left"))
    return int(np.searchsorted(ordered, threshold, side="right"))


def _thresholds(first: Floats, second: Floats) -> Floats:
    """Quantiles of both together: few in the middle, more in the tails; a feature of few values gives them all."""
    both = np.concatenate([first, second])
    distinct = np.unique(both)
    if len(distinct) <= THRESHOLDS:
        return distinct
    tails = np.geomspace(2e-3, 0.5, THRESHOLDS // 2)
    cut: Floats = np.unique(np.quantile(both, np.concatenate([tails, 1 - tails])))
    return cut


# What is looked at --------------------------------------------------------------------------------------------------


def features(outputs: Floats, pair: Pair) -> Iterator[tuple[str, Floats]]:
    """Yield named numbers of each run. What is not finite becomes 0 where a number is needed, and is a feature of its own."""
    finite = np.isfinite(outputs)
    yield "not finite", (~finite).sum(axis=1).astype(np.float64)
    clean = np.where(finite, outputs, 0.0)
    yield "likelihood", log_likelihood_ratio(clean, pair)
    moves = pair.second - pair.first
    yield "sum along the move", clean @ np.sign(moves)
    moved = [int(k) for k in np.argsort(-np.abs(moves), kind="stable")[:MOST_NUMBERS] if moves[k]]
    for k in moved:
        yield f"number {k + 1}", clean[:, k]
        yield f"grid of number {k + 1}", _grid(clean[:, k])
    yield from _differences(clean, moves, moved)
    if outputs.shape[1] > pair.stride:
        again = (clean[:, pair.stride :] == clean[:, : -pair.stride]).astype(np.float64)
        yield "numbers that repeat", again.sum(axis=1)
        for k in range(min(MOST_NUMBERS, again.shape[1])):
            yield f"number {k + 1 + pair.stride} repeats", again[:, k]


def log_likelihood_ratio(outputs: Floats, pair: Pair) -> Floats:
    """ln p(y | second) − ln p(y | first) under the claimed noise: the best test there is, if the claim is true."""
    scales = np.where(pair.scales > 0, pair.scales, 1.0)
    a, b = (outputs - pair.first) / scales, (outputs - pair.second) / scales
    terms = (a * a - b * b) / 2 if pair.noise == "gaussian" else np.abs(a) - np.abs(b)
    total: Floats = terms.sum(axis=1)
    return np.round(total, 9)


def _differences(outputs: Floats, moves: Floats, moved: Sequence[int]) -> Iterator[tuple[str, Floats]]:
    """Differences of neighbouring numbers: noise that two of them share cancels."""
    last = outputs.shape[1] - 1
    for k in sorted({min(k, last - 1) for k in moved[:8]} if last else ()):
        difference = outputs[:, k + 1] - outputs[:, k]
        yield f"number {k + 2} − number {k + 1}", np.round(difference, 9)


def _grid(values: Floats) -> Floats:
    """The exponent of the last bit that is set: textbook floating-point noise lies on a grid that depends on the value."""
    mantissa, exponent = np.frexp(values)
    whole = (np.abs(mantissa) * 2.0**53).astype(np.int64)
    lowest = np.where(whole > 0, whole & -whole, 1)
    found: Floats = np.where(whole > 0, exponent - 53 + np.log2(lowest), math.inf)
    return np.where(np.isfinite(found), found, 0.0)
