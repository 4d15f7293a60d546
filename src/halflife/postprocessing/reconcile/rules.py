"""Which streams are reconciled with which, and the record of that, each rule with the step from which on it is in force.

The record is public and stays with the ledger, under the name of the total's stream, so that every step can be worked out again.
A rule may be changed or taken back at any time: it is post-processing, and another one holds from the next step on.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from halflife.errors import InvalidInput
from halflife.numerics.forms import JsonObject, leave_out, read_form
from halflife.numerics.parameters import whole


class Rule(NamedTuple):
    """The stream `total` is the sum over the groups of the stream `parts`; with `non_negative` no estimate lies below 0.

    members    where the total has groups too: in which of them each group of the parts lies, by its place
    over_time  the total's steps are the sums of the parts' steps, group by group: live nothing is done about it
    is_mean    over time: the total's steps are the means of the parts' steps
    """

    total: str
    parts: str
    non_negative: bool = False
    members: tuple[int, ...] = ()
    over_time: bool = False
    is_mean: bool = False

    def to_facts(self) -> JsonObject:
        """Return what a ledger keeps of it beside the name of the total, without defaults."""
        facts = {"parts": self.parts, "non_negative": self.non_negative, "members": list(self.members)}
        return leave_out(facts, non_negative=False, members=[])


def sort_rules(rules: Iterable[Rule]) -> list[Rule]:
    """Return rules from the top down: a total before the rules of its parts; refuse those that go round in a circle.

    >>> [rule.total for rule in sort_rules([Rule("boroughs", "zones"), Rule("city", "boroughs")])]
    ['city', 'boroughs']
    """
    left, made = list(rules), list[Rule]()
    while left:
        first = next((rule for rule in left if all(rule.total != other.parts for other in left)), None)
        if first is None:
            raise InvalidInput(
                f"{left[0].total!r} would be a part of itself: rules go round in a circle", about=left[0].total
            )
        made.append(first)
        left.remove(first)
    return made


def connect_rules(rules: Sequence[Rule]) -> list[tuple[Rule, ...]]:
    """Return rules that share streams together, each set from the top down.

    >>> sets = connect_rules([Rule("city", "zones"), Rule("days", "hours"), Rule("months", "days")])
    >>> [[rule.total for rule in found] for found in sets]
    [['city'], ['months', 'days']]
    """
    sets: list[list[Rule]] = []
    for rule in rules:
        near = [
            s for s in sets if {rule.total, rule.parts} & {name for other in s for name in (other.total, other.parts)}
        ]
        sets = [s for s in sets if s not in near]
        sets.append([*(other for s in near for other in s), rule])
    return [tuple(sort_rules(found)) for found in sets]


class RuleSince(NamedTuple):
    """A rule, None if it was taken back, and the step from which on it is in force."""

    step: int
    rule: Rule | None


RuleRecord = tuple[RuleSince, ...]
"""The rules for a total, oldest first; empty if it never had any."""


def find_rule(record: RuleRecord, step: int) -> Rule | None:
    """Return the rule in force at a step."""
    return next((since.rule for since in reversed(record) if since.step <= step), None)


def add_rule(record: RuleRecord, rule: Rule | None, step: int) -> RuleRecord:
    """Return the record with this rule from `step` on; the same record if it held already. What was never used is replaced.

    >>> record = add_rule((), Rule("city", "zones"), 1)
    >>> add_rule(record, Rule("city", "zones"), 9) is record, add_rule((), None, 9)
    (True, ())
    >>> [(since.step, since.rule is None) for since in add_rule(record, None, 9)]
    [(1, False), (9, True)]
    >>> add_rule(add_rule(record, None, 9), Rule("city", "zones"), 9) == record, add_rule(record, None, 1)
    (True, ())
    """
    if _newest(record) == rule:
        return record
    before = tuple(since for since in record if since.step < step)
    return before if _newest(before) == rule else (*before, RuleSince(step, rule))


def _newest(record: RuleRecord) -> Rule | None:
    return record[-1].rule if record else None


def dump_rules(record: RuleRecord) -> str:
    """Return the record as JSON."""
    rules = [{"from": s.step, "rule": None if s.rule is None else s.rule.to_facts()} for s in record]
    return json.dumps({"version": 1, "rules": rules})


def load_rules(total: str, text: str) -> RuleRecord:
    """Read what `dump_rules` gave for a total of this name.

    >>> record = (RuleSince(3, Rule("city", "zones", True)), RuleSince(8, None))
    >>> load_rules("city", dump_rules(record)) == record
    True
    """
    form = read_form("a record of reconciliation", json.loads(text), ("rules",))
    if not isinstance(form["rules"], list):
        raise InvalidInput("a record of reconciliation must hold a list of rules")
    record = []
    for item in form["rules"]:
        since = read_form("a rule of reconciliation", item, ("from", "rule"))
        rule = None
        if since["rule"] is not None:
            facts = read_form("a rule of reconciliation", since["rule"], ("parts",), non_negative=False, members=[])
            members = tuple(whole("members", place, least=0) for place in facts["members"])
            rule = Rule(total, str(facts["parts"]), bool(facts["non_negative"]), members)
        record.append(RuleSince(whole("from", since["from"], least=1), rule))
    if any(b.step <= a.step for a, b in pairwise(record)):
        raise InvalidInput("the rules of reconciliation must follow each other")
    return tuple(record)
