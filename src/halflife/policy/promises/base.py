"""The base class of adapters, which connect a notion to policies: keys, accepted statistics, checks, plans and schema.

A notion that has nothing of its own to say needs its rules alone:

    @register_adapter
    class ClassicalAdapter(Adapter):
        names = ("classical",)
        rules = {"classical": accept_everything("…", "…")}

A notion without an adapter can be read, and is refused for every statistic: nobody has shown what it covers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, fields
from typing import Any, ClassVar

from halflife import registry
from halflife.errors import HalflifeError, InvalidInput, unknown
from halflife.notions.base import Notion
from halflife.notions.meaning import meaning_of
from halflife.numerics.forms import JsonObject
from halflife.parsing.documents import Where
from halflife.parsing.quantities import parse_quantity
from halflife.plans import Plan
from halflife.plans.solutions import Solutions
from halflife.policy.model import Part, PolicyKeys, PostProcessing, Statistic, find_culprit
from halflife.policy.outline import COUNTED, Outline
from halflife.policy.promises.noise_choice import Planner, begun_noise, choose_noise, explain_noise
from halflife.policy.promises.table import Case, Rule, judge, sensitivity_in_letters
from halflife.release import Noise
from halflife.steps import Steps

ADAPTERS: dict[str, type[Adapter]] = {}
"""Adapters by the names of the notions that they serve."""
RULES: dict[str, tuple[Rule, ...]] = {}
"""Every notion's rules, by its name and, where promises of it differ in what they accept, the variant."""
JSON_TYPES: Mapping[str, list[str]] = {
    "truth": ["boolean", "string", "null"],
    "process": ["object"],
    "notion": ["object"],
}
"""What a parameter may be in JSON, by its meaning; else a number or text."""


