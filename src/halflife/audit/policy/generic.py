"""What is tried on the policy of any notion: two populations in which one person has other readings, all the time or once.

sensitivity   how far the engine's exact totals of neighbours are apart, hostile readings included, against what is charged
exact         what the planned losses (and those of a ledger, if there is one) come to; where a mechanism decides what to spend,
              what it spent on values that jump
silence       everything but the values must be the same for both: steps, times, losses, logs
black box     the real path, run again and again on two neighbours: what do its outputs tell?
observer      what the promise allows: averaging, and filtering
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from halflife.audit.attacks import averaging_success, filtered_share
from halflife.audit.black_box import Pair
from halflife.audit.exact import audit_history, pair_loss
from halflife.audit.policy.neighbours import VARIANTS, distances, neighbour_totals
from halflife.audit.policy.path import (
    PublishingPath,
    Totals,
    as_data,
    compare_traces,
    make_loud,
    promised_epsilon,
    run_and_list,
)
from halflife.audit.registry import Trial
from halflife.audit.verdict import Finding
from halflife.ledger import ledger_exists, open_ledger
from halflife.numerics.arrays import Floats
from halflife.plans.base import STD_OF_UNIT_SCALE
from halflife.policy import Channel, Policy, channels
from halflife.publisher.nodes import add_up_nodes
from halflife.publisher.readable import in_output_units
from halflife.release import Release

MOST_STEPS, MOST_NUMBERS, PLANNED = 48, 480, 2_000
MOST_RUN = 300
"""So many steps are run to see what a mechanism spends that decides itself."""
A_FEW = 12
"""How many steps are run where the notion does not say."""


def try_policy(policy: Policy) -> Trial:
    """Return what is tried on the policy of any notion."""
    steps = count_steps(policy)
    totals = totals_of_variants(policy, steps)
    cases = list(black_box_cases(policy, totals, steps))
    return Trial(common_findings(policy, totals), cases, list(_observers(channels(policy))))


def totals_of_variants(policy: Policy, steps: int) -> dict[str, Totals]:
    """Return the exact totals of the first steps of each small population that is made for the audit."""
    made = channels(policy)
    return {v: {c.name: neighbour_totals(c, v, steps) for c in made} for v in VARIANTS}


def common_findings(policy: Policy, totals: Mapping[str, Totals]) -> list[Finding]:
    """Return what is found without many runs: sensitivity, the losses of plan and ledger, and silence."""
    made = channels(policy)
    pairs = _pairs(policy)
    findings = [_sensitivity(c, a, b, totals) for c in made for a, b in pairs if c.part.source is not None]
    findings += [_node_sensitivity(c, a, b, totals) for c in made for a, b in pairs if c.tree is not None]
    return [*findings, *_histories(policy), compare_traces(policy, totals, {})]


def _pairs(policy: Policy) -> list[tuple[str, str]]:
    """Which populations are neighbours."""
    if policy.population.neighbours == "add-remove":
        return [("none", "most"), ("none", "least"), ("none", "hostile")]
    return [("least", "most"), ("none", "most"), ("hostile", "most"), ("hostile", "least")]


def black_box_cases(policy: Policy, totals: Mapping[str, Totals], steps: int) -> Iterator[tuple[Pair, PublishingPath]]:
    """Yield the worst neighbours, those that differ in one step alone, hostile readings, and one step at a large ε."""
    made, pairs, data, folder = channels(policy), _pairs(policy), as_data(policy), str(policy.path("."))
    worst = max(
        pairs, key=lambda p: sum(distances(c, totals[p[0]], totals[p[1]]).sum() / c.sensitivity.l1 for c in made)
    )
    once = {c.name: _change_first(totals[worst[0]][c.name], totals[worst[1]][c.name]) for c in made}
    known = {**totals, "once": once}
    apart = [(worst[0], "once")] if steps > 1 else []
    for a, b in dict.fromkeys((worst, *apart, pairs[-1])):
        yield _pair(policy, a, b, known, steps), PublishingPath(data, folder, (known[a], known[b]))
    loud = make_loud(policy)
    one = {v: {name: t[:1] for name, t in totals[v].items()} for v in worst}
    pair = replace(_pair(loud, *worst, one, 1), name=f"one step, with epsilon {promised_epsilon(loud):.4g}")
    yield pair, PublishingPath(as_data(loud), folder, (one[worst[0]], one[worst[1]]))


def _change_first(totals: NDArray[np.int64], other: NDArray[np.int64]) -> NDArray[np.int64]:
    """One population's totals, but for their first step, which is the other's: noise that steps share shows here."""
    once = totals.copy()
    once[0] = other[0]
    return once


def noise_scales(c: Channel, steps: int) -> Floats:
    """Return the noise scales of all numbers of the first steps, in output units; of totals, those of noise of their variance."""
    if (tree := c.tree) is not None:
        sizes = np.array([[tree.std(k) / STD_OF_UNIT_SCALE["laplace"]] for k in range(1, steps + 1)])
        return in_output_units(sizes, c.factor_of_cells)
    scales = np.repeat(c.plan.sensitivity / np.array(c.losses(1, steps))[:, None], c.cells, axis=1)
    return in_output_units(scales, c.factor_of_cells)


def _observers(made: Sequence[Channel]) -> Iterator[Finding]:
    """What an observer can do that the promise does not forbid: average for a long time, and filter, where noise is planned."""
    for c in made:
        if not c.as_planned:
            continue
        for what, seconds in (("a day", 86_400), ("a week", 604_800), ("a year", 31_536_000)):
            steps = max(1, round(seconds * 1e6 / c.steps.width))
            if c.steps.months and seconds * 1e6 < c.steps.width:
                continue
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


def count_steps(policy: Policy) -> int:
    """Return how many steps to run: a whole window where the promise is about one, and not too many numbers in all."""
    made = channels(policy)
    wanted = policy.notion.memory or A_FEW
    room = MOST_NUMBERS // sum(c.cells for c in made)
    return max(1, min(wanted, MOST_STEPS, room, *(c.last for c in made if c.last is not None), MOST_STEPS))


def _sensitivity(channel: Channel, a: str, b: str, totals: Mapping[str, Totals]) -> Finding:
    start = time.perf_counter()
    claimed = channel.sensitivity.of(channel.plan.noise)
    found = float(distances(channel, totals[a], totals[b]).max())
    detail = f"largest distance of the engine's exact totals, in units; the policy derives {claimed:g}"
    name = f"{channel.name}: {a} / {b} readings"
    return Finding(name, "sensitivity", claimed, found, found > claimed, detail, time.perf_counter() - start)


def _node_sensitivity(channel: Channel, a: str, b: str, totals: Mapping[str, Totals]) -> Finding:
    """How far the nodes of a running total are apart, for each of the steps that they cover."""
    start, claimed = time.perf_counter(), channel.sensitivity.of("laplace")
    moves, spans = _node_distances(channel, totals[a], totals[b])
    found = float((moves / spans).max())
    detail = f"largest distance of nodes for each of their steps, in units; the policy derives {claimed:g}"
    name = f"{channel.name}: nodes of {a} / {b} readings"
    return Finding(name, "sensitivity", claimed, found, found > claimed, detail, time.perf_counter() - start)


def _node_distances(c: Channel, a: Totals, b: Totals) -> tuple[Floats, Floats]:
    """How far the nodes of the first steps are apart, and how many steps each covers."""
    first, second = ({c.name: add_up_nodes(c, totals[c.name])} for totals in (a, b))
    spans = [float(r.span) for r in c.plan_releases(len(first[c.name]))]
    return distances(c, first, second), np.array(spans)


def planned_releases(made: Sequence[Channel], steps: int) -> list[Release]:
    """Return what the plans charge, in the order of the account's steps."""
    planned = (c for c in made if c.held is None)
    releases = [r for c in planned for r in c.plan_releases(steps if c.last is None else min(steps, c.last))]
    return sorted(releases, key=lambda r: r.step)


