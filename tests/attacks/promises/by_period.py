"""Almost-periodic policies: x = z + w for the readings, one person's z, or one period of their w, is another."""

from __future__ import annotations

import datetime
import math
import random
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np

import halflife as hl
from attacks.promises.accounts import discount
from attacks.promises.densities import shared_loss
from attacks.promises.neighbours import Town, largest_risk, worst_change
from attacks.promises.people import Bounds, Move, Reading, Totals, bounds_of, exact_totals, rows_of
from attacks.promises.publishing import Output
from attacks.promises.verdicts import Case
from halflife.policy import Channel

PATTERNS, VARIATIONS = 3, 3


class Worst(NamedTuple):
    """The largest loss of one noise, what shows it, and in which periods a habit counts for more or less than in others."""

    loss: float = 0.0
    shown: object = None
    uneven: frozenset[int] = frozenset()


def judge_periods(case: Case, rng: random.Random, town: Town, story: object) -> None:
    """What repeats, by noise; and in the strong notion any one period.

    Weak: readings are as the policy declares them. Strong: where a clip, a gap or rounding makes a habit count differently in
    some periods than in others, each of these may cost ε more, and no more.
    """
    notion = town.notion
    account = hl.Accountant.replay(notion, town.run.releases)
    groups: dict[str, list[Output]] = {}
    for o in town.run.outputs:
        groups.setdefault(f"{o.stream}: {o.name}", []).append(o)
    worst = _worst_patterns(rng, town, groups)
    last = max(o.at for o in town.run.outputs)
    counted = {name: _counts(notion, groups[name], last) for name in worst}
    total = math.fsum(counted[name] * w.loss for name, w in worst.items() if counted[name])
    uneven = len(frozenset().union(*(w.uneven for w in worst.values()))) if notion.strong else 0
    limit = notion.epsilon if notion.over is None else notion.over.epsilon
    details = ("what repeats", uneven, {n: w.shown for n, w in worst.items() if w.loss}, story)
    case.compare("promise", total, limit + uneven * notion.epsilon, details)
    if not uneven:
        case.compare("account", total / limit, account.used(), details)
    if notion.strong:
        judge_variations(case, town, groups, account, story)


def _counts(notion: Any, uses: Sequence[Output], now: int) -> float:
    """How much of a pattern counts: all while it is in use; then as the notion over it has it, from its last use."""
    last = max(o.at for o in uses)
    if notion.over is None or now - last <= notion.period:
        return 1.0
    if isinstance(notion.over, hl.WEvent):
        return float(last > now - notion.over.w)
    return discount(notion.over, now - last)


def _worst_patterns(rng: random.Random, town: Town, groups: Mapping[str, Sequence[Output]]) -> dict[str, Worst]:
    """The largest loss of each noise over pairs of patterns, with the variations that show them."""
    worst: dict[str, Worst] = dict.fromkeys(groups, Worst())
    for stream in {o.stream for o in town.run.outputs}:
        c = town.channel(stream)
        steps = max(o.step for o in town.run.outputs if o.stream == stream)
        mine = {name: uses for name, uses in groups.items() if uses[0].stream == stream}
        for _ in range(VARIATIONS):
            series = _repeating(rng, town.notion, c, steps)
            totals = [exact_totals(c, [*town.others[stream], *rows_of(c, town.person, s)], steps) for s in series]
            for (i, a), (j, b) in combinations(enumerate(totals), 2):
                for name, uses in mine.items():
                    found = _loss_of_uses(uses, a, b, town.notion.period)
                    if found.loss > worst[name].loss:
                        shown = [(series[i][o.step - 1], series[j][o.step - 1]) for o in uses]
                        worst[name] = found._replace(shown=shown)
    return worst


