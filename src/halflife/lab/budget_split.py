"""How to split a budget over two levels that are reconciled: a total and its parts, for a stated error of one of them.

The parts are groups of the same step, or steps of another width: half hours and their days. With a share a of the budget for the
total and b for its parts, whose noise falls as their shares grow, generalised least squares leaves
(`postprocessing/reconcile/least_squares.py`), in whole units and with n parts,

    Var T̂ = t² n s²/(t² + n s²),   Var x̂ = s² (1 − s²/(t² + n s²)),       t = t(a), s = s(b).

Where noise is inversely proportional to its share, 1/Var T̂ = a²/t(1)² + b²/(n s(1)²) is convex in a for a + b fixed: a total by
itself is best served by all of the budget or by none. What is asked is a bound on one level's error, and the least error of the
other within it. All of it follows from the policy: each split is planned as the promise plans it, on a grid of thousandths that
is refined where the best lies.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from halflife.errors import InvalidInput, unknown
from halflife.numerics.parameters import real
from halflife.policy import Channel, Policy, channels, rules
from halflife.postprocessing.reconcile import Rule, Sums, reconcile

STRIDES = (50, 5, 1)
"""Thousandths of the budget between two splits that are tried: all over, then about the best."""


class Level(NamedTuple):
    """A stream's share of the promise, and the standard deviation of its first step's noise: by itself, and reconciled."""

    stream: str
    share: float
    alone: float
    reconciled: float


class Split(NamedTuple):
    """The two levels, the total first."""

    total: Level
    parts: Level

    def of(self, stream: str) -> Level:
        """Return the level of a stream."""
        return self.total if stream == self.total.stream else self.parts


def split_budget(policy: Policy, stream: str, error: float) -> Split:
    """Return shares for a total and its parts such that the named one's error is at most this, and the other's is least.

    The error is the standard deviation of the noise left after reconciliation in one value, of the group that has most, before
    any other post-processing. The two share out what they have now; other streams keep theirs. Days and their half hours are
    reconciled in the revised series alone: live each has the error that it has alone. Where a stream stands in several rules the
    first of them is meant.
    """
    bound, known_rules = real("error", error, positive=True), rules(policy)
    if not known_rules:
        raise InvalidInput("no streams of this policy add up (`reconcile`): there are no levels to split a budget over")
    rule = next((rule for rule in known_rules if stream in (rule.total, rule.parts)), None)
    if rule is None:
        raise unknown("stream that is reconciled", stream, [name for r in known_rules for name in (r.total, r.parts)])
    other = rule.parts if stream == rule.total else rule.total
    known: dict[int, Split] = {}

    def rank(k: int) -> tuple[float, float]:
        """Splits that keep the bound first, by the other's error; else by how far the bound is passed."""
        if k not in known:
            known[k] = look_at_split(policy, rule.total, rule.parts, Fraction(k, 1000))
        passed = known[k].of(stream).reconciled - bound
        return max(0.0, passed), known[k].of(other).reconciled

    best = _search(rank)
    if rank(best)[0] > 0:
        least = known[best].of(stream).reconciled
        raise InvalidInput(
            f"no split of the budget gives {stream!r} an error of {bound:g}: the least is {least:.4g}, with a share of "
            f"{known[best].of(stream).share:g}. Ask for more than that, or promise less"
        )
    return known[best]


def _search(rank: Callable[[int], tuple[float, float]]) -> int:
    """Return the number of thousandths, 1 … 999, of the least rank, as far as a grid that is refined finds it."""
    low, high, best = 1, 999, 1
    for stride in STRIDES:
        best = min(range(low, high + 1, stride), key=rank)
        low, high = max(1, best - stride), min(999, best + stride)
    return best


def look_at_split(policy: Policy, total: str, parts: str, share: Fraction) -> Split:
    """Return the errors of a total that has this share of what the two have, and of its parts, which have the rest."""
    now = {c.name: c for c in channels(policy)}
    equal = all(s.share is None for s in policy.streams)
    both = Fraction(2, len(now)) if equal else sum(Fraction(str(now[name].share)) for name in (total, parts))
    given = {total: _decimal(both * share), parts: _decimal(both * (1 - share))}
    streams = [s.model_copy(update={"share": given.get(s.name, now[s.name].share)}) for s in policy.streams]
    planned = {c.name: c for c in channels(policy.model_copy(update={"streams": streams}))}
    t, s = (_std_of_unit(planned[name]) for name in (total, parts))
    rule = next(rule for rule in rules(policy) if (rule.total, rule.parts) == (total, parts))
    after = _reconcile_errors(t, s, _count_parts(rule, planned[total], planned[parts]), rule.is_mean)
    levels = [
        Level(name, given[name], x * float(max(now[name].factors)), y * float(max(now[name].factors)))
        for name, x, y in zip((total, parts), (t, s), after, strict=True)
    ]
    return Split(*levels)


def _count_parts(rule: Rule, total: Channel, parts: Channel) -> int:
    """How many parts a total has, at the most: groups, or steps of the parts in one of its first steps."""
    if not rule.over_time:
        return max(rule.members.count(k) for k in set(rule.members)) if rule.members else len(parts.groups)
    edges = total.steps.edges(1, 2).tolist()
    return max(parts.steps.step(b - 1) - parts.steps.step(a) + 1 for a, b in pairwise(edges))


def _reconcile_errors(total: float, part: float, count: int, is_mean: bool) -> tuple[float, float]:
    """The standard deviations that are left in a total and in each of its parts.

    >>> [round(x, 4) for x in _reconcile_errors(1.0, 1.0, 4, False)]              # √(4/5) of each
    [0.8944, 0.8944]
    """
    sums = Sums(np.zeros(1, np.int64), np.arange(1, count + 1)[None], np.ones(count, np.int64), count if is_mean else 1)
    found = reconcile(np.zeros(count + 1), np.array([total**2, *[part**2] * count]), [sums])
    return math.sqrt(found.variances[0]), math.sqrt(found.variances[1])


def _std_of_unit(c: Channel) -> float:
    """The standard deviation of the first step's noise, in whole units."""
    return c.plan.std(c.plan_steps(1, 1)[0])


def _decimal(share: Fraction) -> float:
    """A share of at most six decimals, rounded down, so that shares never add up to more than they did."""
    return math.floor(share * 10**6) / 10**6