def _jump(c: Channel, steps: int) -> NDArray[np.int64]:
    """Totals that stay for a while and then jump by many people, so that a mechanism which looks at changes publishes."""
    place = np.arange(1, steps + 1)
    level = np.where(place % 7 < 3, 0, 10**6 * (place % 5)) * math.ceil(c.sensitivity.l1)
    return np.repeat(level[:, None], c.cells, axis=1)


def _histories(policy: Policy) -> Iterator[Finding]:
    """What the plans charge, and what the ledger recorded, against the promise."""
    made = channels(policy)
    notion, limit = policy.notion, promised_epsilon(policy)
    if planned := planned_releases(made, PLANNED):
        yield audit_history("the plan's first steps", notion, planned, limit)
    if any(c.held is not None for c in made):
        jumps = {c.name: _jump(c, MOST_RUN if c.last is None else min(MOST_RUN, c.last)) for c in made}
        yield audit_history("what was spent on values that jump", notion, run_and_list(policy, jumps), limit)
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
    decided, looked_at = 0.0, []
    for c in made:
        held, tree = c.held, c.tree
        apart = distances(c, totals[a], totals[b])
        looked_at.append(np.full(steps * c.cells, c.as_planned))
        if tree is not None:  # totals are sums of nodes, whose noise is their own
            releases += c.plan_releases(steps)
            moves += _node_distances(c, totals[a], totals[b])[0].tolist()
        elif held is None:
            releases += [
                Release(k, x, sensitivity=c.plan.sensitivity, noise=c.plan.noise)
                for k, x in enumerate(c.losses(1, steps), 1)
            ]
            moves += apart.tolist()
        else:  # whatever it comes to spend on a window, each part of it counts for how far the pair is apart
            spent = float(held.to_loss(np.asarray(held.budget * -(-steps // held.notion.w))))
            whole = Release(1, spent, sensitivity=held.sensitivity, noise=held.noise)
            decided += pair_loss([whole], [float(apart.max())], delta)
        exact = (totals[x][c.name].astype(np.float64) for x in (a, b))
        exact = exact if tree is None else (np.cumsum(x, axis=0) for x in exact)
        first, second = (in_output_units(x, c.factor_of_cells).ravel() for x in exact)
        values.append((first, second, noise_scales(c, steps).ravel()))
    first, second, sizes = (np.concatenate(x) for x in zip(*values, strict=True))
    name = f"the publisher on {a} / {b} readings, {steps} steps"
    claimed, own = (pair_loss(releases, moves, delta) if releases else 0.0) + decided, np.concatenate(looked_at)
    return Pair(
        name, first, second, sizes, claimed, made[0].plan.noise, delta, sized=bool(own.any()),
        looked_at=None if own.all() else own & (sizes > 0), stride=made[0].cells,
    )  # fmt: skip
