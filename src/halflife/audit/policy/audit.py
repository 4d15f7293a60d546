"""The audit of a policy: its own publisher, ledger and all, run on neighbouring populations that are made for it.

    sensitivity   how far the engine's exact totals of neighbours are apart, hostile readings included, against what is charged
    exact         what the planned losses (and those of a ledger, if there is one) come to, from the notion's definition
    black box     the real path, run again and again on two neighbours: what do its outputs tell? Under an age-dependent promise
                  also on one person who is in one of two states now, with a past that is drawn from the reversed process
    silence       everything but the values must be the same for both: steps, times, losses, logs

No reading of the policy's own data is looked at. Promises about habits and about secrets have other neighbours:
`policy_audit_periodic` and `policy_audit_swellfish`.
"""

from __future__ import annotations

import math
import pathlib
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halflife.accountant import Accountant
from halflife.audit.attacks import averaging_success, filtered_share
from halflife.audit.black_box import Pair, Path
from halflife.audit.exact import pair_loss
from halflife.audit.notions.age_dependent.pair import DRAWN, parts, pasts, person_to_attack, worst_states
from halflife.audit.policy.almost_periodic import check_reuse, habit_cases, habit_observers
from halflife.audit.policy.neighbours import VARIANTS, neighbour_totals, value_at
from halflife.audit.policy.path import (
    PublishingPath,
    Totals,
    as_data,
    fast_folder,
    make_loud,
    promised_epsilon,
    quiet_policy,
    silence,
)
from halflife.audit.policy.swellfish import audit_secrets
from halflife.audit.verdict import Finding, Verdict, audit_history, audit_paths
from halflife.ledger import ledger_exists, open_ledger
from halflife.notions import AgeDependent, AlmostPeriodic, Swellfish
from halflife.numerics.arrays import Floats
from halflife.numerics.progress import Progress
from halflife.policy import Channel, Policy, channels
from halflife.policy.promises.table import SUMS
from halflife.processes import Process
from halflife.publisher.readable import in_output_units
from halflife.release import Release

MOST_STEPS, MOST_NUMBERS, PLANNED = 48, 480, 2_000


@dataclass(frozen=True, eq=False)
class AgedPath:
    """The real publisher on people of whom one is in one of two states now: a new past, and a new ledger, for each run.

    ends   exact totals with that person at the least and at the most that counts;  times  of the totals' rows, by stream
    """

    path: PublishingPath
    process: dict[str, Any]
    states: tuple[float, float]
    now: int
    times: dict[str, list[int]]
    bounds: dict[str, tuple[float, float]]
    adds_up: dict[str, bool]

    def __call__(self, which: int, runs: int) -> Floats:
        """Return the values that so many runs publish."""
        drawn = self.drawn(which, runs, np.random.default_rng())
        with tempfile.TemporaryDirectory(prefix="halflife-audit-", dir=fast_folder()) as place:
            policy = quiet_policy(self.path.policy, self.path.folder, pathlib.Path(place))
            return np.array([self.path.run(policy, totals, pathlib.Path(place)) for totals in drawn])

    def drawn(self, which: int, runs: int, rng: np.random.Generator) -> Iterator[Totals]:
        """Yield the exact totals of so many pasts."""
        process = Process.from_dict(self.process)
        first = min(min(t) for t in self.times.values())
        states = pasts(process, self.states[which], self.now, first, runs, rng)
        for past in states:
            yield {name: self._totals(process, name, past, first) for name in self.times}

    def _totals(self, process: Process, name: str, past: Floats, first: int) -> NDArray[np.int64]:
        part = parts(process, past[np.array(self.times[name]) - first], *self.bounds[name])
        part = part if self.adds_up[name] else np.round(part)
        least, most = (end[name] for end in self.path.totals)
        return least + np.round((most - least) * part[:, None]).astype(np.int64)


# The audit ----------------------------------------------------------------------------------------------------------


def audit_policy(
    policy: Policy,
    *,
    seconds: float = 60.0,
    runs: int = 20_000,
    processes: int = 1,
    progress: Progress = lambda what, done, total: None,
) -> Verdict:
    """Audit a policy with neighbours that are made for it; see the module's text for what is tried.

    seconds    a budget for all of it: what runs of the publisher may take is what the rest leaves
    runs       the most runs on each population of a pair
    processes  how many run at a time
    """
    end = time.monotonic() + seconds
    made = channels(policy)
    notion = policy.notion
    if isinstance(notion, Swellfish):
        return audit_secrets(policy, seconds=seconds, runs=runs, processes=processes, progress=progress)
    steps = _steps(policy, made)
    progress("neighbours", 0, 1)
    totals = {v: {c.name: neighbour_totals(c, v, steps) for c in made} for v in VARIANTS}
    pairs = [("least", "most"), ("none", "most"), ("hostile", "most"), ("hostile", "least")]
    if policy.population.neighbours == "add-remove":
        pairs = [("none", "most"), ("none", "least"), ("none", "hostile")]
    findings = [_sensitivity(c, a, b, totals) for c in made for a, b in pairs if c.part.source is not None]
    findings += list(_exact(policy, made))
    findings.append(silence(policy, totals, {}))
    cases: list[tuple[Pair, Path]]
    if isinstance(notion, AlmostPeriodic):
        findings += [] if notion.strong else [check_reuse(policy)]
        cases, observers = list(habit_cases(policy, notion.strong)), habit_observers(made)
    else:
        cases, observers = list(_cases(policy, pairs, totals, steps)), _observers(made)
    left = end - time.monotonic()
    findings += audit_paths(cases, seconds=left, runs=runs, chunk=1_000, processes=processes, progress=progress)
    return Verdict(policy.population.id, (*findings, *observers))


