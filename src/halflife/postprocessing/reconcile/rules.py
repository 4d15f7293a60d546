"""Which streams are reconciled with which, and the record of that, each rule with the step from which on it is in force.

The record is public and stays with the ledger, under the name of the total's stream, so that every step can be worked out again.
A rule may be changed or taken back at any time: it is post-processing, and another one holds from the next step on.
"""

from __future__ import annotations

import json
from itertools import pairwise
from typing import NamedTuple

from halflife.errors import InvalidInput
from halflife.numerics.forms import JsonObject, leave_out, read_form
from halflife.numerics.parameters import whole


class Rule(NamedTuple):
    """The stream `total` is the sum over the groups of the stream `parts`; with `non_negative` no estimate lies below 0."""

    total: str
    parts: str
    non_negative: bool = False

    def to_facts(self) -> JsonObject:
        """Return what a ledger keeps of it beside the name of the total, without defaults."""
        return leave_out({"parts": self.parts, "non_negative": self.non_negative}, non_negative=False)


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
            facts = read_form("a rule of reconciliation", since["rule"], ("parts",), non_negative=False)
            rule = Rule(total, str(facts["parts"]), bool(facts["non_negative"]))
        record.append(RuleSince(whole("from", since["from"], least=1), rule))
    if any(b.step <= a.step for a, b in pairwise(record)):
        raise InvalidInput("the rules of reconciliation must follow each other")
    return tuple(record)
