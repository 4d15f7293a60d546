"""What a policy changes of the facts that a ledger was begun with, in words and with its place."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from halflife.errors import HalflifeError, InvalidInput
from halflife.notions.base import Notion
from halflife.numerics.forms import read_form
from halflife.parsing.documents import Where
from halflife.policy.facts.keys import PARTS, PROMISE, STREAM, Facts, Key, fill_part, parse_part
from halflife.policy.facts.writing import FORMAT, digest, ledger_facts, name_notion
from halflife.policy.policy import Policy, channels

LONGEST = 200
"""Values that take more characters are told by their digest."""
COMPARED = 10_000
"""How many losses of two plans are compared, at the beginning and at the end."""
Change = tuple[Where, str]
"""What has changed: at which key, named as the facts name it, and a sentence."""

WRITTEN = {
    "start_us": "start",
    "width_us": "step",
    "days": "step",
    "months": "step",
    "last": "end",
    "places": "columns",
    "worth": "statistic",
}
"""How a policy names what facts name otherwise."""


def follow_ledger(policy: Policy, known: Mapping[str, str]) -> Policy:
    """Return the policy with what it leaves open as the ledger of these facts was begun with; itself where there is nothing.

    That is the family of noise, and by which version's rules losses add up. Another family would have to be composed with the
    first in every window, and other rules would not be those of the account.
    """
    if not known or known.get("promise") == ledger_facts(policy)["promise"]:
        return policy
    try:
        begun = parse_part(known, "promise")
    except InvalidInput:  # `find_change` says so
        return policy
    other = policy.model_copy()
    other._begun = begun if isinstance(begun, dict) else None
    return other


def find_change(known: Mapping[str, str], policy: Policy) -> str | None:
    """Say what the policy changes of the facts that a ledger is held to, and where; the first change, None if there is none.

    Raises InvalidInput for facts that a newer halflife wrote, or that are damaged.
    """
    policy = follow_ledger(policy, known)
    change = next(list_changes(known, policy), None)
    return None if change is None else say_place(policy, change)


def say_place(policy: Policy, change: Change) -> str:
    """Return a change in words, with its place in the policy's file."""
    place = policy.name_place(*_find_key(policy, *change[0]))
    return change[1] if place is None else f"{change[1]} ({place})"


def _find_key(policy: Policy, part: str | int, *keys: str | int) -> Where:
    """Return the key of the policy for one of the facts: of a stream those of the clock too, which it may have of its own."""
    names = tuple(WRITTEN.get(str(key), key) for key in keys if key != "steps")
    streams = [f"stream:{s.name}" for s in policy.streams]
    if part not in streams:
        return ("streams",) if str(part).startswith("stream:") else (part, *names)
    i = streams.index(str(part))
    if names[:1] in (("start",), ("step",), ("end",), ("zone",)) and not getattr(
        policy.streams[i], str(names[0]), None
    ):
        return ("clock", *names)
    return ("streams", i, *names)


def list_changes(known: Mapping[str, str], policy: Policy) -> Iterator[Change]:
    """Yield all that a policy, which follows the ledger, changes of the facts that the ledger is held to."""
    now, adapter = ledger_facts(policy), channels(policy)[0].promise
    parts = {**PARTS, "promise": {**PROMISE, **{key: Key(words, None) for key, words in adapter.words.items()}}}
    if read_form("a ledger", parse_part(known, "format"), ("name",))["name"] != FORMAT["name"]:
        raise InvalidInput("its facts are not those of a ledger")
    for key in sorted(set(known) ^ set(now)):
        if key in now:
            yield (key,), f"{key.replace(':', ' ')} is new"
        elif not (key.startswith("stream:") and _read_stream(known, key)["ended"]):
            yield (key,), f"{key.replace(':', ' ')} is gone"
    other = _compare_names(parse_part(known, "promise"), parse_part(now, "promise"))
    if other:
        yield ("promise", "notion"), other
    for key in (key for key in now if key in known and key != "format" and not (key == "promise" and other)):
        part, where = parts.get(key, STREAM), "" if key in parts else f"stream {key.removeprefix('stream:')}: "
        old, new = (fill_part(key, parse_part(facts, key), part) for facts in (known, now))
        if key == "clock" and not adapter.notion.forgets:  # a late step then counts alike from whenever it counts
            old["late"] = new["late"]
        if key == "promise":
            for place, said in _compare_notions(old.pop("notion"), new.pop("notion"), adapter.notion):
                yield ("promise", *place), said
            if old["noise"] != new["noise"] and _uses_same_noise(policy, old["noise"]):
                old["noise"] = new["noise"]
        if where and old["last"] != new["last"] and _plans_alike(policy, key.removeprefix("stream:"), old["last"]):
            old["last"] = new["last"]
        for place, said in _compare(old, new, part):
            yield (key, *place), where + said