def _cases(
    policy: Policy, pairs: Sequence[tuple[str, str]], totals: dict[str, Totals], steps: int
) -> Iterator[tuple[Pair, PublishingPath | AgedPath]]:
    """The worst neighbours, those that differ in one step alone, hostile readings, and one step at a large ε."""
    made, data, folder = channels(policy), as_data(policy), str(policy.path("."))
    worst = max(
        pairs, key=lambda p: sum(_distance(c, totals[p[0]], totals[p[1]]).sum() / c.sensitivity.l1 for c in made)
    )
    totals["once"] = {c.name: _only_at_first(totals[worst[0]][c.name], totals[worst[1]][c.name]) for c in made}
    apart = [(worst[0], "once")] if steps > 1 else []
    for a, b in dict.fromkeys((worst, *apart, pairs[-1])):
        yield _pair(policy, a, b, totals, steps), PublishingPath(data, folder, (totals[a], totals[b]))
    loud = make_loud(policy)
    one = {v: {name: t[:1] for name, t in totals[v].items()} for v in worst}
    pair = replace(_pair(loud, *worst, one, 1), name=f"one step, with epsilon {promised_epsilon(loud):.4g}")
    yield pair, PublishingPath(as_data(loud), folder, (one[worst[0]], one[worst[1]]))
    yield from _aged_case(policy, totals, steps)


def _only_at_first(most: NDArray[np.int64], other: NDArray[np.int64]) -> NDArray[np.int64]:
    """The first population, but for its first step, which is the other's: noise that steps share shows here."""
    once = most.copy()
    once[0] = other[0]
    return once


def _aged_case(policy: Policy, totals: Mapping[str, Totals], steps: int) -> Iterator[tuple[Pair, AgedPath]]:
    """One person in one of two states now, the past drawn: what the account says they lose, and a path to attack."""
    made = channels(policy)
    notion = policy.notion
    if not isinstance(notion, AgeDependent):
        return
    at = {c.name: c.release_steps(1, steps) for c in made}
    times = {c.name: (at[c.name] - c.age).tolist() for c in made}
    now, newest = max(int(a[-1]) for a in at.values()), max(t[-1] for t in times.values())
    person = person_to_attack(notion.process, now - newest)
    if person is None:
        return
    ends = PublishingPath(as_data(policy), str(policy.path(".")), (totals["least"], totals["most"]))
    bounds = {c.name: (value_at(c, 0.0), value_at(c, 1.0)) for c in made}
    adds_up = {c.name: c.part.statistic.kind in SUMS for c in made}
    states = worst_states(person, now - newest, now)
    path = AgedPath(ends, person.to_dict(), states, now, times, bounds, adds_up)
    planned = [r for r in _planned(made, steps) if r.step <= now]
    claimed = Accountant.replay(notion, planned).risk(now)
    first, second = (_expected(policy, path, which) for which in (0, 1))
    scales = np.concatenate([_scales(c, steps).ravel() for c in made])
    name = f"a person who is in state {states[0]:g} or {states[1]:g} now, {steps} steps"
    yield Pair(name, first, second, scales, claimed, made[0].plan.noise, notion.delta, sized=False), path


def _expected(policy: Policy, path: AgedPath, which: int) -> Floats:
    """What the exact values are on average over pasts, in output units."""
    drawn = list(path.drawn(which, DRAWN, np.random.default_rng(which)))
    means = [
        in_output_units(np.mean([t[c.name] for t in drawn], axis=0), c.factor_of_cells).ravel()
        for c in channels(policy)
    ]
    return np.concatenate(means)


def _scales(c: Channel, steps: int) -> Floats:
    """The noise scales of all numbers of the first steps, in output units."""
    scales = np.repeat(c.plan.sensitivity / np.array(c.losses(1, steps))[:, None], c.cells, axis=1)
    return in_output_units(scales, c.factor_of_cells)