class Adapter:
    """The promise of one policy: reads the notion from the keys, and accepts, plans and explains the streams under it.

    names     the registered notions that it serves
    rules     what a policy may ask of them, by variant
    keys      what a policy may write beside the parameters of the notion; `keys_of` says of which promises, if not of all
    template  lines of `halflife init` about it
    words     what a sentence calls each of its own facts, where a policy changes one that a ledger was begun with
    charged_as_planned  whether a release costs the same whenever it was published: then the policy says what lost steps cost
    chosen    the family of noise that its plans have, where the policy leaves it open: a ledger remembers it
    solutions  what a solver found for its plans, now or in an earlier run: whoever holds the ledger writes it beside the ledger
    """

    names: ClassVar[tuple[str, ...]] = ()
    rules: ClassVar[Mapping[str, tuple[Rule, ...]]] = {}
    keys: ClassVar[type[Part]] = Part
    keys_of: ClassVar[str] = ""
    template: ClassVar[str] = ""
    words: ClassVar[Mapping[str, str]] = {}
    charged_as_planned: ClassVar[bool] = False

    @property
    def plans_follow_size(self) -> bool:
        """Whether plans of means depend on how many people there are, so that their number cannot be amended."""
        return False

    def __init__(self, policy: PolicyKeys, account: Steps) -> None:
        self.policy, self.account = policy, account
        self.own = policy.read_part(self.keys, self._own_keys(), "promise")
        self.chosen: Noise | None = None
        self.solutions = Solutions(None)
        self.notion = self.read_notion()

    # Reading ----------------------------------------------------------------------------------------------------------

    def _own_keys(self) -> JsonObject:
        """Return the keys of this adapter alone, neither common to all promises nor parameters; refuse unknown ones."""
        own: JsonObject = {}
        cls = registry.find_notion(self.policy.promise.notion)
        parameters = _parameters(cls)
        for key, value in (self.policy.promise.model_extra or {}).items():
            if key in self.keys.model_fields:
                own[key] = value
            elif key not in parameters:
                with self.policy.about("promise", key):
                    raise _unknown_key(cls.name, key, [*parameters, *self.keys.model_fields])
        return own

    def read_notion(self) -> Notion:
        """Return the notion that the policy promises; an error names the key that it is about."""
        promise, cls = self.policy.promise, registry.find_notion(self.policy.promise.notion)
        parameters = _parameters(cls)
        written = {**promise.model_dump(include=set(parameters)), **(promise.model_extra or {})}
        given: JsonObject = {}
        for name, value in written.items():
            if name in parameters and value is not None:
                with self.policy.about("promise", name):
                    given[name] = self.read_parameter(parameters[name], value)
        for name, f in parameters.items():
            if name not in given and f.default is MISSING and f.default_factory is MISSING:
                raise self.policy.error((("promise", name), f"missing: {cls.name} needs it"))
        try:
            made: Notion = cls(**given)
        except HalflifeError as error:
            raise self.policy.error((("promise", *find_culprit(error, given)), str(error))) from error
        return made

    def read_parameter(self, parameter: Field[Any], value: object) -> Any:
        """Return a parameter of the notion from what is written: text, yes or no, a number, or a time where it counts steps."""
        return read_plain(parameter, value, self.account, self.policy.clock.step)

    # Checks -----------------------------------------------------------------------------------------------------------

    @classmethod
    def variant(cls, notion: Notion) -> str:
        """Return which of the rules a promise is under."""
        return notion.name

    def describe_clip(self, statistic: Statistic) -> str:
        """Return which bounds of a statistic may bind, as the rules call it."""
        if statistic.clip_readings is not None:
            return "of readings"
        return "none" if statistic.clip is None and statistic.most_events is None else "may bind"

    def public_files(self) -> Sequence[str]:
        """Return the public files and folders that the promise names, as they are written: a ledger is held to what they say."""
        return ()

    def check(self) -> None:
        """Refuse a promise that cannot be made, or that leaves open what must be said."""

    def check_streams(self, streams: Sequence[Outline]) -> None:
        """Refuse streams that the promise cannot be kept with; the rules have accepted them."""

    def check_extension(self) -> None:
        """Refuse a promise that adds to one under which a ledger was begun, where its plan cannot take that."""

    def accept_streams(self) -> tuple[Rule, ...]:
        """Return the rule that each stream is accepted by; refuse what no rule accepts, with the key that must change."""
        return tuple(self._accept_stream(i) for i in range(len(self.policy.streams)))

    def _accept_stream(self, i: int) -> Rule:
        stream = self.policy.streams[i]
        s = stream.statistic
        groups = "none" if stream.groups is None else "column" if stream.groups.table is None else "table"
        clip = self.describe_clip(s)
        rules = RULES.get(self.variant(self.notion), ())
        for post in [_name_post(p) for p in stream.post] or ["none"]:
            case = Case(s.kind, self.policy.population.neighbours, groups, clip, s.fold or "none", post)
            rule = judge(rules, case)
            if not rule.accepted:
                raise self.policy.error((_find_key(rule.about, i), rule.why))
        return rule

    # Plans ------------------------------------------------------------------------------------------------------------

    def make_plans(self, streams: Sequence[Outline]) -> list[Plan]:
        """Return the plan of each stream, which together keep the promise: each has its share of the budget."""
        return [self.make_plan(s, self.notion if s.share == 1 else self.notion.share(s.share)) for s in streams]

    def choose_plans(self, make: Planner) -> list[Plan]:
        """Return plans of the family that the policy asks for, else that its ledger was begun with, else that has less noise.

        A ledger that remembers none was begun by a version whose plans chose by their losses alone.
        """
        promise, begun = self.policy.promise, self.policy.begun
        free = getattr(self.notion, "delta", 0.0) > 0 and promise.plan != "paper" and promise.noise is None
        if not free:
            return make(promise.noise)
        if begun is not None:
            self.chosen = begun_noise(begun)
            return make(self.chosen)
        plans = choose_noise(make)
        self.chosen = plans[0].noise
        return plans

    def make_plan(self, stream: Outline, notion: Notion, noise: Noise | None = None) -> Plan:
        """Return a plan of a stream that keeps this notion: losses do not depend on the sensitivity, so the noise's family is
        found first, if it is not given."""
        promise = self.policy.promise
        request: dict[str, Any] = {
            "method": promise.plan, "age": stream.age, "every": stream.every,
            "noise": noise or promise.noise, **self.plan_options(),
        }  # fmt: skip
        if stream.widest > 1:
            request["span"] = stream.widest
        if stream.last is not None:
            request["horizon"] = (stream.last - 1) * stream.every + 1
        plan: Plan = notion.plan(sensitivity=stream.sensitivity.of("laplace"), **request)
        if plan.noise != "laplace":
            plan = notion.plan(sensitivity=stream.sensitivity.of(plan.noise), **request)
        return plan

    def plan_options(self) -> dict[str, Any]:
        """Return what some plans alone understand."""
        cap = self.policy.promise.cap
        return {} if cap is None else {"cap": cap}

    # What is said -----------------------------------------------------------------------------------------------------

    def explain(self, stream: Outline, plan: Plan, why: str) -> Iterator[str]:
        """Say how far one person can move a stream's numbers, and why, from the policy alone."""
        s, statistic = stream.sensitivity, stream.part.statistic
        tree, unit = stream.measure.tree, stream.unit
        size = f"1 unit = 1 {COUNTED[unit]}" if unit in COUNTED else f"1 unit = {statistic.resolution}"
        yield f"hidden: {why}"
        yield f"{s.reason} ({size})"
        if (noise := explain_noise(plan, float(max(stream.factors)), unit)) is not None:
            yield noise
        kind = "count of events" if statistic.kind == "events" else statistic.kind
        what = kind if tree is None else f"tree of {tree.nodes} counts, from which quantiles follow"
        yield f"published as a {what}: at most {float(s.l1 * max(stream.factors)):.6g} {unit}".rstrip()
        if tree is not None:
            yield (
                f"the rank of a median has {tree.rank_error:.3g} times the noise of one count: at first a standard deviation of "
                f"{plan.std(1) * tree.rank_error:.4g} people"
            )
        if stream.groups and stream.fixed:
            yield f"{len(stream.groups)} groups, fixed for ever by a public table: a person moves their own group alone"
        if statistic.kind in ("sum", "mean", "weighted sum"):
            yield f"a person without a good reading counts as {statistic.missing or 0} {unit}".rstrip()

    @classmethod
    def describe_sensitivity(cls, case: Case) -> str:
        """Return how far one person can move the numbers of a step, in letters."""
        return sensitivity_in_letters(case)

    def to_facts(self) -> JsonObject:
        """Return its own keys as a ledger keeps them: worked out, without those at their defaults."""
        return {}

    @classmethod
    def schema(cls) -> dict[str, JsonObject]:
        """Return the JSON Schema of its own keys and of the notions' parameters, by name."""
        found: dict[str, JsonObject] = dict(cls.keys.model_json_schema().get("properties", {}))
        for name in cls.names:
            for key, parameter in _parameters(registry.find_notion(name)).items():
                kinds = JSON_TYPES.get(meaning_of(parameter), ["number", "string", "null"])
                said = f"{found[key]['description']}, {name}" if key in found else f"of {name}"
                found[key] = {"type": kinds, "description": said}
        return found


