"""Who is compared: a mechanism by its name, or a notion with its own plan, each with or without post-processing.

    uniform                    a registered mechanism, for w-event privacy with the comparison's w and ε
    bd+moving-average=12       the same outputs, post-processed
    classical                  planned noise of a notion, here up to the end of the stream
    exponential,half_life=48   a notion with parameters, separated by commas; epsilon and w as in the comparison if left out

A notion also takes parameters of its plan: method, horizon ("none": for ever), every, noise, cap, variation_sensitivity.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from halflife.errors import InvalidInput, unknown
from halflife.lab.compare.expectations import Schedule, hold, schedule_of_plan
from halflife.lab.compare.posts import Post, parse_posts
from halflife.lab.running_totals.base import FactoredTotals
from halflife.lab.running_totals.toeplitz import Toeplitz
from halflife.lab.running_totals.toeplitz_unbounded import UnboundedToeplitz
from halflife.lab.views.text import describe_promise
from halflife.mechanisms import Mechanism
from halflife.mechanisms.base import ScheduledMechanism
from halflife.notions import Classical, Notion, WEvent
from halflife.plans import Plan
from halflife.registry import MECHANISMS, NOTIONS, find_mechanism, find_notion

PLAN_KEYS = ("method", "horizon", "every", "noise", "cap", "variation_sensitivity")


@dataclass(frozen=True)
class FromMechanism:
    """A registered mechanism under w-event privacy; `counts` if noisy values become whole numbers from 0 on."""

    kind: type[Any]
    notion: WEvent
    sensitivity: float
    steps: int
    counts: bool = False

    @property
    def adaptive(self) -> bool:
        """Whether losses follow outputs, so that each repetition has its own."""
        return bool(self.kind.adaptive)

    @property
    def cumulative(self) -> bool:
        """Whether it outputs running totals."""
        return bool(getattr(self.kind, "cumulative", False))

    def make(self) -> Mechanism:
        """Return a new mechanism; one that needs to know the last step, or whether values are counts, is told."""
        known = {"horizon": self.steps, "counts": self.counts}
        options = {key: known[key] for key in known if key in inspect.signature(self.kind).parameters}
        made: Mechanism = self.kind(self.notion, self.sensitivity, **options)
        return made

    @property
    def schedule(self) -> Schedule | None:
        """What is known of the noise of Uniform and Sample; None for others."""
        epsilon, w = self.notion.epsilon, self.notion.w
        if self.kind.name == "uniform":
            return hold(self.steps, 1, np.full(self.steps, w * self.sensitivity / epsilon))
        if self.kind.name == "sample":
            return hold(self.steps, w, np.full(-(-self.steps // w), self.sensitivity / epsilon))
        return None


@dataclass(frozen=True)
class FromPlan:
    """The mechanism of a notion, with its plan; `given` instead of the plan that the options ask for."""

    notion: Notion
    sensitivity: float
    steps: int
    options: Mapping[str, Any] = field(default_factory=dict)
    given: Plan | None = None
    adaptive = False
    cumulative = False

    @cached_property
    def plan(self) -> Plan:
        """The noise of every step."""
        if self.given is not None:
            return self.given
        return self.notion.plan(sensitivity=self.sensitivity, **self.options)

    def make(self) -> ScheduledMechanism:
        """Return a new mechanism."""
        made: ScheduledMechanism = find_mechanism(self.notion.mechanism)(self.plan)
        return made

    @cached_property
    def schedule(self) -> Schedule:
        """The noise of every step, as closed forms and bands need it."""
        return schedule_of_plan(self.plan, self.steps)

    def __getstate__(self) -> dict[str, Any]:
        """What another process is sent: it plans again, as plans hold functions."""
        if self.given is not None:
            raise InvalidInput("a Plan cannot be sent to another process: use jobs=1, or give its notion and options")
        return {name: getattr(self, name) for name in ("notion", "sensitivity", "steps", "options", "given")}


@dataclass(frozen=True)
class FromTotals:
    """Running totals by a factorisation, which the lab alone can simulate: one joint measurement with Gaussian noise."""

    kind: type[FactoredTotals]
    notion: WEvent
    sensitivity: float
    steps: int
    adaptive = False
    cumulative = True
    schedule = None

    def make(self) -> FactoredTotals:
        """Return the totals; those that need to know the last step are told."""
        options = {"horizon": self.steps} if "horizon" in inspect.signature(self.kind).parameters else {}
        return self.kind(self.notion, self.sensitivity, **options)


Producer = FromMechanism | FromPlan | FromTotals
FACTORED: dict[str, type[FactoredTotals]] = {kind.name: kind for kind in (Toeplitz, UnboundedToeplitz)}


@dataclass(frozen=True)
class Contestant:
    """One row: what it is called, where its outputs come from, and what is done to them."""

    label: str
    producer: Producer
    posts: tuple[Post, ...] = ()


@dataclass(frozen=True)
class Common:
    """What all contestants share: ε, w and Δ, how many steps there are, and whether running totals are judged.

    delta   the δ of those that have Gaussian noise by nature (toeplitz, toeplitz-unbounded)
    counts  whether noisy values become whole numbers from 0 on, max(0, round(·))
    """

    epsilon: float
    w: int
    sensitivity: float
    steps: int
    totals: bool = False
    delta: float | None = None
    counts: bool = False


def by_name() -> list[str]:
    """Return the names of all mechanisms that need no plan: those that no notion names as its own, and factored totals."""
    own = {notion.mechanism for notion in NOTIONS.values()}
    return [*(name for name in MECHANISMS if name not in own), *FACTORED]


def list_contestants(
    mechanisms: Iterable[object] | None, notions: Iterable[object], posts: Sequence[str], common: Common
) -> list[Contestant]:
    """Return the rows in the order asked for: mechanisms, then notions; after each, what every chain of `posts` makes of it.

    mechanisms  names, classes, notions or plans; None: all registered ones that answer what is judged, if no notion is given
    """
    wanted = list(notions)
    if mechanisms is None:
        named: list[object] = [] if wanted else [*default_names(common)]
    else:
        named = [mechanisms] if isinstance(mechanisms, str | Notion | Plan | type) else list(mechanisms)
    found = [read_mechanism(one, common) for one in named] + [read_notion(one, common) for one in wanted]
    if not found:
        raise InvalidInput("nothing to compare: give mechanisms or notions", about="mechanisms")
    if common.delta is not None and not any(isinstance(one.producer, FromTotals) for one in found):
        raise InvalidInput(
            f"delta is for {' and '.join(FACTORED)}, and none of them is compared: leave it out; a notion takes its own, as "
            "w-event,delta=1e-6",
            about="delta",
        )
    chains = [parse_posts(text) for text in posts]
    rows = []
    for one in found:
        _check_totals(one, common.totals)
        rows.append(one)
        rows += [
            Contestant("+".join([one.label, *map(str, chain)]), one.producer, (*one.posts, *chain)) for chain in chains
        ]
    return rows


def default_names(common: Common) -> list[str]:
    """Return the mechanisms that answer values, or with totals all of them; those with Gaussian noise if there is a δ."""
    kinds: dict[str, type[Any]] = MECHANISMS | ({} if common.delta is None else FACTORED)
    return [
        name for name in by_name() if name in kinds and (common.totals or not getattr(kinds[name], "cumulative", False))
    ]


def _check_totals(one: Contestant, totals: bool) -> None:
    if one.producer.cumulative and not totals:
        raise InvalidInput(f"{one.label} publishes running totals: compare it with totals (--totals)", about="totals")


def read_mechanism(given: object, common: Common) -> Contestant:
    """Return the contestant that a name, a class of mechanisms, a notion or a plan stands for.

    >>> common = Common(1.0, 20, 1.0, 100)
    >>> read_mechanism("uniform+moving-average=4", common).posts
    (Post(kind='moving-average', given='4'),)
    """
    if isinstance(given, Notion | Plan):
        return read_notion(given, common)
    if isinstance(given, type):
        return _from_class(given.__name__ if not hasattr(given, "name") else given.name, given, (), common)
    if not isinstance(given, str):
        raise InvalidInput(f"a contestant is a name, a mechanism's class, a notion or a plan, not {given!r}")
    name, plus, chain = given.partition("+")
    name = name.strip()
    if name.partition(",")[0] in NOTIONS and name not in MECHANISMS:
        return read_notion(given, common)
    if name in MECHANISMS and name not in by_name():
        raise InvalidInput(
            f"{name} noise follows the plan of a notion: name that one, such as --notion w-event or --notion "
            "almost-periodic,period=48",
            about="mechanisms",
        )
    if name in FACTORED:
        if common.delta is None:
            raise InvalidInput(
                f"{name} has Gaussian noise, which needs a delta: give one (--delta 1e-6)", about="delta"
            )
        notion = WEvent(common.epsilon, common.w, common.delta)
        if plus:
            raise InvalidInput(f"{given}: running totals are compared as they are published, without post-processing")
        return Contestant(given, FromTotals(FACTORED[name], notion, common.sensitivity, common.steps))
    if name not in MECHANISMS:
        raise unknown("mechanism", name, by_name(), about="mechanisms")
    return _from_class(given, find_mechanism(name), parse_posts(chain) if plus else (), common)


def _from_class(label: str, kind: type[Any], posts: tuple[Post, ...], common: Common) -> Contestant:
    notion = WEvent(common.epsilon, common.w)
    if not all(hasattr(kind, name) for name in ("step", "name", "adaptive")):
        raise InvalidInput(f"{kind.__name__} is no mechanism: it needs step(step, truth, draw), name and adaptive")
    producer = FromMechanism(kind, notion, common.sensitivity, common.steps, common.counts)
    producer.make()  # what it refuses is refused now
    return Contestant(label, producer, posts)


def read_notion(given: object, common: Common) -> Contestant:
    """Return planned noise of a notion, of a plan, or of a text such as `exponential,half_life=48+kalman`.

    >>> read_notion("exponential,half_life=48", Common(1.0, 20, 2.0, 100)).producer.plan.sensitivity
    2.0
    """
    posts: tuple[Post, ...] = ()
    if isinstance(given, Plan):
        producer = FromPlan(given.notion, given.sensitivity, common.steps, given=given)
        label = describe_promise(given.notion.reference())
    elif isinstance(given, Notion):
        producer = FromPlan(given, common.sensitivity, common.steps, _default_options(given, common))
        label = describe_promise(given.reference())
    elif isinstance(given, str):
        text, plus, chain = given.partition("+")
        posts, label = parse_posts(chain) if plus else (), given
        notion, options = parse_notion(text, common)
        producer = FromPlan(notion, common.sensitivity, common.steps, {**_default_options(notion, common), **options})
    else:
        raise InvalidInput(f"a notion is a text, a notion or a plan, not {given!r}", about="notions")
    if producer.plan.request.age or producer.plan.request.span != 1:
        raise InvalidInput(f"{label}: plans about old data or several steps a release are not compared here")
    if producer.plan.horizon is not None and producer.plan.horizon < common.steps:
        raise InvalidInput(
            f"{label}: its plan ends with step {producer.plan.horizon}, and the stream has {common.steps}"
        )
    _ = producer.schedule
    producer.make()
    return Contestant(label, producer, posts)


def _default_options(notion: Notion, common: Common) -> dict[str, Any]:
    """Classical noise grows without an end, so its plan ends with the stream if nothing else is said."""
    return {"horizon": common.steps} if isinstance(notion, Classical) else {}


def parse_notion(text: str, common: Common) -> tuple[Notion, dict[str, Any]]:
    """Return the notion of a text, and the options of its plan.

    >>> parse_notion("w-event,w=48,method=paper", Common(1.0, 20, 1.0, 100))
    (WEvent(epsilon=1.0, w=48, delta=0.0, reach=0), {'method': 'paper'})
    """
    from halflife.lab.views.plan import make_notion

    name, *parts = (part.strip() for part in text.split(","))
    find_notion(name)
    given: dict[str, Any] = {}
    for part in parts:
        key, equals, value = part.partition("=")
        if not equals or not value.strip() or key.strip() in given:
            raise InvalidInput(
                f"{text}: {part!r} is no parameter that is given once, such as half_life=48", about="notions"
            )
        given[key.strip().replace("-", "_")] = _value(key.strip(), value.strip())
    options = {key: given.pop(key) for key in PLAN_KEYS if key in given}
    given.setdefault("epsilon", common.epsilon)
    if name == WEvent.name:
        given.setdefault("w", common.w)
    return make_notion(name, given), options


def _value(key: str, text: str) -> Any:
    """A parameter as what it looks like: a number, true, false, none, or a word; a process is read from its file."""
    if key == "process":
        from halflife.policy.promises.age_dependent.process import read_process_file

        return read_process_file(Path(text))
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