def _observers(made: Sequence[Channel]) -> Iterator[Finding]:
    """What an observer can do that the promise does not forbid: average for a long time, and filter."""
    for c in made:
        for what, seconds in (("a day", 86_400), ("a week", 604_800), ("a year", 31_536_000)):
            steps = max(1, round(seconds * 1e6 / c.steps.width))
            if (c.last is None or steps <= c.last) and steps <= 200_000:
                scales = c.plan.sensitivity / np.array(c.losses(1, steps))
                moves = np.full(steps, c.plan.sensitivity)
                found = averaging_success(moves, scales, c.plan.noise)
                detail = f"right guesses of who averages {what} of steps and knows all but whether a person is always at a bound"
                yield Finding(f"{c.name}: averaging {what}", "observer", math.nan, found, False, detail, 0.0)
        scales = c.plan.sensitivity / np.array(c.losses(1, min(500, c.last or 500)))
        left = filtered_share(scales, c.plan.noise, c.plan.sensitivity / 10)
        detail = "of the noise is left after a Kalman filter, if the total drifts by a tenth of one person a step"
        yield Finding(f"{c.name}: a Kalman filter", "observer", math.nan, left, False, detail, 0.0)


def _steps(policy: Policy, made: Sequence[Channel]) -> int:
    """How many steps to run: a whole window where the promise is about one, and not too many numbers in all."""
    wanted = policy.notion.memory or 12
    room = MOST_NUMBERS // sum(c.cells for c in made)
    return max(1, min(wanted, MOST_STEPS, room, *(c.last for c in made if c.last is not None), MOST_STEPS))


def _distance(channel: Channel, a: Totals, b: Totals) -> NDArray[np.float64]:
    """How far apart the totals of two populations are at each step, in the norm that the noise needs."""
    moved = (a[channel.name] - b[channel.name]).astype(np.float64)
    norm: NDArray[np.float64] = (
        np.abs(moved).sum(axis=1) if channel.plan.noise == "laplace" else np.sqrt((moved * moved).sum(axis=1))
    )
    return norm


def _sensitivity(channel: Channel, a: str, b: str, totals: Mapping[str, Totals]) -> Finding:
    start = time.perf_counter()
    claimed = channel.sensitivity.of(channel.plan.noise)
    found = float(_distance(channel, totals[a], totals[b]).max())
    detail = f"largest distance of the engine's exact totals, in units; the policy derives {claimed:g}"
    name = f"{channel.name}: {a} / {b} readings"
    return Finding(name, "sensitivity", claimed, found, found > claimed, detail, time.perf_counter() - start)


def _planned(made: Sequence[Channel], steps: int) -> list[Release]:
    """What the plans charge, in the order of the account's steps."""
    releases = [r for c in made for r in c.planned(steps if c.last is None else min(steps, c.last))]
    return sorted(releases, key=lambda r: r.step)


def _exact(policy: Policy, made: Sequence[Channel]) -> Iterator[Finding]:
    notion, limit = policy.notion, promised_epsilon(policy)
    yield audit_history("the plan's first steps", notion, _planned(made, PLANNED), limit)
    if ledger_exists(policy.ledger_url):
        with open_ledger(policy.ledger_url, read_only=True) as book:
            whole = {c.name: book.last_step(c.name) for c in made}
            # names of reused noise are charged where they are first used: only a history from its beginning tells
            first = {name: 1 if notion.shares_draws else max(1, last - PLANNED + 1) for name, last in whole.items()}
            parts = [book.entries(name, k, k + PLANNED - 1) for name, k in first.items()]
            history = [r for part in parts for e in part for r in e.releases]
        which = "first" if notion.shares_draws else "newest"
        some = f" in the {which} {PLANNED:,} steps" if max(whole.values()) > PLANNED else ""
        name = f"what the ledger recorded{some}"
        yield audit_history(name, notion, sorted(history, key=lambda r: r.step), limit)


def _pair(policy: Policy, a: str, b: str, totals: Mapping[str, Totals], steps: int) -> Pair:
    """Two populations as the black box sees them: all numbers of all streams, and what the account is charged for the pair."""
    made = channels(policy)
    notion = policy.notion
    delta = float(getattr(notion, "delta", 0.0))
    releases: list[Release] = []
    moves: list[float] = []
    values: list[tuple[Floats, Floats, Floats]] = []
    for c in made:
        losses = c.losses(1, steps)
        releases += [Release(k, x, sensitivity=c.plan.sensitivity, noise=c.plan.noise) for k, x in enumerate(losses, 1)]
        moves += _distance(c, totals[a], totals[b]).tolist()
        exact = (totals[x][c.name].astype(np.float64) for x in (a, b))
        first, second = (in_output_units(x, c.factor_of_cells).ravel() for x in exact)
        values.append((first, second, _scales(c, steps).ravel()))
    first, second, sizes = (np.concatenate(x) for x in zip(*values, strict=True))
    name = f"the publisher on {a} / {b} readings, {steps} steps"
    return Pair(name, first, second, sizes, pair_loss(releases, moves, delta), made[0].plan.noise, delta)
