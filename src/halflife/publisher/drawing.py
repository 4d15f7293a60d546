"""From exact totals to entries: which steps are due with which noise, and drawing it.

Planned noise is drawn for a whole batch in one call of the sampler. Any other mechanism runs step by step, with the noise it
keeps. The numbers of a step are one vector: where a public table fixes everybody's group a person moves the numbers of that
group alone (parallel composition), else as many as the policy declares; the L1 (or L2) sensitivity is charged once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halflife import noise as grade
from halflife import registry
from halflife.accountant import Accountant
from halflife.errors import unknown
from halflife.ledger import Entry
from halflife.mechanisms.draw import Mechanism, ReleaseDraw, check_adaptive
from halflife.numerics.arrays import Floats, Integers
from halflife.numerics.search import largest
from halflife.plans import Plan
from halflife.plans.almost_periodic import PeriodicPlan
from halflife.plans.base import STD_OF_UNIT_SCALE
from halflife.policy import Channel
from halflife.policy.promises.almost_periodic import phases
from halflife.postprocessing import Facts, Smoother
from halflife.publisher.readable import in_output_units
from halflife.release import Release

Totals = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Due:
    """Steps of one stream that are to be published: their place in the account, and their noise."""

    channel: Channel
    steps: Integers
    release_steps: Integers
    calibrations: tuple[grade.Calibration, ...]
    releases: tuple[Release, ...]

    def between(self, first: int, last: int) -> Due:
        """Return what is due at the account's steps first … last."""
        return self._part(*np.searchsorted(self.release_steps, [first, last + 1]).tolist())

    def last(self, count: int) -> Due:
        """Return the newest so many steps."""
        return self._part(len(self.steps) - count, len(self.steps))

    def _part(self, low: int, high: int) -> Due:
        return Due(
            self.channel, self.steps[low:high], self.release_steps[low:high], self.calibrations[low:high],
            self.releases[low:high],
        )  # fmt: skip


def due(channel: Channel, first: int, last: int, not_before: int) -> Due:
    """Work out the releases of steps first … last, at the account's step `not_before` at the earliest.

    A step wider than the clock's is charged as one of which each of the clock's steps can move all: so it is after a clip.

    A step that comes late is charged at the account's newest step, with an age that keeps the time its data is about.
    """
    steps = np.arange(first, last + 1, dtype=np.int64)
    planned = channel.release_steps(first, last) if len(steps) else steps
    release_steps = np.maximum(planned, not_before)
    ages = release_steps - planned + channel.age
    planned_noise = list(zip(*channel.losses_and_sensitivities(first, last), strict=True)) if len(steps) else []
    spans = channel.spans(first, last) if len(steps) else steps
    known: dict[tuple[float, float, int], tuple[grade.Calibration, Release]] = {}
    calibrations, releases = [], []
    facts = zip(planned_noise, spans.tolist(), release_steps.tolist(), ages.tolist(), strict=True)
    for (loss, sensitivity), span, at, age in facts:
        if (loss, sensitivity, span) not in known:
            c = _calibrate(channel, loss, sensitivity)
            noise = channel.plan.noise
            release = Release(at, c.loss, age, sensitivity=c.sensitivity, scale=c.scale, noise=noise, span=span)
            known[loss, sensitivity, span] = c, release
        c, release = known[loss, sensitivity, span]
        calibrations.append(c)
        releases.append(release.moved(at, age))
    return Due(channel, steps, release_steps, tuple(calibrations), tuple(releases))


def _calibrate(channel: Channel, loss: float, sensitivity: float) -> grade.Calibration:
    """The noise of this loss for all numbers of a step, of which one person changes a few; none where exact values are public."""
    noise = channel.plan.noise
    if loss == math.inf:
        return grade.exact(sensitivity, noise, channel.cells)
    return grade.by_loss(loss, sensitivity, noise, channel.cells, touched=channel.sensitivity.touched)


class Stepwise:
    """A mechanism other than planned noise, with the noise that it keeps: a secret."""

    def __init__(self, mechanism: Mechanism) -> None:
        self.mechanism = mechanism
        self.noise: dict[str, Any] = {}


def stepwise(channel: Channel) -> Stepwise | None:
    """Return the mechanism that the notion asks for; None for planned noise."""
    name = channel.plan.notion.mechanism
    if name == "planned":
        return None
    if name not in registry.MECHANISMS:
        raise unknown("mechanism", name, registry.MECHANISMS)
    make, plan = registry.MECHANISMS[name], channel.plan
    if isinstance(plan, PeriodicPlan):
        return Stepwise(make(plan, phases(channel.steps, plan), size=channel.cells, stream=channel.name))
    return Stepwise(make(plan))


