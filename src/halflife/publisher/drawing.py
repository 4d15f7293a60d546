"""From exact totals to entries: each stream's mechanism, the session's draw, and what the ledger keeps of them.

Mechanisms that name their draws beforehand are charged for a whole batch before any reading is looked at, and drawn in one call
of the sampler. Any other runs step by step. The numbers of a step are one vector: where a public table fixes everybody's group a
person moves the numbers of that group alone (parallel composition), else as many as the policy declares; the L1 (or L2)
sensitivity is charged once.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import chain, islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from halflife.ledger import Entry
from halflife.local_time import local_days
from halflife.mechanisms import HeldOutput, Mechanism, ReleaseDraw, ScheduledMechanism, Turn
from halflife.noise import GridNoise
from halflife.numerics.arrays import Floats, Integers
from halflife.numerics.search import largest
from halflife.plans.base import STD_OF_UNIT_SCALE
from halflife.policy.worth import Worth
from halflife.postprocessing import Facts, Smoother
from halflife.postprocessing.chains import run_chain
from halflife.publisher.due import Due
from halflife.publisher.readable import in_output_units, noise_bounds, values_by_step
from halflife.release import Release

AHEAD = 1_000
"""For so many steps draws are worked out at a time."""

Totals = NDArray[np.int64]
"""Exact totals in whole units: steps × cells."""


class Drawn(NamedTuple):
    """Steps of one stream with their noise: noisy values, what they were recorded as, and the scales of all noise in each; none
    where an output is repeated."""

    noisy: Floats
    releases: Sequence[tuple[Release, ...]]
    scales: Sequence[tuple[float, ...]]


def find_turns(due: Due, mechanism: ScheduledMechanism) -> Iterator[Turn]:
    """Yield what each due step of a stream draws, at its step of the account; worked out some steps at a time."""
    return chain.from_iterable(_turns(due.part(low, low + AHEAD), mechanism) for low in range(0, len(due.steps), AHEAD))


def find_newest_turns(due: Due, mechanism: ScheduledMechanism) -> Iterator[Turn]:
    """Yield the same from the newest step to the oldest: of millions that are late, few are ever asked for."""
    highs = range(len(due.steps), 0, -AHEAD)
    return chain.from_iterable(_turns(due.part(max(0, high - AHEAD), high), mechanism)[::-1] for high in highs)


def _turns(due: Due, mechanism: ScheduledMechanism) -> list[Turn]:
    requests = due.channel.requests(mechanism, int(due.steps[0]), int(due.steps[-1]))
    return list(map(Turn, due.release_steps.tolist(), requests, due.late.tolist()))


class ChargedBatch:
    """Due steps that are charged before any value is known; their noise is drawn once, when it is first needed.

    draw  the session's draw after them
    """

    def __init__(self, dues: Sequence[Due], before: ReleaseDraw, mechanisms: Mapping[str, ScheduledMechanism]) -> None:
        turns = [find_turns(due, mechanisms[due.channel.name]) for due in dues]
        order = np.argsort(np.concatenate([due.release_steps for due in dues]), kind="stable")
        self._places, self._sizes = np.argsort(order).tolist(), [len(due.steps) for due in dues]
        self.draw = before.copy()
        self._batch = self.draw.batch(heapq.merge(*turns, key=lambda turn: turn.step) if len(turns) > 1 else turns[0])

    def draw_noise(self) -> None:
        """Draw the noise, if it was not drawn before."""
        self._batch.draw()

    def add_noise(self, totals: Sequence[Totals]) -> list[Drawn]:
        """Add the noise to the totals of each of the due streams."""
        noise, releases, scales = self._batch.noise(), self._batch.releases, self._batch.scales
        if len(self._sizes) > 1:  # from the order of the account's steps to that of the streams
            columns: tuple[list[Any], ...] = (list(noise), releases, scales)
            noise, releases, scales = ([column[i] for i in self._places] for column in columns)  # type: ignore[assignment]
        made, start, each = [], 0, iter(noise)
        for size, rows in zip(self._sizes, totals, strict=True):
            part = slice(start, start + size)
            made.append(Drawn(add_rows(rows, islice(each, size)), releases[part], scales[part]))
            start += size
        return made


def add_rows(totals: Totals, noise: Iterator[GridNoise]) -> Floats:
    """Return totals plus the noise of each row; one flat list, which spares the garbage collector many small ones."""
    flat, cells = totals.ravel().tolist(), totals.shape[1]
    sums: list[float] = []
    for k, one in enumerate(noise):
        sums += one.add(flat[k * cells : (k + 1) * cells])
    return np.array(sums).reshape(totals.shape)


def run_steps(
    parts: Sequence[tuple[Due, Totals]], draw: ReleaseDraw, mechanisms: Mapping[str, Mechanism]
) -> list[Drawn]:
    """Run mechanisms on the exact totals of their streams, in turn, by the account's steps; `draw` is charged as they draw."""
    made: list[tuple[list[Floats], list[tuple[Release, ...]], list[tuple[float, ...]]]] = [([], [], []) for _ in parts]
    turns = sorted((at, i, k) for i, (due, _) in enumerate(parts) for k, at in enumerate(due.release_steps.tolist()))
    for at, i, k in turns:
        due, totals = parts[i]
        c, truth = due.channel, totals[k]
        step = int(due.steps[k])
        (place,), (span,) = c.plan_steps(step, step), c.spans(step, step).tolist()
        mechanism, (noisy, releases, scales) = mechanisms[c.name], made[i]
        own = isinstance(mechanism, ScheduledMechanism) and mechanism.names_spans
        with draw.step(at, late=int(due.late[k]), span=None if own else span) as d:
            value = mechanism.step(place, truth if len(truth) > 1 else int(truth[0]), d)
        noisy.append(np.atleast_1d(value))
        releases.append(draw.releases)
        scales.append(mechanism.noise_in_output(draw.scales) if isinstance(mechanism, HeldOutput) else draw.scales)
    return [Drawn(np.array(values, dtype=np.float64), facts, sizes) for values, facts, sizes in made]