def _read_stream(facts: Mapping[str, str], key: str) -> Facts:
    return fill_part(key, parse_part(facts, key), STREAM)


def _plans_alike(policy: Policy, name: str, last: int | None) -> bool:
    """Return whether a stream's plan has the same losses if it ends with this step: then another end changes nothing."""
    made = channels(policy)
    if any(c.name == name and c.tree is not None for c in made):
        return False  # the scale of all nodes follows from the end
    outlines = [c if c.name != name else replace(c, last=last) for c in made]
    try:
        plans = made[0].promise.make_plans(outlines)
    except HalflifeError:
        return False
    for c, other in zip(made, plans, strict=True):
        ends = [(x.horizon - 1) // x.request.every + 1 for x in (c.plan, other) if x.horizon is not None]
        n = min(ends, default=COMPARED)
        pieces = [(1, min(n, COMPARED)), (max(1, n - COMPARED), n)]
        same = all(np.array_equal(c.plan.losses_of_releases(*p), other.losses_of_releases(*p)) for p in pieces)
        if not same or c.plan.noise != other.noise:
            return False
    return True


def _compare(old: Facts, new: Facts, part: Mapping[str, Key]) -> Iterator[Change]:
    """The keys of two filled parts that differ, in words."""
    for key, about in part.items():
        a, b = old.get(key), new.get(key)
        if a == b:
            continue
        if about.keys is not None and a is not None and b is not None:
            yield from (((key, *place), said) for place, said in _compare(a, b, about.keys))
        else:
            yield (key,), _say_change(about.words, a, b, about.say)


def _compare_names(old: Any, new: Facts) -> str | None:
    """Say that another notion is promised: the keys of two notions are not to be compared."""
    notion = old.get("notion") if isinstance(old, dict) else None
    name = notion.get("name") if isinstance(notion, dict) else None
    return None if name == new["notion"]["name"] else _say_change("the promise", name, new["notion"]["name"])


def _compare_notions(old: Facts, new: Facts, notion: Notion[Any]) -> Iterator[Change]:
    """The parameters of a promise that differ; stored facts are read as this version would write them."""
    old = name_notion(notion.complete(old), notion)
    for key in sorted(set(old) | set(new)):
        if old.get(key) != new.get(key):
            said = _say_change(f"{key.replace('_', ' ')} of the promise", old.get(key), new.get(key))
            if _rounds(old.get(key), new.get(key)):
                said += ", which differ by rounding alone: write it out as it was"
            yield (key,), said


def _rounds(old: Any, new: Any) -> bool:
    """Return whether two values differ only as the same number does where it is worked out twice, on other machines say.

    They are still refused: the account goes on under the numbers that it was begun with, to the last bit.

    >>> _rounds({"rho": [0.1 + 0.2]}, {"rho": [0.3]}), _rounds(0.3, 0.31)
    (True, False)
    """
    if isinstance(old, dict) and isinstance(new, dict):
        return old.keys() == new.keys() and all(_rounds(old[key], new[key]) for key in old)
    if isinstance(old, list) and isinstance(new, list):
        return len(old) == len(new) and all(map(_rounds, old, new))
    if isinstance(old, float) and isinstance(new, float):
        return math.isclose(old, new, rel_tol=1e-12)
    return bool(old == new)


def _uses_same_noise(policy: Policy, asked: str | None) -> bool:
    """Return whether streams have noise of the same families if the promise asks for this one, or for none.

    The promise rests on the family that is used: to write out the one that is used anyway, or to leave it out, changes nothing.
    """
    other = policy.promise.model_copy(update={"noise": asked})
    try:
        made = channels(policy.model_copy(update={"promise": other}))
    except HalflifeError:
        return False
    return [c.plan.noise for c in made] == [c.plan.noise for c in channels(policy)]


def _say_change(words: str, old: Any, new: Any, say: Callable[[Any], str] | None = None) -> str:
    """Return one change as a sentence.

    >>> _say_change("the population's size", 4, 5)
    "the population's size was 4 and is now 5"
    """
    was, now = ("not given" if x is None else (say or _say)(x) for x in (old, new))
    return f"{words} was {was} and is now {now}"


def _say(value: Any) -> str:
    """A value in full, or by its digest where it is long."""
    text = repr(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST else f"another one (sha256 {digest(value)[:16]})"
