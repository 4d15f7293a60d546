"""What a policy promises: a notion, with its parameters as people write them."""

from __future__ import annotations

from dataclasses import MISSING, Field, fields
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from halflife import registry
from halflife.errors import HalflifeError, InvalidInput, unknown
from halflife.notions import Notion
from halflife.parsing.quantities import parse_quantity
from halflife.policy.process import read_process
from halflife.policy.promises.almost_periodic import by_the_clock
from halflife.policy.swellfish import read_secrets
from halflife.processes import Process
from halflife.specifications import Specifications
from halflife.steps import Steps, microseconds, parse_width

if TYPE_CHECKING:
    from halflife.policy.model import Policy

IN_STEPS = ("w", "half_life", "period", "horizon")
"""Parameters of a notion that count steps, so that they may be written as a time."""


def promised(policy: Policy, account: Steps) -> Notion[Any]:
    """Return the notion that the policy promises; its times become steps of the account.

    A parameter that counts steps may be written as a time: `half_life: 1 day`. It is worked out once: a process may be fitted.
    """
    if policy._notion is None:
        policy._notion = _promised(policy, account)
    return policy._notion


def _promised(policy: Policy, account: Steps) -> Notion[Any]:
    promise = policy.promise
    with policy.about("promise", "notion"):
        cls = registry.find_notion(promise.notion)
    known = {f.name: f for f in fields(cls) if f.init and f.name != "clock"}  # the clock is the policy's own
    given: dict[str, Any] = {}
    for key, value in (promise.model_extra or {}).items():
        with policy.about("promise", key):
            if key not in known:
                raise unknown(f"parameter of {cls.name}", key, [*known, "plan", "noise", "cap"])
            if value is not None and known[key].type in (Process, "Process"):
                given[key] = read_process(policy, value, account)
            elif value is not None and known[key].type in (Specifications, "Specifications"):
                given[key] = read_secrets(policy, value, account)
            elif value is not None and "Notion" in str(known[key].type):
                given[key] = _laid_over(policy, key, value, account)
            elif value is not None:
                given[key] = _parameter(known[key], value, account, policy.clock.step)
    if "noise" in known and promise.noise is not None:
        given["noise"] = promise.noise
    for name, f in known.items():
        if name not in given and f.default is MISSING and f.default_factory is MISSING:
            raise policy.error((("promise", name), f"missing: {cls.name} needs it"))
    try:
        made: Notion[Any] = cls(**given)
    except HalflifeError as error:  # a message begins with the parameter that it is about, or with "unknown" and it
        about = next((("promise", word) for word in str(error).split()[:2] if word in given), ("promise",))
        raise policy.error((about, str(error))) from error
    return by_the_clock(made, account)


def _laid_over(policy: Policy, key: str, value: Any, account: Steps) -> Notion[Any]:
    """A notion inside a promise, with its ε if it has none of its own: `over: {notion: exponential, half_life: 10 days}`."""
    if not isinstance(value, dict) or "notion" not in value:
        raise InvalidInput(
            f"{key} must be a mapping with a notion, such as {{notion: exponential, half_life: 10 days}}"
        )
    cls = registry.find_notion(value["notion"])
    known = {f.name: f for f in fields(cls) if f.init}
    given = {"epsilon": (policy.promise.model_extra or {}).get("epsilon"), **value}
    given.pop("notion")
    for name in given:
        if name not in known:
            raise unknown(f"parameter of {cls.name}", name, known)
    made: Notion[Any] = cls(
        **{n: _parameter(known[n], v, account, policy.clock.step) for n, v in given.items() if v is not None}
    )
    return made


def _parameter(parameter: Field[Any], value: Any, account: Steps, step: str) -> Any:
    """A notion's parameter: text, a number, or a time in steps of the account where it counts steps."""
    if not isinstance(value, str) or parameter.type in (str, "str", "Reading"):
        return value
    if parameter.type in (bool, "bool"):
        return _yes_or_no(parameter.name, value)
    try:
        exact = parse_quantity(value, None)
    except InvalidInput:
        if parameter.name not in IN_STEPS:
            raise InvalidInput(f"{parameter.name} must be a number, not {value!r}") from None
        exact = Fraction(microseconds(parse_width(value)), account.width)
        if exact.denominator != 1 and parameter.type in (int, "int", "int | None"):
            raise InvalidInput(f"{value} is no whole number of steps of {step}") from None
    return int(exact) if exact.denominator == 1 else float(exact)


def _yes_or_no(name: str, value: str) -> bool:
    """Read yes and no as people write them."""
    word = value.strip().lower()
    if word not in ("true", "yes", "false", "no"):
        raise InvalidInput(f"{name} must be yes or no, not {value!r}")
    return word in ("true", "yes")