@lru_cache(maxsize=10_000)
def find_spread(scales: tuple[float, ...], noise: str) -> float:
    """Return the scale of one noise whose 95 % band equals that of the sum of noises of these scales.

    Gaussian: the root of the sum of squares. Laplace, two of them: P(|X + Y| > x) = (a² e^{−x/a} − b² e^{−x/b})/(a² − b²) for
    scales a > b. Of more than two all but the largest are taken as one of the same variance, which is approximate.

    Without any noise of its own, a value repeats an earlier one: how far it is from the truth is not known, and no band holds it.

    >>> find_spread((2.0,), "laplace"), find_spread((3.0, 4.0), "gaussian")
    (2.0, 5.0)
    >>> round(find_spread((1.0, 1.0), "laplace"), 2), round(find_spread((1.0, 1e-9), "laplace"), 6)
    (1.37, 1.0)
    """
    if len(scales) == 1:
        return scales[0]
    if not scales:
        return math.inf
    if noise == "gaussian":
        return math.hypot(*scales)
    a, *others = sorted(scales, reverse=True)
    b = math.hypot(*others) if len(others) > 1 else others[0]
    a, b = max(a, b), min(a, b) * (1 - 1e-6)

    def beyond(x: float) -> bool:
        return (a * a * math.exp(-x / a) - b * b * math.exp(-x / b)) / (a * a - b * b) > 0.05

    return largest(beyond, 0.0, 6 * (a + b), 1e-9) / math.log(20)


def post_facts(
    steps: Integers, starts: Sequence[int], zone: str, releases: Sequence[tuple[Release, ...]],
    scales: Sequence[tuple[float, ...]], noise: str, worth: Floats,
) -> Facts:  # fmt: skip
    """Return the public facts that post-processing may use: steps, local times, and which part of their noise is reused.

    scales  of all noise in each step, the fresh noise of its releases among it
    """
    fresh = [sum((r.scale or 0.0) ** 2 for r in found if r.draw is None) for found in releases]
    every = [sum(scale * scale for scale in found) for found in scales]
    reused, shared = None, None
    if any(r.draw or r.atop for found in releases for r in found):
        reused = np.sqrt(np.maximum(0.0, np.array(every) - np.array(fresh)))
        shared = [next((r.draw or r.atop or "" for r in found if r.draw or r.atop), "") for found in releases]
    return Facts(steps, worth, STD_OF_UNIT_SCALE[noise], local_days(starts, zone), np.sqrt(fresh), reused, shared)


def run_post(
    smoothers: Sequence[Smoother], noisy: Floats, spreads: Floats, known: Facts, steps: Sequence[int], worth: Worth
) -> tuple[Floats, Floats]:
    """Return what post-processing makes of noisy values, with bands behind them where it gives any; and the spread that is left.

    known  facts of the steps, in units of the first step of all

    Where a unit is worth more or less in some steps (a mean over other people), all goes in units of the first step of all, so
    that estimates follow the mean and not the total. Of cells that differ in that, no band comes out too narrow.
    """
    values = values_by_step(noisy, steps, worth)
    if len(worth.since) == 1:
        values, spreads, bands = run_chain(smoothers, values, spreads, known)
    else:
        first = worth.since[0][1]
        ratios = [[float(a / b) for a, b in zip(worth.at(k), first, strict=True)] for k in steps]
        most, least = (np.array([pick(row) for row in ratios]) for pick in (max, min))
        values, spreads, bands = run_chain(smoothers, values, spreads * most, replace(known, fresh=known.fresh * most))
        spreads = spreads / least
    return values if bands is None else np.concatenate([values, bands], axis=1), spreads


def make_entries(due: Due, drawn: Drawn, smoothers: Sequence[Smoother]) -> list[Entry]:
    """Return what the ledger keeps, with post-processed values if the policy has any post-processing, and with quantiles."""
    c, noisy, releases = due.channel, drawn.noisy, drawn.releases
    spreads = np.array([find_spread(scales, c.plan.noise) for scales in drawn.scales])
    edges = c.steps.edges(int(due.steps[0]), int(due.steps[-1])).tolist()
    values = None
    if smoothers:
        one = in_output_units(np.ones(c.cells), c.worth.since[0][1])
        known = post_facts(due.steps, edges[:-1], c.steps.zone, releases, drawn.scales, c.plan.noise, one)
        values, spreads = run_post(smoothers, noisy, spreads, known, due.steps.tolist(), c.worth)
    entries = [
        Entry(
            c.name,
            step,
            at,
            edges[k],
            edges[k + 1],
            releases[k],
            noisy[k],
            None if values is None else values[k],
            spread,
        )
        for k, (step, at, spread) in enumerate(
            zip(due.steps.tolist(), due.release_steps.tolist(), spreads.tolist(), strict=True)
        )
    ]
    if c.quantiles is None:
        return entries
    found = c.quantiles.of(noisy, noise_bounds(entries))
    return [replace(entry, value=value) for entry, value in zip(entries, found, strict=True)]
