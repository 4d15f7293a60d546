"""Direct kernels, lag by lag: what the data itself says about x(t − lag) given x(t), without a Markov assumption."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from halflife.errors import InvalidInput, errors_about
from halflife.numerics.arrays import Floats
from halflife.numerics.forms import JsonObject
from halflife.numerics.parameters import real, whole
from halflife.processes.base import Direction, Process, frontier_at_zero, register_process
from halflife.processes.contraction import EVERYTHING, NOTHING, ROUND_UP, Frontier, hull, merge
from halflife.processes.fitting import read_fit
from halflife.processes.sequences import InvalidSequence, Quantised, pair_counts, quantise, read_sequences

A_WEEK = 336
"""The default largest lag: a week of half hours."""
LAGS_AT_ONCE = 16


class Variations(NamedTuple):
    """Point estimates of Δ at one lag: of the middle person, and of the worst."""

    median: float
    worst: float


@register_process
class EmpiricalProcess(Process):
    """Kernels counted directly, lag by lag, widened by what chance may hide (ours; the width: Weissman et al. 2003, known).

    For each person and lag the row R̂(x, ·) is how often x(t − lag) took each value when x(t) = x. With probability `confidence`,
    for all rows, people and lags at once, ‖R̂(x, ·) − R(x, ·)‖₁ ≤ w(x) = √(2 ln((2^S − 2)/α) / n(x)): n(x) is how often x was
    seen, S the number of states and α = (1 − confidence) / (number of rows over all people and lags). So for every set B at once
    R(x, B) ≤ R̂(x, B) + w(x)/2 and R(x′, B) ≥ R̂(x′, B) − w(x′)/2, and the frontier is that of these bounds, for the worst
    person.

    **The width is the best case**: it treats readings as independent draws, and readings that hang together tell less (see
    `assumption`). Δ may revive (a household does today what it did yesterday), so what is said of t is the worst over lags
    t, t + 1, …, `last_lag`. Beyond `last_lag`, and about the future, nothing is known and nothing is amplified. Nothing is known
    either of how lags hang together, so of several releases at most one is amplified. Only stationarity is assumed. A kernel
    counted on private data is itself a release of that data: fit it on a public design sample.

    bounds     per lag 1, 2, … the corners [q, d] of the widened frontier of the worst person;  estimates  the same, not widened
    medians    per lag the middle person's Δ, not widened;  fitted  facts of the fit

    >>> rng = np.random.default_rng(1)
    >>> process = EmpiricalProcess.fit(np.repeat(rng.integers(0, 2, 20_000), 2), None, lags=3)
    >>> round(process.estimate(1).variation, 1), process.total_variation(1) > 0.5, process.total_variation(4)
    (0.5, True, 1.0)
    """

    name: ClassVar[str] = "empirical"
    composes: ClassVar[Literal["markov", "autoregressive", "once"]] = "once"
    assumption: ClassVar[str] = (
        "the confidence treats readings as independent draws, which is the best case: readings that hang together tell less, "
        "so the true confidence is lower"
    )

    def __init__(
        self,
        bounds: object,
        estimates: object = None,
        medians: object = None,
        fitted: Mapping[str, object] | None = None,
    ) -> None:
        self._bounds = _read_frontiers("bounds", bounds)
        self._estimates = None if estimates is None else _read_frontiers("estimates", estimates)
        with errors_about("medians"):
            self._medians = None if medians is None else _read_medians(medians)
        for name, values in (("estimates", self._estimates), ("medians", self._medians)):
            if values is not None and len(values) != len(self._bounds):
                raise InvalidInput(
                    f"an empirical process has {len(self._bounds)} lags, but {len(values)} {name}", about=name
                )
        self.fitted = read_fit(fitted)
        self._envelope = _worst_from_here(self._bounds)

    @classmethod
    def fit(
        cls,
        sequences: object,
        states: int | Sequence[float] | Floats | None,
        lags: int | None = None,
        confidence: float = 0.99,
    ) -> EmpiricalProcess:
        """Count the kernels of each person's sequence, at lags 1 … `lags`.

        sequences  one list of readings per person, a step apart; missing ones are None or NaN
        states     as in `quantise`: how many quantile states each person gets, the edges between states, or None if the numbers
                   are states already
        lags       the largest lag; by default 336 (a week of half hours), or a quarter of the shortest sequence if that is less
        confidence that all bounds hold together
        """
        readings = read_sequences(sequences)
        shortest = min(range(len(readings)), key=lambda i: len(readings[i]))
        length = len(readings[shortest])
        last = whole("lags", max(1, min(A_WEEK, length // 4)) if lags is None else lags, least=1)
        if last >= length:
            raise InvalidSequence(shortest, f" has {length} readings, too few for a lag of {last}")
        sure = real("confidence", confidence, positive=True)
        if sure >= 1:
            raise InvalidInput(f"confidence must lie between 0 and 1, not {confidence!r}")
        people = [quantise_person(i, values, states) for i, values in enumerate(readings)]
        rows = last * sum(person.state_count for person in people)
        found = list(_count_lags(people, last, (1 - sure) / rows))
        facts = {
            "people": len(people),
            "states": max(person.state_count for person in people),
            "merged": sum(person.merged for person in people),
            "readings": int(sum(int((person.states >= 0).sum()) for person in people)),
            "confidence": sure,
            "widest": max(lag.widest for lag in found),
            "assumption": cls.assumption,
        }
        return cls([lag.bound for lag in found], [lag.estimate for lag in found], [lag.median for lag in found], facts)

    def __repr__(self) -> str:
        return f"EmpiricalProcess(<lags 1 to {self.last_lag}>)"

    @property
    def last_lag(self) -> int:
        """The largest lag that was counted."""
        return len(self._bounds)

    def frontier(self, t: int, direction: Direction = "back") -> Frontier:
        """The widened frontier of the worst person at the worst lag from t on; unknown beyond the last lag and ahead."""
        if direction == "ahead" or t > self.last_lag:
            return EVERYTHING
        return frontier_at_zero(t) or self._envelope[t - 1]

    def estimate(self, t: int) -> Frontier:
        """Return the frontier as counted at lag t alone, for the worst person: not widened, so for design only."""
        lag, estimates = self._lag(t), self._estimates
        if estimates is None:
            raise InvalidInput("this empirical process holds bounds and no estimates: fit it again to have them")
        return estimates[lag - 1]

    def direct_variations(self, t: int) -> Variations:
        """Return Δ as counted at lag t alone, of the middle and of the worst person: not widened, so for design."""
        if self._medians is None:
            raise InvalidInput("this empirical process holds bounds and no medians: fit it again to have them")
        return Variations(self._medians[self._lag(t) - 1], self.estimate(t).variation)

    def _lag(self, t: int) -> int:
        lag = whole("t", t, least=1)
        if lag > self.last_lag:
            raise InvalidInput(
                f"an age of {lag} steps lies beyond the data: kernels were counted up to lag {self.last_lag}: fit with lags={lag}"
            )
        return lag

    def to_facts(self) -> JsonObject:
        """Return the bounds: estimates and medians are for design alone."""
        return {"name": self.name, "bounds": self.parameters()["bounds"]}

    def parameters(self) -> JsonObject:
        """Frontiers lag by lag, and the facts of the fit."""
        result: JsonObject = {"bounds": [[f.q.tolist(), f.d.tolist()] for f in self._bounds]}
        if self._estimates is not None:
            result["estimates"] = [[f.q.tolist(), f.d.tolist()] for f in self._estimates]
        if self._medians is not None:
            result["medians"] = list(self._medians)
        return result if self.fitted is None else {**result, "fitted": dict(self.fitted)}


def weissman(seen: Floats, states: int, alpha: float) -> Floats:
    """Return w with P(‖p̂ − p‖₁ > w) ≤ α for p̂ from that many independent draws (Weissman et al. 2003; known), rounded up.

    w = √(2 ln((2^S − 2)/α) / n). Six states, a year of half hours, 40 homes, 99 % (A7):

    >>> weissman(np.array([17520 / 6]), 6, 0.01 / (40 * 6)).round(3).tolist()
    [0.099]
    """
    if states < 2:
        return np.zeros_like(seen)
    ways = states * math.log(2) + math.log1p(-(2.0 ** (1 - states)))
    result: Floats = np.minimum(2.0, np.sqrt(2 * (ways - math.log(alpha)) / seen) * ROUND_UP)
    return result


def quantise_person(i: int, values: Floats, states: Any) -> Quantised:
    """Turn one person's readings into states; errors name the sequence."""
    try:
        return quantise(values, states)
    except InvalidInput as error:
        raise InvalidSequence(i, f": {error}") from None


