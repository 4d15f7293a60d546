"""What discounting does to an attacker, the paper's future work: how often habits and absences of a home are told, by half-life.

**The stream** is the half-hourly total of homes, every reading clipped to [0, `CLIP_KWH`], with Laplace noise by the plan that
users get (`tight`) at ε = 1. One home moves the total by at most the clip, so the noise does not depend on how many there are.

**The attacker** is the one of differential privacy: he knows every other home's readings and the noise scales, so he sees the
target's reading plus noise; he knows both candidates reading by reading, and guesses by the likelihood ratio (`guessing`). Real
attackers know less. *Averaging*: whether the target's readings or another home's are in the total, from all releases of a window
that begins with the first. *Occupancy*: whether somebody was at home, from the releases of that day or week alone.

**Beside it** what no attack can exceed: the plain sum of losses that a discounted ε allows within a window (T8), and what an
ε-DP release with that sum for its ε allows, e^ε/(1 + e^ε).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from halflife.errors import InvalidInput
from halflife.lab.households.readings import SLOTS_PER_DAY
from halflife.lab.views.text import three_figures
from halflife.notions import Classical, ExponentialDiscount, HyperbolicDiscount, Notion, WEvent
from halflife.notions.discounted import Discounted, human_time
from halflife.numerics.arrays import Floats, Integers
from halflife.numerics.progress import Progress
from halflife.papers.discounted.guessing import most_guesses, right_guesses
from halflife.papers.figures import markdown
from halflife.plans import Plan

EPSILON, CLIP_KWH = 1.0, 2.0
"""The clip is public: 4 kW throughout the half hour. Noise is in proportion to it, so a wide one favours the home."""

WINDOWS = {"a day": 48, "a week": 336, "four weeks": 1_344, "a year": 17_520}
ABSENCES = ("a day", "a week")
HALF_LIVES = (2, 4, 6, 12, 24, 48, 96, 192, 336, 672, 1_344, 4_368, 17_520)
"""In half hours: from 1 hour to 1 year."""

DISCOUNTS = ("exponential", "hyperbolic")
SHOWN = (2, 12, 48, 336, 1_344, 17_520)
LEVELS = (0.75, 0.6)
BASE_LOAD = 0.1
"""What a home uses while nobody is there: this quantile of its readings over the whole time."""

MOST_HOMES = 100


class Attack(NamedTuple):
    """What an attacker wants to know, from a window of releases.

    moves   row i, column k: how far apart, in kWh, both candidates of home i are k steps into the window
    before  how many steps come before the window, by home
    """

    name: str
    window: str
    moves: Floats
    before: Integers


class Promise(NamedTuple):
    """What the stream is published under, and its plan; `half_life` in steps, None for one that forgets at once or never."""

    name: str
    half_life: int | None
    notion: Notion
    plan: Plan


class Outcome(NamedTuple):
    """How one attack fares under one promise.

    success, most    share of right guesses: the average over homes, and the home that is most exposed
    largest_change   the same for two series that differ by the clip at every step
    loss             plain sum of the plan's losses in the window;  allowed  the most that the promise allows there (T8)
    bound            share of right guesses that no attack can exceed;  scale  of the noise at the last step, kWh
    """

    promise: str
    half_life: int | None
    attack: str
    window: str
    success: float
    most: float
    largest_change: float
    loss: float
    allowed: float
    bound: float
    scale: float


# What is attacked ---------------------------------------------------------------------------------------------------


def attacks_on(kwh: Floats, clip: float = CLIP_KWH) -> list[Attack]:
    """Return both attacks on every home, for each window that the readings are long enough for."""
    if len(kwh) < 2 or kwh.shape[1] < SLOTS_PER_DAY:
        raise InvalidInput(
            f"{len(kwh)} homes and {kwh.shape[1]} half hours: an attack needs two homes and a day", about="kwh"
        )
    clipped = np.clip(kwh, 0.0, clip)
    fits = [name for name, steps in WINDOWS.items() if steps <= kwh.shape[1]]
    others = [averaging(clipped, name) for name in fits]
    return [*others, *(occupancy(clipped, name) for name in fits if name in ABSENCES)]


def averaging(kwh: Floats, window: str) -> Attack:
    """Return: are the readings those of home i, or of the home before it (by id; of the first home, the last)?"""
    seen = kwh[:, : WINDOWS[window]]
    return Attack("averaging", window, np.abs(seen - np.roll(seen, 1, axis=0)), np.zeros(len(kwh), dtype=np.int64))


def occupancy(kwh: Floats, window: str) -> Attack:
    """Return: did home i live as recorded, or did it stand at its base load? From its day of median use on, or before the end.

    >>> day = np.where(np.arange(48) < 40, 0.1, 1.0)
    >>> attack = occupancy(np.array([[*day, *(2 * day), *(3 * day)]]), "a day")
    >>> attack.before, attack.moves[0, [0, 47]].round(3)
    (array([48]), array([0.1, 1.9]))
    """
    steps = WINDOWS[window]
    days = kwh.shape[1] // SLOTS_PER_DAY
    use = kwh[:, : days * SLOTS_PER_DAY].reshape(len(kwh), days, SLOTS_PER_DAY).sum(axis=2)
    typical = np.argsort(use, axis=1, kind="stable")[:, days // 2] * SLOTS_PER_DAY
    before = np.minimum(typical, kwh.shape[1] - steps)
    lived = np.take_along_axis(kwh, before[:, None] + np.arange(steps), axis=1)
    base = np.quantile(kwh, BASE_LOAD, axis=1)[:, None]
    return Attack("occupancy", window, np.abs(lived - base), before)


def promises(steps: int, half_lives: Sequence[int] = HALF_LIVES, clip: float = CLIP_KWH) -> Iterator[Promise]:
    """Yield the discounted promises by half-life, then a capped one, w-event of a day and a week, and classical of all steps."""
    for half_life in half_lives:
        slow = HyperbolicDiscount(EPSILON, beta=1 / half_life)
        for notion in (ExponentialDiscount(EPSILON, half_life=half_life), slow):
            yield Promise(notion.name, half_life, notion, notion.plan(clip))
    day = ExponentialDiscount(EPSILON, half_life=SLOTS_PER_DAY)
    yield Promise("exponential, 1 day, cap ε(1 − α)", None, day, day.plan(clip, cap=EPSILON * (1 - day.alpha)))
    for window in ABSENCES:
        event = WEvent(EPSILON, WINDOWS[window])
        yield Promise(f"w-event, {window}", None, event, event.plan(clip))
    classical = Classical(EPSILON)
    yield Promise(f"classical, {human_time(30 * steps)}", None, classical, classical.plan(clip, horizon=steps))


# The numbers --------------------------------------------------------------------------------------------------------


def attack_data(
    kwh: Floats,
    progress: Progress = lambda what, done, total: None,
    half_lives: Sequence[int] = HALF_LIVES,
    clip: float = CLIP_KWH,
) -> list[Outcome]:
    """Return how every attack on these homes fares under every promise.

    kwh   row i, column t: home i in half hour t; 0 where nothing was read, as a stream counts it
    """
    attacks, steps = attacks_on(kwh, clip), kwh.shape[1]
    total, found = promise_count(half_lives), list[Outcome]()
    for done, promise in enumerate(promises(steps, half_lives, clip)):
        progress(f"attacks: {promise_name(promise.name, promise.half_life)}", done, total)
        scales, losses = promise.plan.scales(steps), promise.plan.losses(steps)
        found += [outcome(promise, attack, scales, losses) for attack in attacks]
    return found


def promise_count(half_lives: Sequence[int] = HALF_LIVES) -> int:
    """Return how many promises `attack_data` goes through."""
    return 2 * len(half_lives) + len(ABSENCES) + 2


def outcome(promise: Promise, attack: Attack, scales: Floats, losses: Floats) -> Outcome:
    """Return how one attack fares, with the plan's noise scales and losses of all steps."""
    steps = attack.moves.shape[1]
    at = attack.before[:, None] + np.arange(steps)
    guesses = right_guesses(attack.moves / scales[at])
    spent = losses[at[np.argmax(losses[at].sum(axis=1))]]
    allowed = promise.notion.allowance(steps) if isinstance(promise.notion, Discounted) else float(losses[:steps].sum())
    return Outcome(
        promise.name, promise.half_life, attack.name, attack.window, float(guesses.mean()), float(guesses.max()),
        float(right_guesses(spent)[0]), float(spent.sum()), allowed, most_guesses(allowed), float(scales[-1]),
    )  # fmt: skip