def draw_planned(
    due: Due, totals: Totals, smoothers: Sequence[Smoother], ahead: Sequence[grade.GridNoise] | None = None
) -> list[Entry]:
    """Add planned noise to the exact totals (steps × cells, in units): noise that was drawn ahead, or drawn now."""
    drawn = grade.draw_many(due.calibrations) if ahead is None else ahead
    noisy = np.array([noise.add(row) for noise, row in zip(drawn, totals.tolist(), strict=True)])
    return _entries(due, noisy, [(r,) for r in due.releases], [c.scale for c in due.calibrations], smoothers)


def draw_stepwise(
    parts: Sequence[tuple[Due, Totals, Sequence[Smoother], Stepwise]], account: Accountant
) -> list[Entry]:
    """Run mechanisms on the exact totals of their streams, in turn, by the account's steps; `account` is charged as they draw."""
    runs = [_Steps(due, totals, maker, account) for due, totals, _, maker in parts]
    turns = sorted((at, i, k) for i, run in enumerate(runs) for k, at in enumerate(run.due.release_steps.tolist()))
    for _, i, k in turns:
        runs[i].draw(k)
    return [e for run, (*_, smoothers, _) in zip(runs, parts, strict=True) for e in run.entries(smoothers)]


class _Steps:
    """Steps of one stream on their way through its mechanism, with the noise that it keeps."""

    def __init__(self, due: Due, totals: Totals, maker: Stepwise, account: Accountant) -> None:
        check_adaptive(maker.mechanism, account)
        self.due, self._totals, self._maker = due, totals, maker
        self._draw = ReleaseDraw(account)
        self._draw.restore(maker.noise)
        self._noisy: list[Floats] = []
        self._facts: list[tuple[Release, ...]] = []

    def draw(self, k: int) -> None:
        """Run the mechanism on the k-th of the steps."""
        c, truth = self.due.channel, self._totals[k]
        late = self.due.releases[k].age - c.age
        with self._draw.step(int(self.due.release_steps[k]), late=late) as d:
            made = self._maker.mechanism.step(
                _place(c, int(self.due.steps[k])), truth if len(truth) > 1 else int(truth[0]), d
            )
        self._noisy.append(np.atleast_1d(made))
        self._facts.append(self._draw.releases)

    def entries(self, smoothers: Sequence[Smoother]) -> list[Entry]:
        """Return what the ledger keeps of all steps, once they are drawn; the mechanism goes on with this noise."""
        self._maker.noise = self._draw.state()
        c = self.due.channel
        scales = [_spread(c.plan, _place(c, step)) for step in self.due.steps.tolist()]
        return _entries(self.due, np.array(self._noisy, dtype=np.float64), self._facts, scales, smoothers)


def _place(channel: Channel, step: int) -> int:
    """The step of a plan at which a stream's step is published."""
    return 1 + (step - 1) * channel.plan.request.every


@lru_cache(maxsize=64)
def spread_of(layers: tuple[float, ...]) -> float:
    """Return the scale of one Laplace noise that strays as far as these together, in 19 cases of 20.

    P(|X + Y| > x) = (a² e^{−x/a} − b² e^{−x/b})/(a² − b²) for scales a > b.

    >>> spread_of((2.0,)), round(spread_of((1.0, 1.0)), 2), round(spread_of((1.0, 1e-9)), 6)
    (2.0, 1.37, 1.0)
    """
    if len(layers) == 1:
        return layers[0]
    a, b = max(layers), min(layers) * (1 - 1e-6)

    def beyond(x: float) -> bool:
        return (a * a * math.exp(-x / a) - b * b * math.exp(-x / b)) / (a * a - b * b) > 0.05

    return largest(beyond, 0.0, 6 * (a + b), 1e-9) / math.log(20)


def _spread(plan: Plan, step: int) -> float:
    """How far the noise of a step strays, as a scale."""
    return spread_of(plan.layers(step))


def _entries(
    due: Due,
    noisy: Floats,
    facts: Sequence[tuple[Release, ...]],
    scales: Sequence[float],
    smoothers: Sequence[Smoother],
) -> list[Entry]:
    """What the ledger keeps, with post-processed values if the policy has any post-processing."""
    c, spreads = due.channel, np.array(scales)
    values = None
    if smoothers:
        values, worth = (in_output_units(x, c.factor_of_cells) for x in (noisy, np.ones(c.cells)))
        known = Facts(due.steps, worth, STD_OF_UNIT_SCALE[c.plan.noise])
        for smoother in smoothers:
            values, spreads = smoother.smooth(values, spreads, known)
    edges = c.steps.edges(int(due.steps[0]), int(due.steps[-1])).tolist()
    return [
        Entry(
            c.name, int(step), int(at), edges[k], edges[k + 1], facts[k], noisy[k],
            None if values is None else values[k], float(spreads[k]),
        )
        for k, (step, at) in enumerate(zip(due.steps, due.release_steps, strict=True))
    ]  # fmt: skip
