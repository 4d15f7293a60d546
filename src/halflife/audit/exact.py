"""Exact audits: what releases really come to, worked out by other means than the account's.

Two questions. *Does a history keep its notion?* The worst loss over the neighbouring streams that the notion defines is computed
again from its definition, release by release, without any of the account's shortcuts. *What does one pair of streams lose?* With
additive noise that is |f − f′|/b for each Laplace release, and (f − f′)/σ for each Gaussian one.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from halflife.errors import InvalidInput, missing_extra
from halflife.notions.base import Notion
from halflife.notions.gaussian_dp import gaussian_epsilon
from halflife.release import Release

Derivation = Callable[[Any, Sequence[Release]], float]
DERIVATIONS: dict[str, Derivation] = {}
JUDGE_EXACT: set[str] = set()
"""Notions whose derivation says itself what an exact value costs; under all others it costs everything."""


def derives(*notions: str, exact: bool = False) -> Callable[[Derivation], Derivation]:
    """Make a second derivation known for these notions; `exact` if it says itself what an exact value costs."""

    def remember(function: Derivation) -> Derivation:
        for name in notions:
            DERIVATIONS[name] = function
        if exact:
            JUDGE_EXACT.update(notions)
        return function

    return remember


def worst_loss(notion: Notion[Any], releases: Sequence[Release]) -> float:
    """Return the worst loss of a history over the notion's neighbouring streams, in nats.

    >>> from halflife import WEvent, Release
    >>> worst_loss(WEvent(1.0, w=2), [Release(k, 0.5) for k in (1, 2, 4)])
    1.0
    """
    if notion.name not in DERIVATIONS:
        raise InvalidInput(
            f"no second derivation of {notion.name} is known: register one with @derives({notion.name!r})"
        )
    if notion.name not in JUDGE_EXACT and any(r.loss == math.inf for r in releases):
        return math.inf
    apart = releases if notion.shares_draws else _apart(notion, releases)
    if apart is None:
        return math.inf
    return DERIVATIONS[notion.name](notion, apart) if apart else 0.0


def _apart(notion: Notion[Any], releases: Sequence[Release]) -> list[Release] | None:
    """Releases of independent noise that tell the same: y − y₁ = f − f₁ + u for a value y atop the noise of y₁ = f₁ + v.

    None if there are none: noise that two values have alone, that was first under fresh noise, or that was published about
    another time where times count.
    """
    alone: dict[str, Release] = {}
    made: list[Release] = []
    for r in sorted(releases, key=lambda r: r.step):
        if r.draw is not None and (r.draw in alone or any(o.atop == r.draw for o in made)):
            return None
        if r.draw is not None:
            alone[r.draw] = r
        if r.atop not in alone:
            made.append(r)
            continue
        first = alone[r.atop]
        apart = notion.by_data_time and r.data_time != first.data_time
        if apart or not notion.bounds_differences or first.noise != r.noise or not r.loss or not r.sensitivity:
            return None
        both = r.loss * (r.sensitivity + first.sensitivity) / r.sensitivity
        made.append(Release(r.step, both, r.age, noise=r.noise))
    return made


@derives("classical")
def one_row_for_ever(notion: Any, releases: Sequence[Release]) -> float:
    """Classical: one person's whole series is another, so every release may move by its sensitivity."""
    return composed(releases, notion.delta)


@derives("w-event")
def one_window(notion: Any, releases: Sequence[Release]) -> float:
    """w-event: one person's data within w consecutive steps is another. Every window that begins with a release is tried.

    A release about several steps moves by min(j·Δ_step, Δf) if j of them lie in the window. Windows that begin with one of its
    last steps are tried, as many as it takes to move it by all of Δf: before these it moves no further.
    """
    ordered = sorted(releases, key=lambda r: r.data_time)
    times = np.array([r.data_time for r in ordered])
    widest = max(r.span for r in ordered)
    begins = sorted({r.data_time - i for r in ordered for i in range(min(r.span, math.ceil(1 / r.step_share)))})
    known: dict[tuple[tuple[str, float], ...], float] = {}
    for begin in begins:
        first, last = np.searchsorted(times, [begin, begin + notion.w + widest - 1]).tolist()
        held = [_moved(r, begin, begin + notion.w - 1) for r in ordered[first:last]]
        window = tuple(sorted((r.noise, r.loss) for r in held))
        if window not in known:
            known[window] = composed(held, notion.delta)
    return max(known.values())


