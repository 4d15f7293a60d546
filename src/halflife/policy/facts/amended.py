"""Amendments of a ledger, as its events tell them, and what they mean for streams that were published before and after."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from halflife.errors import InvalidInput
from halflife.numerics.forms import JsonObject, leave_out, read_form
from halflife.numerics.parameters import whole
from halflife.policy.facts.shapes import Shape, stream_shape
from halflife.policy.members import Members
from halflife.policy.policy import Policy, channels
from halflife.policy.worth import Factors, Worth

KIND = "amendment"


@dataclass(frozen=True)
class Amendment:
    """A recorded change of what a ledger is held to.

    at_us    when it was recorded
    reason   why, in the operator's public words;  by  who says so
    changes  what changed, in sentences
    starts   from which step of each stream on it holds; of a stream that it ended, the first step that is not published
    facts    the parts of the ledger's facts that it replaced, as they are since
    weakens  whether the promise protects less than before, or nobody has shown that it does not
    """

    at_us: int
    reason: str
    by: str
    changes: tuple[str, ...]
    starts: Mapping[str, int]
    facts: Mapping[str, str]
    weakens: bool = False

    def to_event(self) -> JsonObject:
        """Return it as a ledger keeps it."""
        event = {
            "kind": KIND,
            "version": 1,
            "reason": self.reason,
            "by": self.by,
            "changes": list(self.changes),
            "from": dict(self.starts),
            "facts": dict(self.facts),
            "weakens": self.weakens,
        }
        return leave_out(event, weakens=False)


def read_amendments(events: Iterable[tuple[int, JsonObject]]) -> tuple[Amendment, ...]:
    """Return the amendments among a ledger's events, each given with its time; refuses what a newer version wrote."""
    made = []
    for at_us, event in events:
        if event.get("kind") != KIND:
            if "facts" in event:
                raise InvalidInput("an event of another kind changes what the ledger is held to")
            continue
        said = {key: value for key, value in event.items() if key != "kind"}
        form = read_form(KIND, said, ("reason", "by", "changes", "from", "facts"), weakens=False)
        texts = (form["reason"], form["by"], *form["changes"])
        if not all(isinstance(x, str) for x in texts) or not isinstance(form["from"], dict):
            raise InvalidInput("what an amendment says is not text")
        starts = {name: whole("from", step, least=1) for name, step in form["from"].items()}
        made.append(
            Amendment(
                at_us, form["reason"], form["by"], tuple(form["changes"]), starts, form["facts"], bool(form["weakens"])
            )
        )
    return tuple(made)


def list_facts(begun: Mapping[str, str], amendments: Sequence[Amendment]) -> list[dict[str, str]]:
    """Return the facts that a ledger was held to, one after the other: as it was begun, and after each amendment."""
    known = [dict(begun)]
    for amendment in amendments:
        known.append({**known[-1], **amendment.facts})
    return known


def find_worth(
    stream: str, begun: Mapping[str, str], amendments: Sequence[Amendment], members: Members | None = None
) -> Worth:
    """Return what a unit of a stream was worth, step by step, from a ledger's facts.

    members  the table of members by date, where the ledger has one
    """
    known = list_facts(begun, amendments)
    since: list[tuple[int, Factors]] = []
    for facts, starts in zip(known, [{}, *(a.starts for a in amendments)], strict=True):
        if f"stream:{stream}" not in facts:
            continue
        shape = stream_shape(stream, facts)
        start = starts.get(stream, 1) if since else 1
        if since and stream not in starts:  # it had ended before
            continue
        since = [pair for pair in since if pair[0] < start]
        for step, factors in _divide(shape, start, members):
            if not since or factors != since[-1][1]:
                since.append((step, factors))
    return Worth(tuple(since))


def _divide(shape: Shape, start: int, members: Members | None) -> list[tuple[int, Factors]]:
    """What a unit is worth from a step on: as facts say, or that divided by the size of the population by date."""
    if shape.divided_by is None:
        return [(start, shape.factors)]
    if members is None:
        raise InvalidInput("the table of members by date is missing")
    sizes = members.by_step(shape.divided_by)
    held = [size for step, size in sizes if step <= start][-1]
    later = [(start, held), *((step, size) for step, size in sizes if step > start)]
    return [(step, tuple(f / size for f in shape.factors)) for step, size in later]


def follow_amendments(
    policy: Policy, begun: Mapping[str, str], amendments: Sequence[Amendment], saved: Members | None = None
) -> Policy:
    """Return the policy with what its streams were before it was amended: what a unit was worth, and where added ones begin.

    saved  the table of members by date as the ledger has it, for a policy that has none any more
    """
    if not amendments:
        return policy
    made, members = [], policy.members if policy.members.by_date else saved
    for c in channels(policy):
        key = f"stream:{c.name}"
        added = next((a for a in amendments if key in a.facts and c.name in a.starts), None)
        begins = added.starts[c.name] if key not in begun and added is not None else 1
        past = find_worth(c.name, begun, amendments, members).since
        made.append(replace(c, begins=begins, earlier=past if len(past) > 1 else ()))
    other = policy.model_copy()
    other._begun, other._channels, other._members = policy._begun, tuple(made), policy._members
    return other
