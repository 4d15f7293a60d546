"""Age-dependent policies: one person is in one of two states now, and their readings are a function of their state."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

import halflife as hl
from attacks.promises.neighbours import Town
from attacks.promises.people import bounds_of, exact_totals, extreme_moves, random_move, rows_of
from attacks.promises.publishing import Output
from attacks.promises.truths import Floats, Number, Truth, Wander, told, told_on_lattice
from attacks.promises.verdicts import Case

MOST_NUMBERS = 6


def judge_ageing(case: Case, rng: random.Random, town: Town, kernel: Floats | None, story: object) -> None:
    """What the newest numbers tell about where the person is now."""
    if isinstance(town.notion.process, hl.AutoRegressive):
        judge_wander(case, rng, town, story)
        return
    truth = _truth(rng, town.notion.process, kernel)
    if truth is None:
        return
    last = max(o.at for o in town.run.outputs)
    account = hl.Accountant.replay(town.notion, town.run.releases)
    for _ in range(2):
        numbers, moves = _numbers(rng, town, truth.states)
        for now in (last, last + 1, last + 4):
            if town.notion.horizon is not None and now > town.notion.horizon:
                break
            found = told(truth, numbers, now, town.notion.delta)
            case.compare("promise", found, town.notion.epsilon, (now, moves, story))
            case.compare("account", found, account.risk(now), (now, moves, story))


def _truth(rng: random.Random, process: Any, kernel: Floats | None) -> Truth | None:
    """A person who moves as the process says."""
    if isinstance(process, hl.MarkovChain):
        return Truth([np.array(process.matrix)])
    if isinstance(process, hl.PeriodicMarkovChain):
        first = rng.randrange(len(process.kernels))
        kernels = [np.array(k) for k in process.kernels]
        return Truth(kernels[first:] + kernels[:first])
    if isinstance(process, hl.GeometricMixing):
        kept = process.rho
        return Truth([np.array([[1 + kept, 1 - kept], [1 - kept, 1 + kept]]) / 2])
    return Truth([kernel]) if isinstance(process, hl.EmpiricalProcess) and kernel is not None else None


def _numbers(rng: random.Random, town: Town, states: int) -> tuple[list[Number], object]:
    """The numbers of some outputs, each as a function of the state; to leave some out is to know less."""
    tables, moves = {}, {}
    for c in {o.stream: town.channel(o.stream) for o in town.run.outputs}.values():
        steps = max(o.step for o in town.run.outputs if o.stream == c.name)
        b, most = bounds_of(c), c.most_groups
        some = [*extreme_moves(b, c.groups, most), *(random_move(rng, b, c.groups) for _ in range(3))]
        chosen = moves[c.name] = [rng.choice(some) for _ in range(states)]
        tables[c.name] = np.array(
            [exact_totals(c, [*town.others[c.name], *rows_of(c, town.person, [m] * steps)], steps) for m in chosen]
        )
    numbers: list[Number] = []
    for o in sorted(town.run.outputs, key=lambda o: -o.data_time):
        values = tables[o.stream][:, o.step - 1].astype(np.float64)
        seen = [v for v in (values - values[0]).T if v.any()]
        if len(numbers) + len(seen) > MOST_NUMBERS or len({n.time for n in numbers} | {o.data_time}) > 5:
            break
        numbers += [Number(o.data_time, v, o.fresh, o.noise) for v in seen]
    return numbers, moves


def judge_wander(case: Case, rng: random.Random, town: Town, story: object) -> None:
    """One number of a person who wanders: their reading is where they are, in whole units, clipped."""
    process = town.notion.process
    wander = Wander(process.rho, process.sigma)
    account = hl.Accountant.replay(town.notion, town.run.releases)
    last = max(o.at for o in town.run.outputs)
    for o in _newest(town):
        c = town.channel(o.stream)
        if c.part.statistic.kind not in ("sum", "mean"):
            continue
        b = bounds_of(c)
        low, high = round(b.low / b.unit), round(b.high / b.unit)
        for now in (last, last + 2):
            gap = now - o.data_time
            if gap == 0 or (town.notion.horizon or now) < now:
                continue
            kept = wander.law(gap)[0]
            found = 0.0
            for place in (*np.linspace(b.low - b.unit, b.high + b.unit, 23), b.low + b.unit / 2, (b.low + b.high) / 2):
                x = place / kept if abs(kept) > 1e-3 else place
                found = max(
                    found,
                    told_on_lattice(
                        wander, gap, b.unit, low, high, o.fresh, x - process.span / 2, x + process.span / 2
                    ),
                )
            case.compare("promise", found, town.notion.epsilon, (now, gap, story))
            case.compare("account", found, account.risk(now), (now, gap, story))


def _newest(town: Town) -> list[Output]:
    return sorted(town.run.outputs, key=lambda o: -o.data_time)[:2]