def _moved(release: Release, begin: int, end: int) -> Release:
    """A release of what data of the steps begin … end can move this one by."""
    common = min(end, release.data_time) - max(begin, release.first_data_time) + 1
    part = min(1.0, max(0, common) * release.step_share)
    return release if part == 1 else Release(release.step, release.loss * part, noise=release.noise)


@derives("exponential", "hyperbolic")
def discounted_sum(notion: Any, releases: Sequence[Release]) -> float:
    """Discounted: the largest Σ_{S_k ≤ t} d(t − S_k) ρ_k. It can only be largest at a release, as d falls."""
    return _largest_faded(notion, releases, power=1)


@derives("gaussian-discount")
def discounted_squares(notion: Any, releases: Sequence[Release]) -> float:
    """Gaussian discounting: ε(δ) of μ² = Σ_{S_k ≤ t} (d(t − S_k) μ_k)², largest at a release."""
    return gaussian_epsilon(math.sqrt(_largest_faded(notion, releases, power=2)), notion.delta)


def _largest_faded(notion: Any, releases: Sequence[Release], power: int) -> float:
    """The largest of Σ (d(t − S_k) x_k)^power over t: every term of every sum, nothing carried over from step to step."""
    steps = np.array([r.step for r in releases], dtype=np.float64)
    losses = np.array([r.loss for r in releases])
    alpha = getattr(notion, "alpha", None)
    worst = 0.0
    for t in np.unique(steps):
        gaps = t - steps[steps <= t]
        fading = alpha**gaps if alpha is not None else 1 / (1 + notion.beta * gaps)
        worst = max(worst, float(((fading * losses[steps <= t]) ** power).sum()))
    return worst


def composed(releases: Sequence[Release], delta: float) -> float:
    """Return ε of these releases together at δ: their sum if δ = 0, else dp-accounting's own loss distribution.

    Gaussian releases are one of Σμ² (known: Dong, Roth and Su 2022), so that thousands of different ones take one composition.
    """
    if delta == 0:
        if any(r.noise == "gaussian" and r.loss > 0 for r in releases):
            return math.inf
        return math.fsum(r.loss for r in releases)
    try:
        import dp_accounting
        from dp_accounting.pld import PLDAccountant
    except ImportError:
        raise missing_extra("dp-accounting", "exact", "an exact audit with delta above 0") from None
    account = PLDAccountant(value_discretization_interval=1e-4)
    for loss, count in Counter(r.loss for r in releases if r.loss > 0 and r.noise == "laplace").items():
        account.compose(dp_accounting.LaplaceDpEvent(1 / loss), count)
    squares = math.fsum(r.loss**2 for r in releases if r.noise == "gaussian")
    if squares > 0:
        account.compose(dp_accounting.GaussianDpEvent(1 / math.sqrt(squares)))
    return float(account.get_epsilon(delta))


def pair_loss(releases: Sequence[Release], moves: Sequence[float], delta: float = 0.0) -> float:
    """Return what one pair of streams loses: `moves` says how far apart the exact values of each release are.

    A move of m costs m/Δf of the release's loss. Numbers of several dimensions: give the L1 (Laplace) or L2 distance.

    >>> from halflife import Release
    >>> pair_loss([Release(1, 0.5), Release(2, 0.5)], [1.0, -0.5])
    0.75
    """
    if len(moves) != len(releases):
        raise InvalidInput(f"{len(releases)} releases need as many moves, not {len(moves)}")
    scaled = [
        Release(r.step, r.loss * abs(float(m)) / r.sensitivity if m else 0.0, r.age, noise=r.noise)
        for r, m in zip(releases, np.asarray(moves, dtype=np.float64), strict=True)
    ]
    return composed(scaled, delta)