# Counting -----------------------------------------------------------------------------------------------------------


class _Lag(NamedTuple):
    bound: Frontier
    estimate: Frontier
    median: float
    widest: float


def _count_lags(people: list[Quantised], last: int, alpha: float) -> Iterator[_Lag]:
    """Yield the estimates of each lag; a few lags are counted at a time, so that memory stays small."""
    for first in range(1, last + 1, LAGS_AT_ONCE):
        lags = range(first, min(first + LAGS_AT_ONCE, last + 1))
        curves = [_person(i, person, lags, alpha) for i, person in enumerate(people)]
        for k in range(len(lags)):
            yield _Lag(
                _hull([c.bounds[k] for c in curves]),
                _hull([c.points[k] for c in curves]),
                float(np.median([c.variations[k] for c in curves])),
                float(max(c.widest for c in curves)),
            )


class _Curves(NamedTuple):
    """Of one person, by lag: points (q, p) of all pairs of rows as counted, and widened; Δ as counted; the largest width."""

    points: Floats
    bounds: Floats
    variations: Floats
    widest: float


def _person(i: int, person: Quantised, lags: range, alpha: float) -> _Curves:
    count = person.state_count
    counts = np.stack([pair_counts(person.states, count, lag).T for lag in lags])  # [lag, now, then]
    seen = counts.sum(axis=2).astype(np.float64)
    if not seen.all():
        lag, state = (int(k) for k in np.argwhere(seen == 0)[0])
        raise InvalidSequence(
            i,
            f" is never seen in state {state} with a reading {lags[lag]} steps before it (lag {lags[lag]}): give fewer states, "
            "fewer lags or more data",
        )
    if count == 1:
        nothing = np.zeros((len(lags), 1, 2))
        return _Curves(nothing, nothing, np.zeros(len(lags)), 0.0)
    kernels, widths = counts / seen[:, :, None], weissman(seen, count, alpha)
    upper, lower = np.nonzero(~np.eye(count, dtype=bool))
    q, p = _prefixes(kernels[:, lower], kernels[:, upper])
    bounds = _widen(q, p, widths[:, lower] / 2, widths[:, upper] / 2)
    return _Curves(_points(q, p), bounds, (p - q).max(axis=(1, 2)), float(widths.max()))


