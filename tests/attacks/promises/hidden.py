"""Swellfish accounts by hand: random secrets, random noise, and the worst placements of their events by brute force."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import halflife as hl
from attacks.promises.accounts import REFUSALS, judge_itself, scale_of
from attacks.promises.densities import epsilon_at
from attacks.promises.verdicts import Case

Changes = Mapping[int, float]
"""How far a household's value moves, by step."""


def placements(secret: hl.Secret) -> Iterator[range]:
    """The stretches of T steps within J."""
    for start in range(secret.start, secret.end - secret.duration + 2):
        yield range(start, start + secret.duration)


def neighbours(secrets: Sequence[hl.Secret], secret: hl.Secret, reading: str) -> Iterator[Changes]:
    """The largest changes that may tell of one secret of a household, outside its hiding interval left out."""
    if reading == "one-event":
        yield from (dict.fromkeys(place, secret.power) for place in placements(secret))
    elif reading == "one-window":
        whole = {t: sum(s.power for s in secrets if s.start <= t <= s.end) for t in range(secret.start, secret.end + 1)}
        yield from ({t: whole[t] for t in place} for place in placements(secret))
    else:
        yield from _all_at_once(secrets, secret)


def _all_at_once(secrets: Sequence[hl.Secret], secret: hl.Secret) -> Iterator[Changes]:
    choices = [list(placements(s)) for s in secrets]
    total = math.prod(len(c) for c in choices)
    rng = random.Random(total)
    for _ in range(min(total, 60)) if total > 60 else range(1):
        picks = [[rng.choice(c)] for c in choices] if total > 60 else choices
        for combination in _combinations(picks):
            changes: dict[int, float] = defaultdict(float)
            for s, place in zip(secrets, combination, strict=True):
                for t in place:
                    if secret.start <= t <= secret.end:
                        changes[t] += s.power
            yield changes


def _combinations(choices: Sequence[Sequence[range]]) -> Iterator[tuple[range, ...]]:
    if not choices:
        yield ()
        return
    for rest in _combinations(choices[1:]):
        yield from ((first, *rest) for first in choices[0])


def lost(changes: Changes, releases: Sequence[hl.Release], delta: float, within: hl.Secret) -> float:
    """What releases about a secret's hiding interval tell of these changes."""
    losses, squares = [], 0.0
    base = {r.draw: r.data_time for r in releases if r.draw}
    for r in releases:
        moved = changes.get(r.data_time, 0.0)
        if r.atop in base and within.start <= r.data_time <= within.end:
            same = base[r.atop] == r.data_time  # else the worst signs: more is used at one step, and less at the other
            moved = 0.0 if same else moved + changes.get(base[r.atop], 0.0)
        scale = scale_of(r)
        if moved and scale == 0:
            return math.inf
        if moved and r.noise == "gaussian":
            squares += (moved / scale) ** 2
        elif moved:
            losses.append(moved / scale)
    return epsilon_at(losses, delta, math.sqrt(squares))


def random_secrets(rng: random.Random, steps: int) -> list[hl.Secret]:
    made = []
    for _ in range(rng.randint(1, 3)):
        start = rng.randint(1, steps)
        end = rng.randint(start, steps + 2)
        made.append(
            hl.Secret(rng.choice([1.0, 3.0]), rng.randint(1, end - start + 1), start, end, rng.choice([0.5, 1.0, 2.0]))
        )
    return made


def attack_hidden(seed: int) -> tuple[Case, Any, bool]:
    """Random noise about random secrets, near what the account still allows."""
    rng = random.Random(seed)
    case, steps = Case("hidden", seed), 6
    homes = {f"home {i}": random_secrets(rng, steps) for i in range(rng.randint(1, 2))}
    delta = 1e-3 if rng.random() < 0.15 else 0.0
    reading = rng.choice(["one-event", "one-window", "all-events"])
    noise = rng.choice(["laplace", "gaussian"]) if delta else "laplace"
    try:
        specifications = hl.Specifications([hl.Specification(s, name) for name, s in homes.items()])
        notion = hl.Swellfish(specifications, delta, neighbours=reading, noise=noise)
    except REFUSALS:
        return case, None, False
    account, admitted = hl.Accountant(notion), []
    for step in range(1, steps + 3):
        for _ in range(rng.choice([1, 1, 1, 2])):
            age = rng.choice([0, 0, 1, 2])
            least = account.least_scale(step, 1.0, age)
            scale = rng.choice([least, least * 1.5, least * 0.99, rng.choice([2.0, 8.0]), least])
            if scale == math.inf:
                continue
            names: dict[str, Any] = {rng.choice(["draw", "atop"]): "a"} if rng.random() < 0.15 else {}
            loss = math.inf if scale == 0 else 1 / scale * (1 + 1e-12)
            try:
                release = hl.Release(step, loss, age, scale=scale, noise=noise, **names)
                account.admit(release)
                admitted.append(release)
            except REFUSALS:
                continue
    story = (reading, delta, homes, admitted)
    for secrets in homes.values():
        for secret in secrets:
            found = max(lost(c, admitted, delta, secret) for c in neighbours(secrets, secret, reading))
            case.compare("promise", found, secret.epsilon, (secret, story))
            if not delta:
                case.compare("account", found / secret.epsilon, account.used(), (secret, story))
    if not names_used(admitted):
        judge_itself(case, account, admitted)
    return case, notion, bool(admitted)


def names_used(releases: Sequence[hl.Release]) -> bool:
    return any(r.draw or r.atop for r in releases)
