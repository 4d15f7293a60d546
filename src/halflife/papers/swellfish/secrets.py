"""The secrets of the Swellfish paper's experiments: a generated town, the noise of each plan for it, and what each plan keeps.

The paper takes one specification for each of 250 households, and the largest scale that any of them asks for (Theorem 9). All 250
specification files published with it have one content hash; what is in them is not at hand. So every plan here is made twice:
for one household alone, as if all had its specification, and for the maximum over all households.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from halflife.lab.swellfish.costs import family_words, generate_secrets
from halflife.notions import Swellfish
from halflife.numerics.arrays import Floats
from halflife.numerics.progress import Progress
from halflife.numerics.rounding import TOLERANCE
from halflife.papers.swellfish.printed import DELTA, EPSILON, SENSITIVITY
from halflife.papers.swellfish.streams import DAY, WEEK
from halflife.plans.base import MEAN_ABSOLUTE_OF_UNIT_SCALE
from halflife.release import Noise
from halflife.specifications import Secret, Specification, Specifications, add_secrets
from halflife.specifications.neighbours import INTERPRETATIONS

ONE, ALL = "one household", "maximum over all"
HOUSEHOLDS, CERTIFIED = 250, 10
"""How many households the town has, and of how many each secret is certified under the maximum over all."""

PLANS: tuple[tuple[str, float, Noise], ...] = (
    ("paper", 0.0, "laplace"),
    ("tight", 0.0, "laplace"),
    ("paper", DELTA, "laplace"),
    ("tight", DELTA, "laplace"),
    ("tight", DELTA, "gaussian"),
)
OPTIMAL: tuple[str, float, Noise] = ("optimal", 0.0, "laplace")
"""Worked out for one household: the program of all of them is too large."""
DOMINANT = Secret(SENSITIVITY, WEEK, 1, WEEK, EPSILON)
"""Experiment 2's further secret: a week away, in the first week."""


class Kept(NamedTuple):
    """Whether secrets keep their ε under one interpretation: how many do not, of how many, and the largest share of ε."""

    broken: int
    secrets: int
    share: float


@dataclass(frozen=True, eq=False)
class Scales:
    """One plan: its noise scale at every step in both experiments, and what it keeps in the first under each interpretation.

    certified  how many households' secrets that was worked out for, 0 if for none
    """

    who: str
    method: str
    delta: float
    noise: Noise
    first: Floats
    second: Floats
    kept: dict[str, Kept]
    certified: int

    @property
    def family(self) -> str:
        """Its noise in words."""
        return family_words(self.delta, self.noise)

    @property
    def label(self) -> str:
        """Its name in tables."""
        return f"{self.method}, {self.family}, {self.who}"

    @property
    def mean(self) -> float:
        """The mean scale in Experiment 1."""
        return float(self.first.mean())

    @property
    def mean_error(self) -> float:
        """The mean absolute noise in Experiment 1, which compares families of noise."""
        return self.mean * MEAN_ABSOLUTE_OF_UNIT_SCALE[self.noise]


class Households(NamedTuple):
    """What each household's specification asks for by itself.

    mean      the mean over all steps of Theorem 8's scale;  uniform  Theorem 7's scale: max T · max Δ_t / min ε
    relevant  the share of steps at which it hides something;  longest, largest  max T and max Δ_t
    """

    mean: Floats
    uniform: Floats
    relevant: Floats
    longest: Floats
    largest: Floats

    @property
    def middle(self) -> int:
        """The household in the middle by its mean scale: which one is fixed by this rule, not by what comes out."""
        return int(np.argsort(self.mean, kind="stable")[len(self.mean) // 2])


def household_data(s: Specifications, steps: int) -> Households:
    """Return Theorem 8's mean scale and Theorem 7's scale of each household by itself, over steps 1 … steps."""
    line, n = Swellfish(s, noise="laplace").timeline, len(s.households)
    scales = line.sensitivity * line.most(s.duration.astype(np.float64)) * line.most(1 / s.epsilon)
    lengths = np.maximum(0, np.minimum(line.end, steps) - np.maximum(line.begin, 1) + 1)
    longest, largest, strictest = np.zeros(n), np.zeros(n), np.zeros(n)
    np.maximum.at(longest, s.household, s.duration)
    np.maximum.at(strictest, s.household, 1 / s.epsilon)
    np.maximum.at(largest, line.household, line.sensitivity)
    return Households(
        np.bincount(line.household, scales * lengths, n) / steps,
        longest * largest * strictest,
        np.bincount(line.household, (line.sensitivity > 0) * lengths, n) / steps,
        longest,
        largest,
    )


def only_households(s: Specifications, first: int, count: int) -> Specifications:
    """Return the secrets of some households, by their place.

    >>> town, _ = generate_secrets(3, 2, seed=1)
    >>> set(only_households(town, 1, 1).household.tolist())
    {1}
    """
    return s.only((s.household >= first) & (s.household < first + count))


def certify(notion: Swellfish, scales: Floats) -> dict[str, Kept]:
    """Return what these scales keep of the notion's secrets under each interpretation, worked out from the scales alone."""
    found: dict[str, Kept] = {}
    for meaning in INTERPRETATIONS:
        shares = notion.losses_of_secrets(scales, 1, meaning) / notion.specifications.epsilon
        found[meaning] = Kept(int(np.count_nonzero(shares > 1 + TOLERANCE)), len(shares), float(shares.max()))
    return found


def with_dominant(own: Specifications, method: str, delta: float, noise: Noise, scales: Floats) -> Floats:
    """Return the scales once a household (`own`) has the dominant secret too: no other week, and no other household, changes."""
    week = min(WEEK, len(scales))
    early = own.only(own.start <= week)
    name = own.households[int(own.household[0])]
    secrets = add_secrets(early, Specifications(Specification([DOMINANT], name)))
    plan = Swellfish(secrets, delta, "one-window", noise).plan(method=method, horizon=week)
    result = scales.copy()
    result[:week] = np.maximum(result[:week], plan.scales(week))
    return result


def plan_data(
    s: Specifications, steps: int, middle: int, progress: Progress, *, exact: bool = True
) -> Iterator[Scales]:
    """Yield each plan, for one household and for the maximum over all, with what it keeps.

    exact  whether plans with Laplace noise and a δ are certified too, which takes loss distributions of many kinds of secrets.
           Theorem 11's plan for all households is left out in any case
    """
    one, certified = only_households(s, middle, 1), min(CERTIFIED, len(s.households))
    few = only_households(s, 0, certified)
    work = [(ONE, *plan) for plan in (*PLANS, OPTIMAL)] + [(ALL, *plan) for plan in PLANS]
    for i, (who, method, delta, noise) in enumerate(work):
        progress(f"{who}: {method}, {family_words(delta, noise)}", i, len(work))
        notion = Swellfish(one if who == ONE else s, delta, "one-window", noise)
        scales = notion.plan(method=method, horizon=steps).scales(steps)
        simple = "tight" if method == "optimal" else method
        judged = notion if who == ONE else Swellfish(few, delta, "one-window", noise)
        slow = delta > 0 and noise == "laplace" and (not exact or (who == ALL and method == "paper"))
        yield Scales(
            who, method, delta, noise, scales, with_dominant(one, simple, delta, noise, scales),
            {} if slow else certify(judged, scales), 0 if slow else 1 if who == ONE else certified,
        )  # fmt: skip


def town_secrets(steps: int, seed: int, households: int = HOUSEHOLDS) -> Specifications:
    """Return the secrets of a generated town over so many steps: every cycle of every appliance but fridge and freezer."""
    return generate_secrets(households, -(-steps // DAY), seed)[0]
