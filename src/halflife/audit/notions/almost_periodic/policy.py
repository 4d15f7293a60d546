"""The neighbours of an almost-periodic policy, through its own publisher: two habits, or two ways to spend one period.

    weak     one person's habit is another, and their variations are the same: none, or some from the second period on
    strong   one person's habit is another; or what they did within one period is, the first, when the reused noise is drawn

Some phases of a few periods are published. What is looked at is the first period and the change from each period to the next,
which nothing is lost by: reused noise cancels in it, so what is left may not differ (weak), or is under fresh noise (strong).
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from halflife.audit.attacks import averaging_success
from halflife.audit.black_box import Pair
from halflife.audit.policy.generic import common_findings, count_steps, totals_of_variants
from halflife.audit.policy.neighbours import people_of, reach_of_person, split_units
from halflife.audit.policy.path import (
    Row,
    Stretch,
    as_data,
    fast_folder,
    make_loud,
    promised_epsilon,
    quiet_policy,
    run_once,
    totals_of_stretches,
)
from halflife.audit.registry import Trial
from halflife.audit.verdict import Finding
from halflife.numerics.arrays import Floats
from halflife.numerics.forms import JsonObject
from halflife.plans.almost_periodic import PeriodicPlan
from halflife.policy import Channel, Policy, channels
from halflife.publisher.readable import in_output_units

PERIODS, MOST_STEPS, MOST_NUMBERS = 3, 48, 480
ROUNDING = 1e-9
"""How far, in scales of its noise, a difference of two published values may be from a whole number of units."""


class Neighbours(NamedTuple):
    """How much of their range a person uses, in halves, in each period: of one population, and of the other."""

    name: str
    first: tuple[int, ...]
    second: tuple[int, ...]
    habit: bool
    """Whether they differ in a habit, which reused noise hides, or in variations, which fresh noise hides."""


HABITS = Neighbours("two habits", (0, 0, 0), (2, 2, 2), habit=True)
VARIED = Neighbours("two habits under the same variations", (0, 1, 1), (1, 2, 2), habit=True)
VARIATIONS = Neighbours("two ways to spend a period", (0, 0, 0), (2, 0, 0), habit=False)


@dataclass(frozen=True, eq=False)
class HabitPath:
    """The real publisher on some phases of a few periods, with a new ledger for each run.

    shapes  how many periods, and how many numbers in each, by stream
    """

    policy: JsonObject
    folder: str
    stretches: tuple[Sequence[Stretch], Sequence[Stretch]]
    shapes: tuple[tuple[int, int], ...]

    def __call__(self, which: int, runs: int) -> Floats:
        """Return what so many runs publish: first periods, and changes from one period to the next."""
        with tempfile.TemporaryDirectory(prefix="halflife-audit-", dir=fast_folder()) as place:
            policy = quiet_policy(self.policy, self.folder, Path(place))
            values = [run_once(policy, self.stretches[which], Path(place)) for _ in range(runs)]
        return to_changes(np.array(values), self.shapes)


def to_changes(values: Floats, shapes: Sequence[tuple[int, int]]) -> Floats:
    """Turn the numbers of each stream, period by period, into those of its first period and the changes from each to the next.

    >>> to_changes(np.array([[1.0, 2.0, 4.0, 7.0]]), [(2, 2)]).tolist()
    [[1.0, 2.0, 3.0, 5.0]]
    """
    cuts = np.cumsum([periods * numbers for periods, numbers in shapes])[:-1]
    parts = []
    for part, (periods, numbers) in zip(np.split(values, cuts, axis=-1), shapes, strict=True):
        by_period = part.reshape(*part.shape[:-1], periods, numbers)
        changes = np.concatenate([by_period[..., :1, :], np.diff(by_period, axis=-2)], axis=-2)
        parts.append(changes.reshape(part.shape))
    result: Floats = np.concatenate(parts, axis=-1)
    return result


def try_policy(policy: Policy) -> Trial:
    """Return what is tried on an almost-periodic policy."""
    made = channels(policy)
    findings = common_findings(policy, totals_of_variants(policy, count_steps(policy)))
    strong = _plan(made[0]).strong
    reuse = [] if strong else [check_reuse(policy)]
    return Trial([*findings, *reuse], list(habit_cases(policy, strong)), list(_observers(made)))


def habit_cases(policy: Policy, strong: bool) -> Iterator[tuple[Pair, HabitPath]]:
    """Yield the worst neighbours of the weak or the strong notion, and the publisher on them; also one phase at a large ε."""
    for neighbours in (HABITS, VARIATIONS) if strong else (HABITS, VARIED):
        yield _case(policy, neighbours, _width(policy))
    loud = make_loud(policy)
    for neighbours in (HABITS, VARIATIONS) if strong else (HABITS,):
        yield _case(loud, neighbours, 1)


def _width(policy: Policy) -> int:
    """How many phases to run: not too many steps and numbers in all."""
    made = channels(policy)
    room = min(MOST_STEPS, MOST_NUMBERS // sum(c.cells for c in made)) // PERIODS
    return max(1, min(room, _plan(made[0]).period, *(c.last for c in made if c.last is not None), MOST_STEPS))


def _plan(channel: Channel) -> PeriodicPlan:
    assert isinstance(channel.plan, PeriodicPlan)
    return channel.plan


def _case(policy: Policy, neighbours: Neighbours, width: int) -> tuple[Pair, HabitPath]:
    """Two populations as the black box sees them, and the publisher on them."""
    made = channels(policy)
    firsts = list(_firsts(made, width))
    first, second = (
        [
            (begin, dict(zip(begin, totals, strict=True)))
            for begin, *totals in zip(
                firsts, *(_totals(c, [f[c.name] for f in firsts], width, levels, neighbours) for c in made), strict=True
            )
        ]
        for levels in (neighbours.first, neighbours.second)
    )
    shapes = tuple((len(firsts), width * c.cells) for c in made)
    scales, looked_at = (np.concatenate(x) for x in zip(*(_noise(c, firsts, width) for c in made), strict=True))
    claimed = math.fsum(_claimed_loss(c, firsts, width, (first, second), neighbours.habit) for c in made)
    loud = f", with epsilon {promised_epsilon(policy):.4g}" if width == 1 else ""
    pair = Pair(
        f"{neighbours.name}: {width} step{'s' if width > 1 else ''} of {len(firsts)} periods{loud}",
        _exact(made, first, shapes),
        _exact(made, second, shapes),
        scales,
        claimed,
        "laplace twice" if _plan(made[0]).strong else "laplace",
        sized=all(len(set(_plan(c).layers(1))) == 1 for c in made),
        looked_at=looked_at,
    )
    return pair, HabitPath(as_data(policy), str(policy.path(".")), (first, second), shapes)


def _exact(made: Sequence[Channel], stretches: Sequence[Stretch], shapes: Sequence[tuple[int, int]]) -> Floats:
    """What would be looked at without noise, in output units."""
    values = [
        in_output_units(totals[c.name].astype(np.float64), c.factor_of_cells).ravel()
        for c in made
        for _, totals in stretches
    ]
    return to_changes(np.concatenate(values), shapes)


def _firsts(made: Sequence[Channel], width: int) -> Iterator[dict[str, int]]:
    """The first step, by stream, of each period that is run: as many as there are before a stream ends."""
    for i in range(PERIODS):
        first = {c.name: 1 + i * _plan(c).period for c in made}
        if all(c.last is None or first[c.name] + width - 1 <= c.last for c in made):
            yield first


def _totals(
    c: Channel, firsts: Sequence[int], width: int, levels: Sequence[int], neighbours: Neighbours
) -> list[NDArray[np.int64]]:
    """Exact totals of stretches of a small population whose audited person uses so many halves of their range in each."""
    spans = [(first, first + width - 1) for first in firsts]
    if c.part.source is None:
        totals = np.zeros((len(spans), width, c.cells), dtype=np.int64)
        for one, halves in zip(totals, levels, strict=False):
            one[:, 0] = _count_units(int(c.sensitivity.l1), halves, neighbours)
        return list(totals)
    rows = [row for span, halves in zip(spans, levels, strict=False) for row in _rows(c, *span, halves, neighbours)]
    return totals_of_stretches(c, rows, spans)


def _rows(c: Channel, first: int, last: int, halves: int, neighbours: Neighbours) -> Iterator[Row]:
    """The readings of one stretch."""
    group, (low, high) = (c.groups or ("",))[0], reach_of_person(c)
    audited, *others = people_of(c)
    theirs, mine = split_units(c, (low + high) // 2), split_units(c, low + _count_units(high - low, halves, neighbours))
    for k in range(first, last + 1):
        middle = (c.steps.start(k) + c.steps.end(k)) // 2
        yield from ((p, middle + i, x, group) for p in others for i, x in enumerate(theirs))
        if halves or c.part.statistic.kind != "count":
            yield from ((audited, middle + i, x, group) for i, x in enumerate(mine))


def _count_units(span: int, halves: int, neighbours: Neighbours) -> int:
    """So many halves of a range in whole units: of an even one where a half is added to a half."""
    return halves * (span // 2) if 1 in (*neighbours.first, *neighbours.second) else halves * span // 2


def _names(c: Channel, firsts: Sequence[Mapping[str, int]], width: int) -> list[str]:
    """The name of the reused noise of each step that is run."""
    stretches = (c.plan_releases(first[c.name] + width - 1, first=first[c.name]) for first in firsts)
    strong = _plan(c).strong
    return [name for releases in stretches for r in releases if (name := r.atop if strong else r.draw)]


def _noise(c: Channel, firsts: Sequence[Mapping[str, int]], width: int) -> tuple[Floats, NDArray[np.bool_]]:
    """The scales of what is looked at, and of which numbers the noise's size is: those that have it for themselves.

    The first period carries reused noise, and fresh noise atop it in the strong notion. The change to the second shares
    noise with the first; that to the third carries the fresh noise of two steps. In the weak notion a change carries none,
    but for one to another phase (the clocks have changed) or to another renewal.
    """
    plan, names = _plan(c), _names(c, firsts, width)
    step = firsts[0][c.name]
    scale = plan.scale(step) if plan.strong else plan.pattern_scale(step)
    cancels = [k >= width and names[k] == names[k - width] for k in range(len(names))]
    alone = [
        names[k] not in names[:k] if k < width else plan.strong and k >= 2 * width and cancels[k]
        for k in range(len(names))
    ]
    scales = np.where(np.array(cancels) & (not plan.strong), 0.0, scale)
    by_cell = np.repeat(scales[:, None], c.cells, axis=1)
    return in_output_units(by_cell, c.factor_of_cells).ravel(), np.repeat(np.array(alone), c.cells)


def _claimed_loss(
    c: Channel,
    firsts: Sequence[Mapping[str, int]],
    width: int,
    both: tuple[Sequence[Stretch], Sequence[Stretch]],
    habit: bool,
) -> float:
    """What a stream is charged for the pair: each reused noise once, or the fresh noise of each step that differs."""
    plan = _plan(c)
    moves = [
        float(np.abs(a[c.name] - b[c.name])[j].sum())
        for (_, a), (_, b) in zip(*both, strict=True)
        for j in range(width)
    ]
    steps = [first[c.name] + j for first in firsts for j in range(width)]
    if not habit:
        return math.fsum(move / plan.scale(k) for move, k in zip(moves, steps, strict=True))
    once = dict(zip(_names(c, firsts, width), zip(moves, steps, strict=True), strict=True))
    return math.fsum(move / plan.pattern_scale(k) for move, k in once.values())


def check_reuse(policy: Policy) -> Finding:
    """Publish once, and look at the changes from one period to the next: noise in them is reused noise that was drawn again.

    It would tell a habit once more in every period. In the strong notion fresh noise lies over it, and nothing can be seen.
    """
    start = time.perf_counter()
    pair, path = _case(policy, VARIED, _width(policy))
    changes = pair.scales == 0
    off = np.abs(path(0, 1)[0] - pair.first)[changes] / pair.scales.max()
    found = float(off.max(initial=0.0))
    detail = "largest noise in a change from one period to the next, of its scale: reused noise cancels"
    spent = time.perf_counter() - start
    return Finding("reused noise", "exact", 0.0, found, found > ROUNDING, detail, spent)


def _observers(made: Sequence[Channel]) -> Iterator[Finding]:
    """What an observer can do that the promise does not forbid: add up all phases, for ever. Reused noise stays."""
    for c in made:
        plan = _plan(c)
        count = min(plan.period, c.last or plan.period)
        moves, scales = np.full(count, plan.pattern_sensitivity), np.full(count, plan.pattern_scale(1))
        found = averaging_success(moves, scales, "laplace")
        detail = "right guesses of who averages for ever and knows all but which of two habits a person has"
        yield Finding(f"{c.name}: averaging for ever", "observer", math.nan, found, False, detail, 0.0)
