"""What published releases come to in plain terms: total losses within a day, a week, a year and for ever, and what stays open.

Under w-event, discounted and age-dependent promises losses are forgotten, by convention or because data ages. Whoever reads an ε
of such a promise as a classical one is misled, so pages and certificates show the classical reading beside it.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import fields
from typing import NamedTuple

import numpy as np

from halflife.local_time import DAY
from halflife.notions.base import Notion
from halflife.notions.discounted import human_time
from halflife.notions.gaussian_dp import gaussian_epsilon
from halflife.notions.meaning import meaning_of
from halflife.policy import Policy, channels
from halflife.release import Release

SPANS = (("a day", 1), ("a week", 7), ("a year", 365))
FOR_EVER = 2**62


class PlainLoss(NamedTuple):
    """Of all data within any `span`, the worst total loss in nats; with Gaussian noise at a `delta`."""

    span: str
    loss: float
    delta: float = 0.0


class Losses:
    """What each release cost, by the time that its data is about, for sums over any stretch of time (16 bytes a release)."""

    def __init__(self) -> None:
        self._by_span: dict[int, tuple[array[int], array[float]]] = {}
        self.shared = self.exact = False
        self.noises: set[str] = set()

    def feed(self, releases: Iterable[Release]) -> None:
        """Take in releases, in any order."""
        for r in releases:
            times, losses = self._by_span.setdefault(r.span, (array("q"), array("d")))
            times.append(r.data_time)
            losses.append(r.loss)
            self.noises.add(r.noise)
            self.shared = self.shared or r.draw is not None or r.atop is not None
            self.exact = self.exact or math.isinf(r.loss)

    @property
    def add_up(self) -> bool:
        """Whether losses add up: not where noise is used again, exact values were published, or families of noise differ."""
        return not (self.exact or self.shared or len(self.noises) > 1)

    def worst(self, width: int, power: int = 1) -> float:
        """Return the largest Σ ρ^power of the releases that touch any `width` steps of data, rounded up.

        A release about s steps up to τ touches steps a … a + w − 1 if a ≤ τ ≤ a + w + s − 2. Moving a up to the least τ that is
        touched loses none, so only windows that begin at some τ are looked at.

        >>> losses = Losses()
        >>> losses.feed(Release(k, 0.5) for k in (1, 2, 4))
        >>> [round(losses.worst(w), 6) for w in (1, 2, 3, 9)]
        [0.5, 1.0, 1.0, 1.5]
        """
        spans = {s: (np.array(times), np.array(losses) ** power) for s, (times, losses) in self._by_span.items()}
        if not spans:
            return 0.0
        begins = np.unique(np.concatenate([times for times, _ in spans.values()]))
        total = np.zeros(len(begins))
        for span, (times, losses) in spans.items():
            order = np.argsort(times, kind="stable")
            sums = np.concatenate([[0.0], np.cumsum(losses[order])])
            low = np.searchsorted(times[order], begins, side="left")
            high = np.searchsorted(times[order], begins + width + span - 2, side="right")
            total += sums[high] - sums[low]
        return float(total.max()) * (1 + 1e-9)


def find_plain_losses(policy: Policy, losses: Losses) -> tuple[PlainLoss, ...]:
    """Return what the releases come to within any day, week and year, and in all; nothing where losses do not add up to that.

    Nor do they where a loss is about a part of what a person does (declared secrets).
    """
    partial = any("why" in c.plan.certificate()["classical_risk"] for c in channels(policy))
    if partial or not losses.add_up:
        return ()
    per_day = DAY / channels(policy)[0].account.width
    widths = [
        (f"any {span.removeprefix('a ')}", math.ceil(days * per_day - 1e-9))
        for span, days in SPANS
        if days * per_day >= 1
    ]
    widths.append(("all of it (classically)", FOR_EVER))
    if "gaussian" not in losses.noises:
        return tuple(PlainLoss(span, losses.worst(width)) for span, width in widths)
    delta = float(getattr(policy.notion, "delta", 0.0))
    return tuple(PlainLoss(s, gaussian_epsilon(math.sqrt(losses.worst(w, 2)), delta), delta) for s, w in widths)


def list_unprotected(policy: Policy) -> Iterator[str]:
    """Yield what the promise leaves open, its own words first, then what this policy makes public."""
    said: dict[str, None] = {}
    for c in channels(policy):
        said |= dict.fromkeys(c.plan.not_protected())
    yield from said
    population = policy.population
    if population.neighbours == "replace-one":
        number = population.size
        people = f"{number:,} people" if isinstance(number, int) else "people, counted by date in a public table,"
        yield (
            f"That somebody is one of the {people} is not hidden, and their number is public: hidden is what "
            "was recorded of them."
        )
    for c in channels(policy):
        if c.groups:
            told = "; who belongs to which is in a public table" if c.table is not None else ""
            yield f"The {len(c.groups):,} groups of {c.name} are public{told}. All of them are published, empty ones too."
    if policy.clock.late == "as-planned" and policy.notion.forgets:
        yield (
            "Late steps are charged as if each had been published on time: what the account says is about that past, and nothing "
            "that a reader sees today has begun to be forgotten."
        )
    yield "Whatever else is published about the same people, under another policy or none, is not counted here; losses add up."


def describe_promise(policy: Policy, earlier: Notion | None = None) -> Iterator[str]:
    """Yield the promise in human time: how long those of its parameters are that count steps, and what the notion says itself.

    earlier  another promise that was made on the same clock
    """
    notion, minutes = earlier or policy.notion, channels(policy)[0].account.width / 60e6
    for f in fields(notion):  # type: ignore[arg-type]
        value = getattr(notion, f.name)
        if meaning_of(f) == "whole steps" and isinstance(value, int) and value:
            yield f"{f.name} = {value:,} steps of {policy.clock.step}: {human_time(value * minutes)}."
    yield from notion.in_other_words(minutes)
