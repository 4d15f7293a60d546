"""One history under every notion: the largest risk that the same releases come to, whichever promise they were planned for.

Histories of fresh Laplace noise about the present step are read in arrays, all repetitions at once, where the notion is
classical, w-event or exponential with δ = 0; any other by the real account, release by release. Risks are rounded up. A risk is
infinite where a notion has no bound for a release, such as Gaussian noise under a pure promise, or reused noise outside
almost-periodic privacy.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from halflife.accountant import Accountant
from halflife.lab.views.text import describe_parameters
from halflife.mechanisms.schedule_draw import largest_window
from halflife.notions import Classical, ExponentialDiscount, Notion, WEvent
from halflife.numerics.arrays import Floats
from halflife.release import History, Release

BITS = 62
"""Sums are counted in units of 2⁻⁶² of the power of two above the largest sum: without error in 64 bits."""


def name_lens(notion: Notion) -> str:
    """Return a notion with its parameters but ε, which a lens does not need.

    >>> name_lens(WEvent(1.0, 20)), name_lens(Classical(1.0))
    ('w-event (w = 20)', 'classical')
    """
    if isinstance(notion, ExponentialDiscount):
        return f"{notion.name} (half-life = {notion.half_life:.6g})"
    items = [item for item in describe_parameters(notion).split(", ") if not item.startswith("ε =") and item != "δ = 0"]
    return f"{notion.name} ({', '.join(items)})" if items else notion.name


def reads_arrays(notion: Notion) -> bool:
    """Whether losses in an array are enough for a notion: those of fresh Laplace noise about the present step."""
    return isinstance(notion, Classical | WEvent | ExponentialDiscount) and not getattr(notion, "delta", 0.0)


def largest_risks(losses: Floats, notion: Notion) -> Floats:
    """Return the largest risk of each repetition, rounded up, from losses, steps × repetitions.

        classical  Σ_k ρ_k           w-event  max_t Σ_{t−w<k≤t} ρ_k           exponential  max_t Σ_{k≤t} α^{t−k} ρ_k

    >>> largest_risks(np.array([[0.5], [0.25], [0.5]]), WEvent(1.0, 2)).tolist()
    [0.75]
    """
    if isinstance(notion, ExponentialDiscount):
        return _largest_faded(losses, notion.alpha)
    total = float(losses.sum(axis=0).max(initial=0.0))
    if total == 0:
        return np.zeros(losses.shape[1])
    unit = math.ldexp(1.0, math.frexp(2 * total)[1] - BITS)
    sums = np.cumsum(np.ceil(losses / unit).astype(np.int64), axis=0)
    if isinstance(notion, WEvent) and notion.w < len(sums):
        windows = np.concatenate([sums[: notion.w], sums[notion.w :] - sums[: -notion.w]])
        units = windows.max(axis=0)
    else:
        units = sums[-1]
    found = units.astype(np.float64)
    found = np.where(found.astype(np.int64) < units, np.nextafter(found, np.inf), found)
    risks: Floats = found * unit
    return risks


def _largest_faded(losses: Floats, alpha: float) -> Floats:
    """The largest faded sum; each step rounds twice, by a part of 2⁻⁵³ at the most, and all of that is added."""
    risk = largest = np.zeros(losses.shape[1])
    for row in losses:
        risk = alpha * risk + row
        largest = np.maximum(largest, risk)
    rounded: Floats = largest * (1 + (2 * len(losses) + 2) * 2.0**-53)
    return np.where(largest > 0, np.nextafter(rounded, np.inf), 0.0)


def largest_risk(history: Iterable[Release], notion: Notion) -> float:
    """Return the largest risk of a history under a notion by the real account, infinite where it has no bound.

    >>> largest_risk([Release(1, 0.5), Release(2, 0.25), Release(3, 0.5)], WEvent(1.0, 2))
    0.75
    >>> largest_risk([Release(1, 0.5, noise="gaussian")], WEvent(1.0, 2))
    inf
    """
    if isinstance(notion, WEvent) and not notion.delta:
        kept = list(history)
        plain = all(r.noise == "laplace" and r.draw is None and r.atop is None and r.loss < math.inf for r in kept)
        return largest_window(kept, notion.w) if plain else math.inf
    account, largest = Accountant(notion), 0.0
    for step, releases in History(history).by_step():
        account.record(*releases)
        if account.why_unbounded is not None:
            return math.inf
        largest = max(largest, account.exposure(step).peak)
    return largest


def list_lenses(w: int, epsilon: float, notions: Sequence[Notion]) -> dict[str, Notion]:
    """Return what every history is read as, by name: classical, w-event, exponential of half-life w, and contestants' own.

    >>> list(list_lenses(20, 1.0, [WEvent(1.0, 48)]))
    ['classical', 'w-event (w = 20)', 'exponential (half-life = 20)', 'w-event (w = 48)']
    """
    known: list[Notion] = [Classical(epsilon), WEvent(epsilon, w), ExponentialDiscount(epsilon, half_life=w)]
    return {name_lens(notion): notion for notion in (*known, *notions)}
