"""Which streams of a policy are reconciled: a total and its parts must be the same statistic, so that exact values do add up.

**Over groups**, in steps of one width. A person's reading counts in the total, and in one part, as the same number; that is so if

- statistic, unit, resolution, clips, fold, duplicates, weights and what the missing count as are the same, from the same source;
- everybody is in one part: a public table has the whole population, or the policy says that the groups are `complete`: that all
  readings of a person in a step lie in one of the named groups;
- steps, delay, start and end are the same, so that both are published together.

A total may have groups itself, of which each is the sum of some groups of the parts (`members`): levels of one hierarchy.

**Over time**, group by group, in steps of different widths: live nothing is done about it, as a day closes after its half hours;
the revised series (`halflife hindsight`) adds up. A day is the sum of its half hours where each reading counts in both as it is:

- sums, means over people, weighted sums and events with `fold: sum`; where everybody has as many readings in each step, means of
  steps for `fold: mean`. A person with readings in several half hours counts once in a day's count or histogram, and the last,
  least or largest of a day is that of one half hour: refused;
- with `fold: sum` who is missing counts as 0: anything else would be counted once a step;
- a clip of a half hour and one of a day cut off different things, and so do `most_events` and `most_per_person`. No public key
  tells how much, so the policy must say `complete`: that neither takes away anything worth counting.

What `complete` says is public knowledge about the data; if it is wrong, estimates lean to one side, and no promise is touched.
All of it is checked from public keys and tables. It is post-processing: no promise depends on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from halflife.errors import unknown
from halflife.mechanisms import ScheduledMechanism
from halflife.parsing.documents import Problem
from halflife.policy.model import PolicyKeys, PostProcessing
from halflife.policy.streams import Channel
from halflife.postprocessing.reconcile.rules import Rule, sort_rules

MOST_WEIGHT = 2**50
"""Sizes of groups that add up to more cannot be added up exactly."""
ADD_UP_OVER_TIME = ("sum", "mean", "weighted sum", "events")
"""Kinds of statistics of which a day may be the sum of its hours."""
LOOK_AHEAD = 400
"""So many steps of a total are looked at for one that is made of whole steps of its parts."""


def read_rules(policy: PolicyKeys, channels: Sequence[Channel]) -> tuple[Rule, ...]:
    """Return the rules of a policy, or refuse those that cannot hold, by their lines."""
    known = {c.name: c for c in channels}
    rules: list[Rule] = []
    for i, asked in enumerate(policy.reconcile):
        for key in ("total", "parts"):
            with policy.about("reconcile", i, key):
                if getattr(asked, key) not in known:
                    raise unknown("stream", getattr(asked, key), known)
        total, parts = known[asked.total], known[asked.parts]
        over_time = not total.steps.same_width(parts.steps)
        is_mean = over_time and total.part.statistic.fold == "mean"
        if policy.members.by_date:
            why = "streams add up for a population of one size: give population.size as a number, or leave this out"
            raise policy.error((("reconcile", i), why))
        rule = Rule(total.name, parts.name, asked.non_negative, (), over_time, is_mean)
        problems = list(_find_place(i, rule, rules))
        problems += _find_problems_over_time(policy, i, total, parts) if over_time else ()
        problems += () if over_time else _find_problems(policy, i, total, parts)
        if problems:
            raise policy.error(*problems)
        rules.append(rule if over_time else rule._replace(members=find_members(policy, i, total, parts)))
        with policy.about("reconcile", i, "parts"):
            sort_rules(rules)
    return tuple(rules)


def _find_place(i: int, rule: Rule, others: Sequence[Rule]) -> Iterator[Problem]:
    """Yield why a rule does not go with those before it."""
    at = ("reconcile", i)
    if rule.total == rule.parts:
        yield (*at, "parts"), f"{rule.parts!r} cannot be its own parts: name another stream"
    if any(rule.total == other.total for other in others):
        yield (
            (*at, "total"),
            f"{rule.total!r} is reconciled already: a stream is the total in one rule. Levels are a chain of rules, and what "
            "follows from others need not be said",
        )
    same = [other for other in others if other.parts == rule.parts]
    if any(other.over_time == rule.over_time is False for other in same):
        yield (*at, "parts"), f"{rule.parts!r} is reconciled already: its groups are the parts of one total"
    if same and (rule.non_negative or any(other.non_negative for other in same)):
        yield (
            (*at, "parts"),
            f"{rule.parts!r} is part of two totals: no value can be held above 0 for both, leave `non_negative` out",
        )


def _find_problems(policy: PolicyKeys, i: int, total: Channel, parts: Channel) -> Iterator[Problem]:
    """Yield why a total is not the sum of its parts over groups, or the two are not published together."""
    at = ("reconcile", i)
    if not parts.groups:
        yield (
            (*at, "parts"),
            f"{parts.name!r} has no groups: the parts are the groups of one stream, or steps of another width",
        )
    yield from _find_unknown_noise(i, total, parts)
    yield from (((*at, "parts"), f"{what} differ: {why}") for what, why in _find_differences(total, parts))
    yield from _find_outsiders(policy, i, parts)
    if total.groups and parts.groups:
        yield from _find_lost_members(policy, i, total, parts)
    elif policy.reconcile[i].members is not None:
        yield (*at, "members"), f"{total.name!r} has no groups: all groups of {parts.name!r} lie in it, leave this out"
    if policy.reconcile[i].non_negative and not _is_non_negative(total):
        yield (*at, "non_negative"), "a person may count as less than 0 here: leave this out"


def _find_unknown_noise(i: int, *both: Channel) -> Iterator[Problem]:
    """Yield which of two streams has values whose noise is not known, or that are not published together with others."""
    for key, c in zip(("total", "parts"), both, strict=True):
        if c.part.source is None:
            yield (
                ("reconcile", i, key),
                f"{c.name!r} is pushed by a program, step by step, and never published together with another",
            )
        if c.part.absent == "skip":
            yield (
                ("streams", c.index, "absent"),
                f"{c.name!r} is published together with another, of which no step may be skipped: write missing",
            )
        if c.quantiles is not None:
            yield ("reconcile", i, key), f"quantiles do not add up: {c.name!r} cannot be reconciled"
        if c.tree is not None:
            yield (
                ("reconcile", i, key),
                f"{c.name!r} publishes running totals, whose noise is shared between steps: it cannot be reconciled",
            )
        if not isinstance(c.make_mechanism(), ScheduledMechanism):
            yield (
                ("reconcile", i, key),
                f"{c.name!r}: what its mechanism gives is not a value with noise of a known scale",
            )


def _find_differences(total: Channel, parts: Channel) -> Iterator[tuple[str, str]]:
    """Yield in what two streams of one width differ, and what that does to their sums."""
    a, b = total.part, parts.part
    if (total.steps.to_facts(), total.last) != (parts.steps.to_facts(), parts.last):
        yield "start or end", "both must have the same steps"
    if (total.age, total.wait) != (parts.age, parts.wait):
        yield "delays", "both must be published at the same time"
    s, t = a.statistic, b.statistic
    if (total.measure, s.unit, s.fold, s.once) != (parts.measure, t.unit, t.fold, t.once):
        yield (
            "statistics",
            "a person must count in a part as they count in the total (kind, unit, resolution, clip, fold, …)",
        )
    if _without_group(total) != _without_group(parts):
        yield "sources", "both must read the same files and columns, but for `group`"
    if total.plan.noise != parts.plan.noise:
        yield "families of noise", "write `noise` under `promise`"
    if [_form(p) for p in a.post] != [_form(p) for p in b.post]:
        yield "post-processing", "both need the same steps of it; drifts of kalman may differ"
    for post in (*a.post, *b.post):
        if post.truncate is not None or post.above is not None:
            yield (
                "post-processing",
                "errors after `truncate`, or `above`, lean to one side and would add up: write `non_negative: yes` instead",
            )
            return


def _without_group(c: Channel) -> object:
    return None if c.part.source is None else c.part.source.model_copy(update={"group": None})


def _form(post: PostProcessing) -> tuple[bool, int | None, bool, bool]:
    """What two chains must have in common."""
    return post.truncate is not None, post.moving_average, post.kalman is not None, post.seasonal is not None


def _find_outsiders(policy: PolicyKeys, i: int, parts: Channel) -> Iterator[Problem]:
    """Yield why somebody would count in the total and in no part, or in several."""
    asked, size, groups = policy.reconcile[i], policy.members.largest, parts.part.groups
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


# Levels -----------------------------------------------------------------------------------------------------------------


def find_members(policy: PolicyKeys, i: int, total: Channel, parts: Channel) -> tuple[int, ...]:
    """Return in which of a total's groups each group of the parts lies, by its place; none if the total has no groups."""
    if not total.groups:
        return ()
    if total.table is not None and parts.table is not None:
        inside = {group: total.table[person] for person, group in parts.table.items()}
        return tuple(inside.get(k, 0) for k in range(len(parts.groups)))
    given = policy.reconcile[i].members or {}
    return tuple(total.groups.index(_find_group(given, name)) for name in parts.groups)