def curve(
    outcomes: Sequence[Outcome], promise: str, attack: str, window: str, what: str = "success"
) -> tuple[Floats, Floats]:
    """Return half-lives in steps, and how an attack fares at each of them."""
    chosen = [o for o in outcomes if (o.promise, o.attack, o.window) == (promise, attack, window) and o.half_life]
    return np.array([o.half_life for o in chosen], dtype=np.float64), np.array([getattr(o, what) for o in chosen])


def crossing(half_lives: Floats, success: Floats, level: float) -> float:
    """Return the half-life from which on fewer guesses than `level` are right: 0 if always, infinite if never.

    Between half-lives that were computed, by a straight line over the logarithm of the half-life.

    >>> round(crossing(np.array([1.0, 4.0]), np.array([0.9, 0.7]), 0.8), 9)
    2.0
    """
    if success[0] < level:
        return 0.0
    if success[-1] >= level:
        return float("inf")
    return float(np.exp(np.interp(-level, -success, np.log(half_lives))))


# Text ---------------------------------------------------------------------------------------------------------------


def promise_name(name: str, half_life: int | None) -> str:
    """Return a promise in words.

    >>> promise_name("exponential", 336), promise_name("w-event, a day", None)
    ('exponential, 7 days', 'w-event, a day')
    """
    return name if half_life is None else f"{name}, {human_time(30 * half_life)}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def attacks_in(outcomes: Sequence[Outcome]) -> list[tuple[str, str]]:
    """Return (attack, window) of every attack that was made, in order."""
    return list(dict.fromkeys((o.attack, o.window) for o in outcomes))