def _prefixes(lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
    """The points (R(x′, B), R(x, B)) of ∅ and of all prefixes B of the states sorted by R(x, z)/R(x′, z): the last axis."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(upper > 0, upper / lower, 0.0)
    order = np.argsort(-ratios, axis=-1, kind="stable")
    empty = np.zeros((*order.shape[:-1], 1))
    q, p = (np.cumsum(np.take_along_axis(row, order, axis=-1), axis=-1) for row in (lower, upper))
    return np.concatenate([empty, q], axis=-1), np.concatenate([empty, p], axis=-1)


def _widen(q: Floats, p: Floats, less: Floats, more: Floats) -> Floats:
    """All points that (q − less, p + more) can be, held to [0, 1]: the shifted corners, and where the curve is cut at 0.

    Sets that are no prefix lie below the line between prefixes, also where that line is cut, so the cut has to be a corner.
    """
    less, more = less[..., None], more[..., None]
    before = (q <= less).sum(axis=-1, keepdims=True) - 1
    after = np.minimum(before + 1, q.shape[-1] - 1)
    q0, q1, p0, p1 = (np.take_along_axis(v, k, axis=-1) for v in (q, p) for k in (before, after))
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(q1 > q0, (less - q0) / (q1 - q0), 0.0).clip(0.0, 1.0)
    cut = p0 + share * (p1 - p0) + more
    return _points(
        np.concatenate([np.zeros_like(cut), np.maximum(q - less, 0.0)], axis=-1),
        np.minimum(np.concatenate([cut, p + more], axis=-1) * ROUND_UP, 1.0),
    )


def _points(q: Floats, p: Floats) -> Floats:
    """Points by lag, with q rounded down and p up."""
    points = np.stack([q / ROUND_UP, np.minimum(p * ROUND_UP, 1.0)], axis=-1)
    return points.reshape(len(q), -1, 2)


def _hull(points: list[Floats]) -> Frontier:
    together = np.concatenate(points)
    return hull(together[:, 0], together[:, 1])


def _worst_from_here(frontiers: list[Frontier]) -> list[Frontier]:
    worst, result = NOTHING, []
    for frontier in reversed(frontiers):
        worst = merge([frontier, worst])
        result.append(worst)
    return result[::-1]


# Reading ------------------------------------------------------------------------------------------------------------


def _read_frontiers(name: str, frontiers: object) -> list[Frontier]:
    with errors_about(name):
        if not isinstance(frontiers, Sequence) or isinstance(frontiers, str) or not frontiers:
            raise InvalidInput(f"{name} of an empirical process must be a list of [q, d] per lag, not {frontiers!r}")
        return [_read_frontier(name, lag, corners) for lag, corners in enumerate(frontiers, start=1)]


def _read_frontier(name: str, lag: int, corners: Any) -> Frontier:
    sides = corners if isinstance(corners, Sequence) and len(corners) == 2 else ("", "")
    if any(isinstance(side, str) or not isinstance(side, Sequence | np.ndarray) for side in sides) or len(
        sides[0]
    ) != len(sides[1]):
        raise InvalidInput(f"{name} of lag {lag} must be two lists [q, d] of equal length, not {corners!r}")
    if not len(corners[0]):
        raise InvalidInput(f"{name} of lag {lag} hold no corner")
    q, d = (np.array([_share(name, lag, x) for x in side]) for side in corners)
    return Frontier(q, d)


def _read_medians(medians: object) -> list[float]:
    if not isinstance(medians, Sequence) or isinstance(medians, str):
        raise InvalidInput(f"medians of an empirical process must be a list of numbers, not {medians!r}")
    return [_share("medians", lag, m) for lag, m in enumerate(medians, start=1)]


def _share(name: str, lag: int, value: Any) -> float:
    number = real(f"{name} of lag {lag}", value)
    if not 0 <= number <= 1:
        raise InvalidInput(f"{name} of lag {lag} must lie between 0 and 1, not {number!r}")
    return number