def _loss_of_uses(uses: Sequence[Output], a: Totals, b: Totals, period: int) -> Worst:
    """The loss of all numbers that have one noise: differences between them are told exactly, or under their fresh noise."""
    moved = np.array([b[o.step - 1] - a[o.step - 1] for o in uses], dtype=np.float64)
    fresh = [o.fresh for o in uses]
    loss = math.fsum(shared_loss(moved[:, cell].tolist(), fresh, uses[0].under) for cell in range(moved.shape[1]))
    usual = max(map(tuple, moved), key=lambda row: sum(tuple(other) == row for other in moved))
    return Worst(
        loss,
        None,
        frozenset((o.data_time - 1) // period for o, m in zip(uses, moved, strict=True) if tuple(m) != usual),
    )


def _repeating(rng: random.Random, notion: Any, c: Channel, steps: int) -> list[list[Move]]:
    """Series of one person that differ in what repeats, with the same variations, gaps, moments and groups."""
    b, period = bounds_of(c), notion.period
    parts = (0.5,) if notion.strong or _room(b, 2)[0] >= _room(b, 2)[1] else rng.choice([(0.5,), (0.2, 0.7)])
    room = _room(b, len(parts))
    fine = notion.strong and rng.random() < 0.5
    fixed = [rng.choice([*c.groups, None]) for _ in range(steps)] if c.groups else [None] * steps
    patterns = [[[_within(rng, room, b.unit, fine) for _ in parts] for _ in range(period)] for _ in range(PATTERNS)]
    loud = notion.strong and rng.random() < 0.7
    varied = [[_variation(rng, room, b.unit, fine, loud) for _ in parts] for _ in range(steps)]
    gone = [loud and rng.random() < 0.15 for _ in range(steps)]

    def series(z: Sequence[Sequence[float]]) -> list[Move]:
        moves: list[Move] = []
        for k in range(steps):
            values = z[_phase(c, k + 1) % period]
            readings = [Reading(p, values[i] + varied[k][i], fixed[k]) for i, p in enumerate(parts)]
            moves.append(() if gone[k] else tuple(readings))
        return moves

    return [series(z) for z in patterns]


def _phase(c: Channel, step: int) -> int:
    """Which part of a habit a step shows: people live by the clock on their wall."""
    if c.steps.days or c.steps.zone == "UTC":
        return c.account.step(c.steps.start(step))
    return datetime.datetime.fromtimestamp(c.steps.start(step) / 1e6, ZoneInfo(c.steps.zone)).hour


def _room(b: Bounds, readings: int) -> tuple[float, float]:
    """Within which every reading of a step lies, so that neither it nor the sum of so many is ever clipped."""
    return max(b.low, b.low / readings), min(b.high, b.high / readings)


def _within(rng: random.Random, room: tuple[float, float], unit: float, fine: bool) -> float:
    """A reading's repeating part, in the middle half of its room."""
    low, high = room
    x = (low + high) / 2 + rng.uniform(-0.25, 0.25) * (high - low)
    return x if fine else round(x / unit) * unit


def _variation(rng: random.Random, room: tuple[float, float], unit: float, fine: bool, loud: bool) -> float:
    """A variation that never brings a reading out of its room; a loud one may."""
    width = (room[1] - room[0]) / 2 * (3.0 if loud else 0.5)
    x = rng.choice([0.0, rng.uniform(-1, 1) * width, width])
    return x if fine else math.trunc(x / unit) * unit


def judge_variations(
    case: Case, town: Town, groups: Mapping[str, Sequence[Output]], account: hl.Accountant, story: object
) -> None:
    """One period of one person's readings is another: any T consecutive steps."""
    notion, most = town.notion, largest_risk(town)
    changes = {o: worst_change(town, o) for o in town.run.outputs}
    for start in {o.data_time for o in town.run.outputs}:
        window = range(start, start + notion.period)
        total = 0.0
        for uses in groups.values():
            moved = np.array([changes[o] * (o.data_time in window) for o in uses])
            fresh = [o.fresh for o in uses]
            total += math.fsum(
                shared_loss(moved[:, cell].tolist(), fresh, uses[0].under) for cell in range(moved.shape[1])
            )
        case.compare("promise", total, notion.epsilon, ("one period", window, story))
        case.compare("account", total, max(most, account.risk()), ("one period", window, story))
