"""Readings of a household with and without events, and what the engine and the planned noise make of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from halflife.audit.exact import pair_loss
from halflife.audit.notions.swellfish.events import Placed, first_data_time, promise_of
from halflife.audit.policy.neighbours import distances
from halflife.audit.policy.path import Row, Totals, totals_of
from halflife.errors import InvalidInput
from halflife.notions import Swellfish
from halflife.parsing.quantities import parse_quantity
from halflife.policy import Channel, Policy, channels
from halflife.policy.promises.swellfish.secrets import Secrets
from halflife.release import Release

MOST_READINGS = 60
AVERAGING = ("sum", "mean")
"""Folds by which an event that covers a step in part counts in part."""
JUST = 0.002
"""By how much of a unit an event's reading lies above a whole number, so that rounding makes the most of it."""


class Tried(NamedTuple):
    """Placed events after the engine: exact totals without and with them from data time `first` on, and what they lose."""

    placed: Placed
    first: int
    totals: tuple[Totals, Totals]
    loss: float
    epsilon: float


def try_events(policy: Policy, placed: Placed, wanted: Secrets) -> Tried:
    """Return the totals that the engine of every stream has of the household without and with the events, and what they lose."""
    made = channels(policy)
    notion = policy.notion
    assert isinstance(notion, Swellfish)
    first, last = min(placed.mean), max(placed.mean)
    both: list[Totals] = [{}, {}]
    for c in made:
        ks = first - first_data_time(c) + 1, last - first_data_time(c) + 1
        for which in (0, 1):
            both[which][c.name] = (
                totals_of(c, _readings(c, placed, wanted, which, *ks), *ks)
                if c.part.source is not None
                else _pushed_totals(c, placed, which, *ks)
            )
    totals = (both[0], both[1])
    loss = loss_of_totals(made, totals, first, notion.delta)
    return Tried(placed, first, totals, loss, float(notion.specifications.epsilon[placed.row]))


def _pushed_totals(c: Channel, placed: Placed, which: int, first: int, last: int) -> NDArray[np.int64]:
    """A program pushes these: its first number moves by as much as the secrets allow, in part where an event shows in part."""
    totals = np.zeros((last - first + 1, c.cells), dtype=np.int64)
    in_part = c.part.statistic.fold in AVERAGING
    for k in range(first, last + 1) if which else ():
        t = k + first_data_time(c) - 1
        part = placed.mean[t] / placed.peak[t] if in_part and t in placed.peak else float(t in placed.peak)
        totals[k - first, 0] = math.floor(part * largest_move(c, placed, t))
    return totals


def _readings(c: Channel, placed: Placed, wanted: Secrets, which: int, first: int, last: int) -> list[Row]:
    """Readings of three ordinary homes and the audited one, with its events if `which` is 1."""
    names = promise_of(c).specifications
    household, group = names.name_of(placed.row), (c.groups or ("",))[0]
    fold = c.part.statistic.fold
    count = min(wanted.readings or 1, MOST_READINGS) if fold == "sum" else 1
    worth, least = float(c.measure.resolution), max(c.measure.low, (c.measure.readings or (c.measure.low,))[0])
    rows: list[Row] = []
    for k in range(first, last + 1):
        begin, end = c.steps.start(k), c.steps.end(k)
        t = k + first_data_time(c) - 1
        added = _added_units(c, placed.mean.get(t, 0.0), placed.peak.get(t, 0.0), (end - begin) / 3.6e9, wanted.unit)
        for i, part in enumerate(_split(added, count), start=1):
            at = begin + (end - begin) * i // (count + 1)
            rows.append((household, at, (least + 0.499 + (part if which else 0.0)) * worth, group))
        rows += [(f"other {i}", (begin + end) // 2, c.measure.high / 2 * worth, group) for i in range(3)]
    return rows


def _split(added: float, count: int) -> list[float]:
    """So many readings that add up to no more than this many units, each just above a whole number: rounding adds one to each."""
    small = [JUST if added >= JUST * i else 0.0 for i in range(2, count + 1)]
    rest = added - sum(small)
    return [*small, math.floor(rest - JUST) + JUST if rest >= JUST else max(0.0, rest)]


def _added_units(c: Channel, mean: float, peak: float, hours: float, unit: str) -> float:
    """How much an event adds to what one home reads in a step, in units: energy, mean power, or power at some moment."""
    statistic = c.part.statistic
    power = mean if statistic.fold in AVERAGING else peak
    try:
        value = power * float(parse_quantity(f"1 {unit}", statistic.unit or unit))
    except InvalidInput:
        value = power * hours * float(parse_quantity(f"1 {unit}h", statistic.unit))
    return value / float(c.measure.resolution)


def largest_move(c: Channel, placed: Placed, t: int) -> float:
    """Return how far the audited home can move a step as its secrets are charged: the event's power, or all that are relevant."""
    notion = promise_of(c)
    s = notion.specifications
    if notion.neighbours == "one-event":
        return float(s.power[placed.row])
    begin, stop = s.rows(int(s.household[placed.row]))
    relevant = (s.start[begin:stop] <= t) & (t <= s.end[begin:stop])
    return float(s.power[begin:stop][relevant].sum())


def loss_of_totals(made: Sequence[Channel], totals: tuple[Totals, Totals], first: int, delta: float) -> float:
    """Return what two sets of totals lose by the planned noise; infinite if they differ where exact values are published."""
    releases: list[Release] = []
    moves: list[float] = []
    for c in made:
        k, moved = first - first_data_time(c) + 1, distances(c, *totals)
        for release, move in zip(c.plan_releases(k + len(moved) - 1, first=k), moved.tolist(), strict=True):
            if move and release.loss == math.inf:
                return math.inf
            if move:
                releases.append(release)
                moves.append(move)
    return pair_loss(releases, moves, delta)
