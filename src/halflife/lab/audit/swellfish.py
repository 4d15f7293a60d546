"""Swellfish audited: what each secret loses, worked out again from its reading, and planted faults (Theorem 8 under all-events)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from halflife.lab.audit.black_box import Floats, Pair
from halflife.lab.audit.exact import composed, derives
from halflife.notions import Swellfish
from halflife.notions.gaussian_dp import gaussian_epsilon
from halflife.release import Release
from halflife.specifications import Secret, Specification, Specifications

MOST_SECRETS, MOST_COMPOSED = 5_000, 8
GRID = 2.0**-10


class Lost(NamedTuple):
    """What a secret loses at worst, what it may lose, and whose it is."""

    loss: float
    epsilon: float
    household: str
    secret: Secret | None

    @property
    def share(self) -> float:
        """The part of its ε that is lost."""
        return self.loss / self.epsilon


@derives("swellfish", exact=True)
def one_event_window_or_all(notion: Any, releases: Sequence[Release]) -> float:
    """The loss of the secret that loses the largest share of its ε: see `worst_secret`."""
    return worst_secret(notion, releases).loss


def worst_secret(notion: Swellfish, releases: Sequence[Release]) -> Lost:
    """Return the secret that loses the largest share of its ε: every placement of its event is tried, step by step (S1).

    Up to 5,000 secrets are tried: beyond that the half that the certificate holds worst, and others from everywhere. Exact for
    Laplace noise with δ = 0 and for Gaussian noise, but for all-events with a δ: then one placement of all events is tried, which
    is a loss that is attained. Laplace noise with a δ: the windows of largest Σ and Σ² alone are composed.

    >>> s = Specification([Secret(3.0, 2, 1, 4, 1.0)], "Elm 7")
    >>> worst_secret(Swellfish(s), [Release(t, 0.5, sensitivity=3.0, scale=6.0) for t in (1, 2, 3)]).loss
    1.0
    """
    told = _by_time(releases)
    worst = Lost(0.0, float(notion.specifications.epsilon.min()), "", None)
    if not told:
        return worst
    s = notion.specifications
    rows = np.flatnonzero((s.end >= min(told)) & (s.start <= max(told)))
    if len(rows) > MOST_SECRETS:
        rows = _some(notion, told, rows)
    candidates = [c for row in rows.tolist() for c in [_of_secret(notion, row, told)] if c[0] > 0]
    if notion.by_threshold:
        candidates = _compose(notion, candidates, told)
    for loss, row, _ in candidates:
        if loss / s.epsilon[row] > worst.share:
            worst = Lost(float(loss), float(s.epsilon[row]), s.name_of(row), s.secret(row))
    return worst


Candidate = tuple[float, int, Mapping[int, float]]
"""A loss, the secret's row, and how far the worst change moves each step."""


def _by_time(releases: Sequence[Release]) -> dict[int, list[Release]]:
    told: dict[int, list[Release]] = {}
    for r in releases:
        if r.loss > 0:
            told.setdefault(r.data_time, []).append(r)
    return told


def _unit(release: Release) -> float:
    """The loss if the exact value moves by 1."""
    if release.scale is not None:
        return math.inf if release.scale == 0 else 1 / release.scale
    return release.loss / release.sensitivity


