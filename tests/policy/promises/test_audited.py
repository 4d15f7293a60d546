"""Every row of the table that is accepted, through the audit's real path on the worst neighbours that its notion has."""

from __future__ import annotations

import os
import random

import pytest

from halflife.audit.policy.audit import audit_policy
from halflife.policy import Policy
from halflife.policy.promises import RULES
from halflife.policy.promises.table import Case, every_case, judge
from policy.promises.test_table import folder, write_policy

__all__ = ["folder"]

FOLDED = {
    (name, case.statistic, case.neighbours, case.groups, case.clip, case.fold): case
    for name, rules in RULES.items()
    for case in every_case()
    if judge(rules, case).accepted and case.post == "none"
}
ROWS = {key[:-1]: case for n, (key, case) in enumerate(FOLDED.items()) if n % 7 == 0 or key[-1] in ("none", "sum")}
"""A combination for each accepted row, with some fold; post-processing does not change what an audit sees."""


def audit(name: str, case: Case, place, seconds: float, runs: int) -> list[str]:
    """What the audit accuses this row of."""
    verdict = audit_policy(Policy.from_dict(write_policy(name, case), place), seconds=seconds, runs=runs)
    return [f"{name}, {case}: {f.name}: {f.found} where {f.claimed} is claimed" for f in verdict.findings if f.accused]


def test_rows_of_every_notion_are_audited():
    assert {name for name, *_ in ROWS} == set(RULES)
    assert len(ROWS) > 150


def parts_of_rows(parts: int) -> list[list[tuple[str, Case]]]:
    """The rows in so many parts, each of which has rows of every notion; in an order that SOAK_SEED repeats."""
    rows = [(name, case) for (name, *_), case in ROWS.items()]
    made = [rows[k::parts] for k in range(parts)]
    random.Random(os.environ.get("SOAK_SEED")).shuffle(made)
    return made


def test_every_part_has_rows_of_every_notion():
    assert all({name for name, _ in part} == set(RULES) for part in parts_of_rows(4))


@pytest.mark.soak
def test_no_accepted_row_is_accused(folder, time_left):
    """A quarter of the rows in any case, the others as long as there is time, and then all of them with more runs."""
    first, *others = parts_of_rows(4)
    for name, case in first:
        assert audit(name, case, folder, 0.1, 20) == []
    for runs, part in [(20, part) for part in others] + [(500, part) for part in (first, *others)]:
        for name, case in part:
            if not time_left():
                return
            assert audit(name, case, folder, 0.1 if runs == 20 else 2.0, runs) == []