def _find_group(members: Mapping[str, Sequence[str]], name: str) -> str:
    return next(group for group, names in members.items() if name in names)


def _find_lost_members(policy: PolicyKeys, i: int, total: Channel, parts: Channel) -> Iterator[Problem]:
    """Yield why groups of the parts do not lie in groups of the total."""
    at, given = ("reconcile", i, "members"), policy.reconcile[i].members
    if (total.table is None) != (parts.table is None):
        yield (
            (*at[:2], "parts"),
            "a table fixes the groups of one of them alone: a person's readings may count in groups that are not of one another",
        )
    elif total.table is not None and parts.table is not None:
        if given is not None:
            yield at, "the tables say it: leave this out"
        yield from _find_torn_groups(at, total, parts)
    elif given is None:
        yield (
            at,
            f"missing: which groups of {parts.name!r} lie in each group of {total.name!r}, as `members: {{north: [n1, n2]}}`",
        )
    else:
        if total.most_groups > 1:
            yield (
                ("streams", total.index, "groups", "most_per_person"),
                "must be 1: a person counts in one group of each level",
            )
        named = [name for names in given.values() for name in names]
        wrong = [*(set(given) ^ set(total.groups)), *(set(named) ^ set(parts.groups))]
        twice = sorted({name for name in named if named.count(name) > 1})
        if wrong or twice:
            yield at, f"each group of both must stand there once: see {', '.join(sorted(wrong or twice)[:5])}"