def success_cells(outcomes: Sequence[Outcome], mean_kwh: float) -> tuple[list[str], list[tuple[str, ...]]]:
    """Return heads and lines: for each promise how many homes a total needs for an error of 10 %, and the success of each attack.

    mean_kwh  average use of a home in a half hour: the noise of scale b is a tenth of the total of b/(0.1 mean) homes
    """
    lines: dict[str, list[str]] = {}
    for o in sorted(outcomes, key=lambda o: o.promise if o.half_life else "~"):
        if o.half_life is None or o.half_life in SHOWN:
            name = promise_name(o.promise, o.half_life)
            lines.setdefault(name, [three_figures(o.scale / (0.1 * mean_kwh))]).append(_percent(o.success))
    heads = [f"{attack}, {window}" for attack, window in attacks_in(outcomes)]
    return ["promise", "homes for 10 % error", *heads], [(name, *cells) for name, cells in lines.items()]


def crossing_cells(outcomes: Sequence[Outcome]) -> tuple[list[str], list[tuple[str, ...]]]:
    """Return heads and lines: for each attack the half-life from which on it is right less often than a level."""
    pairs = [("success", level) for level in LEVELS] + [("most", LEVELS[0])]
    kinds = [(promise, what, level) for promise in DISCOUNTS for what, level in pairs]
    heads = [f"{promise}: {_HOMES[what]}, {100 * level:.0f} %" for promise, what, level in kinds]
    lines = []
    for attack, window in attacks_in(outcomes):
        found = [crossing(*curve(outcomes, promise, attack, window, what), level) for promise, what, level in kinds]
        known, _ = curve(outcomes, DISCOUNTS[0], attack, window)
        lines.append((f"{attack}, {window}", *(_half_life(x, known) for x in found)))
    return ["attack", *heads], lines


_HOMES = {"success": "average home", "most": "most exposed home"}


def _half_life(steps: float, known: Floats) -> str:
    if steps == 0:
        return f"at {human_time(30 * known[0])} already"
    return f"beyond {human_time(30 * known[-1])}" if steps == float("inf") else human_time(30 * steps)


BOUND_HEADS = (
    "half-life",
    "window",
    "loss allowed (T8), nats",
    "no guess better than",
    "largest change",
    "most exposed home",
    "average home",
)


def bound_cells(outcomes: Sequence[Outcome]) -> list[tuple[str, ...]]:
    """Return lines, exponential: what T8 allows in the shortest and the longest window, and how often guesses are right there."""
    seen = [window for attack, window in attacks_in(outcomes) if attack == "averaging"]
    return [
        (
            human_time(30 * (o.half_life or 0)), o.window, three_figures(o.allowed),
            *(_percent(x) for x in (o.bound, o.largest_change, o.most, o.success)),
        )
        for o in outcomes
        if (o.promise, o.attack) == ("exponential", "averaging") and o.window in (seen[0], seen[-1]) and o.half_life in SHOWN
    ]  # fmt: skip


def attack_tables(outcomes: Sequence[Outcome], mean_kwh: float) -> str:
    """Return the three tables in Markdown, as the docs show them."""
    tables = (success_cells(outcomes, mean_kwh), crossing_cells(outcomes), (BOUND_HEADS, bound_cells(outcomes)))
    return "\n\n".join(markdown(heads, lines) for heads, lines in tables)
