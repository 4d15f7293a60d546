"""Attacks on policies: the real publisher's noise, the real engine's totals, and the worst neighbours of the promise."""

from __future__ import annotations

import random
from pathlib import Path

import halflife as hl
from attacks.promises.by_age import judge_ageing
from attacks.promises.by_period import judge_periods
from attacks.promises.neighbours import judge_neighbours, publish_town
from attacks.promises.publishing import empty
from attacks.promises.towns import random_policy
from attacks.promises.verdicts import Case


def attack_policy(seed: int, folder: Path) -> tuple[Case, str, bool]:
    """One random policy: refused, or published with known noise and attacked with the neighbours of its promise."""
    rng, case = random.Random(seed), Case("policy", seed)
    chosen = random_policy(rng, folder)
    name = chosen.data["promise"]["notion"]
    empty(folder)
    try:
        policy = hl.Policy.from_dict(chosen.data, folder)
    except hl.HalflifeError:
        return case, name, False
    town = publish_town(case, rng, policy, chosen.steps)
    if town is None:
        return case, name, False
    story = {"policy": chosen.data, "person": town.person}
    if isinstance(town.notion, hl.AlmostPeriodic):
        judge_periods(case, rng, town, story)
    elif isinstance(town.notion, hl.AgeDependent):
        judge_ageing(case, rng, town, chosen.kernel, story)
    else:
        judge_neighbours(case, town, story)
    return case, name, True