def _some(notion: Swellfish, told: Mapping[int, Sequence[Release]], rows: Any) -> Any:
    """Half of them worst by the certificate, the others evenly spread."""
    first = min(told)
    unit = np.array([sum(map(_unit, told.get(t, ()))) for t in range(first, max(told) + 1)])
    with np.errstate(divide="ignore"):
        losses = notion.losses_of_secrets(1 / unit, first)[rows] / notion.specifications.epsilon[rows]
    half = MOST_SECRETS // 2
    return np.unique(np.concatenate([rows[np.argsort(-losses)[:half]], rows[:: max(1, len(rows) // half)]]))


def _of_secret(notion: Swellfish, row: int, told: Mapping[int, Sequence[Release]]) -> Candidate:
    """The worst change that the reading allows to one secret, and its loss (pure for Laplace noise)."""
    s = notion.specifications
    power = 1 if notion.noise == "laplace" else 2
    first, last = int(s.start[row]), int(s.end[row])
    times = range(first, last + 1)
    x = np.array([sum(_unit(r) ** power for r in told.get(t, ())) for t in times])
    if np.isinf(x).any():
        return math.inf, row, {}
    if not x.any():
        return 0.0, row, {}
    begin, stop = s.rows(int(s.household[row]))
    others = range(begin, stop) if notion.neighbours != "one-event" else ()
    near = [i for i in others if s.start[i] <= last and s.end[i] >= first]
    moved = np.zeros(len(x))
    if notion.neighbours == "all-events":
        for i in near:
            moved += s.power[i] * _worst_placement(x, int(s.start[i]) - first, int(s.end[i]) - first, int(s.duration[i]))
    else:
        if notion.neighbours == "one-event":
            change = np.full(len(x), s.power[row])
        else:
            change = np.array([sum(s.power[i] for i in near if s.start[i] <= t <= s.end[i]) for t in times])
        moved = change * _worst_placement(x * change**power, 0, len(x) - 1, int(s.duration[row]))
    cost = float((moved**power * x).sum())
    loss = cost if notion.noise == "laplace" else gaussian_epsilon(math.sqrt(cost), notion.delta)
    return loss, row, dict(zip(times, moved.tolist(), strict=True))


def _worst_placement(x: Floats, start: int, end: int, lasts: int) -> Floats:
    """Where an event of so many steps within start … end costs most, as 0 and 1 at the steps of x; it may reach beyond them."""
    best, found = -1.0, np.zeros(len(x))
    for at in range(max(start, 1 - lasts), min(end - lasts + 1, len(x) - 1) + 1):
        low, high = max(0, at), min(len(x), at + lasts)
        cost = float(x[low:high].sum())
        if cost > best:
            best, place = cost, (low, high)
    if best >= 0:
        found[place[0] : place[1]] = 1.0
    return found


def _compose(notion: Swellfish, found: list[Candidate], told: Mapping[int, Sequence[Release]]) -> list[Candidate]:
    """Compose the windows of the secrets whose Σ or Σ² is largest for their ε, at δ."""
    epsilon = notion.specifications.epsilon
    squares = [math.fsum((m * _unit(r)) ** 2 for t, m in c[2].items() for r in told.get(t, ())) for c in found]
    by_sum = sorted(range(len(found)), key=lambda i: -found[i][0] / epsilon[found[i][1]])
    by_square = sorted(range(len(found)), key=lambda i: -squares[i] / epsilon[found[i][1]] ** 2)
    result = []
    for i in dict.fromkeys((*by_sum[:MOST_COMPOSED], *by_square[:MOST_COMPOSED])):
        pure, row, moves = found[i]
        if pure < math.inf:
            parts = [Release(1, m * _unit(r)) for t, m in moves.items() for r in told.get(t, ()) if m]
            pure = composed(parts, notion.delta)
        result.append((pure, row, moves))
    return result


# Planted faults -----------------------------------------------------------------------------------------------------


def s1_witness() -> Specification:
    """Ten events that fill ten hiding intervals of ten steps, and one short one in all of them; in tenths of a kW, ε = 1 (S1)."""
    ten = [Secret(30.0, 10, 10 * k + 1, 10 * k + 10, 1.0) for k in range(10)]
    return Specification([Secret(1.0, 2, 1, 100, 1.0), *ten], "Elm 7")


def all_at_once(specification: Specification, steps: int) -> Floats:
    """How far a household's value moves at steps 1 … n if every secret's event happens once, as early as it may."""
    moves = np.zeros(steps)
    for s in specification.secrets:
        moves[s.start - 1 : s.start - 1 + s.duration] += s.power
    return moves


def witness_pair(method: str) -> Pair:
    """The witness with the scales of a method: every event happens once in one stream, none in the other; ε = 1 is claimed.

    >>> pair = witness_pair("paper")
    >>> round(float(np.sum((pair.second - pair.first) / pair.scales)), 2)      # the exact loss, by its likelihood ratio
    9.68
    """
    plan = Swellfish(Specifications([s1_witness()]), neighbours="all-events").plan(method=method)
    return Pair("", np.zeros(100), all_at_once(s1_witness(), 100), plan.scales(100), 1.0)


@dataclass(frozen=True, eq=False)
class SimulatedPath:
    """A pair's values plus Laplace noise of its scales, on a grid that they lie on, so that last bits tell nothing."""

    pair: Pair

    def __call__(self, which: int, runs: int) -> Floats:
        """Return outputs of so many runs."""
        exact = self.pair.second if which else self.pair.first
        noise = np.random.default_rng().laplace(0.0, self.pair.scales, (runs, len(exact)))
        made: Floats = exact + np.round(noise / GRID) * GRID
        return made


History = tuple[Any, list[Release], float]


def _history(promise: Swellfish, planned: Swellfish, method: str, steps: int) -> History:
    """What is published by the scales of one promise, and what is claimed of another: its smallest ε."""
    plan = planned.plan(method=method)
    releases = [r for k in range(1, steps + 1) for r in plan.releases_at(k)]
    return promise, releases, float(promise.specifications.epsilon.min())


def theorem_8_under_all_events() -> History:
    """Theorem 8's scales, claimed for one occurrence of every event: the witness of erratum S1 loses 9.68 for 1."""
    promise = Swellfish(Specifications([s1_witness()]), neighbours="all-events")
    return _history(promise, promise, "paper", 100)


def durations_a_step_short() -> History:
    """Noise for events of T − 1 steps, as if one that begins at step a and ends at b lasted b − a steps: 4/3 of what is claimed."""

    def evening(lasts: int) -> Swellfish:
        return Swellfish(Specifications([Specification([Secret(3.0, lasts, 1, 12, 1.0)], "Elm 7")]))

    return _history(evening(4), evening(3), "tight", 12)


def a_household_left_out() -> History:
    """Theorem 9's maximum without one household, of 3 for 2 steps beside 2 for 2 steps: it loses 1.5 for 1."""
    small = Specification([Secret(2.0, 2, 1, 8, 1.0)], "Elm 7")
    large = Specification([Secret(3.0, 2, 1, 8, 1.0)], "Oak 2")
    return _history(Swellfish(Specifications([small, large])), Swellfish(Specifications([small])), "paper", 8)


def swellfish_histories() -> dict[str, History]:
    """Every planted fault that shows in what was recorded: the promise, the releases, and what is claimed."""
    return {
        "Theorem 8 of Swellfish under all-events": theorem_8_under_all_events(),
        "Swellfish with durations a step short": durations_a_step_short(),
        "Theorem 9 of Swellfish without one household": a_household_left_out(),
    }


def swellfish_paths() -> dict[str, tuple[Pair, Callable[[int, int], Floats]]]:
    """The same where it shows in outputs."""
    pair = witness_pair("paper")
    return {"Theorem 8 of Swellfish under all-events, its outputs": (pair, SimulatedPath(pair))}


def honest_path() -> tuple[Pair, SimulatedPath]:
    """The control: the same two streams with the scales that all-events really needs."""
    pair = witness_pair("tight")
    return pair, SimulatedPath(pair)