def register_adapter(cls: type[Adapter]) -> type[Adapter]:
    """Register an adapter under the names of its notions, and its rules under those of their variants."""
    ADAPTERS.update(dict.fromkeys(cls.names, cls))
    RULES.update(cls.rules)
    return cls


def find_adapter(name: str) -> type[Adapter]:
    """Return the adapter of a notion; for a notion without one, the base adapter, which accepts no statistic."""
    return ADAPTERS.get(registry.find_notion(name).name, Adapter)


def read_plain(parameter: Field[Any], value: object, account: Steps, step: str) -> Any:
    """Return a parameter from what is written; `step` is how the policy writes the account's step.

    >>> from halflife import WEvent
    >>> read_plain(fields(WEvent)[1], "1 day", Steps.of("30 min", "2026-01-01", "UTC"), "30 min")
    48
    """
    meaning = meaning_of(parameter)
    if not isinstance(value, str) or meaning == "text":
        return value
    if meaning == "truth":
        return _read_truth(parameter.name, value)
    try:
        exact = parse_quantity(value, None)
    except InvalidInput:
        if meaning not in ("steps", "whole steps"):
            raise InvalidInput(f"{parameter.name} must be a number, not {value!r}") from None
        exact = account.count(value)
        if exact.denominator != 1 and meaning == "whole steps":
            raise InvalidInput(f"{value} is no whole number of steps of {step}") from None
    return int(exact) if exact.denominator == 1 else float(exact)


def _read_truth(name: str, value: str) -> bool:
    word = value.strip().lower()
    if word not in ("true", "yes", "false", "no"):
        raise InvalidInput(f"{name} must be yes or no, not {value!r}")
    return word in ("true", "yes")


def _parameters(cls: Any) -> dict[str, Field[Any]]:
    """The parameters of a notion that a policy may write; the clock is the policy's own, and rules are the ledger's."""
    return {f.name: f for f in fields(cls) if f.init and meaning_of(f) not in ("clock", "rules")}


def _unknown_key(name: str, key: str, known: Sequence[str]) -> InvalidInput:
    owner = next((a for a in ADAPTERS.values() if key in a.keys.model_fields), None)
    if owner is not None:
        return InvalidInput(f"is said of {owner.keys_of or owner.names[0]} promises, not of {name}")
    return unknown(f"parameter of {name}", key, [*known, "plan", "noise", "cap"])


def _name_post(post: PostProcessing) -> str:
    return next(
        (key for key in ("truncate", "moving_average", "kalman", "seasonal") if getattr(post, key) is not None), "none"
    )


def _find_key(about: str, i: int) -> Where:
    """Return the key of the policy that an axis of the table of rules is about."""
    places: dict[str, Where] = {
        "neighbours": ("population", "neighbours"),
        "groups": ("streams", i, "groups"),
        "folds": ("streams", i, "statistic", "fold"),
        "clips": ("streams", i, "statistic", "clip"),
        "clip_readings": ("streams", i, "statistic", "clip_readings"),
        "posts": ("streams", i, "post"),
    }
    return places.get(about, ("streams", i, "statistic", "kind"))
