"""What secrets cost: specifications in numbers, and the noise of every plan for them, with its certificates.

Specifications are public, so everything here may be shown. Nothing draws noise or keeps an account.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from halflife.errors import InvalidInput, unknown
from halflife.lab.households.appliances import Summary, generate, secrets_of, summary
from halflife.notions import Swellfish
from halflife.notions.calibration import quieter, unit_scales
from halflife.numerics.arrays import Floats
from halflife.numerics.forms import JsonObject
from halflife.numerics.parameters import whole
from halflife.numerics.progress import Progress
from halflife.plans.base import MEAN_ABSOLUTE_OF_UNIT_SCALE, STD_OF_UNIT_SCALE
from halflife.plans.swellfish.plan import SwellfishPlan
from halflife.release import Noise
from halflife.specifications import Specifications
from halflife.specifications.neighbours import Interpretation
from halflife.specifications.sweep import Timeline

PAPER_DELTA = 1 / 117_716_237
"""δ of the Swellfish paper's evaluation."""

PAPER_LONGEST, PAPER_SENSITIVITY = 65, 3.92
"""Steps of the longest cycle and kW of the largest temporal sensitivity, as the paper reports them (Table III)."""

METHODS = ("paper", "tight", "optimal")
FIRST_DAY = datetime.datetime(2004, 1, 1)
"""When generated towns begin: a Thursday in winter, as the paper's data does."""


def _silent(what: str, done: int, total: int) -> None:
    """No progress."""


class Overview(NamedTuple):
    """Specifications in numbers.

    sensitivity  max Δ_t over all steps and households, first met at step `widest`;  relevant  the share of steps 1 … steps
    at which somebody hides something;  one_household  the same for the middle household
    """

    households: int
    secrets: int
    steps: int
    longest: int
    largest_power: float
    smallest_epsilon: float
    sensitivity: float
    widest: int
    relevant: float
    one_household: float


def generate_secrets(households: int, days: int, seed: int) -> tuple[Specifications, Summary]:
    """Return the secrets of a generated town, one for each cycle but those of fridge and freezer, and its main numbers.

    >>> secrets, town = generate_secrets(3, 2, seed=1)
    >>> len(secrets) == town.secrets, secrets.households[0]
    (True, 'household-1')
    """
    town = generate(households, 96 * whole("days", days, least=1), FIRST_DAY, seed)
    return Specifications.from_arrow(secrets_of(town, seed).drop_columns(["appliance"])), summary(town)


def overview(s: Specifications, steps: int | None = None) -> Overview:
    """Return the numbers of specifications over steps 1 … steps, by default up to the last hiding interval's end."""
    if not len(s):
        raise InvalidInput("there is no secret: nothing is hidden")
    n = whole("steps", max(1, s.last_step) if steps is None else steps, least=1)
    line = Timeline(s)
    delta = line.temporal_sensitivity
    held = line.sensitivity > 0
    lengths = np.minimum(line.end[held], n) - np.maximum(line.begin[held], 1) + 1
    own = np.bincount(line.household[held], np.maximum(lengths, 0), len(s.households))
    return Overview(
        households=len(s.households),
        secrets=len(s),
        steps=n,
        longest=int(s.duration.max()),
        largest_power=float(s.power.max()),
        smallest_epsilon=float(s.epsilon.min()),
        sensitivity=delta.largest,
        widest=int(delta.starts[np.argmax(delta.values)]),
        relevant=float(np.mean(delta.over(1, n) > 0)),
        one_household=float(np.median(own) / n),
    )


class Outcome(NamedTuple):
    """One plan: its noise over steps 1 … n, and whether each interpretation is kept.

    total, mean  of the standard deviation;  error  mean absolute error;  std  of each step;  verdicts  by interpretation
    facts  of the plan: with "optimal" its gain over "tight" and the certified gap to the least possible
    """

    method: str
    delta: float
    noise: Noise
    total: float
    mean: float
    error: float
    std: Floats
    verdicts: dict[str, JsonObject]
    facts: JsonObject

    @property
    def family(self) -> str:
        """Its noise in words."""
        return family_words(self.delta, self.noise)


class Uniform(NamedTuple):
    """Equal noise at every step for w-event privacy with Theorem 7's parameters: of one family, by one theorem."""

    label: str
    delta: float
    noise: Noise
    mean: float
    error: float

    @property
    def family(self) -> str:
        """Its noise in words."""
        return family_words(self.delta, self.noise)


class Quieter(NamedTuple):
    """T6: for events of T steps, the standard deviation of each family at sensitivity 1, and which is less."""

    duration: int
    laplace: float
    gaussian: float
    noise: str


@dataclass(frozen=True, eq=False)
class Comparison:
    """All plans for the same secrets; `uniform` is empty, and `why_not` says why, where Theorem 7 does not hold."""

    specifications: Specifications
    neighbours: Interpretation
    delta: float
    facts: Overview
    outcomes: tuple[Outcome, ...]
    uniform: tuple[Uniform, ...]
    why_not: str
    table: tuple[Quieter, ...]
    not_protected: tuple[str, ...]
    warnings: tuple[str, ...]

    def gain(self, delta: float, noise: Noise) -> float | None:
        """Return how much less noise in total `optimal` has than `tight`, as a share; None if one of them is missing."""
        found = {o.method: o.total for o in self.outcomes if (o.delta, o.noise) == (delta, noise)}
        return 1 - found["optimal"] / found["tight"] if {"optimal", "tight"} <= set(found) else None


