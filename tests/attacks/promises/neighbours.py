"""A policy with readings, published by the real publisher; and neighbours who differ in one person's readings."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

import halflife as hl
from attacks.promises.accounts import discount
from attacks.promises.densities import epsilon_at
from attacks.promises.people import (
    Move,
    Row,
    Series,
    Totals,
    bounds_of,
    choose_person,
    exact_totals,
    extreme_moves,
    frame_of,
    other_people,
    random_move,
    rows_of,
)
from attacks.promises.publishing import Output, Run, run_publisher, see_noise
from attacks.promises.verdicts import Case
from halflife.policy import Channel, channels

Floats = NDArray[np.float64]
Weight = Callable[[Output], float]


@dataclass(frozen=True, eq=False)
class Variant:
    """All that the attacked person may have had, in one stream: a series, and the exact totals with it."""

    series: Series
    totals: Totals


@dataclass(frozen=True, eq=False)
class Town:
    """A policy with readings: what it published, and the variants of one person by stream, of which the first has nothing."""

    policy: hl.Policy
    notion: Any
    run: Run
    person: str
    others: Mapping[str, Sequence[Row]]
    variants: Mapping[str, Sequence[Variant]]

    def channel(self, name: str) -> Channel:
        return next(c for c in channels(self.policy) if c.name == name)


def publish_town(case: Case, rng: random.Random, policy: hl.Policy, clock_steps: int) -> Town | None:
    """Publish a few steps of a random town by the real publisher; None if nothing came out."""
    made = channels(policy)
    notion: Any = policy.notion
    moments = _moments(rng, notion, policy, clock_steps)
    steps = {c.name: c.newest(int(moments[-1] * 1e6)) for c in made}
    if not all(steps.values()):
        return None
    person = choose_person(rng)
    others = {c.name: other_people(rng, c, steps[c.name], person) for c in made}
    variants = {c.name: [_variant(rng, c, person, others[c.name], steps[c.name], i) for i in range(7)] for c in made}
    first = {c.name: variants[c.name][rng.randrange(7)] for c in made}
    frames = {c.name: frame_of(c, [*others[c.name], *rows_of(c, person, first[c.name].series)]) for c in made}
    try:
        run, drawn = run_publisher(policy, frames, moments, case.seed)
    except hl.HalflifeError:
        return None  # a promise without room: nothing comes out, which is safe
    run, wrong = see_noise(run, {name: v.totals for name, v in first.items()}, drawn)
    case.expect("numbers have the noise that their releases state", not wrong, (wrong[:2], policy.model_dump()))
    return Town(policy, notion, run, person, others, variants) if run.outputs else None


def _moments(rng: random.Random, notion: Any, policy: hl.Policy, clock_steps: int) -> list[float]:
    """When the publisher is run, in seconds: at once, in two goes, step by step, or late; ever later."""
    account = channels(policy)[0].account
    if policy.clock.late == "as-planned" or not notion.forgets:
        steps = [clock_steps] if rng.random() < 0.7 else [clock_steps // 2, clock_steps]
    elif rng.random() < 0.5 and clock_steps < 20:
        steps = list(range(1, clock_steps + 1))
    else:
        steps = sorted(rng.sample(range(1, clock_steps + 1), 3))
    return [account.end(k) / 1e6 + rng.choice([0, 1, 1800]) for k in steps]


def _variant(rng: random.Random, c: Channel, person: str, others: Sequence[Row], steps: int, i: int) -> Variant:
    b = bounds_of(c)
    most = c.most_groups
    extremes = extreme_moves(b, c.groups, most)
    series: list[Move] = (
        [extremes[i]] * steps if i < len(extremes) else [random_move(rng, b, c.groups) for _ in range(steps)]
    )
    return Variant(series, exact_totals(c, [*others, *rows_of(c, person, series)], steps))


# Neighbours that differ in a person's readings ------------------------------------------------------------------------


def worst_change(town: Town, o: Output) -> Floats:
    """How far one person moves the numbers of an output at most."""
    variants = [v.totals[o.step - 1] for v in town.variants[o.stream]]
    add_remove = town.policy.population.neighbours == "add-remove"
    pairs = [(variants[0], v) for v in variants[1:]] if add_remove else combinations(variants, 2)
    changes = [(b - a).astype(np.float64) for a, b in pairs]
    return max(changes, key=lambda c: float((c * c).sum() if o.noise == "gaussian" else np.abs(c).sum()))


def attained(town: Town, outputs: Sequence[Output], weight: Weight, delta: float) -> float:
    """The ε at δ of the worst neighbours whose changes count by this weight, where noise is independent."""
    losses: list[float] = []
    squares = 0.0
    for o in outputs:
        part = weight(o)
        moved = np.abs(worst_change(town, o)) * part
        if not moved.any():
            continue
        if o.fresh == 0:
            return math.inf
        if o.noise == "gaussian":
            squares += float((moved * moved).sum()) / o.fresh**2
        else:
            losses += (moved[moved > 0] / o.fresh).tolist()
    return epsilon_at(losses, delta, math.sqrt(squares))


def largest_risk(town: Town) -> float:
    """The largest risk that the account ever had."""
    account, most = hl.Accountant(town.notion), 0.0
    for release in town.run.releases:
        account.admit(release)
        most = max(most, account.risk())
    return most


def judge_neighbours(case: Case, town: Town, story: object) -> None:
    """Classical, w-event and discounted promises: one person's readings are others, all of them or within a window."""
    notion, outputs = town.notion, town.run.outputs
    delta = getattr(notion, "delta", 0.0)
    account = hl.Accountant.replay(notion, town.run.releases)
    limit = notion.epsilon
    if isinstance(notion, hl.Classical):
        found = attained(town, outputs, lambda o: 1.0, delta)
        case.compare("promise", found, limit, story)
        case.compare("account", found, min(account.risk(), town.run.risk), story)
    elif isinstance(notion, hl.WEvent):
        most = largest_risk(town)
        for start in {o.data_time for o in outputs}:
            window = range(start, start + notion.w)
            found = attained(town, outputs, lambda o, w=window: float(o.data_time in w), delta)
            case.compare("promise", found, limit, (window, story))
            case.compare("account", found, most, (window, story))
    else:
        late = town.policy.clock.late == "now"
        for o in outputs if late else ():
            seen = town.run.seen_at[o.stream, o.step]
            case.expect("a loss counts from when it was seen", o.at >= seen, (o, seen, story))
        last = max(o.at for o in outputs)
        for t in (last, last + 1, last + 9):
            found = attained(town, [o for o in outputs if o.at <= t], lambda o, t=t: discount(notion, t - o.at), delta)
            case.compare("promise", found, limit, (t, story))
            case.compare("account", found, account.risk(t), (t, story))
