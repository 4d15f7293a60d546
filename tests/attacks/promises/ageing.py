"""Age-dependent accounts by hand: random processes, random releases, and what all outputs tell about where a person is now."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import numpy as np

import halflife as hl
from attacks.promises.accounts import REFUSALS, judge_itself, scale_of
from attacks.promises.truths import Floats, Number, Truth, Wander, describe, told, told_on_span
from attacks.promises.verdicts import Case

FAR = 1e-3
"""Quadrature is good to this."""


def random_kernel(rng: random.Random, states: int) -> Floats:
    """A transition matrix: sticky, even, or turning."""
    kind = rng.choice(["sticky", "even", "turning", "any"])
    rows = np.array([[rng.random() + 0.02 for _ in range(states)] for _ in range(states)])
    if kind == "sticky":
        rows += np.eye(states) * rng.choice([3.0, 10.0])
    elif kind == "turning":
        rows += np.roll(np.eye(states), 1, axis=1) * 5
    elif kind == "even":
        rows += 2
    return rows / rows.sum(axis=1, keepdims=True)


def random_process(rng: random.Random) -> tuple[Any, Any]:
    """A process, and how a person really moves under it."""
    states = rng.choice([2, 2, 3])
    kind = rng.choice(["chain", "chain", "chain", "cycle", "mixing", "empirical", "population", "wander"])
    kernel = random_kernel(rng, states)
    if kind == "chain":
        return hl.MarkovChain(kernel.tolist()), Truth([kernel])
    if kind == "cycle":
        kernels = [kernel, *(random_kernel(rng, states) for _ in range(rng.randint(1, 2)))]
        first = rng.randrange(len(kernels))
        return hl.PeriodicMarkovChain([k.tolist() for k in kernels]), Truth(kernels[first:] + kernels[:first])
    if kind == "mixing":
        kept = rng.choice([0.5, 0.8, 0.9])
        return hl.GeometricMixing(rng.choice([1.0, 1.5]), kept), Truth(
            [np.array([[1 + kept, 1 - kept], [1 - kept, 1 + kept]]) / 2]
        )
    if kind == "empirical":
        chain = hl.MarkovChain(kernel.tolist())
        corners = [chain.frontier(t) for t in range(1, rng.randint(2, 12))]
        return hl.EmpiricalProcess([[f.q.tolist(), f.d.tolist()] for f in corners]), Truth([kernel])
    if kind == "population":
        other = random_kernel(rng, rng.choice([2, 3]))
        both = hl.ProcessFamily([hl.MarkovChain(kernel.tolist()), hl.MarkovChain(other.tolist())])
        return both, Truth([rng.choice([kernel, other])])
    wander = Wander(rng.choice([0.5, 0.9, -0.6]), rng.choice([0.1, 1.0]))
    return hl.AutoRegressive(wander.rho, wander.sigma, rng.choice([0.5, 1.0, 4.0, 10.0])), wander


def random_notion(rng: random.Random) -> tuple[Any, Any]:
    """An age-dependent promise and the truth; None where the promise itself is refused."""
    process, truth = random_process(rng)
    options: dict[str, Any] = {}
    if isinstance(process, hl.EmpiricalProcess):
        options["horizon"] = rng.randint(1, process.last_lag)
    elif isinstance(truth, Truth):
        options["bound"] = rng.choice(["tight", "tight", "paper"] + (["pairwise"] if rng.random() < 0.2 else []))
        options["adversary"] = "any-prior" if rng.random() < 0.2 else "stationary"
        options["delta"] = 1e-3 if rng.random() < 0.15 else 0.0
        if options["adversary"] == "any-prior":
            prior = np.array([rng.choice([1e-6, 0.1, 1.0]) for _ in range(truth.states)])
            truth = Truth(truth.kernels, prior / prior.sum())
    try:
        return hl.AgeDependent(rng.choice([0.5, 1.0, 2.0]), process, **options), truth
    except hl.HalflifeError:
        return None, truth


def random_release(rng: random.Random, notion: Any, step: int, account: hl.Accountant) -> hl.Release:
    age = rng.choice([0, 0, 1, 2, 5])
    room = account.headroom(step, age) if rng.random() < 0.5 and not notion.delta else 0.0
    loss = min(rng.choice([room, room * 0.5]) or rng.choice([0.1, 0.4, 1.0]), 20.0)
    sensitivity = rng.choice([1.0, 1.0, 2.0])
    names: dict[str, Any] = {rng.choice(["draw", "atop"]): "a"} if rng.random() < 0.25 else {}
    noise = "gaussian" if notion.delta and rng.random() < 0.5 else "laplace"
    return hl.Release(
        step,
        loss,
        age,
        sensitivity=sensitivity,
        scale=math.nextafter(sensitivity / loss, math.inf),
        noise=noise,
        **names,
    )


def as_numbers(rng: random.Random, truth: Truth, releases: Sequence[hl.Release]) -> list[Number]:
    """Every release as a number of the state, within its sensitivity: at the ends, mostly."""
    drawn: dict[str | None, Number] = {}
    numbers = []
    alike = rng.random() < 0.5
    pattern = np.array([rng.choice([0.0, 1.0]) for _ in range(truth.states)])
    pattern[rng.randrange(truth.states)], pattern[-1] = (0.0, 1.0) if pattern[-1] else (1.0, 0.0)
    for r in sorted(releases, key=lambda r: r.draw is None):
        values = pattern if alike else np.array([rng.choice([0.0, 1.0, 0.5]) for _ in range(truth.states)])
        if r.atop and rng.random() < 0.7:
            values = 1 - values
        number = Number(
            r.data_time, values * r.sensitivity, scale_of(r), r.noise, drawn.get(r.atop) if r.atop else None
        )
        numbers.append(number)
        if r.draw is not None:
            drawn[r.draw] = number
    return numbers


def attack_ageing(seed: int) -> tuple[Case, Any, bool]:
    """One random history under an age-dependent promise."""
    rng = random.Random(seed)
    case = Case("ageing", seed)
    notion, truth = random_notion(rng)
    if notion is None:
        return case, None, False
    account, admitted, step = hl.Accountant(notion), [], 0
    for _ in range(rng.randint(1, 4)):
        step += rng.choice([1, 1, 2])
        try:
            release = random_release(rng, notion, step, account)
            account.admit(release)
            admitted.append(release)
        except REFUSALS:
            continue
    if not admitted:
        return case, notion, False
    story = (notion, admitted)
    try:
        if isinstance(truth, Wander):
            judge_wander(case, rng, truth, account, admitted, story)
        else:
            for _ in range(3):
                judge_chain(case, as_numbers(rng, truth, admitted), truth, account, story)
    except hl.InvalidInput as error:
        case.expect("an account answers about its own steps", "horizon" in str(error), (str(error), story))
    judge_itself(case, account, admitted, later=range(1, 15))
    return case, notion, True


def judge_chain(case: Case, numbers: list[Number], truth: Truth, account: hl.Accountant, story: object) -> None:
    notion: Any = account.notion
    details = (story, describe(numbers))
    for later in (0, 1, 3, 7):
        now = account.step + later
        if notion.horizon is not None and now > notion.horizon:
            break
        found = told(truth, numbers, now, notion.delta)
        case.compare("promise", found, notion.epsilon, (now, details))
        case.compare("account", found, account.risk(now), (now, details))
    if not notion.delta and notion.adversary == "stationary":
        for about in {n.time for n in numbers} | {account.step - 1}:
            try:
                said = account.retrospective(account.step, about)
            except hl.InvalidInput:
                continue
            case.compare("the past", told(truth, numbers, about), said, (about, details))


def judge_wander(
    case: Case, rng: random.Random, truth: Wander, account: hl.Accountant, admitted: Sequence[hl.Release], story: object
) -> None:
    """Clipped values of an AR(1) process: each clip as wide as its sensitivity, somewhere."""
    notion: Any = account.notion
    admitted = [r for r in admitted if not r.atop]  # to leave outputs out is to know less
    if not admitted:
        return
    middle = rng.choice([0.0, 0.5, 2.0, 5.0]) * truth.sigma
    clips = [(r.data_time, middle - r.sensitivity / 2, middle + r.sensitivity / 2, scale_of(r)) for r in admitted]
    for later in (0, 3):
        now = account.step + later
        kept = truth.rho ** (now - max(r.data_time for r in admitted))
        places = [middle, middle / kept] if abs(kept) > 0.05 else [middle]
        pairs = [(x - notion.process.span / 2, x + notion.process.span / 2) for x in places]
        found = told_on_span(truth, clips, now, pairs)
        case.compare("promise", found, notion.epsilon, (now, middle, story), FAR)
        case.compare("account", found, account.risk(now), (now, middle, story), FAR)