def compare(
    s: Specifications,
    *,
    neighbours: Interpretation = "one-window",
    delta: float = PAPER_DELTA,
    methods: Sequence[str] = METHODS,
    steps: int | None = None,
    progress: Progress = _silent,
) -> Comparison:
    """Return the noise of each plan, pure and with δ (unless it is 0), Laplace and Gaussian, with its certificates.

    The plan "paper" is about Laplace noise alone.
    """
    for method in methods:
        if method not in METHODS:
            raise unknown("plan of secrets", method, METHODS)
    wanted = [method for method in METHODS if method in methods]
    facts = overview(s, steps)
    families: list[tuple[float, Noise]] = [(0.0, "laplace")]
    families += [(delta, "laplace"), (delta, "gaussian")] if delta else []
    cases = [(m, d, f) for d, f in families for m in wanted if not (m == "paper" and f == "gaussian")]
    notions = {case: Swellfish(s, case[0], neighbours, case[1]) for case in families}
    outcomes, first = [], None
    for i, (method, d, noise) in enumerate(cases):
        progress(f"{method}, {family_words(d, noise)}", i, len(cases) + 1)
        plan = notions[d, noise].plan(method=method, horizon=facts.steps)
        assert isinstance(plan, SwellfishPlan)
        first = first or plan
        outcomes.append(_outcome(plan, method))
    progress("Laplace or Gaussian", len(cases), len(cases) + 1)
    uniform, why_not = _uniform(s, neighbours, delta)
    table = quieter_data((1, 2, 4, 8, 10, 11, 16, 32, PAPER_LONGEST, 672), facts.smallest_epsilon, delta)
    return Comparison(
        s, neighbours, delta, facts, tuple(outcomes), uniform, why_not, table,
        tuple(first.not_protected()) if first else (), _warnings(s, delta),
    )  # fmt: skip


def _outcome(plan: SwellfishPlan, method: str) -> Outcome:
    notion = plan.notion
    assert isinstance(notion, Swellfish)
    total, mean = plan.total()
    facts = {key: plan.facts[key] for key in ("gain_over_tight", "gap") if key in plan.facts}
    return Outcome(
        method, notion.delta, plan.noise, total, mean, plan.mean_error(), plan.stds(plan.steps), plan.verdicts, facts
    )


def _uniform(s: Specifications, neighbours: Interpretation, delta: float) -> tuple[tuple[Uniform, ...], str]:
    """Theorem 7's baseline: pure, with δ by Theorem 10, and with δ by exact accounting."""
    asked = [("Uniform", 0.0, "paper")]
    asked += [("Uniform, Theorem 10", delta, "paper"), ("Uniform, exact", delta, "tight")] if delta else []
    rows = []
    for label, d, method in asked:
        try:
            notion, sensitivity = Swellfish(s, d, neighbours, "laplace").baseline()
            plan = notion.plan(sensitivity=sensitivity, method=method)
        except InvalidInput as error:
            return (), str(error)
        off = plan.scale(1) * MEAN_ABSOLUTE_OF_UNIT_SCALE[plan.noise]
        rows.append(Uniform(label, d, plan.noise, plan.std(1), off))
    return tuple(rows), ""


def quieter_data(durations: Sequence[int], epsilon: float, delta: float) -> tuple[Quieter, ...]:
    """Return T6's table: for each T the standard deviation of Laplace and Gaussian noise that keeps (ε, δ), and the quieter.

    >>> [row.noise for row in quieter_data((10, 11), 0.1, PAPER_DELTA)]
    ['laplace', 'gaussian']
    """
    if not delta:
        return ()
    each = [epsilon] * len(durations)
    both = [STD_OF_UNIT_SCALE[f] * unit_scales(durations, each, delta, f) for f in ("laplace", "gaussian")]
    return tuple(
        Quieter(t, float(a), float(b), quieter(t, epsilon, delta)[0]) for t, a, b in zip(durations, *both, strict=True)
    )


def _warnings(s: Specifications, delta: float) -> tuple[str, ...]:
    homes = len(s.households)
    if delta * homes < 1:
        return ()
    return (
        f"δ = {delta:g} is too large for {homes:,} households: a mechanism that publishes everything about "
        f"{delta * homes:.3g} of them keeps it. Choose a δ far below 1/{homes:,} = {1 / homes:.3g}.",
    )


def promise_words(delta: float) -> str:
    """Return "pure", or δ."""
    return "pure" if delta == 0 else f"δ = {delta:.3g}"


def family_words(delta: float, noise: Noise) -> str:
    """Return a family of noise and its δ."""
    return f"{noise.capitalize()}, {promise_words(delta)}"
