"""Exact audits: what releases really come to, worked out by other means than the account's.

Two questions. *Does a history keep its notion?* The worst loss over the neighbouring streams that the notion defines is computed
again from its definition, release by release, without any of the account's shortcuts. *What does one pair of streams lose?* With
additive noise that is |f − f′|/b for each Laplace release, and (f − f′)/σ for each Gaussian one.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby

import numpy as np

from halflife.audit.registry import find_audit
from halflife.audit.verdict import MARGIN, Finding
from halflife.errors import InvalidInput, UnboundedLoss, missing_extra
from halflife.notions.base import Notion
from halflife.numerics.rounding import TOLERANCE
from halflife.release import Release


def worst_loss(notion: Notion, releases: Sequence[Release]) -> float:
    """Return the worst loss of a history over the notion's neighbouring streams, in nats.

    >>> from halflife import WEvent, Release
    >>> worst_loss(WEvent(1.0, w=2), [Release(k, 0.5) for k in (1, 2, 4)])
    1.0
    """
    audit = find_audit(notion.name)
    if audit.worst_loss is None:
        raise InvalidInput(f"no second derivation of {notion.name} is known: register one in `audit/notions/`")
    if not audit.judges_exact and any(r.loss == math.inf for r in releases):
        return math.inf
    independent = releases if notion.shares_draws else _separate(notion, releases)
    if independent is None:
        return math.inf
    return audit.worst_loss(notion, independent) if independent else 0.0


def audit_history(name: str, notion: Notion, releases: Sequence[Release], promised: float) -> Finding:
    """Work out a history's worst loss again, and compare it with what is promised.

    Where nobody has derived the notion's loss a second time, the notion's own account is asked for its largest risk.
    """
    start = time.perf_counter()
    if find_audit(notion.name).worst_loss is None:
        how, found = "account", _largest_risk(notion, releases)
        detail = f"largest risk of {len(releases):,} releases by the account of {notion.name}, as there is no second derivation"
    else:
        how, found = "exact", worst_loss(notion, releases)
        detail = f"worst loss of {len(releases):,} releases over the neighbours of {notion.name}, from its definition"
    accused = not found <= promised * (1 + TOLERANCE + MARGIN)
    return Finding(name, how, promised, found, accused, detail, time.perf_counter() - start)


def _largest_risk(notion: Notion, releases: Sequence[Release]) -> float:
    """The largest risk from any step of a history on, by the notion's own state."""
    independent = releases if notion.shares_draws else _separate(notion, releases)
    if independent is None:
        return math.inf
    state, worst = notion.start(), 0.0
    for step, together in groupby(sorted(independent, key=lambda r: r.step), key=lambda r: r.step):
        try:
            state = notion.record(state, list(together))
        except UnboundedLoss:
            return math.inf
        worst = max(worst, notion.exposure(state, step).peak)
    return worst


def _separate(notion: Notion, releases: Sequence[Release]) -> list[Release] | None:
    """Releases of independent noise that are worth the same to an observer, where fresh noise u lies atop noise v used before.

    From y₁ = f₁ + v and y = f + v + u an observer has y₁ and y − y₁ = f − f₁ + u. None if there are no such releases: if noise
    is the only noise of two values, if it was first published under fresh noise, or if it was published about another time
    where times count.
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
        other_time = notion.by_data_time and r.data_time != first.data_time
        if other_time or not notion.bounds_differences or first.noise != r.noise or not r.loss or not r.sensitivity:
            return None
        both = r.loss * (r.sensitivity + first.sensitivity) / r.sensitivity
        made.append(Release(r.step, both, r.age, noise=r.noise))
    return made


def compose(releases: Sequence[Release], delta: float) -> float:
    """Return ε of these releases together at δ: their sum if δ = 0, else dp-accounting's own loss distribution.

    Gaussian releases are one of Σμ² (known: Dong, Roth and Su 2022), so that thousands of different ones take one composition.
    """
    if delta == 0:
        if any(r.noise == "gaussian" and r.loss > 0 for r in releases):
            return math.inf
        return math.fsum(r.loss for r in releases)
    laplace = Counter(r.loss for r in releases if r.loss > 0 and r.noise == "laplace")
    squares = math.fsum(r.loss**2 for r in releases if r.noise == "gaussian")
    return _compose(tuple(laplace.items()), squares, delta)


@lru_cache(maxsize=256)
def _compose(laplace: tuple[tuple[float, int], ...], squares: float, delta: float) -> float:
    """ε at δ of so many Laplace releases of each loss and a Gaussian one of Σμ²; neighbours of one policy ask for the same."""
    try:
        import dp_accounting
        from dp_accounting.pld import PLDAccountant
    except ImportError:
        raise missing_extra("dp-accounting", "exact", "an exact audit with delta above 0") from None
    account = PLDAccountant(value_discretization_interval=1e-4)
    for loss, count in laplace:
        account.compose(dp_accounting.LaplaceDpEvent(1 / loss), count)
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
    return compose(scaled, delta)
