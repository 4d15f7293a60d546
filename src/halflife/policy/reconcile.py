"""Which streams of a policy are reconciled: the total and its parts must be the same statistic, so that exact values do add up.

A person's reading counts in the total, and in one part, as the same number; that is so if

- statistic, unit, resolution, clips, fold, duplicates, weights and what the missing count as are the same, from the same
source; - everybody is in one part: a public table has the whole population, or the policy says that the groups are
`complete`: that all
  readings of a person in a step lie in one of the named groups (public knowledge about the data; if it is wrong, estimates lean
  to one side, and no promise is touched);
- steps, delay, start and end are the same, so that both are published together.

All of it is checked from public keys and tables. It is post-processing: no promise depends on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from halflife.errors import InvalidInput, unknown
from halflife.mechanisms import ScheduledMechanism
from halflife.parsing.documents import Problem
from halflife.policy.model import PolicyKeys, PostProcessing
from halflife.policy.streams import Channel
from halflife.postprocessing.reconcile.rules import Rule

MOST_WEIGHT = 2**50
"""Sizes of groups that add up to more cannot be added up exactly."""


def read_rules(policy: PolicyKeys, channels: Sequence[Channel]) -> tuple[Rule, ...]:
    """Return the rules of a policy, or refuse those that cannot hold, by their lines."""
    known, used = {c.name: c for c in channels}, set[str]()
    rules = []
    for i, asked in enumerate(policy.reconcile):
        for key in ("total", "parts"):
            name = getattr(asked, key)
            with policy.about("reconcile", i, key):
                if name not in known:
                    raise unknown("stream", name, known)
                if name in used:
                    raise InvalidInput(f"{name!r} is reconciled already: a stream stands in one rule")
            used.add(name)
        problems = list(_find_problems(policy, i, known[asked.total], known[asked.parts]))
        if problems:
            raise policy.error(*problems)
        rules.append(Rule(asked.total, asked.parts, asked.non_negative))
    return tuple(rules)


def _find_problems(policy: PolicyKeys, i: int, total: Channel, parts: Channel) -> Iterator[Problem]:
    """Yield why a total is not the sum of its parts, or the two are not published together."""
    at = ("reconcile", i)
    if total.groups:
        yield (*at, "total"), f"{total.name!r} has groups: the total is a stream without"
    if not parts.groups:
        yield (*at, "parts"), f"{parts.name!r} has no groups: the parts are the groups of one stream"
    for key, c in (("total", total), ("parts", parts)):
        if c.part.source is None:
            yield (
                (*at, key),
                f"{c.name!r} is pushed by a program, step by step, and never published together with another",
            )
        if c.quantiles is not None:
            yield (*at, key), f"quantiles do not add up: {c.name!r} cannot be reconciled"
        if not isinstance(c.make_mechanism(), ScheduledMechanism):
            yield (*at, key), f"{c.name!r}: what its mechanism gives is not a value with noise of a known scale"
    yield from (((*at, "parts"), f"{what} differ: {why}") for what, why in _find_differences(total, parts))
    yield from _find_outsiders(policy, i, parts)
    if policy.reconcile[i].non_negative and not _is_non_negative(total):
        yield (*at, "non_negative"), "a person may count as less than 0 here: leave this out"


def _find_differences(total: Channel, parts: Channel) -> Iterator[tuple[str, str]]:
    """Yield in what two streams differ, and what that does to their sums."""
    a, b = total.part, parts.part
    if (total.steps.to_facts(), total.last) != (parts.steps.to_facts(), parts.last):
        yield (
            "step, start or end",
            "both must have the same steps; days and their half hours add up in revised series alone",
        )
    if (total.age, total.wait) != (parts.age, parts.wait):
        yield "delays", "both must be published at the same time"
    s, t = a.statistic, b.statistic
    if (total.measure, s.unit, s.fold, s.once) != (parts.measure, t.unit, t.fold, t.once):
        yield (
            "statistics",
            "a person must count in a part as they count in the total (kind, unit, resolution, clip, fold, …)",
        )
    if a.source is not None and b.source is not None and a.source != b.source.model_copy(update={"group": None}):
        yield "sources", "both must read the same files and columns, but for `group`"
    if total.plan.noise != parts.plan.noise:
        yield "families of noise", "write `noise` under `promise`"
    if [_form(p) for p in a.post] != [_form(p) for p in b.post]:
        yield "post-processing", "both need the same steps of it; drifts of kalman may differ"
    for post in (*a.post, *b.post):
        if post.seasonal is not None or post.kalman == "fitted":
            yield (
                "post-processing",
                "what is left of the errors of an estimate with a band for each group is not worked out: reconcile values "
                "as they are published, or with a declared `kalman`",
            )
            return
        if post.truncate is not None or post.above is not None:
            yield (
                "post-processing",
                "errors after `truncate`, or `above`, lean to one side and would add up: write `non_negative: yes` instead",
            )
            return


def _form(post: PostProcessing) -> tuple[bool, int | None, bool]:
    """What two chains must have in common."""
    return post.truncate is not None, post.moving_average, post.kalman is not None


def _find_outsiders(policy: PolicyKeys, i: int, parts: Channel) -> Iterator[Problem]:
    """Yield why somebody would count in the total and in no part, or in several."""
    asked, size, groups = policy.reconcile[i], policy.population.size, parts.part.groups
    where = ("streams", parts.index, "groups")
    if groups is None:
        return
    if parts.table is not None:
        if len(parts.table) < size:
            missing = size - len(parts.table)
            yield (
                (*where, "table"),
                f"has {len(parts.table):,} of {size:,} people: {missing:,} would count in {asked.total!r} and in no group",
            )
        if asked.complete:
            yield ("reconcile", i, "complete"), "the table says who is in which group: leave this out"
        empty = sorted(set(range(len(parts.groups))) - set(parts.table.values()))
        if empty and parts.measure.kind == "mean":
            yield (
                where,
                f"group {parts.groups[empty[0]]!r} has nobody, so it has no mean that could add up: leave it out",
            )
    else:
        if parts.most_groups > 1:
            yield (
                (*where, "most_per_person"),
                f"a person may count in {parts.most_groups} groups, and counts once in {asked.total!r}: it must be 1",
            )
        if not asked.complete:
            yield (
                ("reconcile", i, "complete"),
                f"missing: the data names the groups of {asked.parts!r}. Only if in every step all readings of a person lie in "
                "one of the named groups do they add up: write `complete: yes` if that is publicly known, else add a group for "
                "all else",
            )
    if parts.measure.kind == "mean" and sum((groups.sizes or {}).values()) >= MOST_WEIGHT:
        yield (*where, "sizes"), "add up to 2^50 or more, too many for exact sums"


def _is_non_negative(c: Channel) -> bool:
    """Whether no total can lie below 0 in public."""
    m = c.measure
    return bool(m.edges) or (min(m.low, m.missing) >= 0 and min((m.weights or {"": 0}).values()) >= 0)
