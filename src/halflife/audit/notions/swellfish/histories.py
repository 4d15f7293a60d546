"""What each secret of a Swellfish promise loses by a history, worked out again from the definition of its neighbours."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from halflife.audit.exact import compose
from halflife.notions import Swellfish
from halflife.notions.gaussian_dp import gaussian_epsilon
from halflife.numerics.arrays import Floats, Integers
from halflife.release import Release
from halflife.specifications import Secret

MOST_SECRETS, MOST_COMPOSED = 5_000, 8


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


def worst_secret(notion: Swellfish, releases: Sequence[Release]) -> Lost:
    """Return the secret that loses the largest share of its ε: every placement of its event is tried, step by step (S1).

    Up to 5,000 secrets are tried: beyond that the half that the certificate holds worst, and others from everywhere. Exact for
    Laplace noise with δ = 0 and for Gaussian noise, but for all-events with a δ: then one placement of all events is tried, which
    is a loss that is attained. Laplace noise with a δ: the windows of largest Σ and Σ² alone are composed.

    >>> from halflife import Specification
    >>> s = Specification([Secret(3.0, 2, 1, 4, 1.0)], "Elm 7")
    >>> worst_secret(Swellfish(s), [Release(t, 0.5, sensitivity=3.0, scale=6.0) for t in (1, 2, 3)]).loss
    1.0
    """
    noisy = [r for r in releases if r.loss > 0]
    worst = Lost(0.0, float(notion.specifications.epsilon.min()), "", None)
    if not noisy:
        return worst
    published = _Published(noisy, notion.noise)
    s = notion.specifications
    rows = np.flatnonzero((s.end >= published.first) & (s.start < published.first + len(published.x)))
    if len(rows) > MOST_SECRETS:
        rows = _select(notion, published, rows)
    found = [_worst_change(notion, row, published) for row in rows.tolist()]
    if notion.by_threshold:
        found = _compose(notion, found, published)
    for loss, row, _ in found:
        if loss / s.epsilon[row] > worst.share:
            worst = Lost(float(loss), float(s.epsilon[row]), s.name_of(row), s.secret(row))
    return worst


Candidate = tuple[float, int, Floats]
"""A loss, the secret's row, and how far the worst change moves each step of its hiding interval."""


class _Published:
    """What was published, by data time: x_t = Σ 1/λ (Gaussian: Σ 1/σ²) of steps first, first + 1, …, ∞ for exact values.

    Noise of another family than the promise's counts as none: nothing bounds it.
    """

    def __init__(self, releases: Sequence[Release], noise: str) -> None:
        times = [r.data_time for r in releases]
        self.power, self.first = 1 if noise == "laplace" else 2, min(times)
        self.x = np.zeros(max(times) - self.first + 1)
        self.units: dict[int, list[float]] = {}
        for t, r in zip(times, releases, strict=True):
            unit = _unit(r) if r.noise == noise else math.inf
            self.x[t - self.first] += unit**self.power
            self.units.setdefault(t, []).append(unit)

    def over(self, first: int, last: int) -> Floats:
        """Return x at steps first … last, 0 where nothing was published."""
        result = np.zeros(last - first + 1)
        low, high = max(first, self.first), min(last + 1, self.first + len(self.x))
        result[low - first : max(low, high) - first] = self.x[low - self.first : max(low, high) - self.first]
        return result


def _unit(release: Release) -> float:
    """The loss if the exact value moves by 1."""
    if release.scale is not None:
        return math.inf if release.scale == 0 else 1 / release.scale
    return release.loss / release.sensitivity


def _select(notion: Swellfish, published: _Published, rows: Integers) -> Integers:
    """Half of them worst by the certificate, the others evenly spread."""
    with np.errstate(divide="ignore"):
        scales = published.x ** (-1 / published.power)
    shares = notion.losses_of_secrets(scales, published.first)[rows] / notion.specifications.epsilon[rows]
    half = MOST_SECRETS // 2
    return np.unique(np.concatenate([rows[np.argsort(-shares)[:half]], rows[:: -(-len(rows) // half)]]))


def _worst_change(notion: Swellfish, row: int, published: _Published) -> Candidate:
    """The worst change to one secret that the definition of neighbours allows, and its loss (pure for Laplace noise)."""
    s = notion.specifications
    first, last = int(s.start[row]), int(s.end[row])
    x = published.over(first, last)
    if np.isinf(x).any() or not x.any():
        return (math.inf if x.any() else 0.0), row, np.zeros(len(x))
    begin, stop = s.rows(int(s.household[row]))
    near = begin + np.flatnonzero((s.start[begin:stop] <= last) & (s.end[begin:stop] >= first))
    moved = np.zeros(len(x))
    if notion.neighbours == "all-events":
        for i in near.tolist():
            low, high, lasts = int(s.start[i]) - first, int(s.end[i]) - first, int(s.duration[i])
            moved += s.power[i] * _worst_placement(x, low, high, lasts)
    else:
        change = np.full(len(x), s.power[row])
        if notion.neighbours == "one-window":
            change = np.zeros(len(x))
            for i in near.tolist():
                change[max(0, int(s.start[i]) - first) : int(s.end[i]) - first + 1] += s.power[i]
        moved = change * _worst_placement(x * change**published.power, 0, len(x) - 1, int(s.duration[row]))
    cost = float((moved**published.power * x).sum())
    loss = cost if notion.noise == "laplace" else gaussian_epsilon(math.sqrt(cost), notion.delta)
    return loss, row, moved


def _worst_placement(x: Floats, start: int, end: int, lasts: int) -> Floats:
    """Where an event of so many steps within start … end costs most, as 0 and 1 at the steps of x; it may reach beyond them."""
    first, last = max(start, 1 - lasts), min(end - lasts + 1, len(x) - 1)  # of its first steps, those that touch x
    padded = np.concatenate([np.zeros(lasts), x, np.zeros(lasts)])
    sums = np.lib.stride_tricks.sliding_window_view(padded, lasts)[first + lasts : last + lasts + 1].sum(axis=1)
    at = first + int(np.argmax(sums))
    found = np.zeros(len(x))
    found[max(0, at) : at + lasts] = 1.0
    return found


def _compose(notion: Swellfish, found: list[Candidate], published: _Published) -> list[Candidate]:
    """Compose the windows of the secrets whose Σ or Σ² is largest for their ε, at δ."""
    s = notion.specifications
    parts = {row: _parts(int(s.start[row]), moved, published) for _, row, moved in found}
    by_sum = sorted(found, key=lambda c: -c[0] / s.epsilon[c[1]])[:MOST_COMPOSED]
    by_square = sorted(found, key=lambda c: -math.hypot(*parts[c[1]]) / s.epsilon[c[1]])[:MOST_COMPOSED]
    result = []
    for pure, row, moved in {c[1]: c for c in (*by_sum, *by_square)}.values():
        together = compose([Release(1, x) for x in parts[row]], notion.delta) if pure < math.inf else pure
        result.append((together, row, moved))
    return result


def _parts(start: int, moved: Floats, published: _Published) -> list[float]:
    """The losses of all releases that a change moves."""
    return [move * unit for t, move in enumerate(moved.tolist(), start) if move for unit in published.units.get(t, ())]