def _find_torn_groups(at: tuple[str | int, ...], total: Channel, parts: Channel) -> Iterator[Problem]:
    """Yield a group whose people lie in two groups of the total, by the tables; and one whose people lie in none."""
    assert total.table is not None
    assert parts.table is not None
    inside: dict[int, int] = {}
    for person, group in parts.table.items():
        if person not in total.table or inside.setdefault(group, total.table[person]) != total.table[person]:
            yield at, f"the people of {parts.groups[group]!r} are not all in one group of {total.name!r}, by the tables"
            return
    if len(set(inside.values())) < len(total.groups):
        yield at, f"a group of {total.name!r} has nobody of {parts.name!r}: leave it out"


# Over time --------------------------------------------------------------------------------------------------------------


def _find_problems_over_time(policy: PolicyKeys, i: int, total: Channel, parts: Channel) -> Iterator[Problem]:
    """Yield why a step of the total is not the sum, or mean, of steps of the parts."""
    at, asked = ("reconcile", i), policy.reconcile[i]
    yield from _find_unknown_noise(i, total, parts)
    yield from (((*at, "parts"), f"{what} differ: {why}") for what, why in _find_differences_over_time(total, parts))
    s = total.part.statistic
    if s.kind not in ADD_UP_OVER_TIME:
        yield (
            (*at, "total"),
            f"a {s.kind} does not add up over time: a person counts once in a step, however many steps it is the sum of",
        )
    elif s.kind != "events" and s.fold not in ("sum", "mean"):
        yield (
            (*at, "total"),
            f"with `fold: {s.fold}` the value of a long step is no sum of those of short ones: only sum and mean are",
        )
    if s.fold == "sum" and (total.measure.missing or parts.measure.missing):
        yield (*at, "total"), "who is missing would count once in each step: with `fold: sum`, `missing` must be 0"
    if not _fill_steps(total, parts):
        yield (*at, "parts"), f"no step of {total.name!r} is made of whole steps of {parts.name!r}"
    if asked.members is not None:
        yield (*at, "members"), "over time each group adds up by itself: leave this out"
    if not asked.complete:
        also = ", and everybody has as many readings in each step" if s.fold == "mean" else ""
        yield (
            (*at, "complete"),
            f"missing: what one person counts as is clipped in each step of {asked.parts!r} and of {asked.total!r}. Only if "
            f"neither takes away anything worth counting{also} do they add up: write `complete: yes` if that is publicly known",
        )
    if asked.non_negative and not (_is_non_negative(total) and _is_non_negative(parts)):
        yield (*at, "non_negative"), "a person may count as less than 0 here: leave this out"


def _find_differences_over_time(total: Channel, parts: Channel) -> Iterator[tuple[str, str]]:
    """Yield in what two streams of different widths differ beside their steps, clips and delays."""
    a, b = total.measure, parts.measure
    s, t = total.part.statistic, parts.part.statistic
    if (replace(a, low=b.low, high=b.high), s.unit, s.fold, s.once) != (b, t.unit, t.fold, t.once):
        yield (
            "statistics",
            "a reading must count in both as the same number (kind, unit, resolution, clip_readings, fold, …)",
        )
    if (total.groups, total.table) != (parts.groups, parts.table):
        yield "groups", "each group adds up by itself, so both must have the same"
    if total.factors != parts.factors:
        yield "sizes of groups", "a mean must be over as many people in both"
    if total.part.source != parts.part.source:
        yield "sources", "both must read the same files and columns"
    if total.steps.width < parts.steps.width:
        yield "widths", f"steps of {total.name!r} are the shorter ones: exchange the two"


def _fill_steps(total: Channel, parts: Channel) -> bool:
    """Whether one of the first steps of the total begins and ends where steps of the parts do."""
    last = LOOK_AHEAD if total.last is None else min(LOOK_AHEAD, total.last)
    edges = total.steps.edges(1, last)
    meets = [parts.steps.start(parts.steps.step(us)) == us for us in edges.tolist()]
    inside = (edges >= parts.steps.start_us).tolist()
    return any(a and b and c for a, b, c in zip(meets, meets[1:], inside, strict=False))


def _is_non_negative(c: Channel) -> bool:
    """Whether no total can lie below 0 in public."""
    m = c.measure
    return bool(m.edges) or (min(m.low, m.missing) >= 0 and min((m.weights or {"": 0}).values()) >= 0)
